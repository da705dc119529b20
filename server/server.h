/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The struct that every part of the claim server gets: pointers to the other parts, and its own data. No
 * part's header is included; daemon.h puts them together. */

#include "config.h"

#include "base/error.h"
#include "base/tree.h"
#include "lead/trouble.h"
#include "rpc/peer_count.h"
#include "rpc/pki.h"
#include "rpc/server.h"
#include "rpc/tls.h"
#include "state/state.h"
#include "store/kv.h"
#include "ticket/ticket.h"

#include <limits.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>
#include <systemd/sd-event.h>

struct audit_limits;
struct authority;
struct backup;
struct ca_change;
struct certificate;
struct change_author;
struct change_observer;
struct disk;
struct session_events;
struct service_status;
struct service_watchdog;
struct issuers;
struct events;
struct fencers;
struct fences;
struct losses;
struct schedules;
struct forward;
struct refused_peers;
struct restore;
struct watch;
struct controllers;
struct gc;
struct lead;
struct rates;
struct releases;
struct warnings;
RB_HEAD(watch_tree, watch);
TAILQ_HEAD(watch_queue, watch);
RB_HEAD(volume_work_tree, volume_work);
LIST_HEAD(snapshotting_list, snapshotting);

LIST_HEAD(task_stream_list, task_stream);
TAILQ_HEAD(session_queue, session);

enum { WATCH_TABLES = 7 };

/* Sessions in the order in which something was heard of them; see node/session.h. */
struct silence {
	struct session_queue sessions; /* that have sent hello; the most silent one first */
	sd_event_source *timer;	       /* owned */
	uint64_t look_us;	       /* between two looks */
	uint64_t listened_us;	       /* time in which the server has read what came */
	uint64_t heartbeat_min_us;     /* the shortest interval sent to any session since the start */
	uint64_t n_ended;	       /* sessions, since the start */
};

/* The last log entry about a store that stores nothing; see state/stall.h. */
struct stall {
	enum trouble_kind kind;
	uint64_t log_us; /* monotonic, when it is logged again */
	uint64_t pause_us;
};

/* The changes and reads of callers that wait for the store; see change.h. */
struct authors {
	const struct change_author *current; /* NULL: the server commits by itself */
	struct peer_count_tree waiting;	     /* by name */
	size_t n;			     /* those of people, all together */
	size_t bytes;
};

#define SERVER_STORE "holdfast.db" /* in data_dir */

/* Those of the settings, or ones that the server made. */
struct server_files {
	char ca[PATH_MAX];
	char cert[PATH_MAX];
	char key[PATH_MAX];
};

/* Parts behind pointers without a stated owner are the daemon's and last as long as this does. */
struct server {
	struct config config;
	struct local_operators local_operators;
	sd_event *event;
	struct lead *lead;	 /* owned; NULL: the store is in sqlite; see lead/lead.h */
	struct forward *forward; /* owned; NULL where lead is */
	struct kv *kv;		 /* NULL while another one leads */
	struct state state;
	const struct change_observer *observers; /* see change.h */
	size_t n_observers;
	const struct session_events *session_events; /* see node/session.h */
	/* access_check_open(), for the review of calls in access/revocations.c, which access.c calls */
	enum status (*check_open)(struct server *server, const struct rpc_call *call, struct error *err);
	struct ticket_issuer *issuer;
	struct ticket_signer *signer; /* see ticket/ticket.h */
	EVP_MD *sha256;		      /* owned; for the audit */
	struct rpc_tls *tls;
	struct server_files in_use; /* of tls; see certificate.h */
	struct rpc_server *rpc;
	struct controllers *controllers; /* see controller.h */
	struct releases *releases;	 /* see release.h */
	struct gc *gc;			 /* see gc.h */
	struct fencers *fencers;	 /* see fence/fencers.h */
	struct fences *fences;		 /* see fence/fences.h */
	struct network *network;	 /* see fence/network.h */
	struct losses *losses;		 /* see fence/loss.h */
	struct schedules *schedules;	 /* see volume/schedules.h */
	struct warnings *warnings;	 /* owned; see warnings.h */
	/* Can a connected fencer switch the node off, as evidence for that boot? NULL: no. Set by
	 * fence/fences.c. */
	bool (*can_power_fence)(struct server *server, const struct node_entry *node, const char *boot_id);
	/* Can the storage of the plugin refuse the node? The same. */
	bool (*can_network_fence)(struct server *server, const struct claim *claim);
	/* Does the storage of the plugin accept the node in its boot? STATUS_FAILED_PRECONDITION; NULL: yes.
	 */
	enum status (*check_not_fenced)(struct server *server, const struct node_entry *node,
					const char *plugin_id, struct error *err);
	/* How far is the snapshot schedule of the volume? False when memory is short. Set by
	 * volume/schedules.c; NULL: no schedules. */
	bool (*show_schedule)(struct server *server, const struct volume_entry *entry,
			      Holdfast__V1__SnapshotScheduleState **ret);
	struct watch_tree watches;   /* see watch.h */
	struct watch_queue due;	     /* of these, those to be answered; set up with watch_turn */
	sd_event_source *watch_turn; /* owned; NULL: no call was due yet */
	struct refused_peers *refused_peers;
	size_t n_watches;
	struct peer_count_tree watch_callers, long_callers;
	uint64_t watch_serial;
	uint64_t watch_indexes[WATCH_TABLES];
	uint64_t start_index;	 /* of the store when it was opened */
	uint64_t jobs_end_index; /* when a job lost its last allocation, since then */
	struct audit_limits *audit;
	uint16_t port;	   /* listening there */
	struct disk *disk; /* see disk.h */
	struct stall stall;
	struct authors authors;
	int mark_errno;			       /* that was logged last, see marks.h */
	struct marks_followed *marks_followed; /* owned; NULL: not in use, see marks.h */
	struct certificate *certificate;       /* see certificate.h */
	struct issuers *issuers;	       /* of callers' certificates; see access/issuers.h */
	struct ca_change *ca_change;	       /* see ca_change.h */
	struct authority *authority;	       /* owned; NULL: it issues nothing; see identity/authority.h */
	struct pki_facts own;		       /* of the server's certificate; 0 and "": not known */
	int64_t trust_ends_at_ms;	       /* its CAs expire, the last one; 0: not known */
	int64_t trust_begins_at_ms; /* its only CA was made, after a change of the CA; 0: no certain moment */
	struct job_works *job_works;		/* owned; see job/job_work.h */
	struct pending *pending;		/* owned; NULL: nothing was pending; see alloc/allocs.h */
	struct volume_work_tree volume_works;	/* see volume/work.h */
	struct snapshotting_list snapshottings; /* see volume/snapshots.c */
	size_t n_sessions;
	struct events *events;		      /* owned */
	struct service_status *service;	      /* owned; NULL without a service manager */
	struct service_watchdog *watchdog;    /* the same */
	struct backup *backup;		      /* owned; NULL: no backup */
	struct restore *restore;	      /* owned; NULL: no restore */
	size_t n_greeting;		      /* sessions that have not sent hello */
	struct session_queue greeting;	      /* they, the oldest first */
	struct task_stream_list task_streams; /* see alloc/streams.h */
	size_t n_task_streams;
	struct rates *execs;		/* owned; of commands, see alloc/streams.c */
	struct rates *histories;	/* owned; of reads of history, see freed.c */
	const struct rpc_call *reading; /* of the read in progress, see api/watch.c; or NULL */
	struct silence silence;		/* see node/session.h */
	uint64_t session_serial;
	sd_event_source *reload;	  /* owned; see reload.h */
	sd_event_source *review;	  /* owned; of calls after a revocation, see access/revocations.h */
	sd_event_source *node_down_timer; /* owned; when the next node counts as down, see node/down.h */
	bool has_ends_due;		  /* a node's is_end_due may be set */
	int64_t started_ms;		  /* nodes without a session are missed since then at the earliest */
	uint64_t leads_since_us;	  /* CLOCK_MONOTONIC */
	bool is_ending;			  /* sessions end because the server does */
	bool is_superseded; /* another store takes the place: nothing of this one is acknowledged */
	bool is_serving;    /* the store is open and its state loaded */
	bool failed;
	struct error failure; /* why it failed; STATUS_OK: it has not, or the store broke */
	int exit_code;	      /* of the process, when it has failed */
	bool restarting;
	bool has_stepped_down;		  /* the next one leaves the lead to others */
	sd_event_source *step_down_timer; /* owned; NULL: not requested */
};

/** Ends the loop so that main() builds a new server. */
void server_restart(struct server *server);

/** Ends the loop with @err, for a reason that is not the store's. */
void server_end(struct server *server, const struct error *err);

/** Ends the server: state in memory may be ahead of the disk. Calls that are still open get no answer. */
void server_fail(struct server *server, const struct error *err);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The server's state in memory: volumes, nodes, allocations and claims with the links between them. Freed
 * claims are kept only in the store, see freed.h. Exceptions: the freeing is not durable yet, or a caller has
 * just asked for the claim.
 *
 * Owned by struct server; changed only by change_commit() and by load, read by all modules. Entries stay
 * at their address until they are deleted, so a pointer is valid for the duration of a callback, never
 * across one. Look-ups cost the logarithm of the number of registered objects. Walking the claims of one
 * volume, allocation or node costs their number. */

#include "base/backoff.h"
#include "base/rate_counted.h"
#include "base/tree.h"
#include "model/alloc.h"
#include "model/claim.h"
#include "model/explain.h"
#include "model/node.h"
#include "model/storage.h"
#include "model/volume.h"
#include "rpc/peer.h"
#include "state/namespaces.h"
#include "state/records.h"
#include "state/usage_index.h"
#include "state/wish_index.h"
#include "ticket/ticket.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>
#include <systemd/sd-event.h>

struct server;
struct rpc_call;
struct session;

enum {
	CLAIMS_PER_VOLUME_MAX = 4096, /* live ones */
	CLAIM_FAILING_ATTEMPTS = 3,   /* fewer may pass by themselves */
	RELEASE_RETRY_MIN_MS = 1000,  /* between two tries to release a claim, at first */
};

LIST_HEAD(instance_list, instance_entry);
RB_HEAD(plugin_volume_tree, volume_entry);
RB_HEAD(unmatched_tree, claim_entry);
LIST_HEAD(claim_list, claim_entry);
TAILQ_HEAD(claim_queue, claim_entry);
RB_HEAD(controller_tree, instance_entry);
RB_HEAD(provider_id_tree, instance_entry);
RB_HEAD(instance_tree, instance_entry);
RB_HEAD(runner_tree, plugin_runner);
LIST_HEAD(rival_list, rival_link);

/* The work on a claim, in memory only; of release.c and grant.c. */
struct claim_work {
	enum claim_state state;	      /* that it is about */
	uint32_t n_grants;	      /* calls of the node for it that wait for the controller */
	sd_event_source *timer;	      /* owned; the next try */
	struct backoff backoff;	      /* in that state */
	struct ticket_ahead *ticket;  /* owned; being signed for the call that made the claim; NULL: no such
				       * ticket */
	bool is_asked : 1;	      /* the controller, to detach: the call is queued or is in flight */
	bool is_unsent : 1;	      /* no such call has gone out; false when that is not known */
	bool is_stuck : 1;	      /* its last one failed: it is in the queue of those */
	bool was_called : 1;	      /* and the plugin may have been reached */
	bool is_wait_recorded : 1;    /* see RELEASE_WAIT_LONG_MS */
	bool is_taken_back_again : 1; /* see held_twice_check_end() */
	enum explain_actor waits_for; /* at the last sweep; ACTOR_NOBODY: no sweep since the start */
	int64_t waits_since_ms;
	TAILQ_ENTRY(claim_entry) stuck;
	uint64_t n_notes;	    /* of all plugins when it was queued there; see push_some() */
	uint64_t without_plugin_us; /* monotonic: when its node last got the order to continue without its
				     * plugin */
};

struct claim_entry {
	const char *id; /* of the value below: the tree's key */
	struct claim claim;
	RB_ENTRY(claim_entry) by_id;
	LIST_ENTRY(claim_entry) of_volume;  /* of the volume's list, newest first */
	RB_ENTRY(claim_entry) of_unmatched; /* if it is_unmatched */
	LIST_ENTRY(claim_entry) of_alloc;
	LIST_ENTRY(claim_entry) of_node;
	struct volume_entry *volume; /* never NULL: a volume with claims cannot be deregistered */
	struct node_entry *node;     /* never NULL; may be known by its id only */
	struct server *server;	     /* borrowed */
	struct claim_work work;
	uint32_t n_pending; /* changes of it that are not durable */
	uint32_t n_rivals;  /* live claims that exclude it: of its volume, and of rivals */
	bool is_releasing;  /* as the state counts it: on its way to be freed, or its work was ordered to stop
			     */
	bool is_node_failing; /* likewise: and its node's last try to release it failed */
	bool is_unmatched;    /* it is in the tree of those, see storage_next_unmatched() */
	bool is_recalled;     /* it is freed, and in the list of those, see freed.h */
	bool is_unpaired;     /* it is live, and in the list of those: its last pair has ended */
	union {
		LIST_ENTRY(claim_entry) of_recalled;
		LIST_ENTRY(claim_entry) of_unpaired;
	};
	uint64_t reported_by;	   /* serial of the session whose report named it */
	struct claim_usage *usage; /* owned; NULL: not known, see usage_index.h */
	struct rival_list rivals;  /* by other names, see state_pair_rivals() */
};

/* Kinds of claims of which any number are compatible, see count_rivals(); 0: others. */
#define CLAIM_CROWDS (1 + 2 * (int)ATTACHMENT_MODE_N)

struct volume_entry {
	const char *namespace; /* of the value below: the tree's key, with id */
	const char *id;
	/* its generation is never below one of its claims'. A grant stores only the claim, not the volume,
	 * so the generation of a live claim may exceed the stored one */
	struct volume volume;
	uint64_t stored_generation;  /* what the store's record of it has */
	uint64_t durable_generation; /* of the record and the claims that are durable: tickets have no later
					one */
	bool is_asked; /* its provider is being asked, or the answer is not stored yet: see volume/work.h */
	RB_ENTRY(volume_entry) by_key;
	RB_ENTRY(volume_entry) of_plugin;  /* in the order of by_key */
	struct storage_id storage;	   /* of the value and its stored detail */
	RB_ENTRY(volume_entry) by_storage; /* if that is known; see storage_first() */
	struct state *state;		   /* borrowed */
	struct plugin_entry *plugin;	   /* never NULL; its plugin may be known by name only */
	struct claim_list claims;
	size_t n_live;
	size_t n_was_freed;	      /* of the live ones, those that were freed before; see held_twice.h */
	size_t n_rivals;	      /* such pairs of live ones, and rival_links */
	size_t n_crowd[CLAIM_CROWDS]; /* live ones by crowd */
	size_t n_freed;		      /* claims since history was last pruned */
	uint64_t freed_index; /* when a claim that has left the state was last changed, since the start */
};

/* Each of two live claims of one storage, by two names, that exclude each other lists the other. */
struct rival_link {
	LIST_ENTRY(rival_link) of_claim;
	struct claim_entry *other; /* borrowed */
	struct rival_link *back;   /* borrowed; that of the other */
};

/* Is more mounted of it than its access mode allows? */
static inline bool volume_is_held_twice(const struct volume_entry *volume)
{
	return volume->n_was_freed > 0 || volume->n_rivals > 0;
}

struct alloc_entry {
	const char *id; /* of the value below: the tree's key */
	struct alloc alloc;
	RB_ENTRY(alloc_entry) by_id;
	RB_ENTRY(alloc_entry) by_key;	/* by namespace and id */
	RB_ENTRY(alloc_entry) of_ended; /* if it is_ended */
	RB_ENTRY(alloc_entry) of_node_by_key;
	LIST_ENTRY(alloc_entry) of_node; /* if it is not client-terminal */
	struct node_entry *node;	 /* never NULL; it may be known by name only */
	struct plugin_runner
		*runs; /* owned; one for each plugin of the value, in its order; NULL: it runs no plugin */
	struct job_entry *job; /* its job; NULL: it has no job */
	LIST_ENTRY(alloc_entry) of_job;
	/* of the last decision of its job about it: that version goes by it until then, see job_reconcile.h
	 */
	uint64_t decided_version; /* 0: no version, since it changed */
	int64_t needed_until_ms;
	char *avoid_node_id; /* owned; of one that waits: where its member failed last; NULL: no such node */
	LIST_ENTRY(alloc_entry) of_pending; /* while it is_pending, see alloc_is_pending() */
	struct claim_list claims;
	uint64_t repeats_paid_us; /* of a struct rate: see grant.c; not stored */
	struct alloc_wishes wishes;
	uint64_t looked, seen; /* of alloc/pending.c: in which look it was tried, or found */
	uint32_t n_runs;
	uint32_t waits_for;   /*  then: the number of the volume that it waits for, from 1; 0: no volume */
	uint64_t freed_index; /* as the volume's */
	uint64_t reported_by; /* serial of the session whose report named it */
	uint64_t runs_in;     /* serial of the session that last reported it running; 0: never */
	uint64_t in_hello_of; /* serial of the session whose hello named it */
	uint32_t n_granted;   /* claims since the start */
	uint32_t n_again;     /* free ones since then, see held_twice_check_end() */
	uint32_t bytes;	      /* that are charged to its namespace, or its node if it is adopted */
	bool is_ended;	      /* as it is charged and listed */
	bool is_pending;
	uint16_t ordered; /* bits of its tasks and its network whose order is on record since the start */
};
LIST_HEAD(alloc_list, alloc_entry);
RB_HEAD(alloc_key_tree, alloc_entry);
RB_HEAD(node_alloc_tree, alloc_entry);

/* A plugin that an allocation runs. */
struct plugin_runner {
	struct alloc_entry *alloc;
	struct plugin_entry *plugin;
	RB_ENTRY(plugin_runner) of_plugin; /* by the allocation's namespace and id */
};

/* A job that allocations name; deleted with the last of them. The job itself is a record. */
struct job_entry {
	const char *namespace; /* of the arrays below: the tree's key, with id */
	const char *id;
	char namespace_name[NAMESPACE_MAX + 1];
	char job_id[JOB_ID_MAX + 1];
	RB_ENTRY(job_entry) by_key;
	struct alloc_list allocs; /* those that ended as well */
	size_t n_allocs;
	size_t n_heritable; /* of them: those that hand their place in a queue on, see alloc_is_heritable() */
	uint64_t modify_index; /* of the last change of one of them */
};
RB_HEAD(job_tree, job_entry);

/* Events that a node causes by itself and that are recorded. */
enum node_event {
	NODE_EVENT_CONNECT,
	NODE_EVENT_DISCONNECT,
	NODE_EVENT_DISK,
	NODE_EVENT_DOUBT,
	NODE_EVENT_REPORT,
	NODE_EVENT_PLUGIN,
	NODE_EVENT_DRIVER,
	NODE_EVENT_CERTIFICATE,
	NODE_EVENT_USAGE,
	NODE_EVENT_N,
};

/* A node. Claims and allocations may name one that is not registered, or was deleted: then only its name
 * is known. */
struct node_entry {
	const char *id; /* of the value below: the tree's key */
	struct node node;
	RB_ENTRY(node_entry) by_id;
	struct alloc_list allocs;	      /* those that are not client-terminal */
	struct node_alloc_tree allocs_by_key; /* all of them */
	struct claim_list claims;
	struct instance_list instances;
	int64_t certificate_expires_ms; /* of its session, or the renewed one; 0: not known; not stored */
	char session_issuer[RPC_KEY_ID_SIZE]; /* of that certificate; not stored */
	char session_serial[RPC_SERIAL_SIZE]; /* of the renewed one; or empty; not stored */
	int64_t certificate_warned_ms;	      /* the expiry that was recorded; not stored */
	struct session *session;	      /* borrowed; NULL: not connected. Set by state_set_session() */
	const struct rpc_call *session_call;  /* of it; borrowed, valid as long as it is connected */
	const struct plugin_runner *counted;  /* of plugins.c; not NULL only while it counts a plugin */
	struct message_list *drivers;	      /* NodeDriver, from its last report; not stored */
	size_t n_live;			      /* claims that are not freed */
	size_t n_renamed;		      /* of these, those that the node knows by another id */
	size_t n_allocs;		      /* in the tree above */
	size_t n_live_allocs;		      /* that are not client-terminal */
	size_t n_pending;     /* objects that change by its messages and are not durable yet */
	size_t pending_bytes; /* and the memory that the store has for them */
	bool is_end_due;      /* the end of its last session is not stored */
	bool is_unreported;   /* has not reported its mounts since the last restore, see epoch.h */
	LIST_ENTRY(node_entry) of_unreported;
	bool is_absent;	    /* it is in the list of those, see node/down.h */
	bool has_hello;	    /* it has connected since this server leads: its drivers are known; not stored */
	bool is_awaited;    /* connected until this server began to lead, and not back yet; not stored */
	uint64_t heard_us;  /* monotonic; when last_seen_ms was; 0: before this server began to lead */
	uint64_t gone_us;   /* monotonic; since when this server misses it, 0: it was down before the start */
	uint64_t proved_us; /* monotonic; when this server first got the proof of its last order to switch
			       it off, 0: not since it leads */
	TAILQ_ENTRY(node_entry) of_absent;
	/* KeyValue, from its last hello; not stored */
	struct message_list *attributes;
	struct rate_counted events[NODE_EVENT_N]; /* records of them; not stored */
	struct rate_counted adoptions;		  /* of work that the store lacks; not stored */
	struct rate_counted searches;		  /* of claims that memory lacks; not stored */
	size_t adopted_bytes;			  /* of allocations that it reported; not stored */
	struct rate_counted usage_lines;	  /* of the log; not stored */
	struct rate_counted orders;		  /* records of repeated ones; not stored */
	struct rate_counted again;		  /* see held_twice.h; not stored */
	struct rate_counted refusals;		  /* of other machines; not stored */
	struct rate_counted regrants;		  /* to allocations that had many claims; not stored */
	char tried_boot[UUID_TEXT_SIZE];	  /* of the last hello, see nodes_note_boot(); not stored */
	uint64_t tried_us;			  /* monotonic; when it came; 0: never */
	uint64_t kept_out_us; /* monotonic; when others with its certificate last kept it out; 0: never */
};
LIST_HEAD(node_list, node_entry);
TAILQ_HEAD(absent_list, node_entry);

/* The fingerprint that one node reports of one plugin, or of one profile of the native plugin. */
struct instance_entry {
	struct plugin_instance instance;
	LIST_ENTRY(instance_entry) of_node;
	RB_ENTRY(instance_entry) of_plugin;
	LIST_ENTRY(instance_entry) of_offer;
	RB_ENTRY(instance_entry) by_node; /* of the plugin's controllers */
	bool is_controller;		  /* it is among them */
	RB_ENTRY(instance_entry) by_provider_id;
	struct node_entry *node;
	struct plugin_entry *plugin;
	struct plugin_offer *offer;
};

/* The counts of a plugin, or of one profile of the native plugin. */
struct plugin_summary {
	uint32_t nodes_healthy, nodes_expected; /* expected: reported by a node, connected or not, healthy or
						 * not, or to be run there by an allocation */
	uint32_t controllers_healthy, controllers_expected;
	bool controller_required;
	char provider[NODE_TEXT_MAX + 1];
	char provider_version[NODE_TEXT_MAX + 1];
	uint64_t modify_index; /* of the plugin */
};

/* The instances that serve one profile; of a CSI plugin there is one, with the profile "". */
struct plugin_offer {
	const char *profile; /* of the array below: the tree's key */
	char name[PROFILE_MAX + 1];
	RB_ENTRY(plugin_offer) by_profile;
	struct instance_list instances;
	struct plugin_summary summary; /* see plugins.h */
	bool is_fresh;		       /* no fact has changed since the summary was made */
};
RB_HEAD(offer_tree, plugin_offer);

enum { PLUGIN_EVENTS_MAX = 10, PLUGIN_EVENT_TEXT_MAX = 255 };

/* An instance came, went, or changed its health. */
struct plugin_event {
	int64_t time_ms;
	bool is_gone, is_healthy;
	char node_id[NODE_ID_MAX + 1];
	char profile[PROFILE_MAX + 1];
	char allocation_id[UUID_TEXT_SIZE];
	char text[PLUGIN_EVENT_TEXT_MAX + 1];
};

/* A plugin that a node, a volume or an allocation names; deleted with the last of them. */
struct plugin_entry {
	const char *id; /* of the array below: the tree's key */
	char plugin_id[PLUGIN_ID_MAX + 1];
	struct state *state; /* borrowed */
	RB_ENTRY(plugin_entry) by_id;
	struct instance_tree instances; /* by node id and profile */
	struct runner_tree runners;	/* allocations with a csi_plugin block of this id, ended ones too */
	struct controller_tree controllers;   /* those of the instances that have one, by node id */
	struct provider_id_tree provider_ids; /* those whose node has an id at the provider, by it */
	struct plugin_volume_tree volumes;
	struct offer_tree offers;
	size_t n_instances, n_runners, n_volumes;
	/* members of jobs that must run it and have no allocation */
	uint32_t nodes_wanted, controllers_wanted;
	uint64_t noted, noted_healthy; /* see push_some() in release.c; the second one: a controller */
	struct plugin_summary summary; /* of all of it, see plugins.h */
	bool is_fresh;
	char namespace_of_turn[NAMESPACE_MAX + 1]; /* of which a snapshot schedule had its look last */
	uint64_t modify_index;			   /* revision of the newest fact about it since the start */
	/* owned, PLUGIN_EVENTS_MAX; the oldest at n_events modulo that; NULL: no event since the start */
	struct plugin_event *events;
	size_t n_events; /* in all */
};

RB_HEAD(volume_tree, volume_entry);
RB_HEAD(storage_tree, volume_entry);
RB_HEAD(plugin_tree, plugin_entry);
RB_HEAD(alloc_tree, alloc_entry);
RB_HEAD(ended_tree, alloc_entry);
RB_HEAD(claim_tree, claim_entry);
RB_HEAD(node_tree, node_entry);
struct state {
	struct volume_tree volumes;
	struct storage_tree storages; /* volumes by what they store */
	struct alloc_tree allocs;
	struct alloc_key_tree allocs_by_key;
	struct ended_tree ended; /* of them, by namespace and time */
	struct claim_tree claims;
	struct node_tree nodes;
	struct plugin_tree plugins;
	struct job_tree jobs;
	struct namespaces namespaces;
	struct records records;
	struct node_list unreported;
	size_t n_unreported;
	struct claim_list recalled;
	struct claim_queue stuck;	 /* see release.c */
	struct claim_list unpaired;	 /* see held_twice_note_durable() */
	struct unmatched_tree unmatched; /* see storage_next_unmatched() */
	struct absent_list absent; /* without a session and not down yet, in the order in which they went */
	size_t n_volumes, n_allocs, n_claims, n_nodes; /* claims: live ones; nodes: registered ones */
	size_t n_connected;
	struct server *server; /* borrowed; whose state it is; NULL: claims are only kept */
	/* Found last; NULL: not set. One request asks for the same entries many times, and each look-up in
	 * a large tree misses the cache. */
	struct volume_entry *last_volume;
	struct alloc_entry *last_alloc;
	struct wish_tree wishes; /* of all allocations */
	struct alloc_list pending;
	struct claim_entry *last_claim;
	size_t n_claims_by[CLAIM_STATE_N];
	size_t n_claims_failing; /* live ones whose present step has failed CLAIM_FAILING_ATTEMPTS times */
	size_t n_claims_adopted; /* live, and known from a report */
	size_t n_releasing;	 /* claims, from the moment on when their work was ordered to stop */
	size_t n_node_failing;	 /* of those, where the node's last try failed */
	size_t n_allocs_by[CLIENT_N];
	size_t n_volumes_held_twice; /* with a claim that was freed before and is live, or with two rivals */
	size_t n_nodes_ineligible, n_nodes_draining, n_nodes_down, n_nodes_clock_off;
	struct usages usages;
	size_t n_nodes_disk[NODE_DISK_N]; /* by the trouble of their agents' disks */
	size_t n_nodes_other_key;	  /* whose mount helper takes no ticket of this server */
};

/** Adds to the number of nodes and controllers of a plugin that jobs want in addition to their allocations;
 * a negative number subtracts. False when memory is short: nothing has changed. */
bool state_want_plugin(struct state *state, const char *plugin_id, int64_t nodes, int64_t controllers);

void state_init(struct state *state);
void state_release(struct state *state);

/** Returns the first volume of that storage over all namespaces, see model/storage.h, and the next one
 * behind @at; NULL at the end. */
struct volume_entry *storage_first(struct state *state, const struct storage_id *id);
struct volume_entry *storage_next(struct state *state, const struct storage_id *id, struct volume_entry *at);

/** Has no other volume the provider's id of this one? Costs next to nothing, and most volumes are. */
bool storage_is_alone(const struct volume_entry *volume);

struct volume_entry *state_volume(struct state *state, const char *namespace, const char *id);
struct alloc_entry *state_alloc(struct state *state, const char *id);
/** Returns the allocation that @claim was granted to. NULL: it is not known, or another node's: a node
 * may report a claim for any allocation. */
struct alloc_entry *state_alloc_of(struct state *state, const struct claim *claim);

/** Did this server grant it, or does a ticket prove it, and on the volume's storage? Another claim holds the
 * volume, and decides nothing about it. */
bool state_claim_is_proven(const struct claim_entry *entry);
struct claim_entry *state_claim(struct state *state, const char *id);
struct node_entry *state_node(struct state *state, const char *id);
struct plugin_entry *state_plugin(struct state *state, const char *id);

/** Returns the job with its allocations; NULL if no allocation names it. */
struct job_entry *state_job(struct state *state, const char *namespace, const char *id);

/** Is there a record of the node, and not just something that names it? */
bool node_is_registered(const struct node_entry *node);

/** The task driver of that name that @node reports, or NULL. */
const Holdfast__V1__NodeDriver *node_driver(const struct node_entry *node, const char *name);

/** Sets the session of the node; NULL if it has disconnected. */
void state_set_session(struct state *state, struct node_entry *node, struct session *session);

/** For node/down.c: the node disconnected last of all; or leaves the list. A repeat changes nothing. */
void state_list_absent(struct state *state, struct node_entry *node);
void state_unlist_absent(struct state *state, struct node_entry *node);

/** The first unmatched claim whose plugin and external id are these or behind them, and the next one; NULL
 * behind the last. */
struct claim_entry *state_unmatched_from(struct state *state, const char *plugin_id, const char *external_id);
struct claim_entry *state_unmatched_next(const struct claim_entry *entry);

/** For held_twice.c: lists each claim as a rival of the other until one ends. False when memory is short. */
bool state_pair_rivals(struct state *state, struct claim_entry *one, struct claim_entry *other);

/** Ends one pair of the claim. Each of the two that has no further pair is listed as unpaired. */
void state_drop_pair(struct state *state, struct claim_entry *entry, struct rival_link *link);

/** Takes the claim off that list. A repeat changes nothing. */
void state_unlist_unpaired(struct claim_entry *entry);

/** For freed.c: the freed claim must leave the state; or is no longer listed. A repeat changes nothing. */
void state_list_recalled(struct state *state, struct claim_entry *entry);
void state_unlist_recalled(struct claim_entry *entry);

/** The instances of @plugin that serve @profile, or NULL. */
struct plugin_offer *plugin_find_offer(struct plugin_entry *plugin, const char *profile);

/** Returns @node_id's instance of the plugin; costs the number of entries in its fingerprint. */
struct instance_entry *state_instance(struct state *state, const char *node_id, const char *plugin_id,
				      const char *profile);

/** Returns the plugin's instance on a node other than @node_id that has @provider_node_id, in any spelling;
 * NULL: no such. */
const struct instance_entry *state_other_of_provider_id(struct plugin_entry *plugin,
							const char *provider_node_id, const char *node_id);

/** The plugin's first instance with a controller, healthy or not, on a node behind @after in the order of
 * ids; and the next. */
struct instance_entry *state_controller_after(struct plugin_entry *plugin, const char *after);
struct instance_entry *state_controller_next(struct instance_entry *entry);

/** First entry whose key is not below the given one, and the next; for walking a prefix in order. */
struct volume_entry *state_volume_from(struct state *state, const char *namespace, const char *id);
struct volume_entry *state_volume_next(struct volume_entry *entry);
struct volume_entry *state_plugin_volume_from(struct plugin_entry *plugin, const char *namespace,
					      const char *id);
struct alloc_entry *state_alloc_from(struct state *state, const char *id);
struct alloc_entry *state_alloc_next(struct alloc_entry *entry);
/* in the order of namespace and id; @node NULL: of all nodes */
struct alloc_entry *state_alloc_key_from(struct state *state, struct node_entry *node, const char *namespace,
					 const char *id);
struct alloc_entry *state_alloc_key_next(const struct node_entry *node, struct alloc_entry *entry);
/* of those that ended, in the order of namespace, end and id */
struct alloc_entry *state_ended_from(struct state *state, const char *namespace, int64_t end_ms,
				     const char *id);
struct alloc_entry *state_ended_next(struct alloc_entry *entry);
struct claim_entry *state_claim_from(struct state *state, const char *id);
struct claim_entry *state_claim_next(struct claim_entry *entry);
struct node_entry *state_node_from(struct state *state, const char *id);
struct node_entry *state_node_next(struct node_entry *entry);
struct plugin_entry *state_plugin_from(struct state *state, const char *id);
struct plugin_entry *state_plugin_next(struct plugin_entry *entry);
struct instance_entry *state_plugin_instance_from(struct plugin_entry *plugin, const char *node_id);
struct instance_entry *state_plugin_instance_next(struct instance_entry *entry);
struct plugin_runner *state_plugin_runner_from(struct plugin_entry *plugin, const char *namespace,
					       const char *id);
struct plugin_runner *state_plugin_runner_next(struct plugin_runner *runner);

/** Returns how the plugin must be run. Borrowed until the allocation changes. */
const struct csi_plugin *plugin_runner_plugin(const struct plugin_runner *runner);

/** Is the allocation to run @plugin? */
bool alloc_entry_runs(const struct alloc_entry *entry, const struct plugin_entry *plugin);

/** Inserts or replaces; the value is copied. STATUS_RESOURCE_EXHAUSTED when memory is short, STATUS_DATA_LOSS
 * when a claim names no known volume. An allocation or claim of a node not seen yet makes an entry for the
 * node. A volume's generation never goes back, and is raised to its claim's. */
enum status state_put_volume(struct state *state, const struct volume *volume, struct error *err);
enum status state_put_alloc(struct state *state, const struct alloc *alloc, struct error *err);
enum status state_put_claim(struct state *state, const struct claim *claim, struct error *err);
enum status state_put_node(struct state *state, const struct node *node, struct error *err);
enum status state_put_instance(struct state *state, const struct plugin_instance *instance,
			       struct error *err);

/** Deletes the entry with everything listed under it, such as the fingerprint of a node. Facts that its
 * claims and allocations still show as history stay. Claims outlive their allocation. */
void state_delete_volume(struct state *state, struct volume_entry *entry);
void state_delete_claim(struct state *state, struct claim_entry *entry);
void state_delete_alloc(struct state *state, struct alloc_entry *entry);
void state_delete_node(struct state *state, struct node_entry *entry);
void state_delete_instance(struct state *state, struct instance_entry *entry);

/** Generation of volumes that are gone; new ones begin there. */
uint64_t state_generation_floor(struct state *state);

/** Returns the number of the last restore; 0: never restored. Raised only before nodes are loaded. */
uint64_t state_epoch(struct state *state);

/** The fingerprint entry of @node that serves @volume, or NULL. */
const struct node_plugin *node_entry_plugin(const struct node_entry *node, const struct volume *volume);

bool node_is_connected(const struct node_entry *node);

/** The node has sent something; not worth a write. */
void node_note_heard(struct node_entry *node);

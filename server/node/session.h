/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One connected node, what goes down to it and what it reports.
 *
 * Every message is idempotent on the node; what cannot be sent ends the session, and the node gets everything
 * again when it is back. Owned by the stream's handlers, borrowed by struct node_entry. */

#include "base/error.h"
#include "model/alloc.h"
#include "model/claim.h"
#include "rpc/server.h"
#include "state/change.h"
#include "state/freed.h"

#include <holdfast/v1/nodes.pb-c.h>
#include <holdfast/v1/plugin_call.pb-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <systemd/sd-event.h>

struct claim_entry;
struct node_entry;
struct server;
LIST_HEAD(session_calls, plugin_job);

enum {
	SESSION_PENDING_MAX = 4096,	     /* objects that one node changes and that are not durable yet */
	SESSION_PENDING_BYTES_MAX = 8 << 20, /* and their size: an eighth of what the store holds */
	SESSIONS_GREETING_MAX = 1024,	     /* sessions that have not sent hello, in all */
	SESSIONS_GREETING_PER_NODE_MAX = 8,  /* of one certificate, which may be stolen */
	SESSION_HEARTBEATS_PER_S = 500,	     /* of all nodes together: more nodes, longer intervals */
	SESSION_HEARTBEAT_SHARED_MAX_MS = 60000, /* the longest interval of an agent */
	SESSION_HELLO_MAX_MS = 10000,		 /* from the opening of the stream to hello */
	SESSION_WORK_SLICE = 64,		 /* allocations sent to a node in one turn of the loop */
	SESSION_REPORT_OBJECTS_MAX = 32768,	 /* allocations and claims of one report */
	SESSION_ADOPTED_BYTES_MAX = 64 << 20,	 /* memory of allocations that only the node knew */
	SESSION_ADOPTION_COST_US = 1000000, /* after as many as a report may have at once: one a second */
	SESSION_SEARCH_SHARE = 10, /* a node has a tenth of the time for searches of claims in the store */
	SESSION_SEARCH_BURST_US = 10000000, /* of which so much is paid ahead: a second of searches */
	SESSION_DOUBT_SIZE = 384,
};

struct session {
	struct server *server;
	struct rpc_call *call;
	uint64_t serial;	       /* among all sessions since the start */
	char node_id[NODE_ID_MAX + 1]; /* from the certificate */
	char boot_id[UUID_TEXT_SIZE];  /* from hello; empty before */
	bool closing;		       /* an end was sent: nothing more goes down */
	uint64_t heartbeat_us;	       /* interval in the welcome */
	uint64_t heard_us;	       /* on the clock of struct silence: the last message */
	TAILQ_ENTRY(session) by_silence;
	bool is_listed;			      /* there */
	char end_reason[NODE_REASON_MAX + 1]; /* why the server ended it; empty: it did not */
	struct session_calls calls; /* to plugins, that were sent and not answered; of controller.c */
	uint64_t last_call_id;
	sd_event_source *hello_timer;	  /* owned; until hello */
	TAILQ_ENTRY(session) by_greeting; /* until hello; oldest first */
	bool is_greeting;
	sd_event_source *work_source; /* owned; while there is work to be sent */
	char (*work)[UUID_TEXT_SIZE]; /* owned; allocations to be sent */
	size_t n_work, next_work;
	bool is_report_due;		/* it was asked for one, which is not complete */
	bool was_asked;			/* for a report, ever */
	uint64_t report_epoch;		/* of that one */
	size_t n_reported;		/* allocations and claims of it so far */
	size_t n_unproven;		/* of these, claims that were not adopted */
	char doubt[SESSION_DOUBT_SIZE]; /* why its node has to report, by its mark; empty: it shows nothing */
	bool is_reverted;    /* its node has shown a higher mark before in this boot: it may hold more than it
			      * reports */
	bool is_back;	     /* its node was shown a mark in the time that the epoch's store has forgotten */
	uint64_t nodes_then; /* in its mark, if that is of an earlier epoch */
	uint64_t mark_index; /* of the mark that was sent last, and when */
	uint64_t mark_us;
	size_t n_searches;	/* of session_find_claim(), for the present message */
	struct freed_ids freed; /* likewise */
};

/** Ends the session with @err, once. */
void session_end(struct session *session, const struct error *err);

/** A message of any kind arrived: it is a sign of life. */
void session_heard(struct session *session);

/** It ends: it leaves the list. A repeat changes nothing. */
void session_unlist(struct session *session);

/** From here on its silence is measured: the welcome contains the interval. */
void session_list(struct session *session);

/** Returns the time since the last message of the session that is silent longest; 0: no session. */
uint64_t session_silence_us(const struct server *server);

/** Returns when the first of the connected nodes' certificates expires, since the epoch; 0: no node is
 * connected. Costs the number of sessions. */
int64_t session_first_expiry_ms(const struct server *server);

enum { SESSION_EXPIRIES_MAX = 10 };

struct session_expiry {
	const char *node_id; /* borrowed from the session */
	int64_t expires_ms;
};

/** The certificates of connected nodes that expire first, in that order. Returns how many. Costs the number
 * of sessions. */
size_t session_expiries(const struct server *server, struct session_expiry ret[static SESSION_EXPIRIES_MAX]);

/** Begins to look for sessions that have fallen silent. */
enum status session_silence_start(struct server *server, struct error *err);

/** freed_find() of a claim that the node names. @ret NULL: it is no claim of this node.
 * STATUS_RESOURCE_EXHAUSTED if it names too many that are not in memory: the claim is neither known nor
 * unknown then, and the session must end. */
enum status session_find_claim(struct session *session, const char *id, struct claim_entry **ret,
			       struct error *err);

/** STATUS_RESOURCE_EXHAUSTED if the node has used up the time for searches: then the session must end. */
enum status session_check_search(struct session *session, struct error *err);

/** The event loop did work since @start_us (CLOCK_MONOTONIC) that the node can cause again and again: it
 * counts as searches do. */
void session_pay_search(struct session *session, uint64_t start_us);

/** A message was handled: the next one sees the store as it is then. */
void session_end_message(struct session *session);

/** Has it sent hello? */
bool session_is_greeted(const struct session *session);

/* Actions that follow from messages of nodes and to them, of daemon.c's table. */
struct session_events {
	/** A claim has changed: does its next step. */
	void (*drive_claim)(struct server *server, struct claim_entry *entry);
	/** The node has all its work. */
	void (*node_back)(struct server *server, struct node_entry *node);
};

/* Messages to the node. */

/** A message that cannot be sent ends the session. */
void session_send(struct session *session, const Holdfast__V1__SessionDown *message);

enum session_notice {
	SESSION_NOTHING,
	SESSION_STOP_ALLOC,
	SESSION_FORGET_ALLOC,
	SESSION_ACK_MOUNTED,
	SESSION_ACK_RELEASED,
	SESSION_DRIVE_CLAIM,	/* nothing, but the claim continues */
	SESSION_WITHOUT_PLUGIN, /* release the claim without its plugin */
	SESSION_NOTICE_N,
};

/** Notifies the node of @kind about an allocation or claim. */
void session_notify(struct session *session, enum session_notice kind, const char *id);

/** Orders work that was submitted; not what only its node knows. */
void session_run_alloc(struct session *session, const struct alloc *alloc);
/** A caller wants to reach a task of the node. */
void session_open_task_stream(struct session *session, const Holdfast__V1__OpenTaskStream *wanted);
void session_release_claim(struct session *session, const struct claim *claim);
void session_request_report(struct session *session, uint64_t epoch);

/** Sends the call; @call gets an id that the session has not had. On failure nothing was sent, and the
 * session ends. */
enum status session_plugin_call(struct session *session, Holdfast__V1__PluginCall *call, struct error *err);

static inline void session_stop_alloc(struct session *session, const char *alloc_id)
{
	session_notify(session, SESSION_STOP_ALLOC, alloc_id);
}

/** Sends all the work that the node has not confirmed, again, in slices. */
void session_send_work(struct session *session, struct node_entry *node);

/** Stores the ends of sessions that could not be stored, for want of room or while a restore was prepared. A
 * node that is dead makes no further change with which its end is stored. Call it once a second. */
void session_store_ends(struct server *server);

/** Commits @change, which may be empty and which follows from a message of the node. When it is durable,
 * sends @kind about @id to the node's session at that time, and drives the claims of the change. */
enum status session_commit(struct session *session, struct change *change, enum session_notice kind,
			   const char *id, struct error *err);

#pragma once
/* One connected node, and what goes down to it.
 *
 * Every message is idempotent on the node; what cannot be sent ends the session, and the node gets everything
 * again when it is back. Owned by the stream's handlers in sessions.c, borrowed by struct node_entry. */

#include "base/error.h"
#include "model/alloc.h"
#include "model/claim.h"
#include "rpc/server.h"

#include <holdfast/v1/plugin_call.pb-c.h>
#include <stdbool.h>
#include <sys/queue.h>

struct server;
LIST_HEAD(session_calls, plugin_job);

struct session {
	struct server *server;
	struct rpc_call *call;
	char node_id[NODE_ID_MAX + 1]; /* from the certificate */
	char boot_id[UUID_TEXT_SIZE];  /* from hello; empty before */
	bool closing;		       /* an end was sent: nothing more goes down */
	struct session_calls calls;    /* to plugins, that were sent and not answered; of controller.c */
	uint64_t last_call_id;
};

/** End the session with @err, once. */
void session_end(struct session *session, const struct error *err);

void session_welcome(struct session *session);
void session_run_alloc(struct session *session, const struct alloc *alloc);
void session_stop_alloc(struct session *session, const char *alloc_id);
void session_release_claim(struct session *session, const struct claim *claim);
void session_receipt_ack(struct session *session, const char *claim_id, bool released);
void session_forget_alloc(struct session *session, const char *alloc_id);

/** Send the call; @call gets an id that this session has not had. On failure nothing was sent, and the
 * session ends. */
enum status session_plugin_call(struct session *session, Holdfast__V1__PluginCall *call, struct error *err);

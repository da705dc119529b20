/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The change of the CA by command.
 *
 * The new CA is in the store, its key encrypted as those of tickets are. From then on every server trusts it
 * and the former one, and issues by it. Renewals give both to nodes. Each server keeps its certificate of the
 * former CA until every node has one of the new CA, and so trusts it. Clients that trust only the former CA
 * still accept the server: it shows a link between both. The change is finished by another command,
 * which is refused while a caller is known to have a certificate of the former CA. Unused enrolment lines of
 * before end with it. A server that cannot use the CA of the store refuses answers about it, and tries again.
 */

#include "base/error.h"
#include "rpc/server.h"
#include "store/kv.h"

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

struct server;

struct ca_change {
	int64_t applied_ms; /* the record of this time is in use; 0: the settings are */
	bool is_applied;
	char failure[ERROR_MSG_MAX]; /* of the last try to use the record of the store; "": it is in use */
	bool looks_at_calls;	     /* in progress: whose certificate is of the former CA */
	sd_event_source *soon;	     /* owned */
};

/** Use the CA of the store: after it was loaded. */
void ca_change_load(struct server *server);

/** The same now and then: on a server that follows, and after a failure. */
void ca_change_look(struct server *server);

/** On a server that follows: a record has come. */
void ca_change_note_followed(struct server *server, const struct kv_item *item);

enum { CA_CHANGE_WARNING_SIZE = ERROR_MSG_MAX + 256 };

/** Writes why this server does not use the CA of the store. False: it does. */
bool ca_change_warning(struct server *server, char ret[static CA_CHANGE_WARNING_SIZE]);

void ca_change_release(struct ca_change *change);

/** Operator.GetCa, Operator.ChangeCa */
rpc_unary_fn ca_change_handle_get;
rpc_unary_fn ca_change_handle;

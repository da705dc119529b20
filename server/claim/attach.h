/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The second step of a grant: have the controller attach the volume where it has to, then say to the node
 * that it has the claim. */

#include "base/error.h"
#include "state/state.h"

#include <stdbool.h>

struct server;
struct rpc_call;

enum { PUBLISH_CONTEXT_MAX = 16 * 1024 }; /* bytes on the wire; CSI allows 4096 */

/* What a claim of a volume needs before its node may have it. */
struct attach_need {
	bool is_needed;		      /* the controller is to attach it */
	const char *external_node_id; /* the node as the provider calls it; borrowed from the state */
};

/** Find out; nothing is stored yet. STATUS_UNAVAILABLE when there is no controller to do it, or the
 * provider's name of the node is not known: the plugin is named. */
enum status claim_attach_need(struct volume_entry *volume, const struct node_entry *node,
			      struct attach_need *ret, struct error *err);

/** May @volume be granted as far as is known who has it mounted, whatever its claims allow? @claim: one that
 * is there; NULL: a new one. STATUS_UNAVAILABLE names who has to report or to release it: see epoch.h and
 * held_twice.h. It may cease to be so while the controller is asked. */
enum status claim_attach_check(struct server *server, const struct volume_entry *volume,
			       const struct claim *claim, struct error *err);

/** The claim is durable: attach it, if it is for the controller to do, and answer @call, once, with the grant
 * or with why there is none. A repeat does the same again, for the same answer.
 * One of the claim's n_grants, by which it does not expire, is taken over. */
void claim_attach(struct server *server, const char *claim_id, struct rpc_call *call);

/** A claim that no controller attaches is on its way to the disk: let its ticket be signed meanwhile. */
void claim_attach_ahead(struct server *server, struct claim_entry *entry);

/** A grant is durable and goes to its node. */
void claim_log_granted(const struct claim *claim);

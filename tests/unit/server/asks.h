/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Calls of operators about nodes and plugins, in one line each. */

#include "cluster.h"

#include <holdfast/v1/nodes.pb-c.h>
#include <holdfast/v1/plugins.pb-c.h>

/** Owned by the caller; NULL with @err when it failed. */
Holdfast__V1__GetNodeResponse *get_node(struct fixture *f, const char *id, struct error *err);
Holdfast__V1__GetPluginResponse *get_plugin(struct fixture *f, const char *id, struct error *err);
Holdfast__V1__DrainNodeResponse *drain_node(struct fixture *f, const char *id, bool cancel,
					    struct error *err);

Holdfast__V1__NodeStatus status_of(struct fixture *f, const char *node);
enum status set_eligible(struct fixture *f, const char *node, bool eligible, struct error *err);
enum status identify(struct fixture *f, const char *node, const char *machine, struct error *err);
enum status purge(struct fixture *f, const char *node, struct error *err);
enum status purge_for(struct fixture *f, const char *node, const char *reason, struct error *err);

/** Those that the server misses, without knowing their names. */
enum status purge_unknown(struct fixture *f, struct error *err);

/** Attest for volume db (@volume NULL) or another one; @ret may be NULL. */
enum status attest(struct fixture *f, const char *node, const char *volume, const char *reason,
		   uint64_t valid_ms, bool dry_run, Holdfast__V1__AttestNodeResponse **ret,
		   struct error *err);

/** What volume status --why prints of db; until the next call. */
char *why(struct fixture *f);

/** The node goes away, and the server knows. */
void lose(struct fixture *f, struct fake_node *node);

/** Returns whose block has the server look at n1: "volume", "job J, group G" or "allocation ID", in a text
 * that is good until the next call; "": n1 is not lost. */
const char *policy_of(struct fixture *f);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A store may be older than what was granted from it, and nodes may hold claims that the server has
 * forgotten. Each restore from a backup begins an epoch, and in it nothing new is granted for a volume before
 * every node that the restored store knows has told what it holds, or is proven to hold nothing: it was
 * purged, or an operator has given the word for this volume (attest.h). A node that names work which the
 * server does not know has to report in any epoch, and until then it counts as one that may hold anything.
 *
 * A node tells when it connects, whatever boot it is in: also a new boot may have been granted claims after
 * the backup. What it holds and the server does not know is adopted as held when it is proven
 * (restore_proof.h), else refused and recorded. An allocation that only its node knows is adopted, too, but
 * is granted nothing anew: a node must not be able to invent work and then ask for its volumes; of two nodes
 * that hold what only one may, both are kept, and an operator is told. */

#include "base/error.h"
#include "state/state.h"

#include <holdfast/v1/nodes.pb-c.h>
#include <stdbool.h>

struct server;
struct session;

/** May @volume be granted as far as its past is known? STATUS_UNAVAILABLE names nodes that have not reported
 * and the next command. Costs nothing once all have. */
enum status epoch_check(struct server *server, const struct volume *volume, struct error *err);

/** Does the session's node name an allocation of its own, or a published volume, of which the store knows
 * nothing? Then the store has lost history, or the node lies; either way it has to report.
 * @entry of that allocation; NULL: the store has none */
bool epoch_is_forgotten(const struct session *session, const struct alloc_entry *entry,
			const Holdfast__V1__AllocStatus *reported);

/** What the node of @session has just said shows that the server does not know what it holds: remember that
 * until it has reported. Nothing is granted in between, and the session ends, because a report follows hello.
 * @what for people. Returns the status that ends it, in @err. */
enum status epoch_doubt(struct session *session, const char *what, struct error *err);

/** At the start: the audit, which is the copy's, gets a record of the restore if it has none yet. */
enum status epoch_record_restore(struct server *server, struct error *err);

/** A part of the report that the session was asked for. An error ends the session. */
enum status epoch_take_report(struct session *session, const Holdfast__V1__NodeReport *report,
			      struct error *err);

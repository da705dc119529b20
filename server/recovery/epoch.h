/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Epochs. A store may be older than its grants: nodes may hold claims that the server has forgotten.
 *
 * Each restore from a backup begins an epoch. In it nothing new is granted for a volume before every node
 * that the restored store knows has reported its claims, or is proven to hold nothing: it was purged, or an
 * operator has attested it for this volume (attest.h). A node that names work which the server does not know
 * must report in any epoch; until then it counts as a node that may hold any volume.
 *
 * A node reports when it connects, in the same boot or a new one: a new boot may also have been granted
 * claims after the backup. A claim that the server does not know is adopted as held if it is proven
 * (restore_proof.h), else refused and recorded. If no history was lost since the node's last report, the
 * claim is over: it is ordered away, unless the server's own allocation could claim it now. An allocation
 * that only its node knows is adopted, too, but gets no new grant: a node must not be able to invent work and
 * then ask for its volumes. If two nodes hold a volume that only one may hold, both claims are kept, and the
 * log warns the operator. */

#include "base/error.h"
#include "state/state.h"

#include <holdfast/v1/nodes.pb-c.h>
#include <stdbool.h>

struct server;
struct session;

/** May @volume be granted as far as its past is known? STATUS_UNAVAILABLE names nodes that have not reported
 * and the next command. Costs nothing once all have. */
enum status epoch_check(struct server *server, const struct volume *volume, struct error *err);

/** May @volume be made as far as the past of all volumes is known? Its provider may answer with what a node
 * has by another name, so no attestation about a name counts. STATUS_UNAVAILABLE as above. */
enum status epoch_check_all(struct server *server, const struct volume *volume, struct error *err);

/** The same for every volume of @alloc that exists. */
enum status epoch_check_alloc(struct server *server, const struct alloc *alloc, struct error *err);

/** May the job be forgotten? Not while a node that has not reported, or is missing, may run work of it:
 * without its job such work would never be stopped. STATUS_FAILED_PRECONDITION names the first one. */
enum status epoch_check_purge(struct server *server, const char *job_id, struct error *err);

/** Does the session's node name an allocation of its own, or a published volume, of which the store knows
 * nothing? Then the store has lost history, or the node lies; either way it has to report.
 * @entry of that allocation; NULL: the store does not know it. Errors as session_find_claim(). */
enum status epoch_is_forgotten(struct session *session, const struct alloc_entry *entry,
			       const Holdfast__V1__AllocStatus *reported, bool *ret, struct error *err);

/** Is @entry known only from the report of one node, while the ticket of @claim shows that its id is another
 * one's? Then the work of the other one goes on, though the server cannot stop it. */
bool epoch_is_disputed(const struct alloc_entry *entry, const struct claim *claim);

/** May @entry take more memory? Not one that only its node knew, while such ones of the node take
 * SESSION_ADOPTED_BYTES_MAX. */
bool epoch_may_grow(const struct alloc_entry *entry);

/** Call it when a message of the node shows that the server does not know all of its claims: remembers that
 * until the node has reported. Nothing is granted meanwhile. The session ends, because a report follows
 * hello.
 * @what for people. Returns the status that ends it, in @err. */
enum status epoch_doubt(struct session *session, const char *what, struct error *err);

/** At the start: adds a record of the restore to the audit, which is the copy's, unless it has one. */
enum status epoch_record_restore(struct server *server, struct error *err);

/** A part of the report that the session was asked for. An error ends the session. */
enum status epoch_take_report(struct session *session, const Holdfast__V1__NodeReport *report,
			      struct error *err);

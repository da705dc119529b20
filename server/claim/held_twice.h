/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A claim that was freed, but that its node reports as mounted in the boot in which it was granted: the node
 * was reverted to a snapshot, its journal was restored, or an operator's attestation was wrong. Meanwhile the
 * volume may have been granted to another node.
 *
 * Such a claim is live again, as one whose work has ended. The node is ordered to release it, and nothing of
 * the volume is granted before there is new evidence. The earlier evidence no longer counts.
 *
 * Two live claims that exclude each other are kept both, too: a restored store has one, and the node that
 * was granted the volume after the backup has reported the other. Only people can find out which of them
 * is mounted. */

#include "base/error.h"
#include "state/state.h"

struct change_object;
struct server;
struct session;

/** Do such claims permit a grant of @volume? STATUS_UNAVAILABLE names the holder and the way to end it. */
enum status held_twice_check(const struct volume_entry *volume, struct error *err);

/** May the node of @entry, which is live, be answered with it again? STATUS_UNAVAILABLE names a claim of the
 * storage that excludes it, and what ends either; @entry stays as it is. */
enum status held_twice_check_repeat(const struct claim_entry *entry, struct error *err);

/** Has @volume two live claims of which only one may be? STATUS_UNAVAILABLE names them and what ends it. */
enum status held_twice_check_rivals(const struct volume_entry *volume, struct error *err);

/** Counts rivals of @own, which was adopted just now, by other names of its storage: the state counts
 * only those of one name. A native claim on another disk than its volume's is compared only with the names of
 * that volume. */
void held_twice_pair(struct claim_entry *own);

/** The same for all claims, after a start. */
void held_twice_pair_all(struct server *server);

/** A volume with such rivals is durable: it may have been registered on another part of what its id names.
 * Then, or when a claim ends, others may need a further rival. For change_commit(); costs the number of the
 * volume's claims, and of claims that lost their last pair. */
void held_twice_note_durable(struct server *server, struct change_object *objects, size_t n,
			     uint64_t revision);

/** May @entry end by a report of its node? If its allocation has eight ends per volume of claims that the
 * node took back after it released them, such claims end once a minute: each time costs a detach and records
 * of the audit. STATUS_RESOURCE_EXHAUSTED: the claim is kept. */
enum status held_twice_check_end(struct claim_entry *entry, struct error *err);

/** The node of @session reports this claim as mounted. An error ends the session. */
enum status held_twice_take(struct session *session, const char *claim_id, struct error *err);

/** Could @claim, which the state does not have, have been granted? An allocation that is no adopted one asks
 * for it, its volume offers its modes, and no claim of another allocation excludes it. */
enum status held_twice_admit(struct server *server, const struct claim *claim, struct error *err);

/** The same for a claim that its node shows without a ticket, after its first report of an epoch. As each
 * costs an attach or detach and records of the audit, at the rate of held_twice_check_end(). */
enum status held_twice_admit_again(struct server *server, const struct claim *claim, struct error *err);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Proof of what a node reports after a restore: the ticket that this server signed when it granted the claim.
 *
 * A node may lie. Without proof it could name any volume as held and keep all others from it. So a claim
 * that the restored store does not know counts when its ticket is signed with this server's key for this
 * node, boot, allocation and volume. Without a ticket it also counts
 * - when the store itself has an allocation of this node that asks for the volume: such a claim the node
 * could have had by asking, and
 * - when tickets prove nothing: the key or the form of tickets has changed since the backup was made, so that
 * an honest node's ticket may be of another one. It has changed, too, if the node's policy names a key that
 * the store does not know: `key rotate` is younger than the backup. In every other case the server, which
 * never grants without a ticket, has not granted it. */

#include "base/error.h"
#include "model/claim.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

struct kv;
struct server;
struct ticket_issuer;

/** Remember in the store with which key tickets are signed from now on. Blocks: for start-up, before the
 * state is loaded. */
enum status restore_proof_note_key(struct kv *kv, const struct ticket_issuer *issuer, struct error *err);

/** Was what nodes have of this epoch signed with another key, maybe? */
bool restore_proof_key_has_changed(struct server *server);

/** Does @ticket prove @claim by itself? */
bool restore_proof_by_ticket(const struct server *server, const struct claim *claim,
			     const ProtobufCBinaryData *ticket);

/** May @claim, which the store does not know, be adopted from the report of its node? @ticket came with it
 * and may be empty. Fields of the ticket that are more reliable than the report are set in @claim.
 * @is_first_report of the node in the epoch: only there a claim may count without proof.
 * STATUS_PERMISSION_DENIED when the claim is not proven. */
enum status restore_proof_check(struct server *server, struct claim *claim, const ProtobufCBinaryData *ticket,
				bool is_first_report, struct error *err);

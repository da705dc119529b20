/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Proof of what a node reports after a restore: the ticket that this server signed when it granted the claim.
 *
 * A node may lie. Without proof it could name any volume as held and keep all others from it. So a claim
 * that the restored store does not know counts when its ticket is signed with this server's key for this
 * node, boot, allocation and volume. Without a ticket it also counts
 * - when the store itself has an allocation of this node that asks for the volume: such a claim the node
 * could have had by asking, if no other claim excludes it (epoch.c checks that once no history was lost), and
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

/* How far the storage is known behind a claim whose volume the store does not know. */
enum restore_storage {
	RESTORE_STORAGE_UNKNOWN,  /* external_id is empty, and profile only the node's */
	RESTORE_STORAGE_BELIEVED, /* both are the node's: they delay grants and registrations of the same */
	RESTORE_STORAGE_DIGEST,	  /* external_id is the digest in the ticket of a csi volume: the node names
				   * another id or context. It only delays a registration of the same */
	RESTORE_STORAGE_PROVEN,	  /* both are the ticket's: external_id is a native volume's digest, see
				   * volume_source_hex() */
};

/** Does @ticket prove @claim by itself? Then sets in @claim the fields of the ticket, which are more reliable
 * than the report, and @ret. Costs one verification; if it proves nothing, one for each key that the server
 * had. */
bool restore_proof_by_ticket(struct server *server, struct claim *claim, const ProtobufCBinaryData *ticket,
			     enum restore_storage *ret);

/** May @claim, which the store does not know, be adopted from the report of its node? @ticket came with it
 * and may be empty; @is_known: restore_proof_by_ticket() was true. @is_first_report in the epoch, of a node
 * that the forgotten time may have had: only there a claim may count without proof. STATUS_PERMISSION_DENIED
 * when the claim is not proven. */
enum status restore_proof_check(struct server *server, struct claim *claim, const ProtobufCBinaryData *ticket,
				bool is_known, bool is_first_report, enum restore_storage *ret,
				struct error *err);

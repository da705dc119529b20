/* SPDX-License-Identifier: Apache-2.0 */
#include "recovery/restore_proof.h"

#include "server.h"

#include "base/cleanup.h"
#include "base/id.h"
#include "base/str.h"
#include "recovery/new_epoch.h"
#include "state/keys.h"
#include "state/schema.h"
#include "store/kv.h"

#include <holdfast/v1/types.pb-c.h>
#include <inttypes.h>
#include <string.h>

/* --- whose tickets prove anything --- */

struct noted {
	uint8_t key[TICKET_KEY_SIZE];
	bool is_key; /* there is one, and its tickets are of today's form: those of another prove nothing here
		      */
	uint64_t from_epoch;
	bool is_there; /* the record exists */
	bool replaced;
};

static void note_of(const Holdfast__V1__TicketKey *record, struct noted *ret)
{
	*ret = (struct noted){.is_there = record,
			      .replaced = record && record->replaced,
			      .is_key = record && record->public_key.len == TICKET_KEY_SIZE &&
					record->version == TICKET_VERSION};
	if (!ret->is_key)
		return;
	memcpy(ret->key, record->public_key.data, sizeof(ret->key));
	ret->from_epoch = record->from_epoch;
}

static bool is_key_of(const struct noted *noted, const struct ticket_issuer *issuer)
{
	uint8_t key[TICKET_KEY_SIZE];

	ticket_issuer_file_key(issuer, key);
	return noted->is_key && memcmp(noted->key, key, sizeof(key)) == 0;
}

struct writing {
	const struct ticket_issuer *issuer;
	uint64_t from_epoch;
	bool replaced;
};

static enum status write_note(struct kv_rewrite *rewrite, void *userdata, struct error *err)
{
	const struct writing *writing = userdata;
	Holdfast__V1__TicketKey record = HOLDFAST__V1__TICKET_KEY__INIT;
	uint8_t key[TICKET_KEY_SIZE];

	ticket_issuer_file_key(writing->issuer, key);
	record.public_key = (ProtobufCBinaryData){.len = sizeof(key), .data = key};
	record.from_epoch = writing->from_epoch;
	record.version = TICKET_VERSION;
	record.replaced = writing->replaced;
	return schema_put(rewrite, KEY_TICKET_KEY, &record.base, err);
}

enum status restore_proof_note_key(struct kv *kv, const struct ticket_issuer *issuer, struct error *err)
{
	cleanup(record_freep) void *record = NULL;
	struct writing writing = {.issuer = issuer};
	struct noted noted;
	uint64_t epoch;

	TRY(schema_get(kv, KEY_TICKET_KEY, &holdfast__v1__ticket_key__descriptor, &record, err));
	TRY(new_epoch_read(kv, &epoch, err));
	note_of(record, &noted);
	if (is_key_of(&noted, issuer))
		return STATUS_OK;
	/* nodes may still have tickets of the other key or form to show in this epoch */
	writing.from_epoch = epoch + 1;
	writing.replaced = noted.is_there;
	return kv_rewrite(kv, write_note, &writing, err);
}

/* Was every ticket that the restored store may lack signed with today's key, in today's form? */
static bool is_demanded(struct server *server)
{
	struct noted noted;

	note_of(records_get(&server->state.records, KEY_TICKET_KEY), &noted);
	return is_key_of(&noted, server->issuer) && noted.from_epoch <= state_epoch(&server->state);
}

bool restore_proof_key_has_changed(struct server *server)
{
	struct noted noted;

	note_of(records_get(&server->state.records, KEY_TICKET_KEY), &noted);
	return noted.replaced && noted.from_epoch > state_epoch(&server->state);
}

/* --- a claim --- */

static bool is_text(const char *field, size_t size)
{
	return memchr(field, '\0', size) != NULL;
}

/* Expired tickets prove as well: a grant is held until the node reports otherwise. */
static bool is_about(const struct ticket *ticket, const struct claim *claim)
{
	char wire_volume[WIRE_VOLUME_SIZE];
	uint8_t boot_id[TICKET_UUID_SIZE];
	uint8_t alloc[TICKET_UUID_SIZE];

	volume_wire_name(claim->namespace, claim->volume_id, wire_volume);
	return is_text(ticket->node, sizeof(ticket->node)) &&
	       is_text(ticket->profile, sizeof(ticket->profile)) &&
	       is_text(ticket->volume, sizeof(ticket->volume)) && str_eq(ticket->node, claim->node_id) &&
	       id_uuid_bytes(claim->boot_id, boot_id) && id_uuid_bytes(claim->allocation_id, alloc) &&
	       memcmp(ticket->boot_id, boot_id, sizeof(boot_id)) == 0 &&
	       memcmp(ticket->alloc, alloc, sizeof(alloc)) == 0 && str_eq(ticket->volume, wire_volume) &&
	       ticket->generation >= claim->generation;
}

/* A node must not name another storage than the ticket: the ticket has the digest of its names. Nor must it
 * call a csi volume native, whose release needs no detach: the digest has the type, and the profile of a csi
 * ticket is the plugin. An id that is not that of the ticket is replaced by the digest. */
static enum restore_storage take_storage(const struct ticket *ticket, struct claim *claim)
{
	bool is_csi = ticket->source_digest[0] & TICKET_DIGEST_CSI;
	struct volume volume = {.type = VOLUME_CSI};
	uint8_t digest[TICKET_DIGEST_SIZE];

	(void)str_copy(claim->plugin_id, sizeof(claim->plugin_id), is_csi ? ticket->profile : PLUGIN_NATIVE);
	(void)str_copy(claim->profile, sizeof(claim->profile), is_csi ? "" : ticket->profile);
	memcpy(volume.external_id, claim->external_id, sizeof(volume.external_id));
	memcpy(volume.context_digest, claim->context_digest, sizeof(volume.context_digest));
	if (is_csi && claim->external_id[0] != '\0' &&
	    volume_source_digest(&volume, digest, NULL) == STATUS_OK &&
	    memcmp(digest, ticket->source_digest, sizeof(digest)) == 0)
		return RESTORE_STORAGE_PROVEN;
	hex_encode(claim->external_id, ticket->source_digest, sizeof(ticket->source_digest));
	claim->context_digest[0] = '\0';
	return is_csi ? RESTORE_STORAGE_DIGEST : RESTORE_STORAGE_PROVEN;
}

bool restore_proof_by_ticket(struct server *server, struct claim *claim, const ProtobufCBinaryData *bytes,
			     enum restore_storage *ret)
{
	struct ticket ticket;

	if (bytes->len != sizeof(ticket))
		return false;
	memcpy(&ticket, bytes->data, sizeof(ticket));
	if (!is_about(&ticket, claim) || !ticket_is_ours(server->issuer, &ticket)) /* costs most, so last */
		return false;
	claim->mode = ticket.read_only == 1 ? CLAIM_READ : CLAIM_WRITE;
	claim->propagation = (enum propagation)ticket.propagation;
	claim->slot = ticket.slot;
	*ret = take_storage(&ticket, claim);
	return true;
}

/* Takes the modes and the slot from the server's own request for the volume: a node must not give itself
 * others. Returns false if the server has no such request. */
static bool take_request(struct server *server, struct claim *claim)
{
	const struct alloc_entry *entry = state_alloc_of(&server->state, claim);
	const struct volume_request *request = entry ? alloc_asks_for(&entry->alloc, claim) : NULL;

	if (!request)
		return false;
	claim->access_mode = request->access_mode;
	claim->attachment_mode = request->attachment_mode;
	claim->propagation = request->propagation;
	claim->slot = (uint32_t)(request - entry->alloc.volumes);
	return true;
}

/* A key of `key rotate` is only in the store: one without it may be older than what the key has signed. */
static bool names_unknown_key(struct server *server, const char *node_id)
{
	const struct node_entry *node = state_node(&server->state, node_id);
	uint8_t id[TICKET_KEY_ID_SIZE];
	char text[2 * TICKET_KEY_ID_SIZE + 1];

	for (const char *at = node ? node->node.ticket_keys : ""; *at != '\0'; at += strspn(at, ", ")) {
		size_t n = strcspn(at, ", ");

		if (n < sizeof(text) && str_format(text, sizeof(text), "%.*s", (int)n, at) >= 0 &&
		    hex_decode(id, sizeof(id), text) == 0 && !ticket_issuer_knows_key(server->issuer, id))
			return true;
		at += n;
	}
	return false;
}

/* Does the server itself have to doubt that a ticket proves anything? */
static bool is_believed(struct server *server, const struct claim *claim, bool is_first_report)
{
	return is_first_report && (!is_demanded(server) || names_unknown_key(server, claim->node_id));
}

enum status restore_proof_check(struct server *server, struct claim *claim, const ProtobufCBinaryData *ticket,
				bool is_known, bool is_first_report, enum restore_storage *ret,
				struct error *err)
{
	if (!is_known && claim->generation > new_epoch_generation_max(state_epoch(&server->state)))
		return error_set(err, STATUS_PERMISSION_DENIED, 0,
				 "node %s reports claim %s on volume %s/%s with generation %" PRIu64
				 ", which epoch %" PRIu64 " has not granted: not adopted",
				 claim->node_id, claim->id, claim->namespace, claim->volume_id,
				 claim->generation, state_epoch(&server->state));
	if (!is_known) {
		is_known = is_believed(server, claim, is_first_report);
		*ret = is_known ? RESTORE_STORAGE_BELIEVED : RESTORE_STORAGE_UNKNOWN;
	}
	if (*ret == RESTORE_STORAGE_UNKNOWN)
		claim->external_id[0] = claim->context_digest[0] = '\0';
	if (take_request(server, claim) || is_known)
		return STATUS_OK;
	return error_set(err, STATUS_PERMISSION_DENIED, 0,
			 "node %s reports that it holds volume %s/%s by claim %s, and shows %s: not adopted, "
			 "others may have the volume. If it was granted, stop the allocation on the node: "
			 "holdfast alloc stop %s",
			 claim->node_id, claim->namespace, claim->volume_id, claim->id,
			 ticket->len == 0 ? "no ticket" : "a ticket that was not made for that",
			 claim->allocation_id);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "claim/attest.h"

#include "server.h"

#include "access/access.h"
#include "access/audit.h"
#include "access/reply.h"
#include "alloc/allocs.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/uuid.h"
#include "claim/claims.h"
#include "claim/release.h"
#include "log/log.h"
#include "model/pb.h"
#include "node/nodes.h"
#include "rpc/server.h"
#include "state/change.h"
#include "state/freed.h"
#include "state/keys.h"
#include "state/records.h"
#include "state/state.h"

#include <holdfast/v1/nodes.pb-c.h>
#include <holdfast/v1/types.pb-c.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct attest_record_facts {
	const struct rpc_call *call;
	const struct node_entry *node;
	Holdfast__V1__VolumeRef *const *volumes; /* namespace empty: the default one */
	size_t n_volumes;
	const char *reason;
	uint64_t valid_ms;
};

typedef Holdfast__V1__Attestation attestation;

static char *key_of(const char *node_id, const char *id, char ret[static OBJECT_KEY_SIZE])
{
	(void)str_format(ret, OBJECT_KEY_SIZE, PREFIX_ATTESTATION "%s/%s", node_id, id);
	return ret;
}

static bool names_volume(const attestation *record, const char *namespace, const char *id)
{
	for (size_t i = 0; i < record->n_volumes; i++)
		if (str_eq(record->volumes[i]->namespace_, namespace) && str_eq(record->volumes[i]->id, id))
			return true;
	return false;
}

/* For each record about a node. */
static struct record_entry *first_record(struct server *server, const char *node_id,
					 char prefix[static OBJECT_KEY_SIZE])
{
	struct record_entry *entry;

	entry = records_from(&server->state.records, key_of(node_id, "", prefix));
	return entry && str_starts_with(entry->key, prefix) ? entry : NULL;
}

static struct record_entry *next_record(struct record_entry *entry, const char *prefix)
{
	entry = records_next(entry);
	return entry && str_starts_with(entry->key, prefix) ? entry : NULL;
}

bool attest_is_proof(struct server *server, const struct node_entry *node, const struct volume *volume)
{
	char prefix[OBJECT_KEY_SIZE];
	struct record_entry *entry = first_record(server, node->id, prefix);

	for (; entry; entry = next_record(entry, prefix)) {
		const attestation *record = (const void *)entry->record.message;

		if (record->epoch == state_epoch(&server->state) &&
		    names_volume(record, volume->namespace, volume->id))
			return true;
	}
	return false;
}

/* The word that covers the claim now, or NULL; borrowed. */
static const attestation *attest_record_valid(struct server *server, const struct claim_entry *entry)
{
	char prefix[OBJECT_KEY_SIZE];
	struct record_entry *record = first_record(server, entry->node->id, prefix);
	int64_t now_ms = record ? clock_realtime_ms() : 0;

	if (entry->claim.was_freed) /* its node has shown that such words were wrong: it takes one anew */
		return NULL;
	for (; record; record = next_record(record, prefix)) {
		const attestation *word = (const void *)record->record.message;

		if (word->expires_at_ms > now_ms && str_eq(word->boot_id, entry->claim.boot_id) &&
		    names_volume(word, entry->claim.namespace, entry->claim.volume_id))
			return word;
	}
	return NULL;
}

/* Owned by the caller; NULL when memory is short. */
static attestation *attest_record_make(struct server *server, const struct attest_record_facts *facts,
				       struct error *err)
{
	attestation *record = calloc(1, sizeof(*record));
	char id[UUID_TEXT_SIZE];
	char who[ACCESS_WHO_SIZE];

	if (record)
		holdfast__v1__attestation__init(record);
	if (!record || uuid_new(id) < 0)
		goto fail;
	record->create_time_ms = clock_realtime_ms();
	record->expires_at_ms = facts->valid_ms > 0 ? record->create_time_ms + (int64_t)facts->valid_ms : 0;
	record->epoch = state_epoch(&server->state);
	record->id = strdup(id);
	record->node_id = strdup(facts->node->id);
	record->boot_id = strdup(facts->node->node.boot_id);
	record->reason = strdup(facts->reason);
	record->by = strdup(access_who(server, facts->call, who));
	record->volumes = calloc(facts->n_volumes, sizeof(Holdfast__V1__VolumeRef *));
	if (!record->id || !record->node_id || !record->boot_id || !record->reason || !record->by ||
	    !record->volumes)
		goto fail;
	for (size_t i = 0; i < facts->n_volumes; i++) {
		Holdfast__V1__VolumeRef ref = *facts->volumes[i];
		char namespace[NAMESPACE_MAX + 1] = NAMESPACE_DEFAULT;

		if (ref.namespace_[0] == '\0')
			ref.namespace_ = namespace;
		record->volumes[i] = (Holdfast__V1__VolumeRef *)message_copy(&ref.base);
		if (!record->volumes[i])
			goto fail;
		record->n_volumes++;
	}
	return record;
fail:
	(void)error_no_memory(err, "an attestation");
	if (record)
		holdfast__v1__attestation__free_unpacked(record, NULL);
	return NULL;
}

/* STATUS_RESOURCE_EXHAUSTED when there are ATTEST_RECORDS_MAX about the node. */
static enum status attest_record_stage(struct server *server, struct change *change,
				       const attestation *record, struct error *err)
{
	char key[OBJECT_KEY_SIZE];
	char prefix[OBJECT_KEY_SIZE];
	struct record_entry *entry = first_record(server, record->node_id, prefix);
	size_t n = 0;

	for (; entry && n < ATTEST_RECORDS_MAX; entry = next_record(entry, prefix))
		n++;
	if (n == ATTEST_RECORDS_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "%d attestations about node %s are kept already; purge the node when it is "
				 "gone for good: holdfast node purge %s",
				 ATTEST_RECORDS_MAX, record->node_id, record->node_id);
	change_put_record(change, key_of(record->node_id, record->id, key), &record->base);
	return STATUS_OK;
}

bool attest_is_needed(struct server *server, const attestation *record)
{
	const struct node_entry *node = state_node(&server->state, record->node_id);

	return node && node->is_unreported && record->epoch == state_epoch(&server->state);
}

void attest_forget_node(struct server *server, struct change *change, const struct node_entry *node)
{
	char prefix[OBJECT_KEY_SIZE];
	struct record_entry *entry = first_record(server, node->id, prefix);
	size_t n = 0;

	/* those beyond what fits one transaction name a node that is not there: harmless, and gc takes them
	 */
	for (; entry && n < CHANGE_OBJECTS_MAX / 4; entry = next_record(entry, prefix), n++)
		change_delete_record(change, entry->key);
}

enum { BYPASSED_MAX = 64 * 1024, OBJECT_SIZE = 512 };

typedef Holdfast__V1__AttestNodeRequest attest_request;
typedef Holdfast__V1__AttestNodeResponse attest_response;
typedef Holdfast__V1__Attestation attestation;

/* Who gives which word about what. */
struct word {
	struct server *server;
	const struct rpc_call *call; /* NULL: given before, applied now */
	const char *what;	     /* "Nodes.Attest" */
	struct node_entry *node;
	bool is_lasting;    /* work that goes on is not meant now, but when it has ended */
	bool is_for_absent; /* nobody vouches for a node that is connected, whatever it does */
	const char *field;  /* that the reason came in */
	const char *reason;
	char detail[EVIDENCE_DETAIL_MAX + 1]; /* "NAME: reason" */
};

/* The claims that are meant. */
struct meant {
	char (*ids)[UUID_TEXT_SIZE]; /* owned */
	size_t n;
};

static void release_meant(struct meant *meant)
{
	free(meant->ids);
}

enum status attest_detail(struct server *server, const struct rpc_call *call, const char *field,
			  const char *reason, char ret[static EVIDENCE_DETAIL_MAX + 1], struct error *err)
{
	char who[ACCESS_WHO_SIZE];
	const char *name = access_who(server, call, who);

	if (reason[0] == '\0')
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "%s: missing; say why the node cannot have the volume any more", field);
	if (!str_is_text(reason) || str_format(ret, EVIDENCE_DETAIL_MAX + 1, "%s: %s", name, reason) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s: not text, or longer than %zu bytes",
				 field, (size_t)EVIDENCE_DETAIL_MAX - strlen(name) - 2);
	return STATUS_OK;
}

static enum status name_word(struct word *word, struct error *err)
{
	return attest_detail(word->server, word->call, word->field, word->reason, word->detail, err);
}

enum status attest_check_plugin(const struct server *server, const struct volume *volume, struct error *err)
{
	for (size_t i = 0; i < server->config.n_attest_forbidden; i++)
		if (str_eq(server->config.attest_forbidden[i], volume->plugin_id))
			return error_set(
				err, STATUS_FAILED_PRECONDITION, 0,
				"volume %s/%s: the server's attest_forbidden_plugins takes no "
				"operator's word for plugin %s; it needs the node's receipt, a new boot "
				"of it or a fence at the storage",
				volume->namespace, volume->id, volume->plugin_id);
	return STATUS_OK;
}

/* A claim that is being released waits for evidence; one whose work may go on is not given away by word. */
static enum status check_node_part(const struct word *word, const struct claim *claim, struct error *err)
{
	const struct alloc_entry *alloc = state_alloc(&word->server->state, claim->allocation_id);

	if (word->is_for_absent && node_is_connected(word->node))
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"node %s is connected and can give its own receipt; an operator's word is for "
			"nodes that cannot answer",
			word->node->id);
	if (claim->state >= CLAIM_UNPUBLISHING)
		return STATUS_OK;
	if (node_is_connected(word->node))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "node %s is connected and can give its own receipt for volume %s; stop "
				 "allocation %s: holdfast alloc stop %s",
				 word->node->id, claim->volume_id, claim->allocation_id,
				 claim->allocation_id);
	if (alloc && !alloc_is_client_terminal(&alloc->alloc) && alloc->alloc.desired_status != DESIRED_STOP)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "allocation %s is still to run; stop it first: holdfast alloc stop %s",
				 alloc->id, alloc->id);
	return STATUS_OK;
}

/* Does the claim wait for the provider alone? */
static bool is_at_provider(const struct claim *claim)
{
	return claim->state == CLAIM_NODE_DETACHED && claim->attach != ATTACH_NONE;
}

/* One detach is for all claims of the volume on the node, and one of them asks for it. In place of the
 * controller's word a person's is taken only after the controller has failed, and not while it is asked: that
 * detach could come after a later attach. */
static enum status check_provider_part(const struct word *word, const struct volume_entry *volume,
				       struct error *err)
{
	const struct claim_entry *entry;
	bool has_failed = false;

	LIST_FOREACH (entry, &volume->claims, of_volume) {
		if (entry->node != word->node || !is_at_provider(&entry->claim))
			continue;
		if (entry->work.is_asked)
			return error_set(
				err, STATUS_FAILED_PRECONDITION, 0,
				"plugin %s is being asked at this moment to detach volume %s from "
				"node %s; repeat this when that has failed: holdfast volume status %s "
				"--why",
				volume->volume.plugin_id, volume->id, word->node->id, volume->id);
		has_failed = has_failed || entry->claim.attempts > 0;
	}
	return has_failed ? STATUS_OK
			  : error_set(err, STATUS_FAILED_PRECONDITION, 0,
				      "node %s has let go of volume %s, and its detach has not failed: wait "
				      "for it, holdfast volume status %s --why",
				      word->node->id, volume->id, volume->id);
}

/* What a word about @volume is for: the node's part as long as any claim waits for that, then the
 * provider's, if it is for now. */
static bool is_about_node(const struct word *word, const struct volume_entry *volume)
{
	const struct claim_entry *entry;

	LIST_FOREACH (entry, &volume->claims, of_volume)
		if (entry->node == word->node && entry->claim.state < CLAIM_NODE_DETACHED)
			return true;
	return false;
}

static bool is_meant(const struct word *word, const struct claim_entry *entry, bool about_node)
{
	if (entry->node != word->node)
		return false;
	if (!about_node)
		return is_at_provider(&entry->claim) && !word->is_lasting;
	if (entry->claim.state >= CLAIM_NODE_DETACHED)
		return false;
	return !word->is_lasting || check_node_part(word, &entry->claim, NULL) == STATUS_OK;
}

/* Check every claim that is meant before the first is touched, and count them. */
static enum status check_volume(const struct word *word, const struct volume_entry *volume, bool about_node,
				size_t *ret_n, struct error *err)
{
	enum status st = attest_check_plugin(word->server, &volume->volume, err);
	const struct claim_entry *entry;
	size_t n = 0;

	LIST_FOREACH (entry, &volume->claims, of_volume) {
		if (!is_meant(word, entry, about_node))
			continue;
		n++;
		if (st == STATUS_OK && about_node)
			st = check_node_part(word, &entry->claim, err);
	}
	if (st == STATUS_OK && n > 0 && !about_node)
		st = check_provider_part(word, volume, err);
	*ret_n = n;
	return st;
}

static enum status add_volume(const struct word *word, const struct volume_entry *volume, struct meant *meant,
			      struct error *err)
{
	bool about_node = is_about_node(word, volume);
	const struct claim_entry *entry;
	enum status st;
	size_t n;
	void *ids;

	st = check_volume(word, volume, about_node, &n, err);
	if (st != STATUS_OK || n == 0)
		return st;
	ids = reallocarray(meant->ids, meant->n + n, sizeof(*meant->ids));
	if (!ids)
		return error_no_memory(err, "an attestation");
	meant->ids = ids;
	LIST_FOREACH (entry, &volume->claims, of_volume)
		if (is_meant(word, entry, about_node))
			memcpy(meant->ids[meant->n++], entry->claim.id, UUID_TEXT_SIZE);
	return STATUS_OK;
}

static void on_freed(struct server *server, void *userdata)
{
	cleanup_free char *id = userdata;
	struct claim_entry *entry = state_claim(&server->state, id);

	if (entry)
		release_drive(server, entry); /* the controller may still have to detach it */
}

static enum status free_claim(const struct word *word, struct claim_entry *entry, struct error *err)
{
	bool at_provider = is_at_provider(&entry->claim);
	const struct claim_event said = {.type = at_provider ? CLAIM_EVENT_DETACH_ATTESTED
							     : CLAIM_EVENT_EVIDENCE,
					 .evidence = EVIDENCE_OPERATOR,
					 .detail = word->detail,
					 .now_ms = clock_realtime_ms()};
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct claim after;
	enum status st;

	st = at_provider ? claims_step(&change, entry, &said, &after, err)
			 : claims_take_from_node(&change, entry, &said,
						 "its node is gone, as an operator attested", err);
	if (st != STATUS_OK)
		return st;
	audit_word(word->server, &change, word->call, word->what, &entry->claim,
		   word->call ? word->reason : word->detail);
	return change_commit_taking(word->server, &change, on_freed, strdup(entry->claim.id), err);
}

static enum status free_meant(const struct word *word, const struct meant *meant, struct error *err)
{
	for (size_t i = 0; i < meant->n; i++) {
		struct claim_entry *entry = state_claim(&word->server->state, meant->ids[i]);
		enum status st = entry ? free_claim(word, entry, err) : STATUS_OK;

		if (st != STATUS_OK)
			return st;
	}
	return STATUS_OK;
}

enum status attest_volume(struct server *server, const struct rpc_call *call, const char *what,
			  struct node_entry *node, struct volume_entry *volume, const char *reason,
			  bool dry_run, struct error *err)
{
	struct word word = {.server = server,
			    .call = call,
			    .what = what,
			    .node = node,
			    .is_for_absent = true,
			    .field = "attest_reason",
			    .reason = reason};
	cleanup(release_meant) struct meant meant = {0};
	enum status st = name_word(&word, err);

	if (st == STATUS_OK)
		st = add_volume(&word, volume, &meant, err);
	if (st != STATUS_OK)
		return st;
	if (meant.n == 0)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "node %s holds no claim of volume %s: nothing was changed; holdfast volume "
				 "status --why %s shows who does",
				 node->id, volume->id, volume->id);
	return dry_run ? STATUS_OK : free_meant(&word, &meant, err);
}

bool attest_apply(struct server *server, struct claim_entry *entry)
{
	bool node_does_it = node_is_connected(entry->node) && entry->claim.attempts == 0;
	const attestation *record;
	struct word word = {.server = server, .what = "Nodes.Attest", .node = entry->node};
	struct error err;

	if (entry->claim.state != CLAIM_UNPUBLISHING || node_does_it)
		return false;
	record = attest_record_valid(server, entry);
	if (!record || attest_check_plugin(server, &entry->volume->volume, NULL) != STATUS_OK)
		return false;
	str_copy_text(word.detail, sizeof(word.detail), record->reason);
	word.reason = word.detail;
	if (free_claim(&word, entry, &err) == STATUS_OK)
		return true;
	log_ctx(LOG_ERR, &(struct log_ctx){.claim = entry->id, .op = "attest", .err = &err},
		"cannot free the claim by an operator's word");
	return false;
}

/* Nodes.Attest. */

static enum status find_volumes(const struct word *word, const attest_request *request, struct meant *meant,
				struct error *err)
{
	for (size_t i = 0; i < request->n_volumes; i++) {
		const Holdfast__V1__VolumeRef *ref = request->volumes[i];
		const char *namespace = namespace_or_default(ref->namespace_);
		struct volume_entry *volume = state_volume(&word->server->state, namespace, ref->id);
		enum status st;

		if (!volume)
			return error_set(err, STATUS_NOT_FOUND, 0,
					 "volumes[%zu]: there is no volume %.64s/%.128s; holdfast volume "
					 "status lists them",
					 i, namespace, ref->id);
		for (size_t k = 0; k < i; k++)
			if (str_eq(request->volumes[k]->id, ref->id) &&
			    str_eq(request->volumes[k]->namespace_, ref->namespace_))
				return error_set(err, STATUS_INVALID_ARGUMENT, 0,
						 "volumes[%zu]: volume %s is named twice", i, volume->id);
		st = add_volume(word, volume, meant, err);
		if (st != STATUS_OK)
			return st;
	}
	return STATUS_OK;
}

static enum status check_request(const attest_request *request, struct error *err)
{
	if (request->n_volumes == 0)
		return error_set(
			err, STATUS_INVALID_ARGUMENT, 0,
			"volumes: missing; an operator's word is for named volumes, never for all of "
			"a node. holdfast node status %.64s lists what it holds",
			request->id);
	if (request->n_volumes > ATTEST_VOLUMES_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "volumes: more than %d",
				 ATTEST_VOLUMES_MAX);
	if (request->valid_ms > ATTEST_VALID_MAX_MS)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "valid_ms: more than %d (a week)",
				 ATTEST_VALID_MAX_MS);
	return STATUS_OK;
}

/* What nobody but the operator says. */
static void say_bypassed(struct strbuf *sb, const struct claim *claim)
{
	strbuf_printf(sb, "volume %s/%s, allocation %s, generation %" PRIu64 ": ", claim->namespace,
		      claim->volume_id, claim->allocation_id, claim->generation);
	if (is_at_provider(claim))
		strbuf_printf(sb,
			      "no controller of plugin %s has confirmed that the provider detached it from "
			      "node %s",
			      claim->plugin_id, claim->node_id);
	else
		strbuf_printf(sb,
			      "node %s has not confirmed that it unmounted (receipt), no later boot of it "
			      "than %s was seen (new_boot), no storage confirmed a detach (storage_fence)",
			      claim->node_id, claim->boot_id);
	if (claim->last_error[0] != '\0')
		strbuf_printf(sb, "; the last error: %s", claim->last_error);
	strbuf_puts(sb, "\n");
}

static char *bypassed_text(struct server *server, const struct meant *meant)
{
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(BYPASSED_MAX);

	for (size_t i = 0; i < meant->n; i++) {
		const struct claim_entry *entry = state_claim(&server->state, meant->ids[i]);

		if (entry && sb.len <= BYPASSED_MAX - 2048)
			say_bypassed(&sb, &entry->claim);
	}
	return strbuf_take(&sb);
}

/* Answered when all of it is durable. */
struct answer {
	struct rpc_call *call;
	attest_response *response; /* owned */
	struct meant meant;	   /* owned */
};

static void answer_free(struct answer *answer)
{
	if (!answer)
		return;
	if (answer->response)
		protobuf_c_message_free_unpacked(&answer->response->base, NULL);
	release_meant(&answer->meant);
	free(answer);
}
DEFINE_CLEANUP(struct answer, answer_free)

static void on_answer(struct server *server, void *userdata)
{
	cleanup(answer_freep) struct answer *answer = userdata;
	attest_response *response = answer->response;

	response->claims = calloc(answer->meant.n + 1, sizeof(Holdfast__V1__Claim *));
	for (size_t i = 0; response->claims && i < answer->meant.n; i++) {
		struct claim_entry *entry = NULL;
		Holdfast__V1__Claim *claim = NULL;

		if (freed_find(server, answer->meant.ids[i], &entry, NULL) == STATUS_OK && entry)
			claim = claim_to_pb(&entry->claim);
		if (claim)
			response->claims[response->n_claims++] = claim;
	}
	rpc_call_reply(answer->call, &response->base);
}

/* A word that changes nothing is a mistake: another node, another volume, or too early. */
static enum status check_effect(const struct word *word, const attest_request *request,
				const struct meant *meant, struct error *err)
{
	if (meant->n > 0 || request->valid_ms > 0 || word->node->is_unreported)
		return STATUS_OK;
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "none of the volumes named has a claim that waits for node %s, so nothing would "
			 "change; holdfast volume status ID --why tells what a volume waits for",
			 word->node->id);
}

static enum status store_record(const struct word *word, const attestation *record, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	enum status st = attest_record_stage(word->server, &change, record, err);
	char object[OBJECT_SIZE];

	if (st != STATUS_OK)
		return st;
	(void)str_format(object, sizeof(object), "node %s, %zu volume%s, first %.64s/%.128s", word->node->id,
			 record->n_volumes, str_s(record->n_volumes), record->volumes[0]->namespace_,
			 record->volumes[0]->id);
	audit_write(word->server, &change, word->call, word->what, object, word->reason);
	return change_commit(word->server, &change, NULL, NULL, err);
}

static enum status attest(const struct word *word, const attest_request *request, struct answer *answer,
			  struct error *err)
{
	attest_response *response = answer->response;
	const struct attest_record_facts facts = {.call = word->call,
						  .node = word->node,
						  .volumes = request->volumes,
						  .n_volumes = request->n_volumes,
						  .reason = word->detail,
						  .valid_ms = request->valid_ms};
	enum status st = find_volumes(word, request, &answer->meant, err);

	if (st == STATUS_OK)
		st = check_effect(word, request, &answer->meant, err);
	if (st != STATUS_OK)
		return st;
	response->attestation = attest_record_make(word->server, &facts, err);
	if (!response->attestation)
		return STATUS_RESOURCE_EXHAUSTED;
	response->bypassed = bypassed_text(word->server, &answer->meant);
	if (!response->bypassed)
		return error_no_memory(err, "an attestation");
	if (request->dry_run)
		return STATUS_OK;
	st = store_record(word, response->attestation, err);
	return st == STATUS_OK ? free_meant(word, &answer->meant, err) : st;
}

static enum status handle_attest(struct server *server, struct rpc_call *call, const attest_request *request,
				 struct error *err)
{
	struct word word = {.server = server,
			    .call = call,
			    .what = "Nodes.Attest",
			    .is_lasting = request->valid_ms > 0,
			    .field = "reason",
			    .reason = request->reason};
	cleanup(answer_freep) struct answer *answer = calloc(1, sizeof(*answer));
	struct change nothing = CHANGE_INIT; /* durable after all the others */
	enum status st = check_request(request, err);

	if (st == STATUS_OK)
		st = nodes_find(server, request->id, &word.node, err);
	if (st == STATUS_OK)
		st = name_word(&word, err);
	if (st != STATUS_OK)
		return st;
	if (answer)
		answer->response = calloc(1, sizeof(*answer->response));
	if (!answer || !answer->response)
		return error_no_memory(err, "an attestation");
	answer->call = call;
	holdfast__v1__attest_node_response__init(answer->response);
	st = attest(&word, request, answer, err);
	if (st == STATUS_OK)
		st = change_commit(server, &nothing, on_answer, answer, err);
	if (st == STATUS_OK)
		(void)TAKE_PTR(answer);
	return st;
}

DEFINE_WRITE_METHOD(attest_handle, attest_request, "Nodes.Attest", handle_attest)

/* SPDX-License-Identifier: Apache-2.0 */
#include "claim/attest.h"

#include "server.h"

#include "access/access.h"
#include "access/answer.h"
#include "access/audit.h"
#include "alloc/allocs.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/uuid.h"
#include "claim/attest_record.h"
#include "claim/claims.h"
#include "claim/release.h"
#include "log/log.h"
#include "model/pb.h"
#include "node/lookup.h"
#include "node/machine_code.h"
#include "recovery/replaced.h"
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

enum { BYPASSED_MAX = 64 * 1024, OBJECT_SIZE = 512 };

typedef Holdfast__V1__AttestNodeRequest attest_request;
typedef Holdfast__V1__AttestNodeResponse attest_response;
typedef Holdfast__V1__Attestation attestation;

/* An operator's attestation: its author, node and reason. */
struct word {
	struct server *server;
	const struct rpc_call *call;
	const char *what; /* "Nodes.Attest" */
	struct node_entry *node;
	bool is_lasting;   /* work that continues is not meant now, but when it has ended */
	const char *field; /* that the reason came in */
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

static enum status name_word(struct word *word, struct error *err)
{
	return attest_detail(word->server, word->call, word->field, word->reason, word->detail, err);
}

/* Checks that the claim may be attested: a claim that is being released waits for evidence, but one whose
 * work may continue is kept. */
static enum status check_node_part(const struct word *word, const struct claim *claim, struct error *err)
{
	const struct alloc_entry *alloc = state_alloc_of(&word->server->state, claim);

	if (!claim->other_machine)
		TRY(nodes_check_away(word->server, word->node, err));
	if (attest_is_answered(word->server, word->node, claim))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "node %s is connected and gives its own receipt for volume %s after "
				 "holdfast alloc stop %s; an attestation is for nodes that cannot answer. If "
				 "the plugin never releases it: holdfast volume detach %s %s%s%s "
				 "--without-plugin REASON",
				 word->node->id, claim->volume_id, claim->allocation_id, claim->volume_id,
				 word->node->id, NAMESPACE_OPTION(claim->namespace));
	if (claim->state >= CLAIM_UNPUBLISHING)
		return STATUS_OK;
	if (alloc && !alloc_is_client_terminal(&alloc->alloc) && alloc->alloc.desired_status != DESIRED_STOP)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "allocation %s is still to run; stop it first: holdfast alloc stop %s",
				 alloc->id, alloc->id);
	return STATUS_OK;
}

/* Checks that the provider's part may be attested. One detach is for all claims of the volume on the node,
 * and one of them asks for it. An attestation replaces the controller's confirmation only after the
 * controller has failed, and not while a call is in flight: that detach could follow a later attach. */
static enum status check_provider_part(const struct word *word, const struct volume_entry *volume,
				       struct error *err)
{
	const struct claim_entry *entry;
	bool has_failed = false;

	LIST_FOREACH (entry, &volume->claims, of_volume) {
		if (entry->node != word->node || !attest_is_at_provider(&entry->claim))
			continue;
		if (entry->work.is_asked)
			return error_set(
				err, STATUS_FAILED_PRECONDITION, 0,
				"plugin %s is being asked at this moment to detach volume %s from "
				"node %s; repeat this when that has failed: holdfast volume status %s%s%s "
				"--why",
				volume->volume.plugin_id, volume->id, word->node->id, volume->id,
				NAMESPACE_OPTION(volume->namespace));
		has_failed = has_failed || entry->claim.attempts > 0;
	}
	return has_failed ? STATUS_OK
			  : error_set(err, STATUS_FAILED_PRECONDITION, 0,
				      "node %s has released volume %s, and its detach has not failed: wait "
				      "for it, holdfast volume status %s%s%s --why",
				      word->node->id, volume->id, volume->id,
				      NAMESPACE_OPTION(volume->namespace));
}

/* Is the attestation about the node's part? Yes while any claim of @volume waits for it; then it is about
 * the provider's part, if it is for now. */
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
		return attest_is_at_provider(&entry->claim) && !word->is_lasting;
	if (entry->claim.state >= CLAIM_NODE_DETACHED)
		return false;
	return !word->is_lasting || check_node_part(word, &entry->claim, NULL) == STATUS_OK;
}

/* Checks every claim that is meant before the first is touched, and counts them. */
static enum status check_volume(const struct word *word, const struct volume_entry *volume, bool about_node,
				size_t *ret_n, struct error *err)
{
	enum status status =
		attest_check_plugin(word->server, &volume->volume, volume->volume.plugin_id, err);
	const struct claim_entry *entry;
	size_t n = 0;

	LIST_FOREACH (entry, &volume->claims, of_volume) {
		if (!is_meant(word, entry, about_node))
			continue;
		n++;
		if (status == STATUS_OK) /* it may be on other storage */
			status = attest_check_plugin(word->server, &volume->volume, entry->claim.plugin_id,
						     err);
		if (status == STATUS_OK && about_node)
			status = check_node_part(word, &entry->claim, err);
	}
	if (status == STATUS_OK && n > 0 && !about_node)
		status = check_provider_part(word, volume, err);
	*ret_n = n;
	return status;
}

static enum status add_volume(const struct word *word, const struct volume_entry *volume, struct meant *meant,
			      struct error *err)
{
	bool about_node = is_about_node(word, volume);
	const struct claim_entry *entry;
	enum status status;
	size_t n;
	void *ids;

	status = check_volume(word, volume, about_node, &n, err);
	if (status != STATUS_OK || n == 0)
		return status;
	ids = reallocarray(meant->ids, meant->n + n, sizeof(*meant->ids));
	if (!ids)
		return error_no_memory(err, "an attestation");
	meant->ids = ids;
	LIST_FOREACH (entry, &volume->claims, of_volume)
		if (is_meant(word, entry, about_node))
			memcpy(meant->ids[meant->n++], entry->claim.id, UUID_TEXT_SIZE);
	return STATUS_OK;
}

static enum status free_meant(const struct word *word, const struct meant *meant, struct error *err)
{
	const struct attest_said attested = {
		.call = word->call, .what = word->what, .detail = word->detail, .why = word->reason};

	for (size_t i = 0; i < meant->n; i++) {
		struct claim_entry *entry = state_claim(&word->server->state, meant->ids[i]);

		if (entry)
			TRY(attest_free_claim(&attested, release_freed, entry, err));
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
			    .field = "attest_reason",
			    .reason = reason};
	cleanup(release_meant) struct meant meant = {0};

	TRY(name_word(&word, err));
	TRY(add_volume(&word, volume, &meant, err));
	if (meant.n == 0)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "node %s holds no claim of volume %s: nothing was changed; holdfast volume "
				 "status --why %s%s%s shows who does",
				 node->id, volume->id, volume->id, NAMESPACE_OPTION(volume->namespace));
	return dry_run ? STATUS_OK : free_meant(&word, &meant, err);
}

/* Nodes.Attest. */

static enum status find_volumes(const struct word *word, const attest_request *request, struct meant *meant,
				struct error *err)
{
	for (size_t i = 0; i < request->n_volumes; i++) {
		const Holdfast__V1__VolumeRef *ref = request->volumes[i];
		const char *namespace = namespace_or_default(ref->namespace_);
		struct volume_entry *volume = state_volume(&word->server->state, namespace, ref->id);

		if (!volume)
			return error_set(err, STATUS_NOT_FOUND, 0,
					 "volumes[%zu]: there is no volume %.64s/%.128s; holdfast volume "
					 "status%s%.64s lists them",
					 i, namespace, ref->id, NAMESPACE_OPTION(namespace));
		for (size_t k = 0; k < i; k++)
			if (str_eq(request->volumes[k]->id, ref->id) &&
			    str_eq(namespace_or_default(request->volumes[k]->namespace_), namespace))
				return error_set(err, STATUS_INVALID_ARGUMENT, 0,
						 "volumes[%zu]: volume %s is named twice", i, volume->id);
		TRY(add_volume(word, volume, meant, err));
	}
	return STATUS_OK;
}

static enum status check_request(const attest_request *request, struct error *err)
{
	if (request->n_volumes == 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "volumes: missing; an attestation is for named volumes, never for all of a "
				 "node. holdfast node status %.64s lists what it holds",
				 request->id);
	if (request->n_volumes > ATTEST_VOLUMES_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "volumes: more than %d",
				 ATTEST_VOLUMES_MAX);
	if (request->valid_ms > ATTEST_VALID_MAX_MS)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "valid_ms: more than %d (a week)",
				 ATTEST_VALID_MAX_MS);
	return STATUS_OK;
}

/* Writes the facts that only the operator confirms. */
static void write_bypassed(struct strbuf *sb, const struct claim *claim)
{
	strbuf_printf(sb, "volume %s/%s, allocation %s, generation %" PRIu64 ": ", claim->namespace,
		      claim->volume_id, claim->allocation_id, claim->generation);
	if (attest_is_at_provider(claim))
		strbuf_printf(sb,
			      "no controller of plugin %s has confirmed that the provider detached it from "
			      "node %s",
			      claim->plugin_id, claim->node_id);
	else
		strbuf_printf(sb,
			      "node %s has not confirmed that it unmounted (receipt), no later boot of it "
			      "was seen (new_boot), no storage confirmed a detach (storage_fence)",
			      claim->node_id);
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
			write_bypassed(&sb, &entry->claim);
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

static bool hide_node(struct server *server, const struct rpc_call *call, attestation *shown)
{
	if (access_check(server, call, ACCESS_NODE_READ, NULL, NULL) != STATUS_OK)
		shown->boot_id[0] = '\0';
	for (size_t i = 0; i < shown->n_machines; i++)
		if (!machine_code_show(server, shown->node_id, &shown->machines[i]))
			return false;
	return true;
}

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
	claims_hide_boots(server, answer->call, response->claims, response->n_claims);
	if (hide_node(server, answer->call, response->attestation))
		rpc_call_reply(answer->call, &response->base);
	else
		answer_error(answer->call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
}

/* Refuses an attestation that changes nothing: it names another node or volume, or comes too early; and one
 * for claims that a connected node will release itself. */
static enum status check_effect(const struct word *word, const attest_request *request,
				const struct meant *meant, struct error *err)
{
	if (request->valid_ms > 0)
		TRY(nodes_check_away(word->server, word->node, err));
	if (request->valid_ms > 0 && node_is_connected(word->node))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "node %s is connected: an attestation about what it releases later is for "
				 "nodes that cannot answer",
				 word->node->id);
	if (meant->n == 0 && word->node->is_unreported && node_is_connected(word->node))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "node %s is connected and reports what it holds: wait for its report, "
				 "holdfast node status %s",
				 word->node->id, word->node->id);
	if (meant->n > 0 || request->valid_ms > 0 || word->node->is_unreported ||
	    replaced_next_of(word->server, word->node->id, NULL))
		return STATUS_OK;
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "not one of the named volumes has a claim that waits for node %s, so nothing would "
			 "change; holdfast volume status ID --why shows the cause",
			 word->node->id);
}

static enum status store_record(const struct word *word, const attestation *record, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	enum status status = attest_record_stage(word->server, &change, record, err);
	char object[OBJECT_SIZE];

	if (status != STATUS_OK)
		return status;
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

	TRY(find_volumes(word, request, &answer->meant, err));
	TRY(check_effect(word, request, &answer->meant, err));
	response->attestation = attest_record_make(word->server, &facts, err);
	if (!response->attestation)
		return STATUS_RESOURCE_EXHAUSTED;
	response->bypassed = bypassed_text(word->server, &answer->meant);
	if (!response->bypassed)
		return error_no_memory(err, "an attestation");
	if (request->dry_run)
		return STATUS_OK;
	TRY(store_record(word, response->attestation, err));
	TRY(free_meant(word, &answer->meant, err));
	if (!node_is_connected(word->node) && !nodes_may_come_back(word->server, word->node))
		TRY(allocs_node_gone(word->server, word->node, false, word->detail, err));
	return STATUS_OK;
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

	TRY(check_request(request, err));
	TRY(nodes_find(server, request->id, &word.node, err));
	TRY(name_word(&word, err));
	if (answer)
		answer->response = calloc(1, sizeof(*answer->response));
	if (!answer || !answer->response)
		return error_no_memory(err, "an attestation");
	answer->call = call;
	holdfast__v1__attest_node_response__init(answer->response);
	TRY(attest(&word, request, answer, err));
	TRY(change_commit(server, &nothing, on_answer, answer, err));
	(void)TAKE_PTR(answer);
	return STATUS_OK;
}

DEFINE_WRITE_METHOD(attest_handle, attest_request, "Nodes.Attest", handle_attest)

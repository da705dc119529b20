/* SPDX-License-Identifier: Apache-2.0 */
#include "claim/attest_record.h"

#include "server.h"

#include "access/audit.h"
#include "access/caller.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/uuid.h"
#include "claim/claims.h"
#include "log/log.h"
#include "node/lookup.h"
#include "recovery/replaced.h"
#include "state/keys.h"
#include "state/records.h"

#include <stdlib.h>
#include <string.h>

typedef Holdfast__V1__Attestation attestation;

static char *key_of(const char *node_id, const char *id, char ret[static OBJECT_KEY_SIZE])
{
	(void)str_format(ret, OBJECT_KEY_SIZE, PREFIX_ATTESTATION "%s/%s", node_id, id);
	return ret;
}

enum { STORAGE_SIZE = PLUGIN_ID_MAX + 1 + VOLUME_SOURCE_HEX_SIZE + EXTERNAL_ID_MAX };

/* The storage that @volume is a name of. */
static const char *storage_of(const struct volume *volume, char ret[static STORAGE_SIZE])
{
	bool has_source = volume->type != VOLUME_NATIVE || !volume_is_placeholder(volume);
	char source[VOLUME_SOURCE_HEX_SIZE];

	volume_source_hex(volume, source);
	(void)str_format(ret, STORAGE_SIZE, "%s/%s", volume->plugin_id,
			 has_source ? source : volume->external_id);
	return ret;
}

/* Is it about @volume, and about the storage that this has? A name may have got another one since. */
static bool names_storage(const attestation *record, const struct volume *volume)
{
	char storage[STORAGE_SIZE];

	(void)storage_of(volume, storage);
	for (size_t i = 0; i < record->n_volumes && i < record->n_storages; i++)
		if (str_eq(record->volumes[i]->namespace_, volume->namespace) &&
		    str_eq(record->volumes[i]->id, volume->id) && str_eq(record->storages[i], storage))
			return true;
	return false;
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

static bool names_machine(const attestation *record, const char *machine)
{
	for (size_t i = 0; i < record->n_machines; i++)
		if (!node_machine_differs(record->machines[i], machine))
			return true;
	return false;
}

bool attest_is_proof(struct server *server, const char *node_id, const char *machine,
		     const struct volume *volume)
{
	const struct volume_entry *now = state_volume(&server->state, volume->namespace, volume->id);
	char prefix[OBJECT_KEY_SIZE];
	struct record_entry *entry = now ? first_record(server, node_id, prefix) : NULL;

	for (; entry; entry = next_record(entry, prefix)) {
		const attestation *record = (const void *)entry->record.message;

		if (record->epoch == state_epoch(&server->state) && names_machine(record, machine) &&
		    names_storage(record, &now->volume))
			return true;
	}
	return false;
}

/* Returns the attestation that covers the claim now, or NULL; borrowed. */
static const attestation *attest_record_valid(struct server *server, const struct claim_entry *entry)
{
	char prefix[OBJECT_KEY_SIZE];
	struct record_entry *record = first_record(server, entry->node->id, prefix);
	int64_t now_ms = record ? clock_realtime_ms() : 0;

	if (entry->claim.was_freed) /* its node has disproved earlier attestations: a new one is needed */
		return NULL;
	for (; record; record = next_record(record, prefix)) {
		const attestation *word = (const void *)record->record.message;

		if (word->expires_at_ms > now_ms && str_eq(word->boot_id, entry->claim.boot_id) &&
		    names_volume(word, entry->claim.namespace, entry->claim.volume_id))
			return word;
	}
	return NULL;
}

/* Adds the machine that is the node, unless it is connected and can report, and those that were and did not
 * report, as far as there is room. */
static bool add_machines(struct server *server, const struct node_entry *node, attestation *record)
{
	struct record_entry *entry = NULL;
	const char *machine = node_is_connected(node) ? NULL : node->node.machine;

	record->machines = calloc(ATTEST_MACHINES_MAX, sizeof(*record->machines));
	if (!record->machines)
		return false;
	do {
		if (machine && !(record->machines[record->n_machines++] = strdup(machine)))
			return false;
		entry = replaced_next_of(server, node->id, entry);
		machine = entry ? replaced_machine(entry) : NULL;
	} while (machine && record->n_machines < ATTEST_MACHINES_MAX);
	return true;
}

/* Adds the volumes that it is about, and their storage. */
static bool add_volumes(struct server *server, const struct attest_record_facts *facts, attestation *record)
{
	record->volumes = calloc(facts->n_volumes, sizeof(Holdfast__V1__VolumeRef *));
	record->storages = calloc(facts->n_volumes, sizeof(*record->storages));
	if (!record->volumes || !record->storages)
		return false;
	for (size_t i = 0; i < facts->n_volumes; i++) {
		Holdfast__V1__VolumeRef ref = *facts->volumes[i];
		char namespace[NAMESPACE_MAX + 1] = NAMESPACE_DEFAULT;
		const struct volume_entry *volume;
		char storage[STORAGE_SIZE] = "";

		if (ref.namespace_[0] == '\0')
			ref.namespace_ = namespace;
		volume = state_volume(&server->state, ref.namespace_, ref.id);
		if (volume)
			(void)storage_of(&volume->volume, storage);
		record->volumes[i] = (Holdfast__V1__VolumeRef *)message_copy(&ref.base);
		record->n_volumes += record->volumes[i] != NULL;
		record->storages[i] = strdup(storage);
		record->n_storages += record->storages[i] != NULL;
		if (record->n_volumes == i || record->n_storages == i)
			return false;
	}
	return true;
}

attestation *attest_record_make(struct server *server, const struct attest_record_facts *facts,
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
	record->boot_id = strdup(node_own_boot(&facts->node->node));
	record->reason = strdup(facts->reason);
	record->by = strdup(access_who(server, facts->call, who));
	if (!record->id || !record->node_id || !record->boot_id || !record->reason || !record->by ||
	    !add_machines(server, facts->node, record) || !add_volumes(server, facts, record))
		goto fail;
	return record;
fail:
	(void)error_no_memory(err, "an attestation");
	if (record)
		holdfast__v1__attestation__free_unpacked(record, NULL);
	return NULL;
}

static bool has_machine(const attestation *record, const char *machine)
{
	for (size_t i = 0; i < record->n_machines; i++)
		if (str_eq(record->machines[i], machine))
			return true;
	return false;
}

/* Is @record good for everything that the @earlier one is good for? */
static bool replaces(const attestation *record, const attestation *earlier)
{
	if (record->epoch != earlier->epoch || !str_eq(record->boot_id, earlier->boot_id) ||
	    record->expires_at_ms < earlier->expires_at_ms || record->n_volumes != earlier->n_volumes ||
	    earlier->n_storages != earlier->n_volumes)
		return false;
	for (size_t i = 0; i < earlier->n_machines; i++)
		if (!has_machine(record, earlier->machines[i]))
			return false;
	for (size_t i = 0; i < record->n_volumes; i++)
		if (!str_eq(record->volumes[i]->namespace_, earlier->volumes[i]->namespace_) ||
		    !str_eq(record->volumes[i]->id, earlier->volumes[i]->id) ||
		    !str_eq(record->storages[i], earlier->storages[i]))
			return false;
	return true;
}

/* The namespace that it counts for. */
static const char *namespace_of(const attestation *record)
{
	return record->n_volumes > 0 ? record->volumes[0]->namespace_ : "";
}

static enum status refuse_more(const attestation *record, int n, const char *whose, const char *name,
			       struct error *err)
{
	return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
			 "%d attestations%s%.150s are kept about node %s, the most there may be; name more "
			 "volumes in one, or purge the node when it is gone for good: holdfast node purge %s",
			 n, whose, name, record->node_id, record->node_id);
}

enum status attest_record_stage(struct server *server, struct change *change, const attestation *record,
				struct error *err)
{
	enum { BY_ONE = ATTEST_RECORDS_MAX / 2, OF_NAMESPACE = ATTEST_RECORDS_MAX / 4 * 3 };
	char key[OBJECT_KEY_SIZE];
	char prefix[OBJECT_KEY_SIZE];
	struct record_entry *entry = first_record(server, record->node_id, prefix);
	const char *replaced = NULL;
	size_t n = 0, n_by_one = 0, n_of_namespace = 0;

	for (; entry && n < ATTEST_RECORDS_MAX; entry = next_record(entry, prefix)) {
		const attestation *other = (const void *)entry->record.message;

		if (!replaced && replaces(record, other)) {
			replaced = entry->key;
			continue;
		}
		n++;
		n_by_one += str_eq(record->by, other->by);
		n_of_namespace += str_eq(namespace_of(record), namespace_of(other));
	}
	if (n >= ATTEST_RECORDS_MAX)
		return refuse_more(record, ATTEST_RECORDS_MAX, "", "", err);
	if (n_by_one >= BY_ONE)
		return refuse_more(record, BY_ONE, " by ", record->by, err);
	if (n_of_namespace >= OF_NAMESPACE)
		return refuse_more(record, OF_NAMESPACE, " of namespace ", namespace_of(record), err);
	if (replaced)
		change_delete_record(change, replaced);
	change_put_record(change, key_of(record->node_id, record->id, key), &record->base);
	return STATUS_OK;
}

bool attest_is_needed(struct server *server, const attestation *record)
{
	const struct node_entry *node = state_node(&server->state, record->node_id);

	return node && (node->is_unreported || replaced_next_of(server, node->id, NULL)) &&
	       record->n_machines > 0 && record->epoch == state_epoch(&server->state);
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

enum status attest_disprove(struct server *server, const char *node_id, const char *machine,
			    const char *boot_id, struct error *err)
{
	char prefix[OBJECT_KEY_SIZE];
	struct record_entry *next, *entry = first_record(server, node_id, prefix);

	for (; entry; entry = next) {
		const attestation *word = (const void *)entry->record.message;
		attestation ended = *word;
		char *machines[ATTEST_MACHINES_MAX];
		cleanup(change_release) struct change change = CHANGE_INIT;
		char object[AUDIT_OBJECT_SIZE], why[AUDIT_WHY_SIZE];

		next = next_record(entry, prefix);
		ended.machines = machines;
		ended.n_machines = 0;
		for (size_t i = 0; i < word->n_machines && i < ATTEST_MACHINES_MAX; i++)
			if (node_machine_differs(word->machines[i], machine))
				machines[ended.n_machines++] = word->machines[i];
		if (str_eq(word->boot_id, boot_id))
			ended.expires_at_ms = 0;
		if (ended.n_machines == word->n_machines && ended.expires_at_ms == word->expires_at_ms)
			continue;
		log_ctx(LOG_WARNING, &(struct log_ctx){.node = node_id, .op = "attest"},
			"the attestation of %s is over: the node was taken for gone, and has connected. "
			"If that was another machine: holdfast operator cert revoke node/%s --reason TEXT",
			ended.by, node_id);
		(void)str_format(object, sizeof(object), "node %s", node_id);
		(void)str_format(why, sizeof(why), "over for the machine that has connected: that of %s",
				 ended.by);
		audit_silent(server, &change, NULL, "Nodes.Attest", object, why);
		change_put_record(&change, entry->key, &ended.base);
		TRY(change_commit(server, &change, NULL, NULL, err));
	}
	return STATUS_OK;
}

enum status attest_detail(struct server *server, const struct rpc_call *call, const char *field,
			  const char *reason, char ret[static EVIDENCE_DETAIL_MAX + 1], struct error *err)
{
	char who[ACCESS_WHO_SIZE];
	const char *name = access_who(server, call, who);

	if (reason[0] == '\0')
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "%s: missing; give the reason why the node no longer has the volume", field);
	if (!str_is_text(reason) || str_format(ret, EVIDENCE_DETAIL_MAX + 1, "%s: %s", name, reason) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s: not text, or longer than %zu bytes",
				 field, (size_t)EVIDENCE_DETAIL_MAX - strlen(name) - 2);
	return STATUS_OK;
}

enum status attest_check_plugin(const struct server *server, const struct volume *volume,
				const char *plugin_id, struct error *err)
{
	for (size_t i = 0; i < CONFIG_FORBIDDEN_MAX && server->config.attest_forbidden[i][0] != '\0'; i++)
		if (str_eq(server->config.attest_forbidden[i], plugin_id))
			return error_set(err, STATUS_FAILED_PRECONDITION, 0,
					 "volume %s/%s: the server's attest_forbidden_plugins allows no "
					 "attestation for plugin %s; it needs the node's receipt, a new boot "
					 "of it or a fence at the storage",
					 volume->namespace, volume->id, plugin_id);
	return STATUS_OK;
}

/* Does the claim wait only for the provider? */
bool attest_is_at_provider(const struct claim *claim)
{
	return claim->state == CLAIM_NODE_DETACHED && claim->attach != ATTACH_NONE;
}

bool attest_is_answered(const struct server *server, const struct node_entry *node, const struct claim *claim)
{
	return (node_is_connected(node) || nodes_may_come_back(server, node)) && !claim->other_machine;
}

enum status attest_free_claim(const struct attest_said *said, change_done_fn *freed,
			      struct claim_entry *entry, struct error *err)
{
	bool at_provider = attest_is_at_provider(&entry->claim);
	const struct claim_event event = {.type = at_provider ? CLAIM_EVENT_DETACH_ATTESTED
							      : CLAIM_EVENT_EVIDENCE,
					  .evidence = EVIDENCE_OPERATOR,
					  .detail = said->detail,
					  .now_ms = clock_realtime_ms()};
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct claim after;

	TRY(at_provider ? claims_step(&change, entry, &event, &after, err)
			: claims_take_from_node(&change, entry, &event,
						"its node is gone, as an operator attested", err));
	audit_word(entry->server, &change, said->call, said->what, &entry->claim, said->why);
	return change_commit_taking(entry->server, &change, freed, strdup(entry->claim.id), err);
}

bool attest_apply(struct server *server, struct claim_entry *entry, change_done_fn *freed)
{
	const attestation *record;
	char detail[EVIDENCE_DETAIL_MAX + 1];
	const struct attest_said said = {.what = "Nodes.Attest", .detail = detail, .why = detail};
	struct error err;

	if (entry->claim.state > CLAIM_UNPUBLISHING ||
	    attest_is_answered(server, entry->node, &entry->claim) ||
	    (entry->claim.state < CLAIM_UNPUBLISHING && claims_may_run(server, &entry->claim)))
		return false;
	record = attest_record_valid(server, entry);
	if (!record ||
	    attest_check_plugin(server, &entry->volume->volume, entry->claim.plugin_id, NULL) != STATUS_OK)
		return false;
	str_copy_text(detail, sizeof(detail), record->reason);
	if (attest_free_claim(&said, freed, entry, &err) == STATUS_OK)
		return true;
	log_ctx(LOG_ERR, &(struct log_ctx){.claim = entry->id, .op = "attest", .err = &err},
		"cannot free the claim by an attestation");
	return false;
}

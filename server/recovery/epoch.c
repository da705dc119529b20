/* SPDX-License-Identifier: Apache-2.0 */
#include "recovery/epoch.h"

#include "server.h"

#include "access/audit.h"
#include "alloc/allocs.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/join.h"
#include "base/rate_counted.h"
#include "base/str.h"
#include "base/uuid.h"
#include "claim/attest_record.h"
#include "claim/claims.h"
#include "claim/held_twice.h"
#include "log/log.h"
#include "model/admission.h"
#include "model/alloc_health.h"
#include "model/alloc_validate.h"
#include "model/claim.h"
#include "model/message.h"
#include "model/pb.h"
#include "model/task.h"
#include "node/machine_code.h"
#include "node/session.h"
#include "plugin/args.h"
#include "recovery/history.h"
#include "recovery/new_epoch.h"
#include "recovery/replaced.h"
#include "recovery/restore_proof.h"
#include "state/change.h"
#include "state/claim_log.h"
#include "state/freed.h"
#include "state/keys.h"
#include "state/storage_index.h"

#include <inttypes.h>
#include <protobuf-c/protobuf-c.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

enum {
	NAMED_MAX = 3,
	NAMES_SIZE = NAMED_MAX * (NODE_ID_MAX + 3),
	OBJECT_SIZE = 512,
	ALIKE_MAX = 8,	       /* live claims of one allocation on one volume */
	ALLOC_CLAIMS_MAX = 64, /* of one allocation */
};

_Static_assert((int)ALLOC_CLAIMS_MAX + (int)ALLOC_VOLUMES_MAX + 8 <= (int)CHANGE_OBJECTS_MAX,
	       "the end of an allocation is one change, also with claims that are granted");

/* Nodes of which the server does not even know the names. */
static enum status check_missing(struct server *server, const struct volume *volume, struct error *err)
{
	uint64_t n = history_missing_nodes(server);

	if (server->restarting)
		return error_set(err, STATUS_UNAVAILABLE, 0,
				 "the server is about to start a new epoch; retry");
	if (n == 0)
		return STATUS_OK;
	return error_set(err, STATUS_UNAVAILABLE, 0,
			 "volume %s: %" PRIu64
			 " node%s registered in a time that the store has forgotten (epoch %" PRIu64
			 " has begun) may hold it; each is known again when its agent "
			 "connects. If all that are left are gone for good: holdfast node purge --unknown "
			 "--reason TEXT",
			 volume->id, n, n == 1 ? " that was" : "s that were", state_epoch(&server->state));
}

/* Returns the first name of the storage of @volume without an attestation that @machine, as @node_id, does
 * not hold it; NULL: each name has one. */
static const struct volume *find_unattested(struct server *server, const char *node_id, const char *machine,
					    const struct volume *volume)
{
	const struct volume_entry *entry = state_volume(&server->state, volume->namespace, volume->id);
	struct volume_entry *other = NULL;

	if (!attest_is_proof(server, node_id, machine, volume))
		return volume;
	while (entry && (other = storage_next_other(entry, other)))
		if (!attest_is_proof(server, node_id, machine, &other->volume))
			return &other->volume;
	return NULL;
}

/* The volume to attest, as texts name it to readers of the namespace of @volume. */
struct wanted {
	const char *namespace, *id;
	const char *also; /* text behind the name of @volume */
};

static struct wanted wanted_of(const struct volume *volume, const struct volume *missing)
{
	if (str_eq(missing->namespace, volume->namespace))
		return (struct wanted){missing->namespace, missing->id, ""};
	return (struct wanted){"NAMESPACE", "VOLUME", ", whose storage is also " FOREIGN_VOLUME};
}

/* Machines that gave up their node's name before they reported. */
static enum status check_replaced(struct server *server, const struct volume *volume, struct error *err)
{
	struct record_entry *entry = NULL;

	while ((entry = replaced_next(server, entry))) {
		const Holdfast__V1__ReplacedMachine *replaced = (const void *)entry->record.message;
		const struct volume *missing =
			state_node(&server->state, replaced->node_id)
				? find_unattested(server, replaced->node_id, replaced->machine, volume)
				: volume;
		struct wanted wanted = missing ? wanted_of(volume, missing) : (struct wanted){NULL};
		char code[NODE_MACHINE_MAX + 1];

		if (missing)
			return error_set(err, STATUS_UNAVAILABLE, 0,
					 "volume %s%s: machine %s, which was node %s and did not report, may "
					 "hold it. If "
					 "it is off: holdfast node attest %s %s/%s --reason TEXT; if all "
					 "such machines "
					 "are: holdfast node purge --unknown --reason TEXT; else let it "
					 "report: holdfast "
					 "node identify %s %s --reason TEXT",
					 volume->id, wanted.also,
					 machine_code(server, replaced->node_id, replaced->machine, code),
					 replaced->node_id, replaced->node_id, wanted.namespace, wanted.id,
					 replaced->node_id, code);
	}
	return check_missing(server, volume, err);
}

enum status epoch_check(struct server *server, const struct volume *volume, struct error *err)
{
	const struct volume *of_first = NULL;
	const struct node_entry *first = NULL;
	const struct node_entry *node;
	char names[NAMES_SIZE] = "";
	char more[32] = "";
	struct wanted wanted;
	size_t len = 0;
	size_t n = 0;

	LIST_FOREACH (node, &server->state.unreported, of_unreported) {
		const struct volume *missing = find_unattested(server, node->id, node->node.machine, volume);
		int r;

		if (!missing)
			continue;
		of_first = first ? of_first : missing;
		first = first ? first : node;
		r = n < NAMED_MAX ? str_format(names + len, sizeof(names) - len, "%s%s", n > 0 ? ", " : "",
					       node->id)
				  : 0;
		len += r > 0 ? (size_t)r : 0;
		if (++n > NAMED_MAX)
			break; /* nodes may be many, and a caller asks again */
	}
	if (n == 0)
		return check_replaced(server, volume, err);
	if (n > NAMED_MAX)
		(void)str_format(more, sizeof(more), " and up to %zu more",
				 server->state.n_unreported - NAMED_MAX);
	wanted = wanted_of(volume, of_first);
	return error_set(err, STATUS_UNAVAILABLE, 0,
			 "volume %s%s: epoch %" PRIu64
			 " has begun, and node %s%s may hold it without the server's knowledge; a node "
			 "reports that when it connects. If %s is gone for good: holdfast node attest %s "
			 "%s/%s --reason TEXT, or holdfast node purge %s --reason TEXT",
			 volume->id, wanted.also, state_epoch(&server->state), names, more, first->id,
			 first->id, wanted.namespace, wanted.id, first->id);
}

enum status epoch_check_all(struct server *server, const struct volume *volume, struct error *err)
{
	const struct node_entry *node = LIST_FIRST(&server->state.unreported);
	const struct record_entry *entry = replaced_next(server, NULL);
	const Holdfast__V1__ReplacedMachine *replaced = entry ? (const void *)entry->record.message : NULL;
	char code[NODE_MACHINE_MAX + 1];

	if (node)
		return error_set(err, STATUS_UNAVAILABLE, 0,
				 "volume %s: epoch %" PRIu64
				 " has begun, and node %s may have, by another name, what the provider makes "
				 "by this one; it reports that when it connects. If it is gone for good: "
				 "holdfast node purge %s --reason TEXT",
				 volume->id, state_epoch(&server->state), node->id, node->id);
	if (replaced)
		return error_set(
			err, STATUS_UNAVAILABLE, 0,
			"volume %s: machine %s, which was a node and did not report, may have, by "
			"another name, what the provider makes by this one. If all such machines are "
			"off: holdfast node purge --unknown --reason TEXT",
			volume->id, machine_code(server, replaced->node_id, replaced->machine, code));
	return check_missing(server, volume, err);
}

enum status epoch_check_alloc(struct server *server, const struct alloc *alloc, struct error *err)
{
	for (uint32_t i = 0; i < alloc->n_volumes; i++) {
		const struct volume_entry *volume =
			state_volume(&server->state, alloc->namespace, alloc->volumes[i].source);

		if (volume)
			TRY(epoch_check(server, &volume->volume, err));
	}
	return STATUS_OK;
}

enum status epoch_check_purge(struct server *server, const char *job_id, struct error *err)
{
	const struct node_entry *node = LIST_FIRST(&server->state.unreported);

	if (node)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "job %s is not purged: node %s has not reported what it holds, and may run "
				 "work of it that the server does not know; it reports when it connects. If "
				 "it is gone for good: holdfast node purge %s --reason TEXT",
				 job_id, node->id, node->id);
	if (history_missing_nodes(server) == 0 && !replaced_next(server, NULL))
		return STATUS_OK;
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "job %s is not purged: a machine that is missing since the store lost history may "
			 "run work of it; it reports when it connects. If all such machines are gone for "
			 "good: holdfast node purge --unknown --reason TEXT",
			 job_id);
}

/* --- work that the store does not know --- */

enum status epoch_is_forgotten(struct session *session, const struct alloc_entry *entry,
			       const Holdfast__V1__AllocStatus *reported, bool *ret, struct error *err)
{
	*ret = !entry;
	if (!entry || !str_eq(entry->alloc.node_id, session->node_id)) /* the latter is refused for that */
		return STATUS_OK;
	for (size_t i = 0; i < reported->n_published && !*ret; i++) {
		struct claim_entry *claim;

		if (reported->published[i]->claim_id[0] == '\0')
			continue;
		TRY(session_find_claim(session, reported->published[i]->claim_id, &claim, err));
		*ret = !claim;
	}
	return STATUS_OK;
}

bool epoch_may_grow(const struct alloc_entry *entry)
{
	return !entry->alloc.adopted || entry->node->adopted_bytes < SESSION_ADOPTED_BYTES_MAX;
}

enum status epoch_doubt(struct session *session, const char *what, struct error *err)
{
	struct server *server = session->server;
	const struct node_entry *entry = state_node(&server->state, session->node_id);
	cleanup(change_release) struct change change = CHANGE_INIT;
	cleanup_free struct node *node = malloc(sizeof(*node));

	if (!node)
		return error_no_memory(err, "the epoch");
	*node = entry->node;
	node->report_wanted = true;
	change_put_node(&change, node);
	audit_node_event(server, &change, NODE_EVENT_DOUBT, node->id, what);
	TRY(session_commit(session, &change, SESSION_NOTHING, "", err));
	return error_set(err, STATUS_UNAVAILABLE, 0,
			 "node %s names what the server does not know (%s): it must connect again and report "
			 "what it holds",
			 session->node_id, what);
}

/* A report of a node needs no proof, or one that it can show again: without a limit it could fill store,
 * memory and audit, and have a provider called without end. */
static enum status pay_adoption(struct session *session, struct error *err)
{
	struct node_entry *node = state_node(&session->server->state, session->node_id);
	char more[RATE_MORE_SIZE];

	if (rate_take_counted(&node->adoptions, SESSION_ADOPTION_COST_US, SESSION_REPORT_OBJECTS_MAX,
			      clock_monotonic_us(), more))
		return STATUS_OK;
	return error_set(
		err, STATUS_RESOURCE_EXHAUSTED, 0,
		"more than %d allocations and claims that only node %s knows were adopted: one a second "
		"from then on",
		SESSION_REPORT_OBJECTS_MAX, session->node_id);
}

/* Allocations. */

/* The same limits as in a status of the node. */
static bool has_valid_tasks(const struct alloc *alloc)
{
	const struct message_list *list = alloc->task_status;

	for (size_t i = 0; i < message_list_n(list); i++)
		if (!task_status_is_valid(alloc, (const void *)list->messages[i]))
			return false;
	return message_list_n(list) <= message_list_n(alloc->tasks);
}

static enum status read_alloc(const struct session *session, const Holdfast__V1__Allocation *from,
			      struct alloc *ret, struct error *err)
{
	TRY(alloc_from_pb(from, ret, err));
	message_list_unref(ret->events); /* only the server writes events */
	ret->events = NULL;
	if (!has_valid_tasks(ret)) {
		message_list_unref(ret->task_status); /* the node's next status has it */
		ret->task_status = NULL;
	}
	alloc_default(ret);
	if (!id_is_uuid(ret->id))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "an allocation's id is not a lower-case UUID");
	if (!str_eq(ret->node_id, session->node_id))
		return error_set(err, STATUS_PERMISSION_DENIED, 0, "allocation %s is not of node %s", ret->id,
				 session->node_id);
	return alloc_validate(ret, err);
}

/* In this epoch: a store within an epoch does not go back. */
static bool has_reported_before(const struct session *session)
{
	const struct node_entry *node = state_node(&session->server->state, session->node_id);

	return node->node.reported_epoch >= session->report_epoch;
}

/* Is it the first report after the store went back, of a node that the forgotten time may have had? Only then
 * a claim may count without proof. */
static bool is_believed(const struct session *session)
{
	const struct node_entry *node = state_node(&session->server->state, session->node_id);

	return !has_reported_before(session) && node->node.stranger_epoch != session->report_epoch;
}

/* Places in queues and times are the server's to give. An allocation is a member of its job only after the
 * store went back, and while it runs: at any other time its node would take the places of other nodes'
 * members. */
static void take_no_place(const struct session *session, struct alloc *alloc)
{
	const Holdfast__V1__Job *job =
		records_job(&session->server->state.records, alloc->namespace, alloc->job_id);
	uint64_t version = job ? job->version : 1;
	int64_t now_ms = clock_realtime_ms();

	alloc->place_time_ms = alloc->wait_until_ms = 0;
	alloc->healthy_time_ms = alloc->unhealthy_time_ms = 0;
	alloc->queue_index = alloc->member_generation = 0;
	alloc->keeps_place = alloc->lost_race = false;
	alloc->create_time_ms = now_ms;
	alloc->running_time_ms = alloc->end_time_ms = 0;
	alloc_note_times(alloc, NULL, now_ms); /* the node's next status may be the same */
	if (is_believed(session) && !alloc_is_client_terminal(alloc)) {
		/* a later one would pass for one of each version to come */
		alloc->job_version = MIN(alloc->job_version, version);
		return;
	}
	alloc->job_id[0] = alloc->job_group[0] = '\0';
	alloc->job_index = 0;
	alloc->job_version = alloc->job_content = 0;
}

/* Returns the order for adopted work. Other orders are sent after the report, but they lack work that is not
 * durable then. */
static enum session_notice word_about(const struct alloc *adopted)
{
	if (alloc_is_client_terminal(adopted))
		return SESSION_FORGET_ALLOC;
	return adopted->desired_status == DESIRED_STOP ? SESSION_STOP_ALLOC : SESSION_NOTHING;
}

/* Records that a claim or allocation is not adopted. The rest of the report counts: one lie must not void
 * it. */
static void epoch_refuse(struct session *session, const struct error *why)
{
	session->n_unproven++;
	audit_refused(session->server, session->call, "Nodes.Session: report", NULL, why);
}

/* Work that the server has forgotten is its work again. */
static enum status handle_alloc(struct session *session, const Holdfast__V1__Allocation *from,
				struct error *err)
{
	struct server *server = session->server;
	cleanup(change_release) struct change change = CHANGE_INIT;
	cleanup(alloc_release) struct alloc alloc = {0};
	struct node_entry *node = state_node(&server->state, session->node_id);
	size_t size = protobuf_c_message_get_packed_size(&from->base);
	struct alloc_entry *known;
	char object[OBJECT_SIZE];

	TRY(read_alloc(session, from, &alloc, err));
	known = state_alloc(&server->state, alloc.id);
	if (known && !str_eq(known->alloc.namespace, alloc.namespace)) {
		(void)error_set(err, STATUS_PERMISSION_DENIED, 0,
				"allocation %s is of namespace %s, not %s: that of the node is not adopted",
				alloc.id, known->alloc.namespace, alloc.namespace);
		epoch_refuse(session, err);
		return STATUS_OK;
	}
	if (known && !str_eq(known->alloc.node_id, session->node_id)) {
		(void)error_set(err, STATUS_PERMISSION_DENIED, 0, "allocation %s is not of node %s", alloc.id,
				session->node_id);
		if (!alloc_is_pending(&known->alloc)) /* of a pending one its claim decides: place_proven() */
			epoch_refuse(session, err);
		return STATUS_OK;
	}
	if (known) {
		known->reported_by = session->serial;
		return STATUS_OK;
	}
	if (node->n_allocs >= SESSION_REPORT_OBJECTS_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "the server has %d allocations of node %s, and adopts no further one that "
				 "only the node knows",
				 SESSION_REPORT_OBJECTS_MAX, session->node_id);
	if (node->adopted_bytes + size > SESSION_ADOPTED_BYTES_MAX)
		return error_set(
			err, STATUS_RESOURCE_EXHAUSTED, 0,
			"the server has adopted %zu bytes of allocations that only node %s knows, and "
			"adopts at most %d",
			node->adopted_bytes, session->node_id, SESSION_ADOPTED_BYTES_MAX);
	TRY(pay_adoption(session, err));
	if (alloc.desired_status == DESIRED_UNSPECIFIED)
		alloc.desired_status = DESIRED_RUN;
	if (alloc.client_status == CLIENT_UNSPECIFIED)
		alloc.client_status = CLIENT_PENDING;
	if (session->is_reverted) /* it was collected since */
		alloc.desired_status = DESIRED_STOP;
	alloc.adopted = true;
	take_no_place(session, &alloc);
	alloc.create_index = alloc.modify_index = 0;
	alloc.modify_time_ms = clock_realtime_ms();
	change_put_alloc(&change, &alloc);
	audit_own(server, &change, "Allocations.Adopt", alloc_object(&alloc, object), session->node_id);
	TRY(session_commit(session, &change, word_about(&alloc), alloc.id, err));
	known = state_alloc(&server->state, alloc.id);
	known->reported_by = session->serial;
	return STATUS_OK;
}

/* Claims. */

static enum status bad_claim(const struct claim *claim, const char *what, struct error *err)
{
	return error_set(err, STATUS_INVALID_ARGUMENT, 0, "reported claim %.36s: %s", claim->id, what);
}

static enum status read_claim(const struct session *session, const Holdfast__V1__Claim *from,
			      struct claim *ret, struct error *err)
{
	TRY(claim_from_pb(from, ret, err));
	ret->slot = CLAIM_SLOT_UNKNOWN; /* a ticket names it */
	if (!id_is_uuid(ret->id) || !id_is_uuid(ret->allocation_id))
		return bad_claim(ret, "its id or its allocation's is not a lower-case UUID", err);
	if (!str_eq(ret->node_id, session->node_id))
		return error_set(err, STATUS_PERMISSION_DENIED, 0, "claim %s is not of node %s", ret->id,
				 session->node_id);
	if (!str_eq(ret->boot_id, session->boot_id) &&
	    (ret->state != CLAIM_NODE_DETACHED || !id_is_uuid(ret->boot_id)))
		return bad_claim(ret, "it is of another boot than the session, and held", err);
	if (!id_is_name(ret->namespace, NAMESPACE_MAX) || !volume_id_is_valid(ret->volume_id) ||
	    !id_is_plugin(ret->plugin_id))
		return bad_claim(ret, "its volume or plugin has no valid name", err);
	if (!str_is_text(ret->external_id) || !str_is_text(ret->context_digest) ||
	    (ret->profile[0] != '\0' && !id_is_label(ret->profile)))
		return bad_claim(ret, "its storage or profile has no valid name", err);
	if (ret->mode == CLAIM_MODE_UNSPECIFIED || ret->access_mode == ACCESS_MODE_UNSPECIFIED)
		return bad_claim(ret, "it has no mode", err);
	/* a node that names another one here would have that one cut off: the plugin's report has the id, see
	 * plugin/args.h */
	ret->external_node_id[0] = '\0';
	return STATUS_OK;
}

/* Make the volume that @claim names, which was registered after the backup, from the fields of the claim. It
 * offers no capability, so that nothing is granted before it is registered again. Only a ticket gives it a
 * storage: others could clone or delete what a node names. */
static void epoch_make_volume(struct server *server, const struct claim *claim, enum restore_storage storage,
			      struct volume *ret)
{
	*ret = (struct volume){
		.type = str_eq(claim->plugin_id, PLUGIN_NATIVE) ? VOLUME_NATIVE : VOLUME_CSI,
		.generation = state_generation_floor(&server->state),
		.create_time_ms = clock_realtime_ms(),
		.name = "(known only from a node's report; register it again)",
	};
	ret->modify_time_ms = ret->create_time_ms;
	memcpy(ret->id, claim->volume_id, sizeof(ret->id));
	memcpy(ret->namespace, claim->namespace, sizeof(ret->namespace));
	memcpy(ret->plugin_id, claim->plugin_id, sizeof(ret->plugin_id));
	if (storage == RESTORE_STORAGE_PROVEN) {
		memcpy(ret->external_id, claim->external_id, sizeof(ret->external_id));
		ret->newer_from = claim->generation + 1;
	}
	if (storage != RESTORE_STORAGE_UNKNOWN)
		memcpy(ret->profile, claim->profile, sizeof(ret->profile));
}

/* Was @claim granted after @volume was registered? An epoch raises the generation of each volume, so the
 * number before that counts. For a placeholder: after the claim that gave it a storage. */
static bool is_younger(const struct claim *claim, const struct volume *volume)
{
	bool is_raised = volume->newer_from > 0 || volume_is_placeholder(volume);

	return claim->generation >= (is_raised ? volume->newer_from : volume->generation + 1);
}

/* May the store have forgotten what it granted to the node? Else an unknown claim was freed, and dropped from
 * the history. */
static bool is_forgotten_time(const struct session *session)
{
	return is_believed(session) && !session->is_reverted;
}

/* Else it is on that of its volume. Earlier versions noted no disk in the claim of one. */
static bool names_storage(const struct claim *claim)
{
	return claim->external_id[0] != '\0' &&
	       (!str_eq(claim->plugin_id, PLUGIN_NATIVE) || !str_eq(claim->external_id, claim->volume_id));
}

static bool is_same_storage(const struct claim *a, const struct claim *b)
{
	return str_eq(a->plugin_id, b->plugin_id) && str_eq(a->external_id, b->external_id) &&
	       str_eq(a->context_digest, b->context_digest) && str_eq(a->profile, b->profile);
}

/* Does a live claim keep the volume's name from the storage of @claim? A claim older than @claim ended before
 * the name was registered again: if it still counts, its record names its storage, but not for other names of
 * that. */
static bool is_name_held(const struct volume_entry *volume, const struct claim *claim)
{
	const struct claim_entry *entry;

	if (volume->volume.external_id[0] == '\0') /* a placeholder whose storage is not known */
		return false;
	LIST_FOREACH (entry, &volume->claims, of_volume) {
		const struct claim *held = &entry->claim;
		bool may_part = held->generation < claim->generation && names_storage(held) &&
				storage_is_alone(volume);

		if (claim_is_live(held) && !may_part && !is_same_storage(held, claim))
			return true;
	}
	return false;
}

/* The volume of a reported claim. */
struct chosen {
	const struct volume *volume;
	bool is_own;	    /* the claim is not on the storage of the volume, if the store has one */
	bool is_made;	    /* the volume must be stored: it is @made */
	struct volume made; /* from the claim */
};

/* Chooses the volume of @claim. It is made if the store lacks the volume, or has an older one: a younger
 * ticket names another storage, so the volume was registered again after the backup. Under an older ticket,
 * or one that is older than a claim granted since, the claim holds the volume only by its name. */
static void epoch_choose_volume(struct session *session, const struct claim *claim,
				enum restore_storage storage, struct chosen *ret)
{
	const struct volume_entry *entry =
		state_volume(&session->server->state, claim->namespace, claim->volume_id);

	*ret = (struct chosen){.volume = entry ? &entry->volume : &ret->made, .is_own = !entry};
	epoch_make_volume(session->server, claim, storage, &ret->made);
	if (!entry) {
		ret->is_made = true;
		return;
	}
	ret->made.generation = entry->volume.generation;
	ret->made.create_time_ms = entry->volume.create_time_ms; /* its claims and their history remain */
	/* one that is only believed names an id, too: it holds that, not the volume's */
	ret->is_own = storage >= RESTORE_STORAGE_BELIEVED && names_storage(claim) &&
		      !claim_is_on_storage(claim, &entry->volume);
	ret->is_made = storage == RESTORE_STORAGE_PROVEN && ret->is_own &&
		       is_younger(claim, &entry->volume) && is_forgotten_time(session);
	ret->is_made = ret->is_made && !is_name_held(entry, claim);
	if (ret->is_made)
		ret->volume = &ret->made;
}

/* Make the record of a claim that the server learns of. It takes only identity and rights from the node. The
 * storage is that of the volume, unless the claim has its own. */
static void epoch_adopt(struct server *server, const struct claim *reported, const struct volume *volume,
			bool is_own, struct claim *ret)
{
	const char *plugin_id = is_own ? reported->plugin_id : volume->plugin_id;
	bool has_ids = is_own || volume_is_placeholder(volume);
	int64_t now_ms = clock_realtime_ms();

	*ret = (struct claim){
		.mode = reported->mode,
		.access_mode = reported->access_mode,
		.attachment_mode = reported->attachment_mode,
		.propagation = reported->propagation,
		.slot = reported->slot,
		.generation = reported->generation,
		.state = reported->state,
		.sent_to_node = true,
		/* whether the provider attached it is not known here: a detach does no harm */
		.attach = str_eq(plugin_id, PLUGIN_NATIVE) ? ATTACH_NONE : ATTACH_ASKED,
		.state_time_ms = now_ms,
		.create_time_ms = reported->create_time_ms > 0 && reported->create_time_ms < now_ms
					  ? reported->create_time_ms
					  : now_ms,
		.volume_create_time_ms = volume->create_time_ms,
		.modify_time_ms = now_ms,
	};
	memcpy(ret->id, reported->id, sizeof(ret->id));
	memcpy(ret->volume_id, reported->volume_id, sizeof(ret->volume_id));
	memcpy(ret->namespace, reported->namespace, sizeof(ret->namespace));
	memcpy(ret->allocation_id, reported->allocation_id, sizeof(ret->allocation_id));
	memcpy(ret->node_id, reported->node_id, sizeof(ret->node_id));
	memcpy(ret->boot_id, reported->boot_id, sizeof(ret->boot_id));
	claim_set_storage(ret, volume);
	if (has_ids) {
		memcpy(ret->external_id, reported->external_id, sizeof(ret->external_id));
		memcpy(ret->context_digest, reported->context_digest, sizeof(ret->context_digest));
	}
	memcpy(ret->plugin_id, plugin_id, sizeof(ret->plugin_id));
	memcpy(ret->profile, has_ids ? reported->profile : volume->profile, sizeof(ret->profile));
	memcpy(ret->external_node_id, reported->external_node_id, sizeof(ret->external_node_id));
	/* a later report of the plugin must not move the claim to another attachment */
	if (ret->external_node_id[0] == '\0')
		(void)str_copy(ret->external_node_id, sizeof(ret->external_node_id),
			       plugin_args_node_id(&server->state, ret));
}

bool epoch_is_disputed(const struct alloc_entry *entry, const struct claim *claim)
{
	return entry->alloc.adopted && !str_eq(entry->alloc.node_id, claim->node_id) &&
	       str_eq(entry->alloc.namespace, claim->namespace) &&
	       (claim->storage_proven || claim->storage_digest);
}

/* Claims of work that has ended or is unknown are released; other work continues. */
static enum claim_state state_for(struct server *server, const struct claim *claim)
{
	const struct alloc_entry *known = state_alloc(&server->state, claim->allocation_id);
	const struct alloc_entry *alloc = state_alloc_of(&server->state, claim);

	if (known && epoch_is_disputed(known, claim))
		return CLAIM_TAKEN;
	return alloc && !alloc_is_client_terminal(&alloc->alloc) ? CLAIM_TAKEN : CLAIM_UNPUBLISHING;
}

/* Does its node run what waits for a node? That is placed when this claim has ended, and nothing else stops
 * it. */
static bool runs_unplaced(struct server *server, const struct claim *claim)
{
	const struct alloc_entry *alloc = state_alloc(&server->state, claim->allocation_id);

	return claim->state == CLAIM_UNPUBLISHING && alloc && alloc->alloc.node_id[0] == '\0' &&
	       str_eq(alloc->alloc.namespace, claim->namespace);
}

/* Both claims are kept: only an operator can decide which one is right. */
static void warn_of_rivals(struct claim_entry *entry)
{
	struct claim_log log;
	struct error err;

	held_twice_pair(entry);
	if (entry->n_rivals > 0 && held_twice_check_repeat(entry, &err) != STATUS_OK)
		log_ctx(LOG_ERR, claim_log(&log, &entry->claim, "epoch", LOG_EVENT_NONE, &err),
			"the claim is held, and so is another");
}

static void warn_of_other_storage(const struct claim *claim)
{
	struct claim_log log;

	log_ctx(LOG_ERR, claim_log(&log, claim, "epoch", LOG_EVENT_NONE, NULL),
		"its ticket names another storage than that of the volume; both are held until it is "
		"released. Stop it: holdfast alloc stop %s",
		claim->allocation_id);
}

/* Notes how the storage of an adopted claim is known, and that it was renamed. @known: the claim as the store
 * has it, or NULL. */
static void set_storage(enum restore_storage storage, const struct claim *known, struct claim *claim)
{
	claim->storage_digest = known ? known->storage_digest : storage == RESTORE_STORAGE_DIGEST;
	claim->storage_proven =
		known ? known->storage_proven || !known->adopted : storage == RESTORE_STORAGE_PROVEN;
	claim->renamed = known && known->renamed;
}

/* Stages the record of a claim that is adopted, or of which only the generation is. */
static void audit_adoption(struct server *server, struct change *change, const struct claim *claim,
			   const char *why)
{
	char object[OBJECT_SIZE];

	(void)str_format(object, sizeof(object), "volume %s/%s, claim %s, node %s", claim->namespace,
			 claim->volume_id, claim->id, claim->node_id);
	audit_own(server, change, "Claims.Adopt", object, why);
}

/* Stages the placeholder @made, without the parts of a volume of another storage that the store has under its
 * name. Its provider must not be at work on that: the answer would be stored with the placeholder. */
static enum status stage_made(struct server *server, const struct volume *made, struct change *change,
			      struct error *err)
{
	static const char *const prefixes[] = {PREFIX_VOLUME_DETAIL, PREFIX_VOLUME_SECRETS};
	const struct volume_entry *entry = state_volume(&server->state, made->namespace, made->id);
	char key[OBJECT_KEY_SIZE];

	if (entry && entry->is_asked)
		return error_set(err, STATUS_UNAVAILABLE, 0,
				 "volume %s: its plugin is being asked at this moment; it is reported again",
				 made->id);
	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
		(void)str_join(key, sizeof(key), prefixes[i], made->namespace, "/", made->id);
		if (records_get(&server->state.records, key))
			change_delete_record(change, key);
	}
	change_put_volume(change, made);
	return STATUS_OK;
}

static enum status check_known(const struct claim *known, const struct claim *reported, struct error *err)
{
	if (!str_eq(known->volume_id, reported->volume_id) ||
	    !str_eq(known->namespace, reported->namespace) || !str_eq(known->boot_id, reported->boot_id) ||
	    known->generation != reported->generation)
		return bad_claim(reported, "it is of another volume, boot or generation than known here",
				 err);
	return STATUS_OK;
}

/* Gives @claim another id if another node has its own: the first one to name an id must not lock out the
 * other. @why: the reason for the audit; empty: it keeps its own. */
static enum status choose_id(struct server *server, struct claim *claim, char why[static OBJECT_SIZE],
			     struct error *err)
{
	struct claim_entry *known;

	why[0] = '\0';
	TRY(freed_find(server, claim->id, &known, err));
	if (!known || str_eq(known->claim.node_id, claim->node_id))
		return STATUS_OK;
	(void)str_format(why, OBJECT_SIZE, "reported as claim %s, which node %s has: one of them lies",
			 claim->id, known->claim.node_id);
	claim->renamed = true;
	return uuid_new(claim->id) < 0 ? error_set(err, STATUS_INTERNAL, 0, "cannot make an id for a claim")
				       : STATUS_OK;
}

/* Did each grant of the volume keep other nodes out? The modes of one that only a node names are not known.
 * A mode for several nodes may be younger than the backup. Proven claims of two nodes do not show that: the
 * earlier holder still has its ticket, and must not end the membership of the last one by it. */
static bool is_of_one_node(const struct volume *volume)
{
	for (uint32_t i = 0; i < volume->n_capabilities; i++)
		if (volume->capabilities[i].access_mode >= MULTI_NODE_READER_ONLY)
			return false;
	return !volume_is_placeholder(volume);
}

/* Does the claim prove GROUP[@index] of the job as it is now? Its ticket may be one of other work, but then
 * that had the volume before the member, at a lower generation. So others must be kept out, and a grant raise
 * the generation. Generations of two volumes do not compare: the first such volume of the group counts. */
static bool proves_member(struct server *server, const Holdfast__V1__JobGroup *group, uint32_t index,
			  const struct claim *claim)
{
	char id[VOLUME_ID_MAX + sizeof("[4294967295]")];

	for (size_t i = 0; i < group->allocation->n_volumes; i++) {
		const Holdfast__V1__VolumeRequest *asked = group->allocation->volumes[i];
		const struct volume_entry *volume;

		if (records_is_per_alloc(group, asked->name))
			(void)str_format(id, sizeof(id), "%s[%" PRIu32 "]", asked->source, index);
		else
			(void)str_copy(id, sizeof(id), asked->source);
		volume = state_volume(&server->state, claim->namespace, id);
		if (volume && !asked->read_only && is_of_one_node(&volume->volume))
			return str_eq(id, claim->volume_id) && claim->mode == CLAIM_WRITE;
	}
	return false;
}

/* Stages that the claim makes its adopted allocation a member of its job. That is decided once: no later
 * report, update or restart changes it. The work of a job that the server does not know is no member: it goes
 * on until the job is submitted, which stops it. */
static void stage_member(struct server *server, const struct claim *claim, struct change *change)
{
	const struct alloc_entry *entry = state_alloc_of(&server->state, claim);
	const Holdfast__V1__Job *job;
	struct alloc alloc;

	if (!entry || !entry->alloc.adopted || entry->alloc.member_generation > 0 ||
	    claim->state != CLAIM_TAKEN || !(claim->storage_proven || claim->storage_digest) ||
	    !str_eq(claim->namespace, entry->alloc.namespace))
		return;
	job = records_job(&server->state.records, entry->alloc.namespace, entry->alloc.job_id);
	alloc = entry->alloc; /* shares its lists */
	for (size_t i = 0; job && i < job->n_groups; i++)
		if (str_eq(job->groups[i]->name, alloc.job_group) &&
		    proves_member(server, job->groups[i], alloc.job_index, claim))
			alloc.member_generation = claim->generation;
	if (alloc.member_generation > 0)
		change_put_alloc(change, &alloc);
}

/* Stores @claim, maybe under another id; @made: with its volume, which is new or replaces another. NULL: the
 * store has it. */
static enum status epoch_store_claim(struct session *session, const struct volume *made, struct claim *claim,
				     struct error *err)
{
	struct server *server = session->server;
	enum session_notice notice = runs_unplaced(server, claim) ? SESSION_STOP_ALLOC : SESSION_NOTHING;
	cleanup(change_release) struct change change = CHANGE_INIT;
	char why[OBJECT_SIZE];

	if (made)
		TRY(stage_made(server, made, &change, err));
	TRY(pay_adoption(session, err));
	TRY(choose_id(server, claim, why, err));
	freed_stage_deletion(&change, claim);
	change_put_claim(&change, claim);
	if (!made) /* else the modes of its volume are not known */
		stage_member(server, claim, &change);
	audit_adoption(server, &change, claim,
		       why[0] != '\0' ? why
		       : made	      ? "its volume, of this storage, was not known"
				      : "");
	return session_commit(session, &change, notice, claim->allocation_id, err);
}

static uint64_t known_generation(struct server *server, const struct volume_entry *volume)
{
	return volume ? volume->volume.generation : state_generation_floor(&server->state);
}

/* Checks a claim that the store does not know, and that its ticket proves. */
static enum status check_history(struct session *session, const struct claim *reported, struct error *err)
{
	struct server *server = session->server;
	const struct volume_entry *volume =
		state_volume(&server->state, reported->namespace, reported->volume_id);

	return history_check_grant(session, reported, known_generation(server, volume), err);
}

/* Is the claim held already by the record of the store? @known NULL: the store has no record. */
static bool is_held_already(const struct claim *known)
{
	return known && (known->state == CLAIM_TAKEN || known->state == CLAIM_UNPUBLISHING);
}

/* Live claims of an allocation, which may be collected. */
struct alike {
	size_t n_of_storage; /* also of other allocations of the node, and under other names of the volume */
	size_t n_of_alloc;
	size_t n;	   /* of these on one volume */
	bool is_in_report; /* it has named one of those */
};

static void count_alike(const struct session *session, const struct claim *reported, struct alike *ret)
{
	struct state *state = &session->server->state;
	const struct node_entry *node = state_node(state, session->node_id);
	const struct volume_entry *volume = state_volume(state, reported->namespace, reported->volume_id);
	/* an adopted claim gets the id of its volume, if its report has no id */
	const char *id = reported->external_id[0] == '\0' && volume ? volume->volume.external_id
								    : reported->external_id;
	const struct claim_entry *entry;

	*ret = (struct alike){.n = 0};
	LIST_FOREACH (entry, &node->claims, of_node) {
		const struct claim *claim = &entry->claim;

		bool is_of_volume = str_eq(claim->volume_id, reported->volume_id) &&
				    str_eq(claim->namespace, reported->namespace);
		bool is_of_storage = is_of_volume || (id[0] != '\0' && str_eq(claim->external_id, id));

		if (!claim_is_live(claim))
			continue;
		ret->n_of_storage += is_of_storage;
		if (!str_eq(claim->allocation_id, reported->allocation_id))
			continue;
		ret->n_of_alloc++;
		if (!is_of_volume || claim->mode != reported->mode)
			continue;
		ret->n++;
		ret->is_in_report |= entry->reported_by == session->serial;
	}
}

/* An allocation holds a volume once, @is_held; what it held in other boots, or before its node went back in
 * time, may be there too. A ticket or an allocation is proof of some claims, not of as many as the node
 * likes.
 */
static enum status check_alike(const struct session *session, const struct claim *reported, bool is_held,
			       struct error *err)
{
	struct alike alike;

	count_alike(session, reported, &alike);
	/* more were never granted, and all of a storage are compared with each */
	if (alike.n_of_storage >= CLAIMS_PER_VOLUME_MAX)
		return error_set(
			err, STATUS_RESOURCE_EXHAUSTED, 0,
			"node %s reports more than %d claims on volume %s/%s and its other names: claim %s "
			"is not adopted",
			reported->node_id, CLAIMS_PER_VOLUME_MAX, reported->namespace, reported->volume_id,
			reported->id);
	if (alike.n_of_alloc >= ALLOC_CLAIMS_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "node %s reports more than %d claims for allocation %s: claim %s is not "
				 "adopted",
				 reported->node_id, ALLOC_CLAIMS_MAX, reported->allocation_id, reported->id);
	if (alike.n < ALIKE_MAX && !(is_held && alike.is_in_report))
		return STATUS_OK;
	return error_set(
		err, STATUS_ALREADY_EXISTS, 0,
		"node %s reports that it holds volume %s/%s %s for allocation %s: claim %s is not adopted",
		reported->node_id, reported->namespace, reported->volume_id,
		alike.n < ALIKE_MAX ? "twice" : "again and again", reported->allocation_id, reported->id);
}

/* Checks a claim, @is_held or past, that the store does not know. Without a ticket it could have been had by
 * asking, unless others hold the volume. After the store went back they may be the ones that do not. */
static enum status check_unknown(struct session *session, struct claim *reported, bool is_held,
				 const ProtobufCBinaryData *ticket, bool is_proven, enum restore_storage *ret,
				 struct error *err)
{
	TRY(restore_proof_check(session->server, reported, ticket, is_proven, is_believed(session), ret,
				err));
	if (*ret < RESTORE_STORAGE_DIGEST && !is_believed(session) &&
	    held_twice_admit_again(session->server, reported, err) != STATUS_OK)
		return error_prefix(err, "node %s reports claim %s without a ticket: not adopted",
				    reported->node_id, reported->id);
	return check_alike(session, reported, is_held, err);
}

/* Raises the volume's generation: numbers that the node had, or that were granted after the backup, must not
 * be granted again. */
static enum status raise_generation(struct session *session, const struct claim *reported, struct error *err)
{
	struct server *server = session->server;
	const struct volume_entry *entry =
		state_volume(&server->state, reported->namespace, reported->volume_id);
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct volume volume;

	if (known_generation(server, entry) >= reported->generation)
		return STATUS_OK;
	TRY(pay_adoption(session, err));
	if (entry) {
		volume = entry->volume;
		volume.generation = reported->generation;
		change_put_volume(&change, &volume);
	} else {
		change_put_floor(&change, reported->generation);
	}
	audit_adoption(server, &change, reported, "it is released: only its generation counts");
	return session_commit(session, &change, SESSION_NOTHING, "", err);
}

/* Makes a claim that is not mounted: only its attachment may be left, for the controller to detach. */
static void make_past(const struct session *session, const struct claim *reported,
		      const struct chosen *chosen, struct claim *ret)
{
	bool is_new_boot = !str_eq(reported->boot_id, session->boot_id);

	epoch_adopt(session->server, reported, chosen->volume, chosen->is_own, ret);
	ret->state = CLAIM_NODE_DETACHED;
	ret->adopted = true;
	ret->evidence = is_new_boot ? EVIDENCE_NEW_BOOT : EVIDENCE_RECEIPT;
	(void)str_copy(ret->evidence_detail, sizeof(ret->evidence_detail),
		       is_new_boot ? session->boot_id : "in the node's report");
	ret->modify_time_ms = ret->state_time_ms = clock_realtime_ms();
}

/* A claim of which the store knows nothing, that the node has released, by a receipt or because it is of an
 * earlier boot: its volume may still be attached at the provider. STATUS_OK when it is not proven, too: that
 * is on record. */
static enum status epoch_take_past(struct session *session, const struct claim *reported,
				   enum restore_storage storage, struct error *err)
{
	struct chosen chosen;
	struct claim_log log;
	struct claim claim;

	epoch_choose_volume(session, reported, storage, &chosen);
	make_past(session, reported, &chosen, &claim);
	if (claim.attach == ATTACH_NONE) /* no provider has it attached */
		return raise_generation(session, reported, err);
	set_storage(storage, NULL, &claim);
	TRY(epoch_store_claim(session, chosen.is_made ? &chosen.made : NULL, &claim, err));
	log_ctx(LOG_WARNING, claim_log(&log, &claim, "epoch", LOG_EVENT_NONE, NULL),
		"adopted from the node's report to be detached, generation %" PRIu64, claim.generation);
	return STATUS_OK;
}

/* Was @claim freed, so that others may have had the volume since? A ticket does not show that it was not;
 * the server's own allocation, which could claim the same storage now, does. @known: its record, or
 * NULL. */
static bool was_freed_before(const struct session *session, const struct claim *claim,
			     const struct claim *known, const struct chosen *chosen)
{
	struct error err;

	if (known) /* an older store, too */
		return known->state > CLAIM_UNPUBLISHING;
	if (is_forgotten_time(session))
		return false;
	return session->is_reverted || chosen->is_own ||
	       held_twice_admit(session->server, claim, &err) != STATUS_OK;
}

/* Stores the reported claim as it counts from now on. @known: its record; NULL: it is not stored. */
static enum status adopt(struct session *session, const struct claim *reported,
			 const struct claim_entry *known, enum restore_storage storage, struct error *err)
{
	struct server *server = session->server;
	bool is_again = known && known->claim.adopted;
	struct claim_entry *adopted;
	struct chosen chosen;
	struct claim_log log;
	struct claim claim;

	epoch_choose_volume(session, reported, storage, &chosen);
	epoch_adopt(server, reported, chosen.volume, chosen.is_own || known, &claim);
	set_storage(storage, known ? &known->claim : NULL, &claim);
	claim.state = state_for(server, &claim);
	if (was_freed_before(session, &claim, known ? &known->claim : NULL, &chosen)) {
		claim.state = CLAIM_UNPUBLISHING;
		claim.was_freed = true;
	}
	claim.adopted = true;
	if (known && known->claim.attach == ATTACH_DONE) /* by the id that the record has */
		claim.attach = ATTACH_DONE;
	TRY(epoch_store_claim(session, chosen.is_made ? &chosen.made : NULL, &claim, err));
	adopted = state_claim(&server->state, claim.id);
	adopted->reported_by = session->serial;
	adopted->work.is_taken_back_again = is_again;
	log_ctx(LOG_WARNING, claim_log(&log, &claim, "epoch", LOG_EVENT_NONE, NULL),
		"adopted from the node's report, generation %" PRIu64, claim.generation);
	if (chosen.is_own && !chosen.is_made)
		warn_of_other_storage(&claim);
	warn_of_rivals(adopted);
	return STATUS_OK;
}

static enum status take_known(struct session *session, struct claim_entry *known,
			      const struct claim *reported, struct error *err)
{
	struct claim recorded = known->claim;

	TRY(check_known(&recorded, reported, err));
	if (reported->state == CLAIM_NODE_DETACHED)
		return STATUS_OK;
	known->reported_by = session->serial;
	if (is_held_already(&recorded))
		return STATUS_OK;
	if (!claim_is_live(&recorded)) {
		uint64_t start_us = clock_monotonic_us();
		enum status status;

		/* one that is in memory was found without a search */
		TRY(session_check_search(session, err));
		status = check_alike(session, &recorded, true, err);
		session_pay_search(session, start_us);
		if (status != STATUS_OK) {
			epoch_refuse(session, err);
			return STATUS_OK;
		}
	}
	return adopt(session, &recorded, known, RESTORE_STORAGE_UNKNOWN, err);
}

/* May the pending allocation have got the node in the time that the store has forgotten? Ids are given again,
 * so the ticket may be of an earlier one. @ticket was verified. */
static bool may_be_placed(const struct session *session, const struct alloc *alloc,
			  const ProtobufCBinaryData *ticket)
{
	const char *wanted = alloc_wait_node(alloc);
	struct ticket shown;

	memcpy(&shown, ticket->data, sizeof(shown));
	return is_forgotten_time(session) && (wanted[0] == '\0' || str_eq(wanted, session->node_id)) &&
	       (int64_t)shown.not_after_ms > alloc->create_time_ms;
}

/* An allocation that was pending in the backup has the node to which its ticket was given since. Without a
 * ticket a node could take the work of others. */
static enum status place_proven(struct session *session, const struct claim *claim,
				const ProtobufCBinaryData *ticket, struct error *err)
{
	struct server *server = session->server;
	const struct alloc_entry *entry = state_alloc(&server->state, claim->allocation_id);
	cleanup(change_release) struct change change = CHANGE_INIT;
	char object[OBJECT_SIZE];
	struct alloc alloc;

	if (!entry || !alloc_is_pending(&entry->alloc) || !may_be_placed(session, &entry->alloc, ticket))
		return STATUS_OK;
	alloc = entry->alloc; /* shares its lists */
	memcpy(alloc.node_id, claim->node_id, sizeof(alloc.node_id));
	if (!alloc_asks_for(&alloc, claim))
		return STATUS_OK;
	alloc.wait_until_ms = 0;
	alloc.wait_node_id = alloc.client_description = NULL;
	alloc.modify_time_ms = alloc.place_time_ms = clock_realtime_ms();
	change_put_alloc(&change, &alloc);
	audit_own(server, &change, "Allocations.Place", alloc_object(&alloc, object),
		  "its node has a ticket for it");
	TRY(session_commit(session, &change, SESSION_NOTHING, "", err));
	state_alloc(&server->state, alloc.id)->reported_by = session->serial;
	return STATUS_OK;
}

static enum status take_unknown(struct session *session, struct claim *reported,
				const ProtobufCBinaryData *ticket, struct error *err)
{
	bool is_past = reported->state == CLAIM_NODE_DETACHED;
	enum restore_storage storage = RESTORE_STORAGE_UNKNOWN;
	uint64_t start_us = clock_monotonic_us(), checks_us;
	bool is_proven = restore_proof_by_ticket(session->server, reported, ticket, &storage);
	enum status status;

	if (is_proven)
		TRY(check_history(session, reported, err));
	if (is_proven && !is_past)
		TRY(place_proven(session, reported, ticket, err));
	checks_us = clock_monotonic_us();
	status = check_unknown(session, reported, !is_past, ticket, is_proven, &storage, err);
	/* adoption has a rate of its own, which allows more than the comparisons */
	session_pay_search(session, status != STATUS_OK || is_past ? start_us : checks_us);
	if (status != STATUS_OK) {
		epoch_refuse(session, err);
		return STATUS_OK;
	}
	return is_past ? epoch_take_past(session, reported, storage, err)
		       : adopt(session, reported, NULL, storage, err);
}

/* Finds the claim of the reported grant if it was adopted under another id. */
static struct claim_entry *find_renamed(struct session *session, const struct claim *reported)
{
	uint64_t start_us = clock_monotonic_us();
	const struct node_entry *node = state_node(&session->server->state, session->node_id);
	struct claim_entry *entry;

	if (node->n_renamed == 0)
		return NULL;
	LIST_FOREACH (entry, &node->claims, of_node) {
		const struct claim *claim = &entry->claim;

		if (claim->renamed && claim_is_live(claim) && claim->generation == reported->generation &&
		    str_eq(claim->volume_id, reported->volume_id) &&
		    str_eq(claim->namespace, reported->namespace) &&
		    str_eq(claim->allocation_id, reported->allocation_id) &&
		    str_eq(claim->boot_id, reported->boot_id))
			break;
	}
	session_pay_search(session, start_us);
	return entry;
}

static enum status handle_claim(struct session *session, const Holdfast__V1__Claim *from,
				const ProtobufCBinaryData *ticket, struct error *err)
{
	struct claim_entry *known;
	struct claim reported;

	TRY(read_claim(session, from, &reported, err));
	TRY(session_find_claim(session, reported.id, &known, err));
	known = known ? known : find_renamed(session, &reported);
	return known ? take_known(session, known, &reported, err)
		     : take_unknown(session, &reported, ticket, err);
}

/* The end of a report: work that the older store has for the node, and the node has not named, ended after
 * the backup. */

/* Ids of allocations and claims that must end. */
struct ended {
	char (*allocs)[UUID_TEXT_SIZE]; /* owned */
	char (*claims)[UUID_TEXT_SIZE]; /* owned */
	size_t n_allocs, n_claims;
};

static void release_ended(struct ended *ended)
{
	free(ended->allocs);
	free(ended->claims);
}

/* Work that was submitted and has not begun is not known to the node, and is still to run. */
static bool has_begun(const struct alloc_entry *alloc)
{
	const struct claim_entry *claim;

	if (alloc->alloc.client_status != CLIENT_PENDING || alloc->alloc.adopted)
		return true;
	LIST_FOREACH (claim, &alloc->claims, of_alloc)
		if (claim_is_live(&claim->claim))
			return true;
	return false;
}

/* If the store knows more than the report (@is_known_since), claims and submitted work stay: they are ordered
 * again, or released by order. Adopted work is never ordered. */
static enum status list_ended(const struct session *session, const struct node_entry *node,
			      bool is_known_since, struct ended *ended, struct error *err)
{
	const struct alloc_entry *alloc;
	const struct claim_entry *claim;

	ended->allocs = calloc(node->n_live_allocs + 1, sizeof(*ended->allocs));
	ended->claims = calloc(node->n_live + 1, sizeof(*ended->claims));
	if (!ended->allocs || !ended->claims)
		return error_no_memory(err, "the epoch");
	LIST_FOREACH (alloc, &node->allocs, of_node)
		if (alloc->reported_by != session->serial &&
		    (is_known_since ? alloc->alloc.adopted : has_begun(alloc)))
			memcpy(ended->allocs[ended->n_allocs++], alloc->id, UUID_TEXT_SIZE);
	LIST_FOREACH (claim, &node->claims, of_node)
		if (!is_known_since && claim->reported_by != session->serial &&
		    claim->claim.state < CLAIM_NODE_DETACHED &&
		    !claim_is_elsewhere(&claim->claim, session->boot_id))
			memcpy(ended->claims[ended->n_claims++], claim->id, UUID_TEXT_SIZE);
	return STATUS_OK;
}

static enum status end_alloc(struct session *session, const char *id, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct alloc_entry *alloc = state_alloc(&session->server->state, id);
	char object[OBJECT_SIZE];

	TRY(claims_lose_alloc(&change, alloc, "it ended in the time that the server has forgotten", err));
	audit_own(session->server, &change, "Allocations.End", alloc_object(&alloc->alloc, object),
		  "its node does not know it");
	return session_commit(session, &change, SESSION_NOTHING, "", err);
}

/* The node denies having it: that is its receipt. */
static enum status end_claim(struct session *session, const char *id, struct error *err)
{
	const struct claim_event denied = {.type = CLAIM_EVENT_EVIDENCE,
					   .evidence = EVIDENCE_RECEIPT,
					   .detail = "not in the node's report",
					   .now_ms = clock_realtime_ms()};
	cleanup(change_release) struct change change = CHANGE_INIT;
	const struct claim_entry *entry = state_claim(&session->server->state, id);
	struct claim after;

	TRY(claims_step(&change, entry, &denied, &after, err));
	return session_commit(session, &change, SESSION_DRIVE_CLAIM, id, err);
}

static enum status end_the_rest(struct session *session, const struct node_entry *node, bool is_known_since,
				struct error *err)
{
	cleanup(release_ended) struct ended ended = {0};
	enum status status = list_ended(session, node, is_known_since, &ended, err);

	for (size_t i = 0; i < ended.n_allocs && status == STATUS_OK; i++)
		status = end_alloc(session, ended.allocs[i], err);
	for (size_t i = 0; i < ended.n_claims && status == STATUS_OK; i++)
		status = end_claim(session, ended.claims[i], err);
	return status;
}

static enum status store_reported(struct session *session, const struct node_entry *entry, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	cleanup_free struct node *node = malloc(sizeof(*node));

	if (!node)
		return error_no_memory(err, "the epoch");
	*node = entry->node;
	node->reported_epoch = session->report_epoch;
	node->report_wanted = node->reverted = false;
	replaced_end(session->server, &change, node);
	change_put_node(&change, node);
	audit_node_event(session->server, &change, NODE_EVENT_REPORT, node->id, "");
	return session_commit(session, &change, SESSION_NOTHING, "", err);
}

static enum status epoch_finish(struct session *session, struct error *err)
{
	struct server *server = session->server;
	struct node_entry *node = state_node(&server->state, session->node_id);
	/* A journal that was put back may lack mounted volumes: they are used again, or released, by order.
	 * The same holds for work that the store knows since the node's report in this epoch. */
	bool is_known_since = has_reported_before(session) || session->is_reverted;

	TRY(end_the_rest(session, node, is_known_since, err));
	TRY(store_reported(session, node, err));
	session->is_report_due = false;
	if (session->n_unproven > 0)
		log_ctx(LOG_ERR, &(struct log_ctx){.node = session->node_id, .op = "epoch"},
			"%zu reported claims were not adopted; see holdfast operator audit",
			session->n_unproven);
	log_ctx(LOG_NOTICE, &(struct log_ctx){.node = session->node_id, .op = "epoch"},
		"has reported what it holds; %s",
		LIST_EMPTY(&server->state.unreported) ? "all nodes have" : "others have not yet");
	session_send_work(session, node);
	return STATUS_OK;
}

static enum status check_report(struct session *session, const Holdfast__V1__NodeReport *report,
				struct error *err)
{
	if (!session->is_report_due || report->epoch != session->report_epoch)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "a report that was not asked for");
	if (report->n_tickets > 0 && report->n_tickets != report->n_claims)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "a report with %zu tickets for %zu claims",
				 report->n_tickets, report->n_claims);
	session->n_reported += report->n_allocations + report->n_claims;
	if (session->n_reported > SESSION_REPORT_OBJECTS_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "node %s reports more than %d allocations and claims", session->node_id,
				 SESSION_REPORT_OBJECTS_MAX);
	return STATUS_OK;
}

enum status epoch_take_report(struct session *session, const Holdfast__V1__NodeReport *report,
			      struct error *err)
{
	static const ProtobufCBinaryData none;
	enum status status = check_report(session, report, err);

	for (size_t i = 0; i < report->n_allocations && status == STATUS_OK; i++)
		status = handle_alloc(session, report->allocations[i], err);
	for (size_t i = 0; i < report->n_claims && status == STATUS_OK; i++)
		status = handle_claim(session, report->claims[i],
				      report->n_tickets > 0 ? &report->tickets[i] : &none, err);
	return status == STATUS_OK && !report->more ? epoch_finish(session, err) : status;
}

enum status epoch_record_restore(struct server *server, struct error *err)
{
	const Holdfast__V1__Epoch *epoch = records_get(&server->state.records, KEY_EPOCH);
	cleanup(change_release) struct change change = CHANGE_INIT;
	char why[OBJECT_SIZE];

	if (!epoch || audit_head(server).epoch == epoch->number)
		return STATUS_OK;
	(void)str_format(why, sizeof(why), "epoch %" PRIu64 ", %.400s", epoch->number, epoch->restored_from);
	audit_own(server, &change,
		  epoch->new_store	? "Server.NewCluster"
		  : epoch->lost_history ? "Server.BeginEpoch"
					: "Operator.ApplyRestore",
		  "store", why);
	return change_commit(server, &change, NULL, NULL, err);
}

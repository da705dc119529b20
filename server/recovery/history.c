/* SPDX-License-Identifier: Apache-2.0 */
#include "recovery/history.h"

#include "server.h"

#include "access/audit.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/join.h"
#include "base/str.h"
#include "log/log.h"
#include "node/machine_code.h"
#include "node/session.h"
#include "recovery/new_epoch.h"
#include "recovery/replaced.h"
#include "recovery/restore_proof.h"
#include "state/change.h"
#include "state/keys.h"
#include "state/records.h"

#include <holdfast/v1/types.pb-c.h>
#include <inttypes.h>
#include <sodium.h>
#include <string.h>

_Static_assert((int)HISTORY_PROOF_SIZE == (int)TICKET_MAC_SIZE, "a mark's proof is a code of the ticket key");

enum { REASON_SIZE = 384 };

/* Limits of an unproven mark: a lie must not use up the numbers. */
#define UNPROVEN_INDEX_LEAP (UINT64_C(1) << 40)
#define UNPROVEN_EPOCH_LEAP (UINT64_C(1) << 16)
#define UNPROVEN_NODES_MAX (UINT64_C(1) << 16)

static uint64_t nodes_ever(struct server *server)
{
	const Holdfast__V1__NodeCount *count = records_get(&server->state.records, KEY_NODE_COUNT);

	return count ? count->registered : 0;
}

uint64_t history_missing_nodes(struct server *server)
{
	const Holdfast__V1__NodeCount *count = records_get(&server->state.records, KEY_NODE_COUNT);

	return count ? count->missing : 0;
}

bool history_is_lost(struct server *server)
{
	const Holdfast__V1__Epoch *epoch = records_get(&server->state.records, KEY_EPOCH);

	return epoch && epoch->lost_history &&
	       (server->state.n_unreported > 0 || history_missing_nodes(server) > 0 ||
		replaced_next(server, NULL) != NULL);
}

uint64_t history_nodes(struct server *server)
{
	return nodes_ever(server) + history_missing_nodes(server);
}

/* The fields of the proof; zero to the end of each text. */
struct proven {
	char what[16];
	char cluster[CONFIG_CLUSTER_SIZE];
	char store_id[40];
	char node[NODE_ID_MAX + 1];
	char machine[NODE_MACHINE_MAX + 1];
	uint64_t epoch, index, nodes;
};

static void prove(const struct server *server, const Holdfast__V1__Mark *mark,
		  uint8_t ret[static HISTORY_PROOF_SIZE])
{
	struct proven proven;

	memset(&proven, 0, sizeof(proven)); /* padding, too */
	(void)str_copy(proven.what, sizeof(proven.what), "history mark");
	(void)str_copy(proven.cluster, sizeof(proven.cluster), server->config.cluster);
	(void)str_copy(proven.store_id, sizeof(proven.store_id), mark->store_id);
	(void)str_copy(proven.node, sizeof(proven.node), mark->node);
	(void)str_copy(proven.machine, sizeof(proven.machine), mark->machine);
	proven.epoch = mark->epoch;
	proven.index = mark->index;
	proven.nodes = mark->nodes;
	ticket_issuer_mac(server->issuer, &proven, sizeof(proven), ret);
}

static bool is_proven(const struct server *server, const Holdfast__V1__Mark *mark)
{
	uint8_t proof[HISTORY_PROOF_SIZE];

	prove(server, mark, proof);
	return mark->proof.len == sizeof(proof) && sodium_memcmp(mark->proof.data, proof, sizeof(proof)) == 0;
}

static const Holdfast__V1__Schema *schema_of(struct server *server)
{
	return records_get(&server->state.records, KEY_SCHEMA);
}

void history_mark(struct server *server, const char *node, struct history_mark *ret)
{
	const struct node_entry *entry = state_node(&server->state, node);

	*ret = (struct history_mark){.pb = HOLDFAST__V1__MARK__INIT};
	(void)str_copy(ret->store_id, sizeof(ret->store_id), schema_of(server)->store_id);
	ret->pb.store_id = ret->store_id;
	(void)str_copy(ret->node, sizeof(ret->node), node);
	ret->pb.node = ret->node;
	(void)machine_code(server, node, entry ? entry->node.machine : "", ret->machine);
	ret->pb.machine = ret->machine;
	ret->pb.epoch = state_epoch(&server->state);
	ret->pb.index = kv_revision(server->kv);
	ret->pb.nodes = history_nodes(server);
	prove(server, &ret->pb, ret->proof);
	ret->pb.proof = (ProtobufCBinaryData){.len = sizeof(ret->proof), .data = ret->proof};
}

/* --- what a node shows --- */

static bool is_own(struct server *server, const Holdfast__V1__Mark *mark)
{
	return str_eq(schema_of(server)->store_id, mark->store_id);
}

/* Is the mark of a store whose nodes the server has taken over in an epoch of its own? */
static bool is_former(struct server *server, const Holdfast__V1__Mark *mark)
{
	const Holdfast__V1__Schema *schema = schema_of(server);

	for (size_t i = 0; i < schema->n_former_store_ids; i++)
		if (str_eq(schema->former_store_ids[i], mark->store_id))
			return true;
	return false;
}

static bool is_ahead(struct server *server, const Holdfast__V1__Mark *mark)
{
	uint64_t epoch = state_epoch(&server->state);

	if (is_own(server, mark))
		return mark->epoch > epoch || (mark->epoch == epoch && mark->index > kv_revision(server->kv));
	return !is_former(server, mark) || mark->epoch >= epoch;
}

static bool is_believed(struct server *server, const Holdfast__V1__Mark *mark)
{
	const Holdfast__V1__Epoch *epoch = records_get(&server->state.records, KEY_EPOCH);
	uint64_t now = new_epoch_of_time(clock_realtime_ms());
	uint64_t known = state_epoch(&server->state);

	return restore_proof_key_has_changed(server) && !(epoch && epoch->by_unproven_mark) &&
	       mark->epoch <= (known > now ? known : now) + UNPROVEN_EPOCH_LEAP &&
	       mark->index <= kv_revision(server->kv) + UNPROVEN_INDEX_LEAP &&
	       mark->nodes <= history_nodes(server) + UNPROVEN_NODES_MAX;
}

static void describe(struct session *session, const Holdfast__V1__Mark *mark, char ret[static REASON_SIZE])
{
	struct server *server = session->server;
	uint64_t epoch = state_epoch(&server->state);

	if (!is_own(server, mark))
		(void)str_format(ret, REASON_SIZE,
				 "node %s knows this cluster by store %.36s, epoch %" PRIu64
				 ", and this store is %.36s, epoch %" PRIu64,
				 session->node_id, mark->store_id, mark->epoch, schema_of(server)->store_id,
				 epoch);
	else
		(void)str_format(ret, REASON_SIZE,
				 "node %s has seen index %" PRIu64 " of epoch %" PRIu64
				 ", and the store is at index %" PRIu64 " of epoch %" PRIu64,
				 session->node_id, mark->index, mark->epoch, kv_revision(server->kv), epoch);
}

static void on_decided(uint64_t revision, const struct error *err, void *userdata)
{
	if (err) {
		server_fail(userdata, err);
		return;
	}
	log_ctx(LOG_NOTICE, &(struct log_ctx){.op = "epoch"},
		"the new epoch is decided, also for the next leader");
	server_restart(userdata);
}

/* Until the decision is durable nothing more is taken or acknowledged. */
static enum status decide_and_restart(struct server *server, const struct new_epoch *wanted,
				      struct error *err)
{
	if (server->lead) {
		server->is_superseded = true;
		return new_epoch_decide_in(server->kv, wanted, on_decided, server, err);
	}
	TRY(new_epoch_decide(server->config.data_dir, wanted, err));
	server_restart(server);
	return STATUS_OK;
}

/* Decides @wanted and restarts the server in it. */
static enum status history_begin(struct session *session, const struct new_epoch *wanted, struct error *err)
{
	struct server *server = session->server;
	const char *reason = wanted->restored_from;
	enum status status = decide_and_restart(server, wanted, err);

	if (status != STATUS_OK) { /* without the decision nothing may be granted either */
		server_fail(server, err);
		return status;
	}
	log_ctx(LOG_CRIT,
		&(struct log_ctx){.node = session->node_id, .op = "epoch", .event = LOG_EVENT_HISTORY_LOST},
		"the store has lost history: %s; starting a new epoch", reason);
	return error_set(err, STATUS_UNAVAILABLE, 0,
			 "the server has lost history (%s) and begins a new epoch; connect again", reason);
}

static enum status decide(struct session *session, const Holdfast__V1__Mark *mark, struct error *err)
{
	struct server *server = session->server;
	uint64_t epoch = state_epoch(&server->state);
	uint64_t index = kv_revision(server->kv);
	uint64_t nodes = is_own(server, mark) ? history_nodes(server) : 0;
	char reason[REASON_SIZE];
	const struct new_epoch wanted = {
		.known_epoch = mark->epoch > epoch ? mark->epoch : epoch,
		.known_index = mark->index > index ? mark->index : index,
		.now_ms = clock_realtime_ms(),
		.restored_from = reason,
		.former_store_id = is_own(server, mark) ? "" : mark->store_id,
		.missing_nodes = mark->nodes > nodes ? mark->nodes - nodes : 0,
		.by_unproven_mark = !is_proven(server, mark),
		.proves_nothing = restore_proof_key_has_changed(server),
	};

	describe(session, mark, reason);
	return history_begin(session, &wanted, err);
}

enum status history_check_grant(struct session *session, const struct claim *granted, uint64_t known,
				struct error *err)
{
	struct server *server = session->server;
	char reason[REASON_SIZE];
	const struct new_epoch wanted = {
		.known_epoch = new_epoch_of_generation(granted->generation),
		.known_index = kv_revision(server->kv),
		.now_ms = clock_realtime_ms(),
		.restored_from = reason,
		.former_store_id = "",
		.proves_nothing = restore_proof_key_has_changed(server),
	};

	if (granted->generation <= known ||
	    new_epoch_of_generation(granted->generation) < state_epoch(&server->state))
		return STATUS_OK;
	(void)str_format(
		reason, sizeof(reason),
		"node %s has a ticket for generation %" PRIu64 " of volume %s/%s, and the store is at "
		"generation %" PRIu64,
		session->node_id, granted->generation, granted->namespace, granted->volume_id, known);
	return history_begin(session, &wanted, err);
}

/* It is on record with what the hello is stored with. */
static enum status doubt(struct session *session, const Holdfast__V1__Mark *mark)
{
	describe(session, mark, session->doubt);
	return STATUS_OK;
}

/* Returns the first record of that machine of the node, or the one behind @entry: its digest may have become
 * longer. A machine that shows nothing of itself is not recorded. */
static struct record_entry *next_counted(struct server *server, const char *node_id, const char *machine,
					 struct record_entry *entry)
{
	char prefix[OBJECT_KEY_SIZE];

	(void)str_format(prefix, sizeof(prefix), PREFIX_COUNTED "%s/", node_id);
	entry = entry ? records_next(entry) : records_from(&server->state.records, prefix);
	while (entry && str_starts_with(entry->key, prefix) &&
	       node_machine_differs(entry->key + strlen(prefix), machine))
		entry = records_next(entry);
	return machine[0] != '\0' && entry && str_starts_with(entry->key, prefix) ? entry : NULL;
}

static bool is_registered_machine(struct server *server, const char *node_id, const char *machine)
{
	return next_counted(server, node_id, machine, NULL) != NULL;
}

/* Stages that the machine is among the registered nodes, and that its marks up to now prove nothing. */
static void put_counted(struct server *server, struct change *change, const char *node_id,
			const char *machine)
{
	Holdfast__V1__CountedNode counted = HOLDFAST__V1__COUNTED_NODE__INIT;
	char key[OBJECT_KEY_SIZE];

	if (machine[0] == '\0') /* no mark of it proves anything */
		return;
	(void)str_format(key, sizeof(key), PREFIX_COUNTED "%s/%s", node_id, machine);
	counted.epoch = state_epoch(&server->state);
	counted.index = kv_revision(server->kv);
	change_put_record(change, key, &counted.base);
}

/* Did the machine get @mark before it came back, or before it was purged? It is not missing then. */
static bool is_counted(struct server *server, const Holdfast__V1__Mark *mark, const char *machine)
{
	struct record_entry *entry = NULL;

	while ((entry = next_counted(server, mark->node, machine, entry))) {
		const Holdfast__V1__CountedNode *counted = (const void *)entry->record.message;

		if (mark->epoch < counted->epoch ||
		    (mark->epoch == counted->epoch &&
		     (!is_own(server, mark) || mark->index <= counted->index)))
			return true;
	}
	return false;
}

static bool is_in(const Holdfast__V1__Mark *mark, uint64_t from_epoch, uint64_t from_index, uint64_t to_epoch)
{
	return mark->epoch < to_epoch &&
	       (mark->epoch > from_epoch || (mark->epoch == from_epoch && mark->index >= from_index));
}

/* Is @mark of a time that this epoch or an earlier one has forgotten? */
static bool is_of_lost_time(const Holdfast__V1__Epoch *epoch, const Holdfast__V1__Mark *mark)
{
	for (size_t i = 0; i < epoch->n_earlier; i++)
		if (is_in(mark, epoch->earlier[i]->from_epoch, epoch->earlier[i]->from_index,
			  epoch->earlier[i]->to_epoch))
			return true;
	return is_in(mark, epoch->from_epoch, epoch->from_index, epoch->number);
}

/* Was the proven @mark shown to @machine? It is not known of a machine that shows nothing of itself. */
static bool is_of_machine(struct server *server, const Holdfast__V1__Mark *mark, const char *machine)
{
	char code[NODE_MACHINE_MAX + 1];

	return mark->machine[0] != '\0' && machine_code(server, mark->node, machine, code)[0] != '\0' &&
	       node_machine_shows(mark->machine, code);
}

/* Was @mark shown to the session's machine in the time that the store has forgotten? The mark of another node
 * or machine, or one from before that time, has a machine that is not missing: it was purged, or it has
 * another name now. The mark of a registration may be as far as the change before it; that of a purged node
 * is before the purge. */
static bool is_of_missing(const struct session *session, const Holdfast__V1__Mark *mark, const char *machine)
{
	struct server *server = session->server;
	const Holdfast__V1__Epoch *epoch = records_get(&server->state.records, KEY_EPOCH);

	if (!str_eq(mark->node, session->node_id) || !epoch || !is_of_machine(server, mark, machine) ||
	    is_counted(server, mark, machine))
		return false;
	return !is_own(server, mark) || is_of_lost_time(epoch, mark);
}

enum status history_check(struct session *session, const Holdfast__V1__SessionHello *hello, struct error *err)
{
	struct server *server = session->server;
	const Holdfast__V1__Mark *mark = hello->mark;
	bool counts;

	if (!mark || mark->store_id[0] == '\0')
		return STATUS_OK;
	/* a text that does not fit the fields of the proof would be proven as an empty one */
	if (!id_is_uuid(mark->store_id) || mark->epoch >= EPOCH_MAX || strlen(mark->node) > NODE_ID_MAX ||
	    strlen(mark->machine) > NODE_MACHINE_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "node %s shows an invalid mark",
				 session->node_id);
	counts = is_proven(server, mark) || is_believed(server, mark);
	if (!is_ahead(server, mark)) {
		bool is_earlier = is_proven(server, mark) && mark->epoch < state_epoch(&server->state);

		session->is_back = is_earlier && is_of_missing(session, mark, hello->machine);
		session->nodes_then = is_earlier ? mark->nodes : 0;
		return STATUS_OK;
	}
	return counts ? decide(session, mark, err) : doubt(session, mark);
}

static bool is_lower(const Holdfast__V1__Mark *mark, const struct node *than)
{
	if (!mark || mark->epoch != than->mark_epoch)
		return !mark || mark->epoch < than->mark_epoch;
	return mark->index < than->mark_index;
}

static void describe_reverted(struct session *session, const struct node *current,
			      const Holdfast__V1__Mark *mark)
{
	if (session->doubt[0] == '\0')
		(void)str_format(session->doubt, sizeof(session->doubt),
				 "it has shown index %" PRIu64 " of epoch %" PRIu64
				 " in this boot, and shows index %" PRIu64 " of epoch %" PRIu64
				 ": it was reverted, or its journal was put back or lost",
				 current->mark_index, current->mark_epoch, mark ? mark->index : 0,
				 mark ? mark->epoch : 0);
}

void history_take_node_mark(struct session *session, const Holdfast__V1__Mark *mark,
			    const struct node *current, struct node *node)
{
	bool is_of_boot = str_eq(current->boot_id, session->boot_id);
	bool is_foreign = mark && (mark->store_id[0] == '\0' || !is_own(session->server, mark));
	bool went_back = current->mark_index > 0 &&
			 (is_foreign ? mark->epoch < current->mark_epoch : is_lower(mark, current));

	/* Until it has reported: welcome shows it a higher mark, and its next hello is like any other. */
	session->is_reverted = is_of_boot && (went_back || current->reverted);
	node->reverted = session->is_reverted;
	if (went_back && is_of_boot)
		describe_reverted(session, current, mark);
	if (went_back || is_foreign || !mark || !is_proven(session->server, mark))
		return;
	node->mark_epoch = mark->epoch;
	node->mark_index = mark->index;
}

/* Returns the index above the marks of nodes that were purged in this epoch and left no record. */
static uint64_t forgotten_index(struct server *server)
{
	const Holdfast__V1__NodeCount *count = records_get(&server->state.records, KEY_NODE_COUNT);

	return count && count->new_epoch == state_epoch(&server->state) ? count->forgotten_index : 0;
}

/* Stages @count with the present epoch, and notes the number of nodes for the marks. */
static void put_count(struct server *server, struct change *change, Holdfast__V1__NodeCount *count)
{
	count->new_epoch = state_epoch(&server->state);
	if (count->forgotten_index == 0)
		count->forgotten_index = forgotten_index(server);
	if (count->registered + count->missing > 0)
		change_put_record(change, KEY_NODE_COUNT, &count->base);
	else /* a value is never empty */
		change_delete_record(change, KEY_NODE_COUNT);
	kv_note_nodes(server->kv, count->registered + count->missing);
}

/* Returns how many of the registered nodes are not counted by marks of earlier epochs. */
static uint64_t new_nodes(struct server *server)
{
	const Holdfast__V1__NodeCount *count = records_get(&server->state.records, KEY_NODE_COUNT);

	return count && count->new_epoch == state_epoch(&server->state) ? count->new_nodes : 0;
}

/* Has an operator attested that no missing node is left? */
static bool is_purged(struct server *server)
{
	const Holdfast__V1__NodeCount *count = records_get(&server->state.records, KEY_NODE_COUNT);

	return count && count->purged_epoch > 0 && count->purged_epoch == state_epoch(&server->state);
}

/* Returns the number of missing nodes. An epoch that begins because the store's mark is lost has no count of
 * its own: only the marks of nodes have the number of nodes in the lost time. */
static uint64_t missing_by(const struct session *session)
{
	struct server *server = session->server;
	uint64_t missing = history_missing_nodes(server);
	uint64_t there = nodes_ever(server) - new_nodes(server);

	if (is_purged(server))
		return missing;
	return session->nodes_then > there + missing ? session->nodes_then - there : missing;
}

bool history_is_stranger(const struct session *session)
{
	return missing_by(session) == 0 && !replaced_next_of(session->server, session->node_id, NULL);
}

/* Returns the present count, as far as it holds in this epoch. */
static Holdfast__V1__NodeCount count_now(struct server *server)
{
	Holdfast__V1__NodeCount count = HOLDFAST__V1__NODE_COUNT__INIT;

	count.registered = nodes_ever(server);
	count.missing = history_missing_nodes(server);
	count.new_nodes = new_nodes(server);
	count.purged_epoch = is_purged(server) ? state_epoch(&server->state) : 0;
	return count;
}

/* A missing machine is registered again. If an operator has attested that all are gone, it is counted
 * already. */
static void count_back(struct server *server, struct change *change, const char *node_id, const char *machine,
		       Holdfast__V1__NodeCount *count)
{
	count->registered += count->missing > 0 || !is_purged(server);
	count->missing -= count->missing > 0;
	put_counted(server, change, node_id, machine);
}

void history_count_node(const struct session *session, bool is_registered,
			const Holdfast__V1__SessionHello *hello, struct change *change)
{
	struct server *server = session->server;
	Holdfast__V1__NodeCount count = count_now(server);

	count.missing = missing_by(session);
	if (is_registered && count.missing == history_missing_nodes(server))
		return;
	if (!is_registered && session->is_back) {
		count_back(server, change, session->node_id, hello->machine, &count);
	} else if (!is_registered) {
		count.registered++;
		count.new_nodes++;
	}
	put_count(server, change, &count);
}

void history_count_machine(struct server *server, struct change *change, const struct node *node,
			   const char *machine)
{
	Holdfast__V1__NodeCount count = count_now(server);

	put_counted(server, change, node->id, node->machine);
	if (is_registered_machine(server, node->id, machine))
		return;
	count.registered++;
	count.new_nodes++;
	put_counted(server, change, node->id, machine);
	put_count(server, change, &count);
}

bool history_note_refused(const struct session *session, const char *machine, struct change *change)
{
	struct server *server = session->server;
	Holdfast__V1__NodeCount count = count_now(server);

	if (!session->is_back)
		return false;
	replaced_add(change, session->node_id, machine);
	count.missing = missing_by(session);
	if (is_registered_machine(server, session->node_id, machine))
		put_counted(server, change, session->node_id, machine);
	else
		count_back(server, change, session->node_id, machine, &count);
	put_count(server, change, &count);
	return true;
}

void history_forget_node(struct server *server, struct change *change, const struct node *node)
{
	Holdfast__V1__NodeCount count = count_now(server);

	if (node->stranger_epoch != state_epoch(&server->state)) {
		put_counted(server, change, node->id, node->machine);
		return;
	}
	count.forgotten_index = kv_revision(server->kv) + 1;
	put_count(server, change, &count);
}

void history_forget_missing(struct server *server, struct change *change)
{
	Holdfast__V1__NodeCount count = count_now(server);

	count.registered += count.missing; /* marks count them, also those of a later restore */
	count.missing = 0;
	count.purged_epoch = state_epoch(&server->state);
	put_count(server, change, &count);
}

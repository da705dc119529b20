/* SPDX-License-Identifier: Apache-2.0 */
#include "recovery/new_epoch.h"

#include "load.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "log/log.h"
#include "recovery/copy_file.h"
#include "state/freed_records.h"
#include "state/keys.h"
#include "state/schema.h"
#include "state/state.h"

#include <errno.h>
#include <holdfast/v1/types.pb-c.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { EPOCH_SHIFT = 32, MS_PER_MINUTE = 60000 };

/* --- reading the copy --- */

enum status new_epoch_read(struct kv *kv, uint64_t *ret, struct error *err)
{
	cleanup(record_freep) void *epoch = NULL;

	TRY(schema_get(kv, KEY_EPOCH, &holdfast__v1__epoch__descriptor, &epoch, err));
	*ret = epoch ? ((const Holdfast__V1__Epoch *)epoch)->number : 0;
	return STATUS_OK;
}

void known_nodes_add_store(struct known_nodes *known, const char *store_id)
{
	for (size_t i = 0; i < known->n_stores; i++)
		if (str_eq(known->stores[i], store_id))
			return;
	if (store_id[0] != '\0' && known->n_stores < ARRAY_SIZE(known->stores) &&
	    str_copy(known->stores[known->n_stores], UUID_SIZE, store_id) >= 0)
		known->n_stores++;
}

static enum status look_at_count(struct kv *kv, struct known_nodes *known, struct error *err)
{
	cleanup(record_freep) void *record = NULL;
	const Holdfast__V1__NodeCount *count;

	TRY(schema_get(kv, KEY_NODE_COUNT, &holdfast__v1__node_count__descriptor, &record, err));
	count = record;
	if (count && count->registered + count->missing > known->n)
		known->n = count->registered + count->missing;
	return STATUS_OK;
}

static enum status look_at_stores(struct kv *kv, struct known_nodes *known, struct error *err)
{
	cleanup(record_freep) void *record = NULL;
	const Holdfast__V1__Schema *schema;

	TRY(schema_get(kv, KEY_SCHEMA, &holdfast__v1__schema__descriptor, &record, err));
	schema = record;
	if (schema)
		known_nodes_add_store(known, schema->store_id);
	for (size_t i = 0; schema && i < schema->n_former_store_ids; i++)
		known_nodes_add_store(known, schema->former_store_ids[i]);
	return STATUS_OK;
}

enum status new_epoch_look(const char *path, struct new_epoch *wanted, struct error *err)
{
	cleanup(store_file_closep) struct store_file store = {NULL, NULL};

	TRY(store_file_open(path, &store, err));
	wanted->known_index = kv_revision(store.kv);
	TRY(look_at_count(store.kv, &wanted->known, err));
	TRY(look_at_stores(store.kv, &wanted->known, err));
	return new_epoch_read(store.kv, &wanted->known_epoch, err);
}

static enum status check_cluster(const struct new_epoch *wanted, const struct schema *schema,
				 struct error *err)
{
	if (schema->cluster[0] == '\0' || str_eq(schema->cluster, wanted->cluster) || wanted->other_cluster)
		return STATUS_OK;
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "the copy is of cluster '%s', this one is '%s'; if that is what you want, allow "
			 "another cluster (--other-cluster)",
			 schema->cluster, wanted->cluster);
}

/* Checks that every record is readable, and refers to existing records. */
static enum status check_records(struct kv *kv, uint32_t *ret_nodes, struct error *err)
{
	struct state state;
	enum status status;

	state_init(&state);
	status = load_state(kv, &state, err);
	if (status == STATUS_OK)
		status = freed_check(kv, err);
	if (status == STATUS_OK)
		*ret_nodes = (uint32_t)state.n_nodes;
	state_release(&state);
	return status;
}

/* --- the new epoch --- */

struct marking {
	struct kv_rewrite *rewrite;
	const struct new_epoch *wanted;
	bool is_lost;	 /* history, by the server's own store */
	bool is_new;	 /* the store, made for this */
	bool is_related; /* the store is one of wanted->known, at another time, or one that came after them */
	uint64_t epoch;
	uint64_t index; /* of the store before it */
	uint64_t missing_nodes;
	char store_id[UUID_SIZE];
	enum status status;
	struct error *err;
};

uint64_t new_epoch_of_time(int64_t realtime_ms)
{
	return (uint64_t)(realtime_ms / MS_PER_MINUTE);
}

void new_epoch_raise(struct new_epoch *wanted, uint64_t epoch, uint64_t index)
{
	uint64_t at_least = wanted->known_epoch == EPOCH_UNKNOWN ? new_epoch_of_time(wanted->now_ms)
								 : wanted->known_epoch;

	if (epoch > at_least)
		wanted->known_epoch = epoch;
	if (index > wanted->known_index)
		wanted->known_index = index;
}

uint64_t new_epoch_of_generation(uint64_t generation)
{
	return generation >> EPOCH_SHIFT;
}

uint64_t new_epoch_generation_max(uint64_t epoch)
{
	return (epoch << EPOCH_SHIFT) + (UINT64_C(1) << (EPOCH_SHIFT - 1));
}

static uint64_t next_epoch(const struct new_epoch *wanted, uint64_t copied)
{
	uint64_t last = copied;

	if (wanted->known_epoch == EPOCH_UNKNOWN)
		last = new_epoch_of_time(wanted->now_ms);
	else if (wanted->known_epoch > last)
		last = wanted->known_epoch;
	return (last > copied ? last : copied) + 1;
}

static uint64_t raised(const struct marking *marking, uint64_t generation)
{
	return (marking->epoch << EPOCH_SHIFT) + (generation & UINT32_MAX);
}

static bool raise_volume(const struct kv_item *item, void *userdata)
{
	struct marking *marking = userdata;
	Holdfast__V1__Volume *volume = holdfast__v1__volume__unpack(NULL, item->len, item->value);

	if (!volume) { /* it was read a moment ago, so only memory can be short */
		marking->status = error_no_memory(marking->err, "the new epoch");
		return false;
	}
	/* the first number shows the age of a registration; not that of a placeholder */
	if (volume->newer_from == 0 && volume->n_requested_capabilities > 0)
		volume->newer_from = volume->generation + 1;
	volume->generation = raised(marking, volume->generation);
	marking->status = schema_put(marking->rewrite, item->key, &volume->base, marking->err);
	holdfast__v1__volume__free_unpacked(volume, NULL);
	return marking->status == STATUS_OK;
}

static enum status raise_generations(struct marking *marking, struct error *err)
{
	cleanup(record_freep) void *old = NULL;
	Holdfast__V1__GenerationFloor floor = HOLDFAST__V1__GENERATION_FLOOR__INIT;

	TRY(schema_get_in(marking->rewrite, KEY_GENERATION_FLOOR, &holdfast__v1__generation_floor__descriptor,
			  &old, err));
	floor.generation =
		raised(marking, old ? ((const Holdfast__V1__GenerationFloor *)old)->generation : 0);
	TRY(schema_put(marking->rewrite, KEY_GENERATION_FLOOR, &floor.base, err));
	TRY(kv_rewrite_range(marking->rewrite, PREFIX_VOLUME, raise_volume, marking, err));
	return marking->status;
}

/* A reserved claim may have been sent to its node in the time that the store has forgotten: the node's report
 * decides. */
static bool note_maybe_sent(const struct kv_item *item, void *userdata)
{
	struct marking *marking = userdata;
	Holdfast__V1__Claim *claim = holdfast__v1__claim__unpack(NULL, item->len, item->value);

	if (!claim) {
		marking->status = error_no_memory(marking->err, "the new epoch");
		return false;
	}
	if (claim->state == HOLDFAST__V1__CLAIM_STATE__RESERVED && !claim->sent_to_node) {
		claim->sent_to_node = true;
		marking->status = schema_put(marking->rewrite, item->key, &claim->base, marking->err);
	}
	holdfast__v1__claim__free_unpacked(claim, NULL);
	return marking->status == STATUS_OK;
}

static enum status keep_reserved(struct marking *marking, struct error *err)
{
	TRY(kv_rewrite_range(marking->rewrite, PREFIX_CLAIM, note_maybe_sent, marking, err));
	return marking->status;
}

static bool forget(const struct kv_item *item, void *userdata)
{
	struct marking *marking = userdata;

	marking->status = kv_rewrite_put(marking->rewrite, &(struct kv_op){.key = item->key}, marking->err);
	return marking->status == STATUS_OK;
}

/* The store may know a line as good that was used in the time that it has forgotten. */
static enum status forget_enrollments(struct marking *marking, struct error *err)
{
	TRY(kv_rewrite_range(marking->rewrite, PREFIX_ENROLLMENT, forget, marking, err));
	return marking->status;
}

/* Sets cluster and former stores. */
static enum status name_store(struct marking *marking, struct error *err)
{
	cleanup(record_freep) void *record = NULL;
	const struct new_epoch *wanted = marking->wanted;
	const Holdfast__V1__Schema *found;
	Holdfast__V1__Schema schema;
	struct known_nodes former = {.n = 0};
	char *ids[SCHEMA_FORMER_STORES_MAX];
	size_t n = 0;

	TRY(schema_get_in(marking->rewrite, KEY_SCHEMA, &holdfast__v1__schema__descriptor, &record, err));
	if (!record)
		return STATUS_OK;
	found = record;
	schema = *found;
	known_nodes_add_store(&former, wanted->former_store_id ? wanted->former_store_id : "");
	for (size_t i = 0; i < wanted->known.n_stores; i++) {
		known_nodes_add_store(&former, wanted->known.stores[i]);
		marking->is_related |= str_eq(wanted->known.stores[i], found->store_id);
	}
	for (size_t i = 0; i < found->n_former_store_ids; i++)
		known_nodes_add_store(&former, found->former_store_ids[i]);
	for (size_t i = 0; i < former.n_stores && n < ARRAY_SIZE(ids); i++)
		if (!str_eq(former.stores[i], found->store_id))
			ids[n++] = former.stores[i];
	str_copy_text(marking->store_id, sizeof(marking->store_id), found->store_id);
	schema.cluster = (char *)(uintptr_t)wanted->cluster; /* only read */
	schema.former_store_ids = ids;
	schema.n_former_store_ids = n;
	return schema_put(marking->rewrite, KEY_SCHEMA, &schema.base, err);
}

/* Returns an index from which on the marks of the store's epoch may be of the forgotten time. A server that
 * finds out by itself does not know how far the store went back, and may have continued since: no node that
 * the store knows to be purged has a mark from there on. */
static enum status lost_from(struct marking *marking, uint64_t epoch, uint64_t *ret, struct error *err)
{
	cleanup(record_freep) void *found = NULL;
	const Holdfast__V1__NodeCount *count;

	TRY(schema_get_in(marking->rewrite, KEY_NODE_COUNT, &holdfast__v1__node_count__descriptor, &found,
			  err));
	count = found;
	*ret = marking->index;
	if (marking->is_lost)
		*ret = count && count->new_epoch == epoch ? count->forgotten_index : 0;
	return STATUS_OK;
}

/* Those of a store that this one comes from, it knows or misses already. */
static enum status count_missing(struct marking *marking, struct error *err)
{
	cleanup(record_freep) void *found = NULL;
	const struct known_nodes *known = &marking->wanted->known;
	Holdfast__V1__NodeCount count = HOLDFAST__V1__NODE_COUNT__INIT;
	uint64_t own = 0;
	uint64_t more;

	TRY(schema_get_in(marking->rewrite, KEY_NODE_COUNT, &holdfast__v1__node_count__descriptor, &found,
			  err));
	if (found)
		count = *(const Holdfast__V1__NodeCount *)found;
	if (marking->is_related)
		own = count.registered + count.missing;
	more = marking->wanted->missing_nodes + (known->n > own ? known->n - own : 0);
	marking->missing_nodes = count.missing = count.missing + more;
	return more > 0 ? schema_put(marking->rewrite, KEY_NODE_COUNT, &count.base, err) : STATUS_OK;
}

static enum status put_off_proof(struct marking *marking, struct error *err)
{
	cleanup(record_freep) void *record = NULL;
	Holdfast__V1__TicketKey *key;

	TRY(schema_get_in(marking->rewrite, KEY_TICKET_KEY, &holdfast__v1__ticket_key__descriptor, &record,
			  err));
	key = record;
	if (!key || !marking->wanted->proves_nothing)
		return STATUS_OK;
	key->from_epoch = marking->epoch + 1;
	return schema_put(marking->rewrite, KEY_TICKET_KEY, &key->base, err);
}

/* The nodes that an earlier epoch missed are still known by its marks, unless an operator has attested that
 * no missing node is left. The newest ones are kept. */
struct lost_times {
	Holdfast__V1__LostTime own;
	Holdfast__V1__LostTime *list[EPOCH_LOST_TIMES_MAX];
};

static enum status keep_lost_times(const struct marking *marking, const Holdfast__V1__Epoch *former,
				   struct lost_times *times, Holdfast__V1__Epoch *epoch, struct error *err)
{
	cleanup(record_freep) void *found = NULL;
	const Holdfast__V1__NodeCount *count;
	size_t skipped;

	TRY(schema_get_in(marking->rewrite, KEY_NODE_COUNT, &holdfast__v1__node_count__descriptor, &found,
			  err));
	count = found;
	if (!former || (count && count->purged_epoch == former->number))
		return STATUS_OK;
	skipped =
		former->n_earlier >= EPOCH_LOST_TIMES_MAX ? former->n_earlier - EPOCH_LOST_TIMES_MAX + 1 : 0;
	epoch->earlier = times->list;
	for (size_t i = skipped; i < former->n_earlier; i++)
		times->list[epoch->n_earlier++] = former->earlier[i];
	times->own.from_epoch = former->from_epoch;
	times->own.from_index = former->from_index;
	times->own.to_epoch = former->number;
	times->list[epoch->n_earlier++] = &times->own;
	return STATUS_OK;
}

static enum status mark(struct kv_rewrite *rewrite, void *userdata, struct error *err)
{
	cleanup(record_freep) void *found = NULL;
	struct marking *marking = userdata;
	const struct new_epoch *wanted = marking->wanted;
	Holdfast__V1__Epoch epoch = HOLDFAST__V1__EPOCH__INIT;
	struct lost_times times = {.own = HOLDFAST__V1__LOST_TIME__INIT};
	uint64_t copied;

	marking->rewrite = rewrite;
	marking->err = err;
	TRY(schema_get_in(rewrite, KEY_EPOCH, &holdfast__v1__epoch__descriptor, &found, err));
	copied = found ? ((const Holdfast__V1__Epoch *)found)->number : 0;
	if (copied >= EPOCH_MAX) /* the next one would begin at 0, as if no node had to report */
		return error_set(
			err, STATUS_DATA_LOSS, 0,
			"the store's epoch %" PRIu64
			" is invalid; keep a copy and restore a backup (holdfast-server --restore FILE)",
			copied);
	marking->epoch = next_epoch(wanted, copied);
	kv_rewrite_advance(rewrite, wanted->known_index);
	epoch.number = marking->epoch;
	epoch.from_epoch = copied;
	TRY(lost_from(marking, copied, &epoch.from_index, err));
	epoch.restored_at_ms = wanted->now_ms;
	epoch.restored_from = (char *)(uintptr_t)wanted->restored_from; /* only read */
	epoch.lost_history = marking->is_lost;
	epoch.new_store = marking->is_new;
	epoch.by_unproven_mark = wanted->by_unproven_mark;
	TRY(keep_lost_times(marking, found, &times, &epoch, err));
	TRY(schema_put(rewrite, KEY_EPOCH, &epoch.base, err));
	TRY(name_store(marking, err));
	TRY(count_missing(marking, err));
	TRY(put_off_proof(marking, err));
	TRY(forget_enrollments(marking, err));
	TRY(keep_reserved(marking, err));
	return raise_generations(marking, err);
}

static enum status change_copy(const struct new_epoch *wanted, struct new_epoch_result *ret,
			       struct error *err)
{
	cleanup(store_file_closep) struct store_file store = {NULL, NULL};
	struct marking marking = {.wanted = wanted, .status = STATUS_OK};
	struct new_epoch_result result = {.epoch = 0};
	struct schema schema;

	TRY(store_file_open(wanted->path, &store, err));
	TRY(schema_read(store.kv, &schema, err));
	TRY(check_cluster(wanted, &schema, err));
	result.index = marking.index = kv_revision(store.kv);
	marking.is_new = result.index == 0;
	TRY(schema_bring_up(store.kv, schema.cluster[0] != '\0' ? schema.cluster : wanted->cluster, err));
	TRY(check_records(store.kv, &result.nodes, err));
	TRY(kv_rewrite(store.kv, mark, &marking, err));
	result.epoch = marking.epoch;
	result.missing_nodes = marking.missing_nodes;
	memcpy(result.store_id, marking.store_id, sizeof(result.store_id));
	*ret = result;
	return STATUS_OK;
}

/* Closing folds the log into the file; only then the file is the whole store. */
static enum status check_closed(const char *path, struct error *err)
{
	char wal[PATH_MAX];
	char lock[PATH_MAX];
	struct stat st;

	if (str_format(wal, sizeof(wal), "%s-wal", path) < 0 ||
	    str_format(lock, sizeof(lock), "%s-lock", path) < 0)
		return error_set(err, STATUS_INTERNAL, 0, "%s: the path is too long", path);
	(void)unlink(lock); /* no other process has a name for the copy */
	if (stat(wal, &st) < 0 && errno == ENOENT)
		return STATUS_OK;
	return error_set(err, STATUS_INTERNAL, 0, "%s could not be written to its end; is the disk full?",
			 path);
}

enum status new_epoch_begin(const struct new_epoch *wanted, struct new_epoch_result *ret, struct error *err)
{
	struct new_epoch_result result;

	TRY(change_copy(wanted, &result, err));
	TRY(check_closed(wanted->path, err));
	*ret = result;
	return STATUS_OK;
}

/* --- in the server's own store --- */

enum status new_epoch_begin_here(struct kv *kv, const struct new_epoch *wanted, struct error *err)
{
	uint64_t index = kv_revision(kv);
	struct marking marking = {.wanted = wanted, .is_lost = true, .index = index, .status = STATUS_OK};

	TRY(kv_rewrite(kv, mark, &marking, err));
	log_ctx(LOG_CRIT, &(struct log_ctx){.op = "epoch", .event = LOG_EVENT_HISTORY_LOST},
		"the store has lost history (it is at index %" PRIu64 "): %s. Epoch %" PRIu64
		" begins, and no volume is granted before the nodes that may hold it have reported; see "
		"holdfast operator status",
		index, wanted->restored_from, marking.epoch);
	return STATUS_OK;
}

static void decision_path(const char *data_dir, char ret[static PATH_MAX])
{
	(void)str_format(ret, PATH_MAX, "%s/epoch.pending", data_dir);
}

enum status new_epoch_pack_decision(const struct new_epoch *wanted,
				    uint8_t ret[static NEW_EPOCH_DECISION_MAX], size_t *ret_n,
				    struct error *err)
{
	Holdfast__V1__EpochDecision decision = HOLDFAST__V1__EPOCH_DECISION__INIT;

	decision.known_epoch = wanted->known_epoch;
	decision.known_index = wanted->known_index;
	decision.decided_at_ms = wanted->now_ms;
	decision.reason = (char *)(uintptr_t)wanted->restored_from; /* only read */
	if (wanted->former_store_id)
		decision.former_store_id = (char *)(uintptr_t)wanted->former_store_id; /* likewise */
	decision.missing_nodes = wanted->missing_nodes;
	decision.by_unproven_mark = wanted->by_unproven_mark;
	decision.proves_nothing = wanted->proves_nothing;
	decision.known_nodes = wanted->known.n;
	if (wanted->known.n_stores > 0)
		decision.known_store_id = (char *)(uintptr_t)wanted->known.stores[0]; /* likewise */
	if (holdfast__v1__epoch_decision__get_packed_size(&decision) > NEW_EPOCH_DECISION_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "the reason of a new epoch is too long");
	*ret_n = holdfast__v1__epoch_decision__pack(&decision, ret);
	return STATUS_OK;
}

enum status new_epoch_decide(const char *data_dir, const struct new_epoch *wanted, struct error *err)
{
	uint8_t bytes[NEW_EPOCH_DECISION_MAX];
	char path[PATH_MAX];
	size_t n = 0;
	int r;

	decision_path(data_dir, path);
	TRY(new_epoch_pack_decision(wanted, bytes, &n, err));
	r = file_write_atomic(path, 0600, (const char *)bytes, n);
	return r < 0 ? error_set(err, status_from_errno(r), r, "write %s", path) : STATUS_OK;
}

enum status new_epoch_decide_in(struct kv *kv, const struct new_epoch *wanted, kv_done_fn *done,
				void *userdata, struct error *err)
{
	uint8_t bytes[NEW_EPOCH_DECISION_MAX];
	struct kv_op op = {.key = KEY_DECISION, .value = bytes};

	TRY(new_epoch_pack_decision(wanted, bytes, &op.len, err));
	return kv_submit(kv, &(struct kv_txn){.ops = &op, .n_ops = 1}, done, userdata, err);
}

/* A decision whose epoch has begun stays behind when the server is killed just then. */
static enum status begin_decision(struct kv *kv, const char *cluster,
				  const Holdfast__V1__EpochDecision *decision, struct error *err)
{
	struct new_epoch wanted = {
		.cluster = cluster,
		.known_epoch = decision->known_epoch,
		.known_index = decision->known_index,
		.now_ms = decision->decided_at_ms,
		.restored_from = decision->reason,
		.former_store_id = decision->former_store_id,
		.missing_nodes = decision->missing_nodes,
		.by_unproven_mark = decision->by_unproven_mark,
		.proves_nothing = decision->proves_nothing,
		.known = {.n = decision->known_nodes},
	};
	uint64_t epoch;

	TRY(new_epoch_read(kv, &epoch, err));
	if (epoch > decision->known_epoch)
		return STATUS_OK;
	known_nodes_add_store(&wanted.known, decision->known_store_id);
	return new_epoch_begin_here(kv, &wanted, err);
}

/* @ret owned by the caller, record_freep(); NULL: nothing is decided. */
static enum status read_decision(const char *data_dir, void **ret, struct error *err)
{
	cleanup_free char *bytes = NULL;
	char path[PATH_MAX];
	size_t n = 0;
	int r;

	*ret = NULL;
	decision_path(data_dir, path);
	r = file_read(path, NEW_EPOCH_DECISION_MAX, &bytes, &n);
	if (r == -ENOENT)
		return STATUS_OK;
	if (r < 0)
		return error_set(err, status_from_errno(r), r, "read %s", path);
	*ret = holdfast__v1__epoch_decision__unpack(NULL, n, (const uint8_t *)bytes);
	if (*ret)
		return STATUS_OK;
	return error_set(err, STATUS_DATA_LOSS, 0,
			 "%s exists, which marks that the store has lost history, and it cannot be read: "
			 "restore a backup (holdfast-server --restore FILE), which takes its place",
			 path);
}

enum status new_epoch_forget_decision(const char *data_dir, struct error *err)
{
	char path[PATH_MAX];

	decision_path(data_dir, path);
	if (unlink(path) < 0 && errno != ENOENT)
		return error_set(err, status_from_errno(errno), errno, "remove %s", path);
	return STATUS_OK;
}

static enum status begin_from_file(struct kv *kv, const char *data_dir, const char *cluster,
				   struct error *err)
{
	cleanup(record_freep) void *decision = NULL;

	TRY(read_decision(data_dir, &decision, err));
	if (!decision)
		return STATUS_OK;
	TRY(begin_decision(kv, cluster, decision, err));
	return new_epoch_forget_decision(data_dir, err);
}

static enum status forget_stored(struct kv_rewrite *rewrite, void *userdata, struct error *err)
{
	return kv_rewrite_put(rewrite, &(struct kv_op){.key = KEY_DECISION}, err);
}

static enum status begin_from_store(struct kv *kv, const char *cluster, struct error *err)
{
	cleanup(record_freep) void *decision = NULL;

	TRY(schema_get(kv, KEY_DECISION, &holdfast__v1__epoch_decision__descriptor, &decision, err));
	if (!decision)
		return STATUS_OK;
	TRY(begin_decision(kv, cluster, decision, err));
	return kv_rewrite(kv, forget_stored, NULL, err);
}

enum status new_epoch_begin_decided(struct kv *kv, const char *data_dir, const char *cluster,
				    struct error *err)
{
	TRY(begin_from_file(kv, data_dir, cluster, err));
	return begin_from_store(kv, cluster, err);
}

void new_epoch_look_at_decision(const char *data_dir, struct new_epoch *wanted)
{
	cleanup(record_freep) void *record = NULL;
	const Holdfast__V1__EpochDecision *decision;

	if (read_decision(data_dir, &record, NULL) != STATUS_OK || !record)
		return;
	decision = record;
	if (wanted->known_epoch == EPOCH_UNKNOWN || wanted->known_epoch <= decision->known_epoch) {
		new_epoch_raise(wanted, decision->known_epoch, decision->known_index);
		wanted->known.n += decision->missing_nodes;
		known_nodes_add_store(&wanted->known, decision->former_store_id);
	} /* else it has begun */
}

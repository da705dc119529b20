/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/journal.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/str.h"
#include "log/log.h"
#include "model/pb.h"
#include "rpc/wakeup.h"
#include "store/kv.h"

#include <errno.h>
#include <fcntl.h>
#include <holdfast/v1/journal.pb-c.h>
#include <holdfast/v1/nodes.pb-c.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#define JOURNAL_FILE "agent.db"
#define KEY_META "meta"
#define KEY_MARK "mark"
#define PREFIX_ALLOC "alloc/"
#define PREFIX_RECEIPT "receipt/"
#define PREFIX_PLUGIN "plugin/"
#define PREFIX_RELEASE "release/"

enum { MARK_BYTES_MAX = 256 }; /* a store id, numbers, a proof */

enum { LOG_PATH_SIZE = PATH_MAX + 8 };

enum { KEY_SIZE = sizeof(PREFIX_PLUGIN) + PLUGIN_ID_MAX, OPS_MAX = 9 };

/* Two ids, KERNEL_WORDS_MAX, and numbers. */
enum { RECEIPT_BYTES_MAX = 2 * UUID_TEXT_SIZE + KERNEL_WORDS_MAX + 64 };

/* Three ids, a name, and numbers. */
enum { NOTE_BYTES_MAX = 3 * UUID_TEXT_SIZE + WIRE_VOLUME_SIZE + 64 };

/* The operations of one write, with the memory that they refer to. */
struct batch {
	struct kv_op ops[OPS_MAX];
	char keys[OPS_MAX][KEY_SIZE];
	size_t n;
	uint8_t *alloc_bytes;
	uint8_t *plugin_bytes;
	uint8_t receipt_bytes[RECEIPT_BYTES_MAX];
	uint8_t note_bytes[NOTE_BYTES_MAX];
	uint8_t mark_bytes[MARK_BYTES_MAX];
};

/* A write, or a barrier, until it is done: a full disk lets it be submitted again. */
struct pending {
	STAILQ_ENTRY(pending) entry;
	struct journal *journal;
	journal_done_fn *done;
	void *userdata;
	bool is_barrier;
	struct batch batch;
};

struct journal {
	sd_event *event; /* borrowed */
	char path[PATH_MAX];
	struct kv *kv;			  /* NULL while it waits for room */
	STAILQ_HEAD(, pending) in_flight; /* in the order of submission */
	Holdfast__V1__Mark *mark;	  /* owned; NULL: no mark yet */
	bool is_mark_unwritten;
	struct journal_disk *disk; /* borrowed; may be NULL */
	sd_event_source *retry;	   /* owned; armed while writes wait for room */
};

DEFINE_CLEANUP(struct journal, journal_close)

static void pending_free(struct pending *pending)
{
	if (!pending)
		return;
	free(pending->batch.alloc_bytes);
	free(pending->batch.plugin_bytes);
	free(pending);
}

DEFINE_CLEANUP(struct pending, pending_free)

static void alloc_key(char key[static KEY_SIZE], const char *id)
{
	(void)str_format(key, KEY_SIZE, PREFIX_ALLOC "%s", id);
}

static void receipt_key(char key[static KEY_SIZE], const struct receipt *receipt)
{
	(void)str_format(key, KEY_SIZE, PREFIX_RECEIPT "%s/%s", receipt->claim_id,
			 receipt->is_released ? "released" : "mounted");
}

static void plugin_key(char key[static KEY_SIZE], const char *id)
{
	(void)str_format(key, KEY_SIZE, PREFIX_PLUGIN "%s", id);
}

static void note_key(char key[static KEY_SIZE], const char *claim_id)
{
	(void)str_format(key, KEY_SIZE, PREFIX_RELEASE "%s", claim_id);
}

struct meta {
	const char *cluster;
	const char *node_id;
	bool is_found;
	bool is_same;
	char found[256];
};

static bool on_meta(const struct kv_item *item, void *userdata)
{
	Holdfast__V1__JournalMeta *pb;
	struct meta *meta = userdata;

	if (!str_eq(item->key, KEY_META))
		return true;
	meta->is_found = true;
	pb = holdfast__v1__journal_meta__unpack(NULL, item->len, item->value);
	if (!pb)
		return false;
	meta->is_same = str_eq(pb->cluster, meta->cluster) && str_eq(pb->node_id, meta->node_id);
	(void)str_format(meta->found, sizeof(meta->found), "node %.100s of cluster %.100s", pb->node_id,
			 pb->cluster);
	protobuf_c_message_free_unpacked(&pb->base, NULL);
	return false;
}

static enum status write_meta(struct journal *journal, char *cluster, char *node_id, struct error *err)
{
	Holdfast__V1__JournalMeta pb = HOLDFAST__V1__JOURNAL_META__INIT;
	uint8_t bytes[512];
	struct kv_op op = {.key = KEY_META, .value = bytes};
	const struct kv_txn txn = {.ops = &op, .n_ops = 1};

	pb.cluster = cluster;
	pb.node_id = node_id;
	if (holdfast__v1__journal_meta__get_packed_size(&pb) > sizeof(bytes))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "the names of cluster and node are too long");
	op.len = holdfast__v1__journal_meta__pack(&pb, bytes);
	return kv_submit(journal->kv, &txn, NULL, NULL, err);
}

/* Is it this node's journal? A fresh one becomes it. */
static enum status check_owner(struct journal *journal, const char *path, const char *cluster,
			       const char *node_id, struct error *err)
{
	struct meta meta = {.cluster = cluster, .node_id = node_id};
	cleanup_free char *cluster_copy = strdup(cluster);
	cleanup_free char *node_copy = strdup(node_id);

	if (!cluster_copy || !node_copy)
		return error_no_memory(err, "the journal");
	TRY(kv_range(journal->kv, KEY_META, on_meta, &meta, err));
	if (!meta.is_found)
		return write_meta(journal, cluster_copy, node_copy, err);
	if (meta.is_same)
		return STATUS_OK;
	return error_set(
		err, STATUS_FAILED_PRECONDITION, 0,
		"%s is the journal of %s, this agent is node %s of cluster %s: set data_dir, node_id and "
		"cluster right, or move the file away on a node without mounts",
		path, meta.found, node_id, cluster);
}

static bool on_item_there(const struct kv_item *item, void *userdata)
{
	*(bool *)userdata = true;
	return false;
}

static bool on_mark(const struct kv_item *item, void *userdata)
{
	struct journal *journal = userdata;

	journal->mark = holdfast__v1__mark__unpack(NULL, item->len, item->value);
	return false;
}

/* Without it a server that has lost history would not be found out by this node. */
static enum status read_mark(struct journal *journal, const char *path, struct error *err)
{
	bool is_there = false;
	enum status status = kv_range(journal->kv, KEY_MARK, on_item_there, &is_there, err);

	if (status == STATUS_OK && is_there)
		status = kv_range(journal->kv, KEY_MARK, on_mark, journal, err);
	if (status != STATUS_OK || !is_there || journal->mark)
		return status;
	return error_set(err, STATUS_DATA_LOSS, 0, "%s: the record " KEY_MARK " cannot be read", path);
}

/* A mark of another store counts when its epoch is higher: that store has taken over. */
static bool is_higher(const Holdfast__V1__Mark *mark, const Holdfast__V1__Mark *than)
{
	if (!than || mark->epoch != than->epoch)
		return !than || mark->epoch > than->epoch;
	return str_eq(mark->store_id, than->store_id) && mark->index > than->index;
}

const Holdfast__V1__Mark *journal_mark(const struct journal *journal)
{
	return journal->mark;
}

bool journal_note_mark(struct journal *journal, const Holdfast__V1__Mark *mark)
{
	uint8_t bytes[MARK_BYTES_MAX];
	Holdfast__V1__Mark *copy;

	if (!mark || !id_is_uuid(mark->store_id) || !is_higher(mark, journal->mark) ||
	    holdfast__v1__mark__get_packed_size(mark) > sizeof(bytes))
		return journal->is_mark_unwritten;
	copy = holdfast__v1__mark__unpack(NULL, holdfast__v1__mark__pack(mark, bytes), bytes);
	if (!copy)
		return journal->is_mark_unwritten;
	holdfast__v1__mark__free_unpacked(journal->mark, NULL);
	journal->mark = copy;
	journal->is_mark_unwritten = true;
	return true;
}

static const char *log_path(const struct journal *journal, char ret[static LOG_PATH_SIZE])
{
	(void)str_format(ret, LOG_PATH_SIZE, "%s-wal", journal->path);
	return ret;
}

static enum status open_store(struct journal *journal, struct error *err)
{
	char log[LOG_PATH_SIZE];

	TRY(kv_open_sqlite(journal->event, journal->path, &journal->kv, err));
	if (journal->disk)
		journal_disk_hold(journal->disk, log_path(journal, log));
	return STATUS_OK;
}

enum status journal_open(sd_event *event, const struct journal_options *options, struct journal **ret,
			 struct error *err)
{
	cleanup(journal_closep) struct journal *journal = calloc(1, sizeof(*journal));

	if (!journal)
		return error_no_memory(err, "the journal");
	STAILQ_INIT(&journal->in_flight);
	journal->event = event;
	journal->disk = options->disk;
	if (str_format(journal->path, sizeof(journal->path), "%s/" JOURNAL_FILE, options->data_dir) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "data_dir is too long");
	TRY(open_store(journal, err));
	TRY(check_owner(journal, journal->path, options->cluster, options->node_id, err));
	TRY(read_mark(journal, journal->path, err));
	*ret = TAKE_PTR(journal);
	return STATUS_OK;
}

void journal_close(struct journal *journal)
{
	struct pending *pending;

	if (!journal)
		return;
	wakeup_disarm(&journal->retry);
	kv_close(journal->kv);
	holdfast__v1__mark__free_unpacked(journal->mark, NULL);
	while ((pending = STAILQ_FIRST(&journal->in_flight))) {
		STAILQ_REMOVE_HEAD(&journal->in_flight, entry);
		pending_free(pending);
	}
	free(journal);
}

struct reading {
	const struct journal_reader *reader;
	void *userdata;
	struct error *err;
	enum status status;
};

static bool on_alloc_item(const struct kv_item *item, void *userdata)
{
	struct reading *reading = userdata;
	struct alloc_record *record;

	reading->status = alloc_record_unpack(item->value, item->len, &record, reading->err);
	if (reading->status == STATUS_OK)
		reading->status = reading->reader->on_alloc(record, reading->userdata, reading->err);
	return reading->status == STATUS_OK;
}

static enum status parse_receipt(const Holdfast__V1__ClaimReceipt *pb, struct receipt *ret)
{
	*ret = (struct receipt){
		.generation = pb->generation,
		.is_released = pb->what_case == HOLDFAST__V1__CLAIM_RECEIPT__WHAT_RELEASED,
		.is_without_plugin = pb->without_plugin,
	};
	str_copy_text(ret->kernel, sizeof(ret->kernel), pb->kernel);
	if (!id_is_uuid(pb->claim_id) || str_copy(ret->claim_id, sizeof(ret->claim_id), pb->claim_id) < 0 ||
	    str_copy(ret->boot_id, sizeof(ret->boot_id), pb->boot_id) < 0)
		return STATUS_DATA_LOSS;
	return STATUS_OK;
}

static bool on_receipt_item(const struct kv_item *item, void *userdata)
{
	Holdfast__V1__ClaimReceipt *pb = holdfast__v1__claim_receipt__unpack(NULL, item->len, item->value);
	struct reading *reading = userdata;
	struct receipt receipt;

	reading->status = pb ? parse_receipt(pb, &receipt) : STATUS_DATA_LOSS;
	if (pb)
		protobuf_c_message_free_unpacked(&pb->base, NULL);
	if (reading->status == STATUS_OK)
		reading->status = reading->reader->on_receipt(&receipt, reading->userdata, reading->err);
	else
		(void)error_set(reading->err, STATUS_DATA_LOSS, 0, "the journal's record %s is damaged",
				item->key);
	return reading->status == STATUS_OK;
}

static bool on_plugin_item(const struct kv_item *item, void *userdata)
{
	Holdfast__V1__JournalPlugin *pb = holdfast__v1__journal_plugin__unpack(NULL, item->len, item->value);
	struct reading *reading = userdata;
	struct node_plugin plugin = {0};

	bool is_whole = pb && pb->plugin && node_plugin_from_pb(pb->plugin, &plugin, NULL) == STATUS_OK;

	if (pb)
		protobuf_c_message_free_unpacked(&pb->base, NULL);
	if (is_whole)
		reading->status = reading->reader->on_plugin(&plugin, reading->userdata, reading->err);
	else /* the plugin is asked again */
		log_ctx(LOG_WARNING, &(struct log_ctx){.op = "plugin"},
			"the journal's record %s is damaged, ignoring", item->key);
	return reading->status == STATUS_OK;
}

static bool on_note_item(const struct kv_item *item, void *userdata)
{
	Holdfast__V1__JournalRelease *pb =
		holdfast__v1__journal_release__unpack(NULL, item->len, item->value);
	struct reading *reading = userdata;
	struct release_note note = {0};
	bool is_whole = pb && id_is_uuid(pb->claim_id) && id_is_uuid(pb->boot_id) &&
			id_is_uuid(pb->alloc_id) && id_is_label(pb->wire_volume) &&
			(unsigned int)pb->source_class < SOURCE_CLASS_N;

	if (is_whole) {
		note.target.source.class = (enum source_class)pb->source_class;
		note.target.dev_major = pb->dev_major;
		note.target.dev_minor = pb->dev_minor;
		note.target.is_host_device = pb->is_host_device;
		note.target.is_nfs_listed = pb->is_nfs_listed;
		memcpy(note.claim_id, pb->claim_id, sizeof(note.claim_id));
		memcpy(note.boot_id, pb->boot_id, sizeof(note.boot_id));
		memcpy(note.target.alloc_id, pb->alloc_id, sizeof(note.target.alloc_id));
		(void)str_copy(note.target.wire_volume, sizeof(note.target.wire_volume), pb->wire_volume);
		note.generation = pb->generation;
	}
	if (pb)
		protobuf_c_message_free_unpacked(&pb->base, NULL);
	reading->status = is_whole ? reading->reader->on_note(&note, reading->userdata, reading->err)
				   : error_set(reading->err, STATUS_DATA_LOSS, 0,
					       "the journal's record %s is damaged", item->key);
	return reading->status == STATUS_OK;
}

enum status journal_read(struct journal *journal, const struct journal_reader *reader, void *userdata,
			 struct error *err)
{
	struct reading reading = {.reader = reader, .userdata = userdata, .err = err, .status = STATUS_OK};
	const struct {
		bool is_wanted;
		const char *prefix;
		kv_each_fn *on_item;
	} parts[] = {
		{reader->on_alloc != NULL, PREFIX_ALLOC, on_alloc_item},
		{reader->on_receipt != NULL, PREFIX_RECEIPT, on_receipt_item},
		{reader->on_plugin != NULL, PREFIX_PLUGIN, on_plugin_item},
		{reader->on_note != NULL, PREFIX_RELEASE, on_note_item},
	};
	enum status status = STATUS_OK;

	for (size_t i = 0; i < ARRAY_SIZE(parts) && status == STATUS_OK && reading.status == STATUS_OK; i++) {
		if (parts[i].is_wanted)
			status = kv_range(journal->kv, parts[i].prefix, parts[i].on_item, &reading, err);
	}
	return status != STATUS_OK ? status : reading.status;
}

static struct kv_op *batch_add(struct batch *batch)
{
	struct kv_op *op = &batch->ops[batch->n];

	op->key = batch->keys[batch->n++];
	return op;
}

static enum status batch_put_alloc(struct batch *batch, struct alloc_record *record, struct error *err)
{
	size_t n = 0;
	struct kv_op *op;

	TRY(alloc_record_pack(record, &batch->alloc_bytes, &n, err));
	alloc_key(batch->keys[batch->n], record->alloc.id);
	op = batch_add(batch);
	op->value = batch->alloc_bytes;
	op->len = n;
	return STATUS_OK;
}

static void batch_put_receipt(struct batch *batch, const struct receipt *receipt)
{
	Holdfast__V1__ClaimReceipt pb = HOLDFAST__V1__CLAIM_RECEIPT__INIT;
	struct receipt copy = *receipt;
	struct kv_op *op;

	pb.claim_id = copy.claim_id;
	pb.boot_id = copy.boot_id;
	pb.generation = copy.generation;
	if (copy.is_released) {
		pb.what_case = HOLDFAST__V1__CLAIM_RECEIPT__WHAT_RELEASED;
		pb.released = true;
	} else {
		pb.what_case = HOLDFAST__V1__CLAIM_RECEIPT__WHAT_MOUNTED;
		pb.mounted = true;
	}
	pb.without_plugin = copy.is_without_plugin;
	pb.kernel = copy.kernel;
	receipt_key(batch->keys[batch->n], receipt);
	op = batch_add(batch);
	op->value = batch->receipt_bytes;
	op->len = holdfast__v1__claim_receipt__pack(&pb,
						    batch->receipt_bytes); /* ids, numbers, one short text */
}

static void batch_put_note(struct batch *batch, const struct release_note *note)
{
	Holdfast__V1__JournalRelease pb = HOLDFAST__V1__JOURNAL_RELEASE__INIT;
	struct release_note copy = *note;
	struct kv_op *op;

	pb.claim_id = copy.claim_id;
	pb.boot_id = copy.boot_id;
	pb.alloc_id = copy.target.alloc_id;
	pb.wire_volume = copy.target.wire_volume;
	pb.generation = copy.generation;
	pb.source_class = (Holdfast__V1__SourceClass)copy.target.source.class;
	pb.dev_major = copy.target.dev_major;
	pb.dev_minor = copy.target.dev_minor;
	pb.is_host_device = copy.target.is_host_device;
	pb.is_nfs_listed = copy.target.is_nfs_listed;
	note_key(batch->keys[batch->n], copy.claim_id);
	op = batch_add(batch);
	op->value = batch->note_bytes;
	op->len = holdfast__v1__journal_release__pack(&pb, batch->note_bytes);
}

static enum status batch_put_plugin(struct batch *batch, const struct node_plugin *plugin, struct error *err)
{
	Holdfast__V1__JournalPlugin pb = HOLDFAST__V1__JOURNAL_PLUGIN__INIT;
	struct kv_op *op;

	pb.plugin = node_plugin_to_pb(plugin);
	if (pb.plugin)
		batch->plugin_bytes = malloc(holdfast__v1__journal_plugin__get_packed_size(&pb) + 1);
	if (!batch->plugin_bytes) {
		protobuf_c_message_free_unpacked((ProtobufCMessage *)pb.plugin, NULL);
		return error_no_memory(err, "the journal");
	}
	plugin_key(batch->keys[batch->n], plugin->plugin_id);
	op = batch_add(batch);
	op->value = batch->plugin_bytes;
	op->len = holdfast__v1__journal_plugin__pack(&pb, batch->plugin_bytes);
	protobuf_c_message_free_unpacked(&pb.plugin->base, NULL);
	return STATUS_OK;
}

static void batch_put_mark(struct batch *batch, const Holdfast__V1__Mark *mark)
{
	struct kv_op *op;

	(void)str_copy(batch->keys[batch->n], KEY_SIZE, KEY_MARK);
	op = batch_add(batch);
	op->value = batch->mark_bytes;
	op->len = holdfast__v1__mark__pack(mark, batch->mark_bytes);
}

static enum status batch_fill(struct batch *batch, const struct journal_write *write, struct error *err)
{
	if (write->alloc)
		TRY(batch_put_alloc(batch, write->alloc, err));
	if (write->forget_alloc) {
		alloc_key(batch->keys[batch->n], write->forget_alloc);
		(void)batch_add(batch);
	}
	if (write->receipt)
		batch_put_receipt(batch, write->receipt);
	if (write->drop_receipt) {
		receipt_key(batch->keys[batch->n], write->drop_receipt);
		(void)batch_add(batch);
	}
	if (write->forget_plugin) {
		plugin_key(batch->keys[batch->n], write->forget_plugin);
		(void)batch_add(batch);
	}
	if (write->note)
		batch_put_note(batch, write->note);
	if (write->forget_note) {
		note_key(batch->keys[batch->n], write->forget_note);
		(void)batch_add(batch);
	}
	if (write->plugin)
		return batch_put_plugin(batch, write->plugin, err);
	return STATUS_OK;
}

/* --- writes --- */

static int on_retry(sd_event_source *source, uint64_t usec, void *userdata);

static bool waits_for_room(const struct journal *journal)
{
	return journal->retry != NULL;
}

static bool wait_for_room(struct journal *journal, uint64_t delay_us)
{
	return wakeup_arm(journal->event, &journal->retry, delay_us, on_retry, journal, NULL) == STATUS_OK;
}

static void complete(struct pending *pending, const struct error *err)
{
	struct journal *journal = pending->journal;
	journal_done_fn *done = pending->done;
	void *userdata = pending->userdata;

	STAILQ_REMOVE(&journal->in_flight, pending, pending, entry);
	pending_free(pending);
	if (done)
		done(err, userdata);
}

/* After the first failure the store fails all that follows: it is opened again, and they are submitted again
 * in their order. */
static void on_written(uint64_t revision, const struct error *err, void *userdata)
{
	struct pending *pending = userdata;
	struct journal *journal = pending->journal;

	if (err && waits_for_room(journal))
		return;
	if (err && journal->disk && journal_disk_is_reason(journal->disk) && wait_for_room(journal, 0))
		return;
	complete(pending, err);
}

static enum status submit(struct journal *journal, struct pending *pending, struct error *err)
{
	const struct kv_txn txn = {.ops = pending->batch.ops, .n_ops = pending->batch.n, .is_relaxed = true};

	if (pending->is_barrier)
		return kv_barrier(journal->kv, on_written, pending, err);
	return kv_submit(journal->kv, &txn, on_written, pending, err);
}

/* The closed store left writes in its log; the next barrier would not know of them. */
static void sync_log(const struct journal *journal)
{
	char path[LOG_PATH_SIZE];
	cleanup_close int fd = open(log_path(journal, path), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd >= 0)
		(void)fdatasync(fd); /* the store reports what its own writes meet */
}

static enum status open_again(struct journal *journal, struct error *err)
{
	struct pending *pending;

	sync_log(journal);
	TRY(open_store(journal, err));
	STAILQ_FOREACH(pending, &journal->in_flight, entry)
	TRY(submit(journal, pending, err));
	return STATUS_OK;
}

static int on_retry(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct journal *journal = userdata;
	struct error err;

	wakeup_disarm(&journal->retry);
	kv_close(journal->kv); /* nothing is open: people may unmount and repair the file system */
	journal->kv = NULL;
	if (!journal_disk_takes_writes(journal->disk)) {
		(void)journal_disk_is_reason(journal->disk);
		if (wait_for_room(journal, USEC_PER_SEC))
			return 0;
	}
	if (open_again(journal, &err) == STATUS_OK)
		return 0;
	if (journal_disk_is_reason(journal->disk) && wait_for_room(journal, USEC_PER_SEC))
		return 0;
	kv_close(journal->kv);
	journal->kv = NULL;
	while (!STAILQ_EMPTY(&journal->in_flight))
		complete(STAILQ_FIRST(&journal->in_flight), &err);
	return 0;
}

static enum status take(struct journal *journal, struct pending **pending, struct error *err)
{
	struct pending *taken = *pending;

	taken->journal = journal;
	if (!waits_for_room(journal) && !journal->kv)
		return error_set(err, STATUS_UNAVAILABLE, 0, "the journal is closed");
	if (!waits_for_room(journal))
		TRY(submit(journal, taken, err));
	STAILQ_INSERT_TAIL(&journal->in_flight, taken, entry);
	*pending = NULL;
	return STATUS_OK;
}

enum status journal_write(struct journal *journal, const struct journal_write *write, journal_done_fn *done,
			  void *userdata, struct error *err)
{
	cleanup(pending_freep) struct pending *pending = calloc(1, sizeof(*pending));

	if (!pending)
		return error_no_memory(err, "the journal");
	TRY(batch_fill(&pending->batch, write, err));
	if (journal->is_mark_unwritten)
		batch_put_mark(&pending->batch, journal->mark);
	pending->done = done;
	pending->userdata = userdata;
	TRY(take(journal, &pending, err));
	journal->is_mark_unwritten = false; /* a write that fails for good is the journal's end */
	return STATUS_OK;
}

enum status journal_sync(struct journal *journal, struct error *err)
{
	cleanup(pending_freep) struct pending *pending = calloc(1, sizeof(*pending));

	if (!pending)
		return error_no_memory(err, "the journal");
	pending->is_barrier = true;
	return take(journal, &pending, err);
}

size_t journal_waiting(const struct journal *journal)
{
	const struct pending *pending;
	size_t n = 0;

	STAILQ_FOREACH(pending, &journal->in_flight, entry)
	n += waits_for_room(journal);
	return n;
}

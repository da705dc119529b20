/* SPDX-License-Identifier: Apache-2.0 */
#include "records.h"
#include "same_alloc.h"
#include "temp_dir.h"
#include "unit_loop.h"

#include "alloc/journal.h"
#include "base/fd.h"
#include "model/pb.h"
#include "store/kv.h"

#include <dirent.h>
#include <holdfast/v1/journal.pb-c.h>
#include <limits.h>

struct fixture {
	char dir[TEMP_DIR_SIZE];
	sd_event *event;
	struct journal_disk *disk; /* NULL: none */
	struct journal *journal;
	unsigned int written;
	struct alloc_record *record; /* the last one read */
	unsigned int n_allocs;
	struct receipt receipts[4];
	unsigned int n_receipts;
	struct node_plugin plugin; /* the last one read */
	unsigned int n_plugins;
	struct release_note note; /* the last one read */
	unsigned int n_notes;
};

static enum status open_as(struct fixture *f, const char *cluster, const char *node_id, struct journal **ret,
			   struct error *err)
{
	const struct journal_options options = {
		.data_dir = f->dir, .cluster = cluster, .node_id = node_id, .disk = f->disk};

	return journal_open(f->event, &options, ret, err);
}

static void open_journal(struct fixture *f)
{
	struct error err;

	assert_succeeds(open_as(f, "c", "n1", &f->journal, &err), err);
}

UNIT_SETUP(setup, struct fixture, f)
{
	temp_dir_make(f->dir);
	assert_true(sd_event_new(&f->event) >= 0);
	open_journal(f);
}

UNIT_TEARDOWN(teardown, struct fixture, f)
{
	journal_close(f->journal);
	sd_event_unref(f->event);
	temp_dir_remove(f->dir);
	free(f->record);
}

static void on_written(const struct error *err, void *userdata)
{
	struct fixture *f = userdata;

	assert_null(err);
	f->written++;
}

static void write_now(struct fixture *f, const struct journal_write *write)
{
	unsigned int before = f->written;
	struct error err;

	assert_int_equal(journal_write(f->journal, write, on_written, f, &err), STATUS_OK);
	assert_int_equal(f->written, before);
	RUN_UNTIL(f->event, f->written != before);
}

static enum status on_alloc(struct alloc_record *record, void *userdata, struct error *err)
{
	struct fixture *f = userdata;

	free(f->record);
	f->record = record;
	f->n_allocs++;
	return STATUS_OK;
}

static enum status on_receipt(const struct receipt *receipt, void *userdata, struct error *err)
{
	struct fixture *f = userdata;

	f->receipts[f->n_receipts++] = *receipt;
	return STATUS_OK;
}

static enum status on_note(const struct release_note *note, void *userdata, struct error *err)
{
	struct fixture *f = userdata;

	f->note = *note;
	f->n_notes++;
	return STATUS_OK;
}

/* Close, open again, and read. */
static void read_again(struct fixture *f)
{
	static const struct journal_reader reader = {
		.on_alloc = on_alloc,
		.on_receipt = on_receipt,
		.on_note = on_note,
	};
	struct error err;

	journal_close(f->journal);
	f->journal = NULL;
	open_journal(f);
	f->n_allocs = f->n_receipts = f->n_notes = 0;
	assert_succeeds(journal_read(f->journal, &reader, f, &err), err);
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup, teardown)

CASE(a_record_comes_back_as_it_was_in_every_phase)
{
	for (enum alloc_phase phase = 0; phase < ALLOC_PHASE_N; phase++) {
		struct alloc_record *record = records_make(3);
		uint32_t n = phase == ALLOC_NEW || phase == ALLOC_CLAIMING ? 0 : 3;

		record->alloc.volumes[1].read_only = true;
		record->alloc.volumes[2].exec = true;
		record->alloc.volumes[2].propagation = PROPAGATION_BIDIRECTIONAL;
		records_drive(record, phase, phase == ALLOC_MOUNTING ? 2 : n, n);
		write_now(f, &(struct journal_write){.alloc = record});
		read_again(f);
		assert_int_equal(f->n_allocs, 1);
		assert_true(is_same_alloc(&f->record->alloc, &record->alloc));
		assert_int_equal(f->record->phase, record->phase);
		assert_int_equal(f->record->final_status, record->final_status);
		assert_string_equal(f->record->boot_id, BOOT_ID);
		for (uint32_t i = 0; i < 3; i++) {
			record->volumes[i].is_granted_now = false; /* of the run, not of the record */
			assert_memory_equal(&f->record->volumes[i], &record->volumes[i],
					    sizeof(record->volumes[i]));
		}
		free(record);
	}
}

CASE(unit_state_is_read_back_from_the_journal)
{
	static char unit[] = "db@1.service";

	for (int task = TASK_RECORD_NONE; task < TASK_RECORD_EXITED; task++) {
		struct alloc alloc = records_alloc(ALLOC_ID, 1);
		struct alloc_record *record;

		(void)str_copy(alloc.driver, sizeof(alloc.driver), DRIVER_SYSTEMD);
		alloc.unit = unit;
		alloc.stop_timeout_ms = 90000;
		assert_int_equal(alloc_record_new(&alloc, BOOT_ID, &record, NULL), STATUS_OK);
		record->task.state = (enum task_record_state)task;
		if (task != TASK_RECORD_NONE)
			(void)str_copy(record->task.invocation, sizeof(record->task.invocation),
				       "0123456789abcdef0123456789abcdef");
		write_now(f, &(struct journal_write){.alloc = record});
		read_again(f);
		assert_true(is_same_alloc(&f->record->alloc, &record->alloc));
		assert_string_equal(alloc_unit(&f->record->alloc), unit);
		assert_int_equal(f->record->task.state, task);
		assert_string_equal(f->record->task.invocation, record->task.invocation);
		free(record);
	}
}

TEST_FIXTURE(a_unit_that_cannot_have_been_journalled_is_damage, setup, teardown)
{
	static const struct {
		const char *unit;
		int task; /* negative: none */
		const char *invocation;
	} rows[] = {
		{"", TASK_RECORD_RUNNING, ""},
		{"a/b.service", -1, ""},
		{"db.service", TASK_RECORD_EXITED, ""},
		{"db.service", TASK_RECORD_RUNNING, "0123456789abcdef0123456789abcdef0"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		Holdfast__V1__JournalAlloc pb = HOLDFAST__V1__JOURNAL_ALLOC__INIT;
		Holdfast__V1__JournalTask task = HOLDFAST__V1__JOURNAL_TASK__INIT;
		struct alloc alloc = records_alloc(ALLOC_ID, 0);
		struct alloc_record *record = NULL;
		char unit[64], invocation[64];
		uint8_t bytes[1024];

		(void)str_copy(unit, sizeof(unit), rows[i].unit);
		(void)str_copy(invocation, sizeof(invocation), rows[i].invocation);
		alloc.unit = unit;
		pb.allocation = alloc_to_pb(&alloc);
		pb.boot_id = (char[]){BOOT_ID};
		task.state = (Holdfast__V1__JournalTaskState)rows[i].task;
		task.invocation_id = invocation;
		pb.task = rows[i].task >= 0 ? &task : NULL;
		assert_int_equal(alloc_record_unpack(bytes, holdfast__v1__journal_alloc__pack(&pb, bytes),
						     &record, NULL),
				 STATUS_DATA_LOSS);
		protobuf_c_message_free_unpacked(&pb.allocation->base, NULL);
	}
}

/* Everything that lies in the journal's folder. */
static bool folder_holds(const char *dir, const char *text)
{
	DIR *folder = NON_NULL(opendir(dir));
	const struct dirent *entry;
	bool holds = false;

	while (!holds && (entry = readdir(folder))) {
		char path[TEMP_PATH_SIZE], *bytes = NULL;
		size_t n = 0;

		(void)temp_dir_path(path, dir, entry->d_name);
		if (file_read(path, 1 << 26, &bytes, &n) == 0)
			holds = memmem(bytes, n, text, strlen(text)) != NULL;
		free(bytes);
	}
	(void)closedir(folder);
	return holds;
}

CASE(a_csi_volume_comes_back_without_its_secrets)
{
	struct alloc_record *record = records_make(2);

	record->alloc.volumes[1].read_only = true;
	for (uint32_t i = 0; i < 2; i++) {
		struct claim_grant grant = records_csi_grant(record, i);
		struct volume_mounted mounted = records_mounted(i);

		(void)alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_CLAIM});
		grant.claim.mode = i == 1 ? CLAIM_READ : CLAIM_WRITE;
		grant.claim.attachment_mode = i == 1 ? ATTACHMENT_BLOCK_DEVICE : ATTACHMENT_FILE_SYSTEM;
		assert_true(alloc_step(
			record,
			&(struct alloc_event){.type = ALLOC_EVENT_CLAIMED, .volume = i, .grant = &grant}));
		write_now(f, &(struct journal_write){.alloc = record});
		if (i == 1) {
			mounted.is_device = true;
			mounted.is_host_device = true;
			assert_true(alloc_step(record, &(struct alloc_event){.type = ALLOC_EVENT_MOUNTED,
									     .volume = i,
									     .mounted = &mounted}));
			write_now(f, &(struct journal_write){.alloc = record});
		}
		secret_message_unref(grant.details);
	}
	read_again(f);
	for (uint32_t i = 0; i < 2; i++) {
		struct volume_record wanted = record->volumes[i];

		assert_int_equal(wanted.target.details != NULL, i == 0);
		wanted.target.details = NULL;
		wanted.is_granted_now = false;
		assert_memory_equal(&f->record->volumes[i], &wanted, sizeof(wanted));
	}
	assert_true(f->record->alloc.published[1].is_device);
	assert_true(f->record->volumes[1].target.is_host_device);
	assert_true(folder_holds(f->dir, "share#vol/1"));
	assert_false(folder_holds(f->dir, "records-secret"));
	alloc_record_free(record);
}

TEST(a_csi_volume_that_cannot_be_ours_is_refused)
{
	static const struct {
		const char *profile, *external;
		int type, access, attachment;
		bool is_good;
	} rows[] = {
		{"csi.plug", "x", VOLUME_CSI, 1, 1, true},
		{"csi.plug", "x", VOLUME_CSI, ACCESS_MODE_N - 1, ATTACHMENT_MODE_N - 1, true},
		{"csi.plug", "x", VOLUME_CSI, ACCESS_MODE_N, 1, false},
		{"csi.plug", "x", VOLUME_CSI, 1, ATTACHMENT_MODE_N, false},
		{"csi.plug", "x", VOLUME_CSI, -1, 1, false},
		{"csi.plug", "", VOLUME_CSI, 1, 1, false},
		{"", "x", VOLUME_CSI, 1, 1, false},
		{"../up", "x", VOLUME_CSI, 1, 1, false},
		{"csi.plug", "x", VOLUME_TYPE_N, 1, 1, false},
		{"", "", VOLUME_TYPE_UNSPECIFIED, 0, 0, false},
		{"", "", VOLUME_NATIVE, 0, 0, true},
	};
	struct alloc_record *record = records_make(1);
	uint8_t *bytes, *other;
	size_t n;

	records_drive(record, ALLOC_RUNNING, 1, 1);
	assert_int_equal(alloc_record_pack(record, &bytes, &n, NULL), STATUS_OK);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		Holdfast__V1__JournalAlloc *pb = holdfast__v1__journal_alloc__unpack(NULL, n, bytes);
		Holdfast__V1__JournalVolume *volume = pb->volumes[0];
		struct alloc_record *got = NULL;
		size_t n_other;

		volume->type = (Holdfast__V1__VolumeType)rows[i].type;
		volume->access_mode = (Holdfast__V1__AccessMode)rows[i].access;
		volume->attachment_mode = (Holdfast__V1__AttachmentMode)rows[i].attachment;
		free(volume->profile); /* it has one */
		volume->profile = strdup(rows[i].profile);
		volume->external_id = strdup(rows[i].external);
		n_other = holdfast__v1__journal_alloc__get_packed_size(pb);
		other = malloc(n_other);
		(void)holdfast__v1__journal_alloc__pack(pb, other);
		holdfast__v1__journal_alloc__free_unpacked(pb, NULL);
		assert_int_equal(alloc_record_unpack(other, n_other, &got, NULL),
				 rows[i].is_good ? STATUS_OK : STATUS_DATA_LOSS);
		free(got);
		free(other);
	}
	free(bytes);
	free(record);
}

CASE(receipts_come_back_until_they_are_dropped)
{
	struct receipt mounted = {.claim_id = "0190a5a0-0000-7000-8000-00000000c100",
				  .boot_id = BOOT_ID,
				  .generation = UINT64_MAX};
	struct receipt released = mounted;
	struct alloc_record *record = records_make(1);

	released.is_released = true;
	released.is_without_plugin = true;
	(void)str_copy(released.kernel, sizeof(released.kernel), "nothing is mounted");
	write_now(f, &(struct journal_write){.alloc = record, .receipt = &mounted});
	write_now(f, &(struct journal_write){.receipt = &released});
	read_again(f);
	assert_int_equal(f->n_allocs, 1);
	assert_int_equal(f->n_receipts, 2);
	assert_memory_equal(&f->receipts[0], &mounted, sizeof(mounted));
	assert_memory_equal(&f->receipts[1], &released, sizeof(released));
	write_now(f, &(struct journal_write){.drop_receipt = &mounted, .forget_alloc = ALLOC_ID});
	read_again(f);
	assert_int_equal(f->n_allocs, 0);
	assert_int_equal(f->n_receipts, 1);
	assert_true(f->receipts[0].is_released);
	free(record);
}

CASE(the_journal_of_another_node_is_refused)
{
	struct journal *other;
	struct error err;

	journal_close(f->journal);
	f->journal = NULL;
	assert_error(open_as(f, "c", "n2", &other, &err), STATUS_FAILED_PRECONDITION, err,
		     "node n1 of cluster c");
	assert_int_equal(open_as(f, "d", "n1", &other, &err), STATUS_FAILED_PRECONDITION);
	open_journal(f);
}

/* Cut at every length, and every byte changed: read back or refused, never half. */
TEST(a_damaged_record_is_refused_or_whole)
{
	struct alloc_record *record = records_make(2);
	struct alloc_record *got = NULL;
	uint8_t *bytes;
	size_t n;
	struct error err;

	records_drive(record, ALLOC_RUNNING, 2, 2);
	assert_int_equal(alloc_record_pack(record, &bytes, &n, &err), STATUS_OK);
	for (size_t i = 0; i < n; i++) {
		enum status status = alloc_record_unpack(bytes, i, &got, &err);

		if (status == STATUS_OK) {
			/* a cut between fields: what remains must be consistent */
			assert_true(got->phase < ALLOC_PHASE_N);
			free(got);
			continue;
		}
		assert_int_equal(status, STATUS_DATA_LOSS);
	}
	for (size_t i = 0; i < n; i++) {
		bytes[i] ^= 0xff;
		if (alloc_record_unpack(bytes, n, &got, &err) == STATUS_OK)
			free(got);
		bytes[i] ^= 0xff;
	}
	free(bytes);
	free(record);
}

TEST(receipts_are_kept_in_order_and_bounded)
{
	struct receipts *receipts = receipts_new();
	const struct receipt *next = NULL;
	struct receipt receipt = {.boot_id = BOOT_ID};
	struct error err;
	size_t n = 0;

	for (unsigned int i = 0; i < RECEIPTS_MAX; i++) {
		(void)str_format(receipt.claim_id, sizeof(receipt.claim_id), "%08u", i / 2);
		receipt.is_released = i % 2 == 0;
		assert_int_equal(receipts_add(receipts, &receipt, &err), STATUS_OK);
	}
	assert_int_equal(receipts_add(receipts, &receipt, &err), STATUS_OK); /* the same word again */
	(void)str_copy(receipt.claim_id, sizeof(receipt.claim_id), "x");
	assert_int_equal(receipts_add(receipts, &receipt, &err), STATUS_RESOURCE_EXHAUSTED);
	while ((next = receipts_next(receipts, next))) {
		char expected[UUID_TEXT_SIZE];

		(void)str_format(expected, sizeof(expected), "%08zu", n / 2);
		assert_string_equal(next->claim_id, expected);
		assert_int_equal(next->is_released, n % 2 == 1);
		n++;
	}
	assert_int_equal(n, RECEIPTS_MAX);
	assert_non_null(receipts_find(receipts, "00000007", true));
	assert_true(receipts_remove(receipts, "00000007", true));
	assert_false(receipts_remove(receipts, "00000007", true));
	assert_non_null(receipts_find(receipts, "00000007", false));
	assert_int_equal(receipts_count(receipts), RECEIPTS_MAX - 1);
	receipts_free(receipts);
}

CASE(the_device_of_a_release_is_read_back_and_dropped)
{
	struct release_note note = {
		.claim_id = BOOT_ID,
		.boot_id = BOOT_ID,
		.generation = UINT64_MAX,
		.target = {.alloc_id = BOOT_ID,
			   .source.class = SOURCE_CLASS_N - 1,
			   .dev_major = UINT32_MAX,
			   .dev_minor = UINT32_MAX,
			   .is_host_device = true,
			   .is_nfs_listed = true},
	};

	memset(note.target.wire_volume, 'a', WIRE_VOLUME_SIZE - 1);
	write_now(f, &(struct journal_write){.note = &note});
	read_again(f);
	assert_int_equal(f->n_notes, 1);
	assert_memory_equal(&f->note, &note, sizeof(note));
	write_now(f, &(struct journal_write){.forget_note = note.claim_id});
	read_again(f);
	assert_int_equal(f->n_notes, 0);
}

static enum status on_plugin(const struct node_plugin *plugin, void *userdata, struct error *err)
{
	struct fixture *f = userdata;

	f->plugin = *plugin;
	f->n_plugins++;
	return STATUS_OK;
}

static void read_plugins(struct fixture *f)
{
	static const struct journal_reader reader = {.on_plugin = on_plugin};

	f->n_plugins = 0;
	assert_int_equal(journal_read(f->journal, &reader, f, NULL), STATUS_OK);
}

CASE(plugin_facts_are_read_back_and_dropped)
{
	struct node_plugin plugin = {.has_node = true, .node = {.stage = true, .max_volumes = 9}};
	const struct journal_write put = {.plugin = &plugin};
	const struct journal_write drop = {.forget_plugin = plugin.plugin_id};

	/* the longest id there is */
	memset(plugin.plugin_id, 'a', 63);
	(void)str_copy(plugin.provider, sizeof(plugin.provider), "p");
	write_now(f, &put);
	plugin.node.max_volumes = 10;
	write_now(f, &put);
	journal_close(f->journal);
	open_journal(f);
	read_plugins(f);
	assert_int_equal(f->n_plugins, 1);
	assert_memory_equal(&f->plugin, &plugin, sizeof(plugin));
	write_now(f, &drop);
	read_plugins(f);
	assert_int_equal(f->n_plugins, 0);
}

/* The agent starts without it, and asks the plugin again. */
CASE(a_plugin_record_that_cannot_be_read_is_left_out)
{
	struct node_plugin bad = {.plugin_id = "bad",
				  .has_node = true,
				  .node.topology = {.segments = {{"zone", "eu-1\n"}}, .n_segments = 1}};
	struct node_plugin good = {.plugin_id = "good"};

	write_now(f, &(struct journal_write){.plugin = &bad});
	write_now(f, &(struct journal_write){.plugin = &good});
	read_plugins(f);
	assert_int_equal(f->n_plugins, 1);
	assert_string_equal(f->plugin.plugin_id, "good");
}

static Holdfast__V1__Mark make_mark(char *store_id, uint64_t epoch, uint64_t index)
{
	Holdfast__V1__Mark mark = V1(mark, .store_id = store_id, .epoch = epoch, .index = index, .nodes = 4);
	static uint8_t proof[] = {1, 2, 3};

	mark.proof = (ProtobufCBinaryData){.len = sizeof(proof), .data = proof};
	return mark;
}

static void assert_mark(const struct fixture *f, const char *store_id, uint64_t epoch, uint64_t index)
{
	const Holdfast__V1__Mark *mark = NON_NULL(journal_mark(f->journal));

	assert_string_equal(mark->store_id, store_id);
	assert_int_equal(mark->epoch, epoch);
	assert_int_equal(mark->index, index);
	assert_int_equal(mark->nodes, 4);
	assert_int_equal(mark->proof.len, 3);
}

CASE(the_highest_mark_is_durable_with_the_next_write)
{
	char a[] = "01890000-0000-7000-8000-00000000000a", b[] = "01890000-0000-7000-8000-00000000000b";
	char bad[] = "x";
	struct alloc_record *record = records_make(1);
	const struct {
		char *store_id;
		uint64_t epoch, index;
		bool is_higher;
	} shown[] = {
		{a, 1, 5, true}, {a, 1, 4, false},   {a, 1, 5, false}, {a, 0, 9, false}, {b, 1, 9, false},
		{a, 1, 6, true}, {bad, 9, 9, false}, {b, 2, 1, true},  {a, 1, 7, false},
	};

	assert_null(journal_mark(f->journal));
	assert_false(journal_note_mark(f->journal, NULL));
	for (size_t i = 0; i < ARRAY_SIZE(shown); i++) {
		Holdfast__V1__Mark mark = make_mark(shown[i].store_id, shown[i].epoch, shown[i].index);

		assert_int_equal(journal_note_mark(f->journal, &mark), shown[i].is_higher);
		if (!shown[i].is_higher)
			continue;
		assert_mark(f, shown[i].store_id, shown[i].epoch, shown[i].index);
		write_now(f, &(struct journal_write){.alloc = record});
		read_again(f);
		assert_mark(f, shown[i].store_id, shown[i].epoch, shown[i].index);
	}
	alloc_record_free(record);
}

/* Started without it, the agent would not find out a server that has lost history. */
CASE(a_mark_that_cannot_be_read_is_a_reason_not_to_start)
{
	const struct kv_op op = {.key = "mark", .value = (const uint8_t *)"\xff", .len = 1};
	const struct kv_txn txn = {.ops = &op, .n_ops = 1};
	char path[PATH_MAX];
	struct error err;
	struct kv *kv;

	journal_close(f->journal);
	f->journal = NULL;
	(void)str_format(path, sizeof(path), "%s/agent.db", f->dir);
	assert_int_equal(kv_open_sqlite(f->event, path, &kv, &err), STATUS_OK);
	assert_int_equal(kv_submit(kv, &txn, NULL, NULL, &err), STATUS_OK);
	kv_close(kv);
	assert_error(open_as(f, "c", "n1", &f->journal, &err), STATUS_DATA_LOSS, err,
		     "the record mark cannot be read");
}

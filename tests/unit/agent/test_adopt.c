/* SPDX-License-Identifier: Apache-2.0 */
#include "records.h"
#include "unit.h"

#include "alloc/adopt.h"

static const char *bound_at; /* a device, 8:bound_minor; NULL: nowhere */
static uint32_t bound_minor;
static bool is_no_device;

WRAPPED(enum status, mount_table_find, const struct mount_table *table, const char *path,
	struct mount_view *ret, struct error *err)
{
	if (!bound_at || strcmp(path, bound_at) != 0)
		return error_set(err, STATUS_NOT_FOUND, 0, "nothing is mounted at %s", path);
	*ret = (struct mount_view){.dev_minor = bound_minor};
	return STATUS_OK;
}

WRAPPED(enum status, device_of_mount, const struct mount_view *view, uint32_t *ret_major, uint32_t *ret_minor,
	struct error *err)
{
	if (is_no_device)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0, "it is a file");
	*ret_major = 8;
	*ret_minor = view->dev_minor;
	return STATUS_OK;
}

/* What the kernel shows of a volume. */
enum kernel_view {
	KERNEL_NOTHING,
	KERNEL_STAGED,
	KERNEL_PUBLISHED,
	KERNEL_OTHER_DEVICE,
	KERNEL_VIEW_N,
};

static void show(struct mount_snapshot *observed, uint32_t volume, enum kernel_view view)
{
	struct mh_list_entry staged = {.dev_minor = 100 + volume};
	struct mh_list_entry published = {
		.alloc = ALLOC_ID, .slot = (uint8_t)volume, .dev_minor = 100 + volume};
	struct error err;

	(void)snprintf(staged.volume, sizeof(staged.volume), "vol%u-0123456789abcdef", volume);
	if (view == KERNEL_NOTHING)
		return;
	assert_int_equal(mount_snapshot_add(observed, MH_LIST_STAGED, &staged, &err), STATUS_OK);
	if (view == KERNEL_OTHER_DEVICE)
		published.dev_minor = 7;
	if (view != KERNEL_STAGED)
		assert_ok(mount_snapshot_add(observed, MH_LIST_PUBLISHED, &published, &err));
}

static enum adopt_action decide(enum alloc_phase phase, uint32_t n_published, enum kernel_view first,
				enum kernel_view second, const char *boot_id, struct error *why)
{
	cleanup_free struct alloc_record *record = records_make(2);
	struct mount_snapshot *observed = mount_snapshot_new();
	enum adopt_action action;

	records_drive(record, phase, n_published, phase == ALLOC_NEW || phase == ALLOC_CLAIMING ? 0 : 2);
	show(observed, 0, first);
	show(observed, 1, second);
	action = adopt_decide(record, observed, NULL, boot_id, why);
	mount_snapshot_free(observed);
	return action;
}

struct two_volumes {
	enum alloc_phase phase;
	uint32_t published; /* of the two, by the journal */
	enum kernel_view first, second;
};

static bool is_possible(const struct two_volumes *v)
{
	if (v->phase == ALLOC_RUNNING)
		return v->published == 2;
	return v->published == 0 || (v->phase != ALLOC_NEW && v->phase != ALLOC_CLAIMING);
}

static enum adopt_action action_for(const struct two_volumes *v)
{
	bool is_missing = (v->published > 0 && v->first != KERNEL_PUBLISHED) ||
			  (v->published > 1 && v->second != KERNEL_PUBLISHED);
	bool is_other = (v->published > 0 && v->first == KERNEL_OTHER_DEVICE) ||
			(v->published > 1 && v->second == KERNEL_OTHER_DEVICE);

	if (v->phase == ALLOC_STOPPED)
		return ADOPT_NOTHING;
	if (v->phase != ALLOC_STOPPING && is_missing)
		return is_other ? ADOPT_FAIL : ADOPT_REMOUNT;
	return v->phase == ALLOC_RUNNING ? ADOPT_KEEP : ADOPT_CONTINUE;
}

static void expect_decided(const struct two_volumes *v)
{
	enum adopt_action expected = action_for(v);
	struct error why = {0};

	assert_int_equal(decide(v->phase, v->published, v->first, v->second, BOOT_ID, &why), expected);
	assert_int_equal(why.status != STATUS_OK, expected == ADOPT_FAIL || expected == ADOPT_REMOUNT);
	assert_int_equal(decide(v->phase, v->published, v->first, v->second,
				"99999999-2222-3333-4444-555555555555", &why),
			 v->phase == ALLOC_STOPPED ? ADOPT_NOTHING : ADOPT_REBOOTED);
}

/* Two volumes, each as journalled and as the kernel has it, in every phase and in the same or another boot.
 */
TEST(every_combination_of_journal_and_kernel_is_decided)
{
	for (enum alloc_phase phase = 0; phase < ALLOC_PHASE_N; phase++)
		for (uint32_t published = 0; published <= 2; published++)
			for (unsigned int k = 0; k < KERNEL_VIEW_N * KERNEL_VIEW_N; k++) {
				const struct two_volumes v = {phase, published, k / KERNEL_VIEW_N,
							      k % KERNEL_VIEW_N};

				if (is_possible(&v))
					expect_decided(&v);
			}
}

TEST(a_missing_mount_is_named)
{
	struct error why;

	assert_error(decide(ALLOC_RUNNING, 2, KERNEL_PUBLISHED, KERNEL_STAGED, BOOT_ID, &why), ADOPT_REMOUNT,
		     why, "vol1");
	assert_non_null(strstr(why.msg, "/publish/" ALLOC_ID "/1"));
	assert_error(decide(ALLOC_RUNNING, 2, KERNEL_OTHER_DEVICE, KERNEL_PUBLISHED, BOOT_ID, &why),
		     ADOPT_FAIL, why, "device 0:7 is mounted instead of volume vol0 (0:100)");
}

TEST(a_missing_mount_is_not_remade_under_a_running_unit)
{
	cleanup_free struct alloc_record *record = records_make(1);
	struct mount_snapshot *observed = mount_snapshot_new();
	struct error why;

	records_drive(record, ALLOC_RUNNING, 1, 1);
	assert_true(adopt_is_missing(record, 0, observed));
	assert_int_equal(adopt_decide(record, observed, NULL, BOOT_ID, &why), ADOPT_REMOUNT);
	record->task.state = TASK_RECORD_RUNNING;
	assert_int_equal(adopt_decide(record, observed, NULL, BOOT_ID, &why), ADOPT_FAIL);
	show(observed, 0, KERNEL_PUBLISHED);
	assert_false(adopt_is_missing(record, 0, observed));
	mount_snapshot_free(observed);
}

TEST(a_device_is_looked_for_in_the_mount_table)
{
	static const char path[] = "/publish/" ALLOC_ID "/0";
	static const struct {
		const char *at;
		uint32_t minor;
		bool is_no_device, has_table;
		enum adopt_action expected;
		const char *words;
	} rows[] = {
		{path, 16, false, true, ADOPT_KEEP, NULL},
		{NULL, 0, false, true, ADOPT_FAIL, "the device of volume vol0 is no longer at /publish/"},
		{path, 17, false, true, ADOPT_FAIL, "is device 8:17 instead of that of volume vol0 (8:16)"},
		{path, 16, true, true, ADOPT_FAIL, "it is a file"},
		{NULL, 0, false, false, ADOPT_KEEP, NULL}, /* not known is kept */
	};
	static char some_table;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		cleanup_free struct alloc_record *record = records_make(1);
		struct mount_snapshot *observed = mount_snapshot_new();
		struct error why = {0};

		records_drive(record, ALLOC_RUNNING, 1, 1);
		record->volumes[0].target.type = VOLUME_CSI;
		record->volumes[0].target.attachment_mode = ATTACHMENT_BLOCK_DEVICE;
		record->volumes[0].target.dev_major = 8;
		record->volumes[0].target.dev_minor = 16;
		bound_at = rows[i].at;
		bound_minor = rows[i].minor;
		is_no_device = rows[i].is_no_device;
		assert_int_equal(adopt_decide(record, observed,
					      rows[i].has_table
						      ? (const struct mount_table *)(const void *)&some_table
						      : NULL,
					      BOOT_ID, &why),
				 rows[i].expected);
		assert_int_equal(why.status, rows[i].words ? STATUS_ABORTED : STATUS_OK);
		if (rows[i].words)
			assert_non_null(strstr(why.msg, rows[i].words));
		mount_snapshot_free(observed);
	}
}

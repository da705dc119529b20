/* SPDX-License-Identifier: Apache-2.0 */
/* What engines ask of a volume plugin, against the model of the server. */
#include "run.h"
#include "unit.h"

#include "base/clock.h"
#include "base/fd.h"
#include "docker/record.h"
#include "docker/volumes.h"
#include "hold/link.h"

#include <errno.h>
#include <limits.h>

#define PUBLISH_DIR "/run/holdfast-mount/publish"
#define MOUNTED PUBLISH_DIR "/01890000-0000-7000-8000-000000000001/0"

/* A node that lies: no engine is given its path. */
#define RUNNING                                                                                        \
	"{\"allocation\": {\"id\": \"a\", \"client_status\": \"RUNNING\", \"published\": [{\"path\": " \
	"\"/\"}]}, "                                                                                   \
	"\"index\": \"3\"}"
#define STOPPED                                                                                            \
	"{\"allocation\": {\"id\": \"a\", \"desired_status\": \"STOP\", \"client_status\": \"RUNNING\"}, " \
	"\"index\": \"4\"}"
#define FREED "{\"allocation\": {\"id\": \"a\", \"client_status\": \"COMPLETE\"}, \"index\": \"5\"}"

#define TAKEN "{\"allocation\": {\"id\": \"a\", \"node_id\": \"n\", \"client_status\": \"PENDING\"}}"
#define ACCEPTED "{\"allocation\": {\"id\": \"a\", \"client_status\": \"PENDING\"}}"
#define QUEUED "{\"allocation\": {\"id\": \"a\", \"client_status\": \"PENDING\"}, \"index\": \"2\"}"
#define TOLD "{}"

/* What the kernel has. */
static struct {
	bool is_gone;
	bool is_another; /* volume */
	bool is_read_only;
	char checked[PATH_MAX];
} kernel;

WRAPPED(bool, hold_is_gone, const char *path)
{
	assert_true(str_starts_with(path, PUBLISH_DIR "/"));
	return kernel.is_gone;
}

WRAPPED(enum status, hold_publish_check, const char *publish_dir, const char *path,
	const Holdfast__V1__Allocation *alloc, struct hold_published *ret, struct error *err)
{
	assert_string_equal(publish_dir, PUBLISH_DIR);
	assert_string_equal(alloc->volumes[0]->source, "db");
	(void)str_copy(kernel.checked, sizeof(kernel.checked), path);
	ret->is_read_only = kernel.is_read_only;
	return kernel.is_another ? error_set(err, STATUS_FAILED_PRECONDITION, 0, "another volume is mounted")
				 : STATUS_OK;
}

static bool disk_is_full;
int __real_file_write_atomic(const char *path, mode_t mode, const void *bytes, size_t n);

WRAPPED(int, file_write_atomic, const char *path, mode_t mode, const void *bytes, size_t n)
{
	return disk_is_full ? -ENOSPC : __real_file_write_atomic(path, mode, bytes, n);
}

static char folder[] = "/tmp/cli-docker-XXXXXX";
static struct invocation inv;
static const struct docker_volumes volumes = {
	.inv = &inv, .dir = folder, .node = "node-1", .timeout_us = 300 * USEC_PER_MSEC};
static Docker__VolumeResponse *answer;

static int begin(void **state)
{
	return mkdtemp(folder) ? run_begin(state) : -1;
}

static int end(void **state)
{
	char path[64];

	docker__volume_response__free_unpacked(answer, NULL);
	protobuf_c_message_free_unpacked(inv.details, NULL);
	(void)str_format(path, sizeof(path), "%s/lock", folder);
	(void)unlink(path);
	return rmdir(folder) == 0 ? run_end(state) : -1;
}

static int setup(void **state)
{
	struct error err;

	assert_int_equal(record_remove(folder, "db", &err), STATUS_OK);
	protobuf_c_message_free_unpacked(inv.details, NULL);
	disk_is_full = false;
	kernel.is_gone = kernel.is_another = kernel.is_read_only = false;
	inv = (struct invocation){.options = {[OPT_ADDRESS] = "h:1", [OPT_CA] = "/ca"}};
	return run_setup(state);
}

static int teardown(void **state)
{
	struct error err;

	return record_remove(folder, "db", &err) == STATUS_OK ? 0 : -1;
}

/* Asks, and keeps what follows the answer from happening. @return the lock of the volume */
static int ask_only(const char *method, const char *name, const char *id, const char *key, const char *value)
{
	Docker__VolumeRequest request = DOCKER__VOLUME_REQUEST__INIT;
	Docker__VolumeRequest__OptsEntry entry = DOCKER__VOLUME_REQUEST__OPTS_ENTRY__INIT, *entries = &entry;
	char texts[4][256];
	int lock;

	(void)str_format(texts[0], sizeof(texts[0]), "%s", name);
	(void)str_format(texts[1], sizeof(texts[1]), "%s", id);
	request.name = texts[0];
	request.id = texts[1];
	if (key) {
		(void)str_format(texts[2], sizeof(texts[2]), "%s", key);
		(void)str_format(texts[3], sizeof(texts[3]), "%s", value);
		entry.key = texts[2];
		entry.value = texts[3];
		request.opts = &entries;
		request.n_opts = 1;
	}
	docker__volume_response__free_unpacked(answer, NULL);
	fake.requests[0] = '\0';
	answer = NON_NULL(docker_volumes_answer(&volumes, method, &request, &lock));
	return lock;
}

static bool (*wait_for_room)(void);

static void ask_with(const char *method, const char *name, const char *id, const char *key, const char *value)
{
	int lock = ask_only(method, name, id, key, value);

	if (str_eq(method, "Unmount") && answer->err[0] == '\0')
		docker_volumes_unmount(&volumes, name, id, &lock, wait_for_room);
	if (lock >= 0)
		(void)close(lock);
}

static void expect_done(const char *method, const char *id)
{
	ask_with(method, "db", id, NULL, NULL);
	assert_string_equal(answer->err, "");
}

static void expect_refused(const char *method, const char *name, const char *key, const char *value,
			   const char *text)
{
	ask_with(method, name, "1", key, value);
	assert_msg(strstr(answer->err, text) && str_starts_with(answer->err, "holdfast: "),
		   "%s: '%s', not %s", method, answer->err, text);
}

static void expect_record(const char *id, size_t n_mounts, bool is_ending)
{
	Docker__VolumeRecord *record = NULL;
	struct error err;

	assert_int_equal(record_load(folder, "db", &record, &err), STATUS_OK);
	assert_int_equal(record->alloc_id[0] != '\0', id != NULL);
	assert_int_equal(record->n_mount_ids, n_mounts);
	assert_int_equal(record->is_ending, is_ending);
	record_free(record);
}

static void prepare(size_t i, const char *method, const char *json)
{
	will_answer(i, method, json);
	fake.given[i] = 0;
}

/* Of root's folder, the allocation and the slot. */
static void expect_made_path(const char *path)
{
	Docker__VolumeRecord *record = NULL;
	char made[PATH_MAX];
	struct error err;

	assert_int_equal(record_load(folder, "db", &record, &err), STATUS_OK);
	(void)str_format(made, sizeof(made), PUBLISH_DIR "/%s/0", record->alloc_id);
	record_free(record);
	assert_string_equal(path, made);
	assert_string_equal(kernel.checked, made);
}

/* The allocation runs as soon as it is asked for. */
static void mount_one(void)
{
	prepare(0, "Allocations.Run", TAKEN);
	prepare(1, "Allocations.Get", RUNNING);
	expect_done("Create", "");
	expect_done("Mount", "one");
	expect_made_path(answer->mountpoint);
}

TEST_FIXTURE(a_request_that_makes_no_sense_is_refused_and_asks_nothing, setup, teardown)
{
	static const char too_long[] =
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"; /* 65 */
	static const char *const names[] = {"", ".", "../db", "a/b", "db.json", too_long};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		expect_refused("Create", names[i], NULL, NULL, "must be 1 to 64 of");
	expect_refused("Create", "db", "size", "1G", "unknown option size");
	expect_refused("Create", "db", "read_only", "yes", "true or false, not 'yes'");
	expect_refused("Create", "db", "access_mode", "any", "single-node-writer");
	expect_refused("Mount", "db", NULL, NULL, "no volume db was made on this machine");
	expect_refused("Get", "db", NULL, NULL, "no volume db was made on this machine");
	expect_refused("Nothing", "db", NULL, NULL, "there is no method Nothing");
	assert_string_equal(fake.requests, "");
	expect_done("Unmount", "1");
	expect_done("Remove", "");
}

TEST_FIXTURE(a_volume_is_made_if_the_server_has_it, setup, teardown)
{
	will_refuse(0, "Volumes.Get", STATUS_NOT_FOUND);
	expect_refused("Create", "db", "volume", "db[0]", "the server refuses");
	expect_request("db[0]");
	fake.answers[0].method = NULL;
	expect_refused("Get", "db", NULL, NULL, "no volume db");
	expect_done("Create", "");
	expect_request("Volumes.Get");
	expect_done("Create", "");
	assert_string_equal(fake.requests, ""); /* it is there */
	expect_refused("Create", "db", "read_only", "true", "other options");
	expect_done("List", "");
	assert_int_equal(answer->n_volumes, 1);
	assert_string_equal(answer->volumes[0]->name, "db");
	assert_string_equal(answer->volumes[0]->mountpoint, "");
	expect_done("Remove", "");
	expect_refused("Get", "db", NULL, NULL, "no volume db");
}

TEST_FIXTURE(mounts_share_an_allocation_and_the_last_unmount_ends_it, setup, teardown)
{
	mount_one();
	expect_request("Allocations.Run");
	expect_done("Mount", "two");
	expect_done("Mount", "two"); /* of `docker cp`, while the container runs */
	assert_null(strstr(fake.requests, "Run"));
	expect_record("a", 3, false);
	expect_done("Unmount", "two");
	expect_done("Get", "");
	expect_made_path(answer->volume->mountpoint);
	expect_refused("Remove", "db", NULL, NULL, "is mounted by 2 containers");
	expect_done("Unmount", "one");
	expect_done("Unmount", "one");
	assert_string_equal(fake.requests, "");
	prepare(1, "Allocations.Get", FREED);
	prepare(2, "Allocations.Stop", TOLD);
	expect_done("Unmount", "two");
	expect_request("Allocations.Stop");
	expect_record(NULL, 0, false);
}

TEST_FIXTURE(a_mount_is_recorded_until_its_engine_has_the_answer_to_unmount, setup, teardown)
{
	struct error err;
	enum status second;
	int lock, other = -1;

	mount_one();
	lock = ask_only("Unmount", "db", "one", NULL, NULL);
	second = record_lock(folder, "db", false, &other, &err);
	(void)close(lock); /* the plugin was killed */
	docker_volumes_sweep(&volumes);
	assert_string_equal(answer->err, "");
	assert_int_equal(second, STATUS_UNAVAILABLE);
	assert_string_equal(fake.requests, "");
	expect_record("a", 1, false);
}

TEST_FIXTURE(a_mount_after_an_unfinished_release_waits_for_its_end, setup, teardown)
{
	mount_one();
	prepare(1, "Allocations.Get", STOPPED);
	prepare(2, "Allocations.Stop", TOLD);
	expect_done("Unmount", "one");
	expect_refused("Mount", "db", NULL, NULL, "not done in time");
	assert_null(strstr(fake.requests, "Allocations.Run"));
	expect_record("a", 0, true);
}

TEST_FIXTURE(the_refusal_names_the_holder_and_nothing_is_kept, setup, teardown)
{
	expect_done("Create", "");
	fake.answers[0] = (struct fake_answer){.method = "Allocations.Run",
					       .status = STATUS_FAILED_PRECONDITION,
					       .details = "{\"claims\": [{\"text\": \"node-2 has it\"}]}"};
	expect_refused("Mount", "db", NULL, NULL, "node-2 has it");
	expect_record(NULL, 0, false);
}

TEST_FIXTURE(a_mount_waits_in_the_queue_of_its_volume_if_its_options_say_so, setup, teardown)
{
	expect_refused("Create", "db", "wait", "31d", "option wait: '31d' is not a duration up to 30 days");
	ask_with("Create", "db", "", "wait", "90s");
	assert_string_equal(answer->err, "");
	prepare(0, "Allocations.Run", ACCEPTED);
	prepare(1, "Allocations.Get", QUEUED);
	for (size_t i = 2; i < 8; i++) { /* longer than the time limit of a mount */
		will_refuse(i, "Allocations.Get", STATUS_UNAVAILABLE);
		fake.given[i] = 0;
	}
	prepare(8, "Allocations.Get", RUNNING);
	expect_done("Mount", "one");
	expect_request("\"wait_ms\":90000");
	expect_made_path(answer->mountpoint);
	expect_record("a", 1, false);
}

TEST_FIXTURE(a_mount_that_was_killed_while_it_waited_leaves_the_queue, setup, teardown)
{
	ask_with("Create", "db", "", "wait", "90s");
	prepare(0, "Allocations.Run", ACCEPTED);
	will_refuse(1, "Allocations.Get", STATUS_PERMISSION_DENIED);
	fake.given[1] = 0;
	prepare(2, "Allocations.Stop", TOLD);
	ask_with("Mount", "db", "one", NULL, NULL);
	expect_record("a", 0, true);
	prepare(1, "Allocations.Get", FREED);
	docker_volumes_sweep(&volumes);
	expect_record(NULL, 0, false);
}

TEST_FIXTURE(a_volume_not_released_at_once_is_released_later, setup, teardown)
{
	mount_one();
	prepare(1, "Allocations.Get", STOPPED);
	prepare(2, "Allocations.Stop", TOLD);
	expect_done("Unmount", "one");
	expect_record("a", 0, true);
	prepare(1, "Allocations.Get", FREED);
	docker_volumes_sweep(&volumes);
	expect_record(NULL, 0, false);
	mount_one();
	prepare(1, "Allocations.Get", STOPPED);
	prepare(2, "Allocations.Stop", TOLD);
	expect_done("Unmount", "one");
	expect_record("a", 0, true);
	prepare(1, "Allocations.Get", FREED);
	expect_done("Unmount", "one");
	expect_record(NULL, 0, false);
	fake.requests[0] = '\0';
	docker_volumes_sweep(&volumes);
	assert_string_equal(fake.requests, "");
}

static bool gives_up(void)
{
	return false;
}

static bool has_room_later(void)
{
	disk_is_full = false;
	return true;
}

/* podman has one id for all mounts. */
static bool is_mounted_again_later(void)
{
	disk_is_full = false;
	prepare(0, "Allocations.Run", TAKEN);
	prepare(1, "Allocations.Get", FREED);
	prepare(2, "Allocations.Get", RUNNING);
	expect_done("Mount", "one");
	return true;
}

/* A mount when the disk becomes full; the server frees its claim. */
static void fill_disk(void)
{
	prepare(1, "Allocations.Get", FREED);
	prepare(2, "Allocations.Stop", TOLD);
	disk_is_full = true;
}

TEST_FIXTURE(a_full_disk_keeps_no_volume_claimed, setup, teardown)
{
	mount_one();
	fill_disk();
	wait_for_room = gives_up;
	expect_done("Unmount", "one");
	expect_request("Allocations.Stop");
	expect_record("a", 1, false);
	expect_done("Remove", "");
	disk_is_full = false;
	mount_one();
	prepare(1, "Allocations.Get", STOPPED);
	prepare(2, "Allocations.Stop", TOLD);
	expect_done("Unmount", "one");
	fill_disk();
	expect_done("Remove", ""); /* also one that nothing counts as mounted */
	expect_refused("Get", "db", NULL, NULL, "no volume db");
}

TEST_FIXTURE(the_end_of_a_mount_is_recorded_when_there_is_room, setup, teardown)
{
	mount_one();
	expect_done("Mount", "two");
	fill_disk();
	wait_for_room = has_room_later;
	expect_done("Unmount", "one");
	assert_string_equal(fake.requests, "");
	expect_record("a", 1, false);
	expect_done("Unmount", "two");
	expect_request("Allocations.Stop");
	expect_record(NULL, 0, false);
}

TEST_FIXTURE(the_end_of_a_mount_ends_no_later_one, setup, teardown)
{
	mount_one();
	fill_disk();
	wait_for_room = is_mounted_again_later;
	expect_done("Unmount", "one");
	expect_record("another", 1, false);
}

static bool sweep_leaves(const char *file)
{
	char path[128];
	bool is_left;

	(void)str_format(path, sizeof(path), "%s/%s", folder, file);
	assert_int_equal(file_write_atomic(path, 0600, "{", 1), 0);
	docker_volumes_sweep(&volumes);
	is_left = access(path, F_OK) == 0;
	(void)unlink(path);
	return is_left;
}

TEST_FIXTURE(a_file_that_a_killed_plugin_did_not_finish_is_removed, setup, teardown)
{
	struct error err;
	int lock;

	assert_false(sweep_leaves("db.json.77.tmp"));
	assert_true(sweep_leaves("db.json.77"));
	assert_true(sweep_leaves("db.77.tmp"));
	assert_true(sweep_leaves(".json.77.tmp"));
	assert_int_equal(record_lock(folder, "db", true, &lock, &err), STATUS_OK);
	assert_true(sweep_leaves("db.json.77.tmp"));
	(void)close(lock);
}

TEST_FIXTURE(an_unfinished_file_makes_no_second_volume, setup, teardown)
{
	char path[128];

	mount_one();
	(void)str_format(path, sizeof(path), "%s/db.json.77.tmp", folder);
	assert_int_equal(file_write_atomic(path, 0600, "{", 1), 0);
	ask_with("List", NULL, NULL, NULL, NULL);
	(void)unlink(path);
	assert_int_equal(answer->n_volumes, 1);
}

TEST_FIXTURE(a_volume_mounted_by_others_is_not_released, setup, teardown)
{
	mount_one();
	kernel.is_gone = true;
	prepare(1, "Allocations.Get", RUNNING);
	prepare(2, "Allocations.Stop", TOLD);
	expect_refused("Mount", "db", NULL, NULL, "reports it as mounted, but it is not at ");
	assert_null(strstr(fake.requests, "Stop"));
	expect_record("a", 1, false);
	docker_volumes_sweep(&volumes);
	expect_record("a", 1, false);
}

/* A server restored from an older backup knows no allocation until its node has reported it. */
TEST_FIXTURE(a_volume_that_is_mounted_is_not_forgotten_with_the_server, setup, teardown)
{
	mount_one();
	will_refuse(1, "Allocations.Get", STATUS_NOT_FOUND);
	will_refuse(2, "Allocations.Stop", STATUS_NOT_FOUND);
	expect_refused("Remove", "db", NULL, NULL, "is mounted by 1 containers");
	expect_done("Unmount", "one");
	expect_refused("Remove", "db", NULL, NULL, "still mounted at ");
	expect_record("a", 0, true);
	kernel.is_gone = true;
	expect_done("Remove", "");
	expect_refused("Get", "db", NULL, NULL, "no volume db");
}

/* At first the order to run it may still be on its way to the server. */
TEST_FIXTURE(a_volume_that_the_server_does_not_know_is_released_twice, setup, teardown)
{
	mount_one();
	kernel.is_gone = true;
	will_refuse(2, "Allocations.Stop", STATUS_NOT_FOUND);
	expect_done("Unmount", "one");
	expect_record("a", 0, true);
	kernel.is_gone = false;
	docker_volumes_sweep(&volumes);
	expect_record("a", 0, true);
	kernel.is_gone = true;
	docker_volumes_sweep(&volumes);
	expect_record(NULL, 0, false);
}

TEST_FIXTURE(a_wrong_mount_is_refused_and_released, setup, teardown)
{
	kernel.is_another = true;
	prepare(0, "Allocations.Run", TAKEN);
	prepare(1, "Allocations.Get", RUNNING);
	expect_done("Create", "");
	will_answer(2, "Allocations.Stop", TOLD);
	expect_refused("Mount", "db", NULL, NULL, "another volume is mounted");
	expect_request("Allocations.Stop");
	expect_record("a", 0, true);
}

static void expect_reader(const char *key, const char *value, bool is_read_only, const char *refusal)
{
	struct error err;

	kernel.is_read_only = is_read_only;
	prepare(0, "Allocations.Run", TAKEN);
	prepare(1, "Allocations.Get", RUNNING);
	prepare(2, "Allocations.Stop", TOLD);
	ask_with("Create", "db", "", key, value);
	assert_string_equal(answer->err, "");
	ask_with("Mount", "db", "1", NULL, NULL);
	if (refusal ? !strstr(answer->err, refusal) : answer->err[0] != '\0')
		fail_msg("%s=%s: '%s'", key, value, answer->err);
	assert_int_equal(record_remove(folder, "db", &err), STATUS_OK);
}

TEST_FIXTURE(a_reader_of_a_file_system_mounted_for_writing_is_refused, setup, teardown)
{
	static const char *const readers[][2] = {{"read_only", "true"},
						 {"access_mode", "single-node-reader-only"},
						 {"access_mode", "multi-node-reader-only"}};

	for (size_t i = 0; i < ARRAY_SIZE(readers); i++) {
		expect_reader(readers[i][0], readers[i][1], false, "cannot be read_only");
		expect_reader(readers[i][0], readers[i][1], true, NULL);
	}
	expect_reader("read_only", "false", false, NULL);
	expect_reader("access_mode", "single-node-writer", false, NULL);
}

TEST_FIXTURE(mounts_of_an_allocation_that_has_ended_hold_no_other, setup, teardown)
{
	mount_one();
	will_answer(0, "Allocations.Get", FREED);
	prepare(1, "Allocations.Get", RUNNING);
	prepare(2, "Allocations.Run", TAKEN);
	fake.given[0] = 0;
	expect_done("Mount", "two");
	expect_request("Allocations.Run");
	expect_record("another", 1, false);
	expect_done("Unmount", "one");
	assert_string_equal(fake.requests, "");
	expect_record("another", 1, false);
}

TEST_FIXTURE(mounts_of_an_earlier_boot_are_over, setup, teardown)
{
	static const char text[] =
		"{\"name\": \"db\", \"alloc_id\": \"01890000-0000-7000-8000-000000000001\", \"path\": "
		"\"" MOUNTED
		"\", \"boot_id\": \"01890000-0000-7000-8000-000000000009\", \"mount_ids\": [\"old\"]}";
	char path[64];

	(void)str_format(path, sizeof(path), "%s/db.json", folder);
	assert_int_equal(file_write_atomic(path, 0600, text, strlen(text)), 0);
	expect_record("a", 0, false);
	expect_done("Path", "");
	assert_string_equal(answer->mountpoint, "");
	assert_int_equal(file_write_atomic(path, 0600, "{", 1), 0);
	expect_refused("Mount", "db", NULL, NULL, "cannot be understood");
	assert_string_equal(fake.requests, "");
}

TEST_FIXTURE(it_is_for_a_unit, setup, teardown)
{
	(void)unsetenv("STATE_DIRECTORY");
	expect_usage_error("volume docker-plugin /run/x.sock",
			   "systemctl start holdfast-docker-plugin.service");
	expect_usage_error("volume docker-plugin /run/x.sock --timeout soon", "'soon' is not a duration");
}

TEST_GROUP(begin, end)

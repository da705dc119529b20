/* SPDX-License-Identifier: Apache-2.0 */
/* The holder of a unit's volume against the model of the server. */

#include "run.h"
#include "unit.h"

#include "base/fd.h"
#include "call/connect.h"
#include "hold/link.h"
#include "hold/unit.h"
#include "model/alloc_id.h"
#include "model/volume.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define GET(rest) "{\"allocation\": {\"id\": \"a\", " rest "}, \"index\": \"3\"}"
#define RUNNING GET("\"client_status\": \"RUNNING\", \"published\": [{\"path\": \"/\"}]")
#define PENDING "{\"allocation\": {\"id\": \"a\", \"node_id\": \"n\", \"client_status\": \"PENDING\"}}"
#define ACCEPTED "{\"allocation\": {\"id\": \"a\", \"client_status\": \"PENDING\"}}"
#define QUEUED GET("\"client_status\": \"PENDING\", \"client_description\": \"waits for volume db\"")
#define EXPIRED GET("\"client_status\": \"FAILED\", \"client_description\": \"its time to wait is over\"")
#define STOPPED GET("\"desired_status\": \"STOP\", \"client_status\": \"RUNNING\"")
#define FREED GET("\"client_status\": \"COMPLETE\"")

static bool mount_is_gone;
static int looks_before_it_is_gone = INT_MAX;

WRAPPED(bool, hold_is_gone, const char *path)
{
	return mount_is_gone || looks_before_it_is_gone-- == 0;
}

static char device_path[PATH_MAX];
static char first_known[PATH_MAX];

WRAPPED(bool, hold_device_is_gone, const char *stage_dir, const char *path, struct hold_device *known)
{
	assert_string_equal(stage_dir, "/stage");
	assert_true(known->name[0] == '\0' || str_eq(known->name, "/loop0"));
	if (device_path[0] == '\0')
		(void)str_copy(first_known, sizeof(first_known), known->name);
	(void)str_copy(known->name, sizeof(known->name), "/loop0");
	(void)str_copy(device_path, PATH_MAX, path);
	return mount_is_gone;
}

static bool disk_is_full;
int __real_file_write_atomic(const char *path, mode_t mode, const void *bytes, size_t n);

WRAPPED(int, file_write_atomic, const char *path, mode_t mode, const void *bytes, size_t n)
{
	return disk_is_full ? -ENOSPC : __real_file_write_atomic(path, mode, bytes, n);
}

static char folder[] = "/tmp/cli-hold-unit-XXXXXX";
static struct hold_place place;

static int begin(void **state)
{
	sigset_t signals;
	struct error err;

	(void)sigemptyset(&signals);
	(void)sigaddset(&signals, SIGTERM);
	(void)sigaddset(&signals, SIGINT);
	(void)sigprocmask(SIG_BLOCK, &signals, NULL);
	return mkdtemp(folder) && hold_place_init(&place, folder, folder, &err) == STATUS_OK
		       ? run_begin(state)
		       : -1;
}

static int end(void **state)
{
	struct error err;

	hold_link_remove(&place);
	return hold_note_remove(&place, &err) == STATUS_OK && rmdir(folder) == 0 ? run_end(state) : -1;
}

static uint32_t wait_ms;
static const char *namespace = "";
static Holdfast__V1__AttachmentMode attachment_mode;

/* Runs until the hold ends. Returns its outcome; the error's text has to contain @text. */
static enum hold_outcome hold(const char *text)
{
	struct invocation inv = {.options = {[OPT_ADDRESS] = "h:1", [OPT_CA] = "/ca"}};
	Holdfast__V1__VolumeRequest volume = V1(volume_request, .source = (char *)(uintptr_t) "db",
						.attachment_mode = attachment_mode),
				    *volumes = &volume;
	Holdfast__V1__Allocation alloc =
		V1(allocation, .namespace_ = TEXT(namespace), .volumes = &volumes, .n_volumes = 1);
	struct hold_unit unit = {
		.holder = {.inv = &inv, .alloc = &alloc, .timeout_us = USEC_PER_SEC, .wait_ms = wait_ms},
		.place = &place,
		.links = folder,
		.name = "pgdata"};
	cleanup_connection struct connection *connection = NULL;
	enum hold_outcome outcome = HOLD_FAILED;
	struct error err = {.msg = ""};

	memset(fake.given, 0, sizeof(fake.given));
	assert_int_equal(connect_server(&inv, &connection, &err), STATUS_OK);
	unit.holder.connection = connection;
	(void)hold_unit_run(&unit, &outcome, &err);
	assert_msg(strstr(err.msg, text), "'%s' is not in: %s", text, err.msg);
	return outcome;
}

static void expect_note(bool is_there, bool is_ending)
{
	struct hold_note note;
	char path[PATH_MAX];
	struct error err;

	assert_int_equal(hold_note_read(&place, &note, &err), STATUS_OK);
	assert_int_equal(note.alloc_id[0] != '\0', is_there);
	assert_int_equal(note.is_ending, is_ending);
	assert_false(hold_link_read(&place, path));
}

TEST_FIXTURE(a_volume_that_is_taken_away_ends_the_hold, run_setup, NULL)
{
	struct hold_note note;

	will_answer(0, "Allocations.Run", PENDING);
	will_answer(1, "Allocations.Get", RUNNING);
	will_answer(2, "Allocations.Get", STOPPED);
	namespace = "shop";
	assert_int_equal(hold("volume db was taken away"), HOLD_TAKEN_AWAY);
	namespace = "";
	expect_note(true, true);
	assert_int_equal(hold_note_read(&place, &note, NULL), STATUS_OK);
	assert_true(alloc_id_is_of(note.alloc_id, "shop"));
	will_answer(0, "Allocations.Stop", "{}"); /* the next start ends the allocation before */
	will_answer(1, "Allocations.Get", FREED);
	will_answer(2, "Allocations.Run", PENDING);
	will_answer(3, "Allocations.Get", RUNNING);
	will_answer(4, "Allocations.Get", FREED);
	assert_int_equal(hold("was taken away"), HOLD_TAKEN_AWAY);
	expect_note(false, false);
}

TEST_FIXTURE(an_order_to_end_waits_for_the_answer_to_run, run_setup, NULL)
{
	will_answer(0, "Allocations.Run", PENDING);
	will_answer(1, "Allocations.Stop", "{}");
	will_answer(2, "Allocations.Get", FREED);
	(void)raise(SIGTERM);
	assert_int_equal(hold(""), HOLD_DONE);
	expect_request("Allocations.Run");
	expect_request("Allocations.Stop");
	expect_note(false, false);
}

TEST_FIXTURE(the_reason_of_the_end_is_the_one_that_decided_it, run_setup, NULL)
{
	will_answer(0, "Allocations.Run", PENDING);
	will_refuse(1, "Allocations.Get", STATUS_PERMISSION_DENIED);
	will_answer(2, "Allocations.Stop", "{}");
	will_answer(3, "Allocations.Get", FREED);
	assert_int_equal(
		hold("volume db: the server refuses. Next: put the unit's token into /etc/credstore"),
		HOLD_NOT_ALLOWED);
	expect_note(false, false);
}

TEST_FIXTURE(a_mount_that_is_gone_is_not_held, run_setup, NULL)
{
	will_answer(0, "Allocations.Run", PENDING);
	will_answer(1, "Allocations.Get", RUNNING);
	will_answer(2, "Allocations.Stop", "{}");
	mount_is_gone = true;
	assert_int_equal(hold("was not mounted within 1 s"), HOLD_TIMED_OUT);
	mount_is_gone = false;
	expect_note(true, true);
}

/* Where it is, the server's claim decides, and not the node's report. */
TEST_FIXTURE(a_device_is_where_the_servers_plugin_binds_it, run_setup, NULL)
{
	char path[PATH_MAX], text[PATH_MAX + 128];
	char wire[WIRE_VOLUME_SIZE];

	volume_wire_name("default", "db", wire);
	assert_true(str_format(path, sizeof(path), "/stage/.csi/ebs/%s/rw-publish", wire) > 0);
	assert_int_equal(setenv("HOLDFAST_STAGE_DIR", "/stage", 1), 0);
	attachment_mode = HOLDFAST__V1__ATTACHMENT_MODE__BLOCK_DEVICE;
	mount_is_gone = true;
	will_answer(0, "Allocations.Run", PENDING);
	will_answer(
		1, "Allocations.Get",
		"{\"allocation\": {\"id\": \"a\", \"client_status\": \"RUNNING\", \"published\": [{\"path\": "
		"\"/stage/.csi/cheap/x/rw-publish\"}]}, \"index\": \"3\", \"claims\": [{\"plugin_id\": "
		"\"old\", \"state\": \"FREED\"}, {\"plugin_id\": \"ebs\", \"state\": \"TAKEN\"}]}");
	will_answer(2, "Allocations.Stop", "{}");
	device_path[0] = '\0';
	(void)str_format(
		text, sizeof(text),
		"within 1 s: the node of volume db reports it as mounted, but it is not at %s: compare ",
		path);
	assert_int_equal(hold(text), HOLD_TIMED_OUT);
	assert_string_equal(device_path, path);
	assert_string_equal(first_known, "");
	mount_is_gone = false;
	attachment_mode = HOLDFAST__V1__ATTACHMENT_MODE__ATTACHMENT_MODE_UNSPECIFIED;
	expect_note(true, true);
}

/* Nothing is left of an earlier start. */
static int setup(void **state)
{
	struct error err;

	return hold_note_remove(&place, &err) == STATUS_OK ? run_setup(state) : -1;
}

/* An agent that has its plugin unmount the volume reports that it has not begun. */
TEST_FIXTURE(a_mount_that_is_gone_is_not_held_whatever_the_node_reports, setup, NULL)
{
	will_answer(0, "Allocations.Run", PENDING);
	will_answer(1, "Allocations.Get", RUNNING);
	will_answer(2, "Allocations.Get", PENDING);
	looks_before_it_is_gone = 1;
	assert_int_equal(hold("taken away: it is no longer mounted at"), HOLD_TAKEN_AWAY);
	looks_before_it_is_gone = INT_MAX;
	expect_note(true, true);
}

/* The process that held it was killed; services have the device of root's link. */
TEST_FIXTURE(the_device_of_a_holder_that_begins_again_is_that_of_the_link, setup, NULL)
{
	const struct hold_note note = {.alloc_id = "01890000-0000-7000-8000-000000000001"};
	struct error err;

	attachment_mode = HOLDFAST__V1__ATTACHMENT_MODE__BLOCK_DEVICE;
	assert_int_equal(hold_note_write(&place, &note, &err), STATUS_OK);
	assert_int_equal(hold_link_make(&place, "/stage/.csi/ebs/x/rw-publish", &err), STATUS_OK);
	assert_int_equal(hold_link_give(folder, "pgdata", "/dev/loop0", &err), STATUS_OK);
	device_path[0] = '\0';
	will_answer(0, "Allocations.Get", PENDING);
	will_answer(1, "Allocations.Get", FREED);
	assert_int_equal(hold("was taken away"), HOLD_TAKEN_AWAY);
	assert_string_equal(first_known, "/loop0");
	assert_int_equal(hold_link_take(folder, "pgdata", &err), STATUS_OK);
	attachment_mode = HOLDFAST__V1__ATTACHMENT_MODE__ATTACHMENT_MODE_UNSPECIFIED;
}

/* A server restored from an older backup knows no allocation until its node has reported it. */
TEST_FIXTURE(a_stop_that_the_server_does_not_understand_is_not_done_while_it_is_mounted, setup, NULL)
{
	will_answer(0, "Allocations.Run", PENDING);
	will_refuse(1, "Allocations.Stop", STATUS_NOT_FOUND);
	(void)raise(SIGTERM);
	assert_int_equal(hold(": still mounted at /run/holdfast-mount/publish/"), HOLD_TIMED_OUT);
	expect_note(true, true);
	mount_is_gone = true; /* released meanwhile */
	will_refuse(0, "Allocations.Stop", STATUS_NOT_FOUND);
	will_answer(1, "Allocations.Run", PENDING);
	will_answer(2, "Allocations.Get", FREED);
	assert_int_equal(hold("was not mounted"), HOLD_FAILED);
	mount_is_gone = false;
	expect_note(false, false);
}

#define EARLIER "01890000-0000-7000-837a-8eec1ce19687" /* an id of namespace default */

/* A start of before left it; whose device is bound now, nobody knows. */
static int setup_device(void **state)
{
	const struct hold_note note = {.alloc_id = EARLIER, .is_ending = true};
	struct error err;

	attachment_mode = HOLDFAST__V1__ATTACHMENT_MODE__BLOCK_DEVICE;
	return setup(state) == 0 && hold_note_write(&place, &note, &err) == STATUS_OK ? 0 : -1;
}

static int teardown_device(void **state)
{
	attachment_mode = HOLDFAST__V1__ATTACHMENT_MODE__ATTACHMENT_MODE_UNSPECIFIED;
	return 0;
}

static const char *last_run(void)
{
	const char *found = NULL;

	for (const char *p = fake.requests; (p = strstr(p, "Allocations.Run")); p++)
		found = p;
	return found ? found : "";
}

/* Its node may report it yet, by that id. */
TEST_FIXTURE(a_device_of_an_earlier_start_is_run_again_by_its_id, setup_device, teardown_device)
{
	struct hold_note note;
	struct error err;

	will_refuse(0, "Allocations.Stop", STATUS_NOT_FOUND);
	will_answer(1, "Allocations.Run", PENDING);
	will_refuse(2, "Allocations.Get", STATUS_NOT_FOUND); /* restored in this moment */
	assert_int_equal(hold("was not mounted"), HOLD_FAILED);
	assert_non_null(strstr(last_run(), EARLIER));
	assert_int_equal(hold_note_read(&place, &note, &err), STATUS_OK);
	assert_string_equal(note.alloc_id, EARLIER);
	assert_true(note.is_ending);
	will_refuse(0, "Allocations.Stop", STATUS_NOT_FOUND);
	will_answer(1, "Allocations.Run", PENDING);
	will_answer(2, "Allocations.Get", FREED);
	assert_int_equal(hold("was not mounted"), HOLD_FAILED);
	expect_note(false, false);
}

/* The server would refuse it: the unit was of that namespace before, or its id is older than such ends. */
TEST_FIXTURE(an_id_of_another_namespace_is_not_run_again, setup_device, teardown_device)
{
	will_refuse(0, "Allocations.Stop", STATUS_NOT_FOUND);
	will_answer(1, "Allocations.Run", PENDING);
	will_answer(2, "Allocations.Get", FREED);
	namespace = "shop";
	assert_int_equal(hold("was not mounted"), HOLD_FAILED);
	namespace = "";
	assert_string_not_equal(last_run(), "");
	assert_null(strstr(last_run(), EARLIER));
	expect_note(false, false);
}

TEST_FIXTURE(an_absent_allocation_is_run_by_its_id_unless_that_is_of_another_namespace, setup, NULL)
{
	for (int i = 0; i < 2; i++) {
		struct hold_note note = {.alloc_id = EARLIER};
		struct error err;

		assert_int_equal(hold_note_write(&place, &note, &err), STATUS_OK);
		will_refuse(0, "Allocations.Get", STATUS_NOT_FOUND);
		will_answer(1, "Allocations.Run", PENDING);
		will_answer(2, "Allocations.Get", FREED);
		namespace = i == 0 ? "" : "shop";
		assert_int_equal(hold("was not mounted"), HOLD_FAILED);
		assert_int_equal(strstr(last_run(), EARLIER) != NULL, i == 0);
		expect_note(false, false);
	}
	namespace = "";
}

TEST_FIXTURE(an_id_that_the_token_may_not_see_is_run_once, setup_device, teardown_device)
{
	will_refuse(0, "Allocations.Stop", STATUS_NOT_FOUND);
	will_refuse(1, "Allocations.Run", STATUS_ALREADY_EXISTS);
	will_refuse(2, "Allocations.Stop", STATUS_NOT_FOUND);
	will_answer(3, "Allocations.Run", PENDING);
	will_answer(4, "Allocations.Get", FREED);
	assert_int_equal(hold("was not mounted"), HOLD_FAILED);
	assert_null(strstr(last_run(), EARLIER));
	expect_note(false, false);
}

TEST_FIXTURE(an_allocation_that_is_mounted_is_not_forgotten_with_the_server, setup, NULL)
{
	will_answer(0, "Allocations.Run", PENDING);
	will_answer(1, "Allocations.Stop", "{}");
	will_answer(2, "Allocations.Get", PENDING); /* overtaken by the order to end */
	will_refuse(3, "Allocations.Get", STATUS_NOT_FOUND);
	will_answer(4, "Allocations.Get", FREED);
	(void)raise(SIGTERM);
	assert_int_equal(hold(""), HOLD_DONE);
	assert_int_equal(fake.given[4], 1);
	expect_note(false, false);
}

TEST_FIXTURE(a_server_that_never_answered_may_not_have_the_allocation, setup, NULL)
{
	for (size_t i = 0; i < 16; i++)
		will_refuse(i, i % 2 == 0 ? "Allocations.Run" : "Allocations.Get", STATUS_UNAVAILABLE);
	assert_int_equal(hold(". If the server was asked in time, allocation "), HOLD_TIMED_OUT);
}

/* An earlier process holds the volume when the disk becomes full. */
static int setup_full_disk(void **state)
{
	const struct hold_note note = {.alloc_id = "01890000-0000-7000-8000-000000000001"};
	struct error err;

	disk_is_full = false;
	if (hold_note_write(&place, &note, &err) != STATUS_OK ||
	    hold_link_make(&place, "/publish/a/0", &err) != STATUS_OK)
		return -1;
	disk_is_full = true;
	return run_setup(state);
}

static int teardown_full_disk(void **state)
{
	disk_is_full = false;
	return 0;
}

TEST_FIXTURE(a_full_disk_keeps_no_stop, setup_full_disk, teardown_full_disk)
{
	will_answer(0, "Allocations.Get", RUNNING); /* overtaken by the order to end */
	will_answer(1, "Allocations.Stop", "{}");
	will_answer(2, "Allocations.Get", FREED);
	(void)raise(SIGTERM);
	assert_int_equal(hold(""), HOLD_DONE);
	expect_request("Allocations.Stop");
	expect_note(false, false);
}

TEST_FIXTURE(a_full_disk_hides_no_reason, setup_full_disk, teardown_full_disk)
{
	will_answer(0, "Allocations.Get", STOPPED);
	assert_int_equal(hold("volume db was taken away"), HOLD_TAKEN_AWAY);
	expect_note(true, false);
	will_answer(0, "Allocations.Get", STOPPED); /* the next start waits for its end nevertheless */
	assert_int_equal(hold("was not mounted within 1 s"), HOLD_TIMED_OUT);
	expect_note(true, false);
	will_answer(0, "Allocations.Get", STOPPED);
	will_answer(1, "Allocations.Get", FREED);
	assert_int_equal(hold("note allocation "), HOLD_FAILED); /* no second one without a note */
	assert_null(strstr(fake.requests, "Allocations.Run"));
}

TEST_FIXTURE(a_start_that_takes_too_long_is_stopped_on_a_full_disk, setup_full_disk, teardown_full_disk)
{
	hold_link_remove(&place);
	for (size_t i = 0; i < 6; i++) /* each pause is half a second at least */
		will_refuse(i, "Allocations.Get", STATUS_UNAVAILABLE);
	will_answer(6, "Allocations.Get", FREED);
	will_answer(7, "Allocations.Stop", "{}");
	assert_int_equal(hold("was not mounted within 1 s"), HOLD_TIMED_OUT);
	expect_request("Allocations.Stop");
	expect_note(false, false);
}

/* Returns the socket of sd_notify(3). */
static int open_notices(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	(void)str_copy(address.sun_path, sizeof(address.sun_path), path);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(setenv("NOTIFY_SOCKET", path, 1), 0);
	return fd;
}

/* Collect the messages up to READY=1, in a process: a full socket would block the sender.
 * Returns the pipe that gets them. */
static int collect_notices(const char *path)
{
	char text[1 << 14] = "";
	size_t n = 0;
	int fds[2], fd = open_notices(path);
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		while (!strstr(text, "READY=1") && n + 1 < sizeof(text)) {
			ssize_t r = recv(fd, text + n, sizeof(text) - n - 1, 0);

			if (r <= 0)
				_exit(EXIT_FAILURE);
			n += (size_t)r;
			text[n] = '\0';
		}
		_exit(write(fds[1], text, n) == (ssize_t)n ? EXIT_SUCCESS : EXIT_FAILURE);
	}
	assert_true(pid > 0);
	(void)close(fd);
	(void)close(fds[1]);
	return fds[0];
}

/* It may have been killed before it said so. */
TEST_FIXTURE(a_holder_that_begins_again_is_ready, setup, NULL)
{
	const struct hold_note note = {.alloc_id = "01890000-0000-7000-8000-000000000001"};
	char path[64], text[1 << 10];
	struct error err;
	ssize_t n;
	int fd;

	(void)str_format(path, sizeof(path), "%s/notify", folder);
	fd = open_notices(path);
	assert_int_equal(hold_note_write(&place, &note, &err), STATUS_OK);
	assert_int_equal(hold_link_make(&place, "/publish/a/0", &err), STATUS_OK);
	will_answer(0, "Allocations.Get", FREED);
	assert_int_equal(hold("was taken away"), HOLD_TAKEN_AWAY);
	(void)unsetenv("NOTIFY_SOCKET");
	n = recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT); /* the first one */
	text[n > 0 ? n : 0] = '\0';
	(void)close(fd);
	assert_int_equal(unlink(path), 0);
	assert_string_equal(text, "READY=1");
}

TEST_FIXTURE(a_unit_waits_in_the_queue_longer_than_its_time_limits, setup, NULL)
{
	char path[64], notices[1 << 14];
	ssize_t n;
	int fd;

	(void)str_format(path, sizeof(path), "%s/notify", folder);
	fd = collect_notices(path);
	wait_ms = 3600 * 1000;
	will_answer(0, "Allocations.Run", ACCEPTED);
	will_answer(1, "Allocations.Get", QUEUED);
	for (size_t i = 2; i < 8; i++) /* each pause is half a second at least */
		will_refuse(i, "Allocations.Get", STATUS_UNAVAILABLE);
	will_answer(8, "Allocations.Get", PENDING);
	will_answer(9, "Allocations.Get", RUNNING);
	will_answer(10, "Allocations.Get", FREED);
	assert_int_equal(hold("was taken away"), HOLD_TAKEN_AWAY);
	expect_request("\"wait_ms\":3600000");
	n = read(fd, notices, sizeof(notices) - 1);
	notices[n > 0 ? n : 0] = '\0';
	assert_non_null(strstr(notices, "EXTEND_TIMEOUT_USEC=61000000"));
	assert_non_null(strstr(notices, "waits for volume db"));
	(void)unsetenv("NOTIFY_SOCKET");
	(void)close(fd);
	(void)wait(NULL);
	assert_int_equal(unlink(path), 0);
	wait_ms = 0;
}

/* A restore of an older backup; then the volume is free, and its mount fails again and again. */
TEST_FIXTURE(an_allocation_that_the_server_lost_while_it_waited_is_mounted_in_time, setup, NULL)
{
	wait_ms = 3600 * 1000;
	mount_is_gone = true;
	will_answer(0, "Allocations.Run", ACCEPTED);
	will_answer(1, "Allocations.Get", QUEUED);
	will_refuse(2, "Allocations.Get", STATUS_NOT_FOUND);
	will_answer(3, "Allocations.Run", PENDING);
	for (size_t i = 4; i < 8; i++) /* each pause is half a second at least */
		will_refuse(i, "Allocations.Get", STATUS_UNAVAILABLE);
	will_answer(8, "Allocations.Get", FREED);
	will_answer(9, "Allocations.Stop", "{}");
	assert_int_equal(hold("was not mounted within 1 s"), HOLD_TIMED_OUT);
	mount_is_gone = false;
	expect_note(false, false);
	wait_ms = 0;
}

TEST_FIXTURE(an_allocation_that_is_stopped_while_it_waits_is_released_in_time, setup, NULL)
{
	struct hold_note note;
	struct error err;

	wait_ms = 3600 * 1000;
	will_answer(0, "Allocations.Run", ACCEPTED);
	will_answer(1, "Allocations.Get", QUEUED);
	will_answer(2, "Allocations.Get", STOPPED);
	for (size_t i = 3; i < 7; i++)
		will_refuse(i, "Allocations.Get", STATUS_UNAVAILABLE);
	will_answer(7, "Allocations.Get", FREED);
	assert_int_equal(hold("was not mounted, allocation"), HOLD_FAILED);
	assert_int_equal(hold_note_read(&place, &note, &err), STATUS_OK);
	assert_true(note.is_ending); /* it has not seen the end */
	wait_ms = 0;
}

TEST_FIXTURE(a_wait_that_is_over_is_refused_with_the_server_s_reason, setup, NULL)
{
	wait_ms = 1000;
	will_answer(0, "Allocations.Run", ACCEPTED);
	will_answer(1, "Allocations.Get", QUEUED);
	will_answer(2, "Allocations.Get", EXPIRED);
	assert_int_equal(hold("its time to wait is over"), HOLD_NOT_AVAILABLE);
	expect_note(false, false);
	wait_ms = 0;
}

TEST_FIXTURE(a_stop_while_it_waits_leaves_the_queue, setup, NULL)
{
	wait_ms = 1000;
	will_answer(0, "Allocations.Run", ACCEPTED);
	will_answer(1, "Allocations.Stop", "{}");
	will_answer(2, "Allocations.Get", FREED);
	(void)raise(SIGTERM);
	assert_int_equal(hold(""), HOLD_DONE);
	expect_note(false, false);
	wait_ms = 0;
}

TEST_GROUP(begin, end)

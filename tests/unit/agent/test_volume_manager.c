/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_helper_client.h"
#include "unit.h"
#include "unit_loop.h"

#include "base/clock.h"
#include "kernel/path_look.h"
#include "log/log.h"
#include "volume/manager.h"

#include <signal.h>

#define ALLOC_A "0190a5a0-0000-7000-8000-0000000000a1"
#define ALLOC_B "0190a5a0-0000-7000-8000-0000000000b2"

enum { RESULTS_MAX = 16 };

struct fixture {
	struct fake_helper fake;
	sd_event *event;
	struct helper_client *helper;
	struct volume_manager *manager;
	bool in_use;
	char asked[UUID_TEXT_SIZE]; /* allocation that in_use was last asked about */
	unsigned int ready, n_done, retries;
	struct result {
		const char *name;
		enum status status;
		char path[ALLOC_PATH_MAX + 1], why[sizeof(((struct error *)0)->msg)];
	} results[RESULTS_MAX];
};

struct request {
	struct fixture *f;
	const char *name;
	struct volume_op *task;
};

uint64_t __real_clock_monotonic_us(void);

static enum path_state seen_state; /* what a look at any path gives */
static int seen_errno;		   /* likewise, of one that fails */
static uint64_t ahead_us;	   /* by which the clock of the process goes wrong */

WRAPPED(uint64_t, clock_monotonic_us, void)
{
	return __real_clock_monotonic_us() + ahead_us;
}

/* Every mount is as the model made it: its first device. */
WRAPPED(void, path_look, const char *path, struct path_seen *ret)
{
	*ret = (struct path_seen){
		.state = seen_state,
		.sys_errno = seen_state == PATH_MOUNTED ? 0 : seen_errno,
		.view = {.dev_minor = 100, .is_nosuid = true, .is_nodev = true, .is_noexec = true}};
}

/* What was told of the mount helper's records: "stage mount-staged v 1;". */
static char told[1024];
static uint64_t told_record;

void __wrap_log_ctx(int priority, const struct log_ctx *ctx, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

void __wrap_log_ctx(int priority, const struct log_ctx *ctx, const char *fmt, ...)
{
	size_t n = strlen(told);

	if (!ctx || !ctx->relayed)
		return;
	assert_string_equal(ctx->relayed, "holdfast-mounthelper");
	told_record = ctx->record;
	assert_true(str_format(told + n, sizeof(told) - n, "%s %s %s%s%s;", ctx->op,
			       log_event_info(ctx->event)->name, ctx->volume ? ctx->volume : "-",
			       ctx->relayed_reason ? " " : "",
			       ctx->relayed_reason ? ctx->relayed_reason : "") > 0);
	assert_int_equal(priority, ctx->err ? LOG_WARNING : LOG_INFO);
}

static bool in_use(const char *wire_volume, enum volume_use use, const char *alloc_id, uint8_t slot,
		   void *userdata)
{
	struct fixture *f = userdata;

	(void)str_copy(f->asked, sizeof(f->asked), alloc_id);
	return f->in_use;
}

static void on_stale(void *userdata)
{
}

static void on_ready(pid_t pid, void *userdata)
{
	((struct fixture *)userdata)->ready++;
}

static void on_down(const struct error *err, void *userdata)
{
}

static void on_done(const struct volume_mounted *mounted, const struct error *err, void *userdata)
{
	struct request *request = userdata;
	struct result *result = &request->f->results[request->f->n_done++];

	*result = (struct result){.name = request->name, .status = err ? err->status : STATUS_OK};
	if (err)
		(void)str_copy(result->why, sizeof(result->why), err->msg);
	if (mounted)
		(void)str_copy(result->path, sizeof(result->path), mounted->path);
	request->task = NULL;
}

static void on_retry(const struct error *err, void *userdata)
{
	((struct request *)userdata)->f->retries++;
}

static void begin(struct fixture *f, unsigned int instances, uint64_t timeout_us)
{
	static const struct helper_client_events events = {
		.on_ready = on_ready, .on_down = on_down, .on_stale = on_stale};
	struct helper_client_options options = {.instances = instances,
						.start_timeout_us = 5 * USEC_PER_SEC,
						.request_timeout_us = timeout_us};
	sigset_t set;
	struct error err;

	seen_state = PATH_MOUNTED;
	seen_errno = ENOTCONN;
	told[0] = '\0';
	ahead_us = 0;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	assert_int_equal(sigprocmask(SIG_BLOCK, &set, NULL), 0);
	fake_helper_init(&f->fake);
	options.launch.path = f->fake.path;
	assert_true(sd_event_new(&f->event) >= 0);
	assert_int_equal(helper_client_new(f->event, &options, &events, f, &f->helper, &err), STATUS_OK);
	assert_int_equal(volume_manager_new(f->event, f->helper, in_use, f, &f->manager, &err), STATUS_OK);
	assert_int_equal(helper_client_start(f->helper, &err), STATUS_OK);
}

UNIT_SETUP(setup, struct fixture, f)
{
	begin(f, HELPER_POOL_DEFAULT, 5 * USEC_PER_SEC);
}

UNIT_SETUP(setup_one_hasty, struct fixture, f)
{
	begin(f, 1, USEC_PER_SEC);
}

UNIT_TEARDOWN(teardown, struct fixture, f)
{
	assert_string_equal(f->fake.state->violation, "");
	helper_client_free(f->helper);
	volume_manager_free(f->manager);
	sd_event_unref(f->event);
	fake_helper_release(&f->fake);
}

static void run_until(struct fixture *f, const unsigned int *counter, unsigned int n)
{
	uint64_t end = __real_clock_monotonic_us() + 30 * USEC_PER_SEC;

	while (*counter < n) {
		assert_true(__real_clock_monotonic_us() < end);
		assert_true(sd_event_run(f->event, 100 * USEC_PER_MSEC) >= 0);
	}
}

static struct volume_target target(const char *volume, const char *alloc)
{
	struct volume_target t = {.profile = "p",
				  .source = {.class = SOURCE_TMPFS, .size_bytes = 1, .inodes = 1}};

	(void)str_copy(t.volume_id, sizeof(t.volume_id), volume);
	(void)str_copy(t.wire_volume, sizeof(t.wire_volume), volume);
	(void)str_copy(t.alloc_id, sizeof(t.alloc_id), alloc);
	return t;
}

static void mount(struct request *request, const char *volume, const char *alloc)
{
	struct volume_target t = target(volume, alloc);
	struct error err;

	assert_ok(volume_manager_mount(request->f->manager, &t, on_done, request, &request->task, &err));
}

static void unmount(struct request *request, const char *volume, const char *alloc)
{
	struct volume_target t = target(volume, alloc);
	struct error err;

	assert_ok(volume_manager_unmount(request->f->manager, &t, on_done, on_retry, NULL, request,
					 &request->task, &err));
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup, teardown)

CASE(nothing_is_sent_before_the_first_mount_snapshot)
{
	struct request a = {.f = f, .name = "a"};

	mount(&a, "v", ALLOC_A);
	run_until(f, &f->ready, 1);
	for (int i = 0; i < 20; i++)
		assert_true(sd_event_run(f->event, 5 * USEC_PER_MSEC) >= 0);
	assert_int_equal(f->fake.state->calls, 0);
	assert_string_equal(volume_op_info(a.task).step, "queued");
	volume_manager_set_observed(f->manager, mount_snapshot_new());
	run_until(f, &f->n_done, 1);
	assert_int_equal(f->results[0].status, STATUS_OK);
	assert_string_equal(f->results[0].path, FAKE_PUBLISH_BASE "/" ALLOC_A "/0");
}

CASE(the_mount_snapshot_follows_each_operation)
{
	struct request a = {.f = f, .name = "a"};
	const struct mount_snapshot *observed;

	volume_manager_set_observed(f->manager, mount_snapshot_new());
	observed = volume_manager_observed(f->manager);
	mount(&a, "v", ALLOC_A);
	run_until(f, &f->n_done, 1);
	assert_int_equal(mount_snapshot_staged(observed, "v")->dev_minor, 100);
	assert_int_equal(mount_snapshot_published(observed, ALLOC_A, 0)->dev_minor, 100);
	unmount(&a, "v", ALLOC_A);
	run_until(f, &f->n_done, 2);
	assert_null(mount_snapshot_staged(observed, "v"));
	assert_null(mount_snapshot_published(observed, ALLOC_A, 0));
	assert_string_equal(f->asked, ALLOC_A);
}

TEST_ON(a_mount_that_waited_only_for_others_is_tried_again, struct fixture, f, setup_one_hasty, teardown)
{
	struct request a = {.f = f, .name = "a"}, b = {.f = f, .name = "b"};

	f->fake.state->fault = FAKE_HANG;
	f->fake.state->fault_call = f->fake.state->fault_calls = 1;
	volume_manager_set_observed(f->manager, mount_snapshot_new());
	mount(&a, "v", ALLOC_A);
	mount(&b, "w", ALLOC_B);
	RUN_UNTIL(f->event, volume_op_info(b.task).next_try_ms > 0);
	run_until(f, &f->n_done, 2);
	assert_int_equal(f->results[0].status, STATUS_DEADLINE_EXCEEDED);
	assert_string_equal(f->results[1].name, "b");
	assert_int_equal(f->results[1].status, STATUS_OK);
}

/* Two of them, as their file systems may hang, and a volume of another profile behind. */
static void unmount_two(struct fixture *f, enum volume_type type, enum source_class class)
{
	struct request a = {.f = f, .name = "a"}, b = {.f = f, .name = "b"}, c = {.f = f, .name = "c"};
	struct volume_target one = target("v", ALLOC_A), two = target("w", ALLOC_B);
	struct error err;

	one.type = two.type = type;
	one.source.class = two.source.class = class;
	f->fake.state->fault = FAKE_WAIT;
	f->fake.state->fault_call = f->fake.state->fault_calls = 1;
	(void)str_copy(f->fake.state->fault_volume, sizeof(f->fake.state->fault_volume), "v");
	volume_manager_set_observed(f->manager, mount_snapshot_new());
	assert_ok(volume_manager_unmount(f->manager, &one, on_done, on_retry, NULL, &a, &a.task, &err));
	assert_ok(volume_manager_unmount(f->manager, &two, on_done, on_retry, NULL, &b, &b.task, &err));
	mount(&c, "x", ALLOC_A);
	run_until(f, &f->n_done, 1);
	assert_string_equal(f->results[0].name, "c");
	assert_int_equal(fake_helper_count(&f->fake, MH_OP_UNPUBLISH, MH_ALREADY, NULL, NULL), 0);
}

CASE(volumes_of_one_plugin_leave_a_helper_to_others)
{
	unmount_two(f, VOLUME_CSI, SOURCE_UNSPECIFIED);
}

CASE(volumes_of_one_host_volume_leave_a_helper_to_others)
{
	unmount_two(f, VOLUME_NATIVE, SOURCE_BIND);
}

CASE(a_silent_nfs_server_delays_others_by_one_call)
{
	static const char *const names[] = {"v1", "v2", "v3", "x"};
	struct request requests[ARRAY_SIZE(names)] = {0};
	struct error err;

	f->fake.state->fault = FAKE_DIE_BEFORE;
	f->fake.state->fault_call = 1;
	f->fake.state->fault_calls = 1000;
	(void)str_copy(f->fake.state->fault_volume, sizeof(f->fake.state->fault_volume), "v");
	run_until(f, &f->ready, HELPER_POOL_DEFAULT);
	volume_manager_set_observed(f->manager, mount_snapshot_new());
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct volume_target one = target(names[i], ALLOC_A);

		one.type = VOLUME_NATIVE;
		one.source.class = SOURCE_NFS4;
		(void)str_copy(one.source.server, sizeof(one.source.server),
			       names[i][0] == 'v' ? "192.0.2.1" : "192.0.2.2");
		requests[i] = (struct request){.f = f, .name = names[i]};
		assert_ok(volume_manager_unmount(f->manager, &one, on_done, on_retry, NULL, &requests[i],
						 &requests[i].task, &err));
	}
	run_until(f, &f->n_done, 1);
	assert_string_equal(f->results[0].name, "x");
	assert_int_equal(f->fake.state->starts, HELPER_POOL_DEFAULT + 2);
}

CASE(helper_records_are_relayed_to_the_journal)
{
	struct request a = {.f = f, .name = "a"};

	run_until(f, &f->ready, 1);
	assert_int_equal(strncmp(told, "start helper-started -;", strlen("start helper-started -;")), 0);
	for (unsigned int n = 1; n < HELPER_POOL_DEFAULT; n++)
		run_until(f, &f->ready, n + 1);
	told[0] = '\0';
	volume_manager_set_observed(f->manager, mount_snapshot_new());
	mount(&a, "v", ALLOC_A);
	run_until(f, &f->n_done, 1);
	assert_string_equal(told, "stage mount-staged v;publish mount-published v;");
	assert_int_equal(told_record, f->fake.state->calls);
	told[0] = '\0';
	f->fake.state->busy_unstage = 1;
	unmount(&a, "v", ALLOC_A);
	run_until(f, &f->n_done, 2);
	assert_string_equal(
		told, "unpublish mount-unpublished v;unstage mount-failed v;unpublish mount-unpublished v;"
		      "unstage mount-unstaged v;");
	told[0] = '\0';
	helper_client_restart(f->helper);
	run_until(f, &f->ready, HELPER_POOL_DEFAULT + 1);
	assert_int_equal(strncmp(told, "stop helper-stopped -;start helper-started -;",
				 strlen("stop helper-stopped -;start helper-started -;")),
			 0);
}

CASE(operations_of_one_volume_come_one_after_another)
{
	struct request a = {.f = f, .name = "a"}, b = {.f = f, .name = "b"}, c = {.f = f, .name = "c"};
	static const uint16_t order[] = {MH_OP_STAGE,	MH_OP_PUBLISH, MH_OP_UNPUBLISH,
					 MH_OP_UNSTAGE, MH_OP_STAGE,   MH_OP_PUBLISH};

	volume_manager_set_observed(f->manager, mount_snapshot_new());
	mount(&a, "v", ALLOC_A);
	unmount(&b, "v", ALLOC_A);
	mount(&c, "v", ALLOC_B);
	run_until(f, &f->n_done, 3);
	assert_string_equal(f->results[0].name, "a");
	assert_string_equal(f->results[1].name, "b");
	for (size_t i = 0; i < sizeof(order) / sizeof(*order); i++)
		assert_int_equal(f->fake.state->log[i].op, order[i]);
}

CASE(an_operation_between_attempts_lets_others_go_first)
{
	struct request a = {.f = f, .name = "a"}, b = {.f = f, .name = "b"}, c = {.f = f, .name = "c"};

	volume_manager_set_observed(f->manager, mount_snapshot_new());
	mount(&a, "v", ALLOC_A);
	run_until(f, &f->n_done, 1);
	f->fake.state->busy_unpublish = 1;
	f->in_use = true;
	unmount(&b, "v", ALLOC_A);
	mount(&c, "v", ALLOC_B);
	run_until(f, &f->n_done, 3);
	assert_int_equal(f->retries, 1);
	assert_string_equal(f->results[1].name, "c");
	assert_string_equal(f->results[2].name, "b");
	assert_int_equal(fake_helper_count(&f->fake, MH_OP_UNSTAGE, MH_OK, NULL, NULL), 0);
}

static void run_until_staging(struct fixture *f, const struct request *request)
{
	uint64_t end = __real_clock_monotonic_us() + 30 * USEC_PER_SEC;

	while (request->task && !str_eq(volume_op_info(request->task).step, "stage")) {
		assert_msg(__real_clock_monotonic_us() <= end, "%s waited in vain to be staged",
			   request->name);
		assert_true(sd_event_run(f->event, 100 * USEC_PER_MSEC) >= 0);
	}
	assert_msg(request->task, "%s ended before it was seen to be staged", request->name);
}

CASE(a_mount_that_is_not_wanted_any_more_ends_early)
{
	struct request a = {.f = f, .name = "a"}, b = {.f = f, .name = "b"};

	volume_manager_set_observed(f->manager, mount_snapshot_new());
	mount(&a, "v", ALLOC_A);
	mount(&b, "v", ALLOC_B);
	run_until_staging(f, &a);
	volume_op_cancel(a.task);
	volume_op_cancel(b.task);
	run_until(f, &f->n_done, 2);
	assert_int_equal(f->results[0].status, STATUS_CANCELLED);
	assert_int_equal(f->results[1].status, STATUS_CANCELLED);
	assert_int_equal(f->fake.state->calls, 1);
}

static unsigned int sent_away(struct fixture *f, enum mh_op op)
{
	return fake_helper_count(&f->fake, op, MH_BUSY, NULL, NULL);
}

static void run_until_sent_away(struct fixture *f, struct request *request, enum mh_op op, unsigned int n)
{
	uint64_t end = __real_clock_monotonic_us() + 30 * USEC_PER_SEC;

	while (sent_away(f, op) < n || !request->task || volume_op_info(request->task).next_try_ms == 0) {
		assert_true(__real_clock_monotonic_us() < end);
		assert_true(sd_event_run(f->event, 100 * USEC_PER_MSEC) >= 0);
	}
}

CASE(a_mount_waits_for_another_instance_at_work_on_its_volume)
{
	struct request a = {.f = f, .name = "a"};
	struct volume_op_info info;

	volume_manager_set_observed(f->manager, mount_snapshot_new());
	f->fake.state->locked = 1;
	mount(&a, "v", ALLOC_A);
	run_until_sent_away(f, &a, MH_OP_STAGE, 1);
	info = volume_op_info(a.task);
	assert_string_equal(info.step, "stage");
	assert_non_null(strstr(info.last_error, "another instance of the mount helper"));
	run_until(f, &f->n_done, 1);
	assert_int_equal(f->results[0].status, STATUS_OK);
	assert_int_equal(f->fake.state->calls, 3);
}

/* The last attempt is made before its patience is over. */
CASE(a_mount_waits_for_another_instance_no_longer_than_its_patience)
{
	static const struct {
		uint64_t after_ms;
		bool is_tried_again;
	} rows[] = {{VOLUME_MOUNT_PATIENCE_MS - 10000, true}, {VOLUME_MOUNT_PATIENCE_MS, false}};

	volume_manager_set_observed(f->manager, mount_snapshot_new());
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct request a = {.f = f, .name = "a"};

		ahead_us = 0;
		f->fake.state->locked = 2;
		mount(&a, i == 0 ? "v" : "w", ALLOC_A);
		run_until_sent_away(f, &a, MH_OP_STAGE, 2 * (unsigned int)i + 1);
		ahead_us = rows[i].after_ms * USEC_PER_MSEC;
		run_until(f, &f->n_done, (unsigned int)i + 1);
		assert_int_equal(f->results[i].status != STATUS_ABORTED, rows[i].is_tried_again);
	}
	assert_non_null(strstr(f->results[1].why, "/proc/PID/stack"));
}

CASE(a_mount_that_waits_for_another_instance_is_cancelled_at_once)
{
	struct request a = {.f = f, .name = "a"};

	volume_manager_set_observed(f->manager, mount_snapshot_new());
	f->fake.state->locked = UINT32_MAX;
	mount(&a, "v", ALLOC_A);
	run_until_sent_away(f, &a, MH_OP_STAGE, 1);
	volume_op_cancel(a.task);
	run_until(f, &f->n_done, 1);
	assert_int_equal(f->results[0].status, STATUS_CANCELLED);
	assert_int_equal(sent_away(f, MH_OP_STAGE), 1);
}

CASE(one_that_was_cancelled_while_it_asked_does_not_wait)
{
	struct request a = {.f = f, .name = "a"};

	volume_manager_set_observed(f->manager, mount_snapshot_new());
	f->fake.state->locked = UINT32_MAX;
	mount(&a, "v", ALLOC_A);
	run_until_staging(f, &a);
	volume_op_cancel(a.task);
	run_until(f, &f->n_done, 1);
	assert_int_equal(f->results[0].status, STATUS_CANCELLED);
	assert_int_equal(sent_away(f, MH_OP_STAGE), 1);
}

/* What the other instance has done meanwhile is in no mount snapshot of ours. */
CASE(an_unmount_looks_again_after_another_instance)
{
	struct request a = {.f = f, .name = "a"};
	const struct mount_snapshot *observed;

	f->in_use = true; /* so that it stays staged */
	for (unsigned int i = 0; i <= 1; i++) {
		volume_manager_set_observed(f->manager, mount_snapshot_new());
		observed = volume_manager_observed(f->manager);
		f->fake.state->locked = i;
		if (i == 0)
			fake_helper_put(&f->fake, "v", "", 0, 77);
		unmount(&a, "v", ALLOC_A);
		run_until(f, &f->n_done, i + 1);
		assert_int_equal(f->results[i].status, STATUS_OK);
		assert_int_equal(fake_helper_count(&f->fake, MH_OP_LIST, MH_OK, "v", NULL), i);
		assert_int_equal(mount_snapshot_staged(observed, "v") != NULL, i == 1);
	}
	assert_int_equal(mount_snapshot_staged(observed, "v")->dev_minor, 77);
}

CASE(volumes_are_scheduled_in_the_order_of_the_requests)
{
	struct request requests[] = {{.f = f, .name = "z"}, {.f = f, .name = "m"}, {.f = f, .name = "a"}};
	uint64_t end = __real_clock_monotonic_us() + 30 * USEC_PER_SEC;
	size_t begun = 0;

	for (size_t i = 0; i < sizeof(requests) / sizeof(*requests); i++)
		mount(&requests[i], requests[i].name, ALLOC_A);
	volume_manager_set_observed(f->manager, mount_snapshot_new());
	while (begun < sizeof(requests) / sizeof(*requests)) {
		assert_msg(__real_clock_monotonic_us() <= end, "%s was never scheduled",
			   requests[begun].name);
		assert_true(sd_event_run(f->event, 100 * USEC_PER_MSEC) >= 0);
		while (begun < sizeof(requests) / sizeof(*requests) &&
		       (!requests[begun].task ||
			!str_eq(volume_op_info(requests[begun].task).step, "queued")))
			begun++;
		for (size_t i = begun; i < sizeof(requests) / sizeof(*requests); i++)
			assert_string_equal(volume_op_info(requests[i].task).step, "queued");
	}
	run_until(f, &f->n_done, 3);
}

TEST_FIXTURE(a_publish_that_cannot_be_verified_fails, setup, teardown)
{
	static const struct {
		enum path_state state;
		enum status status;
		const char *word;
	} rows[] = {
		{PATH_NOT_MOUNTED, STATUS_FAILED_PRECONDITION, "does not see it there"},
		{PATH_SILENT, STATUS_UNAVAILABLE, "does not answer within 10 s"},
		{PATH_DISCONNECTED, STATUS_UNAVAILABLE, "cannot be looked at"},
		{PATH_STALE, STATUS_UNAVAILABLE, "cannot be looked at"},
		{PATH_FAILED, STATUS_UNAVAILABLE, "cannot be looked at"},
	};
	struct fixture *f = *state;

	volume_manager_set_observed(f->manager, mount_snapshot_new());
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct request a = {.f = f, .name = "a"};

		seen_state = rows[i].state;
		mount(&a, "v", ALLOC_A);
		run_until(f, &f->n_done, (unsigned int)i + 1);
		assert_int_equal(f->results[i].status, rows[i].status);
		assert_non_null(strstr(f->results[i].why, rows[i].word));
		assert_non_null(strstr(f->results[i].why, FAKE_PUBLISH_BASE "/" ALLOC_A "/0"));
	}
}

CASE(a_publish_that_no_thread_was_free_to_look_at_is_looked_at_again)
{
	struct request a = {.f = f, .name = "a"};

	seen_state = PATH_FAILED;
	seen_errno = EBUSY;
	volume_manager_set_observed(f->manager, mount_snapshot_new());
	mount(&a, "v", ALLOC_A);
	RUN_UNTIL(f->event, f->n_done > 0 || volume_op_info(a.task).next_try_ms > 0);
	assert_int_equal(f->n_done, 0);
	assert_string_equal(volume_op_info(a.task).step, "verify");
	seen_state = PATH_MOUNTED;
	run_until(f, &f->n_done, 1);
	assert_int_equal(f->results[0].status, STATUS_OK);
	seen_state = PATH_FAILED;
	mount(&a, "w", ALLOC_B);
	RUN_UNTIL(f->event, volume_op_info(a.task).next_try_ms > 0);
	volume_op_cancel(a.task);
	run_until(f, &f->n_done, 2);
	assert_int_equal(f->results[1].status, STATUS_CANCELLED);
}

CASE(operations_are_bounded)
{
	struct request a = {.f = f, .name = "a"};
	struct volume_target t = target("v", ALLOC_A);
	struct error err;

	for (int i = 0; i < VOLUME_OPS_MAX; i++)
		mount(&a, "v", ALLOC_A);
	assert_int_equal(volume_manager_mount(f->manager, &t, on_done, &a, &a.task, &err),
			 STATUS_RESOURCE_EXHAUSTED);
}

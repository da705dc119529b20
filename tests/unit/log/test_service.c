/* SPDX-License-Identifier: Apache-2.0 */
/* What a service manager hears, which is a socket here. */

#include "temp_dir.h"
#include "unit.h"

#include "base/clock.h"
#include "log/service.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <systemd/sd-event.h>

enum { TURN_US = 2000000, FLOOD_MAX = 100000 };

struct fixture {
	char dir[TEMP_DIR_SIZE];
	int manager;
	sd_event *event;
	struct service_status *status;
	const char *text;
	char heard[2048];
};

static void write_text(char *dst, size_t size, void *userdata)
{
	const struct fixture *f = userdata;

	(void)str_copy(dst, size, f->text);
}

UNIT_SETUP(setup, struct fixture, f)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char path[TEMP_PATH_SIZE];
	struct error err;

	temp_dir_make(f->dir);
	(void)temp_dir_path(path, f->dir, "notify");
	assert_int_equal(str_copy(address.sun_path, sizeof(address.sun_path), path), 0);
	f->manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(f->manager, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(setenv("NOTIFY_SOCKET", path, 1), 0);
	assert_int_equal(sd_event_new(&f->event), 0);
	f->text = "well";
	assert_int_equal(service_status_new(f->event, write_text, f, &f->status, &err), STATUS_OK);
}

static int teardown(void **state)
{
	cleanup_free struct fixture *f = *state;

	service_status_free(f->status);
	sd_event_unref(f->event);
	close(f->manager);
	temp_dir_remove(f->dir);
	return unsetenv("NOTIFY_SOCKET");
}

/* The next message, or "" when there is none. */
static const char *hear(struct fixture *f)
{
	ssize_t n = recv(f->manager, f->heard, sizeof(f->heard) - 1, MSG_DONTWAIT);

	f->heard[n > 0 ? n : 0] = '\0';
	return f->heard;
}

static int on_nothing(sd_event_source *source, void *userdata)
{
	return 0;
}

/* Something happens in the daemon. */
static void happen(struct fixture *f)
{
	sd_event_source *source = NULL;

	assert_true(sd_event_add_defer(f->event, &source, on_nothing, NULL) >= 0);
	while (sd_event_run(f->event, 0) > 0)
		;
	sd_event_source_unref(source);
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup, teardown)

CASE(a_status_is_reported_after_an_event_and_only_when_it_changed)
{
	happen(f);
	assert_string_equal(hear(f), "STATUS=well\n");
	happen(f);
	assert_string_equal(hear(f), "");
	f->text = "not\nwell";
	happen(f); /* too soon */
	assert_string_equal(hear(f), "");
	assert_true(sd_event_run(f->event, TURN_US) > 0);
	assert_string_equal(hear(f), "STATUS=not well\n"); /* of one line */
	f->text = "cut \xe5\xad";
	service_status_notify(f->status, "");
	assert_string_equal(hear(f), "STATUS=cut ??\n");
	assert_string_equal(hear(f), "");
}

CASE(readiness_is_reported_at_once_with_the_status)
{
	service_status_notify(f->status, "READY=1\n");
	assert_string_equal(hear(f), "READY=1\nSTATUS=well\n");
	service_status_notify(f->status, "READY=1\n");
	assert_string_equal(hear(f), "READY=1\nSTATUS=well\n");
	service_status_notify(f->status, "");
	assert_string_equal(hear(f), "");
}

CASE(a_manager_that_does_not_read_is_not_waited_for_and_hears_it_later)
{
	int r = 0, n = 0;

	while ((r = service_send("STATUS=flood\n")) == 0 && n < FLOOD_MAX)
		n++;
	assert_int_equal(r, -EAGAIN);
	service_status_notify(f->status, "READY=1\n");
	while (hear(f)[0] != '\0')
		assert_string_equal(f->heard, "STATUS=flood\n");
	while (hear(f)[0] == '\0')
		assert_true(sd_event_run(f->event, TURN_US) > 0);
	assert_string_equal(f->heard, "READY=1\nSTATUS=well\n");
}

CASE(a_daemon_that_does_not_start_gives_the_reason)
{
	const struct error err = {
		.status = STATUS_NOT_FOUND, .sys_errno = ENOENT, .msg = "no key\nSTATUS=fine"};

	service_failed(&err);
	assert_string_equal(hear(f), "STATUS=no key STATUS=fine\nERRNO=2\n");
}

CASE(without_a_manager_nothing_is_reported)
{
	struct service_status *none = f->status;
	struct error err;

	assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
	assert_int_equal(service_status_new(f->event, write_text, f, &none, &err), STATUS_OK);
	assert_null(none);
	service_status_notify(none, "READY=1\n");
	assert_int_equal(service_send("STATUS=x\n"), 0);
	assert_string_equal(hear(f), "");
}

static void use_watchdog(struct fixture *f, struct service_watchdog **ret)
{
	struct error err;

	service_status_free(f->status);
	f->status = NULL;
	assert_int_equal(setenv("WATCHDOG_USEC", "30000", 1), 0);
	assert_int_equal(service_watchdog_new(f->event, ret, &err), STATUS_OK);
	assert_int_equal(unsetenv("WATCHDOG_USEC"), 0);
}

static void hear_next(struct fixture *f, const char *expected)
{
	while (hear(f)[0] == '\0')
		assert_true(sd_event_run(f->event, TURN_US) > 0);
	assert_string_equal(f->heard, expected);
}

CASE(a_watchdog_is_reported_as_long_as_the_loop_is_turned)
{
	struct service_watchdog *watchdog;

	use_watchdog(f, &watchdog);
	for (int i = 0; i < 4; i++) {
		uint64_t before_us = clock_monotonic_us();

		hear_next(f, "WATCHDOG=1\n");
		assert_string_equal(hear(f), "");
		if (i > 0) /* a third of its time: neither all the time nor only just */
			assert_true(clock_monotonic_us() - before_us > 5000);
	}
	service_watchdog_free(watchdog);
}

CASE(a_watchdog_is_made_only_on_request)
{
	struct service_watchdog *none = (void *)1;
	struct error err;

	assert_int_equal(service_watchdog_new(f->event, &none, &err), STATUS_OK);
	assert_null(none);
	service_watchdog_pause(none, 1);
	service_watchdog_resume(none);
	assert_int_equal(setenv("WATCHDOG_USEC", "soon", 1), 0);
	assert_int_equal(service_watchdog_new(f->event, &none, &err), STATUS_INTERNAL);
	assert_int_equal(unsetenv("WATCHDOG_USEC"), 0);
	service_watchdog_free(NULL);
}

CASE(a_pause_gives_the_watchdog_another_time_and_its_own_back)
{
	struct service_watchdog *watchdog;

	use_watchdog(f, &watchdog);
	service_watchdog_pause(watchdog, 30000); /* no more than it has */
	service_watchdog_pause(watchdog, 30001);
	assert_string_equal(hear(f), "WATCHDOG_USEC=30001\n");
	service_watchdog_resume(watchdog);
	assert_string_equal(hear(f), "WATCHDOG_USEC=30000\n");
	assert_string_equal(hear(f), "WATCHDOG=1\n");
	assert_string_equal(hear(f), "");
	service_watchdog_free(watchdog);
}

CASE(a_watchdog_that_does_not_read_is_not_waited_for_and_reported_again)
{
	struct service_watchdog *watchdog;

	use_watchdog(f, &watchdog);
	service_watchdog_pause(watchdog, 1000000);
	assert_string_equal(hear(f), "WATCHDOG_USEC=1000000\n");
	while (service_send("STATUS=flood\n") == 0)
		;
	service_watchdog_resume(watchdog);
	assert_true(sd_event_run(f->event, TURN_US) > 0); /* told in vain */
	while (hear(f)[0] != '\0')
		assert_string_equal(f->heard, "STATUS=flood\n");
	hear_next(f, "WATCHDOG_USEC=30000\n");
	hear_next(f, "WATCHDOG=1\n");
	service_watchdog_free(watchdog);
}

TEST(memory_is_hidden_from_other_processes_of_the_user)
{
	int how;
	pid_t pid = fork();

	if (pid == 0) {
		service_hide_memory();
		_exit(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0));
	}
	assert_int_equal(waitpid(pid, &how, 0), pid);
	assert_int_equal(how, 0);
}

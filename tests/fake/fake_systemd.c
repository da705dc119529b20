/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_systemd.h"

#include "unit.h"

#include "unit/task_bus.h"

#include <sys/socket.h>
#include <systemd/sd-bus.h>

static struct fake_systemd fake;
static sd_event *loop;
static sd_bus *server;

static struct fake_unit *find(const char *name)
{
	for (size_t i = 0; i < FAKE_UNITS; i++)
		if (str_eq(fake.units[i].name, name))
			return &fake.units[i];
	return NULL;
}

static char *path_of(const char *unit)
{
	char *path;

	assert_true(sd_bus_path_encode(SYSTEMD_PATH "/unit", unit, &path) >= 0);
	return path;
}

static void send_reply(sd_bus_message *reply)
{
	assert_true(sd_bus_message_set_sender(reply, SYSTEMD_NAME) >= 0);
	assert_true(sd_bus_send(server, reply, NULL) >= 0);
	sd_bus_message_unref(reply);
}

static void put_word(sd_bus_message *m, const char *key, const char *word)
{
	assert_true(sd_bus_message_append(m, "{sv}", key, "s", word) >= 0);
}

static void put_invocation(sd_bus_message *m, uint8_t byte)
{
	uint8_t bytes[16];

	memset(bytes, byte, sizeof(bytes));
	assert_true(sd_bus_message_open_container(m, 'e', "sv") >= 0);
	assert_true(sd_bus_message_append(m, "s", "InvocationID") >= 0);
	assert_true(sd_bus_message_open_container(m, 'v', "ay") >= 0);
	assert_true(sd_bus_message_append_array(m, 'y', bytes, byte ? sizeof(bytes) : 0) >= 0);
	assert_true(sd_bus_message_close_container(m) >= 0);
	assert_true(sd_bus_message_close_container(m) >= 0);
}

static void answer_look(sd_bus_message *call)
{
	static const struct fake_unit nothing = {.load = "not-found",
						 .active = "inactive",
						 .sub = "dead",
						 .result = "success",
						 .stop_timeout_us = 90000000};
	const struct fake_unit *unit = &nothing;
	sd_bus_message *m = NULL;

	for (size_t i = 0; i < FAKE_UNITS && fake.units[i].name[0]; i++) {
		char *path = path_of(fake.units[i].name);

		if (str_eq(path, sd_bus_message_get_path(call)))
			unit = &fake.units[i];
		free(path);
	}
	fake.looks++;
	assert_true(sd_bus_message_new_method_return(call, &m) >= 0);
	assert_true(sd_bus_message_open_container(m, 'a', "{sv}") >= 0);
	put_word(m, "Id", unit->name);
	put_word(m, "LoadState", unit->load);
	put_word(m, "ActiveState", unit->active);
	put_word(m, "SubState", unit->sub);
	put_word(m, "Result", unit->result);
	put_invocation(m, unit->invocation);
	assert_true(sd_bus_message_append(m, "{sv}", "Job", "(uo)", unit->has_job ? 7 : 0, "/job") >= 0);
	assert_true(sd_bus_message_append(m, "{sv}", "TimeoutStopUSec", "t", unit->stop_timeout_us) >= 0);
	assert_true(sd_bus_message_append(m, "{sv}", "ExecMainStatus", "i", 3) >= 0);
	assert_true(sd_bus_message_append(m, "{sv}", "Wants", "as", 2, "a", "b") >= 0);
	assert_true(sd_bus_message_close_container(m) >= 0);
	send_reply(m);
}

static void send_signal(sd_bus_message *m)
{
	assert_true(sd_bus_message_set_sender(m, fake.sender) >= 0);
	assert_true(sd_bus_send(server, m, NULL) >= 0);
	sd_bus_message_unref(m);
}

void fake_systemd_changed(struct fake_unit *unit)
{
	char *path = path_of(unit->name);
	sd_bus_message *m = NULL;

	if (server) {
		assert_true(sd_bus_message_new_signal(server, &m, path, "org.freedesktop.DBus.Properties",
						      "PropertiesChanged") >= 0);
		assert_true(sd_bus_message_append(m, "s", "org.freedesktop.systemd1.Unit") >= 0);
		assert_true(sd_bus_message_open_container(m, 'a', "{sv}") >= 0);
		put_word(m, "ActiveState", unit->active);
		put_invocation(m, unit->invocation);
		assert_true(sd_bus_message_close_container(m) >= 0);
		assert_true(sd_bus_message_append(m, "as", 0) >= 0);
		send_signal(m);
	}
	free(path);
}

void fake_systemd_set(struct fake_unit *unit, const char *active, const char *sub)
{
	unit->active = active;
	unit->sub = sub;
	fake_systemd_changed(unit);
}

static void job_path(const struct fake_unit *unit, char ret[static 64])
{
	(void)snprintf(ret, 64, SYSTEMD_PATH "/job/%u", unit->starts + 1000 * unit->stops);
}

void fake_systemd_job_done(struct fake_unit *unit, const char *result)
{
	sd_bus_message *m = NULL;
	char job[64];

	unit->has_job = false;
	job_path(unit, job);
	if (!server)
		return;
	assert_true(sd_bus_message_new_signal(server, &m, SYSTEMD_PATH, SYSTEMD_MANAGER, "JobRemoved") >= 0);
	assert_true(sd_bus_message_append(m, "uoss", 7, job, unit->name, result) >= 0);
	send_signal(m);
}

static void answer_error(sd_bus_message *call, const char *name)
{
	const sd_bus_error error = SD_BUS_ERROR_MAKE_CONST(name, "it is so");
	sd_bus_message *m = NULL;

	assert_true(sd_bus_message_new_method_error(call, &m, &error) >= 0);
	send_reply(m);
}

static void answer_job(sd_bus_message *call, const struct fake_unit *unit)
{
	sd_bus_message *m = NULL;
	char job[64];

	job_path(unit, job);
	assert_true(sd_bus_message_new_method_return(call, &m) >= 0);
	assert_true(sd_bus_message_append(m, "o", job) >= 0);
	send_reply(m);
}

static void start(sd_bus_message *call, struct fake_unit *unit, const char *mode)
{
	assert_string_equal(mode, "fail");
	unit->starts++;
	if (unit->is_mute)
		return;
	if (unit->refuse_start) {
		answer_error(call, unit->refuse_start);
		return;
	}
	answer_job(call, unit);
	if (unit->is_condition_unmet) {
		fake_systemd_job_done(unit, "done");
		return;
	}
	unit->invocation++;
	unit->result = "success";
	fake_systemd_set(unit, unit->is_slow ? "activating" : "active", unit->is_slow ? "start" : "running");
	if (!unit->is_slow)
		fake_systemd_job_done(unit, "done");
}

static void stop(sd_bus_message *call, struct fake_unit *unit, const char *mode)
{
	assert_string_equal(mode, "replace");
	unit->stops++;
	if (unit->refuse_stop) {
		answer_error(call, unit->refuse_stop);
		return;
	}
	answer_job(call, unit);
	unit->has_job = unit->is_stubborn;
	fake_systemd_set(unit, unit->is_stubborn ? "deactivating" : "inactive", "dead");
	if (!unit->is_stubborn)
		fake_systemd_job_done(unit, "done");
}

static int on_call(sd_bus_message *call, void *userdata, sd_bus_error *error)
{
	const char *member = sd_bus_message_get_member(call), *name = NULL, *mode = NULL;
	sd_bus_message *m = NULL;
	struct fake_unit *unit;
	uint8_t type;

	assert_true(sd_bus_message_get_type(call, &type) >= 0);
	if (type != SD_BUS_MESSAGE_METHOD_CALL || fake.is_dumb)
		return 1;
	if (str_eq(member, "GetAll")) {
		answer_look(call);
		return 1;
	}
	if (str_eq(member, "Subscribe")) {
		assert_true(sd_bus_message_new_method_return(call, &m) >= 0);
		send_reply(m);
		return 1;
	}
	assert_true(sd_bus_message_read(call, "ss", &name, &mode) >= 0);
	unit = find(name);
	if (!unit)
		answer_error(call, "org.freedesktop.systemd1.NoSuchUnit");
	else if (str_eq(member, "StartUnit"))
		start(call, unit, mode);
	else if (str_eq(member, "StopUnit"))
		stop(call, unit, mode);
	else
		fail_msg("systemd is asked for %s", member);
	return 1;
}

void fake_systemd_drop(void)
{
	server = sd_bus_close_unref(server);
}

WRAPPED(int, task_bus_open, sd_bus **ret)
{
	static const sd_id128_t id = {.bytes = {1}};
	sd_bus *client = NULL;
	int fds[2];

	fake.connections++;
	if (fake.is_refusing)
		return -ECONNREFUSED;
	fake_systemd_drop();
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
	assert_true(sd_bus_new(&server) >= 0);
	assert_true(sd_bus_set_fd(server, fds[0], fds[0]) >= 0);
	assert_true(sd_bus_set_server(server, 1, id) >= 0);
	assert_true(sd_bus_set_anonymous(server, 1) >= 0);
	assert_true(sd_bus_add_filter(server, NULL, on_call, NULL) >= 0);
	assert_true(sd_bus_start(server) >= 0);
	assert_true(sd_bus_attach_event(server, loop, SD_EVENT_PRIORITY_NORMAL) >= 0);
	assert_true(sd_bus_new(&client) >= 0);
	assert_true(sd_bus_set_fd(client, fds[1], fds[1]) >= 0);
	assert_true(sd_bus_set_anonymous(client, 1) >= 0);
	assert_true(sd_bus_start(client) >= 0);
	*ret = client;
	return 0;
}

struct fake_systemd *fake_systemd_init(sd_event *event)
{
	loop = event;
	fake = (struct fake_systemd){.sender = SYSTEMD_NAME};
	return &fake;
}

void fake_systemd_release(void)
{
	fake_systemd_drop();
}

struct fake_unit *fake_systemd_add(const char *name)
{
	struct fake_unit *unit = find("");

	assert_non_null(unit);
	*unit = (struct fake_unit){.load = "loaded",
				   .active = "inactive",
				   .sub = "dead",
				   .result = "success",
				   .stop_timeout_us = 90000000};
	assert_int_equal(str_copy(unit->name, sizeof(unit->name), name), 0);
	return unit;
}

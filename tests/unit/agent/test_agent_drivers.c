/* SPDX-License-Identifier: Apache-2.0 */
/* Task drivers of a whole agent: what `holdfast agent status` shows of one that comes, is sick, dies and
 * comes back. */

#include "json_message.h"
#include "scenario.h"

#include <holdfast/driver/v1/driver.pb-c.h>
#include <sys/stat.h>

/* A driver behind the socket. */
static struct {
	struct rpc_server *server; /* NULL: it does not run */
	struct rpc_call *watch;	   /* Fingerprint */
	bool is_sick;
	char dir[TEMP_DIR_SIZE]; /* of drivers */
	char folder[TEMP_PATH_SIZE], socket[TEMP_PATH_SIZE];
} driver;

static void on_capabilities(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	reply_json(call, &holdfast__driver__v1__capabilities_response__descriptor,
		   "{'name': 'container', 'version': '4.3\\u001b', 'order_version': 1}");
}

static void on_schema(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	reply_json(call, &holdfast__driver__v1__config_schema_response__descriptor, "{}");
}

static void on_config(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	reply_json(call, &holdfast__driver__v1__set_config_response__descriptor, "{}");
}

static void send_health(void)
{
	send_json(driver.watch, &holdfast__driver__v1__fingerprint_response__descriptor,
		  driver.is_sick ? "{'health': 'HEALTH_UNHEALTHY', 'description': 'the engine is away'}"
				 : "{'health': 'HEALTH_HEALTHY'}");
}

static void on_message(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	driver.watch = call;
	send_health();
}

static void on_closed(struct rpc_call *call, void *userdata)
{
	if (driver.watch == call)
		driver.watch = NULL;
}

static void driver_start(struct world *w)
{
	static const struct rpc_stream_handlers watch_stream = {.on_message = on_message,
								.on_closed = on_closed};
	static const struct rpc_method methods[] = {
		{"Capabilities", on_capabilities},
		{"ConfigSchema", on_schema},
		{"SetConfig", on_config},
		{"Fingerprint", .stream = &watch_stream},
	};
	static const struct rpc_service service = {&holdfast__driver__v1__driver__descriptor, methods,
						   ARRAY_SIZE(methods)};

	(void)mkdir(driver.folder, 0755);
	assert_int_equal(rpc_server_new(w->event, &service, 1, NULL, NULL, &driver.server, NULL), STATUS_OK);
	assert_int_equal(rpc_server_listen_unix(driver.server, driver.socket, 0600, NULL), STATUS_OK);
}

static void driver_end(void)
{
	rpc_server_free(TAKE_PTR(driver.server));
	driver.watch = NULL;
}

/* As by SIGKILL: the socket stays. */
static void driver_kill(void)
{
	char kept[TEMP_PATH_SIZE];

	(void)temp_dir_path(kept, driver.dir, "kept");
	assert_int_equal(link(driver.socket, kept), 0);
	driver_end();
	assert_int_equal(rename(kept, driver.socket), 0);
}

static int setup(void **state)
{
	struct world *w;

	memset(&driver, 0, sizeof(driver));
	temp_dir_make(driver.dir);
	(void)temp_dir_path(driver.folder, driver.dir, "container");
	(void)temp_dir_path(driver.socket, driver.dir, "container/driver.sock");
	assert_int_equal(world_setup(state), 0);
	w = *state;
	assert_int_equal(str_copy(w->config.driver_dir, sizeof(w->config.driver_dir), driver.dir), 0);
	world_start_agent(w);
	return 0;
}

static int teardown(void **state)
{
	driver_end();
	assert_int_equal(world_teardown(state), 0);
	(void)unlink(driver.socket);
	(void)rmdir(driver.folder);
	temp_dir_remove(driver.dir);
	return 0;
}

enum { LOOK_MS = 20 };

/* What the agent's status says of its only driver. */
struct shown {
	size_t n;
	bool is_healthy;
	char name[64], version[64], reason[ERROR_MSG_MAX];
};

static struct shown shown(struct world *w)
{
	Holdfast__V1__GetAgentStatusResponse *report;
	struct shown ret = {0};

	world_idle(w, LOOK_MS); /* a report costs more than a wait */
	report = world_report(w);
	ret.n = report->n_drivers;
	if (ret.n > 0) {
		ret.is_healthy = report->drivers[0]->healthy;
		str_copy_text(ret.name, sizeof(ret.name), report->drivers[0]->name);
		str_copy_text(ret.version, sizeof(ret.version), report->drivers[0]->version);
		str_copy_text(ret.reason, sizeof(ret.reason), report->drivers[0]->reason);
	}
	protobuf_c_message_free_unpacked(&report->base, NULL);
	return ret;
}

static bool is_healthy(struct world *w)
{
	return shown(w).is_healthy;
}

static bool is_sick(struct world *w)
{
	const struct shown now = shown(w);

	return now.n == 1 && !now.is_healthy && str_eq(now.reason, "the engine is away");
}

static bool does_not_answer(struct world *w)
{
	const struct shown now = shown(w);

	return now.n == 1 && !now.is_healthy && now.reason[0] != '\0' && !is_sick(w);
}

static bool is_gone(struct world *w)
{
	return shown(w).n == 0;
}

#define CASE(name) TEST_ON(name, struct world, w, setup, teardown)

CASE(a_driver_is_shown_when_it_comes_dies_and_comes_back)
{
	assert_true(is_gone(w));
	driver_start(w);
	WORLD_UNTIL(w, is_healthy);
	assert_string_equal(shown(w).name, "container");
	assert_string_equal(shown(w).version, "4.3?");
	assert_string_equal(shown(w).reason, "");
	driver_kill();
	WORLD_UNTIL(w, does_not_answer);
	assert_string_equal(shown(w).version, "4.3?");
	driver_start(w);
	WORLD_UNTIL(w, is_healthy);
	driver_end();
	(void)unlink(driver.socket);
	assert_int_equal(rmdir(driver.folder), 0);
	WORLD_UNTIL(w, is_gone);
}

CASE(a_driver_that_gives_the_reason_it_is_not_healthy_is_shown_with_it)
{
	driver.is_sick = true;
	driver_start(w);
	WORLD_UNTIL(w, is_sick);
	driver.is_sick = false;
	send_health();
	WORLD_UNTIL(w, is_healthy);
}

static bool server_knows_none(struct world *w)
{
	return w->server.n_drivers == 0;
}

static bool server_knows_it_healthy(struct world *w)
{
	return w->server.n_drivers == 1 && w->server.driver_is_healthy;
}

static bool server_knows_it_sick(struct world *w)
{
	return w->server.n_drivers == 1 && !w->server.driver_is_healthy;
}

CASE(the_server_hears_of_each_change_of_a_driver_as_it_was_reported)
{
	driver_start(w);
	WORLD_UNTIL(w, server_knows_it_healthy);
	assert_string_equal(w->server.driver_version, "4.3\033");
	driver.is_sick = true;
	send_health();
	WORLD_UNTIL(w, server_knows_it_sick);
	driver_end();
	(void)unlink(driver.socket);
	assert_int_equal(rmdir(driver.folder), 0);
	WORLD_UNTIL(w, server_knows_none);
}

TEST_GROUP(world_group_setup, world_group_teardown)

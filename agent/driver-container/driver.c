/* SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"

#include "offer.h"
#include "policy.h"
#include "task_spec.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/parse.h"
#include "base/str.h"
#include "log/log.h"
#include "log/service.h"
#include "model/alloc.h"
#include "model/order.h"
#include "rpc/scrape.h"

#include <errno.h>
#include <holdfast/driver/v1/driver.pb-c.h>
#include <pwd.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define BOOT_ID_PATH "/proc/sys/kernel/random/boot_id"

enum { BOOT_ID_FILE_MAX = 64, SOCKET_MODE = 0660, CONNECTIONS_MAX = 64, FILES_BESIDE = 768 };

_Static_assert(DRIVER_WAITS_MAX >= NODE_ALLOCS_MAX * ALLOC_TASKS_MAX, "each task of a node is waited for");

static void on_capabilities(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	static struct offer offer;
	struct driver *driver = userdata;

	offer_fill(&offer, driver->settings);
	rpc_call_reply(call, &offer.response.base);
}

static void on_schema(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	Holdfast__Driver__V1__ConfigSchemaResponse response =
		HOLDFAST__DRIVER__V1__CONFIG_SCHEMA_RESPONSE__INIT;
	Holdfast__Driver__V1__ConfigField *fields[32];
	Holdfast__Driver__V1__ConfigField *const *schema = task_spec_schema(&response.n_task);

	for (size_t i = 0; i < response.n_task; i++)
		fields[i] = schema[i];
	response.task = fields;
	rpc_call_reply(call, &response.base);
}

/* Refuses all settings, because they are in root's file only. */
static void on_set_config(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	const Holdfast__Driver__V1__SetConfigRequest *config =
		(const Holdfast__Driver__V1__SetConfigRequest *)request;
	Holdfast__Driver__V1__SetConfigResponse response = HOLDFAST__DRIVER__V1__SET_CONFIG_RESPONSE__INIT;
	struct driver *driver = userdata;
	struct error err;

	if (config->n_config == 0) {
		rpc_call_reply(call, &response.base);
		return;
	}
	(void)error_set(&err, STATUS_INVALID_ARGUMENT, 0,
			"driver container: there is no setting '%.64s'; %s lists the settings",
			config->config[0]->key, driver->settings->path);
	rpc_call_fail(call, &err);
}

const struct rpc_method driver_methods[] = {
	{"Fingerprint", .stream = &fingerprint_stream},
	{"Capabilities", on_capabilities},
	{"ConfigSchema", on_schema},
	{"SetConfig", on_set_config},
	{"StartTask", task_start},
	{"RecoverTask", task_recover},
	{"WaitTask", task_wait, .on_gone = task_wait_gone},
	{"InspectTask", task_inspect},
	{"TaskStats", .stream = &stats_stream},
	{"SignalTask", task_signal},
	{"StopTask", task_stop},
	{"DestroyTask", task_destroy},
	{"CreateNetwork", network_create},
	{"DestroyNetwork", network_destroy},
	{"ExecTask", exec_task, .on_gone = exec_task_gone},
	{"ExecTaskStreaming", .stream = &exec_stream},
	{"TaskLogs", .stream = &logs_stream},
	{"RestartTask", task_restart},
};
const size_t driver_n_methods = ARRAY_SIZE(driver_methods);

static const struct rpc_service services[] = {
	{&holdfast__driver__v1__driver__descriptor, driver_methods, ARRAY_SIZE(driver_methods)}};

static enum status gate(struct rpc_call *call, const char *service, const struct rpc_method *method,
			const ProtobufCMessage *request, void *userdata, struct error *err)
{
	const struct driver *driver = userdata;
	const struct rpc_peer *peer = rpc_call_peer(call);

	if (peer->kind == RPC_PEER_UNIX && (peer->uid == 0 || peer->uid == driver->agent_uid))
		return STATUS_OK;
	return error_set(err, STATUS_PERMISSION_DENIED, 0,
			 "%s: the driver's socket is for root and for user %s (agent_user in %s)",
			 method->name, driver->settings->agent_user, driver->settings->path);
}

static enum status read_boot_id(struct driver *driver, struct error *err)
{
	cleanup_free char *line = NULL;
	int r = file_read(BOOT_ID_PATH, BOOT_ID_FILE_MAX, &line, NULL);

	if (r < 0)
		return error_set(err, status_from_errno(r), r, "read the boot id from " BOOT_ID_PATH);
	line[strcspn(line, "\n")] = '\0';
	if (!id_uuid_bytes(line, driver->boot_id) ||
	    str_copy(driver->boot_text, sizeof(driver->boot_text), line) < 0)
		return error_set(err, STATUS_INTERNAL, 0, BOOT_ID_PATH " holds no UUID");
	return STATUS_OK;
}

static enum status find_agent(struct driver *driver, struct error *err)
{
	const struct passwd *user = getpwnam(driver->settings->agent_user);

	if (!user)
		return error_set(err, STATUS_NOT_FOUND, 0, "there is no user %s (agent_user in %s)",
				 driver->settings->agent_user, driver->settings->path);
	driver->agent_uid = user->pw_uid;
	driver->agent_gid = user->pw_gid;
	return STATUS_OK;
}

size_t driver_waits_max(size_t n_files)
{
	size_t n = n_files > FILES_BESIDE ? n_files - FILES_BESIDE : 0;

	return n < DRIVER_WAITS_MAX ? n : DRIVER_WAITS_MAX;
}

static enum status read_file_limit(struct driver *driver, struct error *err)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return error_set(err, STATUS_INTERNAL, errno, "read the limit of open files");
	driver->waits_max = driver_waits_max(files.rlim_cur);
	return STATUS_OK;
}

static enum status open_state(struct driver *driver, struct error *err)
{
	const struct settings *settings = driver->settings;
	char path[PATH_MAX];

	TRY(read_file_limit(driver, err));
	TRY(read_boot_id(driver, err));
	TRY(find_agent(driver, err));
	TRY(trail_open(settings->state_dir, settings->cluster, settings->node_id, &driver->trail, err));
	if (str_format(path, sizeof(path), "%s/orders", settings->state_dir) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "state_dir is too long");
	return nonces_open(path, driver->boot_text, &driver->nonces, err);
}

static int on_end_signal(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	return sd_event_exit(sd_event_source_get_event(source), 0);
}

static enum status open_loop(struct driver *driver, struct error *err)
{
	sigset_t mask;
	int r;

	(void)sigemptyset(&mask);
	(void)sigaddset(&mask, SIGTERM);
	(void)sigaddset(&mask, SIGINT);
	(void)sigprocmask(SIG_BLOCK, &mask, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	r = sd_event_new(&driver->event);
	if (r >= 0)
		r = sd_event_add_signal(driver->event, NULL, SIGTERM, on_end_signal, driver);
	if (r >= 0)
		r = sd_event_add_signal(driver->event, NULL, SIGINT, on_end_signal, driver);
	if (r >= 0)
		r = sd_event_set_watchdog(driver->event, true);
	return r < 0 ? error_set(err, STATUS_INTERNAL, r, "make an event loop") : STATUS_OK;
}

static void print_metrics(struct strbuf *to, void *userdata)
{
	driver_metrics_print(userdata, to);
}

static enum status open_server(struct driver *driver, struct error *err)
{
	const struct rpc_server_limits limits = {.connections = CONNECTIONS_MAX,
						 .calls = DRIVER_WAITS_MAX + DRIVER_CALLS_BESIDE};

	TRY(rpc_server_new(driver->event, services, ARRAY_SIZE(services), &limits, driver, &driver->server,
			   err));
	rpc_server_set_gate(driver->server, gate);
	TRY(rpc_server_listen_unix(driver->server, driver->settings->socket, SOCKET_MODE, err));
	if (driver->settings->metrics[0] == '\0')
		return STATUS_OK;
	return scrape_listen(driver->event, driver->settings->metrics, print_metrics, driver,
			     &driver->metrics, err);
}

static void close_all(struct driver *driver)
{
	task_free_all(driver);
	fingerprint_end(driver);
	scrape_free(driver->metrics);
	rpc_server_free(driver->server);
	engine_free(driver->engine);
	leftovers_forget(driver);
	nonces_free(driver->nonces);
	trail_free(driver->trail);
	(void)sd_event_unref(driver->event);
}

enum status driver_run(const struct settings *settings, bool *ret_has_started, struct error *err)
{
	struct driver driver = {.settings = settings};
	enum status status;

	status = open_loop(&driver, err);
	if (status == STATUS_OK)
		status = open_state(&driver, err);
	if (status == STATUS_OK)
		status = engine_new(driver.event, settings->engine_socket, &driver.engine, err);
	if (status == STATUS_OK)
		status = fingerprint_begin(&driver, err);
	if (status == STATUS_OK)
		status = task_recall_all(&driver, err);
	if (status == STATUS_OK)
		status = open_server(&driver, err);
	if (status == STATUS_OK) {
		*ret_has_started = true;
		(void)service_send("READY=1");
		log_line(LOG_NOTICE, "driver container serves %s with the engine at %s", settings->socket,
			 settings->engine_socket);
		if (sd_event_loop(driver.event) < 0)
			status = error_set(err, STATUS_INTERNAL, 0, "the event loop broke off");
		(void)service_send("STOPPING=1");
	}
	close_all(&driver);
	return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* `holdfast volume docker-plugin`: the socket of a Docker volume plugin. Each request is answered by a
 * process of its own, so that one that waits for a volume delays no other one; it ends with this one. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "command/commands.h"
#include "command/settings.h"
#include "command/values.h"
#include "docker/volumes.h"
#include "hold/spec.h"
#include "model/message.h"
#include "rpc/server.h"
#include "show/output.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-event.h>

enum {
	STOP_MS = 1000, /* until requests in flight are given up at the end */
	JOBS_MAX = 64,
	REMOVES_MIN = 16,
	REQUEST_MAX = 64 * 1024,
	ANSWER_MAX = 8 * 1024 * 1024,
	ANSWER_FD = 3
};

/* Engines wait for two minutes at most. */
#define TIMEOUT_DEFAULT_US (80 * USEC_PER_SEC)
#define SWEEP_US (60 * USEC_PER_SEC)
#define SWEEP "" /* instead of a method */

struct plugin {
	struct docker_volumes volumes;
	char node[HOLD_NODE_SIZE];
	sd_event *event;
	struct rpc_server *server;
	sd_event_source *sweep;
	struct job *jobs;
	size_t n_jobs;
};

/* A process at work on a request. */
struct job {
	struct plugin *plugin;
	struct job *next;
	struct rpc_call *call; /* NULL: a sweep */
	pid_t pid;
	int fd; /* of its answer */
	sd_event_source *source;
	bool is_given_up; /* by the engine: what it has left behind is released next */
	bool is_answered; /* its process ends by itself */
	char *bytes;	  /* the answer, behind its length as uint32_t */
	size_t n;
};

/* Other than 200, or podman does not look at Err. */
static void reply_error(struct rpc_call *call, const char *text)
{
	struct error err;

	(void)error_set(&err, STATUS_UNKNOWN, 0, "%s", text);
	rpc_call_fail(call, &err);
}

static void job_end(struct job *job)
{
	for (struct job **at = &job->plugin->jobs; *at; at = &(*at)->next)
		if (*at == job) {
			*at = job->next;
			break;
		}
	job->plugin->n_jobs--;
	while (waitpid(job->pid, NULL, 0) < 0 && errno == EINTR)
		;
	if (job->call)
		reply_error(job->call, "holdfast: the request was given up before its end. Next: ask again");
	if (job->is_given_up)
		(void)sd_event_source_set_time_relative(job->plugin->sweep, 0);
	sd_event_source_disable_unref(job->source);
	(void)close(job->fd);
	free(job->bytes);
	free(job);
}

/* Gives the engine the answer, if all of it has come, and reports that to the process. */
static void job_answer(struct job *job)
{
	Docker__VolumeResponse *answer = NULL;
	uint32_t n;

	if (!job->call || job->n < sizeof(n))
		return;
	memcpy(&n, job->bytes, sizeof(n));
	if (job->n - sizeof(n) == n)
		answer = docker__volume_response__unpack(NULL, n, (const uint8_t *)job->bytes + sizeof(n));
	if (!answer)
		return;
	if (answer->err[0])
		reply_error(job->call, answer->err);
	else
		rpc_call_reply(job->call, &answer->base);
	docker__volume_response__free_unpacked(answer, NULL);
	job->call = NULL;
	job->is_answered = true;
	(void)send(job->fd, "", 1, MSG_NOSIGNAL);
}

static int on_answer(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct job *job = userdata;
	char bytes[4096];
	ssize_t n = read(fd, bytes, sizeof(bytes));
	char *grown;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	grown = n > 0 && job->n < ANSWER_MAX ? realloc(job->bytes, job->n + (size_t)n) : NULL;
	if (!grown) {
		if (n > 0)
			(void)kill(job->pid, SIGKILL);
		job_end(job);
		return 0;
	}
	memcpy(grown + job->n, bytes, (size_t)n);
	job->bytes = grown;
	job->n += (size_t)n;
	job_answer(job);
	return 0;
}

static bool send_answer(const Docker__VolumeResponse *answer)
{
	size_t size = docker__volume_response__get_packed_size(answer);
	uint32_t n = (uint32_t)size;
	uint8_t *bytes = malloc(size + 1);

	if (!bytes)
		return false;
	(void)docker__volume_response__pack(answer, bytes);
	return fd_write_all(ANSWER_FD, &n, sizeof(n)) == 0 && fd_write_all(ANSWER_FD, bytes, size) == 0;
}

/* Waits until the engine has its answer; false: it never gets it. */
static bool is_delivered(void)
{
	char byte;

	return read(ANSWER_FD, &byte, 1) == 1;
}

/* Waits for room on the disk; false: the plugin ends. */
static bool wait_for_room(void)
{
	struct pollfd parent = {.fd = ANSWER_FD, .events = POLLIN};

	return poll(&parent, 1, SWEEP_US / USEC_PER_MSEC) == 0;
}

/* In the process of a request: its only descriptors are the standard ones and that of its answer. */
static void work(struct plugin *plugin, const char *method, const Docker__VolumeRequest *request, int fd)
	__attribute__((noreturn));
static void work(struct plugin *plugin, const char *method, const Docker__VolumeRequest *request, int fd)
{
	Docker__VolumeResponse *answer;
	sigset_t none;
	int lock;

	assert(!request == str_eq(method, SWEEP));
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (fd != ANSWER_FD && dup2(fd, ANSWER_FD) < 0)
		_exit(EXIT_FAILURE);
	(void)close_range(ANSWER_FD + 1, UINT_MAX, 0);
	if (!request) {
		docker_volumes_sweep(&plugin->volumes);
		_exit(EXIT_SUCCESS);
	}
	answer = docker_volumes_answer(&plugin->volumes, method, request, &lock);
	if (!answer || !send_answer(answer))
		_exit(EXIT_FAILURE);
	if (str_eq(method, "Unmount") && !answer->err[0] && is_delivered())
		docker_volumes_unmount(&plugin->volumes, request->name, request->id, &lock, wait_for_room);
	_exit(EXIT_SUCCESS);
}

static enum status start_process(struct job *job, const char *method, const Docker__VolumeRequest *request,
				 struct error *err)
{
	pid_t parent = getpid();
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, errno, "cannot make a socket pair");
	job->pid = fork();
	if (job->pid == 0) {
		/* without its parent the answer has no receiver */
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
			_exit(EXIT_FAILURE);
		work(job->plugin, method, request, fds[1]);
	}
	(void)close(fds[1]);
	job->fd = fds[0];
	if (job->pid > 0)
		return STATUS_OK;
	(void)close(fds[0]);
	return error_set(err, STATUS_RESOURCE_EXHAUSTED, errno, "cannot start a process");
}

/* Limits what waits for a server, and leaves room for Remove. Engines do not repeat an Unmount. */
static size_t jobs_max(const char *method)
{
	if (str_eq(method, "Mount"))
		return JOBS_MAX - REMOVES_MIN;
	return str_eq(method, "Create") || str_eq(method, "Remove") || str_eq(method, SWEEP) ? JOBS_MAX
											     : SIZE_MAX;
}

static enum status job_start(struct plugin *plugin, struct rpc_call *call, const char *method,
			     const Docker__VolumeRequest *request, struct error *err)
{
	struct job *job;
	enum status status;

	if (plugin->n_jobs >= jobs_max(method))
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "%zu requests are being worked on already. Next: ask again", plugin->n_jobs);
	job = calloc(1, sizeof(*job));
	if (!job)
		return error_no_memory(err, "a request");
	job->plugin = plugin;
	job->call = call;
	status = start_process(job, method, request, err);
	if (status != STATUS_OK) {
		free(job);
		return status;
	}
	job->next = plugin->jobs;
	plugin->jobs = job;
	plugin->n_jobs++;
	if (sd_event_add_io(plugin->event, &job->source, job->fd, EPOLLIN, on_answer, job) < 0) {
		(void)kill(job->pid, SIGKILL);
		job_end(job); /* with an answer to the call */
	}
	return STATUS_OK;
}

static void on_call(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	struct error err;

	if (job_start(userdata, call, rpc_call_method(call), (const void *)request, &err) != STATUS_OK)
		reply_error(call, err.msg);
}

/* The engine waits no longer: what the request has taken is released, and a wait in a queue is left. A mount
 * that did not end for it stays. */
static void on_gone(struct rpc_call *call, void *userdata)
{
	struct plugin *plugin = userdata;

	for (struct job *job = plugin->jobs; job; job = job->next)
		if (job->call == call) {
			job->is_given_up = true;
			(void)kill(job->pid, SIGKILL);
		}
}

static int on_sweep(sd_event_source *timer, uint64_t usec, void *userdata)
{
	struct error err;

	if (job_start(userdata, NULL, SWEEP, NULL, &err) != STATUS_OK)
		print_note("holdfast: %s", err.msg);
	(void)sd_event_source_set_time(timer, usec + SWEEP_US);
	return sd_event_source_set_enabled(timer, SD_EVENT_ONESHOT);
}

#define SERVICE "docker.VolumeDriver"
#define ROUTE(method_, pattern_)                                                                \
	{                                                                                       \
		.method = "POST", .pattern = (pattern_), .service = SERVICE, .call = (method_), \
		.takes_any_type = true, .error_name = "Err"                                     \
	}

static const struct rpc_route routes[] = {
	ROUTE("Activate", "/Plugin.Activate"),
	ROUTE("Create", "/VolumeDriver.Create"),
	ROUTE("Remove", "/VolumeDriver.Remove"),
	ROUTE("Mount", "/VolumeDriver.Mount"),
	ROUTE("Unmount", "/VolumeDriver.Unmount"),
	ROUTE("Path", "/VolumeDriver.Path"),
	ROUTE("Get", "/VolumeDriver.Get"),
	ROUTE("List", "/VolumeDriver.List"),
	ROUTE("Capabilities", "/VolumeDriver.Capabilities"),
};

static const struct rpc_method methods[] = {
	{.name = "Activate", .unary = on_call},
	{.name = "Create", .unary = on_call},
	{.name = "Remove", .unary = on_call},
	{.name = "Mount", .unary = on_call, .on_gone = on_gone},
	{.name = "Unmount", .unary = on_call, .on_gone = on_gone},
	{.name = "Path", .unary = on_call},
	{.name = "Get", .unary = on_call},
	{.name = "List", .unary = on_call},
	{.name = "Capabilities", .unary = on_call},
};

static const struct rpc_service services[] = {
	{&docker__volume_driver__descriptor, methods, ARRAY_SIZE(methods)}};

static enum status listen_to(struct plugin *plugin, const char *path, struct error *err)
{
	static const struct rpc_server_limits limits = {.message_bytes = REQUEST_MAX};

	TRY(rpc_server_new(plugin->event, services, ARRAY_SIZE(services), &limits, plugin, &plugin->server,
			   err));
	rpc_server_set_routes(plugin->server, routes, ARRAY_SIZE(routes));
	return rpc_server_listen_unix(plugin->server, path, 0600, err);
}

static enum status serve(struct plugin *plugin, const char *path, struct error *err)
{
	int r = sd_event_new(&plugin->event);

	if (r >= 0)
		r = sd_event_add_signal(plugin->event, NULL, SIGTERM | SD_EVENT_SIGNAL_PROCMASK, NULL, NULL);
	if (r >= 0)
		r = sd_event_add_signal(plugin->event, NULL, SIGINT | SD_EVENT_SIGNAL_PROCMASK, NULL, NULL);
	if (r >= 0)
		r = sd_event_add_time_relative(plugin->event, &plugin->sweep, CLOCK_MONOTONIC, 0, 0, on_sweep,
					       plugin);
	if (r < 0)
		return error_set(err, status_from_errno(r), r, "cannot wait for requests");
	TRY(listen_to(plugin, path, err));
	(void)sd_notify(0, "READY=1");
	r = sd_event_loop(plugin->event);
	return r < 0 ? error_set(err, status_from_errno(r), r, "cannot wait for requests") : STATUS_OK;
}

static struct job *find_unanswered(const struct plugin *plugin)
{
	struct job *job = plugin->jobs;

	while (job && job->is_answered)
		job = job->next;
	return job;
}

/* Gives up the requests in flight, and answers those that are done: an engine asks again for the others.
 * Waits for the releases after an answer: at a shutdown nothing else ends them. */
static void stop(struct plugin *plugin)
{
	int patience_ms = STOP_MS;
	struct job *job;

	while ((job = find_unanswered(plugin))) {
		struct pollfd answer = {.fd = job->fd, .events = POLLIN};

		if (poll(&answer, 1, patience_ms) == 0) {
			(void)kill(job->pid, SIGKILL);
			patience_ms = 0;
		}
		(void)on_answer(NULL, job->fd, 0, job);
	}
	rpc_server_free(plugin->server); /* sends the answers */
	for (job = plugin->jobs; job; job = job->next)
		(void)shutdown(job->fd, SHUT_WR); /* those that wait for room on the disk end */
	while ((job = plugin->jobs))
		(void)on_answer(NULL, job->fd, 0, job);
	sd_event_source_disable_unref(plugin->sweep);
	sd_event_unref(plugin->event);
}

static enum status find_node(struct invocation *inv, char ret[static HOLD_NODE_SIZE], struct error *err)
{
	if (inv->options[OPT_NODE])
		return str_copy(ret, HOLD_NODE_SIZE, inv->options[OPT_NODE]) < 0
			       ? usage_error(inv, err, "--node is too long")
			       : STATUS_OK;
	TRY(hold_own_node(HOLDFAST_AGENT_SETTINGS_PATH, ret, err));
	if (!ret[0])
		return usage_error(inv, err, "which node is this? %s cannot be read; give --node ID",
				   HOLDFAST_AGENT_SETTINGS_PATH);
	return STATUS_OK;
}

/* Checks the settings that every request needs, before the first one. */
static enum status check_settings(struct invocation *inv, struct error *err)
{
	struct server_settings settings;
	enum status status = server_settings_resolve(inv, &settings, err);

	explicit_bzero(&settings, sizeof(settings));
	return status;
}

static enum status cmd_volume_docker_plugin(struct invocation *inv, struct error *err)
{
	struct plugin plugin = {
		.volumes = {.inv = inv, .node = plugin.node, .dir = getenv("STATE_DIRECTORY")}};

	TRY(value_timeout(inv, TIMEOUT_DEFAULT_US, &plugin.volumes.timeout_us, err));
	if (!plugin.volumes.dir || plugin.volumes.dir[0] != '/')
		return usage_error(inv, err,
				   "STATE_DIRECTORY is not set: this is for a unit. Next: systemctl start "
				   "holdfast-docker-plugin.service");
	TRY(find_node(inv, plugin.node, err));
	TRY(check_settings(inv, err));
	enum status status = serve(&plugin, inv->args[0], err);
	stop(&plugin);
	return status;
}

static const struct command commands[] = {
	{.path = "volume docker-plugin",
	 .args = "SOCKET",
	 .help = "Serve container engines as a Docker volume plugin, until it is stopped",
	 .example = "/run/holdfast-docker-plugin/holdfast.sock",
	 .options = OPTION_BIT(OPT_NODE) | OPTION_BIT(OPT_TIMEOUT),
	 .min_args = 1,
	 .max_args = 1,
	 .arg_kinds = {WORD_FILE},
	 .run = cmd_volume_docker_plugin},
};

const struct command_table docker_commands = {commands, ARRAY_SIZE(commands)};

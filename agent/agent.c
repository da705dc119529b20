/* SPDX-License-Identifier: Apache-2.0 */
#include "agent.h"

#include "agent_parts.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/str.h"
#include "log/log.h"
#include "rpc/wakeup.h"
#include "session/machine.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#define BOOT_ID_PATH "/proc/sys/kernel/random/boot_id"

enum {
	BOOT_ID_FILE_MAX = 64,
	PICTURE_WAIT_MS = 5000, /* the session begins without a kernel picture after this */
	PICTURE_RETRY_MIN_MS = 500,
	PICTURE_RETRY_MAX_MS = 15000,
};

DEFINE_CLEANUP(struct agent, agent_free)

static enum status read_node(struct agent *agent, struct error *err)
{
	cleanup_free char *text = NULL;
	struct utsname name;
	int r;

	r = file_read(BOOT_ID_PATH, BOOT_ID_FILE_MAX, &text, NULL);
	if (r < 0)
		return error_set(err, status_from_errno(r), r, "cannot read the boot id from " BOOT_ID_PATH);
	text[strcspn(text, "\n")] = '\0';
	if (!id_is_uuid(text) || str_copy(agent->boot_id, sizeof(agent->boot_id), text) < 0)
		return error_set(err, STATUS_INTERNAL, 0, BOOT_ID_PATH " holds no UUID");
	if (uname(&name) < 0)
		return error_set(err, STATUS_INTERNAL, errno, "cannot read the kernel's version");
	(void)str_copy(agent->kernel, sizeof(agent->kernel), name.release);
	machine_read(agent->config->cluster, agent->machine);
	if (agent->machine[0] == '\0')
		log_line(LOG_WARNING,
			 "/etc/machine-id cannot be read: the server cannot tell a clone from this node");
	(void)str_format(agent->server, sizeof(agent->server), "%s:%u", agent->config->server.host,
			 agent->config->server.port);
	return STATUS_OK;
}

static enum status open_journal(struct agent *agent, struct error *err)
{
	const struct config *config = agent->config;

	if ((mkdir(config->data_dir, 0700) < 0 && errno != EEXIST) ||
	    access(config->data_dir, R_OK | W_OK | X_OK) < 0)
		return error_set(
			err, status_from_errno(errno), errno,
			"cannot write to the agent's folder %s (data_dir in %s): StateDirectory= of its "
			"unit makes /var/lib/holdfast/agent; another one must be the agent's own, and be "
			"named by ReadWritePaths= in a drop-in of the unit",
			config->data_dir, config->path);
	agent->receipts = receipts_new();
	if (!agent->receipts)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot keep receipts");
	return journal_open(agent->event, config->data_dir, config->cluster, config->node_id, &agent->journal,
			    err);
}

static enum status open_rpc(struct agent *agent, struct error *err)
{
	const struct config *config = agent->config;
	const struct rpc_tls_files files = {
		.ca = config->tls.ca, .cert = config->tls.cert, .key = config->tls.key};
	struct rpc_endpoint endpoint = {
		.host = config->server.host,
		.port = (uint16_t)config->server.port,
		.server_uri = config->server.server_uri,
	};
	const struct session_options session = {
		.cluster = config->cluster,
		.boot_id = agent->boot_id,
		.connect_timeout_us = config->connect_timeout_us,
	};
	enum status status;

	status = rpc_tls_new(&files, &agent->tls, err);
	if (status == STATUS_NOT_FOUND && config->tls.key_is_default && access(config->tls.key, F_OK) < 0)
		return error_set(
			err, STATUS_NOT_FOUND, 0,
			"there is no key for this node's certificate %s: put it at "
			"/etc/credstore/" CONFIG_KEY_CREDENTIAL " (root, mode 0600), from where the unit's "
			"LoadCredential= hands it over, or name another file by tls { key = } in %s; then: "
			"systemctl restart holdfast-agent",
			config->tls.cert, config->path);
	if (status != STATUS_OK)
		return error_prefix(err, "tls in %s", config->path);
	agent_note_certificate(agent);
	endpoint.tls = agent->tls;
	status = rpc_client_new(agent->event, &endpoint, &agent->rpc, err);
	if (status != STATUS_OK)
		return status;
	return session_new(agent->event, agent->rpc, &session, &agent_session_handlers, agent,
			   &agent->session, err);
}

static enum status open_helper(struct agent *agent, struct error *err)
{
	const struct config *config = agent->config;
	bool is_socket = config->helper.socket[0] != '\0';
	const struct helper_client_options options = {
		.door = {.path = is_socket ? config->helper.socket : config->helper.path,
			 .is_socket = is_socket},
		.instances = config->helper.instances,
		.start_timeout_us = config->helper.start_timeout_us,
		.request_timeout_us = config->helper.request_timeout_us,
	};
	enum status status;

	status = helper_client_new(agent->event, &options, &agent_helper_events, agent, &agent->helper, err);
	if (status != STATUS_OK)
		return status;
	picture_load_init(&agent->picture_load, agent->helper, agent_on_picture, agent);
	agent->picture_backoff = (struct backoff)BACKOFF_INIT(PICTURE_RETRY_MIN_MS * USEC_PER_MSEC,
							      PICTURE_RETRY_MAX_MS * USEC_PER_MSEC);
	return STATUS_OK;
}

static enum status open_allocs(struct agent *agent, struct error *err)
{
	const struct tasks_options units = {.units = agent->config->task.systemd_units,
					    .file = agent->config->path};
	enum status status;

	status = tasks_new(agent->event, &units, &agent->tasks, err);
	if (status == STATUS_OK)
		status = allocs_new(&agent->env, &agent->allocs, err);
	if (status == STATUS_OK)
		status = volume_manager_new(agent->event, agent->helper, allocs_use_volume, agent->allocs,
					    &agent->volumes, err);
	if (status != STATUS_OK)
		return status;
	agent->env = (struct runner_env){
		.event = agent->event,
		.journal = agent->journal,
		.receipts = agent->receipts,
		.volumes = agent->volumes,
		.tasks = agent->tasks,
		.rpc = agent->rpc,
		.node_id = agent->config->node_id,
		.boot_id = agent->boot_id,
		.claim_timeout_us = agent->config->claim_timeout_us,
	};
	agent_fill_env(agent, &agent->env);
	return allocs_load(agent->allocs, err);
}

/* What is known of a plugin can be asked for again: it is not worth a refusal to start. */
static enum status on_stored_plugin(const struct node_plugin *plugin, void *userdata, struct error *err)
{
	struct error why;

	if (plugins_restore(userdata, plugin, &why) != STATUS_OK)
		log_ctx(LOG_WARNING,
			&(struct log_ctx){.plugin = plugin->plugin_id, .op = "plugin", .err = &why},
			"what the journal knows of a plugin is of no use, ignoring");
	return STATUS_OK;
}

static enum status open_plugins(struct agent *agent, struct error *err)
{
	static const struct journal_reader reader = {.on_plugin = on_stored_plugin};
	const struct plugins_options options = {
		.plugin_dir = agent->config->plugin_dir,
		.probe_interval_us = agent->config->plugin_probe_interval_us,
		.message_bytes = agent->config->plugin_message_max,
		.call_timeout_us = agent->config->plugin_call_timeout_us,
	};
	enum status status;

	status = plugins_new(agent->event, &options, &agent_plugins_handlers, agent, &agent->plugins, err);
	if (status == STATUS_OK)
		status = journal_read(agent->journal, &reader, agent->plugins, err);
	if (status != STATUS_OK)
		return status;
	volume_manager_set_plugins(agent->volumes, agent->plugins, agent->config->plugin_wait_us);
	return controller_calls_new(agent->event, agent->plugins, agent->volumes, agent_on_controller_reply,
				    agent, &agent->controller_calls, err);
}

static enum status open_drain(struct agent *agent, struct error *err)
{
	const struct drain_env env = {
		.event = agent->event,
		.allocs = agent->allocs,
		.receipts = agent->receipts,
		.data_dir = agent->config->data_dir,
		.boot_id = agent->boot_id,
		.is_connected = agent_is_connected,
		.userdata = agent,
	};

	return drain_new(&env, &agent->drain, err);
}

/* Threads of the store inherit this. */
static enum status block_signals(struct error *err)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return error_set(err, STATUS_INTERNAL, errno, "cannot block signals");
	return STATUS_OK;
}

static enum status open_local(struct agent *agent, struct error *err)
{
	const char *path = agent->config->socket;
	enum status status = local_new(agent->event, path, &agent_local_handlers, agent, &agent->local, err);

	if (status != STATUS_NOT_FOUND && status != STATUS_PERMISSION_DENIED)
		return status;
	return error_prefix(err,
			    "the agent's own socket (socket in %s): the folder of %s must be there and the "
			    "agent must be allowed to write to it; that of /run/holdfast is made by: "
			    "systemd-tmpfiles --create holdfast-agent.conf",
			    agent->config->path, path);
}

enum status agent_new(sd_event *event, struct config *config, struct agent **ret, struct error *err)
{
	cleanup(agent_freep) struct agent *agent = calloc(1, sizeof(*agent));
	enum status status;

	if (!agent)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot make the agent");
	agent->event = event;
	agent->config = config;
	status = block_signals(err);
	if (status == STATUS_OK)
		status = read_node(agent, err);
	if (status == STATUS_OK)
		status = open_journal(agent, err);
	if (status == STATUS_OK)
		status = open_rpc(agent, err);
	if (status == STATUS_OK)
		status = open_helper(agent, err);
	if (status == STATUS_OK)
		status = open_allocs(agent, err);
	if (status == STATUS_OK)
		status = open_plugins(agent, err);
	if (status == STATUS_OK)
		status = stale_new(event, &agent->stale, err);
	if (status == STATUS_OK)
		status = open_drain(agent, err);
	if (status == STATUS_OK)
		status = service_status_new(event, agent_status_text, agent, &agent->service, err);
	if (status == STATUS_OK)
		status = open_local(agent, err);
	if (status != STATUS_OK)
		return status;
	*ret = TAKE_PTR(agent);
	return STATUS_OK;
}

enum status agent_start(struct agent *agent, struct error *err)
{
	enum status status = helper_client_start(agent->helper, err);

	/* before the folder is looked at: what allocations run is not to be taken for the host's */
	allocs_expect_plugins(agent->allocs);
	if (status == STATUS_OK)
		status = plugins_start(agent->plugins, err);
	if (status != STATUS_OK)
		return status;
	return wakeup_arm(agent->event, &agent->session_timer, PICTURE_WAIT_MS * USEC_PER_MSEC,
			  agent_on_picture_overdue, agent, err);
}

static int on_signal(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	log_line(LOG_NOTICE, "ending upon %s; what is mounted stays",
		 info->ssi_signo == SIGTERM ? "SIGTERM" : "SIGINT");
	(void)service_send("STOPPING=1\nSTATUS=ending; what is mounted stays\n");
	return sd_event_exit(sd_event_source_get_event(source), 0);
}

static int on_hangup(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	agent_reload(userdata);
	return 0;
}

enum status agent_supervise(struct agent *agent, struct error *err)
{
	int r;

	r = sd_event_add_signal(agent->event, NULL, SIGTERM, on_signal, agent);
	if (r >= 0)
		r = sd_event_add_signal(agent->event, NULL, SIGINT, on_signal, agent);
	if (r >= 0)
		r = sd_event_add_signal(agent->event, NULL, SIGHUP, on_hangup, agent);
	if (r < 0)
		return error_set(err, STATUS_INTERNAL, r, "cannot watch for signals");
	return service_watchdog_new(agent->event, &agent->watchdog, err);
}

void agent_free(struct agent *agent)
{
	if (!agent)
		return;
	stale_free(agent->stale); /* first: it tells who waits for a report */
	service_status_free(agent->service);
	service_watchdog_free(agent->watchdog);
	local_free(agent->local);
	drain_free(agent->drain);
	session_free(agent->session);
	controller_calls_free(agent->controller_calls);
	wakeup_disarm(&agent->session_timer);
	wakeup_disarm(&agent->picture_timer);
	/* what waits for an answer goes before whom the answer is for */
	helper_client_free(agent->helper);
	picture_load_release(&agent->picture_load);
	volume_manager_free(agent->volumes);
	plugins_free(agent->plugins);
	journal_close(agent->journal);
	allocs_free(agent->allocs);
	tasks_free(agent->tasks);
	receipts_free(agent->receipts);
	rpc_client_free(agent->rpc);
	rpc_tls_free(agent->tls);
	fingerprint_release(&agent->told);
	mount_table_free(agent->mounts);
	mount_table_free(agent->stage_mounts);
	free(agent);
}

static enum status run(sd_event *event, struct config *config, bool *has_started, struct error *err)
{
	cleanup(agent_freep) struct agent *agent = NULL;
	enum status status;
	int r;

	status = agent_new(event, config, &agent, err);
	if (status == STATUS_OK)
		status = agent_supervise(agent, err);
	if (status == STATUS_OK)
		status = agent_start(agent, err);
	if (status != STATUS_OK)
		return status;
	log_line(LOG_NOTICE, "agent of node %s in cluster %s, version " HOLDFAST_VERSION, config->node_id,
		 config->cluster);
	*has_started = true;
	r = sd_event_loop(event);
	if (agent->broken.status != STATUS_OK) {
		*err = agent->broken;
		return error_prefix(err, "the journal cannot be written, the agent must end");
	}
	return r < 0 ? error_set(err, STATUS_INTERNAL, r, "the event loop failed") : STATUS_OK;
}

enum status agent_run(struct config *config, bool *has_started, struct error *err)
{
	sd_event *event = NULL;
	enum status status;
	int r;

	r = sd_event_default(&event);
	if (r < 0)
		return error_set(err, STATUS_INTERNAL, r, "cannot make an event loop");
	status = run(event, config, has_started, err);
	sd_event_unref(event);
	return status;
}

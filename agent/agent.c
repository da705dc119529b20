/* SPDX-License-Identifier: Apache-2.0 */
#include "agent.h"

#include "agent_parts.h"
#include "disk_wait.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "log/log.h"
#include "rpc/scrape.h"
#include "rpc/wakeup.h"
#include "session/attributes.h"
#include "session/fingerprint.h"
#include "session/hello.h"
#include "session/machine.h"
#include "session/report.h"
#include "status/metrics.h"
#include "status/report.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

enum {
	HELPER_FAILURES_REPORTED = 3, /* in a row; then the server is notified that nothing can be mounted */
};

/* Ends the agent after a journal failure. The next start reads the journal from the disk. */
static void on_broken(const struct error *err, void *userdata)
{
	struct agent *agent = userdata;

	if (agent->broken.status != STATUS_OK)
		return;
	agent->broken = *err;
	log_ctx(LOG_ERR, &(struct log_ctx){.op = "journal", .event = LOG_EVENT_JOURNAL_BROKEN, .err = err},
		"the journal in memory may be wrong; the agent ends, and starts again from the file");
	(void)sd_event_exit(agent->event, (int)err->status);
}

/* Handles the result of a write that has no caller waiting for it. */
static void on_kept(const struct error *err, void *userdata)
{
	if (err)
		on_broken(err, userdata);
}

static void on_alloc_status(const struct alloc *alloc, void *userdata)
{
	struct agent *agent = userdata;

	session_send_status(agent->session, alloc);
	volume_usages_wake(agent->usages);
	drain_look(agent->drain);
}

static void on_receipt(const struct receipt *receipt, void *userdata)
{
	struct agent *agent = userdata;

	session_send_receipt(agent->session, receipt, &helper_client_info(agent->helper)->head);
	drain_look(agent->drain);
}

static void on_release_error(const char *claim_id, uint64_t generation, const struct error *err,
			     void *userdata)
{
	struct agent *agent = userdata;

	session_send_release_error(agent->session, claim_id, generation, err);
}

static struct fingerprint_facts fingerprint_facts(const struct agent *agent)
{
	return (struct fingerprint_facts){
		.agent_version = HOLDFAST_VERSION,
		.helper = helper_client_info(agent->helper),
		.observed = volume_manager_observed(agent->volumes),
		.plugins = agent->plugins,
		.drivers = agent->drivers,
		.disk = journal_disk_trouble(agent->disk),
		.disk_path = agent->config->data_dir,
		.certificate_issuer = agent->certificate_issuer,
	};
}

static Holdfast__V1__SessionHello *make_hello(bool *ret_is_short, void *userdata)
{
	struct agent *agent = userdata;
	const struct hello_facts facts = {
		.node_id = agent->config->node_id,
		.boot_id = agent->boot_id,
		.kernel = agent->kernel,
		.machine = agent->machine,
		.attributes = agent->attributes,
		.fingerprint = fingerprint_facts(agent),
		.allocs = agent->allocs,
		.mark = journal_mark(agent->journal),
	};
	Holdfast__V1__SessionHello *hello = hello_make(&facts, ret_is_short);

	agent->knew_history = facts.mark != NULL;
	if (hello)
		fingerprint_note(&agent->sent, hello->fingerprint);
	return hello;
}

/* Sends the plugins and drivers if they differ from what was sent before. Without a session the next hello
 * carries them. */
static void send_fingerprint(struct agent *agent)
{
	const struct fingerprint_facts facts = fingerprint_facts(agent);
	Holdfast__V1__Fingerprint *fingerprint;

	if (!session_info(agent->session)->is_up)
		return;
	fingerprint = fingerprint_make(&facts);
	if (!fingerprint) {
		session_restart(agent->session);
		return;
	}
	if (fingerprint_has_changed(&agent->sent, fingerprint)) {
		fingerprint_note(&agent->sent, fingerprint);
		session_send_fingerprint(agent->session, fingerprint);
	}
	protobuf_c_message_free_unpacked(&fingerprint->base, NULL);
}

static void on_mark(const Holdfast__V1__Mark *mark, void *userdata)
{
	static const struct journal_write only_the_mark = {0};
	struct agent *agent = userdata;
	struct error err;

	if (journal_note_mark(agent->journal, mark) &&
	    journal_write(agent->journal, &only_the_mark, on_kept, agent, &err) != STATUS_OK)
		on_broken(&err, agent);
}

static void on_session_up(bool sends_statuses, void *userdata)
{
	struct agent *agent = userdata;
	const struct alloc_runner *runner = NULL;
	const struct receipt *receipt = NULL;
	const char *server = rpc_client_server(agent->rpc);

	/* also those of a session that was restarted without a loss: their numbers are of that session */
	controller_calls_drop(agent->controller_calls);
	if (server)
		(void)str_copy(agent->server, sizeof(agent->server), server);
	log_ctx(LOG_NOTICE,
		&(struct log_ctx){.op = "session", .peer = agent->server, .event = LOG_EVENT_SESSION_UP},
		"connected to the server");
	while ((receipt = receipts_next(agent->receipts, receipt)))
		session_send_receipt(agent->session, receipt, &helper_client_info(agent->helper)->head);
	while (sends_statuses && (runner = allocs_next(agent->allocs, runner)))
		session_send_status(agent->session, &alloc_runner_record(runner)->alloc);
	send_fingerprint(agent); /* changes since the hello */
	volume_usages_send(agent->usages);
}

static void on_session_down(const struct error *err, void *userdata)
{
	struct agent *agent = userdata;
	uint32_t attempts = session_info(agent->session)->attempts;

	/* the first loss, then now and then */
	if (attempts <= 1 || attempts % 20 == 0)
		log_ctx(LOG_WARNING,
			&(struct log_ctx){.op = "session",
					  .peer = agent->server,
					  .event = LOG_EVENT_SESSION_DOWN,
					  .err = err},
			"no session with the server; mounts stay");
}

static void on_run(const struct alloc *alloc, void *userdata)
{
	struct agent *agent = userdata;
	struct error err;

	if (allocs_run(agent->allocs, alloc, &err) == STATUS_OK)
		return;
	log_ctx(LOG_ERR,
		&(struct log_ctx){
			.alloc = alloc->id, .op = "run", .event = LOG_EVENT_ALLOCATION_FAILED, .err = &err},
		"allocation is refused");
	session_send_refusal(agent->session, alloc->namespace, alloc->id, &err);
}

static void on_stop(const char *namespace, const char *alloc_id, void *userdata)
{
	struct agent *agent = userdata;

	if (!allocs_stop(agent->allocs, namespace, alloc_id))
		session_send_unknown(agent->session, namespace, alloc_id);
}

static void on_ack(const char *claim_id, bool is_released, void *userdata)
{
	struct agent *agent = userdata;
	const struct receipt *receipt = receipts_find(agent->receipts, claim_id, is_released);
	const struct journal_write write = {.drop_receipt = receipt};
	struct error err;

	if (!receipt)
		return;
	if (journal_write(agent->journal, &write, on_kept, agent, &err) != STATUS_OK) {
		on_broken(&err, agent);
		return;
	}
	(void)receipts_remove(agent->receipts, claim_id, is_released);
	drain_look(agent->drain);
}

static void on_release(const struct claim *claim, const char *wire_volume, const struct ticket *ticket,
		       void *userdata)
{
	struct agent *agent = userdata;
	struct error err;

	if (allocs_release(agent->allocs, claim, wire_volume, ticket, &err) == STATUS_OK)
		return;
	log_ctx(LOG_WARNING,
		&(struct log_ctx){.volume = claim->volume_id,
				  .wire_volume = wire_volume,
				  .alloc = claim->allocation_id,
				  .claim = claim->id,
				  .op = "release",
				  .generation = claim->generation,
				  .event = LOG_EVENT_RELEASE_WAITS,
				  .err = &err},
		"claim is not released");
	session_send_release_error(agent->session, claim->id, claim->generation, &err);
}

static void on_forget(const char *namespace, const char *alloc_id, void *userdata)
{
	struct agent *agent = userdata;

	allocs_forget(agent->allocs, namespace, alloc_id);
}

static bool send_report(const Holdfast__V1__NodeReport *report, void *userdata)
{
	struct agent *agent = userdata;

	return session_send_report(agent->session, report);
}

static bool send_usage(const Holdfast__V1__VolumeUsageReport *report, void *userdata)
{
	struct agent *agent = userdata;

	return session_send_usage(agent->session, report);
}

static void on_report_wanted(uint64_t epoch, bool is_reverted, void *userdata)
{
	struct agent *agent = userdata;
	const struct node_report_facts facts = {.node_id = agent->config->node_id,
						.boot_id = agent->boot_id,
						.allocs = agent->allocs,
						.plugins = agent->plugins,
						.epoch = epoch};

	if (is_reverted)
		log_ctx(LOG_CRIT, &(struct log_ctx){.op = "session", .peer = agent->server},
			"this node has gone back in time: the server has seen a later state of its journal "
			"in this boot. Volumes that were freed since are released when the server orders it");
	else if (agent->knew_history) /* every new node is asked once */
		log_ctx(LOG_NOTICE, &(struct log_ctx){.op = "session", .peer = agent->server},
			"the server has lost history, or may have; this node reports what it holds");
	if (!node_report_make(&facts, send_report, agent) && session_info(agent->session)->is_up)
		session_restart(agent->session); /* out of memory: it asks again */
}

static void on_task_stream(const Holdfast__V1__OpenTaskStream *wanted, void *userdata)
{
	const struct agent *agent = userdata;

	task_streams_open(agent->task_streams, wanted);
}

static void on_call(const Holdfast__V1__PluginCall *call, void *userdata)
{
	struct agent *agent = userdata;

	controller_calls_take(agent->controller_calls, call);
}

static void agent_on_controller_reply(const Holdfast__V1__PluginReply *reply, void *userdata)
{
	struct agent *agent = userdata;

	session_send_reply(agent->session, reply);
}

static void on_plugins_change(void *userdata)
{
	struct agent *agent = userdata;

	/* a plugin that ended may have taken its file servers along */
	(void)stale_look(agent->stale, agent->allocs, NULL, NULL);
	send_fingerprint(agent);
}

static void on_plugin_store(const char *plugin_id, const struct node_plugin *facts, void *userdata)
{
	const struct journal_write write = {.plugin = facts, .forget_plugin = facts ? NULL : plugin_id};
	struct agent *agent = userdata;
	struct error err;

	if (journal_write(agent->journal, &write, on_kept, agent, &err) != STATUS_OK)
		on_broken(&err, agent);
}

static void on_plugin_expected(const char *alloc_id, const char *plugin_id, const struct error *err,
			       void *userdata)
{
	struct agent *agent = userdata;

	allocs_plugin_ready(agent->allocs, alloc_id, plugin_id, err);
}

static const struct plugins_handlers agent_plugins_handlers = {
	.on_change = on_plugins_change,
	.on_store = on_plugin_store,
	.on_expected = on_plugin_expected,
};

static enum status expect_plugin(struct agent *agent, const struct alloc *alloc,
				 const struct csi_plugin *plugin, struct error *err)
{
	struct plugin_expectation expectation = {
		.has_controller = csi_plugin_has_controller(plugin),
		.has_node = csi_plugin_has_node(plugin),
		.health_timeout_us = plugin->health_timeout_ms * USEC_PER_MSEC,
	};

	if (str_copy(expectation.plugin_id, sizeof(expectation.plugin_id), plugin->id) < 0 ||
	    str_copy(expectation.alloc_id, sizeof(expectation.alloc_id), alloc->id) < 0 ||
	    str_copy(expectation.socket, sizeof(expectation.socket), csi_plugin_socket(plugin)) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "allocation %s: the names in its csi_plugin block are too long", alloc->id);
	return plugins_expect(agent->plugins, &expectation, err);
}

static enum status expect_plugins(const struct alloc *alloc, void *userdata, struct error *err)
{
	struct agent *agent = userdata;
	enum status status = STATUS_OK;

	for (uint32_t i = 0; status == STATUS_OK && i < alloc->n_plugins; i++)
		status = expect_plugin(agent, alloc, &alloc->plugins[i], err);
	if (status != STATUS_OK)
		plugins_forget(agent->plugins, alloc->id);
	return status;
}

static void forget_plugins(const char *alloc_id, void *userdata)
{
	struct agent *agent = userdata;

	plugins_forget(agent->plugins, alloc_id);
}

static const struct session_handlers agent_session_handlers = {
	.make_hello = make_hello,
	.on_mark = on_mark,
	.on_up = on_session_up,
	.on_down = on_session_down,
	.on_run = on_run,
	.on_stop = on_stop,
	.on_ack = on_ack,
	.on_release = on_release,
	.on_forget = on_forget,
	.on_report_wanted = on_report_wanted,
	.on_call = on_call,
	.on_task_stream = on_task_stream,
};

/* Begins the first session, or a new one so that its hello reports the mount snapshot. */
static void renew_session(struct agent *agent)
{
	if (!agent->is_session_started)
		service_status_notify(agent->service, "READY=1\n");
	agent->is_session_started = true;
	wakeup_disarm(&agent->session_timer);
	session_restart(agent->session);
}

/* Begins the session without a mount snapshot: the helper did not list the mounts in time. */
static int agent_on_mount_snapshot_overdue(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct agent *agent = userdata;

	log_ctx(LOG_WARNING, &(struct log_ctx){.op = "adopt"},
		"the mount helper has not listed its mounts yet: nothing is mounted or released before");
	renew_session(agent);
	return 0;
}

static int on_mount_snapshot_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct agent *agent = userdata;
	struct error err;

	wakeup_disarm(&agent->mount_snapshot_timer);
	if (helper_client_info(agent->helper)->is_running &&
	    mount_snapshot_load_start(&agent->mount_snapshot_load, &err) != STATUS_OK)
		log_ctx(LOG_ERR, &(struct log_ctx){.op = "adopt", .err = &err}, "cannot read the mounts");
	return 0;
}

static void on_helper_ready(pid_t pid, void *userdata)
{
	struct agent *agent = userdata;
	const struct helper_info *helper = helper_client_info(agent->helper);

	log_ctx(LOG_INFO, &(struct log_ctx){.op = "helper", .event = LOG_EVENT_HELPER_RUNS},
		"mount helper runs, pid %d, policy %.16s%s%s", pid, helper->policy_digest,
		helper->ticket_optional ? ", tickets optional" : "",
		helper->container ? ", in this mount namespace" : "");
}

static void on_helper_stale(void *userdata)
{
	(void)on_mount_snapshot_due(NULL, 0, userdata);
}

static void on_helper_down(const struct error *err, void *userdata)
{
	struct agent *agent = userdata;
	const struct helper_info *helper = helper_client_info(agent->helper);
	uint32_t failures = helper->failures;

	if (helper->is_running)
		log_ctx(LOG_WARNING, &(struct log_ctx){.op = "helper", .err = err},
			"an instance of the mount helper is gone, others serve");
	else if (failures <= HELPER_FAILURES_REPORTED || failures % 20 == 0)
		log_ctx(LOG_ERR,
			&(struct log_ctx){.op = "helper", .event = LOG_EVENT_HELPER_DOWN, .err = err},
			"the mount helper does not run; mounts stay");
	/* without a helper there is nothing to wait for, and the server must report it to its callers */
	if (!helper->is_running && !agent->is_session_started)
		renew_session(agent);
	else
		send_fingerprint(agent);
}

static const struct helper_client_events agent_helper_events = {
	.on_ready = on_helper_ready,
	.on_down = on_helper_down,
	.on_stale = on_helper_stale,
};

static void agent_on_mount_snapshot(struct mount_snapshot *observed, const struct error *err, void *userdata)
{
	struct agent *agent = userdata;
	bool is_first = !volume_manager_observed(agent->volumes);

	if (err) {
		log_ctx(LOG_ERR, &(struct log_ctx){.op = "adopt", .err = err}, "cannot read the mounts");
		(void)wakeup_arm(agent->event, &agent->mount_snapshot_timer,
				 backoff_next(&agent->mount_snapshot_backoff, backoff_random()),
				 on_mount_snapshot_due, agent, NULL);
		return;
	}
	assert(observed);
	backoff_reset(&agent->mount_snapshot_backoff);
	volume_manager_set_observed(agent->volumes, observed);
	if (!allocs_is_adopted(agent->allocs)) {
		allocs_adopt(agent->allocs, observed);
		volume_usages_wake(agent->usages);
		log_ctx(LOG_NOTICE, &(struct log_ctx){.op = "adopt"},
			"%zu volumes are staged, %zu published, %zu allocations journalled",
			observed->n_staged, observed->n_published, allocs_count(agent->allocs));
	}
	if (is_first)
		renew_session(agent);
	else
		send_fingerprint(agent);
}

/* Is there a session with the server? @userdata is the agent. */
static bool agent_is_connected(void *userdata)
{
	const struct agent *agent = userdata;

	return session_info(agent->session)->is_up;
}

static bool prepare_report(local_ready_fn *ready, void *ready_userdata, void *userdata)
{
	struct agent *agent = userdata;

	return stale_look(agent->stale, agent->allocs, ready, ready_userdata);
}

static Holdfast__V1__GetAgentStatusResponse *make_report(void *userdata)
{
	struct agent *agent = userdata;
	char problems[AGENT_PROBLEMS_MAX][AGENT_PROBLEM_SIZE];
	const char *const all[] = {problems[0], problems[1], problems[2], problems[3], problems[4],
				   problems[5], problems[6], problems[7], problems[8]};
	const struct report_facts facts = {
		.version = HOLDFAST_VERSION,
		.node_id = agent->config->node_id,
		.cluster = agent->config->cluster,
		.boot_id = agent->boot_id,
		.server = agent->server,
		.session = session_info(agent->session),
		.helper = agent->helper,
		.allocs = agent->allocs,
		.observed = volume_manager_observed(agent->volumes),
		.receipts = agent->receipts,
		.plugins = agent->plugins,
		.drivers = agent->drivers,
		.mounts = &agent->mounts,
		.stage_mounts = &agent->stage_mounts,
		.stale = agent->stale,
		.usages = agent->usages,
		.drain = agent->drain,
		.problems = all,
		.n_problems = agent_problems(agent, problems),
	};

	return report_make(&facts);
}

static enum status handle_drain(const Holdfast__V1__DrainAgentRequest *request,
				Holdfast__V1__DrainAgentResponse **ret, void *userdata, struct error *err)
{
	struct agent *agent = userdata;

	return drain_request(agent->drain, request, ret, err);
}

static const struct local_handlers agent_local_handlers = {
	.prepare = prepare_report,
	.report = make_report,
	.drain = handle_drain,
};

static int64_t clock_skew_ms(void *userdata)
{
	const struct agent *agent = userdata;

	return session_info(agent->session)->clock_skew_ms;
}

/* Fills in the callbacks that runners report to. */
static void agent_fill_env(struct agent *agent, struct runner_env *env)
{
	env->clock_skew_ms = clock_skew_ms;
	env->on_status = on_alloc_status;
	env->on_receipt = on_receipt;
	env->on_release_error = on_release_error;
	env->on_broken = on_broken;
	env->expect_plugins = expect_plugins;
	env->forget_plugins = forget_plugins;
	env->userdata = agent;
}

#define BOOT_ID_PATH "/proc/sys/kernel/random/boot_id"

enum {
	BOOT_ID_FILE_MAX = 64,
	MOUNT_SNAPSHOT_WAIT_MS = 5000, /* the session begins without a mount snapshot after this */
	MOUNT_SNAPSHOT_RETRY_MIN_MS = 500,
	MOUNT_SNAPSHOT_RETRY_MAX_MS = 15000,
};

DEFINE_CLEANUP(struct agent, agent_free)

/* Writes the addresses of all configured servers to agent->server, for the time without a session. */
static void name_servers(struct agent *agent)
{
	const struct config *config = agent->config;
	size_t at = 0;

	if (config->servers[0][0] == '\0')
		(void)str_format(agent->server, sizeof(agent->server), "%s:%u", config->server.host,
				 config->server.port);
	for (size_t i = 0; i < RPC_SERVERS_MAX && config->servers[i][0] != '\0'; i++) {
		int n = str_format(agent->server + at, sizeof(agent->server) - at, "%s%s", i > 0 ? ", " : "",
				   config->servers[i]);

		at += n > 0 ? (size_t)n : 0;
	}
}

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
	if (!attributes_read(agent->config->meta, agent->config->n_meta, &agent->attributes))
		return error_no_memory(err, "the attributes of the node");
	if (agent->machine[0] == '\0')
		log_line(LOG_WARNING, "/etc/machine-id cannot be read: the server cannot distinguish a clone "
				      "from this node");
	name_servers(agent);
	return STATUS_OK;
}

/* New work is refused from now on, or taken again: the server must know. */
static void on_disk_changed(void *userdata)
{
	struct agent *agent = userdata;

	if (agent->session)
		send_fingerprint(agent);
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
	TRY(journal_disk_new(agent->event, config->data_dir, config->disk_reserve, on_disk_changed, agent,
			     &agent->disk, err));
	return journal_open(agent->event,
			    &(struct journal_options){.data_dir = config->data_dir,
						      .cluster = config->cluster,
						      .node_id = config->node_id,
						      .disk = agent->disk},
			    &agent->journal, err);
}

/* As the settings name them, but nodes begin at different ones. Returns how many; 0: there is one, as server.
 */
static size_t spread_servers(const struct config *config, struct rpc_address ret[static RPC_SERVERS_MAX])
{
	uint64_t start = 0;
	size_t n = 0;

	while (n < RPC_SERVERS_MAX && config->servers[n][0] != '\0')
		n++;
	for (const char *c = config->node_id; *c != '\0'; c++)
		start = start * 31 + (unsigned char)*c;
	for (size_t i = 0; i < n; i++)
		(void)rpc_address_parse(config->servers[(start + i) % n],
					&ret[i]); /* config_load() saw to it */
	return n;
}

static void on_certificate(void *userdata)
{
	struct agent *agent = userdata;

	agent_note_certificate(agent);
	send_fingerprint(agent);
}

static enum status open_rpc(struct agent *agent, struct error *err)
{
	const struct config *config = agent->config;
	const struct renewal_files certificate = {.uri = agent->uri,
						  .folder = config->data_dir,
						  .ca = config->tls.ca,
						  .cert = config->tls.cert,
						  .key = config->tls.key};
	struct renewal_choice choice;
	const struct rpc_tls_files files = {.ca = choice.ca, .cert = choice.cert, .key = choice.key};
	struct rpc_address servers[RPC_SERVERS_MAX];
	struct rpc_endpoint endpoint = {
		.host = config->server.host,
		.port = (uint16_t)config->server.port,
		.servers = servers,
		.n_servers = spread_servers(config, servers),
		.server_uri = config->server.server_uri,
	};
	const struct session_options session = {
		.cluster = config->cluster,
		.boot_id = agent->boot_id,
		.connect_timeout_us = config->connect_timeout_us,
	};
	enum status status;

	(void)str_format(agent->uri, sizeof(agent->uri), "holdfast://%s/node/%s", config->cluster,
			 config->node_id);
	renewal_choose(&certificate, &choice);
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
	endpoint.tls = agent->tls;
	TRY(rpc_client_new(agent->event, &endpoint, &agent->rpc, err));
	TRY(renewal_new(agent->event, agent->rpc, agent->tls, &certificate, on_certificate, agent,
			&agent->renewal, err));
	agent_note_certificate(agent);
	return session_new(agent->event, agent->rpc, &session, &agent_session_handlers, agent,
			   &agent->session, err);
}

static enum status open_helper(struct agent *agent, struct error *err)
{
	const struct config *config = agent->config;
	bool is_socket = config->helper.socket[0] != '\0';
	const struct helper_client_options options = {
		.launch = {.path = is_socket ? config->helper.socket : config->helper.path,
			   .is_socket = is_socket},
		.instances = config->helper.instances,
		.start_timeout_us = config->helper.start_timeout_us,
		.request_timeout_us = config->helper.request_timeout_us,
	};

	TRY(helper_client_new(agent->event, &options, &agent_helper_events, agent, &agent->helper, err));
	mount_snapshot_load_init(&agent->mount_snapshot_load, agent->helper, agent_on_mount_snapshot, agent);
	agent->mount_snapshot_backoff = (struct backoff)BACKOFF_INIT(
		MOUNT_SNAPSHOT_RETRY_MIN_MS * USEC_PER_MSEC, MOUNT_SNAPSHOT_RETRY_MAX_MS * USEC_PER_MSEC);
	return STATUS_OK;
}

static enum status open_allocs(struct agent *agent, struct error *err)
{
	const struct tasks_options units = {.units = agent->config->task.systemd_units,
					    .file = agent->config->path};

	TRY(tasks_new(agent->event, &units, &agent->tasks, err));
	TRY(allocs_new(&agent->env, &agent->allocs, err));
	TRY(volume_manager_new(agent->event, agent->helper, allocs_use_volume, agent->allocs, &agent->volumes,
			       err));
	agent->env = (struct runner_env){
		.event = agent->event,
		.journal = agent->journal,
		.disk = agent->disk,
		.receipts = agent->receipts,
		.volumes = agent->volumes,
		.tasks = agent->tasks,
		.drivers = agent->drivers,
		.rpc = agent->rpc,
		.node_id = agent->config->node_id,
		.boot_id = agent->boot_id,
		.claim_timeout_us = agent->config->claim_timeout_us,
	};
	agent_fill_env(agent, &agent->env);
	TRY(task_streams_new(agent->rpc, agent->drivers, agent->allocs, &agent->task_streams, err));
	return allocs_load(agent->allocs, err);
}

/* Restores a plugin from the journal. Only logs an error: the plugin can be probed again. */
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
		.fences = agent->config->fences,
		.n_fences = agent->config->n_fences,
	};

	TRY(plugins_new(agent->event, &options, &agent_plugins_handlers, agent, &agent->plugins, err));
	TRY(journal_read(agent->journal, &reader, agent->plugins, err));
	volume_manager_set_plugins(agent->volumes, agent->plugins, agent->config->plugin_wait_us);
	return controller_calls_new(agent->event, agent->plugins, agent->volumes, agent_on_controller_reply,
				    agent, &agent->controller_calls, err);
}

static void on_drivers_changed(void *userdata)
{
	send_fingerprint(userdata);
}

static enum status open_drivers(struct agent *agent, struct error *err)
{
	const struct drivers_options options = {
		.driver_dir = agent->config->driver_dir, .changed = on_drivers_changed, .userdata = agent};

	return drivers_new(agent->event, &options, &agent->drivers, err);
}

static enum status open_usages(struct agent *agent, struct error *err)
{
	const struct volume_usages_env env = {
		.event = agent->event,
		.allocs = agent->allocs,
		.plugins = agent->plugins,
		.volumes = agent->volumes,
		.helper = agent->helper,
		.mounts = &agent->mounts,
		.interval_us = agent->config->volume_stats_us,
		.send = send_usage,
		.userdata = agent,
	};

	return volume_usages_new(&env, &agent->usages, err);
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

static void print_metrics(struct strbuf *to, void *userdata)
{
	Holdfast__V1__GetAgentStatusResponse *report = make_report(userdata);

	if (!report) {
		to->error = -ENOMEM;
		return;
	}
	agent_metrics_print(report, clock_realtime_ms(), to);
	protobuf_c_message_free_unpacked(&report->base, NULL);
}

static enum status open_metrics(struct agent *agent, struct error *err)
{
	const char *address = agent->config->metrics;

	return address[0] == '\0'
		       ? STATUS_OK
		       : scrape_listen(agent->event, address, print_metrics, agent, &agent->metrics, err);
}

enum status agent_new(sd_event *event, struct config *config, struct agent **ret, struct error *err)
{
	cleanup(agent_freep) struct agent *agent = calloc(1, sizeof(*agent));

	if (!agent)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot make the agent");
	agent->event = event;
	agent->config = config;
	TRY(block_signals(err));
	TRY(read_node(agent, err));
	TRY(open_journal(agent, err));
	TRY(open_rpc(agent, err));
	TRY(open_helper(agent, err));
	TRY(open_drivers(agent, err));
	TRY(open_allocs(agent, err));
	TRY(open_plugins(agent, err));
	TRY(stale_new(event, &agent->stale, err));
	TRY(open_usages(agent, err));
	TRY(open_drain(agent, err));
	TRY(service_status_new(event, agent_status_text, agent, &agent->service, err));
	TRY(open_local(agent, err));
	TRY(open_metrics(agent, err));
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
	if (status == STATUS_OK)
		status = drivers_start(agent->drivers, err);
	if (status != STATUS_OK)
		return status;
	return wakeup_arm(agent->event, &agent->session_timer, MOUNT_SNAPSHOT_WAIT_MS * USEC_PER_MSEC,
			  agent_on_mount_snapshot_overdue, agent, err);
}

static int on_signal(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	log_line(LOG_NOTICE, "ending upon %s; mounts stay",
		 info->ssi_signo == SIGTERM ? "SIGTERM" : "SIGINT");
	(void)service_send("STOPPING=1\n"
			   "STATUS=ending; mounts stay\n");
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
	stale_free(agent->stale); /* first: it notifies the callers that wait for a report */
	volume_usages_free(agent->usages);
	service_status_free(agent->service);
	service_watchdog_free(agent->watchdog);
	scrape_free(agent->metrics);
	local_free(agent->local);
	drain_free(agent->drain);
	session_free(agent->session);
	controller_calls_free(agent->controller_calls);
	wakeup_disarm(&agent->session_timer);
	wakeup_disarm(&agent->mount_snapshot_timer);
	/* what waits for an answer goes before whom the answer is for */
	helper_client_free(agent->helper);
	mount_snapshot_load_release(&agent->mount_snapshot_load);
	volume_manager_free(agent->volumes);
	plugins_free(agent->plugins);
	journal_close(agent->journal);
	journal_disk_free(agent->disk);
	message_list_unref(agent->attributes);
	task_streams_free(agent->task_streams);
	allocs_free(agent->allocs);
	drivers_free(agent->drivers);
	tasks_free(agent->tasks);
	receipts_free(agent->receipts);
	renewal_free(agent->renewal);
	rpc_client_free(agent->rpc);
	rpc_tls_free(agent->tls);
	fingerprint_release(&agent->sent);
	mount_table_free(agent->mounts);
	mount_table_free(agent->stage_mounts);
	free(agent);
}

static enum status run(sd_event *event, struct config *config, bool *has_started, struct error *err)
{
	cleanup(agent_freep) struct agent *agent = NULL;
	int r;

	TRY(agent_new(event, config, &agent, err));
	TRY(agent_supervise(agent, err));
	TRY(agent_start(agent, err));
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

static enum status run_once(struct config *config, bool *has_started, struct error *err)
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

enum status agent_run(struct config *config, bool *has_started, struct error *err)
{
	for (;;) {
		enum status status = run_once(config, has_started, err);

		if (status == STATUS_OK || *has_started)
			return status;
		switch (disk_wait(config, err)) {
		case DISK_WAIT_NOT_THE_REASON:
			return status;
		case DISK_WAIT_ENDED:
			return STATUS_OK;
		case DISK_WAIT_TAKES_WRITES:
			break;
		}
	}
}

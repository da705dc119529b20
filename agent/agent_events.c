/* SPDX-License-Identifier: Apache-2.0 */
#include "agent_parts.h"

#include "base/clock.h"
#include "base/str.h"
#include "log/log.h"
#include "rpc/wakeup.h"
#include "session/fingerprint.h"
#include "session/hello.h"
#include "session/report.h"
#include "status/report.h"

#include <assert.h>

enum {
	HELPER_FAILURES_TOLD = 3, /* in a row; then the server is told that nothing can be mounted */
};

/* The journal cannot be trusted any more: end, and begin again from what is on the disk. */
static void on_broken(const struct error *err, void *userdata)
{
	struct agent *agent = userdata;

	if (agent->broken.status != STATUS_OK)
		return;
	agent->broken = *err;
	log_ctx(LOG_ERR, &(struct log_ctx){.op = "journal", .event = LOG_EVENT_JOURNAL_BROKEN, .err = err},
		"the journal cannot be trusted any more; ending, to begin again from what is on the disk");
	(void)sd_event_exit(agent->event, (int)err->status);
}

/* Of a write that nobody waits for. */
static void on_kept(const struct error *err, void *userdata)
{
	if (err)
		on_broken(err, userdata);
}

static void on_alloc_status(const struct alloc *alloc, void *userdata)
{
	struct agent *agent = userdata;

	session_send_status(agent->session, alloc);
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
		.picture = volume_manager_picture(agent->volumes),
		.plugins = agent->plugins,
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
		.fingerprint = fingerprint_facts(agent),
		.allocs = agent->allocs,
		.mark = journal_mark(agent->journal),
	};
	Holdfast__V1__Fingerprint told = HOLDFAST__V1__FINGERPRINT__INIT;
	Holdfast__V1__SessionHello *hello = hello_make(&facts, ret_is_short);

	if (hello) {
		told.plugins = hello->plugins;
		told.n_plugins = hello->n_plugins;
		told.ticket_keys = hello->ticket_keys;
		fingerprint_note(&agent->told, &told);
	}
	return hello;
}

/* Say what plugins there are, if that is news to the server. Without a session the next hello does. */
static void tell_plugins(struct agent *agent)
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
	if (fingerprint_is_news(&agent->told, fingerprint)) {
		fingerprint_note(&agent->told, fingerprint);
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

	log_ctx(LOG_NOTICE,
		&(struct log_ctx){.op = "session", .peer = agent->server, .event = LOG_EVENT_SESSION_UP},
		"connected to the server");
	while ((receipt = receipts_next(agent->receipts, receipt)))
		session_send_receipt(agent->session, receipt, &helper_client_info(agent->helper)->head);
	while (sends_statuses && (runner = allocs_next(agent->allocs, runner)))
		session_send_status(agent->session, &alloc_runner_record(runner)->alloc);
	tell_plugins(agent); /* what has changed since the hello */
}

static void on_session_down(const struct error *err, void *userdata)
{
	struct agent *agent = userdata;
	uint32_t attempts = session_info(agent->session)->attempts;

	controller_calls_drop(agent->controller_calls);
	/* the first loss, then now and then */
	if (attempts <= 1 || attempts % 20 == 0)
		log_ctx(LOG_WARNING,
			&(struct log_ctx){.op = "session",
					  .peer = agent->server,
					  .event = LOG_EVENT_SESSION_DOWN,
					  .err = err},
			"no session with the server, what is mounted stays");
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
	session_send_refusal(agent->session, alloc->id, &err);
}

static void on_stop(const char *alloc_id, void *userdata)
{
	struct agent *agent = userdata;

	if (!allocs_stop(agent->allocs, alloc_id))
		session_send_unknown(agent->session, alloc_id);
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

static void on_forget(const char *alloc_id, void *userdata)
{
	struct agent *agent = userdata;

	allocs_forget(agent->allocs, alloc_id);
}

static bool send_report(const Holdfast__V1__NodeReport *report, void *userdata)
{
	struct agent *agent = userdata;

	return session_send_report(agent->session, report);
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
			"in "
			"this boot. What was freed since is released at the server's order");
	else
		log_ctx(LOG_NOTICE, &(struct log_ctx){.op = "session", .peer = agent->server},
			"the server has lost history, or may have, and is told what this node holds");
	if (!node_report_make(&facts, send_report, agent) && session_info(agent->session)->is_up)
		session_restart(agent->session); /* out of memory: it asks again */
}

static void on_call(const Holdfast__V1__PluginCall *call, void *userdata)
{
	struct agent *agent = userdata;

	controller_calls_take(agent->controller_calls, call);
}

void agent_on_controller_reply(const Holdfast__V1__PluginReply *reply, void *userdata)
{
	struct agent *agent = userdata;

	session_send_reply(agent->session, reply);
}

static void on_plugins_change(void *userdata)
{
	struct agent *agent = userdata;

	/* a plugin that ended may have taken its file servers along */
	(void)stale_look(agent->stale, agent->allocs, NULL, NULL);
	tell_plugins(agent);
}

static void on_plugin_store(const char *plugin_id, const struct node_plugin *facts, void *userdata)
{
	const struct journal_write write = {.plugin = facts, .forget_plugin = facts ? NULL : plugin_id};
	struct agent *agent = userdata;
	struct error err;

	if (journal_write(agent->journal, &write, on_kept, agent, &err) != STATUS_OK)
		on_broken(&err, agent);
}

static void on_plugin_expected(const char *alloc_id, const struct error *err, void *userdata)
{
	struct agent *agent = userdata;

	allocs_plugin_ready(agent->allocs, alloc_id, err);
}

const struct plugins_handlers agent_plugins_handlers = {
	.on_change = on_plugins_change,
	.on_store = on_plugin_store,
	.on_expected = on_plugin_expected,
};

static enum status expect_plugin(const struct alloc *alloc, void *userdata, struct error *err)
{
	const struct csi_plugin *plugin = &alloc->csi_plugin;
	struct plugin_expectation expectation = {
		.has_controller = csi_plugin_has_controller(plugin),
		.has_node = csi_plugin_has_node(plugin),
		.health_timeout_us = plugin->health_timeout_ms * USEC_PER_MSEC,
	};
	struct agent *agent = userdata;

	if (str_copy(expectation.plugin_id, sizeof(expectation.plugin_id), plugin->id) < 0 ||
	    str_copy(expectation.alloc_id, sizeof(expectation.alloc_id), alloc->id) < 0 ||
	    str_copy(expectation.socket, sizeof(expectation.socket), plugin->socket) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "allocation %s: the names in its csi_plugin block are too long", alloc->id);
	return plugins_expect(agent->plugins, &expectation, err);
}

static void forget_plugin(const char *alloc_id, void *userdata)
{
	struct agent *agent = userdata;

	plugins_forget(agent->plugins, alloc_id);
}

const struct session_handlers agent_session_handlers = {
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
};

/* Begin the first session, or another one when the hello would say that there is a picture now. */
static void renew_session(struct agent *agent)
{
	if (!agent->is_session_started)
		service_status_tell(agent->service, "READY=1\n");
	agent->is_session_started = true;
	wakeup_disarm(&agent->session_timer);
	session_restart(agent->session);
}

int agent_on_picture_overdue(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct agent *agent = userdata;

	log_ctx(LOG_WARNING, &(struct log_ctx){.op = "adopt"},
		"the mount helper has not told what is mounted yet: nothing is mounted or released until it "
		"does");
	renew_session(agent);
	return 0;
}

static int on_picture_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct agent *agent = userdata;
	struct error err;

	wakeup_disarm(&agent->picture_timer);
	if (helper_client_info(agent->helper)->is_running &&
	    picture_load_start(&agent->picture_load, &err) != STATUS_OK)
		log_ctx(LOG_ERR, &(struct log_ctx){.op = "adopt", .err = &err},
			"cannot read what is mounted");
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
	(void)on_picture_due(NULL, 0, userdata);
}

static void on_helper_down(const struct error *err, void *userdata)
{
	struct agent *agent = userdata;
	const struct helper_info *helper = helper_client_info(agent->helper);
	uint32_t failures = helper->failures;

	if (helper->is_running)
		log_ctx(LOG_WARNING, &(struct log_ctx){.op = "helper", .err = err},
			"an instance of the mount helper is gone, others serve");
	else if (failures <= HELPER_FAILURES_TOLD || failures % 20 == 0)
		log_ctx(LOG_ERR,
			&(struct log_ctx){.op = "helper", .event = LOG_EVENT_HELPER_DOWN, .err = err},
			"mount helper does not run, what is mounted stays");
	/* without a helper there is nothing to wait for, and whoever asks must hear of it */
	if (!helper->is_running && !agent->is_session_started)
		renew_session(agent);
	else
		tell_plugins(agent);
}

const struct helper_client_events agent_helper_events = {
	.on_ready = on_helper_ready,
	.on_down = on_helper_down,
	.on_stale = on_helper_stale,
};

void agent_on_picture(struct picture *picture, const struct error *err, void *userdata)
{
	struct agent *agent = userdata;
	bool is_first = !volume_manager_picture(agent->volumes);

	if (err) {
		log_ctx(LOG_ERR, &(struct log_ctx){.op = "adopt", .err = err}, "cannot read what is mounted");
		(void)wakeup_arm(agent->event, &agent->picture_timer,
				 backoff_next(&agent->picture_backoff, backoff_random()), on_picture_due,
				 agent, NULL);
		return;
	}
	assert(picture);
	backoff_reset(&agent->picture_backoff);
	volume_manager_set_picture(agent->volumes, picture);
	if (!allocs_is_adopted(agent->allocs)) {
		allocs_adopt(agent->allocs, picture);
		log_ctx(LOG_NOTICE, &(struct log_ctx){.op = "adopt"},
			"%zu volumes are staged, %zu published, %zu allocations journalled",
			picture->n_staged, picture->n_published, allocs_count(agent->allocs));
	}
	if (is_first)
		renew_session(agent);
	else
		tell_plugins(agent);
}

bool agent_is_connected(void *userdata)
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
	const char *const all[AGENT_PROBLEMS_MAX] = {problems[0], problems[1], problems[2], problems[3],
						     problems[4], problems[5], problems[6]};
	const struct report_facts facts = {
		.version = HOLDFAST_VERSION,
		.node_id = agent->config->node_id,
		.cluster = agent->config->cluster,
		.boot_id = agent->boot_id,
		.server = agent->server,
		.session = session_info(agent->session),
		.helper = agent->helper,
		.allocs = agent->allocs,
		.picture = volume_manager_picture(agent->volumes),
		.receipts = agent->receipts,
		.plugins = agent->plugins,
		.mounts = &agent->mounts,
		.stage_mounts = &agent->stage_mounts,
		.stale = agent->stale,
		.drain = agent->drain,
		.problems = all,
		.n_problems = agent_problems(agent, problems),
	};

	return report_make(&facts);
}

static enum status take_drain(const Holdfast__V1__DrainAgentRequest *request,
			      Holdfast__V1__DrainAgentResponse **ret, void *userdata, struct error *err)
{
	struct agent *agent = userdata;

	return drain_request(agent->drain, request, ret, err);
}

const struct local_handlers agent_local_handlers = {
	.prepare = prepare_report,
	.report = make_report,
	.drain = take_drain,
};

static int64_t clock_skew_ms(void *userdata)
{
	const struct agent *agent = userdata;

	return session_info(agent->session)->clock_skew_ms;
}

void agent_fill_env(struct agent *agent, struct runner_env *env)
{
	env->clock_skew_ms = clock_skew_ms;
	env->on_status = on_alloc_status;
	env->on_receipt = on_receipt;
	env->on_release_error = on_release_error;
	env->on_broken = on_broken;
	env->expect_plugin = expect_plugin;
	env->forget_plugin = forget_plugin;
	env->userdata = agent;
}

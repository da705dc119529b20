#include "agent.h"

#include "allocs.h"
#include "backoff.h"
#include "hello.h"
#include "helper_client.h"
#include "journal.h"
#include "local.h"
#include "picture_load.h"
#include "report.h"
#include "session.h"
#include "wakeup.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/str.h"
#include "log/log.h"
#include "model/node.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <systemd/sd-daemon.h>

#define BOOT_ID_PATH "/proc/sys/kernel/random/boot_id"

enum {
	BOOT_ID_FILE_MAX = 64,
	PICTURE_WAIT_MS = 5000, /* the session begins without a kernel picture after this */
	PICTURE_RETRY_MIN_MS = 500,
	PICTURE_RETRY_MAX_MS = 15000,
	HELPER_FAILURES_TOLD = 3, /* in a row; then the server is told that nothing can be mounted */
};

struct agent {
	sd_event *event;	     /* borrowed */
	const struct config *config; /* borrowed */
	char boot_id[UUID_TEXT_SIZE];
	char kernel[NODE_TEXT_MAX + 1];
	char server[CONFIG_HOST_SIZE + 8]; /* for people */
	struct journal *journal;
	struct receipts *receipts;
	struct rpc_tls *tls;
	struct rpc_client *rpc;
	struct helper_client *helper;
	struct picture_load picture_load;
	struct backoff picture_backoff;
	sd_event_source *picture_timer;
	struct volume_manager *volumes;
	struct runner_env env;
	struct allocs *allocs;
	struct session *session;
	sd_event_source *session_timer; /* until the first session */
	bool is_session_started;
	struct local *local;
	struct error broken; /* why the loop was ended; status OK: it was not */
};

DEFINE_CLEANUP(struct agent, agent_free)

static void notify_status(const struct agent *agent)
{
	const struct helper_info *helper = helper_client_info(agent->helper);
	const struct session_info *session = session_info(agent->session);

	(void)sd_notifyf(0, "STATUS=%s; mount helper %s; %zu allocations",
			 session->is_up ? "connected to the server" : "not connected to the server",
			 helper->is_running ? "runs" : "does not run", allocs_count(agent->allocs));
}

/* The journal cannot be trusted any more: end, and begin again from what is on the disk. */
static void on_broken(const struct error *err, void *userdata)
{
	struct agent *agent = userdata;

	if (agent->broken.status != STATUS_OK)
		return;
	agent->broken = *err;
	(void)sd_event_exit(agent->event, (int)err->status);
}

/* --- allocations tell --- */

static void on_alloc_status(const struct alloc *alloc, void *userdata)
{
	struct agent *agent = userdata;

	session_send_status(agent->session, alloc);
	notify_status(agent);
}

static void on_receipt(const struct receipt *receipt, void *userdata)
{
	struct agent *agent = userdata;

	session_send_receipt(agent->session, receipt);
}

static void on_release_error(const char *claim_id, uint64_t generation, const struct error *err,
			     void *userdata)
{
	struct agent *agent = userdata;

	session_send_release_error(agent->session, claim_id, generation, err);
}

/* --- the session tells --- */

static Holdfast__V1__SessionHello *make_hello(bool *ret_is_short, void *userdata)
{
	struct agent *agent = userdata;
	const struct hello_facts facts = {
		.node_id = agent->config->node_id,
		.boot_id = agent->boot_id,
		.agent_version = HOLDFAST_VERSION,
		.kernel = agent->kernel,
		.helper = helper_client_info(agent->helper),
		.picture = volume_manager_picture(agent->volumes),
		.allocs = agent->allocs,
	};

	return hello_make(&facts, ret_is_short);
}

static void on_session_up(bool sends_statuses, void *userdata)
{
	struct agent *agent = userdata;
	const struct alloc_runner *runner = NULL;
	const struct receipt *receipt = NULL;

	log_ctx(LOG_NOTICE, &(struct log_ctx){.op = "session", .peer = agent->server},
		"connected to the server");
	while ((receipt = receipts_next(agent->receipts, receipt)))
		session_send_receipt(agent->session, receipt);
	while (sends_statuses && (runner = allocs_next(agent->allocs, runner)))
		session_send_status(agent->session, &alloc_runner_record(runner)->alloc);
	notify_status(agent);
}

static void on_session_down(const struct error *err, void *userdata)
{
	struct agent *agent = userdata;
	uint32_t attempts = session_info(agent->session)->attempts;

	/* the first loss, then now and then */
	if (attempts <= 1 || attempts % 20 == 0)
		log_ctx(LOG_WARNING, &(struct log_ctx){.op = "session", .peer = agent->server, .err = err},
			"no session with the server, what is mounted stays");
	notify_status(agent);
}

static void on_run(const struct alloc *alloc, void *userdata)
{
	struct agent *agent = userdata;
	struct error err;

	if (allocs_run(agent->allocs, alloc, &err) == STATUS_OK)
		return;
	log_ctx(LOG_ERR, &(struct log_ctx){.alloc = alloc->id, .op = "run", .err = &err},
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
	if (journal_write(agent->journal, &write, NULL, NULL, &err) != STATUS_OK) {
		on_broken(&err, agent);
		return;
	}
	(void)receipts_remove(agent->receipts, claim_id, is_released);
}

static void on_release(const struct claim *claim, const char *wire_volume, void *userdata)
{
	struct agent *agent = userdata;
	struct error err;

	if (allocs_release(agent->allocs, claim, wire_volume, &err) == STATUS_OK)
		return;
	log_ctx(LOG_WARNING,
		&(struct log_ctx){
			.claim = claim->id, .alloc = claim->allocation_id, .op = "release", .err = &err},
		"claim is not released");
	session_send_release_error(agent->session, claim->id, claim->generation, &err);
}

static void on_forget(const char *alloc_id, void *userdata)
{
	struct agent *agent = userdata;

	allocs_forget(agent->allocs, alloc_id);
}

static const struct session_handlers session_handlers = {
	.make_hello = make_hello,
	.on_up = on_session_up,
	.on_down = on_session_down,
	.on_run = on_run,
	.on_stop = on_stop,
	.on_ack = on_ack,
	.on_release = on_release,
	.on_forget = on_forget,
};

/* Begin the first session, or another one when the hello would say something else. */
static void renew_session(struct agent *agent)
{
	if (!agent->is_session_started)
		(void)sd_notify(0, "READY=1");
	agent->is_session_started = true;
	wakeup_disarm(&agent->session_timer);
	session_restart(agent->session);
	notify_status(agent);
}

static int on_picture_overdue(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct agent *agent = userdata;

	log_ctx(LOG_WARNING, &(struct log_ctx){.op = "adopt"},
		"the mount helper has not told what is mounted yet: nothing is mounted or released until it "
		"does");
	renew_session(agent);
	return 0;
}

/* --- the mount helper tells --- */

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

static void on_helper_ready(void *userdata)
{
	struct agent *agent = userdata;
	const struct helper_info *helper = helper_client_info(agent->helper);

	log_ctx(LOG_INFO, &(struct log_ctx){.op = "helper"}, "mount helper runs, pid %d, policy %.16s%s%s",
		helper->pid, helper->policy_digest, helper->ticket_optional ? ", tickets optional" : "",
		helper->container ? ", in this mount namespace" : "");
	(void)on_picture_due(NULL, 0, agent);
	notify_status(agent);
}

static void on_helper_down(const struct error *err, void *userdata)
{
	struct agent *agent = userdata;
	uint32_t failures = helper_client_info(agent->helper)->failures;

	if (failures <= HELPER_FAILURES_TOLD || failures % 20 == 0)
		log_ctx(LOG_ERR, &(struct log_ctx){.op = "helper", .err = err},
			"mount helper does not run, what is mounted stays");
	/* without a helper there is nothing to wait for, and whoever asks must hear of it */
	if (!agent->is_session_started || failures == HELPER_FAILURES_TOLD)
		renew_session(agent);
	notify_status(agent);
}

static const struct helper_client_events helper_events = {
	.on_ready = on_helper_ready,
	.on_down = on_helper_down,
};

static void on_picture(struct picture *picture, const struct error *err, void *userdata)
{
	struct agent *agent = userdata;
	const struct picture *before = volume_manager_picture(agent->volumes);
	bool is_news = !before || !picture || !hello_fingerprint_equal(before, picture);

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
	if (is_news)
		renew_session(agent);
}

/* --- the local socket asks --- */

static Holdfast__V1__GetAgentStatusResponse *make_report(void *userdata)
{
	struct agent *agent = userdata;
	const struct report_facts facts = {
		.version = HOLDFAST_VERSION,
		.node_id = agent->config->node_id,
		.cluster = agent->config->cluster,
		.boot_id = agent->boot_id,
		.server = agent->server,
		.session = session_info(agent->session),
		.helper = helper_client_info(agent->helper),
		.allocs = agent->allocs,
		.picture = volume_manager_picture(agent->volumes),
		.receipts = agent->receipts,
	};

	return report_make(&facts);
}

/* --- making and ending --- */

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
	(void)str_format(agent->server, sizeof(agent->server), "%s:%u", agent->config->server.host,
			 agent->config->server.port);
	return STATUS_OK;
}

static enum status open_journal(struct agent *agent, struct error *err)
{
	const struct config *config = agent->config;

	if (mkdir(config->data_dir, 0700) < 0 && errno != EEXIST)
		return error_set(
			err, status_from_errno(errno), errno,
			"cannot make the agent's folder %s (data_dir; StateDirectory= in its unit makes it)",
			config->data_dir);
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
	if (status != STATUS_OK)
		return status;
	endpoint.tls = agent->tls;
	status = rpc_client_new(agent->event, &endpoint, &agent->rpc, err);
	if (status != STATUS_OK)
		return status;
	return session_new(agent->event, agent->rpc, &session, &session_handlers, agent, &agent->session,
			   err);
}

static enum status open_helper(struct agent *agent, struct error *err)
{
	const struct config *config = agent->config;
	const struct helper_client_options options = {
		.path = config->helper.path,
		.start_timeout_us = config->helper.start_timeout_us,
		.request_timeout_us = config->helper.request_timeout_us,
	};
	enum status status;

	status = helper_client_new(agent->event, &options, &helper_events, agent, &agent->helper, err);
	if (status != STATUS_OK)
		return status;
	picture_load_init(&agent->picture_load, agent->helper, on_picture, agent);
	agent->picture_backoff = (struct backoff)BACKOFF_INIT(PICTURE_RETRY_MIN_MS * USEC_PER_MSEC,
							      PICTURE_RETRY_MAX_MS * USEC_PER_MSEC);
	return STATUS_OK;
}

static enum status open_allocs(struct agent *agent, struct error *err)
{
	enum status status;

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
		.rpc = agent->rpc,
		.node_id = agent->config->node_id,
		.boot_id = agent->boot_id,
		.claim_timeout_us = agent->config->claim_timeout_us,
		.on_status = on_alloc_status,
		.on_receipt = on_receipt,
		.on_release_error = on_release_error,
		.on_broken = on_broken,
		.userdata = agent,
	};
	return allocs_load(agent->allocs, err);
}

/* Threads of the store inherit this. */
static enum status block_signals(struct error *err)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return error_set(err, STATUS_INTERNAL, errno, "cannot block signals");
	return STATUS_OK;
}

enum status agent_new(sd_event *event, const struct config *config, struct agent **ret, struct error *err)
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
		status = local_new(event, config->socket, make_report, agent, &agent->local, err);
	if (status != STATUS_OK)
		return status;
	*ret = TAKE_PTR(agent);
	return STATUS_OK;
}

enum status agent_start(struct agent *agent, struct error *err)
{
	enum status status = helper_client_start(agent->helper, err);

	if (status != STATUS_OK)
		return status;
	return wakeup_arm(agent->event, &agent->session_timer, PICTURE_WAIT_MS * USEC_PER_MSEC,
			  on_picture_overdue, agent, err);
}

static int on_signal(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	log_line(LOG_NOTICE, "ending upon %s; what is mounted stays",
		 info->ssi_signo == SIGTERM ? "SIGTERM" : "SIGINT");
	(void)sd_notify(0, "STOPPING=1");
	return sd_event_exit(sd_event_source_get_event(source), 0);
}

enum status agent_supervise(struct agent *agent, struct error *err)
{
	int r;

	r = sd_event_add_signal(agent->event, NULL, SIGTERM, on_signal, agent);
	if (r >= 0)
		r = sd_event_add_signal(agent->event, NULL, SIGINT, on_signal, agent);
	if (r >= 0)
		r = sd_event_set_watchdog(agent->event, true);
	if (r < 0)
		return error_set(err, STATUS_INTERNAL, r, "cannot watch for signals");
	return STATUS_OK;
}

void agent_free(struct agent *agent)
{
	if (!agent)
		return;
	local_free(agent->local);
	session_free(agent->session);
	wakeup_disarm(&agent->session_timer);
	wakeup_disarm(&agent->picture_timer);
	/* what waits for an answer goes before whom the answer is for */
	helper_client_free(agent->helper);
	picture_load_release(&agent->picture_load);
	volume_manager_free(agent->volumes);
	journal_close(agent->journal);
	allocs_free(agent->allocs);
	receipts_free(agent->receipts);
	rpc_client_free(agent->rpc);
	rpc_tls_free(agent->tls);
	free(agent);
}

static enum status run(sd_event *event, const struct config *config, struct error *err)
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
	r = sd_event_loop(event);
	if (agent->broken.status != STATUS_OK) {
		*err = agent->broken;
		return error_prefix(err, "the journal cannot be written, the agent must end");
	}
	return r < 0 ? error_set(err, STATUS_INTERNAL, r, "the event loop failed") : STATUS_OK;
}

enum status agent_run(const struct config *config, struct error *err)
{
	sd_event *event = NULL;
	enum status status;
	int r;

	r = sd_event_default(&event);
	if (r < 0)
		return error_set(err, STATUS_INTERNAL, r, "cannot make an event loop");
	status = run(event, config, err);
	sd_event_unref(event);
	return status;
}

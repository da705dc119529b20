/* SPDX-License-Identifier: Apache-2.0 */
#include "server.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "node/session.h"
#include "plugin/call.h"
#include "plugin/controller_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { TIMER_ACCURACY_US = 1000 };

static void leave_session(struct plugin_job *job)
{
	if (!job->session)
		return;
	LIST_REMOVE(job, of_session);
	LIST_REMOVE(job, of_sent);
	job->session = NULL;
	job->controllers->stats.under_way--;
}

static void job_free(struct plugin_job *job)
{
	leave_session(job);
	job->timer = sd_event_source_disable_unref(job->timer);
	if (job->call)
		holdfast__v1__plugin_call__free_unpacked(job->call, NULL);
	free(job);
}

/* It has had its turn, and is in no list any more. The next one's turn comes before anybody hears of the end,
 * so that what follows from it goes behind. */
static void finish(struct plugin_job *job, const Holdfast__V1__PluginReply *reply, const struct error *err)
{
	struct controllers *controllers = job->controllers;
	struct plugin_queue *queue = job->queue;

	leave_session(job);
	plugin_queue_leave(queue, job);
	plugin_queue_drop_idle(controllers, queue);
	job->queue = NULL;
	if (err)
		controllers->stats.failed++;
	job->done(controllers->server, reply, err, job->userdata);
	job_free(job);
}

static int on_deadline(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct plugin_job *job = userdata;
	const struct server *server = job->controllers->server;
	char text[CLOCK_TEXT_SIZE];
	struct error err;

	(void)source;
	(void)usec;
	(void)error_set(&err, STATUS_DEADLINE_EXCEEDED, 0,
			"plugin %s on node %s: %s: no answer within %s (controller_timeout); it may or may "
			"not have been done",
			job->queue->plugin_id, job->node_id, plugin_call_name(job->call),
			clock_format_duration(server->config.controller_timeout_us, text));
	finish(job, NULL, &err);
	return 0;
}

static enum status start_clock(struct plugin_job *job, struct error *err)
{
	struct server *server = job->controllers->server;
	int r;

	if (job->deadline_us != 0)
		return STATUS_OK;
	job->deadline_us = clock_monotonic_us() + server->config.controller_timeout_us;
	r = sd_event_add_time(server->event, &job->timer, CLOCK_MONOTONIC, job->deadline_us,
			      TIMER_ACCURACY_US, on_deadline, job);
	return r < 0 ? error_set(err, STATUS_RESOURCE_EXHAUSTED, r, "arm a deadline") : STATUS_OK;
}

static enum status send_down(struct plugin_job *job, struct session *session, struct error *err)
{
	enum status st = start_clock(job, err);
	uint64_t now_us = clock_monotonic_us();

	if (st != STATUS_OK)
		return st;
	job->call->timeout_ms =
		job->deadline_us > now_us ? (uint32_t)((job->deadline_us - now_us) / USEC_PER_MSEC) : 0;
	st = session_plugin_call(session, job->call, err);
	if (st != STATUS_OK)
		return error_set(
			err, STATUS_UNAVAILABLE, 0,
			"plugin %s: %s could not be sent to node %s, whose session ends; nothing was "
			"called",
			job->queue->plugin_id, plugin_call_name(job->call), job->node_id);
	job->session = session;
	LIST_INSERT_HEAD(&session->calls, job, of_session);
	LIST_INSERT_HEAD(&job->controllers->sent, job, of_sent);
	job->controllers->stats.calls++;
	job->controllers->stats.under_way++;
	return STATUS_OK;
}

/* It is the job's turn, or the next node's. */
static void send_job(struct plugin_job *job)
{
	struct server *server = job->controllers->server;
	struct session *session;
	struct error err;

	if (job->wanted && !job->wanted(server, job->userdata)) {
		(void)error_set(&err, STATUS_ABORTED, 0, "plugin %s: %s is no longer wanted",
				job->queue->plugin_id, plugin_call_name(job->call));
		finish(job, NULL, &err);
		return;
	}
	session = controller_choose_session(job);
	if (!session) {
		(void)controller_none(job, job->queue->plugin_id, &err);
		finish(job, NULL, &err);
		return;
	}
	if (send_down(job, session, &err) != STATUS_OK)
		finish(job, NULL, &err);
}

static int on_send_soon(sd_event_source *source, void *userdata)
{
	struct controllers *controllers = userdata;
	struct plugin_jobs turn =
		TAILQ_HEAD_INITIALIZER(turn); /* what gets ready meanwhile has the next one */
	struct plugin_job *job;

	(void)source;
	TAILQ_CONCAT(&turn, &controllers->ready, waiting);
	while ((job = TAILQ_FIRST(&turn))) {
		TAILQ_REMOVE(&turn, job, waiting);
		send_job(job);
	}
	return 0;
}

static enum status check_target(struct server *server, const struct controller_call *call, struct error *err)
{
	struct plugin_entry *plugin = state_plugin(&server->state, call->plugin_id);
	struct plugin_job about = {.is_directed = true};

	if (server->controllers->has_stopped)
		return error_set(err, STATUS_UNAVAILABLE, 0, "the server is ending");
	if (!plugin)
		return error_set(err, STATUS_NOT_FOUND, 0,
				 "there is no plugin %.128s: no node reports it; see holdfast plugin status",
				 call->plugin_id);
	if (protobuf_c_message_get_packed_size(&call->call->base) > CONTROLLER_CALL_BYTES_MAX)
		return error_set(
			err, STATUS_INVALID_ARGUMENT, 0,
			"plugin %s: %s: the call has more than %d bytes: shorten parameters, context or "
			"secrets",
			call->plugin_id, plugin_call_name(call->call), CONTROLLER_CALL_BYTES_MAX);
	if (!call->node_id)
		return controller_find(plugin, "") ? STATUS_OK : controller_none(NULL, call->plugin_id, err);
	if (controller_find_node_service(server, call->plugin_id, call->node_id))
		return STATUS_OK;
	str_copy_text(about.node_id, sizeof(about.node_id), call->node_id);
	return controller_none(&about, call->plugin_id, err);
}

static struct plugin_job *job_new(struct controllers *controllers, const struct controller_call *call)
{
	Holdfast__V1__PluginCall named = *call->call;
	struct plugin_job *job = calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	named.plugin_id = (char *)(uintptr_t)call->plugin_id; /* copied below */
	*job = (struct plugin_job){
		.controllers = controllers,
		.call = (Holdfast__V1__PluginCall *)message_copy(&named.base),
		.is_serial = plugin_call_is_serial(call->call),
		.is_directed = call->node_id != NULL,
		.wanted = call->wanted,
		.done = call->done,
		.userdata = call->userdata,
	};
	if (!job->call) {
		job_free(job);
		return NULL;
	}
	if (call->node_id)
		(void)str_copy(job->node_id, sizeof(job->node_id), call->node_id);
	return job;
}

enum status controller_call(struct server *server, const struct controller_call *call, struct error *err)
{
	struct controllers *controllers = server->controllers;
	struct plugin_queue *queue;
	struct plugin_job *job;
	enum status st;

	assert(call->done && plugin_call_name(call->call));
	st = check_target(server, call, err);
	if (st != STATUS_OK)
		return st;
	queue = plugin_queue_or_new(controllers, call->plugin_id);
	if (!queue)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "out of memory");
	st = plugin_queue_check_room(queue, plugin_call_is_serial(call->call), err);
	if (st != STATUS_OK)
		return st;
	job = job_new(controllers, call);
	if (!job) {
		plugin_queue_drop_idle(controllers, queue);
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "out of memory");
	}
	plugin_queue_add(queue, job);
	return STATUS_OK;
}

static struct plugin_job *find_job(struct session *session, uint64_t call_id)
{
	struct plugin_job *job;

	LIST_FOREACH (job, &session->calls, of_session) /* newest first; as many as are under way there */
		if (job->call->call_id == call_id)
			return job;
	return NULL;
}

static void take_answer(struct plugin_job *job, const Holdfast__V1__PluginReply *reply)
{
	const char *plugin_id = job->queue->plugin_id;
	const char *name = plugin_call_name(job->call);
	struct error err;

	if (reply->code != 0) {
		(void)error_set(&err, status_from_number(reply->code), 0, "plugin %s on node %s: %s: %s",
				plugin_id, job->node_id, name, reply->message);
		finish(job, NULL, &err);
	} else if (!plugin_call_fits(job->call, reply)) {
		(void)error_set(&err, STATUS_UNKNOWN, 0,
				"plugin %s on node %s: %s was answered with something else; it may or may "
				"not have been done",
				plugin_id, job->node_id, name);
		finish(job, NULL, &err);
	} else {
		finish(job, reply, NULL);
	}
}

void controllers_take_reply(struct session *session, const Holdfast__V1__PluginReply *reply)
{
	struct plugin_job *job = find_job(session, reply->call_id);

	if (!job) {
		session->server->controllers->stats.strays++;
		return;
	}
	if (!reply->not_here) {
		take_answer(job, reply);
		return;
	}
	leave_session(job);
	if (job->is_directed) {
		struct error err;

		(void)controller_none(job, job->queue->plugin_id, &err);
		finish(job, NULL, &err);
		return;
	}
	send_job(job);
}

void controllers_session_lost(struct session *session)
{
	struct plugin_job *job;

	while ((job = LIST_FIRST(&session->calls))) {
		struct error err;

		(void)error_set(&err, STATUS_UNKNOWN, 0,
				"plugin %s on node %s: %s: the node's session ended before it answered; it "
				"may or may not have been done",
				job->queue->plugin_id, job->node_id, plugin_call_name(job->call));
		finish(job, NULL, &err);
	}
}

void controller_stats(const struct server *server, struct controller_stats *ret)
{
	*ret = server->controllers->stats;
	ret->waiting = plugin_queues_waiting(server->controllers);
}

void controllers_stop(struct controllers *controllers)
{
	const struct error ending = {.status = STATUS_CANCELLED, .msg = "the server is ending"};
	struct plugin_job *job;

	if (!controllers)
		return;
	controllers->has_stopped = true;
	/* the end of each makes the next of its plugin ready */
	while ((job = TAILQ_FIRST(&controllers->ready)) || (job = LIST_FIRST(&controllers->sent))) {
		if (!job->session)
			TAILQ_REMOVE(&controllers->ready, job, waiting);
		finish(job, NULL, &ending);
	}
}

bool controllers_have_stopped(const struct server *server)
{
	return server->controllers->has_stopped;
}

void controllers_free(struct controllers *controllers)
{
	if (!controllers)
		return;
	assert(RB_EMPTY(&controllers->queues)); /* stopped before */
	controllers->send_soon = sd_event_source_disable_unref(controllers->send_soon);
	free(controllers);
}

enum status controllers_new(struct server *server, struct controllers **ret, struct error *err)
{
	struct controllers *controllers = calloc(1, sizeof(*controllers));
	int r;

	if (!controllers)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "out of memory");
	*controllers = (struct controllers){.server = server};
	RB_INIT(&controllers->queues);
	TAILQ_INIT(&controllers->ready);
	LIST_INIT(&controllers->sent);
	r = sd_event_add_defer(server->event, &controllers->send_soon, on_send_soon, controllers);
	if (r >= 0)
		r = sd_event_source_set_enabled(controllers->send_soon, SD_EVENT_OFF);
	if (r < 0) {
		controllers_free(controllers);
		return error_set(err, STATUS_INTERNAL, r, "set up the calls to controllers");
	}
	*ret = controllers;
	return STATUS_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/controller.h"

#include "server.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/tree.h"
#include "base/turn.h"
#include "node/session.h"
#include "pb/reflect.h"
#include "plugin/args.h"
#include "state/state.h"
#include "store/checksum.h"

#include <assert.h>
#include <holdfast/v1/plugin_call.pb-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <systemd/sd-event.h>

/* The kinds of calls to a CSI plugin: what each is called, which answer fits, which go one at a time. */

struct call_kind {
	Holdfast__V1__PluginCall__RequestCase request;
	Holdfast__V1__PluginReply__ResponseCase response;
	const char *name;
	bool is_serial;
	bool is_first;	 /* of those that wait */
	bool is_bounded; /* CONTROLLER_SIDE_MAX of those side by side */
	bool is_list;	 /* of a caller, not of a namespace */
};

#define KIND(kind, name_, is_serial_, ...)                                                \
	{                                                                                 \
		.request = HOLDFAST__V1__PLUGIN_CALL__REQUEST_##kind,                     \
		.response = HOLDFAST__V1__PLUGIN_REPLY__RESPONSE_##kind, .name = (name_), \
		.is_serial = (is_serial_), __VA_ARGS__                                    \
	}

static const struct call_kind call_kinds[] = {
	/* snapshots of one tenant must not delay the work of another one */
	KIND(ATTACH, "ControllerPublishVolume", true, .is_first = true),
	KIND(DETACH, "ControllerUnpublishVolume", true, .is_first = true),
	KIND(VALIDATE, "ValidateVolumeCapabilities", false, .is_bounded = true),
	KIND(CREATE, "CreateVolume", false, .is_bounded = true),
	KIND(DELETE, "DeleteVolume", true),
	KIND(EXPAND, "ControllerExpandVolume", true),
	KIND(LIST_VOLUMES, "ListVolumes", false, .is_bounded = true, .is_list = true),
	KIND(CREATE_SNAPSHOT, "CreateSnapshot", true),
	KIND(DELETE_SNAPSHOT, "DeleteSnapshot", true),
	KIND(LIST_SNAPSHOTS, "ListSnapshots", false, .is_bounded = true, .is_list = true),
	KIND(NODE_EXPAND, "NodeExpandVolume", false),
	/* a detach that hangs must not delay a fence */
	KIND(FENCE_NETWORK, "FenceClusterNetwork", false),
	KIND(UNFENCE_NETWORK, "UnfenceClusterNetwork", false),
	KIND(LIST_FENCED, "ListClusterFence", false),
};

static const struct call_kind *call_kind_of(const Holdfast__V1__PluginCall *call)
{
	for (size_t i = 0; i < ARRAY_SIZE(call_kinds); i++)
		if (call_kinds[i].request == call->request_case)
			return &call_kinds[i];
	return NULL;
}

/* CSI's name of the call, "ControllerPublishVolume"; NULL when no request is set. */
static const char *plugin_call_name(const Holdfast__V1__PluginCall *call)
{
	const struct call_kind *kind = call_kind_of(call);

	return kind ? kind->name : NULL;
}

/* Must it not overlap with another such call to the same plugin? Source: nomad-facts 3. */
static bool plugin_call_is_serial(const Holdfast__V1__PluginCall *call)
{
	const struct call_kind *kind = call_kind_of(call);

	return kind && kind->is_serial;
}

static bool plugin_call_is_first(const Holdfast__V1__PluginCall *call)
{
	const struct call_kind *kind = call_kind_of(call);

	return kind && kind->is_first;
}

static bool plugin_call_is_bounded(const Holdfast__V1__PluginCall *call)
{
	const struct call_kind *kind = call_kind_of(call);

	return kind && kind->is_bounded;
}

static bool plugin_call_is_list(const Holdfast__V1__PluginCall *call)
{
	const struct call_kind *kind = call_kind_of(call);

	return kind && kind->is_list;
}

/* Does @reply carry the response of the request's kind? */
static bool plugin_call_fits(const Holdfast__V1__PluginCall *call, const Holdfast__V1__PluginReply *reply)
{
	const struct call_kind *kind = call_kind_of(call);

	return kind && kind->response == reply->response_case;
}

TAILQ_HEAD(plugin_jobs, plugin_job);

/* Calls that wait. Namespaces take turns: many calls of one delay a call of another by one. */
struct plugin_line {
	struct plugin_jobs jobs;
	size_t n;
	char namespace[NAMESPACE_MAX + 1]; /* that had the last turn */
};

/* The calls to one plugin; gone with the last one. */
struct plugin_queue {
	char plugin_id[PLUGIN_ID_MAX + 1];
	RB_ENTRY(plugin_queue) by_plugin;
	struct plugin_line first, others; /* serial ones */
	struct plugin_line side;	  /* bounded ones */
	size_t n_side;			  /* those that are not serial, in the line or not */
	LIST_HEAD(, plugin_job) bounded;  /* of them, scheduled */
	size_t n_bounded;
	bool is_taken; /* a serial one is scheduled */
};
RB_HEAD(plugin_queues, plugin_queue);

/* A call from controller_call() to its end. */
struct plugin_job {
	struct controllers *controllers;
	struct plugin_queue *queue;
	Holdfast__V1__PluginCall *call; /* owned */
	bool is_serial, is_list;
	bool is_directed;      /* to node_id, else to any controller */
	bool is_of_controller; /* of node_id, not to its node service */
	uint64_t timeout_us;
	char namespace[NAMESPACE_MAX + 1];
	char reporter[NODE_ID_MAX + 1];
	char node_id[NODE_ID_MAX + 1]; /* that was asked last, or will be; empty: not chosen yet */
	struct session *session;       /* that it went down; NULL: it waits */
	LIST_ENTRY(plugin_job) of_session;
	LIST_ENTRY(plugin_job) of_sent;
	LIST_ENTRY(plugin_job) of_bounded;
	TAILQ_ENTRY(plugin_job) waiting; /* queued, or to be sent */
	uint64_t deadline_us;		 /* monotonic; 0: not sent yet */
	sd_event_source *timer;		 /* owned */
	controller_wanted_fn *wanted;
	controller_done_fn *done;
	void *userdata;
};

struct controllers {
	struct server *server; /* borrowed */
	struct plugin_queues queues;
	struct plugin_jobs ready; /* that are scheduled */
	LIST_HEAD(, plugin_job) sent;
	sd_event_source *send_soon; /* owned; on while something is ready */
	struct controller_stats stats;
	bool has_stopped;
};

static int compare_queues(const struct plugin_queue *a, const struct plugin_queue *b)
{
	return strcmp(a->plugin_id, b->plugin_id);
}

TREE_GENERATE(plugin_queues, plugin_queue, by_plugin, compare_queues)

/* NULL when memory is short. */
static struct plugin_queue *plugin_queue_or_new(struct controllers *controllers, const char *plugin_id)
{
	struct plugin_queue *queue = calloc(1, sizeof(*queue));
	struct plugin_queue *known;

	if (!queue)
		return NULL;
	(void)str_copy(queue->plugin_id, sizeof(queue->plugin_id), plugin_id);
	TAILQ_INIT(&queue->first.jobs);
	TAILQ_INIT(&queue->others.jobs);
	TAILQ_INIT(&queue->side.jobs);
	LIST_INIT(&queue->bounded);
	known = RB_INSERT(plugin_queues, &controllers->queues, queue);
	if (!known)
		return queue;
	free(queue);
	return known;
}

static void plugin_queue_drop_idle(struct controllers *controllers, struct plugin_queue *queue)
{
	if (queue->is_taken || queue->first.n > 0 || queue->others.n > 0 || queue->n_side > 0)
		return;
	RB_REMOVE(plugin_queues, &controllers->queues, queue);
	free(queue);
}

static struct plugin_line *line_of(struct plugin_queue *queue, const Holdfast__V1__PluginCall *call)
{
	return plugin_call_is_first(call) ? &queue->first : &queue->others;
}

static size_t count_of(const struct plugin_line *line, const char *namespace, bool is_list)
{
	const struct plugin_job *job;
	size_t n = 0;

	TAILQ_FOREACH (job, &line->jobs, waiting)
		n += job->is_list == is_list && (!namespace || str_eq(job->namespace, namespace));
	return n;
}

/* Those side by side, in the line or not. Lists count by themselves: a token has one share of them, and
 * another one of the calls of its namespace. */
static size_t count_side(const struct plugin_queue *queue, bool is_list)
{
	const struct plugin_job *job;
	size_t n = count_of(&queue->side, NULL, is_list);

	LIST_FOREACH (job, &queue->bounded, of_bounded)
		n += job->is_list == is_list;
	return n;
}

/* A node can report any number of claims that no detach ever ends. */
static enum status check_reporter(const struct plugin_queue *queue, const char *reporter, struct error *err)
{
	const struct plugin_job *job;
	size_t n = 0;

	TAILQ_FOREACH (job, &queue->first.jobs, waiting)
		n += str_eq(job->reporter, reporter);
	if (n < CONTROLLER_REPORTED_MAX)
		return STATUS_OK;
	return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
			 "plugin %s: %zu detaches of claims that are known only from the report of node %s "
			 "wait for its controller, the most there may be; see holdfast node status %s",
			 queue->plugin_id, n, reporter, reporter);
}

/* STATUS_RESOURCE_EXHAUSTED when CONTROLLER_QUEUE_MAX calls of this kind wait in it. Calls that tenants ask
 * for take not the last room of a fence, and those of one namespace not the last of another. */
static enum status plugin_queue_check_room(struct plugin_queue *queue, const struct controller_call *call,
					   struct error *err)
{
	const struct plugin_line *line = plugin_call_is_serial(call->call)    ? line_of(queue, call->call)
					 : plugin_call_is_bounded(call->call) ? &queue->side
									      : NULL;
	bool is_list = plugin_call_is_list(call->call);
	size_t n = !line		  ? queue->n_side - queue->side.n - queue->n_bounded
		   : line == &queue->side ? count_side(queue, is_list)
					  : line->n;
	bool has_many = call->namespace && n >= CONTROLLER_QUEUE_MAX - CONTROLLER_QUEUE_KEPT_FREE &&
			(!line || count_of(line, call->namespace, is_list) >= CONTROLLER_QUEUE_KEPT_FREE);

	if (n < CONTROLLER_QUEUE_MAX && !has_many)
		return call->reporter ? check_reporter(queue, call->reporter, err) : STATUS_OK;
	return error_set(
		err, STATUS_RESOURCE_EXHAUSTED, 0,
		"plugin %s: %zu calls wait for its controller, the most there may be%s; try again later",
		queue->plugin_id, n, has_many ? " with many of one namespace or caller" : "");
}

static void make_ready(struct plugin_job *job)
{
	struct controllers *controllers = job->controllers;

	TAILQ_INSERT_TAIL(&controllers->ready, job, waiting);
	/* cannot fail: the source exists and the loop runs during any call */
	(void)sd_event_source_set_enabled(controllers->send_soon, SD_EVENT_ONESHOT);
}

static void line_put(struct plugin_line *line, struct plugin_job *job)
{
	TAILQ_INSERT_TAIL(&line->jobs, job, waiting);
	line->n++;
}

/* A namespace has at most as many calls side by side as it leaves places, but each a first one. */
static bool has_place(const struct plugin_queue *queue, const struct plugin_job *job)
{
	const struct plugin_job *other;
	size_t own = 0;

	LIST_FOREACH (other, &queue->bounded, of_bounded)
		own += job->namespace[0] != '\0' && str_eq(other->namespace, job->namespace);
	return queue->n_bounded + own < CONTROLLER_SIDE_MAX;
}

/* Schedules the first job of the namespace whose turn it is, and returns it; NULL: no job may begin. */
static struct plugin_job *line_begin(struct plugin_queue *queue, struct plugin_line *line)
{
	struct plugin_job *next = NULL, *job;

	TAILQ_FOREACH (job, &line->jobs, waiting)
		if ((job->is_serial || has_place(queue, job)) &&
		    (!next || turn_compare(line->namespace, job->namespace, next->namespace) < 0))
			next = job;
	if (!next)
		return NULL;
	TAILQ_REMOVE(&line->jobs, next, waiting);
	line->n--;
	memcpy(line->namespace, next->namespace, sizeof(line->namespace));
	make_ready(next);
	return next;
}

/* Starts the next job, once the queue is free. */
static void next_turn(struct plugin_queue *queue)
{
	queue->is_taken = line_begin(queue, queue->first.n > 0 ? &queue->first : &queue->others) != NULL;
}

static void next_side(struct plugin_queue *queue)
{
	struct plugin_job *job;

	while (queue->n_bounded < CONTROLLER_SIDE_MAX && (job = line_begin(queue, &queue->side))) {
		LIST_INSERT_HEAD(&queue->bounded, job, of_bounded);
		queue->n_bounded++;
	}
}

/* @job is ready when it is scheduled: soon, when it need not wait. */
static void plugin_queue_add(struct plugin_queue *queue, struct plugin_job *job)
{
	job->queue = queue;
	queue->n_side += !job->is_serial;
	if (job->is_serial) {
		line_put(line_of(queue, job->call), job);
		if (!queue->is_taken)
			next_turn(queue);
	} else if (plugin_call_is_bounded(job->call)) {
		line_put(&queue->side, job);
		next_side(queue);
	} else {
		make_ready(job);
	}
}

/* @job, which was scheduled, has ended: the next one is scheduled. */
static void plugin_queue_leave(struct plugin_queue *queue, struct plugin_job *job)
{
	queue->n_side -= !job->is_serial;
	if (job->is_serial) {
		next_turn(queue);
	} else if (plugin_call_is_bounded(job->call)) {
		LIST_REMOVE(job, of_bounded);
		queue->n_bounded--;
		next_side(queue);
	}
}

/* How many calls are queued. */
static size_t plugin_queues_waiting(struct controllers *controllers)
{
	struct plugin_queue *queue;
	size_t n = 0;

	RB_FOREACH (queue, plugin_queues, &controllers->queues)
		n += queue->first.n + queue->others.n + queue->side.n;
	return n;
}

static bool can_ask(const struct instance_entry *entry)
{
	const struct session *session = entry->node->session;

	return session && !session->closing && entry->instance.plugin.controller.healthy;
}

/* Returns the first controller that can be asked, by node id, or NULL. Costs the number of controllers that
 * cannot be asked. */
static struct instance_entry *controller_find(struct plugin_entry *plugin)
{
	struct instance_entry *entry = state_controller_after(plugin, "");

	while (entry && !can_ask(entry))
		entry = state_controller_next(entry);
	return entry;
}

/* Returns the id that the provider has for the volume of the call, or the name of one that will be created;
 * "" for a list. */
static const char *subject_of(const Holdfast__V1__PluginCall *call)
{
	static const char *const names[] = {"external_id", "name", "snapshot_id"};
	const ProtobufCMessage *request = (const ProtobufCMessage *)call->attach; /* a member of the oneof */

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const ProtobufCFieldDescriptor *field = reflect_find(request->descriptor, names[i]);

		if (field && reflect_is_set(request, field))
			return reflect_text(reflect_at(request, field));
	}
	return "";
}

/* The controller with the highest weight is asked: one that comes or goes takes or leaves its share of the
 * volumes. The last steps are those of fmix64 of MurmurHash3, which let each bit count. */
static uint64_t weight_of(const char *node_id, const char *subject)
{
	uint64_t sum = checksum_add(CHECKSUM_INIT, node_id, strlen(node_id) + 1);

	sum = checksum_add(sum, subject, strlen(subject));
	sum = (sum ^ sum >> 33) * UINT64_C(0xff51afd7ed558ccd);
	sum = (sum ^ sum >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
	return sum ^ sum >> 33;
}

/* Returns the controller for @call, after the one on node @last if that is not empty, or NULL. Costs the
 * number of controllers. */
static struct instance_entry *controller_choose(struct plugin_entry *plugin,
						const Holdfast__V1__PluginCall *call, const char *last)
{
	const char *subject = subject_of(call);
	uint64_t below = last[0] != '\0' ? weight_of(last, subject) : UINT64_MAX, highest = 0;
	struct instance_entry *entry = state_controller_after(plugin, ""), *ret = NULL;

	for (; entry; entry = state_controller_next(entry)) {
		uint64_t weight = weight_of(entry->node->id, subject);

		if (!can_ask(entry) || weight >= below || (ret && weight <= highest))
			continue;
		highest = weight;
		ret = entry;
	}
	return ret;
}

const struct controller_half *controller_capabilities(struct plugin_entry *plugin)
{
	const struct instance_entry *entry = controller_find(plugin);

	return entry ? &entry->instance.plugin.controller : NULL;
}

const struct plugin_instance *controller_after(struct plugin_entry *plugin, const char *after)
{
	struct instance_entry *entry = state_controller_after(plugin, after);

	while (entry && (!can_ask(entry) || str_eq(entry->node->id, after)))
		entry = state_controller_next(entry);
	return entry ? &entry->instance : NULL;
}

/* The session of @node_id, whose controller or node service of the plugin is wanted, or NULL. */
static struct session *controller_find_service(struct server *server, const char *plugin_id,
					       const char *node_id, bool is_of_controller)
{
	const struct instance_entry *entry = state_instance(&server->state, node_id, plugin_id, "");
	struct session *session = entry ? entry->node->session : NULL;

	if (!session || session->closing)
		return NULL;
	return (is_of_controller ? can_ask(entry) : entry->instance.plugin.has_node) ? session : NULL;
}

/* Where @job can go now; NULL: nowhere. Not to a controller that it was sent to before. */
static struct session *controller_choose_session(struct plugin_job *job)
{
	struct server *server = job->controllers->server;
	struct plugin_entry *plugin;
	struct instance_entry *entry;

	if (job->is_directed)
		return controller_find_service(server, job->queue->plugin_id, job->node_id,
					       job->is_of_controller);
	plugin = state_plugin(&server->state, job->queue->plugin_id);
	entry = plugin ? controller_choose(plugin, job->call, job->node_id) : NULL;
	if (!entry)
		return NULL;
	(void)str_copy(job->node_id, sizeof(job->node_id), entry->node->id);
	return entry->node->session;
}

/* Sets @err to STATUS_UNAVAILABLE for a job without a controller. @job as far as it has come, or NULL. */
static enum status controller_none(const struct plugin_job *job, const char *plugin_id, struct error *err)
{
	if (job && job->is_directed)
		return error_set(err, STATUS_UNAVAILABLE, 0,
				 "plugin %s: node %s is not connected, or does not run its %s; see "
				 "holdfast node status %s",
				 plugin_id, job->node_id,
				 job->is_of_controller ? "controller" : "node service", job->node_id);
	if (job && job->node_id[0] != '\0')
		return error_set(err, STATUS_UNAVAILABLE, 0,
				 "plugin %s: node %s reports that its controller is not there, and no other "
				 "connected node has a healthy one; see holdfast plugin status %s",
				 plugin_id, job->node_id, plugin_id);
	return error_set(
		err, STATUS_UNAVAILABLE, 0,
		"plugin %s: no connected node runs a healthy controller; see holdfast plugin status %s",
		plugin_id, plugin_id);
}

enum { TIMER_ACCURACY_US = 1000 };

static void leave_session(struct plugin_job *job)
{
	if (!job->session)
		return;
	LIST_REMOVE(job, of_session);
	LIST_REMOVE(job, of_sent);
	job->session = NULL;
	job->controllers->stats.in_flight--;
}

static void job_free(struct plugin_job *job)
{
	leave_session(job);
	job->timer = sd_event_source_disable_unref(job->timer);
	if (job->call)
		holdfast__v1__plugin_call__free_unpacked(job->call, NULL);
	free(job);
}

/* Ends a job that was scheduled and has left all lists. Schedules the next one before it reports the end,
 * so that follow-up calls go behind. */
static void plugin_job_finish(struct plugin_job *job, const Holdfast__V1__PluginReply *reply,
			      const struct error *err)
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
	char text[CLOCK_TEXT_SIZE];
	struct error err;

	(void)error_set(&err, STATUS_DEADLINE_EXCEEDED, 0,
			"plugin %s on node %s: %s: no answer within %s (controller_timeout); it may or may "
			"not have been done",
			job->queue->plugin_id, job->node_id, plugin_call_name(job->call),
			clock_format_duration(job->timeout_us, text));
	plugin_job_finish(job, NULL, &err);
	return 0;
}

static enum status start_clock(struct plugin_job *job, struct error *err)
{
	struct server *server = job->controllers->server;
	int r;

	if (job->deadline_us != 0)
		return STATUS_OK;
	if (job->timeout_us == 0)
		job->timeout_us = server->config.controller_timeout_us;
	job->deadline_us = clock_monotonic_us() + job->timeout_us;
	r = sd_event_add_time(server->event, &job->timer, CLOCK_MONOTONIC, job->deadline_us,
			      TIMER_ACCURACY_US, on_deadline, job);
	return r < 0 ? error_set(err, STATUS_RESOURCE_EXHAUSTED, r, "arm a deadline") : STATUS_OK;
}

static enum status send_down(struct plugin_job *job, struct session *session, struct error *err)
{
	enum status status = start_clock(job, err);
	uint64_t now_us = clock_monotonic_us();

	if (status != STATUS_OK)
		return status;
	job->call->timeout_ms =
		job->deadline_us > now_us ? (uint32_t)((job->deadline_us - now_us) / USEC_PER_MSEC) : 0;
	status = session_plugin_call(session, job->call, err);
	if (status != STATUS_OK)
		return error_set(
			err, STATUS_UNAVAILABLE, 0,
			"plugin %s: %s could not be sent to node %s, whose session ends; nothing was "
			"called",
			job->queue->plugin_id, plugin_call_name(job->call), job->node_id);
	job->session = session;
	LIST_INSERT_HEAD(&session->calls, job, of_session);
	LIST_INSERT_HEAD(&job->controllers->sent, job, of_sent);
	job->controllers->stats.calls++;
	job->controllers->stats.in_flight++;
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
		plugin_job_finish(job, NULL, &err);
		return;
	}
	session = controller_choose_session(job);
	if (!session) {
		(void)controller_none(job, job->queue->plugin_id, &err);
		plugin_job_finish(job, NULL, &err);
		return;
	}
	if (send_down(job, session, &err) != STATUS_OK)
		plugin_job_finish(job, NULL, &err);
}

static int on_send_soon(sd_event_source *source, void *userdata)
{
	struct controllers *controllers = userdata;
	struct plugin_jobs turn =
		TAILQ_HEAD_INITIALIZER(turn); /* what gets ready meanwhile has the next one */
	struct plugin_job *job;

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
	struct plugin_job about = {.is_directed = true, .is_of_controller = call->is_of_controller};

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
		return controller_find(plugin) ? STATUS_OK : controller_none(NULL, call->plugin_id, err);
	if (controller_find_service(server, call->plugin_id, call->node_id, call->is_of_controller))
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
		.is_list = plugin_call_is_list(call->call),
		.is_directed = call->node_id != NULL,
		.is_of_controller = call->is_of_controller,
		.timeout_us = call->timeout_us,
		.wanted = call->wanted,
		.done = call->done,
		.userdata = call->userdata,
	};
	if (!job->call) {
		job_free(job);
		return NULL;
	}
	if (call->namespace)
		str_copy_text(job->namespace, sizeof(job->namespace), call->namespace);
	if (call->reporter)
		(void)str_copy(job->reporter, sizeof(job->reporter), call->reporter);
	if (call->node_id)
		(void)str_copy(job->node_id, sizeof(job->node_id), call->node_id);
	return job;
}

enum status controller_call(struct server *server, const struct controller_call *call, struct error *err)
{
	struct controllers *controllers = server->controllers;
	struct plugin_queue *queue;
	struct plugin_job *job;

	assert(call->done && plugin_call_name(call->call));
	TRY(check_target(server, call, err));
	queue = plugin_queue_or_new(controllers, call->plugin_id);
	if (!queue)
		return error_no_memory(err, "a controller");
	TRY(plugin_queue_check_room(queue, call, err));
	job = job_new(controllers, call);
	if (!job) {
		plugin_queue_drop_idle(controllers, queue);
		return error_no_memory(err, "a controller");
	}
	plugin_queue_add(queue, job);
	return STATUS_OK;
}

static struct plugin_job *find_job(struct session *session, uint64_t call_id)
{
	struct plugin_job *job;

	LIST_FOREACH (job, &session->calls, of_session) /* newest first; as many as are in flight there */
		if (job->call->call_id == call_id)
			return job;
	return NULL;
}

static void handle_answer(struct plugin_job *job, const Holdfast__V1__PluginReply *reply)
{
	const char *plugin_id = job->queue->plugin_id;
	const char *name = plugin_call_name(job->call);
	struct error err;

	if (reply->code != 0) {
		(void)error_set(&err, status_from_number(reply->code), 0, "plugin %s on node %s: %s: %s",
				plugin_id, job->node_id, name, reply->message);
		plugin_job_finish(job, NULL, &err);
	} else if (!plugin_call_fits(job->call, reply)) {
		(void)error_set(&err, STATUS_UNKNOWN, 0,
				"plugin %s on node %s: %s was answered with something else; it may or may "
				"not have been done",
				plugin_id, job->node_id, name);
		plugin_job_finish(job, NULL, &err);
	} else {
		plugin_job_finish(job, reply, NULL);
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
		handle_answer(job, reply);
		return;
	}
	leave_session(job);
	if (job->is_directed) {
		struct error err;

		(void)controller_none(job, job->queue->plugin_id, &err);
		plugin_job_finish(job, NULL, &err);
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
		plugin_job_finish(job, NULL, &err);
	}
}

/* Is the call an attach or detach of @external_id at the provider's node @node_id? */
static bool is_of(const Holdfast__V1__PluginCall *call, const char *external_id, const char *node_id)
{
	if (call->request_case == HOLDFAST__V1__PLUGIN_CALL__REQUEST_ATTACH)
		return str_eq(call->attach->external_id, external_id) &&
		       str_eq(call->attach->external_node_id, node_id);
	return call->request_case == HOLDFAST__V1__PLUGIN_CALL__REQUEST_DETACH &&
	       str_eq(call->detach->external_id, external_id) &&
	       str_eq(call->detach->external_node_id, node_id);
}

bool controller_is_asked(struct server *server, const struct claim *claim, struct controller_asked *ret)
{
	const char *external_id = plugin_args_external_id(&server->state, claim);
	const char *node_id = plugin_args_node_id(&server->state, claim);
	uint64_t now_us = clock_monotonic_us();
	const struct plugin_job *job;

	LIST_FOREACH (job, &server->controllers->sent, of_sent) {
		uint64_t sent_us = job->deadline_us - job->timeout_us;

		if (!str_eq(job->queue->plugin_id, claim->plugin_id) ||
		    !is_of(job->call, external_id, node_id))
			continue;
		*ret = (struct controller_asked){.method = plugin_call_name(job->call),
						 .node_id = job->node_id,
						 .for_us = now_us > sent_us ? now_us - sent_us : 0};
		return true;
	}
	return false;
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
		plugin_job_finish(job, NULL, &ending);
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
		return error_no_memory(err, "a controller");
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

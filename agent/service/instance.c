/* SPDX-License-Identifier: Apache-2.0 */
/* An instance of a service: its timers, its probes and the questions about its facts. */
#include "service/instance.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "rpc/timer.h"

#include <assert.h>
#include <string.h>

enum { EMPTY_REQUEST_MAX = 256 };

static void step(struct service_instance *instance, enum instance_event event, const struct error *err);
static void ask(struct service_instance *instance);

static const struct service_question *question(const struct service_instance *instance)
{
	return &instance->options.row->questions[instance->at];
}

static const struct service_method *method(const struct service_instance *instance)
{
	return &instance->options.row->kind->methods[question(instance)->method];
}

static struct log_ctx context(const struct service_instance *instance, const struct error *err)
{
	struct log_ctx ctx = service_log_ctx(instance->options.row->kind, instance->name);

	ctx.err = err;
	return ctx;
}

static void stop_asking(struct service_instance *instance)
{
	instance->is_first = false;
	timer_disarm(instance->first_timer);
	service_call_cancel(TAKE_PTR(instance->call));
	service_call_cancel(TAKE_PTR(instance->stream));
}

static void fail(struct service_instance *instance, const struct error *err)
{
	if (instance->at == 0) {
		step(instance, INSTANCE_PROBE_FAILED, err);
		return;
	}
	stop_asking(instance);
	step(instance, INSTANCE_FACTS_FAILED, err);
}

/* All that were asked for are answered. */
static void end_facts(struct service_instance *instance)
{
	const struct service_row *row = instance->options.row;
	struct error err;

	if (row->check && row->check(instance, &err) != STATUS_OK)
		fail(instance, &err);
	else
		step(instance, INSTANCE_FACTS_OK, NULL);
}

/* Ask for the next of the facts. */
static void ask_next(struct service_instance *instance)
{
	const struct service_row *row = instance->options.row;

	do
		instance->at++;
	while (instance->at < row->n_questions && row->is_asked &&
	       !row->is_asked(instance, question(instance)->method));
	if (instance->at < row->n_questions)
		ask(instance);
	else
		end_facts(instance);
}

/* Is the failure an answer, too? */
static bool may_fail(const struct service_instance *instance, const struct error *err)
{
	const struct log_ctx ctx = context(instance, err);

	if (err->status == STATUS_UNIMPLEMENTED)
		return question(instance)->may_be_absent || question(instance)->is_extra;
	if (question(instance)->is_extra)
		log_ctx(LOG_WARNING, &ctx, "%s %s: %s failed, continuing without it",
			instance->options.row->kind->noun, instance->name, method(instance)->name);
	return question(instance)->is_extra;
}

static void on_answer(const ProtobufCMessage *response, const struct error *err, void *userdata)
{
	struct service_instance *instance = userdata;
	const struct service_row *row = instance->options.row;
	struct error why;

	instance->call = NULL;
	if (!response && instance->at == 0 && err->sys_errno == EACCES && row->no_access) {
		(void)error_set(&why, err->status, 0, "%s: %s", err->msg, row->no_access);
		why.sys_errno = EACCES;
		fail(instance, &why);
	} else if (!response && !may_fail(instance, err)) {
		fail(instance, err);
	} else if (response && row->take(instance, question(instance)->method, response, &why) != STATUS_OK) {
		fail(instance, &why);
	} else if (instance->at == 0) {
		step(instance, INSTANCE_PROBE_OK, NULL);
	} else {
		ask_next(instance);
	}
}

static void on_message(const ProtobufCMessage *message, void *userdata)
{
	struct service_instance *instance = userdata;
	const struct service_row *row = instance->options.row;
	const struct service_question *last = &row->questions[row->n_questions - 1];
	struct error err;

	if (row->take(instance, last->method, message, &err) != STATUS_OK) {
		const struct log_ctx ctx = context(instance, &err);

		log_ctx(LOG_WARNING, &ctx, "%s %s: its report of its health is ignored", row->kind->noun,
			instance->name);
		return; /* the first one: until its time is over */
	}
	if (instance->is_first) {
		instance->is_first = false;
		timer_disarm(instance->first_timer);
		end_facts(instance);
	}
	row->changed(instance);
}

static void on_stream_end(const ProtobufCMessage *response, const struct error *why, void *userdata)
{
	struct service_instance *instance = userdata;
	struct error err;

	instance->stream = NULL;
	if (!instance->is_first) {
		step(instance, INSTANCE_LOST, why);
		return;
	}
	(void)error_set(&err, STATUS_UNAVAILABLE, 0, "%s %s: %s ended without an answer",
			instance->options.row->kind->noun, instance->name, method(instance)->name);
	fail(instance, why ? why : &err);
}

static int on_first_late(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct service_instance *instance = userdata;
	struct error err;

	(void)error_set(&err, STATUS_DEADLINE_EXCEEDED, 0, "%s %s: %s: no answer within %d ms",
			instance->options.row->kind->noun, instance->name, method(instance)->name,
			(int)question(instance)->timeout_ms);
	fail(instance, &err);
	return 0;
}

static enum status open_stream(struct service_instance *instance, struct service_request *request,
			       struct error *err)
{
	int r = timer_arm(instance->options.event, &instance->first_timer, request->timeout_us, on_first_late,
			  instance);

	if (r < 0)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, r, "%s %s: arm a timer",
				 instance->options.row->kind->noun, instance->name);
	instance->is_first = true;
	request->timeout_us = 0; /* it stays open */
	request->on_message = on_message;
	request->done = on_stream_end;
	return service_call_start(instance->client, request, &instance->stream, err);
}

static void ask(struct service_instance *instance)
{
	const struct service_row *row = instance->options.row;
	const struct service_question *asked = question(instance);
	_Alignas(max_align_t) char empty[EMPTY_REQUEST_MAX];
	struct service_request request = {
		.method = asked->method,
		.message = row->request ? row->request(instance, asked->method) : NULL,
		.timeout_us = asked->timeout_ms * USEC_PER_MSEC,
		.done = on_answer,
		.userdata = instance,
	};
	enum status status;
	struct error err;

	if (!request.message) {
		assert(method(instance)->request->sizeof_message <= sizeof(empty));
		protobuf_c_message_init(method(instance)->request, empty);
		request.message = (const ProtobufCMessage *)empty;
	}
	status = method(instance)->is_stream
			 ? open_stream(instance, &request, &err)
			 : service_call_start(instance->client, &request, &instance->call, &err);
	if (status != STATUS_OK)
		fail(instance, &err);
}

static int on_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	step(userdata, INSTANCE_DUE, NULL);
	return 0;
}

static void arm(struct service_instance *instance, uint64_t delay_us)
{
	int r = timer_arm(instance->options.event, &instance->timer, delay_us, on_due, instance);
	struct log_ctx ctx;
	struct error err;

	if (r >= 0)
		return;
	(void)error_set(&err, STATUS_RESOURCE_EXHAUSTED, r, "cannot arm a timer");
	ctx = context(instance, &err);
	log_ctx(LOG_ERR, &ctx, "%s %s is not probed again until it binds its socket again",
		instance->options.row->kind->noun, instance->name);
}

/* Timers and calls that a step asks for. */
static void act(struct service_instance *instance, unsigned int actions)
{
	if (actions & INSTANCE_DO_SETTLE)
		backoff_reset(&instance->soon);
	if (actions & INSTANCE_DO_INTERVAL) {
		backoff_reset(&instance->retry);
		arm(instance, instance->options.probe_interval_us);
	}
	if (actions & INSTANCE_DO_BACKOFF)
		arm(instance, backoff_next(&instance->retry, backoff_random()));
	if (actions & INSTANCE_DO_SOON) {
		bool is_first = instance->soon.attempts == 0;
		uint64_t delay_us = backoff_next(&instance->soon, backoff_random());

		arm(instance, is_first ? 0 : delay_us);
	}
	if (actions & INSTANCE_DO_PROBE) {
		instance->at = 0;
		ask(instance);
	}
	if (actions & INSTANCE_DO_FACTS) {
		stop_asking(instance);
		instance->at = 0;
		ask_next(instance);
	}
}

static void step(struct service_instance *instance, enum instance_event event, const struct error *err)
{
	const struct service_row *row = instance->options.row;
	struct instance_step next = instance_step(instance->state, event);

	if (!str_eq(instance_state_name(next.state), instance_state_name(instance->state)))
		instance->since_ms = clock_realtime_ms();
	instance->state = next.state;
	if (err)
		instance->last_error = *err;
	else if (event == INSTANCE_FACTS_OK)
		instance->last_error = (struct error){0};
	if (next.actions & INSTANCE_DO_CANCEL) {
		timer_disarm(instance->timer);
		stop_asking(instance);
	}
	if (next.actions & INSTANCE_DO_TELL)
		row->log(instance);
	act(instance, next.actions);
	if (next.actions & (INSTANCE_DO_TELL | INSTANCE_DO_REASON))
		row->changed(instance);
}

static void on_lost(void *userdata)
{
	step(userdata, INSTANCE_LOST, NULL);
}

static void close_client(struct service_client *client)
{
	if (client)
		service_client_exited(client);
	service_client_free(client);
}

static enum status open_client(struct service_instance *instance, struct error *err)
{
	const struct service_client_options options = {
		.name = instance->name,
		.socket = instance->path,
		.message_bytes = instance->options.message_bytes,
		.call_timeout_us = instance->options.call_timeout_us,
		.on_lost = instance->options.row->is_told_of_loss ? on_lost : NULL,
		.userdata = instance,
	};
	struct service_client *old = instance->client;
	struct service_client *client;

	TRY(service_client_new(instance->options.event, instance->options.row->kind, &options, &client, err));
	instance->client = client;
	close_client(old); /* last: the end of a call may take the instance away */
	return STATUS_OK;
}

enum status service_instance_init(struct service_instance *instance,
				  const struct service_instance_options *options, struct error *err)
{
	int r;

	instance->options = *options;
	instance->since_ms = clock_realtime_ms();
	instance->retry = (struct backoff)BACKOFF_INIT(INSTANCE_RETRY_MIN_MS * USEC_PER_MSEC,
						       INSTANCE_RETRY_MAX_MS * USEC_PER_MSEC);
	instance->soon = (struct backoff)BACKOFF_INIT(INSTANCE_SOON_MIN_MS * USEC_PER_MSEC,
						      INSTANCE_SOON_MAX_MS * USEC_PER_MSEC);
	instance->options.dir = instance->options.name = instance->options.socket = NULL;
	if (str_copy(instance->name, sizeof(instance->name), options->name) < 0 ||
	    str_format(instance->path, sizeof(instance->path), "%s/%s/%s", options->dir, options->name,
		       options->socket) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "the path of the socket %s is too long",
				 options->socket);
	TRY(open_client(instance, err));
	r = timer_arm(options->event, &instance->timer, 0, on_due, instance);
	return r < 0 ? error_set(err, STATUS_RESOURCE_EXHAUSTED, r, "cannot probe %s %s",
				 options->row->kind->noun, instance->name)
		     : STATUS_OK;
}

void service_instance_release(struct service_instance *instance)
{
	stop_asking(instance);
	(void)sd_event_source_disable_unref(instance->timer);
	(void)sd_event_source_disable_unref(instance->first_timer);
	close_client(instance->client);
}

void service_instance_end(struct service_instance *instance)
{
	struct error err;

	(void)error_set(&err, STATUS_UNAVAILABLE, 0, "%s %s: its socket %s is gone",
			instance->options.row->kind->noun, instance->name, instance->path);
	step(instance, INSTANCE_REMOVED, &err);
}

void service_instance_recreate(struct service_instance *instance)
{
	struct log_ctx ctx;
	struct error err;

	/* first the call in flight here, which must not fail because of its own end */
	step(instance, INSTANCE_RECREATED, NULL);
	if (open_client(instance, &err) == STATUS_OK)
		return;
	ctx = context(instance, &err);
	log_ctx(LOG_ERR, &ctx, "%s %s: the old connection is kept", instance->options.row->kind->noun,
		instance->name);
}

void service_instance_ask_again(struct service_instance *instance)
{
	step(instance, INSTANCE_RECREATED, NULL);
}

void service_instance_retry(struct service_instance *instance)
{
	if (!service_instance_is_healthy(instance))
		service_instance_ask_again(instance);
}

bool service_instance_is_healthy(const struct service_instance *instance)
{
	return instance_state_is_healthy(instance->state);
}

bool service_instance_is_settled(const struct service_instance *instance)
{
	return instance->state == INSTANCE_HEALTHY;
}

void service_instances_update(struct registry *registry, const struct service_socket *sockets, size_t n,
			      const struct service_folder_events *events, void *userdata)
{
	struct service_instance *instance;

	while ((instance = registry_take_missing(registry, sockets, n)))
		events->remove(instance);
	for (size_t i = 0; i < n; i++) {
		switch (registry_add(registry, &sockets[i])) {
		case REGISTRY_NEW:
			instance = events->add(&sockets[i], userdata);
			registry->slots[0].instance = instance;
			if (!instance)
				(void)registry_remove(registry, &sockets[i]);
			break;
		case REGISTRY_RECREATED:
			service_instance_recreate(registry->slots[0].instance);
			break;
		case REGISTRY_TOUCHED:
			service_instance_retry(registry_find(registry, sockets[i].name));
			break;
		case REGISTRY_SAME:
		case REGISTRY_FULL: /* service/dir names at most as many as there is room for */
			break;
		}
	}
}

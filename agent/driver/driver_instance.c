/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/driver_instance.h"

#include "base/backoff.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "log/log.h"
#include "plugins/instance.h"
#include "rpc/timer.h"
#include "service/instance_step.h"

#include <assert.h>
#include <limits.h>
#include <order.h>
#include <stdlib.h>
#include <string.h>

struct driver_instance {
	sd_event *event; /* borrowed */
	char name[DRIVER_NAME_MAX + 1];
	char path[PATH_MAX];
	const struct drivers_options *options;
	driver_instance_changed_fn *changed;
	void *userdata;
	struct service_client *client;
	enum instance_state state;
	struct backoff retry; /* of one that does not answer */
	struct backoff soon;  /* of one that does not stay what it is */
	sd_event_source *timer;
	struct service_call *call;    /* the question in flight */
	struct service_call *watch;   /* Fingerprint */
	sd_event_source *first_timer; /* until its first answer */
	bool is_asked;		      /* for facts, whose last is that answer */
	ProtobufCMessage *capabilities;
	ProtobufCMessage *schema;
	ProtobufCMessage *fingerprint;
	struct error last_error;
};

DEFINE_CLEANUP(struct driver_instance, driver_instance_free)

static void step(struct driver_instance *instance, enum instance_event event, const struct error *err);

static void message_drop(ProtobufCMessage **message)
{
	if (*message)
		protobuf_c_message_free_unpacked(*message, NULL);
	*message = NULL;
}

/* Keep a copy of @message in @slot. */
static enum status keep(struct driver_instance *instance, ProtobufCMessage **slot,
			const ProtobufCMessage *message, struct error *err)
{
	size_t n = protobuf_c_message_get_packed_size(message);
	cleanup_free uint8_t *bytes = NULL;
	ProtobufCMessage *copy = NULL;

	if (n > DRIVER_FINGERPRINT_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "driver %s: its %s has %zu bytes, more than %d are not taken",
				 instance->name, message->descriptor->short_name, n, DRIVER_FINGERPRINT_MAX);
	bytes = malloc(n + 1);
	if (bytes) {
		(void)protobuf_c_message_pack(message, bytes);
		copy = protobuf_c_message_unpack(message->descriptor, NULL, n, bytes);
	}
	if (!copy)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "driver %s: keep its %s",
				 instance->name, message->descriptor->short_name);
	message_drop(slot);
	*slot = copy;
	return STATUS_OK;
}

static enum status check_capabilities(const struct driver_instance *instance,
				      const Holdfast__Driver__V1__CapabilitiesResponse *reported,
				      struct error *err)
{
	char name[DRIVER_NAME_MAX + 1];

	str_copy_text(name, sizeof(name), reported->name);
	if (!str_eq(reported->name, instance->name))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "driver %s: it calls itself '%s': bind its socket in a folder of that name",
				 instance->name, name);
	if (reported->order_version != ORDER_VERSION)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "driver %s: it takes orders of version %u, they are made in version %u: "
				 "install driver and agent of one release",
				 instance->name, (unsigned int)reported->order_version,
				 (unsigned int)ORDER_VERSION);
	return STATUS_OK;
}

static void on_capabilities(const ProtobufCMessage *response, const struct error *why, void *userdata)
{
	struct driver_instance *instance = userdata;
	struct error err;

	instance->call = NULL;
	if (!response) {
		step(instance, INSTANCE_PROBE_FAILED, why);
		return;
	}
	if (check_capabilities(instance, (const void *)response, &err) != STATUS_OK ||
	    keep(instance, &instance->capabilities, response, &err) != STATUS_OK) {
		step(instance, INSTANCE_PROBE_FAILED, &err);
		return;
	}
	step(instance, INSTANCE_PROBE_OK, NULL);
}

static enum status ask(struct driver_instance *instance, enum driver_method method,
		       const ProtobufCMessage *message, service_done_fn *done, struct error *err)
{
	const struct service_request request = {
		.method = method,
		.message = message,
		.timeout_us = DRIVER_ASK_TIMEOUT_MS * USEC_PER_MSEC,
		.done = done,
		.userdata = instance,
	};

	return service_call_start(instance->client, &request, &instance->call, err);
}

static void do_probe(struct driver_instance *instance)
{
	const Holdfast__Driver__V1__CapabilitiesRequest request =
		HOLDFAST__DRIVER__V1__CAPABILITIES_REQUEST__INIT;
	struct error err;

	if (ask(instance, DRIVER_CAPABILITIES, &request.base, on_capabilities, &err) != STATUS_OK)
		step(instance, INSTANCE_PROBE_FAILED, &err);
}

/* Facts begin and end here. */
static void stop_asking(struct driver_instance *instance)
{
	instance->is_asked = false;
	timer_disarm(instance->first_timer);
	service_call_cancel(TAKE_PTR(instance->call));
	service_call_cancel(TAKE_PTR(instance->watch));
}

static void fail_facts(struct driver_instance *instance, const struct error *err)
{
	stop_asking(instance);
	step(instance, INSTANCE_FACTS_FAILED, err);
}

static void on_fingerprint(const ProtobufCMessage *message, void *userdata)
{
	struct driver_instance *instance = userdata;
	struct error err;

	if (keep(instance, &instance->fingerprint, message, &err) != STATUS_OK) {
		log_ctx(LOG_WARNING, &(struct log_ctx){.op = "driver", .driver = instance->name, .err = &err},
			"driver %s: what it says of its health is passed over", instance->name);
		return; /* the first one: until its time is over */
	}
	if (instance->is_asked) {
		instance->is_asked = false;
		timer_disarm(instance->first_timer);
		step(instance, INSTANCE_FACTS_OK, NULL);
	}
	instance->changed(instance->userdata);
}

static void on_watch_end(const ProtobufCMessage *response, const struct error *why, void *userdata)
{
	struct driver_instance *instance = userdata;
	struct error err;

	instance->watch = NULL;
	if (!instance->is_asked) {
		step(instance, INSTANCE_LOST, why);
		return;
	}
	(void)error_set(&err, STATUS_UNAVAILABLE, 0, "driver %s: Fingerprint ended without an answer",
			instance->name);
	fail_facts(instance, why ? why : &err);
}

static int on_first_late(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct driver_instance *instance = userdata;
	struct error err;

	(void)error_set(&err, STATUS_DEADLINE_EXCEEDED, 0, "driver %s: Fingerprint: no answer within %d ms",
			instance->name, DRIVER_ASK_TIMEOUT_MS);
	fail_facts(instance, &err);
	return 0;
}

static void do_watch(struct driver_instance *instance)
{
	const Holdfast__Driver__V1__FingerprintRequest message =
		HOLDFAST__DRIVER__V1__FINGERPRINT_REQUEST__INIT;
	const struct service_request request = {
		.method = DRIVER_FINGERPRINT,
		.message = &message.base,
		.on_message = on_fingerprint,
		.done = on_watch_end,
		.userdata = instance,
	};
	struct error err;
	int r = timer_arm(instance->event, &instance->first_timer, DRIVER_ASK_TIMEOUT_MS * USEC_PER_MSEC,
			  on_first_late, instance);

	if (r < 0) {
		(void)error_set(&err, STATUS_RESOURCE_EXHAUSTED, r, "driver %s: arm a timer", instance->name);
		fail_facts(instance, &err);
	} else if (service_call_start(instance->client, &request, &instance->watch, &err) != STATUS_OK) {
		fail_facts(instance, &err);
	}
}

static void on_configured(const ProtobufCMessage *response, const struct error *why, void *userdata)
{
	struct driver_instance *instance = userdata;

	instance->call = NULL;
	if (response)
		do_watch(instance);
	else
		fail_facts(instance, why);
}

static void on_schema(const ProtobufCMessage *response, const struct error *why, void *userdata)
{
	static const Holdfast__Driver__V1__SetConfigRequest nothing =
		HOLDFAST__DRIVER__V1__SET_CONFIG_REQUEST__INIT;
	struct driver_instance *instance = userdata;
	const struct drivers_options *options = instance->options;
	const Holdfast__Driver__V1__SetConfigRequest *config =
		options->config ? options->config(instance->name, options->userdata) : NULL;
	struct error err;

	instance->call = NULL;
	if (!response)
		fail_facts(instance, why);
	else if (keep(instance, &instance->schema, response, &err) != STATUS_OK ||
		 ask(instance, DRIVER_SET_CONFIG, config ? &config->base : &nothing.base, on_configured,
		     &err) != STATUS_OK)
		fail_facts(instance, &err);
}

static void do_facts(struct driver_instance *instance)
{
	const Holdfast__Driver__V1__ConfigSchemaRequest request =
		HOLDFAST__DRIVER__V1__CONFIG_SCHEMA_REQUEST__INIT;
	struct error err;

	stop_asking(instance);
	instance->is_asked = true;
	if (ask(instance, DRIVER_CONFIG_SCHEMA, &request.base, on_schema, &err) != STATUS_OK)
		fail_facts(instance, &err);
}

static int on_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	step(userdata, INSTANCE_DUE, NULL);
	return 0;
}

static void arm(struct driver_instance *instance, uint64_t delay_us)
{
	int r = timer_arm(instance->event, &instance->timer, delay_us, on_due, instance);
	struct error err;

	if (r >= 0)
		return;
	(void)error_set(&err, STATUS_RESOURCE_EXHAUSTED, r, "cannot arm a timer");
	log_ctx(LOG_ERR, &(struct log_ctx){.op = "driver", .driver = instance->name, .err = &err},
		"driver %s is not asked again until its socket is bound anew", instance->name);
}

static void log_state(const struct driver_instance *instance)
{
	const struct error *err = &instance->last_error;

	if (driver_instance_answers(instance))
		log_ctx(LOG_NOTICE, &(struct log_ctx){.op = "driver", .driver = instance->name},
			"driver %s answers at %s", instance->name, instance->path);
	else
		log_ctx(LOG_WARNING,
			&(struct log_ctx){.op = "driver",
					  .driver = instance->name,
					  .err = err->status != STATUS_OK ? err : NULL},
			"driver %s does not answer at %s, tasks that run continue", instance->name,
			instance->path);
}

static void act(struct driver_instance *instance, unsigned int actions)
{
	uint64_t interval_us = instance->options->probe_interval_us;

	if (actions & INSTANCE_DO_SETTLE)
		backoff_reset(&instance->soon);
	if (actions & INSTANCE_DO_INTERVAL) {
		backoff_reset(&instance->retry);
		arm(instance, interval_us ? interval_us : DRIVERS_PROBE_INTERVAL_DEFAULT_MS * USEC_PER_MSEC);
	}
	if (actions & INSTANCE_DO_BACKOFF)
		arm(instance, backoff_next(&instance->retry, backoff_random()));
	if (actions & INSTANCE_DO_SOON) {
		bool is_first = instance->soon.attempts == 0;
		uint64_t delay_us = backoff_next(&instance->soon, backoff_random());

		arm(instance, is_first ? 0 : delay_us);
	}
	if (actions & INSTANCE_DO_PROBE)
		do_probe(instance);
	if (actions & INSTANCE_DO_FACTS)
		do_facts(instance);
}

static void step(struct driver_instance *instance, enum instance_event event, const struct error *err)
{
	struct instance_step next = instance_step(instance->state, event);

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
		log_state(instance);
	act(instance, next.actions);
	if (next.actions & (INSTANCE_DO_TELL | INSTANCE_DO_REASON))
		instance->changed(instance->userdata);
}

static enum status open_client(struct driver_instance *instance, struct error *err)
{
	const struct service_client_options options = {.name = instance->name, .socket = instance->path};
	struct service_client *old = instance->client;
	enum status status =
		service_client_new(instance->event, &driver_kind, &options, &instance->client, err);

	if (status != STATUS_OK || !old)
		return status;
	service_client_exited(old);
	service_client_free(old);
	return STATUS_OK;
}

enum status driver_instance_new(sd_event *event, const char *name, const char *path,
				const struct drivers_options *options, driver_instance_changed_fn *changed,
				void *userdata, struct driver_instance **ret, struct error *err)
{
	cleanup(driver_instance_freep) struct driver_instance *instance = calloc(1, sizeof(*instance));
	int r;

	if (!instance)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "driver %s is not taken", name);
	instance->event = event;
	instance->options = options;
	instance->changed = changed;
	instance->userdata = userdata;
	instance->retry = (struct backoff)BACKOFF_INIT(INSTANCE_RETRY_MIN_MS * USEC_PER_MSEC,
						       INSTANCE_RETRY_MAX_MS * USEC_PER_MSEC);
	instance->soon = (struct backoff)BACKOFF_INIT(INSTANCE_SOON_MIN_MS * USEC_PER_MSEC,
						      INSTANCE_SOON_MAX_MS * USEC_PER_MSEC);
	if (str_copy(instance->name, sizeof(instance->name), name) < 0 ||
	    str_copy(instance->path, sizeof(instance->path), path) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "the path of the socket %s is too long",
				 path);
	TRY(open_client(instance, err));
	r = timer_arm(event, &instance->timer, 0, on_due, instance);
	if (r < 0)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, r, "driver %s is not taken", name);
	*ret = TAKE_PTR(instance);
	return STATUS_OK;
}

void driver_instance_free(struct driver_instance *instance)
{
	if (!instance)
		return;
	stop_asking(instance);
	(void)sd_event_source_disable_unref(instance->timer);
	(void)sd_event_source_disable_unref(instance->first_timer);
	if (instance->client)
		service_client_exited(instance->client);
	service_client_free(instance->client);
	message_drop(&instance->capabilities);
	message_drop(&instance->schema);
	message_drop(&instance->fingerprint);
	free(instance);
}

void driver_instance_recreate(struct driver_instance *instance)
{
	struct error err;

	/* first what is in flight here, which is not to fail for its end */
	step(instance, INSTANCE_RECREATED, NULL);
	if (open_client(instance, &err) != STATUS_OK)
		log_ctx(LOG_ERR, &(struct log_ctx){.op = "driver", .driver = instance->name, .err = &err},
			"driver %s: the old connection is kept", instance->name);
}

void driver_instance_retry(struct driver_instance *instance)
{
	if (!driver_instance_answers(instance))
		step(instance, INSTANCE_RECREATED, NULL);
}

bool driver_instance_answers(const struct driver_instance *instance)
{
	return instance_state_is_healthy(instance->state);
}

bool driver_instance_is_ready(const struct driver_instance *instance)
{
	return instance->state == INSTANCE_HEALTHY;
}

static const char *reason_of(const struct driver_instance *instance,
			     const Holdfast__Driver__V1__FingerprintResponse *reported)
{
	if (!driver_instance_answers(instance))
		return instance->last_error.status != STATUS_OK ? instance->last_error.msg
								: "it has not been asked yet";
	return reported->description[0] != '\0' ? reported->description : "the driver says so, and not why";
}

void driver_instance_info(const struct driver_instance *instance, struct driver_info *ret)
{
	*ret = (struct driver_info){
		.capabilities = (const void *)instance->capabilities,
		.schema = (const void *)instance->schema,
		.fingerprint = (const void *)instance->fingerprint,
		.reason = "",
	};
	ret->is_healthy = driver_instance_answers(instance) &&
			  ret->fingerprint->health == HOLDFAST__DRIVER__V1__HEALTH__HEALTH_HEALTHY;
	if (!ret->is_healthy)
		ret->reason = reason_of(instance, ret->fingerprint);
}

struct service_client *driver_instance_client(const struct driver_instance *instance)
{
	return instance->client;
}

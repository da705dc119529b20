/* SPDX-License-Identifier: Apache-2.0 */
/* The row of task drivers for service/instance: what a driver is asked, and what of it is kept. */
#include "driver/driver_instance.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "log/log.h"
#include "model/message.h"

#include <errno.h>
#include <order.h>
#include <stdlib.h>

DEFINE_CLEANUP(struct driver_instance, driver_instance_free)

/* Keep a copy of @message in @slot. */
static enum status keep(const struct driver_instance *instance, ProtobufCMessage **slot,
			const ProtobufCMessage *message, struct error *err)
{
	size_t n = protobuf_c_message_get_packed_size(message);
	ProtobufCMessage *copy;
	size_t memory = 0;

	if (n > DRIVER_FINGERPRINT_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "driver %s: its %s has %zu bytes, more than %d are not taken",
				 instance->base.name, message->descriptor->short_name, n,
				 DRIVER_FINGERPRINT_MAX);
	copy = message_convert_counted(message->descriptor, message, &memory);
	if (copy && memory > DRIVER_MEMORY_MAX) {
		protobuf_c_message_free_unpacked(copy, NULL);
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "driver %s: its %s takes more than %d bytes of memory", instance->base.name,
				 message->descriptor->short_name, DRIVER_MEMORY_MAX);
	}
	if (!copy)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "driver %s: keep its %s",
				 instance->base.name, message->descriptor->short_name);
	protobuf_c_message_free_unpacked(*slot, NULL);
	*slot = copy;
	return STATUS_OK;
}

static enum status check_capabilities(const struct driver_instance *instance,
				      const Holdfast__Driver__V1__CapabilitiesResponse *reported,
				      struct error *err)
{
	char name[DRIVER_NAME_MAX + 1];

	str_copy_text(name, sizeof(name), reported->name);
	if (!str_eq(reported->name, instance->base.name))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "driver %s: it calls itself '%s': bind its socket in a folder of that name",
				 instance->base.name, name);
	if (reported->order_version != ORDER_VERSION)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "driver %s: it takes orders of version %u, they are made in version %u: "
				 "install driver and agent of one release",
				 instance->base.name, (unsigned int)reported->order_version,
				 (unsigned int)ORDER_VERSION);
	return STATUS_OK;
}

static enum status take(struct service_instance *base, unsigned int method, const ProtobufCMessage *response,
			struct error *err)
{
	struct driver_instance *instance = (struct driver_instance *)base;

	switch (method) {
	case DRIVER_CAPABILITIES:
		TRY(check_capabilities(instance, (const void *)response, err));
		return keep(instance, &instance->capabilities, response, err);
	case DRIVER_CONFIG_SCHEMA:
		return keep(instance, &instance->schema, response, err);
	case DRIVER_FINGERPRINT:
		TRY(keep(instance, &instance->fingerprint, response, err));
		str_make_one_reason(
			((Holdfast__Driver__V1__FingerprintResponse *)(void *)instance->fingerprint)
				->description);
		return STATUS_OK;
	default:
		return STATUS_OK;
	}
}

static const ProtobufCMessage *request(const struct service_instance *base, unsigned int method)
{
	const struct drivers_options *options = ((const struct driver_instance *)base)->options;
	const Holdfast__Driver__V1__SetConfigRequest *config = NULL;

	if (method == DRIVER_SET_CONFIG && options->config)
		config = options->config(base->name, options->userdata);
	return config ? &config->base : NULL;
}

static const struct service_question questions[] = {
	{.method = DRIVER_CAPABILITIES, .timeout_ms = DRIVER_ASK_TIMEOUT_MS},
	{.method = DRIVER_CONFIG_SCHEMA, .timeout_ms = DRIVER_ASK_TIMEOUT_MS},
	{.method = DRIVER_SET_CONFIG, .timeout_ms = DRIVER_ASK_TIMEOUT_MS},
	{.method = DRIVER_FINGERPRINT, .timeout_ms = DRIVER_ASK_TIMEOUT_MS},
};

static void log_state(const struct service_instance *base)
{
	struct log_ctx ctx = {.op = "driver", .driver = base->name};

	if (service_instance_is_healthy(base)) {
		log_ctx(LOG_NOTICE, &ctx, "driver %s answers at %s", base->name, base->path);
		return;
	}
	ctx.err = base->last_error.status != STATUS_OK ? &base->last_error : NULL;
	log_ctx(LOG_WARNING, &ctx, "driver %s does not answer at %s, tasks that run continue", base->name,
		base->path);
}

static void changed(struct service_instance *base)
{
	const struct driver_instance *instance = (struct driver_instance *)base;

	instance->changed(instance->userdata);
}

static const struct service_row row = {
	.kind = &driver_kind,
	.questions = questions,
	.n_questions = ARRAY_SIZE(questions),
	.request = request,
	.take = take,
	.log = log_state,
	.changed = changed,
};

enum status driver_instance_new(sd_event *event, const char *name, const char *socket,
				const struct drivers_options *options, driver_instance_changed_fn *changed_fn,
				void *userdata, struct driver_instance **ret, struct error *err)
{
	cleanup(driver_instance_freep) struct driver_instance *instance = calloc(1, sizeof(*instance));
	const struct service_instance_options base = {
		.event = event,
		.row = &row,
		.dir = options->driver_dir,
		.name = name,
		.socket = socket,
		.probe_interval_us = options->probe_interval_us
					     ? options->probe_interval_us
					     : DRIVERS_PROBE_INTERVAL_DEFAULT_MS * USEC_PER_MSEC,
	};

	if (!instance)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "driver %s is not taken", name);
	instance->options = options;
	instance->changed = changed_fn;
	instance->userdata = userdata;
	TRY(service_instance_init(&instance->base, &base, err));
	*ret = TAKE_PTR(instance);
	return STATUS_OK;
}

void driver_instance_free(struct driver_instance *instance)
{
	if (!instance)
		return;
	service_instance_release(&instance->base);
	protobuf_c_message_free_unpacked(instance->capabilities, NULL);
	protobuf_c_message_free_unpacked(instance->schema, NULL);
	protobuf_c_message_free_unpacked(instance->fingerprint, NULL);
	free(instance);
}

static const char *reason_of(const struct driver_instance *instance,
			     const Holdfast__Driver__V1__FingerprintResponse *reported)
{
	if (!service_instance_is_healthy(&instance->base))
		return instance->base.last_error.status != STATUS_OK ? instance->base.last_error.msg
								     : "it has not been asked yet";
	return reported->description[0] != '\0' ? reported->description : "the driver gives no reason";
}

void driver_instance_info(const struct driver_instance *instance, struct driver_info *ret)
{
	*ret = (struct driver_info){
		.capabilities = (const void *)instance->capabilities,
		.schema = (const void *)instance->schema,
		.fingerprint = (const void *)instance->fingerprint,
		.reason = "",
	};
	ret->is_healthy = service_instance_is_healthy(&instance->base) &&
			  ret->fingerprint->health == HOLDFAST__DRIVER__V1__HEALTH__HEALTH_HEALTHY;
	if (!ret->is_healthy)
		ret->reason = reason_of(instance, ret->fingerprint);
}

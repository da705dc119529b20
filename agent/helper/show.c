/* SPDX-License-Identifier: Apache-2.0 */
/* What the instances of the mount helper do, for people. */

#include "base/str.h"
#include "helper/instance.h"

#include <string.h>

static const char *state_name(const struct helper_instance *instance)
{
	static const char *const names[] = {
		[INSTANCE_NONE] = "down",
		[INSTANCE_STARTING] = "starting",
		[INSTANCE_READY] = "ready",
		[INSTANCE_CLOSING] = "ending",
	};

	if (instance->lane == HELPER_NFS && instance->state == INSTANCE_NONE && !instance->restart_timer)
		return "idle";
	return names[instance->state];
}

static void describe_instance(const struct helper_instance *instance, struct helper_instance_info *ret)
{
	const struct helper_call *call = instance->current;

	*ret = (struct helper_instance_info){
		.pid = instance->pid,
		.is_nfs = instance->lane == HELPER_NFS,
		.state = state_name(instance),
		.door = instance->door,
		.restarts = instance->starts > 0 ? instance->starts - 1 : 0,
	};
	if (instance->last_error.status != STATUS_OK)
		(void)str_copy(ret->last_error, sizeof(ret->last_error), instance->last_error.msg);
	if (!call)
		return;
	ret->op = helper_op_name(call->request.header.op);
	ret->since_ms = call->sent_ms;
	(void)str_copy(ret->volume, sizeof(ret->volume), helper_request_volume(&call->request));
}

size_t helper_client_instances(const struct helper_client *client,
			       struct helper_instance_info ret[static HELPER_INSTANCES_MAX])
{
	const struct abandoned *abandoned;
	size_t n = 0;

	for (; n < client->n_instances; n++)
		describe_instance(&client->instances[n], &ret[n]);
	LIST_FOREACH (abandoned, &client->abandoned, entry) {
		if (n == HELPER_INSTANCES_MAX)
			break;
		ret[n] = (struct helper_instance_info){
			.pid = abandoned->pid,
			.is_nfs = abandoned->lane == HELPER_NFS,
			.state = "hangs",
			.door = abandoned->door,
			.op = abandoned->op ? helper_op_name(abandoned->op) : NULL,
			.since_ms = abandoned->sent_ms,
		};
		memcpy(ret[n].volume, abandoned->volume, sizeof(ret[n].volume));
		n++;
	}
	return n;
}

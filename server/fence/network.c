/* SPDX-License-Identifier: Apache-2.0 */
/* Calls to the controllers of a plugin that can fence. */

#include "fence/network.h"

#include "server.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "model/fence_net.h"
#include "model/node.h"
#include "plugin/controller.h"
#include "state/change.h"

#include <holdfast/v1/plugin_call.pb-c.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

typedef Holdfast__V1__Fence Fence;
typedef Holdfast__V1__PluginCall Call;

struct job {
	LIST_ENTRY(job) of_network;
	struct network *network;
	uint64_t serial;
	Fence *fence; /* owned; as it was when the calls began */
	char controller[NODE_ID_MAX + 1];
	bool is_lift;
	struct fence_answer outcome;
	char error[NETWORK_TEXT_SIZE];
};

LIST_HEAD(job_list, job);

struct network {
	struct server *server;
	network_end_fn *on_end;
	struct job_list jobs;
	uint64_t n_begun;
};

enum status network_new(struct server *server, network_end_fn *on_end, struct network **ret,
			struct error *err)
{
	struct network *network = calloc(1, sizeof(*network));

	if (!network)
		return error_no_memory(err, "network fences");
	network->server = server;
	network->on_end = on_end;
	LIST_INIT(&network->jobs);
	*ret = network;
	return STATUS_OK;
}

static void job_free(struct job *job)
{
	LIST_REMOVE(job, of_network);
	holdfast__v1__fence__free_unpacked(job->fence, NULL);
	free(job);
}

void network_free(struct network *network)
{
	struct job *job;

	if (!network)
		return;
	while ((job = LIST_FIRST(&network->jobs)))
		job_free(job);
	free(network);
}

bool network_is_busy(const struct network *network, const Fence *fence)
{
	const struct job *job;

	LIST_FOREACH (job, &network->jobs, of_network)
		if (str_eq(job->fence->node_id, fence->node_id) &&
		    str_eq(job->fence->plugin_id, fence->plugin_id))
			return true;
	return false;
}

const char *network_controller_after(struct server *server, const char *plugin_id, const char *after)
{
	struct plugin_entry *plugin = state_plugin(&server->state, plugin_id);
	const struct plugin_instance *found = plugin ? controller_after(plugin, after) : NULL;

	while (found && !found->plugin.controller.network_fence)
		found = controller_after(plugin, found->node_id);
	return found ? found->node_id : NULL;
}

bool network_can_ask(struct server *server, const char *plugin_id, const char *node_id)
{
	const char *found = network_controller_after(server, plugin_id, "");

	while (found && !str_eq(found, node_id))
		found = network_controller_after(server, plugin_id, found);
	return found != NULL;
}

/* --- the calls --- */

static void end_job(struct job *job)
{
	const struct network_end end = {.node_id = job->fence->node_id,
					.plugin_id = job->fence->plugin_id,
					.boot_id = job->fence->boot_id,
					.controller = job->controller,
					.is_lift = job->is_lift,
					.outcome = job->outcome,
					.error = job->error};
	struct network *network = job->network;
	Fence *fence = job->fence;
	struct job copy = *job; /* the next calls may begin in on_end() */
	struct network_end lasting = end;

	lasting.controller = copy.controller;
	lasting.error = copy.error;
	LIST_REMOVE(job, of_network);
	free(job);
	network->on_end(network->server, &lasting);
	holdfast__v1__fence__free_unpacked(fence, NULL);
}

static enum status call_controller(struct job *job, const Call *call, controller_done_fn *done,
				   struct error *err)
{
	uint64_t patience = job->network->server->config.controller_timeout_us;
	const struct controller_call request = {
		.plugin_id = job->fence->plugin_id,
		.call = call,
		.node_id = job->controller,
		.is_of_controller = true,
		.timeout_us = patience < NETWORK_CALL_MAX_MS * USEC_PER_MSEC
				      ? patience
				      : NETWORK_CALL_MAX_MS * USEC_PER_MSEC,
		.done = done,
		.userdata = job,
	};

	return controller_call(job->network->server, &request, err);
}

/* Which addresses of the node the storage refuses: whole, or also in part. */
struct coverage {
	struct fence_net nets[FENCE_CLIENTS_MAX];
	bool is_read[FENCE_CLIENTS_MAX], is_listed[FENCE_CLIENTS_MAX], is_touched[FENCE_CLIENTS_MAX];
	size_t n;
};

static void cover(struct coverage *coverage, const struct fence_net *listed)
{
	for (size_t i = 0; i < coverage->n; i++) {
		if (!coverage->is_read[i])
			continue;
		coverage->is_listed[i] |= fence_net_covers(listed, &coverage->nets[i]);
		coverage->is_touched[i] |= fence_nets_overlap(listed, &coverage->nets[i]);
	}
}

/* An answer may have a hundred thousand addresses: each is read once. */
static void take_list(struct job *job, const Holdfast__V1__ListFencedResponse *list)
{
	struct coverage coverage = {.n = 0};
	size_t n_cidrs = job->fence->n_cidrs, n_listed = 0, n_touched = 0;
	struct fence_net net;

	for (; coverage.n < n_cidrs && coverage.n < FENCE_CLIENTS_MAX; coverage.n++) {
		size_t i = coverage.n;

		coverage.is_read[i] = fence_net_read_any(job->fence->cidrs[i], &coverage.nets[i]);
		coverage.is_touched[i] = !coverage.is_read[i];
	}
	for (size_t i = 0; i < list->n_cidrs; i++)
		if (fence_net_read_any(list->cidrs[i], &net))
			cover(&coverage, &net);
	for (size_t i = 0; i < coverage.n; i++) {
		n_listed += coverage.is_listed[i];
		n_touched += coverage.is_touched[i];
	}
	job->outcome.status = n_listed == n_cidrs ? FENCE_OUTCOME_IS_OFF
			      : n_touched == 0	  ? FENCE_OUTCOME_IS_ON
						  : FENCE_OUTCOME_FAILED;
	if (job->outcome.status != (job->is_lift ? FENCE_OUTCOME_IS_ON : FENCE_OUTCOME_IS_OFF))
		(void)str_format(job->error, sizeof(job->error),
				 "ListClusterFence shows %zu of %zu addresses of the node",
				 job->is_lift ? n_touched : n_listed, n_cidrs);
}

static void on_list(struct server *server, const Holdfast__V1__PluginReply *reply, const struct error *err,
		    void *userdata)
{
	struct job *job = userdata;

	if (controllers_have_stopped(server)) {
		job_free(job);
		return;
	}
	job->outcome.status_ms = clock_realtime_ms();
	job->outcome.status = FENCE_OUTCOME_FAILED;
	if (reply)
		take_list(job, reply->list_fenced);
	else
		str_copy_text(job->error, sizeof(job->error), err->msg);
	end_job(job);
}

/* May the storage have done it, although the call failed? */
static bool is_unsure(enum status status)
{
	return status == STATUS_UNKNOWN || status == STATUS_DEADLINE_EXCEEDED || status == STATUS_CANCELLED;
}

static void on_first(struct server *server, const Holdfast__V1__PluginReply *reply, const struct error *err,
		     void *userdata)
{
	Holdfast__V1__ListFencedRequest request = HOLDFAST__V1__LIST_FENCED_REQUEST__INIT;
	Call call = HOLDFAST__V1__PLUGIN_CALL__INIT;
	struct job *job = userdata;
	struct error why;

	if (controllers_have_stopped(server)) {
		job_free(job);
		return;
	}
	job->outcome.off_ms = clock_realtime_ms();
	job->outcome.off = reply ? FENCE_OUTCOME_DONE : FENCE_OUTCOME_FAILED;
	if (!reply) {
		job->outcome.is_unsure = is_unsure(err->status);
		str_copy_text(job->error, sizeof(job->error), err->msg);
		end_job(job);
		return;
	}
	call.request_case = HOLDFAST__V1__PLUGIN_CALL__REQUEST_LIST_FENCED;
	call.list_fenced = &request;
	if (call_controller(job, &call, on_list, &why) == STATUS_OK)
		return;
	job->outcome.status = FENCE_OUTCOME_FAILED;
	str_copy_text(job->error, sizeof(job->error), why.msg);
	end_job(job);
}

static void begin_calls(struct job *job)
{
	Holdfast__V1__FenceNetworkRequest fence = HOLDFAST__V1__FENCE_NETWORK_REQUEST__INIT;
	Holdfast__V1__UnfenceNetworkRequest lift = HOLDFAST__V1__UNFENCE_NETWORK_REQUEST__INIT;
	Call call = HOLDFAST__V1__PLUGIN_CALL__INIT;
	struct error err;

	fence.cidrs = lift.cidrs = job->fence->cidrs;
	fence.n_cidrs = lift.n_cidrs = job->fence->n_cidrs;
	call.request_case = job->is_lift ? HOLDFAST__V1__PLUGIN_CALL__REQUEST_UNFENCE_NETWORK
					 : HOLDFAST__V1__PLUGIN_CALL__REQUEST_FENCE_NETWORK;
	if (job->is_lift)
		call.unfence_network = &lift;
	else
		call.fence_network = &fence;
	if (call_controller(job, &call, on_first, &err) == STATUS_OK)
		return;
	job->outcome.was_refused = true;
	str_copy_text(job->error, sizeof(job->error), err.msg);
	end_job(job);
}

static void on_durable(struct server *server, void *userdata)
{
	cleanup_free uint64_t *serial = userdata;
	struct job *job;

	if (!server->network)
		return;
	LIST_FOREACH (job, &server->network->jobs, of_network)
		if (job->serial == *serial) {
			begin_calls(job);
			return;
		}
}

enum status network_begin(struct network *network, const Fence *fence, const char *controller, bool is_lift,
			  struct error *err)
{
	struct change nothing = CHANGE_INIT;
	struct job *job = calloc(1, sizeof(*job));
	uint64_t *serial = malloc(sizeof(*serial));
	enum status status;

	if (!job || !serial) {
		free(job);
		free(serial);
		return error_no_memory(err, "a network fence");
	}
	job->network = network;
	*serial = job->serial = ++network->n_begun;
	job->is_lift = is_lift;
	job->outcome.created_ms = fence->create_time_ms;
	(void)str_copy(job->controller, sizeof(job->controller), controller);
	job->fence = (Fence *)(void *)message_copy(&fence->base);
	LIST_INSERT_HEAD(&network->jobs, job, of_network);
	if (!job->fence) {
		job_free(job);
		free(serial);
		return error_no_memory(err, "a network fence");
	}
	status = change_commit_taking(network->server, &nothing, on_durable, serial, err);
	if (status != STATUS_OK)
		job_free(job);
	return status;
}

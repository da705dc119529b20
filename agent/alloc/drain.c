/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/drain_internal.h"
#include "base/clock.h"
#include "base/str.h"
#include "log/log.h"
#include "rpc/wakeup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum drain_state drain_judge(const struct drain_facts *facts)
{
	if (facts->n_busy == 0 && facts->n_receipts == 0)
		return DRAIN_DONE;
	if (facts->is_time_over)
		return facts->n_busy == 0 ? DRAIN_UNACKNOWLEDGED : DRAIN_INCOMPLETE;
	if (facts->n_busy == 0 && facts->is_server_given && !facts->is_connected)
		return DRAIN_UNACKNOWLEDGED;
	return DRAIN_DRAINING;
}

static bool has_volume_of_plugin(const struct alloc_record *record, const char *plugin_id)
{
	for (uint32_t i = 0; i < record->alloc.n_volumes; i++) {
		const struct volume_record *volume = &record->volumes[i];

		if (volume->target.type == VOLUME_CSI && volume_record_is_live(volume) &&
		    str_eq(volume->target.profile, plugin_id))
			return true;
	}
	return false;
}

bool drain_plugin_is_needed(const struct agent_drain *drain, const struct alloc_record *runs_it)
{
	const char *plugin_id = runs_it->alloc.csi_plugin.id;
	const struct alloc_runner *runner = NULL;
	const struct release *release = NULL;

	while ((runner = allocs_next(drain->env.allocs, runner))) {
		const struct alloc_record *record = alloc_runner_record(runner);

		if (record != runs_it && has_volume_of_plugin(record, plugin_id))
			return true;
	}
	while ((release = allocs_next_release(drain->env.allocs, release))) {
		if (str_eq(release_claim(release)->plugin_id, plugin_id))
			return true;
	}
	return false;
}

/* Those that run a plugin go last: it is called to let go of its volumes. */
static void shut_down_all(struct agent_drain *drain)
{
	const struct alloc_runner *runner = NULL;

	while ((runner = allocs_next(drain->env.allocs, runner))) {
		const struct alloc_record *record = alloc_runner_record(runner);

		if (record->alloc.csi_plugin.type == CSI_PLUGIN_NONE ||
		    !drain_plugin_is_needed(drain, record))
			allocs_shut_down(drain->env.allocs, record->alloc.id);
	}
}

static size_t count_busy(const struct agent_drain *drain)
{
	const struct alloc_runner *runner = NULL;
	const struct release *release = NULL;
	size_t n = 0;

	while ((runner = allocs_next(drain->env.allocs, runner)))
		n += !alloc_runner_is_over(runner);
	while ((release = allocs_next_release(drain->env.allocs, release)))
		n++;
	return n;
}

static void end(struct agent_drain *drain, enum drain_state state)
{
	struct log_ctx ctx = {.op = "drain"};
	Holdfast__V1__AgentDrain *result = drain_make(drain, state);
	struct error err;

	drain->is_under_way = false;
	wakeup_disarm(&drain->end_timer);
	wakeup_disarm(&drain->server_timer);
	free(drain->volumes);
	drain->volumes = NULL;
	drain->n_volumes = 0;
	if (!result) {
		log_ctx(LOG_ERR, &ctx, "the drain has ended, and memory is too short to tell how");
		return;
	}
	protobuf_c_message_free_unpacked((ProtobufCMessage *)drain->last, NULL);
	drain->last = result;
	ctx.event = LOG_EVENT_NODE_DRAINED;
	log_ctx(state == DRAIN_DONE || state == DRAIN_CANCELLED ? LOG_NOTICE : LOG_WARNING, &ctx,
		"drain is %s: %s", result->state, result->summary);
	if (drain_store(drain, result, &err) == STATUS_OK)
		return;
	ctx.event = LOG_EVENT_NONE;
	ctx.err = &err;
	log_ctx(LOG_ERR, &ctx, "the result of the drain is not kept");
}

static int on_server_given(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct agent_drain *drain = userdata;

	drain->is_server_given = true;
	drain_look(drain);
	return 0;
}

static void look_now(struct agent_drain *drain)
{
	struct drain_facts facts = {
		.n_receipts = receipts_count(drain->env.receipts),
		.is_connected = drain->env.is_connected(drain->env.userdata),
		.is_server_given = drain->is_server_given,
		.is_time_over = drain->is_time_over,
	};
	enum drain_state state;

	if (!drain->is_under_way)
		return;
	shut_down_all(drain);
	facts.n_busy = count_busy(drain);
	state = drain_judge(&facts);
	if (state != DRAIN_DRAINING)
		end(drain, state);
	else if (facts.n_busy == 0 && !drain->server_timer)
		/* without the timer it takes until the end */
		(void)wakeup_arm(drain->env.event, &drain->server_timer, DRAIN_SERVER_WAIT_MS * USEC_PER_MSEC,
				 on_server_given, drain, NULL);
}

static int on_look(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct agent_drain *drain = userdata;

	wakeup_disarm(&drain->look_timer);
	look_now(drain);
	return 0;
}

void drain_look(struct agent_drain *drain)
{
	if (drain->is_under_way && !drain->look_timer)
		/* without the timer the next event, or the end, looks */
		(void)wakeup_arm(drain->env.event, &drain->look_timer, 0, on_look, drain, NULL);
}

static int on_time_over(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct agent_drain *drain = userdata;

	wakeup_disarm(&drain->end_timer);
	drain->is_time_over = true;
	look_now(drain);
	return 0;
}

static void note_volume(struct agent_drain *drain, const struct alloc_record *record, uint32_t i)
{
	const struct volume_target *target = &record->volumes[i].target;
	struct drain_volume *volume = &drain->volumes[drain->n_volumes++];
	bool is_granted = record->volumes[i].state != VOLUME_NONE;

	volume->slot = i;
	memcpy(volume->alloc_id, record->alloc.id, sizeof(volume->alloc_id));
	str_copy_text(volume->volume_id, sizeof(volume->volume_id),
		      is_granted ? target->volume_id : record->alloc.volumes[i].source);
	if (!is_granted)
		return;
	memcpy(volume->namespace, target->namespace, sizeof(volume->namespace));
	memcpy(volume->claim_id, record->volumes[i].claim_id, sizeof(volume->claim_id));
}

static enum status note_volumes(struct agent_drain *drain, struct error *err)
{
	const struct alloc_runner *runner = NULL;
	size_t n = 0;

	while ((runner = allocs_next(drain->env.allocs, runner)))
		n += alloc_runner_record(runner)->alloc.n_volumes;
	drain->volumes = calloc(n + 1, sizeof(*drain->volumes));
	if (!drain->volumes)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot drain the node");
	while ((runner = allocs_next(drain->env.allocs, runner))) {
		const struct alloc_record *record = alloc_runner_record(runner);

		for (uint32_t i = 0; i < record->alloc.n_volumes; i++) {
			if (!alloc_runner_is_over(runner) && record->volumes[i].state != VOLUME_RELEASED)
				note_volume(drain, record, i);
		}
	}
	return STATUS_OK;
}

static enum status begin(struct agent_drain *drain, uint64_t timeout_ms, struct error *err)
{
	enum status status = note_volumes(drain, err);

	if (status == STATUS_OK)
		status = wakeup_arm(drain->env.event, &drain->end_timer, timeout_ms * USEC_PER_MSEC,
				    on_time_over, drain, err);
	if (status != STATUS_OK) {
		free(drain->volumes);
		drain->volumes = NULL;
		drain->n_volumes = 0;
		return status;
	}
	/* two within a millisecond are still told apart */
	drain->started_ms = clock_realtime_ms() + (drain->started_ms == clock_realtime_ms());
	drain->deadline_ms = drain->started_ms + (int64_t)timeout_ms;
	drain->is_under_way = true;
	drain->is_refusing = true;
	drain->is_server_given = false;
	drain->is_time_over = false;
	allocs_set_draining(drain->env.allocs, true);
	log_ctx(LOG_NOTICE, &(struct log_ctx){.op = "drain"},
		"node is shutting down: %zu volumes are given back, no new allocation is taken",
		drain->n_volumes);
	look_now(drain);
	return STATUS_OK;
}

/* Somebody has more time. */
static enum status prolong(struct agent_drain *drain, uint64_t timeout_ms, struct error *err)
{
	int64_t deadline_ms = clock_realtime_ms() + (int64_t)timeout_ms;
	enum status status;

	if (deadline_ms <= drain->deadline_ms)
		return STATUS_OK;
	status = wakeup_arm(drain->env.event, &drain->end_timer, timeout_ms * USEC_PER_MSEC, on_time_over,
			    drain, err);
	if (status == STATUS_OK)
		drain->deadline_ms = deadline_ms;
	return status;
}

static void cancel(struct agent_drain *drain)
{
	if (drain->is_refusing)
		log_ctx(LOG_NOTICE, &(struct log_ctx){.op = "drain"},
			"the drain is cancelled: new allocations are taken");
	drain->is_refusing = false;
	allocs_set_draining(drain->env.allocs, false);
	if (drain->is_under_way)
		end(drain, DRAIN_CANCELLED);
}

static bool is_followed(const struct agent_drain *drain, int64_t follows_ms)
{
	return follows_ms != 0 && follows_ms == drain->started_ms;
}

static enum status obey(struct agent_drain *drain, const Holdfast__V1__DrainAgentRequest *request,
			struct error *err)
{
	if (request->cancel) {
		cancel(drain);
		return STATUS_OK;
	}
	if (request->timeout_ms == 0 || request->timeout_ms > DRAIN_TIMEOUT_MAX_MS)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "a drain takes from 1 ms to %d s, not %u ms (timeout_ms)",
				 DRAIN_TIMEOUT_MAX_MS / 1000, request->timeout_ms);
	if (drain->is_under_way)
		return prolong(drain, request->timeout_ms, err);
	return is_followed(drain, request->follows_ms) ? STATUS_OK : begin(drain, request->timeout_ms, err);
}

enum status drain_request(struct agent_drain *drain, const Holdfast__V1__DrainAgentRequest *request,
			  Holdfast__V1__DrainAgentResponse **ret, struct error *err)
{
	Holdfast__V1__DrainAgentResponse *response;
	enum status status = obey(drain, request, err);

	if (status != STATUS_OK)
		return status;
	response = malloc(sizeof(*response));
	if (response)
		holdfast__v1__drain_agent_response__init(response);
	if (!response || !drain_report(drain, &response->drain)) {
		free(response);
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot tell how the drain goes");
	}
	*ret = response;
	return STATUS_OK;
}

enum status drain_new(const struct drain_env *env, struct agent_drain **ret, struct error *err)
{
	struct agent_drain *drain = calloc(1, sizeof(*drain));
	struct error why;

	if (!drain)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot make a drain");
	drain->env = *env;
	if (drain_load(drain, &drain->last, &why) != STATUS_OK)
		log_ctx(LOG_WARNING, &(struct log_ctx){.op = "drain", .err = &why},
			"the result of the last drain is not shown");
	*ret = drain;
	return STATUS_OK;
}

void drain_free(struct agent_drain *drain)
{
	if (!drain)
		return;
	wakeup_disarm(&drain->look_timer);
	wakeup_disarm(&drain->end_timer);
	wakeup_disarm(&drain->server_timer);
	protobuf_c_message_free_unpacked((ProtobufCMessage *)drain->last, NULL);
	free(drain->volumes);
	free(drain);
}

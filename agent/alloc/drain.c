/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/drain.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/names.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "log/log.h"
#include "rpc/pbjson.h"
#include "rpc/wakeup.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* A volume of an allocation that had not ended when the drain began. */
struct drain_volume {
	char volume_id[VOLUME_ID_MAX + 1];
	char namespace[NAMESPACE_MAX + 1];
	char alloc_id[UUID_TEXT_SIZE];
	char claim_id[UUID_TEXT_SIZE]; /* empty: unknown */
	uint32_t slot;
};

struct agent_drain {
	struct drain_env env;
	bool is_in_progress;
	bool is_refusing; /* new allocations */
	bool is_server_given;
	bool is_time_over;
	int64_t started_ms;
	int64_t deadline_ms;
	struct drain_volume *volumes; /* of the drain in progress */
	size_t n_volumes;
	sd_event_source *look_timer;
	sd_event_source *end_timer;
	sd_event_source *server_timer;
	Holdfast__V1__AgentDrain *last; /* ended; NULL: no drain has ended yet */
};

typedef Holdfast__V1__AgentDrain drain_pb;
typedef Holdfast__V1__AgentDrainVolume volume_pb;

enum { RESULT_MODE = 0600, TEXT_MAX = ERROR_MSG_MAX };

static const char *const state_names[DRAIN_STATE_N] = {
	[DRAIN_DRAINING] = "draining",
	[DRAIN_DONE] = "done",
	[DRAIN_UNACKNOWLEDGED] = "unacknowledged",
	[DRAIN_INCOMPLETE] = "incomplete",
	[DRAIN_CANCELLED] = "cancelled",
};

enum volume_stand { STAND_IN_USE, STAND_UNMOUNTED, STAND_RELEASED, STAND_N };

static const char *const stand_names[STAND_N] = {
	[STAND_IN_USE] = "in use",
	[STAND_UNMOUNTED] = "unmounted",
	[STAND_RELEASED] = "released",
};

/* An empty string stays the descriptor's own; false when memory is short. */
static bool put_text(char **dst, const char *text)
{
	if (text[0] == '\0')
		return true;
	*dst = strdup(text);
	return *dst != NULL;
}

static enum volume_stand find_stand(const struct agent_drain *drain, struct drain_volume *volume,
				    const struct alloc_runner *runner)
{
	const struct volume_record *record = NULL;

	if (runner) {
		record = &alloc_runner_record(runner)->volumes[volume->slot];
		if (record->state != VOLUME_NONE)
			memcpy(volume->claim_id, record->claim_id, sizeof(volume->claim_id));
		/* a claim may be on its way as long as the allocation has not ended */
		if (volume_record_is_live(record) ||
		    (record->state == VOLUME_NONE && !alloc_runner_is_over(runner)))
			return STAND_IN_USE;
	}
	if (volume->claim_id[0] != '\0' && receipts_find(drain->env.receipts, volume->claim_id, true))
		return STAND_UNMOUNTED;
	return STAND_RELEASED;
}

/* Writes the cause that keeps a volume in use, and the next command. */
static bool put_obstacle(volume_pb *row, const struct agent_drain *drain, const struct drain_volume *volume,
			 const struct alloc_runner *runner)
{
	const struct alloc_record *record = alloc_runner_record(runner);
	const struct alloc_runner_info info = alloc_runner_info(runner);
	char plugins[ALLOC_PLUGINS_TEXT_SIZE];
	bool is_csi = record->volumes[volume->slot].target.type == VOLUME_CSI &&
		      record->volumes[volume->slot].state != VOLUME_NONE;
	char reason[TEXT_MAX], next[TEXT_MAX];

	(void)str_format(next, sizeof(next), "holdfast agent status --verbose%s%s",
			 is_csi ? "; is its plugin up? holdfast plugin status " : "",
			 is_csi ? record->volumes[volume->slot].target.profile : "");
	alloc_plugins_text(&record->alloc, NULL, plugins);
	if (!allocs_is_adopted(drain->env.allocs)) {
		str_copy_text(reason, sizeof(reason), "the mount helper has not listed its mounts");
	} else if (record->phase == ALLOC_RUNNING) {
		(void)str_format(reason, sizeof(reason),
				 "its allocation runs plugin %s, which other volumes still need", plugins);
	} else if (info.step && str_eq(info.volume_id, record->alloc.volumes[volume->slot].source)) {
		str_copy_text(reason, sizeof(reason), info.last_error[0] ? info.last_error : "in progress");
		if (!put_text(&row->step, info.step))
			return false;
	} else {
		str_copy_text(reason, sizeof(reason), "after the other volumes of its allocation");
	}
	return put_text(&row->reason, reason) && put_text(&row->next, next);
}

static bool put_volume(drain_pb *pb, const struct agent_drain *drain, struct drain_volume *volume,
		       size_t counts[static STAND_N])
{
	const struct alloc_runner *runner = allocs_find(drain->env.allocs, volume->alloc_id);
	enum volume_stand stand = find_stand(drain, volume, runner);
	volume_pb *row = malloc(sizeof(*row));

	if (!row)
		return false;
	holdfast__v1__agent_drain_volume__init(row);
	pb->volumes[pb->n_volumes++] = row;
	counts[stand]++;
	if (!put_text(&row->volume_id, volume->volume_id) || !put_text(&row->namespace_, volume->namespace) ||
	    !put_text(&row->alloc_id, volume->alloc_id) || !put_text(&row->state, stand_names[stand]))
		return false;
	if (stand == STAND_IN_USE)
		return put_obstacle(row, drain, volume, runner);
	return stand != STAND_UNMOUNTED ||
	       put_text(&row->next, "the receipt is in the agent's journal, and is sent whenever agent and "
				    "server meet again; to look: holdfast volume status --why");
}

static bool put_summary(drain_pb *pb, enum drain_state state, const size_t counts[static STAND_N])
{
	char text[TEXT_MAX];

	switch (state) {
	case DRAIN_DONE:
		(void)str_format(text, sizeof(text),
				 "%zu volumes were released, and the server has recorded it", pb->n_volumes);
		break;
	case DRAIN_UNACKNOWLEDGED:
		(void)str_format(text, sizeof(text),
				 "all %zu volumes are unmounted, but the server has not acknowledged %u "
				 "receipts: they stay in the journal and reach it after the next boot; their "
				 "claims are held until then",
				 pb->n_volumes, pb->receipts_pending);
		break;
	case DRAIN_INCOMPLETE:
		(void)str_format(text, sizeof(text),
				 "%zu of %zu volumes are still in use when the time is over: their claims "
				 "are held until this node is back with another boot, or releases them "
				 "(holdfast agent status)",
				 counts[STAND_IN_USE], pb->n_volumes);
		break;
	case DRAIN_DRAINING:
	case DRAIN_CANCELLED:
	case DRAIN_STATE_N:
		(void)str_format(text, sizeof(text),
				 "%zu volumes in use, %zu unmounted, %zu released, %u receipts not "
				 "acknowledged",
				 counts[STAND_IN_USE], counts[STAND_UNMOUNTED], counts[STAND_RELEASED],
				 pb->receipts_pending);
		break;
	}
	return put_text(&pb->summary, text);
}

static drain_pb *drain_make(struct agent_drain *drain, enum drain_state state)
{
	size_t counts[STAND_N] = {0};
	drain_pb *pb = malloc(sizeof(*pb));
	bool is_whole;

	if (!pb)
		return NULL;
	holdfast__v1__agent_drain__init(pb);
	pb->started_ms = drain->started_ms;
	pb->deadline_ms = drain->deadline_ms;
	pb->ended_ms = state == DRAIN_DRAINING ? 0 : clock_realtime_ms();
	pb->accepting = !drain->is_refusing;
	pb->done = state == DRAIN_DONE;
	pb->receipts_pending = (uint32_t)receipts_count(drain->env.receipts);
	pb->volumes = calloc(drain->n_volumes + 1, sizeof(void *));
	is_whole = pb->volumes && put_text(&pb->state, state_names[state]) &&
		   put_text(&pb->boot_id, drain->env.boot_id);
	for (size_t i = 0; is_whole && i < drain->n_volumes; i++)
		is_whole = put_volume(pb, drain, &drain->volumes[i], counts);
	if (is_whole && put_summary(pb, state, counts))
		return pb;
	protobuf_c_message_free_unpacked(&pb->base, NULL);
	return NULL;
}

static drain_pb *drain_copy(const drain_pb *from)
{
	size_t n = protobuf_c_message_get_packed_size(&from->base);
	cleanup_free uint8_t *bytes = malloc(n + 1);

	if (!bytes)
		return NULL;
	(void)protobuf_c_message_pack(&from->base, bytes);
	return (drain_pb *)protobuf_c_message_unpack(&holdfast__v1__agent_drain__descriptor, NULL, n, bytes);
}

bool drain_report(const struct agent_drain *drain, drain_pb **ret)
{
	drain_pb *pb = NULL;

	if (drain->is_in_progress) /* the claims that it learns of are noted, nothing else */
		pb = drain_make((struct agent_drain *)(uintptr_t)drain, DRAIN_DRAINING);
	else if (drain->last)
		pb = drain_copy(drain->last);
	if (!pb && (drain->is_in_progress || drain->last))
		return false;
	if (pb)
		pb->accepting = !drain->is_refusing;
	*ret = pb;
	return true;
}

static enum status result_path(const struct agent_drain *drain, char ret[static PATH_MAX], struct error *err)
{
	if (str_format(ret, PATH_MAX, "%s/" DRAIN_FILE, drain->env.data_dir) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, ENAMETOOLONG, "the path %s/" DRAIN_FILE,
				 drain->env.data_dir);
	return STATUS_OK;
}

static enum status drain_store(const struct agent_drain *drain, const drain_pb *result, struct error *err)
{
	cleanup_free char *text = NULL;
	char path[PATH_MAX];
	json_t *json = NULL;
	enum status status = result_path(drain, path, err);
	int r;

	if (status == STATUS_OK)
		status = pbjson_encode(&result->base, PBJSON_DEFAULTS | PBJSON_PROTO_NAMES, &json, err);
	if (status != STATUS_OK)
		return status;
	text = json_dumps(json, JSON_INDENT(2));
	json_decref(json);
	r = text ? file_write_atomic(path, RESULT_MODE, text, strlen(text)) : -ENOMEM;
	return r < 0 ? error_set(err, status_from_errno(r), r, "cannot write %s", path) : STATUS_OK;
}

static enum status drain_load(const struct agent_drain *drain, drain_pb **ret, struct error *err)
{
	cleanup_free char *text = NULL;
	char path[PATH_MAX];
	json_t *json;
	size_t n;
	enum status status = result_path(drain, path, err);
	int r;

	if (status != STATUS_OK)
		return status;
	r = file_read(path, DRAIN_FILE_MAX, &text, &n);
	if (r == -ENOENT)
		return STATUS_OK;
	if (r < 0)
		return error_set(err, status_from_errno(r), r, "cannot read %s", path);
	json = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
	if (!json)
		return error_set(err, STATUS_DATA_LOSS, 0, "%s is no JSON", path);
	status = pbjson_decode(&holdfast__v1__agent_drain__descriptor, json, 0,
			       (ProtobufCMessage **)(void *)ret, err);
	json_decref(json);
	return status == STATUS_OK ? STATUS_OK : error_prefix(err, "%s", path);
}

enum drain_state drain_classify(const struct drain_facts *facts)
{
	if (facts->n_busy == 0 && facts->n_receipts == 0)
		return DRAIN_DONE;
	if (facts->is_time_over)
		return facts->n_busy == 0 ? DRAIN_UNACKNOWLEDGED : DRAIN_INCOMPLETE;
	if (facts->n_busy == 0 && facts->is_server_given && !facts->is_connected)
		return DRAIN_UNACKNOWLEDGED;
	return DRAIN_DRAINING;
}

/* Returns whether the allocation has a live volume of a plugin that @runs_it runs. */
static bool has_volume_of_plugin(const struct alloc_record *record, const struct alloc *runs_it)
{
	for (uint32_t i = 0; i < record->alloc.n_volumes; i++) {
		const struct volume_record *volume = &record->volumes[i];

		if (volume->target.type == VOLUME_CSI && volume_record_is_live(volume) &&
		    alloc_find_plugin(runs_it, volume->target.profile))
			return true;
	}
	return false;
}

static bool drain_plugin_is_needed(const struct agent_drain *drain, const struct alloc_record *runs_it)
{
	const struct alloc_runner *runner = NULL;
	const struct release *release = NULL;

	while ((runner = allocs_next(drain->env.allocs, runner))) {
		const struct alloc_record *record = alloc_runner_record(runner);

		if (record != runs_it && has_volume_of_plugin(record, &runs_it->alloc))
			return true;
	}
	while ((release = allocs_next_release(drain->env.allocs, release))) {
		if (alloc_find_plugin(&runs_it->alloc, release_claim(release)->plugin_id))
			return true;
	}
	return false;
}

/* Those that run a plugin go last: it is called to release its volumes. */
static void shut_down_all(struct agent_drain *drain)
{
	const struct alloc_runner *runner = NULL;

	while ((runner = allocs_next(drain->env.allocs, runner))) {
		const struct alloc_record *record = alloc_runner_record(runner);

		if (record->alloc.n_plugins == 0 || !drain_plugin_is_needed(drain, record))
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

static void drain_end(struct agent_drain *drain, enum drain_state state)
{
	struct log_ctx ctx = {.op = "drain"};
	Holdfast__V1__AgentDrain *result = drain_make(drain, state);
	struct error err;

	drain->is_in_progress = false;
	wakeup_disarm(&drain->end_timer);
	wakeup_disarm(&drain->server_timer);
	free(drain->volumes);
	drain->volumes = NULL;
	drain->n_volumes = 0;
	if (!result) {
		log_ctx(LOG_ERR, &ctx, "the drain has ended; there is no memory for its result");
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

	if (!drain->is_in_progress)
		return;
	shut_down_all(drain);
	facts.n_busy = count_busy(drain);
	state = drain_classify(&facts);
	if (state != DRAIN_DRAINING)
		drain_end(drain, state);
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
	if (drain->is_in_progress && !drain->look_timer)
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

static enum status drain_begin(struct agent_drain *drain, uint64_t timeout_ms, struct error *err)
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
	/* two drains within a millisecond still get different start times */
	drain->started_ms = clock_realtime_ms() + (drain->started_ms == clock_realtime_ms());
	drain->deadline_ms = drain->started_ms + (int64_t)timeout_ms;
	drain->is_in_progress = true;
	drain->is_refusing = true;
	drain->is_server_given = false;
	drain->is_time_over = false;
	allocs_set_draining(drain->env.allocs, true);
	log_ctx(LOG_NOTICE, &(struct log_ctx){.op = "drain"},
		"node is shutting down: %zu volumes are released, no new allocation is taken",
		drain->n_volumes);
	look_now(drain);
	return STATUS_OK;
}

/* Extends the drain in progress for a request with a later deadline. */
static enum status prolong(struct agent_drain *drain, uint64_t timeout_ms, struct error *err)
{
	int64_t deadline_ms = clock_realtime_ms() + (int64_t)timeout_ms;

	if (deadline_ms <= drain->deadline_ms)
		return STATUS_OK;
	TRY(wakeup_arm(drain->env.event, &drain->end_timer, timeout_ms * USEC_PER_MSEC, on_time_over, drain,
		       err));
	drain->deadline_ms = deadline_ms;
	return STATUS_OK;
}

static void cancel(struct agent_drain *drain)
{
	if (drain->is_refusing)
		log_ctx(LOG_NOTICE, &(struct log_ctx){.op = "drain"},
			"the drain is cancelled: new allocations are taken");
	drain->is_refusing = false;
	allocs_set_draining(drain->env.allocs, false);
	if (drain->is_in_progress)
		drain_end(drain, DRAIN_CANCELLED);
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
	if (drain->is_in_progress)
		return prolong(drain, request->timeout_ms, err);
	return is_followed(drain, request->follows_ms) ? STATUS_OK
						       : drain_begin(drain, request->timeout_ms, err);
}

enum status drain_request(struct agent_drain *drain, const Holdfast__V1__DrainAgentRequest *request,
			  Holdfast__V1__DrainAgentResponse **ret, struct error *err)
{
	Holdfast__V1__DrainAgentResponse *response;

	TRY(obey(drain, request, err));
	response = malloc(sizeof(*response));
	if (response)
		holdfast__v1__drain_agent_response__init(response);
	if (!response || !drain_report(drain, &response->drain)) {
		free(response);
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM,
				 "cannot report the drain's progress");
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

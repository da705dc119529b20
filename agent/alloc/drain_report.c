/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/drain_internal.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/names.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "rpc/pbjson.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

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

/* What is in the way of a volume in use, and what to do about it. */
static bool put_obstacle(volume_pb *row, const struct agent_drain *drain, const struct drain_volume *volume,
			 const struct alloc_runner *runner)
{
	const struct alloc_record *record = alloc_runner_record(runner);
	const struct alloc_runner_info info = alloc_runner_info(runner);
	const char *plugin = record->alloc.csi_plugin.id;
	bool is_csi = record->volumes[volume->slot].target.type == VOLUME_CSI &&
		      record->volumes[volume->slot].state != VOLUME_NONE;
	char reason[TEXT_MAX], next[TEXT_MAX];

	(void)str_format(next, sizeof(next), "holdfast agent status --verbose%s%s",
			 is_csi ? "; is its plugin up? holdfast plugin status " : "",
			 is_csi ? record->volumes[volume->slot].target.profile : "");
	if (!allocs_is_adopted(drain->env.allocs)) {
		str_copy_text(reason, sizeof(reason), "the mount helper has not told what is mounted");
	} else if (record->phase == ALLOC_RUNNING) {
		(void)str_format(reason, sizeof(reason),
				 "its allocation runs plugin %s, which other volumes still need", plugin);
	} else if (info.step && str_eq(info.volume_id, record->alloc.volumes[volume->slot].source)) {
		str_copy_text(reason, sizeof(reason), info.last_error[0] ? info.last_error : "under way");
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
				 "%zu volumes were given back, and the server has recorded it",
				 pb->n_volumes);
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
				 "are held until this node is back with another boot, or gives them back "
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

drain_pb *drain_make(struct agent_drain *drain, enum drain_state state)
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

drain_pb *drain_copy(const drain_pb *from)
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

	if (drain->is_under_way) /* the claims that it learns of are noted, nothing else */
		pb = drain_make((struct agent_drain *)(uintptr_t)drain, DRAIN_DRAINING);
	else if (drain->last)
		pb = drain_copy(drain->last);
	if (!pb && (drain->is_under_way || drain->last))
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

enum status drain_store(const struct agent_drain *drain, const drain_pb *result, struct error *err)
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

enum status drain_load(const struct agent_drain *drain, drain_pb **ret, struct error *err)
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

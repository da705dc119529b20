/* SPDX-License-Identifier: Apache-2.0 */
#include "state/usage.h"

#include "server.h"

#include "base/clock.h"
#include "base/str.h"
#include "log/log.h"
#include "model/message.h"
#include "state/keys.h"
#include "state/objects.h"

#include <stdlib.h>

enum { USAGE_TEXT_SIZE = 512, LINE_COST_US = 1000000, LINES_BURST = 20 }; /* of one node: then one a second */

static uint32_t warn_at(struct state *state, const struct volume_entry *volume)
{
	const Holdfast__V1__VolumeDetail *detail;
	char key[OBJECT_KEY_SIZE];

	(void)str_format(key, sizeof(key), PREFIX_VOLUME_DETAIL "%s/%s", volume->namespace, volume->id);
	detail = records_get(&state->records, key);
	return detail && detail->plain && detail->plain->warn_at ? detail->plain->warn_at
								 : USAGE_WARN_AT_DEFAULT;
}

/* A node decides how often its usage changes: its lines are limited, so that the log keeps those of others.
 */
static bool may_log(const struct claim_usage *usage, char ret_more[static RATE_MORE_SIZE])
{
	return rate_take_counted(&usage->claim->node->usage_lines, LINE_COST_US, LINES_BURST,
				 clock_monotonic_us(), ret_more);
}

static void report(const struct claim_usage *usage, struct log_ctx *ctx, bool is_bad, const char *text,
		   usage_change_fn *note)
{
	char more[RATE_MORE_SIZE];

	if (may_log(usage, more))
		log_ctx(is_bad ? LOG_WARNING : LOG_NOTICE, ctx, "%s%s", text, more);
	if (note)
		note(usage->claim, text);
}

static void report_change(const struct claim_usage *usage, bool was_full, const char *condition,
			  uint32_t level, usage_change_fn *note)
{
	const struct claim *claim = &usage->claim->claim;
	const char *id = claim->volume_id;
	struct log_ctx ctx = {.volume = id,
			      .node = claim->node_id,
			      .alloc = claim->allocation_id,
			      .claim = claim->id,
			      .op = "usage"};
	char text[USAGE_TEXT_SIZE];

	if (usage->is_full != was_full) {
		ctx.event = usage->is_full ? LOG_EVENT_VOLUME_FULL : LOG_EVENT_VOLUME_HAS_ROOM;
		(void)str_format(text, sizeof(text), "volume %s is %u %% full on node %s, its level is %u %%",
				 id, usage_percent(&usage->usage), claim->node_id, level);
		report(usage, &ctx, usage->is_full, text, note);
	}
	if (!str_eq(usage->condition, condition)) {
		ctx.event = LOG_EVENT_VOLUME_CONDITION;
		(void)str_format(text, sizeof(text), "volume %s on node %s: %s", id, claim->node_id,
				 usage->condition[0] ? usage->condition : "it is in order again");
		report(usage, &ctx, usage->condition[0] != '\0', text, note);
	}
}

static void judge(struct state *state, struct claim_usage *usage, const char *condition_before,
		  usage_change_fn *note)
{
	uint32_t level = warn_at(state, usage->claim->volume);
	bool was_full = usage->is_full;

	usage->is_full = usage_is_full(&usage->usage, level, was_full);
	report_change(usage, was_full, condition_before, level, note);
}

static void set(struct claim_usage *usage, const Holdfast__V1__VolumeUsage *said, int64_t now_ms)
{
	int64_t unknown_since_ms = usage->usage.unknown_since_ms ? usage->usage.unknown_since_ms : now_ms;

	str_copy_text(usage->condition, sizeof(usage->condition), said->condition);
	holdfast__v1__volume_usage__init(&usage->usage);
	usage->usage.total_bytes = said->total_bytes;
	usage->usage.used_bytes = said->used_bytes;
	usage->usage.free_bytes = said->free_bytes;
	usage->usage.total_inodes = said->total_inodes;
	usage->usage.used_inodes = said->used_inodes;
	usage->usage.free_inodes = said->free_inodes;
	usage->usage.read_only = said->read_only;
	usage->usage.condition = usage->condition;
	usage->usage.unknown_since_ms = said->unknown_since_ms != 0 ? unknown_since_ms : 0;
	usage->usage.time_ms = now_ms;
	usage->permille = usage_permille(&usage->usage);
}

static void take_one(struct state *state, struct claim_entry *claim, const Holdfast__V1__VolumeUsage *said,
		     usage_change_fn *note)
{
	char condition[USAGE_CONDITION_MAX + 1] = "";
	struct claim_usage *usage = claim->usage;

	if (usage && usage->report == state->usages.reports)
		return; /* a later entry of the same report */
	if (usage) {
		usages_remove(&state->usages, usage);
		(void)str_copy(condition, sizeof(condition), usage->condition);
	} else {
		usage = calloc(1, sizeof(*usage));
		if (!usage)
			return; /* shown as unknown until the next report */
		usage->claim = claim;
		usage->serial = ++state->usages.serial;
		claim->usage = usage;
	}
	usage->report = state->usages.reports;
	set(usage, said, clock_realtime_ms());
	judge(state, usage, condition, note);
	usages_insert(&state->usages, usage);
}

/* The node may have it mounted. */
static bool is_held(const struct claim *claim)
{
	return claim->state >= CLAIM_RESERVED && claim->state <= CLAIM_UNPUBLISHING;
}

void usage_take(struct state *state, const char *node_id, const Holdfast__V1__VolumeUsageReport *report,
		usage_change_fn *note)
{
	state->usages.reports++;
	for (size_t i = report->n_volumes;
	     i-- > 0;) { /* of several entries for a claim the last one counts */
		struct claim_entry *claim = state_claim(state, report->volumes[i]->claim_id);

		if (claim && str_eq(claim->claim.node_id, node_id) && is_held(&claim->claim))
			take_one(state, claim, report->volumes[i], note);
	}
}

static void review(struct state *state, const struct volume_entry *volume)
{
	struct claim_entry *claim;

	LIST_FOREACH (claim, &volume->claims, of_volume) {
		if (!claim->usage)
			continue;
		usages_remove(&state->usages, claim->usage);
		judge(state, claim->usage, claim->usage->condition, NULL);
		usages_insert(&state->usages, claim->usage);
	}
}

void usage_note_submitted(struct server *server, const struct change_object *objects, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct volume *value = objects[i].kind == OBJECT_VOLUME ? objects[i].value : NULL;
		const struct volume_entry *volume =
			value ? state_volume(&server->state, value->namespace, value->id) : NULL;

		if (volume)
			review(&server->state, volume);
	}
}

/* --- for people --- */

static Holdfast__V1__VolumeUsage *view(const struct claim_usage *usage)
{
	const struct claim_entry *claim = usage->claim;
	Holdfast__V1__VolumeUsage shown = usage->usage;

	/* borrowed: only read */
	shown.claim_id = (char *)(uintptr_t)claim->claim.id;
	shown.node_id = (char *)(uintptr_t)claim->claim.node_id;
	shown.volume_id = (char *)(uintptr_t)claim->claim.volume_id;
	shown.namespace_ = (char *)(uintptr_t)claim->claim.namespace;
	shown.percent = usage_percent(&shown);
	shown.full = usage->is_full;
	if (!node_is_connected(claim->node) && shown.unknown_since_ms == 0)
		shown.unknown_since_ms =
			claim->node->node.disconnected_ms ? claim->node->node.disconnected_ms : shown.time_ms;
	return (Holdfast__V1__VolumeUsage *)message_convert(shown.base.descriptor, &shown.base);
}

/* A list of messages under construction. */
struct list {
	Holdfast__V1__VolumeUsage **usages;
	size_t n;
};

static bool put(struct list *list, const struct claim_usage *usage)
{
	Holdfast__V1__VolumeUsage *shown = view(usage);

	if (shown)
		list->usages[list->n++] = shown;
	return shown != NULL;
}

bool usage_of_volume(const struct volume_entry *volume, bool only_fullest, Holdfast__V1__VolumeUsage ***ret,
		     size_t *ret_n)
{
	const struct claim_usage *fullest = NULL;
	struct list list = {NULL, 0};
	const struct claim_entry *claim;
	bool is_whole = true;
	size_t n = 0;

	LIST_FOREACH (claim, &volume->claims, of_volume) {
		if (!claim->usage)
			continue;
		n++;
		if (!fullest || usage_is_fuller(claim->usage, fullest))
			fullest = claim->usage;
	}
	if (n > 0) {
		list.usages = calloc(n, sizeof(Holdfast__V1__VolumeUsage *));
		is_whole = list.usages != NULL;
	}
	LIST_FOREACH (claim, &volume->claims, of_volume)
		if (is_whole && claim->usage && (!only_fullest || claim->usage == fullest))
			is_whole = put(&list, claim->usage);
	*ret = list.usages;
	*ret_n = list.n;
	return is_whole;
}

bool usage_of_node(const struct node_entry *node, Holdfast__V1__VolumeUsage ***ret, size_t *ret_n)
{
	struct list list = {calloc(node->n_live + 1, sizeof(Holdfast__V1__VolumeUsage *)), 0};
	const struct claim_entry *claim;
	bool is_whole = list.usages != NULL;

	LIST_FOREACH (claim, &node->claims, of_node)
		if (is_whole && claim->usage && claim_is_live(&claim->claim))
			is_whole = put(&list, claim->usage);
	*ret = list.usages;
	*ret_n = list.n;
	return is_whole;
}

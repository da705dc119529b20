/* SPDX-License-Identifier: Apache-2.0 */
/* Decides when a schedule makes and removes snapshots. */

#include "model/schedule.h"

/* The newest slot of the row that begins at @slot_ms and is not after @now_ms. */
static int64_t newest_slot(int64_t slot_ms, int64_t every_ms, int64_t now_ms)
{
	return now_ms < slot_ms ? slot_ms : slot_ms + (now_ms - slot_ms) / every_ms * every_ms;
}

struct schedule_step schedule_next(const struct schedule_policy *policy,
				   const struct schedule_snapshot *existing, size_t n, int64_t now_ms)
{
	const struct schedule_snapshot *last;
	size_t n_ready = 0, oldest = 0, oldest_ready = 0;
	bool is_begun = false; /* a removal */
	struct schedule_step step;
	int64_t slot_ms;

	while (n > 0 && existing[n - 1].slot_ms > now_ms + policy->every_ms)
		n--;
	if (n == 0)
		return (struct schedule_step){.action = SCHEDULE_MAKE, .time_ms = now_ms};
	last = &existing[n - 1];
	slot_ms = newest_slot(last->slot_ms, policy->every_ms, now_ms);
	if (last->state == SCHEDULE_SNAPSHOT_ASKED)
		return (struct schedule_step){.action = SCHEDULE_RESUME, .i = n - 1, .time_ms = slot_ms};
	if (last->state == SCHEDULE_SNAPSHOT_NOT_READY)
		return (struct schedule_step){
			.action = SCHEDULE_RESUME, .i = n - 1, .time_ms = last->slot_ms};
	for (size_t i = n; i-- > 0;) {
		bool is_ready = existing[i].state == SCHEDULE_SNAPSHOT_READY;
		bool is_deleting = existing[i].state == SCHEDULE_SNAPSHOT_DELETING;

		n_ready += is_ready;
		if (is_ready)
			oldest_ready = i;
		if (is_deleting || (is_ready && !is_begun))
			oldest = i;
		is_begun = is_begun || is_deleting;
	}
	if (policy->cannot_remove && n_ready > policy->keep) /* one that stays does not keep the others */
		oldest = oldest_ready;
	step = (struct schedule_step){.i = oldest, .time_ms = last->slot_ms + policy->every_ms};
	if ((is_begun || n_ready > policy->keep) && (!policy->cannot_remove || slot_ms == last->slot_ms))
		step.action = SCHEDULE_REMOVE;
	else if (slot_ms > last->slot_ms)
		step = (struct schedule_step){.action = SCHEDULE_MAKE, .time_ms = slot_ms};
	return step;
}

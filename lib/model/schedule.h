/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* When a volume's schedule makes a snapshot, and which one it removes. Pure. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SCHEDULE_EVERY_MIN_MS = 60 * 1000,
	SCHEDULE_KEEP_MAX = 256,
};
#define SCHEDULE_EVERY_MAX_MS (UINT64_C(31) * 24 * 3600 * 1000)

struct schedule_policy {
	int64_t every_ms;
	uint32_t keep;
	bool cannot_remove; /* the last removal failed: it waits while a snapshot is due */
};

enum schedule_snapshot_state {
	SCHEDULE_SNAPSHOT_ASKED,     /* recorded; the provider may have made it */
	SCHEDULE_SNAPSHOT_NOT_READY, /* made; the provider still works on it */
	SCHEDULE_SNAPSHOT_READY,
	SCHEDULE_SNAPSHOT_DELETING, /* a removal began, and is finished before another one begins */
};

/* A snapshot that the schedule made. */
struct schedule_snapshot {
	int64_t slot_ms; /* the time that it is for */
	enum schedule_snapshot_state state;
};

enum schedule_action {
	SCHEDULE_WAIT,
	SCHEDULE_MAKE,	 /* a new one */
	SCHEDULE_RESUME, /* the same call once more */
	SCHEDULE_REMOVE,
};

struct schedule_step {
	enum schedule_action action;
	size_t i;	 /* RESUME, REMOVE: of @existing */
	int64_t time_ms; /* MAKE, RESUME: the slot that it is for; WAIT, REMOVE: when the next one is due */
};

/** Decide the next step at @now_ms. Slots are @every_ms apart, from the first snapshot on; those that pass
 * while nothing can be made are skipped. So two servers that see the same snapshots decide the same. A
 * snapshot is finished before the next one begins, and counts against `keep` once it is ready: a failed one
 * removes no other. One that is more than a period in the future is from a clock that was wrong, and is not
 * looked at.
 * @existing in the order of their slots */
struct schedule_step schedule_next(const struct schedule_policy *policy,
				   const struct schedule_snapshot *existing, size_t n, int64_t now_ms);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* How an operation ended, for its reply and its result record. */

#include "mounthelper_wire.h"
#include "words.h"

#include <stdbool.h>
#include <stdint.h>

struct outcome {
	enum mh_status status;
	int sys_errno; /* negative or positive, 0: no errno */
	enum step step;
	enum reason reason;
	uint16_t state; /* MH_STATE_* */
	uint32_t dev_major;
	uint32_t dev_minor;
	bool is_degraded; /* done although its intent could not be put on record */
};

/* Returns from the caller if @expr, an outcome, is a failure. */
#define TRY_OUTCOME(expr)                     \
	do {                                  \
		struct outcome try_ = (expr); \
		if (try_.status != MH_OK)     \
			return try_;          \
	} while (0)

/* Returns from the caller if @expr is a negative errno, at @step. */
#define TRY_KERNEL(step, expr)                             \
	do {                                               \
		int try_ = (expr);                         \
		if (try_ < 0)                              \
			return outcome_kernel(step, try_); \
	} while (0)

#define OUTCOME_OK outcome_stop(MH_OK, STEP_NONE, REASON_NONE)

/** Outcome of a step that the kernel refused. */
struct outcome outcome_kernel(enum step step, int r);

/** Outcome of a request that stops for @reason. */
struct outcome outcome_stop(enum mh_status status, enum step step, enum reason reason);

struct place;
struct mount_facts;

/** Outcome of a request after which @place, with the facts @facts, is mounted: state bits and device.
 * @state further bits, MH_STATE_* */
struct outcome outcome_mounted(enum mh_status status, const struct place *place,
			       const struct mount_facts *facts, unsigned int state);

#pragma once
/* How an operation ended, for its reply and its result record. */

#include "mounthelper_wire.h"
#include "words.h"

#include <stdint.h>

struct outcome {
	enum mh_status status;
	int sys_errno; /* negative or positive, 0 for none */
	enum step step;
	enum reason reason;
	uint16_t state; /* MH_STATE_* */
	uint32_t dev_major;
	uint32_t dev_minor;
};

/** Outcome of a step that the kernel refused. */
struct outcome outcome_kernel(enum step step, int r);

/** Outcome of a request that stops for @reason. */
struct outcome outcome_stop(enum mh_status status, enum step step, enum reason reason);

/** @state plus what the statfs flags @f_flags of a mount tell. */
uint16_t outcome_state(uint16_t state, int64_t f_flags);

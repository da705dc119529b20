#pragma once
/* The operations, one per file, and the frame around them: limits, admission, lock, intent record, action,
 * result record, reply. */

#include "admission.h"
#include "helper.h"
#include "wire.h"

/* How an operation ended. */
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

/** Handlers: run with the volume's lock held and the intent on record. They leave either nothing attached or
 * what was asked for, and the same request again succeeds. Source: CSI NodeStageVolume and friends. */
struct outcome op_stage(struct helper *h, const struct mh_stage *req, const struct admission *admission);
struct outcome op_publish(struct helper *h, const struct mh_publish *req, const struct admission *admission);
struct outcome op_unpublish(struct helper *h, const struct mh_unpublish *req);
struct outcome op_unstage(struct helper *h, const struct mh_unstage *req);
struct outcome op_stat(struct helper *h, const struct mh_stat *req);
void op_list(struct helper *h, const struct mh_list *req, struct mh_list_reply *reply);

/* What the caller has to send, and whether the helper goes on. */
union mh_answer {
	struct mh_header header;
	struct mh_reply reply;
	struct mh_list_reply list;
};

/** Run one decoded request to its answer.
 * Returns REASON_NONE to go on, or why the helper must end after sending. */
enum reason ops_run(struct helper *h, const union mh_request *req, union mh_answer *ret);

/** @state plus what the statfs flags @f_flags of a mount tell. */
uint16_t outcome_state(uint16_t state, int64_t f_flags);

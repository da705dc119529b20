#include "ops.h"

#include "locks.h"
#include "record.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Adapters of one shape, for the table below. */

static enum reason admit_op_stage(const struct helper *h, const union mh_request *req, struct admission *ret)
{
	return admit_stage(h, &req->stage, clock_realtime_ms(), ret);
}

static enum reason admit_op_publish(const struct helper *h, const union mh_request *req,
				    struct admission *ret)
{
	return admit_publish(h, &req->publish, clock_realtime_ms(), ret);
}

static enum reason admit_op_unpublish(const struct helper *h, const union mh_request *req,
				      struct admission *ret)
{
	(void)ret;
	return admit_detach(h, req->unpublish.detach);
}

static enum reason admit_op_unstage(const struct helper *h, const union mh_request *req,
				    struct admission *ret)
{
	(void)ret;
	return admit_detach(h, req->unstage.detach);
}

static struct outcome run_stage(struct helper *h, const union mh_request *req,
				const struct admission *admission)
{
	return op_stage(h, &req->stage, admission);
}

static struct outcome run_publish(struct helper *h, const union mh_request *req,
				  const struct admission *admission)
{
	return op_publish(h, &req->publish, admission);
}

static struct outcome run_unpublish(struct helper *h, const union mh_request *req,
				    const struct admission *admission)
{
	(void)admission;
	return op_unpublish(h, &req->unpublish);
}

static struct outcome run_unstage(struct helper *h, const union mh_request *req,
				  const struct admission *admission)
{
	struct outcome outcome = op_unstage(h, &req->unstage);

	(void)admission;
	if ((outcome.status == MH_OK || outcome.status == MH_ALREADY) && lock_table(h->state_fd) == 0) {
		state_clear_staged(h->state, req->unstage.volume);
		unlock_table(h->state_fd);
	}
	return outcome;
}

/* What changes mounts. The volume's name is the first field of each of these requests. */
static const struct operation {
	bool cleans_up; /* goes on when the trail cannot be written */
	enum reason (*admit)(const struct helper *h, const union mh_request *req, struct admission *ret);
	struct outcome (*run)(struct helper *h, const union mh_request *req,
			      const struct admission *admission);
} operations[MH_OP_N] = {
	[MH_OP_STAGE] = {false, admit_op_stage, run_stage},
	[MH_OP_PUBLISH] = {false, admit_op_publish, run_publish},
	[MH_OP_UNPUBLISH] = {true, admit_op_unpublish, run_unpublish},
	[MH_OP_UNSTAGE] = {true, admit_op_unstage, run_unstage},
};

_Static_assert(offsetof(struct mh_stage, volume) == sizeof(struct mh_header), "volume comes first");
_Static_assert(offsetof(struct mh_publish, volume) == sizeof(struct mh_header), "volume comes first");
_Static_assert(offsetof(struct mh_unpublish, volume) == sizeof(struct mh_header), "volume comes first");
_Static_assert(offsetof(struct mh_unstage, volume) == sizeof(struct mh_header), "volume comes first");

static const char *volume_of(const union mh_request *req)
{
	return req->stage.volume;
}

/* Count a refusal and put it on record unless there are too many. REFUSED tells the agent nothing more. */
static enum reason refuse(struct helper *h, const union mh_request *req, enum reason reason)
{
	uint64_t rec;

	switch (refusals_add(&h->refusals, clock_monotonic_us())) {
	case REFUSAL_RECORD:
		/* without a trail nothing was done either */
		(void)record_refusal(h, req, reason, &rec);
		return REASON_NONE;
	case REFUSAL_COUNT:
		return REASON_NONE;
	case REFUSAL_END:
		break;
	}
	return REASON_REFUSALS;
}

static enum reason admit_generation(struct helper *h, const union mh_request *req,
				    const struct admission *admission)
{
	const struct ticket *ticket = admission->ticket;
	int r;

	if (!ticket)
		return REASON_NONE;
	r = lock_table(h->state_fd);
	if (r < 0)
		return REASON_STATE_FULL;
	r = state_admit(h->state, volume_of(req), ticket->generation, ticket->not_after_ms,
			clock_realtime_ms());
	unlock_table(h->state_fd);
	if (r == -ESTALE)
		return REASON_TICKET_GENERATION;
	return r < 0 ? REASON_STATE_FULL : REASON_NONE;
}

/* What stops a request before its intent: REASON_NONE when nothing does. */
static enum reason admit(struct helper *h, const struct operation *op, const union mh_request *req,
			 struct admission *admission)
{
	enum reason reason = op->admit(h, req, admission);
	int r;

	if (reason != REASON_NONE)
		return reason;
	r = lock_volume(h->state_fd, volume_of(req));
	if (r < 0)
		return REASON_LOCKED;
	return admit_generation(h, req, admission);
}

static enum mh_status status_of_refusal(enum reason reason)
{
	if (reason == REASON_LOCKED)
		return MH_BUSY;
	if (reason == REASON_STATE_FULL || reason == REASON_RATE || reason == REASON_MAX_PER_ALLOC)
		return MH_LIMIT;
	return reason == REASON_TYPE_UNAVAILABLE ? MH_UNAVAILABLE : MH_REFUSED;
}

static struct outcome run_on_record(struct helper *h, const struct operation *op, const union mh_request *req,
				    const struct admission *admission, uint64_t *ret_rec)
{
	bool degraded = record_intent(h, req, admission, ret_rec) < 0;
	struct outcome outcome;

	if (degraded && !op->cleans_up)
		return outcome_stop(MH_UNAVAILABLE, STEP_TRAIL, REASON_NONE);
	outcome = op->run(h, req, admission);
	/* done is done: a result that cannot be written shows as an intent without one */
	(void)record_result(h, req, admission, &outcome, degraded, ret_rec);
	return outcome;
}

static void fill_header(struct mh_header *header, const union mh_request *req, size_t size)
{
	*header = (struct mh_header){.magic = MH_MAGIC,
				     .version = MH_VERSION,
				     .op = req->header.op,
				     .length = (uint32_t)size,
				     .seq = req->header.seq};
}

static void fill_reply(struct mh_reply *reply, const union mh_request *req, const struct outcome *outcome,
		       uint64_t rec)
{
	*reply = (struct mh_reply){.status = (uint16_t)outcome->status, .record = rec};
	fill_header(&reply->header, req, sizeof(*reply));
	if (outcome->status == MH_REFUSED)
		return; /* no oracle: the reason is in the trail */
	reply->sys_errno = (uint16_t)abs(outcome->sys_errno);
	reply->step = (uint16_t)outcome->step;
	reply->state = outcome->state;
	reply->dev_major = outcome->dev_major;
	reply->dev_minor = outcome->dev_minor;
}

static enum reason run_operation(struct helper *h, const union mh_request *req, struct mh_reply *reply)
{
	const struct operation *op = &operations[req->header.op];
	struct admission admission = {.profile = NULL};
	enum reason reason = admit(h, op, req, &admission);
	struct outcome outcome = {.status = MH_OK};
	enum reason end = REASON_NONE;
	uint64_t rec = 0;

	if (reason != REASON_NONE) {
		outcome = outcome_stop(status_of_refusal(reason), STEP_NONE, reason);
		end = refuse(h, req, reason);
	} else {
		outcome = run_on_record(h, op, req, &admission, &rec);
		if (outcome.status == MH_INTERNAL)
			end = REASON_POSTCONDITION;
	}
	lock_release(h->state_fd);
	fill_reply(reply, req, &outcome, rec);
	return end;
}

static enum reason answer_over_rate(struct helper *h, const union mh_request *req, union mh_answer *answer)
{
	const struct outcome outcome = {.status = MH_LIMIT, .reason = REASON_RATE};

	if (req->header.op == MH_OP_LIST) {
		answer->list.status = MH_LIMIT;
		fill_header(&answer->list.header, req, sizeof(answer->list));
	} else {
		fill_reply(&answer->reply, req, &outcome, 0);
	}
	return refuse(h, req, REASON_RATE);
}

enum reason ops_run(struct helper *h, const union mh_request *req, union mh_answer *ret)
{
	uint64_t now_us = clock_monotonic_us();
	struct outcome outcome;

	memset(ret, 0, sizeof(*ret));
	record_refusals_summary(h, now_us, false);
	if (!rate_take(&h->rate, now_us))
		return answer_over_rate(h, req, ret);
	if (req->header.op == MH_OP_LIST) {
		fill_header(&ret->list.header, req, sizeof(ret->list));
		op_list(h, &req->list, &ret->list);
		return REASON_NONE;
	}
	if (req->header.op == MH_OP_STAT) {
		outcome = op_stat(h, &req->stat);
		fill_reply(&ret->reply, req, &outcome, 0);
		return REASON_NONE;
	}
	return run_operation(h, req, &ret->reply);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "ops.h"

#include "record.h"
#include "trees.h"

#include "base/clock.h"
#include "base/sys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Requests that change mounts begin with the volume's name, so req->stage.volume is valid for all of them. */
#define VOLUME_COMES_FIRST(type) \
	_Static_assert(offsetof(struct type, volume) == sizeof(struct mh_header), "volume comes first")
VOLUME_COMES_FIRST(mh_stage);
VOLUME_COMES_FIRST(mh_publish);
VOLUME_COMES_FIRST(mh_unpublish);
VOLUME_COMES_FIRST(mh_unstage);

/* The steps of the frame for an operation. An empty row refuses, and an empty cell is the stricter choice. */
struct operation {
	op_handler *run;
	bool cleans_up; /* continues without a trail */
};

static const struct operation operations[MH_OP_N] = {
	[MH_OP_STAGE] = {op_stage},
	[MH_OP_PUBLISH] = {op_publish},
	[MH_OP_UNPUBLISH] = {op_unpublish, .cleans_up = true},
	[MH_OP_UNSTAGE] = {op_unstage, .cleans_up = true},
};

static const struct operation *operation_of(const union mh_request *req)
{
	static const struct operation none = {.run = NULL};

	return req->header.op < MH_OP_N ? &operations[req->header.op] : &none;
}

/* True if any profile can block on a remote server or a FUSE daemon. Decided by profiles, not by the request:
 * a request may name one volume and find another. */
static bool may_wait(const struct helper *h)
{
	const struct profile *p = h->agent->profiles;

	for (uint32_t i = 0; i < h->agent->n_profiles; i++)
		if ((p[i].class != MH_CLASS_BLOCK && p[i].class != MH_CLASS_TMPFS) || p[i].shared)
			return true;
	return false;
}

/* A server may never answer, not even for an existing mount. The alarm ends this process: the trail keeps an
 * intent without a result, and the agent starts another helper. */
static struct outcome run(struct helper *h, const union mh_request *req, const struct admission *admission)
{
	struct outcome outcome;

	if (may_wait(h) && sys_set_timer(h->agent->nfs_timeout_s) < 0)
		return outcome_stop(MH_INTERNAL, STEP_SOURCE, REASON_POSTCONDITION);
	outcome = operation_of(req)->run(h, req, admission);
	(void)sys_set_timer(0);
	return outcome;
}

/* Looks at the state table once: compares the ticket's generation, and copies the volume's slot. */
static enum reason consult_table(struct helper *h, const union mh_request *req, struct admission *ret)
{
	const struct state_slot *slot;
	int r = lock_table(h->state_fd);

	if (r < 0)
		return REASON_LOCKED;
	if (ret->ticket)
		r = state_admit(h->state, req->stage.volume, ret->ticket->generation,
				ret->ticket->not_after_ms, clock_realtime_ms());
	slot = state_find(h->state, req->stage.volume);
	if (slot)
		ret->slot = *slot;
	unlock_table(h->state_fd);
	if (r == -ESTALE)
		return REASON_TICKET_GENERATION;
	return r < 0 ? REASON_STATE_FULL : REASON_NONE;
}

/* Checks a request before its intent. REASON_NONE: it is allowed, and the volume is locked. */
static enum reason admit(struct helper *h, const union mh_request *req, struct admission *ret)
{
	enum reason reason =
		operation_of(req)->run ? admit_request(h, req, clock_realtime_ms(), ret) : REASON_UNKNOWN_OP;
	const char *plugin = req->header.op == MH_OP_UNSTAGE ? req->unstage.profile : "";
	const struct profile *profile;

	if (reason == REASON_NONE && lock_volume(h->state_fd, req->stage.volume) < 0)
		reason = REASON_LOCKED;
	if (reason == REASON_NONE)
		reason = consult_table(h, req, ret);
	profile = ret->profile ? ret->profile : policy_profile(h->agent, ret->slot.profile);
	if (req->header.op == MH_OP_UNPUBLISH && ret->slot.stage != STATE_UNSTAGED)
		plugin = ret->slot.plugin;
	else if (ret->profile && ret->profile->class == MH_CLASS_CSI)
		plugin = ret->profile->name;
	/* all together: they may have one server */
	if (plugin[0] == '\0' && profile && profile->class == MH_CLASS_BIND)
		plugin = "/";
	if (reason == REASON_NONE && plugin[0] != '\0' && lock_plugin(h->state_fd, plugin) < 0)
		reason = REASON_LOCKED;
	return reason;
}

static enum mh_status status_of(enum reason reason)
{
	if (reason == REASON_LOCKED)
		return MH_BUSY;
	if (reason == REASON_STATE_FULL || reason == REASON_RATE || reason == REASON_MAX_PER_ALLOC)
		return MH_LIMIT;
	return reason == REASON_TYPE_UNAVAILABLE ? MH_UNAVAILABLE : MH_REFUSED;
}

/* Put a refusal on record, or count it when there are too many. Returns why the helper must end, if so. */
static enum reason refuse(struct helper *h, const union mh_request *req, enum reason reason,
			  struct outcome *ret, uint64_t *ret_rec)
{
	uint64_t now_us = clock_monotonic_us();

	*ret = outcome_stop(status_of(reason), STEP_NONE, reason);
	if (rate_take(&h->state->header.rate[RATE_RECORDED], now_us))
		(void)record_request(h, req, NULL, ret,
				     ret_rec); /* without a trail nothing was done either */
	else
		h->refusals_unrecorded++;
	/* REASON_LOCKED is not the agent's fault: another instance works on the volume */
	return reason == REASON_LOCKED || rate_take(&h->state->header.rate[RATE_TOLERATED], now_us)
		       ? REASON_NONE
		       : REASON_REFUSALS;
}

static enum reason run_operation(struct helper *h, const union mh_request *req, struct admission *admission,
				 struct outcome *ret, uint64_t *ret_rec)
{
	enum reason reason = admit(h, req, admission);
	bool is_degraded;

	if (reason != REASON_NONE)
		return refuse(h, req, reason, ret, ret_rec);
	is_degraded = record_request(h, req, admission, NULL, ret_rec) < 0;
	*ret = outcome_stop(MH_UNAVAILABLE, STEP_TRAIL, REASON_NONE);
	if (!is_degraded || operation_of(req)->cleans_up)
		*ret = run(h, req, admission);
	ret->is_degraded = is_degraded;
	/* done is done: a result that cannot be written shows as an intent without one */
	(void)record_request(h, req, admission, ret, ret_rec);
	return ret->status == MH_INTERNAL ? REASON_POSTCONDITION : REASON_NONE;
}

/* Reasons that a profile gives, which come before those of tickets and limits. */
static bool is_of_profile(enum reason reason)
{
	return reason < REASON_TICKET_MISSING || reason == REASON_HOST_PATH || reason == REASON_KERNEL_OLD;
}

static void fill_reply(struct helper *h, struct mh_reply *reply, const struct outcome *outcome,
		       const struct profile *profile, uint64_t rec)
{
	reply->status = (uint16_t)outcome->status;
	reply->record = rec;
	record_head(h, rec, reply->head);
	reply->reason = (uint16_t)outcome->reason;
	if (outcome->reason != REASON_NONE)
		reply->policy_line =
			profile && is_of_profile(outcome->reason) ? profile->line : h->agent->line;
	reply->sys_errno = (uint16_t)abs(outcome->sys_errno);
	reply->step = (uint16_t)outcome->step;
	reply->state = outcome->state;
	reply->dev_major = outcome->dev_major;
	reply->dev_minor = outcome->dev_minor;
}

enum reason ops_run(struct helper *h, const union mh_request *req, union mh_answer *ret)
{
	assert(h->agent && h->state);

	uint64_t now_us = clock_monotonic_us();
	struct admission admission = {.profile = NULL};
	struct outcome outcome = {.status = MH_OK};
	enum reason end = REASON_NONE;
	uint64_t rec = 0;

	memset(ret, 0, sizeof(*ret));
	record_refusals_summary(h, now_us, false);
	if (req->header.op == MH_OP_LIST) {
		ret->list.header = mh_header_make(MH_OP_LIST, sizeof(struct mh_list_reply), req->header.seq);
		if (rate_take(&h->state->header.rate[RATE_LISTS], now_us))
			op_list(h, &req->list, &ret->list);
		else
			ret->list.status = MH_LIMIT; /* LIST changes nothing: no refusal, no record */
		return REASON_NONE;
	}
	h->list_next.cursor = 0; /* it may read the table, too */
	if (rate_take(&h->state->header.rate[RATE_OPS], now_us))
		end = run_operation(h, req, &admission, &outcome, &rec);
	else
		end = refuse(h, req, REASON_RATE, &outcome, &rec);
	lock_release(h->state_fd);
	ret->reply.header = mh_header_make(req->header.op, sizeof(struct mh_reply), req->header.seq);
	fill_reply(h, &ret->reply, &outcome, admission.profile, rec);
	return end;
}

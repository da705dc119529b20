/* SPDX-License-Identifier: Apache-2.0 */
/* The loop on which everything is done with etcd, and questions that wait for their answers on it. */

#include "base/backoff.h"
#include "base/clock.h"
#include "etcd/etcd_internal.h"

#include <assert.h>
#include <sys/param.h>

enum { READER_TRIES = 2 * ETCD_ENDPOINTS_MAX };

bool etcd_run(struct etcd *etcd, uint64_t timeout_us)
{
	int r;

	assert(!etcd->is_running);
	etcd->is_running = true;
	r = sd_event_run(etcd->loop, timeout_us);
	etcd->is_running = false;
	return r > 0;
}

void etcd_notify(struct etcd *etcd, unsigned int changes)
{
	etcd->changes |= changes;
	(void)sd_event_source_set_enabled(etcd->turn, SD_EVENT_ONESHOT);
}

/* --- questions --- */

struct question {
	etcd_answer_fn *answer;
	void *userdata;
	bool is_done;
	enum status status;
	struct error err;
};

static void on_answered(enum status status, const ProtobufCMessage *response, const struct error *err,
			void *userdata)
{
	struct question *question = userdata;

	question->is_done = true;
	question->status = status;
	if (err)
		question->err = *err;
	if (status == STATUS_OK)
		question->status = question->answer(response, question->userdata, &question->err);
}

/* UNKNOWN: the time that the call gave etcd was over there first. */
static bool is_worth_another(enum status status)
{
	return status == STATUS_UNAVAILABLE || status == STATUS_UNKNOWN ||
	       status == STATUS_DEADLINE_EXCEEDED || status == STATUS_CANCELLED;
}

/* A process that only reads asks each member some times. */
static bool may_continue(const struct etcd *etcd, int n_tries)
{
	return etcd->election ? election_is_leading(etcd->election) : n_tries < READER_TRIES;
}

static void pause_for(struct etcd *etcd, uint64_t us, uint64_t end_us)
{
	const uint64_t until_us = MIN(clock_monotonic_us() + us, end_us);

	for (uint64_t now = clock_monotonic_us(); now < until_us; now = clock_monotonic_us())
		(void)etcd_run(etcd, until_us - now);
}

/* False: @end_us has come. */
static bool await_answer(struct etcd *etcd, const struct question *question, uint64_t end_us)
{
	while (question->status == STATUS_OK && !question->is_done) {
		uint64_t now_us = clock_monotonic_us();

		if (now_us >= end_us)
			return false;
		(void)etcd_run(etcd, end_us == UINT64_MAX ? UINT64_MAX : end_us - now_us);
	}
	return true;
}

enum status etcd_ask(struct etcd *etcd, const char *method, const ProtobufCMessage *request,
		     etcd_answer_fn *answer, void *userdata, struct error *err)
{
	struct backoff backoff = BACKOFF_INIT(20 * USEC_PER_MSEC, USEC_PER_SEC);
	struct question question = {.answer = answer, .userdata = userdata};
	const uint64_t end_us = etcd->is_brief ? clock_monotonic_us() + ETCD_BRIEF_US : UINT64_MAX;
	struct etcd_call call = {0};
	int n_tries = 0;

	for (;;) {
		question.is_done = false;
		question.status =
			etcd_call_start(etcd->client, &call, &etcdserverpb__kv__descriptor, method, request,
					etcd->call_us, on_answered, &question, &question.err);
		if (!await_answer(etcd, &question, end_us)) {
			etcd_call_cancel(&call);
			return error_set(err, STATUS_UNAVAILABLE, 0, "etcd does not answer in time");
		}
		n_tries++;
		if (!is_worth_another(question.status) || !may_continue(etcd, n_tries) ||
		    clock_monotonic_us() >= end_us)
			break;
		pause_for(etcd, backoff_next(&backoff, backoff_random()), end_us);
	}
	if (question.status != STATUS_OK && err)
		*err = question.err;
	return question.status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A journal that cannot be written, at each write of an allocation's life: nothing counts as written that was
 * not, the agent ends, and the next one continues from what is on the disk. */

#include "scenario.h"

#include "base/clock.h"
#include "store/kv.h"

enum { LATE_MAX = 64, WRITES_MAX = 100, END_MS = 5000, IDLE_MS = 100 };

#define PREFIX_RECEIPT "receipt/"

enum way {
	WAY_NONE,
	WAY_REFUSE, /* the write is refused at once */
	WAY_FAIL,   /* taken, and then told to have failed */
	WAY_HOLD,   /* taken, and nothing is told of it */
	WAY_N,
};

struct late {
	kv_done_fn *fn;
	void *userdata;
	sd_event_source *source;
};

static struct {
	enum way way;
	sd_event *event;
	unsigned int at, n; /* the first that is hit, counted from 1; seen */
	bool has_hit;	    /* from there on all are, as kv.h says */
	bool is_over;	    /* the agent wants to end */
	char receipt[128];  /* key of the first one that was hit; empty: none */
	struct late late[LATE_MAX];
	size_t n_late;
} fault;

enum status __real_kv_submit(struct kv *kv, const struct kv_txn *txn, kv_done_fn *fn, void *userdata,
			     struct error *err);
int __real_sd_event_exit(sd_event *event, int code);

static int on_late(sd_event_source *source, void *userdata)
{
	struct late *late = userdata;
	struct error err;

	(void)error_set(&err, STATUS_INTERNAL, EIO, "the disk is gone");
	if (late->fn)
		late->fn(0, &err, late->userdata);
	return 0;
}

static void note_receipt(const struct kv_txn *txn)
{
	for (size_t i = 0; i < txn->n_ops; i++) {
		/* without a value it is dropped */
		if (str_starts_with(txn->ops[i].key, PREFIX_RECEIPT) && txn->ops[i].value &&
		    fault.receipt[0] == '\0')
			(void)str_copy(fault.receipt, sizeof(fault.receipt), txn->ops[i].key);
	}
}

WRAPPED(enum status, kv_submit, struct kv *kv, const struct kv_txn *txn, kv_done_fn *fn, void *userdata,
	struct error *err)
{
	struct late *late = &fault.late[fault.n_late];

	if (fault.way == WAY_NONE || ++fault.n < fault.at)
		return __real_kv_submit(kv, txn, fn, userdata, err);
	fault.has_hit = true;
	note_receipt(txn);
	if (fault.way == WAY_REFUSE)
		return error_set(err, STATUS_INTERNAL, EIO, "the disk is gone");
	if (fault.way == WAY_HOLD)
		return STATUS_OK;
	assert_true(fault.n_late < LATE_MAX);
	fault.n_late++;
	*late = (struct late){.fn = fn, .userdata = userdata};
	assert_true(sd_event_add_defer(fault.event, &late->source, on_late, late) >= 0);
	return STATUS_OK;
}

WRAPPED(int, sd_event_exit, sd_event *event, int code)
{
	if (fault.way == WAY_NONE)
		return __real_sd_event_exit(event, code);
	fault.is_over = true;
	return 0;
}

/* The server may have no receipt that the journal has not. */
static void expect_not_logged(const struct world *w)
{
	const char *claim_id = fault.receipt + strlen(PREFIX_RECEIPT);

	for (unsigned int i = 0; i < w->server.n_claims && fault.receipt[0] != '\0'; i++) {
		const struct model_claim *claim = &w->server.claims[i];
		size_t n = strlen(claim->claim.id);

		if (strncmp(claim_id, claim->claim.id, n) != 0)
			continue;
		assert_false(str_eq(claim_id + n, "/released") ? claim->is_released : claim->is_mounted);
	}
}

/* As far as the fault lets it. Returns false when it was hit. */
static bool until(struct world *w, const char *what, world_condition *condition)
{
	uint64_t end = world_deadline();

	while (!fault.has_hit && !condition(w))
		world_turn(w, end, what);
	return !fault.has_hit;
}

static bool live(struct world *w)
{
	bool is_whole = until(w, "session", is_connected);

	run_a(w, 2);
	is_whole = is_whole && until(w, "running", a_runs) && until(w, "acknowledged", all_is_acknowledged);
	model_server_want_stop(&w->server, ALLOC_A);
	return is_whole && until(w, "released", a_ended_and_all_is_released) &&
	       until(w, "all acknowledged", all_is_acknowledged);
}

static void forget_fault(void)
{
	for (size_t i = 0; i < fault.n_late; i++)
		sd_event_source_disable_unref(fault.late[i].source);
	memset(&fault, 0, sizeof(fault));
}

static void end_after_fault(struct world *w)
{
	uint64_t end = clock_monotonic_us() + END_MS * USEC_PER_MSEC;

	if (fault.way == WAY_HOLD)
		world_idle(w, IDLE_MS);
	while (fault.way != WAY_HOLD && !fault.is_over) {
		assert_msg(clock_monotonic_us() <= end, "write %u failed, and the agent continues", fault.at);
		world_turn(w, world_deadline(), "end");
	}
	expect_not_logged(w);
	world_kill_agent(w);
	forget_fault();
	world_start_agent(w);
	WORLD_UNTIL(w, has_mount_snapshot);
	WORLD_UNTIL(w, a_ended_and_all_is_released);
	WORLD_UNTIL(w, all_is_acknowledged);
	expect_nothing_mounted(w);
}

/* Returns whether there was a write to fail. */
static bool fail_at(enum way way, unsigned int at)
{
	void *state = NULL;
	bool was_whole;
	struct world *w;

	(void)world_setup(&state);
	w = state;
	world_start_agent(w); /* what it writes to begin with fails the start */
	memset(&fault, 0, sizeof(fault));
	fault.way = way;
	fault.at = at;
	fault.event = w->event;
	was_whole = live(w);
	if (!was_whole)
		end_after_fault(w);
	fault.way = WAY_NONE;
	(void)world_teardown(&state);
	return !was_whole;
}

static void fail_everywhere(enum way way)
{
	unsigned int at = 1;

	while (fail_at(way, at)) {
		at++;
		assert_true(at < WRITES_MAX);
	}
	print_message("%u writes\n", at - 1);
	assert_true(at > 10);
}

TEST(a_write_that_is_refused_ends_the_agent_and_nothing_is_reported)
{
	fail_everywhere(WAY_REFUSE);
}

TEST(a_write_that_fails_ends_the_agent_and_nothing_is_reported)
{
	fail_everywhere(WAY_FAIL);
}

TEST(unwritten_records_are_not_reported)
{
	fail_everywhere(WAY_HOLD);
}

/* The mark of a welcome is written alone, and nobody waits for it. */
TEST(a_mark_that_cannot_be_written_ends_the_agent)
{
	struct world *w;
	uint64_t end;

	(void)world_setup(state);
	w = *state;
	w->server.shows_marks = true;
	world_start_agent(w);
	memset(&fault, 0, sizeof(fault));
	fault.way = WAY_FAIL;
	fault.at = 1;
	fault.event = w->event;
	end = world_deadline();
	while (!fault.is_over)
		world_turn(w, end, "the agent ends");
	world_kill_agent(w);
	forget_fault();
	(void)world_teardown(state);
}

TEST_GROUP(world_group_setup, world_group_teardown)

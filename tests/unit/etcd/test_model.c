/* SPDX-License-Identifier: Apache-2.0 */
/* A thousand rounds of random submissions against a model in memory, with what goes wrong between the store
 * and etcd. What is acknowledged is stored; of what was not answered because the lead was lost, all up to
 * some submission is stored, and nothing behind it. */

#include "etcd_world.h"
#include "proxy.h"
#include "sample.h"

#include "base/clock.h"
#include "base/parse.h"
#include "base/str.h"

#include <string.h>

enum { ROUNDS = 800, KEYS = 24, SUBMISSIONS = 12, OPS = 4, VALUE_SIZE = 16, LEASE_LONG_S = 60 };

struct state {
	char values[KEYS][VALUE_SIZE]; /* "": absent */
};

struct planned {
	struct state after;
	bool holds; /* its condition */
	int n;	    /* answers */
	enum status status;
	struct world *world;
	size_t index;
};

struct world {
	struct etcd_world *etcd;
	struct proxy *proxy;
	char proxy_url[WORLD_URL_SIZE];
	sd_event *event;
	struct part part;
	struct state state;
	struct planned planned[SUBMISSIONS];
	size_t n_planned;
	int n_answered;
	uint64_t seed;
	unsigned int n_value, n_lost;
	bool is_held; /* requests are, by the proxy */
};

static uint32_t draw(struct world *w, uint32_t n)
{
	w->seed = w->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(w->seed >> 33) % n;
}

static void begin(struct world *w)
{
	const char *url = w->proxy_url;
	struct etcd_settings settings = part_settings(&url, 1, "/model", "s1");

	settings.lease_us = LEASE_LONG_S * USEC_PER_SEC;
	part_start(&w->part, w->event, &settings);
	part_lead(&w->part);
}

static bool add_item(const struct kv_item *item, void *userdata)
{
	struct state *state = userdata;
	uint32_t index = 0;

	assert_int_equal(parse_u32(item->key + 1, 0, KEYS - 1, &index), 0);
	assert_true(item->len < VALUE_SIZE);
	memcpy(state->values[index], item->value, item->len);
	return true;
}

static void read_state(struct world *w, struct state *ret)
{
	struct error err;

	*ret = (struct state){0};
	assert_succeeds(kv_range(w->part.kv, "k", add_item, ret, &err), err);
}

static bool is_same(const struct state *a, const struct state *b)
{
	for (int i = 0; i < KEYS; i++)
		if (!str_eq(a->values[i], b->values[i]))
			return false;
	return true;
}

static void on_done(uint64_t revision, const struct error *err, void *userdata)
{
	struct planned *planned = userdata;
	struct world *w = planned->world;

	assert_int_equal(planned->n++, 0);
	assert_int_equal(w->n_answered, planned->index); /* in order */
	w->n_answered++;
	planned->status = err ? err->status : STATUS_OK;
	assert_true(err || revision > 0);
}

/* One that creates @index if (@holds) it is absent. */
static void submit_conditional(struct world *w, struct planned *planned, const struct kv_op *op,
			       bool is_absent)
{
	const struct kv_condition condition = {.key = op->key};

	planned->holds = is_absent;
	assert_ok(kv_submit(w->part.kv, &(struct kv_txn){&condition, 1, op, 1}, on_done, planned, NULL));
}

static void submit_one(struct world *w)
{
	struct planned *planned = &w->planned[w->n_planned];
	const struct state *before = w->n_planned > 0 ? &planned[-1].after : &w->state;
	char keys[OPS][8], values[OPS][VALUE_SIZE];
	struct kv_op ops[OPS];
	size_t n = draw(w, OPS + 1);
	bool is_conditional = n == 1 && draw(w, 2) == 0;
	uint32_t first = KEYS;

	*planned = (struct planned){.after = *before, .holds = true, .world = w, .index = w->n_planned++};
	for (size_t i = 0; i < n; i++) {
		uint32_t index = draw(w, KEYS);
		bool is_put = is_conditional || draw(w, 3) > 0;

		first = i == 0 ? index : first;
		(void)str_format(keys[i], sizeof(keys[i]), "k%u", index);
		(void)str_format(values[i], VALUE_SIZE, "v%u", w->n_value++);
		ops[i] = (struct kv_op){.key = keys[i],
					.value = is_put ? values[i] : NULL,
					.len = is_put ? strlen(values[i]) : 0};
		if (!is_conditional || before->values[index][0] == '\0')
			(void)str_copy(planned->after.values[index], VALUE_SIZE, is_put ? values[i] : "");
	}
	if (is_conditional)
		submit_conditional(w, planned, &ops[0], before->values[first][0] == '\0');
	else
		assert_ok(kv_submit(w->part.kv, &(struct kv_txn){.ops = ops, .n_ops = n}, on_done, planned,
				    NULL));
}

/* The store as it is now is what one of the unanswered submissions leaves, or the last answered one. */
static void resume(struct world *w)
{
	const struct state *candidate = &w->state;
	struct state found;
	bool is_known;

	w->n_lost++;
	part_stop(&w->part);
	begin(w);
	read_state(w, &found);
	is_known = is_same(candidate, &found);
	for (size_t i = 0; i < w->n_planned && !is_known; i++)
		is_known = w->planned[i].status != STATUS_OK && is_same(&w->planned[i].after, &found);
	assert_true(is_known);
	w->state = found;
}

static void depose(struct world *w)
{
	etcd_world_put(w->etcd->urls[0], "/model/leader", NULL);
	etcd_world_put(w->etcd->urls[0], "/model/leader", "somebody");
}

static void hold(struct world *w)
{
	w->is_held = true;
	proxy_do(w->proxy, PROXY_HOLD_REQUESTS);
}

static bool disturb(struct world *w)
{
	uint32_t dice = draw(w, 100);

	if (dice < 5)
		proxy_do(w->proxy, PROXY_DROP_ANSWERS);
	else if (dice < 10)
		proxy_do(w->proxy, PROXY_DROP_REQUESTS);
	else if (dice < 15)
		hold(w);
	else if (dice < 25)
		proxy_do(w->proxy, PROXY_CUT);
	else if (dice < 27)
		depose(w);
	else if (dice < 28)
		etcd_world_kill(w->etcd, 0);
	return dice >= 25 && dice < 27;
}

static void settle(struct world *w)
{
	if (w->etcd->pids[0] == 0)
		etcd_world_start(w->etcd, 0);
	if (w->is_held) /* about when the call ends and the keys are read */
		run_for(w->event, CALL_MS - 20 + draw(w, 100));
	proxy_do(w->proxy, PROXY_RELEASE);
	w->is_held = false;
	run_until(w->event, &w->n_answered, (int)w->n_planned);
	for (size_t i = 0; i < w->n_planned; i++) {
		const struct planned *planned = &w->planned[i];

		assert_int_equal(planned->n, 1);
		if (planned->status == STATUS_FAILED_PRECONDITION)
			continue; /* the lead was lost */
		assert_int_equal(planned->status, planned->holds ? STATUS_OK : STATUS_ABORTED);
		w->state = planned->after;
	}
}

static void one_round(struct world *w)
{
	size_t n = draw(w, SUBMISSIONS + 1);
	size_t n_first = n > 0 ? draw(w, (uint32_t)n + 1) : 0;
	bool is_deposed;

	w->n_planned = 0;
	w->n_answered = 0;
	for (size_t i = 0; i < n_first; i++)
		submit_one(w);
	for (uint32_t i = draw(w, 3); i > 0; i--)
		(void)sd_event_run(w->event, 0);
	is_deposed = disturb(w);
	for (size_t i = n_first; i < n; i++)
		submit_one(w);
	settle(w);
	if (is_deposed) {
		etcd_world_put(w->etcd->urls[0], "/model/leader", NULL);
		resume(w);
	}
}

TEST(acknowledged_writes_are_stored_and_nothing_twice)
{
	const struct sample sample = sample_of_environment();
	struct world *w = NON_NULL(calloc(1, sizeof(*w)));
	struct state found;

	w->seed = 20261123 + sample.part;
	w->etcd = etcd_world_new(1);
	(void)str_format(w->proxy_url, sizeof(w->proxy_url), "unix:%s/proxy", w->etcd->folder);
	w->proxy = proxy_new(w->proxy_url + strlen("unix:"), etcd_world_socket(w->etcd, 0));
	assert_int_equal(sd_event_new(&w->event), 0);
	begin(w);
	for (int i = 0; i < ROUNDS / (int)sample.parts; i++) {
		one_round(w);
		if (draw(w, 10) == 0) {
			read_state(w, &found);
			assert_true(is_same(&w->state, &found));
		}
	}
	assert_true(w->n_lost > 5 / sample.parts);
	part_stop(&w->part);
	proxy_free(w->proxy);
	sd_event_unref(w->event);
	etcd_world_free(w->etcd);
	free(w);
}

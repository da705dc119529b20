/* SPDX-License-Identifier: Apache-2.0 */
/* A rewrite of any size becomes durable as a whole, or not at all. */

#include "etcd_world.h"
#include "proxy.h"

#include "base/clock.h"

enum { RECORDS = 1500, LARGE = 400 };

struct rewriting {
	struct proxy *proxy;
	char proxy_url[WORLD_URL_SIZE], prefix[32];
	sd_event *event;
	struct part part;
	int n_puts;
	bool fails, is_deposed, loses_answers;
};

TEST_GROUP(etcd_world_setup, etcd_world_teardown)

static void begin(struct rewriting *w)
{
	const char *url = w->proxy_url;
	struct etcd_settings settings = part_settings(&url, 1, w->prefix, "s1");

	settings.lease_us = 60 * USEC_PER_SEC;
	part_start(&w->part, w->event, &settings);
	part_lead(&w->part);
}

static void on_done(uint64_t revision, const struct error *err, void *userdata)
{
	assert_null(err);
	(*(int *)userdata)++;
}

static void put(struct rewriting *w, const char *key, const char *value, int *n)
{
	const struct kv_op op = {.key = key, .value = value, .len = strlen(value)};

	assert_ok(kv_submit(w->part.kv, &(struct kv_txn){.ops = &op, .n_ops = 1}, on_done, n, NULL));
}

/* r0000 to r1499, each with the value "old". */
UNIT_SETUP(setup, struct rewriting, w)
{
	static int number;
	int n = 0;

	(void)str_format(w->prefix, sizeof(w->prefix), "/rewrite/%d", number++);
	(void)str_format(w->proxy_url, sizeof(w->proxy_url), "unix:%s/proxy%d", etcd_world->folder, number);
	w->proxy = proxy_new(w->proxy_url + strlen("unix:"), etcd_world_socket(etcd_world, 0));
	assert_int_equal(sd_event_new(&w->event), 0);
	begin(w);
	for (int i = 0; i < RECORDS; i++) {
		char key[8];

		(void)str_format(key, sizeof(key), "r%04d", i);
		put(w, key, "old", &n);
	}
	run_until(w->event, &n, RECORDS);
}

UNIT_TEARDOWN(teardown, struct rewriting, w)
{
	part_stop(&w->part);
	proxy_free(w->proxy);
	sd_event_unref(w->event);
}

struct counted {
	int n_old, n_new, n_all;
	char last[KV_KEY_MAX + 1];
};

static bool count(const struct kv_item *item, void *userdata)
{
	struct counted *counted = userdata;

	assert_true(strcmp(item->key, counted->last) > 0);
	(void)str_copy(counted->last, sizeof(counted->last), item->key);
	counted->n_all++;
	counted->n_old += item->len == 3 && memcmp(item->value, "old", 3) == 0;
	counted->n_new += item->len == 3 && memcmp(item->value, "new", 3) == 0;
	return true;
}

static void assert_counts(struct rewriting *w, int n_old, int n_new)
{
	struct counted counted = {0};

	assert_int_equal(kv_range(w->part.kv, "", count, &counted, NULL), STATUS_OK);
	assert_int_equal(counted.n_old, n_old);
	assert_int_equal(counted.n_new, n_new);
	assert_int_equal(counted.n_all, n_old + n_new);
}

/* n_puts changes: of three, one is of a record that is there, one of a new one behind it, one a deletion. */
static enum status change(struct kv_rewrite *rewrite, void *userdata, struct error *err)
{
	struct rewriting *w = userdata;
	struct counted counted = {0};
	enum status status = STATUS_OK;
	char leader[64];

	for (int i = 0; i < w->n_puts && status == STATUS_OK; i++) {
		char key[16];
		struct kv_op op = {.key = key, .value = i % 3 == 2 ? NULL : "new", .len = i % 3 == 2 ? 0 : 3};

		(void)str_format(key, sizeof(key), i % 3 == 1 ? "r%04d.new" : "r%04d", i);
		status = kv_rewrite_put(rewrite, &op, err);
	}
	assert_int_equal(kv_rewrite_range(rewrite, "r", count, &counted, err), STATUS_OK);
	assert_int_equal(counted.n_new, 2 * w->n_puts / 3);
	assert_int_equal(counted.n_old, RECORDS - 2 * w->n_puts / 3);
	(void)str_format(leader, sizeof(leader), "%s/leader", w->prefix);
	if (w->is_deposed)
		etcd_world_put(etcd_world->urls[0], leader, NULL);
	if (w->loses_answers)
		proxy_do(w->proxy, PROXY_DROP_ANSWERS);
	return w->fails ? error_set(err, STATUS_CANCELLED, 0, "on purpose") : status;
}

static const int sizes[] = {0, 3, 126, 3 * LARGE};

TEST_FIXTURE(a_rewrite_of_any_size_becomes_durable_as_a_whole, setup, teardown)
{
	struct rewriting *w = *state;
	int n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct error err = {0};
		int third = sizes[i] / 3;

		if (i > 0) { /* anew, below another prefix */
			assert_int_equal(teardown(state), 0);
			assert_int_equal(setup(state), 0);
			w = *state;
		}
		w->n_puts = sizes[i];
		assert_succeeds(kv_rewrite(w->part.kv, change, w, &err), err);
		assert_counts(w, RECORDS - 2 * third, 2 * third);
		part_stop(&w->part);
		begin(w);
		assert_counts(w, RECORDS - 2 * third, 2 * third);
		n = 0;
		put(w, "s", "new", &n); /* and it continues */
		run_until(w->event, &n, 1);
		assert_counts(w, RECORDS - 2 * third, 2 * third + 1);
	}
}

#define CASE(name) TEST_ON(name, struct rewriting, w, setup, teardown)

CASE(records_of_an_unfinished_rewrite_are_removed)
{
	char key[64];

	(void)str_format(key, sizeof(key), "%s/e/2/left", w->prefix);
	etcd_world_put(etcd_world->urls[0], key, "12345678new");
	w->n_puts = 3 * LARGE;
	assert_int_equal(kv_rewrite(w->part.kv, change, w, NULL), STATUS_OK);
	assert_counts(w, RECORDS - 2 * LARGE, 2 * LARGE);
}

static bool key_exists(const char *key)
{
	int64_t created = 0, written = 0;

	return etcd_world_find(etcd_world->urls[0], key, &created, &written);
}

CASE(records_of_a_killed_rewrite_are_removed_when_the_store_is_opened)
{
	char before[64], after[64], own[64];

	w->n_puts = 3 * LARGE;
	assert_int_equal(kv_rewrite(w->part.kv, change, w, NULL), STATUS_OK); /* to the second generation */
	part_stop(&w->part);
	(void)str_format(before, sizeof(before), "%s/e/1/left", w->prefix);
	(void)str_format(after, sizeof(after), "%s/e/3/left", w->prefix);
	(void)str_format(own, sizeof(own), "%s/e/2/r0000", w->prefix);
	etcd_world_put(etcd_world->urls[0], before, "12345678new");
	etcd_world_put(etcd_world->urls[0], after, "12345678new");
	begin(w);
	assert_false(key_exists(before));
	assert_false(key_exists(after));
	assert_true(key_exists(own));
	assert_counts(w, RECORDS - 2 * LARGE, 2 * LARGE);
}

/* As --migrate to-sqlite leaves it. */
CASE(a_retired_store_is_opened_by_no_server_until_it_is_rewritten)
{
	const char *url = w->proxy_url;
	struct etcd_settings settings = part_settings(&url, 1, w->prefix, "s2");
	struct error err = {0};

	assert_succeeds(kv_retire_etcd(w->part.kv, "s9", &err), err);
	assert_string_equal(kv_etcd_retired_by(w->part.kv), "s9");
	part_stop(&w->part);
	part_start(&w->part, w->event, &settings);
	run_until(w->event, &w->part.n_leading, 1);
	assert_error(kv_open_etcd(w->part.etcd, &w->part.kv, &err), STATUS_FAILED_PRECONDITION, err,
		     "was moved to the sqlite of server s9");
	assert_non_null(strstr(err.msg, "systemctl disable --now holdfast-server"));
	w->part.kv = NULL;
	part_stop(&w->part);

	settings.may_be_retired = true;
	part_start(&w->part, w->event, &settings);
	part_lead(&w->part);
	assert_string_equal(kv_etcd_retired_by(w->part.kv), "s9");
	assert_counts(w, RECORDS, 0); /* nothing of it is lost */
	w->n_puts = 3;		      /* a small one is a new generation, too */
	assert_int_equal(kv_rewrite(w->part.kv, change, w, NULL), STATUS_OK);
	assert_string_equal(kv_etcd_retired_by(w->part.kv), "");
	part_stop(&w->part);
	begin(w);
	assert_counts(w, RECORDS - 2, 2);
}

CASE(a_rewrite_on_a_full_etcd_fails_instead_of_waiting)
{
	struct error err = {0};

	etcd_world_alarm(etcd_world->urls[0], true);
	w->n_puts = 3;
	assert_int_equal(kv_rewrite(w->part.kv, change, w, &err), STATUS_RESOURCE_EXHAUSTED);
	etcd_world_alarm(etcd_world->urls[0], false);
}

CASE(a_rewrite_that_fails_changes_nothing)
{
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		w->fails = true;
		w->n_puts = sizes[i];
		assert_int_equal(kv_rewrite(w->part.kv, change, w, NULL), STATUS_CANCELLED);
		assert_counts(w, RECORDS, 0);
	}
}

CASE(a_deposed_leader_rewrites_nothing)
{
	struct error err;

	for (size_t i = 1; i < ARRAY_SIZE(sizes); i++) {
		w->is_deposed = true;
		w->n_puts = sizes[i];
		assert_error(kv_rewrite(w->part.kv, change, w, &err), STATUS_FAILED_PRECONDITION, err,
			     "not the leader");
		part_stop(&w->part);
		begin(w);
		assert_counts(w, RECORDS, 0);
	}
}

CASE(lost_answers_hold_a_rewrite_up)
{
	struct error err = {0};

	w->loses_answers = true;
	w->n_puts = 3 * LARGE;
	assert_succeeds(kv_rewrite(w->part.kv, change, w, &err), err);
	assert_counts(w, RECORDS - 2 * LARGE, 2 * LARGE);
}

static enum status advance(struct kv_rewrite *rewrite, void *userdata, struct error *err)
{
	const struct kv_op op = {.key = "a", .value = "1", .len = 1};

	kv_rewrite_advance(rewrite, *(uint64_t *)userdata);
	return kv_rewrite_put(rewrite, &op, err);
}

static bool take_revision(const struct kv_item *item, void *userdata)
{
	assert_true(item->create_revision <= item->mod_revision);
	*(uint64_t *)userdata = item->mod_revision;
	return false;
}

static uint64_t revision_of(struct rewriting *w, const char *key)
{
	uint64_t revision = 0;

	assert_int_equal(kv_range(w->part.kv, key, take_revision, &revision, NULL), STATUS_OK);
	return revision;
}

static void on_answer(uint64_t revision, const struct error *err, void *userdata)
{
	*(int *)userdata = err ? (int)err->status : 1000;
}

/* Returns the status; 1000: OK. */
static int put_if(struct rewriting *w, const char *key, uint64_t mod_revision)
{
	const struct kv_condition condition = {.key = key, .mod_revision = mod_revision};
	const struct kv_op op = {.key = key, .value = "2", .len = 1};
	int answer = 0;

	assert_ok(kv_submit(
		w->part.kv,
		&(struct kv_txn){.conditions = &condition, .n_conditions = 1, .ops = &op, .n_ops = 1},
		on_answer, &answer, NULL));
	run_until(w->event, &answer, 1);
	return answer;
}

CASE(revisions_never_run_backwards_on_an_etcd_that_is_behind)
{
	uint64_t above = kv_revision(w->part.kv);
	struct error err = {0};

	assert_int_equal(kv_rewrite(w->part.kv, advance, &above, &err), STATUS_OK);
	for (int i = 0; i < 2; i++) { /* the offset is added to the one before */
		uint64_t before;

		above = kv_revision(w->part.kv) + 1000000;
		assert_succeeds(kv_rewrite(w->part.kv, advance, &above, &err), err);
		before = kv_revision(w->part.kv);
		assert_true(before > above && before < above + 5000);
		assert_true(revision_of(w, "r0000") > above); /* of all records */
		part_stop(&w->part);
		begin(w);
		assert_int_equal(kv_revision(w->part.kv), before); /* whoever opens it */
		assert_int_equal(put_if(w, "a", above), STATUS_ABORTED);
		assert_int_equal(put_if(w, "a", 1), STATUS_ABORTED);
		assert_int_equal(put_if(w, "a", revision_of(w, "a")), 1000);
		assert_int_equal(revision_of(w, "a"), kv_revision(w->part.kv));
		assert_true(kv_revision(w->part.kv) > before);
	}
	assert_true(revision_of(w, "r1499") > above);
}

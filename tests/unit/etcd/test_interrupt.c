/* SPDX-License-Identifier: Apache-2.0 */
/* A server that follows finds etcd behind its mark: the leader, which noticed nothing, changes nothing more.
 */

#include "etcd_world.h"
#include "proxy.h"

#include "base/clock.h"

#define PREFIX "/interrupt"

struct world {
	struct etcd_world *etcd; /* of this case alone: it is put back */
	struct proxy *proxy;	 /* of the leader */
	sd_event *event;
	struct part part; /* leads */
	struct etcd *follower;
	struct etcd_progress progress; /* as the follower was told last */
};

static void on_progress(const struct etcd_progress *progress, void *userdata)
{
	((struct world *)userdata)->progress = *progress;
}

static void on_leading(void *userdata)
{
	fail_msg("it follows");
}

static void on_error(const struct error *err, void *userdata)
{
}

static void on_follow(const char *leader, int64_t since_ms, void *userdata)
{
}

static void on_aside(uint32_t schema, void *userdata)
{
}

UNIT_SETUP(setup, struct world, w)
{
	static const struct etcd_events events = {.on_leading = on_leading,
						  .on_lost = on_error,
						  .on_follow = on_follow,
						  .on_trouble = on_error,
						  .on_aside = on_aside,
						  .on_progress = on_progress};
	char url[WORLD_URL_SIZE], mark[WORLD_URL_SIZE];
	const struct kv_marks marks = {.paths = {mark}, .store_id = "one", .epoch = 7, .nodes = 3};
	const char *urls[] = {url};
	struct etcd_settings settings;

	w->etcd = etcd_world_new(1);
	(void)str_format(url, sizeof(url), "unix:%s/proxy", w->etcd->folder);
	(void)str_format(mark, sizeof(mark), "%s/mark", w->etcd->folder);
	w->proxy = proxy_new(url + strlen("unix:"), etcd_world_socket(w->etcd, 0));
	assert_int_equal(sd_event_new(&w->event), 0);
	settings = part_settings(urls, 1, PREFIX, "s1");
	settings.lease_us = 60 * USEC_PER_SEC;
	part_start(&w->part, w->event, &settings);
	part_lead(&w->part);
	assert_ok(kv_keep_marks(w->part.kv, &marks, NULL));
	urls[0] = w->etcd->urls[0];
	settings = part_settings(urls, 1, PREFIX, "s2");
	assert_ok(etcd_new(w->event, &settings, &events, w, &w->follower, NULL));
}

UNIT_TEARDOWN(teardown, struct world, w)
{
	etcd_free(w->follower);
	part_stop(&w->part);
	proxy_free(w->proxy);
	sd_event_unref(w->event);
	etcd_world_free(w->etcd);
}

struct answer {
	int n;
	uint64_t revision;
	enum status status;
};

static void on_done(uint64_t revision, const struct error *err, void *userdata)
{
	struct answer *answer = userdata;

	answer->n++;
	answer->revision = revision;
	answer->status = err ? err->status : STATUS_OK;
}

/* Deletes @key if @value is NULL. */
static void put(struct world *w, const char *key, const char *value, struct answer *answer)
{
	const struct kv_op op = {.key = key, .value = value, .len = value ? strlen(value) : 0};

	*answer = (struct answer){0};
	assert_ok(kv_submit(w->part.kv, &(struct kv_txn){.ops = &op, .n_ops = 1}, on_done, answer, NULL));
}

static uint64_t put_ok(struct world *w, const char *key, const char *value)
{
	struct answer answer;

	put(w, key, value, &answer);
	run_until(w->event, &answer.n, 1);
	assert_int_equal(answer.status, STATUS_OK);
	return answer.revision;
}

static bool is_decided(const struct world *w)
{
	int64_t created, written;

	return etcd_world_find(w->etcd->urls[0], PREFIX "/e/1/meta/decision", &created, &written);
}

static void interrupt(struct world *w)
{
	const struct kv_op op = {.key = "meta/decision", .value = "E", .len = 1};

	etcd_interrupt(w->follower, &op);
	RUN_UNTIL(w->event, is_decided(w));
}

static void assert_is_deposed(struct world *w)
{
	struct answer answer;

	put(w, "grant", "1", &answer);
	run_until(w->event, &answer.n, 1);
	assert_int_equal(answer.status, STATUS_FAILED_PRECONDITION);
	run_until(w->event, &w->part.n_lost, 1);
}

#define CASE(name) TEST_ON(name, struct world, w, setup, teardown)

CASE(an_interrupt_keeps_the_marks_that_followers_read)
{
	const uint64_t first = put_ok(w, "a", "1");

	RUN_UNTIL(w->event, w->progress.revision == first);
	interrupt(w);
	RUN_UNTIL(w->event, w->progress.revision == first + 1);
	assert_int_equal(w->progress.epoch, 7);
	assert_int_equal(w->progress.nodes, 3);
	assert_string_equal(w->progress.store_id, "one");
	assert_is_deposed(w);
}

/* The follower looks a tenth of a lease later again: a leader that writes all the time would never be ended.
 */
CASE(a_leader_that_writes_after_the_look_is_interrupted)
{
	const uint64_t first = put_ok(w, "a", "1");

	RUN_UNTIL(w->event, w->progress.revision == first);
	assert_int_equal(put_ok(w, "b", "1"), first + 1);
	assert_int_equal(w->progress.revision, first);
	interrupt(w);
	assert_is_deposed(w);
}

/* The follower has compared its mark with the earlier epoch. */
CASE(a_leader_that_has_begun_an_epoch_after_the_look_goes_on)
{
	const struct kv_op op = {.key = "meta/decision", .value = "E", .len = 1};
	const uint64_t first = put_ok(w, "a", "1");
	char mark[WORLD_URL_SIZE];
	const struct kv_marks marks = {.paths = {mark}, .store_id = "one", .epoch = 8, .nodes = 3};

	RUN_UNTIL(w->event, w->progress.revision == first);
	(void)str_format(mark, sizeof(mark), "%s/mark", w->etcd->folder);
	assert_ok(kv_keep_marks(w->part.kv, &marks, NULL));
	(void)put_ok(w, "b", "1");
	etcd_interrupt(w->follower, &op);
	run_for(w->event, 500);
	assert_false(is_decided(w));
	(void)put_ok(w, "c", "1");
}

/* The leader then reads the key that the follower has written. */
CASE(a_leader_that_looks_for_its_lost_answer_notices_an_interrupt)
{
	const uint64_t first = put_ok(w, "a", "1");
	struct answer answer;

	proxy_do(w->proxy, PROXY_DROP_ANSWERS);
	put(w, "b", "1", &answer);
	RUN_UNTIL(w->event, w->progress.revision == first + 1);
	interrupt(w);
	run_until(w->event, &answer.n, 1);
	assert_int_equal(answer.status, STATUS_FAILED_PRECONDITION);
	run_until(w->event, &w->part.n_lost, 1);
}

static void run_shell(const struct world *w, const char *command)
{
	char text[4 * WORLD_FOLDER_SIZE];

	(void)str_format(text, sizeof(text), "cd %s && %s", w->etcd->folder, command);
	assert_int_equal(system(text), 0);
}

/* The interrupt gets the revision that the lost transaction had. */
CASE(a_leader_whose_etcd_lost_its_last_transaction_is_interrupted)
{
	uint64_t lost;

	(void)put_ok(w, "a", "1");
	etcd_world_kill(w->etcd, 0);
	run_shell(w, "cp -a d0 before");
	etcd_world_start(w->etcd, 0);
	lost = put_ok(w, "granted", "1");
	RUN_UNTIL(w->event, w->progress.revision == lost);
	etcd_world_kill(w->etcd, 0);
	run_shell(w, "rm -r d0 && mv before d0");
	etcd_world_start(w->etcd, 0);
	RUN_UNTIL(w->event, w->progress.revision < lost);
	interrupt(w);
	RUN_UNTIL(w->event, w->progress.revision == lost);
	assert_is_deposed(w);
}

static bool count(const struct kv_item *item, void *userdata)
{
	(*(int *)userdata)++;
	return true;
}

/* A store that moves to sqlite begins there: below, it would seem to have gone back. */
CASE(a_walk_has_the_index_of_the_last_transaction_though_it_deleted)
{
	const char *url = w->etcd->urls[0];
	const struct etcd_settings settings = part_settings(&url, 1, PREFIX, "s3");
	uint64_t deleted, walked;
	int n = 0;

	(void)put_ok(w, "a", "1");
	(void)put_ok(w, "b", "1");
	deleted = put_ok(w, "b", NULL);
	assert_ok(etcd_walk(&settings, count, &n, &walked, NULL));
	assert_int_equal(n, 1);
	assert_int_equal(walked, deleted);
}

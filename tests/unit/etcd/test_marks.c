/* SPDX-License-Identifier: Apache-2.0 */
/* An etcd that was put back is found out by the mark of a server that wrote to it. */

#include "etcd_world.h"

#include "base/clock.h"
#include "store/mark.h"

enum { EPOCH = 7 };

struct marked {
	sd_event *event;
	struct part part;
	char prefix[32], mark[WORLD_FOLDER_SIZE + 16];
};

TEST_GROUP(etcd_world_setup, etcd_world_teardown)

static void begin(struct marked *m)
{
	const char *url = etcd_world->urls[0];
	struct etcd_settings settings = part_settings(&url, 1, m->prefix, "s1");

	settings.lease_us = 60 * USEC_PER_SEC;
	part_start(&m->part, m->event, &settings);
	part_lead(&m->part);
}

UNIT_SETUP(setup, struct marked, m)
{
	static int number;

	(void)str_format(m->prefix, sizeof(m->prefix), "/marks/%d", number++);
	(void)str_format(m->mark, sizeof(m->mark), "%s/mark", etcd_world->folder);
	(void)unlink(m->mark);
	assert_int_equal(sd_event_new(&m->event), 0);
	begin(m);
}

UNIT_TEARDOWN(teardown, struct marked, m)
{
	part_stop(&m->part);
	sd_event_unref(m->event);
}

static struct kv_marks marks_of(const struct marked *m)
{
	return (struct kv_marks){.paths = {m->mark}, .store_id = "one", .epoch = EPOCH, .nodes = 3};
}

static struct kv_history history_of(struct marked *m)
{
	const struct kv_marks marks = marks_of(m);
	struct kv_history history;

	assert_int_equal(kv_history(m->part.kv, &marks, &history, NULL), STATUS_OK);
	return history;
}

static struct mark read_mark(const struct marked *m)
{
	struct mark mark;

	assert_int_equal(mark_read(m->mark, &mark, NULL), STATUS_OK);
	return mark;
}

static void write_mark(const struct marked *m, uint64_t revision)
{
	const struct mark mark = {.store_id = "one", .epoch = EPOCH, .revision = revision, .nodes = 5};
	struct mark_file *file = NULL;

	assert_int_equal(mark_open(m->mark, &mark, &file, NULL), STATUS_OK);
	assert_int_equal(mark_write(file, &mark), 0);
	mark_close(file);
}

struct answer {
	const struct marked *m;
	int n;
};

/* Whoever is answered is in the mark. */
static void on_done(uint64_t revision, const struct error *err, void *userdata)
{
	struct answer *answer = userdata;

	assert_null(err);
	assert_true(read_mark(answer->m).revision >= revision);
	answer->n++;
}

static void put(struct marked *m, const char *key)
{
	const struct kv_op op = {.key = key, .value = "1", .len = 1};
	struct answer answer = {.m = m};

	assert_ok(kv_submit(m->part.kv, &(struct kv_txn){.ops = &op, .n_ops = 1}, on_done, &answer, NULL));
	run_until(m->event, &answer.n, 1);
}

#define CASE(name) TEST_ON(name, struct marked, m, setup, teardown)

CASE(acknowledged_writes_are_in_the_mark)
{
	const struct kv_marks marks = marks_of(m);

	assert_int_equal(kv_keep_marks(m->part.kv, &marks, NULL), STATUS_OK);
	put(m, "a");
	kv_note_nodes(m->part.kv, 4);
	put(m, "b");
	assert_int_equal(read_mark(m).revision, kv_revision(m->part.kv));
	assert_int_equal(read_mark(m).nodes, 4);
	assert_int_equal(read_mark(m).epoch, EPOCH);
	assert_int_equal(kv_define_views(m->part.kv, NULL, 0, NULL), STATUS_OK);
}

/* Another server's machine is no reason to believe what lies in etcd. */
CASE(a_store_for_which_there_is_no_mark_may_have_gone_back)
{
	assert_true(history_of(m).is_behind);
}

CASE(an_etcd_that_was_put_back_is_noticed)
{
	const struct kv_marks marks = marks_of(m);
	struct kv_history history;
	uint64_t revision;

	assert_int_equal(kv_keep_marks(m->part.kv, &marks, NULL), STATUS_OK);
	for (int i = 0; i < 20; i++)
		put(m, "a");
	revision = kv_revision(m->part.kv);
	part_stop(&m->part);
	begin(m);
	assert_false(history_of(m).is_behind);
	part_stop(&m->part);
	write_mark(m, revision + 100000); /* as if etcd had been there, and was put back */
	begin(m);
	history = history_of(m);
	assert_true(history.is_behind);
	assert_int_equal(history.revision, revision + 100000);
	assert_int_equal(history.nodes, 5);
	assert_non_null(strstr(history.why, "of a later revision"));
}

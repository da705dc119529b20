/* SPDX-License-Identifier: Apache-2.0 */
/* A store that lost what was acknowledged begins an epoch by itself, and grants nothing that a node may hold.
 */

#include "cluster.h"
#include "unit.h"

#include "access/audit_read.h"
#include "base/fd.h"
#include "state/keys.h"
#include "state/records.h"

#include <holdfast/v1/types.pb-c.h>
#include <limits.h>

static const char *path_in(const struct fixture *f, const char *name, char ret[static PATH_MAX])
{
	(void)str_format(ret, PATH_MAX, "%s/%s", f->dir, name);
	return ret;
}

static uint64_t epoch_of(struct fixture *f)
{
	const Holdfast__V1__Epoch *epoch = records_get(&f->server->state.records, KEY_EPOCH);

	return epoch ? epoch->number : 0;
}

static const char *reason_of(struct fixture *f)
{
	const Holdfast__V1__Epoch *epoch = records_get(&f->server->state.records, KEY_EPOCH);

	return epoch ? epoch->restored_from : "";
}

static void copy_file(struct fixture *f, const char *from, const char *to)
{
	cleanup_free char *bytes = NULL;
	char path[PATH_MAX];
	size_t n;

	assert_int_equal(file_read(path_in(f, from, path), 64 << 20, &bytes, &n), 0);
	assert_int_equal(file_write_atomic(path_in(f, to, path), 0600, bytes, n), 0);
}

static void remove_file(struct fixture *f, const char *name)
{
	char path[PATH_MAX];

	if (unlink(path_in(f, name, path)) < 0)
		assert_int_equal(errno, ENOENT);
}

static void keep_early(struct fixture *f)
{
	copy_file(f, SERVER_STORE, "early.db");
}

static void copy_back(struct fixture *f)
{
	remove_file(f, SERVER_STORE "-wal");
	copy_file(f, "early.db", SERVER_STORE);
}

static void lose_store(struct fixture *f)
{
	remove_file(f, SERVER_STORE "-wal");
	remove_file(f, SERVER_STORE);
}

static void lose_store_and_mark(struct fixture *f)
{
	lose_store(f);
	remove_file(f, "holdfast.mark");
}

static void lose_mark(struct fixture *f)
{
	remove_file(f, "holdfast.mark");
}

static void do_nothing(struct fixture *f)
{
}

CLUSTER_TEST(a_store_that_was_copied_back_begins_an_epoch_and_grants_nothing_that_may_be_held)
{
	struct error err;
	uint64_t last;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	settle(f);
	restart_with(f, keep_early);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_int_equal(run_alloc(f, ALLOC_1, "n1", NULL), STATUS_OK);
	settle(f);
	last = kv_revision(f->server->kv);
	restart_with(f, copy_back);
	assert_int_equal(epoch_of(f), 1);
	assert_non_null(strstr(reason_of(f), "holdfast.mark is of a later revision"));
	assert_true(kv_revision(f->server->kv) > last);
	assert_null(state_alloc(&f->server->state, ALLOC_1));
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", NULL), STATUS_OK);
	assert_error(fake_node_claim(&f->n2, "db", ALLOC_2, NULL, &err), STATUS_UNAVAILABLE, err, "n1");
	restart(f); /* it is behind once */
	assert_int_equal(epoch_of(f), 1);
}

CLUSTER_TEST(a_store_that_lost_nothing_begins_no_epoch)
{
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	for (int i = 0; i < 3; i++)
		restart_with(f, do_nothing);
	assert_int_equal(epoch_of(f), 0);
}

CLUSTER_TEST(a_store_without_its_mark_begins_an_epoch)
{
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	restart_with(f, lose_mark);
	assert_int_equal(epoch_of(f), 1);
	assert_non_null(strstr(reason_of(f), "missing or damaged"));
	restart(f);
	assert_int_equal(epoch_of(f), 1);
}

CLUSTER_TEST(a_lost_store_continues_above_the_mark)
{
	uint64_t last;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	restart_with(f, lose_mark);
	last = kv_revision(f->server->kv);
	restart_with(f, lose_store);
	assert_int_equal(epoch_of(f), 2);
	assert_true(kv_revision(f->server->kv) > last);
}

static void keep_mark(struct fixture *f)
{
	copy_file(f, "holdfast.mark", "first.mark");
	lose_store_and_mark(f);
}

static void put_mark_back(struct fixture *f)
{
	copy_file(f, "first.mark", "holdfast.mark");
}

CLUSTER_TEST(another_store_begins_an_epoch_though_its_revision_is_higher)
{
	restart_with(f, keep_mark);
	assert_int_equal(epoch_of(f), 0);
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	restart_with(f, put_mark_back);
	assert_int_equal(epoch_of(f), 1);
	assert_non_null(strstr(reason_of(f), "of another store"));
}

CLUSTER_TEST(a_second_mark_tells_when_the_whole_folder_is_lost)
{
	char path[PATH_MAX];

	f->mark_file = path_in(f, "elsewhere.mark", path);
	restart(f);
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	restart_with(f, lose_store_and_mark);
	assert_int_equal(epoch_of(f), 1);
	assert_non_null(strstr(reason_of(f), "elsewhere.mark is of"));
	restart_with(f, lose_mark); /* one is enough */
	assert_int_equal(epoch_of(f), 1);
}

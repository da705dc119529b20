/* SPDX-License-Identifier: Apache-2.0 */
/* kill -9 at every durable step: what was acknowledged is there, and nothing is half done. */

#include "cluster.h"
#include "fault.h"
#include "unit.h"

#include "base/fd.h"
#include "recovery/store_swap.h"
#include "store/kv.h"

#include <ftw.h>
#include <limits.h>

enum { STEPS_MAX = 100 };

/* --- a server: register a volume --- */

/* A whole server with its clients in the child, on the folder of the parent's. */
static void register_one(void *userdata)
{
	struct fixture *f = userdata;

	cluster_start(f);
	fault_arm();
	if (register_volume(f, &f->operator, NULL) != STATUS_OK)
		_exit(1);
	fault_report("registered");
}

CLUSTER_TEST(a_volume_is_registered_or_not_whenever_the_server_dies)
{
	bool has_ended = false;
	int n_deaths = 0;

	cluster_stop(f); /* threads do not survive a fork */
	for (int step = 1; step < STEPS_MAX && !has_ended; step++)
		for (int side = 0; side < FAULT_SIDE_N; side++) {
			const struct fault fault = {.step = step, .side = (enum fault_side)side};
			struct fault_end end = fault_run(&fault, register_one, f);
			const struct volume_entry *volume;

			cluster_start(f);
			volume = state_volume(&f->server->state, "default", "db");
			if (str_eq(end.said, "registered\n"))
				assert_non_null(volume);
			if (step == 1 && side == FAULT_BEFORE)
				assert_null(volume); /* or no step was counted */
			if (volume)
				assert_int_equal(deregister_volume(f, NULL), STATUS_OK);
			cluster_stop(f);
			has_ended = !end.died;
			n_deaths += end.died;
		}
	assert_true(has_ended);
	assert_true(n_deaths >= 2);
	cluster_start(f);
}

/* --- exchanging the store --- */

struct folder {
	char dir[64], staged[PATH_MAX];
};

static void put_one(const char *path, const char *value)
{
	cleanup(sd_event_unrefp) sd_event *event = NULL;
	struct kv *kv = NULL;
	struct kv_op op = {.key = "which", .value = value, .len = strlen(value)};

	assert_true(sd_event_new(&event) >= 0);
	assert_int_equal(kv_open_sqlite(event, path, &kv, NULL), STATUS_OK);
	assert_ok(kv_submit(kv, &(struct kv_txn){.ops = &op, .n_ops = 1}, NULL, NULL, NULL));
	kv_close(kv); /* waits */
}

static bool take_value(const struct kv_item *item, void *userdata)
{
	(void)str_format(userdata, 16, "%.*s", (int)item->len, (const char *)item->value);
	return false;
}

static void read_which(const char *dir, char ret[static 16])
{
	char path[PATH_MAX];
	cleanup(sd_event_unrefp) sd_event *event = NULL;
	struct kv *kv = NULL;

	(void)str_format(path, sizeof(path), "%s/holdfast.db", dir);
	ret[0] = '\0';
	assert_true(sd_event_new(&event) >= 0);
	assert_int_equal(kv_open_sqlite(event, path, &kv, NULL), STATUS_OK);
	assert_int_equal(kv_range(kv, "which", take_value, ret, NULL), STATUS_OK);
	kv_close(kv);
}

/* The old store with a log that was not folded in, the new one beside it. */
static void make_folder(struct folder *folder)
{
	char path[PATH_MAX], wal[PATH_MAX];

	(void)str_copy(folder->dir, sizeof(folder->dir), "/tmp/holdfast-fault-XXXXXX");
	assert_non_null(mkdtemp(folder->dir));
	(void)str_format(path, sizeof(path), "%s/holdfast.db", folder->dir);
	(void)str_format(wal, sizeof(wal), "%s-wal", path);
	put_one(path, "old");
	assert_int_equal(file_write_atomic(wal, 0600, "a log of the old", 16), 0);
	(void)str_format(folder->staged, sizeof(folder->staged), "%s/staged.db", folder->dir);
	put_one(folder->staged, "new");
}

static void exchange(void *userdata)
{
	struct folder *folder = userdata;
	bool done = false;

	fault_arm();
	if (store_swap_decide(folder->dir, folder->staged, 1769860800123, NULL) != STATUS_OK)
		_exit(1);
	fault_report("decided");
	if (store_swap_finish(folder->dir, &done, NULL) != STATUS_OK || !done)
		_exit(1);
	fault_report("done");
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static bool exists(const struct folder *folder, const char *name)
{
	char path[PATH_MAX];

	(void)str_format(path, sizeof(path), "%s/%s", folder->dir, name);
	return access(path, F_OK) == 0;
}

static bool store_swap_with(const struct fault *fault)
{
	struct folder folder;
	struct fault_end end;
	char which[16];
	bool done = false;

	make_folder(&folder);
	end = fault_run(fault, exchange, &folder);
	assert_int_equal(store_swap_finish(folder.dir, &done, NULL), STATUS_OK);
	read_which(folder.dir, which);
	if (str_starts_with(end.said, "decided\n"))
		assert_string_equal(which, "new");
	if (str_eq(which, "new")) { /* with nothing of the old one's log, which is beside the old one */
		assert_true(exists(&folder, "holdfast.db.before-restore-2026-01-31T12:00:00.123Z"));
		assert_true(exists(&folder, "holdfast.db.before-restore-2026-01-31T12:00:00.123Z-wal"));
		assert_false(exists(&folder, "staged.db"));
	} else {
		assert_string_equal(which, "old");
		assert_true(exists(&folder, "staged.db"));
	}
	assert_false(exists(&folder, "restore.pending"));
	assert_int_equal(nftw(folder.dir, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
	return end.died;
}

TEST(a_store_is_exchanged_whole_or_not_at_all_whenever_it_dies)
{
	bool has_ended = false;
	int step = 1;

	for (; step < STEPS_MAX && !has_ended; step++)
		for (int side = 0; side < FAULT_SIDE_N; side++)
			has_ended = !store_swap_with(&(struct fault){step, (enum fault_side)side});
	assert_true(has_ended);
	assert_true(step > 5); /* the note, the old store, its log, the new store, the note */
}

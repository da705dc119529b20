/* SPDX-License-Identifier: Apache-2.0 */
/* A store that fails at any of its commits, and a disk that does not take a backup: nobody is told of what is
 * not durable. */

#include "cluster.h"
#include "unit.h"

#include "access/audit.h"
#include "base/fd.h"
#include "state/change.h"
#include "store/kv_sqlite.h"

#include <dirent.h>
#include <holdfast/v1/operator.pb-c.h>
#include <limits.h>
#include <stdatomic.h>
#include <sys/stat.h>

enum { COMMITS_MAX = 40, SYNCS_MAX = 16 };

static struct {
	atomic_int commits_left; /* the one that takes it to 0 fails; the store's thread counts */
	atomic_int n_held;	 /* 0: none; n: n - 1 pass, then they wait */
	atomic_int syncs_left, n_synced;
	ino_t synced[SYNCS_MAX]; /* in order */
} disk;

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): names of the linker */
enum status __real_kv_sqlite_commit(struct kv_sqlite *db, struct error *err);
int __real_fsync(int fd);

WRAPPED(enum status, kv_sqlite_commit, struct kv_sqlite *db, struct error *err)
{
	while (atomic_load(&disk.n_held) == 1)
		(void)usleep(1000);
	if (atomic_load(&disk.n_held) > 1)
		(void)atomic_fetch_sub(&disk.n_held, 1);
	if (atomic_fetch_sub(&disk.commits_left, 1) != 1)
		return __real_kv_sqlite_commit(db, err);
	kv_sqlite_rollback(db);
	return error_set(err, STATUS_INTERNAL, EIO, "store: commit");
}

WRAPPED(int, fsync, int fd)
{
	struct stat st;
	int n;

	if (atomic_fetch_sub(&disk.syncs_left, 1) == 1) {
		errno = EIO;
		return -1;
	}
	n = atomic_fetch_add(&disk.n_synced, 1);
	if (n < SYNCS_MAX && fstat(fd, &st) == 0)
		disk.synced[n] = st.st_ino;
	return __real_fsync(fd);
}

/* Of the sanitizer: what waits for the answer of a store that breaks ends with its process, which here
 * continues. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

/* --- commits --- */

static void count_done(struct server *server, void *userdata)
{
	(*(int *)userdata)++;
}

static void submit_record(struct fixture *f, const char *object, int *n_done)
{
	cleanup(change_release) struct change change = CHANGE_INIT;

	audit_own(f->server, &change, "Test", object, "");
	assert_int_equal(change_commit(f->server, &change, count_done, n_done, NULL), STATUS_OK);
}

static void drain_store(struct fixture *f)
{
	for (int i = 0; i < 1000 && kv_stats(f->server->kv).pending > 0; i++)
		if (sd_event_run(f->event, 10000) < 0)
			return;
}

CLUSTER_TEST(a_change_whose_commit_failed_is_reported_to_no_caller)
{
	uint64_t revision;
	int n_done = 0;

	drain_store(f);
	revision = kv_revision(f->server->kv);
	atomic_store(&disk.commits_left, 1);
	submit_record(f, "one", &n_done);
	submit_record(f, "two", &n_done);
	drain_store(f);
	assert_true(f->server->failed);
	assert_int_equal(n_done, 0);
	assert_int_equal(kv_revision(f->server->kv), revision);
	atomic_store(&disk.commits_left, 0);
	submit_record(f, "three", &n_done); /* the disk is well again, the store stays broken */
	drain_store(f);
	while (sd_event_run(f->event, 0) > 0)
		continue;
	assert_int_equal(n_done, 0);
	assert_int_equal(kv_revision(f->server->kv), revision);
	restart(f);
	assert_int_equal(kv_revision(f->server->kv), revision);
}

struct granted {
	int answers;
	uint64_t generation; /* of the ticket */
};

static void note_ticket(enum status status, const ProtobufCMessage *response, const struct error *err,
			void *userdata)
{
	const Holdfast__V1__ClaimVolumeResponse *claim = (const Holdfast__V1__ClaimVolumeResponse *)response;
	struct granted *granted = userdata;

	assert_msg(status == STATUS_OK, "%s", err ? err->msg : "");
	granted->answers++;
	granted->generation = ((const struct ticket *)(const void *)claim->ticket.data)->generation;
}

/* The later grant may be lost with the server, and its generation granted to another node. */
CLUSTER_TEST(a_ticket_has_no_generation_of_a_grant_that_is_not_durable)
{
	struct granted first = {0}, second = {0}, again = {0};

	f->access_mode = HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_MULTI_WRITER;
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_int_equal(run_alloc(f, ALLOC_1, "n1", NULL), STATUS_OK);
	assert_int_equal(run_alloc(f, ALLOC_2, "n1", NULL), STATUS_OK);
	settle(f);
	drain_store(f);
	atomic_store(&disk.n_held, 1);
	fake_node_start_claim(&f->n1, "db", ALLOC_1, note_ticket, &first);
	UNTIL(f, f->server->state.n_claims == 1);
	(void)usleep(100000); /* the store's thread has begun with it */
	fake_node_start_claim(&f->n1, "db", ALLOC_2, note_ticket, &second);
	UNTIL(f, f->server->state.n_claims == 2);
	atomic_store(&disk.n_held, 2);
	UNTIL(f, first.answers == 1);
	assert_int_equal(second.answers, 0);
	assert_int_equal(first.generation, 1);
	atomic_store(&disk.n_held, 0);
	UNTIL(f, second.answers == 1);
	assert_int_equal(second.generation, 2);
	fake_node_start_claim(&f->n1, "db", ALLOC_1, note_ticket, &again);
	UNTIL(f, again.answers == 1);
	assert_int_equal(again.generation, 2);
}

struct life {
	bool registered, run, stopped, gone;
};

/* Until a call fails. */
static struct life live(struct fixture *f)
{
	struct life life = {false};

	life.registered = register_volume(f, &f->operator, NULL) == STATUS_OK;
	life.run = life.registered && run_alloc(f, ALLOC_1, "n1", NULL) == STATUS_OK;
	life.stopped = life.run && stop_alloc(f, ALLOC_1, NULL) == STATUS_OK;
	life.gone = life.stopped && deregister_volume(f, NULL) == STATUS_OK;
	return life;
}

TEST_FIXTURE(acknowledged_writes_are_durable_whichever_commit_fails, setup, teardown)
{
	struct fixture *f = *state;
	bool has_failed = true;
	int n = 1;

	for (; n < COMMITS_MAX && has_failed; n++) {
		const struct volume_entry *volume;
		const struct alloc_entry *alloc;
		struct life life;

		fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
		drain_store(f);
		atomic_store(&disk.commits_left, n);
		life = live(f);
		has_failed = f->server->failed;
		atomic_store(&disk.commits_left, 0);
		restart(f);
		volume = state_volume(&f->server->state, "default", "db");
		alloc = state_alloc(&f->server->state, ALLOC_1);
		if (life.registered && !life.gone)
			assert_non_null(volume);
		if (life.gone)
			assert_null(volume);
		if (life.run)
			assert_non_null(alloc);
		if (life.stopped)
			assert_int_equal(alloc->alloc.desired_status, DESIRED_STOP);
		teardown(state); /* each on a store of its own */
		assert_int_equal(setup(state), 0);
		f = *state;
	}
	assert_true(n > 3); /* the volume, the allocation, its stop, at least */
}

/* As a process that is killed leaves it: closing writes nothing more to the files of a broken store. */
CLUSTER_TEST(a_store_whose_commit_failed_is_left_as_it_is)
{
	cleanup_free char *before = NULL;
	cleanup_free char *after = NULL;
	char path[PATH_MAX], wal[PATH_MAX];
	struct stat st;
	size_t n_before, n_after = 0;
	bool has_log;
	int n_done = 0;

	(void)str_format(path, sizeof(path), "%s/" SERVER_STORE, f->dir);
	(void)str_format(wal, sizeof(wal), "%s-wal", path);
	submit_record(f, "one", &n_done);
	UNTIL(f, n_done == 1);
	assert_int_equal(file_read(path, 64 << 20, &before, &n_before), 0);
	atomic_store(&disk.commits_left, 1);
	submit_record(f, "two", &n_done);
	drain_store(f);
	assert_true(f->server->failed);
	cluster_stop(f);
	has_log = stat(wal, &st) == 0 && st.st_size > 0;
	(void)file_read(path, 64 << 20, &after, &n_after);
	cluster_start(f);
	assert_true(has_log);
	assert_non_null(after);
	assert_int_equal(n_before, n_after);
	assert_memory_equal(before, after, n_before);
}

/* --- backups --- */

static ino_t inode_of(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return st.st_ino;
}

static int place_of(ino_t inode)
{
	for (int i = 0; i < SYNCS_MAX && i < atomic_load(&disk.n_synced); i++)
		if (disk.synced[i] == inode)
			return i;
	return -1;
}

static enum status begin_backup(struct fixture *f, Holdfast__V1__BeginBackupResponse **ret, struct error *err)
{
	Holdfast__V1__BeginBackupRequest request = HOLDFAST__V1__BEGIN_BACKUP_REQUEST__INIT;
	ProtobufCMessage *response = NULL;
	enum status status = call(&f->operator, & holdfast__v1__operator__descriptor, "BeginBackup",
				  &request.base, &response, err);

	*ret = (Holdfast__V1__BeginBackupResponse *)response;
	return status;
}

static int files_in(const char *path)
{
	const struct dirent *entry;
	DIR *dir = NON_NULL(opendir(path));
	int n = 0;

	while ((entry = readdir(dir)))
		n += entry->d_name[0] != '.';
	(void)closedir(dir);
	return n;
}

CLUSTER_TEST(a_backup_is_on_the_disk_before_it_is_announced)
{
	cleanup_pb Holdfast__V1__BeginBackupResponse *begun = NULL;
	char folder[PATH_MAX], path[PATH_MAX];

	atomic_store(&disk.n_synced, 0);
	assert_int_equal(begin_backup(f, &begun, NULL), STATUS_OK);
	(void)str_format(folder, sizeof(folder), "%s/backup", f->dir);
	(void)str_format(path, sizeof(path), "%s/%s.db", folder, begun->id);
	assert_true(place_of(inode_of(path)) >= 0);
	assert_true(place_of(inode_of(folder)) > place_of(inode_of(path)));
}

CLUSTER_TEST(a_backup_that_does_not_get_to_the_disk_is_refused_and_gone)
{
	char folder[PATH_MAX];
	int n = 1;

	(void)str_format(folder, sizeof(folder), "%s/backup", f->dir);
	for (bool has_failed = true; has_failed; n++) {
		Holdfast__V1__BeginBackupResponse *begun = NULL;
		struct error err;
		enum status status;

		atomic_store(&disk.syncs_left, n);
		status = begin_backup(f, &begun, &err);
		has_failed = atomic_exchange(&disk.syncs_left, 0) <= 0;
		assert_int_equal(status == STATUS_OK, !has_failed);
		if (has_failed)
			assert_int_equal(files_in(folder), 0);
		if (begun)
			holdfast__v1__begin_backup_response__free_unpacked(begun, NULL);
	}
	assert_true(n >= 4); /* the file, and its folder */
}

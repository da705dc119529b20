/* SPDX-License-Identifier: Apache-2.0 */
/* A server does not start without a store. Whoever begins a new cluster where there was one does not have its
 * nodes' volumes granted to others. */

#include "asks.h"
#include "cluster.h"
#include "dev.h"
#include "fault.h"
#include "restored.h"
#include "unit.h"

#include "base/exit_code.h"
#include "base/fd.h"
#include "recovery/epoch.h"
#include "recovery/history.h"
#include "recovery/new_cluster.h"
#include "recovery/restore.h"
#include "state/keys.h"
#include "store/mark.h"

#include <fcntl.h>
#include <holdfast/v1/operator.pb-c.h>
#include <inttypes.h>
#include <limits.h>
#include <sqlite3.h>
#include <sys/stat.h>

/* Of restart_with()'s functions, which have no room for it. */
static struct {
	bool keeps_mark;
	struct new_epoch_result result;
} made;

static const char *path_in(const struct fixture *f, const char *name, char ret[static PATH_MAX])
{
	(void)str_format(ret, PATH_MAX, "%s/%s", f->dir, name);
	return ret;
}

static bool is_there(const struct fixture *f, const char *name)
{
	char path[PATH_MAX];
	struct stat st;

	return lstat(path_in(f, name, path), &st) == 0;
}

static void write_file(const struct fixture *f, const char *name, const char *text)
{
	char path[PATH_MAX];

	assert_int_equal(file_write_atomic(path_in(f, name, path), 0600, text, strlen(text)), 0);
}

static void remove_file(const struct fixture *f, const char *name)
{
	char path[PATH_MAX];

	if (unlink(path_in(f, name, path)) < 0)
		assert_int_equal(errno, ENOENT);
}

static void lose_store(struct fixture *f)
{
	remove_file(f, SERVER_STORE "-wal");
	remove_file(f, SERVER_STORE "-shm");
	remove_file(f, SERVER_STORE);
	if (!made.keeps_mark)
		remove_file(f, "holdfast.mark");
}

static void copy_file(const struct fixture *f, const char *from, const char *to)
{
	cleanup_free char *bytes = NULL;
	char path[PATH_MAX];
	size_t n;

	assert_int_equal(file_read(path_in(f, from, path), 64 << 20, &bytes, &n), 0);
	assert_int_equal(file_write_atomic(path_in(f, to, path), 0600, bytes, n), 0);
}

static struct config config_of(const struct fixture *f)
{
	const struct dev_options options = {.dir = f->dir, .cluster = "c1"};
	struct config config;

	assert_int_equal(dev_prepare(&options, &config, NULL), STATUS_OK);
	if (f->mark_file)
		(void)str_copy(config.mark_file, sizeof(config.mark_file), f->mark_file);
	return config;
}

/* As the program does it. */
static enum status try_start(const struct fixture *f, struct error *err)
{
	struct config config = config_of(f);
	struct server *server;

	config.needs_store = true;
	TRY(server_new(&config, &server, err));
	server_free(server);
	return STATUS_OK;
}

static void make_again(struct fixture *f)
{
	struct config config = config_of(f);

	lose_store(f);
	assert_int_equal(new_cluster_make(&config, &made.result, NULL), STATUS_OK);
}

static void be_refused_without_store(struct fixture *f)
{
	struct error err;
	char store[PATH_MAX];

	for (int i = 0; i < 3; i++) {
		made.keeps_mark = i == 0;
		lose_store(f);
		if (i == 2)
			write_file(f, SERVER_STORE "-wal", ""); /* holds nothing */
		assert_int_equal(try_start(f, &err), STATUS_FAILED_PRECONDITION);
		assert_int_equal(exit_code_of_start(&err), EXIT_CODE_SETTINGS);
		assert_non_null(strstr(err.msg, path_in(f, SERVER_STORE, store)));
		assert_non_null(strstr(err.msg, "holdfast-server --restore FILE"));
		assert_non_null(strstr(err.msg, "holdfast-server --new-cluster"));
		assert_non_null(strstr(err.msg, "no node, volume or claim known"));
		assert_false(is_there(f, SERVER_STORE));
	}
}

CLUSTER_TEST(a_server_without_a_store_fails_with_the_next_step)
{
	restart_with(f, be_refused_without_store);
}

/* A mark counts only the machine that was shown it. */
const bool fake_nodes_have_machines = true;

static void connect_showing(struct fake_node *node, const char *id, const Holdfast__V1__Mark *mark)
{
	node->shows = mark;
	fake_node_connect(node, id, BOOT_1, NULL, 0);
}

static void join(struct fixture *f, struct fake_node *node, const char *id, const Holdfast__V1__Mark *mark)
{
	connect_showing(node, id, mark);
	assert_true(node->welcomed);
	report(f, node, node->report_epoch, NULL, NULL, false);
	UNTIL(f, has_reported(f, id));
}

CLUSTER_TEST(a_new_cluster_begins_above_every_earlier_epoch)
{
	const uint64_t before = new_epoch_of_time(clock_realtime_ms());
	const Holdfast__V1__Schema *schema;
	const Holdfast__V1__Epoch *epoch;
	struct claim claim;

	made.keeps_mark = false;
	restart_with(f, make_again);
	epoch = records_get(&f->server->state.records, KEY_EPOCH);
	schema = records_get(&f->server->state.records, KEY_SCHEMA);
	assert_true(made.result.epoch > before);
	assert_int_equal(epoch->number, made.result.epoch); /* the start begins no other */
	assert_true(epoch->new_store);
	assert_false(epoch->lost_history);
	assert_string_equal(schema->store_id, made.result.store_id);
	assert_string_equal(schema->cluster, "c1");
	assert_int_equal(made.result.missing_nodes, 0);
	assert_int_equal(history_nodes(f->server), 0);
	restart(f);
	assert_int_equal(state_epoch(&f->server->state), made.result.epoch);
	join(f, &f->n1, "n1", NULL);
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	assert_int_equal(run_alloc(f, ALLOC_1, "n1", NULL), STATUS_OK);
	assert_int_equal(claim_for(&f->n1, ALLOC_1, &claim, NULL), STATUS_OK);
	assert_int_equal(claim.generation >> 32, made.result.epoch);
}

static void be_refused_beside_a_store(struct fixture *f)
{
	static const char log_alone[] = "not empty";
	struct config config = config_of(f);
	struct new_epoch_result result;
	struct error err;
	char store[PATH_MAX];

	for (int i = 0; i < 2; i++) {
		assert_error(new_cluster_make(&config, &result, &err), STATUS_FAILED_PRECONDITION, err,
			     "there is a store");
		assert_non_null(strstr(err.msg, path_in(f, SERVER_STORE, store)));
		assert_int_equal(try_start(f, NULL), STATUS_OK);
	}
	made.keeps_mark = true;
	lose_store(f);
	write_file(f, SERVER_STORE "-wal", log_alone);
	assert_error(new_cluster_make(&config, &result, &err), STATUS_FAILED_PRECONDITION, err,
		     "there is a store");
	assert_non_null(strstr(err.msg, "holdfast-server --restore FILE"));
	assert_int_equal(try_start(f, NULL), STATUS_DATA_LOSS);
	assert_false(is_there(f, SERVER_STORE));
	remove_file(f, SERVER_STORE "-wal");
}

CLUSTER_TEST(a_new_cluster_beside_a_store_or_its_log_is_refused)
{
	struct config config = config_of(f);
	struct new_epoch_result result;

	assert_int_equal(new_cluster_make(&config, &result, NULL), STATUS_FAILED_PRECONDITION); /* it runs */
	restart_with(f, be_refused_beside_a_store);
}

/* The marks of n1 and n2 in the cluster that is lost. */
struct marks {
	Holdfast__V1__Mark *first, *second;
};

static void release_marks(struct marks *marks)
{
	holdfast__v1__mark__free_unpacked(marks->first, NULL);
	holdfast__v1__mark__free_unpacked(marks->second, NULL);
}

/* n1 has the volume; then the store is lost. */
static void lose_cluster(struct fixture *f, struct alloc *alloc, struct claim *held, struct marks *marks)
{
	take_volume(f);
	*held = claim_of(f, ALLOC_1);
	*alloc = alloc_of(f, ALLOC_1);
	*marks = (struct marks){mark_copy(f->n1.mark), mark_copy(f->n2.mark)};
	restart_with(f, make_again);
	assert_null(state_volume(&f->server->state, "default", "db"));
}

static void expect_waiting(struct fixture *f, uint64_t n_missing)
{
	struct volume db = {.namespace = "default", .id = "db"};
	struct error err;

	assert_int_equal(history_missing_nodes(f->server), n_missing);
	assert_error(epoch_check(f->server, &db, &err), STATUS_UNAVAILABLE, err,
		     "holdfast node purge --unknown");
}

/* n2 is there, nothing is granted to it; n1 comes back and has the volume. */
static void expect_n1_waited_for(struct fixture *f, const struct alloc *alloc, const struct claim *held,
				 const struct marks *marks)
{
	struct error err;
	struct claim claim;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", NULL), STATUS_OK);
	assert_int_equal(claim_for(&f->n2, ALLOC_2, &claim, &err), STATUS_UNAVAILABLE);
	expect_waiting(f, 1);
	restart(f);
	connect_showing(&f->n2, "n2", marks->second);
	assert_true(f->n2.welcomed);
	expect_waiting(f, 1);
	connect_showing(&f->n1, "n1", marks->first);
	assert_true(f->n1.welcomed);
	assert_int_equal(history_missing_nodes(f->server), 0);
	assert_int_equal(claim_for(&f->n2, ALLOC_2, &claim, &err), STATUS_UNAVAILABLE);
	report(f, &f->n1, f->n1.report_epoch, alloc, held, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	assert_int_equal(claim_for(&f->n2, ALLOC_2, &claim, NULL), STATUS_FAILED_PRECONDITION);
}

/* @n_missing 0: no warning of it. */
static void expect_status(struct fixture *f, const char *reason, uint64_t n_missing, bool is_lost)
{
	Holdfast__V1__GetStatusRequest request = HOLDFAST__V1__GET_STATUS_REQUEST__INIT;
	cleanup_pb Holdfast__V1__GetStatusResponse *status = NULL;
	char words[64];

	assert_ok(call(&f->operator, & holdfast__v1__operator__descriptor, "Status", &request.base,
		       (ProtobufCMessage **)(void *)&status, NULL));
	assert_non_null(strstr(status->epoch_reason, reason));
	assert_int_equal(status->n_warnings, n_missing > 0);
	if (n_missing > 0) {
		(void)str_format(words, sizeof(words), "%" PRIu64 " are missing", n_missing);
		assert_non_null(strstr(status->warnings[0], words));
		assert_int_equal(strstr(status->warnings[0], "had lost history") != NULL, is_lost);
	}
	assert_int_equal(metric_of(f, "nodes_missing"), n_missing);
	assert_int_equal(metric_of(f, "nodes_unreported"), f->server->state.n_unreported);
	assert_int_equal(metric_of(f, "history_lost"), is_lost);
}

CLUSTER_TEST(a_new_cluster_waits_for_the_nodes_that_the_mark_counts)
{
	const Holdfast__V1__Schema *schema;
	struct marks marks;
	struct alloc alloc;
	struct claim held;

	made.keeps_mark = true;
	lose_cluster(f, &alloc, &held, &marks);
	assert_int_equal(made.result.missing_nodes, 2);
	expect_waiting(f, 2);
	expect_status(f, "holdfast-server --new-cluster", 2, false);
	schema = records_get(&f->server->state.records, KEY_SCHEMA);
	assert_int_equal(schema->n_former_store_ids, 1);
	assert_string_equal(schema->former_store_ids[0], marks.first->store_id);
	join(f, &f->n2, "n2", marks.second);
	assert_int_equal(state_epoch(&f->server->state), made.result.epoch); /* nobody begins another one */
	expect_n1_waited_for(f, &alloc, &held, &marks);
	release_marks(&marks);
}

CLUSTER_TEST(the_second_mark_counts_as_well)
{
	struct marks marks;
	struct alloc alloc;
	struct claim held;
	char second[PATH_MAX];

	f->mark_file = path_in(f, "elsewhere.mark", second);
	restart(f);
	made.keeps_mark = false;
	lose_cluster(f, &alloc, &held, &marks);
	assert_int_equal(made.result.missing_nodes, 2);
	expect_waiting(f, 2);
	assert_int_equal(purge_unknown(f, NULL), STATUS_OK); /* a person's word */
	expect_status(f, "holdfast-server --new-cluster", 0, false);
	f->mark_file = NULL;
	release_marks(&marks);
}

/* Nothing is left but the ticket key, by which a node proves what it has seen. */
CLUSTER_TEST(a_node_of_the_lost_cluster_has_the_others_waited_for)
{
	struct marks marks;
	struct alloc alloc;
	struct claim held;

	made.keeps_mark = false;
	lose_cluster(f, &alloc, &held, &marks);
	assert_int_equal(made.result.missing_nodes, 0);
	connect_showing(&f->n2, "n2", marks.second);
	assert_false(f->n2.welcomed);
	assert_true(f->server->restarting);
	restart(f);
	assert_true(state_epoch(&f->server->state) > made.result.epoch);
	expect_waiting(f, 2);
	expect_status(f, "node n2 knows this cluster by store", 2, true);
	join(f, &f->n2, "n2", marks.second);
	expect_n1_waited_for(f, &alloc, &held, &marks);
	release_marks(&marks);
}

/* What a store misses already is not forgotten with it. */
CLUSTER_TEST(a_new_cluster_after_a_new_cluster_waits_for_the_same_nodes)
{
	cleanup_pb Holdfast__V1__Mark *last = NULL;
	struct marks marks;
	struct alloc alloc;
	struct claim held;

	made.keeps_mark = true;
	lose_cluster(f, &alloc, &held, &marks);
	join(f, &f->n2, "n2", marks.second);
	last = mark_copy(f->n2.mark);
	assert_int_equal(last->nodes, 2);
	restart_with(f, make_again);
	assert_int_equal(made.result.missing_nodes, 2);
	join(f, &f->n2, "n2", last);
	expect_waiting(f, 1);
	release_marks(&marks);
}

/* In the child. */
static void make_in_child(void *userdata)
{
	const struct fixture *f = userdata;
	struct config config = config_of(f);
	struct new_epoch_result result;

	fault_arm();
	if (new_cluster_make(&config, &result, NULL) != STATUS_OK)
		_exit(1);
	fault_disarm();
}

/* Returns whether there was such a step. */
static bool be_killed_at(struct fixture *f, const struct fault *fault)
{
	struct config config = config_of(f);
	struct fault_end end;
	struct error err;

	made.keeps_mark = true;
	lose_store(f);
	end = fault_run(fault, make_in_child, f);
	if (!is_there(f, SERVER_STORE)) {
		assert_int_equal(try_start(f, &err), STATUS_FAILED_PRECONDITION);
		assert_int_equal(new_cluster_make(&config, &made.result, NULL), STATUS_OK);
	}
	assert_int_equal(new_cluster_make(&config, &made.result, NULL), STATUS_FAILED_PRECONDITION);
	return end.died;
}

static void be_killed_at_each_step(struct fixture *f)
{
	for (int side = FAULT_BEFORE; side < FAULT_SIDE_N; side++) {
		struct fault fault = {.step = 1, .side = (enum fault_side)side};

		while (be_killed_at(f, &fault)) {
			assert_int_equal(try_start(f, NULL), STATUS_OK);
			fault.step++;
		}
		assert_true(fault.step > 3);
	}
}

CLUSTER_TEST(a_new_cluster_that_was_killed_leaves_nothing_or_a_store_that_starts)
{
	connect_node(&f->n1, "n1");
	restart_with(f, be_killed_at_each_step);
	assert_int_equal(history_missing_nodes(f->server), 1); /* whatever was in between */
}

/* --dev makes a store together with its ticket key, and with nothing else. */
static void be_prepared(struct fixture *f)
{
	const struct dev_options options = {.dir = f->dir, .cluster = "c1", .makes_store = true};
	struct config config;
	struct stat was, is;
	char store[PATH_MAX];

	made.keeps_mark = false;
	lose_store(f);
	assert_int_equal(dev_prepare(&options, &config, NULL), STATUS_OK);
	assert_false(is_there(f, SERVER_STORE));
	remove_file(f, "ticket.key");
	assert_int_equal(dev_prepare(&options, &config, NULL), STATUS_OK);
	assert_true(is_there(f, "ticket.key"));
	assert_int_equal(stat(path_in(f, SERVER_STORE, store), &was), 0);
	assert_int_equal(try_start(f, NULL), STATUS_OK);
	remove_file(f, "ticket.key"); /* as when it was killed in between: the store stays */
	assert_int_equal(dev_prepare(&options, &config, NULL), STATUS_OK);
	assert_int_equal(stat(store, &is), 0);
	assert_int_equal(was.st_ino, is.st_ino);
}

CLUSTER_TEST(a_development_server_makes_a_store_with_its_key_alone)
{
	restart_with(f, be_prepared);
}

/* --- nodes that were registered after the copy was made --- */

static struct new_epoch_result restored;

static void restore_copy(struct fixture *f)
{
	struct config config = config_of(f);
	char copy[PATH_MAX];

	assert_int_equal(restore_from(&config, path_in(f, "copy.db", copy), &restored), STATUS_OK);
}

static void lose_store_and_restore_copy(struct fixture *f)
{
	made.keeps_mark = true;
	lose_store(f);
	restore_copy(f);
}

static void make_again_and_restore_copy(struct fixture *f)
{
	made.keeps_mark = true;
	make_again(f);
	restore_copy(f);
}

static void keep_copy(struct fixture *f)
{
	copy_file(f, SERVER_STORE, "copy.db");
}

TEST_FIXTURE(a_restore_waits_for_nodes_that_the_copy_does_not_know, setup, teardown)
{
	static void (*const restores[])(struct fixture * f) = {restore_copy, lose_store_and_restore_copy,
							       make_again_and_restore_copy};

	for (size_t i = 0; i < ARRAY_SIZE(restores); i++) {
		struct fixture *f = *state;
		cleanup_pb Holdfast__V1__Mark *first = NULL;

		connect_node(&f->n2, "n2");
		restart_with(f, keep_copy);
		connect_node(&f->n1, "n1"); /* known to the last store, and to its mark */
		first = mark_copy(f->n1.mark);
		restart_with(f, restores[i]);
		assert_int_equal(restored.nodes, 1);
		assert_int_equal(restored.missing_nodes, 1);
		join(f, &f->n2, "n2", NULL);
		expect_waiting(f, 1);
		restart(f);
		expect_waiting(f, 1);
		connect_showing(&f->n1, "n1", first);
		assert_true(f->n1.welcomed);
		assert_int_equal(history_missing_nodes(f->server), 0);
		(void)teardown(state);
		(void)setup(state);
	}
}

/* Of the same store nothing is counted twice. */
CLUSTER_TEST(a_restore_of_a_copy_that_knows_all_nodes_waits_for_no_other)
{
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	restart_with(f, keep_copy);
	for (int i = 0; i < 2; i++) {
		restart_with(f, i == 0 ? restore_copy : lose_store_and_restore_copy);
		assert_int_equal(restored.missing_nodes, 0);
		assert_int_equal(history_missing_nodes(f->server), 0);
	}
}

/* --- a store that is damaged: what is said, and that it helps --- */

static void in_store(struct fixture *f, const char *sql)
{
	char path[PATH_MAX];
	sqlite3 *db = NULL;

	assert_int_equal(sqlite3_open(path_in(f, SERVER_STORE, path), &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	seal_store(db);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void overwrite(struct fixture *f, off_t at, const char *bytes)
{
	cleanup_close int fd = -EBADF;
	char path[PATH_MAX];

	fd = open(path_in(f, SERVER_STORE, path), O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, strlen(bytes), at), strlen(bytes));
}

static void flip(struct fixture *f)
{
	char path[PATH_MAX];
	cleanup_free char *bytes = NULL;
	const char *id;
	size_t n;

	assert_int_equal(file_read(path_in(f, SERVER_STORE, path), 64 << 20, &bytes, &n), 0);
	id = memmem(bytes, n, "wwn-0x1", strlen("wwn-0x1")); /* in a record of a volume */
	assert_non_null(id);
	overwrite(f, id - bytes, "wwn-0x2");
}

static void cut(struct fixture *f)
{
	char path[PATH_MAX];

	assert_int_equal(truncate(path_in(f, SERVER_STORE, path), 8192), 0);
}

static void empty(struct fixture *f)
{
	char path[PATH_MAX];

	assert_int_equal(truncate(path_in(f, SERVER_STORE, path), 0), 0);
}

static void be_no_database(struct fixture *f)
{
	overwrite(f, 0, "#!/bin/sh, and nothing else");
}

static void lose_file(struct fixture *f)
{
	lose_store(f);
	write_file(f, SERVER_STORE "-wal", "not empty");
}

static void be_of_others(struct fixture *f)
{
	in_store(f, "PRAGMA application_id = 1");
}

static void be_newer(struct fixture *f)
{
	in_store(f, "PRAGMA user_version = 99");
}

static void be_no_version(struct fixture *f)
{
	in_store(f, "PRAGMA user_version = 0");
}

static void have_a_table_more(struct fixture *f)
{
	in_store(f, "CREATE TABLE notes (text)");
}

static void have_a_bad_record(struct fixture *f)
{
	in_store(f, "UPDATE kv SET value = x'ff' WHERE key = 'volume/default/db'");
}

static void have_a_bad_schema(struct fixture *f)
{
	in_store(f, "UPDATE kv SET value = x'ff' WHERE key = '" KEY_SCHEMA "'");
}

static void have_a_newer_schema(struct fixture *f) /* version 99, and nothing else */
{
	in_store(f, "UPDATE kv SET value = x'0863' WHERE key = '" KEY_SCHEMA "'");
}

static void have_a_bad_decision(struct fixture *f)
{
	write_file(f, "epoch.pending", "\377");
}

static void have_a_bad_note(struct fixture *f)
{
	write_file(f, "restore.pending", "half a li");
}

static void damage_and_restore(struct fixture *f)
{
	static const struct {
		const char *name;
		void (*damage)(struct fixture *f);
		enum status expected;
	} cases[] = {
		{"a bit of a record", flip, STATUS_DATA_LOSS},
		{"cut", cut, STATUS_DATA_LOSS},
		{"empty", empty, STATUS_DATA_LOSS},
		{"no database", be_no_database, STATUS_DATA_LOSS},
		{"gone, with its log", lose_store, STATUS_FAILED_PRECONDITION},
		{"gone, its log not", lose_file, STATUS_DATA_LOSS},
		{"of another program", be_of_others, STATUS_DATA_LOSS},
		{"of a newer version", be_newer, STATUS_DATA_LOSS},
		{"of no version", be_no_version, STATUS_DATA_LOSS},
		{"a foreign table", have_a_table_more, STATUS_DATA_LOSS},
		{"a record that is none", have_a_bad_record, STATUS_DATA_LOSS},
		{"no schema", have_a_bad_schema, STATUS_DATA_LOSS},
		{"a newer schema", have_a_newer_schema, STATUS_FAILED_PRECONDITION},
		{"a decision that is none", have_a_bad_decision, STATUS_DATA_LOSS},
		{"a note that is none", have_a_bad_note, STATUS_DATA_LOSS},
	};
	static const char *const wrong[] = {"remove", "move ", "delete"};
	struct config config = config_of(f);
	struct new_epoch_result result;
	struct error err;
	char copy[PATH_MAX];

	made.keeps_mark = true;
	copy_file(f, SERVER_STORE, "copy.db");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		print_message("%s\n", cases[i].name);
		cases[i].damage(f);
		assert_error(try_start(f, &err), cases[i].expected, err, "holdfast-server --restore FILE");
		for (size_t w = 0; w < ARRAY_SIZE(wrong); w++)
			assert_null(strstr(err.msg, wrong[w]));
		assert_int_equal(restore_from(&config, path_in(f, "copy.db", copy), &result), STATUS_OK);
		assert_int_equal(try_start(f, NULL), STATUS_OK);
	}
}

CLUSTER_TEST(a_damaged_store_names_the_restore_and_the_restore_helps)
{
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	restart_with(f, damage_and_restore);
}

/* A start that took an unreadable record for a missing one would replace it. */
static void make_each_record_unreadable(struct fixture *f)
{
	static const char *const keys[] = {KEY_EPOCH,	   KEY_SCHEMA,	 KEY_GENERATION_FLOOR,
					   KEY_NODE_COUNT, KEY_DECISION, KEY_TICKET_KEY};
	struct config config = config_of(f);
	struct new_epoch_result result;
	struct error err = {.status = STATUS_OK};
	char copy[PATH_MAX];
	char sql[128];

	copy_file(f, SERVER_STORE, "copy.db");
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		(void)str_format(sql, sizeof(sql),
				 "INSERT OR REPLACE INTO kv VALUES ('%s', x'ff', 1, 1, 0, NULL)", keys[i]);
		in_store(f, sql);
		remove_file(f, "holdfast.mark"); /* so an epoch must begin */
		for (int start = 0; start < 2; start++)
			assert_error(try_start(f, &err), STATUS_DATA_LOSS, err, keys[i]);
		assert_int_equal(restore_from(&config, path_in(f, "copy.db", copy), &result), STATUS_OK);
		assert_true(str_eq(keys[i], KEY_EPOCH) ? result.epoch > 1000000 : result.epoch > 0);
		assert_int_equal(try_start(f, NULL), STATUS_OK);
	}
}

CLUSTER_TEST(an_unreadable_record_begins_no_epoch_and_is_kept)
{
	restart_with(f, make_each_record_unreadable);
}

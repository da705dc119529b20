/* SPDX-License-Identifier: Apache-2.0 */
/* bench_store DIR: durable transactions per second of the store against plain sqlite on the same disk.
 *
 * Plain sqlite is one row and one commit at a time with the store's pragmas, from one loop. The store writes
 * the same row and its change record. Rates depend on the disk and on who else uses it; the ratios, taken
 * round by round in one run, are what counts. */

#include "base/clock.h"
#include "base/str.h"
#include "store/kv.h"

#include <inttypes.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-event.h>

enum {
	ROUNDS = 7,
	KEYS = 1000,
	VALUE_SIZE = 300, /* a claim */
	OUTSTANDING_MAX = 64,
};

static const uint64_t leg_us = 500 * USEC_PER_MSEC;

enum leg { LEG_SQLITE, LEG_KV_1, LEG_KV_64, LEG_N };

static const char *const leg_names[LEG_N] = {
	[LEG_SQLITE] = "plain sqlite, one row a commit",
	[LEG_KV_1] = "kv_submit, 1 outstanding",
	[LEG_KV_64] = "kv_submit, 64 outstanding",
};

struct bench {
	sqlite3 *db;
	sqlite3_stmt *put;
	sd_event *event;
	struct kv *kv;
	char value[VALUE_SIZE];
	uint64_t n_values;
	uint64_t n_submitted;
	uint64_t n_durable;
};

static _Noreturn void die(const char *what, const char *why)
{
	(void)fprintf(stderr, "bench_store: %s: %s\n", what, why);
	exit(1);
}

static const char *key_of(uint64_t n, char key[static 32])
{
	/* scattered, as ids are */
	(void)str_format(key, 32, "claim/%016" PRIx64, n % KEYS * UINT64_C(0x9e3779b97f4a7c15));
	return key;
}

/* Every write differs from the one before: sqlite leaves a page alone when its bytes stay the same. */
static const char *value_of(struct bench *b)
{
	b->n_values++;
	memcpy(b->value, &b->n_values, sizeof(b->n_values));
	return b->value;
}

/* --- plain sqlite --- */

static void open_sqlite(struct bench *b, const char *dir)
{
	static const char setup[] = "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL;PRAGMA "
				    "synchronous=FULL; PRAGMA wal_autocheckpoint=4000;CREATE TABLE t(key "
				    "TEXT NOT NULL PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;";
	static const char put[] = "INSERT INTO t VALUES (?1, ?2) ON CONFLICT(key) DO UPDATE SET value = ?2";
	char path[PATH_MAX];

	if (str_format(path, sizeof(path), "%s/plain.db", dir) < 0)
		die(dir, "path too long");
	if (sqlite3_open(path, &b->db) != SQLITE_OK ||
	    sqlite3_exec(b->db, setup, NULL, NULL, NULL) != SQLITE_OK ||
	    sqlite3_prepare_v2(b->db, put, -1, &b->put, NULL) != SQLITE_OK)
		die(path, sqlite3_errmsg(b->db));
}

/* Outside of a transaction every statement is one, with its own commit. */
static uint64_t run_sqlite(struct bench *b, uint64_t deadline_us)
{
	uint64_t n = 0;

	while (clock_monotonic_us() < deadline_us) {
		char key[32];

		(void)sqlite3_bind_text(b->put, 1, key_of(n, key), -1, SQLITE_STATIC);
		(void)sqlite3_bind_blob(b->put, 2, value_of(b), VALUE_SIZE, SQLITE_STATIC);
		if (sqlite3_step(b->put) != SQLITE_DONE)
			die("commit", sqlite3_errmsg(b->db));
		(void)sqlite3_reset(b->put);
		n++;
	}
	return n;
}

/* --- the store --- */

static void open_store(struct bench *b, const char *dir)
{
	char path[PATH_MAX];
	struct error err;

	if (str_format(path, sizeof(path), "%s/store.db", dir) < 0)
		die(dir, "path too long");
	if (sd_event_new(&b->event) < 0)
		die("event loop", "cannot be made");
	if (kv_open_sqlite(b->event, path, &b->kv, &err) != STATUS_OK)
		die("open", err.msg);
}

static void count_durable(uint64_t revision, const struct error *err, void *userdata)
{
	struct bench *b = userdata;

	if (err)
		die("commit", err->msg);
	b->n_durable++;
}

static void submit(struct bench *b)
{
	char key[32];
	struct kv_op op = {.key = key_of(b->n_submitted, key), .value = value_of(b), .len = VALUE_SIZE};
	struct error err;

	if (kv_submit(b->kv, &(struct kv_txn){.ops = &op, .n_ops = 1}, count_durable, b, &err) != STATUS_OK)
		die("submit", err.msg);
	b->n_submitted++;
}

static uint64_t run_store(struct bench *b, uint64_t outstanding, uint64_t deadline_us)
{
	uint64_t before = b->n_durable;
	uint64_t n;

	while (clock_monotonic_us() < deadline_us) {
		while (b->n_submitted - b->n_durable < outstanding)
			submit(b);
		(void)sd_event_run(b->event, UINT64_MAX);
	}
	n = b->n_durable - before;
	while (b->n_durable < b->n_submitted)
		(void)sd_event_run(b->event, UINT64_MAX);
	return n;
}

/* --- rounds --- */

static double run_leg(struct bench *b, enum leg leg)
{
	uint64_t start_us = clock_monotonic_us();
	uint64_t deadline_us = start_us + leg_us;
	uint64_t n = 0;
	uint64_t end_us;

	switch (leg) {
	case LEG_SQLITE:
		n = run_sqlite(b, deadline_us);
		break;
	case LEG_KV_1:
		n = run_store(b, 1, deadline_us);
		break;
	case LEG_KV_64:
		n = run_store(b, OUTSTANDING_MAX, deadline_us);
		break;
	case LEG_N:
		break;
	}
	end_us = clock_monotonic_us();
	return (double)n * (double)USEC_PER_SEC / (double)(end_us - start_us);
}

static int compare(const void *a, const void *b)
{
	const double *x = a;
	const double *y = b;

	return (*x > *y) - (*x < *y);
}

struct spread {
	double low;
	double median;
	double high;
};

static struct spread spread_of(double values[static ROUNDS])
{
	qsort(values, ROUNDS, sizeof(values[0]), compare);
	return (struct spread){values[0], values[ROUNDS / 2], values[ROUNDS - 1]};
}

static void report(double rates[LEG_N][ROUNDS])
{
	for (int leg = LEG_KV_1; leg < LEG_N; leg++) {
		double ratios[ROUNDS];
		struct spread ratio;

		for (int round = 0; round < ROUNDS; round++)
			ratios[round] = rates[leg][round] / rates[LEG_SQLITE][round];
		ratio = spread_of(ratios);
		(void)printf("ratio  %-32s / plain sqlite  %6.2f  (%.2f to %.2f)\n", leg_names[leg],
			     ratio.median, ratio.low, ratio.high);
	}
	for (int leg = 0; leg < LEG_N; leg++) {
		struct spread rate = spread_of(rates[leg]);

		(void)printf("info   %-32s %8.0f durable/s  (%.0f to %.0f)\n", leg_names[leg], rate.median,
			     rate.low, rate.high);
	}
}

int main(int argc, char **argv)
{
	static double rates[LEG_N][ROUNDS];
	struct bench b = {0};
	struct kv_stats stats;

	if (argc != 2) {
		(void)fprintf(stderr,
			      "usage: bench_store DIR   (an empty directory on the disk to measure)\n");
		return 2;
	}
	memset(b.value, 'v', sizeof(b.value));
	open_sqlite(&b, argv[1]);
	open_store(&b, argv[1]);
	for (int round = 0; round < ROUNDS; round++)
		for (int leg = 0; leg < LEG_N; leg++)
			rates[leg][round] = run_leg(&b, (enum leg)leg);
	report(rates);
	stats = kv_stats(b.kv);
	(void)printf("info   group commit: %" PRIu64 " transactions in %" PRIu64
		     " commits, largest batch %" PRIu64 "\n",
		     stats.transactions, stats.commits, stats.largest_batch);
	kv_close(b.kv);
	sd_event_unref(b.event);
	(void)sqlite3_finalize(b.put);
	(void)sqlite3_close(b.db);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A store with its event loop. Each kind of store has a fixture_KIND.c; revisions are counted from the one
 * that the new store had. */

#include "temp_dir.h"
#include "unit.h"

#include "store/kv.h"

enum { PATIENCE_US = 20 * 1000000 }; /* for one turn of a loop that has something to do */

struct fixture {
	char dir[TEMP_DIR_SIZE], path[TEMP_PATH_SIZE];
	sd_event *event;
	struct kv *kv; /* NULL while closed */
};

/* The answer to one submission. */
struct answer {
	int count; /* how often the done function ran */
	uint64_t revision;
	struct error err; /* STATUS_OK when there was none */
};

/** cmocka fixtures: an open store, and a directory without one. */
int fixture_setup(void **state);
int fixture_setup_closed(void **state);
int fixture_teardown(void **state);

/* --- fixture_KIND.c --- */

/** Are submissions that are made together one transaction, with one revision? */
extern const bool fixture_shares_revisions;

/** Before the first fixture_open(). */
void fixture_prepare(struct fixture *f);
void fixture_open(struct fixture *f);
void fixture_close(struct fixture *f);

/* --- fixture.c --- */

/** The store's revision when it was new. */
extern uint64_t fixture_base;

/** kv_revision(), counted from there. */
uint64_t fixture_revision(const struct fixture *f);

/** Give a forked child an event loop of its own; the store must be closed. */
void fixture_after_fork(struct fixture *f);

/** A kv_done_fn whose userdata is a struct answer. */
void answer_fill(uint64_t revision, const struct error *err, void *userdata);

/** Run the loop until @answer is there. */
void await(struct fixture *f, const struct answer *answer);

/** Submit and wait. */
struct answer commit(struct fixture *f, const struct kv_txn *txn);

/** Put or (NULL) delete one key and wait; fails the test unless it succeeds. Returns the revision. */
uint64_t put(struct fixture *f, const char *key, const char *value);

/** Put without waiting; @answer may be NULL. */
void put_async(struct fixture *f, const char *key, const char *value, struct answer *answer);

/** Everything under @prefix, as "key=value@create,mod ". */
const char *range_text(struct fixture *f, const char *prefix);

#define STORE_TEST(name) TEST_ON(name, struct fixture, f, fixture_setup, fixture_teardown)

#define CLOSED_STORE_TEST(name) TEST_ON(name, struct fixture, f, fixture_setup_closed, fixture_teardown)

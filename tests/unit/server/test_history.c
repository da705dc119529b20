/* SPDX-License-Identifier: Apache-2.0 */
/* A server whose store went back finds that out from the marks that its nodes show, whether those who hold a
 * volume are there or not. */

#include "asks.h"
#include "restored.h"
#include "unit.h"

#include "base/fd.h"
#include "node/lookup.h"
#include "node/session.h"
#include "recovery/epoch.h"
#include "recovery/history.h"
#include "recovery/new_epoch.h"
#include "state/keys.h"

#include <glob.h>
#include <limits.h>

/* A mark counts only the machine that was shown it. */
const bool fake_nodes_have_machines = true;

static void connect_showing(struct fake_node *node, const char *id, const Holdfast__V1__Mark *mark)
{
	node->shows = mark;
	fake_node_connect(node, id, BOOT_1, NULL, 0);
}

/* n1 has the volume, by a grant of which the store knows nothing any more; both nodes were there before.
 * @ret_mark as n2 was shown it then; owned by the caller */
static void lose_a_grant(struct fixture *f, struct alloc *alloc, struct claim *held,
			 Holdfast__V1__Mark **ret_mark)
{
	struct backup backup = {0};

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	take_backup(f, &backup);
	connect_node(&f->n1, "n1");
	assert_int_equal(run_alloc(f, ALLOC_1, "n1", NULL), STATUS_OK);
	UNTIL(f, f->n1.runs == 1);
	assert_int_equal(claim_for(&f->n1, ALLOC_1, held, NULL), STATUS_OK);
	for (int i = 0; i < 8; i++) /* further than what starts and hellos will write */
		assert_int_equal(set_eligible(f, "n1", i % 2 == 1, NULL), STATUS_OK);
	connect_node(&f->n2, "n2");
	*alloc = alloc_of(f, ALLOC_1);
	*ret_mark = mark_copy(f->n2.mark);
	go_back(f, &backup);
	assert_null(state_alloc(&f->server->state, ALLOC_1));
	assert_true((*ret_mark)->index > kv_revision(f->server->kv));
}

static const Holdfast__V1__Epoch *epoch_of(struct fixture *f)
{
	return records_get(&f->server->state.records, KEY_EPOCH);
}

/* @node has been refused, the server has ended its loop, and starts anew. */
static void starts_anew(struct fixture *f, const struct fake_node *node)
{
	struct volume db = {.namespace = "default", .id = "db"};

	assert_false(node->welcomed);
	assert_true(f->server->restarting);
	assert_int_equal(epoch_check(f->server, &db, NULL), STATUS_UNAVAILABLE); /* not even now */
	restart(f);
}

CLUSTER_TEST(a_store_behind_a_proven_mark_begins_an_epoch_and_waits_for_an_absent_holder)
{
	cleanup_pb Holdfast__V1__Mark *mark = NULL;
	struct alloc alloc;
	struct claim held, claim;
	struct error err;

	lose_a_grant(f, &alloc, &held, &mark);
	connect_showing(&f->n2, "n2", mark);
	starts_anew(f, &f->n2);
	assert_int_equal(state_epoch(&f->server->state), 1);
	assert_true(epoch_of(f)->lost_history);
	assert_non_null(strstr(epoch_of(f)->restored_from, "node n2 has seen index"));
	assert_true(kv_revision(f->server->kv) > mark->index);
	connect_showing(&f->n2, "n2", mark);
	assert_true(f->n2.welcomed);
	assert_int_equal(f->n2.mark->epoch, 1);
	report(f, &f->n2, 1, NULL, NULL, false);
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", NULL), STATUS_OK);
	assert_error(claim_for(&f->n2, ALLOC_2, &claim, &err), STATUS_UNAVAILABLE, err, "node n1");
	connect_node(&f->n1, "n1");
	report(f, &f->n1, 1, &alloc, &held, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	assert_int_equal(claim_for(&f->n2, ALLOC_2, &claim, NULL), STATUS_FAILED_PRECONDITION);
}

/* As an agent does that shows no mark, and names what it holds only after its hello. */
static void connect_to_report(struct fixture *f, const struct claim *held)
{
	connect_node(&f->n1, "n1");
	fake_node_send_mounted(&f->n1, held);
	UNTIL(f, f->n1.closed);
	connect_node(&f->n1, "n1");
	UNTIL(f, f->n1.reports_wanted == 1);
}

TEST_ON(a_ticket_above_the_stores_generation_begins_an_epoch_once, struct fixture, f, setup, teardown)
{
	const struct volume other = {.namespace = "default", .id = "other"};
	cleanup_pb Holdfast__V1__Mark *mark = NULL;
	struct alloc alloc;
	struct claim held;
	struct error err;

	lose_a_grant(f, &alloc, &held, &mark);
	connect_to_report(f, &held);
	report(f, &f->n1, 0, &alloc, &held, false);
	UNTIL(f, f->server->restarting);
	restart(f);
	assert_int_equal(state_epoch(&f->server->state), 1);
	assert_true(epoch_of(f)->lost_history);
	assert_non_null(strstr(epoch_of(f)->restored_from, "generation 1 of volume default/db"));
	connect_node(&f->n1, "n1");
	report(f, &f->n1, 1, &alloc, &held, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_false(f->server->restarting);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	/* whatever else was forgotten is waited for */
	assert_error(epoch_check(f->server, &other, &err), STATUS_UNAVAILABLE, err, "node n2");
}

/* The store was put back to one of an earlier epoch, and its mark was lost. */
TEST_ON(a_ticket_of_a_later_epoch_begins_one_above_it, struct fixture, f, setup, teardown)
{
	cleanup_pb Holdfast__V1__Mark *mark = NULL;
	struct alloc alloc;
	struct claim held;

	lose_a_grant(f, &alloc, &held, &mark);
	held.generation += UINT64_C(3) << 32;
	connect_to_report(f, &held);
	report(f, &f->n1, 0, &alloc, &held, false);
	UNTIL(f, f->server->restarting);
	restart(f);
	assert_int_equal(state_epoch(&f->server->state), 4);
}

enum old { AS_FAR, BEYOND_WITHOUT_PROOF, OLDS };

TEST_FIXTURE(a_known_or_missing_ticket_begins_no_epoch, setup, teardown)
{
	for (enum old old = 0; old < OLDS; old++) {
		struct fixture *f = *state;
		struct claim other;

		take_volume(f);
		other = claim_of(f, ALLOC_1);
		restart(f);
		(void)str_copy(other.id, sizeof(other.id), ALLOC_3);
		(void)str_copy(other.allocation_id, sizeof(other.allocation_id), ALLOC_2);
		other.generation += old == BEYOND_WITHOUT_PROOF;
		connect_to_report(f, &other);
		if (old == AS_FAR)
			report(f, &f->n1, 0, NULL, &other, false);
		else
			report_with(&f->n1, 0, NULL, &other, NULL, false);
		UNTIL(f, has_reported(f, "n1"));
		assert_false(f->server->restarting);
		assert_int_equal(state_epoch(&f->server->state), 0);
		(void)teardown(state);
		(void)setup(state);
	}
}

enum lie { OTHER_INDEX, OTHER_EPOCH, OTHER_STORE, OTHER_NODES, NO_PROOF, LIES };

/* Whoever invents a mark has to report, and keeps nobody else from anything. */
TEST_FIXTURE(an_invented_mark_begins_nothing_and_is_on_record, setup, teardown)
{
	for (enum lie lie = 0; lie < LIES; lie++) {
		struct fixture *f = *state;
		Holdfast__V1__Mark mark;
		char *store_id;

		connect_node(&f->n1, "n1");
		mark = *f->n1.mark;
		store_id = mark.store_id;
		if (lie == OTHER_STORE)
			mark.store_id = ALLOC_3;
		if (lie == OTHER_EPOCH)
			mark.epoch += 5;
		else
			mark.index += 1000;
		if (lie == OTHER_NODES)
			mark.nodes += 5;
		if (lie == NO_PROOF)
			mark.proof.len = 0;
		connect_showing(&f->n2, "n2", &mark);
		assert_true(f->n2.welcomed);
		assert_string_equal(f->n2.mark->store_id, store_id);
		settle(f);
		assert_false(f->server->restarting);
		assert_int_equal(f->n2.reports_wanted, 1);
		assert_false(has_reported(f, "n2"));
		assert_true(has_reported(f, "n1"));
		assert_int_equal(count_records(f, "Nodes.Doubt", ""), 1);
		report(f, &f->n2, 0, NULL, NULL, false);
		UNTIL(f, has_reported(f, "n2"));
		assert_int_equal(state_epoch(&f->server->state), 0);
		(void)teardown(state);
		(void)setup(state);
	}
}

static char *text_of_length(size_t n)
{
	static char text[NODE_ID_MAX + NODE_MACHINE_MAX];

	assert_true(n < sizeof(text));
	memset(text, 'a', n);
	text[n] = '\0';
	return text;
}

CLUSTER_TEST(an_invalid_mark_ends_the_session)
{
	Holdfast__V1__Mark mark = V1(mark, .store_id = "../x");

	connect_showing(&f->n1, "n1", &mark);
	assert_int_equal(f->n1.closed_status, STATUS_INVALID_ARGUMENT);
	mark.store_id = ALLOC_3;
	mark.epoch = EPOCH_MAX;
	connect_showing(&f->n1, "n1", &mark);
	assert_int_equal(f->n1.closed_status, STATUS_INVALID_ARGUMENT);
	mark.epoch = 0;
	mark.node = text_of_length(NODE_ID_MAX + 1);
	connect_showing(&f->n1, "n1", &mark);
	assert_false(f->n1.welcomed);
	mark.node = "n1";
	mark.machine = text_of_length(NODE_MACHINE_MAX + 1);
	connect_showing(&f->n1, "n1", &mark);
	assert_false(f->n1.welcomed);
	mark.machine = text_of_length(NODE_MACHINE_MAX);
	connect_showing(&f->n1, "n1", &mark);
	assert_true(f->n1.welcomed);
	assert_false(f->server->restarting);
}

CLUSTER_TEST(the_mark_of_a_grant_is_not_before_its_claim)
{
	cleanup_pb Holdfast__V1__ClaimVolumeResponse *response = NULL;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	connect_node(&f->n1, "n1");
	assert_int_equal(run_alloc(f, ALLOC_1, "n1", NULL), STATUS_OK);
	UNTIL(f, f->n1.runs == 1);
	assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_1, &response, NULL), STATUS_OK);
	assert_non_null(response->mark);
	assert_true(response->mark->index >= claim_of(f, ALLOC_1).modify_index);
	assert_true(response->mark->index > f->n1.mark->index);
	connect_showing(&f->n1, "n1", response->mark); /* as far as the store is: nothing to find */
	assert_true(f->n1.welcomed);
	settle(f);
	assert_int_equal(f->n1.reports_wanted, 0);
}

CLUSTER_TEST(marks_come_with_heartbeats_and_rarely)
{
	struct session *session;

	connect_node(&f->n1, "n1");
	session = state_node(&f->server->state, "n1")->session;
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	fake_node_send_heartbeat(&f->n1);
	settle(f);
	assert_int_equal(f->n1.marks, 0); /* one has just come */
	session->mark_us = clock_monotonic_us() - HISTORY_MARK_INTERVAL_MS * USEC_PER_MSEC;
	fake_node_send_heartbeat(&f->n1);
	UNTIL(f, f->n1.marks == 1);
	session->mark_us = 0;
	fake_node_send_heartbeat(&f->n1);
	settle(f);
	assert_int_equal(f->n1.marks, 1); /* nothing has happened */
}

static void remove_store(struct fixture *f)
{
	char pattern[PATH_MAX];
	glob_t found;

	(void)str_format(pattern, sizeof(pattern), "%s/holdfast.[dm]*", f->dir);
	assert_int_equal(glob(pattern, 0, NULL, &found), 0);
	for (size_t i = 0; i < found.gl_pathc; i++)
		assert_int_equal(unlink(found.gl_pathv[i]), 0);
	globfree(&found);
}

static void revoke_long_ago(struct fixture *f, const char *identity)
{
	Holdfast__V1__Revocation revocation =
		V1(revocation, .identity = TEXT(identity), .reason = TEXT(""), .who = TEXT(""),
		   .revoked_at_ms = 1, .ends_at_ms = INT64_MAX);
	cleanup(change_release) struct change change = CHANGE_INIT;
	char key[OBJECT_KEY_SIZE];

	(void)str_format(key, sizeof(key), PREFIX_REVOCATION "id/%s", identity);
	change_put_record(&change, key, &revocation.base);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
}

/* The nodes of a store that is gone are not known by name: nothing is granted before all of them are back. */
TEST_FIXTURE(another_store_waits_for_the_nodes_of_the_one_that_nodes_know, setup, teardown)
{
	for (int by_word = 0; by_word < 2; by_word++) {
		struct fixture *f = *state;
		Holdfast__V1__Mark *first, *second;
		struct volume other = {.namespace = "default", .id = "other"};
		struct claim held;
		struct alloc alloc;
		struct error err;

		take_volume(f);
		held = claim_of(f, ALLOC_1);
		alloc = alloc_of(f, ALLOC_1);
		first = mark_copy(f->n1.mark);
		second = mark_copy(f->n2.mark);
		assert_int_equal(second->nodes, 2);
		restart_with(f, remove_store);
		while (kv_revision(f->server->kv) <=
		       first->index) { /* its indexes say nothing about this store */
			revoke_long_ago(f, "node/other");
			run_idle(f->event);
		}
		connect_showing(&f->n2, "n2", second);
		starts_anew(f, &f->n2);
		connect_showing(&f->n2, "n2", second);
		assert_true(f->n2.welcomed);
		report(f, &f->n2, f->n2.report_epoch, NULL, NULL, false);
		UNTIL(f, has_reported(f, "n2"));
		assert_int_equal(history_missing_nodes(f->server), 1);
		assert_error(epoch_check(f->server, &other, &err), STATUS_UNAVAILABLE, err,
			     "1 node that was registered");
		restart(f);
		assert_int_equal(history_missing_nodes(f->server), 1);
		if (by_word) {
			assert_int_equal(purge_unknown(f, &err), STATUS_OK);
			assert_int_equal(purge_unknown(f, &err), STATUS_NOT_FOUND);
		} else {
			connect_showing(&f->n1, "n1", first);
			assert_true(f->n1.welcomed); /* that store's nodes are taken over: no other epoch */
			assert_int_equal(history_missing_nodes(f->server), 0);
			assert_int_equal(epoch_check(f->server, &other, &err), STATUS_UNAVAILABLE);
			report(f, &f->n1, f->n1.report_epoch, &alloc, &held, false);
			UNTIL(f, has_reported(f, "n1"));
			assert_true(claim_of(f, ALLOC_1).adopted);
		}
		assert_int_equal(epoch_check(f->server, &other, &err), STATUS_OK);
		holdfast__v1__mark__free_unpacked(first, NULL);
		holdfast__v1__mark__free_unpacked(second, NULL);
		(void)teardown(state);
		(void)setup(state);
	}
}

/* Closed as it is, all of it is in one file. */
static void copy_file(struct fixture *f, const char *from, const char *to)
{
	cleanup_free char *bytes = NULL;
	char path[PATH_MAX];
	size_t n;

	(void)str_format(path, sizeof(path), "%s/%s", f->dir, from);
	assert_int_equal(file_read(path, 64 << 20, &bytes, &n), 0);
	(void)str_format(path, sizeof(path), "%s/%s", f->dir, to);
	assert_int_equal(file_write_atomic(path, 0600, bytes, n), 0);
}

static void keep_early(struct fixture *f)
{
	copy_file(f, SERVER_STORE, "early.db");
}

static void copy_back(struct fixture *f)
{
	char path[PATH_MAX];

	copy_file(f, "early.db", SERVER_STORE);
	(void)str_format(path, sizeof(path), "%s/holdfast.mark", f->dir);
	assert_int_equal(unlink(path), 0);
}

/* The epoch begins at the start, for want of the file beside the store, which knew how many nodes there were.
 * A new one does not stand for one of them. */
CLUSTER_TEST(a_store_put_back_to_before_its_nodes_waits_for_those_of_whom_a_mark_speaks)
{
	struct volume other = {.namespace = "default", .id = "other"};
	cleanup_pb Holdfast__V1__Mark *second = NULL;
	struct error err;

	restart_with(f, keep_early);
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	connect_node(&f->n2, "n2");
	second = mark_copy(f->n2.mark);
	assert_int_equal(second->nodes, 2);
	restart_with(f, copy_back);
	assert_int_equal(epoch_of(f)->number, 1);
	connect_showing(&f->n1, "n1", NULL);
	assert_int_equal(history_missing_nodes(f->server), 0);
	connect_showing(&f->n2, "n2", second);
	assert_true(f->n2.welcomed);
	assert_int_equal(history_missing_nodes(f->server), 1);
	assert_int_equal(epoch_check(f->server, &other, &err), STATUS_UNAVAILABLE);
	assert_int_equal(f->n2.mark->nodes, 3);
	connect_showing(&f->n2, "n2", second);
	assert_int_equal(history_missing_nodes(f->server), 1);
	assert_int_equal(purge_unknown(f, &err), STATUS_OK);
	connect_showing(&f->n2, "n2", second); /* his word lasts */
	assert_int_equal(history_missing_nodes(f->server), 0);
}

/* A node that is new does not stand for one that is missing. */
CLUSTER_TEST(a_new_node_is_not_among_the_missing_ones)
{
	cleanup_pb Holdfast__V1__Mark *mark = NULL;

	connect_node(&f->n1, "n1");
	connect_node(&f->n1, "n1");
	mark = mark_copy(f->n1.mark);
	restart_with(f, remove_store);
	connect_showing(&f->n1, "n1", mark);
	starts_anew(f, &f->n1);
	connect_showing(&f->n2, "n2", NULL);
	assert_true(f->n2.welcomed);
	assert_int_equal(history_missing_nodes(f->server), 1);
	connect_showing(&f->n1, "n1", mark);
	assert_int_equal(history_missing_nodes(f->server), 0);
}

/* Whose mark a node shows that was not there: n2 was registered in the lost time, and is missing. */
enum shown { FROM_BEFORE_ITS_PURGE, OF_ANOTHER_NODE, RELABELLED, OWN_AND_REVOKED, OWN, SHOWN };

TEST_FIXTURE(a_node_is_counted_as_missing_only_by_its_own_mark_of_the_lost_time, setup, teardown)
{
	for (enum shown shown = 0; shown < SHOWN; shown++) {
		struct fixture *f = *state;
		cleanup_pb Holdfast__V1__Mark *first = NULL, *second = NULL;
		Holdfast__V1__Mark relabelled;
		struct backup backup = {0};

		connect_node(&f->n1, "n1");
		first = mark_copy(f->n1.mark);
		lose(f, &f->n1);
		assert_int_equal(purge(f, "n1", NULL), STATUS_OK);
		take_backup(f, &backup);
		connect_node(&f->n2, "n2");
		for (int i = 0; i < 16; i++) /* further than what starts and hellos will write */
			assert_int_equal(set_eligible(f, "n2", i % 2 == 1, NULL), STATUS_OK);
		connect_node(&f->n2, "n2");
		second = mark_copy(f->n2.mark);
		assert_string_equal(second->node, "n2");
		relabelled = *second;
		relabelled.node = TEXT("n1");
		go_back(f, &backup);
		connect_showing(&f->n2, "n2", second);
		starts_anew(f, &f->n2);
		assert_int_equal(history_missing_nodes(f->server), 1);
		if (shown == OWN_AND_REVOKED) /* it has a newer certificate */
			revoke_long_ago(f, "node/n2");
		if (shown >= OWN_AND_REVOKED)
			connect_showing(&f->n2, "n2", second);
		else
			connect_showing(&f->n1, "n1",
					shown == FROM_BEFORE_ITS_PURGE ? first
					: shown == OF_ANOTHER_NODE     ? second
								       : &relabelled);
		assert_true(shown >= OWN_AND_REVOKED ? f->n2.welcomed : f->n1.welcomed);
		assert_int_equal(history_missing_nodes(f->server), shown < OWN_AND_REVOKED);
		(void)teardown(state);
		(void)setup(state);
	}
}

/* n1 is in the backup, n2 and n3 are new since, and the store went back. */
struct forgotten {
	struct fixture *f;
	Holdfast__V1__Mark *first, *second, *third; /* of the lost time */
};

/* @ret as it is shown it; owned by the caller; may be NULL. */
static void visit_as_n3(struct fixture *f, const Holdfast__V1__Mark *mark, Holdfast__V1__Mark **ret)
{
	struct fake_node n3 = {0};

	fake_node_init(&n3, f->event, f->dir, "node-n3", f->port);
	connect_showing(&n3, "n3", mark);
	assert_true(n3.welcomed);
	if (ret)
		*ret = mark_copy(n3.mark);
	lose(f, &n3);
	fake_node_release(&n3);
}

UNIT_SETUP(forget_two, struct forgotten, w)
{
	struct backup backup = {0};
	struct fixture *f;
	void *fixture = NULL;

	assert_int_equal(setup_three(&fixture), 0);
	w->f = f = fixture;
	connect_node(&f->n1, "n1");
	take_backup(f, &backup);
	connect_node(&f->n2, "n2");
	visit_as_n3(f, NULL, NULL);
	for (int i = 0; i < 16; i++) /* further than what starts and hellos will write */
		assert_int_equal(set_eligible(f, "n2", i % 2 == 1, NULL), STATUS_OK);
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	visit_as_n3(f, NULL, &w->third);
	w->first = mark_copy(f->n1.mark);
	w->second = mark_copy(f->n2.mark);
	go_back(f, &backup);
	connect_showing(&f->n2, "n2", w->second);
	starts_anew(f, &f->n2);
	assert_int_equal(history_missing_nodes(f->server), 2);
}

static int teardown_forgotten(void **state)
{
	struct forgotten *w = *state;
	void *fixture = w->f;

	holdfast__v1__mark__free_unpacked(w->first, NULL);
	holdfast__v1__mark__free_unpacked(w->second, NULL);
	holdfast__v1__mark__free_unpacked(w->third, NULL);
	free(w);
	return teardown(&fixture);
}

static void purge_and_connect(struct fixture *f, struct fake_node *node, const char *id,
			      const Holdfast__V1__Mark *mark)
{
	lose(f, node);
	assert_int_equal(purge(f, id, NULL), STATUS_OK);
	connect_showing(node, id, mark);
	assert_true(node->welcomed);
}

TEST_ON(a_node_that_was_purged_is_not_counted_as_missing_again, struct forgotten, w, forget_two,
	teardown_forgotten)
{
	struct fixture *f = w->f;

	connect_showing(&f->n2, "n2", w->second);
	assert_int_equal(history_missing_nodes(f->server), 1);
	for (int i = 0; i < 2; i++) {
		purge_and_connect(f, &f->n2, "n2", w->second);
		assert_int_equal(history_missing_nodes(f->server), 1);
		connect_showing(&f->n1, "n1", w->first);
		purge_and_connect(f, &f->n1, "n1", w->first); /* the backup knows it */
		assert_int_equal(history_missing_nodes(f->server), 1);
		restart(f);
		connect_showing(&f->n2, "n2", w->second);
	}
	visit_as_n3(f, w->third, NULL);
	assert_int_equal(history_missing_nodes(f->server), 0);
}

TEST_ON(a_node_that_was_new_and_purged_leaves_no_record, struct forgotten, w, forget_two, teardown_forgotten)
{
	struct fixture *f = w->f;

	assert_int_equal(purge_unknown(f, NULL), STATUS_OK);
	connect_showing(&f->n2, "n2", NULL);
	purge_and_connect(f, &f->n2, "n2", NULL);
	assert_null(records_get(&f->server->state.records, PREFIX_COUNTED "n2"));
}

/* Enrolled again after the backup of a server that had counted it. */
TEST_ON(a_node_that_was_purged_and_enrolled_again_is_counted_as_missing, struct forgotten, w, forget_two,
	teardown_forgotten)
{
	cleanup_pb Holdfast__V1__Mark *later = NULL;
	struct backup backup = {0};
	struct fixture *f = w->f;

	connect_showing(&f->n2, "n2", w->second);
	visit_as_n3(f, w->third, NULL);
	assert_int_equal(history_missing_nodes(f->server), 0);
	lose(f, &f->n2);
	assert_int_equal(purge(f, "n2", NULL), STATUS_OK);
	take_backup(f, &backup);
	connect_showing(&f->n2, "n2", w->second);
	for (int i = 0; i < 16; i++)
		assert_int_equal(set_eligible(f, "n2", i % 2 == 1, NULL), STATUS_OK);
	connect_showing(&f->n2, "n2", w->second);
	later = mark_copy(f->n2.mark);
	go_back(f, &backup);
	connect_showing(&f->n2, "n2", later);
	starts_anew(f, &f->n2);
	assert_int_equal(history_missing_nodes(f->server), 1);
	connect_showing(&f->n2, "n2", later);
	assert_int_equal(history_missing_nodes(f->server), 0);
}

TEST_ON(a_node_that_an_earlier_epoch_missed_is_counted_by_its_old_mark, struct forgotten, w, forget_two,
	teardown_forgotten)
{
	struct backup backup = {0};
	struct fixture *f = w->f;

	connect_showing(&f->n2, "n2", w->second);
	for (uint64_t epoch = 2; epoch < 4; epoch++) {
		take_backup(f, &backup);
		restore(f, &backup, epoch);
		assert_int_equal(history_missing_nodes(f->server), 1);
		connect_showing(&f->n2, "n2", w->second);
		purge_and_connect(f, &f->n2, "n2", w->second);
		assert_int_equal(history_missing_nodes(f->server), 1); /* counted in epoch 1 */
	}
	visit_as_n3(f, w->third, NULL);
	assert_int_equal(history_missing_nodes(f->server), 0);
}

/* n2 was new in epoch 1, and purged in it; another node is missing in epoch 2. */
TEST_ON(a_mark_from_between_two_lost_times_is_of_no_missing_node, struct forgotten, w, forget_two,
	teardown_forgotten)
{
	cleanup_pb Holdfast__V1__Mark *mark = NULL;
	struct backup backup = {0};
	struct fixture *f = w->f;

	connect_showing(&f->n2, "n2", w->second);
	visit_as_n3(f, w->third, NULL);
	purge_and_connect(f, &f->n2, "n2", NULL);
	mark = mark_copy(f->n2.mark);
	lose(f, &f->n2);
	assert_int_equal(purge(f, "n2", NULL), STATUS_OK);
	take_backup(f, &backup);
	restore_missing(f, &backup, 2, 1);
	connect_showing(&f->n2, "n2", mark);
	assert_true(f->n2.welcomed);
	assert_int_equal(history_missing_nodes(f->server), 1);
}

TEST_ON(a_node_that_was_given_up_is_not_counted_in_a_later_epoch, struct forgotten, w, forget_two,
	teardown_forgotten)
{
	struct backup backup = {0};
	struct fixture *f = w->f;

	assert_int_equal(purge_unknown(f, NULL), STATUS_OK);
	take_backup(f, &backup);
	restore_missing(f, &backup, 2, 1);
	connect_showing(&f->n2, "n2", w->second);
	assert_true(f->n2.welcomed);
	assert_true(history_missing_nodes(f->server) > 0);
	assert_int_equal(epoch_of(f)->n_earlier, 0);
}

TEST_ON(an_epoch_keeps_the_newest_lost_times, struct forgotten, w, forget_two, teardown_forgotten)
{
	struct backup backup = {0};
	struct fixture *f = w->f;

	for (uint64_t epoch = 2; epoch < EPOCH_LOST_TIMES_MAX + 4; epoch++) {
		take_backup(f, &backup);
		restore(f, &backup, epoch);
	}
	assert_int_equal(epoch_of(f)->n_earlier, EPOCH_LOST_TIMES_MAX);
	assert_int_equal(epoch_of(f)->earlier[0]->to_epoch, 3);
	assert_int_equal(epoch_of(f)->earlier[EPOCH_LOST_TIMES_MAX - 1]->to_epoch, epoch_of(f)->number - 1);
}

/* A clone that was renamed: the store is behind, whoever shows it. */
CLUSTER_TEST(a_proven_mark_of_another_node_begins_an_epoch)
{
	cleanup_pb Holdfast__V1__Mark *mark = NULL;
	struct alloc alloc;
	struct claim held;

	lose_a_grant(f, &alloc, &held, &mark);
	connect_showing(&f->n1, "n1", mark);
	starts_anew(f, &f->n1);
	assert_int_equal(state_epoch(&f->server->state), 1);
}

/* A restored store does not know whether the node is connected, and all that it holds is waited for. */
CLUSTER_TEST(another_boot_waits_for_a_node_that_has_not_reported_after_a_restore)
{
	struct backup backup = {0};

	take_volume(f);
	lose(f, &f->n1); /* it has connected since the backup */
	take_backup(f, &backup);
	restore_knowing(f, &backup, 1);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	assert_non_null(strstr(f->n1.closed_message, "may come back; ask again in"));
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_true(f->n1.welcomed);
}

#define BOOT_3 "b0010000-0000-4000-8000-000000000003"

/* The backup is older than a reboot of n1, which then took the volume. */
static void forget_a_reboot(struct fixture *f, struct alloc *alloc, struct claim *held,
			    Holdfast__V1__Mark **ret_mark)
{
	struct backup backup = {0};

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	connect_node(&f->n1, "n1"); /* in BOOT_1 */
	connect_node(&f->n2, "n2");
	take_backup(f, &backup);
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	lose(f, &f->n1);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	assert_true(f->n1.welcomed);
	assert_int_equal(run_alloc(f, ALLOC_1, "n1", NULL), STATUS_OK);
	UNTIL(f, f->n1.runs == 1);
	assert_int_equal(claim_for(&f->n1, ALLOC_1, held, NULL), STATUS_OK);
	fake_node_send_mounted(&f->n1, held);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_TAKEN);
	*alloc = alloc_of(f, ALLOC_1);
	*ret_mark = mark_copy(f->n1.mark);
	restore_knowing(f, &backup, 1);
	assert_null(state_alloc(&f->server->state, ALLOC_1));
	f->n1.shows = *ret_mark;
	f->n1.has = held;
}

static void expect_no_claim_of_n2(struct fixture *f)
{
	struct claim claim;
	enum status status;

	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n2"));
	status = run_alloc(f, ALLOC_2, "n2", NULL);
	assert_true(status != STATUS_OK || claim_for(&f->n2, ALLOC_2, &claim, NULL) != STATUS_OK);
}

CLUSTER_TEST(two_boots_wait_after_a_restore_that_forgot_a_reboot)
{
	cleanup_pb Holdfast__V1__Mark *mark = NULL;
	struct fake_node thief;
	struct alloc alloc;
	struct claim held;

	forget_a_reboot(f, &alloc, &held, &mark);
	fake_node_init(&thief, f->event, f->dir, "node-n1", f->port);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	assert_int_equal(f->n1.closed_status, STATUS_FAILED_PRECONDITION);
	pass_grace(f);
	fake_node_connect(&thief, "n1", BOOT_3, NULL, 0);
	assert_int_equal(thief.closed_status, STATUS_FAILED_PRECONDITION);
	assert_contains(thief.closed_message, "may run in its last boot");
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	assert_int_equal(f->n1.closed_status, STATUS_FAILED_PRECONDITION);
	expect_no_claim_of_n2(f);
	unit_clock_advance(NODES_KEPT_OUT_MS * USEC_PER_MSEC); /* the thief has given up */
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	assert_true(f->n1.welcomed);
	fake_node_release(&thief);
}

CLUSTER_TEST(one_boot_comes_in_after_a_restore_that_forgot_a_reboot)
{
	cleanup_pb Holdfast__V1__Mark *mark = NULL;
	struct alloc alloc;
	struct claim held;

	forget_a_reboot(f, &alloc, &held, &mark);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	assert_int_equal(f->n1.closed_status, STATUS_FAILED_PRECONDITION);
	pass_grace(f);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	assert_true(f->n1.welcomed);
	report(f, &f->n1, 1, &alloc, &held, false);
	UNTIL(f, has_reported(f, "n1"));
	expect_no_claim_of_n2(f);
}

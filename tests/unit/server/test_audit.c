/* SPDX-License-Identifier: Apache-2.0 */
/* The audit: chained in the order of the store, paged, pruned, and never held in memory. */

#include "cluster.h"
#include "unit.h"

#include "access/audit.h"
#include "access/audit_read.h"
#include "state/keys.h"
#include "state/records.h"

#include <openssl/sha.h>

static void commit(struct fixture *f, struct change *change)
{
	assert_int_equal(change_commit(f->server, change, NULL, NULL, NULL), STATUS_OK);
	change_release(change);
	UNTIL(f, kv_stats(f->server->kv).pending == 0);
}

static void record(struct fixture *f, const char *object)
{
	struct change change = CHANGE_INIT;

	audit_own(f->server, &change, "Test.Do", object, "because");
	commit(f, &change);
}

static void record_many(struct fixture *f, int n)
{
	char object[32];

	for (int i = 0; i < n; i++) {
		cleanup(change_release) struct change change = CHANGE_INIT;

		(void)str_format(object, sizeof(object), "thing %d", i);
		audit_own(f->server, &change, "Test.Do", object, NULL);
		assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	}
	UNTIL(f, kv_stats(f->server->kv).pending == 0);
}

static Holdfast__V1__ListAuditResponse *list_by(struct fixture *f,
						const Holdfast__V1__ListAuditRequest *request)
{
	Holdfast__V1__ListAuditResponse *response = NULL;

	UNTIL(f, kv_stats(f->server->kv).pending == 0);
	assert_int_equal(audit_list(f->server, request, &response, NULL), STATUS_OK);
	return response;
}

static Holdfast__V1__ListAuditResponse *list(struct fixture *f, uint64_t after, uint32_t per_page)
{
	Holdfast__V1__ListAuditRequest request = V1(list_audit_request, .after = after, .per_page = per_page);

	return list_by(f, &request);
}

static void hash(const Holdfast__V1__AuditRecord *record, uint8_t ret[static SHA256_DIGEST_LENGTH])
{
	uint8_t bytes[4096];

	assert_in_range(protobuf_c_message_get_packed_size(&record->base), 1, sizeof(bytes));
	(void)SHA256(bytes, protobuf_c_message_pack(&record->base, bytes), ret);
}

/* From its first record on, every record names the one before, and the head the last. */
static void assert_chain(struct fixture *f, uint64_t first, uint64_t last)
{
	cleanup_pb Holdfast__V1__ListAuditResponse *page = list(f, 0, 0);
	uint8_t sha256[SHA256_DIGEST_LENGTH];

	assert_int_equal(page->n_records, last - first + 1);
	assert_int_equal(page->next_after, 0);
	for (size_t i = 0; i < page->n_records; i++) {
		const Holdfast__V1__AuditRecord *r = page->records[i];

		assert_int_equal(r->sequence, first + i);
		if (i > 0)
			assert_memory_equal(r->previous_sha256.data, sha256, sizeof(sha256));
		else
			assert_int_equal(r->previous_sha256.len, first == 1 ? 0 : sizeof(sha256));
		hash(r, sha256);
	}
	assert_int_equal(page->head->first, first);
	assert_int_equal(page->head->sequence, last);
	assert_int_equal(page->head->sha256.len, sizeof(sha256));
	assert_memory_equal(page->head->sha256.data, sha256, sizeof(sha256));
}

CLUSTER_TEST(each_record_names_the_one_before_also_after_a_restart)
{
	struct change change = CHANGE_INIT;

	record(f, "volume default/a");
	audit_own(f->server, &change, "Test.Do", "volume default/b", NULL);
	audit_own(f->server, &change, "Test.Do", "volume default/c", NULL);
	commit(f, &change);
	assert_chain(f, 1, 3);
	restart(f);
	record(f, "volume default/d");
	assert_chain(f, 1, 4);
}

static void assert_newest(struct fixture *f, const char *about, uint64_t before, uint32_t n,
			  const uint64_t *sequences, uint64_t next_before)
{
	Holdfast__V1__ListAuditRequest request =
		V1(list_audit_request, .about = TEXT(about), .newest = true, .before = before, .per_page = n);
	cleanup_pb Holdfast__V1__ListAuditResponse *page = NULL;

	page = list_by(f, &request);
	assert_int_equal(page->n_records, n);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(page->records[i]->sequence, sequences[i]);
	assert_int_equal(page->next_before, next_before);
}

CLUSTER_TEST(the_newest_records_about_one_object_are_found_from_the_end)
{
	record(f, "volume default/db");			  /* 1 */
	record(f, "volume default/db2");		  /* 2 */
	record(f, "volume default/db, claim x, node n1"); /* 3 */
	record(f, "node n1");				  /* 4 */
	record(f, "volume default/db, allocation y");	  /* 5 */
	record(f, "node n10");				  /* 6 */
	assert_newest(f, "volume default/db", 0, 2, (uint64_t[]){3, 5}, 3);
	assert_newest(f, "volume default/db", 3, 1, (uint64_t[]){1}, 0);
	assert_newest(f, "node n1", 0, 2, (uint64_t[]){3, 4}, 0);
	record_many(f, AUDIT_SCAN_MAX);
	assert_newest(f, "node n1", 0, 0, NULL, 7);
	assert_newest(f, "node n1", 7, 2, (uint64_t[]){3, 4}, 0);
}

CLUSTER_TEST(records_are_not_held_in_memory)
{
	record_many(f, 3);
	assert_null(records_get(&f->server->state.records, PREFIX_AUDIT "0000000000000001"));
	restart(f);
	assert_null(records_get(&f->server->state.records, PREFIX_AUDIT "0000000000000001"));
	assert_non_null(records_get(&f->server->state.records, KEY_AUDIT_HEAD));
}

CLUSTER_TEST(changes_that_cross_have_places_in_the_order_of_their_commits)
{
	struct change first = CHANGE_INIT, second = CHANGE_INIT;
	cleanup_pb Holdfast__V1__ListAuditResponse *page = NULL;

	audit_own(f->server, &first, "Test.Do", "staged first", NULL);
	audit_own(f->server, &second, "Test.Do", "committed first", NULL);
	commit(f, &second);
	commit(f, &first);
	assert_chain(f, 1, 2);
	page = list(f, 0, 0);
	assert_string_equal(page->records[0]->object, "committed first");
}

CLUSTER_TEST(a_change_that_is_refused_leaves_its_place_to_the_next)
{
	struct change change = CHANGE_INIT;
	Holdfast__V1__Schema schema = HOLDFAST__V1__SCHEMA__INIT;

	audit_own(f->server, &change, "Test.Do", "too large a key", NULL);
	change_put_record(&change, "\x01", &schema.base); /* the store takes no such key */
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_INVALID_ARGUMENT);
	assert_int_equal(change.n, 1);
	change_release(&change);
	record(f, "after");
	assert_chain(f, 1, 1);
}

CLUSTER_TEST(a_change_has_room_for_a_fixed_number_of_records)
{
	for (int extra = 0; extra < 2; extra++) {
		cleanup(change_release) struct change change = CHANGE_INIT;
		Holdfast__V1__Schema schema = V1(schema, .version = 1);
		char key[32];

		for (int i = 0; i < CHANGE_OBJECTS_MAX; i++) {
			(void)str_format(key, sizeof(key), PREFIX_SNAPSHOT "%d", i);
			change_put_record(&change, key, &schema.base);
		}
		for (int i = 0; i < CHANGE_AUDIT_MAX + extra; i++)
			audit_own(f->server, &change, "Test.Do", "x", NULL);
		assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL),
				 extra ? STATUS_RESOURCE_EXHAUSTED : STATUS_OK);
	}
	UNTIL(f, kv_stats(f->server->kv).pending == 0);
	assert_chain(f, 1, CHANGE_AUDIT_MAX);
}

CLUSTER_TEST(text_is_cut_and_cleaned)
{
	char long_text[4000];
	cleanup_pb Holdfast__V1__ListAuditResponse *page = NULL;
	struct change change = CHANGE_INIT;

	memset(long_text, 'x', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	audit_own(f->server, &change, "Test.Do", "a\x1b[31m\nb\xff", long_text);
	commit(f, &change);
	page = list(f, 0, 0);
	assert_string_equal(page->records[0]->object, "a?[31m b?");
	assert_int_equal(strlen(page->records[0]->why), AUDIT_WHY_SIZE - 1);
}

CLUSTER_TEST(pages_follow_each_other)
{
	Holdfast__V1__ListAuditResponse *page;
	uint64_t after = 0;
	int pages = 0;

	record_many(f, 7);
	do {
		page = list(f, after, 3);
		assert_int_equal(page->n_records, pages < 2 ? 3 : 1);
		assert_int_equal(page->records[0]->sequence, after + 1);
		after = page->next_after;
		holdfast__v1__list_audit_response__free_unpacked(page, NULL);
		pages++;
	} while (after);
	assert_int_equal(pages, 3);
	page = list(f, 7, 3);
	assert_int_equal(page->n_records, 0);
	assert_int_equal(page->next_after, 0);
	holdfast__v1__list_audit_response__free_unpacked(page, NULL);
}

CLUSTER_TEST(a_filter_shows_matching_records)
{
	Holdfast__V1__ListAuditResponse *page;
	char who[] = "server";
	Holdfast__V1__ListAuditRequest request = V1(list_audit_request, .object = "thing 1", .who = who);

	record_many(f, 12);
	page = list_by(f, &request);
	assert_int_equal(page->n_records, 3); /* 1, 10 and 11 */
	holdfast__v1__list_audit_response__free_unpacked(page, NULL);
	request.who = "serve";
	page = list_by(f, &request);
	assert_int_equal(page->n_records, 0);
	holdfast__v1__list_audit_response__free_unpacked(page, NULL);
	request.who = who;
	request.since_ms = clock_realtime_ms() + 3600 * 1000;
	page = list_by(f, &request);
	assert_int_equal(page->n_records, 0);
	holdfast__v1__list_audit_response__free_unpacked(page, NULL);
}

/* @who borrowed. */
static void record_of(struct fixture *f, const char *who)
{
	struct change change = CHANGE_INIT;
	Holdfast__V1__AuditRecord *record = NON_NULL(malloc(sizeof(*record)));

	holdfast__v1__audit_record__init(record);
	record->time_ms = clock_realtime_ms();
	record->who = TEXT(who);
	change_take_audit(&change, record);
	commit(f, &change);
}

TEST_ON(a_caller_is_found_by_a_part_of_its_name, struct fixture, f, setup, teardown)
{
	static const struct {
		const char *who;
		size_t n;
	} rows[] = {
		{"operator/ann", 2}, {"ann", 2}, {"0192-a", 1}, {"ci", 1},	{"operator", 3},
		{"an", 0},	     {"nn", 0},	 {"anna", 1},	{"tor/ann", 0}, {"token 0192-a (ci)", 1},
	};

	record_of(f, "operator/ann");
	record_of(f, "operator/anna");
	record_of(f, "token 0192-a (ci) of operator/ann");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		Holdfast__V1__ListAuditRequest request = V1(list_audit_request, .who = TEXT(rows[i].who));
		cleanup_pb Holdfast__V1__ListAuditResponse *page = NULL;

		page = list_by(f, &request);
		if (page->n_records != rows[i].n)
			fail_msg("%s: %zu, not %zu", rows[i].who, page->n_records, rows[i].n);
	}
}

CLUSTER_TEST(one_call_looks_at_a_bounded_number_of_records)
{
	Holdfast__V1__ListAuditResponse *page;
	char last[32];
	Holdfast__V1__ListAuditRequest request = V1(list_audit_request, .object = last);

	record_many(f, AUDIT_SCAN_MAX + 1);
	(void)str_format(last, sizeof(last), "thing %d", AUDIT_SCAN_MAX);
	page = list_by(f, &request);
	assert_int_equal(page->n_records, 0);
	assert_int_equal(page->next_after, AUDIT_SCAN_MAX);
	request.after = page->next_after;
	holdfast__v1__list_audit_response__free_unpacked(page, NULL);
	page = list_by(f, &request);
	assert_int_equal(page->n_records, 1);
	assert_int_equal(page->next_after, 0);
	holdfast__v1__list_audit_response__free_unpacked(page, NULL);
}

CLUSTER_TEST(more_records_than_are_kept_are_forgotten_from_the_oldest_on)
{
	f->server->config.audit_keep = 10;
	record_many(f, 10);
	assert_int_equal(audit_prune(f->server, clock_realtime_ms(), 1000), 0);
	record_many(f, 200);
	assert_int_equal(audit_prunable(f->server, clock_realtime_ms(), 1000), 200);
	assert_int_equal(audit_prune(f->server, clock_realtime_ms(), 5), 5);
	UNTIL(f, kv_stats(f->server->kv).pending == 0);
	assert_chain(f, 6, 211); /* forgetting is recorded */
	restart(f);
	f->server->config.audit_keep = 10;
	assert_in_range(audit_prune(f->server, clock_realtime_ms(), 1000), 196, 200);
	UNTIL(f, kv_stats(f->server->kv).pending == 0);
	assert_chain(f, audit_head(f->server).first, audit_head(f->server).sequence);
	assert_in_range(audit_head(f->server).sequence - audit_head(f->server).first, 9, 13);
}

CLUSTER_TEST(old_audit_records_are_pruned_except_the_last)
{
	record_many(f, 5);
	f->server->config.audit_keep_for_us = 3600 * USEC_PER_SEC;
	assert_int_equal(audit_prunable(f->server, clock_realtime_ms(), 1000), 0);
	f->server->config.audit_keep_for_us = 0;
	settle(f);
	assert_int_equal(audit_prunable(f->server, clock_realtime_ms(), 1000), 4);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A disk that hangs: it is named, reads go on from memory, changes are refused, and what waits is kept. While
 * it is slow, each caller has a part of the store's queue. */

#include "callers.h"
#include "cluster.h"
#include "disk_sync.h"
#include "http.h"
#include "unit.h"

#include "base/str.h"
#include "lead/trouble.h"
#include "state/stall.h"

#include <holdfast/v1/operator.pb-c.h>
#include <string.h>

#define LOG "holdfast.db-wal"
#define NODES (&holdfast__v1__nodes__descriptor)
#define OPERATOR "operator/dev" /* of the fixture */

static int setup_held(void **state)
{
	struct fixture *f;

	assert_int_equal(setup(state), 0);
	f = *state;
	take_volume(f);
	settle(f);
	disk_sync_watch(LOG);
	disk_sync_hold();
	return 0;
}

static int teardown_held(void **state)
{
	disk_sync_release();
	disk_sync_watch(NULL);
	return teardown(state);
}

static const char *get(struct fixture *f, const char *target)
{
	const struct http_request request = {.cert = "operator", .method = "GET", .target = target};

	return http_send(f, &request);
}

static enum status get_status(struct fixture *f, Holdfast__V1__GetStatusResponse **ret, struct error *err)
{
	Holdfast__V1__GetStatusRequest request = HOLDFAST__V1__GET_STATUS_REQUEST__INIT;
	ProtobufCMessage *response = NULL;
	enum status status = call(&f->operator, & holdfast__v1__operator__descriptor, "Status", &request.base,
				  &response, err);

	*ret = (Holdfast__V1__GetStatusResponse *)response;
	return status;
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup_held, teardown_held)

CASE(a_write_on_a_disk_that_hangs_is_answered_at_its_deadline_with_the_reason)
{
	struct error err;

	assert_error(register_disk(f, &f->operator, "late", "wwn-0x2", &err), STATUS_DEADLINE_EXCEEDED, err,
		     "as its disk hangs");
	assert_non_null(strstr(err.msg, f->dir));
	assert_contains(err.msg, "Whether a change of this call is kept is known when the store continues");
}

CASE(a_disk_that_hangs_is_named_and_reads_go_on_until_it_continues)
{
	cleanup_pb Holdfast__V1__GetStatusResponse *status = NULL;
	struct error err;

	assert_int_equal(metric_of(f, "store_trouble{kind=\"hangs\"}"), 0);
	(void)register_disk(f, &f->operator, "late", "wwn-0x2", NULL);
	assert_true(metric_of(f, "store_pending_seconds_max") >= STALL_S);
	assert_int_equal(metric_of(f, "store_trouble{kind=\"hangs\"}"), 1);
	assert_non_null(strstr(get(f, "/readyz"), " 503 "));
	assert_non_null(strstr(get(f, "/readyz"), "hangs: the store at "));
	assert_non_null(strstr(get(f, "/healthz"), " 200 "));

	assert_succeeds(get_status(f, &status, &err), err);
	assert_true(status->n_warnings > 0);
	assert_non_null(strstr(status->warnings[0], "has stored nothing for "));
	assert_int_equal(status->claims, 1);
	assert_non_null(strstr(get(f, "/v1/volume/csi/db"), " 200 "));

	assert_error(register_disk(f, &f->operator, "refused", "wwn-0x3", &err), STATUS_UNAVAILABLE, err,
		     "as its disk hangs");

	disk_sync_release();
	UNTIL(f, kv_stats(f->server->kv).pending == 0);
	assert_int_equal(metric_of(f, "store_trouble{kind=\"hangs\"}"), 0);
	assert_non_null(strstr(get(f, "/readyz"), " 200 "));
	assert_non_null(
		state_volume(&f->server->state, NAMESPACE_DEFAULT, "late")); /* what waited was kept */
	assert_null(state_volume(&f->server->state, NAMESPACE_DEFAULT, "refused"));
	assert_int_equal(register_disk(f, &f->operator, "refused", "wwn-0x3", NULL), STATUS_OK);
}

CASE(a_call_without_a_deadline_is_answered_while_the_disk_hangs)
{
	const struct http_request request = {
		.cert = "operator", .method = "POST", .target = "/v1/node/n1/eligibility", .body = "{}"};
	const char *answer = http_send(f, &request);

	assert_non_null(strstr(answer, "deadline_exceeded"));
	assert_non_null(strstr(answer, "as its disk hangs"));
}

CASE(one_line_is_logged_when_a_disk_hangs_and_one_when_it_continues)
{
	uint64_t first_us;

	(void)register_disk(f, &f->operator, "late", "wwn-0x2", NULL);
	UNTIL(f, f->server->stall.kind == TROUBLE_HANGS);
	first_us = f->server->stall.log_us;
	run_for(f->event, 10000);
	assert_int_equal(f->server->stall.log_us, first_us); /* none since */
	disk_sync_release();
	UNTIL(f, f->server->stall.kind == TROUBLE_NONE);
}

/* --- the queue of the store --- */

static void on_done(enum status status, const ProtobufCMessage *response, const struct error *err,
		    void *userdata)
{
	(void)status;
}

/* How many changes and reads of @name wait. */
static size_t waiting_of(struct fixture *f, const char *name)
{
	const struct peer_count *count = peer_count_find(&f->server->authors.waiting, name);

	return count ? peer_count_number(count) : 0;
}

/* Its connection ends meanwhile. */
CASE(changes_and_reads_count_as_their_callers_until_they_are_stored)
{
	Holdfast__V1__SetEligibilityRequest change = V1(set_eligibility_request, .id = TEXT("n2"));
	Holdfast__V1__GetNodeRequest read = V1(get_node_request, .id = TEXT("n2"));
	Holdfast__V1__ClaimVolumeRequest claim =
		V1(claim_volume_request, .volume_id = TEXT("db"), .allocation_id = TEXT(ALLOC_1),
		   .volume_name = TEXT("data"));
	struct authors *authors = &f->server->authors;
	struct fake_node other;
	size_t bytes;

	fake_node_init(&other, f->event, f->dir, "operator", f->port);
	assert_ok(rpc_client_call(other.client, NODES, "SetEligibility", &change.base, TIMEOUT_US, on_done,
				  NULL, NULL, NULL));
	UNTIL(f, authors->n == 1);
	bytes = authors->bytes;
	assert_int_equal(bytes, kv_pending_bytes(f->server->kv));
	assert_int_equal(*peer_count_bytes(peer_count_find(&authors->waiting, OPERATOR)), bytes);
	assert_ok(rpc_client_call(other.client, NODES, "Get", &read.base, TIMEOUT_US, on_done, NULL, NULL,
				  NULL));
	UNTIL(f, authors->n == 2);
	assert_true(authors->bytes > bytes);
	assert_int_equal(authors->bytes, kv_pending_bytes(f->server->kv));
	assert_ok(rpc_client_call(f->n1.client, &holdfast__v1__volumes__descriptor, "Claim", &claim.base,
				  TIMEOUT_US, on_done, NULL, NULL, NULL));
	UNTIL(f, waiting_of(f, "node/n1") == 1);
	fake_node_release(&other);
	settle(f);
	assert_int_equal(waiting_of(f, OPERATOR), 2);
	assert_int_equal(authors->n, 2); /* a node is no person */

	disk_sync_release();
	UNTIL(f, kv_stats(f->server->kv).pending == 0);
	assert_true(RB_EMPTY(&authors->waiting));
	assert_int_equal(authors->n, 0);
	assert_int_equal(authors->bytes, 0);
}

static void enter(struct fixture *f, const char *name, size_t n, struct peer_count **ret)
{
	bool is_full;

	for (size_t i = 0; i < n; i++)
		*ret = NON_NULL(peer_count_enter(&f->server->authors.waiting, name, SIZE_MAX, &is_full));
}

static void leave(struct fixture *f, struct peer_count *count, size_t n)
{
	for (size_t i = 0; i < n; i++)
		peer_count_leave(&f->server->authors.waiting, count);
}

static enum status change_node(struct fake_node *as, struct error *err)
{
	Holdfast__V1__SetEligibilityRequest request = V1(set_eligibility_request, .id = TEXT("n2"));

	return call(as, NODES, "SetEligibility", &request.base, NULL, err);
}

static enum status read_node(struct fake_node *as, struct error *err)
{
	Holdfast__V1__GetNodeRequest request = V1(get_node_request, .id = TEXT("n2"));

	return call(as, NODES, "Get", &request.base, NULL, err);
}

enum { SHARE = KV_PENDING_MAX / 8, SHARE_BYTES = KV_PENDING_BYTES_MAX / 8 };

/* As if its earlier changes were that large. */
CLUSTER_TEST(a_caller_fills_an_eighth_of_the_stores_queue_only)
{
	struct fake_node *me = &f->operator;
	struct peer_count *mine;
	struct error err;

	take_volume(f);
	enter(f, OPERATOR, 1, &mine);
	*peer_count_bytes(mine) = SHARE_BYTES - 1;
	assert_ok(change_node(me, &err));
	assert_int_equal(*peer_count_bytes(mine), SHARE_BYTES - 1);
	*peer_count_bytes(mine) = SHARE_BYTES;
	assert_error(change_node(me, &err), STATUS_RESOURCE_EXHAUSTED, err,
		     "1 changes and reads of operator/dev (8388608 bytes of changes) wait for the store");
	assert_ok(read_node(me, &err));
	operator_does(f, "Nodes.SetEligibility", "{\"id\": \"n2\"}"); /* another one */

	*peer_count_bytes(mine) = 0;
	enter(f, OPERATOR, SHARE - 2, &mine);
	assert_ok(read_node(me, &err));
	enter(f, OPERATOR, 1, &mine);
	assert_error(read_node(me, &err), STATUS_RESOURCE_EXHAUSTED, err, "8192 changes and reads");
	assert_error(change_node(me, &err), STATUS_RESOURCE_EXHAUSTED, err, "8192 changes and reads");
	operator_does(f, "Nodes.Get", "{\"id\": \"n2\"}");
	leave(f, mine, SHARE);
	assert_ok(change_node(me, &err));
}

CLUSTER_TEST(a_nodes_calls_fill_an_eighth_of_the_stores_queue_only)
{
	struct peer_count *mine;
	struct error err;

	take_volume(f);
	enter(f, "node/n1", SHARE, &mine);
	assert_error(fake_node_claim(&f->n1, "db", ALLOC_1, NULL, &err), STATUS_RESOURCE_EXHAUSTED, err,
		     "changes and reads of node/n1");
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0); /* a session has limits of its own */
	assert_true(f->n1.welcomed);
	leave(f, mine, SHARE);
	assert_ok(fake_node_claim(&f->n1, "db", ALLOC_1, NULL, &err));
}

CLUSTER_TEST(all_callers_together_fill_half_of_the_stores_queue_only)
{
	struct authors *authors = &f->server->authors;
	struct fake_node *me = &f->operator;
	struct peer_count *other;
	struct error err;

	take_volume(f);
	enter(f, "blue", 1, &other);
	authors->bytes = KV_PENDING_BYTES_MAX / 2 - 1;
	assert_ok(change_node(me, &err));
	assert_int_equal(authors->bytes, KV_PENDING_BYTES_MAX / 2 - 1);
	authors->bytes = KV_PENDING_BYTES_MAX / 2;
	assert_error(change_node(me, &err), STATUS_RESOURCE_EXHAUSTED, err,
		     "of all callers (33554432 bytes of changes) wait for the store");
	assert_ok(read_node(me, &err));
	assert_ok(fake_node_claim(&f->n1, "db", ALLOC_1, NULL, &err));

	authors->bytes = 0;
	authors->n = KV_PENDING_MAX / 2 - 1;
	assert_ok(read_node(me, &err));
	authors->n = KV_PENDING_MAX / 2;
	assert_error(read_node(me, &err), STATUS_RESOURCE_EXHAUSTED, err, "32768 changes and reads");
	assert_ok(fake_node_claim(&f->n1, "db", ALLOC_1, NULL, &err));
	authors->n = 0;
	leave(f, other, 1);
}

TEST(each_trouble_of_a_store_has_a_word_a_sentence_and_a_command_of_its_own)
{
	const struct trouble_facts facts =
		ROW(.server = "s1", .store = "/var/lib/holdfast",
		    .detail = "DETAIL. Next: holdfast-server --raise-schema", .for_us = 12 * USEC_PER_SEC);
	char texts[TROUBLE_N][TROUBLE_TEXT_SIZE];

	for (int i = TROUBLE_NONE + 1; i < TROUBLE_N; i++) {
		(void)trouble_text((enum trouble_kind)i, &facts, texts[i]);
		print_message("%s: %s\n", trouble_word((enum trouble_kind)i), texts[i]);
		assert_non_null(strstr(texts[i], ". Next: "));
		assert_null(strchr(texts[i], '{'));
		assert_null(strchr(texts[i], '?'));
		assert_true(strlen(texts[i]) < TROUBLE_TEXT_SIZE - 1);
		if (strstr(texts[i], "etcdctl")) /* servers need not have it */
			assert_non_null(strstr(texts[i],
					       "on a machine of etcd, with Debian's package etcd-client: "));
		for (int j = TROUBLE_NONE + 1; j < i; j++) {
			assert_string_not_equal(trouble_word((enum trouble_kind)i),
						trouble_word((enum trouble_kind)j));
			assert_string_not_equal(texts[i], texts[j]);
			assert_string_not_equal(strstr(texts[i], "Next: "), strstr(texts[j], "Next: "));
		}
	}
	assert_non_null(strstr(texts[TROUBLE_HANGS], "/var/lib/holdfast has stored nothing for 12s"));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A disk that hangs: it is named, reads go on from memory, changes are refused, and what waits is kept. */

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

/* SPDX-License-Identifier: Apache-2.0 */
/* What the server says about a volume's holders, from its own facts. */

#include "cluster.h"
#include "unit.h"

#include "state/change.h"
#include "state/keys.h"
#include "volume/why.h"

/* Times continue between two questions: numbers may differ. */
static void expect_same_words(const char *a, const char *b)
{
	while (*a != '\0' && *b != '\0') {
		a += strspn(a, "0123456789.");
		b += strspn(b, "0123456789.");
		assert_msg(*a == *b, "'%s' is not '%s'", a, b);
		a += *a != '\0';
		b += *b != '\0';
	}
	assert_string_equal(a, b);
}

static Holdfast__V1__GetVolumeResponse *ask(struct fixture *f)
{
	Holdfast__V1__GetVolumeResponse *response = NON_NULL(calloc(1, sizeof(*response)));
	struct volume_entry *entry = state_volume(&f->server->state, NAMESPACE_DEFAULT, "db");
	cleanup_free char *why = volume_why(f->server, entry);

	holdfast__v1__get_volume_response__init(response);
	assert_true(volume_explain(f->server, NULL, entry, response));
	expect_same_words(response->why, why);
	for (size_t i = 0; i < response->n_explanations; i++)
		assert_non_null(strstr(response->why, response->explanations[i]->text));
	return response;
}

static void drop(Holdfast__V1__GetVolumeResponse *response)
{
	holdfast__v1__get_volume_response__free_unpacked(response, NULL);
}

/* The one explanation's next command and who has to act. */
static void expect(struct fixture *f, const char *next, const char *waiting_for, const char *says)
{
	Holdfast__V1__GetVolumeResponse *response = ask(f);

	assert_int_equal(response->n_explanations, 1);
	assert_string_equal(response->explanations[0]->next_command, next);
	assert_string_equal(response->explanations[0]->waiting_for, waiting_for);
	assert_msg(strstr(response->why, says), "'%s' is not in: %s", says, response->why);
	drop(response);
}

CLUSTER_TEST(a_claim_is_explained_on_its_whole_way)
{
	Holdfast__V1__GetVolumeResponse *response;
	struct claim claim;

	take_volume(f);
	expect(f, "holdfast alloc status " ALLOC_1, "allocation " ALLOC_1 " to end",
	       "its work has not ended");
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	expect(f, "holdfast agent status", "node n1", "ordered to stop");
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__FAILED);
	UNTIL(f, f->n1.releases == 1);
	claim = claim_of(f, ALLOC_1);
	fake_node_send_failed(&f->n1, &claim, STATUS_FAILED_PRECONDITION, "target is busy");
	UNTIL(f, claim_of(f, ALLOC_1).attempts == 1);
	expect(f, "holdfast agent status", "node n1", "last error (attempt 1): target is busy");
	expect(f, "holdfast agent status", "node n1", "tried again in ");
	fake_node_disconnect(&f->n1);
	UNTIL(f, !node_is_connected(state_node(&f->server->state, "n1")));
	expect(f, "holdfast node status n1", "node n1 to come back, or a person", "no timer ends this");
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	response = ask(f);
	assert_int_equal(response->n_explanations, 0);
	assert_non_null(strstr(response->why, "volume db is free"));
	assert_non_null(strstr(response->why, "last: was held for write by allocation " ALLOC_1));
	assert_non_null(strstr(response->why, "evidence: new_boot"));
	assert_null(strstr(response->why, BOOT_2));
	drop(response);
}

CLUSTER_TEST(a_free_volume_that_no_node_can_use_reports_it)
{
	Holdfast__V1__GetVolumeResponse *response;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	response = ask(f);
	assert_non_null(strstr(response->why, "free, but no node can use it"));
	assert_null(strstr(response->why, "last:"));
	drop(response);
}

static void begin_epoch(struct fixture *f)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct node node = state_node(&f->server->state, "n1")->node;
	Holdfast__V1__Epoch epoch = V1(epoch, .number = node.reported_epoch + 1, .restored_at_ms = 1);

	change_put_record(&change, KEY_EPOCH, &epoch.base);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	change_put_node(&change, &node);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
}

CLUSTER_TEST(after_a_restore_missing_node_reports_are_named)
{
	Holdfast__V1__GetVolumeResponse *response;

	take_volume(f);
	begin_epoch(f);
	response = ask(f);
	assert_contains(response->explanations[0]->text,
			"in the present epoch it has not reported what it holds");
	assert_non_null(strstr(response->why, "epoch 1 has begun"));
	assert_non_null(strstr(response->why, "holdfast node attest n1"));
	drop(response);
}

TEST_ON(a_read_with_why_carries_the_explanation, struct fixture, f, setup, teardown)
{
	Holdfast__V1__GetVolumeRequest request = V1(get_volume_request, .id = "db");
	Holdfast__V1__GetVolumeResponse *response;
	ProtobufCMessage *message = NULL;

	take_volume(f);
	for (int why = 0; why < 2; why++) {
		request.why = why;
		assert_ok(call(&f->operator, & holdfast__v1__volumes__descriptor, "Get", &request.base,
			       &message, NULL));
		response = (void *)message;
		assert_int_equal(response->n_explanations, why);
		assert_int_equal(response->why[0] != '\0', why);
		if (why)
			assert_string_equal(response->explanations[0]->allocation_id, ALLOC_1);
		protobuf_c_message_free_unpacked(message, NULL);
	}
}

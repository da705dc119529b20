/* SPDX-License-Identifier: Apache-2.0 */
/* Volumes whose plugin is asked: what is stored when, and what a crash at each step leaves. */

#include "provider_world.h"
#include "unit.h"

#include "model/volume_detail.h"
#include "state/keys.h"
#include "volume/store.h"

static struct volume_entry *db(struct fixture *f)
{
	return state_volume(&f->server->state, "default", "db");
}

PROVIDER_TEST(a_registration_is_confirmed_before_anything_is_stored)
{
	struct pending pending;

	provider_order(CALL_VALIDATE, PROVIDER_HOLD, 1, STATUS_OK);
	start_asking(f, "Register", DB, &pending);
	UNTIL(f, provider.calls[CALL_VALIDATE] == 1);
	settle(f);
	assert_null(db(f));
	assert_false(pending.ended);
	provider_answer();
	UNTIL(f, pending.ended);
	assert_int_equal(pending.status, STATUS_OK);
	assert_non_null(db(f));
	must(f, "Register", DB, "\"volume\"");
	assert_int_equal(provider.calls[CALL_VALIDATE], 1); /* nothing new to confirm */
}

PROVIDER_TEST(an_unconfirmed_capability_is_named_and_not_stored)
{
	provider.does_not_confirm = true;
	refuses(f, "Register", DB, STATUS_FAILED_PRECONDITION,
		"single-node-writer/file-system: it is too old");
	assert_null(db(f));
}

/* A file that leaves it out leaves it: the plugin is asked about the one that is stored. */
PROVIDER_TEST(an_unconfirmed_update_names_the_stored_volume)
{
	must(f, "Register", "{\"volume\":{" DB_HEAD ",\"externalId\":\"vol-1\"}}", NULL);
	provider.does_not_confirm = true;
	refuses(f, "Register", "{\"volume\":{" DB_HEAD ",\"context\":{\"z\":\"2\"}}}",
		STATUS_FAILED_PRECONDITION, "volume db (external id vol-1)");
}

PROVIDER_TEST(losing_the_plugin_while_it_is_asked_stores_nothing)
{
	static const enum status codes[] = {STATUS_UNAVAILABLE, STATUS_DEADLINE_EXCEEDED, STATUS_UNKNOWN,
					    STATUS_NOT_FOUND, STATUS_INTERNAL};

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		provider_order(CALL_VALIDATE, PROVIDER_FAIL, 1, codes[i]);
		refuses(f, "Register", DB, codes[i], "nothing was stored");
		assert_null(db(f));
	}
}

static bool has_audit(struct fixture *f, const char *why)
{
	Holdfast__V1__ListAuditRequest request = HOLDFAST__V1__LIST_AUDIT_REQUEST__INIT;
	cleanup_pb Holdfast__V1__ListAuditResponse *page = NULL;
	bool is_found = false;

	assert_ok(call(&f->operator, & holdfast__v1__operator__descriptor, "ListAudit", &request.base,
		       (ProtobufCMessage **)(void *)&page, NULL));
	for (size_t i = 0; i < page->n_records; i++)
		is_found = is_found || str_eq(page->records[i]->why, why);
	return is_found;
}

PROVIDER_TEST(a_plugin_that_cannot_confirm_is_believed_by_an_operators_reason_only)
{
	static const char reason[] =
		"{\"unconfirmed_reason\":\"populator 0.1 cannot\",\"volume\":{" DB_HEAD "}}";

	provider_order(CALL_VALIDATE, PROVIDER_FAIL, 1, STATUS_UNIMPLEMENTED);
	refuses(f, "Register", DB, STATUS_UNIMPLEMENTED, "--unconfirmed REASON");
	provider_order(CALL_VALIDATE, PROVIDER_FAIL, 1, STATUS_INTERNAL);
	refuses(f, "Register", reason, STATUS_INTERNAL, "nothing was stored");
	provider.does_not_confirm = true;
	refuses(f, "Register", reason, STATUS_FAILED_PRECONDITION, "does not confirm");
	assert_null(db(f));
	provider_order(CALL_VALIDATE, PROVIDER_FAIL, 1, STATUS_UNIMPLEMENTED);
	must(f, "Register", reason, "\"created\":true");
	assert_true(has_audit(f, "not confirmed by its plugin: populator 0.1 cannot"));
}

PROVIDER_TEST(a_plugin_must_be_known_and_have_its_controller)
{
	refuses(f, "Register",
		"{\"volume\":{\"id\":\"db\",\"type\":\"CSI\",\"pluginId\":\"nsf\"," CAPABILITIES "}}",
		STATUS_FAILED_PRECONDITION, "plugin nsf");
	assert_null(state_plugin(&f->server->state, "nsf"));
	provider.has_no_controller = true;
	refuses(f, "Register", DB, STATUS_UNAVAILABLE, "controller of plugin nfs");
	refuses(f, "Create", DB, STATUS_UNAVAILABLE, "controller of plugin nfs");
	assert_null(db(f));
}

PROVIDER_TEST(a_volume_changed_during_validation_is_checked_again)
{
	struct pending first;

	provider_order(CALL_VALIDATE, PROVIDER_HOLD, 1, STATUS_OK);
	start_asking(f, "Register", "{\"volume\":{" DB_HEAD ",\"externalId\":\"a\"}}", &first);
	UNTIL(f, provider.calls[CALL_VALIDATE] == 1);
	must(f, "Register", "{\"volume\":{" DB_HEAD ",\"externalId\":\"b\"}}", NULL);
	provider_answer();
	UNTIL(f, first.ended);
	assert_int_equal(first.status, STATUS_FAILED_PRECONDITION);
	assert_string_equal(db(f)->volume.external_id, "b");
}

PROVIDER_TEST(an_equal_id_in_another_namespace_is_another_volume)
{
	must(f, "Create", DB, NULL);
	must(f, "Create", "{\"volume\":{" DB_HEAD ",\"namespace\":\"other\"}}", NULL);
	assert_int_equal(provider_volumes(), 2); /* and never one for both at the provider */
	must(f, "Register", "{\"volume\":{" DB_HEAD ",\"secrets\":{\"c\":\"1\"}}}", NULL);
	must(f, "Get", "{\"id\":\"db\",\"namespace\":\"other\"}", "vol-2");
	must(f, "Deregister", ID, NULL);
	must(f, "Get", "{\"id\":\"db\",\"namespace\":\"other\"}", "vol-2");
	refuses(f, "Get", ID, STATUS_NOT_FOUND, "namespace default");
}

PROVIDER_TEST(an_id_that_begins_another_one_is_not_taken_for_it)
{
	must(f, "Register",
	     "{\"volume\":{\"id\":\"db2\",\"type\":\"CSI\",\"pluginId\":\"nfs\"," CAPABILITIES "}}", NULL);
	refuses(f, "Get", ID, STATUS_NOT_FOUND, "no volume db ");
	refuses(f, "Deregister", ID, STATUS_NOT_FOUND, "no volume db ");
	refuses(f, "Delete", ID, STATUS_NOT_FOUND, "no volume db ");
	refuses(f, "Expand", "{\"id\":\"db\",\"capacityMin\":\"5\"}", STATUS_NOT_FOUND, "no volume db ");
	assert_non_null(state_volume(&f->server->state, "default", "db2"));
}

PROVIDER_TEST(an_update_without_a_context_keeps_it)
{
	must(f, "Register", "{\"volume\":{" DB_HEAD ",\"context\":{\"share\":\"/a\"}}}", NULL);
	must(f, "Register", "{\"volume\":{" DB_HEAD ",\"secrets\":{\"k\":\"v\"}}}", NULL);
	must(f, "Get", ID, "\"share\":\"/a\"");
}

PROVIDER_TEST(a_description_is_stored_and_shown)
{
	must(f, "Register", "{\"volume\":{" DB_HEAD ",\"description\":\"orders\"}}",
	     "\"description\":\"orders\"");
	must(f, "Get", ID, "\"description\":\"orders\"");
	must(f, "List", "{\"filter\":\"description contains ord\"}", "\"id\":\"db\"");
}

PROVIDER_TEST(creating_stores_its_intent_and_a_name_that_no_other_volume_gets)
{
	struct pending pending;
	struct answer answer;

	provider_order(CALL_CREATE, PROVIDER_HOLD, 1, STATUS_OK);
	start_asking(f, "Create", "{\"volume\":{" DB_HEAD ",\"capacityMin\":\"10\",\"capacityMax\":\"20\"}}",
		     &pending);
	UNTIL(f, provider.calls[CALL_CREATE] == 1);
	assert_int_equal(detail_of(f, "db")->phase, HOLDFAST__V1__VOLUME_PHASE__VOLUME_CREATING);
	assert_true(str_starts_with(provider.last_name, "c1-db-"));
	assert_int_equal(provider.last_min, 10);
	assert_int_equal(provider.last_max, 20);
	must(f, "Get", ID, "being created"); /* and why it cannot be used */
	refuses(f, "Delete", ID, STATUS_FAILED_PRECONDITION, "not known to exist");
	refuses(f, "Expand", "{\"id\":\"db\",\"capacityMin\":\"50\"}", STATUS_FAILED_PRECONDITION,
		"being created");
	refuses(f, "Register", DB, STATUS_FAILED_PRECONDITION, "being created");
	refuses(f, "Deregister", ID, STATUS_FAILED_PRECONDITION, "being asked");
	provider_answer();
	UNTIL(f, pending.ended);
	assert_int_equal(pending.status, STATUS_OK);
	assert_int_equal(ask(f, "Get", ID, &answer), STATUS_OK);
	assert_non_null(strstr(answer.json, "\"externalId\":\"vol-1\""));
	assert_non_null(strstr(answer.json, "\"capacity\":\"10\""));
	assert_non_null(strstr(answer.json, "\"made\":\"vol-1\""));
	assert_int_equal(detail_of(f, "db")->phase, HOLDFAST__V1__VOLUME_PHASE__VOLUME_READY);
}

PROVIDER_TEST(a_volumes_topologies_are_exactly_those_its_provider_gave)
{
	const Holdfast__V1__VolumeDetail *detail;

	provider.n_topologies = 2;
	must(f, "Create",
	     "{\"volume\":{" DB_HEAD
	     ",\"topologyRequest\":{\"required\":[{\"segments\":{\"zone\":\"a\"}}]}}}",
	     NULL);
	detail = detail_of(f, "db");
	assert_int_equal(detail->n_topologies, 2);
	for (size_t i = 0; i < 2; i++)
		assert_string_equal(detail->topologies[i]->segments[0]->value, "z");
	refuses(f, "Create", DB, STATUS_FAILED_PRECONDITION,
		"topology_request:"); /* which can no longer change */
}

PROVIDER_TEST(no_capacity_is_requested_by_default)
{
	must(f, "Create", DB, NULL);
	assert_int_equal(provider.last_min, 0);
	assert_int_equal(provider.last_max, 0);
}

#define CASE(name) TEST_ON(name, struct fixture, f, provider_setup, provider_teardown)

CASE(a_server_that_dies_while_creating_continues_with_the_same_volume)
{
	static const enum provider_outcome steps[] = {PROVIDER_HOLD, PROVIDER_HOLD_DONE};

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		struct pending pending;

		provider_order(CALL_CREATE, steps[i], 1, STATUS_OK);
		start_asking(f, "Create", DB, &pending);
		UNTIL(f, provider.calls[CALL_CREATE] >= 1);
		settle(f);
		provider_crash(f);
		assert_int_equal(detail_of(f, "db")->phase, HOLDFAST__V1__VOLUME_PHASE__VOLUME_CREATING);
		assert_string_equal(detail_of(f, "db")->phase_error, ""); /* as it was, not as it ended */
		/* what this server never asked for the last one may have */
		provider_order(CALL_CREATE, PROVIDER_FAIL, 1, STATUS_INVALID_ARGUMENT);
		refuses(f, "Create", DB, STATUS_INVALID_ARGUMENT, "the provider's words");
		assert_non_null(db(f));
		must(f, "Create", DB, "\"created\":true");
		assert_int_equal(provider_volumes(), 1);
		must(f, "Delete", ID, NULL);
		assert_null(db(f));
		provider.calls[CALL_CREATE] = 0;
	}
}

PROVIDER_TEST(work_left_by_a_crash_is_resumed_unasked)
{
	struct pending pending;

	provider_order(CALL_CREATE, PROVIDER_HOLD_DONE, 1, STATUS_OK);
	start_asking(f, "Create", DB, &pending);
	UNTIL(f, provider.calls[CALL_CREATE] == 1);
	settle(f);
	provider_crash(f);
	UNTIL(f,
	      !detail_of(f, "db") || detail_of(f, "db")->phase == HOLDFAST__V1__VOLUME_PHASE__VOLUME_READY);
	assert_string_equal(db(f)->volume.external_id, "vol-1");
	assert_int_equal(provider_volumes(), 1);
}

CASE(a_provider_that_refuses_leaves_no_volume)
{
	static const enum status codes[] = {STATUS_INVALID_ARGUMENT, STATUS_OUT_OF_RANGE,
					    STATUS_ALREADY_EXISTS, STATUS_RESOURCE_EXHAUSTED,
					    STATUS_NOT_FOUND};

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		provider_order(CALL_CREATE, PROVIDER_FAIL, 1, codes[i]);
		refuses(f, "Create", DB, codes[i], "the provider's words");
		assert_null(db(f));
		assert_null(detail_of(f, "db"));
	}
}

PROVIDER_TEST(a_provider_that_may_have_made_it_is_asked_again_under_the_same_name)
{
	provider_order(CALL_CREATE, PROVIDER_FAIL_DONE, 1, STATUS_DEADLINE_EXCEEDED);
	refuses(f, "Create", DB, STATUS_DEADLINE_EXCEEDED, "the provider's words");
	assert_non_null(strstr(detail_of(f, "db")->phase_error, "the provider's words"));
	provider_order(CALL_CREATE, PROVIDER_FAIL, 1, STATUS_INVALID_ARGUMENT);
	refuses(f, "Create", DB, STATUS_INVALID_ARGUMENT, "the provider's words");
	assert_non_null(db(f)); /* the first try may have made it: it must not be forgotten */
	must(f, "Create", DB, "vol-1");
	assert_int_equal(provider_volumes(), 1);
}

PROVIDER_TEST(deregistering_names_leftovers_of_an_unfinished_creation)
{
	provider_order(CALL_CREATE, PROVIDER_FAIL_DONE, 1, STATUS_DEADLINE_EXCEEDED);
	refuses(f, "Create", DB, STATUS_DEADLINE_EXCEEDED, "the provider's words");
	must(f, "Deregister", ID, "\"leftAtProvider\":\"c1-db-");
	assert_int_equal(provider_volumes(), 1);
	must(f, "Register", DB, NULL);
	must(f, "Deregister", ID, NULL);
}

PROVIDER_TEST(it_is_also_asked_again_by_the_server_itself)
{
	provider_order(CALL_CREATE, PROVIDER_FAIL, 1, STATUS_UNAVAILABLE);
	refuses(f, "Create", DB, STATUS_UNAVAILABLE, "the provider's words");
	UNTIL(f, db(f) && db(f)->volume.external_id[0] != '\0');
}

PROVIDER_TEST(a_try_that_fails_as_the_one_before_is_not_stored)
{
	uint64_t before;

	provider_order(CALL_CREATE, PROVIDER_FAIL, 1000, STATUS_UNAVAILABLE);
	refuses(f, "Create", DB, STATUS_UNAVAILABLE, "the provider's words");
	settle(f); /* the first one is stored */
	before = kv_revision(f->server->kv);
	UNTIL(f, provider.calls[CALL_CREATE] > 2);
	settle(f);
	assert_int_equal(kv_revision(f->server->kv), before);
	provider.words = "another cause";
	UNTIL(f, strstr(detail_of(f, "db")->phase_error, "another cause"));
	provider.words = NULL;
	provider_order(CALL_CREATE, PROVIDER_OK, 1, STATUS_OK);
	UNTIL(f, db(f)->volume.external_id[0] != '\0');
}

PROVIDER_TEST(a_made_volume_without_a_usable_id_is_kept_in_mind)
{
	provider.names_nothing = true;
	refuses(f, "Create", DB, STATUS_INTERNAL, "named it with no id");
	assert_int_equal(detail_of(f, "db")->phase, HOLDFAST__V1__VOLUME_PHASE__VOLUME_CREATING);
	provider.names_nothing = false;
	provider.names_made = "vol\n1"; /* of a controller's node; no start could read it */
	refuses(f, "Create", DB, STATUS_INTERNAL, "one that is no text");
	assert_string_equal(db(f)->volume.external_id, "");
	provider_crash(f);
	assert_int_equal(detail_of(f, "db")->phase, HOLDFAST__V1__VOLUME_PHASE__VOLUME_CREATING);
	provider.names_made = NULL;
	must(f, "Create", DB, "vol-1");
}

PROVIDER_TEST(creating_an_existing_volume_updates_and_expands_it)
{
	must(f, "Create", "{\"volume\":{" DB_HEAD ",\"capacityMin\":\"10\"}}", "\"created\":true");
	must(f, "Create", "{\"volume\":{" DB_HEAD ",\"capacityMin\":\"10\"}}", NULL);
	assert_int_equal(provider.calls[CALL_CREATE], 1);
	assert_int_equal(provider.calls[CALL_EXPAND], 0);
	must(f, "Create", "{\"volume\":{" DB_HEAD ",\"capacityMin\":\"30\"}}", "\"capacity\":\"30\"");
	assert_int_equal(provider.calls[CALL_CREATE], 1);
	assert_int_equal(provider.calls[CALL_EXPAND], 1);
	must(f, "Register", "{\"volume\":{" DB_HEAD ",\"capacityMin\":\"40\"}}", "\"capacity\":\"40\"");
	assert_int_equal(provider.calls[CALL_EXPAND], 2);
}

#define SHARED_MODE "{\"accessMode\":\"MULTI_NODE_MULTI_WRITER\",\"attachmentMode\":\"FILE_SYSTEM\"}"
#define WITH_MODES(modes, more)                                                                              \
	"{\"volume\":{\"id\":\"db\",\"type\":\"CSI\",\"pluginId\":\"nfs\",\"requestedCapabilities\":[" modes \
	"]" more "}}"
#define SHARED WITH_MODES(SHARED_MODE, "")
#define BOTH                                                                                               \
	WITH_MODES(                                                                                        \
		"{\"accessMode\":\"SINGLE_NODE_WRITER\",\"attachmentMode\":\"FILE_SYSTEM\"}," SHARED_MODE, \
		",\"context\":{\"made\":\"by me\"}")

PROVIDER_TEST(other_capabilities_of_an_existing_volume_are_confirmed_by_its_plugin)
{
	static const char *const others[] = {SHARED, BOTH};

	must(f, "Create", DB, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		provider.does_not_confirm = true;
		refuses(f, "Create", others[i], STATUS_FAILED_PRECONDITION,
			"multi-node-multi-writer/file-system: it is too old");
		provider.does_not_confirm = false;
		provider_order(CALL_VALIDATE, PROVIDER_FAIL, 1, STATUS_UNIMPLEMENTED);
		refuses(f, "Create", others[i], STATUS_UNIMPLEMENTED, "--unconfirmed REASON");
		assert_int_equal(db(f)->volume.n_capabilities, 1);
		assert_int_equal(db(f)->volume.capabilities[0].access_mode, SINGLE_NODE_WRITER);
	}
	provider.calls[CALL_VALIDATE] = 0;
	must(f, "Create", BOTH, "\"externalId\":\"vol-1\"");
	assert_int_equal(db(f)->volume.n_capabilities, 2);
	must(f, "Create", DB, NULL); /* one less */
	assert_int_equal(db(f)->volume.n_capabilities, 1);
	assert_int_equal(provider.calls[CALL_VALIDATE], 2);
	must(f, "Create", DB, NULL);
	must(f, "Create", "{\"volume\":{" DB_HEAD ",\"secrets\":{\"k\":\"v\"}}}", NULL);
	assert_int_equal(provider.calls[CALL_VALIDATE], 2); /* no other capabilities */
	assert_int_equal(provider.calls[CALL_CREATE], 1);
}

PROVIDER_TEST(a_volume_deregistered_while_its_plugin_confirms_is_not_made_again)
{
	struct pending pending;

	must(f, "Create", DB, NULL);
	provider_order(CALL_VALIDATE, PROVIDER_HOLD, 1, STATUS_OK);
	start_asking(f, "Create", SHARED, &pending);
	UNTIL(f, provider.calls[CALL_VALIDATE] == 1);
	must(f, "Deregister", ID, NULL);
	provider_answer();
	UNTIL(f, pending.ended);
	assert_int_equal(pending.status, STATUS_ABORTED);
	assert_null(db(f));
	assert_int_equal(provider.calls[CALL_CREATE], 1);
}

/* The answer to the call in flight would confirm what the provider was not asked about. */
PROVIDER_TEST(a_volume_that_is_being_created_gets_no_other_capabilities)
{
	struct pending pending;

	provider_order(CALL_CREATE, PROVIDER_HOLD, 1, STATUS_OK);
	start_asking(f, "Create", DB, &pending);
	UNTIL(f, provider.calls[CALL_CREATE] == 1);
	refuses(f, "Create", SHARED, STATUS_FAILED_PRECONDITION, "holdfast volume register FILE");
	provider_answer();
	UNTIL(f, pending.ended);
	assert_int_equal(pending.status, STATUS_OK);
	assert_int_equal(db(f)->volume.n_capabilities, 1);
	assert_int_equal(db(f)->volume.capabilities[0].access_mode, SINGLE_NODE_WRITER);
	assert_int_equal(provider.calls[CALL_VALIDATE], 0);
}

#define WITH_PASS(pass, more) "{\"volume\":{" DB_HEAD ",\"secrets\":{\"pass\":\"" pass "\"}" more "}}"

PROVIDER_TEST(an_answer_says_whether_stored_secrets_were_replaced)
{
	static const struct {
		const char *method, *json;
		bool replaced;
	} cases[] = {
		{"Create", WITH_PASS("a", ""), false}, /* it is new */
		{"Register", WITH_PASS("a", ""), false},
		{"Register", WITH_PASS("[redacted]", ",\"description\":\"d\""), false},
		{"Register", WITH_PASS("b", ""), true},
		{"Create", WITH_PASS("b", ""), false},
		{"Create", WITH_PASS("c", ""), true},
		{"Create", WITH_PASS("d", ",\"capacityMin\":\"30\""), true},   /* its provider expands it */
		{"Register", WITH_PASS("e", ",\"capacityMin\":\"40\""), true}, /* the same */
		{"Register", WITH_PASS("e", ",\"capacityMin\":\"50\""), false},
	};
	static struct answer answer;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(ask(f, cases[i].method, cases[i].json, &answer), STATUS_OK);
		assert_msg(cases[i].replaced == !!strstr(answer.json, "\"secretsReplaced\":true"),
			   "case %zu: %s", i, answer.json);
	}
}

CASE(a_file_does_not_overwrite_provider_answers)
{
	static const char file[] = "{\"volume\":{" DB_HEAD
				   ",\"capacityMin\":\"10\",\"capacity\":\"99\",\"context\":{\"made\":\"by "
				   "me\",\"b\":\"c\"},\"topologies\":[{\"segments\":{\"zone\":\"x\"}}]}}";

	provider.n_topologies = 1;
	for (int i = 0; i < 3; i++) {
		const Holdfast__V1__VolumeDetail *detail;

		must(f, "Create", file, "\"externalId\":\"vol-1\"");
		detail = detail_of(f, "db");
		assert_int_equal(detail->n_context, 1);
		assert_string_equal(detail->context[0]->key, "made");
		assert_string_equal(detail->context[0]->value, "vol-1");
		assert_int_equal(detail->n_topologies, 1);
		assert_string_equal(detail->topologies[0]->segments[0]->value, "z");
		assert_int_equal(detail->capacity, 10);
		if (i == 1)
			provider_crash(f);
	}
	assert_int_equal(provider.calls[CALL_CREATE], 1);
	refuses(f, "Register", "{\"volume\":{" DB_HEAD ",\"context\":{\"made\":\"by me\"}}}",
		STATUS_FAILED_PRECONDITION, "context: volume db was made by plugin nfs");
	refuses(f, "Create", "{\"volume\":{" DB_HEAD ",\"externalId\":\"vol-2\"}}",
		STATUS_FAILED_PRECONDITION, "external_id");
	must(f, "Register", "{\"volume\":{" DB_HEAD ",\"context\":{\"made\":\"vol-1\"}}}", NULL);
	must(f, "Get", ID, "\"made\":\"vol-1\"");
}

/* Each empty one takes two bytes of the answer, and fifty of the namespace's memory. */
PROVIDER_TEST(a_provider_gives_a_volume_at_most_so_many_topologies)
{
	provider.n_topologies = VOLUME_TOPOLOGIES_MAX + 1;
	refuses(f, "Create", DB, STATUS_INTERNAL, "topologies: 65 entries, at most 64");
	assert_int_equal(detail_of(f, "db")->n_topologies, 0);
	provider.n_topologies = VOLUME_TOPOLOGIES_MAX;
	must(f, "Create", DB, NULL);
	assert_int_equal(detail_of(f, "db")->n_topologies, VOLUME_TOPOLOGIES_MAX);
}

PROVIDER_TEST(a_volume_in_use_is_not_deleted_and_its_provider_not_asked)
{
	must(f, "Create", DB, NULL);
	claim_volume(f, "db", "n1", 1);
	refuses(f, "Delete", ID, STATUS_FAILED_PRECONDITION, "node n1");
	assert_string_equal(detail_of(f, "db")->phase_error, ""); /* nothing was begun */
	refuses(f, "Deregister", ID, STATUS_FAILED_PRECONDITION, "node n1");
	assert_int_equal(provider.calls[CALL_DELETE], 0);
	assert_int_equal(provider_volumes(), 1);
	free_claims(f, "db");
	must(f, "Delete", ID, NULL);
	assert_null(db(f));
	assert_null(detail_of(f, "db"));
	assert_int_equal(provider_volumes(), 0);
	refuses(f, "Delete", ID, STATUS_NOT_FOUND, "no volume db");
}

/* An "apply --prune" has read db, and asks a person. */
PROVIDER_TEST(a_volume_that_has_changed_since_it_was_read_is_neither_deleted_nor_deregistered)
{
	char delete_read[128], deregister_read[128];
	uint64_t index;

	must(f, "Register", "{\"volume\":{" DB_HEAD ",\"reclaim\":\"RECLAIM_DELETE\"}}", NULL);
	index = db(f)->volume.create_index;
	assert_true(index > 0);
	(void)str_format(delete_read, sizeof(delete_read),
			 "{\"id\":\"db\",\"ifCreateIndex\":%" PRIu64 ",\"ifReclaimed\":true}", index);
	(void)str_format(deregister_read, sizeof(deregister_read),
			 "{\"id\":\"db\",\"ifCreateIndex\":%" PRIu64 "}", index);
	must(f, "Register", "{\"volume\":{" DB_HEAD ",\"reclaim\":\"RECLAIM_KEEP\"}}", NULL);
	assert_int_equal(db(f)->volume.create_index, index);
	refuses(f, "Delete", delete_read, STATUS_FAILED_PRECONDITION, "volume db has changed since");
	must(f, "Register", DB, NULL);
	refuses(f, "Delete", delete_read, STATUS_FAILED_PRECONDITION, "its data is kept (reclaim)");
	must(f, "Deregister", deregister_read, NULL);
	must(f, "Register", "{\"volume\":{" DB_HEAD ",\"reclaim\":\"RECLAIM_DELETE\"}}", NULL);
	refuses(f, "Delete", delete_read, STATUS_FAILED_PRECONDITION, "it was registered again");
	refuses(f, "Deregister", deregister_read, STATUS_FAILED_PRECONDITION, "it was registered again");
	assert_int_equal(provider.calls[CALL_DELETE], 0);
	provider_crash(f); /* the index is the store's */
	index = db(f)->volume.create_index;
	(void)str_format(delete_read, sizeof(delete_read),
			 "{\"id\":\"db\",\"ifCreateIndex\":%" PRIu64 ",\"ifReclaimed\":true}", index);
	must(f, "Delete", delete_read, NULL);
	assert_null(db(f));
}

PROVIDER_TEST(a_volume_being_deleted_cannot_be_claimed)
{
	struct pending pending;

	must(f, "Create", DB, NULL);
	provider_order(CALL_DELETE, PROVIDER_HOLD, 1, STATUS_OK);
	start_asking(f, "Delete", ID, &pending);
	UNTIL(f, provider.calls[CALL_DELETE] == 1);
	assert_int_equal(volume_store_check_usable(f->server, &db(f)->volume, NULL),
			 STATUS_FAILED_PRECONDITION);
	must(f, "Get", ID, "being deleted");
	refuses(f, "Register", DB, STATUS_FAILED_PRECONDITION, "being deleted");
	refuses(f, "Create", DB, STATUS_FAILED_PRECONDITION, "being deleted");
	provider_answer();
	UNTIL(f, pending.ended);
	assert_int_equal(pending.status, STATUS_OK);
}

CASE(a_server_that_dies_while_deleting_continues)
{
	static const enum provider_outcome steps[] = {PROVIDER_HOLD, PROVIDER_HOLD_DONE};

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		struct pending pending;

		must(f, "Create", DB, NULL);
		provider.calls[CALL_DELETE] = 0;
		provider_order(CALL_DELETE, steps[i], 1, STATUS_OK);
		start_asking(f, "Delete", ID, &pending);
		UNTIL(f, provider.calls[CALL_DELETE] == 1);
		settle(f);
		provider_crash(f);
		assert_int_equal(detail_of(f, "db")->phase, HOLDFAST__V1__VOLUME_PHASE__VOLUME_DELETING);
		if (steps[i] == PROVIDER_HOLD_DONE)
			provider_order(CALL_DELETE, PROVIDER_FAIL, 1, STATUS_NOT_FOUND); /* gone is gone */
		must(f, "Delete", ID, NULL);
		assert_null(db(f));
		assert_int_equal(provider_volumes(), 0);
	}
}

PROVIDER_TEST(a_deletion_of_a_volume_now_in_use_is_given_up)
{
	struct pending pending;

	must(f, "Create", DB, NULL);
	provider_order(CALL_DELETE, PROVIDER_HOLD, 1, STATUS_OK);
	start_asking(f, "Delete", ID, &pending);
	UNTIL(f, provider.calls[CALL_DELETE] == 1);
	settle(f);
	provider_crash(f); /* into a server that learns of a claim, as after a restore */
	claim_volume(f, "db", "n1", 1);
	UNTIL(f, detail_of(f, "db")->phase == HOLDFAST__V1__VOLUME_PHASE__VOLUME_READY);
	assert_non_null(strstr(detail_of(f, "db")->phase_error, "node n1"));
	assert_int_equal(provider.calls[CALL_DELETE], 1);
	assert_int_equal(provider_volumes(), 1);
	free_claims(f, "db");
}

PROVIDER_TEST(claims_that_are_learned_of_while_a_volume_is_deleted_are_kept)
{
	struct pending pending;

	must(f, "Create", DB, NULL);
	provider_order(CALL_DELETE, PROVIDER_HOLD, 1, STATUS_OK);
	start_asking(f, "Delete", ID, &pending);
	UNTIL(f, provider.calls[CALL_DELETE] == 1);
	settle(f);
	claim_volume(f, "db", "n1", 1);
	provider_answer();
	UNTIL(f, pending.ended);
	assert_int_equal(pending.status, STATUS_FAILED_PRECONDITION);
	assert_int_equal(db(f)->n_live, 1);
	assert_non_null(strstr(detail_of(f, "db")->phase_error, "although it is in use"));
	free_claims(f, "db");
}

static void put_epoch(struct fixture *f)
{
	Holdfast__V1__Epoch epoch = V1(epoch, .number = 1);
	char key[] = KEY_EPOCH;
	struct record record = {.key = key, .message = &epoch.base};

	assert_int_equal(records_put(&f->server->state.records, &record, NULL), STATUS_OK);
}

static void delete_in_line(struct fixture *f, struct pending *ret)
{
	must(f, "Create", DB, NULL);
	provider_order(CALL_DELETE, PROVIDER_QUEUE, 1, STATUS_OK);
	start_asking(f, "Delete", ID, ret);
	UNTIL(f, provider.calls[CALL_DELETE] == 1);
	settle(f);
}

static void store_report(struct fixture *f, struct node node)
{
	cleanup(change_release) struct change change = CHANGE_INIT;

	node.reported_epoch = 1;
	change_put_node(&change, &node);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
}

/* A report may bring its claim. */
PROVIDER_TEST(a_deletion_in_the_line_of_its_plugin_waits_for_a_node_that_must_report_again)
{
	struct node node = {.id = "n1", .boot_id = BOOT_1, .create_time_ms = 1};
	struct pending pending;
	uint64_t since_us;

	delete_in_line(f, &pending);
	put_epoch(f);
	assert_int_equal(state_put_node(&f->server->state, &node, NULL), STATUS_OK);
	provider_answer();
	UNTIL(f, pending.ended);
	assert_int_equal(pending.status, STATUS_UNAVAILABLE);
	assert_non_null(strstr(pending.message, "node n1 may hold it"));
	run_for(f->event, 20000); /* the pauses of its tries grow */
	assert_int_equal(detail_of(f, "db")->phase, HOLDFAST__V1__VOLUME_PHASE__VOLUME_DELETING);
	assert_int_equal(provider.calls[CALL_DELETE], 1);
	assert_int_equal(provider_volumes(), 1);
	store_report(f, node);
	since_us = clock_monotonic_us();
	UNTIL(f, !db(f));
	assert_in_range(clock_monotonic_us() - since_us, 0, USEC_PER_SEC); /* not at its next try */
	assert_int_equal(provider.calls[CALL_DELETE], 2);
	assert_int_equal(provider_volumes(), 0);
}

/* The node may have by another name what the provider makes by this one. */
static void report_before_a_creation(struct fixture *f)
{
	struct node node = {.id = "n1", .boot_id = BOOT_1, .create_time_ms = 1};
	struct pending pending;

	provider_order(CALL_CREATE, PROVIDER_QUEUE, 1, STATUS_OK);
	start_asking(f, "Create", DB, &pending);
	UNTIL(f, provider.calls[CALL_CREATE] == 1);
	settle(f);
	put_epoch(f);
	assert_int_equal(state_put_node(&f->server->state, &node, NULL), STATUS_OK);
	provider_answer();
	UNTIL(f, pending.ended);
	assert_int_equal(pending.status, STATUS_UNAVAILABLE);
	assert_non_null(strstr(pending.message, "n1"));
	run_for(f->event, 20000); /* the pauses of its tries grow */
	assert_int_equal(detail_of(f, "db")->phase, HOLDFAST__V1__VOLUME_PHASE__VOLUME_CREATING);
	assert_int_equal(provider_volumes(), 0);
	store_report(f, node);
}

PROVIDER_TEST(a_creation_in_the_line_of_its_plugin_waits_for_a_node_that_must_report_again)
{
	uint64_t since_us;

	report_before_a_creation(f);
	since_us = clock_monotonic_us();
	UNTIL(f, detail_of(f, "db")->phase == HOLDFAST__V1__VOLUME_PHASE__VOLUME_READY);
	assert_in_range(clock_monotonic_us() - since_us, 0, USEC_PER_SEC); /* not at its next try */
	assert_int_equal(provider.calls[CALL_CREATE], 2);
}

/* It was not sent before: the refusal is the end. */
PROVIDER_TEST(a_creation_that_waited_and_is_refused_then_is_forgotten)
{
	report_before_a_creation(f);
	provider_order(CALL_CREATE, PROVIDER_FAIL, 1, STATUS_INVALID_ARGUMENT);
	UNTIL(f, !db(f));
	assert_int_equal(provider.calls[CALL_CREATE], 2);
}

PROVIDER_TEST(a_deletion_in_the_line_of_its_plugin_ends_when_the_volume_is_in_use)
{
	struct pending pending;

	delete_in_line(f, &pending);
	claim_volume(f, "db", "n1", 1);
	provider_answer();
	UNTIL(f, pending.ended);
	assert_int_equal(pending.status, STATUS_FAILED_PRECONDITION);
	assert_non_null(strstr(pending.message, "node n1"));
	settle(f);
	assert_int_equal(detail_of(f, "db")->phase, HOLDFAST__V1__VOLUME_PHASE__VOLUME_READY);
	assert_int_equal(provider_volumes(), 1);
	assert_int_equal(provider.calls[CALL_DELETE], 1);
	free_claims(f, "db");
	must(f, "Delete", ID, NULL);
}

/* Its record may have been replaced meanwhile. */
PROVIDER_TEST(a_deletion_in_the_line_of_its_plugin_ends_when_its_record_is_another)
{
	cleanup(volume_parts_release) struct volume_parts parts = VOLUME_PARTS_INIT;
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct pending pending;

	delete_in_line(f, &pending);
	assert_int_equal(volume_store_load(f->server, db(f), &parts, NULL), STATUS_OK);
	parts.detail->phase = HOLDFAST__V1__VOLUME_PHASE__VOLUME_READY;
	volume_store_stage(f->server, &change, &parts);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	provider_answer();
	UNTIL(f, pending.ended);
	assert_non_null(db(f));
	assert_int_equal(provider_volumes(), 1);
}

CASE(after_a_restore_nothing_is_deleted_before_all_nodes_have_reported)
{
	struct node node = {.id = "n1", .boot_id = BOOT_1, .create_time_ms = 1};

	must(f, "Create", DB, NULL);
	put_epoch(f);
	assert_int_equal(state_put_node(&f->server->state, &node, NULL), STATUS_OK);
	refuses(f, "Delete", ID, STATUS_UNAVAILABLE, "node n1 may hold it");
	refuses(f, "Deregister", ID, STATUS_UNAVAILABLE, "node n1 may hold it");
	assert_int_equal(provider.calls[CALL_DELETE], 0);
	node.reported_epoch = 1;
	assert_int_equal(state_put_node(&f->server->state, &node, NULL), STATUS_OK);
	must(f, "Delete", ID, NULL);
}

PROVIDER_TEST(a_provider_that_will_not_delete_leaves_the_volume_as_it_was)
{
	must(f, "Create", DB, NULL);
	provider_order(CALL_DELETE, PROVIDER_FAIL, 1, STATUS_FAILED_PRECONDITION);
	refuses(f, "Delete", ID, STATUS_FAILED_PRECONDITION, "the provider's words");
	assert_int_equal(detail_of(f, "db")->phase, HOLDFAST__V1__VOLUME_PHASE__VOLUME_READY);
	must(f, "Get", ID, "the provider's words");
	assert_int_equal(volume_store_check_usable(f->server, &db(f)->volume, NULL), STATUS_OK);
	provider_order(CALL_DELETE, PROVIDER_FAIL, 1, STATUS_DEADLINE_EXCEEDED);
	refuses(f, "Delete", ID, STATUS_DEADLINE_EXCEEDED, "the provider's words");
	assert_int_equal(detail_of(f, "db")->phase, HOLDFAST__V1__VOLUME_PHASE__VOLUME_DELETING);
	UNTIL(f, !db(f)); /* by itself */
}

PROVIDER_TEST(expanding_keeps_requested_backend_and_file_system_apart)
{
	struct answer answer;

	must(f, "Create", "{\"volume\":{" DB_HEAD ",\"capacityMin\":\"10\"}}", NULL);
	claim_volume(f, "db", "n1", 1);
	claim_volume(f, "db", "n2", 2);
	claim_volume(f, "db", "n2", 3); /* one file system per node */
	provider.needs_node_expansion = true;
	provider.node_bytes = 29;
	provider_order(CALL_NODE_EXPAND, PROVIDER_FAIL, 1, STATUS_UNAVAILABLE);
	refuses(f, "Expand", "{\"id\":\"db\",\"capacityMin\":\"30\"}", STATUS_UNAVAILABLE,
		"has 30 bytes at its provider, but its file system on node n1 is behind");
	assert_string_equal(provider.nodes, "n1,n2,"); /* one that is behind delays no other */
	assert_int_equal(provider.last_attachment_mode, ATTACHMENT_FILE_SYSTEM);
	assert_int_equal(ask(f, "Get", ID, &answer), STATUS_OK);
	assert_non_null(strstr(answer.json, "\"capacityMin\":\"30\""));
	assert_non_null(strstr(answer.json, "\"capacity\":\"30\""));
	assert_non_null(strstr(answer.json, "{\"nodeId\":\"n2\",\"bytes\":\"29\"}"));
	assert_non_null(strstr(answer.json, "VOLUME_EXPANDING"));
	must(f, "Expand", "{\"id\":\"db\",\"capacityMin\":\"30\"}", "{\"nodeId\":\"n1\",\"bytes\":\"29\"}");
	assert_string_equal(provider.nodes, "n1,n2,n1,"); /* only the step that was behind */
	assert_int_equal(provider.calls[CALL_EXPAND], 1);
}

static void expand_not_on_n1(struct fixture *f, const struct claim *of_n1)
{
	cleanup(change_release) struct change change = CHANGE_INIT;

	change_put_claim(&change, of_n1);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	provider.needs_node_expansion = true;
	must(f, "Expand", "{\"id\":\"db\",\"capacityMin\":\"30\"}", NULL);
	assert_string_equal(provider.nodes, "n2,");
}

/* The machine that is the node now has not mounted it, and would be sent its secrets. */
PROVIDER_TEST(a_volume_is_not_expanded_on_another_machine_than_its_holder)
{
	struct claim claim;

	must(f, "Create", "{\"volume\":{" DB_HEAD ",\"capacityMin\":\"10\"}}", NULL);
	claim_volume(f, "db", "n1", 1);
	claim_volume(f, "db", "n2", 2);
	claim = LIST_FIRST(&state_node(&f->server->state, "n1")->claims)->claim;
	claim.other_machine = true;
	expand_not_on_n1(f, &claim);
}

/* That would end the expansion without one of the file system, and give the provider a wrong capability. */
PROVIDER_TEST(a_claim_without_proof_expands_nothing)
{
	struct claim claim;

	must(f, "Create", "{\"volume\":{" DB_HEAD ",\"capacityMin\":\"10\"}}", NULL);
	claim_volume(f, "db", "n2", 2);
	claim_volume(f, "db", "n1", 1); /* the newest */
	claim = LIST_FIRST(&state_node(&f->server->state, "n1")->claims)->claim;
	claim.adopted = true;
	claim.attachment_mode = ATTACHMENT_BLOCK_DEVICE;
	expand_not_on_n1(f, &claim);
	assert_int_equal(provider.last_attachment_mode, ATTACHMENT_FILE_SYSTEM);
}

CASE(a_server_that_dies_while_expanding_continues_where_it_was)
{
	static const struct {
		int call;
		enum provider_outcome outcome;
	} steps[] = {{CALL_EXPAND, PROVIDER_HOLD},
		     {CALL_EXPAND, PROVIDER_HOLD_DONE},
		     {CALL_NODE_EXPAND, PROVIDER_HOLD},
		     {CALL_NODE_EXPAND, PROVIDER_HOLD_DONE}};
	char request[64];

	must(f, "Create", "{\"volume\":{" DB_HEAD ",\"capacityMin\":\"10\"}}", NULL);
	provider.needs_node_expansion = true;
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		struct pending pending;
		uint64_t size = 20 + i;

		(void)str_format(request, sizeof(request), "{\"id\":\"db\",\"capacityMin\":\"%d\"}",
				 (int)size);
		claim_volume(f, "db", "n1", 1);
		provider.calls[steps[i].call] = 0;
		provider_order(steps[i].call, steps[i].outcome, 1, STATUS_OK);
		start_asking(f, "Expand", request, &pending);
		UNTIL(f, provider.calls[steps[i].call] == 1);
		settle(f);
		provider_crash(f);
		claim_volume(f, "db", "n1", 1); /* it was in memory only */
		assert_int_equal(detail_of(f, "db")->phase, HOLDFAST__V1__VOLUME_PHASE__VOLUME_EXPANDING);
		assert_int_equal(detail_of(f, "db")->capacity_min, size);
		must(f, "Expand", request, "\"capacity\"");
		assert_int_equal(detail_of(f, "db")->phase, HOLDFAST__V1__VOLUME_PHASE__VOLUME_READY);
		assert_int_equal(detail_of(f, "db")->capacity, size);
		assert_int_equal(detail_of(f, "db")->node_capacities[0]->bytes, size);
	}
}

/* The node's mount receipt. */
static void mount_as(struct fixture *f, const char *id, const char *node, int n, enum claim_mode mode)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct claim claim;

	claim_volume(f, id, node, n);
	claim = LIST_FIRST(&state_volume(&f->server->state, "default", id)->claims)->claim;
	claim.mode = mode;
	change_put_claim(&change, &claim);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
}

static void mount_volume(struct fixture *f, const char *id, const char *node, int n)
{
	mount_as(f, id, node, n, CLAIM_WRITE);
}

static bool is_ready(struct fixture *f)
{
	return detail_of(f, "db")->phase == HOLDFAST__V1__VOLUME_PHASE__VOLUME_READY;
}

PROVIDER_TEST(an_offline_expansion_finishes_on_the_next_mounting_node)
{
	must(f, "Create", "{\"volume\":{" DB_HEAD ",\"capacityMin\":\"10\"}}", NULL);
	mount_volume(f, "db", "n1", 1);
	settle(f);
	assert_string_equal(provider.nodes, ""); /* nothing was expanded */
	free_claims(f, "db");
	provider.needs_node_expansion = true;
	must(f, "Expand", "{\"id\":\"db\",\"capacityMin\":\"30\"}", NULL);
	assert_true(is_ready(f));
	assert_true(detail_of(f, "db")->node_expansion_due);
	provider_crash(f); /* that it is due is stored */
	assert_true(detail_of(f, "db")->node_expansion_due);
	/* it was unmounted again before it could be expanded: still due */
	provider_order(CALL_NODE_EXPAND, PROVIDER_FAIL, 1, STATUS_NOT_FOUND);
	mount_volume(f, "db", "n1", 2);
	UNTIL(f, str_eq(provider.nodes, "n1,") && is_ready(f));
	assert_true(detail_of(f, "db")->node_expansion_due);
	free_claims(f, "db");
	provider.node_bytes = 29;
	mount_volume(f, "db", "n2", 3);
	UNTIL(f, str_eq(provider.nodes, "n1,n2,") && is_ready(f));
	assert_false(detail_of(f, "db")->node_expansion_due);
	assert_int_equal(detail_of(f, "db")->n_node_capacities, 1);
	assert_string_equal(detail_of(f, "db")->node_capacities[0]->node_id, "n2");
	assert_int_equal(detail_of(f, "db")->node_capacities[0]->bytes, 29);
	free_claims(f, "db");
	mount_volume(f, "db", "n1", 4); /* it is one file system */
	settle(f);
	assert_string_equal(provider.nodes, "n1,n2,");
	assert_int_equal(provider.calls[CALL_EXPAND], 1);
}

/* The file system of a copy is as large as that of its source. */
CASE(a_copy_is_grown_by_the_next_node_that_mounts_it_for_write)
{
	static const struct {
		const char *source, *mode;
		bool cannot_expand, is_due;
	} cases[] = {
		{",\"snapshotId\":\"s\"", "FILE_SYSTEM", false, true},
		{",\"cloneId\":\"c\"", "FILE_SYSTEM", false, true},
		{"", "FILE_SYSTEM", false, false},
		{",\"cloneId\":\"c\"", "BLOCK_DEVICE", false, false},
		{",\"cloneId\":\"c\"", "FILE_SYSTEM", true, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char request[512];

		provider.cannot_expand_on_nodes = cases[i].cannot_expand;
		provider_report(f);
		(void)str_format(request, sizeof(request),
				 "{\"volume\":{\"id\":\"db\",\"type\":\"CSI\",\"pluginId\":\"nfs\","
				 "\"requestedCapabilities\":[{\"accessMode\":\"SINGLE_NODE_WRITER\","
				 "\"attachmentMode\":\"%s\"}],\"capacityMin\":\"10\"%s}}",
				 cases[i].mode, cases[i].source);
		must(f, "Create", request, cases[i].is_due ? "\"nodeExpansionDue\":true" : NULL);
		assert_int_equal(detail_of(f, "db")->node_expansion_due, cases[i].is_due);
		provider.nodes[0] = '\0';
		mount_as(f, "db", "n1", 1, CLAIM_READ); /* a read-only file system cannot grow */
		settle(f);
		assert_string_equal(provider.nodes, "");
		free_claims(f, "db");
		mount_volume(f, "db", "n1", 2);
		UNTIL(f, str_eq(provider.nodes, cases[i].is_due ? "n1," : "") && is_ready(f));
		assert_false(detail_of(f, "db")->node_expansion_due);
		free_claims(f, "db");
		must(f, "Delete", ID, NULL);
	}
	assert_int_equal(provider.calls[CALL_EXPAND], 0);
}

PROVIDER_TEST(a_caller_does_not_set_the_mark_of_an_expansion)
{
	must(f, "Register", "{\"volume\":{" DB_HEAD ",\"description\":\"d\",\"nodeExpansionDue\":true}}",
	     NULL);
	assert_false(detail_of(f, "db")->node_expansion_due);
}

PROVIDER_TEST(expanding_to_the_present_size_has_the_nodes_grow_it)
{
	must(f, "Create", "{\"volume\":{" DB_HEAD ",\"capacityMin\":\"10\"}}", NULL);
	mount_volume(f, "db", "n1", 1);
	must(f, "Expand", "{\"id\":\"db\",\"capacityMin\":\"10\"}", "{\"nodeId\":\"n1\",\"bytes\":\"10\"}");
	assert_string_equal(provider.nodes, "n1,");
	must(f, "Expand", "{\"id\":\"db\",\"capacityMin\":\"10\"}",
	     NULL); /* its file system may be behind again */
	assert_string_equal(provider.nodes, "n1,n1,");
	free_claims(f, "db");
	must(f, "Expand", "{\"id\":\"db\",\"capacityMin\":\"10\"}", "\"nodeExpansionDue\":true");
	assert_true(is_ready(f));
	mount_volume(f, "db", "n2", 2);
	UNTIL(f, str_eq(provider.nodes, "n1,n1,n2,") && is_ready(f));
	assert_int_equal(provider.calls[CALL_EXPAND], 0);
	free_claims(f, "db");
	provider.cannot_expand_on_nodes = true;
	provider_report(f);
	must(f, "Expand", "{\"id\":\"db\",\"capacityMin\":\"10\"}", NULL);
	assert_false(detail_of(f, "db")->node_expansion_due);
}

PROVIDER_TEST(an_expansion_does_not_wait_for_a_node_that_released_the_volume)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct claim claim;

	must(f, "Create", "{\"volume\":{" DB_HEAD ",\"capacityMin\":\"10\"}}", NULL);
	provider.needs_node_expansion = true;
	mount_volume(f, "db", "n1", 1);
	provider_order(CALL_NODE_EXPAND, PROVIDER_FAIL, 100, STATUS_UNAVAILABLE);
	refuses(f, "Expand", "{\"id\":\"db\",\"capacityMin\":\"30\"}", STATUS_UNAVAILABLE, "is behind");
	assert_false(is_ready(f));
	claim = LIST_FIRST(&db(f)->claims)->claim;
	claim.state = CLAIM_NODE_DETACHED;
	change_put_claim(&change, &claim);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	run_for(f->event, 100); /* the next try is half a second away, or more */
	assert_true(is_ready(f));
	assert_string_equal(provider.nodes, "n1,"); /* no other try */
	must(f, "Get", ID, "\"nodeExpansionDue\":true");
}

PROVIDER_TEST(a_failed_node_expansion_is_retried)
{
	must(f, "Create", "{\"volume\":{" DB_HEAD ",\"capacityMin\":\"10\"}}", NULL);
	provider.needs_node_expansion = true;
	must(f, "Expand", "{\"id\":\"db\",\"capacityMin\":\"30\"}", NULL);
	provider_order(CALL_NODE_EXPAND, PROVIDER_FAIL, 1, STATUS_UNAVAILABLE);
	mount_volume(f, "db", "n1", 1);
	UNTIL(f, detail_of(f, "db")->phase_error[0] != '\0');
	assert_true(detail_of(f, "db")->node_expansion_due);
	assert_false(is_ready(f));
	must(f, "Expand", "{\"id\":\"db\",\"capacityMin\":\"30\"}", "{\"nodeId\":\"n1\",\"bytes\":\"30\"}");
	assert_false(detail_of(f, "db")->node_expansion_due);
	assert_true(is_ready(f));
}

PROVIDER_TEST(nodes_whose_plugin_cannot_expand_are_not_asked)
{
	must(f, "Create", "{\"volume\":{" DB_HEAD ",\"capacityMin\":\"10\"}}", NULL);
	provider.needs_node_expansion = true;
	provider.cannot_expand_on_nodes = true;
	provider_report(f);
	mount_volume(f, "db", "n1", 1);
	must(f, "Expand", "{\"id\":\"db\",\"capacityMin\":\"30\"}", "\"capacity\":\"30\"");
	mount_volume(f, "db", "n2", 2);
	settle(f);
	assert_true(is_ready(f));
	assert_string_equal(provider.nodes, "");
	assert_int_equal(detail_of(f, "db")->n_node_capacities, 0); /* nobody knows what they see */
	assert_true(detail_of(f, "db")->node_expansion_due);	    /* for a node whose plugin can */
	free_claims(f, "db");
	provider.cannot_expand_on_nodes = false;
	provider_report(f);
	mount_volume(f, "db", "n1", 3);
	UNTIL(f, str_eq(provider.nodes, "n1,") && is_ready(f));
	assert_false(detail_of(f, "db")->node_expansion_due);
}

PROVIDER_TEST(a_plugin_that_is_replaced_by_one_that_cannot_expand_holds_nothing_up)
{
	must(f, "Create", "{\"volume\":{" DB_HEAD ",\"capacityMin\":\"10\"}}", NULL);
	provider.needs_node_expansion = true;
	mount_volume(f, "db", "n1", 1);
	provider_order(CALL_NODE_EXPAND, PROVIDER_FAIL, 1, STATUS_UNIMPLEMENTED);
	refuses(f, "Expand", "{\"id\":\"db\",\"capacityMin\":\"30\"}", STATUS_UNIMPLEMENTED,
		"its file system on node n1 is behind");
	provider.cannot_expand_on_nodes = true; /* as its node reports then */
	provider_report(f);
	must(f, "Expand", "{\"id\":\"db\",\"capacityMin\":\"30\"}", "\"capacity\":\"30\"");
	assert_true(is_ready(f));
	assert_string_equal(provider.nodes, "n1,");
	assert_int_equal(detail_of(f, "db")->n_node_capacities, 0);
	assert_true(detail_of(f, "db")->node_expansion_due);
}

PROVIDER_TEST(a_provider_that_cannot_expand_leaves_the_volume_usable)
{
	must(f, "Create", "{\"volume\":{" DB_HEAD ",\"capacityMin\":\"10\"}}", NULL);
	provider_order(CALL_EXPAND, PROVIDER_FAIL, 1, STATUS_OUT_OF_RANGE);
	refuses(f, "Expand", "{\"id\":\"db\",\"capacityMin\":\"30\"}", STATUS_OUT_OF_RANGE,
		"the provider's words");
	assert_int_equal(detail_of(f, "db")->phase, HOLDFAST__V1__VOLUME_PHASE__VOLUME_READY);
	assert_int_equal(detail_of(f, "db")->capacity, 10);
	assert_int_equal(detail_of(f, "db")->capacity_min, 30); /* asked for, and not there */
	must(f, "Expand", "{\"id\":\"db\",\"capacityMin\":\"30\"}", "\"capacity\":\"30\"");
	provider.can.expand = false;
	refuses(f, "Expand", "{\"id\":\"db\",\"capacityMin\":\"50\"}", STATUS_FAILED_PRECONDITION,
		"cannot expand");
}

PROVIDER_TEST(two_equal_requests_share_one_operation)
{
	struct pending first, second;

	provider_order(CALL_CREATE, PROVIDER_HOLD, 1, STATUS_OK);
	start_asking(f, "Create", DB, &first);
	UNTIL(f, provider.calls[CALL_CREATE] == 1);
	start_asking(f, "Create", DB, &second);
	settle(f);
	assert_int_equal(provider.calls[CALL_CREATE], 1);
	provider_answer();
	UNTIL(f, first.ended && second.ended);
	assert_int_equal(first.status, STATUS_OK);
	assert_int_equal(second.status, STATUS_OK);
}

PROVIDER_TEST(a_confirmation_counts_only_for_the_volume_that_was_asked_about)
{
	struct pending pending;

	must(f, "Create", DB, NULL);
	provider_order(CALL_VALIDATE, PROVIDER_HOLD, 1, STATUS_OK);
	start_asking(f, "Register", "{\"volume\":{" DB_HEAD ",\"description\":\"d\"}}", &pending);
	UNTIL(f, provider.calls[CALL_VALIDATE] == 1);
	must(f, "Deregister", ID, NULL);
	must(f, "Register", "{\"volume\":{" DB_HEAD ",\"externalId\":\"other\"}}", NULL);
	provider_answer();
	UNTIL(f, pending.ended);
	assert_int_equal(pending.status, STATUS_ABORTED);
	assert_non_null(strstr(pending.message, "registered as another one"));
	must(f, "Get", ID, "\"externalId\":\"other\"");
}

#define SIZED(min) "{\"volume\":{" DB_HEAD ",\"capacityMin\":\"" min "\"}}"

PROVIDER_TEST(a_larger_size_that_is_requested_meanwhile_is_asked_for_as_well)
{
	struct pending first, second;

	provider_order(CALL_CREATE, PROVIDER_HOLD, 1, STATUS_OK);
	start_asking(f, "Create", SIZED("10"), &first);
	UNTIL(f, provider.calls[CALL_CREATE] == 1);
	start_asking(f, "Create", SIZED("20"), &second);
	settle(f);
	provider_answer();
	UNTIL(f, first.ended && second.ended);
	assert_int_equal(second.status, STATUS_OK);
	assert_int_equal(provider.volumes[0].capacity, 20);
	provider_order(CALL_EXPAND, PROVIDER_HOLD, 1, STATUS_OK);
	start_asking(f, "Expand", "{\"id\":\"db\",\"capacityMin\":\"30\"}", &first);
	UNTIL(f, provider.calls[CALL_EXPAND] == 2);
	start_asking(f, "Expand", "{\"id\":\"db\",\"capacityMin\":\"40\"}", &second);
	settle(f);
	provider_answer();
	UNTIL(f, first.ended && second.ended);
	assert_int_equal(first.status, STATUS_OK);
	assert_int_equal(second.status, STATUS_OK);
	assert_int_equal(provider.volumes[0].capacity, 40);
	assert_int_equal(detail_of(f, "db")->capacity, 40);
	assert_int_equal(provider.calls[CALL_EXPAND], 3);
}

PROVIDER_TEST(an_expansion_that_fails_ends_no_deletion_that_began_meanwhile)
{
	struct pending expanding, deleting;

	must(f, "Create", SIZED("10"), NULL);
	provider_order(CALL_EXPAND, PROVIDER_HOLD, 1, STATUS_OK);
	start_asking(f, "Expand", "{\"id\":\"db\",\"capacityMin\":\"30\"}", &expanding);
	UNTIL(f, provider.calls[CALL_EXPAND] == 1);
	start_asking(f, "Delete", ID, &deleting);
	settle(f);
	provider_fail(STATUS_OUT_OF_RANGE);
	UNTIL(f, expanding.ended && deleting.ended);
	assert_int_equal(deleting.status, STATUS_OK);
	assert_int_equal(expanding.status, STATUS_ABORTED); /* there is no volume */
	assert_int_equal(provider_volumes(), 0);
}

CASE(bad_requests_are_refused_with_their_code_and_change_nothing)
{
	static const struct {
		const char *method, *json;
		enum status status;
		const char *says;
	} cases[] = {
		{"Register", "{}", STATUS_INVALID_ARGUMENT, "volume: missing"},
		{"Register", "{\"volume\":{}}", STATUS_INVALID_ARGUMENT, "id:"},
		{"Register", "{\"volume\":{\"id\":\"../x\",\"type\":\"CSI\"}}", STATUS_INVALID_ARGUMENT,
		 "id:"},
		{"Register", "{\"volume\":{" DB_HEAD ",\"namespace\":\"a/b\"}}", STATUS_INVALID_ARGUMENT,
		 "namespace:"},
		{"Register", "{\"volume\":{" DB_HEAD ",\"secrets\":{\"k\":\"[redacted]\"}}}",
		 STATUS_INVALID_ARGUMENT, "give the value"},
		{"Create", "{}", STATUS_INVALID_ARGUMENT, "volume: missing"},
		{"Create", "{\"volume\":{" DB_HEAD ",\"externalId\":\"x\"}}", STATUS_INVALID_ARGUMENT,
		 "external_id:"},
		{"Create", "{\"volume\":{" DB_HEAD ",\"capacityMin\":\"3\",\"capacityMax\":\"2\"}}",
		 STATUS_INVALID_ARGUMENT, "capacity_max:"},
		{"Create",
		 "{\"volume\":{\"id\":\"db\",\"type\":\"NATIVE\",\"profile\":\"disk\",\"source\":{\"class\":"
		 "\"BLOCK\",\"byId\":\"x\"}," CAPABILITIES "}}",
		 STATUS_INVALID_ARGUMENT, "type:"},
		{"Get", "{}", STATUS_NOT_FOUND, "no volume"},
		{"Get", "{\"id\":\"kept\",\"namespace\":\"other\"}", STATUS_NOT_FOUND, "namespace other"},
		{"Deregister", "{\"id\":\"kept\",\"namespace\":\"other\"}", STATUS_NOT_FOUND,
		 "namespace other"},
		{"Delete", "{\"id\":\"kept\",\"namespace\":\"other\"}", STATUS_NOT_FOUND, "namespace other"},
		{"Delete", "{\"id\":\"kept\",\"secrets\":{\"\":\"x\"}}", STATUS_INVALID_ARGUMENT, "secrets:"},
		{"Delete", "{\"id\":\"native\"}", STATUS_FAILED_PRECONDITION, "holdfast volume deregister"},
		{"Expand", "{\"id\":\"kept\"}", STATUS_INVALID_ARGUMENT, "capacity_min:"},
		{"Expand", "{\"id\":\"kept\",\"capacityMin\":\"9\",\"capacityMax\":\"8\"}",
		 STATUS_INVALID_ARGUMENT, "capacity_max:"},
		{"Expand", "{\"id\":\"kept\",\"capacityMax\":\"4\"}", STATUS_INVALID_ARGUMENT,
		 "capacity_max:"},
		{"Expand", "{\"id\":\"kept\",\"capacityMin\":\"9223372036854775808\"}",
		 STATUS_INVALID_ARGUMENT, "capacity_min:"},
		{"Expand", "{\"id\":\"native\",\"capacityMin\":\"9\"}", STATUS_FAILED_PRECONDITION, "native"},
		{"Detach", "{\"id\":\"none\",\"nodeId\":\"n1\"}", STATUS_NOT_FOUND, "no volume none"},
		{"Detach", "{\"id\":\"kept\",\"nodeId\":\"n9\"}", STATUS_NOT_FOUND, "no node n9"},
		{"Detach", "{\"id\":\"kept\"}", STATUS_INVALID_ARGUMENT, "node_id: missing"},
		{"Detach", "{\"id\":\"kept\",\"nodeId\":\"n1\"}", STATUS_FAILED_PRECONDITION,
		 "nothing was changed"},
		{"Detach", "{\"id\":\"kept\",\"nodeId\":\"n1\",\"attestReason\":\"a\\nb\"}",
		 STATUS_INVALID_ARGUMENT, "attest_reason:"},
		{"List", "{\"filter\":\"id ==\"}", STATUS_INVALID_ARGUMENT, "filter: column 6"},
		{"List", "{\"nextToken\":\"x\"}", STATUS_INVALID_ARGUMENT, "next_token:"},
		{"List", "{\"nextToken\":\"../.x\"}", STATUS_INVALID_ARGUMENT, "next_token:"},
		{"List", "{\"perPage\":10001}", STATUS_INVALID_ARGUMENT, "per_page:"},
		{"ListExternal", "{}", STATUS_INVALID_ARGUMENT, "plugin_id:"},
		{"ListExternal", "{\"pluginId\":\"a/b\"}", STATUS_INVALID_ARGUMENT, "plugin_id:"},
		{"ListExternal", "{\"pluginId\":\"nsf\"}", STATUS_FAILED_PRECONDITION, "plugin nsf"},
		{"ListExternal", "{\"pluginId\":\"nfs\",\"perPage\":1001}", STATUS_INVALID_ARGUMENT,
		 "per_page:"},
		{"CreateSnapshot", "{\"volumeId\":\"none\",\"name\":\"a\"}", STATUS_NOT_FOUND,
		 "no volume none"},
		{"CreateSnapshot", "{\"volumeId\":\"kept\"}", STATUS_INVALID_ARGUMENT, "name:"},
		{"CreateSnapshot", "{\"volumeId\":\"kept\",\"name\":\"a/b\"}", STATUS_INVALID_ARGUMENT,
		 "name:"},
		{"CreateSnapshot", "{\"volumeId\":\"kept\",\"name\":\"a\",\"parameters\":{\"\":\"x\"}}",
		 STATUS_INVALID_ARGUMENT, "parameters:"},
		{"CreateSnapshot", "{\"volumeId\":\"native\",\"name\":\"a\"}", STATUS_FAILED_PRECONDITION,
		 "native"},
		{"DeleteSnapshot", "{\"snapshotId\":\"s\"}", STATUS_INVALID_ARGUMENT, "plugin_id:"},
		{"DeleteSnapshot", "{\"pluginId\":\"nfs\"}", STATUS_INVALID_ARGUMENT, "snapshot_id:"},
		{"ListSnapshots", "{\"pluginId\":\"nsf\"}", STATUS_FAILED_PRECONDITION, "plugin nsf"},
		{"ListSnapshots", "{\"nextToken\":\"nfs\"}", STATUS_INVALID_ARGUMENT, "next_token:"},
		{"ListSnapshots", "{\"perPage\":1001}", STATUS_INVALID_ARGUMENT, "per_page:"},
	};
	unsigned int asked;
	uint64_t revision;

	must(f, "Create",
	     "{\"volume\":{\"id\":\"kept\",\"type\":\"CSI\",\"pluginId\":\"nfs\",\"capacityMin\":"
	     "\"5\"," CAPABILITIES "}}",
	     NULL);
	must(f, "Register",
	     "{\"volume\":{\"id\":\"native\",\"type\":\"NATIVE\",\"profile\":\"disk\",\"source\":{\"class\":"
	     "\"BLOCK\",\"byId\":\"x\"}," CAPABILITIES "}}",
	     NULL);
	asked = provider.calls[CALL_CREATE];
	revision = state_volume(&f->server->state, "default", "kept")->volume.modify_index;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		refuses(f, cases[i].method, cases[i].json, cases[i].status, cases[i].says);
	assert_int_equal(f->server->state.n_volumes, 2);
	assert_int_equal(provider.calls[CALL_CREATE], asked);
	assert_int_equal(provider.calls[CALL_DELETE] + provider.calls[CALL_EXPAND] +
				 provider.calls[CALL_CREATE_SNAPSHOT],
			 0);
	assert_int_equal(state_volume(&f->server->state, "default", "kept")->volume.modify_index, revision);
}

CASE(nodes_and_strangers_may_call_no_volume_method)
{
	static const char *const methods[] = {
		"Register", "Create", "Get",	      "List",		"Deregister",	  "Delete",
		"Expand",   "Detach", "ListExternal", "CreateSnapshot", "DeleteSnapshot", "ListSnapshots"};
	const ProtobufCServiceDescriptor *service = &holdfast__v1__volumes__descriptor;

	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		const ProtobufCMethodDescriptor *method =
			protobuf_c_service_descriptor_get_method_by_name(service, methods[i]);
		cleanup_pb ProtobufCMessage *empty = protobuf_c_message_unpack(method->input, NULL, 0, NULL);

		assert_int_equal(call(&f->n1, service, methods[i], empty, NULL, NULL),
				 STATUS_PERMISSION_DENIED);
	}
}

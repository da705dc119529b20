/* SPDX-License-Identifier: Apache-2.0 */
/* Ids of a provider and of hosts belong to the namespace that has them: a token for namespace b reaches
 * nothing of namespace a by them, and cannot tell an id of a from one that no record knows. */

#include "callers.h"
#include "provider_world.h"
#include "unit.h"

#include "state/keys.h"
#include "state/storage_index.h"
#include "volume/identity.h"
#include "volume/limits.h"
#include "volume/snapshots.h"
#include "volume/store.h"
#include "volume/work.h"

#define IN(namespace, id) "\"id\":\"" id "\",\"namespace\":\"" namespace "\","
#define NFS "\"type\":\"CSI\",\"pluginId\":\"nfs\"," CAPABILITIES
#define NATIVE_HEAD "\"type\":\"NATIVE\",\"profile\":\"p\"," CAPABILITIES ","

/* A token whose policies are those of namespace b. */
static void caller_of(struct fixture *f, const char *namespaces, const char *level, struct caller_client *ret)
{
	cleanup_free char *secret = NULL;
	char policy[1024];

	(void)str_format(
		policy, sizeof(policy),
		"{\"policy\":{\"name\":\"b\",\"namespaces\":[%s],\"plugin\":\"read\",\"operator\":\"%s\"}}",
		namespaces, level);
	operator_does(f, "Operator.PutPolicy", policy);
	secret = make_token(f, "{\"name\":\"t\",\"type\":\"CLIENT\",\"policies\":[\"b\"]}");
	caller_init(ret, f, NULL, secret);
}

static void caller_with(struct fixture *f, const char *namespaces, struct caller_client *ret)
{
	caller_of(f, namespaces, "", ret);
}

#define WRITES "{\"namespace\":\"b\",\"policy\":\"write\"}"
#define ADOPTS                                                                             \
	"{\"namespace\":\"b\",\"policy\":\"write\",\"capabilities\":[\"csi-adopt-volume\"" \
	"]}"
#define ADOPTS_IN_A "{\"namespace\":\"a\",\"capabilities\":[\"csi-adopt-volume\"]}"

/* The code and message of a refusal, or the answer. */
static enum status ask_as(struct caller_client *caller, const char *method, const char *json,
			  char ret[static ERROR_MSG_MAX])
{
	cleanup(json_decrefp) json_t *answer = NULL;
	struct error err = {.msg = ""};
	enum status status = caller_call(caller, method, json, &answer, &err);
	cleanup_free char *text = status == STATUS_OK ? json_dumps(answer, JSON_COMPACT) : NULL;

	str_copy_text(ret, ERROR_MSG_MAX, text ? text : err.msg);
	return status;
}

static void expect(struct caller_client *caller, const char *method, const char *json, enum status status)
{
	char text[ERROR_MSG_MAX];
	enum status st = ask_as(caller, method, json, text);

	assert_msg(st == status, "%s %s: %s %s", method, json, status_name(st), text);
}

/* Both are refused, and nothing but the id tells the two answers apart. */
static void expect_alike(struct caller_client *caller, const char *method, const char *foreign,
			 const char *unknown, enum status status)
{
	char of_foreign[ERROR_MSG_MAX], of_unknown[ERROR_MSG_MAX];

	assert_int_equal(ask_as(caller, method, foreign, of_foreign), status);
	assert_int_equal(ask_as(caller, method, unknown, of_unknown), status);
	assert_string_equal(of_foreign, of_unknown);
}

/* Namespace a has a volume and a snapshot that the provider made: "vol-1" and "snap-1". */
static void make_things_of_a(struct fixture *f)
{
	must(f, "Create", "{\"volume\":{" IN("a", "db") NFS "}}", "vol-1");
	must(f, "CreateSnapshot", "{\"volumeId\":\"db\",\"namespace\":\"a\",\"name\":\"s1\"}", "snap-1");
}

static struct pending waiting;

#define CASE(name) TEST_ON(name, struct fixture, f, provider_setup_acl, provider_teardown)

CASE(a_clone_of_another_namespaces_volume_is_refused_as_one_of_an_unknown_id)
{
	cleanup(caller_release) struct caller_client b;

	make_things_of_a(f);
	caller_with(f, WRITES, &b);
	expect_alike(&b, "Volumes.Create", "{\"volume\":{" IN("b", "copy") NFS ",\"cloneId\":\"vol-1\"}}",
		     "{\"volume\":{" IN("b", "copy") NFS ",\"cloneId\":\"vol-9\"}}",
		     STATUS_PERMISSION_DENIED);
	assert_int_equal(provider.calls[CALL_CREATE], 1);
	expect(&b, "Volumes.Create", "{\"volume\":{" IN("b", "own") NFS "}}", STATUS_OK);
	expect(&b, "Volumes.Create", "{\"volume\":{" IN("b", "copy") NFS ",\"cloneId\":\"vol-2\"}}",
	       STATUS_OK);
}

CASE(a_volume_from_another_namespaces_snapshot_is_refused_as_one_of_an_unknown_id)
{
	cleanup(caller_release) struct caller_client b;

	make_things_of_a(f);
	caller_with(f, WRITES, &b);
	expect_alike(&b, "Volumes.Create", "{\"volume\":{" IN("b", "copy") NFS ",\"snapshotId\":\"snap-1\"}}",
		     "{\"volume\":{" IN("b", "copy") NFS ",\"snapshotId\":\"snap-9\"}}",
		     STATUS_PERMISSION_DENIED);
	assert_int_equal(provider.calls[CALL_CREATE], 1);
	expect(&b, "Volumes.Create", "{\"volume\":{" IN("b", "own") NFS "}}", STATUS_OK);
	expect(&b, "Volumes.CreateSnapshot", "{\"volumeId\":\"own\",\"namespace\":\"b\",\"name\":\"s2\"}",
	       STATUS_OK);
	expect(&b, "Volumes.Create", "{\"volume\":{" IN("b", "copy") NFS ",\"snapshotId\":\"snap-2\"}}",
	       STATUS_OK);
}

CASE(a_registration_of_another_namespaces_volume_is_refused_as_one_of_an_unknown_id)
{
	cleanup(caller_release) struct caller_client b;

	make_things_of_a(f);
	caller_with(f, WRITES, &b);
	expect_alike(&b, "Volumes.Register", "{\"volume\":{" IN("b", "db") NFS ",\"externalId\":\"vol-1\"}}",
		     "{\"volume\":{" IN("b", "db") NFS ",\"externalId\":\"vol-9\"}}",
		     STATUS_PERMISSION_DENIED);
	/* the id alone is the external id */
	expect(&b, "Volumes.Register", "{\"volume\":{" IN("b", "vol-1") NFS "}}", STATUS_PERMISSION_DENIED);
	assert_int_equal(provider.calls[CALL_VALIDATE], 0);
	expect(&b, "Volumes.Delete", "{\"id\":\"db\",\"namespace\":\"b\"}", STATUS_NOT_FOUND);
	assert_int_equal(provider_volumes(), 1);
}

CASE(a_registration_of_a_host_storage_needs_the_right_to_adopt)
{
	static const char *const sources[] = {
		"{\"class\":\"BLOCK\",\"byId\":\"wwn-0x1\"}",
		"{\"class\":\"NFS4\",\"server\":\"192.0.2.7\",\"export\":\"/a\"}",
		"{\"class\":\"BIND\",\"hostVolume\":\"p\"}",
	};
	cleanup(caller_release) struct caller_client b;
	char json[1024];

	caller_with(f, WRITES, &b);
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
		(void)str_format(json, sizeof(json),
				 "{\"volume\":{" IN("b", "v") NATIVE_HEAD "\"source\":%s}}", sources[i]);
		expect(&b, "Volumes.Register", json, STATUS_PERMISSION_DENIED);
	}
	expect(&b, "Volumes.Register",
	       "{\"volume\":{" IN("b", "v") NATIVE_HEAD
	       "\"source\":{\"class\":\"TMPFS\",\"sizeBytes\":1048576,\"inodes\":10}}}",
	       STATUS_OK); /* nothing that is there is named */
	caller_release(&b);
	caller_with(f, ADOPTS, &b);
	(void)str_format(json, sizeof(json), "{\"volume\":{" IN("b", "w") NATIVE_HEAD "\"source\":%s}}",
			 sources[0]);
	expect(&b, "Volumes.Register", json, STATUS_OK);
}

CASE(the_right_to_adopt_in_one_namespace_opens_no_id_of_another)
{
	cleanup(caller_release) struct caller_client b;
	char text[ERROR_MSG_MAX];

	make_things_of_a(f);
	caller_with(f, ADOPTS, &b);
	expect(&b, "Volumes.Register", "{\"volume\":{" IN("b", "new") NFS ",\"externalId\":\"vol-9\"}}",
	       STATUS_OK); /* no record knows it */
	assert_int_equal(ask_as(&b, "Volumes.Register",
				"{\"volume\":{" IN("b", "db") NFS ",\"externalId\":\"vol-1\"}}", text),
			 STATUS_ALREADY_EXISTS);
	assert_non_null(strstr(text, "a volume of another namespace"));
	assert_null(strstr(text, "db"));
	/* a context of its own makes it no other volume */
	expect(&b, "Volumes.Register",
	       "{\"volume\":{" IN("b", "db") NFS ",\"externalId\":\"vol-1\",\"context\":{\"junk\":\"1\"}}}",
	       STATUS_ALREADY_EXISTS);
	expect(&b, "Volumes.Create", "{\"volume\":{" IN("b", "db") NFS ",\"cloneId\":\"vol-1\"}}",
	       STATUS_NOT_FOUND);
	expect(&b, "Volumes.Create", "{\"volume\":{" IN("b", "db") NFS ",\"snapshotId\":\"snap-1\"}}",
	       STATUS_NOT_FOUND);
	assert_int_equal(provider.calls[CALL_CREATE], 1);
	caller_release(&b);
	caller_with(f, ADOPTS "," ADOPTS_IN_A, &b);
	expect(&b, "Volumes.Create", "{\"volume\":{" IN("b", "db") NFS ",\"cloneId\":\"vol-1\"}}", STATUS_OK);
}

CASE(another_context_under_an_id_of_another_namespace_needs_the_right_there)
{
	static const char share_of_b[] =
		"{\"volume\":{" IN("b", "v") NFS ",\"externalId\":\"nfs\",\"context\":{\"share\":\"/b\"}}}";
	cleanup(caller_release) struct caller_client b;

	must(f, "Register",
	     "{\"volume\":{" IN("a", "v") NFS ",\"externalId\":\"nfs\",\"context\":{\"share\":\"/a\"}}}",
	     NULL);
	caller_with(f, ADOPTS, &b);
	expect(&b, "Volumes.Register", share_of_b, STATUS_ALREADY_EXISTS);
	caller_release(&b);
	caller_with(f, ADOPTS "," ADOPTS_IN_A, &b);
	expect(&b, "Volumes.Register", share_of_b, STATUS_OK);
	/* and all that the id names is no second name of it */
	expect(&b, "Volumes.Register",
	       "{\"volume\":{" IN("b", "w") NFS ",\"externalId\":\"nfs\",\"shares\":\"v\"}}",
	       STATUS_ALREADY_EXISTS);
}

/* --- copies that wait while their source gets to another namespace --- */

#define COPY_OF_OWN "{\"volume\":{" IN("b", "copy") NFS ",\"cloneId\":\"vol-1\"}}"
#define SNAPSHOT_OF_OWN "{\"volumeId\":\"own\",\"namespace\":\"b\",\"name\":\"s\"}"
#define FOR_A "{\"volume\":{" IN("a", "db") NFS ",\"externalId\":\"vol-1\"}}"
#define PART(namespace, id, share)                                                                        \
	"{\"volume\":{" IN(namespace, id) NFS ",\"externalId\":\"vol-1\",\"context\":{\"share\":\"" share \
					      "\"}}}"

/* Namespace b asks for a copy of its own volume, vol-1, which waits. */
static void copy_that_waits(struct fixture *f, int call, enum provider_outcome outcome, const char *method,
			    const char *json, struct caller_client *b)
{
	struct rpc_client *operator= f->operator.client;

	must(f, "Create", "{\"volume\":{" IN("b", "own") NFS "}}", "vol-1");
	caller_with(f, WRITES, b);
	provider_order(call, outcome, 1, STATUS_UNAVAILABLE);
	f->operator.client = b->client;
	start_asking(f, method, json, &waiting);
	f->operator.client = operator;
	UNTIL(f, provider.calls[call] == (call == CALL_CREATE ? 2 : 1));
	if (outcome == PROVIDER_FAIL || outcome == PROVIDER_FAIL_DONE)
		UNTIL(f, waiting.ended); /* and the next try is in a second */
	else
		settle(f);
}

/* After a restore, namespace a may have vol-1 by a volume of which only a claim is known. */
static void appear_in_a(struct fixture *f)
{
	struct claim claim = ROW(.id = "01890000-0000-7000-8000-000000000c01", .allocation_id = ALLOC_1,
				 .namespace = "a", .volume_id = "other", .node_id = "n1", .plugin_id = "nfs",
				 .external_id = "vol-1", .mode = CLAIM_WRITE,
				 .access_mode = SINGLE_NODE_WRITER, .attachment_mode = ATTACHMENT_FILE_SYSTEM,
				 .state = CLAIM_TAKEN, .generation = 1, .boot_id = BOOT_1);

	must(f, "Register", "{\"volume\":{" IN("a", "other") NFS ",\"externalId\":\"vol-a\"}}", NULL);
	assert_int_equal(state_put_claim(&f->server->state, &claim, NULL), STATUS_OK);
}

CASE(an_id_of_which_a_copy_is_being_made_gets_to_no_other_namespace)
{
	cleanup(caller_release) struct caller_client b;

	copy_that_waits(f, CALL_CREATE, PROVIDER_HOLD, "Create", COPY_OF_OWN, &b);
	must(f, "Deregister", "{\"id\":\"own\",\"namespace\":\"b\"}", NULL);
	refuses(f, "Register", FOR_A, STATUS_FAILED_PRECONDITION, "is being made as a copy");
	must(f, "Register", PART("b", "own", "/b"), NULL);
	refuses(f, "Register", PART("a", "db", "/a"), STATUS_FAILED_PRECONDITION, "is being made as a copy");
	provider_fail(STATUS_UNAVAILABLE);
	UNTIL(f, waiting.ended);
	refuses(f, "Register", PART("a", "db", "/a"), STATUS_FAILED_PRECONDITION, "is being made as a copy");
	must(f, "Deregister", "{\"id\":\"copy\",\"namespace\":\"b\"}", NULL);
	must(f, "Register", PART("a", "db", "/a"), NULL);
}

#define DB_OF_A "{\"volume\":{" IN("a", "db") NFS "}}"

/* Namespace b has vol-1, which the provider knows as what it made by the name a/db. */
static void get_what_a_made(struct fixture *f)
{
	must(f, "Create", DB_OF_A, "vol-1");
	must(f, "Deregister", "{\"id\":\"db\",\"namespace\":\"a\"}", NULL);
	must(f, "Register", "{\"volume\":{" IN("b", "own") NFS ",\"externalId\":\"vol-1\"}}", NULL);
}

CASE(an_id_of_which_a_copy_is_being_made_gets_to_no_other_namespace_by_a_creation)
{
	cleanup(caller_release) struct caller_client b;

	get_what_a_made(f);
	caller_with(f, WRITES, &b);
	provider_order(CALL_CREATE, PROVIDER_FAIL, 1, STATUS_UNAVAILABLE);
	expect(&b, "Volumes.Create", COPY_OF_OWN, STATUS_UNAVAILABLE);
	must(f, "Deregister", "{\"id\":\"own\",\"namespace\":\"b\"}", NULL);
	refuses(f, "Create", DB_OF_A, STATUS_FAILED_PRECONDITION, "is being made as a copy");
	must(f, "Deregister", "{\"id\":\"copy\",\"namespace\":\"b\"}", NULL);
	must(f, "Create", DB_OF_A, "vol-1");
}

CASE(an_id_of_which_a_snapshot_is_being_made_gets_to_no_other_namespace_by_a_creation)
{
	get_what_a_made(f);
	provider_order(CALL_CREATE_SNAPSHOT, PROVIDER_HOLD, 1, STATUS_UNAVAILABLE);
	start_asking(f, "CreateSnapshot", SNAPSHOT_OF_OWN, &waiting);
	UNTIL(f, provider.calls[CALL_CREATE_SNAPSHOT] == 1);
	must(f, "Deregister", "{\"id\":\"own\",\"namespace\":\"b\"}", NULL);
	refuses(f, "Create", DB_OF_A, STATUS_FAILED_PRECONDITION, "a snapshot of this id is being made");
	provider_answer();
	UNTIL(f, waiting.ended);
	must(f, "Create", DB_OF_A, "vol-1");
}

/* A node has reported vol-1 as the storage of a/db meanwhile. */
CASE(an_id_of_which_a_copy_is_being_made_gets_to_no_other_namespace_by_its_placeholder)
{
	struct volume volume = ROW(.type = VOLUME_CSI, .id = "db", .namespace = "a", .plugin_id = "nfs",
				   .external_id = "vol-1");
	cleanup(caller_release) struct caller_client b;

	copy_that_waits(f, CALL_CREATE, PROVIDER_FAIL, "Create", COPY_OF_OWN, &b);
	assert_int_equal(state_put_volume(&f->server->state, &volume, NULL), STATUS_OK);
	must(f, "Deregister", "{\"id\":\"own\",\"namespace\":\"b\"}", NULL);
	refuses(f, "Register", FOR_A, STATUS_FAILED_PRECONDITION, "is being made as a copy");
	refuses(f, "Create", DB_OF_A, STATUS_FAILED_PRECONDITION, "holdfast volume register");
}

/* Until the creation is stored, no work in flight shows what it copies. */
CASE(a_copy_of_an_id_that_another_namespace_had_in_between_is_not_made)
{
	struct pending deregistered = {0}, registered = {0};
	cleanup(caller_release) struct caller_client b;

	must(f, "Create", "{\"volume\":{" IN("b", "own") NFS "}}", "vol-1");
	provider_order(CALL_CREATE, PROVIDER_FAIL, 1, STATUS_UNAVAILABLE);
	start_asking(f, "Create", COPY_OF_OWN, &waiting);
	start_asking(f, "Deregister", "{\"id\":\"own\",\"namespace\":\"b\"}", &deregistered);
	start_asking(f, "Register", FOR_A, &registered);
	UNTIL(f, waiting.ended && deregistered.ended && registered.ended);
	assert_int_equal(registered.status, STATUS_OK);
	must(f, "Deregister", "{\"id\":\"db\",\"namespace\":\"a\"}", NULL);
	caller_with(f, WRITES, &b);
	expect(&b, "Volumes.Create", COPY_OF_OWN, STATUS_PERMISSION_DENIED);
	assert_int_equal(provider_volumes(), 1);
}

/* Each by which a creation waits. */
static void check_no_copy(struct fixture *f, enum provider_outcome outcome)
{
	cleanup(caller_release) struct caller_client b;
	const struct volume_entry *entry;
	size_t n;

	copy_that_waits(f, CALL_CREATE, outcome, "Create", COPY_OF_OWN, &b);
	n = provider_volumes();
	appear_in_a(f);
	provider_answer();
	settle(f);
	entry = NON_NULL(state_volume(&f->server->state, "b", "copy"));
	assert_string_equal(entry->volume.external_id, "");
	assert_int_equal(provider_volumes(), n);
	assert_non_null(strstr(volume_detail_of(f->server, &entry->volume)->phase_error,
			       "clone_id: another namespace has this id"));
	expect(&b, "Volumes.Create", COPY_OF_OWN, STATUS_PERMISSION_DENIED);
}

CASE(a_creation_after_a_failure_copies_nothing_that_is_anothers_now)
{
	check_no_copy(f, PROVIDER_FAIL);
}

CASE(a_creation_in_the_line_of_its_plugin_copies_nothing_that_is_anothers_now)
{
	check_no_copy(f, PROVIDER_QUEUE);
}

CASE(a_copy_is_not_kept_whose_source_is_anothers_when_it_is_made)
{
	check_no_copy(f, PROVIDER_HOLD_DONE);
}

/* No other namespace ever had it. */
CASE(a_copy_that_is_made_is_kept_though_its_owner_forgot_the_source)
{
	cleanup(caller_release) struct caller_client b;
	const struct volume_entry *entry;

	copy_that_waits(f, CALL_CREATE, PROVIDER_HOLD_DONE, "Create", COPY_OF_OWN, &b);
	must(f, "Deregister", "{\"id\":\"own\",\"namespace\":\"b\"}", NULL);
	provider_answer();
	settle(f);
	entry = NON_NULL(state_volume(&f->server->state, "b", "copy"));
	assert_string_equal(entry->volume.external_id, "vol-2");
}

CASE(a_volume_that_is_made_is_kept_though_its_owner_deleted_the_snapshot)
{
	const struct volume_entry *entry;

	must(f, "Create", "{\"volume\":{" IN("b", "own") NFS "}}", "vol-1");
	must(f, "CreateSnapshot", SNAPSHOT_OF_OWN, NULL);
	provider_order(CALL_CREATE, PROVIDER_HOLD_DONE, 1, STATUS_UNAVAILABLE);
	start_asking(f, "Create", "{\"volume\":{" IN("b", "copy") NFS ",\"snapshotId\":\"snap-1\"}}",
		     &waiting);
	UNTIL(f, provider.calls[CALL_CREATE] == 2);
	settle(f);
	must(f, "DeleteSnapshot", "{\"pluginId\":\"nfs\",\"snapshotId\":\"snap-1\"}", NULL);
	provider_answer();
	settle(f);
	entry = NON_NULL(state_volume(&f->server->state, "b", "copy"));
	assert_string_equal(entry->volume.external_id, "vol-2");
}

CASE(a_copy_whose_answer_got_lost_continues_without_its_source)
{
	cleanup(caller_release) struct caller_client b;
	const struct volume_entry *entry;

	copy_that_waits(f, CALL_CREATE, PROVIDER_FAIL_DONE, "Create", COPY_OF_OWN, &b);
	assert_int_equal(provider_volumes(), 2);
	must(f, "Deregister", "{\"id\":\"own\",\"namespace\":\"b\"}", NULL);
	expect(&b, "Volumes.Create", COPY_OF_OWN, STATUS_OK);
	entry = NON_NULL(state_volume(&f->server->state, "b", "copy"));
	assert_string_equal(entry->volume.external_id, "vol-2");
}

CASE(a_creation_continues_when_a_caller_with_the_right_to_its_source_repeats_it)
{
	cleanup(caller_release) struct caller_client b, both;

	copy_that_waits(f, CALL_CREATE, PROVIDER_FAIL, "Create", COPY_OF_OWN, &b);
	appear_in_a(f);
	unit_clock_advance(60 * USEC_PER_SEC);
	settle(f);
	caller_with(f, ADOPTS, &both); /* in b only */
	expect(&both, "Volumes.Create", COPY_OF_OWN, STATUS_PERMISSION_DENIED);
	caller_release(&both);
	caller_with(f, ADOPTS "," ADOPTS_IN_A, &both);
	provider_order(CALL_CREATE, PROVIDER_FAIL, 1, STATUS_UNAVAILABLE);
	expect(&both, "Volumes.Create", COPY_OF_OWN, STATUS_UNAVAILABLE);
	UNTIL(f, provider_volumes() == 2); /* and by itself from then on */
}

/* The copy was refused, as it has the part of namespace a, too; then a's work has ended. */
CASE(a_refused_copy_needs_the_right_also_when_its_namespace_has_a_part_again)
{
	cleanup(caller_release) struct caller_client b, adopts;
	const struct volume_entry *copy;
	struct volume_entry *other;
	char text[ERROR_MSG_MAX];

	copy_that_waits(f, CALL_CREATE, PROVIDER_HOLD_DONE, "Create", COPY_OF_OWN, &b);
	must(f, "Deregister", "{\"id\":\"own\",\"namespace\":\"b\"}", NULL);
	must(f, "Register", PART("b", "own", "/b"), NULL);
	appear_in_a(f);
	provider_answer();
	settle(f);
	copy = NON_NULL(state_volume(&f->server->state, "b", "copy"));
	assert_true(volume_detail_of(f->server, &copy->volume)->source_lost);
	other = NON_NULL(state_volume(&f->server->state, "a", "other"));
	state_delete_claim(&f->server->state, LIST_FIRST(&other->claims));
	must(f, "Deregister", "{\"id\":\"other\",\"namespace\":\"a\"}", NULL);
	assert_int_equal(ask_as(&b, "Volumes.Create", COPY_OF_OWN, text), STATUS_PERMISSION_DENIED);
	assert_non_null(
		strstr(text, "another namespace has a volume of this id, in another context, or had"));
	copy = NON_NULL(state_volume(&f->server->state, "b", "copy"));
	assert_string_equal(copy->volume.external_id, "");
	caller_with(f, ADOPTS, &adopts);
	expect(&adopts, "Volumes.Create", COPY_OF_OWN, STATUS_OK);
}

/* Who asked for it may have had the right because no record knew the id. */
CASE(an_unknown_id_that_is_being_copied_gets_to_no_other_namespace)
{
	cleanup(caller_release) struct caller_client b;

	caller_with(f, ADOPTS, &b);
	provider_order(CALL_CREATE, PROVIDER_FAIL, 1, STATUS_UNAVAILABLE);
	expect(&b, "Volumes.Create", COPY_OF_OWN, STATUS_UNAVAILABLE);
	refuses(f, "Register", FOR_A, STATUS_FAILED_PRECONDITION, "is being made as a copy");
	must(f, "Register", "{\"volume\":{" IN("a", "more") NFS ",\"externalId\":\"vol-9\"}}", NULL);
}

/* A provider takes the name for the whole request, and answers with what it made for that. */
CASE(a_creation_without_source_does_not_get_a_volume_that_was_made_as_a_copy)
{
	cleanup(caller_release) struct caller_client b;

	copy_that_waits(f, CALL_CREATE, PROVIDER_FAIL_DONE, "Create", COPY_OF_OWN, &b);
	assert_int_equal(provider_volumes(), 2);
	expect(&b, "Volumes.Deregister", "{\"id\":\"copy\",\"namespace\":\"b\"}", STATUS_OK);
	expect(&b, "Volumes.Create", "{\"volume\":{" IN("b", "copy") NFS "}}", STATUS_OK);
	assert_string_equal(state_volume(&f->server->state, "b", "copy")->volume.external_id, "vol-3");
}

CASE(a_clone_or_snapshot_of_an_id_that_namespaces_share_needs_the_right_in_both)
{
	static const char clone[] = "{\"volume\":{" IN("b", "c") NFS ",\"cloneId\":\"vol-1\"}}";
	static const char snapshot[] = "{\"volumeId\":\"v\",\"namespace\":\"b\",\"name\":\"s\"}";
	const struct volume_entry *entry;
	struct caller_client b;
	char name[] = "auto";
	struct error err;

	(void)str_copy(provider.volumes[0].id, PROVIDER_TEXT, "vol-1");
	provider.n_volumes = 1;
	must(f, "Register", PART("b", "v", "/b"), NULL);
	must(f, "Register", PART("a", "w", "/a"), NULL);
	caller_with(f, WRITES, &b);
	expect(&b, "Volumes.Create", clone, STATUS_PERMISSION_DENIED);
	expect(&b, "Volumes.CreateSnapshot", snapshot, STATUS_PERMISSION_DENIED);
	caller_release(&b);
	caller_with(f, ADOPTS, &b);
	expect(&b, "Volumes.Create", clone, STATUS_PERMISSION_DENIED);
	expect(&b, "Volumes.CreateSnapshot", snapshot, STATUS_PERMISSION_DENIED);
	entry = NON_NULL(state_volume(&f->server->state, "b", "v"));
	assert_error(snapshots_make(f->server, entry, name, 1, NULL, &err), STATUS_PERMISSION_DENIED, err,
		     "volume_id: another namespace");
	assert_non_null(strstr(err.msg, "no schedule may"));
	caller_release(&b);
	caller_with(f, ADOPTS "," ADOPTS_IN_A, &b);
	expect(&b, "Volumes.Create", clone, STATUS_OK);
	expect(&b, "Volumes.CreateSnapshot", snapshot, STATUS_OK);
	caller_release(&b);
}

CASE(a_volume_of_an_id_that_namespaces_share_gets_no_schedule)
{
	static const char scheduled[] = "{\"volume\":{" IN("b", "v") NFS
		",\"externalId\":\"vol-1\",\"context\":{\"share\":\"/b\"},\"snapshots\":{"
		"\"everyMs\":\"3600000\",\"keep\":2}}}";

	must(f, "Register", PART("b", "v", "/b"), NULL);
	must(f, "Register", scheduled, NULL);
	must(f, "Register", PART("b", "v", "/b"), NULL);
	must(f, "Register", PART("a", "w", "/a"), NULL);
	refuses(f, "Register", scheduled, STATUS_PERMISSION_DENIED, "snapshots: another namespace");
	must(f, "Deregister", "{\"id\":\"w\",\"namespace\":\"a\"}", NULL);
	must(f, "Register", scheduled, NULL);
	must(f, "Register", PART("a", "w", "/a"), NULL);
	must(f, "Register", scheduled, NULL); /* it fails from now on, and says so */
}

/* After a restore, namespace a may have the id by a volume of which only this claim is known. */
CASE(a_clone_is_of_nothing_that_another_namespaces_node_has_mounted)
{
	cleanup(caller_release) struct caller_client b;

	must(f, "Create", "{\"volume\":{" IN("b", "own") NFS "}}", "vol-1");
	appear_in_a(f);
	caller_with(f, WRITES, &b);
	expect(&b, "Volumes.Create", COPY_OF_OWN, STATUS_PERMISSION_DENIED);
}

static bool has_snapshot(struct fixture *f)
{
	char key[OBJECT_KEY_SIZE];

	snapshots_key("nfs", "b", "s", key);
	return records_get(&f->server->state.records, key);
}

static void check_no_snapshot(struct fixture *f, enum provider_outcome outcome, size_t n)
{
	cleanup(caller_release) struct caller_client b;

	copy_that_waits(f, CALL_CREATE_SNAPSHOT, outcome, "CreateSnapshot", SNAPSHOT_OF_OWN, &b);
	must(f, "Deregister", "{\"id\":\"own\",\"namespace\":\"b\"}", NULL);
	refuses(f, "Register", FOR_A, STATUS_FAILED_PRECONDITION, "a snapshot of this id is being made");
	provider_answer();
	UNTIL(f, waiting.ended);
	assert_int_equal(waiting.status, STATUS_ABORTED);
	assert_int_equal(provider_snapshots(), n);
	assert_false(has_snapshot(f));
	must(f, "Register", FOR_A, NULL);
}

CASE(a_snapshot_in_the_line_of_its_plugin_is_of_no_volume_that_has_gone)
{
	check_no_snapshot(f, PROVIDER_QUEUE, 0);
}

CASE(a_snapshot_is_not_kept_whose_volume_has_gone_when_it_is_made)
{
	check_no_snapshot(f, PROVIDER_HOLD_DONE, 1);
}

CASE(a_snapshot_in_the_line_is_refused_when_another_namespace_has_the_id)
{
	cleanup(caller_release) struct caller_client b;

	copy_that_waits(f, CALL_CREATE_SNAPSHOT, PROVIDER_QUEUE, "CreateSnapshot", SNAPSHOT_OF_OWN, &b);
	appear_in_a(f);
	provider_answer();
	UNTIL(f, waiting.ended);
	assert_int_equal(waiting.status, STATUS_PERMISSION_DENIED);
	assert_non_null(strstr(waiting.message, "csi-adopt-volume in both"));
	assert_int_equal(provider_snapshots(), 0);
	assert_false(has_snapshot(f)); /* nothing was asked */
}

CASE(the_server_itself_has_no_right_to_an_unknown_id)
{
	const struct volume volume = ROW(.type = VOLUME_CSI, .id = "v", .namespace = "b", .plugin_id = "nfs",
					 .external_id = "vol-9");
	struct error err;

	assert_int_equal(identity_check_copied(f->server, NULL, &volume, NULL), STATUS_PERMISSION_DENIED);
	assert_error(identity_check_copied(f->server, NULL, &volume, &err), STATUS_PERMISSION_DENIED, err,
		     "volume_id");
}

CASE(an_id_that_many_namespaces_have_is_copied_by_operators_alone)
{
	cleanup(caller_release) struct caller_client b;
	char json[512];

	for (int i = 0; i < 70; i++) {
		(void)str_format(json, sizeof(json),
				 "{\"volume\":{\"id\":\"v\",\"namespace\":\"n%d\"," NFS
				 ",\"externalId\":\"vol-1\",\"context\":{\"share\":\"/%d\"}}}",
				 i, i);
		must(f, "Register", json, NULL);
	}
	caller_with(f, WRITES, &b);
	expect_alike(&b, "Volumes.Create", COPY_OF_OWN,
		     "{\"volume\":{" IN("b", "copy") NFS ",\"cloneId\":\"vol-9\"}}",
		     STATUS_PERMISSION_DENIED);
	must(f, "CreateSnapshot", "{\"volumeId\":\"v\",\"namespace\":\"n1\",\"name\":\"s\"}", NULL);
}

/* Each entry costs a walk over all parts of its id. */
CASE(an_id_that_its_plugin_lists_again_and_again_counts_once)
{
	cleanup(caller_release) struct caller_client b;
	char text[ERROR_MSG_MAX];

	for (size_t i = 0; i < 40; i++)
		(void)str_copy(provider.volumes[i].id, PROVIDER_TEXT, i % 2 == 0 ? "vol-8" : "vol-9");
	provider.n_volumes = 40;
	caller_with(f, ADOPTS, &b);
	assert_int_equal(ask_as(&b, "Volumes.ListExternal", "{\"pluginId\":\"nfs\"}", text), STATUS_OK);
	assert_null(strstr(strstr(text, "\"vol-8\"") + 1, "\"vol-8\""));
	assert_null(strstr(strstr(text, "\"vol-9\"") + 1, "\"vol-9\""));
}

CASE(a_second_name_does_not_tell_a_foreign_id_from_an_unknown_one)
{
	cleanup(caller_release) struct caller_client b;

	make_things_of_a(f);
	must(f, "Create", "{\"volume\":{" IN("b", "own") NFS "}}", "vol-2");
	caller_with(f, WRITES, &b);
	for (int is_own = 0; is_own < 2; is_own++)
		expect_alike(&b, "Volumes.Register",
			     is_own ? "{\"volume\":{" IN("b", "x") NFS
				     ",\"externalId\":\"vol-1\",\"shares\":\"own\"}}"
				    : "{\"volume\":{" IN("b", "x") NFS
				     ",\"externalId\":\"vol-1\",\"shares\":\"none\"}}",
			     is_own ? "{\"volume\":{" IN("b", "x") NFS
				     ",\"externalId\":\"vol-9\",\"shares\":\"own\"}}"
				    : "{\"volume\":{" IN("b", "x") NFS
				     ",\"externalId\":\"vol-9\",\"shares\":\"none\"}}",
			     STATUS_FAILED_PRECONDITION);
}

CASE(a_registration_needs_its_right_also_when_the_plugin_has_confirmed_it)
{
	static const char json[] =
		"{\"volume\":{" IN("b", "own") NFS ",\"externalId\":\"vol-1\",\"description\":\"mine\"}}";
	cleanup(caller_release) struct caller_client b;
	struct rpc_client *operator= f->operator.client;

	must(f, "Create", "{\"volume\":{" IN("b", "own") NFS "}}", "vol-1");
	caller_with(f, WRITES, &b);
	provider_order(CALL_VALIDATE, PROVIDER_HOLD, 1, STATUS_OK);
	f->operator.client = b.client;
	start_asking(f, "Register", json, &waiting);
	f->operator.client = operator;
	UNTIL(f, provider.calls[CALL_VALIDATE] == 1);
	operator_does(f, "Operator.PutPolicy", "{\"policy\":{\"name\":\"b\",\"plugin\":\"read\"}}");
	provider_answer();
	UNTIL(f, waiting.ended);
	assert_int_equal(waiting.status, STATUS_PERMISSION_DENIED);
}

/* The server checks again before it asks the provider, and stores what it finds for readers of namespace b.
 */
CASE(a_deletion_names_no_volume_of_another_namespace_that_has_the_id)
{
	const struct volume_entry *entry;
	struct error err;

	must(f, "Register",
	     "{\"volume\":{" IN("b", "v") NFS ",\"externalId\":\"nfs\",\"context\":{\"share\":\"/b\"}}}",
	     NULL);
	must(f, "Register",
	     "{\"volume\":{" IN("a", "w") NFS ",\"externalId\":\"nfs\",\"context\":{\"share\":\"/a\"}}}",
	     NULL);
	entry = NON_NULL(state_volume(&f->server->state, "b", "v"));
	assert_error(identity_check_alone(f->server, NULL, entry, &err), STATUS_FAILED_PRECONDITION, err,
		     "volume v: a volume of another namespace has the same id at the provider");
	operator_does(f, "Volumes.Deregister", "{\"id\":\"w\",\"namespace\":\"a\"}");
	must(f, "Register",
	     "{\"volume\":{" IN("b", "w") NFS ",\"externalId\":\"nfs\",\"context\":{\"share\":\"/a\"}}}",
	     NULL);
	assert_error(identity_check_alone(f->server, NULL, entry, &err), STATUS_FAILED_PRECONDITION, err,
		     "volume v: volume w in namespace b has the same id");
}

CASE(a_context_is_not_changed_to_storage_that_the_namespace_may_not_adopt)
{
	cleanup(caller_release) struct caller_client b;

	must(f, "Register",
	     "{\"volume\":{" IN("b", "v") NFS ",\"externalId\":\"nfs\",\"context\":{\"share\":\"/b\"}}}",
	     NULL);
	caller_with(f, WRITES, &b);
	expect(&b, "Volumes.Register",
	       "{\"volume\":{" IN("b", "v") NFS
	       ",\"externalId\":\"nfs\",\"context\":{\"share\":\"/b\"},\"description\":\"mine\"}}",
	       STATUS_OK); /* it is the same storage */
	expect(&b, "Volumes.Register",
	       "{\"volume\":{" IN("b", "v") NFS ",\"externalId\":\"nfs\",\"context\":{\"share\":\"/a\"}}}",
	       STATUS_PERMISSION_DENIED);
}

#define BUCKET(id, flags, more) \
	"{\"volume\":{" IN("b", id) NFS ",\"externalId\":\"bucket\",\"mountOptions\":{" flags "}" more "}}"
#define CONFINED "\"mountFlags\":[\"prefix team-a/\"]"

/* Plugins give mount options to other programs. */
CASE(mount_options_reach_no_storage_that_the_namespace_may_not_adopt)
{
	static const char *const others[] = {
		BUCKET("v", "\"mountFlags\":[\"prefix team-b/\"]", ""),
		BUCKET("v", "\"mountFlags\":[\"noatime\"]", ""),
		BUCKET("v", "\"fsType\":\"overlay\"," CONFINED, ""),
		BUCKET("v", "\"fsType\":\"ext4\"", ""),
		BUCKET("second", "\"mountFlags\":[\"noatime\"]", ",\"shares\":\"v\""),
		"{\"volume\":{" IN("b", "plain") NFS ",\"externalId\":\"disk\","
						     "\"mountOptions\":{\"mountFlags\":[\"upperdir=/x\"]}}}",
		"{\"volume\":{" IN("b", "made") NFS ",\"mountOptions\":{\"fsType\":\"fuse.sh\"}}}",
	};
	cleanup(caller_release) struct caller_client b;

	must(f, "Register", BUCKET("v", CONFINED, ""), NULL);
	must(f, "Register", "{\"volume\":{" IN("b", "plain") NFS ",\"externalId\":\"disk\"}}", NULL);
	caller_with(f, WRITES, &b);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		expect(&b, i + 1 < ARRAY_SIZE(others) ? "Volumes.Register" : "Volumes.Create", others[i],
		       STATUS_PERMISSION_DENIED);
	expect(&b, "Volumes.Register", BUCKET("v", CONFINED, ",\"description\":\"mine\""), STATUS_OK);
	expect(&b, "Volumes.Register", BUCKET("second", CONFINED, ",\"shares\":\"v\""), STATUS_OK);
	expect(&b, "Volumes.Register",
	       "{\"volume\":{" IN("b", "plain") NFS
	       ",\"externalId\":\"disk\","
	       "\"mountOptions\":{\"fsType\":\"xfs\",\"mountFlags\":[\"noatime,nouuid\"]}}}",
	       STATUS_OK);
}

/* Another volume has got the name of the first one. */
CASE(a_second_name_keeps_the_flags_that_confine_it_when_the_first_is_gone)
{
	cleanup(caller_release) struct caller_client b;
	struct rpc_client *operator= f->operator.client;

	must(f, "Register", BUCKET("v", CONFINED, ""), NULL);
	caller_with(f, WRITES, &b);
	expect(&b, "Volumes.Register", BUCKET("second", CONFINED, ",\"shares\":\"v\""), STATUS_OK);
	must(f, "Deregister", "{\"id\":\"v\",\"namespace\":\"b\"}", NULL);
	provider_order(CALL_CREATE, PROVIDER_HOLD, 1, STATUS_OK);
	f->operator.client = b.client;
	start_asking(f, "Create", "{\"volume\":{" IN("b", "v") NFS "}}", &waiting);
	f->operator.client = operator;
	UNTIL(f, provider.calls[CALL_CREATE] == 1);
	expect(&b, "Volumes.Register", BUCKET("second", "\"mountFlags\":[\"noatime\"]", ""),
	       STATUS_PERMISSION_DENIED);
	provider_answer();
	UNTIL(f, waiting.ended);
}

/* Plugins mount by context: with less of it the volume may be all that the id names. */
CASE(a_second_name_reaches_no_more_than_the_first_one_without_the_right_to_adopt)
{
	static const char *const others[] = {
		NFS ",\"externalId\":\"vol-1\",\"shares\":\"made\",\"context\":{\"share\":\"/a\"}",
		NFS ",\"externalId\":\"nfs\",\"shares\":\"part\"",
		"\"type\":\"NATIVE\",\"profile\":\"trusted\"," CAPABILITIES
		",\"source\":{\"class\":\"BLOCK\",\"byId\":\"wwn-0x1\"},\"shares\":\"disk\"",
	};
	cleanup(caller_release) struct caller_client b;
	char json[1024];

	must(f, "Create", "{\"volume\":{" IN("b", "made") NFS "}}", "vol-1");
	must(f, "Register",
	     "{\"volume\":{" IN("b", "part") NFS ",\"externalId\":\"nfs\",\"context\":{\"share\":\"/b\"}}}",
	     NULL);
	must(f, "Register",
	     "{\"volume\":{" IN("b", "disk") NATIVE_HEAD
	     "\"source\":{\"class\":\"BLOCK\",\"byId\":\"wwn-0x1\"}}}",
	     NULL);
	caller_with(f, WRITES, &b);
	expect(&b, "Volumes.Register",
	       "{\"volume\":{" IN("b", "second") NFS
	       ",\"externalId\":\"vol-1\",\"shares\":\"made\",\"context\":{\"made\":\"vol-1\"}}}",
	       STATUS_OK);
	expect(&b, "Volumes.Register",
	       "{\"volume\":{" IN("b", "same") NFS
	       ",\"externalId\":\"nfs\",\"shares\":\"part\",\"context\":{\"share\":\"/b\"}}}",
	       STATUS_OK);
	expect(&b, "Volumes.Register", /* later, either */
	       "{\"volume\":{" IN("b", "second") NFS
	       ",\"externalId\":\"vol-1\",\"context\":{\"share\":\"/a\"}}}",
	       STATUS_PERMISSION_DENIED);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		(void)str_format(json, sizeof(json), "{\"volume\":{" IN("b", "more") "%s}}", others[i]);
		expect(&b, "Volumes.Register", json, STATUS_PERMISSION_DENIED);
	}
	caller_release(&b);
	caller_with(f, ADOPTS, &b);
	expect(&b, "Volumes.Register", json, STATUS_OK);
}

CASE(a_list_of_the_providers_volumes_has_those_that_the_caller_may_see)
{
	static const char list[] = "{\"pluginId\":\"nfs\",\"nextToken\":\"more\"}";
	cleanup(caller_release) struct caller_client b;
	char text[ERROR_MSG_MAX];

	make_things_of_a(f);
	must(f, "Create", "{\"volume\":{" IN("b", "own") NFS "}}", "vol-2");
	must(f, "Create", "{\"volume\":{" IN("b", "gone") NFS "}}", "vol-3");
	must(f, "Deregister", "{\"id\":\"gone\",\"namespace\":\"b\"}", NULL);
	must(f, "ListExternal", list,
	     "[{\"externalId\":\"vol-1\"},{\"externalId\":\"vol-2\"},{\"externalId\":\"vol-3\"}]");
	caller_with(f, WRITES, &b);
	assert_int_equal(ask_as(&b, "Volumes.ListExternal", list, text), STATUS_OK);
	assert_non_null(strstr(text, "\"vol-2\""));
	assert_null(strstr(text, "\"vol-1\""));
	assert_null(strstr(text, "\"vol-3\""));
	/* wherever the provider's list is begun */
	assert_int_equal(ask_as(&b, "Volumes.ListExternal", "{\"pluginId\":\"nfs\"}", text), STATUS_OK);
	assert_null(strstr(text, "vol-1"));
	caller_release(&b);
	caller_with(f, ADOPTS, &b);
	assert_int_equal(ask_as(&b, "Volumes.ListExternal", list, text), STATUS_OK);
	assert_null(strstr(text, "\"vol-1\""));
	assert_non_null(strstr(text, "\"vol-3\"")); /* no record knows it */
}

/* For whom its lists count at their plugin. */
static const char *sharer_of(struct caller_client *caller)
{
	static char name[PROVIDER_TEXT];

	expect(caller, "Volumes.ListExternal", "{\"pluginId\":\"nfs\"}", STATUS_OK);
	(void)str_copy(name, sizeof(name), provider.last_namespace);
	provider.last_namespace[0] = '\0';
	expect(caller, "Volumes.ListSnapshots", "{\"pluginId\":\"nfs\"}", STATUS_OK);
	assert_string_equal(provider.last_namespace, name);
	caller_release(caller);
	return name;
}

CASE(lists_of_one_caller_take_no_share_of_another)
{
	static const char policy[] =
		"{\"policy\":{\"name\":\"b\",\"namespaces\":[" WRITES "],\"plugin\":\"read\"}}";
	static const char *const tokens[] = {
		"{\"name\":\"t\",\"type\":\"CLIENT\",\"policies\":[\"b\"],\"namespace\":\"b\"}",
		"{\"name\":\"t\",\"type\":\"CLIENT\",\"policies\":[\"b\"]}",
		"{\"name\":\"t\",\"type\":\"CLIENT\",\"policies\":[\"b\"]}",
	};
	char names[ARRAY_SIZE(tokens)][PROVIDER_TEXT];
	struct caller_client caller;

	operator_does(f, "Operator.PutPolicy", policy);
	caller_init(&caller, f, "holdfast://c1/operator/alice", NULL);
	assert_string_equal(sharer_of(&caller), "operator/alice");
	for (size_t i = 0; i < ARRAY_SIZE(tokens); i++) {
		cleanup_free char *secret = make_token(f, tokens[i]);

		caller_init(&caller, f, NULL, secret);
		(void)str_copy(names[i], sizeof(names[i]), sharer_of(&caller));
	}
	assert_string_equal(names[0], "b");
	assert_true(str_starts_with(names[1], "token ") && str_starts_with(names[2], "token "));
	assert_string_not_equal(names[1], names[2]);
}

CASE(a_list_of_the_providers_snapshots_has_those_that_the_caller_may_see)
{
	cleanup(caller_release) struct caller_client b;
	char text[ERROR_MSG_MAX];

	make_things_of_a(f);
	(void)str_copy(provider.snapshots[1].id, PROVIDER_TEXT, "snap-2"); /* no record knows it */
	provider.n_snapshots = 2;
	must(f, "ListSnapshots", "{\"pluginId\":\"nfs\"}", "snap-2");
	caller_with(f, WRITES, &b);
	assert_int_equal(ask_as(&b, "Volumes.ListSnapshots", "{\"pluginId\":\"nfs\"}", text), STATUS_OK);
	assert_null(strstr(text, "snap-"));
	caller_release(&b);
	caller_with(f, ADOPTS, &b);
	assert_int_equal(ask_as(&b, "Volumes.ListSnapshots", "{\"pluginId\":\"nfs\"}", text), STATUS_OK);
	assert_null(strstr(text, "snap-1"));
	assert_non_null(strstr(text, "snap-2"));
}

CASE(a_deletion_of_another_namespaces_snapshot_is_refused_as_one_of_an_unknown_id)
{
	static const char foreign[] = "{\"pluginId\":\"nfs\",\"snapshotId\":\"snap-1\"}";
	static const char unknown[] = "{\"pluginId\":\"nfs\",\"snapshotId\":\"snap-9\"}";
	struct caller_client b;

	make_things_of_a(f);
	caller_with(f, WRITES, &b);
	expect_alike(&b, "Volumes.DeleteSnapshot", foreign, unknown, STATUS_PERMISSION_DENIED);
	caller_release(&b);
	caller_of(f, WRITES, "write", &b);
	expect(&b, "Volumes.DeleteSnapshot", foreign, STATUS_PERMISSION_DENIED);
	expect(&b, "Volumes.DeleteSnapshot", unknown, STATUS_OK);
	caller_release(&b);
	assert_int_equal(provider_snapshots(), 1);
}

static void list_parameter(struct fixture *f, const char *plugin_id, const char *key)
{
	struct parameters_lists *lists = &f->server->config.parameters;
	struct parameters_list *list = &lists->lists[lists->n_lists++];

	(void)str_copy(list->plugin_id, sizeof(list->plugin_id), plugin_id);
	for (int kind = 0; kind < PARAMETERS_KIND_N; kind++)
		(void)str_copy(list->keys[kind][0], PARAMETERS_KEY_SIZE, key);
}

/* The folder may be another namespace's. */
CASE(parameters_that_root_does_not_list_need_the_right_to_adopt)
{
	static const char made[] = "{\"volume\":{" IN("b", "v") NFS ",\"parameters\":{\"subDir\":\"a-db\"}}}";
	static const char snapshot[] = "{\"volumeId\":\"own\",\"namespace\":\"b\",\"name\":\"s1\","
				       "\"parameters\":{\"subDir\":\"a-db\"}}";
	cleanup(caller_release) struct caller_client b;
	char text[ERROR_MSG_MAX];

	must(f, "Create", "{\"volume\":{" IN("b", "own") NFS "}}", "vol-1");
	caller_with(f, WRITES, &b);
	list_parameter(f, "*", "subDir");
	list_parameter(f, "nfs", "type"); /* it takes the place of "*" */
	assert_int_equal(ask_as(&b, "Volumes.Create", made, text), STATUS_PERMISSION_DENIED);
	assert_contains(text, "parameters: 'subDir' may name other storage");
	assert_int_equal(ask_as(&b, "Volumes.CreateSnapshot", snapshot, text), STATUS_PERMISSION_DENIED);
	assert_int_equal(provider.calls[CALL_CREATE], 1);
	(void)str_copy(f->server->config.parameters.lists[1].keys[PARAMETERS_OF_CALLS][1],
		       PARAMETERS_KEY_SIZE, "subDir");
	expect(&b, "Volumes.Create", made, STATUS_OK);
	f->server->config.parameters.n_lists = 0;
	expect(&b, "Volumes.Create", made, STATUS_OK); /* it is there */
	expect(&b, "Volumes.CreateSnapshot", snapshot, STATUS_PERMISSION_DENIED);
	list_parameter(f, "*", "*");
	expect(&b, "Volumes.CreateSnapshot", snapshot, STATUS_OK);
}

/* Some plugins take mount flags, or their environment, from secrets. */
CASE(secrets_that_root_does_not_list_need_the_right_to_adopt)
{
#define SECRET(id, key) "{\"volume\":{" IN("b", id) NFS ",\"secrets\":{\"" key "\":\"x\"}}}"
	cleanup(caller_release) struct caller_client b;
	char text[ERROR_MSG_MAX];

	must(f, "Create", SECRET("own", "mount_flags"), "vol-1");
	list_parameter(f, "nfs", "password");
	caller_with(f, WRITES, &b);
	expect(&b, "Volumes.Register",
	       "{\"volume\":{" IN("b", "own") NFS ",\"secrets\":{\"mount_flags\":\"[redacted]\"}}}",
	       STATUS_OK);
	/* whether it is the stored one is not shown */
	expect(&b, "Volumes.Register", SECRET("own", "mount_flags"), STATUS_PERMISSION_DENIED);
	assert_int_equal(ask_as(&b, "Volumes.Create", SECRET("v", "mount_flags"), text),
			 STATUS_PERMISSION_DENIED);
	assert_contains(text, "secrets: 'mount_flags' may name other storage");
	expect(&b, "Volumes.Create", SECRET("v", "password"), STATUS_OK);
	expect(&b, "Volumes.Register", SECRET("v", "mount_flags"), STATUS_PERMISSION_DENIED);
	expect(&b, "Volumes.Expand",
	       "{\"id\":\"own\",\"namespace\":\"b\",\"capacityMin\":\"1073741824\",\"secrets\":{\"mount_"
	       "flags\":\"x\"}}",
	       STATUS_PERMISSION_DENIED);
	expect(&b, "Volumes.CreateSnapshot",
	       "{\"volumeId\":\"own\",\"namespace\":\"b\",\"name\":\"s\",\"secrets\":{\"mount_flags\":\"x\"}"
	       "}",
	       STATUS_PERMISSION_DENIED);
	must(f, "CreateSnapshot", "{\"volumeId\":\"own\",\"namespace\":\"b\",\"name\":\"kept\"}", "snap-1");
	expect(&b, "Volumes.DeleteSnapshot",
	       "{\"pluginId\":\"nfs\",\"snapshotId\":\"snap-1\",\"secrets\":{\"mount_flags\":\"x\"}}",
	       STATUS_PERMISSION_DENIED);
	expect(&b, "Volumes.ListSnapshots", "{\"pluginId\":\"nfs\",\"secrets\":{\"mount_flags\":\"x\"}}",
	       STATUS_PERMISSION_DENIED);
	expect(&b, "Volumes.ListSnapshots", "{\"pluginId\":\"nfs\",\"secrets\":{\"password\":\"x\"}}",
	       STATUS_OK);
	expect(&b, "Volumes.Delete",
	       "{\"id\":\"own\",\"namespace\":\"b\",\"secrets\":{\"mount_flags\":\"x\"}}",
	       STATUS_PERMISSION_DENIED);
}

#define SECRETS(secrets) ",\"secrets\":{" secrets "}"
#define KEEPS(key) "\"" key "\":\"[redacted]\""

#define LETTERS "\"key\":\"\\u043a\\u043b\\u044e\\u0447\""
#define WIDE_BLANK "\"key\":\"\\u3000\\ufeff\""

#define PREFIXED ",\"mountOptions\":{\"mountFlags\":[\"prefix=b\"]}"

/* Without its flags a volume is the whole account, and without any secret a plugin may use its own. */
CASE(secrets_that_confine_a_volume_are_left_out_with_the_right_to_adopt_only)
{
#define ACCOUNT(id, more)                                                                                   \
	"{\"volume\":{" IN("b", id) NFS ",\"externalId\":\"account\",\"context\":{\"share\":\"/all\"}" more \
					"}}"
	static const char both[] = ACCOUNT("v", SECRETS("\"key\":\"roots\",\"mount_flags\":\"subdir=b\""));
	cleanup(caller_release) struct caller_client b, adopter, again;
	char text[ERROR_MSG_MAX];

	must(f, "Register", both, NULL);
	list_parameter(f, "nfs", "key");
	caller_with(f, WRITES, &b);
	assert_int_equal(ask_as(&b, "Volumes.Register", ACCOUNT("v", SECRETS(KEEPS("key"))), text),
			 STATUS_PERMISSION_DENIED);
	assert_contains(text, "secrets: volume v has one that is left out here");
	expect(&b, "Volumes.Register", ACCOUNT("v", SECRETS(KEEPS("mount_flags"))), STATUS_PERMISSION_DENIED);
	expect(&b, "Volumes.Register", ACCOUNT("v", ""), STATUS_PERMISSION_DENIED);
	expect(&b, "Volumes.Register", ACCOUNT("v", SECRETS(KEEPS("key") "," KEEPS("mount_flags"))),
	       STATUS_OK);
	expect(&b, "Volumes.Register", ACCOUNT("w", ",\"shares\":\"v\""), STATUS_PERMISSION_DENIED);
	expect(&b, "Volumes.Register", ACCOUNT("w", ",\"shares\":\"v\"" SECRETS("\"key\":\"x\"")),
	       STATUS_PERMISSION_DENIED);
	caller_with(f, ADOPTS, &adopter);
	expect(&adopter, "Volumes.Register", ACCOUNT("v", SECRETS(KEEPS("key"))), STATUS_OK);
	expect(&adopter, "Volumes.Register", ACCOUNT("flagged", PREFIXED ",\"shares\":\"v\""), STATUS_OK);
	caller_with(f, WRITES, &again);
	expect(&again, "Volumes.Register", ACCOUNT("w", ",\"shares\":\"v\"" SECRETS("\"key\":\"x\"")),
	       STATUS_OK);
	/* a blank one is no secret to many plugins */
	expect(&again, "Volumes.Register", ACCOUNT("v", SECRETS("\"key\":\"\"")), STATUS_PERMISSION_DENIED);
	expect(&again, "Volumes.Register", ACCOUNT("w2", ",\"shares\":\"v\"" SECRETS("\"key\":\" \"")),
	       STATUS_PERMISSION_DENIED);
	expect(&again, "Volumes.Register", ACCOUNT("v", SECRETS("\"key\":\"\\u000b\\u00a0\\u200b\"")),
	       STATUS_PERMISSION_DENIED);
	expect(&again, "Volumes.Register", ACCOUNT("v", SECRETS(WIDE_BLANK)), STATUS_PERMISSION_DENIED);
	expect(&again, "Volumes.Register", ACCOUNT("v", SECRETS(LETTERS)), STATUS_OK);
	/* flags confine this name, and secrets the other one */
	expect(&again, "Volumes.Register", ACCOUNT("flagged", ",\"mountOptions\":{}"),
	       STATUS_PERMISSION_DENIED);
}

#define MODES(id, modes, more)                                                                           \
	"{\"volume\":{" IN("b",                                                                          \
			   id) "\"type\":\"CSI\",\"pluginId\":\"nfs\",\"requestedCapabilities\":[" modes \
			       "]" more "}}"
#define MODE(kind) "{\"accessMode\":\"SINGLE_NODE_WRITER\",\"attachmentMode\":\"" kind "\"}"
#define MOUNTED MODE("FILE_SYSTEM")
#define DEVICE MODE("BLOCK_DEVICE")

/* Without a type mount(8) goes by the contents, and those of f2fs name other disks of the node. */
CASE(a_plugin_has_block_devices_only_with_a_type_for_its_mounts)
{
	cleanup(caller_release) struct caller_client b;
	char text[ERROR_MSG_MAX];

	caller_with(f, WRITES, &b);
	assert_int_equal(ask_as(&b, "Volumes.Create", MODES("own", DEVICE, ""), text),
			 STATUS_FAILED_PRECONDITION);
	assert_contains(text, "plugin \"nfs\" { fs_type");
	refuses(f, "Create", MODES("own", DEVICE, ""), STATUS_FAILED_PRECONDITION, "fs_type");
	name_fs_type(f, "xfs");
	expect(&b, "Volumes.Create", MODES("own", DEVICE, ""), STATUS_OK);
	list_parameter(f, "nfs", "key"); /* a block of its own without a type */
	expect(&b, "Volumes.Create", MODES("more", DEVICE, ""), STATUS_OK);
}

/* No flag, secret or type confines the device itself. */
CASE(a_volume_becomes_a_block_device_with_the_right_to_adopt_only)
{
#define SUBVOLUME \
	",\"externalId\":\"disk\",\"mountOptions\":{\"fsType\":\"btrfs\",\"mountFlags\":[\"subvol=b\"]}"
	cleanup(caller_release) struct caller_client b, adopter;
	char text[ERROR_MSG_MAX];

	must(f, "Register", MODES("v", MOUNTED, SUBVOLUME), NULL);
	name_fs_type(f, "xfs");
	caller_with(f, WRITES, &b);
	assert_int_equal(ask_as(&b, "Volumes.Register", MODES("v", MOUNTED "," DEVICE, SUBVOLUME), text),
			 STATUS_PERMISSION_DENIED);
	assert_contains(text, "requested_capabilities: volume v has no block-device");
	expect(&b, "Volumes.Register", MODES("second", MOUNTED "," DEVICE, SUBVOLUME ",\"shares\":\"v\""),
	       STATUS_PERMISSION_DENIED);
	expect(&b, "Volumes.Register", MODES("second", MOUNTED, SUBVOLUME ",\"shares\":\"v\""), STATUS_OK);
	caller_with(f, ADOPTS, &adopter);
	expect(&adopter, "Volumes.Register", MODES("v", MOUNTED "," DEVICE, SUBVOLUME), STATUS_OK);
}

/* The mount of what was a raw device goes by its contents, which a program wrote. */
CASE(a_volume_is_a_block_device_until_the_plugins_have_a_type)
{
	cleanup(caller_release) struct caller_client b;

	name_fs_type(f, "xfs");
	must(f, "Register", MODES("v", MOUNTED "," DEVICE, ",\"externalId\":\"disk\""), NULL);
	name_fs_type(f, "");
	caller_with(f, WRITES, &b);
	expect(&b, "Volumes.Register", MODES("v", MOUNTED, ",\"externalId\":\"disk\""),
	       STATUS_FAILED_PRECONDITION);
	name_fs_type(f, "xfs");
	expect(&b, "Volumes.Register", MODES("v", MOUNTED, ",\"externalId\":\"disk\""), STATUS_OK);
}

#define REGISTERED(id, more) MODES(id, MOUNTED, ",\"externalId\":\"" id "\"" more)
#define IN_A_FOLDER ",\"context\":{\"folder\":\"/b\"}"
#define WITH_KEY SECRETS("\"key\":\"x\"")

/* Asks for a copy of each source, by @field with the ids of @ids. */
static void expect_copies(struct caller_client *b, const char *field, const char *const ids[static 5])
{
	static const struct {
		int source;
		const char *mode, *more;
		enum status status;
	} rows[] = {
		{0, MOUNTED, WITH_KEY, STATUS_PERMISSION_DENIED},
		{1, MOUNTED, WITH_KEY, STATUS_PERMISSION_DENIED},
		{2, MOUNTED, "", STATUS_PERMISSION_DENIED},
		{2, MOUNTED, SECRETS("\"key\":\" \""), STATUS_PERMISSION_DENIED},
		{2, MOUNTED, SECRETS("\"key\":\"\\u00a0\""), STATUS_PERMISSION_DENIED},
		{2, DEVICE, WITH_KEY, STATUS_PERMISSION_DENIED},
		{2, MOUNTED, WITH_KEY, STATUS_OK},
		{2, MOUNTED, SECRETS(LETTERS), STATUS_OK},
		{3, DEVICE, "", STATUS_PERMISSION_DENIED},
		{3, MOUNTED, "", STATUS_OK},
		{4, MOUNTED, "", STATUS_OK},
	};
	char json[1024];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		(void)str_format(json, sizeof(json),
				 "{\"volume\":{\"id\":\"%s-%zu\",\"namespace\":\"b\",\"type\":\"CSI\","
				 "\"pluginId\":\"nfs\",\"requestedCapabilities\":[%s],\"%s\":\"%s\"%s}}",
				 field, i, rows[i].mode, field, ids[rows[i].source], rows[i].more);
		expect(b, "Volumes.Create", json, rows[i].status);
	}
}

/* A provider copies all that has an id. */
CASE(a_copy_reaches_no_more_than_its_source_without_the_right_to_adopt)
{
	static const char *const ids[] = {"flags", "folder", "secrets", "vol-1", "blank"};
	static const char *const snapshots[] = {"snap-1", "snap-2", "snap-3", "snap-4", "snap-5"};
	static const char *const names[] = {"flags", "folder", "secrets", "own", "blank"};
	cleanup(caller_release) struct caller_client b, adopter;
	char json[256], text[ERROR_MSG_MAX];

	name_fs_type(f, "xfs");
	list_parameter(f, "nfs", "key");
	must(f, "Register", REGISTERED("flags", PREFIXED), NULL);
	must(f, "Register", REGISTERED("folder", IN_A_FOLDER), NULL);
	must(f, "Register", REGISTERED("secrets", WITH_KEY), NULL);
	must(f, "Register", REGISTERED("blank", SECRETS("\"key\":\" \"")), NULL);
	must(f, "Register", REGISTERED("wide", SECRETS(WIDE_BLANK)), NULL);
	must(f, "Create", MODES("own", MOUNTED, ""), "vol-1");
	caller_with(f, WRITES, &b);
	expect_copies(&b, "cloneId", ids);
	expect(&b, "Volumes.Create", MODES("v", MOUNTED, ",\"cloneId\":\"wide\""), STATUS_PERMISSION_DENIED);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		(void)str_format(json, sizeof(json),
				 "{\"volumeId\":\"%s\",\"namespace\":\"b\",\"name\":\"s%zu\"}", names[i], i);
		assert_int_equal(ask_as(&b, "Volumes.CreateSnapshot", json, text), STATUS_OK);
		assert_null(strstr(text, "limits"));
		(void)str_format(json, sizeof(json), "{\"id\":\"%s\",\"namespace\":\"b\"}", names[i]);
		must(f, "Deregister", json, NULL);
	}
	for (int is_by_plugin = 0; is_by_plugin < 2; is_by_plugin++) {
		assert_int_equal(ask_as(&b, "Volumes.ListSnapshots",
					is_by_plugin ? "{\"pluginId\":\"nfs\"}" : "{}", text),
				 STATUS_OK);
		assert_contains(text, "\"snap-2\"");
		assert_null(strstr(text, "limits"));
	}
	expect_copies(&b, "snapshotId", snapshots);
	assert_int_equal(
		ask_as(&b, "Volumes.Create", MODES("more", DEVICE, ",\"snapshotId\":\"snap-4\""), text),
		STATUS_PERMISSION_DENIED);
	assert_contains(text, "snapshot_id: the copy reaches more of the data than its source");
	caller_with(f, ADOPTS, &adopter);
	expect(&adopter, "Volumes.Create", MODES("more", DEVICE, ",\"snapshotId\":\"snap-4\""), STATUS_OK);
}

CASE(a_snapshot_without_limits_on_record_is_of_a_part)
{
	char key[] = PREFIX_SNAPSHOT "nfs/b/old";
	Holdfast__V1__Snapshot old = HOLDFAST__V1__SNAPSHOT__INIT;
	const struct record record = {.key = key, .message = &old.base};
	cleanup(caller_release) struct caller_client b;

	old.plugin_id = "nfs";
	old.namespace_ = "b";
	old.name = "old";
	old.snapshot_id = "snap-old";
	old.ready = true;
	assert_int_equal(records_put(&f->server->state.records, &record, NULL), STATUS_OK);
	caller_with(f, WRITES, &b);
	expect(&b, "Volumes.Create", MODES("v", MOUNTED, ",\"snapshotId\":\"snap-old\""),
	       STATUS_PERMISSION_DENIED);
	/* also if it is made now: an earlier try may have made it */
	must(f, "Register", REGISTERED("v", ""), NULL);
	old.snapshot_id = "";
	old.source_volume_id = old.external_source_id = "v";
	assert_int_equal(records_put(&f->server->state.records, &record, NULL), STATUS_OK);
	expect(&b, "Volumes.CreateSnapshot", "{\"volumeId\":\"v\",\"namespace\":\"b\",\"name\":\"old\"}",
	       STATUS_OK);
	expect(&b, "Volumes.Create", MODES("w", MOUNTED, ",\"snapshotId\":\"snap-1\""),
	       STATUS_PERMISSION_DENIED);
}

CASE(a_copy_is_as_large_as_the_largest_name_of_its_source)
{
	struct volume reported = ROW(.type = VOLUME_CSI, .id = "a-report", .namespace = "b",
				     .plugin_id = "nfs", .external_id = "part");
	cleanup(caller_release) struct caller_client b;

	must(f, "Register", REGISTERED("disk", PREFIXED), NULL);
	must(f, "Register", MODES("whole", MOUNTED, ",\"externalId\":\"disk\",\"shares\":\"disk\""), NULL);
	must(f, "Register", MODES("x", MOUNTED, ",\"externalId\":\"disk\",\"shares\":\"disk\"" PREFIXED),
	     NULL);
	/* a report is no name of it */
	must(f, "Register", REGISTERED("part", PREFIXED), NULL);
	assert_int_equal(state_put_volume(&f->server->state, &reported, NULL), STATUS_OK);
	caller_with(f, WRITES, &b);
	expect(&b, "Volumes.Create", MODES("copy", MOUNTED, ",\"cloneId\":\"disk\""), STATUS_OK);
	expect(&b, "Volumes.Create", MODES("more", MOUNTED, ",\"cloneId\":\"part\""),
	       STATUS_PERMISSION_DENIED);
}

/* A provider deletes, and gives back by its name, all that has the id. */
CASE(a_part_of_a_storage_is_deleted_with_the_right_to_adopt_only)
{
	cleanup(caller_release) struct caller_client b, adopter;
	char text[ERROR_MSG_MAX];

	must(f, "Register", REGISTERED("flags", PREFIXED), NULL);
	must(f, "Register", REGISTERED("folder", IN_A_FOLDER), NULL);
	must(f, "Create", MODES("made", MOUNTED, PREFIXED), "vol-1");
	must(f, "Create", MODES("own", MOUNTED, ""), "vol-2");
	must(f, "Create", MODES("secrets", MOUNTED, WITH_KEY), "vol-3");
	caller_with(f, WRITES, &b);
	assert_int_equal(ask_as(&b, "Volumes.Delete", "{\"id\":\"flags\",\"namespace\":\"b\"}", text),
			 STATUS_PERMISSION_DENIED);
	assert_contains(text, "volume flags may be a part of the storage that has its id");
	expect(&b, "Volumes.Delete", "{\"id\":\"folder\",\"namespace\":\"b\"}", STATUS_PERMISSION_DENIED);
	expect(&b, "Volumes.Delete", "{\"id\":\"made\",\"namespace\":\"b\"}", STATUS_PERMISSION_DENIED);
	expect(&b, "Volumes.Delete", "{\"id\":\"own\",\"namespace\":\"b\"}", STATUS_OK);
	expect(&b, "Volumes.Delete", "{\"id\":\"secrets\",\"namespace\":\"b\"}", STATUS_OK);
	caller_with(f, ADOPTS, &adopter);
	expect(&adopter, "Volumes.Delete", "{\"id\":\"flags\",\"namespace\":\"b\"}", STATUS_OK);
}

#define NAMED(id) "{\"id\":\"" id "\",\"namespace\":\"b\"}"

/* A creation by its name may get all of the storage again, whoever registered the volume since. */
CASE(a_confined_volume_is_forgotten_with_the_right_to_adopt_only)
{
	static const char *const confined[] = {NAMED("flags"), NAMED("folder"),	 NAMED("wide"),
					       NAMED("made"),  NAMED("secrets"), NAMED("creating")};
	static const char *const others[] = {NAMED("plain"), NAMED("blank"),  NAMED("own"),
					     NAMED("disk"),  NAMED("listed"), NAMED("empty")};
	cleanup(caller_release) struct caller_client b, adopter;
	char text[ERROR_MSG_MAX];

	must(f, "Register", REGISTERED("flags", PREFIXED), NULL);
	must(f, "Register", REGISTERED("folder", IN_A_FOLDER), NULL);
	must(f, "Register", REGISTERED("wide", SECRETS("\"token\":\"\u3000\"")), NULL);
	must(f, "Create", MODES("made", MOUNTED, PREFIXED), "vol-1");
	must(f, "Create", MODES("secrets", MOUNTED, SECRETS("\"token\":\"x\"")), "vol-2");
	must(f, "Register", REGISTERED("plain", ",\"mountOptions\":{\"fsType\":\"xfs\"}"), NULL);
	must(f, "Register", REGISTERED("blank", SECRETS("\"key\":\" \"")), NULL);
	must(f, "Create", MODES("own", MOUNTED, ""), "vol-3");
	must(f, "Register",
	     "{\"volume\":{" IN("b", "disk") NATIVE_HEAD
	     "\"source\":{\"class\":\"BLOCK\",\"byId\":\"wwn-0x1\"}}}",
	     NULL);
	must(f, "Create", MODES("listed", MOUNTED, WITH_KEY), "vol-4");
	must(f, "Register", REGISTERED("empty", SECRETS("\"token\":\" \"")), NULL);
	list_parameter(f, "nfs", "key");
	/* the provider may have made it */
	provider_order(CALL_CREATE, PROVIDER_FAIL, 1, STATUS_UNAVAILABLE);
	refuses(f, "Create", MODES("creating", MOUNTED, PREFIXED), STATUS_UNAVAILABLE, "");
	caller_with(f, WRITES, &b);
	for (size_t i = 0; i < ARRAY_SIZE(confined); i++) {
		assert_int_equal(ask_as(&b, "Volumes.Deregister", confined[i], text),
				 STATUS_PERMISSION_DENIED);
		assert_contains(text, "may be a part of the storage that has its id");
	}
	expect(&b, "Volumes.Register", REGISTERED("blank", SECRETS("\"key\":\"\"")), STATUS_OK);
	expect(&b, "Volumes.Register", REGISTERED("wide", SECRETS(KEEPS("token"))), STATUS_OK);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		expect(&b, "Volumes.Deregister", others[i], STATUS_OK);
	/* while a volume has the storage, no creation gets it */
	must(f, "Register",
	     MODES("second", MOUNTED, ",\"externalId\":\"flags\",\"shares\":\"flags\"" PREFIXED), NULL);
	expect(&b, "Volumes.Deregister", NAMED("second"), STATUS_OK);
	expect(&b, "Volumes.Deregister", NAMED("flags"), STATUS_PERMISSION_DENIED);
	must(f, "Register",
	     "{\"volume\":{" IN("a", "db") NFS ",\"externalId\":\"folder\",\"context\":{\"folder\":\"/a\"}}}",
	     NULL);
	expect(&b, "Volumes.Deregister", NAMED("folder"), STATUS_PERMISSION_DENIED);
	caller_with(f, ADOPTS, &adopter);
	for (size_t i = 0; i < ARRAY_SIZE(confined); i++)
		expect(&adopter, "Volumes.Deregister", confined[i], STATUS_OK);
}

/* What was written to it stays, and would be mounted by its contents by another name, or when it is created
 * again. */
CASE(a_raw_name_is_forgotten_only_when_the_plugins_have_a_type)
{
	cleanup(caller_release) struct caller_client b;

	name_fs_type(f, "xfs");
	must(f, "Register", MODES("db", MOUNTED, ",\"externalId\":\"disk\""), NULL);
	must(f, "Register", MODES("raw", DEVICE, ",\"externalId\":\"disk\",\"shares\":\"db\""), NULL);
	must(f, "Create", MODES("made", DEVICE, ""), "vol-1");
	name_fs_type(f, "");
	caller_with(f, WRITES, &b);
	expect(&b, "Volumes.Deregister", NAMED("raw"), STATUS_FAILED_PRECONDITION);
	expect(&b, "Volumes.Deregister", NAMED("made"), STATUS_FAILED_PRECONDITION);
	refuses(f, "Deregister", NAMED("made"), STATUS_FAILED_PRECONDITION, "plugin \"nfs\" { fs_type");
	expect(&b, "Volumes.Deregister", NAMED("db"), STATUS_OK); /* the raw name stays */
	name_fs_type(f, "xfs");
	expect(&b, "Volumes.Deregister", NAMED("raw"), STATUS_OK);
	expect(&b, "Volumes.Deregister", NAMED("made"), STATUS_OK);
}

CASE(a_raw_name_is_forgotten_beside_another_one)
{
	cleanup(caller_release) struct caller_client b;

	name_fs_type(f, "xfs");
	must(f, "Register", MODES("raw", DEVICE, ",\"externalId\":\"disk\""), NULL);
	must(f, "Register", MODES("again", DEVICE, ",\"externalId\":\"disk\",\"shares\":\"raw\""), NULL);
	name_fs_type(f, "");
	caller_with(f, WRITES, &b);
	expect(&b, "Volumes.Deregister", NAMED("raw"), STATUS_OK);
	expect(&b, "Volumes.Deregister", NAMED("again"), STATUS_FAILED_PRECONDITION);
}

CASE(an_operator_forgets_a_raw_name_when_its_plugin_has_gone)
{
	cleanup(caller_release) struct caller_client b;
	char text[ERROR_MSG_MAX];

	name_fs_type(f, "xfs");
	must(f, "Register", MODES("raw", DEVICE, ",\"externalId\":\"disk\""), NULL);
	name_fs_type(f, "");
	refuses(f, "Deregister", NAMED("raw"), STATUS_FAILED_PRECONDITION, "volume raw is a block device");
	state_delete_instance(&f->server->state, state_instance(&f->server->state, "n1", "nfs", ""));
	refuses(f, "Deregister", NAMED("raw"), STATUS_FAILED_PRECONDITION, "when no node has the plugin");
	state_delete_instance(&f->server->state, state_instance(&f->server->state, "n2", "nfs", ""));
	caller_with(f, WRITES, &b);
	assert_int_equal(ask_as(&b, "Volumes.Deregister", NAMED("raw"), text), STATUS_FAILED_PRECONDITION);
	assert_contains(text, "with csi-adopt-volume only, when no node has the plugin");
	must(f, "Deregister", NAMED("raw"), NULL);
}

#define SNAPSHOT(volume, name) "{\"volumeId\":\"" volume "\",\"namespace\":\"b\",\"name\":\"" name "\"}"
#define FROM_SNAPSHOT(id, mode) MODES("copy-" id, mode, ",\"snapshotId\":\"" id "\"")

CASE(a_copy_of_a_raw_device_needs_a_type)
{
	static const char *const copies[] = {MODES("clone", MOUNTED, ",\"cloneId\":\"disk\""),
					     FROM_SNAPSHOT("snap-1", MOUNTED),
					     FROM_SNAPSHOT("snap-2", MOUNTED)};
	cleanup(caller_release) struct caller_client b, adopter;
	char text[ERROR_MSG_MAX];

	name_fs_type(f, "xfs");
	must(f, "Register", MODES("raw", DEVICE, ",\"externalId\":\"disk\""), NULL);
	must(f, "Register", MODES("db", MOUNTED, ",\"externalId\":\"disk\",\"shares\":\"raw\""), NULL);
	must(f, "CreateSnapshot", SNAPSHOT("raw", "s1"), "snap-1");
	must(f, "CreateSnapshot", SNAPSHOT("db", "s2"), "snap-2");
	name_fs_type(f, "");
	caller_with(f, WRITES, &b);
	caller_with(f, ADOPTS, &adopter);
	for (size_t i = 0; i < ARRAY_SIZE(copies); i++) {
		assert_int_equal(ask_as(&b, "Volumes.Create", copies[i], text), STATUS_FAILED_PRECONDITION);
		assert_contains(text, "the source is or was a block device");
		assert_contains(text, "plugin \"nfs\" { fs_type");
		expect(&adopter, "Volumes.Create", copies[i], STATUS_FAILED_PRECONDITION);
	}
	name_fs_type(f, "xfs");
	must(f, "Deregister", NAMED("raw"), NULL);
	must(f, "Deregister", NAMED("db"), NULL);
	name_fs_type(f, "");
	/* by the snapshots' records */
	expect(&b, "Volumes.Create", copies[1], STATUS_FAILED_PRECONDITION);
	expect(&b, "Volumes.Create", copies[2], STATUS_FAILED_PRECONDITION);
	name_fs_type(f, "xfs");
	expect(&b, "Volumes.Create", copies[1], STATUS_OK);
}

/* A volume of another namespace says nothing of what this one may reach in its snapshots. */
CASE(a_copy_of_a_snapshot_keeps_the_limits_that_its_volume_has_now)
{
	cleanup(caller_release) struct caller_client b;

	must(f, "Register", REGISTERED("disk", ""), NULL);
	must(f, "CreateSnapshot", SNAPSHOT("disk", "s1"), "snap-1");
	must(f, "Register", REGISTERED("disk", PREFIXED), NULL);
	must(f, "Create", MODES("made", MOUNTED, ""), "vol-1");
	must(f, "CreateSnapshot", SNAPSHOT("made", "s2"), "snap-2");
	must(f, "Deregister", NAMED("made"), NULL);
	must(f, "Register", "{\"volume\":{" IN("a", "db") NFS ",\"externalId\":\"vol-1\"" PREFIXED "}}",
	     NULL);
	caller_with(f, WRITES, &b);
	expect(&b, "Volumes.Create", FROM_SNAPSHOT("snap-1", MOUNTED), STATUS_PERMISSION_DENIED);
	expect(&b, "Volumes.Create", FROM_SNAPSHOT("snap-2", MOUNTED), STATUS_OK);
	must(f, "Register", MODES("more", MOUNTED, ",\"externalId\":\"disk\",\"shares\":\"disk\""), NULL);
	expect(&b, "Volumes.Create", FROM_SNAPSHOT("snap-1", MOUNTED), STATUS_OK);
}

/* An earlier try may have made it, too. */
CASE(a_snapshot_has_the_limits_that_its_volume_has_when_it_is_made)
{
	cleanup(caller_release) struct caller_client b;
	struct rpc_client *operator= f->operator.client;

	name_fs_type(f, "xfs");
	must(f, "Register", REGISTERED("flags", ""), NULL);
	must(f, "Register", REGISTERED("whole", PREFIXED), NULL);
	must(f, "Register", REGISTERED("device", ""), NULL);
	must(f, "Register", REGISTERED("late", ""), NULL);
	must(f, "Register", REGISTERED("slow", ""), NULL);
	caller_with(f, WRITES, &b);
	provider_order(CALL_CREATE_SNAPSHOT, PROVIDER_FAIL, 3, STATUS_UNAVAILABLE);
	expect(&b, "Volumes.CreateSnapshot", SNAPSHOT("flags", "s1"), STATUS_UNAVAILABLE);
	expect(&b, "Volumes.CreateSnapshot", SNAPSHOT("whole", "s2"), STATUS_UNAVAILABLE);
	expect(&b, "Volumes.CreateSnapshot", SNAPSHOT("device", "s3"), STATUS_UNAVAILABLE);
	must(f, "Register", REGISTERED("flags", PREFIXED), NULL);
	must(f, "Register", REGISTERED("whole", ",\"mountOptions\":{}"), NULL);
	must(f, "Register", MODES("device", MOUNTED "," DEVICE, ",\"externalId\":\"device\""), NULL);
	expect(&b, "Volumes.CreateSnapshot", SNAPSHOT("flags", "s1"), STATUS_OK);
	expect(&b, "Volumes.CreateSnapshot", SNAPSHOT("whole", "s2"), STATUS_OK);
	expect(&b, "Volumes.CreateSnapshot", SNAPSHOT("device", "s3"), STATUS_OK);
	/* confined while it is made */
	provider_order(CALL_CREATE_SNAPSHOT, PROVIDER_HOLD, 1, STATUS_OK);
	f->operator.client = b.client;
	start_asking(f, "CreateSnapshot", SNAPSHOT("late", "s4"), &waiting);
	f->operator.client = operator;
	UNTIL(f, provider.calls[CALL_CREATE_SNAPSHOT] == 7);
	must(f, "Register", REGISTERED("late", PREFIXED), NULL);
	provider_answer();
	UNTIL(f, waiting.ended);
	assert_int_equal(waiting.status, STATUS_OK);
	/* confined when it is made, and not ready */
	provider.is_slow_snapshot = true;
	expect(&b, "Volumes.CreateSnapshot", SNAPSHOT("slow", "s5"), STATUS_OK);
	provider.is_slow_snapshot = false;
	must(f, "Register", REGISTERED("slow", PREFIXED), NULL);
	expect(&b, "Volumes.CreateSnapshot", SNAPSHOT("slow", "s5"), STATUS_OK);
	must(f, "Deregister", NAMED("flags"), NULL);
	must(f, "Deregister", NAMED("late"), NULL);
	must(f, "Deregister", NAMED("slow"), NULL);
	expect(&b, "Volumes.Create", FROM_SNAPSHOT("snap-1", MOUNTED), STATUS_PERMISSION_DENIED);
	expect(&b, "Volumes.Create", FROM_SNAPSHOT("snap-2", MOUNTED), STATUS_PERMISSION_DENIED);
	expect(&b, "Volumes.Create", FROM_SNAPSHOT("snap-3", DEVICE), STATUS_PERMISSION_DENIED);
	expect(&b, "Volumes.Create", FROM_SNAPSHOT("snap-3", MOUNTED), STATUS_OK);
	expect(&b, "Volumes.Create", FROM_SNAPSHOT("snap-4", MOUNTED), STATUS_PERMISSION_DENIED);
	expect(&b, "Volumes.Create", FROM_SNAPSHOT("snap-5", MOUNTED), STATUS_OK);
}

/* A snapshot may be tried again without end. */
TEST(limits_of_several_tries_name_each_secret_once)
{
	char *keys[] = {(char[]){"key"}};
	Holdfast__V1__SourceLimits one = V1(source_limits, .n_secrets = 1, .secrets = keys);
	cleanup_pb Holdfast__V1__SourceLimits *limits = NULL;
	uint8_t bytes[16];

	limits = holdfast__v1__source_limits__unpack(NULL, holdfast__v1__source_limits__pack(&one, bytes),
						     bytes);
	assert_true(limits_join(limits, &one));
	assert_int_equal(limits->n_secrets, 1);
}

/* An earlier try may have made it. */
CASE(a_snapshot_keeps_the_limits_that_its_volume_had_when_it_was_asked_for)
{
	cleanup(caller_release) struct caller_client b;
	char text[ERROR_MSG_MAX];

	name_fs_type(f, "xfs");
	list_parameter(f, "nfs", "key");
	must(f, "Register", MODES("raw", DEVICE, ",\"externalId\":\"raw\""), NULL);
	must(f, "Register", REGISTERED("secret", WITH_KEY), NULL);
	caller_with(f, WRITES, &b);
	provider_order(CALL_CREATE_SNAPSHOT, PROVIDER_FAIL, 2, STATUS_UNAVAILABLE);
	expect(&b, "Volumes.CreateSnapshot", SNAPSHOT("raw", "s1"), STATUS_UNAVAILABLE);
	expect(&b, "Volumes.CreateSnapshot", SNAPSHOT("secret", "s2"), STATUS_UNAVAILABLE);
	must(f, "Register", REGISTERED("raw", ""), NULL);
	must(f, "Register", REGISTERED("secret", SECRETS("\"other\":\"x\"")), NULL);
	expect(&b, "Volumes.CreateSnapshot", SNAPSHOT("raw", "s1"), STATUS_OK);
	expect(&b, "Volumes.CreateSnapshot", SNAPSHOT("secret", "s2"), STATUS_OK);
	must(f, "Deregister", NAMED("raw"), NULL);
	must(f, "Deregister", NAMED("secret"), NULL);
	name_fs_type(f, "");
	assert_int_equal(ask_as(&b, "Volumes.Create", FROM_SNAPSHOT("snap-1", MOUNTED), text),
			 STATUS_FAILED_PRECONDITION);
	assert_contains(text, "snapshot_id: the source is or was a block device");
	list_parameter(f, "nfs", "other");
	expect(&b, "Volumes.Create",
	       MODES("v", MOUNTED, SECRETS("\"other\":\"x\"") ",\"snapshotId\":\"snap-2\""),
	       STATUS_PERMISSION_DENIED);
	must(f, "Create",
	     MODES("v", MOUNTED, SECRETS("\"other\":\"x\",\"key\":\"x\"") ",\"snapshotId\":\"snap-2\""),
	     NULL);
}

/* Each by which a creation waits: root confines the source meanwhile. */
static void check_confined_source(struct fixture *f, enum provider_outcome outcome)
{
	cleanup(caller_release) struct caller_client b, adopter;
	const struct volume_entry *entry;
	char text[ERROR_MSG_MAX];
	size_t n;

	copy_that_waits(f, CALL_CREATE, outcome, "Create", COPY_OF_OWN, &b);
	n = provider_volumes();
	must(f, "Register", "{\"volume\":{" IN("b", "own") NFS PREFIXED "}}", NULL);
	expect(&b, "Volumes.Create", COPY_OF_OWN, STATUS_PERMISSION_DENIED);
	provider_answer();
	unit_clock_advance(60 * USEC_PER_SEC);
	settle(f);
	entry = NON_NULL(state_volume(&f->server->state, "b", "copy"));
	assert_string_equal(entry->volume.external_id, "");
	assert_int_equal(provider_volumes(), n);
	assert_contains(volume_detail_of(f->server, &entry->volume)->phase_error,
			"clone_id: another namespace has this id, or had it, or limits confine the source");
	/* it may have been made of either */
	must(f, "Register", "{\"volume\":{" IN("b", "own") NFS ",\"mountOptions\":{}}}", NULL);
	assert_int_equal(ask_as(&b, "Volumes.Create", COPY_OF_OWN, text), STATUS_PERMISSION_DENIED);
	assert_contains(text, "or limits confine the source since");
	caller_with(f, ADOPTS, &adopter);
	expect(&adopter, "Volumes.Create", COPY_OF_OWN, STATUS_OK);
}

CASE(a_creation_after_a_failure_copies_no_source_that_is_confined_now)
{
	check_confined_source(f, PROVIDER_FAIL);
}

CASE(a_creation_in_the_line_of_its_plugin_copies_no_source_that_is_confined_now)
{
	check_confined_source(f, PROVIDER_QUEUE);
}

CASE(a_copy_is_not_kept_whose_source_is_confined_when_it_is_made)
{
	check_confined_source(f, PROVIDER_HOLD_DONE);
}

/* Of a confined source, and of an id that is registered as a part later. */
CASE(a_copy_that_an_operator_asked_for_is_made_of_a_confined_source)
{
	static const char *const copies[] = {MODES("c1", MOUNTED, ",\"cloneId\":\"flags\""),
					     MODES("c2", MOUNTED, ",\"cloneId\":\"late\"")};
	cleanup(caller_release) struct caller_client adopter;

	must(f, "Register", REGISTERED("flags", PREFIXED), NULL);
	caller_with(f, ADOPTS, &adopter);
	for (size_t i = 0; i < ARRAY_SIZE(copies); i++) {
		provider_order(CALL_CREATE, PROVIDER_FAIL, 1, STATUS_UNAVAILABLE);
		expect(&adopter, "Volumes.Create", copies[i], STATUS_UNAVAILABLE);
	}
	must(f, "Register", REGISTERED("late", PREFIXED), NULL);
	UNTIL(f, provider_volumes() == ARRAY_SIZE(copies)); /* by itself */
}

/* Elsewhere the word would be a value, which nothing checks. */
CASE(only_a_registration_keeps_secrets)
{
	static const char asked[] =
		"{\"id\":\"own\",\"namespace\":\"b\",\"capacityMin\":\"1073741824\"" SECRETS(
			KEEPS("mount_flags")) "}";
	cleanup(caller_release) struct caller_client caller;
	char text[ERROR_MSG_MAX];

	must(f, "Create", "{\"volume\":{" IN("b", "own") NFS SECRETS("\"mount_flags\":\"x\"") "}}", "vol-1");
	must(f, "CreateSnapshot", "{\"volumeId\":\"own\",\"namespace\":\"b\",\"name\":\"kept\"}", "snap-1");
	caller_of(f, ADOPTS, "write", &caller);
	assert_int_equal(ask_as(&caller, "Volumes.Expand", asked, text), STATUS_INVALID_ARGUMENT);
	assert_contains(text, "give the value");
	expect(&caller, "Volumes.Expand",
	       "{\"id\":\"own\",\"namespace\":\"b\",\"capacityMin\":\"1073741824\"" SECRETS(
		       "\"mount_flags\":\" \"") "}",
	       STATUS_INVALID_ARGUMENT);
	expect(&caller, "Volumes.CreateSnapshot",
	       "{\"volumeId\":\"own\",\"namespace\":\"b\",\"name\":\"s\"" SECRETS(KEEPS("mount_flags")) "}",
	       STATUS_INVALID_ARGUMENT);
	expect(&caller, "Volumes.DeleteSnapshot",
	       "{\"pluginId\":\"nfs\",\"snapshotId\":\"snap-1\"" SECRETS(KEEPS("mount_flags")) "}",
	       STATUS_INVALID_ARGUMENT);
	expect(&caller, "Volumes.ListSnapshots", "{\"pluginId\":\"nfs\"" SECRETS(KEEPS("mount_flags")) "}",
	       STATUS_INVALID_ARGUMENT);
	expect(&caller, "Volumes.Delete",
	       "{\"id\":\"own\",\"namespace\":\"b\"" SECRETS(KEEPS("mount_flags")) "}",
	       STATUS_INVALID_ARGUMENT);
	expect(&caller, "Volumes.Register",
	       "{\"volume\":{" IN("b", "own") NFS SECRETS(KEEPS("mount_flags")) "}}", STATUS_OK);
	expect(&caller, "Volumes.Create", "{\"volume\":{" IN("b", "v") NFS SECRETS(KEEPS("key")) "}}",
	       STATUS_INVALID_ARGUMENT);
}

CASE(a_creation_that_the_provider_answers_with_another_volume_is_forgotten)
{
	cleanup(caller_release) struct caller_client b;
	char text[ERROR_MSG_MAX];

	list_parameter(f, "nfs", "subDir");
	make_things_of_a(f);
	provider.names_made = "vol-1";
	caller_with(f, WRITES, &b);
	assert_int_equal(ask_as(&b, "Volumes.Create",
				"{\"volume\":{" IN("b", "v") NFS ",\"parameters\":{\"subDir\":\"of-a\"}}}",
				text),
			 STATUS_ALREADY_EXISTS);
	assert_null(strstr(text, "vol-1"));
	assert_null(state_volume(&f->server->state, "b", "v"));
	assert_int_equal(provider.calls[CALL_DELETE], 0);
	must(f, "Get", "{\"id\":\"db\",\"namespace\":\"a\"}", "vol-1");
}

CASE(a_snapshot_that_the_provider_answers_with_another_ones_id_is_forgotten)
{
	char key[OBJECT_KEY_SIZE], wire[WIRE_VOLUME_SIZE];

	make_things_of_a(f);
	must(f, "Create", "{\"volume\":{" IN("b", "own") NFS "}}", "vol-2");
	volume_wire_name("b", "s2", wire);
	(void)str_format(provider.snapshots[1].name, PROVIDER_TEXT, "snap-c1-%s", wire);
	(void)str_copy(provider.snapshots[1].id, PROVIDER_TEXT, "snap-1");
	provider.n_snapshots = 2;
	refuses(f, "CreateSnapshot", "{\"volumeId\":\"own\",\"namespace\":\"b\",\"name\":\"s2\"}",
		STATUS_ALREADY_EXISTS, "another snapshot");
	snapshots_key("nfs", "b", "s2", key);
	assert_null(records_get(&f->server->state.records, key));
}

/* Some providers answer to a repeat with another form of the volume's id, and some go by the name alone. */
CASE(a_snapshot_that_may_be_of_another_volume_is_of_a_part)
{
	static const char asked[] = "{\"volumeId\":\"own\",\"namespace\":\"b\",\"name\":\"s\"}";
	cleanup(caller_release) struct caller_client b, adopter;
	char wire[WIRE_VOLUME_SIZE];

	must(f, "Create", "{\"volume\":{" IN("b", "own") NFS "}}", "vol-1");
	volume_wire_name("b", "s", wire);
	(void)str_format(provider.snapshots[0].name, PROVIDER_TEXT, "snap-c1-%s", wire);
	(void)str_copy(provider.snapshots[0].id, PROVIDER_TEXT, "snap-9");
	(void)str_copy(provider.snapshots[0].source, PROVIDER_TEXT, "vol-9");
	provider.n_snapshots = 1;
	must(f, "CreateSnapshot", asked, "snap-9");
	caller_with(f, WRITES, &b);
	expect(&b, "Volumes.Create", MODES("v", MOUNTED, ",\"snapshotId\":\"snap-9\""),
	       STATUS_PERMISSION_DENIED);
	caller_with(f, ADOPTS, &adopter);
	expect(&adopter, "Volumes.Create", MODES("v", MOUNTED, ",\"snapshotId\":\"snap-9\""), STATUS_OK);
}

CASE(a_snapshot_whose_provider_names_no_source_is_of_the_volume)
{
	cleanup(caller_release) struct caller_client b;

	provider.names_no_source = true;
	must(f, "Create", "{\"volume\":{" IN("b", "own") NFS "}}", "vol-1");
	must(f, "CreateSnapshot", "{\"volumeId\":\"own\",\"namespace\":\"b\",\"name\":\"s\"}", "snap-1");
	caller_with(f, WRITES, &b);
	expect(&b, "Volumes.Create", MODES("v", MOUNTED, ",\"snapshotId\":\"snap-1\""), STATUS_OK);
}

/* An operator does not know what the other namespace wrote. */
CASE(a_raw_device_of_another_namespace_is_copied_with_a_type_only)
{
	name_fs_type(f, "xfs");
	must(f, "Register",
	     "{\"volume\":{" IN("a", "raw") "\"type\":\"CSI\",\"pluginId\":\"nfs\",\"externalId\":\"disk\","
					    "\"requestedCapabilities\":[" DEVICE "]}}",
	     NULL);
	name_fs_type(f, "");
	refuses(f, "Create", MODES("v", MOUNTED, ",\"cloneId\":\"disk\""), STATUS_FAILED_PRECONDITION,
		"fs_type");
}

CASE(the_parameters_of_a_snapshot_send_stored_secrets_nowhere)
{
	static const char with[] = "{\"volumeId\":\"own\",\"namespace\":\"b\",\"name\":\"s1\","
				   "\"parameters\":{\"endpoint\":\"evil.example\"}%s}";
	static const char with_its[] = "{\"volumeId\":\"own\",\"namespace\":\"b\",\"name\":\"s1\"%s}";
	static const char *const others[] = {
		"",
		",\"secrets\":{\"key\":\"true\"}",
		",\"parameters\":{\"a\":\"b\"},\"secrets\":{\"key\":\"true\"}",
	};
	cleanup(caller_release) struct caller_client b;
	char json[512], again[512], text[ERROR_MSG_MAX];

	must(f, "Create", "{\"volume\":{" IN("b", "own") NFS ",\"secrets\":{\"key\":\"hush\"}}}", "vol-1");
	list_parameter(f, "*", "*");
	caller_with(f, WRITES, &b);
	(void)snprintf(json, sizeof(json), with, "");
	assert_int_equal(ask_as(&b, "Volumes.CreateSnapshot", json, text), STATUS_INVALID_ARGUMENT);
	assert_contains(text, "parameters: the stored secrets");
	(void)snprintf(json, sizeof(json), with, ",\"secrets\":{\"key\":\"given\"}");
	/* nor does a repeat, to which the record adds them */
	provider_order(CALL_CREATE_SNAPSHOT, PROVIDER_FAIL, 1, STATUS_UNAVAILABLE);
	expect(&b, "Volumes.CreateSnapshot", json, STATUS_UNAVAILABLE);
	for (int is_made = 0; is_made < 2; is_made++) {
		for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
			(void)snprintf(again, sizeof(again), with_its, others[i]);
			assert_int_equal(ask_as(&b, "Volumes.CreateSnapshot", again, text),
					 STATUS_ALREADY_EXISTS);
			assert_contains(text, "parameters: snapshot s1 was begun with others");
		}
		expect(&b, "Volumes.CreateSnapshot", json, STATUS_OK);
	}
	(void)snprintf(again, sizeof(again), with, "");
	expect(&b, "Volumes.CreateSnapshot", again, STATUS_OK); /* nothing is sent */
}

/* Pages of one, as a caller asks who looks for names. */
CASE(no_page_of_snapshots_names_one_of_another_namespace)
{
	static const char *const made[][2] = {{"a", "a1"}, {"b", "b1"}, {"a", "a2"},
					      {"b", "b2"}, {"c", "c1"}, {"a", "b1"}};
	cleanup(caller_release) struct caller_client b;
	char json[256], text[ERROR_MSG_MAX], token[128] = "", names[64] = "";

	for (int i = 0; i < 3; i++) {
		(void)str_format(json, sizeof(json),
				 "{\"volume\":{\"id\":\"v%d\",\"namespace\":\"%c\"," NFS "}}", i, 'a' + i);
		must(f, "Create", json, NULL);
	}
	for (size_t i = 0; i < ARRAY_SIZE(made); i++) {
		(void)str_format(json, sizeof(json),
				 "{\"volumeId\":\"v%d\",\"namespace\":\"%s\",\"name\":\"%s\"}",
				 made[i][0][0] - 'a', made[i][0], made[i][1]);
		must(f, "CreateSnapshot", json, NULL);
	}
	caller_with(f, WRITES, &b);
	do {
		const char *at;

		(void)str_format(json, sizeof(json), "{\"perPage\":1,\"nextToken\":\"%s\"}", token);
		assert_int_equal(ask_as(&b, "Volumes.ListSnapshots", json, text), STATUS_OK);
		at = NON_NULL(strstr(text, "\"name\":\""));
		(void)str_format(names + strlen(names), sizeof(names) - strlen(names), "%.2s ", at + 8);
		assert_null(strstr(text, "a1"));
		assert_null(strstr(text, "a2"));
		assert_null(strstr(text, "c1"));
		at = strstr(text, "\"next_token\":\"");
		(void)str_format(token, sizeof(token), "%.*s", at ? (int)strcspn(at + 14, "\"") : 0,
				 at ? at + 14 : "");
	} while (token[0] != '\0');
	assert_string_equal(names, "b1 b2 ");
	expect(&b, "Volumes.ListSnapshots", "{\"perPage\":1,\"nextToken\":\"nfs/a/ \"}",
	       STATUS_INVALID_ARGUMENT);
}

/* A node names the id of its storage, or hides it: then its ticket has a digest. */
CASE(claims_that_name_a_storage_by_its_digest_and_by_its_id_are_both_found)
{
	struct claim_entry *entry;
	struct volume_entry *own;
	struct claim claim;

	must(f, "Create", "{\"volume\":{" IN("b", "own") NFS "}}", "vol-1");
	appear_in_a(f);
	own = NON_NULL(state_volume(&f->server->state, "b", "own"));
	entry = NON_NULL(LIST_FIRST(&state_volume(&f->server->state, "a", "other")->claims));
	assert_int_equal(storage_n_live(own), 1);
	claim = entry->claim;
	(void)str_copy(claim.id, sizeof(claim.id), "01890000-0000-7000-8000-000000000c02");
	volume_source_hex(&own->volume, claim.external_id);
	claim.storage_digest = claim.adopted = true;
	assert_int_equal(state_put_claim(&f->server->state, &claim, NULL), STATUS_OK);
	assert_int_equal(storage_n_live(own), 2);
}

/* a has the id already, and who asks for the copy may have what a has. */
CASE(a_second_name_is_registered_while_a_permitted_copy_is_made)
{
	static struct pending copy;

	must(f, "Register", PART("b", "own", "/b"), NULL);
	must(f, "Register", PART("a", "db", "/a"), NULL);
	provider_order(CALL_CREATE_SNAPSHOT, PROVIDER_HOLD, 1, STATUS_UNAVAILABLE);
	provider_order(CALL_CREATE, PROVIDER_HOLD, 1, STATUS_UNAVAILABLE);
	start_asking(f, "CreateSnapshot", SNAPSHOT_OF_OWN, &waiting);
	start_asking(f, "Create", COPY_OF_OWN, &copy);
	UNTIL(f, provider.calls[CALL_CREATE_SNAPSHOT] == 1 && provider.calls[CALL_CREATE] == 1);
	must(f, "Register", PART("a", "more", "/a2"), NULL);
}

CASE(the_providers_name_of_a_copy_differs_by_its_source)
{
	struct volume volume = ROW(.type = VOLUME_CSI, .plugin_id = "nfs");
	char id[EXTERNAL_ID_MAX + 1], names[3][VOLUME_PROVIDER_NAME_SIZE];
	Holdfast__V1__VolumeDetail clone = V1(volume_detail, .clone_id = id);
	Holdfast__V1__VolumeDetail restored = V1(volume_detail, .snapshot_id = id);

	memset(volume.id, 'x', VOLUME_ID_MAX);
	memset(volume.namespace, 'n', NAMESPACE_MAX);
	memset(id, 'i', EXTERNAL_ID_MAX);
	id[EXTERNAL_ID_MAX] = '\0';
	(void)volume_provider_name(f->server, &volume, &clone, names[0]);
	(void)volume_provider_name(f->server, &volume, &restored, names[1]);
	id[EXTERNAL_ID_MAX - 1] = 'k';
	(void)volume_provider_name(f->server, &volume, &clone, names[2]);
	assert_string_not_equal(names[0], names[1]);
	assert_string_not_equal(names[0], names[2]);
	assert_int_equal(strlen(names[0]), strlen(names[2]));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* One storage has several names: of two namespaces, after a restore, or after a claim was freed wrongly. */

#include "asks.h"
#include "callers.h"
#include "forgotten.h"
#include "restored.h"
#include "submission.h"
#include "unit.h"

#include "base/uuid.h"
#include "claim/held_twice.h"
#include "model/volume_detail.h"
#include "state/keys.h"
#include "state/storage_index.h"
#include "ticket/ticket.h"

/* --- two namespaces, one id at the provider --- */

#define POLICY_OF_BLUE                                                                             \
	"{\"policy\":{\"name\":\"t\",\"plugin\":\"read\",\"namespaces\":[{\"namespace\":\"blue\"," \
	"\"policy\":\"write\",\"capabilities\":[\"csi-attest-volume\"]}%s]}}"
#define ALSO(level) ",{\"namespace\":\"default\"," level "}"
#define FENCE_OTHER                                                                   \
	"{\"id\":\"other\",\"namespace\":\"blue\",\"nodeId\":\"n1\",\"fenceReason\":" \
	"\"mine\"}"

static char *make_tenant_of_blue(struct fixture *f)
{
	char policy[512];

	(void)str_format(policy, sizeof(policy), POLICY_OF_BLUE, "");
	operator_does(f, "Operator.PutPolicy", policy);
	return make_token(f, "{\"name\":\"t\",\"type\":\"CLIENT\",\"policies\":[\"t\"]}");
}

static void give_in_default(struct fixture *f, const char *also)
{
	char policy[512];

	(void)str_format(policy, sizeof(policy), POLICY_OF_BLUE, also);
	operator_does(f, "Operator.PutPolicy", policy);
}

static void expect_no_ids(const char *text, const struct claim *claim)
{
	assert_msg(!strstr(text, "default") && !strstr(text, "volume db") && !strstr(text, ALLOC_1) &&
			   !strstr(text, claim->id),
		   "%s", text);
}

static void register_share(struct fixture *f)
{
	operator_does(f, "Volumes.Register",
		      "{\"volume\":{\"id\":\"other\",\"namespace\":\"blue\",\"type\":\"CSI\",\"pluginId\":"
		      "\"" CSI_PLUGIN "\",\"externalId\":\"vol-db\",\"context\":{\"zone\":\"z2\"},"
		      "\"requestedCapabilities\":[" MODE "]}}");
}

TEST_ON(a_fence_needs_the_right_in_each_namespace_whose_claim_it_takes, struct fixture, f, setup_acl,
	teardown)
{
	struct claim claim;
	struct error err;
	char *secret;

	connect_csi(f);
	register_csi(f, "db");
	register_share(f);
	take_claim(f, &f->n1, "db", ALLOC_1);
	lose(f, &f->n1);
	claim = claim_of(f, ALLOC_1);
	secret = make_tenant_of_blue(f);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	assert_error(tenant_asks(f, secret, "Volumes.Detach", FENCE_OTHER, &err), STATUS_PERMISSION_DENIED,
		     err, "a volume of another namespace");
	expect_no_ids(err.msg, &claim);
	give_in_default(f, ALSO("\"policy\":\"read\""));
	assert_error(tenant_asks(f, secret, "Volumes.Detach", FENCE_OTHER, &err), STATUS_PERMISSION_DENIED,
		     err, "volume db in namespace default");
	assert_false(claim_of(f, ALLOC_1).fence_asked);
	give_in_default(f, ALSO("\"capabilities\":[\"csi-attest-volume\"]"));
	assert_succeeds(tenant_asks(f, secret, "Volumes.Detach", FENCE_OTHER, &err), err);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_FREED);
	settle(f);
	assert_int_equal(n_events(f, "volume default/db", "Volumes.Detach", "mine"), 1);
	assert_int_equal(n_events(f, "volume blue/other", "Volumes.Detach", "mine"), 1);
	free(secret);
}

TEST_ON(a_refused_fence_names_no_work_of_another_namespace, struct fixture, f, setup_acl, teardown)
{
	struct claim claim;
	struct error err;
	char *secret;

	connect_csi(f);
	register_csi(f, "db");
	register_share(f);
	take_claim(f, &f->n1, "db", ALLOC_1);
	lose(f, &f->n1);
	claim = claim_of(f, ALLOC_1);
	secret = make_tenant_of_blue(f);
	give_in_default(f, ALSO("\"capabilities\":[\"csi-attest-volume\"]"));
	assert_error(tenant_asks(f, secret, "Volumes.Detach", FENCE_OTHER, &err), STATUS_FAILED_PRECONDITION,
		     err, "work of a volume of another namespace");
	expect_no_ids(err.msg, &claim);
	give_in_default(f, ALSO("\"policy\":\"read\",\"capabilities\":[\"csi-attest-volume\"]"));
	assert_error(tenant_asks(f, secret, "Volumes.Detach", FENCE_OTHER, &err), STATUS_FAILED_PRECONDITION,
		     err, "holdfast alloc stop " ALLOC_1);
	free(secret);
}

#define RUN_OTHER                                                                              \
	"{\"allocation\":{\"name\":\"a\",\"namespace\":\"blue\",%s\"volumes\":[{\"name\":"     \
	"\"d\",\"source\":\"other\",\"accessMode\":\"SINGLE_NODE_WRITER\",\"attachmentMode\":" \
	"\"FILE_SYSTEM\"}]}%s}"

/* What the caller is shown of why it cannot have volume other; owned by the caller. */
static char *why_other(struct fixture *f, const char *secret)
{
	cleanup(caller_release) struct caller_client caller;
	cleanup(json_decrefp) json_t *json = NULL;

	caller_init(&caller, f, secret ? NULL : "holdfast://c1/operator/ann", secret);
	assert_ok(caller_call(&caller, "Volumes.Get",
			      "{\"id\":\"other\",\"namespace\":\"blue\",\"why\":true}", &json, NULL));
	return NON_NULL(json_dumps(json, JSON_COMPACT));
}

static size_t n_claims_in_details(struct fixture *f, const char *secret, const char *request)
{
	cleanup(caller_release) struct caller_client caller;
	cleanup_pb Holdfast__V1__ErrorDetails *details = NULL;

	caller_init(&caller, f, secret ? NULL : "holdfast://c1/operator/ann", secret);
	assert_int_equal(caller_call(&caller, "Allocations.Run", request, NULL, NULL),
			 STATUS_FAILED_PRECONDITION);
	details = (void *)rpc_client_details(caller.client, &holdfast__v1__error_details__descriptor);
	return details ? details->n_claims : 0;
}

/* The answer to it; owned by the caller. */
static char *run_and_wait(struct fixture *f, const char *secret, const char *request)
{
	cleanup(caller_release) struct caller_client caller;
	cleanup(json_decrefp) json_t *json = NULL;

	caller_init(&caller, f, NULL, secret);
	assert_ok(caller_call(&caller, "Allocations.Run", request, &json, NULL));
	return NON_NULL(json_dumps(json, JSON_COMPACT));
}

/* The backup has the storage as blue's, and n1 as default's. */
static struct claim restore_under_another_name(struct fixture *f)
{
	struct backup backup = {0};
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;
	struct error err;

	connect_csi(f);
	assert_ok(register_other(f, "vol-db", &err));
	take_backup(f, &backup);
	connect_csi(f);
	operator_does(f, "Volumes.Deregister", "{\"id\":\"other\",\"namespace\":\"blue\"}");
	register_csi(f, "db");
	take_claim(f, &f->n1, "db", ALLOC_1);
	alloc = alloc_of(f, ALLOC_1);
	held = claim_of(f, ALLOC_1);
	ticket = ticket_of(f, &held);
	restore(f, &backup, 1);
	run_csi(f);
	report_forgotten(f, &alloc, &held, &ticket);
	return held;
}

TEST_ON(a_tenant_is_shown_no_claim_of_another_namespace, struct fixture, f, setup_acl, teardown)
{
	struct claim held = restore_under_another_name(f);
	char *secret = make_tenant_of_blue(f), *shown = why_other(f, secret);
	char request[1024];
	struct error err;

	assert_contains(shown, "a volume of another namespace, which is the same storage, holds it");
	expect_no_ids(shown, &held);
	free(shown);
	shown = why_other(f, NULL);
	assert_contains(shown, ALLOC_1);
	assert_contains(shown, held.id);
	free(shown);
	for (int with_node = 0; with_node < 2; with_node++) {
		(void)str_format(request, sizeof(request), RUN_OTHER, with_node ? "\"nodeId\":\"n2\"," : "",
				 "");
		assert_error(tenant_asks(f, secret, "Allocations.Run", request, &err),
			     STATUS_FAILED_PRECONDITION, err,
			     "a volume of another namespace holds its storage");
		expect_no_ids(err.msg, &held);
		assert_int_equal(n_claims_in_details(f, secret, request), 0);
		assert_int_equal(n_claims_in_details(f, NULL, request), 1);
	}
	(void)str_format(request, sizeof(request), RUN_OTHER, "", ",\"waitMs\":60000");
	shown = run_and_wait(f, secret, request);
	assert_contains(shown, "waits for volume other, whose storage a volume of another namespace holds");
	expect_no_ids(shown, &held);
	free(shown);
	free(secret);
}

/* Claim INVENTED of blue is on n2. */
static void put_claim_of_blue(struct fixture *f, const struct claim *like)
{
	struct claim claim = *like;

	(void)str_copy(claim.id, sizeof(claim.id), INVENTED);
	(void)str_copy(claim.namespace, sizeof(claim.namespace), "blue");
	(void)str_copy(claim.volume_id, sizeof(claim.volume_id), "other");
	(void)str_copy(claim.allocation_id, sizeof(claim.allocation_id), ALLOC_2);
	(void)str_copy(claim.node_id, sizeof(claim.node_id), "n2");
	claim.external_node_id[0] = '\0';
	claim.adopted = true;
	store_claim(f, &claim);
	settle(f);
}

TEST_ON(a_volume_held_twice_names_no_holder_of_another_namespace, struct fixture, f, setup_acl, teardown)
{
	struct claim held = restore_under_another_name(f);
	struct claim freed = state_claim(&f->server->state, held.id)->claim;
	struct volume_entry *other = state_volume(&f->server->state, "blue", "other");
	struct error err;

	put_claim_of_blue(f, &held);
	assert_error(held_twice_check_repeat(state_claim(&f->server->state, INVENTED), &err),
		     STATUS_UNAVAILABLE, err, "node n1 for a volume of another namespace");
	expect_no_ids(err.msg, &held);
	freed.was_freed = true;
	store_claim(f, &freed);
	assert_error(held_twice_check(other, &err), STATUS_UNAVAILABLE, err,
		     "node n1 has it mounted for a volume of another namespace");
	expect_no_ids(err.msg, &held);
	assert_error(held_twice_check(state_volume(&f->server->state, "default", "db"), &err),
		     STATUS_UNAVAILABLE, err, "node n2 holds it for a volume of another namespace");
}

/* n2 has not reported; a word about blue's name is not one about default's. */
TEST_ON(a_missing_report_names_no_volume_of_another_namespace, struct fixture, f, setup_acl, teardown)
{
	struct claim held = restore_under_another_name(f);
	char *secret = make_tenant_of_blue(f), *shown;
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct node n2 = state_node(&f->server->state, "n2")->node;
	Holdfast__V1__Epoch epoch = V1(epoch, .number = n2.reported_epoch + 1, .restored_at_ms = 1);

	lose(f, &f->n2);
	change_put_record(&change, KEY_EPOCH, &epoch.base);
	change_put_node(&change, &n2);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	operator_does(f, "Nodes.Attest",
		      "{\"id\":\"n2\",\"reason\":\"off\",\"validMs\":60000,\"volumes\":[{"
		      "\"namespace\":\"blue\",\"id\":\"other\"}]}");
	shown = why_other(f, secret);
	assert_contains(shown, "volume other, whose storage is also a volume of another namespace: epoch");
	assert_contains(shown, "a volume of another namespace is the same storage");
	expect_no_ids(shown, &held);
	free(shown);
	shown = why_other(f, NULL);
	assert_contains(shown, "volume db in namespace default is the same storage");
	free(shown);
	free(secret);
}

TEST_ON(a_detach_that_waits_names_no_claim_of_another_namespace, struct fixture, f, setup_acl, teardown)
{
	struct claim claim, other = ROW(.id = INVENTED);
	struct error err;
	char *secret;

	connect_csi(f);
	register_csi(f, "db");
	register_share(f);
	take_claim(f, &f->n1, "db", ALLOC_1);
	f->n2.csi.has_node = false;
	fake_node_send_fingerprint(&f->n2);
	settle(f);
	claim = claim_of(f, ALLOC_1);
	put_claim_of_blue(f, &claim);
	lose(f, &f->n1);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	operator_does(f, "Operator.PutPolicy",
		      "{\"policy\":{\"name\":\"t\",\"namespaces\":[{\"namespace\":\"default\",\"policy\":"
		      "\"write\",\"capabilities\":[\"csi-attest-volume\"]}]}}");
	secret = make_token(f, "{\"name\":\"t\",\"type\":\"CLIENT\",\"policies\":[\"t\"]}");
	assert_error(tenant_asks(f, secret, "Volumes.Detach",
				 "{\"id\":\"db\",\"nodeId\":\"n1\",\"fenceReason\":\"mine\"}", &err),
		     STATUS_FAILED_PRECONDITION, err, "node n2 holds a volume of another namespace");
	assert_null(strstr(err.msg, ALLOC_2));
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	settle(f);
	claim = claim_of(f, ALLOC_1);
	assert_contains(claim.last_error, "could take the storage of a volume of another namespace");
	assert_null(strstr(claim.last_error, other.id));
	free(secret);
}

TEST_ON(a_member_that_waits_names_no_claim_of_another_namespace, struct fixture, f, setup, teardown)
{
	const struct claim like = ROW(.boot_id = BOOT_1, .plugin_id = PLUGIN_NATIVE, .state = CLAIM_TAKEN,
				      .mode = CLAIM_WRITE, .access_mode = SINGLE_NODE_WRITER,
				      .attachment_mode = ATTACHMENT_FILE_SYSTEM, .generation = 1);
	cleanup_pb Holdfast__V1__PlanJobResponse *plan = NULL;
	Holdfast__V1__PlanJobRequest request = HOLDFAST__V1__PLAN_JOB_REQUEST__INIT;
	ProtobufCMessage *message = NULL;
	struct submission s;
	struct volume volume;

	connect_both(f);
	make_job(f, &s);
	assert_int_equal(run(f, &s, NULL), 1);
	UNTIL(f, f->n1.runs + f->n2.runs == 1);
	volume = state_volume(&f->server->state, "default", "db")->volume;
	(void)str_copy(volume.namespace, sizeof(volume.namespace), "blue");
	(void)str_copy(volume.id, sizeof(volume.id), "other");
	store_volume(f, &volume);
	put_claim_of_blue(f, &like);
	s.alloc.mount_timeout_ms = 5000; /* another content */
	request.job = &s.job;
	assert_ok(call(&f->operator, JOBS, "Plan", &request.base, &message, NULL));
	plan = (void *)message;
	assert_int_equal(plan->n_waits, 1);
	assert_contains(plan->waits[0]->text,
			"waits for volume db, whose storage a volume of another namespace holds");
	assert_string_equal(plan->waits[0]->allocation_id, "");
}

/* --- a node that was believed to be gone, in a cluster that was never restored --- */

/* A wrong word frees the claim of n1 on "db", which is deregistered. @returns the claim. */
static struct claim free_wrongly(struct fixture *f)
{
	struct claim held;

	take_claim(f, &f->n1, "db", ALLOC_1);
	held = claim_of(f, ALLOC_1);
	lose(f, &f->n1);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	assert_int_equal(attest(f, "n1", NULL, "it burnt", 0, false, NULL, NULL), STATUS_OK);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(deregister_volume(f, NULL), STATUS_OK);
	return held;
}

/* n1 is back in its boot, and reports what it has mounted. */
static void come_back(struct fixture *f, const struct claim *held, const struct ticket *ticket)
{
	f->n1.has = held;
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	settle(f);
	report_with(&f->n1, f->n1.report_epoch, NULL, held, ticket, false);
	UNTIL(f, has_reported(f, "n1"));
	settle(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_UNPUBLISHING);
}

CLUSTER_TEST(a_disk_that_a_node_reports_gets_no_second_name_in_epoch_0)
{
	struct ticket ticket;
	struct claim held;
	struct error err;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	connect_both(f);
	held = free_wrongly(f);
	ticket = ticket_of(f, &held);
	come_back(f, &held, &ticket);
	assert_error(register_disk(f, &f->operator, "other", "wwn-0x1", &err), STATUS_FAILED_PRECONDITION,
		     err, "from a node's report and may be this storage");
	assert_int_equal(register_disk(f, &f->operator, "other", "wwn-0x9", NULL), STATUS_OK);
}

/* n1 holds db, which is what the provider made as "made", and whose claim is freed wrongly. */
static struct claim free_made(struct fixture *f, char external_id[static EXTERNAL_ID_MAX + 1],
			      struct ticket *ticket)
{
	struct claim held;
	struct error err;

	connect_csi(f);
	f->n2.csi.can_create_delete = true;
	fake_node_send_fingerprint(&f->n2);
	settle(f);
	assert_succeeds(ask_csi(f, "Volumes.Create", "made", "", &err), err);
	memcpy(external_id, state_volume(&f->server->state, "default", "made")->volume.external_id,
	       EXTERNAL_ID_MAX + 1);
	operator_does(f, "Volumes.Deregister", "{\"id\":\"made\"}");
	assert_succeeds(ask_csi(f, "Volumes.Register", "db", external_id, &err), err);
	held = free_wrongly(f);
	*ticket = ticket_of(f, &held);
	assert_succeeds(ask_csi(f, "Volumes.Register", "db", "vol-new", &err), err);
	return held;
}

/* The provider answers with what it made by that name once: it had another name since. */
CLUSTER_TEST(a_creation_takes_nothing_that_a_node_reports)
{
	char external_id[EXTERNAL_ID_MAX + 1];
	struct ticket ticket;
	struct claim held = free_made(f, external_id, &ticket);
	struct error err;

	come_back(f, &held, &ticket);
	assert_error(ask_csi(f, "Volumes.Create", "made", "", &err), STATUS_ALREADY_EXISTS, err,
		     "storage that another volume has already");
	assert_null(state_volume(&f->server->state, "default", "made"));
}

CLUSTER_TEST(a_deletion_takes_nothing_that_a_node_reports)
{
	cleanup(caller_release) struct caller_client caller;
	char external_id[EXTERNAL_ID_MAX + 1];
	struct ticket ticket;
	struct claim held = free_made(f, external_id, &ticket);
	struct error err;

	assert_succeeds(ask_csi(f, "Volumes.Register", "other", external_id, &err), err);
	come_back(f, &held, &ticket);
	caller_init(&caller, f, "holdfast://c1/operator/ann", NULL);
	assert_error(caller_call(&caller, "Volumes.Delete", "{\"id\":\"other\"}", NULL, &err),
		     STATUS_FAILED_PRECONDITION, err, "with a claim from a node's report");
}

/* Its claim is known from a report, but is on the volume's own storage. */
CLUSTER_TEST(a_volume_with_a_reported_claim_may_be_shared)
{
	cleanup(caller_release) struct caller_client caller;
	struct backup backup = {0};
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;
	struct error err;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	connect_both(f);
	take_backup(f, &backup);
	connect_both(f);
	take_claim(f, &f->n1, "db", ALLOC_1);
	held = claim_of(f, ALLOC_1);
	ticket = ticket_of(f, &held);
	alloc = alloc_of(f, ALLOC_1);
	restore(f, &backup, 1);
	report_n1(f, &alloc, &held, &ticket);
	assert_true(claim_of(f, ALLOC_1).adopted);
	caller_init(&caller, f, "holdfast://c1/operator/ann", NULL);
	assert_succeeds(caller_call(&caller, "Volumes.Register",
				    "{\"volume\":{\"id\":\"d2\",\"type\":\"NATIVE\",\"profile\":\"disk\","
				    "\"shares\":\"db\","
				    "\"source\":{\"class\":\"BLOCK\",\"byId\":\"wwn-0x1\"},"
				    "\"requestedCapabilities\":[" MODE "]}}",
				    NULL, &err),
			err);
}

/* --- storage by several names --- */

static void expect_held(struct fixture *f, const char *id, uint32_t writers, uint32_t by_others, bool perhaps)
{
	Holdfast__V1__GetVolumeRequest request = V1(get_volume_request, .id = TEXT(id));
	cleanup_pb ProtobufCMessage *answer = NULL;
	const Holdfast__V1__Volume *volume;

	assert_ok(
		call(&f->operator, & holdfast__v1__volumes__descriptor, "Get", &request.base, &answer, NULL));
	volume = ((const Holdfast__V1__GetVolumeResponse *)(const void *)answer)->volume;
	assert_int_equal(volume->writers, writers);
	assert_int_equal(volume->held_by_others, by_others);
	assert_int_equal(volume->may_be_held, perhaps);
}

CLUSTER_TEST(an_answer_counts_claims_by_other_names_and_of_unreported_nodes)
{
	struct backup backup = {0};

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	connect_both(f);
	operator_does(f, "Volumes.Register",
		      "{\"volume\":{\"id\":\"d2\",\"type\":\"NATIVE\",\"profile\":\"disk\","
		      "\"shares\":\"db\",\"source\":{\"class\":\"BLOCK\",\"byId\":\"wwn-0x1\"},"
		      "\"requestedCapabilities\":[" MODE "]}}");
	expect_held(f, "d2", 0, 0, false);
	take_backup(f, &backup);
	connect_both(f);
	take_claim(f, &f->n1, "db", ALLOC_1);
	expect_held(f, "db", 1, 0, false);
	expect_held(f, "d2", 0, 1, false);
	restore(f, &backup, 1);
	expect_held(f, "d2", 0, 0, true);
}

static void let_many_write(struct fixture *f, const char *id)
{
	struct volume volume = state_volume(&f->server->state, "default", id)->volume;

	volume.capabilities[0].access_mode = MULTI_NODE_MULTI_WRITER;
	store_volume(f, &volume);
}

static enum status fence_off(struct fixture *f, const char *id, struct error *err)
{
	const Holdfast__V1__DetachVolumeRequest request =
		V1(detach_volume_request, .id = TEXT(id), .node_id = TEXT("n1"),
		   .fence_reason = TEXT("it hangs"));

	return call(&f->operator, & holdfast__v1__volumes__descriptor, "Detach", &request.base, NULL, err);
}

/* n1 has the storage of more by name db, which is another storage in the backup, and by its own name. */
static void hold_more_twice(struct fixture *f, struct alloc *alloc, struct claim *held)
{
	struct ticket ticket;

	f->access_mode = HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_MULTI_WRITER;
	store_zone(f, "more", "z1", false);
	let_many_write(f, "db");
	let_many_write(f, "more");
	forget_csi(f, alloc, held, &ticket);
	grant_since(f);
	connect_node(&f->n1, "n1");
	report_with(&f->n1, 1, alloc, held, &ticket, false);
	UNTIL(f, has_reported(f, "n1") && has_reported(f, "n2"));
	assert_true(state_claim(&f->server->state, held->id)->is_unmatched);
	f->source = "more";
	take_claim(f, &f->n1, "more", ALLOC_3);
	settle(f);
}

static void release_first(struct fixture *f, const struct claim *held)
{
	unsigned int n = f->plugin.calls[DETACH];

	fake_node_send_released(&f->n1, held);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	settle(f);
	assert_int_equal(f->plugin.calls[DETACH], n); /* ALLOC_3 has vol-db on n1 */
}

CLUSTER_TEST(the_release_of_an_unmatched_claim_takes_no_device_that_is_in_use)
{
	struct alloc alloc;
	struct claim held;

	hold_more_twice(f, &alloc, &held);
	assert_ok(stop_alloc(f, ALLOC_1, NULL));
	release_first(f, &held);
}

/* As above, but the backup has other storage by both names: no volume has vol-db. */
static void hold_unknown_twice(struct fixture *f, struct claim *held)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct alloc alloc;
	struct volume more;
	struct claim other;

	hold_more_twice(f, &alloc, held);
	more = state_volume(&f->server->state, "default", "more")->volume;
	other = LIST_FIRST(&state_volume(&f->server->state, "default", "more")->claims)->claim;
	other.adopted = other.storage_proven = true;
	(void)str_copy(more.external_id, sizeof(more.external_id), "vol-more");
	change_put_volume(&change, &more);
	change_put_claim(&change, &other);
	assert_ok(change_commit(f->server, &change, NULL, NULL, NULL));
	assert_true(state_claim(&f->server->state, other.id)->is_unmatched);
	assert_ok(stop_alloc(f, ALLOC_1, NULL));
}

CLUSTER_TEST(the_release_of_an_unmatched_claim_takes_no_device_of_another_one)
{
	struct claim held;

	hold_unknown_twice(f, &held);
	release_first(f, &held);
}

CLUSTER_TEST(a_fence_takes_no_device_of_other_work_on_storage_that_no_volume_has)
{
	struct error err = {.msg = ""};
	struct claim held;
	unsigned int n;

	hold_unknown_twice(f, &held);
	n = f->plugin.calls[DETACH];
	lose(f, &f->n1);
	assert_error(fence_off(f, "db", &err), STATUS_FAILED_PRECONDITION, err,
		     "allocation " ALLOC_3 " on node n1 may continue");
	assert_ok(stop_alloc(f, ALLOC_3, NULL));
	assert_ok(fence_off(f, "db", &err));
	assert_int_equal(f->plugin.calls[DETACH], n + 1);
	assert_ok(fence_off(f, "more", &err));
	assert_int_equal(f->plugin.calls[DETACH], n + 2);
}

CLUSTER_TEST(a_fence_takes_no_device_of_other_work_by_an_unmatched_claim)
{
	struct alloc alloc;
	struct claim held;
	struct error err = {.msg = ""};
	unsigned int n;

	hold_more_twice(f, &alloc, &held);
	n = f->plugin.calls[DETACH];
	assert_ok(stop_alloc(f, ALLOC_1, NULL));
	lose(f, &f->n1);
	assert_error(fence_off(f, "db", &err), STATUS_FAILED_PRECONDITION, err, "node n1");
	assert_int_equal(f->plugin.calls[DETACH], n);
}

CLUSTER_TEST(a_fence_takes_no_device_of_an_unmatched_claim)
{
	struct alloc alloc;
	struct claim held;
	struct error err = {.msg = ""};
	unsigned int n;

	hold_more_twice(f, &alloc, &held);
	n = f->plugin.calls[DETACH];
	assert_ok(stop_alloc(f, ALLOC_3, NULL));
	lose(f, &f->n1);
	assert_error(fence_off(f, "more", &err), STATUS_FAILED_PRECONDITION, err, ALLOC_1);
	assert_int_equal(f->plugin.calls[DETACH], n);
}

/* n1, which is off, was attested about db on wwn-0x1. It may have wwn-0x2 by any name of the lost time. */
CLUSTER_TEST(an_attestation_is_not_about_storage_that_its_name_gets_later)
{
	struct backup backup = {0};
	struct error err = {.msg = ""};

	assert_ok(register_volume(f, &f->operator, NULL));
	connect_both(f);
	take_backup(f, &backup);
	restore(f, &backup, 1);
	report_nothing(f);
	assert_ok(attest(f, "n1", NULL, "it is off", 0, false, NULL, NULL));
	deregister(f, "db");
	assert_ok(register_disk(f, &f->operator, "db", "wwn-0x2", NULL));
	assert_ok(run_alloc(f, ALLOC_2, "n2", NULL));
	assert_error(fake_node_claim(&f->n2, "db", ALLOC_2, NULL, &err), STATUS_UNAVAILABLE, err, "node n1");
}

/* The whole way: n1 had wwn-0x2 by name more, and comes back. */
CLUSTER_TEST(an_attestation_about_one_disk_makes_no_second_writer_on_another)
{
	struct backup backup = {0};
	struct volume volume;
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;
	struct error err = {.msg = ""};

	assert_ok(register_volume(f, &f->operator, NULL));
	connect_both(f);
	take_backup(f, &backup);
	connect_both(f);
	assert_ok(register_disk(f, &f->operator, "more", "wwn-0x2", NULL));
	f->source = "more";
	take_claim(f, &f->n1, "more", ALLOC_1);
	alloc = alloc_of(f, ALLOC_1);
	held = LIST_FIRST(&state_volume(&f->server->state, "default", "more")->claims)->claim;
	volume = state_volume(&f->server->state, "default", "more")->volume;
	restore(f, &backup, 1);
	assert_ok(ticket_issue(f->server->issuer, &held, &volume, 1, &ticket, NULL));
	report_nothing(f);
	f->source = "db";
	assert_ok(attest(f, "n1", NULL, "it is off", 0, false, NULL, NULL));
	deregister(f, "db");
	assert_ok(register_disk(f, &f->operator, "db", "wwn-0x2", NULL));
	assert_ok(run_alloc(f, ALLOC_2, "n2", NULL));
	(void)fake_node_claim(&f->n2, "db", ALLOC_2, NULL, &err);
	report_n1(f, &alloc, &held, &ticket);
	assert_int_equal(storage_n_live(state_volume(&f->server->state, "default", "db")), 1);
}

/* It was granted the whole id; db and also are parts of that since. */
CLUSTER_TEST(a_freed_claim_that_comes_back_holds_its_own_storage)
{
	struct claim held;
	struct error err;

	connect_csi(f);
	assert_ok(ask_csi(f, "Volumes.Register", "db", "vol-db", &err));
	take_claim(f, &f->n1, "db", ALLOC_1);
	held = claim_of(f, ALLOC_1);
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	settle(f);
	assert_ok(register_zone(f, "db", "vol-db", "z1", &err));
	assert_ok(register_zone(f, "also", "vol-db", "z2", &err));
	report_freed(f, &held);
	assert_false(f->n1.last_release_has_ticket);
	f->source = "also";
	assert_error(run_alloc(f, ALLOC_2, "n2", &err), STATUS_FAILED_PRECONDITION, err, "node n1");
}

/* As a_freed_claim_that_comes_back_holds_its_own_storage, in a mode for several writers. */
CLUSTER_TEST(nothing_is_granted_by_another_name_beside_a_freed_claim_that_came_back)
{
	struct claim held;
	struct error err = {.msg = ""};

	f->access_mode = HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_MULTI_WRITER;
	connect_csi(f);
	assert_ok(ask_csi(f, "Volumes.Register", "db", "vol-db", &err));
	let_many_write(f, "db");
	take_claim(f, &f->n1, "db", ALLOC_1);
	held = claim_of(f, ALLOC_1);
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	settle(f);
	assert_ok(register_zone(f, "db", "vol-db", "z1", &err));
	assert_ok(register_zone(f, "also", "vol-db", "z2", &err));
	let_many_write(f, "db");
	let_many_write(f, "also");
	report_freed(f, &held);
	assert_int_equal(storage_n_live(state_volume(&f->server->state, "default", "also")), 1);
	f->source = "also";
	assert_ok(run_alloc(f, ALLOC_2, "n2", NULL));
	assert_error(fake_node_claim(&f->n2, "also", ALLOC_2, NULL, &err), STATUS_UNAVAILABLE, err,
		     "held twice");
}

/* After a restore another namespace may have the id of the holder. */
CLUSTER_TEST(an_id_that_two_namespaces_have_lets_no_claim_in_next_to_the_other)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct claim asked, held;
	struct volume shared;
	struct error err;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	connect_both(f);
	take_claim(f, &f->n1, "db", ALLOC_1);
	asked = claim_of(f, ALLOC_1);
	assert_succeeds(held_twice_admit(f->server, &asked, &err), err); /* its own is no obstacle */
	shared = state_volume(&f->server->state, "default", "db")->volume;
	(void)str_copy(shared.namespace, sizeof(shared.namespace), "b");
	store_volume(f, &shared);
	held = asked;
	(void)str_copy(held.namespace, sizeof(held.namespace), "b");
	(void)str_copy(held.node_id, sizeof(held.node_id), "n2");
	assert_true(uuid_new(held.id) >= 0);
	change_put_claim(&change, &held);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	assert_error(held_twice_admit(f->server, &asked, &err), STATUS_FAILED_PRECONDITION, err,
		     "node n2 holds it");
}

/* A share that the backup has is no other one that a node has by a forgotten name. */
CLUSTER_TEST(the_mount_of_a_forgotten_share_keeps_no_other_share)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	store_zone(f, "also", "z2", false);
	deregister(f, "db");
	forget_csi(f, &alloc, &held, &ticket); /* db is share z1 */
	report_forgotten(f, &alloc, &held, &ticket);
	assert_int_equal(storage_n_live(state_volume(&f->server->state, "default", "also")), 0);
}

/* db is share z0 in the backup, and z1 after the operator has registered it again. */
CLUSTER_TEST(an_attestation_is_not_about_a_context_that_its_name_gets_later)
{
	struct backup backup = {0};
	struct error err = {.msg = ""};
	struct volume volume;

	connect_csi(f);
	store_zone(f, "db", "z0", false);
	volume = state_volume(&f->server->state, "default", "db")->volume;
	(void)str_copy(volume.name, sizeof(volume.name), "db");
	store_volume(f, &volume);
	take_backup(f, &backup);
	restore(f, &backup, 1);
	run_csi(f);
	report_nothing(f);
	assert_ok(attest(f, "n1", NULL, "it is off", 0, false, NULL, NULL));
	assert_succeeds(register_zone(f, "db", "vol-db", "z1", &err), err);
	assert_ok(run_alloc(f, ALLOC_2, "n2", NULL));
	assert_error(fake_node_claim(&f->n2, "db", ALLOC_2, NULL, &err), STATUS_UNAVAILABLE, err, "node n1");
}

/* n2 got more, as n1 was attested; n1 comes back with its storage by the name db, which the backup lacks. */
CLUSTER_TEST(a_storage_that_is_held_twice_by_two_names_is_an_alarm)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	store_zone(f, "more", "z1", false);
	deregister(f, "db");
	forget_csi(f, &alloc, &held, &ticket);
	report_nothing(f);
	assert_ok(attest(f, "n1", "more", "it is off", 0, false, NULL, NULL));
	f->source = "more";
	take_claim(f, &f->n2, "more", ALLOC_2);
	report_n1(f, &alloc, &held, &ticket);
	assert_int_equal(storage_n_live(state_volume(&f->server->state, "default", "more")), 2);
	assert_int_equal(f->server->state.n_volumes_held_twice, 2); /* holdfast_volumes_held_twice */
	restart(f);
	assert_int_equal(f->server->state.n_volumes_held_twice, 2);
	assert_non_null(strstr(why(f), "held twice"));
	held = LIST_FIRST(&state_volume(&f->server->state, "default", "more")->claims)->claim;
	held.state = CLAIM_FREED;
	assert_ok(state_put_claim(&f->server->state, &held, NULL));
	assert_int_equal(f->server->state.n_volumes_held_twice, 0);
	restart(f);
	state_delete_claim(&f->server->state,
			   LIST_FIRST(&state_volume(&f->server->state, "default", "more")->claims));
	assert_int_equal(f->server->state.n_volumes_held_twice, 0);
}

/* @node has vol-1 by @name, in @access; its record is of storage @id. The newest claim is the first of its
 * name. */
static struct claim_entry *put_holder(struct fixture *f, const char *name, const char *id, const char *node,
				      enum access_mode access, enum claim_mode mode, bool is_adopted)
{
	static unsigned int n;
	struct volume volume =
		ROW(.namespace = NAMESPACE_DEFAULT, .type = VOLUME_CSI, .plugin_id = "ebs", .name = "v");
	struct claim claim =
		ROW(.namespace = NAMESPACE_DEFAULT, .state = CLAIM_TAKEN, .plugin_id = "ebs",
		    .external_id = "vol-1", .allocation_id = "01890000-0000-7000-8000-0000000000ff",
		    .attachment_mode = ATTACHMENT_FILE_SYSTEM, .access_mode = access, .mode = mode,
		    .adopted = is_adopted, .storage_proven = is_adopted);

	(void)str_copy(volume.id, sizeof(volume.id), name);
	(void)str_copy(volume.external_id, sizeof(volume.external_id), id);
	(void)str_copy(claim.volume_id, sizeof(claim.volume_id), name);
	(void)str_copy(claim.node_id, sizeof(claim.node_id), node);
	(void)str_format(claim.id, sizeof(claim.id), "01890000-0000-7000-8000-%012u", ++n);
	assert_ok(state_put_volume(&f->server->state, &volume, NULL));
	assert_ok(state_put_claim(&f->server->state, &claim, NULL));
	return state_claim(&f->server->state, claim.id);
}

/* @n nodes read vol-1 by names of storage @id. */
static void put_readers(struct fixture *f, const char *id, int n)
{
	for (int i = 0; i < n; i++) {
		char name[16], node[16];

		(void)str_format(name, sizeof(name), "aa%d", i);
		(void)str_format(node, sizeof(node), "m%d", i);
		(void)put_holder(f, name, id, node, MULTI_NODE_SINGLE_WRITER, CLAIM_READ, true);
	}
}

/* The backup has the readers' names, and bb, as another storage. */
CLUSTER_TEST(many_unmatched_readers_hide_no_two_writers)
{
	put_readers(f, "vol-2", 1000);
	(void)put_holder(f, "bb", "vol-2", "n1", MULTI_NODE_SINGLE_WRITER, CLAIM_WRITE, true);
	held_twice_pair(put_holder(f, "cc", "vol-1", "n2", MULTI_NODE_SINGLE_WRITER, CLAIM_WRITE, true));
	assert_int_equal(f->server->state.n_volumes_held_twice, 2);
	assert_int_equal(state_volume(&f->server->state, "default", "bb")->n_rivals, 1);
}

/* @name has nine readers, and the writer is the oldest claim of it. */
static void put_writer_behind_readers(struct fixture *f, const char *name, int first_node)
{
	for (int i = 0; i < 10; i++) {
		char node[16];

		(void)str_format(node, sizeof(node), "m%d", first_node + i);
		(void)put_holder(f, name, "vol-1", node, MULTI_NODE_SINGLE_WRITER,
				 i == 0 ? CLAIM_WRITE : CLAIM_READ, true);
	}
}

CLUSTER_TEST(readers_of_two_names_hide_no_two_writers_at_a_start)
{
	put_writer_behind_readers(f, "bb", 0);
	put_writer_behind_readers(f, "cc", 10);
	held_twice_pair_all(f->server);
	assert_int_equal(f->server->state.n_volumes_held_twice, 2);
}

/* The backup lacks two shares of one id. */
static void register_again(struct fixture *f, struct claim_entry *entry, const char *zone)
{
	Holdfast__V1__VolumeDetail__ContextEntry context = HOLDFAST__V1__VOLUME_DETAIL__CONTEXT_ENTRY__INIT;
	Holdfast__V1__VolumeDetail__ContextEntry *contexts[] = {&context};
	const Holdfast__V1__VolumeDetail detail = V1(volume_detail, .context = contexts, .n_context = 1);
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct volume volume = entry->volume->volume;
	char key[OBJECT_KEY_SIZE];

	context.key = TEXT("zone");
	context.value = TEXT(zone);
	storage_context_digest(VOLUME_MAP(detail.context), 1, volume.context_digest);
	(void)str_format(key, sizeof(key), PREFIX_VOLUME_DETAIL "default/%s", volume.id);
	volume.capabilities[0] = (struct capability){SINGLE_NODE_WRITER, ATTACHMENT_FILE_SYSTEM};
	volume.n_capabilities = 1;
	change_put_record(&change, key, &detail.base);
	change_put_volume(&change, &volume);
	assert_ok(change_commit(f->server, &change, NULL, NULL, NULL));
}

static struct claim_entry *put_share(struct fixture *f, const char *name, const char *node, const char *zone)
{
	Holdfast__V1__VolumeDetail__ContextEntry context = HOLDFAST__V1__VOLUME_DETAIL__CONTEXT_ENTRY__INIT;
	Holdfast__V1__VolumeDetail__ContextEntry *contexts[] = {&context};
	struct claim_entry *entry = put_holder(f, name, "vol-1", node, SINGLE_NODE_WRITER, CLAIM_WRITE, true);
	struct claim claim = entry->claim;

	context.key = TEXT("zone");
	context.value = TEXT(zone);
	storage_context_digest(VOLUME_MAP(contexts), 1, claim.context_digest);
	assert_ok(state_put_claim(&f->server->state, &claim, NULL));
	return entry;
}

CLUSTER_TEST(a_claim_on_another_part_hides_no_claim_from_a_grant)
{
	struct claim_entry *own = put_share(f, "db1", "n1", "z1");
	const struct claim_entry *at = NULL, *rival;
	bool is_found = false;

	register_again(f, own, "z1");
	(void)put_share(f, "also1", "n2", "z2");
	rival = put_share(f, "also2", "n3", "z1");
	while ((at = storage_next_claim(own->volume, at)))
		is_found = is_found || at == rival;
	assert_true(is_found);
}

CLUSTER_TEST(two_shares_that_are_registered_again_are_no_rivals)
{
	struct claim_entry *one = put_share(f, "db1", "n1", "z1");
	struct claim_entry *other = put_share(f, "also1", "n2", "z2");
	struct error err = {.msg = ""};

	held_twice_pair(one);
	held_twice_pair(other);
	assert_int_equal(f->server->state.n_volumes_held_twice, 2); /* nobody knows better yet */
	register_again(f, one, "z1");
	register_again(f, other, "z2");
	assert_succeeds(held_twice_check_repeat(one, &err), err);
	settle(f);
	assert_int_equal(f->server->state.n_volumes_held_twice, 0);
}

/* Nodes have reported many claims, by other names too, of an id that no volume has. */
CLUSTER_TEST(a_fence_looks_at_a_bounded_number_of_claims)
{
	enum { N = 8200 };
	struct error err = {.msg = ""};
	struct claim held;

	connect_csi(f);
	lose(f, &f->n1);
	for (int i = 0; i < N; i++) {
		char name[16];

		(void)str_format(name, sizeof(name), "x%d", i);
		(void)put_holder(f, name, "vol-x", i % 2 == 0 ? "n1" : "n2", MULTI_NODE_MULTI_WRITER,
				 CLAIM_WRITE, true);
	}
	held = put_holder(f, "w", "vol-w", "n1", MULTI_NODE_MULTI_WRITER, CLAIM_WRITE, true)->claim;
	held.attach = ATTACH_DONE;
	held.state = CLAIM_UNPUBLISHING;
	assert_ok(state_put_claim(&f->server->state, &held, NULL));
	assert_error(fence_off(f, "w", &err), STATUS_RESOURCE_EXHAUSTED, err,
		     "storage that node n1 has by volume w has too many claims, of all nodes");
}

/* db was share z0 in the backup, and became z1 in place; the tickets prove nothing. n1 has z1 mounted. */
static void believe_another_context(struct fixture *f, struct alloc *alloc, struct claim *held)
{
	f->access_mode = HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_MULTI_WRITER;
	store_zone(f, "db", "z0", false);
	let_many_write(f, "db");
	believe_csi(f, alloc, held);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
}

CLUSTER_TEST(the_device_of_a_believed_mount_of_another_context_is_not_taken)
{
	struct alloc alloc;
	struct claim held;
	unsigned int n;

	believe_another_context(f, &alloc, &held);
	take_claim(f, &f->n1, "db", ALLOC_3);
	n = f->plugin.calls[DETACH];
	assert_ok(stop_alloc(f, ALLOC_3, NULL));
	release_claim(f, &f->n1, ALLOC_3);
	settle(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	assert_int_equal(f->plugin.calls[DETACH], n); /* ALLOC_1 has vol-db on n1 */
}

CLUSTER_TEST(a_believed_mount_of_another_context_is_detached)
{
	struct alloc alloc;
	struct claim held;

	believe_another_context(f, &alloc, &held);
	assert_ok(stop_alloc(f, ALLOC_1, NULL));
	release_claim(f, &f->n1, ALLOC_1);
	settle(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_FREED);
}

/* n2 has more, as n1 was attested; n1 comes back with its storage by a forgotten name, and tickets prove
 * nothing. */
CLUSTER_TEST(storage_that_a_believed_mount_holds_too_is_an_alarm)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	store_zone(f, "more", "z1", false);
	deregister(f, "db");
	forget_csi(f, &alloc, &held, &ticket);
	restart_with(f, make_another_key);
	run_csi(f);
	report_nothing(f);
	assert_ok(attest(f, "n1", "more", "it is off", 0, false, NULL, NULL));
	f->source = "more";
	take_claim(f, &f->n2, "more", ALLOC_2);
	report_n1(f, &alloc, &held, &ticket);
	assert_int_equal(storage_n_live(state_volume(&f->server->state, "default", "more")), 2);
	assert_true(f->server->state.n_volumes_held_twice > 0);
}

/* n1 has vol-db by also, and by the forgotten name db; tickets prove nothing. */
CLUSTER_TEST(a_fence_takes_no_device_of_a_believed_mount)
{
	struct alloc alloc;
	struct claim held;
	struct error err = {.msg = ""};
	unsigned int n;

	f->access_mode = HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_MULTI_WRITER;
	store_zone(f, "also", "z1", false);
	let_many_write(f, "also");
	deregister(f, "db");
	believe_csi(f, &alloc, &held);
	take_claim(f, &f->n1, "also", ALLOC_3);
	assert_int_equal(storage_n_live(state_volume(&f->server->state, "default", "also")), 2);
	n = f->plugin.calls[DETACH];
	assert_ok(stop_alloc(f, ALLOC_3, NULL));
	lose(f, &f->n1);
	assert_error(fence_off(f, "also", &err), STATUS_FAILED_PRECONDITION, err, ALLOC_1);
	assert_int_equal(f->plugin.calls[DETACH], n);
	assert_ok(stop_alloc(f, ALLOC_1, NULL)); /* the provider is asked by the claim whose id it knows */
	assert_succeeds(fence_off(f, "also", &err), err);
	assert_int_equal(f->plugin.calls[DETACH], n + 1);
}

/* Its operator allows no attestation for the plugin of what n1 has by the name of a disk. */
CLUSTER_TEST(no_attestation_frees_a_claim_of_a_forbidden_plugin)
{
	struct alloc alloc;
	struct claim held;
	struct error err = {.msg = ""};

	assert_ok(register_volume(f, &f->operator, NULL));
	believe_csi(f, &alloc, &held);
	assert_string_equal(claim_of(f, ALLOC_1).plugin_id, CSI_PLUGIN);
	(void)str_copy(f->server->config.attest_forbidden[0], sizeof(f->server->config.attest_forbidden[0]),
		       CSI_PLUGIN);
	assert_ok(stop_alloc(f, ALLOC_1, NULL));
	lose(f, &f->n1);
	assert_error(attest(f, "n1", NULL, "it is off", 0, false, NULL, &err), STATUS_FAILED_PRECONDITION,
		     err, "attest_forbidden_plugins");
}

CLUSTER_TEST(a_stored_volume_loses_no_pair_of_rivals)
{
	struct claim_entry *own =
		put_holder(f, "db1", "vol-1", "n1", SINGLE_NODE_MULTI_WRITER, CLAIM_WRITE, true);
	struct claim_entry *others[3];
	struct volume volume;

	held_twice_pair(own);
	for (int i = 0; i < 3; i++) {
		others[i] = put_holder(f, "w", "vol-2", "n2", SINGLE_NODE_MULTI_WRITER, CLAIM_WRITE, true);
		held_twice_pair(others[i]);
	}
	assert_int_equal(own->n_rivals, 3);
	assert_int_equal(f->server->state.n_volumes_held_twice, 2);
	volume = own->volume->volume;
	store_volume(f, &volume); /* an operator changes its name */
	settle(f);
	for (int i = 0; i < 2; i++) {
		struct claim freed = others[i]->claim;

		freed.state = CLAIM_FREED;
		assert_ok(state_put_claim(&f->server->state, &freed, NULL));
	}
	assert_int_not_equal(held_twice_check_repeat(own, NULL), STATUS_OK);
	assert_int_equal(f->server->state.n_volumes_held_twice, 2);
}

CLUSTER_TEST(a_fence_of_a_hundred_claims_by_one_name_is_possible)
{
	struct error err = {.msg = ""};

	connect_csi(f);
	lose(f, &f->n1);
	for (int i = 0; i < 100; i++) {
		struct claim held =
			put_holder(f, "w", "vol-w", "n1", MULTI_NODE_MULTI_WRITER, CLAIM_WRITE, true)->claim;

		held.attach = ATTACH_DONE;
		held.state = CLAIM_UNPUBLISHING;
		assert_ok(state_put_claim(&f->server->state, &held, NULL));
	}
	(void)fence_off(f, "w", &err);
	assert_null(strstr(err.msg, "too many claims"));
}

static void lose_claim(struct fixture *f, struct claim_entry *entry, const char *ext_node, bool proven,
		       bool other_machine, const char *external_id)
{
	struct claim held = entry->claim;

	held.attach = ATTACH_DONE;
	held.state = CLAIM_UNPUBLISHING;
	held.sent_to_node = true;
	held.storage_proven = proven;
	held.other_machine = other_machine;
	(void)str_copy(held.external_node_id, sizeof(held.external_node_id), ext_node);
	(void)str_copy(held.external_id, sizeof(held.external_id), external_id);
	assert_ok(state_put_claim(&f->server->state, &held, NULL));
}

/* Of two claims of n1 on vol-1, one is of a former machine; n2 has it by the provider id of n1. */
static void fence_with_former(struct fixture *f, bool is_first)
{
	struct error err = {.msg = ""};
	struct claim_entry *entry;
	const struct instance_entry *instance;
	unsigned int n;

	connect_csi(f);
	instance = state_instance(&f->server->state, "n1", "ebs", "");
	assert_non_null(instance);
	n = f->plugin.calls[DETACH];
	entry = put_holder(f, "db", "vol-1", "n2", MULTI_NODE_MULTI_WRITER, CLAIM_WRITE, true);
	lose_claim(f, entry, instance->instance.plugin.node.provider_node_id, true, false, "vol-1");
	for (int i = 0; i < 2; i++) {
		entry = put_holder(f, "db", "vol-1", "n1", MULTI_NODE_MULTI_WRITER, CLAIM_WRITE, true);
		lose_claim(f, entry, "", true, is_first == (i == 1), "vol-1");
	}
	lose(f, &f->n1);
	assert_error(fence_off(f, "db", &err), STATUS_FAILED_PRECONDITION, err, "node n2 holds volume db");
	settle(f);
	assert_int_equal(f->plugin.calls[DETACH], n);
}

CLUSTER_TEST(a_claim_of_a_former_machine_hides_no_other_holder_from_a_fence)
{
	fence_with_former(f, true);
}

CLUSTER_TEST(nor_does_one_that_is_older)
{
	fence_with_former(f, false);
}

/* The other share stays a placeholder. */
CLUSTER_TEST(a_share_that_is_registered_again_has_no_rival_on_another_part)
{
	struct claim_entry *one = put_share(f, "db1", "n1", "z1");
	struct claim_entry *other = put_share(f, "also1", "n2", "z2");
	struct error err = {.msg = ""};

	held_twice_pair(one);
	held_twice_pair(other);
	assert_int_equal(f->server->state.n_volumes_held_twice, 2);
	register_again(f, one, "z1");
	settle(f);
	assert_succeeds(held_twice_check_rivals(one->volume, &err), err);
	assert_int_equal(f->server->state.n_volumes_held_twice, 0);
}

/* The backup has other storage by the name of one: its context is of that. */
CLUSTER_TEST(the_context_of_other_storage_makes_no_claim_another_part)
{
	struct claim_entry *one = put_share(f, "db1", "n1", "z1");
	struct claim_entry *other = put_share(f, "also1", "n2", "z1");
	struct volume volume;
	struct error err = {.msg = ""};

	register_again(f, one, "z9");
	volume = one->volume->volume;
	(void)str_copy(volume.external_id, sizeof(volume.external_id), "vol-2");
	store_volume(f, &volume);
	register_again(f, other, "z1");
	settle(f);
	assert_true(one->is_unmatched && !other->is_unmatched);
	held_twice_pair(one);
	assert_int_equal(f->server->state.n_volumes_held_twice, 2);
	assert_error(held_twice_check_repeat(one, &err), STATUS_UNAVAILABLE, err, "held twice");
	assert_error(held_twice_check_repeat(other, &err), STATUS_UNAVAILABLE, err, "held twice");
}

/* The backup has another part of the id by the name of one. */
CLUSTER_TEST(a_claim_on_another_part_than_its_volume_has_its_rival_by_the_name_of_that_part)
{
	struct claim_entry *one = put_share(f, "db1", "n1", "z1");
	struct claim_entry *other = put_share(f, "also1", "n2", "z1");
	struct claim_entry *third = put_share(f, "also2", "n3", "z2");
	struct error err = {.msg = ""};

	register_again(f, one, "z9");
	register_again(f, other, "z1");
	register_again(f, third, "z2");
	settle(f);
	assert_true(one->is_unmatched && !other->is_unmatched && !third->is_unmatched);
	assert_error(held_twice_check_repeat(one, &err), STATUS_UNAVAILABLE, err, "node n2");
	held_twice_pair(one);
	assert_int_equal(f->server->state.n_volumes_held_twice, 2);
	assert_int_equal(one->n_rivals, 1);
	assert_int_equal(other->n_rivals, 1);
}

/* n1 has db1 three times; n2 has it by w, which the backup has as another storage. Returns that of w. */
static struct claim_entry *put_rivals_of_one(struct fixture *f, struct claim_entry *p[static 3])
{
	struct claim_entry *w;

	for (int i = 0; i < 3; i++) {
		p[i] = put_holder(f, "db1", "vol-1", "n1", SINGLE_NODE_MULTI_WRITER, CLAIM_WRITE, true);
		held_twice_pair(p[i]);
	}
	w = put_holder(f, "w", "vol-2", "n2", SINGLE_NODE_MULTI_WRITER, CLAIM_WRITE, true);
	held_twice_pair(w);
	assert_int_equal(f->server->state.n_volumes_held_twice, 2);
	return w;
}

static void free_claims(struct fixture *f, struct claim_entry *const *entries, size_t n)
{
	cleanup(change_release) struct change change = CHANGE_INIT;

	for (size_t i = 0; i < n; i++) {
		struct claim freed = entries[i]->claim;

		freed.state = CLAIM_FREED;
		change_put_claim(&change, &freed);
	}
	assert_ok(change_commit(f->server, &change, NULL, NULL, NULL));
	settle(f);
}

CLUSTER_TEST(the_alarm_stays_when_all_counted_rivals_of_a_claim_have_ended)
{
	struct claim_entry *p[3], *counted[3], *left = NULL;
	struct claim_entry *w = put_rivals_of_one(f, p);
	size_t n = 0;

	for (int i = 0; i < 3; i++)
		if (p[i]->n_rivals > 0)
			counted[n++] = p[i];
		else
			left = p[i];
	assert_int_equal(n, 2);
	free_claims(f, counted, 2);
	assert_int_not_equal(held_twice_check_repeat(w, NULL), STATUS_OK);
	assert_int_equal(f->server->state.n_volumes_held_twice, 2);
	free_claims(f, &left, 1);
	assert_int_equal(f->server->state.n_volumes_held_twice, 0);
	assert_int_equal(w->n_rivals, 0);
	assert_true(LIST_EMPTY(&f->server->state.unpaired));
}

/* Both ends of a pair are listed when it ends. */
CLUSTER_TEST(a_claim_that_ends_is_not_paired_again)
{
	struct claim_entry *p[3], *w = put_rivals_of_one(f, p);
	struct claim freed = w->claim;

	freed.state = CLAIM_FREED;
	assert_ok(state_put_claim(&f->server->state, &freed, NULL));
	for (int i = 0; i < 3; i++) {
		freed = p[i]->claim;
		freed.state = CLAIM_FREED;
		assert_ok(state_put_claim(&f->server->state, &freed, NULL));
	}
	assert_true(LIST_EMPTY(&f->server->state.unpaired));
	assert_int_equal(f->server->state.n_volumes_held_twice, 0);
}

CLUSTER_TEST(a_claim_that_is_adopted_again_keeps_the_pairs_of_others)
{
	struct claim_entry *own =
		put_holder(f, "db1", "vol-1", "n1", SINGLE_NODE_MULTI_WRITER, CLAIM_WRITE, true);

	for (int i = 0; i < 3; i++)
		held_twice_pair(
			put_holder(f, "w", "vol-2", "n2", SINGLE_NODE_MULTI_WRITER, CLAIM_WRITE, true));
	assert_int_equal(own->n_rivals, 3);
	held_twice_pair(own);
	assert_int_equal(own->n_rivals, 3);
}

/* Its claims are surely on two parts. */
CLUSTER_TEST(two_claims_of_one_name_are_rivals_on_any_part_as_they_are_counted)
{
	struct claim_entry *one = put_share(f, "db1", "n1", "z1");
	struct claim_entry *other = put_share(f, "db1", "n3", "z9");
	struct error err = {.msg = ""};

	register_again(f, one, "z1");
	settle(f);
	assert_true(other->is_unmatched && !one->is_unmatched);
	assert_int_equal(f->server->state.n_volumes_held_twice, 1);
	assert_error(held_twice_check_repeat(one, &err), STATUS_UNAVAILABLE, err, "node n3");
	assert_error(held_twice_check_repeat(other, &err), STATUS_UNAVAILABLE, err, "node n1");
	assert_error(held_twice_check_rivals(one->volume, &err), STATUS_UNAVAILABLE, err, "held twice");
}

/* The newest claim of db1 had the rival as long as its part was not known. */
CLUSTER_TEST(the_cause_of_an_alarm_is_found_behind_a_claim_whose_pair_has_ended)
{
	struct claim_entry *db1[2], *w;
	struct error err = {.msg = ""};

	for (int i = 0; i < 2; i++) {
		struct claim claim = put_share(f, "db1", "n1", i == 0 ? "z9" : "z1")->claim;

		claim.access_mode = SINGLE_NODE_MULTI_WRITER;
		assert_ok(state_put_claim(&f->server->state, &claim, NULL));
		db1[i] = state_claim(&f->server->state, claim.id);
	}
	w = put_share(f, "w", "n2", "z9");
	held_twice_pair(w);
	assert_int_equal(db1[0]->n_rivals, 1);
	assert_int_equal(db1[1]->n_rivals, 1);
	register_again(f, db1[1], "z1");
	assert_succeeds(held_twice_check_repeat(db1[1], &err), err);
	assert_error(held_twice_check_rivals(w->volume, &err), STATUS_UNAVAILABLE, err, "node n1");
	assert_error(held_twice_check_rivals(db1[0]->volume, &err), STATUS_UNAVAILABLE, err, "node n2");
}

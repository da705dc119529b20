/* SPDX-License-Identifier: Apache-2.0 */
/* A claim is on the storage, not on the name: one storage has one volume, or several that share one claim
 * table. */

#include "asks.h"
#include "provider_world.h"
#include "restored.h"
#include "unit.h"

#include "claim/release.h"
#include "recovery/epoch.h"
#include "state/storage_index.h"
#include "volume/identity.h"

#define NFS "\"type\":\"CSI\",\"pluginId\":\"nfs\"," CAPABILITIES
#define CSI(id, rest) "{\"volume\":{\"id\":\"" id "\"," NFS rest "}}"
#define DISK(id, rest)                                                                          \
	"{\"volume\":{\"id\":\"" id "\",\"type\":\"NATIVE\",\"profile\":\"disk\"," CAPABILITIES \
	",\"source\":{\"class\":\"BLOCK\",\"byId\":\"wwn-0x1\"}" rest "}}"

PROVIDER_TEST(a_second_registration_of_a_csi_volume_is_refused_and_names_the_first)
{
	must(f, "Register", CSI("e1", ",\"externalId\":\"x\",\"context\":{\"k\":\"v\"}"), NULL);
	refuses(f, "Register", CSI("e2", ",\"externalId\":\"x\",\"context\":{\"k\":\"v\"}"),
		STATUS_ALREADY_EXISTS, "volume e1 in namespace default");
	refuses(f, "Register",
		CSI("e2", ",\"namespace\":\"b\",\"externalId\":\"x\",\"context\":{\"k\":\"v\"}"),
		STATUS_ALREADY_EXISTS, "volume e1 in namespace default");
	refuses(f, "Register", CSI("x", ",\"context\":{\"k\":\"v\"}"), STATUS_ALREADY_EXISTS, "e1");
	must(f, "Register", CSI("e1", ",\"externalId\":\"x\",\"context\":{\"k\":\"v\"}"), NULL);
	must(f, "Register", CSI("e3", ",\"externalId\":\"y\",\"context\":{\"k\":\"v\"}"), NULL);
	restart(f); /* whatever it was loaded from */
	provider_report(f);
	refuses(f, "Register", CSI("e2", ",\"externalId\":\"x\",\"context\":{\"k\":\"v\"}"),
		STATUS_ALREADY_EXISTS, "volume e1 in namespace default");
	must(f, "Deregister", "{\"id\":\"e1\"}", NULL);
	must(f, "Register", CSI("e2", ",\"externalId\":\"x\",\"context\":{\"k\":\"v\"}"), NULL);
}

PROVIDER_TEST(eleven_volumes_of_one_external_id_with_a_share_each_register)
{
	char json[512];

	for (int i = 0; i < 11; i++) {
		(void)str_format(json, sizeof(json),
				 "{\"volume\":{\"id\":\"v%d\"," NFS
				 ",\"externalId\":\"nfs\",\"context\":{\"share\":\"/exports/%d\"}}}",
				 i, i);
		must(f, "Register", json, NULL);
	}
	refuses(f, "Register",
		CSI("twelfth", ",\"externalId\":\"nfs\",\"context\":{\"share\":\"/exports/7\"}"),
		STATUS_ALREADY_EXISTS, "volume v7 ");
	/* the provider deletes by the id alone */
	refuses(f, "Delete", "{\"id\":\"v7\"}", STATUS_FAILED_PRECONDITION, "holdfast volume deregister v7");
	assert_int_equal(provider.calls[CALL_DELETE], 0);
}

PROVIDER_TEST(a_volume_that_the_provider_made_is_the_same_storage_under_any_context)
{
	must(f, "Create", DB, "vol-1");
	refuses(f, "Register", CSI("e2", ",\"externalId\":\"vol-1\",\"context\":{\"junk\":\"1\"}"),
		STATUS_ALREADY_EXISTS, "volume db ");
	must(f, "Register", CSI("e3", ",\"externalId\":\"plain\""), NULL);
	refuses(f, "Register", CSI("e4", ",\"externalId\":\"plain\",\"context\":{\"junk\":\"1\"}"),
		STATUS_ALREADY_EXISTS, "volume e3 ");
}

TEST_ON(a_second_registration_of_a_native_source_is_refused_and_names_the_first, struct fixture, f, setup,
	teardown)
{
#define SOURCE(id, source)                                                                      \
	"{\"volume\":{\"id\":\"" id "\",\"type\":\"NATIVE\",\"profile\":\"disk\"," CAPABILITIES \
	",\"source\":" source "}}"
#define NFS4(server, export) "{\"class\":\"NFS4\",\"server\":\"" server "\",\"export\":\"" export "\"}"
#define BIND "{\"class\":\"BIND\",\"hostVolume\":\"disk\"}"
#define TMPFS "{\"class\":\"TMPFS\",\"sizeBytes\":1048576,\"inodes\":10}"

	must(f, "Register", DISK("d1", ""), NULL);
	refuses(f, "Register", DISK("d2", ""), STATUS_ALREADY_EXISTS,
		"source.by_id: this storage is in use by volume d1");
	refuses(f, "Register", DISK("d2", ",\"namespace\":\"b\""), STATUS_ALREADY_EXISTS, "d1");
	must(f, "Register", SOURCE("n1", NFS4("2001:db8::7", "/a")), NULL);
	refuses(f, "Register", SOURCE("n2", NFS4("2001:DB8:0::7", "/a")), STATUS_ALREADY_EXISTS,
		"source.export");
	must(f, "Register", SOURCE("n3", NFS4("2001:db8::7", "/b")), NULL);
	must(f, "Register", SOURCE("b1", BIND), NULL);
	refuses(f, "Register", SOURCE("b2", BIND), STATUS_ALREADY_EXISTS, "source.host_volume");
	must(f, "Register", SOURCE("t1", TMPFS), NULL);
	must(f, "Register", SOURCE("t2", TMPFS), NULL);
}

PROVIDER_TEST(of_two_registrations_at_once_of_one_storage_one_wins)
{
	struct pending first, second;

	provider_order(CALL_VALIDATE, PROVIDER_HOLD, 2, STATUS_OK);
	start_asking(f, "Register", CSI("e1", ",\"externalId\":\"x\""), &first);
	start_asking(f, "Register", CSI("e2", ",\"externalId\":\"x\""), &second);
	UNTIL(f, provider.calls[CALL_VALIDATE] == 2);
	provider_answer();
	UNTIL(f, first.ended && second.ended);
	assert_true((first.status == STATUS_OK) != (second.status == STATUS_OK));
	assert_int_equal(first.status == STATUS_OK ? second.status : first.status, STATUS_ALREADY_EXISTS);
	assert_true(!state_volume(&f->server->state, "default", "e1") !=
		    !state_volume(&f->server->state, "default", "e2"));
}

PROVIDER_TEST(a_creation_whose_storage_was_registered_meanwhile_is_forgotten)
{
	struct pending creation;

	provider_order(CALL_CREATE, PROVIDER_HOLD_DONE, 1, STATUS_OK);
	start_asking(f, "Create", DB, &creation);
	UNTIL(f, provider.calls[CALL_CREATE] == 1);
	must(f, "Register", CSI("e1", ",\"externalId\":\"vol-1\""), NULL);
	provider_answer();
	UNTIL(f, creation.ended);
	assert_int_equal(creation.status, STATUS_ALREADY_EXISTS);
	assert_null(state_volume(&f->server->state, "default", "db"));
	assert_int_equal(provider_volumes(), 1);
}

CLUSTER_TEST(a_storage_has_so_many_names_and_no_more)
{
	char json[512];

	must(f, "Register", DISK("d", ""), NULL);
	for (int i = 1; i < STORAGE_NAMES_MAX; i++) {
		(void)str_format(json, sizeof(json), DISK("d%d", ",\"shares\":\"d\""), i);
		must(f, "Register", json, NULL);
	}
	refuses(f, "Register", DISK("more", ",\"shares\":\"d\""), STATUS_RESOURCE_EXHAUSTED,
		"volume d has 64 names");
	must(f, "Register", DISK("d1", ",\"shares\":\"d\""), NULL); /* again */
	must(f, "Deregister", "{\"id\":\"d1\"}", NULL);
	must(f, "Register", DISK("more", ",\"shares\":\"d\""), NULL);
}

CLUSTER_TEST(shares_names_a_volume_of_the_same_storage_and_namespace)
{
	must(f, "Register", DISK("d1", ""), NULL);
	must(f, "Register", SOURCE("other", NFS4("192.0.2.7", "/a")), NULL);
	refuses(f, "Register", DISK("d2", ",\"shares\":\"none\""), STATUS_FAILED_PRECONDITION, "shares:");
	refuses(f, "Register", DISK("d2", ",\"shares\":\"other\""), STATUS_FAILED_PRECONDITION, "shares:");
	refuses(f, "Register", DISK("d2", ",\"shares\":\"d2\""), STATUS_INVALID_ARGUMENT, "shares:");
	refuses(f, "Register", DISK("d2", ",\"shares\":\"a/b\""), STATUS_INVALID_ARGUMENT, "shares:");
	refuses(f, "Register", DISK("d1", ",\"namespace\":\"b\",\"shares\":\"d2\""),
		STATUS_FAILED_PRECONDITION, "shares:");
	must(f, "Register", DISK("d2", ",\"shares\":\"d1\""), "\"shares\":\"d1\"");
	must(f, "Register", DISK("d2", ""), "\"shares\":\"d1\"");
	refuses(f, "Register", DISK("d2", ",\"shares\":\"other\""), STATUS_FAILED_PRECONDITION, "shares:");
	must(f, "Register", DISK("d3", ",\"shares\":\"d2\""), NULL);
	refuses(f, "Register", DISK("d4", ""), STATUS_ALREADY_EXISTS, "volume d");
}

/* Volumes d1 and d2 of one disk, and both nodes with it. */
static void share_a_disk(struct fixture *f)
{
	must(f, "Register", DISK("d1", ""), NULL);
	must(f, "Register", DISK("d2", ",\"shares\":\"d1\""), NULL);
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
}

static enum status take_of(struct fixture *f, struct fake_node *node, const char *volume, const char *alloc,
			   struct error *err)
{
	Holdfast__V1__ClaimVolumeResponse *response = NULL;
	enum status status;

	f->source = volume;
	status = run_alloc(f, alloc, node->id, err);
	if (status == STATUS_OK)
		status = fake_node_claim(node, volume, alloc, &response, err);
	if (response)
		holdfast__v1__claim_volume_response__free_unpacked(response, NULL);
	return status;
}

CLUSTER_TEST(claims_of_all_names_of_a_storage_count_together)
{
	struct claim claim;
	struct error err;

	share_a_disk(f);
	assert_int_equal(take_of(f, &f->n1, "d1", ALLOC_1, &err), STATUS_OK);
	assert_error(take_of(f, &f->n2, "d2", ALLOC_2, &err), STATUS_FAILED_PRECONDITION, err, ALLOC_1);
	must(f, "Get", "{\"id\":\"d2\",\"why\":true}", "as volume d1, which is the same storage");
	must(f, "Get", "{\"id\":\"d2\",\"why\":true}", ALLOC_1);
	restart(f);
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	assert_int_not_equal(take_of(f, &f->n2, "d2", ALLOC_2, &err), STATUS_OK);
	claim = claim_of(f, ALLOC_1);
	fake_node_send_released(&f->n1, &claim);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(take_of(f, &f->n2, "d2", ALLOC_3, &err), STATUS_OK);
	assert_int_not_equal(take_of(f, &f->n1, "d1", "01890004-0000-7000-" ID_MARK, &err), STATUS_OK);
}

CLUSTER_TEST(a_grant_of_one_name_is_checked_again_when_the_node_asks_under_another)
{
	Holdfast__V1__ClaimVolumeResponse *response = NULL;
	struct error err;

	share_a_disk(f);
	f->source = "d1";
	assert_int_equal(run_alloc(f, ALLOC_1, "n1", &err), STATUS_OK);
	f->source = "d2";
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", &err), STATUS_OK);
	assert_int_equal(fake_node_claim(&f->n1, "d1", ALLOC_1, &response, &err), STATUS_OK);
	holdfast__v1__claim_volume_response__free_unpacked(response, NULL);
	response = NULL;
	assert_error(fake_node_claim(&f->n2, "d2", ALLOC_2, &response, &err), STATUS_FAILED_PRECONDITION, err,
		     "its storage is volume d1 too");
	assert_null(response);
}

CLUSTER_TEST(an_attestation_covers_only_one_name_of_a_storage)
{
	const struct volume *d2;
	struct backup backup = {0};
	struct error err;

	share_a_disk(f);
	take_backup(f, &backup);
	restore(f, &backup, 1);
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n2"));
	d2 = &state_volume(&f->server->state, "default", "d2")->volume;
	assert_int_equal(attest(f, "n1", "d2", "it is gone", 0, false, NULL, &err), STATUS_OK);
	assert_error(epoch_check(f->server, d2, &err), STATUS_UNAVAILABLE, err, "attest n1 default/d1");
	assert_int_equal(attest(f, "n1", "d1", "it is gone", 0, false, NULL, &err), STATUS_OK);
	assert_int_equal(epoch_check(f->server, d2, &err), STATUS_OK);
}

/* As adoption makes it: a volume that a node's report alone tells of, with a claim. */
static void put_placeholder(struct fixture *f, const char *id, const char *external_id)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct volume volume = ROW(.namespace = "default", .type = external_id ? VOLUME_CSI : VOLUME_NATIVE,
				   .plugin_id = "nfs", .profile = "disk");

	if (!external_id)
		(void)str_copy(volume.plugin_id, sizeof(volume.plugin_id), PLUGIN_NATIVE);
	else
		volume.profile[0] = '\0';
	(void)str_copy(volume.id, sizeof(volume.id), id);
	(void)str_copy(volume.external_id, sizeof(volume.external_id), external_id ? external_id : "");
	change_put_volume(&change, &volume);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	claim_volume(f, id, "n1", 77);
}

PROVIDER_TEST(an_adopted_volume_is_the_storage_of_its_external_id_whatever_the_context_is)
{
	const struct volume_entry *e1;

	must(f, "Register", CSI("e1", ",\"externalId\":\"x\",\"context\":{\"k\":\"v\"}"), NULL);
	put_placeholder(f, "lost", "x");
	e1 = state_volume(&f->server->state, "default", "e1");
	assert_int_equal(storage_n_live(e1), 1);
	must(f, "Get", "{\"id\":\"e1\",\"why\":true}", "as volume lost, which is the same storage");
	refuses(f, "Register", CSI("e2", ",\"externalId\":\"x\",\"context\":{\"k\":\"w\"}"),
		STATUS_ALREADY_EXISTS, "volume lost ");
	refuses(f, "Delete", "{\"id\":\"e1\"}", STATUS_FAILED_PRECONDITION, "volume lost ");
	refuses(f, "Register", CSI("lost", ",\"externalId\":\"x\",\"context\":{\"k\":\"w\"}"),
		STATUS_FAILED_PRECONDITION, "with no context");
	free_claims(f, "lost");
	/* with its own context again it is told apart */
	must(f, "Register", CSI("lost", ",\"externalId\":\"x\",\"context\":{\"k\":\"w\"}"), NULL);
	claim_volume(f, "lost", "n1", 78);
	assert_int_equal(storage_n_live(e1), 0);
}

CLUSTER_TEST(a_native_volume_that_a_report_alone_tells_of_keeps_its_profile_from_new_registrations)
{
	struct backup backup = {0};

	connect_node(&f->n1, "n1");
	take_backup(f, &backup);
	restore(f, &backup, 1);
	put_placeholder(f, "lost", NULL);
	refuses(f, "Register", DISK("d1", ""), STATUS_FAILED_PRECONDITION,
		"volume lost in namespace default");
	must(f, "Register", DISK("lost", ""), NULL);
	refuses(f, "Register", DISK("d1", ""), STATUS_ALREADY_EXISTS, "volume lost in namespace default");
}

PROVIDER_TEST(the_context_of_a_volume_in_use_stays)
{
	must(f, "Register", CSI("e1", ",\"externalId\":\"x\",\"context\":{\"k\":\"v\"}"), NULL);
	claim_volume(f, "e1", "n1", 1);
	refuses(f, "Register", CSI("e1", ",\"externalId\":\"x\",\"context\":{\"k\":\"w\"}"),
		STATUS_FAILED_PRECONDITION, "context: volume e1 is in use");
	free_claims(f, "e1");
	must(f, "Register", CSI("e1", ",\"externalId\":\"x\",\"context\":{\"k\":\"w\"}"), NULL);
	must(f, "Register", CSI("e2", ",\"externalId\":\"x\",\"context\":{\"k\":\"v\"}"), NULL);
}

/* It granted the claim, and noted no context. */
PROVIDER_TEST(a_claim_that_an_earlier_build_granted_holds_its_own_share_only)
{
	struct claim claim;

	must(f, "Register", CSI("e1", ",\"externalId\":\"x\",\"context\":{\"k\":\"v\"}"), NULL);
	must(f, "Register", CSI("e2", ",\"externalId\":\"x\",\"context\":{\"k\":\"w\"}"), NULL);
	claim_volume(f, "e1", "n1", 1);
	claim = LIST_FIRST(&state_volume(&f->server->state, "default", "e1")->claims)->claim;
	free_claims(f, "e1");
	claim.context_digest[0] = '\0';
	assert_ok(state_put_claim(&f->server->state, &claim, NULL));
	assert_int_equal(storage_n_live(state_volume(&f->server->state, "default", "e1")), 1);
	assert_int_equal(storage_n_live(state_volume(&f->server->state, "default", "e2")), 0);
	free_claims(f, "e1");
	claim.adopted = true; /* from a report, it may be of any share */
	assert_ok(state_put_claim(&f->server->state, &claim, NULL));
	assert_int_equal(storage_n_live(state_volume(&f->server->state, "default", "e2")), 1);
}

PROVIDER_TEST(a_shared_volume_is_deleted_when_no_other_name_of_it_is_left)
{
	must(f, "Create", DB, "vol-1");
	must(f, "Register", CSI("e2", ",\"externalId\":\"vol-1\",\"shares\":\"db\""), NULL);
	refuses(f, "Delete", ID, STATUS_FAILED_PRECONDITION, "volume e2 in namespace default");
	refuses(f, "Delete", "{\"id\":\"e2\"}", STATUS_FAILED_PRECONDITION, "volume db in namespace default");
	assert_int_equal(provider.calls[CALL_DELETE], 0);
	must(f, "Deregister", "{\"id\":\"e2\"}", NULL);
	must(f, "Delete", ID, NULL);
	assert_int_equal(provider_volumes(), 0);
}

PROVIDER_TEST(a_volume_that_is_being_deleted_gets_no_second_name)
{
	struct pending deletion;

	must(f, "Register", CSI("e1", ",\"externalId\":\"x\",\"context\":{\"k\":\"v\"}"), NULL);
	provider_order(CALL_DELETE, PROVIDER_HOLD, 1, STATUS_OK);
	start_asking(f, "Delete", "{\"id\":\"e1\"}", &deletion);
	UNTIL(f, provider.calls[CALL_DELETE] == 1);
	refuses(f, "Register", CSI("e2", ",\"externalId\":\"x\",\"context\":{\"k\":\"w\"}"),
		STATUS_FAILED_PRECONDITION, "is being deleted");
	provider_answer();
	UNTIL(f, deletion.ended);
	must(f, "Register", CSI("e2", ",\"externalId\":\"x\",\"context\":{\"k\":\"w\"}"), NULL);
}

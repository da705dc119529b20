/* SPDX-License-Identifier: Apache-2.0 */
/* What a node, or a thief of its certificate, invents about work that only it knows. It is asked to report at
 * any time, if its hello names an unknown allocation. */

#include "asks.h"
#include "callers.h"
#include "lines.h"
#include "restored.h"
#include "submission.h"
#include "unit.h"

#include "access/audit.h"
#include "base/clock.h"
#include "base/rate_counted.h"
#include "base/uuid.h"
#include "claim/held_twice.h"
#include "model/pb.h"
#include "model/task.h"
#include "node/session.h"
#include "plugin/args.h"
#include "recovery/new_epoch.h"
#include "state/keys.h"
#include "state/namespaces.h"
#include "state/storage_index.h"
#include "ticket/ticket.h"
#include "volume/store.h"
#include "volume/work.h"

#include <limits.h>

#define UNKNOWN "0189dead-0000-7000-8000-00000000000f"
#define DETACH HOLDFAST__V1__PLUGIN_CALL__REQUEST_DETACH
#define INVENTED "0189dead-0000-7000-8000-000000000001"

static void provoke_report(struct fixture *f, struct fake_node *node)
{
	Holdfast__V1__AllocStatus unknown = V1(alloc_status, .alloc_id = TEXT(UNKNOWN),
					       .client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	Holdfast__V1__AllocStatus *list[] = {&unknown};
	char id[NODE_ID_MAX + 1];

	(void)str_copy(id, sizeof(id), node->id);
	if (node->stream)
		fake_node_disconnect(node);
	fake_node_connect(node, id, BOOT_1, list, 1);
	UNTIL(f, node->reports_wanted == 1);
}

static void invent(struct fixture *f, struct fake_node *node, struct alloc *alloc)
{
	provoke_report(f, node);
	(void)str_copy(alloc->id, sizeof(alloc->id), INVENTED);
	(void)str_copy(alloc->node_id, sizeof(alloc->node_id), node->id);
	report(f, node, node->report_epoch, alloc, NULL, false);
	UNTIL(f, state_alloc(&f->server->state, INVENTED) != NULL);
	settle(f);
}

/* The member of job web, as @ret_node got it. */
static struct alloc member_of(struct fixture *f, struct submission *s, struct fake_node **ret_node,
			      struct fake_node **ret_other)
{
	struct alloc alloc;

	assert_int_equal(run(f, s, NULL), 1);
	UNTIL(f, f->n1.runs + f->n2.runs == 1);
	*ret_node = f->n1.runs == 1 ? &f->n1 : &f->n2;
	*ret_other = f->n1.runs == 1 ? &f->n2 : &f->n1;
	settle(f);
	alloc = alloc_of(f, (*ret_node)->last_run);
	alloc.events = alloc.task_status = NULL;
	return alloc;
}

CLUSTER_TEST(a_node_takes_the_place_of_no_other_nodes_member)
{
	struct submission s;
	struct fake_node *node, *thief;
	struct alloc alloc;
	char id[UUID_TEXT_SIZE];

	connect_both(f);
	make_job(f, &s);
	alloc = member_of(f, &s, &node, &thief);
	start_last(f, node);
	(void)str_copy(id, sizeof(id), node->last_run);
	alloc.job_version = INT64_MAX;
	alloc.client_status = CLIENT_RUNNING;
	invent(f, thief, &alloc);
	assert_int_equal(node->stops, 0);
	assert_int_equal(state_alloc(&f->server->state, id)->alloc.desired_status, DESIRED_RUN);
	assert_string_equal(state_alloc(&f->server->state, INVENTED)->alloc.job_id, "");
	end(f, node, id);
	UNTIL(f, f->n1.runs + f->n2.runs == 2); /* it is placed again */
}

CLUSTER_TEST(work_that_a_node_invents_ends_no_batch_job)
{
	struct submission s;
	struct fake_node *node, *thief;
	struct alloc alloc;

	connect_both(f);
	make_job(f, &s);
	s.job.type = HOLDFAST__V1__JOB_TYPE__JOB_TYPE_BATCH;
	s.group.update = NULL;
	alloc = member_of(f, &s, &node, &thief);
	alloc.client_status = CLIENT_COMPLETE;
	invent(f, thief, &alloc);
	fake_node_send_alloc(node, node->last_run, HOLDFAST__V1__CLIENT_STATUS__FAILED);
	UNTIL(f, f->n1.runs + f->n2.runs == 2);
}

CLUSTER_TEST(an_invented_allocation_keeps_no_volume_from_others)
{
	struct volume_request request = {.name = "data",
					 .source = "db",
					 .access_mode = SINGLE_NODE_WRITER,
					 .attachment_mode = ATTACHMENT_FILE_SYSTEM};
	struct alloc alloc = ROW(.namespace = "default", .name = "x", .driver = "none", .volumes = &request,
				 .n_volumes = 1, .desired_status = DESIRED_RUN,
				 .client_status = CLIENT_PENDING, .place_time_ms = 1, .queue_index = 1);
	struct submission s;

	connect_both(f);
	invent(f, &f->n2, &alloc);
	make_job(f, &s);
	assert_int_equal(run(f, &s, NULL), 1);
	UNTIL(f, f->n1.runs + f->n2.runs == 1);
}

CLUSTER_TEST(an_invented_allocation_shows_nothing_of_a_volume)
{
	struct volume_request request = {.name = "data",
					 .source = "db",
					 .access_mode = SINGLE_NODE_WRITER,
					 .attachment_mode = ATTACHMENT_FILE_SYSTEM};
	struct alloc alloc =
		ROW(.namespace = "default", .name = "x", .driver = "none", .volumes = &request,
		    .n_volumes = 1, .desired_status = DESIRED_RUN, .client_status = CLIENT_PENDING);
	struct error err = {.msg = ""};

	take_volume(f); /* n1 has it */
	invent(f, &f->n2, &alloc);
	assert_error(fake_node_claim(&f->n2, "db", INVENTED, NULL, &err), STATUS_FAILED_PRECONDITION, err,
		     "only its node knows it");
	assert_null(strstr(err.msg, "n1"));
	assert_null(strstr(err.msg, ALLOC_1));
}

CLUSTER_TEST(a_reported_claim_brings_no_words_of_an_operator)
{
	static const char words[] = "operator/alice: I have switched n2 off";
	const struct claim *adopted;
	struct claim claim;

	take_volume(f);
	claim = claim_of(f, ALLOC_1);
	provoke_report(f, &f->n1);
	(void)str_copy(claim.id, sizeof(claim.id), INVENTED);
	claim.detach_evidence = EVIDENCE_OPERATOR;
	(void)str_copy(claim.detach_detail, sizeof(claim.detach_detail), words);
	(void)str_copy(claim.plugin_waiver, sizeof(claim.plugin_waiver), words);
	claim.other_machine = claim.was_freed = claim.fence_asked = true;
	claim.attempts = 7;
	report_with(&f->n1, f->n1.report_epoch, NULL, &claim, NULL, false);
	UNTIL(f, state_claim(&f->server->state, INVENTED) != NULL);
	adopted = &state_claim(&f->server->state, INVENTED)->claim;
	assert_int_equal(adopted->detach_evidence, EVIDENCE_NONE);
	assert_string_equal(adopted->detach_detail, "");
	assert_string_equal(adopted->plugin_waiver, "");
	assert_false(adopted->other_machine || adopted->was_freed || adopted->fence_asked);
	assert_int_equal(adopted->attempts, 0);
}

static void make_another_key(struct fixture *f)
{
	char path[PATH_MAX];

	(void)str_format(path, sizeof(path), "%s/ticket.key", f->dir);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(ticket_key_make(path, NULL), STATUS_OK);
}

/* Tickets prove nothing then, but only the first report of an epoch counts without one. */
CLUSTER_TEST(a_report_that_a_node_provokes_needs_proof_also_after_a_new_ticket_key)
{
	struct claim claim;

	take_volume(f);
	claim = claim_of(f, ALLOC_1);
	restart_with(f, make_another_key);
	connect_node(&f->n2, "n2");
	provoke_report(f, &f->n2);
	(void)str_copy(claim.id, sizeof(claim.id), INVENTED);
	(void)str_copy(claim.node_id, sizeof(claim.node_id), "n2");
	(void)str_copy(claim.allocation_id, sizeof(claim.allocation_id), UNKNOWN);
	report_with(&f->n2, f->n2.report_epoch, NULL, &claim, NULL, false);
	UNTIL(f, !state_node(&f->server->state, "n2")->node.report_wanted);
	assert_null(state_claim(&f->server->state, INVENTED));
}

static void rotate_key(struct fixture *f, uint8_t ret_ids[static 2 * TICKET_KEY_ID_SIZE])
{
	cleanup(caller_release) struct caller_client caller;
	uint8_t key[TICKET_KEY_SIZE];

	caller_init(&caller, f, "holdfast://c1/operator/ann", NULL);
	ticket_issuer_public_key(f->server->issuer, key);
	memcpy(ret_ids, key, TICKET_KEY_ID_SIZE);
	assert_int_equal(caller_call(&caller, "Operator.RotateKey", "{}", NULL, NULL), STATUS_OK);
	assert_int_equal(caller_call(&caller, "Operator.RotateKey", "{\"use_now\": true}", NULL, NULL),
			 STATUS_OK);
	ticket_issuer_public_key(f->server->issuer, key);
	memcpy(ret_ids + TICKET_KEY_ID_SIZE, key, TICKET_KEY_ID_SIZE);
}

/* The older store has lost the key that signed the ticket. The node's policy still names it. */
CLUSTER_TEST(a_claim_of_a_rotated_key_is_kept_after_an_older_backup)
{
	uint8_t ids[2 * TICKET_KEY_ID_SIZE];
	struct backup backup = {0};
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	connect_node(&f->n1, "n1");
	take_backup(f, &backup);
	rotate_key(f, ids);
	take_volume(f);
	alloc = alloc_of(f, ALLOC_1);
	held = claim_of(f, ALLOC_1);
	ticket = ticket_of(f, &held);
	restore(f, &backup, 1);
	f->n1.ticket_keys = (ProtobufCBinaryData){.len = sizeof(ids), .data = ids};
	connect_node(&f->n1, "n1");
	report_with(&f->n1, 1, &alloc, &held, &ticket, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_non_null(state_claim(&f->server->state, held.id));
}

/* The backup knows no node: n1's mark proves that it was there before. */
CLUSTER_TEST(a_node_that_a_mark_counts_as_missing_is_believed)
{
	uint8_t ids[2 * TICKET_KEY_ID_SIZE];
	struct backup backup = {0};
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;
	cleanup_pb Holdfast__V1__Mark *mark = NULL;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	take_backup(f, &backup);
	rotate_key(f, ids);
	take_volume(f);
	alloc = alloc_of(f, ALLOC_1);
	held = claim_of(f, ALLOC_1);
	ticket = ticket_of(f, &held);
	connect_node(&f->n1, "n1"); /* it gets a mark that counts it */
	mark = mark_copy(f->n1.mark);
	restore(f, &backup, 1);
	f->n1.shows = mark;
	f->n1.ticket_keys = (ProtobufCBinaryData){.len = sizeof(ids), .data = ids};
	connect_node(&f->n1, "n1");
	report_with(&f->n1, 1, &alloc, &held, &ticket, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_non_null(state_claim(&f->server->state, held.id));
}

/* All nodes have reported, and no node is missing. */
CLUSTER_TEST(a_purged_node_is_not_believed_when_it_comes_back)
{
	static const uint8_t no_such_key[TICKET_KEY_ID_SIZE] = {1, 2, 3, 4};
	struct backup backup = {0};
	struct alloc alloc;
	struct claim lie;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	connect_both(f);
	take_backup(f, &backup);
	restore(f, &backup, 1);
	connect_both(f);
	report(f, &f->n1, 1, NULL, NULL, false);
	report(f, &f->n2, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n1") && has_reported(f, "n2"));
	take_claim(f, &f->n2, "db", ALLOC_2);
	lie = claim_of(f, ALLOC_2);
	alloc = alloc_of(f, ALLOC_2);
	lose(f, &f->n1);
	assert_int_equal(purge(f, "n1", NULL), STATUS_OK);
	f->n1.ticket_keys =
		(ProtobufCBinaryData){.len = sizeof(no_such_key), .data = (uint8_t *)(uintptr_t)no_such_key};
	connect_node(&f->n1, "n1");
	UNTIL(f, f->n1.reports_wanted > 0);
	(void)str_copy(lie.id, sizeof(lie.id), UNKNOWN);
	(void)str_copy(lie.node_id, sizeof(lie.node_id), "n1");
	(void)str_copy(lie.allocation_id, sizeof(lie.allocation_id), INVENTED);
	(void)str_copy(alloc.id, sizeof(alloc.id), INVENTED);
	(void)str_copy(alloc.node_id, sizeof(alloc.node_id), "n1");
	(void)str_copy(alloc.job_id, sizeof(alloc.job_id), "web");
	alloc.client_status = CLIENT_RUNNING;
	lie.generation = 1;
	report_with(&f->n1, 1, &alloc, &lie, NULL, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_null(state_claim(&f->server->state, UNKNOWN));
	assert_string_equal(state_alloc(&f->server->state, INVENTED)->alloc.job_id, "");
	assert_int_equal(state_of(f, ALLOC_2), CLAIM_TAKEN);
}

static bool is_freed(struct fixture *f, const char *claim_id)
{
	const struct claim_entry *entry = state_claim(&f->server->state, claim_id);

	return !entry || !claim_is_live(&entry->claim);
}

/* --- the storage of a claim whose volume the store does not know --- */

/* A volume of another namespace, which the tenant of default may not touch. */
static void store_secret_volume(struct fixture *f)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	const struct volume volume = ROW(.namespace = "blue", .id = "secret", .type = VOLUME_CSI,
					 .plugin_id = CSI_PLUGIN, .external_id = "vol-secret",
					 .capabilities = {{SINGLE_NODE_WRITER, ATTACHMENT_FILE_SYSTEM}},
					 .n_capabilities = 1, .create_time_ms = 1, .modify_time_ms = 1);

	change_put_volume(&change, &volume);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
}

static void deregister(struct fixture *f, const char *id)
{
	const Holdfast__V1__DeregisterVolumeRequest request = V1(deregister_volume_request, .id = TEXT(id));

	assert_ok(call(&f->operator, & holdfast__v1__volumes__descriptor, "Deregister", &request.base, NULL,
		       NULL));
}

/* n1 has run an allocation with volume x, which was freed and deregistered. @ret its claim, to lie with */
static void forget_x(struct fixture *f, struct claim *ret)
{
	register_csi(f, "x");
	store_secret_volume(f);
	f->n1.plugin = f->n2.plugin = &f->plugin;
	f->n1.csi = (struct fake_csi){.has_node = true};
	f->n2.csi = (struct fake_csi){.has_node = true, .has_controller = true, .can_create_delete = true};
	connect_both(f);
	take_claim(f, &f->n1, "x", ALLOC_1);
	*ret = claim_of(f, ALLOC_1);
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	deregister(f, "x");
	settle(f);
}

/* Reports @claim under a new id, held, with a storage that n1 has chosen. */
static void lie_about_x(struct fixture *f, struct claim *claim, const char *external_id,
			const struct ticket *ticket)
{
	provoke_report(f, &f->n1);
	(void)str_copy(claim->id, sizeof(claim->id), INVENTED);
	(void)str_copy(claim->external_id, sizeof(claim->external_id), external_id);
	claim->state = CLAIM_TAKEN;
	report_with(&f->n1, f->n1.report_epoch, NULL, claim, ticket, false);
	UNTIL(f, state_claim(&f->server->state, INVENTED) != NULL);
	settle(f);
}

/* The tenant that works together with the node. */
static enum status tenant_asks(struct fixture *f, const char *secret, const char *method, const char *request,
			       struct error *err)
{
	cleanup(caller_release) struct caller_client tenant;

	caller_init(&tenant, f, NULL, secret);
	return caller_call(&tenant, method, request, NULL, err);
}

#define MODE "{\"accessMode\":\"SINGLE_NODE_WRITER\",\"attachmentMode\":\"FILE_SYSTEM\"}"
#define POLICY_OF_DEFAULT                                                                             \
	"{\"policy\":{\"name\":\"t\",\"plugin\":\"read\",\"namespaces\":[{\"namespace\":\"default\"," \
	"\"policy\":\"write\"}]}}"
#define CLONE(id)                                                                                         \
	"{\"volume\":{\"id\":\"copy\",\"type\":\"CSI\",\"pluginId\":\"" CSI_PLUGIN "\",\"cloneId\":\"" id \
	"\",\"requestedCapabilities\":[" MODE "]}}"

TEST_ON(a_node_gives_no_namespace_the_storage_of_another_one, struct fixture, f, setup_acl, teardown)
{
	struct error err;
	struct claim lie;
	char *secret;

	forget_x(f, &lie);
	operator_does(f, "Operator.PutPolicy", POLICY_OF_DEFAULT);
	secret = make_token(f, "{\"name\":\"t\",\"type\":\"CLIENT\",\"policies\":[\"t\"]}");
	lie_about_x(f, &lie, "vol-secret", NULL);
	assert_string_equal(state_volume(&f->server->state, "default", "x")->volume.external_id, "");
	assert_string_equal(state_claim(&f->server->state, INVENTED)->claim.external_id, "");
	assert_int_equal(storage_n_live(state_volume(&f->server->state, "blue", "secret")), 0);
	assert_error(tenant_asks(f, secret, "Volumes.Create", CLONE("vol-secret"), &err),
		     STATUS_PERMISSION_DENIED, err,
		     "clone_id: no volume or snapshot of namespace default has this id");
	free(secret);
}

/* The ticket is genuine, but for the storage that x had. */
TEST_ON(a_ticket_names_one_storage_only, struct fixture, f, setup_acl, teardown)
{
	struct ticket ticket;
	struct claim lie;

	forget_x(f, &lie);
	ticket = ticket_of(f, &lie);
	lie_about_x(f, &lie, "vol-secret", &ticket);
	assert_string_equal(state_volume(&f->server->state, "default", "x")->volume.external_id, "");
	assert_int_equal(storage_n_live(state_volume(&f->server->state, "blue", "secret")), 0);
}

/* As x had it when n1 was granted it; another namespace may have it by now. */
TEST_ON(an_old_ticket_gives_no_namespace_its_storage_back, struct fixture, f, setup_acl, teardown)
{
	struct ticket ticket;
	struct error err;
	struct claim lie;
	char *secret;

	forget_x(f, &lie);
	operator_does(f, "Operator.PutPolicy", POLICY_OF_DEFAULT);
	secret = make_token(f, "{\"name\":\"t\",\"type\":\"CLIENT\",\"policies\":[\"t\"]}");
	ticket = ticket_of(f, &lie);
	lie_about_x(f, &lie, "vol-x", &ticket);
	assert_string_equal(state_volume(&f->server->state, "default", "x")->volume.external_id, "vol-x");
	assert_error(tenant_asks(f, secret, "Volumes.Create", CLONE("vol-x"), &err), STATUS_PERMISSION_DENIED,
		     err, "clone_id: no volume or snapshot of namespace default has this id");
	free(secret);
}

TEST_ON(no_provider_is_asked_about_a_volume_that_only_a_node_knows, struct fixture, f, setup_acl, teardown)
{
	static const char *const asks[][2] = {
		{"Volumes.Delete", "{\"id\":\"x\"}"},
		{"Volumes.Expand", "{\"id\":\"x\",\"capacityMin\":\"1048576\"}"},
		{"Volumes.CreateSnapshot", "{\"volumeId\":\"x\",\"name\":\"s\"}"},
		{"Volumes.Create", "{\"volume\":{\"id\":\"x\",\"type\":\"CSI\",\"pluginId\":\"" CSI_PLUGIN
				   "\",\"requestedCapabilities\":[{\"accessMode\":\"SINGLE_NODE_WRITER\","
				   "\"attachmentMode\":\"FILE_SYSTEM\"}]}}"},
	};
	struct error err;
	struct claim lie;
	char *secret;

	forget_x(f, &lie);
	operator_does(f, "Operator.PutPolicy", POLICY_OF_DEFAULT);
	secret = make_token(f, "{\"name\":\"t\",\"type\":\"CLIENT\",\"policies\":[\"t\"]}");
	lie_about_x(f, &lie, "vol-of-nobody-here", NULL);
	UNTIL(f, f->n1.releases > 0);
	fake_node_send_released(&f->n1, &lie);
	settle(f);
	for (size_t i = 0; i < ARRAY_SIZE(asks); i++)
		assert_error(tenant_asks(f, secret, asks[i][0], asks[i][1], &err), STATUS_FAILED_PRECONDITION,
			     err, "known only from a node's report");
	free(secret);
}

/* n1 really has the volume, which was registered after the backup. */
static void report_forgotten(struct fixture *f, struct alloc *alloc, struct claim *held,
			     const struct ticket *ticket)
{
	uint64_t epoch = state_epoch(&f->server->state);

	connect_node(&f->n1, "n1");
	report_with(&f->n1, epoch, alloc, held, ticket, false);
	connect_node(&f->n2, "n2");
	report(f, &f->n2, epoch, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n1") && has_reported(f, "n2"));
	assert_non_null(state_claim(&f->server->state, held->id));
}

/* For the next time that the nodes connect. */
static void run_csi(struct fixture *f)
{
	f->n1.plugin = f->n2.plugin = &f->plugin;
	f->n1.csi = (struct fake_csi){.has_node = true};
	f->n2.csi = (struct fake_csi){.has_node = true, .has_controller = true};
}

/* n1 has db, which was registered after the backup: see register_csi(). */
static void forget_csi(struct fixture *f, struct alloc *alloc, struct claim *held, struct ticket *ticket)
{
	struct backup backup = {0};
	struct volume_entry *former;

	connect_csi(f);
	take_backup(f, &backup);
	connect_csi(f);
	former = state_volume(&f->server->state, "default", "db");
	if (former && former->volume.type == VOLUME_NATIVE)
		assert_ok(deregister_volume(f, NULL));
	register_csi(f, "db");
	take_claim(f, &f->n1, "db", ALLOC_1);
	*alloc = alloc_of(f, ALLOC_1);
	*held = claim_of(f, ALLOC_1);
	*ticket = ticket_of(f, held);
	restore(f, &backup, 1);
	run_csi(f);
}

static enum status register_other(struct fixture *f, const char *external_id, struct error *err)
{
	cleanup(caller_release) struct caller_client caller;
	char request[512];

	caller_init(&caller, f, "holdfast://c1/operator/ann", NULL);
	(void)str_format(request, sizeof(request),
			 "{\"volume\":{\"id\":\"other\",\"namespace\":\"blue\",\"type\":\"CSI\","
			 "\"pluginId\":\"" CSI_PLUGIN "\",\"externalId\":\"%s\","
			 "\"requestedCapabilities\":[" MODE "]}}",
			 external_id);
	return caller_call(&caller, "Volumes.Register", request, NULL, err);
}

CLUSTER_TEST(the_mount_of_a_forgotten_volume_holds_its_storage_under_each_name)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;
	struct error err;

	forget_csi(f, &alloc, &held, &ticket);
	assert_null(state_volume(&f->server->state, "default", "db"));
	report_forgotten(f, &alloc, &held, &ticket);
	assert_string_equal(state_volume(&f->server->state, "default", "db")->volume.external_id, "vol-db");
	assert_error(register_other(f, "vol-db", &err), STATUS_ALREADY_EXISTS, err,
		     "volume db in namespace default");
	register_csi(f, "db"); /* registered again, the claim is on it */
	assert_int_equal(storage_n_live(state_volume(&f->server->state, "default", "db")), 1);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
}

/* db, with another storage than that of register_csi(). */
static void store_old_db(struct fixture *f)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	const struct volume old =
		ROW(.namespace = "default", .id = "db", .type = VOLUME_CSI, .plugin_id = CSI_PLUGIN,
		    .external_id = "vol-old", .capabilities = {{SINGLE_NODE_WRITER, ATTACHMENT_FILE_SYSTEM}},
		    .n_capabilities = 1, .create_time_ms = 1, .modify_time_ms = 1);

	change_put_volume(&change, &old);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
}

/* n1 was attested, and n2 got db, with the storage that it has in the backup. */
static void grant_since(struct fixture *f)
{
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n2"));
	assert_ok(attest(f, "n1", NULL, "it is off", 0, false, NULL, NULL));
	take_claim(f, &f->n2, "db", ALLOC_2);
}

/* A share of the provider's vol-db, which register_csi() has as zone z1; or all of it, as its provider made
 * it. */
static void store_zone(struct fixture *f, const char *id, const char *zone, bool is_made)
{
	Holdfast__V1__VolumeDetail__ContextEntry context = HOLDFAST__V1__VOLUME_DETAIL__CONTEXT_ENTRY__INIT;
	Holdfast__V1__VolumeDetail__ContextEntry *contexts[] = {&context};
	const Holdfast__V1__VolumeDetail detail =
		V1(volume_detail, .context = contexts, .n_context = 1, .made_by_provider = is_made);
	cleanup(change_release) struct change change = CHANGE_INIT;
	char key[OBJECT_KEY_SIZE];
	struct volume volume;

	store_old_db(f);
	volume = state_volume(&f->server->state, "default", "db")->volume;
	(void)str_copy(volume.id, sizeof(volume.id), id);
	(void)str_copy(volume.external_id, sizeof(volume.external_id), "vol-db");
	context.key = TEXT("zone");
	context.value = TEXT(zone);
	(void)str_format(key, sizeof(key), PREFIX_VOLUME_DETAIL "default/%s", id);
	change_put_record(&change, key, &detail.base);
	change_put_volume(&change, &volume);
	assert_ok(change_commit(f->server, &change, NULL, NULL, NULL));
}

/* Changed in place after the backup, with the share that another volume had until then. */
static void forget_zone(struct fixture *f, struct alloc *alloc, struct claim *held, struct ticket *ticket)
{
	store_zone(f, "also", "z1", false);
	store_zone(f, "db", "z0", false);
	forget_csi(f, alloc, held, ticket);
	assert_int_equal(strlen(held->context_digest), CONTEXT_DIGEST_SIZE - 1);
}

CLUSTER_TEST(the_mount_of_another_context_holds_each_volume_of_its_id)
{
	const struct volume *db;
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	forget_zone(f, &alloc, &held, &ticket);
	report_forgotten(f, &alloc, &held, &ticket);
	db = &state_volume(&f->server->state, "default", "db")->volume;
	assert_true(volume_is_placeholder(db));
	assert_string_equal(db->external_id, "vol-db");
	assert_string_equal(claim_of(f, ALLOC_1).context_digest, held.context_digest);
	assert_int_equal(storage_n_live(state_volume(&f->server->state, "default", "also")), 1);
}

CLUSTER_TEST(a_report_moves_no_name_from_a_context_that_was_granted_since)
{
	const struct volume_entry *db;
	struct ticket ticket;
	struct alloc alloc;
	struct claim held, claim;

	forget_zone(f, &alloc, &held, &ticket);
	grant_since(f);
	connect_node(&f->n1, "n1");
	report_with(&f->n1, 1, &alloc, &held, &ticket, false);
	UNTIL(f, has_reported(f, "n1"));
	db = state_volume(&f->server->state, "default", "db");
	assert_false(volume_is_placeholder(&db->volume));
	claim = claim_of(f, ALLOC_1);
	assert_false(claim_is_on_storage(&claim, &db->volume));
	claim = claim_of(f, ALLOC_2);
	assert_true(claim_is_on_storage(&claim, &db->volume));
}

static enum status register_zone(struct fixture *f, const char *id, const char *external_id, const char *zone,
				 struct error *err)
{
	cleanup(caller_release) struct caller_client caller;
	char request[512];

	caller_init(&caller, f, "holdfast://c1/operator/ann", NULL);
	(void)str_format(request, sizeof(request),
			 "{\"volume\":{\"id\":\"%s\",\"type\":\"CSI\",\"pluginId\":\"" CSI_PLUGIN
			 "\",\"externalId\":\"%s\",\"context\":{\"zone\":\"%s\"},"
			 "\"requestedCapabilities\":[" MODE "]}}",
			 id, external_id, zone);
	return caller_call(&caller, "Volumes.Register", request, NULL, err);
}

static enum status ask_csi(struct fixture *f, const char *method, const char *id, const char *external_id,
			   struct error *err)
{
	cleanup(caller_release) struct caller_client caller;
	char request[512];

	caller_init(&caller, f, "holdfast://c1/operator/ann", NULL);
	(void)str_format(request, sizeof(request),
			 "{\"volume\":{\"id\":\"%s\",\"type\":\"CSI\",\"pluginId\":\"" CSI_PLUGIN
			 "\",\"externalId\":\"%s\",\"requestedCapabilities\":[" MODE "]}}",
			 id, external_id);
	return caller_call(&caller, method, request, NULL, err);
}

CLUSTER_TEST(a_forgotten_volume_is_registered_with_the_context_of_its_mount)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;
	struct error err;

	forget_csi(f, &alloc, &held, &ticket);
	report_forgotten(f, &alloc, &held, &ticket);
	assert_error(register_zone(f, "db", "vol-db", "z2", &err), STATUS_FAILED_PRECONDITION, err,
		     "context: volume db is held by allocation");
	assert_error(ask_csi(f, "Volumes.Register", "db", "vol-db", &err), STATUS_FAILED_PRECONDITION, err,
		     "with another context"); /* its further claims would get no ticket */
	assert_error(register_zone(f, "more", "vol-db", "z1", &err), STATUS_ALREADY_EXISTS, err, "volume db");
	assert_succeeds(register_zone(f, "more", "vol-db", "z2", &err), err); /* another share, surely */
	assert_ok(register_zone(f, "db", "vol-db", "z1", &err));
	held = claim_of(f, ALLOC_1);
	assert_true(claim_is_on_storage(&held, &state_volume(&f->server->state, "default", "db")->volume));
	assert_string_equal(held.external_id, "vol-db");
}

CLUSTER_TEST(a_hidden_id_without_context_keeps_its_shares_from_other_names)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;
	struct error err;

	forget_csi(f, &alloc, &held, &ticket);
	held.context_digest[0] = '\0';
	ticket = ticket_of(f, &held);
	(void)str_copy(held.external_id, sizeof(held.external_id), "junk");
	report_forgotten(f, &alloc, &held, &ticket);
	assert_error(register_zone(f, "more", "vol-db", "z1", &err), STATUS_FAILED_PRECONDITION, err,
		     "may be this storage");
	assert_ok(register_zone(f, "more", "vol-more", "z1", &err));
}

CLUSTER_TEST(a_ticket_names_the_context_too)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	forget_csi(f, &alloc, &held, &ticket);
	held.context_digest[0] = '\0';
	report_forgotten(f, &alloc, &held, &ticket);
	assert_string_equal(state_volume(&f->server->state, "default", "db")->volume.external_id, "");
	held = claim_of(f, ALLOC_1);
	assert_true(held.storage_digest);
	register_csi(f, "db"); /* as the ticket names it */
	assert_true(claim_is_on_storage(&held, &state_volume(&f->server->state, "default", "db")->volume));
}

static void store_secret_of_db(struct fixture *f)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	Holdfast__V1__VolumeSecrets__SecretsEntry secret = HOLDFAST__V1__VOLUME_SECRETS__SECRETS_ENTRY__INIT;
	Holdfast__V1__VolumeSecrets__SecretsEntry *entries[] = {&secret};
	const Holdfast__V1__VolumeSecrets secrets = V1(volume_secrets, .secrets = entries, .n_secrets = 1);

	secret.key = TEXT("key");
	secret.value = TEXT("hunter2");
	change_put_record(&change, PREFIX_VOLUME_SECRETS "default/db", &secrets.base);
	assert_ok(change_commit(f->server, &change, NULL, NULL, NULL));
}

/* The backup has db with another storage, in that phase. */
static void forget_that_db_is_new_in(struct fixture *f, Holdfast__V1__VolumePhase phase, struct alloc *alloc,
				     struct claim *held, struct ticket *ticket)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	const Holdfast__V1__VolumeDetail detail = V1(volume_detail, .phase = phase);

	store_old_db(f);
	store_secret_of_db(f);
	change_put_record(&change, PREFIX_VOLUME_DETAIL "default/db", &detail.base);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	forget_csi(f, alloc, held, ticket);
	assert_string_equal(state_volume(&f->server->state, "default", "db")->volume.external_id, "vol-old");
}

/* It was about to be deleted. */
static void forget_that_db_is_new(struct fixture *f, struct alloc *alloc, struct claim *held,
				  struct ticket *ticket)
{
	forget_that_db_is_new_in(f, HOLDFAST__V1__VOLUME_PHASE__VOLUME_DELETING, alloc, held, ticket);
}

CLUSTER_TEST(the_mount_of_a_volume_that_was_registered_again_holds_the_new_storage)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;
	struct error err;

	forget_that_db_is_new(f, &alloc, &held, &ticket);
	report_forgotten(f, &alloc, &held, &ticket);
	assert_string_equal(state_volume(&f->server->state, "default", "db")->volume.external_id, "vol-db");
	assert_null(records_get(&f->server->state.records, PREFIX_VOLUME_DETAIL "default/db"));
	assert_null(records_get(&f->server->state.records, PREFIX_VOLUME_SECRETS "default/db"));
	assert_error(register_other(f, "vol-db", &err), STATUS_ALREADY_EXISTS, err,
		     "volume db in namespace default");
	assert_int_not_equal(run_alloc(f, ALLOC_2, "n2", &err), STATUS_OK);
	fake_node_send_released(&f->n1, &held);
	UNTIL(f, is_freed(f, held.id));
	assert_false(model_plugin_is_attached(&f->plugin, "vol-db", "i-n1"));
}

/* The backup has db as a disk. */
CLUSTER_TEST(a_mount_of_another_plugin_replaces_the_registration)
{
	const struct volume_entry *volume;
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;
	int64_t create_time_ms;

	assert_ok(register_volume(f, &f->operator, NULL));
	create_time_ms = state_volume(&f->server->state, "default", "db")->volume.create_time_ms;
	forget_csi(f, &alloc, &held, &ticket);
	report_forgotten(f, &alloc, &held, &ticket);
	volume = state_volume(&f->server->state, "default", "db");
	assert_int_equal(volume->volume.type, VOLUME_CSI);
	assert_string_equal(volume->plugin->id, CSI_PLUGIN);
	assert_string_equal(volume->volume.external_id, "vol-db");
	assert_int_equal(volume->volume.create_time_ms, create_time_ms); /* its history stays its own */
	register_csi(f, "db");
	assert_int_equal(deregister_volume(f, NULL), STATUS_FAILED_PRECONDITION);
}

CLUSTER_TEST(an_adopted_claim_that_is_freed_is_history_of_its_volume)
{
	cleanup(freed_list_release) struct freed_list shown = {NULL, 0};
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	forget_csi(f, &alloc, &held, &ticket);
	report_forgotten(f, &alloc, &held, &ticket);
	fake_node_send_released(&f->n1, &held);
	UNTIL(f, stored_history_of_db(f) == 1);
	settle(f);
	shown = history_of_db(f);
	assert_int_equal(shown.n, 1);
}

/* n1 does not connect between the two restores. */
CLUSTER_TEST(a_mount_names_its_storage_also_after_a_second_restore)
{
	struct backup backup = {0};
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	forget_that_db_is_new(f, &alloc, &held, &ticket);
	take_backup(f, &backup);
	restore(f, &backup, 2);
	report_forgotten(f, &alloc, &held, &ticket);
	assert_string_equal(state_volume(&f->server->state, "default", "db")->volume.external_id, "vol-db");
}

/* n1 has released it, and its device may still be attached. */
CLUSTER_TEST(the_device_of_a_volume_that_was_registered_again_is_detached)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	forget_that_db_is_new(f, &alloc, &held, &ticket);
	assert_true(model_plugin_is_attached(&f->plugin, "vol-db", "i-n1"));
	held.state = CLAIM_NODE_DETACHED;
	report_forgotten(f, &alloc, &held, &ticket);
	UNTIL(f, is_freed(f, held.id));
	assert_false(model_plugin_is_attached(&f->plugin, "vol-db", "i-n1"));
}

/* The backup has a claim on the storage that db had before. */
static void forget_second_db(struct fixture *f, struct alloc *alloc, struct claim *held,
			     struct ticket *ticket)
{
	struct backup backup = {0};

	store_old_db(f);
	connect_csi(f);
	take_claim(f, &f->n1, "db", ALLOC_1);
	take_backup(f, &backup);
	connect_csi(f);
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	register_csi(f, "db");
	take_claim(f, &f->n1, "db", ALLOC_2);
	*alloc = alloc_of(f, ALLOC_2);
	*held = claim_of(f, ALLOC_2);
	*ticket = ticket_of(f, held);
	restore(f, &backup, 1);
	run_csi(f);
}

CLUSTER_TEST(a_claim_on_the_storage_that_a_volume_had_before_is_detached_by_itself)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;
	struct error err;
	unsigned int n;

	forget_second_db(f, &alloc, &held, &ticket);
	n = f->plugin.calls[DETACH];
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, NULL, NULL, false);
	connect_node(&f->n1, "n1");
	report_with(&f->n1, 1, &alloc, &held, &ticket, true);
	UNTIL(f, state_claim(&f->server->state, held.id) != NULL);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	assert_error(register_other(f, "vol-old", &err), STATUS_FAILED_PRECONDITION, err,
		     "may be this storage");
	register_csi(f, "db");
	assert_error(register_other(f, "vol-old", &err), STATUS_FAILED_PRECONDITION, err,
		     "may be this storage");
	report(f, &f->n1, 1, NULL, NULL, false);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(f->plugin.calls[DETACH], n + 1);
	assert_true(model_plugin_is_attached(&f->plugin, "vol-db", "i-n1"));
	assert_int_equal(state_of(f, ALLOC_2), CLAIM_TAKEN);
}

/* A second name of the storage that db has in the backup. */
static void store_second_name(struct fixture *f)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct volume second = state_volume(&f->server->state, "default", "db")->volume;

	(void)str_copy(second.id, sizeof(second.id), "second");
	change_put_volume(&change, &second);
	assert_ok(change_commit(f->server, &change, NULL, NULL, NULL));
}

CLUSTER_TEST(a_claim_on_a_storage_of_two_names_counts_for_both_after_a_younger_ticket)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	forget_second_db(f, &alloc, &held, &ticket);
	store_second_name(f);
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, NULL, NULL, false);
	connect_node(&f->n1, "n1");
	report_with(&f->n1, 1, &alloc, &held, &ticket, true);
	UNTIL(f, state_claim(&f->server->state, held.id) != NULL);
	assert_string_equal(state_volume(&f->server->state, "default", "db")->volume.external_id, "vol-old");
	assert_true(storage_n_live(state_volume(&f->server->state, "default", "second")) > 0);
}

static void report_forgotten_after_a_grant(struct fixture *f, bool is_back_in_another_boot)
{
	const struct volume *volume;
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;
	struct error err;

	store_old_db(f);
	store_secret_of_db(f);
	forget_csi(f, &alloc, &held, &ticket);
	grant_since(f);
	held.state = is_back_in_another_boot ? CLAIM_NODE_DETACHED : held.state;
	fake_node_connect(&f->n1, "n1", is_back_in_another_boot ? BOOT_2 : BOOT_1, NULL, 0);
	report_with(&f->n1, 1, is_back_in_another_boot ? NULL : &alloc, &held, &ticket, false);
	UNTIL(f, has_reported(f, "n1"));
	volume = &state_volume(&f->server->state, "default", "db")->volume;
	assert_string_equal(volume->external_id, "vol-old");
	assert_false(volume_is_placeholder(volume));
	assert_non_null(records_get(&f->server->state.records, PREFIX_VOLUME_SECRETS "default/db"));
	assert_error(register_other(f, "vol-old", &err), STATUS_ALREADY_EXISTS, err,
		     "volume db in namespace default");
	assert_int_equal(state_of(f, ALLOC_2), CLAIM_TAKEN);
	if (is_back_in_another_boot)
		UNTIL(f, !model_plugin_is_attached(&f->plugin, "vol-db", "i-n1"));
	else
		assert_string_equal(claim_of(f, ALLOC_1).external_id, "vol-db");
}

CLUSTER_TEST(a_report_moves_no_name_from_a_claim_that_was_granted_since)
{
	report_forgotten_after_a_grant(f, false);
}

CLUSTER_TEST(a_report_of_a_past_claim_moves_no_name_from_a_claim_that_was_granted_since)
{
	report_forgotten_after_a_grant(f, true);
}

/* It may be of a storage that the volume had before. */
CLUSTER_TEST(an_old_ticket_changes_no_registration)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct volume old;
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	forget_that_db_is_new(f, &alloc, &held, &ticket);
	old = state_volume(&f->server->state, "default", "db")->volume;
	old.newer_from = held.generation + 1;
	change_put_volume(&change, &old);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	report_forgotten(f, &alloc, &held, &ticket);
	assert_string_equal(state_volume(&f->server->state, "default", "db")->volume.external_id, "vol-old");
	assert_false(volume_is_placeholder(&state_volume(&f->server->state, "default", "db")->volume));
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
}

/* n1 may have what the provider made by this name, also by another one. */
CLUSTER_TEST(a_creation_waits_for_the_reports_of_all_nodes)
{
	uint64_t since_us;
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	forget_that_db_is_new_in(f, HOLDFAST__V1__VOLUME_PHASE__VOLUME_CREATING, &alloc, &held, &ticket);
	f->n2.csi.can_create_delete = true;
	model_plugin_order(&f->plugin, HOLDFAST__V1__PLUGIN_CALL__REQUEST_CREATE, MODEL_HOLD, 1, 0);
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n2"));
	unit_clock_advance(600 * USEC_PER_SEC);
	settle(f);
	assert_int_equal(f->n2.n_held, 0);
	assert_int_equal(attest(f, "n1", NULL, "it is off", 0, false, NULL, NULL), STATUS_OK);
	unit_clock_advance(600 * USEC_PER_SEC);
	settle(f);
	assert_int_equal(f->n2.n_held, 0);
	assert_int_equal(purge(f, "n1", NULL), STATUS_OK);
	since_us = clock_monotonic_us();
	UNTIL(f, f->n2.n_held == 1);
	assert_in_range(clock_monotonic_us() - since_us, 0, USEC_PER_SEC); /* not at its next try */
	fake_node_answer(&f->n2);
	settle(f);
}

/* Its answer would be stored with the placeholder. */
CLUSTER_TEST(a_report_replaces_no_volume_that_its_provider_works_on)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	forget_that_db_is_new(f, &alloc, &held, &ticket);
	state_volume(&f->server->state, "default", "db")->is_asked = true;
	connect_node(&f->n1, "n1");
	report_with(&f->n1, 1, &alloc, &held, &ticket, false);
	UNTIL(f, f->n1.closed);
	assert_int_equal(f->n1.closed_status, STATUS_UNAVAILABLE);
	assert_false(has_reported(f, "n1"));
	state_volume(&f->server->state, "default", "db")->is_asked = false;
	connect_node(&f->n1, "n1");
	report_with(&f->n1, 1, &alloc, &held, &ticket, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_string_equal(state_volume(&f->server->state, "default", "db")->volume.external_id, "vol-db");
}

/* n1 has reported that it holds nothing. */
CLUSTER_TEST(a_ticket_that_is_shown_later_changes_no_registration)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	forget_that_db_is_new(f, &alloc, &held, &ticket);
	connect_node(&f->n1, "n1");
	report(f, &f->n1, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n1"));
	provoke_report(f, &f->n1);
	report_with(&f->n1, 1, NULL, &held, &ticket, false);
	UNTIL(f, state_claim(&f->server->state, held.id) != NULL);
	assert_string_equal(state_volume(&f->server->state, "default", "db")->volume.external_id, "vol-old");
	assert_string_equal(state_claim(&f->server->state, held.id)->claim.external_id, "vol-db");
}

/* A native volume is released without a detach, and its name cannot be a csi volume's. */
CLUSTER_TEST(the_ticket_of_a_csi_volume_proves_no_native_claim)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	forget_csi(f, &alloc, &held, &ticket);
	(void)str_copy(held.plugin_id, sizeof(held.plugin_id), PLUGIN_NATIVE);
	report_forgotten(f, &alloc, &held, &ticket);
	assert_int_equal(state_volume(&f->server->state, "default", "db")->volume.type, VOLUME_CSI);
	assert_string_equal(state_volume(&f->server->state, "default", "db")->volume.external_id, "vol-db");
	fake_node_send_released(&f->n1, &held);
	UNTIL(f, is_freed(f, held.id));
	assert_false(model_plugin_is_attached(&f->plugin, "vol-db", "i-n1"));
}

/* Its plugin has not connected since the restore, and n1 names another id. */
CLUSTER_TEST(the_ticket_of_a_csi_volume_proves_no_native_claim_of_an_unknown_plugin)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;
	struct error err;

	forget_csi(f, &alloc, &held, &ticket);
	f->n1.csi = f->n2.csi = (struct fake_csi){0};
	(void)str_copy(held.plugin_id, sizeof(held.plugin_id), PLUGIN_NATIVE);
	(void)str_copy(held.external_id, sizeof(held.external_id), "junk");
	report_forgotten(f, &alloc, &held, &ticket);
	assert_string_equal(state_volume(&f->server->state, "default", "db")->volume.plugin_id, CSI_PLUGIN);
	assert_string_equal(state_volume(&f->server->state, "default", "db")->volume.external_id, "");
	run_csi(f);
	fake_node_send_fingerprint(&f->n1);
	fake_node_send_fingerprint(&f->n2);
	settle(f);
	assert_error(register_other(f, "vol-db", &err), STATUS_FAILED_PRECONDITION, err,
		     "may be this storage");
	/* without a context it may be as well */
	assert_error(register_other(f, "vol-more", &err), STATUS_FAILED_PRECONDITION, err,
		     "may be this storage");
	assert_error(register_zone(f, "more", "vol-db", "z1", &err), STATUS_FAILED_PRECONDITION, err,
		     "may be this storage");
	assert_ok(register_zone(f, "more", "vol-more", "z1", &err));
	fake_node_send_released(&f->n1, &held);
	settle(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_NODE_DETACHED);
	register_csi(f, "db");
	UNTIL(f, is_freed(f, held.id));
	assert_false(model_plugin_is_attached(&f->plugin, "vol-db", "i-n1"));
}

/* n1 names another id than its ticket, and the backup has db with another one, too. */
CLUSTER_TEST(a_device_whose_id_its_node_hides_is_not_taken_as_detached)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;
	struct error err;
	unsigned int n;

	forget_that_db_is_new(f, &alloc, &held, &ticket);
	n = f->plugin.calls[DETACH];
	(void)str_copy(held.external_id, sizeof(held.external_id), "junk");
	report_forgotten(f, &alloc, &held, &ticket);
	assert_string_equal(state_volume(&f->server->state, "default", "db")->volume.external_id, "vol-old");
	assert_error(register_other(f, "vol-db", &err), STATUS_FAILED_PRECONDITION, err,
		     "may be this storage");
	fake_node_send_released(&f->n1, &held);
	settle(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_NODE_DETACHED);
	assert_int_equal(f->plugin.calls[DETACH], n);
}

/* db is registered with another plugin, and n1 has an older ticket. */
CLUSTER_TEST(a_plugin_gets_no_secrets_of_another_plugins_volume)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct volume db = ROW(.namespace = "default", .id = "db", .type = VOLUME_CSI, .plugin_id = "xyz",
			       .external_id = "vol-xyz", .newer_from = 100,
			       .capabilities = {{SINGLE_NODE_WRITER, ATTACHMENT_FILE_SYSTEM}},
			       .n_capabilities = 1, .create_time_ms = 1, .modify_time_ms = 1);
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	forget_csi(f, &alloc, &held, &ticket);
	change_put_volume(&change, &db);
	assert_ok(change_commit(f->server, &change, NULL, NULL, NULL));
	store_secret_of_db(f);
	report_forgotten(f, &alloc, &held, &ticket);
	assert_string_equal(f->plugin.last_secret, "hunter2"); /* of the attach, before the restore */
	fake_node_send_released(&f->n1, &held);
	UNTIL(f, is_freed(f, held.id));
	assert_string_equal(f->plugin.last_secret, "");
	assert_false(model_plugin_is_attached(&f->plugin, "vol-db", "i-n1"));
}

/* --- two tickets of one volume --- */

/* Makes a claim of n2 on db, from that of n1. */
static void make_rival(const struct claim *held, uint64_t generation, struct claim *ret)
{
	*ret = *held;
	ret->generation = generation;
	(void)str_copy(ret->id, sizeof(ret->id), INVENTED);
	(void)str_copy(ret->allocation_id, sizeof(ret->allocation_id), ALLOC_2);
	(void)str_copy(ret->node_id, sizeof(ret->node_id), "n2");
}

static void report_both(struct fixture *f, bool n1_first, const struct claim *held,
			const struct ticket *ticket, const struct claim *rival, const struct ticket *rivals)
{
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	if (n1_first)
		report_with(&f->n1, 1, NULL, held, ticket, false);
	UNTIL(f, has_reported(f, "n1") == n1_first);
	report_with(&f->n2, 1, NULL, rival, rivals, false);
	UNTIL(f, has_reported(f, "n2"));
	if (!n1_first)
		report_with(&f->n1, 1, NULL, held, ticket, false);
	UNTIL(f, has_reported(f, "n1"));
}

static void prove_disks(struct fixture *f, bool n1_first)
{
	struct volume volume = {.type = VOLUME_NATIVE,
				.id = "db",
				.namespace = "default",
				.generation = 1,
				.source = {.class = SOURCE_BLOCK, .by_id = "wwn-0x9"}};
	struct ticket ticket, rivals;
	struct claim held, rival;
	struct alloc alloc;
	struct error err;

	forget_what_n1_has(f, &alloc, &held);
	make_rival(&held, 1, &rival);
	memcpy(volume.profile, held.profile, sizeof(volume.profile));
	assert_ok(ticket_issue(f->server->issuer, &rival, &volume, 1, &rivals, NULL));
	held.generation = 5;
	ticket = ticket_of(f, &held);
	report_both(f, n1_first, &held, &ticket, &rival, &rivals);
	assert_error(register_disk(f, &f->operator, "other", "wwn-0x1", &err), STATUS_FAILED_PRECONDITION,
		     err, "may be this storage");
	assert_error(register_disk(f, &f->operator, "other", "wwn-0x9", &err), STATUS_FAILED_PRECONDITION,
		     err, "may be this storage");
	assert_error(register_disk(f, &f->operator, "db", "wwn-0x9", &err), STATUS_FAILED_PRECONDITION, err,
		     "source: volume db is registered with another one");
	assert_ok(register_volume(f, &f->operator, & err)); /* on wwn-0x1 */
	assert_error(register_disk(f, &f->operator, "other", "wwn-0x9", &err), STATUS_FAILED_PRECONDITION,
		     err, "with a claim from a node's report");
	assert_ok(register_disk(f, &f->operator, "other", "wwn-0x2", &err));
}

CLUSTER_TEST(the_youngest_ticket_names_the_storage_if_it_comes_first)
{
	prove_disks(f, true);
}

CLUSTER_TEST(the_youngest_ticket_names_the_storage_if_it_comes_last)
{
	prove_disks(f, false);
}

/* n2 has a younger ticket for another storage. */
CLUSTER_TEST(a_claim_is_detached_from_the_storage_of_its_own_ticket)
{
	struct ticket ticket, rivals;
	struct claim held, rival;
	struct alloc alloc;

	forget_csi(f, &alloc, &held, &ticket);
	make_rival(&held, 5, &rival);
	(void)str_copy(rival.external_id, sizeof(rival.external_id), "vol-new");
	rivals = ticket_of(f, &rival);
	report_both(f, false, &held, &ticket, &rival, &rivals);
	assert_string_equal(state_volume(&f->server->state, "default", "db")->volume.external_id, "vol-new");
	assert_true(model_plugin_is_attached(&f->plugin, "vol-db", "i-n1"));
	fake_node_send_released(&f->n1, &held);
	UNTIL(f, is_freed(f, held.id));
	assert_false(model_plugin_is_attached(&f->plugin, "vol-db", "i-n1"));
}

static void on_created(enum status status, const ProtobufCMessage *response, const struct error *err,
		       void *userdata)
{
	enum status *ret = userdata;

	*ret = status;
}

/* Somebody makes the volume again that the restored store lacks, and its provider refuses that. */
CLUSTER_TEST(a_claim_that_a_node_reports_outlives_a_creation_that_its_provider_refuses)
{
	Holdfast__V1__Capability capability =
		V1(capability, .access_mode = HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_WRITER,
		   .attachment_mode = HOLDFAST__V1__ATTACHMENT_MODE__FILE_SYSTEM);
	Holdfast__V1__Capability *capabilities[] = {&capability};
	Holdfast__V1__Volume spec =
		V1(volume, .id = "db", .type = HOLDFAST__V1__VOLUME_TYPE__CSI, .plugin_id = TEXT(CSI_PLUGIN),
		   .requested_capabilities = capabilities, .n_requested_capabilities = 1);
	Holdfast__V1__CreateVolumeRequest request = V1(create_volume_request, .volume = &spec);
	enum status status = STATUS_N;
	const struct volume_entry *db;
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	forget_csi(f, &alloc, &held, &ticket);
	f->n2.csi.can_create_delete = true;
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n2"));
	assert_int_equal(purge(f, "n1", NULL), STATUS_OK);
	model_plugin_order(&f->plugin, HOLDFAST__V1__PLUGIN_CALL__REQUEST_CREATE, MODEL_HOLD, 1, 0);
	assert_ok(rpc_client_call(f->operator.client, &holdfast__v1__volumes__descriptor, "Create",
				  &request.base, 60 * USEC_PER_SEC, on_created, &status, NULL, NULL));
	UNTIL(f, f->n2.n_held == 1);
	model_plugin_order(&f->plugin, HOLDFAST__V1__PLUGIN_CALL__REQUEST_CREATE, MODEL_FAIL, 9,
			   STATUS_ALREADY_EXISTS);
	connect_node(&f->n1, "n1");
	report_with(&f->n1, 1, &alloc, &held, &ticket, false);
	UNTIL(f, has_reported(f, "n1"));
	f->n2.held[0]->code = STATUS_ALREADY_EXISTS;
	fake_node_answer(&f->n2);
	UNTIL(f, status != STATUS_N);
	assert_int_equal(status, STATUS_ALREADY_EXISTS);
	settle(f);
	db = state_volume(&f->server->state, "default", "db");
	assert_int_equal(db->n_live, 1);
	assert_contains(volume_detail_of(f->server, &db->volume)->phase_error, "CreateVolume");
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", NULL), STATUS_FAILED_PRECONDITION);
	fake_node_send_released(&f->n1, &held);
	UNTIL(f, is_freed(f, held.id));
	UNTIL(f, !state_volume(&f->server->state, "default", "db")); /* now it is forgotten */
}

/* Tickets prove nothing: the node's word keeps others from registering the same, and names nothing. */
CLUSTER_TEST(a_believed_mount_delays_a_registration_of_its_storage)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;
	struct error err;

	forget_csi(f, &alloc, &held, &ticket);
	restart_with(f, make_another_key);
	report_forgotten(f, &alloc, &held, &ticket);
	assert_string_equal(state_volume(&f->server->state, "default", "db")->volume.external_id, "");
	assert_error(register_other(f, "vol-db", &err), STATUS_FAILED_PRECONDITION, err,
		     "may be this storage");
}

CLUSTER_TEST(a_believed_mount_holds_its_storage_under_each_name)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	store_zone(f, "also", "z1", false);
	deregister(f, "db");
	forget_csi(f, &alloc, &held, &ticket);
	restart_with(f, make_another_key);
	report_forgotten(f, &alloc, &held, &ticket);
	assert_int_equal(storage_n_live(state_volume(&f->server->state, "default", "also")), 1);
}

/* --- the attachment of a volume --- */

/* n1 reports that it holds db also by a second claim of its allocation, with a plugin and an id of its
 * choice.
 */
static void report_claim_as(struct fixture *f, const char *id, const char *plugin_id,
			    const char *external_node_id, struct claim *ret)
{
	provoke_report(f, &f->n1);
	*ret = claim_of(f, ALLOC_1);
	(void)str_copy(ret->id, sizeof(ret->id), id);
	(void)str_copy(ret->plugin_id, sizeof(ret->plugin_id), plugin_id);
	(void)str_copy(ret->external_node_id, sizeof(ret->external_node_id), external_node_id);
	ret->state = CLAIM_TAKEN;
	report_with(&f->n1, f->n1.report_epoch, NULL, ret, NULL, false);
	UNTIL(f, state_claim(&f->server->state, id) != NULL);
	settle(f);
}

static void report_second_claim(struct fixture *f, const char *plugin_id, const char *external_node_id,
				struct claim *ret)
{
	report_claim_as(f, INVENTED, plugin_id, external_node_id, ret);
}

static enum status fence(struct fixture *f, const char *node, struct error *err)
{
	const Holdfast__V1__DetachVolumeRequest request = V1(
		detach_volume_request, .id = TEXT("db"), .node_id = TEXT(node), .fence_reason = TEXT("away"));

	return call(&f->operator, & holdfast__v1__volumes__descriptor, "Detach", &request.base, NULL, err);
}

TEST_ON(a_reported_claim_names_no_other_node_at_the_provider, struct fixture, f, setup_shared_db, teardown_db)
{
	struct error err;
	struct claim lie;

	take_claim(f, &f->n1, "db", ALLOC_1);
	take_claim(f, &f->n2, "db", ALLOC_2);
	report_second_claim(f, PLUGIN_NATIVE, "i-n2", &lie);
	release_claim(f, &f->n2, ALLOC_2);
	UNTIL(f, state_of(f, ALLOC_2) == CLAIM_FREED);
	assert_false(model_plugin_is_attached(&f->plugin, "vol-db", "i-n2"));
	take_claim(f, &f->n2, "db", ALLOC_3);
	assert_ok(stop_alloc(f, ALLOC_3, &err));
	lose(f, &f->n2);
	f->n1.csi.has_controller = true;
	fake_node_send_fingerprint(&f->n1);
	settle(f);
	assert_ok(fence(f, "n2", &err));
	assert_int_equal(state_of(f, ALLOC_3), CLAIM_FREED);
}

static int setup_read_only_db(void **state)
{
	struct fixture *f;

	(void)setup(state);
	f = *state;
	f->access_mode = HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_READER_ONLY;
	f->read_only = true;
	register_csi(f, "db");
	connect_csi(f);
	return 0;
}

/* The allocation runs, and its claim was released. */
TEST_ON(a_node_chooses_no_rights_of_a_claim_of_its_own_allocation, struct fixture, f, setup_read_only_db,
	teardown)
{
	cleanup_pb Holdfast__V1__ClaimVolumeResponse *response = NULL;
	const struct claim *adopted;
	struct claim lie;
	struct ticket ticket;

	take_claim(f, &f->n1, "db", ALLOC_1);
	lie = claim_of(f, ALLOC_1);
	fake_node_send_released(&f->n1, &lie);
	UNTIL(f, !state_claim(&f->server->state, lie.id));
	provoke_report(f, &f->n1);
	(void)str_copy(lie.id, sizeof(lie.id), INVENTED);
	lie.state = CLAIM_TAKEN;
	lie.access_mode = MULTI_NODE_MULTI_WRITER;
	lie.attachment_mode = ATTACHMENT_BLOCK_DEVICE;
	lie.propagation = PROPAGATION_BIDIRECTIONAL;
	report_with(&f->n1, f->n1.report_epoch, NULL, &lie, NULL, false);
	UNTIL(f, state_claim(&f->server->state, INVENTED) != NULL);
	settle(f);
	adopted = &state_claim(&f->server->state, INVENTED)->claim;
	assert_int_equal(adopted->access_mode, MULTI_NODE_READER_ONLY);
	assert_int_equal(adopted->attachment_mode, ATTACHMENT_FILE_SYSTEM);
	assert_ok(fake_node_claim(&f->n1, "db", ALLOC_1, &response, NULL));
	memcpy(&ticket, response->ticket.data, sizeof(ticket));
	assert_int_equal(ticket.propagation, TICKET_PROPAGATION_PRIVATE);
	assert_int_equal(f->plugin.n_attachments, 1);
	assert_true(f->plugin.attachments[0].is_read_only);
}

/* The grant was forgotten: only the node knows the allocation and its modes. */
TEST_ON(a_node_chooses_no_mode_in_which_its_forgotten_claim_is_attached, struct fixture, f,
	setup_read_only_db, teardown)
{
	cleanup_pb Holdfast__V1__ClaimVolumeResponse *response = NULL;
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct volume volume = state_volume(&f->server->state, "default", "db")->volume;
	struct backup backup = {0};
	struct ticket ticket;
	struct claim held;
	struct alloc alloc;
	struct error err;

	volume.capabilities[volume.n_capabilities] = volume.capabilities[0];
	volume.capabilities[volume.n_capabilities++].access_mode = MULTI_NODE_MULTI_WRITER;
	change_put_volume(&change, &volume);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	run_idle(f->event);
	take_backup(f, &backup);
	connect_csi(f);
	take_claim(f, &f->n1, "db", ALLOC_1);
	held = claim_of(f, ALLOC_1);
	ticket = ticket_of(f, &held);
	alloc = alloc_of(f, ALLOC_1);
	restore(f, &backup, 1);
	connect_csi(f);
	settle(f);
	((struct volume_request *)alloc.volumes)[0].access_mode = MULTI_NODE_MULTI_WRITER;
	alloc.client_status = CLIENT_RUNNING;
	held.access_mode = MULTI_NODE_MULTI_WRITER;
	report(f, &f->n2, 1, NULL, NULL, false);
	report_with(&f->n1, 1, &alloc, &held, &ticket, false);
	UNTIL(f, has_reported(f, "n1") && has_reported(f, "n2"));
	assert_true(claim_of(f, ALLOC_1).adopted);
	assert_error(fake_node_claim(&f->n1, "db", ALLOC_1, &response, &err), STATUS_FAILED_PRECONDITION, err,
		     "holdfast alloc stop " ALLOC_1);
	assert_int_equal(f->plugin.n_attachments, 1);
	assert_true(f->plugin.attachments[0].is_read_only);
	assert_string_equal(f->plugin.violation, "");
}

static void n1_calls_itself(struct fixture *f, const char *id)
{
	f->n1.csi.node_id = id;
	fake_node_send_fingerprint(&f->n1);
	settle(f);
}

/* n1 releases its claim while the invented one is held, then moves that one, and releases it. */
TEST_ON(a_node_moves_no_claim_to_another_attachment, struct fixture, f, setup_db, teardown_db)
{
	struct claim real, lie;

	take_claim(f, &f->n1, "db", ALLOC_1);
	real = claim_of(f, ALLOC_1);
	report_second_claim(f, CSI_PLUGIN, "", &lie);
	fake_node_send_released(&f->n1, &real);
	UNTIL(f, is_freed(f, real.id)); /* the other claim has the attachment ended */
	n1_calls_itself(f, "i-nowhere");
	assert_true(model_plugin_is_attached(&f->plugin, "vol-db", "i-n1"));
	fake_node_send_released(&f->n1, &lie);
	UNTIL(f, is_freed(f, INVENTED));
	assert_int_equal(f->plugin.n_attachments, 0);
	n1_calls_itself(f, NULL);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	take_claim(f, &f->n2, "db", ALLOC_2);
}

/* n1 did not report the plugin when the second claim was adopted. */
TEST_ON(a_claim_of_an_unknown_provider_id_keeps_no_device_attached, struct fixture, f, setup_db, teardown_db)
{
	struct claim real, lie;

	take_claim(f, &f->n1, "db", ALLOC_1);
	real = claim_of(f, ALLOC_1);
	f->n1.csi.has_node = false;
	report_second_claim(f, CSI_PLUGIN, "", &lie);
	assert_string_equal(state_claim(&f->server->state, INVENTED)->claim.external_node_id, "");
	f->n1.csi.has_node = true;
	n1_calls_itself(f, NULL);
	fake_node_send_released(&f->n1, &real);
	settle(f);
	assert_int_equal(state_claim(&f->server->state, real.id)->claim.state, CLAIM_NODE_DETACHED);
	n1_calls_itself(f, "i-nowhere");
	UNTIL(f, is_freed(f, real.id));
	assert_int_equal(f->plugin.n_attachments, 0);
}

/* The detach of the first claim is sent for another id than its node reports when the answer comes. */
TEST_ON(a_detach_of_one_id_frees_no_claim_of_another, struct fixture, f, setup_db, teardown_db)
{
	struct claim real, lie;

	take_claim(f, &f->n1, "db", ALLOC_1);
	real = claim_of(f, ALLOC_1);
	f->n1.csi.has_node = false;
	report_second_claim(f, CSI_PLUGIN, "", &lie);
	f->n1.csi.has_node = true;
	n1_calls_itself(f, "i-nowhere");
	model_plugin_order(&f->plugin, DETACH, MODEL_HOLD_DONE, 1, 0);
	fake_node_send_released(&f->n1, &lie);
	UNTIL(f, f->n2.n_held == 1);
	n1_calls_itself(f, NULL);
	fake_node_send_released(&f->n1, &real);
	settle(f);
	fake_node_answer(&f->n2);
	UNTIL(f, is_freed(f, real.id));
	assert_int_equal(f->plugin.n_attachments, 0);
}

/* n1 has a claim under a stored id and one without, which may be another attachment. */
TEST_ON(a_fence_of_a_stored_id_frees_no_claim_without_one, struct fixture, f, setup_db, teardown_db)
{
	struct error err;
	struct claim lie;

	take_claim(f, &f->n1, "db", ALLOC_1);
	f->n1.csi.has_node = false;
	report_second_claim(f, CSI_PLUGIN, "", &lie);
	f->n1.csi.has_node = true;
	n1_calls_itself(f, NULL);
	assert_ok(stop_alloc(f, ALLOC_1, &err));
	lose(f, &f->n1);
	assert_ok(fence(f, "n1", &err));
	assert_true(is_freed(f, INVENTED));
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_FREED);
	assert_int_equal(f->plugin.calls[DETACH], 2);
}

/* The detach is asked for the first claim, whose id is the lower one. */
TEST_ON(a_detach_of_a_stored_id_frees_no_claim_without_one, struct fixture, f, setup_db, teardown_db)
{
	static const char last[] = "ff89dead-0000-7000-8000-000000000001";
	struct claim real, lie;

	take_claim(f, &f->n1, "db", ALLOC_1);
	real = claim_of(f, ALLOC_1);
	f->n1.csi.has_node = false;
	report_claim_as(f, last, CSI_PLUGIN, "", &lie);
	f->n1.csi.has_node = true;
	n1_calls_itself(f, NULL);
	fake_node_send_released(&f->n1, &lie);
	fake_node_send_released(&f->n1, &real);
	UNTIL(f, is_freed(f, real.id) && is_freed(f, last));
	assert_int_equal(f->plugin.calls[DETACH], 2);
}

/* n1 may have reported an id that no machine has. */
CLUSTER_TEST(a_provider_that_does_not_know_a_reported_id_proves_no_detach)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	forget_csi(f, &alloc, &held, &ticket);
	report_forgotten(f, &alloc, &held, &ticket);
	model_plugin_order(&f->plugin, DETACH, MODEL_NOT_FOUND, 1, 0);
	fake_node_send_released(&f->n1, &held);
	UNTIL(f, claim_of(f, ALLOC_1).attempts == 1);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_NODE_DETACHED);
	assert_non_null(strstr(claim_of(f, ALLOC_1).last_error, "which proves nothing"));
	UNTIL(f, is_freed(f, held.id)); /* tried again */
	assert_int_equal(f->plugin.n_attachments, 0);
}

/* The store has the claim as freed, and the id under which it was attached. */
CLUSTER_TEST(a_provider_that_does_not_know_an_attached_id_proves_the_detach)
{
	struct backup backup = {0};
	unsigned int n;
	struct claim held;

	register_csi(f, "db");
	connect_csi(f);
	take_claim(f, &f->n1, "db", ALLOC_1);
	held = claim_of(f, ALLOC_1);
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	take_backup(f, &backup);
	restore(f, &backup, 1);
	run_csi(f);
	n = f->plugin.calls[DETACH];
	report_forgotten(f, NULL, &held, NULL);
	model_plugin_order(&f->plugin, DETACH, MODEL_NOT_FOUND, 1, 0);
	fake_node_send_released(&f->n1, &held);
	UNTIL(f, is_freed(f, held.id));
	assert_int_equal(f->plugin.calls[DETACH], n + 1);
}

/* --- the secrets of a volume --- */

#define NODE_EXPAND HOLDFAST__V1__PLUGIN_CALL__REQUEST_NODE_EXPAND

/* The file system of db, whose detail is @stored, is to be expanded by the next node that has it mounted. */
static void set_expansion_due(struct fixture *f, const Holdfast__V1__VolumeDetail *stored)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	Holdfast__V1__VolumeDetail detail = *stored;

	detail.node_expansion_due = true;
	change_put_record(&change, PREFIX_VOLUME_DETAIL "default/db", &detail.base);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	settle(f);
}

static void expand_on_next_node(struct fixture *f)
{
	register_csi(f, "db");
	set_expansion_due(f, records_get(&f->server->state.records, PREFIX_VOLUME_DETAIL "default/db"));
}

CLUSTER_TEST(a_claim_that_a_node_invents_gets_no_secrets_with_an_expansion)
{
	struct volume_request request = {.name = "data",
					 .source = "db",
					 .access_mode = SINGLE_NODE_WRITER,
					 .attachment_mode = ATTACHMENT_FILE_SYSTEM};
	struct alloc alloc = ROW(.id = INVENTED, .namespace = "default", .name = "x", .driver = "none",
				 .node_id = "n1", .volumes = &request, .n_volumes = 1,
				 .desired_status = DESIRED_RUN, .client_status = CLIENT_RUNNING);
	const struct claim claim =
		ROW(.mode = CLAIM_WRITE, .access_mode = SINGLE_NODE_WRITER,
		    .attachment_mode = ATTACHMENT_FILE_SYSTEM, .generation = 1, .state = CLAIM_TAKEN,
		    .namespace = "default", .volume_id = "db", .plugin_id = CSI_PLUGIN, .id = UNKNOWN,
		    .allocation_id = INVENTED, .node_id = "n1", .boot_id = BOOT_1);
	uint8_t no_such_key[TICKET_KEY_ID_SIZE] = {1, 2, 3, 4};
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct backup backup = {0};
	struct claim proven;

	connect_csi(f);
	expand_on_next_node(f);
	take_backup(f, &backup);
	restore(f, &backup, 1);
	f->n1.ticket_keys = (ProtobufCBinaryData){.len = sizeof(no_such_key), .data = no_such_key};
	f->n1.plugin = &f->plugin;
	f->n1.csi = (struct fake_csi){.has_node = true, .can_expand = true};
	connect_node(&f->n1, "n1");
	report_with(&f->n1, 1, &alloc, &claim, NULL, false);
	UNTIL(f, has_reported(f, "n1"));
	settle(f);
	assert_int_equal(f->plugin.calls[NODE_EXPAND], 0);
	proven = state_claim(&f->server->state, UNKNOWN)->claim;
	proven.storage_proven = true; /* as by a ticket: its allocation is still the node's own */
	change_put_claim(&change, &proven);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	UNTIL(f, f->plugin.calls[NODE_EXPAND] == 1);
	assert_string_equal(f->plugin.last_node_secret, "");
}

CLUSTER_TEST(an_expansion_is_done_on_no_mount_of_another_storage)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	store_old_db(f);
	set_expansion_due(f, &(Holdfast__V1__VolumeDetail)HOLDFAST__V1__VOLUME_DETAIL__INIT);
	forget_csi(f, &alloc, &held, &ticket);
	grant_since(f);
	f->n1.csi.can_expand = true;
	connect_node(&f->n1, "n1");
	report_with(&f->n1, 1, &alloc, &held, &ticket, false);
	UNTIL(f, has_reported(f, "n1"));
	fake_node_send_fingerprint(&f->n1);
	settle(f);
	assert_true(state_claim(&f->server->state, held.id)->is_unmatched);
	assert_int_equal(f->plugin.calls[NODE_EXPAND], 0);
}

/* db has another secret since n1 was granted it, and is to be grown. */
static void expand_with_another_secret(struct fixture *f)
{
	Holdfast__V1__VolumeSecrets__SecretsEntry entry = HOLDFAST__V1__VOLUME_SECRETS__SECRETS_ENTRY__INIT,
						  *entries[] = {&entry};
	Holdfast__V1__VolumeSecrets secrets = V1(volume_secrets, .secrets = entries, .n_secrets = 1);
	cleanup(change_release) struct change change = CHANGE_INIT;
	Holdfast__V1__VolumeDetail detail = *(const Holdfast__V1__VolumeDetail *)(const void *)records_get(
		&f->server->state.records, PREFIX_VOLUME_DETAIL "default/db");

	detail.capacity = 1048576;
	entry.key = TEXT("key");
	entry.value = TEXT("rotated");
	change_put_record(&change, PREFIX_VOLUME_DETAIL "default/db", &detail.base);
	change_put_record(&change, PREFIX_VOLUME_SECRETS "default/db", &secrets.base);
	assert_ok(change_commit(f->server, &change, NULL, NULL, NULL));
	operator_does(f, "Volumes.Expand", "{\"id\":\"db\",\"capacityMin\":\"1048576\"}");
	settle(f);
}

/* n1 has it, and its work has ended. */
static struct claim end_work_on_db(struct fixture *f)
{
	struct claim held;

	connect_csi(f);
	register_csi(f, "db");
	f->n1.csi.can_expand = f->n2.csi.can_expand = true;
	fake_node_send_fingerprint(&f->n1);
	fake_node_send_fingerprint(&f->n2);
	take_claim(f, &f->n1, "db", ALLOC_1);
	held = claim_of(f, ALLOC_1);
	assert_ok(stop_alloc(f, ALLOC_1, NULL));
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_UNPUBLISHING);
	return held;
}

static void report_freed(struct fixture *f, struct claim *freed)
{
	fake_node_disconnect(&f->n1);
	UNTIL(f, !state_node(&f->server->state, "n1")->session);
	f->n1.has = freed;
	f->n1.releases = 0;
	connect_node(&f->n1, "n1");
	UNTIL(f, f->n1.releases > 0);
}

CLUSTER_TEST(a_node_whose_work_has_ended_gets_no_secrets_with_an_expansion)
{
	struct claim held = end_work_on_db(f);

	assert_null(plugin_args_node_secrets(&f->server->state, &held));
	expand_with_another_secret(f);
	assert_int_equal(f->plugin.calls[NODE_EXPAND], 0);
}

CLUSTER_TEST(a_node_that_reports_a_freed_claim_gets_no_secrets_with_an_expansion)
{
	struct claim held = end_work_on_db(f);

	fake_node_send_released(&f->n1, &held);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	report_freed(f, &held);
	assert_false(f->n1.last_release_has_ticket);
	expand_with_another_secret(f);
	assert_int_equal(f->plugin.calls[NODE_EXPAND], 0);
}

static void register_part(struct fixture *f, const char *id, const char *context)
{
	char request[512];

	(void)str_format(request, sizeof(request),
			 "{\"volume\":{\"id\":\"%s\",\"type\":\"CSI\",\"pluginId\":\"" CSI_PLUGIN
			 "\",\"externalId\":\"vol-db\",%s\"requestedCapabilities\":[" MODE "]}}",
			 id, context);
	operator_does(f, "Volumes.Register", request);
}

/* It was granted the whole id; db and also are parts of that since. */
CLUSTER_TEST(a_freed_claim_that_comes_back_holds_its_own_storage)
{
	struct claim held;
	struct error err;

	connect_csi(f);
	register_part(f, "db", "");
	take_claim(f, &f->n1, "db", ALLOC_1);
	held = claim_of(f, ALLOC_1);
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	settle(f);
	register_part(f, "db", "\"context\":{\"zone\":\"z1\"},");
	register_part(f, "also", "\"context\":{\"zone\":\"z2\"},");
	report_freed(f, &held);
	assert_false(f->n1.last_release_has_ticket);
	f->source = "also";
	assert_error(run_alloc(f, ALLOC_2, "n2", &err), STATUS_FAILED_PRECONDITION, err, "node n1");
}

CLUSTER_TEST(a_claim_of_the_servers_own_allocation_gets_secrets_with_an_expansion)
{
	struct claim claim;

	connect_csi(f);
	expand_on_next_node(f);
	f->n1.csi.can_expand = true;
	fake_node_send_fingerprint(&f->n1);
	settle(f);
	take_claim(f, &f->n1, "db", ALLOC_1);
	UNTIL(f, f->plugin.calls[NODE_EXPAND] == 1);
	assert_string_equal(f->plugin.last_node_secret, "hunter2");
	claim = claim_of(f, ALLOC_1);
	assert_non_null(plugin_args_node_secrets(&f->server->state, &claim));
	claim.state = CLAIM_UNPUBLISHING;
	assert_null(plugin_args_node_secrets(&f->server->state, &claim));
}

/* --- generations --- */

/* Reports that n1 has released the volume in an earlier boot, by a claim that was @generation. */
static void report_past(struct fixture *f, const struct claim *like, uint64_t generation)
{
	struct claim past = *like;

	assert_true(uuid_new(past.id) >= 0);
	(void)str_copy(past.boot_id, sizeof(past.boot_id), BOOT_2);
	past.state = CLAIM_NODE_DETACHED;
	past.generation = generation;
	report_with(&f->n1, f->n1.report_epoch, NULL, &past, NULL, true);
	settle(f);
}

static uint64_t generation_of_db(struct fixture *f)
{
	return state_volume(&f->server->state, "default", "db")->volume.generation;
}

CLUSTER_TEST(a_node_uses_up_at_most_half_of_the_generations_of_an_epoch)
{
	uint64_t most = new_epoch_generation_max(0), records;
	struct backup backup = {0};
	struct alloc alloc;
	struct claim held;

	take_volume(f);
	held = claim_of(f, ALLOC_1);
	settle(f);
	take_backup(f, &backup);
	connect_both(f);
	provoke_report(f, &f->n1);
	records = audit_head(f->server).sequence;
	report_past(f, &held, most);
	assert_int_equal(generation_of_db(f), most);
	assert_int_equal(audit_head(f->server).sequence, records + 1);
	report_past(f, &held, most - 1); /* which raises nothing */
	assert_int_equal(audit_head(f->server).sequence, records + 1);
	report_past(f, &held, most + 1);
	assert_int_equal(generation_of_db(f), most);
	assert_false(f->n1.closed); /* the rest of the report counts */
	report(f, &f->n1, f->n1.report_epoch, NULL, NULL, false);
	fake_node_send_released(&f->n1, &held);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	take_claim(f, &f->n2, "db", ALLOC_2);
	alloc = alloc_of(f, ALLOC_2);
	held = claim_of(f, ALLOC_2);
	restore(f, &backup, 1);
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, &alloc, &held, false);
	UNTIL(f, has_reported(f, "n2"));
	assert_int_equal(state_of(f, ALLOC_2), CLAIM_TAKEN);
}

/* The next generation is the nearest that could be granted twice. */
CLUSTER_TEST(the_next_generation_is_not_granted_after_a_node_had_it)
{
	struct claim held;

	take_volume(f);
	held = claim_of(f, ALLOC_1);
	provoke_report(f, &f->n1);
	report_past(f, &held, generation_of_db(f) + 1);
	assert_int_equal(generation_of_db(f), held.generation + 1);
}

CLUSTER_TEST(generations_are_raised_at_the_rate_of_adoptions)
{
	char more[RATE_MORE_SIZE];
	struct node_entry *node;
	struct claim held;

	take_volume(f);
	held = claim_of(f, ALLOC_1);
	provoke_report(f, &f->n1);
	node = state_node(&f->server->state, "n1");
	report_past(f, &held, 10);
	assert_int_equal(generation_of_db(f), 10);
	while (rate_take_counted(&node->adoptions, SESSION_ADOPTION_COST_US, SESSION_REPORT_OBJECTS_MAX,
				 clock_monotonic_us(), more))
		;
	report_past(f, &held, 11);
	UNTIL(f, f->n1.closed);
	assert_int_equal(f->n1.closed_status, STATUS_RESOURCE_EXHAUSTED);
	assert_int_equal(generation_of_db(f), 10);
}

/* --- the store's queue --- */

enum { STATUSES = 64 };

/* Connects n1 with a hello that has @n statuses of its allocation, each with another code. */
static void greet_with(struct fixture *f, size_t n)
{
	Holdfast__V1__AllocStatus statuses[STATUSES], *list[STATUSES];

	assert_true(n <= STATUSES);
	for (size_t i = 0; i < n; i++) {
		statuses[i] = V1(alloc_status, .alloc_id = TEXT(ALLOC_1), .code = (int32_t)i,
				 .client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING);
		list[i] = &statuses[i];
	}
	fake_node_connect(&f->n1, "n1", BOOT_1, list, n);
	settle(f);
}

CLUSTER_TEST(a_hello_names_each_allocation_once)
{
	take_volume(f);
	fake_node_disconnect(&f->n1);
	greet_with(f, 1);
	assert_false(f->n1.closed);
	fake_node_disconnect(&f->n1);
	greet_with(f, 2);
	assert_true(f->n1.closed);
	assert_int_equal(f->n1.closed_status, STATUS_INVALID_ARGUMENT);
}

/* As if its earlier changes were that large. */
CLUSTER_TEST(a_node_fills_a_part_of_the_stores_queue_only)
{
	struct node_entry *node;

	take_volume(f);
	settle(f);
	node = state_node(&f->server->state, "n1");
	assert_int_equal(node->pending_bytes, 0);
	node->pending_bytes = SESSION_PENDING_BYTES_MAX;
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__PENDING);
	UNTIL(f, f->n1.closed);
	assert_int_equal(f->n1.closed_status, STATUS_RESOURCE_EXHAUSTED);
	node->pending_bytes = 0;
	connect_node(&f->n1, "n1");
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__PENDING);
	UNTIL(f, node->pending_bytes > 0);
	settle(f);
	assert_int_equal(node->pending_bytes, 0);
}

/* Its session ended at the limit, before its changes were durable. */
CLUSTER_TEST(the_end_of_a_session_at_the_limit_of_pending_changes_is_stored_later)
{
	enum { CHANGES = 8 };
	struct node_entry *node;
	int64_t ended_ms;

	take_volume(f);
	settle(f);
	node = state_node(&f->server->state, "n1");
	node->pending_bytes = SESSION_PENDING_BYTES_MAX - 1;
	for (int i = 0; i < CHANGES; i++)
		fake_node_send_alloc(&f->n1, ALLOC_1,
				     i % 2 == 0 ? HOLDFAST__V1__CLIENT_STATUS__PENDING
						: HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	UNTIL(f, f->n1.closed && !node_is_connected(node));
	ended_ms = node->node.disconnected_ms;
	settle(f);
	restart(f);
	assert_true(ended_ms > 0);
	assert_int_equal(state_node(&f->server->state, "n1")->node.disconnected_ms, ended_ms);
}

/* --- native storage --- */

/* n1 has db, on disk wwn-0x1, which was registered after the backup. */
CLUSTER_TEST(the_mount_of_a_forgotten_disk_holds_that_disk)
{
	struct alloc alloc;
	struct claim held;
	struct error err;

	forget_what_n1_has(f, &alloc, &held);
	report_that_n1_has_it(f, &alloc, &held);
	assert_error(register_disk(f, &f->operator, "other", "wwn-0x1", &err), STATUS_FAILED_PRECONDITION,
		     err, "may be this storage");
	assert_ok(register_disk(f, &f->operator, "more", "wwn-0x2", &err));
	assert_error(register_disk(f, &f->operator, "db", "wwn-0x3", &err), STATUS_FAILED_PRECONDITION, err,
		     "source: volume db is registered with another one");
	assert_ok(register_volume(f, &f->operator, & err));
	assert_string_equal(state_volume(&f->server->state, "default", "db")->volume.external_id, "db");
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
}

/* The backup has db on disk wwn-0x1; afterwards it was wwn-0x2, by @ret_ticket, and n1 had that. */
static void forget_second_disk(struct fixture *f, bool is_in_use, struct alloc *alloc, struct claim *held,
			       struct ticket *ret_ticket)
{
	struct backup backup = {0};
	struct volume volume;

	assert_ok(register_volume(f, &f->operator, NULL));
	connect_both(f);
	if (is_in_use)
		take_claim(f, &f->n2, "db", ALLOC_2);
	take_backup(f, &backup);
	connect_both(f);
	if (is_in_use) {
		release_claim(f, &f->n2, ALLOC_2);
		UNTIL(f, state_of(f, ALLOC_2) == CLAIM_FREED);
	}
	deregister(f, "db");
	if (state_volume(&f->server->state, "default", "more"))
		deregister(f, "more");
	assert_ok(register_disk(f, &f->operator, "db", "wwn-0x2", NULL));
	take_claim(f, &f->n1, "db", ALLOC_1);
	*alloc = alloc_of(f, ALLOC_1);
	*held = claim_of(f, ALLOC_1);
	volume = state_volume(&f->server->state, "default", "db")->volume;
	restore(f, &backup, 1);
	assert_ok(ticket_issue(f->server->issuer, held, &volume, 1, ret_ticket, NULL));
}

/* The backup has that disk as volume more. */
CLUSTER_TEST(the_mount_of_a_disk_by_a_new_name_holds_it_by_its_former_one)
{
	struct volume_entry *more;
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;
	struct error err;

	assert_ok(register_disk(f, &f->operator, "more", "wwn-0x2", NULL));
	forget_second_disk(f, false, &alloc, &held, &ticket);
	report_forgotten(f, &alloc, &held, &ticket);
	assert_true(volume_is_placeholder(&state_volume(&f->server->state, "default", "db")->volume));
	more = state_volume(&f->server->state, "default", "more");
	assert_int_equal(storage_n_live(more), 1);
	f->source = "more";
	assert_error(run_alloc(f, ALLOC_2, "n2", &err), STATUS_FAILED_PRECONDITION, err, "volume more");
	assert_non_null(strstr(err.msg, "node n1"));
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED && storage_n_live(more) == 0);
	take_claim(f, &f->n2, "more", ALLOC_2);
}

/* The backup has as volume more the storage that db had afterwards, and db on vol-old, or not at all. */
static void report_storage_of_more(struct fixture *f, const char *zone, bool has_db, bool is_hidden)
{
	struct volume_entry *more;
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;
	struct error err;

	store_zone(f, "more", zone, !str_eq(zone, "z1"));
	if (!has_db)
		deregister(f, "db");
	forget_csi(f, &alloc, &held, &ticket);
	if (has_db) {
		grant_since(f);
	} else {
		connect_node(&f->n2, "n2");
		report(f, &f->n2, 1, NULL, NULL, false);
	}
	if (is_hidden)
		held.external_id[0] = '\0';
	connect_node(&f->n1, "n1");
	report_with(&f->n1, 1, &alloc, &held, &ticket, false);
	UNTIL(f, has_reported(f, "n1") && has_reported(f, "n2"));
	more = state_volume(&f->server->state, "default", "more");
	assert_int_equal(storage_n_live(more), 1);
	f->source = "more";
	assert_error(run_alloc(f, ALLOC_3, "n2", &err), STATUS_FAILED_PRECONDITION, err, "node n1");
}

CLUSTER_TEST(the_mount_of_a_csi_volume_by_a_new_name_holds_it_by_its_former_one)
{
	report_storage_of_more(f, "z1", false, true);
}

CLUSTER_TEST(a_claim_on_another_storage_than_its_volumes_holds_it_by_its_name)
{
	report_storage_of_more(f, "z1", true, false);
}

CLUSTER_TEST(a_claim_of_a_hidden_id_on_another_storage_than_its_volumes_holds_it_by_its_name)
{
	report_storage_of_more(f, "z1", true, true);
}

CLUSTER_TEST(a_claim_by_another_context_holds_a_volume_that_its_provider_made)
{
	report_storage_of_more(f, "z0", true, false);
}

CLUSTER_TEST(a_report_moves_no_name_from_a_disk_that_was_granted_since)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;
	struct error err;

	forget_second_disk(f, false, &alloc, &held, &ticket);
	grant_since(f);
	connect_node(&f->n1, "n1");
	report_with(&f->n1, 1, &alloc, &held, &ticket, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_false(volume_is_placeholder(&state_volume(&f->server->state, "default", "db")->volume));
	assert_error(register_disk(f, &f->operator, "other", "wwn-0x1", &err), STATUS_ALREADY_EXISTS, err,
		     "volume db");
	assert_error(register_disk(f, &f->operator, "other", "wwn-0x2", &err), STATUS_FAILED_PRECONDITION,
		     err, "with a claim from a node's report");
	assert_int_equal(state_of(f, ALLOC_2), CLAIM_TAKEN);
}

/* n2 has not denied it yet. */
CLUSTER_TEST(a_claim_of_the_backup_names_the_disk_that_its_volume_had)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;
	struct error err;

	forget_second_disk(f, true, &alloc, &held, &ticket);
	connect_node(&f->n1, "n1");
	report_with(&f->n1, 1, &alloc, &held, &ticket, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_true(volume_is_placeholder(&state_volume(&f->server->state, "default", "db")->volume));
	assert_int_equal(state_of(f, ALLOC_2), CLAIM_TAKEN);
	assert_error(register_disk(f, &f->operator, "other", "wwn-0x1", &err), STATUS_FAILED_PRECONDITION,
		     err, "may be this storage");
	assert_ok(register_disk(f, &f->operator, "db", "wwn-0x2", &err));
	assert_error(register_disk(f, &f->operator, "other", "wwn-0x1", &err), STATUS_FAILED_PRECONDITION,
		     err, "may be this storage");
	assert_ok(register_disk(f, &f->operator, "other", "wwn-0x3", &err));
}

/* Earlier versions did so. */
CLUSTER_TEST(a_claim_that_names_no_disk_keeps_its_volumes_name)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct ticket ticket;
	struct alloc alloc;
	struct claim held, old;

	forget_second_disk(f, true, &alloc, &held, &ticket);
	old = claim_of(f, ALLOC_2);
	(void)str_copy(old.external_id, sizeof(old.external_id), "db");
	change_put_claim(&change, &old);
	assert_ok(change_commit(f->server, &change, NULL, NULL, NULL));
	connect_node(&f->n1, "n1");
	report_with(&f->n1, 1, &alloc, &held, &ticket, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_false(volume_is_placeholder(&state_volume(&f->server->state, "default", "db")->volume));
}

/* The server has an allocation of n1 that asks for db, and n1 shows no ticket. */
CLUSTER_TEST(a_claim_without_a_ticket_delays_no_registration_of_a_disk)
{
	struct backup backup = {0};
	struct claim lie;
	struct error err;

	connect_both(f);
	take_backup(f, &backup);
	restore(f, &backup, 1);
	connect_both(f);
	report(f, &f->n1, 1, NULL, NULL, false);
	report(f, &f->n2, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n1") && has_reported(f, "n2"));
	assert_ok(register_volume(f, &f->operator, & err));
	take_claim(f, &f->n1, "db", ALLOC_1);
	lie = claim_of(f, ALLOC_1);
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_ok(deregister_volume(f, &err));
	lie_about_x(f, &lie, "", NULL);
	assert_true(volume_is_placeholder(&state_volume(&f->server->state, "default", "db")->volume));
	assert_ok(register_disk(f, &f->operator, "other", "wwn-0x1", &err));
}

/* n2 reports a csi plugin whose name is the profile of the disk. */
CLUSTER_TEST(the_ticket_of_a_disk_proves_no_csi_claim)
{
	Holdfast__V1__NodeHalf half = V1(node_half, .provider_node_id = TEXT("x"));
	Holdfast__V1__NodePlugin plugin =
		V1(node_plugin, .plugin_id = TEXT("disk"), .healthy = true, .node = &half);
	Holdfast__V1__NodePlugin *plugins[] = {&plugin};
	struct alloc alloc;
	struct claim held;
	struct error err;

	forget_what_n1_has(f, &alloc, &held);
	f->n2.plugins = plugins;
	f->n2.n_plugins = 1;
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, NULL, NULL, false);
	assert_non_null(state_plugin(&f->server->state, held.profile));
	connect_node(&f->n1, "n1");
	report(f, &f->n1, 1, &alloc, &held, false);
	UNTIL(f, has_reported(f, "n1") && has_reported(f, "n2"));
	assert_int_equal(state_volume(&f->server->state, "default", "db")->volume.type, VOLUME_NATIVE);
	assert_error(register_disk(f, &f->operator, "other", "wwn-0x1", &err), STATUS_FAILED_PRECONDITION,
		     err, "may be this storage");
	f->n2.n_plugins = 0;
}

CLUSTER_TEST(a_believed_mount_delays_registrations_of_its_profile)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;
	struct error err;

	forget_what_n1_has(f, &alloc, &held);
	ticket = ticket_of(f, &held);
	restart_with(f, make_another_key);
	report_forgotten(f, &alloc, &held, &ticket);
	assert_error(register_disk(f, &f->operator, "more", "wwn-0x2", &err), STATUS_FAILED_PRECONDITION, err,
		     "may be this storage");
	assert_ok(register_volume(f, &f->operator, & err));
	assert_ok(register_disk(f, &f->operator, "more", "wwn-0x2", &err));
}

enum { REQUESTED = 13 };

/* Reports a further claim of each volume of allocation 1, which needs no ticket: it asks for them. */
static void claim_each_again(struct fixture *f, int round)
{
	ProtobufCBinaryData none[REQUESTED] = {{0}};
	Holdfast__V1__Claim *claims[REQUESTED];
	Holdfast__V1__NodeReport pb = V1(node_report, .claims = claims, .n_claims = REQUESTED,
					 .tickets = none, .n_tickets = REQUESTED);

	for (int i = 0; i < REQUESTED; i++) {
		struct claim claim = ROW(.mode = CLAIM_WRITE, .access_mode = SINGLE_NODE_WRITER,
					 .attachment_mode = ATTACHMENT_FILE_SYSTEM, .state = CLAIM_TAKEN,
					 .namespace = "default", .plugin_id = "native", .profile = "disk",
					 .allocation_id = ALLOC_1, .node_id = "n1", .boot_id = BOOT_1);

		(void)str_format(claim.volume_id, sizeof(claim.volume_id), "v%d", i);
		(void)str_format(claim.id, sizeof(claim.id), "0189dead-0000-7000-8000-%012d",
				 100 + round * REQUESTED + i);
		claims[i] = claim_to_pb(&claim);
	}
	provoke_report(f, &f->n1);
	pb.epoch = f->n1.report_epoch;
	fake_node_send_report(&f->n1, &pb);
	UNTIL(f, has_reported(f, "n1"));
	for (int i = 0; i < REQUESTED; i++)
		holdfast__v1__claim__free_unpacked(claims[i], NULL);
}

CLUSTER_TEST(claims_that_a_node_invents_end_with_its_boot)
{
	Holdfast__V1__VolumeRequest requests[REQUESTED], *volumes[REQUESTED];
	Holdfast__V1__Allocation alloc = V1(allocation, .id = ALLOC_1, .name = "app", .node_id = "n1",
					    .volumes = volumes, .n_volumes = REQUESTED);
	Holdfast__V1__RunAllocationRequest run = V1(run_allocation_request, .allocation = &alloc);
	char names[REQUESTED][8], disk[24];
	struct error err;

	connect_both(f);
	for (int i = 0; i < REQUESTED; i++) {
		(void)str_format(names[i], sizeof(names[i]), "v%d", i);
		(void)str_format(disk, sizeof(disk), "wwn-0x%x", 100 + i);
		assert_ok(register_disk(f, &f->operator, names[i], disk, &err));
		requests[i] = (Holdfast__V1__VolumeRequest)V1(
			volume_request, .name = names[i], .source = names[i],
			.access_mode = HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_WRITER);
		volumes[i] = &requests[i];
	}
	assert_ok(call(&f->operator, & holdfast__v1__allocations__descriptor, "Run", &run.base, NULL, &err));
	UNTIL(f, f->n1.runs == 1);
	for (int round = 0; round < 8; round++)
		claim_each_again(f, round);
	assert_int_equal(state_node(&f->server->state, "n1")->n_live, 64);
	fake_node_disconnect(&f->n1);
	UNTIL(f, !node_is_connected(state_node(&f->server->state, "n1")));
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	assert_true(f->n1.welcomed);
	UNTIL(f, state_node(&f->server->state, "n1")->n_live == 0);
}

CLUSTER_TEST(of_two_freed_claims_of_one_allocation_a_report_brings_back_one)
{
	struct claim freed[2];

	take_volume(f);
	for (int i = 0; i < 2; i++) {
		if (i > 0)
			assert_int_equal(claim_for(&f->n1, ALLOC_1, &freed[i], NULL), STATUS_OK);
		freed[i] = claim_of(f, ALLOC_1);
		fake_node_send_released(&f->n1, &freed[i]);
		UNTIL(f, state_volume(&f->server->state, "default", "db")->n_live == 0);
		freed[i].state = CLAIM_TAKEN;
	}
	provoke_report(f, &f->n1);
	report(f, &f->n1, f->n1.report_epoch, NULL, &freed[0], true);
	report(f, &f->n1, f->n1.report_epoch, NULL, &freed[1], false);
	UNTIL(f, has_reported(f, "n1"));
	assert_int_equal(state_volume(&f->server->state, "default", "db")->n_live, 1);
}

enum task_lie { HONEST_TASK, OTHER_TASK, LARGE_TASK, MANY_ATTRIBUTES, TASK_TWICE, TASK_LIES };

/* At the limit of its node an adopted allocation grows in no way, and ends. */
static void end_at_limit(struct fixture *f, Holdfast__V1__SessionUp *up)
{
	const struct alloc_entry *entry = state_alloc(&f->server->state, up->alloc->alloc_id);
	Holdfast__V1__AllocVolume volume = V1(alloc_volume, .name = "data", .path = "/stage/db");
	Holdfast__V1__AllocVolume *volumes[] = {&volume, &volume, &volume, &volume};
	Holdfast__V1__NodeHalf half = HOLDFAST__V1__NODE_HALF__INIT;
	Holdfast__V1__NodePlugin plugin = V1(node_plugin, .plugin_id = "new", .healthy = true, .node = &half);
	Holdfast__V1__NodePlugin *plugins[] = {&plugin};
	const Holdfast__Driver__V1__TaskStatus *kept;
	size_t before;

	entry->node->adopted_bytes += SESSION_ADOPTED_BYTES_MAX; /* by others */
	before = entry->node->adopted_bytes;
	plugin.allocation_id = TEXT(entry->id);
	f->n1.plugins = plugins;
	f->n1.n_plugins = 1;
	fake_node_send_fingerprint(&f->n1);
	settle(f);
	assert_int_equal(entry->node->adopted_bytes, before);
	up->alloc->tasks[0]->n_attributes = 0;
	up->alloc->description = TEXT("busy");
	up->alloc->published = volumes;
	up->alloc->n_published = ARRAY_SIZE(volumes);
	fake_node_send(&f->n1, up);
	up->alloc->client_status = HOLDFAST__V1__CLIENT_STATUS__COMPLETE;
	fake_node_send(&f->n1, up);
	UNTIL(f, entry->alloc.client_status == CLIENT_COMPLETE);
	kept = (const void *)entry->alloc.task_status->messages[0];
	assert_int_equal(kept->n_attributes, TASK_STATUS_ATTRIBUTES_MAX);
	assert_int_equal(entry->alloc.n_published, 0);
	assert_string_equal(alloc_description(&entry->alloc), "");
	assert_in_range(entry->node->adopted_bytes, before, before + 256); /* the event of its end */
	entry->node->adopted_bytes -= SESSION_ADOPTED_BYTES_MAX;
	f->n1.plugins = NULL;
}

/* A status that takes more memory than the report of the allocation counts for the node, up to its limit, and
 * never for the namespace that the node named. Fields that are not known here are dropped. */
static void grow_by_status(struct fixture *f, const char *id, Holdfast__Driver__V1__TaskStatus *task)
{
	static uint8_t value;
	static ProtobufCMessageUnknownField unknown[2000];
	const struct alloc_entry *entry = state_alloc(&f->server->state, id);
	struct namespace_entry *namespace = namespaces_find(&f->server->state.namespaces, "default");
	const size_t of_namespace = namespace ? namespace->bytes : 0;
	const size_t before = entry->node->adopted_bytes;
	Holdfast__V1__AllocStatus status =
		V1(alloc_status, .alloc_id = TEXT(id), .client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING,
		   .tasks = &task, .n_tasks = 1);
	Holdfast__V1__SessionUp up =
		V1(session_up, .message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_ALLOC, .alloc = &status);

	for (size_t i = 0; i < ARRAY_SIZE(unknown); i++)
		unknown[i] = (ProtobufCMessageUnknownField){15, PROTOBUF_C_WIRE_TYPE_VARINT, 1, &value};
	task->base.unknown_fields = unknown;
	task->base.n_unknown_fields = ARRAY_SIZE(unknown);
	task->restarts++;
	task->n_attributes = TASK_STATUS_ATTRIBUTES_MAX;
	fake_node_send(&f->n1, &up);
	UNTIL(f, entry->node->adopted_bytes > before || f->n1.closed);
	assert_in_range(entry->node->adopted_bytes, before + 1000, before + 2 * TASK_STATUS_BYTES_MAX);
	namespace = namespaces_find(&f->server->state.namespaces, "default");
	assert_int_equal(namespace ? namespace->bytes : 0, of_namespace);
	end_at_limit(f, &up);
}

/* An empty attribute takes two bytes of a report, and fifty of memory. */
CLUSTER_TEST(a_report_brings_only_statuses_of_tasks_within_their_limits)
{
	enum { ATTRIBUTES = TASK_STATUS_ATTRIBUTES_MAX + 1 };
	static char large[TASK_STATUS_BYTES_MAX + 1];
	static Holdfast__Driver__V1__KeyValue *attributes[ATTRIBUTES];
	Holdfast__Driver__V1__KeyValue attribute = PB(holdfast__driver__v1__key_value, .key = "");
	Holdfast__Driver__V1__CsiPluginMount mount =
		PB(holdfast__driver__v1__csi_plugin_mount, .destination = "/csi");
	Holdfast__Driver__V1__TaskConfig config = PB(holdfast__driver__v1__task_config, .task = TEXT("app"),
						     .driver = TEXT("container"), .csi_plugin = &mount);
	Holdfast__Driver__V1__TaskConfig *configs[] = {&config};
	Holdfast__V1__VolumeRequest request =
		V1(volume_request, .name = "data", .source = "db",
		   .access_mode = HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_WRITER);
	Holdfast__V1__VolumeRequest *requests[] = {&request};
	Holdfast__V1__CsiPlugin runs =
		V1(csi_plugin, .id = "new", .type = HOLDFAST__V1__CSI_PLUGIN_TYPE__CSI_PLUGIN_TYPE_NODE);
	Holdfast__V1__CsiPlugin *plugins[] = {&runs};
	char id[UUID_TEXT_SIZE];

	memset(large, 'x', sizeof(large) - 1);
	for (size_t i = 0; i < ATTRIBUTES; i++)
		attributes[i] = &attribute;
	connect_both(f);
	for (enum task_lie lie = 0; lie < TASK_LIES; lie++) {
		Holdfast__Driver__V1__TaskStatus status =
			PB(holdfast__driver__v1__task_status,
			   .task = lie == OTHER_TASK ? TEXT("other") : TEXT("app"), .attributes = attributes,
			   .health = lie == LARGE_TASK ? large : TEXT(""),
			   .n_attributes = lie == MANY_ATTRIBUTES ? ATTRIBUTES : 1);
		Holdfast__Driver__V1__TaskStatus *statuses[] = {&status, &status};
		Holdfast__V1__Allocation alloc =
			V1(allocation, .id = id, .name = "x", .node_id = "n1", .volumes = requests,
			   .n_volumes = 1, .tasks = configs, .n_tasks = 1, .csi_plugins = plugins,
			   .n_csi_plugins = 1, .client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING,
			   .task_status = statuses, .n_task_status = lie == TASK_TWICE ? 2 : 1);
		Holdfast__V1__Allocation *allocs[] = {&alloc};
		Holdfast__V1__NodeReport pb = V1(node_report, .allocations = allocs, .n_allocations = 1);

		(void)str_format(id, sizeof(id), "0189dead-0000-7000-8000-%012d", (int)lie + 1);
		provoke_report(f, &f->n1);
		pb.epoch = f->n1.report_epoch;
		fake_node_send_report(&f->n1, &pb);
		UNTIL(f, f->n1.closed || has_reported(f, "n1"));
		assert_non_null(state_alloc(&f->server->state, id));
		assert_int_equal(message_list_n(state_alloc(&f->server->state, id)->alloc.task_status),
				 lie == HONEST_TASK);
		if (lie == HONEST_TASK)
			grow_by_status(f, id, &status);
	}
}

CLUSTER_TEST(an_order_to_release_proves_nothing_for_an_adopted_claim)
{
	struct claim lie;

	take_volume(f);
	lie = claim_of(f, ALLOC_1);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, f->n1.releases >= 1);
	assert_true(f->n1.last_release_has_ticket);
	fake_node_send_released(&f->n1, &lie);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	(void)str_copy(lie.id, sizeof(lie.id), INVENTED);
	lie.state = CLAIM_TAKEN;
	provoke_report(f, &f->n1);
	report(f, &f->n1, f->n1.report_epoch, NULL, &lie, false);
	UNTIL(f, f->n1.releases >= 1);
	assert_string_equal(f->n1.last_release, INVENTED);
	assert_false(f->n1.last_release_has_ticket);
}

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
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct claim claim = *like;

	(void)str_copy(claim.id, sizeof(claim.id), INVENTED);
	(void)str_copy(claim.namespace, sizeof(claim.namespace), "blue");
	(void)str_copy(claim.volume_id, sizeof(claim.volume_id), "other");
	(void)str_copy(claim.allocation_id, sizeof(claim.allocation_id), ALLOC_2);
	(void)str_copy(claim.node_id, sizeof(claim.node_id), "n2");
	claim.external_node_id[0] = '\0';
	claim.adopted = true;
	change_put_claim(&change, &claim);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	settle(f);
}

TEST_ON(a_volume_held_twice_names_no_holder_of_another_namespace, struct fixture, f, setup_acl, teardown)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct claim held = restore_under_another_name(f);
	struct claim freed = state_claim(&f->server->state, held.id)->claim;
	struct volume_entry *other = state_volume(&f->server->state, "blue", "other");
	struct error err;

	put_claim_of_blue(f, &held);
	assert_error(held_twice_check_repeat(state_claim(&f->server->state, INVENTED), &err),
		     STATUS_UNAVAILABLE, err, "node n1 for a volume of another namespace");
	expect_no_ids(err.msg, &held);
	freed.was_freed = true;
	change_put_claim(&change, &freed);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
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
	cleanup(change_release) struct change change = CHANGE_INIT;
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
	change_put_volume(&change, &volume);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
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
	connect_node(&f->n1, "n1");
	report_with(&f->n1, 1, &alloc, &held, &ticket, false);
	UNTIL(f, has_reported(f, "n1"));
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

static void let_many_write(struct fixture *f, const char *id)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct volume volume = state_volume(&f->server->state, "default", id)->volume;

	volume.capabilities[0].access_mode = MULTI_NODE_MULTI_WRITER;
	change_put_volume(&change, &volume);
	assert_ok(change_commit(f->server, &change, NULL, NULL, NULL));
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

static enum status fence_off(struct fixture *f, const char *id, struct error *err);

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

static enum status fence_off(struct fixture *f, const char *id, struct error *err)
{
	const Holdfast__V1__DetachVolumeRequest request =
		V1(detach_volume_request, .id = TEXT(id), .node_id = TEXT("n1"),
		   .fence_reason = TEXT("it hangs"));

	return call(&f->operator, & holdfast__v1__volumes__descriptor, "Detach", &request.base, NULL, err);
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
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n2"));
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
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n2"));
	f->source = "db";
	assert_ok(attest(f, "n1", NULL, "it is off", 0, false, NULL, NULL));
	deregister(f, "db");
	assert_ok(register_disk(f, &f->operator, "db", "wwn-0x2", NULL));
	assert_ok(run_alloc(f, ALLOC_2, "n2", NULL));
	(void)fake_node_claim(&f->n2, "db", ALLOC_2, NULL, &err);
	connect_node(&f->n1, "n1");
	report_with(&f->n1, 1, &alloc, &held, &ticket, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_int_equal(storage_n_live(state_volume(&f->server->state, "default", "db")), 1);
}

/* As a_freed_claim_that_comes_back_holds_its_own_storage, in a mode for several writers. */
CLUSTER_TEST(nothing_is_granted_by_another_name_beside_a_freed_claim_that_came_back)
{
	struct claim held;
	struct error err = {.msg = ""};

	f->access_mode = HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_MULTI_WRITER;
	connect_csi(f);
	register_part(f, "db", "");
	let_many_write(f, "db");
	take_claim(f, &f->n1, "db", ALLOC_1);
	held = claim_of(f, ALLOC_1);
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	settle(f);
	register_part(f, "db", "\"context\":{\"zone\":\"z1\"},");
	register_part(f, "also", "\"context\":{\"zone\":\"z2\"},");
	let_many_write(f, "db");
	let_many_write(f, "also");
	report_freed(f, &held);
	assert_int_equal(storage_n_live(state_volume(&f->server->state, "default", "also")), 1);
	f->source = "also";
	assert_ok(run_alloc(f, ALLOC_2, "n2", NULL));
	assert_error(fake_node_claim(&f->n2, "also", ALLOC_2, NULL, &err), STATUS_UNAVAILABLE, err,
		     "held twice");
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
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct error err = {.msg = ""};
	struct volume volume;

	connect_csi(f);
	store_zone(f, "db", "z0", false);
	volume = state_volume(&f->server->state, "default", "db")->volume;
	(void)str_copy(volume.name, sizeof(volume.name), "db");
	change_put_volume(&change, &volume);
	assert_ok(change_commit(f->server, &change, NULL, NULL, NULL));
	take_backup(f, &backup);
	restore(f, &backup, 1);
	run_csi(f);
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n2"));
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
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n2"));
	assert_ok(attest(f, "n1", "more", "it is off", 0, false, NULL, NULL));
	f->source = "more";
	take_claim(f, &f->n2, "more", ALLOC_2);
	connect_node(&f->n1, "n1");
	report_with(&f->n1, 1, &alloc, &held, &ticket, false);
	UNTIL(f, has_reported(f, "n1"));
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

/* As a_believed_mount_holds_its_storage_under_each_name, but the backup has db as another storage. */
CLUSTER_TEST(a_believed_mount_holds_its_storage_also_if_its_name_had_another)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;
	struct error err = {.msg = ""};

	store_zone(f, "also", "z1", false); /* and db as vol-old */
	forget_csi(f, &alloc, &held, &ticket);
	restart_with(f, make_another_key);
	run_csi(f);
	report_forgotten(f, &alloc, &held, &ticket);
	f->source = "also";
	assert_true(run_alloc(f, ALLOC_2, "n2", &err) != STATUS_OK ||
		    fake_node_claim(&f->n2, "also", ALLOC_2, NULL, &err) != STATUS_OK);
}

/* The same with disks, which only tickets name. */
CLUSTER_TEST(a_believed_mount_of_a_disk_holds_the_volumes_of_its_profile)
{
	struct backup backup = {0};
	struct ticket ticket;
	struct volume volume;
	struct alloc alloc;
	struct claim held;
	struct error err = {.msg = ""};

	assert_ok(register_disk(f, &f->operator, "more", "wwn-0x2", NULL));
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	take_backup(f, &backup);
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	deregister(f, "more");
	assert_succeeds(register_disk(f, &f->operator, "db", "wwn-0x2", &err), err);
	take_claim(f, &f->n1, "db", ALLOC_1);
	alloc = alloc_of(f, ALLOC_1);
	held = claim_of(f, ALLOC_1);
	volume = state_volume(&f->server->state, "default", "db")->volume;
	assert_ok(ticket_issue(f->server->issuer, &held, &volume, 1, &ticket, NULL));
	restore(f, &backup, 1);
	restart_with(f, make_another_key);
	report_forgotten(f, &alloc, &held, &ticket);
	f->source = "more";
	assert_true(run_alloc(f, ALLOC_2, "n2", &err) != STATUS_OK ||
		    fake_node_claim(&f->n2, "more", ALLOC_2, NULL, &err) != STATUS_OK);
}

/* db was share z0 in the backup, and became z1 in place; the tickets prove nothing. n1 has z1 mounted. */
static void believe_another_context(struct fixture *f, struct alloc *alloc, struct claim *held)
{
	struct ticket ticket;

	f->access_mode = HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_MULTI_WRITER;
	store_zone(f, "db", "z0", false);
	let_many_write(f, "db");
	forget_csi(f, alloc, held, &ticket);
	restart_with(f, make_another_key);
	run_csi(f);
	report_forgotten(f, alloc, held, &ticket);
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
	connect_node(&f->n2, "n2");
	report(f, &f->n2, state_epoch(&f->server->state), NULL, NULL, false);
	UNTIL(f, has_reported(f, "n2"));
	assert_ok(attest(f, "n1", "more", "it is off", 0, false, NULL, NULL));
	f->source = "more";
	take_claim(f, &f->n2, "more", ALLOC_2);
	connect_node(&f->n1, "n1");
	report_with(&f->n1, state_epoch(&f->server->state), &alloc, &held, &ticket, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_int_equal(storage_n_live(state_volume(&f->server->state, "default", "more")), 2);
	assert_true(f->server->state.n_volumes_held_twice > 0);
}

/* n1 has vol-db by also, and by the forgotten name db; tickets prove nothing. */
CLUSTER_TEST(a_fence_takes_no_device_of_a_believed_mount)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;
	struct error err = {.msg = ""};
	unsigned int n;

	f->access_mode = HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_MULTI_WRITER;
	store_zone(f, "also", "z1", false);
	let_many_write(f, "also");
	deregister(f, "db");
	forget_csi(f, &alloc, &held, &ticket);
	restart_with(f, make_another_key);
	run_csi(f);
	report_forgotten(f, &alloc, &held, &ticket);
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
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;
	struct error err = {.msg = ""};

	assert_ok(register_volume(f, &f->operator, NULL));
	forget_csi(f, &alloc, &held, &ticket);
	restart_with(f, make_another_key);
	run_csi(f);
	report_forgotten(f, &alloc, &held, &ticket);
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
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct volume volume;

	held_twice_pair(own);
	for (int i = 0; i < 3; i++) {
		others[i] = put_holder(f, "w", "vol-2", "n2", SINGLE_NODE_MULTI_WRITER, CLAIM_WRITE, true);
		held_twice_pair(others[i]);
	}
	assert_int_equal(own->n_rivals, 3);
	assert_int_equal(f->server->state.n_volumes_held_twice, 2);
	volume = own->volume->volume;
	change_put_volume(&change, &volume); /* an operator changes its name */
	assert_ok(change_commit(f->server, &change, NULL, NULL, NULL));
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

CLUSTER_TEST(a_stored_node_wakes_no_creation_that_waits_for_a_missing_one)
{
	const Holdfast__V1__VolumeDetail detail =
		V1(volume_detail, .phase = HOLDFAST__V1__VOLUME_PHASE__VOLUME_CREATING);
	Holdfast__V1__NodeCount count = HOLDFAST__V1__NODE_COUNT__INIT;
	cleanup(change_release) struct change change = CHANGE_INIT;
	static struct lines lines;
	size_t n;

	count.registered = 2;
	count.missing = 1;
	connect_csi(f);
	store_old_db(f);
	change_put_record(&change, PREFIX_VOLUME_DETAIL "default/db", &detail.base);
	change_put_record(&change, KEY_NODE_COUNT, &count.base);
	assert_ok(change_commit(f->server, &change, NULL, NULL, NULL));
	settle(f);
	lines_begin(&lines);
	volume_work_start(f->server, "default", "db", NULL, NULL);
	settle(f);
	for (int i = 0; i < 20; i++) {
		cleanup(change_release) struct change again = CHANGE_INIT;

		change_put_node(&again, &state_node(&f->server->state, "n2")->node);
		assert_ok(change_commit(f->server, &again, NULL, NULL, NULL));
		settle(f);
	}
	lines_end(&lines);
	n = lines_with(&lines, "not done, to be tried again");
	assert_in_range(n, 1, 10); /* those of its timer */
}

CLUSTER_TEST(a_creation_goes_on_when_the_missing_ones_are_purged)
{
	const Holdfast__V1__VolumeDetail detail =
		V1(volume_detail, .phase = HOLDFAST__V1__VOLUME_PHASE__VOLUME_CREATING);
	Holdfast__V1__NodeCount count = HOLDFAST__V1__NODE_COUNT__INIT;
	cleanup(change_release) struct change change = CHANGE_INIT;
	const Holdfast__V1__PurgeNodeRequest request =
		V1(purge_node_request, .unknown = true, .reason = TEXT("gone"));
	struct error err = {.msg = ""};
	uint64_t since_us;

	count.registered = 2;
	count.missing = 1;
	connect_csi(f);
	f->n2.csi.can_create_delete = true;
	connect_node(&f->n2, "n2");
	store_old_db(f);
	change_put_record(&change, PREFIX_VOLUME_DETAIL "default/db", &detail.base);
	change_put_record(&change, KEY_NODE_COUNT, &count.base);
	assert_ok(change_commit(f->server, &change, NULL, NULL, NULL));
	model_plugin_order(&f->plugin, HOLDFAST__V1__PLUGIN_CALL__REQUEST_CREATE, MODEL_HOLD, 1, 0);
	volume_work_start(f->server, "default", "db", NULL, NULL);
	for (int i = 0; i < 12; i++) {
		unit_clock_advance(600 * USEC_PER_SEC);
		settle(f);
	}
	connect_node(&f->n2, "n2");
	settle(f);
	assert_int_equal(f->n2.n_held, 0);
	assert_succeeds(
		call(&f->operator, & holdfast__v1__nodes__descriptor, "Purge", &request.base, NULL, &err),
		err);
	since_us = clock_monotonic_us();
	UNTIL(f, f->n2.n_held == 1);
	assert_in_range(clock_monotonic_us() - since_us, 0, 2 * USEC_PER_SEC);
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
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct volume volume;
	struct error err = {.msg = ""};

	register_again(f, one, "z9");
	volume = one->volume->volume;
	(void)str_copy(volume.external_id, sizeof(volume.external_id), "vol-2");
	change_put_volume(&change, &volume);
	assert_ok(change_commit(f->server, &change, NULL, NULL, NULL));
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

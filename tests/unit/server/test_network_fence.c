/* SPDX-License-Identifier: Apache-2.0 */
/* Network fences: a node that the storage of a plugin refuses, and lists, loses that plugin's volumes of that
 * boot, and nothing else does. n1 holds db, a volume of the plugin; n2 and n3 run the plugin's controller. */

#include "asks.h"
#include "callers.h"
#include "unit.h"

#include "fence/fences.h"
#include "fence/loss.h"
#include "fence/network.h"
#include "model/fence.h"
#include "node/lookup.h"
#include "node/machine_code.h"
#include "plugin/fence_clients.h"
#include "state/keys.h"
#include "state/records.h"

#include <holdfast/v1/fences.pb-c.h>

#define FENCES &holdfast__v1__fences__descriptor
#define CALL(kind) HOLDFAST__V1__PLUGIN_CALL__REQUEST_##kind
#define CIDR_1 "192.0.2.1/32"
#define CIDR_2 "192.0.2.2/32"
#define CIDR_9 "192.0.2.9/32"

struct world {
	struct fixture *f;
	struct fake_node n3;
};

static void connect_n3(struct world *w)
{
	w->n3.plugin = &w->f->plugin;
	w->n3.csi = (struct fake_csi){.has_controller = true, .can_fence = true};
	fake_node_connect(&w->n3, "n3", BOOT_1, NULL, 0);
}

static void connect_all(struct world *w)
{
	struct fixture *f = w->f;

	connect_csi(f);
	f->n1.csi.clients[0] = CIDR_1;
	f->n2.csi.clients[0] = CIDR_2;
	f->n2.csi.can_fence = true;
	fake_node_send_fingerprint(&f->n1);
	fake_node_send_fingerprint(&f->n2);
	UNTIL(f, records_get(&f->server->state.records, PREFIX_FENCE_CLIENTS "n1/" CSI_PLUGIN) &&
			 records_get(&f->server->state.records, PREFIX_FENCE_CLIENTS "n2/" CSI_PLUGIN));
	run_idle(f->event);
}

UNIT_SETUP(setup_world, struct world, w)
{
	void *fixture = NULL;

	assert_int_equal(setup_three(&fixture), 0);
	w->f = fixture;
	register_csi(w->f, "db");
	fake_node_init(&w->n3, w->f->event, w->f->dir, "node-n3", w->f->port);
	connect_all(w);
	take_claim(w->f, &w->f->n1, "db", ALLOC_1);
}

static int teardown_world(void **state)
{
	struct world *w = *state;
	void *fixture = w->f;

	assert_string_equal(w->f->plugin.violation, "");
	fake_node_release(&w->n3);
	free(w);
	return teardown(&fixture);
}

/* Its server's fixture is @f. */
#define WORLD_TEST(name)                                                \
	static void name##_in(struct world *w, struct fixture *f);      \
	TEST_ON(name, struct world, world, setup_world, teardown_world) \
	{                                                               \
		name##_in(world, world->f);                             \
	}                                                               \
	static void name##_in(struct world *w, struct fixture *f)

struct wanted {
	bool alive, lift;
	const char *plugin_id; /* NULL: CSI_PLUGIN */
	const char *node_id;   /* NULL: n1 */
};

static enum status fence_as(struct fixture *f, const struct wanted *wanted, struct error *err)
{
	Holdfast__V1__FenceNodeRequest request =
		V1(fence_node_request, .id = TEXT(wanted->node_id ? wanted->node_id : "n1"),
		   .reason = "it does not answer",
		   .plugin_id = TEXT(wanted->plugin_id ? wanted->plugin_id : CSI_PLUGIN));

	request.alive = wanted->alive;
	request.lift = wanted->lift;
	return call(&f->operator, FENCES, "Fence", &request.base, NULL, err);
}

static enum status fence(struct fixture *f, struct error *err)
{
	return fence_as(f, &(const struct wanted){.alive = false}, err);
}

static void must_fence(struct fixture *f)
{
	struct error err;

	assert_succeeds(fence(f, &err), err);
}

static const Holdfast__V1__Fence *fence_of(struct fixture *f)
{
	return records_get(&f->server->state.records, PREFIX_FENCE "n1/" CSI_PLUGIN);
}

static bool is_in(struct fixture *f, enum fence_state wanted)
{
	return fence_of(f) && (enum fence_state)fence_of(f)->state == wanted;
}

static void wait_for(struct fixture *f, enum fence_state wanted)
{
	UNTIL(f, is_in(f, wanted));
	run_idle(f->event);
	assert_msg(is_in(f, wanted), "it is %s: %s", fence_state_name((enum fence_state)fence_of(f)->state),
		   fence_of(f)->error);
}

static bool is_fenced(struct fixture *f)
{
	return model_plugin_is_fenced(&f->plugin, CIDR_1);
}

static void assert_kept(struct fixture *f)
{
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
}

WORLD_TEST(a_node_that_the_storage_refuses_loses_the_volumes_of_that_plugin)
{
	struct claim claim;

	lose(f, &f->n1);
	must_fence(f);
	wait_for(f, FENCE_RECORDED);
	assert_true(is_fenced(f));
	assert_int_equal(f->plugin.calls[CALL(FENCE_NETWORK)], 1);
	assert_int_equal(f->plugin.calls[CALL(LIST_FENCED)], 1);
	claim = claim_of(f, ALLOC_1);
	assert_int_equal(claim.evidence, EVIDENCE_NETWORK_FENCE);
	assert_contains(claim.evidence_detail, "plugin ebs, controller on node n2: " CIDR_1 " fenced at 20");
	assert_non_null(strstr(claim.evidence_detail, "operator/dev: it does not answer"));
	assert_string_equal(fence_of(f)->fencer, "n2");
	assert_int_equal(fence_of(f)->freed, 1);
	assert_int_equal(state_alloc(&f->server->state, ALLOC_1)->alloc.client_status, CLIENT_LOST);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED); /* the provider has detached it, too */
	assert_int_equal(metric_of(f, "network_fences_in_force"), 1);
	assert_int_equal(metric_of(f, "fences_open"), 0);
}

/* Volumes on the node's own disk: the storage of the plugin proves nothing about them. */
WORLD_TEST(a_claim_of_another_plugin_is_not_freed)
{
	struct claim other;

	other = claim_of(f, ALLOC_1);
	{
		cleanup(change_release) struct change change = CHANGE_INIT;

		(void)str_copy(other.id, sizeof(other.id), ALLOC_3);
		(void)str_copy(other.allocation_id, sizeof(other.allocation_id), ALLOC_3);
		(void)str_copy(other.plugin_id, sizeof(other.plugin_id), "nfs");
		change_put_claim(&change, &other);
		assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
		run_idle(f->event);
	}
	lose(f, &f->n1);
	must_fence(f);
	wait_for(f, FENCE_RECORDED);
	assert_int_equal(fence_of(f)->freed, 1);
	assert_int_equal(state_claim(&f->server->state, ALLOC_3)->claim.state, CLAIM_TAKEN);
}

/* Another administrator may have fenced a part of it before. */
WORLD_TEST(a_list_with_a_part_of_the_addresses_proves_nothing)
{
	f->n1.csi.clients[0] = "198.51.100.0/24";
	fake_node_send_fingerprint(&f->n1);
	settle(f);
	lose(f, &f->n1);
	(void)str_copy(f->plugin.fenced[0], sizeof(f->plugin.fenced[0]), "198.51.100.7/32");
	f->plugin.forgets_fences = true;
	must_fence(f);
	wait_for(f, FENCE_FAILED);
	assert_non_null(strstr(fence_of(f)->error, "ListClusterFence shows 0 of 2 addresses"));
	assert_kept(f);
}

WORLD_TEST(a_fence_that_the_storage_does_not_list_frees_nothing)
{
	lose(f, &f->n1);
	f->plugin.hides_fences = true;
	must_fence(f);
	wait_for(f, FENCE_FAILED);
	assert_kept(f);
	assert_non_null(strstr(fence_of(f)->error, "ListClusterFence shows 0 of 1 addresses"));
	assert_int_equal(fence_of(f)->off, HOLDFAST__V1__FENCE_OUTCOME__FENCE_OUTCOME_DONE);
	assert_int_equal(metric_of(f, "fences_unproved"), 1);
	f->plugin.hides_fences = false;
	must_fence(f);
	wait_for(f, FENCE_RECORDED);
}

/* --- the next controller --- */

struct way {
	int call;
	enum model_outcome outcome;
	enum status code;
};

/* Each call, and each way in which it can end. */
static const struct way ways[] = {
	{CALL(FENCE_NETWORK), MODEL_FAIL, STATUS_INTERNAL},
	{CALL(FENCE_NETWORK), MODEL_FAIL, STATUS_UNIMPLEMENTED},
	{CALL(FENCE_NETWORK), MODEL_FAIL_DONE, STATUS_UNAVAILABLE},
	{CALL(FENCE_NETWORK), MODEL_NOT_HERE, STATUS_OK},
	{CALL(FENCE_NETWORK), MODEL_OTHER_ANSWER, STATUS_OK},
	{CALL(FENCE_NETWORK), MODEL_HOLD, STATUS_OK},
	{CALL(FENCE_NETWORK), MODEL_HOLD_DONE, STATUS_OK},
	{CALL(FENCE_NETWORK), MODEL_LOSE_BEFORE, STATUS_OK},
	{CALL(FENCE_NETWORK), MODEL_LOSE_AFTER, STATUS_OK},
	{CALL(LIST_FENCED), MODEL_FAIL, STATUS_UNIMPLEMENTED},
	{CALL(LIST_FENCED), MODEL_NOT_HERE, STATUS_OK},
	{CALL(LIST_FENCED), MODEL_OTHER_ANSWER, STATUS_OK},
	{CALL(LIST_FENCED), MODEL_HOLD, STATUS_OK},
	{CALL(LIST_FENCED), MODEL_LOSE_BEFORE, STATUS_OK},
};

static void go_wrong(struct world *w, const struct way *way, unsigned int times)
{
	struct fixture *f = w->f;

	model_plugin_order(&f->plugin, way->call, way->outcome, times, way->code);
	lose(f, &f->n1);
	must_fence(f);
	if (way->outcome == MODEL_HOLD || way->outcome == MODEL_HOLD_DONE)
		run_for(f->event, times * (NETWORK_CALL_MAX_MS + 1000));
	UNTIL(f, !fence_is_open((enum fence_state)fence_of(f)->state));
}

TEST(the_next_controller_is_asked_when_one_refuses_or_fails)
{
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		struct world *w;
		void *made;

		assert_int_equal(setup_world(&made), 0);
		w = made;
		connect_n3(w);
		go_wrong(w, &ways[i], 1);
		assert_msg(is_in(w->f, FENCE_RECORDED), "way %zu: %s", i, fence_of(w->f)->error);
		assert_string_equal(fence_of(w->f)->fencer, "n3");
		assert_int_equal(fence_of(w->f)->n_tried, 1);
		assert_string_equal(fence_of(w->f)->tried[0], "n2");
		assert_int_equal(claim_of(w->f, ALLOC_1).evidence, EVIDENCE_NETWORK_FENCE);
		assert_int_equal(teardown_world(&made), 0);
	}
}

TEST(a_fence_that_no_controller_proves_keeps_the_claims)
{
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		bool is_unsure =
			ways[i].call == CALL(FENCE_NETWORK) &&
			(ways[i].outcome == MODEL_HOLD || ways[i].outcome == MODEL_HOLD_DONE ||
			 ways[i].outcome == MODEL_OTHER_ANSWER || ways[i].outcome == MODEL_LOSE_BEFORE ||
			 ways[i].outcome == MODEL_LOSE_AFTER);
		struct world *w;
		void *made;

		assert_int_equal(setup_world(&made), 0);
		w = made;
		connect_n3(w);
		go_wrong(w, &ways[i], 2);
		assert_msg(is_in(w->f, is_unsure ? FENCE_UNKNOWN : FENCE_FAILED), "way %zu: %s, %s", i,
			   fence_state_name((enum fence_state)fence_of(w->f)->state), fence_of(w->f)->error);
		assert_int_not_equal(fence_of(w->f)->error[0], '\0');
		assert_kept(w->f);
		assert_int_equal(teardown_world(&made), 0);
	}
}

WORLD_TEST(a_controllers_node_that_is_lost_in_the_middle_leaves_the_outcome_unknown)
{
	connect_n3(w);
	lose(f, &f->n1);
	model_plugin_order(&f->plugin, CALL(FENCE_NETWORK), MODEL_HOLD, 1, STATUS_OK);
	must_fence(f);
	UNTIL(f, f->n2.n_held == 1);
	lose(f, &w->n3);
	lose(f, &f->n2);
	wait_for(f, FENCE_UNKNOWN);
	assert_kept(f);
	assert_int_equal(fence(f, NULL), STATUS_FAILED_PRECONDITION); /* no controller is left */
	assert_true(is_in(f, FENCE_UNKNOWN));
}

WORLD_TEST(the_lost_node_is_never_asked_to_fence_itself)
{
	struct error err;

	f->n1.csi.has_controller = f->n1.csi.can_fence = true;
	fake_node_send_fingerprint(&f->n1);
	settle(f);
	model_plugin_order(&f->plugin, CALL(FENCE_NETWORK), MODEL_FAIL, 1, STATUS_INTERNAL);
	assert_int_equal(fence_as(f, &(const struct wanted){.alive = true}, &err), STATUS_OK);
	wait_for(f, FENCE_FAILED);
	assert_string_equal(fence_of(f)->fencer, "n2");
	assert_int_equal(fence_of(f)->n_tried, 0);
	f->n2.csi.can_fence = false;
	fake_node_send_fingerprint(&f->n2);
	settle(f);
	assert_error(fence_as(f, &(const struct wanted){.alive = true}, &err), STATUS_FAILED_PRECONDITION,
		     err, "no connected node other than n1");
	assert_int_equal(f->plugin.calls[CALL(FENCE_NETWORK)], 1);
}

/* --- the node is alive, or comes back --- */

WORLD_TEST(a_connected_node_is_fenced_by_a_persons_word_only)
{
	struct error err;

	assert_error(fence(f, &err), STATUS_FAILED_PRECONDITION, err,
		     "holdfast node fence n1 --network ebs --alive");
	assert_null(fence_of(f));
	assert_int_equal(fence_as(f, &(const struct wanted){.alive = true}, &err), STATUS_OK);
	wait_for(f, FENCE_RECORDED); /* also while it is connected: its writes are refused */
	assert_true(fence_of(f)->alive);
	assert_int_equal(claim_of(f, ALLOC_1).evidence, EVIDENCE_NETWORK_FENCE);
}

WORLD_TEST(a_fence_is_lifted_when_the_node_reports_from_another_boot)
{
	lose(f, &f->n1);
	must_fence(f);
	wait_for(f, FENCE_RECORDED);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	wait_for(f, FENCE_LIFTED);
	assert_false(is_fenced(f));
	assert_int_equal(f->plugin.calls[CALL(UNFENCE_NETWORK)], 1);
	assert_int_equal(f->plugin.calls[CALL(LIST_FENCED)], 2); /* read back */
	assert_int_equal(metric_of(f, "network_fences_in_force"), 0);
}

/* Its claims are gone, and the state names the next command. */
WORLD_TEST(a_node_that_comes_back_in_the_same_boot_stays_fenced)
{
	Holdfast__V1__GetFenceRequest request = V1(get_fence_request, .id = "n1", .plugin_id = CSI_PLUGIN);
	cleanup_pb ProtobufCMessage *response = NULL;
	struct error err;

	lose(f, &f->n1);
	must_fence(f);
	wait_for(f, FENCE_RECORDED);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	settle(f);
	assert_true(is_in(f, FENCE_RECORDED) && is_fenced(f));
	assert_int_equal(call(&f->operator, FENCES, "Get", &request.base, &response, NULL), STATUS_OK);
	assert_contains(((Holdfast__V1__GetFenceResponse *)(void *)response)->fence->error,
			"Next: reboot node n1");
	assert_error(fence_as(f, &(const struct wanted){.lift = true}, &err), STATUS_FAILED_PRECONDITION, err,
		     "reboot");
	assert_true(is_fenced(f));
}

WORLD_TEST(a_node_in_the_fenced_boot_gets_no_claim_of_that_plugin)
{
	struct error err;

	lose(f, &f->n1);
	must_fence(f);
	wait_for(f, FENCE_RECORDED);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	settle(f);
	assert_error(run_alloc(f, ALLOC_2, "n1", &err), STATUS_FAILED_PRECONDITION, err,
		     "A reboot of node n1 begins the lift of the fence");
	lose(f, &f->n1);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	wait_for(f, FENCE_LIFTED);
	take_claim(f, &f->n1, "db", ALLOC_2);
}

/* It has the fewest allocations. */
WORLD_TEST(work_is_placed_on_another_node_than_one_in_the_fenced_boot)
{
	struct error err;

	f->n2.csi.has_node = true;
	fake_node_send_fingerprint(&f->n2);
	lose(f, &f->n1);
	must_fence(f);
	wait_for(f, FENCE_RECORDED);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	take_claim(f, &f->n2, "db", ALLOC_2);
	release_claim(f, &f->n2, ALLOC_2);
	UNTIL(f, state_of(f, ALLOC_2) == CLAIM_FREED);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	settle(f);
	assert_succeeds(run_alloc(f, ALLOC_3, "", &err), err);
	assert_string_equal(state_alloc(&f->server->state, ALLOC_3)->alloc.node_id, "n2");
}

/* A call that took effect after the lift: the server has proved that the node is accepted, and it is not. */
WORLD_TEST(a_person_lifts_a_fence_once_more)
{
	lose(f, &f->n1);
	must_fence(f);
	wait_for(f, FENCE_RECORDED);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	wait_for(f, FENCE_LIFTED);
	(void)str_copy(f->plugin.fenced[0], sizeof(f->plugin.fenced[0]), CIDR_1);
	assert_int_equal(fence_as(f, &(const struct wanted){.lift = true}, NULL), STATUS_OK);
	run_idle(f->event); /* without a look */
	assert_true(is_in(f, FENCE_LIFTED));
	assert_false(is_fenced(f));
}

#define BOOT_3 "b0010000-0000-4000-8000-000000000003"

/* The fence of a later boot is what it has forgotten: the storage refuses the node in the boot that it
 * reports. */
WORLD_TEST(a_server_that_has_lost_history_lifts_no_fence_of_the_boot_that_is_reported_first)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	Holdfast__V1__Fence older;
	struct node node;

	lose(f, &f->n1);
	must_fence(f);
	wait_for(f, FENCE_RECORDED);
	older = *fence_of(f);
	older.epoch++; /* not that of the store */
	change_put_record(&change, PREFIX_FENCE "n1/" CSI_PLUGIN, &older.base);
	node = state_node(&f->server->state, "n1")
		       ->node; /* its first report to that server is of another boot */
	(void)str_copy(node.boot_id, sizeof(node.boot_id), BOOT_2);
	change_put_node(&change, &node);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	wait_for(f, FENCE_UNKNOWN);
	settle(f);
	assert_true(is_fenced(f));
	assert_string_equal(fence_of(f)->boot_id, BOOT_2);
	assert_non_null(strstr(fence_of(f)->error, "the server has lost history"));
	assert_int_equal(fence_of(f)->freed, 1); /* as before: it frees nothing of that boot */
	fake_node_connect(&f->n1, "n1", BOOT_3, NULL, 0);
	wait_for(f, FENCE_LIFTED);
	assert_false(is_fenced(f));
}

static void put_older(struct fixture *f, enum fence_state state)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	Holdfast__V1__Fence older = *fence_of(f);

	older.state = (Holdfast__V1__FenceState)state;
	older.epoch++; /* not that of the store */
	change_put_record(&change, PREFIX_FENCE "n1/" CSI_PLUGIN, &older.base);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	settle(f);
}

/* The storage may accept the node since then. */
WORLD_TEST(a_proof_from_before_a_restore_frees_nothing)
{
	lose(f, &f->n1);
	f->plugin.hides_fences = true;
	must_fence(f);
	wait_for(f, FENCE_FAILED);
	put_older(f, FENCE_OFF);
	assert_true(is_in(f, FENCE_UNKNOWN));
	assert_kept(f);
}

/* The storage may have carried it out without a proof. */
WORLD_TEST(a_fence_that_failed_is_lifted_as_well)
{
	lose(f, &f->n1);
	model_plugin_order(&f->plugin, CALL(LIST_FENCED), MODEL_FAIL, 1, STATUS_INTERNAL);
	must_fence(f);
	wait_for(f, FENCE_FAILED);
	assert_true(is_fenced(f));
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	wait_for(f, FENCE_LIFTED);
	assert_false(is_fenced(f));
}

WORLD_TEST(a_lift_is_repeated_until_the_storage_lists_the_node_no_more)
{
	struct error err;

	lose(f, &f->n1);
	must_fence(f);
	wait_for(f, FENCE_RECORDED);
	model_plugin_order(&f->plugin, CALL(UNFENCE_NETWORK), MODEL_FAIL, 2, STATUS_INTERNAL);
	model_plugin_order(&f->plugin, CALL(LIST_FENCED), MODEL_FAIL, 2, STATUS_INTERNAL);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	UNTIL(f, is_in(f, FENCE_LIFTING) && fence_of(f)->error[0] != '\0' &&
			 strstr(fence_of(f)->error, "the model says no"));
	assert_int_equal(metric_of(f, "fences_open"), 1);
	assert_error(
		f->server->check_not_fenced(f->server, state_node(&f->server->state, "n1"), CSI_PLUGIN, &err),
		STATUS_FAILED_PRECONDITION, err, "does not accept it again yet: ");
	assert_error(fence_as(f, &(const struct wanted){.alive = true}, &err), STATUS_FAILED_PRECONDITION,
		     err, "is being lifted"); /* the lift could overtake another fence */
	run_for(f->event, 60 * 1000);
	wait_for(f, FENCE_LIFTED);
	assert_false(is_fenced(f));
	assert_int_equal(f->plugin.calls[CALL(UNFENCE_NETWORK)], 5);
	assert_int_equal(f->plugin.calls[CALL(LIST_FENCED)], 4); /* once before the lift, and two failures */
	assert_ok(f->server->check_not_fenced(f->server, state_node(&f->server->state, "n1"), CSI_PLUGIN,
					      NULL));
}

WORLD_TEST(a_lift_waits_for_a_fence_of_a_part_that_another_administrator_made)
{
	char *other = f->plugin.fenced[MODEL_FENCED_MAX - 1];

	f->n1.csi.clients[0] = "198.51.100.0/24";
	fake_node_send_fingerprint(&f->n1);
	settle(f);
	lose(f, &f->n1);
	must_fence(f);
	wait_for(f, FENCE_RECORDED);
	(void)str_copy(other, sizeof(f->plugin.fenced[0]), "198.51.100.7/32");
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	UNTIL(f, is_in(f, FENCE_LIFTING) && strstr(fence_of(f)->error, "ListClusterFence shows 1 of"));
	run_for(f->event, 60 * 1000);
	assert_true(is_in(f, FENCE_LIFTING));
	other[0] = '\0';
	run_for(f->event, 60 * 1000);
	wait_for(f, FENCE_LIFTED);
}

/* It is lifted only after the call in flight has ended: else the call could take effect after the lift. */
WORLD_TEST(a_node_that_returns_in_the_middle_is_let_in_after_the_call)
{
	lose(f, &f->n1);
	model_plugin_order(&f->plugin, CALL(FENCE_NETWORK), MODEL_HOLD_DONE, 1, STATUS_OK);
	must_fence(f);
	UNTIL(f, f->n2.n_held == 1);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	settle(f);
	assert_true(is_in(f, FENCE_SENT));
	assert_int_equal(f->plugin.calls[CALL(UNFENCE_NETWORK)], 0);
	assert_int_equal(claim_of(f, ALLOC_1).evidence, EVIDENCE_NEW_BOOT);
	fake_node_answer(&f->n2);
	wait_for(f, FENCE_LIFTED);
	assert_false(is_fenced(f));
	assert_int_equal(claim_of(f, ALLOC_1).evidence, EVIDENCE_NEW_BOOT);
}

WORLD_TEST(a_proof_frees_nothing_of_a_later_boot)
{
	lose(f, &f->n1);
	model_plugin_order(&f->plugin, CALL(LIST_FENCED), MODEL_HOLD_DONE, 1, STATUS_OK);
	must_fence(f);
	UNTIL(f, f->n2.n_held == 1);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	take_claim(f, &f->n1, "db", ALLOC_2);
	fake_node_answer(&f->n2); /* the proof, late */
	wait_for(f, FENCE_LIFTED);
	assert_int_equal(state_of(f, ALLOC_2), CLAIM_TAKEN);
}

WORLD_TEST(a_purged_node_stays_fenced_until_a_person_lifts_it)
{
	struct error err;

	lose(f, &f->n1);
	must_fence(f);
	wait_for(f, FENCE_RECORDED);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(purge(f, "n1", NULL), STATUS_OK);
	settle(f);
	assert_true(is_in(f, FENCE_RECORDED) && is_fenced(f));
	assert_null(records_get(&f->server->state.records, PREFIX_FENCE_CLIENTS "n1/" CSI_PLUGIN));
	assert_succeeds(fence_as(f, &(const struct wanted){.lift = true}, &err), err);
	wait_for(f, FENCE_LIFTED);
	assert_false(is_fenced(f));
}

/* Its agent never showed one. */
WORLD_TEST(a_machine_that_takes_the_name_of_a_purged_node_lifts_nothing)
{
	lose(f, &f->n1);
	must_fence(f);
	wait_for(f, FENCE_RECORDED);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(purge(f, "n1", NULL), STATUS_OK);
	settle(f);
	unit_clock_advance(USEC_PER_SEC);
	f->n1.machine = "22222222222222222222222222222222";
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	assert_false(f->n1.closed);
	run_for(f->event, 60 * 1000);
	assert_true(is_in(f, FENCE_RECORDED) && is_fenced(f));
}

#define MACHINE_1 "11111111111111111111111111111111"
#define MACHINE_2 "22222222222222222222222222222222"
#define HARDWARE "+33333333333333333333333333333333"

/* The first one may still run, and write. */
WORLD_TEST(the_boot_of_another_machine_lifts_nothing)
{
	struct error err;

	lose(f, &f->n1);
	f->n1.machine = MACHINE_1;
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	lose(f, &f->n1);
	must_fence(f);
	wait_for(f, FENCE_RECORDED);
	f->n1.machine = MACHINE_2;
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0); /* it is refused */
	assert_succeeds(identify(f, "n1", MACHINE_2, &err), err);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	settle(f);
	assert_string_equal(state_node(&f->server->state, "n1")->node.boot_id, BOOT_2);
	assert_true(is_in(f, FENCE_RECORDED) && is_fenced(f));
	model_plugin_order(&f->plugin, CALL(UNFENCE_NETWORK), MODEL_FAIL, 1, STATUS_INTERNAL);
	assert_int_equal(fence_as(f, &(const struct wanted){.lift = true}, &err), STATUS_OK);
	UNTIL(f, is_in(f, FENCE_LIFTING)); /* the storage refuses the first machine, not this one */
	assert_ok(f->server->check_not_fenced(f->server, state_node(&f->server->state, "n1"), CSI_PLUGIN,
					      NULL));
	wait_for(f, FENCE_LIFTED);
}

WORLD_TEST(a_fence_shows_the_code_of_its_machine)
{
	Holdfast__V1__GetFenceRequest request = V1(get_fence_request, .id = "n1", .plugin_id = CSI_PLUGIN);
	Holdfast__V1__ListFencesRequest all = HOLDFAST__V1__LIST_FENCES_REQUEST__INIT;
	cleanup_pb ProtobufCMessage *response = NULL, *list = NULL;
	char code[NODE_MACHINE_MAX + 1];

	lose(f, &f->n1);
	f->n1.machine = MACHINE_1 HARDWARE;
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	lose(f, &f->n1);
	must_fence(f); /* cluster.c looks for the machine in its answer */
	wait_for(f, FENCE_RECORDED);
	(void)machine_code(f->server, "n1", f->n1.machine, code);
	assert_string_equal(fence_of(f)->machine, f->n1.machine);
	assert_ok(call(&f->operator, FENCES, "Get", &request.base, &response, NULL));
	assert_string_equal(((Holdfast__V1__GetFenceResponse *)(void *)response)->fence->machine, code);
	assert_ok(call(&f->operator, FENCES, "List", &all.base, &list, NULL));
	assert_string_equal(((Holdfast__V1__ListFencesResponse *)(void *)list)->fences[0]->machine, code);
}

/* It may be a thief, whom an operator took for the first machine. */
WORLD_TEST(the_boot_of_a_machine_that_shows_less_lifts_nothing)
{
	struct error err;

	lose(f, &f->n1);
	f->n1.machine = MACHINE_1 HARDWARE;
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	lose(f, &f->n1);
	must_fence(f);
	wait_for(f, FENCE_RECORDED);
	f->n1.machine = MACHINE_1;
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	assert_succeeds(identify(f, "n1", MACHINE_1, &err), err);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	settle(f);
	assert_string_equal(state_node(&f->server->state, "n1")->node.boot_id, BOOT_2);
	assert_true(is_in(f, FENCE_RECORDED) && is_fenced(f));
	put_older(f, FENCE_RECORDED);
	settle(f);
	assert_string_equal(fence_of(f)->boot_id, BOOT_1);
	assert_true(is_in(f, FENCE_RECORDED) && is_fenced(f));
}

/* The addresses are the first one's until the second one connects. */
WORLD_TEST(a_fence_after_an_identify_is_one_of_the_first_machine)
{
	struct error err;

	lose(f, &f->n1);
	f->n1.machine = MACHINE_1;
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	lose(f, &f->n1);
	f->n1.machine = MACHINE_2;
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0); /* it is refused */
	assert_succeeds(identify(f, "n1", MACHINE_2, &err), err);
	must_fence(f);
	wait_for(f, FENCE_RECORDED);
	assert_int_equal(claim_of(f, ALLOC_1).evidence, EVIDENCE_NETWORK_FENCE);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	settle(f);
	assert_string_equal(state_node(&f->server->state, "n1")->node.boot_id, BOOT_2);
	assert_true(is_in(f, FENCE_RECORDED) && is_fenced(f));
	lose(f, &f->n1);
	f->n1.machine = MACHINE_1; /* it is the node again, and has stopped */
	fake_node_connect(&f->n1, "n1", BOOT_3, NULL, 0);
	assert_succeeds(identify(f, "n1", MACHINE_1, &err), err);
	fake_node_connect(&f->n1, "n1", BOOT_3, NULL, 0);
	wait_for(f, FENCE_LIFTED);
}

/* n1 on the machine @machine comes in @boot_id, and is refused. */
static void knock(struct fixture *f, const char *machine, const char *boot_id)
{
	if (f->n1.stream)
		lose(f, &f->n1);
	f->n1.machine = machine;
	fake_node_connect(&f->n1, "n1", boot_id, NULL, 0);
}

static void identify_as(struct fixture *f, const char *machine, const char *boot_id)
{
	struct error err;

	knock(f, machine, boot_id);
	assert_succeeds(identify(f, "n1", machine, &err), err);
}

/* Another machine is n1 for a while, with an address of its own. Then the first one is n1 again, and has
 * never been rebooted. */
static void identify_there_and_back(struct fixture *f)
{
	f->n1.csi.clients[0] = CIDR_9;
	identify_as(f, MACHINE_2, BOOT_2);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	settle(f);
	assert_string_equal(state_node(&f->server->state, "n1")->node.boot_id, BOOT_2);
	f->n1.csi.clients[0] = CIDR_1;
	identify_as(f, MACHINE_1, BOOT_1);
	settle(f);
}

static void show_machine(struct fixture *f)
{
	lose(f, &f->n1);
	f->n1.machine = MACHINE_1;
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	lose(f, &f->n1);
}

/* The last boot of the node is that of the other machine. */
WORLD_TEST(an_identify_that_is_taken_back_lifts_no_fence)
{
	struct error err;

	show_machine(f);
	must_fence(f);
	wait_for(f, FENCE_RECORDED);
	identify_there_and_back(f);
	assert_true(is_in(f, FENCE_RECORDED) && is_fenced(f));
	assert_error(fence_as(f, &(const struct wanted){.lift = true}, &err), STATUS_FAILED_PRECONDITION, err,
		     "last seen in the boot that is fenced");
	fake_node_connect(&f->n1, "n1", BOOT_3, NULL, 0); /* it is rebooted */
	wait_for(f, FENCE_LIFTED);
	assert_false(is_fenced(f));
}

/* The node does not remember so many boots: the last one is still another machine's. */
WORLD_TEST(a_boot_that_is_over_lifts_no_fence)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct node node;

	show_machine(f);
	must_fence(f);
	wait_for(f, FENCE_RECORDED);
	identify_there_and_back(f);
	node = state_node(&f->server->state, "n1")->node;
	node.n_past_boots = 1;
	change_put_node(&change, &node);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	settle(f);
	assert_true(is_in(f, FENCE_RECORDED) && is_fenced(f));
}

/* It would cut off the other machine, and say that it was the first one. */
WORLD_TEST(a_node_whose_identify_was_taken_back_is_not_fenced_by_the_other_machines_addresses)
{
	struct error err;

	show_machine(f);
	identify_there_and_back(f);
	(void)fence(f, &err);
	settle(f);
	assert_false(model_plugin_is_fenced(&f->plugin, CIDR_9));
	assert_true(!fence_of(f) || str_eq(fence_of(f)->boot_id, BOOT_1));
}

WORLD_TEST(a_lost_node_whose_identify_was_taken_back_is_fenced_by_its_own_addresses)
{
	struct error err = {0};

	show_machine(f);
	identify_there_and_back(f);
	assert_succeeds(
		fences_check_network(f->server, state_node(&f->server->state, "n1"), CSI_PLUGIN, &err), err);
	assert_succeeds(
		fences_begin(f->server, state_node(&f->server->state, "n1"), CSI_PLUGIN, "lost", &err), err);
	assert_string_equal(fence_of(f)->boot_id, BOOT_1);
	wait_for(f, FENCE_RECORDED);
	assert_true(is_fenced(f));
	assert_false(model_plugin_is_fenced(&f->plugin, CIDR_9));
}

/* The fence that the server has forgotten may be of a later boot of the first machine, which has not come
 * yet. A person ends it. */
WORLD_TEST(after_a_restore_a_fence_waits_for_its_own_machine)
{
	show_machine(f);
	must_fence(f);
	wait_for(f, FENCE_RECORDED);
	identify_as(f, MACHINE_2, BOOT_2);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	settle(f);
	put_older(f, FENCE_RECORDED);
	assert_string_equal(fence_of(f)->boot_id, BOOT_1);
	identify_as(f, MACHINE_1, BOOT_3);
	settle(f);
	assert_true(is_in(f, FENCE_RECORDED)); /* the boot of the other machine is over, and not its own */
	fake_node_connect(&f->n1, "n1", BOOT_3, NULL, 0);
	settle(f);
	assert_true(is_in(f, FENCE_UNKNOWN) && is_fenced(f));
	assert_string_equal(fence_of(f)->boot_id, BOOT_3);
}

WORLD_TEST(a_person_lifts_a_fence_of_before_a_restore)
{
	lose(f, &f->n1);
	must_fence(f);
	wait_for(f, FENCE_RECORDED);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(purge(f, "n1", NULL), STATUS_OK);
	put_older(f, FENCE_RECORDED);
	assert_int_equal(fence_as(f, &(const struct wanted){.lift = true}, NULL), STATUS_OK);
	wait_for(f, FENCE_LIFTED);
	assert_false(is_fenced(f));
}

/* --- the server --- */

static void start_again(struct world *w)
{
	fake_node_release(&w->n3);
	restart(w->f);
	fake_node_init(&w->n3, w->f->event, w->f->dir, "node-n3", w->f->port);
}

/* Nothing was freed, and the node works. */
WORLD_TEST(a_server_that_starts_again_does_not_fence_a_node_that_is_back)
{
	lose(f, &f->n1);
	model_plugin_order(&f->plugin, CALL(FENCE_NETWORK), MODEL_HOLD, 1, STATUS_OK);
	must_fence(f);
	UNTIL(f, f->n2.n_held == 1);
	start_again(w);
	assert_true(is_in(f, FENCE_SENT));
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	f->n2.csi = (struct fake_csi){
		.has_node = true, .has_controller = true, .can_fence = true, .clients = {CIDR_2}};
	f->n2.plugin = &f->plugin;
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	wait_for(f, FENCE_UNKNOWN);
	assert_non_null(strstr(fence_of(f)->error, "connected again"));
	assert_int_equal(f->plugin.calls[CALL(FENCE_NETWORK)], 1);
	assert_false(is_fenced(f));
}

/* Killed after each durable step: the next one repeats the call. */
WORLD_TEST(a_server_that_starts_again_continues_a_fence)
{
	lose(f, &f->n1);
	model_plugin_order(&f->plugin, CALL(FENCE_NETWORK), MODEL_HOLD_DONE, 1, STATUS_OK);
	must_fence(f);
	UNTIL(f, f->n2.n_held == 1);
	start_again(w);
	assert_true(is_in(f, FENCE_SENT));
	assert_kept(f);
	f->n2.csi = (struct fake_csi){
		.has_node = true, .has_controller = true, .can_fence = true, .clients = {CIDR_2}};
	f->n2.plugin = &f->plugin;
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	wait_for(f, FENCE_RECORDED);
	assert_int_equal(f->plugin.calls[CALL(FENCE_NETWORK)], 2);
	assert_int_equal(claim_of(f, ALLOC_1).evidence, EVIDENCE_NETWORK_FENCE);
	assert_int_equal(fence_of(f)->n_tried, 0);
	start_again(w);
	f->n2.csi.can_fence = f->n2.csi.has_controller = f->n2.csi.has_node = true;
	f->n2.plugin = f->n1.plugin = &f->plugin;
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	wait_for(f, FENCE_LIFTED);
	assert_false(is_fenced(f));
}

WORLD_TEST(a_fence_that_waits_for_a_controller_ends_when_its_node_is_connected_again)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	Holdfast__V1__Fence asked;

	lose(f, &f->n1);
	model_plugin_order(&f->plugin, CALL(FENCE_NETWORK), MODEL_HOLD, 1, STATUS_OK);
	must_fence(f);
	UNTIL(f, f->n2.n_held == 1);
	start_again(w);
	asked = *fence_of(f);
	asked.state = HOLDFAST__V1__FENCE_STATE__FENCE_STATE_ASKED;
	change_put_record(&change, PREFIX_FENCE "n1/" CSI_PLUGIN, &asked.base);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	wait_for(f, FENCE_REFUSED);
	assert_non_null(strstr(fence_of(f)->error, "the node is connected again"));
	assert_kept(f);
}

WORLD_TEST(the_controllers_have_a_limited_time_to_come_back)
{
	lose(f, &f->n1);
	model_plugin_order(&f->plugin, CALL(FENCE_NETWORK), MODEL_HOLD, 1, STATUS_OK);
	must_fence(f);
	UNTIL(f, f->n2.n_held == 1);
	start_again(w);
	run_for(f->event, FENCE_NETWORK_MAX_MS + 10000);
	wait_for(f, FENCE_UNKNOWN);
	assert_kept(f);
}

/* --- addresses --- */

static void report(struct fixture *f, struct fake_node *node, const char *cidr)
{
	node->csi.clients[0] = cidr;
	node->csi.clients[1] = NULL;
	fake_node_send_fingerprint(node);
	settle(f);
}

static const Holdfast__V1__FenceClients *clients_of(struct fixture *f, const char *key)
{
	char text[128];

	(void)str_format(text, sizeof(text), PREFIX_FENCE_CLIENTS "%s/" CSI_PLUGIN, key);
	return records_get(&f->server->state.records, text);
}

WORLD_TEST(within_a_boot_a_report_only_adds_addresses)
{
	report(f, &f->n1, CIDR_9);
	assert_int_equal(clients_of(f, "n1")->n_cidrs, 2);
	lose(f, &f->n1);
	must_fence(f);
	wait_for(f, FENCE_RECORDED);
	assert_true(is_fenced(f) && model_plugin_is_fenced(&f->plugin, CIDR_9));
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	UNTIL(f, clients_of(f, "n1")->n_cidrs == 1);
	assert_string_equal(clients_of(f, "n1")->cidrs[0], CIDR_9);
	assert_string_equal(clients_of(f, "n1")->boot_id, BOOT_2);
	wait_for(f, FENCE_LIFTED); /* both */
	assert_false(is_fenced(f) || model_plugin_is_fenced(&f->plugin, CIDR_9));
}

/* A lost node is fenced by the addresses that it had before. */
WORLD_TEST(a_report_after_the_loss_does_not_replace_the_addresses_of_the_fence)
{
	lose(f, &f->n1);
	model_plugin_order(&f->plugin, CALL(FENCE_NETWORK), MODEL_FAIL, 1, STATUS_INTERNAL);
	must_fence(f);
	wait_for(f, FENCE_FAILED);
	f->n1.csi.clients[0] = CIDR_9;
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	settle(f);
	assert_int_equal(fence_of(f)->n_cidrs, 1);
	assert_string_equal(fence_of(f)->cidrs[0], CIDR_1);
	lose(f, &f->n1);
	must_fence(f);
	wait_for(f, FENCE_RECORDED);
	assert_true(is_fenced(f) && model_plugin_is_fenced(&f->plugin, CIDR_9));
}

TEST(a_node_with_wrong_addresses_is_an_alarm_and_is_not_fenced_by_them)
{
	static const char *const wrong[] = {"0.0.0.0/0",    "192.0.2.0/23", "::/0",
					    "127.0.0.1/32", "node-1",	    "?"};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		char warning[FENCE_CLIENTS_WARNING_SIZE];
		struct fixture *f;
		struct world *w;
		struct error err;
		void *made;

		assert_int_equal(setup_world(&made), 0);
		w = made;
		f = w->f;
		assert_false(fence_clients_warning(f->server, warning));
		report(f, &f->n1, wrong[i]);
		report(f, &f->n1, CIDR_1); /* it may still be known by the other one */
		assert_true(fence_clients_warning(f->server, warning));
		assert_non_null(strstr(warning, "node n1 cannot be fenced"));
		assert_int_equal(metric_of(f, "fence_clients_refused"), 1);
		expect_warning_events(f, "fence-clients", 1, 0);
		lose(f, &f->n1);
		assert_error(fence(f, &err), STATUS_FAILED_PRECONDITION, err,
			     "cannot be fenced by the addresses");
		assert_int_equal(f->plugin.calls[CALL(FENCE_NETWORK)], 0);
		assert_kept(f);
		fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0); /* and has the right one */
		settle(f);
		assert_false(fence_clients_warning(f->server, warning));
		assert_int_equal(teardown_world(&made), 0);
	}
}

WORLD_TEST(a_node_with_too_many_addresses_is_not_fenced_by_them)
{
	char text[FENCE_CLIENTS_MAX][16];
	struct error err;

	for (int i = 0; i < FENCE_CLIENTS_MAX; i++) {
		(void)str_format(text[i], sizeof(text[i]), "192.0.2.%d/32", 100 + i);
		report(f, &f->n1, text[i]);
	}
	lose(f, &f->n1);
	assert_error(fence(f, &err), STATUS_FAILED_PRECONDITION, err, "more than 8 addresses");
}

static size_t count_clients(struct fixture *f, const char *node_id)
{
	struct record_entry *entry;
	char prefix[128];
	size_t n = 0;

	(void)str_format(prefix, sizeof(prefix), PREFIX_FENCE_CLIENTS "%s/", node_id);
	for (entry = records_from(&f->server->state.records, prefix);
	     entry && str_starts_with(entry->key, prefix); entry = records_next(entry))
		n++;
	return n;
}

/* A compromised agent reports plugins of NODE_PLUGINS_MAX names that it has not used. */
static void report_plugins(struct fixture *f, struct fake_node *node, int round)
{
	char ids[NODE_PLUGINS_MAX][32], cidrs[NODE_PLUGINS_MAX][32];
	Holdfast__V1__NodePlugin plugins[NODE_PLUGINS_MAX], *list[NODE_PLUGINS_MAX];
	Holdfast__V1__NodeHalf halves[NODE_PLUGINS_MAX];
	Holdfast__V1__FenceClient clients[NODE_PLUGINS_MAX], *client_list[NODE_PLUGINS_MAX];

	for (int i = 0; i < NODE_PLUGINS_MAX; i++) {
		(void)str_format(ids[i], sizeof(ids[i]), "p-%d-%d", round, i);
		(void)str_format(cidrs[i], sizeof(cidrs[i]), "198.51.%d.%d/32", 100 + round, i);
		holdfast__v1__node_plugin__init(&plugins[i]);
		holdfast__v1__node_half__init(&halves[i]);
		holdfast__v1__fence_client__init(&clients[i]);
		list[i] = &plugins[i];
		client_list[i] = &clients[i];
		clients[i].cidr = cidrs[i];
		halves[i].fence_clients = &client_list[i];
		halves[i].n_fence_clients = 1;
		plugins[i].plugin_id = ids[i];
		plugins[i].healthy = true;
		plugins[i].node = &halves[i];
	}
	node->plugins = list;
	node->n_plugins = NODE_PLUGINS_MAX;
	fake_node_send_fingerprint(node);
	settle(f);
	node->plugins = NULL;
	node->n_plugins = 0;
}

WORLD_TEST(addresses_at_plugins_that_a_node_makes_up_are_limited_and_end_with_its_boot)
{
	for (int round = 0; round < 4; round++)
		report_plugins(f, &f->n1, round);
	assert_in_range(count_clients(f, "n1"), NODE_PLUGINS_MAX, 2 * NODE_PLUGINS_MAX);
	assert_int_equal(count_clients(f, "n2"), 1);
	lose(f, &f->n1);
	must_fence(f); /* by what it has reported before */
	wait_for(f, FENCE_RECORDED);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	UNTIL(f, count_clients(f, "n1") == 1);
	assert_string_equal(clients_of(f, "n1")->boot_id, BOOT_2);
	assert_int_equal(count_clients(f, "n2"), 1);
	wait_for(f, FENCE_LIFTED);
}

/* A hostile node could have another one fenced by its own loss. */
WORLD_TEST(two_nodes_with_one_address_are_an_alarm_and_neither_is_fenced)
{
	char warning[FENCE_CLIENTS_WARNING_SIZE];
	struct error err;

	report(f, &f->n2, "192.0.2.0/24"); /* with that of n1 */
	assert_true(fence_clients_warning(f->server, warning));
	assert_non_null(strstr(warning, "have reported the same address"));
	connect_n3(w);
	lose(f, &f->n1);
	assert_error(fence(f, &err), STATUS_FAILED_PRECONDITION, err,
		     "nodes n1 (plugin ebs) and n2 (plugin ebs) have reported the same address");
	assert_int_equal(f->plugin.calls[CALL(FENCE_NETWORK)], 0);
	assert_kept(f);
	lose(f, &f->n2);
	assert_int_equal(purge(f, "n2", NULL), STATUS_OK);
	assert_false(fence_clients_warning(f->server, warning));
	must_fence(f);
	wait_for(f, FENCE_RECORDED);
}

/* n1 is connected, and the storage works on its fence. */
static void fence_in_flight(struct fixture *f)
{
	lose(f, &f->n1);
	model_plugin_order(&f->plugin, CALL(FENCE_NETWORK), MODEL_HOLD_DONE, 1, STATUS_OK);
	must_fence(f);
	UNTIL(f, f->n2.n_held == 1);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	settle(f);
}

static bool is_fenced_whole(struct fixture *f)
{
	return is_fenced(f) && model_plugin_is_fenced(&f->plugin, CIDR_9);
}

WORLD_TEST(an_address_that_is_reported_during_a_fence_is_fenced_before_claims_are_freed)
{
	fence_in_flight(f);
	report(f, &f->n1, CIDR_9);
	model_plugin_order(&f->plugin, CALL(FENCE_NETWORK), MODEL_HOLD_DONE, 1, STATUS_OK);
	fake_node_answer(&f->n2);
	UNTIL(f, f->plugin.calls[CALL(FENCE_NETWORK)] == 2);
	settle(f);
	assert_true(is_in(f, FENCE_SENT));
	assert_kept(f);
	fake_node_answer(&f->n2);
	wait_for(f, FENCE_RECORDED);
	assert_true(is_fenced_whole(f));
	assert_int_equal(claim_of(f, ALLOC_1).evidence, EVIDENCE_NETWORK_FENCE);
}

WORLD_TEST(an_address_that_cannot_be_fenced_keeps_the_claims_of_a_fence_in_flight)
{
	fence_in_flight(f);
	report(f, &f->n1, "192.0.2.0/23");
	fake_node_answer(&f->n2);
	wait_for(f, FENCE_FAILED);
	assert_kept(f);
	assert_contains(fence_of(f)->error, "larger than a /24");
}

/* Its mount writes from there. */
WORLD_TEST(an_address_that_is_reported_in_the_fenced_boot_is_fenced_as_well)
{
	lose(f, &f->n1);
	must_fence(f);
	wait_for(f, FENCE_RECORDED);
	settle(f);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	settle(f);
	assert_int_equal(f->plugin.calls[CALL(FENCE_NETWORK)], 1);
	report(f, &f->n1, CIDR_9);
	UNTIL(f, model_plugin_is_fenced(&f->plugin, CIDR_9));
	wait_for(f, FENCE_RECORDED);
	assert_true(is_fenced_whole(f));
	assert_int_equal(fence_of(f)->freed, 1);
	lose(f, &f->n1);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	wait_for(f, FENCE_LIFTED);
	assert_false(is_fenced(f) || model_plugin_is_fenced(&f->plugin, CIDR_9));
}

/* Its work runs, and no claim was freed. */
WORLD_TEST(a_fence_that_failed_asks_no_other_controller_about_a_node_that_is_back)
{
	connect_n3(w);
	lose(f, &f->n1);
	model_plugin_order(&f->plugin, CALL(FENCE_NETWORK), MODEL_HOLD, 1, STATUS_OK);
	must_fence(f);
	UNTIL(f, f->n2.n_held == 1 || w->n3.n_held == 1);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	settle(f);
	fake_node_answer(f->n2.n_held == 1 ? &f->n2 : &w->n3); /* INTERNAL */
	settle(f);
	assert_int_equal(f->plugin.calls[CALL(FENCE_NETWORK)], 1);
	assert_int_equal(fence_of(f)->freed, 0);
	assert_false(is_fenced(f));
}

/* The node is connected, and another one writes. */
WORLD_TEST(the_next_controller_fences_a_later_address_if_the_first_one_fails)
{
	connect_n3(w);
	lose(f, &f->n1);
	must_fence(f);
	wait_for(f, FENCE_RECORDED);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	settle(f);
	model_plugin_order(&f->plugin, CALL(FENCE_NETWORK), MODEL_FAIL, 1, STATUS_INTERNAL);
	report(f, &f->n1, CIDR_9);
	UNTIL(f, model_plugin_is_fenced(&f->plugin, CIDR_9));
	wait_for(f, FENCE_RECORDED);
	assert_true(is_fenced_whole(f));
}

/* Nothing proves that the storage refuses it: that is an alarm. */
WORLD_TEST(an_address_that_no_controller_fences_is_an_alarm)
{
	lose(f, &f->n1);
	must_fence(f);
	wait_for(f, FENCE_RECORDED);
	settle(f);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	model_plugin_order(&f->plugin, CALL(FENCE_NETWORK), MODEL_NOT_HERE, 1, STATUS_OK);
	report(f, &f->n1, CIDR_9);
	wait_for(f, FENCE_FAILED); /* not refused: it is in force for the others */
	assert_int_equal(metric_of(f, "fences_unproved"), 1);
	assert_int_equal(metric_of(f, "network_fences_in_force"), 1);
}

/* After a restore: the server may have forgotten addresses. */
WORLD_TEST(a_node_that_has_not_reported_in_this_epoch_is_not_fenced_by_its_addresses)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct error err;
	struct node node;

	lose(f, &f->n1);
	node = state_node(&f->server->state, "n1")->node;
	node.report_wanted = true;
	change_put_node(&change, &node);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	assert_error(fence(f, &err), STATUS_FAILED_PRECONDITION, err, "has not reported in this epoch");
	assert_null(fence_of(f));
	assert_kept(f);
}

WORLD_TEST(a_node_that_has_reported_no_address_in_this_boot_is_not_fenced)
{
	struct error err;

	lose(f, &f->n1);
	f->n1.csi.clients[0] = NULL;
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	lose(f, &f->n1);
	assert_error(fence(f, &err), STATUS_FAILED_PRECONDITION, err, "has not reported in this boot");
	assert_int_equal(fence_as(f, &(const struct wanted){.plugin_id = "nfs"}, &err),
			 STATUS_FAILED_PRECONDITION);
	assert_int_equal(fence_as(f, &(const struct wanted){.plugin_id = "a/b"}, &err),
			 STATUS_INVALID_ARGUMENT);
}

WORLD_TEST(a_node_is_not_fenced_by_addresses_of_an_earlier_boot)
{
	static char *cidrs[] = {"192.0.2.7/32"};
	Holdfast__V1__FenceClients clients =
		V1(fence_clients, .boot_id = TEXT(BOOT_1), .cidrs = cidrs, .n_cidrs = ARRAY_SIZE(cidrs));
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct error err;

	lose(f, &f->n1);
	f->n1.csi.clients[0] = NULL;
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	lose(f, &f->n1);
	change_put_record(&change, PREFIX_FENCE_CLIENTS "n1/" CSI_PLUGIN, &clients.base);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	assert_error(fence(f, &err), STATUS_FAILED_PRECONDITION, err, "has not reported in this boot");
}

/* --- addresses of another machine --- */

/* n1 is MACHINE_1, and away. */
static void lose_first(struct fixture *f)
{
	lose(f, &f->n1);
	f->n1.machine = MACHINE_1;
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	lose(f, &f->n1);
}

/* n1 is MACHINE_2, and connected. */
static void replace_first(struct fixture *f, const char *cidr)
{
	struct error err;

	f->n1.machine = MACHINE_2;
	f->n1.csi.clients[0] = cidr;
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0); /* it is refused */
	assert_succeeds(identify(f, "n1", MACHINE_2, &err), err);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	settle(f);
}

/* The storage refuses the first machine, and its claim is free. */
static void fence_first(struct fixture *f)
{
	lose_first(f);
	must_fence(f);
	wait_for(f, FENCE_RECORDED);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
}

static void assert_kept_by_fence(struct fixture *f, const char *node_id)
{
	struct error err;

	assert_error(fence_as(f, &(const struct wanted){.node_id = node_id}, &err),
		     STATUS_FAILED_PRECONDITION, err, "holdfast node fence n1 --network ebs --lift");
	assert_true(is_in(f, FENCE_RECORDED) && is_fenced(f));
	assert_string_equal(fence_of(f)->boot_id, BOOT_1);
}

static void lift_first(struct fixture *f)
{
	struct error err;

	assert_succeeds(fence_as(f, &(const struct wanted){.lift = true}, &err), err);
	wait_for(f, FENCE_LIFTED);
	assert_false(is_fenced(f));
}

/* n3 reports the address of the first machine, is lost, and asks to be fenced by it: its return would lift.
 */
static void steal_address(struct world *w)
{
	struct fixture *f = w->f;
	char warning[FENCE_CLIENTS_WARNING_SIZE];

	connect_n3(w);
	w->n3.csi.has_node = true;
	report(f, &w->n3, CIDR_1);
	assert_string_equal(clients_of(f, "n3")->other_node_id, "n1");
	assert_true(fence_clients_warning(f->server, warning));
	assert_contains(warning, "--lift");
	lose(f, &w->n3);
	assert_kept_by_fence(f, "n3");
	lift_first(f);
	assert_false(fence_clients_warning(f->server, warning));
	assert_int_equal(fence_as(f, &(const struct wanted){.node_id = "n3"}, NULL), STATUS_OK);
}

WORLD_TEST(a_node_with_an_address_of_a_former_machine_that_the_storage_refuses_is_not_fenced)
{
	fence_first(f);
	replace_first(f, CIDR_9);
	steal_address(w);
}

WORLD_TEST(a_node_with_an_address_of_a_purged_node_that_the_storage_refuses_is_not_fenced)
{
	fence_first(f);
	assert_int_equal(purge(f, "n1", NULL), STATUS_OK);
	steal_address(w);
}

TEST(a_fence_of_the_next_machine_waits_until_that_of_the_former_one_is_lifted)
{
	static const char *const cidrs[] = {CIDR_1, CIDR_9};

	for (size_t i = 0; i < ARRAY_SIZE(cidrs); i++) {
		struct fixture *f;
		void *made;

		assert_int_equal(setup_world(&made), 0);
		f = ((struct world *)made)->f;
		fence_first(f);
		replace_first(f, cidrs[i]);
		lose(f, &f->n1);
		assert_kept_by_fence(f, "n1");
		fake_node_connect(&f->n1, "n1", BOOT_3, NULL, 0);
		settle(f);
		assert_true(is_in(f, FENCE_RECORDED) && is_fenced(f));
		lift_first(f);
		lose(f, &f->n1);
		must_fence(f);
		wait_for(f, FENCE_RECORDED);
		assert_true(model_plugin_is_fenced(&f->plugin, cidrs[i]));
		assert_int_equal(teardown_world(&made), 0);
	}
}

/* Else the storage would refuse the node without a record, if no controller took the repeat. */
WORLD_TEST(a_repeat_of_a_fence_is_in_force_from_its_beginning)
{
	struct error err;

	fence_first(f);
	assert_succeeds(
		fences_begin(f->server, state_node(&f->server->state, "n1"), CSI_PLUGIN, "again", &err), err);
	assert_true(is_in(f, FENCE_SENT) && fence_of(f)->touched);
	lose(f, &f->n2);
	run_for(f->event, FENCE_NETWORK_MAX_MS + 10000);
	assert_true(fence_is_in_force((enum fence_state)fence_of(f)->state));
	connect_n3(w);
	must_fence(f);
	wait_for(f, FENCE_RECORDED);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	wait_for(f, FENCE_LIFTED);
}

/* Two plugins may have one storage: the lift at one would end the fence at the other. */
WORLD_TEST(a_node_is_not_fenced_while_the_fence_of_its_last_boot_at_another_plugin_is_lifted)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	Holdfast__V1__Fence other;
	struct error err;

	fence_first(f);
	other = *fence_of(f);
	other.plugin_id = TEXT("nfs"); /* has no controller that could lift it */
	change_put_record(&change, PREFIX_FENCE "n1/nfs", &other.base);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	wait_for(f, FENCE_LIFTED);
	assert_string_equal(clients_of(f, "n1")->other_node_id, ""); /* its own fence is no alarm */
	lose(f, &f->n1);
	assert_error(fence(f, &err), STATUS_FAILED_PRECONDITION, err, "at plugin nfs is being lifted");
}

WORLD_TEST(a_fence_frees_the_claims_of_a_former_machine_while_the_next_one_is_connected)
{
	lose_first(f);
	replace_first(f, CIDR_9);
	assert_int_equal(count_clients(f, "n1"), 2);
	assert_contains(why(f), "holdfast node fence n1 --network ebs --reason REASON");
	must_fence(f);
	wait_for(f, FENCE_RECORDED);
	assert_string_equal(fence_of(f)->boot_id, BOOT_1);
	assert_string_equal(fence_of(f)->machine, MACHINE_1);
	assert_false(fence_of(f)->alive);
	assert_true(is_fenced(f));
	assert_false(model_plugin_is_fenced(&f->plugin, CIDR_9));
	assert_int_equal(claim_of(f, ALLOC_1).evidence, EVIDENCE_NETWORK_FENCE);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	take_claim(f, &f->n1, "db", ALLOC_2); /* the next one is not fenced */
	fake_node_send_fingerprint(&f->n1);
	settle(f);
	assert_int_equal(count_clients(f, "n1"), 1);
	lift_first(f);
}

/* The answer to a person who fences would be the lift. */
WORLD_TEST(a_former_machine_is_not_fenced_while_its_fence_is_lifted)
{
	struct error err;

	lose_first(f);
	replace_first(f, CIDR_9);
	model_plugin_order(&f->plugin, CALL(LIST_FENCED), MODEL_FAIL, 1, STATUS_INTERNAL);
	must_fence(f);
	wait_for(f, FENCE_FAILED); /* its claim stays */
	model_plugin_order(&f->plugin, CALL(UNFENCE_NETWORK), MODEL_FAIL, 2, STATUS_INTERNAL);
	assert_succeeds(fence_as(f, &(const struct wanted){.lift = true}, &err), err);
	UNTIL(f, is_in(f, FENCE_LIFTING));
	assert_error(fence(f, &err), STATUS_FAILED_PRECONDITION, err, "is being lifted");
	wait_for(f, FENCE_LIFTED);
	must_fence(f);
	wait_for(f, FENCE_RECORDED);
	assert_string_equal(fence_of(f)->boot_id, BOOT_1);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	lift_first(f);
}

/* A person insists on the one that is connected; one that is away and has claims comes first. */
WORLD_TEST(the_present_machine_is_fenced_before_a_former_one)
{
	register_csi(f, "logs");
	lose_first(f);
	replace_first(f, CIDR_9);
	take_claim(f, &f->n1, "logs", ALLOC_2);
	lose(f, &f->n1);
	assert_null(strstr(why(f), "--network")); /* it would not be the fence of that claim */
	must_fence(f);
	wait_for(f, FENCE_RECORDED);
	assert_string_equal(fence_of(f)->boot_id, BOOT_2);
	assert_false(is_fenced(f));
	fake_node_connect(&f->n1, "n1", BOOT_3, NULL, 0);
	wait_for(f, FENCE_LIFTED);
	assert_int_equal(fence_as(f, &(const struct wanted){.alive = true}, NULL), STATUS_OK);
	wait_for(f, FENCE_RECORDED);
	assert_string_equal(fence_of(f)->boot_id, BOOT_3);
	assert_false(is_fenced(f));
}

WORLD_TEST(a_fence_of_a_former_machine_that_would_stop_the_next_one_is_refused)
{
	struct error err;

	lose_first(f);
	replace_first(f, CIDR_1);
	assert_error(fence(f, &err), STATUS_FAILED_PRECONDITION, err, "give node n1 another address");
	assert_false(is_fenced(f));
	f->n1.csi.clients[0] = CIDR_9;
	lose(f, &f->n1);
	fake_node_connect(&f->n1, "n1", BOOT_3, NULL, 0);
	settle(f);
	must_fence(f);
	wait_for(f, FENCE_RECORDED);
	assert_true(is_fenced(f));
}

/* A version that did not note the machine has stored the report. */
WORLD_TEST(a_fence_by_a_report_of_an_unknown_machine_is_not_lifted_by_the_next_one)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	Holdfast__V1__FenceClients clients;
	struct error err;

	lose_first(f);
	clients = *clients_of(f, "n1");
	clients.machine = TEXT("");
	change_put_record(&change, PREFIX_FENCE_CLIENTS "n1/" CSI_PLUGIN, &clients.base);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	f->n1.machine = MACHINE_2;
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0); /* it is refused */
	assert_succeeds(identify(f, "n1", MACHINE_2, &err), err);
	must_fence(f);
	wait_for(f, FENCE_RECORDED);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	settle(f);
	assert_true(is_in(f, FENCE_RECORDED) && is_fenced(f));
	lift_first(f);
}

/* A look at all nodes for each alarm would cost their square. */
WORLD_TEST(an_alarm_looks_at_the_node_that_it_names_until_the_next_report)
{
	connect_n3(w);
	w->n3.csi.has_node = true;
	report(f, &f->n2, CIDR_1);
	report(f, &w->n3, CIDR_1);
	assert_string_equal(clients_of(f, "n3")->other_node_id, "n1");
	assert_int_equal(fence_clients_refused(f->server), 2);
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	lose(f, &f->n1);
	assert_int_equal(purge(f, "n1", NULL), STATUS_OK);
	settle(f);
	assert_int_equal(fence_clients_refused(f->server), 0);
	report(f, &w->n3, CIDR_1);
	assert_string_equal(clients_of(f, "n3")->other_node_id, "n2");
	assert_int_equal(fence_clients_refused(f->server), 1);
	lose(f, &w->n3);
	assert_int_equal(fence_as(f, &(const struct wanted){.node_id = "n3"}, NULL),
			 STATUS_FAILED_PRECONDITION);
}

/* --- by the server itself --- */

enum { AFTER_MS = 20000 };

static void want_fence(struct fixture *f)
{
	Holdfast__V1__OnNodeLoss loss =
		V1(on_node_loss, .after_ms = AFTER_MS,
		   .do_ = HOLDFAST__V1__NODE_LOSS_ACTION__NODE_LOSS_ACTION_NETWORK_FENCE);
	Holdfast__V1__VolumeDetail detail = V1(volume_detail, .on_node_loss = &loss);
	cleanup(change_release) struct change change = CHANGE_INIT;

	change_put_record(&change, PREFIX_VOLUME_DETAIL "default/db", &detail.base);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	run_idle(f->event);
}

static Holdfast__V1__PlanFencesResponse *plan_of(struct fixture *f)
{
	Holdfast__V1__PlanFencesRequest request = HOLDFAST__V1__PLAN_FENCES_REQUEST__INIT;
	ProtobufCMessage *response = NULL;

	assert_int_equal(call(&f->operator, FENCES, "Plan", &request.base, &response, NULL), STATUS_OK);
	return (Holdfast__V1__PlanFencesResponse *)(void *)response;
}

WORLD_TEST(a_lost_node_is_fenced_by_the_server_after_the_volumes_time)
{
	Holdfast__V1__PlanFencesResponse *plan;

	f->server->config.heartbeat_us = USEC_PER_SEC;
	f->server->config.fence_max_per_minute = 3;
	f->n2.csi.can_fence = false;
	fake_node_send_fingerprint(&f->n2);
	want_fence(f);
	run_for(f->event,
		NODES_GRACE_MS + (unsigned int)(f->server->config.etcd.lease_us / USEC_PER_MSEC) + 3000);
	lose(f, &f->n1);
	run_for(f->event, AFTER_MS + 2 * LOSS_LOOK_MS);
	assert_null(fence_of(f));
	plan = plan_of(f);
	assert_int_equal(plan->n_plans, 1);
	assert_string_equal(plan->plans[0]->plugin_id, CSI_PLUGIN);
	assert_non_null(strstr(plan->plans[0]->verdict, "no connected node other than n1"));
	protobuf_c_message_free_unpacked(&plan->base, NULL);
	f->n2.csi.can_fence = true;
	fake_node_send_fingerprint(&f->n2);
	UNTIL(f, fence_of(f));
	wait_for(f, FENCE_RECORDED);
	assert_true(fence_of(f)->automatic);
	assert_int_equal(claim_of(f, ALLOC_1).evidence, EVIDENCE_NETWORK_FENCE);
	plan = plan_of(f);
	assert_int_equal(plan->n_plans, 0);
	protobuf_c_message_free_unpacked(&plan->base, NULL);
}

/* A dead node makes no change of its own with which its end could be stored. */
WORLD_TEST(a_node_that_dies_during_a_refused_restore_is_lost)
{
	const struct node_entry *n1 = state_node(&f->server->state, "n1");

	want_fence(f);
	f->server->is_superseded = true; /* a restore is prepared */
	fake_node_disconnect(&f->n1);
	UNTIL(f, !node_is_connected(n1));
	run_for(f->event, 1500);
	assert_true(n1->is_end_due);
	f->server->is_superseded = false; /* the copy was refused */
	UNTIL(f, !n1->is_end_due);
	settle(f);
	assert_string_equal(policy_of(f), "volume");
	restart(f);
	assert_true(state_node(&f->server->state, "n1")->node.disconnected_ms > 0);
}

WORLD_TEST(a_node_that_was_purged_is_not_stored_again_for_the_end_of_its_session)
{
	struct node_entry *n1 = state_node(&f->server->state, "n1");
	uint64_t revision;

	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	lose(f, &f->n1);
	assert_int_equal(attest(f, "n1", NULL, "it is gone", 0, false, NULL, NULL), STATUS_OK);
	UNTIL(f, n1->n_live == 0);
	assert_int_equal(purge(f, "n1", NULL), STATUS_OK);
	assert_ptr_equal(n1, state_node(&f->server->state, "n1")); /* its allocation names it */
	settle(f);
	revision = kv_revision(f->server->kv);
	n1->is_end_due = f->server->has_ends_due = true;
	UNTIL(f, !f->server->has_ends_due);
	settle(f);
	assert_int_equal(kv_revision(f->server->kv), revision);
}

/* A power fence is wanted, too, and no fencer is here. */
WORLD_TEST(no_lost_node_is_fenced_at_a_storage_while_fewer_than_half_are_connected)
{
	Holdfast__V1__PlanFencesResponse *plan;

	f->server->config.heartbeat_us = USEC_PER_SEC;
	f->server->config.fence_max_per_minute = 3;
	connect_n3(w);
	want_fence(f);
	lose(f, &w->n3);
	lose(f, &f->n1);
	run_for(f->event, NODES_GRACE_MS + (unsigned int)(f->server->config.etcd.lease_us / USEC_PER_MSEC) +
				  AFTER_MS + 3000);
	plan = plan_of(f);
	assert_int_equal(plan->n_plans, 1);
	assert_string_equal(plan->plans[0]->verdict, "fewer than half of the nodes are connected");
	protobuf_c_message_free_unpacked(&plan->base, NULL);
	assert_null(fence_of(f));
	assert_false(is_fenced(f));
	connect_n3(w);
	UNTIL(f, fence_of(f));
	wait_for(f, FENCE_RECORDED);
}

WORLD_TEST(each_fence_that_volumes_want_of_a_lost_node_is_planned)
{
	Holdfast__V1__VolumeDetail detail = HOLDFAST__V1__VOLUME_DETAIL__INIT;
	Holdfast__V1__OnNodeLoss loss = HOLDFAST__V1__ON_NODE_LOSS__INIT;
	Holdfast__V1__PlanFencesResponse *plan;

	want_fence(f);
	{
		cleanup(change_release) struct change change = CHANGE_INIT;
		struct claim other = claim_of(f, ALLOC_1);

		register_csi(f, "logs");
		(void)str_copy(other.id, sizeof(other.id), ALLOC_3);
		(void)str_copy(other.allocation_id, sizeof(other.allocation_id), ALLOC_3);
		(void)str_copy(other.volume_id, sizeof(other.volume_id), "logs");
		change_put_claim(&change, &other);
		loss.after_ms = AFTER_MS;
		loss.do_ = HOLDFAST__V1__NODE_LOSS_ACTION__NODE_LOSS_ACTION_POWER_FENCE;
		detail.on_node_loss = &loss;
		change_put_record(&change, PREFIX_VOLUME_DETAIL "default/logs", &detail.base);
		assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
		run_idle(f->event);
	}
	lose(f, &f->n1);
	plan = plan_of(f);
	assert_int_equal(plan->n_plans, 2);
	assert_string_equal(plan->plans[0]->plugin_id, "");
	assert_string_equal(plan->plans[0]->volume_id, "logs");
	assert_string_equal(plan->plans[1]->plugin_id, CSI_PLUGIN);
	assert_string_equal(plan->plans[1]->volume_id, "db");
	protobuf_c_message_free_unpacked(&plan->base, NULL);
}

WORLD_TEST(a_refusal_names_the_fence_once_the_storage_can_refuse_the_node)
{
	cleanup_pb ProtobufCMessage *response = NULL;
	Holdfast__V1__GetVolumeRequest request = V1(get_volume_request, .id = "db", .why = true);

	lose(f, &f->n1);
	assert_ok(call(&f->operator, & holdfast__v1__volumes__descriptor, "Get", &request.base, &response,
		       NULL));
	assert_contains(((Holdfast__V1__GetVolumeResponse *)(void *)response)->why,
			"holdfast node fence n1 --network ebs --reason REASON");
}

static uint64_t index_of(struct fixture *f)
{
	return records_from(&f->server->state.records, PREFIX_FENCE "n1/" CSI_PLUGIN)->record.modify_index;
}

static unsigned int n_lifts(struct fixture *f)
{
	return f->plugin.calls[CALL(UNFENCE_NETWORK)];
}

/* n1 is back in another boot, and the storage refuses each lift. */
static void fail_lifts(struct fixture *f)
{
	lose(f, &f->n1);
	must_fence(f);
	wait_for(f, FENCE_RECORDED);
	model_plugin_order(&f->plugin, CALL(UNFENCE_NETWORK), MODEL_FAIL, 1000, STATUS_INTERNAL);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	UNTIL(f, is_in(f, FENCE_LIFTING) && strstr(fence_of(f)->error, "the model says no"));
	run_idle(f->event);
}

static void report_changes(struct fixture *f, struct fake_node *node)
{
	for (int i = 0; i < 20; i++) {
		node->certificate_issuer = i % 2 ? "AA" : "BB";
		fake_node_send_fingerprint(node);
		run_idle(f->event);
	}
}

/* Any node can report any number of changes. */
WORLD_TEST(a_lift_that_fails_is_repeated_by_time_and_by_no_report)
{
	w->n3.csi = (struct fake_csi){.has_node = true};
	fake_node_connect(&w->n3, "n3", BOOT_1, NULL, 0);
	fail_lifts(f);
	assert_int_equal(n_lifts(f), 1);
	report_changes(f, &w->n3);
	report_changes(f, &f->n1); /* the fenced one */
	report_changes(f, &f->n2); /* with the controller */
	assert_int_equal(n_lifts(f), 1);
	model_plugin_order(&f->plugin, CALL(UNFENCE_NETWORK), MODEL_OK, 1, STATUS_OK);
	run_for(f->event, 10 * 1000);
	wait_for(f, FENCE_LIFTED);
}

/* Each failure would be stored with the other one's name, and that would begin the next lift. */
WORLD_TEST(two_controllers_that_fail_to_lift_are_asked_in_turn_once_a_look)
{
	int n2_before, n3_before;
	uint64_t index;

	connect_n3(w);
	fail_lifts(f);
	assert_int_equal(n_lifts(f), 1);
	run_for(f->event, 20 * 1000);
	assert_in_range(n_lifts(f), 3, 5);
	assert_int_equal(
		n_events(f, "node n1", "Fences.Step", "controller on node n2: plugin ebs on node n2"), 1);
	assert_int_equal(
		n_events(f, "node n1", "Fences.Step", "controller on node n3: plugin ebs on node n3"), 1);
	index = index_of(f);
	n2_before = f->n2.calls;
	n3_before = w->n3.calls;
	run_for(f->event, 60 * 1000);
	assert_in_range(n_lifts(f), 14, 17);
	assert_int_equal(index_of(f), index);
	assert_true(f->n2.calls >= n2_before + 5 && w->n3.calls >= n3_before + 5);
}

/* Connects a controller on node @id, which the fixture lacks. */
static void connect_other(struct fixture *f, struct fake_node *node, const char *id)
{
	struct caller_client as;
	char uri[RPC_URI_SIZE];

	(void)str_format(uri, sizeof(uri), "holdfast://c1/node/%s", id);
	caller_init(&as, f, uri, NULL);
	*node = (struct fake_node){.event = f->event,
				   .tls = as.tls,
				   .client = as.client,
				   .plugin = &f->plugin,
				   .csi = {.has_controller = true, .can_fence = true}};
	fake_node_connect(node, id, BOOT_1, NULL, 0);
}

WORLD_TEST(three_controllers_that_fail_to_lift_are_on_record_and_no_fourth)
{
	struct fake_node n4, n5;
	size_t n = 0;

	connect_n3(w);
	connect_other(f, &n4, "n4");
	connect_other(f, &n5, "n5");
	fail_lifts(f);
	run_for(f->event, 60 * 1000);
	for (int i = 2; i <= 5; i++) {
		char text[64];

		(void)str_format(text, sizeof(text), "controller on node n%d: plugin ebs on node n%d", i, i);
		n += n_events(f, "node n1", "Fences.Step", text);
	}
	assert_int_equal(n, FENCE_TRIES_MAX);
	assert_true(n4.calls > 0 && n5.calls > 0);
	fake_node_release(&n4);
	fake_node_release(&n5);
}

WORLD_TEST(a_controller_that_connects_lifts_a_fence_without_a_look)
{
	lose(f, &f->n1);
	must_fence(f);
	wait_for(f, FENCE_RECORDED);
	lose(f, &f->n2);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	UNTIL(f, is_in(f, FENCE_LIFTING));
	run_idle(f->event);
	assert_int_equal(n_lifts(f), 0);
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	run_idle(f->event);
	assert_true(is_in(f, FENCE_LIFTED));
}

/* The error that is shown is not of a controller that has left. */
WORLD_TEST(a_lift_shows_the_failure_of_a_controller_that_is_there)
{
	connect_n3(w);
	fail_lifts(f);
	run_for(f->event, 20 * 1000);
	lose(f, strcmp(fence_of(f)->fencer, "n3") == 0 ? &w->n3 : &f->n2);
	run_for(f->event, 20 * 1000);
	assert_contains(fence_of(f)->error, f->n2.stream ? "on node n2" : "on node n3");
	assert_string_equal(fence_of(f)->fencer, f->n2.stream ? "n2" : "n3");
}

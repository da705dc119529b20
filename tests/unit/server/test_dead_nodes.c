/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that do not come back: allocations without a claim are lost and replaced, those with a claim wait
 * for evidence. */

#include "asks.h"
#include "cluster.h"
#include "submission.h"
#include "unit.h"

#include "base/str.h"
#include "node/down.h"
#include "state/change.h"
#include "state/keys.h"

#include <holdfast/v1/types.pb-c.h>
#include <string.h>

/* A job without volumes, of so many members. */
static void run_plain_job(struct fixture *f, struct submission *s, uint32_t count)
{
	make_job(f, s);
	s->alloc.n_volumes = 0;
	s->plugin.id = text("nfs");
	s->plugin.type = HOLDFAST__V1__CSI_PLUGIN_TYPE__CSI_PLUGIN_TYPE_MONOLITH;
	s->alloc.csi_plugins = s->plugins;
	s->alloc.n_csi_plugins = 1;
	s->group.count = count;
	assert_int_equal(run(f, s, NULL), 1);
}

/* Node n1 runs the one member of job web. Its entry; n2 is connected after that. */
static const struct alloc_entry *run_on_first(struct fixture *f, struct submission *s)
{
	const struct alloc_entry *alloc;

	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	run_plain_job(f, s, 1);
	UNTIL(f, f->n1.runs == 1);
	fake_node_send_alloc(&f->n1, f->n1.last_run, HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	alloc = state_alloc(&f->server->state, f->n1.last_run);
	UNTIL(f, alloc->alloc.client_status == CLIENT_RUNNING);
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	settle(f);
	return alloc;
}

static void bring_down(struct fixture *f)
{
	lose(f, &f->n1);
	f->server->config.node_down_after_us = 0;
	node_down_rearm(f->server);
	UNTIL(f, f->server->state.n_nodes_down == 1);
	settle(f);
}

static enum client_status client_of(struct fixture *f, const char *id)
{
	return state_alloc(&f->server->state, id)->alloc.client_status;
}

CLUSTER_TEST(a_job_replaces_an_allocation_without_a_claim_when_its_node_is_down)
{
	const struct alloc_entry *alloc;
	struct submission s;

	alloc = run_on_first(f, &s);
	lose(f, &f->n1);
	settle(f);
	assert_int_equal(alloc->alloc.client_status, CLIENT_RUNNING); /* it may come back */
	assert_int_equal(f->n2.runs, 0);
	bring_down(f);
	assert_int_equal(alloc->alloc.client_status, CLIENT_LOST);
	assert_string_equal(alloc_description(&alloc->alloc), "its node is down");
	assert_int_equal(f->n2.runs, 1); /* without a delay: it is no failure of its work */
	assert_string_not_equal(f->n2.last_run, alloc->id);
}

CLUSTER_TEST(a_lost_allocation_is_ordered_to_stop_when_its_node_comes_back)
{
	Holdfast__V1__AllocStatus status = HOLDFAST__V1__ALLOC_STATUS__INIT;
	Holdfast__V1__AllocStatus *statuses[] = {&status};
	const struct alloc_entry *alloc;
	struct submission s;

	alloc = run_on_first(f, &s);
	bring_down(f);
	status.alloc_id = text(alloc->id);
	status.client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING;
	fake_node_connect(&f->n1, "n1", BOOT_1, statuses, 1);
	UNTIL(f, f->n1.stops == 1);
	assert_string_equal(f->n1.last_stop, alloc->id);
	settle(f);
	assert_int_equal(f->n1.runs, 0);
	fake_node_send_alloc(&f->n1, alloc->id, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, f->n1.forgets == 1);
	assert_int_equal(alloc->alloc.client_status, CLIENT_LOST);
	assert_int_equal(n_allocs(f), 2);
}

CLUSTER_TEST(an_allocation_with_a_claim_stays_when_its_node_is_down)
{
	struct submission s;
	char plain[UUID_TEXT_SIZE];

	take_volume(f);
	assert_int_equal(set_eligible(f, "n2", false, NULL), STATUS_OK);
	run_plain_job(f, &s, 1);
	UNTIL(f, !str_eq(f->n1.last_run, ALLOC_1));
	(void)str_copy(plain, sizeof(plain), f->n1.last_run);
	bring_down(f);
	assert_int_equal(client_of(f, plain), CLIENT_LOST);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN); /* no timer releases anything */
	assert_false(alloc_is_client_terminal(&state_alloc(&f->server->state, ALLOC_1)->alloc));
	assert_int_equal(purge(f, "n1", NULL), STATUS_FAILED_PRECONDITION);
	assert_false(alloc_is_client_terminal(&state_alloc(&f->server->state, ALLOC_1)->alloc));
}

CLUSTER_TEST(an_allocation_that_has_not_run_waits_for_its_node_until_a_purge)
{
	connect_both(f);
	lose(f, &f->n1);
	assert_int_equal(run_alloc(f, ALLOC_1, "n1", NULL), STATUS_OK);
	bring_down(f);
	assert_int_equal(client_of(f, ALLOC_1), CLIENT_PENDING);
	assert_int_equal(purge(f, "n1", NULL), STATUS_OK);
	assert_int_equal(client_of(f, ALLOC_1), CLIENT_LOST);
}

CLUSTER_TEST(a_purge_takes_the_allocations_that_hold_no_claim)
{
	const struct alloc_entry *alloc;
	char id[UUID_TEXT_SIZE];
	struct submission s;

	alloc = run_on_first(f, &s);
	(void)str_copy(id, sizeof(id), alloc->id);
	lose(f, &f->n1);
	assert_int_equal(purge(f, "n1", NULL), STATUS_OK); /* nothing to stop first, and not down yet */
	assert_int_equal(alloc->alloc.client_status, CLIENT_LOST);
	assert_string_equal(alloc_description(&alloc->alloc), "its node was purged");
	UNTIL(f, f->n2.runs == 1);
	assert_null(get_node(f, "n1", NULL));
	restart(f);
	assert_int_equal(client_of(f, id), CLIENT_LOST);
}

CLUSTER_TEST(a_job_whose_node_is_down_can_be_stopped_and_purged)
{
	struct submission s;

	(void)run_on_first(f, &s);
	lose(f, &f->n1);
	assert_int_equal(stop_job(f, false, NULL), STATUS_OK);
	settle(f);
	bring_down(f);
	assert_int_equal(stop_job(f, true, NULL), STATUS_OK);
	assert_int_equal(f->n2.runs, 0);
}

CLUSTER_TEST(a_drain_of_a_node_that_is_down_ends)
{
	cleanup_pb Holdfast__V1__DrainNodeResponse *response = NULL;
	const struct node_entry *node;
	struct submission s;

	(void)run_on_first(f, &s);
	lose(f, &f->n1);
	response = NON_NULL(drain_node(f, "n1", false, NULL));
	settle(f);
	node = state_node(&f->server->state, "n1");
	assert_int_equal(node->node.drain.done_ms, 0);
	bring_down(f);
	assert_int_not_equal(node->node.drain.done_ms, 0);
	assert_int_equal(node->node.status, NODE_DOWN);
	UNTIL(f, f->n2.runs == 1);
}

CLUSTER_TEST(an_attestation_takes_the_allocations_that_hold_no_claim)
{
	struct submission s;
	char plain[UUID_TEXT_SIZE];

	take_volume(f);
	assert_int_equal(set_eligible(f, "n2", false, NULL), STATUS_OK);
	run_plain_job(f, &s, 1);
	UNTIL(f, !str_eq(f->n1.last_run, ALLOC_1));
	(void)str_copy(plain, sizeof(plain), f->n1.last_run);
	lose(f, &f->n1);
	assert_int_equal(set_eligible(f, "n2", true, NULL), STATUS_OK);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	assert_int_equal(attest(f, "n1", NULL, "it burnt", 0, true, NULL, NULL), STATUS_OK);
	settle(f);
	assert_false(alloc_is_client_terminal(&state_alloc(&f->server->state, plain)->alloc));
	assert_int_equal(attest(f, "n1", NULL, "it burnt", 0, false, NULL, NULL), STATUS_OK);
	assert_int_equal(client_of(f, plain), CLIENT_LOST);
	UNTIL(f, f->n2.runs == 1);
}

/* --- a server that starts again looks for lost nodes of which a volume or its holder wants a fence --- */

static Holdfast__V1__OnNodeLoss fence =
	ROW(.base = PROTOBUF_C_MESSAGE_INIT(&holdfast__v1__on_node_loss__descriptor), .after_ms = 20000,
	    .do_ = HOLDFAST__V1__NODE_LOSS_ACTION__NODE_LOSS_ACTION_POWER_FENCE);

/* Allocation ALLOC_1 has db on n1, which is lost; then @record is stored. */
static void strand(struct fixture *f, const char *key, const ProtobufCMessage *record)
{
	cleanup(change_release) struct change change = CHANGE_INIT;

	take_volume(f);
	lose(f, &f->n1);
	change_put_record(&change, key, record);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	settle(f);
	restart(f);
}

CLUSTER_TEST(a_start_finds_the_lost_node_of_a_volume_that_wants_a_fence)
{
	Holdfast__V1__VolumeDetail detail = V1(volume_detail, .on_node_loss = &fence);

	strand(f, PREFIX_VOLUME_DETAIL "default/db", &detail.base);
	assert_string_equal(policy_of(f), "volume");
}

CLUSTER_TEST(a_start_finds_the_lost_node_of_an_allocation_that_wants_a_fence)
{
	Holdfast__V1__AllocationOptions options = V1(allocation_options, .on_node_loss = &fence);

	strand(f, PREFIX_ALLOC_OPTIONS ALLOC_1, &options.base);
	assert_string_equal(policy_of(f), "allocation " ALLOC_1);
}

CLUSTER_TEST(a_start_finds_the_lost_node_of_a_job_that_wants_a_fence)
{
	struct submission s;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	make_job(f, &s);
	s.group.on_node_loss = &fence;
	assert_int_equal(run(f, &s, NULL), 1);
	UNTIL(f, f->n1.runs == 1);
	start_last(f, &f->n1);
	lose(f, &f->n1);
	restart(f);
	assert_string_equal(policy_of(f), "job web, group one");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of plugins beyond their instances: after a restart, for allocations, for those who wait. */

#include "yard.h"

#include "base/clock.h"

#include <malloc.h>
#include <sys/stat.h>

static struct node_plugin facts_of(const char *id)
{
	struct node_plugin facts = {.has_node = true, .healthy = true, .node = {.stage = true}};

	(void)str_copy(facts.plugin_id, sizeof(facts.plugin_id), id);
	(void)str_copy(facts.provider, sizeof(facts.provider), "before.csi.test");
	(void)str_copy(facts.node.provider_node_id, sizeof(facts.node.provider_node_id), "n");
	return facts;
}

static struct plugin_expectation expectation_of(const char *id, const char *alloc_id)
{
	struct plugin_expectation is = {
		.has_controller = true, .has_node = true, .health_timeout_us = 5 * USEC_PER_SEC};

	(void)str_copy(is.plugin_id, sizeof(is.plugin_id), id);
	(void)str_copy(is.alloc_id, sizeof(is.alloc_id), alloc_id);
	return is;
}

YARD_TEST(facts_outlive_the_agent_and_are_not_healthy_before_an_answer)
{
	struct node_plugin facts = facts_of("a");

	yard_open(y, 0);
	yard_mkdir(y, "a");
	assert_int_equal(plugins_restore(y->plugins, &facts, NULL), STATUS_OK);
	assert_int_equal(plugins_restore(y->plugins, &facts, NULL), STATUS_ALREADY_EXISTS);
	assert_false(yard_is_healthy(y, "a"));
	assert_true(yard_entry(y, "a")->health_description[0] != '\0');
	assert_true(plugins_facts(y->plugins, "a")->node.stage);
	assert_int_equal(yard_client(y, "a", PLUGIN_NODE), STATUS_UNAVAILABLE);
	yard_start(y);
	yard_idle(y, 60);
	/* its folder is there, and nobody in it */
	assert_true(plugins_facts(y->plugins, "a") != NULL);
	assert_int_equal(y->drops, 0);
	assert_int_equal(y->stores, 0);
	(void)yard_plugin(y, "a", "csi.sock");
	YARD_UNTIL(y, yard_is_healthy(y, "a"));
	assert_string_equal(y->stored.provider, "fake.csi.test");
}

/* A fence by them could refuse the machine that has them now. */
YARD_TEST(addresses_of_an_earlier_start_are_not_reported)
{
	struct node_plugin facts = facts_of("a");

	(void)str_copy(facts.node.fence_clients[0].cidr, sizeof(facts.node.fence_clients[0].cidr),
		       "192.0.2.9/32");
	facts.node.n_fence_clients = 1;
	yard_open(y, 0);
	yard_mkdir(y, "a");
	assert_int_equal(plugins_restore(y->plugins, &facts, NULL), STATUS_OK);
	assert_int_equal(yard_entry(y, "a")->node.n_fence_clients, 0);
	assert_string_equal(yard_entry(y, "a")->node.fence_clients[0].cidr, "");
	assert_string_equal(yard_entry(y, "a")->node.provider_node_id, "n");
}

YARD_TEST(a_plugin_is_forgotten_with_its_folder)
{
	yard_start(y);
	(void)yard_plugin(y, "a", "csi.sock");
	(void)yard_plugin(y, "b", "csi.sock");
	YARD_UNTIL(y, yard_is_healthy(y, "a") && yard_is_healthy(y, "b"));
	yard_unbind(y, "a", "csi.sock");
	YARD_UNTIL(y, !yard_is_healthy(y, "a"));
	yard_idle(y, 40);
	assert_non_null(yard_entry(y, "a"));
	assert_int_equal(y->drops, 0);
	yard_rmdir(y, "a");
	YARD_UNTIL(y, !yard_entry(y, "a"));
	assert_int_equal(y->drops, 1);
	assert_string_equal(y->last_dropped, "a");
	assert_null(plugins_facts(y->plugins, "a"));
	assert_true(yard_is_healthy(y, "b"));
	/* and comes back with it */
	(void)yard_bind(y, "a", "csi.sock");
	YARD_UNTIL(y, yard_is_healthy(y, "a"));
}

YARD_TEST(known_plugins_are_dropped_only_after_a_folder_scan)
{
	struct plugin_expectation other = expectation_of("other", ALLOC_A);
	struct node_plugin facts = facts_of("gone");

	yard_open(y, 0);
	assert_int_equal(plugins_restore(y->plugins, &facts, NULL), STATUS_OK);
	rmdir(y->dir); /* as before the first plugin of this boot */
	yard_start(y);
	yard_idle(y, 60);
	/* also when everything is looked at for another reason */
	assert_int_equal(plugins_expect(y->plugins, &other, NULL), STATUS_OK);
	yard_idle(y, 30);
	assert_non_null(yard_entry(y, "gone"));
	assert_int_equal(y->drops, 0);
	assert_int_equal(mkdir(y->dir, 0700), 0);
	YARD_UNTIL(y, y->drops == 1);
	assert_null(yard_entry(y, "gone"));
}

YARD_TEST(bad_facts_are_not_restored)
{
	static const char *const ids[] = {"", "native", "Upper", "a/b", "..", ".a"};

	yard_open(y, 0);
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		struct node_plugin facts = facts_of(ids[i]);

		assert_int_equal(plugins_restore(y->plugins, &facts, NULL), STATUS_INVALID_ARGUMENT);
	}
	for (unsigned int i = 0; i <= PLUGINS_MAX; i++) {
		struct node_plugin facts;
		char id[16];

		(void)snprintf(id, sizeof(id), "p%u", i);
		facts = facts_of(id);
		assert_int_equal(plugins_restore(y->plugins, &facts, NULL),
				 i < PLUGINS_MAX ? STATUS_OK : STATUS_RESOURCE_EXHAUSTED);
	}
}

YARD_TEST(an_allocation_gets_to_know_when_its_plugin_is_healthy)
{
	struct plugin_expectation is = expectation_of("a", ALLOC_A);

	yard_start(y);
	assert_int_equal(plugins_expect(y->plugins, &is, NULL), STATUS_OK);
	yard_idle(y, 40);
	assert_int_equal(y->met + y->failed, 0);
	/* an entry that says what it waits for */
	assert_false(yard_is_healthy(y, "a"));
	(void)yard_plugin(y, "a", "csi.sock");
	YARD_UNTIL(y, y->met == 1);
	assert_string_equal(y->last_met, ALLOC_A);
	assert_string_equal(yard_entry(y, "a")->allocation_id, ALLOC_A);
	assert_string_equal(yard_instance(y, "a", "csi.sock")->alloc_id, ALLOC_A);
	yard_idle(y, 40);
	assert_int_equal(y->met, 1);
}

YARD_TEST(an_allocation_gets_to_know_of_each_of_its_plugins)
{
	struct plugin_expectation first = expectation_of("a", ALLOC_A), second = expectation_of("b", ALLOC_A);

	yard_start(y);
	assert_int_equal(plugins_expect(y->plugins, &first, NULL), STATUS_OK);
	assert_int_equal(plugins_expect(y->plugins, &second, NULL), STATUS_OK);
	(void)yard_plugin(y, "b", "csi.sock");
	YARD_UNTIL(y, y->met == 1);
	assert_string_equal(y->last_met_plugin, "b");
	(void)yard_plugin(y, "a", "csi.sock");
	YARD_UNTIL(y, y->met == 2);
	assert_string_equal(y->last_met_plugin, "a");
	assert_string_equal(yard_entry(y, "b")->allocation_id, ALLOC_A);
	plugins_forget(y->plugins, ALLOC_A);
	YARD_UNTIL(y, !yard_entry(y, "a") && !yard_entry(y, "b"));
}

YARD_TEST(a_plugin_that_stands_already_is_the_allocations_from_then_on)
{
	struct plugin_expectation is = expectation_of("a", ALLOC_A);

	yard_start(y);
	(void)yard_plugin(y, "a", "csi.sock");
	YARD_UNTIL(y, yard_is_healthy(y, "a"));
	assert_int_equal(plugins_expect(y->plugins, &is, NULL), STATUS_OK);
	assert_int_equal(y->met, 0); /* not inside */
	YARD_UNTIL(y, y->met == 1);
	YARD_UNTIL(y, str_eq(yard_entry(y, "a")->allocation_id, ALLOC_A));
	assert_string_equal(y->stored.allocation_id, ""); /* the host lends it */
}

static void lend_and_return(struct yard *y, bool is_bound_anew)
{
	struct plugin_expectation is = expectation_of("a", ALLOC_A);

	assert_int_equal(plugins_expect(y->plugins, &is, NULL), STATUS_OK);
	YARD_UNTIL(y, str_eq(yard_entry(y, "a")->allocation_id, ALLOC_A));
	if (is_bound_anew) {
		yard_unbind(y, "a", "csi.sock");
		yard_bind(y, "a", "csi.sock");
		yard_idle(y, 40);
	}
	plugins_forget(y->plugins, ALLOC_A);
	YARD_UNTIL(y, str_eq(yard_entry(y, "a")->allocation_id, ""));
}

/* A stop takes nothing away that the host had before. */
YARD_TEST(a_plugin_of_the_host_continues_when_its_allocation_is_over)
{
	yard_start(y);
	(void)yard_plugin(y, "a", "csi.sock");
	YARD_UNTIL(y, yard_is_healthy(y, "a"));
	for (int is_bound_anew = 0; is_bound_anew <= 1; is_bound_anew++) {
		lend_and_return(y, is_bound_anew != 0);
		YARD_UNTIL(y, yard_client(y, "a", PLUGIN_NODE) == STATUS_OK);
		yard_idle(y, 40);
		assert_true(yard_is_healthy(y, "a"));
		assert_int_equal(y->drops, 0);
	}
}

/* Nor after a restart of the agent in between. */
YARD_TEST(a_plugin_of_the_host_is_known_as_such_after_a_restart)
{
	struct plugin_expectation is = expectation_of("a", ALLOC_A);
	struct node_plugin facts = facts_of("a");

	yard_open(y, 0);
	assert_int_equal(plugins_restore(y->plugins, &facts, NULL), STATUS_OK);
	assert_int_equal(plugins_expect(y->plugins, &is, NULL), STATUS_OK);
	(void)yard_plugin(y, "a", "csi.sock");
	yard_start(y);
	YARD_UNTIL(y, y->met == 1);
	YARD_UNTIL(y, str_eq(yard_entry(y, "a")->allocation_id, ALLOC_A));
	plugins_forget(y->plugins, ALLOC_A);
	YARD_UNTIL(y, yard_client(y, "a", PLUGIN_NODE) == STATUS_OK);
	assert_int_equal(y->drops, 0);
}

YARD_TEST(a_plugin_that_is_not_healthy_in_time_fails_its_allocation_with_the_last_error)
{
	struct plugin_expectation is = expectation_of("a", ALLOC_A);
	struct fake_csi_plugin *plugin;

	is.health_timeout_us = 60 * USEC_PER_MSEC;
	y->forgets_upon_failure = true;
	yard_start(y);
	assert_int_equal(plugins_expect(y->plugins, &is, NULL), STATUS_OK);
	YARD_UNTIL(y, y->failed == 1);
	assert_error(y->last_failure.status, STATUS_UNAVAILABLE, y->last_failure,
		     "a/csi.sock did not appear");
	assert_non_null(strstr(y->last_failure.msg, "holdfast agent status"));

	plugin = yard_plugin(y, "b", "csi.sock");
	plugin->orders[CSI_PROBE] = (struct fake_csi_orders){FAKE_CSI_FAIL, UINT32_MAX,
							     STATUS_FAILED_PRECONDITION, "no such pool"};
	is = expectation_of("b", ALLOC_B);
	is.health_timeout_us = 60 * USEC_PER_MSEC;
	assert_int_equal(plugins_expect(y->plugins, &is, NULL), STATUS_OK);
	YARD_UNTIL(y, y->failed == 2);
	assert_error(y->last_failure.status, STATUS_FAILED_PRECONDITION, y->last_failure, "no such pool");
	assert_int_equal(y->met, 0);
	YARD_UNTIL(y, !yard_entry(y, "a") && !yard_entry(y, "b"));
}

YARD_TEST(a_plugin_without_the_service_that_its_block_names_fails_it)
{
	struct plugin_expectation is = expectation_of("a", ALLOC_A);
	struct fake_csi_plugin *plugin;

	yard_start(y);
	plugin = yard_plugin(y, "a", "csi.sock");
	plugin->n_services = 0;
	YARD_UNTIL(y, yard_is_healthy(y, "a"));
	is.health_timeout_us = 60 * USEC_PER_MSEC;
	assert_int_equal(plugins_expect(y->plugins, &is, NULL), STATUS_OK);
	YARD_UNTIL(y, y->failed + y->met == 1);
	assert_int_equal(y->failed, 1);
	assert_int_equal(y->last_failure.status, STATUS_FAILED_PRECONDITION);
	/* a node plugin has no business with a controller, served or not */
	is = expectation_of("b", ALLOC_B);
	is.has_controller = false;
	plugin = yard_plugin(y, "b", "csi.sock");
	assert_int_equal(plugins_expect(y->plugins, &is, NULL), STATUS_OK);
	YARD_UNTIL(y, y->met == 1);
	assert_int_equal(plugin->calls[CSI_CONTROLLER_GET_CAPABILITIES], 0);
}

YARD_TEST(a_socket_of_an_allocation_that_is_over_is_nobodys)
{
	struct plugin_expectation is = expectation_of("a", ALLOC_A);
	struct fake_csi_plugin *plugin;
	unsigned int probes, changes;

	yard_start(y);
	plugin = yard_plugin(y, "a", "csi.sock");
	assert_int_equal(plugins_expect(y->plugins, &is, NULL), STATUS_OK);
	YARD_UNTIL(y, y->met == 1);
	plugins_forget(y->plugins, ALLOC_B); /* of no consequence */
	yard_idle(y, 30);
	assert_true(yard_is_healthy(y, "a"));
	plugins_forget(y->plugins, ALLOC_A);
	assert_int_equal(yard_client(y, "a", PLUGIN_NODE), STATUS_UNAVAILABLE);
	YARD_UNTIL(y, !yard_entry(y, "a"));
	assert_int_equal(y->drops, 1);
	probes = plugin->calls[CSI_PROBE];
	changes = y->changes;
	/* it stands still, and the folder is looked at again */
	yard_bind(y, "a", "other");
	yard_idle(y, 60);
	assert_null(yard_entry(y, "a"));
	assert_int_equal(y->changes, changes);
	assert_int_equal(plugin->calls[CSI_PROBE], probes);
}

YARD_TEST(another_one_that_binds_the_name_later_is_welcome)
{
	struct plugin_expectation is = expectation_of("a", ALLOC_A);

	yard_start(y);
	(void)yard_plugin(y, "a", "csi.sock");
	assert_int_equal(plugins_expect(y->plugins, &is, NULL), STATUS_OK);
	YARD_UNTIL(y, y->met == 1);
	plugins_forget(y->plugins, ALLOC_A);
	YARD_UNTIL(y, !yard_entry(y, "a"));
	/* the next allocation, before the socket is bound anew: what exists there is of its own making */
	is = expectation_of("a", ALLOC_B);
	assert_int_equal(plugins_expect(y->plugins, &is, NULL), STATUS_OK);
	YARD_UNTIL(y, y->met == 2);
	plugins_forget(y->plugins, ALLOC_B);
	YARD_UNTIL(y, !yard_entry(y, "a"));
	/* the host's own, bound anew */
	yard_unbind(y, "a", "csi.sock");
	yard_bind(y, "a", "csi.sock");
	YARD_UNTIL(y, yard_is_healthy(y, "a"));
	assert_string_equal(yard_entry(y, "a")->allocation_id, "");
}

YARD_TEST(expectations_are_checked)
{
	static const struct {
		const char *id, *alloc, *socket;
		bool controller, node;
		enum status status;
	} rows[] = {
		{"a", ALLOC_A, "", true, false, STATUS_OK},
		{"a", ALLOC_A, "", true, false, STATUS_OK}, /* again */
		{"a", ALLOC_B, "csi.sock", false, true, STATUS_ALREADY_EXISTS},
		{"a", ALLOC_B, "node.sock", false, true, STATUS_OK},
		{"native", ALLOC_B, "", true, true, STATUS_INVALID_ARGUMENT},
		{"A", ALLOC_B, "", true, true, STATUS_INVALID_ARGUMENT},
		{"b", "x", "", true, true, STATUS_INVALID_ARGUMENT},
		{"b", ALLOC_B, "", false, false, STATUS_INVALID_ARGUMENT},
		{"b", ALLOC_B, ".sock", true, true, STATUS_INVALID_ARGUMENT},
		{"b", ALLOC_B, "..sock", true, true, STATUS_INVALID_ARGUMENT},
		{"b", ALLOC_B, "../x.sock", true, true, STATUS_INVALID_ARGUMENT},
		{"b", ALLOC_B, "x/y.sock", true, true, STATUS_INVALID_ARGUMENT},
		{"b", ALLOC_B, "csi.sok", true, true, STATUS_INVALID_ARGUMENT},
		{"b", ALLOC_B, "c\nsi.sock", true, true, STATUS_INVALID_ARGUMENT},
	};

	yard_start(y);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct plugin_expectation is = expectation_of(rows[i].id, rows[i].alloc);

		(void)str_copy(is.socket, sizeof(is.socket), rows[i].socket);
		is.has_controller = rows[i].controller;
		is.has_node = rows[i].node;
		assert_int_equal(plugins_expect(y->plugins, &is, NULL), rows[i].status);
	}
}

YARD_TEST(allocations_with_plugins_are_bounded)
{
	unsigned int taken = 0;

	yard_start(y);
	for (unsigned int i = 0; i < 70; i++) {
		struct plugin_expectation is = expectation_of("a", ALLOC_A);
		enum status status;

		(void)snprintf(is.alloc_id, sizeof(is.alloc_id), "0190a5a0-0000-7000-8000-%012u", i);
		(void)snprintf(is.socket, sizeof(is.socket), "%u.sock", i);
		status = plugins_expect(y->plugins, &is, NULL);
		assert_int_equal(status, i < 64 ? STATUS_OK : STATUS_RESOURCE_EXHAUSTED);
		taken += status == STATUS_OK;
	}
	assert_int_equal(taken, 64);
}

static void on_ready(const struct error *err, void *userdata)
{
	struct yard *y = userdata;

	if (!err) {
		assert_int_equal(yard_client(y, "a", PLUGIN_NODE), STATUS_OK);
		y->ready++;
		return;
	}
	y->not_ready++;
	y->last_wait = *err;
}

static void await(struct yard *y, uint64_t timeout_us, struct plugin_wait **ret)
{
	assert_ok(plugins_wait(y->plugins, "a", PLUGIN_NODE, timeout_us, on_ready, y, ret, NULL));
}

YARD_TEST(a_wait_ends_when_the_plugin_can_be_called)
{
	yard_start(y);
	await(y, 5 * USEC_PER_SEC, NULL);
	await(y, 5 * USEC_PER_SEC, NULL);
	yard_idle(y, 30);
	assert_int_equal(y->ready + y->not_ready, 0);
	(void)yard_plugin(y, "a", "csi.sock");
	YARD_UNTIL(y, y->ready == 2);
	/* at once, but not inside */
	await(y, 5 * USEC_PER_SEC, NULL);
	assert_int_equal(y->ready, 2);
	YARD_UNTIL(y, y->ready == 3);
	assert_int_equal(y->not_ready, 0);
}

YARD_TEST(a_wait_ends_with_the_reason)
{
	struct fake_csi_plugin *plugin;

	yard_start(y);
	await(y, 20 * USEC_PER_MSEC, NULL);
	YARD_UNTIL(y, y->not_ready == 1);
	assert_int_equal(y->last_wait.status, STATUS_UNAVAILABLE);
	plugin = yard_plugin(y, "a", "csi.sock");
	plugin->orders[CSI_PROBE] =
		(struct fake_csi_orders){FAKE_CSI_FAIL, UINT32_MAX, STATUS_INTERNAL, "out of order"};
	await(y, 1000 * USEC_PER_MSEC, NULL);
	YARD_UNTIL(y, y->not_ready == 2);
	assert_error(y->last_wait.status, STATUS_UNAVAILABLE, y->last_wait, "out of order");
	assert_int_equal(y->ready, 0);
}

YARD_TEST(a_wait_lasts_when_the_plugin_is_gone_again)
{
	struct plugin_expectation is = expectation_of("a", ALLOC_A);

	y->forgets_when_met = true;
	yard_start(y);
	await(y, 2000 * USEC_PER_MSEC, NULL);
	assert_int_equal(plugins_expect(y->plugins, &is, NULL), STATUS_OK);
	(void)yard_plugin(y, "a", "csi.sock");
	YARD_UNTIL(y, y->met == 1); /* and it is nobody's at once */
	yard_idle(y, 60);
	assert_int_equal(y->ready + y->not_ready, 0);
	YARD_UNTIL(y, y->not_ready == 1);
}

YARD_TEST(a_wait_that_is_cancelled_reports_nothing)
{
	struct plugin_wait *wait = NULL;

	yard_start(y);
	await(y, 20 * USEC_PER_MSEC, &wait);
	plugin_wait_cancel(wait);
	plugin_wait_cancel(NULL);
	yard_idle(y, 50);
	assert_int_equal(y->ready + y->not_ready, 0);
}

YARD_TEST(waits_end_with_the_agent)
{
	yard_start(y);
	await(y, 5 * USEC_PER_SEC, NULL);
	await(y, 5 * USEC_PER_SEC, NULL);
	yard_close(y);
	assert_int_equal(y->not_ready, 2);
	assert_int_equal(y->last_wait.status, STATUS_CANCELLED);
}

YARD_TEST(waits_are_bounded)
{
	struct plugin_wait *wait = NULL;

	yard_start(y);
	for (unsigned int i = 0; i < 1024; i++)
		await(y, 5 * USEC_PER_SEC, &wait);
	assert_int_equal(plugins_wait(y->plugins, "a", PLUGIN_NODE, 1, on_ready, y, NULL, NULL),
			 STATUS_RESOURCE_EXHAUSTED);
	plugin_wait_cancel(wait);
	await(y, 5 * USEC_PER_SEC, NULL);
}

/* As the end of a mount does that was cancelled: its allocation is over, and so are its plugins. */
static void on_call_end(const ProtobufCMessage *response, const struct error *err, void *userdata)
{
	struct yard *y = userdata;

	y->n_ended++;
	plugins_forget(y->plugins, y->forgotten);
}

/* Plugin a, one of two that allocation A runs, has a call in flight at whose end the plugins of @forgotten
 * are taken away. */
static void hang_until_forgotten(struct yard *y, const char *forgotten)
{
	const struct plugin_expectation expected[] = {
		expectation_of("a", ALLOC_A), expectation_of("b", ALLOC_B), expectation_of("c", ALLOC_A)};
	Csi__V1__NodeGetCapabilitiesRequest message = CSI__V1__NODE_GET_CAPABILITIES_REQUEST__INIT;
	const struct service_request request = {.method = CSI_NODE_GET_CAPABILITIES,
						.message = &message.base,
						.done = on_call_end,
						.userdata = y};
	struct service_client *client = NULL;
	struct fake_csi_plugin *plugin;

	y->forgotten = forgotten;
	yard_start(y);
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++)
		assert_int_equal(plugins_expect(y->plugins, &expected[i], NULL), STATUS_OK);
	plugin = yard_plugin(y, "a", "csi.sock");
	YARD_UNTIL(y, y->met == 1);
	fake_csi_order(plugin, CSI_NODE_GET_CAPABILITIES, FAKE_CSI_HANG, 1, STATUS_OK);
	assert_int_equal(plugins_client(y->plugins, "a", PLUGIN_NODE, &client, NULL), STATUS_OK);
	assert_int_equal(service_call_start(client, &request, NULL, NULL), STATUS_OK);
	yard_idle(y, 40);
}

YARD_TEST(the_end_of_a_call_to_a_plugin_that_is_forgotten_may_take_another_away)
{
	const struct plugin_expectation is = expectation_of("c", ALLOC_B);

	hang_until_forgotten(y, ALLOC_B);
	(void)mallopt(M_PERTURB, 0x5a); /* a read of freed memory fails without a sanitizer, too */
	plugins_forget(y->plugins, ALLOC_A);
	(void)mallopt(M_PERTURB, 0);
	assert_int_equal(y->n_ended, 1);
	assert_int_equal(plugins_expect(y->plugins, &is, NULL), STATUS_OK); /* nothing of A is left */
}

/* A write to freed memory, which sanitizers and valgrind notice. */
YARD_TEST(the_end_of_a_call_to_a_plugin_that_binds_its_socket_anew_may_take_it_away)
{
	hang_until_forgotten(y, ALLOC_A);
	yard_unbind(y, "a", "csi.sock");
	yard_bind(y, "a", "csi.sock");
	YARD_UNTIL(y, y->n_ended == 1);
	assert_null(yard_instance(y, "a", "csi.sock"));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins as they come, answer, fail, come back and go. */

#include "yard.h"

#include "base/clock.h"
#include "plugins/entry.h"

#include <sys/stat.h>

#define CASE(name) TEST_ON(name, struct yard, y, yard_setup, yard_teardown)

CASE(a_plugin_that_appears_is_fingerprinted)
{
	struct fake_csi_plugin *plugin;
	const struct node_plugin *entry;

	yard_start(y);
	plugin = yard_plugin(y, "ebs", "csi.sock");
	plugin->max_volumes = 25;
	plugin->topology = (struct topology){.n_segments = 1, .segments = {{"zone", "z1"}}};
	YARD_UNTIL(y, yard_is_healthy(y, "ebs"));
	entry = yard_entry(y, "ebs");
	assert_string_equal(entry->provider, "fake.csi.test");
	assert_string_equal(entry->provider_version, "1.0");
	assert_string_equal(entry->node.provider_node_id, "fake-node");
	assert_int_equal(entry->node.max_volumes, 25);
	assert_string_equal(entry->node.topology.segments[0].value, "z1");
	assert_true(entry->has_controller && entry->controller.healthy && entry->controller.attach_detach);
	assert_true(entry->has_node && entry->node.stage && entry->controller_required);
	assert_string_equal(entry->allocation_id, "");
	assert_int_equal(yard_client(y, "ebs", PLUGIN_NODE), STATUS_OK);
	assert_int_equal(yard_client(y, "ebs", PLUGIN_CONTROLLER), STATUS_OK);
	assert_int_equal(yard_client(y, "efs", PLUGIN_NODE), STATUS_NOT_FOUND);
	assert_int_equal(y->stores, 1);
	assert_string_equal(y->stored.provider, "fake.csi.test");
	assert_true(y->changes >= 1);
	assert_int_equal(plugin->last_timeout_us[CSI_PROBE], 5 * USEC_PER_SEC);
	assert_true(yard_instance(y, "ebs", "csi.sock")->is_used);
	assert_string_equal(yard_instance(y, "ebs", "csi.sock")->state, "healthy");
}

struct wrong_way {
	enum fake_csi_way way;
	enum status code;
};

/* The plugin comes back, and this call of its fingerprint goes wrong. */
static void come_back_wrong(struct yard *y, struct fake_csi_plugin *plugin, enum csi_method method,
			    const struct wrong_way *wrong)
{
	const struct node_plugin *entry;
	unsigned int probes;

	yard_unbind(y, "ebs", "csi.sock");
	YARD_UNTIL(y, !yard_is_healthy(y, "ebs"));
	fake_csi_order(plugin, method, wrong->way, UINT32_MAX, wrong->code);
	fake_csi_set_up(plugin, true);
	yard_bind(y, "ebs", "csi.sock");
	probes = plugin->calls[CSI_PROBE];
	YARD_UNTIL(y, plugin->calls[CSI_PROBE] > probes + 1 || !plugin->is_up);
	YARD_UNTIL(y, (entry = yard_entry(y, "ebs")) && entry->health_description[0] != '\0');
}

/* Each call of the fingerprint, and each way in which it can go wrong. */
YARD_TEST(a_plugin_is_unhealthy_until_its_fingerprint_is_complete)
{
	static const enum csi_method methods[] = {CSI_PROBE,
						  CSI_GET_PLUGIN_INFO,
						  CSI_GET_PLUGIN_CAPABILITIES,
						  CSI_CONTROLLER_GET_CAPABILITIES,
						  CSI_NODE_GET_CAPABILITIES,
						  CSI_NODE_GET_INFO};
	static const struct wrong_way ways[] = {
		{FAKE_CSI_FAIL, STATUS_UNAVAILABLE},
		{FAKE_CSI_FAIL, STATUS_INTERNAL},
		{FAKE_CSI_HANG, STATUS_OK},
		{FAKE_CSI_VANISH, STATUS_OK},
	};
	struct fake_csi_plugin *plugin;

	fake_csi.patience_us = 1000;
	yard_start(y);
	plugin = yard_plugin(y, "ebs", "csi.sock");
	YARD_UNTIL(y, yard_is_healthy(y, "ebs"));
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		for (size_t k = 0; k < ARRAY_SIZE(ways); k++) {
			come_back_wrong(y, plugin, methods[i], &ways[k]);
			assert_false(yard_is_healthy(y, "ebs"));
			assert_int_equal(yard_client(y, "ebs", PLUGIN_NODE), STATUS_UNAVAILABLE);
			assert_string_equal(yard_entry(y, "ebs")->provider, "fake.csi.test");
			fake_csi_order(plugin, methods[i], FAKE_CSI_OK, 0, STATUS_OK);
			fake_csi_set_up(plugin, true);
			YARD_UNTIL(y, yard_is_healthy(y, "ebs"));
		}
	}
}

CASE(a_fault_of_the_first_moment_is_shown_with_its_text)
{
	struct fake_csi_plugin *plugin;
	const struct plugin_instance_info *info;

	yard_start(y);
	plugin = yard_plugin(y, "hostpath", "csi.sock");
	plugin->orders[CSI_GET_PLUGIN_INFO] = (struct fake_csi_orders){
		FAKE_CSI_FAIL, UINT32_MAX, STATUS_UNAVAILABLE, "Driver is missing version"};
	YARD_UNTIL(y, yard_entry(y, "hostpath") && yard_entry(y, "hostpath")->health_description[0] != '\0');
	YARD_UNTIL(y, strstr(yard_entry(y, "hostpath")->health_description, "Driver is missing version"));
	info = yard_instance(y, "hostpath", "csi.sock");
	assert_string_equal(info->state, "unhealthy");
	assert_non_null(strstr(info->last_error, "GetPluginInfo"));
	assert_non_null(strstr(info->last_error, "Driver is missing version"));
	assert_true(info->since_ms > 0);
	/* it is asked again and again */
	YARD_UNTIL(y, plugin->calls[CSI_GET_PLUGIN_INFO] >= 3);
	/* and known to nobody's disk: there are no facts */
	assert_int_equal(y->stores, 0);
	assert_null(plugins_facts(y->plugins, "hostpath"));
	plugin->orders[CSI_GET_PLUGIN_INFO].times = 0;
	YARD_UNTIL(y, yard_is_healthy(y, "hostpath"));
	assert_string_equal(yard_instance(y, "hostpath", "csi.sock")->last_error, "");
}

YARD_TEST(probe_health_follows_the_ready_field)
{
	struct fake_csi_plugin *plugin;

	yard_start(y);
	plugin = yard_plugin(y, "a", "csi.sock");
	plugin->ready = FAKE_CSI_NOT_READY;
	YARD_UNTIL(y, plugin->calls[CSI_PROBE] >= 3);
	assert_int_equal(plugin->calls[CSI_GET_PLUGIN_INFO], 0);
	assert_non_null(strstr(yard_instance(y, "a", "csi.sock")->last_error, "not ready"));
	plugin->ready = FAKE_CSI_READY_ABSENT;
	YARD_UNTIL(y, yard_is_healthy(y, "a"));
}

YARD_TEST(only_services_that_were_announced_are_called)
{
	struct fake_csi_plugin *plugin;

	yard_start(y);
	plugin = yard_plugin(y, "node-only", "csi.sock");
	plugin->n_services = 0; /* a call of the controller service is a violation from here on */
	YARD_UNTIL(y, yard_is_healthy(y, "node-only"));
	assert_int_equal(plugin->calls[CSI_CONTROLLER_GET_CAPABILITIES], 0);
	assert_false(yard_entry(y, "node-only")->has_controller);
	assert_int_equal(yard_client(y, "node-only", PLUGIN_CONTROLLER), STATUS_NOT_FOUND);
	plugin = yard_plugin(y, "ctl-only", "csi.sock");
	plugin->has_no_node = true;
	YARD_UNTIL(y, yard_is_healthy(y, "ctl-only"));
	assert_false(yard_entry(y, "ctl-only")->has_node);
	assert_int_equal(plugin->calls[CSI_NODE_GET_INFO], 0);
	assert_int_equal(yard_client(y, "ctl-only", PLUGIN_NODE), STATUS_NOT_FOUND);
	assert_int_equal(yard_client(y, "ctl-only", PLUGIN_CONTROLLER), STATUS_OK);
}

YARD_TEST(a_plugin_that_can_fence_reports_the_nodes_addresses)
{
	const struct node_plugin *entry;
	struct fake_csi_plugin *plugin;

	yard_start(y);
	plugin = yard_plugin(y, "a", "csi.sock");
	plugin->has_addons = true;
	plugin->clients[0] = "192.0.2.7";
	plugin->clients[1] = "192.0.2.7/32"; /* the same */
	plugin->clients[2] = "2001:DB8::1/128";
	YARD_UNTIL(y, yard_is_healthy(y, "a"));
	entry = yard_entry(y, "a");
	assert_true(entry->controller.network_fence);
	assert_int_equal(entry->node.n_fence_clients, 2);
	assert_string_equal(entry->node.fence_clients[0].cidr, "192.0.2.7/32");
	assert_string_equal(entry->node.fence_clients[1].cidr, "2001:db8::1/128");
}

YARD_TEST(addresses_that_change_are_reported_without_asking_for_other_facts)
{
	struct fake_csi_plugin *plugin;
	unsigned int changes;

	yard_open(y, 1000);
	yard_start(y);
	plugin = yard_plugin(y, "a", "csi.sock");
	plugin->has_addons = true;
	plugin->clients[0] = "192.0.2.7";
	YARD_UNTIL(y, yard_is_healthy(y, "a"));
	changes = y->changes;
	YARD_UNTIL(y, plugin->calls[CSI_GET_FENCE_CLIENTS] == 4);
	assert_int_equal(y->changes, changes);
	plugin->clients[0] = "192.0.2.8";
	YARD_UNTIL(y, str_eq(yard_entry(y, "a")->node.fence_clients[0].cidr, "192.0.2.8/32"));
	assert_true(y->changes > changes);
	fake_csi_order(plugin, CSI_GET_FENCE_CLIENTS, FAKE_CSI_FAIL, 1, STATUS_INTERNAL);
	changes = plugin->calls[CSI_GET_FENCE_CLIENTS];
	YARD_UNTIL(y, plugin->calls[CSI_GET_FENCE_CLIENTS] == changes + 2);
	assert_string_equal(yard_entry(y, "a")->node.fence_clients[0].cidr, "192.0.2.8/32");
	assert_int_equal(plugin->calls[CSI_NODE_GET_INFO], 1);
	assert_true(plugin->calls[CSI_PROBE] >=
		    PLUGIN_FENCE_CLIENTS_PROBES * plugin->calls[CSI_GET_FENCE_CLIENTS] / 2);
}

YARD_TEST(a_plugin_that_starts_again_is_asked_for_its_addresses)
{
	struct fake_csi_plugin *plugin;

	yard_start(y);
	plugin = yard_plugin(y, "a", "csi.sock");
	plugin->has_addons = true;
	plugin->clients[0] = "192.0.2.7";
	YARD_UNTIL(y, yard_is_healthy(y, "a"));
	plugin->clients[0] = "192.0.2.8";
	yard_unbind(y, "a", "csi.sock");
	YARD_UNTIL(y, !yard_is_healthy(y, "a"));
	yard_bind(y, "a", "csi.sock");
	YARD_UNTIL(y, yard_is_healthy(y, "a"));
	assert_string_equal(yard_entry(y, "a")->node.fence_clients[0].cidr, "192.0.2.8/32");
}

/* A part of the addresses would fence a part of the node. */
YARD_TEST(an_answer_with_a_wrong_or_too_many_addresses_is_reported_as_unreadable)
{
	static const char *const wrong[] = {"0.0.0.0/0", "node-1", "127.0.0.1", "10.0.0.0/8"};
	char texts[ARRAY_SIZE(fake_csi.plugins[0].clients)][16];
	const struct node_plugin *entry;
	struct fake_csi_plugin *plugin;

	yard_start(y);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		char id[2] = {(char)('a' + i), '\0'};

		plugin = yard_plugin(y, id, "csi.sock");
		plugin->has_addons = true;
		plugin->clients[0] = "192.0.2.7";
		plugin->clients[1] = wrong[i];
		YARD_UNTIL(y, yard_is_healthy(y, id));
		entry = yard_entry(y, id);
		assert_int_equal(entry->node.n_fence_clients, 1);
		assert_string_equal(entry->node.fence_clients[0].cidr, FENCE_NET_UNREADABLE);
	}
	plugin = yard_plugin(y, "z", "csi.sock");
	plugin->has_addons = true;
	for (size_t i = 0; i < FENCE_CLIENTS_MAX + 1; i++) {
		(void)str_format(texts[i], sizeof(texts[i]), "192.0.2.%zu", i + 1);
		plugin->clients[i] = texts[i];
	}
	YARD_UNTIL(y, yard_is_healthy(y, "z"));
	assert_string_equal(yard_entry(y, "z")->node.fence_clients[0].cidr, FENCE_NET_UNREADABLE);
}

/* Most plugins lack it, and some answer to a call that they do not know with anything. */
YARD_TEST(a_plugin_is_healthy_whatever_it_answers_about_fences)
{
	static const enum csi_method methods[] = {CSI_ADDONS_GET_CAPABILITIES, CSI_GET_FENCE_CLIENTS};
	static const struct wrong_way ways[] = {
		{FAKE_CSI_FAIL, STATUS_UNIMPLEMENTED},
		{FAKE_CSI_FAIL, STATUS_UNKNOWN},
		{FAKE_CSI_FAIL, STATUS_INTERNAL},
		{FAKE_CSI_FAIL, STATUS_UNAVAILABLE},
		{FAKE_CSI_HANG, STATUS_OK},
	};

	fake_csi.patience_us = 1000;
	yard_start(y);
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
		for (size_t k = 0; k < ARRAY_SIZE(ways); k++) {
			char id[3] = {(char)('a' + i), (char)('a' + k), '\0'};
			struct fake_csi_plugin *plugin = yard_plugin(y, id, "csi.sock");

			plugin->has_addons = true;
			plugin->clients[0] = "192.0.2.7";
			fake_csi_order(plugin, methods[i], ways[k].way, UINT32_MAX, ways[k].code);
			YARD_UNTIL(y, yard_is_healthy(y, id));
			assert_int_equal(yard_entry(y, id)->node.n_fence_clients, 0);
			assert_int_equal(yard_entry(y, id)->controller.network_fence, i > 0);
		}
}

YARD_TEST(a_node_plugin_without_the_capability_is_not_asked_for_addresses)
{
	struct fake_csi_plugin *plugin;

	yard_start(y);
	plugin = yard_plugin(y, "a", "csi.sock");
	YARD_UNTIL(y, yard_is_healthy(y, "a"));
	assert_int_equal(plugin->calls[CSI_ADDONS_GET_CAPABILITIES], 1);
	assert_int_equal(plugin->calls[CSI_GET_FENCE_CLIENTS], 0);
	plugin = yard_plugin(y, "b", "csi.sock");
	plugin->has_addons = plugin->has_no_node = true;
	YARD_UNTIL(y, yard_is_healthy(y, "b"));
	assert_true(yard_entry(y, "b")->controller.network_fence);
	assert_int_equal(plugin->calls[CSI_GET_FENCE_CLIENTS], 0);
	plugin = yard_plugin(y, "c", "csi.sock");
	plugin->has_addons = true;
	plugin->n_services = 0;
	YARD_UNTIL(y, yard_is_healthy(y, "c"));
	assert_false(yard_entry(y, "c")->controller.network_fence);
	assert_int_equal(plugin->calls[CSI_GET_FENCE_CLIENTS], 1);
}

/* EBS' node plugin and iSCSI announce a controller service that somebody else serves, or nobody. */
YARD_TEST(a_service_that_is_announced_and_not_served_is_required_elsewhere)
{
	struct fake_csi_plugin *plugin;

	yard_start(y);
	plugin = yard_plugin(y, "ebs", "csi.sock");
	fake_csi_order(plugin, CSI_CONTROLLER_GET_CAPABILITIES, FAKE_CSI_FAIL, UINT32_MAX,
		       STATUS_UNIMPLEMENTED);
	YARD_UNTIL(y, yard_is_healthy(y, "ebs"));
	assert_false(yard_entry(y, "ebs")->has_controller);
	assert_true(yard_entry(y, "ebs")->controller_required);
}

YARD_TEST(a_plugin_that_serves_nothing_is_not_healthy)
{
	struct fake_csi_plugin *plugin;

	yard_start(y);
	plugin = yard_plugin(y, "a", "csi.sock");
	plugin->n_services = 0;
	plugin->has_no_node = true;
	YARD_UNTIL(y, yard_entry(y, "a") && strstr(yard_entry(y, "a")->health_description, "neither"));
}

YARD_TEST(a_plugin_that_refuses_its_info_is_not_healthy)
{
	struct fake_csi_plugin *plugin;

	yard_start(y);
	plugin = yard_plugin(y, "a", "csi.sock");
	fake_csi_order(plugin, CSI_GET_PLUGIN_INFO, FAKE_CSI_FAIL, UINT32_MAX, STATUS_UNIMPLEMENTED);
	YARD_UNTIL(y, yard_entry(y, "a") && strstr(yard_entry(y, "a")->health_description, "GetPluginInfo"));
}

YARD_TEST(a_name_or_node_id_that_is_no_use_is_refused)
{
	struct fake_csi_plugin *plugin;

	yard_start(y);
	plugin = yard_plugin(y, "a", "csi.sock");
	plugin->name = "";
	YARD_UNTIL(y, yard_entry(y, "a") && strstr(yard_entry(y, "a")->health_description, "GetPluginInfo"));
	plugin->name = "n";
	plugin->node_id = "";
	YARD_UNTIL(y, strstr(yard_entry(y, "a")->health_description, "NodeGetInfo"));
	plugin->node_id = "i";
	YARD_UNTIL(y, yard_is_healthy(y, "a"));
}

CASE(the_newest_healthy_instance_is_used_and_the_older_ones_stand_by)
{
	struct fake_csi_plugin *old, *new;

	yard_start(y);
	old = yard_plugin(y, "ebs", "v1.sock");
	old->version = "1";
	YARD_UNTIL(y, yard_is_healthy(y, "ebs"));
	new = fake_csi_add(yard_path(y, "ebs", "v2.sock"));
	new->version = "2";
	new->is_up = false;
	yard_bind(y, "ebs", "v2.sock");
	YARD_UNTIL(y, yard_instance(y, "ebs", "v2.sock"));
	YARD_UNTIL(y, str_eq(yard_instance(y, "ebs", "v2.sock")->state, "unhealthy"));
	/* the newer one does not answer yet */
	assert_true(yard_is_healthy(y, "ebs"));
	assert_string_equal(yard_entry(y, "ebs")->provider_version, "1");
	assert_true(yard_instance(y, "ebs", "v1.sock")->is_used);
	fake_csi_set_up(new, true);
	YARD_UNTIL(y, str_eq(yard_entry(y, "ebs")->provider_version, "2"));
	assert_false(yard_instance(y, "ebs", "v1.sock")->is_used);
	assert_true(yard_instance(y, "ebs", "v2.sock")->is_used);
	/* the end of the older one is no loss */
	yard_unbind(y, "ebs", "v1.sock");
	YARD_UNTIL(y, !yard_instance(y, "ebs", "v1.sock"));
	assert_true(yard_is_healthy(y, "ebs"));
	assert_string_equal(yard_entry(y, "ebs")->provider_version, "2");
	assert_int_equal(fake_csi_clients(yard_path(y, "ebs", "v1.sock")), 0);
}

YARD_TEST(the_older_instance_serves_again_when_the_newer_one_fails)
{
	struct fake_csi_plugin *new;

	yard_start(y);
	(void)yard_plugin(y, "ebs", "v1.sock");
	YARD_UNTIL(y, yard_is_healthy(y, "ebs"));
	new = yard_plugin(y, "ebs", "v2.sock");
	new->version = "2";
	YARD_UNTIL(y, str_eq(yard_entry(y, "ebs")->provider_version, "2"));
	fake_csi_set_up(new, false);
	YARD_UNTIL(y, yard_instance(y, "ebs", "v1.sock")->is_used);
	assert_true(yard_is_healthy(y, "ebs"));
	YARD_UNTIL(y, str_eq(yard_entry(y, "ebs")->provider_version, "1.0"));
}

YARD_TEST(a_split_plugin_is_one_entry_of_two_sockets)
{
	struct fake_csi_plugin *node, *controller;

	yard_start(y);
	node = yard_plugin(y, "nfs", "node.sock");
	node->n_services = 0;
	node->node_id = "n7";
	controller = yard_plugin(y, "nfs", "controller.sock");
	controller->has_no_node = true;
	YARD_UNTIL(y, yard_entry(y, "nfs") && yard_entry(y, "nfs")->has_node &&
			      yard_entry(y, "nfs")->has_controller);
	assert_int_equal(yard_client(y, "nfs", PLUGIN_NODE), STATUS_OK);
	assert_int_equal(yard_client(y, "nfs", PLUGIN_CONTROLLER), STATUS_OK);
	assert_string_equal(yard_entry(y, "nfs")->node.provider_node_id, "n7");
	/* one half fails, the other one is as good as before, and what was known is kept */
	fake_csi_set_up(controller, false);
	YARD_UNTIL(y, !yard_entry(y, "nfs")->controller.healthy);
	assert_true(yard_entry(y, "nfs")->healthy && yard_entry(y, "nfs")->has_controller);
	assert_true(yard_entry(y, "nfs")->controller.health_description[0] != '\0');
	assert_int_equal(yard_client(y, "nfs", PLUGIN_CONTROLLER), STATUS_UNAVAILABLE);
	assert_int_equal(yard_client(y, "nfs", PLUGIN_NODE), STATUS_OK);
	yard_unbind(y, "nfs", "node.sock");
	YARD_UNTIL(y, !yard_is_healthy(y, "nfs"));
	assert_true(yard_entry(y, "nfs")->has_node);
}

YARD_TEST(a_half_that_is_served_no_more_is_part_of_it_no_more)
{
	struct fake_csi_plugin *plugin;

	yard_start(y);
	plugin = yard_plugin(y, "a", "csi.sock");
	YARD_UNTIL(y, yard_is_healthy(y, "a"));
	plugin->n_services = 0;
	yard_unbind(y, "a", "csi.sock");
	yard_bind(y, "a", "csi.sock");
	YARD_UNTIL(y, !yard_entry(y, "a")->has_controller);
	assert_true(yard_is_healthy(y, "a"));
}

YARD_TEST(a_lost_connection_is_probed_at_once_and_the_facts_are_read_again)
{
	struct fake_csi_plugin *plugin;
	unsigned int changes;

	yard_start(y);
	plugin = yard_plugin(y, "a", "csi.sock");
	YARD_UNTIL(y, yard_is_healthy(y, "a"));
	changes = y->changes;
	plugin->version = "1.1";
	plugin->node_id = "fake-node-2";
	fake_csi_set_up(plugin, false);
	fake_csi_set_up(plugin, true); /* a restart that nobody else noticed */
	YARD_UNTIL(y, str_eq(yard_entry(y, "a")->provider_version, "1.1"));
	assert_int_equal(plugin->calls[CSI_NODE_GET_INFO], 2);
	assert_string_equal(yard_entry(y, "a")->node.provider_node_id, "fake-node-2");
	/* it was healthy all the time */
	assert_int_equal(y->changes, changes + 1);
	assert_string_equal(y->stored.provider_version, "1.1");
}

YARD_TEST(a_socket_that_is_bound_anew_is_dialled_anew)
{
	struct fake_csi_plugin *plugin;

	yard_start(y);
	plugin = yard_plugin(y, "a", "csi.sock");
	YARD_UNTIL(y, yard_is_healthy(y, "a"));
	plugin->version = "1.1";
	yard_unbind(y, "a", "csi.sock");
	yard_bind(y, "a", "csi.sock");
	YARD_UNTIL(y, str_eq(yard_entry(y, "a")->provider_version, "1.1"));
	assert_int_equal(fake_csi_clients(yard_path(y, "a", "csi.sock")), 1);
	assert_int_equal(fake_csi.clients_made, 2); /* the old connection may live on */
	/* the same one again changes nothing: the folder is looked at for another reason */
	yard_bind(y, "a", "other.sock");
	YARD_UNTIL(y, yard_instance(y, "a", "other.sock"));
	assert_int_equal(plugin->calls[CSI_NODE_GET_INFO], 2);
}

CASE(a_socket_that_is_opened_to_the_agent_is_dialled_at_once)
{
	struct fake_csi_plugin *plugin;
	unsigned int probes;

	yard_start(y);
	plugin = yard_plugin(y, "a", "csi.sock");
	plugin->refusal = EACCES;
	fake_csi_set_up(plugin, false);
	YARD_UNTIL(y, yard_instance(y, "a", "csi.sock") &&
			      str_eq(yard_instance(y, "a", "csi.sock")->state, "unhealthy"));
	/* and says what to do */
	assert_non_null(strstr(yard_instance(y, "a", "csi.sock")->last_error, "UMask=0002"));
	yard_slow(y, true); /* no retry within the test but this one */
	yard_idle(y, 100);
	fake_csi_set_up(plugin, true);
	assert_int_equal(chmod(plugin->socket, 0777), 0);
	YARD_UNTIL(y, yard_is_healthy(y, "a"));
	/* of a healthy one it is no change */
	probes = plugin->calls[CSI_PROBE];
	assert_int_equal(chmod(plugin->socket, 0770), 0);
	yard_idle(y, 60);
	assert_int_equal(plugin->calls[CSI_PROBE], probes);
}

YARD_TEST(a_healthy_plugin_is_probed_each_interval_and_asked_nothing_else)
{
	struct fake_csi_plugin *plugin;
	unsigned int changes;

	yard_open(y, 5 * USEC_PER_MSEC);
	yard_start(y);
	plugin = yard_plugin(y, "a", "csi.sock");
	YARD_UNTIL(y, yard_is_healthy(y, "a"));
	changes = y->changes;
	YARD_UNTIL(y, plugin->calls[CSI_PROBE] >= 6);
	assert_int_equal(plugin->calls[CSI_GET_PLUGIN_INFO], 1);
	assert_int_equal(y->changes, changes);
	fake_csi_order(plugin, CSI_PROBE, FAKE_CSI_FAIL, UINT32_MAX, STATUS_INTERNAL);
	YARD_UNTIL(y, !yard_is_healthy(y, "a"));
	changes = y->changes;
	/* told once */
	YARD_UNTIL(y, plugin->calls[CSI_PROBE] >= 12);
	assert_int_equal(y->changes, changes);
	fake_csi_order(plugin, CSI_PROBE, FAKE_CSI_OK, 0, STATUS_OK);
	YARD_UNTIL(y, yard_is_healthy(y, "a"));
	assert_int_equal(y->stores, 1);
}

YARD_TEST(a_plugin_that_closes_each_connection_is_not_asked_without_end)
{
	struct fake_csi_plugin *plugin;
	unsigned int probes, said = 0;
	uint64_t until_us;

	yard_start(y);
	plugin = yard_plugin(y, "a", "csi.sock");
	YARD_UNTIL(y, yard_is_healthy(y, "a"));
	probes = plugin->calls[CSI_PROBE];
	until_us = clock_monotonic_us() + 400 * USEC_PER_MSEC;
	while (clock_monotonic_us() < until_us) {
		/* each time it has said what it is */
		if (plugin->calls[CSI_NODE_GET_INFO] > said) {
			said = plugin->calls[CSI_NODE_GET_INFO];
			yard_idle(y, 2);
			fake_csi_set_up(plugin, false);
			fake_csi_set_up(plugin, true);
		}
		assert_true(sd_event_run(y->event, 1000) >= 0);
	}
	/* the delays of this test add up: 5, 10, 15 ... ms */
	assert_true(said > 3);
	assert_true(plugin->calls[CSI_PROBE] - probes < 16);
}

static void wait_until_used(struct yard *y, const char *name)
{
	YARD_UNTIL(y, yard_instance(y, "a", name) && str_eq(yard_instance(y, "a", name)->state, "healthy") &&
			      yard_client(y, "a", PLUGIN_NODE) == STATUS_OK);
}

static void take_away(struct yard *y, const char *name)
{
	yard_unbind(y, "a", name);
	YARD_UNTIL(y, !yard_instance(y, "a", name));
}

/* A socket of a new name each time, and another word each time: it has no back-off to wait for. */
YARD_TEST(a_plugin_that_changes_all_the_time_is_reported_of_no_more_than_its_limit)
{
	enum { TIMES = 2 * INSTANCE_CHANGES_BURST };
	uint64_t since_us = clock_monotonic_us();
	char names[TIMES][32], versions[TIMES][32];
	struct fake_csi_plugin *models[2];
	unsigned int most;

	yard_start(y);
	(void)yard_plugin(y, "b", "csi.sock");
	for (unsigned int i = 0; i < TIMES; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "%u.sock", i % 2);
		(void)snprintf(versions[i], sizeof(versions[i]), "%u", i);
		if (i < 2)
			models[i] = yard_plugin(y, "a", names[i]);
		else
			yard_bind(y, "a", names[i]);
		models[i % 2]->version = versions[i];
		wait_until_used(y, names[i]);
		if (i > 0)
			take_away(y, names[i - 1]);
	}
	most = INSTANCE_CHANGES_BURST + 2 +
	       INSTANCE_CHANGES_PER_SECOND * (unsigned int)((clock_monotonic_us() - since_us) / USEC_PER_SEC);
	assert_true(y->stores <= most + 1);
	assert_true(y->changes <= most + 2);
	/* another one's news does not wait for it, and its last word is heard in the end */
	(void)yard_plugin(y, "c", "csi.sock");
	YARD_UNTIL(y, yard_is_healthy(y, "c"));
	YARD_UNTIL(y, str_eq(yard_entry(y, "a")->provider_version, versions[TIMES - 1]));
}

YARD_TEST(a_call_that_hangs_does_not_keep_a_plugin_from_going)
{
	struct fake_csi_plugin *plugin;

	yard_start(y);
	plugin = yard_plugin(y, "a", "csi.sock");
	fake_csi_order(plugin, CSI_NODE_GET_INFO, FAKE_CSI_HOLD, 1, STATUS_OK);
	YARD_UNTIL(y, fake_csi_waiting() == 1);
	yard_unbind(y, "a", "csi.sock");
	YARD_UNTIL(y, !yard_entry(y, "a"));
	assert_int_equal(fake_csi_waiting(), 0);
	assert_int_equal(y->stores, 0);
}

YARD_TEST(the_agent_can_end_at_any_moment)
{
	for (unsigned int turns = 0; turns < 40; turns++) {
		if (turns == 0)
			(void)yard_plugin(y, "a", "csi.sock");
		yard_start(y);
		for (unsigned int i = 0; i < turns; i++)
			assert_true(sd_event_run(y->event, 2000) >= 0);
		yard_close(y);
		assert_int_equal(fake_csi_clients(yard_path(y, "a", "csi.sock")), 0);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "plugin/args.h"

static struct claim a_csi_claim(void)
{
	return (struct claim)ROW(.id = "01890000-0000-7000-8000-00000000c001", .volume_id = "db",
				 .namespace = NAMESPACE_DEFAULT, .plugin_id = "ebs", .node_id = "n1",
				 .state = CLAIM_NODE_DETACHED);
}

/* Without a node a provider detaches a volume from all of them (CSI, ControllerUnpublishVolume). */
TEST(no_detach_is_asked_for_without_a_node)
{
	const struct claim claim = a_csi_claim();
	struct plugin_detach_args args;
	cleanup(state_release) struct state s;

	state_init(&s);
	assert_null(plugin_detach_args(&s, &claim, &args));
}

TEST(the_node_of_an_adopted_claim_is_the_one_its_plugin_reports)
{
	struct plugin_instance instance = {
		.node_id = "n1",
		.plugin = {.plugin_id = "ebs", .has_node = true, .node = {.provider_node_id = "i-0123"}}};
	struct claim claim = a_csi_claim();
	struct plugin_detach_args args;
	cleanup(state_release) struct state s;

	state_init(&s);
	assert_int_equal(state_put_instance(&s, &instance, NULL), STATUS_OK);
	assert_non_null(plugin_detach_args(&s, &claim, &args));
	assert_string_equal(args.detach.external_node_id, "i-0123");
	/* what the claim says itself is never replaced */
	assert_int_equal(str_copy(claim.external_node_id, sizeof(claim.external_node_id), "i-0999"), 0);
	assert_non_null(plugin_detach_args(&s, &claim, &args));
	assert_string_equal(args.detach.external_node_id, "i-0999");
}

/* Else a fence of the new machine would free what the former one holds. */
TEST(the_node_of_a_former_machines_claim_is_not_the_one_that_is_reported_now)
{
	struct plugin_instance instance = {
		.node_id = "n1",
		.plugin = {.plugin_id = "ebs", .has_node = true, .node = {.provider_node_id = "i-0123"}}};
	struct claim claim = a_csi_claim();
	struct plugin_detach_args args;
	cleanup(state_release) struct state s;

	state_init(&s);
	assert_int_equal(state_put_instance(&s, &instance, NULL), STATUS_OK);
	claim.other_machine = true;
	assert_null(plugin_detach_args(&s, &claim, &args));
	assert_int_equal(str_copy(claim.external_node_id, sizeof(claim.external_node_id), "i-0999"), 0);
	assert_non_null(plugin_detach_args(&s, &claim, &args));
	assert_string_equal(args.detach.external_node_id, "i-0999");
}

/* Its node had it granted and not mounted, and asks for it again. */
TEST(an_adopted_claim_is_attached_only_to_the_reported_provider_node)
{
	struct plugin_instance instance = {
		.node_id = "n1",
		.plugin = {.plugin_id = "ebs", .has_node = true, .node = {.provider_node_id = "i-0123"}}};
	struct claim claim = a_csi_claim();
	struct plugin_attach_args args;
	cleanup(state_release) struct state s;

	state_init(&s);
	assert_null(plugin_attach_args(&s, &claim, false, &args));
	assert_int_equal(state_put_instance(&s, &instance, NULL), STATUS_OK);
	assert_non_null(plugin_attach_args(&s, &claim, false, &args));
	assert_string_equal(args.attach.external_node_id, "i-0123");
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/clock.h"
#include "csi/csi_method.h"

TEST(every_method_is_one_of_its_service_with_its_messages)
{
	for (unsigned int i = 0; i < CSI_METHOD_N; i++) {
		const struct service_method *info = &csi_methods[(enum csi_method)i];
		const ProtobufCMethodDescriptor *method =
			protobuf_c_service_descriptor_get_method_by_name(info->service, info->name);

		assert_non_null(method);
		assert_ptr_equal(method->input, info->request);
		assert_ptr_equal(method->output, info->response);
		assert_in_range(info->timeout_us, USEC_PER_SEC, 600 * USEC_PER_SEC);
		for (unsigned int k = 0; k < i; k++)
			assert_string_not_equal(info->name, csi_methods[(enum csi_method)k].name);
	}
}

/* Every method and every code, one letter each: D not done, G gone, U unknown; upper case when it may be made
 * again as it stands. Columns are the codes from CANCELLED (1) to UNAUTHENTICATED (16). */
static const struct row {
	enum csi_method method;
	const char *letters;
} rows[] = {
	/* 1 cancelled 2 unknown 3 invalid 4 deadline 5 not found 6 exists 7 permission 8 exhausted
	 * 9 precondition 10 aborted 11 range 12 unimplemented 13 internal 14 unavailable 15 data 16 unauth.
	 */
	{CSI_GET_PLUGIN_INFO, "DddDdddDdDdddDdd"},
	{CSI_GET_PLUGIN_CAPABILITIES, "DddDdddDdDdddDdd"},
	{CSI_PROBE, "DddDdddDDDdddDdd"},
	{CSI_CREATE_VOLUME, "UudUdddudUdduUud"},
	{CSI_DELETE_VOLUME, "UudUgddUdUdduUud"},
	{CSI_CONTROLLER_PUBLISH_VOLUME, "UudUgddUDUdduUud"},
	{CSI_CONTROLLER_UNPUBLISH_VOLUME, "UudUgddUdUdduUud"},
	{CSI_VALIDATE_VOLUME_CAPABILITIES, "DddDgddDdDdddDdd"},
	{CSI_LIST_VOLUMES, "DddDdddddddddDdd"},
	{CSI_CONTROLLER_GET_CAPABILITIES, "DddDdddDdDdddDdd"},
	{CSI_CREATE_SNAPSHOT, "UudUdddudUdduUud"},
	{CSI_DELETE_SNAPSHOT, "UudUgddUdUdduUud"},
	{CSI_LIST_SNAPSHOTS, "DddDdddddddddDdd"},
	{CSI_CONTROLLER_EXPAND_VOLUME, "UudUgddUdUdduUud"},
	{CSI_NODE_STAGE_VOLUME, "UUdUgddUDUddUUud"},
	{CSI_NODE_UNSTAGE_VOLUME, "UudUgddUdUdduUud"},
	{CSI_NODE_PUBLISH_VOLUME, "UUdUgddUDUddUUud"},
	{CSI_NODE_UNPUBLISH_VOLUME, "UudUgddUdUdduUud"},
	{CSI_NODE_EXPAND_VOLUME, "UudUgddUdUdduUud"},
	{CSI_NODE_GET_CAPABILITIES, "DddDdddDdDdddDdd"},
	{CSI_NODE_GET_INFO, "DddDdddDdDdddDdd"},
	{CSI_NODE_GET_VOLUME_STATS, "DddDdddDdDdddDdd"},
	{CSI_ADDONS_GET_CAPABILITIES, "DddDdddDdDdddDdd"},
	{CSI_GET_FENCE_CLIENTS, "DddDdddDdDdddDdd"},
	{CSI_FENCE_CLUSTER_NETWORK, "UudUgddUdUdduUud"},
	{CSI_UNFENCE_CLUSTER_NETWORK, "UudUgddUdUdduUud"},
	{CSI_LIST_CLUSTER_FENCE, "DddDdddDdDdddDdd"},
};

static char letter(enum csi_method method, enum status status)
{
	static const char *const letters[CSI_OUTCOME_N] = {
		[CSI_NOT_DONE] = "dD", [CSI_GONE] = "gG", [CSI_UNKNOWN] = "uU"};

	return letters[csi_outcome(method, status)][csi_is_passing(method, status)];
}

TEST(every_code_of_every_method_has_the_outcome_of_the_specification)
{
	assert_int_equal(ARRAY_SIZE(rows), CSI_METHOD_N);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char have[STATUS_N] = {0};

		assert_int_equal(rows[i].method, i);
		for (unsigned int code = 1; code < STATUS_N; code++)
			have[code - 1] = letter(rows[i].method, (enum status)code);
		assert_msg(str_eq(have, rows[i].letters), "%s: %s, expected %s",
			   csi_methods[rows[i].method].name, have, rows[i].letters);
	}
}

TEST(an_undefined_status_code_counts_as_unknown)
{
	assert_int_equal(csi_outcome(CSI_NODE_STAGE_VOLUME, (enum status)99), CSI_UNKNOWN);
	assert_false(csi_is_passing(CSI_NODE_STAGE_VOLUME, (enum status)99));
}

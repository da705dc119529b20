/* SPDX-License-Identifier: Apache-2.0 */
/* The model of CSI plugins does what other tests take for granted. */

#include "fake_csi.h"
#include "unit.h"

#include <systemd/sd-event.h>

#define SOCKET "/run/fake/a.sock"
#define STAGING "/stage/v/staging"
#define TARGET "/stage/v/rw-publish"

struct setting {
	sd_event *event;
	struct fake_csi_plugin *plugin;
	struct service_client *client;
	unsigned int done;
	enum status status; /* of the last one */
	unsigned int lost;
};

static void on_lost(void *userdata)
{
	struct setting *s = userdata;

	s->lost++;
}

UNIT_SETUP(setup, struct setting, s)
{
	struct service_client_options options = {
		.name = "a", .socket = SOCKET, .on_lost = on_lost, .userdata = s};

	fake_csi_init();
	assert_true(sd_event_new(&s->event) >= 0);
	s->plugin = fake_csi_add(SOCKET);
	assert_int_equal(service_client_new(s->event, &csi_kind, &options, &s->client, NULL), STATUS_OK);
}

UNIT_TEARDOWN(teardown, struct setting, s)
{
	service_client_free(s->client);
	sd_event_unref(s->event);
	fake_csi_release();
}

static void on_done(const ProtobufCMessage *response, const struct error *err, void *userdata)
{
	struct setting *s = userdata;

	assert_true((response == NULL) == (err != NULL));
	s->done++;
	s->status = err ? err->status : STATUS_OK;
}

static void start(struct setting *s, enum csi_method method, const ProtobufCMessage *request)
{
	assert_ok(service_call_start(
		s->client,
		&(struct service_request){
			.method = method, .message = request, .done = on_done, .userdata = s},
		NULL, NULL));
}

static enum status call(struct setting *s, enum csi_method method, const ProtobufCMessage *request)
{
	unsigned int before = s->done;

	start(s, method, request);
	assert_int_equal(s->done, before);
	while (s->done == before)
		assert_true(sd_event_run(s->event, UINT64_MAX) >= 0);
	return s->status;
}

static enum status probe(struct setting *s)
{
	Csi__V1__ProbeRequest request = CSI__V1__PROBE_REQUEST__INIT;

	return call(s, CSI_PROBE, &request.base);
}

static enum status stage(struct setting *s)
{
	Csi__V1__VolumeCapability capability = CSI__V1__VOLUME_CAPABILITY__INIT;
	Csi__V1__NodeStageVolumeRequest request =
		PB(csi__v1__node_stage_volume_request, .volume_id = "v#1", .staging_target_path = STAGING,
		   .volume_capability = &capability);
	Csi__V1__VolumeCapability__AccessMode mode = CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__INIT;
	Csi__V1__VolumeCapability__MountVolume mount = CSI__V1__VOLUME_CAPABILITY__MOUNT_VOLUME__INIT;

	mode.mode = CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__MODE__SINGLE_NODE_WRITER;
	capability.access_mode = &mode;
	capability.access_type_case = CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_MOUNT;
	capability.mount = &mount;
	return call(s, CSI_NODE_STAGE_VOLUME, &request.base);
}

#define CASE(name) TEST_ON(name, struct setting, s, setup, teardown)

CASE(a_volume_is_staged_and_unstaged)
{
	Csi__V1__NodeUnstageVolumeRequest unstage = CSI__V1__NODE_UNSTAGE_VOLUME_REQUEST__INIT;

	assert_int_equal(stage(s), STATUS_OK);
	assert_string_equal(fake_csi_volume("v#1")->staged, STAGING);
	unstage.volume_id = (char[]){"v#1"};
	unstage.staging_target_path = (char[]){STAGING};
	assert_int_equal(call(s, CSI_NODE_UNSTAGE_VOLUME, &unstage.base), STATUS_OK);
	assert_string_equal(fake_csi_volume("v#1")->staged, "");
}

CASE(a_rule_of_csi_that_is_broken_is_noted)
{
	Csi__V1__NodePublishVolumeRequest publish =
		PB(csi__v1__node_publish_volume_request, .volume_id = "v#1", .target_path = TARGET);

	assert_int_equal(call(s, CSI_NODE_PUBLISH_VOLUME, &publish.base), STATUS_FAILED_PRECONDITION);
	assert_string_not_equal(fake_csi.violation, "");
	fake_csi.violation[0] = '\0';
	s->plugin->n_node_rpcs = 0;
	(void)stage(s);
	assert_string_not_equal(fake_csi.violation, "");
	fake_csi.violation[0] = '\0';
}

CASE(each_way_to_go_wrong_ends_as_it_says)
{
	static const struct {
		enum fake_csi_way way;
		enum status status;
		bool is_done, is_down;
	} rows[] = {
		{FAKE_CSI_OK, STATUS_OK, true, false},
		{FAKE_CSI_FAIL, STATUS_ABORTED, false, false},
		{FAKE_CSI_FAIL_DONE, STATUS_ABORTED, true, false},
		{FAKE_CSI_HANG, STATUS_DEADLINE_EXCEEDED, false, false},
		{FAKE_CSI_HANG_DONE, STATUS_DEADLINE_EXCEEDED, true, false},
		{FAKE_CSI_HOLD, STATUS_DEADLINE_EXCEEDED, false, false},
		{FAKE_CSI_HOLD_DONE, STATUS_DEADLINE_EXCEEDED, true, false},
		{FAKE_CSI_LIE, STATUS_OK, false, false},
		{FAKE_CSI_VANISH, STATUS_UNAVAILABLE, false, true},
		{FAKE_CSI_VANISH_DONE, STATUS_UNAVAILABLE, true, true},
	};

	fake_csi.patience_us = 1000;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		fake_csi_set_up(s->plugin, true);
		memset(fake_csi.volumes, 0, sizeof(fake_csi.volumes));
		fake_csi_order(s->plugin, CSI_NODE_STAGE_VOLUME, rows[i].way, 1, STATUS_ABORTED);
		assert_int_equal(stage(s), rows[i].status);
		assert_int_equal(fake_csi_volume("v#1")->staged[0] != '\0', rows[i].is_done);
		assert_int_equal(!s->plugin->is_up, rows[i].is_down);
		if (rows[i].is_down)
			assert_int_equal(probe(s), STATUS_UNAVAILABLE);
	}
	assert_int_equal(s->lost, 2);
}

CASE(held_calls_are_answered_later)
{
	Csi__V1__ProbeRequest request = CSI__V1__PROBE_REQUEST__INIT;

	fake_csi_order(s->plugin, CSI_PROBE, FAKE_CSI_HOLD, 2, STATUS_OK);
	start(s, CSI_PROBE, &request.base);
	start(s, CSI_PROBE, &request.base);
	while (fake_csi_waiting() < 2)
		assert_true(sd_event_run(s->event, UINT64_MAX) >= 0);
	assert_int_equal(s->done, 0);
	assert_int_equal(fake_csi_answer(), 2);
	assert_int_equal(s->done, 2);
	assert_int_equal(s->status, STATUS_OK);
	assert_int_equal(fake_csi_expire(), 0);
}

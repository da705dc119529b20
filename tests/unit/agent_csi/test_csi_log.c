/* SPDX-License-Identifier: Apache-2.0 */
/* What the log sees of a call. */

#include "csi_world.h"

#include "log/log.h"

enum { LINES_MAX = 8, LINE_SIZE = 4096 };

struct line {
	int priority;
	char text[LINE_SIZE], plugin[64], op[64], why[ERROR_MSG_MAX];
};

static struct line lines[LINES_MAX];
static size_t n_lines;

void __wrap_log_ctx(int priority, const struct log_ctx *ctx, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

void __wrap_log_ctx(int priority, const struct log_ctx *ctx, const char *fmt, ...)
{
	struct line *line = &lines[n_lines++];
	va_list args;

	assert_in_range(n_lines, 1, LINES_MAX);
	line->priority = priority;
	va_start(args, fmt);
	(void)vsnprintf(line->text, sizeof(line->text), fmt, args);
	va_end(args);
	(void)snprintf(line->plugin, sizeof(line->plugin), "%s", ctx->plugin);
	(void)snprintf(line->op, sizeof(line->op), "%s", ctx->op);
	(void)snprintf(line->why, sizeof(line->why), "%s", ctx->err ? ctx->err->msg : "");
}

WORLD_TEST(a_call_and_its_end_are_logged_without_secrets)
{
	static const struct step steps[] = {
		LAST(GRPC "grpc-status: 13\ngrpc-message: mount -o pw=sesame-open,user=bob%2Chunter2 "
			  "failed%0A; Next: rm\n"),
		{.kind = STEP_END}};
	Csi__V1__NodeStageVolumeRequest__SecretsEntry password =
		CSI__V1__NODE_STAGE_VOLUME_REQUEST__SECRETS_ENTRY__INIT;
	Csi__V1__NodeStageVolumeRequest__SecretsEntry *secrets[] = {&password};
	Csi__V1__VolumeCapability capability = CSI__V1__VOLUME_CAPABILITY__INIT;
	Csi__V1__NodeStageVolumeRequest request =
		PB(csi__v1__node_stage_volume_request, .volume_id = "vol-1", .secrets = secrets,
		   .n_secrets = 1, .volume_capability = &capability);
	Csi__V1__VolumeCapability__MountVolume mount = CSI__V1__VOLUME_CAPABILITY__MOUNT_VOLUME__INIT;
	char *flags[] = {(char[]){"pw=sesame-open"}};
	struct end end = {0};

	password.key = (char[]){"password"};
	password.value = (char[]){"hunter2"};
	mount.mount_flags = flags;
	mount.n_mount_flags = 1;
	capability.access_type_case = CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_MOUNT;
	capability.mount = &mount;
	world->plugin.scripts[0] = steps;
	world->plugin.n_scripts = 1;
	n_lines = 0;
	assert_int_equal(service_call_start(world->client,
					    &(struct service_request){.method = CSI_NODE_STAGE_VOLUME,
								      .message = &request.base,
								      .done = csi_world_done,
								      .userdata = &end},
					    NULL, NULL),
			 STATUS_OK);
	csi_world_run(world, &end.n_done, 1);
	assert_string_equal(end.err.msg,
			    "plugin nfs, volume vol-1: NodeStageVolume answered INTERNAL: mount -o "
			    "[redacted],user=bob,[redacted] failed\\n, next: rm");
	assert_int_equal(n_lines, 2);
	assert_string_equal(lines[0].text,
			    "NodeStageVolume called: volume_id=\"vol-1\" "
			    "volume_capability={mount={mount_flags=[redacted]}} secrets=[redacted]");
	assert_string_equal(lines[1].text, "NodeStageVolume failed");
	assert_string_equal(lines[1].why, end.err.msg);
	for (size_t i = 0; i < n_lines; i++) {
		assert_int_equal(lines[i].priority, LOG_DEBUG);
		assert_string_equal(lines[i].plugin, "nfs");
		assert_string_equal(lines[i].op, "NodeStageVolume");
	}
}

WORLD_TEST(an_answer_is_logged_too)
{
	static const struct step steps[] = {
		HEAD(GRPC), DATA("\0\0\0\0\x08\x0a\x06node-1"), LAST(OK), {.kind = STEP_END}};
	struct end end = {0};

	world->plugin.scripts[0] = steps;
	world->plugin.n_scripts = 1;
	n_lines = 0;
	csi_world_call(world, CSI_NODE_GET_INFO, 0, &end);
	assert_int_equal(n_lines, 2);
	assert_string_equal(lines[0].text, "NodeGetInfo called");
	assert_string_equal(lines[1].text, "NodeGetInfo answered: node_id=\"node-1\"");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The node half of a CSI driver whose volumes are folders that it bind-mounts, or block devices with ext4
 * that it mounts: what a volume costs is then the caller's share and the kernel's. Strict where CSI is: a
 * second call of the same kind for a volume is counted like a first one, and one out of its order fails.
 *
 *   bench_plugin SOCKET FOLDER    as root; FOLDER is its own, FOLDER/counts has struct counts; FOLDER/ID may
 * be a link to a device, and is made as a folder otherwise */

#include "base/cleanup.h"
#include "base/str.h"
#include "base/sys.h"
#include "rpc/server.h"

#include <csi/v1/csi.pb-c.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

/* Calls since the start; read by bench_volumes.py while this runs. */
struct counts {
	uint64_t stage;
	uint64_t publish;
	uint64_t unpublish;
	uint64_t unstage;
	uint64_t others; /* questions about the plugin */
};

struct bench_plugin {
	const char *folder;
	struct counts *counts;
};

/* 0 or a negative errno becomes the answer. */
static void answer(struct rpc_call *call, const ProtobufCMessage *response, const char *what, int r)
{
	struct error err;

	if (r >= 0) {
		rpc_call_reply(call, response);
		return;
	}
	(void)error_set(&err, STATUS_INTERNAL, r, "%s", what);
	rpc_call_fail(call, &err);
}

static int bind(const char *from, const char *to)
{
	return mount(from, to, NULL, MS_BIND, NULL) < 0 ? -errno : 0;
}

static int stage(const char *source, const char *to)
{
	struct stat st;

	if (stat(source, &st) < 0)
		return -errno;
	if (!S_ISBLK(st.st_mode))
		return bind(source, to);
	return mount(source, to, "ext4", 0, NULL) < 0 ? -errno : 0;
}

static int unbind(const char *path)
{
	return sys_umount2(path, SYS_UMOUNT_NOFOLLOW);
}

static void on_stage(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	const Csi__V1__NodeStageVolumeRequest *pb = (const void *)request;
	Csi__V1__NodeStageVolumeResponse response = CSI__V1__NODE_STAGE_VOLUME_RESPONSE__INIT;
	struct bench_plugin *plugin = userdata;
	char source[512];
	int r = str_format(source, sizeof(source), "%s/%s", plugin->folder, pb->volume_id);

	plugin->counts->stage++;
	if (r >= 0)
		r = sys_mkdirat(AT_FDCWD, source, 0755);
	if (r == 0 || r == -EEXIST)
		r = stage(source, pb->staging_target_path);
	answer(call, &response.base, "stage", r);
}

static void on_publish(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	const Csi__V1__NodePublishVolumeRequest *pb = (const void *)request;
	Csi__V1__NodePublishVolumeResponse response = CSI__V1__NODE_PUBLISH_VOLUME_RESPONSE__INIT;
	struct bench_plugin *plugin = userdata;
	int r = sys_mkdirat(AT_FDCWD, pb->target_path, 0755);

	plugin->counts->publish++;
	if (r == 0)
		r = bind(pb->staging_target_path, pb->target_path);
	answer(call, &response.base, "publish", r);
}

static void on_unpublish(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	const Csi__V1__NodeUnpublishVolumeRequest *pb = (const void *)request;
	Csi__V1__NodeUnpublishVolumeResponse response = CSI__V1__NODE_UNPUBLISH_VOLUME_RESPONSE__INIT;
	struct bench_plugin *plugin = userdata;
	int r = unbind(pb->target_path);

	plugin->counts->unpublish++;
	if (r == 0)
		r = sys_rmdirat(AT_FDCWD, pb->target_path);
	answer(call, &response.base, "unpublish", r);
}

static void on_unstage(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	const Csi__V1__NodeUnstageVolumeRequest *pb = (const void *)request;
	Csi__V1__NodeUnstageVolumeResponse response = CSI__V1__NODE_UNSTAGE_VOLUME_RESPONSE__INIT;
	struct bench_plugin *plugin = userdata;

	plugin->counts->unstage++;
	answer(call, &response.base, "unstage", unbind(pb->staging_target_path));
}

static void on_node_capabilities(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	Csi__V1__NodeGetCapabilitiesResponse response = CSI__V1__NODE_GET_CAPABILITIES_RESPONSE__INIT;
	Csi__V1__NodeServiceCapability__RPC rpc = CSI__V1__NODE_SERVICE_CAPABILITY__RPC__INIT;
	Csi__V1__NodeServiceCapability capability = CSI__V1__NODE_SERVICE_CAPABILITY__INIT;
	Csi__V1__NodeServiceCapability *capabilities[] = {&capability};
	struct bench_plugin *plugin = userdata;

	plugin->counts->others++;
	rpc.type = CSI__V1__NODE_SERVICE_CAPABILITY__RPC__TYPE__STAGE_UNSTAGE_VOLUME;
	capability.type_case = CSI__V1__NODE_SERVICE_CAPABILITY__TYPE_RPC;
	capability.rpc = &rpc;
	response.n_capabilities = ARRAY_SIZE(capabilities);
	response.capabilities = capabilities;
	rpc_call_reply(call, &response.base);
}

static void on_node_info(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	Csi__V1__NodeGetInfoResponse response = CSI__V1__NODE_GET_INFO_RESPONSE__INIT;
	char node_id[] = "bench";
	struct bench_plugin *plugin = userdata;

	plugin->counts->others++;
	response.node_id = node_id;
	rpc_call_reply(call, &response.base);
}

static void on_plugin_info(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	Csi__V1__GetPluginInfoResponse response = CSI__V1__GET_PLUGIN_INFO_RESPONSE__INIT;
	char name[] = "bench.csi.invalid";
	char version[] = "1";
	struct bench_plugin *plugin = userdata;

	plugin->counts->others++;
	response.name = name;
	response.vendor_version = version;
	rpc_call_reply(call, &response.base);
}

static void on_plugin_capabilities(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	Csi__V1__GetPluginCapabilitiesResponse response = CSI__V1__GET_PLUGIN_CAPABILITIES_RESPONSE__INIT;
	struct bench_plugin *plugin = userdata;

	plugin->counts->others++;
	rpc_call_reply(call, &response.base);
}

static void on_probe(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	Csi__V1__ProbeResponse response = CSI__V1__PROBE_RESPONSE__INIT;
	struct bench_plugin *plugin = userdata;

	plugin->counts->others++;
	rpc_call_reply(call, &response.base);
}

static const struct rpc_method identity_methods[] = {
	{.name = "GetPluginInfo", .unary = on_plugin_info},
	{.name = "GetPluginCapabilities", .unary = on_plugin_capabilities},
	{.name = "Probe", .unary = on_probe},
};
static const struct rpc_method node_methods[] = {
	{.name = "NodeStageVolume", .unary = on_stage},
	{.name = "NodePublishVolume", .unary = on_publish},
	{.name = "NodeUnpublishVolume", .unary = on_unpublish},
	{.name = "NodeUnstageVolume", .unary = on_unstage},
	{.name = "NodeGetCapabilities", .unary = on_node_capabilities},
	{.name = "NodeGetInfo", .unary = on_node_info},
};
static const struct rpc_service services[] = {
	{&csi__v1__identity__descriptor, identity_methods, ARRAY_SIZE(identity_methods)},
	{&csi__v1__node__descriptor, node_methods, ARRAY_SIZE(node_methods)},
};

static _Noreturn void die(const char *what, int r)
{
	(void)fprintf(stderr, "bench_plugin: %s: %s\n", what, strerror(-r));
	exit(1);
}

static struct counts *map_counts(const char *folder)
{
	char path[512];
	cleanup_close int fd = -EBADF;
	void *counts;

	if (str_format(path, sizeof(path), "%s/counts", folder) < 0)
		die(folder, -ENAMETOOLONG);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(struct counts)) < 0)
		die(path, -errno);
	counts = mmap(NULL, sizeof(struct counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (counts == MAP_FAILED)
		die(path, -errno);
	return counts;
}

int main(int argc, char **argv)
{
	struct bench_plugin plugin;
	struct rpc_server *server = NULL;
	sd_event *event = NULL;
	struct error err;
	int r;

	if (argc != 3) {
		(void)fputs("usage: bench_plugin SOCKET FOLDER\n", stderr);
		return 2;
	}
	plugin = (struct bench_plugin){.folder = argv[2], .counts = map_counts(argv[2])};
	r = sd_event_new(&event);
	if (r < 0)
		die("event loop", r);
	if (rpc_server_new(event, services, ARRAY_SIZE(services), NULL, &plugin, &server, &err) !=
		    STATUS_OK ||
	    rpc_server_listen_unix(server, argv[1], 0660, &err) != STATUS_OK) {
		(void)fprintf(stderr, "bench_plugin: %s\n", err.msg);
		return 1;
	}
	(void)puts("ready");
	(void)fflush(stdout);
	return sd_event_loop(event) < 0; /* until it is killed */
}

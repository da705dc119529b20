/* SPDX-License-Identifier: Apache-2.0 */
#include "fill.h"

#include "base/str.h"
#include "state/keys.h"
#include "state/text.h"
#include "store/kv.h"

#include <holdfast/v1/plugins.pb-c.h>
#include <holdfast/v1/types.pb-c.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PER_TXN = 100 };

static _Noreturn void die(const char *why)
{
	(void)fprintf(stderr, "filling a store: %s\n", why);
	exit(1);
}

static void must(enum status status, const struct error *err)
{
	if (status != STATUS_OK)
		die(err->msg);
}

struct fill {
	const struct fill_settings *settings;
	struct kv *kv;
	struct kv_op ops[PER_TXN];
	size_t n;
	int pending;
};

static void turn(const struct fill *fill)
{
	if (sd_event_run(fill->settings->event, UINT64_MAX) < 0)
		die("the event loop failed");
}

static void on_filled(uint64_t revision, const struct error *err, void *userdata)
{
	struct fill *fill = userdata;

	if (err)
		die(err->msg);
	fill->pending--;
}

static void flush(struct fill *fill)
{
	struct error err;

	if (fill->n == 0)
		return;
	must(kv_submit(fill->kv, &(struct kv_txn){.ops = fill->ops, .n_ops = fill->n}, on_filled, fill, &err),
	     &err);
	fill->pending++;
	for (size_t i = 0; i < fill->n; i++) {
		free((void *)(uintptr_t)fill->ops[i].key);
		free((void *)(uintptr_t)fill->ops[i].value);
		free((void *)(uintptr_t)fill->ops[i].text);
	}
	fill->n = 0;
	while (fill->pending > 64)
		turn(fill);
}

static void add(struct fill *fill, const char *key, const ProtobufCMessage *message)
{
	size_t len = protobuf_c_message_get_packed_size(message);
	uint8_t *bytes = malloc(len + 1);

	if (!bytes)
		die("out of memory");
	(void)protobuf_c_message_pack(message, bytes);
	fill->ops[fill->n++] =
		(struct kv_op){.key = strdup(key), .value = bytes, .len = len, .text = text_of(key, message)};
	if (fill->n == PER_TXN)
		flush(fill);
}

void fill_volume_id(uint32_t i, char id[static 32])
{
	(void)str_format(id, 32, "volume-%06" PRIu32, i);
}

static void add_volume(struct fill *fill, uint32_t i)
{
	Holdfast__V1__Volume volume = HOLDFAST__V1__VOLUME__INIT;
	Holdfast__V1__Source source = HOLDFAST__V1__SOURCE__INIT;
	Holdfast__V1__Capability capability = HOLDFAST__V1__CAPABILITY__INIT;
	Holdfast__V1__Capability *capabilities[] = {&capability};
	char id[32];
	char key[64];
	char namespace[] = "default";
	char plugin[] = "native";
	char profile[] = "scratch";

	fill_volume_id(i, id);
	(void)str_format(key, sizeof(key), PREFIX_VOLUME "default/%s", id);
	capability.access_mode = HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_WRITER;
	capability.attachment_mode = HOLDFAST__V1__ATTACHMENT_MODE__FILE_SYSTEM;
	source.class_ = HOLDFAST__V1__SOURCE_CLASS__TMPFS;
	source.size_bytes = 1 << 20;
	source.inodes = 100;
	volume.id = volume.name = volume.external_id = id;
	volume.namespace_ = namespace;
	volume.type = HOLDFAST__V1__VOLUME_TYPE__NATIVE;
	volume.plugin_id = plugin;
	volume.profile = profile;
	volume.source = &source;
	volume.requested_capabilities = capabilities;
	volume.n_requested_capabilities = 1;
	volume.generation = 1;
	volume.create_time_ms = volume.modify_time_ms = 1769860800000;
	add(fill, key, &volume.base);
}

static void add_alloc(struct fill *fill, uint32_t i)
{
	Holdfast__V1__Allocation alloc = HOLDFAST__V1__ALLOCATION__INIT;
	Holdfast__V1__VolumeRequest request = HOLDFAST__V1__VOLUME_REQUEST__INIT;
	Holdfast__V1__VolumeRequest *requests[] = {&request};
	char id[37];
	char key[64];
	char node[32];
	char volume[32];
	char namespace[] = "default";
	char name[] = "data";
	char driver[] = "none";

	fill_alloc_id(i, id);
	fill_node_id(i % fill->settings->nodes, node);
	fill_volume_id(i, volume);
	(void)str_format(key, sizeof(key), PREFIX_ALLOC "%s", id);
	request.name = name;
	request.source = volume;
	request.access_mode = HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_WRITER;
	request.attachment_mode = HOLDFAST__V1__ATTACHMENT_MODE__FILE_SYSTEM;
	alloc.id = id;
	alloc.namespace_ = namespace;
	alloc.name = name;
	alloc.node_id = node;
	alloc.driver = driver;
	alloc.volumes = requests;
	alloc.n_volumes = 1;
	alloc.desired_status = HOLDFAST__V1__DESIRED_STATUS__RUN;
	alloc.client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING;
	alloc.create_time_ms = alloc.modify_time_ms = 1769860800000;
	add(fill, key, &alloc.base);
}

static void claim_id(uint32_t i, char id[static 37])
{
	(void)str_format(id, 37, "01890001-0000-7000-8000-%012" PRIu32, i);
}

static void add_claim(struct fill *fill, uint32_t i)
{
	Holdfast__V1__Claim claim = HOLDFAST__V1__CLAIM__INIT;
	char id[37];
	char alloc[37];
	char key[64];
	char node[32];
	char volume[32];
	char namespace[] = "default";
	char plugin[] = "native";
	char profile[] = "scratch";
	char boot[] = FILL_BOOT;

	claim_id(i, id);
	fill_alloc_id(i, alloc);
	fill_node_id(i % fill->settings->nodes, node);
	fill_volume_id(i, volume);
	(void)str_format(key, sizeof(key), PREFIX_CLAIM "%s", id);
	claim.id = id;
	claim.volume_id = claim.external_id = volume;
	claim.namespace_ = namespace;
	claim.plugin_id = plugin;
	claim.profile = profile;
	claim.allocation_id = alloc;
	claim.node_id = node;
	claim.boot_id = boot;
	claim.mode = HOLDFAST__V1__CLAIM_MODE__WRITE;
	claim.access_mode = HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_WRITER;
	claim.attachment_mode = HOLDFAST__V1__ATTACHMENT_MODE__FILE_SYSTEM;
	claim.generation = 1;
	claim.state = HOLDFAST__V1__CLAIM_STATE__TAKEN;
	claim.sent_to_node = true;
	claim.create_time_ms = claim.modify_time_ms = claim.state_time_ms = 1769860800000;
	add(fill, key, &claim.base);
}

static void add_node(struct fill *fill, uint32_t i)
{
	Holdfast__V1__Node node = HOLDFAST__V1__NODE__INIT;
	Holdfast__V1__PluginInstance instance = HOLDFAST__V1__PLUGIN_INSTANCE__INIT;
	Holdfast__V1__NodePlugin plugin = HOLDFAST__V1__NODE_PLUGIN__INIT;
	char id[32];
	char key[96];
	char boot[] = FILL_BOOT;
	char plugin_id[] = "native";
	char profile[] = "scratch";

	fill_node_id(i, id);
	(void)str_format(key, sizeof(key), PREFIX_NODE "%s", id);
	node.id = id;
	node.boot_id = boot;
	node.status = HOLDFAST__V1__NODE_STATUS__READY;
	node.last_seen_ms = node.create_time_ms = node.modify_time_ms = 1769860800000;
	add(fill, key, &node.base);
	(void)str_format(key, sizeof(key), PREFIX_NODE_PLUGIN "%s/native/scratch", id);
	plugin.plugin_id = plugin_id;
	plugin.profile = profile;
	plugin.class_ = HOLDFAST__V1__SOURCE_CLASS__TMPFS;
	plugin.healthy = true;
	instance.node_id = id;
	instance.plugin = &plugin;
	add(fill, key, &instance.base);
}

void fill_store(const struct fill_settings *settings, enum fill_content content)
{
	static void (*const add_one[])(struct fill *, uint32_t) = {
		[FILL_VOLUMES] = add_volume,
		[FILL_CLAIMS] = add_claim,
		[FILL_ALLOCATIONS] = add_alloc,
	};
	struct fill fill = {.settings = settings};
	struct error err;

	must(kv_open_sqlite(settings->event, settings->path, &fill.kv, &err), &err);
	for (uint32_t i = 0; i < settings->nodes && content == FILL_CLAIMS; i++)
		add_node(&fill, i);
	for (uint32_t i = 0; i < settings->n; i++)
		add_one[content](&fill, i);
	flush(&fill);
	while (fill.pending > 0)
		turn(&fill);
	kv_close(fill.kv);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "state/text.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "model/volume_detail.h"
#include "pb/reflect.h"
#include "state/keys.h"
#include "state/records.h"
#include "state/text_json.h"

#include <holdfast/v1/plugins.pb-c.h>
#include <holdfast/v1/types.pb-c.h>
#include <string.h>

enum { HIDDEN_MAX = 4, TEXT_USUAL = 1000 };

/* Keys without a row have no text: new kinds stay hidden until a row lists their secrets. */
static const struct rule {
	const char *prefix;
	const char *hidden[HIDDEN_MAX + 1]; /* members of the message; bytes are hidden anyway */
} rules[] = {
	{PREFIX_CLAIM, {NULL}},
	{PREFIX_FREED, {NULL}},
	{PREFIX_AUDIT, {NULL}},
	{PREFIX_VOLUME, {"mount_options", "parameters", "context", "secrets"}},
	{PREFIX_ALLOC, {NULL}},
	{PREFIX_NODE, {NULL}},
	{PREFIX_NODE_PLUGIN, {NULL}},
	{PREFIX_VOLUME_DETAIL, {"mount_options", "parameters", "context"}},
	{PREFIX_SNAPSHOT, {"parameters"}},
	{PREFIX_ATTESTATION, {NULL}},
	{PREFIX_TOKEN, {NULL}},
	{PREFIX_POLICY, {NULL}},
	{KEY_SCHEMA, {NULL}},
	{KEY_EPOCH, {NULL}},
	{KEY_GENERATION_FLOOR, {NULL}},
};

static const struct rule *find_rule(const char *key)
{
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		if (rules[i].prefix[0] == key[0] && str_starts_with(key, rules[i].prefix))
			return &rules[i];
	return NULL;
}

char *text_of(const char *key, const ProtobufCMessage *message)
{
	cleanup_strbuf struct strbuf text = STRBUF_INIT(TEXT_MAX - 1);
	const struct rule *rule = find_rule(key);

	if (!rule)
		return NULL;
	strbuf_reserve(&text, TEXT_USUAL);
	text_json_put(&text, message, rule->hidden);
	return strbuf_take(&text);
}

/* --- views --- */

#define WORD(name, path)                       \
	{                                      \
		name, path, KV_COLUMN_WORD, "" \
	}
#define WORD_OR(name, path, absent)                \
	{                                          \
		name, path, KV_COLUMN_WORD, absent \
	}
#define NUMBER(name, path)                   \
	{                                    \
		name, path, KV_COLUMN_NUMBER \
	}
#define FLAG(name, path)                   \
	{                                  \
		name, path, KV_COLUMN_FLAG \
	}
#define TIME(name, path)                   \
	{                                  \
		name, path, KV_COLUMN_TIME \
	}
#define DETAIL(name, path, kind, absent)                       \
	{                                                      \
		name, path, kind, absent, PREFIX_VOLUME_DETAIL \
	}

static const struct kv_column volume_columns[] = {
	WORD("namespace", "namespace"),
	WORD("id", "id"),
	WORD("name", "name"),
	WORD("external_id", "external_id"),
	WORD("type", "type"),
	WORD("plugin_id", "plugin_id"),
	WORD("profile", "profile"),
	WORD("source_class", "source.class"),
	WORD("access_mode", "requested_capabilities[0].access_mode"),
	WORD("attachment_mode", "requested_capabilities[0].attachment_mode"),
	DETAIL("phase", "phase", KV_COLUMN_WORD, "VOLUME_READY"),
	DETAIL("phase_error", "phase_error", KV_COLUMN_WORD, ""),
	DETAIL("capacity", "capacity", KV_COLUMN_NUMBER, NULL),
	TIME("created", "create_time_ms"),
	TIME("modified", "modify_time_ms"),
};

static const struct kv_column claim_columns[] = {
	WORD("id", "id"),
	WORD("namespace", "namespace"),
	WORD("volume_id", "volume_id"),
	WORD("state", "state"),
	WORD("mode", "mode"),
	WORD("access_mode", "access_mode"),
	WORD("attachment_mode", "attachment_mode"),
	WORD("allocation_id", "allocation_id"),
	WORD("node_id", "node_id"),
	WORD("boot_id", "boot_id"),
	WORD("external_node_id", "external_node_id"),
	WORD("plugin_id", "plugin_id"),
	NUMBER("generation", "generation"),
	WORD_OR("evidence", "evidence", "EVIDENCE_NONE"),
	WORD("evidence_detail", "evidence_detail"),
	WORD_OR("attach", "attach", "ATTACH_NONE"),
	WORD_OR("detach_evidence", "detach_evidence", "EVIDENCE_NONE"),
	WORD("detach_detail", "detach_detail"),
	WORD("plugin_waiver", "plugin_waiver"),
	FLAG("fence_asked", "fence_asked"),
	FLAG("adopted", "adopted"),
	FLAG("renamed", "renamed"),
	FLAG("was_freed", "was_freed"),
	NUMBER("attempts", "attempts"),
	WORD("last_error", "last_error"),
	TIME("state_since", "state_time_ms"),
	TIME("created", "create_time_ms"),
	TIME("modified", "modify_time_ms"),
};

static const struct kv_column allocation_columns[] = {
	WORD("id", "id"),
	WORD("namespace", "namespace"),
	WORD("name", "name"),
	WORD("node_id", "node_id"),
	WORD("driver", "driver"),
	WORD("desired_status", "desired_status"),
	WORD("client_status", "client_status"),
	WORD("client_description", "client_description"),
	WORD("volumes", "volumes"),
	TIME("created", "create_time_ms"),
	TIME("modified", "modify_time_ms"),
};

static const struct kv_column node_columns[] = {
	WORD("id", "id"),
	WORD("boot_id", "boot_id"),
	WORD("status", "status"),
	FLAG("ineligible", "ineligible"),
	WORD("eligibility_reason", "eligibility_reason"),
	TIME("drain_started", "drain.started_ms"),
	TIME("drain_done", "drain.done_ms"),
	NUMBER("reported_epoch", "reported_epoch"),
	FLAG("report_wanted", "report_wanted"),
	TIME("disconnected", "disconnected_ms"),
	WORD("address", "address"),
	WORD("agent_version", "agent_version"),
	WORD("kernel", "kernel"),
	TIME("created", "create_time_ms"),
	TIME("modified", "modify_time_ms"),
};

static const struct kv_column plugin_columns[] = {
	WORD("plugin_id", "plugin.plugin_id"),
	WORD("profile", "plugin.profile"),
	WORD("node_id", "node_id"),
	FLAG("healthy", "plugin.healthy"),
	WORD("health_description", "plugin.health_description"),
	FLAG("controller_healthy", "plugin.controller.healthy"),
	WORD("provider", "plugin.provider"),
	WORD("provider_version", "plugin.provider_version"),
	WORD("provider_node_id", "plugin.node.provider_node_id"),
	WORD("allocation_id", "plugin.allocation_id"),
	TIME("modified", "plugin.update_time_ms"),
};

static const struct kv_column snapshot_columns[] = {
	WORD("plugin_id", "plugin_id"),
	WORD("name", "name"),
	WORD("snapshot_id", "snapshot_id"),
	WORD("namespace", "namespace"),
	WORD("source_volume_id", "source_volume_id"),
	NUMBER("size_bytes", "size_bytes"),
	FLAG("ready", "ready"),
	WORD("last_error", "last_error"),
	TIME("created", "create_time_ms"),
};

static const struct kv_column token_columns[] = {
	WORD("accessor", "token.accessor"),
	WORD("name", "token.name"),
	WORD("type", "token.type"),
	WORD_OR("policies", "token.policies", "[]"),
	TIME("expires", "token.expires_at_ms"),
	TIME("created", "token.create_time_ms"),
};

static const struct kv_column policy_columns[] = {
	WORD("name", "name"),
	WORD("description", "description"),
	WORD_OR("namespaces", "namespaces", "[]"),
	WORD("plugin", "plugin"),
	WORD("node", "node"),
	WORD("operator", "operator"),
};

static const struct kv_column attestation_columns[] = {
	WORD("id", "id"),
	WORD("node_id", "node_id"),
	WORD("boot_id", "boot_id"),
	WORD_OR("volumes", "volumes", "[]"),
	WORD("reason", "reason"),
	WORD("by", "by"),
	TIME("created", "create_time_ms"),
	TIME("expires", "expires_at_ms"),
};

static const struct kv_column audit_columns[] = {
	NUMBER("sequence", "sequence"),
	TIME("time", "time_ms"),
	WORD("who", "who"),
	WORD("address", "address"),
	WORD("what", "what"),
	WORD("object", "object"),
	WORD("why", "why"),
	NUMBER("code", "code"),
	WORD("message", "message"),
	NUMBER("left_out", "left_out"),
	WORD("vouched_by", "vouched_by"),
};

static const struct kv_column meta_columns[] = {
	NUMBER("schema", "version"),
	WORD("cluster", "cluster"),
	NUMBER("epoch", "number"),
	TIME("restored", "restored_at_ms"),
	WORD("restored_from", "restored_from"),
	NUMBER("generation_floor", "generation"),
};

#define VIEW(name, prefix, columns)                        \
	{                                                  \
		name, prefix, columns, ARRAY_SIZE(columns) \
	}

static const struct kv_view views[] = {
	/* the first one gets the plain fields too */
	VIEW("volume", PREFIX_VOLUME, volume_columns),
	VIEW("claim", PREFIX_CLAIM, claim_columns),
	VIEW("freed_claim", PREFIX_FREED, claim_columns),
	VIEW("allocation", PREFIX_ALLOC, allocation_columns),
	VIEW("node", PREFIX_NODE, node_columns),
	VIEW("plugin", PREFIX_NODE_PLUGIN, plugin_columns),
	VIEW("snapshot", PREFIX_SNAPSHOT, snapshot_columns),
	VIEW("token", PREFIX_TOKEN, token_columns),
	VIEW("policy", PREFIX_POLICY, policy_columns),
	VIEW("attestation", PREFIX_ATTESTATION, attestation_columns),
	VIEW("audit", PREFIX_AUDIT, audit_columns),
	VIEW("meta", PREFIX_META, meta_columns),
};

enum { PLAIN_MAX = 16, PLAIN_PATH_SIZE = 80 };

/* volume_columns and one for each plain field, in this order. */
static size_t add_plain_columns(struct kv_column *columns, char paths[static PLAIN_MAX][PLAIN_PATH_SIZE])
{
	const ProtobufCMessageDescriptor *volume = &holdfast__v1__volume__descriptor;
	size_t n = 0;

	memcpy(columns, volume_columns, sizeof(volume_columns));
	for (unsigned int i = 0; i < volume->n_fields && n < PLAIN_MAX; i++) {
		const ProtobufCFieldDescriptor *field = &volume->fields[i];

		if (field->id < VOLUME_PLAIN_FIRST)
			continue;
		(void)str_format(paths[n], PLAIN_PATH_SIZE, "plain.%s", field->name);
		columns[ARRAY_SIZE(volume_columns) + n] = (struct kv_column)DETAIL(
			field->name, paths[n],
			reflect_is_number(field->type) ? KV_COLUMN_NUMBER : KV_COLUMN_WORD, "");
		n++;
	}
	return ARRAY_SIZE(volume_columns) + n;
}

static const ProtobufCMessageDescriptor *descriptor_of(const char *key)
{
	static const struct {
		const char *prefix;
		const ProtobufCMessageDescriptor *descriptor;
	} objects[] = {
		{PREFIX_VOLUME, &holdfast__v1__volume__descriptor},
		{PREFIX_NODE, &holdfast__v1__node__descriptor},
		{PREFIX_NODE_PLUGIN, &holdfast__v1__plugin_instance__descriptor},
		{PREFIX_ALLOC, &holdfast__v1__allocation__descriptor},
		{PREFIX_CLAIM, &holdfast__v1__claim__descriptor},
	};

	for (size_t i = 0; i < ARRAY_SIZE(objects); i++)
		if (str_starts_with(key, objects[i].prefix))
			return objects[i].descriptor;
	return record_descriptor(key);
}

char *text_of_stored(const char *key, const void *value, size_t len)
{
	const ProtobufCMessageDescriptor *descriptor = descriptor_of(key);
	ProtobufCMessage *message =
		descriptor ? protobuf_c_message_unpack(descriptor, NULL, len, value) : NULL;
	char *text = message ? text_of(key, message) : NULL;

	if (message)
		protobuf_c_message_free_unpacked(message, NULL);
	return text;
}

enum status text_define_views(struct kv *kv, struct error *err)
{
	struct kv_column columns[ARRAY_SIZE(volume_columns) + PLAIN_MAX];
	char paths[PLAIN_MAX][PLAIN_PATH_SIZE];
	struct kv_view all[ARRAY_SIZE(views)];

	memcpy(all, views, sizeof(views));
	all[0].columns = columns;
	all[0].n_columns = add_plain_columns(columns, paths);
	return kv_define_views(kv, all, ARRAY_SIZE(all), err);
}

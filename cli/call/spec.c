/* SPDX-License-Identifier: Apache-2.0 */
#include "call/spec.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/path.h"
#include "base/str.h"
#include "command/secrets.h"
#include "model/restart.h"
#include "model/volume_detail.h"
#include "nomad/keys.h"
#include "pb/pbjson_word.h"
#include "rpc/pbjson.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define cleanup_json cleanup(json_decrefp)

enum { MIB_MAX = 16 << 20 }; /* 16 TiB */

enum spec_kind {
	SPEC_VALUE,    /* as the field's type wants it */
	SPEC_BLOCK,    /* one block: a message */
	SPEC_RESTART,  /* the same, with the defaults of restart */
	SPEC_BLOCKS,   /* blocks without labels: a list of messages */
	SPEC_LABELLED, /* blocks with labels: a list of messages, the label in their field "name", or the hint
			*/
	SPEC_SIZE,     /* bytes, or a text with a unit */
	SPEC_MIB,      /* the same, but a number is MiB, as in Nomad */
	SPEC_DURATION, /* "30s": milliseconds */
	SPEC_TEXTS,    /* a block or object of texts: a map */
	SPEC_TOPOLOGIES, /* a block of `topology { segments { } }` blocks: a list of messages */
	SPEC_PAIRS,	 /* the same: a list of KeyValue */
	SPEC_CONFIG,	 /* a block of a driver's own keys: a list of ConfigValue */
	SPEC_FLAG,	 /* a block of one key, that of the hint, true or false */
	SPEC_DRIVER,	 /* the name of a task driver */
	SPEC_REFERENCE,	 /* "${NAME}": the name */
	SPEC_OTHER,	 /* load_secrets(), map_group() or map_job() reads it */
	SPEC_ELSEWHERE,	 /* no key here: hint has its place */
};

struct spec_block;

struct spec_key {
	const char *key;
	const char *field; /* NULL: called as the key */
	enum spec_kind kind;
	const struct spec_block *block;
	const char *hint;
	bool in_allocation; /* fills a field of the message in the field allocation */
};

struct spec_block {
	const ProtobufCMessageDescriptor *descriptor;
	const struct spec_key *keys;
	size_t n;
	uint32_t first_plain;	/* fields from this number on are keys of the same name; 0: no */
	enum nomad_block nomad; /* whose keys get a hint */
};

#define SPEC_BLOCK_INIT(descriptor_, keys_) SPEC_NOMAD_INIT(descriptor_, keys_, NOMAD_NONE)
#define SPEC_NOMAD_INIT(descriptor_, keys_, nomad_)                                                     \
	{                                                                                               \
		.descriptor = (descriptor_), .keys = (keys_), .n = ARRAY_SIZE(keys_), .nomad = (nomad_) \
	}

static const struct spec_key source_keys[] = {
	{.key = "class"},	{.key = "by_id"},  {.key = "size", .field = "size_bytes"},
	{.key = "inodes"},	{.key = "server"}, {.key = "export"},
	{.key = "host_volume"},
};
static const struct spec_block source_block = SPEC_BLOCK_INIT(&holdfast__v1__source__descriptor, source_keys);

static const struct spec_key capability_keys[] = {
	{.key = "access_mode"},
	{.key = "attachment_mode"},
};
static const struct spec_block capability_block =
	SPEC_BLOCK_INIT(&holdfast__v1__capability__descriptor, capability_keys);

static const struct spec_key mount_options_keys[] = {
	{.key = "fs_type"},
	{.key = "mount_flags"},
};
static const struct spec_block mount_options_block =
	SPEC_BLOCK_INIT(&holdfast__v1__mount_options__descriptor, mount_options_keys);

static const struct spec_key topology_keys[] = {
	{.key = "segments", .kind = SPEC_TEXTS},
};
static const struct spec_block topology_block =
	SPEC_BLOCK_INIT(&holdfast__v1__topology__descriptor, topology_keys);

static const struct spec_key topology_request_keys[] = {
	{.key = "required", .kind = SPEC_TOPOLOGIES, .block = &topology_block},
	{.key = "preferred", .kind = SPEC_TOPOLOGIES, .block = &topology_block},
};
static const struct spec_block topology_request_block =
	SPEC_BLOCK_INIT(&holdfast__v1__topology_request__descriptor, topology_request_keys);

static const struct spec_key on_node_loss_keys[] = {
	{.key = "after", .field = "after_ms", .kind = SPEC_DURATION},
	{.key = "do"},
};
static const struct spec_block on_node_loss_block =
	SPEC_BLOCK_INIT(&holdfast__v1__on_node_loss__descriptor, on_node_loss_keys);

static const struct spec_key snapshots_keys[] = {
	{.key = "every", .field = "every_ms", .kind = SPEC_DURATION},
	{.key = "keep"},
};
static const struct spec_block snapshots_block =
	SPEC_BLOCK_INIT(&holdfast__v1__snapshot_schedule__descriptor, snapshots_keys);

static const char in_capability[] = "capability { access_mode = \"...\" attachment_mode = \"...\" }";

static const struct spec_key volume_keys[] = {
	{.key = "id"},
	{.key = "namespace"},
	{.key = "name"},
	{.key = "external_id"},
	{.key = "type"},
	{.key = "plugin_id"},
	{.key = "profile"},
	{.key = "source", .kind = SPEC_BLOCK, .block = &source_block},
	{.key = "capability",
	 .field = "requested_capabilities",
	 .kind = SPEC_BLOCKS,
	 .block = &capability_block},
	{.key = "capacity_min", .kind = SPEC_SIZE},
	{.key = "capacity_max", .kind = SPEC_SIZE},
	{.key = "clone_id"},
	{.key = "context", .kind = SPEC_TEXTS},
	{.key = "mount_options", .kind = SPEC_BLOCK, .block = &mount_options_block},
	{.key = "on_node_loss", .kind = SPEC_BLOCK, .block = &on_node_loss_block},
	{.key = "parameters", .kind = SPEC_TEXTS},
	{.key = "secrets", .kind = SPEC_TEXTS},
	{.key = "secrets_file", .kind = SPEC_OTHER},
	{.key = "shares"},
	{.key = "snapshot_id"},
	{.key = "snapshots", .kind = SPEC_BLOCK, .block = &snapshots_block},
	{.key = "topology_request", .kind = SPEC_BLOCK, .block = &topology_request_block},
	{.key = "access_mode", .kind = SPEC_ELSEWHERE, .hint = in_capability},
	{.key = "attachment_mode", .kind = SPEC_ELSEWHERE, .hint = in_capability},
};
static const struct spec_block volume_block = {
	.descriptor = &holdfast__v1__volume__descriptor,
	.keys = volume_keys,
	.n = ARRAY_SIZE(volume_keys),
	.first_plain = VOLUME_PLAIN_FIRST,
};

static const struct spec_key request_keys[] = {
	{.key = "source"},
	{.key = "access_mode"},
	{.key = "attachment_mode"},
	{.key = "read_only"},
	{.key = "propagation"},
	{.key = "exec"},
	{.key = "mount_options", .kind = SPEC_BLOCK, .block = &mount_options_block},
};
static const struct spec_block request_block =
	SPEC_NOMAD_INIT(&holdfast__v1__volume_request__descriptor, request_keys, NOMAD_VOLUME);

static const struct spec_key csi_plugin_keys[] = {
	{.key = "id"},
	{.key = "type"},
	{.key = "health_timeout", .field = "health_timeout_ms", .kind = SPEC_DURATION},
	{.key = "socket"},
	{.key = "mount_dir", .kind = SPEC_ELSEWHERE, .hint = "task \"NAME\" { csi_plugin { } }"},
};
static const struct spec_block csi_plugin_block =
	SPEC_NOMAD_INIT(&holdfast__v1__csi_plugin__descriptor, csi_plugin_keys, NOMAD_CSI_PLUGIN);

static const struct spec_key volume_mount_keys[] = {
	{.key = "volume"},
	{.key = "destination"},
	{.key = "read_only"},
	{.key = "propagation"},
};
static const struct spec_block volume_mount_block = SPEC_NOMAD_INIT(
	&holdfast__driver__v1__volume_mount__descriptor, volume_mount_keys, NOMAD_VOLUME_MOUNT);

static const struct spec_key resources_keys[] = {
	{.key = "cpu_shares"},
	{.key = "cpu_millis"},
	{.key = "memory", .field = "memory_bytes", .kind = SPEC_MIB},
	{.key = "memory_swap", .field = "memory_swap_bytes", .kind = SPEC_MIB},
	{.key = "pids"},
};
static const struct spec_block resources_block =
	SPEC_NOMAD_INIT(&holdfast__driver__v1__resources__descriptor, resources_keys, NOMAD_RESOURCES);

static const struct spec_key restart_keys[] = {
	{.key = "mode"},
	{.key = "attempts"},
	{.key = "interval", .field = "interval_ms", .kind = SPEC_DURATION},
	{.key = "delay", .field = "delay_ms", .kind = SPEC_DURATION},
};
static const struct spec_block restart_block =
	SPEC_NOMAD_INIT(&holdfast__driver__v1__restart_policy__descriptor, restart_keys, NOMAD_RESTART);

static const struct spec_key health_keys[] = {
	{.key = "argv"},
	{.key = "interval", .field = "interval_ms", .kind = SPEC_DURATION},
	{.key = "timeout", .field = "timeout_ms", .kind = SPEC_DURATION},
	{.key = "retries"},
};
static const struct spec_block health_block =
	SPEC_BLOCK_INIT(&holdfast__driver__v1__health_check__descriptor, health_keys);

static const struct spec_key plugin_mount_keys[] = {
	{.key = "id"},
	{.key = "mount_dir", .field = "destination"},
};
static const struct spec_block plugin_mount_block =
	SPEC_BLOCK_INIT(&holdfast__driver__v1__csi_plugin_mount__descriptor, plugin_mount_keys);

static const struct spec_key task_keys[] = {
	{.key = "driver", .kind = SPEC_DRIVER},
	{.key = "user"},
	{.key = "env", .kind = SPEC_PAIRS},
	{.key = "volume_mount", .field = "volumes", .kind = SPEC_BLOCKS, .block = &volume_mount_block},
	{.key = "resources", .kind = SPEC_BLOCK, .block = &resources_block},
	{.key = "restart", .kind = SPEC_RESTART, .block = &restart_block},
	{.key = "health", .kind = SPEC_BLOCK, .block = &health_block},
	{.key = "network"},
	{.key = "stop_signal"},
	{.key = "stop_timeout", .field = "stop_timeout_ms", .kind = SPEC_DURATION},
	{.key = "logs", .field = "disable_logs", .kind = SPEC_FLAG, .hint = "disabled"},
	{.key = "csi_plugin", .kind = SPEC_BLOCK, .block = &plugin_mount_block},
	{.key = "config", .kind = SPEC_CONFIG},
};
static const struct spec_block task_block =
	SPEC_NOMAD_INIT(&holdfast__driver__v1__task_config__descriptor, task_keys, NOMAD_TASK);

static const struct spec_key network_keys[] = {
	{.key = "mode"},
};
static const struct spec_block network_block =
	SPEC_NOMAD_INIT(&holdfast__v1__allocation_network__descriptor, network_keys, NOMAD_NETWORK);

static const struct spec_key constraint_keys[] = {
	{.key = "attribute", .kind = SPEC_REFERENCE},
	{.key = "operator"},
	{.key = "value"},
};
static const struct spec_block constraint_block =
	SPEC_NOMAD_INIT(&holdfast__v1__constraint__descriptor, constraint_keys, NOMAD_CONSTRAINT);

static const struct spec_key alloc_keys[] = {
	{.key = "constraint", .field = "constraints", .kind = SPEC_BLOCKS, .block = &constraint_block},
	{.key = "id"},
	{.key = "namespace"},
	{.key = "name"},
	{.key = "node", .field = "node_id"},
	{.key = "driver"},
	{.key = "unit"},
	{.key = "mount_timeout", .field = "mount_timeout_ms", .kind = SPEC_DURATION},
	{.key = "on_node_loss", .kind = SPEC_BLOCK, .block = &on_node_loss_block},
	{.key = "stop_timeout", .field = "stop_timeout_ms", .kind = SPEC_DURATION},
	{.key = "volume", .field = "volumes", .kind = SPEC_LABELLED, .block = &request_block},
	{.key = "csi_plugin", .field = "csi_plugins", .kind = SPEC_BLOCKS, .block = &csi_plugin_block},
	{.key = "network", .kind = SPEC_BLOCK, .block = &network_block},
	{.key = "task", .field = "tasks", .kind = SPEC_LABELLED, .block = &task_block, .hint = "task"},
};
static const struct spec_block alloc_block =
	SPEC_NOMAD_INIT(&holdfast__v1__allocation__descriptor, alloc_keys, NOMAD_GROUP);

static const struct spec_key update_keys[] = {
	{.key = "max_parallel"},
	{.key = "min_healthy_time", .field = "min_healthy_ms", .kind = SPEC_DURATION},
	{.key = "healthy_deadline", .field = "healthy_deadline_ms", .kind = SPEC_DURATION},
};
static const struct spec_block update_block =
	SPEC_NOMAD_INIT(&holdfast__v1__job_update__descriptor, update_keys, NOMAD_UPDATE);

static const struct spec_key reschedule_keys[] = {
	{.key = "unlimited"},
	{.key = "attempts"},
	{.key = "interval", .field = "interval_ms", .kind = SPEC_DURATION},
	{.key = "delay", .field = "delay_ms", .kind = SPEC_DURATION},
};
static const struct spec_block reschedule_block =
	SPEC_NOMAD_INIT(&holdfast__v1__job_reschedule__descriptor, reschedule_keys, NOMAD_RESCHEDULE);

static const struct spec_key member_volume_keys[] = {
	{.key = "source"},
	{.key = "access_mode"},
	{.key = "attachment_mode"},
	{.key = "read_only"},
	{.key = "propagation"},
	{.key = "exec"},
	{.key = "per_alloc", .kind = SPEC_OTHER},
};
static const struct spec_block member_volume_block =
	SPEC_NOMAD_INIT(&holdfast__v1__volume_request__descriptor, member_volume_keys, NOMAD_VOLUME);

static const struct spec_key group_keys[] = {
	{.key = "count"},
	{.key = "update", .kind = SPEC_BLOCK, .block = &update_block},
	{.key = "reschedule", .kind = SPEC_BLOCK, .block = &reschedule_block},
	{.key = "on_node_loss", .kind = SPEC_BLOCK, .block = &on_node_loss_block},
	{.key = "driver", .in_allocation = true},
	{.key = "unit", .in_allocation = true},
	{.key = "mount_timeout", .field = "mount_timeout_ms", .kind = SPEC_DURATION, .in_allocation = true},
	{.key = "stop_timeout", .field = "stop_timeout_ms", .kind = SPEC_DURATION, .in_allocation = true},
	{.key = "volume",
	 .field = "volumes",
	 .kind = SPEC_LABELLED,
	 .block = &member_volume_block,
	 .in_allocation = true},
	{.key = "csi_plugin",
	 .field = "csi_plugins",
	 .kind = SPEC_BLOCKS,
	 .block = &csi_plugin_block,
	 .in_allocation = true},
	{.key = "network", .kind = SPEC_BLOCK, .block = &network_block, .in_allocation = true},
	{.key = "task",
	 .field = "tasks",
	 .kind = SPEC_LABELLED,
	 .block = &task_block,
	 .hint = "task",
	 .in_allocation = true},
	{.key = "constraint",
	 .field = "constraints",
	 .kind = SPEC_BLOCKS,
	 .block = &constraint_block,
	 .in_allocation = true},
};
static const struct spec_block group_block =
	SPEC_NOMAD_INIT(&holdfast__v1__job_group__descriptor, group_keys, NOMAD_GROUP);

static const struct spec_key job_keys[] = {
	{.key = "namespace"},
	{.key = "type"},
	{.key = "group", .kind = SPEC_OTHER, .block = &group_block},
	{.key = "constraint", .kind = SPEC_OTHER},
	{.key = "on_node_loss", .kind = SPEC_ELSEWHERE, .hint = "group \"NAME\" { on_node_loss { } }"},
};
static const struct spec_block job_block =
	SPEC_NOMAD_INIT(&holdfast__v1__job__descriptor, job_keys, NOMAD_JOB);

static enum status map_block(const struct conf *conf, const struct spec_block *block, json_t *body,
			     json_t **ret, struct error *err);

static const char *field_of(const struct spec_key *key)
{
	return key->field ? key->field : key->key;
}

/* The plain field called as the @n bytes at @name, or NULL. */
static const char *plain_key(const struct spec_block *block, const char *name, size_t n)
{
	for (unsigned int i = 0; block && block->first_plain && i < block->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &block->descriptor->fields[i];

		if (field->id >= block->first_plain && strlen(field->name) == n &&
		    strncmp(field->name, name, n) == 0)
			return field->name;
	}
	return NULL;
}

/* Where a value comes from, for its error. */
struct place {
	const struct conf *conf;
	json_t *object;
	const struct spec_key *key;
	struct error *err;
};

/* Let the message's own decoder judge a value here, where its line is known. */
static enum status check_value(const struct place *at, const ProtobufCMessageDescriptor *descriptor,
			       json_t *value)
{
	cleanup_json json_t *alone = json_object();
	ProtobufCMessage *message = NULL;
	struct error why = {.msg = ""};
	enum status status;

	if (!alone || json_object_set_nocheck(alone, field_of(at->key), value) < 0)
		return error_no_memory(at->err, "the specification");
	status = pbjson_decode(descriptor, alone, PBJSON_SPEC, &message, &why);
	protobuf_c_message_free_unpacked(message, NULL);
	if (status == STATUS_INVALID_ARGUMENT)
		return conf_error(at->conf, at->object, at->key->key, at->err, "%s", why.msg);
	return status == STATUS_OK ? STATUS_OK : error_no_memory(at->err, "the specification");
}

static enum status not_a_block(const struct place *at, const char *form)
{
	return conf_error(at->conf, at->object, at->key->key, at->err, "'%s' must be a block: %s",
			  at->key->key, form);
}

static enum status not_one_block(const struct place *at, json_t *value)
{
	size_t n = json_array_size(value);

	for (size_t i = 0; i < n; i++)
		if (!json_is_object(json_array_get(value, i)))
			n = 0;
	if (n < 2)
		return not_a_block(at, "NAME { }");
	return conf_error(at->conf, at->object, at->key->key, at->err,
			  "there are %zu blocks '%s', and there can be one", n, at->key->key);
}

static const char *label_field(const struct spec_key *key)
{
	return key->hint ? key->hint : "name";
}

static enum status append_block(const struct place *at, json_t *body, const char *label, json_t *list)
{
	json_t *mapped = NULL;

	TRY(map_block(at->conf, at->key->block, body, &mapped, at->err));
	if (label && json_object_set_new(mapped, label_field(at->key), json_string(label)) < 0) {
		json_decref(mapped);
		return error_no_memory(at->err, "the specification");
	}
	return json_array_append_new(list, mapped) < 0 ? error_no_memory(at->err, "the specification")
						       : STATUS_OK;
}

static enum status map_blocks(const struct place *at, json_t *value, json_t *list)
{
	enum status status = STATUS_OK;
	json_t *body;
	size_t i;

	if (json_is_object(value))
		return append_block(at, value, NULL, list);
	if (!json_is_array(value))
		return not_a_block(at, "NAME { }");
	json_array_foreach (value, i, body) {
		struct error one;
		const struct place each = {at->conf, at->object, at->key, &one};

		status = error_collect(status,
				       json_is_object(body) ? append_block(&each, body, NULL, list)
							    : not_a_block(&each, "NAME { }"),
				       &one, at->err);
	}
	return status;
}

static enum status map_labelled(const struct place *at, json_t *value, json_t *list)
{
	char form[ERROR_FIELD_SIZE];
	enum status status = STATUS_OK;
	const char *label;
	json_t *body;

	(void)str_format(form, sizeof(form), "%s \"NAME\" { }", at->key->key);
	if (!json_is_object(value))
		return not_a_block(at, form);
	json_object_foreach (value, label, body) {
		struct error one;
		const struct place each = {at->conf, at->object, at->key, &one};

		status = error_collect(status,
				       json_is_object(body) ? append_block(&each, body, label, list)
							    : not_a_block(&each, form),
				       &one, at->err);
	}
	return status;
}

/* capacity_min = "10GiB" */
static enum status map_size(const struct place *at, json_t *value, json_t **ret)
{
	uint64_t bytes = 0;

	if (json_is_integer(value) && json_integer_value(value) >= 0)
		bytes = (uint64_t)json_integer_value(value);
	else if (!json_is_string(value) || parse_size(json_string_value(value), &bytes) < 0 ||
		 bytes > INT64_MAX)
		return conf_error(
			at->conf, at->object, at->key->key, at->err,
			"'%s' must be a size: a number of bytes, \"10GiB\" (powers of 1024) or \"10G\" "
			"(powers of 1000)",
			at->key->key);
	*ret = json_integer((json_int_t)bytes);
	return *ret ? STATUS_OK : error_no_memory(at->err, "the specification");
}

/* memory = 256, "256" or "256MiB". A number that was meant as bytes is refused. */
static enum status map_mib(const struct place *at, json_t *value, json_t **ret)
{
	const char *text = json_string_value(value);
	bool is_digits = text && text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
	uint64_t n = (uint64_t)json_integer_value(value);

	if (!json_is_integer(value) && !is_digits)
		return map_size(at, value, ret);
	if ((is_digits && parse_u64(text, 0, MIB_MAX, &n) < 0) || n > MIB_MAX)
		return conf_error(at->conf, at->object, at->key->key, at->err,
				  "'%s' without a unit is MiB, 0 to %d; write \"256MiB\"", at->key->key,
				  MIB_MAX);
	*ret = json_integer((json_int_t)n << 20);
	return *ret ? STATUS_OK : error_no_memory(at->err, "the specification");
}

/* health_timeout = "30s" */
static enum status map_duration(const struct place *at, json_t *value, json_t **ret)
{
	uint64_t us = 0;

	if (!json_is_string(value) || parse_duration(json_string_value(value), &us) < 0 ||
	    us % USEC_PER_MSEC != 0 || us == 0 || us / USEC_PER_MSEC > UINT32_MAX)
		return conf_error(at->conf, at->object, at->key->key, at->err,
				  "'%s' must be a duration: \"30s\", \"5m\"", at->key->key);
	*ret = json_integer((json_int_t)(us / USEC_PER_MSEC));
	return *ret ? STATUS_OK : error_no_memory(at->err, "the specification");
}

/* No value is in a message: it may be a secret. Nomad reads several blocks of a kind as one. */
static enum status map_texts(const struct place *at, json_t *value, json_t **ret)
{
	enum status status = STATUS_OK;
	struct error one;
	const char *key;
	json_t *text;

	if (!json_is_object(value))
		return not_a_block(at, "NAME { \"KEY\" = \"VALUE\" }");
	json_object_foreach (value, key, text)
		if (!json_is_string(text))
			status = error_collect(status,
					       conf_error(at->conf, value, key, &one,
							  "the value of '%s' must be a text in quotes", key),
					       &one, at->err);
	if (status == STATUS_OK)
		*ret = json_incref(value);
	return status;
}

/* `required { topology { segments { } } }`, or a list of topologies as the API has it. */
static enum status map_topologies(const struct place *at, json_t *value, json_t *list)
{
	const char *key;
	json_t *body;
	enum status status = STATUS_OK;

	if (json_is_array(value) || json_object_get(value, "segments"))
		return map_blocks(at, value, list);
	if (!json_is_object(value))
		return not_a_block(at, "NAME { topology { segments { } } }");
	json_object_foreach (value, key, body) {
		static const char *const known[] = {"topology"};
		struct error one;
		const struct place each = {at->conf, at->object, at->key, &one};

		status = error_collect(status,
				       str_eq(key, known[0])
					       ? map_blocks(&each, body, list)
					       : conf_unknown_key(at->conf, value, key, known, 1, &one),
				       &one, at->err);
	}
	return status;
}

/* env { KEY = "VALUE" } */
static enum status map_pairs(const struct place *at, json_t *value, json_t *list)
{
	json_t *texts = NULL;
	enum status status = map_texts(at, value, &texts);
	const char *key;
	json_t *text;

	if (status != STATUS_OK)
		return status;
	json_object_foreach (texts, key, text)
		if (json_array_append_new(list, json_pack("{ss sO}", "key", key, "value", text)) < 0)
			status = error_no_memory(at->err, "the specification");
	json_decref(texts);
	return status;
}

static bool is_list_of_texts(const json_t *value)
{
	const json_t *one;
	size_t i;

	json_array_foreach (value, i, one)
		if (!json_is_string(one))
			return false;
	return json_is_array(value);
}

/* One key of a driver's own configuration: its schema judges it when the task starts. */
static enum status map_config_value(const struct place *at, json_t *object, const char *key, json_t *value,
				    json_t *list)
{
	struct place inner = {at->conf, object, &(struct spec_key){.key = key}, at->err};
	cleanup_json json_t *pairs = NULL;
	json_t *mapped;
	enum status status;

	if (json_is_string(value))
		mapped = json_pack("{ss sO}", "key", key, "text", value);
	else if (json_is_integer(value))
		mapped = json_pack("{ss sO}", "key", key, "number", value);
	else if (json_is_boolean(value))
		mapped = json_pack("{ss sO}", "key", key, "flag", value);
	else if (is_list_of_texts(value))
		mapped = json_pack("{ss sO}", "key", key, "list", value);
	else if (json_is_object(value)) {
		pairs = json_array();
		status = pairs ? map_pairs(&inner, value, pairs) : STATUS_RESOURCE_EXHAUSTED;
		if (status != STATUS_OK)
			return pairs ? status : error_no_memory(at->err, "the specification");
		mapped = json_pack("{ss sO}", "key", key, "map", pairs);
	} else {
		return conf_error(
			at->conf, object, key, at->err,
			"'%s' must be a text, a number, true or false, a list of texts, or a block of texts",
			key);
	}
	return json_array_append_new(list, mapped) < 0 ? error_no_memory(at->err, "the specification")
						       : STATUS_OK;
}

static enum status map_config(const struct place *at, json_t *value, json_t *list)
{
	enum status status = STATUS_OK;
	const char *key;
	json_t *setting;

	if (!json_is_object(value))
		return not_a_block(at, "config { }");
	json_object_foreach (value, key, setting) {
		struct error one;
		const struct place each = {at->conf, at->object, at->key, &one};

		status = error_collect(status, map_config_value(&each, value, key, setting, list), &one,
				       at->err);
	}
	return status;
}

typedef enum status map_list_fn(const struct place *at, json_t *value, json_t *list);

static enum status map_list(const struct place *at, json_t *value, map_list_fn *map, json_t **ret)
{
	*ret = json_array();
	return *ret ? map(at, value, *ret) : error_no_memory(at->err, "the specification");
}

static enum status map_flag(const struct place *at, json_t *value, json_t **ret)
{
	const char *known[] = {at->key->hint};
	const char *key;
	json_t *flag;

	if (!json_is_object(value))
		return not_one_block(at, value);
	json_object_foreach (value, key, flag) {
		if (!str_eq(key, at->key->hint))
			return conf_unknown_key(at->conf, value, key, known, ARRAY_SIZE(known), at->err);
		if (!json_is_boolean(flag))
			return conf_error(at->conf, value, key, at->err, "'%s' must be true or false", key);
	}
	*ret = json_boolean(json_is_true(json_object_get(value, at->key->hint)));
	return STATUS_OK;
}

/* attribute = "${attr.cpu.arch}" */
static enum status map_reference(const struct place *at, json_t *value, json_t **ret)
{
	const char *text = json_string_value(value);
	size_t n = json_string_length(value);

	if (n > 3 && str_starts_with(text, "${") && text[n - 1] == '}')
		*ret = json_stringn(text + 2, n - 3);
	else
		return conf_error(at->conf, at->object, at->key->key, at->err, "'%s' must be \"${NAME}\"",
				  at->key->key);
	return *ret ? STATUS_OK : error_no_memory(at->err, "the specification");
}

/* Takes @value. */
static bool set_default(json_t *block, const char *field, json_t *value)
{
	cleanup_json json_t *owned = value;

	return json_object_get(block, field) || json_object_set_nocheck(block, field, owned) == 0;
}

/* A key that is left out has Nomad's value: for the server 0 attempts mean no restart. */
static enum status map_restart(const struct place *at, json_t *value, json_t **ret)
{
	cleanup_json json_t *mapped = NULL;

	if (!json_is_object(value))
		return not_one_block(at, value);
	TRY(map_block(at->conf, at->key->block, value, &mapped, at->err));
	if (!set_default(mapped, "mode", json_string("RESTART_MODE_FAIL")) ||
	    !set_default(mapped, "attempts", json_integer(RESTART_ATTEMPTS_DEFAULT)) ||
	    !set_default(mapped, "interval_ms", json_integer(RESTART_INTERVAL_DEFAULT_MS)) ||
	    !set_default(mapped, "delay_ms", json_integer(RESTART_DELAY_DEFAULT_MS)))
		return error_no_memory(at->err, "the specification");
	*ret = TAKE_PTR(mapped);
	return STATUS_OK;
}

/* The field's value for @value of the file. */
static enum status map_value(const struct place *at, const struct spec_block *block, json_t *value,
			     json_t **ret)
{
	switch (at->key->kind) {
	case SPEC_VALUE:
		*ret = json_incref(value);
		return check_value(at, block->descriptor, value);
	case SPEC_REFERENCE:
		return map_reference(at, value, ret);
	case SPEC_DRIVER:
		*ret = json_incref(value);
		if (json_is_string(value) && (str_eq(json_string_value(value), "docker") ||
					      str_eq(json_string_value(value), "podman")))
			return conf_error(
				at->conf, at->object, at->key->key, at->err,
				"driver '%s' of Nomad is \"container\" here, which uses podman or Docker",
				json_string_value(value));
		return check_value(at, block->descriptor, value);
	case SPEC_BLOCK:
		if (!json_is_object(value))
			return not_one_block(at, value);
		return map_block(at->conf, at->key->block, value, ret, at->err);
	case SPEC_RESTART:
		return map_restart(at, value, ret);
	case SPEC_SIZE:
		return map_size(at, value, ret);
	case SPEC_MIB:
		return map_mib(at, value, ret);
	case SPEC_DURATION:
		return map_duration(at, value, ret);
	case SPEC_TEXTS:
		return map_texts(at, value, ret);
	case SPEC_ELSEWHERE:
		return conf_error(at->conf, at->object, at->key->key, at->err,
				  "'%s' belongs into a block: %s", at->key->key, at->key->hint);
	case SPEC_FLAG:
		return map_flag(at, value, ret);
	case SPEC_BLOCKS:
		return map_list(at, value, map_blocks, ret);
	case SPEC_LABELLED:
		return map_list(at, value, map_labelled, ret);
	case SPEC_TOPOLOGIES:
		return map_list(at, value, map_topologies, ret);
	case SPEC_PAIRS:
		return map_list(at, value, map_pairs, ret);
	case SPEC_CONFIG:
		return map_list(at, value, map_config, ret);
	case SPEC_OTHER:
		break;
	}
	return STATUS_OK;
}

static enum status unknown_key(const struct conf *conf, const struct spec_block *block, const json_t *body,
			       const char *key, struct error *err)
{
	assert(block->n == 0 || block->keys);

	const struct nomad_key *of_nomad = nomad_find_key(block->nomad, key);
	const char *known[CONF_FIELDS_MAX];
	size_t n = 0;

	if (of_nomad && of_nomad->text)
		return conf_error(conf, body, key, err, "'%s' of Nomad does not exist here: %s", key,
				  of_nomad->text);
	for (size_t i = 0; i < block->n && n < ARRAY_SIZE(known); i++)
		if (block->keys[i].kind != SPEC_ELSEWHERE)
			known[n++] = block->keys[i].key;
	for (size_t i = 0; block->first_plain && i < block->descriptor->n_fields && n < ARRAY_SIZE(known);
	     i++)
		if (block->descriptor->fields[i].id >= block->first_plain)
			known[n++] = block->descriptor->fields[i].name;
	return conf_unknown_key(conf, body, key, known, n, err);
}

static enum status map_member(const struct conf *conf, const struct spec_block *block, json_t *body,
			      const char *name, json_t *value, json_t *mapped, struct error *err)
{
	cleanup_json json_t *result = NULL;
	struct spec_key plain = {.key = plain_key(block, name, strlen(name))};
	struct place at = {.conf = conf, .object = body, .key = plain.key ? &plain : NULL, .err = err};

	for (size_t i = 0; i < block->n; i++)
		if (str_eq(block->keys[i].key, name))
			at.key = &block->keys[i];
	if (!at.key)
		return unknown_key(conf, block, body, name, err);
	if (at.key->kind == SPEC_OTHER)
		return STATUS_OK;
	if (at.key->in_allocation) {
		if (!set_default(mapped, "allocation", json_object()))
			return error_no_memory(err, "the specification");
		mapped = json_object_get(mapped, "allocation");
		block = &alloc_block;
	}
	TRY(map_value(&at, block, value, &result));
	if (json_object_set_new_nocheck(mapped, field_of(at.key), TAKE_PTR(result)) < 0)
		return error_no_memory(err, "the specification");
	return STATUS_OK;
}

static enum status map_block(const struct conf *conf, const struct spec_block *block, json_t *body,
			     json_t **ret, struct error *err)
{
	cleanup_json json_t *mapped = json_object();
	enum status status = STATUS_OK;
	const char *name;
	json_t *value;

	if (!mapped)
		return error_no_memory(err, "the specification");
	json_object_foreach (body, name, value) {
		struct error one;

		status = error_collect(status, map_member(conf, block, body, name, value, mapped, &one), &one,
				       err);
	}
	if (status == STATUS_OK)
		*ret = TAKE_PTR(mapped);
	return status;
}

static enum status spec_message(const struct conf *conf, const struct spec_block *block,
				ProtobufCMessage **ret, struct error *err)
{
	cleanup_json json_t *mapped = NULL;

	TRY(map_block(conf, block, conf_root(conf), &mapped, err));
	return pbjson_decode(block->descriptor, mapped, PBJSON_SPEC, ret, err);
}

/* Refuses the open file @fd if it is not within @within. */
static enum status check_within(int fd, const char *path, const char *within, struct error *err)
{
	char link[64], real[PATH_MAX];
	ssize_t n;

	(void)str_format(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, real, sizeof(real) - 1);
	if (n < 0)
		return error_set(err, status_from_errno(errno), errno, "read %s", link);
	real[n] = '\0';
	if (path_is_within(real, within))
		return STATUS_OK;
	return error_set(err, STATUS_INVALID_ARGUMENT, 0,
			 "%s leads to %s, outside of the folder %s: with --outside it is read", path, real,
			 within);
}

enum status spec_open_within(const char *path, const char *within, int *ret_fd, struct error *err)
{
	cleanup_close int fd = file_open(path);

	if (fd == -EINVAL)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s: not a regular file", path);
	if (fd < 0)
		return error_set(err, status_from_errno(fd), fd, "read %s", path);
	if (within && within[0] != '\0')
		TRY(check_within(fd, path, within, err));
	*ret_fd = TAKE_FD(fd);
	return STATUS_OK;
}

/* Take the key secrets_file out of the tree and put the secrets in. Relative names are below @folder. */
static enum status load_secrets(const struct conf *conf, const char *folder, const char *within,
				struct error *err)
{
	static const char key[] = "secrets_file";
	json_t *root = conf_root(conf);
	const json_t *name = json_object_get(root, key);
	json_t *secrets = NULL;
	cleanup_close int fd = -EBADF;
	char path[PATH_MAX];
	enum status status;
	struct error one;

	if (!name)
		return STATUS_OK;
	if (!json_is_string(name) || !json_string_length(name))
		return conf_error(conf, root, key, err, "'%s' must be the name of a file", key);
	if (json_object_get(root, "secrets"))
		return conf_error(conf, root, key, err, "'secrets' and '%s' exclude each other", key);
	if (str_format(path, sizeof(path), "%s%s", json_string_value(name)[0] == '/' ? "" : folder,
		       json_string_value(name)) < 0)
		return conf_error(conf, root, key, err, "the name is too long");
	status = spec_open_within(path, within, &fd, &one);
	if (status == STATUS_INVALID_ARGUMENT)
		return conf_error(conf, root, key, err, "'%s': %s", key, one.msg);
	if (status != STATUS_OK) {
		*err = one;
		return status;
	}
	TRY(secrets_load(fd, path, &secrets, err));
	if (json_object_del(root, key) < 0 || json_object_set_new(root, "secrets", secrets) < 0)
		return error_no_memory(err, "the specification");
	return STATUS_OK;
}

/* Puts the syntax errors of the file before the mistakes in the rest of it, @status and @err. */
static enum status with_mistakes(const struct conf *conf, enum status status, struct error *err)
{
	struct error all;
	enum status mistakes = conf_mistakes(conf, &all);

	if (mistakes == STATUS_OK || (status != STATUS_OK && status != STATUS_INVALID_ARGUMENT))
		return status;
	status = error_collect(mistakes, status, err, &all);
	*err = all;
	return status;
}

enum status spec_members(const struct conf *conf, uint32_t *ret, struct error *err)
{
	static const char key[] = "members";
	json_t *root = conf_root(conf);
	const json_t *value = json_object_get(root, key);

	*ret = 0;
	if (!value)
		return STATUS_OK;
	if (!json_is_integer(value) || json_integer_value(value) < 1 ||
	    json_integer_value(value) > SPEC_MEMBERS_MAX)
		return conf_error(conf, root, key, err, "'members' is a number from 1 to %d",
				  SPEC_MEMBERS_MAX);
	if (json_object_get(root, "external_id"))
		return conf_error(
			conf, root, "external_id", err,
			"'external_id' names one volume of the provider, and 'members' are several");
	*ret = (uint32_t)json_integer_value(value);
	return json_object_del(root, key) < 0 ? error_no_memory(err, "the specification") : STATUS_OK;
}

enum status spec_member(Holdfast__V1__Volume *volume, const char *id, uint32_t i, struct error *err)
{
	char *text = NULL;

	if (asprintf(&text, "%s[%" PRIu32 "]", id, i) < 0)
		return error_no_memory(err, "the specification");
	if (volume->id != protobuf_c_empty_string)
		free(volume->id);
	volume->id = text;
	return STATUS_OK;
}

enum status spec_volume(const struct conf *conf, const char *folder, const char *within,
			Holdfast__V1__Volume **ret, struct error *err)
{
	ProtobufCMessage *message = NULL;
	struct error one;
	enum status status = load_secrets(conf, folder, within, err);

	status = error_collect(status, spec_message(conf, &volume_block, &message, &one), &one, err);
	status = with_mistakes(conf, status, err);
	if (status == STATUS_OK)
		*ret = (Holdfast__V1__Volume *)message;
	else
		protobuf_c_message_free_unpacked(message, NULL);
	return status;
}

/* @plugin, which a task is, is the allocation's; the task has only where its folder is, and which of several
 * it is. */
static enum status lift_plugin(const struct conf *conf, json_t *task, bool is_only, json_t *plugins,
			       struct error *err)
{
	static const char key[] = "mount_dir";
	json_t *plugin = json_object_get(task, "csi_plugin");
	json_t *dir = json_object_get(plugin, key);
	json_t *id = json_object_get(plugin, "id");
	cleanup_json json_t *left = json_object();
	enum status status = STATUS_OK;

	if ((json_is_string(dir) && json_object_set(left, key, dir) < 0) ||
	    (!is_only && json_is_string(id) && json_object_set(left, "id", id) < 0) ||
	    json_array_append(plugins, plugin) < 0 || json_object_set(task, "csi_plugin", left) < 0)
		return error_no_memory(err, "the specification");
	if (dir && !json_is_string(dir))
		status = conf_error(conf, plugin, key, err, "'%s' must be a text: an absolute path", key);
	(void)json_object_del(plugin, key);
	return status;
}

/* Moves the blocks csi_plugin of @body and of its tasks to one list, in @body. Leaves invalid ones in
 * place. */
static enum status lift_plugins(const struct conf *conf, json_t *body, struct error *err)
{
	cleanup_json json_t *plugins = json_array();
	json_t *own = json_object_get(body, "csi_plugin");
	size_t n_own = json_is_array(own) ? json_array_size(own) : own != NULL;
	size_t n_tasks = 0;
	enum status status = STATUS_OK;
	struct error one;
	const char *name;
	json_t *task;

	json_object_foreach (json_object_get(body, "task"), name, task)
		n_tasks += json_is_object(json_object_get(task, "csi_plugin"));
	if (n_tasks == 0)
		return STATUS_OK;
	if (!plugins || (json_is_array(own) ? json_array_extend(plugins, own) < 0
					    : own && json_array_append(plugins, own) < 0))
		return error_no_memory(err, "the specification");
	json_object_foreach (json_object_get(body, "task"), name, task)
		if (json_is_object(json_object_get(task, "csi_plugin")))
			status = error_collect(status,
					       lift_plugin(conf, task, n_own + n_tasks == 1, plugins, &one),
					       &one, err);
	if (json_object_set(body, "csi_plugin", plugins) < 0)
		return error_no_memory(err, "the specification");
	return status;
}

enum status spec_alloc(const struct conf *conf, Holdfast__V1__Allocation **ret, struct error *err)
{
	ProtobufCMessage *message = NULL;
	cleanup_json json_t *mapped = NULL;
	struct error one;
	enum status status = lift_plugins(conf, conf_root(conf), err);

	status = error_collect(status, map_block(conf, &alloc_block, conf_root(conf), &mapped, &one), &one,
			       err);
	if (status == STATUS_OK)
		status = pbjson_decode(alloc_block.descriptor, mapped, PBJSON_SPEC, &message, err);
	status = with_mistakes(conf, status, err);
	if (status == STATUS_OK)
		*ret = (Holdfast__V1__Allocation *)message;
	else
		protobuf_c_message_free_unpacked(message, NULL);
	return status;
}

/* Names of the volumes that have `per_alloc = true`. */
static enum status map_per_alloc(const struct conf *conf, json_t *body, json_t *list, struct error *err)
{
	enum status status = STATUS_OK;
	struct error one;
	const char *name;
	json_t *volume;

	json_object_foreach (json_object_get(body, "volume"), name, volume) {
		const json_t *value = json_object_get(volume, "per_alloc");

		if (value && !json_is_boolean(value))
			status = error_collect(
				status,
				conf_error(conf, volume, "per_alloc", &one, "per_alloc: it is true or false"),
				&one, err);
		if (json_is_true(value) && json_array_append_new(list, json_string(name)) < 0)
			return error_no_memory(err, "the specification");
	}
	return status;
}

/* Puts the constraints of @job, which are those of each group, behind the group's own. */
static enum status lift_constraints(const json_t *job, json_t *group, struct error *err)
{
	static const char key[] = "constraint";
	const json_t *from[] = {json_object_get(group, key), json_object_get(job, key)};
	cleanup_json json_t *all = json_array();

	if (!from[1])
		return STATUS_OK;
	for (size_t i = 0; i < 2; i++)
		if (json_is_array(from[i])
			    ? json_array_extend(all, (json_t *)(uintptr_t)from[i]) < 0
			    : from[i] && json_array_append(all, (json_t *)(uintptr_t)from[i]) < 0)
			return error_no_memory(err, "the specification");
	return json_object_set(group, key, all) < 0 ? error_no_memory(err, "the specification") : STATUS_OK;
}

/* A missing key has Nomad's value: for the server 0 attempts mean never again. @block may be NULL. */
static bool default_reschedule(json_t *block, bool is_batch)
{
	enum { DELAY_MS = 30 * 1000 }; /* as without a block */
	const json_t *attempts = json_object_get(block, "attempts");
	bool is_none = !attempts || (json_is_integer(attempts) && json_integer_value(attempts) == 0);
	bool is_limited = is_batch || !is_none;

	return !block || (set_default(block, "unlimited", json_boolean(!is_limited)) &&
			  set_default(block, "attempts", json_integer(is_batch)) &&
			  set_default(block, "delay_ms", json_integer(DELAY_MS)));
}

static enum status map_group(const struct conf *conf, const char *name, json_t *body,
			     Holdfast__V1__JobType type, json_t *list, struct error *err)
{
	cleanup_json json_t *group = NULL;
	cleanup_json json_t *per_alloc = json_array();
	struct error one;
	enum status status = lift_plugins(conf, body, err);

	if (!per_alloc)
		return error_no_memory(err, "the specification");
	status = error_collect(status, map_block(conf, &group_block, body, &group, &one), &one, err);
	status = error_collect(status, map_per_alloc(conf, body, per_alloc, &one), &one, err);
	if (status != STATUS_OK)
		return status;
	if (!default_reschedule(json_object_get(group, "reschedule"),
				type == HOLDFAST__V1__JOB_TYPE__JOB_TYPE_BATCH) ||
	    (!json_object_get(group, "count") && type != HOLDFAST__V1__JOB_TYPE__JOB_TYPE_SYSTEM &&
	     json_object_set_new(group, "count", json_integer(1)) < 0) ||
	    json_object_set_new(group, "name", json_string(name)) < 0 ||
	    !set_default(group, "allocation", json_object()) ||
	    json_object_set(group, "per_alloc", per_alloc) < 0 || json_array_append(list, group) < 0)
		return error_no_memory(err, "the specification");
	return STATUS_OK;
}

static Holdfast__V1__JobType type_of(const json_t *type)
{
	const ProtobufCEnumValue *known =
		json_is_string(type)
			? pbjson_word_find(&holdfast__v1__job_type__descriptor, json_string_value(type), true)
			: NULL;

	return known ? (Holdfast__V1__JobType)known->value : HOLDFAST__V1__JOB_TYPE__JOB_TYPE_SERVICE;
}

static enum status map_job(const struct conf *conf, const char *id, json_t *body, json_t **ret,
			   struct error *err)
{
	cleanup_json json_t *groups = json_array();
	json_t *mapped = NULL;
	const json_t *type = json_object_get(body, "type");
	enum status status = map_block(conf, &job_block, body, &mapped, err);
	json_t *given = json_object_get(body, "group");
	struct error one;
	const char *name;
	json_t *group;

	*ret = mapped;
	if (given && !json_is_object(given))
		status = error_collect(
			status,
			conf_error(conf, body, "group", &one, "'group' must be a block: group \"NAME\" { }"),
			&one, err);
	json_object_foreach (given, name, group) {
		if (json_is_object(group))
			TRY(lift_constraints(body, group, err));
		status = error_collect(status,
				       json_is_object(group)
					       ? map_group(conf, name, group, type_of(type), groups, &one)
					       : conf_error(conf, given, name, &one,
							    "'group' must be a block: group \"NAME\" { }"),
				       &one, err);
	}
	if (status == STATUS_OK && !type && json_object_set_new(mapped, "type", json_string("service")) < 0)
		return error_no_memory(err, "the specification");
	if (status == STATUS_OK && (!groups || json_object_set_new(mapped, "id", json_string(id)) < 0 ||
				    json_object_set(mapped, "groups", groups) < 0))
		return error_no_memory(err, "the specification");
	return status;
}

/* Finds a mistake for each block except the job. */
static enum status check_file(const struct conf *conf, struct error *err)
{
	static const struct spec_block file_block = {.nomad = NOMAD_FILE};
	static const char *const known[] = {"job"};
	json_t *root = conf_root(conf), *value;
	enum status status = STATUS_OK;
	const char *name;

	json_object_foreach (root, name, value) {
		struct error one;

		if (str_eq(name, "job"))
			continue;
		(void)(nomad_find_key(NOMAD_FILE, name)
			       ? unknown_key(conf, &file_block, root, name, &one)
			       : conf_unknown_key(conf, root, name, known, ARRAY_SIZE(known), &one));
		status = error_collect(status, STATUS_INVALID_ARGUMENT, &one, err);
	}
	return status;
}

static enum status map_file(const struct conf *conf, json_t **ret, struct error *err)
{
	json_t *root = conf_root(conf), *jobs = json_object_get(root, "job");
	enum status status = check_file(conf, err);
	const char *name = json_object_iter_key(json_object_iter(jobs));
	struct error one;

	if (!json_is_object(jobs) || json_object_size(jobs) != 1 ||
	    !json_is_object(json_object_get(jobs, name)))
		return status != STATUS_OK || conf_mistakes(conf, NULL) != STATUS_OK
			       ? status
			       : conf_error(conf, root, "job", err, "the file is one block: job \"ID\" { }");
	return error_collect(status, map_job(conf, name, json_object_get(jobs, name), ret, &one), &one, err);
}

/* The first line is the one that helps most. */
static void hint_import(const struct conf *conf, struct error *err)
{
	char whole[2 * ERROR_MSG_MAX];

	if (!nomad_has_keys(conf_root(conf)))
		return;
	(void)snprintf(whole, sizeof(whole),
		       "the file has keys of Nomad: holdfast job import prints it without them\n%s",
		       err->msg);
	whole[sizeof(err->msg) - 1] = '\0';
	memcpy(err->msg, whole, strlen(whole) + 1);
	err->n_fields = 0;
}

enum status spec_job(const struct conf *conf, Holdfast__V1__Job **ret, struct error *err)
{
	cleanup_json json_t *mapped = NULL;
	ProtobufCMessage *message = NULL;
	enum status status = with_mistakes(conf, map_file(conf, &mapped, err), err);

	if (status == STATUS_OK)
		status = pbjson_decode(job_block.descriptor, mapped, PBJSON_SPEC, &message, err);
	if (status == STATUS_OK)
		*ret = (Holdfast__V1__Job *)message;
	else if (status == STATUS_INVALID_ARGUMENT)
		hint_import(conf, err);
	return status;
}

static const struct spec_key *key_of(const struct spec_block *block, const char *name, size_t n)
{
	for (size_t i = 0; block && i < block->n; i++) {
		const struct spec_key *key = &block->keys[i];

		if ((strlen(key->key) == n && strncmp(key->key, name, n) == 0) ||
		    (strlen(field_of(key)) == n && strncmp(field_of(key), name, n) == 0))
			return key;
	}
	return NULL;
}

/* The block that @path begins with the index or the label of ("[1].segments", " data"), among @value; @path
 * is moved behind it. */
static const json_t *block_at(const struct spec_key *key, const json_t *value, const char **path)
{
	char label[ERROR_FIELD_SIZE];
	size_t n = strcspn(*path, "."), index = 0;

	if (**path == ' ') {
		(void)str_format(label, sizeof(label), "%.*s", (int)n - 1, *path + 1);
		*path += n;
		return json_object_get(value, label);
	}
	if (**path == '[') {
		index = strtoul(*path + 1, NULL, 10);
		*path += n;
	}
	return json_is_array(value) ? json_array_get(value, index) : index == 0 ? value : NULL;
}

/* Prepends the line to an error about @path below @root, as far down as the file has it. */
static enum status blame_field(const struct conf *conf, const json_t *root, const struct spec_block *block,
			       const char *path, const char *text, struct error *err)
{
	const json_t *object = root;
	const char *at = path, *found = NULL;

	while (object && *at != '\0') {
		const struct spec_key *key = key_of(block, at, strcspn(at, ".[ "));
		const char *name = key ? key->key : plain_key(block, at, strcspn(at, ".[ "));
		const json_t *value = name ? json_object_get(object, name) : NULL;

		found = value ? name : NULL;
		if (!value || !key || !key->block)
			break;
		at += strcspn(at, ".[ ");
		value = block_at(key, value, &at);
		if (!json_is_object(value))
			break;
		object = value;
		block = key->block;
		found = NULL;
		at += *at == '.';
	}
	return conf_error(conf, found || object != conf_root(conf) ? object : NULL, found, err, "%s: %s",
			  path, text);
}

static enum status blame(const struct conf *conf, const json_t *root, const struct spec_block *block,
			 const Holdfast__V1__ErrorDetails *details, struct error *err)
{
	struct error all = {.msg = ""};
	enum status status = STATUS_OK;

	for (size_t i = 0; i < details->n_fields; i++) {
		struct error one;

		(void)blame_field(conf, root, block, details->fields[i]->field,
				  details->fields[i]->description, &one);
		status = error_collect(status, STATUS_INVALID_ARGUMENT, &one, &all);
	}
	*err = all;
	return status;
}

enum status spec_blame_volume(const struct conf *conf, const Holdfast__V1__ErrorDetails *details,
			      struct error *err)
{
	return blame(conf, conf_root(conf), &volume_block, details, err);
}

enum status spec_blame_alloc(const struct conf *conf, const Holdfast__V1__ErrorDetails *details,
			     struct error *err)
{
	return blame(conf, conf_root(conf), &alloc_block, details, err);
}

enum status spec_blame_job(const struct conf *conf, const Holdfast__V1__ErrorDetails *details,
			   struct error *err)
{
	json_t *jobs = json_object_get(conf_root(conf), "job");

	return blame(conf, json_object_iter_value(json_object_iter(jobs)), &job_block, details, err);
}

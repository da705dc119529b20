#include "spec.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "rpc/pbjson.h"

#include <string.h>

#define cleanup_json cleanup(json_decrefp)

enum spec_kind {
	SPEC_VALUE,    /* as the field's type wants it */
	SPEC_BLOCK,    /* one block: a message */
	SPEC_BLOCKS,   /* blocks without labels: a list of messages */
	SPEC_LABELLED, /* blocks with labels: a list of messages, the label in their field "name" */
	SPEC_LATER,    /* Nomad has it, we do not yet */
};

struct spec_block;

struct spec_key {
	const char *key;
	const char *field; /* NULL: called as the key */
	enum spec_kind kind;
	const struct spec_block *block;
};

struct spec_block {
	const ProtobufCMessageDescriptor *descriptor;
	const struct spec_key *keys;
	size_t n;
};

#define SPEC_BLOCK_INIT(descriptor_, keys_)                                          \
	{                                                                            \
		.descriptor = (descriptor_), .keys = (keys_), .n = ARRAY_SIZE(keys_) \
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
	{.key = "capacity_min", .kind = SPEC_LATER},
	{.key = "capacity_max", .kind = SPEC_LATER},
	{.key = "clone_id", .kind = SPEC_LATER},
	{.key = "context", .kind = SPEC_LATER},
	{.key = "mount_options", .kind = SPEC_LATER},
	{.key = "parameters", .kind = SPEC_LATER},
	{.key = "secrets", .kind = SPEC_LATER},
	{.key = "snapshot_id", .kind = SPEC_LATER},
	{.key = "topology_request", .kind = SPEC_LATER},
};
static const struct spec_block volume_block = SPEC_BLOCK_INIT(&holdfast__v1__volume__descriptor, volume_keys);

static const struct spec_key request_keys[] = {
	{.key = "source"},    {.key = "access_mode"}, {.key = "attachment_mode"},
	{.key = "read_only"}, {.key = "propagation"}, {.key = "exec"},
};
static const struct spec_block request_block =
	SPEC_BLOCK_INIT(&holdfast__v1__volume_request__descriptor, request_keys);

static const struct spec_key alloc_keys[] = {
	{.key = "id"},
	{.key = "namespace"},
	{.key = "name"},
	{.key = "node", .field = "node_id"},
	{.key = "driver"},
	{.key = "volume", .field = "volumes", .kind = SPEC_LABELLED, .block = &request_block},
};
static const struct spec_block alloc_block =
	SPEC_BLOCK_INIT(&holdfast__v1__allocation__descriptor, alloc_keys);

static enum status map_block(const struct conf *conf, const struct spec_block *block, json_t *body,
			     json_t **ret, struct error *err);

static enum status no_memory(struct error *err)
{
	return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "read the specification");
}

static const char *field_of(const struct spec_key *key)
{
	return key->field ? key->field : key->key;
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
		return no_memory(at->err);
	status = pbjson_decode(descriptor, alone, PBJSON_SPEC, &message, &why);
	protobuf_c_message_free_unpacked(message, NULL);
	if (status == STATUS_INVALID_ARGUMENT)
		return conf_error(at->conf, at->object, at->key->key, at->err, "%s", why.msg);
	return status == STATUS_OK ? STATUS_OK : no_memory(at->err);
}

static enum status not_a_block(const struct place *at, const char *form)
{
	return conf_error(at->conf, at->object, at->key->key, at->err, "'%s' must be a block: %s",
			  at->key->key, form);
}

static enum status append_block(const struct place *at, json_t *body, const char *label, json_t *list)
{
	json_t *mapped = NULL;
	enum status status = map_block(at->conf, at->key->block, body, &mapped, at->err);

	if (status != STATUS_OK)
		return status;
	if (label && json_object_set_new(mapped, "name", json_string(label)) < 0) {
		json_decref(mapped);
		return no_memory(at->err);
	}
	return json_array_append_new(list, mapped) < 0 ? no_memory(at->err) : STATUS_OK;
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
		if (status == STATUS_OK)
			status = json_is_object(body) ? append_block(at, body, NULL, list)
						      : not_a_block(at, "NAME { }");
	}
	return status;
}

static enum status map_labelled(const struct place *at, json_t *value, json_t *list)
{
	static const char form[] = "volume \"NAME\" { }";
	enum status status = STATUS_OK;
	const char *label;
	json_t *body;

	if (!json_is_object(value))
		return not_a_block(at, form);
	json_object_foreach (value, label, body) {
		if (status == STATUS_OK)
			status = json_is_object(body) ? append_block(at, body, label, list)
						      : not_a_block(at, form);
	}
	return status;
}

/* The field's value for @value of the file. */
static enum status map_value(const struct place *at, const struct spec_block *block, json_t *value,
			     json_t **ret)
{
	cleanup_json json_t *list = NULL;
	enum status status = STATUS_OK;

	switch (at->key->kind) {
	case SPEC_VALUE:
		*ret = json_incref(value);
		return check_value(at, block->descriptor, value);
	case SPEC_BLOCK:
		if (!json_is_object(value))
			return not_a_block(at, "NAME { }");
		return map_block(at->conf, at->key->block, value, ret, at->err);
	case SPEC_BLOCKS:
	case SPEC_LABELLED:
		list = json_array();
		if (!list)
			return no_memory(at->err);
		status = at->key->kind == SPEC_BLOCKS ? map_blocks(at, value, list)
						      : map_labelled(at, value, list);
		*ret = TAKE_PTR(list);
		return status;
	case SPEC_LATER:
		break;
	}
	return conf_error(at->conf, at->object, at->key->key, at->err,
			  "'%s' is not supported yet, leave it out", at->key->key);
}

static enum status unknown_key(const struct conf *conf, const struct spec_block *block, const json_t *body,
			       const char *key, struct error *err)
{
	const char *known[CONF_FIELDS_MAX];
	size_t n = 0;

	for (; n < block->n && n < ARRAY_SIZE(known); n++)
		known[n] = block->keys[n].key;
	return conf_unknown_key(conf, body, key, known, n, err);
}

static enum status map_member(const struct conf *conf, const struct spec_block *block, json_t *body,
			      const char *name, json_t *value, json_t *mapped, struct error *err)
{
	cleanup_json json_t *result = NULL;
	struct place at = {.conf = conf, .object = body, .err = err};
	enum status status;

	for (size_t i = 0; i < block->n; i++)
		if (str_eq(block->keys[i].key, name))
			at.key = &block->keys[i];
	if (!at.key)
		return unknown_key(conf, block, body, name, err);
	status = map_value(&at, block, value, &result);
	if (status != STATUS_OK)
		return status;
	if (json_object_set_new_nocheck(mapped, field_of(at.key), TAKE_PTR(result)) < 0)
		return no_memory(err);
	return STATUS_OK;
}

static enum status map_block(const struct conf *conf, const struct spec_block *block, json_t *body,
			     json_t **ret, struct error *err)
{
	cleanup_json json_t *mapped = json_object();
	const char *name;
	json_t *value;

	if (!mapped)
		return no_memory(err);
	json_object_foreach (body, name, value) {
		enum status status = map_member(conf, block, body, name, value, mapped, err);

		if (status != STATUS_OK)
			return status;
	}
	*ret = TAKE_PTR(mapped);
	return STATUS_OK;
}

static enum status spec_message(const struct conf *conf, const struct spec_block *block,
				ProtobufCMessage **ret, struct error *err)
{
	cleanup_json json_t *mapped = NULL;
	enum status status = map_block(conf, block, conf_root(conf), &mapped, err);

	return status == STATUS_OK ? pbjson_decode(block->descriptor, mapped, PBJSON_SPEC, ret, err) : status;
}

enum status spec_volume(const struct conf *conf, Holdfast__V1__Volume **ret, struct error *err)
{
	ProtobufCMessage *message = NULL;
	enum status status = spec_message(conf, &volume_block, &message, err);

	if (status == STATUS_OK)
		*ret = (Holdfast__V1__Volume *)message;
	return status;
}

enum status spec_alloc(const struct conf *conf, Holdfast__V1__Allocation **ret, struct error *err)
{
	ProtobufCMessage *message = NULL;
	enum status status = spec_message(conf, &alloc_block, &message, err);

	if (status == STATUS_OK)
		*ret = (Holdfast__V1__Allocation *)message;
	return status;
}

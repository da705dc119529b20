/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/str.h"
#include "rpc/pbjson.h"
#include "rpc/pbjson_scalar.h"

#include <stdlib.h>

struct decoder {
	unsigned int flags;
	unsigned int depth; /* messages around the current value */
	struct error *err;
};

static void free_message(ProtobufCMessage *message)
{
	protobuf_c_message_free_unpacked(message, NULL);
}

DEFINE_CLEANUP(ProtobufCMessage, free_message)

static enum status decode_message(struct decoder *dec, const struct pbjson_path *at,
				  const ProtobufCMessageDescriptor *descriptor, const json_t *json,
				  ProtobufCMessage **ret);

/* jansson's iteration takes a plain pointer but changes nothing. */
static json_t *borrow(const json_t *json)
{
	union {
		const json_t *in;
		json_t *out;
	} u = {.in = json};

	return u.out;
}

static enum status decode_value(struct decoder *dec, const struct pbjson_path *at,
				const ProtobufCFieldDescriptor *field, const json_t *json, void *value)
{
	if (field->type == PROTOBUF_C_TYPE_MESSAGE)
		return decode_message(dec, at, field->descriptor, json, value);
	return pbjson_decode_scalar(dec->flags, at, field, json, value, dec->err);
}

/* The list and its length are in the message before the first element is read, all elements zero: whatever
 * fails, the message can be freed. */
static enum status decode_list(struct decoder *dec, const struct pbjson_path *at,
			       const ProtobufCFieldDescriptor *field, const json_t *json, void **list,
			       size_t *n)
{
	size_t size = pbjson_value_size(field->type);
	/* a single block of a specification */
	bool alone = (dec->flags & PBJSON_SPEC) && json_is_object(json);
	size_t length = alone ? 1 : json_array_size(json);

	if (!alone && !json_is_array(json))
		return pbjson_wanted(at, "a list", json, dec->err);
	if (length == 0)
		return STATUS_OK;
	*list = calloc(length, size);
	if (!*list)
		return pbjson_no_memory(at, dec->err);
	*n = length;
	for (size_t i = 0; i < length; i++) {
		struct pbjson_path here = {.parent = at, .index = i};
		const json_t *element = alone ? json : json_array_get(json, i);
		enum status status =
			decode_value(dec, alone ? at : &here, field, element, (char *)*list + i * size);

		if (status != STATUS_OK)
			return status;
	}
	return STATUS_OK;
}

/* JSON has only text for keys. */
static enum status decode_key(struct decoder *dec, const struct pbjson_path *at,
			      const ProtobufCFieldDescriptor *field, const char *key, void *value)
{
	json_t *json;
	enum status status;

	if (field->type == PROTOBUF_C_TYPE_BOOL) {
		if (!str_eq(key, "true") && !str_eq(key, "false"))
			return pbjson_fail(at, STATUS_INVALID_ARGUMENT, dec->err,
					   "the key must be true or false");
		*(protobuf_c_boolean *)value = str_eq(key, "true");
		return STATUS_OK;
	}
	json = json_string(key);
	if (!json)
		return pbjson_no_memory(at, dec->err);
	status = decode_value(dec, at, field, json, value);
	json_decref(json);
	return status;
}

static enum status decode_entry(struct decoder *dec, const struct pbjson_path *at,
				const ProtobufCMessageDescriptor *descriptor, const char *key,
				const json_t *json, ProtobufCMessage **ret)
{
	const ProtobufCFieldDescriptor *fields = descriptor->fields;
	enum status status;
	char *entry;

	entry = malloc(descriptor->sizeof_message);
	if (!entry)
		return pbjson_no_memory(at, dec->err);
	descriptor->message_init((ProtobufCMessage *)(void *)entry);
	*ret = (ProtobufCMessage *)(void *)entry; /* the map owns it from here */
	status = decode_key(dec, at, &fields[0], key, entry + fields[0].offset);
	if (status != STATUS_OK)
		return status;
	return decode_value(dec, at, &fields[1], json, entry + fields[1].offset);
}

static enum status decode_map(struct decoder *dec, const struct pbjson_path *at,
			      const ProtobufCFieldDescriptor *field, const json_t *json, void **list,
			      size_t *n)
{
	ProtobufCMessage **entries;
	const char *key;
	json_t *value;
	size_t i = 0;

	if (!json_is_object(json))
		return pbjson_wanted(at, "an object", json, dec->err);
	if (json_object_size(json) == 0)
		return STATUS_OK;
	entries = calloc(json_object_size(json), sizeof(ProtobufCMessage *));
	if (!entries)
		return pbjson_no_memory(at, dec->err);
	*list = entries;
	*n = json_object_size(json);
	json_object_foreach (borrow(json), key, value) {
		struct pbjson_path here = {.parent = at, .key = key};
		enum status status = decode_entry(dec, &here, field->descriptor, key, value, &entries[i++]);

		if (status != STATUS_OK)
			return status;
	}
	return STATUS_OK;
}

static enum status decode_field(struct decoder *dec, const struct pbjson_path *at,
				const ProtobufCFieldDescriptor *field, const json_t *json,
				ProtobufCMessage *message)
{
	void *value = (char *)message + field->offset;
	void *quantifier = (char *)message + field->quantifier_offset;

	if (field->label == PROTOBUF_C_LABEL_REPEATED) {
		if (pbjson_is_map(field))
			return decode_map(dec, at, field, json, value, quantifier);
		return decode_list(dec, at, field, json, value, quantifier);
	}
	if (pbjson_in_oneof(field)) {
		uint32_t *which = quantifier;

		if (*which != 0)
			return pbjson_fail(
				at, STATUS_INVALID_ARGUMENT, dec->err,
				"only one of its group may be given, %s is given as well",
				protobuf_c_message_descriptor_get_field(message->descriptor, *which)->name);
		*which = field->id;
	}
	return decode_value(dec, at, field, json, value);
}

/* Both spellings are read. @ret_twice: the object has the other spelling too, and this is the first of them.
 */
static const ProtobufCFieldDescriptor *find_field(const ProtobufCMessageDescriptor *descriptor,
						  const json_t *object, const char *key, bool *ret_twice)
{
	char name[PBJSON_NAME_SIZE];

	for (unsigned int i = 0; i < descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &descriptor->fields[i];

		pbjson_json_name(field, name);
		if (!str_eq(key, field->name) && !str_eq(key, name))
			continue;
		*ret_twice = !str_eq(field->name, name) && json_object_get(object, field->name) &&
			     json_object_get(object, name);
		return field;
	}
	return NULL;
}

static enum status decode_fields(struct decoder *dec, const struct pbjson_path *at,
				 const ProtobufCMessageDescriptor *descriptor, const json_t *object,
				 ProtobufCMessage *message)
{
	const char *key;
	json_t *value;

	json_object_foreach (borrow(object), key, value) {
		bool twice = false;
		const ProtobufCFieldDescriptor *field = find_field(descriptor, object, key, &twice);
		struct pbjson_path here = {.parent = at, .field = field ? field->name : key};
		enum status status;

		if (!field)
			return pbjson_fail(&here, STATUS_INVALID_ARGUMENT, dec->err, "%s has no such field",
					   descriptor->short_name);
		if (twice)
			return pbjson_fail(&here, STATUS_INVALID_ARGUMENT, dec->err,
					   "is given twice, in both spellings");
		if (json_is_null(value)) /* the same as leaving it out */
			continue;
		status = decode_field(dec, &here, field, value, message);
		if (status != STATUS_OK)
			return status;
	}
	return STATUS_OK;
}

static enum status decode_message(struct decoder *dec, const struct pbjson_path *at,
				  const ProtobufCMessageDescriptor *descriptor, const json_t *json,
				  ProtobufCMessage **ret)
{
	cleanup(free_messagep) ProtobufCMessage *message = NULL;
	enum status status;

	if (dec->depth == PBJSON_DEPTH_MAX)
		return pbjson_fail(at, STATUS_INVALID_ARGUMENT, dec->err, "nested deeper than %d messages",
				   PBJSON_DEPTH_MAX);
	if (pbjson_is_well_known(descriptor))
		return pbjson_fail(at, STATUS_UNIMPLEMENTED, dec->err, "%s has no JSON form here",
				   descriptor->name);
	if (!json_is_object(json))
		return pbjson_wanted(at, "an object", json, dec->err);
	message = malloc(descriptor->sizeof_message);
	if (!message)
		return pbjson_no_memory(at, dec->err);
	descriptor->message_init(message);
	dec->depth++;
	status = decode_fields(dec, at, descriptor, json, message);
	dec->depth--;
	if (status == STATUS_OK)
		*ret = TAKE_PTR(message);
	return status;
}

enum status pbjson_decode(const ProtobufCMessageDescriptor *descriptor, const json_t *json,
			  unsigned int flags, ProtobufCMessage **ret, struct error *err)
{
	struct decoder dec = {.flags = flags, .depth = 0, .err = err};

	return decode_message(&dec, NULL, descriptor, json, ret);
}

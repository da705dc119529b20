/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/pbjson.h"

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "pb/pbjson_word.h"
#include "pb/reflect.h"
#include "rpc/base64.h"

#include <assert.h>
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The way from the outermost message to a value: one frame per step, kept on the stack. */
struct path {
	const struct path *parent; /* NULL: a field of the outermost message */
	const char *field;	   /* set: a field of that name */
	const char *key;	   /* set: an entry of a map; neither set: element @index of a list */
	size_t index;
};

/* Append the text of @at to @text; cut when there is no room. Returns the length so far. */
static size_t render(const struct path *at, char *text, size_t size)
{
	size_t n = at->parent ? render(at->parent, text, size) : 0;
	int more;

	if (at->field)
		more = snprintf(text + n, size - n, "%s%s", n ? "." : "", at->field);
	else if (at->key)
		more = snprintf(text + n, size - n, "[\"%s\"]", at->key);
	else
		more = snprintf(text + n, size - n, "[%zu]", at->index);
	if (more < 0)
		return n;
	return n + (size_t)more < size ? n + (size_t)more : size - 1;
}

/* Fill @err with "<path>: <message>" and return @status. @at NULL means the outermost message. */
__attribute__((format(printf, 4, 5))) static enum status fail(const struct path *at, enum status status,
							      struct error *err, const char *fmt, ...)
{
	char message[ERROR_MSG_MAX], whole[2 * ERROR_MSG_MAX], shown[ERROR_MSG_MAX];
	char path[ERROR_MSG_MAX / 2] = "";
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(message, sizeof(message), fmt, args);
	va_end(args);
	if (at)
		(void)render(at, path, sizeof(path));
	(void)snprintf(whole, sizeof(whole), "%s%s%s", path, at ? ": " : "", message);
	str_copy_text(shown, sizeof(shown), whole); /* a name with a line break makes no line of a list */
	return error_set(err, status, 0, "%s", shown);
}

/* The types of google.protobuf have JSON forms of their own, which are not implemented: our wire does not use
 * them. */
static bool is_well_known(const ProtobufCMessageDescriptor *descriptor)
{
	return str_eq(descriptor->package_name, "google.protobuf");
}

enum { SHOWN_SIZE = 65 }; /* of a wrong text, in a message */

/* Where a scalar is read: flags of pbjson_decode(), its path, and the place for an error. */
struct scalar {
	unsigned int flags;
	const struct path *at;
	struct error *err;
};

/* "<path>: wants <what>, not a string" */
static enum status wanted_type(const struct path *at, const char *what, const json_t *json, struct error *err)
{
	static const char *const types[] = {
		[JSON_OBJECT] = "an object", [JSON_ARRAY] = "a list",  [JSON_STRING] = "a string",
		[JSON_INTEGER] = "a number", [JSON_REAL] = "a number", [JSON_TRUE] = "true",
		[JSON_FALSE] = "false",	     [JSON_NULL] = "null",
	};

	/* cppcheck-suppress nullPointerRedundantCheck ; json is never NULL, which jansson's macro asks again
	 */
	return fail(at, STATUS_INVALID_ARGUMENT, err, "wants %s, not %s", what, types[json_typeof(json)]);
}

/* The same, with the text. Not for lists and objects, which may be of secrets. */
static enum status wanted(const struct path *at, const char *what, const json_t *json, struct error *err)
{
	char shown[SHOWN_SIZE];

	if (!json_is_string(json))
		return wanted_type(at, what, json, err);
	str_copy_text(shown, sizeof(shown), json_string_value(json));
	return fail(at, STATUS_INVALID_ARGUMENT, err, "'%s' is not %s", shown, what);
}

static enum status no_memory(const struct path *at, struct error *err)
{
	return fail(at, STATUS_RESOURCE_EXHAUSTED, err, "out of memory");
}

/* Any integer of 64 bits of either kind. */
struct integer {
	bool negative;
	uint64_t magnitude;
};

/* Doubles hold every integer up to here. */
#define EXACT_MAX 9007199254740992.0

static bool size_is_wanted(const struct scalar *in, const ProtobufCFieldDescriptor *field)
{
	size_t n = strlen(field->name);

	return (in->flags & PBJSON_SPEC) && n > 6 && str_eq(field->name + n - 6, "_bytes");
}

/* As JSON writes numbers: no leading zero, so that two keys of a map cannot mean the same. */
static bool integer_of_text(const char *text, struct integer *ret)
{
	bool negative = text[0] == '-';
	const char *digits = text + negative;

	if (digits[0] == '0' && (negative || digits[1] != '\0'))
		return false;
	ret->negative = negative;
	return parse_u64(digits, 0, UINT64_MAX, &ret->magnitude) == 0;
}

static bool integer_of(const json_t *json, struct integer *ret)
{
	if (json_is_integer(json)) {
		json_int_t value = json_integer_value(json);

		ret->negative = value < 0;
		ret->magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
		return true;
	}
	if (json_is_real(json)) { /* 1e3 is an integer too */
		double value = json_real_value(json);

		if (value > EXACT_MAX || value < -EXACT_MAX || (double)(int64_t)value != value)
			return false;
		ret->negative = value < 0;
		ret->magnitude = (uint64_t)(int64_t)(value < 0 ? -value : value);
		return true;
	}
	return json_is_string(json) && integer_of_text(json_string_value(json), ret);
}

/* A number of @field within [@min, @max], which the caller converts to the field's type. */
static enum status decode_integer(const struct scalar *in, const ProtobufCFieldDescriptor *field,
				  const json_t *json, int64_t min, uint64_t max, uint64_t *ret)
{
	struct integer value = {.negative = false, .magnitude = 0};
	bool is_size = size_is_wanted(in, field) && json_is_string(json);

	if (!integer_of(json, &value) &&
	    !(is_size && parse_size(json_string_value(json), &value.magnitude) == 0))
		return wanted(in->at, is_size ? "a size as in \"10GiB\"" : "a whole number", json, in->err);
	if (value.magnitude > (value.negative ? 0 - (uint64_t)min : max))
		return fail(in->at, STATUS_INVALID_ARGUMENT, in->err,
			    "the number is out of range, it may be %" PRId64 " to %" PRIu64, min, max);
	*ret = value.negative ? 0 - value.magnitude : value.magnitude;
	return STATUS_OK;
}

static enum status decode_i32(const struct scalar *in, const ProtobufCFieldDescriptor *field,
			      const json_t *json, int32_t *ret)
{
	uint64_t bits = 0;
	enum status status = decode_integer(in, field, json, INT32_MIN, INT32_MAX, &bits);

	if (status == STATUS_OK)
		*ret = (int32_t)(int64_t)bits;
	return status;
}

static enum status decode_u32(const struct scalar *in, const ProtobufCFieldDescriptor *field,
			      const json_t *json, uint32_t *ret)
{
	uint64_t bits = 0;
	enum status status = decode_integer(in, field, json, 0, UINT32_MAX, &bits);

	if (status == STATUS_OK)
		*ret = (uint32_t)bits;
	return status;
}

static enum status decode_i64(const struct scalar *in, const ProtobufCFieldDescriptor *field,
			      const json_t *json, int64_t *ret)
{
	uint64_t bits = 0;
	enum status status = decode_integer(in, field, json, INT64_MIN, INT64_MAX, &bits);

	if (status == STATUS_OK)
		*ret = (int64_t)bits;
	return status;
}

static enum status decode_real(const struct scalar *in, const json_t *json, double max, double *ret)
{
	static const struct {
		const char *word;
		double value;
	} words[] = {{"NaN", NAN}, {"Infinity", INFINITY}, {"-Infinity", -INFINITY}};

	for (size_t i = 0; json_is_string(json) && i < ARRAY_SIZE(words); i++) {
		if (!str_eq(json_string_value(json), words[i].word))
			continue;
		*ret = words[i].value;
		return STATUS_OK;
	}
	if (!json_is_number(json))
		return wanted(in->at, "a number", json, in->err);
	if (json_number_value(json) > max || json_number_value(json) < -max)
		return fail(in->at, STATUS_INVALID_ARGUMENT, in->err, "the number is out of range");
	*ret = json_number_value(json);
	return STATUS_OK;
}

static enum status decode_float(const struct scalar *in, const json_t *json, float *ret)
{
	double value = 0;
	enum status status = decode_real(in, json, (double)FLT_MAX, &value);

	if (status == STATUS_OK)
		*ret = (float)value;
	return status;
}

static enum status decode_bool(const struct scalar *in, const json_t *json, protobuf_c_boolean *ret)
{
	if (!json_is_boolean(json))
		return wanted(in->at, "true or false", json, in->err);
	*ret = json_is_true(json);
	return STATUS_OK;
}

static enum status decode_enum(const struct scalar *in, const ProtobufCFieldDescriptor *field,
			       const json_t *json, int *ret)
{
	const ProtobufCEnumDescriptor *descriptor = field->descriptor;
	const ProtobufCEnumValue *value = NULL;
	bool spec = (in->flags & PBJSON_SPEC) != 0;
	char words[ERROR_MSG_MAX / 2];
	char shown[SHOWN_SIZE];

	if (json_is_string(json)) {
		value = pbjson_word_find(descriptor, json_string_value(json), spec);
	} else if (json_is_integer(json)) {
		json_int_t number = json_integer_value(json);

		if (number >= INT_MIN && number <= INT_MAX)
			value = protobuf_c_enum_descriptor_get_value(descriptor, (int)number);
	} else {
		return wanted(in->at, "a word", json, in->err);
	}
	if (value) {
		*ret = value->value;
		return STATUS_OK;
	}
	(void)pbjson_word_list(descriptor, spec, words, sizeof(words));
	if (json_is_integer(json))
		return fail(in->at, STATUS_INVALID_ARGUMENT, in->err,
			    "%" JSON_INTEGER_FORMAT " is not one of its numbers, use one of: %s",
			    json_integer_value(json), words);
	str_copy_text(shown, sizeof(shown), json_string_value(json));
	return fail(in->at, STATUS_INVALID_ARGUMENT, in->err, "'%s' is unknown, use one of: %s", shown,
		    words);
}

static enum status decode_string(const struct scalar *in, const json_t *json, char **ret)
{
	char *text;

	if (!json_is_string(json))
		return wanted(in->at, "a string", json, in->err);
	if (strlen(json_string_value(json)) != json_string_length(json))
		return fail(in->at, STATUS_INVALID_ARGUMENT, in->err, "the text holds a NUL byte");
	text = strdup(json_string_value(json));
	if (!text)
		return no_memory(in->at, in->err);
	*ret = text;
	return STATUS_OK;
}

static enum status decode_bytes(const struct scalar *in, const json_t *json, ProtobufCBinaryData *ret)
{
	const char *text = json_string_value(json);
	int r;

	if (!text)
		return wanted(in->at, "base64 text", json, in->err);
	r = base64_decode(text, json_string_length(json), false, &ret->data, &ret->len);
	if (r == -ENOMEM)
		return no_memory(in->at, in->err);
	return r < 0 ? wanted(in->at, "base64 text", json, in->err) : STATUS_OK;
}

/* Read @json into @value, the storage of one value of @field: never PROTOBUF_C_TYPE_MESSAGE. Memory that
 * @value gets is freed with its message. */
static enum status decode_scalar(unsigned int flags, const struct path *at,
				 const ProtobufCFieldDescriptor *field, const json_t *json, void *value,
				 struct error *err)
{
	const struct scalar here = {.flags = flags, .at = at, .err = err};
	const struct scalar *in = &here;

	switch (field->type) {
	case PROTOBUF_C_TYPE_INT32:
	case PROTOBUF_C_TYPE_SINT32:
	case PROTOBUF_C_TYPE_SFIXED32:
		return decode_i32(in, field, json, value);
	case PROTOBUF_C_TYPE_UINT32:
	case PROTOBUF_C_TYPE_FIXED32:
		return decode_u32(in, field, json, value);
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_SFIXED64:
		return decode_i64(in, field, json, value);
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_FIXED64:
		return decode_integer(in, field, json, 0, UINT64_MAX, value);
	case PROTOBUF_C_TYPE_FLOAT:
		return decode_float(in, json, value);
	case PROTOBUF_C_TYPE_DOUBLE:
		return decode_real(in, json, DBL_MAX, value);
	case PROTOBUF_C_TYPE_BOOL:
		return decode_bool(in, json, value);
	case PROTOBUF_C_TYPE_ENUM:
		return decode_enum(in, field, json, value);
	case PROTOBUF_C_TYPE_STRING:
		return decode_string(in, json, value);
	case PROTOBUF_C_TYPE_BYTES:
		return decode_bytes(in, json, value);
	case PROTOBUF_C_TYPE_MESSAGE:
		break; /* not a scalar */
	}
	assert(false);
	return STATUS_INTERNAL;
}

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

static enum status decode_message(struct decoder *dec, const struct path *at,
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

static enum status decode_value(struct decoder *dec, const struct path *at,
				const ProtobufCFieldDescriptor *field, const json_t *json, void *value)
{
	if (field->type == PROTOBUF_C_TYPE_MESSAGE)
		return decode_message(dec, at, field->descriptor, json, value);
	return decode_scalar(dec->flags, at, field, json, value, dec->err);
}

/* The list and its length are in the message before the first element is read, all elements zero: after any
 * failure the message can be freed. */
static enum status decode_list(struct decoder *dec, const struct path *at,
			       const ProtobufCFieldDescriptor *field, const json_t *json, void **list,
			       size_t *n)
{
	size_t size = reflect_size(field->type);
	/* a single block of a specification */
	bool alone = (dec->flags & PBJSON_SPEC) && json_is_object(json);
	size_t length = alone ? 1 : json_array_size(json);

	if (!alone && !json_is_array(json))
		return wanted_type(at, "a list", json, dec->err);
	if (length == 0)
		return STATUS_OK;
	*list = calloc(length, size);
	if (!*list)
		return no_memory(at, dec->err);
	*n = length;
	for (size_t i = 0; i < length; i++) {
		struct path here = {.parent = at, .index = i};
		const json_t *element = alone ? json : json_array_get(json, i);

		TRY(decode_value(dec, alone ? at : &here, field, element, (char *)*list + i * size));
	}
	return STATUS_OK;
}

/* JSON has only text for keys. */
static enum status decode_key(struct decoder *dec, const struct path *at,
			      const ProtobufCFieldDescriptor *field, const char *key, void *value)
{
	json_t *json;
	enum status status;

	if (field->type == PROTOBUF_C_TYPE_BOOL) {
		if (!str_eq(key, "true") && !str_eq(key, "false"))
			return fail(at, STATUS_INVALID_ARGUMENT, dec->err, "the key must be true or false");
		*(protobuf_c_boolean *)value = str_eq(key, "true");
		return STATUS_OK;
	}
	json = json_string(key);
	if (!json)
		return no_memory(at, dec->err);
	status = decode_value(dec, at, field, json, value);
	json_decref(json);
	return status;
}

static enum status decode_entry(struct decoder *dec, const struct path *at,
				const ProtobufCMessageDescriptor *descriptor, const char *key,
				const json_t *json, ProtobufCMessage **ret)
{
	const ProtobufCFieldDescriptor *fields = descriptor->fields;
	char *entry;

	entry = malloc(descriptor->sizeof_message);
	if (!entry)
		return no_memory(at, dec->err);
	descriptor->message_init((ProtobufCMessage *)(void *)entry);
	*ret = (ProtobufCMessage *)(void *)entry; /* the map owns it from here */
	TRY(decode_key(dec, at, &fields[0], key, entry + fields[0].offset));
	return decode_value(dec, at, &fields[1], json, entry + fields[1].offset);
}

static enum status decode_map(struct decoder *dec, const struct path *at,
			      const ProtobufCFieldDescriptor *field, const json_t *json, void **list,
			      size_t *n)
{
	ProtobufCMessage **entries;
	const char *key;
	json_t *value;
	size_t i = 0;

	if (!json_is_object(json))
		return wanted_type(at, "an object", json, dec->err);
	if (json_object_size(json) == 0)
		return STATUS_OK;
	entries = calloc(json_object_size(json), sizeof(ProtobufCMessage *));
	if (!entries)
		return no_memory(at, dec->err);
	*list = entries;
	*n = json_object_size(json);
	json_object_foreach (borrow(json), key, value) {
		struct path here = {.parent = at, .key = key};

		TRY(decode_entry(dec, &here, field->descriptor, key, value, &entries[i++]));
	}
	return STATUS_OK;
}

static enum status decode_field(struct decoder *dec, const struct path *at,
				const ProtobufCFieldDescriptor *field, const json_t *json,
				ProtobufCMessage *message)
{
	void *value = (char *)message + field->offset;
	void *quantifier = (char *)message + field->quantifier_offset;

	if (reflect_is_list(field)) {
		if (reflect_is_map(field))
			return decode_map(dec, at, field, json, value, quantifier);
		return decode_list(dec, at, field, json, value, quantifier);
	}
	if (reflect_in_oneof(field)) {
		uint32_t *which = quantifier;

		if (*which != 0)
			return fail(
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
	char name[REFLECT_NAME_SIZE];

	for (unsigned int i = 0; i < descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &descriptor->fields[i];

		reflect_json_name(field, name);
		if (!str_eq(key, field->name) && !str_eq(key, name))
			continue;
		*ret_twice = !str_eq(field->name, name) && json_object_get(object, field->name) &&
			     json_object_get(object, name);
		return field;
	}
	return NULL;
}

static enum status decode_fields(struct decoder *dec, const struct path *at,
				 const ProtobufCMessageDescriptor *descriptor, const json_t *object,
				 ProtobufCMessage *message)
{
	const char *key;
	json_t *value;

	json_object_foreach (borrow(object), key, value) {
		bool twice = false;
		const ProtobufCFieldDescriptor *field = find_field(descriptor, object, key, &twice);
		struct path here = {.parent = at, .field = field ? field->name : key};

		if (!field)
			return fail(&here, STATUS_INVALID_ARGUMENT, dec->err, "%s has no such field",
				    descriptor->short_name);
		if (twice)
			return fail(&here, STATUS_INVALID_ARGUMENT, dec->err,
				    "is given twice, in both spellings");
		if (json_is_null(value)) /* the same as leaving it out */
			continue;
		TRY(decode_field(dec, &here, field, value, message));
	}
	return STATUS_OK;
}

static enum status decode_message(struct decoder *dec, const struct path *at,
				  const ProtobufCMessageDescriptor *descriptor, const json_t *json,
				  ProtobufCMessage **ret)
{
	cleanup(free_messagep) ProtobufCMessage *message = NULL;
	enum status status;

	if (dec->depth == PBJSON_DEPTH_MAX)
		return fail(at, STATUS_INVALID_ARGUMENT, dec->err, "nested deeper than %d messages",
			    PBJSON_DEPTH_MAX);
	if (is_well_known(descriptor))
		return fail(at, STATUS_UNIMPLEMENTED, dec->err, "%s has no JSON form here", descriptor->name);
	if (!json_is_object(json))
		return wanted_type(at, "an object", json, dec->err);
	message = malloc(descriptor->sizeof_message);
	if (!message)
		return no_memory(at, dec->err);
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

struct printer {
	unsigned int flags;
	unsigned int depth; /* messages around the current value */
	unsigned int level; /* of its line */
	struct strbuf *to;
	struct error *err;
};

enum { NUMBER_SIZE = 24, BLANKS = 2 };

static void put_line(struct printer *out)
{
	static const char blanks[] = "                                ";
	size_t n = (size_t)out->level * BLANKS;

	if (!(out->flags & PBJSON_LINES))
		return;
	strbuf_put(out->to, "\n", 1);
	for (size_t some; n > 0; n -= some) {
		some = n < sizeof(blanks) - 1 ? n : sizeof(blanks) - 1;
		strbuf_put(out->to, blanks, some);
	}
}

/* Begins the next element of an object or list, which @opening began; sets *@any. */
static void put_next(struct printer *out, bool *any, const char *opening)
{
	strbuf_put(out->to, *any ? "," : opening, 1);
	if (!*any)
		out->level++;
	*any = true;
	put_line(out);
}

static void put_end(struct printer *out, bool any, const char *both)
{
	if (!any) {
		strbuf_put(out->to, both, 2);
		return;
	}
	out->level--;
	put_line(out);
	strbuf_put(out->to, both + 1, 1);
}

/* As jansson writes it, but also characters that a terminal obeys are escaped, and utf8_mask() for the rest.
 */
static void put_text(struct printer *out, const char *text)
{
	static const char letters[] = "\b\f\n\r\t\"\\", names[] = "bfnrt\"\\";
	const char *from = text;
	size_t begin = out->to->len;

	strbuf_put(out->to, "\"", 1);
	for (; *text != '\0'; text++) {
		bool is_ascii = *text >= ' ' && *text <= '~'; /* most are, and cost little */
		unsigned int character = is_ascii ? 0 : str_unprintable(text);
		const char *letter;

		if (character == 0 && *text != '"' && *text != '\\')
			continue;
		strbuf_put(out->to, from, (size_t)(text - from));
		letter = strchr(letters, *text);
		if (letter)
			strbuf_printf(out->to, "\\%c", names[letter - letters]);
		else
			strbuf_printf(out->to, "\\u%04X", character);
		text += letter ? 0 : utf8_sequence(text) - 1;
		from = text + 1;
	}
	strbuf_put(out->to, from, (size_t)(text - from));
	strbuf_put(out->to, "\"", 1);
	if (out->to->error == 0)
		utf8_mask(out->to->data + begin, out->to->len - begin);
}

static void put_name(struct printer *out, const char *name)
{
	put_text(out, name);
	strbuf_put(out->to, ": ", out->flags & PBJSON_LINES ? 2 : 1);
}

static enum status print_message(struct printer *out, const struct path *at, const ProtobufCMessage *message);

/* A whole number in decimal. Returns @buffer. */
static const char *number_text(ProtobufCType type, const char *at, char buffer[NUMBER_SIZE])
{
	uint64_t number = reflect_number(type, at);

	if (reflect_is_signed(type))
		(void)snprintf(buffer, NUMBER_SIZE, "%" PRId64, (int64_t)number);
	else
		(void)snprintf(buffer, NUMBER_SIZE, "%" PRIu64, number);
	return buffer;
}

static enum status print_real(struct printer *out, const struct path *at, double value)
{
	cleanup(json_decrefp) json_t *json = NULL;
	cleanup_free char *text = NULL;

	if (isnan(value)) {
		put_text(out, "NaN");
		return STATUS_OK;
	}
	if (isinf(value)) {
		put_text(out, value > 0 ? "Infinity" : "-Infinity");
		return STATUS_OK;
	}
	json = json_real(value);
	text = json ? json_dumps(json, JSON_ENCODE_ANY) : NULL;
	if (!text)
		return no_memory(at, out->err);
	strbuf_puts(out->to, text);
	return STATUS_OK;
}

/* A number without a name comes from a newer peer: it is shown as the number. */
static void put_enum(struct printer *out, const ProtobufCEnumDescriptor *descriptor, int value)
{
	const ProtobufCEnumValue *known = protobuf_c_enum_descriptor_get_value(descriptor, value);

	if (known)
		put_text(out, known->name);
	else
		strbuf_printf(out->to, "%d", value);
}

static enum status print_base64(struct printer *out, const struct path *at, const ProtobufCBinaryData *bytes)
{
	cleanup_free char *text = bytes->len > INT_MAX / 2 ? NULL : malloc(BASE64_SIZE(bytes->len));

	if (!text)
		return no_memory(at, out->err);
	base64_encode(text, bytes->data, bytes->len);
	put_text(out, text);
	return STATUS_OK;
}

/* protobuf-c leaves NULL for a map entry whose value was not on the wire: the empty message is meant. */
static enum status print_submessage(struct printer *out, const struct path *at,
				    const ProtobufCMessageDescriptor *descriptor,
				    const ProtobufCMessage *message)
{
	cleanup_free ProtobufCMessage *empty = NULL; /* owns nothing: it is never filled */

	if (message)
		return print_message(out, at, message);
	empty = malloc(descriptor->sizeof_message);
	if (!empty)
		return no_memory(at, out->err);
	descriptor->message_init(empty);
	return print_message(out, at, empty);
}

static enum status print_value(struct printer *out, const struct path *at,
			       const ProtobufCFieldDescriptor *field, const void *value)
{
	char buffer[NUMBER_SIZE];

	switch (field->type) {
	case PROTOBUF_C_TYPE_INT32:
	case PROTOBUF_C_TYPE_SINT32:
	case PROTOBUF_C_TYPE_SFIXED32:
	case PROTOBUF_C_TYPE_UINT32:
	case PROTOBUF_C_TYPE_FIXED32:
		strbuf_puts(out->to, number_text(field->type, value, buffer));
		return STATUS_OK;
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_SFIXED64:
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_FIXED64: /* JSON numbers are doubles to many readers: 64 bits travel as text */
		put_text(out, number_text(field->type, value, buffer));
		return STATUS_OK;
	case PROTOBUF_C_TYPE_FLOAT:
		return print_real(out, at, (double)*(const float *)value);
	case PROTOBUF_C_TYPE_DOUBLE:
		return print_real(out, at, *(const double *)value);
	case PROTOBUF_C_TYPE_BOOL:
		strbuf_puts(out->to, *(const protobuf_c_boolean *)value ? "true" : "false");
		return STATUS_OK;
	case PROTOBUF_C_TYPE_ENUM:
		put_enum(out, field->descriptor, *(const int *)value);
		return STATUS_OK;
	case PROTOBUF_C_TYPE_STRING:
		put_text(out, reflect_text(value));
		return STATUS_OK;
	case PROTOBUF_C_TYPE_BYTES:
		return print_base64(out, at, value);
	case PROTOBUF_C_TYPE_MESSAGE:
		return print_submessage(out, at, field->descriptor, reflect_message(value));
	}
	return fail(at, STATUS_INTERNAL, out->err, "unknown type %d", (int)field->type);
}

static enum status print_list(struct printer *out, const struct reflect_values *values, const struct path *at)
{
	bool any = false;

	for (size_t i = 0; i < values->n; i++) {
		struct path here = {.parent = at, .index = i};

		put_next(out, &any, "[");
		TRY(print_value(out, &here, values->field, reflect_value(values, i)));
	}
	put_end(out, any, "[]");
	return STATUS_OK;
}

/* Text of a map's key. Returns @buffer, or the key itself. */
static const char *map_key(const ProtobufCFieldDescriptor *field, const char *value, char buffer[NUMBER_SIZE])
{
	if (field->type == PROTOBUF_C_TYPE_STRING)
		return reflect_text(value);
	if (field->type == PROTOBUF_C_TYPE_BOOL)
		return reflect_number(field->type, value) ? "true" : "false";
	return number_text(field->type, value, buffer);
}

static enum status print_map(struct printer *out, const struct reflect_values *values, const struct path *at)
{
	const ProtobufCMessageDescriptor *entry = values->field->descriptor;
	bool any = false;

	for (size_t i = 0; i < values->n; i++) {
		const ProtobufCMessage *from = reflect_message(reflect_value(values, i));
		char buffer[NUMBER_SIZE];
		const char *key = map_key(&entry->fields[REFLECT_MAP_KEY],
					  reflect_at(from, &entry->fields[REFLECT_MAP_KEY]), buffer);
		struct path here = {.parent = at, .key = key};

		put_next(out, &any, "{");
		put_name(out, key);
		TRY(print_value(out, &here, &entry->fields[REFLECT_MAP_VALUE],
				reflect_at(from, &entry->fields[REFLECT_MAP_VALUE])));
	}
	put_end(out, any, "{}");
	return STATUS_OK;
}

static enum status print_field(struct printer *out, const struct path *at,
			       const struct reflect_values *values)
{
	if (reflect_is_map(values->field))
		return print_map(out, values, at);
	if (reflect_is_list(values->field))
		return print_list(out, values, at);
	return print_value(out, at, values->field, values->first);
}

static bool is_printed(const struct printer *out, const struct reflect_values *values)
{
	const ProtobufCFieldDescriptor *field = values->field;
	/* an absent message or member of a oneof has no default to show */
	bool has_default = field->type != PROTOBUF_C_TYPE_MESSAGE && !reflect_in_oneof(field);

	return values->n > 0 || ((out->flags & PBJSON_DEFAULTS) && (reflect_is_list(field) || has_default));
}

static enum status print_fields(struct printer *out, const struct path *at, const ProtobufCMessage *message)
{
	const ProtobufCMessageDescriptor *descriptor = message->descriptor;
	bool any = false;

	for (unsigned int i = 0; i < descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
		const struct reflect_values values = reflect_values(message, field);
		struct path here = {.parent = at, .field = field->name};
		char name[REFLECT_NAME_SIZE];

		if (!is_printed(out, &values))
			continue;
		put_next(out, &any, "{");
		if (!(out->flags & PBJSON_PROTO_NAMES))
			reflect_json_name(field, name);
		put_name(out, out->flags & PBJSON_PROTO_NAMES ? field->name : name);
		TRY(print_field(out, &here, &values));
	}
	put_end(out, any, "{}");
	return STATUS_OK;
}

static enum status print_message(struct printer *out, const struct path *at, const ProtobufCMessage *message)
{
	enum status status;

	if (out->depth == PBJSON_DEPTH_MAX)
		return fail(at, STATUS_INTERNAL, out->err, "nested deeper than %d messages",
			    PBJSON_DEPTH_MAX);
	if (is_well_known(message->descriptor))
		return fail(at, STATUS_UNIMPLEMENTED, out->err, "%s has no JSON form here",
			    message->descriptor->name);
	out->depth++;
	status = print_fields(out, at, message);
	out->depth--;
	return status;
}

enum status pbjson_print(const ProtobufCMessage *message, unsigned int flags, unsigned int level,
			 struct strbuf *to, struct error *err)
{
	struct printer out = {.flags = flags, .level = level, .to = to, .err = err};

	TRY(print_message(&out, NULL, message));
	return to->error == 0 ? STATUS_OK : no_memory(NULL, err);
}

enum status pbjson_encode(const ProtobufCMessage *message, unsigned int flags, json_t **ret,
			  struct error *err)
{
	cleanup_strbuf struct strbuf text = STRBUF_INIT(PBJSON_TEXT_MAX);

	TRY(pbjson_print(message, flags, 0, &text, err));
	*ret = json_loadb(text.data, text.len, 0, NULL);
	return *ret ? STATUS_OK : no_memory(NULL, err);
}

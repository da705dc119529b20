/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/pbjson_scalar.h"

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/str.h"
#include "rpc/base64.h"
#include "rpc/pbjson.h"
#include "rpc/pbjson_word.h"

#include <assert.h>
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>

enum { SHOWN_SIZE = 65 }; /* of a wrong text, in a message */

/* Where a scalar is read: flags of pbjson_decode(), its path, and the place for an error. */
struct scalar {
	unsigned int flags;
	const struct pbjson_path *at;
	struct error *err;
};

enum status pbjson_wanted(const struct pbjson_path *at, const char *what, const json_t *json,
			  struct error *err)
{
	static const char *const types[] = {
		[JSON_OBJECT] = "an object", [JSON_ARRAY] = "a list",  [JSON_STRING] = "a string",
		[JSON_INTEGER] = "a number", [JSON_REAL] = "a number", [JSON_TRUE] = "true",
		[JSON_FALSE] = "false",	     [JSON_NULL] = "null",
	};

	char shown[SHOWN_SIZE];

	if (json_is_string(json)) {
		str_copy_text(shown, sizeof(shown), json_string_value(json));
		return pbjson_fail(at, STATUS_INVALID_ARGUMENT, err, "'%s' is not %s", shown, what);
	}
	return pbjson_fail(at, STATUS_INVALID_ARGUMENT, err, "wants %s, not %s", what,
			   types[json_typeof(json)]);
}

enum status pbjson_no_memory(const struct pbjson_path *at, struct error *err)
{
	return pbjson_fail(at, STATUS_RESOURCE_EXHAUSTED, err, "out of memory");
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

/* A number of @field within [@min, @max]; the result is to be converted to the field's type. */
static enum status decode_integer(const struct scalar *in, const ProtobufCFieldDescriptor *field,
				  const json_t *json, int64_t min, uint64_t max, uint64_t *ret)
{
	struct integer value = {.negative = false, .magnitude = 0};
	bool is_size = size_is_wanted(in, field) && json_is_string(json);

	if (!integer_of(json, &value) &&
	    !(is_size && parse_size(json_string_value(json), &value.magnitude) == 0))
		return pbjson_wanted(in->at, is_size ? "a size as in \"10GiB\"" : "a whole number", json,
				     in->err);
	if (value.magnitude > (value.negative ? 0 - (uint64_t)min : max))
		return pbjson_fail(in->at, STATUS_INVALID_ARGUMENT, in->err,
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
		return pbjson_wanted(in->at, "a number", json, in->err);
	if (json_number_value(json) > max || json_number_value(json) < -max)
		return pbjson_fail(in->at, STATUS_INVALID_ARGUMENT, in->err, "the number is out of range");
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
		return pbjson_wanted(in->at, "true or false", json, in->err);
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
		return pbjson_wanted(in->at, "a word", json, in->err);
	}
	if (value) {
		*ret = value->value;
		return STATUS_OK;
	}
	(void)pbjson_word_list(descriptor, spec, words, sizeof(words));
	if (json_is_integer(json))
		return pbjson_fail(in->at, STATUS_INVALID_ARGUMENT, in->err,
				   "%" JSON_INTEGER_FORMAT " is none of its numbers, use one of: %s",
				   json_integer_value(json), words);
	str_copy_text(shown, sizeof(shown), json_string_value(json));
	return pbjson_fail(in->at, STATUS_INVALID_ARGUMENT, in->err, "'%s' is unknown, use one of: %s", shown,
			   words);
}

static enum status decode_string(const struct scalar *in, const json_t *json, char **ret)
{
	char *text;

	if (!json_is_string(json))
		return pbjson_wanted(in->at, "a string", json, in->err);
	if (strlen(json_string_value(json)) != json_string_length(json))
		return pbjson_fail(in->at, STATUS_INVALID_ARGUMENT, in->err, "the text holds a NUL byte");
	text = strdup(json_string_value(json));
	if (!text)
		return pbjson_no_memory(in->at, in->err);
	*ret = text;
	return STATUS_OK;
}

static enum status decode_bytes(const struct scalar *in, const json_t *json, ProtobufCBinaryData *ret)
{
	const char *text = json_string_value(json);
	int r;

	if (!text)
		return pbjson_wanted(in->at, "base64 text", json, in->err);
	r = base64_decode(text, json_string_length(json), false, &ret->data, &ret->len);
	if (r == -ENOMEM)
		return pbjson_no_memory(in->at, in->err);
	return r < 0 ? pbjson_wanted(in->at, "base64 text", json, in->err) : STATUS_OK;
}

enum status pbjson_decode_scalar(unsigned int flags, const struct pbjson_path *at,
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

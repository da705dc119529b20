/* SPDX-License-Identifier: Apache-2.0 */
/* What was ever stored or sent is read today, and written back the same: fields.txt has each field and value
 * of an enum, bytes.txt each message with all its fields set, of this and of every earlier schema.
 *
 * A line is added by GOLDEN_UPDATE=1 ctest -R test_golden, and never changed. A field that is given up
 * becomes "gone" by hand: its number is not used again. */

#include "includes.inc"
#include "unit.h"

#include "base/str.h"
#include "pb/reflect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIELDS GOLDEN_FOLDER "/fields.txt"
#define BYTES GOLDEN_FOLDER "/bytes.txt"

enum { LINE_SIZE = 64 << 10, LINES_MAX = 8192, DEPTH = 2, ELEMENTS = 2 };

static const ProtobufCMessageDescriptor *const messages[] = {
#define MESSAGE(descriptor) &descriptor,
#include "messages.inc"
#undef MESSAGE
};

static const char *const types[] = {
	[PROTOBUF_C_TYPE_INT32] = "int32",	 [PROTOBUF_C_TYPE_SINT32] = "sint32",
	[PROTOBUF_C_TYPE_SFIXED32] = "sfixed32", [PROTOBUF_C_TYPE_INT64] = "int64",
	[PROTOBUF_C_TYPE_SINT64] = "sint64",	 [PROTOBUF_C_TYPE_SFIXED64] = "sfixed64",
	[PROTOBUF_C_TYPE_UINT32] = "uint32",	 [PROTOBUF_C_TYPE_FIXED32] = "fixed32",
	[PROTOBUF_C_TYPE_UINT64] = "uint64",	 [PROTOBUF_C_TYPE_FIXED64] = "fixed64",
	[PROTOBUF_C_TYPE_FLOAT] = "float",	 [PROTOBUF_C_TYPE_DOUBLE] = "double",
	[PROTOBUF_C_TYPE_BOOL] = "bool",	 [PROTOBUF_C_TYPE_ENUM] = "enum",
	[PROTOBUF_C_TYPE_STRING] = "string",	 [PROTOBUF_C_TYPE_BYTES] = "bytes",
	[PROTOBUF_C_TYPE_MESSAGE] = "message",
};

/* ---- lines of a file ---- */

static char *lines[LINES_MAX];
static size_t n_lines;

static void read_lines(const char *path)
{
	char *line = malloc(LINE_SIZE);
	FILE *f = fopen(path, "re");

	n_lines = 0;
	assert_non_null(line);
	assert_non_null(f);
	while (fgets(line, LINE_SIZE, f)) {
		size_t n = strcspn(line, "\n");

		assert_true(line[n] == '\n' && n_lines < LINES_MAX);
		line[n] = '\0';
		if (line[0] != '#' && n > 0)
			lines[n_lines++] = strdup(line);
	}
	(void)fclose(f);
	free(line);
}

static void free_lines(void)
{
	while (n_lines > 0)
		free(lines[--n_lines]);
}

static bool has_line(const char *line)
{
	for (size_t i = 0; i < n_lines; i++)
		if (str_eq(lines[i], line))
			return true;
	return false;
}

/* It is one of the file's, or becomes one; else it is missing there. */
static size_t expect_line(const char *path, const char *line)
{
	FILE *f;

	if (has_line(line))
		return 0;
	if (!getenv("GOLDEN_UPDATE")) {
		print_message("%s lacks: %.200s\n", path, line);
		return 1;
	}
	f = fopen(path, "ae");
	assert_non_null(f);
	assert_true(fprintf(f, "%s\n", line) > 0);
	assert_int_equal(fclose(f), 0);
	return 0;
}

static void see_missing(size_t n_missing)
{
	if (n_missing > 0)
		fail_msg("%zu lines are missing; add them: GOLDEN_UPDATE=1 ctest -R test_golden", n_missing);
}

/* ---- fields ---- */

static const char *label_of(const ProtobufCFieldDescriptor *field)
{
	if (field->label == PROTOBUF_C_LABEL_REPEATED)
		return "repeated";
	return field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF ? "oneof" : "one";
}

static const char *type_of(const ProtobufCFieldDescriptor *field)
{
	if (field->type == PROTOBUF_C_TYPE_ENUM)
		return ((const ProtobufCEnumDescriptor *)field->descriptor)->name;
	if (field->type == PROTOBUF_C_TYPE_MESSAGE)
		return ((const ProtobufCMessageDescriptor *)field->descriptor)->name;
	return types[field->type];
}

static void field_line(const ProtobufCMessageDescriptor *message, const ProtobufCFieldDescriptor *field,
		       char ret[static 512])
{
	assert_true(str_format(ret, 512, "field %s %u %s %s %s", message->name, field->id, field->name,
			       type_of(field), label_of(field)) > 0);
}

static size_t expect_values(const ProtobufCEnumDescriptor *values)
{
	char line[512];
	size_t n = 0;

	for (unsigned int i = 0; i < values->n_values; i++) {
		assert_true(str_format(line, sizeof(line), "enum %s %d %s", values->name,
				       values->values[i].value, values->values[i].name) > 0);
		n += expect_line(FIELDS, line);
		if (getenv("GOLDEN_UPDATE") && !has_line(line)) /* another field may have it, too */
			lines[n_lines++] = strdup(line);
	}
	return n;
}

TEST(each_field_and_value_is_on_record)
{
	char line[512];
	size_t n = 0;

	read_lines(FIELDS);
	for (size_t i = 0; i < ARRAY_SIZE(messages); i++)
		for (unsigned int j = 0; j < messages[i]->n_fields; j++) {
			const ProtobufCFieldDescriptor *field = &messages[i]->fields[j];

			field_line(messages[i], field, line);
			n += expect_line(FIELDS, line);
			if (field->type == PROTOBUF_C_TYPE_ENUM)
				n += expect_values(field->descriptor);
		}
	free_lines();
	see_missing(n);
}

static const ProtobufCMessageDescriptor *find_message(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(messages); i++)
		if (str_eq(messages[i]->name, name))
			return messages[i];
	return NULL;
}

static const ProtobufCEnumDescriptor *find_enum(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(messages); i++)
		for (unsigned int j = 0; j < messages[i]->n_fields; j++)
			if (messages[i]->fields[j].type == PROTOBUF_C_TYPE_ENUM &&
			    str_eq(type_of(&messages[i]->fields[j]), name))
				return messages[i]->fields[j].descriptor;
	return NULL;
}

/* "field MESSAGE NUMBER NAME TYPE LABEL", "gone MESSAGE NUMBER", "enum ENUM NUMBER NAME" */
static bool holds(const char *line)
{
	const ProtobufCMessageDescriptor *message;
	const ProtobufCFieldDescriptor *field;
	const ProtobufCEnumDescriptor *values;
	const ProtobufCEnumValue *value;
	char kind[8], owner[128], digits[12], name[128] = "", now[512];
	int number;

	if (sscanf(line, "%7s %127s %11s %127s", kind, owner, digits, name) < 3)
		return false;
	number = (int)strtol(digits, NULL, 10);
	if (str_eq(kind, "enum")) {
		values = find_enum(owner);
		value = values ? protobuf_c_enum_descriptor_get_value(values, number) : NULL;
		return value && str_eq(value->name, name);
	}
	message = find_message(owner);
	field = message ? protobuf_c_message_descriptor_get_field(message, (unsigned int)number) : NULL;
	if (str_eq(kind, "gone"))
		return !field;
	if (!field)
		return false;
	field_line(message, field, now);
	return str_eq(now, line);
}

TEST(no_field_or_value_has_another_number_name_or_type_than_it_had)
{
	size_t n = 0;

	read_lines(FIELDS);
	assert_true(n_lines > 500);
	for (size_t i = 0; i < n_lines; i++) {
		if (holds(lines[i]))
			continue;
		print_message("not so any more: %s\n", lines[i]);
		n++;
	}
	free_lines();
	if (n > 0)
		fail_msg("%zu fields or values have changed: what is stored and sent has them; take new "
			 "numbers",
			 n);
}

/* ---- bytes ---- */

static ProtobufCMessage *filled(const ProtobufCMessageDescriptor *descriptor, int depth);

static void put_value(const ProtobufCFieldDescriptor *field, void *out, size_t i, int depth)
{
	uint64_t number = UINT64_C(0x8182838485868700) + field->id + i; /* of any width: all bytes differ */

	switch (field->type) {
	case PROTOBUF_C_TYPE_BOOL:
		*(protobuf_c_boolean *)out = 1;
		return;
	case PROTOBUF_C_TYPE_ENUM: {
		const ProtobufCEnumDescriptor *values = field->descriptor;

		*(int *)out = values->values[values->n_values - 1].value;
		return;
	}
	case PROTOBUF_C_TYPE_FLOAT:
		*(float *)out = (float)field->id + 0.5F;
		return;
	case PROTOBUF_C_TYPE_DOUBLE:
		*(double *)out = field->id + 0.25;
		return;
	case PROTOBUF_C_TYPE_STRING:
		*(char **)out = strdup(field->name);
		return;
	case PROTOBUF_C_TYPE_BYTES:
		*(ProtobufCBinaryData *)out = (ProtobufCBinaryData){2, calloc(1, 2)};
		((ProtobufCBinaryData *)out)->data[1] = 0xff;
		return;
	case PROTOBUF_C_TYPE_MESSAGE:
		*(ProtobufCMessage **)out = filled(field->descriptor, depth + 1);
		return;
	case PROTOBUF_C_TYPE_INT32:
	case PROTOBUF_C_TYPE_SINT32:
	case PROTOBUF_C_TYPE_SFIXED32:
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_SFIXED64:
	case PROTOBUF_C_TYPE_UINT32:
	case PROTOBUF_C_TYPE_FIXED32:
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_FIXED64:
		memcpy(out, &number, reflect_size(field->type));
		return;
	}
}

/* Of a oneof the first member. */
static void put_field(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, int depth)
{
	char *base = (char *)message;
	uint32_t *chosen = (uint32_t *)(void *)(base + field->quantifier_offset);

	if (field->label == PROTOBUF_C_LABEL_REPEATED) {
		size_t size = reflect_size(field->type);
		char *elements = calloc(ELEMENTS, size);

		for (size_t i = 0; i < ELEMENTS; i++)
			put_value(field, elements + i * size, i, depth);
		*(char **)(void *)(base + field->offset) = elements;
		*(size_t *)(void *)(base + field->quantifier_offset) = ELEMENTS;
		return;
	}
	if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
		if (*chosen != 0)
			return;
		*chosen = field->id;
	}
	put_value(field, base + field->offset, 0, depth);
}

static ProtobufCMessage *filled(const ProtobufCMessageDescriptor *descriptor, int depth)
{
	ProtobufCMessage *message = calloc(1, descriptor->sizeof_message);

	assert_non_null(message);
	descriptor->message_init(message);
	for (unsigned int i = 0; depth < DEPTH && i < descriptor->n_fields; i++)
		put_field(message, &descriptor->fields[i], depth);
	return message;
}

/* "bytes MESSAGE HEX" */
static void bytes_line(const ProtobufCMessage *message, char ret[static LINE_SIZE])
{
	size_t n = protobuf_c_message_get_packed_size(message);
	uint8_t *packed = malloc(n + 1);
	size_t at;

	assert_non_null(packed);
	assert_true(2 * n + 160 < LINE_SIZE);
	(void)protobuf_c_message_pack(message, packed);
	at = (size_t)str_format(ret, LINE_SIZE, "bytes %s ", message->descriptor->name);
	for (size_t i = 0; i < n; i++)
		at += (size_t)str_format(ret + at, LINE_SIZE - at, "%02x", packed[i]);
	free(packed);
}

TEST(each_message_with_all_its_fields_is_on_record)
{
	char *line = malloc(LINE_SIZE);
	size_t n = 0;

	assert_non_null(line);
	read_lines(BYTES);
	for (size_t i = 0; i < ARRAY_SIZE(messages); i++) {
		ProtobufCMessage *message = filled(messages[i], 0);

		bytes_line(message, line);
		n += expect_line(BYTES, line);
		protobuf_c_message_free_unpacked(message, NULL);
	}
	free_lines();
	free(line);
	see_missing(n);
}

static size_t unhex(const char *hex, uint8_t *ret)
{
	size_t n = strlen(hex) / 2;

	for (size_t i = 0; i < n; i++) {
		const char pair[] = {hex[2 * i], hex[2 * i + 1], '\0'};

		ret[i] = (uint8_t)strtoul(pair, NULL, 16);
	}
	return n;
}

static void see_bytes(const char *line, uint8_t *packed, char *again)
{
	const ProtobufCMessageDescriptor *descriptor;
	ProtobufCMessage *message;
	char name[128];
	int at = 0;

	assert_int_equal(sscanf(line, "bytes %127s %n", name, &at), 1);
	descriptor = find_message(name);
	if (!descriptor)
		fail_msg("there is no message %s any more", name);
	message = protobuf_c_message_unpack(descriptor, NULL, unhex(line + at, packed), packed);
	if (!message)
		fail_msg("not read any more: %.200s", line);
	assert_int_equal(message->n_unknown_fields, 0);
	bytes_line(message, again);
	assert_string_equal(again, line);
	protobuf_c_message_free_unpacked(message, NULL);
}

TEST(what_was_written_is_read_and_written_back_the_same)
{
	uint8_t *packed = malloc(LINE_SIZE);
	char *again = malloc(LINE_SIZE);

	assert_non_null(packed);
	assert_non_null(again);
	read_lines(BYTES);
	assert_true(n_lines > 100);
	for (size_t i = 0; i < n_lines; i++)
		see_bytes(lines[i], packed, again);
	free_lines();
	free(packed);
	free(again);
}

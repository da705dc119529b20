/* SPDX-License-Identifier: Apache-2.0 */
/* Compares each message and enum with its line of messages.txt: number, name, type and label of each field,
 * values of each enum, and the bytes of the message with all its fields set, of this and of every earlier
 * schema. The bytes are read, and written back the same.
 *
 * GOLDEN_UPDATE=1 ctest -R test_golden adds what a line lacks. What a line has is never changed. A field that
 * is removed becomes "gone NUMBER" by hand: its number is not used again. */

#include "includes.inc"
#include "unit.h"

#include "pb/reflect.h"

#define FILE_NAME GOLDEN_FOLDER "/messages.txt"

enum { LINE_SIZE = 128 << 10, OWNERS_MAX = 1024, ITEM_SIZE = 32 << 10, DEPTH = 2, ELEMENTS = 2 };

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

/* ---- what messages and enums are ---- */

/* A message or an enum as it is now and as the file has it, each as "KIND NAME; ITEM; ITEM;". */
static struct owner {
	const ProtobufCMessageDescriptor *message; /* NULL: an enum, or it is only in the file */
	char *now, *recorded;
} owners[OWNERS_MAX];
static size_t n_owners;

/* The entry whose line begins with "KIND NAME;" as @line does; a new one if there is none. */
static struct owner *owner_of(const char *line)
{
	size_t n = strcspn(line, ";") + 1;

	for (size_t i = 0; i < n_owners; i++)
		if (strncmp(owners[i].now ? owners[i].now : owners[i].recorded, line, n) == 0)
			return &owners[i];
	assert_true(n_owners < OWNERS_MAX);
	return &owners[n_owners++];
}

static bool has_item(const char *line, const char *item)
{
	static char padded[ITEM_SIZE + 4];

	assert_true(str_format(padded, sizeof(padded), "; %s;", item) > 0);
	return line && strstr(line, padded) != NULL;
}

/* Append "ITEM; " to @line. */
static void add_item(char **line, const char *item)
{
	size_t n = *line ? strlen(*line) : 0;

	*line = realloc(*line, n + strlen(item) + 3);
	assert_non_null(*line);
	(void)sprintf(*line + n, "%s%s;", n > 0 ? " " : "", item);
}

static const char *type_of(const ProtobufCFieldDescriptor *field)
{
	if (field->type == PROTOBUF_C_TYPE_ENUM)
		return ((const ProtobufCEnumDescriptor *)field->descriptor)->name;
	if (field->type == PROTOBUF_C_TYPE_MESSAGE)
		return ((const ProtobufCMessageDescriptor *)field->descriptor)->name;
	return types[field->type];
}

static const char *label_of(const ProtobufCFieldDescriptor *field)
{
	if (field->label == PROTOBUF_C_LABEL_REPEATED)
		return " repeated";
	return field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF ? " oneof" : "";
}

/* ---- a message with all its fields ---- */

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

/* "bytes HEX" */
static void bytes_item(const ProtobufCMessage *message, char ret[static ITEM_SIZE])
{
	size_t n = protobuf_c_message_get_packed_size(message);
	cleanup_free uint8_t *packed = malloc(n + 1);

	assert_non_null(packed);
	assert_true(2 * n + 8 < ITEM_SIZE);
	(void)protobuf_c_message_pack(message, packed);
	hex_encode(stpcpy(ret, "bytes "), packed, n);
}

static void describe_enum(const ProtobufCEnumDescriptor *values)
{
	char item[512];
	char *line = NULL;
	struct owner *owner;

	assert_true(str_format(item, sizeof(item), "enum %s", values->name) > 0);
	add_item(&line, item);
	owner = owner_of(line);
	free(owner->now);
	owner->now = line;
	for (unsigned int i = 0; i < values->n_values; i++) {
		assert_true(str_format(item, sizeof(item), "%d %s", values->values[i].value,
				       values->values[i].name) > 0);
		add_item(&owner->now, item);
	}
}

static void describe_message(const ProtobufCMessageDescriptor *message)
{
	static char item[ITEM_SIZE];
	ProtobufCMessage *whole = filled(message, 0);
	char *line = NULL;
	struct owner *owner;

	assert_true(str_format(item, sizeof(item), "message %s", message->name) > 0);
	add_item(&line, item);
	owner = owner_of(line);
	*owner = (struct owner){.message = message, .now = line, .recorded = owner->recorded};
	for (unsigned int i = 0; i < message->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &message->fields[i];

		assert_true(str_format(item, sizeof(item), "%u %s %s%s", field->id, field->name,
				       type_of(field), label_of(field)) > 0);
		add_item(&owner->now, item);
	}
	bytes_item(whole, item);
	add_item(&owner->now, item);
	protobuf_c_message_free_unpacked(whole, NULL);
	for (unsigned int i = 0; i < message->n_fields; i++)
		if (message->fields[i].type == PROTOBUF_C_TYPE_ENUM)
			describe_enum(message->fields[i].descriptor);
}

static int setup(void **state)
{
	static char line[LINE_SIZE];
	FILE *f = fopen(FILE_NAME, "re");

	assert_non_null(f);
	for (size_t i = 0; i < ARRAY_SIZE(messages); i++)
		describe_message(messages[i]);
	while (fgets(line, sizeof(line), f)) {
		size_t n = strcspn(line, "\n");

		assert_int_equal(line[n], '\n');
		line[n] = '\0';
		if (line[0] != '#') {
			struct owner *owner = owner_of(line);

			assert_null(owner->recorded);
			owner->recorded = strdup(line);
		}
	}
	(void)fclose(f);
	return 0;
}

static int teardown(void **state)
{
	for (; n_owners > 0; n_owners--) {
		free(owners[n_owners - 1].now);
		free(owners[n_owners - 1].recorded);
	}
	return 0;
}

TEST_GROUP(setup, teardown)

/* Call @act for each item of @line that is of bytes, or for each that is not; returns the sum. */
static size_t each_item(const struct owner *owner, const char *line, bool of_bytes,
			size_t (*act)(const struct owner *owner, const char *item))
{
	cleanup_free char *copy = strdup(line ? line : "");
	char *at = NULL;
	size_t n = 0;

	assert_non_null(copy);
	(void)strtok_r(copy, ";", &at);
	for (char *item; (item = strtok_r(NULL, ";", &at)) != NULL;)
		if (str_starts_with(item + 1, "bytes ") == of_bytes)
			n += act(owner, item + 1);
	return n;
}

/* ---- what is now is recorded ---- */

static size_t expect_recorded(const struct owner *owner, const char *item)
{
	if (has_item(owner->recorded, item))
		return 0;
	print_message("%s lacks in %.80s... : %.200s\n", FILE_NAME, owner->now, item);
	return 1;
}

static size_t add_recorded(const struct owner *owner, const char *item)
{
	if (!has_item(owner->recorded, item))
		add_item(&owners[owner - owners].recorded, item);
	return 0;
}

/* Write the file with what it lacks; it keeps what it has. */
static void update(void)
{
	FILE *f = fopen(FILE_NAME, "we");

	assert_non_null(f);
	assert_true(fputs("# message NAME; NUMBER FIELD TYPE [repeated|oneof]; gone NUMBER; bytes HEX; and "
			  "enum NAME; NUMBER VALUE; See test_golden.c\n",
			  f) >= 0);
	for (size_t i = 0; i < n_owners; i++) {
		struct owner *owner = &owners[i];

		if (!owner->recorded)
			owner->recorded = strndup(owner->now, strcspn(owner->now, ";") + 1);
		(void)each_item(owner, owner->now, false, add_recorded);
		(void)each_item(owner, owner->now, true, add_recorded);
		assert_true(fprintf(f, "%s\n", owner->recorded) > 0);
	}
	assert_int_equal(fclose(f), 0);
}

static void see_recorded(bool of_bytes)
{
	size_t n = 0;

	if (getenv("GOLDEN_UPDATE"))
		update();
	for (size_t i = 0; i < n_owners; i++)
		n += each_item(&owners[i], owners[i].now, of_bytes, expect_recorded);
	if (n > 0)
		fail_msg("%zu items are missing; add them: GOLDEN_UPDATE=1 ctest -R test_golden", n);
}

TEST(each_field_and_value_is_on_record)
{
	see_recorded(false);
}

TEST(each_message_with_all_its_fields_is_on_record)
{
	see_recorded(true);
}

/* ---- what is recorded holds ---- */

static size_t expect_now(const struct owner *owner, const char *item)
{
	char field[32];

	if (str_starts_with(item, "gone ")) {
		assert_true(str_format(field, sizeof(field), "; %s ", item + strlen("gone ")) > 0);
		if (owner->now && !strstr(owner->now, field))
			return 0;
	} else if (has_item(owner->now, item)) {
		return 0;
	}
	print_message("no longer so: %.*s %s\n", (int)strcspn(owner->recorded, ";"), owner->recorded, item);
	return 1;
}

/* How many items of the file are of bytes, or are not; each was given to @act. */
static size_t each_recorded(bool of_bytes, size_t (*act)(const struct owner *owner, const char *item))
{
	size_t n = 0;

	for (size_t i = 0; i < n_owners; i++)
		n += each_item(&owners[i], owners[i].recorded, of_bytes, act);
	return n;
}

static size_t count_item(const struct owner *owner, const char *item)
{
	return 1;
}

TEST(no_field_or_value_has_another_number_name_or_type_than_it_had)
{
	size_t n;

	assert_true(each_recorded(false, count_item) > 500);
	n = each_recorded(false, expect_now);
	if (n > 0)
		fail_msg("%zu fields or values have changed: stored and sent records have them; use new "
			 "numbers",
			 n);
}

static size_t see_bytes(const struct owner *owner, const char *item)
{
	static uint8_t packed[ITEM_SIZE];
	static char again[ITEM_SIZE];
	const char *hex = item + strlen("bytes ");
	ProtobufCMessage *message;

	if (!owner->message)
		fail_msg("no longer exists: %.80s", owner->recorded);
	assert_int_equal(hex_decode(packed, strlen(hex) / 2, hex), 0);
	message = protobuf_c_message_unpack(owner->message, NULL, strlen(hex) / 2, packed);
	if (!message)
		fail_msg("no longer read: %s %.200s", owner->message->name, item);
	assert_int_equal(message->n_unknown_fields, 0);
	bytes_item(message, again);
	assert_string_equal(again, item);
	protobuf_c_message_free_unpacked(message, NULL);
	return 1;
}

TEST(bytes_on_record_are_read_and_written_back_the_same)
{
	assert_true(each_recorded(true, see_bytes) > 100);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What holds for every field of every message of proto/. */

#include "includes.inc"
#include "unit.h"

#include "pb/reflect.h"
#include "rpc/pack.h"
#include "rpc/pbjson.h"

#define MESSAGE(name) &name,
static const ProtobufCMessageDescriptor *const messages[] = {
#include "messages.inc"
};

typedef void field_fn(const ProtobufCMessageDescriptor *message, const ProtobufCFieldDescriptor *field);

static void for_each_field(field_fn *check)
{
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(messages); i++)
		for (unsigned int k = 0; k < messages[i]->n_fields; k++, n++)
			check(messages[i], &messages[i]->fields[k]);
	assert_true(n > 800); /* the table is whole */
}

static ProtobufCMessage *fresh(const ProtobufCMessageDescriptor *descriptor)
{
	ProtobufCMessage *message = NON_NULL(calloc(1, descriptor->sizeof_message));

	protobuf_c_message_init(descriptor, message);
	return message;
}

/* One value that is not zero, owned by its message. */
static void put_value(const ProtobufCFieldDescriptor *field, char *at)
{
	const uint64_t number = 1; /* little endian, of either width */
	ProtobufCBinaryData bytes = {.len = 1};
	void *pointer = NULL;

	if (field->type == PROTOBUF_C_TYPE_BYTES) {
		bytes.data = calloc(1, 1);
		memcpy(at, &bytes, sizeof(bytes));
	} else if (field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_MESSAGE) {
		pointer = field->type == PROTOBUF_C_TYPE_STRING ? (void *)strdup("x")
								: fresh(field->descriptor);
		memcpy(at, (void *)&pointer, sizeof(pointer));
	} else {
		memcpy(at, &number, reflect_size(field->type));
	}
}

static ProtobufCMessage *with(const ProtobufCMessageDescriptor *descriptor,
			      const ProtobufCFieldDescriptor *field)
{
	ProtobufCMessage *message = fresh(descriptor);
	char *at = (char *)message + field->offset;
	char *quantifier = (char *)message + field->quantifier_offset;
	const size_t one = 1;

	if (reflect_is_list(field)) {
		char *list = NON_NULL(calloc(1, reflect_size(field->type)));

		memcpy(at, (void *)&list, sizeof(list));
		memcpy(quantifier, &one, sizeof(one));
		at = list;
	} else if (reflect_in_oneof(field)) {
		memcpy(quantifier, &field->id, sizeof(field->id));
	}
	put_value(field, at);
	return message;
}

static void release(ProtobufCMessage *message)
{
	protobuf_c_message_free_unpacked(message, NULL);
}

static void check_fresh(const ProtobufCMessageDescriptor *descriptor, const ProtobufCFieldDescriptor *field)
{
	ProtobufCMessage *message = fresh(descriptor);

	assert_int_equal(reflect_values(message, field).n, 0);
	assert_int_equal(protobuf_c_message_get_packed_size(message), 0);
	release(message);
}

TEST(a_fresh_message_has_no_field_set)
{
	for_each_field(check_fresh);
}

static void check_alone(const ProtobufCMessageDescriptor *descriptor, const ProtobufCFieldDescriptor *field)
{
	ProtobufCMessage *message = with(descriptor, field);

	for (unsigned int i = 0; i < descriptor->n_fields; i++)
		assert_int_equal(reflect_values(message, &descriptor->fields[i]).n,
				 &descriptor->fields[i] == field);
	assert_true(protobuf_c_message_get_packed_size(message) > 0);
	release(message);
}

TEST(a_field_that_is_set_is_the_only_one_and_is_packed)
{
	for_each_field(check_alone);
}

static void check_wire(const ProtobufCMessageDescriptor *descriptor, const ProtobufCFieldDescriptor *field)
{
	ProtobufCMessage *message = with(descriptor, field);
	size_t n = protobuf_c_message_get_packed_size(message);
	cleanup_free uint8_t *theirs = NON_NULL(malloc(n));
	struct reflect_values values;
	ProtobufCMessage *copy;
	size_t n_ours = 0;
	cleanup_free uint8_t *ours = pack_message(message, 0, &n_ours);

	(void)protobuf_c_message_pack(message, theirs);
	assert_int_equal(n_ours, n);
	assert_memory_equal(ours, theirs, n);
	copy = NON_NULL(protobuf_c_message_unpack(descriptor, NULL, n, theirs));
	values = reflect_values(copy, field);
	assert_int_equal(values.n, 1);
	if (field->type == PROTOBUF_C_TYPE_STRING)
		assert_string_equal(reflect_text(reflect_value(&values, 0)), "x");
	else if (field->type == PROTOBUF_C_TYPE_MESSAGE)
		assert_ptr_equal(reflect_message(reflect_value(&values, 0))->descriptor, field->descriptor);
	else if (reflect_is_number(field->type))
		assert_int_equal(reflect_number(field->type, reflect_value(&values, 0)), 1);
	release(copy);
	release(message);
}

TEST(a_field_keeps_its_value_over_the_wire)
{
	for_each_field(check_wire);
}

static bool is_foreign(const ProtobufCMessageDescriptor *descriptor)
{
	return str_eq(descriptor->package_name, "google.protobuf");
}

static void check_json(const ProtobufCMessageDescriptor *descriptor, const ProtobufCFieldDescriptor *field)
{
	ProtobufCMessage *message, *copy = NULL;
	json_t *json = NULL;
	struct error err;

	if (field->type == PROTOBUF_C_TYPE_MESSAGE && is_foreign(field->descriptor))
		return;
	message = with(descriptor, field);
	assert_int_equal(pbjson_encode(message, PBJSON_PROTO_NAMES, &json, &err), STATUS_OK);
	assert_int_equal(json_object_size(json), 1);
	assert_non_null(json_object_get(json, field->name));
	assert_int_equal(pbjson_decode(descriptor, json, 0, &copy, &err), STATUS_OK);
	assert_int_equal(reflect_values(copy, field).n, 1);
	assert_int_equal(protobuf_c_message_get_packed_size(copy),
			 protobuf_c_message_get_packed_size(message));
	json_decref(json);
	release(copy);
	release(message);
}

TEST(a_field_keeps_its_value_as_json)
{
	for_each_field(check_json);
}

static void check_names(const ProtobufCMessageDescriptor *descriptor, const ProtobufCFieldDescriptor *field)
{
	char name[REFLECT_NAME_SIZE];

	reflect_json_name(field, name);
	assert_null(strchr(name, '_'));
	assert_ptr_equal(reflect_find(descriptor, field->name), field);
	assert_ptr_equal(reflect_find(descriptor, name), field);
}

TEST(a_field_is_found_by_both_of_its_names)
{
	for_each_field(check_names);
	assert_null(reflect_find(messages[0], "no_such_field"));
}

/* Filters, CSI texts and the texts of the database take no other keys; no other type is printed by
 * csi_text(). */
static void check_types(const ProtobufCMessageDescriptor *descriptor, const ProtobufCFieldDescriptor *field)
{
	const ProtobufCMessageDescriptor *entry = field->descriptor;

	if (reflect_is_map(field))
		assert_int_equal(entry->fields[REFLECT_MAP_KEY].type, PROTOBUF_C_TYPE_STRING);
	if (str_starts_with(descriptor->package_name, "csi."))
		assert_true(reflect_is_number(field->type) || field->type == PROTOBUF_C_TYPE_STRING ||
			    field->type == PROTOBUF_C_TYPE_MESSAGE);
	assert_true(field->type != PROTOBUF_C_TYPE_FLOAT && field->type != PROTOBUF_C_TYPE_DOUBLE);
}

TEST(maps_have_texts_as_keys_and_nothing_is_a_real)
{
	for_each_field(check_types);
}

TEST(numbers_keep_their_sign)
{
	const int32_t narrow = -5;
	const int64_t wide = -5;

	assert_true(reflect_number(PROTOBUF_C_TYPE_INT32, (const char *)&narrow) == (uint64_t)-5);
	assert_true(reflect_number(PROTOBUF_C_TYPE_ENUM, (const char *)&narrow) == (uint64_t)-5);
	assert_true(reflect_number(PROTOBUF_C_TYPE_UINT32, (const char *)&narrow) == UINT32_MAX - 4);
	assert_true(reflect_number(PROTOBUF_C_TYPE_SINT64, (const char *)&wide) == (uint64_t)-5);
	assert_true(reflect_number(PROTOBUF_C_TYPE_BOOL, (const char *)&narrow) == 1);
	assert_true(reflect_is_signed(PROTOBUF_C_TYPE_SFIXED64));
	assert_false(reflect_is_signed(PROTOBUF_C_TYPE_FIXED64));
	assert_false(reflect_is_number(PROTOBUF_C_TYPE_STRING));
}

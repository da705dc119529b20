/* SPDX-License-Identifier: Apache-2.0 */
#include "random_message.h"

#include "../unit.h"
#include "rpc/pack.h"

#include <all.pb-c.h>
#include <holdfast/v1/nodes.pb-c.h>
#include <holdfast/v1/operator.pb-c.h>
#include <holdfast/v1/volumes.pb-c.h>
#include <old.pb-c.h>

enum { SEEDS = 3000, GUARD = 16 };

static const ProtobufCMessageDescriptor *const types[] = {
	&test__v1__all__descriptor,
	&holdfast__v1__volume__descriptor,
	&holdfast__v1__claim__descriptor,
	&holdfast__v1__claim_volume_response__descriptor,
	&holdfast__v1__session_up__descriptor,
	&holdfast__v1__audit_record__descriptor,
};

enum { TYPES = sizeof(types) / sizeof(*types) };

static uint8_t *by_protobuf_c(const ProtobufCMessage *message, size_t *ret_n)
{
	uint8_t *bytes = NON_NULL(malloc(protobuf_c_message_get_packed_size(message) + 1));

	*ret_n = protobuf_c_message_pack(message, bytes);
	return bytes;
}

static void expect_same(const ProtobufCMessage *message)
{
	size_t n_wanted = 0;
	cleanup_free uint8_t *wanted = by_protobuf_c(message, &n_wanted);
	size_t n = 0;
	uint8_t *bytes = NON_NULL(pack_message(message, 3, &n));

	assert_int_equal(n, n_wanted);
	assert_memory_equal(bytes + 3, wanted, n);
	free(bytes);
	bytes = NON_NULL(malloc(n_wanted + 1));
	assert_ptr_equal(pack_at_end(message, bytes, n_wanted, &n), bytes);
	assert_int_equal(n, n_wanted);
	assert_memory_equal(bytes, wanted, n);
	free(bytes);
}

TEST(every_message_has_the_bytes_that_protobuf_c_makes)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		cleanup_pb ProtobufCMessage *message = NON_NULL(random_message(types[seed % TYPES], seed));

		expect_same(message);
	}
}

TEST(a_cut_character_makes_no_message_that_its_receiver_refuses)
{
	static char cut[] = "gr\xc3\xbc\xc3", long_text[PACK_USUAL];
	Holdfast__V1__Volume inner = HOLDFAST__V1__VOLUME__INIT, outer = HOLDFAST__V1__VOLUME__INIT;
	Holdfast__V1__Volume *volumes[] = {&inner, &outer};
	Holdfast__V1__ListVolumesResponse message = HOLDFAST__V1__LIST_VOLUMES_RESPONSE__INIT;

	message.volumes = volumes;
	message.n_volumes = ARRAY_SIZE(volumes);
	inner.name = outer.id = cut;
	for (int is_large = 0; is_large < 2; is_large++) {
		size_t n = 0;
		cleanup_free uint8_t *bytes = NON_NULL(pack_message(&message.base, 0, &n));
		Holdfast__V1__ListVolumesResponse *received =
			NON_NULL(holdfast__v1__list_volumes_response__unpack(NULL, n, bytes));

		assert_int_equal(n, protobuf_c_message_get_packed_size(&message.base));
		assert_string_equal(received->volumes[0]->name, "gr\xc3\xbc?");
		assert_string_equal(received->volumes[1]->id, "gr\xc3\xbc?");
		holdfast__v1__list_volumes_response__free_unpacked(received, NULL);
		memset(long_text, 'x', sizeof(long_text) - 1);
		outer.name = long_text;
	}
	assert_string_equal(cut, "gr\xc3\xbc\xc3");
}

TEST(an_empty_message_has_no_bytes)
{
	const Test__V1__All message = TEST__V1__ALL__INIT;
	uint8_t byte = 7;
	size_t n = 1;

	assert_ptr_equal(pack_at_end(&message.base, &byte, 0, &n), &byte);
	assert_int_equal(n, 0);
	expect_same(&message.base);
}

TEST(an_oversized_message_fails_without_writing_past_the_buffer)
{
	for (uint64_t seed = 1; seed <= 60; seed++) {
		cleanup_pb ProtobufCMessage *message = random_message(types[seed % TYPES], seed);
		size_t n_wanted = protobuf_c_message_get_packed_size(message);

		for (size_t size = 0; size <= n_wanted + 2; size++) {
			cleanup_free uint8_t *room = NON_NULL(malloc(size + (size_t)2 * GUARD));
			const uint8_t *at;
			size_t n = 0;

			memset(room, 0xa5, size + (size_t)2 * GUARD);
			at = pack_at_end(message, room + GUARD, size, &n);
			assert_int_equal(at != NULL, size >= n_wanted);
			for (size_t i = 0; i < GUARD; i++) {
				assert_int_equal(room[i], 0xa5);
				assert_int_equal(room[GUARD + size + i], 0xa5);
			}
			if (at)
				assert_ptr_equal(at + n, room + GUARD + size);
		}
	}
}

TEST(a_message_larger_than_is_usual_is_packed_too)
{
	Test__V1__All message = TEST__V1__ALL__INIT;
	static const size_t sizes[] = {PACK_USUAL - 4, PACK_USUAL - 3, PACK_USUAL - 2, 100000};
	ProtobufCBinaryData *bytes = NULL;
	const ProtobufCFieldDescriptor *field = NULL;

	for (unsigned int i = 0; i < message.base.descriptor->n_fields && !field; i++)
		if (message.base.descriptor->fields[i].type == PROTOBUF_C_TYPE_BYTES &&
		    message.base.descriptor->fields[i].label == PROTOBUF_C_LABEL_NONE &&
		    message.base.descriptor->fields[i].flags == 0)
			field = NON_NULL(&message.base.descriptor->fields[i]);
	bytes = (ProtobufCBinaryData *)(void *)((char *)&message + field->offset);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		cleanup_free uint8_t *data = NON_NULL(calloc(1, sizes[i]));

		*bytes = (ProtobufCBinaryData){.len = sizes[i], .data = data};
		expect_same(&message.base);
	}
}

TEST(fields_of_a_later_version_stay)
{
	uint8_t one[] = {0x96, 0x01};
	uint8_t text[] = {3, 'a', 'b', 'c'};
	ProtobufCMessageUnknownField unknown[] = {
		{.tag = 5000, .wire_type = PROTOBUF_C_WIRE_TYPE_VARINT, .len = sizeof(one), .data = one},
		ROW(.tag = 77, .wire_type = PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED, .len = sizeof(text),
		    .data = text),
	};
	Holdfast__V1__Claim claim = V1(claim, .id = "c1");

	claim.base.n_unknown_fields = 2;
	claim.base.unknown_fields = unknown;
	expect_same(&claim.base);
}

TEST(a_text_that_was_never_set_is_left_out_of_a_choice)
{
	Test__V1__All message = PB(test__v1__all, .kind_case = TEST__V1__ALL__KIND_K_STR, .k_str = NULL);

	expect_same(&message.base);
	message.k_str = TEXT(protobuf_c_empty_string);
	expect_same(&message.base);
	message.k_str = "";
	expect_same(&message.base);
	message.kind_case = TEST__V1__ALL__KIND_K_MSG;
	message.k_msg = NULL;
	expect_same(&message.base);
	message.kind_case = TEST__V1__ALL__KIND_K_INT;
	message.k_int = 0;
	expect_same(&message.base);
}

TEST(proto2_packs_set_and_required_fields)
{
	Test__V1__Old inner = TEST__V1__OLD__INIT, message = TEST__V1__OLD__INIT;
	uint8_t raw[] = {1, 2};
	int32_t numbers[] = {0, -1, 300};

	expect_same(&message.base); /* what must be set counts as 0 and "" */
	message.must_text = "t";
	message.may = 5;
	message.flag = 0;
	message.raw = (ProtobufCBinaryData){.len = sizeof(raw), .data = raw};
	expect_same(&message.base); /* not set, whatever is there */
	message.has_may = message.has_flag = message.has_raw = 1;
	message.text = "t";
	message.inner = &inner;
	message.numbers = message.packed = numbers;
	message.n_numbers = message.n_packed = 3;
	expect_same(&message.base);
	message.text = NULL;
	message.may = 0;
	expect_same(&message.base);
}

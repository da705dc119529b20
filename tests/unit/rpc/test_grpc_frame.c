/* SPDX-License-Identifier: Apache-2.0 */
#include "../unit.h"
#include "rpc/grpc_frame.h"

TEST(every_cut_of_a_frame_asks_for_more_and_the_whole_gives_the_message)
{
	uint8_t bytes[GRPC_PREFIX_SIZE + 300 + 7];
	const size_t whole = GRPC_PREFIX_SIZE + 300;
	struct grpc_frame frame;

	memset(bytes, 'x', sizeof(bytes));
	grpc_frame_prefix(bytes, 300);
	for (size_t n = 0; n < whole; n++)
		assert_int_equal(grpc_frame_read(bytes, n, 1000, &frame), GRPC_FRAME_MORE);
	for (size_t n = whole; n <= sizeof(bytes); n++) {
		assert_int_equal(grpc_frame_read(bytes, n, 1000, &frame), GRPC_FRAME_MESSAGE);
		assert_ptr_equal(frame.message, bytes + GRPC_PREFIX_SIZE);
		assert_int_equal(frame.length, 300);
	}
}

TEST(an_empty_message_is_a_message)
{
	uint8_t bytes[GRPC_PREFIX_SIZE];
	struct grpc_frame frame;

	grpc_frame_prefix(bytes, 0);
	assert_int_equal(grpc_frame_read(bytes, sizeof(bytes), 0, &frame), GRPC_FRAME_MESSAGE);
	assert_int_equal(frame.length, 0);
}

TEST(a_message_above_the_limit_is_refused_by_its_prefix_and_one_at_it_is_not)
{
	static const uint32_t limits[] = {0, 1, 255, 256, 65535, 1048576, 0x7fffffff, 0xfffffffe};
	uint8_t bytes[GRPC_PREFIX_SIZE];
	struct grpc_frame frame;

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		grpc_frame_prefix(bytes, limits[i] + 1);
		assert_int_equal(grpc_frame_read(bytes, sizeof(bytes), limits[i], &frame),
				 GRPC_FRAME_TOO_LARGE);
		assert_int_equal(frame.length, (size_t)limits[i] + 1);
		grpc_frame_prefix(bytes, limits[i]);
		assert_int_equal(grpc_frame_read(bytes, sizeof(bytes), limits[i], &frame),
				 limits[i] ? GRPC_FRAME_MORE : GRPC_FRAME_MESSAGE);
	}
}

TEST(only_the_flag_zero_is_read)
{
	uint8_t bytes[GRPC_PREFIX_SIZE] = {0};
	struct grpc_frame frame;

	for (int flag = 1; flag < 256; flag++) {
		bytes[0] = (uint8_t)flag;
		for (size_t n = 1; n <= sizeof(bytes); n++)
			assert_int_equal(grpc_frame_read(bytes, n, 1000, &frame),
					 flag == 1 ? GRPC_FRAME_COMPRESSED : GRPC_FRAME_MALFORMED);
	}
}

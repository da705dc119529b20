/* SPDX-License-Identifier: Apache-2.0 */
#include "../unit.h"
#include "rpc/byteq.h"

TEST(bytes_come_out_as_they_went_in_for_any_mix_of_puts_and_takes)
{
	cleanup(byteq_release) struct byteq q = BYTEQ_INIT;
	uint8_t in = 0, out = 0;
	unsigned int seed = 7;

	for (int round = 0; round < 2000; round++) {
		uint8_t chunk[300];
		size_t n = (size_t)rand_r(&seed) % sizeof(chunk);
		size_t take;

		for (size_t i = 0; i < n; i++)
			chunk[i] = in++;
		assert_true(byteq_put(&q, chunk, n));
		take = (size_t)rand_r(&seed) % (byteq_len(&q) + 1);
		for (size_t i = 0; i < take; i++)
			assert_int_equal(byteq_data(&q)[i], out++);
		byteq_take(&q, take);
		assert_int_equal((uint8_t)(in - out), (uint8_t)byteq_len(&q));
	}
}

TEST(an_empty_queue_has_no_bytes_and_can_be_taken_from)
{
	cleanup(byteq_release) struct byteq q = BYTEQ_INIT;

	assert_int_equal(byteq_len(&q), 0);
	byteq_take(&q, 0);
	assert_true(byteq_put(&q, NULL, 0));
	assert_int_equal(byteq_len(&q), 0);
}

TEST(a_queue_that_was_large_gives_its_memory_back_when_empty)
{
	cleanup(byteq_release) struct byteq q = BYTEQ_INIT;
	const size_t mebibyte = (size_t)1024 * 1024;
	cleanup_free char *block = NON_NULL(calloc(1, mebibyte));

	assert_true(byteq_put(&q, block, mebibyte));
	byteq_take(&q, mebibyte);
	assert_int_equal(q.buf.cap, 0);
	assert_true(byteq_put(&q, "again", 5));
	assert_memory_equal(byteq_data(&q), "again", 5);
}

/* A server has three queues per session, and most of them idle. */
TEST(an_empty_queue_keeps_little_whatever_it_held)
{
	static const char block[8192];

	for (size_t n = 1; n <= sizeof(block); n++) {
		cleanup(byteq_release) struct byteq q = BYTEQ_INIT;

		assert_true(byteq_put(&q, block, n));
		byteq_take(&q, n);
		assert_true(q.buf.cap <= 2048);
	}
}

TEST(consumed_bytes_do_not_pile_up_in_front)
{
	cleanup(byteq_release) struct byteq q = BYTEQ_INIT;
	char chunk[1000] = {0};

	assert_true(byteq_put(&q, chunk, sizeof(chunk)));
	for (int i = 0; i < 10000; i++) {
		assert_true(byteq_put(&q, chunk, sizeof(chunk)));
		byteq_take(&q, sizeof(chunk));
	}
	assert_true(q.buf.cap <= 16 * sizeof(chunk));
}

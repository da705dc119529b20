/* SPDX-License-Identifier: Apache-2.0 */
#include "../unit.h"
#include "rpc/h2_mem.h"

#include <sys/mman.h>

enum { FRAME = H2_MEM_LARGE + 10 };

static size_t pages_there(void *pages, size_t n)
{
	size_t size = (size_t)sysconf(_SC_PAGESIZE);
	unsigned char is_there[64];
	size_t n_there = 0;

	assert_true(n / size < sizeof(is_there));
	assert_int_equal(mincore(pages, n, is_there), 0);
	for (size_t i = 0; i < (n + size - 1) / size; i++)
		n_there += is_there[i] & 1;
	return n_there;
}

TEST(untouched_pages_of_a_frame_block_use_no_memory)
{
	struct h2_mem mem = {.pages = NULL};
	nghttp2_mem of = h2_mem_of(&mem);
	char *block;

	/* pages that somebody had before are no good */
	for (int i = 0; i < 3; i++) {
		block = NON_NULL(of.malloc(FRAME, of.mem_user_data));
		assert_ptr_equal(block, mem.pages);
		block[0] = 'x';
		assert_int_equal(pages_there(block, FRAME), 1);
		memset(block, 'x', FRAME);
		of.free(block, of.mem_user_data);
		assert_null(mem.pages);
	}
}

TEST(nghttp2_takes_its_buffer_for_a_frame_on_pages_and_gives_them_back)
{
	nghttp2_session_callbacks *callbacks = NULL;
	struct h2_mem mem = {.pages = NULL};
	nghttp2_mem of = h2_mem_of(&mem);
	nghttp2_session *session = NULL;

	assert_int_equal(nghttp2_session_callbacks_new(&callbacks), 0);
	assert_int_equal(nghttp2_session_server_new3(&session, callbacks, NULL, NULL, &of), 0);
	assert_non_null(mem.pages);
	assert_in_range(mem.n_pages_bytes, H2_MEM_LARGE, 2 * H2_MEM_LARGE);
	nghttp2_session_del(session);
	assert_null(mem.pages);
	nghttp2_session_callbacks_del(callbacks);
}

TEST(small_blocks_and_a_second_large_one_come_from_the_heap)
{
	struct h2_mem mem = {.pages = NULL};
	nghttp2_mem of = h2_mem_of(&mem);
	void *small = of.malloc(H2_MEM_LARGE - 1, of.mem_user_data);
	void *first, *second;

	assert_null(mem.pages);
	first = of.malloc(FRAME, of.mem_user_data);
	second = of.malloc(FRAME, of.mem_user_data);
	assert_ptr_equal(mem.pages, first);
	assert_ptr_not_equal(mem.pages, second);
	of.free(second, of.mem_user_data);
	of.free(small, of.mem_user_data);
	of.free(NULL, of.mem_user_data);
	assert_ptr_equal(mem.pages, first);
	of.free(first, of.mem_user_data);
	assert_null(mem.pages);
}

TEST(a_block_keeps_its_bytes_when_its_size_changes)
{
	static const size_t sizes[][2] = {
		{FRAME, 2 * FRAME}, {FRAME, 100}, {100, FRAME}, {100, 200}, {FRAME, FRAME + 1}};
	struct h2_mem mem = {.pages = NULL};
	nghttp2_mem of = h2_mem_of(&mem);

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		size_t kept = sizes[i][0] < sizes[i][1] ? sizes[i][0] : sizes[i][1];
		uint8_t *block = of.realloc(NULL, sizes[i][0], of.mem_user_data);

		for (size_t k = 0; k < sizes[i][0]; k++)
			block[k] = (uint8_t)(k % 251);
		block = NON_NULL(of.realloc(block, sizes[i][1], of.mem_user_data));
		for (size_t k = 0; k < kept; k++)
			assert_int_equal(block[k], k % 251);
		memset(block, 0, sizes[i][1]);
		of.free(block, of.mem_user_data);
		assert_null(mem.pages);
	}
}

TEST(a_table_is_zeroed)
{
	struct h2_mem mem = {.pages = NULL};
	nghttp2_mem of = h2_mem_of(&mem);
	uint8_t *table = of.calloc(512, 8, of.mem_user_data);

	for (size_t i = 0; i < (size_t)512 * 8; i++)
		assert_int_equal(table[i], 0);
	of.free(table, of.mem_user_data);
}

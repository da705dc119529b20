/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/strbuf.h"

static void check_invariants(const struct strbuf *sb)
{
	if (!sb->data) {
		assert_int_equal(sb->len, 0);
		return;
	}
	assert_true(sb->len < sb->cap);
	assert_true(sb->cap <= sb->max + 1);
	assert_int_equal(sb->data[sb->len], '\0');
}

TEST(content_is_collected_and_handed_over)
{
	struct strbuf sb = STRBUF_INIT(100);
	cleanup_free char *text = NULL;

	strbuf_puts(&sb, "a");
	strbuf_put(&sb, "bcd", 2);
	strbuf_printf(&sb, "%d-%s", 7, "x");
	check_invariants(&sb);
	text = strbuf_take(&sb);
	assert_string_equal(text, "abc7-x");
	assert_null(sb.data);
	check_invariants(&sb);
	strbuf_puts(&sb, "anew");
	assert_string_equal(sb.data, "anew");
	strbuf_release(&sb);
	check_invariants(&sb);
}

TEST(an_empty_buffer_is_an_empty_string)
{
	struct strbuf sb = STRBUF_INIT(0);
	cleanup_free char *text = strbuf_take(&sb);

	assert_string_equal(text, "");
}

TEST(content_ends_exactly_at_the_limit)
{
	static const size_t limits[] = {0, 1, 255, 256, 257, 511, 512, 1000};

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		cleanup_strbuf struct strbuf sb = STRBUF_INIT(limits[i]);
		cleanup_strbuf struct strbuf printed = STRBUF_INIT(limits[i]);

		for (size_t n = 0; n < limits[i]; n++) {
			strbuf_put(&sb, "x", 1);
			strbuf_printf(&printed, "%c", 'x');
			check_invariants(&sb);
			check_invariants(&printed);
		}
		assert_int_equal(sb.error, 0);
		assert_int_equal(printed.error, 0);
		assert_int_equal(sb.len, limits[i]);
		strbuf_put(&sb, "x", 1);
		strbuf_printf(&printed, "%c", 'x');
		assert_int_equal(sb.error, -EMSGSIZE);
		assert_int_equal(printed.error, -EMSGSIZE);
		assert_int_equal(sb.len, limits[i]);
		check_invariants(&sb);
	}
}

TEST(room_is_made_once_within_the_limit)
{
	struct strbuf sb = STRBUF_INIT(600);
	size_t cap;

	strbuf_reserve(&sb, 0);
	assert_string_equal(sb.data, "");
	strbuf_reserve(&sb, 600);
	check_invariants(&sb);
	cap = sb.cap;
	for (int i = 0; i < 600; i++)
		strbuf_puts(&sb, "x");
	check_invariants(&sb);
	assert_int_equal(sb.cap, cap);
	assert_int_equal(sb.len, 600);
	assert_int_equal(sb.error, 0);
	strbuf_reserve(&sb, 1);
	assert_int_equal(sb.error, -EMSGSIZE);
	assert_int_equal(sb.len, 600);
	strbuf_release(&sb);
}

TEST(the_first_failure_sticks)
{
	struct strbuf sb = STRBUF_INIT(3);

	strbuf_puts(&sb, "ab");
	strbuf_puts(&sb, "cd");
	strbuf_puts(&sb, "c");
	strbuf_printf(&sb, "c");
	assert_int_equal(sb.len, 2);
	assert_int_equal(sb.error, -EMSGSIZE);
	assert_null(strbuf_take(&sb));
	assert_null(sb.data);
}

TEST(a_huge_piece_is_refused_before_it_is_read)
{
	struct strbuf sb = STRBUF_INIT(3);

	strbuf_put(&sb, "x", 1);
	strbuf_put(&sb, "x", SIZE_MAX);
	assert_int_equal(sb.error, -EMSGSIZE);
	assert_int_equal(sb.len, 1);
	strbuf_release(&sb);
}

TEST(consuming_moves_the_rest_to_the_front)
{
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(100);

	strbuf_consume(&sb, 0);
	strbuf_puts(&sb, "hello");
	strbuf_consume(&sb, 0);
	assert_string_equal(sb.data, "hello");
	strbuf_consume(&sb, 2);
	assert_string_equal(sb.data, "llo");
	strbuf_consume(&sb, 3);
	assert_int_equal(sb.len, 0);
	check_invariants(&sb);
	strbuf_puts(&sb, "again");
	assert_string_equal(sb.data, "again");
}

enum { MODEL_MAX = 3000 };

TEST(random_use_agrees_with_a_plain_array)
{
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(MODEL_MAX);
	char model[MODEL_MAX], piece[400];
	size_t len = 0;

	srandom(3);
	for (int i = 0; i < 20000; i++) {
		size_t n = (size_t)random() % sizeof(piece);

		if (random() % 3 == 0) {
			n = n > len ? len : n;
			strbuf_consume(&sb, n);
			memmove(model, model + n, len - n);
			len -= n;
		} else if (n <= MODEL_MAX - len) {
			memset(piece, 'a' + i % 26, sizeof(piece));
			strbuf_put(&sb, piece, n);
			memcpy(model + len, piece, n);
			len += n;
		}
		check_invariants(&sb);
		assert_int_equal(sb.len, len);
		if (len > 0)
			assert_memory_equal(sb.data, model, len);
	}
	assert_int_equal(sb.error, 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/error.h"
#include "base/utf8.h"

#include <limits.h>

TEST(an_error_has_its_status_and_message)
{
	struct error err;

	assert_int_equal(error_set(&err, STATUS_NOT_FOUND, 0, "volume %s of %d", "db", 3), STATUS_NOT_FOUND);
	assert_int_equal(err.status, STATUS_NOT_FOUND);
	assert_int_equal(err.sys_errno, 0);
	assert_string_equal(err.msg, "volume db of 3");
}

TEST(an_errno_of_either_sign_adds_its_text)
{
	struct error err;

	(void)error_set(&err, STATUS_INTERNAL, -ENOSPC, "write");
	assert_int_equal(err.sys_errno, ENOSPC);
	assert_string_equal(err.msg, "write: No space left on device");
	(void)error_set(&err, STATUS_INTERNAL, ENOSPC, "write");
	assert_int_equal(err.sys_errno, ENOSPC);
	assert_string_equal(err.msg, "write: No space left on device");
}

TEST(an_error_without_a_target_still_has_a_status)
{
	assert_int_equal(error_set(NULL, STATUS_ABORTED, EIO, "%s", "lost"), STATUS_ABORTED);
}

TEST(a_message_is_cut_at_the_end)
{
	char text[ERROR_MSG_MAX + 2];
	struct error err;

	memset(text, 'x', sizeof(text));
	for (size_t n = ERROR_MSG_MAX - 2; n <= ERROR_MSG_MAX + 1; n++) {
		text[n] = '\0';
		(void)error_set(&err, STATUS_INTERNAL, EIO, "%s", text);
		assert_int_equal(strlen(err.msg), ERROR_MSG_MAX - 1);
		assert_memory_equal(err.msg, text, n < ERROR_MSG_MAX - 1 ? n : ERROR_MSG_MAX - 1);
		text[n] = 'x';
	}
}

TEST(a_message_may_be_built_from_the_one_before)
{
	struct error err;

	(void)error_set(&err, STATUS_INTERNAL, 0, "inner");
	(void)error_set(&err, STATUS_UNAVAILABLE, 0, "outer (%s)", err.msg);
	assert_string_equal(err.msg, "outer (inner)");
	assert_int_equal(error_prefix(&err, "again %s", err.msg), STATUS_UNAVAILABLE);
	assert_string_equal(err.msg, "again outer (inner): outer (inner)");
}

TEST(a_prefix_goes_before_and_the_end_is_cut)
{
	char text[2 * ERROR_MSG_MAX];
	struct error err;

	(void)error_set(&err, STATUS_NOT_FOUND, ENOENT, "open");
	assert_int_equal(error_prefix(&err, "volume %d", 7), STATUS_NOT_FOUND);
	assert_string_equal(err.msg, "volume 7: open: No such file or directory");
	assert_int_equal(err.sys_errno, ENOENT);
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	(void)error_prefix(&err, "%s", text);
	assert_int_equal(strlen(err.msg), ERROR_MSG_MAX - 1);
	text[ERROR_MSG_MAX - 1 - 2 - 3] = '\0'; /* room for ": " and three bytes */
	(void)error_set(&err, STATUS_NOT_FOUND, 0, "abcdef");
	(void)error_prefix(&err, "%s", text);
	assert_int_equal(strlen(err.msg), ERROR_MSG_MAX - 1);
	assert_string_equal(err.msg + ERROR_MSG_MAX - 1 - 5, ": abc");
}

/* @shift bytes, then @n characters of three bytes. */
static void write_foreign(char *text, size_t shift, size_t n)
{
	memset(text, 'x', shift);
	for (size_t i = 0; i < n; i++)
		memcpy(text + shift + 3 * i, "\xe5\xad\x98", 3);
	text[shift + 3 * n] = '\0';
}

TEST(text_that_is_cut_within_a_character_stays_utf8)
{
	char text[2 * ERROR_MSG_MAX];

	for (size_t shift = 0; shift < 3; shift++) {
		struct error err;

		write_foreign(text, shift, ERROR_MSG_MAX / 2);
		(void)error_set(&err, STATUS_INTERNAL, 0, "%s", text);
		assert_int_equal(strlen(err.msg), ERROR_MSG_MAX - 1);
		assert_true(utf8_is_valid(err.msg, ERROR_MSG_MAX - 1));
		(void)error_set(&err, STATUS_INTERNAL, 0, "plugin: %.100s: retry", text);
		assert_true(utf8_is_valid(err.msg, strlen(err.msg)));
		assert_non_null(strstr(err.msg, shift == 1 ? "\x98: retry" : "?: retry"));
		write_foreign(text, shift, 300);
		(void)error_set(&err, STATUS_INTERNAL, 0, "%s", text);
		assert_string_equal(err.msg, text);
		write_foreign(text, 0, 43);
		(void)error_prefix(&err, "volume %.128s", text);
		assert_int_equal(strlen(err.msg), ERROR_MSG_MAX - 1);
		assert_true(utf8_is_valid(err.msg, ERROR_MSG_MAX - 1));
	}
}

TEST(every_status_has_a_name_of_its_own)
{
	for (int i = 0; i < STATUS_N; i++) {
		assert_non_null(status_name((enum status)i));
		for (int k = 0; k < i; k++)
			assert_string_not_equal(status_name((enum status)i), status_name((enum status)k));
		assert_int_equal(status_from_number(i), i);
	}
	assert_string_equal(status_name(STATUS_OK), "OK");
	assert_string_equal(status_name(STATUS_UNAUTHENTICATED), "UNAUTHENTICATED");
}

TEST(an_invalid_status_is_unknown)
{
	assert_string_equal(status_name((enum status)STATUS_N), "UNKNOWN");
	assert_int_equal(status_from_number(-1), STATUS_UNKNOWN);
	assert_int_equal(status_from_number(STATUS_N), STATUS_UNKNOWN);
	assert_int_equal(status_from_number(LONG_MAX), STATUS_UNKNOWN);
}

TEST(an_errno_has_a_status)
{
	static const struct {
		int sys_errno;
		enum status expected;
	} cases[] = {
		{ENOENT, STATUS_NOT_FOUND},
		{EEXIST, STATUS_ALREADY_EXISTS},
		{EPERM, STATUS_PERMISSION_DENIED},
		{EROFS, STATUS_PERMISSION_DENIED},
		{EINVAL, STATUS_INVALID_ARGUMENT},
		{ENAMETOOLONG, STATUS_INVALID_ARGUMENT},
		{ENOSPC, STATUS_RESOURCE_EXHAUSTED},
		{ENOMEM, STATUS_RESOURCE_EXHAUSTED},
		{EBUSY, STATUS_FAILED_PRECONDITION},
		{ERANGE, STATUS_OUT_OF_RANGE},
		{ENOSYS, STATUS_UNIMPLEMENTED},
		{ECONNREFUSED, STATUS_UNAVAILABLE},
		{ETIMEDOUT, STATUS_DEADLINE_EXCEEDED},
		{ECANCELED, STATUS_CANCELLED},
		{EIO, STATUS_INTERNAL},
		{9999, STATUS_INTERNAL},
		{0, STATUS_INTERNAL}, /* never OK: something failed */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(status_from_errno(cases[i].sys_errno), cases[i].expected);
		assert_int_equal(status_from_errno(-cases[i].sys_errno), cases[i].expected);
	}
}

static enum status mistake(enum status so_far, const char *field, const char *text, struct error *err)
{
	struct error one;
	enum status status = error_invalid(&one, field, "%s", text);

	return error_collect(so_far, status, &one, err);
}

TEST(mistakes_are_gathered_each_with_its_field)
{
	struct error err = {.msg = ""}, one;
	char field[ERROR_FIELD_SIZE], text[ERROR_MSG_MAX];
	enum status status = STATUS_OK;

	status = mistake(status, "source.by_id", "it is missing", &err);
	status = error_collect(status, STATUS_OK, &one, &err);
	(void)error_set(&one, STATUS_INVALID_ARGUMENT, 0, "of no field");
	status = error_collect(status, STATUS_INVALID_ARGUMENT, &one, &err);
	status = mistake(status, "volume data", "a: b", &err);
	assert_int_equal(status, STATUS_INVALID_ARGUMENT);
	assert_string_equal(err.msg, "source.by_id: it is missing\nof no field\nvolume data: a: b");
	assert_int_equal(err.n_fields, 2);
	assert_true(error_get_field(&err, 0, field, text));
	assert_string_equal(field, "source.by_id");
	assert_string_equal(text, "it is missing");
	assert_true(error_get_field(&err, 1, field, text));
	assert_string_equal(field, "volume data");
	assert_string_equal(text, "a: b");
	(void)error_prefix(&err, "elsewhere");
	assert_int_equal(err.n_fields, 0);
}

TEST(a_value_with_a_line_break_makes_no_line_of_a_list)
{
	struct error err = {.msg = ""};

	(void)mistake(STATUS_OK, "key\nid", "'a\nname: b' is wrong", &err);
	assert_string_equal(err.msg, "key id: 'a name: b' is wrong");
}

TEST(mistakes_of_a_part_name_the_part)
{
	struct error err = {.msg = ""};
	char field[ERROR_FIELD_SIZE], text[ERROR_MSG_MAX];
	enum status status = mistake(STATUS_OK, "count", "it is 0", &err);

	(void)mistake(status, "volume data", "a: b", &err);
	assert_int_equal(error_below(&err, "group web"), STATUS_INVALID_ARGUMENT);
	assert_string_equal(err.msg, "group web.count: it is 0\ngroup web.volume data: a: b");
	assert_int_equal(err.n_fields, 2);
	assert_true(error_get_field(&err, 1, field, text));
	assert_string_equal(field, "group web.volume data");
	assert_string_equal(text, "a: b");
	(void)error_set(&err, STATUS_INVALID_ARGUMENT, 0, "of no field");
	(void)error_below(&err, "group web");
	assert_string_equal(err.msg, "group web: of no field");
	assert_int_equal(err.n_fields, 1);
}

TEST(another_failure_takes_the_place_of_mistakes)
{
	struct error err = {.msg = ""}, one;
	enum status status = mistake(STATUS_OK, "id", "it is missing", &err);

	(void)error_set(&one, STATUS_RESOURCE_EXHAUSTED, 0, "out of memory");
	status = error_collect(status, STATUS_RESOURCE_EXHAUSTED, &one, &err);
	assert_int_equal(status, STATUS_RESOURCE_EXHAUSTED);
	assert_string_equal(err.msg, "out of memory");
	assert_int_equal(err.n_fields, 0);
}

TEST(mistakes_without_room_are_counted_as_more)
{
	struct error err = {.msg = ""};
	char long_text[ERROR_MSG_MAX + 100], field[ERROR_FIELD_SIZE], text[ERROR_MSG_MAX];
	enum status status = STATUS_OK;

	for (size_t i = 0; i < 2 * ERROR_FIELDS_MAX; i++)
		status = mistake(status, "id", "too long", &err);
	assert_int_equal(err.n_fields, ERROR_FIELDS_MAX);
	for (size_t i = 0; i < err.n_fields; i++)
		assert_true(error_get_field(&err, i, field, text));
	for (size_t i = 0; i < 100; i++)
		status = mistake(status, "id", "once more", &err);
	assert_string_equal(err.msg + strlen(err.msg) - strlen("\nand more"), "\nand more");
	memset(long_text, 'x', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	(void)mistake(STATUS_OK, "id", long_text, &err);
	assert_true(error_get_field(&err, 0, field, text));
	assert_int_equal(strlen(text), ERROR_MSG_MAX - 1 - strlen("id: "));
	for (size_t n = ERROR_MSG_MAX - 20; n < ERROR_MSG_MAX; n++) { /* with less room than "and more" has */
		long_text[n] = '\0';
		(void)mistake(STATUS_OK, "id", long_text, &err);
		(void)mistake(STATUS_INVALID_ARGUMENT, "id", "once more, which is too long to be added here",
			      &err);
		assert_int_equal(err.n_fields, 1);
		assert_true(strlen(err.msg) < ERROR_MSG_MAX);
		long_text[n] = 'x';
	}
	(void)mistake(STATUS_OK, long_text, "a field that is too long is not one", &err);
	assert_int_equal(err.n_fields, 0);
}

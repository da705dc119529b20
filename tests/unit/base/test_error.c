/* SPDX-License-Identifier: Apache-2.0 */
#include "cmocka_all.h"

#include "base/cleanup.h"
#include "base/error.h"

#include <limits.h>
#include <string.h>

static void an_error_has_its_status_and_message(void **state)
{
	struct error err;

	(void)state;
	assert_int_equal(error_set(&err, STATUS_NOT_FOUND, 0, "volume %s of %d", "db", 3), STATUS_NOT_FOUND);
	assert_int_equal(err.status, STATUS_NOT_FOUND);
	assert_int_equal(err.sys_errno, 0);
	assert_string_equal(err.msg, "volume db of 3");
}

static void an_errno_of_either_sign_adds_its_text(void **state)
{
	struct error err;

	(void)state;
	(void)error_set(&err, STATUS_INTERNAL, -ENOSPC, "write");
	assert_int_equal(err.sys_errno, ENOSPC);
	assert_string_equal(err.msg, "write: No space left on device");
	(void)error_set(&err, STATUS_INTERNAL, ENOSPC, "write");
	assert_int_equal(err.sys_errno, ENOSPC);
	assert_string_equal(err.msg, "write: No space left on device");
}

static void an_error_nobody_wants_still_has_a_status(void **state)
{
	(void)state;
	assert_int_equal(error_set(NULL, STATUS_ABORTED, EIO, "%s", "lost"), STATUS_ABORTED);
}

static void a_message_is_cut_at_the_end(void **state)
{
	char text[ERROR_MSG_MAX + 2];
	struct error err;

	(void)state;
	memset(text, 'x', sizeof(text));
	for (size_t n = ERROR_MSG_MAX - 2; n <= ERROR_MSG_MAX + 1; n++) {
		text[n] = '\0';
		(void)error_set(&err, STATUS_INTERNAL, EIO, "%s", text);
		assert_int_equal(strlen(err.msg), ERROR_MSG_MAX - 1);
		assert_memory_equal(err.msg, text, n < ERROR_MSG_MAX - 1 ? n : ERROR_MSG_MAX - 1);
		text[n] = 'x';
	}
}

static void a_message_may_be_built_from_the_one_before(void **state)
{
	struct error err;

	(void)state;
	(void)error_set(&err, STATUS_INTERNAL, 0, "inner");
	(void)error_set(&err, STATUS_UNAVAILABLE, 0, "outer (%s)", err.msg);
	assert_string_equal(err.msg, "outer (inner)");
	assert_int_equal(error_prefix(&err, "again %s", err.msg), STATUS_UNAVAILABLE);
	assert_string_equal(err.msg, "again outer (inner): outer (inner)");
}

static void a_prefix_goes_before_and_the_end_is_cut(void **state)
{
	char text[2 * ERROR_MSG_MAX];
	struct error err;

	(void)state;
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

static void every_status_has_a_name_of_its_own(void **state)
{
	(void)state;
	for (int i = 0; i < STATUS_N; i++) {
		assert_non_null(status_name((enum status)i));
		for (int k = 0; k < i; k++)
			assert_string_not_equal(status_name((enum status)i), status_name((enum status)k));
		assert_int_equal(status_from_number(i), i);
	}
	assert_string_equal(status_name(STATUS_OK), "OK");
	assert_string_equal(status_name(STATUS_UNAUTHENTICATED), "UNAUTHENTICATED");
}

static void what_is_no_status_is_unknown(void **state)
{
	(void)state;
	assert_string_equal(status_name((enum status)STATUS_N), "UNKNOWN");
	assert_int_equal(status_from_number(-1), STATUS_UNKNOWN);
	assert_int_equal(status_from_number(STATUS_N), STATUS_UNKNOWN);
	assert_int_equal(status_from_number(LONG_MAX), STATUS_UNKNOWN);
}

static void an_errno_has_a_status(void **state)
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

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(status_from_errno(cases[i].sys_errno), cases[i].expected);
		assert_int_equal(status_from_errno(-cases[i].sys_errno), cases[i].expected);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_error_has_its_status_and_message),
		cmocka_unit_test(an_errno_of_either_sign_adds_its_text),
		cmocka_unit_test(an_error_nobody_wants_still_has_a_status),
		cmocka_unit_test(a_message_is_cut_at_the_end),
		cmocka_unit_test(a_message_may_be_built_from_the_one_before),
		cmocka_unit_test(a_prefix_goes_before_and_the_end_is_cut),
		cmocka_unit_test(every_status_has_a_name_of_its_own),
		cmocka_unit_test(what_is_no_status_is_unknown),
		cmocka_unit_test(an_errno_has_a_status),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/exit_code.h"

TEST(only_operator_errors_prevent_a_restart)
{
	static const struct {
		enum status status;
		int sys_errno, code;
	} cases[] = {
		{STATUS_INVALID_ARGUMENT, 0, 78},
		{STATUS_NOT_FOUND, ENOENT, 78},
		{STATUS_PERMISSION_DENIED, EACCES, 78},
		{STATUS_FAILED_PRECONDITION, 0, 78},
		{STATUS_FAILED_PRECONDITION, EADDRINUSE, 1},
		{STATUS_FAILED_PRECONDITION, EBUSY, 1},
		{STATUS_FAILED_PRECONDITION, EADDRNOTAVAIL, 1},
		{STATUS_RESOURCE_EXHAUSTED, ENOSPC, 1},
		{STATUS_UNAVAILABLE, 0, 1},
		{STATUS_DATA_LOSS, 0, 1},
		{STATUS_INTERNAL, EIO, 1},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct error err = {.status = cases[i].status, .sys_errno = cases[i].sys_errno};

		assert_int_equal(exit_code_of_start(&err), cases[i].code);
	}
}

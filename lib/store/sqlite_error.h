/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Result codes of sqlite as errors for an operator. */

#include "base/error.h"

/** Fill @err from the result code @rc of a call that failed and return its status.
 *
 * @sys_errno of the system call behind it, 0 if unknown
 * @path      of the database file
 * @doing     what failed, as in "commit"
 * STATUS_FAILED_PRECONDITION: another process holds the file. STATUS_RESOURCE_EXHAUSTED: disk or memory.
 * STATUS_DATA_LOSS: not a database, or damaged. STATUS_PERMISSION_DENIED: read-only. Otherwise by errno, or
 * STATUS_INTERNAL. Source: sqlite.org/rescode.html. */
enum status sqlite_error(int rc, int sys_errno, const char *path, const char *doing, struct error *err);

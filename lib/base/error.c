/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include "base/cleanup.h"
#include "base/names.h"
#include "base/utf8.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const status_names[STATUS_N] = {
	[STATUS_OK] = "OK",
	[STATUS_CANCELLED] = "CANCELLED",
	[STATUS_UNKNOWN] = "UNKNOWN",
	[STATUS_INVALID_ARGUMENT] = "INVALID_ARGUMENT",
	[STATUS_DEADLINE_EXCEEDED] = "DEADLINE_EXCEEDED",
	[STATUS_NOT_FOUND] = "NOT_FOUND",
	[STATUS_ALREADY_EXISTS] = "ALREADY_EXISTS",
	[STATUS_PERMISSION_DENIED] = "PERMISSION_DENIED",
	[STATUS_RESOURCE_EXHAUSTED] = "RESOURCE_EXHAUSTED",
	[STATUS_FAILED_PRECONDITION] = "FAILED_PRECONDITION",
	[STATUS_ABORTED] = "ABORTED",
	[STATUS_OUT_OF_RANGE] = "OUT_OF_RANGE",
	[STATUS_UNIMPLEMENTED] = "UNIMPLEMENTED",
	[STATUS_INTERNAL] = "INTERNAL",
	[STATUS_UNAVAILABLE] = "UNAVAILABLE",
	[STATUS_DATA_LOSS] = "DATA_LOSS",
	[STATUS_UNAUTHENTICATED] = "UNAUTHENTICATED",
};

/* The end or a precision ("%.64s") may cut foreign text within a character. */
static void set_text(struct error *err, const char *msg)
{
	size_t n = strlen(msg);

	memcpy(err->msg, msg, n + 1);
	utf8_mask(err->msg, n);
	err->n_fields = 0;
}

void error_fill(struct error *err, enum status status, int sys_errno, const char *fmt, ...)
{
	char msg[ERROR_MSG_MAX]; /* apart from err->msg, which may be an argument */
	va_list args;
	int n;

	assert(status != STATUS_OK);
	if (!err)
		return;
	va_start(args, fmt);
	n = vsnprintf(msg, sizeof(msg), fmt, args);
	va_end(args);
	if (n < 0)
		msg[0] = '\0';
	else if ((size_t)n < sizeof(msg) && sys_errno != 0)
		(void)snprintf(msg + n, sizeof(msg) - (size_t)n, ": %s", strerror(abs(sys_errno)));
	err->status = status;
	err->sys_errno = abs(sys_errno);
	set_text(err, msg);
}

enum status error_prefix(struct error *err, const char *fmt, ...)
{
	char prefix[ERROR_MSG_MAX];
	char whole[2 * ERROR_MSG_MAX + 4];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(prefix, sizeof(prefix), fmt, args);
	va_end(args);
	(void)snprintf(whole, sizeof(whole), "%s: %s", prefix, err->msg);
	whole[sizeof(err->msg) - 1] = '\0';
	set_text(err, whole);
	return err->status;
}

enum status status_from_errno(int sys_errno)
{
	switch (abs(sys_errno)) {
	case ENOENT:
	case ESRCH:
		return STATUS_NOT_FOUND;
	case EEXIST:
		return STATUS_ALREADY_EXISTS;
	case EACCES:
	case EPERM:
	case EROFS:
		return STATUS_PERMISSION_DENIED;
	case EINVAL:
	case ENAMETOOLONG:
	case EISDIR:
	case ENOTDIR:
	case EBADMSG:
		return STATUS_INVALID_ARGUMENT;
	case ENOMEM:
	case ENOSPC:
	case EDQUOT:
	case EMFILE:
	case ENFILE:
	case E2BIG:
	case EMSGSIZE:
		return STATUS_RESOURCE_EXHAUSTED;
	case EBUSY:
	case EADDRINUSE:
		return STATUS_FAILED_PRECONDITION;
	case ERANGE:
		return STATUS_OUT_OF_RANGE;
	case ENOSYS:
	case EOPNOTSUPP:
		return STATUS_UNIMPLEMENTED;
	case EAGAIN:
	case ECONNREFUSED:
	case ECONNRESET:
	case EPIPE:
	case ENETUNREACH:
	case EHOSTUNREACH:
		return STATUS_UNAVAILABLE;
	case ETIMEDOUT:
		return STATUS_DEADLINE_EXCEEDED;
	case ECANCELED:
		return STATUS_CANCELLED;
	default:
		return STATUS_INTERNAL;
	}
}

const char *status_name(enum status status)
{
	const char *name = names_get(status_names, STATUS_N, (int)status);

	return name ? name : status_names[STATUS_UNKNOWN];
}

enum status status_from_number(long number)
{
	return number >= 0 && number < STATUS_N ? (enum status)number : STATUS_UNKNOWN;
}

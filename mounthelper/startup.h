#pragma once
/* How a start can end. Every step of main.c's ladder has one code, and one line on the descriptor that was
 * standard error. */

#include "base/error.h"

enum exit_code {
	EXIT_CLOSED = 0, /* the agent closed the socket */
	EXIT_ARGUMENTS = 70,
	EXIT_PRIVILEGE = 71,
	EXIT_DESCRIPTORS = 72,
	EXIT_PROCESS = 73,
	EXIT_NAMESPACE = 74,
	EXIT_LIMITS = 75,
	EXIT_TRAIL = 76, /* log, lock folder, state, instances */
	EXIT_TREES = 77,
	EXIT_POLICY = 78,
	EXIT_LOCKDOWN = 79,
	EXIT_VIOLATION = 80, /* the agent broke the protocol */
	EXIT_INTERNAL = 81,  /* a post-condition failed */
	EXIT_REFUSALS = 82,  /* too many refused requests */
	EXIT_SEND = 83,	     /* the agent does not read its replies */
};

/** End with @code after one line "holdfast-mounthelper: exit CODE: MESSAGE" on @message_fd (or none if
 * negative).
 */
_Noreturn void startup_fail(int message_fd, enum exit_code code, const struct error *err);

#pragma once
/* Read the policy: a regular file of root that nobody else can write, reached through directories of the same
 * kind. */

#include "policy.h"

/** Read and parse @path below @root_fd.
 * @ret_digest SHA-256 of the file, TICKET_DIGEST_SIZE bytes
 * @ret_line   of a mistake in its text, for STATUS_INVALID_ARGUMENT with no errno; else untouched */
enum status policy_file_load(int root_fd, const char *path, struct policy *ret,
			     uint8_t ret_digest[static TICKET_DIGEST_SIZE], unsigned int *ret_line,
			     struct error *err);

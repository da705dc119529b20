#pragma once
/* Read the policy: a regular file of root that nobody else can write, reached through directories of the same
 * kind. */

#include "policy.h"

#include "base/error.h"

/** Read and parse @path below @root_fd.
 * @ret_digest SHA-256 of the file, TICKET_DIGEST_SIZE bytes */
enum status policy_file_load(int root_fd, const char *path, struct policy *ret,
			     uint8_t ret_digest[static TICKET_DIGEST_SIZE], struct error *err);

/** Open @path of root below @root_fd with @flags: regular, uid 0, not writable by others, one link.
 * Shared with the log and the state file. Returns the descriptor or a negative errno; -EPERM when it is not.
 */
int root_file_open(int root_fd, const char *path, int flags, unsigned int mode);

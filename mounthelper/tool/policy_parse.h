/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The text of mounthelper.policy(5), and what it is compiled to. No part of the helper.
 *
 *	agent UID {
 *		key = value
 *		profile NAME { class = block | tmpfs | nfs4 | csi, which comes first; ... }
 *		hostvol NAME { path = /srv/data; owner_uid = 1000; ... }
 *	}
 *
 * Statements end with a line or a semicolon, `#` begins a comment. An unknown or repeated key, a value out of
 * range, a missing key or a contradiction is refused with its line. Pure: the buffer is all it reads. */

#include "policy.h"

#include "base/error.h"

/** Parses @n bytes at @text.
 *
 * @file     only for messages, which begin with FILE:LINE:
 * @ret      holds nothing of use after a failure
 * @ret_line of the mistake, untouched on success
 * Returns STATUS_INVALID_ARGUMENT for anything that is not a complete, consistent policy. */
enum status policy_parse(const char *file, const char *text, size_t n, struct policy *ret,
			 unsigned int *ret_line, struct error *err);

/** policy_parse() into a file that policy_file_check() accepts. */
enum status policy_compile(const char *file, const char *text, size_t n, struct policy_file *ret,
			   unsigned int *ret_line, struct error *err);

/** Sets magic, version, size and digest of @file, and takes the pointers out. */
void policy_file_seal(struct policy_file *file);

/** Index of the option called by the @n bytes at @word, or -EINVAL. */
int fs_option_find(const char *word, size_t n);

/* Consistency of the parsed policy: each returns NULL, or the mistake. */

/** Is @agent consistent by itself, and are its uids apart from those of every agent already in @policy? */
const char *policy_check_agent(const struct policy *policy, const struct agent_policy *agent);

/** Is no tree, log, lock_dir or host volume of @policy below another, but for host volumes below each other?
 * @ret_line of the later block when not */
const char *policy_check_paths(const struct policy *policy, unsigned int *ret_line);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Explains to an operator why an instance of the mount helper ended. Pure. Uses only the code of its last
 * message, or its exit code. Source: proto/mounthelper_words.h. */

#include "mounthelper_wire.h"
#include "mounthelper_words.h"

#include "base/error.h"

#include <sys/types.h>

enum { HELPER_SENTENCE_SIZE = 512 };

/** Replaces the single letter N in a sentence of mounthelper_words.h by @number; cuts the end if too long.
 * Returns @ret. */
const char *helper_end_fill_in(const char *sentence, uint32_t number, char ret[static HELPER_SENTENCE_SIZE]);

/** Returns why a helper with this code in HELLO only cleans up: a keyword and its sentence; or NULL. */
const char *helper_end_trail_fault(enum mh_trail fault);

/** Converts the last message of a helper that could not start to an error. */
void helper_end_describe_failure(const struct mh_failure *failure, struct error *ret);

/** Describes the end of process @pid with exit code @code, which sent no other message.
 * @line the first line it wrote on standard error, for people; may be empty */
void helper_end_describe_exit(pid_t pid, int code, const char *line, struct error *ret);

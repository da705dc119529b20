/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Why an instance of the mount helper ended, in an operator's words. Pure. Decided by numbers alone: the word
 * of its last message, or its exit code. Source: proto/mounthelper_words.h. */

#include "mounthelper_wire.h"
#include "mounthelper_words.h"

#include "base/error.h"

#include <sys/types.h>

enum { HELPER_SENTENCE_SIZE = 512 };

/** A sentence of mounthelper_words.h with its N, standing alone, as @number; cut at the end if too long.
 * Returns @ret. */
const char *helper_end_fill_in(const char *sentence, uint32_t number, char ret[static HELPER_SENTENCE_SIZE]);

/** Why a helper with this word in HELLO only cleans up: a word and its sentence. NULL: it does not. */
const char *helper_end_trail_fault(enum mh_trail fault);

/** What a helper that could not start has said, as an error. */
void helper_end_describe_failure(const struct mh_failure *failure, struct error *ret);

/** The end of process @pid with exit code @code, when it said nothing else.
 * @line the first line it wrote on standard error, for people; may be empty */
void helper_end_describe_exit(pid_t pid, int code, const char *line, struct error *ret);

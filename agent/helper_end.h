#pragma once
/* Why an instance of the mount helper ended, in an operator's words. Pure. Decided by numbers alone: the word
 * of its last message, or its exit code. Source: proto/mounthelper_words.h. */

#include "mounthelper_wire.h"

#include "base/error.h"

#include <sys/types.h>

/** What a helper that could not start has said, as an error. */
void helper_end_describe_failure(const struct mh_failure *failure, struct error *ret);

/** The end of process @pid with exit code @code, when it said nothing else.
 * @line the first line it wrote on standard error, for people; may be empty */
void helper_end_describe_exit(pid_t pid, int code, const char *line, struct error *ret);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Values of options and arguments: numbers, times, sizes, keys with values, the confirmation of a person. */

#include "command/command.h"

/** Value of a duration option in milliseconds, @absent_ms when it is not given; 0 and more than @max_ms are
 * usage errors. */
enum status value_duration(struct invocation *inv, enum option_id id, uint64_t absent_ms, uint64_t max_ms,
			   uint64_t *ret_ms, struct error *err);

/** How long a command waits: --timeout, else @absent_us; a day at most. */
enum status value_timeout(struct invocation *inv, uint64_t absent_us, uint64_t *ret_us, struct error *err);

/** How long an allocation waits in the queue of a volume that is taken: --wait, 30 days at most; 0: it is
 * refused. */
enum status value_wait(struct invocation *inv, uint32_t *ret_ms, struct error *err);

/** The same for the text of a setting; @what names it in the message. */
enum status value_parse_wait(const char *what, const char *text, uint32_t *ret_ms, struct error *err);

/** Value of a number option, @absent when it is not given. */
enum status value_number(struct invocation *inv, enum option_id id, uint64_t min, uint64_t max,
			 uint64_t absent, uint64_t *ret, struct error *err);

/** "10GiB" in bytes. @what "--capacity-max"; for the message */
enum status value_size(struct invocation *inv, const char *what, const char *text, uint64_t *ret_bytes,
		       struct error *err);

/** The reason that a command has to have: not empty, of one line. */
enum status value_reason(struct invocation *inv, enum option_id id, char **ret, struct error *err);

/** Refuses a prefix for a command that cannot be undone: if the meant object is gone, another one may begin
 * with it. @what the command, for the message */
enum status value_check_whole(struct invocation *inv, const char *what, const char *given, const char *id,
			      struct error *err);

/** Asks a person to continue: "y" does. With --yes it does not ask, and without a terminal --yes is needed.
 * STATUS_CANCELLED after another answer. */
enum status value_confirm(struct invocation *inv, const char *question, struct error *err);

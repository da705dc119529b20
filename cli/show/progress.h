/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A line on a terminal for a person who waits; nothing when nobody watches. */

/** Show or replace the line; control bytes become '?'. */
void progress_show(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/** Remove it. */
void progress_end(void);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A progress line on a terminal; prints nothing without a terminal. */

/** Show or replace the line; as str_copy_text() does, '?' takes the place of what a terminal obeys. */
void progress_show(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/** Remove it. */
void progress_end(void);

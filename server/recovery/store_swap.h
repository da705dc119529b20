/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Putting another store in the place of the present one, so that whatever happens in between the next start
 * finds either the one or the other, whole.
 *
 * store_swap_decide() writes data_dir/restore.pending durably: from then on the new store is the one. The
 * next start moves the old one aside with its log, the new one into its place, and removes the note; each
 * step is one rename, and all of them are done again after a crash until the note is gone. */

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/** @staged a complete database in @data_dir's file system. The old store will be holdfast.db.before-restore-
 * and @now_ms as a time. */
enum status store_swap_decide(const char *data_dir, const char *staged, int64_t now_ms, struct error *err);

/** Before a store is opened: finish an exchange that was decided. @ret_done: there was one. */
enum status store_swap_finish(const char *data_dir, bool *ret_done, struct error *err);

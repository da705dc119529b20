/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Replaces the present store by another one, so that after any crash the next start finds one of the two,
 * whole.
 *
 * store_swap_decide() writes data_dir/restore.pending durably: from then on the new store is in force. The
 * next start renames the old store with its log, moves the new one into its place, and removes the note. Each
 * step is one rename, and all steps are repeated after a crash until the note is gone.
 *
 * While the note is that of store_swap_leave(), the store is moved to etcd and is not opened here. */

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/** @staged a complete database in @data_dir's file system. The old store will be holdfast.db.before-restore-
 * and @now_ms as a time. */
enum status store_swap_decide(const char *data_dir, const char *staged, int64_t now_ms, struct error *err);

/** Before a store is opened: finish an exchange that was decided. @ret_done: there was one.
 * STATUS_FAILED_PRECONDITION while store_swap_is_leaving(). */
enum status store_swap_finish(const char *data_dir, bool *ret_done, struct error *err);

/** Before a copy of the store may be opened in etcd at @prefix: note it durably. Renaming the store and then
 * store_swap_finish() ends it. */
enum status store_swap_leave(const char *data_dir, const char *prefix, struct error *err);
/** @prefix NULL: any. */
bool store_swap_is_leaving(const char *data_dir, const char *prefix);

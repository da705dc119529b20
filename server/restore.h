/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Operator.BeginRestore, WriteRestore and ApplyRestore: start again from a copy of the store.
 *
 * The copy is received into data_dir/restore, checked and put into a new epoch there (new_epoch.h), by a
 * thread; then the exchange is decided (exchange.h), the call is answered, and the server ends its loop to be
 * built anew on the copy. Until it is decided nothing has happened. */

#include "config.h"
#include "new_epoch.h"

#include "rpc/server.h"

struct server;
struct restore;

enum {
	RESTORE_CHUNK_MAX = 768 << 10,
	RESTORE_KEEP_S = 3600, /* without a part of it being written */
};
#define RESTORE_SIZE_MAX (UINT64_C(1) << 36)

rpc_unary_fn restore_handle_begin;
rpc_unary_fn restore_handle_write;
rpc_unary_fn restore_handle_apply;

/** With the server. NULL is allowed. */
void restore_free(struct restore *restore);

/** What another user makes in @data_dir, the server could not open afterwards: STATUS_FAILED_PRECONDITION
 * says how to run holdfast-server @option. */
enum status restore_check_user(const char *data_dir, const char *option, struct error *err);

/** The same for a server that is not running: the copy at @path takes the place of its store.
 * STATUS_FAILED_PRECONDITION when the server is running. */
enum status restore_offline(const struct config *config, const char *path, bool other_cluster,
			    struct new_epoch_result *ret, struct error *err);

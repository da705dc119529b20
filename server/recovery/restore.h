/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Operator.BeginRestore, WriteRestore and ApplyRestore: start again from a copy of the store.
 *
 * The copy is received into data_dir/restore, checked and put into a new epoch there (new_epoch.h), by a
 * thread; then the swap is decided (store_swap.h), the call is answered, and the server ends its loop to be
 * built anew on the copy. Until it is decided nothing has happened. */

#include "config.h"

#include "kit/kit.h"
#include "recovery/new_epoch.h"
#include "rpc/server.h"

#include <sys/types.h>

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

/* To whom the server's files belong. */
struct restore_owner {
	uid_t uid;
	gid_t gid;
};

/** The owner of data_dir; where there is none, for root HOLDFAST_SERVER_USER and for anybody else himself.
 * STATUS_FAILED_PRECONDITION: there is no such account. */
enum status restore_find_owner(const struct config *config, struct restore_owner *ret, struct error *err);

/** Become, for good, who makes the server's files: root becomes restore_find_owner(), and
 * nobody else becomes another. A data_dir that is missing is made first, mode 0700, and the folder of
 * mark_file likewise; with @dry_run neither is. */
enum status restore_become_owner(const struct config *config, bool dry_run, struct error *err);

/* A copy of a store to start from: a file, or (@kit) the one in a kit. */
struct restore_source {
	const char *path; /* for messages, too */
	int fd;		  /* opened while it could be read; owned */
	int log_fd;	  /* of PATH-wal; -EBADF: it has none; owned */
	struct kit kit;	  /* owned; empty: it is none */
};

/** Open the file at @path, and, if it is a kit, take out what is in it; @key NULL: there is none. */
enum status restore_source_open(const char *path, const struct kit_key *key, struct restore_source *ret,
				struct error *err);
void restore_source_close(struct restore_source *source);

/** The same for a server that is not running: the copy takes the place of its store. With @dry_run nothing is
 * changed and the result is what would be. STATUS_FAILED_PRECONDITION when the server is running. */
enum status restore_offline(const struct config *config, const struct restore_source *source,
			    bool other_cluster, bool dry_run, struct new_epoch_result *ret,
			    struct error *err);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Operator.BeginRestore, WriteRestore and ApplyRestore: start again from a copy of the store.
 *
 * The copy is received into data_dir/restore, checked and put into a new epoch there (new_epoch.h), by a
 * thread; then the swap is decided (store_swap.h), the call is answered, and the server ends its loop to be
 * built again on the copy. Before the decision nothing has changed. */

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

/** Called with the end of the server. NULL is allowed. */
void restore_free(struct restore *restore);

/** Checks the user: the server could not open files that another user makes in @data_dir.
 * STATUS_FAILED_PRECONDITION has the command to run holdfast-server @option. */
enum status restore_check_user(const char *data_dir, const char *option, struct error *err);

/* To whom the server's files belong. */
struct restore_owner {
	uid_t uid;
	gid_t gid;
};

/** Finds the owner of data_dir; if data_dir is missing, HOLDFAST_SERVER_USER for root, else the present user.
 * STATUS_FAILED_PRECONDITION: there is no such account. */
enum status restore_find_owner(const struct config *config, struct restore_owner *ret, struct error *err);

/** Becomes, for good, the owner of the server's files: root becomes restore_find_owner(), and other users
 * stay as they are. A data_dir that is missing is made first, mode 0700, and the folder of mark_file
 * likewise; with @dry_run neither is. */
enum status restore_become_owner(const struct config *config, bool dry_run, struct error *err);

/* A copy of a store to start from: a file, or (@kit) the one in a kit. */
struct restore_source {
	const char *path; /* for messages, too */
	int fd;		  /* opened while it could be read; owned */
	int log_fd;	  /* of PATH-wal; -EBADF: no log; owned */
	struct kit kit;	  /* owned; empty: the file is not a kit */
};

/** Opens the file at @path and, if it is a kit, unpacks it; @key NULL: no key was given. */
enum status restore_source_open(const char *path, const struct kit_key *key, struct restore_source *ret,
				struct error *err);
void restore_source_close(struct restore_source *source);

/** The same for a server that is not running: the copy replaces its store. If @dry_run, nothing is changed
 * and the result is that of a real run. STATUS_FAILED_PRECONDITION when the server is running. */
enum status restore_offline(const struct config *config, const struct restore_source *source,
			    bool other_cluster, bool dry_run, struct new_epoch_result *ret,
			    struct error *err);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Operator.BeginBackup and ReadBackup: a copy of the store as of one moment, made while the server runs.
 *
 * One at a time, in data_dir/backup, mode 0600: it holds everything, secrets too. It goes when it was read to
 * its end, after BACKUP_KEEP_S, with the next one and with the server. */

#include "rpc/server.h"

struct server;
struct backup;

enum {
	BACKUP_KEEP_S = 3600,
	BACKUP_CHUNK = 512 << 10,
};

rpc_unary_fn backup_handle_begin;
rpc_unary_fn backup_handle_read;

/** Returns the start of the last backup of this store that was read to its end; 0: no such backup, or the
 * clock was ahead then, so that its age is unknown. */
int64_t backup_last_ms(struct server *server);

/** The same of kits, which are backups, too. */
int64_t backup_last_kit_ms(struct server *server);

/** Called with the end of the server. NULL is allowed. */
void backup_free(struct backup *backup);

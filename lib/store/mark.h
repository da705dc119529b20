/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A mark: a small file that records how far a store has come. It detects a store that went back in time (its
 * log was removed or cut, its files were copied back). It is never ahead of the store: it is written when a
 * commit is durable, and before the commit is answered. Two slots are written in turns, each with a checksum,
 * so that one of them is whole whenever the machine stops. */

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum { MARK_STORE_ID_SIZE = 40 };

struct mark {
	char store_id[MARK_STORE_ID_SIZE]; /* "": the store has no id */
	uint64_t epoch;
	uint64_t revision; /* the last one that may have been acknowledged */
	uint64_t nodes;	   /* that the store knows of */
};

struct mark_file;

/** The newer whole slot. STATUS_NOT_FOUND when there is no file, STATUS_DATA_LOSS when it has no whole slot,
 * else as the system call failed; @err names the file. */
enum status mark_read(const char *path, struct mark *ret, struct error *err);

/** Open for writing. A file that is missing, or holds no mark, is made with @first, durably. An existing mark
 * stays as it is until the next mark_write(). @ret owned by the caller, mark_close(). */
enum status mark_open(const char *path, const struct mark *first, struct mark_file **ret, struct error *err);

/** Write @mark into the kernel's cache, so a killed process loses nothing. Returns 0 or a negative errno. */
int mark_write(struct mark_file *file, const struct mark *mark);

/** As far as the disk, if there is anything that is not. Returns 0 or a negative errno. */
int mark_sync(struct mark_file *file);

/** Syncs. NULL is allowed. */
void mark_close(struct mark_file *file);

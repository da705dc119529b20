/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A mark: a small file that says how far a store had come, so that a store which went back in time (its log
 * was removed or cut, its files were copied back) is found out. Never ahead of the store: it is written when
 * a commit is durable, before anybody is told of it. Two slots are written in turns, each with a checksum, so
 * that one of them is whole whenever the machine stops. */

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum { MARK_STORE_ID_SIZE = 40 };

struct mark {
	char store_id[MARK_STORE_ID_SIZE]; /* "": of a store that has none */
	uint64_t epoch;
	uint64_t revision; /* the last one that may have been acknowledged */
	uint64_t nodes; /* that the store knows of; 0 in a file of the first version, which has no such field
			 */
};

struct mark_file;

/** The newer whole slot. STATUS_NOT_FOUND when there is no file, STATUS_DATA_LOSS when it has no whole slot,
 * else as the system call failed; @err names the file. */
enum status mark_read(const char *path, struct mark *ret, struct error *err);

/** Open for writing; a file that is not there, or holds no mark, is made with @first, durably. Until the next
 * mark_write() an existing one says what it said. @ret owned by the caller, mark_close(). */
enum status mark_open(const char *path, const struct mark *first, struct mark_file **ret, struct error *err);

/** Say @mark from here on: as far as the kernel, so a killed process loses nothing. Returns 0 or a negative
 * errno. */
int mark_write(struct mark_file *file, const struct mark *mark);

/** As far as the disk, if there is anything that is not. Returns 0 or a negative errno. */
int mark_sync(struct mark_file *file);

/** Syncs. NULL is allowed. */
void mark_close(struct mark_file *file);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The store as a file, and copies of it: folders for them, digests. */

#include "base/error.h"
#include "store/kv.h"

#include <stdint.h>

enum { COPY_SHA256_SIZE = 32 };

/** Make the folder @path (mode 0700) if it is missing, and remove the files in it, which are not in use. */
enum status copy_folder_make(const char *path, struct error *err);

/** Moves a file within its file system, durably. */
enum status copy_move(const char *from, const char *to, struct error *err);

/** Remove the database @path with its log and its other files. */
void copy_remove(const char *path);

/* A store that is opened, changed and closed by one thread. */
struct store_file {
	sd_event *event;
	struct kv *kv;
};

/** Blocks. On failure, too, @ret is for store_file_closep(). */
enum status store_file_open(const char *path, struct store_file *ret, struct error *err);
/** Folds the log into the file. */
void store_file_closep(struct store_file *file);

/** SHA-256 and size of a file. */
enum status copy_digest(const char *path, uint8_t sha256[static COPY_SHA256_SIZE], uint64_t *ret_size,
			struct error *err);

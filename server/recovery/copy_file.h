/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Files of copies of the store: folders for them, digests. */

#include "base/error.h"

#include <stdint.h>

enum { COPY_SHA256_SIZE = 32 };

/** Make the folder @path (mode 0700) if it is missing, and remove the files in it, which are not in use. */
enum status copy_folder_make(const char *path, struct error *err);

/** Remove the database @path with its log and its other files. */
void copy_remove(const char *path);

/** SHA-256 and size of a file. */
enum status copy_digest(const char *path, uint8_t sha256[static COPY_SHA256_SIZE], uint64_t *ret_size,
			struct error *err);

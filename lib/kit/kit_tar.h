/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The tar in a kit: POSIX ustar, regular files with mode 0600, whose names are theirs alone. */

#include "kit/kit.h"

enum { KIT_TAR_BLOCK = 512 };

/** The header of a file. STATUS_INVALID_ARGUMENT: @name is too long. */
enum status kit_tar_head(const char *name, uint64_t size, int64_t made_at_ms,
			 uint8_t ret[static KIT_TAR_BLOCK], struct error *err);

/** Zeroes that follow a file of @size bytes. */
static inline size_t kit_tar_padding(uint64_t size)
{
	return (size_t)(-size % KIT_TAR_BLOCK);
}

/** Take all files out of @bytes. @ret holds what was taken on failure too. STATUS_DATA_LOSS: they are no such
 * tar. */
enum status kit_tar_read(const uint8_t *bytes, size_t n, struct kit *ret, struct error *err);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A text for people that is too long, cut where it hurts least. */

#include <stddef.h>

/** str_copy_text() into @dst of @size bytes (at least 64), but cut in the middle with "... ": a message
 * begins with the attempt, and ends with the output of mount or mkfs, which is the cause. The end has
 * twice the room, and begins between two spaces where possible. */
void str_copy_ends(char *dst, size_t size, const char *src);

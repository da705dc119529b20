/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Fixed-size messages as rows of fields that follow each other without padding.
 *
 * A layout is an array of fields that ends with LAYOUT_END. A field is an index into a table of texts, or one
 * of the kinds below plus a number. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	LAYOUT_END = 0,
	LAYOUT_ANY = 1 << 12,	/* plus a number of bytes of any value */
	LAYOUT_ZERO = 2 << 12,	/* plus a number of bytes that are zero */
	LAYOUT_UP_TO = 3 << 12, /* plus the highest value of one byte */
};

/* A string, NUL-terminated and zero to its end. Entry LAYOUT_END of a table is not used. */
struct layout_text {
	size_t size;
	bool (*is_valid)(const char *text);
};

/** Bytes that @layout takes. */
size_t layout_size(const uint16_t *layout, const struct layout_text *texts);

/** Has every field of the layout_size() bytes at @bytes a value that @layout allows? */
bool layout_is_valid(const uint16_t *layout, const struct layout_text *texts, const void *bytes);

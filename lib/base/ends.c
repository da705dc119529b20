/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ends.h"

#include "base/str.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

/* Returns the start of the last @max bytes of @text, after a blank or else at a character. */
static const char *last_words(const char *text, size_t max)
{
	enum { WORD_MAX = 32 };
	const char *at = text + strlen(text) - max;
	size_t n = strcspn(at, " ");

	if (n < WORD_MAX && at[n] != '\0')
		return at + n + 1;
	while (((uint8_t)*at & 0xc0) == 0x80)
		at++;
	return at;
}

void str_copy_ends(char *dst, size_t size, const char *src)
{
	static const char gap[] = "... ";
	enum { SIZE_MIN = 64 };
	size_t head;

	assert(size >= SIZE_MIN);
	if (strlen(src) < size) {
		str_copy_text(dst, size, src);
		return;
	}
	str_copy_text(dst, size / 3 - strlen(gap) + 1, src);
	head = strlen(dst);
	memcpy(dst + head, gap, sizeof(gap));
	head += strlen(gap);
	str_copy_text(dst + head, size - head, last_words(src, size - head - 1));
}

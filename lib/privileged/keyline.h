/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A line of " key=value" pairs in a fixed buffer, for records that people and audit tools read: no value
 * can forge a pair, a quote or a line. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	KEYLINE_SIZE = 1024,
	KEYLINE_VALUE_MAX = 255, /* bytes of one value before any encoding */
	KEYLINE_SHA256_DIGITS = 64,
};

/* Begin with KEYLINE_INIT. */
struct keyline {
	char text[KEYLINE_SIZE]; /* NUL-terminated */
	size_t len;
	bool overflow; /* something did not fit and is not there */
};

#define KEYLINE_INIT     \
	{                \
		.len = 0 \
	}

/** Appends " key=value". A value with other bytes than `A-Za-z0-9._:+/@,-` becomes upper-case hex as a whole.
 */
void keyline_word(struct keyline *line, const char *key, const char *value);
void keyline_number(struct keyline *line, const char *key, uint64_t value);

/** Appends " key=MAJOR:MINOR". */
void keyline_device(struct keyline *line, const char *key, uint32_t dev_major, uint32_t dev_minor);

/** Appends all that is in another line; what did not fit there is missing here, too. */
void keyline_append(struct keyline *line, const struct keyline *more);

/** Appends several: keyline_words(line, "key", value, "key", value). */
#define keyline_words(line, ...) keyline_pairs(line, (const char *const[]){__VA_ARGS__, NULL})
void keyline_pairs(struct keyline *line, const char *const pairs[]);

/** Appends the first @n bytes of a SHA-256 as sha256:HEX. Without the prefix, hex would be an encoded text
 * to ausearch(8). */
void keyline_sha256(struct keyline *line, const char *key, const void *bytes, size_t n);

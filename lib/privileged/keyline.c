/* SPDX-License-Identifier: Apache-2.0 */
#include "privileged/keyline.h"

#include "base/str.h"

#include <assert.h>
#include <string.h>

/* From + to : are + , - . / and the digits. */
static const bool plain[UINT8_MAX + 1] = {
	['+' ... ':'] = true, ['@'] = true, ['A' ... 'Z'] = true, ['_'] = true, ['a' ... 'z'] = true};

/* Faster than printf: a record has some twenty pairs, and there are four records to a publish and its end. */
static void put(struct keyline *line, const char *bytes, size_t n)
{
	memcpy(line->text + line->len, bytes, n);
	line->len += n;
}

void keyline_append(struct keyline *line, const struct keyline *more)
{
	bool fits = more->len < sizeof(line->text) - line->len;

	if (fits)
		put(line, more->text, more->len);
	line->text[line->len] = '\0';
	line->overflow |= more->overflow || !fits;
}

void keyline_word(struct keyline *line, const char *key, const char *value)
{
	static const char digits[] = "0123456789ABCDEF";
	size_t key_len = strlen(key);
	size_t n = strlen(value);
	size_t n_plain = 0;
	size_t needed;

	while (n_plain < n && plain[(unsigned char)value[n_plain]])
		n_plain++;
	needed = 1 + key_len + 1 + (n_plain == n ? n : 2 * n);
	if (n > KEYLINE_VALUE_MAX || needed >= sizeof(line->text) - line->len) {
		line->overflow = true;
		return;
	}
	put(line, " ", 1);
	put(line, key, key_len);
	put(line, "=", 1);
	if (n_plain == n)
		put(line, value, n);
	for (size_t i = 0; i < n && n_plain < n; i++) {
		unsigned int byte = (unsigned char)value[i];

		put(line, (const char[]){digits[byte >> 4], digits[byte & 15]}, 2);
	}
	line->text[line->len] = '\0';
}

void keyline_number(struct keyline *line, const char *key, uint64_t value)
{
	char text[24];

	(void)str_decimal(text, sizeof(text), value);
	keyline_word(line, key, text);
}

void keyline_device(struct keyline *line, const char *key, uint32_t dev_major, uint32_t dev_minor)
{
	char text[24];
	int n = str_decimal(text, sizeof(text), dev_major);

	text[n] = ':';
	(void)str_decimal(text + n + 1, sizeof(text) - (size_t)n - 1, dev_minor);
	keyline_word(line, key, text);
}

void keyline_pairs(struct keyline *line, const char *const pairs[])
{
	for (size_t i = 0; pairs[i]; i += 2)
		keyline_word(line, pairs[i], pairs[i + 1]);
}

void keyline_sha256(struct keyline *line, const char *key, const void *bytes, size_t n)
{
	char value[sizeof("sha256:") + KEYLINE_SHA256_DIGITS] = "sha256:";

	assert(2 * n <= KEYLINE_SHA256_DIGITS);
	hex_encode(value + strlen(value), bytes, n);
	keyline_word(line, key, value);
}

#include "base/keyline.h"

#include "base/str.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:+/@,-";

void keyline_word(struct keyline *line, const char *key, const char *value)
{
	char hex[2 * KEYLINE_VALUE_MAX + 1] = "";
	size_t n = strlen(value);
	bool is_plain = strspn(value, plain) == n;
	int r = -ENAMETOOLONG;

	if (!is_plain && n <= KEYLINE_VALUE_MAX)
		hex_encode(hex, value, n);
	for (char *digit = hex; *digit != '\0'; digit++)
		if (*digit >= 'a')
			*digit = (char)(*digit - 'a' + 'A');
	if (n <= KEYLINE_VALUE_MAX)
		r = str_format(line->text + line->len, sizeof(line->text) - line->len, " %s=%s", key,
			       is_plain ? value : hex);
	line->overflow = line->overflow || r < 0;
	line->len += r < 0 ? 0 : (size_t)r;
}

void keyline_number(struct keyline *line, const char *key, uint64_t value)
{
	char digits[24];

	(void)str_format(digits, sizeof(digits), "%" PRIu64, value);
	keyline_word(line, key, digits);
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

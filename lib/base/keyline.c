#include "base/keyline.h"

#include "base/str.h"

#include <stdarg.h>
#include <string.h>

/* From + to : are + , - . / and the digits. */
static bool is_plain(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '+' && c <= ':') || c == '@' ||
	       c == '_';
}

/* Not by printf: a record is some twenty words, and there are four records to a publish and its end. */
static void put(struct keyline *line, const char *bytes, size_t n)
{
	memcpy(line->text + line->len, bytes, n);
	line->len += n;
}

void keyline_word(struct keyline *line, const char *key, const char *value)
{
	static const char digits[] = "0123456789ABCDEF";
	size_t key_len = strlen(key);
	size_t n = strlen(value);
	size_t n_plain = 0;
	size_t needed;

	while (n_plain < n && is_plain(value[n_plain]))
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
	char text[24] = "";
	char *digit = text + sizeof(text) - 1;

	do {
		*--digit = (char)('0' + value % 10);
		value /= 10;
	} while (value != 0);
	keyline_word(line, key, digit);
}

void keyline_words(struct keyline *line, ...)
{
	const char *key;
	va_list args;

	va_start(args, line);
	while ((key = va_arg(args, const char *)))
		keyline_word(line, key, va_arg(args, const char *));
	va_end(args);
}

void keyline_hex(struct keyline *line, const char *key, const void *bytes, size_t n)
{
	char hex[KEYLINE_VALUE_MAX + 1] = "";

	if (n <= KEYLINE_VALUE_MAX / 2)
		hex_encode(hex, bytes, n);
	else
		line->overflow = true;
	keyline_word(line, key, hex);
}

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Bounded strings in caller-owned arrays. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Copies @src into @dst of @size bytes, always NUL-terminated.
 * Returns 0, or -ENAMETOOLONG and an empty @dst when it does not fit: a cut name would be another name. */
int str_copy(char *dst, size_t size, const char *src);

/** Copies a text for people from anywhere into @dst of @size bytes (at least 1): cut between characters when
 * it does not fit, white space as blanks, "?" for each byte that is not UTF-8, or that belongs to a control
 * character (C0, DEL, C1) or to one that turns lines or the direction of writing: U+061C, U+200E, U+200F,
 * U+2028 to U+202E, U+2066 to U+2069. */
void str_copy_text(char *dst, size_t size, const char *src);

/** Copies a path from anywhere into @dst of @size bytes (at least 6) as an argument of a command that a
 * person may give to a shell: as it is if it has only A-Z a-z 0-9 and / . _ - + : @ % = , else between single
 * quotes, with "?" for each control character. "PATH" if it does not fit, or fills @dst: then it may have
 * been cut. */
void str_copy_argument(char *dst, size_t size, const char *src);

/** Bytes of the character at the start of @s, or 0 for a byte that str_copy_text() replaces. */
size_t str_printable(const char *s);

/** The number of the character at the start of @s, at most U+FFFF, if it is one of those and UTF-8; else 0.
 */
unsigned int str_unprintable(const char *s);

/** Changes @n bytes of output, with a NUL behind them, in place, so that a terminal prints them and does not
 * obey them: "?" as above, but "\n", "\t" and "\r\n" pass, and "\n" takes the place of another "\r", which
 * would let a line be overwritten. Returns how many bytes are done; the next output may complete the rest, at
 * most 3.
 */
size_t str_mask_text(char *text, size_t n);

/** Is @s a text that str_copy_text() would leave as it is, if it fits? */
bool str_is_text(const char *s);

/** printf into @dst of @size bytes. Returns the length, or -ENAMETOOLONG and an empty @dst. */
int str_format(char *dst, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/** Writes @value in decimal into @dst of @size bytes. Returns the length, or -ENAMETOOLONG and an empty @dst.
 */
int str_decimal(char *dst, size_t size, uint64_t value);

/** Whole-value comparison. */
bool str_eq(const char *a, const char *b);

/** Returns the plural ending of a noun after the number @n: "1 node", "2 nodes". */
static inline const char *str_s(unsigned long long n)
{
	return n == 1 ? "" : "s";
}

/** Does @s begin with @prefix? */
bool str_starts_with(const char *s, const char *prefix);

/** FNV-1a over @s, begun from @seed: the same for the same text, spread over 64 bits. Chosen texts can be
 * made to collide. */
uint64_t str_hash(uint64_t seed, const char *s);

/** Changes a text of a less trusted program, in place, so that it is one reason of a message, on one line:
 * the CLI begins a line after "; " and before "Next: ". */
void str_make_one_reason(char *s);

/** Has @s nothing but ASCII letters, digits and characters of @extra? */
bool str_is_made_of(const char *s, const char *extra);

/** Are the @n bytes at @s a NUL-terminated string and zeroes to their end: the one form of its text? */
bool str_is_padded(const char *s, size_t n);

/** Are all @n bytes zero? */
bool bytes_are_zero(const void *bytes, size_t n);

/** Writes @n bytes as 2 @n lower-case hex digits and a NUL; @dst holds at least 2 @n + 1. */
void hex_encode(char *dst, const void *bytes, size_t n);

/** Reads exactly 2 @n hex digits of either case followed by NUL. Returns 0 or -EINVAL; @dst untouched then.
 */
int hex_decode(void *dst, size_t n, const char *hex);

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "model/filter_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum status filter_refuse(const struct filter_parser *p, size_t column, const char *fmt, ...)
{
	char text[ERROR_MSG_MAX];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	return error_set(p->err, STATUS_INVALID_ARGUMENT, 0, "filter: column %zu: %s", column, text);
}

static bool is_word_char(char c)
{
	const char text[] = {c, '\0'};

	return c != '\0' && str_is_made_of(text, "_-./:+");
}

/* Each token takes at most its own length and a NUL, so twice the source's length is enough. */
static void put_text(struct filter_parser *p, const char *bytes, size_t n)
{
	memcpy(p->next_text, bytes, n);
	p->next_text[n] = '\0';
	p->token.text = p->next_text;
	p->next_text += n + 1;
}

static enum status read_quoted(struct filter_parser *p)
{
	char quote = p->source[p->at];
	const char *from = p->source + p->at + 1;
	char *to = p->next_text;

	for (; *from != quote; from++) {
		if (*from == '\\' && quote == '"') {
			from++;
			if (*from != '"' && *from != '\\')
				return filter_refuse(
					p, p->token.column,
					"in quotes a \\ stands before \" or \\ only; write `...` for a "
					"text with others");
		}
		if (*from == '\0')
			return filter_refuse(p, p->token.column,
					     "the text that begins here has no closing %c", quote);
		*to++ = *from;
	}
	*to = '\0';
	p->token.type = TOKEN_QUOTED;
	p->token.text = p->next_text;
	p->next_text = to + 1;
	p->at = (size_t)(from + 1 - p->source);
	return STATUS_OK;
}

static size_t sign_length(const char *s)
{
	if (s[0] != '\0' && strchr("()[]", s[0]))
		return 1;
	return (s[0] == '=' || s[0] == '!') && s[1] == '=' ? 2 : 0;
}

enum status filter_advance(struct filter_parser *p)
{
	const char *s;
	size_t n = 0;

	while (p->source[p->at] != '\0' && strchr(" \t\r\n", p->source[p->at]))
		p->at++;
	s = p->source + p->at;
	p->token = (struct filter_token){.type = TOKEN_END, .text = "", .column = p->at + 1};
	if (*s == '\0')
		return STATUS_OK;
	if (*s == '"' || *s == '`')
		return read_quoted(p);
	n = sign_length(s);
	p->token.type = n > 0 ? TOKEN_SIGN : TOKEN_WORD;
	while (p->token.type == TOKEN_WORD && is_word_char(s[n]))
		n++;
	if (n == 0)
		return filter_refuse(p, p->token.column,
				     "a name, a value, ==, != or a parenthesis should stand "
				     "here; values with other characters go in quotes");
	put_text(p, s, n);
	p->at += n;
	return STATUS_OK;
}

bool filter_is_sign(const struct filter_parser *p, const char *text)
{
	return p->token.type == TOKEN_SIGN && str_eq(p->token.text, text);
}

bool filter_is_word(const struct filter_parser *p, const char *text)
{
	return p->token.type == TOKEN_WORD && str_eq(p->token.text, text);
}

bool filter_is_value(const struct filter_parser *p)
{
	return p->token.type == TOKEN_WORD || p->token.type == TOKEN_QUOTED;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "block_lexer.h"

#include <stdbool.h>
#include <string.h>

static bool is_word_char(char c)
{
	return c > ' ' && c < 127 && !strchr("{}=;#", c);
}

static enum status parse_word(struct block_lexer *lx)
{
	const char *start = lx->p;
	size_t n;

	while (lx->p < lx->end && is_word_char(*lx->p))
		lx->p++;
	n = (size_t)(lx->p - start);
	if (n > BLOCK_WORD_MAX)
		return REFUSE(lx, lx->line, "a word of %zu bytes; at most %d fit", n, BLOCK_WORD_MAX);
	memcpy(lx->word, start, n);
	lx->word[n] = '\0';
	lx->token = TOKEN_WORD;
	return STATUS_OK;
}

static void skip_blanks(struct block_lexer *lx)
{
	while (lx->p < lx->end && (*lx->p == ' ' || *lx->p == '\t'))
		lx->p++;
	if (lx->p < lx->end && *lx->p == '#')
		while (lx->p < lx->end && *lx->p != '\n')
			lx->p++;
}

enum status lexer_next(struct block_lexer *lx)
{
	skip_blanks(lx);
	lx->token_line = lx->line;
	if (lx->p == lx->end) {
		lx->token = TOKEN_EOF;
		return STATUS_OK;
	}
	if (is_word_char(*lx->p))
		return parse_word(lx);
	switch (*lx->p) {
	case '\n':
		lx->line++;
		lx->token = TOKEN_END;
		break;
	case ';':
		lx->token = TOKEN_END;
		break;
	case '{':
		lx->token = TOKEN_OPEN;
		break;
	case '}':
		lx->token = TOKEN_CLOSE;
		break;
	default: /* '=': lexer_check_alphabet() let nothing else through */
		lx->token = TOKEN_EQUALS;
		break;
	}
	lx->p++;
	return STATUS_OK;
}

enum status lexer_next_statement(struct block_lexer *lx)
{
	enum status status;

	do {
		status = lexer_next(lx);
	} while (status == STATUS_OK && lx->token == TOKEN_END);
	return status;
}

enum status lexer_expect(struct block_lexer *lx, enum token_kind kind, const char *what)
{
	TRY(lexer_next(lx));
	return lx->token == kind ? STATUS_OK : REFUSE(lx, lx->token_line, "expected %s", what);
}

enum status lexer_check_alphabet(struct block_lexer *lx)
{
	unsigned int line = 1;

	for (const char *c = lx->p; c < lx->end; c++) {
		if (*c == '\n')
			line++;
		else if (*c != '\t' && (*c < ' ' || *c > '~'))
			return REFUSE(lx, line,
				      "byte 0x%02x; only printable ASCII, tabs and new lines are allowed",
				      (unsigned int)(unsigned char)*c);
	}
	return STATUS_OK;
}

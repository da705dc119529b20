/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Tokens of a text of nested blocks, with their line numbers: names, `=`, `{`, `}`; a new line or a
 * semicolon ends a statement, `#` begins a comment. Only printable ASCII. Nothing is allocated. */

#include "base/error.h"

enum { BLOCK_WORD_MAX = 255 };

enum token_kind {
	TOKEN_EOF,
	TOKEN_END, /* of a statement: a new line or a semicolon */
	TOKEN_OPEN,
	TOKEN_CLOSE,
	TOKEN_EQUALS,
	TOKEN_WORD,
};

struct block_lexer {
	const char *file; /* for messages */
	const char *p;
	const char *end;
	unsigned int line;     /* of p */
	enum token_kind token; /* the one just taken */
	unsigned int token_line;
	unsigned int error_line; /* of the last refusal */
	char word[BLOCK_WORD_MAX + 1];
	struct error *err;
};

/* Refuses the text at a line of it. */
#define REFUSE(lexer, at_line, fmt, ...)                                                                     \
	((lexer)->error_line = (at_line), error_set((lexer)->err, STATUS_INVALID_ARGUMENT, 0, "%s:%u: " fmt, \
						    (lexer)->file, (lexer)->error_line, ##__VA_ARGS__))

/** Is all of the text printable ASCII, tabs and new lines? */
enum status lexer_check_alphabet(struct block_lexer *lexer);

/** Takes the next token. */
enum status lexer_next(struct block_lexer *lexer);

/** Takes the next token that is not the end of an empty statement. */
enum status lexer_next_statement(struct block_lexer *lexer);

/** Takes the next token, which must be of @kind; @what names it in the error. */
enum status lexer_expect(struct block_lexer *lexer, enum token_kind kind, const char *what);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Text of the HCL subset to tokens. */

#include "base/error.h"

struct hcl_lexer {
	const char *file; /* for messages; borrowed */
	const char *at;	  /* UTF-8; borrowed */
	unsigned int line;
};

enum hcl_type {
	HCL_END,
	HCL_NEWLINE,
	HCL_IDENT,
	HCL_STRING, /* quoted, or a heredoc */
	HCL_NUMBER, /* as written, not checked */
	HCL_ASSIGN, /* = or : */
	HCL_COMMA,
	HCL_OPEN_BRACE,
	HCL_CLOSE_BRACE,
	HCL_OPEN_BRACKET,
	HCL_CLOSE_BRACKET,
};

struct hcl_token {
	enum hcl_type type;
	unsigned int line; /* where it begins */
	char *text;	   /* owned; set for names, strings and numbers */
};

void hcl_token_release(struct hcl_token *token);

/** Read the next token over @token, which is released first. Blanks and comments are passed over. */
enum status hcl_lex(struct hcl_lexer *lexer, struct hcl_token *token, struct error *err);

/** The token for messages: "'name'", "a string", "the end of the file"; @buffer is used when needed. */
enum { HCL_SHOW_SIZE = 64 };
const char *hcl_show(const struct hcl_token *token, char buffer[static HCL_SHOW_SIZE]);

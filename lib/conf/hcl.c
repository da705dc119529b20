/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/hcl_lex.h"

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "conf/lines.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_ident_start(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_ident(char c)
{
	return is_ident_start(c) || is_digit(c) || c == '-' || c == '.';
}

void hcl_token_release(struct hcl_token *token)
{
	free(token->text);
	token->text = NULL;
}

const char *hcl_show(const struct hcl_token *token, char buffer[static HCL_SHOW_SIZE])
{
	static const char *const names[] = {
		[HCL_END] = "the end of the file",
		[HCL_NEWLINE] = "the end of the line",
		[HCL_STRING] = "a string",
		[HCL_ASSIGN] = "'='",
		[HCL_COMMA] = "','",
		[HCL_OPEN_BRACE] = "'{'",
		[HCL_CLOSE_BRACE] = "'}'",
		[HCL_OPEN_BRACKET] = "'['",
		[HCL_CLOSE_BRACKET] = "']'",
		[HCL_IDENT] = NULL,
		[HCL_NUMBER] = NULL,
	};

	if (names[token->type])
		return names[token->type];
	(void)snprintf(buffer, HCL_SHOW_SIZE, "'%.48s'", token->text);
	return buffer;
}

static enum status no_memory(const struct hcl_lexer *lexer, struct error *err)
{
	return line_no_memory(lexer->file, err);
}

/* The text of @buffer becomes that of @token. */
static enum status finish(const struct hcl_lexer *lexer, struct strbuf *buffer, struct hcl_token *token,
			  struct error *err)
{
	token->text = strbuf_take(buffer);
	return token->text ? STATUS_OK : no_memory(lexer, err);
}

/* Pass over blanks and comments; a line end is a token and stays. */
static enum status skip(struct hcl_lexer *lexer, struct error *err)
{
	for (;;) {
		lexer->at += strspn(lexer->at, " \t\r");
		if (lexer->at[0] == '#' || (lexer->at[0] == '/' && lexer->at[1] == '/')) {
			lexer->at += strcspn(lexer->at, "\n");
		} else if (lexer->at[0] == '/' && lexer->at[1] == '*') {
			const char *end = strstr(lexer->at + 2, "*/");

			if (!end)
				return line_error(lexer->file, lexer->line, err, "the comment has no end");
			for (; lexer->at < end + 2; lexer->at++)
				lexer->line += lexer->at[0] == '\n';
		} else {
			return STATUS_OK;
		}
	}
}

/* "${" and "%{" begin an expression in HCL; doubled they are text. Moves *@at past what stands for text.
 * Returns false for an expression. */
static bool take_template(const char **at, struct strbuf *text)
{
	const char *p = *at;

	if ((p[0] == '$' || p[0] == '%') && p[1] == p[0] && p[2] == '{') {
		strbuf_put(text, p + 1, 2);
		*at = p + 3;
		return true;
	}
	if ((p[0] == '$' || p[0] == '%') && p[1] == '{')
		return false;
	strbuf_put(text, p, 1);
	*at = p + 1;
	return true;
}

static enum status is_template(const struct hcl_lexer *lexer, unsigned int line, struct error *err)
{
	return line_error(
		lexer->file, line, err,
		"expressions are not supported, write $${ for the characters ${ (and %%%%{ for %%{)");
}

/* Four hex digits to UTF-8. Returns false for no digits, NUL and surrogates. */
static bool put_unicode(const char *digits, struct strbuf *text)
{
	uint32_t code = 0;
	char out[3];

	for (int i = 0; i < 4; i++) {
		char c = digits[i];

		if (is_digit(c))
			code = code << 4 | (uint32_t)(c - '0');
		else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'))
			code = code << 4 | ((uint32_t)(c | 0x20) - 'a' + 10);
		else
			return false;
	}
	if (code == 0 || (code >= 0xd800 && code <= 0xdfff))
		return false;
	if (code < 0x80) {
		out[0] = (char)code;
		strbuf_put(text, out, 1);
		return true;
	}
	out[0] = (char)(0xe0 | code >> 12);
	out[1] = (char)((code < 0x800 ? 0xc0 : 0x80) | (code >> 6 & 0x3f));
	out[2] = (char)(0x80 | (code & 0x3f));
	strbuf_put(text, code < 0x800 ? out + 1 : out, code < 0x800 ? 2 : 3);
	return true;
}

/* Move *@at past an escape sequence and write what it stands for. */
static bool take_escape(const char **at, struct strbuf *text)
{
	static const char letters[] = "ntr\"\\";
	static const char values[] = "\n\t\r\"\\";
	const char *p = *at + 1;
	const char *known = *p ? strchr(letters, *p) : NULL;

	if (known) {
		strbuf_put(text, &values[known - letters], 1);
		*at = p + 1;
		return true;
	}
	if (*p != 'u' || !put_unicode(p + 1, text))
		return false;
	*at = p + 5;
	return true;
}

static enum status lex_string(struct hcl_lexer *lexer, struct hcl_token *token, struct error *err)
{
	cleanup_strbuf struct strbuf text = STRBUF_INIT(SIZE_MAX / 4);
	const char *p = lexer->at + 1;

	while (*p != '"') {
		if (*p == '\0' || *p == '\n')
			return line_error(lexer->file, lexer->line, err, "the string has no end");
		if ((unsigned char)*p < 0x20 && *p != '\t')
			return line_error(lexer->file, lexer->line, err,
					  "the string holds the control character 0x%02x", (unsigned int)*p);
		if (*p == '\\') {
			if (!take_escape(&p, &text))
				return line_error(lexer->file, lexer->line, err,
						  "unknown escape in a string, there are \\n \\t \\r \\\" "
						  "\\\\ and \\uXXXX");
		} else if (!take_template(&p, &text)) {
			return is_template(lexer, lexer->line, err);
		}
	}
	lexer->at = p + 1;
	token->type = HCL_STRING;
	return finish(lexer, &text, token, err);
}

struct heredoc {
	const char *tag;
	size_t tag_length;
	const char *body; /* first line */
	const char *last; /* line with the closing tag */
	size_t indent;	  /* columns that all lines share; 0 unless they are to be stripped */
};

static bool is_closing(const struct heredoc *doc, const char *line)
{
	const char *word = line + strspn(line, " \t");

	if (strncmp(word, doc->tag, doc->tag_length) != 0)
		return false;
	word += doc->tag_length;
	return strchr("\r\n", *word) != NULL; /* the NUL at the end counts as well */
}

/* Find the closing tag and the common indentation. */
static bool measure_heredoc(struct heredoc *doc, bool strip)
{
	size_t indent = SIZE_MAX;

	for (const char *line = doc->body; *line;) {
		size_t blanks = strspn(line, " \t");
		const char *end = strchr(line, '\n');

		if (is_closing(doc, line)) {
			doc->last = line;
			doc->indent = strip && indent != SIZE_MAX ? indent : 0;
			return true;
		}
		if (!end)
			return false;
		if (line[blanks] != '\n' && line[blanks] != '\r' && blanks < indent)
			indent = blanks;
		line = end + 1;
	}
	return false;
}

static enum status lex_heredoc(struct hcl_lexer *lexer, struct hcl_token *token, struct error *err)
{
	cleanup_strbuf struct strbuf text = STRBUF_INIT(SIZE_MAX / 4);
	bool strip = lexer->at[2] == '-';
	struct heredoc doc = {.tag = lexer->at + (strip ? 3 : 2)};
	const char *rest;

	while (is_ident(doc.tag[doc.tag_length]))
		doc.tag_length++;
	rest = doc.tag + doc.tag_length;
	rest += strspn(rest, " \t\r");
	if (doc.tag_length == 0 || *rest != '\n')
		return line_error(lexer->file, lexer->line, err,
				  "a heredoc begins with <<WORD (or <<-WORD) at the end of a line");
	doc.body = rest + 1;
	if (!measure_heredoc(&doc, strip))
		return line_error(lexer->file, lexer->line, err, "the heredoc has no closing %.*s",
				  (int)(doc.tag_length < 64 ? doc.tag_length : 64), doc.tag);
	lexer->line++;
	for (const char *p = doc.body; p < doc.last;) {
		size_t blanks = strspn(p, " \t");

		p += blanks < doc.indent ? blanks : doc.indent;
		while (*p != '\n')
			if (*p == '\r' && p[1] == '\n')
				p++;
			else if (!take_template(&p, &text))
				return is_template(lexer, lexer->line, err);
		strbuf_puts(&text, "\n");
		p++;
		lexer->line++;
	}
	lexer->at = doc.last + strspn(doc.last, " \t") + doc.tag_length;
	token->type = HCL_STRING;
	return finish(lexer, &text, token, err);
}

/* A name, a number, or what was meant to be one. */
static enum status lex_word(struct hcl_lexer *lexer, enum hcl_type type, struct hcl_token *token,
			    struct error *err)
{
	cleanup_strbuf struct strbuf text = STRBUF_INIT(SIZE_MAX / 4);
	size_t n = 1;

	while (is_ident(lexer->at[n]) || (type == HCL_NUMBER && lexer->at[n] == '+'))
		n++;
	strbuf_put(&text, lexer->at, n);
	lexer->at += n;
	token->type = type;
	return finish(lexer, &text, token, err);
}

static enum status lex_sign(struct hcl_lexer *lexer, struct hcl_token *token, struct error *err)
{
	static const char signs[] = "=:,{}[]";
	static const enum hcl_type types[] = {
		HCL_ASSIGN,	 HCL_ASSIGN,	   HCL_COMMA,	      HCL_OPEN_BRACE,
		HCL_CLOSE_BRACE, HCL_OPEN_BRACKET, HCL_CLOSE_BRACKET,
	};
	const char *sign = strchr(signs, lexer->at[0]);

	if (!sign)
		return line_error(lexer->file, lexer->line, err,
				  lexer->at[0] > ' ' && lexer->at[0] < 0x7f ? "unexpected character '%c'"
									    : "unexpected byte 0x%02x",
				  (unsigned char)lexer->at[0]);
	token->type = types[sign - signs];
	lexer->at++;
	return STATUS_OK;
}

enum status hcl_lex(struct hcl_lexer *lexer, struct hcl_token *token, struct error *err)
{
	enum status status = skip(lexer, err);
	char c = lexer->at[0];

	hcl_token_release(token);
	if (status != STATUS_OK)
		return status;
	token->line = lexer->line;
	if (c == '\0') {
		token->type = HCL_END;
		return STATUS_OK;
	}
	if (c == '\n') {
		token->type = HCL_NEWLINE;
		lexer->at++;
		lexer->line++;
		return STATUS_OK;
	}
	if (c == '"')
		return lex_string(lexer, token, err);
	if (c == '<' && lexer->at[1] == '<')
		return lex_heredoc(lexer, token, err);
	if (is_ident_start(c))
		return lex_word(lexer, HCL_IDENT, token, err);
	if (is_digit(c) || c == '-')
		return lex_word(lexer, HCL_NUMBER, token, err);
	return lex_sign(lexer, token, err);
}

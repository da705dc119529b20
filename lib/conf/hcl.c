/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/hcl.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "conf/lines.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct hcl_lexer {
	const char *file; /* for messages; borrowed */
	const char *at;	  /* UTF-8; borrowed */
	unsigned int line;
	enum conf_templates templates;
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
	HCL_OTHER, /* no token of the subset; a mistake, or part of an expression */
};

struct hcl_token {
	enum hcl_type type;
	unsigned int line; /* where it begins */
	const char *start; /* the same in the text; borrowed */
	char *text;	   /* owned; set for names, strings and numbers */
};

enum { HCL_SHOW_SIZE = 64 };

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

static void hcl_token_release(struct hcl_token *token)
{
	free(token->text);
	token->text = NULL;
}

/* The token for messages: "'name'", "a string", "the end of the file"; @buffer is used when needed. */
static const char *hcl_show(const struct hcl_token *token, char buffer[static HCL_SHOW_SIZE])
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
		[HCL_OTHER] = "an expression",
		[HCL_IDENT] = NULL,
		[HCL_NUMBER] = NULL,
	};

	if (names[token->type])
		return names[token->type];
	(void)snprintf(buffer, HCL_SHOW_SIZE, "'%.48s'", token->text);
	return buffer;
}

static enum status lexer_no_memory(const struct hcl_lexer *lexer, struct error *err)
{
	return line_no_memory(lexer->file, err);
}

/* The text of @buffer becomes that of @token. */
static enum status hcl_token_finish(const struct hcl_lexer *lexer, struct strbuf *buffer,
				    struct hcl_token *token, struct error *err)
{
	token->text = strbuf_take(buffer);
	return token->text ? STATUS_OK : lexer_no_memory(lexer, err);
}

/* Passes over blanks and comments; a line end is a token and stays. */
static enum status skip(struct hcl_lexer *lexer, struct error *err)
{
	for (;;) {
		lexer->at += strspn(lexer->at, " \t\r");
		if (lexer->at[0] == '#' || (lexer->at[0] == '/' && lexer->at[1] == '/')) {
			lexer->at += strcspn(lexer->at, "\n");
		} else if (lexer->at[0] == '/' && lexer->at[1] == '*') {
			const char *end = strstr(lexer->at + 2, "*/");

			if (!end) {
				lexer->at += strlen(lexer->at);
				return line_error(lexer->file, lexer->line, err, "the comment has no end");
			}
			for (; lexer->at < end + 2; lexer->at++)
				lexer->line += lexer->at[0] == '\n';
		} else {
			return STATUS_OK;
		}
	}
}

/* The end of the expression in braces that begins at @p with "${" or "%{"; NULL: its line has no end of it.
 */
static const char *expression_end(const char *p)
{
	bool is_text = false;
	size_t depth = 0;

	for (p++; *p != '\0' && *p != '\n'; p++) {
		if (*p == '"')
			is_text = !is_text;
		else if (is_text && p[0] == '\\' && p[1] != '\0' && p[1] != '\n')
			p++;
		else if (!is_text && *p == '{')
			depth++;
		else if (!is_text && *p == '}' && --depth == 0)
			return p + 1;
	}
	return NULL;
}

/* Is the text from @p to @end "${NAME}", with a name of letters, digits and . _ -? */
static bool is_reference(const char *p, const char *end)
{
	if (*p++ != '$')
		return false;
	for (p++; p < end - 1; p++)
		if (!is_ident(*p))
			return false;
	return true;
}

/* "${" and "%{" begin an expression in HCL; doubled they are text. Moves *@at past text. Returns false for an
 * expression that @templates does not keep. */
static bool parse_template(const char **at, enum conf_templates templates, struct strbuf *text)
{
	const char *p = *at, *end;

	if ((p[0] == '$' || p[0] == '%') && p[1] == p[0] && p[2] == '{') {
		strbuf_put(text, templates == CONF_NO_TEMPLATES ? p + 1 : p,
			   templates == CONF_NO_TEMPLATES ? 2 : 3);
		*at = p + 3;
		return true;
	}
	if ((p[0] == '$' || p[0] == '%') && p[1] == '{') {
		end = templates == CONF_NO_TEMPLATES ? NULL : expression_end(p);
		if (!end || (templates == CONF_REFERENCES && !is_reference(p, end)))
			return false;
		strbuf_put(text, p, (size_t)(end - p));
		*at = end;
		return true;
	}
	strbuf_put(text, p, 1);
	*at = p + 1;
	return true;
}

static enum status is_template(const struct hcl_lexer *lexer, unsigned int line, struct error *err)
{
	if (lexer->templates == CONF_EXPRESSIONS)
		return line_error(lexer->file, line, err, "the expression has no end in its line");
	if (lexer->templates == CONF_REFERENCES)
		return line_error(
			lexer->file, line, err,
			"only references are replaced, as in ${node.unique.name}; write the value of "
			"another expression, and $${ for the characters ${");
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

/* Moves *@at past an escape sequence and writes its character. */
static bool parse_escape(const char **at, struct strbuf *text)
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
			if (!parse_escape(&p, &text))
				return line_error(lexer->file, lexer->line, err,
						  "unknown escape in a string, there are \\n \\t \\r \\\" "
						  "\\\\ and \\uXXXX");
		} else if (!parse_template(&p, lexer->templates, &text)) {
			return is_template(lexer, lexer->line, err);
		}
	}
	lexer->at = p + 1;
	token->type = HCL_STRING;
	return hcl_token_finish(lexer, &text, token, err);
}

struct heredoc {
	const char *tag;
	size_t tag_length;
	const char *body; /* first line */
	const char *last; /* line with the closing tag */
	size_t indent;	  /* columns that all lines share; 0 unless stripped */
};

static bool is_closing(const struct heredoc *doc, const char *line)
{
	const char *word = line + strspn(line, " \t");

	if (strncmp(word, doc->tag, doc->tag_length) != 0)
		return false;
	word += doc->tag_length;
	return strchr("\r\n", *word) != NULL; /* the NUL at the end counts as well */
}

/* Finds the closing tag and the common indentation. */
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

/* An expression at @at in a heredoc whose last line begins at @last. */
static enum status heredoc_template(struct hcl_lexer *lexer, const char *at, const char *last,
				    struct error *err)
{
	unsigned int line = lexer->line;

	for (; at < last; at++)
		lexer->line += *at == '\n';
	return is_template(lexer, line, err);
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
	if (doc.tag_length == 0 || *rest != '\n') {
		lexer->at += strlen(lexer->at);
		return line_error(lexer->file, lexer->line, err,
				  "a heredoc begins with <<WORD (or <<-WORD) at the end of a line");
	}
	doc.body = rest + 1;
	if (!measure_heredoc(&doc, strip)) {
		lexer->at += strlen(lexer->at);
		return line_error(lexer->file, lexer->line, err, "the heredoc has no closing %.*s",
				  (int)(doc.tag_length < 64 ? doc.tag_length : 64), doc.tag);
	}
	lexer->at = doc.last + strspn(doc.last, " \t") + doc.tag_length;
	lexer->line++;
	for (const char *p = doc.body; p < doc.last;) {
		size_t blanks = strspn(p, " \t");

		p += blanks < doc.indent ? blanks : doc.indent;
		while (*p != '\n')
			if (*p == '\r' && p[1] == '\n')
				p++;
			else if (!parse_template(&p, lexer->templates, &text))
				return heredoc_template(lexer, p, doc.last, err);
		strbuf_puts(&text, "\n");
		p++;
		lexer->line++;
	}
	token->type = HCL_STRING;
	return hcl_token_finish(lexer, &text, token, err);
}

/* Reads a name, a number, or a malformed one. */
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
	return hcl_token_finish(lexer, &text, token, err);
}

static enum status lex_sign(struct hcl_lexer *lexer, struct hcl_token *token, struct error *err)
{
	static const char signs[] = "=:,{}[]";
	static const enum hcl_type types[] = {
		HCL_ASSIGN,	 HCL_ASSIGN,	   HCL_COMMA,	      HCL_OPEN_BRACE,
		HCL_CLOSE_BRACE, HCL_OPEN_BRACKET, HCL_CLOSE_BRACKET,
	};
	const char *sign = strchr(signs, lexer->at[0]);

	if (!sign && lexer->templates == CONF_EXPRESSIONS && lexer->at[0] > ' ' && lexer->at[0] < 0x7f) {
		token->type = HCL_OTHER;
		lexer->at++;
		return STATUS_OK;
	}
	if (!sign) {
		char c = *lexer->at++;

		return line_error(lexer->file, lexer->line, err,
				  c > ' ' && c < 0x7f ? "unexpected character '%c'"
						      : "unexpected byte 0x%02x",
				  (unsigned char)c);
	}
	token->type = types[sign - signs];
	lexer->at++;
	return STATUS_OK;
}

/* Reads the next token over @token, which is released first. Blanks and comments are passed over, and so is a
 * mistake: a character, the rest of the line of a text, or the rest of the file if the end of something is
 * missing. */
static enum status hcl_lex(struct hcl_lexer *lexer, struct hcl_token *token, struct error *err)
{
	enum status status = skip(lexer, err);
	char c = lexer->at[0];

	hcl_token_release(token);
	if (status != STATUS_OK)
		return status;
	token->line = lexer->line;
	token->start = lexer->at;
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
	if (c == '"') {
		status = lex_string(lexer, token, err);
		if (status != STATUS_OK)
			lexer->at += strcspn(lexer->at, "\n");
		return status;
	}
	if (c == '<' && lexer->at[1] == '<')
		return lex_heredoc(lexer, token, err);
	if (is_ident_start(c))
		return lex_word(lexer, HCL_IDENT, token, err);
	if (is_digit(c) || c == '-')
		return lex_word(lexer, HCL_NUMBER, token, err);
	return lex_sign(lexer, token, err);
}

#define cleanup_json cleanup(json_decrefp)

struct parser {
	struct hcl_lexer lexer;
	struct hcl_token token; /* the next one */
	struct lines *lines;
	unsigned int depth;
	bool hides; /* texts without quotes, which may be secrets */
	struct error *err;
	struct error mistakes; /* those that were passed over, all of them */
	enum status status;    /* STATUS_OK: no mistake */
};

/* A key with its place, taken from the text. */
struct key {
	char *text; /* owned */
	unsigned int line;
};

static void key_release(struct key *key)
{
	free(key->text);
}

#define cleanup_key cleanup(key_release)

static enum status parse_value(struct parser *p, json_t **ret);
static enum status parse_body(struct parser *p, enum hcl_type closing, unsigned int line, json_t **ret);

static enum status advance(struct parser *p)
{
	enum status status = hcl_lex(&p->lexer, &p->token, p->err);

	if (status == STATUS_INVALID_ARGUMENT) /* the lexer has passed over it */
		p->token.type = HCL_OTHER;
	return status;
}

static enum status no_memory(const struct parser *p)
{
	return line_no_memory(p->lexer.file, p->err);
}

/* Returns the token's text for a message. */
static const char *shown(const struct parser *p)
{
	return p->hides ? "[redacted]" : p->token.text;
}

/* "<wanted> is missing before <found>" */
static enum status unexpected(const struct parser *p, const char *wanted)
{
	bool is_word = p->token.type == HCL_IDENT || p->token.type == HCL_NUMBER;
	char buffer[HCL_SHOW_SIZE];

	return line_error(p->lexer.file, p->token.line, p->err, "%s expected, found %s", wanted,
			  is_word && p->hides ? "text without quotes" : hcl_show(&p->token, buffer));
}

/* Is the value of @key, or the block, of secrets? */
static bool is_secret(const char *key)
{
	return str_eq(key, "secrets") || str_eq(key, "mount_flags");
}

static enum status note(struct parser *p, const json_t *object, const char *key, unsigned int line,
			enum line_kind kind)
{
	struct line place = {.file = p->lexer.file, .number = line, .kind = kind};

	return lines_set(p->lines, object, key, &place) < 0 ? no_memory(p) : STATUS_OK;
}

/* Puts @value, which is taken over in any case, into @object. */
static enum status put(struct parser *p, json_t *object, const struct key *key, json_t *value,
		       enum line_kind kind)
{
	if (json_object_set_new_nocheck(object, key->text, value) < 0)
		return no_memory(p);
	return note(p, object, key->text, key->line, kind);
}

static enum status enter(struct parser *p)
{
	if (p->depth == CONF_DEPTH_MAX)
		return line_error(p->lexer.file, p->token.line, p->err, "nested deeper than %d levels",
				  CONF_DEPTH_MAX);
	p->depth++;
	return advance(p);
}

static enum status skip_newlines(struct parser *p)
{
	while (p->token.type == HCL_NEWLINE)
		TRY(advance(p));
	return STATUS_OK;
}

static enum status parse_list(struct parser *p, json_t **ret)
{
	cleanup_json json_t *list = json_array();
	unsigned int line = p->token.line;
	enum status status = list ? enter(p) : no_memory(p);

	while (status == STATUS_OK) {
		json_t *element = NULL;

		status = skip_newlines(p);
		if (status != STATUS_OK || p->token.type == HCL_CLOSE_BRACKET)
			break;
		if (p->token.type == HCL_END)
			return line_error(p->lexer.file, line, p->err, "the list has no closing ']'");
		status = parse_value(p, &element);
		if (status != STATUS_OK)
			break;
		if (json_array_append_new(list, element) < 0)
			return no_memory(p);
		status = skip_newlines(p);
		if (status != STATUS_OK || p->token.type == HCL_CLOSE_BRACKET)
			break;
		if (p->token.type == HCL_END)
			return line_error(p->lexer.file, line, p->err, "the list has no closing ']'");
		status = p->token.type == HCL_COMMA ? advance(p) : unexpected(p, "',' or ']'");
	}
	if (status != STATUS_OK)
		return status;
	p->depth--;
	*ret = TAKE_PTR(list);
	return advance(p);
}

static enum status parse_object(struct parser *p, json_t **ret)
{
	unsigned int line = p->token.line;

	TRY(enter(p));
	enum status status = parse_body(p, HCL_CLOSE_BRACE, line, ret);
	p->depth--;
	return status;
}

/* JSON's grammar of numbers, and its ranges. */
static enum status parse_number(struct parser *p, json_t **ret)
{
	json_t *number = json_loads(p->token.text, JSON_DECODE_ANY, NULL);

	if (!json_is_number(number)) {
		json_decref(number);
		return line_error(p->lexer.file, p->token.line, p->err,
				  "'%.48s' is not a number, quote values with a unit", shown(p));
	}
	*ret = number;
	return advance(p);
}

static enum status parse_word(struct parser *p, json_t **ret)
{
	if (str_eq(p->token.text, "true"))
		*ret = json_true();
	else if (str_eq(p->token.text, "false"))
		*ret = json_false();
	else if (str_eq(p->token.text, "null"))
		*ret = json_null();
	else if (strchr(p->token.text, '.') || p->lexer.at[0] == '(')
		return line_error(
			p->lexer.file, p->token.line, p->err,
			"'%.48s' is part of an expression, and they are not evaluated: write the value",
			shown(p));
	else
		return line_error(p->lexer.file, p->token.line, p->err,
				  "'%.48s' must be quoted, only true, false and null are not", shown(p));
	return advance(p);
}

static enum status parse_string(struct parser *p, json_t **ret)
{
	*ret = json_string_nocheck(p->token.text);
	return *ret ? advance(p) : no_memory(p);
}

/* On failure *@ret may be filled: it is the caller's to free in any case. */
static enum status parse_any(struct parser *p, json_t **ret)
{
	switch (p->token.type) {
	case HCL_STRING:
		return parse_string(p, ret);
	case HCL_NUMBER:
		return parse_number(p, ret);
	case HCL_IDENT:
		return parse_word(p, ret);
	case HCL_OPEN_BRACKET:
		return parse_list(p, ret);
	case HCL_OPEN_BRACE:
		return parse_object(p, ret);
	case HCL_END:
	case HCL_NEWLINE:
	case HCL_ASSIGN:
	case HCL_COMMA:
	case HCL_CLOSE_BRACE:
	case HCL_CLOSE_BRACKET:
	case HCL_OTHER:
		break;
	}
	return unexpected(p, "a value");
}

static bool is_constant(const char *word)
{
	return str_eq(word, "true") || str_eq(word, "false") || str_eq(word, "null");
}

/* Does an expression begin with the token that comes next? */
static bool is_expression(const struct parser *p)
{
	const char *behind = p->lexer.at + strspn(p->lexer.at, " \t");
	bool is_comment = behind[0] == '/' && (behind[1] == '/' || behind[1] == '*');

	if (p->token.type == HCL_OTHER || (p->token.type == HCL_IDENT && !is_constant(p->token.text)))
		return true;
	if (p->token.type == HCL_OPEN_BRACKET || p->token.type == HCL_OPEN_BRACE)
		return str_starts_with(behind, "for ");
	if (p->token.type != HCL_IDENT && p->token.type != HCL_STRING && p->token.type != HCL_NUMBER)
		return false;
	return !is_comment && *behind != '\0' &&
	       (strchr("+-*/%?<>&|!", *behind) || str_starts_with(behind, "=="));
}

/* Passes over one character, or over a text in quotes. */
static const char *skip_part(const char *at)
{
	if (*at++ != '"')
		return at;
	while (*at != '\0' && *at != '\n' && *at != '"')
		at += at[0] == '\\' && at[1] != '\0' && at[1] != '\n' ? 2 : 1;
	return at + (*at == '"');
}

/* An expression as it is written, up to the end of the line, of the list or of the block that it is in. */
static enum status parse_expression(struct parser *p, json_t **ret)
{
	const char *start = p->token.start, *end = start;
	size_t depth = 0;

	while (*end != '\0' && !(depth == 0 && strchr("\n,]}#", *end)) &&
	       !(depth == 0 && end[0] == '/' && (end[1] == '/' || end[1] == '*'))) {
		if (strchr("([{", *end))
			depth++;
		else if (strchr(")]}", *end) && depth > 0)
			depth--;
		p->lexer.line += *end == '\n';
		end = skip_part(end);
	}
	p->lexer.at = end;
	while (end > start && strchr(" \t\r", end[-1]))
		end--;
	*ret = json_sprintf("${%.*s}", (int)(end - start), start);
	return *ret ? advance(p) : no_memory(p);
}

static enum status parse_value(struct parser *p, json_t **ret)
{
	cleanup_json json_t *value = NULL;
	bool is_kept = p->lexer.templates == CONF_EXPRESSIONS && is_expression(p);
	enum status status = is_kept ? parse_expression(p, &value) : parse_any(p, &value);

	if (status == STATUS_OK)
		*ret = TAKE_PTR(value);
	return status;
}

static enum status twice(const struct parser *p, const json_t *object, const struct key *key,
			 const char *what)
{
	const struct line *first = lines_find(p->lines, object, key->text);

	return line_error(p->lexer.file, key->line, p->err, "'%.64s' is %s, first in line %u", key->text,
			  what, first ? first->number : 0);
}

static enum status parse_attribute(struct parser *p, json_t *object, const struct key *key)
{
	json_t *value = NULL;

	if (json_object_get(object, key->text))
		return twice(p, object, key, "given twice");
	TRY(advance(p));
	TRY(parse_value(p, &value));
	return put(p, object, key, value, LINE_VALUE);
}

/* One block without label is an object, more of the same name are a list. Takes @body over. */
static enum status add_block(struct parser *p, json_t *object, const struct key *key, json_t *body)
{
	cleanup_json json_t *mine = body;
	cleanup_json json_t *list = NULL;
	json_t *there = json_object_get(object, key->text);

	if (!there)
		return put(p, object, key, TAKE_PTR(mine), LINE_BLOCK);
	if (json_is_array(there))
		return json_array_append_new(there, TAKE_PTR(mine)) < 0 ? no_memory(p) : STATUS_OK;
	list = json_array();
	if (!list || json_array_append(list, there) < 0 || json_array_append_new(list, TAKE_PTR(mine)) < 0 ||
	    json_object_set_new_nocheck(object, key->text, TAKE_PTR(list)) < 0)
		return no_memory(p);
	return STATUS_OK;
}

/* Blocks with labels are members of one object, named by their labels. Takes @body over. */
static enum status add_labelled(struct parser *p, json_t *object, const struct key *key,
				const struct key *label, json_t *body)
{
	cleanup_json json_t *mine = body;
	json_t *there = json_object_get(object, key->text);
	enum status status = STATUS_OK;

	if (!there) {
		there = json_object();
		if (!there)
			return no_memory(p);
		status = put(p, object, key, there, LINE_LABELLED);
	}
	if (status == STATUS_OK && json_object_get(there, label->text))
		status = twice(p, there, label, "the label of two blocks");
	if (status == STATUS_OK)
		status = put(p, there, label, TAKE_PTR(mine), LINE_BLOCK);
	return status;
}

static enum status parse_block(struct parser *p, json_t *object, const struct key *key)
{
	cleanup_key struct key label = {.text = NULL};
	const struct line *first = lines_find(p->lines, object, key->text);
	enum line_kind kind = LINE_BLOCK;
	enum status status = STATUS_OK;
	json_t *body = NULL;

	if (p->token.type == HCL_STRING || p->token.type == HCL_IDENT) {
		label = (struct key){.text = TAKE_PTR(p->token.text), .line = p->token.line};
		kind = LINE_LABELLED;
		status = advance(p);
	}
	if (status != STATUS_OK)
		return status;
	if (p->token.type != HCL_OPEN_BRACE)
		return unexpected(p, kind == LINE_BLOCK ? "'=' or '{'" : "'{'");
	if (first && first->kind != kind)
		return twice(p, object, key, "given twice in different forms");
	TRY(parse_object(p, &body));
	return kind == LINE_BLOCK ? add_block(p, object, key, body)
				  : add_labelled(p, object, key, &label, body);
}

static enum status parse_item(struct parser *p, json_t *object)
{
	cleanup_key struct key key = {.text = NULL, .line = p->token.line};
	bool hid = p->hides;

	if (p->token.type != HCL_IDENT && p->token.type != HCL_STRING)
		return unexpected(p, "a name");
	key.text = TAKE_PTR(p->token.text);
	TRY(advance(p));
	p->hides = hid || is_secret(key.text);
	enum status status =
		p->token.type == HCL_ASSIGN ? parse_attribute(p, object, &key) : parse_block(p, object, &key);
	p->hides = hid;
	return status;
}

/* Items end with their line; between braces a comma does as well. */
static enum status end_item(struct parser *p, enum hcl_type closing)
{
	if (p->token.type == closing || p->token.type == HCL_END)
		return STATUS_OK;
	if (p->token.type == HCL_NEWLINE || (p->token.type == HCL_COMMA && closing == HCL_CLOSE_BRACE))
		return advance(p);
	return unexpected(p, "the end of the line");
}

/* Notes the mistake that ended an item and passes over the rest of it, so that the mistakes behind it are
 * found too. @depth is that of the body. Returns the mistake if nothing comes behind it. */
static enum status pass_over(struct parser *p, unsigned int depth)
{
	unsigned int open = p->depth - depth;

	if (p->token.type == HCL_END)
		return STATUS_INVALID_ARGUMENT;
	p->status = error_collect(p->status, STATUS_INVALID_ARGUMENT, p->err, &p->mistakes);
	p->depth = depth;
	while (p->token.type != HCL_END && (open > 0 || p->token.type != HCL_NEWLINE)) {
		enum status status;

		if (p->token.type == HCL_CLOSE_BRACE && open == 0 && depth > 0)
			break;
		if (p->token.type == HCL_OPEN_BRACE || p->token.type == HCL_OPEN_BRACKET)
			open++;
		else if ((p->token.type == HCL_CLOSE_BRACE || p->token.type == HCL_CLOSE_BRACKET) && open > 0)
			open--;
		status = advance(p);
		if (status != STATUS_OK && status != STATUS_INVALID_ARGUMENT)
			return status;
	}
	return STATUS_OK;
}

/* Items until @closing, which is passed over; @line is where they began. */
static enum status parse_body(struct parser *p, enum hcl_type closing, unsigned int line, json_t **ret)
{
	cleanup_json json_t *object = json_object();
	enum status status = object ? note(p, object, NULL, line, LINE_VALUE) : no_memory(p);
	unsigned int depth = p->depth;

	while (status == STATUS_OK) {
		status = skip_newlines(p);
		if (status == STATUS_OK && p->token.type == closing)
			break;
		if (status == STATUS_OK && p->token.type == HCL_END)
			return line_error(p->lexer.file, line, p->err, "the '{' has no closing '}'");
		if (status == STATUS_OK)
			status = parse_item(p, object);
		if (status == STATUS_OK)
			status = end_item(p, closing);
		if (status == STATUS_INVALID_ARGUMENT)
			status = pass_over(p, depth);
	}
	if (status == STATUS_OK && closing != HCL_END)
		status = advance(p);
	if (status == STATUS_OK)
		*ret = TAKE_PTR(object);
	return status;
}

/* The first token: a mistake in it is one of the first item. */
static enum status begin(struct parser *p)
{
	enum status status = advance(p);

	return status == STATUS_INVALID_ARGUMENT ? pass_over(p, 0) : status;
}

enum status hcl_parse(const char *text, const char *file, enum conf_templates templates, struct lines *lines,
		      json_t **ret, struct error *mistakes)
{
	struct error err = {.msg = ""};
	struct parser parser = {
		.lexer = {.file = file, .at = text, .line = 1, .templates = templates},
		.lines = lines,
		.err = &err,
	};
	cleanup_json json_t *root = NULL;
	enum status status = begin(&parser);

	if (status == STATUS_OK)
		status = parse_body(&parser, HCL_END, 1, &root);
	hcl_token_release(&parser.token);
	if (status != STATUS_OK)
		parser.status = error_collect(parser.status, status, &err, &parser.mistakes);
	if (root)
		*ret = TAKE_PTR(root);
	if (parser.status != STATUS_OK)
		*mistakes = parser.mistakes;
	return parser.status;
}

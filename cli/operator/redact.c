/* SPDX-License-Identifier: Apache-2.0 */
/* Redacts text by the names of keys and the forms of secrets. It would rather remove too much. */
#include "operator/redact.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "base/strbuf.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define REDACTED "[redacted]"
#define PEM_BEGIN "-----BEGIN "
#define PEM_END "-----END "

enum {
	NAME_MAX_SIZE = 128,
	TOKEN_MIN = 16,
	AHEAD_MAX = 4096,
	USERINFO_MAX = 1024,
	TAG_MAX = 64,
	LABEL_MAX = 64
};

/* A part of the name, in any case; a dash counts as an underscore. */
static const char *const secret_parts[] = {
	"secret",      "passw",	     "passphrase",    "token",	   "credential", "private", "keyring",
	"mount_flags", "mountflags", "authorization", "cookie",	   "psk",	 "chap",    "bearer",
	"key_data",    "userkey",    "access_key",    "accesskey", "apikey",	 "api_key",
};
/* The whole name. */
static const char *const secret_names[] = {"env", "pass", "pwd", "pin", "sig", "signature"};
/* A part of the name ends with it or its plural: dbPass, luks_key_b64. An id may have such a part too.
 * @is_last: only the last part. Arguments of programs and plugins may have any secret. */
static const struct {
	const char *word;
	bool is_last;
} secret_words[] = {
	{"key", false}, {"kek", false},	   {"pass", true},    {"pwd", true},
	{"pw", true},	{"auth", true},	   {"otp", true},     {"args", true},
	{"argv", true}, {"command", true}, {"context", true}, {"parameters", true},
};
static const char *const encodings[] = {"", "b64", "base64", "hex"};
/* These names contain such a part and have no secret; nor has the name of a file. */
static const char *const plain_names[] = {"tokens", "next_token", "accessor"};
/* Names that end with these have no secret. */
static const char *const plain_ends[] = {
	"public_key", "public_keys", "ticket_key", "ticket_keys",  "key_id",	   "key_sha256", "key_path",
	"key_name",   "key_type",    "key_size",   "next_command", "then_command", "bypass",	 "_file",
};

static bool is_one_of(const char *name, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcasecmp(name, names[i]) == 0)
			return true;
	return false;
}

static bool ends_with(const char *name, const char *end)
{
	size_t n = strlen(name), m = strlen(end);

	return n >= m && strcasecmp(name + n - m, end) == 0;
}

static bool has_plain_end(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(plain_ends); i++)
		if (ends_with(name, plain_ends[i]))
			return true;
	return false;
}

static bool is_secret_name(const char *name)
{
	if (is_one_of(name, plain_names, ARRAY_SIZE(plain_names)) || ends_with(name, "_file"))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(secret_parts); i++)
		if (strcasestr(name, secret_parts[i]))
			return true;
	return is_one_of(name, secret_names, ARRAY_SIZE(secret_names)) ||
	       (ends_with(name, "key") && !has_plain_end(name));
}

/* Does the part of the name end at @end? */
static bool ends_part(const char *end, bool is_last)
{
	end += *end == 's' || *end == 'S';
	if (is_last)
		return is_one_of(end + strspn(end, "_0123456789"), encodings, ARRAY_SIZE(encodings));
	return !isalpha((unsigned char)*end) ||
	       (isupper((unsigned char)*end) && islower((unsigned char)end[-1]));
}

static bool has_secret_word(const char *name)
{
	if (has_plain_end(name))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(secret_words); i++)
		for (const char *at = name; (at = strcasestr(at, secret_words[i].word)) != NULL; at++)
			if (ends_part(at + strlen(secret_words[i].word), secret_words[i].is_last))
				return true;
	return false;
}

static bool is_name_byte(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

static const char *skip_line(const char *at)
{
	return at + strcspn(at, "\n");
}

/* Behind the quote at @at, which any number of backslashes may escape, or NULL. */
static const char *skip_quote(const char *at)
{
	at += strspn(at, "\\");
	return *at == '"' || *at == '\'' ? at + 1 : NULL;
}

/* Behind the string whose quote ends before @at and had @depth backslashes. A quote with more of them is
 * part of the string. */
static const char *skip_string(const char *at, char quote, size_t depth)
{
	size_t n = 0;

	for (; *at != '\0'; at++) {
		if (*at == quote && (n <= depth || (depth == 0 && n % 2 == 0)))
			return at + 1;
		n = *at == '\\' ? n + 1 : 0;
	}
	return at;
}

/* Behind "<<TAG" and the lines to TAG. */
static const char *skip_heredoc(const char *at)
{
	const char *tag;
	size_t n;

	at += 2;
	tag = at += strspn(at, "-~ \"'");
	while (is_name_byte(*at))
		at++;
	n = (size_t)(at - tag);
	if (n == 0 || n > TAG_MAX)
		return at + strlen(at);
	for (at = skip_line(at); *at != '\0'; at = skip_line(at)) {
		at += strspn(at, "\n \t");
		if (strncmp(at, tag, n) == 0 && !is_name_byte(at[n]))
			return at + n;
	}
	return at;
}

/* Behind the block or list that is open @depth times at @at. */
static const char *skip_block(const char *at, int depth)
{
	while (*at != '\0') {
		const char *end = skip_quote(at);

		if (end && end[-1] == '"') {
			at = skip_string(end, '"', (size_t)(end - at - 1));
			continue;
		}
		if (*at == '#' || str_starts_with(at, "//")) {
			at = skip_line(at);
			continue;
		}
		if (str_starts_with(at, "/*")) {
			end = strstr(at, "*/");
			at = end ? end + 2 : at + strlen(at);
			continue;
		}
		if (str_starts_with(at, "<<")) {
			at = skip_heredoc(at);
			continue;
		}
		depth += *at == '{' || *at == '[';
		depth -= *at == '}' || *at == ']';
		at++;
		if (depth <= 0)
			break;
	}
	return at;
}

/* Behind the line and those below it that begin with a blank. */
static const char *skip_indented(const char *at)
{
	for (at = skip_line(at); *at == '\n' && strchr(" \t\r\n-", at[1]) && at[1] != '\0';)
		at = skip_line(at + 1);
	return at;
}

/* Finds @text near @at only, so that the time stays linear. */
static const char *find_near(const char *at, const char *text, size_t max)
{
	return memmem(at, strnlen(at, max), text, strlen(text));
}

/* Blanks, ends of lines (also escaped) and comments. */
static const char *skip_blanks(const char *at)
{
	for (;;) {
		const char *end = str_starts_with(at, "/*") ? find_near(at, "*/", AHEAD_MAX) : NULL;

		if (end)
			at = end + 2;
		else if (*at == '\\' && at[1] != '\0' && strchr("nrt\n", at[1]))
			at += 2;
		else if (*at != '\0' && strchr(" \t\r\n", *at))
			at++;
		else
			return at;
	}
}

/* Behind the value at @at, which a line may separate from its name. Without quotes it has the rest of the
 * line. */
static const char *skip_value(const char *at, bool is_below)
{
	const char *end = skip_quote(at);

	if (*at == '{' || *at == '[')
		return skip_block(at, 0);
	if (str_starts_with(at, "<<"))
		return skip_heredoc(at);
	if (!end)
		return is_below || *at == '|' || *at == '>' ? skip_indented(at) : skip_line(at);
	end = skip_string(end, end[-1], (size_t)(end - at - 1));
	return strchr(" \t\r\n,;&\\\"'}])", *end) ? end : skip_line(end);
}

/* Behind "=", ":", ":=", "=>", "->", "%3D" and the like, or @at. */
static const char *skip_assignment(const char *at)
{
	const char *end = at + strspn(at, "-:=>");

	if (strncasecmp(at, "%3d", 3) == 0 || strncasecmp(at, "%3a", 3) == 0)
		return at + 3;
	return memchr(at, '-', (size_t)(end - at)) && !memchr(at, '>', (size_t)(end - at)) ? at : end;
}

/* Where the value of a secret name begins, whose name ends before @at, or NULL:
 * NAME = X, "NAME": X, NAME "LABEL" { X }. @takes_blank: also NAME X. @is_word: not TYPE "NAME" { X } */
static const char *find_value(const char *at, bool takes_blank, bool is_word)
{
	const char *quote = skip_quote(at);
	const char *p = skip_blanks(quote ? quote : at);
	const char *end = skip_assignment(p);

	if (end > p) {
		end = skip_blanks(end);
		return *end != '\0' ? end : NULL;
	}
	if (takes_blank && p > at && *p != '\0' && *p != ',')
		return p;
	if (*p == '"' && !quote)
		p = skip_blanks(p + 1 + strcspn(p + 1, "\"\n") + 1 - (strchr(p + 1, '"') == NULL));
	return *p == '{' && !(quote && is_word) ? p : NULL;
}

/* Whether the string that the name at @at..@end fills is one of a list or pair: ["NAME", X],
 * {"name": "NAME", "value": X}. @is_word: an id may be such a name, so only ["-NAME", X] or before a value */
static const char *find_pair(const char *text, const char *at, const char *end, bool is_word)
{
	static const char *const values[] = {"value", "text", "list", "map"};
	const char *quote = skip_quote(end), *next;

	if (!quote || at == text || at[-1] != quote[-1] || memchr(at, '.', (size_t)(end - at)))
		return NULL;
	quote = skip_blanks(quote);
	if (*quote != ',')
		return NULL;
	next = skip_blanks(quote + 1);
	next += strspn(next, "\\\"");
	for (size_t i = 0; i < ARRAY_SIZE(values); i++)
		is_word = is_word && !str_starts_with(next, values[i]);
	return is_word && *at != '-' ? NULL : quote + 1;
}

/* The rest of the line; in JSON of many lines the rest of the block. */
static const char *skip_pair(const char *at)
{
	return at[strspn(at, " \t\r")] == '\n' ? skip_block(at, 1) : skip_line(at);
}

/* Our own tokens and tokens of the web that a name has, at its begin or behind an escape. */
static const char *find_token(const char *at, const char *end)
{
	const char *dot = memrchr(at, '.', (size_t)(end - at));

	for (const char *p = at; end - p > TOKEN_MIN; p++)
		if ((str_starts_with(p, "hf_") && end - p >= 3 + TOKEN_MIN) ||
		    (str_starts_with(p, "eyJ") && dot && dot > p))
			return p;
	return NULL;
}

/* Behind the private key in PEM that begins at @at, or NULL. */
static const char *skip_pem(const char *at)
{
	const char *end;

	if (!str_starts_with(at, PEM_BEGIN) || !find_near(at, "PRIVATE KEY-----", 64))
		return NULL;
	end = strstr(at, PEM_END);
	return end ? skip_line(end) : at + strlen(at);
}

/* Behind USER:PASSWORD of "://USER:PASSWORD@", "//USER:PASSWORD@" or "USER:PASSWORD@tcp(", or NULL. @at: the
 * first colon or slash of these */
static const char *skip_userinfo(const char *at)
{
	const char *end;
	size_t n = 0;

	if (*at != ':' && !str_starts_with(at, "//"))
		return NULL;
	while (n < USERINFO_MAX && (unsigned char)at[n] > ' ' && at[n] != '"' && at[n] != '\'' &&
	       at[n] != '<' && at[n] != '>')
		n++;
	end = memrchr(at, '@', n);
	if (!end || str_starts_with(at, "://"))
		return end;
	if (*at == '/')
		return at[2 + strcspn(at + 2, ":/@")] == ':' ? end : NULL;
	n = strspn(end + 1, "abcdefghijklmnopqrstuvwxyz0123456789");
	return n > 0 && end[1 + n] == '(' ? end : NULL;
}

static const char *put_redacted(struct strbuf *sb, const char *begin, const char *end)
{
	const char *quote = skip_quote(begin);

	if (quote && quote[-1] == '"' && end > quote && end[-1] == '"') /* JSON stays JSON */
		strbuf_printf(sb, "%.*s" REDACTED "%.*s", (int)(quote - begin), begin, (int)(quote - begin),
			      begin);
	else
		strbuf_puts(sb, REDACTED);
	return end;
}

static const char *copy_name(const char *text, const char *at, struct strbuf *sb)
{
	char name[NAME_MAX_SIZE];
	const char *end = at, *value, *token;
	bool is_secret, is_word;

	while (is_name_byte(*end) && (end == at || !str_starts_with(end, PEM_BEGIN)))
		end++;
	token = find_token(at, end);
	if (token) {
		strbuf_put(sb, at, (size_t)(token - at));
		return put_redacted(sb, "", end);
	}
	(void)str_format(name, sizeof(name), "%.*s",
			 (int)(end - at < NAME_MAX_SIZE ? end - at : NAME_MAX_SIZE - 1), at);
	for (char *p = name; *p != '\0'; p++)
		if (*p == '-')
			*p = '_';
	strbuf_put(sb, at, (size_t)(end - at));
	if (strstr(name, "holdfast_enroll") && (*end == '/' || *end == '\\'))
		return put_redacted(sb, "", end + strcspn(end, " \t\r\n\"',;"));
	is_secret = end - at >= NAME_MAX_SIZE || is_secret_name(name + strspn(name, "_")) ||
		    (at > text && at[-1] == '\\' && is_secret_name(name + 1)); /* \npass */
	is_word = !is_secret && has_secret_word(name);
	if (!is_secret && !is_word)
		return end;
	value = find_pair(text, at, end, is_word);
	if (value) {
		strbuf_put(sb, end, (size_t)(value - end));
		return put_redacted(sb, "", skip_pair(value));
	}
	value = find_value(end, *at == '-' || strcasestr(name, "bearer"), is_word);
	if (!value || (ends_with(name, "context") && find_near(value, ":object_r:", LABEL_MAX)))
		return end; /* a mount option has a label of SELinux */
	strbuf_put(sb, end, (size_t)(value - end));
	if (ends_with(name, "key") && strlen(name) <= 4 &&
	    skip_quote(value)) { /* {"key": "password", "value": X} */
		const char *word = skip_quote(value);
		size_t n = 0;

		while (is_name_byte(word[n]))
			n++;
		if (n > 0 && find_pair(text, word, word + n, false)) {
			strbuf_put(sb, value, (size_t)(word - value));
			return word;
		}
	}
	return put_redacted(sb, value, skip_value(value, memchr(end, '\n', (size_t)(value - end))));
}

/* Zero bytes are replaced, and letters that JSON escapes as \u00XX. */
static char *copy_text(const char *text, size_t n)
{
	char *copy = calloc(n + 1, 1);
	size_t length = 0;

	for (size_t i = 0; copy && i < n; i++) {
		char byte;

		copy[length] = text[i];
		if (text[i] == '\0')
			copy[length] = '?';
		length++;
		if (n - i < 6 || memcmp(text + i, "\\u00", 4) != 0)
			continue;
		if (isxdigit((unsigned char)text[i + 4]) && isxdigit((unsigned char)text[i + 5])) {
			const char digits[3] = {text[i + 4], text[i + 5], '\0'};

			byte = (char)strtoul(digits, NULL, 16);
			if (is_name_byte(byte)) {
				copy[length - 1] = byte;
				i += 5;
			}
		}
	}
	return copy;
}

char *redact(const char *text, size_t n)
{
	cleanup_free char *copy = copy_text(text, n);
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(8 * n + 4096);

	if (!copy)
		return NULL;
	for (const char *at = copy; *at != '\0';) {
		const char *end = skip_pem(at);

		if (end) {
			at = put_redacted(&sb, "", end);
		} else if (is_name_byte(*at)) {
			at = copy_name(copy, at, &sb);
		} else if ((end = skip_userinfo(at))) {
			strbuf_put(&sb, at, strspn(at, ":/"));
			at = put_redacted(&sb, "", end);
		} else {
			strbuf_put(&sb, at++, 1);
		}
	}
	return strbuf_take(&sb);
}

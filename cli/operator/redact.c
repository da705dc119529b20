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
#define PEM_END "-----END "

enum { NAME_MAX_SIZE = 128, TOKEN_MIN = 16 };

/* A part of the name, in any case. */
static const char *const secret_parts[] = {
	"secret",	 "passw",      "passphrase", "token",	    "credential",
	"private",	 "userkey",    "keyring",    "mount_flags", "mountflags",
	"authorization", "access_key", "accesskey",  "apikey",	    "api_key",
};
/* The whole name. */
static const char *const secret_names[] = {"env", "key_data", "tls_key", "signing_key", "pass", "pwd"};
/* These names contain such a part and have no secret. */
static const char *const plain_names[] = {"token_file", "tokens", "next_token", "secrets_file", "accessor"};

static bool is_one_of(const char *name, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcasecmp(name, names[i]) == 0)
			return true;
	return false;
}

static bool is_secret_name(const char *name)
{
	if (is_one_of(name, plain_names, ARRAY_SIZE(plain_names)))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(secret_parts); i++)
		if (strcasestr(name, secret_parts[i]))
			return true;
	return is_one_of(name, secret_names, ARRAY_SIZE(secret_names));
}

static bool is_name_byte(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

static const char *skip_string(const char *at)
{
	for (at++; *at != '\0' && *at != '"' && *at != '\n'; at++)
		if (*at == '\\' && at[1] != '\0')
			at++;
	return *at == '"' ? at + 1 : at;
}

/* Behind the block or list that begins at @at. */
static const char *skip_block(const char *at)
{
	int depth = 0;

	while (*at != '\0') {
		if (*at == '"') {
			at = skip_string(at);
			continue;
		}
		depth += *at == '{' || *at == '[';
		depth -= *at == '}' || *at == ']';
		at++;
		if (depth == 0)
			break;
	}
	return at;
}

static const char *skip_value(const char *at)
{
	if (*at == '{' || *at == '[')
		return skip_block(at);
	if (*at == '"')
		return skip_string(at);
	if (*at == '\'') {
		const char *end = strchr(at + 1, '\'');

		return end ? end + 1 : at + strlen(at);
	}
	return at + strcspn(at, " \t\r\n,;&\"'}])");
}

/* The value behind the name that ends before @at, or NULL: "\": ", " = ", "=", " {". */
static const char *find_value(const char *at)
{
	const char *p = at;
	bool is_assigned;

	p += *p == '"';
	p += strspn(p, " \t");
	is_assigned = *p == ':' || *p == '=';
	p += is_assigned;
	p += strspn(p, " \t");
	if (*p == '{' || (is_assigned && *p != '\n' && *p != '\0'))
		return p;
	return NULL;
}

static bool begins_token(const char *text, const char *at)
{
	size_t n = 0;

	if (!str_starts_with(at, "hf_") || (at > text && is_name_byte(at[-1])))
		return false;
	while (is_name_byte(at[3 + n]))
		n++;
	return n >= TOKEN_MIN;
}

/* Behind the secret that begins at @at by its form, or NULL. */
static const char *skip_form(const char *text, const char *at)
{
	if (begins_token(text, at))
		return at + 3 +
		       strspn(at + 3, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.");
	if (strncasecmp(at, "bearer ", 7) == 0)
		return at + 7 + strcspn(at + 7, " \t\r\n,;\"'");
	if (str_starts_with(at, "-----BEGIN ") && strcspn(at, "\n") < 80) {
		const char *key = strstr(at, "PRIVATE KEY-----");
		const char *end = strstr(at, PEM_END);

		if (!key || key > at + 40)
			return NULL;
		return end ? end + strcspn(end, "\n") : at + strlen(at);
	}
	return NULL;
}

static const char *copy_name(const char *at, struct strbuf *sb)
{
	char name[NAME_MAX_SIZE];
	const char *end = at;
	const char *value;

	while (is_name_byte(*end))
		end++;
	(void)str_format(name, sizeof(name), "%.*s",
			 (int)(end - at < NAME_MAX_SIZE ? end - at : NAME_MAX_SIZE - 1), at);
	value = is_secret_name(name) ? find_value(end) : NULL;
	if (value && strncasecmp(value, "bearer ", 7) == 0)
		value += 7;
	strbuf_printf(sb, "%.*s", (int)((value ? value : end) - at), at);
	if (!value)
		return end;
	strbuf_puts(sb, *value == '"' ? "\"" REDACTED "\"" : REDACTED);
	return skip_value(value);
}

char *redact(const char *text, size_t n)
{
	cleanup_free char *copy = strndup(text, n); /* zero bytes end it: a binary part is no text */
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(4 * n + 4096);

	if (!copy)
		return NULL;
	for (const char *at = copy; *at != '\0';) {
		const char *end = skip_form(copy, at);

		if (end) {
			strbuf_puts(&sb, REDACTED);
			at = end;
		} else if (is_name_byte(*at)) {
			at = copy_name(at, &sb);
		} else {
			const char plain[2] = {*at++, '\0'};

			strbuf_puts(&sb, plain);
		}
	}
	return strbuf_take(&sb);
}

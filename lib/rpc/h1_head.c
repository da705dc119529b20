/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/h1_head.h"

#include <string.h>
#include <strings.h>

/* Part of the head, not NUL-terminated. */
struct text {
	const char *at;
	size_t n;
};

/* Fields that the whole block must have once. */
struct seen {
	bool host;
	bool content_length;
};

static bool is(struct text t, const char *word)
{
	return strlen(word) == t.n && strncasecmp(t.at, word, t.n) == 0;
}

static bool is_token(struct text t)
{
	static const char tchar[] = "!#$%&'*+-.^_`|~0123456789"
				    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

	for (size_t i = 0; i < t.n; i++)
		if (t.at[i] == '\0' || !strchr(tchar, t.at[i]))
			return false;
	return t.n > 0;
}

/* Visible characters, and spaces and tabs if @blanks. */
static bool is_visible(struct text t, bool blanks)
{
	for (size_t i = 0; i < t.n; i++) {
		unsigned char c = (unsigned char)t.at[i];

		if (c == 0x7f || (c <= 0x20 && !(blanks && (c == ' ' || c == '\t'))))
			return false;
	}
	return true;
}

static struct text trim(struct text t)
{
	while (t.n > 0 && (t.at[0] == ' ' || t.at[0] == '\t'))
		t = (struct text){t.at + 1, t.n - 1};
	while (t.n > 0 && (t.at[t.n - 1] == ' ' || t.at[t.n - 1] == '\t'))
		t.n--;
	return t;
}

/* Cut @rest at the first @c; false without one. */
static bool cut(struct text *rest, char c, struct text *ret)
{
	const char *at = memchr(rest->at, c, rest->n);

	if (!at)
		return false;
	*ret = (struct text){rest->at, (size_t)(at - rest->at)};
	*rest = (struct text){at + 1, rest->n - ret->n - 1};
	return true;
}

static enum status bad(int *ret_http, int http, struct error *err, const char *what)
{
	*ret_http = http;
	return error_set(err, STATUS_INVALID_ARGUMENT, 0, "this is no HTTP/1.1 request: %s", what);
}

static void add(struct h1_head *head, const char *name, size_t name_len, struct text value)
{
	request_head_add(&head->request, (const uint8_t *)name, name_len, (const uint8_t *)value.at, value.n);
}

static enum status read_request_line(struct text line, struct h1_head *head, int *ret_http, struct error *err)
{
	struct text method;
	struct text target;

	if (!cut(&line, ' ', &method) || !cut(&line, ' ', &target) || !is_token(method) || target.n == 0 ||
	    !is_visible(target, false))
		return bad(ret_http, 400, err, "its first line");
	if (line.n != strlen("HTTP/1.1") || memcmp(line.at, "HTTP/1.1", line.n) != 0)
		return bad(ret_http, 505, err, "its version");
	add(head, ":method", strlen(":method"), method);
	add(head, ":scheme", strlen(":scheme"), (struct text){"http", strlen("http")});
	add(head, ":path", strlen(":path"), target);
	return STATUS_OK;
}

static bool read_length(struct text value, uint64_t *ret)
{
	uint64_t length = 0;

	if (value.n == 0 || value.n > 15)
		return false;
	for (size_t i = 0; i < value.n; i++) {
		if (value.at[i] < '0' || value.at[i] > '9')
			return false;
		length = length * 10 + (uint64_t)(value.at[i] - '0');
	}
	*ret = length;
	return true;
}

/* Is @word an item of @value, a list with commas? */
static bool lists(struct text value, const char *word)
{
	struct text item;

	while (cut(&value, ',', &item))
		if (is(trim(item), word))
			return true;
	return is(trim(value), word);
}

/* The fields that shape the message itself. */
static enum status read_framing(struct text name, struct text value, struct h1_head *head, struct seen *seen,
				int *ret_http, struct error *err)
{
	if (is(name, "transfer-encoding"))
		return bad(ret_http, 501, err, "it has a Transfer-Encoding; send a Content-Length instead");
	if (is(name, "content-length")) {
		if (seen->content_length || !read_length(value, &head->content_length))
			return bad(ret_http, 400, err, "its Content-Length");
		seen->content_length = true;
	} else if (is(name, "host")) {
		if (seen->host)
			return bad(ret_http, 400, err, "it has two Hosts");
		seen->host = true;
	} else if (is(name, "expect")) {
		if (!is(value, "100-continue"))
			return bad(ret_http, 417, err, "its Expect");
		head->expects_continue = true;
	} else if (is(name, "connection")) {
		head->close |= lists(value, "close");
	}
	return STATUS_OK;
}

static enum status read_field(struct text line, struct h1_head *head, struct seen *seen, int *ret_http,
			      struct error *err)
{
	char lower[32]; /* the longest name that is looked up is shorter */
	struct text name;
	struct text value;

	if (!cut(&line, ':', &name) || !is_token(name) || !is_visible(line, true))
		return bad(ret_http, 400, err, "one of its header lines");
	value = trim(line);
	if (name.n < sizeof(lower)) {
		for (size_t i = 0; i < name.n; i++)
			lower[i] = (char)(name.at[i] >= 'A' && name.at[i] <= 'Z' ? name.at[i] + ('a' - 'A')
										 : name.at[i]);
		add(head, lower, name.n, value);
	} else {
		add(head, name.at, name.n, value);
	}
	return read_framing(name, value, head, seen, ret_http, err);
}

/* Everything up to the empty line: @rest ends with the last field's CR LF. */
static enum status read_lines(struct text rest, struct h1_head *head, int *ret_http, struct error *err)
{
	struct seen seen = {.host = false};
	bool first = true;
	struct text line;

	while (cut(&rest, '\n', &line)) {

		if (line.n == 0 || line.at[line.n - 1] != '\r')
			return bad(ret_http, 400, err, "a line feed without a carriage return");
		line.n--;
		TRY(first ? read_request_line(line, head, ret_http, err)
			  : read_field(line, head, &seen, ret_http, err));
		first = false;
	}
	return seen.host ? STATUS_OK : bad(ret_http, 400, err, "it has no Host");
}

enum h1_head_result h1_head_read(const char *bytes, size_t n, struct h1_head *ret, int *ret_http,
				 struct error *err)
{
	const char *end = memmem(bytes, n < H1_HEAD_MAX ? n : H1_HEAD_MAX, "\r\n\r\n", 4);
	struct h1_head head = {.size = 0};

	if (!end && n < H1_HEAD_MAX)
		return H1_HEAD_MORE;
	if (!end) {
		*ret_http = 431;
		(void)error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				"the request's head is larger than %d bytes", H1_HEAD_MAX);
		return H1_HEAD_BAD;
	}
	head.size = (size_t)(end - bytes) + 4;
	if (read_lines((struct text){bytes, head.size - 2}, &head, ret_http, err) != STATUS_OK)
		return H1_HEAD_BAD;
	*ret = head;
	return H1_HEAD_WHOLE;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "http_answer.h"

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/str.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The form of the body, by the fields of the head. */
struct http_framing {
	bool has_length;
	bool is_chunked;
	const char *path_stat;
	uint64_t length;
};

static bool read_field(const char *name, const char *value, struct http_framing *framing)
{
	if (strcasecmp(name, "X-Docker-Container-Path-Stat") == 0) {
		bool is_second = framing->path_stat != NULL;

		framing->path_stat = value;
		return !is_second;
	}
	if (strcasecmp(name, "Content-Length") == 0) {
		bool is_second = framing->has_length;

		framing->has_length = true;
		return !is_second && parse_u64(value, 0, INT64_MAX, &framing->length) == 0;
	}
	if (strcasecmp(name, "Transfer-Encoding") != 0)
		return true;
	if (strcasecmp(value, "chunked") != 0)
		return strcasecmp(value, "identity") == 0;
	if (framing->is_chunked)
		return false;
	framing->is_chunked = true;
	return true;
}

/* "NAME: VALUE", without its CRLF; spoils it. */
static bool read_line(char *line, struct http_framing *framing)
{
	char *colon = strchr(line, ':');
	char *value = colon ? colon + 1 : NULL;

	if (!colon || colon == line || strcspn(line, " \t") < (size_t)(colon - line))
		return false;
	*colon = '\0';
	value += strspn(value, " \t");
	for (size_t n = strlen(value); n > 0 && (value[n - 1] == ' ' || value[n - 1] == '\t'); n--)
		value[n - 1] = '\0';
	return read_field(line, value, framing);
}

/* "HTTP/1.1 200 OK" */
static int read_code(const char *line)
{
	uint32_t code = 0;
	char digits[4] = "";

	if (!str_starts_with(line, "HTTP/1.1 ") && !str_starts_with(line, "HTTP/1.0 "))
		return 0;
	line += strlen("HTTP/1.x ");
	if (strlen(line) < 3 || (line[3] != '\0' && line[3] != ' '))
		return 0;
	memcpy(digits, line, 3);
	return parse_u32(digits, 100, 599, &code) == 0 ? (int)code : 0;
}

/* A whole head, up to the empty line. */
static enum http_state read_head(struct http_answer *answer)
{
	struct http_framing framing = {.length = 0};
	char *line = answer->head;
	char *end;
	bool is_first = true;

	if (strlen(answer->head) != answer->n) /* a NUL */
		return HTTP_BAD;
	for (; (end = strstr(line, "\r\n")) && end != line; line = end + 2) {
		*end = '\0';
		if (strpbrk(line, "\r\n"))
			return HTTP_BAD;
		if (is_first)
			answer->code = read_code(line);
		if (is_first ? answer->code == 0 : !read_line(line, &framing))
			return HTTP_BAD;
		is_first = false;
	}
	answer->n = 0;
	if (is_first || answer->code == 101 || (framing.is_chunked && framing.has_length))
		return HTTP_BAD;
	if (answer->code < 200)
		return HTTP_HEAD;
	answer->path_stat = framing.path_stat;
	if (answer->code == 204 || answer->code == 304 || answer->is_head)
		return HTTP_OVER;
	answer->left = framing.length;
	if (framing.is_chunked)
		return HTTP_SIZE;
	if (!framing.has_length)
		return HTTP_REST;
	return framing.length > 0 ? HTTP_BODY : HTTP_OVER;
}

static void add_to_head(struct http_answer *answer, char c)
{
	answer->head[answer->n++] = c;
	answer->head[answer->n] = '\0';
	if (answer->n >= 4 && memcmp(answer->head + answer->n - 4, "\r\n\r\n", 4) == 0)
		answer->state = read_head(answer);
	else if (answer->n == HTTP_HEAD_MAX)
		answer->state = HTTP_BAD;
}

/* "1a2b" or "1a2b;of=any", without its CRLF. */
static enum http_state read_size(struct http_answer *answer)
{
	size_t digits = strspn(answer->line, "0123456789abcdefABCDEF");
	char rest = answer->line[digits];

	if (digits == 0 || digits > 15 || (rest != '\0' && rest != ';' && rest != ' ' && rest != '\t'))
		return HTTP_BAD;
	answer->left = strtoull(answer->line, NULL, 16);
	return answer->left > 0 ? HTTP_CHUNK : HTTP_TRAILER;
}

static void add_to_size(struct http_answer *answer, char c)
{
	answer->line[answer->n++] = c;
	answer->line[answer->n] = '\0';
	if (c == '\n') {
		bool is_line = answer->n >= 2 && answer->line[answer->n - 2] == '\r' &&
			       strlen(answer->line) == answer->n;

		answer->line[is_line ? answer->n - 2 : 0] = '\0';
		answer->state = is_line ? read_size(answer) : HTTP_BAD;
		answer->n = 0;
	} else if (answer->n == HTTP_LINE_MAX) {
		answer->state = HTTP_BAD;
	}
}

/* line[0] and line[1] are the last two bytes. An empty line ends the answer. */
static void add_to_trailer(struct http_answer *answer, char c)
{
	bool is_empty = c == '\n' && answer->line[1] == '\r' && (answer->n == 1 || answer->line[0] == '\n');

	if (c == '\n' && (answer->n == 0 || answer->line[1] != '\r'))
		answer->state = HTTP_BAD;
	answer->line[0] = answer->line[1];
	answer->line[1] = c;
	if (is_empty)
		answer->state = HTTP_OVER;
	else if (++answer->n == HTTP_HEAD_MAX)
		answer->state = HTTP_BAD;
}

static void add_to_crlf(struct http_answer *answer, char c)
{
	if (c != "\r\n"[answer->n])
		answer->state = HTTP_BAD;
	else if (++answer->n == 2)
		answer->state = HTTP_SIZE;
	if (answer->state == HTTP_SIZE)
		answer->n = 0;
}

static size_t take_body(struct http_answer *answer, const char *bytes, size_t n, const char **ret_body,
			size_t *ret_n_body)
{
	if (answer->state != HTTP_REST && n > answer->left)
		n = (size_t)answer->left;
	*ret_body = bytes;
	*ret_n_body = n;
	if (answer->state == HTTP_REST)
		return n;
	answer->left -= n;
	if (answer->left == 0)
		answer->state = answer->state == HTTP_CHUNK ? HTTP_CRLF : HTTP_OVER;
	return n;
}

size_t http_answer_read(struct http_answer *answer, const char *bytes, size_t n, const char **ret_body,
			size_t *ret_n_body)
{
	static void (*const adds[])(struct http_answer * answer, char c) = {[HTTP_HEAD] = add_to_head,
									    [HTTP_SIZE] = add_to_size,
									    [HTTP_CRLF] = add_to_crlf,
									    [HTTP_TRAILER] = add_to_trailer};
	size_t i = 0;

	assert(n > 0 && answer->state < HTTP_OVER);
	*ret_n_body = 0;
	if (answer->state == HTTP_BODY || answer->state == HTTP_REST || answer->state == HTTP_CHUNK)
		return take_body(answer, bytes, n, ret_body, ret_n_body);
	while (i < n && answer->state < ARRAY_SIZE(adds) && adds[answer->state])
		adds[answer->state](answer, bytes[i++]);
	return i;
}

bool http_answer_may_end(const struct http_answer *answer)
{
	return answer->state == HTTP_REST || answer->state == HTTP_OVER;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The one form of an engine's answer, wherever its bytes are cut, and what is no answer. */
#include "http_answer.h"
#include "unit.h"

#include <stdio.h>
#include <string.h>

#define OK "HTTP/1.1 200 OK\r\n"
#define CHUNKED OK "Transfer-Encoding: chunked\r\n\r\n"

struct was_read {
	struct http_answer http;
	char body[256];
	size_t n_body, n;
};

static bool is_head; /* of the next request */

/* In pieces of @piece bytes. */
static void read_all(struct was_read *ret, const char *text, size_t n, size_t piece)
{
	*ret = (struct was_read){.http = {.state = HTTP_HEAD, .is_head = is_head}};
	while (ret->n < n && ret->http.state < HTTP_OVER) {
		const char *body = NULL;
		size_t n_body = 0, most = n - ret->n < piece ? n - ret->n : piece;

		ret->n += http_answer_read(&ret->http, text + ret->n, most, &body, &n_body);
		assert_true(ret->n_body + n_body < sizeof(ret->body));
		if (n_body > 0)
			memcpy(ret->body + ret->n_body, body, n_body);
		ret->n_body += n_body;
	}
}

static const struct {
	const char *text, *body;
	int code;
	enum http_state state;
	const char *rest; /* what follows the answer and is not read */
} answers[] = {
	{OK "Content-Length: 5\r\n\r\nhello", "hello", 200, HTTP_OVER, "more"},
	{OK "content-length:\t5 \r\nX: y:z\r\n\r\nhello", "hello", 200, HTTP_OVER, ""},
	{OK "Content-Length: 0\r\n\r\n", "", 200, HTTP_OVER, "more"},
	{OK "Content-Length: 9\r\n\r\nhello", "hello", 200, HTTP_BODY, ""},
	{OK "\r\nhello", "hello", 200, HTTP_REST, ""},
	{OK "Transfer-Encoding: identity\r\n\r\nhello", "hello", 200, HTTP_REST, ""},
	{"HTTP/1.0 500 \r\n\r\n", "", 500, HTTP_REST, ""},
	{"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", "", 204, HTTP_OVER, "hello"},
	{"HTTP/1.1 304\r\n\r\n", "", 304, HTTP_OVER, ""},
	{"HTTP/1.1 100 Continue\r\n\r\n" OK "Content-Length: 1\r\n\r\nx", "x", 200, HTTP_OVER, ""},
	{CHUNKED "5\r\nhello\r\n1;a=\"b\"\r\n!\r\n0\r\n\r\n", "hello!", 200, HTTP_OVER, "more"},
	{CHUNKED "00A\r\n0123456789\r\n000\r\nA: b\r\nC: d\r\n\r\n", "0123456789", 200, HTTP_OVER, ""},
	{CHUNKED "5\r\nhel", "hel", 200, HTTP_CHUNK, ""},
	{CHUNKED "5\r\nhello\r\n", "hello", 200, HTTP_SIZE, ""},
	{CHUNKED "0\r\n", "", 200, HTTP_TRAILER, ""},
};

TEST(an_answer_is_read_wherever_it_is_cut)
{
	for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
		char text[512];
		size_t n = strlen(answers[i].text);

		(void)snprintf(text, sizeof(text), "%s%s", answers[i].text, answers[i].rest);
		for (size_t piece = 1; piece <= strlen(text); piece++) {
			struct was_read got;

			read_all(&got, text, strlen(text), piece);
			if (got.http.state != answers[i].state || got.http.code != answers[i].code ||
			    got.n_body != strlen(answers[i].body) || got.n != n ||
			    memcmp(got.body, answers[i].body, got.n_body) != 0)
				fail_msg("row %zu in pieces of %zu: state %d, code %d, %zu of %zu bytes", i,
					 piece, (int)got.http.state, got.http.code, got.n, n);
		}
	}
}

TEST(an_ambiguous_or_invalid_answer_is_refused)
{
	static const char *const texts[] = {
		"SSH-2.0-nonsense\r\n\r\n",
		"HTTP/2 200 OK\r\n\r\n",
		"HTTP/1.1  200 OK\r\n\r\n",
		"HTTP/1.1 20 OK\r\n\r\n",
		"HTTP/1.1 2000 OK\r\n\r\n",
		"HTTP/1.1 099 OK\r\n\r\n",
		"HTTP/1.1 600 OK\r\n\r\n",
		"HTTP/1.1 +20 OK\r\n\r\n",
		"HTTP/1.1 101 Switching Protocols\r\n\r\n",
		"\r\n\r\n",
		OK "no field\r\n\r\n",
		OK ": none\r\n\r\n",
		OK "Content-Length : 1\r\n\r\n",
		OK " Content-Length: 1\r\n\r\n",
		OK "A: b\r\n c\r\n\r\n",
		OK "A: b\nContent-Length: 1\r\n\r\n",
		OK "A: b\rContent-Length: 1\r\n\r\n",
		OK "Content-Length: 1\r\nContent-Length: 1\r\n\r\n",
		OK "Content-Length: 1, 1\r\n\r\n",
		OK "Content-Length: -1\r\n\r\n",
		OK "Content-Length: 0x1\r\n\r\n",
		OK "Content-Length: 99999999999999999999\r\n\r\n",
		OK "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
		OK "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
		OK "Transfer-Encoding: gzip, chunked\r\n\r\n",
		CHUNKED "\r\n",
		CHUNKED "g\r\n",
		CHUNKED "-1\r\n",
		CHUNKED "0x1\r\n",
		CHUNKED "1\nx",
		CHUNKED "10000000000000000\r\n",
		CHUNKED "1\r\nxy",
		CHUNKED "1\r\nx\n",
		CHUNKED "0\r\nA: b\n",
		CHUNKED "1;aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		for (size_t piece = 1; piece <= strlen(texts[i]); piece++) {
			struct was_read got;

			read_all(&got, texts[i], strlen(texts[i]), piece);
			if (got.http.state != HTTP_BAD)
				fail_msg("row %zu in pieces of %zu: state %d", i, piece, (int)got.http.state);
		}
}

TEST(a_nul_and_a_head_without_end_are_no_answer)
{
	static const char nul[] = OK "A: \0b\r\n\r\n";
	static char long_head[HTTP_HEAD_MAX + 1];
	struct was_read got;

	read_all(&got, nul, sizeof(nul) - 1, sizeof(nul));
	assert_int_equal(got.http.state, HTTP_BAD);
	memset(long_head, 'a', sizeof(long_head));
	read_all(&got, long_head, sizeof(long_head), sizeof(long_head));
	assert_int_equal(got.http.state, HTTP_BAD);
	assert_int_equal(got.n, HTTP_HEAD_MAX);
}

TEST(trailers_without_end_are_no_answer)
{
	static char text[2 * HTTP_HEAD_MAX];
	struct was_read got;

	(void)snprintf(text, sizeof(text), "%s0\r\n%*s", CHUNKED, HTTP_HEAD_MAX, "");
	read_all(&got, text, strlen(text), 100);
	assert_int_equal(got.http.state, HTTP_BAD);
}

TEST(only_an_answer_without_length_ends_with_its_connection)
{
	for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
		struct was_read got;

		read_all(&got, answers[i].text, strlen(answers[i].text), 7);
		assert_int_equal(http_answer_may_end(&got.http),
				 got.http.state == HTTP_OVER || got.http.state == HTTP_REST);
	}
}

int main(void)
{
	return unit_run();
}

#define STAT "X-Docker-Container-Path-Stat: "
TEST(an_answer_to_head_has_no_body)
{
	static const struct {
		const char *text, *stat;
		enum http_state state;
	} rows[] = {
		{OK STAT "abc=\r\nContent-Length: 5\r\n\r\nhello", "abc=", HTTP_OVER},
		{OK "x-docker-container-path-stat:abc\r\nTransfer-Encoding: chunked\r\n\r\n", "abc",
		 HTTP_OVER},
		{OK "\r\n", NULL, HTTP_OVER},
		{OK STAT "abc\r\n" STAT "abc\r\n\r\n", NULL, HTTP_BAD},
	};

	is_head = true;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct was_read got;

		read_all(&got, rows[i].text, strlen(rows[i].text), 3);
		assert_int_equal(got.http.state, rows[i].state);
		assert_int_equal(got.n_body, 0);
		if (rows[i].stat)
			assert_string_equal(got.http.path_stat, rows[i].stat);
		else
			assert_null(got.http.path_stat);
	}
	is_head = false;
}

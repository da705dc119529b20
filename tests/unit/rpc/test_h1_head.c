/* SPDX-License-Identifier: Apache-2.0 */
#include "../unit.h"
#include "rpc/h1_head.h"

static enum h1_head_result read_text(const char *text, struct h1_head *head, int *http)
{
	struct error err;

	return h1_head_read(text, strlen(text), head, http, &err);
}

static const char whole[] = "POST /holdfast.v1.Volumes/Get HTTP/1.1\r\n"
			    "Host: localhost\r\n"
			    "Content-Type: application/json\r\n"
			    "Content-Length: 12\r\n"
			    "Connect-Timeout-Ms:\t5 \r\n"
			    "\r\n";

TEST(a_request_is_read_when_its_head_is_whole_and_not_before)
{
	struct h1_head head;
	int http = 0;

	for (size_t n = 0; n < sizeof(whole) - 1; n++)
		assert_int_equal(h1_head_read(whole, n, &head, &http, NULL), H1_HEAD_MORE);
	assert_int_equal(h1_head_read(whole, sizeof(whole) - 1, &head, &http, NULL), H1_HEAD_WHOLE);
	assert_int_equal(head.size, sizeof(whole) - 1);
	assert_int_equal(head.content_length, 12);
	assert_false(head.close);
	assert_false(head.expects_continue);
	assert_string_equal(head.request.method, "POST");
	assert_string_equal(head.request.path, "/holdfast.v1.Volumes/Get");
	assert_int_equal(head.request.kind, REQUEST_JSON);
	assert_true(head.request.has_timeout);
	assert_int_equal(head.request.timeout_us, 5000);
	assert_false(request_head_is_malformed(&head.request));
}

TEST(bytes_after_the_head_are_not_read)
{
	struct h1_head head;
	int http = 0;

	assert_int_equal(read_text("GET / HTTP/1.1\r\nhost: a\r\n\r\n\n\n\x01", &head, &http), H1_HEAD_WHOLE);
	assert_int_equal(head.size, strlen("GET / HTTP/1.1\r\nhost: a\r\n\r\n"));
}

TEST(options_of_the_connection_are_seen)
{
	struct h1_head head;
	int http = 0;

	assert_int_equal(
		read_text("GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Close\r\n\r\n", &head, &http),
		H1_HEAD_WHOLE);
	assert_true(head.close);
	assert_int_equal(read_text("GET / HTTP/1.1\r\nHost: a\r\nConnection: closed\r\n\r\n", &head, &http),
			 H1_HEAD_WHOLE);
	assert_false(head.close);
	assert_int_equal(read_text("GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\n\r\n", &head, &http),
			 H1_HEAD_WHOLE);
	assert_true(head.expects_continue);
}

TEST(an_ambiguous_head_is_refused)
{
	static const struct row {
		const char *text;
		int http;
	} rows[] = {
		{"\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400},
		{"GET / HTTP/1.0\r\nHost: a\r\n\r\n", 505},
		{"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505},
		{"GET / http/1.1\r\nHost: a\r\n\r\n", 505},
		{"GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 505},
		{"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 505},
		{"GET /\r\nHost: a\r\n\r\n", 400},
		{" GET / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"G@T / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"GET / HTTP/1.1\nHost: a\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n folded\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nHost: a\r\n: empty\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nHost: a\r\n:path: /x\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nHost: a\r\nX: \x01\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1234567890123456\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 501},
		{"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTRANSFER-ENCODING: x\r\n\r\n", 501},
		{"GET / HTTP/1.1\r\nHost: a\r\nExpect: the unexpected\r\n\r\n", 417},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct h1_head head;
		int http = 0;

		assert_msg(read_text(rows[i].text, &head, &http) == H1_HEAD_BAD && http == rows[i].http,
			   "%d for %s", http, rows[i].text);
	}
}

TEST(bytes_that_are_no_text_are_refused)
{
	static const char nul[] = "GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n";
	static const char nul_name[] = "GET / HTTP/1.1\r\nHo\0st: a\r\n\r\n";
	struct h1_head head;
	int http = 0;

	assert_int_equal(h1_head_read(nul, sizeof(nul) - 1, &head, &http, NULL), H1_HEAD_BAD);
	assert_int_equal(h1_head_read(nul_name, sizeof(nul_name) - 1, &head, &http, NULL), H1_HEAD_BAD);
}

TEST(a_head_may_be_as_large_as_the_limit_and_no_larger)
{
	static const char begin[] = "GET / HTTP/1.1\r\nHost: a\r\nX: ";
	static const uint8_t end[4] = {'\r', '\n', '\r', '\n'};

	for (size_t n = H1_HEAD_MAX; n <= H1_HEAD_MAX + 1; n++) {
		cleanup_free char *text = NON_NULL(malloc(n));
		struct h1_head head;
		int http = 0;

		memset(text, 'x', n);
		memcpy(text, begin, sizeof(begin) - 1);
		memcpy(text + n - sizeof(end), end, sizeof(end));
		assert_int_equal(h1_head_read(text, n, &head, &http, NULL),
				 n == H1_HEAD_MAX ? H1_HEAD_WHOLE : H1_HEAD_BAD);
		assert_int_equal(http, n == H1_HEAD_MAX ? 0 : 431);
		assert_int_equal(h1_head_read(text, H1_HEAD_MAX - 1, &head, &http, NULL), H1_HEAD_MORE);
	}
}

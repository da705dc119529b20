/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The answer to one HTTP/1.1 request, read as its bytes come, wherever they are cut. Pure.
 *
 * An answer has one form, or it is bad: one length at most, chunks or a length and not both, no folded lines,
 * lines that end in CRLF. Interim answers (1xx) but 101 are passed over, trailers are read and dropped.
 * Source: RFC 9112, sections 2 to 7. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HTTP_HEAD_MAX = 16 << 10, HTTP_LINE_MAX = 64 };

enum http_state {
	HTTP_HEAD,
	HTTP_BODY,    /* of `left` bytes */
	HTTP_REST,    /* until the connection ends */
	HTTP_SIZE,    /* of the next chunk */
	HTTP_CHUNK,   /* `left` bytes of one */
	HTTP_CRLF,    /* behind it */
	HTTP_TRAILER, /* lines up to an empty one */
	HTTP_OVER,
	HTTP_BAD,
};

struct http_answer {
	enum http_state state;
	int code;	       /* 200; 0 before the head was read */
	bool is_head;	       /* of a HEAD request: a length in the head is not that of a body */
	const char *path_stat; /* in the head: X-Docker-Container-Path-Stat; NULL: it was not there */
	uint64_t left;
	size_t n; /* bytes in head, or in line; of trailers: all */
	char head[HTTP_HEAD_MAX + 1];
	char line[HTTP_LINE_MAX + 1];
};

/* Begin with {.state = HTTP_HEAD}, and is_head. */

/** Read on: consume some of the @n bytes, @n > 0, while the answer is neither over nor bad.
 * @ret_body, @ret_n_body bytes of the body among those that were consumed, often 0: look each time
 * @return how many were consumed, at least 1 */
size_t http_answer_read(struct http_answer *answer, const char *bytes, size_t n, const char **ret_body,
			size_t *ret_n_body);

/** The connection has ended: is that the answer's end? */
bool http_answer_may_end(const struct http_answer *answer);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The head of one HTTP/1.1 request, read strictly: what two programs could read differently is refused.
 *
 * Pure. No HTTP/1.0, no chunked bodies, no folded lines, no bare line feeds. Source: RFC 9112. */

#include "base/error.h"
#include "rpc/request_head.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { H1_HEAD_MAX = 16 * 1024 }; /* bytes, the empty line included */

struct h1_head {
	struct request_head request;
	size_t size; /* of the head, the empty line included */
	uint64_t content_length;
	bool close;	       /* the client wants the connection closed afterwards */
	bool expects_continue; /* the client waits for 100 before it sends the body */
};

enum h1_head_result {
	H1_HEAD_MORE,  /* the head is not complete */
	H1_HEAD_WHOLE, /* *ret is set */
	H1_HEAD_BAD,   /* @ret_http and @err have the cause; the connection cannot continue */
};

enum h1_head_result h1_head_read(const char *bytes, size_t n, struct h1_head *ret, int *ret_http,
				 struct error *err);

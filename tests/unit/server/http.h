/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One request over HTTP/1.1 and TLS, as curl would send it, to the server of a fixture. */

#include "cluster.h"

enum { HTTP_ANSWER_SIZE = 64 * 1024 };

struct http_request {
	const char *cert; /* of the fixture's folder, "operator"; NULL: none */
	const char *method, *target;
	const char *body; /* NULL: none */
	const char *token;
	const char *header; /* one more, with its line end; NULL: none */
};

/** The whole answer, head and body, NUL-terminated; valid until the next call. Empty when there was none. */
const char *http_send(struct fixture *f, const struct http_request *request);

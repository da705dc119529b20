/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The header fields of an answer that matter to a gRPC client, from headers and trailers alike. Pure. */

#include "rpc/grpc_status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Plugins send whole stack traces, percent-encoded. */
enum { RESPONSE_HEADERS_MAX = 64 * 1024 };

/* Comes with an error: the call has changed nothing, and may be repeated at any server. */
#define RPC_UNCHANGED_HEADER "holdfast-unchanged"

/* A packed message that came with an error; bytes is NULL without one. */
struct details {
	uint8_t *bytes; /* owned */
	size_t n;
};

void details_release(struct details *details);

struct response_head {
	size_t bytes; /* header list size so far */
	int http_status;
	bool is_grpc; /* content type */
	bool has_status;
	enum status status;
	char message[ERROR_MSG_MAX];
	bool has_changed_nothing; /* the server's status of the call */
	struct details details;
};

void response_head_release(struct response_head *head);

void response_head_add(struct response_head *head, const uint8_t *name, size_t name_len, const uint8_t *value,
		       size_t value_len);

/** Is there an error that the server sent? */
bool response_head_is_error(const struct response_head *head);

/** The server's result of a call whose stream ended well. @what names the call in our own messages. */
enum status response_head_status(const struct response_head *head, const char *what, struct error *err);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The header fields of a request that matter, collected and checked; everything else is only counted.
 *
 * Pure. Used for HTTP/2 (also where nghttp2's own checks are off, so that a client may send a socket's path
 * as :authority) and for HTTP/1.1. Source: RFC 9113 section 8.3, grpc/doc/PROTOCOL-HTTP2.md. */

#include "base/error.h"
#include "rpc/bearer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RPC_CALLER_HEADER "holdfast-caller" /* see rpc/caller.h */

enum {
	REQUEST_HEADERS_MAX = 16 * 1024, /* header list size of RFC 9113: names, values and 32 for each */
	REQUEST_PATH_MAX = 1023,	 /* with its query */
	REQUEST_METHOD_MAX = 15,
	REQUEST_SECRETS_MAX = 1023, /* of x-nomad-csi-secrets; more fit a body */
	REQUEST_CALLER_MAX = 559,   /* of holdfast-caller */
};

enum request_kind {
	REQUEST_OTHER, /* an unsupported or missing content type */
	REQUEST_GRPC,
	REQUEST_JSON,
};

struct request_head {
	size_t bytes;	   /* header list size so far */
	unsigned int seen; /* pseudo headers, a bit each */
	bool regular;	   /* a field that is no pseudo header has come */
	bool malformed;
	bool encoded;	  /* compressed in some way */
	bool bad_timeout; /* a timeout that cannot be read */
	bool bad_token;	  /* credentials that cannot be read, or two that differ */
	bool bad_secrets; /* too long, not text, or given twice */
	bool bad_caller;  /* likewise */
	bool has_timeout;
	bool is_of_page; /* a web page has the browser send it: RFC 6454 section 7 */
	bool long_path;
	uint64_t timeout_us;
	enum request_kind kind;
	char method[REQUEST_METHOD_MAX + 1]; /* cut when longer, which then is no method we know */
	char path[REQUEST_PATH_MAX + 1];     /* empty when longer */
	char token[BEARER_MAX + 1]; /* of a person; may be empty. A secret: in no message and no log */
	char caller[REQUEST_CALLER_MAX + 1]; /* for whom it is made, see rpc/caller.h; empty: for the peer */
	char secrets[REQUEST_SECRETS_MAX + 1]; /* "k=v,k=v" as tools for Nomad send them; likewise */
};

/** Take one field of an HTTP/2 header block. */
void request_head_add(struct request_head *head, const uint8_t *name, size_t name_len, const uint8_t *value,
		      size_t value_len);

/** Is this something that must be answered by resetting the stream: pseudo headers missing, doubled, unknown
 * or late? */
bool request_head_is_malformed(const struct request_head *head);

/** Is this a request for any of our addresses, with any method and content? Parameters as below. */
enum status request_head_check_form(const struct request_head *head, int *ret_http, struct error *err);

/** Is this a call that can be dispatched? Otherwise @ret_http is the HTTP status of the refusal for clients
 * without gRPC, and the rest is for gRPC clients. */
enum status request_head_check(const struct request_head *head, int *ret_http, struct error *err);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* An answer that is no gRPC: one body, by HTTP/1.1 or HTTP/2. */

#include "base/error.h"
#include "rpc/route.h"

#include <protobuf-c/protobuf-c.h>

struct plain_answer {
	int http_status;
	const char *content_type;
	const char *body;
	char allow[ROUTE_ALLOW_SIZE]; /* for a 405 */
	char index[24];		      /* of the answer; may be empty */
};

/** Connect's JSON of an error with @details (may be NULL); NULL without memory. Owned by the caller, free().
 */
char *plain_error_body(const struct error *err, const ProtobufCMessage *details);

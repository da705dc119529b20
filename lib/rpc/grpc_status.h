/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Status codes on the wire: grpc-status and grpc-message, HTTP statuses, HTTP/2 error codes, Connect's names.
 *
 * Pure. Source: grpc/doc/PROTOCOL-HTTP2.md, grpc/doc/http-grpc-status-mapping.md,
 * connectrpc.com/docs/protocol. */

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* Room for every error message, percent-encoded, with its NUL. */
enum { GRPC_MESSAGE_SIZE = 3 * (ERROR_MSG_MAX - 1) + 1 };

/** Percent-encode @message, cut at an encoded byte if @dst of @size is too small; it neither begins nor ends
 * with a space. Returns the length. */
size_t grpc_message_encode(char *dst, size_t size, const char *message);

/** Percent-decode @n bytes into @dst of @size, NUL-terminated, cut between UTF-8 characters. A broken escape
 * is copied, a NUL becomes '?'. Returns the length. */
size_t grpc_message_decode(char *dst, size_t size, const uint8_t *bytes, size_t n);

/** The value of a grpc-status header; STATUS_UNKNOWN if it is no number. */
enum status grpc_status_parse(const uint8_t *bytes, size_t n);

/** For an answer without grpc-status. 200 is STATUS_UNKNOWN: such an answer is incomplete. */
enum status status_from_http(int http_status);

/** For a stream that was reset with an HTTP/2 error code. */
enum status status_from_h2(uint32_t h2_code);

/** HTTP status of an error in Connect's unary protocol. */
int connect_http_status(enum status status);

/** Connect's name of an error code, "not_found". */
const char *connect_code(enum status status);

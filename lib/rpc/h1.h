/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* HTTP/1.1 on a server's connection, for JSON calls by tools that speak nothing else: one request at a time,
 * bodies with a Content-Length only. */

#include "base/error.h"
#include "rpc/transport.h"

#include <stddef.h>
#include <stdint.h>

struct h1;
struct rpc_call;
struct server_conn;

/** @conn borrowed, outlives it */
enum status h1_new(struct server_conn *conn, struct h1 **ret, struct error *err);

/** The call in progress must be gone: h1_abort(). From h1_dispatch() too. NULL is allowed. */
void h1_free(struct h1 *h1);

/** Bytes from the client; not OK when it sends too much while it waits for an answer. */
enum status h1_recv(struct h1 *h1, const uint8_t *bytes, size_t n, struct error *err);

/** The on_fill of the connection. */
enum status h1_fill(struct h1 *h1, struct transport *tr, struct error *err);

/** At the edge of the loop: begin, feed and end calls. */
void h1_dispatch(struct h1 *h1);

/** The connection is lost. */
void h1_abort(struct h1 *h1);

/** Bytes of requests and answers that it holds. */
size_t h1_held(const struct h1 *h1);

struct plain_answer;

/** Answer the call in progress. */
void h1_respond(struct h1 *h1, const struct plain_answer *answer);

/** The call in progress is gone, or its handler's alone. */
void h1_forget(struct h1 *h1, const struct rpc_call *call);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* HTTP/1.1 on a server's connection, for JSON calls by tools that speak nothing else: one request at a time,
 * bodies with a Content-Length only. */

#include "base/error.h"
#include "rpc/h2.h"
#include "rpc/plain_answer.h"
#include "rpc/request_head.h"
#include "rpc/transport.h"

#include <stddef.h>
#include <stdint.h>

struct h1;

struct h1_ops {
	/* A request begins; its body comes with the stream. NULL: memory is short. */
	struct h2_stream *(*on_begin)(void *userdata, struct h1 *h1, const struct request_head *head);
	/* From h1_dispatch() and h1_abort(): received bytes or flags of the stream have changed. */
	void (*on_ready)(struct h2_stream *stream);
	/* There is something to send or to dispatch. */
	void (*on_wake)(void *userdata);
	/* The connection is beyond repair. */
	void (*on_fail)(void *userdata, const struct error *why);
};

/** @ops and @userdata borrowed, outlive it
 * @body_max bytes of a request */
enum status h1_new(const struct h1_ops *ops, size_t body_max, void *userdata, struct h1 **ret,
		   struct error *err);

/** The call in progress must be gone: h1_abort(). From h1_dispatch() too. NULL is allowed. */
void h1_free(struct h1 *h1);

/** Bytes from the client; not OK when it sends too much while it waits for an answer. */
enum status h1_recv(struct h1 *h1, const uint8_t *bytes, size_t n, struct error *err);

/** The on_fill of the connection. */
enum status h1_fill(struct h1 *h1, struct transport *tr, struct error *err);

/** At the edge of the loop: begin, feed and end calls, until @end_us, of the monotonic clock. Returns whether
 * there may be more. */
bool h1_dispatch(struct h1 *h1, uint64_t end_us);

/** The connection is lost. */
void h1_abort(struct h1 *h1);

/** Bytes of requests and answers that it holds. */
size_t h1_held(const struct h1 *h1);

/** Answer the call in progress. */
void h1_respond(struct h1 *h1, const struct plain_answer *answer);

/** The call in progress is gone, or only its handler has it. */
void h1_forget(struct h1 *h1, const struct h2_stream *stream);

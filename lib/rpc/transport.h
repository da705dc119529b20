/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A connected socket, with TLS or without, as a pipe for bytes on a poller.
 *
 * The owner is called in stages that never nest: on_bytes and on_fill move bytes through its protocol,
 * on_edge lets it run the consequences, and on_down is the end. All are called from the event loop, never
 * from inside a function of this header. */

#include "base/error.h"
#include "rpc/poller.h"

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct transport;

/* All that return a status end the connection when it is not OK. */
struct transport_ops {
	/* TLS has shaken hands; at once without TLS */
	enum status (*on_up)(void *userdata, struct error *err);
	enum status (*on_bytes)(void *userdata, const uint8_t *bytes, size_t n, struct error *err);
	/* append the bytes to send by transport_put() until transport_is_full() or nothing is left */
	enum status (*on_fill)(void *userdata, struct error *err);
	/* Nothing of the protocol is on the stack: run handlers, which may do anything, and start them up to
	 * @end_us of the monotonic clock. Returns whether some are left: nothing is read before they have
	 * run. */
	bool (*on_edge)(void *userdata, uint64_t end_us);
	/* The connection is gone; once, from the edge. The owner frees the transport. @why is UNAUTHENTICATED
	 * when the other side's certificate was refused, FAILED_PRECONDITION for other quarrels about TLS. */
	void (*on_down)(void *userdata, const struct error *why);
};

/** Take over @fd, a connected non-blocking socket, and @ssl (NULL: no TLS) on it; also on failure.
 * on_up follows from the event loop. */
enum status transport_new(struct poller *poller, int fd, SSL *ssl, const struct transport_ops *ops,
			  void *userdata, struct transport **ret, struct error *err);

/** Close at once, without on_down; from on_edge and on_down too. Bytes that on_fill still has are sent if the
 * socket takes them, so the owner frees its protocol afterwards. NULL is allowed. */
void transport_free(struct transport *tr);

/** Have it served by another poller from its next turn on. */
void transport_move(struct transport *tr, struct poller *to);

/** There is something to fill or run: on_fill and on_edge follow from the event loop. */
void transport_wake(struct transport *tr);

/** End the connection: on_down follows from the event loop. The first reason counts. */
void transport_fail(struct transport *tr, const struct error *why);

/** Append bytes for the peer; false when memory is short. Only from on_fill. */
bool transport_put(struct transport *tr, const void *bytes, size_t n);
bool transport_is_full(const struct transport *tr);

/** Bytes that were put and that the socket has not taken. */
size_t transport_queued(const struct transport *tr);

/** Has the peer sent anything, read or not? */
bool transport_has_heard(const struct transport *tr);

/** Monotonic time of the last byte received, or of the start. */
uint64_t transport_last_rx_us(const struct transport *tr);

const SSL *transport_ssl(const struct transport *tr);

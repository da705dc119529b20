/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One end of an HTTP/2 connection on nghttp2: streams with bounded buffers, no input or output of its own.
 *
 * nghttp2's callbacks only collect. The consequences run in h2_dispatch(), where nothing of nghttp2 is on the
 * stack and the owner of a stream may do anything, freeing everything included. */

#include "base/error.h"
#include "rpc/byteq.h"

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct h2;

/* Embedded in the owner's call. Initialise with H2_STREAM_INIT. */
struct h2_stream {
	struct h2 *h2; /* NULL once closed or detached */
	void *owner;
	int32_t id;
	struct byteq in;      /* received and not yet taken with h2_stream_take() */
	struct byteq out;     /* not yet sent */
	bool out_end;	      /* nothing is added to out any longer */
	bool out_waits;	      /* nghttp2 asked for data when out was empty */
	bool trailers;	      /* on_trailers is called when out is empty and at its end */
	bool headers_in;      /* the first header block has arrived */
	bool was_reset;	      /* by the peer */
	bool in_end;	      /* the peer has finished sending */
	bool in_overflow;     /* the connection's limit was reached; what came then is lost */
	bool is_paused;	      /* see h2_stream_pause() */
	bool is_paced;	      /* see h2_stream_pace() */
	bool is_wide;	      /* the peer has the large window */
	size_t withheld;      /* bytes that have come and whose window was not returned, while paused */
	size_t drain_at;      /* on_ready is called when out has so few bytes again; 0: it is not */
	bool is_draining;     /* server: our answer has ended, and the peer still sends */
	size_t drained_bytes; /* that it has sent since */
	size_t head_bytes;    /* of the header fields received */
	bool closed;	      /* nghttp2 has forgotten the stream */
	bool is_ready;
	uint32_t close_code; /* of HTTP/2; valid when closed */
	TAILQ_ENTRY(h2_stream) ready;
	LIST_ENTRY(h2_stream) all;
};

#define H2_STREAM_INIT(owner_)                                         \
	{                                                              \
		.owner = (owner_), .in = BYTEQ_INIT, .out = BYTEQ_INIT \
	}

struct h2_ops {
	/* Server: a request begins. NULL refuses the stream. */
	struct h2_stream *(*on_begin)(void *userdata);
	void (*on_header)(struct h2_stream *stream, const uint8_t *name, size_t name_len,
			  const uint8_t *value, size_t value_len);
	/* One header block is complete. Returns whether it was the first one that counts (not 1xx). */
	bool (*on_headers)(struct h2_stream *stream);
	/* All is sent: submit the trailers with h2_stream_trailers(). */
	void (*on_trailers)(struct h2_stream *stream);
	/* From h2_dispatch(): something above has changed. */
	void (*on_ready)(struct h2_stream *stream);
	/* There is something to send or to dispatch. */
	void (*on_wake)(void *userdata);
	/* May @n bytes more of a body be held, in or out, in addition to held_max? NULL: always. */
	enum status (*on_hold)(void *userdata, size_t n, struct error *err);
	/* Client: the server takes no new requests on this connection. */
	void (*on_goaway)(void *userdata);
};

struct h2_config {
	bool server;
	bool lax;	     /* pseudo headers are the owner's to check */
	bool is_shared;	     /* server: the peer calls for many, and limits what each of them resets */
	size_t held_max;     /* bytes in all buffers of all streams */
	uint32_t streams;    /* server: concurrent streams */
	uint32_t header_max; /* announced to the peer; the owner counts, and gets up to twice as many */
};

enum status h2_new(const struct h2_config *config, const struct h2_ops *ops, void *userdata, struct h2 **ret,
		   struct error *err);

/** Has a client used up the numbers of its requests? The connection takes no further one. */
bool h2_is_used_up(struct h2 *h2);

/** Every stream must have been detached. From on_ready too. NULL is allowed. */
void h2_free(struct h2 *h2);

/** Bytes from the peer. Not OK when the connection is beyond repair. */
enum status h2_recv(struct h2 *h2, const uint8_t *bytes, size_t n, struct error *err);

/** Next bytes for the peer, valid until the next call; *@ret_n is 0 without any.
 * STATUS_UNAVAILABLE when the connection has ended, or the peer floods us. */
enum status h2_send(struct h2 *h2, const uint8_t **ret, size_t *ret_n, struct error *err);

/** Bytes of memory that the connection takes for bodies, headers and its own frames. */
size_t h2_held(const struct h2 *h2);

/** Run on_ready of every stream that has changed, up to @end_us of the monotonic clock. Returns whether some
 * are left. When the connection is lost, it runs all. */
bool h2_dispatch(struct h2 *h2, uint64_t end_us);

/** From on_ready: is the time of h2_dispatch() over? */
bool h2_stream_is_late(const struct h2_stream *stream);

/** The connection is lost: every stream is closed and ready. */
void h2_abort(struct h2 *h2);

/** Notify the peer that this is the end. */
void h2_goaway(struct h2 *h2);

/** Server, at the beginning: refuse all requests with @why. The connection stays, so that no reset takes the
 * reason away: the owner ends it if the peer does not. */
void h2_refuse(struct h2 *h2, const char *why);

/** Client: has the request left, or does it wait until the server allows another one? */
bool h2_stream_is_sent(const struct h2_stream *stream);

/** Client: the server's reason for taking no further requests; "" without one. */
const char *h2_goaway_reason(const struct h2 *h2);

/** For tests, which have it do what the other functions never would. */
nghttp2_session *h2_session(struct h2 *h2);

enum status h2_ping(struct h2 *h2, struct error *err);

/** Client: start a request whose body comes by h2_stream_write(). */
enum status h2_stream_request(struct h2 *h2, struct h2_stream *stream, const nghttp2_nv *headers, size_t n,
			      struct error *err);

/** Server: answer with headers; @body: out follows, up to h2_stream_end(), and trailers when stream->trailers
 * is set. A failure closes the stream. */
void h2_stream_respond(struct h2_stream *stream, const nghttp2_nv *headers, size_t n, bool body);

struct h2_bytes {
	const void *bytes;
	size_t n;
};

/** Add to the body; all or nothing. STATUS_RESOURCE_EXHAUSTED above the connection's limit, or paced
 * streams', STATUS_UNAVAILABLE when the stream is closed. */
enum status h2_stream_write(struct h2_stream *stream, const struct h2_bytes *parts, size_t n_parts,
			    struct error *err);

/** The body is complete. */
void h2_stream_end(struct h2_stream *stream);

void h2_stream_trailers(struct h2_stream *stream, const nghttp2_nv *headers, size_t n);

/** Do more than @high bytes of it wait to be sent, or some while the connection holds an eighth of what it
 * may? Then on_ready is called when about half of them have gone. */
bool h2_stream_is_full(struct h2_stream *stream, size_t high);

/** The received bytes are not enough for a message: the peer may send as much again as a window has. */
void h2_stream_want_more(struct h2_stream *stream);

/** The stream may be paused from now on: little comes ahead of its reader, and it leaves room to others. */
void h2_stream_pace(struct h2_stream *stream);

/** Limit the peer to its window, or let it send as much as it wants again. Other streams continue. */
void h2_stream_pause(struct h2_stream *stream, bool is_paused);

/** Drop @n bytes of stream->in. */
void h2_stream_take(struct h2_stream *stream, size_t n);

/** Have on_ready called. */
void h2_stream_wake(struct h2_stream *stream);

/** Reset the stream. */
void h2_stream_reset(struct h2_stream *stream, uint32_t code);

/** The owner releases the stream; it must not be used afterwards. The part that nghttp2 still holds is reset.
 */
void h2_stream_detach(struct h2_stream *stream);

/** A header from NUL-terminated strings that outlive the call it is given to. @value is the caller's to
 * check: it has no control character, and neither begins nor ends with a blank. */
nghttp2_nv h2_header(const char *name, const char *value);

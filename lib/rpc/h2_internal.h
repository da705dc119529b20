/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Shared by h2.c (the connection) and h2_stream.c (its streams). */

#include "rpc/h2.h"
#include "rpc/h2_mem.h"

struct h2 {
	nghttp2_session *session;
	struct h2_mem mem; /* the session's */
	struct h2_config config;
	const struct h2_ops *ops;
	void *userdata;
	struct byteq frame; /* with a piece of a body, to be sent next */
	size_t held;	    /* bytes in the buffers of all streams */
	size_t n_late;	    /* streams that are late */
	size_t n_oversized; /* streams that were reset for their headers */
	char *farewell;	    /* of the peer; NULL: none */
	char *quarrel;	    /* what the peer did wrong, so that we ended the connection; NULL: nothing */
	bool refuses;	    /* the end is for the peer to make */
	bool dispatching;
	bool doomed; /* freed by its owner while dispatching */
	TAILQ_HEAD(, h2_stream) ready;
	LIST_HEAD(, h2_stream) streams;
};

/* May @n bytes more be held? */
enum status h2_hold(struct h2 *h2, size_t n, struct error *err);

void h2_adopt(struct h2 *h2, struct h2_stream *stream, int32_t id);

/* Take @stream off the list of those that have changed. */
void h2_stream_unmark(struct h2_stream *stream);

/* It is not late any more. */
void h2_stream_unlate(struct h2 *h2, struct h2_stream *stream);

/* nghttp2 is done with the stream. */
void h2_stream_close(struct h2_stream *stream, uint32_t code);

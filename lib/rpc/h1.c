/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/h1.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "rpc/h1_head.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
	AHEAD_MAX = 64 * 1024, /* bytes sent ahead of the answer to an earlier request */
	RESPONSE_NUMBER_SIZE = 32,
};

struct h1 {
	const struct h1_ops *ops;
	void *userdata;
	size_t body_max;
	struct byteq in;	  /* not yet looked at */
	struct byteq out;	  /* not yet with the transport */
	struct h2_stream *stream; /* of the call in progress, or NULL */
	bool is_head;		  /* what it asks for */
	uint64_t body_left;	  /* of the request in progress, still to come; may outlive the call */
	bool close;		  /* after the answer to the request in progress */
	bool ending;		  /* that answer is in out */
	bool dispatching;
	bool doomed; /* freed while dispatching */
};

enum status h1_new(const struct h1_ops *ops, size_t body_max, void *userdata, struct h1 **ret,
		   struct error *err)
{
	struct h1 *h1 = malloc(sizeof(*h1));

	if (!h1)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "start HTTP/1.1");
	*h1 = (struct h1){
		.ops = ops,
		.userdata = userdata,
		.body_max = body_max,
		.in = BYTEQ_INIT,
		.out = BYTEQ_INIT,
	};
	*ret = h1;
	return STATUS_OK;
}

void h1_free(struct h1 *h1)
{
	if (!h1)
		return;
	assert(!h1->stream);
	if (h1->dispatching) {
		h1->doomed = true;
		return;
	}
	byteq_release(&h1->in);
	byteq_release(&h1->out);
	free(h1);
}

enum status h1_recv(struct h1 *h1, const uint8_t *bytes, size_t n, struct error *err)
{
	if (h1->ending)
		return STATUS_OK; /* the rest is not read */
	if (byteq_len(&h1->in) + n > AHEAD_MAX || !byteq_put(&h1->in, bytes, n))
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "too many requests are sent ahead");
	h1->ops->on_wake(h1->userdata);
	return STATUS_OK;
}

enum status h1_fill(struct h1 *h1, struct transport *tr, struct error *err)
{
	size_t n = byteq_len(&h1->out);

	if (n > 0 && !transport_put(tr, byteq_data(&h1->out), n))
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "send");
	byteq_take(&h1->out, n);
	if (h1->ending && transport_queued(tr) == 0)
		return error_set(err, STATUS_UNAVAILABLE, 0, "the last answer is sent");
	return STATUS_OK;
}

size_t h1_held(const struct h1 *h1)
{
	return byteq_len(&h1->in) + byteq_len(&h1->out) + (h1->stream ? byteq_len(&h1->stream->in) : 0);
}

static void put(struct h1 *h1, const char *text)
{
	struct error err;

	if (!byteq_put(&h1->out, text, strlen(text))) {
		(void)error_set(&err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "answer");
		h1->ops->on_fail(h1->userdata, &err);
	}
}

static void put_field(struct h1 *h1, const char *name, const char *value)
{
	put(h1, name);
	put(h1, ": ");
	put(h1, value);
	put(h1, "\r\n");
}

static void put_response(struct h1 *h1, const struct plain_answer *answer)
{
	char number[RESPONSE_NUMBER_SIZE];

	(void)snprintf(number, sizeof(number), "HTTP/1.1 %d ", answer->http_status);
	put(h1, number);
	put(h1, answer->http_status == 200 ? "OK\r\n" : "Error\r\n");
	put_field(h1, "content-type", answer->content_type);
	(void)snprintf(number, sizeof(number), "%zu", strlen(answer->body));
	put_field(h1, "content-length", number);
	if (answer->allow[0] != '\0')
		put_field(h1, "allow", answer->allow);
	if (answer->index[0] != '\0') {
		put_field(h1, "x-holdfast-index", answer->index);
		put_field(h1, "x-nomad-index", answer->index);
	}
	if (h1->close)
		put_field(h1, "connection", "close");
	put(h1, "\r\n");
	put(h1, answer->body);
	h1->ending = h1->close;
	h1->ops->on_wake(h1->userdata);
}

void h1_respond(struct h1 *h1, const struct plain_answer *answer)
{
	/* only the end of the connection shows the end of a body whose length HEAD leaves open */
	h1->close |= answer->http_status == 405 || h1->is_head;
	put_response(h1, answer);
	h1->stream->closed = true;
}

void h1_forget(struct h1 *h1, const struct h2_stream *stream)
{
	assert(h1->stream == stream);
	h1->stream = NULL;
}

/* Refuse input that is no request, or cannot be read to its end. */
static void refuse(struct h1 *h1, int http_status, const struct error *err)
{
	cleanup_free char *body = NULL;

	h1->close = true;
	h1->body_left = 0;
	byteq_take(&h1->in, byteq_len(&h1->in));
	body = plain_error_body(err, NULL);
	put_response(h1, &(struct plain_answer){.http_status = http_status,
						.content_type = "application/json",
						.body = body ? body : "{}"});
}

/* Begin the request whose head is at the front, if it is there. Returns whether something has happened. */
static bool h1_begin(struct h1 *h1)
{
	size_t max = h1->body_max;
	struct h2_stream *stream;
	struct h1_head head;
	struct error err;
	int http = 0;

	switch (h1_head_read((const char *)byteq_data(&h1->in), byteq_len(&h1->in), &head, &http, &err)) {
	case H1_HEAD_MORE:
		return false;
	case H1_HEAD_BAD:
		refuse(h1, http, &err);
		return false;
	case H1_HEAD_WHOLE:
		break;
	}
	if (head.content_length > max) {
		(void)error_set(&err, STATUS_RESOURCE_EXHAUSTED, 0, "the request has more than %zu bytes",
				max);
		refuse(h1, 413, &err);
		return false;
	}
	if (head.request.kind == REQUEST_GRPC)
		head.request.kind = REQUEST_OTHER; /* it needs trailers */
	stream = h1->ops->on_begin(h1->userdata, h1, &head.request);
	if (!stream) {
		(void)error_set(&err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "take a request");
		refuse(h1, 503, &err);
		return false;
	}
	byteq_take(&h1->in, head.size);
	h1->stream = stream;
	h1->is_head = str_eq(head.request.method, "HEAD");
	h1->body_left = head.content_length;
	h1->close = head.close;
	if (head.expects_continue && head.content_length > 0)
		put(h1, "HTTP/1.1 100 Continue\r\n\r\n");
	stream->headers_in = true;
	stream->in_end = h1->body_left == 0;
	h1->ops->on_ready(stream);
	return true;
}

/* Move the received part of the body to the call, or past it if the call was answered before. */
static bool feed(struct h1 *h1)
{
	size_t n = byteq_len(&h1->in);

	if (n > h1->body_left)
		n = (size_t)h1->body_left;
	if (n == 0)
		return false;
	h1->body_left -= n;
	if (h1->stream) {
		struct h2_stream *stream = h1->stream;

		stream->in_overflow |= !byteq_put(&stream->in, byteq_data(&h1->in), n);
		stream->in_end = h1->body_left == 0;
		h1->ops->on_ready(stream);
	}
	if (!h1->doomed)
		byteq_take(&h1->in, n);
	return true;
}

static bool step(struct h1 *h1)
{
	if (h1->stream && h1->stream->closed) {
		h1->ops->on_ready(h1->stream);
		return true;
	}
	if (h1->body_left > 0)
		return feed(h1);
	return !h1->stream && !h1->close && h1_begin(h1);
}

bool h1_dispatch(struct h1 *h1, uint64_t end_us)
{
	bool is_late = false;

	if (h1->dispatching)
		return false;
	h1->dispatching = true;
	while (!h1->doomed) {
		is_late = clock_monotonic_us() >= end_us;
		if (is_late || !step(h1))
			break;
	}
	h1->dispatching = false;
	if (h1->doomed)
		h1_free(h1);
	return is_late;
}

void h1_abort(struct h1 *h1)
{
	if (!h1->stream)
		return;
	h1->stream->closed = true;
	h1->ops->on_ready(h1->stream);
}

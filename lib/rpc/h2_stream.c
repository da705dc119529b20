/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/h2.h"
#include "rpc/h2_internal.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

void h2_adopt(struct h2 *h2, struct h2_stream *stream, int32_t id)
{
	stream->h2 = h2;
	stream->id = id;
	LIST_INSERT_HEAD(&h2->streams, stream, all);
}

void h2_stream_wake(struct h2_stream *stream)
{
	struct h2 *h2 = stream->h2;

	if (!h2 || stream->is_ready)
		return;
	stream->is_ready = true;
	TAILQ_INSERT_TAIL(&h2->ready, stream, ready);
	h2->ops->on_wake(h2->userdata);
}

void h2_stream_unmark(struct h2_stream *stream)
{
	if (stream->is_ready)
		TAILQ_REMOVE(&stream->h2->ready, stream, ready);
	stream->is_ready = false;
}

void h2_stream_unlate(struct h2 *h2, struct h2_stream *stream)
{
	h2->n_late -= stream->is_late;
	stream->is_late = false;
}

void h2_stream_close(struct h2_stream *stream, uint32_t code)
{
	if (stream->closed)
		return;
	stream->closed = true;
	h2_stream_unlate(stream->h2, stream);
	stream->close_code = code;
	h2_stream_wake(stream);
}

/* The data source of every body. By id, not by pointer: the stream may have been detached since. */
static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *buf, size_t size, uint32_t *flags,
			 nghttp2_data_source *source, void *userdata)
{
	struct h2_stream *stream = nghttp2_session_get_stream_user_data(session, id);
	struct h2 *h2 = userdata;
	size_t n;

	(void)buf;
	(void)source;
	if (!stream)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	n = byteq_len(&stream->out) < size ? byteq_len(&stream->out) : size;
	if (n > 0)
		*flags |= NGHTTP2_DATA_FLAG_NO_COPY;
	if (byteq_len(&stream->out) > n)
		return (ssize_t)n;
	if (stream->out_end) {
		*flags |= NGHTTP2_DATA_FLAG_EOF;
		if (stream->trailers) {
			*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
			h2->ops->on_trailers(stream);
		}
	} else if (n == 0) {
		stream->out_waits = true;
		return NGHTTP2_ERR_DEFERRED;
	}
	return (ssize_t)n;
}

static const nghttp2_data_provider body_provider = {.source = {.ptr = NULL}, .read_callback = read_body};

enum status h2_stream_request(struct h2 *h2, struct h2_stream *stream, const nghttp2_nv *headers, size_t n,
			      struct error *err)
{
	int32_t id = nghttp2_submit_request(h2->session, NULL, headers, n, &body_provider, stream);

	assert(!stream->h2);
	if (id < 0)
		return error_set(err, STATUS_UNAVAILABLE, 0, "HTTP/2: %s", nghttp2_strerror(id));
	h2_adopt(h2, stream, id);
	h2->ops->on_wake(h2->userdata);
	return STATUS_OK;
}

void h2_stream_respond(struct h2_stream *stream, const nghttp2_nv *headers, size_t n, bool body)
{
	struct h2 *h2 = stream->h2;

	if (!h2 || stream->closed)
		return;
	if (nghttp2_submit_response(h2->session, stream->id, headers, n, body ? &body_provider : NULL) != 0)
		h2_stream_close(stream, NGHTTP2_INTERNAL_ERROR);
	h2->ops->on_wake(h2->userdata);
}

static void resume(struct h2_stream *stream)
{
	struct h2 *h2 = stream->h2;

	if (stream->out_waits) {
		stream->out_waits = false;
		/* fails only for a stream that has gone, which on_stream_close tells */
		(void)nghttp2_session_resume_data(h2->session, stream->id);
	}
	h2->ops->on_wake(h2->userdata);
}

enum status h2_stream_write(struct h2_stream *stream, const struct h2_bytes *parts, size_t n_parts,
			    struct error *err)
{
	struct h2 *h2 = stream->h2;
	enum status st;
	size_t n = 0;

	if (!h2 || stream->closed || stream->out_end)
		return error_set(err, STATUS_UNAVAILABLE, 0, "the stream has ended");
	for (size_t i = 0; i < n_parts; i++)
		n += parts[i].n;
	st = h2_hold(h2, n, err);
	if (st != STATUS_OK)
		return st;
	byteq_reserve(&stream->out, n);
	for (size_t i = 0; i < n_parts; i++) {
		if (!byteq_put(&stream->out, parts[i].bytes, parts[i].n)) {
			h2_stream_reset(stream, NGHTTP2_INTERNAL_ERROR);
			return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "send a message");
		}
		h2->held += parts[i].n;
	}
	resume(stream);
	return STATUS_OK;
}

bool h2_stream_is_sent(const struct h2_stream *stream)
{
	return stream->h2 && nghttp2_session_find_stream(stream->h2->session, stream->id) != NULL;
}

void h2_stream_end(struct h2_stream *stream)
{
	if (!stream->h2 || stream->out_end)
		return;
	stream->out_end = true;
	if (!stream->closed)
		resume(stream);
}

void h2_stream_trailers(struct h2_stream *stream, const nghttp2_nv *headers, size_t n)
{
	if (nghttp2_submit_trailer(stream->h2->session, stream->id, headers, n) != 0)
		h2_stream_reset(stream, NGHTTP2_INTERNAL_ERROR);
}

void h2_stream_take(struct h2_stream *stream, size_t n)
{
	byteq_take(&stream->in, n);
	if (stream->h2)
		stream->h2->held -= n;
}

void h2_stream_reset(struct h2_stream *stream, uint32_t code)
{
	if (!stream->h2 || stream->closed)
		return;
	if (nghttp2_submit_rst_stream(stream->h2->session, NGHTTP2_FLAG_NONE, stream->id, code) != 0)
		h2_stream_close(stream, code);
	stream->h2->ops->on_wake(stream->h2->userdata);
}

void h2_stream_detach(struct h2_stream *stream)
{
	struct h2 *h2 = stream->h2;

	if (!h2) {
		byteq_release(&stream->in);
		byteq_release(&stream->out);
		return;
	}
	h2_stream_unmark(stream);
	h2_stream_unlate(h2, stream);
	LIST_REMOVE(stream, all);
	if (!stream->closed)
		h2_stream_reset(stream, NGHTTP2_CANCEL);
	/* fails when nghttp2 has forgotten the stream already */
	(void)nghttp2_session_set_stream_user_data(h2->session, stream->id, NULL);
	h2->held -= byteq_len(&stream->in) + byteq_len(&stream->out);
	byteq_release(&stream->in);
	byteq_release(&stream->out);
	stream->h2 = NULL;
}

nghttp2_nv h2_header(const char *name, const char *value)
{
	/* nghttp2 copies and does not write, its type just lacks the const */
	return (nghttp2_nv){
		.name = (uint8_t *)(uintptr_t)name,
		.value = (uint8_t *)(uintptr_t)value,
		.namelen = strlen(name),
		.valuelen = strlen(value),
		.flags = NGHTTP2_NV_FLAG_NONE,
	};
}

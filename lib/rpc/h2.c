/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/h2.h"

#include "base/clock.h"
#include "base/str.h"
#include "rpc/h2_mem.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct h2 {
	nghttp2_session *session;
	struct h2_mem mem; /* the session's */
	struct h2_config config;
	const struct h2_ops *ops;
	void *userdata;
	struct byteq frame;  /* with a piece of a body, to be sent next */
	size_t held;	     /* bytes in the buffers of all streams */
	size_t held_paced;   /* of these, of paced streams */
	size_t n_draining;   /* streams that are draining */
	size_t n_paced_wide; /* paced streams with a larger window */
	size_t n_oversized;  /* streams that were reset for their headers */
	char *goaway_reason; /* of the peer, or NULL */
	char *quarrel;	     /* what the peer did wrong, so that we ended the connection; NULL: nothing */
	bool refuses;	     /* the end is for the peer to make */
	bool is_lost;	     /* every stream is closed */
	uint64_t end_us;     /* of dispatching */
	bool dispatching;
	bool doomed; /* freed by its owner while dispatching */
	TAILQ_HEAD(, h2_stream) ready;
	LIST_HEAD(, h2_stream) streams;
};

/* May @n bytes more be held? */
static enum status hold(struct h2 *h2, size_t n, struct error *err)
{
	if (n > h2->config.held_max - h2->held)
		return error_set(
			err, STATUS_RESOURCE_EXHAUSTED, 0,
			"%zu bytes wait already for the other side to read them, and %zu more are too many",
			h2->held, n);
	return h2->ops->on_hold ? h2->ops->on_hold(h2->userdata, n, err) : STATUS_OK;
}

static void adopt(struct h2 *h2, struct h2_stream *stream, int32_t id)
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

/* Take @stream off the list of those that have changed. */
static void stream_unmark(struct h2_stream *stream)
{
	if (stream->is_ready)
		TAILQ_REMOVE(&stream->h2->ready, stream, ready);
	stream->is_ready = false;
}

/* The connection is no longer draining. */
static void stream_end_drain(struct h2 *h2, struct h2_stream *stream)
{
	h2->n_draining -= stream->is_draining;
	stream->is_draining = false;
}

/* nghttp2 is done with the stream. */
static void stream_close(struct h2_stream *stream, uint32_t code)
{
	if (stream->closed)
		return;
	stream->closed = true;
	stream_end_drain(stream->h2, stream);
	stream->close_code = code;
	h2_stream_wake(stream);
}

/* Is there room for @n bytes of the stream's bodies? A paced one waits for its reader and leaves a quarter to
 * those that must not. */
static enum status hold_body(struct h2 *h2, const struct h2_stream *stream, size_t n, struct error *err)
{
	size_t max = h2->config.held_max - h2->config.held_max / 4;

	if (stream->is_paced && n > max - h2->held_paced)
		return error_set(
			err, STATUS_RESOURCE_EXHAUSTED, 0,
			"%zu bytes wait already for readers that are slow, and %zu more are too many",
			h2->held_paced, n);
	return hold(h2, n, err);
}

static void count_body(struct h2 *h2, const struct h2_stream *stream, ssize_t n)
{
	h2->held += (size_t)n;
	h2->held_paced += stream->is_paced ? (size_t)n : 0;
}

void h2_stream_pace(struct h2_stream *stream)
{
	assert(!stream->is_paced);
	stream->is_paced = true;
	if (!stream->h2)
		return;
	stream->h2->held_paced += byteq_len(&stream->in) + byteq_len(&stream->out);
	stream->h2->n_paced_wide += stream->is_wide;
}

/* A frame with its head fills one TLS record. */
enum { HEAD_SIZE = 9, FRAME_MAX = 16384 - HEAD_SIZE };

/* The data source of every body. It is found by id, not by pointer, because the stream may have been
 * detached. */
static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *buf, size_t size, uint32_t *flags,
			 nghttp2_data_source *source, void *userdata)
{
	struct h2_stream *stream = nghttp2_session_get_stream_user_data(session, id);
	struct h2 *h2 = userdata;
	size_t n;

	if (!stream)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	size = size < FRAME_MAX ? size : FRAME_MAX;
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
	assert(!stream->h2);

	int32_t id = nghttp2_submit_request(h2->session, NULL, headers, n, &body_provider, stream);

	if (id < 0)
		return error_set(err, STATUS_UNAVAILABLE, 0, "HTTP/2: %s", nghttp2_strerror(id));
	adopt(h2, stream, id);
	h2->ops->on_wake(h2->userdata);
	return STATUS_OK;
}

void h2_stream_respond(struct h2_stream *stream, const nghttp2_nv *headers, size_t n, bool body)
{
	struct h2 *h2 = stream->h2;

	if (!h2 || stream->closed)
		return;
	if (nghttp2_submit_response(h2->session, stream->id, headers, n, body ? &body_provider : NULL) != 0)
		stream_close(stream, NGHTTP2_INTERNAL_ERROR);
	h2->ops->on_wake(h2->userdata);
}

static void resume(struct h2_stream *stream)
{
	struct h2 *h2 = stream->h2;

	if (stream->out_waits) {
		stream->out_waits = false;
		/* fails only for a stream that has gone, which on_stream_close reports */
		(void)nghttp2_session_resume_data(h2->session, stream->id);
	}
	h2->ops->on_wake(h2->userdata);
}

enum status h2_stream_write(struct h2_stream *stream, const struct h2_bytes *parts, size_t n_parts,
			    struct error *err)
{
	struct h2 *h2 = stream->h2;
	size_t n = 0;

	if (!h2 || stream->closed || stream->out_end)
		return error_set(err, STATUS_UNAVAILABLE, 0, "the stream has ended");
	for (size_t i = 0; i < n_parts; i++)
		n += parts[i].n;
	TRY(hold_body(h2, stream, n, err));
	byteq_reserve(&stream->out, n);
	for (size_t i = 0; i < n_parts; i++) {
		if (!byteq_put(&stream->out, parts[i].bytes, parts[i].n)) {
			h2_stream_reset(stream, NGHTTP2_INTERNAL_ERROR);
			return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "send a message");
		}
		count_body(h2, stream, (ssize_t)parts[i].n);
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

/* Every byte of the connection's window is returned at once, so that a stream that is paused holds no other
 * up; of the stream's own as long as its owner takes what comes, else as it does. */
static void give_window(struct h2 *h2, struct h2_stream *stream, int32_t id, size_t n)
{
	/* without memory nghttp2 fails when it sends next */
	(void)nghttp2_session_consume_connection(h2->session, n);
	if (stream && stream->is_paused)
		stream->withheld += n;
	else
		(void)nghttp2_session_consume_stream(h2->session, id, n);
}

void h2_stream_pause(struct h2_stream *stream, bool is_paused)
{
	if (stream->is_paused == is_paused)
		return;
	stream->is_paused = is_paused;
	if (is_paused || !stream->h2)
		return;
	h2_stream_wake(stream);
	stream->h2->ops->on_wake(stream->h2->userdata);
}

bool h2_stream_is_full(struct h2_stream *stream, size_t high)
{
	const struct h2 *h2 = stream->h2;
	size_t n = byteq_len(&stream->out);
	bool is_crowded = h2 && h2->held > h2->config.held_max / 8;

	if (n == 0 || (n <= high && !is_crowded))
		return false;
	stream->drain_at = (n < high ? n + 1 : high) / 2;
	return true;
}

/* Withhold at most @n bytes of its window. */
static void give_withheld(struct h2_stream *stream, size_t n)
{
	size_t given = stream->withheld > n ? stream->withheld - n : 0;

	stream->withheld -= given;
	if (given == 0 || !stream->h2 || stream->closed)
		return;
	(void)nghttp2_session_consume_stream(stream->h2->session, stream->id, given);
	stream->h2->ops->on_wake(stream->h2->userdata);
}

void h2_stream_take(struct h2_stream *stream, size_t n)
{
	byteq_take(&stream->in, n);
	if (stream->h2)
		count_body(stream->h2, stream, -(ssize_t)n);
	give_withheld(stream, byteq_len(&stream->in));
}

void h2_stream_want_more(struct h2_stream *stream)
{
	if (!stream->is_paused)
		give_withheld(stream, 0);
}

void h2_stream_reset(struct h2_stream *stream, uint32_t code)
{
	if (!stream->h2 || stream->closed)
		return;
	if (nghttp2_submit_rst_stream(stream->h2->session, NGHTTP2_FLAG_NONE, stream->id, code) != 0)
		stream_close(stream, code);
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
	stream_unmark(stream);
	stream_end_drain(h2, stream);
	h2->n_paced_wide -= stream->is_wide && stream->is_paced;
	LIST_REMOVE(stream, all);
	if (!stream->closed)
		h2_stream_reset(stream, NGHTTP2_CANCEL);
	/* fails when nghttp2 has forgotten the stream already */
	(void)nghttp2_session_set_stream_user_data(h2->session, stream->id, NULL);
	count_body(h2, stream, -(ssize_t)(byteq_len(&stream->in) + byteq_len(&stream->out)));
	byteq_release(&stream->in);
	byteq_release(&stream->out);
	stream->h2 = NULL;
}

nghttp2_nv h2_header(const char *name, const char *value)
{
	/* a peer with nghttp2 resets the stream of any other value, one that ends with a blank as well */
	assert(nghttp2_check_header_value_rfc9113((const uint8_t *)value, strlen(value)));
	/* nghttp2 copies and does not write, its type just lacks the const */
	return (nghttp2_nv){
		.name = (uint8_t *)(uintptr_t)name,
		.value = (uint8_t *)(uintptr_t)value,
		.namelen = strlen(name),
		.valuelen = strlen(value),
		.flags = NGHTTP2_NV_FLAG_NONE,
	};
}

enum {
	/* Bytes ahead of the reader: few, so that many paused streams fit into a connection. A large
	 * message of another stream gets the wide one, for distant peers; some that may be paused get one
	 * of several messages. */
	STREAM_WINDOW = 64 * 1024,
	STREAM_WINDOW_WIDE = 1024 * 1024,
	STREAM_WINDOW_PACED = 256 * 1024,
	PACED_WIDE_MAX = 4,
	CONNECTION_WINDOW = 4 * 1024 * 1024,
	/* Frames that wait for the peer: answers, acknowledgements, resets. One that reads never has more. */
	QUEUE_BASE = 1024,
	QUEUE_PER_STREAM = 4,
	HEADER_BLOCK_MAX = 64 * 1024, /* that we send; nghttp2's default, stated */
	/* A request that is answered before it has come to its end may end: a reset would take the answer
	 * from clients that are still sending. So much of it is read for nothing, on so many streams. */
	DRAIN_BYTES_MAX = STREAM_WINDOW_WIDE,
	DRAIN_STREAMS_MAX = 16,
	/* Headers that are a little too large are read and answered. Above a multiple of the limit nghttp2
	 * stops reading them, and a connection that repeats this is ended. One byte of HPACK can name 4 KiB
	 * of header, each byte of which nghttp2 would check. */
	HEADERS_READ = 2,
	FIELD_BYTES = 32, /* RFC 9113 section 6.5.2: what a field adds to its name and value */
	OVERSIZED_MAX = 3,
	GOAWAY_REASON_MAX = 255, /* bytes that are shown of what comes with a GOAWAY */
};

static struct h2_stream *stream_of(nghttp2_session *session, int32_t id)
{
	return nghttp2_session_get_stream_user_data(session, id);
}

static void widen_window(struct h2 *h2, struct h2_stream *stream)
{
	if (stream->is_wide || stream->is_paused || byteq_len(&stream->in) < STREAM_WINDOW / 2 ||
	    (stream->is_paced && h2->n_paced_wide >= PACED_WIDE_MAX))
		return;
	stream->is_wide = true;
	h2->n_paced_wide += stream->is_paced;
	(void)nghttp2_session_set_local_window_size(h2->session, NGHTTP2_FLAG_NONE, stream->id,
						    stream->is_paced ? STREAM_WINDOW_PACED
								     : STREAM_WINDOW_WIDE);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *userdata)
{
	struct h2 *h2 = userdata;
	struct h2_stream *stream;

	if (!h2->config.server || frame->hd.type != NGHTTP2_HEADERS ||
	    frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	stream = h2->ops->on_begin(h2->userdata);
	if (!stream)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	adopt(h2, stream, frame->hd.stream_id);
	return nghttp2_session_set_stream_user_data(session, stream->id, stream);
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags, void *userdata)
{
	struct h2_stream *stream = stream_of(session, frame->hd.stream_id);
	struct h2 *h2 = userdata;

	if (!stream || frame->hd.type != NGHTTP2_HEADERS)
		return 0;
	stream->head_bytes += name_len + value_len + FIELD_BYTES;
	if (stream->head_bytes > HEADERS_READ * (size_t)h2->config.header_max)
		return ++h2->n_oversized > OVERSIZED_MAX ? NGHTTP2_ERR_CALLBACK_FAILURE
							 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	h2->ops->on_header(stream, name, name_len, value, value_len);
	return 0;
}

/* The server takes no further requests: unsent ones will never be sent, although nghttp2 would wait for a
 * free stream before it reports that. */
static void refuse_unsent(struct h2 *h2, int32_t last_stream_id)
{
	struct h2_stream *stream;

	LIST_FOREACH (stream, &h2->streams, all)
		if (stream->id > last_stream_id || !nghttp2_session_find_stream(h2->session, stream->id))
			stream_close(stream, NGHTTP2_REFUSED_STREAM);
	h2->ops->on_goaway(h2->userdata);
}

/* Memory short: nothing is shown of it. */
static void keep_reason(char **place, const nghttp2_goaway *goaway)
{
	size_t n = goaway->opaque_data_len < GOAWAY_REASON_MAX ? goaway->opaque_data_len : GOAWAY_REASON_MAX;
	char raw[GOAWAY_REASON_MAX + 1] = {0};
	char text[GOAWAY_REASON_MAX + 1];

	if (n == 0 && goaway->error_code == NGHTTP2_NO_ERROR)
		return;
	if (n > 0)
		memcpy(raw, goaway->opaque_data, n);
	else
		(void)str_copy(raw, sizeof(raw), nghttp2_http2_strerror(goaway->error_code));
	str_copy_text(text, sizeof(text), raw);
	free(*place);
	*place = strdup(text);
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *userdata)
{
	struct h2 *h2 = userdata;
	struct h2_stream *stream;

	if (frame->hd.type == NGHTTP2_GOAWAY && !h2->config.server) {
		keep_reason(&h2->goaway_reason, &frame->goaway);
		refuse_unsent(h2, frame->goaway.last_stream_id);
	}
	stream = stream_of(session, frame->hd.stream_id);
	if (stream && frame->hd.type == NGHTTP2_RST_STREAM)
		stream->was_reset = true;
	if (!stream || (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA))
		return 0;
	if (frame->hd.type == NGHTTP2_HEADERS && h2->ops->on_headers(stream))
		stream->headers_in = true;
	if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
		stream->in_end = true;
	h2_stream_wake(stream);
	return 0;
}

static int no_more(nghttp2_session *session, int32_t id)
{
	return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_NO_ERROR);
}

static int count_drained(nghttp2_session *session, struct h2_stream *stream, size_t n)
{
	stream->drained_bytes += n;
	if (stream->drained_bytes <= DRAIN_BYTES_MAX)
		return 0;
	stream_end_drain(stream->h2, stream);
	return no_more(session, stream->id);
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes, size_t n,
		   void *userdata)
{
	struct h2_stream *stream = stream_of(session, id);
	struct h2 *h2 = userdata;

	give_window(h2, stream, id, n);
	if (stream && stream->is_draining)
		return count_drained(session, stream, n);
	if (!stream || stream->in_overflow)
		return 0;
	if (hold_body(h2, stream, n, NULL) != STATUS_OK || !byteq_put(&stream->in, bytes, n))
		stream->in_overflow = true;
	else
		count_body(h2, stream, (ssize_t)n);
	widen_window(h2, stream);
	h2_stream_wake(stream);
	return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *userdata)
{
	struct h2_stream *stream = stream_of(session, id);

	if (stream)
		stream_close(stream, code);
	return 0;
}

/* A request that could not even be sent, because the server has sent GOAWAY, gets no on_stream_close. */
static int on_frame_not_send(nghttp2_session *session, const nghttp2_frame *frame, int error, void *userdata)
{
	struct h2 *h2 = userdata;
	struct h2_stream *stream;

	if (frame->hd.type != NGHTTP2_HEADERS)
		return 0;
	LIST_FOREACH (stream, &h2->streams, all)
		if (stream->id == frame->hd.stream_id)
			stream_close(stream, NGHTTP2_REFUSED_STREAM);
	return 0;
}

/* End our answer to a request that the peer is still sending: it may stop. On a connection: nghttp2 reports
 * the peer's error. */
static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *userdata)
{
	struct h2 *h2 = userdata;
	int32_t id = frame->hd.stream_id;
	struct h2_stream *stream;

	if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code != NGHTTP2_NO_ERROR)
		keep_reason(&h2->quarrel, &frame->goaway);
	if (!h2->config.server || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM) ||
	    (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA))
		return 0;
	if (nghttp2_session_get_stream_remote_close(session, id) != 0)
		return 0;
	stream = stream_of(session, id);
	if (!stream || h2->n_draining >= DRAIN_STREAMS_MAX)
		return no_more(session, id);
	stream->is_draining = true;
	h2->n_draining++;
	return 0;
}

/* A piece of a body. nghttp2 would copy it into memory that it does not wipe. */
static int on_send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head, size_t n,
			nghttp2_data_source *source, void *userdata)
{
	struct h2_stream *stream = stream_of(session, frame->hd.stream_id);
	struct h2 *h2 = userdata;

	if (!stream)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	if (!byteq_put(&h2->frame, head, HEAD_SIZE) || !byteq_put(&h2->frame, byteq_data(&stream->out), n))
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	byteq_take(&stream->out, n);
	count_body(h2, stream, -(ssize_t)n);
	if (stream->drain_at > 0 && byteq_len(&stream->out) <= stream->drain_at)
		h2_stream_wake(stream);
	return NGHTTP2_ERR_PAUSE; /* its next frame comes after this */
}

static int make_session(struct h2 *h2)
{
	nghttp2_session_callbacks *callbacks = NULL;
	nghttp2_option *option = NULL;
	nghttp2_mem mem = h2_mem_of(&h2->mem);
	int r = -1;

	if (nghttp2_session_callbacks_new(&callbacks) == 0 && nghttp2_option_new(&option) == 0) {
		nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
		nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
		nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
		nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
		nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
		nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, on_frame_not_send);
		nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
		nghttp2_session_callbacks_set_send_data_callback(callbacks, on_send_data);
		nghttp2_option_set_no_http_messaging(option, h2->config.lax);
		nghttp2_option_set_no_closed_streams(option, 1);
		nghttp2_option_set_no_auto_window_update(option, 1);
		nghttp2_option_set_max_send_header_block_length(option, HEADER_BLOCK_MAX);
		if (h2->config.is_shared)
			nghttp2_option_set_stream_reset_rate_limit(option, UINT64_MAX, UINT64_MAX);
		r = h2->config.server
			    ? nghttp2_session_server_new3(&h2->session, callbacks, h2, option, &mem)
			    : nghttp2_session_client_new3(&h2->session, callbacks, h2, option, &mem);
	}
	nghttp2_option_del(option);
	nghttp2_session_callbacks_del(callbacks);
	return r;
}

static int submit_settings(struct h2 *h2)
{
	const nghttp2_settings_entry server[] = {
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, h2->config.header_max},
		{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, h2->config.streams},
	};
	const nghttp2_settings_entry client[] = {
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, h2->config.header_max},
		{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
	};

	if (nghttp2_submit_settings(h2->session, NGHTTP2_FLAG_NONE, h2->config.server ? server : client, 3) !=
	    0)
		return -1;
	return nghttp2_session_set_local_window_size(h2->session, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW);
}

enum status h2_new(const struct h2_config *config, const struct h2_ops *ops, void *userdata, struct h2 **ret,
		   struct error *err)
{
	struct h2 *h2 = malloc(sizeof(*h2));

	if (!h2)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "start HTTP/2");
	*h2 = (struct h2){
		.config = *config,
		.ops = ops,
		.userdata = userdata,
		.frame = BYTEQ_INIT,
		.ready = TAILQ_HEAD_INITIALIZER(h2->ready),
		.streams = LIST_HEAD_INITIALIZER(h2->streams),
	};
	if (make_session(h2) != 0 || submit_settings(h2) != 0) {
		h2_free(h2);
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "start HTTP/2");
	}
	*ret = h2;
	return STATUS_OK;
}

void h2_free(struct h2 *h2)
{
	if (!h2)
		return;
	assert(LIST_EMPTY(&h2->streams));
	if (h2->dispatching) {
		h2->doomed = true;
		return;
	}
	nghttp2_session_del(h2->session);
	byteq_release(&h2->frame);
	free(h2->goaway_reason);
	free(h2->quarrel);
	free(h2);
}

enum status h2_recv(struct h2 *h2, const uint8_t *bytes, size_t n, struct error *err)
{
	ssize_t r;

	if (h2->config.server && nghttp2_session_get_outbound_queue_size(h2->session) >
					 QUEUE_BASE + QUEUE_PER_STREAM * h2->config.streams)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "the other side sends without reading");
	r = nghttp2_session_mem_recv(h2->session, bytes, n);
	if (h2->n_oversized > OVERSIZED_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "the other side sends headers of more than %zu bytes again and again",
				 HEADERS_READ * (size_t)h2->config.header_max);
	if (r < 0)
		return error_set(err, STATUS_UNAVAILABLE, 0, "HTTP/2: %s", nghttp2_strerror((int)r));
	h2->ops->on_wake(h2->userdata);
	return STATUS_OK;
}

enum status h2_send(struct h2 *h2, const uint8_t **ret, size_t *ret_n, struct error *err)
{
	ssize_t n;

	byteq_take(&h2->frame, byteq_len(&h2->frame)); /* of the last time */
	n = nghttp2_session_mem_send(h2->session, ret);
	if (n == 0 && byteq_len(&h2->frame) > 0) {
		*ret = byteq_data(&h2->frame);
		*ret_n = byteq_len(&h2->frame);
		return STATUS_OK;
	}
	if (n < 0)
		return error_set(err, STATUS_UNAVAILABLE, 0, "HTTP/2: %s", nghttp2_strerror((int)n));
	if (n == 0 && !h2->refuses && !nghttp2_session_want_read(h2->session) &&
	    !nghttp2_session_want_write(h2->session))
		return error_set(err, STATUS_UNAVAILABLE, 0, "the HTTP/2 connection was ended%s%s",
				 h2->quarrel ? ", as the other side breaks its rules: " : "",
				 h2->quarrel ? h2->quarrel : "");
	*ret_n = (size_t)n;
	return STATUS_OK;
}

size_t h2_held(const struct h2 *h2)
{
	return h2->held + byteq_len(&h2->frame) + h2->mem.n_bytes;
}

bool h2_dispatch(struct h2 *h2, uint64_t end_us)
{
	struct h2_stream *stream;
	bool is_late = false;

	if (h2->dispatching)
		return false;
	h2->dispatching = true;
	h2->end_us = end_us;
	while (!h2->doomed && (stream = TAILQ_FIRST(&h2->ready)) != NULL) {
		is_late = clock_monotonic_us() >= end_us && !h2->is_lost;
		if (is_late)
			break;
		stream_unmark(stream);
		h2->ops->on_ready(stream);
	}
	h2->dispatching = false;
	if (h2->doomed)
		h2_free(h2);
	return is_late;
}

bool h2_stream_is_late(const struct h2_stream *stream)
{
	return stream->h2 && clock_monotonic_us() >= stream->h2->end_us;
}

void h2_abort(struct h2 *h2)
{
	struct h2_stream *stream;

	h2->is_lost = true;
	LIST_FOREACH (stream, &h2->streams, all)
		stream_close(stream, NGHTTP2_CANCEL);
}

void h2_goaway(struct h2 *h2)
{
	(void)nghttp2_session_terminate_session(h2->session, NGHTTP2_NO_ERROR); /* memory short: just close */
	h2->ops->on_wake(h2->userdata);
}

void h2_refuse(struct h2 *h2, const char *why)
{
	h2->refuses = true;
	/* memory short: it only sees the connection end */
	(void)nghttp2_submit_goaway(h2->session, NGHTTP2_FLAG_NONE, 0, NGHTTP2_ENHANCE_YOUR_CALM,
				    (const uint8_t *)why, strlen(why));
	h2->ops->on_wake(h2->userdata);
}

const char *h2_goaway_reason(const struct h2 *h2)
{
	return h2->goaway_reason ? h2->goaway_reason : "";
}

bool h2_is_used_up(struct h2 *h2)
{
	return nghttp2_session_get_next_stream_id(h2->session) > INT32_MAX;
}

nghttp2_session *h2_session(struct h2 *h2)
{
	return h2->session;
}

enum status h2_ping(struct h2 *h2, struct error *err)
{
	if (nghttp2_submit_ping(h2->session, NGHTTP2_FLAG_NONE, NULL) != 0)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "send an HTTP/2 PING");
	h2->ops->on_wake(h2->userdata);
	return STATUS_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "stranger.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

static size_t copy_fields(nghttp2_nv *headers, size_t max, const struct stranger_field *fields)
{
	size_t n = 0;

	for (; fields[n].name; n++) {
		assert_true(n < max);
		headers[n] = (nghttp2_nv){.name = (uint8_t *)(uintptr_t)fields[n].name,
					  .value = (uint8_t *)(uintptr_t)fields[n].value,
					  .namelen = strlen(fields[n].name),
					  .valuelen = strlen(fields[n].value)};
	}
	return n;
}

static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *buf, size_t size, uint32_t *flags,
			 nghttp2_data_source *source, void *userdata)
{
	struct stranger *stranger = userdata;
	size_t n = stranger->script.body_len - stranger->body_sent;
	nghttp2_nv trailers[8];

	if (stranger->script.pause_at > stranger->body_sent &&
	    n > stranger->script.pause_at - stranger->body_sent)
		n = stranger->script.pause_at - stranger->body_sent;
	if (stranger->script.pause_at > 0 && stranger->script.pause_at == stranger->body_sent &&
	    stranger->paused)
		return NGHTTP2_ERR_DEFERRED;
	if (n > size)
		n = size;
	memcpy(buf, (const char *)stranger->script.body + stranger->body_sent, n);
	stranger->body_sent += n;
	if (stranger->body_sent < stranger->script.body_len)
		return (ssize_t)n;
	*flags |= NGHTTP2_DATA_FLAG_EOF;
	if (stranger->script.trailers) {
		*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
		assert_int_equal(nghttp2_submit_trailer(session, id, trailers,
							copy_fields(trailers, 8, stranger->script.trailers)),
				 0);
	}
	return (ssize_t)n;
}

static void drop(struct stranger *stranger)
{
	stranger->io = sd_event_source_disable_unref(stranger->io);
	nghttp2_session_del(stranger->session);
	stranger->session = NULL;
	if (stranger->fd >= 0)
		(void)close(stranger->fd);
	stranger->fd = -EBADF;
}

static void flush(struct stranger *stranger)
{
	const uint8_t *bytes;
	ssize_t n;

	while ((n = nghttp2_session_mem_send(stranger->session, &bytes)) > 0)
		if (send(stranger->fd, bytes, (size_t)n, MSG_NOSIGNAL) != n)
			return;
}

static void answer(struct stranger *stranger, int32_t id)
{
	const nghttp2_data_provider body = {.source = {.ptr = NULL}, .read_callback = read_body};
	const struct stranger_script *script = &stranger->script;
	nghttp2_nv headers[16];

	stranger->body_sent = 0;
	stranger->paused = true;
	stranger->stream_id = id;
	if (script->early)
		assert_int_equal(nghttp2_submit_headers(stranger->session, NGHTTP2_FLAG_NONE, id, NULL,
							headers, copy_fields(headers, 16, script->early),
							NULL),
				 0);
	if (script->headers)
		assert_int_equal(nghttp2_submit_response(stranger->session, id, headers,
							 copy_fields(headers, 16, script->headers),
							 script->body ? &body : NULL),
				 0);
	stranger->answered = id;
	if (script->goaway)
		assert_int_equal(
			nghttp2_submit_goaway(stranger->session, NGHTTP2_FLAG_NONE, id > 1 ? id - 2 : 0,
					      NGHTTP2_NO_ERROR, (const uint8_t *)script->goaway_reason,
					      script->goaway_reason ? strlen(script->goaway_reason) : 0),
			0);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *userdata)
{
	struct stranger *stranger = userdata;
	bool ends = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;

	if (frame->hd.type == NGHTTP2_HEADERS)
		stranger->n_requests++;
	if ((frame->hd.type == NGHTTP2_HEADERS && (stranger->script.at_once || ends)) ||
	    (frame->hd.type == NGHTTP2_DATA && ends && !stranger->script.at_once))
		answer(stranger, frame->hd.stream_id);
	return 0;
}

static int on_begin(nghttp2_session *session, const nghttp2_frame *frame, void *userdata)
{
	struct stranger *stranger = userdata;

	stranger->headers[0] = '\0';
	return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags, void *userdata)
{
	struct stranger *stranger = userdata;
	size_t used = strlen(stranger->headers);

	assert_true(str_format(stranger->headers + used, sizeof(stranger->headers) - used, "%.*s: %.*s\n",
			       (int)name_len, (const char *)name, (int)value_len, (const char *)value) > 0);
	return 0;
}

void stranger_resume(struct stranger *stranger)
{
	stranger->paused = false;
	assert_int_equal(nghttp2_session_resume_data(stranger->session, stranger->stream_id), 0);
	flush(stranger);
}

static int on_io(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct stranger *stranger = userdata;
	uint8_t bytes[16384];
	ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);

	if (n <= 0) {
		drop(stranger);
		return 0;
	}
	assert_int_equal(nghttp2_session_mem_recv(stranger->session, bytes, (size_t)n), n);
	flush(stranger);
	if (stranger->script.reset && stranger->answered > 0) {
		/* not before the answer is out, which it would overtake */
		assert_int_equal(nghttp2_submit_rst_stream(stranger->session, NGHTTP2_FLAG_NONE,
							   stranger->answered, stranger->script.reset_code),
				 0);
		flush(stranger);
	}
	stranger->answered = 0;
	if (stranger->script.hang_up && stranger->n_requests > 0)
		drop(stranger);
	return 0;
}

static int on_client(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct stranger *stranger = userdata;
	nghttp2_session_callbacks *callbacks;
	nghttp2_option *option;

	drop(stranger);
	stranger->n_connections++;
	stranger->fd = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
	assert_int_equal(nghttp2_session_callbacks_new(&callbacks), 0);
	assert_int_equal(nghttp2_option_new(&option), 0);
	nghttp2_option_set_no_http_messaging(option, 1);
	nghttp2_option_set_max_send_header_block_length(option, (size_t)1024 * 1024);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	assert_int_equal(nghttp2_session_server_new2(&stranger->session, callbacks, stranger, option), 0);
	nghttp2_option_del(option);
	nghttp2_session_callbacks_del(callbacks);
	assert_int_equal(nghttp2_submit_settings(stranger->session, NGHTTP2_FLAG_NONE, NULL, 0), 0);
	assert_true(sd_event_add_io(stranger->world->event, &stranger->io, stranger->fd, EPOLLIN, on_io,
				    stranger) >= 0);
	flush(stranger);
	return 0;
}

void stranger_open(struct stranger *stranger, struct world *world)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct rpc_endpoint endpoint = {.unix_path = stranger->path};
	struct error err;

	*stranger = (struct stranger){
		.world = world, .listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), .fd = -EBADF};
	assert_int_equal(str_copy(stranger->path, sizeof(stranger->path), world_path(world, "stranger")), 0);
	assert_int_equal(str_copy(address.sun_path, sizeof(address.sun_path), stranger->path), 0);
	assert_int_equal(bind(stranger->listen_fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(stranger->listen_fd, 4), 0);
	assert_true(sd_event_add_io(world->event, &stranger->listen_io, stranger->listen_fd, EPOLLIN,
				    on_client, stranger) >= 0);
	assert_int_equal(rpc_client_new(world->event, &endpoint, &stranger->client, &err), STATUS_OK);
}

void stranger_close(struct stranger *stranger)
{
	rpc_client_free(stranger->client);
	drop(stranger);
	(void)sd_event_source_disable_unref(stranger->listen_io);
	(void)close(stranger->listen_fd);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "raw.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

static struct raw_answer *answer_of(struct raw *raw, int32_t id)
{
	for (size_t i = 0; i < raw->n_answers; i++)
		if (raw->ids[i] == id)
			return raw->answers[i];
	return NULL;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags, void *userdata)
{
	struct raw_answer *answer = answer_of(userdata, frame->hd.stream_id);
	size_t used = strlen(answer->headers);

	assert_true(str_format(answer->headers + used, sizeof(answer->headers) - used, "%.*s: %.*s\n",
			       (int)name_len, (const char *)name, (int)value_len, (const char *)value) > 0);
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes, size_t n,
		   void *userdata)
{
	struct raw_answer *answer = answer_of(userdata, id);
	size_t room = sizeof(answer->body) - 1;

	if (answer->body_len < room)
		memcpy(answer->body + answer->body_len, bytes,
		       n < room - answer->body_len ? n : room - answer->body_len);
	answer->body_len += n;
	return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *userdata)
{
	struct raw_answer *answer = answer_of(userdata, id);

	answer->done = true;
	answer->reset_code = code;
	return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *userdata)
{
	struct raw_answer *answer = answer_of(userdata, frame->hd.stream_id);

	if (answer && frame->hd.type == NGHTTP2_RST_STREAM)
		answer->was_reset = true;
	else if (answer && (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA))
		answer->ended = answer->ended || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
	return 0;
}

static void lost(struct raw *raw)
{
	raw->closed = true;
	(void)sd_event_source_set_enabled(raw->io, SD_EVENT_OFF);
	for (size_t i = 0; i < raw->n_answers; i++)
		raw->answers[i]->done = true;
}

static int on_io(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct raw *raw = userdata;
	uint8_t bytes[16384];
	ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n <= 0) {
		lost(raw);
		return 0;
	}
	if (!raw->session && raw->n_received + (size_t)n < sizeof(raw->text))
		memcpy(raw->text + raw->n_received, bytes, (size_t)n);
	raw->n_received += (size_t)n;
	if (!raw->session)
		return 0;
	assert_int_equal(nghttp2_session_mem_recv(raw->session, bytes, (size_t)n), n);
	raw_flush(raw);
	return 0;
}

void raw_flush(struct raw *raw)
{
	const uint8_t *bytes;
	ssize_t n;

	while (!raw->closed && (n = nghttp2_session_mem_send(raw->session, &bytes)) > 0)
		if (raw_send(raw, bytes, (size_t)n) < (size_t)n && !raw->closed)
			fail_msg("the server does not read");
}

size_t raw_send(struct raw *raw, const void *bytes, size_t n)
{
	size_t sent = 0;

	while (sent < n) {
		ssize_t r = send(raw->fd, (const char *)bytes + sent, n - sent, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (r < 0 && errno == EPIPE)
			lost(raw);
		if (r <= 0)
			break;
		sent += (size_t)r;
	}
	return sent;
}

void raw_expect(struct raw *raw, const char *end)
{
	while (!strstr(raw->text, end)) {
		size_t before = raw->n_received;

		assert_msg(!raw->closed, "closed after: %s", raw->text);
		while (raw->n_received == before && !raw->closed)
			assert_msg(sd_event_run(raw->world->event, WORLD_CALL_US) > 0,
				   "waiting for %s after: %s", end, raw->text);
	}
}

void raw_read(struct raw *raw, bool reads)
{
	assert_true(sd_event_source_set_enabled(raw->io, reads ? SD_EVENT_ON : SD_EVENT_OFF) >= 0);
}

static void start_session(struct raw *raw)
{
	nghttp2_session_callbacks *callbacks;
	nghttp2_option *option;

	assert_int_equal(nghttp2_session_callbacks_new(&callbacks), 0);
	assert_int_equal(nghttp2_option_new(&option), 0);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	nghttp2_option_set_no_http_messaging(option, 1);
	nghttp2_option_set_peer_max_concurrent_streams(option, 1000000);
	assert_int_equal(nghttp2_session_client_new2(&raw->session, callbacks, raw, option), 0);
	nghttp2_option_del(option);
	nghttp2_session_callbacks_del(callbacks);
	assert_int_equal(nghttp2_submit_settings(raw->session, NGHTTP2_FLAG_NONE, NULL, 0), 0);
	raw_flush(raw);
}

void raw_open(struct raw *raw, struct world *world, bool h2)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	*raw = (struct raw){.world = world, .fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
	assert_int_equal(str_copy(address.sun_path, sizeof(address.sun_path), world->socket), 0);
	assert_int_equal(connect(raw->fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_true(sd_event_add_io(world->event, &raw->io, raw->fd, EPOLLIN, on_io, raw) >= 0);
	if (h2)
		start_session(raw);
}

void raw_close(struct raw *raw)
{
	nghttp2_session_del(raw->session);
	(void)sd_event_source_disable_unref(raw->io);
	(void)close(raw->fd);
}

static struct raw_request bodies[64];

/* Give the body to nghttp2 in one piece; an open one never ends. */
static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *buf, size_t size, uint32_t *flags,
			 nghttp2_data_source *source, void *userdata)
{
	struct raw_request *request = source->ptr;
	size_t n = request->body_len < size ? request->body_len : size;

	if (n > 0)
		memcpy(buf, request->body, n);
	request->body = (const char *)request->body + n;
	request->body_len -= n;
	if (request->body_len == 0 && !request->open)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	else if (n == 0)
		return NGHTTP2_ERR_DEFERRED;
	return (ssize_t)n;
}

void raw_start(struct raw *raw, const struct raw_request *request, struct raw_answer *answer)
{
	static const struct raw_field grpc_get[] = RAW_POST("/holdfast.v1.Volumes/Get", "application/grpc");
	const struct raw_field *fields = request->fields ? request->fields : grpc_get;
	size_t at = raw->n_answers++;
	nghttp2_nv headers[64];
	nghttp2_data_provider provider = {.source = {.ptr = &bodies[at]}, .read_callback = read_body};
	size_t n = 0;

	for (; fields[n].name; n++) {
		assert_true(n < ARRAY_SIZE(headers));
		headers[n] = (nghttp2_nv){.name = (uint8_t *)(uintptr_t)fields[n].name,
					  .value = (uint8_t *)(uintptr_t)fields[n].value,
					  .namelen = strlen(fields[n].name),
					  .valuelen = strlen(fields[n].value)};
	}
	assert_true(at < ARRAY_SIZE(raw->ids));
	bodies[at] = *request;
	*answer = (struct raw_answer){.done = false};
	raw->answers[at] = answer;
	raw->ids[at] = nghttp2_submit_request(raw->session, NULL, headers, n, &provider, NULL);
	assert_true(raw->ids[at] > 0);
	raw_flush(raw);
}

void raw_call(struct raw *raw, const struct raw_request *request, struct raw_answer *answer)
{
	raw_start(raw, request, answer);
	world_run_until(raw->world, &answer->done);
}

void raw_ask(struct raw *raw, const struct raw_request *request, struct raw_answer *answer)
{
	raw_start(raw, request, answer);
	world_run_until(raw->world, &answer->ended);
}

void raw_continue(struct raw *raw, const struct raw_request *request, const struct raw_answer *answer)
{
	for (size_t i = 0; i < raw->n_answers; i++) {
		if (raw->answers[i] != answer)
			continue;
		bodies[i] = *request;
		assert_int_equal(nghttp2_session_resume_data(raw->session, raw->ids[i]), 0);
	}
	raw_flush(raw);
}

void raw_reset(struct raw *raw, const struct raw_answer *answer)
{
	for (size_t i = 0; i < raw->n_answers; i++)
		if (raw->answers[i] == answer)
			assert_int_equal(nghttp2_submit_rst_stream(raw->session, NGHTTP2_FLAG_NONE,
								   raw->ids[i], NGHTTP2_CANCEL),
					 0);
	raw_flush(raw);
}

size_t raw_get_frame(uint8_t *frame, const char *id)
{
	Holdfast__V1__GetVolumeRequest request = V1(get_volume_request, .id = TEXT(id));
	size_t n;

	n = protobuf_c_message_pack(&request.base, frame + 5);
	assert_true(n < 59);
	frame[0] = frame[1] = frame[2] = frame[3] = 0;
	frame[4] = (uint8_t)n;
	return n + 5;
}

void raw_run(struct world *world, void (*body)(struct world *world, struct raw *raw))
{
	cleanup(raw_close) struct raw raw;

	raw_open(&raw, world, true);
	body(world, &raw);
}

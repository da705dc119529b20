/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin.h"

#include <nghttp2/nghttp2.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

enum {
	FRAME_HEAD = 9,
	FRAME_MAX = 16384,
	PREFACE = 24,
	IN_SIZE = 64 * 1024,
	BLOCK_SIZE = 160 * 1024, /* of headers that are sent */
	PING_SIZE = 8,
};

struct plugin_conn {
	struct plugin *plugin;
	size_t number;
	int fd;
	sd_event_source *io;
	nghttp2_hd_inflater *inflater;
	uint8_t in[IN_SIZE];
	size_t n_in;
	bool greeted;
	uint8_t ping[PING_SIZE]; /* the last one that was sent */
	const struct step *late[PLUGIN_REQUESTS_MAX];
	const struct step *scripts[PLUGIN_REQUESTS_MAX]; /* per request of the plugin */
};

static void conn_close(struct plugin_conn *conn)
{
	conn->io = sd_event_source_disable_unref(conn->io);
	if (conn->fd >= 0)
		(void)close(conn->fd);
	conn->fd = -EBADF;
}

/* The client may be gone already: that is its right. */
static void send_bytes(struct plugin_conn *conn, const void *bytes, size_t n)
{
	size_t sent = 0;

	while (conn->fd >= 0 && sent < n) {
		ssize_t r = send(conn->fd, (const char *)bytes + sent, n - sent, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (r <= 0)
			return;
		sent += (size_t)r;
	}
}

static void put_number(uint8_t *place, uint32_t number)
{
	for (int i = 0; i < 4; i++)
		place[i] = (uint8_t)(number >> (24 - 8 * i));
}

static uint32_t get_number(const uint8_t *place)
{
	return (uint32_t)place[0] << 24 | (uint32_t)place[1] << 16 | (uint32_t)place[2] << 8 | place[3];
}

static void send_frame(struct plugin_conn *conn, uint8_t type, uint8_t flags, uint32_t stream,
		       const void *payload, size_t n)
{
	uint8_t frame[FRAME_HEAD + FRAME_MAX];

	assert_in_range(n, 0, FRAME_MAX);
	put_number(frame, (uint32_t)n << 8);
	frame[3] = type;
	frame[4] = flags;
	put_number(frame + 5, stream);
	if (n > 0)
		memcpy(frame + FRAME_HEAD, payload, n);
	send_bytes(conn, frame, FRAME_HEAD + n);
}

/* HPACK, literal without indexing and without Huffman. */
static size_t put_text(uint8_t *place, const char *text, size_t n)
{
	size_t rest = n, at = 0;

	if (n < 127) {
		place[at++] = (uint8_t)n;
	} else {
		place[at++] = 127;
		for (rest -= 127; rest >= 128; rest /= 128)
			place[at++] = (uint8_t)(rest % 128 + 128);
		place[at++] = (uint8_t)rest;
	}
	memcpy(place + at, text, n);
	return at + n;
}

static size_t put_headers(uint8_t *block, const char *text)
{
	size_t at = 0;

	while (*text != '\0') {
		const char *end = strchr(text, '\n');
		const char *colon = strchr(text + 1, ':');

		assert_true(end && colon && colon < end);
		assert_true(at + (size_t)(end - text) + 16 < BLOCK_SIZE);
		block[at++] = 0;
		at += put_text(block + at, text, (size_t)(colon - text));
		at += put_text(block + at, colon + 2, (size_t)(end - colon - 2));
		text = end + 1;
	}
	return at;
}

static void send_headers(struct plugin_conn *conn, uint32_t stream, const struct step *step)
{
	uint8_t block[BLOCK_SIZE];
	size_t n = put_headers(block, step->text);
	uint8_t type = NGHTTP2_HEADERS;

	for (size_t at = 0; at < n; at += FRAME_MAX) {
		size_t part = n - at < FRAME_MAX ? n - at : FRAME_MAX;
		uint8_t flags = at + part == n ? NGHTTP2_FLAG_END_HEADERS : 0;

		if (type == NGHTTP2_HEADERS && step->ends)
			flags |= NGHTTP2_FLAG_END_STREAM;
		send_frame(conn, type, flags, stream, block + at, part);
		type = NGHTTP2_CONTINUATION;
	}
}

static void send_goaway(struct plugin_conn *conn, const struct step *step)
{
	uint8_t payload[256];
	size_t n = step->text ? strlen(step->text) : 0;

	put_number(payload, (uint32_t)step->n);
	put_number(payload + 4, step->number);
	if (n > 0)
		memcpy(payload + 8, step->text, n);
	send_frame(conn, NGHTTP2_GOAWAY, 0, 0, payload, 8 + n);
}

static void do_step(struct plugin_conn *conn, uint32_t stream, const struct step *step)
{
	uint8_t number[4];

	put_number(number, step->number);
	switch (step->kind) {
	case STEP_HEADERS:
		send_headers(conn, stream, step);
		break;
	case STEP_DATA:
		send_frame(conn, NGHTTP2_DATA, step->ends ? NGHTTP2_FLAG_END_STREAM : 0, stream, step->text,
			   step->n);
		break;
	case STEP_DRIP:
		for (size_t i = 0; i < step->n; i++)
			send_frame(conn, NGHTTP2_DATA, 0, stream, step->text + i, 1);
		break;
	case STEP_RESET:
		send_frame(conn, NGHTTP2_RST_STREAM, 0, stream, number, sizeof(number));
		break;
	case STEP_GOAWAY:
		send_goaway(conn, step);
		break;
	case STEP_PING:
		memcpy(conn->ping, step->text, PING_SIZE);
		send_frame(conn, NGHTTP2_PING, 0, 0, step->text, PING_SIZE);
		break;
	case STEP_SETTINGS:
		send_frame(conn, NGHTTP2_SETTINGS, 0, 0, step->text, step->n);
		break;
	case STEP_WINDOW:
		send_frame(conn, NGHTTP2_WINDOW_UPDATE, 0, 0, number, sizeof(number));
		break;
	case STEP_BYTES:
		send_bytes(conn, step->text, step->n);
		break;
	case STEP_CLOSE:
		conn_close(conn);
		break;
	case STEP_EARLY:
	case STEP_LATE:
	case STEP_END:
		break;
	}
}

static void play(struct plugin_conn *conn, size_t at, const struct step *steps)
{
	uint32_t stream = conn->plugin->requests[at].stream;

	for (; steps->kind != STEP_END && conn->fd >= 0; steps++) {
		if (steps->kind == STEP_LATE) {
			conn->late[at] = steps + 1;
			return;
		}
		do_step(conn, stream, steps);
	}
}

static struct plugin_request *find_request(struct plugin_conn *conn, uint32_t stream, size_t *ret_at)
{
	struct plugin *plugin = conn->plugin;

	for (size_t i = 0; i < plugin->n_requests; i++) {
		if (plugin->requests[i].conn == conn->number && plugin->requests[i].stream == stream) {
			*ret_at = i;
			return &plugin->requests[i];
		}
	}
	return NULL;
}

static void read_headers(struct plugin_conn *conn, struct plugin_request *request, const uint8_t *block,
			 size_t n)
{
	size_t used = 0;

	for (;;) {
		nghttp2_nv nv;
		int flags = 0;
		ssize_t r = nghttp2_hd_inflate_hd2(conn->inflater, &nv, &flags, block, n, 1);

		assert_true(r >= 0);
		block += r;
		n -= (size_t)r;
		if (flags & NGHTTP2_HD_INFLATE_EMIT) {
			int w = str_format(request->headers + used, sizeof(request->headers) - used,
					   "%.*s: %.*s\n", (int)nv.namelen, (const char *)nv.name,
					   (int)nv.valuelen, (const char *)nv.value);

			assert_true(w > 0);
			used += (size_t)w;
		}
		if (flags & NGHTTP2_HD_INFLATE_FINAL)
			break;
	}
	nghttp2_hd_inflate_end_headers(conn->inflater);
}

static const struct step good[] = {HEAD(GRPC), DATA(EMPTY), LAST(OK), {.kind = STEP_END}};
static const struct step nothing[] = {{.kind = STEP_END}};

static void on_headers(struct plugin_conn *conn, uint32_t stream, const uint8_t *payload, size_t n)
{
	struct plugin *plugin = conn->plugin;
	size_t at = plugin->n_requests++;

	assert_in_range(at, 0, PLUGIN_REQUESTS_MAX - 1);
	plugin->requests[at] = (struct plugin_request){.conn = conn->number, .stream = stream};
	read_headers(conn, &plugin->requests[at], payload, n);
	conn->scripts[at] = plugin->holds ? nothing : good;
	if (at < plugin->n_scripts && plugin->scripts[at])
		conn->scripts[at] = plugin->scripts[at];
	if (conn->scripts[at][0].kind == STEP_EARLY)
		play(conn, at, conn->scripts[at]);
}

static void on_data(struct plugin_conn *conn, uint32_t stream, uint8_t flags, const uint8_t *payload,
		    size_t n)
{
	size_t at = 0;
	struct plugin_request *request = NON_NULL(find_request(conn, stream, &at));

	if (request->body_len < PLUGIN_BODY_SIZE)
		memcpy(request->body + request->body_len, payload,
		       n < PLUGIN_BODY_SIZE - request->body_len ? n : PLUGIN_BODY_SIZE - request->body_len);
	request->body_len += n;
	if (conn->plugin->grants && !(flags & NGHTTP2_FLAG_END_STREAM))
		send_frame(conn, NGHTTP2_WINDOW_UPDATE, 0, stream, "\0\0\0\1", 4);
	if (!(flags & NGHTTP2_FLAG_END_STREAM))
		return;
	request->is_whole = true;
	conn->plugin->n_whole++;
	if (conn->scripts[at][0].kind != STEP_EARLY)
		play(conn, at, conn->scripts[at]);
}

static void on_reset(struct plugin_conn *conn, uint32_t stream, uint32_t code)
{
	size_t at = 0;
	struct plugin_request *request = NON_NULL(find_request(conn, stream, &at));

	request->was_reset = true;
	request->reset_code = code;
	conn->plugin->n_resets++;
	if (conn->late[at])
		play(conn, at, conn->late[at]);
}

static void on_frame(struct plugin_conn *conn, const uint8_t *frame, size_t n)
{
	struct plugin *plugin = conn->plugin;
	const uint8_t *payload = frame + FRAME_HEAD;
	uint32_t stream = get_number(frame + 5);
	bool is_ack = frame[4] & NGHTTP2_FLAG_ACK;

	switch (frame[3]) {
	case NGHTTP2_HEADERS:
		assert_true(frame[4] & NGHTTP2_FLAG_END_HEADERS);
		assert_false(frame[4] & (NGHTTP2_FLAG_PADDED | NGHTTP2_FLAG_PRIORITY));
		on_headers(conn, stream, payload, n);
		break;
	case NGHTTP2_DATA:
		on_data(conn, stream, frame[4], payload, n);
		break;
	case NGHTTP2_RST_STREAM:
		on_reset(conn, stream, get_number(payload));
		break;
	case NGHTTP2_SETTINGS:
		plugin->n_settings_acks += is_ack;
		if (!is_ack)
			send_frame(conn, NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, NULL, 0);
		break;
	case NGHTTP2_PING:
		plugin->n_pings += !is_ack;
		plugin->n_ping_acks += is_ack && memcmp(payload, conn->ping, PING_SIZE) == 0;
		break;
	default:
		break;
	}
}

static size_t frame_size(const struct plugin_conn *conn)
{
	return FRAME_HEAD + (get_number(conn->in) >> 8);
}

static void consume(struct plugin_conn *conn, size_t n)
{
	conn->n_in -= n;
	memmove(conn->in, conn->in + n, conn->n_in);
}

static int on_io(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct plugin_conn *conn = userdata;
	ssize_t n = recv(fd, conn->in + conn->n_in, IN_SIZE - conn->n_in, MSG_DONTWAIT);

	if (n <= 0) {
		conn_close(conn);
		return 0;
	}
	conn->n_in += (size_t)n;
	if (!conn->greeted) {
		if (conn->n_in < PREFACE)
			return 0;
		assert_memory_equal(conn->in, NGHTTP2_CLIENT_MAGIC, PREFACE);
		conn->greeted = true;
		consume(conn, PREFACE);
	}
	while (conn->fd >= 0 && conn->n_in >= FRAME_HEAD && conn->n_in >= frame_size(conn)) {
		size_t size = frame_size(conn);

		on_frame(conn, conn->in, size - FRAME_HEAD);
		consume(conn, size);
	}
	return 0;
}

static int on_accept(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	static const struct step opening[] = {{.kind = STEP_SETTINGS}, {.kind = STEP_END}};
	struct plugin *plugin = userdata;
	struct plugin_conn *conn = NON_NULL(calloc(1, sizeof(*conn)));
	const struct step *step = plugin->opening ? plugin->opening : opening;

	assert_in_range(plugin->n_conns, 0, PLUGIN_CONNS_MAX - 1);
	conn->plugin = plugin;
	conn->number = plugin->n_conns;
	plugin->conns[plugin->n_conns++] = conn;
	conn->fd = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	assert_true(conn->fd >= 0);
	assert_int_equal(nghttp2_hd_inflate_new(&conn->inflater), 0);
	assert_true(sd_event_add_io(plugin->event, &conn->io, conn->fd, EPOLLIN, on_io, conn) >= 0);
	for (; step->kind != STEP_END; step++)
		do_step(conn, 0, step);
	return 0;
}

void plugin_start(struct plugin *plugin)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	(void)unlink(plugin->path);
	assert_int_equal(str_copy(address.sun_path, sizeof(address.sun_path), plugin->path), 0);
	plugin->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_true(plugin->listener >= 0);
	assert_int_equal(bind(plugin->listener, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(plugin->listener, 8), 0);
	assert_true(sd_event_add_io(plugin->event, &plugin->accepting, plugin->listener, EPOLLIN, on_accept,
				    plugin) >= 0);
}

void plugin_kill(struct plugin *plugin)
{
	plugin->accepting = sd_event_source_disable_unref(plugin->accepting);
	if (plugin->listener >= 0)
		(void)close(plugin->listener);
	plugin->listener = -EBADF;
	plugin_hang_up(plugin);
}

void plugin_hang_up(struct plugin *plugin)
{
	for (size_t i = 0; i < plugin->n_conns; i++)
		conn_close(plugin->conns[i]);
}

void plugin_deafen(struct plugin *plugin)
{
	for (size_t i = 0; i < plugin->n_conns; i++)
		assert_true(sd_event_source_set_enabled(plugin->conns[i]->io, SD_EVENT_OFF) >= 0);
}

void plugin_doze(struct plugin *plugin)
{
	plugin->accepting = sd_event_source_disable_unref(plugin->accepting);
}

void plugin_play(struct plugin *plugin, size_t at, const struct step *steps)
{
	play(plugin->conns[plugin->requests[at].conn], at, steps);
}

int plugin_setup(struct plugin *plugin, sd_event *event)
{
	*plugin = (struct plugin){.event = event};
	temp_dir_make(plugin->dir);
	(void)temp_dir_path(plugin->path, plugin->dir, "csi.sock");
	plugin_start(plugin);
	return 0;
}

void plugin_teardown(struct plugin *plugin)
{
	plugin_kill(plugin);
	for (size_t i = 0; i < plugin->n_conns; i++) {
		nghttp2_hd_inflate_del(plugin->conns[i]->inflater);
		free(plugin->conns[i]);
	}
	temp_dir_remove(plugin->dir);
}

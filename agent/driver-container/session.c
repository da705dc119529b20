/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions with one task: a command in it, its output, its statistics.
 *
 * A session holds at most STDIN_MAX bytes towards the task and CHUNK_MAX from it: it reads on when the client
 * has taken the previous bytes. */
#include "container.h"
#include "driver.h"
#include "frames.h"
#include "last_output.h"
#include "order_admit.h"
#include "policy.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "model/task_text.h"
#include "rpc/byteq.h"

#include <assert.h>
#include <errno.h>
#include <holdfast/driver/v1/driver.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

enum {
	SESSIONS_MAX = 128,
	STDIN_HIGH = 256 << 10,		    /* from here on the client waits */
	STDIN_MAX = STDIN_HIGH + (1 << 20), /* and one message more */
	CHUNK_MAX = 64 << 10,
	COLLECT_MAX = 256 << 10, /* of each stream, of ExecTask */
	HEAD_MAX = 4096,
	ARGV_MAX = 256,
	RETRY_US = 5000,
	RETRY_ACCURACY_US = 100, /* 0 would be 250 ms */
	BULK = 4 << 10,		 /* a command that writes so much at once writes on */
	REST_US = 500,
	EXEC_TIMEOUT_S = 60,
	EXEC_TIMEOUT_MAX_MS = 3600 * 1000,
	STATS_DEFAULT_MS = 1000,
	STATS_MIN_MS = 100,
	TAIL_MAX = 1000000,
};

/* Continues once the task's container was found. */
typedef void found_fn(struct session *session, const struct container *container);
/* One piece of output. RESOURCE_EXHAUSTED: the client does not take it now. */
typedef enum status emit_fn(struct session *session, unsigned int stream, const uint8_t *bytes, size_t n,
			    struct error *err);

struct session {
	LIST_ENTRY(session) link;
	struct driver *driver;
	struct rpc_call *call;
	bool is_stream;
	bool is_over; /* answered; a stream's memory goes when it is closed */
	char alloc[64];
	char task[64];
	char namespace[NAMESPACE_MAX + 1];
	char name[CONTAINER_NAME_SIZE];
	found_fn *found;
	found_fn *missing; /* NULL: that there is no container is an error */
	emit_fn *emit;
	struct engine_call *request; /* in flight, or NULL */
	struct taken taken;	     /* of an exec */
	bool has_used;

	/* output */
	bool is_framed;
	struct frames frames;
	unsigned int piece_stream;
	struct strbuf piece; /* not taken yet */
	struct strbuf raw;   /* what came after it */
	bool is_behind;	     /* the client has not read all bytes sent: on_drained follows */
	bool is_resting;     /* until on_retry() */
	sd_event_source *retry;
	bool has_ended; /* nothing more comes */
	struct error failure;
	bool has_failed;

	/* exec */
	char exec_id[CONTAINER_ID_SIZE];
	int fd;
	sd_event_source *io;
	sd_event_source *deadline;
	uint32_t timeout_ms;
	char head[HEAD_MAX];
	size_t n_head;
	bool is_upgraded;
	uint32_t rows, columns; /* of the terminal; 0: not known */
	bool is_resized;	/* as they are now */
	struct engine_call *resizing;
	uint64_t ask_until_us; /* its output has ended, and it runs; 0: not known */
	struct byteq in;
	bool wants_close;
	bool is_closed;
	struct strbuf collected[2];
	bool is_truncated;

	/* logs, stats */
	bool want_stdout;
	bool want_stderr;
	bool follow;
	uint32_t tail;
	uint32_t interval_ms;
};

static void quiet(struct session *session)
{
	engine_cancel(session->request);
	engine_cancel(session->resizing);
	session->request = session->resizing = NULL;
	session->io = sd_event_source_disable_unref(session->io);
	session->retry = sd_event_source_disable_unref(session->retry);
	session->deadline = sd_event_source_disable_unref(session->deadline);
	close_fdp(&session->fd);
	session->fd = -EBADF;
}

static void session_free(struct session *session)
{
	quiet(session);
	taken_release(&session->taken);
	strbuf_release(&session->piece);
	strbuf_release(&session->raw);
	byteq_release(&session->in);
	strbuf_release(&session->collected[0]);
	strbuf_release(&session->collected[1]);
	session->driver->n_sessions--;
	LIST_REMOVE(session, link);
	free(session);
}

/* Never inside a callback of an engine's data. A unary one's memory is gone afterwards. */
static void session_fail(struct session *session, const struct error *err)
{
	if (session->is_over)
		return;
	session->is_over = true;
	if (session->has_used)
		driver_note_end(session->driver, &session->taken.order, err->status, false);
	rpc_call_fail(session->call, err);
	if (session->is_stream)
		quiet(session);
	else
		session_free(session);
}

static struct session *session_new(struct driver *driver, struct rpc_call *call, bool is_stream,
				   struct error *err)
{
	struct session *session = NULL;

	if (driver->n_sessions < SESSIONS_MAX)
		session = calloc(1, sizeof(*session));
	if (!session) {
		(void)error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				"driver container has %zu sessions, as many as it takes", driver->n_sessions);
		return NULL;
	}
	session->driver = driver;
	session->call = call;
	session->is_stream = is_stream;
	session->fd = -EBADF;
	session->piece = (struct strbuf)STRBUF_INIT(2UL * CHUNK_MAX);
	session->raw = (struct strbuf)STRBUF_INIT(2UL * CHUNK_MAX);
	session->in.buf = (struct strbuf)STRBUF_INIT(2UL * STDIN_MAX); /* with those sent that stay */
	session->collected[0] = (struct strbuf)STRBUF_INIT(COLLECT_MAX);
	session->collected[1] = (struct strbuf)STRBUF_INIT(COLLECT_MAX);
	LIST_INSERT_HEAD(&driver->sessions, session, link);
	driver->n_sessions++;
	return session;
}

/* --- the container ----------------------------------------------------------------------------------------
 */

static void on_found(enum status status, const struct error *err, const json_t *json, void *userdata)
{
	struct session *session = userdata;
	struct container container;
	struct error own;

	session->request = NULL;
	if (status == STATUS_OK) {
		status = container_read(session->driver->settings, json, session->alloc, session->task,
					&container, &own);
		err = &own;
	}
	/* an id may be submitted again in another namespace, once the server has forgotten it */
	if (status == STATUS_OK && !str_eq(container.namespace, session->namespace))
		status = STATUS_NOT_FOUND;
	if (status == STATUS_NOT_FOUND && session->missing) {
		session->missing(session, NULL);
		return;
	}
	if (status == STATUS_NOT_FOUND) {
		(void)error_set(&own, STATUS_NOT_FOUND, 0,
				"driver container has no task '%s' of allocation %s", session->task,
				session->alloc);
		err = &own;
	}
	if (status != STATUS_OK)
		session_fail(session, err);
	else
		session->found(session, &container);
}

static void ask(struct session *session, struct engine_request request, engine_done_fn *done, const char *fmt,
		...) __attribute__((format(printf, 4, 5)));
static void ask(struct session *session, struct engine_request request, engine_done_fn *done, const char *fmt,
		...)
{
	assert(!session->request);

	char path[ENGINE_PATH_SIZE];
	struct error err;
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(path, sizeof(path), fmt, args);
	va_end(args);
	request.path = path;
	if (engine_send(session->driver->engine, &request, done, session, &session->request, &err) !=
	    STATUS_OK)
		session_fail(session, &err);
}

#define SHORT(method_, ...)                                                                      \
	(struct engine_request)                                                                  \
	{                                                                                        \
		.method = (method_), .timeout_us = session->driver->settings->engine_timeout_us, \
		##__VA_ARGS__                                                                    \
	}

static void session_look(struct session *session, const char *namespace, const char *alloc, const char *task,
			 found_fn *found)
{
	struct error err;

	if (!id_is_uuid(alloc) || !id_is_label(task) || strlen(namespace) > NAMESPACE_MAX) {
		(void)error_set(&err, STATUS_INVALID_ARGUMENT, 0,
				"'%.64s' and '%.64s' are no allocation and task", alloc, task);
		session_fail(session, &err);
		return;
	}
	(void)str_copy(session->alloc, sizeof(session->alloc), alloc);
	(void)str_copy(session->task, sizeof(session->task), task);
	(void)str_copy(session->namespace, sizeof(session->namespace), namespace);
	container_name(alloc, task, session->name);
	session->found = found;
	ask(session, SHORT("GET"), on_found, "/containers/%s/json", session->name);
}

/* False: the session has ended. */
static bool is_running(struct session *session, const struct container *container)
{
	struct error err;

	if (container->state == HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_RUNNING)
		return true;
	(void)error_set(&err, STATUS_FAILED_PRECONDITION, 0, "task '%s' of allocation %s does not run",
			session->task, session->alloc);
	session_fail(session, &err);
	return false;
}

/* --- output -----------------------------------------------------------------------------------------------
 */

static void after_output(struct session *session);
static int on_retry(sd_event_source *source, uint64_t usec, void *userdata);

static void arm_retry(struct session *session, uint64_t us)
{
	uint64_t at = clock_monotonic_us() + us;

	if (!session->retry)
		(void)sd_event_add_time(session->driver->event, &session->retry, CLOCK_MONOTONIC, at,
					RETRY_ACCURACY_US, on_retry, session);
	else if (sd_event_source_set_time(session->retry, at) >= 0)
		(void)sd_event_source_set_enabled(session->retry, SD_EVENT_ONESHOT);
}

static bool is_full(const struct session *session)
{
	return session->is_behind || session->is_resting || session->piece.len > 0 || session->raw.len > 0;
}

static void note_failure(struct session *session, const struct error *err)
{
	session->failure = *err;
	session->has_failed = true;
	arm_retry(session, 0);
}

/* Delivers output. Bytes that the client does not accept now wait, and reading pauses until they are gone. */
static void deliver(struct session *session, uint8_t *bytes, size_t n)
{
	enum status status = STATUS_OK;
	struct error err;

	if (session->piece.len > 0 || session->has_failed) { /* behind those that wait */
		strbuf_put(&session->raw, bytes, n);
		return;
	}
	while (n > 0 && status == STATUS_OK) {
		struct frames_run run = {FRAMES_STDOUT, bytes, session->is_framed ? 0 : n};
		size_t used = n;

		if (session->is_framed)
			status = frames_join(&session->frames, bytes, n, &used, &run, &err);
		if (status == STATUS_OK && run.n > 0)
			status = session->emit(session, run.stream, run.bytes, run.n, &err);
		bytes += used;
		n -= used;
		if (status != STATUS_RESOURCE_EXHAUSTED)
			continue;
		session->piece_stream = run.stream;
		strbuf_put(&session->piece, run.bytes, run.n);
		strbuf_put(&session->raw, bytes, n);
		arm_retry(session, RETRY_US);
		return;
	}
	if (status != STATUS_OK)
		note_failure(session, &err);
	else if (session->is_stream)
		session->is_behind = rpc_call_is_full(session->call);
}

static int on_retry(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct session *session = userdata;
	enum status status = STATUS_OK;
	struct strbuf raw;
	struct error err;

	session->is_resting = false;
	if (session->has_failed) {
		session_fail(session, &session->failure);
		return 0;
	}
	if (session->piece.len > 0)
		status = session->emit(session, session->piece_stream, (const uint8_t *)session->piece.data,
				       session->piece.len, &err);
	if (status == STATUS_RESOURCE_EXHAUSTED) {
		arm_retry(session, RETRY_US);
		return 0;
	}
	if (status != STATUS_OK) {
		session_fail(session, &err);
		return 0;
	}
	strbuf_consume(&session->piece, session->piece.len);
	raw = session->raw;
	session->raw = (struct strbuf)STRBUF_INIT(2UL * CHUNK_MAX);
	deliver(session, (uint8_t *)raw.data, raw.len);
	strbuf_release(&raw);
	if (!is_full(session) && !session->has_failed)
		after_output(session);
	return 0;
}

/* --- exec -------------------------------------------------------------------------------------------------
 */

static enum status emit_exec(struct session *session, unsigned int stream, const uint8_t *bytes, size_t n,
			     struct error *err)
{
	Holdfast__Driver__V1__ExecTaskStreamingResponse response =
		HOLDFAST__DRIVER__V1__EXEC_TASK_STREAMING_RESPONSE__INIT;
	Holdfast__Driver__V1__ExecData data = HOLDFAST__DRIVER__V1__EXEC_DATA__INIT;

	data.value = (ProtobufCBinaryData){n, (uint8_t *)(uintptr_t)bytes};
	if (stream == FRAMES_STDERR)
		response.stderr = &data;
	else
		response.stdout = &data;
	return rpc_call_send(session->call, &response.base, err);
}

static enum status emit_collect(struct session *session, unsigned int stream, const uint8_t *bytes, size_t n,
				struct error *err)
{
	struct strbuf *to = &session->collected[stream == FRAMES_STDERR];
	size_t room = COLLECT_MAX - to->len;

	session->is_truncated |= n > room;
	strbuf_put(to, bytes, n > room ? room : n);
	return STATUS_OK;
}

static void reply_collected(struct session *session, Holdfast__Driver__V1__ExitResult *result)
{
	Holdfast__Driver__V1__ExecTaskResponse response = HOLDFAST__DRIVER__V1__EXEC_TASK_RESPONSE__INIT;

	response.stdout =
		(ProtobufCBinaryData){session->collected[0].len, (uint8_t *)session->collected[0].data};
	response.stderr =
		(ProtobufCBinaryData){session->collected[1].len, (uint8_t *)session->collected[1].data};
	response.result = result;
	response.truncated = session->is_truncated;
	driver_note_end(session->driver, &session->taken.order, STATUS_OK, false);
	rpc_call_reply(session->call, &response.base);
	session->is_over = true;
	session_free(session);
}

/* Where there is no room for it now it is asked for again. */
static void reply_exited(struct session *session, Holdfast__Driver__V1__ExitResult *result)
{
	Holdfast__Driver__V1__ExecTaskStreamingResponse response =
		HOLDFAST__DRIVER__V1__EXEC_TASK_STREAMING_RESPONSE__INIT;
	enum status status;
	struct error err;

	response.exited = true;
	response.result = result;
	status = rpc_call_send(session->call, &response.base, &err);
	if (status == STATUS_RESOURCE_EXHAUSTED) {
		arm_retry(session, RETRY_US);
		return;
	}
	if (status != STATUS_OK) {
		session_fail(session, &err);
		return;
	}
	driver_note_end(session->driver, &session->taken.order, STATUS_OK, false);
	rpc_call_finish(session->call);
	session->is_over = true;
	quiet(session);
}

/* An engine that is ended in the middle of a command breaks off its output; the command runs on. */
static void ask_later(struct session *session)
{
	uint64_t now = clock_monotonic_us();
	struct error err;

	if (session->ask_until_us == 0)
		session->ask_until_us = now + session->driver->settings->engine_timeout_us;
	if (now < session->ask_until_us) {
		arm_retry(session, EXEC_PAUSE_US);
		return;
	}
	(void)error_set(
		&err, STATUS_UNAVAILABLE, 0,
		"the engine broke off the command's output. It may still run in task '%s' of allocation %s; "
		"its exit status is unknown. Next, before you run it again: holdfast alloc exec %s %s -- ps",
		session->task, session->alloc, session->alloc, session->task);
	session_fail(session, &err);
}

static void on_exit_code(enum status status, const struct error *err, const json_t *json, void *userdata)
{
	struct session *session = userdata;
	Holdfast__Driver__V1__ExitResult result = HOLDFAST__DRIVER__V1__EXIT_RESULT__INIT;
	bool still_runs = false;
	struct error own;

	session->request = NULL;
	if (status == STATUS_OK) {
		status = container_read_exec(json, &still_runs, &result.exit_code, &own);
		err = &own;
	}
	if (status != STATUS_OK)
		session_fail(session, err);
	else if (still_runs)
		ask_later(session);
	else if (session->is_stream)
		reply_exited(session, &result);
	else
		reply_collected(session, &result);
}

static void ask_exit_code(struct session *session)
{
	session->io = sd_event_source_disable_unref(session->io);
	if (!session->request)
		ask(session, SHORT("GET"), on_exit_code, "/exec/%s/json", session->exec_id);
}

static void wait_io(struct session *session)
{
	uint32_t events = (is_full(session) ? 0U : EPOLLIN) | (byteq_len(&session->in) > 0 ? EPOLLOUT : 0U);

	if (!session->io)
		return;
	(void)sd_event_source_set_io_events(session->io, events);
	/* that the other end has gone is reported even to who waits for nothing */
	(void)sd_event_source_set_enabled(session->io, events != 0 ? SD_EVENT_ON : SD_EVENT_OFF);
}

/* Pauses a client that sends faster than the task reads. */
static void pace_client(const struct session *session)
{
	if (session->is_stream && !session->is_over)
		rpc_call_pause(session->call, byteq_len(&session->in) > STDIN_HIGH);
}

/* Towards the task, as far as it takes it. */
static void push_stdin(struct session *session)
{
	ssize_t n = 0;

	if (!session->is_upgraded || session->fd < 0)
		return;
	while (byteq_len(&session->in) > 0) {
		n = send(session->fd, byteq_data(&session->in), byteq_len(&session->in),
			 MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n <= 0)
			break;
		byteq_take(&session->in, (size_t)n);
	}
	if (n < 0 && errno != EAGAIN && errno != EINTR) /* no reader: the result shows at the end */
		byteq_take(&session->in, byteq_len(&session->in));
	if (byteq_len(&session->in) == 0 && session->wants_close && !session->is_closed) {
		session->is_closed = true;
		if (session->is_framed)
			(void)shutdown(session->fd, SHUT_WR);
		else
			(void)send(session->fd, "\x04", 1,
				   MSG_NOSIGNAL | MSG_DONTWAIT); /* end of file, typed */
	}
	pace_client(session);
	wait_io(session);
}

static int on_deadline(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct session *session = userdata;
	struct error err;

	(void)error_set(&err, STATUS_DEADLINE_EXCEEDED, 0,
			"%s in time; it may still run in task '%s' of allocation %s",
			session->is_upgraded ? "the command did not end"
					     : "the engine did not begin the command",
			session->task, session->alloc);
	session_fail(session, &err);
	return 0;
}

static void arm_deadline(struct session *session, uint64_t us)
{
	session->deadline = sd_event_source_disable_unref(session->deadline);
	if (us > 0)
		(void)sd_event_add_time(session->driver->event, &session->deadline, CLOCK_MONOTONIC,
					clock_monotonic_us() + us, 0, on_deadline, session);
}

static void on_resized(enum status status, const struct error *err, const json_t *json, void *userdata);

/* Sends the terminal's current size to the engine, one request after the other. */
static void resize(struct session *session)
{
	char path[ENGINE_PATH_SIZE];
	const struct engine_request request = {.method = "POST",
					       .path = path,
					       .timeout_us = session->driver->settings->engine_timeout_us,
					       .is_text = true};

	if (!session->is_upgraded || session->is_framed || session->rows == 0 || session->is_resized ||
	    session->resizing)
		return;
	session->is_resized = true;
	(void)snprintf(path, sizeof(path), "/exec/%s/resize?h=%u&w=%u", session->exec_id, session->rows,
		       session->columns);
	(void)engine_send(session->driver->engine, &request, on_resized, session, &session->resizing, NULL);
}

/* One that fails is not worth the command. */
static void on_resized(enum status status, const struct error *err, const json_t *json, void *userdata)
{
	struct session *session = userdata;

	session->resizing = NULL;
	resize(session);
}

static void apply_size(struct session *session, const Holdfast__Driver__V1__TtySize *size)
{
	if (size->height > UINT16_MAX || size->width > UINT16_MAX)
		return;
	session->rows = size->height;
	session->columns = size->width;
	session->is_resized = false;
	resize(session);
}

/* Whether all of the answer is there, the reason in its body too. False also when only its end will show
 * that. */
static bool is_whole_answer(const char *head, const char *body)
{
	const char *length = strcasestr(head, "\r\nContent-Length:");

	if (!length || length >= body)
		return strstr(body, "\r\n0\r\n\r\n") != NULL; /* in chunks */
	return strlen(body) >= strtoul(length + strlen("\r\nContent-Length:"), NULL, 10);
}

/* The answer to the start of a command is no promise to pass its bytes. */
static void fail_start(struct session *session)
{
	const char *body = strstr(session->head, "\r\n\r\n");
	char what[ENGINE_PATH_SIZE];
	const char *json;
	struct error err;
	long code;

	code = str_starts_with(session->head, "HTTP/1.")
		       ? strtol(session->head + strlen("HTTP/1.x "), NULL, 10)
		       : 0;
	json = body ? strchr(body, '{') : NULL;
	(void)snprintf(what, sizeof(what), "POST /exec/%s/start", session->exec_id);
	(void)engine_refusal(session->driver->settings->engine_socket, code, what, json,
			     json ? strlen(json) : 0, &err);
	session_fail(session, &err);
}

/* The answer's head, then the bytes of the command. False: the session has ended. */
static bool parse_head(struct session *session, uint8_t *bytes, size_t n)
{
	size_t room = sizeof(session->head) - 1 - session->n_head;
	size_t taken = n < room ? n : room;
	const char *end;
	size_t over;

	memcpy(session->head + session->n_head, bytes, taken);
	session->n_head += taken;
	session->head[session->n_head] = '\0';
	end = strstr(session->head, "\r\n\r\n");
	if (!end && taken == n)
		return true;
	if (!end || !str_starts_with(session->head, "HTTP/1.1 101 ")) {
		if (end && taken == n && !is_whole_answer(session->head, end + 4))
			return true;
		fail_start(session);
		return false;
	}
	session->is_upgraded = true;
	arm_deadline(session, session->is_stream ? 0 : session->timeout_ms * USEC_PER_MSEC);
	over = session->n_head - (size_t)(end + 4 - session->head);
	deliver(session, (uint8_t *)session->head + session->n_head - over, over);
	deliver(session, bytes + taken, n - taken);
	push_stdin(session);
	resize(session);
	return true;
}

/* Lets the engine write on for a moment. podman writes 8 KiB at once, and each would wake four processes. */
static void rest(struct session *session)
{
	session->is_resting = true;
	arm_retry(session, REST_US);
}

static int on_io(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct session *session = userdata;
	uint8_t bytes[CHUNK_MAX];
	ssize_t n;

	if (events & EPOLLOUT)
		push_stdin(session);
	if (is_full(session) || !(events & (EPOLLIN | EPOLLHUP | EPOLLERR))) {
		wait_io(session);
		return 0;
	}
	n = recv(fd, bytes, session->is_upgraded ? sizeof(bytes) : HEAD_MAX / 4, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0) {
		session->has_ended = true;
		after_output(session);
		return 0;
	}
	if (session->is_upgraded)
		deliver(session, bytes, (size_t)n);
	else if (!parse_head(session, bytes, (size_t)n))
		return 0;
	if (n >= BULK && (size_t)n < sizeof(bytes) && !is_full(session))
		rest(session);
	wait_io(session);
	return 0;
}

static enum status connect_engine(struct session *session, struct error *err)
{
	const char *path = session->driver->settings->engine_socket;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char request[512];
	int n;

	(void)str_copy(address.sun_path, sizeof(address.sun_path), path);
	session->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (session->fd < 0 || connect(session->fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return error_set(err, STATUS_UNAVAILABLE, errno, "reach the engine at %s", path);
	n = str_format(request, sizeof(request),
		       "POST " ENGINE_API "/exec/%s/start HTTP/1.1\r\nHost: engine\r\n"
		       "Content-Type: application/json\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
		       "Content-Length: %d\r\n\r\n{\"Detach\":false,\"Tty\":%s}",
		       session->exec_id, session->is_framed ? 28 : 27, session->is_framed ? "false" : "true");
	if (n < 0 || send(session->fd, request, (size_t)n, MSG_NOSIGNAL) != n)
		return error_set(err, STATUS_UNAVAILABLE, errno, "ask the engine at %s to begin a command",
				 path);
	n = sd_event_add_io(session->driver->event, &session->io, session->fd, EPOLLIN, on_io, session);
	return n < 0 ? error_set(err, STATUS_RESOURCE_EXHAUSTED, n, "wait for the engine") : STATUS_OK;
}

static void on_exec_made(enum status status, const struct error *err, const json_t *json, void *userdata)
{
	struct session *session = userdata;
	const char *id = json_string_value(json_object_get(json, "Id"));
	struct error own;

	session->request = NULL;
	if (status == STATUS_OK && (!id || !container_is_id(id))) {
		status = error_set(&own, STATUS_INTERNAL, 0, "the engine made an exec without an id");
		err = &own;
	}
	if (status != STATUS_OK) {
		session_fail(session, err);
		return;
	}
	(void)str_copy(session->exec_id, sizeof(session->exec_id), id);
	arm_deadline(session, session->driver->settings->engine_timeout_us);
	if (connect_engine(session, &own) != STATUS_OK)
		session_fail(session, &own);
}

/* Keys typed in a terminal that leave it: a sequence that no user can know, because Docker has a default,
 * after which it reports exit status 126 whether or not the command ended by SIGHUP. Its first key is a rare
 * one: the engine holds back the beginning of the sequence. */
static json_t *detach_keys(const struct session *session)
{
	char hex[2 * ORDER_NONCE_SIZE + 1];
	char keys[sizeof("ctrl-^") + 4UL * ORDER_NONCE_SIZE] = "ctrl-^";
	size_t n = strlen(keys);

	hex_encode(hex, session->taken.order.nonce, ORDER_NONCE_SIZE);
	for (size_t i = 0; hex[i] != '\0'; i++)
		n += (size_t)str_format(keys + n, sizeof(keys) - n, ",%c", hex[i]);
	return json_string(keys);
}

static void exec_found(struct session *session, const struct container *container)
{
	const Holdfast__Driver__V1__ExecCommand *command = (const void *)session->taken.body;
	struct error err;
	json_t *body;

	if (!is_running(session, container))
		return;
	body = json_pack("{s:b, s:b, s:b, s:b, s:o, s:b, s:s, s:o}", "AttachStdin", session->is_stream,
			 "AttachStdout", true, "AttachStderr", true, "Tty", command->tty, "DetachKeys",
			 detach_keys(session), "Privileged", false, "User", command->user, "Cmd",
			 container_list(command->argv, command->n_argv));
	if (!body) {
		(void)error_set(&err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "tell the engine what to run");
		session_fail(session, &err);
		return;
	}
	ask(session, SHORT("POST", .body = body), on_exec_made, "/containers/%s/exec", container->id);
}

/* Takes the order and checks that the command is allowed. This uses up the order. */
static enum status handle_command(struct session *session, const ProtobufCBinaryData *order,
				  const ProtobufCBinaryData *bytes, struct error *err)
{
	struct driver *driver = session->driver;
	const Holdfast__Driver__V1__ExecCommand *command;
	const char *reason = "command";
	enum status status = STATUS_OK;

	TRY(driver_take_order(driver, ORDER_EXEC, order, bytes, &session->taken, err));
	command = (const void *)session->taken.body;
	if (command->n_argv == 0 || command->n_argv > ARGV_MAX || command->argv[0][0] == '\0' ||
	    !task_text_is_right(TASK_TEXT_USER, command->user))
		status = error_set(err, STATUS_INVALID_ARGUMENT, 0, "that is no command, or no user for it");
	else
		status = policy_check_exec(driver->settings, command->user, &reason, err);
	if (status == STATUS_OK)
		status = driver_check_user(driver, command->user, &reason, err);
	if (status != STATUS_OK)
		return driver_refuse(driver, &session->taken, reason, err);
	status = driver_use_order(driver, &session->taken, false, err);
	session->has_used = status == STATUS_OK;
	session->is_framed = !command->tty;
	return status;
}

static void begin_exec(struct session *session, const ProtobufCBinaryData *order,
		       const ProtobufCBinaryData *bytes)
{
	const Holdfast__Driver__V1__ExecCommand *command;
	struct error err;

	if (handle_command(session, order, bytes, &err) != STATUS_OK) {
		session_fail(session, &err);
		return;
	}
	command = (const void *)session->taken.body;
	session_look(session, command->namespace_, command->alloc_id, command->task, exec_found);
}

void exec_task(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	const Holdfast__Driver__V1__ExecTaskRequest *exec = (const void *)request;
	struct error err;
	struct session *session = session_new(userdata, call, false, &err);

	if (!session) {
		rpc_call_fail(call, &err);
		return;
	}
	rpc_call_set_data(call, session);
	session->emit = emit_collect;
	session->timeout_ms = exec->timeout_ms == 0		       ? EXEC_TIMEOUT_S * 1000
			      : exec->timeout_ms < EXEC_TIMEOUT_MAX_MS ? exec->timeout_ms
								       : EXEC_TIMEOUT_MAX_MS;
	begin_exec(session, &exec->order, &exec->command);
}

void exec_task_gone(struct rpc_call *call, void *userdata)
{
	static const struct error gone = {.status = STATUS_CANCELLED, .msg = "the caller has gone"};

	session_fail(rpc_call_data(call), &gone);
}

/* --- streams ----------------------------------------------------------------------------------------------
 */

static void on_exec_message(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	const Holdfast__Driver__V1__ExecTaskStreamingRequest *request = (const void *)message;
	struct session *session = rpc_call_data(call);
	struct error err;
	bool is_held;

	if (!session) {
		session = session_new(userdata, call, true, &err);
		if (!session || !request->setup) {
			if (session)
				session_free(session);
			(void)error_set(session ? &err : NULL, STATUS_INVALID_ARGUMENT, 0,
					"the first message of an exec has to have its set-up");
			rpc_call_fail(call, &err);
			return;
		}
		rpc_call_set_data(call, session);
		session->emit = emit_exec;
		begin_exec(session, &request->setup->order, &request->setup->command);
		return;
	}
	if (session->is_over)
		return;
	if (request->setup) {
		(void)error_set(&err, STATUS_INVALID_ARGUMENT, 0, "an exec is set up once");
		session_fail(session, &err);
		return;
	}
	if (request->tty_size)
		apply_size(session, request->tty_size);
	if (!request->stdin || session->wants_close)
		return;
	is_held = byteq_put(&session->in, request->stdin->value.data, request->stdin->value.len);
	session->wants_close = request->stdin->close;
	if (!is_held) {
		(void)error_set(&err, STATUS_RESOURCE_EXHAUSTED, 0,
				"more than %d bytes of input wait for a command that does not read them",
				STDIN_MAX);
		session_fail(session, &err);
		return;
	}
	push_stdin(session);
	pace_client(session); /* also before the command has begun */
}

static void on_exec_half_close(struct rpc_call *call, void *userdata)
{
	struct session *session = rpc_call_data(call);

	if (!session || session->is_over)
		return;
	session->wants_close = true;
	push_stdin(session);
}

static void on_half_close(struct rpc_call *call, void *userdata)
{
}

static void on_stream_closed(struct rpc_call *call, void *userdata)
{
	struct session *session = rpc_call_data(call);

	if (!session)
		return;
	if (!session->is_over && session->has_used)
		driver_note_end(session->driver, &session->taken.order, STATUS_CANCELLED, false);
	session_free(session);
}

static void on_drained(struct rpc_call *call, void *userdata)
{
	struct session *session = rpc_call_data(call);

	if (!session || session->is_over)
		return;
	session->is_behind = false;
	if (!is_full(session) && !session->has_failed)
		after_output(session);
}

const struct rpc_stream_handlers exec_stream = {.on_message = on_exec_message,
						.on_closed = on_stream_closed,
						.on_half_close = on_exec_half_close,
						.on_drained = on_drained};

/* --- logs -------------------------------------------------------------------------------------------------
 */

static enum status emit_log(struct session *session, unsigned int stream, const uint8_t *bytes, size_t n,
			    struct error *err)
{
	Holdfast__Driver__V1__TaskLogsResponse response = HOLDFAST__DRIVER__V1__TASK_LOGS_RESPONSE__INIT;

	response.stream = stream == FRAMES_STDERR ? HOLDFAST__DRIVER__V1__OUTPUT_STREAM__OUTPUT_STREAM_STDERR
						  : HOLDFAST__DRIVER__V1__OUTPUT_STREAM__OUTPUT_STREAM_STDOUT;
	response.value = (ProtobufCBinaryData){n, (uint8_t *)(uintptr_t)bytes};
	return rpc_call_send(session->call, &response.base, err);
}

static bool on_log_data(const uint8_t *bytes, size_t n, void *userdata)
{
	struct session *session = userdata;

	if (is_full(session) || session->has_failed)
		return false;
	deliver(session, (uint8_t *)(uintptr_t)bytes, n); /* no other reader gets them */
	return true;
}

static void on_logs_end(enum status status, const struct error *err, const json_t *json, void *userdata)
{
	struct session *session = userdata;

	session->request = NULL;
	if (status != STATUS_OK) {
		session_fail(session, err);
		return;
	}
	session->has_ended = true;
	if (!is_full(session) && !session->has_failed)
		after_output(session);
}

static void logs_found(struct session *session, const struct container *container)
{
	const struct engine_request request = {
		.method = "GET",
		.silence_us = session->follow ? 0 : session->driver->settings->engine_timeout_us,
		.data = on_log_data};
	char tail[16] = "all";
	struct error err;

	if (!container->has_logs) {
		(void)error_set(&err, STATUS_FAILED_PRECONDITION, 0,
				"task '%s' of allocation %s has logs { disabled = true }: the engine keeps "
				"no output. Next: look where the program itself writes",
				session->task, session->alloc);
		session_fail(session, &err);
		return;
	}
	if (session->tail > 0)
		(void)snprintf(tail, sizeof(tail), "%u", session->tail < TAIL_MAX ? session->tail : TAIL_MAX);
	session->is_framed = true;
	ask(session, request, on_logs_end, "/containers/%s/logs?stdout=%d&stderr=%d&follow=%d&tail=%s",
	    container->id, session->want_stdout, session->want_stderr, session->follow, tail);
}

/* Sends the saved last output, if there is one: the container is gone. */
static void logs_missing(struct session *session, const struct container *container)
{
	const struct last_output_wish wish = {session->want_stdout, session->want_stderr, session->tail};
	cleanup_strbuf struct strbuf bytes = STRBUF_INIT(LAST_OUTPUT_MAX);
	struct error err;

	assert(!container);
	if (last_output_load(session->driver->settings->state_dir, session->namespace, session->alloc,
			     session->task, &wish, &bytes, &err) != STATUS_OK) {
		session_fail(session, &err);
		return;
	}
	session->is_framed = true;
	deliver(session, (uint8_t *)bytes.data, bytes.len);
	on_logs_end(STATUS_OK, NULL, NULL, session);
}

static void on_logs_message(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	const Holdfast__Driver__V1__TaskLogsRequest *request = (const void *)message;
	struct session *session;
	struct error err;

	if (rpc_call_data(call))
		return;
	session = session_new(userdata, call, true, &err);
	if (!session) {
		rpc_call_fail(call, &err);
		return;
	}
	rpc_call_set_data(call, session);
	session->emit = emit_log;
	session->want_stdout = request->stdout || !request->stderr;
	session->want_stderr = request->stderr || !request->stdout;
	session->follow = request->follow;
	session->tail = request->tail;
	session->missing = logs_missing;
	session_look(session, request->namespace_, request->alloc_id, request->task, logs_found);
}

const struct rpc_stream_handlers logs_stream = {.on_message = on_logs_message,
						.on_closed = on_stream_closed,
						.on_half_close = on_half_close,
						.on_drained = on_drained};

/* --- stats ------------------------------------------------------------------------------------------------
 */

static void stats_found(struct session *session, const struct container *container);

static int on_stats_time(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct session *session = userdata;

	session_look(session, session->namespace, session->alloc, session->task, stats_found);
	return 0;
}

static void on_stats(enum status status, const struct error *err, const json_t *json, void *userdata)
{
	Holdfast__Driver__V1__TaskStatsResponse response;
	struct session *session = userdata;
	struct error own;

	session->request = NULL;
	if (status == STATUS_OK) {
		status = container_stats(json, &response, &own);
		err = &own;
	}
	if (status != STATUS_OK) {
		session_fail(session, err);
		return;
	}
	(void)rpc_call_send(session->call, &response.base, NULL); /* a slow client gets the next one */
	session->deadline = sd_event_source_disable_unref(session->deadline);
	(void)sd_event_add_time(session->driver->event, &session->deadline, CLOCK_MONOTONIC,
				clock_monotonic_us() + session->interval_ms * USEC_PER_MSEC, 0, on_stats_time,
				session);
}

static void stats_found(struct session *session, const struct container *container)
{
	if (is_running(session, container))
		ask(session, SHORT("GET"), on_stats, "/containers/%s/stats?stream=false", container->id);
}

static void on_stats_message(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	const Holdfast__Driver__V1__TaskStatsRequest *request = (const void *)message;
	struct session *session;
	struct error err;

	if (rpc_call_data(call))
		return;
	session = session_new(userdata, call, true, &err);
	if (!session) {
		rpc_call_fail(call, &err);
		return;
	}
	rpc_call_set_data(call, session);
	session->interval_ms = request->interval_ms == 0	     ? STATS_DEFAULT_MS
			       : request->interval_ms < STATS_MIN_MS ? (uint32_t)STATS_MIN_MS
								     : request->interval_ms;
	session_look(session, request->namespace_, request->alloc_id, request->task, stats_found);
}

const struct rpc_stream_handlers stats_stream = {
	.on_message = on_stats_message, .on_closed = on_stream_closed, .on_half_close = on_half_close};

/* Reads on after the client took all output, or reports the end. */
static void after_output(struct session *session)
{
	if (session->is_over)
		return;
	if (session->has_ended && session->emit == emit_log) {
		session->is_over = true;
		rpc_call_finish(session->call);
		quiet(session);
	} else if (session->has_ended && !session->is_upgraded && strstr(session->head, "\r\n\r\n")) {
		fail_start(session);
	} else if (session->has_ended && !session->is_upgraded) {
		struct error err;

		(void)error_set(&err, STATUS_UNAVAILABLE, 0,
				"the engine broke off before it began the command");
		session_fail(session, &err);
	} else if (session->has_ended) {
		ask_exit_code(session);
	} else if (session->emit == emit_log && session->request) {
		engine_resume(session->request);
	} else {
		wait_io(session);
	}
}

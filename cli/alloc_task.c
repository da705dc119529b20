/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks of allocations from afar: run a command in one, read what it writes, see what it uses. */

#include "base/cleanup.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "call/connect.h"
#include "call/pick.h"
#include "command/commands.h"
#include "command/values.h"
#include "rpc/client.h"
#include "show/output.h"

#include <errno.h>
#include <fcntl.h>
#include <holdfast/v1/allocations.pb-c.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

enum {
	INPUT_SIZE = 64 << 10,	 /* of one message */
	EXIT_SIGNAL = 128,	 /* and its number, as a shell has it */
	DETACH_FIRST = 'P' & 31, /* ctrl-p ctrl-q leave the command running */
	DETACH_SECOND = 'Q' & 31,
	HEARTBEAT_US = 10 * USEC_PER_SEC,
};

/* ---- write everything, to a file of any kind ---- */

static enum status put(int fd, const ProtobufCBinaryData *data, struct error *err)
{
	size_t at = 0;

	while (at < data->len) {
		ssize_t n = write(fd, data->data + at, data->len - at);

		if (n < 0 && errno == EAGAIN) {
			struct pollfd ready = {.fd = fd, .events = POLLOUT};

			(void)poll(&ready, 1, -1);
		} else if (n < 0 && errno != EINTR) {
			return error_set(err, STATUS_INTERNAL, errno, "cannot write the output");
		} else if (n > 0) {
			at += (size_t)n;
		}
	}
	return STATUS_OK;
}

/* The end of a stream's output that is no whole character yet. */
struct held {
	char bytes[4];
	size_t n;
};

/* Prints output of a task. A terminal gets only whole characters that it does not obey: one character cannot
 * be made of both streams. A file gets the bytes as they are. */
static enum status put_output(int fd, struct held *held, const ProtobufCBinaryData *data, struct error *err)
{
	cleanup_strbuf struct strbuf text = STRBUF_INIT(SIZE_MAX / 4);
	size_t n;

	if (!isatty(fd))
		return put(fd, data, err);
	strbuf_put(&text, held->bytes, held->n);
	strbuf_put(&text, data->data, data->len);
	if (text.error != 0)
		return error_no_memory(err, "the output");
	n = str_mask_text(text.data, text.len);
	held->n = text.len - n;
	memcpy(held->bytes, text.data + n, held->n);
	return put(fd, &(ProtobufCBinaryData){.len = n, .data = (uint8_t *)text.data}, err);
}

/* ---- exec ---- */

struct session {
	struct invocation *inv;
	sd_event *event;
	struct rpc_stream *stream; /* NULL: it has ended */
	sd_event_source *input, *resize, *heartbeat;
	struct held out, error;
	struct termios before;
	bool is_raw;
	bool had_detach_first; /* the last byte typed was ctrl-p */
	bool is_detached;
	bool is_done;
	bool has_result;
	int exit_code;
	enum status status;
	struct error err;
};

static void exec_session_finish(struct session *s, enum status status, const struct error *err)
{
	s->is_done = true;
	if (s->status != STATUS_OK || status == STATUS_OK)
		return;
	s->status = status;
	s->err = *err;
}

static void send_frame(struct session *s, Holdfast__Driver__V1__ExecTaskStreamingRequest *input)
{
	Holdfast__V1__ExecAllocationRequest request = HOLDFAST__V1__EXEC_ALLOCATION_REQUEST__INIT;
	struct error err;
	enum status status;

	if (!s->stream)
		return;
	request.input = input;
	status = rpc_stream_send(s->stream, &request.base, &err);
	if (status != STATUS_OK)
		exec_session_finish(s, status, &err);
	else if (s->input && rpc_stream_is_full(s->stream))
		(void)sd_event_source_set_enabled(s->input, SD_EVENT_OFF);
}

static void send_input(struct session *s, const void *bytes, size_t n, bool is_end)
{
	Holdfast__Driver__V1__ExecTaskStreamingRequest input =
		HOLDFAST__DRIVER__V1__EXEC_TASK_STREAMING_REQUEST__INIT;
	Holdfast__Driver__V1__ExecData data = HOLDFAST__DRIVER__V1__EXEC_DATA__INIT;

	data.value = (ProtobufCBinaryData){.len = n, .data = (uint8_t *)(uintptr_t)bytes};
	data.close = is_end;
	input.stdin = &data;
	send_frame(s, &input);
}

static void send_size(struct session *s)
{
	Holdfast__Driver__V1__ExecTaskStreamingRequest input =
		HOLDFAST__DRIVER__V1__EXEC_TASK_STREAMING_REQUEST__INIT;
	Holdfast__Driver__V1__TtySize size = HOLDFAST__DRIVER__V1__TTY_SIZE__INIT;
	struct winsize now;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &now) < 0)
		return;
	size.height = now.ws_row;
	size.width = now.ws_col;
	input.tty_size = &size;
	send_frame(s, &input);
}

/* Cuts the input at ctrl-p ctrl-q, which detaches from the command. Returns how many bytes continue. */
static size_t cut_at_detach(struct session *s, const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; s->is_raw && i < n; i++) {
		if (s->had_detach_first && bytes[i] == DETACH_SECOND) {
			s->is_detached = true;
			return i > 0 ? i - 1 : 0;
		}
		s->had_detach_first = bytes[i] == DETACH_FIRST;
	}
	return n;
}

static int on_input(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	uint8_t bytes[INPUT_SIZE];
	struct session *s = userdata;
	ssize_t n = read(fd, bytes, sizeof(bytes));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0) {
		(void)sd_event_source_set_enabled(source, SD_EVENT_OFF);
		s->input = sd_event_source_disable_unref(s->input);
		send_input(s, "", 0, true);
		return 0;
	}
	n = (ssize_t)cut_at_detach(s, bytes, (size_t)n);
	if (n > 0)
		send_input(s, bytes, (size_t)n, false);
	if (s->is_detached)
		exec_session_finish(s, STATUS_OK, NULL);
	return 0;
}

static int on_resize(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	send_size(userdata);
	return 0;
}

static int on_heartbeat(sd_event_source *source, uint64_t usec, void *userdata)
{
	Holdfast__Driver__V1__ExecTaskStreamingRequest nothing =
		HOLDFAST__DRIVER__V1__EXEC_TASK_STREAMING_REQUEST__INIT;

	send_frame(userdata, &nothing);
	(void)sd_event_source_set_time_relative(source, HEARTBEAT_US);
	(void)sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	return 0;
}

/* ---- what comes ---- */

static void handle_result(struct session *s, const Holdfast__Driver__V1__ExitResult *result)
{
	struct error err;
	int64_t code;

	s->has_result = true;
	if (!result)
		return;
	code = result->signal ? EXIT_SIGNAL + (int64_t)result->signal : result->exit_code;
	s->exit_code = code >= 0 && code <= UINT8_MAX ? (int)code : EXIT_FAILURE; /* not 0 for a shell */
	if (result->error[0]) {
		(void)error_set(&err, STATUS_ABORTED, 0, "the command did not run; its node reports: %.512s",
				result->error);
		exec_session_finish(s, STATUS_ABORTED, &err);
	}
}

static void on_message(struct rpc_stream *stream, const ProtobufCMessage *message, void *userdata)
{
	const Holdfast__Driver__V1__ExecTaskStreamingResponse *reported = (const void *)message;
	struct session *s = userdata;
	enum status status = STATUS_OK;
	struct error err;

	if (reported->stdout && s->inv->options[OPT_TTY]) /* the command drives this terminal */
		status = put(STDOUT_FILENO, &reported->stdout->value, &err);
	else if (reported->stdout)
		status = put_output(STDOUT_FILENO, &s->out, &reported->stdout->value, &err);
	if (status == STATUS_OK && reported->stderr)
		status = put_output(STDERR_FILENO, &s->error, &reported->stderr->value, &err);
	if (status != STATUS_OK)
		exec_session_finish(s, status, &err);
	if (reported->exited)
		handle_result(s, reported->result);
}

static void on_drained(struct rpc_stream *stream, void *userdata)
{
	const struct session *s = userdata;

	if (s->input)
		(void)sd_event_source_set_enabled(s->input, SD_EVENT_ON);
}

static void on_closed(struct rpc_stream *stream, enum status status, const struct error *err, void *userdata)
{
	struct session *s = userdata;
	struct error ended;

	s->stream = NULL;
	if (status == STATUS_OK && !s->has_result) {
		(void)error_set(&ended, STATUS_UNAVAILABLE, 0,
				"the server ended the stream before the command had ended");
		exec_session_finish(s, STATUS_UNAVAILABLE, &ended);
	}
	exec_session_finish(s, status, err);
}

/* ---- the terminal ---- */

static void make_raw(struct session *s)
{
	struct termios raw;

	if (tcgetattr(STDIN_FILENO, &s->before) < 0)
		return;
	raw = s->before;
	cfmakeraw(&raw);
	s->is_raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
}

static void make_cooked(const struct session *s)
{
	if (s->is_raw)
		(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &s->before);
}

/* A plain file cannot be polled: it is ready whenever it is read. */
static int watch_input(struct session *s)
{
	int r = sd_event_add_io(s->event, &s->input, STDIN_FILENO, EPOLLIN, on_input, s);

	if (r != -EPERM)
		return r;
	while (!s->is_done && s->stream) {
		uint8_t bytes[INPUT_SIZE];
		ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));

		send_input(s, bytes, n > 0 ? (size_t)n : 0, n <= 0);
		if (n <= 0)
			return 0;
		while (s->stream && !s->is_done && rpc_stream_is_full(s->stream))
			(void)sd_event_run(s->event, UINT64_MAX);
	}
	return 0;
}

static int prepare(struct session *s, bool is_tty)
{
	sigset_t signals;
	int r;

	if (is_tty) {
		(void)sigemptyset(&signals);
		(void)sigaddset(&signals, SIGWINCH);
		(void)sigprocmask(SIG_BLOCK, &signals, NULL);
		if (s->inv->options[OPT_INTERACTIVE]) /* else ctrl-c is for this program: nothing of it is
							 sent */
			make_raw(s);
		send_size(s);
		r = sd_event_add_signal(s->event, &s->resize, SIGWINCH, on_resize, s);
		if (r < 0)
			return r;
	}
	r = sd_event_add_time_relative(s->event, &s->heartbeat, CLOCK_MONOTONIC, HEARTBEAT_US, USEC_PER_SEC,
				       on_heartbeat, s);
	if (r < 0)
		return r;
	if (s->inv->options[OPT_INTERACTIVE])
		return watch_input(s);
	send_input(s, "", 0, true);
	return 0;
}

/* ---- the commands ---- */

/* Picks ID and, before the arguments behind "--", perhaps a task. */
static enum status pick_task(struct invocation *inv, struct connection *connection, int n_words,
			     char ret_id[static PICK_ID_SIZE], char **ret_task, struct error *err)
{
	if (n_words < 1 || n_words > 2)
		return usage_error(inv, err,
				   "an allocation and perhaps one of its tasks is wanted: ID [TASK]");
	*ret_task = n_words == 2 ? inv->args[1] : (char *)(uintptr_t)protobuf_c_empty_string;
	return pick_alloc(connection, inv->args[0], ret_id, err);
}

static enum status start_exec(struct session *s, struct connection *connection, struct error *err)
{
	static const struct rpc_stream_events events = {
		.on_message = on_message, .on_closed = on_closed, .on_drained = on_drained};
	Holdfast__V1__ExecAllocationRequest request = HOLDFAST__V1__EXEC_ALLOCATION_REQUEST__INIT;
	Holdfast__Driver__V1__ExecCommand command = HOLDFAST__DRIVER__V1__EXEC_COMMAND__INIT;
	int n_words = s->inv->n_args - s->inv->n_behind;
	char id[PICK_ID_SIZE];

	if (s->inv->n_behind < 1)
		return usage_error(s->inv, err,
				   "the command to run is wanted behind --: ID [TASK] -- CMD ...");
	TRY(pick_task(s->inv, connection, n_words, id, &request.task, err));
	request.id = id;
	command.argv = s->inv->args + n_words;
	command.n_argv = (size_t)s->inv->n_behind;
	command.tty = s->inv->options[OPT_TTY] != NULL;
	command.user = option_text(s->inv, OPT_USER);
	request.command = &command;
	TRY(rpc_stream_open(connection_client(connection), &holdfast__v1__allocations__descriptor, "Exec",
			    CALL_TIMEOUT_US, &events, s, &s->stream, err));
	return rpc_stream_send(s->stream, &request.base, err);
}

static enum status run_exec(struct session *s, struct error *err)
{
	int r = prepare(s, s->inv->options[OPT_TTY] != NULL);

	while (r >= 0 && !s->is_done)
		r = sd_event_run(s->event, UINT64_MAX);
	make_cooked(s);
	if (r < 0)
		return error_set(err, status_from_errno(r), r, "cannot wait for the command");
	if (s->status != STATUS_OK)
		*err = s->err;
	return s->status;
}

static enum status cmd_alloc_exec(struct invocation *inv, struct error *err)
{
	cleanup_connection struct connection *connection = NULL;
	struct session s = {.inv = inv};
	enum status status;

	if (inv->options[OPT_TTY] && !(isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)))
		return usage_error(inv, err, "--tty needs a terminal, which input or output here is not");
	TRY(connect_server(inv, &connection, err));
	s.event = connection_event(connection);
	status = start_exec(&s, connection, err);
	if (status == STATUS_OK)
		status = run_exec(&s, err);
	(void)sd_event_source_disable_unref(s.input);
	(void)sd_event_source_disable_unref(s.resize);
	(void)sd_event_source_disable_unref(s.heartbeat);
	rpc_stream_cancel(s.stream);
	if (s.is_detached)
		print_line("detached");
	if (status == STATUS_OK && s.has_result && s.exit_code != 0) {
		inv->exit_code = s.exit_code;
		return error_set(err, STATUS_ABORTED, 0, "the command has ended with status %d", s.exit_code);
	}
	return status;
}

static enum status on_log(const ProtobufCMessage *message, void *userdata, struct error *err)
{
	const Holdfast__Driver__V1__TaskLogsResponse *reported = (const void *)message;
	bool is_stderr = reported->stream == HOLDFAST__DRIVER__V1__OUTPUT_STREAM__OUTPUT_STREAM_STDERR;
	struct held *held = userdata; /* of each stream */

	return put_output(is_stderr ? STDERR_FILENO : STDOUT_FILENO, &held[is_stderr], &reported->value, err);
}

static enum status cmd_alloc_logs(struct invocation *inv, struct error *err)
{
	Holdfast__V1__AllocationLogsRequest request = HOLDFAST__V1__ALLOCATION_LOGS_REQUEST__INIT;
	struct held held[2] = {{.n = 0}};
	const struct connection_stream stream = {.service = &holdfast__v1__allocations__descriptor,
						 .method = "Logs",
						 .request = &request.base,
						 .on_message = on_log,
						 .userdata = held};
	cleanup_connection struct connection *connection = NULL;
	char id[PICK_ID_SIZE];
	uint64_t tail = 0;

	TRY(value_number(inv, OPT_TAIL, 1, UINT32_MAX, 0, &tail, err));
	TRY(connect_server(inv, &connection, err));
	TRY(pick_task(inv, connection, inv->n_args, id, &request.task, err));
	request.id = id;
	request.tail = (uint32_t)tail;
	request.follow = inv->options[OPT_FOLLOW] != NULL;
	request.stdout = inv->options[OPT_STDOUT] != NULL;
	request.stderr = inv->options[OPT_STDERR] != NULL;
	return connection_stream(connection, &stream, err);
}

static enum status on_stats(const ProtobufCMessage *message, void *userdata, struct error *err)
{
	const Holdfast__Driver__V1__TaskStatsResponse *reported = (const void *)message;
	const struct invocation *inv = userdata;

	if (inv->options[OPT_JSON])
		return print_answer_line(message, err);
	print_line("cpu %" PRIu64 " ms, memory %" PRIu64 " of %" PRIu64 " KiB (most %" PRIu64 "), %" PRIu64
		   " processes, read %" PRIu64 " KiB, written %" PRIu64 " KiB",
		   reported->cpu_ns / 1000000, reported->memory_bytes >> 10,
		   reported->memory_limit_bytes >> 10, reported->memory_max_bytes >> 10, reported->pids,
		   reported->read_bytes >> 10, reported->write_bytes >> 10);
	return fflush(stdout) == 0 ? STATUS_OK
				   : error_set(err, STATUS_INTERNAL, errno, "cannot write the output");
}

static enum status cmd_alloc_stats(struct invocation *inv, struct error *err)
{
	Holdfast__V1__AllocationStatsRequest request = HOLDFAST__V1__ALLOCATION_STATS_REQUEST__INIT;
	struct connection_stream stream = {.service = &holdfast__v1__allocations__descriptor,
					   .method = "Stats",
					   .request = &request.base,
					   .on_message = on_stats,
					   .userdata = inv};
	cleanup_connection struct connection *connection = NULL;
	uint64_t interval_ms = 0;
	char id[PICK_ID_SIZE];

	TRY(value_duration(inv, OPT_INTERVAL, 0, UINT32_MAX, &interval_ms, err));
	TRY(value_timeout(inv, 0, &stream.timeout_us, err));
	TRY(connect_server(inv, &connection, err));
	TRY(pick_task(inv, connection, inv->n_args, id, &request.task, err));
	request.id = id;
	request.interval_ms = (uint32_t)interval_ms;
	return connection_stream(connection, &stream, err);
}

static const struct command commands[] = {
	{.path = "alloc exec",
	 .args = "ID [TASK] -- CMD...",
	 .help = "Run a command in a task of an allocation",
	 .example = "0192f3a0 -it -- /bin/sh",
	 .options = OPTION_BIT(OPT_INTERACTIVE) | OPTION_BIT(OPT_TTY) | OPTION_BIT(OPT_USER),
	 .min_args = 2,
	 .max_args = ANY_ARGS,
	 .arg_kinds = {WORD_ALLOC},
	 .run = cmd_alloc_exec},
	{.path = "alloc logs",
	 .args = "ID [TASK]",
	 .help = "Print what a task of an allocation has written",
	 .example = "0192f3a0 --follow --tail 20",
	 .options = OPTION_BIT(OPT_FOLLOW) | OPTION_BIT(OPT_STDERR) | OPTION_BIT(OPT_STDOUT) |
		    OPTION_BIT(OPT_TAIL),
	 .min_args = 1,
	 .max_args = 2,
	 .arg_kinds = {WORD_ALLOC},
	 .run = cmd_alloc_logs},
	{.path = "alloc stats",
	 .args = "ID [TASK]",
	 .help = "Print what a task of an allocation uses, while it runs",
	 .example = "0192f3a0 --interval 5s",
	 .options = OPTION_BIT(OPT_INTERVAL) | OPTION_BIT(OPT_TIMEOUT),
	 .min_args = 1,
	 .max_args = 2,
	 .arg_kinds = {WORD_ALLOC},
	 .run = cmd_alloc_stats},
};

const struct command_table alloc_task_commands = {commands, ARRAY_SIZE(commands)};

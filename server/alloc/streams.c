/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/streams.h"

#include "server.h"

#include "access/access.h"
#include "access/audit.h"
#include "access/caller.h"
#include "access/words.h"
#include "alloc/orders.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/rates.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "model/message.h"
#include "model/task.h"
#include "node/session.h"
#include "rpc/wakeup.h"
#include "state/change.h"
#include "state/text_json.h"

#include <assert.h>
#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/nodes.pb-c.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum kind { KIND_EXEC, KIND_LOGS, KIND_STATS, KIND_N };

/* The differences between the methods. */
static const struct {
	const char *what;
	enum access_right right;
	Holdfast__V1__TaskStreamUp__MessageCase message; /* of the answers */
} kinds[KIND_N] = {
	[KIND_EXEC] = {"Allocations.Exec", ACCESS_ALLOC_EXEC, HOLDFAST__V1__TASK_STREAM_UP__MESSAGE_EXEC},
	[KIND_LOGS] = {"Allocations.Logs", ACCESS_READ_LOGS, HOLDFAST__V1__TASK_STREAM_UP__MESSAGE_LOGS},
	[KIND_STATS] = {"Allocations.Stats", ACCESS_JOB_READ, HOLDFAST__V1__TASK_STREAM_UP__MESSAGE_STATS},
};

struct task_stream {
	LIST_ENTRY(task_stream) all;
	struct server *server;
	enum kind kind;
	uint64_t id;	 /* chance; by which its node takes it: on no record */
	uint64_t record; /* chance; links the records of a command and of its end */
	char who[ACCESS_WHO_SIZE];
	char node_id[NODE_ID_MAX + 1];
	char alloc_id[UUID_TEXT_SIZE];
	char namespace[NAMESPACE_MAX + 1];
	struct rpc_call *caller; /* NULL: it has gone */
	struct rpc_call *node;	 /* NULL: it has not come */
	bool is_asked;		 /* the first message was taken */
	bool has_result;	 /* exec: how it ended is known */
	int32_t exit_code;
	sd_event_source *timer;
};

/* ---- life ---- */

static void stream_free(struct task_stream *stream)
{
	wakeup_disarm(&stream->timer);
	LIST_REMOVE(stream, all);
	stream->server->n_task_streams--;
	free(stream);
}

/* How a command ended is recorded; its bytes do not. */
static void record_end(const struct task_stream *stream, const struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	char object[AUDIT_OBJECT_SIZE], how[128];

	if (stream->kind != KIND_EXEC || !stream->is_asked)
		return;
	if (stream->has_result)
		(void)str_format(how, sizeof(how), "exit status %" PRId32, stream->exit_code);
	else
		(void)str_format(how, sizeof(how), "cut off: %.80s",
				 stream->server->is_ending ? "the server ended"
				 : err			   ? err->msg
							   : "its caller has gone");
	(void)str_format(object, sizeof(object), "allocation %s, stream %" PRIx64, stream->alloc_id,
			 stream->record);
	audit_own(stream->server, &change, "Allocations.ExecEnd", object, how);
	(void)change_commit(stream->server, &change, NULL, NULL, NULL);
}

/* Both sides end; @err NULL: well. Neither is used afterwards: their on_closed() finds nothing. */
static void task_stream_end(struct task_stream *stream, const struct error *err)
{
	struct rpc_call *caller = stream->caller;
	struct rpc_call *node = stream->node;

	record_end(stream, err);
	stream_free(stream);
	if (node) {
		rpc_call_set_data(node, NULL);
		if (!rpc_call_abort(node)) /* its agent does not read input that the task does not read */
			rpc_call_finish(node);
	}
	if (!caller)
		return;
	rpc_call_set_data(caller, NULL);
	if (err)
		rpc_call_fail(caller, err);
	else
		rpc_call_finish(caller);
}

static int on_overdue(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct task_stream *stream = userdata;
	struct error err;

	(void)error_set(&err, STATUS_UNAVAILABLE, 0, "node %s has not come within %d s; ask again",
			stream->node_id, TASK_STREAM_WAIT_MS / 1000);
	task_stream_end(stream, &err);
	return 0;
}

/* ---- the caller's side ---- */

/* The streams of a caller, however many connections it has. */
static size_t count_streams(const struct server *server, const char *who)
{
	const struct task_stream *stream;
	size_t n = 0;

	LIST_FOREACH (stream, &server->task_streams, all)
		n += str_eq(stream->who, who);
	return n;
}

/* One caller does not take all streams. */
static enum status check_room(const struct server *server, const char *who, struct error *err)
{
	if (server->n_task_streams >= TASK_STREAMS_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "%d streams to tasks are open; try again later", TASK_STREAMS_MAX);
	if (count_streams(server, who) >= TASK_STREAMS_PER_CALLER_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "%s has %d streams to tasks, the most that one caller may have; end some",
				 who, TASK_STREAMS_PER_CALLER_MAX);
	return STATUS_OK;
}

/* Checks the caller before there is a request: without the right in any namespace it takes no stream from
 * others. */
static enum status check_caller(struct server *server, const struct rpc_call *call, enum kind kind,
				struct error *err)
{
	enum status status = access_check(server, call, kinds[kind].right, NULL, err);

	if (status != STATUS_OK && kind == KIND_EXEC)
		audit_refused(server, call, kinds[kind].what, NULL, err);
	return status;
}

enum status task_stream_check(struct server *server, const struct rpc_call *call, struct error *err)
{
	const struct task_stream *stream = rpc_call_data(call);
	const char *namespace = stream->namespace[0] != '\0' ? stream->namespace : NULL;

	return access_check(server, call, kinds[stream->kind].right, namespace, err);
}

static enum status new_stream(struct rpc_call *call, struct server *server, enum kind kind,
			      struct task_stream **ret, struct error *err)
{
	struct task_stream *stream;
	char who[ACCESS_WHO_SIZE];

	TRY(check_caller(server, call, kind, err));
	TRY(check_room(server, access_who(server, call, who), err));
	stream = calloc(1, sizeof(*stream));
	if (!stream || getrandom(&stream->id, sizeof(stream->id), 0) != sizeof(stream->id) ||
	    getrandom(&stream->record, sizeof(stream->record), 0) != sizeof(stream->record)) {
		free(stream);
		return error_no_memory(err, "a stream to a task");
	}
	memcpy(stream->who, who, sizeof(stream->who));
	*ret = stream;
	return STATUS_OK;
}

static void open_stream(struct rpc_call *call, struct server *server, enum kind kind)
{
	struct task_stream *stream = NULL;
	struct error err;

	if (new_stream(call, server, kind, &stream, &err) != STATUS_OK) {
		rpc_call_fail(call, &err);
		return;
	}
	stream->server = server;
	stream->kind = kind;
	stream->caller = call;
	rpc_call_set_data(call, stream);
	LIST_INSERT_HEAD(&server->task_streams, stream, all);
	server->n_task_streams++;
}

/* The task that is named, or the only one. */
static enum status find_task(const struct alloc *alloc, const char *name,
			     const Holdfast__Driver__V1__TaskConfig **ret, struct error *err)
{
	size_t n = message_list_n(alloc->tasks);

	*ret = name[0] != '\0' ? alloc_find_task(alloc, name) : n == 1 ? alloc_task(alloc, 0) : NULL;
	if (*ret)
		return STATUS_OK;
	if (n == 0 && alloc_unit(alloc)[0] != '\0')
		return error_set(
			err, STATUS_UNIMPLEMENTED, 0,
			"allocation %s runs unit %s of systemd, which is no task: driver systemd has "
			"no commands in it, output or figures to give; on node %s: systemctl status %s, "
			"journalctl -u %s",
			alloc->id, alloc_unit(alloc), alloc->node_id, alloc_unit(alloc), alloc_unit(alloc));
	if (n == 0)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0, "allocation %s has no task", alloc->id);
	if (name[0] == '\0')
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "allocation %s has %zu tasks: name one; holdfast alloc status %s lists them",
				 alloc->id, n, alloc->id);
	return error_set(err, STATUS_NOT_FOUND, 0,
			 "allocation %s has no task '%.64s'; holdfast alloc status %s", alloc->id, name,
			 alloc->id);
}

/* Has it ended by its node's report? A lost one may still run there. */
static bool has_ended(const struct alloc *alloc)
{
	return alloc->client_status == CLIENT_COMPLETE || alloc->client_status == CLIENT_FAILED;
}

/* Checks that the task's driver offers exec_streaming, if the driver reports its capabilities. */
static enum status check_offer(const struct alloc_entry *entry, const Holdfast__Driver__V1__TaskConfig *task,
			       struct error *err)
{
	const Holdfast__V1__NodeDriver *driver = node_driver(entry->node, task->driver);

	if (!driver || !driver->capabilities || driver->capabilities->exec_streaming)
		return STATUS_OK;
	return error_set(err, STATUS_UNIMPLEMENTED, 0,
			 "driver %.64s of node %s runs no commands in tasks: it does not offer "
			 "exec_streaming, see holdfast node status %s",
			 task->driver, entry->alloc.node_id, entry->alloc.node_id);
}

/* A namespace has at most as many streams to a node as it leaves, but each caller a first one. */
static enum status check_node_room(const struct task_stream *stream, const struct alloc *alloc,
				   struct error *err)
{
	const struct task_stream *other;
	size_t n = 0, n_own = 0, n_namespace = 0;

	LIST_FOREACH (other, &stream->server->task_streams, all) {
		if (!str_eq(other->node_id, alloc->node_id))
			continue;
		n++;
		n_own += str_eq(other->who, stream->who);
		n_namespace += str_eq(other->namespace, alloc->namespace);
	}
	if (n_own >= TASK_STREAMS_PER_NODE_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "%s has %d streams to tasks of node %s, the most that one caller may have; "
				 "end some",
				 stream->who, TASK_STREAMS_PER_NODE_MAX, alloc->node_id);
	if (n + (n_own > 0 ? n_namespace : 0) >= TASK_STREAMS_OF_NODE_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "%zu streams to tasks of node %s are open, %zu of them of namespace %s: end "
				 "some, or try again later",
				 n, alloc->node_id, n_namespace, alloc->namespace);
	return STATUS_OK;
}

/* Each command is on record at the server and on its node, and the node keeps its order for ten minutes. */
static enum status check_exec_rate(struct task_stream *stream, struct error *err)
{
	const struct {
		const char *kind, *of; /* empty: of all */
		uint64_t per_second;
		uint32_t burst;
	} limits[] = {
		{"caller", stream->who, 2, 200},
		{"namespace", stream->namespace, 5, 500},
		{"node", "", 10, 1000},
	};
	char name[ACCESS_WHO_SIZE + NODE_ID_MAX + 16];

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		(void)str_format(name, sizeof(name), "%s %s %s", stream->node_id, limits[i].kind,
				 limits[i].of);
		if (!rates_take(stream->server->execs, name, USEC_PER_SEC / limits[i].per_second,
				limits[i].burst, clock_monotonic_us()))
			return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
					 "more than %" PRIu64
					 " commands a second start in tasks of node %s, the "
					 "most for a %s: wait, or run several in one command",
					 limits[i].per_second, stream->node_id, limits[i].kind);
	}
	return STATUS_OK;
}

/* May the caller, and is there a node to ask? */
static enum status find_alloc(struct task_stream *stream, const char *id, const char *task_name,
			      const struct alloc_entry **ret,
			      const Holdfast__Driver__V1__TaskConfig **ret_task, struct error *err)
{
	const struct alloc_entry *entry = state_alloc(&stream->server->state, id);

	TRY(access_check_alloc(stream->server, stream->caller, kinds[stream->kind].right, id, err));
	if (!entry)
		return access_no_alloc(id, err);
	enum status status = STATUS_OK;
	TRY(find_task(&entry->alloc, task_name, ret_task, err));
	if (stream->kind != KIND_LOGS && has_ended(&entry->alloc))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "allocation %s has ended, it is %s: nothing runs in it; its last output: "
				 "holdfast alloc logs %s",
				 entry->alloc.id, client_status_name(entry->alloc.client_status),
				 entry->alloc.id);
	if (!node_is_connected(entry->node))
		return error_set(err, STATUS_UNAVAILABLE, 0, "node %s of allocation %s is not connected",
				 entry->alloc.node_id, entry->alloc.id);
	TRY(check_node_room(stream, &entry->alloc, err));
	if (stream->kind == KIND_EXEC)
		status = check_offer(entry, *ret_task, err);
	if (status != STATUS_OK)
		return status;
	(void)str_copy(stream->node_id, sizeof(stream->node_id), entry->alloc.node_id);
	(void)str_copy(stream->alloc_id, sizeof(stream->alloc_id), entry->alloc.id);
	(void)str_copy(stream->namespace, sizeof(stream->namespace), entry->alloc.namespace);
	*ret = entry;
	return STATUS_OK;
}

/* Its node is asked to open the other side. */
static enum status ask_node(struct task_stream *stream, Holdfast__V1__OpenTaskStream *wanted,
			    struct error *err)
{
	const struct node_entry *node = state_node(&stream->server->state, stream->node_id);

	if (!node || !node_is_connected(node))
		return error_set(err, STATUS_UNAVAILABLE, 0, "node %s of allocation %s is not connected",
				 stream->node_id, stream->alloc_id);
	wanted->id = stream->id;
	session_open_task_stream(node->session, wanted);
	return wakeup_arm(stream->server->event, &stream->timer, TASK_STREAM_WAIT_MS * USEC_PER_MSEC,
			  on_overdue, stream, err);
}

/* ---- commands ---- */

/* A command that waits for its record to be durable. */
struct recorded {
	uint64_t id;		  /* of the stream, which may be gone by then */
	ProtobufCMessage *wanted; /* owned */
};

static struct task_stream *find_stream(struct server *server, uint64_t id)
{
	struct task_stream *stream;

	LIST_FOREACH (stream, &server->task_streams, all)
		if (stream->id == id)
			return stream;
	return NULL;
}

static void on_recorded(struct server *server, void *userdata)
{
	cleanup_free struct recorded *recorded = userdata;
	struct task_stream *stream = find_stream(server, recorded->id);
	struct error err;

	if (stream && ask_node(stream, (void *)recorded->wanted, &err) != STATUS_OK)
		task_stream_end(stream, &err);
	protobuf_c_message_free_unpacked(recorded->wanted, NULL);
}

/* Fills in the command. The server, not the caller, sets its allocation and task. Borrows from all three. */
static void fill_command(Holdfast__Driver__V1__ExecCommand *command, const struct alloc *alloc,
			 const Holdfast__Driver__V1__TaskConfig *task,
			 const Holdfast__Driver__V1__ExecCommand *asked)
{
	holdfast__driver__v1__exec_command__init(command);
	command->alloc_id = (char *)(uintptr_t)alloc->id;
	command->task = task->task;
	command->driver = task->driver;
	command->namespace_ = (char *)(uintptr_t)alloc->namespace;
	command->argv = asked->argv;
	command->n_argv = asked->n_argv;
	command->tty = asked->tty;
	command->user = asked->user;
}

/* The command as it is ordered, packed. */
static enum status pack_command(const struct alloc *alloc, const Holdfast__Driver__V1__TaskConfig *task,
				const Holdfast__Driver__V1__ExecCommand *asked, uint8_t **ret, size_t *ret_n,
				struct error *err)
{
	Holdfast__Driver__V1__ExecCommand command;

	if (!asked || asked->n_argv == 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "command: missing");
	if (asked->n_argv > TASK_STREAM_ARGS_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "command: %zu arguments, at most %d are allowed", asked->n_argv,
				 TASK_STREAM_ARGS_MAX);
	fill_command(&command, alloc, task, asked);
	*ret_n = holdfast__driver__v1__exec_command__get_packed_size(&command);
	if (*ret_n > TASK_STREAM_COMMAND_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "command: %zu bytes, at most %d are taken",
				 *ret_n, TASK_STREAM_COMMAND_MAX);
	*ret = malloc(*ret_n + 1);
	if (!*ret)
		return error_no_memory(err, "a command");
	(void)holdfast__driver__v1__exec_command__pack(&command, *ret);
	return STATUS_OK;
}

/* Orders the command, and makes the message for its node. @ret owned by the caller */
static enum status order_command(const struct task_stream *stream, const struct alloc_entry *entry,
				 const Holdfast__Driver__V1__TaskConfig *task,
				 const Holdfast__Driver__V1__ExecCommand *asked, ProtobufCMessage **ret,
				 struct error *err)
{
	Holdfast__V1__OpenTaskStream wanted = HOLDFAST__V1__OPEN_TASK_STREAM__INIT;
	Holdfast__Driver__V1__ExecTaskStreamingRequest exec =
		HOLDFAST__DRIVER__V1__EXEC_TASK_STREAMING_REQUEST__INIT;
	Holdfast__Driver__V1__ExecSetup setup = HOLDFAST__DRIVER__V1__EXEC_SETUP__INIT;
	char who[ACCESS_WHO_SIZE];
	struct order_wish wish = {.kind = ORDER_EXEC,
				  .alloc = &entry->alloc,
				  .boot_id = entry->node->session->boot_id,
				  .task = task,
				  .who = access_who(stream->server, stream->caller, who)};
	cleanup_free uint8_t *bytes = NULL;
	struct order order;
	enum status status = pack_command(&entry->alloc, task, asked, &bytes, &wish.n_bytes, err);

	wish.bytes = bytes;
	if (status == STATUS_OK)
		status = order_make(stream->server, &wish, &order, err);
	if (status != STATUS_OK)
		return status;
	setup.order = (ProtobufCBinaryData){.len = sizeof(order), .data = (uint8_t *)&order};
	setup.command = (ProtobufCBinaryData){.len = wish.n_bytes, .data = bytes};
	exec.setup = &setup;
	wanted.task = task->task;
	wanted.alloc_id = (char *)(uintptr_t)entry->alloc.id;
	wanted.namespace_ = (char *)(uintptr_t)entry->alloc.namespace;
	wanted.first_case = HOLDFAST__V1__OPEN_TASK_STREAM__FIRST_EXEC;
	wanted.exec = &exec;
	*ret = message_convert(wanted.base.descriptor, &wanted.base);
	return *ret ? STATUS_OK : error_no_memory(err, "a command");
}

/* Audits the caller, the task and the command, which pack_command() has bounded, as JSON: a blank may be
 * within an argument. Input and output are not recorded. */
static enum status record_command(const struct task_stream *stream, struct change *change,
				  const struct alloc_entry *entry,
				  const Holdfast__Driver__V1__TaskConfig *task,
				  const Holdfast__Driver__V1__ExecCommand *command, struct error *err)
{
	static const char *const not_asked[] = {"alloc_id", "task", "driver", "namespace", NULL};
	/* a byte may become six, and an argument has quotes and a comma */
	cleanup_strbuf struct strbuf words = STRBUF_INIT((size_t)8 * TASK_STREAM_COMMAND_MAX);
	char object[AUDIT_OBJECT_SIZE];

	text_json_put(&words, &command->base, not_asked);
	if (words.error != 0)
		return error_no_memory(err, "the record of a command");
	(void)str_format(object, sizeof(object), "allocation %s/%s, task %s, stream %" PRIx64,
			 entry->alloc.namespace, entry->alloc.id, task->task, stream->record);
	audit_write(stream->server, change, stream->caller, kinds[KIND_EXEC].what, object, words.data);
	return STATUS_OK;
}

static enum status begin_exec(struct task_stream *stream, const Holdfast__V1__ExecAllocationRequest *request,
			      struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	const Holdfast__Driver__V1__TaskConfig *task = NULL;
	const struct alloc_entry *entry = NULL;
	struct recorded *recorded;
	ProtobufCMessage *wanted = NULL;
	enum status status = find_alloc(stream, request->id, request->task, &entry, &task, err);

	if (entry)
		status = order_command(stream, entry, task, request->command, &wanted, err);
	if (wanted) {
		status = check_exec_rate(stream, err);
		if (status != STATUS_OK)
			protobuf_c_message_free_unpacked(wanted, NULL);
	}
	if (!wanted || status != STATUS_OK) {
		audit_refused(stream->server, stream->caller, kinds[KIND_EXEC].what, NULL, err);
		return status;
	}
	recorded = malloc(sizeof(*recorded));
	if (!recorded) {
		protobuf_c_message_free_unpacked(wanted, NULL);
		return error_no_memory(err, "a command");
	}
	*recorded = (struct recorded){stream->id, wanted};
	status = record_command(stream, &change, entry, task, request->command, err);
	if (status == STATUS_OK)
		status = change_commit(stream->server, &change, on_recorded, recorded, err);
	if (status == STATUS_OK)
		return status;
	protobuf_c_message_free_unpacked(wanted, NULL);
	free(recorded);
	return status;
}

/* ---- output and figures ---- */

static enum status begin_logs(struct task_stream *stream, const Holdfast__V1__AllocationLogsRequest *request,
			      struct error *err)
{
	Holdfast__V1__OpenTaskStream wanted = HOLDFAST__V1__OPEN_TASK_STREAM__INIT;
	Holdfast__Driver__V1__TaskLogsRequest logs = HOLDFAST__DRIVER__V1__TASK_LOGS_REQUEST__INIT;
	const Holdfast__Driver__V1__TaskConfig *task = NULL;
	const struct alloc_entry *entry = NULL;

	TRY(find_alloc(stream, request->id, request->task, &entry, &task, err));
	assert(task);
	logs.alloc_id = wanted.alloc_id = stream->alloc_id;
	logs.namespace_ = wanted.namespace_ = stream->namespace;
	logs.task = wanted.task = task->task;
	logs.stdout = request->stdout;
	logs.stderr = request->stderr;
	logs.follow = request->follow;
	logs.tail = request->tail;
	wanted.driver = task->driver;
	wanted.first_case = HOLDFAST__V1__OPEN_TASK_STREAM__FIRST_LOGS;
	wanted.logs = &logs;
	return ask_node(stream, &wanted, err);
}

static enum status begin_stats(struct task_stream *stream,
			       const Holdfast__V1__AllocationStatsRequest *request, struct error *err)
{
	Holdfast__V1__OpenTaskStream wanted = HOLDFAST__V1__OPEN_TASK_STREAM__INIT;
	Holdfast__Driver__V1__TaskStatsRequest stats = HOLDFAST__DRIVER__V1__TASK_STATS_REQUEST__INIT;
	const Holdfast__Driver__V1__TaskConfig *task = NULL;
	const struct alloc_entry *entry = NULL;

	TRY(find_alloc(stream, request->id, request->task, &entry, &task, err));
	assert(task);
	stats.alloc_id = wanted.alloc_id = stream->alloc_id;
	stats.namespace_ = wanted.namespace_ = stream->namespace;
	stats.task = wanted.task = task->task;
	stats.interval_ms = request->interval_ms;
	wanted.first_case = HOLDFAST__V1__OPEN_TASK_STREAM__FIRST_STATS;
	wanted.stats = &stats;
	return ask_node(stream, &wanted, err);
}

/* ---- the caller's side ---- */

static void on_exec_open(struct rpc_call *call, void *server)
{
	open_stream(call, server, KIND_EXEC);
}

static void on_logs_open(struct rpc_call *call, void *server)
{
	open_stream(call, server, KIND_LOGS);
}

static void on_stats_open(struct rpc_call *call, void *server)
{
	open_stream(call, server, KIND_STATS);
}

static enum status task_stream_begin(struct task_stream *stream, const ProtobufCMessage *message,
				     struct error *err)
{
	switch (stream->kind) {
	case KIND_EXEC:
		return begin_exec(stream, (const void *)message, err);
	case KIND_LOGS:
		return begin_logs(stream, (const void *)message, err);
	case KIND_STATS:
		return begin_stats(stream, (const void *)message, err);
	case KIND_N:
		break;
	}
	return error_set(err, STATUS_INTERNAL, 0, "a stream of no kind");
}

static enum status send_input(struct task_stream *stream, const Holdfast__V1__ExecAllocationRequest *request,
			      struct error *err)
{
	Holdfast__V1__TaskStreamDown down = HOLDFAST__V1__TASK_STREAM_DOWN__INIT;

	if (!request->input || request->input->setup)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "input: what follows the command is input, and no command");
	down.exec = request->input;
	TRY(rpc_call_send(stream->node, &down.base, err));
	if (rpc_call_is_full(stream->node))
		rpc_call_pause(stream->caller, true);
	return STATUS_OK;
}

static void on_caller_message(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	struct task_stream *stream = rpc_call_data(call);
	enum status status = STATUS_OK;
	struct error err;

	if (!stream)
		return;
	if (!stream->is_asked) {
		status = task_stream_begin(stream, message, &err);
		stream->is_asked = status == STATUS_OK;
		rpc_call_pause(call, status == STATUS_OK); /* until its node is there */
	} else if (stream->kind == KIND_EXEC && stream->node) {
		status = send_input(stream, (const void *)message, &err);
	}
	if (status != STATUS_OK)
		task_stream_end(stream, &err);
}

static void on_caller_drained(struct rpc_call *call, void *userdata)
{
	const struct task_stream *stream = rpc_call_data(call);

	if (stream && stream->node)
		rpc_call_pause(stream->node, false);
}

/* It reads on: what a command is given ends by a message. */
static void on_caller_half_close(struct rpc_call *call, void *userdata)
{
}

static void on_caller_closed(struct rpc_call *call, void *userdata)
{
	static const struct error refused = {
		.status = STATUS_PERMISSION_DENIED,
		.msg = "its caller was refused, as by a revocation or a changed policy"};
	struct task_stream *stream = rpc_call_data(call);

	if (!stream)
		return;
	stream->caller = NULL;
	task_stream_end(stream, rpc_call_was_refused(call) ? &refused : NULL);
}

#define CALLER_HANDLERS(open)                                                                      \
	{                                                                                          \
		.on_open = (open), .on_message = on_caller_message, .on_closed = on_caller_closed, \
		.on_half_close = on_caller_half_close, .on_drained = on_caller_drained             \
	}

const struct rpc_stream_handlers alloc_exec_stream = CALLER_HANDLERS(on_exec_open);
const struct rpc_stream_handlers alloc_logs_stream = CALLER_HANDLERS(on_logs_open);
const struct rpc_stream_handlers alloc_stats_stream = CALLER_HANDLERS(on_stats_open);

/* ---- the node's side ---- */

/* One without a node's certificate takes no place from others, also at the server that hands it on. */
static void on_node_open(struct rpc_call *call, void *server)
{
	struct identity who;
	struct error err;

	if (access_check_node(server, call, &who, &err) != STATUS_OK)
		rpc_call_fail(call, &err);
}

/* Joins the node's stream with the caller's one that its first message names. */
static enum status join(struct server *server, struct rpc_call *call, const Holdfast__V1__TaskStreamUp *up,
			struct error *err)
{
	struct task_stream *stream = find_stream(server, up->id);
	struct identity who;

	TRY(access_check_node(server, call, &who, err));
	if (!stream || stream->node || !stream->is_asked || !str_eq(stream->node_id, who.name))
		return error_set(err, STATUS_NOT_FOUND, 0,
				 "no caller waits for this stream of node %s any longer", who.name);
	wakeup_disarm(&stream->timer);
	stream->node = call;
	rpc_call_set_data(call, stream);
	rpc_call_pause(stream->caller, false);
	return STATUS_OK;
}

static const ProtobufCMessage *answer_of(const Holdfast__V1__TaskStreamUp *up)
{
	switch (up->message_case) {
	case HOLDFAST__V1__TASK_STREAM_UP__MESSAGE_EXEC:
		return &up->exec->base;
	case HOLDFAST__V1__TASK_STREAM_UP__MESSAGE_LOGS:
		return &up->logs->base;
	case HOLDFAST__V1__TASK_STREAM_UP__MESSAGE_STATS:
		return &up->stats->base;
	case HOLDFAST__V1__TASK_STREAM_UP__MESSAGE_END:
	case HOLDFAST__V1__TASK_STREAM_UP__MESSAGE__NOT_SET:
	case _HOLDFAST__V1__TASK_STREAM_UP__MESSAGE__CASE_IS_INT_SIZE:
	default:
		return NULL;
	}
}

static void handle_end(struct task_stream *stream, const Holdfast__V1__TaskStreamEnd *reported)
{
	struct error err;

	if (reported->code == STATUS_OK) {
		task_stream_end(stream, NULL);
		return;
	}
	err.status = reported->code < STATUS_N ? (enum status)reported->code : STATUS_UNKNOWN;
	error_fill(&err, err.status, 0, "node %s: %.512s", stream->node_id, reported->message);
	task_stream_end(stream, &err);
}

static void handle_answer(struct task_stream *stream, const Holdfast__V1__TaskStreamUp *up)
{
	struct error err;

	if (up->message_case != kinds[stream->kind].message)
		return; /* not an answer to this request */
	if (stream->kind == KIND_EXEC && up->exec->exited) {
		stream->has_result = true;
		stream->exit_code = up->exec->result ? up->exec->result->exit_code : 0;
	}
	if (rpc_call_send(stream->caller, answer_of(up), &err) != STATUS_OK)
		task_stream_end(stream, &err);
	else if (rpc_call_is_full(stream->caller))
		rpc_call_pause(stream->node, true);
}

static void on_node_message(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	const Holdfast__V1__TaskStreamUp *up = (const void *)message;
	struct task_stream *stream = rpc_call_data(call);
	struct error err;

	if (!stream && join(userdata, call, up, &err) != STATUS_OK) {
		rpc_call_fail(call, &err);
		return;
	}
	stream = rpc_call_data(call);
	words_take(message);
	if (up->message_case == HOLDFAST__V1__TASK_STREAM_UP__MESSAGE_END)
		handle_end(stream, up->end);
	else
		handle_answer(stream, up);
}

static void on_node_drained(struct rpc_call *call, void *userdata)
{
	const struct task_stream *stream = rpc_call_data(call);

	if (stream)
		rpc_call_pause(stream->caller, false);
}

static void lose_node(struct task_stream *stream)
{
	struct error err;

	(void)error_set(&err, STATUS_UNAVAILABLE, 0, "node %s was lost: the command may continue there",
			stream->node_id);
	task_stream_end(stream, &err);
}

/* Without an end: its agent could not send one. */
static void on_node_half_close(struct rpc_call *call, void *userdata)
{
	struct task_stream *stream = rpc_call_data(call);

	if (stream)
		lose_node(stream);
}

static void on_node_closed(struct rpc_call *call, void *userdata)
{
	struct task_stream *stream = rpc_call_data(call);

	if (!stream)
		return;
	stream->node = NULL;
	lose_node(stream);
}

const struct rpc_stream_handlers node_task_stream = {.on_open = on_node_open,
						     .on_message = on_node_message,
						     .on_closed = on_node_closed,
						     .on_half_close = on_node_half_close,
						     .on_drained = on_node_drained};

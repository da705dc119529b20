/* SPDX-License-Identifier: Apache-2.0 */
/* Commands in tasks, their output and figures: a caller's stream and one of the task's node, joined by the
 * server. */

#include "callers.h"
#include "unit.h"

#include "access/audit.h"
#include "alloc/streams.h"
#include "base/rates.h"
#include "model/alloc_id.h"
#include "model/order.h"
#include "ticket/ticket.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <openssl/sha.h>
#include <order.h>

#define ALLOCS (&holdfast__v1__allocations__descriptor)
#define TEAM_2 "01890002-0000-7000-8ca8-b22d0db83a22" /* an id of namespace team */
#define B_1 "01890001-0000-7000-83e2-3e8160039594"    /* of b */
#define NODES (&holdfast__v1__nodes__descriptor)

static char *text(const char *s)
{
	return TEXT(s);
}

/* One end of a stream under the test's control. */
struct end {
	struct rpc_stream *stream;
	size_t n;	/* messages that came */
	size_t n_bytes; /* of output, or of input */
	char last[64];	/* of these, the last ones */
	bool has_exited;
	int32_t exit_code;
	bool is_closed;
	enum status status;
	char why[ERROR_MSG_MAX];
};

static void keep(struct end *end, const ProtobufCBinaryData *data)
{
	end->n_bytes += data->len;
	(void)str_format(end->last, sizeof(end->last), "%.*s", (int)data->len, (const char *)data->data);
}

static void on_message(struct rpc_stream *stream, const ProtobufCMessage *message, void *userdata)
{
	struct end *end = userdata;

	end->n++;
	if (message->descriptor == &holdfast__driver__v1__exec_task_streaming_response__descriptor) {
		const Holdfast__Driver__V1__ExecTaskStreamingResponse *said = (const void *)message;

		if (said->stdout)
			keep(end, &said->stdout->value);
		end->has_exited = end->has_exited || said->exited;
		if (said->result)
			end->exit_code = said->result->exit_code;
	} else if (message->descriptor == &holdfast__driver__v1__task_logs_response__descriptor) {
		keep(end, &((const Holdfast__Driver__V1__TaskLogsResponse *)(const void *)message)->value);
	} else if (message->descriptor == &holdfast__v1__task_stream_down__descriptor) {
		keep(end, &((const Holdfast__V1__TaskStreamDown *)(const void *)message)->exec->stdin->value);
	}
}

static void on_closed(struct rpc_stream *stream, enum status status, const struct error *err, void *userdata)
{
	struct end *end = userdata;

	end->stream = NULL;
	end->is_closed = true;
	end->status = status;
	if (err)
		str_copy_text(end->why, sizeof(end->why), err->msg);
}

static void on_drained(struct rpc_stream *stream, void *userdata)
{
}

static const struct rpc_stream_events events = {
	.on_message = on_message, .on_closed = on_closed, .on_drained = on_drained};

static void open_end(struct end *end, struct rpc_client *client, const ProtobufCServiceDescriptor *service,
		     const char *method, const ProtobufCMessage *first)
{
	*end = (struct end){.n = 0};
	assert_ok(rpc_stream_open(client, service, method, TIMEOUT_US, &events, end, &end->stream, NULL));
	assert_int_equal(rpc_stream_send(end->stream, first, NULL), STATUS_OK);
}

static void run(struct fixture *f, const char *id, const char *namespace)
{
	Holdfast__V1__RunAllocationRequest request = HOLDFAST__V1__RUN_ALLOCATION_REQUEST__INIT;
	Holdfast__V1__Allocation alloc = HOLDFAST__V1__ALLOCATION__INIT;
	Holdfast__Driver__V1__TaskConfig task = HOLDFAST__DRIVER__V1__TASK_CONFIG__INIT;
	Holdfast__Driver__V1__TaskConfig *tasks[] = {&task};

	task.driver = text("container");
	task.task = text("web");
	alloc.id = text(id);
	alloc.namespace_ = text(namespace);
	alloc.name = text("app");
	alloc.node_id = text("n1");
	alloc.tasks = tasks;
	alloc.n_tasks = 1;
	request.allocation = &alloc;
	assert_int_equal(call(&f->operator, ALLOCS, "Run", &request.base, NULL, NULL), STATUS_OK);
}

static void begin_with(struct fixture *f, bool has_exec)
{
	Holdfast__V1__NodeDriver driver = HOLDFAST__V1__NODE_DRIVER__INIT;
	Holdfast__Driver__V1__CapabilitiesResponse offer = HOLDFAST__DRIVER__V1__CAPABILITIES_RESPONSE__INIT;
	Holdfast__V1__NodeDriver *drivers[] = {&driver};

	driver.name = text("container");
	driver.healthy = true;
	driver.capabilities = &offer;
	offer.exec_streaming = has_exec;
	f->n1.drivers = drivers;
	f->n1.n_drivers = 1;
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	f->n1.n_drivers = 0;
	run(f, ALLOC_1, "");
	UNTIL(f, f->n1.runs == 1);
}

static void begin(struct fixture *f)
{
	begin_with(f, true);
}

static void open_exec_of(struct rpc_client *client, struct end *end, const char *alloc, const char *task,
			 const char *argument)
{
	Holdfast__Driver__V1__ExecCommand command = HOLDFAST__DRIVER__V1__EXEC_COMMAND__INIT;
	Holdfast__V1__ExecAllocationRequest request =
		V1(exec_allocation_request, .id = text(alloc), .task = text(task), .command = &command);
	char *argv[] = {text("/bin/cat"), text(argument)};

	command.argv = argv;
	command.n_argv = 2;
	command.user = text("app");
	open_end(end, client, ALLOCS, "Exec", &request.base);
}

static void open_exec_by(struct rpc_client *client, struct end *end, const char *alloc, const char *task)
{
	open_exec_of(client, end, alloc, task, "-");
}

static void open_exec(struct fixture *f, struct end *end, const char *alloc, const char *task)
{
	open_exec_by(f->operator.client, end, alloc, task);
}

/* The node comes for what was asked of it last. */
static void come(struct fixture *f, struct fake_node *node, struct end *end)
{
	Holdfast__V1__TaskStreamUp up = HOLDFAST__V1__TASK_STREAM_UP__INIT;

	UNTIL(f, f->n1.stream_wanted);
	up.id = f->n1.stream_wanted->id;
	open_end(end, node->client, NODES, "TaskStream", &up.base);
}

static void send_output(struct end *node, const char *bytes, bool has_exited)
{
	Holdfast__V1__TaskStreamUp up = HOLDFAST__V1__TASK_STREAM_UP__INIT;
	Holdfast__Driver__V1__ExecTaskStreamingResponse said =
		HOLDFAST__DRIVER__V1__EXEC_TASK_STREAMING_RESPONSE__INIT;
	Holdfast__Driver__V1__ExecData data = HOLDFAST__DRIVER__V1__EXEC_DATA__INIT;
	Holdfast__Driver__V1__ExitResult result = HOLDFAST__DRIVER__V1__EXIT_RESULT__INIT;

	data.value = (ProtobufCBinaryData){.len = strlen(bytes), .data = (uint8_t *)text(bytes)};
	said.stdout = &data;
	said.exited = has_exited;
	result.exit_code = 3;
	said.result = has_exited ? &result : NULL;
	up.message_case = HOLDFAST__V1__TASK_STREAM_UP__MESSAGE_EXEC;
	up.exec = &said;
	assert_int_equal(rpc_stream_send(node->stream, &up.base, NULL), STATUS_OK);
}

static void send_end(struct end *node, enum status code, const char *message)
{
	Holdfast__V1__TaskStreamEnd end =
		V1(task_stream_end, .code = (uint32_t)code, .message = text(message));
	Holdfast__V1__TaskStreamUp up =
		V1(task_stream_up, .message_case = HOLDFAST__V1__TASK_STREAM_UP__MESSAGE_END, .end = &end);

	assert_int_equal(rpc_stream_send(node->stream, &up.base, NULL), STATUS_OK);
}

static void send_input(struct end *caller, const char *bytes)
{
	Holdfast__V1__ExecAllocationRequest request = HOLDFAST__V1__EXEC_ALLOCATION_REQUEST__INIT;
	Holdfast__Driver__V1__ExecTaskStreamingRequest input =
		HOLDFAST__DRIVER__V1__EXEC_TASK_STREAMING_REQUEST__INIT;
	Holdfast__Driver__V1__ExecData data = HOLDFAST__DRIVER__V1__EXEC_DATA__INIT;

	data.value = (ProtobufCBinaryData){.len = strlen(bytes), .data = (uint8_t *)text(bytes)};
	input.stdin = &data;
	request.input = &input;
	assert_int_equal(rpc_stream_send(caller->stream, &request.base, NULL), STATUS_OK);
}

/* What the audit has of @what, all of it, one after the other. */
static void read_audit(struct fixture *f, const char *what, char *ret, size_t size)
{
	Holdfast__V1__ListAuditRequest request = HOLDFAST__V1__LIST_AUDIT_REQUEST__INIT;
	Holdfast__V1__ListAuditResponse *page = NULL;

	ret[0] = '\0';
	assert_ok(call(&f->operator, & holdfast__v1__operator__descriptor, "ListAudit", &request.base,
		       (ProtobufCMessage **)&page, NULL));
	for (size_t i = 0; i < page->n_records; i++) {
		size_t at = strlen(ret);

		if (str_eq(page->records[i]->what, what))
			(void)str_format(ret + at, size - at, "%s: %s;", page->records[i]->object,
					 page->records[i]->why);
	}
	protobuf_c_message_free_unpacked(&page->base, NULL);
}

CLUSTER_TEST(a_command_and_its_end_are_on_record_and_its_bytes_are_not)
{
	struct end caller, node;
	char said[1024], id[24];

	begin(f);
	open_exec_of(f->operator.client, &caller, ALLOC_1, "web", "a b");
	come(f, &f->n1, &node);
	read_audit(f, "Allocations.Exec", said, sizeof(said)); /* before it can have begun */
	/* who reads it with a stolen certificate does not take the stream before its node does */
	(void)str_format(id, sizeof(id), "%" PRIx64, f->n1.stream_wanted->id);
	assert_null(strstr(said, id));
	assert_non_null(strstr(said, ALLOC_1));
	assert_non_null(strstr(said, "task web"));
	assert_non_null(strstr(said, "{\"argv\":[\"/bin/cat\",\"a b\"],\"user\":\"app\"}"));
	send_input(&caller, "password");
	UNTIL(f, node.n_bytes == 8);
	send_output(&node, "secret", true);
	send_end(&node, STATUS_OK, "");
	UNTIL(f, caller.is_closed);
	/* it is on its way to the disk when the caller hears of the end */
	UNTIL(f, (read_audit(f, "Allocations.ExecEnd", said, sizeof(said)), strstr(said, "exit status 3")));
	assert_null(strstr(said, "secret"));
	open_exec(f, &caller, ALLOC_2, "web"); /* that is not there */
	UNTIL(f, caller.is_closed);
	assert_int_equal(caller.status, STATUS_NOT_FOUND);
}

CLUSTER_TEST(a_long_command_is_on_record_cut_with_its_length_and_its_hash)
{
	static const size_t lengths[] = {300, 400, 600, 60000};
	static char argument[60001], whole[sizeof(argument) + 64], said[8192];

	begin(f);
	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		uint8_t sha256[SHA256_DIGEST_LENGTH];
		char end[160] = "", digits[2 * sizeof(sha256) + 1];
		struct end caller;

		memset(argument, 'x', lengths[i]);
		argument[lengths[i]] = '\0';
		(void)str_format(whole, sizeof(whole), "{\"argv\":[\"/bin/cat\",\"%s\"],\"user\":\"app\"}",
				 argument);
		(void)SHA256((const uint8_t *)whole, strlen(whole), sha256);
		hex_encode(digits, sha256, sizeof(sha256));
		if (strlen(whole) >= AUDIT_WHY_SIZE)
			(void)str_format(end, sizeof(end), "... (%zu bytes, SHA-256 %s);", strlen(whole),
					 digits);
		open_exec_of(f->operator.client, &caller, ALLOC_1, "web", argument);
		UNTIL(f, (read_audit(f, "Allocations.Exec", said, sizeof(said)),
			  strstr(said, end[0] != '\0' ? end : whole)));
		assert_null(strstr(said, ": ;")); /* no record is empty */
		rpc_stream_cancel(caller.stream);
		UNTIL(f, (read_audit(f, "Allocations.ExecEnd", said, sizeof(said)),
			  strstr(said, "cut off: its caller has gone")));
	}
}

CLUSTER_TEST(a_command_that_the_end_of_the_server_cut_off_is_on_record)
{
	struct end caller, node;
	char said[1024];

	begin(f);
	open_exec(f, &caller, ALLOC_1, "web");
	come(f, &f->n1, &node);
	UNTIL(f, f->server->n_task_streams == 1);
	restart(f);
	read_audit(f, "Allocations.ExecEnd", said, sizeof(said));
	assert_non_null(strstr(said, "cut off: the server ended"));
}

CLUSTER_TEST(a_command_is_ordered_and_its_bytes_go_both_ways)
{
	const Holdfast__V1__OpenTaskStream *wanted;
	cleanup_pb Holdfast__Driver__V1__ExecCommand *command = NULL;
	uint8_t key[ORDER_KEY_SIZE], digest[ORDER_DIGEST_SIZE];
	struct end caller, node;
	struct order order;

	begin(f);
	open_exec(f, &caller, ALLOC_1, ""); /* the only task */
	come(f, &f->n1, &node);
	wanted = f->n1.stream_wanted;
	assert_string_equal(wanted->alloc_id, ALLOC_1);
	assert_string_equal(wanted->task, "web");
	assert_ok(order_read(wanted->exec->setup->order.data, wanted->exec->setup->order.len, &order, NULL));
	ticket_issuer_public_key(f->server->issuer, key);
	assert_true(order_is_signed(&order, key));
	assert_int_equal(order.kind, ORDER_EXEC);
	assert_string_equal(order.task, "web");
	assert_true(strstr(order.who, "operator"));
	order_digest(wanted->exec->setup->command.data, wanted->exec->setup->command.len, digest);
	assert_memory_equal(order.digest, digest, sizeof(digest));
	command = holdfast__driver__v1__exec_command__unpack(NULL, wanted->exec->setup->command.len,
							     wanted->exec->setup->command.data);
	assert_string_equal(command->alloc_id, ALLOC_1);
	assert_string_equal(command->argv[0], "/bin/cat");
	send_input(&caller, "in");
	UNTIL(f, node.n_bytes == 2);
	assert_string_equal(node.last, "in");
	send_output(&node, "out", false);
	send_output(&node, "more", true);
	send_end(&node, STATUS_OK, "");
	UNTIL(f, caller.is_closed && node.is_closed);
	assert_int_equal(caller.status, STATUS_OK);
	assert_int_equal(caller.n_bytes, 7);
	assert_true(caller.has_exited);
	assert_int_equal(caller.exit_code, 3);
}

CLUSTER_TEST(two_commands_have_two_nonces)
{
	struct order orders[2];
	struct end callers[2];

	begin(f);
	for (size_t i = 0; i < 2; i++) {
		open_exec(f, &callers[i], ALLOC_1, "web");
		UNTIL(f, f->n1.streams_wanted == (int)i + 1);
		assert_ok(order_read(f->n1.stream_wanted->exec->setup->order.data,
				     f->n1.stream_wanted->exec->setup->order.len, &orders[i], NULL));
	}
	assert_memory_not_equal(orders[0].nonce, orders[1].nonce, sizeof(orders[0].nonce));
	for (size_t i = 0; i < 2; i++)
		rpc_stream_cancel(callers[i].stream);
}

CLUSTER_TEST(only_the_node_of_the_task_takes_the_stream_and_once)
{
	struct end caller, node, other;

	begin(f);
	open_exec(f, &caller, ALLOC_1, "web");
	come(f, &f->n2, &other);
	UNTIL(f, other.is_closed);
	assert_int_equal(other.status, STATUS_NOT_FOUND);
	come(f, &f->operator, & other);
	UNTIL(f, other.is_closed);
	assert_int_equal(other.status, STATUS_PERMISSION_DENIED);
	come(f, &f->n1, &node);
	send_output(&node, "x", false);
	UNTIL(f, caller.n == 1);
	come(f, &f->n1, &other);
	UNTIL(f, other.is_closed);
	assert_int_equal(other.status, STATUS_NOT_FOUND);
	rpc_stream_cancel(caller.stream);
	UNTIL(f, node.is_closed); /* whose caller has gone */
}

CLUSTER_TEST(the_drivers_final_status_reaches_the_caller)
{
	struct end caller, node;

	begin(f);
	open_exec(f, &caller, ALLOC_1, "web");
	come(f, &f->n1, &node);
	send_end(&node, STATUS_FAILED_PRECONDITION, "task web does not run; n2 is dead.\nNext: attest n2");
	UNTIL(f, caller.is_closed);
	assert_int_equal(caller.status, STATUS_FAILED_PRECONDITION);
	assert_string_equal(caller.why, "node n1: task web does not run, n2 is dead. next: attest n2");
	UNTIL(f, node.is_closed);
}

CLUSTER_TEST(a_caller_hears_that_the_node_was_lost)
{
	struct end caller, node;

	begin(f);
	open_exec(f, &caller, ALLOC_1, "web");
	come(f, &f->n1, &node);
	send_output(&node, "x", false);
	UNTIL(f, caller.n == 1);
	rpc_stream_cancel(node.stream);
	UNTIL(f, caller.is_closed);
	assert_int_equal(caller.status, STATUS_UNAVAILABLE);
	assert_non_null(strstr(caller.why, "node n1 was lost"));
}

/* Bytes that the node got off before it had to wait for a caller who does not read. */
static size_t send_until_full(struct fixture *f, struct end *node, size_t n_max)
{
	static char piece[64 << 10];
	size_t n = 0;

	memset(piece, 'x', sizeof(piece) - 1);
	for (int waits = 0; n < n_max && waits < 300; waits++) {
		if (!rpc_stream_is_full(node->stream)) {
			send_output(node, piece, false);
			n += sizeof(piece) - 1;
			waits = 0;
		}
		assert_true(sd_event_run(f->event, USEC_PER_MSEC) >= 0);
	}
	return n;
}

CLUSTER_TEST(a_slow_reader_pauses_the_node_and_gets_everything_later)
{
	struct end caller, node;
	size_t n;

	begin(f);
	open_exec(f, &caller, ALLOC_1, "web");
	come(f, &f->n1, &node);
	send_output(&node, "x", false);
	UNTIL(f, caller.n == 1);
	rpc_stream_pause(caller.stream, true);
	n = send_until_full(f, &node, 64 << 20);
	assert_true(n < 16 << 20);
	rpc_stream_pause(caller.stream, false);
	UNTIL(f, caller.n_bytes == n + 1);
	rpc_stream_cancel(caller.stream);
	UNTIL(f, node.is_closed);
}

static void send_input_until_full(struct fixture *f, struct end *caller)
{
	static char piece[64 << 10];

	memset(piece, 'x', sizeof(piece) - 1);
	for (int waits = 0; waits < 300; waits++) {
		if (!rpc_stream_is_full(caller->stream)) {
			send_input(caller, piece);
			waits = 0;
		}
		assert_true(sd_event_run(f->event, USEC_PER_MSEC) >= 0);
	}
}

/* The agent reads no more input than the task does. */
static void begin_full(struct fixture *f, struct end *caller, struct end *node)
{
	begin(f);
	open_exec(f, caller, ALLOC_1, "web");
	come(f, &f->n1, node);
	rpc_stream_pause(node->stream, true);
	send_input_until_full(f, caller);
}

CLUSTER_TEST(a_node_that_takes_no_input_hears_that_the_caller_has_gone)
{
	struct end caller, node;

	begin_full(f, &caller, &node);
	rpc_stream_cancel(caller.stream);
	UNTIL(f, node.is_closed);
	assert_int_equal(node.n, 0);
}

CLUSTER_TEST(a_command_that_ends_without_its_input_ends_the_stream_of_its_node)
{
	struct end caller, node;

	begin_full(f, &caller, &node);
	send_end(&node, STATUS_OK, "");
	UNTIL(f, node.is_closed && caller.is_closed);
	assert_int_equal(caller.status, STATUS_OK);
}

/* Its agent could not send the end. */
CLUSTER_TEST(a_node_that_sends_nothing_more_and_no_end_is_lost)
{
	struct end caller, node;

	begin(f);
	open_exec(f, &caller, ALLOC_1, "web");
	come(f, &f->n1, &node);
	rpc_stream_half_close(node.stream);
	UNTIL(f, node.is_closed && caller.is_closed);
	assert_int_equal(caller.status, STATUS_UNAVAILABLE);
}

TEST_ON(impossible_streams_are_refused_without_asking_the_node, struct fixture, f, setup, teardown)
{
	static const struct {
		const char *alloc, *task;
		enum status status;
		const char *says;
	} rows[] = {
		{ALLOC_2, "web", STATUS_NOT_FOUND, "there is no allocation"},
		{ALLOC_1, "db", STATUS_NOT_FOUND, "has no task 'db'"},
	};
	Holdfast__V1__ExecAllocationRequest empty = HOLDFAST__V1__EXEC_ALLOCATION_REQUEST__INIT;
	struct end caller;

	begin(f);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		open_exec(f, &caller, rows[i].alloc, rows[i].task);
		UNTIL(f, caller.is_closed);
		assert_int_equal(caller.status, rows[i].status);
		assert_non_null(strstr(caller.why, rows[i].says));
	}
	empty.id = text(ALLOC_1);
	open_end(&caller, f->operator.client, ALLOCS, "Exec", &empty.base);
	UNTIL(f, caller.is_closed);
	assert_int_equal(caller.status, STATUS_INVALID_ARGUMENT);
	fake_node_disconnect(&f->n1);
	UNTIL(f, !node_is_connected(state_node(&f->server->state, "n1")));
	open_exec(f, &caller, ALLOC_1, "web");
	UNTIL(f, caller.is_closed);
	assert_int_equal(caller.status, STATUS_UNAVAILABLE);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, state_alloc(&f->server->state, ALLOC_1)->alloc.client_status == CLIENT_COMPLETE);
	open_exec(f, &caller, ALLOC_1, "web");
	UNTIL(f, caller.is_closed);
	assert_int_equal(caller.status, STATUS_FAILED_PRECONDITION);
	assert_non_null(strstr(caller.why, "has ended, it is complete"));
	assert_int_equal(f->n1.streams_wanted, 0);
}

CLUSTER_TEST(a_driver_without_commands_is_named)
{
	struct end caller;

	begin_with(f, false);
	open_exec(f, &caller, ALLOC_1, "web");
	UNTIL(f, caller.is_closed);
	assert_int_equal(caller.status, STATUS_UNIMPLEMENTED);
	assert_non_null(strstr(caller.why, "driver container of node n1 runs no commands in tasks"));
	assert_int_equal(f->n1.streams_wanted, 0);
}

CLUSTER_TEST(a_second_command_in_a_stream_is_refused)
{
	Holdfast__Driver__V1__ExecTaskStreamingRequest input =
		HOLDFAST__DRIVER__V1__EXEC_TASK_STREAMING_REQUEST__INIT;
	Holdfast__V1__ExecAllocationRequest request = V1(exec_allocation_request, .input = &input);
	Holdfast__Driver__V1__ExecSetup setup_again = HOLDFAST__DRIVER__V1__EXEC_SETUP__INIT;
	struct end caller, node;

	begin(f);
	open_exec(f, &caller, ALLOC_1, "web");
	come(f, &f->n1, &node);
	send_output(&node, "x", false);
	UNTIL(f, caller.n == 1);
	input.setup = &setup_again;
	assert_int_equal(rpc_stream_send(caller.stream, &request.base, NULL), STATUS_OK);
	UNTIL(f, caller.is_closed && node.is_closed);
	assert_int_equal(caller.status, STATUS_INVALID_ARGUMENT);
	assert_int_equal(node.n, 0);
}

CLUSTER_TEST(output_is_asked_of_the_node_as_it_was_asked_for)
{
	Holdfast__V1__AllocationLogsRequest request = HOLDFAST__V1__ALLOCATION_LOGS_REQUEST__INIT;
	Holdfast__V1__TaskStreamUp up = HOLDFAST__V1__TASK_STREAM_UP__INIT;
	Holdfast__Driver__V1__TaskLogsResponse said = HOLDFAST__DRIVER__V1__TASK_LOGS_RESPONSE__INIT;
	struct end caller, node;

	begin(f);
	request.id = text(ALLOC_1);
	request.follow = true;
	request.tail = 7;
	open_end(&caller, f->operator.client, ALLOCS, "Logs", &request.base);
	come(f, &f->n1, &node);
	assert_true(f->n1.stream_wanted->logs->follow);
	assert_int_equal(f->n1.stream_wanted->logs->tail, 7);
	assert_string_equal(f->n1.stream_wanted->logs->task, "web");
	send_output(&node, "not of logs", false); /* is left out */
	said.value = (ProtobufCBinaryData){.len = 4, .data = (uint8_t *)text("line")};
	up.message_case = HOLDFAST__V1__TASK_STREAM_UP__MESSAGE_LOGS;
	up.logs = &said;
	assert_int_equal(rpc_stream_send(node.stream, &up.base, NULL), STATUS_OK);
	send_end(&node, STATUS_OK, "");
	UNTIL(f, caller.is_closed && node.is_closed);
	assert_int_equal(caller.status, STATUS_OK);
	assert_int_equal(caller.n, 1);
	assert_string_equal(caller.last, "line");
}

static void open_at(struct end *end, struct rpc_client *client, const ProtobufCServiceDescriptor *service,
		    const char *method)
{
	*end = (struct end){.n = 0};
	assert_int_equal(
		rpc_stream_open(client, service, method, TIMEOUT_US, &events, end, &end->stream, NULL),
		STATUS_OK);
}

static void open_only(struct end *end, struct rpc_client *client, const char *method)
{
	open_at(end, client, ALLOCS, method);
}

/* A stream that never names its task takes no place of others. */
TEST_ON(a_caller_without_the_right_opens_no_stream, struct fixture, f, setup_acl, teardown)
{
	static const char *const methods[] = {"Exec", "Logs", "Stats"};
	static const char *const uris[] = {NULL, "holdfast://c1/node/n1", "holdfast://c2/operator/o", NULL};
	char *secret;

	operator_does(f, "Operator.PutPolicy",
		      "{\"policy\": {\"name\": \"p\", \"node\": \"write\", \"namespaces\": [{\"namespace\": "
		      "\"team\", \"capabilities\": [\"csi-write-volume\"]}]}}");
	secret = make_token(f, "{\"name\":\"t\",\"type\":\"CLIENT\",\"policies\":[\"p\"]}");
	for (size_t i = 0; i < ARRAY_SIZE(uris); i++) {
		struct caller_client caller;

		caller_init(&caller, f, uris[i], i == ARRAY_SIZE(uris) - 1 ? secret : NULL);
		for (size_t k = 0; k < ARRAY_SIZE(methods); k++) {
			struct end end;

			open_only(&end, caller.client, methods[k]);
			UNTIL(f, end.is_closed);
			assert_true(end.status == STATUS_UNAUTHENTICATED ||
				    end.status == STATUS_PERMISSION_DENIED);
		}
		caller_release(&caller);
	}
	assert_int_equal(f->server->n_task_streams, 0);
	free(secret);
}

static void put_capabilities(struct fixture *f, const char *of_default, const char *of_other)
{
	char text[512];

	(void)str_format(text, sizeof(text),
			 "{\"policy\": {\"name\": \"p\", \"namespaces\": ["
			 "{\"namespace\": \"default\", \"capabilities\": [%s]}, "
			 "{\"namespace\": \"other\", \"capabilities\": [%s]}]}}",
			 of_default, of_other);
	operator_does(f, "Operator.PutPolicy", text);
}

static void assert_denied(const struct end *end, const char *capability)
{
	assert_int_equal(end->status, STATUS_PERMISSION_DENIED);
	assert_contains(end->why, capability);
	assert_contains(end->why, "in namespace default");
}

TEST_ON(a_stream_ends_when_a_policy_no_longer_gives_its_right, struct fixture, f, setup_acl, teardown)
{
	Holdfast__V1__AllocationLogsRequest logs =
		V1(allocation_logs_request, .id = text(ALLOC_1), .follow = true);
	Holdfast__V1__AllocationStatsRequest stats = V1(allocation_stats_request, .id = text(ALLOC_1));
	struct end execs[2], unasked, logs_end, stats_end, node;
	cleanup(caller_release) struct caller_client caller;
	cleanup_free char *secret = NULL;
	char said[1024];

	begin(f);
	put_capabilities(f, "\"alloc-exec\", \"read-logs\", \"read-job\"", "");
	secret = make_token(f, "{\"name\":\"t\",\"type\":\"CLIENT\",\"policies\":[\"p\"]}");
	caller_init(&caller, f, NULL, secret);
	open_exec_by(caller.client, &execs[0], ALLOC_1, "web");
	come(f, &f->n1, &node);
	send_output(&node, "$", false);
	UNTIL(f, execs[0].n == 1);
	open_exec(f, &execs[1], ALLOC_1, "web"); /* the operator's */
	open_only(&unasked, caller.client, "Exec");
	open_end(&logs_end, caller.client, ALLOCS, "Logs", &logs.base);
	open_end(&stats_end, caller.client, ALLOCS, "Stats", &stats.base);
	UNTIL(f, f->server->n_task_streams == 5);

	put_capabilities(f, "\"read-logs\", \"read-job\"", "\"alloc-exec\"");
	UNTIL(f, execs[0].is_closed && node.is_closed);
	assert_denied(&execs[0], "'alloc-exec'");
	settle(f);
	read_audit(f, "Allocations.ExecEnd", said, sizeof(said));
	assert_non_null(strstr(said, "cut off: its caller was refused"));
	assert_false(unasked.is_closed || logs_end.is_closed || stats_end.is_closed); /* as a new one */
	put_capabilities(f, "\"read-job\"", "\"read-logs\"");
	UNTIL(f, logs_end.is_closed && unasked.is_closed);
	assert_denied(&logs_end, "'read-logs'");
	assert_int_equal(unasked.status, STATUS_PERMISSION_DENIED);
	settle(f);
	assert_false(stats_end.is_closed);
	put_capabilities(f, "", "\"read-job\"");
	UNTIL(f, stats_end.is_closed);
	assert_denied(&stats_end, "'read-job'");
	settle(f);
	assert_false(execs[1].is_closed);
}

static size_t count_closed(const struct end *ends, size_t n)
{
	size_t n_closed = 0;

	for (size_t i = 0; i < n; i++)
		n_closed += ends[i].is_closed;
	return n_closed;
}

CLUSTER_TEST(neither_one_caller_nor_all_have_streams_without_end)
{
	enum { PER = TASK_STREAMS_PER_CALLER_MAX, CALLERS = TASK_STREAMS_MAX / PER + 1 };
	static struct end ends[CALLERS][PER + 1];
	struct caller_client callers[CALLERS];

	for (size_t i = 0; i < CALLERS; i++) {
		bool is_last = i == CALLERS - 1;
		char uri[64];

		(void)str_format(uri, sizeof(uri), "holdfast://c1/operator/o%zu", i);
		caller_init(&callers[i], f, uri, NULL);
		for (size_t k = 0; k <= PER; k++)
			open_only(&ends[i][k], callers[i].client, "Logs");
		UNTIL(f, count_closed(ends[i], PER + 1) >= (is_last ? PER + 1 : 1));
		assert_int_equal(f->server->n_task_streams, PER * (is_last ? i : i + 1));
		assert_true(ends[i][PER].is_closed);
		assert_int_equal(ends[i][PER].status, STATUS_RESOURCE_EXHAUSTED);
		assert_non_null(strstr(ends[i][PER].why, i < CALLERS - 2 ? "the most that one caller may have"
									 : "1024 streams"));
	}
	for (size_t i = 0; i < CALLERS; i++)
		caller_release(&callers[i]);
	UNTIL(f, f->server->n_task_streams == 0);
}

CLUSTER_TEST(one_caller_does_not_take_all_streams_of_a_node)
{
	enum { N = TASK_STREAMS_PER_NODE_MAX };
	static struct end ends[N + 1];
	struct caller_client another;
	struct end end;

	begin(f);
	for (size_t i = 0; i <= N; i++)
		open_exec(f, &ends[i], ALLOC_1, "web");
	UNTIL(f, count_closed(ends, N + 1) == 1 && f->n1.streams_wanted == N);
	assert_int_equal(ends[N].status, STATUS_RESOURCE_EXHAUSTED);
	assert_non_null(
		strstr(ends[N].why, "32 streams to tasks of node n1, the most that one caller may have"));
	caller_init(&another, f, "holdfast://c1/operator/another", NULL);
	open_exec_by(another.client, &end, ALLOC_1, "web");
	UNTIL(f, f->n1.streams_wanted == N + 1);
	rpc_stream_cancel(end.stream);
	for (size_t i = 0; i < N; i++)
		rpc_stream_cancel(ends[i].stream);
	caller_release(&another);
}

/* Opens streams of logs until one is refused, or @max are open; returns how many are. */
static size_t fill_node(struct fixture *f, struct rpc_client *client, struct end *ends, size_t max,
			const char *alloc)
{
	Holdfast__V1__AllocationLogsRequest request = V1(allocation_logs_request, .id = text(alloc));
	int before = f->n1.streams_wanted;
	size_t n = 0;

	for (; n < max; n++) {
		open_end(&ends[n], client, ALLOCS, "Logs", &request.base);
		UNTIL(f, ends[n].is_closed || f->n1.streams_wanted == before + (int)n + 1);
		if (!ends[n].is_closed)
			continue;
		assert_int_equal(ends[n].status, STATUS_RESOURCE_EXHAUSTED);
		break;
	}
	return n;
}

CLUSTER_TEST(an_id_that_the_server_makes_is_of_its_namespace)
{
	begin(f);
	run(f, "", "team");
	UNTIL(f, f->n1.runs == 2);
	assert_true(alloc_id_is_of(f->n1.last_run, "team"));
}

CLUSTER_TEST(a_namespace_does_not_take_all_streams_of_a_node)
{
	enum { N = TASK_STREAMS_PER_NODE_MAX, FIRST = 16 };
	static struct end ends[N], others[N], firsts[FIRST], more;
	struct caller_client another, callers[FIRST];

	begin(f);
	run(f, TEAM_2, "team");
	UNTIL(f, f->n1.runs == 2);
	caller_init(&another, f, "holdfast://c1/operator/another", NULL);
	assert_int_equal(fill_node(f, f->operator.client, ends, N, ALLOC_1), N);
	assert_int_equal(fill_node(f, another.client, others, N, ALLOC_1), 1);
	assert_contains(others[1].why,
			"33 streams to tasks of node n1 are open, 33 of them of namespace default");
	assert_int_equal(fill_node(f, another.client, others + 1, N - 1, TEAM_2),
			 16); /* 49, and 15 are left */
	for (size_t i = 0; i < FIRST; i++) {
		char uri[64];

		(void)str_format(uri, sizeof(uri), "holdfast://c1/operator/o%zu", i);
		caller_init(&callers[i], f, uri, NULL);
		assert_int_equal(fill_node(f, callers[i].client, &firsts[i], 1, ALLOC_1), i < FIRST - 1);
		if (i == 0)
			assert_int_equal(fill_node(f, callers[i].client, &more, 1, ALLOC_1), 0);
	}
	for (size_t i = 0; i < FIRST; i++)
		caller_release(&callers[i]);
	caller_release(&another);
}

/* Opens a command and ends it when its node is asked; returns STATUS_OK, or the status of its refusal. */
static enum status try_exec(struct fixture *f, struct rpc_client *client, const char *alloc, struct end *end)
{
	int before = f->n1.streams_wanted;
	size_t n = f->server->n_task_streams;

	open_exec_by(client, end, alloc, "web");
	UNTIL(f, end->is_closed || f->n1.streams_wanted > before);
	if (end->is_closed)
		return end->status;
	rpc_stream_cancel(end->stream);
	UNTIL(f, f->server->n_task_streams == n);
	return STATUS_OK;
}

static void pay_all(struct fixture *f, const char *name, uint64_t per_second, uint32_t burst)
{
	while (rates_take(f->server->execs, name, USEC_PER_SEC / per_second, burst, clock_monotonic_us()))
		;
}

CLUSTER_TEST(commands_without_end_are_refused_on_their_node)
{
	struct caller_client another;
	struct end end;
	int n = 0;

	begin(f);
	run(f, TEAM_2, "team");
	UNTIL(f, f->n1.runs == 2);
	caller_init(&another, f, "holdfast://c1/operator/another", NULL);
	while (n < 300 && try_exec(f, f->operator.client, ALLOC_1, &end) == STATUS_OK)
		n++;
	assert_in_range(n, 200, 220);
	assert_int_equal(end.status, STATUS_RESOURCE_EXHAUSTED);
	assert_contains(end.why,
			"more than 2 commands a second start in tasks of node n1, the most for a caller");
	assert_ok(try_exec(f, another.client, ALLOC_1, &end));
	unit_clock_advance(USEC_PER_SEC);
	assert_ok(try_exec(f, f->operator.client, ALLOC_1, &end));
	pay_all(f, "n1 namespace default", 5, 500);
	assert_int_equal(try_exec(f, another.client, ALLOC_1, &end), STATUS_RESOURCE_EXHAUSTED);
	assert_contains(end.why, "the most for a namespace");
	assert_ok(try_exec(f, another.client, TEAM_2, &end));
	pay_all(f, "n1 node ", 10, 1000);
	assert_int_equal(try_exec(f, another.client, TEAM_2, &end), STATUS_RESOURCE_EXHAUSTED);
	assert_contains(end.why, "the most for a node");
	caller_release(&another);
}

/* A server that follows has places only for so many, and holds each as long as this one does. */
TEST_ON(only_a_node_opens_the_other_side, struct fixture, f, setup_acl, teardown)
{
	static const char *const uris[] = {NULL, "holdfast://c1/operator/o", "holdfast://c1/node/n1"};

	for (size_t i = 0; i < ARRAY_SIZE(uris); i++) {
		bool is_node = i == ARRAY_SIZE(uris) - 1;
		struct caller_client caller;
		struct end end;

		caller_init(&caller, f, uris[i], NULL);
		open_at(&end, caller.client, NODES, "TaskStream");
		if (is_node)
			run_for(f->event, 1000);
		else
			UNTIL(f, end.is_closed);
		assert_int_equal(end.is_closed, !is_node);
		caller_release(&caller);
	}
}

/* The node holds the one of namespace default, which the store has forgotten. */
TEST_ON(a_command_for_another_namespace_names_it, struct fixture, f, setup_acl, teardown)
{
	Holdfast__V1__AllocStatus status =
		V1(alloc_status, .alloc_id = text(B_1), .namespace_ = text("default"),
		   .client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	Holdfast__V1__AllocStatus *list[] = {&status};
	cleanup_pb Holdfast__Driver__V1__ExecCommand *command = NULL;
	Holdfast__V1__AllocationLogsRequest logs = V1(allocation_logs_request, .id = text(B_1));
	Holdfast__V1__AllocationStatsRequest stats = V1(allocation_stats_request, .id = text(B_1));
	const Holdfast__V1__OpenTaskStream *wanted;
	struct end ends[3];

	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	fake_node_disconnect(&f->n1);
	settle(f);
	run(f, B_1, "b");
	fake_node_connect(&f->n1, "n1", BOOT_1, list, 1);
	settle(f);
	assert_int_equal(state_alloc(&f->server->state, B_1)->alloc.client_status, CLIENT_PENDING);
	open_exec(f, &ends[0], B_1, "web");
	UNTIL(f, f->n1.streams_wanted == 1);
	wanted = f->n1.stream_wanted;
	assert_string_equal(wanted->namespace_, "b");
	command = holdfast__driver__v1__exec_command__unpack(NULL, wanted->exec->setup->command.len,
							     wanted->exec->setup->command.data);
	assert_string_equal(command->namespace_, "b");
	open_end(&ends[1], f->operator.client, ALLOCS, "Logs", &logs.base);
	UNTIL(f, f->n1.streams_wanted == 2);
	assert_string_equal(f->n1.stream_wanted->namespace_, "b");
	assert_string_equal(f->n1.stream_wanted->logs->namespace_, "b");
	open_end(&ends[2], f->operator.client, ALLOCS, "Stats", &stats.base);
	UNTIL(f, f->n1.streams_wanted == 3);
	assert_string_equal(f->n1.stream_wanted->namespace_, "b");
	assert_string_equal(f->n1.stream_wanted->stats->namespace_, "b");
}

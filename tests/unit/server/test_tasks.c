/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks of allocations: submitted, ordered of the node's driver, and what their node says of them. */

#include "callers.h"
#include "unit.h"

#include "alloc/orders.h"
#include "base/id.h"
#include "model/order.h"
#include "model/task.h"
#include "ticket/ticket.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <order.h>

#define ALLOCS (&holdfast__v1__allocations__descriptor)

static char *text(const char *s)
{
	return TEXT(s);
}

/* ALLOC_1 on n1 with task web on volume db. */
static enum status run_web_in(struct fixture *f, const char *user, Holdfast__Driver__V1__NetworkMode mode,
			      struct error *err)
{
	Holdfast__V1__AllocationNetwork network = V1(allocation_network, .mode = mode);
	Holdfast__V1__Allocation alloc = HOLDFAST__V1__ALLOCATION__INIT;
	Holdfast__V1__RunAllocationRequest request = V1(run_allocation_request, .allocation = &alloc);
	Holdfast__V1__VolumeRequest volume =
		V1(volume_request, .name = text("data"), .source = text("db"), .access_mode = f->access_mode);
	Holdfast__V1__VolumeRequest *volumes[] = {&volume};
	Holdfast__Driver__V1__VolumeMount mount =
		PB(holdfast__driver__v1__volume_mount, .volume = text("data"), .destination = text("/data"));
	Holdfast__Driver__V1__VolumeMount *mounts[] = {&mount};
	Holdfast__Driver__V1__TaskConfig task =
		PB(holdfast__driver__v1__task_config, .task = text("web"), .driver = text("container"),
		   .user = text(user), .volumes = mounts, .n_volumes = 1);
	Holdfast__Driver__V1__TaskConfig *tasks[] = {&task};

	alloc.id = text(ALLOC_1);
	alloc.name = text("app");
	alloc.node_id = text("n1");
	alloc.volumes = volumes;
	alloc.n_volumes = 1;
	alloc.tasks = tasks;
	alloc.n_tasks = 1;
	alloc.network = &network;
	return call(&f->operator, ALLOCS, "Run", &request.base, NULL, err);
}

static enum status run_web(struct fixture *f, const char *user, struct error *err)
{
	return run_web_in(f, user, HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_UNSPECIFIED, err);
}

static Holdfast__Driver__V1__NetworkMode offered_modes[] = {
	HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_NONE,
	HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_ISOLATED};

/* n1's driver, with whatever it says. */
static struct {
	Holdfast__V1__NodeDriver driver, *list[2];
	Holdfast__Driver__V1__CapabilitiesResponse capabilities;
	Holdfast__Driver__V1__FingerprintResponse fingerprint;
} said;

static void give_driver(struct fixture *f, const char *name)
{
	holdfast__v1__node_driver__init(&said.driver);
	holdfast__driver__v1__capabilities_response__init(&said.capabilities);
	holdfast__driver__v1__fingerprint_response__init(&said.fingerprint);
	said.driver.name = text(name);
	said.driver.healthy = true;
	said.driver.capabilities = &said.capabilities;
	said.driver.fingerprint = &said.fingerprint;
	said.capabilities.network_modes = offered_modes;
	said.capabilities.n_network_modes = ARRAY_SIZE(offered_modes);
	said.list[0] = said.list[1] = &said.driver;
	f->n1.drivers = said.list;
	f->n1.n_drivers = 1;
}

static void begin(struct fixture *f)
{
	give_driver(f, "container");
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	assert_int_equal(run_web(f, "", NULL), STATUS_OK);
	UNTIL(f, f->n1.runs == 1);
}

static void claim_db(struct fixture *f)
{
	assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_1, NULL, NULL), STATUS_OK);
}

/* Owned by the caller; NULL when it is refused. */
static Holdfast__V1__OrderTaskResponse *ask_order(struct fake_node *as, const char *alloc, const char *task,
						  struct error *err)
{
	Holdfast__V1__OrderTaskRequest request =
		V1(order_task_request, .id = text(alloc), .task = text(task));
	ProtobufCMessage *response = NULL;

	return call(as, ALLOCS, "OrderTask", &request.base, &response, err) == STATUS_OK ? (void *)response
											 : NULL;
}

static void expect_refused(struct fake_node *as, const char *alloc, const char *task, enum status status,
			   const char *says)
{
	struct error err;
	Holdfast__V1__OrderTaskResponse *response = ask_order(as, alloc, task, &err);

	assert_null(response);
	assert_int_equal(err.status, status);
	assert_msg(strstr(err.msg, says), "'%s' is not in: %s", says, err.msg);
}

CLUSTER_TEST(a_task_is_ordered_of_its_node_once_its_volumes_are_claimed)
{
	uint8_t key[ORDER_KEY_SIZE], digest[ORDER_DIGEST_SIZE], boot[ORDER_UUID_SIZE];
	Holdfast__V1__OrderTaskResponse *first, *again;
	cleanup_pb Holdfast__Driver__V1__TaskConfig *task = NULL;
	struct order order, order_again;
	struct error err;

	begin(f);
	expect_refused(&f->n1, ALLOC_1, "web", STATUS_FAILED_PRECONDITION, "volume db is not claimed for it");
	claim_db(f);
	expect_refused(&f->n2, ALLOC_1, "web", STATUS_PERMISSION_DENIED, "is not of node n2");
	expect_refused(&f->n1, ALLOC_1, "db", STATUS_NOT_FOUND, "has no task 'db'");
	expect_refused(&f->n1, ALLOC_2, "web", STATUS_NOT_FOUND, "there is no allocation");
	first = NON_NULL(ask_order(&f->n1, ALLOC_1, "web", &err));
	assert_ok(order_read(first->start->order.data, first->start->order.len, &order, NULL));
	ticket_issuer_public_key(f->server->issuer, key);
	assert_true(order_is_signed(&order, key));
	order_digest(first->start->task.data, first->start->task.len, digest);
	assert_memory_equal(order.digest, digest, sizeof(digest));
	assert_int_equal(order.kind, ORDER_START);
	assert_string_equal(order.cluster, f->server->config.cluster);
	assert_string_equal(order.node, "n1");
	assert_string_equal(order.driver, "container");
	assert_string_equal(order.task, "web");
	assert_true(id_uuid_bytes(BOOT_1, boot));
	assert_memory_equal(order.boot_id, boot, sizeof(boot));
	task = holdfast__driver__v1__task_config__unpack(NULL, first->start->task.len,
							 first->start->task.data);
	assert_string_equal(task->alloc_id, ALLOC_1);
	assert_int_equal(task->n_volumes, 1);
	/* however often it is ordered, its driver starts it once */
	again = ask_order(&f->n1, ALLOC_1, "web", &err);
	assert_ok(order_read(again->start->order.data, again->start->order.len, &order_again, NULL));
	assert_memory_equal(order.nonce, order_again.nonce, sizeof(order.nonce));
	assert_memory_equal(order.digest, order_again.digest, sizeof(order.digest));
	holdfast__v1__order_task_response__free_unpacked(first, NULL);
	holdfast__v1__order_task_response__free_unpacked(again, NULL);
}

/* Else a node could push everything else out of the audit. */
CLUSTER_TEST(a_repeated_order_of_a_task_is_recorded_ten_times_and_then_once_a_minute)
{
	Holdfast__V1__OrderTaskResponse *response;
	uint64_t before;
	struct error err;

	begin(f);
	claim_db(f);
	before = audit_head(f->server).sequence;
	for (int i = 0; i < 200; i++) {
		response = NON_NULL(ask_order(&f->n1, ALLOC_1, "web", &err));
		holdfast__v1__order_task_response__free_unpacked(response, NULL);
	}
	assert_int_equal(audit_head(f->server).sequence - before, 1 + 10);
	run_for(f->event, 60000);
	response = NON_NULL(ask_order(&f->n1, ALLOC_1, "web", &err));
	holdfast__v1__order_task_response__free_unpacked(response, NULL);
	assert_int_equal(
		n_events(f, "allocation default/" ALLOC_1, "Allocations.OrderTask", "and 189 more before"),
		1);
}

static Holdfast__V1__OrderTaskResponse *ask_with(struct fake_node *as, const char *task,
						 Holdfast__Driver__V1__NetworkSpec *network,
						 struct error *err)
{
	Holdfast__V1__OrderTaskRequest request =
		V1(order_task_request, .id = text(ALLOC_1), .task = text(task), .network = network);
	ProtobufCMessage *response = NULL;

	return call(as, ALLOCS, "OrderTask", &request.base, &response, err) == STATUS_OK ? (void *)response
											 : NULL;
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup, teardown)

CASE(the_network_of_an_allocation_is_ordered_and_joined_by_its_handle)
{
	Holdfast__Driver__V1__NetworkSpec spec = HOLDFAST__DRIVER__V1__NETWORK_SPEC__INIT;
	Holdfast__V1__OrderTaskResponse *first, *again, *start;
	cleanup_pb Holdfast__Driver__V1__NetworkConfig *network = NULL;
	cleanup_pb Holdfast__Driver__V1__TaskConfig *task = NULL;
	struct order order, order_again;
	struct error err;

	give_driver(f, "container");
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_ok(run_web_in(f, "", HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_ISOLATED, NULL));
	assert_int_equal(run_web(f, "", &err), STATUS_ALREADY_EXISTS);
	UNTIL(f, f->n1.runs == 1);
	expect_refused(&f->n1, ALLOC_1, "", STATUS_FAILED_PRECONDITION, "volume db is not claimed for it");
	claim_db(f);
	first = ask_with(&f->n1, "", NULL, &err);
	again = ask_with(&f->n1, "", NULL, &err);
	assert_non_null(first);
	assert_null(first->start);
	assert_string_equal(first->network_driver, "container");
	assert_ok(order_read(first->network->order.data, first->network->order.len, &order, NULL));
	assert_int_equal(order.kind, ORDER_NETWORK);
	assert_string_equal(order.task, "");
	assert_ok(order_read(again->network->order.data, again->network->order.len, &order_again, NULL));
	assert_memory_not_equal(order.nonce, order_again.nonce, sizeof(order.nonce)); /* made anew by it */
	network = holdfast__driver__v1__network_config__unpack(NULL, first->network->network.len,
							       first->network->network.data);
	assert_string_equal(network->alloc_id, ALLOC_1);
	assert_string_equal(network->driver, "container");
	assert_string_equal(network->namespace_, "default");
	expect_refused(&f->n1, ALLOC_1, "web", STATUS_FAILED_PRECONDITION, "with the handle of that only");
	spec.alloc_id = text(ALLOC_1);
	spec.mode = HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_ISOLATED;
	spec.state = text("the network");
	start = NON_NULL(ask_with(&f->n1, "web", &spec, &err));
	task = holdfast__driver__v1__task_config__unpack(NULL, start->start->task.len,
							 start->start->task.data);
	assert_string_equal(task->network_spec->state, "the network");
	assert_int_equal(task->network, spec.mode);
	holdfast__v1__order_task_response__free_unpacked(first, NULL);
	holdfast__v1__order_task_response__free_unpacked(again, NULL);
	holdfast__v1__order_task_response__free_unpacked(start, NULL);
}

CASE(no_network_is_ordered_without_isolation)
{
	Holdfast__Driver__V1__NetworkSpec spec = HOLDFAST__DRIVER__V1__NETWORK_SPEC__INIT;
	struct error err;

	begin(f);
	claim_db(f);
	expect_refused(&f->n1, ALLOC_1, "", STATUS_NOT_FOUND, "has no isolated network");
	assert_null(ask_with(&f->n1, "web", &spec, &err));
	assert_int_equal(err.status, STATUS_INVALID_ARGUMENT);
}

CLUSTER_TEST(an_allocation_to_be_stopped_is_not_started)
{
	begin(f);
	claim_db(f);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	expect_refused(&f->n1, ALLOC_1, "web", STATUS_ABORTED, "must not run any longer");
}

CLUSTER_TEST(another_task_under_the_same_id_is_another_allocation)
{
	struct error err;

	begin(f);
	assert_int_equal(run_web(f, "", NULL), STATUS_OK);
	assert_int_equal(run_web(f, "root", &err), STATUS_ALREADY_EXISTS);
}

static void send_tasks(struct fixture *f, const char *name, uint32_t n)
{
	Holdfast__V1__AllocStatus status = HOLDFAST__V1__ALLOC_STATUS__INIT;
	Holdfast__V1__SessionUp up =
		V1(session_up, .message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_ALLOC, .alloc = &status);
	Holdfast__Driver__V1__TaskStatus task =
		PB(holdfast__driver__v1__task_status, .alloc_id = text(ALLOC_1), .task = text(name),
		   .state = HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_RUNNING, .started_ms = 5000);
	Holdfast__Driver__V1__TaskStatus *tasks[] = {&task, &task};

	status.alloc_id = text(ALLOC_1);
	status.client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING;
	status.tasks = tasks;
	status.n_tasks = n;
	fake_node_send(&f->n1, &up);
}

static const struct message_list *stored_status(struct fixture *f)
{
	return state_alloc(&f->server->state, ALLOC_1)->alloc.task_status;
}

CLUSTER_TEST(task_status_survives_a_server_restart)
{
	const Holdfast__Driver__V1__TaskStatus *status;

	begin(f);
	send_tasks(f, "web", 1);
	UNTIL(f, message_list_n(stored_status(f)) == 1);
	restart(f);
	assert_int_equal(message_list_n(stored_status(f)), 1);
	status = (const void *)stored_status(f)->messages[0];
	assert_string_equal(status->task, "web");
	assert_int_equal(status->started_ms, 5000);
	assert_string_equal(alloc_task(&state_alloc(&f->server->state, ALLOC_1)->alloc, 0)->task, "web");
}

CLUSTER_TEST(a_status_of_more_tasks_than_there_are_is_refused)
{
	begin(f);
	send_tasks(f, "other", 1);
	UNTIL(f, n_events(f, "", "Nodes.Session: status", "task 'other'") == 1);
	send_tasks(f, "web", 2);
	UNTIL(f, n_events(f, "", "Nodes.Session: status", "has 1 tasks, not 2") == 1);
	assert_null(stored_status(f));
	assert_int_equal(state_alloc(&f->server->state, ALLOC_1)->alloc.client_status, CLIENT_PENDING);
	send_tasks(f, "web", 1);
	UNTIL(f, message_list_n(stored_status(f)) == 1);
	assert_false(f->n1.closed);
}

static Holdfast__V1__GetNodeResponse *get_n1(struct fixture *f)
{
	Holdfast__V1__GetNodeRequest request = V1(get_node_request, .id = text("n1"));
	ProtobufCMessage *response = NULL;

	assert_ok(
		call(&f->operator, & holdfast__v1__nodes__descriptor, "Get", &request.base, &response, NULL));
	return (void *)response;
}

/* Values in memory that live as long as the test. */
static struct {
	char texts[128][8];
	_Alignas(16) char bytes[128][128];
	void *lists[128][2];
	uint32_t numbers[128][2];
	size_t n;
} room;

static void fill(ProtobufCMessage *message);

static void *some_message(const ProtobufCMessageDescriptor *type)
{
	char *at = room.bytes[room.n++];

	assert_true(type->sizeof_message <= sizeof(room.bytes[0]));
	protobuf_c_message_init(type, at);
	fill((ProtobufCMessage *)(void *)at);
	return at;
}

static char *some_text(void)
{
	(void)snprintf(room.texts[room.n], sizeof(room.texts[0]), "t%zu", room.n);
	return room.texts[room.n++];
}

/* Set one field, a list twice. */
static void fill_field(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
	char *at = (char *)message + field->offset;
	bool is_list = field->label == PROTOBUF_C_LABEL_REPEATED;
	bool is_pointer = field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_MESSAGE;
	uint32_t number = field->type == PROTOBUF_C_TYPE_BOOL	? 1
			  : field->type == PROTOBUF_C_TYPE_ENUM ? 2
								: 77;
	void **values = room.lists[room.n];
	uint32_t *numbers = room.numbers[room.n++];

	assert_true(room.n < 120);
	for (size_t i = 0; i < 2; i++) {
		if (field->type == PROTOBUF_C_TYPE_STRING)
			values[i] = some_text();
		else if (field->type == PROTOBUF_C_TYPE_MESSAGE)
			values[i] = some_message(field->descriptor);
		numbers[i] = number;
	}
	if (is_list) {
		*(size_t *)(void *)((char *)message + field->quantifier_offset) = 2;
		*(void **)(void *)at = is_pointer ? (void *)values : (void *)numbers;
	} else if (is_pointer) {
		*(void **)(void *)at = values[0];
	} else {
		*(uint32_t *)(void *)at = number; /* also the lower half of one of 64 bits */
	}
}

static void fill(ProtobufCMessage *message)
{
	for (unsigned int i = 0; i < message->descriptor->n_fields; i++)
		fill_field(message, &message->descriptor->fields[i]);
}

CLUSTER_TEST(whatever_a_driver_reports_is_found_in_its_node)
{
	cleanup_pb Holdfast__V1__GetNodeResponse *node = NULL;

	give_driver(f, "container");
	memset(&room, 0, sizeof(room));
	fill(&said.capabilities.base); /* every field there is, also one that is new */
	fill(&said.fingerprint.base);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	node = get_n1(f);
	assert_int_equal(node->node->n_drivers, 1);
	assert_true(message_eq(&node->node->drivers[0]->base, &said.driver.base));
	said.driver.healthy = false; /* and when it has changed */
	fake_node_send_fingerprint(&f->n1);
	UNTIL(f, !node_driver(state_node(&f->server->state, "n1"), "container")->healthy);
	f->n1.n_drivers = 0;
	fake_node_send_fingerprint(&f->n1);
	UNTIL(f, !node_driver(state_node(&f->server->state, "n1"), "container"));
}

CLUSTER_TEST(a_driver_that_cannot_be_ends_the_session)
{
	give_driver(f, "Container");
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	UNTIL(f, f->n1.closed);
	assert_int_equal(f->n1.closed_status, STATUS_INVALID_ARGUMENT);
	fake_node_disconnect(&f->n1);
	give_driver(f, "container");
	f->n1.n_drivers = 2; /* of one name */
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	UNTIL(f, f->n1.closed);
	assert_int_equal(f->n1.closed_status, STATUS_INVALID_ARGUMENT);
}

CLUSTER_TEST(a_task_without_a_driver_on_its_node_is_refused)
{
	struct error err;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_error(run_web(f, "", &err), STATUS_UNAVAILABLE, err,
		     "task web needs driver container, which node n1 does not have");
	give_driver(f, "container");
	said.driver.healthy = false;
	said.driver.health_description = text("the engine is away; n2 is dead. Next: attest n2");
	fake_node_send_fingerprint(&f->n1);
	UNTIL(f, node_driver(state_node(&f->server->state, "n1"), "container"));
	assert_error(
		run_web(f, "", &err), STATUS_UNAVAILABLE, err,
		"driver container of node n1 is not healthy: the engine is away, n2 is dead. next: attest");
	said.driver.healthy = true;
	fake_node_send_fingerprint(&f->n1);
	UNTIL(f, node_driver(state_node(&f->server->state, "n1"), "container")->healthy);
	assert_int_equal(run_web(f, "", &err), STATUS_OK);
}

static void caller_with_rights(struct fixture *f, const char *words, struct caller_client *ret)
{
	cleanup_free char *secret = NULL;
	char policy[256];

	(void)str_format(policy, sizeof(policy),
			 "{\"policy\":{\"name\":\"p\",\"namespaces\":[{\"namespace\":\"default\","
			 "\"capabilities\":[%s]}]}}",
			 words);
	operator_does(f, "Operator.PutPolicy", policy);
	secret = make_token(f, "{\"name\":\"t\",\"type\":\"CLIENT\",\"policies\":[\"p\"]}");
	caller_init(ret, f, NULL, secret);
}

TEST_ON(the_answer_to_a_stop_has_tasks_only_for_readers, struct fixture, f, setup_acl, teardown)
{
	static const char *const words[] = {"\"submit-job\"", "\"submit-job\",\"read-job\""};

	begin(f);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		cleanup(caller_release) struct caller_client caller;
		cleanup(json_decrefp) json_t *answer = NULL;

		caller_with_rights(f, words[i], &caller);
		assert_int_equal(
			caller_call(&caller, "Allocations.Stop", "{\"id\":\"" ALLOC_1 "\"}", &answer, NULL),
			STATUS_OK);
		assert_int_equal(
			json_array_size(json_object_get(json_object_get(answer, "allocation"), "tasks")), i);
	}
}

/* A task's environment often has secrets. */
TEST_ON(a_list_of_allocations_has_tasks_only_for_readers, struct fixture, f, setup_acl, teardown)
{
	static const char *const words[] = {"\"list-jobs\"", "\"list-jobs\",\"read-job\""};

	begin(f);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		cleanup(caller_release) struct caller_client caller;
		cleanup(json_decrefp) json_t *list = NULL;
		const json_t *alloc;

		caller_with_rights(f, words[i], &caller);
		assert_int_equal(caller_call(&caller, "Allocations.List", "{}", &list, NULL), STATUS_OK);
		alloc = json_array_get(json_object_get(list, "allocations"), 0);
		assert_string_equal(json_string_value(json_object_get(alloc, "id")), ALLOC_1);
		assert_int_equal(json_array_size(json_object_get(alloc, "tasks")), i);
	}
}

/* Tasks of 30 KiB, eight in an allocation. */
static void run_large(struct fixture *f, int number)
{
	enum { TASKS = 8, VARIABLES = 30, VALUE = 1000 };
	static char value[VALUE + 1], names[VARIABLES][8], tasks_names[TASKS][8], id[UUID_TEXT_SIZE];
	static Holdfast__Driver__V1__KeyValue variables[VARIABLES], *env[VARIABLES];
	static Holdfast__Driver__V1__TaskConfig tasks[TASKS], *list[TASKS];
	Holdfast__V1__Allocation alloc = V1(allocation, .id = id, .name = text("large"),
					    .node_id = text("n1"), .tasks = list, .n_tasks = TASKS);
	const Holdfast__V1__RunAllocationRequest request = V1(run_allocation_request, .allocation = &alloc);
	struct error err;

	memset(value, 'x', VALUE);
	for (int i = 0; i < VARIABLES; i++) {
		(void)str_format(names[i], sizeof(names[i]), "V%d", i);
		variables[i] = (Holdfast__Driver__V1__KeyValue)PB(holdfast__driver__v1__key_value,
								  .key = names[i], .value = value);
		env[i] = &variables[i];
	}
	for (int i = 0; i < TASKS; i++) {
		(void)str_format(tasks_names[i], sizeof(tasks_names[i]), "t%d", i);
		tasks[i] = (Holdfast__Driver__V1__TaskConfig)PB(
			holdfast__driver__v1__task_config, .task = tasks_names[i],
			.driver = text("container"), .env = env, .n_env = VARIABLES);
		list[i] = &tasks[i];
	}
	(void)str_format(id, sizeof(id), "018901%02d-0000-7000-" ID_MARK, number);
	assert_succeeds(call(&f->operator, ALLOCS, "Run", &request.base, NULL, &err), err);
}

/* One tenant's tasks make no list that clients refuse, and no long turn of the server. */
CLUSTER_TEST(a_page_of_large_allocations_is_one_that_clients_take)
{
	enum { N = 20 };
	Holdfast__V1__ListAllocationsRequest request = HOLDFAST__V1__LIST_ALLOCATIONS_REQUEST__INIT;
	Holdfast__V1__GetNodeRequest get = V1(get_node_request, .id = text("n1"));
	cleanup_pb ProtobufCMessage *node = NULL, *filtered = NULL, *costly = NULL;
	char token[NAMESPACE_MAX + UUID_TEXT_SIZE + 1] = "", filter[2048] = "";
	size_t n = 0, n_pages = 0;

	give_driver(f, "container");
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	for (int i = 0; i < N; i++)
		run_large(f, i);
	do {
		cleanup_pb ProtobufCMessage *page = NULL;
		const Holdfast__V1__ListAllocationsResponse *list;
		struct error err;

		request.next_token = token;
		assert_succeeds(call(&f->operator, ALLOCS, "List", &request.base, &page, &err), err);
		list = (const void *)page;
		n += list->n_allocations;
		n_pages++;
		assert_int_equal(list->allocations[0]->n_tasks, 8);
		(void)str_copy(token, sizeof(token), list->next_token);
	} while (token[0] != '\0');
	assert_int_equal(n, N);
	assert_in_range(n_pages, 2, 4);
	request.next_token = text("");
	request.filter = text("tasks.env.value == absent");
	assert_int_equal(call(&f->operator, ALLOCS, "List", &request.base, &filtered, NULL), STATUS_OK);
	assert_string_equal(
		((const Holdfast__V1__ListAllocationsResponse *)(const void *)filtered)->next_token,
		"default.01890103-0000-7000-" ID_MARK); /* three are more than it looks at */
	for (int i = 0; i < 50; i++)
		(void)strcat(strcat(filter, i > 0 ? " or " : ""), "tasks.env.value contains y");
	request.filter = filter;
	assert_int_equal(call(&f->operator, ALLOCS, "List", &request.base, &costly, NULL), STATUS_OK);
	assert_string_equal(((const Holdfast__V1__ListAllocationsResponse *)(const void *)costly)->next_token,
			    "default.01890101-0000-7000-" ID_MARK); /* one is, with so much to compare */
	assert_int_equal(call(&f->operator, & holdfast__v1__nodes__descriptor, "Get", &get.base, &node, NULL),
			 STATUS_OK);
	assert_int_equal(((const Holdfast__V1__GetNodeResponse *)(const void *)node)->n_allocations, N);
	assert_true(protobuf_c_message_get_packed_size(node) < 64 << 10);
}

/* A store that went back may have forgotten an allocation that its node has, and a tenant may submit its id.
 */
CLUSTER_TEST(a_task_is_ordered_in_the_namespace_of_its_allocation_only)
{
	Holdfast__V1__OrderTaskRequest request =
		V1(order_task_request, .id = text(ALLOC_1), .task = text("web"), .namespace_ = text("b"));
	Holdfast__Driver__V1__TaskConfig web =
		PB(holdfast__driver__v1__task_config, .task = text("web"), .driver = text("container"));
	struct alloc own, other;
	struct order_wish wish = {.kind = ORDER_START, .boot_id = BOOT_1, .task = &web, .who = "w"};
	struct order orders[3];
	struct error err;

	begin(f);
	claim_db(f);
	assert_error(call(&f->n1, ALLOCS, "OrderTask", &request.base, NULL, &err), STATUS_NOT_FOUND, err,
		     "there is no allocation");
	own = other = state_alloc(&f->server->state, ALLOC_1)->alloc;
	(void)str_copy(other.namespace, sizeof(other.namespace), "b");
	for (size_t i = 0; i < ARRAY_SIZE(orders); i++) {
		wish.alloc = i == 1 ? &other : &own;
		assert_int_equal(order_make(f->server, &wish, &orders[i], NULL), STATUS_OK);
	}
	assert_memory_equal(orders[0].nonce, orders[2].nonce, ORDER_NONCE_SIZE);
	assert_memory_not_equal(orders[0].nonce, orders[1].nonce, ORDER_NONCE_SIZE);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations over the real port: where they are put, what refusals carry, lists in pages. */

#include "cluster.h"
#include "unit.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/explain.pb-c.h>

#define ALLOCS (&holdfast__v1__allocations__descriptor)

/* An allocation of volume db; tests change what they are about. */
struct submission {
	Holdfast__V1__RunAllocationRequest request;
	Holdfast__V1__Allocation alloc;
	Holdfast__V1__VolumeRequest volume, *volumes[1];
	char id[UUID_TEXT_SIZE + 1], node[80], namespace[80], name[160], source[160];
};

static void make_submission(struct fixture *f, struct submission *s, const char *id, const char *node)
{
	memset(s, 0, sizeof(*s));
	holdfast__v1__run_allocation_request__init(&s->request);
	holdfast__v1__allocation__init(&s->alloc);
	holdfast__v1__volume_request__init(&s->volume);
	(void)str_copy(s->id, sizeof(s->id), id);
	(void)str_copy(s->node, sizeof(s->node), node);
	(void)str_copy(s->name, sizeof(s->name), "app");
	(void)str_copy(s->source, sizeof(s->source), "db");
	s->volume.name = "data";
	s->volume.source = s->source;
	s->volume.access_mode = f->access_mode;
	s->volumes[0] = &s->volume;
	s->alloc.id = s->id;
	s->alloc.node_id = s->node;
	s->alloc.namespace_ = s->namespace;
	s->alloc.name = s->name;
	s->alloc.volumes = s->volumes;
	s->alloc.n_volumes = 1;
	s->request.allocation = &s->alloc;
}

/* Where it was put; empty when it was refused. */
static enum status run(struct fixture *f, const struct submission *s, char ret_node[static NODE_ID_MAX + 1],
		       struct error *err)
{
	ProtobufCMessage *message = NULL;
	enum status status = call(&f->operator, ALLOCS, "Run", &s->request.base, &message, err);
	const Holdfast__V1__RunAllocationResponse *response = (const void *)message;

	ret_node[0] = '\0';
	if (status == STATUS_OK) {
		(void)str_copy(ret_node, NODE_ID_MAX + 1, response->allocation->node_id);
		protobuf_c_message_free_unpacked(message, NULL);
	}
	return status;
}

static Holdfast__V1__ErrorDetails *details(struct fixture *f)
{
	ProtobufCMessage *message =
		rpc_client_details(f->operator.client, &holdfast__v1__error_details__descriptor);

	assert_non_null(message);
	return (void *)message;
}

static void connect_both(struct fixture *f)
{
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup, teardown)

CASE(the_node_with_the_fewest_allocations_is_taken_then_the_first)
{
	static const char *const where[] = {"n1", "n2", "n1", "n2"};
	char node[NODE_ID_MAX + 1];

	f->access_mode = HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_MULTI_WRITER;
	connect_both(f);
	for (size_t i = 0; i < ARRAY_SIZE(where); i++) {
		struct submission s;

		make_submission(f, &s, "", "");
		assert_int_equal(run(f, &s, node, NULL), STATUS_OK);
		assert_string_equal(node, where[i]);
	}
	UNTIL(f, f->n1.runs == 2 && f->n2.runs == 2);
}

CLUSTER_TEST(a_dry_run_reports_where_and_changes_nothing)
{
	struct submission s;
	char node[NODE_ID_MAX + 1];
	struct error err;

	connect_both(f);
	make_submission(f, &s, ALLOC_1, "");
	s.request.dry_run = true;
	assert_int_equal(run(f, &s, node, NULL), STATUS_OK);
	assert_string_equal(node, "n1");
	assert_null(state_alloc(&f->server->state, ALLOC_1));
	settle(f);
	assert_int_equal(f->n1.runs, 0);
	(void)str_copy(s.source, sizeof(s.source), "nothing");
	assert_error(run(f, &s, node, &err), STATUS_NOT_FOUND, err, "holdfast volume register");
}

CLUSTER_TEST(the_same_submission_again_is_the_same_allocation)
{
	Holdfast__V1__Constraint constraint = V1(constraint, .attribute = (char *)"node.unique.name",
						 .value = (char *)"n1"),
				 *list[] = {&constraint};
	struct submission s;
	char node[NODE_ID_MAX + 1];

	connect_both(f);
	make_submission(f, &s, ALLOC_1, "");
	for (int i = 0; i < 2; i++) {
		assert_int_equal(run(f, &s, node, NULL), STATUS_OK);
		assert_string_equal(node, "n1");
	}
	assert_int_equal(f->server->state.n_allocs, 1);
	(void)str_copy(s.node, sizeof(s.node), "n1");
	assert_int_equal(run(f, &s, node, NULL), STATUS_OK);
	(void)str_copy(s.node, sizeof(s.node), "n2");
	assert_int_equal(run(f, &s, node, NULL), STATUS_ALREADY_EXISTS);
	make_submission(f, &s, ALLOC_1, "");
	(void)str_copy(s.name, sizeof(s.name), "other");
	assert_int_equal(run(f, &s, node, NULL), STATUS_ALREADY_EXISTS);
	make_submission(f, &s, ALLOC_1, "");
	s.alloc.constraints = list;
	s.alloc.n_constraints = 1;
	assert_int_equal(run(f, &s, node, NULL), STATUS_ALREADY_EXISTS);
}

CLUSTER_TEST(a_refusal_carries_the_claim_that_is_in_the_way)
{
	static const char *const nodes[] = {"n2", ""};

	take_volume(f);
	for (size_t i = 0; i < ARRAY_SIZE(nodes); i++) {
		cleanup_pb Holdfast__V1__ErrorDetails *why = NULL;
		struct submission s;
		char node[NODE_ID_MAX + 1];
		struct error err;

		make_submission(f, &s, ALLOC_2, nodes[i]);
		assert_error(run(f, &s, node, &err), STATUS_FAILED_PRECONDITION, err, ALLOC_1);
		why = details(f);
		assert_int_equal(why->n_claims, 1);
		assert_string_equal(why->claims[0]->allocation_id, ALLOC_1);
		assert_string_equal(why->claims[0]->next_command, "holdfast alloc status " ALLOC_1);
		assert_int_equal(why->n_nodes, nodes[i][0] == '\0' ? 2 : 0);
		for (size_t k = 0; k < why->n_nodes; k++)
			assert_non_null(strstr(why->nodes[k]->reason, "not free"));
	}
}

CLUSTER_TEST(a_refusal_reports_of_each_node_why_it_cannot)
{
	cleanup_pb Holdfast__V1__ErrorDetails *why = NULL;
	struct submission s;
	char node[NODE_ID_MAX + 1];
	struct error err;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	make_submission(f, &s, ALLOC_1, "");
	assert_error(run(f, &s, node, &err), STATUS_FAILED_PRECONDITION, err,
		     "no node offers plugin native with profile disk");
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	fake_node_disconnect(&f->n1);
	UNTIL(f, !node_is_connected(state_node(&f->server->state, "n1")));
	assert_error(run(f, &s, node, &err), STATUS_FAILED_PRECONDITION, err,
		     "1 is not connected (node n1 is not connected)");
	why = details(f);
	assert_int_equal(why->n_nodes, 1);
	assert_string_equal(why->nodes[0]->reason, "node n1 is not connected");
	assert_int_equal(why->n_claims, 0);
	make_submission(f, &s, ALLOC_1, "n1"); /* named, it waits for the node */
	assert_int_equal(run(f, &s, node, &err), STATUS_OK);
	make_submission(f, &s, ALLOC_2, "n9");
	assert_error(run(f, &s, node, &err), STATUS_NOT_FOUND, err, "n9");
}

static void no_fields(struct submission *s)
{
	s->request.allocation = NULL;
}
static void bad_id(struct submission *s)
{
	(void)str_copy(s->id, sizeof(s->id), "not-a-uuid");
}
static void bad_node(struct submission *s)
{
	(void)str_copy(s->node, sizeof(s->node), "n/1");
}
static void long_node(struct submission *s)
{
	(void)str_format(s->node, sizeof(s->node), "%064d", 1);
}
static void bad_namespace(struct submission *s)
{
	(void)str_copy(s->namespace, sizeof(s->namespace), "a b");
}
static void long_name(struct submission *s)
{
	(void)str_format(s->name, sizeof(s->name), "%0129d", 1);
}
static void no_volumes(struct submission *s)
{
	s->alloc.n_volumes = 0;
}
static void unknown_volume(struct submission *s)
{
	(void)str_copy(s->source, sizeof(s->source), "nothing");
}
static void other_namespace(struct submission *s)
{
	(void)str_copy(s->namespace, sizeof(s->namespace), "shop"); /* where there is no db */
	(void)str_copy(s->id, sizeof(s->id), "01890001-0000-7000-88d9-001d32c6a703");
}
static void id_of_another_namespace(struct submission *s)
{
	(void)str_copy(s->namespace, sizeof(s->namespace), "shop");
}
static void reader_that_writes(struct submission *s)
{
	s->volume.access_mode = HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_READER_ONLY;
}
static void device_with_propagation(struct submission *s)
{
	s->volume.attachment_mode = HOLDFAST__V1__ATTACHMENT_MODE__BLOCK_DEVICE;
	s->volume.propagation = HOLDFAST__V1__PROPAGATION__PROPAGATION_HOST_TO_TASK;
}
static void mode_that_it_has_not(struct submission *s)
{
	s->volume.access_mode = HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_MULTI_WRITER;
}
static void mode_of_no_kind(struct submission *s)
{
	s->volume.access_mode = (Holdfast__V1__AccessMode)99;
}

CASE(bad_submissions_have_their_codes_and_change_nothing)
{
	static const struct {
		void (*spoil)(struct submission *s);
		enum status status;
		const char *says;
	} cases[] = {
		{no_fields, STATUS_INVALID_ARGUMENT, "allocation"},
		{bad_id, STATUS_INVALID_ARGUMENT, "id"},
		{bad_node, STATUS_INVALID_ARGUMENT, "node"},
		{long_node, STATUS_INVALID_ARGUMENT, "node"},
		{bad_namespace, STATUS_INVALID_ARGUMENT, "namespace"},
		{long_name, STATUS_INVALID_ARGUMENT, "name"},
		{no_volumes, STATUS_INVALID_ARGUMENT, "at least one volume"},
		{unknown_volume, STATUS_NOT_FOUND, "there is no volume nothing"},
		{other_namespace, STATUS_NOT_FOUND, "in namespace shop"},
		{id_of_another_namespace, STATUS_INVALID_ARGUMENT, "these end in -88d9-001d32c6a703"},
		{reader_that_writes, STATUS_INVALID_ARGUMENT, "read_only"},
		{device_with_propagation, STATUS_INVALID_ARGUMENT, "propagation contradicts attachment_mode"},
		{mode_that_it_has_not, STATUS_FAILED_PRECONDITION, "multi-node-multi-writer"},
		{mode_of_no_kind, STATUS_INVALID_ARGUMENT, "access_mode"},
	};

	connect_both(f);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct submission s;
		struct error err;
		char node[NODE_ID_MAX + 1];

		make_submission(f, &s, ALLOC_1, i % 2 == 0 ? "n1" : "");
		cases[i].spoil(&s);
		assert_int_equal(run(f, &s, node, &err), cases[i].status);
		assert_msg(strstr(err.msg, cases[i].says), "case %zu: %s", i, err.msg);
	}
	assert_int_equal(f->server->state.n_allocs, 0);
}

CASE(nodes_neither_run_nor_stop_nor_list)
{
	static const char *const methods[] = {"Run", "Stop", "Get", "List"};
	struct submission s;

	take_volume(f);
	make_submission(f, &s, ALLOC_2, "n1");
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		Holdfast__V1__StopAllocationRequest stop = HOLDFAST__V1__STOP_ALLOCATION_REQUEST__INIT;
		Holdfast__V1__GetAllocationRequest get = HOLDFAST__V1__GET_ALLOCATION_REQUEST__INIT;
		Holdfast__V1__ListAllocationsRequest list = HOLDFAST__V1__LIST_ALLOCATIONS_REQUEST__INIT;
		const ProtobufCMessage *requests[] = {&s.request.base, &stop.base, &get.base, &list.base};

		stop.id = get.id = ALLOC_1;
		assert_int_equal(call(&f->n1, ALLOCS, methods[i], requests[i], NULL, NULL),
				 STATUS_PERMISSION_DENIED);
	}
	assert_int_equal(state_alloc(&f->server->state, ALLOC_1)->alloc.desired_status, DESIRED_RUN);
}

/* Nothing of an allocation can be stopped there, and what is known of it is old. */
CLUSTER_TEST(stop_and_get_report_since_when_the_node_is_away)
{
	Holdfast__V1__StopAllocationRequest stop = HOLDFAST__V1__STOP_ALLOCATION_REQUEST__INIT;
	Holdfast__V1__GetAllocationRequest get = HOLDFAST__V1__GET_ALLOCATION_REQUEST__INIT;
	ProtobufCMessage *answer;

	stop.id = get.id = ALLOC_1;
	take_volume(f);
	assert_int_equal(call(&f->operator, ALLOCS, "Get", &get.base, &answer, NULL), STATUS_OK);
	assert_int_equal(((Holdfast__V1__GetAllocationResponse *)(void *)answer)->node_disconnected_ms, 0);
	protobuf_c_message_free_unpacked(answer, NULL);
	fake_node_disconnect(&f->n1);
	UNTIL(f, !node_is_connected(state_node(&f->server->state, "n1")));
	assert_int_equal(call(&f->operator, ALLOCS, "Stop", &stop.base, &answer, NULL), STATUS_OK);
	assert_true(((Holdfast__V1__StopAllocationResponse *)(void *)answer)->node_disconnected_ms > 0);
	protobuf_c_message_free_unpacked(answer, NULL);
	assert_int_equal(call(&f->operator, ALLOCS, "Get", &get.base, &answer, NULL), STATUS_OK);
	assert_true(((Holdfast__V1__GetAllocationResponse *)(void *)answer)->node_disconnected_ms > 0);
	protobuf_c_message_free_unpacked(answer, NULL);
}

enum { MANY = 25 };

static void submit_many(struct fixture *f)
{
	f->access_mode = HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_MULTI_WRITER;
	connect_both(f);
	for (int i = 0; i < MANY; i++) {
		struct submission s;
		char node[NODE_ID_MAX + 1], id[UUID_TEXT_SIZE];

		(void)str_format(id, sizeof(id), "018%05d-0000-7000-" ID_MARK, i);
		make_submission(f, &s, id, i % 5 == 0 ? "n2" : "n1");
		(void)str_copy(s.name, sizeof(s.name), i % 2 == 0 ? "even" : "odd");
		assert_int_equal(run(f, &s, node, NULL), STATUS_OK);
	}
}

/* All pages; each allocation comes once and in order. */
static size_t count(struct fixture *f, Holdfast__V1__ListAllocationsRequest *request, size_t *ret_pages)
{
	static char none[] = "";
	char token[NAMESPACE_MAX + UUID_TEXT_SIZE + 1] = "", last[UUID_TEXT_SIZE] = "";
	size_t n = 0;

	*ret_pages = 0;
	do {
		Holdfast__V1__ListAllocationsResponse *response;
		cleanup_pb ProtobufCMessage *message = NULL;

		request->next_token = token;
		assert_ok(call(&f->operator, ALLOCS, "List", &request->base, &message, NULL));
		response = (void *)message;
		for (size_t i = 0; i < response->n_allocations; i++) {
			assert_true(strcmp(response->allocations[i]->id, last) > 0);
			(void)str_copy(last, sizeof(last), response->allocations[i]->id);
		}
		n += response->n_allocations;
		++*ret_pages;
		assert_true(response->index > 0);
		(void)str_copy(token, sizeof(token), response->next_token);
	} while (token[0] != '\0');
	request->next_token = none;
	return n;
}

CASE(lists_come_in_pages_that_hold_each_allocation_once)
{
	size_t pages;

	submit_many(f);
	for (uint32_t per_page = 0; per_page <= MANY + 1; per_page++) {
		Holdfast__V1__ListAllocationsRequest list =
			V1(list_allocations_request, .per_page = per_page);

		assert_int_equal(count(f, &list, &pages), MANY);
		assert_int_equal(pages, per_page == 0 ? 1 : (MANY + per_page - 1) / per_page);
		list.node_id = "n2";
		assert_int_equal(count(f, &list, &pages), 5);
		list.filter = "name == even";
		list.namespace_ = "*";
		assert_int_equal(count(f, &list, &pages), 3);
		list.node_id = "n9";
		assert_int_equal(count(f, &list, &pages), 0);
		holdfast__v1__list_allocations_request__init(&list);
		list.per_page = per_page;
		list.prefix = "0180001";
		assert_int_equal(count(f, &list, &pages), 10);
		list.namespace_ = "other";
		assert_int_equal(count(f, &list, &pages), 0);
	}
}

CASE(bad_lists_are_refused)
{
	Holdfast__V1__ListAllocationsRequest list = V1(list_allocations_request, .per_page = 5001);

	assert_int_equal(call(&f->operator, ALLOCS, "List", &list.base, NULL, NULL), STATUS_INVALID_ARGUMENT);
	list.per_page = 5000;
	assert_int_equal(call(&f->operator, ALLOCS, "List", &list.base, NULL, NULL), STATUS_OK);
	list.filter = "nonsense ==";
	assert_int_equal(call(&f->operator, ALLOCS, "List", &list.base, NULL, NULL), STATUS_INVALID_ARGUMENT);
}

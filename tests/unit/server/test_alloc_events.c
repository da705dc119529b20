/* SPDX-License-Identifier: Apache-2.0 */
/* Events of allocations over the real port: once for each change, bounded, in the store, nobody else's to
 * make. */

#include "cluster.h"
#include "unit.h"

#include "model/alloc_event.h"
#include "model/message.h"
#include "plugin/fingerprint.h"

#include <holdfast/v1/allocations.pb-c.h>

#define ALLOCS (&holdfast__v1__allocations__descriptor)
#define EVENT(name) HOLDFAST__V1__ALLOCATION_EVENT_TYPE__ALLOCATION_EVENT_TYPE_##name
#define STATE(name) HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_##name
#define EBS "ebs"

static char *text(const char *s)
{
	return TEXT(s);
}

static const struct message_list *events_of(struct fixture *f, const char *id)
{
	return state_alloc(&f->server->state, id)->alloc.events;
}

struct wanted {
	Holdfast__V1__AllocationEventType type;
	const char *text;
};

static const Holdfast__V1__AllocationEvent *event_at(const struct message_list *events, size_t i)
{
	assert_true(i < message_list_n(events));
	return (const void *)events->messages[i];
}

static void expect_event(const Holdfast__V1__AllocationEvent *event, const struct wanted *wanted, size_t i)
{
	if (event->type != wanted->type || !str_eq(event->text, wanted->text))
		fail_msg("event %zu is %d '%s', not %d '%s'", i, (int)event->type, event->text,
			 (int)wanted->type, wanted->text);
	assert_true(event->time_ms > 0);
}

static void expect_events(const struct message_list *events, const struct wanted *wanted, size_t n)
{
	for (size_t i = 0; i < n && i < message_list_n(events); i++)
		expect_event(event_at(events, i), &wanted[i], i);
	assert_int_equal(message_list_n(events), n);
}

/* As Allocations.Get shows it; owned by the caller. */
static Holdfast__V1__GetAllocationResponse *get(struct fixture *f, const char *id)
{
	Holdfast__V1__GetAllocationRequest request = V1(get_allocation_request, .id = text(id));
	Holdfast__V1__GetAllocationResponse *response = NULL;

	assert_ok(call(&f->operator, ALLOCS, "Get", &request.base, (ProtobufCMessage **)&response, NULL));
	return response;
}

static Holdfast__V1__NodeDriver *drivers[1];

/* n1 has a driver that takes any task. */
static void connect_with_driver(struct fixture *f)
{
	static Holdfast__V1__NodeDriver driver;
	static Holdfast__Driver__V1__CapabilitiesResponse capabilities;
	static Holdfast__Driver__V1__FingerprintResponse fingerprint;

	holdfast__v1__node_driver__init(&driver);
	holdfast__driver__v1__capabilities_response__init(&capabilities);
	holdfast__driver__v1__fingerprint_response__init(&fingerprint);
	driver.name = text("container");
	driver.healthy = true;
	driver.capabilities = &capabilities;
	driver.fingerprint = &fingerprint;
	drivers[0] = &driver;
	f->n1.drivers = drivers;
	f->n1.n_drivers = 1;
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
}

/* ALLOC_1 on n1 with task web on volume db. */
static void run_web(struct fixture *f)
{
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
		   .volumes = mounts, .n_volumes = 1);
	Holdfast__Driver__V1__TaskConfig *tasks[] = {&task};
	Holdfast__V1__AllocationEvent forged = V1(allocation_event, .text = text("what a caller says of it"));
	Holdfast__V1__AllocationEvent *events[] = {&forged};

	alloc.events = events;
	alloc.n_events = 1;
	alloc.id = text(ALLOC_1);
	alloc.name = text("app");
	alloc.node_id = text("n1");
	alloc.volumes = volumes;
	alloc.n_volumes = 1;
	alloc.tasks = tasks;
	alloc.n_tasks = 1;
	assert_int_equal(call(&f->operator, ALLOCS, "Run", &request.base, NULL, NULL), STATUS_OK);
	UNTIL(f, f->n1.runs == 1);
}

/* What n1 says of ALLOC_1 in one status. */
struct says {
	Holdfast__V1__ClientStatus client;
	const char *description;
	const char *claim; /* of the volume that is published; NULL: none is */
	Holdfast__Driver__V1__TaskState task;
	uint32_t restarts;
	int exit_code;
};

static void say(struct fixture *f, struct says says)
{
	Holdfast__V1__AllocStatus status = HOLDFAST__V1__ALLOC_STATUS__INIT;
	Holdfast__V1__SessionUp up =
		V1(session_up, .message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_ALLOC, .alloc = &status);
	Holdfast__V1__AllocVolume volume = V1(alloc_volume, .name = text("data"), .path = text("/stage/db"),
					      .claim_id = text(says.claim ? says.claim : ""));
	Holdfast__V1__AllocVolume *volumes[] = {&volume};
	Holdfast__Driver__V1__TaskStatus task = HOLDFAST__DRIVER__V1__TASK_STATUS__INIT;
	Holdfast__Driver__V1__TaskStatus *tasks[] = {&task};
	Holdfast__Driver__V1__ExitResult result =
		PB(holdfast__driver__v1__exit_result, .exit_code = says.exit_code);

	task.alloc_id = text(ALLOC_1);
	task.task = text("web");
	task.state = says.task;
	task.restarts = says.restarts;
	task.result = says.task == STATE(EXITED) ? &result : NULL;
	status.alloc_id = text(ALLOC_1);
	status.client_status = says.client;
	status.description = text(says.description ? says.description : "");
	status.published = volumes;
	status.n_published = says.claim ? 1 : 0;
	status.tasks = tasks;
	status.n_tasks = says.task != STATE(UNSPECIFIED) ? 1 : 0;
	fake_node_send(&f->n1, &up);
	settle(f);
}

/* Its claim is made and its volume mounted. */
static void claim_db(struct fixture *f, struct claim *ret)
{
	assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_1, NULL, NULL), STATUS_OK);
	*ret = claim_of(f, ALLOC_1);
	fake_node_send_mounted(&f->n1, ret);
	settle(f);
}

#define CLIENT(name) HOLDFAST__V1__CLIENT_STATUS__##name

static void run_and_mount(struct fixture *f, struct claim *ret)
{
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	connect_with_driver(f);
	run_web(f);
	claim_db(f, ret);
	say(f, (struct says){.client = CLIENT(RUNNING), .claim = ret->id, .task = STATE(RUNNING)});
}

static const struct wanted begins[] = {
	{EVENT(RECEIVED), ""},	   {EVENT(PLACED), "n1"}, {EVENT(MOUNTED), "data"},
	{EVENT(TASK_STARTED), ""}, {EVENT(RUNNING), ""},
};

CLUSTER_TEST(each_change_of_an_allocation_is_an_event_once)
{
	static const struct wanted ends[] = {
		{EVENT(RECEIVED), ""},	  {EVENT(PLACED), "n1"},
		{EVENT(MOUNTED), "data"}, {EVENT(TASK_STARTED), ""},
		{EVENT(RUNNING), ""},	  {EVENT(TASK_RESTARTED), "1 times in all"},
		{EVENT(STOPPING), ""},	  {EVENT(TASK_ENDED), "exit status 3"},
		{EVENT(UNMOUNTED), ""},	  {EVENT(COMPLETE), "stopped"},
	};
	cleanup_pb Holdfast__V1__GetAllocationResponse *shown = NULL;
	struct claim claim;

	run_and_mount(f, &claim);
	expect_events(events_of(f, ALLOC_1), begins, ARRAY_SIZE(begins));
	say(f, (struct says){CLIENT(RUNNING), NULL, claim.id, STATE(RUNNING), .restarts = 1});
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	say(f, (struct says){CLIENT(RUNNING), NULL, claim.id, STATE(EXITED), .restarts = 1, .exit_code = 3});
	say(f,
	    (struct says){CLIENT(COMPLETE), "stopped", NULL, STATE(EXITED), .restarts = 1, .exit_code = 3});
	expect_events(events_of(f, ALLOC_1), ends, ARRAY_SIZE(ends));
	shown = get(f, ALLOC_1);
	assert_int_equal(shown->allocation->n_events, ARRAY_SIZE(ends));
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		expect_event(shown->allocation->events[i], &ends[i], i);
}

CLUSTER_TEST(a_repeated_report_is_no_event)
{
	struct claim claim;
	uint64_t index;

	run_and_mount(f, &claim);
	index = state_alloc(&f->server->state, ALLOC_1)->alloc.modify_index;
	for (int i = 0; i < 3; i++)
		say(f, (struct says){.client = CLIENT(RUNNING), .claim = claim.id, .task = STATE(RUNNING)});
	expect_events(events_of(f, ALLOC_1), begins, ARRAY_SIZE(begins));
	assert_int_equal(state_alloc(&f->server->state, ALLOC_1)->alloc.modify_index, index);
}

CLUSTER_TEST(events_are_bounded_and_outlive_the_server)
{
	struct wanted restarts[ALLOC_EVENTS_MAX];
	char words[ALLOC_EVENTS_MAX][32];
	struct claim claim;

	run_and_mount(f, &claim);
	for (uint32_t i = 1; i <= 2 * ALLOC_EVENTS_MAX; i++)
		say(f, (struct says){CLIENT(RUNNING), NULL, claim.id, STATE(RUNNING), .restarts = i});
	for (int i = 0; i < ALLOC_EVENTS_MAX; i++) {
		(void)str_format(words[i], sizeof(words[i]), "%d times in all", ALLOC_EVENTS_MAX + 1 + i);
		restarts[i] = (struct wanted){EVENT(TASK_RESTARTED), words[i]};
	}
	expect_events(events_of(f, ALLOC_1), restarts, ALLOC_EVENTS_MAX);
	restart(f);
	expect_events(events_of(f, ALLOC_1), restarts, ALLOC_EVENTS_MAX);
}

CLUSTER_TEST(a_reboot_marks_running_work_lost)
{
	const struct message_list *events;
	struct claim claim;

	run_and_mount(f, &claim);
	fake_node_disconnect(&f->n1);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	settle(f);
	events = events_of(f, ALLOC_1);
	assert_int_equal(message_list_n(events), ARRAY_SIZE(begins) + 1);
	expect_event(event_at(events, ARRAY_SIZE(begins)),
		     &(struct wanted){EVENT(LOST), "the node was rebooted"}, 0);
}

/* The server's store may be older than the node's boot. */
CLUSTER_TEST(work_that_a_node_has_in_its_new_boot_is_stopped)
{
	Holdfast__V1__AllocStatus status = HOLDFAST__V1__ALLOC_STATUS__INIT, *list = &status;
	struct claim claim;

	run_and_mount(f, &claim);
	fake_node_disconnect(&f->n1);
	status.alloc_id = text(ALLOC_1);
	status.client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING;
	fake_node_connect(&f->n1, "n1", BOOT_2, &list, 1);
	settle(f);
	assert_int_equal(state_alloc(&f->server->state, ALLOC_1)->alloc.client_status, CLIENT_LOST);
	assert_int_equal(f->n1.stops, 1);
	assert_string_equal(f->n1.last_stop, ALLOC_1);
}

/* ---- plugins ---- */

static struct {
	Holdfast__V1__NodePlugin plugin, *list[1];
	Holdfast__V1__NodeHalf node;
	Holdfast__V1__ControllerHalf controller;
} said;

/* n1 has plugin EBS, run by @alloc, with both halves. */
static void send_plugin(struct fixture *f, const char *alloc, bool node, bool controller, const char *why)
{
	holdfast__v1__node_plugin__init(&said.plugin);
	holdfast__v1__node_half__init(&said.node);
	holdfast__v1__controller_half__init(&said.controller);
	said.plugin.plugin_id = text(EBS);
	said.plugin.allocation_id = text(alloc);
	said.plugin.healthy = node;
	said.plugin.health_description = text(node ? "" : why);
	said.plugin.node = &said.node;
	said.plugin.controller = &said.controller;
	said.controller.healthy = controller;
	said.controller.health_description = text(controller ? "" : why);
	said.list[0] = &said.plugin;
	f->n1.plugins = said.list;
	f->n1.n_plugins = 1;
	fake_node_send_fingerprint(&f->n1);
	settle(f);
}

static void run_plugin(struct fixture *f, const char *id, const char *node, const char *plugin)
{
	Holdfast__V1__Allocation alloc = HOLDFAST__V1__ALLOCATION__INIT;
	Holdfast__V1__RunAllocationRequest request = V1(run_allocation_request, .allocation = &alloc);
	Holdfast__V1__CsiPlugin runs = V1(csi_plugin, .id = text(plugin),
					  .type = HOLDFAST__V1__CSI_PLUGIN_TYPE__CSI_PLUGIN_TYPE_MONOLITH);

	alloc.id = text(id);
	alloc.name = text("plugin");
	alloc.node_id = text(node);
	alloc.csi_plugins = (Holdfast__V1__CsiPlugin *[]){&runs};
	alloc.n_csi_plugins = 1;
	assert_int_equal(call(&f->operator, ALLOCS, "Run", &request.base, NULL, NULL), STATUS_OK);
}

static const struct wanted healths[] = {
	{EVENT(PLUGIN_HEALTHY), "ebs"},
	{EVENT(PLUGIN_UNHEALTHY), "ebs: no answer"},
	{EVENT(PLUGIN_HEALTHY), "ebs"},
};

static void have_healths(struct fixture *f, const char *alloc)
{
	send_plugin(f, alloc, true, true, "");
	send_plugin(f, alloc, true, false, "no answer");
	send_plugin(f, alloc, true, false, "no answer still");
	send_plugin(f, alloc, false, false, "no answer");
	send_plugin(f, alloc, true, true, "");
}

CLUSTER_TEST(plugin_health_events_belong_to_the_allocation_and_persist)
{
	struct wanted wanted[2 + ARRAY_SIZE(healths)] = {{EVENT(RECEIVED), ""}, {EVENT(PLACED), "n1"}};

	memcpy(wanted + 2, healths, sizeof(healths));
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	run_plugin(f, ALLOC_1, "n1", EBS);
	have_healths(f, ALLOC_1);
	expect_events(events_of(f, ALLOC_1), wanted, ARRAY_SIZE(wanted));
	restart(f);
	f->n1.plugins = said.list;
	f->n1.n_plugins = 1;
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0); /* and says the same */
	expect_events(events_of(f, ALLOC_1), wanted, ARRAY_SIZE(wanted));
}

CLUSTER_TEST(a_node_makes_no_events_of_allocations_that_do_not_run_its_plugin)
{
	take_volume(f);
	run_plugin(f, ALLOC_2, "n2", EBS);
	have_healths(f, ALLOC_2);
	have_healths(f, ALLOC_1);
	expect_events(events_of(f, ALLOC_2),
		      (const struct wanted[]){{EVENT(RECEIVED), ""}, {EVENT(PLACED), "n2"}}, 2);
	for (size_t i = 0; i < message_list_n(events_of(f, ALLOC_1)); i++)
		assert_false(event_at(events_of(f, ALLOC_1), i)->type == EVENT(PLUGIN_HEALTHY) ||
			     event_at(events_of(f, ALLOC_1), i)->type == EVENT(PLUGIN_UNHEALTHY));
}

CLUSTER_TEST(drivers_that_take_much_more_memory_than_bytes_are_not_kept)
{
	static Holdfast__Driver__V1__KeyValue *attributes[NODE_DRIVER_BYTES_MAX / 2 - 100];
	Holdfast__Driver__V1__KeyValue attribute = PB(holdfast__driver__v1__key_value, .key = "");

	connect_with_driver(f);
	for (size_t i = 0; i < ARRAY_SIZE(attributes); i++)
		attributes[i] = &attribute;
	drivers[0]->fingerprint->attributes = attributes;
	drivers[0]->fingerprint->n_attributes = ARRAY_SIZE(attributes);
	fake_node_send_fingerprint(&f->n1);
	UNTIL(f, f->n1.closed);
	assert_non_null(strstr(f->n1.closed_message, "of memory"));
	assert_in_range(message_list_bytes(state_node(&f->server->state, "n1")->drivers), 1, 4096);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What can keep an allocation from a node, one by one and in order, and what must not. */

#include "fixture.h"

#include "model/feasibility.h"

enum { VOLUMES = 3, SEGMENTS = 4 };

/* Node n1 that can take allocation 1 with one volume "db"; tests break one thing. */
struct world {
	struct node node;
	struct node_plugin plugin;
	struct volume volumes[VOLUMES];
	struct volume_request requests[VOLUMES];
	struct claim claim;
	const struct claim *claims[1];
	Holdfast__V1__Topology topology;
	Holdfast__V1__Topology__SegmentsEntry entries[SEGMENTS], *segments[SEGMENTS];
	Holdfast__V1__Topology *topologies[1];
	struct wanted_volume wanted[VOLUMES];
	Holdfast__Driver__V1__TaskConfig task;
	Holdfast__Driver__V1__RestartPolicy restart;
	Holdfast__Driver__V1__HealthCheck health;
	Holdfast__Driver__V1__VolumeMount mount, *mounts[1];
	Holdfast__V1__NodeDriver driver;
	Holdfast__Driver__V1__ConfigValue values[3], *config[3];
	Holdfast__Driver__V1__CapabilitiesResponse offer;
	Holdfast__Driver__V1__NetworkMode network;
	struct wanted_task two_tasks[2], wanted_task;
	struct feasibility in;
};

static void want(struct world *w, size_t i, const char *id)
{
	w->volumes[i] = a_volume();
	assert_int_equal(str_copy(w->volumes[i].id, sizeof(w->volumes[i].id), id), 0);
	w->requests[i] = an_alloc(ALLOC_1, "n1").volumes[0];
	w->wanted[i] = (struct wanted_volume)ROW(.volume = &w->volumes[i], .request = &w->requests[i],
						 .plugin = &w->plugin, .topologies = w->topologies,
						 .claims = w->claims);
}

static void make_world(struct world *w)
{
	memset(w, 0, sizeof(*w));
	w->node = a_node("n1");
	w->plugin = a_node_plugin();
	w->claim = a_claim(CLAIM_TAKEN);
	w->claims[0] = &w->claim;
	holdfast__v1__topology__init(&w->topology);
	holdfast__driver__v1__restart_policy__init(&w->restart);
	holdfast__driver__v1__health_check__init(&w->health);
	w->topology.segments = w->segments;
	w->topologies[0] = &w->topology;
	want(w, 0, "db");
	w->in = (struct feasibility)ROW(.node = &w->node, .node_id = "n1", .is_connected = true,
					.volumes = w->wanted, .n_volumes = 1);
}

/* And runs task web by driver container, which is healthy and offers network none. */
static void want_task(struct world *w)
{
	holdfast__driver__v1__task_config__init(&w->task);
	holdfast__driver__v1__volume_mount__init(&w->mount);
	holdfast__v1__node_driver__init(&w->driver);
	holdfast__driver__v1__capabilities_response__init(&w->offer);
	w->task.task = "web";
	w->task.driver = "container";
	w->mounts[0] = &w->mount;
	w->task.volumes = w->mounts;
	w->task.n_volumes = 1;
	w->driver.name = "container";
	w->driver.healthy = true;
	w->driver.capabilities = &w->offer;
	w->network = HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_NONE;
	w->offer.network_modes = &w->network;
	w->offer.n_network_modes = 1;
	w->wanted_task = (struct wanted_task){&w->task, &w->driver, NULL};
	w->in.tasks = &w->wanted_task;
	w->in.n_tasks = 1;
}

static void no_driver(struct world *w)
{
	want_task(w);
	w->wanted_task.driver = NULL;
}

#define LIT(text) ((char *)(uintptr_t)(text)) /* protobuf-c only lacks the const */

/* Root allows user 1000 only, images of one registry, and capability CAP_CHOWN. */
static void want_limited_task(struct world *w)
{
	static char *users[] = {LIT("1000")}, *images[] = {LIT("registry/web:*")};
	static char *capabilities[] = {LIT("CAP_CHOWN")};
	static Holdfast__Driver__V1__FieldLimit limits[3], *list[] = {&limits[0], &limits[1], &limits[2]};

	want_task(w);
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		holdfast__driver__v1__field_limit__init(&limits[i]);
		limits[i].n_allowed = 1;
		limits[i].field = (char *[]){LIT("user"), LIT("config.image"), LIT("config.cap_add")}[i];
		limits[i].allowed = (char **[]){users, images, capabilities}[i];
		holdfast__driver__v1__config_value__init(&w->values[i]);
		w->config[i] = &w->values[i];
	}
	w->offer.limits = list;
	w->offer.n_limits = ARRAY_SIZE(limits);
	w->task.user = users[0];
	w->values[0].key = LIT("image");
	w->values[0].text = LIT("registry/web:7");
	w->values[1].key = LIT("cap_add");
	w->values[1].list = capabilities;
	w->values[1].n_list = 1;
	w->task.config = w->config;
	w->task.n_config = 2;
}

static void forbidden_user(struct world *w)
{
	want_limited_task(w);
	w->task.user = LIT("");
}

static void forbidden_image(struct world *w)
{
	want_limited_task(w);
	w->values[0].text = LIT("elsewhere/web:7");
}

static void forbidden_capability(struct world *w)
{
	static char *capabilities[] = {LIT("CAP_CHOWN"), LIT("CAP_SYS_ADMIN")};

	want_limited_task(w);
	w->values[1].list = capabilities;
	w->values[1].n_list = 2;
}

static void sick_driver(struct world *w)
{
	want_task(w);
	w->driver.healthy = false;
	w->driver.health_description = "the engine is away";
}

static void mute_driver(struct world *w)
{
	want_task(w);
	w->driver.capabilities = NULL;
}

static void other_network(struct world *w)
{
	want_task(w);
	w->task.network = HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_ISOLATED;
}

static void network_of_all_tasks(struct world *w)
{
	want_task(w);
	w->in.network = NETWORK_HOST;
}

/* One network, and each of two drivers must make it. */
static void two_makers(struct world *w)
{
	static Holdfast__Driver__V1__TaskConfig other = HOLDFAST__DRIVER__V1__TASK_CONFIG__INIT;

	want_task(w);
	other.task = "side";
	other.driver = "machine";
	w->network = HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_ISOLATED;
	w->offer.must_initiate_network = true;
	w->two_tasks[0] = w->wanted_task;
	w->two_tasks[1] = (struct wanted_task){&other, &w->driver, NULL};
	w->in.tasks = w->two_tasks;
	w->in.n_tasks = 2;
	w->in.network = NETWORK_ISOLATED;
}

static void propagation_of_a_mount(struct world *w)
{
	want_task(w);
	w->mount.propagation = HOLDFAST__DRIVER__V1__MOUNT_PROPAGATION__MOUNT_PROPAGATION_BIDIRECTIONAL;
}

static void no_logs(struct world *w)
{
	want_task(w);
	w->task.disable_logs = true;
}

static void restarts(struct world *w)
{
	want_task(w);
	w->restart.mode = HOLDFAST__DRIVER__V1__RESTART_MODE__RESTART_MODE_FAIL;
	w->restart.attempts = 2;
	w->task.restart = &w->restart;
}

static void health_check(struct world *w)
{
	want_task(w);
	w->task.health = &w->health;
}

/* The volume's topology needs @key = @value, too. */
static void need_segment(struct world *w, char *key, char *value)
{
	size_t i = w->topology.n_segments++;

	holdfast__v1__topology__segments_entry__init(&w->entries[i]);
	w->entries[i].key = key;
	w->entries[i].value = value;
	w->segments[i] = &w->entries[i];
	w->wanted[0].n_topologies = 1;
}

static void have_segment(struct world *w, const char *key, const char *value)
{
	struct topology_segment *s = &w->plugin.node.topology.segments[w->plugin.node.topology.n_segments++];

	assert_int_equal(str_copy(s->key, sizeof(s->key), key), 0);
	assert_int_equal(str_copy(s->value, sizeof(s->value), value), 0);
}

static void no_node(struct world *w)
{
	w->in.node = NULL;
}

static void never_connected(struct world *w)
{
	w->node.boot_id[0] = '\0';
}

static void disconnected(struct world *w)
{
	w->in.is_connected = false;
}

static void draining(struct world *w)
{
	w->node.drain = (struct drain){.started_ms = 1, .reason = "kernel update"};
}

static void status_draining(struct world *w)
{
	w->node.status = NODE_DRAINING;
}

static void ineligible(struct world *w)
{
	w->node.ineligible = true;
	(void)str_copy(w->node.eligibility_reason, sizeof(w->node.eligibility_reason), "bad memory");
}

static void unmet(struct world *w)
{
	w->in.unmet = "meta.rack = r1";
}

static void full_disk(struct world *w)
{
	(void)str_copy(w->node.disk_trouble, sizeof(w->node.disk_trouble), "read-only");
	(void)str_copy(w->node.disk_path, sizeof(w->node.disk_path), "/x");
}

static void full_agent(struct world *w)
{
	w->in.n_allocs = NODE_ALLOCS_MAX;
}

static void no_plugin(struct world *w)
{
	w->wanted[0].plugin = NULL;
}

static void controller_only(struct world *w)
{
	w->plugin.has_node = false;
}

static void unhealthy(struct world *w)
{
	w->plugin.healthy = false;
	(void)str_copy(w->plugin.health_description, sizeof(w->plugin.health_description), "probe failed");
}

static void no_controller(struct world *w)
{
	w->wanted[0].controller_required = true;
}

static void other_zone(struct world *w)
{
	static char key[] = "zone", value[] = "a";

	need_segment(w, key, value);
	have_segment(w, "zone", "b");
}

static void no_zone(struct world *w)
{
	static char key[] = "zone", value[] = "a";

	need_segment(w, key, value);
	have_segment(w, "rack", "7");
}

static void full(struct world *w)
{
	w->plugin.node.max_volumes = 4;
	w->wanted[0].others = 4;
}

static void no_capability(struct world *w)
{
	w->requests[0].access_mode = MULTI_NODE_MULTI_WRITER;
}

static void other_attachment(struct world *w)
{
	w->wanted[0].n_claims = 1;
	w->claim.attachment_mode = ATTACHMENT_BLOCK_DEVICE;
}

static void held_elsewhere(struct world *w)
{
	w->wanted[0].n_claims = 1;
}

static void without_provider_id(struct world *w)
{
	w->wanted[0].lacks_provider_id = true;
}

static void fenced(struct world *w)
{
	w->wanted[0].is_fenced = true;
}

static const struct {
	void (*breaks)(struct world *w);
	enum obstacle obstacle;
	enum status status;
	const char *says[3];
} obstacles[] = {
	{no_node, OBSTACLE_UNKNOWN, STATUS_NOT_FOUND, {"n1", "never connected", "holdfast node status"}},
	{never_connected, OBSTACLE_UNKNOWN, STATUS_NOT_FOUND, {"never connected"}},
	{disconnected, OBSTACLE_DISCONNECTED, STATUS_FAILED_PRECONDITION, {"node n1 is not connected"}},
	{draining, OBSTACLE_DRAINING, STATUS_FAILED_PRECONDITION, {"being drained: kernel update"}},
	{status_draining, OBSTACLE_DRAINING, STATUS_FAILED_PRECONDITION, {"being drained"}},
	{ineligible, OBSTACLE_INELIGIBLE, STATUS_FAILED_PRECONDITION, {"takes nothing new: bad memory"}},
	{full_disk,
	 OBSTACLE_DISK,
	 STATUS_RESOURCE_EXHAUSTED,
	 {"takes nothing new: its disk is read-only: /x"}},
	{full_agent, OBSTACLE_MAX_ALLOCS, STATUS_RESOURCE_EXHAUSTED, {"node n1 has 1024 allocations"}},
	{unmet, OBSTACLE_CONSTRAINT, STATUS_FAILED_PRECONDITION, {"node n1 does not meet: meta.rack = r1"}},
	ROW(no_driver, OBSTACLE_NO_DRIVER, STATUS_UNAVAILABLE,
	    {"task web needs driver container, which node n1 does not have", "holdfast node status n1"}),
	ROW(sick_driver, OBSTACLE_DRIVER_UNHEALTHY, STATUS_UNAVAILABLE,
	    {"driver container of node n1 is not healthy: the engine is away"}),
	{mute_driver, OBSTACLE_DRIVER_UNHEALTHY, STATUS_UNAVAILABLE, {"is not healthy"}},
	ROW(network_of_all_tasks, OBSTACLE_DRIVER_LACKS, STATUS_FAILED_PRECONDITION,
	    {"task web asks for network host, which driver container of node n1 does not offer"}),
	ROW(two_makers, OBSTACLE_DRIVER_LACKS, STATUS_FAILED_PRECONDITION,
	    {"network isolated: the tasks have two drivers on node n1 that must make it themselves"}),
	ROW(other_network, OBSTACLE_DRIVER_LACKS, STATUS_FAILED_PRECONDITION,
	    {"task web asks for network isolated, which driver container of node n1 does not offer"}),
	ROW(propagation_of_a_mount, OBSTACLE_DRIVER_LACKS, STATUS_FAILED_PRECONDITION,
	    {"asks for propagation bidirectional"}),
	ROW(forbidden_user, OBSTACLE_DRIVER_LACKS, STATUS_FAILED_PRECONDITION,
	    {"task web asks for no user, which root's file of driver container on node n1 does not allow"}),
	ROW(forbidden_image, OBSTACLE_DRIVER_LACKS, STATUS_FAILED_PRECONDITION,
	    {"task web asks for config.image 'elsewhere/web:7', which root's file of driver container"}),
	ROW(forbidden_capability, OBSTACLE_DRIVER_LACKS, STATUS_FAILED_PRECONDITION,
	    {"task web asks for config.cap_add 'CAP_SYS_ADMIN'"}),
	{no_logs, OBSTACLE_DRIVER_LACKS, STATUS_FAILED_PRECONDITION, {"asks for disable_logs"}},
	{restarts, OBSTACLE_DRIVER_LACKS, STATUS_FAILED_PRECONDITION, {"asks for restart"}},
	{health_check, OBSTACLE_DRIVER_LACKS, STATUS_FAILED_PRECONDITION, {"asks for health"}},
	ROW(no_plugin, OBSTACLE_NO_PLUGIN, STATUS_UNAVAILABLE,
	    {"volume db", "node n1 does not offer plugin native with profile disk"}),
	{controller_only, OBSTACLE_NO_PLUGIN, STATUS_UNAVAILABLE, {"does not offer"}},
	{unhealthy, OBSTACLE_UNHEALTHY, STATUS_UNAVAILABLE, {"not healthy: probe failed"}},
	{no_controller, OBSTACLE_NO_CONTROLLER, STATUS_UNAVAILABLE, {"healthy controller of plugin native"}},
	ROW(without_provider_id, OBSTACLE_NO_PROVIDER_ID, STATUS_UNAVAILABLE,
	    {"plugin native reports no provider's id of node n1"}),
	ROW(fenced, OBSTACLE_FENCED, STATUS_FAILED_PRECONDITION,
	    {"refuses node n1, which was fenced", "A reboot of node n1"}),
	ROW(other_zone, OBSTACLE_TOPOLOGY, STATUS_FAILED_PRECONDITION,
	    {"zone = a is needed and the node has b"}),
	{no_zone, OBSTACLE_TOPOLOGY, STATUS_FAILED_PRECONDITION, {"the node has no such segment"}},
	ROW(full, OBSTACLE_MAX_VOLUMES, STATUS_RESOURCE_EXHAUSTED,
	    {"takes 4 volumes", "4 others", "1 are asked"}),
	{no_capability, OBSTACLE_MODE, STATUS_FAILED_PRECONDITION, {"multi-node-multi-writer/file-system"}},
	{other_attachment, OBSTACLE_CLAIMED, STATUS_FAILED_PRECONDITION, {"attached as block-device"}},
	{held_elsewhere, OBSTACLE_CLAIMED, STATUS_FAILED_PRECONDITION, {ALLOC_1, "node n1", "claim taken"}},
};

TEST(a_fitting_node_has_no_obstacle)
{
	struct world w;
	char reason[FEASIBILITY_REASON_SIZE] = "stale";

	make_world(&w);
	assert_int_equal(feasibility_check(&w.in, reason), OBSTACLE_NONE);
	assert_string_equal(reason, "");
	want_task(&w);
	w.task.network = w.network;
	assert_int_equal(feasibility_check(&w.in, reason), OBSTACLE_NONE);
	w.wanted_task.driver = NULL; /* of a node that is away it may not be known */
	w.in.is_connected = false;
	w.in.may_wait = true;
	assert_int_equal(feasibility_check(&w.in, reason), OBSTACLE_NONE);
}

TEST(each_obstacle_names_need_and_supply)
{
	for (size_t i = 0; i < ARRAY_SIZE(obstacles); i++) {
		char reason[FEASIBILITY_REASON_SIZE];
		struct world w;
		enum obstacle found;

		make_world(&w);
		obstacles[i].breaks(&w);
		found = feasibility_check(&w.in, reason);
		if (found != obstacles[i].obstacle || obstacle_status(found) != obstacles[i].status)
			fail_msg("case %zu: %s: %s", i, obstacle_words(found), reason);
		for (size_t k = 0; k < ARRAY_SIZE(obstacles[i].says) && obstacles[i].says[k]; k++)
			if (!strstr(reason, obstacles[i].says[k]))
				fail_msg("case %zu: '%s' is not in: %s", i, obstacles[i].says[k], reason);
	}
}

TEST(the_driver_that_must_makes_the_network)
{
	struct world w;
	char reason[FEASIBILITY_REASON_SIZE];
	Holdfast__V1__NodeDriver polite;
	Holdfast__Driver__V1__CapabilitiesResponse offer;

	make_world(&w);
	two_makers(&w);
	assert_null(feasibility_network_driver(w.two_tasks, 2));
	assert_string_equal(feasibility_network_driver(w.two_tasks, 1), "container");
	offer = w.offer;
	offer.must_initiate_network = false;
	polite = w.driver;
	polite.capabilities = &offer;
	w.two_tasks[0].driver = &polite;
	assert_string_equal(feasibility_network_driver(w.two_tasks, 2), "machine");
	assert_int_equal(feasibility_check(&w.in, reason), OBSTACLE_NONE);
	w.two_tasks[1].driver = &polite;
	assert_string_equal(feasibility_network_driver(w.two_tasks, 2), "container");
}

/* So that the reason that is given is the one to deal with first. */
TEST(of_two_obstacles_the_first_in_order_is_named)
{
	for (size_t i = 0; i < ARRAY_SIZE(obstacles); i++)
		for (size_t k = i; k < ARRAY_SIZE(obstacles); k++) {
			char reason[FEASIBILITY_REASON_SIZE];
			struct world w;

			if (obstacles[i].breaks == other_zone && obstacles[k].breaks == no_zone)
				continue; /* the same segment twice */
			make_world(&w);
			obstacles[k].breaks(&w);
			if (k != i)
				obstacles[i].breaks(&w);
			assert_int_equal(feasibility_check(&w.in, reason), obstacles[i].obstacle);
		}
}

TEST(a_node_that_was_named_may_be_away)
{
	struct world w;
	char reason[FEASIBILITY_REASON_SIZE];

	make_world(&w);
	w.in.is_connected = false;
	w.in.may_wait = true;
	assert_int_equal(feasibility_check(&w.in, reason), OBSTACLE_NONE);
	w.node.ineligible = true;
	assert_int_equal(feasibility_check(&w.in, reason), OBSTACLE_INELIGIBLE);
}

TEST(a_plugin_of_a_named_node_that_just_failed_is_waited_for)
{
	struct world w;
	char reason[FEASIBILITY_REASON_SIZE];

	make_world(&w);
	unhealthy(&w);
	w.plugin.update_time_ms = 1000;
	w.in.now_ms = 1000 + PLUGIN_PATIENCE_MS - 1;
	assert_int_equal(feasibility_check(&w.in, reason), OBSTACLE_UNHEALTHY); /* others may be better */
	w.in.may_wait = true;
	assert_int_equal(feasibility_check(&w.in, reason), OBSTACLE_NONE);
	w.in.now_ms++;
	assert_int_equal(feasibility_check(&w.in, reason), OBSTACLE_UNHEALTHY);
}

TEST(a_finished_drain_is_no_obstacle)
{
	struct world w;
	char reason[FEASIBILITY_REASON_SIZE];

	make_world(&w);
	w.node.drain = (struct drain){.started_ms = 1, .done_ms = 2};
	assert_int_equal(feasibility_check(&w.in, reason), OBSTACLE_NONE);
}

TEST(segments_that_the_volume_does_not_name_are_information)
{
	static char zone[] = "zone", a[] = "a", rack[] = "rack", seven[] = "7";
	struct world w;
	char reason[FEASIBILITY_REASON_SIZE];

	make_world(&w);
	need_segment(&w, zone, a);
	have_segment(&w, "rack", "7");
	have_segment(&w, "zone", "a");
	assert_int_equal(feasibility_check(&w.in, reason), OBSTACLE_NONE);
	need_segment(&w, rack, seven); /* all that it names must be equal */
	assert_int_equal(feasibility_check(&w.in, reason), OBSTACLE_NONE);
	w.plugin.node.topology.segments[0].value[0] = '8';
	assert_int_equal(feasibility_check(&w.in, reason), OBSTACLE_TOPOLOGY);
	assert_non_null(strstr(reason, "rack = 7 is needed and the node has 8"));
}

TEST(any_one_of_the_topologies_is_enough)
{
	Holdfast__V1__Topology__SegmentsEntry entries[2] = {HOLDFAST__V1__TOPOLOGY__SEGMENTS_ENTRY__INIT,
							    HOLDFAST__V1__TOPOLOGY__SEGMENTS_ENTRY__INIT};
	Holdfast__V1__Topology__SegmentsEntry *first[] = {&entries[0]}, *second[] = {&entries[1]};
	Holdfast__V1__Topology topologies[2] = {HOLDFAST__V1__TOPOLOGY__INIT, HOLDFAST__V1__TOPOLOGY__INIT};
	Holdfast__V1__Topology *list[] = {&topologies[0], &topologies[1]};
	struct topology have = {.segments = {{"zone", "b"}}, .n_segments = 1};
	char missing[128];

	entries[0].key = entries[1].key = "zone";
	entries[0].value = "a";
	entries[1].value = "b";
	topologies[0].segments = first;
	topologies[1].segments = second;
	topologies[0].n_segments = topologies[1].n_segments = 1;
	assert_true(topology_matches(&have, list, 2, missing, sizeof(missing)));
	assert_false(topology_matches(&have, list, 1, NULL, 0));
	assert_true(topology_matches(&have, list, 0, NULL, 0));
	have.n_segments = 0;
	assert_false(topology_matches(&have, list, 2, missing, sizeof(missing)));
	assert_string_equal(missing,
			    "zone = a is needed and the node has no such segment (nor one of 1 other "
			    "topologies)");
	have = (struct topology){.segments = {{"zone", "x; y. Next: z"}}, .n_segments = 1};
	assert_false(topology_matches(&have, list, 1, missing, sizeof(missing)));
	assert_null(strstr(missing, "; "));
	assert_null(strstr(missing, "Next: "));
}

/* D16: two volumes do not pass a limit of one because each alone would. */
TEST(all_volumes_of_the_request_count_against_the_limit)
{
	for (uint32_t others = 0; others <= 3; others++)
		for (size_t n = 1; n <= VOLUMES; n++)
			for (int64_t max = 0; max <= 6; max++) {
				char reason[FEASIBILITY_REASON_SIZE];
				struct world w;
				bool fits = max == 0 || (int64_t)(others + n) <= max;

				make_world(&w);
				want(&w, 1, "logs");
				want(&w, 2, "cache");
				w.plugin.node.max_volumes = max;
				w.in.n_volumes = n;
				for (size_t i = 0; i < n; i++)
					w.wanted[i].others = others;
				assert_int_equal(feasibility_check(&w.in, reason),
						 fits ? OBSTACLE_NONE : OBSTACLE_MAX_VOLUMES);
			}
}

TEST(volumes_of_another_plugin_do_not_count)
{
	char reason[FEASIBILITY_REASON_SIZE];
	struct node_plugin other;
	struct world w;

	make_world(&w);
	want(&w, 1, "logs");
	other = w.plugin;
	(void)str_copy(w.volumes[1].plugin_id, sizeof(w.volumes[1].plugin_id), "ceph");
	w.wanted[1].plugin = &other;
	w.plugin.node.max_volumes = 1;
	w.in.n_volumes = 2;
	assert_int_equal(feasibility_check(&w.in, reason), OBSTACLE_NONE);
}

/* D13: names that repeat or are missing end no count early. */
TEST(different_volumes_are_counted_once_whatever_their_order)
{
	struct volume_name names[] = {{"a", "db"}, {"b", "db"}, {"a", "db"},   {"a", "logs"},
				      {"b", "db"}, {"a", "db"}, {"a", "logs1"}};

	assert_int_equal(volume_names_count(names, ARRAY_SIZE(names)), 4);
	assert_int_equal(volume_names_count(names, 1), 1);
	assert_int_equal(volume_names_count(names, 0), 0);
}

/* A placement that compared all of thousands for each node would hold the server. */
TEST(only_so_many_values_of_a_list_are_compared_for_each_node)
{
	enum { MANY = 65 };
	static char *capabilities[MANY];
	Holdfast__Driver__V1__KeyValue pairs[2] = {HOLDFAST__DRIVER__V1__KEY_VALUE__INIT}, *map[MANY];
	char reason[FEASIBILITY_REASON_SIZE];
	struct world w;

	make_world(&w);
	want_limited_task(&w);
	pairs[0].key = LIT("CAP_CHOWN");
	pairs[1].key = LIT("CAP_SYS_ADMIN");
	for (size_t i = 0; i < MANY; i++) {
		capabilities[i] = LIT("CAP_CHOWN");
		map[i] = &pairs[0];
	}
	w.values[1].list = capabilities;
	w.values[1].n_list = MANY;
	capabilities[MANY - 1] = LIT("CAP_SYS_ADMIN");
	assert_int_equal(feasibility_check(&w.in, reason), OBSTACLE_NONE);
	capabilities[MANY - 2] = LIT("CAP_SYS_ADMIN");
	assert_int_equal(feasibility_check(&w.in, reason), OBSTACLE_DRIVER_LACKS);
	w.values[1].n_list = 0;
	w.values[1].map = map;
	w.values[1].n_map = MANY;
	map[MANY - 1] = &pairs[1];
	assert_int_equal(feasibility_check(&w.in, reason), OBSTACLE_NONE);
	map[MANY - 2] = &pairs[1];
	assert_int_equal(feasibility_check(&w.in, reason), OBSTACLE_DRIVER_LACKS);
}

TEST(the_default_restarts_of_a_job_need_no_offer_of_the_driver)
{
	char reason[FEASIBILITY_REASON_SIZE];
	struct world w;

	make_world(&w);
	restarts(&w);
	w.restart.by_default = true;
	assert_int_equal(feasibility_check(&w.in, reason), OBSTACLE_NONE);
	w.restart.by_default = false;
	w.restart.attempts = 0; /* never */
	assert_int_equal(feasibility_check(&w.in, reason), OBSTACLE_NONE);
}

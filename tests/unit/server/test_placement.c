/* SPDX-License-Identifier: Apache-2.0 */
/* Where allocations go, over random clusters: never to a node that cannot, never refused while one can, and
 * each reason is true. What can be is asked of the raw facts again, one by one and the slow way. */

#include "server.h"
#include "unit.h"

#include "alloc/placement.h"
#include "model/admission.h"
#include "node/session.h"

#define BOOT "b0010000-0000-4000-8000-000000000001"

enum {
	WORLDS = 3000,
	NODES_MAX = 7,
	VOLUMES = 4,
	CLAIMS_MAX = 6,
	ALLOCS_MAX = 8,
};

static const char *const plugins[] = {"ceph", "ebs"};

struct world {
	struct server server;
	struct session *session; /* stands for any: only that there is one counts, and that it stays */
	unsigned int seed, n_nodes;
	struct volume_request wanted[VOLUMES];
	struct alloc alloc; /* its list is wanted */
};

static size_t n_collected, n_asked, n_counted; /* calls of the functions below */

enum status __real_reference_collect(const struct alloc *alloc, struct reference_wants *ret,
				     struct error *err);
enum status __wrap_reference_collect(const struct alloc *alloc, struct reference_wants *ret,
				     struct error *err);
enum status __wrap_reference_collect(const struct alloc *alloc, struct reference_wants *ret,
				     struct error *err)
{
	n_collected++;
	return __real_reference_collect(alloc, ret, err);
}

const char *__real_node_attribute(const struct message_list *attributes, const char *name);
const char *__wrap_node_attribute(const struct message_list *attributes, const char *name);
const char *__wrap_node_attribute(const struct message_list *attributes, const char *name)
{
	n_asked++;
	return __real_node_attribute(attributes, name);
}

uint32_t __real_volume_names_count(struct volume_name *names, size_t n);
uint32_t __wrap_volume_names_count(struct volume_name *names, size_t n);
uint32_t __wrap_volume_names_count(struct volume_name *names, size_t n)
{
	n_counted++;
	return __real_volume_names_count(names, n);
}

static unsigned int rnd(struct world *w, unsigned int n)
{
	w->seed = w->seed * 1103515245U + 12345U;
	return (w->seed >> 16) % n;
}

/* One in @n. */
static bool rarely(struct world *w, unsigned int n)
{
	return rnd(w, n) == 0;
}

static void node_name(unsigned int i, char ret[static NODE_ID_MAX + 1])
{
	(void)str_format(ret, NODE_ID_MAX + 1, "n%u", i);
}

static void put_instance(struct world *w, const char *node, const char *plugin)
{
	struct plugin_instance instance = {0};
	struct node_plugin *p = &instance.plugin;

	(void)str_copy(instance.node_id, sizeof(instance.node_id), node);
	(void)str_copy(p->plugin_id, sizeof(p->plugin_id), plugin);
	p->healthy = !rarely(w, 6);
	p->has_node = !rarely(w, 10);
	p->controller_required = str_eq(plugin, "ceph");
	p->has_controller = rarely(w, 2);
	p->controller.healthy = !rarely(w, 4);
	p->node.max_volumes = rarely(w, 2) ? rnd(w, 4) : 0;
	p->node.topology.n_segments = rnd(w, 3);
	(void)str_copy(p->node.topology.segments[0].key, TOPOLOGY_TEXT_MAX, "zone");
	(void)str_copy(p->node.topology.segments[0].value, TOPOLOGY_TEXT_MAX, rarely(w, 3) ? "b" : "a");
	(void)str_copy(p->node.topology.segments[1].key, TOPOLOGY_TEXT_MAX, "rack");
	(void)str_copy(p->node.topology.segments[1].value, TOPOLOGY_TEXT_MAX, "7");
	assert_int_equal(state_put_instance(&w->server.state, &instance, NULL), STATUS_OK);
}

static void put_node(struct world *w, unsigned int i)
{
	struct node node = {.boot_id = BOOT, .status = NODE_READY};

	node_name(i, node.id);
	node.ineligible = rarely(w, 8);
	if (rarely(w, 8))
		node.drain = (struct drain){.started_ms = 1, .done_ms = rnd(w, 2)};
	assert_int_equal(state_put_node(&w->server.state, &node, NULL), STATUS_OK);
	for (size_t p = 0; p < ARRAY_SIZE(plugins); p++)
		if (!rarely(w, 5))
			put_instance(w, node.id, plugins[p]);
	if (!rarely(w, 6))
		state_node(&w->server.state, node.id)->session = w->session;
}

static void put_detail(struct world *w, const char *id)
{
	Holdfast__V1__Topology topology = HOLDFAST__V1__TOPOLOGY__INIT;
	Holdfast__V1__Topology *topologies[] = {&topology};
	Holdfast__V1__VolumeDetail detail = V1(volume_detail, .topologies = topologies, .n_topologies = 1);
	Holdfast__V1__Topology__SegmentsEntry entry = HOLDFAST__V1__TOPOLOGY__SEGMENTS_ENTRY__INIT;
	Holdfast__V1__Topology__SegmentsEntry *entries[] = {&entry};
	char key[64];
	struct record record = {.key = key, .message = &detail.base};

	entry.key = "zone";
	entry.value = "a";
	topology.segments = entries;
	topology.n_segments = 1;
	(void)str_format(key, sizeof(key), "volume-detail/default/%s", id);
	assert_int_equal(records_put(&w->server.state.records, &record, NULL), STATUS_OK);
}

static void put_volume(struct world *w, unsigned int i)
{
	static const enum access_mode modes[] = {SINGLE_NODE_WRITER, MULTI_NODE_SINGLE_WRITER,
						 SINGLE_NODE_MULTI_WRITER, MULTI_NODE_MULTI_WRITER};
	struct volume volume = {.type = VOLUME_CSI, .namespace = NAMESPACE_DEFAULT};

	(void)str_format(volume.id, sizeof(volume.id), "v%u", i);
	(void)str_copy(volume.plugin_id, sizeof(volume.plugin_id), plugins[rnd(w, 2)]);
	volume.n_capabilities = 1;
	volume.capabilities[0].access_mode = modes[rnd(w, ARRAY_SIZE(modes))];
	volume.capabilities[0].attachment_mode =
		rarely(w, 9) ? ATTACHMENT_BLOCK_DEVICE : ATTACHMENT_FILE_SYSTEM;
	assert_int_equal(state_put_volume(&w->server.state, &volume, NULL), STATUS_OK);
	if (rarely(w, 2))
		put_detail(w, volume.id);
}

static void request_volume(struct world *w, struct alloc *alloc, unsigned int i)
{
	struct volume_request *request = &alloc->volumes[alloc->n_volumes++];
	const struct volume *volume;

	(void)str_format(request->name, sizeof(request->name), "r%u", i);
	(void)str_format(request->source, sizeof(request->source), "v%u", i);
	volume = &state_volume(&w->server.state, NAMESPACE_DEFAULT, request->source)->volume;
	request->access_mode = volume->capabilities[0].access_mode;
	request->attachment_mode = ATTACHMENT_FILE_SYSTEM;
	request->read_only = rarely(w, 3);
}

/* @volumes is where its list is to be. */
static void make_alloc(struct world *w, unsigned int number, struct volume_request volumes[static VOLUMES],
		       struct alloc *ret)
{
	memset(volumes, 0, VOLUMES * sizeof(*volumes));
	*ret = (struct alloc){
		.namespace = NAMESPACE_DEFAULT, .volumes = volumes, .desired_status = DESIRED_RUN};
	(void)str_format(ret->id, sizeof(ret->id), "01890000-0000-7000-8000-0000000000%02u", number);
	ret->client_status = rarely(w, 3) ? CLIENT_COMPLETE : CLIENT_RUNNING;
	for (unsigned int i = 0; i < VOLUMES; i++)
		if (rarely(w, 2))
			request_volume(w, ret, i);
}

static void put_claim(struct world *w, unsigned int number)
{
	const struct volume_entry *volume;
	struct claim claim = {.namespace = NAMESPACE_DEFAULT,
			      .mode = rarely(w, 2) ? CLAIM_READ : CLAIM_WRITE};

	(void)str_format(claim.id, sizeof(claim.id), "01890000-0000-7000-8000-00000000c0%02u", number);
	(void)str_format(claim.volume_id, sizeof(claim.volume_id), "v%u", rnd(w, VOLUMES));
	volume = state_volume(&w->server.state, NAMESPACE_DEFAULT, claim.volume_id);
	(void)str_copy(claim.plugin_id, sizeof(claim.plugin_id), volume->volume.plugin_id);
	node_name(rnd(w, w->n_nodes), claim.node_id);
	claim.access_mode = volume->volume.capabilities[0].access_mode;
	claim.attachment_mode = rarely(w, 9) ? ATTACHMENT_BLOCK_DEVICE : ATTACHMENT_FILE_SYSTEM;
	claim.state = rarely(w, 3) ? CLAIM_FREED : CLAIM_TAKEN;
	assert_int_equal(state_put_claim(&w->server.state, &claim, NULL), STATUS_OK);
}

static void make_world(struct world *w, unsigned int seed)
{
	static struct session stands_for_any;

	memset(w, 0, sizeof(*w));
	w->seed = seed;
	w->session = &stands_for_any;
	state_init(&w->server.state);
	w->n_nodes = 1 + rnd(w, NODES_MAX);
	for (unsigned int i = 0; i < w->n_nodes; i++)
		put_node(w, i);
	for (unsigned int i = 0; i < VOLUMES; i++)
		put_volume(w, i);
	for (unsigned int i = rnd(w, CLAIMS_MAX); i > 0; i--)
		put_claim(w, i);
	for (unsigned int i = rnd(w, ALLOCS_MAX); i > 0; i--) {
		struct volume_request volumes[VOLUMES];
		struct alloc alloc;

		make_alloc(w, i, volumes, &alloc);
		node_name(rnd(w, w->n_nodes), alloc.node_id);
		assert_int_equal(state_put_alloc(&w->server.state, &alloc, NULL), STATUS_OK);
	}
	make_alloc(w, 99, w->wanted, &w->alloc);
	if (w->alloc.n_volumes == 0)
		request_volume(w, &w->alloc, rnd(w, VOLUMES));
}

static void end_world(struct world *w)
{
	struct node_entry *node;

	for (node = state_node_from(&w->server.state, ""); node; node = state_node_next(node))
		node->session = NULL;
	state_release(&w->server.state);
}

/* The facts once more. */

static const struct volume_entry *asked(struct world *w, uint32_t i)
{
	return state_volume(&w->server.state, NAMESPACE_DEFAULT, w->alloc.volumes[i].source);
}

static bool asks_for(const struct world *w, const char *id)
{
	for (uint32_t i = 0; i < w->alloc.n_volumes; i++)
		if (str_eq(w->alloc.volumes[i].source, id))
			return true;
	return false;
}

/* Does the node have volume @id, or will it, by any claim or allocation? */
static bool node_has(struct world *w, const struct node_entry *node, const char *id)
{
	struct alloc_entry *alloc = state_alloc_from(&w->server.state, "");
	struct claim_entry *claim;
	struct volume_entry *volume = state_volume(&w->server.state, NAMESPACE_DEFAULT, id);

	LIST_FOREACH (claim, &volume->claims, of_volume)
		if (claim_is_live(&claim->claim) && str_eq(claim->claim.node_id, node->id))
			return true;
	for (; alloc; alloc = state_alloc_next(alloc))
		for (uint32_t i = 0; i < alloc->alloc.n_volumes; i++)
			if (str_eq(alloc->alloc.node_id, node->id) &&
			    str_eq(alloc->alloc.volumes[i].source, id) &&
			    !alloc_is_client_terminal(&alloc->alloc))
				return true;
	return false;
}

static bool is_full(struct world *w, const struct node_entry *node, const struct node_plugin *plugin)
{
	int64_t n = 0;

	for (unsigned int i = 0; i < VOLUMES; i++) {
		const struct volume_entry *volume;
		char id[8];

		(void)str_format(id, sizeof(id), "v%u", i);
		volume = state_volume(&w->server.state, NAMESPACE_DEFAULT, id);
		if (str_eq(volume->volume.plugin_id, plugin->plugin_id))
			n += asks_for(w, id) || node_has(w, node, id);
	}
	return plugin->node.max_volumes > 0 && n > plugin->node.max_volumes;
}

static bool any_controller(struct world *w, const char *plugin)
{
	struct node_entry *node = state_node_from(&w->server.state, "");
	struct instance_entry *entry;

	for (; node; node = state_node_next(node))
		LIST_FOREACH (entry, &node->instances, of_node)
			if (str_eq(entry->instance.plugin.plugin_id, plugin) && node->session &&
			    entry->instance.plugin.has_controller &&
			    entry->instance.plugin.controller.healthy)
				return true;
	return false;
}

static bool in_zone_a(const struct topology *t)
{
	return t->n_segments > 0 && str_eq(t->segments[0].value, "a");
}

static bool is_held(const struct world *w, const struct node_entry *node, const struct volume_entry *volume,
		    const struct volume_request *request)
{
	const struct claim *claims[CLAIMS_MAX];
	const struct claim_entry *entry;
	const struct claim *blocker;
	size_t n = 0;

	LIST_FOREACH (entry, &volume->claims, of_volume) {
		if (!claim_is_live(&entry->claim))
			continue;
		if (entry->claim.attachment_mode != request->attachment_mode)
			return true;
		claims[n++] = &entry->claim;
	}
	return !admission_has_room(volume_request_capability(request), volume_request_mode(request), node->id,
				   claims, n, &blocker);
}

/* Is it true of @node that @obstacle is in the way? */
static bool stands(struct world *w, const struct node_entry *node, enum obstacle obstacle)
{
	if (obstacle == OBSTACLE_DISCONNECTED)
		return !node->session;
	if (obstacle == OBSTACLE_DRAINING)
		return node->node.drain.started_ms > 0 && node->node.drain.done_ms == 0;
	if (obstacle == OBSTACLE_INELIGIBLE)
		return node->node.ineligible;
	for (uint32_t i = 0; i < w->alloc.n_volumes; i++) {
		const struct volume_entry *volume = asked(w, i);
		const struct volume_request *request = &w->alloc.volumes[i];
		struct instance_entry *entry =
			state_instance(&w->server.state, node->id, volume->volume.plugin_id, "");
		const struct node_plugin *plugin = entry ? &entry->instance.plugin : NULL;
		char key[64];
		bool found = false;

		(void)str_format(key, sizeof(key), "volume-detail/default/%s", volume->id);
		if (obstacle == OBSTACLE_NO_PLUGIN)
			found = !plugin || !plugin->has_node;
		if (obstacle == OBSTACLE_MODE)
			found = volume->volume.capabilities[0].attachment_mode != request->attachment_mode;
		if (obstacle == OBSTACLE_CLAIMED)
			found = is_held(w, node, volume, request);
		if (plugin && obstacle == OBSTACLE_UNHEALTHY)
			found = !plugin->healthy;
		if (plugin && obstacle == OBSTACLE_NO_CONTROLLER)
			found = plugin->controller_required && !any_controller(w, plugin->plugin_id);
		if (plugin && obstacle == OBSTACLE_TOPOLOGY)
			found = records_get(&w->server.state.records, key) &&
				!in_zone_a(&plugin->node.topology);
		if (plugin && obstacle == OBSTACLE_MAX_VOLUMES)
			found = is_full(w, node, plugin);
		if (found)
			return true;
	}
	return false;
}

static bool can_take(struct world *w, const struct node_entry *node)
{
	for (int o = OBSTACLE_DISCONNECTED; o < OBSTACLE_N; o++)
		if (stands(w, node, (enum obstacle)o))
			return false;
	return true;
}

static size_t live_allocs(struct world *w, const struct node_entry *node)
{
	struct alloc_entry *entry = state_alloc_from(&w->server.state, "");
	size_t n = 0;

	for (; entry; entry = state_alloc_next(entry))
		n += str_eq(entry->alloc.node_id, node->id) && !alloc_is_client_terminal(&entry->alloc);
	return n;
}

static bool comes_before(struct world *w, const struct node_entry *a, const struct node_entry *b,
			 const char *avoid)
{
	bool avoids_a = avoid && str_eq(a->id, avoid), avoids_b = avoid && str_eq(b->id, avoid);

	return avoids_a != avoids_b ? avoids_b : live_allocs(w, a) < live_allocs(w, b);
}

static const struct node_entry *best_of_all(struct world *w, const char *avoid)
{
	struct node_entry *node = state_node_from(&w->server.state, "");
	const struct node_entry *best = NULL;

	for (; node; node = state_node_next(node)) /* by id */
		if (can_take(w, node) && (!best || comes_before(w, node, best, avoid)))
			best = node;
	return best;
}

/* Words of a reason that tell what it is about. */
static const char *const marks[OBSTACLE_N] =
	ROW([OBSTACLE_DISCONNECTED] = "is not connected", [OBSTACLE_DRAINING] = "being drained",
	    [OBSTACLE_INELIGIBLE] = "takes nothing new", [OBSTACLE_NO_PLUGIN] = "does not offer plugin",
	    [OBSTACLE_UNHEALTHY] = "is not healthy", [OBSTACLE_NO_CONTROLLER] = "runs a healthy controller",
	    [OBSTACLE_TOPOLOGY] = "cannot be reached from", [OBSTACLE_MAX_VOLUMES] = "others and",
	    [OBSTACLE_MODE] = "capability", [OBSTACLE_CLAIMED] = "by allocation");

static void check_reason(struct world *w, const Holdfast__V1__NodeExplanation *line)
{
	const struct node_entry *node = NON_NULL(state_node(&w->server.state, line->node_id));
	int found = 0;

	for (int o = OBSTACLE_NONE + 1; o < OBSTACLE_N; o++) {
		if (!marks[o] || !strstr(line->reason, marks[o]))
			continue;
		found++;
		assert_msg(stands(w, node, (enum obstacle)o), "node %s: not true: %s", line->node_id,
			   line->reason);
	}
	assert_msg(found == 1, "node %s: no one obstacle: %s", line->node_id, line->reason);
}

static void check_refusal(struct world *w, const struct refusal *refusal, const struct error *err)
{
	const Holdfast__V1__ErrorDetails *details = refusal->details;
	bool all_full = err->status == STATUS_RESOURCE_EXHAUSTED;

	assert_true(all_full || err->status == STATUS_FAILED_PRECONDITION);
	for (size_t i = 0; details && i < details->n_nodes; i++) {
		check_reason(w, details->nodes[i]);
		if (i > 0)
			assert_true(strcmp(details->nodes[i - 1]->node_id, details->nodes[i]->node_id) < 0);
		if (all_full)
			assert_non_null(strstr(details->nodes[i]->reason, marks[OBSTACLE_MAX_VOLUMES]));
	}
	if (!details || details->n_nodes == 0)
		assert_non_null(strstr(err->msg, "no node offers plugin"));
}

TEST(the_best_node_that_can_is_taken_and_every_reason_is_true)
{
	unsigned int placed = 0, n_avoided = 0;

	for (unsigned int seed = 1; seed <= WORLDS; seed++) {
		struct world w;
		struct placement_assumed assumed = {.avoid = seed % 2 == 0 ? "n0" : NULL};
		struct placement placement;
		struct refusal refusal = {0};
		const struct node_entry *node = NULL, *best;
		struct error err;

		make_world(&w, seed);
		best = best_of_all(&w, assumed.avoid);
		assert_int_equal(placement_init(&placement, &w.server, &w.alloc, &assumed, &err), STATUS_OK);
		if (placement_choose(&placement, &node, &refusal, &err) != STATUS_OK)
			check_refusal(&w, &refusal, &err);
		assert_msg(node == best, "seed %u: %s instead of %s: %s", seed, node ? node->id : "no node",
			   best ? best->id : "no node", node ? "" : err.msg);
		placed += node != NULL;
		n_avoided += node && assumed.avoid && str_eq(node->id, assumed.avoid);
		refusal_release(&refusal);
		placement_release(&placement);
		end_world(&w);
	}
	assert_in_range(placed, WORLDS / 10, WORLDS * 9 / 10); /* both ends are looked at */
	assert_true(n_avoided > 0);			       /* no other node could */
}

/* The same check when the node is named, but that it may be away. */
TEST(a_named_node_is_checked_by_the_same_rules)
{
	for (unsigned int seed = 1; seed <= WORLDS; seed++) {
		struct world w;
		struct placement placement;
		struct node_entry *node;

		make_world(&w, seed);
		assert_int_equal(placement_init(&placement, &w.server, &w.alloc, NULL, NULL), STATUS_OK);
		for (node = state_node_from(&w.server.state, ""); node; node = state_node_next(node)) {
			char reason[FEASIBILITY_REASON_SIZE];
			enum obstacle obstacle = placement_check(&placement, node, node->id, false, reason);

			assert_msg((obstacle == OBSTACLE_NONE) == can_take(&w, node) &&
					   !(obstacle != OBSTACLE_NONE && !stands(&w, node, obstacle)),
				   "seed %u, node %s: %s", seed, node->id, reason);
		}
		placement_release(&placement);
		end_world(&w);
	}
}

static void quiet_node(struct world *w, unsigned int i)
{
	struct node node = {.boot_id = BOOT};

	node_name(i, node.id);
	assert_int_equal(state_put_node(&w->server.state, &node, NULL), STATUS_OK);
}

/* Node n0 of @w is connected, and the others are not. */
static void make_quiet_world(struct world *w, unsigned int n)
{
	static struct session stands_for_any;

	*w = (struct world){.n_nodes = n};
	state_init(&w->server.state);
	for (unsigned int i = 0; i < n; i++)
		quiet_node(w, i);
	state_node(&w->server.state, "n0")->session = &stands_for_any;
}

TEST(the_tasks_are_searched_once_for_values_of_nodes)
{
	Holdfast__Driver__V1__KeyValue env = HOLDFAST__DRIVER__V1__KEY_VALUE__INIT, *list[] = {&env};
	Holdfast__Driver__V1__TaskConfig task = HOLDFAST__DRIVER__V1__TASK_CONFIG__INIT;
	ProtobufCMessage *tasks[] = {&task.base, &task.base}, *attributes[] = {&env.base};
	cleanup(placement_release) struct placement placement;
	struct refusal refusal = {0};
	const struct node_entry *node;
	struct error err;
	struct world w;

	make_quiet_world(&w, 2);
	env.key = TEXT("meta.rack");
	env.value = TEXT(
		"${meta.rack} ${meta.row} ${meta.rack} $${meta.text} %%{x ${meta.row} ${NOMAD_TASK_NAME}");
	task.task = TEXT("web");
	task.env = list;
	task.n_env = 1;
	assert_true(message_list_new(tasks, ARRAY_SIZE(tasks), &w.alloc.tasks));
	assert_true(message_list_new(attributes, 1, &state_node(&w.server.state, "n0")->attributes));
	n_collected = n_asked = 0;
	assert_int_equal(placement_init(&placement, &w.server, &w.alloc, NULL, NULL), STATUS_OK);
	assert_int_equal(placement_choose(&placement, &node, &refusal, &err), STATUS_FAILED_PRECONDITION);
	assert_contains(err.msg, "does not meet: task web wants meta.row in its env, and the node lacks it");
	assert_int_equal(n_collected, 1);
	assert_int_equal(n_asked, 2); /* for rack and row, of n0 */
	refusal_release(&refusal);
	message_list_unref(w.alloc.tasks);
	end_world(&w);
}

TEST(other_volumes_of_a_plugin_are_counted_once_for_a_node)
{
	struct plugin_instance instance = {
		.plugin = {.has_node = true, .healthy = true, .node.max_volumes = 3}};
	struct volume volume = {.namespace = NAMESPACE_DEFAULT, .type = VOLUME_CSI, .n_capabilities = 1};
	struct volume_request wanted[VOLUMES] = {0}, *other = &wanted[2];
	struct alloc alloc = {.id = "01890000-0000-7000-8000-000000000001",
			      .namespace = NAMESPACE_DEFAULT,
			      .node_id = "n0",
			      .volumes = other,
			      .n_volumes = 2};
	cleanup(placement_release) struct placement placement;
	char reason[FEASIBILITY_REASON_SIZE];
	struct world w;

	make_quiet_world(&w, 1);
	(void)str_copy(instance.node_id, sizeof(instance.node_id), "n0");
	volume.capabilities[0] = (struct capability){MULTI_NODE_MULTI_WRITER, ATTACHMENT_FILE_SYSTEM};
	for (unsigned int i = 0; i < VOLUMES; i++) { /* v3 is of another plugin */
		(void)str_format(volume.id, sizeof(volume.id), "v%u", i);
		(void)str_copy(volume.plugin_id, sizeof(volume.plugin_id), i < 3 ? "ceph" : "ebs");
		(void)str_copy(wanted[i].source, sizeof(wanted[i].source), volume.id);
		wanted[i].access_mode = MULTI_NODE_MULTI_WRITER;
		wanted[i].attachment_mode = ATTACHMENT_FILE_SYSTEM;
		(void)str_copy(instance.plugin.plugin_id, sizeof(instance.plugin.plugin_id),
			       volume.plugin_id);
		assert_int_equal(state_put_instance(&w.server.state, &instance, NULL), STATUS_OK);
		assert_int_equal(state_put_volume(&w.server.state, &volume, NULL), STATUS_OK);
	}
	assert_int_equal(state_put_alloc(&w.server.state, &alloc, NULL), STATUS_OK);
	w.alloc = (struct alloc){.namespace = NAMESPACE_DEFAULT, .volumes = wanted, .n_volumes = 2};
	for (int64_t max = 0; max <= 3; max++) {
		state_instance(&w.server.state, "n0", "ceph", "")->instance.plugin.node.max_volumes = max;
		n_counted = 0;
		assert_int_equal(placement_init(&placement, &w.server, &w.alloc, NULL, NULL), STATUS_OK);
		assert_int_equal(
			placement_check(&placement, state_node(&w.server.state, "n0"), "n0", false, reason),
			max == 1 || max == 2 ? OBSTACLE_MAX_VOLUMES : OBSTACLE_NONE);
		assert_int_equal(n_counted, max > 0);
		if (max == 2)
			assert_contains(reason, "it has 1 others and 2 are asked for");
		placement_release(&placement);
	}
	/* each plugin has its own number */
	w.alloc.volumes = &wanted[1];
	w.alloc.n_volumes = 3;
	n_counted = 0;
	assert_int_equal(placement_init(&placement, &w.server, &w.alloc, NULL, NULL), STATUS_OK);
	(void)placement_check(&placement, state_node(&w.server.state, "n0"), "n0", false, reason);
	assert_int_equal(n_counted, 2);
	end_world(&w);
}

TEST(many_nodes_are_counted_and_twenty_are_named)
{
	enum { MANY = 50 };

	struct world w;
	struct placement placement;
	struct refusal refusal = {0};
	const struct node_entry *node = NULL;
	struct plugin_instance instance = {.plugin = {.plugin_id = "ebs", .has_node = true, .healthy = true}};
	struct volume volume = {.id = "v0",
				.namespace = NAMESPACE_DEFAULT,
				.type = VOLUME_CSI,
				.plugin_id = "ebs",
				.capabilities = {{SINGLE_NODE_WRITER, ATTACHMENT_FILE_SYSTEM}},
				.n_capabilities = 1};
	struct error err;

	memset(&w, 0, sizeof(w));
	state_init(&w.server.state);
	for (unsigned int i = 0; i < MANY; i++) {
		quiet_node(&w, 10 + i);
		node_name(10 + i, instance.node_id);
		assert_int_equal(state_put_instance(&w.server.state, &instance, NULL), STATUS_OK);
	}
	assert_int_equal(state_put_volume(&w.server.state, &volume, NULL), STATUS_OK);
	w.alloc = (struct alloc){.namespace = NAMESPACE_DEFAULT, .name = "app", .volumes = w.wanted};
	request_volume(&w, &w.alloc, 0);
	assert_int_equal(placement_init(&placement, &w.server, &w.alloc, NULL, &err), STATUS_OK);
	assert_int_equal(placement_choose(&placement, &node, &refusal, &err), STATUS_FAILED_PRECONDITION);
	assert_non_null(strstr(err.msg, "not one of 50 nodes"));
	assert_non_null(strstr(err.msg, "50 are not connected (node n10 is not connected)"));
	assert_int_equal(refusal.details->n_nodes, REFUSAL_NODES_MAX);
	assert_int_equal(refusal.details->more_nodes, MANY - REFUSAL_NODES_MAX);
	assert_string_equal(refusal.details->nodes[0]->node_id, "n10");
	assert_string_equal(refusal.details->nodes[19]->node_id, "n29");
	refusal_release(&refusal);
	placement_release(&placement);
	state_release(&w.server.state);
}

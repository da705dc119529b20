/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/placement.h"

#include "server.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "claim/admit.h"
#include "model/admission.h"
#include "model/constraint.h"
#include "model/task.h"
#include "node/nodes.h"
#include "plugin/controller.h"
#include "plugin/plugins.h"
#include "state/keys.h"
#include "state/storage_index.h"
#include "volume/store.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void placement_release(struct placement *placement)
{
	for (size_t i = 0; i < placement->n_volumes; i++)
		free(placement->volumes[i].claims);
	placement->n_volumes = 0;
}

/* Where the volume can be reached. */
static void read_topologies(struct server *server, struct placement_volume *wanted)
{
	const Holdfast__V1__VolumeDetail *detail = volume_detail_of(server, &wanted->entry->volume);

	if (!detail)
		return;
	wanted->topologies = detail->topologies;
	wanted->n_topologies = detail->n_topologies;
}

/* Returns the first claim that would exclude a newcomer on a node without claims. */
static const struct claim *find_in_the_way(const struct placement_volume *wanted)
{
	const struct volume_request *request = wanted->request;
	const struct claim *blocker = NULL;

	(void)admission_has_room(volume_request_capability(request), volume_request_mode(request), "",
				 wanted->claims, wanted->n_claims, &blocker);
	return blocker;
}

static bool is_without(const struct placement *placement, const char *alloc_id)
{
	return placement->assumed.without && str_eq(placement->assumed.without, alloc_id);
}

static enum status add_volume(struct placement *placement, const struct volume_request *request,
			      struct error *err)
{
	struct placement_volume *wanted = &placement->volumes[placement->n_volumes];
	struct state *state = &placement->server->state;
	struct claim_entry *entry;

	*wanted = (struct placement_volume){
		.entry = state_volume(state, placement->alloc->namespace, request->source),
		.request = request,
	};
	if (!wanted->entry)
		return error_set(
			err, STATUS_NOT_FOUND, 0,
			"there is no volume %s in namespace %s; register it: holdfast volume register "
			"FILE%s%s",
			request->source, placement->alloc->namespace,
			NAMESPACE_OPTION(placement->alloc->namespace));
	wanted->claims = calloc(storage_n_live(wanted->entry) + 1, sizeof(const struct claim *));
	if (!wanted->claims)
		return error_no_memory(err, "a placement");
	placement->n_volumes++;
	STORAGE_FOREACH_CLAIM (entry, wanted->entry)
		if (claim_is_live(&entry->claim) && !is_without(placement, entry->claim.allocation_id))
			wanted->claims[wanted->n_claims++] = &entry->claim;
	wanted->in_the_way = find_in_the_way(wanted);
	wanted->controller_healthy = controller_capabilities(wanted->entry->plugin) != NULL;
	wanted->controller_decided =
		plugin_decide_controller(wanted->entry->plugin, &wanted->controller_required);
	read_topologies(placement->server, wanted);
	return volume_store_check_usable(placement->server, &wanted->entry->volume, err);
}

enum status placement_init(struct placement *placement, struct server *server, const struct alloc *alloc,
			   const struct placement_assumed *assumed, struct error *err)
{
	enum status status;

	*placement = (struct placement){.server = server, .alloc = alloc};
	if (assumed)
		placement->assumed = *assumed;
	status = reference_collect(alloc, &placement->wants, err);
	for (uint32_t i = 0; status == STATUS_OK && i < alloc->n_volumes; i++)
		status = add_volume(placement, &alloc->volumes[i], err);
	return status;
}

static bool asks_for(const struct placement *placement, const struct volume_entry *volume)
{
	for (size_t i = 0; i < placement->n_volumes; i++)
		if (placement->volumes[i].entry == volume)
			return true;
	return false;
}

/* Writes the volumes of @plugin that @alloc asks for into @names. Returns their number. */
static size_t name_requests(const struct placement *placement, const struct alloc *alloc,
			    const struct plugin_entry *plugin, struct volume_name *names)
{
	size_t n = 0;

	for (uint32_t i = 0; i < alloc->n_volumes; i++) {
		const struct volume_entry *volume =
			state_volume(&placement->server->state, alloc->namespace, alloc->volumes[i].source);

		if (volume && volume->plugin == plugin && !asks_for(placement, volume))
			names[n++] = (struct volume_name){volume->namespace, volume->id};
	}
	return n;
}

static bool is_placed_on(const struct placement *placement, size_t i, const struct node_entry *node)
{
	return str_eq(placement->assumed.placed[i].node_id, node->id);
}

/* Returns at least what name_others() writes, without a look at a volume. */
static size_t bound_others(const struct placement *placement, const struct node_entry *node)
{
	const struct alloc_entry *alloc;
	size_t n = node->n_live;

	LIST_FOREACH (alloc, &node->allocs, of_node)
		n += alloc->alloc.n_volumes;
	for (size_t i = 0; i < placement->assumed.n_placed; i++)
		n += is_placed_on(placement, i, node) ? placement->assumed.placed[i].n_volumes : 0;
	return n;
}

/* Volumes of @plugin that the node has, or will have as soon as its allocations claim them; each as often as
 * it is named. Costs the node's claims and allocations. */
static size_t name_others(const struct placement *placement, const struct node_entry *node,
			  const struct plugin_entry *plugin, struct volume_name *names)
{
	const struct claim_entry *claim;
	const struct alloc_entry *alloc;
	size_t n = 0;

	LIST_FOREACH (claim, &node->claims, of_node) {
		const struct volume_entry *volume = claim->volume;

		if (claim_is_live(&claim->claim) && volume->plugin == plugin &&
		    !asks_for(placement, volume) && !is_without(placement, claim->claim.allocation_id))
			names[n++] = (struct volume_name){volume->namespace, volume->id};
	}
	LIST_FOREACH (alloc, &node->allocs, of_node)
		if (!is_without(placement, alloc->id))
			n += name_requests(placement, &alloc->alloc, plugin, names + n);
	for (size_t i = 0; i < placement->assumed.n_placed; i++)
		if (is_placed_on(placement, i, node))
			n += name_requests(placement, &placement->assumed.placed[i], plugin, names + n);
	return n;
}

/* Without memory the node counts as full. */
static uint32_t count_others(const struct placement *placement, const struct node_entry *node,
			     const struct plugin_entry *plugin)
{
	cleanup_free struct volume_name *names = calloc(bound_others(placement, node) + 1, sizeof(*names));

	if (!names)
		return UINT32_MAX / 2;
	return volume_names_count(names, name_others(placement, node, plugin, names));
}

/* The number for volume @i of @volumes, which is counted once for all volumes of a plugin. */
static uint32_t others_of(const struct placement *placement, const struct node_entry *node,
			  const struct wanted_volume *volumes, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (volumes[k].plugin == volumes[i].plugin)
			return volumes[k].others;
	return volumes[i].plugin->node.max_volumes > 0
		       ? count_others(placement, node, placement->volumes[i].entry->plugin)
		       : 0;
}

static bool holds(const struct node_entry *node, const struct volume_entry *volume)
{
	const struct claim_entry *claim;

	STORAGE_FOREACH_CLAIM (claim, volume)
		if (claim->node == node && claim_is_live(&claim->claim))
			return true;
	return false;
}

/* Would its node need an attach that the provider cannot be asked for? */
static bool lacks_provider_id(const struct placement_volume *from, const struct wanted_volume *wanted)
{
	const struct controller_half *controller;

	if (!wanted->controller_required || wanted->plugin->node.provider_node_id[0] != '\0')
		return false;
	controller = controller_capabilities(from->entry->plugin);
	return controller && controller->attach_detach;
}

static void look_at_volume(const struct placement *placement, const struct node_entry *node,
			   const struct placement_volume *from, struct wanted_volume *ret)
{
	struct server *server = placement->server;

	*ret = (struct wanted_volume){
		.volume = &from->entry->volume,
		.request = from->request,
		.plugin = node_entry_plugin(node, &from->entry->volume),
		.controller_healthy = from->controller_healthy,
		.topologies = from->topologies,
		.n_topologies = from->n_topologies,
	};
	if (!ret->plugin)
		return;
	ret->controller_required =
		from->controller_decided ? from->controller_required : ret->plugin->controller_required;
	ret->lacks_provider_id = lacks_provider_id(from, ret);
	ret->is_fenced =
		server->check_not_fenced &&
		server->check_not_fenced(server, node, from->entry->volume.plugin_id, NULL) != STATUS_OK;
	if (from->n_claims > 0 && holds(node, from->entry)) {
		ret->claims = from->claims;
		ret->n_claims = from->n_claims;
	} else if (from->in_the_way) {
		ret->claims = &from->in_the_way;
		ret->n_claims = 1;
	}
}

static bool is_of_group(const struct alloc *a, const struct alloc *b)
{
	return a->job_id[0] != '\0' && str_eq(a->job_id, b->job_id) && str_eq(a->job_group, b->job_group) &&
	       str_eq(a->namespace, b->namespace);
}

/* Live allocations of the same group on the node, and those that are assumed there. */
static size_t count_same_group(const struct placement *placement, const struct node_entry *node)
{
	const struct alloc_entry *alloc;
	size_t n = 0;

	LIST_FOREACH (alloc, &node->allocs, of_node)
		n += !is_without(placement, alloc->id) && is_of_group(&alloc->alloc, placement->alloc);
	for (size_t i = 0; i < placement->assumed.n_placed; i++)
		n += str_eq(placement->assumed.placed[i].node_id, node->id) &&
		     is_of_group(&placement->assumed.placed[i], placement->alloc);
	return n;
}

/* Finds a constraint that the node does not meet, or a value that it lacks for a task. False: it meets all.
 */
static bool find_unmet(const struct placement *placement, const struct node_entry *node,
		       char ret[static CONSTRAINT_TEXT_SIZE])
{
	const struct alloc *alloc = placement->alloc;

	if (message_list_n(alloc->constraints) > 0 &&
	    constraints_find_unmet(alloc, node->id, node->attributes, count_same_group(placement, node), ret))
		return true;
	for (size_t i = 0; i < placement->wants.n; i++) {
		const struct reference_want *want = &placement->wants.list[i];

		if (node_attribute(node->attributes, want->name))
			continue;
		(void)str_format(ret, CONSTRAINT_TEXT_SIZE,
				 "task %.63s wants %s in its env, and the node lacks it", want->task,
				 want->name);
		return true;
	}
	return false;
}

enum obstacle placement_check(const struct placement *placement, const struct node_entry *node,
			      const char *node_id, bool may_wait,
			      char ret_reason[static FEASIBILITY_REASON_SIZE])
{
	char unmet[CONSTRAINT_TEXT_SIZE];
	struct wanted_volume volumes[ALLOC_VOLUMES_MAX];
	struct wanted_task tasks[ALLOC_TASKS_MAX];
	struct feasibility in = {
		.node = node ? &node->node : NULL,
		.node_id = node_id,
		.is_connected = node && node_is_connected(node),
		.n_allocs = node ? node->n_live_allocs : 0,
		.may_wait = may_wait,
		.now_ms = clock_realtime_ms(),
		.volumes = volumes,
		.n_volumes = node ? placement->n_volumes : 0,
		.tasks = tasks,
		.n_tasks = node ? message_list_n(placement->alloc->tasks) : 0,
		.network = placement->alloc->network.mode,
	};

	if (in.is_connected && find_unmet(placement, node, unmet))
		in.unmet = unmet;
	for (size_t i = 0; i < in.n_tasks; i++) {
		const Holdfast__Driver__V1__TaskConfig *task = alloc_task(placement->alloc, i);

		tasks[i] = (struct wanted_task){task, node_driver(node, task->driver),
						alloc_task_plugin_id(placement->alloc, task)};
	}

	for (size_t i = 0; i < in.n_volumes; i++) {
		look_at_volume(placement, node, &placement->volumes[i], &volumes[i]);
		if (volumes[i].plugin)
			volumes[i].others = others_of(placement, node, volumes, i);
	}
	return feasibility_check(&in, ret_reason);
}

/* The volume whose plugin the fewest nodes report. */
static const struct placement_volume *most_constraining(const struct placement *placement)
{
	const struct placement_volume *best = &placement->volumes[0];

	for (size_t i = 1; i < placement->n_volumes; i++)
		if (placement->volumes[i].entry->plugin->n_instances < best->entry->plugin->n_instances)
			best = &placement->volumes[i];
	return best;
}

static size_t n_live_allocs(const struct placement *placement, const struct node_entry *node)
{
	const struct alloc_entry *without =
		placement->assumed.without
			? state_alloc(&placement->server->state, placement->assumed.without)
			: NULL;
	size_t n = node->n_live_allocs;

	for (size_t i = 0; i < placement->assumed.n_placed; i++)
		n += str_eq(placement->assumed.placed[i].node_id, node->id);
	return n - (without && without->node == node && !alloc_is_client_terminal(&without->alloc));
}

static bool is_avoided(const struct placement *placement, const struct node_entry *node)
{
	return placement->assumed.avoid && str_eq(node->id, placement->assumed.avoid);
}

/* Is @a the better place of two that can? */
static bool is_better(const struct placement *placement, const struct node_entry *a,
		      const struct node_entry *b)
{
	size_t n_a = n_live_allocs(placement, a), n_b = n_live_allocs(placement, b);

	if (is_avoided(placement, a) != is_avoided(placement, b))
		return is_avoided(placement, b);
	return n_a != n_b ? n_a < n_b : strcmp(a->id, b->id) < 0;
}

/* Why the nodes that were looked at cannot: their number by obstacle, and the first ones by id. */
struct tally {
	size_t n;
	struct {
		size_t n;
		char example[FEASIBILITY_REASON_SIZE]; /* of the first node by id */
		char node_id[NODE_ID_MAX + 1];
	} by[OBSTACLE_N];
	struct line {
		char node_id[NODE_ID_MAX + 1];
		char reason[FEASIBILITY_REASON_SIZE];
	} lines[REFUSAL_NODES_MAX]; /* in order of the node's id */
	size_t n_lines;
};

static void keep_line(struct tally *tally, const char *node_id, const char *reason)
{
	size_t at = tally->n_lines;

	while (at > 0 && strcmp(node_id, tally->lines[at - 1].node_id) < 0)
		at--;
	if (at == REFUSAL_NODES_MAX)
		return;
	if (tally->n_lines < REFUSAL_NODES_MAX)
		tally->n_lines++;
	memmove(&tally->lines[at + 1], &tally->lines[at],
		(tally->n_lines - at - 1) * sizeof(tally->lines[at]));
	(void)str_copy(tally->lines[at].node_id, sizeof(tally->lines[at].node_id), node_id);
	(void)str_copy(tally->lines[at].reason, sizeof(tally->lines[at].reason), reason);
}

static void tally_add(struct tally *tally, enum obstacle obstacle, const char *node_id, const char *reason)
{
	bool is_first = tally->by[obstacle].n == 0 || strcmp(node_id, tally->by[obstacle].node_id) < 0;

	tally->n++;
	tally->by[obstacle].n++;
	keep_line(tally, node_id, reason);
	if (!is_first)
		return;
	(void)str_copy(tally->by[obstacle].node_id, sizeof(tally->by[obstacle].node_id), node_id);
	(void)str_copy(tally->by[obstacle].example, sizeof(tally->by[obstacle].example), reason);
}

static void write_groups(struct strbuf *sb, const struct tally *tally)
{
	bool first = true;

	for (unsigned int o = OBSTACLE_NONE + 1; o < OBSTACLE_N; o++) {
		if (tally->by[o].n == 0)
			continue;
		strbuf_printf(sb, "%s%zu %s %s (%s)", first ? "" : "; ", tally->by[o].n,
			      tally->by[o].n == 1 ? "is" : "are", obstacle_words((enum obstacle)o),
			      tally->by[o].example);
		first = false;
	}
}

static enum status refuse(const struct placement *placement, const struct tally *tally,
			  struct refusal *refusal, struct error *err)
{
	const struct volume *volume = &most_constraining(placement)->entry->volume;
	cleanup_strbuf struct strbuf sb = STRBUF_INIT((size_t)OBSTACLE_N * FEASIBILITY_REASON_SIZE);
	bool all_full = tally->n > 0 &&
			tally->by[OBSTACLE_MAX_VOLUMES].n + tally->by[OBSTACLE_MAX_ALLOCS].n == tally->n;

	for (size_t i = 0; i < tally->n_lines; i++)
		refusal_add_node(refusal, tally->lines[i].node_id, tally->lines[i].reason);
	refusal_count_nodes(refusal, tally->n - tally->n_lines);
	if (tally->by[OBSTACLE_CLAIMED].n > 0)
		refusal_add_blockers(refusal, placement->server, placement->alloc, NULL, "");
	if (tally->n == 0)
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"allocation %s: no node offers plugin %s%s%s, which volume %s needs; see holdfast "
			"plugin status %s",
			placement->alloc->name, volume->plugin_id,
			volume->profile[0] != '\0' ? " with profile " : "", volume->profile, volume->id,
			volume->plugin_id);
	write_groups(&sb, tally);
	return error_set(err, all_full ? STATUS_RESOURCE_EXHAUSTED : STATUS_FAILED_PRECONDITION, 0,
			 "allocation %s: not one of %zu node%s that offer%s plugin %s can take it: %s",
			 placement->alloc->name, tally->n, str_s(tally->n), tally->n == 1 ? "s" : "",
			 volume->plugin_id, sb.data ? sb.data : "");
}

static bool has_plugin(const struct placement *placement, const struct node_entry *node,
		       const char *plugin_id)
{
	const struct instance_entry *instance;
	const struct alloc_entry *alloc;

	LIST_FOREACH (instance, &node->instances, of_node)
		if (str_eq(instance->instance.plugin.plugin_id, plugin_id) &&
		    !is_without(placement, instance->instance.plugin.allocation_id))
			return true;
	LIST_FOREACH (alloc, &node->allocs, of_node)
		if (!is_without(placement, alloc->id) && alloc_find_plugin(&alloc->alloc, plugin_id))
			return true;
	for (size_t i = 0; i < placement->assumed.n_placed; i++)
		if (str_eq(placement->assumed.placed[i].node_id, node->id) &&
		    alloc_find_plugin(&placement->assumed.placed[i], plugin_id))
			return true;
	return false;
}

/* Has the node one of the plugins that the allocation must run? */
static bool has_plugin_of(const struct placement *placement, const struct node_entry *node)
{
	for (uint32_t i = 0; i < placement->alloc->n_plugins; i++)
		if (has_plugin(placement, node, placement->alloc->plugins[i].id))
			return true;
	return false;
}

/* Only a system job runs where its plugin runs already, and a job keeps its type. */
static void write_plugin_advice(const struct alloc *alloc, size_t n_have, char *ret, size_t size)
{
	ret[0] = '\0';
	if (alloc->job_id[0] == '\0')
		(void)str_format(ret, size, "; name one with --node");
	else if (n_have > 0)
		(void)str_format(ret, size,
				 "; only a job with type = \"system\" runs there too: holdfast job stop "
				 "--purge %s%s%s, then holdfast job run with that type",
				 alloc->job_id, NAMESPACE_OPTION(alloc->namespace));
}

/* Chooses a node without its plugins for an allocation without volumes, which runs tasks or plugins. */
static enum status choose_for_plugin(const struct placement *placement, struct tally *tally,
				     const struct node_entry **ret, struct refusal *refusal,
				     struct error *err)
{
	const struct alloc *alloc = placement->alloc;
	char plugins[ALLOC_PLUGINS_TEXT_SIZE], advice[JOB_ID_MAX + NAMESPACE_MAX + 176];
	cleanup_strbuf struct strbuf sb = STRBUF_INIT((size_t)OBSTACLE_N * FEASIBILITY_REASON_SIZE);
	const struct node_entry *best = NULL;
	size_t n_have = 0;

	for (struct node_entry *node = state_node_from(&placement->server->state, ""); node;
	     node = state_node_next(node)) {
		char reason[FEASIBILITY_REASON_SIZE];
		enum obstacle obstacle = placement_check(placement, node, node->id, false, reason);

		if (obstacle != OBSTACLE_NONE)
			tally_add(tally, obstacle, node->id, reason);
		else if (has_plugin_of(placement, node))
			n_have++;
		else if (!best || is_better(placement, node, best))
			best = node;
	}
	if (best) {
		*ret = best;
		return STATUS_OK;
	}
	for (size_t i = 0; i < tally->n_lines; i++)
		refusal_add_node(refusal, tally->lines[i].node_id, tally->lines[i].reason);
	write_groups(&sb, tally);
	if (alloc->n_plugins == 0)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0, "allocation %s: no node can take it: %s",
				 alloc->name, tally->n > 0 ? sb.data : "none is known");
	alloc_plugins_text(alloc, NULL, plugins);
	write_plugin_advice(alloc, n_have, advice, sizeof(advice));
	return error_set(
		err, STATUS_FAILED_PRECONDITION, 0,
		"allocation %s: no node is left for plugin%s %s; nodes that have %s already: %zu%s%s%s",
		alloc->name, str_s(alloc->n_plugins), plugins, alloc->n_plugins == 1 ? "it" : "one of them",
		n_have, tally->n > 0 ? ", " : "", sb.data ? sb.data : "", advice);
}

enum status placement_choose(const struct placement *placement, const struct node_entry **ret,
			     struct refusal *refusal, struct error *err)
{
	cleanup_free struct tally *tally = calloc(1, sizeof(*tally));
	const struct placement_volume *from;
	const struct node_entry *best = NULL;
	struct instance_entry *entry;

	if (!tally)
		return error_no_memory(err, "a placement");
	if (placement->n_volumes == 0)
		return choose_for_plugin(placement, tally, ret, refusal, err);
	from = most_constraining(placement);
	for (entry = state_plugin_instance_from(from->entry->plugin, ""); entry;
	     entry = state_plugin_instance_next(entry)) {
		char reason[FEASIBILITY_REASON_SIZE];
		enum obstacle obstacle;

		if (!node_plugin_serves(&entry->instance.plugin, &from->entry->volume) ||
		    (best && !is_better(placement, entry->node, best)))
			continue;
		obstacle = placement_check(placement, entry->node, entry->node->id, false, reason);
		if (obstacle == OBSTACLE_NONE)
			best = entry->node;
		else
			tally_add(tally, obstacle, entry->node->id, reason);
	}
	if (!best)
		return refuse(placement, tally, refusal, err);
	*ret = best;
	return STATUS_OK;
}

/* Admission explains every claim that is in the way. */
static enum status check_claims(struct server *server, const struct alloc *alloc, struct refusal *refusal,
				struct error *err)
{
	for (uint32_t i = 0; i < alloc->n_volumes; i++) {
		enum status status = claim_admit_alloc(server, alloc, &alloc->volumes[i], err);

		if (status == STATUS_FAILED_PRECONDITION)
			refusal_add_blockers(refusal, server, alloc, alloc->volumes[i].name, alloc->node_id);
		if (status != STATUS_OK)
			return status;
	}
	return STATUS_OK;
}

static enum status check_named_node(struct server *server, const struct placement *placement,
				    const struct alloc *alloc, struct refusal *refusal, struct error *err)
{
	bool is_instead = placement->assumed.without; /* the claims that go are not counted below */
	const struct node_entry *node = state_node(&server->state, alloc->node_id);
	char reason[FEASIBILITY_REASON_SIZE];
	enum obstacle obstacle = placement_check(placement, node, alloc->node_id, true, reason);
	enum status status = STATUS_OK;

	if (!is_instead &&
	    (obstacle == OBSTACLE_NONE || obstacle == OBSTACLE_MODE || obstacle == OBSTACLE_CLAIMED))
		status = check_claims(server, alloc, refusal, err);
	if (status != STATUS_OK || obstacle == OBSTACLE_NONE)
		return status;
	refusal_add_node(refusal, alloc->node_id, reason);
	return error_set(err, obstacle_status(obstacle), 0, "%s", reason);
}

/* Checks the node that is named, or chooses one and puts it into @alloc. */
static enum status place(struct server *server, struct alloc *alloc, const struct placement_assumed *assumed,
			 struct refusal *refusal, struct error *err)
{
	cleanup(placement_release) struct placement placement = {.n_volumes = 0};
	const struct node_entry *node = NULL;

	TRY(placement_init(&placement, server, alloc, assumed, err));
	if (alloc->node_id[0] != '\0')
		return check_named_node(server, &placement, alloc, refusal, err);
	TRY(placement_choose(&placement, &node, refusal, err));
	assert(node);
	(void)str_copy(alloc->node_id, sizeof(alloc->node_id), node->id);
	return STATUS_OK;
}

enum status placement_choose_node(struct server *server, struct alloc *alloc,
				  const struct placement_assumed *assumed, struct refusal *refusal,
				  struct error *err)
{
	char waiting[NODE_ID_MAX + 64];

	TRY(place(server, alloc, assumed, refusal, err));
	if (!node_is_connected(state_node(&server->state, alloc->node_id))) {
		(void)str_format(waiting, sizeof(waiting), "waiting for node %s, which is not connected",
				 alloc->node_id);
		alloc->client_description = strdup(waiting);
		if (!alloc->client_description)
			return error_no_memory(err, "an allocation");
	}
	return STATUS_OK;
}

bool placement_depends_on(const char *key)
{
	/* whose report is waited for, see epoch_check(), and whose storage refuses it */
	return str_starts_with(key, PREFIX_ATTESTATION) || str_starts_with(key, PREFIX_REPLACED) ||
	       str_starts_with(key, PREFIX_FENCE) || str_eq(key, KEY_NODE_COUNT);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "model/feasibility.h"

#include "base/cleanup.h"
#include "base/names.h"
#include "base/str.h"
#include "model/admission.h"
#include "model/restart.h"
#include "model/task_limits.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const words[OBSTACLE_N] = {
	[OBSTACLE_NONE] = "able to take it",
	[OBSTACLE_UNKNOWN] = "not known",
	[OBSTACLE_DISCONNECTED] = "not connected",
	[OBSTACLE_DRAINING] = "being drained",
	[OBSTACLE_INELIGIBLE] = "not eligible",
	[OBSTACLE_DISK] = "without room on the disk of the agent",
	[OBSTACLE_MAX_ALLOCS] = "at the limit of allocations",
	[OBSTACLE_CONSTRAINT] = "kept out by a constraint",
	[OBSTACLE_NO_DRIVER] = "without the driver of a task",
	[OBSTACLE_DRIVER_UNHEALTHY] = "without a healthy driver of a task",
	[OBSTACLE_DRIVER_LACKS] = "without what a task asks of its driver",
	[OBSTACLE_NO_PLUGIN] = "without the plugin of one of the volumes",
	[OBSTACLE_UNHEALTHY] = "without a healthy plugin",
	[OBSTACLE_NO_CONTROLLER] = "without a healthy controller of a plugin",
	[OBSTACLE_NO_PROVIDER_ID] = "without the provider's id for a plugin",
	[OBSTACLE_FENCED] = "fenced in this boot",
	[OBSTACLE_TOPOLOGY] = "in another topology",
	[OBSTACLE_MAX_VOLUMES] = "at the limit of volumes of a plugin",
	[OBSTACLE_MODE] = "asked for a mode that a volume does not have",
	[OBSTACLE_CLAIMED] = "kept out by other claims",
};

const char *obstacle_words(enum obstacle obstacle)
{
	const char *text = names_get(words, OBSTACLE_N, (int)obstacle);

	return text ? text : "invalid";
}

enum status obstacle_status(enum obstacle obstacle)
{
	switch (obstacle) {
	case OBSTACLE_NONE:
		return STATUS_OK;
	case OBSTACLE_UNKNOWN:
		return STATUS_NOT_FOUND;
	case OBSTACLE_NO_DRIVER:
	case OBSTACLE_DRIVER_UNHEALTHY:
	case OBSTACLE_NO_PLUGIN:
	case OBSTACLE_UNHEALTHY:
	case OBSTACLE_NO_CONTROLLER:
	case OBSTACLE_NO_PROVIDER_ID:
		return STATUS_UNAVAILABLE;
	case OBSTACLE_DISK:
	case OBSTACLE_MAX_ALLOCS:
	case OBSTACLE_MAX_VOLUMES:
		return STATUS_RESOURCE_EXHAUSTED;
	case OBSTACLE_DISCONNECTED:
	case OBSTACLE_DRAINING:
	case OBSTACLE_INELIGIBLE:
	case OBSTACLE_CONSTRAINT:
	case OBSTACLE_DRIVER_LACKS:
	case OBSTACLE_FENCED:
	case OBSTACLE_TOPOLOGY:
	case OBSTACLE_MODE:
	case OBSTACLE_CLAIMED:
	case OBSTACLE_N:
		break;
	}
	return STATUS_FAILED_PRECONDITION;
}

/* Text may be long where names are: what does not fit is cut. */
__attribute__((format(printf, 3, 4))) static enum obstacle
found(enum obstacle obstacle, char ret[static FEASIBILITY_REASON_SIZE], const char *fmt, ...)
{
	char text[2 * FEASIBILITY_REASON_SIZE];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	str_copy_text(ret, FEASIBILITY_REASON_SIZE, text);
	return obstacle;
}

static const char *segment_value(const struct topology *have, const char *key)
{
	for (uint32_t i = 0; i < have->n_segments; i++)
		if (str_eq(have->segments[i].key, key))
			return have->segments[i].value;
	return NULL;
}

/* The first segment of @need that the node has not or otherwise; NULL: all match. */
static const Holdfast__V1__Topology__SegmentsEntry *first_difference(const struct topology *have,
								     const Holdfast__V1__Topology *need)
{
	for (size_t i = 0; i < need->n_segments; i++) {
		const char *value = segment_value(have, need->segments[i]->key);

		if (!value || !str_eq(value, need->segments[i]->value))
			return need->segments[i];
	}
	return NULL;
}

static void write_difference(const struct topology *have, const Holdfast__V1__Topology__SegmentsEntry *need,
			     size_t n_topologies, char *ret, size_t size)
{
	const char *value = segment_value(have, need->key);
	char more[48] = "";

	if (n_topologies > 1)
		(void)str_format(more, sizeof(more), " (nor one of %zu other topologies)", n_topologies - 1);
	(void)snprintf(ret, size, "%.64s = %.64s is needed and the node has %s%.64s%s", need->key,
		       need->value, value ? "" : "no such segment", value ? value : "", more);
	str_make_one_reason(ret); /* a plugin or provider has named the segments */
}

bool topology_matches(const struct topology *have, Holdfast__V1__Topology *const *topologies,
		      size_t n_topologies, char *ret_missing, size_t size)
{
	for (size_t i = 0; i < n_topologies; i++)
		if (!first_difference(have, topologies[i]))
			return true;
	if (n_topologies == 0)
		return true;
	if (ret_missing)
		write_difference(have, first_difference(have, topologies[0]), n_topologies, ret_missing,
				 size);
	return false;
}

static int compare_names(const void *a, const void *b)
{
	const struct volume_name *x = a;
	const struct volume_name *y = b;
	int c = strcmp(x->namespace, y->namespace);

	return c != 0 ? c : strcmp(x->id, y->id);
}

uint32_t volume_names_count(struct volume_name *names, size_t n)
{
	uint32_t count = 0;

	if (n > 1)
		qsort(names, n, sizeof(*names), compare_names);
	for (size_t i = 0; i < n; i++)
		count += i == 0 || compare_names(&names[i - 1], &names[i]) != 0;
	return count;
}

static enum obstacle check_node(const struct feasibility *in, char ret[static FEASIBILITY_REASON_SIZE])
{
	const struct node *node = in->node;
	char disk[NODE_DISK_TEXT_SIZE];

	if (!node || node->boot_id[0] == '\0')
		return found(OBSTACLE_UNKNOWN, ret,
			     "node %s has never connected; holdfast node status lists those that have",
			     in->node_id);
	if (!in->is_connected && !in->may_wait)
		return found(OBSTACLE_DISCONNECTED, ret, "node %s is not connected", in->node_id);
	if (node->status == NODE_DRAINING || (node->drain.started_ms > 0 && node->drain.done_ms == 0))
		return found(OBSTACLE_DRAINING, ret,
			     "node %s is being drained%s%s; see holdfast node status %s", in->node_id,
			     node->drain.reason[0] != '\0' ? ": " : "", node->drain.reason, in->node_id);
	if (node->ineligible)
		return found(OBSTACLE_INELIGIBLE, ret,
			     "node %s takes nothing new%s%s; holdfast node eligibility %s --enable",
			     in->node_id, node->eligibility_reason[0] != '\0' ? ": " : "",
			     node->eligibility_reason, in->node_id);
	if (in->is_connected && node_disk_of(node) != NODE_DISK_ROOM)
		return found(OBSTACLE_DISK, ret,
			     "node %s takes nothing new: %s; see there: holdfast agent status", in->node_id,
			     node_disk_text(node_disk_of(node), node->disk_path, disk));
	if (in->n_allocs >= NODE_ALLOCS_MAX)
		return found(OBSTACLE_MAX_ALLOCS, ret,
			     "node %s has %zu allocations, the most an agent takes; stop one: holdfast alloc "
			     "status --node %s",
			     in->node_id, in->n_allocs, in->node_id);
	if (in->is_connected && in->unmet)
		return found(OBSTACLE_CONSTRAINT, ret,
			     "node %s does not meet: %s; see holdfast node status %s", in->node_id, in->unmet,
			     in->node_id);
	return OBSTACLE_NONE;
}

/* The node was named, and its agent waits as long for the plugin before it mounts. */
static bool is_waited_for(const struct feasibility *in, const struct node_plugin *plugin)
{
	return in->may_wait && in->is_connected && in->now_ms > 0 &&
	       in->now_ms - plugin->update_time_ms < PLUGIN_PATIENCE_MS;
}

static enum obstacle check_plugin(const struct feasibility *in, const struct wanted_volume *wanted,
				  char ret[static FEASIBILITY_REASON_SIZE])
{
	const struct volume *volume = wanted->volume;
	const struct node_plugin *plugin = wanted->plugin;

	if (!plugin || !plugin->has_node)
		return found(OBSTACLE_NO_PLUGIN, ret,
			     "volume %s: node %s does not offer plugin %s%s%s; see holdfast node status %s",
			     volume->id, in->node_id, volume->plugin_id,
			     volume->profile[0] != '\0' ? " with profile " : "", volume->profile,
			     in->node_id);
	if (!node_plugin_is_healthy(plugin) && !is_waited_for(in, plugin))
		return found(
			OBSTACLE_UNHEALTHY, ret,
			"volume %s: plugin %s on node %s is not healthy: %s; see holdfast plugin status %s",
			volume->id, volume->plugin_id, in->node_id, plugin->health_description,
			volume->plugin_id);
	if (wanted->controller_required && !wanted->controller_healthy)
		return found(
			OBSTACLE_NO_CONTROLLER, ret,
			"volume %s: no connected node runs a healthy controller of plugin %s; see holdfast "
			"plugin status %s",
			volume->id, volume->plugin_id, volume->plugin_id);
	if (wanted->lacks_provider_id)
		return found(
			OBSTACLE_NO_PROVIDER_ID, ret,
			"volume %s: plugin %s reports no provider's id of node %s, or another node's; see "
			"holdfast plugin status %s",
			volume->id, volume->plugin_id, in->node_id, volume->plugin_id);
	if (wanted->is_fenced)
		return found(OBSTACLE_FENCED, ret,
			     "volume %s: the storage of plugin %s refuses node %s, which was fenced. "
			     "A reboot of node %s begins the lift of the fence; see holdfast node fence",
			     volume->id, volume->plugin_id, in->node_id, in->node_id);
	return OBSTACLE_NONE;
}

static enum obstacle check_topology(const struct feasibility *in, const struct wanted_volume *wanted,
				    char ret[static FEASIBILITY_REASON_SIZE])
{
	char missing[FEASIBILITY_REASON_SIZE];

	if (topology_matches(&wanted->plugin->node.topology, wanted->topologies, wanted->n_topologies,
			     missing, sizeof(missing)))
		return OBSTACLE_NONE;
	return found(OBSTACLE_TOPOLOGY, ret, "volume %s cannot be reached from node %s: %s%s",
		     wanted->volume->id, in->node_id, missing,
		     wanted->plugin->topology_required ? "" : " (its plugin announces no topologies)");
}

/* All volumes of the request that one plugin serves count, not only this one. */
static enum obstacle check_max_volumes(const struct feasibility *in, const struct wanted_volume *wanted,
				       char ret[static FEASIBILITY_REASON_SIZE])
{
	int64_t max = wanted->plugin->node.max_volumes;
	uint32_t asked = 0;

	for (size_t i = 0; i < in->n_volumes; i++)
		asked += str_eq(in->volumes[i].volume->plugin_id, wanted->volume->plugin_id);
	if (max <= 0 || (int64_t)wanted->others + asked <= max)
		return OBSTACLE_NONE;
	return found(OBSTACLE_MAX_VOLUMES, ret,
		     "node %s takes %" PRId64 " volumes of plugin %s: it has %" PRIu32 " others and %" PRIu32
		     " are asked for",
		     in->node_id, max, wanted->volume->plugin_id, wanted->others, asked);
}

static enum obstacle check_claims(const struct feasibility *in, const struct wanted_volume *wanted,
				  char ret[static FEASIBILITY_REASON_SIZE])
{
	const struct volume_request *request = wanted->request;
	const struct claim *blocker = NULL;

	if (!volume_has_capability(wanted->volume, request->access_mode, request->attachment_mode))
		return found(
			OBSTACLE_MODE, ret,
			"volume %s is not registered with the capability %s/%s; add a capability block and "
			"register it again",
			wanted->volume->id, access_mode_name(request->access_mode),
			attachment_mode_name(request->attachment_mode));
	if (admission_has_room(volume_request_capability(request), volume_request_mode(request), in->node_id,
			       wanted->claims, wanted->n_claims, &blocker))
		return OBSTACLE_NONE;
	if (blocker && !str_eq(blocker->namespace, wanted->volume->namespace))
		return found(OBSTACLE_CLAIMED, ret,
			     "volume %s is not free for %s (%s) on node %s: " FOREIGN_VOLUME
			     " holds its storage",
			     wanted->volume->id, claim_mode_name(volume_request_mode(request)),
			     access_mode_name(request->access_mode), in->node_id);
	if (blocker && blocker->attachment_mode != request->attachment_mode)
		return found(OBSTACLE_CLAIMED, ret,
			     "volume %s is attached as %s by allocation %s; %s was asked for",
			     wanted->volume->id, attachment_mode_name(blocker->attachment_mode),
			     blocker->allocation_id, attachment_mode_name(request->attachment_mode));
	if (!blocker)
		return found(OBSTACLE_MODE, ret,
			     "volume %s: access mode %s does not allow writing; set read_only = true",
			     wanted->volume->id, access_mode_name(request->access_mode));
	return found(OBSTACLE_CLAIMED, ret,
		     "volume %s is not free for %s (%s) on node %s: held for %s by allocation %s on node %s, "
		     "claim %s",
		     wanted->volume->id, claim_mode_name(volume_request_mode(request)),
		     access_mode_name(request->access_mode), in->node_id, claim_mode_name(blocker->mode),
		     blocker->allocation_id, blocker->node_id, claim_state_name(blocker->state));
}

static bool offers_network(const Holdfast__Driver__V1__CapabilitiesResponse *offer,
			   Holdfast__Driver__V1__NetworkMode mode)
{
	for (size_t i = 0; i < offer->n_network_modes; i++)
		if (offer->network_modes[i] == mode)
			return true;
	return mode == HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_UNSPECIFIED;
}

static bool offers_propagation(const Holdfast__Driver__V1__CapabilitiesResponse *offer,
			       Holdfast__Driver__V1__MountPropagation propagation)
{
	for (size_t i = 0; i < offer->n_mount_propagation; i++)
		if (offer->mount_propagation[i] == propagation)
			return true;
	return propagation == HOLDFAST__DRIVER__V1__MOUNT_PROPAGATION__MOUNT_PROPAGATION_PRIVATE;
}

/* The first option of the task that the driver does not offer, or NULL. */
static const char *lacking(const Holdfast__Driver__V1__TaskConfig *task,
			   Holdfast__Driver__V1__NetworkMode network,
			   const Holdfast__Driver__V1__CapabilitiesResponse *offer)
{
	static const char *const modes[] = {"network", "network host", "network none", "network isolated"};

	if (!offers_network(offer, network))
		return (size_t)network < ARRAY_SIZE(modes) ? modes[network] : modes[0];
	for (size_t i = 0; i < task->n_volumes; i++)
		if (!offers_propagation(offer, task->volumes[i]->propagation))
			return task->volumes[i]->propagation ==
					       HOLDFAST__DRIVER__V1__MOUNT_PROPAGATION__MOUNT_PROPAGATION_BIDIRECTIONAL
				       ? "propagation bidirectional"
				       : "propagation host-to-task";
	if (task->csi_plugin && !offer->csi_plugins)
		return "csi_plugin";
	if (restart_is_wanted(task->restart) && !task->restart->by_default && !offer->restart_tasks)
		return "restart";
	if (task->health && !offer->health_checks)
		return "health";
	return task->disable_logs && !offer->disable_log_collection ? "disable_logs" : NULL;
}

bool feasibility_find_lack(const struct wanted_task *wanted, enum network_mode network_of_all,
			   const char *node_id, char ret[static FEASIBILITY_REASON_SIZE])
{
	const Holdfast__Driver__V1__TaskConfig *task = wanted->task;
	const Holdfast__Driver__V1__CapabilitiesResponse *offer = wanted->driver->capabilities;
	Holdfast__Driver__V1__NetworkMode network =
		network_of_all == NETWORK_UNSPECIFIED ? task->network
						      : (Holdfast__Driver__V1__NetworkMode)network_of_all;
	const char *lacks = lacking(task, network, offer);
	char forbidden[TASK_LIMITS_TEXT_SIZE];

	if (lacks)
		(void)found(OBSTACLE_DRIVER_LACKS, ret,
			    "task %s asks for %s, which driver %s of node %s does not offer", task->task,
			    lacks, task->driver, node_id);
	else if (task_limits_find_forbidden(task, network, wanted->plugin_id, offer, forbidden))
		(void)found(OBSTACLE_DRIVER_LACKS, ret,
			    "task %s asks for %s, which root's file of driver %s on node %s does not allow",
			    task->task, forbidden, task->driver, node_id);
	else
		return false;
	return true;
}

static enum obstacle check_task(const struct feasibility *in, const struct wanted_task *wanted,
				char ret[static FEASIBILITY_REASON_SIZE])
{
	const Holdfast__Driver__V1__TaskConfig *task = wanted->task;
	const Holdfast__V1__NodeDriver *driver = wanted->driver;

	if (!driver)
		return found(OBSTACLE_NO_DRIVER, ret,
			     "task %s needs driver %s, which node %s does not have; holdfast node status %s",
			     task->task, task->driver, in->node_id, in->node_id);
	if (!driver->healthy || !driver->capabilities)
		return found(OBSTACLE_DRIVER_UNHEALTHY, ret, "driver %s of node %s is not healthy: %s",
			     task->driver, in->node_id, driver->health_description);
	return feasibility_find_lack(wanted, in->network, in->node_id, ret) ? OBSTACLE_DRIVER_LACKS
									    : OBSTACLE_NONE;
}

const char *feasibility_network_driver(const struct wanted_task *tasks, size_t n)
{
	const char *maker = NULL;

	for (size_t i = 0; i < n; i++) {
		const Holdfast__V1__NodeDriver *driver = tasks[i].driver;

		if (!driver || !driver->capabilities || !driver->capabilities->must_initiate_network)
			continue;
		if (maker && !str_eq(maker, tasks[i].task->driver))
			return NULL;
		maker = tasks[i].task->driver;
	}
	return maker || n == 0 ? maker : tasks[0].task->driver;
}

static enum obstacle check_network(const struct feasibility *in, char ret[static FEASIBILITY_REASON_SIZE])
{
	if (in->network != NETWORK_ISOLATED || feasibility_network_driver(in->tasks, in->n_tasks))
		return OBSTACLE_NONE;
	return found(OBSTACLE_DRIVER_LACKS, ret,
		     "network isolated: the tasks have two drivers on node %s that must make it themselves "
		     "(must_initiate_network), and only one can; use one of them for all",
		     in->node_id);
}

enum obstacle feasibility_check(const struct feasibility *in, char ret_reason[static FEASIBILITY_REASON_SIZE])
{
	static enum obstacle (*const checks[])(const struct feasibility *, const struct wanted_volume *,
					       char[static FEASIBILITY_REASON_SIZE]) = {
		check_plugin, check_topology, check_max_volumes, check_claims};
	enum obstacle obstacle = check_node(in, ret_reason);

	/* of a node that is away nothing may be known: its driver refuses what it does not offer */
	for (size_t i = 0; obstacle == OBSTACLE_NONE && in->is_connected && i < in->n_tasks; i++)
		obstacle = check_task(in, &in->tasks[i], ret_reason);
	if (obstacle == OBSTACLE_NONE && in->is_connected && in->n_tasks > 0)
		obstacle = check_network(in, ret_reason);

	for (size_t c = 0; c < ARRAY_SIZE(checks); c++)
		for (size_t i = 0; obstacle == OBSTACLE_NONE && i < in->n_volumes; i++)
			obstacle = checks[c](in, &in->volumes[i], ret_reason);
	if (obstacle == OBSTACLE_NONE)
		ret_reason[0] = '\0';
	return obstacle;
}

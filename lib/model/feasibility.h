/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Can an allocation go to a node? Pure; the same check whether the node was named or is one of many. */

#include "base/error.h"
#include "model/alloc.h"
#include "model/claim.h"
#include "model/node.h"
#include "model/volume.h"

#include <holdfast/v1/types.pb-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	FEASIBILITY_REASON_SIZE = 512,
	PLUGIN_PATIENCE_MS = 60000, /* plugin_wait: a plugin that fails is restarted within it */
};

/* Obstacles, in the order in which they are looked for. */
enum obstacle {
	OBSTACLE_NONE,
	OBSTACLE_UNKNOWN, /* the node has never connected */
	OBSTACLE_DISCONNECTED,
	OBSTACLE_DRAINING,
	OBSTACLE_INELIGIBLE,
	OBSTACLE_DISK, /* the agent cannot journal new work */
	OBSTACLE_MAX_ALLOCS,
	OBSTACLE_CONSTRAINT,
	OBSTACLE_NO_DRIVER,
	OBSTACLE_DRIVER_UNHEALTHY,
	OBSTACLE_DRIVER_LACKS, /* what a task asks of it */
	OBSTACLE_NO_PLUGIN,
	OBSTACLE_UNHEALTHY,
	OBSTACLE_NO_CONTROLLER,
	OBSTACLE_NO_PROVIDER_ID, /* the provider's of the node */
	OBSTACLE_FENCED,
	OBSTACLE_TOPOLOGY,
	OBSTACLE_MAX_VOLUMES,
	OBSTACLE_MODE,
	OBSTACLE_CLAIMED,
	OBSTACLE_N,
};

/* One volume of the request, in its state on this node. */
struct wanted_volume {
	const struct volume *volume;
	const struct volume_request *request;
	const struct node_plugin *plugin; /* entry of the node that serves it; may be NULL */
	bool controller_required;
	bool controller_healthy;		   /* some connected node runs one */
	Holdfast__V1__Topology *const *topologies; /* where the volume can be reached: any one of them */
	size_t n_topologies;			   /* 0: anywhere */
	bool lacks_provider_id; /* it must be attached, and the provider's id of the node is not known */
	bool is_fenced;		/* the storage refuses the node in this boot */
	uint32_t others; /* distinct volumes of its plugin on the node that this request does not ask for */
	const struct claim *const *claims; /* live claims of the volume that bear on this node */
	size_t n_claims;
};

/* One task of the request, in its state on this node. */
struct wanted_task {
	const Holdfast__Driver__V1__TaskConfig *task;
	const Holdfast__V1__NodeDriver *driver; /* that the node reports, of that name; may be NULL */
	const char *plugin_id;			/* the CSI plugin that it is, or NULL */
};

struct feasibility {
	const struct node *node; /* NULL if this name is unknown */
	const char *node_id;
	bool is_connected;
	size_t n_allocs; /* live ones that the node has */
	bool may_wait;	 /* the node was named: it need not be connected now */
	int64_t now_ms;	 /* 0: a plugin must be healthy now */
	const struct wanted_volume *volumes;
	size_t n_volumes;
	const struct wanted_task *tasks;
	size_t n_tasks;
	enum network_mode network; /* of all tasks */
	const char *unmet;	   /* what the node does not meet, a sentence part; NULL: it meets all */
};

/** The first obstacle, with one line for people in @ret_reason (may be empty). It names node, volume, the
 * requirement and the present state. */
enum obstacle feasibility_check(const struct feasibility *in,
				char ret_reason[static FEASIBILITY_REASON_SIZE]);

/** Does @wanted, whose driver has reported its capabilities, ask for what the driver does not offer or root's
 * file there does not allow? @ret describes it for people. @network of all tasks, as in struct feasibility.
 */
bool feasibility_find_lack(const struct wanted_task *wanted, enum network_mode network, const char *node_id,
			   char ret[static FEASIBILITY_REASON_SIZE]);

/** Does a node with @have reach a volume with one of @topologies? Every segment that a topology names must be
 * equal; further segments of the node are no obstacle. @ret_missing of @size gets the segment of the first
 * topology that differs; may be NULL. Source: nomad-facts 2.7, N21. */
bool topology_matches(const struct topology *have, Holdfast__V1__Topology *const *topologies,
		      size_t n_topologies, char *ret_missing, size_t size);

/** Volumes, by namespace and id, for counting. */
struct volume_name {
	const char *namespace;
	const char *id;
};

/** How many different volumes @names has; puts them in order. */
uint32_t volume_names_count(struct volume_name *names, size_t n);

/** For "12 nodes are ...": "not connected", "without a healthy plugin". */
const char *obstacle_words(enum obstacle obstacle);

/** STATUS_RESOURCE_EXHAUSTED when the node is full, STATUS_UNAVAILABLE for what comes back by itself (plugin,
 * controller), STATUS_NOT_FOUND for an unknown node, else STATUS_FAILED_PRECONDITION. */
enum status obstacle_status(enum obstacle obstacle);

/** Name of the driver that makes the isolated network of @tasks: that which must, else that of the first
 * task. NULL: two must, and neither can join the other's. */
const char *feasibility_network_driver(const struct wanted_task *tasks, size_t n);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Converts the answers of a plugin to an entry of the node's fingerprint. Pure.
 *
 * Answers come from another program. A used name that does not fit is refused with the plugin's and the
 * call's name, never cut; unknown numbers are ignored; a repeated value counts once. */

#include "base/error.h"
#include "model/node.h"

#include <csi/v1/csi.pb-c.h>
#include <csi_addons/fence.pb-c.h>
#include <csi_addons/identity.pb-c.h>
#include <stdbool.h>
#include <stddef.h>

/* The services that the plugin must have. */
struct facts_wanted {
	bool is_stated; /* else the plugin may have either half, or both */
	bool has_controller;
	bool has_node;
};

/** GetPluginInfo: provider and its version. @facts is filled on success only. */
enum status facts_take_info(struct node_plugin *facts, const Csi__V1__GetPluginInfoResponse *pb,
			    struct error *err);

/** GetPluginCapabilities: controller_required, topology_required. Returns whether the controller service was
 * announced. */
bool facts_take_services(struct node_plugin *facts, const Csi__V1__GetPluginCapabilitiesResponse *pb);

/** ControllerGetCapabilities: the controller half. */
void facts_take_controller(struct node_plugin *facts, const Csi__V1__ControllerGetCapabilitiesResponse *pb);

/** NodeGetCapabilities: the node half, except the results of NodeGetInfo. */
void facts_take_node(struct node_plugin *facts, const Csi__V1__NodeGetCapabilitiesResponse *pb);

/** NodeGetInfo: the provider's node id, how many volumes, topology. */
enum status facts_take_node_info(struct node_plugin *facts, const Csi__V1__NodeGetInfoResponse *pb,
				 struct error *err);

/** csi-addons' GetCapabilities: whether the controller half can fence. Returns whether GetFenceClients was
 * announced. */
bool facts_take_addons(struct node_plugin *facts, const Identity__GetCapabilitiesResponse *pb);

/** GetFenceClients: this node's addresses. An answer with an address that cannot be kept, or with too many,
 * becomes one FENCE_NET_UNREADABLE: the node would be fenced in part only. */
void facts_take_fence_clients(struct node_plugin *facts, const Fence__GetFenceClientsResponse *pb);

/** Probe: absent means ready. */
bool facts_is_ready(const Csi__V1__ProbeResponse *pb);

/** Has it what it must have, and anything at all? */
enum status facts_check(const struct node_plugin *facts, const struct facts_wanted *wanted,
			struct error *err);

/* The two instances that an entry speaks of, which may be the same one. */
struct facts_halves {
	const struct node_plugin *node;	      /* facts of the healthy instance for node calls; may be NULL */
	const struct node_plugin *controller; /* likewise for controller calls */
	bool keeps_node;		      /* no instance there is known to be without a node service */
	bool keeps_controller;
	const char *reason; /* why a half is not healthy */
};

/** Merges the current facts of the plugin. A half without a healthy instance keeps its previous facts. */
void facts_merge(const struct node_plugin *before, const struct facts_halves *halves,
		 struct node_plugin *ret);

/** Returns whether both have the same facts. */
bool facts_eq(const struct node_plugin *a, const struct node_plugin *b);

/** Returns the same without health: whether a write to disk is unnecessary. */
bool facts_eq_lasting(const struct node_plugin *a, const struct node_plugin *b);

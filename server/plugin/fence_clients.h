/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The addresses by which the storage of a plugin knows a node, as the node has reported them. A network fence
 * has the storage refuse them. One record per node and plugin.
 *
 * A node is less trusted than the server. Within a boot a report only adds addresses: those from before its
 * loss stay part of its fence. A later boot begins again. A node with an address that another node has
 * reported, with an unreadable one, or with too many, is not fenced by them: it could have another node
 * fenced, or would be fenced in part. That is an alarm.
 *
 * An address that a storage refuses belongs to that fence until it is lifted, whichever machine reports it: a
 * second fence by it would let the fenced machine in when it is lifted. */

#include "base/error.h"
#include "model/node.h"
#include "state/change.h"

#include <stdbool.h>
#include <stddef.h>

struct Holdfast__V1__Fence;
struct Holdfast__V1__FenceClients;
struct server;

enum { FENCE_CLIENTS_WARNING_SIZE = 512 };

/** Stage that what @node_id reported in other boots than @boot_id is over, except while a former machine has
 * claims: it can be fenced by that. Precedes the reports of the boot. */
void fence_clients_begin(struct server *server, struct change *change, const char *node_id,
			 const char *boot_id);

/** Stage in @change the report of @node_id, which is @machine, in @boot_id. A repeat changes nothing. A
 * plugin is left out if the node has addresses at NODE_PLUGINS_MAX others, also those that it reports no
 * longer: nodes decide the names of plugins, and the records stay for the boot. */
void fence_clients_take(struct server *server, struct change *change, const char *node_id,
			const char *boot_id, const char *machine, const struct node_plugin *plugin);

/** The addresses of @node_id at @plugin_id in @boot_id, borrowed until the next change.
 * STATUS_FAILED_PRECONDITION: it has not reported any in that boot, or cannot be fenced by them. */
enum status fence_clients_find(struct server *server, const char *node_id, const char *plugin_id,
			       const char *boot_id, const struct Holdfast__V1__FenceClients **ret,
			       struct error *err);

/** Does the network fence keep its addresses? Until the storage accepts them again, or was not asked. */
bool fence_clients_is_kept(const struct Holdfast__V1__Fence *fence);

/** Is @fence one of the machine that has reported @clients, in their boot? */
bool fence_clients_is_own(const struct Holdfast__V1__Fence *fence,
			  const struct Holdfast__V1__FenceClients *clients);

/** Refuses another fence because of @fence, which keeps its addresses. */
enum status fence_clients_refuse(const struct Holdfast__V1__Fence *fence, struct error *err);

/** Stage that nothing of the node is known. */
void fence_clients_forget(struct server *server, struct change *change, const char *node_id);

/** How many nodes and plugins cannot be fenced by their reports. */
size_t fence_clients_refused(struct server *server);

/** The text of an alarm about the first of those. False: no alarm. */
bool fence_clients_warning(struct server *server, char ret[static FENCE_CLIENTS_WARNING_SIZE]);

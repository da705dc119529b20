/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Whose storage a request names, by ids of providers and of hosts.
 *
 * An id that a volume or snapshot of the request's namespace has is that namespace's. Any other id needs the
 * right to adopt (csi-adopt-volume) in that namespace, and is refused alike whether another namespace has it
 * or no record does. An id that another namespace has needs the right there as well.
 *
 * One storage has one volume, or several that say so (`shares`) and have one claim table. */

#include "access/access.h"
#include "base/error.h"
#include "model/volume_detail.h"
#include "rpc/server.h"
#include "state/state.h"

#include <stdbool.h>

struct server;

/** May the volume be stored as @parts? @entry as it is stored now; NULL: it is new.
 * STATUS_PERMISSION_DENIED without the right to adopt; STATUS_ALREADY_EXISTS names the volume that has the
 * storage, if the caller may see that; STATUS_FAILED_PRECONDITION: `shares` names another storage. To be
 * called in the turn in which it is stored. */
enum status identity_check_volume(struct server *server, const struct rpc_call *call,
				  const struct volume_entry *entry, const struct volume_parts *parts,
				  struct error *err);

/** May the provider be asked to copy what @parts names, a volume or a snapshot? @snapshot the record of that
 * snapshot; NULL: there is none. */
enum status identity_check_source(struct server *server, const struct rpc_call *call,
				  const struct volume_parts *parts, const Holdfast__V1__Snapshot *snapshot,
				  struct error *err);

/** Is @external_id, by which the provider answered to the creation of @volume, no other volume's?
 * STATUS_ALREADY_EXISTS if it is. */
enum status identity_check_made(struct server *server, const struct volume *volume, const char *external_id,
				struct error *err);

/** The provider deletes by its id alone: is there no other volume of that id? STATUS_FAILED_PRECONDITION
 * names it. @call NULL: the server itself. */
enum status identity_check_alone(struct server *server, const struct rpc_call *call,
				 const struct volume_entry *entry, struct error *err);

/* What of a provider's listing one caller may be shown. Good for the duration of a callback. */
struct identity_sight {
	struct access_scope scope; /* namespaces whose ids the caller sees */
	bool sees_unknown;	   /* and those that no record knows */
};

void identity_sight_init(struct server *server, const struct rpc_call *call, struct identity_sight *ret);

/** That the provider has a volume of that id? */
bool identity_sees_volume(struct server *server, struct identity_sight *sight, const char *plugin_id,
			  const char *external_id);

/** A snapshot? @known its record; NULL: there is none. */
bool identity_sees_snapshot(struct identity_sight *sight, const Holdfast__V1__Snapshot *known);

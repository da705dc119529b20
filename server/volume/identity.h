/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Checks of storage that a request names by ids of providers and of hosts.
 *
 * An id that a volume or snapshot of the request's namespace has belongs to that namespace. Any other id
 * needs the right to adopt (csi-adopt-volume) in that namespace. The refusal is the same whether another
 * namespace has the id or no record does. An id that another namespace has needs the right there as well.
 *
 * One storage has one volume, or several that declare it (`shares`) and have one claim table. A second name
 * whose context or profile is another one than the first one's needs the right to adopt: plugins mount by
 * context. */

#include "access/access.h"
#include "base/error.h"
#include "model/volume_detail.h"
#include "plugin/parameters.h"
#include "rpc/server.h"
#include "state/state.h"

#include <stdbool.h>

struct server;

/* Each try to place an allocation looks at all names of its storage. */
enum { STORAGE_NAMES_MAX = 64 };

/** May the caller choose these parameters or secrets, which may name storage that it has no right to?
 * @namespace where the right counts, NULL: in all. STATUS_PERMISSION_DENIED names the first one that
 * server.hcl does not list, see plugin/parameters.h. */
enum status identity_check_parameters(struct server *server, const struct rpc_call *call,
				      const char *plugin_id, const char *namespace, enum parameters_kind kind,
				      struct message_text_entry *const *map, size_t n, struct error *err);

/** Is the storage of the entry, in any context, a block device by one of its names? */
bool identity_has_device(struct server *server, const struct volume_entry *entry);

/** May volumes of a CSI plugin be block devices? STATUS_FAILED_PRECONDITION unless server.hcl names the file
 * system of those without one, or all callers have all rights. */
enum status identity_check_device(struct server *server, const char *plugin_id, struct error *err);

/** May the volume be stored as @parts? @entry as it is stored now; NULL: it is new.
 * STATUS_PERMISSION_DENIED without the right to adopt (also for mount options that are not plain, and for
 * secrets that are left out);
 * STATUS_ALREADY_EXISTS names the volume that has the storage, if the caller may see that;
 * STATUS_FAILED_PRECONDITION: `shares` names another storage; STATUS_RESOURCE_EXHAUSTED: the storage has
 * STORAGE_NAMES_MAX names. To be called in the turn in which it is stored. */
enum status identity_check_volume(struct server *server, const struct rpc_call *call,
				  const struct volume_entry *entry, const struct volume_parts *parts,
				  struct error *err);

/** May the provider be asked to copy the volume or snapshot that @parts names? It copies all that has the id
 * of a volume, in any context. The other namespaces that have some of it are noted in @parts, on success. If
 * source_lost is stored, or the copy would reach more than its source (noted as source_adopted), the caller
 * needs the right to adopt, too.
 * @snapshot snapshots_source() of @parts */
enum status identity_check_source(struct server *server, const struct rpc_call *call,
				  struct volume_parts *parts, const Holdfast__V1__Snapshot *snapshot,
				  struct error *err);

/** The same later, when no caller waits. STATUS_FAILED_PRECONDITION: a namespace that is not noted in @parts
 * has got some of it since, or a clone would reach more than its source does now. That must be stored as
 * source_lost: it may be so no longer. */
enum status identity_check_source_still(struct server *server, const struct volume_parts *parts,
					const Holdfast__V1__Snapshot *snapshot, struct error *err);

/** May the copy of @detail, of @volume, have the data of @namespace? */
bool identity_is_source_of(const struct volume *volume, const Holdfast__V1__VolumeDetail *detail,
			   const char *namespace);

/** Has the namespace of @volume a registered volume of its id already, in any context? */
bool identity_is_owner(struct server *server, const struct volume *volume);

/** May the provider be asked to copy @volume, which is of a namespace of the caller? As for a source. @call
 * NULL: the server itself, which may copy no other namespace's storage. */
enum status identity_check_copied(struct server *server, const struct rpc_call *call,
				  const struct volume *volume, struct error *err);

/** May @volume, once it is registered, have a schedule? The server copies no other namespace's storage. */
enum status identity_check_scheduled(struct server *server, const struct volume *volume, struct error *err);

/** May the caller have the provider delete all that has the id of the volume? Only with the right to adopt if
 * mounts of the volume may show a part of it. */
enum status identity_check_delete(struct server *server, const struct rpc_call *call,
				  const struct volume_entry *entry, struct error *err);

/** May the caller have the record of the volume forgotten? A creation by the same name may get all of its
 * storage again, without what confined it: only with the right to adopt if something did. A block device is
 * kept until the plugin's volumes have a type, another name of it is one, or the plugin has gone. */
enum status identity_check_forget(struct server *server, const struct rpc_call *call,
				  const struct volume_entry *entry, struct error *err);

/** Is the storage of @volume, with the id and context by which the provider answered to its creation, no
 * other volume's, nor what a claim that a node reported may be on? STATUS_ALREADY_EXISTS if it is. */
enum status identity_check_made(struct server *server, const struct volume *volume, struct error *err);

/** Is this the only volume of its id, and may no claim that a node has reported be on it? The provider
 * deletes by id. STATUS_FAILED_PRECONDITION names the other one. @call NULL: the server itself. */
enum status identity_check_alone(struct server *server, const struct rpc_call *call,
				 const struct volume_entry *entry, struct error *err);

/* The part of a provider's listing that one caller may see. Valid for the duration of a callback. */
struct identity_sight {
	struct access_scope scope; /* namespaces whose ids the caller sees */
	bool sees_unknown;	   /* and those that no record knows */
};

void identity_sight_init(struct server *server, const struct rpc_call *call, struct identity_sight *ret);

/** That the provider has a volume of that id? */
bool identity_sees_volume(struct server *server, struct identity_sight *sight, const char *plugin_id,
			  const char *external_id);

/** The same for a snapshot. @known its record; NULL: no record. */
bool identity_sees_snapshot(struct identity_sight *sight, const Holdfast__V1__Snapshot *known);

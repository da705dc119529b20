/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The parts of a volume in the store and in memory, see model/volume_detail.h. */

#include "model/volume_detail.h"
#include "state/change.h"
#include "state/state.h"

/** STATUS_NOT_FOUND if no volume has exactly this id in exactly this namespace. */
enum status volume_store_find(struct server *server, const char *namespace, const char *id,
			      struct volume_entry **ret, struct error *err);

/** Returns the details stored with the volume; NULL: no details. Borrowed until their next change. */
const Holdfast__V1__VolumeDetail *volume_detail_of(struct server *server, const struct volume *volume);
const Holdfast__V1__VolumeSecrets *volume_secrets_of(struct server *server, const struct volume *volume);

/** All parts as they are now, to be changed and staged. @ret to be released. */
enum status volume_store_load(struct server *server, const struct volume_entry *entry,
			      struct volume_parts *ret, struct error *err);

/** Stages all parts: always the volume, so that its waiters are tried again; the others if they are not
 * empty, and else their deletion. Sets the time of modification. */
void volume_store_stage(struct server *server, struct change *change, struct volume_parts *parts);

/** Stages the deletion of the volume and of all its records: details, secrets, the history of its claims.
 * Its generation becomes the floor of those to come. There must be no live claim. */
void volume_store_stage_deletion(struct server *server, struct change *change, struct volume_entry *entry);

/** Revision of the last durable change of what a read of the volume shows. */
uint64_t volume_store_index(struct server *server, struct volume_entry *entry);

/** Is the provider still creating the volume? */
bool volume_is_creating(struct server *server, const struct volume *volume);

/** May the volume be claimed, as far as its provider goes? STATUS_FAILED_PRECONDITION while it is being
 * created or deleted there. For admission. */
enum status volume_store_check_usable(struct server *server, const struct volume *volume, struct error *err);

/** Is it the volume that the caller has read? STATUS_FAILED_PRECONDITION if its create_index differs from
 * @create_index (0: any). */
enum status volume_check_same(const struct volume *volume, uint64_t create_index, struct error *err);

/** May its provider be asked to change, copy or delete it? STATUS_FAILED_PRECONDITION for a placeholder. */
enum status volume_check_registered(const struct volume *volume, struct error *err);

enum { VOLUME_OBJECT_SIZE = 16 + NAMESPACE_MAX + VOLUME_ID_MAX }; /* "volume default/db" */

/** The volume for audit records. */
char *volume_object(const struct volume *volume, char ret[static VOLUME_OBJECT_SIZE]);

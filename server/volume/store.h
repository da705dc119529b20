/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The parts of a volume in the store and in memory, see model/volume_detail.h. */

#include "model/volume_detail.h"
#include "state/change.h"
#include "state/state.h"

/** What is stored beside the volume; NULL: nothing. Borrowed until the next change of it. */
const Holdfast__V1__VolumeDetail *volume_detail_of(struct server *server, const struct volume *volume);
const Holdfast__V1__VolumeSecrets *volume_secrets_of(struct server *server, const struct volume *volume);

/** All parts as they are now, to be changed and staged. @ret to be released. */
enum status volume_store_load(struct server *server, const struct volume_entry *entry,
			      struct volume_parts *ret, struct error *err);

/** Stage all parts: the volume always, so that who waits for it is looked at again; the others when they say
 * something, and away when they do not. Sets the time of modification. */
void volume_store_stage(struct server *server, struct change *change, struct volume_parts *parts);

/** Stage that the volume is forgotten with everything kept about it: details, secrets, the history of its
 * claims; its generation becomes the floor of those to come. Nobody may hold a live claim. */
void volume_store_stage_deletion(struct server *server, struct change *change, struct volume_entry *entry);

/** Revision of the last durable change of what a read of the volume shows. */
uint64_t volume_store_index(struct server *server, struct volume_entry *entry);

/** Whether the provider has not said yet that it made the volume. */
bool volume_is_creating(struct server *server, const struct volume *volume);

/** May the volume be claimed, as far as its provider goes? STATUS_FAILED_PRECONDITION while it is being
 * created or deleted there. For admission. */
enum status volume_store_check_usable(struct server *server, const struct volume *volume, struct error *err);

enum { VOLUME_OBJECT_SIZE = 16 + NAMESPACE_MAX + VOLUME_ID_MAX }; /* "volume default/db" */

/** The volume for audit records. */
char *volume_object(const struct volume *volume, char ret[static VOLUME_OBJECT_SIZE]);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The records of `holdfast volume docker-plugin` of the volumes that engines have made: DIR/NAME.json each,
 * and DIR/lock with a byte for each name. */

#include "base/error.h"

#include <docker/volume_plugin.pb-c.h>
#include <stdbool.h>

enum { RECORD_NAME_MAX = 64, RECORD_ID_MAX = 128, RECORD_MOUNTS_MAX = 1024 };

/** A new record of @name with the options of @request. @ret owned, record_free() */
enum status record_new(const Docker__VolumeRequest *request, Docker__VolumeRecord **ret, struct error *err);

/** STATUS_NOT_FOUND: no engine has made it here. Mounts of an earlier boot are left out.
 * @ret owned, record_free() */
enum status record_load(const char *dir, const char *name, Docker__VolumeRecord **ret, struct error *err);

/** Durable when this returns. */
enum status record_save(const char *dir, const Docker__VolumeRecord *record, struct error *err);
enum status record_remove(const char *dir, const char *name, struct error *err);

/** Remove what a process that was killed in record_save() has left, unless the name's lock is taken. */
enum status record_remove_unfinished(const char *dir, struct error *err);

/** NULL is allowed. */
void record_free(Docker__VolumeRecord *record);

/** Wait for the lock of @name, or with @is_patient false return STATUS_UNAVAILABLE at once. It is held until
 * @ret is closed. */
enum status record_lock(const char *dir, const char *name, bool is_patient, int *ret, struct error *err);

/** Call @each for every name, in no order, until it returns anything but STATUS_OK. */
enum status record_each(const char *dir,
			enum status (*each)(const char *name, void *userdata, struct error *err),
			void *userdata, struct error *err);

/** Each call counts: Docker mounts again with the same @id for `docker cp`, and podman has one for all. */
enum status record_add_mount(Docker__VolumeRecord *record, const char *id, struct error *err);

/** Takes one back. Without such a mount this does nothing. */
void record_remove_mount(Docker__VolumeRecord *record, const char *id);

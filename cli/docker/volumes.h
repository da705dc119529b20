/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The methods of a Docker volume plugin, on Holdfast's volumes: Create looks whether the server has the
 * volume, Mount claims and publishes it by an allocation of this node that mounts only, further mounts share
 * that one, the last Unmount stops it, Remove forgets. No method deletes data.
 *
 * All of it is in the records, and one method at a time works on a volume; it may be killed anywhere. Mounts
 * are counted: one whose answer is lost after its record was written stays until it is taken back. An unmount
 * is recorded after its answer, because the engine may use a mount again that it believes to have. */

#include "command/command.h"

#include <docker/volume_plugin.pb-c.h>

struct docker_volumes {
	struct invocation *inv; /* how the server is reached; --namespace is the default of that option */
	const char *dir;	/* of the records */
	const char *node;
	uint64_t timeout_us; /* for getting a volume, and again for a Remove */
};

/** Answers @method, "Mount". An error is in the answer's Err. After an Unmount without error, the caller
 * gives the engine its answer, and then calls docker_volumes_unmount() under the same lock.
 * @ret_lock of the volume, which the caller closes; -1: not locked
 * @return owned by the caller, protobuf_c_message_free_unpacked(); NULL when memory is short */
Docker__VolumeResponse *docker_volumes_answer(const struct docker_volumes *volumes, const char *method,
					      const Docker__VolumeRequest *request, int *ret_lock);

/** Takes the mount @id off the record, and releases the volume if it was the last one; the sweep finishes a
 * release that takes too long. The caller holds the lock of the volume.
 *
 * @wait the record cannot be written now: called without the lock; true: try again */
void docker_volumes_unmount(const struct docker_volumes *volumes, const char *name, const char *id, int *lock,
			    bool (*wait)(void));

/** Releases volumes that are not mounted and were not released in time: after a process was killed, or the
 * server was lost. Skips a volume in use by another process. */
void docker_volumes_sweep(const struct docker_volumes *volumes);

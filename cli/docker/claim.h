/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The allocation of a volume that engines have mounted: runs it, or finds it again, and releases it. The
 * state machine of `holdfast volume hold` (hold/hold.h) interprets each answer of the server. The record has
 * the id of the allocation before the server is asked to run it, so that there is never a second one. */

#include "call/connect.h"
#include "docker/record.h"

#include <holdfast/v1/types.pb-c.h>

struct docker_claim {
	struct invocation *inv;
	struct connection *connection;
	const char *dir;		 /* of the records */
	const char *publish_dir;	 /* of the mount helper */
	Docker__VolumeRecord *record;	 /* locked by the caller; saved at each step */
	Holdfast__V1__Allocation *alloc; /* to be run; its id is set here */
	uint64_t timeout_us;
	uint32_t wait_ms; /* in the queue of the volume; 0: not at all */
	bool is_again;	  /* an earlier release did not end it */
};

/** Has the volume published on this node, and stores its path in the record. The path is made from
 * publish_dir and the allocation's id, not from the node's report, and found in the mount table. After a
 * failure the volume is released unless another container uses it. The error has the server's reason.
 *
 * The file system of a volume for reading must itself be mounted read-only: podman mounts its source without
 * the flag that makes a publish of a writable one read-only. */
enum status docker_claim_take(struct docker_claim *claim, struct error *err);

/** Stops the allocation, if there is one, and waits until its claim is free. If that takes too long, the
 * record notes it, and the next call does it first. */
enum status docker_claim_release(struct docker_claim *claim, struct error *err);

/** Returns whether the server confirms that the allocation of the record has ended and its claim is free, or
 * does not know it, and it is not mounted. */
bool docker_claim_is_over(struct docker_claim *claim);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The allocation of a volume that engines have mounted: run, or found again, and released. What each answer
 * of the server means is decided by the state machine of `holdfast volume hold` (hold/hold.h); the record has
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
};

/** Have the volume published on this node, and its path in the record: made from publish_dir and the
 * allocation's id, then looked up in the mount table, whatever the node reports. What does not come about is
 * released, unless another container has it mounted already. The error has the server's reason.
 *
 * Of a volume for reading the file system itself has to be mounted read-only: podman mounts what it is given
 * without the flag that makes a publish of a writable one read-only. */
enum status docker_claim_take(struct docker_claim *claim, struct error *err);

/** Stop the allocation, if there is one, and wait until its claim is free. What could not be done in time is
 * noted in the record, and comes first the next time. @claim->alloc may be NULL. */
enum status docker_claim_release(struct docker_claim *claim, struct error *err);

/** Has the allocation of the record ended, with its claim free? What the server does not say has not. */
bool docker_claim_is_over(struct docker_claim *claim);

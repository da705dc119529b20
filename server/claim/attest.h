/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* An operator's attestation that a node has released volumes: weaker evidence than any other, and shown so.
 * If all claims of a volume on the node are released there, it attests that the provider has detached the
 * volume, too. That is accepted only after the controller's detach has failed, maybe for good because the
 * plugin is gone. It is recorded in addition to the evidence about the node.
 *
 * An attestation names volumes of one node in its current boot, with a reason, and is stored as a record.
 * It is proof for this epoch (see epoch.h). The node must be away, and the allocation must have been ordered
 * to stop, or be gone. An attestation with a validity waits for that order, and is over when the node
 * connects in the same boot. */

#include "base/error.h"
#include "state/state.h"

#include <holdfast/v1/types.pb-c.h>
#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

struct rpc_call;
struct server;

enum {
	ATTEST_VOLUMES_MAX = 64,
	ATTEST_VALID_MAX_MS = 7 * 24 * 3600 * 1000, /* a week */
};

/** Nodes.Attest. */
void attest_handle(struct rpc_call *call, const ProtobufCMessage *request, void *server);

/** For Volumes.Detach: frees the claims of @volume on @node by @call's attestation, one transaction per
 * claim, and audits it as @what. If @dry_run, only checks that. STATUS_FAILED_PRECONDITION: the
 * attestation is not allowed, or there is nothing to free. */
enum status attest_volume(struct server *server, const struct rpc_call *call, const char *what,
			  struct node_entry *node, struct volume_entry *volume, const char *reason,
			  bool dry_run, struct error *err);

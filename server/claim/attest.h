/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* An operator's word that a node has released volumes: weaker than any other evidence, and shown so. Of a
 * volume that all claims on the node have released, the word is that the provider has, too: it is taken when
 * the controller's detach has failed, for good maybe because the plugin is gone, and is recorded beside
 * the evidence about the node.
 *
 * It is given for named volumes of one node in the boot it is in now, with a reason, and is kept as a record:
 * as proof for this epoch (see epoch.h), and, when it is valid for some time, for claims of those volumes
 * that come into unpublishing until then and that the node does not release by itself. It never counts for
 * work that may still run: unless the claim is being released, the node must be away and the allocation must
 * have been ordered to stop, or be gone. A word that is valid for some time waits for the end of such work.
 */

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

/** For Volumes.Detach: free what @node holds of @volume by @call's word, one transaction per claim, and audit
 * it as @what; with @dry_run only see whether that may be done. STATUS_FAILED_PRECONDITION when it may not be
 * taken, or when there is nothing to free. */
enum status attest_volume(struct server *server, const struct rpc_call *call, const char *what,
			  struct node_entry *node, struct volume_entry *volume, const char *reason,
			  bool dry_run, struct error *err);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* An operator's word that a node has let go of volumes: weaker than any other evidence, and shown so. Of a
 * volume that all claims on the node have let go of, the word is that the provider has, too: it is taken when
 * the controller's detach has failed, for good maybe because the plugin is gone, and goes on record beside
 * the evidence about the node.
 *
 * It is given for named volumes of one node in the boot it is in now, with a reason, and is kept as a record:
 * as proof for this epoch (see epoch.h), and, when it is valid for some time, for claims of those volumes
 * that come into unpublishing until then and that the node does not release by itself. It never counts for
 * work that may still run: unless the claim is being released, the node must be away and the allocation must
 * have been told to stop, or be gone. A word that is valid for some time waits for the end of such work. */

#include "base/error.h"
#include "state/state.h"

#include <holdfast/v1/types.pb-c.h>
#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

struct rpc_call;
struct change;
struct server;

enum {
	ATTEST_VOLUMES_MAX = 64,
	ATTEST_RECORDS_MAX = 256,		    /* per node; the record goes with the node */
	ATTEST_VALID_MAX_MS = 7 * 24 * 3600 * 1000, /* a week */
};

/** Nodes.Attest. */
void attest_handle(struct rpc_call *call, const ProtobufCMessage *request, void *server);

/** "NAME: reason", for the record. STATUS_INVALID_ARGUMENT names @field when @reason is missing, no text or
 * too long. */
enum status attest_detail(struct server *server, const struct rpc_call *call, const char *field,
			  const char *reason, char ret[static EVIDENCE_DETAIL_MAX + 1], struct error *err);

/** STATUS_FAILED_PRECONDITION: of this volume's plugin no operator's word is taken. */
enum status attest_check_plugin(const struct server *server, const struct volume *volume, struct error *err);

/** For Volumes.Detach: free what @node holds of @volume by @call's word, one transaction per claim, and audit
 * it as @what; with @dry_run only see whether that may be done. STATUS_FAILED_PRECONDITION when it may not be
 * taken, or when there is nothing to free. */
enum status attest_volume(struct server *server, const struct rpc_call *call, const char *what,
			  struct node_entry *node, struct volume_entry *volume, const char *reason,
			  bool dry_run, struct error *err);

/** Free the claim, which is unpublishing, when a word that is still valid covers it and the node is away or
 * has failed to release it. To be called whenever the claim is driven. True: it was freed. */
bool attest_apply(struct server *server, struct claim_entry *entry);

/** Was the word given, since the last restore, that @node has let go of @volume? */
bool attest_is_proof(struct server *server, const struct node_entry *node, const struct volume *volume);

/** Must the record be kept whatever its age, because its node has still to report? */
bool attest_is_needed(struct server *server, const Holdfast__V1__Attestation *record);

/** Stage the deletion of every record about @node, which is purged. */
void attest_forget_node(struct server *server, struct change *change, const struct node_entry *node);

/* SPDX-License-Identifier: Apache-2.0 */
#include "server.h"

#include "access/access.h"
#include "access/answer.h"
#include "access/audit.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "claim/attest.h"
#include "claim/claims.h"
#include "claim/fence.h"
#include "claim/forced.h"
#include "claim/release.h"
#include "model/pb.h"
#include "state/change.h"
#include "volume/store.h"
#include "volume/view.h"
#include "volume/volumes.h"

#include <holdfast/v1/volumes.pb-c.h>
#include <stdlib.h>
#include <string.h>

/* When memory is short: a shorter list is still true. */
static void show_detached(struct server *server, const struct volumes_waiting *waiting,
			  struct volume_entry *entry, Holdfast__V1__DetachVolumeResponse *response)
{
	struct claim_entry *claim;

	if (!waiting->dry_run)
		LIST_FOREACH (claim, &entry->claims, of_volume)
			if (str_eq(claim->claim.node_id, waiting->node_id))
				release_drive(server, claim);
	(void)volume_show_claims(server, entry, waiting->node_id, waiting->since, &response->claims,
				 &response->n_claims, NULL);
	claims_hide_boots(server, waiting->call, response->claims, response->n_claims);
}

static void on_detached(struct server *server, void *userdata)
{
	cleanup_free struct volumes_waiting *waiting = userdata;
	struct volume_entry *entry = state_volume(&server->state, waiting->namespace, waiting->id);
	Holdfast__V1__DetachVolumeResponse *response = calloc(1, sizeof(*response));
	char *bypassed = NULL;

	if (!response) {
		answer_error(waiting->call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	holdfast__v1__detach_volume_response__init(response);
	if (entry)
		show_detached(server, waiting, entry, response);
	if (entry && waiting->without_plugin)
		bypassed = forced_bypassed(entry, waiting->node_id);
	if (entry && waiting->without_plugin && !waiting->dry_run)
		forced_notify(entry, waiting->node_id);
	if (bypassed)
		response->bypassed = bypassed;
	answer_durable(server, waiting->call, &response->base);
}

static bool is_held_by(const struct claim_entry *entry, const struct node_entry *node)
{
	return claim_is_live(&entry->claim) && str_eq(entry->claim.node_id, node->node.id);
}

static enum status refuse_working(struct server *server, const struct claim *claim, struct error *err)
{
	struct holder holder = claim_holder(server, claim);
	char why[EXPLAIN_SIZE];

	return error_set(err, STATUS_FAILED_PRECONDITION, 0, "volume %s is in use: %s", claim->volume_id,
			 explain_claim(claim, &holder, clock_realtime_ms(), why));
}

/* Can all claims that @node has of the volume be released without an attestation? */
static enum status check_claims(struct server *server, struct volume_entry *volume,
				const struct node_entry *node, struct error *err)
{
	const struct claim *working = NULL;
	struct claim_entry *entry;
	size_t n = 0;

	LIST_FOREACH (entry, &volume->claims, of_volume) {
		if (!is_held_by(entry, node))
			continue;
		n++;
		if (entry->claim.state < CLAIM_UNPUBLISHING)
			working = &entry->claim;
	}
	if (n == 0)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "node %s holds no claim of volume %s: nothing was changed; holdfast volume "
				 "status --why %s%s%s shows who does",
				 node->node.id, volume->volume.id, volume->volume.id,
				 NAMESPACE_OPTION(volume->namespace));
	if (working)
		return refuse_working(server, working, err);
	if (!node_is_connected(node))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "node %s is not connected and cannot be asked to release volume %s: nothing "
				 "was changed; when it is certain that it can no longer write, attest that: "
				 "holdfast volume detach %s %s%s%s --attest REASON, or have the provider cut "
				 "it off: the same with --fence REASON",
				 node->node.id, volume->volume.id, volume->volume.id, node->node.id,
				 NAMESPACE_OPTION(volume->namespace));
	return STATUS_OK;
}

static enum status check_detach(const Holdfast__V1__DetachVolumeRequest *request,
				const struct node_entry *node, struct error *err)
{
	if (request->node_id[0] == '\0')
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "node_id: missing: the node that must release volume %.128s (over HTTP "
				 "?node=ID); holdfast volume status %.128s%s%.64s shows which have it",
				 request->id, request->id, NAMESPACE_OPTION(request->namespace_));
	if (!node)
		return error_set(err, STATUS_NOT_FOUND, 0,
				 "there is no node %.64s; holdfast node status lists them", request->node_id);
	if ((request->attest_reason[0] != '\0') + (request->fence_reason[0] != '\0') +
		    (request->without_plugin_reason[0] != '\0') >
	    1)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "attest_reason, fence_reason and without_plugin_reason: give only one of "
				 "them in a request");
	return STATUS_OK;
}

static struct volumes_waiting *detach_waiting(struct rpc_call *call, const struct volume_entry *volume,
					      const struct node_entry *node,
					      const Holdfast__V1__DetachVolumeRequest *request,
					      uint64_t since)
{
	struct volumes_waiting *waiting = volumes_waiting_new(call, &volume->volume);

	if (waiting) {
		(void)str_copy(waiting->node_id, sizeof(waiting->node_id), node->node.id);
		waiting->dry_run = request->dry_run;
		waiting->since = since;
		waiting->without_plugin = request->without_plugin_reason[0] != '\0';
	}
	return waiting;
}

static enum status check_or_attest(struct server *server, struct rpc_call *call,
				   const Holdfast__V1__DetachVolumeRequest *request,
				   struct volume_entry *volume, struct node_entry *node, struct error *err)
{
	if (request->attest_reason[0] != '\0')
		return attest_volume(server, call, "Volumes.Detach", node, volume, request->attest_reason,
				     request->dry_run, err);
	if (request->fence_reason[0] != '\0')
		return fence_check(server, call, node, volume, request->fence_reason, err);
	if (request->without_plugin_reason[0] != '\0')
		return forced_begin(server, call, "Volumes.Detach", node, volume,
				    request->without_plugin_reason, request->dry_run, err);
	return check_claims(server, volume, node, err);
}

static enum status handle_detach(struct server *server, struct rpc_call *call,
				 const Holdfast__V1__DetachVolumeRequest *request, struct error *err)
{
	const char *namespace = namespace_or_default(request->namespace_);
	struct node_entry *node = state_node(&server->state, request->node_id);
	cleanup(change_release) struct change change = CHANGE_INIT; /* durable after all the others */
	const uint64_t since = kv_revision(server->kv);
	bool is_word = request->attest_reason[0] != '\0' || request->without_plugin_reason[0] != '\0';
	char object[VOLUME_OBJECT_SIZE];
	struct volume_entry *entry;
	enum status status = volume_store_find(server, namespace, request->id, &entry, err);

	if (status == STATUS_OK)
		status = check_detach(request, node, err);
	if (status == STATUS_OK)
		status = check_or_attest(server, call, request, entry, node, err);
	if (status == STATUS_OK && request->fence_reason[0] != '\0' && !request->dry_run)
		return fence_volume(server, call, node, entry, request->fence_reason, err);
	if (status != STATUS_OK)
		return status;
	/* without an attestation, only claims that are being released are driven: on_detached() does */
	if (!is_word && !request->dry_run)
		audit_write(server, &change, call, "Volumes.Detach", volume_object(&entry->volume, object),
			    "asked the node again");
	return change_commit_taking(server, &change, on_detached,
				    detach_waiting(call, entry, node, request, since), err);
}

DEFINE_WRITE_METHOD(volumes_handle_detach, Holdfast__V1__DetachVolumeRequest, "Volumes.Detach", handle_detach)

/* SPDX-License-Identifier: Apache-2.0 */
#include "session/report.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "model/pb.h"

#include <stdlib.h>
#include <string.h>

enum { CLAIMS_MAX = NODE_REPORT_ALLOCS * ALLOC_VOLUMES_MAX };
_Static_assert((int)NODE_REPORT_RELEASES <= (int)CLAIMS_MAX, "a part of releases fits");

/* One part, being filled. */
struct part {
	Holdfast__V1__NodeReport report;
	Holdfast__V1__Allocation *allocs[NODE_REPORT_ALLOCS]; /* owned, as the claims */
	Holdfast__V1__Claim *claims[CLAIMS_MAX];
	ProtobufCBinaryData tickets[CLAIMS_MAX]; /* borrowed from the records */
};

static void part_clear(struct part *part, uint64_t epoch)
{
	for (size_t i = 0; i < part->report.n_allocations; i++)
		holdfast__v1__allocation__free_unpacked(part->allocs[i], NULL);
	for (size_t i = 0; i < part->report.n_claims; i++)
		holdfast__v1__claim__free_unpacked(part->claims[i], NULL);
	holdfast__v1__node_report__init(&part->report);
	part->report.epoch = epoch;
	part->report.allocations = part->allocs;
	part->report.claims = part->claims;
	part->report.tickets = part->tickets;
}

static void part_free(struct part *part)
{
	part_clear(part, 0);
	free(part);
}
DEFINE_CLEANUP(struct part, part_free)

/* @ticket NULL: there is no ticket. */
static bool add_claim(struct part *part, const struct claim *claim, const struct ticket *ticket)
{
	Holdfast__V1__Claim *pb = claim_to_pb(claim);

	if (!pb)
		return false;
	part->claims[part->report.n_claims++] = pb;
	part->tickets[part->report.n_tickets++] = (ProtobufCBinaryData){
		.len = ticket ? sizeof(*ticket) : 0, .data = (uint8_t *)(uintptr_t)ticket, /* only read */
	};
	return true;
}

/* Returns the state of a claim. A mount of an earlier boot ended with that. Released volumes are reported
 * too: the provider may still have them attached, and a restored server may not know of them. */
static enum claim_state state_of(const struct node_report_facts *facts, const struct alloc_record *record,
				 const struct volume_record *volume)
{
	if (!volume_record_is_live(volume) || !str_eq(record->boot_id, facts->boot_id))
		return CLAIM_NODE_DETACHED;
	return volume->state == VOLUME_PUBLISHED ? CLAIM_TAKEN : CLAIM_RESERVED;
}

/* Fills in the plugin, and the provider's ids of volume and node, for the request to detach. Ids of a plugin
 * that was never here stay empty. */
static void name_provider(const struct node_report_facts *facts, const struct volume_target *target,
			  struct claim *claim)
{
	const struct node_plugin *plugin;

	if (target->type != VOLUME_CSI) {
		(void)str_copy(claim->plugin_id, sizeof(claim->plugin_id), PLUGIN_NATIVE);
		(void)str_copy(claim->profile, sizeof(claim->profile), target->profile);
		(void)str_copy(claim->external_node_id, sizeof(claim->external_node_id), facts->node_id);
		return;
	}
	plugin = facts->plugins ? plugins_facts(facts->plugins, target->profile) : NULL;
	(void)str_copy(claim->plugin_id, sizeof(claim->plugin_id), target->profile);
	(void)str_copy(claim->external_id, sizeof(claim->external_id), target->external_id);
	memcpy(claim->context_digest, target->context_digest, sizeof(claim->context_digest));
	if (plugin && plugin->has_node)
		(void)str_copy(claim->external_node_id, sizeof(claim->external_node_id),
			       plugin->node.provider_node_id);
}

static void claim_of(const struct node_report_facts *facts, const struct alloc_record *record, uint32_t i,
		     struct claim *claim)
{
	const struct volume_record *volume = &record->volumes[i];
	const struct volume_request *request = &record->alloc.volumes[i];

	*claim = (struct claim){
		.mode = volume->mode,
		.access_mode = request->access_mode,
		.attachment_mode = request->attachment_mode,
		.propagation = request->propagation,
		.generation = volume->generation,
		.state = state_of(facts, record, volume),
		.sent_to_node = true,
	};
	(void)str_copy(claim->id, sizeof(claim->id), volume->claim_id);
	(void)str_copy(claim->volume_id, sizeof(claim->volume_id), volume->target.volume_id);
	(void)str_copy(claim->namespace, sizeof(claim->namespace), volume->target.namespace);
	name_provider(facts, &volume->target, claim);
	(void)str_copy(claim->allocation_id, sizeof(claim->allocation_id), record->alloc.id);
	(void)str_copy(claim->node_id, sizeof(claim->node_id), facts->node_id);
	(void)str_copy(claim->boot_id, sizeof(claim->boot_id), record->boot_id);
}

/* Adds an allocation as it was run. One that is stopping must not run again. */
static bool add_alloc(struct part *part, const struct node_report_facts *facts,
		      const struct alloc_record *record)
{
	Holdfast__V1__Allocation *pb = alloc_to_pb(&record->alloc);
	struct claim claim;

	if (!pb)
		return false;
	pb->desired_status = record->phase >= ALLOC_STOPPING ? HOLDFAST__V1__DESIRED_STATUS__STOP
							     : HOLDFAST__V1__DESIRED_STATUS__RUN;
	part->allocs[part->report.n_allocations++] = pb;
	for (uint32_t i = 0; i < record->alloc.n_volumes; i++) {
		const struct volume_target *target = &record->volumes[i].target;

		if (record->volumes[i].state == VOLUME_NONE)
			continue;
		claim_of(facts, record, i, &claim);
		if (!add_claim(part, &claim, target->has_ticket ? &target->ticket : NULL))
			return false;
	}
	return true;
}

static bool add_allocs(struct part *part, const struct node_report_facts *facts,
		       const struct alloc_runner **at)
{
	while (*at && part->report.n_allocations < NODE_REPORT_ALLOCS) {
		if (!add_alloc(part, facts, alloc_runner_record(*at)))
			return false;
		*at = allocs_next(facts->allocs, *at);
	}
	return true;
}

static bool add_releases(struct part *part, const struct node_report_facts *facts, const struct release **at)
{
	while (*at && part->report.n_claims < NODE_REPORT_RELEASES) {
		const struct claim *claim = release_claim(*at);

		if (str_eq(claim->boot_id, facts->boot_id) && !add_claim(part, claim, release_ticket(*at)))
			return false;
		*at = allocs_next_release(facts->allocs, *at);
	}
	return true;
}

bool node_report_make(const struct node_report_facts *facts, node_report_fn *send, void *userdata)
{
	const struct alloc_runner *alloc = allocs_next(facts->allocs, NULL);
	const struct release *release = allocs_next_release(facts->allocs, NULL);
	cleanup(part_freep) struct part *part = calloc(1, sizeof(*part));
	bool more = true;

	while (part && more) {
		bool has_allocs = alloc != NULL;

		part_clear(part, facts->epoch);
		if (has_allocs ? !add_allocs(part, facts, &alloc) : !add_releases(part, facts, &release))
			return false;
		more = alloc || release;
		part->report.more = more;
		if (!send(&part->report, userdata))
			return false;
	}
	return part != NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What a node tells a restored server: its whole journal. */

#include "sim.h"

#include "base/str.h"

/* Claims and allocations of a report, with the memory of their texts. */
struct report_part {
	Holdfast__V1__Claim claim;
	Holdfast__V1__Allocation alloc;
	Holdfast__V1__VolumeRequest request;
	Holdfast__V1__VolumeRequest *requests[1];
	char namespace[16], name[8], plugin[8], profile[8], driver[8];
};

static void fill_part(struct sim_entry *entry, struct report_part *part)
{
	struct sim_volume *volume = &entry->node->sim->volumes[entry->volume];

	*part = (struct report_part){.claim = HOLDFAST__V1__CLAIM__INIT,
				     .alloc = HOLDFAST__V1__ALLOCATION__INIT,
				     .request = HOLDFAST__V1__VOLUME_REQUEST__INIT,
				     .namespace = "default",
				     .name = "data",
				     .profile = "disk",
				     .driver = "none"};
	(void)str_copy(part->plugin, sizeof(part->plugin), volume->is_csi ? "csi" : "native");
	if (volume->is_csi)
		part->profile[0] = '\0';
	part->requests[0] = &part->request;
	part->request.name = part->name;
	part->request.source = volume->id;
	part->request.access_mode = volume->mode;
	part->request.attachment_mode = HOLDFAST__V1__ATTACHMENT_MODE__FILE_SYSTEM;
	part->request.read_only = !entry->is_write;
	part->alloc.id = entry->alloc_id;
	part->alloc.namespace_ = part->namespace;
	part->alloc.name = part->name;
	part->alloc.node_id = entry->node->id;
	part->alloc.driver = part->driver;
	part->alloc.volumes = part->requests;
	part->alloc.n_volumes = 1;
	part->alloc.desired_status =
		entry->stopping ? HOLDFAST__V1__DESIRED_STATUS__STOP : HOLDFAST__V1__DESIRED_STATUS__RUN;
	part->alloc.client_status = entry->status;
	part->claim.id = entry->claim_id;
	part->claim.volume_id = volume->id;
	part->claim.namespace_ = part->namespace;
	part->claim.external_id = volume->id;
	part->claim.plugin_id = part->plugin;
	part->claim.profile = part->profile;
	part->claim.allocation_id = entry->alloc_id;
	part->claim.node_id = entry->node->id;
	part->claim.boot_id = entry->claim_boot;
	part->claim.mode = entry->is_write ? HOLDFAST__V1__CLAIM_MODE__WRITE : HOLDFAST__V1__CLAIM_MODE__READ;
	part->claim.access_mode = volume->mode;
	part->claim.attachment_mode = HOLDFAST__V1__ATTACHMENT_MODE__FILE_SYSTEM;
	part->claim.generation = entry->generation;
	/* it releases it, or did with its boot: the provider may have it attached still */
	if (entry->phase == SIM_UNMOUNTED)
		part->claim.state = HOLDFAST__V1__CLAIM_STATE__NODE_DETACHED;
}

void sim_node_report(struct sim_node *node, uint64_t epoch)
{
	Holdfast__V1__SessionUp up = HOLDFAST__V1__SESSION_UP__INIT;
	Holdfast__V1__NodeReport report = HOLDFAST__V1__NODE_REPORT__INIT;
	struct report_part parts[SIM_ENTRIES];
	Holdfast__V1__Allocation *allocs[SIM_ENTRIES];
	Holdfast__V1__Claim *claims[SIM_ENTRIES];
	ProtobufCBinaryData tickets[SIM_ENTRIES];

	report.epoch = epoch;
	report.allocations = allocs;
	report.claims = claims;
	report.tickets = tickets;
	for (int i = 0; i < SIM_ENTRIES; i++) {
		struct sim_entry *entry = &node->entries[i];

		if (!sim_entry_is_known(entry))
			continue;
		fill_part(entry, &parts[i]);
		allocs[report.n_allocations++] = &parts[i].alloc;
		if (!sim_entry_is_held(entry) &&
		    (entry->phase != SIM_UNMOUNTED || entry->claim_id[0] == '\0'))
			continue;
		tickets[report.n_tickets++] =
			(ProtobufCBinaryData){.len = sizeof(entry->ticket), .data = entry->ticket};
		claims[report.n_claims++] = &parts[i].claim;
		node->sim->counts[COUNT_ADOPTED]++;
	}
	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_REPORT;
	up.report = &report;
	sim_node_send(node, &up);
	node->reported = true;
}

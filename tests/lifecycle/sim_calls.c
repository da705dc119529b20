/* SPDX-License-Identifier: Apache-2.0 */
#include "sim.h"

#include "base/str.h"
#include "model/modes.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/operator.pb-c.h>
#include <holdfast/v1/volumes.pb-c.h>
#include <stdlib.h>

enum { CALL_TIMEOUT_US = 20 * 1000 * 1000, IDLE_TURNS = 3, IDLE_ROUNDS = 2 };

enum status sim_call(struct sim *sim, const ProtobufCServiceDescriptor *service, const char *method,
		     const ProtobufCMessage *request, ProtobufCMessage **ret, struct error *err)
{
	ProtobufCMessage *response = NULL;
	enum status st = rpc_client_call_sync(sim->operator, service, method, request, CALL_TIMEOUT_US,
					      &response, err);

	if (ret)
		*ret = response;
	else if (response)
		protobuf_c_message_free_unpacked(response, NULL);
	return st;
}

/* Answered once everything before it is durable. */
static bool barrier(struct sim *sim)
{
	Holdfast__V1__ListNodesRequest request = HOLDFAST__V1__LIST_NODES_REQUEST__INIT;
	struct error err;

	request.per_page = 1;
	if (sim_call(sim, &holdfast__v1__nodes__descriptor, "List", &request.base, NULL, &err) == STATUS_OK)
		return true;
	if ((sim->may_restart && err.status == STATUS_UNAVAILABLE) || server_process_has_died(sim))
		return false;
	sim_fail(sim, "Nodes.List: %s", err.msg);
}

/* A node has said hello, and has no answer yet. */
static bool is_greeting(const struct sim *sim)
{
	for (int i = 0; i < SIM_NODES; i++)
		if (sim->nodes[i].stream && !sim->nodes[i].welcomed)
			return true;
	return false;
}

bool sim_settle(struct sim *sim)
{
	int idle = 0;

	while (idle < IDLE_ROUNDS ||
	       (sim->server_pid != 0 && (sim->in_flight > sim->hanging || is_greeting(sim)))) {
		uint64_t before = sim->activity;

		if (sim->server_pid != 0 && !barrier(sim))
			return false;
		for (int i = 0; i < IDLE_TURNS; i++)
			while (sd_event_run(sim->event, 0) > 0)
				;
		idle = sim->activity == before ? idle + 1 : 0;
	}
	return true;
}

static enum status register_volume(struct sim *sim, struct sim_volume *volume, Holdfast__V1__AccessMode mode,
				   bool is_csi, struct error *err)
{
	Holdfast__V1__RegisterVolumeRequest request = HOLDFAST__V1__REGISTER_VOLUME_REQUEST__INIT;
	Holdfast__V1__Volume pb = HOLDFAST__V1__VOLUME__INIT;
	Holdfast__V1__Source source = HOLDFAST__V1__SOURCE__INIT;
	Holdfast__V1__Capability capability = HOLDFAST__V1__CAPABILITY__INIT;
	Holdfast__V1__Capability *capabilities[] = {&capability};
	char profile[] = "disk";
	char csi[] = "csi";

	volume->mode = mode;
	volume->is_csi = is_csi;
	(void)str_format(volume->id, sizeof(volume->id), "%s-%s", is_csi ? "csi" : "native",
			 access_mode_name((enum access_mode)mode));
	capability.access_mode = mode;
	capability.attachment_mode = HOLDFAST__V1__ATTACHMENT_MODE__FILE_SYSTEM;
	source.class_ = HOLDFAST__V1__SOURCE_CLASS__BLOCK;
	source.by_id = volume->id; /* each has a disk of its own */
	pb.id = volume->id;
	pb.type = is_csi ? HOLDFAST__V1__VOLUME_TYPE__CSI : HOLDFAST__V1__VOLUME_TYPE__NATIVE;
	if (is_csi) {
		pb.plugin_id = csi;
		pb.external_id = volume->id;
	} else {
		pb.profile = profile;
		pb.source = &source;
	}
	pb.requested_capabilities = capabilities;
	pb.n_requested_capabilities = 1;
	request.volume = &pb;
	if (sim_call(sim, &holdfast__v1__volumes__descriptor, "Register", &request.base, NULL, err) !=
	    STATUS_OK)
		return err->status;
	volume->is_known = volume->exists = true;
	return STATUS_OK;
}

void sim_register_again(struct sim *sim)
{
	struct error err;

	for (int v = 0; v < SIM_REGISTERED; v++) {
		struct sim_volume *volume = &sim->volumes[v];

		if (!volume->is_known)
			(void)register_volume(sim, volume, volume->mode, volume->is_csi, &err);
	}
}

struct sim_status sim_status(struct sim *sim)
{
	Holdfast__V1__GetStatusRequest request = HOLDFAST__V1__GET_STATUS_REQUEST__INIT;
	Holdfast__V1__GetStatusResponse *response;
	ProtobufCMessage *message = NULL;
	struct sim_status status;
	struct error err;

	if (sim_call(sim, &holdfast__v1__operator__descriptor, "Status", &request.base, &message, &err) !=
	    STATUS_OK)
		sim_fail(sim, "Operator.Status: %s", err.msg);
	response = (Holdfast__V1__GetStatusResponse *)message;
	status = (struct sim_status){.epoch = response->epoch, .index = response->index};
	protobuf_c_message_free_unpacked(message, NULL);
	return status;
}

void sim_register_volumes(struct sim *sim)
{
	struct error err;

	for (int csi = 0; csi < 2; csi++)
		for (int mode = SINGLE_NODE_READER_ONLY; mode < ACCESS_MODE_N; mode++)
			if (register_volume(sim, &sim->volumes[sim->n_volumes++],
					    (Holdfast__V1__AccessMode)mode, csi == 1, &err) != STATUS_OK)
				sim_fail(sim, "Volumes.Register: %s", err.msg);
	if (sim->n_volumes != SIM_REGISTERED)
		sim_fail(sim, "%d volumes", sim->n_volumes);
}

enum status sim_run(struct sim *sim, int volume, int node, bool is_write, char ret_id[static UUID_TEXT_SIZE],
		    struct error *err)
{
	Holdfast__V1__RunAllocationRequest request = HOLDFAST__V1__RUN_ALLOCATION_REQUEST__INIT;
	Holdfast__V1__Allocation alloc = HOLDFAST__V1__ALLOCATION__INIT;
	Holdfast__V1__VolumeRequest wanted = HOLDFAST__V1__VOLUME_REQUEST__INIT;
	Holdfast__V1__VolumeRequest *volumes[] = {&wanted};
	char id[UUID_TEXT_SIZE];
	char name[] = "app";
	char volume_name[] = "data";

	sim_make_uuid(sim, id);
	wanted.name = volume_name;
	wanted.source = sim->volumes[volume].id;
	wanted.access_mode = sim->volumes[volume].mode;
	wanted.read_only = !is_write;
	alloc.id = id;
	alloc.name = name;
	alloc.node_id = sim->nodes[node].id;
	alloc.volumes = volumes;
	alloc.n_volumes = 1;
	request.allocation = &alloc;
	(void)str_copy(ret_id, UUID_TEXT_SIZE, id);
	return sim_call(sim, &holdfast__v1__allocations__descriptor, "Run", &request.base, NULL, err);
}

enum status sim_stop(struct sim *sim, const char *alloc_id)
{
	Holdfast__V1__StopAllocationRequest request = HOLDFAST__V1__STOP_ALLOCATION_REQUEST__INIT;
	char id[UUID_TEXT_SIZE];

	(void)str_copy(id, sizeof(id), alloc_id);
	request.id = id;
	return sim_call(sim, &holdfast__v1__allocations__descriptor, "Stop", &request.base, NULL, NULL);
}

void sim_stop_all(struct sim *sim)
{
	Holdfast__V1__ListAllocationsRequest request = HOLDFAST__V1__LIST_ALLOCATIONS_REQUEST__INIT;
	Holdfast__V1__ListAllocationsResponse *response = NULL;
	char all[] = "*";
	char next[256] = "";
	struct error err;

	request.namespace_ = all;
	do {
		request.next_token = next;
		if (sim_call(sim, &holdfast__v1__allocations__descriptor, "List", &request.base,
			     (ProtobufCMessage **)&response, &err) != STATUS_OK)
			sim_fail(sim, "Allocations.List: %s", err.msg);
		for (size_t i = 0; i < response->n_allocations; i++)
			if (response->allocations[i]->client_status <= HOLDFAST__V1__CLIENT_STATUS__RUNNING)
				(void)sim_stop(sim, response->allocations[i]->id);
		(void)str_copy(next, sizeof(next), response->next_token);
		holdfast__v1__list_allocations_response__free_unpacked(response, NULL);
	} while (next[0] != '\0');
}

enum status sim_attest(struct sim *sim, int volume, int node, struct error *err)
{
	Holdfast__V1__DetachVolumeRequest request = HOLDFAST__V1__DETACH_VOLUME_REQUEST__INIT;
	char reason[] = "the machine is switched off and locked away";

	request.id = sim->volumes[volume].id;
	request.node_id = sim->nodes[node].id;
	request.attest_reason = reason;
	return sim_call(sim, &holdfast__v1__volumes__descriptor, "Detach", &request.base, NULL, err);
}

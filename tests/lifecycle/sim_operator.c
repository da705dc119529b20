/* SPDX-License-Identifier: Apache-2.0 */
#include "sim.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <holdfast/v1/nodes.pb-c.h>
#include <holdfast/v1/operator.pb-c.h>
#include <holdfast/v1/volumes.pb-c.h>

enum {
	STARTED_TIMEOUT_US = 20 * 1000 * 1000,
	CAPACITY = 1 << 20,
	WORD_VALID_MS = 60 * 1000,
	FLUSH_TURNS = 3
};

#define VOLUMES (&holdfast__v1__volumes__descriptor)
#define NODES (&holdfast__v1__nodes__descriptor)
#define OPERATOR (&holdfast__v1__operator__descriptor)

static void on_nobody_waits(enum status status, const ProtobufCMessage *response, const struct error *err,
			    void *userdata)
{
	(void)status;
	(void)response;
	(void)err;
	(void)userdata;
}

/* Its answer, or STATUS_UNKNOWN for a call that is only on its way. */
static enum status ask(struct sim *sim, const ProtobufCServiceDescriptor *service, const char *method,
		       const ProtobufCMessage *request, enum sim_patience patience)
{
	struct error err;

	if (patience == SIM_WAITS)
		return sim_call(sim, service, method, request, NULL, &err);
	(void)rpc_client_call(sim->operator, service, method, request, STARTED_TIMEOUT_US, on_nobody_waits,
			      sim, NULL, NULL);
	for (int i = 0; i < FLUSH_TURNS; i++)
		(void)sd_event_run(sim->event, 0);
	return STATUS_UNKNOWN;
}

void sim_add_made_volumes(struct sim *sim)
{
	static const Holdfast__V1__AccessMode modes[] = {
		HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_WRITER,
		HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_MULTI_WRITER,
	};

	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		struct sim_volume *volume = &sim->volumes[sim->n_volumes++];

		*volume = (struct sim_volume){.mode = modes[i], .is_csi = true, .is_made = true};
		(void)str_format(volume->id, sizeof(volume->id), "made-%zu", i);
	}
}

void sim_create(struct sim *sim, int number, enum sim_patience patience)
{
	Holdfast__V1__CreateVolumeRequest request = HOLDFAST__V1__CREATE_VOLUME_REQUEST__INIT;
	Holdfast__V1__Volume pb = HOLDFAST__V1__VOLUME__INIT;
	Holdfast__V1__Volume__ParametersEntry parameter = HOLDFAST__V1__VOLUME__PARAMETERS_ENTRY__INIT;
	Holdfast__V1__Volume__ParametersEntry *parameters[] = {&parameter};
	Holdfast__V1__Capability capability = HOLDFAST__V1__CAPABILITY__INIT;
	Holdfast__V1__Capability *capabilities[] = {&capability};
	struct sim_volume *volume = &sim->volumes[number];
	char plugin[] = "csi";
	char key[] = "id";

	capability.access_mode = volume->mode;
	capability.attachment_mode = HOLDFAST__V1__ATTACHMENT_MODE__FILE_SYSTEM;
	parameter.key = key;
	parameter.value = volume->id;
	pb.id = volume->id;
	pb.type = HOLDFAST__V1__VOLUME_TYPE__CSI;
	pb.plugin_id = plugin;
	pb.capacity_min = CAPACITY;
	pb.parameters = parameters;
	pb.n_parameters = 1;
	pb.requested_capabilities = capabilities;
	pb.n_requested_capabilities = 1;
	request.volume = &pb;
	volume->said = SIM_UNSURE;
	if (ask(sim, VOLUMES, "Create", &request.base, patience) != STATUS_OK)
		return;
	volume->said = SIM_THERE;
	sim->counts[COUNT_CREATED]++;
}

void sim_expand(struct sim *sim, int number, enum sim_patience patience)
{
	Holdfast__V1__ExpandVolumeRequest request = HOLDFAST__V1__EXPAND_VOLUME_REQUEST__INIT;
	struct sim_volume *volume = &sim->volumes[number];

	request.id = volume->id;
	request.capacity_min = volume->capacity + CAPACITY;
	if (ask(sim, VOLUMES, "Expand", &request.base, patience) != STATUS_OK)
		return;
	sim->counts[COUNT_EXPANDED]++;
	if (volume->capacity < request.capacity_min && !volume->is_of_copy)
		sim_fail(sim, "volume %s is said to be larger than it is", volume->id);
}

void sim_delete(struct sim *sim, int number, enum sim_patience patience)
{
	Holdfast__V1__DeleteVolumeRequest request = HOLDFAST__V1__DELETE_VOLUME_REQUEST__INIT;
	struct sim_volume *volume = &sim->volumes[number];
	enum status st;

	request.id = volume->id;
	st = ask(sim, VOLUMES, "Delete", &request.base, patience);
	if (st == STATUS_FAILED_PRECONDITION)
		return; /* it is in use: nothing has begun */
	volume->said = st == STATUS_OK ? SIM_GONE : SIM_UNSURE;
	if (st != STATUS_OK)
		return;
	sim->counts[COUNT_DELETED]++;
	if (volume->exists)
		sim_fail(sim, "volume %s is said to be deleted and is at its provider", volume->id);
}

static bool is_in_use(const struct sim *sim, int number)
{
	for (int n = 0; n < SIM_NODES; n++)
		for (int i = 0; i < SIM_ENTRIES && sim->nodes[n].powered && sim->nodes[n].reported; i++)
			if (sim->nodes[n].entries[i].phase == SIM_MOUNTED &&
			    sim->nodes[n].entries[i].volume == number &&
			    !oracle_is_of_past(&sim->nodes[n], number))
				return true;
	return false;
}

void sim_look_at_made(struct sim *sim)
{
	for (int v = 0; v < sim->n_volumes; v++) {
		Holdfast__V1__GetVolumeRequest request = HOLDFAST__V1__GET_VOLUME_REQUEST__INIT;
		struct sim_volume *volume = &sim->volumes[v];
		struct error err;
		enum status st;

		if (!volume->is_made)
			continue;
		request.id = volume->id;
		st = sim_call(sim, VOLUMES, "Get", &request.base, NULL, &err);
		if (st != STATUS_OK && st != STATUS_NOT_FOUND)
			sim_fail(sim, "Volumes.Get %s: %s", volume->id, err.msg);
		volume->is_known = st == STATUS_OK;
		if (!volume->is_known && (volume->said == SIM_THERE || is_in_use(sim, v)))
			sim_fail(sim, "volume %s was created and is not known", volume->id);
		if (volume->is_known && volume->said == SIM_GONE)
			sim_fail(sim, "volume %s was deleted and is still known", volume->id);
		if (volume->is_known)
			continue;
		volume->modify_index = 0; /* the next one of this name begins anew */
		volume->is_of_copy = false;
	}
}

void sim_drain(struct sim *sim, int node, enum sim_patience patience)
{
	Holdfast__V1__DrainNodeRequest request = HOLDFAST__V1__DRAIN_NODE_REQUEST__INIT;
	char reason[] = "the model wants it";

	request.id = sim->nodes[node].id;
	request.reason = reason;
	if (ask(sim, NODES, "Drain", &request.base, patience) == STATUS_OK)
		sim->counts[COUNT_DRAINS]++;
}

void sim_make_eligible(struct sim *sim, int node)
{
	Holdfast__V1__DrainNodeRequest cancel = HOLDFAST__V1__DRAIN_NODE_REQUEST__INIT;
	Holdfast__V1__SetEligibilityRequest request = HOLDFAST__V1__SET_ELIGIBILITY_REQUEST__INIT;

	cancel.id = request.id = sim->nodes[node].id;
	cancel.cancel = true;
	request.eligible = true;
	(void)ask(sim, NODES, "Drain", &cancel.base, SIM_WAITS); /* it may be over */
	if (ask(sim, NODES, "SetEligibility", &request.base, SIM_WAITS) != STATUS_OK &&
	    sim->nodes[node].reported) /* else a lost store need not know it */
		sim_fail(sim, "%s cannot be made eligible", sim->nodes[node].id);
}

enum status sim_attest_node(struct sim *sim, int node, int volume, bool lasting)
{
	Holdfast__V1__AttestNodeRequest request = HOLDFAST__V1__ATTEST_NODE_REQUEST__INIT;
	Holdfast__V1__VolumeRef ref = HOLDFAST__V1__VOLUME_REF__INIT;
	Holdfast__V1__VolumeRef *refs[] = {&ref};
	char reason[] = "the machine is switched off and locked away";

	ref.id = sim->volumes[volume].id;
	request.id = sim->nodes[node].id;
	request.reason = reason;
	request.volumes = refs;
	request.n_volumes = 1;
	request.valid_ms = lasting ? WORD_VALID_MS : 0;
	return ask(sim, NODES, "Attest", &request.base, SIM_WAITS);
}

void sim_gc(struct sim *sim, enum sim_patience patience)
{
	Holdfast__V1__GcRequest request = HOLDFAST__V1__GC_REQUEST__INIT;

	request.older_than_ms = 1;
	if (ask(sim, OPERATOR, "Gc", &request.base, patience) == STATUS_OK)
		sim->counts[COUNT_COLLECTED]++;
}

void sim_purge_missing(struct sim *sim)
{
	Holdfast__V1__PurgeNodeRequest request = HOLDFAST__V1__PURGE_NODE_REQUEST__INIT;
	char reason[] = "all that there are are connected";

	request.unknown = true;
	request.reason = reason;
	(void)ask(sim, NODES, "Purge", &request.base, SIM_WAITS); /* none may be missing */
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "sim.h"

#include "base/cleanup.h"
#include "base/str.h"

enum { CAPACITY = 1 << 20, WORD_VALID_MS = 60 * 1000 };

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
	struct sim_volume *volume = &sim->volumes[number];

	volume->said = SIM_UNSURE;
	if (sim_ask(sim, patience, "Volumes.Create", NULL, NULL,
		    "{'volume': {'id': '%s', 'type': 'CSI', 'plugin_id': 'csi', 'capacity_min': %d, "
		    "'parameters': "
		    "{'id': '%s'}, 'requested_capabilities': [{'access_mode': %d, 'attachment_mode': "
		    "'FILE_SYSTEM'}]}}",
		    volume->id, CAPACITY, volume->id, (int)volume->mode) != STATUS_OK)
		return;
	volume->said = SIM_THERE;
	sim->counts[COUNT_CREATED]++;
}

void sim_expand(struct sim *sim, int number, enum sim_patience patience)
{
	struct sim_volume *volume = &sim->volumes[number];
	uint64_t wanted = volume->capacity + CAPACITY;

	if (sim_ask(sim, patience, "Volumes.Expand", NULL, NULL, "{'id': '%s', 'capacity_min': %llu}",
		    volume->id, (unsigned long long)wanted) != STATUS_OK)
		return;
	sim->counts[COUNT_EXPANDED]++;
	if (volume->capacity < wanted && !volume->is_of_copy)
		sim_fail(sim, "volume %s is said to be larger than it is", volume->id);
}

void sim_delete(struct sim *sim, int number, enum sim_patience patience)
{
	struct sim_volume *volume = &sim->volumes[number];
	enum status status = sim_ask(sim, patience, "Volumes.Delete", NULL, NULL, "{'id': '%s'}", volume->id);

	if (status == STATUS_FAILED_PRECONDITION)
		return; /* it is in use: nothing has begun */
	volume->said = status == STATUS_OK ? SIM_GONE : SIM_UNSURE;
	if (status != STATUS_OK)
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
		struct sim_volume *volume = &sim->volumes[v];
		struct error err;
		enum status status;

		if (!volume->is_made)
			continue;
		status = sim_ask(sim, SIM_WAITS, "Volumes.Get", NULL, &err, "{'id': '%s'}", volume->id);
		if (status != STATUS_OK && status != STATUS_NOT_FOUND)
			sim_fail(sim, "Volumes.Get %s: %s", volume->id, err.msg);
		volume->is_known = status == STATUS_OK;
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
	if (sim_ask(sim, patience, "Nodes.Drain", NULL, NULL, "{'id': '%s', 'reason': 'the model wants it'}",
		    sim->nodes[node].id) == STATUS_OK)
		sim->counts[COUNT_DRAINS]++;
}

void sim_make_eligible(struct sim *sim, int node)
{
	const char *id = sim->nodes[node].id;

	/* it may be over */
	(void)sim_ask(sim, SIM_WAITS, "Nodes.Drain", NULL, NULL, "{'id': '%s', 'cancel': true}", id);
	if (sim_ask(sim, SIM_WAITS, "Nodes.SetEligibility", NULL, NULL, "{'id': '%s', 'eligible': true}",
		    id) != STATUS_OK &&
	    sim->nodes[node].reported) /* else a lost store need not know it */
		sim_fail(sim, "%s cannot be made eligible", id);
}

enum status sim_attest_node(struct sim *sim, int node, int volume, bool lasting)
{
	return sim_ask(
		sim, SIM_WAITS, "Nodes.Attest", NULL, NULL,
		"{'id': '%s', 'volumes': [{'id': '%s'}], 'valid_ms': %d, 'reason': 'the machine is switched "
		"off and locked away'}",
		sim->nodes[node].id, sim->volumes[volume].id, lasting ? WORD_VALID_MS : 0);
}

void sim_gc(struct sim *sim, enum sim_patience patience)
{
	if (sim_ask(sim, patience, "Operator.Gc", NULL, NULL, "{'older_than_ms': 1}") == STATUS_OK)
		sim->counts[COUNT_COLLECTED]++;
}

void sim_purge_missing(struct sim *sim)
{
	(void)sim_ask(
		sim, SIM_WAITS, "Nodes.Purge", NULL, NULL,
		"{'unknown': true, 'reason': 'all that there are are connected'}"); /* none may be missing */
}

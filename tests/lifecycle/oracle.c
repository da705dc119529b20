/* SPDX-License-Identifier: Apache-2.0 */
#include "sim.h"

#include "base/str.h"
#include "model/modes.h"

#include <holdfast/v1/operator.pb-c.h>
#include <holdfast/v1/volumes.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the checker lets pass. A server cannot know what nothing that it can ask remembers: neither its store
 * nor the mark beside it, nor a node that is connected. While that is so, a volume that an absent node has
 * mounted may be granted to another one. The mount of the absent node is then left out of the account, and
 * counted, until the volume is used as it may be; mounts of after the gap keep every promise among
 * themselves. The gap ends with the first epoch. */
static const struct {
	const char *name;
	const char *why;
	bool is_open; /* a volume may be granted that an absent node has */
} exceptions[SIM_GAPS] = {
	[SIM_GAP_OLDER_STORE] =
		{"older folder, told by nobody",
		 "the whole folder is an earlier one, its mark included, and the nodes that were shown what "
		 "came after it are absent: the store is as whole as it was then, and nothing contradicts it",
		 true},
	[SIM_GAP_EMPTY_STORE] =
		{"lost folder, only new nodes",
		 "there is neither a store nor a mark any more, an operator has said --new-cluster, and no "
		 "node that was ever shown a mark has connected: it cannot be told from a first start",
		 true},
	[SIM_GAP_NO_MARK] =
		{"older database, no mark: a lower epoch",
		 "how far it had got only nodes know, so that the epoch that begins for want of the mark is "
		 "one above the copy's; until nodes show a later one none has reported, and nothing is "
		 "granted",
		 false},
	[SIM_GAP_SNAPSHOT] =
		{"snapshot of a node resumed",
		 "a machine continues with what it had mounted, and nobody knows before its hello; after it "
		 "what was freed has to be given up, and nothing is granted of that before",
		 false},
	[SIM_GAP_BOTH] =
		{"node and server went back, both",
		 "what is mounted is neither in the server's store nor in the node's journal, or the grant "
		 "that took its place is in neither: two machines have lost it at once, and only people can "
		 "tell. So is what came back with a snapshot whose journal was lost before a hello could "
		 "name it. Nor does a server whose store was lost after it had ordered the node to give a "
		 "claim up know that the claim was freed: it takes it from the node's report as held",
		 false},
};

bool oracle_is_open(enum sim_gap gap)
{
	return exceptions[gap].is_open;
}

const char *oracle_exception(enum sim_gap gap)
{
	return exceptions[gap].name;
}

/* Who has a volume in the kernel, anywhere. */
struct users {
	int readers, writers;
	int nodes; /* distinct ones */
};

/* @all: also who is excused. */
static struct users users_of(const struct sim *sim, int volume, bool all)
{
	struct users users = {0};

	for (int n = 0; n < SIM_NODES; n++) {
		bool here = false;

		for (int i = 0; i < SIM_ENTRIES && sim->nodes[n].powered; i++) {
			const struct sim_entry *entry = &sim->nodes[n].entries[i];

			if (entry->phase != SIM_MOUNTED || entry->volume != volume ||
			    sim_is_refused(sim, n, volume) || (!all && entry->excused != SIM_NO_GAP))
				continue;
			here = true;
			if (entry->is_write)
				users.writers++;
			else
				users.readers++;
		}
		users.nodes += here;
	}
	return users;
}

/* The promise of each access mode, written down apart from the code that keeps it. */
static bool is_allowed(Holdfast__V1__AccessMode mode, const struct users *users)
{
	switch ((enum access_mode)mode) {
	case SINGLE_NODE_READER_ONLY:
		return users->writers == 0 && users->readers <= 1;
	case SINGLE_NODE_WRITER:
		return users->writers <= 1 && users->nodes <= 1;
	case SINGLE_NODE_SINGLE_WRITER:
		return users->writers + users->readers <= 1;
	case SINGLE_NODE_MULTI_WRITER:
		return users->nodes <= 1;
	case MULTI_NODE_READER_ONLY:
		return users->writers == 0;
	case MULTI_NODE_SINGLE_WRITER:
		return users->writers <= 1;
	case MULTI_NODE_MULTI_WRITER:
		return true;
	case ACCESS_MODE_UNSPECIFIED:
	case ACCESS_MODE_N:
		break;
	}
	return false;
}

static void end_excuses(struct sim *sim, int volume)
{
	for (int n = 0; n < SIM_NODES; n++)
		for (int i = 0; i < SIM_ENTRIES; i++)
			if (sim->nodes[n].entries[i].volume == volume)
				sim->nodes[n].entries[i].excused = SIM_NO_GAP;
}

/* Is there a mount by a claim that may have been granted in a gap? @cut: its node learned only later of it.
 */
static bool is_granted_in_gap(const struct sim *sim, int volume, bool cut)
{
	for (int n = 0; n < SIM_NODES; n++)
		for (int i = 0; i < SIM_ENTRIES; i++) {
			const struct sim_entry *entry = &sim->nodes[n].entries[i];

			if (entry->phase == SIM_MOUNTED && entry->volume == volume && entry->is_of_gap &&
			    (!cut || entry->was_cut_in_gap))
				return true;
		}
	return false;
}

/* What a node's own past explains: nobody could notify the server, or it has ordered the mount away. */
static enum sim_gap gap_of_past(const struct sim_entry *entry)
{
	if (entry->is_of_both)
		return SIM_GAP_BOTH;
	return entry->came_back || entry->was_freed ? SIM_GAP_SNAPSHOT : SIM_NO_GAP;
}

static void excuse(struct sim *sim, int volume)
{
	bool of_gap = is_granted_in_gap(sim, volume, false);
	bool of_cut = is_granted_in_gap(sim, volume, true);

	for (int n = 0; n < SIM_NODES; n++)
		for (int i = 0; i < SIM_ENTRIES; i++) {
			struct sim_entry *entry = &sim->nodes[n].entries[i];

			enum sim_gap gap = gap_of_past(entry);

			if (gap == SIM_NO_GAP && entry->was_lost &&
			    ((entry->is_not_logged && of_gap) || of_cut))
				gap = sim->last_gap;
			if (entry->phase != SIM_MOUNTED || entry->volume != volume ||
			    entry->excused != SIM_NO_GAP || gap == SIM_NO_GAP)
				continue;
			entry->excused = gap;
			sim->excused[gap]++;
		}
}

void oracle_check_reported(struct sim *sim, struct sim_node *node)
{
	for (int i = 0; i < SIM_ENTRIES; i++) {
		struct sim_entry *entry = &node->entries[i];

		if (entry->phase == SIM_MOUNTED && entry->was_freed && !entry->is_of_both &&
		    !entry->off_journal && !node->unmount_fails)
			sim_fail(sim, "%s has claim %s mounted, which it was ordered to give up", node->id,
				 entry->claim_id);
		/* from here on it counts, unless it is on its way out */
		if (entry->came_back && !entry->was_freed && entry->excused == SIM_GAP_SNAPSHOT)
			entry->excused = SIM_NO_GAP;
		entry->came_back = false;
	}
}

void oracle_check_grant(struct sim *sim, int volume, uint64_t create_index)
{
	for (int n = 0; n < SIM_NODES; n++)
		for (int i = 0; i < SIM_ENTRIES; i++) {
			const struct sim_entry *entry = &sim->nodes[n].entries[i];

			if (entry->phase == SIM_MOUNTED && entry->volume == volume && entry->was_freed &&
			    !entry->is_of_both && create_index > entry->freed_index)
				sim_fail(sim,
					 "volume %s is granted while %s has it by claim %s, which was freed",
					 sim->volumes[volume].id, sim->nodes[n].id, entry->claim_id);
		}
}

bool oracle_is_of_past(const struct sim_node *node, int volume)
{
	for (int i = 0; i < SIM_ENTRIES; i++)
		if (node->entries[i].phase == SIM_MOUNTED && node->entries[i].volume == volume &&
		    gap_of_past(&node->entries[i]) != SIM_NO_GAP)
			return true;
	return false;
}

bool oracle_excuses(struct sim *sim, int volume)
{
	for (int n = 0; n < SIM_NODES; n++)
		if (oracle_is_of_past(&sim->nodes[n], volume))
			return true;
	for (int n = 0; n < SIM_NODES && sim->gap != SIM_NO_GAP; n++)
		for (int i = 0; i < SIM_ENTRIES; i++) {
			const struct sim_entry *entry = &sim->nodes[n].entries[i];

			if (entry->phase != SIM_MOUNTED || entry->volume != volume || !entry->is_not_logged)
				continue;
			sim->excused[sim->gap]++;
			return true;
		}
	return false;
}

void oracle_check_mounts(struct sim *sim)
{
	for (int v = 0; v < sim->n_volumes; v++) {
		Holdfast__V1__AccessMode mode = sim->volumes[v].mode;
		struct users users = users_of(sim, v, true);

		if (is_allowed(mode, &users)) {
			end_excuses(sim, v);
			continue;
		}
		users = users_of(sim, v, false);
		if (is_allowed(mode, &users))
			continue;
		excuse(sim, v);
		users = users_of(sim, v, false);
		if (!is_allowed(mode, &users))
			sim_fail(sim, "volume %s (%s) is mounted by %d writers and %d readers on %d nodes",
				 sim->volumes[v].id, access_mode_name((enum access_mode)mode), users.writers,
				 users.readers, users.nodes);
	}
}

/* What the server cannot know and no node can tell it: what was attached for a grant that never arrived, or
 * that its node was told to forget. An operator finds it with holdfast volume external; here it is taken as
 * found. */
void oracle_forget_server(struct sim *sim)
{
	for (int v = 0; v < sim->n_volumes; v++) {
		struct sim_volume *volume = &sim->volumes[v];

		for (int n = 0; n < SIM_NODES; n++) {
			bool is_held = false;

			for (int i = 0; i < SIM_ENTRIES; i++) {
				struct sim_entry *entry = &sim->nodes[n].entries[i];

				entry->is_ack_lost = entry->is_ack_lost || entry->mounted_acked;
				if (entry->off_journal || entry->came_back || entry->was_freed)
					entry->is_of_both = true;
				is_held = is_held || (sim_entry_is_known(entry) &&
						      entry->claim_id[0] != '\0' && entry->volume == v);
			}
			volume->attached[n] = volume->attached[n] && is_held;
		}
		volume->modify_index = 0;
		volume->said = SIM_UNSURE;
		volume->is_of_copy = true;
		volume->generation = 0;
	}
	for (int n = 0; n < SIM_NODES; n++) { /* it may know nothing of their end */
		memset(sim->nodes[n].forgotten, 0, sizeof(sim->nodes[n].forgotten));
		sim->nodes[n].reported = sim->nodes[n].is_pinned = false;
	}
}

/* NULL: a lost store does not know it any more. */
static Holdfast__V1__GetVolumeResponse *get_volume(struct sim *sim, const struct sim_volume *volume)
{
	Holdfast__V1__GetVolumeRequest request = HOLDFAST__V1__GET_VOLUME_REQUEST__INIT;
	ProtobufCMessage *response = NULL;
	char text[SIM_ID_SIZE];
	struct error err;
	enum status status;

	(void)str_copy(text, sizeof(text), volume->id);
	request.id = text;
	request.why = true;
	status = sim_call(sim, &holdfast__v1__volumes__descriptor, "Get", &request.base, &response, &err);
	/* one that comes and goes may have gone meanwhile: sim_look_at_made() judges that */
	if (status != STATUS_OK && (status != STATUS_NOT_FOUND || (volume->is_known && !volume->is_made)))
		sim_fail(sim, "Volumes.Get %s: %s", volume->id, err.msg);
	return (Holdfast__V1__GetVolumeResponse *)response;
}

static bool is_live(const Holdfast__V1__Claim *claim)
{
	return claim->state != HOLDFAST__V1__CLAIM_STATE__FREED;
}

static const Holdfast__V1__Claim *claim_by_id(const Holdfast__V1__Volume *volume, const char *id)
{
	for (size_t i = 0; i < volume->n_claims; i++)
		if (str_eq(volume->claims[i]->id, id))
			return volume->claims[i];
	return NULL;
}

/* Whatever is mounted is claimed, in the server's eyes: capacity is freed only when it really is. */
static void check_mounts_are_claimed(struct sim *sim, int v, const Holdfast__V1__Volume *volume)
{
	for (int n = 0; n < SIM_NODES; n++) {
		/* a restored server learns from the node what it holds */
		for (int i = 0; i < SIM_ENTRIES && sim->nodes[n].powered && sim->nodes[n].reported; i++) {
			const struct sim_entry *entry = &sim->nodes[n].entries[i];
			const Holdfast__V1__Claim *claim;

			if (entry->phase != SIM_MOUNTED || entry->volume != v || entry->came_back ||
			    entry->is_of_both || sim_is_refused(sim, n, v))
				continue;
			claim = volume ? claim_by_id(volume, entry->claim_id) : NULL;
			if (!claim || !is_live(claim) ||
			    claim->state > HOLDFAST__V1__CLAIM_STATE__UNPUBLISHING)
				sim_fail(sim, "volume %s is mounted on %s under claim %s, which is %s",
					 sim->volumes[v].id, sim->nodes[n].id, entry->claim_id,
					 claim ? claim_state_name((enum claim_state)claim->state) : "gone");
			if (entry->mounted_acked && !entry->is_ack_lost &&
			    claim->state == HOLDFAST__V1__CLAIM_STATE__RESERVED)
				sim_fail(sim, "the mount of claim %s was acknowledged and is not known",
					 claim->id);
			if (!claim->sent_to_node)
				sim_fail(sim, "claim %s was given to its node, and the server does not know",
					 claim->id);
			if (!str_eq(claim->node_id, sim->nodes[n].id) ||
			    !str_eq(claim->boot_id, sim->nodes[n].boot_id) ||
			    claim->generation != entry->generation ||
			    claim->access_mode == HOLDFAST__V1__ACCESS_MODE__ACCESS_MODE_UNSPECIFIED)
				sim_fail(sim, "claim %s has lost its node, boot, generation or mode",
					 claim->id);
		}
	}
}

/* What a node was told is taken back is: its receipt counts for good. */
static void check_receipts_are_kept(struct sim *sim, int v, const Holdfast__V1__Volume *volume)
{
	for (int n = 0; n < SIM_NODES; n++) {
		for (int i = 0; i < SIM_ENTRIES && sim->nodes[n].reported; i++) {
			const struct sim_entry *entry = &sim->nodes[n].entries[i];
			const Holdfast__V1__Claim *claim;

			if (entry->phase != SIM_UNMOUNTED || entry->volume != v || !entry->released_acked)
				continue;
			claim = claim_by_id(volume, entry->claim_id);
			if (claim && claim->state < HOLDFAST__V1__CLAIM_STATE__NODE_DETACHED)
				sim_fail(sim, "the release of claim %s was acknowledged and it is %s",
					 claim->id, claim_state_name((enum claim_state)claim->state));
		}
	}
}

/* What the provider has attached is claimed, or on its way out. */
static void check_attachments_are_claimed(struct sim *sim, int v, const Holdfast__V1__Volume *volume)
{
	for (int n = 0; n < SIM_NODES; n++) {
		bool claimed = false;

		for (size_t i = 0; i < volume->n_claims; i++)
			claimed = claimed || (is_live(volume->claims[i]) &&
					      str_eq(volume->claims[i]->node_id, sim->nodes[n].id));
		if (sim->volumes[v].attached[n] && !claimed && sim->nodes[n].reported)
			sim_fail(sim, "volume %s stays attached to %s without a claim", volume->id,
				 sim->nodes[n].id);
	}
}

static void check_explained(struct sim *sim, const Holdfast__V1__GetVolumeResponse *response)
{
	size_t n_live = 0;

	for (size_t i = 0; i < response->volume->n_claims; i++)
		n_live += is_live(response->volume->claims[i]);
	if (response->volume->readers + response->volume->writers != n_live)
		sim_fail(sim, "volume %s has %zu live claims but counts %u", response->volume->id, n_live,
			 response->volume->readers + response->volume->writers);
	if (response->n_explanations != n_live)
		sim_fail(sim, "volume %s has %zu live claims and %zu explanations", response->volume->id,
			 n_live, response->n_explanations);
	for (size_t i = 0; i < response->n_explanations; i++) {
		const Holdfast__V1__ClaimExplanation *e = response->explanations[i];
		bool is_released = e->state >= HOLDFAST__V1__CLAIM_STATE__UNPUBLISHING;

		if (e->waiting_for[0] == '\0' || e->text[0] == '\0' || e->next_command[0] == '\0')
			sim_fail(sim, "claim %s is not explained", e->claim_id);
		if (is_released && e->state == HOLDFAST__V1__CLAIM_STATE__UNPUBLISHING && e->n_missing == 0)
			sim_fail(sim, "claim %s is stuck and no missing evidence is named", e->claim_id);
	}
}

static void check_history(struct sim *sim, int v, const Holdfast__V1__Volume *volume)
{
	if (volume->modify_index < sim->volumes[v].modify_index)
		sim_fail(sim, "the modify index of volume %s fell", volume->id);
	sim->volumes[v].modify_index = volume->modify_index;
	if (volume->generation < sim->volumes[v].generation)
		sim_fail(sim, "the generation of volume %s fell from %llu to %llu", volume->id,
			 (unsigned long long)sim->volumes[v].generation,
			 (unsigned long long)volume->generation);
	sim->volumes[v].generation = volume->generation;
	for (size_t i = 0; i < volume->n_claims; i++) {
		const Holdfast__V1__Claim *claim = volume->claims[i];

		if (claim->state >= HOLDFAST__V1__CLAIM_STATE__NODE_DETACHED &&
		    claim->evidence == HOLDFAST__V1__EVIDENCE__EVIDENCE_NONE)
			sim_fail(sim, "claim %s is %s without evidence", claim->id,
				 claim_state_name((enum claim_state)claim->state));
	}
}

static void check_index(struct sim *sim)
{
	Holdfast__V1__GetStatusRequest request = HOLDFAST__V1__GET_STATUS_REQUEST__INIT;
	ProtobufCMessage *response = NULL;
	uint64_t index;
	struct error err;

	if (sim_call(sim, &holdfast__v1__operator__descriptor, "Status", &request.base, &response, &err) !=
	    STATUS_OK)
		sim_fail(sim, "Operator.Status: %s", err.msg);
	index = ((const Holdfast__V1__GetStatusResponse *)response)->index;
	protobuf_c_message_free_unpacked(response, NULL);
	if (index < sim->index)
		sim_fail(sim, "the index fell from %llu to %llu: something acknowledged is lost",
			 (unsigned long long)sim->index, (unsigned long long)index);
	sim->index = index;
}

void oracle_check_server(struct sim *sim)
{
	check_index(sim);
	for (int v = 0; v < sim->n_volumes; v++) {
		Holdfast__V1__GetVolumeResponse *response = get_volume(sim, &sim->volumes[v]);

		check_mounts_are_claimed(sim, v, response ? response->volume : NULL);
		if (!response)
			continue;
		check_receipts_are_kept(sim, v, response->volume);
		check_attachments_are_claimed(sim, v, response->volume);
		check_explained(sim, response);
		check_history(sim, v, response->volume);
		holdfast__v1__get_volume_response__free_unpacked(response, NULL);
	}
}

void oracle_end_unknown(struct sim *sim)
{
	for (int v = 0; v < sim->n_volumes; v++) {
		Holdfast__V1__GetVolumeResponse *response = get_volume(sim, &sim->volumes[v]);

		for (int i = 0; i < SIM_NODES * SIM_ENTRIES; i++) {
			struct sim_entry *entry = &sim->nodes[i / SIM_ENTRIES].entries[i % SIM_ENTRIES];
			const Holdfast__V1__Claim *claim = NULL;

			if (!entry->off_journal || !entry->is_of_both || entry->volume != v)
				continue;
			if (response)
				claim = claim_by_id(response->volume, entry->claim_id);
			if (!claim || !is_live(claim))
				sim_entry_unmount(entry);
		}
		if (response)
			holdfast__v1__get_volume_response__free_unpacked(response, NULL);
	}
}

bool oracle_is_quiet(struct sim *sim)
{
	for (int v = 0; v < sim->n_volumes; v++) {
		const struct users users = users_of(sim, v, true);
		Holdfast__V1__GetVolumeResponse *response = get_volume(sim, &sim->volumes[v]);
		uint32_t n = response ? response->volume->readers + response->volume->writers : 0;

		if (response)
			holdfast__v1__get_volume_response__free_unpacked(response, NULL);
		if (n > 0 || users.readers + users.writers > 0)
			return false;
		for (int k = 0; k < SIM_NODES; k++)
			if (sim->volumes[v].attached[k])
				return false;
	}
	return true;
}

void oracle_explain_all(struct sim *sim)
{
	for (int v = 0; v < sim->n_volumes; v++) {
		Holdfast__V1__GetVolumeResponse *response = get_volume(sim, &sim->volumes[v]);

		if (!response)
			continue;
		if (response->volume->readers + response->volume->writers > 0)
			(void)fputs(response->why, stderr);
		holdfast__v1__get_volume_response__free_unpacked(response, NULL);
	}
}

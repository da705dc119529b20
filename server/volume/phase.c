/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/phase.h"

#include "base/clock.h"
#include "base/str.h"

#include <stdlib.h>
#include <string.h>

/* Does this code of a provider mean that it has changed nothing and will not? */
static bool is_definite(enum status status)
{
	switch (status) {
	case STATUS_INVALID_ARGUMENT:
	case STATUS_NOT_FOUND:
	case STATUS_ALREADY_EXISTS:
	case STATUS_PERMISSION_DENIED:
	case STATUS_RESOURCE_EXHAUSTED:
	case STATUS_FAILED_PRECONDITION:
	case STATUS_OUT_OF_RANGE:
	case STATUS_UNIMPLEMENTED:
	case STATUS_UNAUTHENTICATED:
		return true;
	case STATUS_OK:
	case STATUS_CANCELLED:
	case STATUS_UNKNOWN:
	case STATUS_DEADLINE_EXCEEDED:
	case STATUS_ABORTED: /* another call about this volume is in flight there */
	case STATUS_INTERNAL:
	case STATUS_UNAVAILABLE:
	case STATUS_DATA_LOSS:
	case STATUS_N:
		break;
	}
	return false;
}

enum volume_failure volume_phase_failure(const Holdfast__V1__VolumeDetail *detail, enum status status,
					 bool may_be_done)
{
	bool is_creating = detail->phase == HOLDFAST__V1__VOLUME_PHASE__VOLUME_CREATING;
	bool is_node_scheduled = detail->phase == HOLDFAST__V1__VOLUME_PHASE__VOLUME_EXPANDING &&
				 detail->capacity >= detail->capacity_min;

	if (!is_definite(status) || is_node_scheduled || (is_creating && may_be_done))
		return VOLUME_FAILURE_STAYS;
	return is_creating ? VOLUME_FAILURE_FORGETS : VOLUME_FAILURE_ENDS;
}

static bool set_error(Holdfast__V1__VolumeDetail *detail, const struct error *err)
{
	char *text = strdup(err ? err->msg : "");

	if (!text)
		return false;
	if (detail->phase_error != protobuf_c_empty_string)
		free(detail->phase_error);
	detail->phase_error = text;
	return true;
}

bool volume_phase_begin(Holdfast__V1__VolumeDetail *detail, Holdfast__V1__VolumePhase phase)
{
	if (!set_error(detail, NULL))
		return false;
	detail->phase = phase;
	detail->phase_since_ms = clock_realtime_ms();
	detail->phase_attempts = 1;
	return true;
}

bool volume_phase_end(Holdfast__V1__VolumeDetail *detail, const struct error *err)
{
	if (!set_error(detail, err))
		return false;
	detail->phase = HOLDFAST__V1__VOLUME_PHASE__VOLUME_READY;
	detail->phase_since_ms = 0;
	detail->phase_attempts = 0;
	return true;
}

bool volume_phase_note(Holdfast__V1__VolumeDetail *detail, const struct error *err)
{
	if (!set_error(detail, err))
		return false;
	detail->phase_attempts++;
	return true;
}

bool volume_phase_may_be_behind(const struct volume_entry *entry)
{
	const struct volume *volume = &entry->volume;
	struct instance_entry *at = state_plugin_instance_from(entry->plugin, "");
	bool has_file_system = false;

	for (uint32_t i = 0; i < volume->n_capabilities; i++)
		has_file_system =
			has_file_system || volume->capabilities[i].attachment_mode == ATTACHMENT_FILE_SYSTEM;
	for (; at; at = state_plugin_instance_next(at))
		if (has_file_system && at->instance.plugin.has_node && at->instance.plugin.node.expand)
			return true;
	return false;
}

bool volume_phase_created(Holdfast__V1__VolumeDetail *detail, const struct volume_entry *entry,
			  const Holdfast__V1__ControllerCreateResponse *made)
{
	bool is_copy = detail->snapshot_id[0] != '\0' || detail->clone_id[0] != '\0';

	/* capacity, context and topologies as made: without any of these it can be reached from everywhere */
	detail->made_by_provider = true;
	/* a copy has the file system of its source, which may be smaller */
	detail->node_expansion_due = is_copy && volume_phase_may_be_behind(entry);
	return message_copy_fields(&detail->base, &made->base) && volume_phase_end(detail, NULL);
}

static Holdfast__V1__NodeCapacity *find_node(Holdfast__V1__VolumeDetail *detail, const char *node_id)
{
	for (size_t i = 0; i < detail->n_node_capacities; i++)
		if (str_eq(detail->node_capacities[i]->node_id, node_id))
			return detail->node_capacities[i];
	return NULL;
}

static Holdfast__V1__NodeCapacity *add_node(Holdfast__V1__VolumeDetail *detail, const char *node_id)
{
	Holdfast__V1__NodeCapacity **more = reallocarray(
		detail->node_capacities, detail->n_node_capacities + 1, sizeof(Holdfast__V1__NodeCapacity *));
	Holdfast__V1__NodeCapacity *node = more ? malloc(sizeof(*node)) : NULL;

	if (more)
		detail->node_capacities = more;
	if (!node)
		return NULL;
	holdfast__v1__node_capacity__init(node);
	node->node_id = strdup(node_id);
	if (!node->node_id) {
		free(node);
		return NULL;
	}
	more[detail->n_node_capacities++] = node;
	return node;
}

/* May the machine that is its node now have it mounted, and is it to stay so? One that is on its way to be
 * freed gets nothing more of the volume. */
static bool is_mounted_by(const struct claim_entry *entry)
{
	const struct claim *claim = &entry->claim;

	return (claim->state == CLAIM_TAKEN || (claim->state == CLAIM_RESERVED && claim->sent_to_node)) &&
	       !claim->other_machine && state_claim_is_proven(entry);
}

static const struct claim_entry *claim_on(struct volume_entry *entry, const char *node_id)
{
	const struct claim_entry *claim;

	LIST_FOREACH (claim, &entry->claims, of_volume)
		if (is_mounted_by(claim) && str_eq(claim->claim.node_id, node_id))
			return claim;
	return NULL;
}

bool volume_phase_can_expand_on(const struct volume_entry *entry, const struct node_entry *node)
{
	const struct node_plugin *plugin = node_entry_plugin(node, &entry->volume);

	return !plugin || !plugin->has_node || plugin->node.expand;
}

bool volume_phase_all_behind(Holdfast__V1__VolumeDetail *detail, struct volume_entry *entry)
{
	struct claim_entry *claim;

	detail->node_expansion_due = true;
	LIST_FOREACH (claim, &entry->claims, of_volume) {
		Holdfast__V1__NodeCapacity *node;

		if (!is_mounted_by(claim) || !volume_phase_can_expand_on(entry, claim->node))
			continue;
		node = find_node(detail, claim->claim.node_id);
		if (!node)
			node = add_node(detail, claim->claim.node_id);
		if (!node)
			return false;
		node->bytes = 0; /* behind */
	}
	return true;
}

bool volume_phase_expanded(Holdfast__V1__VolumeDetail *detail, struct volume_entry *entry,
			   const Holdfast__V1__ControllerExpandResponse *done, uint64_t asked_min)
{
	/* a provider that names no size has given the requested one; it must not give less */
	detail->capacity = done->capacity > asked_min ? done->capacity : asked_min;
	return !done->node_expansion_required || volume_phase_all_behind(detail, entry);
}

const struct claim *volume_phase_next_node(const Holdfast__V1__VolumeDetail *detail,
					   struct volume_entry *entry, const char *after)
{
	const struct claim *best = NULL;

	for (size_t i = 0; i < detail->n_node_capacities; i++) {
		const Holdfast__V1__NodeCapacity *node = detail->node_capacities[i];
		const struct claim_entry *claim;

		if (node->bytes > 0 || strcmp(node->node_id, after) <= 0 ||
		    (best && strcmp(node->node_id, best->node_id) > 0))
			continue;
		claim = claim_on(entry, node->node_id);
		if (claim && volume_phase_can_expand_on(entry, claim->node))
			best = &claim->claim;
	}
	return best;
}

void volume_phase_node_done(Holdfast__V1__VolumeDetail *detail, const char *node_id, uint64_t bytes)
{
	Holdfast__V1__NodeCapacity *node = find_node(detail, node_id);

	if (node)
		node->bytes = bytes > 0 ? bytes : detail->capacity;
}

void volume_phase_node_expanded(Holdfast__V1__VolumeDetail *detail, const char *node_id, uint64_t bytes)
{
	volume_phase_node_done(detail, node_id, bytes);
	detail->node_expansion_due = false; /* it is one file system, wherever it is mounted next */
}

bool volume_phase_add_mounted(Holdfast__V1__VolumeDetail *detail, struct volume_entry *entry)
{
	struct claim_entry *claim;
	bool added = false;

	LIST_FOREACH (claim, &entry->claims, of_volume) {
		const char *node_id = claim->claim.node_id;

		if (!detail->node_expansion_due || claim->claim.state != CLAIM_TAKEN ||
		    !state_claim_is_proven(claim) ||
		    claim->claim.mode != CLAIM_WRITE || /* a read-only file system cannot grow */
		    find_node(detail, node_id) || !volume_phase_can_expand_on(entry, claim->node))
			continue;
		if (!add_node(detail, node_id))
			break;
		added = true;
	}
	return added;
}

bool volume_phase_resume_on(Holdfast__V1__VolumeDetail *detail, const char *node_id)
{
	Holdfast__V1__NodeCapacity *node;

	if (!detail->node_expansion_due || detail->phase != HOLDFAST__V1__VOLUME_PHASE__VOLUME_READY)
		return false;
	node = find_node(detail, node_id);
	if (!node)
		node = add_node(detail, node_id);
	if (!node)
		return false;
	node->bytes = 0; /* behind */
	return volume_phase_begin(detail, HOLDFAST__V1__VOLUME_PHASE__VOLUME_EXPANDING);
}

void volume_phase_drop_unused(Holdfast__V1__VolumeDetail *detail, struct volume_entry *entry)
{
	size_t n = 0;

	for (size_t i = 0; i < detail->n_node_capacities; i++) {
		Holdfast__V1__NodeCapacity *node = detail->node_capacities[i];
		const struct claim_entry *claim = claim_on(entry, node->node_id);

		/* the size that a node sees is unknown if it is behind and cannot expand */
		if (claim && (node->bytes > 0 || volume_phase_can_expand_on(entry, claim->node)))
			detail->node_capacities[n++] = node;
		else
			holdfast__v1__node_capacity__free_unpacked(node, NULL);
	}
	detail->n_node_capacities = n;
}

bool volume_phase_used_as(struct volume_entry *entry, struct capability *ret)
{
	const struct claim_entry *claim, *best = NULL;

	LIST_FOREACH (claim, &entry->claims, of_volume)
		if (claim_is_live(&claim->claim) && (!best || !state_claim_is_proven(best)))
			best = claim;
	if (best)
		*ret = claim_capability(&best->claim);
	return best;
}

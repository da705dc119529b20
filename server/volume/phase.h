/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The steps of a volume's phase as changes of its stored detail. Nothing here does I/O. */

#include "base/error.h"
#include "model/volume_detail.h"
#include "state/state.h"

#include <holdfast/v1/plugin_call.pb-c.h>
#include <stdbool.h>

/* The meaning of a failed try. */
enum volume_failure {
	VOLUME_FAILURE_STAYS,	/* it may have been done, or can be done later: the phase stays */
	VOLUME_FAILURE_ENDS,	/* the provider did not and will not do it: the volume is as it was */
	VOLUME_FAILURE_FORGETS, /* the provider has not made it: there is no volume */
};

/** @may_be_done an earlier try may have succeeded unnoticed. Source: CSI specification, error codes of
 * CreateVolume, DeleteVolume, ControllerExpandVolume. */
enum volume_failure volume_phase_failure(const Holdfast__V1__VolumeDetail *detail, enum status status,
					 bool may_be_done);

/** Begins @phase. False when memory is short, here and below: nothing may be stored then. */
bool volume_phase_begin(Holdfast__V1__VolumeDetail *detail, Holdfast__V1__VolumePhase phase);

/** The phase is over; @err NULL: done. */
bool volume_phase_end(Holdfast__V1__VolumeDetail *detail, const struct error *err);

/** Another try failed, in another way. */
bool volume_phase_note(Holdfast__V1__VolumeDetail *detail, const struct error *err);

/** Is it a file system that some node's plugin can expand? */
bool volume_phase_may_be_behind(const struct volume_entry *entry);

/** Stores the provider's reply. The volume is ready. A copy of a volume or snapshot is expanded by the next
 * node that mounts it. */
bool volume_phase_created(Holdfast__V1__VolumeDetail *detail, const struct volume_entry *entry,
			  const Holdfast__V1__ControllerCreateResponse *made);

/** The file system may be smaller than the volume: nodes with claims are behind, else the next one that
 * mounts it for write. False: memory is short. */
bool volume_phase_all_behind(Holdfast__V1__VolumeDetail *detail, struct volume_entry *entry);

/** The provider has expanded it to at least @asked_min; nodes with claims are behind when they have to act.
 */
bool volume_phase_expanded(Holdfast__V1__VolumeDetail *detail, struct volume_entry *entry,
			   const Holdfast__V1__ControllerExpandResponse *done, uint64_t asked_min);

/** Returns a claim on the next node behind @after, in the order of ids, whose file system is behind; NULL:
 * no such node. Nodes without a claim are skipped: nothing is mounted there. */
const struct claim *volume_phase_next_node(const Holdfast__V1__VolumeDetail *detail,
					   struct volume_entry *entry, const char *after);

/** The volume was expanded while no node could expand its file system, and now @node_id has it mounted: begin
 * to expand it there. False: there is nothing to do, or memory is short. */
bool volume_phase_resume_on(Holdfast__V1__VolumeDetail *detail, const char *node_id);

/** Nodes that have mounted it meanwhile and were not asked are behind as well. Returns whether there are any.
 */
bool volume_phase_add_mounted(Holdfast__V1__VolumeDetail *detail, struct volume_entry *entry);

/** There is nothing more to do on the node. @bytes 0: as large as the volume. */
void volume_phase_node_done(Holdfast__V1__VolumeDetail *detail, const char *node_id, uint64_t bytes);

/** The same, because its plugin has expanded the file system. */
void volume_phase_node_expanded(Holdfast__V1__VolumeDetail *detail, const char *node_id, uint64_t bytes);

/** May the plugin of @node be asked to expand the file system? Not one that does not announce it; one that is
 * not there now is asked when it is. */
bool volume_phase_can_expand_on(const struct volume_entry *entry, const struct node_entry *node);

/** Forgets the sizes of nodes that have it no longer, and those that are behind and cannot be expanded. */
void volume_phase_drop_unused(Holdfast__V1__VolumeDetail *detail, struct volume_entry *entry);

/** Returns the modes of a live claim; false: the volume is unused. */
bool volume_phase_used_as(struct volume_entry *entry, struct capability *ret);

/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/adopt.h"

#include "base/str.h"
#include "kernel/device.h"

/* Is the device of a csi volume still bound at the plugin's target? */
static bool device_is_there(const struct volume_record *volume, const char *path,
			    const struct mount_table *table, struct error *ret_why)
{
	const struct volume_target *target = &volume->target;
	uint32_t dev_major, dev_minor;
	struct mount_view view;

	if (!table)
		return true;
	if (mount_table_find(table, path, &view, ret_why) != STATUS_OK ||
	    device_of_mount(&view, &dev_major, &dev_minor, ret_why) != STATUS_OK) {
		if (ret_why) {
			(void)error_prefix(ret_why, "the device of volume %s is no longer at %s",
					   target->volume_id, path);
			ret_why->status = STATUS_ABORTED;
		}
		return false;
	}
	if (dev_major == target->dev_major && dev_minor == target->dev_minor)
		return true;
	(void)error_set(ret_why, STATUS_ABORTED, 0,
			"at %s is device %u:%u instead of that of volume %s (%u:%u)", path, dev_major,
			dev_minor, target->volume_id, target->dev_major, target->dev_minor);
	return false;
}

/* Returns whether the kernel still shows the mount of a volume that the journal lists as published. */
static bool mount_is_there(const struct volume_record *volume, const char *path,
			   const struct mount_snapshot *observed, struct error *ret_why)
{
	const struct volume_target *target = &volume->target;
	const struct mount_snapshot_entry *published =
		mount_snapshot_published(observed, target->alloc_id, target->slot);

	if (!published) {
		(void)error_set(ret_why, STATUS_ABORTED, 0,
				"volume %s is no longer mounted at %s: it was unmounted by another program "
				"while the agent was not running",
				target->volume_id, path);
		return false;
	}
	if (published->dev_major != target->dev_major || published->dev_minor != target->dev_minor) {
		(void)error_set(ret_why, STATUS_ABORTED, 0,
				"at %s device %u:%u is mounted instead of volume %s (%u:%u)", path,
				published->dev_major, published->dev_minor, target->volume_id,
				target->dev_major, target->dev_minor);
		return false;
	}
	return true;
}

static bool volume_is_there(const struct alloc_record *record, uint32_t i,
			    const struct mount_snapshot *observed, const struct mount_table *table,
			    struct error *ret_why)
{
	const struct volume_record *volume = &record->volumes[i];
	const char *path = record->alloc.published[i].path;

	return volume_target_is_device(&volume->target) ? device_is_there(volume, path, table, ret_why)
							: mount_is_there(volume, path, observed, ret_why);
}

bool adopt_is_missing(const struct alloc_record *record, uint32_t i, const struct mount_snapshot *observed)
{
	const struct volume_record *volume = &record->volumes[i];

	return volume->state == VOLUME_PUBLISHED && !volume_target_is_device(&volume->target) &&
	       !mount_snapshot_published(observed, volume->target.alloc_id, volume->target.slot);
}

enum adopt_action adopt_decide(const struct alloc_record *record, const struct mount_snapshot *observed,
			       const struct mount_table *table, const char *boot_id, struct error *ret_why)
{
	bool is_missing = false;

	if (record->phase == ALLOC_STOPPED)
		return ADOPT_NOTHING;
	if (!str_eq(record->boot_id, boot_id))
		return ADOPT_REBOOTED;
	if (record->phase == ALLOC_STOPPING)
		return ADOPT_CONTINUE;
	for (uint32_t i = 0; i < record->alloc.n_volumes; i++) {
		if (record->volumes[i].state != VOLUME_PUBLISHED ||
		    volume_is_there(record, i, observed, table, ret_why))
			continue;
		/* a unit or a task has its files open below, or has written below the missing mount */
		if (!adopt_is_missing(record, i, observed) || alloc_record_has_work(record))
			return ADOPT_FAIL;
		is_missing = true;
	}
	if (is_missing)
		return ADOPT_REMOUNT;
	return record->phase == ALLOC_RUNNING ? ADOPT_KEEP : ADOPT_CONTINUE;
}

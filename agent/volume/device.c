/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/device.h"

#include "base/str.h"
#include "kernel/device.h"
#include "volume/nfs.h"

static bool is_on_device(const struct mount_snapshot_entry *mount, const struct volume_target *target)
{
	return mount->dev_major == target->dev_major && mount->dev_minor == target->dev_minor;
}

/* The devices of csi volumes come and go: has another volume the number already? A helper that has lost its
 * state counts no volume; a name that a plugin makes up does not count. */
static bool is_reused(const struct volume_op *op)
{
	const struct volume_manager *manager = op->manager;
	struct mount_snapshot_entry *mount = NULL;

	while ((mount = mount_snapshot_next_staged(manager->observed, mount))) {
		if (is_on_device(mount, &op->target))
			return true;
	}
	while ((mount = mount_snapshot_next_stray(manager->observed, mount))) {
		if (is_on_device(mount, &op->target) &&
		    manager->in_use(mount->volume, VOLUME_USE_ANY, "", 0, manager->userdata))
			return true;
	}
	return volume_target_is_device(&op->target);
}

/* Mounts of the device that are neither plugins' nor the helper's. */
static void find_mounts(const struct volume_op *op, uint32_t dev_major, uint32_t dev_minor,
			struct device_mounts *ret)
{
	const struct helper_info *info = helper_client_info(op->manager->helper);
	const char *const ours[] = {info->stage_base, info->publish_base};

	device_find_mounts(dev_major, dev_minor, ours, ret);
}

/* Has the host mounted the device for itself? The whole table costs as much as there are mounts. So it is
 * looked first where the host had mounted the device when another volume of it was classified, and if its
 * file system is the plugin's work, only among the mounts that were made since the plugin was called. */
static bool host_has_mounted(struct volume_op *op, uint32_t dev_major, uint32_t dev_minor)
{
	const struct helper_info *info = helper_client_info(op->manager->helper);
	const char *const ours[] = {info->stage_base, info->publish_base};
	struct host_devices *hints = &op->manager->host_devices;
	const char *point = host_devices_point(hints, dev_major, dev_minor);
	struct device_mounts mounts;

	if (point && device_is_mounted_at(dev_major, dev_minor, point, ours))
		return true;
	if (!device_changes_find_mounts(&op->manager->device_changes, &op->before_plugin, dev_major,
					dev_minor, ours, &mounts))
		find_mounts(op, dev_major, dev_minor, &mounts);
	if (mounts.is_elsewhere)
		host_devices_note(hints, dev_major, dev_minor, mounts.point);
	return mounts.is_elsewhere;
}

void volume_device_classify(struct volume_op *op, uint32_t dev_major, uint32_t dev_minor, bool is_fresh)
{
	struct plugin_owned_set *plugin_owned = &op->manager->plugin_owned;
	const char *wire_volume = op->target.wire_volume;
	struct device_mounts mounts;
	bool is_hosts = false;

	if (plugin_owned_device(plugin_owned, wire_volume) != VOLUME_DEVICE_UNCLASSIFIED)
		return;
	if (device_has_superblock(dev_major, dev_minor) && is_fresh) {
		is_hosts = host_has_mounted(op, dev_major, dev_minor);
	} else if (device_has_superblock(dev_major, dev_minor)) {
		find_mounts(op, dev_major, dev_minor, &mounts);
		is_hosts = mounts.is_elsewhere && !mounts.is_whole;
	}
	plugin_owned_classify(plugin_owned, wire_volume, is_hosts ? VOLUME_DEVICE_HOSTS : VOLUME_DEVICE_OURS);
}

enum status volume_device_check(struct volume_op *op, const struct mh_reply *reply, struct error *err)
{
	const struct volume_target *target = &op->target;
	struct device_mounts mounts;
	char point[DEVICE_POINT_SIZE];

	if (target->type != VOLUME_CSI && target->source.class == SOURCE_NFS4)
		return volume_nfs_check(op, err);
	if (target->type == VOLUME_CSI ? is_reused(op) || target->is_host_device
				       : target->source.class != SOURCE_BLOCK)
		return STATUS_OK;
	if ((reply->state & MH_STATE_SB_ALIVE) == 0 &&
	    ((target->dev_major == 0 && target->dev_minor == 0) ||
	     !device_has_superblock(target->dev_major, target->dev_minor)))
		return STATUS_OK;
	find_mounts(op, target->dev_major, target->dev_minor, &mounts);
	str_copy_argument(point, sizeof(point), mounts.is_elsewhere ? mounts.point : "");
	if (mounts.is_elsewhere)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "volume %s is unmounted here, but its file system (device %u:%u) is still "
				 "in use: it is also mounted at %s; unmount it there (umount %s), "
				 "and look for more with: grep ' %u:%u ' /proc/*/mountinfo",
				 target->volume_id, target->dev_major, target->dev_minor, point, point,
				 target->dev_major, target->dev_minor);
	return error_set(
		err, STATUS_FAILED_PRECONDITION, 0,
		"volume %s is unmounted here, but its file system (device %u:%u) is still in use: another "
		"mount namespace (a container, a unit) holds a copy of the mount; find it with: grep ' %u:%u "
		"' "
		"/proc/*/mountinfo",
		target->volume_id, target->dev_major, target->dev_minor, target->dev_major,
		target->dev_minor);
}

enum status volume_device_check_former(struct volume_op *op, uint32_t dev_major, uint32_t dev_minor,
				       struct error *err)
{
	static const struct mh_reply says_nothing;
	const struct volume_target *target = &op->target;
	bool is_known = target->dev_major != 0 || target->dev_minor != 0;

	/* the mounts of a csi plugin may be of several devices, and those that are still there use theirs */
	if (target->type == VOLUME_CSI || !is_known ||
	    (target->dev_major == dev_major && target->dev_minor == dev_minor))
		return STATUS_OK;
	return volume_device_check(op, &says_nothing, err);
}

void volume_device_note(struct volume_op *op, const struct mh_reply *reply)
{
	const struct volume_target *target = &op->target;
	bool is_unused = (reply->state & MH_STATE_SB_ALIVE) == 0 && !is_reused(op) &&
			 !device_has_superblock(target->dev_major, target->dev_minor);
	const char *stage =
		reply->status == MH_OK ? "unstaged by the helper" : "nothing was mounted at the stage";

	if (target->dev_major == 0 && target->dev_minor == 0)
		str_copy_text(op->mounted.kernel, sizeof(op->mounted.kernel), stage);
	else
		(void)str_format(op->mounted.kernel, sizeof(op->mounted.kernel), "%s; device %u:%u %s", stage,
				 target->dev_major, target->dev_minor,
				 is_unused ? "no longer has a mounted file system"
					   : "was not looked at or is used otherwise");
}

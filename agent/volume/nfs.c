/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/nfs.h"

#include "base/str.h"
#include "kernel/nfs_list.h"
#include "kernel/nfs_owner.h"
#include "volume/stage_mounts.h"

static bool is_nfs(const struct volume_target *target)
{
	return target->type == VOLUME_NATIVE && target->source.class == SOURCE_NFS4;
}

bool volume_nfs_is_listed(const struct volume_op *op, uint32_t dev_major, uint32_t dev_minor)
{
	bool is_listed = false;

	return is_nfs(&op->target) && nfs_list_has(dev_major, dev_minor, &is_listed, NULL) == STATUS_OK &&
	       is_listed;
}

void volume_nfs_note(struct volume_op *op, const struct mount_snapshot_entry *staged)
{
	struct volume_target *target = &op->target;
	struct volume_manager *manager = op->manager;
	char path[MH_PATH_SIZE + 1 + WIRE_VOLUME_SIZE];
	struct mount_view view;

	/* without its profile a volume is taken for a block device */
	if (target->type != VOLUME_NATIVE || staged->dev_major != 0 ||
	    (target->source.class != SOURCE_NFS4 && target->source.class != SOURCE_BLOCK))
		return;
	if (target->dev_major != staged->dev_major || target->dev_minor != staged->dev_minor)
		target->is_nfs_listed = false; /* that was another one */
	(void)str_format(path, sizeof(path), "%s/%s", helper_client_info(manager->helper)->stage_base,
			 target->wire_volume);
	if (volume_stage_find(manager, path, &view, NULL) == STATUS_OK &&
	    str_starts_with(view.fs_type, "nfs")) {
		target->source.class = SOURCE_NFS4;
		target->has_own_superblock = view.is_unshared;
	}
	if (volume_nfs_is_listed(op, staged->dev_major, staged->dev_minor))
		target->is_nfs_listed = true;
}

/* The kernel still lists its number. */
static enum status explain_use(const struct volume_op *op, const struct nfs_owner *owner, struct error *err)
{
	const struct volume_target *target = &op->target;
	char point[DEVICE_POINT_SIZE];

	str_copy_argument(point, sizeof(point), owner->point);
	if (point[0] != '\0')
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "volume %s is unmounted here, but an NFS file system of its number (device "
				 "%u:%u) is still mounted at %s, and nothing shows that it is another one; "
				 "unmount it there (umount %s), and look for more with: grep ' %u:%u ' "
				 "/proc/[0-9]*/mountinfo",
				 target->volume_id, target->dev_major, target->dev_minor, point, point,
				 target->dev_major, target->dev_minor);
	return error_set(
		err, STATUS_FAILED_PRECONDITION, 0,
		"volume %s is unmounted here, but its NFS file system (device %u:%u) is still in use: a "
		"process has it mounted in another mount namespace (a container, a unit), or has "
		"a file of it open; find it with: grep ' %u:%u ' /proc/[0-9]*/mountinfo, or "
		"lsof -n | grep ' %u,%u ', and stop it; the claim is freed when it is gone",
		target->volume_id, target->dev_major, target->dev_minor, target->dev_major, target->dev_minor,
		target->dev_major, target->dev_minor);
}

enum status volume_nfs_check(struct volume_op *op, struct error *err)
{
	struct volume_target *target = &op->target;
	struct nfs_owner owner = {
		.dev_major = target->dev_major,
		.dev_minor = target->dev_minor,
		.stage_base = helper_client_info(op->manager->helper)->stage_base,
		.is_own = target->has_own_superblock,
	};
	bool is_listed;
	struct error why;

	if (target->dev_major == 0 && target->dev_minor == 0)
		return STATUS_OK; /* it was not mounted here */
	if (nfs_list_has(target->dev_major, target->dev_minor, &is_listed, &why) != STATUS_OK)
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"volume %s is unmounted here, but whether its NFS file system (device %u:%u) is "
			"still in use elsewhere on this node cannot be known: %s",
			target->volume_id, target->dev_major, target->dev_minor, why.msg);
	if (!is_listed && target->is_nfs_listed)
		return STATUS_OK;
	if (!is_listed)
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"volume %s is unmounted here, but whether its NFS file system (device %u:%u) is "
			"still in use elsewhere on this node cannot be known: the kernel's list, "
			"/proc/self/net/nfsfs/volumes, never showed it to this agent, which must run in the "
			"network namespace of the mount helper (no PrivateNetwork= in either unit); a "
			"reboot, or holdfast node attest, frees the claim",
			target->volume_id, target->dev_major, target->dev_minor);
	target->is_nfs_listed = true;
	nfs_owner_find(&owner);
	return owner.is_other ? STATUS_OK : explain_use(op, &owner, err);
}

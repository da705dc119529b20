/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/stage_mounts.h"

#include "base/str.h"

void volume_stage_forget(struct volume_manager *manager)
{
	mount_table_free(manager->stage_mounts);
	manager->stage_mounts = NULL;
}

/* Reads the plugins' mounts and binds, and keeps them as long as they do not change. */
static enum status target_look(struct volume_manager *manager, const char *stage_base, struct error *err)
{
	uint64_t settled = UINT64_MAX;
	const struct volume_op *op;

	if (!str_eq(stage_base, manager->stage_base)) {
		volume_stage_forget(manager);
		(void)str_copy(manager->stage_base, sizeof(manager->stage_base), stage_base);
	}
	LIST_FOREACH (op, &manager->ops, all) {
		if (op->call && op->kind == VOLUME_OP_MOUNT && op->called_at < settled)
			settled = op->called_at;
	}
	return mount_table_refresh(&manager->stage_mounts, stage_base, settled, err);
}

enum status volume_stage_find(struct volume_manager *manager, const char *path, struct mount_view *ret,
			      struct error *err)
{
	TRY(target_look(manager, helper_client_info(manager->helper)->stage_base, err));
	return mount_table_find(manager->stage_mounts, path, ret, err);
}

enum status volume_stage_table(struct volume_manager *manager, const struct mount_table **ret,
			       struct error *err)
{
	enum status status = target_look(manager, helper_client_info(manager->helper)->stage_base, err);

	*ret = manager->stage_mounts;
	return status;
}

enum status volume_target_find(struct volume_manager *manager, const struct volume_target *target,
			       struct csi_volume_paths *ret_paths, struct mount_view *ret_view,
			       struct error *err)
{
	const char *stage_base = helper_client_info(manager->helper)->stage_base;

	TRY(csi_volume_paths(stage_base, target, ret_paths, err));
	return volume_stage_find(manager, ret_paths->target, ret_view, err);
}

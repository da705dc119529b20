/* SPDX-License-Identifier: Apache-2.0 */
#include "publish.h"

#include "base/cleanup.h"
#include "base/mountinfo.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>

struct search {
	const char *path;
	bool is_found;
	bool is_shared;
	bool is_slave;
};

bool publish_path(const char *publish_dir, const char *alloc_id, uint32_t slot, char *ret)
{
	return str_format(ret, PATH_MAX, "%s/%s/%u", publish_dir, alloc_id, slot) > 0;
}

/* What was mounted there last is what is seen. */
static int visit(const struct mount_entry *entry, void *userdata)
{
	struct search *search = userdata;

	if (!str_eq(entry->point, search->path))
		return 0;
	search->is_found = true;
	search->is_shared = entry->peer_group != 0;
	search->is_slave = entry->master != 0;
	return 0;
}

static bool is_granted(const struct search *found, Holdfast__Driver__V1__MountPropagation asked)
{
	switch (asked) {
	case HOLDFAST__DRIVER__V1__MOUNT_PROPAGATION__MOUNT_PROPAGATION_PRIVATE:
		return true;
	case HOLDFAST__DRIVER__V1__MOUNT_PROPAGATION__MOUNT_PROPAGATION_HOST_TO_TASK:
		return found->is_shared || found->is_slave;
	case HOLDFAST__DRIVER__V1__MOUNT_PROPAGATION__MOUNT_PROPAGATION_BIDIRECTIONAL:
		return found->is_shared;
	case _HOLDFAST__DRIVER__V1__MOUNT_PROPAGATION_IS_INT_SIZE:
		break;
	}
	return false;
}

static enum status check_one(const char *mountinfo_path, const char *path,
			     const Holdfast__Driver__V1__VolumeMount *volume, const char **ret_reason,
			     struct error *err)
{
	cleanup_free struct mountinfo *mountinfo = malloc(sizeof(*mountinfo));
	cleanup_close int fd = open(mountinfo_path, O_RDONLY | O_CLOEXEC);
	struct search search = {.path = path};
	int r;

	if (!mountinfo || fd < 0)
		return error_set(err, STATUS_INTERNAL, mountinfo ? errno : ENOMEM, "read %s", mountinfo_path);
	mountinfo->fd = fd;
	r = mountinfo_each(mountinfo, visit, &search);
	if (r < 0)
		return error_set(err, status_from_errno(r), r, "read %s", mountinfo_path);
	if (!search.is_found) {
		*ret_reason = "publish";
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"the volume for %.128s is not mounted at %s: it has to be published before its "
			"task starts; see holdfast alloc status",
			volume->destination, path);
	}
	if (is_granted(&search, volume->propagation))
		return STATUS_OK;
	*ret_reason = "propagation";
	return error_set(
		err, STATUS_PERMISSION_DENIED, 0,
		"the volume for %.128s was granted less propagation than its task asks for: %s is %s",
		volume->destination, path, search.is_slave ? "a slave" : "private");
}

enum status publish_check(const char *mountinfo_path, const char *publish_dir,
			  const Holdfast__Driver__V1__TaskConfig *task, const char **ret_reason,
			  struct error *err)
{
	char path[PATH_MAX];
	enum status status = STATUS_OK;

	for (size_t i = 0; status == STATUS_OK && i < task->n_volumes; i++) {
		if (!publish_path(publish_dir, task->alloc_id, task->volumes[i]->slot, path))
			return error_set(err, STATUS_INVALID_ARGUMENT, 0, "publish_dir is too long");
		status = check_one(mountinfo_path, path, task->volumes[i], ret_reason, err);
	}
	return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/verify.h"

#include "mounthelper_wire.h"

#include <stdbool.h>
#include <stddef.h>

static const char *propagation_problem(enum propagation wanted, unsigned int state)
{
	bool is_shared = (state & MH_STATE_SHARED) != 0;
	bool is_slave = (state & MH_STATE_SLAVE) != 0;

	switch (wanted) {
	case PROPAGATION_PRIVATE:
		return is_shared  ? "it is shared, private was asked for"
		       : is_slave ? "it is a slave of the host's mount, private was asked for"
				  : NULL;
	case PROPAGATION_HOST_TO_TASK:
		return is_shared  ? "mounts made in it would reach the host, host-to-task was asked for"
		       : is_slave ? NULL
				  : "mounts of the host do not reach it, host-to-task was asked for";
	case PROPAGATION_BIDIRECTIONAL:
		return is_shared ? NULL : "it is not shared, bidirectional was asked for";
	case PROPAGATION_N:
		break;
	}
	return "its propagation cannot be judged";
}

static const char *reply_problem(const struct verify_wanted *wanted, const struct verify_reply *reply)
{
	if ((reply->state & MH_STATE_PUBLISHED) == 0)
		return "the mount helper does not see it published";
	if (wanted->read_only && (reply->state & MH_STATE_READ_ONLY) == 0)
		return "it is writable to the mount helper, read-only was asked for";
	if (!wanted->exec && (reply->state & MH_STATE_EXEC) != 0)
		return "it allows execution to the mount helper, which was not asked for";
	return propagation_problem(wanted->propagation, reply->state);
}

static const char *view_problem(const struct verify_wanted *wanted, const struct mount_view *view)
{
	if (!view->is_nosuid)
		return "it lacks nosuid";
	if (!view->is_nodev)
		return "it lacks nodev";
	if (wanted->read_only && !view->is_read_only)
		return "it is writable, read-only was asked for";
	if (!wanted->exec && !view->is_noexec)
		return "it lacks noexec";
	return NULL;
}

enum status verify_publish(const struct verify_wanted *wanted, const struct verify_reply *reply,
			   const struct mount_view *view, struct error *err)
{
	const char *problem = reply_problem(wanted, reply);

	if (!problem)
		problem = view_problem(wanted, view);
	if (problem)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "the mount at %s is not as asked for: %s", wanted->path, problem);
	if (view->dev_major != reply->dev_major || view->dev_minor != reply->dev_minor)
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"the mount at %s is not as asked for: its device is %u:%u here and %u:%u to the "
			"mount helper",
			wanted->path, view->dev_major, view->dev_minor, reply->dev_major, reply->dev_minor);
	return STATUS_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/task_text.h"

#include "base/str.h"
#include "unit/task.h"

#include <inttypes.h>

enum status task_text_failed(const char *unit, const struct task_view *view, const char *job_result,
			     struct error *err)
{
	if (!view->is_loaded && task_view_is_down(view))
		return error_set(
			err, STATUS_NOT_FOUND, 0,
			"unit %s cannot be started on this node, systemd says %s of it; see systemctl status",
			unit, view->load);
	if (view->active == TASK_ACTIVE_FAILED)
		return error_set(err, STATUS_ABORTED, 0,
				 "unit %s failed with result %s, exit status %" PRId32
				 "; see journalctl --unit",
				 unit, view->result, view->exit_status);
	return error_set(err, STATUS_ABORTED, 0,
			 "unit %s was not started: its job ended as %s%s; see systemctl status", unit,
			 job_result[0] ? job_result : "unknown",
			 str_eq(job_result, "done") ? ", as a condition in the unit is not met" : "");
}

enum status task_text_foreign(const char *unit, const struct task_view *view, struct error *err)
{
	return error_set(
		err, STATUS_FAILED_PRECONDITION, 0,
		"unit %s is %s already, and was not started for this allocation: it may use files that are "
		"not on the volume; stop and disable it (systemctl disable --now), and run the allocation "
		"again",
		unit, view->state);
}

enum status task_text_late(const char *unit, const struct task_view *view, struct error *err)
{
	return error_set(
		err, STATUS_DEADLINE_EXCEEDED, 0,
		"unit %s is %s (%s) after its stop_timeout; its volumes stay until it has ended: see "
		"systemctl status, or end it with systemctl kill",
		unit, view->state, view->sub);
}

enum status task_text_unlisted(const char *unit, const char *file, struct error *err)
{
	return error_set(err, STATUS_PERMISSION_DENIED, 0,
			 "the agent may not start unit %s: add it in %s (task { systemd_units = [ ] }) and "
			 "in " POLKIT_RULES ", and restart the agent",
			 unit, file);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/guard.h"

#include "base/clock.h"
#include "base/str.h"
#include "volume/csi_volume.h"
#include "volume/op_state.h"
#include "volume/stage_mounts.h"

#include <string.h>

void volume_guard_begin(struct volume_op *op, pid_t plugin)
{
	op->called_since = plugin_process_now();
	op->called_at = mount_table_last(op->manager->stage_mounts);
	op->called = plugin_process_find(plugin);
}

static struct lost_call *lost_of(const struct volume_op *op)
{
	return plugin_owned_lost(&op->manager->plugin_owned, op->target.wire_volume);
}

void volume_guard_lost(struct volume_op *op)
{
	struct lost_call *lost = lost_of(op);

	if (!lost)
		return;
	/* of several the first began earliest */
	if (!lost->is_open)
		lost->from = op->called_since;
	lost->is_open = true;
	lost->to = 0;
	lost->plugin = op->called;
	lost->since_us = lost->changed_us = clock_monotonic_us();
}

/* @ret_folder of the volume, which staging and targets are in */
static enum status guard_look(struct volume_op *op, struct csi_volume_paths *ret_paths,
			      const struct mount_table **ret_table,
			      char ret_folder[static CSI_VOLUME_PATH_SIZE], struct error *err)
{
	struct volume_manager *manager = op->manager;
	const struct lost_call *lost = lost_of(op);

	TRY(csi_volume_paths(helper_client_info(manager->helper)->stage_base, &op->target, ret_paths, err));
	(void)str_copy(ret_folder, CSI_VOLUME_PATH_SIZE, ret_paths->staging);
	*strrchr(ret_folder, '/') = '\0';
	/* a process of a call that failed may attach a mount that it made long ago */
	if (op->backoff.attempts > 0 || (lost && (lost->is_open || lost->since_us != 0)))
		volume_stage_forget(manager);
	return volume_stage_table(manager, ret_table, err);
}

/* A server in user space names what it has mounted, and stays: has it, and nothing else, been mounted at each
 * path that it names? */
static bool has_mounted(const struct plugin_children *children, const struct mount_table *table,
			const char *folder)
{
	const char *at = children->arguments, *end = at + children->n_arguments;
	struct mount_count count;

	if (children->n_naming != 1 || children->n_arguments == sizeof(children->arguments))
		return false;
	while ((at = memmem(at, (size_t)(end - at), folder, strlen(folder))) != NULL) {
		mount_table_count(table, at, &count);
		if (count.here != 1 || count.stacked[0] != '\0')
			return false;
		at += strlen(at);
	}
	return true;
}

static bool is_over(uint64_t since_us, unsigned int ms)
{
	return clock_monotonic_us() >= since_us + ms * USEC_PER_MSEC;
}

static void note_changes(struct lost_call *lost, const struct mount_table *table, const char *folder)
{
	struct mount_count count;

	mount_table_count(table, folder, &count);
	if (count.below == lost->n_mounts)
		return;
	lost->n_mounts = count.below;
	lost->changed_us = clock_monotonic_us();
}

/* Returns why the remains of a lost call must be waited for; NULL: no wait. @ret_pid 0: for no process */
static const char *why_wait(const struct lost_call *lost, const struct plugin_children *children,
			    const struct mount_table *table, const char *folder, pid_t plugin, pid_t *ret_pid)
{
	bool is_alive = plugin_process_is_alive(&lost->plugin);
	bool is_quiet = is_over(lost->changed_us, GUARD_QUIET_MS);

	*ret_pid = children->pid;
	if (children->is_unfinished)
		return children->pid != 0
			       ? "a process does not show its command line, as when a FUSE server does not "
				 "answer it"
			       : "the agent has no memory or thread to look for processes that still mount";
	if (children->n_naming > 0 && !(is_quiet && has_mounted(children, table, folder)))
		return "a process that names the volume's folder, or does not show its command line, began "
		       "during that call and has not ended";
	if (children->is_partial) {
		*ret_pid = 0;
		return "/proc hides processes from the agent, which may still mount: remove ProtectProc= "
		       "from its unit, or hidepid= from /proc, and restart it";
	}
	if (is_over(lost->since_us, GUARD_WAIT_MS))
		return NULL;
	if (!is_alive && children->n_session > 0)
		return "the plugin has died in it, and a process of its session has not ended";
	*ret_pid = lost->plugin.pid;
	if (is_alive && plugin != 0 && plugin != lost->plugin.pid)
		return "the process of the plugin that was called has been replaced and has not ended";
	if (lost->plugin.pid == 0 && !lost->is_from_before && !is_quiet)
		return "nothing is known of the plugin's process, and mounts may still change";
	return NULL;
}

static void explain_wait(const struct volume_op *op, const struct plugin_children *children, const char *why,
			 pid_t pid, const char *folder, struct error *err)
{
	const char *name = children->pid == pid ? children->name : op->target.profile;
	bool is_silent = children->is_unfinished; /* ps would wait for it */

	if (pid == 0)
		(void)error_set(err, STATUS_ABORTED, 0,
				"volume %s: plugin %s is not called yet: a call before had no answer; %s",
				op->target.volume_id, op->target.profile, why);
	else
		(void)error_set(err, STATUS_ABORTED, 0,
				"volume %s: plugin %s is not called yet: a call before had no answer; %s "
				"(pid %d, %s), and may mount below %s. Look: %s%d%s",
				op->target.volume_id, op->target.profile, why, (int)pid, name, folder,
				is_silent ? "cat /proc/" : "ps -fp ", (int)pid, is_silent ? "/status" : "");
}

enum status volume_guard_wait(struct volume_op *op, pid_t plugin, struct error *err)
{
	struct lost_call *lost = lost_of(op);
	char folder[CSI_VOLUME_PATH_SIZE];
	struct plugin_children children;
	struct csi_volume_paths paths;
	const struct mount_table *table;
	const char *why;
	pid_t pid;

	if (!lost || !lost->is_open)
		return STATUS_OK;
	TRY(guard_look(op, &paths, &table, folder, err));
	note_changes(lost, table, folder);
	if (lost->to == 0 && !plugin_process_is_alive(&lost->plugin))
		lost->to = plugin_process_now();
	plugin_process_children(&lost->plugin, lost->from, lost->to != 0 ? lost->to : UINT64_MAX, folder,
				&children);
	why = why_wait(lost, &children, table, folder, plugin, &pid);
	if (why) {
		explain_wait(op, &children, why, pid, folder, err);
		return STATUS_ABORTED;
	}
	/* one that lives may have a child for that call later, too */
	lost->is_open = plugin_process_is_alive(&lost->plugin);
	return STATUS_OK;
}

static enum status refuse_stacked(const struct volume_op *op, enum csi_method method, const char *at,
				  size_t n, struct error *err)
{
	char path[ERROR_MSG_MAX / 4];

	str_copy_argument(path, sizeof(path), at);
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "volume %s: %zu mounts are stacked at %s, where plugin %s makes one: %s is not "
			 "called, because it could delete files below the uppermost. See: findmnt %s; then "
			 "umount %s, once for each that is too many",
			 op->target.volume_id, n, path, op->target.profile, csi_methods[method].name, path,
			 path);
}

static enum status refuse_below(const struct volume_op *op, enum csi_method method, const char *target,
				struct error *err)
{
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "volume %s: something is mounted below %s, where plugin %s mounts it: %s is not "
			 "called, because it could delete files there. Unmount that; see: findmnt "
			 "-R %s",
			 op->target.volume_id, target, op->target.profile, csi_methods[method].name, target);
}

/* Checks that a target has one mount and no mount below it, and that no path in staging has two. */
static enum status guard_check(struct volume_op *op, bool is_target, enum csi_method method,
			       struct error *err)
{
	char folder[CSI_VOLUME_PATH_SIZE];
	const struct mount_table *table;
	struct csi_volume_paths paths;
	struct mount_count count;
	const char *path;

	TRY(guard_look(op, &paths, &table, folder, err));
	path = is_target ? paths.target : paths.staging;
	mount_table_count(table, path, &count);
	if (count.here > 1)
		return refuse_stacked(op, method, path, count.here, err);
	if (count.stacked[0] != '\0')
		return refuse_stacked(op, method, count.stacked, 2, err);
	if (is_target && count.below > 0)
		return refuse_below(op, method, path, err);
	return STATUS_OK;
}

enum status volume_guard_before(struct volume_op *op, enum csi_method method, struct error *err)
{
	if (method != CSI_NODE_UNPUBLISH_VOLUME && method != CSI_NODE_UNSTAGE_VOLUME)
		return STATUS_OK;
	return guard_check(op, method == CSI_NODE_UNPUBLISH_VOLUME, method, err);
}

enum status volume_guard_after(struct volume_op *op, enum csi_method method, struct error *err)
{
	struct lost_call *lost = lost_of(op);
	bool is_repeated = op->backoff.attempts > 0 || (lost && lost->since_us != 0);

	if (method != CSI_NODE_PUBLISH_VOLUME && method != CSI_NODE_STAGE_VOLUME)
		return STATUS_OK;
	/* processes that begin from here on do not belong to the lost call */
	if (lost && lost->is_open && lost->to == 0)
		lost->to = op->called_since;
	if (!is_repeated)
		return STATUS_OK;
	return guard_check(op, method == CSI_NODE_PUBLISH_VOLUME, CSI_NODE_UNPUBLISH_VOLUME, err);
}

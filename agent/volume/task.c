/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/task.h"

#include "base/clock.h"
#include "base/str.h"
#include "kernel/device.h"
#include "log/log.h"
#include "volume/csi_volume.h"
#include "volume/device.h"
#include "volume/nfs.h"
#include "volume/pause.h"
#include "volume/plugin.h"
#include "volume/verify.h"

#include <assert.h>

static void picture_note(struct volume_task *task, enum mh_list_kind kind, const struct mh_reply *reply)
{
	struct mh_list_entry entry = {
		.dev_major = reply->dev_major,
		.dev_minor = reply->dev_minor,
		.state = reply->state,
	};

	if (kind == MH_LIST_STAGED) {
		(void)str_copy(entry.volume, sizeof(entry.volume), task->target.wire_volume);
	} else {
		(void)str_copy(entry.alloc, sizeof(entry.alloc), task->target.alloc_id);
		entry.slot = task->target.slot;
	}
	/* what does not fit is read with the next picture */
	(void)picture_add(task->manager->picture, kind, &entry, NULL);
}

/* A refusal comes without its reason; the one that a new plugin meets first the picture shows. */
static bool lacks_profile(const struct volume_task *task)
{
	const struct picture *picture = task->manager->picture;

	for (size_t i = 0; i < picture->n_profiles; i++) {
		if (picture->profiles[i].class == MH_CLASS_CSI &&
		    str_eq(picture->profiles[i].name, task->target.profile))
			return false;
	}
	return task->target.type == VOLUME_CSI;
}

static enum status take_reply(struct volume_task *task, const struct mh_reply *reply, struct error *err)
{
	struct picture *picture = task->manager->picture;
	char subject[sizeof("volume ") + VOLUME_ID_MAX];
	enum status status;

	(void)str_format(subject, sizeof(subject), "volume %s", task->target.volume_id);
	status = helper_reply_outcome(reply, subject, err);
	if ((reply->header.op == MH_OP_UNSTAGE || reply->header.op == MH_OP_STAT) &&
	    status == STATUS_NOT_FOUND)
		status = STATUS_OK;
	if (status == STATUS_PERMISSION_DENIED && lacks_profile(task))
		return error_set(
			err, status, 0,
			"volume %s: the policy of this node's mount helper has no profile for plugin %s: add "
			"'profile %s { class = csi }' to the agent's block of mounthelper.policy, and send "
			"the agent SIGHUP",
			task->target.volume_id, task->target.profile, task->target.profile);
	if (status != STATUS_OK)
		return status;
	switch (reply->header.op) {
	case MH_OP_STAGE:
		if ((reply->state & MH_STATE_STAGED) == 0)
			return STATUS_OK;
		picture_note(task, MH_LIST_STAGED, reply);
		if (task->target.type == VOLUME_CSI)
			volume_device_judge(task, reply->dev_major, reply->dev_minor,
					    task->state == VOLUME_OP_CONFIRMING);
		return STATUS_OK;
	case MH_OP_STAT:
		/* without the helper's folders no plugin was ever called; with them one may have been */
		if (reply->status != MH_NOT_FOUND && task->target.type == VOLUME_CSI)
			volume_touches_add(&task->manager->touches, task->target.wire_volume);
		if ((reply->state & MH_STATE_STAGED) != 0)
			picture_note(task, MH_LIST_STAGED, reply);
		task->has_met_other = false;
		return STATUS_OK;
	case MH_OP_PUBLISH:
		picture_note(task, MH_LIST_PUBLISHED, reply);
		task->publish_reply = *reply;
		return STATUS_OK;
	case MH_OP_UNPUBLISH:
		picture_remove_published(picture, task->target.alloc_id, task->target.slot);
		return STATUS_OK;
	default:
		picture_remove_staged(picture, task->target.wire_volume);
		volume_touches_remove(&task->manager->touches, task->target.wire_volume);
		status = volume_device_check(task, reply, err);
		if (status == STATUS_OK && task->has_left_out)
			volume_device_note(task, reply);
		return status;
	}
}

/* What a STAGE of a csi volume found. The folders above a plugin's target are not for us to look into: the
 * helper is the witness. */
static enum volume_op_event staged_event(struct volume_task *task, const struct mh_reply *reply)
{
	enum volume_op_event event = VOLUME_OP_PREPARED;

	if (task->target.type != VOLUME_CSI)
		return VOLUME_OP_OK;
	if (!volume_target_is_device(&task->target) && (reply->state & MH_STATE_STAGED) != 0)
		event = VOLUME_OP_OK;
	if (volume_target_is_device(&task->target) && (reply->state & MH_STATE_DEVICE) != 0) {
		task->publish_reply = *reply;
		event = VOLUME_OP_DEVICE;
	}
	/* whoever called the plugin for what stands there */
	if (event != VOLUME_OP_PREPARED)
		volume_touches_add(&task->manager->touches, task->target.wire_volume);
	return event;
}

enum status volume_task_cancelled(const struct volume_task *task, struct error *err)
{
	if (task->kind == VOLUME_OP_EXPAND)
		return error_set(
			err, STATUS_DEADLINE_EXCEEDED, 0,
			"volume %s was not expanded in time: other operations of it came first (see: "
			"holdfast agent status)",
			task->target.volume_id);
	return error_set(err, STATUS_CANCELLED, 0, "the allocation was stopped");
}

static enum volume_op_event done_event(struct volume_task *task, const struct mh_reply *reply)
{
	if (reply->header.op == MH_OP_STAGE)
		return staged_event(task, reply);
	return reply->header.op == MH_OP_UNPUBLISH && task->has_met_other ? VOLUME_OP_UNSURE : VOLUME_OP_OK;
}

/* A reader's stage that cannot be writable, or already is not: the medium or the profile is read-only. */
static bool is_to_be_staged_read_only(struct volume_task *task, const struct mh_reply *reply)
{
	struct volume_target *target = &task->target;

	if (reply->header.op != MH_OP_STAGE || target->type == VOLUME_CSI || !target->read_only ||
	    target->stage_read_only ||
	    (reply->status != MH_REFUSED && reply->status != MH_KERNEL && reply->status != MH_CONFLICT))
		return false;
	target->stage_read_only = true;
	return true;
}

static void task_send(struct volume_task *task, enum volume_op_action action);

static void on_reply(const union helper_reply *reply, const struct error *err, void *userdata)
{
	struct volume_task *task = userdata;
	struct error failure;

	if (err) {
		volume_task_event(task, VOLUME_OP_FAILED, err);
		return;
	}
	if (take_reply(task, &reply->reply, &failure) != STATUS_OK) {
		if (is_to_be_staged_read_only(task, &reply->reply))
			task_send(task, VOLUME_OP_STAGE);
		else if (helper_reply_is_locked(&reply->reply))
			volume_task_sent_away(task, &failure);
		else
			volume_task_event(task, VOLUME_OP_FAILED, &failure);
		return;
	}
	if (task->is_cancelled) {
		(void)volume_task_cancelled(task, &failure);
		volume_task_event(task, VOLUME_OP_CANCELLED, &failure);
		return;
	}
	volume_task_event(task, done_event(task, &reply->reply), NULL);
}

static enum status make_request(struct volume_task *task, enum volume_op_action action,
				union helper_request *request, struct error *err)
{
	const struct volume_target *target = &task->target;
	struct mh_source source;
	struct helper_mount mount = {
		.volume = target->wire_volume,
		.profile = target->profile,
		.alloc = target->alloc_id,
		.slot = target->slot,
		.exec = target->exec,
		.propagation = target->propagation,
		.source = &source,
		.ticket = target->has_ticket ? &target->ticket : NULL,
	};
	enum status status = STATUS_OK;

	if (action == VOLUME_OP_UNPUBLISH)
		return helper_request_unpublish(target->wire_volume, target->alloc_id, target->slot, request,
						err);
	if (action == VOLUME_OP_UNSTAGE)
		return helper_request_unstage(target->wire_volume, request, err);
	if (action == VOLUME_OP_LOOK)
		return helper_request_stat(target->wire_volume, request, err);
	if (action == VOLUME_OP_PUBLISH) {
		mount.read_only = target->read_only;
		return helper_request_publish(&mount, request, err);
	}
	if (target->type == VOLUME_CSI)
		source = (struct mh_source){.class = MH_CLASS_CSI};
	else
		status = device_source(&target->source, &source, err);
	if (status != STATUS_OK)
		return status;
	/* of csi: which of the plugin's targets it is about */
	mount.read_only = target->type == VOLUME_CSI ? target->read_only : target->stage_read_only;
	return helper_request_stage(&mount, request, err);
}

static void task_send(struct volume_task *task, enum volume_op_action action)
{
	union helper_request request;
	enum status status;
	struct error err;

	status = make_request(task, action, &request, &err);
	if (status == STATUS_OK)
		status = helper_client_request(task->manager->helper, &request,
					       task->target.source.class == SOURCE_NFS4 ? HELPER_NFS
											: HELPER_NORMAL,
					       on_reply, task, &err);
	if (status != STATUS_OK)
		volume_task_event(task, VOLUME_OP_FAILED, &err);
}

/* Why what was seen at @path is no mount that can be judged. */
static enum status unseen(const struct volume_task *task, const char *path, const struct path_seen *seen,
			  struct error *err)
{
	if (seen->state == PATH_NOT_MOUNTED)
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"volume %s is published at %s, but this agent does not see it there: its mount "
			"namespace must receive mounts of the host (no PrivateMounts= or MountFlags=private "
			"in its unit)",
			task->target.volume_id, path);
	if (seen->state == PATH_SILENT)
		return error_set(err, STATUS_UNAVAILABLE, 0,
				 "volume %s is published at %s, but its file system does not answer within "
				 "%d s: is its server there?",
				 task->target.volume_id, path, VOLUME_LOOK_MS / 1000);
	return error_set(err, STATUS_UNAVAILABLE, seen->sys_errno,
			 "volume %s is published at %s, but cannot be looked at", task->target.volume_id,
			 path);
}

static enum status verify(const struct volume_task *task, const char *path, const struct path_seen *seen,
			  struct error *err)
{
	const struct verify_wanted wanted = {
		.path = path,
		.read_only = task->target.read_only,
		.exec = task->target.exec,
		.propagation = task->target.propagation,
	};
	const struct verify_reply reply = {
		.state = task->publish_reply.state,
		.dev_major = task->publish_reply.dev_major,
		.dev_minor = task->publish_reply.dev_minor,
	};

	enum status status;

	if (seen->state != PATH_MOUNTED)
		return unseen(task, path, seen, err);
	status = verify_publish(&wanted, &reply, &seen->view, err);
	if (status != STATUS_OK)
		log_ctx(LOG_ERR,
			&(struct log_ctx){.volume = task->target.volume_id,
					  .wire_volume = task->target.wire_volume,
					  .alloc = task->target.alloc_id,
					  .op = "verify",
					  .event = LOG_EVENT_MOUNT_DIFFERS,
					  .err = err},
			"what is mounted is not what was asked for");
	return status;
}

static enum status published_path(const struct volume_task *task, char ret[static ALLOC_PATH_MAX + 1],
				  struct error *err)
{
	if (str_format(ret, ALLOC_PATH_MAX + 1, "%s/%s/%u",
		       helper_client_info(task->manager->helper)->publish_base, task->target.alloc_id,
		       task->target.slot) < 0)
		return error_set(err, STATUS_INTERNAL, 0, "the path of volume %s is too long",
				 task->target.volume_id);
	return STATUS_OK;
}

static void on_looked(const struct path_seen *seen, void *userdata)
{
	struct volume_task *task = userdata;
	struct volume_mounted mounted = {
		.dev_major = task->publish_reply.dev_major,
		.dev_minor = task->publish_reply.dev_minor,
		.is_host_device = volume_touches_device(&task->manager->touches, task->target.wire_volume) ==
				  VOLUME_DEVICE_HOSTS,
		.is_nfs_listed = volume_nfs_is_listed(task, task->publish_reply.dev_major,
						      task->publish_reply.dev_minor),
	};
	struct error err;
	enum status status = published_path(task, mounted.path, &err);

	task->probe = NULL;
	if (status == STATUS_OK)
		status = verify(task, mounted.path, seen, &err);
	if (status != STATUS_OK) {
		volume_task_event(task, VOLUME_OP_FAILED, &err);
		return;
	}
	task->state = volume_op_step(task->state, VOLUME_OP_OK).next;
	volume_task_finish(task, &mounted, NULL);
}

/* What is asked for could be had from the mount table as well, but then each publish would cost as much as
 * there are mounts. */
static void task_verify(struct volume_task *task)
{
	char path[ALLOC_PATH_MAX + 1];
	struct error err;
	enum status status = published_path(task, path, &err);

	if (status == STATUS_OK)
		status = path_probe_start(task->manager->probes, path, VOLUME_LOOK_MS * USEC_PER_MSEC,
					  on_looked, task, &task->probe, &err);
	if (status != STATUS_OK)
		volume_task_event(task, VOLUME_OP_FAILED, &err);
}

/* No clone of the helper's: what the plugin has bound is handed out as it is. */
static void task_verify_device(struct volume_task *task)
{
	const struct volume_target *target = &task->target;
	struct volume_mounted mounted = {
		.is_device = true,
		.dev_major = task->publish_reply.dev_major,
		.dev_minor = task->publish_reply.dev_minor,
	};
	struct csi_volume_paths paths;
	struct error err;

	if (csi_volume_paths(helper_client_info(task->manager->helper)->stage_base, target->wire_volume,
			     target->read_only, &paths, &err) != STATUS_OK) {
		volume_task_event(task, VOLUME_OP_FAILED, &err);
		return;
	}
	(void)str_copy(mounted.path, sizeof(mounted.path), paths.target);
	task->state = volume_op_step(task->state, VOLUME_OP_OK).next;
	volume_task_finish(task, &mounted, NULL);
}

/* Is the volume used in this way, apart from what is being unmounted? */
static bool task_in_use(const struct volume_task *task, enum volume_use use)
{
	const struct volume_manager *manager = task->manager;
	const struct volume_target *target = &task->target;
	const char *alloc_id = task->kind == VOLUME_OP_RELEASE ? "" : target->alloc_id;

	return manager->in_use(target->wire_volume, use, alloc_id, target->slot, manager->userdata);
}

/* The helper undoes a volume as a whole: one use of it alone is the plugin's to end. Several that are left so
 * end together, with the first of them; of the others no plugin was asked either. */
static void task_leave_out(struct volume_task *task)
{
	struct error err;

	if (!task_in_use(task, VOLUME_USE_WITH_PLUGIN)) {
		task->has_left_out = true;
		volume_task_event(task, VOLUME_OP_OK, NULL);
		return;
	}
	(void)error_set(
		&err, STATUS_FAILED_PRECONDITION, 0,
		"volume %s is still used in another way on this node (read-only, or read-write), so only its "
		"plugin %s can end this use alone; stop the others first (see: holdfast agent status)",
		task->target.volume_id, task->target.profile);
	volume_task_event(task, VOLUME_OP_FAILED, &err);
}

/* Of a volume that this run of the agent called no plugin for, one before it may have; and what another
 * instance of the helper did is to be seen. */
static void task_look(struct volume_task *task)
{
	const struct volume_target *target = &task->target;

	if (!task->has_met_other &&
	    (target->type != VOLUME_CSI || volume_touches_has(&task->manager->touches, target->wire_volume)))
		volume_task_event(task, VOLUME_OP_OK, NULL);
	else
		task_send(task, VOLUME_OP_LOOK);
}

static void task_check(struct volume_task *task)
{
	struct volume_manager *manager = task->manager;
	struct volume_target *target = &task->target;
	const struct picture_mount *staged = picture_staged(manager->picture, target->wire_volume);
	bool is_plugins =
		target->type == VOLUME_CSI && volume_touches_has(&manager->touches, target->wire_volume);

	/* for the check after unstaging, when the picture has forgotten it */
	if (staged && !volume_target_is_device(target)) {
		volume_nfs_note(task, staged);
		target->dev_major = staged->dev_major;
		target->dev_minor = staged->dev_minor;
		if (target->type == VOLUME_CSI) {
			volume_device_judge(task, staged->dev_major, staged->dev_minor, false);
			target->is_host_device =
				volume_touches_device(&manager->touches, target->wire_volume) ==
				VOLUME_DEVICE_HOSTS;
		}
	}
	if (task_in_use(task, is_plugins ? volume_target_use(target) : VOLUME_USE_ANY))
		volume_task_event(task, VOLUME_OP_IN_USE, NULL);
	else if (target->type == VOLUME_CSI && target->without_plugin)
		task_leave_out(task);
	else
		volume_task_event(task, is_plugins ? VOLUME_OP_PLUGINS_TURN : VOLUME_OP_OK, NULL);
}

static void task_recheck(struct volume_task *task)
{
	volume_task_event(task, task_in_use(task, VOLUME_USE_ANY) ? VOLUME_OP_IN_USE : VOLUME_OP_PLUGINS_TURN,
			  NULL);
}

static void task_fail(struct volume_task *task)
{
	struct error failure = task->last_error;

	volume_task_finish(task, NULL, &failure);
}

static void task_run(struct volume_task *task, enum volume_op_action action)
{
	switch (action) {
	case VOLUME_OP_STAGE:
	case VOLUME_OP_PUBLISH:
	case VOLUME_OP_UNPUBLISH:
	case VOLUME_OP_UNSTAGE:
		task_send(task, action);
		return;
	case VOLUME_OP_WAIT_PLUGIN:
	case VOLUME_OP_PLUGIN_STAGE:
	case VOLUME_OP_PLUGIN_PUBLISH:
	case VOLUME_OP_PLUGIN_UNPUBLISH:
	case VOLUME_OP_PLUGIN_UNSTAGE:
	case VOLUME_OP_PLUGIN_EXPAND:
		volume_plugin_begin(task, action);
		return;
	case VOLUME_OP_VERIFY:
		if (volume_target_is_device(&task->target))
			task_verify_device(task);
		else
			task_verify(task);
		return;
	case VOLUME_OP_LOOK:
		task_look(task);
		return;
	case VOLUME_OP_CHECK:
		task_check(task);
		return;
	case VOLUME_OP_RECHECK:
		task_recheck(task);
		return;
	case VOLUME_OP_SUCCEED:
		volume_task_finish(task, NULL, NULL);
		return;
	case VOLUME_OP_FAIL_EMPTY:
		volume_plugin_mounted_nothing(task, &task->last_error);
		task_fail(task);
		return;
	case VOLUME_OP_FAIL:
		task_fail(task);
		return;
	case VOLUME_OP_RETRY:
		volume_task_retry(task);
		return;
	case VOLUME_OP_PAUSE:
		volume_task_pause(task);
		return;
	case VOLUME_OP_REFUSE:
	case VOLUME_OP_ACTION_N:
		return;
	}
}

void volume_task_event(struct volume_task *task, enum volume_op_event event, const struct error *err)
{
	struct volume_op_step step = volume_op_step(task->state, event);

	assert(step.action != VOLUME_OP_REFUSE);
	if (step.next != task->state)
		task->step_since_ms = clock_realtime_ms();
	task->state = step.next;
	if (err)
		task->last_error = *err;
	task_run(task, step.action);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/op.h"

#include "base/clock.h"
#include "base/str.h"
#include "csi/csi_method.h"
#include "kernel/device.h"
#include "log/log.h"
#include "rpc/wakeup.h"
#include "volume/csi_volume.h"
#include "volume/device.h"
#include "volume/guard.h"
#include "volume/nfs.h"
#include "volume/verify.h"

#include <assert.h>
#include <inttypes.h>

static bool volume_task_has_patience(struct volume_task *task)
{
	uint64_t now_us = clock_monotonic_us();

	uint64_t ms =
		task->target.mount_timeout_ms ? task->target.mount_timeout_ms : VOLUME_MOUNT_PATIENCE_MS;

	if (task->patience_end_us == 0) {
		task->patience_end_us = now_us + ms * USEC_PER_MSEC;
		task->gives_up_ms = clock_realtime_ms() + (int64_t)ms;
	}
	return now_us < task->patience_end_us;
}

static int on_pause_over(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct volume_task *task = userdata;
	bool is_undoing = task->kind == VOLUME_OP_UNMOUNT || task->kind == VOLUME_OP_RELEASE;

	wakeup_disarm(&task->timer);
	task->next_try_ms = 0;
	volume_task_event(
		task, is_undoing && task->target.without_plugin ? VOLUME_OP_LEFT_OUT : VOLUME_OP_AGAIN, NULL);
	return 0;
}

static void volume_task_pause(struct volume_task *task)
{
	uint64_t delay_us = backoff_next(&task->backoff, backoff_random());
	struct error err;

	task->next_try_ms = clock_realtime_ms() + (int64_t)(delay_us / USEC_PER_MSEC);
	if (wakeup_arm(task->manager->event, &task->timer, delay_us, on_pause_over, task, &err) !=
	    STATUS_OK) {
		task->next_try_ms = 0;
		volume_task_event(task, VOLUME_OP_FAILED, &err);
		return;
	}
	if (task->retry)
		task->retry(&task->last_error, task->userdata);
}

bool volume_task_is_pausing(const struct volume_task *task)
{
	return task->state != VOLUME_OP_IDLE && task->next_try_ms > 0;
}

static void volume_task_sent_away(struct volume_task *task, const struct error *why)
{
	struct error cancelled;

	task->has_met_other = true;
	if (task->kind == VOLUME_OP_MOUNT && task->is_cancelled) {
		(void)volume_task_cancelled(task, &cancelled);
		volume_task_event(task, VOLUME_OP_CANCELLED, &cancelled);
		return;
	}
	volume_task_event(task,
			  task->kind == VOLUME_OP_MOUNT && volume_task_has_patience(task) ? VOLUME_OP_PENDING
											  : VOLUME_OP_FAILED,
			  why);
}

typedef void build_fn(const struct volume_task *task, const struct node_half *node,
		      struct csi_volume_request *request);

static void tell_mode(const struct node_half *node, struct csi_volume_request *request)
{
	if (!node->single_node_multi_writer)
		csi_capability_coarsen(&request->capability);
}

static void build_stage(const struct volume_task *task, const struct node_half *node,
			struct csi_volume_request *request)
{
	csi_volume_stage(&task->target, request);
	tell_mode(node, request);
}

static void build_publish(const struct volume_task *task, const struct node_half *node,
			  struct csi_volume_request *request)
{
	csi_volume_publish(&task->target, node->stage, request);
	tell_mode(node, request);
}

static void build_unpublish(const struct volume_task *task, const struct node_half *node,
			    struct csi_volume_request *request)
{
	csi_volume_unpublish(&task->target, request);
}

static void build_unstage(const struct volume_task *task, const struct node_half *node,
			  struct csi_volume_request *request)
{
	csi_volume_unstage(&task->target, request);
}

static void build_expand(const struct volume_task *task, const struct node_half *node,
			 struct csi_volume_request *request)
{
	csi_volume_expand(
		(const Holdfast__V1__NodeExpandRequest *)(const void *)secret_message_get(task->expansion),
		node->stage, request);
	if (request->pb.expand.volume_capability)
		tell_mode(node, request);
}

/* Which call a state is about. */
static const struct plugin_step {
	enum csi_method method;
	build_fn *build; /* NULL: none */
} plugin_steps[VOLUME_OP_STATE_N] = {
	[VOLUME_OP_PLUGIN_STAGING] = {CSI_NODE_STAGE_VOLUME, build_stage},
	[VOLUME_OP_PLUGIN_PUBLISHING] = {CSI_NODE_PUBLISH_VOLUME, build_publish},
	[VOLUME_OP_PLUGIN_UNPUBLISHING] = {CSI_NODE_UNPUBLISH_VOLUME, build_unpublish},
	[VOLUME_OP_PLUGIN_UNSTAGING] = {CSI_NODE_UNSTAGE_VOLUME, build_unstage},
	[VOLUME_OP_EXPANDING] = {CSI_NODE_EXPAND_VOLUME, build_expand},
};

const char *volume_plugin_call_name(enum volume_op_state state)
{
	return plugin_steps[state].build ? csi_method_info(plugin_steps[state].method)->name : NULL;
}

static bool is_undoing(const struct volume_task *task)
{
	return task->kind == VOLUME_OP_UNMOUNT || task->kind == VOLUME_OP_RELEASE;
}

/* @may_be_done: a call was made, and it may have been carried out, or may still be; @is_passing: the same
 * call may end otherwise. */
static void task_failed(struct volume_task *task, bool may_be_done, bool is_passing, const struct error *err)
{
	enum volume_op_event event = VOLUME_OP_FAILED;
	struct error cancelled, given_up;

	if (task->kind == VOLUME_OP_MOUNT && task->is_cancelled) {
		(void)volume_task_cancelled(task, &cancelled);
		volume_task_event(task, VOLUME_OP_CANCELLED, &cancelled);
		return;
	}
	if (is_undoing(task) ? may_be_done
			     : task->kind == VOLUME_OP_MOUNT && is_passing && volume_task_has_patience(task))
		event = VOLUME_OP_PENDING;
	if (task->kind == VOLUME_OP_MOUNT && is_passing && event == VOLUME_OP_FAILED &&
	    task->backoff.attempts > 0) {
		given_up = *err;
		(void)error_prefix(&given_up, "given up after %" PRIu32 " attempts (mount_timeout)",
				   task->backoff.attempts + 1);
		err = &given_up;
	}
	volume_task_event(task, event, err);
}

static void task_succeeded(struct volume_task *task)
{
	struct error cancelled;

	if (task->is_cancelled && task->kind == VOLUME_OP_MOUNT) {
		(void)volume_task_cancelled(task, &cancelled);
		volume_task_event(task, VOLUME_OP_CANCELLED, &cancelled);
		return;
	}
	volume_task_event(task, VOLUME_OP_OK, NULL);
}

/* What its node service announces; NULL: it was never here. */
static const struct node_half *find_node(const struct volume_task *task)
{
	const struct plugins *plugins = task->manager->plugins;
	const struct node_plugin *facts = plugins ? plugins_facts(plugins, task->target.profile) : NULL;

	return facts && facts->has_node ? &facts->node : NULL;
}

/* So does one that was never here, as far as anybody knows. */
static bool announces_staging(const struct volume_task *task)
{
	const struct node_half *node = find_node(task);

	return !node || node->stage;
}

/* Of a precondition that the plugin lacks the caller knows one: it was not staged. A plugin that was
 * restarted may have forgotten it. Once per mount. */
static bool stage_again(struct volume_task *task, enum csi_method method, const struct error *err)
{
	if (method != CSI_NODE_PUBLISH_VOLUME || err->status != STATUS_FAILED_PRECONDITION ||
	    task->has_staged_again || task->is_cancelled || !announces_staging(task))
		return false;
	task->has_staged_again = true;
	volume_touches_note_staged(&task->manager->touches, task->target.wire_volume, false);
	volume_task_event(task, VOLUME_OP_UNSTAGED, err);
	return true;
}

static void on_called(const ProtobufCMessage *response, const struct error *err, void *userdata)
{
	struct volume_task *task = userdata;
	enum csi_method method = plugin_steps[task->state].method;
	struct error failure;

	task->call = NULL;
	if (!err && volume_guard_after(task, method, &failure) != STATUS_OK) {
		task_failed(task, false, false, &failure);
		return;
	}
	if (!err) {
		if (method == CSI_NODE_EXPAND_VOLUME)
			task->expanded_bytes =
				((const Csi__V1__NodeExpandVolumeResponse *)(const void *)response)
					->capacity_bytes;
		if (method == CSI_NODE_STAGE_VOLUME)
			volume_touches_note_staged(&task->manager->touches, task->target.wire_volume, true);
		task_succeeded(task);
		return;
	}
	/* what it does not know it does not hold, nor what it has no call for by now; what is mounted all the
	 * same the helper finds */
	if (is_undoing(task) && (csi_outcome(method, err->status) == CSI_GONE ||
				 (method == CSI_NODE_UNSTAGE_VOLUME && err->status == STATUS_UNIMPLEMENTED &&
				  !announces_staging(task)))) {
		task_succeeded(task);
		return;
	}
	if (csi_outcome(method, err->status) == CSI_UNKNOWN && method != CSI_NODE_EXPAND_VOLUME)
		volume_guard_lost(task);
	failure = *err;
	(void)error_prefix(&failure, "volume %s", task->target.volume_id);
	if (stage_again(task, method, &failure))
		return;
	task_failed(task, csi_outcome(method, err->status) == CSI_UNKNOWN,
		    csi_is_passing(method, err->status), &failure);
}

/* The plugin's own NOT_FOUND means something else. */
static void task_missing(struct volume_task *task, const struct error *why)
{
	const char *what = is_undoing(task)		   ? "released"
			   : task->kind == VOLUME_OP_MOUNT ? "mounted"
							   : "expanded";
	struct error err;

	(void)error_set(&err, STATUS_UNAVAILABLE, 0, "volume %s cannot be %s without its plugin: %s",
			task->target.volume_id, what, why->msg);
	task_failed(task, false, true, &err);
}

static enum status find_client(const struct volume_task *task, struct csi_client **ret, struct error *err)
{
	const struct plugins *plugins = task->manager->plugins;

	if (!plugins)
		return error_set(err, STATUS_UNAVAILABLE, 0, "this agent has no plugins");
	return plugins_client(plugins, task->target.profile, PLUGIN_NODE, ret, err);
}

/* Before a call of a mount, as it may be carried out whatever comes of it; the moment is that of the first,
 * and nobody's whose device was judged. */
static void note_mount_call(struct volume_task *task)
{
	struct volume_manager *manager = task->manager;
	const char *wire_volume = task->target.wire_volume;

	if (task->before_plugin.look == 0 && !volume_target_is_device(&task->target) &&
	    volume_touches_device(&manager->touches, wire_volume) == VOLUME_DEVICE_UNJUDGED)
		task->before_plugin = device_news_now(&manager->device_news);
	volume_touches_add(&manager->touches, wire_volume);
}

/* Returns false when the plugin is not to be called now; the task has had its event then. */
static bool is_allowed(struct volume_task *task, enum csi_method method, pid_t plugin)
{
	struct error err;

	if (method == CSI_NODE_EXPAND_VOLUME)
		return true;
	if (volume_guard_wait(task, plugin, &err) != STATUS_OK) {
		task_failed(task, true, true, &err);
		return false;
	}
	if (volume_guard_before(task, method, &err) != STATUS_OK) {
		task_failed(task, false, false, &err);
		return false;
	}
	volume_guard_begin(task, plugin);
	return true;
}

static void task_call(struct volume_task *task, uint64_t timeout_us)
{
	struct volume_manager *manager = task->manager;
	const struct plugin_step *step = &plugin_steps[task->state];
	const struct node_half *node = find_node(task);
	struct csi_volume_request request;
	struct csi_client *client;
	enum status status;
	struct error err;

	status = find_client(task, &client, &err);
	if (status == STATUS_OK && !node)
		status = error_set(&err, STATUS_UNAVAILABLE, 0, "it has told nothing about itself yet");
	if (status != STATUS_OK) {
		task_missing(task, &err);
		return;
	}
	if (!is_allowed(task, step->method, csi_client_peer(client)))
		return;
	status = csi_volume_paths(helper_client_info(manager->helper)->stage_base, task->target.wire_volume,
				  task->target.read_only, &request.paths, &err);
	if (status == STATUS_OK) {
		step->build(task, node, &request);
		if (task->kind == VOLUME_OP_MOUNT)
			note_mount_call(task);
		if (step->method == CSI_NODE_UNSTAGE_VOLUME && node->stage)
			volume_touches_note_staged(&manager->touches, task->target.wire_volume, false);
		status = csi_call_start(client, step->method, &request.pb.base, timeout_us, on_called, task,
					&task->call, &err);
	}
	if (status != STATUS_OK) {
		(void)error_prefix(&err, "volume %s", task->target.volume_id);
		task_failed(task, false, status == STATUS_RESOURCE_EXHAUSTED, &err);
	}
}

/* Has the plugin staged it, and is that still there? The mount is asked for as well, as what would be
 * published from a path that somebody has unmounted is not the volume. Who mounts nothing at that path stages
 * once more.
 */
static bool is_staged(const struct volume_task *task)
{
	const char *stage_base = helper_client_info(task->manager->helper)->stage_base;
	const char *wire_volume = task->target.wire_volume;
	struct csi_volume_paths paths;
	struct mount_view view;

	return volume_touches_is_staged(&task->manager->touches, wire_volume) &&
	       csi_volume_paths(stage_base, wire_volume, false, &paths, NULL) == STATUS_OK &&
	       volume_stage_find(task->manager, paths.staging, &view, NULL) == STATUS_OK;
}

/* Staging is the plugin's only if it says so, and is done once. */
static void call_if_it_stages(struct volume_task *task)
{
	if (!announces_staging(task) || is_staged(task))
		task_succeeded(task);
	else
		task_call(task, 0);
}

/* A plugin that was restarted while the publish was to be tried again may stage by now. */
static void call_once_staged(struct volume_task *task)
{
	if (announces_staging(task) &&
	    !volume_touches_is_staged(&task->manager->touches, task->target.wire_volume))
		volume_task_event(task, VOLUME_OP_UNSTAGED, NULL);
	else
		task_call(task, 0);
}

/* What it has staged it unstages, even if it says by now that it does no such thing. */
static void call_if_it_unstages(struct volume_task *task)
{
	if (!announces_staging(task) && !is_staged(task))
		task_succeeded(task);
	else
		task_call(task, 0);
}

/* Of the use that stands; a writer's, if there are both. A claim is not enough: what it is for may still be
 * to be mounted. */
static enum status expand_target(struct volume_task *task, struct error *err)
{
	struct volume_target *target = &task->target;
	struct csi_volume_paths paths;
	struct mount_view view;
	enum status status = STATUS_NOT_FOUND;

	for (int read_only = 0; read_only <= 1 && status == STATUS_NOT_FOUND; read_only++) {
		target->read_only = read_only != 0;
		status = volume_target_find(task->manager, target, &paths, &view, err);
	}
	return status == STATUS_NOT_FOUND
		       ? error_set(err, status, 0, "nothing of volume %s is on this node", target->volume_id)
		       : status;
}

static void task_expand(struct volume_task *task)
{
	const struct node_half *node = find_node(task);
	uint64_t now_us = clock_monotonic_us();
	struct error err;
	enum status status = expand_target(task, &err);

	if (status == STATUS_OK && node && !node->expand)
		status = error_set(&err, STATUS_UNIMPLEMENTED, 0,
				   "plugin %s does not announce that it expands volumes on a node "
				   "(EXPAND_VOLUME)",
				   task->target.profile);
	if (status == STATUS_OK && now_us >= task->patience_end_us)
		status = volume_task_cancelled(task, &err);
	if (status != STATUS_OK) {
		task_failed(task, false, false, &err);
		return;
	}
	task_call(task, task->patience_end_us - now_us);
}

static void on_ready(const struct error *err, void *userdata)
{
	struct volume_task *task = userdata;

	task->wait = NULL;
	task->next_try_ms = 0;
	if (!err) {
		task_succeeded(task);
		return;
	}
	/* it has had all the time that it gets */
	task->patience_end_us = 1;
	task_missing(task, err);
}

static void task_wait_for_plugin(struct volume_task *task)
{
	struct volume_manager *manager = task->manager;
	struct error err;
	enum status status;

	if (!manager->plugins) {
		(void)find_client(task, NULL, &err);
		on_ready(&err, task);
		return;
	}
	task->next_try_ms = clock_realtime_ms() + (int64_t)(manager->plugin_wait_us / USEC_PER_MSEC);
	status = plugins_wait(manager->plugins, task->target.profile, PLUGIN_NODE, manager->plugin_wait_us,
			      on_ready, task, &task->wait, &err);
	if (status != STATUS_OK)
		on_ready(&err, task);
}

static void volume_plugin_begin(struct volume_task *task, enum volume_op_action action)
{
	if (action == VOLUME_OP_WAIT_PLUGIN)
		task_wait_for_plugin(task);
	else if (action == VOLUME_OP_PLUGIN_STAGE)
		call_if_it_stages(task);
	else if (action == VOLUME_OP_PLUGIN_PUBLISH)
		call_once_staged(task);
	else if (action == VOLUME_OP_PLUGIN_UNSTAGE)
		call_if_it_unstages(task);
	else if (action == VOLUME_OP_PLUGIN_EXPAND)
		task_expand(task);
	else
		task_call(task, 0);
}

static void volume_plugin_mounted_nothing(const struct volume_task *task, struct error *err)
{
	struct csi_volume_paths paths = {.target = "its target"};

	(void)csi_volume_paths(helper_client_info(task->manager->helper)->stage_base,
			       task->target.wire_volume, task->target.read_only, &paths, NULL);
	(void)error_set(err, STATUS_FAILED_PRECONDITION, 0,
			volume_target_is_device(&task->target)
				? "volume %s: plugin %s answered OK to NodePublishVolume and bound no block "
				  "device of /dev at %s; see the plugin's own log"
				: "volume %s: plugin %s answered OK to NodePublishVolume and mounted nothing "
				  "at %s; see the plugin's own log",
			task->target.volume_id, task->target.profile, paths.target);
}

void volume_plugin_stop(struct volume_task *task)
{
	plugin_wait_cancel(task->wait);
	task->wait = NULL;
	csi_call_cancel(task->call);
	task->call = NULL;
}

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
	task->mounted = mounted;
	task->has_mounted = true;
	volume_task_event(task, VOLUME_OP_OK, NULL);
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
	task->mounted = mounted;
	task->has_mounted = true;
	volume_task_event(task, VOLUME_OP_OK, NULL);
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

	volume_task_finish(task, &failure);
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
		volume_task_finish(task, NULL);
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

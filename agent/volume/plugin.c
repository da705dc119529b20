/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/plugin.h"

#include "base/clock.h"
#include "base/str.h"
#include "csi/csi_method.h"
#include "rpc/wakeup.h"
#include "volume/csi_volume.h"
#include "volume/guard.h"
#include "volume/pause.h"
#include "volume/task.h"

#include <assert.h>
#include <inttypes.h>

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

void volume_plugin_begin(struct volume_task *task, enum volume_op_action action)
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

void volume_plugin_mounted_nothing(const struct volume_task *task, struct error *err)
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

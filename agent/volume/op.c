/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/op.h"

#include "mounthelper_words.h"

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
#include "volume/queue.h"
#include "volume/stage_mounts.h"
#include "volume/verify.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>

static bool volume_op_has_patience(struct volume_op *op)
{
	uint64_t now_us = clock_monotonic_us();

	uint64_t ms = op->target.mount_timeout_ms ? op->target.mount_timeout_ms : VOLUME_MOUNT_PATIENCE_MS;

	if (op->patience_end_us == 0) {
		op->patience_end_us = now_us + ms * USEC_PER_MSEC;
		op->gives_up_ms = clock_realtime_ms() + (int64_t)ms;
	}
	return now_us < op->patience_end_us;
}

static bool is_undoing(const struct volume_op *op)
{
	return op->kind == VOLUME_OP_UNMOUNT || op->kind == VOLUME_OP_RELEASE;
}

static enum status cancelled(const struct volume_op *op, struct error *err)
{
	if (op->kind == VOLUME_OP_EXPAND)
		return error_set(
			err, STATUS_DEADLINE_EXCEEDED, 0,
			"volume %s was not expanded in time: other operations of it came first (see: "
			"holdfast agent status)",
			op->target.volume_id);
	return error_set(err, STATUS_CANCELLED, 0, "the allocation was stopped");
}

bool volume_op_end_if_cancelled(struct volume_op *op)
{
	struct error err;

	if (!op->is_cancelled)
		return false;
	(void)cancelled(op, &err);
	volume_op_handle(op, VOLUME_OP_CANCELLED, &err);
	return true;
}

static int on_pause_over(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct volume_op *op = userdata;

	wakeup_disarm(&op->timer);
	op->next_try_ms = 0;
	volume_op_handle(op, is_undoing(op) && op->target.without_plugin ? VOLUME_OP_FORCED : VOLUME_OP_AGAIN,
			 NULL);
	return 0;
}

static void volume_op_pause(struct volume_op *op)
{
	uint64_t delay_us = backoff_next(&op->backoff, backoff_random());
	struct error err;

	op->next_try_ms = clock_realtime_ms() + (int64_t)(delay_us / USEC_PER_MSEC);
	if (wakeup_arm(op->manager->event, &op->timer, delay_us, on_pause_over, op, &err) != STATUS_OK) {
		op->next_try_ms = 0;
		volume_op_handle(op, VOLUME_OP_FAILED, &err);
		return;
	}
	if (op->retry)
		op->retry(&op->last_error, op->userdata);
}

bool volume_op_is_pausing(const struct volume_op *op)
{
	return op->state != VOLUME_OP_IDLE && op->next_try_ms > 0;
}

static void volume_op_sent_away(struct volume_op *op, const struct error *why)
{
	op->has_met_other = true;
	if (volume_op_end_if_cancelled(op))
		return;
	volume_op_handle(op,
			 op->kind == VOLUME_OP_MOUNT && volume_op_has_patience(op) ? VOLUME_OP_PENDING
										   : VOLUME_OP_FAILED,
			 why);
}

typedef void build_fn(const struct volume_op *op, const struct node_half *node,
		      struct csi_volume_request *request);

static void set_access_mode(const struct node_half *node, struct csi_volume_request *request)
{
	if (!node->single_node_multi_writer)
		csi_capability_coarsen(&request->capability);
}

static void build_stage(const struct volume_op *op, const struct node_half *node,
			struct csi_volume_request *request)
{
	csi_volume_stage(&op->target, request);
	set_access_mode(node, request);
}

static void build_publish(const struct volume_op *op, const struct node_half *node,
			  struct csi_volume_request *request)
{
	csi_volume_publish(&op->target, node->stage, request);
	set_access_mode(node, request);
}

static void build_unpublish(const struct volume_op *op, const struct node_half *node,
			    struct csi_volume_request *request)
{
	csi_volume_unpublish(&op->target, request);
}

static void build_unstage(const struct volume_op *op, const struct node_half *node,
			  struct csi_volume_request *request)
{
	csi_volume_unstage(&op->target, request);
}

static void build_expand(const struct volume_op *op, const struct node_half *node,
			 struct csi_volume_request *request)
{
	csi_volume_expand(
		(const Holdfast__V1__NodeExpandRequest *)(const void *)secret_message_get(op->expansion),
		node->stage, request);
	if (request->pb.expand.volume_capability)
		set_access_mode(node, request);
}

/* Which call a state is about. */
static const struct plugin_step {
	enum csi_method method;
	build_fn *build; /* NULL: no call */
} plugin_steps[VOLUME_OP_STATE_N] = {
	[VOLUME_OP_PLUGIN_STAGING] = {CSI_NODE_STAGE_VOLUME, build_stage},
	[VOLUME_OP_PLUGIN_PUBLISHING] = {CSI_NODE_PUBLISH_VOLUME, build_publish},
	[VOLUME_OP_PLUGIN_UNPUBLISHING] = {CSI_NODE_UNPUBLISH_VOLUME, build_unpublish},
	[VOLUME_OP_PLUGIN_UNSTAGING] = {CSI_NODE_UNSTAGE_VOLUME, build_unstage},
	[VOLUME_OP_EXPANDING] = {CSI_NODE_EXPAND_VOLUME, build_expand},
};

const char *volume_plugin_call_name(enum volume_op_state state)
{
	return plugin_steps[state].build ? csi_methods[plugin_steps[state].method].name : NULL;
}

/* @may_be_done: a call was made, and it may have been carried out, or may still be; @is_passing: the same
 * call may end otherwise. */
static void op_failed(struct volume_op *op, bool may_be_done, bool is_passing, const struct error *err)
{
	enum volume_op_event event = VOLUME_OP_FAILED;
	struct error given_up;

	if (volume_op_end_if_cancelled(op))
		return;
	if (is_undoing(op) ? may_be_done
			   : op->kind == VOLUME_OP_MOUNT && is_passing && volume_op_has_patience(op))
		event = VOLUME_OP_PENDING;
	if (op->kind == VOLUME_OP_MOUNT && is_passing && event == VOLUME_OP_FAILED &&
	    op->backoff.attempts > 0) {
		given_up = *err;
		(void)error_prefix(&given_up, "given up after %" PRIu32 " attempts (mount_timeout)",
				   op->backoff.attempts + 1);
		err = &given_up;
	}
	volume_op_handle(op, event, err);
}

static void op_succeeded(struct volume_op *op)
{
	if (!volume_op_end_if_cancelled(op))
		volume_op_handle(op, VOLUME_OP_OK, NULL);
}

/* Returns the capabilities that its node service announces; NULL: it was never here. */
static const struct node_half *find_node(const struct volume_op *op)
{
	const struct plugins *plugins = op->manager->plugins;
	const struct node_plugin *facts = plugins ? plugins_facts(plugins, op->target.profile) : NULL;

	return facts && facts->has_node ? &facts->node : NULL;
}

/* Returns true also for a plugin that was never here: its capabilities are unknown. */
static bool announces_staging(const struct volume_op *op)
{
	const struct node_half *node = find_node(op);

	return !node || node->stage;
}

/* Stages again if the plugin lost the staging, once per mount. FAILED_PRECONDITION from NodePublishVolume
 * usually means that the plugin was restarted and forgot it. */
static bool stage_again(struct volume_op *op, enum csi_method method, const struct error *err)
{
	if (method != CSI_NODE_PUBLISH_VOLUME || err->status != STATUS_FAILED_PRECONDITION ||
	    op->has_staged_again || op->is_cancelled || !announces_staging(op))
		return false;
	op->has_staged_again = true;
	plugin_owned_mark_staged(&op->manager->plugin_owned, op->target.wire_volume, false);
	volume_op_handle(op, VOLUME_OP_UNSTAGED, err);
	return true;
}

static void on_called(const ProtobufCMessage *response, const struct error *err, void *userdata)
{
	struct volume_op *op = userdata;
	enum csi_method method = plugin_steps[op->state].method;
	struct error failure;

	op->call = NULL;
	if (!err && volume_guard_after(op, method, &failure) != STATUS_OK) {
		op_failed(op, false, false, &failure);
		return;
	}
	if (!err) {
		if (method == CSI_NODE_EXPAND_VOLUME)
			op->expanded_bytes =
				((const Csi__V1__NodeExpandVolumeResponse *)(const void *)response)
					->capacity_bytes;
		if (method == CSI_NODE_STAGE_VOLUME)
			plugin_owned_mark_staged(&op->manager->plugin_owned, op->target.wire_volume, true);
		op_succeeded(op);
		return;
	}
	/* a volume that the plugin does not know is not held, nor one whose call it no longer has; if it is
	 * still mounted, the helper finds it */
	if (is_undoing(op) && (csi_outcome(method, err->status) == CSI_GONE ||
			       (method == CSI_NODE_UNSTAGE_VOLUME && err->status == STATUS_UNIMPLEMENTED &&
				!announces_staging(op)))) {
		op_succeeded(op);
		return;
	}
	if (csi_outcome(method, err->status) == CSI_UNKNOWN && method != CSI_NODE_EXPAND_VOLUME)
		volume_guard_lost(op);
	failure = *err;
	(void)error_prefix(&failure, "volume %s", op->target.volume_id);
	if (stage_again(op, method, &failure))
		return;
	op_failed(op, csi_outcome(method, err->status) == CSI_UNKNOWN, csi_is_passing(method, err->status),
		  &failure);
}

/* The plugin's own NOT_FOUND means something else. */
static void op_missing(struct volume_op *op, const struct error *why)
{
	const char *what = is_undoing(op) ? "released" : op->kind == VOLUME_OP_MOUNT ? "mounted" : "expanded";
	struct error err;

	(void)error_set(&err, STATUS_UNAVAILABLE, 0, "volume %s cannot be %s without its plugin: %s",
			op->target.volume_id, what, why->msg);
	op_failed(op, false, true, &err);
}

static enum status find_client(const struct volume_op *op, struct service_client **ret, struct error *err)
{
	const struct plugins *plugins = op->manager->plugins;

	if (!plugins)
		return error_set(err, STATUS_UNAVAILABLE, 0, "this agent has no plugins");
	return plugins_client(plugins, op->target.profile, PLUGIN_NODE, ret, err);
}

/* Records the moment before the first call of a mount, which may be carried out even if it fails; no moment
 * if the device is classified. */
static void note_mount_call(struct volume_op *op)
{
	struct volume_manager *manager = op->manager;
	const char *wire_volume = op->target.wire_volume;

	if (op->before_plugin.look == 0 && !volume_target_is_device(&op->target) &&
	    plugin_owned_device(&manager->plugin_owned, wire_volume) == VOLUME_DEVICE_UNCLASSIFIED)
		op->before_plugin = device_changes_now(&manager->device_changes);
	plugin_owned_add(&manager->plugin_owned, wire_volume);
}

/* Returns false when the plugin is not to be called now; the operation has had its event then. */
static bool is_allowed(struct volume_op *op, enum csi_method method, pid_t plugin)
{
	struct error err;

	if (method == CSI_NODE_EXPAND_VOLUME)
		return true;
	if (volume_guard_wait(op, plugin, &err) != STATUS_OK) {
		op_failed(op, true, true, &err);
		return false;
	}
	if (volume_guard_before(op, method, &err) != STATUS_OK) {
		op_failed(op, false, false, &err);
		return false;
	}
	volume_guard_begin(op, plugin);
	return true;
}

static void op_call(struct volume_op *op, uint64_t timeout_us)
{
	struct volume_manager *manager = op->manager;
	const struct plugin_step *step = &plugin_steps[op->state];
	const struct node_half *node = find_node(op);
	struct csi_volume_request request;
	struct service_client *client;
	enum status status;
	struct error err;

	status = find_client(op, &client, &err);
	if (status == STATUS_OK && !node)
		status = error_set(&err, STATUS_UNAVAILABLE, 0, "it has not introduced itself yet");
	if (status != STATUS_OK) {
		op_missing(op, &err);
		return;
	}
	if (!is_allowed(op, step->method, service_client_peer(client)))
		return;
	status = csi_volume_paths(helper_client_info(manager->helper)->stage_base, &op->target,
				  &request.paths, &err);
	if (status == STATUS_OK) {
		step->build(op, node, &request);
		if (op->kind == VOLUME_OP_MOUNT)
			note_mount_call(op);
		if (step->method == CSI_NODE_UNSTAGE_VOLUME && node->stage)
			plugin_owned_mark_staged(&manager->plugin_owned, op->target.wire_volume, false);
		status = service_call_start(client,
					    &(struct service_request){.method = step->method,
								      .message = &request.pb.base,
								      .timeout_us = timeout_us,
								      .done = on_called,
								      .userdata = op},
					    &op->call, &err);
	}
	if (status != STATUS_OK) {
		(void)error_prefix(&err, "volume %s", op->target.volume_id);
		op_failed(op, false, status == STATUS_RESOURCE_EXHAUSTED, &err);
	}
}

/* Returns whether the plugin has staged the volume, and its mount still exists: if another process has
 * unmounted it, a publish from that path is not the volume. A plugin that stages without mounting there is
 * asked to stage again. */
static bool is_staged(const struct volume_op *op)
{
	const char *stage_base = helper_client_info(op->manager->helper)->stage_base;
	const char *wire_volume = op->target.wire_volume;
	struct csi_volume_paths paths;
	struct mount_view view;

	return plugin_owned_is_staged(&op->manager->plugin_owned, wire_volume) &&
	       csi_volume_paths(stage_base, &op->target, &paths, NULL) == STATUS_OK &&
	       volume_stage_find(op->manager, paths.staging, &view, NULL) == STATUS_OK;
}

/* Calls the plugin to stage, once, if it announces that. */
static void call_if_it_stages(struct volume_op *op)
{
	if (!announces_staging(op) || is_staged(op))
		op_succeeded(op);
	else
		op_call(op, 0);
}

/* Stages first if needed: a plugin that was restarted before a repeated publish may announce staging now. */
static void call_once_staged(struct volume_op *op)
{
	if (announces_staging(op) &&
	    !plugin_owned_is_staged(&op->manager->plugin_owned, op->target.wire_volume))
		volume_op_handle(op, VOLUME_OP_UNSTAGED, NULL);
	else
		op_call(op, 0);
}

/* Calls the plugin to unstage if it has staged, even if it no longer announces staging. */
static void call_if_it_unstages(struct volume_op *op)
{
	if (!announces_staging(op) && !is_staged(op))
		op_succeeded(op);
	else
		op_call(op, 0);
}

/* Finds the target of a published use; a writer's, if there are both. A claim is not enough: it may not be
 * mounted yet. */
static enum status expand_target(struct volume_op *op, struct error *err)
{
	struct volume_target *target = &op->target;
	struct csi_volume_paths paths;
	struct mount_view view;
	enum status status = STATUS_NOT_FOUND;

	for (int read_only = 0; read_only <= 1 && status == STATUS_NOT_FOUND; read_only++) {
		target->read_only = read_only != 0;
		status = volume_target_find(op->manager, target, &paths, &view, err);
	}
	return status == STATUS_NOT_FOUND
		       ? error_set(err, status, 0, "nothing of volume %s is on this node", target->volume_id)
		       : status;
}

static void op_expand(struct volume_op *op)
{
	const struct node_half *node = find_node(op);
	uint64_t now_us = clock_monotonic_us();
	struct error err;
	enum status status = expand_target(op, &err);

	if (status == STATUS_OK && node && !node->expand)
		status = error_set(&err, STATUS_UNIMPLEMENTED, 0,
				   "plugin %s does not announce that it expands volumes on a node "
				   "(EXPAND_VOLUME)",
				   op->target.profile);
	if (status == STATUS_OK && now_us >= op->patience_end_us)
		status = cancelled(op, &err);
	if (status != STATUS_OK) {
		op_failed(op, false, false, &err);
		return;
	}
	op_call(op, op->patience_end_us - now_us);
}

static void on_ready(const struct error *err, void *userdata)
{
	struct volume_op *op = userdata;

	op->wait = NULL;
	op->next_try_ms = 0;
	if (!err) {
		op_succeeded(op);
		return;
	}
	/* it has had all the time that it gets */
	op->patience_end_us = 1;
	op_missing(op, err);
}

static void op_wait_for_plugin(struct volume_op *op)
{
	struct volume_manager *manager = op->manager;
	struct error err;
	enum status status;

	if (!manager->plugins) {
		(void)find_client(op, NULL, &err);
		on_ready(&err, op);
		return;
	}
	op->next_try_ms = clock_realtime_ms() + (int64_t)(manager->plugin_wait_us / USEC_PER_MSEC);
	status = plugins_wait(manager->plugins, op->target.profile, PLUGIN_NODE, manager->plugin_wait_us,
			      on_ready, op, &op->wait, &err);
	if (status != STATUS_OK)
		on_ready(&err, op);
}

static void volume_plugin_mounted_nothing(const struct volume_op *op, struct error *err)
{
	struct csi_volume_paths paths = {.target = "its target"};

	(void)csi_volume_paths(helper_client_info(op->manager->helper)->stage_base, &op->target, &paths,
			       NULL);
	(void)error_set(err, STATUS_FAILED_PRECONDITION, 0,
			volume_target_is_device(&op->target)
				? "volume %s: plugin %s answered OK to NodePublishVolume and bound no block "
				  "device of /dev at %s; see the plugin's own log"
				: "volume %s: plugin %s answered OK to NodePublishVolume and mounted nothing "
				  "at %s; see the plugin's own log",
			op->target.volume_id, op->target.profile, paths.target);
}

static void note_observed(struct volume_op *op, enum mh_list_kind kind, const struct mh_reply *reply)
{
	struct mh_list_entry entry = {
		.dev_major = reply->dev_major,
		.dev_minor = reply->dev_minor,
		.state = reply->state,
	};

	if (kind == MH_LIST_STAGED) {
		(void)str_copy(entry.volume, sizeof(entry.volume), op->target.wire_volume);
	} else {
		(void)str_copy(entry.alloc, sizeof(entry.alloc), op->target.alloc_id);
		entry.slot = op->target.slot;
	}
	/* what does not fit is read with the next mount snapshot */
	(void)mount_snapshot_add(op->manager->observed, kind, &entry, NULL);
}

/* A refusal comes without its reason; the one that a new plugin meets first the mount snapshot shows. */
static bool lacks_profile(const struct volume_op *op)
{
	const struct mount_snapshot *observed = op->manager->observed;

	for (size_t i = 0; i < observed->n_profiles; i++) {
		if (observed->profiles[i].class == MH_CLASS_CSI &&
		    str_eq(observed->profiles[i].name, op->target.profile))
			return false;
	}
	return op->target.type == VOLUME_CSI;
}

/* The mount helper has put it on record, and has no way to the journal. */
static void relay(const struct volume_op *op, const struct mh_reply *reply, const struct error *failure)
{
	static const char *const names[MH_OP_N] = {[MH_OP_STAGE] = "stage",
						   [MH_OP_PUBLISH] = "publish",
						   [MH_OP_UNPUBLISH] = "unpublish",
						   [MH_OP_UNSTAGE] = "unstage"};
	const struct volume_target *target = &op->target;
	const struct log_ctx ctx = {
		.volume = target->volume_id,
		.wire_volume = target->wire_volume,
		.alloc = reply->header.op == MH_OP_UNSTAGE ? NULL : target->alloc_id,
		.op = names[reply->header.op],
		.generation = target->has_ticket ? target->ticket.generation : 0,
		.event = helper_reply_event(reply),
		.relayed = HELPER_RELAYED,
		.record = reply->record,
		.relayed_reason = helper_reason_word(reply->reason),
		.err = failure,
	};

	if (ctx.event != LOG_EVENT_NONE)
		log_ctx(failure ? LOG_WARNING : LOG_INFO, &ctx,
			"mount helper: %s of volume %s (record %" PRIu64 " of its trail)", ctx.op,
			target->volume_id, reply->record);
}

/* Has the plugin staged a former storage of the volume? The helper refuses to take that for the ticket's, and
 * the plugin is called to undo it. */
static bool is_of_another_storage(const struct volume_op *op, const struct mh_reply *reply)
{
	return reply->header.op == MH_OP_STAGE && op->target.type == VOLUME_CSI &&
	       reply->status == MH_CONFLICT && reply->reason == REASON_TICKET_SOURCE;
}

static enum status handle_reply(struct volume_op *op, const struct mh_reply *reply, struct error *err)
{
	struct mount_snapshot *observed = op->manager->observed;
	char subject[sizeof("volume ") + VOLUME_ID_MAX];
	enum status status;

	(void)str_format(subject, sizeof(subject), "volume %s", op->target.volume_id);
	status = helper_reply_outcome(reply, subject, err);
	relay(op, reply, status == STATUS_OK ? NULL : err);
	if ((reply->header.op == MH_OP_UNSTAGE || reply->header.op == MH_OP_LIST) &&
	    status == STATUS_NOT_FOUND)
		status = STATUS_OK;
	if (is_of_another_storage(op, reply)) {
		plugin_owned_add(&op->manager->plugin_owned, op->target.wire_volume);
		return error_set(
			err, status, 0,
			"volume %s: plugin %s may have mounted another storage in the volume's folder, "
			"when it was registered with another id or context; the end of this allocation has "
			"it "
			"unmounted: run it "
			"again then (see %s: holdfast alloc status %s)",
			op->target.volume_id, op->target.profile, op->target.alloc_id, op->target.alloc_id);
	}
	if (status == STATUS_PERMISSION_DENIED && lacks_profile(op))
		return error_set(
			err, status, 0,
			"volume %s: the policy of this node's mount helper has no profile for plugin %s: add "
			"'profile %s { class = csi }' to the agent's block of mounthelper.policy, run "
			"holdfast policy apply, and systemctl reload holdfast-agent",
			op->target.volume_id, op->target.profile, op->target.profile);
	if (status != STATUS_OK)
		return status;
	switch (reply->header.op) {
	case MH_OP_STAGE:
		if ((reply->state & MH_STATE_STAGED) == 0)
			return STATUS_OK;
		note_observed(op, MH_LIST_STAGED, reply);
		TRY(volume_device_check_former(op, reply->dev_major, reply->dev_minor, err));
		if (op->target.type == VOLUME_CSI)
			volume_device_classify(op, reply->dev_major, reply->dev_minor,
					       op->state == VOLUME_OP_CONFIRMING);
		return STATUS_OK;
	case MH_OP_LIST:
		/* without the helper's folders no plugin was ever called; with them one may have been */
		if (reply->status != MH_NOT_FOUND && op->target.type == VOLUME_CSI)
			plugin_owned_add(&op->manager->plugin_owned, op->target.wire_volume);
		if ((reply->state & MH_STATE_STAGED) != 0)
			note_observed(op, MH_LIST_STAGED, reply);
		op->has_met_other = false;
		return STATUS_OK;
	case MH_OP_PUBLISH:
		note_observed(op, MH_LIST_PUBLISHED, reply);
		op->publish_reply = *reply;
		return STATUS_OK;
	case MH_OP_UNPUBLISH:
		mount_snapshot_remove_published(observed, op->target.alloc_id, op->target.slot);
		return STATUS_OK;
	default:
		mount_snapshot_remove_staged(observed, op->target.wire_volume);
		plugin_owned_remove(&op->manager->plugin_owned, op->target.wire_volume);
		TRY(volume_device_check(op, reply, err));
		if (op->is_forced)
			volume_device_note(op, reply);
		return STATUS_OK;
	}
}

/* Converts the result of a STAGE of a csi volume to an event. Only the helper looks at the plugin's target:
 * the agent may not look into the folders above it. */
static enum volume_op_event staged_event(struct volume_op *op, const struct mh_reply *reply)
{
	enum volume_op_event event = VOLUME_OP_PREPARED;

	if (op->target.type != VOLUME_CSI)
		return VOLUME_OP_OK;
	if (!volume_target_is_device(&op->target) && (reply->state & MH_STATE_STAGED) != 0)
		event = VOLUME_OP_OK;
	if (volume_target_is_device(&op->target) && (reply->state & MH_STATE_DEVICE) != 0) {
		op->publish_reply = *reply;
		event = VOLUME_OP_DEVICE;
	}
	/* an earlier call, of this or another agent, has mounted it */
	if (event != VOLUME_OP_PREPARED)
		plugin_owned_add(&op->manager->plugin_owned, op->target.wire_volume);
	return event;
}

static enum volume_op_event done_event(struct volume_op *op, const struct mh_reply *reply)
{
	if (reply->header.op == MH_OP_STAGE)
		return staged_event(op, reply);
	return reply->header.op == MH_OP_UNPUBLISH && op->has_met_other ? VOLUME_OP_UNSURE : VOLUME_OP_OK;
}

/* A reader's stage that cannot be writable, or already is not: the medium or the profile is read-only. */
static bool is_to_be_staged_read_only(struct volume_op *op, const struct mh_reply *reply)
{
	struct volume_target *target = &op->target;

	if (reply->header.op != MH_OP_STAGE || target->type == VOLUME_CSI || !target->read_only ||
	    target->stage_read_only ||
	    (reply->status != MH_REFUSED && reply->status != MH_KERNEL && reply->status != MH_CONFLICT))
		return false;
	target->stage_read_only = true;
	return true;
}

static void op_send(struct volume_op *op, enum volume_op_action action);

static void on_reply(const union helper_reply *reply, const struct error *err, void *userdata)
{
	struct volume_op *op = userdata;
	struct mh_reply said;
	struct error failure;

	if (err) {
		op_failed(op, false, err->status == STATUS_ABORTED, err);
		return;
	}
	said = reply->header.op == MH_OP_LIST ? helper_reply_of_look(&reply->list) : reply->reply;
	if (handle_reply(op, &said, &failure) != STATUS_OK) {
		if (is_to_be_staged_read_only(op, &said))
			op_send(op, VOLUME_OP_STAGE);
		else if (helper_reply_is_locked(&said))
			volume_op_sent_away(op, &failure);
		else if (helper_reply_is_unmounted(&said))
			op_failed(op, false, true, &failure);
		else
			volume_op_handle(op, VOLUME_OP_FAILED, &failure);
		return;
	}
	if (!volume_op_end_if_cancelled(op))
		volume_op_handle(op, done_event(op, &said), NULL);
}

static enum status make_request(struct volume_op *op, enum volume_op_action action,
				union helper_request *request, struct error *err)
{
	const struct volume_target *target = &op->target;
	const char *const plugin = target->type == VOLUME_CSI ? target->profile : "";
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
		return helper_request_unstage(target->wire_volume, plugin, request, err);
	if (action == VOLUME_OP_LOOK)
		return helper_request_look(target->wire_volume, plugin, request, err);
	if (target->type == VOLUME_CSI)
		volume_csi_to_wire(target->external_id, target->context_digest, &source);
	else if (action == VOLUME_OP_PUBLISH) /* its device is staged already */
		status = source_to_wire(&target->source, &source, err);
	else
		status = device_source(&target->source, &source, err);
	if (status != STATUS_OK)
		return status;
	if (action == VOLUME_OP_PUBLISH) {
		mount.read_only = target->read_only;
		return helper_request_publish(&mount, request, err);
	}
	/* of csi: which of the plugin's targets it is about */
	mount.read_only = target->type == VOLUME_CSI ? target->read_only : target->stage_read_only;
	return helper_request_stage(&mount, request, err);
}

static void op_send(struct volume_op *op, enum volume_op_action action)
{
	const struct volume_target *target = &op->target;
	bool is_nfs = target->source.class == SOURCE_NFS4;
	bool has_group = target->type == VOLUME_CSI || target->source.class == SOURCE_BIND || is_nfs;
	union helper_request request;
	enum status status;
	struct error err;

	status = make_request(op, action, &request, &err);
	if (status == STATUS_OK)
		status = helper_client_request(
			op->manager->helper, &request, is_nfs ? HELPER_NFS : HELPER_NORMAL,
			has_group ? volume_target_group(target) : "", on_reply, op, &err);
	if (status != STATUS_OK)
		volume_op_handle(op, VOLUME_OP_FAILED, &err);
}

/* Explains why the mount seen at @path cannot be judged. */
static enum status unseen(const struct volume_op *op, const char *path, const struct path_seen *seen,
			  struct error *err)
{
	if (seen->state == PATH_NOT_MOUNTED)
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"volume %s is published at %s, but this agent does not see it there: its mount "
			"namespace must receive mounts of the host (no PrivateMounts= or MountFlags=private "
			"in its unit)",
			op->target.volume_id, path);
	if (seen->state == PATH_SILENT)
		return error_set(err, STATUS_UNAVAILABLE, 0,
				 "volume %s is published at %s, but its file system does not answer within "
				 "%d s: is its server there?",
				 op->target.volume_id, path, VOLUME_LOOK_MS / 1000);
	return error_set(err, STATUS_UNAVAILABLE, seen->sys_errno,
			 "volume %s is published at %s, but cannot be looked at", op->target.volume_id, path);
}

static enum status verify(const struct volume_op *op, const char *path, const struct path_seen *seen,
			  struct error *err)
{
	const struct verify_wanted wanted = {
		.path = path,
		.read_only = op->target.read_only,
		.exec = op->target.exec,
		.propagation = op->target.propagation,
	};
	const struct verify_reply reply = {
		.state = op->publish_reply.state,
		.dev_major = op->publish_reply.dev_major,
		.dev_minor = op->publish_reply.dev_minor,
	};

	enum status status;

	if (seen->state != PATH_MOUNTED)
		return unseen(op, path, seen, err);
	status = verify_publish(&wanted, &reply, &seen->view, err);
	if (status != STATUS_OK)
		log_ctx(LOG_ERR,
			&(struct log_ctx){.volume = op->target.volume_id,
					  .wire_volume = op->target.wire_volume,
					  .alloc = op->target.alloc_id,
					  .op = "verify",
					  .event = LOG_EVENT_MOUNT_DIFFERS,
					  .err = err},
			"the mount differs from the request");
	return status;
}

static enum status published_path(const struct volume_op *op, char ret[static ALLOC_PATH_MAX + 1],
				  struct error *err)
{
	if (str_format(ret, ALLOC_PATH_MAX + 1, "%s/%s/%u",
		       helper_client_info(op->manager->helper)->publish_base, op->target.alloc_id,
		       op->target.slot) < 0)
		return error_set(err, STATUS_INTERNAL, 0, "the path of volume %s is too long",
				 op->target.volume_id);
	return STATUS_OK;
}

static void on_looked(const struct path_seen *seen, void *userdata)
{
	struct volume_op *op = userdata;
	struct volume_mounted mounted = {
		.dev_major = op->publish_reply.dev_major,
		.dev_minor = op->publish_reply.dev_minor,
		.is_host_device = plugin_owned_device(&op->manager->plugin_owned, op->target.wire_volume) ==
				  VOLUME_DEVICE_HOSTS,
		.is_nfs_listed =
			volume_nfs_is_listed(op, op->publish_reply.dev_major, op->publish_reply.dev_minor),
	};
	struct error err;
	enum status status = published_path(op, mounted.path, &err);

	op->probe = NULL;
	if (status == STATUS_OK)
		status = verify(op, mounted.path, seen, &err);
	if (status != STATUS_OK) {
		/* without a look nothing is known of the mount */
		op_failed(op, false, seen->state == PATH_FAILED && seen->sys_errno == EBUSY, &err);
		return;
	}
	op->mounted = mounted;
	op->has_mounted = true;
	volume_op_handle(op, VOLUME_OP_OK, NULL);
}

/* Looks at the published path. The mount table has the same, but then the cost of each publish would grow
 * with the number of mounts. */
static void op_verify(struct volume_op *op)
{
	char path[ALLOC_PATH_MAX + 1];
	struct error err;
	enum status status = published_path(op, path, &err);

	if (status == STATUS_OK)
		status = path_probe_start(op->manager->probes, path, volume_target_group(&op->target),
					  VOLUME_LOOK_MS * USEC_PER_MSEC, on_looked, op, &op->probe, &err);
	if (status != STATUS_OK)
		volume_op_handle(op, VOLUME_OP_FAILED, &err);
}

/* No clone of the helper's: what the plugin has bound is handed out as it is. */
static void op_verify_device(struct volume_op *op)
{
	const struct volume_target *target = &op->target;
	struct volume_mounted mounted = {
		.is_device = true,
		.dev_major = op->publish_reply.dev_major,
		.dev_minor = op->publish_reply.dev_minor,
	};
	struct csi_volume_paths paths;
	struct error err;

	if (csi_volume_paths(helper_client_info(op->manager->helper)->stage_base, target, &paths, &err) !=
	    STATUS_OK) {
		volume_op_handle(op, VOLUME_OP_FAILED, &err);
		return;
	}
	(void)str_copy(mounted.path, sizeof(mounted.path), paths.target);
	op->mounted = mounted;
	op->has_mounted = true;
	volume_op_handle(op, VOLUME_OP_OK, NULL);
}

/* Is the volume used in this way, apart from what is being unmounted? */
static bool op_in_use(const struct volume_op *op, enum volume_use use)
{
	const struct volume_manager *manager = op->manager;
	const struct volume_target *target = &op->target;
	const char *alloc_id = op->kind == VOLUME_OP_RELEASE ? "" : target->alloc_id;

	return manager->in_use(target->wire_volume, use, alloc_id, target->slot, manager->userdata);
}

/* Forces the undoing. The helper undoes a volume as a whole: only the plugin can end one of several uses.
 * Uses that are left so end with the first of them: no plugin was called for them either. */
static void op_force(struct volume_op *op)
{
	struct error err;

	if (!op_in_use(op, VOLUME_USE_WITH_PLUGIN)) {
		op->is_forced = true;
		volume_op_handle(op, VOLUME_OP_OK, NULL);
		return;
	}
	(void)error_set(
		&err, STATUS_FAILED_PRECONDITION, 0,
		"volume %s is still used in another way on this node (read-only, or read-write), so only its "
		"plugin %s can end just this use; stop the others first (see: holdfast agent status)",
		op->target.volume_id, op->target.profile);
	volume_op_handle(op, VOLUME_OP_FAILED, &err);
}

/* Looks at the mounts of a volume if this run of the agent called no plugin for it, because an earlier one
 * may have; and after another instance of the helper worked on it. */
static void op_look(struct volume_op *op)
{
	const struct volume_target *target = &op->target;

	if (!op->has_met_other &&
	    (target->type != VOLUME_CSI || plugin_owned_has(&op->manager->plugin_owned, target->wire_volume)))
		volume_op_handle(op, VOLUME_OP_OK, NULL);
	else
		op_send(op, VOLUME_OP_LOOK);
}

static bool is_other_device(const struct volume_target *a, const struct volume_target *b)
{
	return a->dev_major != b->dev_major || a->dev_minor != b->dev_minor ||
	       a->is_host_device != b->is_host_device || a->is_nfs_listed != b->is_nfs_listed ||
	       a->source.class != b->source.class;
}

static void op_check(struct volume_op *op)
{
	struct volume_manager *manager = op->manager;
	struct volume_target *target = &op->target;
	const struct mount_snapshot_entry *staged =
		mount_snapshot_staged(manager->observed, target->wire_volume);
	const struct volume_target former = *target;
	struct error err;

	if (staged &&
	    volume_device_check_former(op, staged->dev_major, staged->dev_minor, &err) != STATUS_OK) {
		volume_op_handle(op, VOLUME_OP_FAILED, &err);
		return;
	}
	/* for the check after unstaging, when the mount snapshot has forgotten it */
	if (staged && !volume_target_is_device(target)) {
		volume_nfs_note(op, staged);
		target->dev_major = staged->dev_major;
		target->dev_minor = staged->dev_minor;
		if (target->type == VOLUME_CSI) {
			volume_device_classify(op, staged->dev_major, staged->dev_minor, false);
			target->is_host_device =
				plugin_owned_device(&manager->plugin_owned, target->wire_volume) ==
				VOLUME_DEVICE_HOSTS;
		}
	}
	if (op->keep && is_other_device(&former, target))
		op->keep(target, op->userdata);
	else
		volume_op_continue(op);
}

/* Keeps a plugin's volume that may be in use: no receipt without the plugin's calls. The mount helper knows
 * whether a native one is published. */
static void op_keep(struct volume_op *op)
{
	struct error err;

	(void)error_set(
		&err, STATUS_FAILED_PRECONDITION, 0,
		"volume %s: a publish of no known allocation is of the same device, and may be of this "
		"volume: plugin %s releases it after that (shown as unknown by: holdfast agent status; if it "
		"was unmounted by hand: systemctl reload holdfast-agent)",
		op->target.volume_id, op->target.profile);
	volume_op_handle(op, VOLUME_OP_FAILED, &err);
}

void volume_op_continue(struct volume_op *op)
{
	const struct volume_target *target = &op->target;
	bool is_plugins = target->type == VOLUME_CSI;

	assert(op->state == VOLUME_OP_CHECKING);
	is_plugins = is_plugins && plugin_owned_has(&op->manager->plugin_owned, target->wire_volume);
	if (op_in_use(op, is_plugins ? volume_target_use(target) : VOLUME_USE_ANY))
		volume_op_handle(op, VOLUME_OP_IN_USE, NULL);
	else if (target->type == VOLUME_CSI && target->without_plugin)
		op_force(op);
	else if (is_plugins && op_in_use(op, VOLUME_USE_UNKNOWN))
		op_keep(op);
	else
		volume_op_handle(op, is_plugins ? VOLUME_OP_PLUGINS_TURN : VOLUME_OP_OK, NULL);
}

static void op_recheck(struct volume_op *op)
{
	volume_op_handle(op, op_in_use(op, VOLUME_USE_ANY) ? VOLUME_OP_IN_USE : VOLUME_OP_PLUGINS_TURN, NULL);
}

static void op_fail(struct volume_op *op)
{
	struct error failure = op->last_error;

	volume_op_finish(op, &failure);
}

static void op_run(struct volume_op *op, enum volume_op_action action)
{
	switch (action) {
	case VOLUME_OP_STAGE:
	case VOLUME_OP_PUBLISH:
	case VOLUME_OP_UNPUBLISH:
	case VOLUME_OP_UNSTAGE:
		op_send(op, action);
		return;
	case VOLUME_OP_WAIT_PLUGIN:
		op_wait_for_plugin(op);
		return;
	case VOLUME_OP_PLUGIN_STAGE:
		call_if_it_stages(op);
		return;
	case VOLUME_OP_PLUGIN_PUBLISH:
		call_once_staged(op);
		return;
	case VOLUME_OP_PLUGIN_UNPUBLISH:
		op_call(op, 0);
		return;
	case VOLUME_OP_PLUGIN_UNSTAGE:
		call_if_it_unstages(op);
		return;
	case VOLUME_OP_PLUGIN_EXPAND:
		op_expand(op);
		return;
	case VOLUME_OP_VERIFY:
		if (volume_target_is_device(&op->target))
			op_verify_device(op);
		else
			op_verify(op);
		return;
	case VOLUME_OP_LOOK:
		op_look(op);
		return;
	case VOLUME_OP_CHECK:
		op_check(op);
		return;
	case VOLUME_OP_RECHECK:
		op_recheck(op);
		return;
	case VOLUME_OP_SUCCEED:
		volume_op_finish(op, NULL);
		return;
	case VOLUME_OP_FAIL_EMPTY:
		volume_plugin_mounted_nothing(op, &op->last_error);
		op_fail(op);
		return;
	case VOLUME_OP_FAIL:
		op_fail(op);
		return;
	case VOLUME_OP_RETRY:
		volume_op_retry(op);
		return;
	case VOLUME_OP_PAUSE:
		volume_op_pause(op);
		return;
	case VOLUME_OP_REFUSE:
	case VOLUME_OP_ACTION_N:
		return;
	}
}

void volume_op_handle(struct volume_op *op, enum volume_op_event event, const struct error *err)
{
	struct volume_op_step step = volume_op_step(op->state, event);

	assert(step.action != VOLUME_OP_REFUSE);
	if (step.next != op->state)
		op->step_since_ms = clock_realtime_ms();
	op->state = step.next;
	if (err)
		op->last_error = *err;
	op_run(op, step.action);
}

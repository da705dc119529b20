#include "volume_manager.h"

#include "backoff.h"
#include "device.h"
#include "mount_table.h"
#include "verify.h"
#include "volume_op.h"
#include "wakeup.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/tree.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

DEFINE_CLEANUP(struct mount_table, mount_table_free)

struct volume_queue;

struct volume_task {
	TAILQ_ENTRY(volume_task) entry;
	LIST_ENTRY(volume_task) all;
	struct volume_manager *manager;
	struct volume_queue *queue;
	struct volume_target target;
	enum volume_op_event kind; /* VOLUME_OP_MOUNT, _UNMOUNT or _RELEASE */
	enum volume_op_state state;
	bool is_cancelled;
	volume_done_fn *done;
	volume_retry_fn *retry;
	void *userdata;
	struct backoff backoff;
	sd_event_source *timer; /* runs while waiting for another attempt */
	int64_t since_ms;
	int64_t next_try_ms;
	struct error last_error;
	struct mh_reply publish_reply;
};

/* The operations of one volume; lives as long as it has tasks. */
struct volume_queue {
	RB_ENTRY(volume_queue) entry;
	char wire_volume[WIRE_VOLUME_SIZE];
	TAILQ_HEAD(, volume_task) waiting;
	struct volume_task *current;
	size_t n_tasks; /* waiting, current and between two attempts */
};

RB_HEAD(volume_queues, volume_queue);

struct volume_manager {
	sd_event *event;	      /* borrowed */
	struct helper_client *helper; /* borrowed */
	volume_in_use_fn *in_use;
	void *userdata;
	struct picture *picture;
	struct volume_queues queues;
	LIST_HEAD(, volume_task) tasks;
	size_t n_tasks;
	sd_event_source *dispatch; /* deferred: begins what can begin */
};

DEFINE_CLEANUP(struct volume_manager, volume_manager_free)

static int compare_queues(const struct volume_queue *a, const struct volume_queue *b)
{
	return strcmp(a->wire_volume, b->wire_volume);
}

TREE_GENERATE(volume_queues, volume_queue, entry, compare_queues)

static void task_event(struct volume_task *task, enum volume_op_event event, const struct error *err);

static void kick(struct volume_manager *manager)
{
	/* cannot fail for a source that exists */
	(void)sd_event_source_set_enabled(manager->dispatch, SD_EVENT_ONESHOT);
}

static struct volume_queue *queue_get(struct volume_manager *manager, const char *wire_volume)
{
	struct volume_queue key = {0};
	struct volume_queue *queue;

	(void)str_copy(key.wire_volume, sizeof(key.wire_volume), wire_volume);
	queue = RB_FIND(volume_queues, &manager->queues, &key);
	if (queue)
		return queue;
	queue = calloc(1, sizeof(*queue));
	if (!queue)
		return NULL;
	memcpy(queue->wire_volume, key.wire_volume, sizeof(queue->wire_volume));
	TAILQ_INIT(&queue->waiting);
	RB_INSERT(volume_queues, &manager->queues, queue);
	return queue;
}

static void queue_put(struct volume_manager *manager, struct volume_queue *queue)
{
	if (queue->n_tasks > 0)
		return;
	RB_REMOVE(volume_queues, &manager->queues, queue);
	free(queue);
}

/* Out of the queue and away; the callback is the caller's to run. */
static void task_free(struct volume_task *task)
{
	struct volume_manager *manager = task->manager;
	struct volume_queue *queue = task->queue;

	wakeup_disarm(&task->timer);
	if (queue->current == task)
		queue->current = NULL;
	LIST_REMOVE(task, all);
	manager->n_tasks--;
	queue->n_tasks--;
	queue_put(manager, queue);
	free(task);
}

static void task_finish(struct volume_task *task, const struct volume_mounted *mounted,
			const struct error *err)
{
	volume_done_fn *done = task->done;
	void *userdata = task->userdata;

	kick(task->manager);
	task_free(task);
	done(mounted, err, userdata);
}

static int on_retry_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct volume_task *task = userdata;

	wakeup_disarm(&task->timer);
	task->next_try_ms = 0;
	TAILQ_INSERT_TAIL(&task->queue->waiting, task, entry);
	kick(task->manager);
	return 0;
}

/* Step aside, so that others of the volume have their turn, and try again later. */
static void task_retry(struct volume_task *task)
{
	uint64_t delay_us = backoff_next(&task->backoff, backoff_random());

	task->queue->current = NULL;
	task->next_try_ms = clock_realtime_ms() + (int64_t)(delay_us / USEC_PER_MSEC);
	if (wakeup_arm(task->manager->event, &task->timer, delay_us, on_retry_due, task, NULL) != STATUS_OK)
		TAILQ_INSERT_TAIL(&task->queue->waiting, task, entry);
	kick(task->manager);
	if (task->retry)
		task->retry(&task->last_error, task->userdata);
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

/* A block device whose file system lives on in another mount namespace is still being written to: that is no
 * release, whatever was unmounted here. */
static enum status check_superblock(struct volume_task *task, const struct mh_reply *reply, struct error *err)
{
	const struct volume_target *target = &task->target;

	if (target->source.class != SOURCE_BLOCK)
		return STATUS_OK;
	if ((reply->state & MH_STATE_SB_ALIVE) == 0 &&
	    ((target->dev_major == 0 && target->dev_minor == 0) ||
	     !device_has_superblock(target->dev_major, target->dev_minor)))
		return STATUS_OK;
	return error_set(
		err, STATUS_FAILED_PRECONDITION, 0,
		"volume %s is unmounted here, but its file system (device %u:%u) is still in use: another "
		"mount namespace (a container, a unit) holds a copy of the mount; find it with: grep %u:%u "
		"/proc/*/mountinfo",
		target->volume_id, target->dev_major, target->dev_minor, target->dev_major,
		target->dev_minor);
}

static enum status take_reply(struct volume_task *task, const struct mh_reply *reply, struct error *err)
{
	struct picture *picture = task->manager->picture;
	char subject[sizeof("volume ") + VOLUME_ID_MAX];
	enum status status;

	(void)str_format(subject, sizeof(subject), "volume %s", task->target.volume_id);
	status = helper_reply_outcome(reply, subject, err);
	if (reply->header.op == MH_OP_UNSTAGE && status == STATUS_NOT_FOUND)
		status = STATUS_OK;
	if (status != STATUS_OK)
		return status;
	switch (reply->header.op) {
	case MH_OP_STAGE:
		picture_note(task, MH_LIST_STAGED, reply);
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
		return check_superblock(task, reply, err);
	}
}

static void on_reply(const union helper_reply *reply, const struct error *err, void *userdata)
{
	struct volume_task *task = userdata;
	struct error failure;

	if (err) {
		task_event(task, VOLUME_OP_FAILED, err);
		return;
	}
	if (take_reply(task, &reply->reply, &failure) != STATUS_OK) {
		task_event(task, VOLUME_OP_FAILED, &failure);
		return;
	}
	if (task->is_cancelled) {
		(void)error_set(&failure, STATUS_CANCELLED, 0, "the allocation was stopped");
		task_event(task, VOLUME_OP_CANCELLED, &failure);
		return;
	}
	task_event(task, VOLUME_OP_OK, NULL);
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
	enum status status;

	if (action == VOLUME_OP_UNPUBLISH)
		return helper_request_unpublish(target->wire_volume, target->alloc_id, target->slot, request,
						err);
	if (action == VOLUME_OP_UNSTAGE)
		return helper_request_unstage(target->wire_volume, request, err);
	if (action == VOLUME_OP_PUBLISH) {
		mount.read_only = target->read_only;
		return helper_request_publish(&mount, request, err);
	}
	status = device_source(&target->source, &source, err);
	if (status != STATUS_OK)
		return status;
	mount.read_only = target->stage_read_only;
	return helper_request_stage(&mount, request, err);
}

static void task_send(struct volume_task *task, enum volume_op_action action)
{
	union helper_request request;
	enum status status;
	struct error err;

	status = make_request(task, action, &request, &err);
	if (status == STATUS_OK)
		status = helper_client_request(task->manager->helper, &request, HELPER_NORMAL, on_reply, task,
					       &err);
	if (status != STATUS_OK)
		task_event(task, VOLUME_OP_FAILED, &err);
}

static enum status verify(const struct volume_task *task, const char *path, struct error *err)
{
	cleanup(mount_table_freep) struct mount_table *table = NULL;
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
	struct mount_view view;
	enum status status;

	status = mount_table_read(&table, err);
	if (status == STATUS_OK)
		status = mount_table_find(table, path, &view, err);
	if (status == STATUS_NOT_FOUND)
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"volume %s is published at %s, but this agent does not see it there: its mount "
			"namespace must receive mounts of the host (no PrivateMounts= or MountFlags=private "
			"in its unit)",
			task->target.volume_id, path);
	if (status != STATUS_OK)
		return status;
	return verify_publish(&wanted, &reply, &view, err);
}

static void task_verify(struct volume_task *task)
{
	struct volume_mounted mounted = {
		.dev_major = task->publish_reply.dev_major,
		.dev_minor = task->publish_reply.dev_minor,
	};
	struct error err;
	enum status status;

	if (str_format(mounted.path, sizeof(mounted.path), "%s/%s/%u",
		       helper_client_info(task->manager->helper)->publish_base, task->target.alloc_id,
		       task->target.slot) < 0)
		status = error_set(&err, STATUS_INTERNAL, 0, "the path of volume %s is too long",
				   task->target.volume_id);
	else
		status = verify(task, mounted.path, &err);
	if (status != STATUS_OK) {
		task_event(task, VOLUME_OP_FAILED, &err);
		return;
	}
	task->state = volume_op_step(task->state, VOLUME_OP_OK).next;
	task_finish(task, &mounted, NULL);
}

static void task_check(struct volume_task *task)
{
	struct volume_manager *manager = task->manager;
	struct volume_target *target = &task->target;
	const struct picture_mount *staged = picture_staged(manager->picture, target->wire_volume);
	const char *alloc_id = task->kind == VOLUME_OP_RELEASE ? "" : target->alloc_id;
	bool in_use = manager->in_use(target->wire_volume, alloc_id, target->slot, manager->userdata);

	/* for the check after unstaging, when the picture has forgotten it */
	if (staged) {
		target->dev_major = staged->dev_major;
		target->dev_minor = staged->dev_minor;
	}
	task_event(task, in_use ? VOLUME_OP_IN_USE : VOLUME_OP_OK, NULL);
}

/* The task may be gone afterwards. */
static void task_event(struct volume_task *task, enum volume_op_event event, const struct error *err)
{
	struct volume_op_step step = volume_op_step(task->state, event);

	assert(step.action != VOLUME_OP_REFUSE);
	task->state = step.next;
	if (err)
		task->last_error = *err;
	switch (step.action) {
	case VOLUME_OP_STAGE:
	case VOLUME_OP_PUBLISH:
	case VOLUME_OP_UNPUBLISH:
	case VOLUME_OP_UNSTAGE:
		task_send(task, step.action);
		return;
	case VOLUME_OP_VERIFY:
		task_verify(task);
		return;
	case VOLUME_OP_CHECK:
		task_check(task);
		return;
	case VOLUME_OP_SUCCEED:
		task_finish(task, NULL, NULL);
		return;
	case VOLUME_OP_FAIL: {
		struct error failure = task->last_error;

		task_finish(task, NULL, &failure);
		return;
	}
	case VOLUME_OP_RETRY:
		task_retry(task);
		return;
	case VOLUME_OP_REFUSE:
	case VOLUME_OP_ACTION_N:
		return;
	}
}

static void task_begin(struct volume_queue *queue, struct volume_task *task)
{
	struct error err;

	TAILQ_REMOVE(&queue->waiting, task, entry);
	queue->current = task;
	if (task->is_cancelled) {
		(void)error_set(&err, STATUS_CANCELLED, 0, "the allocation was stopped");
		task_event(task, VOLUME_OP_CANCELLED, &err);
		return;
	}
	task_event(task, task->kind, NULL);
}

/* One task per turn: whatever its callback does to the queues, the walk starts anew. */
static int on_dispatch(sd_event_source *source, void *userdata)
{
	struct volume_manager *manager = userdata;
	struct volume_queue *queue;

	if (!manager->picture)
		return 0;
	RB_FOREACH (queue, volume_queues, &manager->queues) {
		if (queue->current || TAILQ_EMPTY(&queue->waiting))
			continue;
		kick(manager);
		task_begin(queue, TAILQ_FIRST(&queue->waiting));
		return 0;
	}
	return 0;
}

static enum status task_add(struct volume_manager *manager, const struct volume_task *init,
			    struct volume_task **ret, struct error *err)
{
	struct volume_queue *queue;
	struct volume_task *task;

	if (manager->n_tasks >= VOLUME_TASKS_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "%d volume operations are under way already", VOLUME_TASKS_MAX);
	task = malloc(sizeof(*task));
	queue = task ? queue_get(manager, init->target.wire_volume) : NULL;
	if (!queue) {
		free(task);
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot queue a volume operation");
	}
	*task = *init;
	task->manager = manager;
	task->queue = queue;
	task->since_ms = clock_realtime_ms();
	task->backoff = (struct backoff)BACKOFF_INIT(VOLUME_RETRY_MIN_MS * USEC_PER_MSEC,
						     VOLUME_RETRY_MAX_MS * USEC_PER_MSEC);
	TAILQ_INSERT_TAIL(&queue->waiting, task, entry);
	LIST_INSERT_HEAD(&manager->tasks, task, all);
	queue->n_tasks++;
	manager->n_tasks++;
	kick(manager);
	*ret = task;
	return STATUS_OK;
}

enum status volume_manager_mount(struct volume_manager *manager, const struct volume_target *target,
				 volume_done_fn *done, void *userdata, struct volume_task **ret,
				 struct error *err)
{
	const struct volume_task init = {
		.target = *target,
		.kind = VOLUME_OP_MOUNT,
		.done = done,
		.userdata = userdata,
	};

	return task_add(manager, &init, ret, err);
}

enum status volume_manager_unmount(struct volume_manager *manager, const struct volume_target *target,
				   volume_done_fn *done, volume_retry_fn *retry, void *userdata,
				   struct volume_task **ret, struct error *err)
{
	const struct volume_task init = {
		.target = *target,
		.kind = VOLUME_OP_UNMOUNT,
		.done = done,
		.retry = retry,
		.userdata = userdata,
	};

	return task_add(manager, &init, ret, err);
}

enum status volume_manager_release(struct volume_manager *manager, const struct volume_target *target,
				   volume_done_fn *done, volume_retry_fn *retry, void *userdata,
				   struct volume_task **ret, struct error *err)
{
	const struct volume_task init = {
		.target = *target,
		.kind = VOLUME_OP_RELEASE,
		.done = done,
		.retry = retry,
		.userdata = userdata,
	};

	return task_add(manager, &init, ret, err);
}

void volume_task_cancel(struct volume_task *task)
{
	assert(task->kind == VOLUME_OP_MOUNT);
	task->is_cancelled = true;
}

struct volume_task_info volume_task_info(const struct volume_task *task)
{
	return (struct volume_task_info){
		.step = volume_op_state_name(task->state),
		.since_ms = task->since_ms,
		.next_try_ms = task->next_try_ms,
		.attempts = task->backoff.attempts + 1,
		.last_error = task->last_error.msg,
	};
}

void volume_manager_set_picture(struct volume_manager *manager, struct picture *picture)
{
	picture_free(manager->picture);
	manager->picture = picture;
	kick(manager);
}

const struct picture *volume_manager_picture(const struct volume_manager *manager)
{
	return manager->picture;
}

enum status volume_manager_new(sd_event *event, struct helper_client *helper, volume_in_use_fn *in_use,
			       void *userdata, struct volume_manager **ret, struct error *err)
{
	cleanup(volume_manager_freep) struct volume_manager *manager = calloc(1, sizeof(*manager));
	int r;

	if (!manager)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot make the volume manager");
	manager->event = event;
	manager->helper = helper;
	manager->in_use = in_use;
	manager->userdata = userdata;
	RB_INIT(&manager->queues);
	LIST_INIT(&manager->tasks);
	r = sd_event_add_defer(event, &manager->dispatch, on_dispatch, manager);
	if (r >= 0)
		r = sd_event_source_set_enabled(manager->dispatch, SD_EVENT_OFF);
	if (r < 0)
		return error_set(err, STATUS_INTERNAL, r, "cannot make the volume manager");
	*ret = TAKE_PTR(manager);
	return STATUS_OK;
}

void volume_manager_free(struct volume_manager *manager)
{
	struct volume_task *task;

	if (!manager)
		return;
	while ((task = LIST_FIRST(&manager->tasks)))
		task_free(task);
	picture_free(manager->picture);
	sd_event_source_disable_unref(manager->dispatch);
	free(manager);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "status/volume_usage.h"

#include "base/backoff.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mountinfo.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/tree.h"
#include "kernel/device.h"
#include "kernel/path_probe.h"
#include "log/log.h"
#include "model/usage.h"
#include "rpc/wakeup.h"
#include "volume/csi_volume.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

enum { ERRORS_FILE_MAX = 32 };

/* One volume, measured at one of its publishes. */
struct measured {
	RB_ENTRY(measured) by_volume;
	struct volume_usages *usages;
	char wire_volume[WIRE_VOLUME_SIZE];
	char volume_id[VOLUME_ID_MAX + 1];
	char claim_id[UUID_TEXT_SIZE];
	char alloc_id[UUID_TEXT_SIZE];
	char path[ALLOC_PATH_MAX + 1];
	char group[PATH_PROBE_GROUP_SIZE];
	char plugin_id[PROFILE_MAX + 1]; /* empty: a native volume */
	bool is_writer;
	bool is_device;
	bool has_server; /* the file system may ask a process or another machine */
	uint32_t dev_major, dev_minor;
	uint64_t look; /* the last one that found it published: */
	const struct alloc_record *record;
	uint32_t slot; /* of the record, good until the event loop runs again */
	struct path_probe *probe;
	TAILQ_ENTRY(measured) asking; /* in the queue for their plugins */
	bool is_asking;
	bool is_silent;		   /* its plugin did not answer in this round */
	struct service_call *call; /* while its plugin is asked about it */
	/* results */
	bool is_measured;	 /* tried, at least */
	bool is_absent;		 /* nothing was mounted: looked at again at the next tick */
	bool is_mount_read_only; /* in this namespace, where ProtectSystem= may have done it */
	bool is_stopped;	 /* by the mount table, */
	bool is_read_only;	 /* and by statfs, which is all that old kernels have */
	bool is_shut_down;	 /* its disk answers EIO: xfs, whose shutdown no table shows */
	uint32_t n_errors;	 /* that ext4 has on record */
	bool has_plugin_figures;
	char plugin_condition[USAGE_CONDITION_MAX + 1];
	const char *trouble; /* why it cannot be measured; NULL: it is */
	char condition[USAGE_CONDITION_MAX + 1];
	Holdfast__V1__VolumeUsage usage;
	/* reported in this session */
	bool is_sent;
	char sent_condition[USAGE_CONDITION_MAX + 1];
	Holdfast__V1__VolumeUsage sent;
};

RB_HEAD(measured_tree, measured);

struct volume_usages {
	struct volume_usages_env env;
	struct path_probes *local;  /* looks at disks and memory, */
	struct path_probes *remote; /* and at all others: these may keep their threads */
	struct measured_tree volumes;
	size_t n_busy;		       /* probes in flight, and volumes in the queue */
	TAILQ_HEAD(, measured) asking; /* first those that are asked about: one of each plugin at most */
	uint64_t look;
	char next[WIRE_VOLUME_SIZE]; /* whose mount is looked at next; empty: the first one's */
	uint64_t due_us;	     /* monotonic: the next measurement of all */
	sd_event_source *timer;
};

DEFINE_CLEANUP(struct volume_usages, volume_usages_free)

static int compare_measured(const struct measured *a, const struct measured *b)
{
	return strcmp(a->wire_volume, b->wire_volume);
}

TREE_GENERATE(measured_tree, measured, by_volume, compare_measured)

static struct measured *find(const struct volume_usages *usages, const char *wire_volume)
{
	struct measured_tree root = usages->volumes; /* a look-up changes nothing */
	struct measured key = {.look = 0};

	if (str_copy(key.wire_volume, sizeof(key.wire_volume), wire_volume) < 0)
		return NULL;
	return RB_FIND(measured_tree, &root, &key);
}

const Holdfast__V1__VolumeUsage *volume_usages_find(const struct volume_usages *usages,
						    const char *wire_volume)
{
	const struct measured *one = find(usages, wire_volume);

	return one && one->is_measured ? &one->usage : NULL;
}

static void stop_asking(struct measured *one)
{
	if (!one->is_asking)
		return;
	service_call_cancel(one->call);
	one->call = NULL;
	one->is_asking = false;
	TAILQ_REMOVE(&one->usages->asking, one, asking);
	one->usages->n_busy--;
}

static void ask_next(struct volume_usages *usages, const char *plugin_id);

static void take_away(struct volume_usages *usages, struct measured *one)
{
	usages->n_busy -= one->probe != NULL;
	path_probe_cancel(one->probe);
	stop_asking(one);
	RB_REMOVE(measured_tree, &usages->volumes, one);
	free(one);
}

/* Its plugin is asked about the next one. */
static void forget(struct volume_usages *usages, struct measured *one)
{
	char plugin_id[sizeof(one->plugin_id)];
	bool was_asked = one->call != NULL;

	memcpy(plugin_id, one->plugin_id, sizeof(plugin_id));
	take_away(usages, one);
	if (was_asked)
		ask_next(usages, plugin_id);
}

/* --- reports --- */

static void note_sent(struct measured *one)
{
	one->is_sent = true;
	one->sent = one->usage;
	memcpy(one->sent_condition, one->condition, sizeof(one->sent_condition));
	one->sent.condition = one->sent_condition;
}

static bool is_due(const struct measured *one)
{
	return one->is_measured && (!one->is_sent || usage_differs(&one->usage, &one->sent));
}

/* Sends the changes. One part that is not sent ends it: the next session begins with everything. */
static void send_changes(struct volume_usages *usages)
{
	Holdfast__V1__VolumeUsage *volumes[VOLUME_USAGE_PART];
	Holdfast__V1__VolumeUsageReport report = HOLDFAST__V1__VOLUME_USAGE_REPORT__INIT;
	struct measured *one = RB_MIN(measured_tree, &usages->volumes);
	struct measured *part[VOLUME_USAGE_PART];
	bool is_sent = true;

	report.volumes = volumes;
	while (one && is_sent) {
		size_t n = 0;

		for (; one && n < VOLUME_USAGE_PART; one = RB_NEXT(measured_tree, &usages->volumes, one)) {
			if (!is_due(one))
				continue;
			part[n] = one;
			volumes[n++] = &one->usage;
		}
		report.n_volumes = n;
		is_sent = n > 0 && usages->env.send(&report, usages->env.userdata);
		for (size_t i = 0; is_sent && i < n; i++)
			note_sent(part[i]);
	}
}

void volume_usages_send(struct volume_usages *usages)
{
	struct measured *one;

	RB_FOREACH (one, measured_tree, &usages->volumes)
		one->is_sent = false;
	send_changes(usages);
}

/* --- conclusions --- */

static void write_condition(const struct measured *one, char ret[static USAGE_CONDITION_MAX + 1])
{
	char errors[64] = "";
	const char *const parts[] = {one->usage.read_only ? "read-only: the kernel stopped writes" : "",
				     one->trouble ? one->trouble : "", errors, one->plugin_condition};
	size_t n = 0;

	if (one->n_errors > 0)
		(void)str_format(errors, sizeof(errors), "ext4 has %" PRIu32 " error%s on record: run fsck",
				 one->n_errors, str_s(one->n_errors));
	ret[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(parts) && n < USAGE_CONDITION_MAX; i++)
		if (parts[i][0] != '\0')
			n += (size_t)snprintf(ret + n, USAGE_CONDITION_MAX + 1 - n, "%s%s", n > 0 ? "; " : "",
					      parts[i]);
}

/* Brings condition and time up to date, and logs a change. */
static void judge(struct measured *one)
{
	char condition[USAGE_CONDITION_MAX + 1];

	one->usage.read_only = one->is_stopped || one->is_read_only || one->is_shut_down;
	if (!one->trouble)
		one->usage.unknown_since_ms = 0;
	else if (one->usage.unknown_since_ms == 0)
		one->usage.unknown_since_ms = clock_realtime_ms();
	write_condition(one, condition);
	if (!str_eq(condition, one->condition)) {
		memcpy(one->condition, condition, sizeof(condition));
		log_ctx(condition[0] ? LOG_WARNING : LOG_NOTICE,
			&(struct log_ctx){.volume = one->volume_id,
					  .wire_volume = one->wire_volume,
					  .alloc = one->alloc_id,
					  .claim = one->claim_id,
					  .op = "look",
					  .event = LOG_EVENT_MOUNT_CONDITION},
			"volume %s at %s: %s", one->volume_id, one->path,
			condition[0] ? condition : "it is in order again");
	}
	one->usage.condition = one->condition;
}

/* A count that ext4 keeps in its superblock: /sys/fs/ext4/DEVICE/errors_count. 0 also for other file systems.
 */
static uint32_t count_errors(uint32_t dev_major, uint32_t dev_minor)
{
	char name[DEVICE_NAME_SIZE], path[DEVICE_NAME_SIZE + 64];
	cleanup_free char *text = NULL;
	uint32_t n = 0;

	if (device_name(dev_major, dev_minor, name) < 0 ||
	    str_format(path, sizeof(path), "/sys/fs/ext4/%s/errors_count", name) < 0 ||
	    file_read(path, ERRORS_FILE_MAX, &text, NULL) < 0)
		return 0;
	text[strcspn(text, "\n")] = '\0';
	return parse_u32(text, 0, UINT32_MAX, &n) < 0 ? 0 : n;
}

static const char *trouble_of(enum path_state state)
{
	switch (state) {
	case PATH_MOUNTED:
		return NULL;
	case PATH_NOT_MOUNTED:
		return "nothing is mounted at its path";
	case PATH_DISCONNECTED:
		return "its file server has died";
	case PATH_STALE:
		return "its file server does not know it";
	case PATH_SILENT:
		return "its file server does not answer";
	case PATH_FAILED:
	case PATH_STATE_N:
		break;
	}
	return "it cannot be measured";
}

static void set_figures(struct measured *one, const struct path_space *space)
{
	one->usage.total_bytes = space->total_bytes;
	one->usage.free_bytes = space->free_bytes;
	one->usage.used_bytes = space->used_bytes;
	one->usage.total_inodes = space->total_inodes;
	one->usage.free_inodes = space->free_inodes;
	one->usage.used_inodes = space->used_inodes;
}

static void on_looked(const struct path_seen *seen, void *userdata)
{
	const struct path_space *space = &seen->space;
	struct measured *one = userdata;

	one->probe = NULL;
	one->usages->n_busy--;
	one->is_measured = true;
	one->trouble = trouble_of(seen->state);
	one->is_absent = seen->state == PATH_NOT_MOUNTED;
	one->is_shut_down = one->is_writer && !one->has_server && seen->sys_errno == EIO;
	if (seen->state == PATH_MOUNTED) {
		if (!one->has_plugin_figures)
			set_figures(one, space);
		one->is_read_only = one->is_writer && seen->view.is_read_only && !one->is_mount_read_only;
		one->n_errors = count_errors(one->dev_major, one->dev_minor);
	}
	judge(one);
	if (one->usages->n_busy == 0)
		send_changes(one->usages);
}

/* --- plugins --- */

/* Numbers of a plugin below 0 are unknown. */
static uint64_t figure(int64_t value)
{
	return value > 0 ? (uint64_t)value : 0;
}

static void note_figures(struct measured *one, const Csi__V1__NodeGetVolumeStatsResponse *stats)
{
	struct path_space space = {.total_inodes = 0};

	for (size_t i = 0; i < stats->n_usage; i++) {
		const Csi__V1__VolumeUsage *usage = stats->usage[i];

		if (usage->unit == CSI__V1__VOLUME_USAGE__UNIT__BYTES) {
			space.total_bytes = figure(usage->total);
			space.used_bytes = figure(usage->used);
			space.free_bytes = figure(usage->available);
		} else if (usage->unit == CSI__V1__VOLUME_USAGE__UNIT__INODES) {
			space.total_inodes = figure(usage->total);
			space.used_inodes = figure(usage->used);
			space.free_inodes = figure(usage->available);
		}
	}
	one->has_plugin_figures = space.total_bytes > 0;
	if (one->has_plugin_figures)
		set_figures(one, &space);
}

static void note_plugin_condition(struct measured *one, const Csi__V1__VolumeCondition *condition)
{
	static const char reports[] = "its plugin reports: ";
	char text[USAGE_CONDITION_MAX + 2 - sizeof(reports)];

	one->plugin_condition[0] = '\0';
	if (!condition || !condition->abnormal)
		return;
	str_copy_text(text, sizeof(text), condition->message);
	str_make_one_reason(text);
	(void)snprintf(one->plugin_condition, sizeof(one->plugin_condition), "%s%s", reports, text);
}

static void skip_plugin(struct volume_usages *usages, const char *plugin_id)
{
	struct measured *one;

	RB_FOREACH (one, measured_tree, &usages->volumes)
		one->is_silent = one->is_silent || str_eq(one->plugin_id, plugin_id);
}

static void on_asked(const ProtobufCMessage *response, const struct error *err, void *userdata)
{
	const Csi__V1__NodeGetVolumeStatsResponse *stats = (const void *)response;
	struct measured *one = userdata;
	struct volume_usages *usages = one->usages;
	bool is_silent = err && err->status == STATUS_DEADLINE_EXCEEDED;

	one->call = NULL;
	stop_asking(one);
	one->is_measured = true;
	one->has_plugin_figures = false;
	one->plugin_condition[0] = '\0';
	if (stats) {
		note_figures(one, stats);
		note_plugin_condition(one, stats->volume_condition);
	}
	if (is_silent) {
		skip_plugin(usages, one->plugin_id);
		(void)str_copy(one->plugin_condition, sizeof(one->plugin_condition),
			       "its plugin does not answer NodeGetVolumeStats");
	}
	if (one->is_device) /* nothing else measures a device */
		one->trouble = one->has_plugin_figures ? NULL : "its plugin does not measure it";
	judge(one);
	ask_next(usages, one->plugin_id);
	if (usages->n_busy == 0)
		send_changes(usages);
}

static const struct volume_target *target_of(const struct measured *one)
{
	const struct alloc_runner *runner = allocs_find(one->usages->env.allocs, one->alloc_id);
	const struct alloc_record *record = runner ? alloc_runner_record(runner) : NULL;

	if (!record || one->slot >= record->alloc.n_volumes ||
	    !str_eq(record->volumes[one->slot].claim_id, one->claim_id) ||
	    record->volumes[one->slot].state != VOLUME_PUBLISHED)
		return NULL;
	return &record->volumes[one->slot].target;
}

static const struct node_half *node_of(const struct measured *one)
{
	const struct node_plugin *facts = plugins_facts(one->usages->env.plugins, one->plugin_id);

	return facts && facts->has_node ? &facts->node : NULL;
}

/* Starts the call. STATUS_OK: on_asked() follows. */
static enum status ask(struct measured *one)
{
	const struct volume_usages_env *env = &one->usages->env;
	const struct volume_target *target = target_of(one);
	const struct node_half *node = node_of(one);
	struct csi_volume_request request;
	struct service_client *client;

	if (!target || !node || one->is_silent || volume_manager_is_busy(env->volumes, one->wire_volume))
		return STATUS_UNAVAILABLE;
	TRY(plugins_client(env->plugins, one->plugin_id, PLUGIN_NODE, &client, NULL));
	TRY(csi_volume_paths(helper_client_info(env->helper)->stage_base, target, &request.paths, NULL));
	csi_volume_stats(target, node->stage, &request);
	return service_call_start(client,
				  &(struct service_request){.method = CSI_NODE_GET_VOLUME_STATS,
							    .message = &request.pb.base,
							    .timeout_us = VOLUME_USAGE_ASK_MS * USEC_PER_MSEC,
							    .done = on_asked,
							    .userdata = one},
				  &one->call, NULL);
}

/* Asks the plugin about the next of its volumes, unless it is being asked about one. A plugin that is slow
 * delays only its own. */
static void ask_next(struct volume_usages *usages, const char *plugin_id)
{
	struct measured *one, *next;

	for (one = TAILQ_FIRST(&usages->asking); one; one = next) {
		next = TAILQ_NEXT(one, asking);
		if (!str_eq(one->plugin_id, plugin_id))
			continue;
		if (one->call)
			return;
		if (ask(one) == STATUS_OK) {
			TAILQ_REMOVE(&usages->asking, one, asking);
			TAILQ_INSERT_HEAD(&usages->asking, one, asking);
			return;
		}
		stop_asking(one); /* until the next round */
	}
}

static void let_ask(struct measured *one)
{
	const struct node_half *node = one->plugin_id[0] != '\0' ? node_of(one) : NULL;

	if (!node || !node->stats)
		return;
	if (!one->is_asking) {
		one->is_asking = true;
		TAILQ_INSERT_TAIL(&one->usages->asking, one, asking);
		one->usages->n_busy++;
	}
	ask_next(one->usages, one->plugin_id);
}

static void measure(struct measured *one)
{
	struct path_probes *probes = one->has_server ? one->usages->remote : one->usages->local;

	let_ask(one);
	if (!one->probe && !one->is_device &&
	    path_probe_start(probes, one->path, one->group, VOLUME_USAGE_LOOK_MS * USEC_PER_MSEC, on_looked,
			     one, &one->probe, NULL) == STATUS_OK)
		one->usages->n_busy++;
}

/* --- the list of volumes --- */

static struct measured *add(struct volume_usages *usages, const char wire_volume[static WIRE_VOLUME_SIZE])
{
	struct measured *one = calloc(1, sizeof(*one));

	if (!one)
		return NULL; /* the next look adds it */
	one->usages = usages;
	holdfast__v1__volume_usage__init(&one->usage);
	memcpy(one->wire_volume, wire_volume, sizeof(one->wire_volume));
	RB_INSERT(measured_tree, &usages->volumes, one);
	return one;
}

/* Prefers a publish for writing: only such a one shows whether the kernel stopped writes. */
static void note_publish(struct volume_usages *usages, const struct alloc_record *record, uint32_t i)
{
	const struct volume_target *target = &record->volumes[i].target;
	struct measured *one = find(usages, target->wire_volume);

	if (!one)
		one = add(usages, target->wire_volume);
	if (!one || (one->look == usages->look && (one->is_writer || target->read_only)))
		return;
	one->look = usages->look;
	one->is_writer = !target->read_only;
	one->record = record;
	one->slot = i;
}

static void choose_publish(struct measured *one)
{
	const struct volume_record *volume = &one->record->volumes[one->slot];
	const struct volume_target *target = &volume->target;
	enum source_class class = target->source.class;

	one->is_device = volume_target_is_device(target);
	str_copy_text(one->group, sizeof(one->group), volume_target_group(target));
	(void)str_copy(one->plugin_id, sizeof(one->plugin_id),
		       target->type == VOLUME_CSI ? target->profile : "");
	one->has_server = target->type == VOLUME_CSI || (class != SOURCE_BLOCK && class != SOURCE_TMPFS);
	one->dev_major = target->dev_major;
	one->dev_minor = target->dev_minor;
	(void)str_copy(one->claim_id, sizeof(one->claim_id), volume->claim_id);
	(void)str_copy(one->volume_id, sizeof(one->volume_id), target->volume_id);
	(void)str_copy(one->alloc_id, sizeof(one->alloc_id), one->record->alloc.id);
	(void)str_copy(one->path, sizeof(one->path), one->record->alloc.published[one->slot].path);
	one->usage.claim_id = one->claim_id;
}

/* Forgets the measurements that were made at the publish of another claim. */
static struct measured *begin_again(struct measured *one)
{
	struct measured old = *one, *again;

	forget(old.usages, one);
	again = add(old.usages, old.wire_volume);
	if (!again)
		return NULL;
	again->look = old.look;
	again->is_writer = old.is_writer;
	again->record = old.record;
	again->slot = old.slot;
	return again;
}

static void list_volumes(struct volume_usages *usages)
{
	const struct alloc_runner *runner = NULL;
	struct measured *one, *next;

	usages->look++;
	while ((runner = allocs_next(usages->env.allocs, runner))) {
		const struct alloc_record *record = alloc_runner_record(runner);

		for (uint32_t i = 0; i < record->alloc.n_published; i++)
			if (record->volumes[i].state == VOLUME_PUBLISHED)
				note_publish(usages, record, i);
	}
	RB_FOREACH_SAFE (one, measured_tree, &usages->volumes, next) {
		if (one->look != usages->look)
			forget(usages, one);
		else if (one->claim_id[0] == '\0' ||
			 str_eq(one->claim_id, one->record->volumes[one->slot].claim_id) ||
			 (one = begin_again(one)))
			choose_publish(one);
	}
}

/* --- the mount table --- */

static void look_at_mount(const struct mount_table *table, struct measured *one)
{
	struct mount_view view;
	bool was_stopped = one->is_stopped;

	if (!one->is_writer || one->is_device || mount_table_find(table, one->path, &view, NULL) != STATUS_OK)
		return;
	one->is_mount_read_only = mount_option_is_set(view.options, "ro");
	one->is_stopped = view.is_stopped;
	if (one->is_stopped != was_stopped)
		judge(one);
}

/* The first volume whose name is not before @wire_volume, or NULL. */
static struct measured *first_from(struct volume_usages *usages, const char *wire_volume)
{
	struct measured key = {.look = 0};

	(void)str_copy(key.wire_volume, sizeof(key.wire_volume), wire_volume);
	return RB_NFIND(measured_tree, &usages->volumes, &key);
}

/* Looks at some: each look costs several calls of the kernel, and the loop has other work. */
static void look_at_mounts(struct volume_usages *usages)
{
	const char *base = helper_client_info(usages->env.helper)->publish_base;
	struct measured *one = first_from(usages, usages->next);
	int n = 0;

	if (base[0] == '\0' || mount_table_refresh(usages->env.mounts, base, 0, NULL) != STATUS_OK)
		return;
	for (; one && n < VOLUME_USAGE_MOUNTS; n++, one = RB_NEXT(measured_tree, &usages->volumes, one))
		look_at_mount(*usages->env.mounts, one);
	(void)str_copy(usages->next, sizeof(usages->next), one ? one->wire_volume : "");
}

/* --- time --- */

static int on_tick(sd_event_source *source, uint64_t usec, void *userdata);

static void arm(struct volume_usages *usages)
{
	uint64_t tick_us = VOLUME_USAGE_TICK_MS * USEC_PER_MSEC;

	if (tick_us > usages->env.interval_us)
		tick_us = usages->env.interval_us;
	(void)wakeup_arm(usages->env.event, &usages->timer, tick_us, on_tick, usages, NULL);
}

/* Nodes that started together do not measure together: 3/4 to 5/4 of the interval. */
static uint64_t next_round_us(const struct volume_usages *usages, uint64_t now_us)
{
	uint64_t interval_us = usages->env.interval_us;

	return now_us + interval_us * 3 / 4 + backoff_random() % (interval_us / 2 + 1);
}

static int on_tick(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct volume_usages *usages = userdata;
	uint64_t now_us = clock_monotonic_us();
	bool is_round = now_us >= usages->due_us;
	struct measured *one;

	wakeup_disarm(&usages->timer);
	list_volumes(usages);
	look_at_mounts(usages);
	RB_FOREACH (one, measured_tree, &usages->volumes) {
		one->is_silent = one->is_silent && !is_round;
		if (is_round || !one->is_measured || one->is_absent)
			measure(one);
	}
	if (is_round)
		usages->due_us = next_round_us(usages, now_us);
	send_changes(usages);
	if (!RB_EMPTY(&usages->volumes))
		arm(usages);
	return 0;
}

void volume_usages_wake(struct volume_usages *usages)
{
	if (usages && usages->env.interval_us > 0 && !usages->timer)
		arm(usages);
}

enum status volume_usages_new(const struct volume_usages_env *env, struct volume_usages **ret,
			      struct error *err)
{
	cleanup(volume_usages_freep) struct volume_usages *usages = calloc(1, sizeof(*usages));

	if (!usages)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot measure volumes");
	usages->env = *env;
	RB_INIT(&usages->volumes);
	TAILQ_INIT(&usages->asking);
	TRY(path_probes_new(env->event, &usages->local, err));
	TRY(path_probes_new(env->event, &usages->remote, err));
	*ret = TAKE_PTR(usages);
	return STATUS_OK;
}

void volume_usages_free(struct volume_usages *usages)
{
	struct measured *one;

	if (!usages)
		return;
	wakeup_disarm(&usages->timer);
	while ((one = RB_MIN(measured_tree, &usages->volumes)))
		take_away(usages, one);
	path_probes_free(usages->local);
	path_probes_free(usages->remote);
	free(usages);
}

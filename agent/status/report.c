/* SPDX-License-Identifier: Apache-2.0 */
#include "status/report.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "kernel/device.h"
#include "model/message.h"
#include "model/pb.h"
#include "model/usage.h"
#include "plugins/plugins.h"
#include "volume/verify.h"

#include <assert.h>
#include <errno.h>
#include <holdfast/v1/agent.pb-c.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = PLUGINS_MAX * (PLUGIN_INSTANCES_MAX + 1), DRIVER_VERSION_SIZE = 64 };

/* Nothing leaves the descriptor's own; false when memory is short. */
static bool put_text(char **dst, const char *text)
{
	if (!text || text[0] == '\0')
		return true;
	*dst = strdup(text);
	return *dst != NULL;
}

static Holdfast__V1__AgentPlugin *add_row(Holdfast__V1__GetAgentStatusResponse *report, const char *plugin_id)
{
	Holdfast__V1__AgentPlugin *row = malloc(sizeof(*row));

	if (!row)
		return NULL;
	holdfast__v1__agent_plugin__init(row);
	report->plugins[report->n_plugins++] = row;
	return put_text(&row->plugin_id, plugin_id) ? row : NULL;
}

static bool put_calls(Holdfast__V1__AgentPlugin *row, const struct service_stats *calls)
{
	row->calls_in_flight = (uint32_t)calls->in_flight;
	row->calls_waiting = (uint32_t)calls->waiting;
	row->calls = calls->calls;
	row->calls_failed = calls->failed;
	row->oldest_since_ms = calls->oldest_since_ms;
	return put_text(&row->oldest_call, calls->oldest_name);
}

static bool put_plugin(Holdfast__V1__GetAgentStatusResponse *report, const struct plugins *plugins,
		       const struct plugin_instance_info *info)
{
	const struct node_plugin *facts = plugins_facts(plugins, info->plugin_id);
	Holdfast__V1__AgentPlugin *row = add_row(report, info->plugin_id);

	if (!row)
		return false;
	row->used = info->is_used;
	row->since_ms = info->since_ms;
	return put_text(&row->provider, facts ? facts->provider : NULL) &&
	       put_text(&row->provider_version, facts ? facts->provider_version : NULL) &&
	       put_text(&row->socket, info->socket) && put_text(&row->alloc_id, info->alloc_id) &&
	       put_text(&row->state, info->state) && put_text(&row->last_error, info->last_error) &&
	       put_calls(row, &info->calls);
}

static bool put_absent(Holdfast__V1__GetAgentStatusResponse *report, const struct node_plugin *facts)
{
	Holdfast__V1__AgentPlugin *row = add_row(report, facts->plugin_id);

	return row && put_text(&row->provider, facts->provider) &&
	       put_text(&row->provider_version, facts->provider_version) &&
	       put_text(&row->alloc_id, facts->allocation_id) && put_text(&row->state, "absent") &&
	       put_text(&row->last_error, facts->health_description);
}

static bool has_row(const Holdfast__V1__GetAgentStatusResponse *report, const char *plugin_id)
{
	for (size_t i = 0; i < report->n_plugins; i++) {
		assert(report->plugins[i]);
		if (str_eq(report->plugins[i]->plugin_id, plugin_id))
			return true;
	}
	return false;
}

/* Adds a row per instance, and one without socket for a plugin without any. False when memory is short. */
static bool report_put_plugins(Holdfast__V1__GetAgentStatusResponse *report, const struct plugins *plugins)
{
	cleanup_free struct plugin_instance_info *infos = calloc(ROWS_MAX, sizeof(*infos));
	cleanup_free struct node_plugin *known = calloc(PLUGINS_MAX, sizeof(*known));
	size_t n;

	report->plugins = calloc(ROWS_MAX, sizeof(void *));
	if (!report->plugins || !infos || !known)
		return false;
	n = plugins_instances(plugins, infos, ROWS_MAX);
	for (size_t i = 0; i < n; i++) {
		if (!put_plugin(report, plugins, &infos[i]))
			return false;
	}
	n = plugins_fingerprint(plugins, known, PLUGINS_MAX);
	for (size_t i = 0; i < n; i++) {
		if (!has_row(report, known[i].plugin_id) && !put_absent(report, &known[i]))
			return false;
	}
	return true;
}

typedef Holdfast__V1__GetAgentStatusResponse report;
typedef Holdfast__V1__AgentMount mount_row;
typedef Holdfast__V1__AgentOperation operation_row;
typedef Holdfast__V1__AgentDriver driver_row;

static bool put_device(char **dst, uint32_t dev_major, uint32_t dev_minor)
{
	char text[32];

	(void)str_format(text, sizeof(text), "%u:%u", dev_major, dev_minor);
	return put_text(dst, text);
}

static const char *launch_mode_name(uint8_t mode)
{
	return mode == 1 ? "setuid" : mode == 2 ? "socket" : "";
}

static bool put_instance(Holdfast__V1__AgentHelper *helper, const struct helper_instance_info *info)
{
	Holdfast__V1__AgentHelperInstance *row = malloc(sizeof(*row));

	if (!row)
		return false;
	holdfast__v1__agent_helper_instance__init(row);
	helper->instances[helper->n_instances++] = row;
	row->pid = (uint32_t)info->pid;
	row->nfs = info->is_nfs;
	row->since_ms = info->since_ms;
	helper->restarts += info->restarts;
	row->restarts = info->restarts;
	return put_text(&row->state, info->state) &&
	       put_text(&row->launch_mode, launch_mode_name(info->launch_mode)) &&
	       put_text(&row->operation, info->op ? info->op : "") && put_text(&row->volume, info->volume) &&
	       put_text(&row->last_error, info->last_error);
}

static bool put_instances(Holdfast__V1__AgentHelper *row, const struct helper_client *client)
{
	struct helper_instance_info infos[HELPER_INSTANCES_MAX];
	size_t n = helper_client_instances(client, infos);

	row->instances = calloc(HELPER_INSTANCES_MAX, sizeof(void *));
	if (!row->instances)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (!put_instance(row, &infos[i]))
			return false;
	}
	return true;
}

static bool put_helper(report *pb, const struct helper_client *client)
{
	const struct helper_info *helper = helper_client_info(client);
	Holdfast__V1__AgentHelper *row = malloc(sizeof(*row));

	if (!row)
		return false;
	holdfast__v1__agent_helper__init(row);
	pb->helper = row;
	row->running = helper->is_running;
	row->pid = (uint32_t)helper->pid;
	row->ticket_optional = helper->ticket_optional;
	row->container = helper->container;
	row->queued = helper->queued;
	if (!put_instances(row, client))
		return false;
	return put_text(&row->launch_mode, launch_mode_name(helper->launch_mode)) &&
	       put_text(&row->policy_digest, helper->policy_digest) &&
	       put_text(&row->last_error,
			helper->last_error.status != STATUS_OK ? helper->last_error.msg : "");
}

static bool put_allocs(report *pb, const struct allocs *allocs)
{
	const struct alloc_runner *runner = NULL;
	size_t n = allocs_count(allocs);

	pb->allocations = calloc(n + 1, sizeof(void *));
	if (!pb->allocations)
		return false;
	while ((runner = allocs_next(allocs, runner))) {
		assert(pb->n_allocations < n);
		pb->allocations[pb->n_allocations] = alloc_to_pb(&alloc_runner_record(runner)->alloc);
		if (!pb->allocations[pb->n_allocations])
			return false;
		pb->n_allocations++;
	}
	return true;
}

static mount_row *mount_add(report *pb)
{
	mount_row *row = malloc(sizeof(*row));

	if (!row)
		return NULL;
	holdfast__v1__agent_mount__init(row);
	pb->mounts[pb->n_mounts++] = row;
	return row;
}

/* The kernel's mount tables; NULL: it cannot be read, and the rows lack its columns. */
struct tables {
	const struct mount_table *published;
	const struct mount_table *staged; /* where the devices of csi volumes are bound */
};

static const struct mount_table *refreshed(struct mount_table **table, const char *base)
{
	return mount_table_refresh(table, base, 0, NULL) == STATUS_OK ? *table : NULL;
}

/* Adds the propagation that the helper reported, as verify_publish() judges it: in a mount namespace of our
 * own each copy of a mount is shared with copies of its own, or a slave. */
static bool put_propagation(mount_row *row, const struct mount_snapshot_entry *mount)
{
	static const char *const names[] = {"private", "slave", "shared", "slave,shared"};
	bool is_shared = mount && (mount->state & MH_STATE_SHARED) != 0;
	bool is_slave = mount && (mount->state & MH_STATE_SLAVE) != 0;

	return !mount || put_text(&row->propagation, names[2 * is_shared + is_slave]);
}

/* Adds the mount table's view of the row's path, and whether it is as requested. */
static bool put_view(mount_row *row, const struct tables *tables, const struct volume_record *volume,
		     const struct mount_snapshot_entry *published)
{
	const struct verify_reply reply = {
		.state = published ? published->state : 0,
		.dev_major = published ? published->dev_major : 0,
		.dev_minor = published ? published->dev_minor : 0,
	};
	bool is_device = volume && volume_target_is_device(&volume->target);
	const struct mount_table *table = is_device ? tables->staged : tables->published;
	struct verify_wanted wanted = {.path = row->path};
	uint32_t dev_major, dev_minor;
	struct mount_view view;

	if (!table || row->path[0] == '\0' || mount_table_find(table, row->path, &view, NULL) != STATUS_OK)
		return true;
	if (is_device) {
		row->verified = device_of_mount(&view, &dev_major, &dev_minor, NULL) == STATUS_OK &&
				volume->target.dev_major == dev_major &&
				volume->target.dev_minor == dev_minor;
	} else if (volume) {
		wanted.read_only = volume->target.read_only;
		wanted.exec = volume->target.exec;
		wanted.propagation = volume->target.propagation;
		row->verified = published && volume->target.dev_major == view.dev_major &&
				volume->target.dev_minor == view.dev_minor &&
				verify_publish(&wanted, &reply, &view, NULL) == STATUS_OK;
	}
	return put_text(&row->options, view.options);
}

static bool put_stale(mount_row *row, const struct stale *stale)
{
	char text[STALE_TEXT_SIZE];

	stale_text(stale, row->path, row->alloc_id, text);
	return put_text(&row->stale, text);
}

/* Copies what people see. */
static bool put_usage(mount_row *row, const struct volume_usages *usages, const struct volume_target *target)
{
	const Holdfast__V1__VolumeUsage *usage = volume_usages_find(usages, target->wire_volume);

	if (!usage)
		return true;
	row->usage = (Holdfast__V1__VolumeUsage *)message_convert(usage->base.descriptor, &usage->base);
	if (row->usage)
		row->usage->percent = usage_percent(usage);
	return row->usage != NULL;
}

static bool put_record_mounts(report *pb, const struct report_facts *facts, const struct alloc_record *record,
			      const struct tables *tables)
{
	for (uint8_t i = 0; i < record->alloc.n_volumes; i++) {
		const struct volume_record *volume = &record->volumes[i];
		const struct mount_snapshot_entry *published =
			facts->observed ? mount_snapshot_published(facts->observed, record->alloc.id, i)
					: NULL;
		mount_row *row;

		if (volume->state != VOLUME_PUBLISHED)
			continue;
		row = mount_add(pb);
		if (!row || !put_text(&row->volume_id, volume->target.volume_id) ||
		    !put_text(&row->namespace_, volume->target.namespace) ||
		    !put_text(&row->alloc_id, record->alloc.id) ||
		    !put_text(&row->path, record->alloc.published[i].path) ||
		    !put_device(&row->device, volume->target.dev_major, volume->target.dev_minor) ||
		    !put_stale(row, facts->stale) || !put_usage(row, facts->usages, &volume->target) ||
		    !put_propagation(row, published) || !put_view(row, tables, volume, published))
			return false;
	}
	return true;
}

static bool put_unknown(report *pb, const struct report_facts *facts,
			const struct mount_snapshot_entry *mount, const struct tables *tables)
{
	char volume[sizeof("unknown, staged as ") + MH_LABEL_SIZE] = "unknown";
	char path[ALLOC_PATH_MAX + 1] = "";
	mount_row *row = mount_add(pb);

	if (mount->alloc[0] == '\0')
		(void)str_format(volume, sizeof(volume), "unknown, staged as %s", mount->volume);
	else
		(void)str_format(path, sizeof(path), "%s/%s/%u",
				 helper_client_info(facts->helper)->publish_base, mount->alloc, mount->slot);
	return row && put_text(&row->volume_id, volume) && put_text(&row->alloc_id, mount->alloc) &&
	       put_text(&row->path, path) && put_device(&row->device, mount->dev_major, mount->dev_minor) &&
	       put_propagation(row, mount) && put_view(row, tables, NULL, mount);
}

static bool put_unknowns(report *pb, const struct report_facts *facts, const struct tables *tables)
{
	struct mount_snapshot_entry *mount = NULL;

	if (!facts->observed)
		return true;
	while ((mount = mount_snapshot_next_published(facts->observed, mount))) {
		if (!allocs_know_publish(facts->allocs, mount->alloc, mount->slot) &&
		    !put_unknown(pb, facts, mount, tables))
			return false;
	}
	while ((mount = mount_snapshot_next_staged(facts->observed, mount))) {
		if (!allocs_know_stage(facts->allocs, mount->volume) &&
		    !put_unknown(pb, facts, mount, tables))
			return false;
	}
	while ((mount = mount_snapshot_next_stray(facts->observed, mount))) {
		if (!allocs_know_stage(facts->allocs, mount->volume) &&
		    !put_unknown(pb, facts, mount, tables))
			return false;
	}
	return true;
}

static bool put_mounts(report *pb, const struct report_facts *facts)
{
	const struct helper_info *helper = helper_client_info(facts->helper);
	const struct tables tables = {.published = refreshed(facts->mounts, helper->publish_base),
				      .staged = refreshed(facts->stage_mounts, helper->stage_base)};
	const struct alloc_runner *runner = NULL;
	size_t n = allocs_count(facts->allocs) * ALLOC_VOLUMES_MAX;

	if (facts->observed)
		n += facts->observed->n_published + facts->observed->n_staged + facts->observed->n_strays;
	pb->mounts = calloc(n + 1, sizeof(void *));
	if (!pb->mounts)
		return false;
	while ((runner = allocs_next(facts->allocs, runner))) {
		if (!put_record_mounts(pb, facts, alloc_runner_record(runner), &tables))
			return false;
	}
	return put_unknowns(pb, facts, &tables);
}

static bool put_operation(report *pb, const char *alloc_id, const struct alloc_runner_info *info)
{
	operation_row *row;

	if (!info->step)
		return true;
	row = malloc(sizeof(*row));
	if (!row)
		return false;
	holdfast__v1__agent_operation__init(row);
	pb->operations[pb->n_operations++] = row;
	row->since_ms = info->since_ms;
	row->deadline_ms = info->deadline_ms;
	row->attempts = info->attempts;
	return put_text(&row->volume_id, info->volume_id) && put_text(&row->alloc_id, alloc_id) &&
	       put_text(&row->step, info->step) && put_text(&row->last_error, info->last_error);
}

static struct alloc_runner_info release_row(const struct release *release)
{
	struct alloc_runner_info info = {.last_error = "", .volume_id = release_volume_id(release)};
	struct volume_op_info task;

	info.step = "release";
	if (!release_info(release, &task))
		return info;
	info.step = task.step;
	info.since_ms = task.since_ms;
	info.deadline_ms = task.next_try_ms;
	info.attempts = task.attempts;
	info.last_error = task.last_error;
	return info;
}

static bool put_operations(report *pb, const struct allocs *allocs)
{
	const struct alloc_runner *runner = NULL;
	const struct release *release = NULL;
	struct alloc_runner_info info;

	pb->operations = calloc(allocs_count(allocs) + RELEASES_MAX, sizeof(void *));
	if (!pb->operations)
		return false;
	while ((runner = allocs_next(allocs, runner))) {
		info = alloc_runner_info(runner);
		if (!put_operation(pb, alloc_runner_record(runner)->alloc.id, &info))
			return false;
	}
	while ((release = allocs_next_release(allocs, release))) {
		info = release_row(release);
		if (!put_operation(pb, release_alloc_id(release), &info))
			return false;
	}
	return true;
}

/* Adds a driver. Its texts may contain anything. */
static bool put_driver(report *pb, const struct driver_info *info)
{
	driver_row *row = malloc(sizeof(*row));
	char version[DRIVER_VERSION_SIZE], reason[ERROR_MSG_MAX];

	if (!row)
		return false;
	holdfast__v1__agent_driver__init(row);
	pb->drivers[pb->n_drivers++] = row;
	row->healthy = info->is_healthy;
	str_copy_text(version, sizeof(version), info->capabilities ? info->capabilities->version : "");
	str_copy_text(reason, sizeof(reason), info->reason);
	return put_text(&row->name, info->name) && put_text(&row->version, version) &&
	       put_text(&row->reason, reason);
}

static bool put_drivers(report *pb, const struct drivers *drivers)
{
	struct driver_info infos[DRIVERS_MAX];
	size_t n = drivers_list(drivers, infos, DRIVERS_MAX);

	pb->drivers = calloc(DRIVERS_MAX, sizeof(void *));
	if (!pb->drivers)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (!put_driver(pb, &infos[i]))
			return false;
	}
	return true;
}

static bool put_problems(report *pb, const struct report_facts *facts)
{
	pb->problems = calloc(facts->n_problems + 1, sizeof(char *));
	if (!pb->problems)
		return false;
	for (size_t i = 0; i < facts->n_problems; i++) {
		pb->problems[i] = strdup(facts->problems[i]);
		if (!pb->problems[i])
			return false;
		pb->n_problems++;
	}
	return true;
}

report *report_make(const struct report_facts *facts)
{
	const struct session_info *session = facts->session;
	report *pb = malloc(sizeof(*pb));

	if (!pb)
		return NULL;
	holdfast__v1__get_agent_status_response__init(pb);
	pb->connected = session->is_up;
	pb->connected_since_ms = session->since_ms;
	pb->receipts_pending = (uint32_t)receipts_count(facts->receipts);
	if (put_text(&pb->version, facts->version) && put_text(&pb->node_id, facts->node_id) &&
	    put_text(&pb->cluster, facts->cluster) && put_text(&pb->boot_id, facts->boot_id) &&
	    put_text(&pb->server, facts->server) &&
	    put_text(&pb->last_session_error,
		     session->last_error.status != STATUS_OK ? session->last_error.msg : "") &&
	    put_helper(pb, facts->helper) && put_allocs(pb, facts->allocs) && put_mounts(pb, facts) &&
	    put_operations(pb, facts->allocs) && put_problems(pb, facts) &&
	    report_put_plugins(pb, facts->plugins) && put_drivers(pb, facts->drivers) &&
	    drain_report(facts->drain, &pb->drain))
		return pb;
	protobuf_c_message_free_unpacked(&pb->base, NULL);
	return NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "job/job_spec.h"

#include "base/cleanup.h"
#include "base/id.h"
#include "base/str.h"
#include "model/alloc_validate.h"
#include "model/message.h"
#include "model/node_loss.h"
#include "model/pb.h"
#include "model/restart.h"
#include "rpc/pack.h"
#include "state/records.h"
#include "store/checksum.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef Holdfast__V1__Job Job;
typedef Holdfast__V1__JobGroup Group;

static const struct job_update default_update = {
	.max_parallel = 1, .min_healthy_ms = 10 * 1000, .healthy_deadline_ms = 5 * 60 * 1000};
static const struct job_reschedule default_reschedule = {.unlimited = true, .delay_ms = 30 * 1000};
static const struct job_reschedule default_of_batch = {
	.attempts = 1, .interval_ms = JOB_RESCHEDULE_INTERVAL_MAX_MS, .delay_ms = 30 * 1000};

static const Holdfast__V1__VolumeRequest *find_volume(const Group *group, const char *name)
{
	for (size_t i = 0; i < group->allocation->n_volumes; i++)
		if (str_eq(group->allocation->volumes[i]->name, name))
			return group->allocation->volumes[i];
	return NULL;
}

/* --- checks: each names the key of the group that it is about, as the file of a job has it --- */

typedef enum status check_fn(const Job *job, const Group *group, struct error *err);

static enum status check_per_alloc(const Job *job, const Group *group, struct error *err)
{
	char field[ERROR_FIELD_SIZE];

	for (size_t i = 0; i < group->n_per_alloc; i++) {
		if (!find_volume(group, group->per_alloc[i]))
			return error_invalid(err, "per_alloc", "it names volume '%.64s', which there is not",
					     group->per_alloc[i]);
		(void)str_format(field, sizeof(field), "volume %s.per_alloc", group->per_alloc[i]);
		if (job->type == HOLDFAST__V1__JOB_TYPE__JOB_TYPE_SYSTEM)
			return error_invalid(err, field,
					     "it contradicts type system, whose members have no index");
	}
	return STATUS_OK;
}

/* More than one member on a volume that one may have would never all run. */
static enum status check_shared_volume(const Job *job, const Group *group,
				       const Holdfast__V1__VolumeRequest *volume, struct error *err)
{
	bool is_many = job->type == HOLDFAST__V1__JOB_TYPE__JOB_TYPE_SYSTEM || group->count > 1;
	enum access_mode mode = (enum access_mode)volume->access_mode;
	char field[ERROR_FIELD_SIZE];

	(void)str_format(field, sizeof(field), "volume %.64s.%s", volume->name,
			 volume->mount_options ? "mount_options" : "access_mode");
	if (volume->mount_options)
		return error_invalid(err, field, "they are the volume's own in a job; register them with it");
	if (!is_many || records_is_per_alloc(group, volume->name) || mode == MULTI_NODE_MULTI_WRITER ||
	    mode == MULTI_NODE_READER_ONLY || mode == SINGLE_NODE_MULTI_WRITER ||
	    (mode == MULTI_NODE_SINGLE_WRITER && volume->read_only))
		return STATUS_OK;
	return error_invalid(err, field,
			     "%s is for one member, and there are more; set per_alloc, or another mode",
			     access_mode_name(mode));
}

static enum status check_volumes(const Job *job, const Group *group, struct error *err)
{
	enum status status = STATUS_OK;

	for (size_t i = 0; i < group->allocation->n_volumes; i++) {
		struct error one;

		status = error_collect(status,
				       check_shared_volume(job, group, group->allocation->volumes[i], &one),
				       &one, err);
	}
	return status;
}

static enum status check_count(const Job *job, const Group *group, struct error *err)
{
	if (job->type == HOLDFAST__V1__JOB_TYPE__JOB_TYPE_SYSTEM)
		return group->count <= 1 ? STATUS_OK
					 : error_invalid(err, "count",
							 "it contradicts type system, which has one member "
							 "on each node");
	if (group->count <= JOB_COUNT_MAX)
		return STATUS_OK;
	return error_invalid(err, "count", "it is 0 to %d, not %" PRIu32, JOB_COUNT_MAX, group->count);
}

static enum status check_template(const Group *group, struct error *err)
{
	const Holdfast__V1__Allocation *alloc = group->allocation;

	if (!alloc)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "allocation is missing: what each member runs");
	if (alloc->id[0] != '\0' || alloc->node_id[0] != '\0' || alloc->name[0] != '\0' ||
	    alloc->namespace_[0] != '\0' || alloc->job_id[0] != '\0')
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "the server sets id, name, namespace, node and job of its allocations; "
				 "leave them out");
	return STATUS_OK;
}

/* First: other checks compare each volume with each name. */
static enum status check_sizes(const Group *group, struct error *err)
{
	if (group->allocation->n_volumes > ALLOC_VOLUMES_MAX)
		return error_invalid(err, "volume", "it has %zu, at most %d are allowed",
				     group->allocation->n_volumes, ALLOC_VOLUMES_MAX);
	if (group->n_per_alloc > ALLOC_VOLUMES_MAX)
		return error_invalid(err, "per_alloc", "it names more than %d volumes", ALLOC_VOLUMES_MAX);
	return STATUS_OK;
}

/* Its members would have two. */
static enum status check_node_loss(const Job *job, const Group *group, struct error *err)
{
	if (group->allocation->on_node_loss)
		return error_invalid(err, "allocation.on_node_loss", "on_node_loss is a key of the group");
	if (group->on_node_loss && group->allocation->n_volumes == 0)
		return error_invalid(err, "on_node_loss", "contradicts a group without volume; leave it out");
	return node_loss_check(group->on_node_loss, false, err);
}

static enum status check_reschedule(const Job *job, const Group *group, struct error *err)
{
	if (!group->reschedule)
		return STATUS_OK;
	if (group->reschedule->interval_ms > JOB_RESCHEDULE_INTERVAL_MAX_MS)
		return error_invalid(err, "reschedule.interval", "it is at most %d ms",
				     JOB_RESCHEDULE_INTERVAL_MAX_MS);
	if (group->reschedule->attempts > JOB_RESCHEDULE_ATTEMPTS_MAX)
		return error_invalid(err, "reschedule.attempts", "it is at most %d; set unlimited for more",
				     JOB_RESCHEDULE_ATTEMPTS_MAX);
	return STATUS_OK;
}

/* It would fail every version while its members run well. */
static enum status check_update(const Job *job, const Group *group, struct error *err)
{
	const Holdfast__V1__JobUpdate *update = group->update;

	if (!update || update->healthy_deadline_ms == 0 ||
	    update->min_healthy_ms < update->healthy_deadline_ms)
		return STATUS_OK;
	return error_invalid(err, "update.min_healthy_time",
			     "%" PRIu32 " ms is not below healthy_deadline, %" PRIu32
			     " ms: no member could be healthy in time",
			     update->min_healthy_ms, update->healthy_deadline_ms);
}

/* Checks the member's remaining fields as an allocation, the one whose volumes have the longest names. */
static enum status check_member(const Job *job, uint32_t i, struct error *err)
{
	cleanup(alloc_release) struct alloc alloc = {0};
	uint32_t count = job->groups[i]->count;

	return job_make_alloc(job, i, count > 0 && count <= JOB_COUNT_MAX ? count - 1 : 0, &alloc, err);
}

static enum status check_group(const Job *job, uint32_t i, struct error *err)
{
	static check_fn *const checks[] = {check_count,	 check_per_alloc, check_reschedule,
					   check_update, check_volumes,	  check_node_loss};
	const Group *group = job->groups[i];
	struct error one;
	enum status status = STATUS_OK;

	if (!id_is_label(group->name) || strlen(group->name) > JOB_GROUP_NAME_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "a group's name is 1 to %d of a-z 0-9 and -", JOB_GROUP_NAME_MAX);
	for (uint32_t k = 0; k < i; k++)
		if (str_eq(job->groups[k]->name, group->name))
			return error_set(err, STATUS_INVALID_ARGUMENT, 0, "it is given twice");
	TRY(check_template(group, err));
	TRY(check_sizes(group, err));
	for (size_t k = 0; k < ARRAY_SIZE(checks); k++)
		status = error_collect(status, checks[k](job, group, &one), &one, err);
	return error_collect(status, check_member(job, i, &one), &one, err);
}

static enum status check_groups(const Job *job, struct error *err)
{
	enum status status = STATUS_OK;

	for (uint32_t i = 0; i < job->n_groups; i++) {
		char path[ERROR_FIELD_SIZE];
		struct error one;
		enum status of_group = check_group(job, i, &one);

		(void)str_format(path, sizeof(path), "group %.64s", job->groups[i]->name);
		if (of_group == STATUS_INVALID_ARGUMENT)
			(void)error_below(&one, path);
		status = error_collect(status, of_group, &one, err);
	}
	return status;
}

uint64_t job_members(const Job *job)
{
	uint64_t n = 0;

	for (size_t i = 0; i < job->n_groups; i++)
		n += job->groups[i]->count;
	return n;
}

/* One decision looks at each member. */
static enum status check_members(const Job *job, struct error *err)
{
	uint64_t n = job_members(job);

	if (n <= JOB_COUNT_MAX)
		return STATUS_OK;
	return error_invalid(err, "group", "all groups together have at most %d members, not %" PRIu64,
			     JOB_COUNT_MAX, n);
}

static enum status check_constraints(const Job *job, struct error *err)
{
	size_t n = 0;

	for (size_t i = 0; i < job->n_groups; i++)
		n += job->groups[i]->allocation->n_constraints;
	if (job->type != HOLDFAST__V1__JOB_TYPE__JOB_TYPE_SYSTEM || n <= JOB_SYSTEM_CONSTRAINTS_MAX)
		return STATUS_OK;
	return error_invalid(err, "group",
			     "all groups of type system together have at most %d constraints, not %zu",
			     JOB_SYSTEM_CONSTRAINTS_MAX, n);
}

enum status job_validate(const Job *job, struct error *err)
{
	if (!job)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "job: missing");
	if (!id_is_label(job->id))
		return error_invalid(err, "id", "'%.64s' is not 1 to %d of a-z 0-9 and -", job->id,
				     JOB_ID_MAX);
	if (job->type <= HOLDFAST__V1__JOB_TYPE__JOB_TYPE_UNSPECIFIED || (int)job->type >= JOB_TYPE_N)
		return error_invalid(err, "type", "it is service, system or batch");
	if (job->n_groups == 0 || job->n_groups > JOB_GROUPS_MAX)
		return error_invalid(err, "group", "a job has 1 to %d groups, not %zu", JOB_GROUPS_MAX,
				     job->n_groups);
	if (protobuf_c_message_get_packed_size(&job->base) > JOB_BYTES_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "job %s has more than %d bytes", job->id,
				 JOB_BYTES_MAX);
	TRY(check_groups(job, err));
	TRY(check_constraints(job, err));
	return check_members(job, err);
}

/* --- views --- */

static void view_group(const Group *group, enum job_type type, struct job_group *ret,
		       struct job_volume *volumes)
{
	const Holdfast__V1__JobUpdate *update = group->update;
	const Holdfast__V1__JobReschedule *reschedule = group->reschedule;

	*ret = (struct job_group){.name = group->name,
				  .content = job_content(group),
				  .count = group->count,
				  .volumes = volumes,
				  .n_volumes = group->allocation->n_volumes,
				  .update = default_update,
				  .reschedule = type == JOB_BATCH ? default_of_batch : default_reschedule};
	if (update)
		ret->update = (struct job_update){.max_parallel = update->max_parallel,
						  .min_healthy_ms = update->min_healthy_ms,
						  .healthy_deadline_ms = update->healthy_deadline_ms};
	if (reschedule)
		ret->reschedule = (struct job_reschedule){
			.unlimited = reschedule->unlimited,
			.attempts = reschedule->attempts,
			.interval_ms = reschedule->interval_ms > 0 ? reschedule->interval_ms
								   : JOB_RESCHEDULE_INTERVAL_MAX_MS,
			.delay_ms = reschedule->delay_ms};
	for (size_t i = 0; i < ret->n_volumes; i++) {
		const Holdfast__V1__VolumeRequest *from = group->allocation->volumes[i];
		struct volume_request request = {.read_only = from->read_only,
						 .access_mode = (enum access_mode)from->access_mode};

		volumes[i] = (struct job_volume){.per_alloc = records_is_per_alloc(group, from->name),
						 .access_mode = request.access_mode,
						 .mode = volume_request_mode(&request)};
		(void)str_copy(volumes[i].source, sizeof(volumes[i].source), from->source);
	}
}

void job_view_of(const Job *job, struct job_view *ret)
{
	*ret = (struct job_view){.spec = {.id = job->id,
					  .type = (enum job_type)job->type,
					  .version = job->version,
					  .restart_version = job->restart_version,
					  .submit_ms = job->submit_time_ms,
					  .stop = job->stop,
					  .update = (enum job_update_status)job->update_status,
					  .groups = ret->groups,
					  .n_groups = job->n_groups}};
	for (size_t i = 0; i < job->n_groups; i++)
		view_group(job->groups[i], ret->spec.type, &ret->groups[i], ret->volumes[i]);
}

/* --- allocations --- */

static enum status name_volumes(const Group *group, uint32_t index, struct alloc *alloc, struct error *err)
{
	for (uint32_t i = 0; i < alloc->n_volumes; i++) {
		char source[VOLUME_ID_MAX + 1];

		if (!records_is_per_alloc(group, alloc->volumes[i].name))
			continue;
		if (str_format(source, sizeof(source), "%s[%" PRIu32 "]", alloc->volumes[i].source, index) <
		    0)
			return error_set(err, STATUS_INVALID_ARGUMENT, 0,
					 "volume %s: its source and [%" PRIu32 "] have more than %d bytes",
					 alloc->volumes[i].name, index, VOLUME_ID_MAX);
		(void)str_copy(alloc->volumes[i].source, sizeof(alloc->volumes[i].source), source);
	}
	return STATUS_OK;
}

/* Nomad's, of a task without a restart block. */
static enum status default_restarts(enum job_type type, struct message_list *tasks, struct error *err)
{
	Holdfast__Driver__V1__RestartPolicy policy = HOLDFAST__DRIVER__V1__RESTART_POLICY__INIT;

	policy.mode = HOLDFAST__DRIVER__V1__RESTART_MODE__RESTART_MODE_FAIL;
	policy.attempts = type == JOB_BATCH ? 3 : RESTART_ATTEMPTS_DEFAULT;
	policy.interval_ms = type == JOB_BATCH ? RESTART_TIME_MAX_MS : RESTART_INTERVAL_DEFAULT_MS;
	policy.delay_ms = RESTART_DELAY_DEFAULT_MS;
	policy.by_default = true;
	for (size_t i = 0; i < message_list_n(tasks); i++) {
		Holdfast__Driver__V1__TaskConfig *task = (void *)tasks->messages[i];

		if (task->restart)
			continue;
		task->restart = (void *)message_convert(policy.base.descriptor, &policy.base);
		if (!task->restart)
			return error_no_memory(err, "a restart block");
	}
	return STATUS_OK;
}

enum status job_make_alloc(const Job *job, uint32_t group, uint32_t index, struct alloc *ret,
			   struct error *err)
{
	const Group *from = job->groups[group];

	TRY(alloc_from_pb(from->allocation, ret, err));
	(void)str_copy(ret->namespace, sizeof(ret->namespace), namespace_or_default(job->namespace_));
	(void)str_format(ret->name, sizeof(ret->name), "%s-%s-%" PRIu32, job->id, from->name, index);
	(void)str_copy(ret->job_id, sizeof(ret->job_id), job->id);
	(void)str_copy(ret->job_group, sizeof(ret->job_group), from->name);
	ret->job_index = index;
	ret->job_version = job->version;
	ret->job_content = job_content(from);
	alloc_default(ret);
	TRY(default_restarts((enum job_type)job->type, ret->tasks, err));
	TRY(name_volumes(from, index, ret, err));
	return alloc_validate(ret, err);
}

/* --- comparison --- */

/* Packed bytes are summed and not kept. */
struct summer {
	ProtobufCBuffer base; /* first */
	uint64_t sum;
};

static void add_to_sum(ProtobufCBuffer *buffer, size_t n, const uint8_t *bytes)
{
	struct summer *summer = (struct summer *)(void *)buffer;

	summer->sum = checksum_add(summer->sum, bytes, n);
}

uint64_t job_content(const Group *group)
{
	struct summer summer = {.base = {.append = add_to_sum}, .sum = CHECKSUM_INIT};
	Group part = HOLDFAST__V1__JOB_GROUP__INIT;

	part.allocation = group->allocation;
	part.per_alloc = group->per_alloc;
	part.n_per_alloc = group->n_per_alloc;
	part.restart_version = group->restart_version;
	(void)protobuf_c_message_pack_to_buffer(&part.base, &summer.base);
	return summer.sum;
}

bool job_is_current(const Job *job, const struct alloc *alloc)
{
	for (size_t i = 0; i < job->n_groups; i++)
		if (str_eq(job->groups[i]->name, alloc->job_group))
			return alloc->job_version >= job->restart_version &&
			       alloc->job_content == job_content(job->groups[i]);
	return false;
}

static Job submitted(const Job *job)
{
	Job part = *job;

	part.version = part.create_index = part.modify_index = 0;
	part.submit_time_ms = 0;
	part.restart_version = 0;
	part.stop = false;
	part.update_status = HOLDFAST__V1__JOB_UPDATE_STATUS__JOB_UPDATE_STATUS_RUNNING;
	return part;
}

bool job_same_submission(const Job *a_, const Job *b_)
{
	Job a = submitted(a_), b = submitted(b_);
	size_t n_a = 0, n_b = 0;
	cleanup_free uint8_t *x = pack_message(&a.base, 0, &n_a);
	cleanup_free uint8_t *y = pack_message(&b.base, 0, &n_b);

	return x && y && n_a == n_b && memcmp(x, y, n_a) == 0;
}

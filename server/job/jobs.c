/* SPDX-License-Identifier: Apache-2.0 */
#include "job/jobs.h"

#include "server.h"

#include "access/access.h"
#include "access/answer.h"
#include "access/audit.h"
#include "access/record_list.h"
#include "alloc/allocs.h"
#include "api/watch.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/str.h"
#include "claim/refusal.h"
#include "claim/release.h"
#include "job/job_limits.h"
#include "job/job_spec.h"
#include "job/job_work.h"
#include "model/alloc_health.h"
#include "model/message.h"
#include "recovery/epoch.h"
#include "rpc/server.h"
#include "state/change.h"
#include "state/keys.h"
#include "state/records.h"
#include "state/storage_index.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHAT_RUN "Jobs.Run"
#define WHAT_STOP "Jobs.Stop"
#define WHAT_REVERT "Jobs.Revert"
#define WHAT_SCALE "Jobs.Scale"
#define WHAT_RESTART "Jobs.Restart"

typedef Holdfast__V1__Job Job;
typedef Holdfast__V1__JobGroup Group;
typedef Holdfast__V1__JobMember Member;

/* "job/NAMESPACE/": a name that is too long stays longer than any, and so is not cut to another one. */
static void table_key(const char *namespace, char ret[static OBJECT_KEY_SIZE])
{
	(void)str_format(ret, OBJECT_KEY_SIZE, PREFIX_JOB "%.*s/", NAMESPACE_MAX + 1,
			 namespace_or_default(namespace));
}

static void job_key(const char *namespace, const char *id, char ret[static OBJECT_KEY_SIZE])
{
	size_t n;

	table_key(namespace, ret);
	n = strlen(ret);
	(void)str_format(ret + n, OBJECT_KEY_SIZE - n, "%.*s", JOB_ID_MAX + 1, id);
}

/* As it is stored, with its indexes. Its lists are borrowed. */
static Job shown(const struct record_entry *entry)
{
	Job job = *(const Job *)entry->record.message;

	job.create_index = entry->record.create_index;
	job.modify_index = entry->record.modify_index;
	return job;
}

/* Its groups have tasks with their environment: a caller who may only submit jobs does not see them. */
static Job shown_to(struct server *server, const struct rpc_call *call, const struct record_entry *entry)
{
	Job job = shown(entry);
	struct error err;

	if (access_check(server, call, ACCESS_JOB_READ, job.namespace_, &err) != STATUS_OK) {
		job.groups = NULL;
		job.n_groups = 0;
	}
	return job;
}

static enum status find_job(struct server *server, const char *namespace, const char *id,
			    struct record_entry **ret, struct error *err)
{
	char key[OBJECT_KEY_SIZE];

	job_key(namespace, id, key);
	*ret = records_entry(&server->state.records, key);
	if (*ret)
		return STATUS_OK;
	return error_set(err, STATUS_NOT_FOUND, 0,
			 "there is no job %.64s in namespace %.64s; holdfast job status%s%.64s lists them",
			 id, namespace_or_default(namespace), NAMESPACE_OPTION(namespace));
}

/* --- what becomes of a change --- */

struct waiting {
	struct rpc_call *call;
	bool is_same; /* nothing was changed */
	uint64_t reverted_to;
	char key[OBJECT_KEY_SIZE];
};

static struct waiting *waiting_new(struct rpc_call *call, const char *key)
{
	struct waiting *waiting = calloc(1, sizeof(*waiting));

	if (waiting) {
		waiting->call = call;
		(void)str_copy(waiting->key, sizeof(waiting->key), key);
	}
	return waiting;
}

static const struct record_entry *find_or_fail(struct server *server, const struct waiting *waiting)
{
	const struct record_entry *entry = records_entry(&server->state.records, waiting->key);

	if (!entry)
		answer_error(waiting->call, STATUS_ABORTED, "the job was purged meanwhile");
	return entry;
}

static void on_run_durable(struct server *server, void *userdata)
{
	Holdfast__V1__RunJobResponse response = HOLDFAST__V1__RUN_JOB_RESPONSE__INIT;
	cleanup_free struct waiting *waiting = userdata;
	const struct record_entry *entry = find_or_fail(server, waiting);
	Job job;

	if (!entry)
		return;
	job = shown_to(server, waiting->call, entry);
	response.job = &job;
	response.unchanged = waiting->is_same;
	response.reverted_to = waiting->reverted_to;
	rpc_call_reply(waiting->call, &response.base);
}

static void on_stop_durable(struct server *server, void *userdata)
{
	Holdfast__V1__StopJobResponse response = HOLDFAST__V1__STOP_JOB_RESPONSE__INIT;
	cleanup_free struct waiting *waiting = userdata;
	const struct record_entry *entry = find_or_fail(server, waiting);
	Job job;

	if (!entry)
		return;
	job = shown_to(server, waiting->call, entry);
	response.job = &job;
	rpc_call_reply(waiting->call, &response.base);
}

/* --- run --- */

static enum status may_run_group(struct server *server, const struct rpc_call *call, const char *namespace,
				 const Holdfast__V1__JobGroup *group, struct error *err)
{
	TRY(allocs_may_run(server, call, namespace, group->allocation, err));
	return allocs_may_want_fence(server, call, namespace, group->on_node_loss, err);
}

static enum status may_run(struct server *server, const struct rpc_call *call, const Job *job,
			   struct error *err)
{
	enum status status = STATUS_OK;

	for (size_t i = 0; status == STATUS_OK && job && i < job->n_groups && i < JOB_GROUPS_MAX; i++)
		status = may_run_group(server, call, job->namespace_, job->groups[i], err);
	return status;
}

/* Walks the jobs, which this bounds. The last places are not for a namespace that has many: no tenant takes
 * them all. @known: the job before; NULL: it is new. */
static enum status check_room(struct server *server, const Job *job, const Job *known, struct error *err)
{
	struct record_entry *entry = records_from(&server->state.records, PREFIX_JOB);
	uint64_t n_members = job_members(job), n_others = 0;
	size_t n = 0, n_own = 0;

	if (known && !known->stop && n_members <= job_members(known))
		return STATUS_OK;
	for (; entry && str_starts_with(entry->key, PREFIX_JOB); entry = records_next(entry)) {
		const Job *other = (const Job *)entry->record.message;
		bool is_own = str_eq(other->namespace_, job->namespace_);

		n++;
		n_own += is_own;
		n_others += is_own && other != known && !other->stop ? job_members(other) : 0;
	}
	if (n_others + n_members > JOB_MEMBERS_PER_NAMESPACE_MAX)
		return error_set(
			err, STATUS_RESOURCE_EXHAUSTED, 0,
			"job %s asks for %" PRIu64 " members, the other jobs of namespace %s for %" PRIu64
			", and all may ask for %d; lower a count with holdfast job scale, or stop a job",
			job->id, n_members, job->namespace_, n_others, JOB_MEMBERS_PER_NAMESPACE_MAX);
	if (known || (n < JOBS_MAX && (n < JOBS_MAX - JOBS_KEPT_FREE || n_own < JOBS_KEPT_FREE)))
		return STATUS_OK;
	return error_set(
		err, STATUS_RESOURCE_EXHAUSTED, 0,
		"there are %zu jobs already, %zu of them in namespace %s, and at most %d; the last %d "
		"places are for namespaces with fewer than that; purge some that are stopped",
		n, n_own, job->namespace_, JOBS_MAX, JOBS_KEPT_FREE);
}

/* Returns a version above those of kept allocations, so that they do not count as this version. A node can
 * invent versions. */
static uint64_t next_version(struct server *server, const Job *job, const struct record_entry *known)
{
	const struct job_entry *entry = state_job(&server->state, job->namespace_, job->id);
	uint64_t version = known ? ((const Job *)known->record.message)->version : 0;
	const struct alloc_entry *at;

	if (!known && entry)
		LIST_FOREACH (at, &entry->allocs, of_job)
			if (!at->alloc.adopted && at->alloc.job_version > version)
				version = at->alloc.job_version;
	return version + 1;
}

/* A version in the making. Texts and allocations are borrowed. */
struct draft {
	Job job;
	Group groups[JOB_GROUPS_MAX], *list[JOB_GROUPS_MAX];
	char key[OBJECT_KEY_SIZE];
	struct record_entry *known; /* the job as it is; NULL: it is new */
	bool is_same;		    /* it is the current version already */
	uint64_t reverted_to;
};

static const Group *find_group(const Job *job, const char *name)
{
	for (size_t i = 0; i < job->n_groups; i++)
		if (str_eq(job->groups[i]->name, name))
			return job->groups[i];
	return NULL;
}

/* Copies the groups of @from, which the caller may change then. */
static void copy_groups(struct draft *draft, const Job *from)
{
	for (size_t i = 0; i < from->n_groups; i++) {
		draft->groups[i] = *from->groups[i];
		draft->list[i] = &draft->groups[i];
	}
	draft->job.groups = draft->list;
}

/* The restart of a group lasts through the versions that follow. */
static void carry_restarts(struct draft *draft, const Job *known)
{
	for (size_t i = 0; i < draft->job.n_groups; i++) {
		const Group *before = known ? find_group(known, draft->groups[i].name) : NULL;

		draft->groups[i].restart_version = before ? before->restart_version : 0;
	}
}

/* Completes a copy of the submitted job, and compares it with the stored one. */
static enum status prepare(struct server *server, const Job *asked, struct draft *ret, struct error *err)
{
	Job *job = &ret->job;
	const Job *known;

	TRY(job_validate(asked, err));
	TRY(job_check_limits(&server->state, asked, err));
	*job = *asked;
	copy_groups(ret, asked);
	job->namespace_ = (char *)(uintptr_t)namespace_or_default(asked->namespace_);
	job_key(job->namespace_, job->id, ret->key);
	ret->known = records_entry(&server->state.records, ret->key);
	known = ret->known ? (const Job *)ret->known->record.message : NULL;
	carry_restarts(ret, known);
	job->version = next_version(server, job, ret->known);
	job->stop = false;
	job->update_status = HOLDFAST__V1__JOB_UPDATE_STATUS__JOB_UPDATE_STATUS_RUNNING;
	job->submit_time_ms = clock_realtime_ms();
	job->create_index = job->modify_index = 0;
	job->restart_version = job->version;
	ret->is_same = false;
	TRY(check_room(server, job, known, err));
	if (!known)
		return STATUS_OK;
	if (!known->stop)
		job->restart_version = known->restart_version;
	if (known->type != job->type)
		return error_invalid(err, "job.type",
				     "job %s is of type %s; stop and purge it, or take another id", job->id,
				     job_type_name((enum job_type)known->type));
	ret->is_same = !known->stop &&
		       known->update_status != HOLDFAST__V1__JOB_UPDATE_STATUS__JOB_UPDATE_STATUS_FAILED &&
		       job_same_submission(known, job);
	return STATUS_OK;
}

static enum status check_index(const Holdfast__V1__RunJobRequest *request, const struct record_entry *known,
			       struct error *err)
{
	uint64_t index = known ? known->record.modify_index : 0;
	bool is_pending = known && index == 0; /* it has just been changed, which is not durable */

	if (!request->check_index || (request->job->modify_index == index && !is_pending))
		return STATUS_OK;
	return error_set(err, STATUS_ABORTED, 0,
			 "job %s has changed: its modify index is %" PRIu64 ", not %" PRIu64 "; plan again",
			 request->job->id, index, request->job->modify_index);
}

static void stage_version(struct change *change, const Job *job)
{
	char key[OBJECT_KEY_SIZE];

	job_version_stage(change, job);
	if (job->version <= JOB_VERSIONS_KEPT)
		return;
	job_version_key(job, job->version - JOB_VERSIONS_KEPT, key);
	change_delete_record(change, key);
}

/* @why is for the record, or NULL. */
static enum status submit(struct server *server, struct rpc_call *call, const struct draft *draft,
			  const char *what, const char *why, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct waiting *waiting;
	char object[AUDIT_OBJECT_SIZE], text[AUDIT_WHY_SIZE];

	if (!draft->is_same) {
		TRY(namespaces_check_room(&server->state.namespaces, draft->job.namespace_, !draft->known,
					  err));
		change_put_record(&change, draft->key, &draft->job.base);
		stage_version(&change, &draft->job);
		(void)str_format(object, sizeof(object), "job %s/%s", draft->job.namespace_, draft->job.id);
		(void)str_format(text, sizeof(text), "version %" PRIu64 "%s%s", draft->job.version,
				 why ? ": " : "", why ? why : "");
		audit_write(server, &change, call, what, object, text);
	}
	waiting = waiting_new(call, draft->key);
	if (waiting) {
		waiting->is_same = draft->is_same;
		waiting->reverted_to = draft->reverted_to;
	}
	return change_commit_taking(server, &change, on_run_durable, waiting, err);
}

static enum status handle_run(struct server *server, struct rpc_call *call,
			      const Holdfast__V1__RunJobRequest *request, struct error *err)
{
	struct draft draft = {.is_same = false};

	TRY(may_run(server, call, request->job, err));
	TRY(prepare(server, request->job, &draft, err));
	TRY(check_index(request, draft.known, err));
	return submit(server, call, &draft, WHAT_RUN, NULL, err);
}

DEFINE_WRITE_METHOD(jobs_handle_run, Holdfast__V1__RunJobRequest, WHAT_RUN, handle_run)

/* --- changes of a job that exists --- */

/* A caller without the right to run anything in the namespace learns nothing of the job. */
static enum status find_to_run(struct server *server, struct rpc_call *call, const char *namespace,
			       const char *id, struct record_entry **ret, struct error *err)
{
	TRY(allocs_may_run(server, call, namespace, NULL, err));
	TRY(find_job(server, namespace, id, ret, err));
	return may_run(server, call, (const Job *)(*ret)->record.message, err);
}

static enum status check_runs(const Job *job, struct error *err)
{
	if (!job->stop)
		return STATUS_OK;
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "job %s is stopped; holdfast job run, or holdfast job revert %s%s%s %" PRIu64
			 ", starts it again",
			 job->id, job->id, NAMESPACE_OPTION(job->namespace_), job->version);
}

/* "app, db" */
static const char *group_names(const Job *job, char *ret, size_t size)
{
	size_t n = 0;

	ret[0] = '\0';
	for (size_t i = 0; i < job->n_groups && n < size; i++)
		n += (size_t)snprintf(ret + n, size - n, "%s%s", i > 0 ? ", " : "", job->groups[i]->name);
	return ret;
}

enum { GROUP_NAMES_SIZE = 512 };

static enum status check_group(const Job *job, const char *name, struct error *err)
{
	char names[GROUP_NAMES_SIZE];

	if (find_group(job, name))
		return STATUS_OK;
	return error_set(err, STATUS_NOT_FOUND, 0, "job %s has no group %.64s; its groups: %s", job->id, name,
			 group_names(job, names, sizeof(names)));
}

static void job_freep(Job **job)
{
	holdfast__v1__job__free_unpacked(*job, NULL);
}

static Job *unpack_version(const ProtobufCMessage *stored)
{
	return (Job *)message_convert(&holdfast__v1__job__descriptor, stored);
}

/* Version @version of the job, or its last one before the current that was healthy. */
static const Holdfast__V1__StoredJob *find_version(struct server *server, const Job *job, uint64_t version)
{
	for (uint64_t i = 0; i < JOB_VERSIONS_KEPT && i < job->version; i++) {
		char key[OBJECT_KEY_SIZE];
		const Holdfast__V1__StoredJob *kept;

		job_version_key(job, job->version - i, key);
		kept = records_get(&server->state.records, key);
		if (kept &&
		    (version > 0 ? kept->version == version
				 : i > 0 && kept->update_status ==
						    HOLDFAST__V1__JOB_UPDATE_STATUS__JOB_UPDATE_STATUS_DONE))
			return kept;
	}
	return NULL;
}

static enum status no_version(const Job *job, uint64_t version, struct error *err)
{
	if (version > 0)
		return error_set(
			err, STATUS_NOT_FOUND, 0,
			"version %" PRIu64 " of job %s is not kept; holdfast job history %s%s%s lists "
			"the last %d",
			version, job->id, job->id, NAMESPACE_OPTION(job->namespace_), JOB_VERSIONS_KEPT);
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "no earlier version of job %s that was healthy is kept; name one of holdfast job "
			 "history %s%s%s",
			 job->id, job->id, NAMESPACE_OPTION(job->namespace_));
}

static enum status handle_revert(struct server *server, struct rpc_call *call,
				 const Holdfast__V1__RevertJobRequest *request, struct error *err)
{
	struct draft draft = {.is_same = false};
	cleanup(job_freep) Job *kept = NULL;
	const Holdfast__V1__StoredJob *stored;
	struct record_entry *entry;
	const Job *job;
	char why[AUDIT_WHY_SIZE];

	TRY(find_to_run(server, call, request->namespace_, request->id, &entry, err));
	job = (const Job *)entry->record.message;
	stored = find_version(server, job, request->version);
	if (!stored)
		return no_version(job, request->version, err);
	kept = unpack_version(&stored->base);
	if (!kept)
		return error_no_memory(err, "a version");
	TRY(may_run(server, call, kept, err));
	TRY(prepare(server, kept, &draft, err));
	draft.reverted_to = kept->version;
	(void)str_format(why, sizeof(why), "version %" PRIu64 " again", kept->version);
	return submit(server, call, &draft, WHAT_REVERT, why, err);
}

DEFINE_WRITE_METHOD(jobs_handle_revert, Holdfast__V1__RevertJobRequest, WHAT_REVERT, handle_revert)

static enum status handle_scale(struct server *server, struct rpc_call *call,
				const Holdfast__V1__ScaleJobRequest *request, struct error *err)
{
	struct draft draft = {.is_same = false}, scaled = {.is_same = false};
	struct record_entry *entry;
	const Job *job;
	const char *group = request->group;
	char why[AUDIT_WHY_SIZE], names[GROUP_NAMES_SIZE];

	TRY(find_to_run(server, call, request->namespace_, request->id, &entry, err));
	job = (const Job *)entry->record.message;
	TRY(check_runs(job, err));
	if (group[0] == '\0' && job->n_groups > 1)
		return error_invalid(err, "group", "job %s has several: %s", job->id,
				     group_names(job, names, sizeof(names)));
	if (group[0] == '\0')
		group = job->groups[0]->name;
	TRY(check_group(job, group, err));
	if ((enum job_type)job->type == JOB_SYSTEM)
		return error_invalid(err, "count", "job %s of type system has a member on each node",
				     job->id);
	scaled.job = *job;
	copy_groups(&scaled, job);
	for (size_t i = 0; i < job->n_groups; i++)
		if (str_eq(scaled.groups[i].name, group))
			scaled.groups[i].count = request->count;
	TRY(prepare(server, &scaled.job, &draft, err));
	(void)str_format(why, sizeof(why), "group %s has count %" PRIu32, group, request->count);
	return submit(server, call, &draft, WHAT_SCALE, why, err);
}

DEFINE_WRITE_METHOD(jobs_handle_scale, Holdfast__V1__ScaleJobRequest, WHAT_SCALE, handle_scale)

/* Within the limits of update: to the reconciler the members run something else. */
static enum status handle_restart(struct server *server, struct rpc_call *call,
				  const Holdfast__V1__RestartJobRequest *request, struct error *err)
{
	struct draft draft = {.is_same = false};
	struct record_entry *entry;
	const Job *job;
	char why[AUDIT_WHY_SIZE];

	TRY(find_to_run(server, call, request->namespace_, request->id, &entry, err));
	job = (const Job *)entry->record.message;
	TRY(check_runs(job, err));
	if (request->group[0] != '\0')
		TRY(check_group(job, request->group, err));
	TRY(prepare(server, job, &draft, err));
	for (size_t i = 0; i < draft.job.n_groups; i++)
		if (request->group[0] == '\0' || str_eq(draft.groups[i].name, request->group))
			draft.groups[i].restart_version = draft.job.version;
	draft.is_same = false;
	(void)str_format(why, sizeof(why), "restart of %s",
			 request->group[0] != '\0' ? request->group : "all groups");
	return submit(server, call, &draft, WHAT_RESTART, why, err);
}

DEFINE_WRITE_METHOD(jobs_handle_restart, Holdfast__V1__RestartJobRequest, WHAT_RESTART, handle_restart)

/* --- stop --- */

/* Versions that are not there are not missed. */
static void stage_purge(struct server *server, struct change *change, const Job *job, const char *key)
{
	char version[OBJECT_KEY_SIZE];

	change_delete_record(change, key);
	for (uint64_t i = 0; i <= JOB_VERSIONS_KEPT && i < job->version; i++) {
		job_version_key(job, job->version - i, version);
		if (records_get(&server->state.records, version))
			change_delete_record(change, version);
	}
}

/* A new version may have no allocation yet. A batch job ends by itself. */
static enum status check_ended(struct server *server, const Job *job, struct error *err)
{
	const struct job_entry *entry = state_job(&server->state, job->namespace_, job->id);
	const struct alloc_entry *at;

	if (!job->stop && (job->type != HOLDFAST__V1__JOB_TYPE__JOB_TYPE_BATCH ||
			   job->update_status == HOLDFAST__V1__JOB_UPDATE_STATUS__JOB_UPDATE_STATUS_RUNNING))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "job %s is not purged: version %" PRIu64
				 " was not stopped, or was submitted again. Next: holdfast job stop %s%s%s",
				 job->id, job->version, job->id, NAMESPACE_OPTION(job->namespace_));
	TRY(epoch_check_purge(server, job->id, err));
	if (!entry)
		return STATUS_OK;
	/* work that a node may have invented holds up no purge once its order to stop is stored */
	LIST_FOREACH (at, &entry->allocs, of_job)
		if (!alloc_is_client_terminal(&at->alloc) &&
		    (job_has_member(job, at) || at->alloc.desired_status != DESIRED_STOP))
			return error_set(err, STATUS_FAILED_PRECONDITION, 0,
					 "job %s is not purged before its work has ended: allocation %s%s%s "
					 "has not. Next: holdfast alloc stop %s, and wait until it has",
					 job->id, at->id, at->alloc.node_id[0] != '\0' ? " on node " : "",
					 at->alloc.node_id, at->id);
	return STATUS_OK;
}

static enum status purge(struct server *server, struct rpc_call *call, const struct record_entry *entry,
			 struct change *change, struct error *err)
{
	Holdfast__V1__StopJobResponse response = HOLDFAST__V1__STOP_JOB_RESPONSE__INIT;
	Job job = shown_to(server, call, entry);

	TRY(check_ended(server, &job, err));
	response.job = &job;
	stage_purge(server, change, &job, entry->key);
	return answer_changed(server, change, call, message_copy(&response.base), err);
}

static enum status handle_stop(struct server *server, struct rpc_call *call,
			       const Holdfast__V1__StopJobRequest *request, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	char object[AUDIT_OBJECT_SIZE];
	struct record_entry *entry;
	Job job;

	TRY(find_job(server, request->namespace_, request->id, &entry, err));
	job = *(const Job *)entry->record.message;
	(void)str_format(object, sizeof(object), "job %s/%s", job.namespace_, job.id);
	if (request->purge) {
		audit_write(server, &change, call, WHAT_STOP, object, "purged");
		return purge(server, call, entry, &change, err);
	}
	if (!job.stop) {
		job.stop = true;
		change_put_record(&change, entry->key, &job.base);
		audit_write(server, &change, call, WHAT_STOP, object, NULL);
	}
	return change_commit_taking(server, &change, on_stop_durable, waiting_new(call, entry->key), err);
}

DEFINE_WRITE_METHOD(jobs_handle_stop, Holdfast__V1__StopJobRequest, WHAT_STOP, handle_stop)

/* --- members, for people --- */

/* Messages in one list, which owns them. */
struct members {
	Member **list; /* owned, with its elements */
	size_t n;
	size_t cost; /* of their texts, see pending_text_cost() */
};

static bool add_member(struct members *members, const Member *from, const char *group, const char *text)
{
	Member member = *from;

	member.group = (char *)(uintptr_t)group;
	member.text = (char *)(uintptr_t)text;
	members->list[members->n] = (Member *)message_copy(&member.base);
	return members->list[members->n++] != NULL;
}

static const char *group_name(const struct job_spec *spec, uint32_t group)
{
	return group < spec->n_groups ? spec->groups[group].name : "";
}

/* Writes the evidence that is missing until the holder has released the volume; empty: it is not a claim. */
static void missing_text(struct server *server, const char *namespace, const struct job_wait *wait,
			 char ret[static EXPLAIN_SIZE])
{
	struct volume_entry *volume = wait->what == JOB_WAIT_VOLUME
					      ? state_volume(&server->state, namespace, wait->volume_id)
					      : NULL;
	const struct claim_entry *entry;

	ret[0] = '\0';
	if (!volume || !wait->alloc_id)
		return;
	STORAGE_FOREACH_CLAIM (entry, volume)
		if (claim_is_live(&entry->claim) && str_eq(entry->claim.allocation_id, wait->alloc_id) &&
		    str_eq(entry->claim.node_id, wait->node_id)) {
			struct holder holder = claim_holder(server, &entry->claim);

			(void)explain_claim(&entry->claim, &holder, clock_realtime_ms(), ret);
			return;
		}
}

/* Why the allocation of the member failed, waits or is not healthy yet, or why there was no place for it. */
static void failure_text(struct server *server, const struct job_wait *wait, size_t *cost,
			 char ret[static EXPLAIN_SIZE])
{
	const struct alloc_entry *entry = wait->alloc_id ? state_alloc(&server->state, wait->alloc_id) : NULL;

	if (wait->what == JOB_WAIT_PLACE)
		(void)snprintf(ret, EXPLAIN_SIZE, "%s", wait->reason);
	if (entry && wait->what == JOB_WAIT_QUEUE && *cost <= PENDING_COST_MAX) {
		*cost += pending_text_cost(server);
		(void)pending_text(server, &entry->alloc, ret);
	}
	if (entry && (wait->what == JOB_WAIT_DELAY || wait->what == JOB_WAIT_ATTEMPTS ||
		      wait->what == JOB_WAIT_HEALTH))
		(void)snprintf(ret, EXPLAIN_SIZE, "%s", alloc_description(&entry->alloc));
}

/* For add_member(), which copies it; the texts may be NULL. */
static Member member_of(uint32_t index, const char *node_id, const char *alloc_id)
{
	Member member = HOLDFAST__V1__JOB_MEMBER__INIT;

	member.index = index;
	if (node_id)
		member.node_id = (char *)(uintptr_t)node_id;
	if (alloc_id)
		member.allocation_id = (char *)(uintptr_t)alloc_id;
	return member;
}

static bool add_wait(struct server *server, const char *namespace, struct members *members,
		     const struct job_spec *spec, const struct job_wait *wait)
{
	Member member = member_of(wait->index, wait->node_id, wait->alloc_id);
	char text[JOB_WAIT_TEXT_SIZE], missing[EXPLAIN_SIZE], whole[JOB_WAIT_TEXT_SIZE + EXPLAIN_SIZE];

	missing_text(server, namespace, wait, missing);
	failure_text(server, wait, &members->cost, missing);
	(void)snprintf(whole, sizeof(whole), "%s%s%s", job_wait_text(wait, namespace, text),
		       missing[0] != '\0' ? ": " : "", missing);
	return add_member(members, &member, group_name(spec, wait->group), whole);
}

static const char *action_text(const struct job_action *action)
{
	switch (action->type) {
	case JOB_PLACE:
		return "will be placed";
	case JOB_STOP:
		return job_stop_reason_text(action->reason);
	case JOB_DROP_PLACE:
		return "its place in the queue of its volume ends";
	case JOB_END_UPDATE:
		return "the update ends: all members are healthy";
	case JOB_FAIL_UPDATE:
		break;
	}
	return "the update fails: the allocation is not healthy in time";
}

static bool add_action(struct members *members, const struct job_spec *spec, const struct job_action *action,
		       const char *text)
{
	Member member = member_of(action->index, action->node_id, action->alloc_id);

	return add_member(members, &member, group_name(spec, action->group), text);
}

static bool members_init(struct members *members, size_t n)
{
	members->list = calloc(n + 1, sizeof(Member *));
	return members->list != NULL;
}

static bool add_waits(struct server *server, const char *namespace, struct members *members,
		      const struct job_spec *spec, const struct job_decisions *decisions)
{
	for (size_t i = 0; i < decisions->n_waits; i++)
		if (!add_wait(server, namespace, members, spec, &decisions->waits[i]))
			return false;
	return true;
}

typedef Holdfast__V1__JobGroupStatus GroupStatus;

/* One for each group, for a response that owns them. */
static bool add_groups(const struct job_spec *spec, const struct job_decisions *decisions, GroupStatus ***ret,
		       size_t *ret_n)
{
	*ret = calloc(spec->n_groups + 1, sizeof(GroupStatus *));
	for (size_t i = 0; *ret && i < spec->n_groups; i++) {
		const struct job_counts *counts = &decisions->groups[i];
		GroupStatus status = HOLDFAST__V1__JOB_GROUP_STATUS__INIT;

		status.name = (char *)(uintptr_t)spec->groups[i].name;
		status.desired = counts->desired;
		status.placed = counts->placed;
		status.healthy = counts->healthy;
		status.current = counts->current;
		status.done = counts->done;
		status.waiting = counts->waiting;
		status.missing = counts->missing;
		status.replaced = counts->replaced;
		status.in_place = counts->in_place;
		status.surplus = counts->surplus;
		(*ret)[i] = (GroupStatus *)message_copy(&status.base);
		if (!(*ret)[i])
			return false;
		(*ret_n)++;
	}
	return *ret != NULL;
}

/* --- plan --- */

static void plan_freep(struct job_plan **plan)
{
	if (*plan)
		job_plan_release(*plan);
	free(*plan);
}

/* Adds the actions, with the node of each that would be placed. */
static bool add_actions(struct members *members, const struct job_plan *plan)
{
	size_t n_placed = 0;
	bool is_whole = members_init(members, plan->decisions->n_actions);

	for (size_t i = 0; is_whole && i < plan->decisions->n_actions; i++) {
		struct job_action action = plan->decisions->actions[i];

		if (action.type == JOB_PLACE)
			action.node_id = plan->placed[n_placed++].node_id;
		is_whole = add_action(members, &plan->view.spec, &action, action_text(&action));
	}
	return is_whole;
}

/* Owned by the caller; NULL when memory is short. */
static Holdfast__V1__PlanJobResponse *make_plan_response(struct server *server, const Job *job)
{
	Holdfast__V1__PlanJobResponse *response = calloc(1, sizeof(*response));
	cleanup(plan_freep) struct job_plan *plan = calloc(1, sizeof(*plan));
	struct members actions = {.n = 0}, waits = {.n = 0};
	bool is_whole = response && plan && job_plan_make(server, job, plan) && add_actions(&actions, plan) &&
			members_init(&waits, plan->decisions->n_waits) &&
			add_waits(server, job->namespace_, &waits, &plan->view.spec, plan->decisions);

	if (!response)
		return NULL;
	holdfast__v1__plan_job_response__init(response);
	response->actions = actions.list;
	response->n_actions = actions.n;
	response->waits = waits.list;
	response->n_waits = waits.n;
	is_whole = is_whole &&
		   add_groups(&plan->view.spec, plan->decisions, &response->groups, &response->n_groups);
	if (!is_whole) {
		holdfast__v1__plan_job_response__free_unpacked(response, NULL);
		return NULL;
	}
	response->is_cut = plan->decisions->is_cut;
	response->surplus = plan->decisions->surplus;
	return response;
}

static enum status handle_plan(struct server *server, struct rpc_call *call, const ProtobufCMessage *message,
			       struct error *err)
{
	const Holdfast__V1__PlanJobRequest *request = (const void *)message;
	Holdfast__V1__PlanJobResponse *response;
	struct draft draft = {.is_same = false};
	Job job;

	TRY(may_run(server, call, request->job, err));
	TRY(prepare(server, request->job, &draft, err));
	job = draft.is_same ? shown(draft.known) : draft.job;
	response = make_plan_response(server, &job);
	if (!response)
		return error_no_memory(err, "a plan");
	response->modify_index = draft.known ? draft.known->record.modify_index : 0;
	response->unchanged = draft.is_same;
	response->version = job.version;
	answer_durable(server, call, &response->base);
	return STATUS_OK;
}

static const struct read_method plan_method = {.handle = handle_plan, .is_long = true};
DEFINE_READ_METHOD(jobs_handle_plan, plan_method)

/* --- get --- */

enum { PLACED_TEXT_SIZE = 80 + ALLOC_HEALTH_TEXT_SIZE };

/* Adds the waits. If the store blocks changes, members that must be placed wait as well. */
static bool add_members(struct server *server, Holdfast__V1__GetJobResponse *response, const Job *job,
			const struct job_spec *spec, const struct job_decisions *decisions)
{
	const char *trouble = job_work_trouble(server, job->namespace_, job->id);
	struct members waits = {.n = 0};
	bool is_whole = members_init(&waits, decisions->n_actions + decisions->n_waits) &&
			add_waits(server, job->namespace_, &waits, spec, decisions);

	for (size_t i = 0; is_whole && i < decisions->n_actions; i++) {
		const struct job_action *action = &decisions->actions[i];

		if (action->type == JOB_PLACE)
			is_whole = add_action(&waits, spec, action,
					      trouble[0] != '\0' ? trouble : action_text(action));
	}
	response->waits = waits.list;
	response->n_waits = waits.n;
	return is_whole;
}

static bool add_placed_one(struct members *members, const Job *job, const struct alloc *alloc)
{
	bool is_in_place = alloc->job_version < job->version && job_is_current(job, alloc);
	Member member = member_of(alloc->job_index, alloc->node_id, alloc->id);
	char text[PLACED_TEXT_SIZE], health[ALLOC_HEALTH_TEXT_SIZE];
	bool is_sick = alloc->client_status == CLIENT_RUNNING && alloc_health_text(alloc, health)[0] != '\0';

	(void)str_format(text, sizeof(text), "%s%s, %s version %" PRIu64 "%s%s",
			 client_status_name(alloc->client_status),
			 alloc->desired_status == DESIRED_RUN ? "" : " and to stop",
			 is_in_place ? "updated in place from" : "of", alloc->job_version,
			 is_sick ? ": " : "", is_sick ? health : "");
	return add_member(members, &member, alloc->job_group, text);
}

/* The newest first. */
static bool add_placed(struct server *server, Holdfast__V1__GetJobResponse *response, const Job *job)
{
	const struct job_entry *entry = state_job(&server->state, job->namespace_, job->id);
	const struct alloc_entry *at;
	struct members placed = {.n = 0};
	bool is_whole = members_init(&placed, JOB_WAITS_MAX);

	if (is_whole && entry)
		LIST_FOREACH (at, &entry->allocs, of_job)
			if (is_whole && placed.n < JOB_WAITS_MAX && !alloc_is_client_terminal(&at->alloc) &&
			    !alloc_is_pending(&at->alloc))
				is_whole = add_placed_one(&placed, job, &at->alloc);
	response->placed = placed.list;
	response->n_placed = placed.n;
	return is_whole;
}

/* Does each member that is not healthy wait for something outside of the job? A failed allocation is placed
 * again, so it does not. */
static bool is_stuck(const Job *job, const struct job_decisions *decisions)
{
	const uint32_t by_itself = JOB_WAITS_FOR(STOP) | JOB_WAITS_FOR(HEALTH) | JOB_WAITS_FOR(DELAY);
	const uint32_t until_others_are_healthy = JOB_WAITS_FOR(TURN);

	if (decisions->n_actions > 0 ||
	    job->update_status != HOLDFAST__V1__JOB_UPDATE_STATUS__JOB_UPDATE_STATUS_RUNNING)
		return false;
	return (decisions->waits_for & by_itself) == 0 &&
	       (decisions->waits_for & ~until_others_are_healthy) != 0;
}

/* Returns the index of the last change of the job or of one of its allocations. */
static uint64_t index_of(struct server *server, const struct record_entry *entry)
{
	const Job *job = (const Job *)entry->record.message;
	const struct job_entry *allocs = state_job(&server->state, job->namespace_, job->id);
	uint64_t index = allocs ? allocs->modify_index : server->jobs_end_index;

	return watch_object_index(server,
				  index > entry->record.modify_index ? index : entry->record.modify_index);
}

static Holdfast__V1__GetJobResponse *make_get_response(struct server *server,
						       const struct record_entry *entry)
{
	Holdfast__V1__GetJobResponse *response = calloc(1, sizeof(*response));
	cleanup_free struct job_view *view = calloc(1, sizeof(*view));
	cleanup_free struct job_decisions *decisions = NULL;
	Job job = shown(entry);

	if (!response || !view) {
		free(response);
		return NULL;
	}
	holdfast__v1__get_job_response__init(response);
	decisions = job_decide(server, &job, job_work_refusals(server, job.namespace_, job.id), false, view);
	response->job = (Job *)message_copy(&job.base);
	response->state = decisions ? strdup(job_state_name(decisions->state)) : NULL;
	response->index = index_of(server, entry);
	response->is_stuck = decisions && is_stuck(&job, decisions);
	if (response->job && response->state &&
	    add_groups(&view->spec, decisions, &response->groups, &response->n_groups) &&
	    add_members(server, response, &job, &view->spec, decisions) && add_placed(server, response, &job))
		return response;
	holdfast__v1__get_job_response__free_unpacked(response, NULL);
	return NULL;
}

static enum status handle_get(struct server *server, struct rpc_call *call, const ProtobufCMessage *message,
			      struct error *err)
{
	const Holdfast__V1__GetJobRequest *request = (const void *)message;
	struct record_entry *entry;

	TRY(find_job(server, request->namespace_, request->id, &entry, err));
	answer_durable(server, call, (ProtobufCMessage *)make_get_response(server, entry));
	return STATUS_OK;
}

static void get_name(const ProtobufCMessage *message, char ret[static OBJECT_KEY_SIZE])
{
	const Holdfast__V1__GetJobRequest *request = (const void *)message;

	job_key(request->namespace_, request->id, ret);
}

static uint64_t get_index(struct server *server, const ProtobufCMessage *message)
{
	char key[OBJECT_KEY_SIZE];
	const struct record_entry *entry;

	get_name(message, key);
	entry = records_entry(&server->state.records, key);
	return entry ? index_of(server, entry) : UINT64_MAX;
}

static const struct read_method get_method = {.handle = handle_get, .name = get_name, .index = get_index};
DEFINE_READ_METHOD(jobs_handle_get, get_method)

/* --- lists --- */

struct job_list {
	struct access_scope scope; /* of a list of every namespace */
	struct access_scope read;
	bool may_read; /* somewhere: the scope above is good */
	const char *prefix;
	Job short_job;
};

/* Jobs of a namespace whose jobs the caller may not list. */
static bool is_hidden(const struct record_entry *entry, void *userdata)
{
	struct job_list *list = userdata;

	return !access_scope_has(&list->scope, ((const Job *)entry->record.message)->namespace_);
}

/* The groups of a job, with the environment of tasks, are for callers who may read it. */
static const ProtobufCMessage *listed(const struct record_entry *entry, void *userdata)
{
	struct job_list *list = userdata;
	const Job *job = (const Job *)entry->record.message;

	if (!str_starts_with(job->id, list->prefix))
		return NULL;
	if (list->may_read && access_scope_has(&list->read, job->namespace_))
		return &job->base;
	list->short_job = *job;
	list->short_job.groups = NULL;
	list->short_job.n_groups = 0;
	return &list->short_job.base;
}

static enum status handle_list(struct server *server, struct rpc_call *call, const ProtobufCMessage *message,
			       struct error *err)
{
	const Holdfast__V1__ListJobsRequest *request = (const void *)message;
	struct job_list jobs = {.prefix = request->prefix};
	char table[OBJECT_KEY_SIZE];
	struct record_list list = {.prefix = PREFIX_JOB,
				   .response = &holdfast__v1__list_jobs_response__descriptor,
				   .message = listed,
				   .userdata = &jobs};

	jobs.may_read = access_scope_init(server, call, ACCESS_JOB_READ, &jobs.read, NULL) == STATUS_OK;
	if (str_eq(request->namespace_, "*")) {
		TRY(access_scope_init(server, call, ACCESS_JOB_LIST, &jobs.scope, err));
		list.is_hidden = is_hidden;
		list.takes_prefix = true;
	} else {
		table_key(request->namespace_, table);
		list.table = table;
	}
	return record_list_answer(server, call, message, &list, err);
}

/* A list shows no allocations: it waits for changes of jobs. */
static void list_name(const ProtobufCMessage *message, char ret[static OBJECT_KEY_SIZE])
{
	(void)str_copy(ret, OBJECT_KEY_SIZE, PREFIX_JOB);
}

static const struct read_method list_method = {.handle = handle_list, .name = list_name};
DEFINE_READ_METHOD(jobs_handle_list, list_method)

static enum status handle_history(struct server *server, struct rpc_call *call,
				  const ProtobufCMessage *message, struct error *err)
{
	const Holdfast__V1__JobHistoryRequest *request = (const void *)message;
	Holdfast__V1__JobHistoryResponse response = HOLDFAST__V1__JOB_HISTORY_RESPONSE__INIT;
	Job *list[JOB_VERSIONS_KEPT];
	struct record_entry *known;
	const Job *job;

	TRY(find_job(server, request->namespace_, request->id, &known, err));
	job = (const Job *)known->record.message;
	for (uint64_t i = 0; i < JOB_VERSIONS_KEPT && i < job->version; i++) {
		const struct record_entry *entry;
		char key[OBJECT_KEY_SIZE];
		Job *version;

		job_version_key(job, job->version - i, key);
		entry = i == 0 ? known : records_entry(&server->state.records, key);
		if (!entry || (request->version > 0 && request->version != job->version - i))
			continue;
		version = unpack_version(entry->record.message);
		if (!version)
			continue; /* when memory is short it is left out */
		version->create_index = entry->record.create_index;
		version->modify_index = entry->record.modify_index;
		list[response.n_versions++] = version;
	}
	if (request->version > 0 && response.n_versions == 0)
		return no_version(job, request->version, err);
	response.versions = list;
	answer_durable(server, call, message_copy(&response.base));
	for (size_t i = 0; i < response.n_versions; i++)
		holdfast__v1__job__free_unpacked(list[i], NULL);
	return STATUS_OK;
}

static const struct read_method history_method = {.handle = handle_history};
DEFINE_READ_METHOD(jobs_handle_history, history_method)

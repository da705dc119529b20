/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/str.h"
#include "call/call.h"
#include "call/spec.h"
#include "command/commands.h"
#include "conf/conf.h"
#include "show/output.h"

#include <holdfast/v1/jobs.pb-c.h>
#include <inttypes.h>
#include <string.h>

enum { NUMBER_SIZE = 24, MEMBER_SIZE = 160 };

static enum status load_job(struct invocation *inv, Holdfast__V1__Job **ret, struct error *err)
{
	cleanup_message Holdfast__V1__Job *job = NULL;
	struct conf *conf = NULL;
	enum status status = conf_load_whole(inv->args[0], CONF_REFERENCES, &conf, err);

	if (status == STATUS_OK)
		status = spec_job(conf, &job, err);
	conf_free(conf);
	if (status == STATUS_OK)
		status = option_apply(inv, OPT_NAMESPACE, &job->namespace_, err);
	if (status == STATUS_OK)
		*ret = TAKE_PTR(job);
	return status;
}

static const char *number(uint64_t n, char text[static NUMBER_SIZE])
{
	(void)str_format(text, NUMBER_SIZE, "%" PRIu64, n);
	return text;
}

static const char *type_of(const Holdfast__V1__Job *job)
{
	static const char *const names[] = {"unspecified", "service", "system", "batch"};

	return (unsigned int)job->type < ARRAY_SIZE(names) ? names[job->type] : "unknown";
}

static const char *update_of(const Holdfast__V1__Job *job)
{
	static const char *const names[] = {"in progress", "done", "failed"};

	if (job->stop && job->update_status == HOLDFAST__V1__JOB_UPDATE_STATUS__JOB_UPDATE_STATUS_RUNNING)
		return "stopped";
	return (unsigned int)job->update_status < ARRAY_SIZE(names) ? names[job->update_status] : "unknown";
}

static enum status show_members(Holdfast__V1__JobMember *const *members, size_t n, const char *title,
				const char *text, struct error *err)
{
	const struct column columns[] = {{.name = "MEMBER"},
					 {.name = "NODE"},
					 {.name = "ALLOCATION"},
					 {.name = text, .is_wide = true}};
	cleanup(table_freep) struct table *table = NULL;

	if (n == 0)
		return STATUS_OK;
	table = table_new(columns, ARRAY_SIZE(columns));
	table_show_whole(table, true);
	for (size_t i = 0; i < n; i++) {
		char member[MEMBER_SIZE];

		(void)str_format(member, sizeof(member), "%.100s[%" PRIu32 "]", members[i]->group,
				 members[i]->index);
		table_add(table, (const char *const[]){member, members[i]->node_id, members[i]->allocation_id,
						       members[i]->text});
	}
	return table_print(table, title, err);
}

static enum status show_groups(const Holdfast__V1__GetJobResponse *answer, struct error *err)
{
	static const struct column columns[] = {
		{.name = "GROUP"},
		{.name = "DESIRED", .is_number = true},
		{.name = "PLACED", .is_number = true},
		{.name = "HEALTHY", .is_number = true},
		{.name = "CURRENT", .is_number = true},
		{.name = "DONE", .is_number = true},
		{.name = "WAITING", .is_number = true},
	};
	cleanup(table_freep) struct table *table = table_new(columns, ARRAY_SIZE(columns));

	for (size_t i = 0; i < answer->n_groups; i++) {
		const Holdfast__V1__JobGroupStatus *g = answer->groups[i];
		char texts[6][NUMBER_SIZE];

		table_add(table, (const char *const[]){
					 g->name, number(g->desired, texts[0]), number(g->placed, texts[1]),
					 number(g->healthy, texts[2]), number(g->current, texts[3]),
					 number(g->done, texts[4]), number(g->waiting, texts[5])});
	}
	return table_print(table, "groups", err);
}

/* @is_history: versions of one job, the newest first */
static enum status show_jobs(Holdfast__V1__Job *const *jobs, size_t n, bool is_history, struct error *err)
{
	static const struct column columns[] = {
		{.name = "ID"},
		{.name = "NAMESPACE"},
		{.name = "TYPE"},
		{.name = "VERSION", .is_number = true},
		{.name = "UPDATE", .is_state = true},
		{.name = "STOPPED"},
		{.name = "SUBMITTED"},
	};
	cleanup(table_freep) struct table *table = NULL;

	if (n == 0) {
		print_line("no jobs");
		return STATUS_OK;
	}
	table = table_new(columns, ARRAY_SIZE(columns));
	for (size_t i = 0; i < n; i++) {
		char version[NUMBER_SIZE], age[AGE_SIZE];
		bool is_replaced =
			is_history && i > 0 &&
			jobs[i]->update_status == HOLDFAST__V1__JOB_UPDATE_STATUS__JOB_UPDATE_STATUS_RUNNING;

		table_add(table,
			  (const char *const[]){jobs[i]->id, jobs[i]->namespace_, type_of(jobs[i]),
						number(jobs[i]->version, version),
						is_replaced ? "replaced" : update_of(jobs[i]),
						jobs[i]->stop ? "yes" : "no",
						age_text(jobs[i]->submit_time_ms, clock_realtime_ms(), age)});
	}
	return table_print(table, NULL, err);
}

static enum status job_run_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__RunJobRequest *request = message;

	return load_job(call->inv, &request->job, err);
}

static enum status job_run_refused(struct call *call, enum status status, struct error *err)
{
	return spec_blame(call->inv, spec_blame_job, status, err);
}

static enum status job_run_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__RunJobResponse *answer = message;

	if (!answer->job)
		return error_set(err, STATUS_INTERNAL, 0, "the server's answer holds no job");
	print_line("job %s is accepted as version %" PRIu64
		   "; holdfast job status %s shows what becomes of it",
		   answer->job->id, answer->job->version, answer->job->id);
	return STATUS_OK;
}

static enum status job_plan_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__PlanJobRequest *request = message;

	return load_job(call->inv, &request->job, err);
}

/* What becomes of all members until the update is done, and not only at once. */
static enum status show_plan_groups(const Holdfast__V1__PlanJobResponse *answer, struct error *err)
{
	static const struct column columns[] = {
		{.name = "GROUP"},
		{.name = "PLACE", .is_number = true},
		{.name = "REPLACE", .is_number = true},
		{.name = "IN PLACE", .is_number = true},
		{.name = "STOP", .is_number = true},
	};
	cleanup(table_freep) struct table *table = table_new(columns, ARRAY_SIZE(columns));

	for (size_t i = 0; i < answer->n_groups; i++) {
		const Holdfast__V1__JobGroupStatus *g = answer->groups[i];
		char texts[4][NUMBER_SIZE];

		table_add(table, (const char *const[]){
					 g->name, number(g->missing, texts[0]), number(g->replaced, texts[1]),
					 number(g->in_place, texts[2]), number(g->surplus, texts[3])});
	}
	if (answer->surplus > 0)
		print_line("%" PRIu32 " allocation%s of groups that this version lacks will be stopped",
			   answer->surplus, str_s(answer->surplus));
	return table_print(table, "groups", err);
}

static enum status job_plan_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__PlanJobResponse *answer = message;
	enum status status = show_plan_groups(answer, err);

	if (status == STATUS_OK)
		status = show_members(answer->actions, answer->n_actions, "at once", "WHY", err);
	if (status == STATUS_OK)
		status = show_members(answer->waits, answer->n_waits, "waits", "WHY", err);
	if (answer->n_actions + answer->n_waits == 0)
		print_line("nothing would change");
	if (answer->is_cut)
		print_line("and more after these");
	return status;
}

static enum status job_get_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__GetJobRequest *request = message;

	call_set(call, &request->id, call->inv->args[0]);
	call_set(call, &request->namespace_, call->inv->options[OPT_NAMESPACE]);
	return STATUS_OK;
}

static enum status job_get_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__GetJobResponse *answer = message;
	char version[NUMBER_SIZE];

	if (!answer->job)
		return error_set(err, STATUS_INTERNAL, 0, "the server's answer holds no job");
	print_field("ID", answer->job->id);
	print_field("namespace", answer->job->namespace_);
	print_field("type", type_of(answer->job));
	print_field("state", answer->state);
	print_field("version", number(answer->job->version, version));
	print_field("update", update_of(answer->job));
	TRY(show_groups(answer, err));
	TRY(show_members(answer->placed, answer->n_placed, "allocations", "STATE", err));
	return show_members(answer->waits, answer->n_waits, "waits", "WHY", err);
}

static enum status job_list_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__ListJobsRequest *request = message;

	call_set(call, &request->namespace_, call->inv->options[OPT_NAMESPACE]);
	return STATUS_OK;
}

static enum status job_list_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__ListJobsResponse *answer = message;

	return show_jobs(answer->jobs, answer->n_jobs, false, err);
}

static enum status job_stop_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__StopJobRequest *request = message;

	call_set(call, &request->id, call->inv->args[0]);
	call_set(call, &request->namespace_, call->inv->options[OPT_NAMESPACE]);
	request->purge = call_has(call, OPT_PURGE);
	return STATUS_OK;
}

static enum status job_stop_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__StopJobRequest *request = call->request;

	print_line("job %s %s", request->id, request->purge ? "is forgotten" : "is being stopped");
	return STATUS_OK;
}

static enum status job_history_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__JobHistoryRequest *request = message;

	call_set(call, &request->id, call->inv->args[0]);
	call_set(call, &request->namespace_, call->inv->options[OPT_NAMESPACE]);
	return STATUS_OK;
}

static enum status job_history_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__JobHistoryResponse *answer = message;

	return show_jobs(answer->versions, answer->n_versions, true, err);
}

#define JOBS &holdfast__v1__jobs__descriptor

static const struct command commands[] = {
	{.path = "job run",
	 .args = "FILE|-",
	 .help = "Submit a job, or another version of it",
	 .example = "web.hcl",
	 .min_args = 1,
	 .max_args = 1,
	 .arg_kinds = {WORD_FILE},
	 .call = {.service = JOBS,
		  .method = "Run",
		  .load = job_run_load,
		  .show = job_run_show,
		  .refused = job_run_refused}},
	{.path = "job plan",
	 .args = "FILE|-",
	 .help = "Say what a submission would do, and change nothing",
	 .example = "web.hcl",
	 .min_args = 1,
	 .max_args = 1,
	 .arg_kinds = {WORD_FILE},
	 .call = {.service = JOBS,
		  .method = "Plan",
		  .load = job_plan_load,
		  .show = job_plan_show,
		  .refused = job_run_refused}},
	{.path = "job status",
	 .args = "[ID]",
	 .help = "List jobs, or show one and what its members wait for",
	 .example = "web",
	 .options = OPTION_BIT(OPT_LIMIT),
	 .max_args = 1,
	 .arg_kinds = {WORD_JOB},
	 .call = {.service = JOBS, .method = "Get", .load = job_get_load, .show = job_get_show},
	 .list = {.service = JOBS,
		  .method = "List",
		  .load = job_list_load,
		  .show = job_list_show,
		  .pages = PAGES_LIST}},
	{.path = "job stop",
	 .args = "ID",
	 .help = "Stop all allocations of a job",
	 .example = "web",
	 .options = OPTION_BIT(OPT_PURGE),
	 .min_args = 1,
	 .max_args = 1,
	 .arg_kinds = {WORD_JOB},
	 .call = {.service = JOBS, .method = "Stop", .load = job_stop_load, .show = job_stop_show}},
	{.path = "job history",
	 .args = "ID",
	 .help = "List the last versions of a job",
	 .example = "web",
	 .min_args = 1,
	 .max_args = 1,
	 .arg_kinds = {WORD_JOB},
	 .call = {.service = JOBS, .method = "History", .load = job_history_load, .show = job_history_show}},
};

const struct command_table job_commands = {commands, ARRAY_SIZE(commands)};

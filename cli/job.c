/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/str.h"
#include "call/call.h"
#include "call/pages.h"
#include "call/spec.h"
#include "command/commands.h"
#include "command/values.h"
#include "conf/conf.h"
#include "show/rows.h"

#include <holdfast/v1/jobs.pb-c.h>
#include <inttypes.h>
#include <string.h>

enum { QUESTION_MAX = 512 };

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

#define JOB_UPDATE "{update_status?{update_status}|{stop?stopped|in progress}}"
#define JOB_COLUMNS(update)                                                                                \
	COL("ID", "{id}"), COL("NAMESPACE", "{namespace}"), COL("TYPE", "{type}"),                         \
		COL_NUMBER("VERSION", "{version}"), COL_STATE("UPDATE", update), COL("STOPPED", "{stop}"), \
		COL("SUBMITTED", "{submit_time_ms:age}")

static DEFINE_ROWS(job_table, holdfast__v1__job, "no jobs", JOB_COLUMNS(JOB_UPDATE));

/* Versions of one job, the newest first. */
static DEFINE_ROWS(history_table, holdfast__v1__job, "no jobs",
		   JOB_COLUMNS("{#?{update_status?{update_status}|replaced}|" JOB_UPDATE "}"));

#define MEMBER_COLUMNS(text)                                                                               \
	COL("MEMBER", "{group}[{index}]"), COL("NODE", "{node_id}"), COL("ALLOCATION", "{allocation_id}"), \
		COL(text, "{text}")

static DEFINE_ROWS(placed_table, holdfast__v1__job_member, NULL, MEMBER_COLUMNS("STATE"));
static DEFINE_ROWS(wait_table, holdfast__v1__job_member, NULL, MEMBER_COLUMNS("WHY"));

static DEFINE_ROWS(group_table, holdfast__v1__job_group_status, NULL, COL("GROUP", "{name}"),
		   COL_NUMBER("DESIRED", "{desired}"), COL_NUMBER("PLACED", "{placed}"),
		   COL_NUMBER("HEALTHY", "{healthy}"), COL_NUMBER("CURRENT", "{current}"),
		   COL_NUMBER("DONE", "{done}"), COL_NUMBER("WAITING", "{waiting}"));

static DEFINE_ROWS_OF(job_page, holdfast__v1__job, &holdfast__v1__get_job_response__descriptor, NULL,
		      COL("ID", "{id}"), COL("namespace", "{namespace}"), COL("type", "{type}"),
		      COL("state", "{^state}"), COL("version", "{version}"), COL("update", JOB_UPDATE));

static DEFINE_ROWS(job_answer_page, holdfast__v1__get_job_response, NULL, NEED("job", "job", &job_page),
		   TABLE("groups", "groups", &group_table), TABLE("allocations", "placed", &placed_table),
		   TABLE("waits", "waits", &wait_table));

/* What becomes of all members until the update is done, and not only at once. */
static DEFINE_ROWS(plan_group_table, holdfast__v1__job_group_status, NULL, COL("GROUP", "{name}"),
		   COL_NUMBER("PLACE", "{missing}"), COL_NUMBER("REPLACE", "{replaced}"),
		   COL_NUMBER("IN PLACE", "{in_place}"), COL_NUMBER("STOP", "{surplus}"));

static DEFINE_ROWS(plan_page, holdfast__v1__plan_job_response, NULL,
		   LINE("{surplus?y}", "{surplus} allocation{surplus:s} of groups that this version lacks "
				       "will be stopped"),
		   TABLE("groups", "groups", &plan_group_table), TABLE("at once", "actions", &wait_table),
		   TABLE("waits", "waits", &wait_table),
		   LINE("{actions?|{waits?|y}}", "nothing would change"),
		   LINE("{is_cut?y}", "and more after these"));

static enum status job_run_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__RunJobRequest *request = message;

	return load_job(call->inv, &request->job, err);
}

static enum status job_run_refused(struct call *call, enum status status, struct error *err)
{
	return spec_blame(call->inv, spec_blame_job, status, err);
}

static DEFINE_ROWS(accepted_page, holdfast__v1__job, NULL,
		   LINE(NULL,
			"job {id} is accepted as version {version}; holdfast job status {id} shows what "
			"becomes of it"));

static DEFINE_ROWS(run_page, holdfast__v1__run_job_response, NULL, NEED("job", "job", &accepted_page));

static enum status job_plan_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__PlanJobRequest *request = message;

	return load_job(call->inv, &request->job, err);
}

static DEFINE_ROWS_OF(stop_page, holdfast__v1__stop_job_response, &holdfast__v1__stop_job_request__descriptor,
		      NULL, LINE(NULL, "job {^id} {^purge?is forgotten|is being stopped}"));

#define JOB_FIELDS                         \
	{"id", ARG(0), FIELD_JOB},         \
	{                                  \
		"namespace", OPT_NAMESPACE \
	}

/* Asks the person, if the id was completed. */
static enum status job_confirm(struct call *call, void *message, struct error *err)
{
	const ProtobufCMessage *request = message;
	const char *id = message_text(request, "id");
	cleanup_strbuf struct strbuf question = STRBUF_INIT(QUESTION_MAX);

	if (str_eq(call->inv->args[0], id))
		return STATUS_OK;
	strbuf_printf(&question, "'%s' is the beginning of job %s: is that the job?", call->inv->args[0], id);
	return value_confirm(call->inv, question.data ? question.data : "", err);
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
		  .rows = &run_page,
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
		  .rows = &plan_page,
		  .refused = job_run_refused}},
	{.path = "job status",
	 .args = "[ID]",
	 .help = "List jobs, or show one and what its members wait for",
	 .example = "web",
	 .options = LISTING,
	 .max_args = 1,
	 .arg_kinds = {WORD_JOB},
	 .call = {.service = JOBS, .method = "Get", .fields = {JOB_FIELDS}, .rows = &job_answer_page},
	 .list = {.service = JOBS,
		  .method = "List",
		  .fields = {{"namespace", OPT_NAMESPACE}, {"filter", OPT_FILTER}},
		  .rows = &job_table,
		  .pages = PAGES_LIST}},
	{.path = "job stop",
	 .args = "ID",
	 .help = "Stop all allocations of a job",
	 .example = "web",
	 .options = OPTION_BIT(OPT_PURGE) | OPTION_BIT(OPT_YES),
	 .min_args = 1,
	 .max_args = 1,
	 .arg_kinds = {WORD_JOB},
	 .call = {.service = JOBS,
		  .method = "Stop",
		  .fields = {JOB_FIELDS, {"purge", OPT_PURGE}},
		  .fill = job_confirm,
		  .rows = &stop_page}},
	{.path = "job history",
	 .args = "ID",
	 .help = "List the last versions of a job",
	 .example = "web",
	 .min_args = 1,
	 .max_args = 1,
	 .arg_kinds = {WORD_JOB},
	 .call = {.service = JOBS, .method = "History", .fields = {JOB_FIELDS}, .rows = &history_table}},
};

const struct command_table job_commands = {commands, ARRAY_SIZE(commands)};

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/parse.h"
#include "base/str.h"
#include "call/call.h"
#include "call/pages.h"
#include "call/spec.h"
#include "command/commands.h"
#include "command/values.h"
#include "conf/conf.h"
#include "model/volume.h"
#include "show/progress.h"
#include "show/rows.h"

#include <assert.h>
#include <holdfast/v1/jobs.pb-c.h>
#include <inttypes.h>
#include <string.h>

enum {
	QUESTION_MAX = 512,
	EXIT_STUCK = 3,
	ROUND_MAX_MS = 30000, /* of one blocking query; a job that is stuck for one is stuck */
	REASONS_MAX = 3,      /* in an error */
	REASONS_SIZE = 2048,
};

#define STUCK_DEFAULT_US (UINT64_C(600) * USEC_PER_SEC)

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

/* Prints the block of each group that has one. */
static DEFINE_ROWS(group_loss_page, holdfast__v1__job_group, NULL,
		   COL_WHEN("{on_node_loss?y}", "on node loss",
			    "group {name}: {on_node_loss.do}{on_node_loss.after_ms? after "
			    "{on_node_loss.after_ms:duration}}"));

static DEFINE_ROWS_OF(job_page, holdfast__v1__job, &holdfast__v1__get_job_response__descriptor, NULL,
		      COL("ID", "{id}"), COL("namespace", "{namespace}"), COL("type", "{type}"),
		      COL("state", "{^state}"), COL("version", "{version}"), COL("update", JOB_UPDATE),
		      PART("groups", &group_loss_page));

static DEFINE_ROWS(job_answer_page, holdfast__v1__get_job_response, NULL, NEED("job", "job", &job_page),
		   TABLE("groups", "groups", &group_table), TABLE("allocations", "placed", &placed_table),
		   TABLE("waits", "waits", &wait_table));

/* All members until the update is done, not only those at once. */
static DEFINE_ROWS(plan_group_table, holdfast__v1__job_group_status, NULL, COL("GROUP", "{name}"),
		   COL_NUMBER("PLACE", "{missing}"), COL_NUMBER("REPLACE", "{replaced}"),
		   COL_NUMBER("IN PLACE", "{in_place}"), COL_NUMBER("STOP", "{surplus}"));

static DEFINE_ROWS(plan_page, holdfast__v1__plan_job_response, NULL,
		   LINE("{unchanged?y}", "nothing changed: this is version {version}"),
		   LINE("{surplus?y}", "{surplus} allocation{surplus:s} of groups that this version lacks "
				       "will be stopped"),
		   TABLE("groups", "groups", &plan_group_table), TABLE("at once", "actions", &wait_table),
		   TABLE("waits", "waits", &wait_table),
		   LINE("{unchanged?|{actions?|{waits?|y}}}", "no allocation would change"),
		   LINE("{is_cut?y}", "and more after these"));

static enum status check_timeout(struct call *call, void *message, struct error *err)
{
	uint64_t timeout_us;

	return value_timeout(call->inv, 0, &timeout_us, err);
}

static enum status job_run_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__RunJobRequest *request = message;

	TRY(check_timeout(call, message, err));
	return load_job(call->inv, &request->job, err);
}

static enum status job_run_refused(struct call *call, enum status status, struct error *err)
{
	return spec_blame(call->inv, spec_blame_job, status, err);
}

/* --- progress of an update --- */

typedef Holdfast__V1__GetJobResponse Progress;
typedef Holdfast__V1__JobMember Member;

static bool is_in(const Member *member, Member *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(list[i]->group, member->group) && list[i]->index == member->index &&
		    str_eq(list[i]->node_id, member->node_id) &&
		    str_eq(list[i]->allocation_id, member->allocation_id) &&
		    str_eq(list[i]->text, member->text))
			return true;
	return false;
}

static bool waits(const Member *member, const Progress *now)
{
	for (size_t i = 0; i < now->n_waits; i++)
		if (member->allocation_id[0] != '\0' &&
		    str_eq(now->waits[i]->allocation_id, member->allocation_id))
			return true;
	return false;
}

/* Prints a line for each member that @before, or NULL, does not show so. A reason to wait replaces the state
 * of the allocation. */
static void print_members(const Progress *now, const Progress *before)
{
	progress_end();
	for (size_t i = 0; i < now->n_placed; i++)
		if (!waits(now->placed[i], now) && !(before && !waits(now->placed[i], before) &&
						     is_in(now->placed[i], before->placed, before->n_placed)))
			print_line("%s[%" PRIu32 "] on node %s: %s", now->placed[i]->group,
				   now->placed[i]->index, now->placed[i]->node_id, now->placed[i]->text);
	for (size_t i = 0; i < now->n_waits; i++)
		if (!before || !is_in(now->waits[i], before->waits, before->n_waits))
			print_line("%s[%" PRIu32 "]: %s", now->waits[i]->group, now->waits[i]->index,
				   now->waits[i]->text);
	(void)fflush(stdout);
}

static uint32_t n_current(const Progress *now)
{
	uint32_t n = 0;

	for (size_t i = 0; i < now->n_groups; i++)
		n += now->groups[i]->current + now->groups[i]->done;
	return n;
}

static uint32_t n_desired(const Progress *now)
{
	uint32_t n = 0;

	for (size_t i = 0; i < now->n_groups; i++)
		n += now->groups[i]->desired;
	return n;
}

/* Reads the job when its index is above @index. */
static enum status read_progress(struct call *call, const Holdfast__V1__Job *job, uint64_t index,
				 uint32_t wait_ms, Progress **ret, struct error *err)
{
	Holdfast__V1__GetJobRequest request = HOLDFAST__V1__GET_JOB_REQUEST__INIT;
	cleanup_message Progress *answer = NULL;
	enum status status;

	request.id = job->id;
	request.namespace_ = job->namespace_;
	request.index = index;
	request.wait_ms = wait_ms;
	status = connection_call(call->connection, &holdfast__v1__jobs__descriptor, "Get", &request.base,
				 wait_ms * USEC_PER_MSEC + CALL_TIMEOUT_US, &answer, err);
	if (status == STATUS_UNAVAILABLE) {
		const struct error lost = *err;

		return error_set(
			err, status, 0,
			"the server has version %" PRIu64
			" of job %s, but this command cannot watch it: %s. Next: holdfast job status %s%s%s",
			job->version, job->id, lost.msg, job->id, NAMESPACE_OPTION(job->namespace_));
	}
	if (status == STATUS_OK && !answer->job)
		return error_set(err, STATUS_INTERNAL, 0, "the server's answer holds no job");
	if (status == STATUS_OK)
		*ret = TAKE_PTR(answer);
	return status;
}

static enum status refuse_stuck(struct call *call, const Progress *now, struct error *err)
{
	cleanup_strbuf struct strbuf reasons = STRBUF_INIT(REASONS_SIZE);

	for (size_t i = 0; i < now->n_waits && i < REASONS_MAX; i++)
		strbuf_printf(&reasons, "\n%s[%" PRIu32 "]: %s", now->waits[i]->group, now->waits[i]->index,
			      now->waits[i]->text);
	if (now->n_waits > REASONS_MAX)
		strbuf_printf(&reasons, "\nand %zu more", now->n_waits - REASONS_MAX);
	call->inv->exit_code = EXIT_STUCK;
	if (now->job->stop)
		return error_set(
			err, STATUS_DEADLINE_EXCEEDED, 0,
			"job %s has %zu allocations that have not ended. The server continues when the "
			"cause ends. Next: holdfast job status %s%s%s%s",
			now->job->id, now->n_placed, now->job->id, NAMESPACE_OPTION(now->job->namespace_),
			reasons.data ? reasons.data : "");
	return error_set(err, STATUS_DEADLINE_EXCEEDED, 0,
			 "version %" PRIu64 " of job %s is stuck: %" PRIu32 " of %" PRIu32
			 " members are healthy in it. The server continues when the cause ends. Next: "
			 "holdfast job status %s%s%s%s",
			 now->job->version, now->job->id, n_current(now), n_desired(now), now->job->id,
			 NAMESPACE_OPTION(now->job->namespace_), reasons.data ? reasons.data : "");
}

/* @ret_over: the update has ended, or all allocations of a job that stops. */
static enum status check_progress(const Holdfast__V1__Job *job, const Progress *now, bool *ret_over,
				  struct error *err)
{
	*ret_over = true;
	if (now->job->version != job->version)
		return error_set(err, STATUS_ABORTED, 0,
				 "version %" PRIu64 " of job %s was replaced by version %" PRIu64
				 ". Next: holdfast job history %s%s%s",
				 job->version, job->id, now->job->version, job->id,
				 NAMESPACE_OPTION(job->namespace_));
	*ret_over = str_eq(now->state, "stopped");
	if (job->stop)
		return STATUS_OK;
	*ret_over = true;
	if (now->job->stop)
		return error_set(err, STATUS_ABORTED, 0,
				 "job %s was stopped. Next: holdfast job status %s%s%s", job->id, job->id,
				 NAMESPACE_OPTION(job->namespace_));
	if (now->job->update_status == HOLDFAST__V1__JOB_UPDATE_STATUS__JOB_UPDATE_STATUS_FAILED)
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"version %" PRIu64
			" of job %s failed: a member was not healthy in time. Members that it did not "
			"replace stay. Next: holdfast job status %s%s%s, holdfast job revert %s%s%s",
			job->version, job->id, job->id, NAMESPACE_OPTION(job->namespace_), job->id,
			NAMESPACE_OPTION(job->namespace_));
	*ret_over = now->job->update_status == HOLDFAST__V1__JOB_UPDATE_STATUS__JOB_UPDATE_STATUS_DONE;
	return STATUS_OK;
}

/* Reads the job until its update is over, or stuck: it waits for others for a whole query, or no further
 * member becomes healthy within the time-out. @ret the last answer, or NULL; owned by the caller. */
static bool has_advanced(const Progress *now, const Progress *before)
{
	if (!before || n_current(now) > n_current(before))
		return true;
	return now->job->stop && now->n_placed < before->n_placed;
}

/* In milliseconds. */
static uint32_t round_of(uint64_t since_us, uint64_t timeout_us)
{
	uint64_t left_ms = (since_us + timeout_us - clock_monotonic_us()) / USEC_PER_MSEC + 1;

	return left_ms < ROUND_MAX_MS ? (uint32_t)left_ms : ROUND_MAX_MS;
}

static void show_progress(const Progress *now)
{
	if (now->job->stop)
		progress_show("job %s: %zu allocations have not ended", now->job->id, now->n_placed);
	else
		progress_show("version %" PRIu64 " of job %s: %" PRIu32 " of %" PRIu32 " members are healthy",
			      now->job->version, now->job->id, n_current(now), n_desired(now));
}

static enum status follow_job(struct call *call, const Holdfast__V1__Job *job, uint64_t timeout_us,
			      Progress **ret, struct error *err)
{
	uint64_t since_us = clock_monotonic_us();
	bool is_over = false;

	for (;;) {
		Progress *before = *ret;
		uint64_t index = before ? before->index : 0;
		Progress *now = NULL;
		bool is_stuck;

		TRY(read_progress(call, job, index, before ? round_of(since_us, timeout_us) : 0, &now, err));
		assert(now);
		if (!call_has(call, OPT_JSON))
			print_members(now, before);
		if (has_advanced(now, before))
			since_us = clock_monotonic_us();
		is_stuck = before && before->is_stuck && now->is_stuck && before->index == now->index;
		message_freep(ret);
		*ret = now;
		TRY(check_progress(job, now, &is_over, err));
		if (is_over)
			return STATUS_OK;
		if (is_stuck || clock_monotonic_us() - since_us >= timeout_us)
			return refuse_stuck(call, now, err);
		show_progress(now);
	}
}

static enum status follow_and_print(struct call *call, const Holdfast__V1__Job *job, struct error *err)
{
	cleanup_message Progress *last = NULL;
	enum status status, printed = STATUS_OK;
	uint64_t timeout_us;

	TRY(value_timeout(call->inv, STUCK_DEFAULT_US, &timeout_us, err)); /* which load() has checked */
	status = follow_job(call, job, timeout_us, &last, err);
	progress_end();
	if (last && call_has(call, OPT_JSON))
		printed = print_answer(&last->base, status == STATUS_OK ? err : NULL);
	else if (last && status == STATUS_OK && job->stop)
		print_line("job %s is stopped", job->id);
	else if (last && status == STATUS_OK)
		print_line("version %" PRIu64 " of job %s is done: %" PRIu32 " of %" PRIu32
			   " members are healthy",
			   job->version, job->id, n_current(last), n_desired(last));
	return status != STATUS_OK ? status : printed;
}

static bool is_detached(const struct call *call)
{
	return call_has(call, OPT_DETACH) || call_has(call, OPT_NO_WAIT);
}

/* Shows what becomes of @job, unless --detach was given. */
static enum status show_update(struct call *call, const Holdfast__V1__Job *job, bool unchanged,
			       const void *answer, struct error *err)
{
	if (!job)
		return error_set(err, STATUS_INTERNAL, 0, "the server's answer holds no job");
	if (call_has(call, OPT_JSON) && is_detached(call))
		return print_answer(answer, err);
	if (!call_has(call, OPT_JSON) && unchanged)
		print_line("nothing changed: job %s stays at version %" PRIu64, job->id, job->version);
	else if (!call_has(call, OPT_JSON))
		print_line("job %s is accepted as version %" PRIu64, job->id, job->version);
	if (is_detached(call) ||
	    (unchanged && !call_has(call, OPT_JSON) &&
	     job->update_status == HOLDFAST__V1__JOB_UPDATE_STATUS__JOB_UPDATE_STATUS_DONE))
		return STATUS_OK;
	return follow_and_print(call, job, err);
}

#define FOLLOWING (OPTION_BIT(OPT_DETACH) | WAITING)

static enum status job_run_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__RunJobResponse *answer = message;

	return show_update(call, answer->job, answer->unchanged, answer, err);
}

static enum status job_plan_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__PlanJobRequest *request = message;

	return load_job(call->inv, &request->job, err);
}

/* --- other versions of a job that exists --- */

/* Reads the number @i of the arguments, if it was given. */
static enum status read_number(struct call *call, int i, const char *what, uint64_t min, uint64_t max,
			       uint64_t *ret, struct error *err)
{
	const char *text = i < call->inv->n_args ? call->inv->args[i] : NULL;

	if (text && parse_u64(text, min, max, ret) < 0)
		return usage_error(call->inv, err, "%s is a number from %" PRIu64 " to %" PRIu64 ", not '%s'",
				   what, min, max, text);
	return STATUS_OK;
}

static enum status job_revert_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__RevertJobRequest *request = message;

	TRY(check_timeout(call, message, err));
	return read_number(call, 1, "VERSION", 1, UINT64_MAX, &request->version, err);
}

static enum status job_history_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__JobHistoryRequest *request = message;

	return read_number(call, 1, "VERSION", 1, UINT64_MAX, &request->version, err);
}

/* ID [GROUP] COUNT */
static enum status job_scale_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__ScaleJobRequest *request = message;
	uint64_t count = 0;

	TRY(check_timeout(call, message, err));
	TRY(read_number(call, call->inv->n_args - 1, "COUNT", 0, UINT32_MAX, &count, err));
	request->count = (uint32_t)count;
	if (call->inv->n_args == 3)
		call_set(call, &request->group, call->inv->args[1]);
	return STATUS_OK;
}

static enum status job_revert_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__RunJobResponse *answer = message;

	if (!call_has(call, OPT_JSON) && answer->job && !answer->unchanged)
		print_line("job %s is reverted to version %" PRIu64, answer->job->id, answer->reverted_to);
	return job_run_show(call, message, err);
}

static DEFINE_ROWS_OF(stop_page, holdfast__v1__stop_job_response, &holdfast__v1__stop_job_request__descriptor,
		      NULL, LINE(NULL, "job {^id} is being stopped"));

#define JOB_FIELDS                         \
	{"id", ARG(0), FIELD_JOB},         \
	{                                  \
		"namespace", OPT_NAMESPACE \
	}

/* The job has ended: the same request once more, to forget it. */
static enum status purge_job(struct call *call, struct error *err)
{
	cleanup_message Holdfast__V1__StopJobResponse *answer = NULL;
	Holdfast__V1__StopJobRequest *request = call->request;

	request->purge = true;
	TRY(call_method(call, &answer, err));
	if (!call_has(call, OPT_JSON))
		print_line("job %s is forgotten", request->id);
	return STATUS_OK;
}

static enum status job_stop_load(struct call *call, void *message, struct error *err)
{
	if (call_has(call, OPT_PURGE) && is_detached(call))
		return usage_error(call->inv, err,
				   "--purge waits until all of the job has ended: leave out --detach");
	return check_timeout(call, message, err);
}

static enum status job_stop_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__StopJobRequest *request = call->request;
	const Holdfast__V1__StopJobResponse *answer = message;
	bool is_over = is_detached(call);

	if (!answer->job)
		return error_set(err, STATUS_INTERNAL, 0, "the server's answer holds no job");
	if (call_has(call, OPT_JSON) && is_over)
		return print_answer(&answer->base, err);
	if (!call_has(call, OPT_JSON))
		TRY(show_page(&stop_page, answer, request, false, err));
	if (is_over)
		return STATUS_OK;
	TRY(follow_and_print(call, answer->job, err));
	return call_has(call, OPT_PURGE) ? purge_job(call, err) : STATUS_OK;
}

/* Asks the person, if the id was completed. A purge cannot be undone. */
static enum status job_confirm(struct call *call, void *message, struct error *err)
{
	const ProtobufCMessage *request = message;
	const char *id = message_text(request, "id");
	cleanup_strbuf struct strbuf question = STRBUF_INIT(QUESTION_MAX);

	if (call_has(call, OPT_PURGE))
		return value_check_whole(call->inv, "--purge", call->inv->args[0], id, err);
	if (str_eq(call->inv->args[0], id))
		return STATUS_OK;
	strbuf_printf(&question, "'%s' is the beginning of job %s: is that the job?", call->inv->args[0], id);
	return value_confirm(call->inv, question.error == 0 ? question.data : NULL, err);
}

#define JOBS &holdfast__v1__jobs__descriptor

static const struct command commands[] = {
	{.path = "job run",
	 .args = "FILE|-",
	 .help = "Submit a job, or another version of it, and follow its update",
	 .example = "web.hcl",
	 .min_args = 1,
	 .max_args = 1,
	 .options = FOLLOWING,
	 .arg_kinds = {WORD_FILE},
	 .call = {.service = JOBS,
		  .method = "Run",
		  .load = job_run_load,
		  .show = job_run_show,
		  .refused = job_run_refused,
		  .shows_json = true}},
	{.path = "job plan",
	 .args = "FILE|-",
	 .help = "Show what a submission would do, and change nothing",
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
	 .help = "Stop all allocations of a job and wait until they have ended",
	 .example = "web",
	 .options = OPTION_BIT(OPT_PURGE) | OPTION_BIT(OPT_YES) | FOLLOWING,
	 .min_args = 1,
	 .max_args = 1,
	 .arg_kinds = {WORD_JOB},
	 .call = {.service = JOBS,
		  .method = "Stop",
		  .fields = {JOB_FIELDS},
		  .load = job_stop_load,
		  .fill = job_confirm,
		  .show = job_stop_show,
		  .shows_json = true}},
	{.path = "job history",
	 .args = "ID [VERSION]",
	 .help = "List the last versions of a job, or one",
	 .example = "web",
	 .min_args = 1,
	 .max_args = 2,
	 .arg_kinds = {WORD_JOB, WORD_NONE},
	 .call = {.service = JOBS,
		  .method = "History",
		  .fields = {JOB_FIELDS},
		  .load = job_history_load,
		  .rows = &history_table}},
	{.path = "job revert",
	 .args = "ID [VERSION]",
	 .help = "Go back to a version of a job, by default the last that was healthy",
	 .example = "web",
	 .options = FOLLOWING | OPTION_BIT(OPT_YES),
	 .min_args = 1,
	 .max_args = 2,
	 .arg_kinds = {WORD_JOB, WORD_NONE},
	 .call = {.service = JOBS,
		  .method = "Revert",
		  .fields = {JOB_FIELDS},
		  .load = job_revert_load,
		  .fill = job_confirm,
		  .show = job_revert_show,
		  .shows_json = true}},
	{.path = "job scale",
	 .args = "ID [GROUP] COUNT",
	 .help = "Change how many members a group of a job has, without a restart",
	 .example = "web app 5",
	 .options = FOLLOWING | OPTION_BIT(OPT_YES),
	 .min_args = 2,
	 .max_args = 3,
	 .arg_kinds = {WORD_JOB, WORD_NONE},
	 .call = {.service = JOBS,
		  .method = "Scale",
		  .fields = {JOB_FIELDS},
		  .load = job_scale_load,
		  .fill = job_confirm,
		  .show = job_run_show,
		  .shows_json = true}},
	{.path = "job restart",
	 .args = "ID [GROUP]",
	 .help = "Replace all members of a job or of a group, within the limits of update",
	 .example = "web app",
	 .options = FOLLOWING | OPTION_BIT(OPT_YES),
	 .min_args = 1,
	 .max_args = 2,
	 .arg_kinds = {WORD_JOB, WORD_NONE},
	 .call = {.service = JOBS,
		  .method = "Restart",
		  .fields = {JOB_FIELDS, {"group", ARG(1)}},
		  .load = check_timeout,
		  .fill = job_confirm,
		  .show = job_run_show,
		  .shows_json = true}},
};

const struct command_table job_commands = {commands, ARRAY_SIZE(commands)};

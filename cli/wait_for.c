/* SPDX-License-Identifier: Apache-2.0 */
/* `holdfast NOUN wait ID --for STATE`: reads the object until it has the state. */
#include "base/cleanup.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "call/call.h"
#include "command/commands.h"
#include "command/values.h"
#include "model/volume.h"
#include "pb/reflect.h"
#include "show/progress.h"
#include "show/show.h"

#include <assert.h>
#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/jobs.pb-c.h>
#include <holdfast/v1/nodes.pb-c.h>
#include <holdfast/v1/volumes.pb-c.h>
#include <string.h>

enum {
	EXIT_TIMEOUT = 3,
	ROUND_MAX_MS = 2000, /* of one blocking query: some states change without the object's index */
	GOALS_MAX = 8,
	TEXT_SIZE = 1024,
	WORD_SIZE = 64,
};

#define WAIT_DEFAULT_US (UINT64_C(300) * USEC_PER_SEC)
#define GONE "gone"

struct goal {
	const char *word;
	const char *text;   /* of show/rows.h, about the answer; NULL: the object does not exist */
	const char *values; /* of the text that reach the goal, with blanks between */
	const char *never;  /* values from which the goal cannot be reached; NULL: it always can */
};

static const struct goal of_volume[GOALS_MAX] = {
	{"schedulable", "{volume.schedulable}", "yes", NULL},
	/* the claims of the answer have the history too */
	{"free", "{volume.readers?|{volume.writers?|{volume.held_by_others?|{volume.may_be_held?|free}}}}",
	 "free", NULL},
	{"in-use", "{volume.readers?used|{volume.writers?used}}", "used", NULL},
	{GONE, NULL, NULL, NULL},
};

static const struct goal of_node[GOALS_MAX] = {
	{"ready", "{node.status}", "ready", NULL},
	{"disconnected", "{node.status}", "disconnected down", NULL},
	{"down", "{node.status}", "down", NULL},
	{"eligible", "{node.ineligible}", "no", NULL},
	/* a node may hold what the server has forgotten; then claims may follow the end of its drain */
	{"drained", "{node.unreported?|{node.live_claims?|{node.drain.done_ms?drained}}}", "drained", NULL},
	/* the claims of the answer are those of namespaces that the caller may read */
	{"free", "{node.unreported?|{node.live_claims?held|{claims?held|free}}}", "free", NULL},
	{GONE, NULL, NULL, NULL},
};

static const struct goal of_alloc[GOALS_MAX] = {
	{"running", "{allocation.client_status}", "running", "complete failed lost"},
	{"complete", "{allocation.client_status}", "complete", "failed lost"},
	{"failed", "{allocation.client_status}", "failed", "complete lost"},
	{"ended", "{allocation.client_status}", "complete failed lost", NULL},
	{GONE, NULL, NULL, NULL},
};

static const struct goal of_job[GOALS_MAX] = {
	{"healthy", "{job.stop?stopped|{job.update_status}}", "done", "failed stopped"},
	{"running", "{state}", "running", "complete stopped"},
	{"complete", "{state}", "complete", "stopped"},
	{"stopped", "{state}", "stopped", NULL},
	{GONE, NULL, NULL, NULL},
};

#define NOT_BY_NAME                                                       \
	"{volume.held_by_others?, in use by another name of its storage|" \
	"{volume.may_be_held?, may be held by a node that has not reported|, free}}"
#define HELD ", in use by readers: {volume.readers}, writers: {volume.writers}"

static const struct kind {
	const char *name; /* in sentences */
	const ProtobufCServiceDescriptor *service;
	const struct goal *goals;
	const char *now;  /* a text of the answer: how the object is */
	const char *next; /* a text of the request: the command that shows more */
} kinds[] = {
	{"volume", &holdfast__v1__volumes__descriptor, of_volume,
	 "{volume.schedulable?schedulable|not schedulable: "
	 "{volume.unschedulable_reason}}{volume.readers?" HELD "|{volume.writers?" HELD "|" NOT_BY_NAME "}}",
	 "holdfast volume status {id} --why"},
	{"node", &holdfast__v1__nodes__descriptor, of_node,
	 "{node.status}{node.ineligible?, ineligible}{node.disconnect_reason?: "
	 "{node.disconnect_reason}}{node.live_claims?, "
	 "claims: {node.live_claims}}"
	 "{node.unreported?, and has not reported what it holds since the restore}",
	 "holdfast node status {id}"},
	{"allocation", &holdfast__v1__allocations__descriptor, of_alloc,
	 "{allocation.client_status}{allocation.client_description?: {allocation.client_description}}"
	 "{node_disconnected_ms?, and its node is not connected}",
	 "holdfast alloc status {id}"},
	{"job", &holdfast__v1__jobs__descriptor, of_job,
	 "{state}{job.stop?|, its update is {job.update_status}}{waits?, {waits.group} waits: {waits.text}}",
	 "holdfast job status {id}"},
};

static const struct kind *kind_of(const struct call *call)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (kinds[i].service == call->row->service)
			return &kinds[i];
	assert(false);
	return NULL;
}

/* "condition=Ready" and "delete" are kubectl's. */
static const struct goal *goal_of(const struct call *call)
{
	const struct goal *goals = kind_of(call)->goals;
	const char *given = call->inv->options[OPT_FOR];
	const char *word = str_starts_with(given, "condition=") ? given + strlen("condition=") : given;

	if (str_eq(word, "delete") || str_eq(word, "deleted"))
		word = GONE;
	for (size_t i = 0; i < GOALS_MAX && goals[i].word; i++)
		if (strcasecmp(word, goals[i].word) == 0)
			return &goals[i];
	return NULL;
}

static char **text_of(struct call *call, const char *name)
{
	ProtobufCMessage *request = call->request;
	const ProtobufCFieldDescriptor *field = reflect_find(request->descriptor, name);

	assert(field);
	return (void *)((char *)request + field->offset);
}

static const char *id_of(struct call *call)
{
	return *text_of(call, "id");
}

static enum status wait_load(struct call *call, void *request, struct error *err)
{
	const struct kind *kind = kind_of(call);
	char words[TEXT_SIZE] = "";
	uint64_t timeout_us;

	for (size_t i = 0; i < GOALS_MAX && kind->goals[i].word; i++) {
		size_t n = strlen(words);

		(void)str_format(words + n, sizeof(words) - n, "%s%s", i > 0 ? ", " : "",
				 kind->goals[i].word);
	}
	if (!call_has(call, OPT_FOR))
		return usage_error(call->inv, err, "give --for STATE, which is one of: %s", words);
	if (!goal_of(call))
		return usage_error(call->inv, err, "%s has no state '%s' to wait for, it is one of: %s",
				   kind->name, call->inv->options[OPT_FOR], words);
	return value_timeout(call->inv, WAIT_DEFAULT_US, &timeout_us, err);
}

static enum status report(struct call *call, const ProtobufCMessage *answer, const char *word,
			  struct error *err)
{
	if (call_has(call, OPT_JSON))
		return answer ? print_answer(answer, err) : print_json(json_object(), err);
	print_line("%s %s is %s", kind_of(call)->name, id_of(call), word);
	return STATUS_OK;
}

/* An object that no longer exists has reached its goal. */
static enum status wait_refused(struct call *call, enum status status, struct error *err)
{
	if (status != STATUS_NOT_FOUND || goal_of(call)->text)
		return status;
	return report(call, NULL, GONE, err);
}

static enum status look_up(struct call *call, const char *given, char id[static PICK_ID_SIZE],
			   char namespace[static PICK_ID_SIZE], struct error *err)
{
	const char *in = call->inv->options[OPT_NAMESPACE];
	const ProtobufCServiceDescriptor *service = call->row->service;

	if (service == &holdfast__v1__volumes__descriptor)
		return pick_volume(call->connection, given, in, id, namespace, err);
	if (service == &holdfast__v1__jobs__descriptor)
		return pick_job(call->connection, given, in, id, namespace, err);
	if (service == &holdfast__v1__nodes__descriptor)
		return pick_node(call->connection, given, id, err);
	return pick_alloc(call->connection, given, id, err);
}

static void set_namespace(struct call *call, const char *namespace)
{
	const ProtobufCMessage *request = call->request;

	if (namespace && namespace[0] != '\0' && reflect_find(request->descriptor, "namespace"))
		call_set(call, text_of(call, "namespace"), namespace);
}

/* If the object is gone, another one may begin with its id. An id that is shorter than a UUID is the
 * beginning of an allocation's in any case. */
static enum status wait_fill(struct call *call, void *request, struct error *err)
{
	char id[PICK_ID_SIZE], namespace[PICK_ID_SIZE] = "";
	const char *given = call->inv->args[0], *in = call->inv->options[OPT_NAMESPACE];
	bool is_alloc = call->row->service == &holdfast__v1__allocations__descriptor;
	bool is_for_gone = !goal_of(call)->text;
	enum status status;

	call_set(call, text_of(call, "id"), given);
	set_namespace(call, in);
	if (is_for_gone && !is_alloc && !(in && str_eq(in, "*")))
		return STATUS_OK; /* the server's answer shows whether it exists */
	status = look_up(call, given, id, namespace, err);
	set_namespace(call, namespace);
	if (status != STATUS_OK) {
		call->is_over = true;
		return wait_refused(call, status, err);
	}
	if (!is_alloc || is_for_gone)
		return value_check_whole(call->inv, "wait", given, id, err);
	call_set(call, text_of(call, "id"), id);
	return STATUS_OK;
}

/* Is @value in the list @values, which has blanks between? */
static bool is_one_of(const char *value, const char *values)
{
	size_t n = strlen(value);

	for (const char *at = values; n > 0 && at; at = strchr(at, ' ')) {
		at += at[0] == ' ';
		if (strncmp(at, value, n) == 0 && (at[n] == ' ' || at[n] == '\0'))
			return true;
	}
	return false;
}

static void put(const ProtobufCMessage *answer, const char *text, struct strbuf *sb)
{
	show_text(&(struct shown){.message = answer, .now_ms = clock_realtime_ms()}, text, sb);
}

static enum status refuse(struct call *call, const ProtobufCMessage *answer, enum status status,
			  const char *what, struct error *err)
{
	const ProtobufCMessage *request = call->request;
	bool is_in_namespace = reflect_find(request->descriptor, "namespace") != NULL;
	const char *namespace = is_in_namespace ? *text_of(call, "namespace") : "";
	const struct kind *kind = kind_of(call);
	cleanup_strbuf struct strbuf now = STRBUF_INIT(TEXT_SIZE), next = STRBUF_INIT(TEXT_SIZE);

	put(answer, kind->now, &now);
	put(call->request, kind->next, &next);
	return error_set(err, status, 0, "%s %s %s: it is %s. Next: %s%s%s", kind->name, id_of(call), what,
			 now.data ? now.data : "", next.data ? next.data : "", NAMESPACE_OPTION(namespace));
}

static uint64_t index_of(const ProtobufCMessage *answer)
{
	return reflect_number(PROTOBUF_C_TYPE_UINT64, reflect_follow(answer, "index", strlen("index")).first);
}

/* Reads the object when its index is above @index, or after @wait_ms. */
static enum status read_next(struct call *call, uint64_t index, uint32_t wait_ms, ProtobufCMessage **ret,
			     struct error *err)
{
	call->timeout_us = wait_ms * USEC_PER_MSEC + CALL_TIMEOUT_US;
	memcpy(text_of(call, "index"), &index, sizeof(index));
	memcpy(text_of(call, "wait_ms"), &wait_ms, sizeof(wait_ms));
	return call_method(call, ret, err);
}

static enum status look(struct call *call, const ProtobufCMessage *answer, bool *ret_is_reached,
			struct error *err)
{
	const struct goal *goal = goal_of(call);
	cleanup_strbuf struct strbuf value = STRBUF_INIT(TEXT_SIZE), now = STRBUF_INIT(TEXT_SIZE);
	char what[WORD_SIZE];

	if (goal->text)
		put(answer, goal->text, &value);
	*ret_is_reached = value.data && is_one_of(value.data, goal->values);
	(void)str_format(what, sizeof(what), "will not be %s", goal->word);
	if (value.data && goal->never && is_one_of(value.data, goal->never))
		return refuse(call, answer, STATUS_FAILED_PRECONDITION, what, err);
	put(answer, kind_of(call)->now, &now);
	progress_show("waiting until %s %s is %s: it is %s", kind_of(call)->name, id_of(call), goal->word,
		      now.data ? now.data : "");
	return STATUS_OK;
}

/* Reads the object until it has the state. @last the last answer after @first, or NULL; owned by the caller.
 */
static enum status follow(struct call *call, const ProtobufCMessage *first, uint64_t timeout_us,
			  ProtobufCMessage **last, struct error *err)
{
	const uint64_t deadline_us = clock_monotonic_us() + timeout_us;

	for (;;) {
		const ProtobufCMessage *answer = *last ? *last : first;
		ProtobufCMessage *next = NULL;
		bool is_reached;
		uint64_t now_us, left_ms;

		TRY(look(call, answer, &is_reached, err));
		if (is_reached)
			return STATUS_OK;
		now_us = clock_monotonic_us();
		left_ms = now_us < deadline_us ? (deadline_us - now_us) / USEC_PER_MSEC : 0;
		if (left_ms == 0) {
			char what[WORD_SIZE];

			call->inv->exit_code = EXIT_TIMEOUT;
			(void)str_format(what, sizeof(what), "is not %s in time", goal_of(call)->word);
			return refuse(call, answer, STATUS_DEADLINE_EXCEEDED, what, err);
		}
		TRY(read_next(call, index_of(answer),
			      left_ms < ROUND_MAX_MS ? (uint32_t)left_ms : ROUND_MAX_MS, &next, err));
		message_freep(last);
		*last = next;
	}
}

static enum status wait_show(struct call *call, const void *first, struct error *err)
{
	cleanup_message ProtobufCMessage *last = NULL;
	uint64_t timeout_us;
	enum status status;

	TRY(value_timeout(call->inv, WAIT_DEFAULT_US, &timeout_us, err));
	status = follow(call, first, timeout_us, &last, err);
	progress_end();
	if (status != STATUS_OK)
		return wait_refused(call, status, err);
	return report(call, last ? last : first, goal_of(call)->word, err);
}

#define WAIT_COMMAND(noun_, service_, kind_, example_, help_)                                           \
	{                                                                                               \
		.path = noun_ " wait", .args = "ID", .help = (help_), .example = (example_),            \
		.options = OPTION_BIT(OPT_FOR) | OPTION_BIT(OPT_TIMEOUT), .min_args = 1, .max_args = 1, \
		.arg_kinds = {kind_},                                                                   \
		.call = {                                                                               \
			.service = &(service_),                                                         \
			.method = "Get",                                                                \
			.load = wait_load,                                                              \
			.fill = wait_fill,                                                              \
			.show = wait_show,                                                              \
			.refused = wait_refused,                                                        \
			.shows_json = true,                                                             \
		},                                                                                      \
	}

static const struct command volume_rows[] = {
	WAIT_COMMAND("volume", holdfast__v1__volumes__descriptor, WORD_VOLUME, "db --for free",
		     "Wait until a volume is free, schedulable, in use or gone"),
};

static const struct command node_rows[] = {
	WAIT_COMMAND("node", holdfast__v1__nodes__descriptor, WORD_NODE, "worker-3 --for ready",
		     "Wait until a node is ready, down, eligible, drained, free of claims or gone"),
};

static const struct command alloc_rows[] = {
	WAIT_COMMAND("alloc", holdfast__v1__allocations__descriptor, WORD_ALLOC, "0192f3a0 --for ended",
		     "Wait until an allocation is running, complete, failed, ended or gone"),
};

static const struct command job_rows[] = {
	WAIT_COMMAND("job", holdfast__v1__jobs__descriptor, WORD_JOB, "web --for healthy",
		     "Wait until a job is healthy, running, complete, stopped or gone"),
};

const struct command_table volume_wait_commands = {volume_rows, ARRAY_SIZE(volume_rows)};
const struct command_table node_wait_commands = {node_rows, ARRAY_SIZE(node_rows)};
const struct command_table alloc_wait_commands = {alloc_rows, ARRAY_SIZE(alloc_rows)};
const struct command_table job_wait_commands = {job_rows, ARRAY_SIZE(job_rows)};

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/id.h"
#include "base/str.h"
#include "call/call.h"
#include "call/spec.h"
#include "call/wait.h"
#include "command/commands.h"
#include "command/values.h"
#include "conf/conf.h"
#include "model/alloc_id.h"
#include "model/volume.h"
#include "pb/pbjson_word.h"
#include "show/progress.h"
#include "show/show.h"

#include <assert.h>
#include <errno.h>
#include <holdfast/v1/allocations.pb-c.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RECONNECT_MS = 15000 }; /* a node that has another server to go to is back by then */

#define WAIT_DEFAULT_US (UINT64_C(300) * USEC_PER_SEC)

static enum status load_alloc(struct invocation *inv, Holdfast__V1__Allocation **ret, struct error *err)
{
	cleanup_message Holdfast__V1__Allocation *alloc = NULL;
	struct conf *conf = NULL;
	enum status status;

	if (inv->options[OPT_ID] && !id_is_uuid(inv->options[OPT_ID]))
		return usage_error(inv, err, "--id must be a UUID in lower case, not '%s'",
				   inv->options[OPT_ID]);
	status = conf_load_whole(inv->args[0], CONF_REFERENCES, &conf, err);
	if (status == STATUS_OK)
		status = spec_alloc(conf, &alloc, err);
	conf_free(conf);
	if (status == STATUS_OK)
		status = option_apply(inv, OPT_NAMESPACE, &alloc->namespace_, err);
	if (status == STATUS_OK)
		status = option_apply(inv, OPT_NODE, &alloc->node_id, err);
	if (status == STATUS_OK)
		status = option_apply(inv, OPT_ID, &alloc->id, err);
	if (status == STATUS_OK)
		*ret = TAKE_PTR(alloc);
	return status;
}

/* Complete the node's id. One that the server does not know stays: the refusal is the server's. */
static enum status complete_node(struct call *call, Holdfast__V1__Allocation *alloc, struct error *err)
{
	enum status status;

	assert(alloc);
	if (!alloc->node_id[0])
		return STATUS_OK;
	status = call_pick(call, pick_node, alloc->node_id, &alloc->node_id, err);
	return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

static bool is_pending(const Holdfast__V1__Allocation *alloc)
{
	return !alloc->node_id[0] && !alloc_is_terminal(alloc);
}

/* A submission that is waited for, to be withdrawn by ctrl-c while it is pending. */
struct withdrawal {
	struct invocation *inv;
	char *id;
};

/* Withdraws the allocation by a connection of its own: a call of the other one is in flight. */
static enum status withdraw(const struct withdrawal *withdrawal, struct error *err)
{
	Holdfast__V1__StopAllocationRequest request = HOLDFAST__V1__STOP_ALLOCATION_REQUEST__INIT;
	cleanup_message Holdfast__V1__StopAllocationResponse *answer = NULL;
	cleanup_connection struct connection *connection = NULL;

	TRY(connect_server(withdrawal->inv, &connection, err));
	request.id = withdrawal->id;
	request.pending_only = true;
	return connection_call(connection, &holdfast__v1__allocations__descriptor, "Stop", &request.base,
			       CALL_TIMEOUT_US, &answer, err);
}

static int on_signal(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	const struct withdrawal *withdrawal = userdata;
	struct error err = {.msg = ""};

	progress_end();
	if (withdraw(withdrawal, &err) == STATUS_OK)
		print_note("allocation %s is withdrawn", withdrawal->id);
	else
		print_note("allocation %s is not withdrawn: %s", withdrawal->id, err.msg);
	exit(128 + (int)info->ssi_signo);
}

/* Withdraws on signals from here to the end of the command. Without memory ctrl-c only ends the command. */
static void withdraw_on_signals(struct call *call, const Holdfast__V1__Allocation *alloc)
{
	static struct withdrawal withdrawal;
	sigset_t signals;

	withdrawal = (struct withdrawal){.inv = call->inv, .id = alloc->id};
	(void)sigemptyset(&signals);
	(void)sigaddset(&signals, SIGINT);
	(void)sigaddset(&signals, SIGTERM);
	if (sigprocmask(SIG_BLOCK, &signals, NULL) < 0)
		return;
	(void)sd_event_add_signal(connection_event(call->connection), NULL, SIGINT, on_signal, &withdrawal);
	(void)sd_event_add_signal(connection_event(call->connection), NULL, SIGTERM, on_signal, &withdrawal);
}

/* The provider may detach for long after the work has ended on its node. */
static void print_held(const Holdfast__V1__GetAllocationResponse *answer)
{
	for (size_t i = 0; i < answer->n_claims; i++)
		if (answer->claims[i]->state < HOLDFAST__V1__CLAIM_STATE__FREED)
			print_line("volume %s is not free yet: holdfast alloc run --wait 5m waits for it; "
				   "holdfast "
				   "volume status --why %s%s%s shows what it waits for",
				   answer->claims[i]->volume_id, answer->claims[i]->volume_id,
				   NAMESPACE_OPTION(answer->claims[i]->namespace_));
}

/* Wait for @goal, for @pending_ms more while it is pending, and print how it ended. */
static enum status wait_and_show(struct invocation *inv, struct connection *connection,
				 const Holdfast__V1__Allocation *known, enum wait_goal goal,
				 uint32_t pending_ms, struct error *err)
{
	cleanup_message Holdfast__V1__GetAllocationResponse *answer = NULL;
	uint64_t timeout_us;
	enum status status = value_timeout(inv, WAIT_DEFAULT_US, &timeout_us, err);
	enum status printed = STATUS_OK;

	if (status == STATUS_OK)
		status = wait_alloc(connection, known, goal, timeout_us + pending_ms * USEC_PER_MSEC, &answer,
				    err);
	if (status == STATUS_UNAVAILABLE) {
		const struct error lost = *err;

		(void)error_set(err, status, 0,
				"the server has allocation %s, but this command cannot watch it: %s. Next: "
				"holdfast alloc status %s",
				known->id, lost.msg, known->id);
	}
	if (answer && inv->options[OPT_JSON])
		printed = print_answer(&answer->base, status == STATUS_OK ? err : NULL);
	if (status != STATUS_OK || inv->options[OPT_JSON])
		return status != STATUS_OK ? status : printed;
	assert(answer);
	TRY(show_alloc(answer, err));
	if (goal == WAIT_TERMINAL)
		print_held(answer);
	return STATUS_OK;
}

/* Why not elsewhere is in the details of a refusal, which main() prints. */
static enum status print_placement(struct invocation *inv, const Holdfast__V1__RunAllocationResponse *answer,
				   struct error *err)
{
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	print_line("it would run on node %s; nothing was changed", answer->allocation->node_id);
	return STATUS_OK;
}

/* Gives the allocation an id, so that it can be submitted again after the server was lost. */
static enum status name_alloc(Holdfast__V1__Allocation *alloc, struct error *err)
{
	char id[UUID_SIZE];
	int r = alloc->id[0] == '\0' ? alloc_id_new(alloc->namespace_, id) : 0;

	if (r < 0)
		return error_set(err, STATUS_INTERNAL, r, "cannot make an allocation id");
	if (alloc->id[0] == '\0')
		alloc->id = strdup(id);
	return alloc->id ? STATUS_OK
			 : error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot run an allocation");
}

static enum status alloc_run_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__RunAllocationRequest *request = message;
	uint64_t timeout_us;
	enum status status = value_timeout(call->inv, WAIT_DEFAULT_US, &timeout_us, err);

	if (status == STATUS_OK)
		status = value_wait(call->inv, &request->wait_ms, err);
	if (status == STATUS_OK)
		status = load_alloc(call->inv, &request->allocation, err);
	if (status == STATUS_OK && request->allocation->id[0] != '\0')
		call->subject = request->allocation->id;
	return status == STATUS_OK && !call_has(call, OPT_DRY_RUN) ? name_alloc(request->allocation, err)
								   : status;
}

/* Only an id that was given can be one of an earlier run. */
static enum status check_not_ended(const struct call *call, const Holdfast__V1__Allocation *alloc,
				   struct error *err)
{
	char word[PBJSON_WORD_SIZE];

	if (!call->subject || !alloc_is_terminal(alloc))
		return STATUS_OK;
	return error_set(
		err, STATUS_FAILED_PRECONDITION, 0,
		"allocation %s ran before and is %s. An id runs only once, so nothing was started. Next: "
		"repeat without an id, or with a new one",
		alloc->id,
		pbjson_word_text(&holdfast__v1__client_status__descriptor, (int)alloc->client_status, word));
}

static enum status alloc_run_fill(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__RunAllocationRequest *request = message;

	return complete_node(call, request->allocation, err);
}

static enum status alloc_run_refused(struct call *call, enum status status, struct error *err)
{
	return spec_blame(call->inv, spec_blame_alloc, status, err);
}

static enum status alloc_run_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__RunAllocationRequest *request = call->request;
	const Holdfast__V1__RunAllocationResponse *answer = message;

	if (!answer->allocation)
		return error_set(err, STATUS_INTERNAL, 0, "the server's answer holds no allocation");
	if (request->dry_run)
		return print_placement(call->inv, answer, err);
	TRY(check_not_ended(call, answer->allocation, err));
	if (!call_has(call, OPT_NO_WAIT)) {
		if (is_pending(answer->allocation)) {
			if (!isatty(STDERR_FILENO)) /* else progress is shown */
				(void)fprintf(stderr, "allocation %.36s is pending\n",
					      answer->allocation->id);
			withdraw_on_signals(call, answer->allocation);
		}
		return wait_and_show(call->inv, call->connection, answer->allocation, WAIT_RUNNING,
				     request->wait_ms, err);
	}
	if (call_has(call, OPT_JSON))
		return print_answer(&answer->base, err);
	print_line("allocation %s is accepted", answer->allocation->id);
	if (is_pending(answer->allocation))
		print_line("it is pending: %s", answer->allocation->client_description);
	else if (!request->allocation->node_id[0])
		print_line("it is placed on node %s", answer->allocation->node_id);
	return STATUS_OK;
}

/* Warns that the server cannot stop work on the node now, with the next command, before it waits. */
static void warn_of_node(const Holdfast__V1__Allocation *alloc, int64_t disconnected_ms)
{
	char age[AGE_SIZE];

	print_line("node %s has not been connected for %s: allocation %s may run on there, and keeps its "
		   "volumes "
		   "until the node is back and has stopped it.",
		   alloc->node_id, age_text(disconnected_ms, clock_realtime_ms(), age), alloc->id);
	print_line(
		"Next: holdfast node status %s. If it cannot be brought back, make sure that it is off; then "
		"holdfast node attest %s VOLUME... frees them; a claim that a controller attached waits in "
		"node-detached for its detach",
		alloc->node_id, alloc->node_id);
}

static enum status alloc_stop_load(struct call *call, void *message, struct error *err)
{
	uint64_t timeout_us;

	return value_timeout(call->inv, WAIT_DEFAULT_US, &timeout_us, err);
}

static enum status alloc_stop_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__StopAllocationRequest *request = call->request;
	const Holdfast__V1__StopAllocationResponse *answer = message;
	bool has_ended;

	if (!answer->allocation)
		return error_set(err, STATUS_INTERNAL, 0, "the server's answer holds no allocation");
	has_ended = alloc_is_terminal(answer->allocation);
	/* each waiting caller is notified when it lasts */
	if (answer->node_disconnected_ms && !has_ended && !call_has(call, OPT_JSON) &&
	    (call_has(call, OPT_NO_WAIT) ||
	     clock_realtime_ms() - answer->node_disconnected_ms > RECONNECT_MS))
		warn_of_node(answer->allocation, answer->node_disconnected_ms);
	/* an allocation that had ended before counts as stopped, with any result */
	if (!call_has(call, OPT_NO_WAIT) && !has_ended)
		return wait_and_show(call->inv, call->connection, answer->allocation, WAIT_TERMINAL, 0, err);
	if (call_has(call, OPT_JSON))
		return print_answer(&answer->base, err);
	print_line("allocation %s %s", request->id, has_ended ? "has ended" : "is being stopped");
	return STATUS_OK;
}

static DEFINE_ROWS(claims_page, holdfast__v1__get_allocation_response, NULL,
		   TABLE("claims", "claims", &show_claims), PART("claims", &show_claim_errors));

/* Ended ones are kept for a day. A filter chooses itself, and JSON is for programs, which get all of them. */
static enum status alloc_list_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__ListAllocationsRequest *request = message;

	if (!call_has(call, OPT_ALL) && !call_has(call, OPT_FILTER) && !call_has(call, OPT_JSON))
		call_set(call, &request->filter, "client_status == pending or client_status == running");
	return STATUS_OK;
}

static enum status alloc_get_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__GetAllocationResponse *answer = message;

	TRY(show_alloc(answer, err));
	return show_page(&claims_page, answer, NULL, call_has(call, OPT_VERBOSE), err);
}

static const struct command commands[] = {
	{.path = "alloc run",
	 .args = "FILE|-",
	 .help = "Run an allocation from its file and wait until it runs",
	 .example = "app.hcl --dry-run",
	 .options = OPTION_BIT(OPT_NODE) | OPTION_BIT(OPT_ID) | OPTION_BIT(OPT_DRY_RUN) |
		    OPTION_BIT(OPT_WAIT) | WAITING,
	 .min_args = 1,
	 .max_args = 1,
	 .arg_kinds = {WORD_FILE},
	 .call = {.service = &holdfast__v1__allocations__descriptor,
		  .method = "Run",
		  .fields = {{"dry_run", OPT_DRY_RUN}},
		  .load = alloc_run_load,
		  .fill = alloc_run_fill,
		  .show = alloc_run_show,
		  .refused = alloc_run_refused,
		  .shows_json = true}},
	{.path = "alloc stop",
	 .args = "ID",
	 .help = "Stop an allocation and wait until it has ended",
	 .example = "0192f3a0",
	 .options = WAITING,
	 .min_args = 1,
	 .max_args = 1,
	 .arg_kinds = {WORD_ALLOC},
	 .call = {.service = &holdfast__v1__allocations__descriptor,
		  .method = "Stop",
		  .fields = {{"id", ARG(0), FIELD_ALLOC}},
		  .load = alloc_stop_load,
		  .show = alloc_stop_show,
		  .shows_json = true}},
	{.path = "alloc status",
	 .args = "[ID]",
	 .help = "List allocations, or show one with its volumes",
	 .example = "--node worker-3",
	 .options = OPTION_BIT(OPT_NODE) | OPTION_BIT(OPT_ALL) | LISTING,
	 .max_args = 1,
	 .arg_kinds = {WORD_ALLOC},
	 .call = {.service = &holdfast__v1__allocations__descriptor,
		  .method = "Get",
		  .fields = {{"id", ARG(0), FIELD_ALLOC}},
		  .show = alloc_get_show},
	 .list = {.service = &holdfast__v1__allocations__descriptor,
		  .method = "List",
		  .fields = {{"namespace", OPT_NAMESPACE},
			     {"filter", OPT_FILTER},
			     {"node_id", OPT_NODE, FIELD_KNOWN_NODE}},
		  .load = alloc_list_load,
		  .rows = &show_allocs,
		  .pages = PAGES_LIST}},
};

const struct command_table alloc_commands = {commands, ARRAY_SIZE(commands)};

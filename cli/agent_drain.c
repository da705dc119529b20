/* SPDX-License-Identifier: Apache-2.0 */
/* A drain of this machine: asked of its agent, and watched until it has ended. */

#include "base/cleanup.h"
#include "base/str.h"
#include "call/connect.h"
#include "command/commands.h"
#include "command/values.h"
#include "show/progress.h"
#include "show/show.h"

#include <inttypes.h>
#include <time.h>

enum {
	ROUND_MS = 200,	       /* between two looks */
	ANSWER_WAIT_MS = 5000, /* an agent that is restarted answers again within this */
	END_WAIT_MS = 5000,    /* the agent ends the drain by itself, in time */
};

#define DRAIN_TIMEOUT_US (UINT64_C(60) * USEC_PER_SEC)

struct watch {
	struct connection *connection;
	bool quiet; /* JSON: only the end is shown */
	uint64_t deadline_us;
	Holdfast__V1__DrainAgentResponse *last; /* owned; NULL: not asked yet */
};

static enum status call(struct connection *connection, const Holdfast__V1__DrainAgentRequest *request,
			Holdfast__V1__DrainAgentResponse **ret, struct error *err)
{
	return connection_call(connection, &holdfast__v1__agent__descriptor, "Drain", &request->base,
			       CALL_TIMEOUT_US, ret, err);
}

static bool has_moved(const Holdfast__V1__AgentDrainVolume *before, const Holdfast__V1__AgentDrainVolume *now)
{
	return !str_eq(before->state, now->state) || !str_eq(before->reason, now->reason);
}

/* One drain lists its volumes in one order. */
static void print_changes(const Holdfast__V1__AgentDrain *before, const Holdfast__V1__AgentDrain *now)
{
	bool is_same = before && before->started_ms == now->started_ms && before->n_volumes == now->n_volumes;

	for (size_t i = 0; i < now->n_volumes; i++) {
		if (is_same && !has_moved(before->volumes[i], now->volumes[i]))
			continue;
		progress_end();
		(void)show_page(&show_agent_drain_volume, now->volumes[i], NULL, false, NULL);
	}
	progress_show("draining this machine: %s", now->summary);
}

static enum status ask(struct watch *watch, struct error *err)
{
	Holdfast__V1__DrainAgentRequest request = HOLDFAST__V1__DRAIN_AGENT_REQUEST__INIT;
	Holdfast__V1__DrainAgentResponse *answer = NULL;
	uint64_t now_us = clock_monotonic_us();

	request.timeout_ms =
		now_us < watch->deadline_us ? (uint32_t)((watch->deadline_us - now_us) / USEC_PER_MSEC) : 0;
	if (request.timeout_ms == 0)
		request.timeout_ms = 1;
	request.follows_ms = watch->last ? watch->last->drain->started_ms : 0;
	TRY(call(watch->connection, &request, &answer, err));
	if (!answer->drain) {
		message_freep(&answer);
		return error_set(err, STATUS_INTERNAL, 0, "the agent's answer has no drain");
	}
	if (!watch->quiet)
		print_changes(watch->last ? watch->last->drain : NULL, answer->drain);
	message_freep(&watch->last);
	watch->last = answer;
	return STATUS_OK;
}

static void pause_ms(unsigned int ms)
{
	const struct timespec time = {.tv_nsec = (long)ms * 1000 * 1000};

	(void)nanosleep(&time, NULL);
}

/* An agent that dies is started again by its unit, and continues when it is asked again. */
static enum status watch_drain(struct watch *watch, struct error *err)
{
	uint64_t answered_us = clock_monotonic_us();
	enum status status;

	for (;;) {
		status = ask(watch, err);
		if (status == STATUS_OK && watch->last->drain->ended_ms != 0)
			break;
		if (status == STATUS_OK)
			answered_us = clock_monotonic_us();
		else if (status != STATUS_UNAVAILABLE ||
			 clock_monotonic_us() >= answered_us + ANSWER_WAIT_MS * USEC_PER_MSEC)
			break;
		if (clock_monotonic_us() >= watch->deadline_us + END_WAIT_MS * USEC_PER_MSEC) {
			status = error_set(err, STATUS_DEADLINE_EXCEEDED, 0,
					   "the agent did not end the drain in time, and continues it. Next: "
					   "holdfast agent status");
			break;
		}
		pause_ms(ROUND_MS);
	}
	progress_end();
	return status;
}

/* Shows the drain in any case; only a drain that left nothing open is a success. */
static enum status drain_watch_finish(struct watch *watch, struct error *err)
{
	const Holdfast__V1__AgentDrain *drain = watch->last->drain;
	enum status status = STATUS_OK;

	if (watch->quiet)
		status = print_answer(&watch->last->base, err);
	else if (drain->done)
		print_line("this machine is drained: %s", drain->summary);
	if (status != STATUS_OK || drain->done)
		return status;
	return error_set(err, STATUS_FAILED_PRECONDITION, 0, "the drain of this machine is %s: %s",
			 drain->state, drain->summary);
}

static enum status cancel(struct invocation *inv, struct connection *connection, struct error *err)
{
	Holdfast__V1__DrainAgentRequest request = HOLDFAST__V1__DRAIN_AGENT_REQUEST__INIT;
	cleanup_message Holdfast__V1__DrainAgentResponse *answer = NULL;

	request.cancel = true;
	TRY(call(connection, &request, &answer, err));
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	print_line(
		"this machine takes new allocations; those that a drain has stopped are lost, and have to be "
		"run again (holdfast alloc run)");
	return STATUS_OK;
}

static enum status cmd_agent_drain(struct invocation *inv, struct error *err)
{
	cleanup_connection struct connection *connection = NULL;
	struct watch watch = {.quiet = inv->options[OPT_JSON] != NULL};
	uint64_t timeout_us;
	enum status status = value_timeout(inv, DRAIN_TIMEOUT_US, &timeout_us, err);

	if (status == STATUS_OK && inv->options[OPT_CANCEL] && inv->options[OPT_TIMEOUT])
		return usage_error(inv, err, "--cancel ends the drain at once: it has no --timeout");
	if (status == STATUS_OK)
		status = connect_agent(inv, &connection, err);
	if (status != STATUS_OK)
		return status;
	if (inv->options[OPT_CANCEL])
		return cancel(inv, connection, err);
	watch.connection = connection;
	watch.deadline_us = clock_monotonic_us() + timeout_us;
	status = watch_drain(&watch, err);
	if (status == STATUS_OK)
		status = drain_watch_finish(&watch, err);
	message_freep(&watch.last);
	return status;
}

static const struct command commands[] = {
	{.path = "agent drain",
	 .args = "",
	 .help = "Release all volumes of this machine before it is shut down",
	 .example = "--timeout 60s",
	 .options = OPTION_BIT(OPT_TIMEOUT) | OPTION_BIT(OPT_CANCEL),
	 .run = cmd_agent_drain},
};

const struct command_table agent_drain_commands = {commands, ARRAY_SIZE(commands)};

#include "output.h"
#include "show.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <inttypes.h>

static void show_helper(const Holdfast__V1__AgentHelper *helper)
{
	char text[96];

	if (helper->running)
		(void)str_format(text, sizeof(text),
				 "running, pid %" PRIu32 ", %.16s door, restarts: %" PRIu32, helper->pid,
				 helper->door, helper->restarts);
	else
		(void)str_format(text, sizeof(text), "not running, restarts: %" PRIu32, helper->restarts);
	print_field("mount helper", text);
	if (helper->ticket_optional)
		print_field("tickets",
			    "optional: the helper's policy allows mounts the server did not grant");
	if (helper->last_error[0])
		print_field("its last error", helper->last_error);
}

static enum status show_mounts(const Holdfast__V1__GetAgentStatusResponse *agent, struct error *err)
{
	static const struct column columns[] = {
		{.name = "VOLUME"},  {.name = "ALLOCATION"},  {.name = "PATH"},
		{.name = "DEVICE"},  {.name = "PROPAGATION"}, {.name = "VERIFIED", .is_state = true},
		{.name = "OPTIONS"},
	};
	cleanup(table_freep) struct table *table = NULL;

	if (agent->n_mounts == 0)
		return STATUS_OK;
	table = table_new(columns, ARRAY_SIZE(columns));
	for (size_t i = 0; i < agent->n_mounts; i++) {
		const Holdfast__V1__AgentMount *m = agent->mounts[i];

		table_add(table,
			  (const char *const[]){m->volume_id, m->alloc_id, m->path, m->device, m->propagation,
						m->verified ? "yes" : "no", m->options});
	}
	return table_print(table, "mounts", err);
}

static enum status show_operations(const Holdfast__V1__GetAgentStatusResponse *agent, struct error *err)
{
	static const struct column columns[] = {
		{.name = "VOLUME"},
		{.name = "ALLOCATION"},
		{.name = "STEP"},
		{.name = "FOR"},
		{.name = "TRIES", .is_number = true},
		{.name = "LAST ERROR"},
	};
	cleanup(table_freep) struct table *table = NULL;
	int64_t now_ms = clock_realtime_ms();

	if (agent->n_operations == 0)
		return STATUS_OK;
	table = table_new(columns, ARRAY_SIZE(columns));
	for (size_t i = 0; i < agent->n_operations; i++) {
		const Holdfast__V1__AgentOperation *o = agent->operations[i];
		char tries[16], age[AGE_SIZE];

		(void)str_format(tries, sizeof(tries), "%" PRIu32, o->attempts);
		table_add(table,
			  (const char *const[]){o->volume_id, o->alloc_id, o->step,
						age_text(o->since_ms, now_ms, age), tries, o->last_error});
	}
	return table_print(table, "under way", err);
}

enum status show_agent(const Holdfast__V1__GetAgentStatusResponse *agent, struct error *err)
{
	char text[AGE_SIZE];
	enum status status;

	print_field("node", agent->node_id);
	print_field("cluster", agent->cluster);
	print_field("version", agent->version);
	print_field("boot ID", agent->boot_id);
	print_field("server", agent->server);
	print_field("connected", agent->connected ? "yes" : "no");
	if (agent->connected)
		print_field("connected for", age_text(agent->connected_since_ms, clock_realtime_ms(), text));
	if (agent->last_session_error[0])
		print_field("last session error", agent->last_session_error);
	if (agent->helper)
		show_helper(agent->helper);
	(void)str_format(text, sizeof(text), "%" PRIu32, agent->receipts_pending);
	print_field("receipts pending", text);
	status = show_allocs(agent->allocations, agent->n_allocations, "allocations", err);
	if (status == STATUS_OK)
		status = show_mounts(agent, err);
	if (status == STATUS_OK)
		status = show_operations(agent, err);
	return status;
}

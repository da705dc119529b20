/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "call/call.h"
#include "command/commands.h"
#include "rpc/pbjson.h"
#include "show/output.h"
#include "show/show.h"

#include <holdfast/v1/agent.pb-c.h>
#include <inttypes.h>
#include <openssl/sha.h>
#include <string.h>

enum { POLICY_BYTES_MAX = 65536 };

/* Was the policy's text changed since the one that the helper runs by was compiled from it? No, if it cannot
 * be read, or no helper has said its @digest yet. */
static bool is_edited(const char *digest)
{
	uint8_t sha256[SHA256_DIGEST_LENGTH];
	char hex[2 * sizeof(sha256) + 1];
	cleanup_free char *text = NULL;
	size_t n;

	if (!digest[0] || file_read(HOLDFAST_POLICY_PATH, POLICY_BYTES_MAX, &text, &n) < 0)
		return false;
	(void)SHA256((const unsigned char *)text, n, sha256);
	hex_encode(hex, sha256, sizeof(sha256));
	return !str_eq(hex, digest);
}

static void show_helper(const Holdfast__V1__AgentHelper *helper)
{
	char text[96];

	if (helper->running)
		(void)str_format(text, sizeof(text),
				 "running, launch mode %.16s, restarts: %" PRIu32 ", waiting: %" PRIu32,
				 helper->door, helper->restarts, helper->queued);
	else
		(void)str_format(text, sizeof(text), "not running, restarts: %" PRIu32 ", waiting: %" PRIu32,
				 helper->restarts, helper->queued);
	print_field("mount helper", text);
	if (helper->policy_digest[0])
		print_field("its policy", helper->policy_digest);
	if (is_edited(helper->policy_digest))
		print_field("its policy's text", HOLDFAST_POLICY_PATH
			    " was edited and is not in use: holdfast policy apply, then SIGHUP to the agent");
	if (helper->container)
		print_field("its mounts", "in the agent's mount namespace (container = yes)");
	if (helper->running)
		print_field(
			"tickets",
			helper->ticket_optional
				? "optional (stand-alone use): mounts the server did not grant are allowed"
				: "required");
	if (helper->last_error[0])
		print_field("its last error", helper->last_error);
}

enum { BUSY_SIZE = 160 };

/* "STAGE of db-0123 for 4s" */
static const char *busy_text(const Holdfast__V1__AgentHelperInstance *i, int64_t now_ms,
			     char ret[static BUSY_SIZE])
{
	char age[AGE_SIZE];

	ret[0] = '\0';
	if (i->operation[0])
		(void)str_format(ret, BUSY_SIZE, "%.16s%s%.64s for %s", i->operation,
				 i->volume[0] ? " of " : "", i->volume, age_text(i->since_ms, now_ms, age));
	return ret;
}

static enum status show_instances(const Holdfast__V1__AgentHelper *helper, bool verbose, struct error *err)
{
	static const struct column columns[] = {
		{.name = "PID", .is_number = true},
		{.name = "LAUNCH"},
		{.name = "FOR"},
		{.name = "STATE", .is_state = true},
		{.name = "BUSY WITH"},
		{.name = "RESTARTS", .is_number = true},
		{.name = "LAST ERROR", .is_wide = true},
	};
	cleanup(table_freep) struct table *table = NULL;
	int64_t now_ms = clock_realtime_ms();

	if (helper->n_instances == 0)
		return STATUS_OK;
	table = table_new(columns, ARRAY_SIZE(columns));
	table_show_whole(table, verbose);
	for (size_t k = 0; k < helper->n_instances; k++) {
		const Holdfast__V1__AgentHelperInstance *i = helper->instances[k];
		char pid[16] = "", restarts[16], busy[BUSY_SIZE];

		if (i->pid)
			(void)str_format(pid, sizeof(pid), "%" PRIu32, i->pid);
		(void)str_format(restarts, sizeof(restarts), "%" PRIu32, i->restarts);
		table_add(table, (const char *const[]){pid, i->door, i->nfs ? "nfs" : "all but nfs", i->state,
						       busy_text(i, now_ms, busy), restarts, i->last_error});
	}
	return table_print(table, "mount helpers", err);
}

/* "NodeStageVolume for 4s and 2 more" */
static const char *calls_text(const Holdfast__V1__AgentPlugin *p, int64_t now_ms, char ret[static BUSY_SIZE])
{
	uint32_t others = p->calls_under_way + p->calls_waiting;
	char age[AGE_SIZE];

	ret[0] = '\0';
	if (!p->oldest_call[0])
		return ret;
	(void)str_format(ret, BUSY_SIZE, "%.64s for %s", p->oldest_call,
			 age_text(p->oldest_since_ms, now_ms, age));
	if (others > 1)
		(void)str_format(ret + strlen(ret), BUSY_SIZE - strlen(ret), " and %" PRIu32 " more",
				 others - 1);
	return ret;
}

static enum status show_instances_of_plugins(const Holdfast__V1__GetAgentStatusResponse *agent, bool verbose,
					     struct error *err)
{
	static const struct column columns[] = {
		{.name = "PLUGIN"},	{.name = "PROVIDER"},  {.name = "STATE", .is_state = true},
		{.name = "FOR"},	{.name = "USED"},      {.name = "SOCKET"},
		{.name = "ALLOCATION"}, {.name = "BUSY WITH"}, {.name = "FAILED", .is_number = true},
	};
	cleanup(table_freep) struct table *table = NULL;
	int64_t now_ms = clock_realtime_ms();

	if (agent->n_plugins == 0)
		return STATUS_OK;
	table = table_new(columns, ARRAY_SIZE(columns));
	table_show_whole(table, verbose);
	for (size_t i = 0; i < agent->n_plugins; i++) {
		const Holdfast__V1__AgentPlugin *p = agent->plugins[i];
		char provider[BUSY_SIZE * 2], age[AGE_SIZE] = "", busy[BUSY_SIZE], failed[48];

		(void)str_format(provider, sizeof(provider), "%.128s%s%.128s", p->provider,
				 p->provider_version[0] ? " " : "", p->provider_version);
		(void)str_format(failed, sizeof(failed), "%" PRIu64 " of %" PRIu64, p->calls_failed,
				 p->calls);
		table_add(table, (const char *const[]){p->plugin_id, provider, p->state,
						       p->since_ms ? age_text(p->since_ms, now_ms, age) : "",
						       p->used ? "yes" : "no", p->socket, p->alloc_id,
						       calls_text(p, now_ms, busy), failed});
	}
	return table_print(table, "plugins", err);
}

/* Whole, as a terminal has no room for them in the table, and they are what one looks for. */
static void show_plugin_errors(const Holdfast__V1__GetAgentStatusResponse *agent)
{
	for (size_t i = 0; i < agent->n_plugins; i++) {
		const Holdfast__V1__AgentPlugin *p = agent->plugins[i];

		if (p->last_error[0])
			print_line("plugin %s is %s%s%s: %s", p->plugin_id, p->state,
				   p->socket[0] ? " at " : "", p->socket, p->last_error);
	}
}

static enum status show_drivers(const Holdfast__V1__GetAgentStatusResponse *agent, bool verbose,
				struct error *err)
{
	static const struct column columns[] = {
		{.name = "DRIVER"},
		{.name = "VERSION"},
		{.name = "STATE", .is_state = true},
	};
	cleanup(table_freep) struct table *table = NULL;

	if (agent->n_drivers == 0)
		return STATUS_OK;
	table = table_new(columns, ARRAY_SIZE(columns));
	table_show_whole(table, verbose);
	for (size_t i = 0; i < agent->n_drivers; i++) {
		const Holdfast__V1__AgentDriver *d = agent->drivers[i];

		table_add(table,
			  (const char *const[]){d->name, d->version, d->healthy ? "healthy" : "unhealthy"});
	}
	return table_print(table, "task drivers", err);
}

static void show_driver_errors(const Holdfast__V1__GetAgentStatusResponse *agent)
{
	for (size_t i = 0; i < agent->n_drivers; i++) {
		if (!agent->drivers[i]->healthy)
			print_line("driver %s is unhealthy: %s", agent->drivers[i]->name,
				   agent->drivers[i]->reason);
	}
}

static enum status show_mounts(const Holdfast__V1__GetAgentStatusResponse *agent, bool verbose,
			       struct error *err)
{
	static const struct column columns[] = {
		{.name = "VOLUME"},
		{.name = "ALLOCATION"},
		{.name = "PATH"},
		{.name = "DEVICE"},
		{.name = "PROPAGATION"},
		{.name = "VERIFIED", .is_state = true},
		{.name = "OPTIONS", .is_wide = true},
	};
	cleanup(table_freep) struct table *table = NULL;

	if (agent->n_mounts == 0)
		return STATUS_OK;
	table = table_new(columns, ARRAY_SIZE(columns));
	table_show_whole(table, verbose);
	for (size_t i = 0; i < agent->n_mounts; i++) {
		const Holdfast__V1__AgentMount *m = agent->mounts[i];

		table_add(table,
			  (const char *const[]){m->volume_id, m->alloc_id, m->path, m->device, m->propagation,
						m->stale[0]   ? "stale"
						: m->verified ? "yes"
							      : "no",
						m->options});
	}
	return table_print(table, "mounts", err);
}

static void show_stale(const Holdfast__V1__GetAgentStatusResponse *agent)
{
	for (size_t i = 0; i < agent->n_mounts; i++) {
		const Holdfast__V1__AgentMount *m = agent->mounts[i];

		if (m->stale[0])
			print_line("stale mount of volume %s at %s: %s", m->volume_id, m->path, m->stale);
	}
}

static enum status show_operations(const Holdfast__V1__GetAgentStatusResponse *agent, bool verbose,
				   struct error *err)
{
	static const struct column columns[] = {
		{.name = "VOLUME"},
		{.name = "ALLOCATION"},
		{.name = "STEP"},
		{.name = "FOR"},
		{.name = "WITHIN"}, /* its deadline, or the next try */
		{.name = "TRIES", .is_number = true},
	};
	cleanup(table_freep) struct table *table = NULL;
	int64_t now_ms = clock_realtime_ms();

	if (agent->n_operations == 0)
		return STATUS_OK;
	table = table_new(columns, ARRAY_SIZE(columns));
	table_show_whole(table, verbose);
	for (size_t i = 0; i < agent->n_operations; i++) {
		const Holdfast__V1__AgentOperation *o = agent->operations[i];
		char tries[16], age[AGE_SIZE], left[AGE_SIZE] = "";

		(void)str_format(tries, sizeof(tries), "%" PRIu32, o->attempts);
		if (o->deadline_ms > 0)
			(void)age_text(now_ms, o->deadline_ms, left);
		table_add(table, (const char *const[]){o->volume_id, o->alloc_id, o->step,
						       age_text(o->since_ms, now_ms, age), left, tries});
	}
	return table_print(table, "in flight", err);
}

static void show_operation_errors(const Holdfast__V1__GetAgentStatusResponse *agent)
{
	for (size_t i = 0; i < agent->n_operations; i++) {
		const Holdfast__V1__AgentOperation *o = agent->operations[i];

		if (o->last_error[0])
			print_line("%s%s%s: %s", o->step, o->volume_id[0] ? " of " : "", o->volume_id,
				   o->last_error);
	}
}

static enum status show_agent(const Holdfast__V1__GetAgentStatusResponse *agent, bool verbose,
			      struct error *err)
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
		print_field(agent->connected ? "session error before" : "last session error",
			    agent->last_session_error);
	for (size_t i = 0; i < agent->n_problems; i++)
		print_field("problem", agent->problems[i]);
	if (agent->helper)
		show_helper(agent->helper);
	(void)str_format(text, sizeof(text), "%" PRIu32, agent->receipts_pending);
	print_field("receipts pending", text);
	status = agent->helper ? show_instances(agent->helper, verbose, err) : STATUS_OK;
	if (status == STATUS_OK)
		status = show_instances_of_plugins(agent, verbose, err);
	show_plugin_errors(agent);
	if (status == STATUS_OK)
		status = show_drivers(agent, verbose, err);
	show_driver_errors(agent);
	if (status == STATUS_OK)
		status = show_allocs(agent->allocations, agent->n_allocations, "allocations", verbose, err);
	if (status == STATUS_OK)
		status = show_mounts(agent, verbose, err);
	show_stale(agent);
	if (status == STATUS_OK)
		status = show_operations(agent, verbose, err);
	show_operation_errors(agent);
	show_agent_drain(agent->drain);
	return status;
}

/* The answer, and in "helper" what is_edited() says, as the agent does not read the text. */
static enum status print_agent_json(const Holdfast__V1__GetAgentStatusResponse *agent, struct error *err)
{
	cleanup(json_decrefp) json_t *json = NULL;

	TRY(pbjson_encode(&agent->base, PBJSON_PROTO_NAMES | PBJSON_DEFAULTS, &json, err));
	if (agent->helper && json_object_set_new(json_object_get(json, "helper"), "policy_edited",
						 json_boolean(is_edited(agent->helper->policy_digest))) < 0)
		return error_no_memory(err, "the answer");
	return print_json(json_incref(json), err);
}

static enum status agent_status_show(struct call *call, const void *message, struct error *err)
{
	if (call_has(call, OPT_JSON))
		return print_agent_json(message, err);
	return show_agent(message, call_has(call, OPT_VERBOSE), err);
}

static const struct command commands[] = {
	{.path = "agent status",
	 .args = "",
	 .help = "Show the node agent of this machine: mounts and what it is doing",
	 .example = "",
	 .options = OPTION_BIT(OPT_VERBOSE),
	 .call = {.service = &holdfast__v1__agent__descriptor,
		  .method = "Status",
		  .show = agent_status_show,
		  .shows_json = true}},
};

const struct command_table agent_commands = {commands, ARRAY_SIZE(commands)};

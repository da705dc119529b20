/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "call/call.h"
#include "command/commands.h"
#include "command/values.h"
#include "show/output.h"

#include <holdfast/v1/operator.pb-c.h>
#include <inttypes.h>

enum { KEY_MAX = 32 }; /* bytes of an Ed25519 public key */

static void print_status(const Holdfast__V1__GetStatusResponse *s)
{
	char key[2 * KEY_MAX + 1] = "";
	char text[64], age[AGE_SIZE], expires[CLOCK_TEXT_SIZE];
	const struct {
		const char *name;
		uint64_t value;
	} counts[] = {
		{"index", s->index},
		{"volumes", s->volumes},
		{"nodes", s->nodes},
		{"nodes ready", s->nodes_ready},
		{"claims", s->claims},
		{"releases waiting", s->releases_waiting},
		{"allocations", s->allocations},
		{"schema", s->schema},
		{"epoch", s->epoch},
	};

	const int64_t now_ms = clock_realtime_ms();

	print_field("version", s->version);
	print_field("cluster", s->cluster);
	for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
		(void)str_format(text, sizeof(text), "%" PRIu64, counts[i].value);
		print_field(counts[i].name, text);
	}
	if (s->restored_at_ms) {
		(void)str_format(text, sizeof(text), "%s ago, %" PRIu32 " node%s still to report",
				 age_text(s->restored_at_ms, clock_realtime_ms(), age), s->nodes_to_report,
				 s->nodes_to_report == 1 ? " is" : "s are");
		print_field("epoch began", text);
		print_field("epoch reason", s->epoch_reason);
	}
	print_field("tokens", s->acl_enabled ? "are taken" : "are not taken (acl = false)");
	if (s->ticket_key.len == KEY_MAX)
		hex_encode(key, s->ticket_key.data, s->ticket_key.len);
	print_field("ticket key", key);
	print_field("last backup",
		    s->last_backup_at_ms ? age_text(s->last_backup_at_ms, now_ms, age) : "never");
	print_field("last kit", s->last_kit_at_ms ? age_text(s->last_kit_at_ms, now_ms, age) : "never");
	if (s->certificate_expires_at_ms)
		print_field("certificate expires", clock_format(s->certificate_expires_at_ms, expires));
	for (size_t i = 0; i < s->n_warnings; i++)
		print_field("warning", s->warnings[i]);
}

static enum status operator_status_show(struct call *call, const void *message, struct error *err)
{
	print_status(message);
	return STATUS_OK;
}

/* --- several servers --- */

static enum status print_servers(const Holdfast__V1__ListMembersResponse *answer, struct error *err)
{
	static const struct column columns[] = {
		{.name = "NAME"},  {.name = "ADDRESS"}, {.name = "ROLE"},
		{.name = "SINCE"}, {.name = "VERSION"},
	};
	cleanup(table_freep) struct table *table = table_new(columns, ARRAY_SIZE(columns));
	const int64_t now_ms = clock_realtime_ms();

	for (size_t i = 0; i < answer->n_servers && table; i++) {
		const Holdfast__V1__ServerMember *server = answer->servers[i];
		char age[AGE_SIZE];

		table_add(table, (const char *const[]){
					 server->name, server->address, server->leads ? "leads" : "follows",
					 age_text(server->since_ms, now_ms, age), server->version});
	}
	return table_print(table, NULL, err);
}

static enum status print_etcd(const Holdfast__V1__ListMembersResponse *answer, struct error *err)
{
	static const struct column columns[] = {
		{.name = "ETCD"},    {.name = "STATE"},	 {.name = "LAG", .is_number = true}, {.name = "SIZE"},
		{.name = "VERSION"}, {.name = "ALARMS"}, {.name = "ERROR", .is_wide = true},
	};
	cleanup(table_freep) struct table *table = table_new(columns, ARRAY_SIZE(columns));

	for (size_t i = 0; i < answer->n_etcd && table; i++) {
		const Holdfast__V1__EtcdMember *member = answer->etcd[i];
		char lag[24] = "", size[SIZE_TEXT_SIZE];

		if (member->reachable)
			(void)str_format(lag, sizeof(lag), "%" PRIu64, member->lag);
		table_add(table, (const char *const[]){member->endpoint,
						       !member->reachable ? "unreachable"
						       : member->leads	  ? "leads"
									  : "follows",
						       lag, size_text(member->size_bytes, size),
						       member->version, member->alarms, member->error});
	}
	return table_print(table, NULL, err);
}

static enum status operator_members_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__ListMembersResponse *answer = message;
	enum status status = print_servers(answer, err);

	print_line("%s", "");
	print_line("index %" PRIu64, answer->index);
	if (answer->trouble[0] != '\0')
		print_line("trouble: %s", answer->trouble);
	if (status != STATUS_OK || answer->n_etcd == 0)
		return status;
	print_line("%s", "");
	return print_etcd(answer, err);
}

static enum status operator_step_down_show(struct call *call, const void *message, struct error *err)
{
	print_line("the server that led hands over; who leads now: holdfast operator members");
	return STATUS_OK;
}

#define GC_MAX_MS (UINT64_C(3650) * 86400 * 1000)

static enum status operator_gc_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__GcRequest *request = message;

	request->dry_run = call_has(call, OPT_DRY_RUN);
	return value_duration(call->inv, OPT_OLDER_THAN, 0, GC_MAX_MS, &request->older_than_ms, err);
}

static enum status operator_gc_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__GcRequest *request = call->request;
	const Holdfast__V1__GcResponse *answer = message;

	print_line("%s: %" PRIu32 " allocations, %" PRIu32 " claims, %" PRIu32 " attestations, %" PRIu32
		   " tokens, %" PRIu32 " audit records",
		   request->dry_run ? "would be removed" : "removed", answer->allocations, answer->claims,
		   answer->attestations, answer->tokens, answer->audit_records);
	return STATUS_OK;
}

#define GC_TIMEOUT_US (UINT64_C(300) * USEC_PER_SEC)

static const struct command commands[] = {
	{.path = "operator status",
	 .args = "",
	 .help = "Show the server: counts, index and ticket key",
	 .example = "--json",
	 .call = {.service = &holdfast__v1__operator__descriptor,
		  .method = "Status",
		  .show = operator_status_show}},
	{.path = "operator members",
	 .args = "",
	 .help = "List the servers that share the store, and etcd's members",
	 .example = "--json",
	 .call = {.service = &holdfast__v1__operator__descriptor,
		  .method = "ListMembers",
		  .show = operator_members_show}},
	{.path = "operator step-down",
	 .args = "",
	 .help = "Have the server that leads hand over to another one",
	 .example = "",
	 .call = {.service = &holdfast__v1__operator__descriptor,
		  .method = "StepDown",
		  .show = operator_step_down_show}},
	{.path = "operator gc",
	 .args = "",
	 .help = "Remove what is finished from the server's records",
	 .example = "--older-than 7d --dry-run",
	 .options = OPTION_BIT(OPT_OLDER_THAN) | OPTION_BIT(OPT_DRY_RUN),
	 .call = {.service = &holdfast__v1__operator__descriptor,
		  .method = "Gc",
		  .load = operator_gc_load,
		  .show = operator_gc_show,
		  .timeout_us = GC_TIMEOUT_US}},
};

const struct command_table operator_commands = {commands, ARRAY_SIZE(commands)};

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/str.h"
#include "call/call.h"
#include "command/commands.h"
#include "command/values.h"
#include "show/rows.h"

#include <holdfast/v1/operator.pb-c.h>
#include <inttypes.h>

static DEFINE_ROWS(expiry_table, holdfast__v1__node_certificate, NULL, COL("CERTIFICATE OF", "node/{node}"),
		   COL("EXPIRES", "{expires_at_ms:time}"));

static DEFINE_ROWS(status_page, holdfast__v1__get_status_response, NULL, COL("version", "{version}"),
		   COL("cluster", "{cluster}"), COL("index", "{index}"), COL("volumes", "{volumes}"),
		   COL("nodes", "{nodes}"), COL("nodes ready", "{nodes_ready}"), COL("claims", "{claims}"),
		   COL("releases waiting", "{releases_waiting}"), COL("allocations", "{allocations}"),
		   COL("schema", "{schema}"), COL("epoch", "{epoch}"),
		   COL_SET("epoch began", "{restored_at_ms?{restored_at_ms:age} ago, {nodes_to_report} "
					  "node{nodes_to_report:are} still to report}"),
		   COL_WHEN("{restored_at_ms?y}", "epoch reason", "{epoch_reason}"),
		   COL("tokens", "{acl_enabled?are taken|are not taken (acl = false)}"),
		   COL("ticket key", "{ticket_key}"), COL_SET("next ticket key", "{next_ticket_key}"),
		   COL("last backup", "{last_backup_at_ms?{last_backup_at_ms:age}|never}"),
		   COL("last kit", "{last_kit_at_ms?{last_kit_at_ms:age}|never}"),
		   COL_SET("certificate expires",
			   "{certificate_expires_at_ms?{certificate_expires_at_ms:time}}"),
		   COL_SET("CA expires", "{ca_expires_at_ms?{ca_expires_at_ms:time}}"),
		   TABLE("node certificates", "node_certificates", &expiry_table));

static enum status operator_status_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__GetStatusResponse *answer = message;

	TRY(show_page(&status_page, answer, NULL, false, err));
	for (size_t i = 0; i < answer->n_warnings; i++)
		print_field("warning", answer->warnings[i]);
	return STATUS_OK;
}

/* --- several servers --- */

static DEFINE_ROWS(server_table, holdfast__v1__server_member, NULL, COL("NAME", "{name}"),
		   COL("ADDRESS", "{address}"), COL("ROLE", "{leads?leads|follows}"),
		   COL("SINCE", "{since_ms:age}"), COL("VERSION", "{version}"));

static DEFINE_ROWS(etcd_table, holdfast__v1__etcd_member, NULL, COL("ETCD", "{endpoint}"),
		   COL("STATE", "{reachable?{leads?leads|follows}|unreachable}"),
		   COL_NUMBER("LAG", "{reachable?{lag}}"), COL("SIZE", "{size_bytes:size}"),
		   COL("VERSION", "{version}"), COL("ALARMS", "{alarms}"), COL("ERROR", "{error}"));

static DEFINE_ROWS(members_page, holdfast__v1__list_members_response, NULL, LINE(NULL, ""),
		   LINE(NULL, "index {index}"), LINE("{trouble}", "trouble: {trouble}"),
		   LINE("{etcd?y}", ""));

static enum status operator_members_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__ListMembersResponse *answer = message;

	TRY(show_list(&server_table, NULL, answer->servers, answer->n_servers, false, err));
	TRY(show_page(&members_page, answer, NULL, false, err));
	return show_list(&etcd_table, NULL, answer->etcd, answer->n_etcd, false, err);
}

static DEFINE_ROWS(step_down_page, holdfast__v1__step_down_response, NULL,
		   LINE(NULL, "the server that led hands over; who leads now: holdfast operator members"));

#define GC_MAX_MS (UINT64_C(3650) * 86400 * 1000)

static enum status operator_gc_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__GcRequest *request = message;

	return value_duration(call->inv, OPT_OLDER_THAN, 0, GC_MAX_MS, &request->older_than_ms, err);
}

static DEFINE_ROWS_OF(gc_page, holdfast__v1__gc_response, &holdfast__v1__gc_request__descriptor, NULL,
		      LINE(NULL,
			   "{^dry_run?would be removed|removed}: {allocations} allocations, {claims} "
			   "claims, {attestations} attestations, {tokens} tokens, {audit_records} audit "
			   "records, {revocations} revocations"));

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
		  .show = operator_members_show,
		  .rows = &server_table}},
	{.path = "operator step-down",
	 .args = "",
	 .help = "Have the server that leads hand over to another one",
	 .example = "",
	 .call = {.service = &holdfast__v1__operator__descriptor,
		  .method = "StepDown",
		  .rows = &step_down_page}},
	{.path = "operator gc",
	 .args = "",
	 .help = "Remove ended work from the server's records",
	 .example = "--older-than 7d --dry-run",
	 .options = OPTION_BIT(OPT_OLDER_THAN) | OPTION_BIT(OPT_DRY_RUN),
	 .call = {.service = &holdfast__v1__operator__descriptor,
		  .method = "Gc",
		  .fields = {{"dry_run", OPT_DRY_RUN}},
		  .load = operator_gc_load,
		  .rows = &gc_page,
		  .timeout_us = GC_TIMEOUT_US}},
};

const struct command_table operator_commands = {commands, ARRAY_SIZE(commands)};

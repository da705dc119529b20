/* SPDX-License-Identifier: Apache-2.0 */
#include "call/call.h"
#include "command/commands.h"
#include "show/show.h"

#include <holdfast/v1/volumes.pb-c.h>

static enum status snapshot_create_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__CreateSnapshotResponse *answer = message;

	return show_list(&show_snapshots, NULL, &answer->snapshot, answer->snapshot != NULL, true, err);
}

static DEFINE_ROWS_OF(delete_page, holdfast__v1__delete_snapshot_response,
		      &holdfast__v1__delete_snapshot_request__descriptor, NULL,
		      LINE(NULL, "snapshot {^snapshot_id} of plugin {^plugin_id} is deleted"));

static enum status snapshot_list_load(struct call *call, void *message, struct error *err)
{
	if (call_has(call, OPT_SECRETS_FILE) && !call_has(call, OPT_PLUGIN))
		return usage_error(call->inv, err, "--secrets-file is for a plugin: give --plugin too");
	return STATUS_OK;
}

static const struct command commands[] = {
	{.path = "volume snapshot create",
	 .args = "VOLUME NAME",
	 .help = "Make a snapshot of a volume",
	 .example = "db before-the-upgrade",
	 .options = OPTION_BIT(OPT_PARAMETER) | OPTION_BIT(OPT_SECRETS_FILE) | OPTION_BIT(OPT_TIMEOUT),
	 .min_args = 2,
	 .max_args = 2,
	 .arg_kinds = {WORD_VOLUME, WORD_NONE},
	 .call = {.service = &holdfast__v1__volumes__descriptor,
		  .method = "CreateSnapshot",
		  .fields = {{"volume_id", ARG(0), FIELD_VOLUME},
			     {"name", ARG(1)},
			     {"parameters", OPT_PARAMETER, FIELD_PAIRS},
			     {"secrets", OPT_SECRETS_FILE, FIELD_SECRETS}},
		  .show = snapshot_create_show,
		  .doing = "making a snapshot of volume",
		  .timeout_us = PROVIDER_TIMEOUT_US}},
	{.path = "volume snapshot delete",
	 .args = "PLUGIN SNAPSHOT",
	 .help = "Delete a snapshot",
	 .example = "ebs snap-0123",
	 .options = OPTION_BIT(OPT_SECRETS_FILE) | OPTION_BIT(OPT_YES) | OPTION_BIT(OPT_TIMEOUT),
	 .min_args = 2,
	 .max_args = 2,
	 .arg_kinds = {WORD_PLUGIN, WORD_NONE},
	 .call = {.service = &holdfast__v1__volumes__descriptor,
		  .method = "DeleteSnapshot",
		  .fields = {{"snapshot_id", ARG(1)},
			     {"plugin_id", ARG(0), FIELD_PLUGIN},
			     {"secrets", OPT_SECRETS_FILE, FIELD_SECRETS}},
		  .whole = "snapshot delete",
		  .question = "Delete snapshot {snapshot_id} of plugin {plugin_id}?",
		  .rows = &delete_page,
		  .doing = "deleting snapshot",
		  .timeout_us = PROVIDER_TIMEOUT_US}},
	{.path = "volume snapshot list",
	 .args = "",
	 .help = "List snapshots: those made here, or with --plugin those that the provider has",
	 .example = "--plugin ebs",
	 .options = OPTION_BIT(OPT_PLUGIN) | OPTION_BIT(OPT_SECRETS_FILE) | OPTION_BIT(OPT_LIMIT) |
		    OPTION_BIT(OPT_VERBOSE),
	 .call = {.service = &holdfast__v1__volumes__descriptor,
		  .method = "ListSnapshots",
		  .fields = {{"plugin_id", OPT_PLUGIN, FIELD_PLUGIN},
			     {"secrets", OPT_SECRETS_FILE, FIELD_SECRETS}},
		  .load = snapshot_list_load,
		  .rows = &show_snapshots,
		  .pages = PAGES_LIST}},
};

const struct command_table snapshot_commands = {commands, ARRAY_SIZE(commands)};

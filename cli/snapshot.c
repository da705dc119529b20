/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/str.h"
#include "call/call.h"
#include "command/commands.h"
#include "command/request.h"
#include "command/values.h"
#include "show/show.h"

#include <holdfast/v1/volumes.pb-c.h>

enum { QUESTION_SIZE = 2 * PICK_ID_SIZE + 64 };

static enum status snapshot_create_fill(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__CreateSnapshotRequest *request = message;
	json_t *parameters = NULL, *secrets = NULL;
	enum status status = call_pick_volume(call, &request->volume_id, &request->namespace_, err);

	if (status == STATUS_OK)
		status = request_pairs(call->inv, OPT_PARAMETER, &parameters, err);
	if (status == STATUS_OK)
		status = request_secrets(call->inv, &secrets, err);
	if (status != STATUS_OK) {
		json_decref(parameters);
		return status;
	}
	TRY(call_replace(call,
			 json_pack("{ss ss ss so so}", "volume_id", request->volume_id, "namespace",
				   request->namespace_, "name", call->inv->args[1], "parameters", parameters,
				   "secrets", secrets),
			 err));
	call->subject = ((const Holdfast__V1__CreateSnapshotRequest *)call->request)->volume_id;
	return STATUS_OK;
}

static enum status snapshot_create_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__CreateSnapshotResponse *answer = message;

	return show_list(&show_snapshots, NULL, &answer->snapshot, answer->snapshot != NULL, true, err);
}

static enum status snapshot_delete_fill(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__DeleteSnapshotRequest *request = message;
	const char *snapshot = call->inv->args[1];
	char question[QUESTION_SIZE];
	json_t *secrets = NULL;

	TRY(call_pick(call, pick_plugin, call->inv->args[0], &request->plugin_id, err));
	(void)str_format(question, sizeof(question), "Delete snapshot %.128s of plugin %s?", snapshot,
			 request->plugin_id);
	enum status status = value_confirm(call->inv, question, err);
	if (status == STATUS_OK)
		status = request_secrets(call->inv, &secrets, err);
	if (status == STATUS_OK)
		status = call_replace(call,
				      json_pack("{ss ss so}", "plugin_id", request->plugin_id, "snapshot_id",
						snapshot, "secrets", secrets),
				      err);
	call->subject = snapshot;
	return status;
}

static enum status snapshot_delete_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__DeleteSnapshotRequest *request = call->request;

	print_line("snapshot %s of plugin %s is deleted", request->snapshot_id, request->plugin_id);
	return STATUS_OK;
}

static enum status snapshot_list_load(struct call *call, void *message, struct error *err)
{
	if (call_has(call, OPT_SECRETS_FILE) && !call_has(call, OPT_PLUGIN))
		return usage_error(call->inv, err, "--secrets-file is for a plugin: give --plugin too");
	return STATUS_OK;
}

static enum status snapshot_list_fill(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__ListSnapshotsRequest *request = message;
	json_t *secrets = NULL;

	if (call_has(call, OPT_PLUGIN))
		TRY(call_pick(call, pick_plugin, call->inv->options[OPT_PLUGIN], &request->plugin_id, err));
	TRY(request_secrets(call->inv, &secrets, err));
	return call_replace(call, json_pack("{ss so}", "plugin_id", request->plugin_id, "secrets", secrets),
			    err);
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
		  .fill = snapshot_create_fill,
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
		  .fill = snapshot_delete_fill,
		  .show = snapshot_delete_show,
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
		  .load = snapshot_list_load,
		  .fill = snapshot_list_fill,
		  .rows = &show_snapshots,
		  .pages = PAGES_LIST}},
};

const struct command_table snapshot_commands = {commands, ARRAY_SIZE(commands)};

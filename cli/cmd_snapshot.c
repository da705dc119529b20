/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"
#include "connect.h"
#include "output.h"
#include "pages.h"
#include "pick.h"
#include "request.h"
#include "show.h"
#include "values.h"

#include "base/str.h"

#include <holdfast/v1/volumes.pb-c.h>

#define SNAPSHOT_TIMEOUT_US (UINT64_C(600) * USEC_PER_SEC)

enum { TEXT_SIZE = 2 * PICK_ID_SIZE + 64 };

static const ProtobufCServiceDescriptor *const volumes = &holdfast__v1__volumes__descriptor;

/* {id fields, "parameters": ..., "secrets": ...} */
static enum status make_create(struct invocation *inv, const char *volume, const char *namespace,
			       Holdfast__V1__CreateSnapshotRequest **ret, struct error *err)
{
	json_t *parameters = NULL, *secrets = NULL;
	enum status status = request_pairs(inv, OPT_PARAMETER, &parameters, err);

	if (status == STATUS_OK)
		status = request_secrets(inv, &secrets, err);
	if (status != STATUS_OK) {
		json_decref(parameters);
		return status;
	}
	return request_make(&holdfast__v1__create_snapshot_request__descriptor,
			    json_pack("{ss ss ss so so}", "volume_id", volume, "namespace", namespace, "name",
				      inv->args[1], "parameters", parameters, "secrets", secrets),
			    ret, err);
}

enum status cmd_snapshot_create(struct invocation *inv, struct error *err)
{
	cleanup_message Holdfast__V1__CreateSnapshotRequest *request = NULL;
	cleanup_message Holdfast__V1__CreateSnapshotResponse *answer = NULL;
	cleanup_connection struct connection *connection = NULL;
	char id[PICK_ID_SIZE], namespace[PICK_ID_SIZE], doing[TEXT_SIZE];
	enum status status = connect_server(inv, &connection, err);

	if (status == STATUS_OK)
		status = pick_volume(connection, inv->args[0], inv->options[OPT_NAMESPACE], id, namespace,
				     err);
	if (status == STATUS_OK)
		status = make_create(inv, id, namespace, &request, err);
	if (status != STATUS_OK)
		return status;
	(void)str_format(doing, sizeof(doing), "making a snapshot of volume %s", id);
	status = connection_call_long(connection, inv, volumes, "CreateSnapshot", &request->base,
				      SNAPSHOT_TIMEOUT_US, doing, (ProtobufCMessage **)(void *)&answer, err);
	if (status != STATUS_OK)
		return status;
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	return show_snapshots(answer->snapshot ? &answer->snapshot : NULL, answer->snapshot ? 1 : 0, true,
			      err);
}

enum status cmd_snapshot_delete(struct invocation *inv, struct error *err)
{
	cleanup_message Holdfast__V1__DeleteSnapshotRequest *request = NULL;
	cleanup_message Holdfast__V1__DeleteSnapshotResponse *answer = NULL;
	cleanup_connection struct connection *connection = NULL;
	char plugin[PICK_ID_SIZE], text[TEXT_SIZE];
	json_t *secrets = NULL;
	enum status status = connect_server(inv, &connection, err);

	if (status == STATUS_OK)
		status = pick_plugin(connection, inv->args[0], plugin, err);
	if (status != STATUS_OK)
		return status;
	(void)str_format(text, sizeof(text), "Delete snapshot %.128s of plugin %s?", inv->args[1], plugin);
	status = value_confirm(inv, text, err);
	if (status == STATUS_OK)
		status = request_secrets(inv, &secrets, err);
	if (status == STATUS_OK)
		status = request_make(&holdfast__v1__delete_snapshot_request__descriptor,
				      json_pack("{ss ss so}", "plugin_id", plugin, "snapshot_id",
						inv->args[1], "secrets", secrets),
				      &request, err);
	if (status != STATUS_OK)
		return status;
	(void)str_format(text, sizeof(text), "deleting snapshot %.128s", inv->args[1]);
	status = connection_call_long(connection, inv, volumes, "DeleteSnapshot", &request->base,
				      SNAPSHOT_TIMEOUT_US, text, (ProtobufCMessage **)(void *)&answer, err);
	if (status != STATUS_OK)
		return status;
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	print_line("snapshot %s of plugin %s is deleted", inv->args[1], plugin);
	return STATUS_OK;
}

enum status cmd_snapshot_list(struct invocation *inv, struct error *err)
{
	cleanup_message Holdfast__V1__ListSnapshotsRequest *request = NULL;
	cleanup_message Holdfast__V1__ListSnapshotsResponse *answer = NULL;
	cleanup_connection struct connection *connection = NULL;
	char plugin[PICK_ID_SIZE] = "";
	json_t *secrets = NULL;
	enum status status;

	if (inv->options[OPT_SECRETS_FILE] && !inv->options[OPT_PLUGIN])
		return usage_error(inv, err, "--secrets-file is for a plugin: give --plugin too");
	status = connect_server(inv, &connection, err);
	if (status == STATUS_OK && inv->options[OPT_PLUGIN])
		status = pick_plugin(connection, inv->options[OPT_PLUGIN], plugin, err);
	if (status == STATUS_OK)
		status = request_secrets(inv, &secrets, err);
	if (status == STATUS_OK)
		status = request_make(&holdfast__v1__list_snapshots_request__descriptor,
				      json_pack("{ss so}", "plugin_id", plugin, "secrets", secrets), &request,
				      err);
	if (status == STATUS_OK)
		status = pages_call(connection, inv, volumes, "ListSnapshots", &request->base, &answer, err);
	if (status != STATUS_OK)
		return status;
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	status = show_snapshots(answer->snapshots, answer->n_snapshots, inv->options[OPT_VERBOSE] != NULL,
				err);
	pages_tell_rest(&answer->base);
	return status;
}

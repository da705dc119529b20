/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"
#include "connect.h"
#include "output.h"
#include "pages.h"
#include "pick.h"
#include "request.h"
#include "show.h"
#include "spec.h"
#include "values.h"

#include "base/str.h"

#include <holdfast/v1/volumes.pb-c.h>
#include <string.h>

static const ProtobufCServiceDescriptor *const volumes = &holdfast__v1__volumes__descriptor;

/* "volume db is ..." and what stands in its way. */
static void print_registered(const Holdfast__V1__Volume *volume, const char *what)
{
	print_line("volume %s %s", volume->id, what);
	if (!volume->schedulable)
		print_line("it cannot be used yet: %s", volume->unschedulable_reason);
}

enum status cmd_volume_register(struct invocation *inv, struct error *err)
{
	Holdfast__V1__RegisterVolumeRequest request = HOLDFAST__V1__REGISTER_VOLUME_REQUEST__INIT;
	cleanup_message Holdfast__V1__RegisterVolumeResponse *answer = NULL;
	cleanup_message Holdfast__V1__Volume *volume = NULL;
	cleanup_connection struct connection *connection = NULL;
	enum status status = spec_volume_load(inv, &volume, err);

	if (status == STATUS_OK)
		status = connect_server(inv, &connection, err);
	if (status != STATUS_OK)
		return status;
	request.volume = volume;
	status = connection_call(connection, volumes, "Register", &request.base, CALL_TIMEOUT_US,
				 (ProtobufCMessage **)(void *)&answer, err);
	if (status != STATUS_OK)
		return spec_blame(inv, status, err);
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	print_registered(answer->volume ? answer->volume : volume,
			 answer->created ? "is registered" : "was registered already, it is up to date");
	return STATUS_OK;
}

#define CREATE_TIMEOUT_US (UINT64_C(600) * USEC_PER_SEC)

/* The server has stored what is asked for before the provider is: the same command goes on with it. */
static enum status explain_resume(enum status status, const char *command, const char *subject,
				  struct error *err)
{
	size_t n = strlen(err->msg);

	if (status == STATUS_DEADLINE_EXCEEDED || status == STATUS_UNAVAILABLE)
		(void)snprintf(err->msg + n, sizeof(err->msg) - n,
			       ". Next: holdfast %s %s again resumes it, it does nothing twice", command,
			       subject);
	return status;
}

enum status cmd_volume_create(struct invocation *inv, struct error *err)
{
	Holdfast__V1__CreateVolumeRequest request = HOLDFAST__V1__CREATE_VOLUME_REQUEST__INIT;
	cleanup_message Holdfast__V1__CreateVolumeResponse *answer = NULL;
	cleanup_message Holdfast__V1__Volume *volume = NULL;
	cleanup_connection struct connection *connection = NULL;
	enum status status = spec_volume_load(inv, &volume, err);
	char doing[PICK_ID_SIZE + 32];

	if (status == STATUS_OK)
		status = connect_server(inv, &connection, err);
	if (status != STATUS_OK)
		return status;
	request.volume = volume;
	(void)snprintf(doing, sizeof(doing), "creating volume %.64s", volume->id);
	status = connection_call_long(connection, inv, volumes, "Create", &request.base, CREATE_TIMEOUT_US,
				      doing, (ProtobufCMessage **)(void *)&answer, err);
	if (status != STATUS_OK)
		return inv->is_usage_error ? status
					   : explain_resume(spec_blame(inv, status, err), "volume create",
							    inv->args[0], err);
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	if (answer->volume && answer->volume->external_id[0])
		print_line("external ID %s", answer->volume->external_id);
	print_registered(answer->volume ? answer->volume : volume,
			 answer->created ? "is created" : "was created already, it is up to date");
	return STATUS_OK;
}

static bool ends_well(const Holdfast__V1__Volume *volume)
{
	return volume && volume->phase != HOLDFAST__V1__VOLUME_PHASE__VOLUME_EXPANDING;
}

enum status cmd_volume_expand(struct invocation *inv, struct error *err)
{
	cleanup_message Holdfast__V1__ExpandVolumeRequest *request = NULL;
	cleanup_message Holdfast__V1__ExpandVolumeResponse *answer = NULL;
	cleanup_connection struct connection *connection = NULL;
	char id[PICK_ID_SIZE], namespace[PICK_ID_SIZE], doing[PICK_ID_SIZE + 32], size[SIZE_TEXT_SIZE];
	json_t *secrets = NULL;
	uint64_t min, max = 0;
	enum status status = value_size(inv, "SIZE", inv->args[1], &min, err);

	if (status == STATUS_OK && inv->options[OPT_CAPACITY_MAX])
		status = value_size(inv, "--capacity-max", inv->options[OPT_CAPACITY_MAX], &max, err);
	if (status == STATUS_OK && max > 0 && max < min)
		return usage_error(inv, err, "--capacity-max %s is less than SIZE %s",
				   inv->options[OPT_CAPACITY_MAX], inv->args[1]);
	if (status == STATUS_OK)
		status = connect_server(inv, &connection, err);
	if (status == STATUS_OK)
		status = pick_volume(connection, inv->args[0], inv->options[OPT_NAMESPACE], id, namespace,
				     err);
	if (status == STATUS_OK)
		status = request_secrets(inv, &secrets, err);
	if (status == STATUS_OK)
		status = request_make(&holdfast__v1__expand_volume_request__descriptor,
				      json_pack("{ss ss sI sI so}", "id", id, "namespace", namespace,
						"capacity_min", (json_int_t)min, "capacity_max",
						(json_int_t)max, "secrets", secrets),
				      &request, err);
	if (status != STATUS_OK)
		return status;
	(void)snprintf(doing, sizeof(doing), "expanding volume %s", id);
	status = connection_call_long(connection, inv, volumes, "Expand", &request->base, CREATE_TIMEOUT_US,
				      doing, (ProtobufCMessage **)(void *)&answer, err);
	if (status != STATUS_OK)
		return inv->is_usage_error ? status : explain_resume(status, "volume expand", id, err);
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	print_line("volume %s has %s%s", id, size_text(answer->volume ? answer->volume->capacity : 0, size),
		   ends_well(answer->volume)
			   ? ""
			   : ", and its nodes are still to see that: holdfast volume status shows it");
	return STATUS_OK;
}

static enum status list_volumes(struct invocation *inv, struct connection *connection, struct error *err)
{
	Holdfast__V1__ListVolumesRequest request = HOLDFAST__V1__LIST_VOLUMES_REQUEST__INIT;
	cleanup_message Holdfast__V1__ListVolumesResponse *answer = NULL;
	char node[PICK_ID_SIZE] = "", plugin[PICK_ID_SIZE] = "";
	enum status status = STATUS_OK;

	if (inv->options[OPT_NODE])
		status = pick_known_node(connection, inv->options[OPT_NODE], node, err);
	if (status == STATUS_OK && inv->options[OPT_PLUGIN]) /* it may be gone while its volumes are not */
		status = pick_known_plugin(connection, inv->options[OPT_PLUGIN], plugin, err);
	if (status != STATUS_OK)
		return status;
	request.namespace_ = option_text(inv, OPT_NAMESPACE);
	request.filter = option_text(inv, OPT_FILTER);
	request.node_id = node;
	request.plugin_id = plugin;
	status = pages_call(connection, inv, volumes, "List", &request.base, &answer, err);
	if (status != STATUS_OK)
		return status;
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	status = show_volumes(answer->volumes, answer->n_volumes, inv->options[OPT_VERBOSE] != NULL, err);
	pages_tell_rest(&answer->base);
	return status;
}

enum status cmd_volume_status(struct invocation *inv, struct error *err)
{
	Holdfast__V1__GetVolumeRequest request = HOLDFAST__V1__GET_VOLUME_REQUEST__INIT;
	cleanup_message Holdfast__V1__GetVolumeResponse *answer = NULL;
	cleanup_connection struct connection *connection = NULL;
	char id[PICK_ID_SIZE];
	char namespace[PICK_ID_SIZE];
	enum status status;

	if (inv->options[OPT_WHY] && inv->n_args == 0)
		return usage_error(inv, err, "--why explains one volume: give its ID");
	if (inv->n_args > 0 &&
	    (inv->options[OPT_NODE] || inv->options[OPT_PLUGIN] || inv->options[OPT_FILTER]))
		return usage_error(inv, err,
				   "--node, --plugin and --filter are for the list: give them without an ID");
	status = connect_server(inv, &connection, err);
	if (status != STATUS_OK)
		return status;
	if (inv->n_args == 0)
		return list_volumes(inv, connection, err);
	status = pick_volume(connection, inv->args[0], inv->options[OPT_NAMESPACE], id, namespace, err);
	if (status != STATUS_OK)
		return status;
	request.id = id;
	request.namespace_ = namespace;
	request.why = inv->options[OPT_WHY] != NULL;
	status = connection_call(connection, volumes, "Get", &request.base, CALL_TIMEOUT_US,
				 (ProtobufCMessage **)(void *)&answer, err);
	if (status != STATUS_OK)
		return status;
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	return show_volume(answer, inv->options[OPT_VERBOSE] != NULL, err);
}

enum status cmd_volume_deregister(struct invocation *inv, struct error *err)
{
	Holdfast__V1__DeregisterVolumeRequest request = HOLDFAST__V1__DEREGISTER_VOLUME_REQUEST__INIT;
	cleanup_message Holdfast__V1__DeregisterVolumeResponse *answer = NULL;
	cleanup_connection struct connection *connection = NULL;
	char id[PICK_ID_SIZE], namespace[PICK_ID_SIZE], question[2 * PICK_ID_SIZE + 96];
	enum status status = connect_server(inv, &connection, err);

	if (status == STATUS_OK)
		status = pick_volume(connection, inv->args[0], inv->options[OPT_NAMESPACE], id, namespace,
				     err);
	if (status == STATUS_OK)
		status = value_check_whole(inv, "deregister", inv->args[0], id, err);
	if (status != STATUS_OK)
		return status;
	(void)snprintf(question, sizeof(question),
		       "Forget volume %s of namespace %s, its context and its secrets?", id, namespace);
	status = value_confirm(inv, question, err);
	if (status != STATUS_OK)
		return status;
	request.id = id;
	request.namespace_ = namespace;
	status = connection_call(connection, volumes, "Deregister", &request.base, CALL_TIMEOUT_US,
				 (ProtobufCMessage **)(void *)&answer, err);
	if (status != STATUS_OK)
		return status;
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	print_line("volume %s is deregistered, its data is untouched", id);
	return STATUS_OK;
}

#define DELETE_TIMEOUT_US (UINT64_C(300) * USEC_PER_SEC)

enum status cmd_volume_delete(struct invocation *inv, struct error *err)
{
	cleanup_message Holdfast__V1__DeleteVolumeRequest *request = NULL;
	cleanup_message Holdfast__V1__DeleteVolumeResponse *answer = NULL;
	cleanup_connection struct connection *connection = NULL;
	char id[PICK_ID_SIZE], namespace[PICK_ID_SIZE], text[2 * PICK_ID_SIZE + 64];
	json_t *secrets = NULL;
	enum status status = connect_server(inv, &connection, err);

	if (status == STATUS_OK)
		status = pick_volume(connection, inv->args[0], inv->options[OPT_NAMESPACE], id, namespace,
				     err);
	if (status == STATUS_OK)
		status = value_check_whole(inv, "delete", inv->args[0], id, err);
	if (status != STATUS_OK)
		return status;
	(void)snprintf(text, sizeof(text), "Delete volume %s of namespace %s and all its data?", id,
		       namespace);
	status = value_confirm(inv, text, err);
	if (status == STATUS_OK)
		status = request_secrets(inv, &secrets, err);
	if (status == STATUS_OK)
		status = request_make(
			&holdfast__v1__delete_volume_request__descriptor,
			json_pack("{ss ss so}", "id", id, "namespace", namespace, "secrets", secrets),
			&request, err);
	if (status != STATUS_OK)
		return status;
	(void)snprintf(text, sizeof(text), "deleting volume %s", id);
	status = connection_call_long(connection, inv, volumes, "Delete", &request->base, DELETE_TIMEOUT_US,
				      text, (ProtobufCMessage **)(void *)&answer, err);
	if (status != STATUS_OK)
		return inv->is_usage_error ? status : explain_resume(status, "volume delete", id, err);
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	print_line("volume %s is deleted at its provider and forgotten", id);
	return STATUS_OK;
}

enum status cmd_volume_external(struct invocation *inv, struct error *err)
{
	Holdfast__V1__ListExternalVolumesRequest request = HOLDFAST__V1__LIST_EXTERNAL_VOLUMES_REQUEST__INIT;
	cleanup_message Holdfast__V1__ListExternalVolumesResponse *answer = NULL;
	cleanup_connection struct connection *connection = NULL;
	char plugin[PICK_ID_SIZE];
	enum status status = connect_server(inv, &connection, err);

	if (status == STATUS_OK)
		status = pick_plugin(connection, inv->args[0], plugin, err);
	if (status != STATUS_OK)
		return status;
	request.plugin_id = plugin;
	status = pages_call(connection, inv, volumes, "ListExternal", &request.base, &answer, err);
	if (status != STATUS_OK)
		return status;
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	status = show_external(answer->volumes, answer->n_volumes, inv->options[OPT_VERBOSE] != NULL, err);
	pages_tell_rest(&answer->base);
	return status;
}

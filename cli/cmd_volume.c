#include "commands.h"
#include "connect.h"
#include "output.h"
#include "pick.h"
#include "show.h"
#include "spec.h"

#include "base/str.h"
#include "conf/conf.h"

#include <holdfast/v1/volumes.pb-c.h>
#include <inttypes.h>

static const ProtobufCServiceDescriptor *const volumes = &holdfast__v1__volumes__descriptor;

static enum status load_volume(struct invocation *inv, Holdfast__V1__Volume **ret, struct error *err)
{
	cleanup_message Holdfast__V1__Volume *volume = NULL;
	struct conf *conf = NULL;
	enum status status = conf_load(inv->args[0], &conf, err);

	if (status == STATUS_OK)
		status = spec_volume(conf, &volume, err);
	conf_free(conf);
	if (status == STATUS_OK)
		status = option_apply(inv, OPT_NAMESPACE, &volume->namespace_, err);
	if (status == STATUS_OK)
		*ret = TAKE_PTR(volume);
	return status;
}

enum status cmd_volume_register(struct invocation *inv, struct error *err)
{
	Holdfast__V1__RegisterVolumeRequest request = HOLDFAST__V1__REGISTER_VOLUME_REQUEST__INIT;
	cleanup_message Holdfast__V1__RegisterVolumeResponse *answer = NULL;
	cleanup_message Holdfast__V1__Volume *volume = NULL;
	cleanup_connection struct connection *connection = NULL;
	enum status status = load_volume(inv, &volume, err);

	if (status == STATUS_OK)
		status = connect_server(inv, &connection, err);
	if (status != STATUS_OK)
		return status;
	request.volume = volume;
	status = connection_call(connection, volumes, "Register", &request.base, CALL_TIMEOUT_US,
				 (ProtobufCMessage **)(void *)&answer, err);
	if (status != STATUS_OK)
		return status;
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	print_line("volume %s %s", answer->volume ? answer->volume->id : volume->id,
		   answer->created ? "is registered" : "was registered already, it is up to date");
	if (answer->volume && !answer->volume->schedulable)
		print_line("it cannot be used yet: %s", answer->volume->unschedulable_reason);
	return STATUS_OK;
}

/* The message of JSON and table alike; the caller prints. */
static enum status list_volumes(struct invocation *inv, struct connection *connection, struct error *err)
{
	Holdfast__V1__ListVolumesRequest request = HOLDFAST__V1__LIST_VOLUMES_REQUEST__INIT;
	cleanup_message Holdfast__V1__ListVolumesResponse *answer = NULL;
	enum status status;

	request.namespace_ = option_text(inv, OPT_NAMESPACE);
	status = connection_call(connection, volumes, "List", &request.base, CALL_TIMEOUT_US,
				 (ProtobufCMessage **)(void *)&answer, err);
	if (status != STATUS_OK)
		return status;
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	return show_volumes(answer->volumes, answer->n_volumes, err);
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
	return show_volume(answer->volume, answer->why, err);
}

/* What cannot be undone is about what was named, not about what begins like it: something else may be left
 * when the one that is meant is gone. */
static enum status check_whole(struct invocation *inv, const char *what, const char *given, const char *id,
			       struct error *err)
{
	if (str_eq(given, id))
		return STATUS_OK;
	return usage_error(inv, err, "%s needs whole ids: '%s' is only the beginning of %s", what, given, id);
}

enum status cmd_volume_deregister(struct invocation *inv, struct error *err)
{
	Holdfast__V1__DeregisterVolumeRequest request = HOLDFAST__V1__DEREGISTER_VOLUME_REQUEST__INIT;
	cleanup_message Holdfast__V1__DeregisterVolumeResponse *answer = NULL;
	cleanup_connection struct connection *connection = NULL;
	char id[PICK_ID_SIZE];
	char namespace[PICK_ID_SIZE];
	enum status status = connect_server(inv, &connection, err);

	if (status == STATUS_OK)
		status = pick_volume(connection, inv->args[0], inv->options[OPT_NAMESPACE], id, namespace,
				     err);
	if (status == STATUS_OK)
		status = check_whole(inv, "deregister", inv->args[0], id, err);
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

/* A node may be gone while its claims are not: its id is taken as it is then. */
static enum status pick_claim_node(struct connection *connection, const char *given,
				   char ret[static PICK_ID_SIZE], struct error *err)
{
	enum status status = pick_node(connection, given, ret, err);

	if (status != STATUS_NOT_FOUND)
		return status;
	return str_copy(ret, PICK_ID_SIZE, given) < 0 ? status : STATUS_OK;
}

static enum status check_attest(struct invocation *inv, const char *id, const char *node, struct error *err)
{
	enum status status;

	if (!inv->options[OPT_ATTEST])
		return STATUS_OK;
	status = check_whole(inv, "--attest", inv->args[0], id, err);
	return status == STATUS_OK ? check_whole(inv, "--attest", inv->args[1], node, err) : status;
}

enum status cmd_volume_detach(struct invocation *inv, struct error *err)
{
	Holdfast__V1__DetachVolumeRequest request = HOLDFAST__V1__DETACH_VOLUME_REQUEST__INIT;
	cleanup_message Holdfast__V1__DetachVolumeResponse *answer = NULL;
	cleanup_connection struct connection *connection = NULL;
	char id[PICK_ID_SIZE];
	char namespace[PICK_ID_SIZE];
	char node[PICK_ID_SIZE];
	enum status status;

	if (inv->options[OPT_ATTEST] && !inv->options[OPT_ATTEST][0])
		return usage_error(inv, err, "--attest needs a reason, it goes on record");
	status = connect_server(inv, &connection, err);
	if (status == STATUS_OK)
		status = pick_volume(connection, inv->args[0], inv->options[OPT_NAMESPACE], id, namespace,
				     err);
	if (status == STATUS_OK)
		status = pick_claim_node(connection, inv->args[1], node, err);
	if (status == STATUS_OK)
		status = check_attest(inv, id, node, err);
	if (status != STATUS_OK)
		return status;
	request.id = id;
	request.namespace_ = namespace;
	request.node_id = node;
	request.attest_reason = option_text(inv, OPT_ATTEST);
	status = connection_call(connection, volumes, "Detach", &request.base, CALL_TIMEOUT_US,
				 (ProtobufCMessage **)(void *)&answer, err);
	if (status != STATUS_OK)
		return status;
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	return show_claims(answer->claims, answer->n_claims, NULL, err);
}

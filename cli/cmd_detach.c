/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"
#include "connect.h"
#include "output.h"
#include "pick.h"
#include "show.h"
#include "values.h"

#include "base/clock.h"
#include "base/str.h"

#include <holdfast/v1/volumes.pb-c.h>

static const ProtobufCServiceDescriptor *const volumes = &holdfast__v1__volumes__descriptor;

/* The provider may take its time, and others may be before it. */
#define FENCE_TIMEOUT_US (UINT64_C(300) * USEC_PER_SEC)

static enum status check_options(struct invocation *inv, const char *id, const char *node, struct error *err)
{
	const char *option = inv->options[OPT_FENCE]		? "--fence"
			     : inv->options[OPT_WITHOUT_PLUGIN] ? "--without-plugin"
								: "--attest";
	enum status status;

	if (!inv->options[OPT_ATTEST] && !inv->options[OPT_FENCE] && !inv->options[OPT_WITHOUT_PLUGIN])
		return STATUS_OK;
	status = value_check_whole(inv, option, inv->args[0], id, err);
	return status == STATUS_OK ? value_check_whole(inv, option, inv->args[1], node, err) : status;
}

static enum status call_detach(struct connection *connection,
			       const Holdfast__V1__DetachVolumeRequest *request,
			       Holdfast__V1__DetachVolumeResponse **ret, struct error *err)
{
	return connection_call(connection, volumes, "Detach", &request->base,
			       request->fence_reason[0] != '\0' ? FENCE_TIMEOUT_US : CALL_TIMEOUT_US,
			       (ProtobufCMessage **)(void *)ret, err);
}

static enum status nothing(const struct invocation *inv, const Holdfast__V1__DetachVolumeRequest *request,
			   struct error *err)
{
	return error_set(
		err, STATUS_FAILED_PRECONDITION, 0,
		"nothing %s: node %s holds no claim of volume %s that %s. Next: holdfast volume status %s "
		"--why",
		inv->options[OPT_DRY_RUN] ? "would change" : "was changed", request->node_id, request->id,
		request->attest_reason[0] ? "an attestation could free" : "could be ended", request->id);
}

static const char *question_of(const Holdfast__V1__DetachVolumeRequest *request,
			       const Holdfast__V1__DetachVolumeResponse *answer)
{
	if (request->fence_reason[0] != '\0')
		return "The provider will cut the node off from the volume: what it still writes is lost. Do "
		       "it?";
	if (request->without_plugin_reason[0] != '\0')
		return "What the plugin still has of the volume, a mapping or a connection for instance, "
		       "nobody will undo. Is it certain that it will never do it?";
	if (answer->claims[0]->state == HOLDFAST__V1__CLAIM_STATE__NODE_DETACHED)
		return "If the volume is still attached there, the next node may not get it, or two may "
		       "write. Is it certain that the provider has let go?";
	return "If the node still writes, data is lost. Is it certain that it does not?";
}

/* Of a release without the plugin: the server says it, line by line. */
static void print_bypassed(const Holdfast__V1__DetachVolumeResponse *answer)
{
	if (answer->bypassed[0] == '\0')
		return;
	print_line("nobody confirms:");
	print_text(stdout, answer->bypassed);
}

/* Show what an attestation would do without the evidence that is there otherwise, and ask. */
static enum status confirm(struct invocation *inv, struct connection *connection,
			   Holdfast__V1__DetachVolumeRequest *request, struct error *err)
{
	cleanup_message Holdfast__V1__DetachVolumeResponse *answer = NULL;
	enum status status;

	request->dry_run = true;
	status = call_detach(connection, request, &answer, err);
	if (status == STATUS_OK && answer->n_claims == 0)
		return nothing(inv, request, err);
	request->dry_run = false;
	if (status == STATUS_OK && !inv->options[OPT_YES] && !inv->options[OPT_JSON] &&
	    request->attest_reason[0] != '\0')
		status = show_bypassed(answer->claims, answer->n_claims, err);
	if (status == STATUS_OK && !inv->options[OPT_YES] && !inv->options[OPT_JSON])
		print_bypassed(answer);
	return status == STATUS_OK ? value_confirm(inv, question_of(request, answer), err) : status;
}

static enum status detach(struct invocation *inv, struct connection *connection,
			  Holdfast__V1__DetachVolumeRequest *request, struct error *err)
{
	cleanup_message Holdfast__V1__DetachVolumeResponse *answer = NULL;
	bool is_attest = request->attest_reason[0] != '\0';
	bool is_forced =
		is_attest || request->fence_reason[0] != '\0' || request->without_plugin_reason[0] != '\0';
	enum status status = STATUS_OK;

	if (is_forced && !request->dry_run)
		status = confirm(inv, connection, request, err);
	if (status == STATUS_OK)
		status = call_detach(connection, request, &answer, err);
	if (status == STATUS_OK && inv->options[OPT_JSON])
		status = print_answer(&answer->base, err);
	if (status != STATUS_OK)
		return status;
	if (answer->n_claims == 0 && (is_forced || request->dry_run))
		return nothing(inv, request, err);
	if (inv->options[OPT_JSON])
		return STATUS_OK;
	if (answer->n_claims == 0)
		print_line("node %s holds no claim of volume %s", request->node_id, request->id);
	if (is_attest && request->dry_run)
		status = show_bypassed(answer->claims, answer->n_claims, err);
	if (request->dry_run)
		print_bypassed(answer);
	return status == STATUS_OK ? show_claims(answer->claims, answer->n_claims, NULL, true, err) : status;
}

enum status cmd_volume_detach(struct invocation *inv, struct error *err)
{
	Holdfast__V1__DetachVolumeRequest request = HOLDFAST__V1__DETACH_VOLUME_REQUEST__INIT;
	cleanup_connection struct connection *connection = NULL;
	char id[PICK_ID_SIZE];
	char namespace[PICK_ID_SIZE];
	char node[PICK_ID_SIZE];
	enum status status = STATUS_OK;

	if (!!inv->options[OPT_FENCE] + !!inv->options[OPT_ATTEST] + !!inv->options[OPT_WITHOUT_PLUGIN] > 1)
		return usage_error(inv, err,
				   "give --fence, the provider's word, --attest, your own, or "
				   "--without-plugin, the node's; not both");
	if (inv->options[OPT_ATTEST])
		status = value_reason(inv, OPT_ATTEST, &request.attest_reason, err);
	if (status == STATUS_OK && inv->options[OPT_FENCE])
		status = value_reason(inv, OPT_FENCE, &request.fence_reason, err);
	if (status == STATUS_OK && inv->options[OPT_WITHOUT_PLUGIN])
		status = value_reason(inv, OPT_WITHOUT_PLUGIN, &request.without_plugin_reason, err);
	if (status == STATUS_OK)
		status = connect_server(inv, &connection, err);
	if (status == STATUS_OK)
		status = pick_volume(connection, inv->args[0], inv->options[OPT_NAMESPACE], id, namespace,
				     err);
	if (status == STATUS_OK)
		status = pick_known_node(connection, inv->args[1], node, err);
	if (status == STATUS_OK)
		status = check_options(inv, id, node, err);
	if (status != STATUS_OK)
		return status;
	request.id = id;
	request.namespace_ = namespace;
	request.node_id = node;
	request.dry_run = inv->options[OPT_DRY_RUN] != NULL;
	return detach(inv, connection, &request, err);
}

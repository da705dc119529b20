/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "call/call.h"
#include "call/spec.h"
#include "command/commands.h"
#include "command/request.h"
#include "command/values.h"
#include "show/output.h"
#include "show/show.h"

#include <holdfast/v1/volumes.pb-c.h>
#include <string.h>

enum { QUESTION_SIZE = 2 * PICK_ID_SIZE + 96 };

/* --- register, create --- */

/* "volume db is ..." and what stands in its way. */
static void print_registered(const Holdfast__V1__Volume *volume, const char *what)
{
	print_line("volume %s %s", volume->id, what);
	if (!volume->schedulable)
		print_line("it cannot be used yet: %s", volume->unschedulable_reason);
}

enum status volume_register_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__RegisterVolumeRequest *request = message;

	return spec_volume_load(call->inv, &request->volume, err);
}

enum status volume_register_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__RegisterVolumeRequest *request = call->request;
	const Holdfast__V1__RegisterVolumeResponse *answer = message;

	(void)err;
	print_registered(answer->volume ? answer->volume : request->volume,
			 answer->created ? "is registered" : "was registered already, it is up to date");
	return STATUS_OK;
}

enum status volume_register_refused(struct call *call, enum status status, struct error *err)
{
	return spec_blame(call->inv, spec_blame_volume, status, err);
}

enum status volume_create_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__CreateVolumeRequest *request = message;
	enum status status = spec_volume_load(call->inv, &request->volume, err);

	if (status == STATUS_OK)
		call->subject = request->volume->id;
	return status;
}

/* The server has stored what is asked for before the provider is: the same command goes on with it. */
static enum status explain_resume(const struct call *call, enum status status, const char *subject,
				  struct error *err)
{
	size_t n = strlen(err->msg);

	if (status == STATUS_DEADLINE_EXCEEDED || status == STATUS_UNAVAILABLE)
		(void)snprintf(err->msg + n, sizeof(err->msg) - n,
			       ". Next: holdfast %s %s again resumes it, it does nothing twice",
			       call->inv->command->path, subject);
	return status;
}

enum status volume_create_refused(struct call *call, enum status status, struct error *err)
{
	return explain_resume(call, spec_blame(call->inv, spec_blame_volume, status, err), call->inv->args[0],
			      err);
}

enum status volume_resumable(struct call *call, enum status status, struct error *err)
{
	return explain_resume(call, status, call->subject, err);
}

enum status volume_create_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__CreateVolumeRequest *request = call->request;
	const Holdfast__V1__CreateVolumeResponse *answer = message;

	(void)err;
	if (answer->volume && answer->volume->external_id[0])
		print_line("external ID %s", answer->volume->external_id);
	print_registered(answer->volume ? answer->volume : request->volume,
			 answer->created ? "is created" : "was created already, it is up to date");
	return STATUS_OK;
}

/* --- expand --- */

enum status volume_expand_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__ExpandVolumeRequest *request = message;
	const char *size = call->inv->args[1];
	const char *max = call->inv->options[OPT_CAPACITY_MAX];
	enum status status = value_size(call->inv, "SIZE", size, &request->capacity_min, err);

	if (status == STATUS_OK && max)
		status = value_size(call->inv, "--capacity-max", max, &request->capacity_max, err);
	if (status == STATUS_OK && max && request->capacity_max < request->capacity_min)
		return usage_error(call->inv, err, "--capacity-max %s is less than SIZE %s", max, size);
	return status;
}

enum status volume_expand_fill(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__ExpandVolumeRequest *request = message;
	json_t *secrets = NULL;
	enum status status = call_pick_volume(call, &request->id, &request->namespace_, err);

	if (status == STATUS_OK)
		status = request_secrets(call->inv, &secrets, err);
	if (status == STATUS_OK)
		status = call_replace(call,
				      json_pack("{ss ss sI sI so}", "id", request->id, "namespace",
						request->namespace_, "capacity_min",
						(json_int_t)request->capacity_min, "capacity_max",
						(json_int_t)request->capacity_max, "secrets", secrets),
				      err);
	if (status == STATUS_OK)
		call->subject = ((const Holdfast__V1__ExpandVolumeRequest *)call->request)->id;
	return status;
}

static bool ends_well(const Holdfast__V1__Volume *volume)
{
	return volume && volume->phase != HOLDFAST__V1__VOLUME_PHASE__VOLUME_EXPANDING;
}

enum status volume_expand_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__ExpandVolumeResponse *answer = message;
	char size[SIZE_TEXT_SIZE];

	(void)err;
	print_line("volume %s has %s%s", call->subject,
		   size_text(answer->volume ? answer->volume->capacity : 0, size),
		   ends_well(answer->volume)
			   ? ""
			   : ", and its nodes are still to see that: holdfast volume status shows it");
	return STATUS_OK;
}

/* --- status --- */

enum status volume_list_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__ListVolumesRequest *request = message;

	if (call_has(call, OPT_WHY))
		return usage_error(call->inv, err, "--why explains one volume: give its ID");
	call_set(call, &request->namespace_, call->inv->options[OPT_NAMESPACE]);
	call_set(call, &request->filter, call->inv->options[OPT_FILTER]);
	return STATUS_OK;
}

enum status volume_list_fill(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__ListVolumesRequest *request = message;
	const char *node = call->inv->options[OPT_NODE];
	const char *plugin = call->inv->options[OPT_PLUGIN];
	enum status status = STATUS_OK;

	if (node)
		status = call_pick(call, pick_known_node, node, &request->node_id, err);
	if (status == STATUS_OK && plugin) /* it may be gone while its volumes are not */
		status = call_pick(call, pick_known_plugin, plugin, &request->plugin_id, err);
	return status;
}

enum status volume_list_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__ListVolumesResponse *answer = message;

	return show_volumes(answer->volumes, answer->n_volumes, call_has(call, OPT_VERBOSE), err);
}

enum status volume_get_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__GetVolumeRequest *request = message;

	if (call_has(call, OPT_NODE) || call_has(call, OPT_PLUGIN) || call_has(call, OPT_FILTER))
		return usage_error(call->inv, err,
				   "--node, --plugin and --filter are for the list: give them without an ID");
	request->why = call_has(call, OPT_WHY);
	return STATUS_OK;
}

enum status volume_get_fill(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__GetVolumeRequest *request = message;

	return call_pick_volume(call, &request->id, &request->namespace_, err);
}

enum status volume_get_show(struct call *call, const void *message, struct error *err)
{
	return show_volume(message, call_has(call, OPT_VERBOSE), err);
}

/* --- deregister, delete --- */

enum status volume_deregister_fill(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__DeregisterVolumeRequest *request = message;
	char question[QUESTION_SIZE];
	enum status status = call_pick_volume(call, &request->id, &request->namespace_, err);

	if (status == STATUS_OK)
		status = value_check_whole(call->inv, "deregister", call->inv->args[0], request->id, err);
	if (status != STATUS_OK)
		return status;
	(void)snprintf(question, sizeof(question),
		       "Forget volume %s of namespace %s, its context and its secrets?", request->id,
		       request->namespace_);
	return value_confirm(call->inv, question, err);
}

enum status volume_deregister_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__DeregisterVolumeRequest *request = call->request;

	(void)message;
	(void)err;
	print_line("volume %s is deregistered, its data is untouched", request->id);
	return STATUS_OK;
}

enum status volume_delete_fill(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__DeleteVolumeRequest *request = message;
	char question[QUESTION_SIZE];
	json_t *secrets = NULL;
	enum status status = call_pick_volume(call, &request->id, &request->namespace_, err);

	if (status == STATUS_OK)
		status = value_check_whole(call->inv, "delete", call->inv->args[0], request->id, err);
	if (status != STATUS_OK)
		return status;
	(void)snprintf(question, sizeof(question), "Delete volume %s of namespace %s and all its data?",
		       request->id, request->namespace_);
	status = value_confirm(call->inv, question, err);
	if (status == STATUS_OK)
		status = request_secrets(call->inv, &secrets, err);
	if (status == STATUS_OK)
		status = call_replace(call,
				      json_pack("{ss ss so}", "id", request->id, "namespace",
						request->namespace_, "secrets", secrets),
				      err);
	if (status == STATUS_OK)
		call->subject = ((const Holdfast__V1__DeleteVolumeRequest *)call->request)->id;
	return status;
}

enum status volume_delete_show(struct call *call, const void *message, struct error *err)
{
	(void)message;
	(void)err;
	print_line("volume %s is deleted at its provider and forgotten", call->subject);
	return STATUS_OK;
}

/* --- external --- */

enum status volume_external_fill(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__ListExternalVolumesRequest *request = message;

	return call_pick(call, pick_plugin, call->inv->args[0], &request->plugin_id, err);
}

enum status volume_external_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__ListExternalVolumesResponse *answer = message;

	return show_external(answer->volumes, answer->n_volumes, call_has(call, OPT_VERBOSE), err);
}

/* --- detach --- */

/* The provider may take its time, and others may be before it. */
#define FENCE_TIMEOUT_US (UINT64_C(300) * USEC_PER_SEC)

static enum status check_whole_ids(struct invocation *inv, const char *id, const char *node,
				   struct error *err)
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

static enum status no_claims(const struct invocation *inv, const Holdfast__V1__DetachVolumeRequest *request,
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

static bool is_forced(const Holdfast__V1__DetachVolumeRequest *request)
{
	return request->attest_reason[0] != '\0' || request->fence_reason[0] != '\0' ||
	       request->without_plugin_reason[0] != '\0';
}

/* Show what an attestation would do without the evidence that is there otherwise, and ask. */
static enum status confirm_detach(struct call *call, Holdfast__V1__DetachVolumeRequest *request,
				  struct error *err)
{
	cleanup_message Holdfast__V1__DetachVolumeResponse *answer = NULL;
	bool is_shown = !call_has(call, OPT_YES) && !call_has(call, OPT_JSON);
	enum status status;

	request->dry_run = true;
	status = call_method(call, &answer, err);
	request->dry_run = false;
	if (status == STATUS_OK && answer->n_claims == 0)
		return no_claims(call->inv, request, err);
	if (status == STATUS_OK && is_shown && request->attest_reason[0] != '\0')
		status = show_bypassed(answer->claims, answer->n_claims, err);
	if (status == STATUS_OK && is_shown)
		print_bypassed(answer);
	return status == STATUS_OK ? value_confirm(call->inv, question_of(request, answer), err) : status;
}

enum status volume_detach_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__DetachVolumeRequest *request = message;
	enum status status = STATUS_OK;

	if (call_has(call, OPT_FENCE) + call_has(call, OPT_ATTEST) + call_has(call, OPT_WITHOUT_PLUGIN) > 1)
		return usage_error(call->inv, err,
				   "give --fence, the provider's word, --attest, your own, or "
				   "--without-plugin, the node's; not both");
	if (call_has(call, OPT_ATTEST))
		status = call_reason(call, OPT_ATTEST, &request->attest_reason, err);
	if (status == STATUS_OK && call_has(call, OPT_FENCE))
		status = call_reason(call, OPT_FENCE, &request->fence_reason, err);
	if (status == STATUS_OK && call_has(call, OPT_WITHOUT_PLUGIN))
		status = call_reason(call, OPT_WITHOUT_PLUGIN, &request->without_plugin_reason, err);
	request->dry_run = call_has(call, OPT_DRY_RUN);
	if (call_has(call, OPT_FENCE))
		call->timeout_us = FENCE_TIMEOUT_US;
	return status;
}

enum status volume_detach_fill(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__DetachVolumeRequest *request = message;
	enum status status = call_pick_volume(call, &request->id, &request->namespace_, err);

	if (status == STATUS_OK)
		status = call_pick(call, pick_known_node, call->inv->args[1], &request->node_id, err);
	if (status == STATUS_OK)
		status = check_whole_ids(call->inv, request->id, request->node_id, err);
	if (status == STATUS_OK && is_forced(request) && !request->dry_run)
		status = confirm_detach(call, request, err);
	return status;
}

enum status volume_detach_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__DetachVolumeRequest *request = call->request;
	const Holdfast__V1__DetachVolumeResponse *answer = message;
	enum status status = STATUS_OK;

	if (call_has(call, OPT_JSON))
		status = print_answer(&answer->base, err);
	if (status == STATUS_OK && answer->n_claims == 0 && (is_forced(request) || request->dry_run))
		return no_claims(call->inv, request, err);
	if (status != STATUS_OK || call_has(call, OPT_JSON))
		return status;
	if (answer->n_claims == 0)
		print_line("node %s holds no claim of volume %s", request->node_id, request->id);
	if (request->attest_reason[0] != '\0' && request->dry_run)
		status = show_bypassed(answer->claims, answer->n_claims, err);
	if (request->dry_run)
		print_bypassed(answer);
	return status == STATUS_OK ? show_claims(answer->claims, answer->n_claims, NULL, true, err) : status;
}

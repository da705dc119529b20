/* SPDX-License-Identifier: Apache-2.0 */
#include "model/volume.h"

#include "examples.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "call/call.h"
#include "call/spec.h"
#include "command/commands.h"
#include "command/request.h"
#include "command/values.h"
#include "operator/events.h"
#include "show/show.h"

#include <errno.h>
#include <fcntl.h>
#include <holdfast/v1/volumes.pb-c.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static enum status write_new(const char *path, const char *text, struct error *err)
{
	cleanup_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	int r;

	if (fd < 0 && errno == EEXIST)
		return error_set(err, STATUS_ALREADY_EXISTS, 0,
				 "%s exists and is not overwritten. Next: holdfast volume init OTHER-FILE",
				 path);
	if (fd < 0)
		return error_set(err, status_from_errno(errno), errno, "cannot make %s", path);
	r = fd_write_all(fd, text, strlen(text));
	if (r < 0)
		return error_set(err, status_from_errno(r), r, "cannot write %s", path);
	return STATUS_OK;
}

static enum status cmd_volume_init(struct invocation *inv, struct error *err)
{
	const char *type = inv->options[OPT_TYPE] ? inv->options[OPT_TYPE] : "csi";
	const char *path = inv->n_args > 0 ? inv->args[0] : "volume.hcl";
	bool is_csi = str_eq(type, "csi");

	if (!is_csi && !str_eq(type, "native"))
		return usage_error(inv, err, "--type is csi or native, not '%s'", type);
	TRY(write_new(path, is_csi ? example_csi : example_native, err));
	if (inv->options[OPT_JSON])
		return print_json(json_pack("{ss}", "file", path), err);
	print_line("%s is an example: change it, then holdfast volume %s %s", path,
		   is_csi ? "create" : "register", path);
	return STATUS_OK;
}

static DEFINE_ROWS(volume_table, holdfast__v1__volume, "no volumes", COL("ID", "{id}"),
		   COL("PLUGIN", "{plugin_id}"), COL_STATE("SCHEDULABLE", "{schedulable}"),
		   COL("ACCESS MODE", "{access_mode}"), COL_NUMBER("READERS", "{readers}"),
		   COL_NUMBER("WRITERS", "{writers}"),
		   COL_NUMBER("FULL", "{usages.percent?{usages.percent}%}"),
		   COL("AGE", "{create_time_ms:age}"), COL("NAMESPACE", "{namespace}"),
		   COL_MORE("TYPE", "{type}"), COL_MORE("PROFILE", "{profile}"),
		   COL_MORE("EXTERNAL ID", "{external_id}"), COL_MORE("CAPACITY", "{capacity:size}"),
		   COL_MORE("PHASE", "{phase?{phase}}"),
		   COL_MORE("NOT SCHEDULABLE BECAUSE", "{unschedulable_reason}"));

static DEFINE_ROWS(source_page, holdfast__v1__source, NULL, COL("source", "{class}"),
		   COL_SET("by_id", "{by_id}"), COL_SET("server", "{server}"), COL_SET("export", "{export}"),
		   COL_SET("host volume", "{host_volume}"),
		   COL_SET("size", "{size_bytes?{size_bytes} bytes}"),
		   COL_SET("inodes", "{inodes?{inodes}}"));

#define IN_USE "readers: {readers}, writers: {writers}"
#define OTHER_NAMES "other names of its storage: {held_by_others}"
#define IS_FREE "{readers?|{writers?|{held_by_others?|{may_be_held?|y}}}}"
#define PERHAPS "perhaps a node that has not reported, see --why"
#define GROWN "{bytes?{bytes:size}|not grown yet} on node {node_id}{bytes?, as its plugin reports}"
#define NOT_GROWN_YET "not grown yet: the next node that mounts it for write grows it"

static DEFINE_ROWS(grown_page, holdfast__v1__node_capacity, NULL, COL_WHEN("{#?|y}", "file system", GROWN),
		   COL_WHEN("{#?y}", "", GROWN));

static DEFINE_ROWS(capability_table, holdfast__v1__capability, NULL, COL("ACCESS MODE", "{access_mode}"),
		   COL("ATTACHMENT MODE", "{attachment_mode}"));

/* rack=R1,zone=a */
static DEFINE_ROWS(topology_page, holdfast__v1__topology, NULL, LINE(NULL, "{segments}"));

static DEFINE_ROWS(volume_page, holdfast__v1__volume, NULL, COL("ID", "{id}"), COL("name", "{name}"),
		   COL_SET("description", "{description}"), COL("namespace", "{namespace}"),
		   COL("external ID", "{external_id}"), COL("type", "{type}"), COL("plugin", "{plugin_id}"),
		   COL_SET("profile", "{profile}"), PART_WHEN("{source.class?y}", "source", &source_page),
		   COL("schedulable", "{schedulable}"),
		   COL_WHEN("{schedulable?|y}", "because", "{unschedulable_reason}"),
		   COL_SET("provider", "{provider}"),
		   COL_WHEN("{provider}", "provider version", "{provider_version}"),
		   COL_WHEN("{controller_required?y}", "controllers healthy",
			    "{controllers_healthy}/{controllers_expected}"),
		   COL("nodes healthy", "{nodes_healthy}/{nodes_expected}"),
		   COL_SET("phase", "{phase?{phase}}"), COL_SET("last try", "{phase_error}"),
		   COL_SET("capacity", "{capacity:size}"),
		   COL_SET("capacity at least", "{capacity_min:size}"),
		   COL_SET("warn at", "{warn_at?{warn_at}%}"), COL("reclaim", "{reclaim?{reclaim}|keep}"),
		   COL_SET("capacity at most", "{capacity_max:size}"), PART("node_capacities", &grown_page),
		   COL_WHEN("{node_expansion_due?{phase?|y}}", "file system", NOT_GROWN_YET),
		   COL_SET("file system type", "{mount_options.fs_type}"),
		   COL_SET("mount flags", "{mount_options.mount_flags?[redacted]}"),
		   COL_SET("from snapshot", "{snapshot_id}"), COL_SET("from volume", "{clone_id}"),
		   COL_SET("shares storage of", "{shares}"),
		   COL_WHEN("{on_node_loss.after_ms?y}", "on node loss",
			    "{on_node_loss.do} after {on_node_loss.after_ms:duration}"),
		   COL_WHEN("{snapshots.every_ms?y}", "snapshots",
			    "every {snapshots.every_ms:duration}, keep {snapshots.keep}; there are "
			    "{snapshots_state.kept}"),
		   COL_WHEN("{snapshots_state.last_ms?y}", "last snapshot", "{snapshots_state.last_ms:time}"),
		   COL_WHEN("{snapshots_state.next_ms?y}", "next snapshot", "{snapshots_state.next_ms:time}"),
		   COL_SET("snapshots fail", "{snapshots_state.error}"),
		   COL_SET("in use by", "{readers?" IN_USE "|{writers?" IN_USE "}}"),
		   COL_SET("in use by", "{held_by_others?" OTHER_NAMES "}"),
		   COL_WHEN("{may_be_held?y}", "in use by", PERHAPS),
		   COL_WHEN(IS_FREE, "in use by", "nobody"),
		   COL_SET("access mode", "{access_mode}"), /* those of the claims: a free one has no mode */
		   COL_SET("attachment mode", "{attachment_mode}"), COL("generation", "{generation}"),
		   COL("age", "{create_time_ms:age}"), LINE("{topologies?y}", ""),
		   LINE("{topologies?y}", "topologies"), PART("topologies", &topology_page),
		   TABLE("capabilities", "requested_capabilities", &capability_table),
		   LINE("{history_error?y}", "claims that are freed are left out: {history_error}"),
		   TABLE("claims", "claims", &show_claims), TABLE("usage", "usages", &show_usages));

static void show_why(const Holdfast__V1__GetVolumeResponse *answer)
{
	if (!answer->why[0] && answer->n_explanations == 0)
		return;
	(void)fputs("\nwhy\n", stdout);
	if (answer->why[0])
		print_text(stdout, answer->why);
	for (size_t i = 0; i < answer->n_explanations; i++)
		if (!strstr(answer->why, answer->explanations[i]->text))
			print_text(stdout, answer->explanations[i]->text);
}

/* Copies @volume to @ret with those of its claims that are @freed, or are not, which @claims has room for. */
static void choose_claims(const Holdfast__V1__Volume *volume, bool freed, Holdfast__V1__Claim **claims,
			  Holdfast__V1__Volume *ret)
{
	*ret = *volume;
	ret->claims = claims;
	ret->n_claims = 0;
	for (size_t i = 0; i < volume->n_claims; i++)
		if ((volume->claims[i]->state == HOLDFAST__V1__CLAIM_STATE__FREED) == freed)
			claims[ret->n_claims++] = volume->claims[i];
}

/* A freed claim is history: it is not among the claims that hold the volume. */
static enum status show_claims_apart(const Holdfast__V1__Volume *volume, bool verbose, struct error *err)
{
	cleanup_free Holdfast__V1__Claim **claims = calloc(volume->n_claims + 1, sizeof(void *));
	Holdfast__V1__Volume part;

	if (!claims)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot show a volume");
	choose_claims(volume, false, claims, &part);
	TRY(show_page(&volume_page, &part, NULL, verbose, err));
	choose_claims(volume, true, claims, &part);
	if (verbose)
		return show_list(&show_claims, "freed claims", part.claims, part.n_claims, verbose, err);
	if (part.n_claims > 0)
		print_line("freed claims: %zu; --verbose lists them", part.n_claims);
	return STATUS_OK;
}

/* Prints the nodes whose file system is measured at less than three quarters of the size that the plugin
 * reports after an expansion. */
static void show_not_grown(const Holdfast__V1__Volume *volume)
{
	char size[SIZE_TEXT_SIZE], age[AGE_SIZE];

	for (size_t i = 0; i < volume->n_node_capacities; i++) {
		const Holdfast__V1__NodeCapacity *reported = volume->node_capacities[i];

		for (size_t k = 0; k < volume->n_usages; k++) {
			const Holdfast__V1__VolumeUsage *usage = volume->usages[k];

			if (str_eq(usage->node_id, reported->node_id) && usage->total_bytes > 0 &&
			    usage->total_bytes < reported->bytes - reported->bytes / 4)
				print_line("its file system on node %s has not grown: it has %s, measured %s "
					   "ago",
					   usage->node_id, size_text(usage->total_bytes, size),
					   age_text(usage->time_ms, clock_realtime_ms(), age));
		}
	}
}

static enum status show_volume(const Holdfast__V1__GetVolumeResponse *answer, bool verbose, struct error *err)
{
	if (!answer->volume)
		return error_set(err, STATUS_INTERNAL, 0, "the server's answer holds no volume");
	TRY(show_claims_apart(answer->volume, verbose, err));
	show_not_grown(answer->volume);
	for (size_t i = 0; i < answer->n_pending; i++)
		print_line("pending for it, %zu.: allocation %s", i + 1, answer->pending[i]);
	show_why(answer);
	return STATUS_OK;
}

/* --- register, create --- */

/* Prints "volume db is ..." and its obstacle. */
static void print_registered(const Holdfast__V1__Volume *volume, const char *what, bool secrets_replaced)
{
	print_line("volume %s %s%s", volume->id, what, secrets_replaced ? "; its secrets were replaced" : "");
	if (!volume->schedulable)
		print_line("it cannot be used yet: %s", volume->unschedulable_reason);
}

static enum status volume_register_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__RegisterVolumeRequest *request = message;

	if (call_has(call, OPT_UNCONFIRMED))
		TRY(call_reason(call, OPT_UNCONFIRMED, &request->unconfirmed_reason, err));
	return spec_volume_load(call->inv, &request->volume, &call->members, err);
}

static enum status volume_register_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__RegisterVolumeRequest *request = call->request;
	const Holdfast__V1__RegisterVolumeResponse *answer = message;

	print_registered(answer->volume ? answer->volume : request->volume,
			 answer->created ? "is registered"
					 : "was registered already, and now matches its file",
			 answer->secrets_replaced);
	return STATUS_OK;
}

static enum status volume_register_refused(struct call *call, enum status status, struct error *err)
{
	return spec_blame(call->inv, spec_blame_volume, status, err);
}

static enum status volume_create_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__CreateVolumeRequest *request = message;

	TRY(spec_volume_load(call->inv, &request->volume, &call->members, err));
	call->subject = request->volume->id;
	return STATUS_OK;
}

/* Adds the next command: the server stores a request before it calls the provider, and can continue it. */
static enum status explain_resume(const struct call *call, enum status status, const char *subject,
				  struct error *err)
{
	size_t n = strlen(err->msg);

	if (status == STATUS_DEADLINE_EXCEEDED || status == STATUS_UNAVAILABLE)
		(void)snprintf(err->msg + n, sizeof(err->msg) - n,
			       ". Next: holdfast %s %s%s%s again resumes it, it does nothing twice",
			       call->inv->command->path, subject,
			       NAMESPACE_OPTION(option_text(call->inv, OPT_NAMESPACE)));
	return status;
}

static enum status volume_create_refused(struct call *call, enum status status, struct error *err)
{
	return explain_resume(call, spec_blame(call->inv, spec_blame_volume, status, err), call->inv->args[0],
			      err);
}

static enum status volume_resumable(struct call *call, enum status status, struct error *err)
{
	return explain_resume(call, status, call->subject, err);
}

static enum status volume_create_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__CreateVolumeRequest *request = call->request;
	const Holdfast__V1__CreateVolumeResponse *answer = message;

	if (answer->volume && answer->volume->external_id[0])
		print_line("external ID %s", answer->volume->external_id);
	print_registered(answer->volume ? answer->volume : request->volume,
			 answer->created ? "is created" : "was created already, and now matches its file",
			 answer->secrets_replaced);
	return STATUS_OK;
}

/* --- members of a job --- */

enum { DOING_SIZE = 2 * PICK_ID_SIZE };

/* Makes or registers one volume after the other; the first that fails ends it. */
static enum status put_members(struct call *call, Holdfast__V1__Volume *volume, const char *id,
			       struct error *err)
{
	const struct command_call *row = call->row;

	for (uint32_t i = 0; i < call->members; i++) {
		cleanup_message ProtobufCMessage *answer = NULL;
		char doing[DOING_SIZE];
		enum status status;

		TRY(spec_member(volume, id, i, err));
		(void)snprintf(doing, sizeof(doing), "%s %.128s, %" PRIu32 " of %" PRIu32,
			       row->doing ? row->doing : "registering volume", volume->id, i + 1,
			       call->members);
		status = connection_call_long(call->connection, call->inv, row->service, row->method,
					      call->request, call->timeout_us, doing, &answer, err);
		if (status != STATUS_OK) {
			(void)row->refused(call, status, err);
			return error_prefix(err, "volume %s", volume->id);
		}
		TRY(call_has(call, OPT_JSON) ? print_answer(answer, err) : row->show(call, answer, err));
	}
	return STATUS_OK;
}

static enum status volume_put_fill(struct call *call, void *message, struct error *err)
{
	/* the requests of both methods begin alike */
	Holdfast__V1__Volume *volume = ((Holdfast__V1__RegisterVolumeRequest *)message)->volume;
	cleanup_free char *id = NULL;

	if (call->members == 0)
		return STATUS_OK;
	call->is_over = true;
	id = strdup(volume->id);
	return id ? put_members(call, volume, id, err) : error_no_memory(err, "the members");
}

_Static_assert(offsetof(Holdfast__V1__RegisterVolumeRequest, volume) ==
		       offsetof(Holdfast__V1__CreateVolumeRequest, volume),
	       "both requests are a volume");

/* --- expand --- */

static enum status volume_expand_load(struct call *call, void *message, struct error *err)
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

static bool ends_well(const Holdfast__V1__Volume *volume)
{
	return volume && volume->phase != HOLDFAST__V1__VOLUME_PHASE__VOLUME_EXPANDING;
}

static enum status volume_expand_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__ExpandVolumeResponse *answer = message;
	const Holdfast__V1__ExpandVolumeRequest *request = call->request;
	char size[SIZE_TEXT_SIZE];

	print_line("volume %s: its plugin reports %s", call->subject,
		   size_text(answer->volume ? answer->volume->capacity : 0, size));
	if (!ends_well(answer->volume))
		print_line("its nodes have not grown it yet: holdfast volume status %s%s%s shows it",
			   request->id, NAMESPACE_OPTION(request->namespace_));
	else if (answer->volume->node_expansion_due)
		print_line("its file system has %s", NOT_GROWN_YET);
	return STATUS_OK;
}

/* --- status --- */

static enum status volume_get_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__GetVolumeResponse *answer = message;
	char about[2 * PICK_ID_SIZE];

	TRY(show_volume(answer, call_has(call, OPT_VERBOSE), err));
	if (!answer->volume)
		return STATUS_OK;
	(void)str_format(about, sizeof(about), "volume %s/%s", answer->volume->namespace_,
			 answer->volume->id);
	return events_show_newest(call->connection, about, call_has(call, OPT_VERBOSE), err);
}

/* --- deregister, delete --- */

static DEFINE_ROWS_OF(deregister_page, holdfast__v1__deregister_volume_response,
		      &holdfast__v1__deregister_volume_request__descriptor, NULL,
		      LINE(NULL, "volume {^id} is deregistered, its data is untouched"),
		      LINE("{left_at_provider}",
			   "its creation had not ended: look at the provider for a volume named "
			   "{left_at_provider}, which Holdfast no longer deletes"));

static DEFINE_ROWS_OF(delete_page, holdfast__v1__delete_volume_response,
		      &holdfast__v1__delete_volume_request__descriptor, NULL,
		      LINE(NULL, "volume {^id} is deleted at its provider and forgotten"));

/* --- detach --- */

/* The provider may take its time, and others may be before it. */
#define FENCE_TIMEOUT_US (UINT64_C(300) * USEC_PER_SEC)

static enum status check_whole_ids(struct invocation *inv, const char *id, const char *node,
				   struct error *err)
{
	const char *option = inv->options[OPT_FENCE]		? "--fence"
			     : inv->options[OPT_WITHOUT_PLUGIN] ? "--without-plugin"
								: "--attest";

	if (!inv->options[OPT_ATTEST] && !inv->options[OPT_FENCE] && !inv->options[OPT_WITHOUT_PLUGIN])
		return STATUS_OK;
	TRY(value_check_whole(inv, option, inv->args[0], id, err));
	return value_check_whole(inv, option, inv->args[1], node, err);
}

static enum status no_claims(const struct invocation *inv, const Holdfast__V1__DetachVolumeRequest *request,
			     struct error *err)
{
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "nothing %s: node %s holds no claim of volume %s that %s. Next: holdfast volume "
			 "status %s%s%s "
			 "--why",
			 inv->options[OPT_DRY_RUN] ? "would change" : "was changed", request->node_id,
			 request->id,
			 request->attest_reason[0] ? "an attestation could free" : "could be ended",
			 request->id, NAMESPACE_OPTION(request->namespace_));
}

#define BYPASSED "an operator's word would stand in for evidence"

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
		       "write. Is it certain that the provider has released it?";
	return "If the node still writes, data is lost. Is it certain that it does not?";
}

/* Prints the server's list of unconfirmed steps of a release without the plugin, line by line. */
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
		status = show_list(&show_bypassed, BYPASSED, answer->claims, answer->n_claims, true, err);
	if (status == STATUS_OK && is_shown)
		print_bypassed(answer);
	return status == STATUS_OK ? value_confirm(call->inv, question_of(request, answer), err) : status;
}

static enum status volume_detach_load(struct call *call, void *message, struct error *err)
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
	if (call_has(call, OPT_FENCE))
		call->timeout_us = FENCE_TIMEOUT_US;
	return status;
}

static enum status volume_detach_fill(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__DetachVolumeRequest *request = message;

	TRY(check_whole_ids(call->inv, request->id, request->node_id, err));
	if (is_forced(request) && !request->dry_run)
		TRY(confirm_detach(call, request, err));
	return STATUS_OK;
}

static enum status volume_detach_show(struct call *call, const void *message, struct error *err)
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
		status = show_list(&show_bypassed, BYPASSED, answer->claims, answer->n_claims, true, err);
	if (request->dry_run)
		print_bypassed(answer);
	return status == STATUS_OK
		       ? show_list(&show_claims, NULL, answer->claims, answer->n_claims, true, err)
		       : status;
}

#define DELETE_TIMEOUT_US (UINT64_C(300) * USEC_PER_SEC)

static const struct command commands[] = {
	{.path = "volume register",
	 .args = "FILE|-",
	 .help = "Register a volume from its file",
	 .example = "db.hcl",
	 .options = OPTION_BIT(OPT_OUTSIDE) | OPTION_BIT(OPT_UNCONFIRMED),
	 .min_args = 1,
	 .max_args = 1,
	 .arg_kinds = {WORD_FILE},
	 .call = {.service = &holdfast__v1__volumes__descriptor,
		  .method = "Register",
		  .load = volume_register_load,
		  .fill = volume_put_fill,
		  .show = volume_register_show,
		  .refused = volume_register_refused}},
	{.path = "volume create",
	 .args = "FILE|-",
	 .help = "Create a volume at its provider and register it",
	 .example = "db.hcl --timeout 20m",
	 .options = OPTION_BIT(OPT_OUTSIDE) | OPTION_BIT(OPT_TIMEOUT),
	 .min_args = 1,
	 .max_args = 1,
	 .arg_kinds = {WORD_FILE},
	 .call = {.service = &holdfast__v1__volumes__descriptor,
		  .method = "Create",
		  .load = volume_create_load,
		  .fill = volume_put_fill,
		  .show = volume_create_show,
		  .refused = volume_create_refused,
		  .doing = "creating volume",
		  .timeout_us = PROVIDER_TIMEOUT_US}},
	{.path = "volume status",
	 .args = "[ID]",
	 .help = "List volumes, or show one with its claims",
	 .example = "db --why",
	 .options = OPTION_BIT(OPT_WHY) | OPTION_BIT(OPT_PLUGIN) | OPTION_BIT(OPT_NODE) | LISTING,
	 .max_args = 1,
	 .arg_kinds = {WORD_VOLUME},
	 .call = {.service = &holdfast__v1__volumes__descriptor,
		  .method = "Get",
		  .fields = {{"id", ARG(0), FIELD_VOLUME}, {"why", OPT_WHY}},
		  .show = volume_get_show},
	 .list = {.service = &holdfast__v1__volumes__descriptor,
		  .method = "List",
		  .fields = {{"namespace", OPT_NAMESPACE},
			     {"filter", OPT_FILTER},
			     {"node_id", OPT_NODE, FIELD_KNOWN_NODE},
			     {"plugin_id", OPT_PLUGIN, FIELD_KNOWN_PLUGIN}},
		  .rows = &volume_table,
		  .pages = PAGES_LIST}},
	{.path = "volume deregister",
	 .args = "ID",
	 .help = "Forget a volume that is not in use",
	 .example = "db",
	 .options = OPTION_BIT(OPT_YES),
	 .min_args = 1,
	 .max_args = 1,
	 .arg_kinds = {WORD_VOLUME},
	 .call = {.service = &holdfast__v1__volumes__descriptor,
		  .method = "Deregister",
		  .fields = {{"id", ARG(0), FIELD_VOLUME}},
		  .whole = "deregister",
		  .question = "Forget volume {id} of namespace {namespace}, its context and its secrets?",
		  .rows = &deregister_page}},
	{.path = "volume delete",
	 .args = "ID",
	 .help = "Delete a volume at its provider and forget it",
	 .example = "db",
	 .options = OPTION_BIT(OPT_SECRETS_FILE) | OPTION_BIT(OPT_YES) | OPTION_BIT(OPT_TIMEOUT),
	 .min_args = 1,
	 .max_args = 1,
	 .arg_kinds = {WORD_VOLUME},
	 .call = {.service = &holdfast__v1__volumes__descriptor,
		  .method = "Delete",
		  .fields = {{"id", ARG(0), FIELD_VOLUME}, {"secrets", OPT_SECRETS_FILE, FIELD_SECRETS}},
		  .whole = "delete",
		  .question = "Delete volume {id} of namespace {namespace} and all its data?",
		  .rows = &delete_page,
		  .refused = volume_resumable,
		  .doing = "deleting volume",
		  .timeout_us = DELETE_TIMEOUT_US}},
	{.path = "volume detach",
	 .args = "ID NODE",
	 .help = "Take a volume away from a node",
	 .example = "db worker-3 --attest 'power cut by Kim, ticket 4711'",
	 .options = OPTION_BIT(OPT_ATTEST) | OPTION_BIT(OPT_FENCE) | OPTION_BIT(OPT_WITHOUT_PLUGIN) | FORCED,
	 .min_args = 2,
	 .max_args = 2,
	 .arg_kinds = {WORD_VOLUME, WORD_NODE},
	 .call = {.service = &holdfast__v1__volumes__descriptor,
		  .method = "Detach",
		  .fields = {{"id", ARG(0), FIELD_VOLUME},
			     {"node_id", ARG(1), FIELD_KNOWN_NODE},
			     {"dry_run", OPT_DRY_RUN}},
		  .load = volume_detach_load,
		  .fill = volume_detach_fill,
		  .show = volume_detach_show,
		  .shows_json = true}},
	{.path = "volume expand",
	 .args = "ID SIZE",
	 .help = "Make a volume at least so large",
	 .example = "db 20GiB",
	 .options = OPTION_BIT(OPT_CAPACITY_MAX) | OPTION_BIT(OPT_SECRETS_FILE) | OPTION_BIT(OPT_TIMEOUT),
	 .min_args = 2,
	 .max_args = 2,
	 .arg_kinds = {WORD_VOLUME, WORD_NONE},
	 .call = {.service = &holdfast__v1__volumes__descriptor,
		  .method = "Expand",
		  .fields = {{"id", ARG(0), FIELD_VOLUME}, {"secrets", OPT_SECRETS_FILE, FIELD_SECRETS}},
		  .whole = "expand",
		  .load = volume_expand_load,
		  .show = volume_expand_show,
		  .refused = volume_resumable,
		  .doing = "expanding volume",
		  .timeout_us = PROVIDER_TIMEOUT_US}},
};

const struct command_table volume_commands = {commands, ARRAY_SIZE(commands)};

/* Behind those of units in the help. */
static const struct command other_commands[] = {
	{.path = "volume init",
	 .args = "[FILE]",
	 .help = "Write an example of a volume file (volume.hcl)",
	 .example = "db.hcl --type native",
	 .options = OPTION_BIT(OPT_TYPE),
	 .max_args = 1,
	 .arg_kinds = {WORD_FILE},
	 .run = cmd_volume_init},
	{.path = "volume external",
	 .args = "PLUGIN",
	 .help = "List what a plugin's provider has, registered or not",
	 .example = "ebs",
	 .options = OPTION_BIT(OPT_LIMIT) | OPTION_BIT(OPT_VERBOSE),
	 .min_args = 1,
	 .max_args = 1,
	 .arg_kinds = {WORD_PLUGIN},
	 .call = {.service = &holdfast__v1__volumes__descriptor,
		  .method = "ListExternal",
		  .fields = {{"plugin_id", ARG(0), FIELD_PLUGIN}},
		  .rows = &show_external,
		  .pages = PAGES_LIST}},
};

const struct command_table volume_other_commands = {other_commands, ARRAY_SIZE(other_commands)};

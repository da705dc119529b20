/* SPDX-License-Identifier: Apache-2.0 */
#include "examples.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "call/call.h"
#include "call/spec.h"
#include "command/commands.h"
#include "command/request.h"
#include "command/values.h"
#include "rpc/pbjson_word.h"
#include "show/output.h"
#include "show/show.h"

#include <errno.h>
#include <fcntl.h>
#include <holdfast/v1/volumes.pb-c.h>
#include <inttypes.h>
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
		return error_set(err, status_from_errno(errno), errno, "make %s", path);
	r = fd_write_all(fd, text, strlen(text));
	if (r < 0)
		return error_set(err, status_from_errno(r), r, "write %s", path);
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

/* protobuf-c's enums all have the descriptor as argument: one short name for what tables show. */
static const char *word(const ProtobufCEnumDescriptor *descriptor, int value,
			char text[static PBJSON_WORD_SIZE])
{
	return value == 0 ? "" : pbjson_word_text(descriptor, value, text);
}

static const char *yes_no(bool value)
{
	return value ? "yes" : "no";
}

static void add_volume(struct table *table, const Holdfast__V1__Volume *v, int64_t now_ms)
{
	char type[PBJSON_WORD_SIZE], mode[PBJSON_WORD_SIZE], phase[PBJSON_WORD_SIZE];
	char readers[16], writers[16], age[AGE_SIZE], size[SIZE_TEXT_SIZE];

	(void)str_format(readers, sizeof(readers), "%" PRIu32, v->readers);
	(void)str_format(writers, sizeof(writers), "%" PRIu32, v->writers);
	table_add(table, (const char *const[]){
				 v->id, v->namespace_,
				 word(&holdfast__v1__volume_type__descriptor, (int)v->type, type),
				 v->plugin_id, v->profile, yes_no(v->schedulable),
				 word(&holdfast__v1__access_mode__descriptor, (int)v->access_mode, mode),
				 readers, writers, age_text(v->create_time_ms, now_ms, age), v->external_id,
				 size_text(v->capacity, size),
				 word(&holdfast__v1__volume_phase__descriptor, (int)v->phase, phase),
				 v->unschedulable_reason});
}

static enum status show_volumes(Holdfast__V1__Volume *const *volumes, size_t n, bool verbose,
				struct error *err)
{
	enum { COLUMNS = 10 };
	static const struct column columns[] = {
		{.name = "ID"},
		{.name = "NAMESPACE"},
		{.name = "TYPE"},
		{.name = "PLUGIN"},
		{.name = "PROFILE"},
		{.name = "SCHEDULABLE", .is_state = true},
		{.name = "ACCESS MODE"},
		{.name = "READERS", .is_number = true},
		{.name = "WRITERS", .is_number = true},
		{.name = "AGE"},
		/* verbose */
		{.name = "EXTERNAL ID"},
		{.name = "CAPACITY"},
		{.name = "PHASE"},
		{.name = "NOT SCHEDULABLE BECAUSE"},
	};
	cleanup(table_freep) struct table *table = NULL;
	int64_t now_ms = clock_realtime_ms();

	if (n == 0) {
		print_line("no volumes");
		return STATUS_OK;
	}
	table = table_new(columns, verbose ? ARRAY_SIZE(columns) : COLUMNS);
	for (size_t i = 0; i < n; i++)
		add_volume(table, volumes[i], now_ms);
	return table_print(table, NULL, err);
}

static void show_source(const Holdfast__V1__Source *source)
{
	char class[PBJSON_WORD_SIZE];
	char number[32];

	print_field("source", word(&holdfast__v1__source_class__descriptor, (int)source->class_, class));
	if (source->by_id[0])
		print_field("by_id", source->by_id);
	if (source->server[0])
		print_field("server", source->server);
	if (source->export[0])
		print_field("export", source->export);
	if (source->host_volume[0])
		print_field("host volume", source->host_volume);
	if (source->size_bytes) {
		(void)str_format(number, sizeof(number), "%" PRIu64 " bytes", source->size_bytes);
		print_field("size", number);
	}
	if (source->inodes) {
		(void)str_format(number, sizeof(number), "%" PRIu64, source->inodes);
		print_field("inodes", number);
	}
}

/* What the provider made, or is being asked for. */
static void show_provisioning(const Holdfast__V1__Volume *v)
{
	char text[PBJSON_WORD_SIZE], size[SIZE_TEXT_SIZE];

	if (v->phase != HOLDFAST__V1__VOLUME_PHASE__VOLUME_READY)
		print_field("phase", word(&holdfast__v1__volume_phase__descriptor, (int)v->phase, text));
	if (v->phase_error[0])
		print_field("last try", v->phase_error);
	if (v->capacity)
		print_field("capacity", size_text(v->capacity, size));
	if (v->capacity_min)
		print_field("capacity at least", size_text(v->capacity_min, size));
	if (v->capacity_max)
		print_field("capacity at most", size_text(v->capacity_max, size));
	for (size_t i = 0; i < v->n_node_capacities; i++)
		print_line("%-20s %s on node %s", i ? "" : "file system",
			   v->node_capacities[i]->bytes > 0 ? size_text(v->node_capacities[i]->bytes, size)
							    : "not grown yet",
			   v->node_capacities[i]->node_id);
	if (v->mount_options && v->mount_options->fs_type[0])
		print_field("file system type", v->mount_options->fs_type);
	if (v->mount_options && v->mount_options->n_mount_flags > 0)
		print_field("mount flags", "[redacted]");
	if (v->snapshot_id[0])
		print_field("from snapshot", v->snapshot_id);
	if (v->clone_id[0])
		print_field("from volume", v->clone_id);
	if (v->shares[0])
		print_field("shares storage of", v->shares);
}

static void show_fields(const Holdfast__V1__Volume *v)
{
	int64_t now_ms = clock_realtime_ms();
	char text[PBJSON_WORD_SIZE];
	char number[64];

	print_field("ID", v->id);
	print_field("name", v->name);
	if (v->description[0])
		print_field("description", v->description);
	print_field("namespace", v->namespace_);
	print_field("external ID", v->external_id);
	print_field("type", word(&holdfast__v1__volume_type__descriptor, (int)v->type, text));
	print_field("plugin", v->plugin_id);
	if (v->profile[0])
		print_field("profile", v->profile);
	if (v->source && v->source->class_)
		show_source(v->source);
	print_field("schedulable", v->schedulable ? "yes" : "no");
	if (!v->schedulable)
		print_field("because", v->unschedulable_reason);
	if (v->provider[0]) {
		print_field("provider", v->provider);
		print_field("provider version", v->provider_version);
	}
	if (v->controller_required) {
		(void)str_format(number, sizeof(number), "%" PRIu32 "/%" PRIu32, v->controllers_healthy,
				 v->controllers_expected);
		print_field("controllers healthy", number);
	}
	(void)str_format(number, sizeof(number), "%" PRIu32 "/%" PRIu32, v->nodes_healthy, v->nodes_expected);
	print_field("nodes healthy", number);
	show_provisioning(v);
	(void)str_format(number, sizeof(number), "readers: %" PRIu32 ", writers: %" PRIu32, v->readers,
			 v->writers);
	print_field("in use by", v->readers + v->writers > 0 ? number : "nobody");
	if (v->access_mode) /* those of the claims: a free volume has none */
		print_field("access mode",
			    word(&holdfast__v1__access_mode__descriptor, (int)v->access_mode, text));
	if (v->attachment_mode)
		print_field("attachment mode",
			    word(&holdfast__v1__attachment_mode__descriptor, (int)v->attachment_mode, text));
	(void)str_format(number, sizeof(number), "%" PRIu64, v->generation);
	print_field("generation", number);
	print_field("age", age_text(v->create_time_ms, now_ms, number));
}

static enum status show_capabilities(const Holdfast__V1__Volume *volume, struct error *err)
{
	static const struct column columns[] = {{.name = "ACCESS MODE"}, {.name = "ATTACHMENT MODE"}};
	cleanup(table_freep) struct table *table = NULL;

	if (volume->n_requested_capabilities == 0)
		return STATUS_OK;
	table = table_new(columns, ARRAY_SIZE(columns));
	for (size_t i = 0; i < volume->n_requested_capabilities; i++) {
		const Holdfast__V1__Capability *c = volume->requested_capabilities[i];
		char access[PBJSON_WORD_SIZE], attachment[PBJSON_WORD_SIZE];

		table_add(table,
			  (const char *const[]){
				  word(&holdfast__v1__access_mode__descriptor, (int)c->access_mode, access),
				  word(&holdfast__v1__attachment_mode__descriptor, (int)c->attachment_mode,
				       attachment),
			  });
	}
	return table_print(table, "capabilities", err);
}

/* rack=R1,zone=a */
static void segments_text(const Holdfast__V1__Topology *topology, char *text, size_t size)
{
	size_t n = 0;

	text[0] = '\0';
	for (size_t i = 0; i < topology->n_segments && n < size; i++)
		n += (size_t)snprintf(text + n, size - n, "%s%s=%s", i ? "," : "", topology->segments[i]->key,
				      topology->segments[i]->value);
}

static void show_topologies(const char *name, Holdfast__V1__Topology *const *topologies, size_t n)
{
	enum { TOPOLOGY_TEXT_SIZE = 512 };
	char text[TOPOLOGY_TEXT_SIZE];

	if (n == 0)
		return;
	(void)printf("\n%s\n", name);
	for (size_t i = 0; i < n; i++) {
		segments_text(topologies[i], text, sizeof(text));
		print_line("%s", text);
	}
}

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

static enum status show_volume(const Holdfast__V1__GetVolumeResponse *answer, bool verbose, struct error *err)
{
	const Holdfast__V1__Volume *volume = answer->volume;
	enum status status;

	if (!volume)
		return error_set(err, STATUS_INTERNAL, 0, "the server's answer holds no volume");
	show_fields(volume);
	show_topologies("topologies", volume->topologies, volume->n_topologies);
	status = show_capabilities(volume, err);
	if (status == STATUS_OK)
		status = show_claims(volume->claims, volume->n_claims, "claims", verbose, err);
	for (size_t i = 0; status == STATUS_OK && i < answer->n_pending; i++)
		print_line("pending for it, %zu.: allocation %s", i + 1, answer->pending[i]);
	if (status == STATUS_OK)
		show_why(answer);
	return status;
}

enum { QUESTION_SIZE = 2 * PICK_ID_SIZE + 96 };

/* --- register, create --- */

/* "volume db is ..." and what stands in its way. */
static void print_registered(const Holdfast__V1__Volume *volume, const char *what)
{
	print_line("volume %s %s", volume->id, what);
	if (!volume->schedulable)
		print_line("it cannot be used yet: %s", volume->unschedulable_reason);
}

static enum status volume_register_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__RegisterVolumeRequest *request = message;

	return spec_volume_load(call->inv, &request->volume, err);
}

static enum status volume_register_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__RegisterVolumeRequest *request = call->request;
	const Holdfast__V1__RegisterVolumeResponse *answer = message;

	print_registered(answer->volume ? answer->volume : request->volume,
			 answer->created ? "is registered" : "was registered already, it is up to date");
	return STATUS_OK;
}

static enum status volume_register_refused(struct call *call, enum status status, struct error *err)
{
	return spec_blame(call->inv, spec_blame_volume, status, err);
}

static enum status volume_create_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__CreateVolumeRequest *request = message;

	TRY(spec_volume_load(call->inv, &request->volume, err));
	call->subject = request->volume->id;
	return STATUS_OK;
}

/* The server has stored what is asked for before the provider is: the same command continues with it. */
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
			 answer->created ? "is created" : "was created already, it is up to date");
	return STATUS_OK;
}

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

static enum status volume_expand_fill(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__ExpandVolumeRequest *request = message;
	json_t *secrets = NULL;

	TRY(call_pick_volume(call, &request->id, &request->namespace_, err));
	TRY(request_secrets(call->inv, &secrets, err));
	TRY(call_replace(call,
			 json_pack("{ss ss sI sI so}", "id", request->id, "namespace", request->namespace_,
				   "capacity_min", (json_int_t)request->capacity_min, "capacity_max",
				   (json_int_t)request->capacity_max, "secrets", secrets),
			 err));
	call->subject = ((const Holdfast__V1__ExpandVolumeRequest *)call->request)->id;
	return STATUS_OK;
}

static bool ends_well(const Holdfast__V1__Volume *volume)
{
	return volume && volume->phase != HOLDFAST__V1__VOLUME_PHASE__VOLUME_EXPANDING;
}

static enum status volume_expand_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__ExpandVolumeResponse *answer = message;
	char size[SIZE_TEXT_SIZE];

	print_line("volume %s has %s%s", call->subject,
		   size_text(answer->volume ? answer->volume->capacity : 0, size),
		   ends_well(answer->volume)
			   ? ""
			   : ", and its nodes are still to see that: holdfast volume status shows it");
	return STATUS_OK;
}

/* --- status --- */

static enum status volume_list_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__ListVolumesRequest *request = message;

	if (call_has(call, OPT_WHY))
		return usage_error(call->inv, err, "--why explains one volume: give its ID");
	call_set(call, &request->namespace_, call->inv->options[OPT_NAMESPACE]);
	call_set(call, &request->filter, call->inv->options[OPT_FILTER]);
	return STATUS_OK;
}

static enum status volume_list_fill(struct call *call, void *message, struct error *err)
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

static enum status volume_list_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__ListVolumesResponse *answer = message;

	return show_volumes(answer->volumes, answer->n_volumes, call_has(call, OPT_VERBOSE), err);
}

static enum status volume_get_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__GetVolumeRequest *request = message;

	if (call_has(call, OPT_NODE) || call_has(call, OPT_PLUGIN) || call_has(call, OPT_FILTER))
		return usage_error(call->inv, err,
				   "--node, --plugin and --filter are for the list: give them without an ID");
	request->why = call_has(call, OPT_WHY);
	return STATUS_OK;
}

static enum status volume_get_fill(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__GetVolumeRequest *request = message;

	return call_pick_volume(call, &request->id, &request->namespace_, err);
}

static enum status volume_get_show(struct call *call, const void *message, struct error *err)
{
	return show_volume(message, call_has(call, OPT_VERBOSE), err);
}

/* --- deregister, delete --- */

static enum status volume_deregister_fill(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__DeregisterVolumeRequest *request = message;
	char question[QUESTION_SIZE];

	TRY(call_pick_volume(call, &request->id, &request->namespace_, err));
	TRY(value_check_whole(call->inv, "deregister", call->inv->args[0], request->id, err));
	(void)snprintf(question, sizeof(question),
		       "Forget volume %s of namespace %s, its context and its secrets?", request->id,
		       request->namespace_);
	return value_confirm(call->inv, question, err);
}

static enum status volume_deregister_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__DeregisterVolumeRequest *request = call->request;
	const Holdfast__V1__DeregisterVolumeResponse *answer = message;

	print_line("volume %s is deregistered, its data is untouched", request->id);
	if (answer->left_at_provider[0] != '\0')
		print_line("its creation had not ended: look at the provider for a volume named %s, which "
			   "Holdfast does not delete any more",
			   answer->left_at_provider);
	return STATUS_OK;
}

static enum status volume_delete_fill(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__DeleteVolumeRequest *request = message;
	char question[QUESTION_SIZE];
	json_t *secrets = NULL;

	TRY(call_pick_volume(call, &request->id, &request->namespace_, err));
	TRY(value_check_whole(call->inv, "delete", call->inv->args[0], request->id, err));
	(void)snprintf(question, sizeof(question), "Delete volume %s of namespace %s and all its data?",
		       request->id, request->namespace_);
	TRY(value_confirm(call->inv, question, err));
	TRY(request_secrets(call->inv, &secrets, err));
	TRY(call_replace(call,
			 json_pack("{ss ss so}", "id", request->id, "namespace", request->namespace_,
				   "secrets", secrets),
			 err));
	call->subject = ((const Holdfast__V1__DeleteVolumeRequest *)call->request)->id;
	return STATUS_OK;
}

static enum status volume_delete_show(struct call *call, const void *message, struct error *err)
{
	print_line("volume %s is deleted at its provider and forgotten", call->subject);
	return STATUS_OK;
}

/* --- external --- */

static enum status volume_external_fill(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__ListExternalVolumesRequest *request = message;

	return call_pick(call, pick_plugin, call->inv->args[0], &request->plugin_id, err);
}

static enum status volume_external_show(struct call *call, const void *message, struct error *err)
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

	if (!inv->options[OPT_ATTEST] && !inv->options[OPT_FENCE] && !inv->options[OPT_WITHOUT_PLUGIN])
		return STATUS_OK;
	TRY(value_check_whole(inv, option, inv->args[0], id, err));
	return value_check_whole(inv, option, inv->args[1], node, err);
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
		       "write. Is it certain that the provider has released it?";
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
	request->dry_run = call_has(call, OPT_DRY_RUN);
	if (call_has(call, OPT_FENCE))
		call->timeout_us = FENCE_TIMEOUT_US;
	return status;
}

static enum status volume_detach_fill(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__DetachVolumeRequest *request = message;

	TRY(call_pick_volume(call, &request->id, &request->namespace_, err));
	TRY(call_pick(call, pick_known_node, call->inv->args[1], &request->node_id, err));
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
		status = show_bypassed(answer->claims, answer->n_claims, err);
	if (request->dry_run)
		print_bypassed(answer);
	return status == STATUS_OK ? show_claims(answer->claims, answer->n_claims, NULL, true, err) : status;
}

#define DELETE_TIMEOUT_US (UINT64_C(300) * USEC_PER_SEC)

static const struct command commands[] = {
	{.path = "volume register",
	 .args = "FILE|-",
	 .help = "Register a volume from its file",
	 .example = "db.hcl",
	 .min_args = 1,
	 .max_args = 1,
	 .arg_kinds = {WORD_FILE},
	 .call = {.service = &holdfast__v1__volumes__descriptor,
		  .method = "Register",
		  .load = volume_register_load,
		  .show = volume_register_show,
		  .refused = volume_register_refused}},
	{.path = "volume create",
	 .args = "FILE|-",
	 .help = "Create a volume at its provider and register it",
	 .example = "db.hcl --timeout 20m",
	 .options = OPTION_BIT(OPT_TIMEOUT),
	 .min_args = 1,
	 .max_args = 1,
	 .arg_kinds = {WORD_FILE},
	 .call = {.service = &holdfast__v1__volumes__descriptor,
		  .method = "Create",
		  .load = volume_create_load,
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
		  .load = volume_get_load,
		  .fill = volume_get_fill,
		  .show = volume_get_show},
	 .list = {.service = &holdfast__v1__volumes__descriptor,
		  .method = "List",
		  .load = volume_list_load,
		  .fill = volume_list_fill,
		  .show = volume_list_show,
		  .pages = PAGES_LIST}},
	{.path = "volume deregister",
	 .args = "ID",
	 .help = "Forget a volume that nobody uses",
	 .example = "db",
	 .options = OPTION_BIT(OPT_YES),
	 .min_args = 1,
	 .max_args = 1,
	 .arg_kinds = {WORD_VOLUME},
	 .call = {.service = &holdfast__v1__volumes__descriptor,
		  .method = "Deregister",
		  .fill = volume_deregister_fill,
		  .show = volume_deregister_show}},
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
		  .fill = volume_delete_fill,
		  .show = volume_delete_show,
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
		  .load = volume_expand_load,
		  .fill = volume_expand_fill,
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
		  .fill = volume_external_fill,
		  .show = volume_external_show,
		  .pages = PAGES_LIST}},
};

const struct command_table volume_other_commands = {other_commands, ARRAY_SIZE(other_commands)};

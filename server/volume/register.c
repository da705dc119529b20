/* SPDX-License-Identifier: Apache-2.0 */
#include "server.h"

#include "access/access.h"
#include "access/answer.h"
#include "access/audit.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "log/log.h"
#include "model/modes.h"
#include "model/volume_detail.h"
#include "state/change.h"
#include "state/state.h"
#include "volume/call.h"
#include "volume/identity.h"
#include "volume/phase.h"
#include "volume/snapshots.h"
#include "volume/store.h"
#include "volume/view.h"
#include "volume/volumes.h"
#include "volume/work.h"

#include <holdfast/v1/volumes.pb-c.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The result of a registration or creation, compared with the stored volume. */

struct volume_spec {
	struct volume_parts parts; /* to store */
	bool is_new;
	bool changed;	       /* differs from the stored volume */
	bool modes_changed;    /* has other capabilities than the stored volume */
	bool resized;	       /* asks for another size than before */
	bool secrets_replaced; /* differs from the stored volume in its secrets */
};

#define VOLUME_SPEC_INIT                    \
	{                                   \
		.parts = VOLUME_PARTS_INIT, \
	}

static void volume_spec_release(struct volume_spec *spec)
{
	volume_parts_release(&spec->parts);
}

static bool has_mode(const struct capability *modes, size_t n, const struct claim *claim)
{
	for (size_t i = 0; i < n; i++)
		if (modes[i].access_mode == claim->access_mode &&
		    modes[i].attachment_mode == claim->attachment_mode)
			return true;
	return false;
}

/* Modes of the live claims, each once, at most VOLUME_CAPABILITIES_MAX; their number. */
static size_t volume_spec_modes_in_use(struct volume_entry *entry,
				       struct capability ret[static VOLUME_CAPABILITIES_MAX])
{
	struct claim_entry *claim;
	size_t n = 0;

	/* each is one of the volume's capabilities, so they fit */
	LIST_FOREACH (claim, &entry->claims, of_volume)
		if (claim_is_live(&claim->claim) && n < VOLUME_CAPABILITIES_MAX &&
		    !has_mode(ret, n, &claim->claim))
			ret[n++] = claim_capability(&claim->claim);
	return n;
}

static bool has_capabilities_of(const struct volume *volume, const struct volume *other)
{
	for (uint32_t i = 0; i < other->n_capabilities; i++)
		if (!volume_has_capability(volume, other->capabilities[i].access_mode,
					   other->capabilities[i].attachment_mode))
			return false;
	return true;
}

/* Its provider is making @volume with the stored capabilities: an answer to an earlier call confirms no other
 * ones. */
static enum status check_capabilities(const struct volume_spec *spec, bool is_creation, struct error *err)
{
	const struct volume *volume = &spec->parts.volume;

	if (!is_creation || !spec->modes_changed ||
	    spec->parts.detail->phase != HOLDFAST__V1__VOLUME_PHASE__VOLUME_CREATING)
		return STATUS_OK;
	return error_set(
		err, STATUS_FAILED_PRECONDITION, 0,
		"capability: volume %s is being created with other capabilities, nothing was stored; "
		"when it is made, change them: holdfast volume register FILE%s%s; to begin again: "
		"holdfast volume deregister %s%s%s",
		volume->id, NAMESPACE_OPTION(volume->namespace), volume->id,
		NAMESPACE_OPTION(volume->namespace));
}

/* Lets only a creation continue while the volume is being created; refuses one that is being deleted. */
static enum status check_phase(struct server *server, const struct volume_parts *current, bool is_creation,
			       struct error *err)
{
	if (is_creation && current->detail->phase == HOLDFAST__V1__VOLUME_PHASE__VOLUME_CREATING)
		return STATUS_OK;
	return volume_store_check_usable(server, &current->volume, err);
}

static enum status merge(struct server *server, struct volume_entry *entry, const struct volume_parts *update,
			 bool is_creation, struct volume_spec *spec, struct error *err)
{
	struct capability in_use[VOLUME_CAPABILITIES_MAX];
	size_t n_in_use = volume_spec_modes_in_use(entry, in_use);
	const Holdfast__V1__VolumeSecrets *stored = volume_secrets_of(server, &entry->volume);
	enum status status = volume_store_load(server, entry, &spec->parts, err);

	if (status == STATUS_OK)
		status = check_phase(server, &spec->parts, is_creation, err);
	if (status == STATUS_OK)
		status = volume_parts_merge(&spec->parts, update, in_use, n_in_use, &spec->changed, err);
	if (status == STATUS_OK)
		status = volume_detail_resize(spec->parts.detail, update->detail->capacity_min,
					      update->detail->capacity_max, &spec->resized, err);
	spec->modes_changed = !has_capabilities_of(&entry->volume, &spec->parts.volume) ||
			      !has_capabilities_of(&spec->parts.volume, &entry->volume);
	if (status == STATUS_OK)
		status = check_capabilities(spec, is_creation, err);
	spec->changed = spec->changed || spec->resized;
	if (status == STATUS_OK)
		spec->secrets_replaced = !message_text_maps_eq(
			stored ? VOLUME_MAP(stored->secrets) : NULL, stored ? stored->n_secrets : 0,
			VOLUME_MAP(spec->parts.secrets->secrets), spec->parts.secrets->n_secrets);
	return status;
}

static enum status volume_spec_begin(struct server *server, const struct volume_parts *update,
				     bool is_creation, struct volume_spec *spec, struct error *err)
{
	struct volume *volume = &spec->parts.volume;

	TRY(volume_parts_copy(&update->volume, update->detail, update->secrets, &spec->parts, err));
	volume->generation = state_generation_floor(&server->state);
	volume->newer_from = 0;
	volume->create_index = volume->modify_index = 0;
	volume->create_time_ms = volume->modify_time_ms = clock_realtime_ms();
	spec->is_new = spec->changed = true;
	/* a creation's come from the provider */
	return is_creation ? STATUS_OK : volume_parts_begin(&spec->parts, err);
}

/* Sets defaults, and checks the rules of a type. */
static enum status complete(struct volume_parts *update, struct volume_entry *entry, bool is_creation,
			    struct error *err)
{
	bool is_made =
		entry && !volume_is_placeholder(&entry->volume) && entry->volume.external_id[0] != '\0';
	enum status status;

	if (is_creation && !is_made && entry)
		TRY(volume_check_registered(&entry->volume, err));
	if (is_creation && !is_made && update->volume.external_id[0] != '\0')
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "external_id: a volume that is created gets it from its provider; one that "
				 "exists there is registered: holdfast volume register");
	if (entry)
		volume_parts_inherit(update, &entry->volume);
	volume_default(&update->volume);
	if (is_creation && !is_made)
		update->volume.external_id[0] = '\0';
	if (is_creation)
		volume_parts_forget_answer(update);
	status = volume_parts_validate(update, err);
	if (status == STATUS_OK && is_creation && update->volume.type != VOLUME_CSI)
		return error_set(
			err, STATUS_INVALID_ARGUMENT, 0,
			"type: only csi volumes have a provider that creates them; a native volume is "
			"registered: holdfast volume register");
	return status == STATUS_OK && !entry ? volume_check_secrets(VOLUME_MAP(update->secrets->secrets),
								    update->secrets->n_secrets, err)
					     : status;
}

/* The storage of @volume, which was a placeholder in @entry, must remain that of each claim that surely has
 * its id: other volumes may have other contexts, and no further claim of it would get a ticket. */
static enum status check_claims(const struct volume_entry *entry, const struct volume *volume,
				struct error *err)
{
	const struct claim_entry *at;

	if (!entry || !volume_is_placeholder(&entry->volume))
		return STATUS_OK;
	LIST_FOREACH (at, &entry->claims, of_volume) {
		const struct claim *claim = &at->claim;

		if (claim_is_live(claim) && (claim->storage_proven || !claim->adopted) &&
		    str_eq(claim->external_id, volume->external_id) && !claim_is_on_storage(claim, volume))
			return error_set(
				err, STATUS_FAILED_PRECONDITION, 0,
				"context: volume %s is held by allocation %s with %s context; register it "
				"as it was (if its provider made it, the provider knows the context), or "
				"stop that first: holdfast alloc stop %s",
				volume->id, claim->allocation_id,
				claim->context_digest[0] != '\0' ? "another" : "no", claim->allocation_id);
	}
	return STATUS_OK;
}

/* Checks the right to the source of a creation. A repeat without it continues what others had the right to
 * ask for; with it, it counts from now on. */
static enum status check_source(struct server *server, const struct rpc_call *call, struct volume_spec *spec,
				struct error *err)
{
	const Holdfast__V1__Snapshot *snapshot = snapshots_source(&server->state, &spec->parts);

	if (!spec->is_new && (spec->parts.detail->phase != HOLDFAST__V1__VOLUME_PHASE__VOLUME_CREATING ||
			      identity_check_source_still(server, &spec->parts, snapshot, err) == STATUS_OK))
		return STATUS_OK;
	TRY(identity_check_source(server, call, &spec->parts, snapshot, err));
	spec->changed = true;
	return STATUS_OK;
}

/* A copy that is being made would get the data of this namespace, which its caller had no right to. */
static enum status check_copied(struct server *server, const struct volume *volume, struct error *err)
{
	if (volume->type != VOLUME_CSI)
		return STATUS_OK;
	TRY(volume_work_check_copied(server, volume, err));
	return snapshots_check_copied(server, volume, err);
}

/* A schedule that is stored stays: it fails, and its error names the cause. */
static enum status check_schedule(struct server *server, const struct volume_entry *entry,
				  const struct volume_parts *parts, struct error *err)
{
	const Holdfast__V1__VolumeDetail *stored = entry ? volume_detail_of(server, &entry->volume) : NULL;

	if (!parts->detail->snapshots || (stored && stored->snapshots))
		return STATUS_OK;
	return identity_check_scheduled(server, &parts->volume, err);
}

/* Checks the caller's volume, as volume_parts_from_pb() made it, and merges it with the one stored under
 * its id. @is_creation its provider will make it: then it has no external id yet. @ret to be released. */
static enum status volume_spec_prepare(struct server *server, const struct rpc_call *call,
				       const struct volume_parts *given, bool is_creation,
				       struct volume_spec *ret, struct error *err)
{
	cleanup(volume_parts_release) struct volume_parts update = VOLUME_PARTS_INIT;
	cleanup(volume_spec_release) struct volume_spec spec = VOLUME_SPEC_INIT;
	struct volume_entry *entry =
		state_volume(&server->state, namespace_or_default(given->volume.namespace), given->volume.id);

	TRY(volume_parts_copy(&given->volume, given->detail, given->secrets, &update, err));
	TRY(complete(&update, entry, is_creation, err));
	TRY(entry ? merge(server, entry, &update, is_creation, &spec, err)
		  : volume_spec_begin(server, &update, is_creation, &spec, err));
	storage_context_digest(VOLUME_MAP(spec.parts.detail->context), spec.parts.detail->n_context,
			       spec.parts.volume.context_digest);
	TRY(check_claims(entry, &spec.parts.volume, err));
	TRY(identity_check_volume(server, call, entry, &spec.parts, err));
	TRY(identity_check_parameters(server, call, spec.parts.volume.plugin_id, spec.parts.volume.namespace,
				      PARAMETERS_SECRETS, VOLUME_MAP(given->secrets->secrets),
				      given->secrets->n_secrets, err));
	TRY(check_schedule(server, entry, &spec.parts, err));
	if (!is_creation && (!entry || volume_is_placeholder(&entry->volume) ||
			     !str_eq(entry->volume.external_id, spec.parts.volume.external_id)))
		TRY(check_copied(server, &spec.parts.volume, err));
	if (is_creation)
		TRY(check_source(server, call, &spec, err));
	*ret = spec;
	spec = (struct volume_spec)VOLUME_SPEC_INIT; /* handed over */
	return STATUS_OK;
}

/* Register and Create: the request is checked and merged, then the plugin is asked. Register stores the
 * volume. Create stores the intent, then asks the provider to make it. */

#define REGISTER "Volumes.Register"
#define CREATE "Volumes.Create"

/* The outcome for the caller. */
struct put_result {
	bool created, secrets_replaced;
};

static void answer_with_volume(struct server *server, struct rpc_call *call, const char *namespace,
			       const char *id, struct put_result result, bool is_creation)
{
	Holdfast__V1__RegisterVolumeResponse registered = HOLDFAST__V1__REGISTER_VOLUME_RESPONSE__INIT;
	Holdfast__V1__CreateVolumeResponse made = HOLDFAST__V1__CREATE_VOLUME_RESPONSE__INIT;
	struct volume_entry *entry = state_volume(&server->state, namespace, id);
	Holdfast__V1__Volume *view = entry ? volume_view(server, entry, false, NULL) : NULL;

	registered.volume = made.volume = view;
	registered.created = made.created = result.created;
	registered.secrets_replaced = made.secrets_replaced = result.secrets_replaced;
	if (view)
		rpc_call_reply(call, is_creation ? &made.base : &registered.base);
	else
		answer_error(call, entry ? STATUS_RESOURCE_EXHAUSTED : STATUS_ABORTED,
			     entry ? "out of memory; the volume is stored"
				   : "the volume was deregistered meanwhile");
	holdfast__v1__volume__free_unpacked(view, NULL);
}

static void on_registered(struct server *server, void *userdata)
{
	cleanup_free struct volumes_waiting *waiting = userdata;

	answer_with_volume(server, waiting->call, waiting->namespace, waiting->id,
			   (struct put_result){waiting->created, waiting->secrets_replaced}, false);
}

/* Answers a call whose volume's provider was being asked. */
#define DEFINE_ANSWER(name, created, secrets_replaced, is_creation)                                      \
	static void name(struct server *server, struct rpc_call *call, const char *namespace,            \
			 const char *id, const struct error *err)                                        \
	{                                                                                                \
		if (err)                                                                                 \
			answer_refused(server, call, (is_creation) ? CREATE : REGISTER, err);            \
		else                                                                                     \
			answer_with_volume(server, call, namespace, id,                                  \
					   (struct put_result){created, secrets_replaced}, is_creation); \
	}
DEFINE_ANSWER(answer_registered, false, false, false)
DEFINE_ANSWER(answer_registered_secrets, false, true, false)
DEFINE_ANSWER(answer_created, true, false, true)
DEFINE_ANSWER(answer_updated, false, false, true)
DEFINE_ANSWER(answer_updated_secrets, false, true, true)

static void on_register_expanding(struct server *server, void *userdata)
{
	cleanup_free struct volumes_waiting *waiting = userdata;

	volume_work_start(server, waiting->namespace, waiting->id, waiting->call,
			  waiting->secrets_replaced ? answer_registered_secrets : answer_registered);
}

static void on_creating(struct server *server, void *userdata)
{
	cleanup_free struct volumes_waiting *waiting = userdata;

	volume_work_start(server, waiting->namespace, waiting->id, waiting->call,
			  waiting->created	      ? answer_created
			  : waiting->secrets_replaced ? answer_updated_secrets
						      : answer_updated);
}

/* Must the provider expand the volume? A volume of unknown size at the provider is left as it is unless a
 * size is requested now. */
static bool wants_expansion(const struct volume_spec *spec)
{
	const Holdfast__V1__VolumeDetail *detail = spec->parts.detail;

	return !spec->is_new && spec->resized && detail->capacity_min > detail->capacity &&
	       detail->phase == HOLDFAST__V1__VOLUME_PHASE__VOLUME_READY;
}

static enum status stage_expansion(struct server *server, struct volume_spec *spec, struct error *err)
{
	enum status status =
		volume_check_ability(server, spec->parts.volume.plugin_id, &VOLUME_CAN_EXPAND, err);

	if (status == STATUS_OK &&
	    !volume_phase_begin(spec->parts.detail, HOLDFAST__V1__VOLUME_PHASE__VOLUME_EXPANDING))
		return error_no_memory(err, "a volume");
	return status;
}

/* Stores a registration that its plugin has confirmed, or need not. @why for the audit, may be NULL */
static enum status store_registration(struct server *server, struct rpc_call *call, struct volume_spec *spec,
				      const char *why, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct volumes_waiting *waiting;
	char object[VOLUME_OBJECT_SIZE];
	bool expands = wants_expansion(spec);

	if (expands)
		TRY(stage_expansion(server, spec, err));
	if (spec->changed) {
		TRY(namespaces_check_room(&server->state.namespaces, spec->parts.volume.namespace,
					  spec->is_new, err));
		volume_store_stage(server, &change, &spec->parts);
		audit_about(server, &change, call, REGISTER, volume_object(&spec->parts.volume, object), why,
			    &(struct log_ctx){.volume = spec->parts.volume.id, .op = "register"});
	}
	waiting = volumes_waiting_new(call, &spec->parts.volume);
	if (waiting) {
		waiting->created = spec->is_new;
		waiting->secrets_replaced = spec->secrets_replaced;
	}
	return change_commit_taking(server, &change, expands ? on_register_expanding : on_registered, waiting,
				    err);
}

/* Stages the provider's task: make it, continue making it, expand it, or nothing. */
static enum status begin_phase(struct server *server, struct volume_spec *spec, bool *ret_works,
			       struct error *err)
{
	Holdfast__V1__VolumeDetail *detail = spec->parts.detail;
	bool is_creating = detail->phase == HOLDFAST__V1__VOLUME_PHASE__VOLUME_CREATING;

	*ret_works = true;
	if (is_creating)
		return STATUS_OK;
	if (spec->is_new)
		return volume_phase_begin(detail, HOLDFAST__V1__VOLUME_PHASE__VOLUME_CREATING)
			       ? STATUS_OK
			       : error_no_memory(err, "a volume");
	*ret_works = wants_expansion(spec);
	return *ret_works ? stage_expansion(server, spec, err) : STATUS_OK;
}

static enum status store_creation(struct server *server, struct rpc_call *call, struct volume_spec *spec,
				  struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	bool is_made =
		!spec->is_new && spec->parts.detail->phase != HOLDFAST__V1__VOLUME_PHASE__VOLUME_CREATING;
	struct volumes_waiting *waiting;
	char object[VOLUME_OBJECT_SIZE];
	bool works;

	if (spec->changed)
		TRY(namespaces_check_room(&server->state.namespaces, spec->parts.volume.namespace,
					  spec->is_new, err));
	TRY(begin_phase(server, spec, &works, err));
	if (spec->changed)
		volume_store_stage(server, &change, &spec->parts);
	if (spec->changed || works)
		audit_write(server, &change, call, CREATE, volume_object(&spec->parts.volume, object),
			    is_made ? "it exists" : "to be made by its provider");
	waiting = volumes_waiting_new(call, &spec->parts.volume);
	if (waiting) {
		waiting->created = !is_made;
		waiting->secrets_replaced = spec->secrets_replaced;
	}
	return change_commit_taking(server, &change, on_creating, waiting, err);
}

enum { UNCONFIRMED_MAX = 256, UNCONFIRMED_SIZE = UNCONFIRMED_MAX + sizeof("not confirmed by its plugin: ") };

/* A registration while its plugin is being asked. */
struct registering {
	struct rpc_call *call;
	struct volume_parts given;
	struct volume asked; /* as the plugin was asked about it: merged with the stored volume */
	char unconfirmed[UNCONFIRMED_SIZE]; /* the reason to do without the answer; "": no reason */
	bool is_creation;		    /* of a volume that exists, with other capabilities */
};

static void registering_free(struct registering *registering)
{
	volume_parts_release(&registering->given);
	free(registering);
}
DEFINE_CLEANUP(struct registering, registering_free)

static void list_capabilities(const struct volume *volume, struct strbuf *sb)
{
	for (uint32_t i = 0; i < volume->n_capabilities; i++)
		strbuf_printf(sb, "%s%s/%s", i > 0 ? ", " : "",
			      access_mode_name(volume->capabilities[i].access_mode),
			      attachment_mode_name(volume->capabilities[i].attachment_mode));
}

static enum status not_confirmed(const struct volume *volume, const char *message, struct error *err)
{
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(ERROR_MSG_MAX);

	list_capabilities(volume, &sb);
	return error_set(
		err, STATUS_FAILED_PRECONDITION, 0,
		"capability: plugin %s does not confirm that volume %s (external id %.128s) can be used "
		"as %s: %.256s; nothing was stored",
		volume->plugin_id, volume->id, volume->external_id, sb.data ? sb.data : "requested",
		message[0] != '\0' ? message : "it gave no reason");
}

/* Has the plugin confirmed the volume that is stored now? */
static enum status check_asked(const struct volume *asked, const struct volume *volume, struct error *err)
{
	if (str_eq(asked->plugin_id, volume->plugin_id) && str_eq(asked->external_id, volume->external_id))
		return STATUS_OK;
	return error_set(err, STATUS_ABORTED, 0,
			 "volume %s was registered as another one while its plugin was asked, nothing was "
			 "stored; see holdfast volume status %s%s%s, and repeat this",
			 volume->id, volume->id, NAMESPACE_OPTION(volume->namespace));
}

static void on_validated(struct server *server, const Holdfast__V1__PluginReply *reply,
			 const struct error *err, void *userdata)
{
	cleanup(registering_freep) struct registering *registering = userdata;
	cleanup(volume_spec_release) struct volume_spec spec = VOLUME_SPEC_INIT;
	const Holdfast__V1__ControllerValidateResponse *answer = reply ? reply->validate : NULL;
	struct error why;
	enum status status;

	bool is_skipped = err && err->status == STATUS_UNIMPLEMENTED && registering->unconfirmed[0] != '\0';

	if (err && err->status == STATUS_UNIMPLEMENTED && !is_skipped) {
		status = error_set(
			&why, err->status, 0,
			"volume %s was not confirmed by its plugin, nothing was stored: %.600s. Next: "
			"holdfast volume register FILE%s%s --unconfirmed REASON, if you know that it fits",
			registering->given.volume.id, err->msg,
			NAMESPACE_OPTION(registering->given.volume.namespace));
	} else if (err && !is_skipped) {
		why = *err;
		status = error_prefix(&why, "volume %s was not confirmed by its plugin, nothing was stored",
				      registering->given.volume.id);
	} else if (!is_skipped && (!answer || !answer->confirmed)) {
		status = not_confirmed(&registering->asked, answer ? answer->message : "", &why);
	} else {
		/* against the stored volume and the caller's rights: they may have changed meanwhile */
		status = access_check(server, registering->call, ACCESS_VOLUME_WRITE,
				      namespace_or_default(registering->given.volume.namespace), &why);
		if (status == STATUS_OK)
			status = volume_spec_prepare(server, registering->call, &registering->given,
						     registering->is_creation, &spec, &why);
		if (status == STATUS_OK)
			status = check_asked(&registering->asked, &spec.parts.volume, &why);
		if (status == STATUS_OK && registering->is_creation)
			status = store_creation(server, registering->call, &spec, &why);
		else if (status == STATUS_OK)
			status = store_registration(server, registering->call, &spec,
						    is_skipped ? registering->unconfirmed : NULL, &why);
	}
	if (status != STATUS_OK)
		answer_refused(server, registering->call, registering->is_creation ? CREATE : REGISTER, &why);
}

static enum status ask_plugin(struct server *server, struct rpc_call *call, struct volume_parts *given,
			      struct volume_spec *spec, const char *unconfirmed, bool is_creation,
			      struct error *err)
{
	cleanup(registering_freep) struct registering *registering = calloc(1, sizeof(*registering));
	enum status status;

	if (!registering)
		return error_no_memory(err, "a volume");
	registering->call = call;
	registering->is_creation = is_creation;
	if (unconfirmed[0] != '\0')
		(void)str_format(registering->unconfirmed, sizeof(registering->unconfirmed),
				 "not confirmed by its plugin: %s", unconfirmed);
	status = volume_call_validate(server, &spec->parts, on_validated, registering, err);
	if (status != STATUS_OK) {
		(void)error_prefix(err, "volume %s was not confirmed by its plugin, nothing was stored",
				   spec->parts.volume.id);
		return status;
	}
	registering->asked = spec->parts.volume;
	registering->given = *given;
	*given = (struct volume_parts)VOLUME_PARTS_INIT;
	(void)TAKE_PTR(registering);
	return STATUS_OK;
}

/* Checks the right to read plugins, which a CSI volume needs in addition. */
static enum status check_access(struct server *server, struct rpc_call *call,
				const Holdfast__V1__Volume *volume, struct error *err)
{
	enum status status = STATUS_OK;

	if (volume && volume->type == HOLDFAST__V1__VOLUME_TYPE__CSI)
		status = access_check(server, call, ACCESS_PLUGIN_READ, NULL, err);
	if (status == STATUS_OK && !volume)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "volume: missing");
	return status;
}

static enum status handle_register(struct server *server, struct rpc_call *call,
				   const Holdfast__V1__RegisterVolumeRequest *request, struct error *err)
{
	cleanup(volume_parts_release) struct volume_parts given = VOLUME_PARTS_INIT;
	cleanup(volume_spec_release) struct volume_spec spec = VOLUME_SPEC_INIT;
	bool has_controller = false;

	TRY(check_access(server, call, request->volume, err));
	if (strlen(request->unconfirmed_reason) > UNCONFIRMED_MAX ||
	    !str_is_text(request->unconfirmed_reason))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "unconfirmed_reason: longer than %d bytes or not text", UNCONFIRMED_MAX);
	TRY(volume_parts_from_pb(request->volume, &given, err));
	TRY(volume_spec_prepare(server, call, &given, false, &spec, err));
	if (spec.changed)
		TRY(volume_check_plugin(server, &spec.parts.volume, &has_controller, err));
	return has_controller
		       ? ask_plugin(server, call, &given, &spec, request->unconfirmed_reason, false, err)
		       : store_registration(server, call, &spec, NULL, err);
}

DEFINE_WRITE_METHOD(volumes_handle_register, Holdfast__V1__RegisterVolumeRequest, REGISTER, handle_register)

static enum status handle_create(struct server *server, struct rpc_call *call,
				 const Holdfast__V1__CreateVolumeRequest *request, struct error *err)
{
	cleanup(volume_parts_release) struct volume_parts given = VOLUME_PARTS_INIT;
	cleanup(volume_spec_release) struct volume_spec spec = VOLUME_SPEC_INIT;

	TRY(check_access(server, call, request->volume, err));
	TRY(volume_parts_from_pb(request->volume, &given, err));
	TRY(volume_spec_prepare(server, call, &given, true, &spec, err));
	if (spec.is_new || spec.changed)
		TRY(volume_check_ability(server, spec.parts.volume.plugin_id, &VOLUME_CAN_CREATE, err));
	return spec.modes_changed ? ask_plugin(server, call, &given, &spec, "", true, err)
				  : store_creation(server, call, &spec, err);
}

DEFINE_WRITE_METHOD(volumes_handle_create, Holdfast__V1__CreateVolumeRequest, CREATE, handle_create)

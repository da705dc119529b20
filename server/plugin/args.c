/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/args.h"

#include "alloc/options.h"
#include "base/join.h"
#include "base/str.h"
#include "state/keys.h"
#include "state/objects.h"
#include "state/records.h"

#include <string.h>

static const void *find_record(struct state *state, const char *prefix, const char *namespace, const char *id)
{
	char key[OBJECT_KEY_SIZE];

	return str_join(key, sizeof(key), prefix, namespace, "/", id) < 0 ? NULL
									  : records_get(&state->records, key);
}

const Holdfast__V1__VolumeDetail *plugin_args_detail(struct state *state, const char *namespace,
						     const char *id)
{
	return find_record(state, PREFIX_VOLUME_DETAIL, namespace, id);
}

const Holdfast__V1__VolumeSecrets *plugin_args_secrets(struct state *state, const char *namespace,
						       const char *id)
{
	return find_record(state, PREFIX_VOLUME_SECRETS, namespace, id);
}

/* Returns the secrets for a call about @claim: no plugin gets those of another one's volume. */
static const Holdfast__V1__VolumeSecrets *secrets_for(struct state *state, const struct claim *claim)
{
	const struct volume_entry *volume = state_volume(state, claim->namespace, claim->volume_id);

	return volume && str_eq(volume->volume.plugin_id, claim->plugin_id)
		       ? plugin_args_secrets(state, claim->namespace, claim->volume_id)
		       : NULL;
}

const Holdfast__V1__VolumeSecrets *plugin_args_node_secrets(struct state *state, const struct claim *claim)
{
	const struct alloc_entry *entry = state_alloc_of(state, claim);

	return entry && claim->state <= CLAIM_TAKEN && alloc_asks_for(&entry->alloc, claim) &&
			       !alloc_is_client_terminal(&entry->alloc)
		       ? secrets_for(state, claim)
		       : NULL;
}

/* A detach takes an id in any context. */
static bool is_on_id(const struct claim *claim, const struct volume *volume)
{
	return claim_is_on_storage(claim, volume) || (str_eq(claim->plugin_id, volume->plugin_id) &&
						      str_eq(claim->external_id, volume->external_id));
}

const char *plugin_args_external_id(struct state *state, const struct claim *claim)
{
	const struct volume_entry *volume = state_volume(state, claim->namespace, claim->volume_id);

	if (claim->adopted && !claim->storage_proven)
		return volume && is_on_id(claim, &volume->volume) ? volume->volume.external_id : "";
	return claim->external_id[0] != '\0' ? claim->external_id : claim->volume_id;
}

/* Returns the node's id at the provider: the claim's, or the plugin's if an adopted claim lacks it. The
 * plugin on another machine than the claim's has another id. */
const char *plugin_args_node_id(struct state *state, const struct claim *claim)
{
	const struct instance_entry *instance;

	if (claim->external_node_id[0] != '\0' || claim->other_machine)
		return claim->external_node_id;
	instance = state_instance(state, claim->node_id, claim->plugin_id, "");
	return instance ? instance->instance.plugin.node.provider_node_id : "";
}

bool plugin_args_same_node(struct state *state, const struct claim *a, const struct claim *b)
{
	const char *id = plugin_args_node_id(state, a);

	return node_provider_id_compare(id, plugin_args_node_id(state, b)) == 0 &&
	       (id[0] != '\0' || str_eq(a->node_id, b->node_id));
}

const Holdfast__V1__PluginCall *plugin_detach_args(struct state *state, const struct claim *claim,
						   struct plugin_detach_args *args)
{
	const char *node_id = plugin_args_node_id(state, claim);
	const Holdfast__V1__VolumeSecrets *secrets = secrets_for(state, claim);

	*args = (struct plugin_detach_args){.call = HOLDFAST__V1__PLUGIN_CALL__INIT,
					    .detach = HOLDFAST__V1__CONTROLLER_DETACH_REQUEST__INIT};
	(void)str_copy(args->external_id, sizeof(args->external_id), plugin_args_external_id(state, claim));
	if (node_id[0] == '\0' || args->external_id[0] == '\0')
		return NULL;
	(void)str_copy(args->external_node_id, sizeof(args->external_node_id), node_id);
	args->detach.external_id = args->external_id;
	args->detach.external_node_id = args->external_node_id;
	if (secrets) {
		/* entries of all maps of texts are alike on the wire, which is where these go */
		args->detach.n_secrets = secrets->n_secrets;
		args->detach.secrets =
			(Holdfast__V1__ControllerDetachRequest__SecretsEntry **)(void *)secrets->secrets;
	}
	args->call.request_case = HOLDFAST__V1__PLUGIN_CALL__REQUEST_DETACH;
	args->call.detach = &args->detach;
	return &args->call;
}

static void add_stored(struct state *state, const struct claim *claim,
		       Holdfast__V1__ControllerAttachRequest *attach, struct alloc_mount_options *storage)
{
	const Holdfast__V1__VolumeDetail *detail =
		plugin_args_detail(state, claim->namespace, claim->volume_id);
	const Holdfast__V1__VolumeSecrets *secrets = secrets_for(state, claim);

	attach->mount_options =
		alloc_options_for(state, claim, detail ? detail->mount_options : NULL, storage);
	if (detail) {
		attach->n_context = detail->n_context;
		attach->context =
			(Holdfast__V1__ControllerAttachRequest__ContextEntry **)(void *)detail->context;
	}
	if (secrets) {
		attach->n_secrets = secrets->n_secrets;
		attach->secrets =
			(Holdfast__V1__ControllerAttachRequest__SecretsEntry **)(void *)secrets->secrets;
	}
}

const Holdfast__V1__PluginCall *plugin_attach_args(struct state *state, const struct claim *claim,
						   bool can_read_only, struct plugin_attach_args *args)
{
	const char *node_id = plugin_args_node_id(state, claim);

	*args = (struct plugin_attach_args){.call = HOLDFAST__V1__PLUGIN_CALL__INIT,
					    .attach = HOLDFAST__V1__CONTROLLER_ATTACH_REQUEST__INIT,
					    .capability = HOLDFAST__V1__CAPABILITY__INIT};
	(void)str_copy(args->external_id, sizeof(args->external_id), plugin_args_external_id(state, claim));
	if (node_id[0] == '\0' || args->external_id[0] == '\0')
		return NULL;
	(void)str_copy(args->external_node_id, sizeof(args->external_node_id), node_id);
	args->capability.access_mode = (Holdfast__V1__AccessMode)claim->access_mode;
	args->capability.attachment_mode = (Holdfast__V1__AttachmentMode)claim->attachment_mode;
	args->attach.external_id = args->external_id;
	args->attach.external_node_id = args->external_node_id;
	args->attach.capability = &args->capability;
	/* readers and writers of one volume on one node share the attachment */
	args->attach.read_only = can_read_only && !access_mode_is_writer(claim->access_mode);
	add_stored(state, claim, &args->attach, &args->options);
	args->call.request_case = HOLDFAST__V1__PLUGIN_CALL__REQUEST_ATTACH;
	args->call.attach = &args->attach;
	return &args->call;
}

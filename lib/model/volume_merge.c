/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "model/volume_detail.h"

#include <inttypes.h>
#include <string.h>

static enum status immutable(const struct volume *volume, const char *field, struct error *err)
{
	return error_set(
		err, STATUS_FAILED_PRECONDITION, 0,
		"%s: volume %s is registered with another one, which cannot be changed; deregister it "
		"first: holdfast volume deregister %s%s%s",
		field, volume->id, volume->id, NAMESPACE_OPTION(volume->namespace));
}

static enum status in_use_refusal(const struct volume *volume, const char *field, struct error *err)
{
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "%s: volume %s is in use; it can be changed when its claims are released (holdfast "
			 "volume status --why %s%s%s)",
			 field, volume->id, volume->id, NAMESPACE_OPTION(volume->namespace));
}

static bool topology_eq(const Holdfast__V1__Topology *a, const Holdfast__V1__Topology *b)
{
	return message_text_maps_eq(VOLUME_MAP(a->segments), a->n_segments, VOLUME_MAP(b->segments),
				    b->n_segments);
}

/* In the same order. */
static bool topologies_eq(Holdfast__V1__Topology *const *a, size_t n_a, Holdfast__V1__Topology *const *b,
			  size_t n_b)
{
	if (n_a != n_b)
		return false;
	for (size_t i = 0; i < n_a; i++)
		if (!topology_eq(a[i], b[i]))
			return false;
	return true;
}

static bool requests_eq(const Holdfast__V1__TopologyRequest *a, const Holdfast__V1__TopologyRequest *b)
{
	static const Holdfast__V1__TopologyRequest none = HOLDFAST__V1__TOPOLOGY_REQUEST__INIT;

	a = a ? a : &none;
	b = b ? b : &none;
	return topologies_eq(a->required, a->n_required, b->required, b->n_required) &&
	       topologies_eq(a->preferred, a->n_preferred, b->preferred, b->n_preferred);
}

/* Copy of one field's message in a detail. */
static bool replace(ProtobufCMessage **to, const ProtobufCMessage *from)
{
	ProtobufCMessage *copy = from ? message_convert(from->descriptor, from) : NULL;

	if (from && !copy)
		return false;
	if (*to)
		protobuf_c_message_free_unpacked(*to, NULL);
	*to = copy;
	return true;
}

static enum status merge_topology(struct volume_parts *current, const struct volume_parts *update,
				  bool *changed, struct error *err)
{
	Holdfast__V1__VolumeDetail *to = current->detail;
	const Holdfast__V1__VolumeDetail *from = update->detail;
	ProtobufCMessage *request = to->topology_request ? &to->topology_request->base : NULL;

	if (!requests_eq(to->topology_request, from->topology_request)) {
		if (to->n_topologies > 0)
			return error_set(
				err, STATUS_FAILED_PRECONDITION, 0,
				"topology_request: volume %s has its topologies, so the request cannot "
				"be changed",
				current->volume.id);
		if (!replace(&request, from->topology_request ? &from->topology_request->base : NULL))
			return error_no_memory(err, "a volume");
		to->topology_request = (Holdfast__V1__TopologyRequest *)(void *)request;
		*changed = true;
	}
	if (from->n_topologies > 0 &&
	    !topologies_eq(to->topologies, to->n_topologies, from->topologies, from->n_topologies))
		return immutable(&current->volume, "topologies", err);
	return STATUS_OK;
}

static bool flags_eq(const Holdfast__V1__MountOptions *a, const Holdfast__V1__MountOptions *b)
{
	/* the content of a read means the stored content */
	if (b->n_mount_flags == 1 && str_eq(b->mount_flags[0], VOLUME_REDACTED))
		return a->n_mount_flags > 0;
	if (a->n_mount_flags != b->n_mount_flags)
		return false;
	for (size_t i = 0; i < a->n_mount_flags; i++)
		if (!str_eq(a->mount_flags[i], b->mount_flags[i]))
			return false;
	return true;
}

/* Does @update keep a secret that its caller does not give and may not know? */
static bool keeps_secret(const struct volume_parts *update)
{
	for (size_t i = 0; i < update->secrets->n_secrets; i++)
		if (str_eq(update->secrets->secrets[i]->value, VOLUME_REDACTED))
			return true;
	return false;
}

static enum status merge_mount_options(struct volume_parts *current, const struct volume_parts *update,
				       bool in_use, bool *changed, struct error *err)
{
	static const Holdfast__V1__MountOptions none = HOLDFAST__V1__MOUNT_OPTIONS__INIT;
	Holdfast__V1__MountOptions *stored = current->detail->mount_options;
	const Holdfast__V1__MountOptions *to = stored ? stored : &none;
	const Holdfast__V1__MountOptions *from = update->detail->mount_options;
	ProtobufCMessage *options = stored ? &stored->base : NULL;

	if (!from || (str_eq(to->fs_type, from->fs_type) && flags_eq(to, from)))
		return STATUS_OK;
	if (in_use)
		return in_use_refusal(&current->volume, "mount_options", err);
	if (from->n_mount_flags == 1 && str_eq(from->mount_flags[0], VOLUME_REDACTED))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "mount_options.mount_flags: \"" VOLUME_REDACTED
				 "\" is what reads show; with another fs_type, give the flags themselves");
	/* a mount flag may name a server, as ip= of a file system does */
	if (keeps_secret(update) && !flags_eq(to, from))
		return error_set(
			err, STATUS_INVALID_ARGUMENT, 0,
			"mount_options.mount_flags: the stored secrets of volume %s go with no other "
			"flags: give them again to change the flags; nothing was changed",
			current->volume.id);
	if (!replace(&options, &from->base))
		return error_no_memory(err, "a volume");
	current->detail->mount_options = (Holdfast__V1__MountOptions *)(void *)options;
	*changed = true;
	return STATUS_OK;
}

/* Are some redacted and others given? The stored ones would go with an address that the caller chooses. */
static bool is_mixed(const Holdfast__V1__VolumeSecrets *secrets)
{
	size_t n_redacted = 0;

	for (size_t i = 0; i < secrets->n_secrets; i++)
		n_redacted += str_eq(secrets->secrets[i]->value, VOLUME_REDACTED);
	return n_redacted > 0 && n_redacted < secrets->n_secrets;
}

/* Exactly those of @update; a redacted one is the one that is stored. */
static enum status merge_secrets(struct volume_parts *current, const struct volume_parts *update,
				 bool *changed, struct error *err)
{
	Holdfast__V1__VolumeSecrets *stored = current->secrets;
	struct volume_parts next = VOLUME_PARTS_INIT;
	enum status status;

	if (is_mixed(update->secrets))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "secrets: stored ones are not combined with others: give all secrets of the "
				 "volume, or \"" VOLUME_REDACTED "\" for all; nothing was changed");
	status = volume_parts_copy(&update->volume, NULL, update->secrets, &next, err);

	for (size_t i = 0; status == STATUS_OK && i < next.secrets->n_secrets; i++) {
		struct message_text_entry *known;

		if (!str_eq(next.secrets->secrets[i]->value, VOLUME_REDACTED))
			continue;
		known = message_text_map_find(VOLUME_MAP(stored->secrets), stored->n_secrets,
					      next.secrets->secrets[i]->key);
		if (!known)
			status = error_set(err, STATUS_INVALID_ARGUMENT, 0,
					   "secrets: '%.64s' is \"" VOLUME_REDACTED
					   "\", which keeps the stored value, but there is none",
					   next.secrets->secrets[i]->key);
		else if (!volume_secrets_overlay(next.secrets, &known, 1))
			status = error_no_memory(err, "a volume");
	}
	if (status == STATUS_OK &&
	    !message_text_maps_eq(VOLUME_MAP(stored->secrets), stored->n_secrets,
				  VOLUME_MAP(next.secrets->secrets), next.secrets->n_secrets)) {
		current->secrets = next.secrets;
		next.secrets = stored;
		*changed = true;
	}
	volume_parts_release(&next);
	return status;
}

/* Does @update keep a secret, or mount flags, that its caller does not give and may not know? */
static bool keeps_unseen(const struct volume_parts *current, const struct volume_parts *update)
{
	const Holdfast__V1__MountOptions *stored = current->detail->mount_options;
	const Holdfast__V1__MountOptions *from = update->detail->mount_options;

	if (keeps_secret(update))
		return true;
	return stored && stored->n_mount_flags > 0 &&
	       (!from || (from->n_mount_flags == 1 && str_eq(from->mount_flags[0], VOLUME_REDACTED)));
}

static enum status merge_context(struct volume_parts *current, const struct volume_parts *update, bool in_use,
				 bool *changed, struct error *err)
{
	Holdfast__V1__VolumeDetail *to = current->detail;
	Holdfast__V1__VolumeDetail *from = update->detail;
	Holdfast__V1__VolumeDetail only = HOLDFAST__V1__VOLUME_DETAIL__INIT;
	Holdfast__V1__VolumeDetail *copy;

	if (from->n_context == 0 || message_text_maps_eq(VOLUME_MAP(to->context), to->n_context,
							 VOLUME_MAP(from->context), from->n_context))
		return STATUS_OK;
	if (to->made_by_provider)
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"context: volume %s was made by plugin %s, which gave it another one; leave it "
			"out, nothing was changed",
			current->volume.id, current->volume.plugin_id);
	if (in_use) /* it is part of what the volume stores */
		return in_use_refusal(&current->volume, "context", err);
	/* the plugin would show them to the server that the context names */
	if (keeps_unseen(current, update))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "context: the stored secrets and mount_flags of volume %s go to no other "
				 "place: give them again to change its context; nothing was changed",
				 current->volume.id);
	only.context = from->context;
	only.n_context = from->n_context;
	copy = (Holdfast__V1__VolumeDetail *)(void *)message_convert(only.base.descriptor, &only.base);
	if (!copy)
		return error_no_memory(err, "a volume");
	/* the copy takes the old one away with it */
	only = *to;
	to->context = copy->context;
	to->n_context = copy->n_context;
	copy->context = only.context;
	copy->n_context = only.n_context;
	holdfast__v1__volume_detail__free_unpacked(copy, NULL);
	*changed = true;
	return STATUS_OK;
}

/* That of @update, in use or not: claims are not touched by it. */
static enum status merge_message(ProtobufCMessage *to, const ProtobufCMessage *from, ProtobufCMessage **ret,
				 bool *changed, struct error *err)
{
	*ret = to;
	if (message_eq(to, from))
		return STATUS_OK;
	if (!replace(ret, from))
		return error_no_memory(err, "a volume");
	*changed = true;
	return STATUS_OK;
}

#define MERGE_MESSAGE(field)                                                                              \
	static enum status merge_##field(struct volume_parts *current, const struct volume_parts *update, \
					 bool *changed, struct error *err)                                \
	{                                                                                                 \
		Holdfast__V1__VolumeDetail *to = current->detail, *from = update->detail;                 \
		ProtobufCMessage *merged;                                                                 \
                                                                                                          \
		TRY(merge_message(to->field ? &to->field->base : NULL,                                    \
				  from->field ? &from->field->base : NULL, &merged, changed, err));       \
		to->field = (void *)merged;                                                               \
		return STATUS_OK;                                                                         \
	}
MERGE_MESSAGE(plain)
MERGE_MESSAGE(on_node_loss)
MERGE_MESSAGE(snapshots)

/* The first field given in @update that differs and cannot, or NULL. */
static const char *immutable_difference(const Holdfast__V1__VolumeDetail *current,
					const Holdfast__V1__VolumeDetail *update)
{
	if (update->clone_id[0] != '\0' && !str_eq(current->clone_id, update->clone_id))
		return "clone_id";
	if (update->snapshot_id[0] != '\0' && !str_eq(current->snapshot_id, update->snapshot_id))
		return "snapshot_id";
	if (update->n_parameters > 0 &&
	    !message_text_maps_eq(VOLUME_MAP(current->parameters), current->n_parameters,
				  VOLUME_MAP(update->parameters), update->n_parameters))
		return "parameters";
	if (update->shares[0] != '\0' && !str_eq(current->shares, update->shares))
		return "shares";
	return NULL;
}

/* Stored fields are only those that the present registration names. */
static enum status fill_parts(struct volume_parts *current, const struct volume_parts *update,
			      struct error *err)
{
	struct volume_parts parts;

	for (size_t i = 0; i < update->secrets->n_secrets; i++)
		if (str_eq(update->secrets->secrets[i]->value, VOLUME_REDACTED))
			return error_set(err, STATUS_INVALID_ARGUMENT, 0,
					 "secrets: '%.64s' is \"" VOLUME_REDACTED
					 "\", which keeps the stored value, but there is none: the volume is "
					 "known from a node's report only",
					 update->secrets->secrets[i]->key);
	TRY(volume_parts_copy(&current->volume, update->detail, update->secrets, &parts, err));
	volume_parts_release(current);
	*current = parts;
	return volume_parts_begin(current, err);
}

enum status volume_parts_merge(struct volume_parts *current, const struct volume_parts *update,
			       const struct capability *in_use, size_t n_in_use, bool *ret_changed,
			       struct error *err)
{
	bool was_placeholder = volume_is_placeholder(&current->volume);
	bool changed = false;
	enum status status = volume_merge(&current->volume, &update->volume, in_use, n_in_use, &changed, err);
	const char *field = immutable_difference(current->detail, update->detail);

	if (was_placeholder) {
		*ret_changed = true;
		return status == STATUS_OK ? fill_parts(current, update, err) : status;
	}
	if (status == STATUS_OK && field)
		status = immutable(&current->volume, field, err);
	if (status == STATUS_OK)
		status = merge_topology(current, update, &changed, err);
	if (status == STATUS_OK)
		status = merge_mount_options(current, update, n_in_use > 0, &changed, err);
	if (status == STATUS_OK)
		status = merge_secrets(current, update, &changed, err);
	if (status == STATUS_OK)
		status = merge_context(current, update, n_in_use > 0, &changed, err);
	if (status == STATUS_OK)
		status = merge_plain(current, update, &changed, err);
	if (status == STATUS_OK)
		status = merge_on_node_loss(current, update, &changed, err);
	if (status == STATUS_OK)
		status = merge_snapshots(current, update, &changed, err);
	if (status == STATUS_OK)
		*ret_changed = changed;
	return status;
}

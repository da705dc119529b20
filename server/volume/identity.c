/* SPDX-License-Identifier: Apache-2.0 */
/* Whose storage a request names. */
#include "volume/identity.h"

#include "server.h"

#include "access/access.h"
#include "access/foreign.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "model/message.h"
#include "model/plain_options.h"
#include "state/storage_index.h"
#include "volume/limits.h"
#include "volume/store.h"

#include <stdlib.h>
#include <string.h>

static bool may(struct server *server, const struct rpc_call *call, enum access_right right,
		const char *namespace)
{
	return access_check(server, call, right, namespace, NULL) == STATUS_OK;
}

/* The field that names the storage. */
static const char *field_of(const struct volume *volume)
{
	static const char *const fields[SOURCE_CLASS_N] = {
		[SOURCE_BLOCK] = "source.by_id",
		[SOURCE_NFS4] = "source.export",
		[SOURCE_BIND] = "source.host_volume",
	};
	const char *field = volume->type == VOLUME_CSI ? NULL : fields[volume->source.class];

	return field ? field : "external_id";
}

static bool is_itself(const struct volume_entry *entry, const struct volume *volume)
{
	return str_eq(entry->id, volume->id) && str_eq(entry->namespace, volume->namespace);
}

/* The right to adopt in @namespace, and in @owner, the namespace that has the id (NULL: no record knows it).
 * Without the first one both are refused alike. */
static enum status check_adopt(struct server *server, const struct rpc_call *call, const char *namespace,
			       const char *owner, const char *field, struct error *err)
{
	enum status status =
		call ? access_check(server, call, ACCESS_VOLUME_ADOPT, namespace, err)
		     : error_set(err, STATUS_PERMISSION_DENIED, 0, "the server itself has no right to it");

	if (status != STATUS_OK) {
		if (err)
			(void)error_prefix(err, "%s: no volume or snapshot of namespace %s has this id",
					   field, namespace);
		return status;
	}
	if (!owner || may(server, call, ACCESS_VOLUME_ADOPT, owner))
		return STATUS_OK;
	return error_set(err, STATUS_NOT_FOUND, 0, "%s: namespace %s may use no volume of this id", field,
			 namespace);
}

static enum status refuse_taken(struct server *server, const struct rpc_call *call,
				const struct volume *volume, const struct volume_entry *other,
				struct error *err)
{
	bool is_near = str_eq(other->namespace, volume->namespace);
	char name[FOREIGN_NAME_SIZE];

	return error_set(
		err, STATUS_ALREADY_EXISTS, 0,
		"%s: this storage is in use by %s, and two names of one storage would get two "
		"writers; use that volume%s%s%s",
		field_of(volume), foreign_name(server, call, volume->namespace, &other->volume, name),
		is_near ? ", or register a second name that has one claim table with it: shares = \"" : "",
		is_near ? other->id : "", is_near ? "\"" : "");
}

static enum status refuse_deleting(const struct volume *volume, struct error *err)
{
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "%s: a volume of this id is being deleted at its provider; nothing was stored",
			 field_of(volume));
}

static bool is_deleting(struct server *server, const struct volume_entry *entry)
{
	const Holdfast__V1__VolumeDetail *detail = volume_detail_of(server, &entry->volume);

	return detail && detail->phase == HOLDFAST__V1__VOLUME_PHASE__VOLUME_DELETING;
}

/* Checks other volumes that have one id at the provider, in any context: a namespace that has one of them
 * has the id. */
static enum status check_provider_id(struct server *server, const struct rpc_call *call,
				     const struct volume *volume, const struct storage_id *id,
				     struct error *err)
{
	const struct storage_id all = storage_of_provider(id);
	struct volume_entry *other = storage_first(&server->state, &all);

	for (; other; other = storage_next(&server->state, &all, other)) {
		if (is_itself(other, volume))
			continue;
		if (!str_eq(other->namespace, volume->namespace) &&
		    !may(server, call, ACCESS_VOLUME_ADOPT, other->namespace))
			return refuse_taken(server, call, volume, other, err);
		if (is_deleting(server, other))
			return refuse_deleting(volume, err);
	}
	return STATUS_OK;
}

/* Is all that is known of a placeholder of another context than that of @volume? */
static bool is_another_part(const struct volume_entry *other, const struct volume *volume)
{
	const struct claim_entry *entry;

	if (!volume_is_placeholder(&other->volume) || other->n_live == 0)
		return false;
	LIST_FOREACH (entry, &other->claims, of_volume)
		if (claim_is_live(&entry->claim) && !claim_is_of_other_context(&entry->claim, volume))
			return false;
	return true;
}

/* Checks other volumes of the same storage: all in this namespace, and @shares names one of them. */
static enum status check_storage(struct server *server, const struct rpc_call *call,
				 const struct volume *volume, const char *shares, const struct storage_id *id,
				 struct error *err)
{
	const struct volume_entry *named = state_volume(&server->state, volume->namespace, shares);
	bool is_shared = named && !is_itself(named, volume) && storage_is_same(&named->storage, id) &&
			 !is_another_part(named, volume);
	struct volume_entry *other = storage_first(&server->state, id);
	size_t n = 0;

	/* without this, an answer would show which ids other namespaces have */
	if (shares[0] != '\0' && !is_shared)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "shares: namespace %s has no volume %s of this storage (%s, and the context "
				 "of a csi volume, are compared); holdfast volume status %s%s%s",
				 volume->namespace, shares, field_of(volume), shares,
				 NAMESPACE_OPTION(volume->namespace));
	for (; other; other = storage_next(&server->state, id, other)) {
		if (is_itself(other, volume) || is_another_part(other, volume))
			continue;
		n++;
		if (shares[0] == '\0' || !str_eq(other->namespace, volume->namespace))
			return refuse_taken(server, call, volume, other, err);
	}
	if (is_shared && n >= STORAGE_NAMES_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "shares: the storage of volume %s has %zu names, which is as many as may; "
				 "use one of these, or holdfast volume deregister one",
				 shares, n);
	return STATUS_OK;
}

/* May an unmatched claim that does not name the storage of @volume be on it? The digest of a ticket does not
 * show of which id it is. A native placeholder whose ticket was not proven may be any storage of its profile.
 */
static bool is_unnamed(const struct claim_entry *entry, const struct volume *volume)
{
	const struct volume *other = &entry->volume->volume;

	if (!str_eq(entry->claim.plugin_id, volume->plugin_id))
		return false;
	if (volume->type == VOLUME_CSI)
		return entry->claim.storage_digest && volume->context_digest[0] == '\0';
	return volume_is_placeholder(other) && other->external_id[0] == '\0' &&
	       str_eq(other->profile, volume->profile);
}

/* Returns another volume that a node has reported, which may be @id, the storage of @volume; or NULL. */
static struct volume_entry *find_reported(struct server *server, const struct volume *volume,
					  const struct storage_id *id)
{
	struct claim_entry *claim = NULL;

	while ((claim = storage_next_unmatched(&server->state, volume, id, claim)))
		if (!is_itself(claim->volume, volume))
			return claim->volume;
	claim = state_unmatched_from(&server->state, volume->plugin_id, "");
	for (; claim && str_eq(claim->claim.plugin_id, volume->plugin_id);
	     claim = state_unmatched_next(claim))
		if (is_unnamed(claim, volume) && !is_itself(claim->volume, volume))
			return claim->volume;
	return NULL;
}

static enum status check_reported(struct server *server, const struct rpc_call *call,
				  const struct volume *volume, const struct storage_id *id, struct error *err)
{
	const struct volume_entry *other = find_reported(server, volume, id);
	char name[FOREIGN_NAME_SIZE];

	return other ? error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "%s: %s is known %sfrom a node's report and may be this storage; %swait "
				 "until its claims are released",
				 field_of(volume),
				 foreign_name(server, call, volume->namespace, &other->volume, name),
				 volume_is_placeholder(&other->volume) ? "only " : "with a claim ",
				 volume_is_placeholder(&other->volume) ? "register that one first, or " : "")
		     : STATUS_OK;
}

/* Do both reach the same of their storage? Options that are not plain may name a part of it. */
static bool options_reach_alike(const Holdfast__V1__MountOptions *a, const Holdfast__V1__MountOptions *b)
{
	return (mount_options_are_plain(a) && mount_options_are_plain(b)) ||
	       (a && b && message_eq(&a->base, &b->base));
}

/* Has @parts the context, profile and mount options (and secrets, if @entry is registered) of the volume that
 * it shares the storage of? A volume without a context may be all that the provider's id names, and another
 * profile trusts the contents more. A node gives no id to a namespace. */
static bool is_alike(struct server *server, const struct volume_entry *entry,
		     const struct volume_parts *parts)
{
	const struct volume *volume = &parts->volume;
	const struct volume_entry *named =
		state_volume(&server->state, volume->namespace, parts->detail->shares);
	const Holdfast__V1__VolumeDetail *detail = named ? volume_detail_of(server, &named->volume) : NULL;
	const Holdfast__V1__VolumeSecrets *secrets = named ? volume_secrets_of(server, &named->volume) : NULL;
	struct storage_id id;

	/* which may confine the first name in place of options; see check_left_out() for a new name's */
	if (entry && !volume_is_placeholder(&entry->volume) &&
	    !message_text_maps_eq(VOLUME_MAP(parts->secrets->secrets), parts->secrets->n_secrets,
				  secrets ? VOLUME_MAP(secrets->secrets) : NULL,
				  secrets ? secrets->n_secrets : 0))
		return false;
	/* another volume may have got the name since */
	storage_identify(volume, parts->detail, &id);
	return named && !volume_is_placeholder(&named->volume) && storage_is_same(&named->storage, &id) &&
	       str_eq(named->volume.profile, volume->profile) &&
	       options_reach_alike(parts->detail->mount_options, detail ? detail->mount_options : NULL) &&
	       message_text_maps_eq(VOLUME_MAP(parts->detail->context), parts->detail->n_context,
				    detail ? VOLUME_MAP(detail->context) : NULL,
				    detail ? detail->n_context : 0);
}

/* Checks the right to use another part of the storage that @parts shares, or by another profile. */
static enum status check_words(struct server *server, const struct rpc_call *call,
			       const struct volume_entry *entry, const struct volume_parts *parts,
			       struct error *err)
{
	const char *namespace = parts->volume.namespace;
	enum status status;

	if (parts->detail->shares[0] == '\0' || is_alike(server, entry, parts))
		return STATUS_OK;
	status = access_check(server, call, ACCESS_VOLUME_ADOPT, namespace, err);
	if (status != STATUS_OK)
		(void)error_prefix(
			err,
			"shares: context, profile and mount_options are not those of volume %s, which a "
			"second name of its storage has without this right",
			parts->detail->shares);
	return status;
}

/* Checks the right to change mount options that may name other storage, or confine the volume to a part. */
static enum status check_mount_options(struct server *server, const struct rpc_call *call,
				       const struct volume_entry *entry, const struct volume_parts *parts,
				       struct error *err)
{
	const Holdfast__V1__VolumeDetail *detail = entry ? volume_detail_of(server, &entry->volume) : NULL;
	enum status status;

	if (options_reach_alike(detail ? detail->mount_options : NULL, parts->detail->mount_options) ||
	    (parts->detail->shares[0] != '\0' && is_alike(server, entry, parts)))
		return STATUS_OK;
	status = access_check(server, call, ACCESS_VOLUME_ADOPT, parts->volume.namespace, err);
	return status == STATUS_OK
		       ? status
		       : error_prefix(err, "mount_options: a file system or flag that "
					   "holdfast-volume(5) does not list may be another storage");
}

enum status identity_check_parameters(struct server *server, const struct rpc_call *call,
				      const char *plugin_id, const char *namespace, enum parameters_kind kind,
				      struct message_text_entry *const *map, size_t n, struct error *err)
{
	static const char *const words[PARAMETERS_KIND_N] = {"parameters", "secrets"};
	const char *key = NULL;
	enum status status;

	/* also if it equals the stored one, which no answer may show */
	for (size_t i = 0; i < n && !key; i++)
		if (kind != PARAMETERS_SECRETS || !str_eq(map[i]->value, VOLUME_REDACTED))
			key = parameters_find_unlisted(&server->config.parameters, plugin_id, kind, &map[i],
						       1);
	status = key ? access_check(server, call, ACCESS_VOLUME_ADOPT, namespace, err) : STATUS_OK;
	return status == STATUS_OK
		       ? status
		       : error_prefix(err,
				      "%s: '%.63s' may name other storage, unless plugin \"%s\" { %s } "
				      "of server.hcl lists it",
				      words[kind], key, plugin_id, words[kind]);
}

/* Parameters of a volume are never changed. */
static enum status check_volume_parameters(struct server *server, const struct rpc_call *call,
					   const struct volume_entry *entry, const struct volume_parts *parts,
					   struct error *err)
{
	if (entry && !volume_is_placeholder(&entry->volume))
		return STATUS_OK;
	return identity_check_parameters(server, call, parts->volume.plugin_id, parts->volume.namespace,
					 PARAMETERS_OF_CALLS, VOLUME_MAP(parts->detail->parameters),
					 parts->detail->n_parameters, err);
}

/* The volume as it is stored, or else the one whose storage it shares; NULL: neither. */
static const struct volume_entry *volume_before(struct server *server, const struct volume_entry *entry,
						const struct volume_parts *parts)
{
	return entry && !volume_is_placeholder(&entry->volume)
		       ? entry
		       : state_volume(&server->state, parts->volume.namespace, parts->detail->shares);
}

enum status identity_check_device(struct server *server, const char *plugin_id, struct error *err)
{
	if (!server->config.acl || parameters_fs_type(&server->config.parameters, plugin_id)[0] != '\0')
		return STATUS_OK;
	return error_set(
		err, STATUS_FAILED_PRECONDITION, 0,
		"block-device: who writes to a raw device of plugin %s could choose how it is mounted "
		"later. Next: name the file system of its volumes without one, plugin \"%s\" { fs_type "
		"= \"ext4\" } in server.hcl, and restart the server",
		plugin_id, plugin_id);
}

/* Returns another volume of the storage of @entry, in any context, after @at (NULL: the first one); NULL: no
 * further one. */
static struct volume_entry *next_name(struct server *server, const struct volume_entry *entry,
				      struct volume_entry *at)
{
	const struct storage_id all = storage_of_provider(&entry->storage);

	do
		at = at ? storage_next(&server->state, &all, at) : storage_first(&server->state, &all);
	while (at == entry);
	return at;
}

static bool is_device(const struct volume_entry *entry)
{
	return volume_has_attachment(&entry->volume, ATTACHMENT_BLOCK_DEVICE);
}

static bool has_other_device(struct server *server, const struct volume_entry *entry)
{
	struct volume_entry *at = next_name(server, entry, NULL);

	while (at && !is_device(at))
		at = next_name(server, entry, at);
	return at;
}

bool identity_has_device(struct server *server, const struct volume_entry *entry)
{
	return is_device(entry) || has_other_device(server, entry);
}

/* Checks the right to the device itself: options and secrets of mounts do not confine it. */
static enum status check_device(struct server *server, const struct rpc_call *call,
				const struct volume_entry *entry, const struct volume_parts *parts,
				struct error *err)
{
	const struct volume *volume = &parts->volume;
	const struct volume_entry *before = volume_before(server, entry, parts);
	bool becomes_device = volume_has_attachment(volume, ATTACHMENT_BLOCK_DEVICE);
	bool was_device = before && is_device(before);
	enum status status;

	if (becomes_device || was_device) /* what it held is mounted later */
		TRY(identity_check_device(server, volume->plugin_id, err));
	if (!becomes_device || !before || was_device)
		return STATUS_OK;
	status = access_check(server, call, ACCESS_VOLUME_ADOPT, volume->namespace, err);
	return status == STATUS_OK
		       ? status
		       : error_prefix(
				 err,
				 "requested_capabilities: volume %s has no block-device, which is all of its "
				 "storage, not only the part that its mounts show",
				 before->id);
}

/* A secret may confine a volume, and without any a plugin may use its own: checks the right to leave out one
 * that the volume has, or the one whose storage it shares. */
static enum status check_left_out(struct server *server, const struct rpc_call *call,
				  const struct volume_entry *entry, const struct volume_parts *parts,
				  struct error *err)
{
	const struct volume_entry *from = volume_before(server, entry, parts);
	const Holdfast__V1__VolumeSecrets *stored = from ? volume_secrets_of(server, &from->volume) : NULL;
	enum status status = STATUS_OK;

	for (size_t i = 0; stored && i < stored->n_secrets && status == STATUS_OK; i++)
		if (volume_secret_is_left_out(VOLUME_MAP(stored->secrets)[i],
					      VOLUME_MAP(parts->secrets->secrets), parts->secrets->n_secrets))
			status =
				access_check(server, call, ACCESS_VOLUME_ADOPT, parts->volume.namespace, err);
	return status == STATUS_OK
		       ? status
		       : error_prefix(
				 err,
				 "secrets: volume %s has one that is left out here, which may confine it",
				 from->id);
}

/* Is it the storage that the volume has already? */
static bool is_unchanged(const struct volume_entry *entry, const struct storage_id *id)
{
	return entry && !volume_is_placeholder(&entry->volume) && storage_id_eq(&entry->storage, id);
}

enum status identity_check_volume(struct server *server, const struct rpc_call *call,
				  const struct volume_entry *entry, const struct volume_parts *parts,
				  struct error *err)
{
	const struct volume *volume = &parts->volume;
	const char *shares = parts->detail->shares;
	struct storage_id id;
	enum status status = STATUS_OK;

	TRY(check_mount_options(server, call, entry, parts, err));
	TRY(check_volume_parameters(server, call, entry, parts, err));
	TRY(check_left_out(server, call, entry, parts, err));
	TRY(check_device(server, call, entry, parts, err));
	storage_identify(volume, parts->detail, &id);
	if (is_unchanged(entry, &id))
		return STATUS_OK;
	if (!id.is_known)
		return shares[0] == '\0' ? STATUS_OK
					 : error_set(err, STATUS_INVALID_ARGUMENT, 0,
						     "shares: volume %s has no storage that another volume "
						     "could name",
						     volume->id);
	if (shares[0] == '\0')
		status = check_adopt(server, call, volume->namespace, NULL, field_of(volume), err);
	if (status == STATUS_OK)
		status = check_storage(server, call, volume, shares, &id, err);
	if (status == STATUS_OK)
		status = check_words(server, call, entry, parts, err);
	if (status == STATUS_OK)
		status = check_provider_id(server, call, volume, &id, err);
	if (status == STATUS_OK)
		status = check_reported(server, call, volume, &id, err);
	return status;
}

/* The namespaces that have what a provider would copy. */
struct owners {
	const char **others; /* owned; each once, borrowed from the state */
	size_t n;
	bool has_own;
	bool was_lost; /* another namespace had some of it, and may have left */
	bool is_cut;   /* memory was short for more */
};

static void owners_release(struct owners *owners)
{
	free(owners->others);
}

/* Costs the number of those. */
static void add_owner(struct owners *owners, const char *namespace)
{
	const char **others;

	for (size_t i = 0; i < owners->n; i++)
		if (str_eq(owners->others[i], namespace))
			return;
	others = reallocarray(owners->others, owners->n + 1, sizeof(*others));
	owners->is_cut = owners->is_cut || !others;
	if (!others)
		return;
	owners->others = others;
	owners->others[owners->n++] = namespace;
}

/* Finds those of all volumes of one id, in any context, for @namespace: a node gives no id to that one. */
static void find_owners(struct server *server, const char *namespace, const char *plugin_id,
			const char *external_id, struct owners *ret)
{
	struct volume all = {.type = VOLUME_CSI};
	struct claim_entry *claim = NULL;
	struct volume_entry *at;
	struct storage_id id;

	*ret = (struct owners){0};
	storage_identify_external(plugin_id, external_id, &id);
	for (at = storage_first(&server->state, &id); at; at = storage_next(&server->state, &id, at)) {
		if (!str_eq(at->namespace, namespace))
			add_owner(ret, at->namespace);
		else if (!volume_is_placeholder(&at->volume))
			ret->has_own = true;
	}
	(void)str_copy(all.plugin_id, sizeof(all.plugin_id), plugin_id);
	(void)str_copy(all.external_id, sizeof(all.external_id), external_id);
	while ((claim = storage_next_unmatched(&server->state, &all, &id, claim)))
		if (!str_eq(claim->volume->namespace, namespace))
			add_owner(ret, claim->volume->namespace);
}

static bool is_clone(const struct volume_parts *parts)
{
	return parts->detail->clone_id[0] != '\0';
}

static bool has_source(const struct volume_parts *parts)
{
	return is_clone(parts) || parts->detail->snapshot_id[0] != '\0';
}

static void find_source_owners(struct server *server, const struct volume_parts *parts,
			       const Holdfast__V1__Snapshot *snapshot, struct owners *ret)
{
	const struct volume *volume = &parts->volume;

	*ret = (struct owners){0};
	if (is_clone(parts))
		find_owners(server, volume->namespace, volume->plugin_id, parts->detail->clone_id, ret);
	else if (snapshot && str_eq(snapshot->namespace_, volume->namespace))
		ret->has_own = true;
	else if (snapshot)
		add_owner(ret, snapshot->namespace_);
}

/* The right to copy what @owners have. @call NULL: the server itself, which has no right. */
static enum status check_owners(struct server *server, const struct rpc_call *call, const char *namespace,
				const struct owners *owners, const char *field, struct error *err)
{
	enum status status = STATUS_OK;

	if (!owners->has_own) /* the answer is that to an unknown id */
		TRY(check_adopt(server, call, namespace, NULL, field, err));
	else if (owners->was_lost)
		status = check_adopt(server, call, namespace, NULL, field, err);
	if (owners->is_cut)
		return error_no_memory(err, "the namespaces that have an id");
	for (size_t i = 0; status == STATUS_OK && i < owners->n; i++)
		status = check_adopt(server, call, namespace, owners->others[i], field, err);
	if (status == STATUS_OK || !owners->has_own)
		return status;
	return error_set(
		err, STATUS_PERMISSION_DENIED, 0,
		"%s: another namespace has a volume of this id, in another context, or had it%s, and the "
		"provider copies all that has the id: %s",
		field, owners->was_lost ? ", or limits confine the source since" : "",
		call ? "that needs csi-adopt-volume in both"
		     : "no schedule may; remove it, and make snapshots with csi-adopt-volume in both");
}

/* A snapshot that is not ready is no source. Source: CSI, Snapshot.ready_to_use. */
static enum status check_usable(const Holdfast__V1__Snapshot *snapshot, struct error *err)
{
	if (snapshot->deleting)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "snapshot_id: the deletion of snapshot %s began, and may have happened",
				 snapshot->name);
	if (snapshot->ready)
		return STATUS_OK;
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "snapshot_id: the provider has not reported snapshot %s ready; to ask it again: "
			 "holdfast volume snapshot create %s %s",
			 snapshot->name, snapshot->source_volume_id, snapshot->name);
}

/* Notes in @detail whose storage a caller has the right to. */
static enum status note_owners(const struct owners *owners, Holdfast__V1__VolumeDetail *detail,
			       struct error *err)
{
	for (size_t i = 0; i < detail->n_source_namespaces; i++)
		free(detail->source_namespaces[i]);
	free(detail->source_namespaces);
	detail->n_source_namespaces = 0;
	detail->source_lost = false;
	detail->source_namespaces = owners->n > 0 ? calloc(owners->n, sizeof(char *)) : NULL;
	for (size_t i = 0; detail->source_namespaces && i < owners->n; i++) {
		char *name = strdup(owners->others[i]);

		if (!name)
			break;
		detail->source_namespaces[detail->n_source_namespaces++] = name;
	}
	return detail->n_source_namespaces == owners->n ? STATUS_OK : error_no_memory(err, "a volume");
}

/* Does the copy keep the limits of one of the volumes of its namespace that have the id of its source? That
 * one is all of it. True, too, without any.
 * @ret_has_device a volume of the id, of any namespace, is a block device. */
static bool keeps_limits_of(struct server *server, const struct volume_parts *copy, const char *external_id,
			    bool *ret_has_device)
{
	bool has_any = false, is_kept = false;
	struct volume_entry *at;
	struct storage_id id;

	storage_identify_external(copy->volume.plugin_id, external_id, &id);
	at = storage_first(&server->state, &id);
	*ret_has_device = at && identity_has_device(server, at);
	for (; at && !is_kept; at = storage_next(&server->state, &id, at)) {
		Holdfast__V1__SourceLimits *limits;

		if (volume_is_placeholder(&at->volume) || !str_eq(at->namespace, copy->volume.namespace))
			continue;
		has_any = true;
		limits = limits_of(&at->volume, volume_detail_of(server, &at->volume),
				   volume_secrets_of(server, &at->volume));
		is_kept = limits_are_kept(limits, copy);
		holdfast__v1__source_limits__free_unpacked(limits, NULL);
	}
	return is_kept || !has_any;
}

/* Checks the right to a copy that reaches more than the volume that it is made from, as it was then and as it
 * is now. A mount of a former raw device needs a type. */
static enum status check_limits(struct server *server, const struct rpc_call *call,
				struct volume_parts *parts, const Holdfast__V1__Snapshot *snapshot,
				const char *field, struct error *err)
{
	bool was_device = false;
	bool is_kept = keeps_limits_of(server, parts,
				       snapshot ? snapshot->external_source_id : parts->detail->clone_id,
				       &was_device);

	if (snapshot)
		is_kept = limits_are_kept(snapshot->limits, parts) && is_kept;
	was_device = was_device || (snapshot && snapshot->limits && snapshot->limits->was_device);
	if (was_device && identity_check_device(server, parts->volume.plugin_id, err) != STATUS_OK)
		return error_prefix(err, "%s: the source is or was a block device", field);
	if (is_kept)
		return STATUS_OK;
	parts->detail->source_adopted = true;
	return access_check(server, call, ACCESS_VOLUME_ADOPT, parts->volume.namespace, err) == STATUS_OK
		       ? STATUS_OK
		       : error_prefix(err,
				      "%s: the copy reaches more of the data than its source does, which "
				      "has mount options, a context, secrets or no block-device",
				      field);
}

/* Callers without the right choose the secrets that root lists. */
static bool has_secret_of_others(struct server *server, const struct volume *volume)
{
	const Holdfast__V1__VolumeSecrets *secrets = volume_secrets_of(server, volume);
	bool has_secret = false;

	for (size_t i = 0; secrets && i < secrets->n_secrets; i++)
		has_secret = has_secret || (!volume_secret_is_blank(secrets->secrets[i]->value) &&
					    parameters_find_unlisted(&server->config.parameters,
								     volume->plugin_id, PARAMETERS_SECRETS,
								     &VOLUME_MAP(secrets->secrets)[i], 1));
	return has_secret;
}

/* Checks the right to adopt if @is_confined. */
static enum status check_confined(struct server *server, const struct rpc_call *call,
				  const struct volume_entry *entry, bool is_confined, struct error *err)
{
	enum status status = STATUS_OK;

	if (is_confined)
		status = access_check(server, call, ACCESS_VOLUME_ADOPT, entry->namespace, err);
	return status == STATUS_OK ? status
				   : error_prefix(err,
						  "volume %s may be a part of the storage that has its id: "
						  "mount options, a context or secrets confine it",
						  entry->id);
}

enum status identity_check_delete(struct server *server, const struct rpc_call *call,
				  const struct volume_entry *entry, struct error *err)
{
	return check_confined(server, call, entry, limits_is_part(volume_detail_of(server, &entry->volume)),
			      err);
}

/* Has the storage another name in the namespace, which forgets the last one with the right to it only? A
 * creation that is answered with the storage of another name is forgotten: identity_check_made(). */
static bool has_other_name(struct server *server, const struct volume_entry *entry)
{
	struct volume_entry *at = next_name(server, entry, NULL);

	while (at && (volume_is_placeholder(&at->volume) || !str_eq(at->namespace, entry->namespace)))
		at = next_name(server, entry, at);
	return at;
}

/* Checks the type of a plugin whose block device is forgotten, unless another name shows what it was. A
 * plugin that has gone mounts nothing: then its operators may forget it. */
static enum status check_forget_device(struct server *server, const struct rpc_call *call,
				       const struct volume_entry *entry, struct error *err)
{
	if (!is_device(entry) || has_other_device(server, entry) ||
	    identity_check_device(server, entry->volume.plugin_id, err) == STATUS_OK ||
	    (entry->plugin->n_instances == 0 && may(server, call, ACCESS_VOLUME_ADOPT, entry->namespace)))
		return STATUS_OK;
	return error_prefix(err,
			    "volume %s is a block device: without a type of its plugin it is forgotten with "
			    "csi-adopt-volume only, when no node has the plugin",
			    entry->id);
}

enum status identity_check_forget(struct server *server, const struct rpc_call *call,
				  const struct volume_entry *entry, struct error *err)
{
	TRY(check_forget_device(server, call, entry, err));
	return check_confined(server, call, entry,
			      (limits_is_part(volume_detail_of(server, &entry->volume)) ||
			       has_secret_of_others(server, &entry->volume)) &&
				      !has_other_name(server, entry),
			      err);
}

enum status identity_check_source(struct server *server, const struct rpc_call *call,
				  struct volume_parts *parts, const Holdfast__V1__Snapshot *snapshot,
				  struct error *err)
{
	const char *field = is_clone(parts) ? "clone_id" : "snapshot_id";
	cleanup(owners_release) struct owners owners = {.n = 0};

	if (!has_source(parts))
		return STATUS_OK;
	find_source_owners(server, parts, snapshot, &owners);
	owners.was_lost = parts->detail->source_lost;
	parts->detail->source_adopted = !owners.has_own;
	TRY(check_owners(server, call, parts->volume.namespace, &owners, field, err));
	TRY(check_limits(server, call, parts, snapshot, field, err));
	if (snapshot)
		TRY(check_usable(snapshot, err));
	return note_owners(&owners, parts->detail, err);
}

bool identity_is_source_of(const struct volume *volume, const Holdfast__V1__VolumeDetail *detail,
			   const char *namespace)
{
	for (size_t i = 0; i < detail->n_source_namespaces; i++)
		if (str_eq(detail->source_namespaces[i], namespace))
			return true;
	return str_eq(volume->namespace, namespace);
}

enum status identity_check_source_still(struct server *server, const struct volume_parts *parts,
					const Holdfast__V1__Snapshot *snapshot, struct error *err)
{
	cleanup(owners_release) struct owners owners = {.n = 0};
	bool is_changed, ignored;

	if (!has_source(parts))
		return STATUS_OK;
	find_source_owners(server, parts, snapshot, &owners);
	is_changed = owners.is_cut || parts->detail->source_lost;
	if (is_clone(parts) && !parts->detail->source_adopted) /* the contents of a snapshot stay */
		is_changed = is_changed || !keeps_limits_of(server, parts, parts->detail->clone_id, &ignored);
	for (size_t i = 0; i < owners.n; i++)
		is_changed =
			is_changed || !identity_is_source_of(&parts->volume, parts->detail, owners.others[i]);
	if (!is_changed)
		return STATUS_OK;
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "%s: another namespace has this id, or had it, or limits confine the source, since "
			 "the creation of volume %s was asked for; repeat that with csi-adopt-volume in both "
			 "namespaces, or end it: holdfast volume deregister %s%s%s",
			 is_clone(parts) ? "clone_id" : "snapshot_id", parts->volume.id, parts->volume.id,
			 NAMESPACE_OPTION(parts->volume.namespace));
}

bool identity_is_owner(struct server *server, const struct volume *volume)
{
	cleanup(owners_release) struct owners owners = {.n = 0};

	find_owners(server, volume->namespace, volume->plugin_id, volume->external_id, &owners);
	return owners.has_own;
}

enum status identity_check_scheduled(struct server *server, const struct volume *volume, struct error *err)
{
	cleanup(owners_release) struct owners owners = {.n = 0};

	find_owners(server, volume->namespace, volume->plugin_id, volume->external_id, &owners);
	owners.has_own = true;
	return check_owners(server, NULL, volume->namespace, &owners, "snapshots", err);
}

enum status identity_check_copied(struct server *server, const struct rpc_call *call,
				  const struct volume *volume, struct error *err)
{
	cleanup(owners_release) struct owners owners = {.n = 0};

	find_owners(server, volume->namespace, volume->plugin_id, volume->external_id, &owners);
	return check_owners(server, call, volume->namespace, &owners, "volume_id", err);
}

enum status identity_check_made(struct server *server, const struct volume *volume, struct error *err)
{
	struct volume_entry *at;
	struct storage_id id;

	storage_identify_external(volume->plugin_id, volume->external_id, &id);
	at = storage_first(&server->state, &id);
	while (at && is_itself(at, volume))
		at = storage_next(&server->state, &id, at);
	if (!at && !find_reported(server, volume, &id))
		return STATUS_OK;
	return error_set(
		err, STATUS_ALREADY_EXISTS, 0,
		"volume %s: plugin %s answered with storage that another volume has already; nothing was "
		"kept, and nothing is deleted at the provider",
		volume->id, volume->plugin_id);
}

enum status identity_check_alone(struct server *server, const struct rpc_call *call,
				 const struct volume_entry *entry, struct error *err)
{
	const struct storage_id all = storage_of_provider(&entry->storage);
	const struct volume_entry *other = next_name(server, entry, NULL);
	char name[FOREIGN_NAME_SIZE];

	if (other)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "volume %s: %s has the same id at the provider, which deletes only by that "
				 "id; forget this one with holdfast volume deregister %s%s%s, or the other "
				 "one first",
				 entry->id,
				 foreign_name(server, call, entry->namespace, &other->volume, name),
				 entry->id, NAMESPACE_OPTION(entry->namespace));
	return check_reported(server, call, &entry->volume, &all, err);
}

void identity_sight_init(struct server *server, const struct rpc_call *call, struct identity_sight *ret)
{
	*ret = (struct identity_sight){.scope = {.right = ACCESS_VOLUME_LIST}}; /* of nothing */
	/* fails when the caller's token ended while the provider was asked */
	(void)access_scope_init(server, call, ACCESS_VOLUME_LIST, &ret->scope, NULL);
	ret->sees_unknown = may(server, call, ACCESS_VOLUME_ADOPT, NULL);
}

bool identity_sees_volume(struct server *server, struct identity_sight *sight, const char *plugin_id,
			  const char *external_id)
{
	struct volume_entry *at;
	bool is_known = false;
	struct storage_id id;

	storage_identify_external(plugin_id, external_id, &id);
	for (at = storage_first(&server->state, &id); at; at = storage_next(&server->state, &id, at)) {
		if (volume_is_placeholder(&at->volume))
			continue;
		if (access_scope_has(&sight->scope, at->namespace))
			return true;
		is_known = true;
	}
	return !is_known && sight->sees_unknown;
}

bool identity_sees_snapshot(struct identity_sight *sight, const Holdfast__V1__Snapshot *known)
{
	return known ? access_scope_has(&sight->scope, known->namespace_) : sight->sees_unknown;
}

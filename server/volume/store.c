/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store.h"

#include "server.h"

#include "api/watch.h"
#include "base/clock.h"
#include "base/str.h"
#include "plugin/args.h"
#include "state/keys.h"

static void detail_key(const struct volume *volume, char ret[static OBJECT_KEY_SIZE])
{
	(void)str_format(ret, OBJECT_KEY_SIZE, PREFIX_VOLUME_DETAIL "%s/%s", volume->namespace, volume->id);
}

static void secrets_key(const struct volume *volume, char ret[static OBJECT_KEY_SIZE])
{
	(void)str_format(ret, OBJECT_KEY_SIZE, PREFIX_VOLUME_SECRETS "%s/%s", volume->namespace, volume->id);
}

enum status volume_store_find(struct server *server, const char *namespace, const char *id,
			      struct volume_entry **ret, struct error *err)
{
	struct volume_entry *entry = state_volume(&server->state, namespace, id);

	if (!entry)
		return error_set(err, STATUS_NOT_FOUND, 0,
				 "there is no volume %.128s in namespace %.64s; holdfast volume "
				 "status%s%.64s lists them",
				 id, namespace, NAMESPACE_OPTION(namespace));
	*ret = entry;
	return STATUS_OK;
}

const Holdfast__V1__VolumeDetail *volume_detail_of(struct server *server, const struct volume *volume)
{
	return plugin_args_detail(&server->state, volume->namespace, volume->id);
}

const Holdfast__V1__VolumeSecrets *volume_secrets_of(struct server *server, const struct volume *volume)
{
	return plugin_args_secrets(&server->state, volume->namespace, volume->id);
}

enum status volume_store_load(struct server *server, const struct volume_entry *entry,
			      struct volume_parts *ret, struct error *err)
{
	return volume_parts_copy(&entry->volume, volume_detail_of(server, &entry->volume),
				 volume_secrets_of(server, &entry->volume), ret, err);
}

static void stage_deletion(struct server *server, struct change *change, const char *key)
{
	if (records_get(&server->state.records, key))
		change_delete_record(change, key);
}

static void stage_record(struct server *server, struct change *change, const char *key,
			 const ProtobufCMessage *message)
{
	if (protobuf_c_message_get_packed_size(message) > 0)
		change_put_record(change, key, message);
	else
		stage_deletion(server, change, key);
}

void volume_store_stage(struct server *server, struct change *change, struct volume_parts *parts)
{
	char key[OBJECT_KEY_SIZE];

	parts->volume.modify_time_ms = clock_realtime_ms();
	detail_key(&parts->volume, key);
	stage_record(server, change, key, &parts->detail->base);
	secrets_key(&parts->volume, key);
	stage_record(server, change, key, &parts->secrets->base);
	/* last: its storage is identified by its detail too, see storage_first() */
	change_put_volume(change, &parts->volume);
}

void volume_store_stage_deletion(struct server *server, struct change *change, struct volume_entry *entry)
{
	struct claim_entry *claim;
	char key[OBJECT_KEY_SIZE];

	assert(entry->n_live == 0); /* a node may write to it */
	LIST_FOREACH (claim, &entry->claims, of_volume)
		change_delete_claim(change, &claim->claim);
	change_delete_volume(change, &entry->volume);
	detail_key(&entry->volume, key);
	stage_deletion(server, change, key);
	secrets_key(&entry->volume, key);
	stage_deletion(server, change, key);
	if (entry->volume.generation > state_generation_floor(&server->state))
		change_put_floor(change, entry->volume.generation);
}

uint64_t volume_store_index(struct server *server, struct volume_entry *entry)
{
	uint64_t index = entry->volume.modify_index; /* its details never change without it */
	struct claim_entry *claim;

	if (entry->freed_index > index)
		index = entry->freed_index;
	LIST_FOREACH (claim, &entry->claims, of_volume)
		if (claim->claim.modify_index > index)
			index = claim->claim.modify_index;
	return watch_object_index(server, index);
}

bool volume_is_creating(struct server *server, const struct volume *volume)
{
	const Holdfast__V1__VolumeDetail *detail = volume_detail_of(server, volume);

	return detail && detail->phase == HOLDFAST__V1__VOLUME_PHASE__VOLUME_CREATING;
}

enum status volume_store_check_usable(struct server *server, const struct volume *volume, struct error *err)
{
	const Holdfast__V1__VolumeDetail *detail = volume_detail_of(server, volume);
	bool is_creating = volume_is_creating(server, volume);

	if (!is_creating && (!detail || detail->phase != HOLDFAST__V1__VOLUME_PHASE__VOLUME_DELETING))
		return STATUS_OK;
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "volume %s is being %s at its provider%s%.256s; holdfast volume status %s%s%s",
			 volume->id, is_creating ? "created" : "deleted",
			 detail->phase_error[0] != '\0' ? ": " : "", detail->phase_error, volume->id,
			 NAMESPACE_OPTION(volume->namespace));
}

enum status volume_check_same(const struct volume *volume, uint64_t create_index, struct error *err)
{
	if (create_index == 0 || create_index == volume->create_index)
		return STATUS_OK;
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "volume %s has changed since it was read: it was registered again. Next: holdfast "
			 "volume status %s%s%s",
			 volume->id, volume->id, NAMESPACE_OPTION(volume->namespace));
}

enum status volume_check_registered(const struct volume *volume, struct error *err)
{
	if (!volume_is_placeholder(volume))
		return STATUS_OK;
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "volume %s is known only from a node's report, which proves no storage; register it "
			 "again first: holdfast volume register FILE%s%s",
			 volume->id, NAMESPACE_OPTION(volume->namespace));
}

char *volume_object(const struct volume *volume, char ret[static VOLUME_OBJECT_SIZE])
{
	(void)str_format(ret, VOLUME_OBJECT_SIZE, "volume %s/%s", volume->namespace, volume->id);
	return ret;
}

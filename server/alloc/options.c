/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/options.h"

#include "server.h"

#include "base/cleanup.h"
#include "base/join.h"
#include "base/str.h"
#include "model/message.h"
#include "model/node_loss.h"
#include "model/plain_options.h"
#include "model/volume_detail.h"
#include "state/keys.h"
#include "state/objects.h"
#include "state/records.h"

#include <stdlib.h>
#include <string.h>

static void key_of(const char *alloc_id, char ret[static OBJECT_KEY_SIZE])
{
	(void)str_format(ret, OBJECT_KEY_SIZE, PREFIX_ALLOC_OPTIONS "%.36s", alloc_id);
}

static const Holdfast__V1__AllocationOptions *alloc_options_find(struct state *state, const char *alloc_id)
{
	char key[OBJECT_KEY_SIZE];

	key_of(alloc_id, key);
	return records_get(&state->records, key);
}

static bool has_mount_options(const Holdfast__V1__MountOptions *options)
{
	return options && (options->fs_type[0] != '\0' || options->n_mount_flags > 0);
}

/* A caller who may only submit work gives plain options. No answer shows a flag. */
static enum status check_plain(const struct volume_request *request,
			       const Holdfast__V1__MountOptions *options, struct error *err)
{
#define NEXT "; holdfast-volume(5) lists those that are. Next: write it into mount_options of the volume"
	if (!fs_type_is_plain(options->fs_type))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "volume %s: mount_options.fs_type: '%s' is not for an allocation to "
				 "choose" NEXT,
				 request->name, options->fs_type);
	for (size_t i = 0; i < options->n_mount_flags; i++)
		if (!mount_flag_is_plain(options->mount_flags[i]))
			return error_set(err, STATUS_INVALID_ARGUMENT, 0,
					 "volume %s: mount_options.mount_flags[%zu]: it is not for an "
					 "allocation to choose" NEXT,
					 request->name, i);
	return STATUS_OK;
}

static enum status check_one(struct state *state, const struct alloc *alloc,
			     const struct volume_request *request, const Holdfast__V1__MountOptions *options,
			     struct error *err)
{
	const struct volume_entry *volume = state_volume(state, alloc->namespace, request->source);
	struct error why = {.msg = ""};

	if (request->attachment_mode == ATTACHMENT_BLOCK_DEVICE)
		return error_set(
			err, STATUS_INVALID_ARGUMENT, 0,
			"volume %s: mount_options contradict attachment_mode block-device, which is no "
			"mount; leave them out",
			request->name);
	if (volume && volume->volume.type != VOLUME_CSI)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "volume %s: mount_options are for csi volumes; %s is native: its profile in "
				 "the mount helper's policy has its options",
				 request->name, request->source);
	for (size_t i = 0; i < options->n_mount_flags; i++)
		if (str_eq(options->mount_flags[i], VOLUME_REDACTED))
			return error_set(err, STATUS_INVALID_ARGUMENT, 0,
					 "volume %s: mount_options.mount_flags: \"" VOLUME_REDACTED
					 "\" is what reads show in their place; give the flags",
					 request->name);
	if (mount_options_check(options, &why) != STATUS_OK)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "volume %s: %s", request->name, why.msg);
	return check_plain(request, options, err);
}

/* Add the options of one volume; the name is enough to find them by. False when memory is short. */
static bool add(Holdfast__V1__AllocationOptions *to, const Holdfast__V1__VolumeRequest *from)
{
	Holdfast__V1__VolumeRequest bare = HOLDFAST__V1__VOLUME_REQUEST__INIT;
	Holdfast__V1__VolumeRequest *copy;

	bare.name = from->name;
	bare.mount_options = from->mount_options;
	copy = (Holdfast__V1__VolumeRequest *)(void *)message_copy(&bare.base);
	if (!copy)
		return false;
	to->volumes[to->n_volumes++] = copy;
	return true;
}

static Holdfast__V1__AllocationOptions *options_new(size_t n)
{
	Holdfast__V1__AllocationOptions *options = malloc(sizeof(*options));

	if (!options)
		return NULL;
	holdfast__v1__allocation_options__init(options);
	options->volumes = calloc(n, sizeof(Holdfast__V1__VolumeRequest *));
	if (options->volumes)
		return options;
	free(options);
	return NULL;
}

static void options_free(Holdfast__V1__AllocationOptions *options)
{
	if (!options)
		return;
	for (size_t i = 0; i < options->n_volumes; i++)
		holdfast__v1__volume_request__free_unpacked(options->volumes[i], NULL);
	free(options->volumes); /* there even when it is empty */
	holdfast__v1__on_node_loss__free_unpacked(options->on_node_loss, NULL);
	free(options);
}
DEFINE_CLEANUP(Holdfast__V1__AllocationOptions, options_free)

static enum status take_node_loss(const Holdfast__V1__Allocation *pb, Holdfast__V1__AllocationOptions *to,
				  struct error *err)
{
	if (!pb->on_node_loss)
		return STATUS_OK;
	if (pb->n_volumes == 0)
		return error_invalid(err, "on_node_loss",
				     "contradicts an allocation without volume; leave it out");
	TRY(node_loss_check(pb->on_node_loss, false, err));
	to->on_node_loss = (Holdfast__V1__OnNodeLoss *)(void *)message_copy(&pb->on_node_loss->base);
	return to->on_node_loss ? STATUS_OK : error_no_memory(err, "on_node_loss");
}

enum status alloc_options_take(struct state *state, const Holdfast__V1__Allocation *pb,
			       const struct alloc *alloc, Holdfast__V1__AllocationOptions **ret,
			       struct error *err)
{
	cleanup(options_freep) Holdfast__V1__AllocationOptions *options = options_new(pb->n_volumes + 1);
	size_t bytes;

	if (!options)
		return error_no_memory(err, "mount options");
	for (size_t i = 0; i < pb->n_volumes; i++) {
		const Holdfast__V1__VolumeRequest *from = pb->volumes[i];

		if (!has_mount_options(from->mount_options))
			continue;
		TRY(check_one(state, alloc, &alloc->volumes[i], from->mount_options, err));
		if (!add(options, from))
			return error_no_memory(err, "mount options");
	}
	TRY(take_node_loss(pb, options, err));
	bytes = protobuf_c_message_get_packed_size(&options->base);
	if (bytes > ALLOC_OPTIONS_BYTES_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "mount_options: %zu bytes in all volumes of the allocation, at most %d",
				 bytes, ALLOC_OPTIONS_BYTES_MAX);
	*ret = options->n_volumes > 0 || options->on_node_loss ? TAKE_PTR(options) : NULL;
	return STATUS_OK;
}

bool alloc_options_are(struct state *state, const char *alloc_id,
		       const Holdfast__V1__AllocationOptions *options)
{
	const Holdfast__V1__AllocationOptions *kept = alloc_options_find(state, alloc_id);
	uint8_t a[ALLOC_OPTIONS_BYTES_MAX];
	uint8_t b[ALLOC_OPTIONS_BYTES_MAX];
	size_t n = options ? protobuf_c_message_get_packed_size(&options->base) : 0;

	if (!kept || !options)
		return !kept && !options;
	if (n > sizeof(a) || n != protobuf_c_message_get_packed_size(&kept->base))
		return false;
	(void)protobuf_c_message_pack(&options->base, a);
	(void)protobuf_c_message_pack(&kept->base, b);
	return memcmp(a, b, n) == 0;
}

void alloc_options_stage(struct change *change, const char *alloc_id,
			 const Holdfast__V1__AllocationOptions *options)
{
	char key[OBJECT_KEY_SIZE];

	if (!options)
		return;
	key_of(alloc_id, key);
	change_put_record(change, key, &options->base);
}

void alloc_options_stage_deletion(struct state *state, struct change *change, const char *alloc_id)
{
	char key[OBJECT_KEY_SIZE];

	if (!alloc_options_find(state, alloc_id))
		return;
	key_of(alloc_id, key);
	change_delete_record(change, key);
}

static const Holdfast__V1__MountOptions *of_volume(const Holdfast__V1__AllocationOptions *options,
						   const char *name)
{
	for (size_t i = 0; i < options->n_volumes; i++)
		if (str_eq(options->volumes[i]->name, name))
			return options->volumes[i]->mount_options;
	return NULL;
}

/* Returns the one request of the claim's allocation, which becomes @ret_alloc, that names the claim's volume;
 * NULL: no request. */
static const struct volume_request *request_of(struct state *state, const struct claim *claim,
					       const struct alloc **ret_alloc)
{
	const struct alloc_entry *entry = state_alloc_of(state, claim);

	for (uint32_t i = 0; entry && i < entry->alloc.n_volumes; i++) {
		*ret_alloc = &entry->alloc;
		if (str_eq(entry->alloc.volumes[i].source, claim->volume_id))
			return &entry->alloc.volumes[i];
	}
	return NULL;
}

static const Holdfast__V1__MountOptions *of_claim(struct state *state, const struct claim *claim)
{
	const Holdfast__V1__AllocationOptions *options = alloc_options_find(state, claim->allocation_id);
	const struct alloc *alloc;
	const struct volume_request *request = options ? request_of(state, claim, &alloc) : NULL;

	return request ? of_volume(options, request->name) : NULL;
}

static void add_flags(struct alloc_mount_options *to, char *const *flags, size_t n)
{
	Holdfast__V1__MountOptions *options = &to->options;

	for (size_t i = 0; i < n && options->n_mount_flags < ARRAY_SIZE(to->flags); i++)
		to->flags[options->n_mount_flags++] = flags[i];
}

Holdfast__V1__MountOptions *alloc_options_for(struct state *state, const struct claim *claim,
					      Holdfast__V1__MountOptions *volume,
					      struct alloc_mount_options *storage)
{
	const Holdfast__V1__MountOptions *own = of_claim(state, claim);
	Holdfast__V1__MountOptions *options = &storage->options;
	const char *by_root =
		state->server ? parameters_fs_type(&state->server->config.parameters, claim->plugin_id) : "";
	bool has_type = volume && volume->fs_type[0] != '\0';

	if (own && !mount_options_are_plain(own)) /* a store of before may have others */
		own = NULL;
	if (!own && (has_type || by_root[0] == '\0'))
		return volume;
	holdfast__v1__mount_options__init(options);
	options->mount_flags = storage->flags;
	options->fs_type = volume && has_type ? volume->fs_type : (char *)(uintptr_t)by_root;
	if (own && own->fs_type[0] != '\0')
		options->fs_type = own->fs_type;
	if (volume)
		add_flags(storage, volume->mount_flags, volume->n_mount_flags);
	if (own)
		add_flags(storage, own->mount_flags, own->n_mount_flags);
	return options;
}

/* @to has no options of its own. */
static bool show_one(const Holdfast__V1__MountOptions *from, Holdfast__V1__VolumeRequest *to)
{
	static char redacted[] = VOLUME_REDACTED;
	char *flags[] = {redacted};
	Holdfast__V1__MountOptions shown = HOLDFAST__V1__MOUNT_OPTIONS__INIT;

	shown.fs_type = from->fs_type;
	if (from->n_mount_flags > 0) {
		shown.mount_flags = flags;
		shown.n_mount_flags = 1;
	}
	to->mount_options = (Holdfast__V1__MountOptions *)(void *)message_copy(&shown.base);
	return to->mount_options != NULL;
}

const Holdfast__V1__OnNodeLoss *alloc_options_node_loss(struct state *state, const char *alloc_id)
{
	const Holdfast__V1__AllocationOptions *options = alloc_options_find(state, alloc_id);

	return options ? options->on_node_loss : NULL;
}

bool alloc_options_show(struct state *state, Holdfast__V1__Allocation *view)
{
	const Holdfast__V1__AllocationOptions *options = alloc_options_find(state, view->id);

	if (options && options->on_node_loss && !view->on_node_loss) {
		view->on_node_loss =
			(Holdfast__V1__OnNodeLoss *)(void *)message_copy(&options->on_node_loss->base);
		if (!view->on_node_loss)
			return false;
	}
	for (size_t i = 0; options && i < view->n_volumes; i++) {
		const Holdfast__V1__MountOptions *from = of_volume(options, view->volumes[i]->name);

		if (from && !view->volumes[i]->mount_options && !show_one(from, view->volumes[i]))
			return false;
	}
	return true;
}

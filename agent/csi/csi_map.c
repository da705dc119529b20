/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/csi_map.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <string.h>

#define CSI_MODE(name) CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__MODE__##name

static const Csi__V1__VolumeCapability__AccessMode__Mode modes[ACCESS_MODE_N] = {
	[ACCESS_MODE_UNSPECIFIED] = CSI_MODE(UNKNOWN),
	[SINGLE_NODE_READER_ONLY] = CSI_MODE(SINGLE_NODE_READER_ONLY),
	[SINGLE_NODE_WRITER] = CSI_MODE(SINGLE_NODE_WRITER),
	[SINGLE_NODE_SINGLE_WRITER] = CSI_MODE(SINGLE_NODE_SINGLE_WRITER),
	[SINGLE_NODE_MULTI_WRITER] = CSI_MODE(SINGLE_NODE_MULTI_WRITER),
	[MULTI_NODE_READER_ONLY] = CSI_MODE(MULTI_NODE_READER_ONLY),
	[MULTI_NODE_SINGLE_WRITER] = CSI_MODE(MULTI_NODE_SINGLE_WRITER),
	[MULTI_NODE_MULTI_WRITER] = CSI_MODE(MULTI_NODE_MULTI_WRITER),
};

Csi__V1__VolumeCapability__AccessMode__Mode csi_access_mode(enum access_mode mode)
{
	return (unsigned int)mode < ACCESS_MODE_N ? modes[mode] : CSI_MODE(UNKNOWN);
}

void csi_borrow_capability(enum access_mode access_mode, enum attachment_mode attachment_mode,
			   const Holdfast__V1__MountOptions *options, struct csi_capability *ret)
{
	csi__v1__volume_capability__init(&ret->pb);
	csi__v1__volume_capability__access_mode__init(&ret->access_mode);
	csi__v1__volume_capability__block_volume__init(&ret->block);
	csi__v1__volume_capability__mount_volume__init(&ret->mount);
	ret->access_mode.mode = csi_access_mode(access_mode);
	ret->pb.access_mode = &ret->access_mode;
	if (attachment_mode == ATTACHMENT_BLOCK_DEVICE) {
		ret->pb.access_type_case = CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_BLOCK;
		ret->pb.block = &ret->block;
		return;
	}
	ret->pb.access_type_case = CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_MOUNT;
	ret->pb.mount = &ret->mount;
	if (!options)
		return;
	ret->mount.fs_type = options->fs_type;
	ret->mount.mount_flags = options->mount_flags;
	ret->mount.n_mount_flags = options->n_mount_flags;
}

void csi_capability_coarsen(struct csi_capability *capability)
{
	Csi__V1__VolumeCapability__AccessMode *mode = &capability->access_mode;

	if (mode->mode == CSI_MODE(SINGLE_NODE_SINGLE_WRITER) ||
	    mode->mode == CSI_MODE(SINGLE_NODE_MULTI_WRITER))
		mode->mode = CSI_MODE(SINGLE_NODE_WRITER);
}

static bool has_flag(const Csi__V1__VolumeCapability__MountVolume *mount, const char *flag)
{
	for (size_t i = 0; i < mount->n_mount_flags; i++)
		if (str_eq(mount->mount_flags[i], flag))
			return true;
	return false;
}

static bool mount_confirms(const Csi__V1__VolumeCapability__MountVolume *confirmed,
			   const Csi__V1__VolumeCapability__MountVolume *wanted)
{
	if (confirmed->fs_type[0] != '\0' && wanted->fs_type[0] != '\0' &&
	    !str_eq(confirmed->fs_type, wanted->fs_type))
		return false;
	if (confirmed->n_mount_flags > CSI_CONFIRMED_MAX)
		return false;
	for (size_t i = 0; i < wanted->n_mount_flags; i++)
		if (!has_flag(confirmed, wanted->mount_flags[i]))
			return false;
	return true;
}

bool csi_capability_confirms(const Csi__V1__VolumeCapability *confirmed,
			     const Csi__V1__VolumeCapability *wanted)
{
	const Csi__V1__VolumeCapability__AccessMode *mode = confirmed->access_mode;

	if (mode && mode->mode != CSI_MODE(UNKNOWN) &&
	    (!wanted->access_mode || mode->mode != wanted->access_mode->mode))
		return false;
	if (confirmed->access_type_case == CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE__NOT_SET)
		return true;
	if (confirmed->access_type_case != wanted->access_type_case)
		return false;
	return confirmed->access_type_case != CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_MOUNT ||
	       mount_confirms(confirmed->mount, wanted->mount);
}

/* The place of @key among the sorted segments: where it is, or where it belongs. */
static uint32_t segment_place(const struct topology *topology, const char *key)
{
	uint32_t at = 0;

	while (at < topology->n_segments && strcmp(topology->segments[at].key, key) < 0)
		at++;
	return at;
}

/* Sorted by key, as plugins give the same segments in any order; of a key given twice the last counts, as
 * protobuf has it. */
static bool add_segment(struct topology *topology, const char *key, const char *value)
{
	struct topology_segment segment = {.key = ""};
	struct topology_segment *place;
	uint32_t at;

	if (key[0] == '\0' || !str_is_text(key) || !str_is_text(value) ||
	    str_copy(segment.key, sizeof(segment.key), key) < 0 ||
	    str_copy(segment.value, sizeof(segment.value), value) < 0)
		return false;
	at = segment_place(topology, key);
	place = &topology->segments[at];
	if (at < topology->n_segments && str_eq(place->key, key)) {
		*place = segment;
		return true;
	}
	if (topology->n_segments == TOPOLOGY_SEGMENTS_MAX)
		return false;
	memmove(place + 1, place, (topology->n_segments - at) * sizeof(*place));
	*place = segment;
	topology->n_segments++;
	return true;
}

bool csi_topology_from(const Csi__V1__Topology *pb, struct topology *ret)
{
	struct topology topology = {.n_segments = 0};

	for (size_t i = 0; pb && i < pb->n_segments; i++)
		if (!add_segment(&topology, pb->segments[i]->key, pb->segments[i]->value))
			return false;
	*ret = topology;
	return true;
}

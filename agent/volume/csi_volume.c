/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/csi_volume.h"

#include "mounthelper_wire.h"

#include "base/id.h"
#include "base/str.h"

#include <assert.h>
#include <holdfast/v1/volumes.pb-c.h>

/* Every map<string, string> has entries of one layout, each with its own descriptor, by which it is packed.
 */
#define ENTRIES(type, entries) ((Csi__V1__##type##Entry **)(void *)(entries))

static char *text(const char *s)
{
	return (char *)(uintptr_t)s; /* only read */
}

enum status csi_volume_paths(const char *stage_base, const struct volume_target *target,
			     struct csi_volume_paths *ret, struct error *err)
{
	const char *const use = target->read_only ? MH_CSI_PUBLISH_RO : MH_CSI_PUBLISH_RW;
	const char *const volume = target->wire_volume;
	const char *const plugin = target->profile;
	struct csi_volume_paths paths;

	if (stage_base[0] != '/')
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"the mount helper has not reported where plugins stage: see holdfast agent status");
	if (!id_is_plugin(plugin))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "volume %s: cannot name the folder of plugin '%.64s': malformed id",
				 target->volume_id, plugin);
	if (str_format(paths.staging, sizeof(paths.staging), "%s/" MH_CSI_FOLDER "/%s/%s/" MH_CSI_STAGING,
		       stage_base, plugin, volume) < 0 ||
	    str_format(paths.target, sizeof(paths.target), "%s/" MH_CSI_FOLDER "/%s/%s/%s", stage_base,
		       plugin, volume, use) < 0)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "the path %s/" MH_CSI_FOLDER "/%s/%s/%s is too long", stage_base, plugin,
				 volume, use);
	*ret = paths;
	return STATUS_OK;
}

static const Holdfast__V1__ClaimVolumeResponse *details(const struct volume_target *target)
{
	const ProtobufCMessage *pb;

	assert(target->details);
	pb = secret_message_get(target->details);
	assert(pb->descriptor == &holdfast__v1__claim_volume_response__descriptor);
	return (const Holdfast__V1__ClaimVolumeResponse *)(const void *)pb;
}

void csi_volume_stage(const struct volume_target *target, struct csi_volume_request *ret)
{
	const Holdfast__V1__ClaimVolumeResponse *claim = details(target);
	Csi__V1__NodeStageVolumeRequest *pb = &ret->pb.stage;

	csi_borrow_capability(target->access_mode, target->attachment_mode, claim->volume->mount_options,
			      &ret->capability);
	csi__v1__node_stage_volume_request__init(pb);
	pb->volume_id = text(target->external_id);
	pb->staging_target_path = ret->paths.staging;
	pb->volume_capability = &ret->capability.pb;
	pb->publish_context = ENTRIES(NodeStageVolumeRequest__PublishContext, claim->publish_context);
	pb->n_publish_context = claim->n_publish_context;
	pb->volume_context = ENTRIES(NodeStageVolumeRequest__VolumeContext, claim->volume->context);
	pb->n_volume_context = claim->volume->n_context;
	pb->secrets = ENTRIES(NodeStageVolumeRequest__Secrets, claim->volume->secrets);
	pb->n_secrets = claim->volume->n_secrets;
}

void csi_volume_publish(const struct volume_target *target, bool stages, struct csi_volume_request *ret)
{
	const Holdfast__V1__ClaimVolumeResponse *claim = details(target);
	Csi__V1__NodePublishVolumeRequest *pb = &ret->pb.publish;

	csi_borrow_capability(target->access_mode, target->attachment_mode, claim->volume->mount_options,
			      &ret->capability);
	csi__v1__node_publish_volume_request__init(pb);
	pb->volume_id = text(target->external_id);
	if (stages)
		pb->staging_target_path = ret->paths.staging;
	pb->target_path = ret->paths.target;
	pb->readonly = target->read_only;
	pb->volume_capability = &ret->capability.pb;
	pb->publish_context = ENTRIES(NodePublishVolumeRequest__PublishContext, claim->publish_context);
	pb->n_publish_context = claim->n_publish_context;
	pb->volume_context = ENTRIES(NodePublishVolumeRequest__VolumeContext, claim->volume->context);
	pb->n_volume_context = claim->volume->n_context;
	pb->secrets = ENTRIES(NodePublishVolumeRequest__Secrets, claim->volume->secrets);
	pb->n_secrets = claim->volume->n_secrets;
}

void csi_volume_unpublish(const struct volume_target *target, struct csi_volume_request *ret)
{
	Csi__V1__NodeUnpublishVolumeRequest *pb = &ret->pb.unpublish;

	csi__v1__node_unpublish_volume_request__init(pb);
	pb->volume_id = text(target->external_id);
	pb->target_path = ret->paths.target;
}

void csi_volume_unstage(const struct volume_target *target, struct csi_volume_request *ret)
{
	Csi__V1__NodeUnstageVolumeRequest *pb = &ret->pb.unstage;

	csi__v1__node_unstage_volume_request__init(pb);
	pb->volume_id = text(target->external_id);
	pb->staging_target_path = ret->paths.staging;
}

void csi_volume_stats(const struct volume_target *target, bool stages, struct csi_volume_request *ret)
{
	Csi__V1__NodeGetVolumeStatsRequest *pb = &ret->pb.stats;

	csi__v1__node_get_volume_stats_request__init(pb);
	pb->volume_id = text(target->external_id);
	pb->volume_path = ret->paths.target;
	if (stages)
		pb->staging_target_path = ret->paths.staging;
}

static int64_t size_of(uint64_t bytes)
{
	return bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes;
}

void csi_volume_expand(const Holdfast__V1__NodeExpandRequest *expand, bool stages,
		       struct csi_volume_request *ret)
{
	Csi__V1__NodeExpandVolumeRequest *pb = &ret->pb.expand;

	csi__v1__node_expand_volume_request__init(pb);
	csi__v1__capacity_range__init(&ret->range);
	ret->range.required_bytes = size_of(expand->capacity_min);
	ret->range.limit_bytes = size_of(expand->capacity_max);
	pb->volume_id = expand->external_id[0] != '\0' ? expand->external_id : expand->volume_id;
	pb->volume_path = ret->paths.target;
	if (stages)
		pb->staging_target_path = ret->paths.staging;
	if (expand->capacity_min != 0 || expand->capacity_max != 0)
		pb->capacity_range = &ret->range;
	if (expand->capability) {
		csi_borrow_capability((enum access_mode)expand->capability->access_mode,
				      (enum attachment_mode)expand->capability->attachment_mode, NULL,
				      &ret->capability);
		pb->volume_capability = &ret->capability.pb;
	}
	pb->secrets = ENTRIES(NodeExpandVolumeRequest__Secrets, expand->secrets);
	pb->n_secrets = expand->n_secrets;
}

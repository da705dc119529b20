#include "claim_details.h"

#include "model/volume_detail.h"

#include <string.h>

static enum status check(const Holdfast__V1__ClaimVolumeResponse *response, struct error *err)
{
	const Holdfast__V1__Volume *volume = response->volume;
	enum status status;

	status = volume_check_map("publish_context", VOLUME_MAP(response->publish_context),
				  response->n_publish_context, err);
	if (status == STATUS_OK)
		status = volume_check_map("context", VOLUME_MAP(volume->context), volume->n_context, err);
	if (status == STATUS_OK)
		status = volume_check_secrets(VOLUME_MAP(volume->secrets), volume->n_secrets, err);
	return status;
}

static void lay_options(Holdfast__V1__MountOptions *options, const Holdfast__V1__MountOptions *over)
{
	if (!over)
		return;
	if (over->fs_type[0] != '\0')
		options->fs_type = over->fs_type;
	if (over->n_mount_flags > 0) {
		options->mount_flags = over->mount_flags;
		options->n_mount_flags = over->n_mount_flags;
	}
}

static enum status check_options(const Holdfast__V1__MountOptions *options, struct error *err)
{
	if (strlen(options->fs_type) > VOLUME_FS_TYPE_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "mount_options: fs_type is longer than %d bytes", VOLUME_FS_TYPE_MAX);
	if (options->n_mount_flags > VOLUME_MOUNT_FLAGS_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "mount_options: more than %d mount_flags",
				 VOLUME_MOUNT_FLAGS_MAX);
	for (size_t i = 0; i < options->n_mount_flags; i++) {
		if (strlen(options->mount_flags[i]) > VOLUME_MOUNT_FLAG_MAX)
			return error_set(err, STATUS_INVALID_ARGUMENT, 0,
					 "mount_options: one of mount_flags is longer than %d bytes",
					 VOLUME_MOUNT_FLAG_MAX);
	}
	return STATUS_OK;
}

enum status claim_details_new(const Holdfast__V1__ClaimVolumeResponse *response,
			      const Holdfast__V1__MountOptions *options, struct secret_message **ret,
			      struct error *err)
{
	Holdfast__V1__ClaimVolumeResponse kept = HOLDFAST__V1__CLAIM_VOLUME_RESPONSE__INIT;
	Holdfast__V1__MountOptions laid = HOLDFAST__V1__MOUNT_OPTIONS__INIT;
	Holdfast__V1__Volume volume = HOLDFAST__V1__VOLUME__INIT;
	enum status status;

	lay_options(&laid, response->volume->mount_options);
	lay_options(&laid, options);
	status = check(response, err);
	if (status == STATUS_OK)
		status = check_options(&laid, err);
	if (status != STATUS_OK)
		return status;
	kept.volume = &volume;
	kept.publish_context = response->publish_context;
	kept.n_publish_context = response->n_publish_context;
	volume.mount_options = &laid;
	volume.context = response->volume->context;
	volume.n_context = response->volume->n_context;
	volume.secrets = response->volume->secrets;
	volume.n_secrets = response->volume->n_secrets;
	return secret_message_new(&kept.base, ret, err);
}

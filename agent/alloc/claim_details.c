/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/claim_details.h"

#include "model/volume_detail.h"

static enum status claim_details_check(const Holdfast__V1__ClaimVolumeResponse *response, struct error *err)
{
	const Holdfast__V1__Volume *volume = response->volume;

	TRY(volume_check_map("publish_context", VOLUME_MAP(response->publish_context),
			     response->n_publish_context, err));
	TRY(volume_check_map("context", VOLUME_MAP(volume->context), volume->n_context, err));
	TRY(volume_check_secrets(VOLUME_MAP(volume->secrets), volume->n_secrets, err));
	if (volume->mount_options)
		TRY(mount_options_check(volume->mount_options, err));
	return STATUS_OK;
}

enum status claim_details_new(const Holdfast__V1__ClaimVolumeResponse *response, struct secret_message **ret,
			      struct error *err)
{
	Holdfast__V1__ClaimVolumeResponse kept = HOLDFAST__V1__CLAIM_VOLUME_RESPONSE__INIT;
	Holdfast__V1__Volume volume = HOLDFAST__V1__VOLUME__INIT;

	TRY(claim_details_check(response, err));
	kept.volume = &volume;
	kept.publish_context = response->publish_context;
	kept.n_publish_context = response->n_publish_context;
	volume.mount_options = response->volume->mount_options;
	volume.context = response->volume->context;
	volume.n_context = response->volume->n_context;
	volume.secrets = response->volume->secrets;
	volume.n_secrets = response->volume->n_secrets;
	return secret_message_new(&kept.base, ret, err);
}

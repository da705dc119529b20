/* csi: a plugin mounts; the helper makes the folders for it and looks at what it did. */
#include "source.h"

struct outcome csi_enter(struct staging *s)
{
	cleanup_place struct place staging = PLACE_INIT;
	struct place publish = PLACE_INIT;
	int r = place_make(s->target.fd, MH_CSI_STAGING, &staging);

	if (r < 0)
		return outcome_kernel(STEP_DIRECTORY, r);
	if (!staging.is_mount_root && !place_is_own(s->h, &s->h->stage, &staging))
		return outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_FOREIGN_DIRECTORY);
	r = place_open(s->target.fd, MH_CSI_PUBLISH, &publish);
	if (r == -ENOENT)
		return OUTCOME_OK;
	if (r < 0)
		return outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_PLUGIN_TARGET);
	if (!publish.is_mount_root) {
		place_release(&publish);
		return OUTCOME_OK;
	}
	place_release(&s->target);
	s->target = publish;
	return OUTCOME_OK;
}

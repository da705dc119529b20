#include "adopt.h"

#include "base/str.h"

/* What the kernel shows of a volume that is journalled as published. */
static bool volume_is_there(const struct volume_record *volume, const char *path,
			    const struct picture *picture, struct error *ret_why)
{
	const struct volume_target *target = &volume->target;
	const struct picture_mount *published = picture_published(picture, target->alloc_id, target->slot);

	if (!published) {
		(void)error_set(
			ret_why, STATUS_ABORTED, 0,
			"volume %s is no longer mounted at %s: somebody else has unmounted it while the "
			"agent was not running",
			target->volume_id, path);
		return false;
	}
	if (published->dev_major != target->dev_major || published->dev_minor != target->dev_minor) {
		(void)error_set(ret_why, STATUS_ABORTED, 0,
				"at %s device %u:%u is mounted instead of volume %s (%u:%u)", path,
				published->dev_major, published->dev_minor, target->volume_id,
				target->dev_major, target->dev_minor);
		return false;
	}
	return true;
}

enum adopt_action adopt_decide(const struct alloc_record *record, const struct picture *picture,
			       const char *boot_id, struct error *ret_why)
{
	if (record->phase == ALLOC_STOPPED)
		return ADOPT_NOTHING;
	if (!str_eq(record->boot_id, boot_id))
		return ADOPT_REBOOTED;
	if (record->phase == ALLOC_STOPPING)
		return ADOPT_GO_ON;
	for (uint32_t i = 0; i < record->alloc.n_volumes; i++) {
		if (record->volumes[i].state == VOLUME_PUBLISHED &&
		    !volume_is_there(&record->volumes[i], record->alloc.published[i].path, picture, ret_why))
			return ADOPT_FAIL;
	}
	return record->phase == ALLOC_RUNNING ? ADOPT_KEEP : ADOPT_GO_ON;
}

#include "mounts.h"
#include "ops.h"
#include "trees.h"

#include "base/sys.h"

#include <errno.h>
#include <sys/vfs.h>

static int open_asked(struct helper *h, const struct mh_stat *req, struct place *ret)
{
	cleanup_place struct place alloc = PLACE_INIT;
	char slot[SLOT_NAME_SIZE];
	int r;

	if (req->alloc[0] == '\0')
		return place_open(h->stage.fd, req->volume, ret);
	r = place_open(h->publish.fd, req->alloc, &alloc);
	return r < 0 ? r : place_open(alloc.fd, slot_name(req->slot, slot), ret);
}

struct outcome op_stat(struct helper *h, const struct mh_stat *req)
{
	cleanup_place struct place place = PLACE_INIT;
	struct mount_facts facts = {.peer_group = 0};
	struct statfs fs = {.f_type = 0};
	unsigned int state = req->alloc[0] == '\0' ? MH_STATE_STAGED : MH_STATE_PUBLISHED;
	int r = open_asked(h, req, &place);

	if (r == -ENOENT || (r == 0 && !place.is_mount_root))
		return outcome_stop(MH_NOT_FOUND, STEP_OPEN, REASON_NONE);
	if (r == 0)
		r = sys_fstatfs(place.fd, &fs);
	if (r < 0)
		return outcome_kernel(STEP_OPEN, r);
	r = mount_facts(h, &place, &facts);
	if (r < 0)
		return outcome_kernel(STEP_TABLE, r);
	state |= facts.peer_group != 0 ? MH_STATE_SHARED : 0U;
	state |= facts.master != 0 ? MH_STATE_SLAVE : 0U;
	return outcome_mounted(MH_OK, &place, &fs, state);
}

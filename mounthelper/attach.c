#include "attach.h"

#include "base/cleanup.h"
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/vfs.h>

static int set_private(int mount_fd)
{
	const struct sys_mount_attr attr = {.propagation = MS_PRIVATE};

	return sys_mount_setattr(mount_fd, "", AT_EMPTY_PATH, &attr);
}

int attach_make_private(struct helper *h, int mount_fd, uint64_t mount_id, struct mount_facts *ret_facts)
{
	int r = mountinfo_find(&h->mountinfo, mount_id, ret_facts);

	if (r < 0 || (!ret_facts->shared && !ret_facts->slave))
		return r;
	r = set_private(mount_fd);
	return r < 0 ? r : mountinfo_find(&h->mountinfo, mount_id, ret_facts);
}

/* The target must still be what was checked: a descriptor of a directory goes on naming it when something is
 * mounted over it, and attaching there would stack. */
static bool target_is_unchanged(const struct attach *attach)
{
	cleanup_place struct place now = PLACE_INIT;

	return place_open(attach->dir_fd, attach->name, &now) == 0 && !now.is_mount_root &&
	       now.mount_id == attach->target->mount_id && place_is_same(&now, attach->target);
}

static struct outcome verify(struct helper *h, const struct attach *attach, const struct place *attached)
{
	cleanup_place struct place now = PLACE_INIT;
	struct mount_facts facts = {.shared = false};
	struct statfs fs = {.f_type = 0};
	int r = place_open(attach->dir_fd, attach->name, &now);

	if (r == 0)
		r = sys_fstatfs(now.fd, &fs);
	if (r == 0)
		r = mountinfo_find(&h->mountinfo, attached->mount_id, &facts);
	if (r < 0)
		return outcome_kernel(STEP_VERIFY, r);
	if (!now.is_mount_root || now.mount_id != attached->mount_id || !place_is_same(&now, attached) ||
	    (fs.f_flags & attach->want_flags) != attach->want_flags ||
	    (fs.f_flags & attach->deny_flags) != 0 || facts.shared || facts.slave)
		return outcome_stop(MH_INTERNAL, STEP_VERIFY, REASON_POSTCONDITION);
	return (struct outcome){.status = MH_OK,
				.state = outcome_state(0, fs.f_flags),
				.dev_major = now.dev_major,
				.dev_minor = now.dev_minor};
}

/* Unmount what was just attached, if it is still what stands there. */
static void undo(struct helper *h, struct attach *attach, const struct place *attached)
{
	struct place now = PLACE_INIT;
	bool ours = place_open(attach->dir_fd, attach->name, &now) == 0 && now.is_mount_root &&
		    now.mount_id == attached->mount_id;

	/* a descriptor of the mount would keep it busy */
	place_release(&now);
	close_fdp(&attach->mount_fd);
	attach->mount_fd = -EBADF;
	if (ours)
		(void)place_unmount(h, attach->dir_fd, attach->name, false); /* INTERNAL is reported anyway */
}

struct outcome attach_mount(struct helper *h, struct attach *attach)
{
	const unsigned int empty_paths = SYS_MOVE_MOUNT_F_EMPTY_PATH | SYS_MOVE_MOUNT_T_EMPTY_PATH;
	struct outcome outcome = {.status = MH_OK};
	struct place attached = PLACE_INIT;
	int r;

	if (!target_is_unchanged(attach))
		return outcome_stop(MH_CONFLICT, STEP_ATTACH, REASON_OTHER_MOUNT);
	r = place_of_fd(attach->mount_fd, &attached);
	if (r < 0)
		return outcome_kernel(STEP_VERIFY, r);
	r = sys_move_mount(attach->mount_fd, "", attach->target->fd, "", empty_paths);
	if (r < 0)
		return outcome_kernel(STEP_ATTACH, r);
	r = set_private(attach->mount_fd);
	outcome = r < 0 ? outcome_kernel(STEP_PRIVATE, r) : verify(h, attach, &attached);
	if (outcome.status != MH_OK) {
		undo(h, attach, &attached);
		outcome.status = MH_INTERNAL;
	}
	return outcome;
}

#include "attach.h"

#include <sys/mount.h>

static const struct {
	uint64_t flag;	    /* for mount_setattr(2) */
	unsigned int state; /* MH_STATE_* */
} propagations[] = {
	[PROPAGATION_PRIVATE] = {MS_PRIVATE, 0},
	[PROPAGATION_SLAVE] = {MS_SLAVE, MH_STATE_SLAVE},
	[PROPAGATION_PEER] = {MS_SHARED, MH_STATE_SHARED},
};

uint64_t propagation_flag(enum propagation propagation)
{
	return propagations[propagation].flag;
}

static int set_propagation(int mount_fd, enum propagation propagation)
{
	const struct sys_mount_attr attr = {.propagation = propagation_flag(propagation)};

	return sys_mount_setattr(mount_fd, "", AT_EMPTY_PATH, &attr);
}

static bool has_propagation(const struct mount_facts *facts, enum propagation propagation, uint64_t group)
{
	if (propagation == PROPAGATION_PEER)
		return facts->peer_group != 0 && (group == 0 || facts->peer_group == group);
	return facts->peer_group == 0 && facts->master == (propagation == PROPAGATION_SLAVE ? group : 0);
}

/* A peer is what it shall be before it is attached, so it is never left otherwise. */
static bool is_mendable(const struct mount_facts *facts, enum propagation propagation, uint64_t group)
{
	return propagation != PROPAGATION_PEER && facts->peer_group != 0 && facts->peer_group != group &&
	       facts->master == (propagation == PROPAGATION_SLAVE ? group : 0);
}

struct outcome attach_mend(struct helper *h, const struct place *place, enum propagation propagation,
			   uint64_t group)
{
	struct outcome outcome = {.status = MH_OK, .state = (uint16_t)propagations[propagation].state};
	struct mount_facts facts = {.peer_group = 0};
	int r = mount_facts(h, place, &facts);

	if (r < 0)
		return outcome_kernel(STEP_TABLE, r);
	if (has_propagation(&facts, propagation, group))
		return outcome;
	if (!is_mendable(&facts, propagation, group))
		return outcome_stop(MH_CONFLICT, STEP_PRIVATE, REASON_OTHER_MOUNT);
	r = set_propagation(place->fd, propagation);
	if (r == 0)
		r = mount_facts(h, place, &facts);
	if (r < 0)
		return outcome_kernel(STEP_PRIVATE, r);
	if (!has_propagation(&facts, propagation, group))
		return outcome_stop(MH_INTERNAL, STEP_PRIVATE, REASON_POSTCONDITION);
	return outcome;
}

bool attributes_show(const struct statfs *fs, uint64_t attributes)
{
	const int64_t same_in_both = ST_RDONLY | ST_NOSUID | ST_NODEV | ST_NOEXEC; /* 1, 2, 4, 8 */

	return (fs->f_flags & same_in_both) == ((int64_t)attributes & same_in_both) &&
	       ((fs->f_flags & ST_NOSYMFOLLOW_) != 0) == ((attributes & SYS_MOUNT_ATTR_NOSYMFOLLOW) != 0);
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
	struct mount_facts facts = {.peer_group = 0};
	struct statfs fs = {.f_type = 0};
	int r = place_open(attach->dir_fd, attach->name, &now);

	if (r == 0)
		r = mount_statfs(h, &now, &fs);
	if (r == 0)
		r = mount_facts(h, attached, &facts);
	if (r < 0)
		return outcome_kernel(STEP_VERIFY, r);
	if (now.mount_id != attached->mount_id || !attributes_show(&fs, attach->attributes) ||
	    !has_propagation(&facts, attach->propagation, attach->group))
		return outcome_stop(MH_INTERNAL, STEP_VERIFY, REASON_POSTCONDITION);
	return outcome_mounted(MH_OK, &now, &fs, propagations[attach->propagation].state);
}

/* Unmount what was just attached, if it is still what stands there. */
static void undo(struct helper *h, struct attach *attach, const struct place *attached)
{
	struct place now = PLACE_INIT;
	bool ours = place_open(attach->dir_fd, attach->name, &now) == 0 && now.mount_id == attached->mount_id;

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
	struct place attached = PLACE_INIT;
	struct outcome outcome;
	int r = place_of_fd(attach->mount_fd, &attached);

	if (r < 0)
		return outcome_kernel(STEP_VERIFY, r);
	if (!target_is_unchanged(attach))
		return outcome_stop(MH_CONFLICT, STEP_ATTACH, REASON_OTHER_MOUNT);
	r = sys_move_mount(attach->mount_fd, "", attach->target->fd, "", empty_paths);
	if (r < 0)
		return outcome_kernel(STEP_ATTACH, r);
	r = set_propagation(attach->mount_fd, attach->propagation);
	outcome = r < 0 ? outcome_kernel(STEP_PRIVATE, r) : verify(h, attach, &attached);
	if (outcome.status != MH_OK) {
		undo(h, attach, &attached);
		outcome.status = MH_INTERNAL;
	}
	return outcome;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "attach.h"

#include <sys/mount.h>

static const struct {
	uint64_t flag;	    /* for mount_setattr(2) */
	unsigned int state; /* MH_STATE_* */
} propagations[] = {
	[TICKET_PROPAGATION_PRIVATE] = {MS_PRIVATE, 0},
	[TICKET_PROPAGATION_HOST_TO_TASK] = {MS_SLAVE, MH_STATE_SLAVE},
	[TICKET_PROPAGATION_BIDIRECTIONAL] = {MS_SHARED, MH_STATE_SHARED},
};

uint64_t propagation_flag(enum ticket_propagation propagation)
{
	assert(propagation < TICKET_PROPAGATION_N);
	return propagations[propagation].flag;
}

static int set_propagation(int mount_fd, enum ticket_propagation propagation)
{
	const struct sys_mount_attr attr = {.propagation = propagation_flag(propagation)};

	return sys_mount_setattr(mount_fd, "", AT_EMPTY_PATH, &attr);
}

static bool has_propagation(const struct mount_facts *facts, enum ticket_propagation propagation,
			    uint64_t group)
{
	if (propagation == TICKET_PROPAGATION_BIDIRECTIONAL)
		return facts->peer_group != 0 && (group == 0 || facts->peer_group == group);
	return facts->peer_group == 0 &&
	       facts->master == (propagation == TICKET_PROPAGATION_HOST_TO_TASK ? group : 0);
}

/* A peer is what it shall be before it is attached, so it is never left otherwise. */
static bool can_repair(const struct mount_facts *facts, enum ticket_propagation propagation, uint64_t group)
{
	return propagation != TICKET_PROPAGATION_BIDIRECTIONAL && facts->peer_group != 0 &&
	       facts->peer_group != group &&
	       facts->master == (propagation == TICKET_PROPAGATION_HOST_TO_TASK ? group : 0);
}

struct outcome attach_repair(struct helper *h, const struct place *place, enum ticket_propagation propagation,
			     uint64_t group)
{
	assert(place->fd >= 0 && place->is_mount_root);

	struct outcome outcome = {.status = MH_OK, .state = (uint16_t)propagations[propagation].state};
	struct mount_facts facts = {.peer_group = 0};

	TRY_KERNEL(STEP_TABLE, mount_flags(&h->mountinfo, place, &facts));
	if (has_propagation(&facts, propagation, group))
		return outcome;
	if (!can_repair(&facts, propagation, group))
		return outcome_stop(MH_CONFLICT, STEP_PRIVATE, REASON_OTHER_MOUNT);
	TRY_KERNEL(STEP_PRIVATE, set_propagation(place->fd, propagation));
	TRY_KERNEL(STEP_PRIVATE, mount_flags(&h->mountinfo, place, &facts));
	if (!has_propagation(&facts, propagation, group))
		return outcome_stop(MH_INTERNAL, STEP_PRIVATE, REASON_POSTCONDITION);
	return outcome;
}

static struct outcome verify(struct helper *h, const struct attach *attach, const struct place *attached)
{
	struct place now = PLACE_INIT;
	struct mount_facts facts = {.peer_group = 0};

	TRY_KERNEL(STEP_VERIFY, place_look(attach->dir_fd, attach->name, &now));
	TRY_KERNEL(STEP_VERIFY, mount_flags(&h->mountinfo, attached, &facts));
	if (now.mount_id != attached->mount_id || !mount_shows(&facts, attach->attributes) ||
	    !has_propagation(&facts, attach->propagation, attach->group))
		return outcome_stop(MH_INTERNAL, STEP_VERIFY, REASON_POSTCONDITION);
	return outcome_mounted(MH_OK, &now, &facts, propagations[attach->propagation].state);
}

/* Unmounts the mount that was just attached, if it is still the one at the target. */
static void undo(struct helper *h, struct attach *attach, const struct place *attached)
{
	struct place now = PLACE_INIT;
	bool ours = place_look(attach->dir_fd, attach->name, &now) == 0 && now.mount_id == attached->mount_id;

	/* a descriptor of the mount would keep it busy */
	close_fdp(&attach->mount_fd);
	attach->mount_fd = -EBADF;
	if (ours)
		(void)place_unmount(h, attach->dir_fd, attach->name, 0); /* INTERNAL is reported anyway */
}

struct outcome attach_mount(struct helper *h, struct attach *attach)
{
	assert(attach->mount_fd >= 0 && attach->dir_fd >= 0);
	assert((attach->attributes & MOUNT_FLOOR) == MOUNT_FLOOR);

	const unsigned int empty_paths = SYS_MOVE_MOUNT_F_EMPTY_PATH | SYS_MOVE_MOUNT_T_EMPTY_PATH;
	cleanup_place struct place target = PLACE_INIT;
	struct place attached = PLACE_INIT;
	struct outcome outcome;
	int r;

	TRY_KERNEL(STEP_OPEN, place_of_fd(attach->mount_fd, &attached));
	/* only now: a descriptor of a directory continues naming it when something is mounted over it, and
	 * attaching there would stack */
	TRY_KERNEL(STEP_OPEN, place_open(attach->dir_fd, attach->name, &target));
	if (target.is_mount_root)
		return outcome_stop(MH_CONFLICT, STEP_ATTACH, REASON_OTHER_MOUNT);
	if (!place_is_own(h, attach->tree, &target))
		return outcome_stop(MH_CONFLICT, STEP_OPEN, REASON_FOREIGN_DIRECTORY);
	TRY_KERNEL(STEP_ATTACH, sys_move_mount(attach->mount_fd, "", target.fd, "", empty_paths));
	r = set_propagation(attach->mount_fd, attach->propagation);
	outcome = r < 0 ? outcome_kernel(STEP_PRIVATE, r) : verify(h, attach, &attached);
	if (outcome.status != MH_OK) {
		undo(h, attach, &attached);
		outcome.status = MH_INTERNAL;
	}
	return outcome;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "startup.h"

#include "base/cleanup.h"
#include "base/sys.h"
#include "privileged/process.h"

#include <fcntl.h>
#include <seccomp.h>
#include <sys/time.h>

struct rule {
	int call;
	unsigned int n;
	struct scmp_arg_cmp arg[2];
	bool is_off; /* the policy or the machine has no use for it */
};

#define IS(index, value) SCMP_CMP32(index, SCMP_CMP_EQ, (uint32_t)(value))
#define HAS(index, mask) SCMP_CMP32(index, SCMP_CMP_MASKED_EQ, mask, mask)

/* Opens are O_PATH only: after the lock-down this process can neither read nor write a file by name. */
static void add_rules(scmp_filter_ctx filter, const struct helper *h)
{
	const struct rule rules[] = {
		{SCMP_SYS(recvmsg), 1, {IS(0, HELPER_SOCKET_FD)}},
		{SCMP_SYS(sendto), 1, {IS(0, HELPER_SOCKET_FD)}},
		{SCMP_SYS(openat), 1, {IS(2, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)}},
		{SCMP_SYS(openat), 1, {IS(2, O_PATH | O_NOFOLLOW | O_CLOEXEC)}},
		{SCMP_SYS(close), 0, {{0}}},
		{SCMP_SYS(statx), 0, {{0}}},
		{SCMP_SYS(fstatfs), 0, {{0}}},
		{SCMP_SYS(readlinkat), 0, {{0}}},
		{SYS_NR_STATMOUNT, 0, {{0}}},
		{SYS_NR_LISTMOUNT, 0, {{0}}},
		{SCMP_SYS(mkdirat), 1, {IS(2, 0755)}},
		{SCMP_SYS(unlinkat), 1, {IS(2, AT_REMOVEDIR)}},
		{SCMP_SYS(fchdir), 0, {{0}}},
		{SCMP_SYS(fsopen), 1, {IS(1, SYS_FSOPEN_CLOEXEC)}},
		{SCMP_SYS(fsconfig), 1, {IS(1, SYS_FSCONFIG_SET_FLAG)}},
		{SCMP_SYS(fsconfig), 1, {IS(1, SYS_FSCONFIG_SET_STRING)}},
		{SCMP_SYS(fsconfig), 1, {IS(1, SYS_FSCONFIG_CMD_CREATE)}},
		{SCMP_SYS(fsconfig), 1, {IS(1, SYS_FSCONFIG_CMD_CREATE_EXCL)}},
		{SCMP_SYS(fsmount), 2, {IS(1, SYS_FSMOUNT_CLOEXEC), HAS(2, MOUNT_FLOOR)}},
		{SCMP_SYS(open_tree), 1, {IS(2, SYS_OPEN_TREE_CLONE | O_CLOEXEC | AT_EMPTY_PATH)}},
		{SCMP_SYS(mount_setattr), 2, {IS(2, AT_EMPTY_PATH), IS(4, sizeof(struct sys_mount_attr))}},
		{SCMP_SYS(move_mount), 1, {IS(4, SYS_MOVE_MOUNT_F_EMPTY_PATH | SYS_MOVE_MOUNT_T_EMPTY_PATH)}},
		{SCMP_SYS(umount2), 1, {IS(1, SYS_UMOUNT_NOFOLLOW)}},
		{SCMP_SYS(umount2), 1, {IS(1, SYS_UMOUNT_NOFOLLOW | SYS_UMOUNT_EXPIRE)}},
		{SCMP_SYS(clock_gettime), 0, {{0}}},
		{SCMP_SYS(exit_group), 0, {{0}}},
		{SCMP_SYS(write), 1, {IS(0, h->trail.fd)}, h->trail.fd < 0},
		{SCMP_SYS(fdatasync), 1, {IS(0, h->trail.fd)}, h->trail.fd < 0},
		{SCMP_SYS(fallocate), 2, {IS(0, h->trail.fd), IS(1, FALLOC_FL_KEEP_SIZE)}, h->trail.fd < 0},
		{SCMP_SYS(pread64), 1, {IS(0, h->trail.read_fd)}, h->trail.fd < 0},
		{SCMP_SYS(pread64), 1, {IS(0, h->mountinfo.fd)}},
		{SCMP_SYS(fcntl), 2, {IS(0, h->state_fd), IS(1, F_OFD_SETLKW)}},
		{SCMP_SYS(fcntl), 2, {IS(0, h->state_fd), IS(1, F_OFD_SETLK)}},
		{SCMP_SYS(sendto), 1, {IS(0, h->audit_fd)}, h->audit_fd < 0},
		{SCMP_SYS(recvfrom), 1, {IS(0, h->audit_fd)}, h->audit_fd < 0},
		{SCMP_SYS(umount2),
		 1,
		 {IS(1, SYS_UMOUNT_NOFOLLOW | SYS_UMOUNT_DETACH)},
		 !h->agent->allow_detach},
		{SCMP_SYS(setitimer), 1, {IS(0, ITIMER_REAL)}},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		if (!rules[i].is_off)
			start_sys(seccomp_rule_add_exact_array(filter, SCMP_ACT_ALLOW, rules[i].call,
							       rules[i].n, rules[i].arg),
				  START_LOCKDOWN, "filter rule");
}

void filter_load(const struct helper *h)
{
	assert(h->state_fd > HELPER_MESSAGE_FD && (h->trail.fd < 0 || h->trail.fd > HELPER_MESSAGE_FD));

	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);

	start_need(filter != NULL, START_LOCKDOWN, 0, "filter");
	start_sys(seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS), START_LOCKDOWN,
		  "filter");
	start_sys(seccomp_attr_set(filter, SCMP_FLTATR_CTL_NNP, 1), START_LOCKDOWN, "filter");
	start_sys(seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2), START_LOCKDOWN, "filter");
	add_rules(filter, h);
	(void)close(HELPER_MESSAGE_FD);
	start_sys(process_set_deadline(0), START_LOCKDOWN, "deadline");
	start_sys(seccomp_load(filter), START_LOCKDOWN, "filter");
}

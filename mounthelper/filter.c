#include "filter.h"

#include "base/cleanup.h"
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <seccomp.h>

enum {
	OPEN_DIRECTORY = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
	OPEN_NODE = O_PATH | O_NOFOLLOW | O_CLOEXEC,
	MOUNT_FLOOR = SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV,
	OPEN_TREE = SYS_OPEN_TREE_CLONE | O_CLOEXEC | AT_EMPTY_PATH,
	MOVE_MOUNT = SYS_MOVE_MOUNT_F_EMPTY_PATH | SYS_MOVE_MOUNT_T_EMPTY_PATH,
};

struct rule {
	int call;
	unsigned int n;
	struct scmp_arg_cmp arg[2];
};

#define IS(index, value) SCMP_CMP32(index, SCMP_CMP_EQ, value)
#define HAS(index, mask) SCMP_CMP32(index, SCMP_CMP_MASKED_EQ, mask, mask)

static enum status add(scmp_filter_ctx filter, const struct rule *rules, size_t n, struct error *err)
{
	for (size_t i = 0; i < n; i++) {
		int r = seccomp_rule_add_exact_array(filter, SCMP_ACT_ALLOW, rules[i].call, rules[i].n,
						     rules[i].arg);

		if (r < 0)
			return error_set(err, STATUS_INTERNAL, r, "filter rule for system call %d",
					 rules[i].call);
	}
	return STATUS_OK;
}

/* Opens are O_PATH only: after the lock-down this process can neither read nor write a file by name. */
static const struct rule fixed_rules[] = {
	{SCMP_SYS(openat), 1, {IS(2, OPEN_DIRECTORY)}},
	{SCMP_SYS(openat), 1, {IS(2, OPEN_NODE)}},
	{SCMP_SYS(close), 0, {{0}}},
	{SCMP_SYS(statx), 0, {{0}}},
	{SCMP_SYS(newfstatat), 0, {{0}}},
	{SCMP_SYS(fstatfs), 0, {{0}}},
	{SCMP_SYS(readlinkat), 0, {{0}}},
	{SCMP_SYS(mkdirat), 1, {IS(2, 0755)}},
	{SCMP_SYS(unlinkat), 1, {IS(2, AT_REMOVEDIR)}},
	{SCMP_SYS(fchdir), 0, {{0}}},
	{SCMP_SYS(fsopen), 1, {IS(1, SYS_FSOPEN_CLOEXEC)}},
	{SCMP_SYS(fsconfig), 1, {IS(1, SYS_FSCONFIG_SET_FLAG)}},
	{SCMP_SYS(fsconfig), 1, {IS(1, SYS_FSCONFIG_SET_STRING)}},
	{SCMP_SYS(fsconfig), 1, {IS(1, SYS_FSCONFIG_CMD_CREATE)}},
	{SCMP_SYS(fsconfig), 1, {IS(1, SYS_FSCONFIG_CMD_CREATE_EXCL)}},
	{SCMP_SYS(fsmount), 2, {IS(1, SYS_FSMOUNT_CLOEXEC), HAS(2, MOUNT_FLOOR)}},
	{SCMP_SYS(open_tree), 1, {IS(2, OPEN_TREE)}},
	{SCMP_SYS(mount_setattr), 2, {IS(2, AT_EMPTY_PATH), IS(4, sizeof(struct sys_mount_attr))}},
	{SCMP_SYS(move_mount), 1, {IS(4, MOVE_MOUNT)}},
	{SCMP_SYS(umount2), 1, {IS(1, SYS_UMOUNT_NOFOLLOW)}},
	{SYS_NR_STATMOUNT, 0, {{0}}},
	{SYS_NR_LISTMOUNT, 0, {{0}}},
	{SCMP_SYS(clock_gettime), 0, {{0}}},
	{SCMP_SYS(rt_sigreturn), 0, {{0}}},
	{SCMP_SYS(exit_group), 0, {{0}}},
};

static enum status add_descriptor_rules(scmp_filter_ctx filter, const struct filter_fds *fds,
					struct error *err)
{
	const struct rule rules[] = {
		{SCMP_SYS(recvmsg), 1, {IS(0, fds->socket)}},
		{SCMP_SYS(sendto), 1, {IS(0, fds->socket)}},
		{SCMP_SYS(write), 1, {IS(0, fds->log)}},
		{SCMP_SYS(fdatasync), 1, {IS(0, fds->log)}},
		{SCMP_SYS(fallocate), 2, {IS(0, fds->log), IS(1, FALLOC_FL_KEEP_SIZE)}},
		{SCMP_SYS(pread64), 1, {IS(0, fds->log_read)}},
		{SCMP_SYS(pread64), 1, {IS(0, fds->mountinfo)}},
		{SCMP_SYS(fcntl), 2, {IS(0, fds->log), IS(1, F_OFD_SETLKW)}},
		{SCMP_SYS(fcntl), 2, {IS(0, fds->state), IS(1, F_OFD_SETLKW)}},
		{SCMP_SYS(fcntl), 2, {IS(0, fds->state), IS(1, F_OFD_SETLK)}},
	};
	const struct rule audit_rules[] = {
		{SCMP_SYS(sendto), 1, {IS(0, fds->audit)}},
		{SCMP_SYS(recvfrom), 1, {IS(0, fds->audit)}},
	};
	const struct rule journal_rule = {SCMP_SYS(sendto), 1, {IS(0, fds->journal)}};
	enum status status = add(filter, rules, ARRAY_SIZE(rules), err);

	if (status == STATUS_OK && fds->audit >= 0)
		status = add(filter, audit_rules, ARRAY_SIZE(audit_rules), err);
	if (status == STATUS_OK && fds->journal >= 0)
		status = add(filter, &journal_rule, 1, err);
	return status;
}

enum status filter_build(const struct filter_fds *fds, bool allow_detach, void **ret, struct error *err)
{
	const struct rule detach = {SCMP_SYS(umount2), 1, {IS(1, SYS_UMOUNT_NOFOLLOW | SYS_UMOUNT_DETACH)}};
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
	enum status status;
	int r;

	if (!filter)
		return error_set(err, STATUS_INTERNAL, ENOMEM, "begin the seccomp filter");
	r = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	if (r == 0)
		r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_NNP, 1);
	if (r < 0)
		return error_set(err, STATUS_INTERNAL, r, "set up the seccomp filter");
	status = add(filter, fixed_rules, ARRAY_SIZE(fixed_rules), err);
	if (status == STATUS_OK)
		status = add_descriptor_rules(filter, fds, err);
	if (status == STATUS_OK && allow_detach)
		status = add(filter, &detach, 1, err);
	if (status == STATUS_OK)
		*ret = filter;
	return status;
}

int filter_load(void *filter)
{
	return seccomp_load(filter);
}

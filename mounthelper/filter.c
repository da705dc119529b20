#include "startup.h"

#include "base/cleanup.h"
#include "base/sys.h"

#include <fcntl.h>
#include <seccomp.h>
#include <sys/time.h>

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

#define IS(index, value) SCMP_CMP32(index, SCMP_CMP_EQ, (uint32_t)(value))
#define HAS(index, mask) SCMP_CMP32(index, SCMP_CMP_MASKED_EQ, mask, mask)

static bool has_class(const struct helper *h, enum mh_class class)
{
	for (uint32_t i = 0; i < h->agent->n_profiles; i++)
		if (h->policy->profiles[h->agent->first_profile + i].class == class)
			return true;
	return false;
}

static void add(scmp_filter_ctx filter, const struct rule *rules, size_t n)
{
	for (const struct rule *rule = rules; rule < rules + n; rule++)
		start_sys(
			seccomp_rule_add_exact_array(filter, SCMP_ACT_ALLOW, rule->call, rule->n, rule->arg),
			START_LOCKDOWN, "filter rule");
}

/* Opens are O_PATH only: after the lock-down this process can neither read nor write a file by name. */
static const struct rule fixed_rules[] = {
	{SCMP_SYS(recvmsg), 1, {IS(0, HELPER_SOCKET_FD)}},
	{SCMP_SYS(sendto), 1, {IS(0, HELPER_SOCKET_FD)}},
	{SCMP_SYS(openat), 1, {IS(2, OPEN_DIRECTORY)}},
	{SCMP_SYS(openat), 1, {IS(2, OPEN_NODE)}},
	{SCMP_SYS(close), 0, {{0}}},
	{SCMP_SYS(statx), 0, {{0}}},
	{SCMP_SYS(newfstatat), 0, {{0}}},
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
	{SCMP_SYS(open_tree), 1, {IS(2, OPEN_TREE)}},
	{SCMP_SYS(mount_setattr), 2, {IS(2, AT_EMPTY_PATH), IS(4, sizeof(struct sys_mount_attr))}},
	{SCMP_SYS(move_mount), 1, {IS(4, MOVE_MOUNT)}},
	{SCMP_SYS(umount2), 1, {IS(1, SYS_UMOUNT_NOFOLLOW)}},
	{SCMP_SYS(clock_gettime), 0, {{0}}},
	{SCMP_SYS(rt_sigreturn), 0, {{0}}},
	{SCMP_SYS(exit_group), 0, {{0}}},
};

static void add_rules(scmp_filter_ctx filter, const struct helper *h)
{
	const struct rule descriptor_rules[] = {
		{SCMP_SYS(write), 1, {IS(0, h->trail.fd)}},
		{SCMP_SYS(fdatasync), 1, {IS(0, h->trail.fd)}},
		{SCMP_SYS(fallocate), 2, {IS(0, h->trail.fd), IS(1, FALLOC_FL_KEEP_SIZE)}},
		{SCMP_SYS(fcntl), 2, {IS(0, h->trail.fd), IS(1, F_OFD_SETLKW)}},
		{SCMP_SYS(pread64), 1, {IS(0, h->trail.read_fd)}},
		{SCMP_SYS(pread64), 1, {IS(0, h->mountinfo.fd)}},
		{SCMP_SYS(fcntl), 2, {IS(0, h->state_fd), IS(1, F_OFD_SETLKW)}},
		{SCMP_SYS(fcntl), 2, {IS(0, h->state_fd), IS(1, F_OFD_SETLK)}},
	};
	const struct rule audit_rules[] = {
		{SCMP_SYS(sendto), 1, {IS(0, h->audit_fd)}},
		{SCMP_SYS(recvfrom), 1, {IS(0, h->audit_fd)}},
	};
	const struct rule journal = {SCMP_SYS(sendto), 1, {IS(0, h->journal_fd)}};
	const struct rule detach = {SCMP_SYS(umount2), 1, {IS(1, SYS_UMOUNT_NOFOLLOW | SYS_UMOUNT_DETACH)}};
	const struct rule timeout = {SCMP_SYS(setitimer), 1, {IS(0, ITIMER_REAL)}};

	add(filter, fixed_rules, ARRAY_SIZE(fixed_rules));
	add(filter, descriptor_rules, ARRAY_SIZE(descriptor_rules));
	add(filter, audit_rules, h->audit_fd >= 0 ? ARRAY_SIZE(audit_rules) : 0);
	add(filter, &journal, h->journal_fd >= 0);
	add(filter, &detach, h->agent->allow_detach);
	add(filter, &timeout, has_class(h, MH_CLASS_NFS4));
}

void filter_load(const struct helper *h)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);

	start_need(filter != NULL, START_LOCKDOWN, 0, "filter");
	start_sys(seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS), START_LOCKDOWN,
		  "filter");
	start_sys(seccomp_attr_set(filter, SCMP_FLTATR_CTL_NNP, 1), START_LOCKDOWN, "filter");
	add_rules(filter, h);
	(void)close(HELPER_MESSAGE_FD);
	start_sys(seccomp_load(filter), START_LOCKDOWN, "filter");
}

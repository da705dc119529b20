#include "startup.h"

#include "base/cleanup.h"

#include <cap-ng.h>
#include <grp.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum {
	SECUREBITS = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
		     SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |
		     SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED | SECBIT_KEEP_CAPS_LOCKED,
	CAPABILITY_N = 64, /* as many as the kernel's interface has room for */
	PR_SET_MDWE_ = 65,
	PR_MDWE_REFUSE_EXEC_GAIN_ = 1,
};

struct capabilities {
	uint64_t effective;
	uint64_t permitted;
	uint64_t inheritable;
};

/* From the kernel: what a library says of them is not believed. */
static struct capabilities read_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	start_libc((int)syscall(SYS_capget, &header, data), START_LOCKDOWN, "capget");
	return (struct capabilities){.effective = (uint64_t)data[1].effective << 32 | data[0].effective,
				     .permitted = (uint64_t)data[1].permitted << 32 | data[0].permitted,
				     .inheritable =
					     (uint64_t)data[1].inheritable << 32 | data[0].inheritable};
}

bool sandbox_is_permitted(uint64_t capabilities)
{
	return (read_capabilities().permitted & capabilities) == capabilities;
}

static bool has_ids(uint32_t uid, uint32_t gid)
{
	uid_t u[3];
	gid_t g[3];

	return getresuid(&u[0], &u[1], &u[2]) == 0 && u[0] == uid && u[1] == uid && u[2] == uid &&
	       getresgid(&g[0], &g[1], &g[2]) == 0 && g[0] == gid && g[1] == gid && g[2] == gid;
}

/* systemd gives a service its own group once more as a supplementary one. */
static bool has_no_group_but(uint32_t gid)
{
	gid_t group = gid;
	int n = getgroups(1, &group);

	return n >= 0 && group == gid;
}

static bool is_bounded_to(uint64_t allowed)
{
	for (unsigned long cap = 0; cap < CAPABILITY_N; cap++)
		if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1 && (allowed >> cap & 1) == 0)
			return false;
	return true;
}

static void check(const struct agent_policy *agent, bool is_complete)
{
	const struct capabilities now = read_capabilities();
	const struct {
		bool is_so;
		const char *what;
	} checks[] = {
		{has_ids(agent->helper_uid, agent->helper_gid), "uid or gid"},
		{has_no_group_but(agent->helper_gid), "supplementary groups"},
		{now.effective == SANDBOX_CAPABILITIES, "effective capabilities"},
		{now.permitted == SANDBOX_CAPABILITIES, "permitted capabilities"},
		{now.inheritable == 0, "inheritable capabilities"},
		{is_bounded_to(is_complete ? 0 : SANDBOX_CAPABILITIES), "bounding set"},
		{!is_complete || prctl(PR_GET_SECUREBITS, 0, 0, 0, 0) == SECUREBITS, "securebits"},
		{prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1, "no_new_privs"},
		{prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0, "dumpable"},
		{setuid(0) < 0, "no way back to uid 0"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(checks); i++)
		start_need(checks[i].is_so, START_LOCKDOWN, 0, checks[i].what);
}

void sandbox_drop(enum door door, const struct agent_policy *agent)
{
	const uint32_t uid = agent->helper_uid;
	const uint32_t gid = agent->helper_gid;
	bool is_complete = door == DOOR_SETUID || sandbox_is_permitted(UINT64_C(1) << CAP_SETPCAP);

	capng_clear(CAPNG_SELECT_BOTH);
	if (is_complete) {
		start_need(capng_apply(CAPNG_SELECT_BOUNDS) == 0, START_LOCKDOWN, 0, "bounding set");
		start_libc(prctl(PR_SET_SECUREBITS, SECUREBITS, 0, 0, 0), START_LOCKDOWN, "securebits");
	}
	if (door == DOOR_SETUID) {
		start_libc(setgroups(0, NULL), START_LOCKDOWN, "setgroups");
		start_libc(setresgid(gid, gid, gid), START_LOCKDOWN, "setresgid");
		start_libc(setresuid(uid, uid, uid), START_LOCKDOWN, "setresuid");
	}
	start_libc(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), START_LOCKDOWN, "ambient set");
	capng_clear(CAPNG_SELECT_BOTH);
	(void)capng_updatev(CAPNG_ADD, CAPNG_EFFECTIVE | CAPNG_PERMITTED, CAP_SYS_ADMIN, CAP_AUDIT_WRITE, -1);
	start_need(capng_apply(CAPNG_SELECT_CAPS) == 0, START_LOCKDOWN, 0, "capset");
	start_libc(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), START_LOCKDOWN, "dumpable");
	start_libc(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), START_LOCKDOWN, "no_new_privs");
	/* since 6.3; the filter forbids mprotect and mmap anyway */
	(void)prctl(PR_SET_MDWE_, PR_MDWE_REFUSE_EXEC_GAIN_, 0, 0, 0);
	check(agent, is_complete);
}

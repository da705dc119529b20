/* SPDX-License-Identifier: Apache-2.0 */
#include "startup.h"

#include "base/cleanup.h"
#include "privileged/process.h"

#include <cap-ng.h>
#include <grp.h>
#include <linux/securebits.h>
#include <sys/prctl.h>

enum {
	SECUREBITS = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
		     SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |
		     SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED | SECBIT_KEEP_CAPS_LOCKED,
	PR_SET_MDWE_ = 65,
	PR_MDWE_REFUSE_EXEC_GAIN_ = 1,
};

/* Asks the kernel: the answer of a library is not trusted. */
static void sandbox_check(const struct agent_policy *agent, const struct process_capabilities *caps,
			  uint64_t wanted, bool is_complete)
{
	const struct {
		bool is_so;
		const char *what;
	} checks[] = {
		{process_has_ids(agent->helper_uid, agent->helper_gid), "uids, gids and groups"},
		{caps->effective == wanted, "effective capabilities"},
		{caps->permitted == wanted, "permitted capabilities"},
		{caps->inheritable == 0, "inheritable capabilities"},
		{(caps->bounding & (is_complete ? ~UINT64_C(0) : ~SANDBOX_CAPABILITIES)) == 0,
		 "bounding set"},
		{!is_complete || prctl(PR_GET_SECUREBITS, 0, 0, 0, 0) == SECUREBITS, "securebits"},
		{prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1, "no_new_privs"},
		{prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0, "dumpable"},
		{setuid(0) < 0, "no way back to uid 0"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(checks); i++)
		start_need(checks[i].is_so, START_LOCKDOWN, 0, checks[i].what);
}

void sandbox_drop(enum launch_mode launch_mode, const struct agent_policy *agent)
{
	const uint32_t uid = agent->helper_uid;
	const uint32_t gid = agent->helper_gid;
	struct process_capabilities caps = {.permitted = 0};
	uint64_t wanted = SANDBOX_CAPABILITIES;
	bool is_complete;

	assert(uid != 0 && gid != 0);
	start_sys(process_capabilities(&caps), START_LOCKDOWN, "capget");
	if ((caps.permitted & SANDBOX_AUDIT) == 0)
		wanted &= ~SANDBOX_AUDIT;
	is_complete = launch_mode == LAUNCH_SETUID || (caps.permitted >> CAP_SETPCAP & 1) != 0;
	capng_clear(CAPNG_SELECT_BOTH);
	if (is_complete) {
		start_need(capng_apply(CAPNG_SELECT_BOUNDS) == 0, START_LOCKDOWN, 0, "bounding set");
		start_libc(prctl(PR_SET_SECUREBITS, SECUREBITS, 0, 0, 0), START_LOCKDOWN, "securebits");
	}
	if (launch_mode == LAUNCH_SETUID) {
		start_libc(setgroups(0, NULL), START_LOCKDOWN, "setgroups");
		start_libc(setresgid(gid, gid, gid), START_LOCKDOWN, "setresgid");
		start_libc(setresuid(uid, uid, uid), START_LOCKDOWN, "setresuid");
	}
	start_libc(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), START_LOCKDOWN, "ambient set");
	capng_clear(CAPNG_SELECT_BOTH);
	(void)capng_updatev(CAPNG_ADD, CAPNG_EFFECTIVE | CAPNG_PERMITTED, CAP_SYS_ADMIN,
			    (wanted & SANDBOX_AUDIT) != 0 ? CAP_AUDIT_WRITE : -1, -1);
	start_need(capng_apply(CAPNG_SELECT_CAPS) == 0, START_LOCKDOWN, 0, "capset");
	start_libc(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), START_LOCKDOWN, "dumpable");
	start_libc(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), START_LOCKDOWN, "no_new_privs");
	/* since 6.3; the filter forbids mprotect and mmap anyway */
	(void)prctl(PR_SET_MDWE_, PR_MDWE_REFUSE_EXEC_GAIN_, 0, 0, 0);
	start_sys(process_capabilities(&caps), START_LOCKDOWN, "capget");
	sandbox_check(agent, &caps, wanted, is_complete);
}

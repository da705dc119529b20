#include "sandbox.h"

#include "base/cleanup.h"

#include <cap-ng.h>
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	SECUREBITS = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
		     SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |
		     SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED | SECBIT_KEEP_CAPS_LOCKED,
	CAPABILITIES = 64, /* as many as the kernel's interface has room for */
	PR_SET_MDWE_ = 65,
	PR_MDWE_REFUSE_EXEC_GAIN_ = 1,
};

static const uint64_t kept = UINT64_C(1) << CAP_SYS_ADMIN | UINT64_C(1) << CAP_AUDIT_WRITE;

static enum status empty_bounding_set(struct error *err)
{
	capng_clear(CAPNG_SELECT_BOTH);
	if (capng_apply(CAPNG_SELECT_BOUNDS) != 0)
		return error_set(
			err, STATUS_PERMISSION_DENIED, errno,
			"empty the capability bounding set (does the agent's unit allow CAP_SETPCAP?)");
	return STATUS_OK;
}

static enum status keep_two(struct error *err)
{
	capng_clear(CAPNG_SELECT_BOTH);
	if (capng_updatev(CAPNG_ADD, CAPNG_EFFECTIVE | CAPNG_PERMITTED, CAP_SYS_ADMIN, CAP_AUDIT_WRITE, -1) !=
		    0 ||
	    capng_apply(CAPNG_SELECT_CAPS) != 0)
		return error_set(
			err, STATUS_PERMISSION_DENIED, errno,
			"keep CAP_SYS_ADMIN and CAP_AUDIT_WRITE (does the agent's unit allow both in "
			"CapabilityBoundingSet=?)");
	return STATUS_OK;
}

static uint64_t both_words(uint32_t low, uint32_t high)
{
	return (uint64_t)high << 32 | low;
}

/* Nothing that a library said is believed here. */
static enum status check(uint32_t uid, uint32_t gid, struct error *err)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];
	uid_t ruid;
	uid_t euid;
	uid_t suid;
	gid_t rgid;
	gid_t egid;
	gid_t sgid;
	const char *wrong = NULL;

	if (syscall(SYS_capget, &header, data) < 0 || getresuid(&ruid, &euid, &suid) < 0 ||
	    getresgid(&rgid, &egid, &sgid) < 0)
		return error_set(err, STATUS_INTERNAL, errno, "read back the lock-down");
	if (ruid != uid || euid != uid || suid != uid || rgid != gid || egid != gid || sgid != gid)
		wrong = "uid or gid";
	else if (getgroups(0, NULL) != 0)
		wrong = "supplementary groups";
	else if (both_words(data[0].effective, data[1].effective) != kept ||
		 both_words(data[0].permitted, data[1].permitted) != kept ||
		 both_words(data[0].inheritable, data[1].inheritable) != 0)
		wrong = "capabilities";
	else if (prctl(PR_GET_SECUREBITS, 0, 0, 0, 0) != SECUREBITS)
		wrong = "securebits";
	else if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1 || prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 0)
		wrong = "no_new_privs or dumpable";
	else if (setuid(0) == 0)
		wrong = "the way back to uid 0";
	for (unsigned long cap = 0; cap < CAPABILITIES && !wrong; cap++)
		if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1)
			wrong = "the bounding set";
	if (wrong)
		return error_set(err, STATUS_INTERNAL, 0, "after the lock-down %s is not as it must be",
				 wrong);
	return STATUS_OK;
}

enum status sandbox_drop(uint32_t uid, uint32_t gid, struct error *err)
{
	enum status status = empty_bounding_set(err);

	if (status != STATUS_OK)
		return status;
	if (prctl(PR_SET_SECUREBITS, SECUREBITS, 0, 0, 0) < 0)
		return error_set(err, STATUS_PERMISSION_DENIED, errno,
				 "lock the securebits (does the agent's unit allow CAP_SETPCAP?)");
	if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
		return error_set(err, STATUS_PERMISSION_DENIED, errno, "become uid %u and gid %u", uid, gid);
	status = keep_two(err);
	if (status != STATUS_OK)
		return status;
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return error_set(err, STATUS_INTERNAL, errno, "set no_new_privs");
	/* since 6.3; the filter forbids mprotect and mmap anyway */
	(void)prctl(PR_SET_MDWE_, PR_MDWE_REFUSE_EXEC_GAIN_, 0, 0, 0);
	return check(uid, gid, err);
}

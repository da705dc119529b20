/* SPDX-License-Identifier: Apache-2.0 */
#include "privileges.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

enum status privileges_check(uid_t uid, uint64_t effective, uint64_t permitted, struct error *err)
{
	if (uid == 0)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "holdfast-agent must not run as root: it needs no privilege; run it as its "
				 "own user (User=holdfast in its unit, or: setpriv --reuid=holdfast "
				 "--regid=holdfast --init-groups)");
	if ((effective | permitted) != 0)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "holdfast-agent must not have capabilities (effective %#" PRIx64
				 ", permitted %#" PRIx64
				 "): remove AmbientCapabilities= from its unit and file "
				 "capabilities from the program (setcap -r)",
				 effective, permitted);
	return STATUS_OK;
}

enum status privileges_check_self(struct error *err)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};

	if (syscall(SYS_capget, &header, data) < 0)
		return error_set(err, STATUS_INTERNAL, errno, "cannot read the capabilities of this process");
	return privileges_check(geteuid(), ((uint64_t)data[1].effective << 32) | data[0].effective,
				((uint64_t)data[1].permitted << 32) | data[0].permitted, err);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sys.h"

#include <errno.h>
#include <sys/stat.h>

int sys_fstatat(int dir_fd, const char *name, struct stat *ret, int flags)
{
	return fstatat(dir_fd, name, ret, flags) < 0 ? -errno : 0;
}

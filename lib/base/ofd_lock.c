/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ofd_lock.h"

#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int ofd_lock(int fd, int64_t start, int64_t n, bool wait)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = start, .l_len = n};
	int r;

	do {
		r = sys_ofd_lock(fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &lock);
	} while (r == -EINTR);
	return r == -EACCES ? -EAGAIN : r;
}

void ofd_unlock(int fd, int64_t start, int64_t n)
{
	struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = start, .l_len = n};

	(void)sys_ofd_lock(fd, F_OFD_SETLKW, &lock); /* cannot fail for a lock that is held */
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "privileged/procfs.h"

#include "base/cleanup.h"
#include "base/id.h"
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

/* Inode numbers of the initial namespaces are part of the kernel's interface. Source: linux/proc_ns.h. */
static const ino_t initial_user_ns = 0xEFFFFFFDU;
static const ino_t initial_pid_ns = 0xEFFFFFFCU;

int procfs_make(void)
{
	cleanup_close int fs_fd = sys_fsopen("proc", SYS_FSOPEN_CLOEXEC);

	TRY_SYS(fs_fd);
	TRY_SYS(sys_fsconfig(fs_fd, SYS_FSCONFIG_CMD_CREATE, NULL, NULL, 0));
	return sys_fsmount(fs_fd, SYS_FSMOUNT_CLOEXEC,
			   SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV | SYS_MOUNT_ATTR_NOEXEC);
}

static bool is_namespace(int proc_fd, const char *link, ino_t inode)
{
	struct stat st;

	return fstatat(proc_fd, link, &st, 0) == 0 && st.st_ino == inode;
}

bool procfs_is_initial(int proc_fd)
{
	return is_namespace(proc_fd, "self/ns/user", initial_user_ns) &&
	       is_namespace(proc_fd, "self/ns/pid", initial_pid_ns);
}

int procfs_boot_id(int proc_fd, char ret[static UUID_SIZE])
{
	cleanup_close int fd = openat(proc_fd, "sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	char text[UUID_SIZE] = "";
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));

	if (n < 0)
		return -errno;
	if (n != sizeof(text) || text[n - 1] != '\n')
		return -EBADMSG;
	text[n - 1] = '\0';
	if (!id_is_uuid(text))
		return -EBADMSG;
	memcpy(ret, text, sizeof(text));
	return 0;
}

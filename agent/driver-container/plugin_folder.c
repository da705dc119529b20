/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin_folder.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "rpc/dial.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* Returns 1 if a process listens, 0 if no process does, or a negative errno. The plugin writes to the folder:
 * a link that it made leads to no other socket. */
static int is_listened_on(const char *path)
{
	cleanup_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int r;

	if (fd < 0)
		return -errno;
	r = dial_own(fd, path);
	if (r == 0 || r == EAGAIN)
		return 1;
	return r == ECONNREFUSED || r == ENOENT ? 0 : -r;
}

enum status plugin_folder_clear(const char *plugin_dir, const char *id, const char *socket, struct error *err)
{
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	int r = str_format(path, sizeof(path), "%s/%s/%s", plugin_dir, id, socket);

	if (r < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "plugin %s: the path of its socket below %s is too long: name a shorter one",
				 id, plugin_dir);
	r = is_listened_on(path);
	if (r > 0)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "plugin %s is served at %s already, by a unit of the host or another task: "
				 "stop that, or name another socket in the csi_plugin block",
				 id, path);
	if (r == 0 && unlink(path) < 0 && errno != ENOENT)
		r = -errno;
	if (r < 0)
		return error_set(err, status_from_errno(r), r,
				 "take away %s, the socket of a plugin that has ended", path);
	return STATUS_OK;
}

enum status plugin_folder_make(const char *plugin_dir, const char *id, const char *socket, struct error *err)
{
	cleanup_close int dir_fd = open(plugin_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	if (dir_fd < 0)
		return error_set(err, STATUS_FAILED_PRECONDITION, errno,
				 "open %s (plugin_dir), where plugins have their sockets", plugin_dir);
	if (mkdirat(dir_fd, id, S_IRWXU | S_IRGRP | S_IXGRP) < 0 && errno != EEXIST)
		return error_set(
			err, status_from_errno(errno), errno,
			"make the folder of plugin %s in %s: the driver has to be able to write there", id,
			plugin_dir);
	if (fstatat(dir_fd, id, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0, "%s/%s is no folder", plugin_dir, id);
	return plugin_folder_clear(plugin_dir, id, socket, err);
}

enum status plugin_program_check(const char *path, struct error *err)
{
	struct stat st;

	if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & S_IXOTH))
		return STATUS_OK;
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "cannot start a CSI plugin: %s, with which its container begins, is no program that "
			 "every user may run. Next: remove it, and reinstall package "
			 "holdfast-driver-container",
			 path);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/path.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "base/sys.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

static bool is_dots(const char *s, size_t n)
{
	return (n == 1 && s[0] == '.') || (n == 2 && s[0] == '.' && s[1] == '.');
}

bool path_is_normal(const char *path)
{
	const char *p = path;

	if (path[0] != '/' || strnlen(path, PATH_MAX) >= PATH_MAX)
		return false;
	if (path[1] == '\0')
		return true;
	while (*p == '/') {
		size_t n = strcspn(p + 1, "/");

		if (n == 0 || n > NAME_MAX || is_dots(p + 1, n))
			return false;
		p += 1 + n;
	}
	return true;
}

bool path_is_within(const char *path, const char *base)
{
	assert(base[0] == '/');

	size_t n = base[1] == '\0' ? 0 : strlen(base); /* everything is below "/" */

	return strncmp(path, base, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

static int check_trusted(int fd)
{
	struct statx st;

	TRY_SYS(sys_statx(fd, "", AT_EMPTY_PATH, STATX_TYPE | STATX_MODE | STATX_UID, &st));
	if (!S_ISDIR(st.stx_mode))
		return -ENOTDIR;
	if (st.stx_uid != 0 || (st.stx_mode & (S_IWGRP | S_IWOTH)) != 0)
		return -EPERM;
	return 0;
}

static int open_component(int dir_fd, const char *name, size_t n)
{
	char component[NAME_MAX + 1];

	TRY_SYS(check_trusted(dir_fd));
	memcpy(component, name, n);
	component[n] = '\0';
	return sys_openat(dir_fd, component, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int walk(int root_fd, const char *path)
{
	cleanup_close int dir = sys_openat(root_fd, ".", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	const char *p = path;

	TRY_SYS(dir);
	while (p[0] == '/' && p[1] != '\0') {
		size_t n = strcspn(p + 1, "/");
		int next = open_component(dir, p + 1, n);

		TRY_SYS(next);
		close_fdp(&dir);
		dir = next;
		p += 1 + n;
	}
	return TAKE_FD(dir);
}

int path_open_trusted(int root_fd, const char *path)
{
	if (!path_is_normal(path))
		return -EINVAL;
	return walk(root_fd, path);
}

int path_open_trusted_parent(int root_fd, const char *path, char *ret_name)
{
	char parent[PATH_MAX];
	cleanup_close int fd = -EBADF;
	const char *slash;

	if (!path_is_normal(path) || path[1] == '\0')
		return -EINVAL;
	slash = strrchr(path, '/');
	memcpy(parent, path, (size_t)(slash - path));
	parent[slash - path] = '\0';
	fd = walk(root_fd, parent[0] != '\0' ? parent : "/");
	TRY_SYS(fd);
	TRY_SYS(check_trusted(fd));
	(void)str_copy(ret_name, NAME_MAX + 1, slash + 1);
	return TAKE_FD(fd);
}

int path_open_trusted_file(int root_fd, const char *path, uid_t owner, int flags, mode_t mode)
{
	char name[NAME_MAX + 1];
	cleanup_close int dir = path_open_trusted_parent(root_fd, path, name);
	cleanup_close int fd = -EBADF;
	struct stat st;

	TRY_SYS(dir);
	fd = openat(dir, name, flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, mode);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if ((st.st_uid != 0 && st.st_uid != owner) || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0 ||
	    st.st_nlink != 1)
		return -EPERM;
	return TAKE_FD(fd);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

int fd_write_all(int fd, const void *bytes, size_t n)
{
	const uint8_t *p = bytes;

	while (n > 0) {
		ssize_t w = write(fd, p, n);

		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0)
			return -errno;
		p += w;
		n -= (size_t)w;
	}
	return 0;
}

int fd_read_all(int fd, size_t max, char **ret, size_t *ret_len)
{
	cleanup_free char *buf = NULL;
	size_t len = 0;
	size_t cap = 0;

	for (;;) {
		ssize_t r;

		if (len + 1 >= cap) {
			size_t more = cap ? cap * 2 : 4096;
			char *grown = realloc(buf, more);

			if (!grown)
				return -ENOMEM;
			buf = grown;
			cap = more;
		}
		r = read(fd, buf + len, cap - len - 1);
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (r == 0)
			break;
		len += (size_t)r;
		if (len > max)
			return -EFBIG;
	}
	buf[len] = '\0';
	*ret = TAKE_PTR(buf);
	if (ret_len)
		*ret_len = len;
	return 0;
}

int file_open(const char *path)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
	return TAKE_FD(fd);
}

int file_read(const char *path, size_t max, char **ret, size_t *ret_len)
{
	cleanup_close int fd = file_open(path);

	return fd < 0 ? fd : fd_read_all(fd, max, ret, ret_len);
}

static int write_and_sync(const char *path, mode_t mode, const void *bytes, size_t n)
{
	cleanup_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
	int r;

	if (fd < 0)
		return -errno;
	r = fd_write_all(fd, bytes, n);
	if (r < 0)
		return r;
	return fsync(fd) < 0 ? -errno : 0;
}

int file_sync_folder(const char *path)
{
	char copy[PATH_MAX];
	cleanup_close int fd = -EBADF;

	if (str_copy(copy, sizeof(copy), path) < 0)
		return -ENAMETOOLONG;
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return fsync(fd) < 0 ? -errno : 0;
}

int file_write_atomic(const char *path, mode_t mode, const void *bytes, size_t n)
{
	char tmp[PATH_MAX];
	int r;

	if (str_format(tmp, sizeof(tmp), "%s.%d" FILE_TMP_SUFFIX, path, getpid()) < 0)
		return -ENAMETOOLONG;
	r = write_and_sync(tmp, mode, bytes, n);
	if (r == -EEXIST) {
		/* left behind by a process of the same id that died; ours by construction of the name */
		(void)unlink(tmp);
		r = write_and_sync(tmp, mode, bytes, n);
	}
	if (r == 0 && rename(tmp, path) < 0)
		r = -errno;
	if (r < 0) {
		(void)unlink(tmp);
		return r;
	}
	return file_sync_folder(path);
}

#include "policy_file.h"

#include "base/cleanup.h"
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

int root_file_open(int root_fd, const char *path, int flags, unsigned int mode)
{
	char name[NAME_MAX + 1];
	cleanup_close int dir = path_open_trusted_parent(root_fd, path, name);
	cleanup_close int fd = -EBADF;
	struct stat st;

	if (dir < 0)
		return TAKE_FD(dir);
	fd = openat(dir, name, flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, mode);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (st.st_uid != 0 || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0 || st.st_nlink != 1)
		return -EPERM;
	return TAKE_FD(fd);
}

/* Up to one byte more than is allowed, so that a file that grows is noticed. */
static ssize_t read_text(int fd, char *text, size_t size)
{
	size_t have = 0;

	while (have < size) {
		ssize_t n = read(fd, text + have, size - have);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		have += (size_t)n;
	}
	return (ssize_t)have;
}

enum status policy_file_load(int root_fd, const char *path, struct policy *ret,
			     uint8_t ret_digest[static TICKET_DIGEST_SIZE], struct error *err)
{
	static char text[POLICY_TEXT_MAX + 1];
	cleanup_close int fd = root_file_open(root_fd, path, O_RDONLY, 0);
	unsigned int line;
	ssize_t n;

	if (fd < 0)
		return error_set(
			err, status_from_errno(fd), fd,
			"policy %s: must be a regular file of root, mode 0644, and every directory above it "
			"of root and writable by root only",
			path);
	n = read_text(fd, text, sizeof(text));
	if (n < 0)
		return error_set(err, STATUS_INTERNAL, (int)n, "read policy %s", path);
	(void)crypto_hash_sha256(ret_digest, (const unsigned char *)text, (unsigned long long)n);
	return policy_parse(path, text, (size_t)n, ret, &line, err);
}

#include "block_source.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <string.h>
#include <sys/stat.h>

int by_id_target(const char *target, size_t n, char ret[static DEVICE_NAME_SIZE])
{
	static const char up[] = "../../";
	const size_t skip = sizeof(up) - 1;

	if (n <= skip || n - skip >= DEVICE_NAME_SIZE || memcmp(target, up, skip) != 0)
		return -EINVAL;
	for (size_t i = skip; i < n; i++) {
		char c = target[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '-')
			return -EINVAL;
	}
	memcpy(ret, target + skip, n - skip);
	ret[n - skip] = '\0';
	return 0;
}

/* /dev/disk/by-id, if udev or root made it and nobody else can write there. */
static int open_by_id(const struct helper *h)
{
	static const char *const names[] = {"disk", "by-id"};
	cleanup_close int dir = sys_openat(h->dev_fd, ".", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	for (size_t i = 0; i < ARRAY_SIZE(names) && dir >= 0; i++) {
		int next = sys_openat(dir, names[i], O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		struct stat st;
		int r = next < 0 ? next : sys_fstat(next, &st);

		close_fdp(&dir);
		dir = next;
		if (r < 0)
			return r;
		if (st.st_uid != 0 || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
			return -EPERM;
	}
	return TAKE_FD(dir);
}

static int read_link(const struct helper *h, const char *by_id, char ret_name[static DEVICE_NAME_SIZE])
{
	cleanup_close int dir = open_by_id(h);
	char target[DEVICE_NAME_SIZE + 8];
	int n;

	if (dir < 0)
		return TAKE_FD(dir);
	n = sys_readlinkat(dir, by_id, target, sizeof(target));
	if (n < 0)
		return n;
	return by_id_target(target, (size_t)n, ret_name);
}

struct outcome block_source_find(const struct helper *h, const struct mh_source *source,
				 struct block_source *ret)
{
	cleanup_close int fd = -EBADF;
	char name[DEVICE_NAME_SIZE];
	struct statx st;
	int r = read_link(h, source->u.block.by_id, name);

	if (r == -EINVAL)
		return outcome_stop(MH_REFUSED, STEP_SOURCE, REASON_LINK);
	if (r < 0)
		return outcome_kernel(STEP_SOURCE, r);
	fd = sys_openat(h->dev_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return outcome_kernel(STEP_SOURCE, fd);
	r = sys_statx(fd, "", AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_TYPE, &st);
	if (r < 0)
		return outcome_kernel(STEP_SOURCE, r);
	if (!S_ISBLK(st.stx_mode))
		return outcome_stop(MH_REFUSED, STEP_SOURCE, REASON_NOT_BLOCK);
	if (st.stx_rdev_major != source->u.block.major || st.stx_rdev_minor != source->u.block.minor)
		return outcome_stop(MH_REFUSED, STEP_SOURCE, REASON_DEVICE_NUMBER);
	ret->dev_major = st.stx_rdev_major;
	ret->dev_minor = st.stx_rdev_minor;
	(void)str_format(ret->path, sizeof(ret->path), "/dev/%s", name);
	return outcome_stop(MH_OK, STEP_NONE, REASON_NONE);
}

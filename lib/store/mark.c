/* SPDX-License-Identifier: Apache-2.0 */
#include "store/mark.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "store/checksum.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SLOTS = 2, SLOT_SIZE = 512, FILE_SIZE = SLOTS * SLOT_SIZE };

/* As it lies in the file, in the byte order of the machine: a mark is read where it was written. */
struct slot {
	char magic[8];
	uint64_t serial; /* the newer slot has the higher one */
	struct mark mark;
	uint64_t sum; /* of all before it */
};

_Static_assert(sizeof(struct slot) == 8 + 8 + sizeof(struct mark) + 8 && sizeof(struct slot) <= SLOT_SIZE,
	       "a slot has no gaps and fits");

static const char magic[8] = "HFMARK1";

struct mark_file {
	int fd;
	uint64_t serial; /* of the last slot that was written */
	bool is_dirty;
};

static struct slot make_slot(const struct mark *mark, uint64_t serial)
{
	struct slot slot = {.serial = serial, .mark = *mark};

	memcpy(slot.magic, magic, sizeof(magic));
	slot.sum = checksum_add(CHECKSUM_INIT, &slot, offsetof(struct slot, sum));
	return slot;
}

static bool is_whole(const struct slot *slot)
{
	return memcmp(slot->magic, magic, sizeof(magic)) == 0 &&
	       slot->sum == checksum_add(CHECKSUM_INIT, slot, offsetof(struct slot, sum)) &&
	       memchr(slot->mark.store_id, '\0', sizeof(slot->mark.store_id));
}

static enum status fail(int r, const char *path, const char *doing, struct error *err)
{
	return error_set(err, status_from_errno(r), r, "mark %s: %s", path, doing);
}

static enum status read_newest(int fd, const char *path, struct slot *ret, struct error *err)
{
	struct slot newest = {.serial = 0};
	bool is_found = false;

	for (int i = 0; i < SLOTS; i++) {
		struct slot slot;
		ssize_t n = pread(fd, &slot, sizeof(slot), (off_t)i * SLOT_SIZE);

		if (n < 0)
			return fail(errno, path, "cannot be read", err);
		if ((size_t)n < sizeof(slot) || !is_whole(&slot) || (is_found && slot.serial < newest.serial))
			continue;
		newest = slot;
		is_found = true;
	}
	if (!is_found)
		return error_set(err, STATUS_DATA_LOSS, 0, "mark %s: damaged, or no mark", path);
	*ret = newest;
	return STATUS_OK;
}

static enum status open_regular(const char *path, int *ret, struct error *err)
{
	cleanup_close int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;

	if (fd < 0)
		return fail(errno, path, "cannot be opened", err);
	if (fstat(fd, &st) < 0)
		return fail(errno, path, "cannot be looked at", err);
	if (!S_ISREG(st.st_mode) || (st.st_size != 0 && st.st_size != FILE_SIZE))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "mark %s: that file is something else; name another one", path);
	*ret = TAKE_FD(fd);
	return STATUS_OK;
}

enum status mark_read(const char *path, struct mark *ret, struct error *err)
{
	cleanup_close int fd = -EBADF;
	struct slot slot;

	TRY(open_regular(path, &fd, err));
	TRY(read_newest(fd, path, &slot, err));
	*ret = slot.mark;
	return STATUS_OK;
}

static enum status create(const char *path, const struct mark *first, struct error *err)
{
	struct slot slot = make_slot(first, 0);
	char bytes[FILE_SIZE] = {0};
	int r;

	memcpy(bytes, &slot, sizeof(slot));
	r = file_write_atomic(path, 0600, bytes, sizeof(bytes));
	return r < 0 ? fail(r, path, "cannot be made; make its folder exist and belong to this service", err)
		     : STATUS_OK;
}

enum status mark_open(const char *path, const struct mark *first, struct mark_file **ret, struct error *err)
{
	cleanup_close int fd = -EBADF;
	struct mark_file *file;
	struct slot slot;
	enum status status = open_regular(path, &fd, err);

	if (status == STATUS_OK)
		status = read_newest(fd, path, &slot, err);
	if (status == STATUS_NOT_FOUND || status == STATUS_DATA_LOSS) {
		close_fdp(&fd);
		fd = -EBADF;
		status = create(path, first, err);
		if (status == STATUS_OK)
			status = open_regular(path, &fd, err);
		if (status == STATUS_OK)
			status = read_newest(fd, path, &slot, err);
	}
	if (status != STATUS_OK)
		return status;
	file = malloc(sizeof(*file));
	if (!file)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "mark %s: out of memory", path);
	*file = (struct mark_file){.fd = TAKE_FD(fd), .serial = slot.serial};
	*ret = file;
	return STATUS_OK;
}

int mark_write(struct mark_file *file, const struct mark *mark)
{
	struct slot slot = make_slot(mark, file->serial + 1);
	ssize_t n = pwrite(file->fd, &slot, sizeof(slot), (off_t)(slot.serial % SLOTS) * SLOT_SIZE);

	if (n != (ssize_t)sizeof(slot))
		return n < 0 ? -errno : -ENOSPC;
	file->serial = slot.serial;
	file->is_dirty = true;
	return 0;
}

int mark_sync(struct mark_file *file)
{
	if (!file->is_dirty)
		return 0;
	if (fdatasync(file->fd) < 0)
		return -errno;
	file->is_dirty = false;
	return 0;
}

void mark_close(struct mark_file *file)
{
	if (!file)
		return;
	(void)mark_sync(file); /* a late mark has a smaller revision, never a larger one */
	(void)close(file->fd);
	free(file);
}

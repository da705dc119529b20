/* SPDX-License-Identifier: Apache-2.0 */
#include "trail.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/rate.h"
#include "base/rates.h"
#include "base/str.h"
#include "privileged/chain_log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/sha.h>
#include <order.h>
#include <string.h>
#include <sys/stat.h>

enum { REFUSALS_PER_S = 1, REFUSALS_BURST = 200, REPEATS_BURST = 200 };
#define REPEAT_COST_US (10 * USEC_PER_SEC)

struct trail {
	struct chain_log log;
	struct chain_log_head head;
	struct rate refusals;
	struct rates *repeats; /* owned; orders of an allocation that were used before */
	uint64_t skipped;
	char path[PATH_MAX];
};

static int digest(unsigned char *ret, const unsigned char *bytes, unsigned long long n)
{
	(void)SHA256(bytes, (size_t)n, ret);
	return 0;
}

static int open_in(const char *folder, const char *name, int flags, char path[static PATH_MAX])
{
	if (str_format(path, PATH_MAX, "%s/%s", folder, name) < 0)
		return -1;
	return open(path, flags | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
}

DEFINE_CLEANUP(struct trail, trail_free)

/* Finds the end of the chain in the file that logrotate(8) moved away to @path. Returns 0 or a negative
 * errno. */
static int read_moved(struct trail *trail, const char *path)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char tail[4 * CHAIN_LOG_LINE_MAX];
	struct chain_log_end end;
	off_t size;
	size_t n;

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	size = lseek(fd, 0, SEEK_END);
	if (size < 0)
		return -errno;
	n = size > (off_t)sizeof(tail) ? sizeof(tail) : (size_t)size;
	if (pread(fd, tail, n, size - (off_t)n) != (ssize_t)n)
		return -EIO;
	TRY_SYS(chain_log_read_end(tail, n, (off_t)n == size, digest, &end));
	trail->head.rec = end.rec;
	memcpy(trail->head.digest, end.digest[0], sizeof(trail->head.digest));
	return 0;
}

/* A new file that is still empty continues the chain of the one before. */
static enum status find_head(struct trail *trail, struct error *err)
{
	char path[PATH_MAX + 2];
	int r;

	if (lseek(trail->log.read_fd, 0, SEEK_END) != 0)
		return STATUS_OK;
	(void)str_format(path, sizeof(path), "%s.1", trail->path);
	r = read_moved(trail, path);
	return r < 0 ? error_set(err, status_from_errno(r), r,
				 "read the end of the trail in %s (if it is damaged, move it away)", path)
		     : STATUS_OK;
}

enum status trail_open(const char *folder, const char *cluster, const char *node, struct trail **ret,
		       struct error *err)
{
	cleanup(trail_freep) struct trail *trail = calloc(1, sizeof(*trail));
	char lock_path[PATH_MAX];

	if (!trail)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "open the trail in %s", folder);
	trail->log = (struct chain_log){.sha256 = digest, .head = &trail->head, .read_fd = -EBADF};
	trail->log.lock_fd = open_in(folder, "trail.lock", O_RDWR, lock_path);
	trail->log.fd = open_in(folder, "trail.log", O_WRONLY | O_APPEND, trail->path);
	if (trail->log.fd >= 0)
		trail->log.read_fd = open(trail->path, O_RDONLY | O_CLOEXEC);
	if (trail->log.lock_fd < 0 || trail->log.read_fd < 0)
		return error_set(err, status_from_errno(errno), errno,
				 "open the trail in %s (state_dir), which has to be the driver's own",
				 folder);
	trail->repeats = rates_new();
	if (!trail->repeats)
		return error_no_memory(err, "the trail");
	TRY(find_head(trail, err));
	keyline_words(&trail->log.origin, "cluster", cluster, "node", node, "driver", "container");
	rate_init(&trail->refusals, REFUSALS_PER_S, REFUSALS_BURST, clock_monotonic_us());
	*ret = TAKE_PTR(trail);
	return STATUS_OK;
}

void trail_free(struct trail *trail)
{
	if (!trail)
		return;
	close_fdp(&trail->log.fd);
	close_fdp(&trail->log.read_fd);
	close_fdp(&trail->log.lock_fd);
	rates_free(trail->repeats);
	free(trail);
}

bool trail_has_room(struct trail *trail, uint64_t now_us, uint64_t *ret_skipped)
{
	if (!rate_take(&trail->refusals, now_us)) {
		trail->skipped++;
		return false;
	}
	*ret_skipped = trail->skipped;
	trail->skipped = 0;
	return true;
}

bool trail_has_room_again(struct trail *trail, const uint8_t *alloc, uint64_t now_us)
{
	char name[2 * ORDER_UUID_SIZE + 1];

	hex_encode(name, alloc, ORDER_UUID_SIZE);
	return rates_take(trail->repeats, name, REPEAT_COST_US, REPEATS_BURST, now_us);
}

/* If logrotate(8) made a new file, the chain continues there. A deleted one is an error of the next record.
 */
static void follow_rotation(struct trail *trail)
{
	struct stat named, open_one;

	if (lstat(trail->path, &named) < 0 || fstat(trail->log.read_fd, &open_one) < 0 ||
	    (named.st_ino == open_one.st_ino && named.st_dev == open_one.st_dev))
		return;
	cleanup_close int fd = open(trail->path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
	cleanup_close int read_fd = open(trail->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0 || read_fd < 0)
		return;
	close_fdp(&trail->log.fd);
	close_fdp(&trail->log.read_fd);
	trail->log.fd = TAKE_FD(fd);
	trail->log.read_fd = TAKE_FD(read_fd);
	trail->log.known_size = 0;
}

enum status trail_write(struct trail *trail, const struct keyline *record, struct error *err)
{
	uint64_t rec = 0;
	int r;

	follow_rotation(trail);
	r = chain_log_append(&trail->log, record, &rec);

	chain_log_settle(&trail->log);
	return r < 0 ? error_set(err, status_from_errno(r), r, "write %s", trail->path) : STATUS_OK;
}

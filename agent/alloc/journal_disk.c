/* SPDX-License-Identifier: Apache-2.0 */
/* Watches the disk of the journal and holds a reserve on it. */
#include "alloc/journal_disk.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "log/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
	MIB = 1 << 20,
	INODES_MIN = 16,      /* free ones: the store makes two files when it is opened */
	LEAVE_TIMES = 3,      /* so much of the reserve must be free before it is made again */
	PROBE_SIZE = 1 << 18, /* more than one write of the journal */
	N_RESERVE = 4,	      /* files: each frees an inode */
};

struct journal_disk {
	char folder[PATH_MAX - 64];
	uint64_t reserve;
	bool has_reserve;
	bool was_refused; /* the reserve: logged once */
	bool has_no_fallocate;
	enum node_disk trouble;
	uint64_t free_bytes;	/* for this user, without the reserve */
	sd_event_source *timer; /* owned */
	journal_disk_fn *changed;
	void *userdata;
};

/* --- the reserve --- */

static void reserve_path(const struct journal_disk *disk, int i, char ret[static PATH_MAX])
{
	(void)str_format(ret, PATH_MAX, "%s/agent.reserve-%d", disk->folder, i);
}

/* The file exists afterwards, if the file system takes @size bytes. */
static int allocate(const char *path, uint64_t size)
{
	cleanup_close int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return -errno;
	if (fallocate(fd, 0, 0, (off_t)size) < 0)
		return -errno;
	return 0;
}

static void free_reserve(struct journal_disk *disk)
{
	char path[PATH_MAX];

	for (int i = 0; i < N_RESERVE; i++) {
		reserve_path(disk, i, path);
		if (unlink(path) < 0 && errno != ENOENT && errno != EROFS)
			log_ctx(LOG_WARNING, NULL, "cannot remove the reserve %s (errno %d), ignoring", path,
				errno);
	}
	disk->has_reserve = false;
}

/* Asks for LEAVE_TIMES the reserve first: a quota counts, too. */
static int make_reserve(struct journal_disk *disk)
{
	char path[PATH_MAX];
	int r = 0;

	for (int i = 0; i < N_RESERVE && r == 0; i++) {
		reserve_path(disk, i, path);
		r = allocate(path, i == 0 ? LEAVE_TIMES * disk->reserve : 1);
	}
	reserve_path(disk, 0, path);
	if (r == 0 && truncate(path, (off_t)disk->reserve) < 0)
		r = -errno;
	if (r < 0)
		free_reserve(disk);
	if (r < 0 && !disk->was_refused)
		log_ctx(LOG_WARNING, NULL, "cannot make a reserve for a full disk in %s (errno %d), ignoring",
			disk->folder, -r);
	disk->was_refused = r < 0;
	disk->has_no_fallocate = r == -EOPNOTSUPP;
	disk->has_reserve = r == 0;
	return r;
}

static bool find_reserve(const struct journal_disk *disk)
{
	char path[PATH_MAX];
	struct stat st;

	reserve_path(disk, 0, path);
	return stat(path, &st) == 0 && (uint64_t)st.st_size == disk->reserve;
}

/* --- looking --- */

static enum node_disk trouble_of_errno(int r)
{
	switch (-r) {
	case ENOSPC:
		return NODE_DISK_FULL;
	case EDQUOT:
		return NODE_DISK_QUOTA;
	case EROFS:
		return NODE_DISK_READ_ONLY;
	default:
		return NODE_DISK_ROOM;
	}
}

/* As the file system counts; a quota is not counted. */
static enum node_disk look(struct journal_disk *disk)
{
	uint64_t times = disk->trouble == NODE_DISK_ROOM ? 1 : LEAVE_TIMES;
	struct statvfs fs;

	if (statvfs(disk->folder, &fs) < 0)
		return disk->trouble; /* the next write fails */
	disk->free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (fs.f_flag & ST_RDONLY)
		return NODE_DISK_READ_ONLY;
	if (disk->free_bytes < times * disk->reserve)
		return NODE_DISK_FULL;
	if (fs.f_files > 0 &&
	    fs.f_favail < times * INODES_MIN) /* 0 files: it has no fixed number of inodes */
		return NODE_DISK_INODES;
	return NODE_DISK_ROOM;
}

static void log_trouble(const struct journal_disk *disk)
{
	char text[ERROR_MSG_MAX];

	if (journal_disk_warning(disk, text, sizeof(text)))
		log_ctx(LOG_ERR, &(struct log_ctx){.op = "disk", .event = LOG_EVENT_NODE_DISK_FULL}, "%s",
			text);
	else
		log_ctx(LOG_NOTICE, &(struct log_ctx){.op = "disk", .event = LOG_EVENT_NODE_DISK_HAS_ROOM},
			"%s has room again: new allocations are taken", disk->folder);
}

static void set_trouble(struct journal_disk *disk, enum node_disk trouble)
{
	if (trouble == disk->trouble)
		return;
	disk->trouble = trouble;
	log_trouble(disk);
	if (disk->changed)
		disk->changed(disk->userdata);
}

/* Writes what one write of the journal needs, and removes it. */
static int probe(const struct journal_disk *disk)
{
	char path[PATH_MAX];
	int r;

	(void)str_format(path, sizeof(path), "%s/agent.probe", disk->folder);
	r = allocate(path, PROBE_SIZE);
	(void)unlink(path);
	return r == -EOPNOTSUPP ? 0 : r;
}

static void disk_look(struct journal_disk *disk)
{
	enum node_disk trouble = look(disk);

	/* ext4 refuses writes after an error, and statvfs() does not show it */
	if (disk->trouble == NODE_DISK_READ_ONLY && probe(disk) == -EROFS)
		trouble = NODE_DISK_READ_ONLY;
	if (trouble == NODE_DISK_ROOM && !disk->has_reserve && !disk->has_no_fallocate &&
	    disk->free_bytes >= LEAVE_TIMES * disk->reserve) {
		int r = make_reserve(disk);

		if (disk->trouble != NODE_DISK_ROOM) /* else the disk has room, but not for a reserve */
			trouble = trouble_of_errno(r);
	}
	set_trouble(disk, trouble);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct journal_disk *disk = userdata;

	disk_look(disk);
	(void)sd_event_source_set_time_relative(source, USEC_PER_SEC);
	(void)sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	return 0;
}

bool journal_disk_takes_writes(const struct journal_disk *disk)
{
	return probe(disk) == 0;
}

bool journal_disk_is_reason(struct journal_disk *disk)
{
	enum node_disk trouble = look(disk);

	if (trouble == NODE_DISK_ROOM) /* a quota, or less than one write needs */
		trouble = trouble_of_errno(probe(disk));
	if (trouble == NODE_DISK_ROOM)
		return disk->trouble != NODE_DISK_ROOM;
	if (disk->has_reserve)
		free_reserve(disk);
	set_trouble(disk, trouble);
	return true;
}

void journal_disk_hold(const struct journal_disk *disk, const char *log)
{
	cleanup_close int fd = open(log, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd >= 0) /* the size of the file stays: sqlite reads the log to its end */
		(void)fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)disk->reserve);
}

/* --- life --- */

enum status journal_disk_new(sd_event *event, const char *folder, uint64_t reserve, journal_disk_fn *changed,
			     void *userdata, struct journal_disk **ret, struct error *err)
{
	struct journal_disk *disk = calloc(1, sizeof(*disk));
	int r;

	if (!disk)
		return error_no_memory(err, "the journal");
	disk->reserve = reserve;
	if (str_copy(disk->folder, sizeof(disk->folder), folder) < 0) {
		free(disk);
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "data_dir is too long");
	}
	disk->has_reserve = find_reserve(disk);
	if (!disk->has_reserve)
		free_reserve(disk); /* of another size */
	disk_look(disk);
	disk->changed = changed;
	disk->userdata = userdata;
	r = sd_event_add_time_relative(event, &disk->timer, CLOCK_MONOTONIC, USEC_PER_SEC, 0, on_timer, disk);
	if (r < 0) {
		free(disk);
		return error_set(err, STATUS_INTERNAL, r, "watch the disk of the journal");
	}
	*ret = disk;
	return STATUS_OK;
}

void journal_disk_free(struct journal_disk *disk)
{
	if (!disk)
		return;
	disk->timer = sd_event_source_disable_unref(disk->timer);
	free(disk);
}

enum node_disk journal_disk_trouble(const struct journal_disk *disk)
{
	return disk->trouble;
}

bool journal_disk_warning(const struct journal_disk *disk, char *dst, size_t size)
{
	char text[NODE_DISK_TEXT_SIZE];
	char next[NODE_DISK_TEXT_SIZE];
	char room[96] = "";

	if (disk->trouble == NODE_DISK_ROOM)
		return false;
	if (disk->trouble == NODE_DISK_FULL)
		(void)str_format(room, sizeof(room),
				 ", of which %" PRIu64 " MiB are free and %" PRIu64 " MiB must be",
				 disk->free_bytes / MIB, LEAVE_TIMES * disk->reserve / MIB);
	(void)str_format(dst, size, "%s%s: no new allocation is taken, %s. Next: %s",
			 node_disk_text(disk->trouble, disk->folder, text), room,
			 disk->trouble == NODE_DISK_READ_ONLY ? "releases wait"
							      : "releases continue in the reserve",
			 node_disk_command(disk->trouble, disk->folder, next));
	return true;
}

enum status journal_disk_check(const struct journal_disk *disk, struct error *err)
{
	char text[ERROR_MSG_MAX];

	if (!disk || !journal_disk_warning(disk, text, sizeof(text)))
		return STATUS_OK;
	return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "this node takes no new allocation: %s", text);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "state/disk.h"

#include "server.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "log/log.h"
#include "state/change.h"
#include "state/state.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define LOOK_US (20 * USEC_PER_MSEC) /* what changes in between fits into half of the smallest reserve */
#define TIMER_US USEC_PER_SEC

enum { MIB = 1 << 20 };

/* Below it nothing new is taken, or (FULL) nothing at all; and from where on it is as before again. */
static uint64_t enter_below(const struct server *server, enum disk_level level)
{
	return level == DISK_FULL ? server->config.disk_reserve / 2 : server->config.disk_reserve;
}

static uint64_t leave_from(const struct server *server, enum disk_level level)
{
	return level == DISK_FULL ? server->config.disk_reserve : 3 * server->config.disk_reserve;
}

/* --- the reserve --- */

static int allocate(const char *path, uint64_t size)
{
	cleanup_close int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return -errno;
	return -posix_fallocate(fd, 0, (off_t)size);
}

static void make_reserve(struct server *server)
{
	struct disk *disk = server->disk;
	int r = allocate(disk->reserve, server->config.disk_reserve);

	disk->has_reserve = r == 0;
	if (r < 0)
		(void)unlink(disk->reserve);
	if (r < 0 && !disk->was_refused)
		log_ctx(LOG_WARNING, NULL, "there is no reserve for a full disk at %s (errno %d), ignoring",
			disk->reserve, -r);
	disk->was_refused = r < 0;
}

static void give_reserve_back(struct disk *disk)
{
	if (unlink(disk->reserve) < 0 && errno != ENOENT)
		log_ctx(LOG_WARNING, NULL, "the reserve %s cannot be removed (errno %d), ignoring",
			disk->reserve, errno);
	disk->has_reserve = false;
}

/* --- levels --- */

static enum disk_level level_of(const struct server *server, uint64_t free_bytes)
{
	enum disk_level before = server->disk->level;

	for (enum disk_level level = DISK_FULL; level > DISK_PLENTY; level--)
		if (free_bytes < (before >= level ? leave_from(server, level) : enter_below(server, level)))
			return level;
	return DISK_PLENTY;
}

static void log_disk_level(const struct server *server)
{
	char text[DISK_WARNING_SIZE];

	if (disk_warning(server, text))
		log_ctx(LOG_ERR, &(struct log_ctx){.op = "disk", .event = LOG_EVENT_DISK_FULL}, "%s", text);
	else
		log_ctx(LOG_NOTICE, &(struct log_ctx){.op = "disk"},
			"%s has room again: everything is taken as before", server->config.data_dir);
}

static uint64_t read_free(const struct server *server)
{
	struct statvfs fs;

	if (statvfs(server->config.data_dir, &fs) < 0)
		return UINT64_MAX; /* a commit will show it */
	return (uint64_t)fs.f_bavail * fs.f_frsize;
}

static void disk_look(struct server *server)
{
	struct disk *disk = server->disk;
	enum disk_level before = disk->level;
	enum disk_level level;

	disk->looked_us = clock_monotonic_us();
	disk->free_bytes = read_free(server);
	level = level_of(server, disk->free_bytes);
	if (level > DISK_PLENTY &&
	    disk->has_reserve) { /* what it gives counts before anything is refused for good */
		give_reserve_back(disk);
		disk->free_bytes = read_free(server);
		disk->level = DISK_LOW;
		level = level_of(server, disk->free_bytes);
	}
	disk->level = level;
	if (level == DISK_PLENTY && !disk->has_reserve && disk->free_bytes >= leave_from(server, DISK_LOW))
		make_reserve(server);
	if (level != before)
		log_disk_level(server);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct server *server = userdata;

	disk_look(server);
	server->disk->watch(server);
	(void)sd_event_source_set_time_relative(source, TIMER_US);
	(void)sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	return 0;
}

enum status disk_start(struct server *server, disk_watch_fn *watch, struct error *err)
{
	struct disk *disk = server->disk;
	struct stat st;
	int r;

	disk->watch = watch;
	(void)str_format(disk->reserve, sizeof(disk->reserve), "%s/holdfast.reserve",
			 server->config.data_dir);
	disk->has_reserve =
		stat(disk->reserve, &st) == 0 && (uint64_t)st.st_size == server->config.disk_reserve;
	if (!disk->has_reserve)
		give_reserve_back(disk); /* of another size */
	disk_look(server);
	r = sd_event_add_time_relative(server->event, &disk->timer, CLOCK_MONOTONIC, TIMER_US, 0, on_timer,
				       server);
	return r < 0 ? error_set(err, STATUS_INTERNAL, r, "watch the disk") : STATUS_OK;
}

void disk_release(struct disk *disk)
{
	disk->timer = sd_event_source_disable_unref(disk->timer);
}

/* --- changes --- */

/* Does the object add something? Reports of nodes do not count: the number of nodes is bounded. */
static bool is_addition(struct server *server, const struct change_object *object)
{
	const struct object_type *type = object_type(object->kind);

	if (object->is_deletion || object->kind == OBJECT_NODE || object->kind == OBJECT_NODE_PLUGIN)
		return false;
	if (object->kind == OBJECT_RECORD &&
	    record_is_stored_only(object->key)) /* what a claim was moves there */
		return false;
	return !type->find(&server->state, object->value);
}

/* A change of only audit records reports a refusal or an operation that adds something. */
static bool adds(struct server *server, const struct change *change)
{
	for (size_t i = 0; i < change->n; i++)
		if (is_addition(server, &change->objects[i]))
			return true;
	return change->n == 0;
}

enum status disk_check(struct server *server, const struct change *change, struct error *err)
{
	char text[DISK_WARNING_SIZE];

	if (change->n == 0 && change->n_audit == 0)
		return STATUS_OK;
	if (clock_monotonic_us() - server->disk->looked_us >= LOOK_US)
		disk_look(server);
	if (server->disk->level == DISK_PLENTY || (server->disk->level == DISK_LOW && !adds(server, change)))
		return STATUS_OK;
	(void)disk_warning(server, text);
	return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOSPC, "%s", text);
}

bool disk_warning(const struct server *server, char ret[static DISK_WARNING_SIZE])
{
	const struct disk *disk = server->disk;

	if (disk->level == DISK_PLENTY)
		return false;
	(void)str_format(
		ret, DISK_WARNING_SIZE,
		"%.200s is on a disk that is full but for %" PRIu64 " MiB: %s, until there are %" PRIu64
		" MiB. Next: df -h %.200s, and remove files that are not needed",
		server->config.data_dir, disk->free_bytes / MIB,
		disk->level == DISK_LOW ? "nothing new is taken; reading and releases continue"
					: "nothing is stored; reading continues, nodes keep their reports",
		leave_from(server, DISK_LOW) / MIB, server->config.data_dir);
	return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "status/stale.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/tree.h"
#include "kernel/path_probe.h"
#include "log/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

struct mount {
	RB_ENTRY(mount) entry;
	char path[ALLOC_PATH_MAX + 1];
	enum path_state state;
	int64_t since_ms;
	uint64_t round; /* in which it was last looked at */
};

RB_HEAD(mounts, mount);

struct look {
	LIST_ENTRY(look) entry;
	struct stale *stale;
	struct path_probe *probe;
	char path[ALLOC_PATH_MAX + 1];
	char volume_id[VOLUME_ID_MAX + 1];
	char wire_volume[WIRE_VOLUME_SIZE];
	char alloc_id[UUID_TEXT_SIZE];
};

struct waiter {
	STAILQ_ENTRY(waiter) entry;
	stale_done_fn *done;
	void *userdata;
};

struct stale {
	struct path_probes *probes; /* of its own: what hangs here takes no thread from a fresh publish */
	struct mounts mounts;
	LIST_HEAD(, look) looks;
	STAILQ_HEAD(, waiter) waiters;
	uint64_t round;
};

DEFINE_CLEANUP(struct stale, stale_free)

static int compare(const struct mount *a, const struct mount *b)
{
	return strcmp(a->path, b->path);
}

TREE_GENERATE(mounts, mount, entry, compare)

static struct mount *find(const struct stale *stale, const char *path)
{
	struct mounts root = stale->mounts; /* a lookup changes nothing, the macro does not know */
	struct mount key = {.round = 0};

	if (str_copy(key.path, sizeof(key.path), path) < 0)
		return NULL;
	return RB_FIND(mounts, &root, &key);
}

static void forget(struct stale *stale, struct mount *mount)
{
	RB_REMOVE(mounts, &stale->mounts, mount);
	free(mount);
}

void stale_text(const struct stale *stale, const char *path, const char *alloc_id,
		char ret[static STALE_TEXT_SIZE])
{
	const struct mount *mount = find(stale, path);
	const char *why;

	ret[0] = '\0';
	if (!mount)
		return;
	why = mount->state == PATH_DISCONNECTED ? "the file server behind it has died"
	      : mount->state == PATH_STALE	? "its server no longer knows this directory"
						: "its file server does not answer; if it does not come back";
	(void)str_format(ret, STALE_TEXT_SIZE,
			 "%s: stop this allocation and all others of the volume on this node, see that the "
			 "server runs, and run them again; holdfast alloc stop %s",
			 why, alloc_id);
}

static bool is_stale(enum path_state state)
{
	return state == PATH_DISCONNECTED || state == PATH_STALE || state == PATH_SILENT;
}

static void note_stale(struct look *look, enum path_state state)
{
	const struct log_ctx ctx = {.volume = look->volume_id,
				    .wire_volume = look->wire_volume,
				    .alloc = look->alloc_id,
				    .op = "look",
				    .event = LOG_EVENT_MOUNT_STALE};
	struct mount *mount = find(look->stale, look->path);
	char text[STALE_TEXT_SIZE];

	if (mount && mount->state == state) {
		mount->round = look->stale->round;
		return;
	}
	if (!mount) {
		mount = calloc(1, sizeof(*mount));
		if (!mount)
			return; /* noted with the next look */
		memcpy(mount->path, look->path, sizeof(mount->path));
		mount->since_ms = clock_realtime_ms();
		RB_INSERT(mounts, &look->stale->mounts, mount);
	}
	mount->state = state;
	mount->round = look->stale->round;
	stale_text(look->stale, look->path, look->alloc_id, text);
	log_ctx(LOG_WARNING, &ctx, "stale mount at %s: %s", look->path, text);
}

static void note(struct look *look, const struct path_seen *seen)
{
	const struct log_ctx ctx = {.volume = look->volume_id,
				    .wire_volume = look->wire_volume,
				    .alloc = look->alloc_id,
				    .op = "look",
				    .event = LOG_EVENT_MOUNT_ANSWERS};
	struct mount *mount;

	if (is_stale(seen->state)) {
		note_stale(look, seen->state);
		return;
	}
	mount = find(look->stale, look->path);
	if (!mount)
		return;
	if (seen->state == PATH_FAILED) { /* nothing new is known */
		mount->round = look->stale->round;
		return;
	}
	if (seen->state == PATH_MOUNTED)
		log_ctx(LOG_NOTICE, &ctx, "the mount at %s answers again, after %" PRId64 " s", look->path,
			(clock_realtime_ms() - mount->since_ms) / 1000);
	forget(look->stale, mount);
}

/* Ends the round: mounts that were not looked at are no longer published. */
static void end_round(struct stale *stale)
{
	STAILQ_HEAD(, waiter) waiters = STAILQ_HEAD_INITIALIZER(waiters);
	struct mount *mount, *next;
	struct waiter *waiter;

	RB_FOREACH_SAFE (mount, mounts, &stale->mounts, next) {
		if (mount->round != stale->round)
			forget(stale, mount);
	}
	STAILQ_CONCAT(&waiters, &stale->waiters);
	while ((waiter = STAILQ_FIRST(&waiters))) {
		STAILQ_REMOVE_HEAD(&waiters, entry);
		waiter->done(waiter->userdata);
		free(waiter);
	}
}

static void on_looked(const struct path_seen *seen, void *userdata)
{
	struct look *look = userdata;
	struct stale *stale = look->stale;

	note(look, seen);
	LIST_REMOVE(look, entry);
	free(look);
	if (LIST_EMPTY(&stale->looks))
		end_round(stale);
}

static void look_at(struct stale *stale, const struct alloc_record *record, uint32_t i)
{
	struct look *look = calloc(1, sizeof(*look));

	if (!look)
		return;
	look->stale = stale;
	(void)str_copy(look->path, sizeof(look->path), record->alloc.published[i].path);
	(void)str_copy(look->volume_id, sizeof(look->volume_id), record->volumes[i].target.volume_id);
	(void)str_copy(look->wire_volume, sizeof(look->wire_volume), record->volumes[i].target.wire_volume);
	(void)str_copy(look->alloc_id, sizeof(look->alloc_id), record->alloc.id);
	if (path_probe_start(stale->probes, look->path, volume_target_group(&record->volumes[i].target),
			     STALE_LOOK_MS * USEC_PER_MSEC, on_looked, look, &look->probe,
			     NULL) != STATUS_OK) {
		free(look); /* too many: those that come first in order are looked at */
		return;
	}
	LIST_INSERT_HEAD(&stale->looks, look, entry);
}

/* Returns whether a server is behind the volume that may die; a disk or memory has no server. */
static bool has_server(const struct alloc_record *record, uint32_t i)
{
	enum source_class class = record->volumes[i].target.source.class;

	return i < record->alloc.n_published && record->volumes[i].state == VOLUME_PUBLISHED &&
	       !record->alloc.published[i].is_device && class != SOURCE_BLOCK && class != SOURCE_TMPFS;
}

static void begin_round(struct stale *stale, const struct allocs *allocs)
{
	const struct alloc_runner *runner = NULL;

	stale->round++;
	while ((runner = allocs_next(allocs, runner))) {
		const struct alloc_record *record = alloc_runner_record(runner);

		for (uint32_t i = 0; i < record->alloc.n_volumes; i++) {
			if (has_server(record, i))
				look_at(stale, record, i);
		}
	}
}

bool stale_look(struct stale *stale, const struct allocs *allocs, stale_done_fn *done, void *userdata)
{
	struct waiter *waiter;

	if (LIST_EMPTY(&stale->looks)) {
		begin_round(stale, allocs);
		if (LIST_EMPTY(&stale->looks)) {
			end_round(stale);
			return false;
		}
	}
	if (!done)
		return true;
	waiter = calloc(1, sizeof(*waiter));
	if (!waiter)
		return false;
	waiter->done = done;
	waiter->userdata = userdata;
	STAILQ_INSERT_TAIL(&stale->waiters, waiter, entry);
	return true;
}

enum status stale_new(sd_event *event, struct stale **ret, struct error *err)
{
	cleanup(stale_freep) struct stale *stale = calloc(1, sizeof(*stale));
	enum status status;

	if (!stale)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot watch mounts");
	RB_INIT(&stale->mounts);
	LIST_INIT(&stale->looks);
	STAILQ_INIT(&stale->waiters);
	status = path_probes_new(event, &stale->probes, err);
	if (status == STATUS_OK)
		*ret = TAKE_PTR(stale);
	return status;
}

void stale_free(struct stale *stale)
{
	struct mount *mount;
	struct look *look;

	if (!stale)
		return;
	path_probes_free(stale->probes);
	while ((look = LIST_FIRST(&stale->looks))) {
		LIST_REMOVE(look, entry);
		free(look);
	}
	end_round(stale);
	while ((mount = RB_MIN(mounts, &stale->mounts)))
		forget(stale, mount);
	free(stale);
}

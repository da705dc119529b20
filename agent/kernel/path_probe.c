/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/path_probe.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "model/alloc.h"
#include "rpc/thread.h"
#include "rpc/wakeup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/queue.h>

enum { STACK_SIZE = 128 * 1024 };

enum look_state {
	LOOK_RUNNING,
	LOOK_DONE,     /* by the thread: the loop frees it */
	LOOK_ORPHANED, /* by the loop, which has ended: the thread frees it */
};

/* Lives as long as it has probes that wait, or looks. */
struct group {
	TAILQ_ENTRY(group) entry;
	char name[PATH_PROBE_GROUP_SIZE];
	size_t n_looks;
	TAILQ_HEAD(, path_probe) waiting;
};

/* Shared by a thread and the loop; the last one frees it. */
struct look {
	LIST_ENTRY(look) entry;	  /* the loop's */
	struct group *group;	  /* the loop's */
	struct path_probe *probe; /* the loop's; NULL when no caller waits for it */
	atomic_int state;	  /* enum look_state */
	int wake_fd;		  /* the thread's own */
	char path[ALLOC_PATH_MAX + 1];
	struct path_seen seen;
};

struct path_probe {
	TAILQ_ENTRY(path_probe) entry; /* while it waits for a thread */
	struct group *group;	       /* the same; NULL: it does not wait */
	int refused;		       /* why the last try to begin failed, positive; 0: it did not */
	struct path_probes *probes;
	struct look *look; /* while a thread runs */
	path_probe_fn *done;
	void *userdata;
	sd_event_source *timer;
	char path[ALLOC_PATH_MAX + 1];
};

struct path_probes {
	sd_event *event; /* borrowed */
	int wake_fd;
	sd_event_source *wake;
	LIST_HEAD(, look) looks;
	size_t n_looks;
	TAILQ_HEAD(groups, group) groups; /* the one that comes next first */
	size_t n_waiting;
};

DEFINE_CLEANUP(struct path_probes, path_probes_free)

static struct group *group_get(struct path_probes *probes, const char *name)
{
	char cut[PATH_PROBE_GROUP_SIZE];
	struct group *group;

	str_copy_text(cut, sizeof(cut), name);
	TAILQ_FOREACH (group, &probes->groups, entry) {
		if (str_eq(group->name, cut))
			return group;
	}
	group = calloc(1, sizeof(*group));
	if (!group)
		return NULL;
	memcpy(group->name, cut, sizeof(cut));
	TAILQ_INIT(&group->waiting);
	TAILQ_INSERT_TAIL(&probes->groups, group, entry);
	return group;
}

static void group_put(struct path_probes *probes, struct group *group)
{
	if (group->n_looks > 0 || !TAILQ_EMPTY(&group->waiting))
		return;
	TAILQ_REMOVE(&probes->groups, group, entry);
	free(group);
}

static void *look_run(void *userdata)
{
	const uint64_t one = 1;
	struct look *look = userdata;
	cleanup_close int wake_fd = look->wake_fd;

	path_look(look->path, &look->seen);
	if (atomic_exchange(&look->state, LOOK_DONE) == LOOK_ORPHANED)
		free(look);
	else
		(void)!write(wake_fd, &one, sizeof(one)); /* fails only when it is readable already */
	return NULL;
}

static int look_start(struct path_probe *probe)
{
	struct path_probes *probes = probe->probes;
	struct look *look;
	pthread_t thread = 0;
	int r = -EMFILE;

	assert(probe->group);
	look = calloc(1, sizeof(*look));
	if (!look)
		return -ENOMEM;
	(void)str_copy(look->path, sizeof(look->path), probe->path);
	look->wake_fd = fcntl(probes->wake_fd, F_DUPFD_CLOEXEC, 3);
	if (look->wake_fd >= 0)
		r = thread_start(STACK_SIZE, look_run, look, &thread);
	if (r < 0) {
		close_fdp(&look->wake_fd);
		free(look);
		return r;
	}
	(void)pthread_detach(thread);
	look->probe = probe;
	look->group = probe->group;
	look->group->n_looks++;
	probe->look = look;
	LIST_INSERT_HEAD(&probes->looks, look, entry);
	probes->n_looks++;
	return 0;
}

static void wait_begin(struct path_probe *probe, struct group *group)
{
	TAILQ_INSERT_TAIL(&group->waiting, probe, entry);
	probe->probes->n_waiting++;
	probe->group = group;
}

static void wait_end(struct path_probe *probe)
{
	struct group *group = probe->group;

	if (!group)
		return;
	probe->group = NULL;
	probe->probes->n_waiting--;
	TAILQ_REMOVE(&group->waiting, probe, entry);
	group_put(probe->probes, group);
}

static void probe_free(struct path_probe *probe)
{
	if (probe->look)
		probe->look->probe = NULL;
	wait_end(probe);
	wakeup_disarm(&probe->timer);
	free(probe);
}

static void probe_finish(struct path_probe *probe, const struct path_seen *seen)
{
	path_probe_fn *done = probe->done;
	void *userdata = probe->userdata;

	probe_free(probe);
	done(seen, userdata);
}

/* One thread per path, so that a single dead server does not take them all. */
static bool is_looked_at(const struct path_probes *probes, const char *path)
{
	const struct look *look;

	LIST_FOREACH (look, &probes->looks, entry) {
		if (str_eq(look->path, path))
			return true;
	}
	return false;
}

static struct path_probe *next_of_group(const struct path_probes *probes, const struct group *group)
{
	struct path_probe *probe;

	if (group->n_looks >= PATH_PROBE_GROUP_MAX)
		return NULL;
	TAILQ_FOREACH (probe, &group->waiting, entry) {
		if (!is_looked_at(probes, probe->path))
			return probe;
	}
	return NULL;
}

/* Groups take turns. */
static struct path_probe *next_waiting(struct path_probes *probes)
{
	struct path_probe *probe;
	struct group *group;

	TAILQ_FOREACH (group, &probes->groups, entry) {
		probe = next_of_group(probes, group);
		if (!probe)
			continue;
		TAILQ_REMOVE(&probes->groups, group, entry);
		TAILQ_INSERT_TAIL(&probes->groups, group, entry);
		return probe;
	}
	return NULL;
}

static void path_probe_begin(struct path_probes *probes)
{
	struct path_probe *probe;

	while (probes->n_looks < PATH_PROBE_THREADS_MAX && (probe = next_waiting(probes))) {
		probe->refused = -look_start(probe);
		if (probe->refused != 0)
			return; /* tried again after the next one, or its deadline reports it */
		wait_end(probe);
	}
}

static struct look *take_done(struct path_probes *probes)
{
	struct look *look;

	LIST_FOREACH (look, &probes->looks, entry) {
		if (atomic_load(&look->state) == LOOK_DONE) {
			LIST_REMOVE(look, entry);
			probes->n_looks--;
			look->group->n_looks--;
			group_put(probes, look->group);
			return look;
		}
	}
	return NULL;
}

/* One at a time, its callback last: it may do anything but free the probes. */
static int on_wake(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct path_probes *probes = userdata;
	struct look *look;
	uint64_t count;

	(void)!read(fd, &count, sizeof(count));
	while ((look = take_done(probes))) {
		struct path_probe *probe = look->probe;
		struct path_seen seen = look->seen;

		free(look);
		if (probe) {
			probe->look = NULL;
			probe_finish(probe, &seen);
		}
	}
	path_probe_begin(probes);
	return 0;
}

static int on_deadline(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct path_probe *probe = userdata;
	struct path_seen seen = {.state = PATH_SILENT, .sys_errno = ETIMEDOUT};

	/* a path that no thread has looked at is not known to be silent */
	if (!is_looked_at(probe->probes, probe->path)) {
		seen.state = PATH_FAILED;
		seen.sys_errno = probe->refused ? probe->refused : EBUSY;
	}
	probe_finish(probe, &seen);
	return 0;
}

enum status path_probe_start(struct path_probes *probes, const char *path, const char *group,
			     uint64_t timeout_us, path_probe_fn *done, void *userdata,
			     struct path_probe **ret, struct error *err)
{
	struct path_probe *probe;
	struct group *its;
	enum status status;

	if (probes->n_waiting >= PATH_PROBES_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "cannot look at %s: %d looks wait for file systems that do not answer", path,
				 PATH_PROBES_MAX);
	probe = calloc(1, sizeof(*probe));
	if (!probe)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot look at %s", path);
	if (str_copy(probe->path, sizeof(probe->path), path) < 0) {
		free(probe);
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "the path %s is too long", path);
	}
	probe->probes = probes;
	probe->done = done;
	probe->userdata = userdata;
	its = group_get(probes, group);
	status = its ? wakeup_arm(probes->event, &probe->timer, timeout_us, on_deadline, probe, err)
		     : error_no_memory(err, "a look at a path");
	if (status != STATUS_OK) {
		if (its)
			group_put(probes, its);
		free(probe);
		return status;
	}
	wait_begin(probe, its);
	path_probe_begin(probes);
	*ret = probe;
	return STATUS_OK;
}

void path_probe_cancel(struct path_probe *probe)
{
	if (probe)
		probe_free(probe);
}

size_t path_probes_running(const struct path_probes *probes)
{
	return probes->n_looks;
}

enum status path_probes_new(sd_event *event, struct path_probes **ret, struct error *err)
{
	cleanup(path_probes_freep) struct path_probes *probes = calloc(1, sizeof(*probes));
	int r;

	if (!probes)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot watch paths");
	probes->event = event;
	LIST_INIT(&probes->looks);
	TAILQ_INIT(&probes->groups);
	probes->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (probes->wake_fd < 0)
		return error_set(err, STATUS_INTERNAL, errno, "cannot watch paths");
	r = sd_event_add_io(event, &probes->wake, probes->wake_fd, EPOLLIN, on_wake, probes);
	if (r < 0)
		return error_set(err, STATUS_INTERNAL, r, "cannot watch paths");
	*ret = TAKE_PTR(probes);
	return STATUS_OK;
}

void path_probes_free(struct path_probes *probes)
{
	struct group *group;
	struct look *look;

	if (!probes)
		return;
	while ((look = LIST_FIRST(&probes->looks))) {
		LIST_REMOVE(look, entry);
		look->group->n_looks--;
		if (look->probe) {
			wakeup_disarm(&look->probe->timer);
			free(look->probe);
		}
		if (atomic_exchange(&look->state, LOOK_ORPHANED) == LOOK_DONE)
			free(look);
	}
	while ((group = TAILQ_FIRST(&probes->groups))) {
		if (TAILQ_EMPTY(&group->waiting))
			group_put(probes, group);
		else
			probe_free(TAILQ_FIRST(&group->waiting));
	}
	sd_event_source_disable_unref(probes->wake);
	close_fdp(&probes->wake_fd);
	free(probes);
}

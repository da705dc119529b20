/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Looks at paths from an event loop that no file system can stop: each runs on a thread of its own, with a
 * deadline. A thread whose file system does not answer cannot be ended: it is left to itself and keeps its
 * place among the few that there are until the kernel releases it. One path has at most one thread, and the
 * paths of one group, as the mounts of a plugin or an NFS server, have a share of them. */

#include "base/error.h"
#include "kernel/path_look.h"

#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

enum {
	PATH_PROBE_THREADS_MAX = 8,
	PATH_PROBE_GROUP_MAX = 2, /* threads of one group */
	PATH_PROBE_GROUP_SIZE = 64,
	PATH_PROBES_MAX = 8192, /* that wait for a thread */
};

struct path_probes;
struct path_probe;

/** @seen PATH_SILENT when the deadline came first; PATH_FAILED with EBUSY when no thread was free until then,
 * because all, or those of its group, wait for other file systems. The probe is gone. */
typedef void path_probe_fn(const struct path_seen *seen, void *userdata);

/** @event borrowed. */
enum status path_probes_new(sd_event *event, struct path_probes **ret, struct error *err);

/** No callbacks. NULL is allowed. */
void path_probes_free(struct path_probes *probes);

/** Look at @path of @group, both copied; a longer name of a group counts by its beginning. @done runs once,
 * from the event loop.
 * @timeout_us relative, monotonic, from now on
 * @ret for path_probe_cancel(), until @done ran
 * STATUS_RESOURCE_EXHAUSTED above the limit. */
enum status path_probe_start(struct path_probes *probes, const char *path, const char *group,
			     uint64_t timeout_us, path_probe_fn *done, void *userdata,
			     struct path_probe **ret, struct error *err);

/** No callback. NULL is allowed. */
void path_probe_cancel(struct path_probe *probe);

/** Threads that wait for a file system at this moment, of at most PATH_PROBE_THREADS_MAX. */
size_t path_probes_running(const struct path_probes *probes);

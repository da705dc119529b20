/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* How full the published volumes are: measured at a slow interval, reported to the server, shown in the
 * status. Display only.
 *
 * Each published volume is measured once, however many allocations use it: by statfs, and for a plugin that
 * announces GET_VOLUME_STATS by NodeGetVolumeStats, whose figures count then. One such call is in flight for
 * each plugin, and it begins only while its volume has no operation. A file server that does not answer keeps
 * a thread of path_probe.h, never the event loop, and its volume is unknown.
 *
 * A file system to which an error stopped writes is seen in the mount table within VOLUME_USAGE_TICK_MS, or
 * several of them with more than VOLUME_USAGE_MOUNTS volumes; before Linux 6.8 with the next measurement.
 * Nothing runs while nothing is published. */

#include "alloc/allocs.h"
#include "base/error.h"
#include "helper/client.h"
#include "kernel/mount_table.h"
#include "plugins/plugins.h"
#include "volume/manager.h"

#include <holdfast/v1/nodes.pb-c.h>
#include <stdbool.h>
#include <systemd/sd-event.h>

enum {
	VOLUME_USAGE_TICK_MS = 5000,
	VOLUME_USAGE_MOUNTS = 512, /* looked at in one tick */
	VOLUME_USAGE_LOOK_MS = 10000,
	VOLUME_USAGE_ASK_MS = 10000, /* of NodeGetVolumeStats */
	VOLUME_USAGE_PART = 256,     /* volumes of one report */
	VOLUME_USAGE_DEFAULT_MS = 60000,
};

struct volume_usages;

struct volume_usages_env {
	sd_event *event;
	const struct allocs *allocs;
	const struct plugins *plugins;
	const struct volume_manager *volumes;
	const struct helper_client *helper;
	struct mount_table **mounts; /* of the publish tree; kept by the caller, refreshed here */
	uint64_t interval_us;	     /* 0: off */
	/* False: it was not sent, and is sent again in the next session. */
	bool (*send)(const Holdfast__V1__VolumeUsageReport *report, void *userdata);
	void *userdata;
};

/** Borrows everything that @env points to. @ret owned by the caller, volume_usages_free() */
enum status volume_usages_new(const struct volume_usages_env *env, struct volume_usages **ret,
			      struct error *err);

/** No callbacks. Before the plugins are freed. NULL is allowed. */
void volume_usages_free(struct volume_usages *usages);

/** A volume may have been published. */
void volume_usages_wake(struct volume_usages *usages);

/** There is a new session: everything known is sent. */
void volume_usages_send(struct volume_usages *usages);

/** The volume as measured last; NULL: not yet. Borrowed until the event loop runs again. */
const Holdfast__V1__VolumeUsage *volume_usages_find(const struct volume_usages *usages,
						    const char *wire_volume);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Watches the folder of the plugins' sockets, <plugin_dir>/<plugin id>/<name>.sock; or that of the drivers'.
 *
 * A notification only shows where to look again: reports always contain the state that exists there, so that
 * a lost or doubled notification changes nothing. A process that may bind sockets there may write names of
 * every kind: each limit costs one log line, and names above it are ignored. */

#include "base/error.h"
#include "service/client.h"
#include "service/registry.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

enum {
	SERVICE_DIR_FOLDERS_MAX = 64,  /* that are watched; there may be more than there are ids */
	SERVICE_DIR_ENTRIES_MAX = 256, /* that are looked at in one folder */
	SERVICE_DIR_SETTLE_MS = 20,    /* events within this make one look */
	SERVICE_DIR_RETRY_MS = 1000,   /* to open a folder that is not there yet */
	SERVICE_DIR_SWEEP_MS = 30000,  /* to look at everything, even without a notification */
};

struct service_dir;

struct service_dir_events {
	/* @sockets of a plugin, oldest first; @n 0: its folder is empty */
	void (*on_folder)(const char *plugin_id, const struct service_socket *sockets, size_t n,
			  void *userdata);
	/* the folder of a plugin is gone, or can no longer be read */
	void (*on_gone)(const char *plugin_id, void *userdata);
	/* the folder of folders was looked at, for the first time or again */
	void (*on_scanned)(void *userdata);
};

/** @kind, @path, @events borrowed. Nothing happens before service_dir_start(). @ret owned by the caller. */
enum status service_dir_new(sd_event *event, const struct service_kind *kind, const char *path,
			    const struct service_dir_events *events, void *userdata, struct service_dir **ret,
			    struct error *err);

/** Was it looked at, and cannot be watched? */
bool service_dir_is_missing(const struct service_dir *dir);

/** Look and watch, from the event loop on. */
enum status service_dir_start(struct service_dir *dir, struct error *err);

/** No callbacks. NULL is allowed. */
void service_dir_free(struct service_dir *dir);

/** Is it known what exists there? Else it is missing, or cannot be read. */
bool service_dir_is_open(const struct service_dir *dir);

/** Report the plugin's folder again, from the event loop, if it has one. */
void service_dir_look(struct service_dir *dir, const char *plugin_id);

/** Does the plugin have a folder? */
bool service_dir_has(const struct service_dir *dir, const char *plugin_id);

/* Reads the folders of plugins or drivers, within limits. Names come from any process that may write there:
 * an ignored name costs one log line, until another one is ignored. */

enum scan_fault {
	SCAN_BAD_NAME,	 /* a folder whose name is no id, or a socket whose path is too long */
	SCAN_TOO_MANY,	 /* entries, folders or sockets */
	SCAN_UNREADABLE, /* refused by the system */
	SCAN_FAULT_N,
};

/* The faults that were reported already. */
struct scan_reported {
	const struct service_kind *kind; /* in log lines */
	uint64_t hashes[SCAN_FAULT_N];	 /* of the name in the last report of the fault */
};

/** Reads the sockets in @path/@id called *.sock, oldest first; of more than REGISTRY_MAX the newest.
 * Returns 0 or a negative errno: -ENOENT, -ENOTDIR, -ELOOP when it is no folder (or has ceased to be one). */
int scan_sockets(const char *path, const char *id, struct scan_reported *reported,
		 struct service_socket ret[static REGISTRY_MAX], size_t *ret_n);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The folder of the plugins' sockets, <plugin_dir>/<plugin id>/<name>.sock, watched.
 *
 * Whatever happens in it only says where to look again: what is reported is always what stands there, so that
 * a lost or doubled notification changes nothing. Who may bind sockets there may write names of every kind:
 * each limit costs one log line and what is above it is passed over. */

#include "base/error.h"
#include "plugins/registry.h"

#include <stdbool.h>
#include <stddef.h>
#include <systemd/sd-event.h>

enum {
	PLUGIN_DIR_FOLDERS_MAX = 64,  /* that are watched; there may be more than there are ids */
	PLUGIN_DIR_ENTRIES_MAX = 256, /* that are looked at in one folder */
	PLUGIN_DIR_SETTLE_MS = 20,    /* events within this make one look */
	PLUGIN_DIR_RETRY_MS = 1000,   /* to open a folder that is not there yet */
	PLUGIN_DIR_SWEEP_MS = 30000,  /* to look at everything, whatever was told */
};

struct plugin_dir;

struct plugin_dir_events {
	/* @sockets of a plugin, oldest first; @n 0: its folder is empty */
	void (*on_folder)(const char *plugin_id, const struct plugin_socket *sockets, size_t n,
			  void *userdata);
	/* the folder of a plugin is gone, or cannot be read any more */
	void (*on_gone)(const char *plugin_id, void *userdata);
	/* the folder of folders was looked at, for the first time or again */
	void (*on_scanned)(void *userdata);
};

/** @path, @events borrowed. Nothing happens before plugin_dir_start(). @ret owned by the caller. */
enum status plugin_dir_new(sd_event *event, const char *path, const struct plugin_dir_events *events,
			   void *userdata, struct plugin_dir **ret, struct error *err);

/** Was it looked at, and cannot be watched? */
bool plugin_dir_is_missing(const struct plugin_dir *dir);

/** Look and watch, from the event loop on. */
enum status plugin_dir_start(struct plugin_dir *dir, struct error *err);

/** No callbacks. NULL is allowed. */
void plugin_dir_free(struct plugin_dir *dir);

/** Is it known what stands there? Else it is missing, or cannot be read. */
bool plugin_dir_is_open(const struct plugin_dir *dir);

/** Report the plugin's folder again, from the event loop, if it has one. */
void plugin_dir_look(struct plugin_dir *dir, const char *plugin_id);

/** Does the plugin have a folder? */
bool plugin_dir_has(const struct plugin_dir *dir, const char *plugin_id);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The folder of the plugins' sockets, <plugin_dir>/<plugin id>/<name>.sock, watched; or that of the drivers'.
 *
 * Whatever happens in it only says where to look again: what is reported is always what exists there, so that
 * a lost or doubled notification changes nothing. Who may bind sockets there may write names of every kind:
 * each limit costs one log line and what is above it is passed over. */

#include "base/error.h"
#include "plugins/registry.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
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

/* What the folders are of, in log lines. */
enum scan_noun {
	SCAN_PLUGIN,
	SCAN_DRIVER,
	SCAN_NOUN_N,
};

/** @path, @events borrowed. Nothing happens before plugin_dir_start(). @ret owned by the caller. */
enum status plugin_dir_new(sd_event *event, enum scan_noun noun, const char *path,
			   const struct plugin_dir_events *events, void *userdata, struct plugin_dir **ret,
			   struct error *err);

/** Was it looked at, and cannot be watched? */
bool plugin_dir_is_missing(const struct plugin_dir *dir);

/** Look and watch, from the event loop on. */
enum status plugin_dir_start(struct plugin_dir *dir, struct error *err);

/** No callbacks. NULL is allowed. */
void plugin_dir_free(struct plugin_dir *dir);

/** Is it known what exists there? Else it is missing, or cannot be read. */
bool plugin_dir_is_open(const struct plugin_dir *dir);

/** Report the plugin's folder again, from the event loop, if it has one. */
void plugin_dir_look(struct plugin_dir *dir, const char *plugin_id);

/** Does the plugin have a folder? */
bool plugin_dir_has(const struct plugin_dir *dir, const char *plugin_id);

/* Reads the folders of plugins or drivers, within limits. Names come from any process that may write there:
 * what is not taken is told in one log line, until something else is not taken. */

enum scan_fault {
	SCAN_BAD_NAME,	 /* a folder whose name is no id, or a socket whose path is too long */
	SCAN_TOO_MANY,	 /* entries, folders or sockets */
	SCAN_UNREADABLE, /* refused by the system */
	SCAN_FAULT_N,
};

/* What was told already. */
struct scan_reported {
	enum scan_noun noun;	       /* of what */
	uint64_t hashes[SCAN_FAULT_N]; /* of the name that the fault was told of */
};

/** The sockets in @path/@id called *.sock, oldest first; of more than REGISTRY_MAX the newest.
 * Returns 0 or a negative errno: -ENOENT, -ENOTDIR, -ELOOP when it is no folder (any more). */
int scan_sockets(const char *path, const char *id, struct scan_reported *reported,
		 struct plugin_socket ret[static REGISTRY_MAX], size_t *ret_n);

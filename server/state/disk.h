/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The disk of the store. A commit that fails ends the server, so the disk is watched and a change that would
 * not fit is refused before it reaches memory.
 *
 * A file in the store's folder holds a reserve. When the remaining free space is less than the reserve:
 * 1. The reserve is freed for the file system and additions are refused: volumes, allocations, claims,
 *    tokens. Existing objects still change and end, so volumes are released and garbage is collected.
 * 2. When half of the reserve is used up, nothing is stored: nodes keep their receipts and repeat them.
 *
 * Reads continue in any case. The server leaves either state by itself. */

#include "base/error.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

struct change;
struct server;

enum disk_level {
	DISK_PLENTY,
	DISK_LOW,  /* nothing new is taken */
	DISK_FULL, /* nothing is stored */
	DISK_LEVEL_N,
};

enum { DISK_WARNING_SIZE = 512 };

/* Runs once a second, as often as the disk is checked. */
typedef void disk_watch_fn(struct server *server);

struct disk {
	char reserve[PATH_MAX];
	enum disk_level level;
	bool has_reserve;
	bool was_refused;	/* the reserve, by the file system: logged once */
	uint64_t free_bytes;	/* for this user, without the reserve; UINT64_MAX: not known */
	uint64_t looked_us;	/* monotonic */
	sd_event_source *timer; /* owned */
	disk_watch_fn *watch;
};

/** Looks, and makes or frees the reserve; @watch follows each look from then on. Before the
 * store is opened. */
enum status disk_start(struct server *server, disk_watch_fn *watch, struct error *err);

void disk_release(struct disk *disk);

/** May @change be submitted? STATUS_RESOURCE_EXHAUSTED names the full folder and the remedy. Makes a system
 * call once in a while. */
enum status disk_check(struct server *server, const struct change *change, struct error *err);

/** Is there something to warn of? */
bool disk_warning(const struct server *server, char ret[static DISK_WARNING_SIZE]);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The disk of the store, watched before it is full: a commit that fails ends the server, so that what would
 * not fit is refused before it is taken into memory.
 *
 * A file beside the store holds a reserve. When less than that is free besides, it is freed for the file
 * system and nothing new is taken: no volume, allocation, claim, token; what exists still changes and ends,
 * so that volumes are released and garbage is collected. When half of it is used up, nothing is stored: nodes
 * keep their receipts and say them again. Reading continues in any case. The server leaves either by itself.
 */

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

/* What else is looked after as often as the disk, once a second. */
typedef void disk_watch_fn(struct server *server);

struct disk {
	char reserve[PATH_MAX];
	enum disk_level level;
	bool has_reserve;
	bool was_refused;	/* the reserve, by the file system: said once */
	uint64_t free_bytes;	/* for this user, without the reserve; UINT64_MAX: not known */
	uint64_t looked_us;	/* monotonic */
	sd_event_source *timer; /* owned */
	disk_watch_fn *watch;
};

/** Look, and make or free the reserve; @watch follows each look from then on. Before the
 * store is opened. */
enum status disk_start(struct server *server, disk_watch_fn *watch, struct error *err);

void disk_release(struct disk *disk);

/** May @change be submitted? STATUS_RESOURCE_EXHAUSTED says which folder is full and what to do. Costs a call
 * of the kernel once in a while. */
enum status disk_check(struct server *server, const struct change *change, struct error *err);

/** Is there something to warn of? */
bool disk_warning(const struct server *server, char ret[static DISK_WARNING_SIZE]);

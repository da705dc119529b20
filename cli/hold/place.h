/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The files of `holdfast volume hold NAME` on this machine: the note of its allocation, in the unit's state
 * folder, and in its runtime folder the link to the published volume, which `holdfast volume link` reads.
 * Services get another link: link.h. */

#include "base/error.h"
#include "base/uuid.h"

#include <limits.h>
#include <stdbool.h>

enum { HOLD_NAME_MAX = 64 };

struct hold_place {
	char note[PATH_MAX];
	char link[PATH_MAX]; /* there while the volume is held: it also survives the process, not the unit */
};

/* Which allocation is ours. Written before the server is asked to run it, so that no second one is ever made
 * because an answer, or the process that waited for it, was lost. */
struct hold_note {
	char alloc_id[UUID_SIZE]; /* "": no allocation */
	bool is_ending; /* it was ordered to stop, or was about to be; false also if the disk was full then */
};

/** @state_dir, @runtime_dir absolute */
enum status hold_place_init(struct hold_place *place, const char *state_dir, const char *runtime_dir,
			    struct error *err);

/** No note is success with an empty id; one that cannot be understood is STATUS_FAILED_PRECONDITION. */
enum status hold_note_read(const struct hold_place *place, struct hold_note *ret, struct error *err);

/** Durable when this returns. */
enum status hold_note_write(const struct hold_place *place, const struct hold_note *note, struct error *err);
enum status hold_note_remove(const struct hold_place *place, struct error *err);

/** Makes the link lead to @path, and replaces an existing link in one step. */
enum status hold_link_make(const struct hold_place *place, const char *path, struct error *err);

/** Returns the link's target. False without a link. */
bool hold_link_read(const struct hold_place *place, char ret[static PATH_MAX]);

/** Removes the link, so that no process begins to use the volume. Without a link this does nothing. */
void hold_link_remove(const struct hold_place *place);

/** Returns whether the kernel reports that nothing is mounted at @path, or that nothing exists
 * there. False if the path cannot be looked at. Never waits for the file system. */
bool hold_is_gone(const char *path);

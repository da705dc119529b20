/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The disk of the journal: looked at each second, so that the agent learns of a full one before a write
 * fails.
 *
 * While the disk has less room than the reserve, the agent takes no new allocation; what runs ends and is
 * released. The journal's log has the size of the reserve allocated, so that a program that goes on to fill
 * the disk cannot stop releases. Files in the journal's folder hold the reserve once more: the agent frees
 * them when a write fails, as after a start with a new log, or with a quota, which shows only in such a
 * write. When there is room again, the agent makes them again, and takes allocations. */

#include "base/error.h"
#include "model/node.h"

#include <systemd/sd-event.h>

struct journal_disk;

/** The trouble of the disk has changed. */
typedef void journal_disk_fn(void *userdata);

/** Looks, and makes the reserve.
 * @event  borrowed
 * @folder of the journal, exists
 * @ret    owned by the caller, journal_disk_free() */
enum status journal_disk_new(sd_event *event, const char *folder, uint64_t reserve, journal_disk_fn *changed,
			     void *userdata, struct journal_disk **ret, struct error *err);
void journal_disk_free(struct journal_disk *disk);

enum node_disk journal_disk_trouble(const struct journal_disk *disk);

/** The journal could not be written or opened. Finds out whether the disk is the reason, and frees the
 * reserve. Returns false if the disk takes writes. */
bool journal_disk_is_reason(struct journal_disk *disk);

/** Allocate the size of the reserve for the journal's log, an open file of the store. Best effort. */
void journal_disk_hold(const struct journal_disk *disk, const char *log);

/** Can something be written now? */
bool journal_disk_takes_writes(const struct journal_disk *disk);

/** For people, with the next command. Returns false if there is room. */
bool journal_disk_warning(const struct journal_disk *disk, char *dst, size_t size);

/** Why no allocation is taken, STATUS_RESOURCE_EXHAUSTED; STATUS_OK if there is room. @disk may be NULL */
enum status journal_disk_check(const struct journal_disk *disk, struct error *err);

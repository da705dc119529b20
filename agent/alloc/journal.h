/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Keeps on disk the state that the agent needs after a restart: allocations, receipts and its plugins.
 *
 * Writes are answered in their order, once the kernel has them: they outlive the agent. They do not wait for
 * the disk, because a crash of the machine ends the boot, and the journal describes only this boot. While the
 * disk is full or read-only, writes wait for room and are written in their order. After a write that fails
 * for another reason the journal is broken and the agent must end: its memory may be ahead of the disk. */

#include "alloc/journal_disk.h"
#include "alloc/receipts.h"
#include "alloc/record.h"
#include "base/error.h"
#include "model/node.h"

#include <holdfast/v1/types.pb-c.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <systemd/sd-event.h>

struct journal;

struct journal_options {
	const char *data_dir;
	const char *cluster;
	const char *node_id;
	struct journal_disk *disk; /* borrowed; NULL: every write that fails breaks the journal */
};

/** Open or create `<data_dir>/agent.db`; a journal of another node or cluster is
 * STATUS_FAILED_PRECONDITION. @ret owned by the caller, journal_close() */
enum status journal_open(sd_event *event, const struct journal_options *options, struct journal **ret,
			 struct error *err);

/** How many writes wait for room on the disk. */
size_t journal_waiting(const struct journal *journal);

/** Returns the highest mark of the server's history that this node received; NULL: no mark yet. Borrowed. */
const Holdfast__V1__Mark *journal_mark(const struct journal *journal);

/** Keep @mark, which may be NULL, if it is higher. It becomes durable with the next write, as the one that a
 * grant has before its mount. Returns whether there is something to write. */
bool journal_note_mark(struct journal *journal, const Holdfast__V1__Mark *mark);

/** Waits for the pending writes, whose callbacks do not run. NULL is allowed. */
void journal_close(struct journal *journal);

/* Keeps the device of a volume that is released at the server's order: after a restart only this note shows
 * that a copy of the mount lives. */
struct release_note {
	LIST_ENTRY(release_note) entry; /* its owner's */
	char claim_id[UUID_TEXT_SIZE];	/* names it in the journal; the server may have changed it since */
	char boot_id[UUID_TEXT_SIZE];
	uint64_t generation;
	/* only alloc_id, wire_volume, the class of its source and volume_target_keep_device(); device 0:0:
	 * not known */
	struct volume_target target;
};

struct journal_reader {
	/* @record handed over, free() */
	enum status (*on_alloc)(struct alloc_record *record, void *userdata, struct error *err);
	enum status (*on_receipt)(const struct receipt *receipt, void *userdata, struct error *err);
	enum status (*on_plugin)(const struct node_plugin *plugin, void *userdata, struct error *err);
	enum status (*on_note)(const struct release_note *note, void *userdata, struct error *err);
};

/** Read what there are functions for, at start-up: blocks. STATUS_DATA_LOSS for a damaged record. */
enum status journal_read(struct journal *journal, const struct journal_reader *reader, void *userdata,
			 struct error *err);

/* One transaction; any part may be absent. */
struct journal_write {
	struct alloc_record *alloc;	    /* to be stored */
	const char *forget_alloc;	    /* id */
	const struct receipt *receipt;	    /* to be stored */
	const struct receipt *drop_receipt; /* acknowledged */
	const struct node_plugin *plugin;   /* facts to be stored */
	const char *forget_plugin;	    /* id */
	const struct release_note *note;    /* to be stored */
	const char *forget_note;	    /* id of its claim */
};

/** @err NULL: written. */
typedef void journal_done_fn(const struct error *err, void *userdata);

/** @done may be NULL; it never runs inside this call. */
enum status journal_write(struct journal *journal, const struct journal_write *write, journal_done_fn *done,
			  void *userdata, struct error *err);

/** Have all that was written on the disk before any later write is answered. Does not wait for it. */
enum status journal_sync(struct journal *journal, struct error *err);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The agent's record of one allocation: the durable state from which every next step follows. */

#include "base/cleanup.h"
#include "base/error.h"
#include "base/id.h"
#include "model/alloc.h"
#include "model/claim.h"
#include "model/restart.h"
#include "unit/task_view.h"
#include "volume/manager.h"

#include <order.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* new -> claiming -> mounting -> running -> stopping -> stopped */
enum alloc_phase {
	ALLOC_NEW,
	ALLOC_CLAIMING,
	ALLOC_MOUNTING,
	ALLOC_RUNNING,
	ALLOC_STOPPING,
	ALLOC_STOPPED,
	ALLOC_PHASE_N,
};

enum volume_record_state {
	VOLUME_NONE,
	VOLUME_CLAIMED,	  /* granted; the kernel knows whether it is staged or published */
	VOLUME_PUBLISHED, /* staged, published, verified */
	VOLUME_RELEASED,  /* nothing is left, and a receipt confirms it */
	VOLUME_RECORD_STATE_N,
};

struct volume_record {
	enum volume_record_state state;
	char claim_id[UUID_TEXT_SIZE];
	uint64_t generation;
	enum claim_mode mode;
	struct volume_target target; /* complete from VOLUME_CLAIMED on */
	/* Only for this run of the agent: */
	bool is_granted_now; /* the server confirmed the claim; one known only from a journal is requested
			      * again */
	bool is_renewed;     /* a second ticket was asked for after the helper had refused an expired one */
};

enum task_record_state {
	TASK_RECORD_NONE,
	TASK_RECORD_STARTING, /* it is going to be started, or was */
	TASK_RECORD_RUNNING,
	TASK_RECORD_ENDED,   /* nothing of it is left */
	TASK_RECORD_EXITED,  /* of a task driver, which has something of it still */
	TASK_RECORD_BACKOFF, /* the same; it failed and is going to be restarted */
	TASK_RECORD_STATE_N,
};

/* The unit of an allocation that has one. */
struct task_record {
	enum task_record_state state;
	char invocation[TASK_INVOCATION_SIZE]; /* starting: of before; running: that runs */
};

/* A task of a task driver. */
struct driver_task_record {
	enum task_record_state state;
	struct message_list *handle; /* of one that was started: one TaskHandle */
	struct message_list *start;  /* of one that may be restarted: one StartTaskRequest, its order */
	struct restart_count count;
	int64_t restart_ms; /* of TASK_RECORD_BACKOFF: when */
};

/* The isolated network of the tasks of an allocation that has one. */
struct network_record {
	enum task_record_state state;  /* running: it was made */
	char driver[ORDER_LABEL_SIZE]; /* that makes it */
	struct message_list *spec;     /* of one that was made: one NetworkSpec */
	/* Only for this run of the agent: */
	bool is_checked; /* its driver confirmed that it is right */
};

/* tasks[i] belongs to the i-th of alloc.tasks; what people see of it is in alloc.task_status.
 * volumes[i] belongs to alloc.volumes[i]; i is the slot. alloc.published[i] is set while volumes up to i are
 * published; there is room for all of them. */
struct alloc_record {
	struct alloc alloc; /* not to be released: what it points to is the record's */
	char description[ALLOC_DESCRIPTION_MAX + 1]; /* of alloc */
	char unit[ID_UNIT_MAX + 1];		     /* likewise */
	struct task_record task;		     /* of the unit */
	struct driver_task_record tasks[ALLOC_TASKS_MAX];
	struct network_record network;
	enum alloc_phase phase;
	enum client_status final_status; /* once stopping */
	char boot_id[UUID_TEXT_SIZE];	 /* in which it was accepted */
	struct volume_record volumes[];	 /* alloc.n_volumes; behind them are the lists of alloc */
};

/** A new record for what the server sent; STATUS_INVALID_ARGUMENT when it cannot be run here.
 * @ret owned by the caller, free() */
enum status alloc_record_new(const struct alloc *alloc, const char *boot_id, struct alloc_record **ret,
			     struct error *err);

/** As bytes for the journal. @ret owned by the caller, free() */
enum status alloc_record_pack(struct alloc_record *record, uint8_t **ret, size_t *ret_len, struct error *err);

/** STATUS_DATA_LOSS for what this agent cannot have written. @ret owned by the caller, free() */
enum status alloc_record_unpack(const void *bytes, size_t n, struct alloc_record **ret, struct error *err);

/** Frees a record and wipes the parts of its volumes that are in memory only. NULL is allowed. A record
 * without tasks that never was granted a csi volume may also be freed by free(). */
void alloc_record_free(struct alloc_record *record);
DEFINE_CLEANUP(struct alloc_record, alloc_record_free)

/** Has the volume something on this node, or may it have? */
bool volume_record_is_live(const struct volume_record *volume);

/** Is it live by the grant of @claim? The server may have that under another id: another node had its own. */
bool volume_record_is_held_by(const struct volume_record *volume, const struct claim *claim);

/** Has the unit a process of this allocation, or may it have one? */
bool task_record_is_live(const struct task_record *task);

/** Has the driver something of the task, or may it have? */
bool driver_task_record_is_live(const struct driver_task_record *task);

/** Has the task ended, and is not going to be restarted? */
bool driver_task_record_is_over(const struct driver_task_record *task);

/** Has the driver something of the network, or may it have? */
bool network_record_is_live(const struct network_record *network);

/** Has it a unit or a task that is live? */
bool alloc_record_has_work(const struct alloc_record *record);

/** "new", "claiming", ... */
const char *alloc_phase_name(enum alloc_phase phase);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* systemd's view of a unit, as far as an allocation needs it: the answer to
 * org.freedesktop.DBus.Properties.GetAll of org.freedesktop.systemd1(5). */

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-bus.h>

enum {
	TASK_WORD_SIZE = 32,	   /* of systemd's name for a state or result */
	TASK_INVOCATION_SIZE = 33, /* 128 bits as hexadecimal digits */
};

enum task_active {
	TASK_ACTIVE_UNKNOWN, /* a state of a later systemd */
	TASK_ACTIVE_INACTIVE,
	TASK_ACTIVE_FAILED,
	TASK_ACTIVE_ACTIVATING,
	TASK_ACTIVE_RESTARTING, /* activating, but Restart= will begin again by itself */
	TASK_ACTIVE_ACTIVE,	/* reloading, too */
	TASK_ACTIVE_DEACTIVATING,
	TASK_ACTIVE_N,
};

struct task_view {
	enum task_active active;
	bool is_loaded;			       /* there is such a unit, and it can be started */
	bool has_job;			       /* something was asked of it and has not been done yet */
	uint64_t stop_timeout_us;	       /* UINT64_MAX: no limit */
	int32_t exit_status;		       /* of its main process */
	char load[TASK_WORD_SIZE];	       /* "loaded", "not-found", "masked", ... */
	char state[TASK_WORD_SIZE];	       /* "active", ... */
	char sub[TASK_WORD_SIZE];	       /* "running", ... */
	char result[TASK_WORD_SIZE];	       /* "success", "exit-code", "oom-kill", ... */
	char invocation[TASK_INVOCATION_SIZE]; /* empty: no invocation, or forgotten */
};

/** Read the answer to GetAll; properties that are not known are skipped.
 * STATUS_INTERNAL when it is no such answer or lacks ActiveState. @ret untouched on failure */
enum status task_view_read(sd_bus_message *message, struct task_view *ret, struct error *err);

/** Reads the invocation in a signal PropertiesChanged; empty if it has no invocation. The signal outlives
 * systemd's record of a unit that has ended. */
void task_view_read_invocation(sd_bus_message *message, char ret[static TASK_INVOCATION_SIZE]);

/** Can it have no process: inactive or failed? */
bool task_view_is_down(const struct task_view *view);

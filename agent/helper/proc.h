/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One instance of the mount helper: its process, its socket, and the reason why it ended.
 *
 * In launch mode setuid it is a child of ours; in launch mode socket it is started by the service manager
 * for our connection, and its end is the end of the connection. It cannot be killed by us: it is another
 * user's process. Ending the socket is the only way to end it; one that hangs in the kernel stays until the
 * kernel releases it. */

#include "mounthelper_wire.h"

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

enum {
	HELPER_STDERR_MAX = 768,     /* kept of its stderr; the rest is read and dropped */
	HELPER_EXIT_GRACE_MS = 1000, /* from the end of the socket to the end of the process, and between
				       looks at one that still runs */
};

struct helper_launch {
	const char *path; /* of the program, or of the socket */
	bool is_socket;	  /* connect to it; else start it */
};

struct helper_proc;

struct helper_proc_events {
	/* a datagram; @n may be 0, or too large by one if it was cut */
	void (*on_message)(struct helper_proc *proc, const void *bytes, size_t n, void *userdata);
	/* It is over, exactly once: the process ended, or (@still_running) it did not within the grace period
	 * after its socket was closed. @err has the cause. The handler may call helper_proc_free(), unless
	 * still running. */
	void (*on_gone)(struct helper_proc *proc, bool still_running, const struct error *err,
			void *userdata);
	/* a process that was still running has ended; helper_proc_free() is due */
	void (*on_reaped)(struct helper_proc *proc, void *userdata);
};

/** Start the program with a socket on descriptor 3 and no arguments, or connect to the socket; never blocks.
 * SIGCHLD must be blocked. @event and @events borrowed, @launch only during the call.
 * @ret owned by the caller, helper_proc_free() */
enum status helper_proc_start(sd_event *event, const struct helper_launch *launch,
			      const struct helper_proc_events *events, void *userdata,
			      struct helper_proc **ret, struct error *err);

/** Send one datagram; never blocks. STATUS_UNAVAILABLE when the helper does not read or is gone. */
enum status helper_proc_send(struct helper_proc *proc, const void *bytes, size_t n, struct error *err);

/** Ends the socket, so that the helper ends; sends no further messages. on_gone follows from the event loop.
 * @why the reason that on_gone gives */
void helper_proc_close(struct helper_proc *proc, const struct error *why);

/** 0 for one that the service manager started. */
pid_t helper_proc_pid(const struct helper_proc *proc);

/** The code that it exited with; -1 for one that has not, or that the service manager started. */
int helper_proc_exit_code(const struct helper_proc *proc);

/** Forget it without callbacks; the process ends by itself as its socket closes. NULL is allowed. */
void helper_proc_free(struct helper_proc *proc);

/* Explains why no launch mode starts a mount helper: names the line of the unit or the file to change. The
 * helper itself can only report the state that it found: it does not look at units. */

#define HELPER_UNIT_TEMPLATE "holdfast-mounthelper@.service"
#define AGENT_UNIT_ALIAS "holdfast-agent.service"

/* Facts of this process; tests make them up. */
struct launch_facts {
	const char *root; /* before the paths of units and programs; "" for this host */
	const char *unit; /* the agent's own; NULL: not in a unit */
	bool no_new_privs;
};

/** Replaces the text of @err by the change to make, if the cause can be found.
 * @failure the helper's last message; NULL: it was gone before it sent one */
void launch_fault_explain(const struct launch_facts *facts, const struct helper_launch *launch,
			  const struct mh_failure *failure, struct error *err);

/** launch_fault_explain() with the facts of this process. */
void launch_fault_explain_self(const struct helper_launch *launch, const struct mh_failure *failure,
			       struct error *err);

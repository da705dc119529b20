/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One action of a fence agent, as a child process: options on its standard input, one NAME=VALUE a line; its
 * environment is empty, all other descriptors are closed, its output is bounded. It is killed with its
 * process group at the time limit. Source: ClusterLabs' FenceAgentAPI: exit code 0 is success, or "on" for
 * status; 2 is "off" for status; all others are failures. */

#include "base/error.h"
#include "fencer/settings.h"
#include "model/fence.h"

#include <stdbool.h>
#include <systemd/sd-event.h>

enum agent_action {
	AGENT_METADATA,
	AGENT_MONITOR,
	AGENT_STATUS,
	AGENT_OFF,
	AGENT_ACTION_N,
};

enum { AGENT_OUTPUT_MAX = 64 << 10, AGENT_ERROR_SIZE = 256 };

struct agent_result {
	enum fence_outcome outcome;
	const char *output;	      /* the whole of it; secrets are replaced */
	char error[AGENT_ERROR_SIZE]; /* why it failed; empty: it did not */
};

struct agent_run;

/** @result is borrowed for the duration of the call. */
typedef void agent_done_fn(const struct agent_result *result, void *userdata);

/** Begin. @node is borrowed until it is done. @done runs once from the event loop, unless this fails or
 * agent_cancel() comes before; the run is gone then. */
enum status agent_start(sd_event *event, const char *agent_dir, const struct fencer_node *node,
			enum agent_action action, agent_done_fn *done, void *userdata, struct agent_run **ret,
			struct error *err);

/** Kill it; @done does not run. NULL is allowed. */
void agent_cancel(struct agent_run *run);

/** Can the agent switch the node off? Its metadata list every option of the node, since an agent ignores one
 * that it does not know and may switch another machine, and not the action `on` as automatic, which shows a
 * fabric agent. STATUS_FAILED_PRECONDITION. */
enum status agent_check_metadata(const char *metadata, const struct fencer_node *node, struct error *err);

/** Returns the outcome of an exit code; @is_exit false: a signal ended the agent. Pure. */
enum fence_outcome agent_outcome(enum agent_action action, bool is_exit, int code);

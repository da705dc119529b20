/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The agent: owns the event loop and every part; wiring only. */

#include "config.h"

#include "base/error.h"

#include <stdbool.h>
#include <systemd/sd-event.h>

struct agent;

/** Open everything that must be there: journal, identity, local socket. Nothing is started.
 * Blocks SIGCHLD, SIGTERM and SIGINT in this thread.
 * @event  borrowed
 * @config borrowed, must outlive the agent; SIGHUP changes what can be changed while it runs
 * @ret    owned by the caller, agent_free() */
enum status agent_new(sd_event *event, struct config *config, struct agent **ret, struct error *err);

/** Start the mount helper; the session follows when the mount snapshot is there, or after a while without it.
 */
enum status agent_start(struct agent *agent, struct error *err);

/** End the event loop upon SIGTERM and SIGINT; Notify the service manager how it goes. */
enum status agent_supervise(struct agent *agent, struct error *err);

/** Handles SIGHUP: reloads certificate, key and log level if valid, and starts new mount helpers. */
void agent_reload(struct agent *agent);

/** Frees everything; mounts stay as they are. NULL is allowed. */
void agent_free(struct agent *agent);

/** agent_new() to agent_free() around the event loop. STATUS_OK after SIGTERM or SIGINT.
 * @config      changed by SIGHUP
 * @has_started set when it has got as far as the event loop */
enum status agent_run(struct config *config, bool *has_started, struct error *err);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The agent's own socket: service holdfast.v1.Agent, for people on this machine. */

#include "base/error.h"
#include "rpc/peer.h"

#include <holdfast/v1/agent.pb-c.h>
#include <stdbool.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

struct local;

/** Makes the answer to Status; freed by the caller of it. NULL when memory is short. */
typedef Holdfast__V1__GetAgentStatusResponse *local_report_fn(void *userdata);

/** The answer can be made now. */
typedef void local_ready_fn(void *userdata);

/** Collects the data for the report, and runs @ready once, later. Returns false if there is nothing to wait
 * for; @ready does not run then. */
typedef bool local_prepare_fn(local_ready_fn *ready, void *ready_userdata, void *userdata);

/** Begins a drain or cancels it, and reports its state. @ret freed by the caller of it */
typedef enum status local_drain_fn(const Holdfast__V1__DrainAgentRequest *request,
				   Holdfast__V1__DrainAgentResponse **ret, void *userdata, struct error *err);

struct local_handlers {
	local_prepare_fn *prepare;
	local_report_fn *report;
	local_drain_fn *drain;
};

/** @handlers borrowed. @ret owned by the caller, local_free() */
enum status local_new(sd_event *event, const char *path, const struct local_handlers *handlers,
		      void *userdata, struct local **ret, struct error *err);

/** Frees it. All preparations must have called ready before. NULL is allowed. */
void local_free(struct local *local);

/** May @peer see and do everything? root and the agent's own user @self may. STATUS_PERMISSION_DENIED else.
 * Pure. @command that people run for it */
enum status local_authorize(const struct rpc_peer *peer, uid_t self, const char *command, struct error *err);

#pragma once
/* The agent's own socket: service holdfast.v1.Agent, for people on this machine. */

#include "base/error.h"
#include "rpc/peer.h"

#include <holdfast/v1/agent.pb-c.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

struct local;

/** What is answered to Status; freed by the caller of it. NULL when memory is short. */
typedef Holdfast__V1__GetAgentStatusResponse *local_report_fn(void *userdata);

/** @ret owned by the caller, local_free() */
enum status local_new(sd_event *event, const char *path, local_report_fn *report, void *userdata,
		      struct local **ret, struct error *err);

/** NULL is allowed. */
void local_free(struct local *local);

/** May @peer see everything? root and the agent's own user @self may. STATUS_PERMISSION_DENIED else. Pure. */
enum status local_authorize(const struct rpc_peer *peer, uid_t self, struct error *err);

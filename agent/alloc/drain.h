/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Before the host is shut down, all that allocations have here is released while the server can still hear
 * of it: then their claims are free at once, and not when this node is back. A drain does not outlive the
 * agent's process: a restarted one accepts again. */

#include "alloc/allocs.h"
#include "alloc/receipts.h"
#include "base/error.h"

#include <holdfast/v1/agent.pb-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <systemd/sd-event.h>

enum {
	DRAIN_TIMEOUT_MAX_MS = 3600 * 1000,
	/* all is unmounted: a drain without a session waits so long for the server */
	DRAIN_SERVER_WAIT_MS = 10000,
	DRAIN_FILE_MAX = 16 << 20,
};

#define DRAIN_FILE "drain.json" /* in the agent's folder: the last result */

enum drain_state {
	DRAIN_DRAINING,
	DRAIN_DONE,	      /* nothing is left, and the server knows */
	DRAIN_UNACKNOWLEDGED, /* nothing is left, receipts wait in the journal */
	DRAIN_INCOMPLETE,
	DRAIN_CANCELLED,
	DRAIN_STATE_N,
};

struct drain_facts {
	size_t n_busy;	      /* allocations that have not ended, and claims being cleaned up without one */
	size_t n_receipts;    /* not acknowledged */
	bool is_connected;    /* to the server */
	bool is_server_given; /* up, after DRAIN_SERVER_WAIT_MS */
	bool is_time_over;
};

/** Returns the state of a drain in progress. Pure. */
enum drain_state drain_classify(const struct drain_facts *facts);

/* The objects that a drain uses; all borrowed. */
struct drain_env {
	sd_event *event;
	struct allocs *allocs;
	const struct receipts *receipts;
	const char *data_dir;
	const char *boot_id;
	bool (*is_connected)(void *userdata); /* is there a session with the server? */
	void *userdata;
};

struct agent_drain;

/** The last result is read; one that cannot be is logged and ignored.
 * @env copied. @ret owned by the caller, drain_free() */
enum status drain_new(const struct drain_env *env, struct agent_drain **ret, struct error *err);

/** No callbacks. NULL is allowed. */
void drain_free(struct agent_drain *drain);

/** Starts, extends or reports a drain, as agent.proto describes. STATUS_INVALID_ARGUMENT for a time outside
 * of 1 ms to DRAIN_TIMEOUT_MAX_MS. @ret protobuf_c_message_free_unpacked() */
enum status drain_request(struct agent_drain *drain, const Holdfast__V1__DrainAgentRequest *request,
			  Holdfast__V1__DrainAgentResponse **ret, struct error *err);

/** Something has ended, or the server has acknowledged something. Nothing happens inside this call. */
void drain_look(struct agent_drain *drain);

/** Reports the drain in progress, or the last one. *@ret NULL: there was no drain; else
 * protobuf_c_message_free_unpacked(). Returns false without memory. */
bool drain_report(const struct agent_drain *drain, Holdfast__V1__AgentDrain **ret);

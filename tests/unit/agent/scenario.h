/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What tests of a whole agent say again and again. */

#include "world.h"

/* Conditions about allocation A. */
bool a_runs(struct world *w);
bool a_ended(struct world *w);
bool a_ended_and_all_is_released(struct world *w);

/* The server has every receipt, and the agent knows. Wait for it before the agent is killed and mounts are
 * taken away: else the next one says once more that they are mounted. */
bool all_is_acknowledged(struct world *w);

bool is_connected(struct world *w);
bool has_mount_snapshot(struct world *w);

/** As the server knows it. */
enum client_status status_of(struct world *w, const char *id);

/** Operations of the helper that changed something. */
unsigned int done(struct world *w, enum mh_op op);

/** The server wants A to run with so many volumes. */
void run_a(struct world *w, uint32_t n_volumes);
/** An agent that runs A. */
void start_with_a(struct world *w, uint32_t n_volumes);
/** The server wants A to stop; all is released afterwards. */
void stop_a(struct world *w);

void expect_nothing_mounted(struct world *w);
/** A failed with this code and these words, and everything was undone before it was told. */
void expect_failed_and_undone(struct world *w, enum status code, const char *words);

#define EARLIER_BOOT "00000000-0000-0000-0000-000000000001"

/** Rewrite the journal of a stopped agent, which has one allocation, as if it had been written before a
 * reboot. */
void age_journal(struct world *w);

struct drain_answer {
	bool is_there;
	struct error err;			    /* status OK: it was answered */
	Holdfast__V1__DrainAgentResponse *response; /* protobuf_c_message_free_unpacked() */
};

/** Ask the agent to drain, or to take that back. */
struct drain_answer ask_drain(struct world *w, uint32_t timeout_ms, bool cancel, int64_t follows_ms);

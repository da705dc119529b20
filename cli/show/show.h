/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The nouns of the API on a terminal. */

#include "command/command.h"

#include <holdfast/v1/agent.pb-c.h>
#include <holdfast/v1/plugins.pb-c.h>
#include <holdfast/v1/types.pb-c.h>
#include <holdfast/v1/volumes.pb-c.h>

/* @verbose, everywhere: more columns, and nothing cut at the width of a terminal */

/** @title a line above, NULL for none. No claims: nothing is printed. */
enum status show_claims(Holdfast__V1__Claim *const *claims, size_t n, const char *title, bool verbose,
			struct error *err);

/** What went wrong with them last, whole: in a terminal the table has no room for it. */
void show_claim_errors(Holdfast__V1__Claim *const *claims, size_t n);

/** The claims that an operator's word frees or would free, each with the evidence that it stands in for. */
enum status show_bypassed(Holdfast__V1__Claim *const *claims, size_t n, struct error *err);

enum status show_external(Holdfast__V1__ExternalVolume *const *volumes, size_t n, bool verbose,
			  struct error *err);
enum status show_snapshots(Holdfast__V1__Snapshot *const *snapshots, size_t n, bool verbose,
			   struct error *err);

/** @title as above */
enum status show_allocs(Holdfast__V1__Allocation *const *allocs, size_t n, const char *title, bool verbose,
			struct error *err);
/** @node_disconnected_ms since when its node has no session; 0: it has one. */
enum status show_alloc(const Holdfast__V1__Allocation *alloc, int64_t node_disconnected_ms,
		       struct error *err);

/** What a drain of this machine has come to; NULL: nothing is printed. */
void show_agent_drain(const Holdfast__V1__AgentDrain *drain);

/** One of its volumes, a line. */
void show_agent_drain_volume(const Holdfast__V1__AgentDrainVolume *volume);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Nouns of the API on a terminal that several commands show. */

#include "show/rows.h"

#include <holdfast/v1/agent.pb-c.h>
#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/plugins.pb-c.h>
#include <holdfast/v1/types.pb-c.h>
#include <holdfast/v1/volumes.pb-c.h>

/* Tables. */
extern const struct rows show_allocs;
extern const struct rows show_claims;
extern const struct rows show_external;
extern const struct rows show_snapshots;
extern const struct rows show_usages;

/** The claims that an operator's attestation frees or would free, each with the evidence that it replaces. */
extern const struct rows show_bypassed;

/** Page of a claim: what went wrong with it last, whole; a table has no room for it in a terminal. */
extern const struct rows show_claim_errors;

/** Page of a drain of this machine, and of one of its volumes: a line. */
extern const struct rows show_agent_drain;
extern const struct rows show_agent_drain_volume;

enum status show_alloc(const Holdfast__V1__GetAllocationResponse *answer, struct error *err);

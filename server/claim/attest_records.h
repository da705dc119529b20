/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Operators' words as they are kept: one record each, under the name of its node. For attest.c only; what
 * others ask about them is in attest.h. */

#include "base/error.h"
#include "state/change.h"
#include "state/state.h"

#include <holdfast/v1/types.pb-c.h>
#include <stddef.h>
#include <stdint.h>

struct rpc_call;
struct server;

struct attest_record_facts {
	const struct rpc_call *call;
	const struct node_entry *node;
	Holdfast__V1__VolumeRef *const *volumes; /* namespace empty: the default one */
	size_t n_volumes;
	const char *reason;
	uint64_t valid_ms;
};

/** Owned by the caller; NULL when memory is short. */
Holdfast__V1__Attestation *attest_record_make(struct server *server, const struct attest_record_facts *facts,
					      struct error *err);

/** STATUS_RESOURCE_EXHAUSTED when there are ATTEST_RECORDS_MAX about the node. */
enum status attest_record_stage(struct server *server, struct change *change,
				const Holdfast__V1__Attestation *record, struct error *err);

/** The word that covers the claim now, or NULL; borrowed. */
const Holdfast__V1__Attestation *attest_record_valid(struct server *server, const struct claim_entry *entry);

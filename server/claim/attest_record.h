/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Operators' attestations: their records, and how they free claims; see attest.h. */

#include "base/error.h"
#include "state/change.h"
#include "state/state.h"

#include <holdfast/v1/types.pb-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rpc_call;
struct server;

enum {
	ATTEST_RECORDS_MAX = 256, /* per node; the record goes with the node */
	ATTEST_MACHINES_MAX = 16, /* that one is proof about */
};

/** "NAME: reason", for the record. STATUS_INVALID_ARGUMENT names @field when @reason is missing, no text or
 * too long. */
enum status attest_detail(struct server *server, const struct rpc_call *call, const char *field,
			  const char *reason, char ret[static EVIDENCE_DETAIL_MAX + 1], struct error *err);

/** STATUS_FAILED_PRECONDITION: attestations are not accepted for @plugin_id, which has @volume, or a claim of
 * that name. */
enum status attest_check_plugin(const struct server *server, const struct volume *volume,
				const char *plugin_id, struct error *err);

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

/** Stages the record in the place of an earlier one that adds nothing to it. STATUS_RESOURCE_EXHAUSTED when
 * there are ATTEST_RECORDS_MAX about the node, half of them by the same author, or three quarters of the same
 * namespace, which is that of the first volume. */
enum status attest_record_stage(struct server *server, struct change *change,
				const Holdfast__V1__Attestation *record, struct error *err);

/** Is it the provider that is attested to have released the claim, as its node has? */
bool attest_is_at_provider(const struct claim *claim);

/** Is the machine that has the claim connected as @node, or may it come back? It gives its own receipt. */
bool attest_is_answered(const struct server *server, const struct node_entry *node,
			const struct claim *claim);

/* The attestation that frees claims. */
struct attest_said {
	const struct rpc_call *call; /* NULL: given before, applied now */
	const char *what;	     /* "Nodes.Attest" */
	const char *detail;	     /* "NAME: reason" */
	const char *why;	     /* for the audit */
};

/** Frees the claim by the attestation; @freed gets its id, owned, when that is durable. */
enum status attest_free_claim(const struct attest_said *said, change_done_fn *freed,
			      struct claim_entry *entry, struct error *err);

/** Frees the claim, whose work is over or ordered to stop, if a valid attestation covers it and the node is
 * away. Must be
 * called whenever the claim is driven. True: it was freed; @freed as above. */
bool attest_apply(struct server *server, struct claim_entry *entry, change_done_fn *freed);

/** Was it attested, since the last restore, that @machine, which is or was @node_id, has released the volume
 * of this name, with the storage that it has? An attestation is about the machines that the server knew when
 * it was given. */
bool attest_is_proof(struct server *server, const char *node_id, const char *machine,
		     const struct volume *volume);

/** @machine has connected as @node_id in @boot_id, accepted or not, so it was not gone. Ends the attestations
 * about later releases of that boot, and takes the machine out of those that replace a report.
 * STATUS_UNAVAILABLE and others of change_commit(). */
enum status attest_disprove(struct server *server, const char *node_id, const char *machine,
			    const char *boot_id, struct error *err);

/** Must the record be kept at any age, because its node has not reported yet? */
bool attest_is_needed(struct server *server, const Holdfast__V1__Attestation *record);

/** Stages the deletion of every record about @node, which is purged. */
void attest_forget_node(struct server *server, struct change *change, const struct node_entry *node);

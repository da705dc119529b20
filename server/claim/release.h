/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Releases claims without being asked: does the actions that release_decide() of lib/model returns, as
 * soon as something has happened. Each claim has its own tries and delays, so a stuck one delays no other.
 * A detach, which several claims of one volume on one node share, is asked for once. Everything follows
 * from the stored states, so a restart continues where it was. */

#include "base/error.h"
#include "model/explain.h"
#include "model/release.h"
#include "state/change.h"
#include "state/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct server;
struct releases;

enum {
	RELEASE_RETRY_MAX_MS = 30000,
	RELEASE_SWEEP_SLICE = 64,      /* claims looked at, or stuck ones tried, per turn of the event loop */
	RELEASE_SWEEP_GRACE_MS = 5000, /* a change this young may still be on its way */
	RELEASE_WAIT_LONG_MS = 900000, /* a claim that waits longer for one cause is an event, as an alarm */
	RELEASE_WAITS_RECORDED = 20,   /* events of one sweep: the next one has more */
};

/* The actors that live claims wait for, as of one sweep. Only a sweep can count them, for nodes and
 * controllers come and go without a change of the claims. */
struct release_waits {
	size_t n[ACTOR_N];
	int64_t since_ms[ACTOR_N]; /* of the one that waits longest; 0: no claim waits */
};

struct release_stats {
	uint64_t detaches;	/* asked of controllers */
	uint64_t detach_errors; /* of them, or while there was no controller to ask */
	uint64_t expired;	/* reservations */
	uint64_t freed;
	uint64_t sweeps;
	uint64_t swept_up; /* releases that no event had driven on: each is a defect, here or in a node */
	size_t stuck;	   /* claims whose last detach failed */
	struct release_waits waits; /* of the last sweep that came to its end */
};

/** Does the next step for the claim, unless it is in flight or waits for its time. */
void release_drive(struct server *server, struct claim_entry *entry);

/** A change_done_fn: the claim whose id @userdata is, owned, is freed by an attestation. */
void release_freed(struct server *server, void *userdata);

/** Returns the next action for the claim, from the present state. */
enum release_action release_next(struct server *server, const struct claim_entry *entry);

/** Describes the holder of a claim. */
struct holder claim_holder(struct server *server, const struct claim *claim);

/** Is the claim's release in flight, or scheduled? */
bool release_is_driven(const struct claim_entry *entry);

/** The node has a session: ask it at once for everything it holds too long; and its controllers. */
void release_node_back(struct server *server, struct node_entry *node);

/** For change_commit(): objects have become durable. */
void release_note_durable(struct server *server, struct change_object *objects, size_t n, uint64_t revision);

/** Is the volume being detached from the node, or may it be, also as a claim of another node with that id at
 * the provider? Then it must not be attached there again: the detach could follow the attach. */
bool release_is_detaching(const struct node_entry *node, const struct volume_entry *volume);

void release_stats(const struct server *server, struct release_stats *ret);

/** The first sweep, right away, resumes what an earlier run has left. */
enum status releases_new(struct server *server, struct releases **ret, struct error *err);
void releases_free(struct releases *releases);

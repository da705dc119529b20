/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Garbage collection: allocations that are over, freed claims beyond the newest of each volume, attestations
 * and tokens that have expired, old records of the audit. In slices, a bounded number of objects per turn of
 * the event loop.
 *
 * Never collected: a live claim; an allocation with a live claim; an allocation whose node is away,
 * because the node may still have it and must get the order to end it; the newest freed claim of a volume,
 * which shows how it was last released. A claim can be finished and explained without any of the others. */

#include "base/error.h"

#include <protobuf-c/protobuf-c.h>

struct change_object;
struct server;
struct rpc_call;
struct gc;

enum {
	GC_SCAN_MAX = 1000,    /* objects looked at in one turn */
	GC_SLICE_MAX = 60,     /* objects changed in one transaction, or one more; below CHANGE_OBJECTS_MAX */
	GC_PAUSE_US = 2000,    /* between two slices */
	GC_EARLY_US = 1000000, /* before an early run: there is at most one a second */
	GC_EARLY_REST_US = 10000000,  /* before one after one that found nothing */
	GC_EARLY_RUN_US = 500000,     /* of one: the next one continues */
	GC_EARLY_AGE_MS = 300 * 1000, /* since the end of an allocation, if there is room */
	GC_RUNS_MAX = 16,	      /* that are queued */
	GC_AUDIT_COUNT = 10000,	      /* most that a dry run counts */
};

/** Starts the periodic runs: every `gc_interval`, of what ended longer than `gc_after` ago. */
enum status gc_new(struct server *server, struct gc **ret, struct error *err);

void gc_free(struct gc *gc);

/** An observer of changes: has a namespace more ended allocations than its share of memory, those that
 * nothing needs are collected early, in the order in which they ended. Runs that were asked for, and periodic
 * ones, come first. */
void gc_note_submitted(struct server *server, const struct change_object *objects, size_t n);

/** Operator.Gc: a run of its own, answered at its end. Audits a run that was requested or found something,
 * but no dry run. */
void gc_handle(struct rpc_call *call, const ProtobufCMessage *request, void *server);

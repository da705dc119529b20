/* SPDX-License-Identifier: Apache-2.0 */
#include "gc.h"

#include "server.h"

#include "access/access.h"
#include "access/answer.h"
#include "access/audit.h"
#include "access/audit_read.h"
#include "access/caller.h"
#include "alloc/options.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "claim/attest_record.h"
#include "job/job_work.h"
#include "log/log.h"
#include "node/lookup.h"
#include "rpc/server.h"
#include "state/change.h"
#include "state/freed.h"
#include "state/keys.h"

#include <holdfast/v1/operator.pb-c.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/queue.h>

#define WHAT_GC "Operator.Gc"

enum { TIMER_ACCURACY_US = 1000, GC_TEXT_SIZE = 160, GC_CLOCK_MS = 3600 * 1000 };

typedef Holdfast__V1__GcResponse Counts; /* of objects that a run collected */

/* An allocation in the order of an early run. */
struct gc_place {
	char namespace[NAMESPACE_MAX + 1]; /* empty: the beginning */
	int64_t end_ms;
	char id[UUID_TEXT_SIZE];
};

struct gc_run;

/* One slice of a phase: stages deletions and moves the cursor. True: the phase is through. */
typedef bool gc_phase_fn(struct gc_run *run, struct change *change);

/* Is it over, and unneeded? */
typedef bool gc_record_fn(const struct gc_run *run, const ProtobufCMessage *record);

struct gc_phase {
	gc_phase_fn *collect; /* NULL: the end of a list */
	const char *prefix;   /* of the records, for collect_records() */
	gc_record_fn *may_collect;
	size_t count; /* offset of theirs in Counts */
};

struct gc_run {
	STAILQ_ENTRY(gc_run) queue;
	struct server *server;
	struct rpc_call *call;	/* waits for the end; NULL: periodic */
	int64_t before_ms;	/* what ended before that is collected */
	int64_t sure_before_ms; /* likewise, by known_ms(): what could not be made again */
	int64_t audit_now_ms;	/* likewise, by which the audit's age counts */
	bool dry_run;
	bool is_early;		      /* only of allocations of namespaces that have many */
	bool has_left;		      /* an early one, what it takes later */
	uint64_t until_us;	      /* monotonic: an early one has no slice after that */
	const struct gc_phase *phase; /* the present one of a list */
	/* of what comes next in the phase; empty: the beginning */
	char id[OBJECT_KEY_SIZE];
	struct gc_place early; /* instead, of an early run */
	struct freed_walk freed;
	Counts counts;
};
STAILQ_HEAD(gc_queue, gc_run);

struct gc {
	struct server *server;
	struct gc_queue runs; /* the first is in flight */
	size_t n_runs;
	sd_event_source *slice; /* owned; NULL: no run is in flight */
	sd_event_source *timer; /* owned; the next periodic run */
	sd_event_source *early; /* owned; the next early run; mostly off */
	uint64_t early_rest_us; /* before that */
	struct gc_place next;	/* where it begins */
};

/* False when the slice is full. */
static bool has_room(const struct change *change, const struct gc_run *run, size_t scanned)
{
	return scanned < GC_SCAN_MAX && (run->dry_run || change->n < GC_SLICE_MAX);
}

static bool may_collect_alloc(const struct gc_run *run, const struct alloc_entry *entry)
{
	const struct claim_entry *claim;
	const struct node_entry *node = entry->node;
	bool may_have_it = node->node.boot_id[0] != '\0' && !node_is_connected(node);

	if (!alloc_is_client_terminal(&entry->alloc) || may_have_it || job_needs_alloc(run->server, entry))
		return false;
	LIST_FOREACH (claim, &entry->claims, of_alloc)
		if (claim_is_live(&claim->claim))
			return false;
	return true;
}

static void collect_alloc(struct gc_run *run, struct change *change, const struct alloc_entry *entry)
{
	run->counts.allocations++;
	if (run->dry_run)
		return;
	alloc_options_stage_deletion(&run->server->state, change, entry->id);
	change_delete(change, OBJECT_ALLOC, &entry->alloc);
}

static bool collect_allocs(struct gc_run *run, struct change *change)
{
	struct alloc_entry *entry = state_alloc_from(&run->server->state, run->id);
	size_t scanned = 0;

	for (; entry && has_room(change, run, scanned); entry = state_alloc_next(entry)) {
		scanned++;
		if (entry->alloc.modify_time_ms < run->before_ms && may_collect_alloc(run, entry))
			collect_alloc(run, change, entry);
	}
	(void)str_copy(run->id, sizeof(run->id), entry ? entry->id : "");
	return !entry;
}

/* Did it end long enough ago to be collected early? In a full namespace no time is needed. */
static bool has_rested(const struct gc_run *run, const struct alloc_entry *entry)
{
	return entry->alloc.end_time_ms < run->before_ms ||
	       namespaces_check_room(&run->server->state.namespaces, entry->alloc.namespace, true, NULL) !=
		       STATUS_OK;
}

/* Collects what ended first in a namespace, @entry and those behind it, until @surplus bytes are gone.
 * Returns where it stopped: NULL at the end. */
static struct alloc_entry *collect_surplus(struct gc_run *run, struct change *change,
					   struct alloc_entry *entry, size_t *scanned)
{
	struct state *state = &run->server->state;
	char namespace[NAMESPACE_MAX + 1];
	size_t surplus;

	(void)str_copy(namespace, sizeof(namespace), entry->alloc.namespace);
	surplus = namespaces_ended_surplus(&state->namespaces, namespace);
	for (++*scanned; surplus > 0 && has_rested(run, entry); ++*scanned) {
		if (!has_room(change, run, *scanned))
			return entry;
		if (may_collect_alloc(run, entry)) {
			collect_alloc(run, change, entry);
			surplus -= entry->bytes < surplus ? entry->bytes : surplus;
		}
		entry = state_ended_next(entry);
		if (!entry || !str_eq(entry->alloc.namespace, namespace))
			return entry;
	}
	run->has_left = run->has_left || surplus > 0;
	return state_ended_from(state, namespace, INT64_MAX, "");
}

static bool collect_early(struct gc_run *run, struct change *change)
{
	struct gc_place *next = &run->early;
	struct alloc_entry *entry =
		state_ended_from(&run->server->state, next->namespace, next->end_ms, next->id);
	size_t scanned = 0;

	while (entry && has_room(change, run, scanned))
		entry = collect_surplus(run, change, entry, &scanned);
	if (!entry)
		return true;
	(void)str_copy(next->namespace, sizeof(next->namespace), entry->alloc.namespace);
	(void)str_copy(next->id, sizeof(next->id), entry->id);
	next->end_ms = entry->alloc.end_time_ms;
	return false;
}

static bool collect_claims(struct gc_run *run, struct change *change)
{
	struct error err;
	bool is_through = true;
	size_t before = run->freed.n;

	run->freed.before_ms = run->sure_before_ms;
	if (freed_collect(run->server, &run->freed, run->dry_run ? NULL : change, GC_SLICE_MAX, &is_through,
			  &err) != STATUS_OK)
		log_ctx(LOG_WARNING, &(struct log_ctx){.err = &err, .op = "gc"},
			"history is not collected this time, ignoring");
	run->counts.claims += (uint32_t)(run->freed.n - before);
	return is_through;
}

static bool may_collect_attestation(const struct gc_run *run, const ProtobufCMessage *record)
{
	const Holdfast__V1__Attestation *attestation = (const void *)record;
	int64_t ended_ms = attestation->expires_at_ms > attestation->create_time_ms
				   ? attestation->expires_at_ms
				   : attestation->create_time_ms;

	return ended_ms < run->before_ms && !attest_is_needed(run->server, attestation);
}

static bool may_collect_token(const struct gc_run *run, const ProtobufCMessage *record)
{
	const Holdfast__V1__StoredToken *stored = (const void *)record;

	return token_is_expired(stored->token, run->sure_before_ms);
}

static bool collect_records(struct gc_run *run, struct change *change)
{
	const struct gc_phase *phase = run->phase;
	uint32_t *count = (uint32_t *)(void *)((char *)&run->counts + phase->count);
	struct record_entry *entry =
		records_from(&run->server->state.records, run->id[0] != '\0' ? run->id : phase->prefix);
	size_t scanned = 0;

	for (; entry && str_starts_with(entry->key, phase->prefix) && has_room(change, run, scanned);
	     entry = records_next(entry)) {
		scanned++;
		if (!phase->may_collect(run, entry->record.message))
			continue;
		++*count;
		if (!run->dry_run)
			change_delete_record(change, entry->key);
	}
	if (entry && !str_starts_with(entry->key, phase->prefix))
		entry = NULL;
	(void)str_copy(run->id, sizeof(run->id), entry ? entry->key : "");
	return !entry;
}

static bool may_collect_revocation(const struct gc_run *run, const ProtobufCMessage *record)
{
	const Holdfast__V1__Revocation *revocation = (const void *)record;

	/* what it revoked is of a former CA, which is not trusted */
	return (revocation->ends_at_ms != 0 && revocation->ends_at_ms < run->sure_before_ms) ||
	       revocation->revoked_at_ms < run->server->trust_begins_at_ms;
}

static bool may_collect_enrollment(const struct gc_run *run, const ProtobufCMessage *record)
{
	return ((const Holdfast__V1__StoredEnrollment *)(const void *)record)->expires_at_ms <
	       run->sure_before_ms;
}

/* Collects the audit by its own settings. It commits by itself. */
static bool collect_audit(struct gc_run *run, struct change *change)
{
	uint32_t n;

	if (run->dry_run) {
		run->counts.audit_records = audit_prunable(run->server, run->audit_now_ms, GC_AUDIT_COUNT);
		return true;
	}
	n = audit_prune(run->server, run->audit_now_ms, AUDIT_PRUNE_SLICE);
	run->counts.audit_records += n;
	return n < AUDIT_PRUNE_SLICE;
}

#define COUNT(field) offsetof(Counts, field)

static const struct gc_phase phases[] = {
	{collect_allocs},
	{collect_claims},
	{collect_records, PREFIX_ATTESTATION, may_collect_attestation, COUNT(attestations)},
	{collect_records, PREFIX_TOKEN, may_collect_token, COUNT(tokens)},
	{collect_records, PREFIX_ENROLLMENT, may_collect_enrollment, COUNT(tokens)},
	{collect_records, PREFIX_REVOCATION, may_collect_revocation, COUNT(revocations)},
	{collect_audit},
	{NULL},
};
static const struct gc_phase early_phases[] = {{collect_early}, {NULL}};

static void stage_record(struct gc_run *run, struct change *change)
{
	const Counts *counts = &run->counts;
	char text[GC_TEXT_SIZE];

	(void)str_format(text, sizeof(text),
			 "%s%" PRIu32 " allocations, %" PRIu32 " freed claims, %" PRIu32
			 " attestations, %" PRIu32 " tokens, %" PRIu32 " audit records, %" PRIu32
			 " revocations",
			 run->is_early ? "early, for namespaces with many that ended: " : "",
			 counts->allocations, counts->claims, counts->attestations, counts->tokens,
			 counts->audit_records, counts->revocations);
	if (run->call)
		audit_write(run->server, change, run->call, WHAT_GC, "collected", text);
	else if (protobuf_c_message_get_packed_size(&counts->base) > 0)
		audit_own(run->server, change, WHAT_GC, "collected", text);
}

/* The answer that waits for the last transaction of a run. */
struct gc_answer {
	struct rpc_call *call;
	Counts counts;
};

static void on_collected(struct server *server, void *userdata)
{
	cleanup_free struct gc_answer *answer = userdata;

	if (answer->call)
		rpc_call_reply(answer->call, &answer->counts.base);
}

static enum status gc_run_finish(struct gc_run *run, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct gc_answer *answer = calloc(1, sizeof(*answer));

	if (answer)
		*answer = (struct gc_answer){.call = run->call, .counts = run->counts};
	if (!run->dry_run)
		stage_record(run, &change);
	return change_commit_taking(run->server, &change, on_collected, answer, err);
}

static void drop_first(struct gc *gc)
{
	struct gc_run *run = STAILQ_FIRST(&gc->runs);

	STAILQ_REMOVE_HEAD(&gc->runs, queue);
	gc->n_runs--;
	free(run);
}

static void fail_first(struct gc *gc, const struct error *err)
{
	struct gc_run *run = STAILQ_FIRST(&gc->runs);

	if (run->call)
		answer_refused(gc->server, run->call, WHAT_GC, err);
	else
		log_ctx(LOG_WARNING, &(struct log_ctx){.err = err, .op = "gc"},
			"the collection ended early, ignoring");
	drop_first(gc);
}

static enum status run_slice(struct gc_run *run, bool *ret_done, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;

	run->phase += run->phase->collect(run, &change);
	*ret_done = !run->phase->collect;
	return change.n > 0 ? change_commit(run->server, &change, NULL, NULL, err) : STATUS_OK;
}

static int on_slice(sd_event_source *source, uint64_t usec, void *userdata);

static enum status next_slice(struct gc *gc, struct error *err)
{
	int r = sd_event_add_time_relative(gc->server->event, &gc->slice, CLOCK_MONOTONIC, GC_PAUSE_US,
					   TIMER_ACCURACY_US, on_slice, gc);

	return r < 0 ? error_set(err, STATUS_RESOURCE_EXHAUSTED, r, "continue with the collection")
		     : STATUS_OK;
}

static void arm_early(struct gc *gc)
{
	(void)sd_event_source_set_time_relative(gc->early, gc->early_rest_us);
	(void)sd_event_source_set_enabled(gc->early, SD_EVENT_ONESHOT);
}

/* Ends an early run for those that wait, or when its time is over: the next one continues there. After one
 * that continued, another one begins with the first namespace. After one that found nothing there is a longer
 * rest. */
static bool end_early(struct gc *gc, struct gc_run *run, bool done)
{
	bool has_continued = gc->next.namespace[0] != '\0';
	bool is_cut = !done && (gc->n_runs > 1 || clock_monotonic_us() >= run->until_us);

	if (!done && !is_cut)
		return false;
	gc->early_rest_us = run->counts.allocations > 0 || is_cut ? GC_EARLY_US : GC_EARLY_REST_US;
	gc->next = is_cut ? run->early : (struct gc_place){.id = ""};
	if (is_cut || has_continued || run->has_left)
		arm_early(gc);
	return true;
}

static int on_slice(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct gc *gc = userdata;
	struct gc_run *run = STAILQ_FIRST(&gc->runs);
	struct error err;
	bool done = false;
	enum status status;

	gc->slice = sd_event_source_disable_unref(gc->slice);
	status = run_slice(run, &done, &err);
	if (status == STATUS_OK && run->is_early)
		done = end_early(gc, run, done);
	if (status == STATUS_OK && done)
		status = gc_run_finish(run, &err);
	if (status != STATUS_OK)
		fail_first(gc, &err);
	else if (done)
		drop_first(gc);
	while (!STAILQ_EMPTY(&gc->runs) && next_slice(gc, &err) != STATUS_OK)
		fail_first(gc, &err);
	return 0;
}

/* The time by which revocations, tokens, enrolments, the history of claims and the audit count as old without
 * a person: a clock that is ahead for a while, before it is set at the start or since, must not delete them.
 * 0: not known yet. */
static int64_t known_ms(const struct gc *gc)
{
	int64_t led_ms = nodes_led_ms(gc->server);

	return led_ms < GC_CLOCK_MS ? 0 : MIN(clock_realtime_ms(), gc->server->started_ms + led_ms);
}

static int64_t before(int64_t now_ms, uint64_t age_ms)
{
	return age_ms < (uint64_t)now_ms ? now_ms - (int64_t)age_ms : 0;
}

/* Queues a run with the call, dry_run and is_early of @wanted. */
static enum status gc_start(struct gc *gc, const struct gc_run *wanted, uint64_t older_than_ms,
			    struct error *err)
{
	int64_t now_ms = clock_realtime_ms();
	int64_t sure_ms = wanted->call ? now_ms : known_ms(gc);
	struct gc_run *run;

	if (gc->n_runs == GC_RUNS_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "%d collections are queued, the most there may be; ask again later",
				 GC_RUNS_MAX);
	run = calloc(1, sizeof(*run));
	if (!run)
		return error_no_memory(err, "the collection");
	*run = (struct gc_run){
		.server = gc->server,
		.call = wanted->call,
		.before_ms = before(now_ms, older_than_ms),
		.sure_before_ms = before(sure_ms, older_than_ms),
		.audit_now_ms = sure_ms,
		.dry_run = wanted->dry_run,
		.is_early = wanted->is_early,
		.until_us = clock_monotonic_us() + GC_EARLY_RUN_US,
		.phase = wanted->is_early ? early_phases : phases,
		.counts = HOLDFAST__V1__GC_RESPONSE__INIT,
		.early = gc->next,
	};
	if (!gc->slice) {
		enum status status = next_slice(gc, err);

		if (status != STATUS_OK) {
			free(run);
			return status;
		}
	}
	STAILQ_INSERT_TAIL(&gc->runs, run, queue);
	gc->n_runs++;
	return STATUS_OK;
}

static int on_interval(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct gc *gc = userdata;
	const struct config *config = &gc->server->config;
	bool is_idle = gc->n_runs == 0 || (gc->n_runs == 1 && STAILQ_FIRST(&gc->runs)->is_early);
	struct error err;

	if (is_idle &&
	    gc_start(gc, &(struct gc_run){0}, config->gc_after_us / USEC_PER_MSEC, &err) != STATUS_OK)
		log_ctx(LOG_WARNING, &(struct log_ctx){.err = &err, .op = "gc"},
			"no collection this time, ignoring");
	(void)sd_event_source_set_time_relative(source, config->gc_interval_us);
	(void)sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	return 0;
}

static int on_early(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct gc *gc = userdata;

	if (gc->n_runs > 0 ||
	    gc_start(gc, &(struct gc_run){.is_early = true}, GC_EARLY_AGE_MS, NULL) != STATUS_OK)
		arm_early(gc);
	return 0;
}

void gc_note_submitted(struct server *server, const struct change_object *objects, size_t n)
{
	for (size_t i = 0; i < n && server->gc; i++) {
		const struct alloc *alloc = objects[i].value;
		int enabled;

		if (objects[i].kind != OBJECT_ALLOC || objects[i].is_deletion ||
		    !alloc_is_client_terminal(alloc) ||
		    namespaces_ended_surplus(&server->state.namespaces, alloc->namespace) == 0)
			continue;
		if (sd_event_source_get_enabled(server->gc->early, &enabled) < 0 || enabled != SD_EVENT_OFF)
			return;
		arm_early(server->gc);
	}
}

enum status gc_new(struct server *server, struct gc **ret, struct error *err)
{
	struct gc *gc = calloc(1, sizeof(*gc));
	int r;

	if (!gc)
		return error_no_memory(err, "the collection");
	gc->server = server;
	gc->early_rest_us = GC_EARLY_US;
	STAILQ_INIT(&gc->runs);
	r = sd_event_add_time_relative(server->event, &gc->timer, CLOCK_MONOTONIC,
				       server->config.gc_interval_us, 0, on_interval, gc);
	if (r >= 0)
		r = sd_event_add_time_relative(server->event, &gc->early, CLOCK_MONOTONIC, 0, 0, on_early,
					       gc);
	if (r >= 0)
		r = sd_event_source_set_enabled(gc->early, SD_EVENT_OFF);
	if (r < 0) {
		gc_free(gc);
		return error_set(err, STATUS_INTERNAL, r, "set up garbage collection");
	}
	*ret = gc;
	return STATUS_OK;
}

/* Refuses every call that waits, because the server ends. NULL is fine. */
static void gc_stop(struct gc *gc)
{
	static const struct error ending = {.status = STATUS_UNAVAILABLE, .msg = "the server is ending"};
	struct gc_run *run;

	if (!gc)
		return;
	gc->slice = sd_event_source_disable_unref(gc->slice);
	gc->timer = sd_event_source_disable_unref(gc->timer);
	gc->early = sd_event_source_disable_unref(gc->early);
	STAILQ_FOREACH(run, &gc->runs, queue)
	if (run->call)
		rpc_call_fail(run->call, &ending);
	while (!STAILQ_EMPTY(&gc->runs))
		drop_first(gc);
}

void gc_free(struct gc *gc)
{
	gc_stop(gc);
	free(gc);
}

static enum status handle_gc(struct server *server, struct rpc_call *call,
			     const Holdfast__V1__GcRequest *request, struct error *err)
{
	uint64_t after_ms = request->older_than_ms > 0 ? request->older_than_ms
						       : server->config.gc_after_us / USEC_PER_MSEC;

	return gc_start(server->gc, &(struct gc_run){.call = call, .dry_run = request->dry_run}, after_ms,
			err);
}

DEFINE_WRITE_METHOD(gc_handle, Holdfast__V1__GcRequest, WHAT_GC, handle_gc)

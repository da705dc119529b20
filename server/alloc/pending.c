/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations that wait for a volume. */

#include "server.h"

#include "access/audit.h"
#include "alloc/allocs.h"
#include "alloc/placement.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/turn.h"
#include "claim/refusal.h"
#include "claim/release.h"
#include "model/admission.h"
#include "model/alloc_health.h"
#include "recovery/epoch.h"
#include "rpc/timer.h"
#include "state/change.h"
#include "state/keys.h"
#include "state/storage_index.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMER_ACCURACY_US = 10000, TEXT_COST = 10 };
#define RETRY_US (5 * USEC_PER_SEC)   /* after what the store refused */
#define TURN_US (10 * USEC_PER_MSEC)  /* of one turn, after which no further look begins in it */
#define SUBMIT_US (2 * USEC_PER_MSEC) /* of the looks that a submission causes, likewise */

struct pending {
	sd_event_source *turn;	/* owned; on when something may be free */
	sd_event_source *timer; /* owned; when the next one has waited long enough */
	sd_event_source *rest;	/* owned; after a turn that took long */
	uint64_t change;	/* number of the last event that may have freed something, from 1 */
	uint64_t pass;		/* the event with which the present pass over all began */
	uint64_t serial;	/* of the last search for related ones */
	bool is_passing;	/* it has not come to its end */
	char namespace[NAMESPACE_MAX + 1]; /* that had the last turn of it */
	bool is_resting;
};

/* Allocations in one list. */
struct entries {
	struct alloc_entry **list; /* owned; has room for @size */
	size_t n, size;
};

/* The obstacle that keeps an allocation from one of its volumes. */
struct obstruction {
	const char *volume_id;		 /* NULL: no obstacle */
	const struct claim *claim;	 /* that is live; NULL: the one below */
	const struct alloc_entry *other; /* placed and not started yet, or pending before it */
};

/* One look at allocations that wait, and at all others that wait for volumes of theirs. No other one can be
 * in their way before it has a node. */
struct round {
	struct server *server;
	struct entries queue; /* in the order in which they came */
	uint64_t pass;	      /* the event since which each has one look */
	uint64_t until_us;    /* then no further look begins */
	bool has_failed;      /* the store refused something, or memory is short */
};

static bool prepare(struct server *server);

/* --- waiting allocations --- */

/* One that is not durable yet came last. */
uint64_t alloc_arrival(const struct alloc *alloc)
{
	if (alloc->queue_index != 0)
		return alloc->queue_index;
	return alloc->create_index == 0 ? UINT64_MAX : alloc->create_index;
}

static int compare_arrival(const void *a_, const void *b_)
{
	const struct alloc *a = &(*(const struct alloc_entry *const *)a_)->alloc;
	const struct alloc *b = &(*(const struct alloc_entry *const *)b_)->alloc;

	if (alloc_arrival(a) != alloc_arrival(b))
		return alloc_arrival(a) < alloc_arrival(b) ? -1 : 1;
	if (a->create_time_ms != b->create_time_ms)
		return a->create_time_ms < b->create_time_ms ? -1 : 1;
	return strcmp(a->id, b->id);
}

static bool entries_add(struct entries *entries, struct alloc_entry *entry)
{
	if (entries->n == entries->size) {
		size_t more = entries->size == 0 ? 16 : 2 * entries->size;
		struct alloc_entry **list = reallocarray(entries->list, more, sizeof(struct alloc_entry *));

		if (!list)
			return false;
		entries->list = list;
		entries->size = more;
	}
	entries->list[entries->n++] = entry;
	return true;
}

static void put_in_order(struct entries *entries)
{
	if (entries->n > 0)
		qsort(entries->list, entries->n, sizeof(struct alloc_entry *), compare_arrival);
}

static bool collect_queue(struct server *server, struct entries *ret)
{
	struct alloc_entry *entry;

	LIST_FOREACH (entry, &server->state.pending, of_pending)
		if (!entries_add(ret, entry))
			return false;
	put_in_order(ret);
	return true;
}

static void entries_release(struct entries *entries)
{
	free(entries->list);
}

static bool is_starting(const struct alloc *alloc)
{
	return alloc->node_id[0] != '\0' && alloc->n_volumes > 0 && alloc->desired_status == DESIRED_RUN &&
	       alloc->client_status == CLIENT_PENDING;
}

/* Iterates over the names in its namespace of the storage of one volume of an allocation: the name by which
 * the allocation asks for it, whether it exists or not, then the others. */
struct names {
	const char *id; /* NULL: the end */
	const struct volume_entry *volume;
	struct volume_entry *other;
};

static struct names names_of(struct server *server, const struct alloc *alloc, uint32_t number)
{
	const char *id = alloc->volumes[number].source;

	return (struct names){.id = id, .volume = state_volume(&server->state, alloc->namespace, id)};
}

static void next_name(struct names *names)
{
	do
		names->other = names->volume ? storage_next_other(names->volume, names->other) : NULL;
	while (names->other && !str_eq(names->other->namespace, names->volume->namespace));
	names->id = names->other ? names->other->id : NULL;
}

/* Returns the first one that waits for that volume. */
static struct volume_wish *first_waiting(struct server *server, const char *namespace, const char *id)
{
	struct volume_wish *wish = wish_first(&server->state.wishes, namespace, id);

	return wish && !wish->is_starting ? wish : NULL;
}

static struct volume_wish *next_waiting(struct volume_wish *wish)
{
	struct volume_wish *next = wish_next(wish);

	return next && !next->is_starting ? next : NULL;
}

static bool add_waiting(struct server *server, const char *namespace, const char *id, struct entries *ret)
{
	uint64_t serial = server->pending->serial;
	struct volume_wish *wish = first_waiting(server, namespace, id);

	for (; wish; wish = next_waiting(wish)) {
		wish->seen = serial;
		if (wish->entry->seen == serial)
			continue;
		wish->entry->seen = serial;
		if (!entries_add(ret, wish->entry))
			return false;
	}
	return true;
}

/* Adds those that wait for a volume of @alloc, under any name of its storage. @wishes: its own ones; NULL: it
 * is not stored. Leaves out volumes and allocations that this search has found before. */
static bool add_related(struct server *server, const struct alloc *alloc, const struct volume_wish *wishes,
			struct entries *ret)
{
	for (uint32_t i = 0; i < alloc->n_volumes; i++) {
		struct names names;

		if (wishes && wishes[i].seen == server->pending->serial)
			continue;
		for (names = names_of(server, alloc, i); names.id; next_name(&names))
			if (!add_waiting(server, alloc->namespace, names.id, ret))
				return false;
	}
	return true;
}

/* Collects those that wait and are related to @alloc, to these, and so on, in the order in which they came.
 * Costs their number, and the number of their volumes. False when memory is short. */
static bool collect_all_related(struct server *server, const struct alloc *alloc, struct entries *ret)
{
	server->pending->serial++;
	if (!add_related(server, alloc, NULL, ret))
		return false;
	for (size_t i = 0; i < ret->n; i++)
		if (!add_related(server, &ret->list[i]->alloc, ret->list[i]->wishes.list, ret))
			return false;
	put_in_order(ret);
	return true;
}

/* --- obstacles --- */

/* Could @request be granted together with @other, if both are for the same volume? Unknown nodes count as
 * different ones. */
static bool has_room(const struct volume_request *request, const char *node_id,
		     const struct volume_request *other, const char *other_node_id)
{
	struct claim held = {.mode = volume_request_mode(other),
			     .access_mode = other->access_mode,
			     .attachment_mode = other->attachment_mode,
			     .plugin_id = PLUGIN_NATIVE};
	const struct claim *claims[] = {&held};
	const struct claim *blocker;

	(void)str_copy(held.node_id, sizeof(held.node_id), other_node_id);
	return admission_has_room(volume_request_capability(request), volume_request_mode(request),
				  node_id[0] != '\0' ? node_id : "-", claims, 1, &blocker);
}

/* May both have the volume, if @other is on @node_id? @other has got it before; without a node it would have
 * to wait for @alloc. */
static bool have_room(const struct alloc *alloc, const struct volume_request *own, const struct alloc *other,
		      const struct volume_request *theirs, const char *node_id)
{
	return other->node_id[0] != '\0' ? has_room(own, wish_node_of(alloc), theirs, node_id)
					 : has_room(theirs, node_id, own, wish_node_of(alloc));
}

/* Would @wish, of one that waits, exclude @alloc? */
static bool is_in_the_way(const struct alloc *alloc, const struct volume_request *own,
			  const struct volume_wish *wish)
{
	const struct alloc *other = wish->alloc;

	return !str_eq(alloc->id, other->id) &&
	       !have_room(alloc, own, other, wish_request(wish), wish_node_of(other));
}

static bool is_same_member(const struct alloc *a, const struct alloc *b)
{
	return a->job_id[0] != '\0' && str_eq(a->job_id, b->job_id) && str_eq(a->job_group, b->job_group) &&
	       a->job_index == b->job_index;
}

/* Finds the volumes that @alloc asks for; NULL: it does not exist. */
static void find_volumes(struct server *server, const struct alloc *alloc,
			 const struct volume_entry *ret[static ALLOC_VOLUMES_MAX])
{
	assert(alloc->n_volumes <= ALLOC_VOLUMES_MAX);
	for (uint32_t i = 0; i < alloc->n_volumes; i++)
		ret[i] = state_volume(&server->state, alloc->namespace, alloc->volumes[i].source);
}

/* Returns the volume that @placed, which is not stored, keeps from @alloc; NULL: no volume. */
static const char *rival_volume(struct server *server, const struct alloc *alloc, const struct alloc *placed)
{
	const struct volume_entry *own_volumes[ALLOC_VOLUMES_MAX], *their_volumes[ALLOC_VOLUMES_MAX];

	if (!str_eq(alloc->namespace, placed->namespace))
		return NULL;
	find_volumes(server, alloc, own_volumes);
	find_volumes(server, placed, their_volumes);
	for (uint32_t i = 0; i < alloc->n_volumes; i++)
		for (uint32_t k = 0; k < placed->n_volumes; k++) {
			const struct volume_request *own = &alloc->volumes[i], *theirs = &placed->volumes[k];

			if (!str_eq(own->source, theirs->source) &&
			    (!own_volumes[i] || !their_volumes[k] ||
			     !storage_is_same(&own_volumes[i]->storage, &their_volumes[k]->storage)))
				continue;
			if (!has_room(own, wish_node_of(alloc), theirs, placed->node_id))
				return own->source;
		}
	return NULL;
}

/* Returns a live claim that excludes @alloc, and the volume that it keeps from it. */
static const struct claim *find_claim(struct server *server, const struct alloc *alloc,
				      const char **ret_volume)
{
	for (uint32_t i = 0; i < alloc->n_volumes; i++) {
		const struct volume_request *request = &alloc->volumes[i];
		const struct volume_entry *volume =
			state_volume(&server->state, alloc->namespace, request->source);
		const struct claim_entry *entry;

		if (!volume)
			continue;
		STORAGE_FOREACH_CLAIM (entry, volume) {
			const struct claim *claim = &entry->claim;
			const struct claim *blocker;

			if (claim_is_live(claim) &&
			    !admission_has_room(volume_request_capability(request),
						volume_request_mode(request), wish_node_of(alloc), &claim, 1,
						&blocker)) {
				*ret_volume = request->source;
				return claim;
			}
		}
	}
	return NULL;
}

/* Does @wish, of one that waits, keep others from its volume? Not while it waits for another volume, or for a
 * node. One that was never tried may wait for any. @since: likewise one that was not tried since that event.
 */
static bool waits_for(const struct volume_wish *wish, uint64_t since)
{
	const struct alloc_entry *entry = wish->entry;

	return entry->looked <= since ||
	       (entry->waits_for > 0 &&
		str_eq(entry->alloc.volumes[entry->waits_for - 1].source, wish_request(wish)->source));
}

/* Finds the first one that waits for volume @id, asks for it before @self (NULL: before all that are not
 * stored) and would be in the way of @alloc. @ret: the first one so far, if one was found. */
static void find_waiting(struct server *server, const struct alloc *alloc, const struct alloc_entry *self,
			 uint32_t number, const char *id, struct obstruction *ret)
{
	uint64_t since = self ? 0 : server->pending->change - 1;
	const struct volume_wish *wish = first_waiting(server, alloc->namespace, id);

	for (; wish; wish = next_waiting((struct volume_wish *)(uintptr_t)wish)) {
		const struct alloc_entry *entry = wish->entry;

		if ((self && compare_arrival(&entry, &self) >= 0) || !waits_for(wish, since) ||
		    (ret->other && compare_arrival(&entry, &ret->other) >= 0) ||
		    !is_in_the_way(alloc, &alloc->volumes[number], wish))
			continue;
		*ret = (struct obstruction){.volume_id = alloc->volumes[number].source, .other = entry};
	}
}

/* Returns @wish, of one that starts or keeps a place, if it is in the way of @alloc; else the next one that
 * may be. */
static struct volume_wish *pass_over(struct server *server, const struct alloc *alloc,
				     const struct volume_request *own, struct volume_wish *wish,
				     bool only_queue)
{
	const struct alloc *other = wish->alloc;
	struct wish_tree *tree = &server->state.wishes;

	if ((only_queue && !wish_came_by_queue(other)) ||
	    have_room(alloc, own, other, wish_request(wish), ""))
		return wish_next_kind(tree, wish);
	if (have_room(alloc, own, other, wish_request(wish), wish_node_of(other)))
		return wish_next_node(tree, wish);
	if (!other->keeps_place)
		return node_is_connected(wish->entry->node) ? wish : wish_next_node(tree, wish);
	if (other->queue_index != 0 && alloc_arrival(other) > alloc_arrival(alloc))
		return wish_next_node(tree, wish); /* so did all behind it */
	if (alloc_arrival(other) > alloc_arrival(alloc) || is_same_member(alloc, other) ||
	    !records_job(&server->state.records, other->namespace, other->job_id))
		return wish_next(wish);
	return wish;
}

/* Finds one that starts with volume @id, or keeps a place for it, and is in the way of @alloc. @only_queue:
 * only those count that came by a queue, the others may be raced. A kind costs one step unless it is in the
 * way. Then each of its nodes that is away costs a step, and each place that is kept for @alloc itself or for
 * a job that is gone: few, as a pass of the job ends those that it keeps no longer. */
static const struct alloc_entry *find_starting(struct server *server, const struct alloc *alloc,
					       uint32_t number, const char *id, bool only_queue)
{
	const struct volume_request *own = &alloc->volumes[number];
	struct volume_wish *wish = wish_first(&server->state.wishes, alloc->namespace, id), *next;

	if (wish && !wish->is_starting)
		wish = wish_next_kind(&server->state.wishes, wish);
	for (; wish; wish = next) {
		next = pass_over(server, alloc, own, wish, only_queue);
		if (next == wish)
			return wish->entry;
	}
	return NULL;
}

/* Finds a rival of @alloc (@self: its entry; NULL: it is not stored): one that was placed and has not claimed
 * its volumes, or the first one that waits before it. */
static struct obstruction find_rival(struct server *server, const struct alloc *alloc,
				     const struct alloc_entry *self, bool only_queue)
{
	struct obstruction at = {.volume_id = NULL};

	for (uint32_t i = 0; i < alloc->n_volumes; i++) {
		struct names names;

		for (names = names_of(server, alloc, i); names.id; next_name(&names)) {
			const struct alloc_entry *other =
				find_starting(server, alloc, i, names.id, only_queue);

			if (other)
				return (struct obstruction){.volume_id = alloc->volumes[i].source,
							    .other = other};
			find_waiting(server, alloc, self, i, names.id, &at);
		}
	}
	return at;
}

static struct obstruction find_obstruction(struct server *server, const struct alloc *alloc,
					   const struct alloc_entry *self)
{
	const char *volume_id = NULL;
	const struct claim *claim = find_claim(server, alloc, &volume_id);

	if (claim)
		return (struct obstruction){.volume_id = volume_id, .claim = claim};
	return find_rival(server, alloc, self, false);
}

/* --- a round --- */

static void round_release(struct round *round)
{
	entries_release(&round->queue);
}

/* Gives it a node, if one can take it now. */
static enum status try_place(struct round *round, const struct alloc_entry *entry, struct error *err)
{
	cleanup(refusal_release) struct refusal refusal = {0};
	cleanup(change_release) struct change change = CHANGE_INIT;
	const struct placement_assumed assumed = {.avoid = entry->avoid_node_id};
	struct alloc alloc = entry->alloc; /* shares its lists */
	char object[ALLOC_OBJECT_SIZE];
	enum status status;

	/* after a restore it may run on a node that has not reported yet */
	TRY(epoch_check_alloc(round->server, &alloc, err));
	(void)str_copy(alloc.node_id, sizeof(alloc.node_id), alloc_wait_node(&alloc));
	alloc.client_description = NULL;
	status = placement_choose_node(round->server, &alloc, &assumed, &refusal, err);
	if (status == STATUS_OK) {
		alloc.wait_until_ms = 0;
		alloc.wait_node_id = NULL;
		alloc.modify_time_ms = alloc.place_time_ms = clock_realtime_ms();
		change_put_alloc(&change, &alloc);
		audit_own(round->server, &change, "Allocations.Place", alloc_object(&alloc, object),
			  "it was pending");
		status = allocs_commit(round->server, &change, &alloc, err);
		round->has_failed = round->has_failed || status != STATUS_OK;
	}
	free(alloc.client_description);
	return status;
}

static void expire(struct round *round, const struct alloc_entry *entry)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct alloc alloc = entry->alloc;
	char object[ALLOC_OBJECT_SIZE], text[ALLOC_DESCRIPTION_MAX + 1], time[CLOCK_TEXT_SIZE];
	char description[ALLOC_DESCRIPTION_MAX + 1];
	uint64_t waited_ms = (uint64_t)(alloc.wait_until_ms - alloc.create_time_ms);

	(void)snprintf(description, sizeof(description),
		       "its time to wait, %s, is over, and nothing was started: %.900s",
		       clock_format_duration(waited_ms * USEC_PER_MSEC, time),
		       pending_text(round->server, &alloc, text));
	alloc.client_status = CLIENT_FAILED;
	alloc.client_code = STATUS_DEADLINE_EXCEEDED;
	alloc.client_description = description;
	alloc.modify_time_ms = clock_realtime_ms();
	alloc_note_times(&alloc, &entry->alloc, alloc.modify_time_ms);
	change_put_alloc(&change, &alloc);
	audit_own(round->server, &change, "Allocations.Expire", alloc_object(&alloc, object),
		  "its time to wait is over");
	if (change_commit(round->server, &change, NULL, NULL, NULL) != STATUS_OK)
		round->has_failed = true;
}

/* Returns the number of the volume among those of @alloc, from 1; 0: NULL. */
static uint32_t volume_number(const struct alloc *alloc, const char *volume_id)
{
	for (uint32_t i = 0; volume_id && i < alloc->n_volumes; i++)
		if (str_eq(alloc->volumes[i].source, volume_id))
			return i + 1;
	return 0;
}

/* Places it if it can be, and notes what it waits for. */
static void look_at(struct round *round, struct alloc_entry *entry)
{
	struct server *server = round->server;
	struct obstruction at = find_rival(server, &entry->alloc, entry, false);
	struct error err;

	if (!at.volume_id && try_place(round, entry, &err) == STATUS_OK)
		return;
	if (!at.volume_id)
		at = find_obstruction(server, &entry->alloc, entry);
	entry->looked = server->pending->change;
	entry->waits_for = volume_number(&entry->alloc, at.volume_id);
	if (alloc_is_pending(&entry->alloc) && entry->alloc.wait_until_ms != 0 &&
	    entry->alloc.wait_until_ms <= clock_realtime_ms())
		expire(round, entry);
}

/* Tries those of @entry and all that are related to it that the pass has not come to, in the order in which
 * they came: what one of them may have depends on no other one. Tries at least one, and ends when the time
 * is over. */
static void look_at_related(struct round *round, const struct alloc_entry *entry)
{
	cleanup(entries_release) struct entries queue = {.n = 0};

	if (!collect_all_related(round->server, &entry->alloc, &queue)) {
		round->has_failed = true;
		return;
	}
	for (size_t i = 0; i < queue.n; i++) {
		if (!alloc_is_pending(&queue.list[i]->alloc) || queue.list[i]->looked >= round->pass)
			continue;
		look_at(round, queue.list[i]);
		if (clock_monotonic_us() >= round->until_us)
			return;
	}
}

/* --- submissions --- */

/* Collects those that wait, would be in the way of @alloc, and were not tried since the last event. */
static bool collect_untried(struct server *server, const struct alloc *alloc, struct entries *ret)
{
	for (uint32_t i = 0; i < alloc->n_volumes; i++) {
		struct names names;

		for (names = names_of(server, alloc, i); names.id; next_name(&names)) {
			struct volume_wish *wish = first_waiting(server, alloc->namespace, names.id);

			for (; wish; wish = next_waiting(wish))
				if (wish->entry->looked < server->pending->change &&
				    is_in_the_way(alloc, &alloc->volumes[i], wish) &&
				    !entries_add(ret, wish->entry))
					return false;
		}
	}
	return true;
}

/* Tries those that came before @alloc and were not tried since the last event: they go first, if they can.
 * One for which the time is too short keeps @alloc from its volumes. False when memory is short. */
static bool try_untried(struct server *server, const struct alloc *alloc)
{
	cleanup(entries_release) struct entries untried = {.n = 0};
	struct round round = {.server = server,
			      .pass = server->pending->change,
			      .until_us = clock_monotonic_us() + SUBMIT_US};

	if (!collect_untried(server, alloc, &untried))
		return false;
	for (size_t i = 0; i < untried.n && clock_monotonic_us() < round.until_us; i++)
		if (alloc_is_pending(&untried.list[i]->alloc) && untried.list[i]->looked < round.pass)
			look_at_related(&round, untried.list[i]);
	return true;
}

static enum status check_assumed(struct server *server, const struct alloc *alloc,
				 const struct placement_assumed *assumed, struct error *err)
{
	for (size_t i = 0; assumed && i < assumed->n_placed; i++) {
		const char *id = rival_volume(server, alloc, &assumed->placed[i]);

		if (id)
			return error_set(err, STATUS_FAILED_PRECONDITION, 0,
					 "volume %s is for %s, which is placed before it", id,
					 assumed->placed[i].name);
	}
	return STATUS_OK;
}

/* Whether it may be placed is asked as one that would wait: nothing is placed for that in a plan. */
enum status pending_check(struct server *server, const struct alloc *alloc,
			  const struct placement_assumed *assumed, bool is_to_wait, struct error *err)
{
	struct obstruction at;
	enum status status = check_assumed(server, alloc, assumed, err);

	if (status != STATUS_OK || alloc->n_volumes == 0)
		return status;
	if (!prepare(server) || (!(assumed && assumed->is_dry) && !try_untried(server, alloc)))
		return error_no_memory(err, "an allocation");
	at = find_rival(server, alloc, NULL, !is_to_wait);
	if (!at.volume_id)
		return STATUS_OK;
	if (at.other->alloc.node_id[0] != '\0')
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "volume %s is about to be claimed by allocation %s on node %s; holdfast "
				 "alloc status %s",
				 at.volume_id, at.other->id, at.other->alloc.node_id, at.other->id);
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "volume %s: allocation %s waits for it and came before; holdfast alloc run --wait "
			 "waits as well",
			 at.volume_id, at.other->id);
}

static size_t count_of_volume(struct server *server, const char *namespace, const char *id)
{
	struct volume_wish *wish = first_waiting(server, namespace, id);
	size_t n = 0;

	for (; wish; wish = next_waiting(wish))
		n++;
	return n;
}

static size_t count_of_namespace(struct server *server, const char *namespace)
{
	const struct alloc_entry *entry;
	size_t n = 0;

	LIST_FOREACH (entry, &server->state.pending, of_pending)
		n += str_eq(entry->alloc.namespace, namespace);
	return n;
}

static enum status check_room(struct server *server, const struct alloc *alloc, struct error *err)
{
	cleanup(entries_release) struct entries related = {.n = 0};
	size_t n;

	for (uint32_t i = 0; i < alloc->n_volumes; i++) {
		const char *source = alloc->volumes[i].source;

		n = count_of_volume(server, alloc->namespace, source);
		if (n >= PENDING_PER_VOLUME_MAX)
			return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
					 "volume %s: %zu allocations wait for it, which is as many as may; "
					 "holdfast volume status %s%s%s",
					 source, n, source, NAMESPACE_OPTION(alloc->namespace));
	}
	n = count_of_namespace(server, alloc->namespace);
	if (n >= PENDING_PER_NAMESPACE_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "namespace %s: %zu of its allocations wait for volumes, which is as many as "
				 "may; holdfast alloc status",
				 alloc->namespace, n);
	if (!collect_all_related(server, alloc, &related))
		return error_no_memory(err, "an allocation");
	if (related.n >= PENDING_RELATED_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "%zu allocations wait for its volumes, or for other volumes of these, which "
				 "is as many as may; holdfast alloc status",
				 related.n);
	return STATUS_OK;
}

enum status pending_enter(struct server *server, struct alloc *alloc, uint32_t wait_ms, struct error *err)
{
	assert(err->status != STATUS_OK);
	if (err->status != STATUS_FAILED_PRECONDITION || alloc->n_plugins > 0)
		return err->status;
	if (!prepare(server))
		return error_no_memory(err, "an allocation");
	if (!find_obstruction(server, alloc, NULL).volume_id)
		return err->status;
	TRY(check_room(server, alloc, err));
	alloc->wait_node_id = alloc->node_id[0] != '\0' ? strdup(alloc->node_id) : NULL;
	if (alloc->node_id[0] != '\0' && !alloc->wait_node_id)
		return error_no_memory(err, "an allocation");
	alloc->node_id[0] = '\0';
	alloc->wait_until_ms = wait_ms > 0 ? alloc->create_time_ms + wait_ms : 0;
	return STATUS_OK;
}

/* --- for people --- */

struct alloc_entry **pending_of_volume(struct server *server, const char *namespace, const char *id,
				       size_t *ret_n)
{
	struct entries queue = {.n = 0};
	struct volume_wish *wish = first_waiting(server, namespace, id);

	*ret_n = 0;
	for (; wish; wish = next_waiting(wish)) {
		if (queue.n > 0 && queue.list[queue.n - 1] == wish->entry)
			continue; /* it names the volume twice */
		if (!entries_add(&queue, wish->entry)) {
			entries_release(&queue);
			return NULL;
		}
	}
	put_in_order(&queue);
	*ret_n = queue.n;
	return queue.list ? queue.list : calloc(1, sizeof(struct alloc_entry *));
}

/* Finds the first one that waits before @alloc and keeps it from a volume. */
static struct obstruction find_before(struct server *server, const struct alloc *alloc)
{
	const struct alloc_entry *self = state_alloc(&server->state, alloc->id);
	struct obstruction at = {.volume_id = NULL};

	for (uint32_t i = 0; self && i < alloc->n_volumes; i++) {
		struct names names;

		for (names = names_of(server, alloc, i); names.id; next_name(&names))
			find_waiting(server, alloc, self, i, names.id, &at);
	}
	return at;
}

static void claim_text(struct server *server, const struct alloc *alloc, const char *volume_id,
		       const struct claim *claim, char ret[static ALLOC_DESCRIPTION_MAX + 1])
{
	struct holder holder = claim_holder(server, claim);
	char why[EXPLAIN_SIZE];

	if (!str_eq(claim->namespace, alloc->namespace)) {
		(void)snprintf(ret, ALLOC_DESCRIPTION_MAX + 1,
			       "waits for volume %s, whose storage " FOREIGN_VOLUME
			       " holds; holdfast volume status %s%s%s --why",
			       volume_id, volume_id, NAMESPACE_OPTION(alloc->namespace));
		return;
	}
	(void)snprintf(ret, ALLOC_DESCRIPTION_MAX + 1, "waits for volume %s, %s", claim->volume_id,
		       explain_claim(claim, &holder, clock_realtime_ms(), why));
}

size_t pending_text_cost(const struct server *server)
{
	return TEXT_COST + server->state.n_nodes; /* each may be asked why */
}

const char *pending_text(struct server *server, const struct alloc *alloc,
			 char ret[static ALLOC_DESCRIPTION_MAX + 1])
{
	cleanup(refusal_release) struct refusal refusal = {0};
	const char *volume_id = NULL;
	const struct claim *claim = find_claim(server, alloc, &volume_id);
	struct obstruction before = claim ? (struct obstruction){.claim = claim} : find_before(server, alloc);
	struct alloc copy = *alloc;
	struct error err = {.msg = "it is scheduled now"};

	if (claim) {
		claim_text(server, alloc, volume_id, claim, ret);
		return ret;
	}
	if (before.other) {
		(void)snprintf(ret, ALLOC_DESCRIPTION_MAX + 1,
			       "waits for volume %s, for which allocation %s waits and came before; holdfast "
			       "volume status %s%s%s",
			       before.volume_id, before.other->id, before.volume_id,
			       NAMESPACE_OPTION(alloc->namespace));
		return ret;
	}
	(void)str_copy(copy.node_id, sizeof(copy.node_id), alloc_wait_node(alloc));
	copy.client_description = NULL;
	if (epoch_check_alloc(server, alloc, &err) == STATUS_OK)
		(void)placement_choose_node(server, &copy, NULL, &refusal, &err);
	free(copy.client_description);
	(void)snprintf(ret, ALLOC_DESCRIPTION_MAX + 1, "waits to be placed: %.900s", err.msg);
	return ret;
}

/* --- lost races --- */

void allocs_note_lost_race(struct server *server, const struct alloc_entry *entry)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct alloc alloc = entry->alloc;
	const char *volume_id;

	if (alloc.lost_race || alloc.client_status != CLIENT_PENDING || alloc_has_live_claims(entry) ||
	    !find_claim(server, &alloc, &volume_id))
		return;
	alloc.lost_race = true;
	change_put_alloc(&change, &alloc);
	(void)change_commit(server, &change, NULL, NULL, NULL);
}

/* --- events --- */

static int on_turn(sd_event_source *source, void *userdata);

static void enable_turn(struct pending *pending)
{
	if (!pending->is_resting)
		timer_again(&pending->turn, on_turn);
}

/* Schedules the turn in which waiting allocations are tried. */
static void wake(struct server *server)
{
	if (!server->pending)
		return;
	server->pending->change++;
	enable_turn(server->pending);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	wake(userdata);
	return 0;
}

static void wake_at(struct server *server, const struct round *round)
{
	struct pending *pending = server->pending;
	int64_t next_ms = INT64_MAX, now_ms = clock_realtime_ms();
	uint64_t delay_us;

	pending->timer = sd_event_source_disable_unref(pending->timer);
	for (size_t i = 0; i < round->queue.n; i++) {
		const struct alloc *alloc = &round->queue.list[i]->alloc;

		if (alloc_is_pending(alloc) && alloc->wait_until_ms != 0 && alloc->wait_until_ms < next_ms)
			next_ms = alloc->wait_until_ms;
	}
	if (next_ms == INT64_MAX && !round->has_failed)
		return;
	delay_us = next_ms > now_ms ? (uint64_t)(next_ms - now_ms) * USEC_PER_MSEC : 0;
	if (round->has_failed)
		delay_us = RETRY_US;
	(void)sd_event_add_time_relative(server->event, &pending->timer, CLOCK_MONOTONIC, delay_us,
					 TIMER_ACCURACY_US, on_timer, server);
}

static int on_rested(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct pending *pending = userdata;

	pending->is_resting = false;
	enable_turn(pending);
	return 0;
}

/* The next turn begins when others have had as much time. */
static void rest(struct server *server, uint64_t took_us)
{
	struct pending *pending = server->pending;

	pending->rest = sd_event_source_disable_unref(pending->rest);
	pending->is_resting = sd_event_add_time_relative(server->event, &pending->rest, CLOCK_MONOTONIC,
							 took_us, TIMER_ACCURACY_US, on_rested, pending) >= 0;
}

/* Has the present pass come to it? */
static bool is_passed(const struct round *round, const struct alloc_entry *entry)
{
	return !alloc_is_pending(&entry->alloc) || entry->looked >= round->pass;
}

/* Notes the namespace that has its turn: the next one with an allocation to which the pass has not come.
 * False: the pass is at its end. */
static bool next_namespace(struct round *round)
{
	struct pending *pending = round->server->pending;
	const char *next = NULL;

	for (size_t i = 0; i < round->queue.n; i++) {
		const char *namespace = round->queue.list[i]->alloc.namespace;

		if (!is_passed(round, round->queue.list[i]) &&
		    (!next || turn_compare(pending->namespace, namespace, next) < 0))
			next = namespace;
	}
	if (next)
		(void)str_copy(pending->namespace, sizeof(pending->namespace), next);
	return next != NULL;
}

/* Tries those that the present pass has not come to, until the time is over. Namespaces take turns: many that
 * wait in one delay those of another by one turn. */
static void continue_pass(struct round *round)
{
	struct pending *pending = round->server->pending;

	while (next_namespace(round))
		for (size_t i = 0; i < round->queue.n; i++) {
			const struct alloc_entry *entry = round->queue.list[i];

			if (is_passed(round, entry) || !str_eq(entry->alloc.namespace, pending->namespace))
				continue;
			if (clock_monotonic_us() >= round->until_us || round->has_failed)
				return;
			look_at_related(round, entry);
		}
	pending->is_passing = false;
}

/* Events during a pass begin another one behind it: each that waits has its look. */
static int on_turn(sd_event_source *source, void *userdata)
{
	struct server *server = userdata;
	struct pending *pending = server->pending;
	cleanup(round_release) struct round round = {.server = server};
	uint64_t begun_us = clock_monotonic_us(), took_us;

	if (!server->is_serving || LIST_EMPTY(&server->state.pending))
		return 0;
	if (!pending->is_passing)
		pending->pass = pending->change;
	pending->is_passing = true;
	round.pass = pending->pass;
	round.until_us = begun_us + TURN_US;
	if (collect_queue(server, &round.queue))
		continue_pass(&round);
	else
		round.has_failed = true;
	wake_at(server, &round);
	took_us = clock_monotonic_us() - begun_us;
	if (took_us > TURN_US / 4)
		rest(server, took_us);
	if (!round.has_failed && (pending->is_passing || pending->pass != pending->change))
		enable_turn(pending);
	return 0;
}

/* False when memory is short. */
static bool prepare(struct server *server)
{
	struct pending *pending = server->pending;

	if (pending)
		return true;
	pending = calloc(1, sizeof(*pending));
	if (!pending)
		return false;
	if (sd_event_add_defer(server->event, &pending->turn, on_turn, server) < 0) {
		free(pending);
		return false;
	}
	(void)sd_event_source_set_enabled(pending->turn, SD_EVENT_OFF);
	pending->change = 1;
	server->pending = pending;
	return true;
}

static void wake_any(struct server *server)
{
	if (!LIST_EMPTY(&server->state.pending) && prepare(server))
		wake(server);
}

/* It frees nothing for those that wait: only it has its look. */
static void wake_for_new(struct server *server)
{
	if (prepare(server))
		enable_turn(server->pending);
}

/* May it have freed something? */
static bool matters(const struct change_object *object)
{
	const struct alloc *alloc = object->value;
	const struct claim *claim = object->value;

	switch (object->kind) {
	case OBJECT_ALLOC:
		return object->is_deletion || !is_starting(alloc);
	case OBJECT_CLAIM:
		return object->is_deletion || claim->state == CLAIM_FREED;
	case OBJECT_VOLUME:
	case OBJECT_NODE:
	case OBJECT_NODE_PLUGIN:
		return true;
	case OBJECT_RECORD:
		/* of a job: an allocation may give up its place */
		return str_starts_with(object->key, PREFIX_JOB) || placement_depends_on(object->key);
	case OBJECT_KIND_N:
		break;
	}
	return false;
}

void pending_note_durable(struct server *server, struct change_object *objects, size_t n, uint64_t revision)
{
	for (size_t i = 0; i < n; i++)
		if (objects[i].kind == OBJECT_ALLOC && !objects[i].is_deletion &&
		    alloc_is_pending(objects[i].value)) {
			wake_for_new(server);
		} else if (matters(&objects[i])) {
			wake_any(server);
			return;
		}
}

void pending_resume(struct server *server)
{
	wake_any(server);
}

void pending_release(struct server *server)
{
	struct pending *pending = server->pending;

	if (!pending)
		return;
	(void)sd_event_source_disable_unref(pending->turn);
	(void)sd_event_source_disable_unref(pending->timer);
	(void)sd_event_source_disable_unref(pending->rest);
	free(pending);
	server->pending = NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations that wait for a volume. */

#include "server.h"

#include "access/audit.h"
#include "alloc/allocs.h"
#include "alloc/placement.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "claim/refusal.h"
#include "claim/release.h"
#include "model/admission.h"
#include "model/alloc_health.h"
#include "state/change.h"
#include "state/keys.h"
#include "state/storage_index.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMER_ACCURACY_US = 10000, OBJECT_SIZE = NAMESPACE_MAX + UUID_TEXT_SIZE + 16 };
#define RETRY_US (5 * USEC_PER_SEC) /* after what the store refused */

struct pending {
	sd_event_source *turn;	/* owned; on when something may be free */
	sd_event_source *timer; /* owned; when the next one has waited long enough */
};

/* Allocations in one list. */
struct entries {
	const struct alloc_entry **list; /* owned */
	size_t n;
};

/* The obstacle that keeps an allocation from one of its volumes. */
struct obstruction {
	const char *volume_id;		 /* NULL: no obstacle */
	const struct claim *claim;	 /* that is live; NULL: the one below */
	const struct alloc_entry *other; /* placed and not started yet, or pending before it */
};

/* One look at all that wait. */
struct round {
	struct server *server;
	struct entries queue;	 /* pending ones, in the order in which they came */
	struct entries starting; /* that have a node and may still ask for their claims */
	struct obstruction *at;	 /* owned; of each of the queue, once it was tried: what it waits for */
	size_t n_tried;
	bool has_failed; /* the store refused something */
	bool only_queue; /* only those that came by a queue count, the others may be raced */
};

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

static bool entries_add(struct entries *entries, size_t *size, const struct alloc_entry *entry)
{
	if (entries->n == *size) {
		size_t more = *size == 0 ? 16 : 2 * *size;
		const struct alloc_entry **list =
			reallocarray((void *)entries->list, more, sizeof(const struct alloc_entry *));

		if (!list)
			return false;
		entries->list = list;
		*size = more;
	}
	entries->list[entries->n++] = entry;
	return true;
}

static const struct alloc_entry *first_without_node(struct server *server)
{
	const struct node_entry *nowhere = state_node(&server->state, "");

	return nowhere ? LIST_FIRST(&nowhere->allocs) : NULL;
}

static bool collect_queue(struct server *server, struct entries *ret)
{
	const struct alloc_entry *entry = first_without_node(server);
	size_t size = 0;

	for (; entry; entry = LIST_NEXT(entry, of_node))
		if (alloc_is_pending(&entry->alloc) && !entries_add(ret, &size, entry))
			return false;
	if (ret->n > 0)
		qsort((void *)ret->list, ret->n, sizeof(const struct alloc_entry *), compare_arrival);
	return true;
}

static bool is_starting(const struct alloc *alloc)
{
	return alloc->node_id[0] != '\0' && alloc->n_volumes > 0 && alloc->desired_status == DESIRED_RUN &&
	       alloc->client_status == CLIENT_PENDING;
}

static bool has_job(struct server *server, const struct alloc *alloc)
{
	char key[OBJECT_KEY_SIZE];

	(void)str_format(key, sizeof(key), PREFIX_JOB "%s/%s", alloc->namespace, alloc->job_id);
	return records_get(&server->state.records, key);
}

/* Does it keep others from its volumes without a claim? Not where its node is away: it may never ask. */
static bool keeps_others(struct server *server, const struct alloc_entry *entry)
{
	return entry->alloc.keeps_place ? has_job(server, &entry->alloc) : node_is_connected(entry->node);
}

static bool collect_starting(struct server *server, struct entries *ret)
{
	const struct alloc_entry *entry;
	size_t size = 0;

	LIST_FOREACH (entry, &server->state.starting, of_starting)
		if (keeps_others(server, entry) && !entries_add(ret, &size, entry))
			return false;
	return true;
}

/* --- obstacles --- */

/* On which node it will be, as far as that is known. */
static const char *node_of(const struct alloc *alloc)
{
	return alloc->node_id[0] != '\0' ? alloc->node_id : alloc_wait_node(alloc);
}

/* Could @request be granted together with @other, if both are for the same volume? Unknown nodes count as
 * different ones. */
static bool has_room(const struct volume_request *request, const char *node_id,
		     const struct volume_request *other, const char *other_node_id)
{
	struct claim held = {.mode = volume_request_mode(other),
			     .access_mode = other->access_mode,
			     .plugin_id = PLUGIN_NATIVE};
	const struct claim *claims[] = {&held};
	const struct claim *blocker;

	if (request->attachment_mode != other->attachment_mode)
		return false;
	(void)str_copy(held.node_id, sizeof(held.node_id), other_node_id);
	return admission_has_room(request->access_mode, volume_request_mode(request),
				  node_id[0] != '\0' ? node_id : "-", claims, 1, &blocker);
}

/* Finds the volumes that @alloc asks for; NULL: it does not exist. */
static void find_volumes(struct server *server, const struct alloc *alloc,
			 const struct volume_entry *ret[static ALLOC_VOLUMES_MAX])
{
	assert(alloc->n_volumes <= ALLOC_VOLUMES_MAX);
	for (uint32_t i = 0; i < alloc->n_volumes; i++)
		ret[i] = state_volume(&server->state, alloc->namespace, alloc->volumes[i].source);
}

static bool is_same_member(const struct alloc *a, const struct alloc *b)
{
	return a->job_id[0] != '\0' && str_eq(a->job_id, b->job_id) && str_eq(a->job_group, b->job_group) &&
	       a->job_index == b->job_index;
}

/* Returns the volume that @other keeps from @alloc: @other has got it before, or would have to wait for
 * @alloc then. NULL: no volume. */
static const char *rival_volume(struct server *server, const struct alloc *alloc, const struct alloc *other)
{
	const struct volume_entry *own_volumes[ALLOC_VOLUMES_MAX], *their_volumes[ALLOC_VOLUMES_MAX];
	bool is_placed = other->node_id[0] != '\0';

	if (!str_eq(alloc->namespace, other->namespace) || str_eq(alloc->id, other->id))
		return NULL;
	if (other->keeps_place &&
	    (is_same_member(alloc, other) || alloc_arrival(other) > alloc_arrival(alloc)))
		return NULL; /* the place is kept for @alloc, or is behind it */
	find_volumes(server, alloc, own_volumes);
	find_volumes(server, other, their_volumes);
	for (uint32_t i = 0; i < alloc->n_volumes; i++)
		for (uint32_t k = 0; k < other->n_volumes; k++) {
			const struct volume_request *own = &alloc->volumes[i], *theirs = &other->volumes[k];

			if (!str_eq(own->source, theirs->source) &&
			    (!own_volumes[i] || !their_volumes[k] ||
			     !storage_is_same(&own_volumes[i]->storage, &their_volumes[k]->storage)))
				continue;
			if (is_placed ? !has_room(own, node_of(alloc), theirs, node_of(other))
				      : !has_room(theirs, node_of(other), own, node_of(alloc)))
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
			    (claim->attachment_mode != request->attachment_mode ||
			     !admission_has_room(request->access_mode, volume_request_mode(request),
						 node_of(alloc), &claim, 1, &blocker))) {
				*ret_volume = request->source;
				return claim;
			}
		}
	}
	return NULL;
}

/* Is it of a job, or has it waited? */
static bool came_by_queue(const struct alloc *alloc)
{
	return alloc->job_id[0] != '\0' || alloc->place_time_ms > 0;
}

/* Finds a rival among those that were placed, and those that wait before it for that volume. */
static struct obstruction find_rival(const struct round *round, const struct alloc *alloc)
{
	for (size_t i = 0; i < round->starting.n; i++) {
		const struct alloc *other = &round->starting.list[i]->alloc;
		const char *id = round->only_queue && !came_by_queue(other)
					 ? NULL
					 : rival_volume(round->server, alloc, other);

		if (id)
			return (struct obstruction){.volume_id = id, .other = round->starting.list[i]};
	}
	for (size_t i = 0; i < round->n_tried; i++) {
		const char *id = round->at[i].volume_id
					 ? rival_volume(round->server, alloc, &round->queue.list[i]->alloc)
					 : NULL;

		if (id && str_eq(id, round->at[i].volume_id))
			return (struct obstruction){.volume_id = id, .other = round->queue.list[i]};
	}
	return (struct obstruction){.volume_id = NULL};
}

static struct obstruction find_obstruction(const struct round *round, const struct alloc *alloc)
{
	const char *volume_id = NULL;
	const struct claim *claim = find_claim(round->server, alloc, &volume_id);

	if (claim)
		return (struct obstruction){.volume_id = volume_id, .claim = claim};
	return find_rival(round, alloc);
}

/* --- a round --- */

static void round_release(struct round *round)
{
	free((void *)round->queue.list);
	free((void *)round->starting.list);
	free(round->at);
}

/* False when memory is short. */
static bool round_init(struct round *round, struct server *server)
{
	*round = (struct round){.server = server};
	if (!collect_queue(server, &round->queue) || !collect_starting(server, &round->starting))
		return false;
	/* each of the queue may be placed */
	if (round->queue.n > 0) {
		size_t n = round->starting.n + round->queue.n;
		const struct alloc_entry **list =
			reallocarray((void *)round->starting.list, n, sizeof(const struct alloc_entry *));

		if (!list)
			return false;
		round->starting.list = list;
	}
	round->at = calloc(round->queue.n + 1, sizeof(*round->at));
	return round->at != NULL;
}

static void name_alloc(const struct alloc *alloc, char ret[static OBJECT_SIZE])
{
	(void)str_format(ret, OBJECT_SIZE, "allocation %s/%s", alloc->namespace, alloc->id);
}

static void on_placed(struct server *server, void *userdata)
{
	cleanup_free char *id = userdata;
	const struct alloc_entry *entry = state_alloc(&server->state, id);

	if (entry)
		allocs_send(entry);
}

/* Gives it a node, if one can take it now. */
static enum status try_place(struct round *round, const struct alloc_entry *entry, struct error *err)
{
	cleanup(refusal_release) struct refusal refusal = {0};
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct alloc alloc = entry->alloc; /* shares its lists */
	char object[OBJECT_SIZE];
	enum status status;

	(void)str_copy(alloc.node_id, sizeof(alloc.node_id), alloc_wait_node(&alloc));
	alloc.client_description = NULL;
	status = placement_choose_node(round->server, &alloc, NULL, &refusal, err);
	if (status == STATUS_OK) {
		alloc.wait_until_ms = 0;
		alloc.wait_node_id = NULL;
		alloc.modify_time_ms = alloc.place_time_ms = clock_realtime_ms();
		change_put_alloc(&change, &alloc);
		name_alloc(&alloc, object);
		audit_own(round->server, &change, "Allocations.Place", object, "it was pending");
		status = change_commit_taking(round->server, &change, on_placed, strdup(alloc.id), err);
		round->has_failed = round->has_failed || status != STATUS_OK;
	}
	free(alloc.client_description);
	return status;
}

static void expire(struct round *round, const struct alloc_entry *entry)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct alloc alloc = entry->alloc;
	char object[OBJECT_SIZE], text[ALLOC_DESCRIPTION_MAX + 1], time[CLOCK_TEXT_SIZE];
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
	name_alloc(&alloc, object);
	audit_own(round->server, &change, "Allocations.Expire", object, "its time to wait is over");
	if (change_commit(round->server, &change, NULL, NULL, NULL) != STATUS_OK)
		round->has_failed = true;
}

static void look_at(struct round *round, size_t i)
{
	const struct alloc_entry *entry = round->queue.list[i];
	struct error err;

	round->at[i] = find_rival(round, &entry->alloc);
	if (!round->at[i].volume_id && try_place(round, entry, &err) == STATUS_OK)
		round->starting.list[round->starting.n++] = entry;
	else if (!round->at[i].volume_id)
		round->at[i] = find_obstruction(round, &entry->alloc);
	if (alloc_is_pending(&entry->alloc) && entry->alloc.wait_until_ms != 0 &&
	    entry->alloc.wait_until_ms <= clock_realtime_ms())
		expire(round, entry);
	if (!alloc_is_pending(&entry->alloc))
		round->at[i] = (struct obstruction){.volume_id = NULL};
	round->n_tried = i + 1;
}

static void try_all(struct round *round)
{
	for (size_t i = 0; i < round->queue.n; i++)
		look_at(round, i);
}

/* Finds the obstructions that are visible without placing anything. */
static void look_for_obstructions(struct round *round)
{
	for (; round->n_tried < round->queue.n; round->n_tried++)
		round->at[round->n_tried] =
			find_obstruction(round, &round->queue.list[round->n_tried]->alloc);
}

/* --- submissions --- */

/* Does another allocation wait for one of its volumes, or start with it? Costs one look at each of those. */
static bool has_rival(struct server *server, const struct alloc *alloc)
{
	const struct alloc_entry *entry = first_without_node(server);

	for (; entry; entry = LIST_NEXT(entry, of_node))
		if (alloc_is_pending(&entry->alloc) && rival_volume(server, alloc, &entry->alloc))
			return true;
	LIST_FOREACH (entry, &server->state.starting, of_starting)
		if (rival_volume(server, alloc, &entry->alloc))
			return true;
	return false;
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
	cleanup(round_release) struct round round = {.server = NULL};
	struct obstruction at;
	enum status status = check_assumed(server, alloc, assumed, err);

	if (status != STATUS_OK || alloc->n_volumes == 0 || !has_rival(server, alloc))
		return status;
	if (!round_init(&round, server))
		return error_no_memory(err, "an allocation");
	if (assumed && assumed->is_dry)
		look_for_obstructions(&round);
	else
		try_all(&round); /* what came before goes first, if it can */
	round.only_queue = !is_to_wait;
	at = find_rival(&round, alloc);
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

static enum status check_room(const struct round *round, const struct alloc *alloc, struct error *err)
{
	for (uint32_t i = 0; i < alloc->n_volumes; i++) {
		const char *source = alloc->volumes[i].source;
		size_t n = 0;

		for (size_t k = 0; k < round->queue.n; k++) {
			const struct alloc *other = &round->queue.list[k]->alloc;

			for (uint32_t j = 0;
			     str_eq(other->namespace, alloc->namespace) && j < other->n_volumes; j++)
				n += str_eq(other->volumes[j].source, source);
		}
		if (n >= PENDING_PER_VOLUME_MAX)
			return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
					 "volume %s: %zu allocations wait for it, which is as many as may; "
					 "holdfast volume status %s",
					 source, n, source);
	}
	return STATUS_OK;
}

enum status pending_enter(struct server *server, struct alloc *alloc, uint32_t wait_ms, struct error *err)
{
	cleanup(round_release) struct round round = {.server = NULL};

	assert(err->status != STATUS_OK);
	if (err->status != STATUS_FAILED_PRECONDITION || alloc->n_plugins > 0)
		return err->status;
	if (!round_init(&round, server))
		return error_no_memory(err, "an allocation");
	look_for_obstructions(&round);
	if (!find_obstruction(&round, alloc).volume_id)
		return err->status;
	TRY(check_room(&round, alloc, err));
	alloc->wait_node_id = alloc->node_id[0] != '\0' ? strdup(alloc->node_id) : NULL;
	if (alloc->node_id[0] != '\0' && !alloc->wait_node_id)
		return error_no_memory(err, "an allocation");
	alloc->node_id[0] = '\0';
	alloc->wait_until_ms = wait_ms > 0 ? alloc->create_time_ms + wait_ms : 0;
	return STATUS_OK;
}

/* --- for people --- */

const struct alloc_entry **pending_of_volume(struct server *server, const char *namespace, const char *id,
					     size_t *ret_n)
{
	struct entries queue = {NULL, 0};
	size_t n = 0;

	*ret_n = 0;
	if (!collect_queue(server, &queue)) {
		free((void *)queue.list);
		return NULL;
	}
	for (size_t i = 0; i < queue.n; i++) {
		const struct alloc *alloc = &queue.list[i]->alloc;
		bool is = false;

		for (uint32_t k = 0; k < alloc->n_volumes && str_eq(alloc->namespace, namespace); k++)
			is = is || str_eq(alloc->volumes[k].source, id);
		if (is)
			queue.list[n++] = queue.list[i];
	}
	*ret_n = n;
	return queue.list ? queue.list : calloc(1, sizeof(const struct alloc_entry *));
}

/* Finds the first one before it that keeps it from a volume; NULL if it can go ahead. */
static const struct alloc_entry *find_before(struct server *server, const struct alloc *alloc,
					     const char **ret_volume)
{
	struct entries queue = {NULL, 0};
	const struct alloc_entry *found = NULL;

	if (collect_queue(server, &queue))
		for (size_t i = 0; !found && i < queue.n && !str_eq(queue.list[i]->id, alloc->id); i++) {
			*ret_volume = rival_volume(server, alloc, &queue.list[i]->alloc);
			found = *ret_volume ? queue.list[i] : NULL;
		}
	free((void *)queue.list);
	return found;
}

static void claim_text(struct server *server, const struct claim *claim,
		       char ret[static ALLOC_DESCRIPTION_MAX + 1])
{
	struct holder holder = claim_holder(server, claim);
	char why[EXPLAIN_SIZE];

	(void)snprintf(ret, ALLOC_DESCRIPTION_MAX + 1, "waits for volume %s, %s", claim->volume_id,
		       explain_claim(claim, &holder, clock_realtime_ms(), why));
}

const char *pending_text(struct server *server, const struct alloc *alloc,
			 char ret[static ALLOC_DESCRIPTION_MAX + 1])
{
	cleanup(refusal_release) struct refusal refusal = {0};
	const char *volume_id = NULL;
	const struct claim *claim = find_claim(server, alloc, &volume_id);
	const struct alloc_entry *before = claim ? NULL : find_before(server, alloc, &volume_id);
	struct alloc copy = *alloc;
	struct error err = {.msg = "it is scheduled now"};

	if (claim) {
		claim_text(server, claim, ret);
		return ret;
	}
	if (before) {
		(void)snprintf(ret, ALLOC_DESCRIPTION_MAX + 1,
			       "waits for volume %s, for which allocation %s waits and came before; holdfast "
			       "volume status %s",
			       volume_id, before->id, volume_id);
		return ret;
	}
	(void)str_copy(copy.node_id, sizeof(copy.node_id), alloc_wait_node(alloc));
	copy.client_description = NULL;
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

static void wake(struct server *server)
{
	if (server->pending)
		(void)sd_event_source_set_enabled(server->pending->turn, SD_EVENT_ONESHOT);
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

static int on_turn(sd_event_source *source, void *userdata)
{
	cleanup(round_release) struct round round = {.server = NULL};
	struct server *server = userdata;

	if (!server->is_serving || !first_without_node(server))
		return 0;
	if (round_init(&round, server))
		try_all(&round);
	else
		round.has_failed = true;
	wake_at(server, &round);
	return 0;
}

/* Schedules the turn in which waiting allocations are tried. */
static void wake_any(struct server *server)
{
	struct pending *pending = server->pending;

	if (!first_without_node(server))
		return;
	if (!pending) {
		pending = calloc(1, sizeof(*pending));
		if (!pending)
			return;
		if (sd_event_add_defer(server->event, &pending->turn, on_turn, server) < 0) {
			free(pending);
			return;
		}
		server->pending = pending;
	}
	wake(server);
}

/* May it have freed something, or is it new here? */
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
		return str_starts_with(object->key, PREFIX_JOB); /* an allocation may give up its place */
	case OBJECT_KIND_N:
		break;
	}
	return false;
}

void pending_note_durable(struct server *server, struct change_object *objects, size_t n, uint64_t revision)
{
	for (size_t i = 0; i < n; i++)
		if (matters(&objects[i])) {
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
	free(pending);
	server->pending = NULL;
}

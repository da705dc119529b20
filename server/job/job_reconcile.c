/* SPDX-License-Identifier: Apache-2.0 */
#include "job/job_reconcile.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "model/admission.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

/* The state of a member. */
enum { STEP_MS = 60 * 1000 };

enum member_state {
	MEMBER_MISSING,
	MEMBER_QUEUED,	     /* waits for its volumes */
	MEMBER_OLD_QUEUED,   /* waits for those of an earlier version */
	MEMBER_DONE,	     /* batch: its work ended with 0 in this version */
	MEMBER_STOPPING,     /* its allocation must stop */
	MEMBER_STARTING,     /* runs this version, but is not healthy yet or has become unhealthy */
	MEMBER_CURRENT,	     /* runs this version, and is healthy */
	MEMBER_OLD_STARTING, /* runs something else, and is not healthy */
	MEMBER_OLD,	     /* runs something else, and is healthy */
};

struct member {
	uint32_t group;
	uint32_t index;
	const char *node_id;	  /* of a system job; NULL: any */
	struct job_alloc *allocs; /* the one that has not ended first, then the last that did */
	size_t n_allocs;
	const struct job_alloc *live; /* NULL: every one has ended */
	enum member_state state;
};

/* The sums over all members of a group. */
struct tally {
	uint32_t away; /* for an update: replaced and not healthy, stopping, missing */
	uint32_t n_old_starting;
	uint32_t n_old;
	uint32_t slots_starting, slots; /* how many of each may be stopped now */
};

/* One call. */
struct pass {
	const struct job_world *world;
	const struct job_spec *job;
	struct job_decisions *ret;
	struct tally tallies[JOB_GROUPS_MAX];
	struct job_wait unnamed; /* the last one for which there was no room */
	enum job_update_status update;
	size_t n_eligible;
	size_t n_live;	    /* allocations that have not ended */
	size_t n_unsettled; /* members that are not in their desired state */
};

/* --- order --- */

static bool has_ended(const struct job_alloc *alloc)
{
	return alloc->client == CLIENT_COMPLETE || alloc->client == CLIENT_FAILED ||
	       alloc->client == CLIENT_LOST;
}

static int compare_numbers(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

/* Orders the allocations of one member: the first one counts. */
static int compare_in_member(const struct job_alloc *a, const struct job_alloc *b)
{
	int r = has_ended(a) - has_ended(b);

	if (r == 0 && has_ended(a))
		r = compare_numbers(b->end_ms, a->end_ms);
	if (r == 0)
		r = a->is_adopted - b->is_adopted;
	if (r == 0)
		r = compare_numbers((int64_t)b->proven, (int64_t)a->proven);
	if (r == 0)
		r = (a->desired == DESIRED_STOP) - (b->desired == DESIRED_STOP);
	if (r == 0)
		r = compare_numbers((int64_t)b->version, (int64_t)a->version);
	if (r == 0)
		r = compare_numbers(a->create_ms, b->create_ms);
	return r != 0 ? r : strcmp(a->id, b->id);
}

static int compare_allocs(const void *a_, const void *b_, void *is_system)
{
	const struct job_alloc *a = a_, *b = b_;
	int r = compare_numbers(a->group, b->group);

	if (r == 0)
		r = *(const bool *)is_system ? strcmp(a->node_id, b->node_id)
					     : compare_numbers(a->index, b->index);
	return r != 0 ? r : compare_in_member(a, b);
}

static int compare_nodes(const void *a, const void *b)
{
	return strcmp(((const struct job_node *)a)->id, ((const struct job_node *)b)->id);
}

static int compare_holders(const void *a_, const void *b_)
{
	const struct job_holder *a = a_, *b = b_;
	int r = strcmp(a->volume_id, b->volume_id);

	return r != 0 ? r : strcmp(a->alloc_id ? a->alloc_id : "", b->alloc_id ? b->alloc_id : "");
}

static int compare_refusals(const void *a_, const void *b_)
{
	const struct job_refusal *a = a_, *b = b_;
	int r = compare_numbers(a->group, b->group);

	if (r == 0)
		r = strcmp(a->node_id ? a->node_id : "", b->node_id ? b->node_id : "");
	if (r == 0)
		r = (a->index > b->index + b->n_more) - (a->index + a->n_more < b->index);
	return r;
}

static void put_in_order(const struct job_world *world)
{
	bool is_system = world->job->type == JOB_SYSTEM;

	if (world->n_allocs > 0)
		qsort_r(world->allocs, world->n_allocs, sizeof(*world->allocs), compare_allocs, &is_system);
	if (world->n_nodes > 0)
		qsort(world->nodes, world->n_nodes, sizeof(*world->nodes), compare_nodes);
	if (world->n_holders > 0)
		qsort(world->holders, world->n_holders, sizeof(*world->holders), compare_holders);
	if (world->n_refusals > 0)
		qsort(world->refusals, world->n_refusals, sizeof(*world->refusals), compare_refusals);
}

/* --- decisions --- */

static struct job_action *add_action(struct pass *pass, enum job_action_type type, uint32_t group,
				     uint32_t index)
{
	struct job_decisions *ret = pass->ret;

	if (ret->n_actions == JOB_ACTIONS_MAX) {
		ret->is_cut = true;
		return NULL;
	}
	ret->actions[ret->n_actions] = (struct job_action){.type = type, .group = group, .index = index};
	return &ret->actions[ret->n_actions++];
}

static void add_stop(struct pass *pass, const struct job_alloc *alloc, enum job_stop_reason reason)
{
	struct job_action *action = add_action(pass, JOB_STOP, alloc->group, alloc->index);

	if (!action)
		return;
	action->alloc_id = alloc->id;
	action->node_id = alloc->node_id;
	action->reason = reason;
}

static void wake_at(struct pass *pass, int64_t at_ms)
{
	if (at_ms > pass->world->now_ms && (pass->ret->wake_ms == 0 || at_ms < pass->ret->wake_ms))
		pass->ret->wake_ms = at_ms;
}

/* The member waits; @alloc (may be NULL) is what it waits for or has. */
static struct job_wait *add_wait(struct pass *pass, const struct member *member, enum job_wait_for what,
				 const struct job_alloc *alloc, int64_t until_ms)
{
	struct job_decisions *ret = pass->ret;
	struct job_wait *wait = ret->n_waits < JOB_WAITS_MAX ? &ret->waits[ret->n_waits++] : &pass->unnamed;

	if (member->group < pass->job->n_groups)
		ret->groups[member->group].waiting++;
	ret->waits_for |= UINT32_C(1) << what;
	*wait = (struct job_wait){.group = member->group,
				  .index = member->index,
				  .what = what,
				  .alloc_id = alloc ? alloc->id : NULL,
				  .node_id = alloc ? alloc->node_id : member->node_id,
				  .until_ms = until_ms};
	wake_at(pass, until_ms);
	return wait;
}

/* --- what an allocation is --- */

static const struct job_node *find_node(const struct job_world *world, const char *id)
{
	struct job_node key = {.id = id};

	return world->n_nodes == 0 ? NULL
				   : bsearch(&key, world->nodes, world->n_nodes, sizeof(key), compare_nodes);
}

static bool is_away(const struct job_world *world, const struct job_alloc *alloc)
{
	const struct job_node *node = find_node(world, alloc->node_id);

	return !node || !node->is_connected;
}

static int64_t min_healthy_ms(const struct pass *pass, uint32_t group)
{
	return pass->job->type == JOB_BATCH ? 0 : pass->job->groups[group].update.min_healthy_ms;
}

/* A time to come was stored while the clock was ahead: 0, long ago. A step by less passes soon. */
static int64_t past_ms(const struct pass *pass, int64_t time_ms)
{
	return time_ms > pass->world->now_ms + STEP_MS ? 0 : time_ms;
}

/* Was it healthy at some time, until now or its end? */
static bool was_healthy(const struct pass *pass, const struct job_alloc *alloc)
{
	bool is_over = alloc->unhealthy_ms != 0 || has_ended(alloc);
	int64_t until_ms = alloc->unhealthy_ms != 0 ? alloc->unhealthy_ms
			   : is_over		    ? alloc->end_ms
						    : pass->world->now_ms;
	int64_t since_ms = is_over ? alloc->healthy_ms : past_ms(pass, alloc->healthy_ms);

	if (pass->job->type == JOB_BATCH && alloc->client == CLIENT_COMPLETE)
		return true;
	if (is_over && since_ms > until_ms) /* the clock was set back between */
		return true;
	return alloc->healthy_ms > 0 && until_ms - since_ms >= min_healthy_ms(pass, alloc->group);
}

static bool is_healthy(const struct pass *pass, const struct job_alloc *alloc)
{
	return alloc->client == CLIENT_RUNNING && alloc->unhealthy_ms == 0 && was_healthy(pass, alloc) &&
	       !is_away(pass->world, alloc);
}

/* It ended by itself, and should not have. */
static bool has_failed(const struct pass *pass, const struct job_alloc *alloc)
{
	if (alloc->desired == DESIRED_STOP || alloc->lost_race)
		return false;
	return alloc->client == CLIENT_FAILED ||
	       (alloc->client == CLIENT_COMPLETE && pass->job->type != JOB_BATCH);
}

static bool is_too_many(const struct job_spec *job, const struct job_alloc *alloc)
{
	return alloc->group == JOB_GROUP_GONE ||
	       (job->type != JOB_SYSTEM && alloc->index >= job->groups[alloc->group].count);
}

static bool runs_version(const struct job_spec *job, const struct job_alloc *alloc)
{
	return alloc->group < job->n_groups && alloc->content == job->groups[alloc->group].content &&
	       alloc->version >= job->restart_version;
}

bool job_alloc_is_old(const struct job_spec *job, const struct job_alloc *alloc)
{
	return !has_ended(alloc) && !is_too_many(job, alloc) && !runs_version(job, alloc);
}

/* --- members --- */

/* Did it do the member's work in this version? */
static bool has_done(const struct pass *pass, const struct job_alloc *alloc)
{
	return pass->job->type == JOB_BATCH && runs_version(pass->job, alloc) &&
	       alloc->client == CLIENT_COMPLETE && alloc->desired != DESIRED_STOP;
}

static bool is_done(const struct pass *pass, const struct member *member)
{
	for (size_t i = 0; i < member->n_allocs; i++)
		if (has_done(pass, &member->allocs[i]))
			return true;
	return false;
}

static enum member_state member_state(const struct pass *pass, const struct member *member)
{
	const struct job_alloc *live = member->live;
	bool healthy;

	if (!live)
		return is_done(pass, member) ? MEMBER_DONE : MEMBER_MISSING;
	if (live->desired == DESIRED_STOP)
		return MEMBER_STOPPING;
	if (live->is_queued)
		return runs_version(pass->job, live) ? MEMBER_QUEUED : MEMBER_OLD_QUEUED;
	healthy = is_healthy(pass, live);
	if (runs_version(pass->job, live))
		return healthy ? MEMBER_CURRENT : MEMBER_STARTING;
	return healthy ? MEMBER_OLD : MEMBER_OLD_STARTING;
}

typedef void member_fn(struct pass *pass, const struct member *member);

/* Returns the allocations of @group, which are adjacent. */
static struct job_alloc *group_allocs(const struct job_world *world, uint32_t group, size_t *ret_n)
{
	size_t low = 0, high = world->n_allocs, end;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (world->allocs[middle].group < group)
			low = middle + 1;
		else
			high = middle;
	}
	for (end = low; end < world->n_allocs && world->allocs[end].group == group; end++)
		;
	*ret_n = end - low;
	return world->allocs + low;
}

/* Completes @member, whose allocations are @allocs, and hands it on. */
static void visit(struct pass *pass, struct member *member, struct job_alloc *allocs, size_t n, member_fn *fn)
{
	member->allocs = allocs;
	member->n_allocs = n;
	member->live = n > 0 && !has_ended(&allocs[0]) ? &allocs[0] : NULL;
	member->state = member_state(pass, member);
	fn(pass, member);
}

static void for_each_index(struct pass *pass, uint32_t group, member_fn *fn)
{
	size_t n, from = 0, to;
	struct job_alloc *allocs = group_allocs(pass->world, group, &n);

	for (uint32_t index = 0; index < pass->job->groups[group].count; index++, from = to) {
		struct member member = {.group = group, .index = index};

		for (to = from; to < n && allocs[to].index == index; to++)
			;
		visit(pass, &member, allocs + from, to - from, fn);
	}
}

static bool excludes(const struct job_node *node, uint32_t group)
{
	return (node->excluded_groups >> group & 1) != 0;
}

/* Eligible nodes, and others where it runs: they keep what they have. */
static void for_each_node(struct pass *pass, uint32_t group, member_fn *fn)
{
	const struct job_world *world = pass->world;
	size_t n, from = 0, to, node = 0;
	struct job_alloc *allocs = group_allocs(world, group, &n);

	while (node < world->n_nodes || from < n) {
		int order = node == world->n_nodes ? 1
			    : from == n		   ? -1
						   : strcmp(world->nodes[node].id, allocs[from].node_id);
		bool is_eligible =
			order <= 0 && world->nodes[node].is_eligible && !excludes(&world->nodes[node], group);
		struct member member = {.group = group,
					.node_id = order <= 0 ? world->nodes[node].id : allocs[from].node_id};

		for (to = from; order >= 0 && to < n && str_eq(allocs[to].node_id, member.node_id); to++)
			;
		if (is_eligible || (to > from && !has_ended(&allocs[from])))
			visit(pass, &member, allocs + from, to - from, fn);
		node += order <= 0;
		from = to;
	}
}

static void for_each_member(struct pass *pass, member_fn *fn)
{
	for (uint32_t group = 0; group < pass->job->n_groups; group++) {
		if (pass->job->type == JOB_SYSTEM)
			for_each_node(pass, group, fn);
		else
			for_each_index(pass, group, fn);
	}
}

/* --- the update --- */

/* May its node take the next version, or lose the group? The member of a system job is replaced on no other
 * node. */
static bool may_be_replaced(const struct pass *pass, const struct member *member)
{
	const struct job_node *node = member->node_id ? find_node(pass->world, member->node_id) : NULL;

	return !member->node_id || (node && (node->is_eligible || excludes(node, member->group)));
}

static void count_member(struct pass *pass, const struct member *member)
{
	struct job_counts *counts = &pass->ret->groups[member->group];
	struct tally *tally = &pass->tallies[member->group];

	counts->desired++;
	counts->placed += member->live && !member->live->is_queued;
	counts->done += member->state == MEMBER_DONE;
	counts->current += member->state == MEMBER_CURRENT;
	counts->healthy += member->state == MEMBER_CURRENT || member->state == MEMBER_OLD;
	counts->missing += member->state == MEMBER_MISSING || member->state == MEMBER_QUEUED ||
			   member->state == MEMBER_OLD_QUEUED;
	counts->replaced += member->state == MEMBER_OLD || member->state == MEMBER_OLD_STARTING;
	counts->in_place += member->live && member->live->version != pass->job->version &&
			    (member->state == MEMBER_CURRENT || member->state == MEMBER_STARTING);
	tally->n_old += member->state == MEMBER_OLD;
	tally->n_old_starting += member->state == MEMBER_OLD_STARTING && may_be_replaced(pass, member);
	tally->away += member->state == MEMBER_MISSING || member->state == MEMBER_STOPPING ||
		       member->state == MEMBER_STARTING || member->state == MEMBER_QUEUED ||
		       member->state == MEMBER_OLD_QUEUED;
	pass->n_unsettled += member->state != MEMBER_CURRENT && member->state != MEMBER_DONE;
}

/* Returns when the first try in this version must be healthy; 0: it was healthy, or was not tried. */
static int64_t deadline_of(const struct pass *pass, const struct member *member)
{
	int64_t first_ms = 0;

	for (size_t i = 0; i < member->n_allocs; i++) {
		const struct job_alloc *alloc = &member->allocs[i];

		if (!runs_version(pass->job, alloc))
			continue;
		if (was_healthy(pass, alloc))
			return 0;
		if (alloc->is_queued || (has_ended(alloc) && !has_failed(pass, alloc)))
			continue;
		if (first_ms == 0 || alloc->create_ms < first_ms)
			first_ms = alloc->create_ms;
	}
	if (first_ms != 0)
		first_ms = MAX(first_ms, past_ms(pass, pass->job->submit_ms));
	return first_ms == 0 ? 0 : first_ms + pass->job->groups[member->group].update.healthy_deadline_ms;
}

static void check_deadline(struct pass *pass, const struct member *member)
{
	struct job_action *action;
	int64_t deadline_ms;

	if (pass->update != JOB_UPDATE_RUNNING || pass->job->type == JOB_BATCH ||
	    pass->job->groups[member->group].update.healthy_deadline_ms == 0)
		return;
	deadline_ms = deadline_of(pass, member);
	wake_at(pass, deadline_ms);
	if (deadline_ms == 0 || pass->world->now_ms < deadline_ms)
		return;
	pass->update = JOB_UPDATE_FAILED;
	action = add_action(pass, JOB_FAIL_UPDATE, member->group, member->index);
	if (action) {
		action->alloc_id = member->allocs[0].id;
		action->node_id = member->allocs[0].node_id;
	}
}

/* How many members of an older version may be stopped now. */
static void grant_slots(struct pass *pass)
{
	for (size_t i = 0; i < pass->job->n_groups && pass->update != JOB_UPDATE_FAILED; i++) {
		struct tally *tally = &pass->tallies[i];
		uint32_t max = pass->job->groups[i].update.max_parallel;
		uint32_t slots;

		max = max == 0 ? 1 : max;
		slots = tally->away < max ? max - tally->away : 0;
		tally->slots_starting = slots < tally->n_old_starting ? slots : tally->n_old_starting;
		tally->slots = slots - tally->slots_starting;
	}
}

static void settle_update(struct pass *pass)
{
	if (pass->update == JOB_UPDATE_RUNNING && pass->n_unsettled == 0)
		(void)add_action(pass, JOB_END_UPDATE, 0, 0);
}

/* --- volumes --- */

void job_volume_id(const struct job_volume *volume, uint32_t index, char ret[static VOLUME_ID_MAX + 1])
{
	int r = volume->per_alloc ? str_format(ret, VOLUME_ID_MAX + 1, "%s[%u]", volume->source, index)
				  : str_copy(ret, VOLUME_ID_MAX + 1, volume->source);

	assert(r >= 0);
	(void)r;
}

/* Could @volume be used in addition to the holder on some node? The placement chooses that node. */
static bool has_room(const struct job_volume *volume, enum access_mode held_access, enum claim_mode held_mode)
{
	/* of the native plugin, which stages a volume on one node in several modes */
	struct claim held = {.mode = held_mode, .access_mode = held_access, .plugin_id = PLUGIN_NATIVE};
	const struct claim *claims[] = {&held};
	const struct claim *blocker;

	return admission_has_room((struct capability){.access_mode = volume->access_mode}, volume->mode, "",
				  claims, 1, &blocker);
}

/* Finds a holder other than @live (NULL: any holder) that excludes the member. */
static const struct job_holder *find_blocker(const struct job_world *world, const struct job_volume *volume,
					     const char *id, const struct job_alloc *live)
{
	size_t low = 0, high = world->n_holders;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(world->holders[middle].volume_id, id) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < world->n_holders && str_eq(world->holders[low].volume_id, id); low++) {
		const struct job_holder *holder = &world->holders[low];
		bool is_own = live && holder->alloc_id && str_eq(holder->alloc_id, live->id) &&
			      str_eq(holder->node_id, live->node_id);

		if (!is_own && !has_room(volume, holder->access_mode, holder->mode))
			return holder;
	}
	return NULL;
}

/* Is each volume of the member's next version free for it, or held by what it replaces? Else it waits for the
 * first that is not. */
static bool volumes_are_free(struct pass *pass, const struct member *member)
{
	const struct job_group *group = &pass->job->groups[member->group];

	for (size_t i = 0; i < group->n_volumes; i++) {
		const struct job_volume *volume = &group->volumes[i];
		const struct job_holder *holder;
		struct job_wait *wait;
		char id[VOLUME_ID_MAX + 1];

		job_volume_id(volume, member->index, id);
		holder = find_blocker(pass->world, volume, id, member->live);
		if (!holder)
			continue;
		wait = add_wait(pass, member, JOB_WAIT_VOLUME, NULL, 0);
		wait->alloc_id = holder->alloc_id;
		wait->node_id = holder->node_id;
		(void)str_copy(wait->volume_id, sizeof(wait->volume_id), id);
		return false;
	}
	return true;
}

/* --- placing --- */

/* Is there a node to which it could go? Else it waits for one. */
static bool has_node(struct pass *pass, const struct member *member)
{
	const struct job_node *node = member->node_id ? find_node(pass->world, member->node_id) : NULL;

	if (member->node_id ? node && node->is_eligible : pass->n_eligible > 0)
		return true;
	(void)add_wait(pass, member, JOB_WAIT_NODE, NULL, 0);
	return false;
}

/* A submission resets the count. */
static bool counts_as_failure(const struct pass *pass, const struct job_alloc *alloc)
{
	return runs_version(pass->job, alloc) && has_failed(pass, alloc) &&
	       alloc->end_ms >= past_ms(pass, pass->job->submit_ms);
}

static const struct job_refusal *find_refusal(const struct job_world *world, const struct member *member,
					      uint32_t index)
{
	struct job_refusal key = {.group = member->group, .index = index, .node_id = member->node_id};

	return world->n_refusals == 0
		       ? NULL
		       : bsearch(&key, world->refusals, world->n_refusals, sizeof(key), compare_refusals);
}

/* Was no place found for it, or for any of its group? It waits then. */
static bool is_refused(struct pass *pass, const struct member *member)
{
	const struct job_refusal *refusal = find_refusal(pass->world, member, member->index);

	if (!refusal)
		refusal = find_refusal(pass->world, member, JOB_EVERY_INDEX);
	if (!refusal)
		return false;
	add_wait(pass, member, JOB_WAIT_PLACE, member->live, 0)->reason = refusal->reason;
	return true;
}

/* Does the policy after failures let it be placed now? Else it waits. */
static bool may_reschedule(struct pass *pass, const struct member *member)
{
	const struct job_reschedule *policy = &pass->job->groups[member->group].reschedule;
	const struct job_alloc *failed = member->n_allocs > 0 && counts_as_failure(pass, &member->allocs[0])
						 ? &member->allocs[0]
						 : NULL;
	int64_t now_ms = pass->world->now_ms, oldest_ms = 0, last_ms = 0;
	uint32_t n_failed = 0;

	if (failed && policy->attempts == 0 && !policy->unlimited) {
		(void)add_wait(pass, member, JOB_WAIT_ATTEMPTS, failed, 0);
		return false;
	}
	for (size_t i = 0; i < member->n_allocs; i++) {
		int64_t end_ms = member->allocs[i].end_ms;

		if (!counts_as_failure(pass, &member->allocs[i]))
			continue;
		last_ms = MAX(last_ms, end_ms);
		if (end_ms + policy->interval_ms <= now_ms)
			continue;
		n_failed++;
		if (n_failed <= policy->attempts + 1)
			oldest_ms = end_ms;
	}
	if (n_failed > policy->attempts && !policy->unlimited) {
		(void)add_wait(pass, member, JOB_WAIT_ATTEMPTS, &member->allocs[0],
			       oldest_ms + policy->interval_ms);
		return false;
	}
	if (!failed || last_ms + policy->delay_ms <= now_ms)
		return true;
	(void)add_wait(pass, member, JOB_WAIT_DELAY, failed, last_ms + policy->delay_ms);
	return false;
}

/* After a failed update, may the member be placed again? Only if it was healthy in this version. */
static bool is_proven(const struct pass *pass, const struct member *member)
{
	if (pass->update != JOB_UPDATE_FAILED)
		return true;
	for (size_t i = 0; i < member->n_allocs; i++)
		if (runs_version(pass->job, &member->allocs[i]) && was_healthy(pass, &member->allocs[i]))
			return true;
	return false;
}

/* Returns the node of the member's last failure, in any version. NULL: the state has no failure of it. */
static const char *find_failed_node(const struct pass *pass, const struct job_alloc *allocs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (has_failed(pass, &allocs[i]))
			return allocs[i].node_id;
	return NULL;
}

static void place_missing(struct pass *pass, const struct member *member)
{
	struct job_action *action;

	if (!is_proven(pass, member)) {
		(void)add_wait(pass, member, JOB_WAIT_NEXT_VERSION, NULL, 0);
		return;
	}
	if (!may_reschedule(pass, member))
		return;
	if (!has_node(pass, member) || is_refused(pass, member))
		return;
	action = add_action(pass, JOB_PLACE, member->group, member->index);
	if (!action)
		return;
	action->node_id = member->node_id;
	action->avoid_node_id = find_failed_node(pass, member->allocs, member->n_allocs);
}

/* It is there, and not healthy. */
static void await_health(struct pass *pass, const struct member *member)
{
	const struct job_alloc *live = member->live;
	bool is_well = live->client == CLIENT_RUNNING && live->healthy_ms > 0 && live->unhealthy_ms == 0;
	int64_t until_ms = is_well ? live->healthy_ms + min_healthy_ms(pass, live->group) : 0;

	if (is_away(pass->world, live))
		(void)add_wait(pass, member, JOB_WAIT_CONNECTION, live, 0);
	else
		add_wait(pass, member, JOB_WAIT_HEALTH, live, until_ms > pass->world->now_ms ? until_ms : 0)
			->reason = live->trouble;
}

static bool is_excluded(const struct pass *pass, const struct member *member)
{
	const struct job_node *node = member->node_id ? find_node(pass->world, member->node_id) : NULL;

	return node && excludes(node, member->group);
}

/* Nothing is stopped that could not be placed again, except where this version excludes the node. */
static void replace_old(struct pass *pass, const struct member *member, uint32_t *slots)
{
	if (pass->update == JOB_UPDATE_FAILED) {
		(void)add_wait(pass, member, JOB_WAIT_NEXT_VERSION, member->live, 0);
	} else if (!may_be_replaced(pass, member)) {
		(void)add_wait(pass, member, JOB_WAIT_NODE, NULL, 0);
	} else if (*slots == 0) {
		(void)add_wait(pass, member, JOB_WAIT_TURN, member->live, 0);
	} else if (is_excluded(pass, member)) {
		(*slots)--;
		add_stop(pass, member->live, JOB_STOP_NODE);
	} else if (has_node(pass, member) && volumes_are_free(pass, member) && !is_refused(pass, member)) {
		(*slots)--;
		add_stop(pass, member->live, JOB_STOP_VERSION);
	}
}

/* Nothing runs that could be lost. */
static void replace_queued(struct pass *pass, const struct member *member)
{
	if (pass->update == JOB_UPDATE_FAILED)
		(void)add_wait(pass, member, JOB_WAIT_NEXT_VERSION, member->live, 0);
	else
		add_stop(pass, member->live, JOB_STOP_VERSION);
}

static void stop_duplicates(struct pass *pass, const struct member *member)
{
	for (size_t i = 1; i < member->n_allocs && !has_ended(&member->allocs[i]); i++)
		if (member->allocs[i].desired != DESIRED_STOP)
			add_stop(pass, &member->allocs[i], JOB_STOP_DUPLICATE);
}

static void decide_member(struct pass *pass, const struct member *member)
{
	struct tally *tally = &pass->tallies[member->group];

	stop_duplicates(pass, member);
	switch (member->state) {
	case MEMBER_MISSING:
		place_missing(pass, member);
		break;
	case MEMBER_STOPPING:
		(void)add_wait(pass, member, JOB_WAIT_STOP, member->live, 0);
		break;
	case MEMBER_STARTING:
		await_health(pass, member);
		break;
	case MEMBER_QUEUED:
		(void)add_wait(pass, member, JOB_WAIT_QUEUE, member->live, 0);
		break;
	case MEMBER_OLD_QUEUED:
		replace_queued(pass, member);
		break;
	case MEMBER_OLD_STARTING:
		replace_old(pass, member, &tally->slots_starting);
		break;
	case MEMBER_OLD:
		replace_old(pass, member, &tally->slots);
		break;
	case MEMBER_DONE:
	case MEMBER_CURRENT:
		break;
	}
}

/* --- the job --- */

/* Stops members that the job no longer wants, the highest indexes first. */
static void stop_surplus(struct pass *pass)
{
	for (size_t i = pass->world->n_allocs; i-- > 0;) {
		const struct job_alloc *alloc = &pass->world->allocs[i];
		struct member member = {.group = alloc->group, .index = alloc->index};

		pass->n_live += !has_ended(alloc);
		if (has_ended(alloc) || (!pass->job->stop && !is_too_many(pass->job, alloc)))
			continue;
		if (alloc->group == JOB_GROUP_GONE)
			pass->ret->surplus++;
		else
			pass->ret->groups[alloc->group].surplus++;
		if (alloc->desired == DESIRED_STOP)
			(void)add_wait(pass, &member, JOB_WAIT_STOP, alloc, 0);
		else
			add_stop(pass, alloc,
				 alloc->is_stranger		  ? JOB_STOP_STRANGER
				 : pass->job->stop		  ? JOB_STOP_JOB
				 : alloc->group == JOB_GROUP_GONE ? JOB_STOP_GROUP
								  : JOB_STOP_COUNT);
	}
}

static bool is_placed_now(const struct pass *pass, const struct job_alloc *alloc)
{
	for (size_t i = 0; i < pass->ret->n_actions; i++) {
		const struct job_action *action = &pass->ret->actions[i];

		if (action->type == JOB_PLACE && action->group == alloc->group &&
		    (action->node_id ? str_eq(action->node_id, alloc->node_id)
				     : action->index == alloc->index))
			return true;
	}
	return false;
}

/* Ends places that no member follows: each keeps others from the volume. */
static void drop_places(struct pass *pass)
{
	for (size_t i = 0; i < pass->world->n_allocs && !pass->ret->is_cut; i++) {
		const struct job_alloc *alloc = &pass->world->allocs[i];
		struct job_action *action;

		if (!alloc->keeps_place || !has_ended(alloc) || is_placed_now(pass, alloc))
			continue;
		action = add_action(pass, JOB_DROP_PLACE, alloc->group, alloc->index);
		if (action)
			action->alloc_id = alloc->id;
	}
}

/* --- what ended --- */

/* Is @b of the same member as @a? */
static bool is_same_member(const struct pass *pass, const struct job_alloc *a, const struct job_alloc *b)
{
	return a->group == b->group &&
	       (pass->job->type == JOB_SYSTEM ? str_eq(a->node_id, b->node_id) : a->index == b->index);
}

/* Until when does it count in may_reschedule(), after @n_failed later ones? 0: it does not. */
static int64_t counts_until_ms(const struct pass *pass, const struct job_alloc *alloc, uint32_t n_failed)
{
	const struct job_reschedule *policy = &pass->job->groups[alloc->group].reschedule;

	return policy->unlimited || n_failed > policy->attempts ? 0 : alloc->end_ms + policy->interval_ms;
}

/* The deadline of an update counts from the first try, see deadline_of(). */
static void note_first_try(const struct pass *pass, struct job_alloc *alloc, struct job_alloc **first)
{
	if (pass->job->update == JOB_UPDATE_RUNNING && has_failed(pass, alloc) &&
	    (!*first || alloc->create_ms < (*first)->create_ms))
		*first = alloc;
}

static int64_t later(int64_t a_ms, int64_t b_ms)
{
	return a_ms > b_ms ? a_ms : b_ms;
}

/* Finds out which of the ended allocations of one member, @allocs, are needed, and for how long. */
static void mark_member(const struct pass *pass, struct job_alloc *allocs, size_t n)
{
	struct job_alloc *healthy = NULL, *first = NULL;
	uint32_t n_failed = 0;

	allocs[0].avoid_node_id = allocs[0].is_queued ? find_failed_node(pass, allocs, n) : NULL;
	for (size_t i = 0; i < n; i++) {
		struct job_alloc *alloc = &allocs[i];
		bool is_last = i == 0 && !is_too_many(pass->job, alloc);

		if (!has_ended(alloc))
			continue;
		alloc->needed_until_ms = is_last || alloc->keeps_place ? JOB_NEEDS_ALWAYS : 0;
		if (!runs_version(pass->job, alloc))
			continue;
		if (counts_as_failure(pass, alloc))
			alloc->needed_until_ms =
				later(alloc->needed_until_ms, counts_until_ms(pass, alloc, n_failed++));
		if (has_done(pass, alloc))
			alloc->needed_until_ms = JOB_NEEDS_ALWAYS;
		if (!healthy && was_healthy(pass, alloc))
			healthy = alloc;
		note_first_try(pass, alloc, &first);
	}
	if (healthy)
		healthy->needed_until_ms = JOB_NEEDS_ALWAYS;
	if (first && !healthy)
		first->needed_until_ms = JOB_NEEDS_ALWAYS;
}

static void mark_needed(const struct pass *pass)
{
	struct job_alloc *allocs = pass->world->allocs;
	size_t n = pass->world->n_allocs;

	for (size_t from = 0, to; from < n; from = to) {
		for (to = from + 1; to < n && is_same_member(pass, &allocs[from], &allocs[to]); to++)
			;
		mark_member(pass, allocs + from, to - from);
	}
}

static enum job_state job_state(const struct pass *pass)
{
	if (pass->job->stop)
		return pass->n_live > 0 ? JOB_STATE_STOPPING : JOB_STATE_STOPPED;
	if (pass->n_unsettled > 0 || pass->ret->n_actions > 0 || pass->ret->n_waits > 0)
		return JOB_STATE_PENDING;
	return pass->job->type == JOB_BATCH && pass->n_live == 0 ? JOB_STATE_COMPLETE : JOB_STATE_RUNNING;
}

static bool is_group_right(const struct job_spec *job, const struct job_group *group)
{
	for (size_t i = 0; i < group->n_volumes; i++)
		if (group->volumes[i].per_alloc && job->type == JOB_SYSTEM)
			return false;
	return group->count <= JOB_COUNT_MAX;
}

static void check_world(const struct job_world *world)
{
	const struct job_spec *job = world->job;

	assert(job->type > JOB_TYPE_UNSPECIFIED && job->type < JOB_TYPE_N);
	assert(job->n_groups <= JOB_GROUPS_MAX);
	for (size_t i = 0; i < job->n_groups; i++)
		assert(is_group_right(job, &job->groups[i]));
	for (size_t i = 0; i < world->n_allocs; i++)
		assert(world->allocs[i].group < job->n_groups || world->allocs[i].group == JOB_GROUP_GONE);
}

void job_reconcile(const struct job_world *world, struct job_decisions *ret)
{
	struct pass pass = {.world = world, .job = world->job, .ret = ret, .update = world->job->update};

	check_world(world);
	*ret = (struct job_decisions){.n_actions = 0};
	for (size_t i = 0; i < world->n_allocs; i++) /* the one that ended last counts */
		world->allocs[i].end_ms = past_ms(&pass, world->allocs[i].end_ms);
	put_in_order(world);
	for (size_t i = 0; i < world->n_nodes; i++)
		pass.n_eligible += world->nodes[i].is_eligible;
	stop_surplus(&pass);
	if (!world->job->stop) {
		for_each_member(&pass, count_member);
		for_each_member(&pass, check_deadline);
		settle_update(&pass);
		grant_slots(&pass);
		for_each_member(&pass, decide_member);
	}
	drop_places(&pass);
	mark_needed(&pass);
	ret->state = job_state(&pass);
}

/* --- for people --- */

static const char *or_nobody(const char *text)
{
	return text ? text : "?";
}

static void volume_text(const struct job_wait *wait, const char *namespace,
			char ret[static JOB_WAIT_TEXT_SIZE])
{
	if (wait->alloc_id)
		(void)snprintf(ret, JOB_WAIT_TEXT_SIZE,
			       "waits for volume %s, which allocation %s on node %s holds; holdfast volume "
			       "status %s%s%s --why",
			       wait->volume_id, wait->alloc_id, or_nobody(wait->node_id), wait->volume_id,
			       NAMESPACE_OPTION(namespace));
	else
		(void)snprintf(ret, JOB_WAIT_TEXT_SIZE,
			       "waits for volume %s, whose %s; holdfast volume status %s%s%s --why",
			       wait->volume_id,
			       wait->node_id ? "storage " FOREIGN_VOLUME " holds" : "holder is not known",
			       wait->volume_id, NAMESPACE_OPTION(namespace));
}

static void until_text(const struct job_wait *wait, const char *text, char ret[static JOB_WAIT_TEXT_SIZE])
{
	char time[CLOCK_TEXT_SIZE];

	(void)snprintf(ret, JOB_WAIT_TEXT_SIZE, "%s until %s", text, clock_format(wait->until_ms, time));
}

/* The text before and behind "allocation A on node N". */
static const char *const wait_texts[JOB_WAIT_N][2] = {
	[JOB_WAIT_STOP] = {"waits for the end of", ", which must stop"},
	[JOB_WAIT_HEALTH] = {"waits for", " to be healthy"},
	[JOB_WAIT_CONNECTION] = {"keeps", ", which is not connected: what became of it is not known"},
	[JOB_WAIT_TURN] = {"keeps", " of an earlier version until members before it are healthy"},
	[JOB_WAIT_NEXT_VERSION] = {"keeps",
				   " of an older version: the update failed; submit another version"},
};

const char *job_wait_text(const struct job_wait *wait, const char *namespace,
			  char ret[static JOB_WAIT_TEXT_SIZE])
{
	bool has_node = wait->node_id && wait->node_id[0] != '\0';

	assert(wait->what < JOB_WAIT_N);
	if (wait->what == JOB_WAIT_VOLUME)
		volume_text(wait, namespace, ret);
	else if (wait->what == JOB_WAIT_QUEUE)
		(void)snprintf(ret, JOB_WAIT_TEXT_SIZE, "is pending as allocation %s%s%s",
			       or_nobody(wait->alloc_id), has_node ? " for node " : "",
			       has_node ? wait->node_id : "");
	else if (wait->what == JOB_WAIT_NODE && wait->node_id)
		(void)snprintf(ret, JOB_WAIT_TEXT_SIZE,
			       "waits for node %s, which takes no allocations now; holdfast node status %s",
			       wait->node_id, wait->node_id);
	else if (wait->what == JOB_WAIT_NODE)
		(void)snprintf(ret, JOB_WAIT_TEXT_SIZE,
			       "waits for a node that takes allocations: no node is connected, eligible and "
			       "not draining; holdfast node status");
	else if (wait->what == JOB_WAIT_PLACE && wait->alloc_id)
		(void)snprintf(ret, JOB_WAIT_TEXT_SIZE,
			       "keeps allocation %s on node %s of an earlier version: no node can take the "
			       "next one",
			       wait->alloc_id, or_nobody(wait->node_id));
	else if (wait->what == JOB_WAIT_PLACE)
		(void)snprintf(ret, JOB_WAIT_TEXT_SIZE, "waits to be placed%s%s, which is impossible now",
			       wait->node_id ? " on node " : "", wait->node_id ? wait->node_id : "");
	else if (wait->what == JOB_WAIT_HEALTH && wait->reason)
		(void)snprintf(ret, JOB_WAIT_TEXT_SIZE,
			       "waits for allocation %s on node %s to be healthy: %s; holdfast alloc status "
			       "%s",
			       or_nobody(wait->alloc_id), or_nobody(wait->node_id), wait->reason,
			       or_nobody(wait->alloc_id));
	else if (wait->what == JOB_WAIT_DELAY)
		until_text(wait, "its allocation failed; waits", ret);
	else if (wait->what == JOB_WAIT_ATTEMPTS && wait->until_ms == 0)
		(void)snprintf(ret, JOB_WAIT_TEXT_SIZE,
			       "its allocation failed, and its reschedule block has no attempts; submit "
			       "another version, or holdfast job restart");
	else if (wait->what == JOB_WAIT_ATTEMPTS)
		until_text(wait, "its allocations failed too often for its reschedule block; waits", ret);
	else if (wait->what == JOB_WAIT_NEXT_VERSION && !wait->alloc_id)
		(void)snprintf(ret, JOB_WAIT_TEXT_SIZE,
			       "the update failed and places nothing further; submit another version");
	else
		(void)snprintf(ret, JOB_WAIT_TEXT_SIZE, "%s allocation %s on node %s%s",
			       wait_texts[wait->what][0], or_nobody(wait->alloc_id), or_nobody(wait->node_id),
			       wait_texts[wait->what][1]);
	return ret;
}

static const char *name_of(const char *const *names, size_t n, size_t value)
{
	return value < n ? names[value] : "invalid";
}

const char *job_type_name(enum job_type type)
{
	static const char *const names[] = {"unspecified", "service", "system", "batch"};

	return name_of(names, ARRAY_SIZE(names), type);
}

const char *job_state_name(enum job_state state)
{
	static const char *const names[] = {"pending", "running", "complete", "stopping", "stopped"};

	return name_of(names, ARRAY_SIZE(names), state);
}

const char *job_stop_reason_text(enum job_stop_reason reason)
{
	static const char *const texts[] = {"the job is stopped",
					    "count was lowered",
					    "its group is gone",
					    "it is replaced: this version runs something else",
					    "another allocation is there for the same member",
					    "a constraint of this version excludes its node",
					    "only its node knows it, and nothing proves that it is a member"};

	return name_of(texts, ARRAY_SIZE(texts), reason);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "job/job_work.h"

#include "server.h"

#include "access/audit.h"
#include "alloc/allocs.h"
#include "alloc/placement.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "claim/refusal.h"
#include "log/log.h"
#include "model/alloc_health.h"
#include "model/constraint.h"
#include "model/message.h"
#include "node/nodes.h"
#include "recovery/epoch.h"
#include "rpc/timer.h"
#include "rpc/wakeup.h"
#include "state/change.h"
#include "state/keys.h"
#include "state/storage_index.h"

#include <assert.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

enum {
	PASS_REST = 4, /* times the cost of a pass */
};
#define RETRY_US (5 * USEC_PER_SEC)  /* after what the store refused */
#define TURN_US (10 * USEC_PER_MSEC) /* of one turn, after which no further action begins in it */
#define REST_MAX_US (USEC_PER_SEC / 2)
#define PLAN_US (50 * USEC_PER_MSEC) /* of one plan, after which no further place is tried */

/* The counts of one group. */
struct wanted {
	char plugin_id[PLUGIN_ID_MAX + 1];
	int64_t nodes, controllers;
};

struct job_work {
	const char *key; /* of the array below: the tree's key */
	struct job_lane *lane;
	char job_key[OBJECT_KEY_SIZE];
	RB_ENTRY(job_work) by_key;
	TAILQ_ENTRY(job_work) in_queue;
	TAILQ_ENTRY(job_work) of_waiting;
	struct server *server;
	sd_event_source *timer; /* owned */
	bool is_queued;
	bool is_waiting; /* waits for something other than its own allocations: it is in the list of those */
	struct job_refusals refusals; /* of this pass over its members, until the next event */
	bool is_stale;		      /* the next event has come, and the pass is not at its end */
	uint64_t pass_us;	      /* that the pass has cost so far */
	uint64_t next_pass_us;	      /* monotonic: a pass that refused members is not repeated before */
	char trouble[ERROR_MSG_MAX];  /* of the store */
	struct wanted *wanted;	      /* owned: counted for its plugins, members without an allocation */
	size_t n_wanted;
	size_t bytes; /* that are charged to its namespace */
};
RB_HEAD(job_work_tree, job_work);
TAILQ_HEAD(job_work_queue, job_work);

/* The jobs of one namespace. Namespaces take turns: many jobs of one delay a job of another by one turn. */
struct job_lane {
	TAILQ_ENTRY(job_lane) in_ready;
	struct job_works *works;
	char namespace[NAMESPACE_MAX + 1];
	struct job_work_queue queue;
	sd_event_source *rest; /* owned; NULL: it does not rest */
	size_t n_works;	       /* queued or not; without any it is freed */
	bool is_ready;	       /* has a queue and takes no rest: it is in the list of those */
};

struct job_works {
	struct job_work_tree by_key;
	TAILQ_HEAD(, job_lane) ready;  /* the first has the next turn */
	struct job_work_queue waiting; /* in the order in which they began to */
	sd_event_source *turn;	       /* owned; enabled while a lane is ready */
	uint64_t n_resting;
};

static int compare(const struct job_work *a, const struct job_work *b)
{
	return strcmp(a->key, b->key);
}

TREE_GENERATE(job_work_tree, job_work, by_key, compare)

/* --- present state --- */

static uint32_t group_number(const struct job_spec *spec, const char *name)
{
	for (uint32_t i = 0; i < spec->n_groups; i++)
		if (str_eq(spec->groups[i].name, name))
			return i;
	return JOB_GROUP_GONE;
}

/* Does the group exclude the node, as far as the node's attributes are known? */
static bool is_excluded(const Holdfast__V1__JobGroup *group, const struct node_entry *node)
{
	const Holdfast__V1__Allocation *alloc = group->allocation;

	return !constraints_allow_node(alloc->constraints, alloc->n_constraints, node->id, node->attributes);
}

bool job_has_member(const Holdfast__V1__Job *job, const struct alloc_entry *entry)
{
	const struct alloc *alloc = &entry->alloc;

	if (!alloc->adopted)
		return true;
	if ((enum job_type)job->type != JOB_SYSTEM)
		return alloc->member_generation > 0;
	for (size_t i = 0; i < job->n_groups; i++)
		if (str_eq(job->groups[i]->name, alloc->job_group))
			return !is_excluded(job->groups[i], entry->node);
	return false;
}

static void note_needed(struct alloc_entry *entry, uint64_t version, int64_t until_ms)
{
	entry->decided_version = version;
	entry->needed_until_ms = until_ms;
}

/* Without memory, it is placed like one that has not failed. @entry NULL: the server ends without memory. */
static void note_avoided(struct alloc_entry *entry, const char *node_id)
{
	char *before = entry ? entry->avoid_node_id : NULL;

	if (entry)
		entry->avoid_node_id = node_id ? strdup(node_id) : NULL;
	free(before);
}

/* Is work that is no member to be stopped? Not before its node has reported its claims, and not because the
 * server does not know the attributes of a node that is away. */
static bool must_stop(const Holdfast__V1__Job *job, const struct alloc_entry *entry)
{
	return entry->alloc.desired_status != DESIRED_STOP && !entry->node->is_unreported &&
	       ((enum job_type)job->type != JOB_SYSTEM || node_is_connected(entry->node));
}

static size_t collect_allocs(const struct job_entry *entry, const Holdfast__V1__Job *job,
			     const struct job_spec *spec, struct job_alloc *ret)
{
	struct alloc_entry *at;
	size_t n = 0;

	if (!entry)
		return 0;
	LIST_FOREACH (at, &entry->allocs, of_job) {
		const struct alloc *alloc = &at->alloc;
		const char *task;
		enum alloc_health health = alloc_health(alloc, &task);
		bool is_member = job_has_member(job, at);

		if (!is_member && !must_stop(job, at))
			continue;
		ret[n++] = (struct job_alloc){
			.id = alloc->id,
			.node_id = alloc_is_pending(alloc) ? alloc_wait_node(alloc) : alloc->node_id,
			.is_queued = alloc_is_pending(alloc),
			.keeps_place = alloc->keeps_place,
			.lost_race = alloc->lost_race,
			.is_adopted = alloc->adopted,
			.proven = alloc->member_generation,
			.is_stranger = !is_member,
			.group = is_member ? group_number(spec, alloc->job_group) : JOB_GROUP_GONE,
			.index = alloc->job_index,
			.version = alloc->job_version,
			.content = alloc->job_content,
			.desired = alloc->desired_status,
			.client = alloc->client_status,
			.create_ms = alloc->place_time_ms > 0 ? alloc->place_time_ms : alloc->create_time_ms,
			.healthy_ms = alloc->healthy_time_ms,
			.unhealthy_ms = alloc->unhealthy_time_ms,
			.trouble = health > ALLOC_NOT_RUNNING ? alloc_health_reason(health) : NULL,
			.end_ms = alloc->end_time_ms,
			.of = at};
	}
	return n;
}

/* A system job has no member where a constraint excludes the node. Other jobs choose among the nodes. The
 * attributes of a node that is away are not known. */
static uint32_t excluded_groups(const Holdfast__V1__Job *job, const struct node_entry *node)
{
	uint32_t excluded = 0;

	if ((enum job_type)job->type != JOB_SYSTEM || !node_is_connected(node))
		return 0;
	for (size_t i = 0; i < job->n_groups; i++)
		if (is_excluded(job->groups[i], node))
			excluded |= UINT32_C(1) << i;
	return excluded;
}

static size_t collect_nodes(struct server *server, const Holdfast__V1__Job *job, struct job_node *ret,
			    size_t size)
{
	size_t n = 0;

	for (struct node_entry *node = state_node_from(&server->state, ""); node && n < size;
	     node = state_node_next(node))
		if (node_is_registered(node))
			ret[n++] = (struct job_node){.id = node->id,
						     .is_connected = node_is_connected(node),
						     .is_eligible = node_is_connected(node) &&
								    !node->node.ineligible &&
								    !node_is_draining(&node->node),
						     .excluded_groups = excluded_groups(job, node)};
	return n;
}

/* The present and future holders of a job's volumes. */
struct holders {
	struct job_holder *list; /* owned */
	size_t n, size;
	bool failed; /* memory is short */
};

static void add_holder(struct holders *holders, const struct job_holder *holder)
{
	if (holders->n == holders->size) {
		size_t size = holders->size == 0 ? 64 : 2 * holders->size;
		struct job_holder *list = reallocarray(holders->list, size, sizeof(*list));

		holders->failed = holders->failed || !list;
		if (!list)
			return;
		holders->list = list;
		holders->size = size;
	}
	holders->list[holders->n++] = *holder;
}

static void add_of_volume(struct server *server, const char *namespace, const char *id,
			  struct holders *holders)
{
	struct volume_entry *entry = state_volume(&server->state, namespace, id);
	const struct claim_entry *claim;
	struct error err;

	if (!entry)
		return;
	if (epoch_check(server, &entry->volume, &err) != STATUS_OK)
		add_holder(holders, &(struct job_holder){.volume_id = entry->id});
	STORAGE_FOREACH_CLAIM (claim, entry) {
		bool is_foreign = !str_eq(claim->claim.namespace, namespace);

		if (claim_is_live(&claim->claim))
			add_holder(holders,
				   &(struct job_holder){.volume_id = entry->id,
							.alloc_id = is_foreign ? NULL
									       : claim->claim.allocation_id,
							.node_id = claim->claim.node_id,
							.access_mode = claim->claim.access_mode,
							.mode = claim->claim.mode});
	}
}

/* Collects the claims on the volumes of the member, the shared ones once for its group. */
static void collect_claims(struct server *server, const char *namespace, const struct job_group *group,
			   uint32_t index, bool *has_shared, struct holders *holders)
{
	char id[VOLUME_ID_MAX + 1];

	for (size_t i = 0; i < group->n_volumes; i++) {
		if (!group->volumes[i].per_alloc && *has_shared)
			continue;
		job_volume_id(&group->volumes[i], index, id);
		add_of_volume(server, namespace, id, holders);
	}
	*has_shared = true;
}

/* Collects the future requests of its own allocations. */
static void collect_requests(const struct job_entry *entry, struct holders *holders)
{
	const struct alloc_entry *at;

	if (!entry)
		return;
	LIST_FOREACH (at, &entry->allocs, of_job)
		for (uint32_t i = 0; i < at->alloc.n_volumes && !alloc_is_client_terminal(&at->alloc); i++) {
			const struct volume_request *request = &at->alloc.volumes[i];

			if (!alloc_is_pending(&at->alloc) && !at->alloc.adopted) /* it gets no new claim */
				add_holder(holders,
					   &(struct job_holder){.volume_id = request->source,
								.alloc_id = at->alloc.id,
								.node_id = at->alloc.node_id,
								.access_mode = request->access_mode,
								.mode = volume_request_mode(request)});
		}
}

/* Only members that may be replaced need them: a decision costs nothing for volumes of missing members. */
static void collect_holders(struct server *server, const char *namespace, const struct job_entry *entry,
			    const struct job_world *world, struct holders *holders)
{
	bool has_shared[JOB_GROUPS_MAX] = {false};
	bool has_old = false;

	for (size_t i = 0; i < world->n_allocs; i++) {
		const struct job_alloc *alloc = &world->allocs[i];

		if (!job_alloc_is_old(world->job, alloc))
			continue;
		has_old = true;
		collect_claims(server, namespace, &world->job->groups[alloc->group], alloc->index,
			       &has_shared[alloc->group], holders);
	}
	if (has_old)
		collect_requests(entry, holders);
}

static void holders_release(struct holders *holders)
{
	free(holders->list);
}

struct job_decisions *job_decide(struct server *server, const Holdfast__V1__Job *job,
				 const struct job_refusals *refusals, bool is_stored, struct job_view *ret)
{
	const char *namespace = job->namespace_;
	const struct job_entry *entry = state_job(&server->state, namespace, job->id);
	cleanup(holders_release) struct holders holders = {.list = NULL};
	cleanup_free struct job_alloc *allocs =
		calloc(entry ? entry->n_allocs + 1 : 1, sizeof(struct job_alloc));
	cleanup_free struct job_node *nodes = calloc(server->state.n_nodes + 1, sizeof(struct job_node));
	struct job_decisions *decisions = calloc(1, sizeof(*decisions));
	struct job_world world = {.job = &ret->spec,
				  .refusals = refusals ? refusals->list : NULL,
				  .n_refusals = refusals ? refusals->n : 0,
				  .now_ms = clock_realtime_ms()};

	job_view_of(job, ret);
	if (allocs && nodes && decisions) {
		world.allocs = allocs;
		world.n_allocs = collect_allocs(entry, job, &ret->spec, allocs);
		world.nodes = nodes;
		world.n_nodes = collect_nodes(server, job, nodes, server->state.n_nodes);
		collect_holders(server, namespace, entry, &world, &holders);
	}
	if (!allocs || !nodes || !decisions || holders.failed) {
		free(decisions);
		return NULL;
	}
	world.holders = holders.list;
	world.n_holders = holders.n;
	job_reconcile(&world, decisions);
	for (size_t i = 0; i < world.n_allocs && is_stored; i++) {
		note_needed(allocs[i].of, job->version, allocs[i].needed_until_ms);
		note_avoided(allocs[i].of, allocs[i].avoid_node_id);
	}
	return decisions;
}

/* --- places --- */

static void refusals_release(struct job_refusals *refusals)
{
	for (size_t i = 0; i < refusals->n; i++)
		free((char *)(uintptr_t)refusals->list[i].node_id);
	free(refusals->list);
	for (size_t i = 0; i < refusals->n_texts; i++)
		free(refusals->texts[i]);
	free(refusals->texts);
	*refusals = (struct job_refusals){.n = 0};
}

static bool is_for(const struct job_refusal *refusal, const struct job_action *action)
{
	if (refusal->group != action->group)
		return false;
	if (refusal->node_id)
		return action->node_id && str_eq(refusal->node_id, action->node_id);
	return (refusal->index <= action->index && action->index <= refusal->index + refusal->n_more) ||
	       (refusal->index == JOB_EVERY_INDEX && action->type == JOB_PLACE);
}

/* Looks from the end: the actions come in the order of the refusals. */
static bool is_refused(const struct job_refusals *refusals, const struct job_action *action)
{
	for (size_t i = refusals->n; i-- > 0;)
		if (is_for(&refusals->list[i], action))
			return true;
	return false;
}

/* May another member of the group find a place where this one did not? */
static bool depends_on_member(const Holdfast__V1__JobGroup *group, const struct job_action *action)
{
	return action->type != JOB_PLACE || action->node_id || group->n_per_alloc > 0;
}

/* Extends the last one by the member behind it, if more are known than are shown: so thousands of refused
 * members cost no memory. */
static bool extend_last(struct job_refusals *refusals, const struct job_refusal *refusal)
{
	struct job_refusal *last = refusals->n > JOB_WAITS_MAX ? &refusals->list[refusals->n - 1] : NULL;

	if (!last || last->index == JOB_EVERY_INDEX || refusal->group != last->group ||
	    refusal->index != last->index + last->n_more + 1)
		return false;
	last->n_more++;
	return true;
}

/* Keeps the text once, and only as many as are shown. NULL when memory is short. */
static const char *keep_text(struct job_refusals *refusals, const char *text)
{
	char *kept;

	for (size_t i = 0; i < refusals->n_texts; i++)
		if (str_eq(refusals->texts[i], text))
			return refusals->texts[i];
	if (refusals->n_texts == JOB_WAITS_MAX)
		return "no node can take it, as others of its job";
	if (!refusals->texts) {
		refusals->texts = calloc(JOB_WAITS_MAX, sizeof(char *));
		refusals->bytes += malloc_usable_size(refusals->texts);
	}
	kept = refusals->texts ? strdup(text) : NULL;
	if (!kept)
		return NULL;
	refusals->bytes += malloc_usable_size(kept);
	refusals->texts[refusals->n_texts++] = kept;
	return kept;
}

/* Without memory it is tried again with the next event. */
static void add_refusal(struct job_refusals *refusals, const Holdfast__V1__Job *job,
			const struct job_action *action, const char *reason)
{
	const Holdfast__V1__JobGroup *group = job->groups[action->group];
	bool is_system = (enum job_type)job->type == JOB_SYSTEM;
	struct job_refusal refusal = {.group = action->group, .index = action->index};

	if (!depends_on_member(group, action))
		refusal.index = JOB_EVERY_INDEX;
	if (is_system)
		refusal.index = 0;
	if (!is_system && extend_last(refusals, &refusal)) {
		refusals->n_members++;
		return;
	}
	if (refusals->n == refusals->size) {
		size_t size = refusals->size == 0 ? 8 : 2 * refusals->size;
		struct job_refusal *list = reallocarray(refusals->list, size, sizeof(*list));

		if (!list)
			return;
		refusals->list = list;
		refusals->bytes += (size - refusals->size) * sizeof(*list);
		refusals->size = size;
	}
	refusal.reason = keep_text(refusals, reason);
	refusal.node_id = is_system && action->node_id ? strdup(action->node_id) : NULL;
	if (!refusal.reason || (is_system && !refusal.node_id)) {
		free((char *)(uintptr_t)refusal.node_id);
		return;
	}
	refusals->bytes += malloc_usable_size((char *)(uintptr_t)refusal.node_id);
	refusals->list[refusals->n++] = refusal;
	refusals->n_members++;
}

/* The allocation of the member, with its node; for JOB_STOP the one that takes the place of the one that
 * stops. @ret: alloc_release() in any case. */
static enum status find_place(struct server *server, const Holdfast__V1__Job *job,
			      const struct job_action *action, struct placement_assumed assumed,
			      struct alloc *ret, struct error *err)
{
	cleanup(refusal_release) struct refusal refusal = {0};

	TRY(job_make_alloc(job, action->group, action->index, ret, err));
	if ((enum job_type)job->type == JOB_SYSTEM)
		(void)str_copy(ret->node_id, sizeof(ret->node_id), action->node_id);
	assumed.avoid = action->avoid_node_id;
	if (action->type == JOB_STOP) {
		assumed.is_dry = true;
		assumed.without = action->alloc_id;
	}
	TRY(epoch_check_alloc(server, ret, err));
	return allocs_try_place(server, ret, &assumed, &refusal, err);
}

/* --- plans --- */

static void drop_places(struct job_plan *plan)
{
	for (size_t i = 0; i < plan->n_placed; i++)
		alloc_release(&plan->placed[i]);
	plan->n_placed = 0;
}

static bool needs_place(const struct job_action *action)
{
	return action->type == JOB_PLACE || (action->type == JOB_STOP && action->reason == JOB_STOP_VERSION);
}

static bool try_place(struct server *server, const Holdfast__V1__Job *job, const struct job_action *action,
		      struct job_plan *plan)
{
	struct placement_assumed assumed = {
		.placed = plan->placed, .n_placed = plan->n_placed, .is_dry = true};
	struct alloc alloc = {0};
	struct error err;
	bool is_found = find_place(server, job, action, assumed, &alloc, &err) == STATUS_OK;

	if (!is_found)
		add_refusal(&plan->refusals, job, action, err.msg);
	if (is_found && action->type == JOB_PLACE)
		plan->placed[plan->n_placed++] = alloc;
	else
		alloc_release(&alloc);
	return is_found;
}

/* Tries the places that were decided on until the time is over, and keeps only the actions that have one.
 * False: others were dropped. */
static bool try_places(struct server *server, const Holdfast__V1__Job *job, struct job_plan *plan,
		       uint64_t until_us)
{
	struct job_decisions *decisions = plan->decisions;
	size_t n_decided = decisions->n_actions;

	decisions->n_actions = 0;
	for (size_t i = 0; i < n_decided; i++) {
		struct job_action action = decisions->actions[i];

		if (!needs_place(&action) ||
		    (clock_monotonic_us() < until_us && !is_refused(&plan->refusals, &action) &&
		     try_place(server, job, &action, plan)))
			decisions->actions[decisions->n_actions++] = action;
	}
	return decisions->n_actions == n_decided;
}

bool job_plan_make(struct server *server, const Holdfast__V1__Job *job, struct job_plan *ret)
{
	uint64_t until_us = clock_monotonic_us() + PLAN_US;

	for (int i = 0; i < JOB_PLAN_DECISIONS_MAX; i++) {
		drop_places(ret);
		free(ret->decisions);
		ret->decisions = job_decide(server, job, &ret->refusals, false, &ret->view);
		if (!ret->decisions)
			return false;
		if (try_places(server, job, ret, until_us))
			return true;
		if (clock_monotonic_us() >= until_us)
			break;
	}
	ret->decisions->is_cut = true;
	return true;
}

void job_plan_release(struct job_plan *plan)
{
	drop_places(plan);
	free(plan->decisions);
	refusals_release(&plan->refusals);
}

/* --- actions --- */

/* Returns the member's last allocation. NULL: it had no allocation, or no one of its job hands a place on. */
static const struct alloc_entry *last_of_member(struct server *server, const struct alloc *alloc)
{
	const struct job_entry *job = state_job(&server->state, alloc->namespace, alloc->job_id);
	const struct alloc_entry *at, *last = NULL;
	bool is_system = alloc->node_id[0] != '\0' || alloc->wait_node_id;
	const char *node_id = alloc->node_id[0] != '\0' ? alloc->node_id : alloc_wait_node(alloc);

	if (!job || job->n_heritable == 0) /* a large job is not searched for each new member */
		return NULL;
	LIST_FOREACH (at, &job->allocs, of_job)
		if (!at->alloc.adopted && str_eq(at->alloc.job_group, alloc->job_group) &&
		    at->alloc.job_index == alloc->job_index &&
		    (!is_system || str_eq(at->alloc.node_id, node_id)) &&
		    (!last || at->alloc.create_time_ms >= last->alloc.create_time_ms))
			last = at;
	return last;
}

static bool share_volume(const struct alloc *a, const struct alloc *b)
{
	for (uint32_t i = 0; i < a->n_volumes; i++)
		for (uint32_t k = 0; k < b->n_volumes; k++)
			if (str_eq(a->volumes[i].source, b->volumes[k].source))
				return true;
	return false;
}

/* Gives @alloc the place of the version before, or of the one that lost a race. A version that asks for other
 * volumes only comes last there. */
static void take_over_place(struct job_work *work, struct change *change, struct alloc *alloc)
{
	const struct alloc_entry *last = last_of_member(work->server, alloc);
	struct alloc before;

	if (!last || !alloc_is_heritable(&last->alloc))
		return;
	if (share_volume(&last->alloc, alloc))
		alloc->queue_index = alloc_arrival(&last->alloc);
	if (!last->alloc.keeps_place)
		return;
	before = last->alloc;
	before.keeps_place = false;
	change_put_alloc(change, &before);
}

static enum status drop_place(struct job_work *work, const char *alloc_id, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	const struct alloc_entry *entry = state_alloc(&work->server->state, alloc_id);
	struct alloc alloc;

	if (!entry)
		return STATUS_OK;
	alloc = entry->alloc;
	alloc.keeps_place = false;
	change_put_alloc(&change, &alloc);
	return change_commit(work->server, &change, NULL, NULL, err);
}

/* In the order of arrival where a volume is taken. */
static enum status place_or_queue(struct job_work *work, const Holdfast__V1__Job *job,
				  const struct job_action *action, struct alloc *ret, struct error *err)
{
	enum status status =
		find_place(work->server, job, action, (struct placement_assumed){.n_placed = 0}, ret, err);

	return status == STATUS_OK || ret->n_volumes == 0 ? status : pending_enter(work->server, ret, 0, err);
}

static enum status place(struct job_work *work, const Holdfast__V1__Job *job, const struct job_action *action,
			 struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	cleanup(alloc_release) struct alloc alloc = {0};
	char object[ALLOC_OBJECT_SIZE], why[AUDIT_WHY_SIZE];

	if (place_or_queue(work, job, action, &alloc, err) != STATUS_OK) {
		add_refusal(&work->refusals, job, action, err->msg);
		return STATUS_OK;
	}
	take_over_place(work, &change, &alloc);
	change_put_alloc(&change, &alloc);
	(void)str_format(why, sizeof(why), "%s, version %" PRIu64 "%s", alloc.name, job->version,
			 alloc_is_pending(&alloc) ? ", waits for a volume" : "");
	audit_own(work->server, &change, "Jobs.Place", alloc_object(&alloc, object), why);
	TRY(allocs_commit(work->server, &change, &alloc, err));
	note_avoided(state_alloc(&work->server->state, alloc.id), action->avoid_node_id);
	return STATUS_OK;
}

/* Nothing is stopped that could not be placed again. */
static bool has_next_place(struct job_work *work, const Holdfast__V1__Job *job,
			   const struct job_action *action)
{
	cleanup(alloc_release) struct alloc alloc = {0};
	struct error err;

	if (!needs_place(action) ||
	    find_place(work->server, job, action, (struct placement_assumed){.n_placed = 0}, &alloc, &err) ==
		    STATUS_OK)
		return true;
	add_refusal(&work->refusals, job, action, err.msg);
	return false;
}

/* Lets the allocation that is staged to stop keep its place until the next version is placed. */
static void keep_place(struct change *change)
{
	struct alloc alloc;

	if (change->n == 0)
		return;
	alloc = *(const struct alloc *)change->objects[0].value;
	alloc.keeps_place = true;
	if (alloc.queue_index == 0)
		alloc.queue_index = alloc.create_index; /* as alloc_arrival() has it: the index of places */
	change_put_alloc(change, &alloc);
}

static enum status stop(struct job_work *work, const Holdfast__V1__Job *job, const struct job_action *action,
			struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	const struct alloc_entry *entry = state_alloc(&work->server->state, action->alloc_id);
	char object[ALLOC_OBJECT_SIZE];

	if (!entry || (!alloc_is_pending(&entry->alloc) && !has_next_place(work, job, action)))
		return STATUS_OK;
	allocs_stage_stop(&change, entry, entry->node);
	if (action->reason == JOB_STOP_VERSION && entry->alloc.n_volumes > 0 && !entry->alloc.adopted)
		keep_place(&change);
	audit_own(work->server, &change, "Jobs.StopAllocation", alloc_object(&entry->alloc, object),
		  job_stop_reason_text(action->reason));
	return allocs_commit(work->server, &change, &entry->alloc, err);
}

void job_version_key(const Holdfast__V1__Job *job, uint64_t version, char ret[static OBJECT_KEY_SIZE])
{
	(void)str_format(ret, OBJECT_KEY_SIZE, PREFIX_JOB_VERSION "%s/%s/%020" PRIu64, job->namespace_,
			 job->id, version);
}

void job_version_stage(struct change *change, const Holdfast__V1__Job *job)
{
	ProtobufCMessage *stored = message_convert(&holdfast__v1__stored_job__descriptor, &job->base);
	char key[OBJECT_KEY_SIZE];

	job_version_key(job, job->version, key);
	change_put_record(change, key, stored); /* NULL fails the change */
	protobuf_c_message_free_unpacked(stored, NULL);
}

static enum status end_update(struct job_work *work, const Holdfast__V1__Job *job,
			      const struct job_action *action, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	bool failed = action->type == JOB_FAIL_UPDATE;
	Holdfast__V1__Job changed = *job;
	char object[AUDIT_OBJECT_SIZE], why[AUDIT_WHY_SIZE];
	const struct alloc_entry *sick = failed ? state_alloc(&work->server->state, action->alloc_id) : NULL;
	char health[ALLOC_HEALTH_TEXT_SIZE] = "";

	if (sick)
		(void)alloc_health_text(&sick->alloc, health);
	changed.update_status = failed ? HOLDFAST__V1__JOB_UPDATE_STATUS__JOB_UPDATE_STATUS_FAILED
				       : HOLDFAST__V1__JOB_UPDATE_STATUS__JOB_UPDATE_STATUS_DONE;
	change_put_record(&change, work->key, &changed.base);
	job_version_stage(&change, &changed);
	(void)str_format(object, sizeof(object), "job %s/%s", job->namespace_, job->id);
	(void)str_format(why, sizeof(why), "version %" PRIu64 " %s%s%s%s", job->version,
			 failed ? "failed: not healthy in time is allocation " : "is healthy",
			 failed ? action->alloc_id : "", health[0] != '\0' ? ": " : "", health);
	audit_own(work->server, &change, "Jobs.Update", object, why);
	return change_commit(work->server, &change, NULL, NULL, err);
}

static enum status carry_out(struct job_work *work, const Holdfast__V1__Job *job,
			     const struct job_action *action, struct error *err)
{
	if (needs_place(action) && namespaces_check_room(&work->server->state.namespaces, job->namespace_,
							 false, err) != STATUS_OK) {
		add_refusal(&work->refusals, job, action, err->msg);
		return STATUS_OK;
	}
	switch (action->type) {
	case JOB_PLACE:
		return place(work, job, action, err);
	case JOB_STOP:
		return stop(work, job, action, err);
	case JOB_DROP_PLACE:
		return drop_place(work, action->alloc_id, err);
	case JOB_END_UPDATE:
	case JOB_FAIL_UPDATE:
		break;
	}
	return end_update(work, job, action, err);
}

/* --- turns --- */

static void set_waiting(struct job_works *works, struct job_work *work, bool is_waiting)
{
	if (work->is_waiting == is_waiting)
		return;
	work->is_waiting = is_waiting;
	if (is_waiting)
		TAILQ_INSERT_TAIL(&works->waiting, work, of_waiting);
	else
		TAILQ_REMOVE(&works->waiting, work, of_waiting);
}

static int on_turn(sd_event_source *source, void *userdata);

/* A lane that becomes ready has its turn after those that are. */
static void update_ready(struct job_lane *lane)
{
	bool is_ready = !TAILQ_EMPTY(&lane->queue) && !lane->rest;

	if (lane->is_ready == is_ready)
		return;
	lane->is_ready = is_ready;
	if (!is_ready) {
		TAILQ_REMOVE(&lane->works->ready, lane, in_ready);
		return;
	}
	TAILQ_INSERT_TAIL(&lane->works->ready, lane, in_ready);
	timer_again(&lane->works->turn, on_turn);
}

static void queue(struct job_work *work)
{
	if (work->is_queued)
		return;
	work->is_queued = true;
	TAILQ_INSERT_TAIL(&work->lane->queue, work, in_queue);
	update_ready(work->lane);
}

static void unqueue(struct job_work *work)
{
	if (!work->is_queued)
		return;
	work->is_queued = false;
	TAILQ_REMOVE(&work->lane->queue, work, in_queue);
	update_ready(work->lane);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata);

static void wake_after(struct job_work *work, uint64_t delay_us)
{
	(void)wakeup_arm(work->server->event, &work->timer, delay_us, on_timer, work, NULL);
}

/* Charges its namespace with what it takes now. */
static void charge(struct job_work *work)
{
	size_t bytes = sizeof(*work) + work->refusals.bytes +
		       work->n_wanted * (sizeof(*work->wanted) + sizeof(struct plugin_entry));

	if (namespaces_charge(&work->server->state.namespaces, work->lane->namespace, bytes - work->bytes, 0))
		work->bytes = bytes;
}

static void forget_refusals(struct job_work *work)
{
	refusals_release(&work->refusals);
	charge(work);
}

/* Something has happened: what found no place may find one. A pass over the members comes to its end first,
 * or the last ones of a large job would never be tried. */
static void wake(struct job_work *work)
{
	uint64_t now_us = clock_monotonic_us();

	if (work->refusals.n > 0 && work->is_queued) {
		work->is_stale = true;
	} else if (work->refusals.n > 0 && now_us < work->next_pass_us) {
		wake_after(work, work->next_pass_us - now_us);
	} else {
		forget_refusals(work);
		queue(work);
	}
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	wake(userdata);
	return 0;
}

/* Carries out the actions. False: the time was over, or some found no place. Then the caller must decide
 * again for the others. */
static bool carry_out_all(struct job_work *work, const Holdfast__V1__Job *job,
			  const struct job_decisions *decisions, uint64_t until_us)
{
	size_t n_before = work->refusals.n_members;
	struct error err;

	work->trouble[0] = '\0';
	for (size_t i = 0; i < decisions->n_actions; i++) {
		const struct job_action *action = &decisions->actions[i];

		if (i > 0 && clock_monotonic_us() > until_us)
			return false;
		if (needs_place(action) && is_refused(&work->refusals, action))
			continue;
		if (carry_out(work, job, action, &err) == STATUS_OK)
			continue;
		(void)str_copy(work->trouble, sizeof(work->trouble), err.msg);
		return true;
	}
	return work->refusals.n_members == n_before;
}

static uint64_t delay_until(int64_t at_ms)
{
	int64_t delay_ms = at_ms - clock_realtime_ms();

	return delay_ms > 0 ? (uint64_t)delay_ms * USEC_PER_MSEC : 0;
}

/* Every member has been tried. A pass that took more than a turn, and left members without a place, is
 * repeated after a rest that is longer: events without end cost others little. */
static void end_pass(struct job_work *work, const Holdfast__V1__Job *job,
		     const struct job_decisions *decisions)
{
	uint64_t rest_us = work->pass_us > TURN_US ? PASS_REST * work->pass_us : 0;

	rest_us = rest_us < RETRY_US ? rest_us : RETRY_US;
	work->next_pass_us = clock_monotonic_us() + rest_us;
	if (work->is_stale)
		wake_after(work, rest_us);
	else if (work->refusals.n > 0 && namespaces_check_room(&work->server->state.namespaces,
							       job->namespace_, false, NULL) != STATUS_OK)
		wake_after(work, RETRY_US); /* room in the namespace is no event */
	else if (decisions->wake_ms > 0)
		wake_after(work, delay_until(decisions->wake_ms));
	work->is_stale = false;
	work->pass_us = 0;
}

/* --- plugins that members run --- */

static void drop_wanted(struct job_work *work)
{
	for (size_t i = 0; i < work->n_wanted; i++)
		(void)state_want_plugin(&work->server->state, work->wanted[i].plugin_id,
					-work->wanted[i].nodes, -work->wanted[i].controllers);
	free(work->wanted);
	work->wanted = NULL;
	work->n_wanted = 0;
}

/* Notes that @n members must run @runs. */
static void want_plugin(struct job_work *work, const Holdfast__V1__CsiPlugin *runs, int64_t n)
{
	struct wanted *to = &work->wanted[work->n_wanted];
	struct csi_plugin plugin = {.type = (enum csi_plugin_type)runs->type};

	(void)str_copy(to->plugin_id, sizeof(to->plugin_id), runs->id);
	to->nodes = csi_plugin_has_node(&plugin) ? n : 0;
	to->controllers = csi_plugin_has_controller(&plugin) ? n : 0;
	work->n_wanted += state_want_plugin(&work->server->state, to->plugin_id, to->nodes, to->controllers);
}

/* Returns how many members of the group have no allocation that runs its plugins. */
static int64_t n_wanting(const Holdfast__V1__Job *job, const struct job_decisions *decisions, size_t group)
{
	const struct job_counts *counts = &decisions->groups[group];

	return job->stop ? 0 : (int64_t)counts->desired - counts->placed;
}

/* Notes, for each group with csi_plugin blocks, as many instances as the group wants, placed or not. When
 * memory is short, plugins expect fewer until the next turn. */
static void note_wanted_plugins(struct job_work *work, const Holdfast__V1__Job *job,
				const struct job_decisions *decisions)
{
	size_t n_max = 0;

	drop_wanted(work);
	for (size_t i = 0; i < job->n_groups; i++)
		n_max += n_wanting(job, decisions, i) > 0 ? job->groups[i]->allocation->n_csi_plugins : 0;
	work->wanted = n_max > 0 ? calloc(n_max, sizeof(*work->wanted)) : NULL;
	for (size_t i = 0; work->wanted && i < job->n_groups; i++) {
		const Holdfast__V1__Allocation *member = job->groups[i]->allocation;
		int64_t n = n_wanting(job, decisions, i);

		for (size_t k = 0; n > 0 && k < member->n_csi_plugins; k++)
			want_plugin(work, member->csi_plugins[k], n);
	}
}

/* Has a node work of the job that only it knows, and has not ended its report? Then a stranger may be there.
 */
static bool awaits_report(const struct job_entry *entry)
{
	const struct alloc_entry *at;

	if (!entry)
		return false;
	LIST_FOREACH (at, &entry->allocs, of_job)
		if (at->alloc.adopted && at->node->is_unreported)
			return true;
	return false;
}

static void reconcile(struct job_work *work, uint64_t until_us)
{
	struct server *server = work->server;
	const Holdfast__V1__Job *stored = records_get(&server->state.records, work->key);
	cleanup_free struct job_view *view = calloc(1, sizeof(*view));
	const uint32_t of_others = JOB_WAITS_FOR(VOLUME) | JOB_WAITS_FOR(NODE) | JOB_WAITS_FOR(CONNECTION);
	cleanup_free struct job_decisions *decisions = NULL;
	Holdfast__V1__Job *job;
	bool is_waiting, is_done;

	if (!stored || !server->is_serving)
		return;
	job = (Holdfast__V1__Job *)message_copy(&stored->base); /* changes take the stored one away */
	decisions = job && view ? job_decide(server, job, &work->refusals, true, view) : NULL;
	if (!decisions) {
		if (job)
			holdfast__v1__job__free_unpacked(job, NULL);
		wake_after(work, RETRY_US);
		return;
	}
	is_waiting = view->spec.type == JOB_SYSTEM || (decisions->waits_for & of_others) != 0 ||
		     awaits_report(state_job(&server->state, job->namespace_, job->id));
	note_wanted_plugins(work, job, decisions);
	is_done = carry_out_all(work, job, decisions, until_us);
	work->pass_us += clock_monotonic_us() - (until_us - TURN_US);
	charge(work);
	set_waiting(server->job_works, work, is_waiting || work->refusals.n > 0);
	if (work->trouble[0] != '\0')
		wake_after(work, RETRY_US);
	else if (!is_done || decisions->is_cut)
		queue(work);
	else
		end_pass(work, job, decisions);
	holdfast__v1__job__free_unpacked(job, NULL);
}

static void end_rest(struct job_lane *lane)
{
	if (!lane->rest)
		return;
	wakeup_disarm(&lane->rest);
	lane->works->n_resting--;
	update_ready(lane);
}

static int on_rested(sd_event_source *source, uint64_t usec, void *userdata)
{
	end_rest(userdata);
	return 0;
}

/* A turn looks at all members of a job: of a large one it takes long. The lanes with such jobs take turns
 * half of the time, all together: the more of them rest, the longer is a rest. */
static void rest(struct job_work *work, uint64_t took_us)
{
	struct job_lane *lane = work->lane;
	uint64_t rest_us = (took_us < REST_MAX_US ? took_us : REST_MAX_US) * (2 * lane->works->n_resting + 1);

	if (wakeup_arm(work->server->event, &lane->rest, rest_us, on_rested, lane, NULL) == STATUS_OK)
		lane->works->n_resting++;
	update_ready(lane);
}

static void work_free(struct job_works *works, struct job_work *work)
{
	struct job_lane *lane = work->lane;

	set_waiting(works, work, false);
	unqueue(work);
	RB_REMOVE(job_work_tree, &works->by_key, work);
	drop_wanted(work);
	refusals_release(&work->refusals);
	(void)namespaces_charge(&work->server->state.namespaces, lane->namespace, -work->bytes, 0);
	wakeup_disarm(&work->timer);
	free(work);
	if (--lane->n_works > 0)
		return;
	end_rest(lane);
	free(lane);
}

/* One job a turn. */
static int on_turn(sd_event_source *source, void *userdata)
{
	struct server *server = userdata;
	struct job_works *works = server->job_works;
	struct job_lane *lane = TAILQ_FIRST(&works->ready);
	struct job_work *work = lane ? TAILQ_FIRST(&lane->queue) : NULL;
	uint64_t begun_us = clock_monotonic_us(), took_us;

	if (!work)
		return 0;
	TAILQ_REMOVE(&works->ready, lane, in_ready);
	TAILQ_INSERT_TAIL(&works->ready, lane, in_ready);
	unqueue(work);
	if (records_get(&server->state.records, work->key)) {
		reconcile(work, begun_us + TURN_US);
		took_us = clock_monotonic_us() - begun_us;
		if (took_us > TURN_US / 4)
			rest(work, took_us);
	} else {
		work_free(works, work);
	}
	if (!TAILQ_EMPTY(&works->ready))
		timer_again(&works->turn, on_turn);
	return 0;
}

/* --- events --- */

static struct job_works *works_of(struct server *server)
{
	struct job_works *works = server->job_works;

	if (works)
		return works;
	works = calloc(1, sizeof(*works));
	if (!works)
		return NULL;
	RB_INIT(&works->by_key);
	TAILQ_INIT(&works->ready);
	TAILQ_INIT(&works->waiting);
	if (sd_event_add_defer(server->event, &works->turn, on_turn, server) < 0) {
		free(works);
		return NULL;
	}
	(void)sd_event_source_set_enabled(works->turn, SD_EVENT_OFF);
	server->job_works = works;
	return works;
}

static struct job_work *find_work(struct server *server, const char *key)
{
	struct job_work wanted;

	wanted.key = key;
	return server->job_works ? RB_FIND(job_work_tree, &server->job_works->by_key, &wanted) : NULL;
}

/* Returns the lane of the namespace: that of its first job, or a new one. NULL when memory is short. */
static struct job_lane *lane_or_new(struct job_works *works, const char *key)
{
	struct job_work wanted, *first;
	struct job_lane *lane;
	size_t n = (size_t)(strrchr(key, '/') + 1 - key);

	(void)str_format(wanted.job_key, sizeof(wanted.job_key), "%.*s", (int)n, key);
	wanted.key = wanted.job_key;
	first = RB_NFIND(job_work_tree, &works->by_key, &wanted);
	if (first && str_starts_with(first->key, wanted.key))
		return first->lane;
	lane = calloc(1, sizeof(*lane));
	if (!lane)
		return NULL;
	lane->works = works;
	(void)str_format(lane->namespace, sizeof(lane->namespace), "%.*s", (int)(n - strlen(PREFIX_JOB) - 1),
			 key + strlen(PREFIX_JOB));
	TAILQ_INIT(&lane->queue);
	return lane;
}

/* NULL when memory is short. */
static struct job_work *work_or_new(struct server *server, const char *key)
{
	struct job_works *works = works_of(server);
	struct job_work *work = works ? find_work(server, key) : NULL;

	if (work || !works)
		return work;
	work = calloc(1, sizeof(*work));
	if (work)
		work->lane = lane_or_new(works, key);
	if (!work || !work->lane) {
		free(work);
		return NULL;
	}
	work->lane->n_works++;
	(void)str_copy(work->job_key, sizeof(work->job_key), key);
	work->key = work->job_key;
	work->server = server;
	RB_INSERT(job_work_tree, &works->by_key, work);
	return work;
}

/* It is another version: refusals are of the one before. */
static void mark_changed(struct server *server, const char *key)
{
	struct job_work *work = work_or_new(server, key);

	if (!work)
		return;
	forget_refusals(work);
	wake(work);
}

/* A member that was placed, by the pass that goes on, frees nothing for others. */
static void mark_job_of(struct server *server, const struct change_object *object)
{
	const struct alloc *alloc = object->value;
	char key[OBJECT_KEY_SIZE];
	struct job_work *work;

	(void)str_format(key, sizeof(key), PREFIX_JOB "%s/%s", alloc->namespace, alloc->job_id);
	work = work_or_new(server, key);
	if (!work)
		return;
	if (!object->is_deletion && alloc->desired_status == DESIRED_RUN &&
	    alloc->client_status == CLIENT_PENDING)
		queue(work);
	else
		wake(work);
}

static void mark_waiting(struct server *server)
{
	struct job_work *work;

	if (server->job_works)
		TAILQ_FOREACH (work, &server->job_works->waiting, of_waiting)
			wake(work);
}

/* Wakes the job that the change is about. Returns whether it may help jobs that wait. */
static bool note_object(struct server *server, const struct change_object *object)
{
	const struct alloc *alloc = object->value;
	const struct claim *claim = object->value;

	switch (object->kind) {
	case OBJECT_RECORD:
		if (str_starts_with(object->key, PREFIX_JOB))
			mark_changed(server, object->key);
		return placement_depends_on(object->key);
	case OBJECT_ALLOC:
		if (alloc->job_id[0] != '\0')
			mark_job_of(server, object);
		/* its node can have the plugin of another job */
		return alloc->n_plugins > 0 && (object->is_deletion || alloc_is_client_terminal(alloc));
	case OBJECT_CLAIM:
		return object->is_deletion || claim->state == CLAIM_FREED;
	case OBJECT_VOLUME:
	case OBJECT_NODE:
	case OBJECT_NODE_PLUGIN:
		return true;
	case OBJECT_KIND_N:
		break;
	}
	return false;
}

void job_work_note_durable(struct server *server, struct change_object *objects, size_t n, uint64_t revision)
{
	bool may_help = false;

	for (size_t i = 0; i < n; i++)
		may_help |= note_object(server, &objects[i]);
	if (may_help) /* once: thousands may wait */
		mark_waiting(server);
}

static const struct job_work *work_of(struct server *server, const char *namespace, const char *id)
{
	char key[OBJECT_KEY_SIZE];

	(void)str_format(key, sizeof(key), PREFIX_JOB "%s/%s", namespace, id);
	return find_work(server, key);
}

const struct job_refusals *job_work_refusals(struct server *server, const char *namespace, const char *id)
{
	const struct job_work *work = work_of(server, namespace, id);

	return work ? &work->refusals : NULL;
}

const char *job_work_trouble(struct server *server, const char *namespace, const char *id)
{
	const struct job_work *work = work_of(server, namespace, id);

	return work ? work->trouble : "";
}

bool job_needs_alloc(struct server *server, const struct alloc_entry *entry)
{
	const struct alloc *alloc = &entry->alloc;
	const Holdfast__V1__Job *job;

	if (alloc->job_id[0] == '\0')
		return false;
	job = records_job(&server->state.records, alloc->namespace, alloc->job_id);
	if (!job || job->stop || !job_has_member(job, entry))
		return false;
	return entry->decided_version != job->version || clock_realtime_ms() < entry->needed_until_ms;
}

void job_work_resume_all(struct server *server)
{
	struct record_entry *entry = records_from(&server->state.records, PREFIX_JOB);

	for (; entry && str_starts_with(entry->key, PREFIX_JOB); entry = records_next(entry))
		mark_changed(server, entry->key);
}

void job_work_release_all(struct server *server)
{
	struct job_works *works = server->job_works;
	struct job_work *work;

	if (!works)
		return;
	while ((work = RB_MIN(job_work_tree, &works->by_key)))
		work_free(works, work);
	(void)sd_event_source_disable_unref(works->turn);
	free(works);
	server->job_works = NULL;
}

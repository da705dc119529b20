/* SPDX-License-Identifier: Apache-2.0 */
/* The reconciler of jobs in a small world that goes wrong at random: jobs are submitted, changed and
 * stopped, nodes leave, come back, boot again and are drained, plugins go away, claims are stuck, strangers
 * take volumes, allocations fail, and the server dies between two actions.
 *
 *  - no two allocations may write one volume, and nothing is placed on a volume of which nobody knows;
 *  - an update takes away no more members than it may, and ends or fails when it has to;
 *  - what is not as it is to be waits for something that is true, each member for a reason of its own;
 *  - the next version of a member stands in the queue where the one before it stood: it is not overtaken;
 *  - a place in a queue that no member takes is given up in one turn: no volume is idle for it;
 *  - nothing restarts that runs what its group says;
 *  - without the ended allocations that no decision needs, the decisions are the same;
 *  - when nothing is broken any more, all is as was submitted, also when a node is lost for good, except
 *    for members that wait for a volume on which another one works.
 *
 * Jobs of every type share volumes; volumes are missing, or in a topology of two nodes.
 *
 * All is read anew for each call and in another order: what a server has after a start is what it had.
 *
 *   JOB_MODEL_SEED   printed, so that it can be run again
 *   JOB_MODEL_STEPS  until it ends */

#include "unit.h"

#include "base/parse.h"
#include "job/job_reconcile.h"

#include <inttypes.h>

enum {
	STEPS = 100000,
	SETTLE_EVERY = 400, /* steps, on average */
	SETTLE_ROUNDS = 400,
	JOBS = 6,
	GROUPS = 2,
	COUNT_MAX = 5,
	NODES = 5,
	VOLUMES_PER_GROUP = 1,
	ALLOCS_MAX = 600,
	CLAIMS_MAX = 256,
	VOLUMES_MAX = 64,
	NAME_SIZE = 24,
	MIN_HEALTHY_MS = 3000,
	DEADLINE_MS = 30000,
	INTERVAL_MS = 60000,
	DELAY_MS = 2000,
};

struct model_node {
	char id[NAME_SIZE];
	bool is_connected, is_ineligible, is_draining, has_plugin;
};

struct model_alloc {
	char id[NAME_SIZE];
	uint32_t job, group;
	struct job_alloc view; /* id and node_id are set anew */
	uint32_t node;	       /* of one that is queued: 0 */
	uint32_t arrival;
	bool writes; /* its version's volume, as it was when it was placed */
	bool has_volume;
	char volume_id[NAME_SIZE];
	enum access_mode access_mode;
	bool bad;      /* runs what never works */
	bool was_kept; /* it had ended and kept a place before this turn */
	bool moves;    /* its next version waits for another volume: members that swap volumes wait for each
			  other */
};

struct model_claim {
	char volume_id[NAME_SIZE], alloc_id[NAME_SIZE];
	uint32_t node;
	enum access_mode access_mode;
	enum claim_mode mode;
	bool is_stuck;
	bool is_stranger; /* no allocation of these jobs */
};

struct model_job {
	struct job_spec spec;
	struct job_group groups[GROUPS];
	struct job_volume volumes[GROUPS];
	uint32_t turn;
	bool bad[GROUPS]; /* what it runs never works */
};

struct model {
	uint64_t seed;
	uint32_t step;
	int64_t now_ms;
	uint32_t n_ids, n_contents, n_arrivals, n_queued;
	struct model_node nodes[NODES];
	struct model_job jobs[JOBS];
	struct model_alloc allocs[ALLOCS_MAX];
	size_t n_allocs;
	struct model_claim claims[CLAIMS_MAX];
	size_t n_claims;
	char unknown_volume[NAME_SIZE]; /* of which nobody knows who has it; empty: none */
	/* what a call is given */
	struct job_alloc views[ALLOCS_MAX];
	struct job_node node_views[NODES];
	struct job_holder holders[ALLOCS_MAX + CLAIMS_MAX + 1];
	struct job_decisions decisions, again;
	/* members that no node can take: their volume is missing */
	bool is_unplaceable[JOBS][GROUPS][COUNT_MAX + NODES];
	char reasons[JOBS][GROUPS][COUNT_MAX + NODES][NAME_SIZE]; /* of a member that finds no place */
	bool is_blocked[JOBS]; /* by work of others, when nothing is broken */
	uint32_t lost_node;    /* away for good since it was repaired; NODES: none */
	/* places in queues that were promised to the next version of a member; arrival 0: no place */
	struct promise {
		uint32_t arrival;
		char volume_id[NAME_SIZE];
	} promises[JOBS][GROUPS][COUNT_MAX + NODES];
	struct job_refusal refusals[GROUPS * (COUNT_MAX + NODES)]; /* of this turn */
	size_t n_refusals;
	uint32_t n_refused, n_unhealthy;
	uint32_t n_unneeded, n_lost, n_zone_waits, n_shared_waits, n_promises;
	uint32_t n_placed, n_failed_updates, n_settled, n_volume_waits, n_stopped_for_version;
};

#define FAIL(m, ...)                                               \
	do {                                                       \
		char text_[512];                                   \
		(void)snprintf(text_, sizeof(text_), __VA_ARGS__); \
		fail_msg("step %u: %s", (m)->step, text_);         \
	} while (0)

static uint32_t draw(struct model *m, uint32_t n)
{
	m->seed = m->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(m->seed >> 33) % n;
}

static bool chance(struct model *m, uint32_t percent)
{
	return draw(m, 100) < percent;
}

/* --- what is --- */

static bool has_ended(const struct model_alloc *alloc)
{
	return alloc->view.client >= CLIENT_COMPLETE;
}

static bool is_eligible(const struct model_node *node)
{
	return node->is_connected && !node->is_ineligible && !node->is_draining;
}

/* A volume with this index is in a topology of two nodes, every other one is everywhere. */
static bool reaches(const struct model *m, uint32_t job, uint32_t group, uint32_t index, uint32_t node)
{
	const struct job_group *of = &m->jobs[job].groups[group];

	if (of->n_volumes == 0 || !of->volumes[0].per_alloc || index % 2 == 0)
		return true;
	return node / 2 == index / 2;
}

/* Can an eligible node reach the member's volume? True if no node is eligible: then that is the reason. */
static bool can_reach(const struct model *m, uint32_t job, uint32_t group, uint32_t index)
{
	bool is_any = false;

	for (uint32_t i = 0; i < NODES; i++) {
		if (!is_eligible(&m->nodes[i]))
			continue;
		is_any = true;
		if (reaches(m, job, group, index, i))
			return true;
	}
	return !is_any;
}

static bool is_of(const struct model_alloc *alloc, uint32_t job, uint32_t group)
{
	return alloc->job == job && alloc->view.group == group;
}

static bool was_healthy(const struct model *m, const struct model_alloc *alloc)
{
	const struct model_job *job = &m->jobs[alloc->job];
	int64_t until_ms = alloc->view.unhealthy_ms != 0 ? alloc->view.unhealthy_ms : m->now_ms;

	if (job->spec.type == JOB_BATCH)
		return alloc->view.healthy_ms > 0;
	return alloc->view.healthy_ms > 0 && until_ms >= alloc->view.healthy_ms + MIN_HEALTHY_MS;
}

static bool is_healthy(const struct model *m, const struct model_alloc *alloc)
{
	return alloc->view.client == CLIENT_RUNNING && alloc->view.unhealthy_ms == 0 &&
	       m->nodes[alloc->node].is_connected && alloc->view.desired == DESIRED_RUN &&
	       was_healthy(m, alloc);
}

static bool is_current(const struct model *m, const struct model_alloc *alloc)
{
	const struct job_spec *spec = &m->jobs[alloc->job].spec;

	return alloc->view.group < spec->n_groups &&
	       alloc->view.content == spec->groups[alloc->view.group].content &&
	       alloc->view.version >= spec->restart_version;
}

/* Members of a group are numbered by index, of a system job by node. */
static uint32_t number_of(const struct model *m, const struct model_alloc *alloc)
{
	return m->jobs[alloc->job].spec.type == JOB_SYSTEM ? alloc->node : alloc->view.index;
}

static struct model_alloc *live_of(struct model *m, uint32_t job, uint32_t group, uint32_t number)
{
	for (size_t i = 0; i < m->n_allocs; i++) {
		struct model_alloc *alloc = &m->allocs[i];

		if (is_of(alloc, job, group) && number_of(m, alloc) == number && !has_ended(alloc))
			return alloc;
	}
	return NULL;
}

static uint32_t n_numbers(const struct model *m, uint32_t job, uint32_t group)
{
	return m->jobs[job].spec.type == JOB_SYSTEM ? NODES : m->jobs[job].groups[group].count;
}

static bool is_desired(struct model *m, uint32_t job, uint32_t group, uint32_t number)
{
	if (m->jobs[job].spec.stop)
		return false;
	if (m->jobs[job].spec.type == JOB_SYSTEM)
		return is_eligible(&m->nodes[number]) || live_of(m, job, group, number);
	return number < m->jobs[job].groups[group].count;
}

/* Batch: has its work ended in this version? */
static bool is_done(const struct model *m, uint32_t job, uint32_t group, uint32_t number)
{
	for (size_t i = 0; i < m->n_allocs && m->jobs[job].spec.type == JOB_BATCH; i++) {
		const struct model_alloc *alloc = &m->allocs[i];

		if (is_of(alloc, job, group) && number_of(m, alloc) == number && is_current(m, alloc) &&
		    alloc->view.client == CLIENT_COMPLETE && alloc->view.desired == DESIRED_RUN)
			return true;
	}
	return false;
}

static bool is_settled(struct model *m, uint32_t job, uint32_t group, uint32_t number)
{
	struct model_alloc *live = live_of(m, job, group, number);

	return live ? is_healthy(m, live) && is_current(m, live) : is_done(m, job, group, number);
}

static struct model_alloc *find_alloc(struct model *m, const char *id)
{
	for (size_t i = 0; i < m->n_allocs; i++)
		if (str_eq(m->allocs[i].id, id))
			return &m->allocs[i];
	return NULL;
}

static bool holds_claims(const struct model *m, const char *alloc_id)
{
	for (size_t i = 0; i < m->n_claims; i++)
		if (str_eq(m->claims[i].alloc_id, alloc_id))
			return true;
	return false;
}

/* May two that write @access stand beside each other? */
static bool may_share(enum access_mode access)
{
	return access == MULTI_NODE_MULTI_WRITER;
}

/* Does anybody, but @alloc_id, write the volume, or may without being asked again? */
static bool is_written(const struct model *m, const char *volume_id, const char *alloc_id)
{
	for (size_t i = 0; i < m->n_claims; i++)
		if (str_eq(m->claims[i].volume_id, volume_id) && !str_eq(m->claims[i].alloc_id, alloc_id) &&
		    !may_share(m->claims[i].access_mode))
			return true;
	for (size_t i = 0; i < m->n_allocs; i++) {
		const struct model_alloc *other = &m->allocs[i];

		if (!has_ended(other) && !other->view.is_queued && other->has_volume &&
		    !str_eq(other->id, alloc_id) && str_eq(other->volume_id, volume_id) &&
		    !may_share(other->access_mode))
			return true;
	}
	return false;
}

/* --- a call --- */

static void swap_views(struct model *m, size_t a, size_t b)
{
	struct job_alloc view = m->views[a];

	m->views[a] = m->views[b];
	m->views[b] = view;
}

static size_t take_views(struct model *m, uint32_t job)
{
	size_t n = 0;

	for (size_t i = 0; i < m->n_allocs; i++) {
		struct model_alloc *alloc = &m->allocs[i];

		if (alloc->job != job)
			continue;
		m->views[n] = alloc->view;
		m->views[n].id = alloc->id;
		m->views[n++].node_id = alloc->view.is_queued ? "" : m->nodes[alloc->node].id;
	}
	for (size_t i = n; i > 1; i--)
		swap_views(m, i - 1, draw(m, (uint32_t)i));
	return n;
}

static size_t take_holders(struct model *m)
{
	size_t n = 0;

	for (size_t i = 0; i < m->n_claims; i++)
		m->holders[n++] = (struct job_holder)ROW(.volume_id = m->claims[i].volume_id,
							 .alloc_id = m->claims[i].alloc_id,
							 .node_id = m->nodes[m->claims[i].node].id,
							 .access_mode = m->claims[i].access_mode,
							 .mode = m->claims[i].mode);
	for (size_t i = 0; i < m->n_allocs; i++)
		if (!has_ended(&m->allocs[i]) && m->allocs[i].has_volume && !m->allocs[i].view.is_queued)
			m->holders[n++] = (struct job_holder)ROW(.volume_id = m->allocs[i].volume_id,
								 .alloc_id = m->allocs[i].id,
								 .node_id = m->nodes[m->allocs[i].node].id,
								 .access_mode = m->allocs[i].access_mode,
								 .mode = CLAIM_WRITE);
	if (m->unknown_volume[0] != '\0')
		m->holders[n++] = (struct job_holder){.volume_id = m->unknown_volume};
	return n;
}

/* Drops the views of ended allocations that the last call did not need. Returns how many are left. */
static size_t drop_unneeded(struct model *m, size_t n)
{
	size_t n_kept = 0;

	for (size_t i = 0; i < n; i++) {
		if (m->views[i].client >= CLIENT_COMPLETE && m->views[i].needed_until_ms <= m->now_ms)
			m->n_unneeded++;
		else
			m->views[n_kept++] = m->views[i];
	}
	return n_kept;
}

static void reconcile(struct model *m, uint32_t job, struct job_decisions *ret, bool needed_only)
{
	struct job_world world =
		ROW(.job = &m->jobs[job].spec, .allocs = m->views, .n_allocs = take_views(m, job),
		    .nodes = m->node_views, .n_nodes = NODES, .holders = m->holders,
		    .n_holders = take_holders(m), .refusals = m->refusals, .n_refusals = m->n_refusals,
		    .now_ms = m->now_ms);
	uint32_t first = draw(m, NODES);

	for (uint32_t i = 0; i < NODES; i++) {
		const struct model_node *node = &m->nodes[(i + first) % NODES];

		m->node_views[i] = (struct job_node){
			.id = node->id, .is_connected = node->is_connected, .is_eligible = is_eligible(node)};
	}
	job_reconcile(&world, ret);
	if (!needed_only)
		return;
	world.n_allocs = drop_unneeded(m, world.n_allocs);
	job_reconcile(&world, ret);
}

/* --- promises --- */

static uint32_t node_of(const struct model *m, const char *id)
{
	for (uint32_t i = 0; i < NODES; i++)
		if (id && str_eq(m->nodes[i].id, id))
			return i;
	return NODES;
}

/* Members of a group that share a volume share the reason. */
static uint32_t place_number(const struct model *m, uint32_t job, uint32_t group, uint32_t index,
			     const char *node_id)
{
	uint32_t number = m->jobs[job].spec.type == JOB_SYSTEM ? node_of(m, node_id) : index;

	if (m->jobs[job].spec.type != JOB_SYSTEM && !m->jobs[job].volumes[group].per_alloc)
		number = 0;
	return number;
}

/* Its volume is missing, or in a topology without an eligible node. */
static bool has_no_place(const struct model *m, uint32_t job, uint32_t group, uint32_t index,
			 const char *node_id)
{
	return m->is_unplaceable[job][group][place_number(m, job, group, index, node_id)] ||
	       !can_reach(m, job, group, index);
}

/* No holder of its volume is known. */
static bool is_unknown(const struct model *m, uint32_t job, uint32_t group, uint32_t index)
{
	const struct job_group *of = &m->jobs[job].groups[group];
	char volume_id[VOLUME_ID_MAX + 1];

	if (of->n_volumes == 0)
		return false;
	job_volume_id(&of->volumes[0], index, volume_id);
	return str_eq(volume_id, m->unknown_volume);
}

static void refuse(struct model *m, uint32_t job, const struct job_action *action)
{
	bool is_system = m->jobs[job].spec.type == JOB_SYSTEM;
	bool is_every =
		!is_system && !m->jobs[job].volumes[action->group].per_alloc && action->type == JOB_PLACE;
	uint32_t number = place_number(m, job, action->group, action->index, action->node_id);

	for (size_t i = 0; i < m->n_refusals; i++)
		if (m->refusals[i].group == action->group &&
		    (is_system ? str_eq(m->refusals[i].node_id, action->node_id)
			       : is_every || m->refusals[i].index == action->index))
			return;
	m->refusals[m->n_refusals++] =
		(struct job_refusal)ROW(.group = action->group,
					.index = is_every    ? JOB_EVERY_INDEX
						 : is_system ? 0
							     : action->index,
					.node_id = is_system ? action->node_id : NULL,
					.reason = m->reasons[job][action->group][number]);
}

/* Decide, and again without those for which there was no place. */
static void decide(struct model *m, uint32_t job)
{
	size_t n_before;

	m->n_refusals = 0;
	do {
		n_before = m->n_refusals;
		reconcile(m, job, &m->decisions, false);
		for (size_t i = 0; i < m->decisions.n_actions; i++) {
			const struct job_action *action = &m->decisions.actions[i];

			if ((action->type == JOB_PLACE ||
			     (action->type == JOB_STOP && action->reason == JOB_STOP_VERSION)) &&
			    (has_no_place(m, job, action->group, action->index, action->node_id) ||
			     (action->type == JOB_PLACE && is_unknown(m, job, action->group, action->index))))
				refuse(m, job, action);
		}
	} while (m->n_refusals > n_before);
}

/* May the member be placed, once @before (NULL: nothing) has ended? */
static void check_place(struct model *m, uint32_t job, const struct job_action *action,
			const struct model_alloc *before)
{
	const struct model_job *of = &m->jobs[job];
	uint32_t number = of->spec.type == JOB_SYSTEM ? node_of(m, action->node_id) : action->index;
	const struct job_group *group = &of->groups[action->group];
	char volume_id[VOLUME_ID_MAX + 1];

	if (of->spec.stop || !is_desired(m, job, action->group, number))
		FAIL(m, "placed %u[%u], which nobody wants", action->group, number);
	if (live_of(m, job, action->group, number) != before)
		FAIL(m, "placed %u[%u] twice", action->group, number);
	if (is_done(m, job, action->group, number))
		FAIL(m, "placed %u[%u], whose work has ended", action->group, number);
	for (size_t i = 0; before && !before->view.is_queued && i < group->n_volumes; i++) {
		job_volume_id(&group->volumes[i], action->index, volume_id);
		if (str_eq(volume_id, m->unknown_volume))
			FAIL(m, "placed on volume %s, of which nobody knows", volume_id);
		if (!may_share(group->volumes[i].access_mode) && is_written(m, volume_id, before->id))
			FAIL(m, "volume %s is written twice", volume_id);
	}
}

/* What is away for an update if @victim goes as well. */
static void check_limit(struct model *m, const struct model_alloc *victim)
{
	const struct model_job *of = &m->jobs[victim->job];
	uint32_t max = of->groups[victim->view.group].update.max_parallel, away = 1;

	if (of->spec.update == JOB_UPDATE_FAILED)
		FAIL(m, "%s is stopped for an update that failed", victim->id);
	if (victim->view.is_queued)
		return; /* it does not run */
	for (uint32_t i = 0; i < n_numbers(m, victim->job, victim->view.group); i++) {
		struct model_alloc *live = live_of(m, victim->job, victim->view.group, i);
		bool is_old = live && live->view.desired == DESIRED_RUN && !is_current(m, live);

		if (live == victim || !is_desired(m, victim->job, victim->view.group, i) ||
		    is_settled(m, victim->job, victim->view.group, i))
			continue;
		if (is_old && (is_healthy(m, live) || !is_healthy(m, victim)))
			continue;
		/* nothing can replace it before its node takes something: one sick node must not keep the
		 * others from the next version */
		if (is_old && of->spec.type == JOB_SYSTEM && !is_eligible(&m->nodes[live->node]))
			continue;
		away++;
	}
	if (away > max)
		FAIL(m, "%u members are away for an update, %u at most", away, max);
}

static void check_stop(struct model *m, uint32_t job, const struct job_action *action)
{
	const struct model_alloc *victim = find_alloc(m, action->alloc_id);

	if (!victim || has_ended(victim) || victim->view.desired == DESIRED_STOP || victim->job != job) {
		FAIL(m, "%s is stopped again", action->alloc_id);
		return;
	}
	if (action->reason == JOB_STOP_VERSION) {
		if (is_current(m, victim))
			FAIL(m, "%s is of this version", victim->id);
		check_limit(m, victim);
		check_place(m, job, action, victim);
		return;
	}
	if (action->reason == JOB_STOP_JOB) {
		assert_true(m->jobs[job].spec.stop);
		return;
	}
	if (action->reason == JOB_STOP_GROUP) {
		assert_int_equal(victim->view.group, JOB_GROUP_GONE);
		return;
	}
	assert_int_equal(action->reason, JOB_STOP_COUNT);
	assert_true(victim->view.index >= m->jobs[job].groups[victim->view.group].count);
	for (size_t i = 0; i < m->n_allocs; i++) {
		const struct model_alloc *other = &m->allocs[i];

		if (is_of(other, job, victim->view.group) && !has_ended(other) &&
		    other->view.desired == DESIRED_RUN && other->view.index > victim->view.index)
			FAIL(m, "index %u stops before %u", victim->view.index, other->view.index);
	}
}

static int64_t later(int64_t a_ms, int64_t b_ms)
{
	return a_ms > b_ms ? a_ms : b_ms;
}

/* Has a member that never worked in this version passed its deadline? */
static bool is_overdue(const struct model *m, uint32_t job, uint32_t group, uint32_t number)
{
	bool is_late = false;

	for (size_t i = 0; i < m->n_allocs; i++) {
		const struct model_alloc *alloc = &m->allocs[i];

		if (!is_of(alloc, job, group) || number_of(m, alloc) != number || !is_current(m, alloc))
			continue;
		if (was_healthy(m, alloc))
			return false;
		if (alloc->view.is_queued || alloc->view.client == CLIENT_LOST ||
		    (has_ended(alloc) && alloc->view.desired == DESIRED_STOP))
			continue;
		is_late = is_late || m->now_ms >= later(alloc->view.create_ms, m->jobs[job].spec.submit_ms) +
							  DEADLINE_MS;
	}
	return is_late;
}

static bool any_member(struct model *m, uint32_t job,
		       bool (*is)(struct model *m, uint32_t job, uint32_t group, uint32_t number))
{
	for (uint32_t group = 0; group < m->jobs[job].spec.n_groups; group++)
		for (uint32_t i = 0; i < n_numbers(m, job, group); i++)
			if (is_desired(m, job, group, i) && is(m, job, group, i))
				return true;
	return false;
}

static bool member_is_overdue(struct model *m, uint32_t job, uint32_t group, uint32_t number)
{
	return is_overdue(m, job, group, number);
}

static bool member_is_unsettled(struct model *m, uint32_t job, uint32_t group, uint32_t number)
{
	return !is_settled(m, job, group, number);
}

/* Does somebody have the volume as the wait says? */
static bool is_held(struct model *m, const struct job_wait *wait)
{
	const struct model_alloc *holder;

	if (!wait->alloc_id)
		return str_eq(wait->volume_id, m->unknown_volume);
	for (size_t i = 0; i < m->n_claims; i++)
		if (str_eq(m->claims[i].volume_id, wait->volume_id) &&
		    str_eq(m->claims[i].alloc_id, wait->alloc_id))
			return true;
	holder = find_alloc(m, wait->alloc_id);
	return holder && !has_ended(holder) && str_eq(holder->volume_id, wait->volume_id);
}

/* Has the member failed of itself? That its node was lost is no failure. */
static bool has_failure(const struct model *m, uint32_t job, const struct job_wait *wait)
{
	uint32_t number = m->jobs[job].spec.type == JOB_SYSTEM ? node_of(m, wait->node_id) : wait->index;

	for (size_t i = 0; i < m->n_allocs; i++) {
		const struct model_alloc *alloc = &m->allocs[i];

		if (is_of(alloc, job, wait->group) && number_of(m, alloc) == number &&
		    alloc->view.desired == DESIRED_RUN &&
		    (alloc->view.client == CLIENT_FAILED || alloc->view.client == CLIENT_COMPLETE))
			return true;
	}
	return false;
}

static bool is_true(struct model *m, uint32_t job, const struct job_wait *wait,
		    const struct job_decisions *decisions)
{
	const struct model_alloc *alloc = wait->alloc_id ? find_alloc(m, wait->alloc_id) : NULL;
	bool is_live = alloc && !has_ended(alloc);

	switch (wait->what) {
	case JOB_WAIT_VOLUME:
		m->n_volume_waits++;
		return is_held(m, wait);
	case JOB_WAIT_QUEUE:
		m->n_queued++;
		return is_live && alloc->view.is_queued && is_current(m, alloc);
	case JOB_WAIT_NODE:
		if (wait->node_id)
			return !is_eligible(&m->nodes[node_of(m, wait->node_id)]);
		for (uint32_t i = 0; i < NODES; i++)
			if (is_eligible(&m->nodes[i]))
				return false;
		return true;
	case JOB_WAIT_STOP:
		return is_live && alloc->view.desired == DESIRED_STOP;
	case JOB_WAIT_HEALTH:
		return is_live && is_current(m, alloc) && !is_healthy(m, alloc) &&
		       str_eq(wait->reason ? wait->reason : "",
			      alloc->view.trouble ? alloc->view.trouble : "");
	case JOB_WAIT_CONNECTION:
		return is_live && !m->nodes[alloc->node].is_connected;
	case JOB_WAIT_TURN:
		return is_live && !is_current(m, alloc) && m->jobs[job].spec.update == JOB_UPDATE_RUNNING;
	case JOB_WAIT_DELAY:
	case JOB_WAIT_ATTEMPTS:
		return wait->until_ms > m->now_ms && has_failure(m, job, wait);
	case JOB_WAIT_NEXT_VERSION:
		return m->jobs[job].spec.update == JOB_UPDATE_FAILED ||
		       (decisions->n_actions > 0 && any_member(m, job, member_is_overdue));
	case JOB_WAIT_PLACE:
		m->n_refused++;
		m->n_zone_waits += !can_reach(m, job, wait->group, wait->index);
		return (has_no_place(m, job, wait->group, wait->index, wait->node_id) ||
			is_unknown(m, job, wait->group, wait->index)) &&
		       str_eq(wait->reason, m->reasons[job][wait->group][place_number(
						    m, job, wait->group, wait->index, wait->node_id)]);
	case JOB_WAIT_N:
		break;
	}
	return false;
}

/* Is it said what becomes of the member? */
static bool is_accounted(struct model *m, uint32_t job, uint32_t group, uint32_t number,
			 const struct job_decisions *decisions)
{
	bool is_system = m->jobs[job].spec.type == JOB_SYSTEM;

	for (size_t i = 0; i < decisions->n_actions; i++) {
		const struct job_action *action = &decisions->actions[i];

		if (action->group == group && (action->type == JOB_PLACE || action->type == JOB_STOP) &&
		    number == (is_system ? node_of(m, action->node_id) : action->index))
			return true;
	}
	for (size_t i = 0; i < decisions->n_waits; i++) {
		const struct job_wait *wait = &decisions->waits[i];

		/* of a volume it is the holder's node */
		if (wait->group == group &&
		    (is_system ? wait->what == JOB_WAIT_VOLUME || node_of(m, wait->node_id) == number
			       : wait->index == number))
			return true;
	}
	return false;
}

static void check_waits(struct model *m, uint32_t job, const struct job_decisions *decisions)
{
	char text[JOB_WAIT_TEXT_SIZE];

	if (decisions->is_cut || decisions->n_waits == JOB_WAITS_MAX)
		return;
	for (size_t i = 0; i < decisions->n_waits; i++) {
		const struct job_wait *wait = &decisions->waits[i];

		if (!is_true(m, job, wait, decisions))
			FAIL(m, "job %u, %u[%u]: not true: %s", job, wait->group, wait->index,
			     job_wait_text(wait, NAMESPACE_DEFAULT, text));
		if (wait->until_ms != 0 && (decisions->wake_ms == 0 || decisions->wake_ms > wait->until_ms))
			FAIL(m, "nobody wakes at the end of: %s",
			     job_wait_text(wait, NAMESPACE_DEFAULT, text));
	}
	for (uint32_t group = 0; group < m->jobs[job].spec.n_groups; group++)
		for (uint32_t i = 0; i < n_numbers(m, job, group); i++)
			if (is_desired(m, job, group, i) && !is_settled(m, job, group, i) &&
			    !is_accounted(m, job, group, i, decisions))
				FAIL(m, "job %u, %u[%u] waits, and nobody says for what", job, group, i);
}

static void check_update_action(struct model *m, uint32_t job, const struct job_action *action)
{
	assert_int_equal(m->jobs[job].spec.update, JOB_UPDATE_RUNNING);
	if (action->type == JOB_FAIL_UPDATE && !any_member(m, job, member_is_overdue))
		FAIL(m, "an update failed before its deadline");
	if (action->type == JOB_END_UPDATE && any_member(m, job, member_is_unsettled))
		FAIL(m, "an update ended before all members were healthy");
}

static void check_same(const struct job_decisions *a, const struct job_decisions *b)
{
	assert_int_equal(a->n_actions, b->n_actions);
	assert_int_equal(a->n_waits, b->n_waits);
	assert_int_equal(a->state, b->state);
	assert_int_equal(a->wake_ms, b->wake_ms);
	for (size_t i = 0; i < a->n_actions; i++) {
		assert_int_equal(a->actions[i].type, b->actions[i].type);
		assert_int_equal(a->actions[i].group, b->actions[i].group);
		assert_int_equal(a->actions[i].index, b->actions[i].index);
		assert_ptr_equal(a->actions[i].alloc_id, b->actions[i].alloc_id);
	}
	for (size_t i = 0; i < a->n_waits; i++) {
		assert_int_equal(a->waits[i].what, b->waits[i].what);
		assert_ptr_equal(a->waits[i].alloc_id, b->waits[i].alloc_id);
		assert_int_equal(a->waits[i].until_ms, b->waits[i].until_ms);
	}
}

/* --- what becomes of decisions --- */

static void end_alloc(struct model *m, struct model_alloc *alloc, enum client_status status)
{
	alloc->view.client = status;
	alloc->view.end_ms = m->now_ms;
	if (alloc->view.healthy_ms != 0 && alloc->view.unhealthy_ms == 0)
		alloc->view.unhealthy_ms = m->now_ms;
}

static bool is_same_member(const struct model *m, const struct model_alloc *a, const struct model_alloc *b)
{
	return a->job == b->job && a->view.group == b->view.group && number_of(m, a) == number_of(m, b);
}

/* The place of the version before at the same volume, or the last one. */
static uint32_t take_over_place(struct model *m, const struct model_alloc *alloc)
{
	for (size_t i = 0; i < m->n_allocs; i++)
		if (m->allocs[i].view.keeps_place && is_same_member(m, &m->allocs[i], alloc)) {
			m->allocs[i].view.keeps_place = false;
			if (str_eq(m->allocs[i].volume_id, alloc->volume_id))
				return m->allocs[i].arrival;
		}
	return ++m->n_arrivals;
}

/* By the group that it had when it was placed: that may be gone. */
static struct promise *promise_to(struct model *m, const struct model_alloc *alloc)
{
	return &m->promises[alloc->job][alloc->group][number_of(m, alloc)];
}

/* Its next version stands where it stood. */
static void promise_place(struct model *m, const struct model_alloc *victim)
{
	struct promise *promise;

	if (!victim->has_volume)
		return;
	promise = promise_to(m, victim);
	promise->arrival = victim->arrival;
	(void)str_copy(promise->volume_id, sizeof(promise->volume_id), victim->volume_id);
	m->n_promises++;
}

/* Was it overtaken at the volume at which the version before it stood? */
static void check_promise(struct model *m, const struct model_alloc *alloc)
{
	struct promise *promise = promise_to(m, alloc);

	if (promise->arrival > 0 && alloc->has_volume && str_eq(promise->volume_id, alloc->volume_id) &&
	    alloc->arrival > promise->arrival)
		FAIL(m, "%s is number %u for %s, and the version before it was %u", alloc->id, alloc->arrival,
		     alloc->volume_id, promise->arrival);
	promise->arrival = 0;
}

/* A place is given up only if its member is not placed in the same turn. */
static void check_drop(struct model *m, const struct model_alloc *alloc)
{
	assert_true(has_ended(alloc));
	for (size_t i = 0; i < m->decisions.n_actions; i++) {
		const struct job_action *action = &m->decisions.actions[i];

		if (action->type == JOB_PLACE && action->group == alloc->view.group &&
		    (action->node_id ? node_of(m, action->node_id) : action->index) == number_of(m, alloc))
			FAIL(m, "%s gives up its place, and its member is placed", alloc->id);
	}
	promise_to(m, alloc)->arrival = 0;
}

/* Has another one its volume, or does one wait for it that came before? */
static bool is_taken(const struct model *m, const struct model_alloc *alloc)
{
	if (may_share(alloc->access_mode))
		return false;
	if (is_written(m, alloc->volume_id, alloc->id))
		return true;
	for (size_t i = 0; i < m->n_allocs; i++) {
		const struct model_alloc *other = &m->allocs[i];
		bool is_waiting = !has_ended(other) && other->view.is_queued;

		if (other->has_volume && str_eq(other->volume_id, alloc->volume_id) &&
		    other->arrival < alloc->arrival && (is_waiting || other->view.keeps_place))
			return true;
	}
	return false;
}

static void place(struct model *m, uint32_t job, const struct job_action *action)
{
	const struct job_group *group = &m->jobs[job].groups[action->group];
	struct model_alloc *alloc = &m->allocs[m->n_allocs];
	uint32_t node = action->node_id ? node_of(m, action->node_id) : draw(m, NODES);
	char volume_id[VOLUME_ID_MAX + 1];

	assert_true(m->n_allocs < ALLOCS_MAX);
	if (action->node_id && (node == NODES || !is_eligible(&m->nodes[node])))
		FAIL(m, "placed on a node that takes nothing");
	for (uint32_t i = 0;
	     !is_eligible(&m->nodes[node]) || !reaches(m, job, action->group, action->index, node); i++) {
		assert_true(i < NODES);
		node = (node + 1) % NODES;
	}
	*alloc = (struct model_alloc){
		.job = job, .group = action->group, .node = node, .bad = m->jobs[job].bad[action->group]};
	(void)str_format(alloc->id, sizeof(alloc->id), "a%u", m->n_ids++);
	alloc->view = (struct job_alloc)ROW(.group = action->group, .index = action->index,
					    .version = m->jobs[job].spec.version, .content = group->content,
					    .desired = DESIRED_RUN, .client = CLIENT_PENDING,
					    .create_ms = m->now_ms);
	if (group->n_volumes > 0) {
		job_volume_id(&group->volumes[0], action->index, volume_id);
		alloc->has_volume = true;
		(void)str_copy(alloc->volume_id, sizeof(alloc->volume_id), volume_id);
		alloc->access_mode = group->volumes[0].access_mode;
	}
	alloc->arrival = take_over_place(m, alloc);
	check_promise(m, alloc);
	alloc->view.is_queued = alloc->has_volume && is_taken(m, alloc);
	m->n_allocs++;
	m->n_placed += !alloc->view.is_queued;
}

static bool may_take(const struct model *m, const struct model_alloc *alloc, uint32_t node)
{
	return is_eligible(&m->nodes[node]) &&
	       (alloc->view.group == JOB_GROUP_GONE ||
		reaches(m, alloc->job, alloc->view.group, alloc->view.index, node));
}

/* What the server does with its queues, one after the other. */
static void place_queued(struct model *m)
{
	struct model_alloc *first = NULL;

	for (uint32_t after = 0;; after = first->arrival) {
		uint32_t node = draw(m, NODES);

		first = NULL;
		for (size_t i = 0; i < m->n_allocs; i++) {
			struct model_alloc *alloc = &m->allocs[i];

			if (!has_ended(alloc) && alloc->view.is_queued && alloc->arrival > after &&
			    (!first || alloc->arrival < first->arrival))
				first = alloc;
		}
		if (!first)
			return;
		for (uint32_t i = 0; i < NODES && !may_take(m, first, node); i++)
			node = (node + 1) % NODES;
		if (!may_take(m, first, node) || is_taken(m, first) ||
		    str_eq(first->volume_id, m->unknown_volume) || first->view.desired == DESIRED_STOP)
			continue;
		first->view.is_queued = false;
		first->view.create_ms = m->now_ms;
		first->node = node;
		m->n_placed++;
	}
}

static void apply(struct model *m, uint32_t job, const struct job_action *action)
{
	switch (action->type) {
	case JOB_PLACE:
		check_place(m, job, action, NULL);
		place(m, job, action);
		break;
	case JOB_STOP:
		check_stop(m, job, action);
		find_alloc(m, action->alloc_id)->view.desired = DESIRED_STOP;
		if (action->reason == JOB_STOP_VERSION) {
			find_alloc(m, action->alloc_id)->view.keeps_place = true;
			promise_place(m, find_alloc(m, action->alloc_id));
		}
		if (find_alloc(m, action->alloc_id)->view.is_queued)
			end_alloc(m, find_alloc(m, action->alloc_id), CLIENT_COMPLETE);
		m->n_stopped_for_version += action->reason == JOB_STOP_VERSION;
		break;
	case JOB_DROP_PLACE:
		check_drop(m, find_alloc(m, action->alloc_id));
		find_alloc(m, action->alloc_id)->view.keeps_place = false;
		break;
	case JOB_END_UPDATE:
		check_update_action(m, job, action);
		m->jobs[job].spec.update = JOB_UPDATE_DONE;
		break;
	case JOB_FAIL_UPDATE:
		check_update_action(m, job, action);
		m->jobs[job].spec.update = JOB_UPDATE_FAILED;
		m->n_failed_updates++;
		break;
	}
}

/* Nothing that has ended keeps others from a volume: after one turn the place is taken over, or given up. */
static void check_places(struct model *m, uint32_t job)
{
	for (size_t i = 0; i < m->n_allocs; i++)
		if (m->allocs[i].job == job && m->allocs[i].was_kept && m->allocs[i].view.keeps_place &&
		    !live_of(m, job, m->allocs[i].view.group, number_of(m, &m->allocs[i])))
			FAIL(m, "%s keeps a place for nobody", m->allocs[i].id);
}

/* The server reconciles a job; at times it dies before it has carried out all. */
static void turn(struct model *m, uint32_t job, bool may_die)
{
	size_t n;

	decide(m, job);
	reconcile(m, job, &m->again, true);
	check_same(&m->again, &m->decisions);
	check_waits(m, job, &m->decisions);
	n = m->decisions.n_actions;
	if (may_die && n > 0 && chance(m, 20))
		n = draw(m, (uint32_t)n);
	for (size_t i = 0; i < m->n_allocs; i++)
		m->allocs[i].was_kept = has_ended(&m->allocs[i]) && m->allocs[i].view.keeps_place;
	for (size_t i = 0; i < n; i++)
		apply(m, job, &m->decisions.actions[i]);
	if (n == m->decisions.n_actions && !m->decisions.is_cut)
		check_places(m, job);
	place_queued(m);
	if (n == m->decisions.n_actions && m->jobs[job].spec.update == JOB_UPDATE_RUNNING &&
	    m->jobs[job].spec.type != JOB_BATCH && any_member(m, job, member_is_overdue))
		FAIL(m, "an update has passed its deadline and continues");
}

/* --- what happens to allocations and claims --- */

static void add_claim(struct model *m, const char *volume_id, const char *alloc_id, uint32_t node,
		      enum access_mode access_mode, bool is_stranger)
{
	struct model_claim *claim = &m->claims[m->n_claims++];

	assert_true(m->n_claims <= CLAIMS_MAX);
	*claim = (struct model_claim){
		.node = node, .access_mode = access_mode, .mode = CLAIM_WRITE, .is_stranger = is_stranger};
	(void)str_copy(claim->volume_id, sizeof(claim->volume_id), volume_id);
	(void)str_copy(claim->alloc_id, sizeof(claim->alloc_id), alloc_id);
}

static bool is_claimed(const struct model *m, const char *volume_id)
{
	for (size_t i = 0; i < m->n_claims; i++)
		if (str_eq(m->claims[i].volume_id, volume_id))
			return true;
	return false;
}

/* A pending one asks for its volume, and runs when it has it. */
static void start_alloc(struct model *m, struct model_alloc *alloc)
{
	if (!m->nodes[alloc->node].has_plugin || alloc->bad)
		return;
	if (alloc->has_volume && !holds_claims(m, alloc->id)) {
		if (!may_share(alloc->access_mode) && is_claimed(m, alloc->volume_id))
			return; /* a stranger was first */
		if (str_eq(alloc->volume_id, m->unknown_volume))
			return;
		add_claim(m, alloc->volume_id, alloc->id, alloc->node, alloc->access_mode, false);
	}
	alloc->view.client = CLIENT_RUNNING;
	alloc->view.healthy_ms = m->now_ms;
}

/* A task of it is restarted on its node, or its health check changes: no reason to stop it. */
static void change_health(struct model *m, struct model_alloc *alloc)
{
	if (alloc->view.unhealthy_ms == 0) {
		alloc->view.unhealthy_ms = m->now_ms;
		alloc->view.trouble = "a health check fails";
		m->n_unhealthy++;
	} else {
		alloc->view.healthy_ms = m->now_ms;
		alloc->view.unhealthy_ms = 0;
		alloc->view.trouble = NULL;
	}
}

/* Its node does the next thing with it; with @is_good nothing goes wrong. */
static void advance(struct model *m, struct model_alloc *alloc, bool is_good)
{
	bool is_batch = m->jobs[alloc->job].spec.type == JOB_BATCH;

	if (has_ended(alloc) || (!alloc->view.is_queued && !m->nodes[alloc->node].is_connected))
		return;
	if (alloc->view.is_queued && alloc->view.desired == DESIRED_RUN)
		return;
	if (alloc->view.desired == DESIRED_STOP) {
		end_alloc(m, alloc, CLIENT_COMPLETE);
		return;
	}
	if (alloc->view.client == CLIENT_RUNNING &&
	    (is_good ? alloc->view.unhealthy_ms != 0 : chance(m, alloc->view.unhealthy_ms != 0 ? 30 : 5)))
		change_health(m, alloc);
	if (!is_good && chance(m, alloc->bad ? 30 : 4))
		end_alloc(m, alloc, CLIENT_FAILED);
	else if (alloc->view.client == CLIENT_PENDING)
		start_alloc(m, alloc);
	else if (is_batch ? is_good || chance(m, 30) : !is_good && chance(m, 1))
		end_alloc(m, alloc, CLIENT_COMPLETE);
}

/* A claim is freed when its work has ended and there is evidence. */
static void release(struct model *m, size_t i)
{
	struct model_claim *claim = &m->claims[i];
	struct model_alloc *alloc = find_alloc(m, claim->alloc_id);

	if (claim->is_stranger || claim->is_stuck || (alloc && !has_ended(alloc)) ||
	    !m->nodes[claim->node].is_connected || !m->nodes[claim->node].has_plugin)
		return;
	*claim = m->claims[--m->n_claims];
}

static void reboot(struct model *m, uint32_t node)
{
	for (size_t i = 0; i < m->n_allocs; i++) {
		struct model_alloc *alloc = &m->allocs[i];

		if (alloc->node == node && !has_ended(alloc) &&
		    (alloc->view.client == CLIENT_RUNNING || holds_claims(m, alloc->id)))
			end_alloc(m, alloc, CLIENT_LOST);
	}
	m->nodes[node].is_connected = true;
}

/* It is away for good. What it has without a claim is lost and replaced: it can write nothing twice. */
static void lose_node(struct model *m, uint32_t node)
{
	m->nodes[node].is_connected = false;
	for (size_t i = 0; i < m->n_allocs; i++) {
		struct model_alloc *alloc = &m->allocs[i];

		if (alloc->node != node || has_ended(alloc) || alloc->view.is_queued ||
		    holds_claims(m, alloc->id))
			continue;
		end_alloc(m, alloc, CLIENT_LOST);
		m->n_lost++;
	}
}

static void drain(struct model *m, uint32_t node)
{
	m->nodes[node].is_draining = true;
	for (size_t i = 0; i < m->n_allocs; i++)
		if (m->allocs[i].node == node && !has_ended(&m->allocs[i]) && !m->allocs[i].view.is_queued)
			m->allocs[i].view.desired = DESIRED_STOP;
}

/* Forget what nobody needs. */
static bool is_needed(const struct model *m, const struct model_alloc *alloc)
{
	if (!has_ended(alloc) || holds_claims(m, alloc->id) || alloc->view.keeps_place)
		return true;
	if (!is_current(m, alloc))
		return false;
	return was_healthy(m, alloc) || alloc->view.client == CLIENT_COMPLETE ||
	       alloc->view.end_ms + INTERVAL_MS > m->now_ms;
}

static void collect(struct model *m)
{
	size_t n = 0;

	for (size_t i = 0; i < m->n_allocs; i++)
		if (is_needed(m, &m->allocs[i]))
			m->allocs[n++] = m->allocs[i];
	m->n_allocs = n;
}

/* --- submissions --- */

static bool any_live(const struct model *m, uint32_t job)
{
	for (size_t i = 0; i < m->n_allocs; i++)
		if (m->allocs[i].job == job && !has_ended(&m->allocs[i]))
			return true;
	return false;
}

/* Volumes go round among the groups of a job when that is stopped. */
static void draw_volume(struct model *m, uint32_t job, uint32_t group)
{
	struct model_job *of = &m->jobs[job];
	struct job_volume *volume = &of->volumes[group];
	bool is_system = of->spec.type == JOB_SYSTEM;

	*volume = (struct job_volume){.mode = CLAIM_WRITE};
	/* two services, two of batch and two system jobs share volumes, at times service and batch */
	(void)str_format(volume->source, sizeof(volume->source), "v%u%c",
			 is_system	 ? 1
			 : chance(m, 20) ? 0
			 : job % 3 == 0	 ? 0
					 : 2,
			 "ab"[(group + of->turn) % GROUPS]);
	volume->per_alloc = !is_system && of->groups[group].count > 1;
	volume->access_mode = is_system ? MULTI_NODE_MULTI_WRITER : SINGLE_NODE_WRITER;
	of->groups[group].volumes = volume;
	of->groups[group].n_volumes = chance(m, 80);
}

/* Allocations of groups that are gone, or are back. */
static void number_groups(struct model *m, uint32_t job, uint32_t n_before)
{
	for (size_t i = 0; i < m->n_allocs; i++)
		if (m->allocs[i].job == job && m->jobs[job].spec.n_groups < n_before &&
		    m->allocs[i].view.group == n_before - 1)
			m->allocs[i].view.group = JOB_GROUP_GONE;
}

/* What its members run is another thing; a large count and a small one need different volumes. */
static void draw_content(struct model *m, uint32_t job, uint32_t group, bool is_good)
{
	struct model_job *of = &m->jobs[job];

	of->groups[group].content = ++m->n_contents;
	of->groups[group].name = group == 0 ? "one" : "two";
	of->groups[group].count = of->spec.type == JOB_SYSTEM ? 0 : draw(m, COUNT_MAX + 1);
	of->bad[group] = !is_good && chance(m, 15);
	draw_volume(m, job, group);
}

static void draw_policies(struct model *m, struct job_group *group)
{
	group->update = (struct job_update){.max_parallel = 1 + draw(m, 2),
					    .min_healthy_ms = MIN_HEALTHY_MS,
					    .healthy_deadline_ms = DEADLINE_MS};
	group->reschedule = (struct job_reschedule){
		.unlimited = chance(m, 30), .attempts = 2, .interval_ms = INTERVAL_MS, .delay_ms = DELAY_MS};
}

/* A change of anything but what members run. */
static void change_little(struct model *m, uint32_t job)
{
	struct model_job *of = &m->jobs[job];

	for (uint32_t i = 0; i < GROUPS; i++) {
		struct job_group *group = &of->groups[i];

		if (of->spec.type != JOB_SYSTEM && of->volumes[i].per_alloc)
			group->count = draw(m, COUNT_MAX + 1);
		else if (of->spec.type != JOB_SYSTEM)
			group->count = draw(m, 2);
		if (chance(m, 50))
			draw_policies(m, group);
	}
}

/* Its whole content, that of one group, or none: what is left as it is has to be left alone. */
static void submit(struct model *m, uint32_t job, bool is_good)
{
	struct model_job *of = &m->jobs[job];
	uint32_t n_before = (uint32_t)of->spec.n_groups, what = draw(m, 4);
	bool is_whole = is_good || of->spec.version == 0 || what == 0 || !any_live(m, job);

	of->spec.version++;
	if (of->spec.version == 1 || of->spec.stop || chance(m, 5))
		of->spec.restart_version = of->spec.version;
	of->spec.submit_ms = m->now_ms;
	of->spec.stop = false;
	of->spec.update = JOB_UPDATE_RUNNING;
	if (!any_live(m, job))
		of->turn = draw(m, GROUPS);
	if (is_whole)
		of->spec.n_groups = chance(m, 85) ? GROUPS : 1;
	for (uint32_t i = 0; i < GROUPS; i++) {
		if (is_whole || what == i + 1)
			draw_content(m, job, i, is_good);
		if (is_whole)
			draw_policies(m, &of->groups[i]);
	}
	if (!is_whole)
		change_little(m, job);
	number_groups(m, job, n_before);
}

static void start_world(struct model *m)
{
	static const enum job_type types[JOBS] = {JOB_SERVICE, JOB_SYSTEM, JOB_BATCH,
						  JOB_SERVICE, JOB_BATCH,  JOB_SYSTEM};

	m->now_ms = 1000000;
	m->lost_node = NODES;
	for (uint32_t i = 0; i < JOBS * GROUPS * (COUNT_MAX + NODES); i++)
		(void)str_format(&m->reasons[0][0][0][0] + (size_t)i * NAME_SIZE, NAME_SIZE, "no place %u",
				 i);
	for (uint32_t i = 0; i < NODES; i++) {
		m->nodes[i] = (struct model_node){.is_connected = true, .has_plugin = true};
		(void)str_format(m->nodes[i].id, sizeof(m->nodes[i].id), "node%u", i);
	}
	for (uint32_t i = 0; i < JOBS; i++) {
		m->jobs[i].spec =
			(struct job_spec){.id = "job", .type = types[i], .groups = m->jobs[i].groups};
		submit(m, i, true);
	}
}

/* --- steps --- */

static void step_agents(struct model *m)
{
	for (uint32_t i = 0; i < 4 && m->n_allocs > 0; i++)
		advance(m, &m->allocs[draw(m, (uint32_t)m->n_allocs)], false);
	for (uint32_t i = 0; i < 2 && m->n_claims > 0; i++)
		release(m, draw(m, (uint32_t)m->n_claims));
	place_queued(m);
}

static void step_stranger(struct model *m)
{
	char volume_id[NAME_SIZE], id[NAME_SIZE];
	size_t i = m->n_claims > 0 ? draw(m, (uint32_t)m->n_claims) : 0;

	if (m->n_claims > 0 && m->claims[i].is_stranger && chance(m, 60)) {
		m->claims[i] = m->claims[--m->n_claims];
		return;
	}
	(void)str_format(volume_id, sizeof(volume_id), chance(m, 50) ? "v%u%c" : "v%u%c[%u]", draw(m, 2) * 2,
			 "ab"[draw(m, 2)], draw(m, COUNT_MAX));
	(void)str_format(id, sizeof(id), "stranger%u", m->n_ids++);
	if (!is_claimed(m, volume_id))
		add_claim(m, volume_id, id, draw(m, NODES), SINGLE_NODE_WRITER, true);
}

static void step_node(struct model *m)
{
	uint32_t node = draw(m, NODES);
	struct model_node *of = &m->nodes[node];

	switch (draw(m, 8)) {
	case 0:
		of->is_connected = false;
		break;
	case 6:
		lose_node(m, node);
		break;
	case 1:
	case 2:
		of->is_connected = true;
		break;
	case 3:
		reboot(m, node);
		break;
	case 4:
		of->is_ineligible = !of->is_ineligible;
		break;
	case 5:
		if (of->is_draining)
			of->is_draining = false;
		else
			drain(m, node);
		break;
	default:
		of->has_plugin = !of->has_plugin;
	}
}

static void step_claim(struct model *m)
{
	if (chance(m, 20) && m->n_claims > 0)
		(void)str_copy(m->unknown_volume, sizeof(m->unknown_volume),
			       m->claims[draw(m, (uint32_t)m->n_claims)].volume_id);
	else if (chance(m, 50))
		m->unknown_volume[0] = '\0';
	if (m->n_claims > 0)
		m->claims[draw(m, (uint32_t)m->n_claims)].is_stuck = chance(m, 50);
}

static void step_job(struct model *m)
{
	uint32_t job = draw(m, JOBS);

	for (uint32_t i = 0; i < 4; i++)
		m->is_unplaceable[draw(m, JOBS)][draw(m, GROUPS)][draw(m, COUNT_MAX + NODES)] = chance(m, 40);
	if (chance(m, 25))
		m->jobs[job].spec.stop = true;
	else if (chance(m, 80))
		submit(m, job, false);
	else if (m->n_allocs > 0)
		m->allocs[draw(m, (uint32_t)m->n_allocs)].view.desired = DESIRED_STOP;
}

static void step(struct model *m)
{
	uint32_t what = draw(m, 100);

	if (what < 40)
		step_agents(m);
	else if (what < 75)
		turn(m, draw(m, JOBS), true);
	else if (what < 85)
		m->now_ms += draw(m, 3000);
	else if (what < 91)
		step_node(m);
	else if (what < 95)
		step_claim(m);
	else if (what < 97)
		step_stranger(m);
	else if (what < 99)
		collect(m);
	else
		step_job(m);
}

/* --- when nothing is broken any more --- */

static void repair(struct model *m)
{
	size_t n = 0;

	for (uint32_t i = 0; i < NODES; i++)
		m->nodes[i] = (struct model_node){.is_connected = i != m->lost_node, .has_plugin = true};
	for (uint32_t i = 0; i < NODES; i++)
		(void)str_format(m->nodes[i].id, sizeof(m->nodes[i].id), "node%u", i);
	m->unknown_volume[0] = '\0';
	memset(m->is_unplaceable, 0, sizeof(m->is_unplaceable));
	for (size_t i = 0; i < m->n_claims; i++) {
		m->claims[i].is_stuck = false;
		if (!m->claims[i].is_stranger)
			m->claims[n++] = m->claims[i];
	}
	m->n_claims = n;
	for (uint32_t i = 0; i < JOBS; i++)
		if (!m->jobs[i].spec.stop &&
		    (m->jobs[i].bad[0] || m->jobs[i].bad[1] || m->jobs[i].spec.update == JOB_UPDATE_FAILED))
			submit(m, i, true);
}

/* Does it wait for a volume that a member of any job has, which works, or whose update waits for such a
 * member?
 */
static bool is_behind_worker(struct model *m, const struct job_wait *wait)
{
	const struct model_alloc *own = wait->what == JOB_WAIT_QUEUE ? find_alloc(m, wait->alloc_id) : NULL;
	const char *volume_id = own ? own->volume_id : wait->volume_id;

	if (wait->what != JOB_WAIT_QUEUE && wait->what != JOB_WAIT_VOLUME)
		return false;
	for (size_t i = 0; i < m->n_allocs; i++)
		if (&m->allocs[i] != own && m->allocs[i].has_volume && !m->allocs[i].view.is_queued &&
		    !has_ended(&m->allocs[i]) &&
		    (is_healthy(m, &m->allocs[i]) || m->allocs[i].moves || m->is_blocked[m->allocs[i].job]) &&
		    str_eq(m->allocs[i].volume_id, volume_id))
			return true;
	return false;
}

/* Jobs that share volumes do not all run: does each wait of the decisions end only with the work of another
 * member, or with a turn after such a wait? */
static bool is_blocked_by_work(struct model *m)
{
	size_t n_behind = 0, n_turns = 0;

	for (size_t i = 0; i < m->decisions.n_waits; i++) {
		n_behind += is_behind_worker(m, &m->decisions.waits[i]);
		n_turns += m->decisions.waits[i].what == JOB_WAIT_TURN;
	}
	return n_behind > 0 && n_behind + n_turns == m->decisions.n_waits;
}

static void find_moving(struct model *m)
{
	for (size_t i = 0; i < m->n_allocs; i++)
		m->allocs[i].moves = false;
	for (uint32_t job = 0; job < JOBS; job++) {
		decide(m, job);
		for (size_t i = 0; i < m->decisions.n_waits; i++) {
			const struct job_wait *wait = &m->decisions.waits[i];
			struct model_alloc *live = m->jobs[job].spec.type == JOB_SYSTEM
							   ? NULL
							   : live_of(m, job, wait->group, wait->index);

			if (live && wait->what == JOB_WAIT_VOLUME)
				live->moves = true;
		}
	}
}

static void find_blocked(struct model *m)
{
	find_moving(m);
	memset(m->is_blocked, 0, sizeof(m->is_blocked));
	for (uint32_t i = 0; i < JOBS; i++) /* one may be behind another one */
		for (uint32_t job = 0; job < JOBS; job++) {
			decide(m, job);
			m->is_blocked[job] = m->decisions.n_actions == 0 && is_blocked_by_work(m);
		}
}

static bool all_is_as_wanted(struct model *m)
{
	find_blocked(m);
	for (uint32_t job = 0; job < JOBS; job++) {
		const struct job_spec *spec = &m->jobs[job].spec;
		enum job_state wanted = spec->stop ? JOB_STATE_STOPPED : JOB_STATE_RUNNING;

		decide(m, job);
		if (m->is_blocked[job]) {
			assert_int_equal(m->decisions.state, JOB_STATE_PENDING);
			m->n_shared_waits++;
			continue;
		}
		if (m->decisions.n_actions > 0 || m->decisions.n_waits > 0)
			return false;
		if (!spec->stop && spec->type == JOB_BATCH && m->decisions.state == JOB_STATE_RUNNING)
			return false;
		if (!spec->stop && spec->type == JOB_BATCH)
			wanted = JOB_STATE_COMPLETE;
		if (m->decisions.state != wanted)
			FAIL(m, "job %u is %s", job, job_state_name(m->decisions.state));
	}
	return true;
}

static void check_counts(struct model *m)
{
	for (size_t i = 0; i < m->n_allocs; i++) {
		const struct model_alloc *alloc = &m->allocs[i];

		if (!has_ended(alloc) && !m->is_blocked[alloc->job] &&
		    (alloc->view.group >= m->jobs[alloc->job].spec.n_groups ||
		     !is_desired(m, alloc->job, alloc->view.group, number_of(m, alloc)) ||
		     !is_current(m, alloc)))
			FAIL(m, "allocation %s is left", alloc->id);
	}
	for (uint32_t job = 0; job < JOBS; job++) {
		if (m->is_blocked[job])
			continue;
		if (any_member(m, job, member_is_unsettled))
			FAIL(m, "a member of job %u is missing", job);
		if (!m->jobs[job].spec.stop && m->jobs[job].spec.update != JOB_UPDATE_DONE)
			FAIL(m, "the update of job %u has not ended", job);
	}
}

static void settle(struct model *m)
{
	m->lost_node = chance(m, 50) ? draw(m, NODES) : NODES;
	for (size_t i = 0; i < m->n_claims; i++)
		if (m->claims[i].node == m->lost_node)
			m->lost_node = NODES; /* its claims need evidence */
	if (m->lost_node < NODES)
		lose_node(m, m->lost_node);
	repair(m);
	for (uint32_t round = 0; round < SETTLE_ROUNDS; round++) {
		for (uint32_t i = 0; i < JOBS; i++)
			turn(m, i, false);
		if (all_is_as_wanted(m)) {
			check_counts(m);
			m->n_settled++;
			return;
		}
		for (size_t i = 0; i < m->n_allocs; i++)
			advance(m, &m->allocs[i], true);
		for (size_t i = m->n_claims; i-- > 0;)
			release(m, i);
		place_queued(m);
		m->now_ms += 1000;
		collect(m);
		repair(m);
	}
	for (uint32_t job = 0; job < JOBS; job++) {
		char text[JOB_WAIT_TEXT_SIZE];

		decide(m, job);
		for (size_t i = 0; i < m->decisions.n_waits; i++)
			print_message("job %u %u[%u]: %s\n", job, m->decisions.waits[i].group,
				      m->decisions.waits[i].index,
				      job_wait_text(&m->decisions.waits[i], NAMESPACE_DEFAULT, text));
	}
	FAIL(m, "it does not come to what was submitted");
}

static uint64_t setting(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);
	uint64_t value = otherwise;

	if (text)
		assert_int_equal(parse_u64(text, 0, UINT64_MAX, &value), 0);
	return value;
}

TEST(jobs_keep_their_promises_in_a_world_that_goes_wrong)
{
	cleanup_free struct model *m = NON_NULL(calloc(1, sizeof(*m)));
	uint64_t n_steps = setting("JOB_MODEL_STEPS", STEPS);

	m->seed = setting("JOB_MODEL_SEED", 21);
	print_message("JOB_MODEL_SEED=%" PRIu64 " JOB_MODEL_STEPS=%" PRIu64 "\n", m->seed, n_steps);
	start_world(m);
	for (m->step = 0; m->step < n_steps; m->step++) {
		step(m);
		if (draw(m, SETTLE_EVERY) == 0)
			settle(m);
		if (m->n_allocs > ALLOCS_MAX / 2)
			collect(m);
	}
	settle(m);
	print_message("placed %u, stopped for a version %u, updates that failed %u, waits for volumes %u, "
		      "settled %u times\n",
		      m->n_placed, m->n_stopped_for_version, m->n_failed_updates, m->n_volume_waits,
		      m->n_settled);
	assert_true(m->n_placed > 0 && m->n_stopped_for_version > 0 && m->n_volume_waits > 0 &&
		    m->n_refused > 0 && m->n_queued > 0 && m->n_unhealthy > 0);
	print_message("lost without a claim %u, waits for a topology %u, behind work of others %u, places "
		      "promised %u\n",
		      m->n_lost, m->n_zone_waits, m->n_shared_waits, m->n_promises);
	assert_true(m->n_unneeded > 0 && m->n_lost > 0 && m->n_zone_waits > 0 && m->n_shared_waits > 0 &&
		    m->n_promises > 0);
}

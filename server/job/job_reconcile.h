/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Computes what a job lacks, and the actions for it: a pure function of the job, its allocations, the nodes
 * and the holders of its volumes.
 *
 * A member is one place of a job: GROUP[INDEX] of a service or batch job, one of each group on each eligible
 * node of a system job that meets the group's constraints. It has at most one allocation that has not ended.
 * To replace a member, its allocation is stopped. Another one is placed when that has ended and its volumes
 * are free. A holder keeps a volume until its end is known, however long that takes. Work that a node may
 * have invented is no member, see job_has_member(). The agent does the restarts on the node
 * (RestartPolicy of a task): an allocation that failed has used them up.
 *
 * Nothing is kept between two calls. The caller carries out the actions, in their order and as many as it
 * can, and calls again, also after a crash in between. The same input gives the same answer. */

#include "model/alloc.h"
#include "model/modes.h"
#include "model/volume.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	JOB_GROUPS_MAX = 16,
	JOB_COUNT_MAX = 10000, /* members of all groups */
	JOB_ACTIONS_MAX = 64,  /* of one call: what one transaction takes */
	JOB_WAITS_MAX = 64,    /* that are named; the rest is counted */
	JOB_WAIT_TEXT_SIZE = 512,
};

#define JOB_GROUP_GONE UINT32_MAX /* group of an allocation whose group is not in this version */

enum job_type {
	JOB_TYPE_UNSPECIFIED,
	JOB_SERVICE, /* count members that run */
	JOB_SYSTEM,  /* one on each eligible node: plugins */
	JOB_BATCH,   /* count members, each until its work ended with 0 */
	JOB_TYPE_N,
};

/* How members that run something else than this version are replaced. Those that are not healthy come first.
 * A member of a system job stays while its node takes nothing, and the others do not wait for it. */
struct job_update {
	uint32_t max_parallel;	 /* members of the group that are away for it at once; 0: 1 */
	uint32_t min_healthy_ms; /* its tasks run and pass their checks for so long until it is healthy */
	uint32_t healthy_deadline_ms; /* not healthy so long after it was placed: the update failed; 0: never
				       */
};

/* When a member whose allocation failed is placed again, on another node if one can take it. */
struct job_reschedule {
	bool unlimited;
	uint32_t attempts; /* within the interval; 0: never */
	uint32_t interval_ms;
	uint32_t delay_ms; /* after the failure */
};

struct job_volume {
	char source[VOLUME_ID_MAX + 1]; /* id of the volume, or with per_alloc what "[INDEX]" follows */
	bool per_alloc;			/* not of system jobs */
	enum access_mode access_mode;
	enum claim_mode mode;
};

struct job_group {
	const char *name;
	uint64_t content; /* sum of what its members run */
	uint32_t count;	  /* not of system jobs; 0: it is paused */
	const struct job_volume *volumes;
	size_t n_volumes;
	struct job_update update;
	struct job_reschedule reschedule;
};

enum job_update_status {
	JOB_UPDATE_RUNNING, /* since this version was submitted */
	JOB_UPDATE_DONE,    /* all members were healthy in this version */
	JOB_UPDATE_FAILED,  /* one passed its deadline: nothing that works is stopped for this version */
};

struct job_spec {
	const char *id;
	enum job_type type;
	uint64_t version;
	uint64_t restart_version; /* what an earlier version placed is replaced in any case */
	int64_t submit_ms;
	bool stop; /* it must end */
	enum job_update_status update;
	const struct job_group *groups;
	size_t n_groups;
};

/* An allocation of the job, as the server knows it. */
struct job_alloc {
	const char *id;
	const char *node_id;
	uint32_t group; /* in the groups of the job; JOB_GROUP_GONE */
	uint32_t index;
	uint64_t version; /* of the job, with which it was placed */
	uint64_t content; /* of its group then */
	enum desired_status desired;
	enum client_status client;
	bool is_queued;	      /* it has no node yet: it waits in the queues of its volumes */
	bool keeps_place;     /* in the queues of its volumes, for the next version of its member */
	bool is_adopted;      /* only its node knew it: while it runs it counts after every other one */
	uint64_t proven;      /* likewise: its member_generation; 0: it counts last */
	bool is_stranger;     /* it is no member, and must stop; its group is JOB_GROUP_GONE */
	bool lost_race;	      /* another one had its volume when it was placed: no failure of its work */
	int64_t create_ms;    /* when it got its node */
	int64_t healthy_ms;   /* since when its tasks run and pass their checks, or did last; 0: never */
	int64_t unhealthy_ms; /* when that ended; 0: it has not, or as it ended */
	const char *trouble;  /* why it is not healthy; NULL: it is, or has not run long enough */
	int64_t end_ms;	      /* when it ended; 0: it has not */
	void *of;	      /* the caller's */
	/* Set by job_reconcile(), of one that ended: until when decisions about this version of the job go by
	 * it; 0: they do not, JOB_NEEDS_ALWAYS: without an end. */
	int64_t needed_until_ms;
	const char *avoid_node_id; /* likewise, of one that is queued: as that of a struct job_action */
};

#define JOB_NEEDS_ALWAYS INT64_MAX

struct job_node {
	const char *id;
	bool is_connected;
	bool is_eligible;	  /* takes new allocations now: connected, not draining, marked eligible */
	uint32_t excluded_groups; /* of a system job: bit N is set if a constraint of group N excludes it */
};

/* A holder that keeps others from a volume: a live claim in any state, or a volume request of an
 * allocation that has not ended. Limits the replacement of members. One holder may be listed twice. Both
 * modes unspecified: the holder is unknown, and so the volume is not given to another one. */
struct job_holder {
	const char *volume_id;
	const char *alloc_id; /* NULL: of another namespace, or not known */
	const char *node_id;  /* NULL: not known */
	enum access_mode access_mode;
	enum claim_mode mode;
};

#define JOB_EVERY_INDEX UINT32_MAX

/* A member for which the caller found no place at its last try. */
struct job_refusal {
	uint32_t group;
	uint32_t index;	     /* JOB_EVERY_INDEX: the reason is that of each member of the group */
	uint32_t n_more;     /* members with the next indexes, for which there was no place either */
	const char *node_id; /* of a member of a system job; NULL */
	const char *reason;  /* of the first one */
};

struct job_world {
	const struct job_spec *job;
	struct job_alloc *allocs; /* of the job; of those that ended those that job_reconcile() names */
	size_t n_allocs;
	struct job_node *nodes;
	size_t n_nodes;
	struct job_holder *holders; /* of the volumes of members that job_alloc_is_old(), at least */
	size_t n_holders;
	struct job_refusal *refusals; /* until something changes: these members are not tried again */
	size_t n_refusals;
	int64_t now_ms;
};

enum job_action_type {
	JOB_PLACE,	 /* GROUP[INDEX], on node_id if that is set */
	JOB_STOP,	 /* alloc_id, which is of GROUP[INDEX] */
	JOB_DROP_PLACE,	 /* alloc_id, which has ended, gives up its place: it has no successor now */
	JOB_END_UPDATE,	 /* store JOB_UPDATE_DONE */
	JOB_FAIL_UPDATE, /* store JOB_UPDATE_FAILED; alloc_id passed its deadline */
};

enum job_stop_reason {
	JOB_STOP_JOB,	    /* the job must end */
	JOB_STOP_COUNT,	    /* index at or above count */
	JOB_STOP_GROUP,	    /* its group is gone */
	JOB_STOP_VERSION,   /* it runs something else than the current version */
	JOB_STOP_DUPLICATE, /* the member has another one */
	JOB_STOP_NODE,	    /* this version excludes its node */
	JOB_STOP_STRANGER,  /* only its node knows it, and nothing proves that it is a member */
};

/* Pointers are those of the input. */
struct job_action {
	enum job_action_type type;
	uint32_t group;
	uint32_t index;
	const char *node_id;
	const char *avoid_node_id; /* JOB_PLACE: where the member failed last; NULL: no such node */
	const char *alloc_id;
	enum job_stop_reason reason; /* JOB_STOP */
};

enum job_wait_for {
	JOB_WAIT_VOLUME, /* volume_id, which alloc_id on node_id holds; see struct job_holder */
	JOB_WAIT_QUEUE,	 /* its turn at its volumes, in whose queues alloc_id waits */
	JOB_WAIT_NODE,	 /* any eligible one */
	JOB_WAIT_STOP,	 /* end of alloc_id on node_id, which must stop */
	JOB_WAIT_HEALTH, /* alloc_id on node_id is healthy long enough; at until_ms; reason: why it is not */
	JOB_WAIT_CONNECTION,   /* node_id, on which alloc_id is, is away: its state is unknown */
	JOB_WAIT_TURN,	       /* of the update, to replace alloc_id: others must become healthy first */
	JOB_WAIT_DELAY,	       /* until_ms, after a failure */
	JOB_WAIT_ATTEMPTS,     /* too many failures; again at until_ms, 0: never */
	JOB_WAIT_NEXT_VERSION, /* the update failed: another version, or this one submitted again */
	JOB_WAIT_PLACE,	       /* some node that can take it; reason: why all nodes refused */
	JOB_WAIT_N,
};

#define JOB_WAITS_FOR(what) (UINT32_C(1) << JOB_WAIT_##what)

struct job_wait {
	uint32_t group;
	uint32_t index;
	enum job_wait_for what;
	const char *alloc_id;
	const char *node_id;
	char volume_id[VOLUME_ID_MAX + 1];
	int64_t until_ms;   /* 0: for an event, not for a time */
	const char *reason; /* JOB_WAIT_PLACE: of the refusal; JOB_WAIT_HEALTH: trouble of the allocation, or
			       NULL */
};

enum job_state {
	JOB_STATE_PENDING, /* something waits, or must be done */
	JOB_STATE_RUNNING,
	JOB_STATE_COMPLETE, /* batch: all work ended with 0 */
	JOB_STATE_STOPPING,
	JOB_STATE_STOPPED,
};

struct job_counts {
	uint32_t desired;
	uint32_t placed;   /* members with an allocation that has not ended */
	uint32_t healthy;  /* of these, in any version */
	uint32_t current;  /* healthy, in this version */
	uint32_t done;	   /* batch */
	uint32_t waiting;  /* members that wait for something */
	uint32_t missing;  /* members without an allocation whose work is not done */
	uint32_t replaced; /* placed members that run something else than this version */
	uint32_t in_place; /* members that an earlier version placed and that stay */
	uint32_t surplus;  /* allocations that have no place in this version */
};

struct job_decisions {
	struct job_action actions[JOB_ACTIONS_MAX];
	size_t n_actions;
	bool is_cut; /* there are more actions: call again when these are carried out */
	struct job_wait waits[JOB_WAITS_MAX];
	size_t n_waits;
	uint32_t waits_for; /* JOB_WAITS_FOR() of every wait, named or not */
	struct job_counts groups[JOB_GROUPS_MAX];
	uint32_t surplus; /* allocations of groups that are gone */
	enum job_state state;
	int64_t wake_ms; /* when it may be otherwise without any event; 0: never */
};

/** Decides. Sorts the arrays of @world, sets needed_until_ms and avoid_node_id of its allocations, and
 * changes nothing else in them. Costs n log n of their sizes.
 *
 * Among the allocations that ended it needs the last of each member that has no other, those that completed
 * the work of a batch job, the last one of this version that was healthy, and of those that failed within the
 * interval of reschedule the last attempts + 1; for an update that runs, also the first that failed.
 *
 * - An allocation is of this version if it runs the present content of its group, in any version that placed
 *   it, and not an earlier one than restart_version. So a change of count, update, reschedule or another
 * group restarts nothing. Failures from before the submission do not count.
 * - A member is placed only when its last allocation has ended. If a volume is taken, the caller puts the
 *   member into the queue of that volume: it is an allocation without a node then.
 * - A queued member of another version is replaced at once, even if other members are away.
 * - An allocation of another version is stopped only while fewer than max_parallel members of its group are
 *   away: replaced and not healthy yet, stopping or missing. Those that do not work go first.
 *   It is stopped only when there is a node, its volumes have room for its replacement, and no refusal is
 *   known. Groups that swap volumes wait for each other: such a job must be stopped first.
 * - A refusal keeps its own member waiting, or each member of its group if it is for the group.
 * - After an update has failed, nothing is stopped for it, and a missing member is placed only if it was
 *   healthy in this version.
 * - When a count was lowered, the highest indexes stop first.
 * - A lost node changes nothing: other code decides that an allocation is lost.
 * - Each member that is desired and not healthy in this version has an action or a wait, as far as there
 *   is room for them. */
void job_reconcile(const struct job_world *world, struct job_decisions *ret);

/** Might its member be replaced? @alloc has not ended, and runs something else than @job. */
bool job_alloc_is_old(const struct job_spec *job, const struct job_alloc *alloc);

/** "db[3]" when the volume is one per allocation; else its source. */
void job_volume_id(const struct job_volume *volume, uint32_t index, char ret[static VOLUME_ID_MAX + 1]);

/** One sentence for people. Returns @ret. */
const char *job_wait_text(const struct job_wait *wait, const char *namespace,
			  char ret[static JOB_WAIT_TEXT_SIZE]);

const char *job_type_name(enum job_type type);
const char *job_state_name(enum job_state state);
const char *job_stop_reason_text(enum job_stop_reason reason);

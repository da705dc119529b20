/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The server's work for jobs: after each event that matters to a job, the job is reconciled. The decisions
 * are carried out like other changes of allocations, one transaction each. There is no polling: a job that
 * waits is reconciled again when a related event arrives. */

#include "base/error.h"
#include "job/job_spec.h"
#include "state/objects.h"
#include "state/state.h"

struct change;
struct change_object;
struct job_works;
struct server;

/* Members for which no place was found; empty: {0}. */
struct job_refusals {
	struct job_refusal *list; /* owned, with its ids of nodes */
	size_t n, size;
	size_t n_members; /* one refusal may be that of several */
	char **texts;	  /* owned; JOB_WAITS_MAX at most */
	size_t n_texts;
	size_t bytes; /* of all of it */
};

/** Is @entry, which names @job, a member? A node may invent what only it knows: that is a member if it has a
 * member_generation. In a system job it has the place of no other node's member: it is one where the
 * constraints of its group allow that. */
bool job_has_member(const Holdfast__V1__Job *job, const struct alloc_entry *entry);

/** Decides about @job from the present state; owned by the caller. NULL when memory is short. Pointers in
 * it are @job's, the state's and those of @refusals (NULL: no refusals), valid until the event loop turns.
 * @is_stored: the state keeps which allocations the job needs, see job_needs_alloc(). */
struct job_decisions *job_decide(struct server *server, const Holdfast__V1__Job *job,
				 const struct job_refusals *refusals, bool is_stored, struct job_view *ret);

/** Returns the members of the job that found no place at the last try; NULL: all found one. */
const struct job_refusals *job_work_refusals(struct server *server, const char *namespace, const char *id);

/** Why the store took no change at the last try; empty: it did. */
const char *job_work_trouble(struct server *server, const char *namespace, const char *id);

enum { JOB_PLAN_DECISIONS_MAX = 16 };

/* The actions that a job would cause at once. A plan that needs more decisions, or more time than one turn of
 * the loop has for it, is cut: the actions in it are right, and members remain that were not tried. */
struct job_plan {
	struct job_view view;
	struct job_decisions *decisions; /* owned; with a wait for each member that found no place before */
	struct job_refusals refusals;
	struct alloc placed[JOB_ACTIONS_MAX]; /* owned; of the actions of type JOB_PLACE, in their order */
	size_t n_placed;
};

/** Finds out by the way of carrying it out, and changes nothing. False when memory is short.
 * job_plan_release() in any case. */
bool job_plan_make(struct server *server, const Holdfast__V1__Job *job, struct job_plan *ret);
void job_plan_release(struct job_plan *plan);

/** Key of the record of a version of @job, which lasts when another one is submitted: a StoredJob. */
void job_version_key(const Holdfast__V1__Job *job, uint64_t version, char ret[static OBJECT_KEY_SIZE]);

/** Stages that record of @job as it is now. */
void job_version_stage(struct change *change, const Holdfast__V1__Job *job);

/** Does its job still go by the allocation, which has ended? It is not collected then. Costs a look-up. */
bool job_needs_alloc(struct server *server, const struct alloc_entry *entry);

/** Jobs that the change bears on are reconciled in the next turns of the loop. See struct change_observer. */
void job_work_note_durable(struct server *server, struct change_object *objects, size_t n, uint64_t revision);

/** After a start: every job is reconciled once. */
void job_work_resume_all(struct server *server);

void job_work_release_all(struct server *server);

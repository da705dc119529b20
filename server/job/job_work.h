/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What the server does for jobs: after each event that matters to a job it is reconciled, and what is decided
 * is carried out by the ways of allocations, one transaction each. Nothing is polled: a job that waits is
 * looked at again when what it waits for may have come. */

#include "base/error.h"
#include "job/job_spec.h"
#include "state/objects.h"
#include "state/state.h"

struct change_object;
struct job_works;
struct server;

/** What is decided about @job as things are, owned by the caller; NULL when memory is short. Pointers in it
 * are @job's and the state's, good until the event loop turns. */
struct job_decisions *job_decide(struct server *server, const Holdfast__V1__Job *job, struct job_view *ret);

/** Why a member of the job could not be placed at the last try; empty: nothing was in the way. */
const char *job_work_refusal(struct server *server, const char *namespace, const char *id);

/** Key of the record of a version of @job, which lasts when another one is submitted. */
void job_version_key(const Holdfast__V1__Job *job, uint64_t version, char ret[static OBJECT_KEY_SIZE]);

/** Does its job still go by the allocation, which has ended? It is not collected then. */
bool job_needs_alloc(struct server *server, const struct alloc *alloc);

/** Jobs that the change bears on are reconciled in the next turns of the loop. See struct change_observer. */
void job_work_note_durable(struct server *server, struct change_object *objects, size_t n, uint64_t revision);

/** After a start: every job is reconciled once. */
void job_work_resume_all(struct server *server);

void job_work_release_all(struct server *server);

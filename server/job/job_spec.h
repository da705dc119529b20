/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A job as it is submitted and stored: its valid contents, and its form for the reconciler and for an
 * allocation. */

#include "base/error.h"
#include "job/job_reconcile.h"
#include "model/alloc.h"

#include <holdfast/v1/jobs.pb-c.h>

enum {
	JOB_BYTES_MAX = 64 << 10, /* of one, on the wire */
	JOB_VERSIONS_KEPT = 6,
	JOB_SYSTEM_CONSTRAINTS_MAX = 32, /* of all groups: each decision compares them with each node */
	JOB_RESCHEDULE_INTERVAL_MAX_MS = 24 * 3600 * 1000,
	JOB_RESCHEDULE_ATTEMPTS_MAX = 100, /* a member's failures are kept for the interval */
};

/* The reconciler's view of a job; borrows from its message. */
struct job_view {
	struct job_spec spec;
	struct job_group groups[JOB_GROUPS_MAX];
	struct job_volume volumes[JOB_GROUPS_MAX][ALLOC_VOLUMES_MAX];
};

/** Checks a submission. STATUS_INVALID_ARGUMENT names the field. */
enum status job_validate(const Holdfast__V1__Job *job, struct error *err);

/** Sum of the counts of its groups. */
uint64_t job_members(const Holdfast__V1__Job *job);

/** @job has passed job_validate(). */
void job_view_of(const Holdfast__V1__Job *job, struct job_view *ret);

/** The allocation of GROUP[@index], without id and node. @ret has lists of its own, alloc_release(). */
enum status job_make_alloc(const Holdfast__V1__Job *job, uint32_t group, uint32_t index, struct alloc *ret,
			   struct error *err);

/** Sum of what the members of a group run; alike for the same message in any version. */
uint64_t job_content(const Holdfast__V1__JobGroup *group);

/** Does @alloc, which is of @job, run the present content of its group? */
bool job_is_current(const Holdfast__V1__Job *job, const struct alloc *alloc);

/** Do both ask for the same? Fields that the server sets are ignored. */
bool job_same_submission(const Holdfast__V1__Job *a, const Holdfast__V1__Job *b);

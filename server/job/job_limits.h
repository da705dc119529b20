/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The tasks of a job, compared with the offers of the drivers on all nodes. */

#include "base/error.h"

#include <holdfast/v1/jobs.pb-c.h>

struct state;

/** STATUS_INVALID_ARGUMENT if nodes have the driver of a task and each of these drivers lacks what the task
 * asks for; @err has a line for each node. A driver that no node has is waited for. */
enum status job_check_limits(const struct state *state, const Holdfast__V1__Job *job, struct error *err);

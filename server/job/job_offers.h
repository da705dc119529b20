/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The restart and health blocks of a job, compared with the offers of all drivers. */

#include "base/error.h"

#include <holdfast/v1/jobs.pb-c.h>

struct state;

/** STATUS_INVALID_ARGUMENT if nodes have the driver of a task and no such driver offers its restart or
 * health block; @err has a line for each block. A driver that no node has is waited for. */
enum status job_check_offers(const struct state *state, const Holdfast__V1__Job *job, struct error *err);

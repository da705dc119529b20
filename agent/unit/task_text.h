/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What people are told about the unit of an allocation. */

#include "unit/task_view.h"

/** It was not started, or it failed by itself. @job_result how the job of the start ended; empty: not known
 */
enum status task_text_failed(const char *unit, const struct task_view *view, const char *job_result,
			     struct error *err);

/** It runs, but not for this allocation. */
enum status task_text_foreign(const char *unit, const struct task_view *view, struct error *err);

/** It has not stopped in time. */
enum status task_text_late(const char *unit, const struct task_view *view, struct error *err);

/** The settings in @file do not let the agent start it. */
enum status task_text_unlisted(const char *unit, const char *file, struct error *err);

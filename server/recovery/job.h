/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One piece of work that blocks (copying a database, hashing a file), in a thread of its own. */

#include "base/error.h"

#include <systemd/sd-event.h>

struct job;

/** In the thread: touches nothing that the event loop touches but what @userdata says. */
typedef enum status job_work_fn(void *userdata, struct error *err);

/** From the event loop, when the work is done; the job is gone then. @err NULL: it went well. */
typedef void job_done_fn(const struct error *err, void *userdata);

/** @ret is borrowed until @done ran; job_free() before that. */
enum status job_start(sd_event *event, job_work_fn *work, job_done_fn *done, void *userdata, struct job **ret,
		      struct error *err);

/** Wait for the work; its done function does not run. NULL is allowed. */
void job_free(struct job *job);

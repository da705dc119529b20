/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One piece of work that blocks (copying a database, hashing a file), in a thread of its own. */

#include "base/error.h"

#include <systemd/sd-event.h>

struct worker;

/** Runs in the thread. It shares only the data of @userdata with the event loop. */
typedef enum status worker_work_fn(void *userdata, struct error *err);

/** From the event loop, when the work is done; the worker is gone then. @err NULL: it went well. */
typedef void worker_done_fn(const struct error *err, void *userdata);

/** @ret is borrowed until @done ran; worker_free() before that. */
enum status worker_start(sd_event *event, worker_work_fn *work, worker_done_fn *done, void *userdata,
			 struct worker **ret, struct error *err);

/** Wait for the work; its done function does not run. NULL is allowed. */
void worker_free(struct worker *worker);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* holdfast-fencer: dials the claim servers, believes signed orders for its cluster, its name and the nodes of
 * its file, runs their fence agents, and answers what these have shown. It looks at every switch now and
 * then, so that one that does not answer is known before it is needed. */

#include "base/error.h"
#include "fencer/settings.h"

#include <stdbool.h>
#include <systemd/sd-event.h>

struct fencer;

/** @settings borrowed, must outlive it. @event borrowed. @ret owned by the caller, fencer_free(). */
enum status fencer_new(sd_event *event, const struct fencer_settings *settings, struct fencer **ret,
		       struct error *err);
/** Kills agents that run. NULL is allowed. */
void fencer_free(struct fencer *fencer);

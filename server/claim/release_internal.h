/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Between release.c and release_sweep.c. */

#include "claim/release.h"
#include "model/release.h"

struct releases {
	struct server *server; /* borrowed */
	struct claim_list stuck;
	struct release_stats stats;
	sd_event_source *sweep;	     /* owned; the next slice */
	struct release_waits waits;  /* so far in this sweep */
	char cursor[UUID_TEXT_SIZE]; /* first claim of that slice; empty: a sweep begins */
};

/** What is next for the claim, as far as is known now. */
enum release_action release_next(struct server *server, const struct claim_entry *entry);

/** Is it under way, or does it wait for its time? */
bool release_is_driven(const struct claim_entry *entry);

enum status release_start_sweeping(struct releases *releases, struct error *err);

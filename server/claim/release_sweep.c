/* SPDX-License-Identifier: Apache-2.0 */
/* The net under release.c: now and then every claim is looked at, in slices, for a release that no event has
 * driven on. What is found is counted: there should be nothing. What each waits for is counted on the way. */

#include "server.h"

#include "base/clock.h"
#include "base/str.h"
#include "claim/release_internal.h"
#include "log/log.h"
#include "state/claim_log.h"
#include "volume/why.h"

#include <inttypes.h>
#include <string.h>

enum {
	SLICE_GAP_US = 1000, /* others have their turn */
	SWEEP_ACCURACY_US = 1000,
};

static bool is_work(enum release_action action)
{
	switch (action) {
	case RELEASE_WAIT_EXPIRY:
	case RELEASE_EXPIRE:
	case RELEASE_ASK_NODE:
	case RELEASE_DETACH:
	case RELEASE_FREE:
		return true;
	case RELEASE_NOTHING:
	case RELEASE_WAIT_NODE:
	case RELEASE_WAIT_SIBLING:
	case RELEASE_ACTION_N:
		break;
	}
	return false;
}

/* Since when a claim that is taken was asked back is known from the sweeps alone; of the others their state
 * tells, whatever was restarted since. */
static void note_wait(struct claim_work *work, const struct claim *claim, enum explain_actor actor,
		      int64_t now_ms)
{
	bool is_first = work->waits_for == ACTOR_NOBODY;

	if (work->waits_for == actor)
		return;
	work->waits_for = actor;
	work->waits_since_ms = is_first && claim->state != CLAIM_TAKEN ? claim->state_time_ms : now_ms;
}

static void count_wait(struct releases *releases, struct claim_entry *entry)
{
	struct holder holder = claim_holder(releases->server, &entry->claim);
	enum explain_actor actor = explain_actor(&entry->claim, &holder);
	struct release_waits *waits = &releases->waits;
	int64_t *since_ms = &waits->since_ms[actor];

	note_wait(&entry->work, &entry->claim, actor, clock_realtime_ms());
	waits->n[actor]++;
	if (*since_ms == 0 || entry->work.waits_since_ms < *since_ms)
		*since_ms = entry->work.waits_since_ms;
}

static void look_at(struct releases *releases, struct claim_entry *entry)
{
	bool is_first = releases->stats.sweeps == 0;
	struct claim_log log;

	if (!claim_is_live(&entry->claim))
		return;
	count_wait(releases, entry);
	if (release_is_driven(entry) || !is_work(release_next(releases->server, entry)))
		return;
	if (!is_first && entry->claim.modify_time_ms + RELEASE_SWEEP_GRACE_MS > clock_realtime_ms())
		return;
	if (!is_first) {
		releases->stats.swept_up++;
		log_ctx(LOG_WARNING, claim_log(&log, &entry->claim, "release", LOG_EVENT_NONE, NULL),
			"the sweep drives on what no event did");
	}
	release_drive(releases->server, entry);
}

/* The claim behind @id, which may be gone. */
static struct claim_entry *claim_behind(struct state *state, const char *id)
{
	struct claim_entry *entry = state_claim_from(state, id);

	return entry && str_eq(entry->id, id) ? state_claim_next(entry) : entry;
}

static uint64_t look_at_slice(struct releases *releases)
{
	struct server *server = releases->server;
	struct claim_entry *entry = claim_behind(&server->state, releases->cursor);

	for (int i = 0; entry && i < RELEASE_SWEEP_SLICE; i++) {
		memcpy(releases->cursor, entry->claim.id, sizeof(releases->cursor));
		look_at(releases, entry);
		entry = claim_behind(&server->state, releases->cursor); /* history may have gone */
	}
	if (entry)
		return SLICE_GAP_US;
	releases->cursor[0] = '\0';
	releases->stats.sweeps++;
	releases->stats.waits = releases->waits;
	releases->waits = (struct release_waits){0};
	return server->config.release_sweep_us;
}

static int on_sweep(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct releases *releases = userdata;
	uint64_t delay_us = look_at_slice(releases);
	int r = sd_event_source_set_time_relative(source, delay_us);

	(void)usec;
	if (r >= 0)
		r = sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	return r; /* the source is then off: events still drive what they did before */
}

enum status release_start_sweeping(struct releases *releases, struct error *err)
{
	int r = sd_event_add_time_relative(releases->server->event, &releases->sweep, CLOCK_MONOTONIC, 0,
					   SWEEP_ACCURACY_US, on_sweep, releases);

	return r < 0 ? error_set(err, STATUS_INTERNAL, r, "arm the sweep of releases") : STATUS_OK;
}

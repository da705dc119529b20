/* SPDX-License-Identifier: Apache-2.0 */
/* The keeper of a unit's volume: a note and a link in the unit's folders, and the service manager. */

#include "hold/unit.h"

#include <signal.h>
#include <systemd/sd-daemon.h>

static enum status save(struct holder *holder, const struct hold_note *note, struct error *err)
{
	const struct hold_place *place = ((struct hold_unit *)holder)->place;

	if (holder->is_over)
		hold_link_remove(place);
	return note->alloc_id[0] ? hold_note_write(place, note, err) : hold_note_remove(place, err);
}

static enum status become_ready(struct holder *holder, struct error *err)
{
	TRY(hold_link_make(((struct hold_unit *)holder)->place, holder->path, err));
	(void)sd_notify(0, "READY=1");
	return STATUS_OK;
}

static const struct hold_keeper keeper = {
	.save = save,
	.ready = become_ready,
	.report = hold_unit_report,
	.retry_min_us = 500 * USEC_PER_MSEC,
	.retry_max_us = 10 * USEC_PER_SEC,
};

static int on_term(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	holder_end(userdata);
	return 0;
}

/* Where an earlier process of this unit was. The link is gone when the unit was stopped in between. */
static enum status find_beginning(struct hold_unit *unit, struct error *err)
{
	struct holder *holder = &unit->holder;

	TRY(hold_note_read(unit->place, &holder->note, err));
	if (!holder->note.alloc_id[0])
		holder->hold.state = HOLD_SUBMITTING;
	else if (holder->note.is_ending)
		holder->hold.state = HOLD_CLEARING;
	else if (hold_link_read(unit->place, holder->path))
		holder->hold = (struct hold){.state = HOLD_HELD, .was_held = true};
	else
		holder->hold.state = HOLD_LOOKING;
	if (holder->hold.state != HOLD_HELD)
		return STATUS_OK;
	/* services have the device of root's link */
	hold_link_device(unit->links, unit->name, &holder->device);
	(void)sd_notify(0, "READY=1"); /* the one before may have been killed in between */
	return STATUS_OK;
}

enum status hold_unit_run(struct hold_unit *unit, enum hold_outcome *ret, struct error *err)
{
	struct holder *holder = &unit->holder;
	sd_event *event = connection_event(holder->connection);
	enum status status = STATUS_OK;
	int r = sd_event_add_signal(event, NULL, SIGTERM, on_term, holder);

	if (r >= 0)
		r = sd_event_add_signal(event, NULL, SIGINT, on_term, holder);
	if (r < 0)
		status = error_set(err, status_from_errno(r), r, "cannot wait for signals");
	if (status == STATUS_OK)
		status = find_beginning(unit, err);
	if (status == STATUS_OK) {
		holder->keeper = &keeper;
		holder_run(holder);
		status = hold_unit_outcome(unit, err);
	}
	message_freep(&holder->last);
	*ret = status != STATUS_OK && holder->hold.outcome == HOLD_DONE ? HOLD_FAILED : holder->hold.outcome;
	return status;
}

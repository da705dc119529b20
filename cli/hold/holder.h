/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One `holdfast volume hold` at work; for run.c and report.c. */

#include "base/backoff.h"
#include "hold/hold.h"
#include "hold/place.h"
#include "rpc/client.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <limits.h>
#include <systemd/sd-event.h>

struct hold_order;
struct invocation;

enum { HOLDER_STATUS_SIZE = 1600 };

struct holder {
	struct invocation *inv;
	const struct hold_order *order;
	struct hold hold;
	struct hold_note note;

	sd_event *event;	     /* borrowed */
	struct rpc_client *client;   /* borrowed */
	struct rpc_pending *pending; /* the call in flight, or NULL */
	enum hold_request asked;     /* what it asks */
	bool is_term_due;	     /* SIGTERM came while the server was asked to run it: after the answer */
	sd_event_source *retry;	     /* NULL: not made yet */
	sd_event_source *deadline;
	struct backoff backoff;

	Holdfast__V1__GetAllocationResponse *last; /* owned; NULL: no answer yet */
	char path[PATH_MAX];			   /* where it is published; "": not known */
	struct error trouble;			   /* why the last call had no answer; msg "": it had one */
	struct error at_deadline;      /* trouble when the time was over; msg "": none, or it was in time */
	bool is_absent;		       /* the server has said last that there is no such allocation */
	struct error fatal;	       /* something of this machine failed; msg "": no */
	char sent[HOLDER_STATUS_SIZE]; /* the status text that was sent last */
};

/** Notify the service manager, and the journal when it has changed, where it stands. */
void holder_report(struct holder *holder);

/** A line for the journal. */
void holder_print(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/** Fill @err with how it ended. */
enum status holder_outcome(const struct holder *holder, struct error *err);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The acting part of a hold: the server's answers go into the state machine (hold.h), and its actions are
 * done. Two keepers use it: the unit of a volume (unit.c) and the volume plugin of engines (docker/claim.c).
 */

#include "base/backoff.h"
#include "call/connect.h"
#include "hold/hold.h"
#include "hold/link.h"
#include "hold/place.h"
#include "rpc/client.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <limits.h>
#include <systemd/sd-event.h>

struct holder;

/* The actions of a keeper for its holder. */
struct hold_keeper {
	/** Makes @note durable; without an id, that there is no allocation. */
	enum status (*save)(struct holder *holder, const struct hold_note *note, struct error *err);

	/** The volume is at holder->path. */
	enum status (*ready)(struct holder *holder, struct error *err);

	/** After each step; NULL: nothing to do. */
	void (*report)(struct holder *holder);

	uint64_t retry_min_us;
	uint64_t retry_max_us;
	bool explains; /* errors of the connection get their next command */
};

struct holder {
	/* set by the caller */
	struct invocation *inv; /* gets the details of the server's error */
	struct connection *connection;
	const struct hold_keeper *keeper;
	Holdfast__V1__Allocation *alloc; /* to be run; its id is not looked at */
	uint64_t timeout_us;		 /* for getting the volume, and again for releasing it by order */
	uint32_t wait_ms;		 /* in the queue of a volume that is taken; 0: it is refused then */
	struct hold hold;		 /* HOLD_SUBMITTING begins with a new id */
	struct hold_note note;
	char path[PATH_MAX];	   /* where it is published; "": not known */
	struct hold_device device; /* that is there, if the volume is a device */
	bool is_shared;		   /* others use the volume: it is not released */

	bool is_over;		     /* nothing more is asked; a keeper may set it in ready() */
	struct rpc_pending *pending; /* the call in flight, or NULL */
	enum hold_request asked;     /* what it asks */
	bool is_term_due;	/* an order to end came while the server was asked to run it: after that */
	sd_event_source *retry; /* NULL: not made yet */
	sd_event_source *deadline;
	struct backoff backoff;

	Holdfast__V1__GetAllocationResponse *last; /* owned; NULL: no answer yet */
	struct error trouble;			   /* why the last call had no answer; msg "": it had one */
	struct error at_end; /* trouble when the outcome was decided or the time was over; msg "": no */
	bool is_absent;	     /* the server's last answer: there is no such allocation; its id may run */
	bool was_run_again;  /* its id was, which the server did not know */
	struct error fatal;  /* something of this machine failed; msg "": no */
};

/** Works until it is over: it has ended, the volume is held and the keeper wants nothing else, or this
 * machine failed. Then hold.outcome, at_end and fatal have the result. */
void holder_run(struct holder *holder);

/** Release the volume; for a handler in the loop of the connection. */
void holder_end(struct holder *holder);

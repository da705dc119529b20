/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* `holdfast volume hold`: the holder of the volume of a unit. */

#include "hold/holder.h"

enum { UNIT_STATUS_SIZE = 1600 };

struct hold_unit {
	struct holder holder; /* first: the keeper finds the unit by it */
	const struct hold_place *place;
	const char *links;	     /* folder of root's links, see link.h */
	const char *name;	     /* of the unit */
	char sent[UNIT_STATUS_SIZE]; /* the status text that was sent last */
};

/** Holds the volume until SIGTERM or SIGINT (which the caller has blocked), or until it is taken away.
 * Notifies the service manager. The reason of a bad end is in @err; the details of the server's error are
 * left in the invocation.
 * @unit place, name and the caller's part of its holder, except the beginning
 * @ret  how it ended, also when it ended badly */
enum status hold_unit_run(struct hold_unit *unit, enum hold_outcome *ret, struct error *err);

/** Reports a keeper's state to the service manager, and to the journal when it has changed. */
void hold_unit_report(struct holder *holder);

/** Fill @err with how it ended. */
enum status hold_unit_outcome(const struct hold_unit *unit, struct error *err);

/** A line for the journal. */
void hold_unit_print(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

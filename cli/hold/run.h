/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* `holdfast volume hold`, the acting part: the server's answers go into the state machine, its actions are
 * done. */

#include "call/connect.h"
#include "hold/hold.h"
#include "hold/place.h"

#include <holdfast/v1/types.pb-c.h>

struct hold_order {
	struct connection *connection;
	const struct hold_place *place;
	Holdfast__V1__Allocation *alloc; /* to be run; its id is set here */
	const char *name;		 /* of the unit, for messages */
	uint64_t timeout_us;		 /* for getting the volume, and again for releasing it */
};

/** Hold the volume until SIGTERM or SIGINT (which the caller has blocked), or until it is taken away.
 * Notifies the service manager. The reason of a bad end is in @err; what the server said in detail is left in
 * the invocation.
 * @ret how it ended, also when it ended badly */
enum status hold_run(struct invocation *inv, const struct hold_order *order, enum hold_outcome *ret,
		     struct error *err);

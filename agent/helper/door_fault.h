/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Why neither door leads to a mount helper, said as the line of the unit or the file that is to be changed.
 * The helper itself can only name what it found: it does not look at units. */

#include "mounthelper_wire.h"

#include "base/error.h"
#include "helper/proc.h"

#include <stdbool.h>

#define DOOR_UNIT_TEMPLATE "holdfast-mounthelper@.service"
#define DOOR_UNIT_ALIAS "holdfast-agent.service"

/* Of this process; tests make them up. */
struct door_facts {
	const char *root; /* before the paths of units and programs; "" for this host */
	const char *unit; /* the agent's own; NULL: none */
	bool no_new_privs;
};

/** Replace what @err says by what is to be changed, if that can be found out.
 * @failure what the helper said; NULL: it was gone before it said anything */
void door_fault_explain(const struct door_facts *facts, const struct helper_door *door,
			const struct mh_failure *failure, struct error *err);

/** door_fault_explain() with the facts of this process. */
void door_fault_explain_self(const struct helper_door *door, const struct mh_failure *failure,
			     struct error *err);

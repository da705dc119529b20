/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The newest events of an object, for its status. */

#include "call/connect.h"

/** Print the last ten of the newest 2000 records of the audit about @about ("node n1"). Prints nothing if the
 * caller may not read the audit, or if it cannot be read: the status is shown without them. */
enum status events_show_newest(struct connection *connection, const char *about, bool verbose,
			       struct error *err);

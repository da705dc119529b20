/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A store that does not make durable what it was given: its disk hangs, or etcd does not answer or is full.
 *
 * What was submitted stays pending and becomes durable when the store continues. Until then reads are
 * answered from memory, which may show what is pending, and calls that change something are refused at the
 * gate. */

#include "base/error.h"
#include "lead/trouble.h"

#include <stdbool.h>
#include <stdint.h>

struct server;

enum {
	STALL_S = 5 /* that a write may take */,
	STALL_LATE_S = 15 /* that a call may, that has no deadline */
};

/** TROUBLE_NONE while the store continues. */
enum trouble_kind stall_kind(const struct server *server);

/** How long the oldest write has waited. */
uint64_t stall_age_us(const struct server *server);

/** STATUS_UNAVAILABLE says since when nothing is stored, where, and what to do. */
enum status stall_check(const struct server *server, struct error *err);

/** Once a second: log when it begins, when it ends, and meanwhile less and less often. */
void stall_watch(struct server *server);

/** For rpc_server_on_late(). */
bool stall_explain_late(void *server, struct error *err);

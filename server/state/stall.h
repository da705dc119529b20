/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A store that makes no change durable: its disk hangs, or etcd does not answer or is full.
 *
 * Submitted changes stay pending and become durable when the store continues. Until then memory answers
 * reads, which may show pending changes, and the gate refuses calls that change something. */

#include "base/error.h"
#include "lead/trouble.h"

#include <stdbool.h>
#include <stdint.h>

struct server;

enum {
	STALL_S = 5 /* limit of a write */,
	STALL_LATE_S = 15 /* limit of a call without a deadline */
};

/** TROUBLE_NONE while the store continues. */
enum trouble_kind stall_kind(const struct server *server);

/** How long the oldest write has waited. */
uint64_t stall_age_us(const struct server *server);

/** STATUS_UNAVAILABLE with the age of the oldest write, the place of the store, and the next command. */
enum status stall_check(const struct server *server, struct error *err);

/** Once a second: log when it begins, when it ends, and meanwhile less and less often. */
void stall_watch(struct server *server);

/** For rpc_server_on_late(). */
bool stall_explain_late(void *server, struct error *err);

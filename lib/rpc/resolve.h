/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Name resolution without blocking the event loop: getaddrinfo(3) in a thread of its own. */

#include "base/error.h"

#include <netdb.h>
#include <stdint.h>
#include <systemd/sd-event.h>

struct resolve;

/** @addresses owned by the callee, freeaddrinfo(); NULL when there are none, and @err says why. The resolve
 * is gone afterwards. */
typedef void resolve_done_fn(struct addrinfo *addresses, const struct error *err, void *userdata);

/** @host at most NI_MAXHOST - 1 bytes */
enum status resolve_start(sd_event *event, const char *host, uint16_t port, resolve_done_fn *done,
			  void *userdata, struct resolve **ret, struct error *err);

/** done does not run any more. NULL is allowed. */
void resolve_cancel(struct resolve *resolve);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Make a connection without blocking: to a unix socket, or to the first address of a host that answers. */

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

struct dial;

/** @fd is connected, non-blocking and the callee's; negative when no address could be reached, then @err has
 * the cause for each. The dial is gone afterwards. */
typedef void dial_done_fn(int fd, const struct error *err, void *userdata);

/** done follows from the event loop, never from inside these.
 * @is_own  connect only to the socket at @path itself. A link there leads to no other socket. */
enum status dial_unix(sd_event *event, const char *path, bool is_own, dial_done_fn *done, void *userdata,
		      struct dial **ret, struct error *err);
enum status dial_tcp(sd_event *event, const char *host, uint16_t port, dial_done_fn *done, void *userdata,
		     struct dial **ret, struct error *err);

/** Connect @fd to the socket at @path itself, as for @is_own, by one connect(). Returns 0 or an errno:
 * ECONNREFUSED for a link. */
int dial_own(int fd, const char *path);

/** Leave the address that is being tried for the next one. Returns false after the last one. */
bool dial_skip(struct dial *dial);

/** Causes of failure of the addresses that were tried, "" without a failure. */
const char *dial_failures(const struct dial *dial);

/** done never runs. NULL is allowed. */
void dial_cancel(struct dial *dial);

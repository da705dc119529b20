#pragma once
/* Blocking reads: a call that waits until an allocation changes, or until its time is over. */

#include "base/error.h"
#include "rpc/server.h"

#include <stdint.h>

struct server;
struct alloc_entry;

enum { WATCH_WAIT_MAX_MS = 5 * 60 * 1000 };

/** Called when the watch ends, for either reason; answers the call. */
typedef void watch_ready_fn(struct server *server, struct rpc_call *call, struct alloc_entry *entry);

/** Hold @call until watch_wake(@entry) or @wait_ms. STATUS_RESOURCE_EXHAUSTED when too many wait; the call is
 * still the caller's then. */
enum status watch_alloc(struct server *server, struct alloc_entry *entry, struct rpc_call *call,
			uint32_t wait_ms, watch_ready_fn *ready, struct error *err);

/** End every watch of @entry now. */
void watch_wake(struct alloc_entry *entry);

/** Refuse every call that waits, because the server ends. */
void watch_cancel_all(struct server *server);

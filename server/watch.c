#include "watch.h"

#include "server.h"
#include "state.h"

#include "base/clock.h"

#include <stdlib.h>

enum { WATCHES_MAX = 4096, TIMER_ACCURACY_US = 1000 };

struct watch {
	LIST_ENTRY(watch) of_alloc;
	struct server *server;
	struct alloc_entry *entry;
	struct rpc_call *call;
	sd_event_source *timer; /* owned */
	watch_ready_fn *ready;
};

static void watch_free(struct watch *watch)
{
	LIST_REMOVE(watch, of_alloc);
	watch->server->n_watches--;
	(void)sd_event_source_disable_unref(watch->timer);
	free(watch);
}

static void end(struct watch *watch)
{
	watch->ready(watch->server, watch->call, watch->entry);
	watch_free(watch);
}

static int on_time(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)source;
	(void)usec;
	end(userdata);
	return 0;
}

enum status watch_alloc(struct server *server, struct alloc_entry *entry, struct rpc_call *call,
			uint32_t wait_ms, watch_ready_fn *ready, struct error *err)
{
	uint64_t wait_us =
		(uint64_t)(wait_ms < WATCH_WAIT_MAX_MS ? wait_ms : WATCH_WAIT_MAX_MS) * USEC_PER_MSEC;
	struct watch *watch;
	int r;

	if (server->n_watches >= WATCHES_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "more than %d calls are waiting for changes", WATCHES_MAX);
	watch = calloc(1, sizeof(*watch));
	if (!watch)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "out of memory");
	*watch = (struct watch){.server = server, .entry = entry, .call = call, .ready = ready};
	r = sd_event_add_time_relative(server->event, &watch->timer, CLOCK_MONOTONIC, wait_us,
				       TIMER_ACCURACY_US, on_time, watch);
	if (r < 0) {
		free(watch);
		return error_set(err, STATUS_INTERNAL, r, "start a timer");
	}
	LIST_INSERT_HEAD(&entry->watches, watch, of_alloc);
	server->n_watches++;
	return STATUS_OK;
}

void watch_wake(struct alloc_entry *entry)
{
	struct watch *watch;

	/* ready() answers calls and starts no watch, so this ends */
	while ((watch = LIST_FIRST(&entry->watches)))
		end(watch);
}

void watch_cancel_all(struct server *server)
{
	static const struct error ending = {.status = STATUS_UNAVAILABLE, .msg = "the server is ending"};
	struct alloc_entry *entry = state_alloc_from(&server->state, "");
	struct watch *watch;

	for (; entry; entry = state_alloc_next(entry)) {
		while ((watch = LIST_FIRST(&entry->watches))) {
			rpc_call_fail(watch->call, &ending);
			watch_free(watch);
		}
	}
}

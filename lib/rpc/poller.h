/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Many descriptors behind one source of sd-event.
 *
 * sd-event asks the kernel again for each event that it dispatches and gets all ready descriptors each time,
 * so an event costs more with more ready descriptors. A poller asks once for a batch, and its turn is
 * bounded: the remainder is served first in the next one, after the other work of the loop, other pollers
 * included. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <systemd/sd-event.h>

struct poller;
struct poll_item;

/** @events of epoll(7); 0: it was woken. May remove any item, this one included, and free the poller. */
typedef void poll_fn(struct poll_item *item, uint32_t events);

/* Embedded in its owner; zero before poller_add(). */
struct poll_item {
	struct poller *poller; /* NULL: removed */
	int fd;		       /* borrowed */
	uint32_t events;       /* that it waits for */
	poll_fn *fn;
	bool is_paused;
	bool is_woken;
	TAILQ_ENTRY(poll_item) woken;
};

/** @event is borrowed and must outlive the poller. Returns 0 or a negative errno. */
int poller_new(sd_event *event, struct poller **ret);

/** Stops dispatching; items may be removed later. NULL is allowed. */
void poller_free(struct poller *poller);

/** Wait for @events of @fd. Returns 0 or a negative errno. */
int poller_add(struct poller *poller, struct poll_item *item, int fd, uint32_t events, poll_fn *fn);

/** Does nothing with an item that was removed, or never added. */
void poller_remove(struct poll_item *item);

void poller_wait_for(struct poll_item *item, uint32_t events);

/** Stops all events, also those that the kernel has; it can still be woken. */
void poller_pause(struct poll_item *item);

/** Have it called with no events, once, in a turn to come. */
void poller_wake(struct poll_item *item);

/** Have it served by @to. It stays where it is when the kernel has no memory for it. */
void poller_move(struct poll_item *item, struct poller *to);

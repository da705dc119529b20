/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/poller.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "rpc/timer.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

enum { BATCH = 64 }; /* events of one look; at some 20 us for each, about a turn */

static const uint64_t TURN_US = 2 * USEC_PER_MSEC;

struct poller {
	sd_event_source *io;	/* NULL: freed by its owner; so is again */
	sd_event_source *again; /* deferred, one-shot, enabled: items are woken */
	int fd;
	unsigned int refs; /* its owner, its items, a turn */
	int next, n;	   /* of the batch */
	struct epoll_event batch[BATCH];
	TAILQ_HEAD(, poll_item) woken;
};

static void poller_unref(struct poller *poller)
{
	if (--poller->refs > 0)
		return;
	close_fdp(&poller->fd);
	free(poller);
}

static bool run_woken(struct poller *poller)
{
	struct poll_item *item = TAILQ_FIRST(&poller->woken);

	if (!item)
		return false;
	TAILQ_REMOVE(&poller->woken, item, woken);
	item->is_woken = false;
	item->fn(item, 0);
	return true;
}

static bool run_ready(struct poller *poller)
{
	const struct epoll_event *ready;
	struct poll_item *item;

	if (poller->next >= poller->n)
		return false;
	ready = &poller->batch[poller->next++];
	item = ready->data.ptr; /* NULL: gone since */
	if (item)
		item->fn(item, ready->events);
	return true;
}

static void poller_look(struct poller *poller)
{
	poller->next = 0;
	do
		poller->n = epoll_wait(poller->fd, poller->batch, BATCH, 0);
	while (poller->n < 0 && errno == EINTR);
}

static int on_again(sd_event_source *source, void *userdata);

/* Ready and woken items in turn, so that neither keeps the others waiting; ready ones first, because the last
 * bytes of a peer that has closed matter more than the fact that it reads nothing. */
static int turn(struct poller *poller)
{
	const uint64_t end = clock_monotonic_us() + TURN_US;
	bool busy = true;

	poller->refs++;
	if (poller->next >= poller->n)
		poller_look(poller);
	while (busy && poller->io && clock_monotonic_us() < end) {
		busy = run_ready(poller);
		busy = (poller->io && run_woken(poller)) || busy;
	}
	/* the rest of the batch is still ready, so the kernel reports it again */
	if (!TAILQ_EMPTY(&poller->woken) && poller->again)
		timer_again(&poller->again, on_again);
	poller_unref(poller);
	return 0;
}

static int on_io(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	return turn(userdata);
}

static int on_again(sd_event_source *source, void *userdata)
{
	return turn(userdata);
}

int poller_new(sd_event *event, struct poller **ret)
{
	struct poller *poller = malloc(sizeof(*poller));
	int r;

	if (!poller)
		return -ENOMEM;
	*poller = (struct poller){
		.fd = epoll_create1(EPOLL_CLOEXEC),
		.refs = 1,
		.woken = TAILQ_HEAD_INITIALIZER(poller->woken),
	};
	r = poller->fd < 0 ? -errno : sd_event_add_io(event, &poller->io, poller->fd, EPOLLIN, on_io, poller);
	if (r >= 0)
		r = sd_event_add_defer(event, &poller->again, on_again, poller);
	if (r >= 0)
		r = sd_event_source_set_enabled(poller->again, SD_EVENT_OFF);
	if (r < 0) {
		poller_free(poller);
		return r;
	}
	*ret = poller;
	return 0;
}

void poller_free(struct poller *poller)
{
	if (!poller)
		return;
	poller->io = sd_event_source_disable_unref(poller->io);
	poller->again = sd_event_source_disable_unref(poller->again);
	poller_unref(poller);
}

static int control(const struct poller *poller, int op, struct poll_item *item)
{
	struct epoll_event event = {.events = item->events, .data = {.ptr = item}};

	return epoll_ctl(poller->fd, op, item->fd, &event) < 0 ? -errno : 0;
}

int poller_add(struct poller *poller, struct poll_item *item, int fd, uint32_t events, poll_fn *fn)
{
	int r;

	assert(!item->poller);
	*item = (struct poll_item){.poller = poller, .fd = fd, .events = events, .fn = fn};
	r = control(poller, EPOLL_CTL_ADD, item);
	if (r < 0) {
		item->poller = NULL;
		return r;
	}
	poller->refs++;
	return 0;
}

/* Neither the batch nor the kernel reports it from now on. */
static void forget(struct poll_item *item)
{
	struct poller *poller = item->poller;

	for (int i = poller->next; i < poller->n; i++)
		if (poller->batch[i].data.ptr == item)
			poller->batch[i].data.ptr = NULL;
	if (!item->is_paused)
		(void)control(poller, EPOLL_CTL_DEL, item); /* cannot fail for an added item */
}

static void unwake(struct poll_item *item)
{
	if (item->is_woken)
		TAILQ_REMOVE(&item->poller->woken, item, woken);
	item->is_woken = false;
}

void poller_remove(struct poll_item *item)
{
	struct poller *poller = item->poller;

	if (!poller)
		return;
	forget(item);
	unwake(item);
	item->poller = NULL;
	poller_unref(poller);
}

void poller_wait_for(struct poll_item *item, uint32_t events)
{
	if (item->events == events || item->is_paused)
		return;
	item->events = events;
	(void)control(item->poller, EPOLL_CTL_MOD, item); /* cannot fail for an added item */
}

void poller_pause(struct poll_item *item)
{
	if (item->is_paused)
		return;
	forget(item);
	item->is_paused = true;
}

void poller_wake(struct poll_item *item)
{
	struct poller *poller = item->poller;

	if (item->is_woken)
		return;
	item->is_woken = true;
	TAILQ_INSERT_TAIL(&poller->woken, item, woken);
	if (poller->again)
		timer_again(&poller->again, on_again);
}

void poller_move(struct poll_item *item, struct poller *to)
{
	struct poller *from = item->poller;
	bool was_woken = item->is_woken;

	if (from == to || item->is_paused || control(to, EPOLL_CTL_ADD, item) < 0)
		return;
	forget(item);
	unwake(item);
	item->poller = to;
	to->refs++;
	poller_unref(from);
	if (was_woken)
		poller_wake(item);
}

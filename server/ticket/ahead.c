/* SPDX-License-Identifier: Apache-2.0 */
#include "ticket/ahead.h"

#include "base/cleanup.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

/* The signer is woken for a full batch. What never becomes one is signed, together, when the first of them is
 * needed. */
enum { WAKE_AT = TICKET_BATCH_MAX };

enum progress { PROGRESS_WAITING, PROGRESS_UNDER_WAY, PROGRESS_DONE };

struct ticket_ahead {
	STAILQ_ENTRY(ticket_ahead) next; /* while it waits */
	struct ticket_signer *signer;
	/* Changes under the signer's lock. PROGRESS_DONE is the last word, and whoever reads it has the
	 * ticket. */
	_Atomic enum progress progress;
	struct ticket ticket; /* of the thread that signs it while it is under way */
};

struct batch {
	struct ticket_ahead *ahead[TICKET_BATCH_MAX];
	size_t n;
};

STAILQ_HEAD(ahead_queue, ticket_ahead);

struct ticket_signer {
	const struct ticket_issuer *issuer; /* borrowed */
	pthread_t thread;

	pthread_mutex_t lock; /* for everything below */
	pthread_cond_t work;
	pthread_cond_t done;
	struct ahead_queue waiting;
	size_t n_waiting;
	bool is_stopping;
	bool is_awaited; /* somebody waits for done */
};

/* The first ones that wait, under way now. The lock is held. */
static struct batch take_batch(struct ticket_signer *signer)
{
	struct batch batch = {.n = 0};

	while (batch.n < TICKET_BATCH_MAX && !STAILQ_EMPTY(&signer->waiting)) {
		struct ticket_ahead *ahead = STAILQ_FIRST(&signer->waiting);

		STAILQ_REMOVE_HEAD(&signer->waiting, next);
		signer->n_waiting--;
		ahead->progress = PROGRESS_UNDER_WAY;
		batch.ahead[batch.n++] = ahead;
	}
	return batch;
}

/* The lock is held, and given back meanwhile. */
static void sign_batch(struct ticket_signer *signer, const struct batch *batch)
{
	struct ticket *tickets[TICKET_BATCH_MAX];

	(void)pthread_mutex_unlock(&signer->lock);
	for (size_t i = 0; i < batch->n; i++)
		tickets[i] = &batch->ahead[i]->ticket;
	ticket_sign_all(signer->issuer, tickets, batch->n);
	(void)pthread_mutex_lock(&signer->lock);
	for (size_t i = 0; i < batch->n; i++)
		batch->ahead[i]->progress = PROGRESS_DONE;
}

static void *signer_main(void *userdata)
{
	struct ticket_signer *signer = userdata;
	struct batch batch;

	(void)pthread_mutex_lock(&signer->lock);
	while (!signer->is_stopping) {
		if (signer->n_waiting < WAKE_AT) {
			(void)pthread_cond_wait(&signer->work, &signer->lock);
			continue;
		}
		batch = take_batch(signer);
		sign_batch(signer, &batch);
		if (signer->is_awaited)
			(void)pthread_cond_signal(&signer->done);
	}
	(void)pthread_mutex_unlock(&signer->lock);
	return NULL;
}

/* Signals belong to the event loop, so the thread starts with all of them blocked. */
static int start_thread(struct ticket_signer *signer)
{
	sigset_t all;
	sigset_t before;
	int r;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&signer->thread, NULL, signer_main, signer);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -r;
}

static void free_stopped(struct ticket_signer *signer)
{
	(void)pthread_cond_destroy(&signer->done);
	(void)pthread_cond_destroy(&signer->work);
	(void)pthread_mutex_destroy(&signer->lock);
	free(signer);
}

enum status ticket_signer_new(const struct ticket_issuer *issuer, struct ticket_signer **ret,
			      struct error *err)
{
	struct ticket_signer *signer = malloc(sizeof(*signer));
	int r;

	if (!signer)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "out of memory");
	*signer = (struct ticket_signer){
		.issuer = issuer,
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.work = PTHREAD_COND_INITIALIZER,
		.done = PTHREAD_COND_INITIALIZER,
		.waiting = STAILQ_HEAD_INITIALIZER(signer->waiting),
	};
	r = start_thread(signer);
	if (r < 0) {
		free_stopped(signer);
		return error_set(err, status_from_errno(r), r, "start the thread that signs tickets");
	}
	*ret = signer;
	return STATUS_OK;
}

void ticket_signer_free(struct ticket_signer *signer)
{
	if (!signer)
		return;
	(void)pthread_mutex_lock(&signer->lock);
	signer->is_stopping = true;
	(void)pthread_cond_signal(&signer->work);
	(void)pthread_mutex_unlock(&signer->lock);
	(void)pthread_join(signer->thread, NULL);
	free_stopped(signer);
}

struct ticket_ahead *ticket_ahead_new(struct ticket_signer *signer, const struct ticket *ticket)
{
	struct ticket_ahead *ahead = malloc(sizeof(*ahead));
	bool is_enough;

	if (!ahead)
		return NULL;
	*ahead = (struct ticket_ahead){.signer = signer, .progress = PROGRESS_WAITING, .ticket = *ticket};
	(void)pthread_mutex_lock(&signer->lock);
	STAILQ_INSERT_TAIL(&signer->waiting, ahead, next);
	is_enough = ++signer->n_waiting == WAKE_AT;
	(void)pthread_mutex_unlock(&signer->lock);
	if (is_enough)
		(void)pthread_cond_signal(&signer->work);
	return ahead;
}

/* Until the signer is done with it; at most one signature is waited for. The lock is held. */
static void wait_until_done(struct ticket_ahead *ahead)
{
	struct ticket_signer *signer = ahead->signer;

	signer->is_awaited = true;
	while (ahead->progress == PROGRESS_UNDER_WAY)
		(void)pthread_cond_wait(&signer->done, &signer->lock);
	signer->is_awaited = false;
}

void ticket_ahead_free(struct ticket_ahead *ahead)
{
	if (!ahead)
		return;
	if (ahead->progress != PROGRESS_DONE) {
		(void)pthread_mutex_lock(&ahead->signer->lock);
		if (ahead->progress == PROGRESS_WAITING) {
			STAILQ_REMOVE(&ahead->signer->waiting, ahead, ticket_ahead, next);
			ahead->signer->n_waiting--;
		} else {
			wait_until_done(ahead);
		}
		(void)pthread_mutex_unlock(&ahead->signer->lock);
	}
	free(ahead);
}

/* What the signer has not begun with is signed here, with others that wait. */
static void settle(struct ticket_ahead *ahead)
{
	struct ticket_signer *signer = ahead->signer;
	struct batch batch;

	(void)pthread_mutex_lock(&signer->lock);
	if (ahead->progress == PROGRESS_WAITING) {
		/* the first ones are asked for first: found at once */
		STAILQ_REMOVE(&signer->waiting, ahead, ticket_ahead, next);
		STAILQ_INSERT_HEAD(&signer->waiting, ahead, next);
		batch = take_batch(signer);
		sign_batch(signer, &batch);
	}
	wait_until_done(ahead);
	(void)pthread_mutex_unlock(&signer->lock);
}

bool ticket_ahead_take(struct ticket_ahead *ahead, uint64_t generation, struct ticket *ret)
{
	if (!ahead || ahead->ticket.generation != generation)
		return false;
	if (ahead->progress != PROGRESS_DONE)
		settle(ahead);
	*ret = ahead->ticket;
	return true;
}

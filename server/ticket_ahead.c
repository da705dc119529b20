#include "ticket_ahead.h"

#include "base/cleanup.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

/* So many wait before the signer is woken: waking costs a fifth of signing. Those that never were that many
 * are signed when they are needed. */
enum { WAKE_AT = 4 };

enum progress { PROGRESS_WAITING, PROGRESS_UNDER_WAY, PROGRESS_DONE, PROGRESS_TAKEN_BACK };

struct ticket_ahead {
	STAILQ_ENTRY(ticket_ahead) next; /* while it waits */
	struct ticket_signer *signer;
	/* Changes under the signer's lock. PROGRESS_DONE is the last word, and whoever reads it has the
	 * ticket. */
	_Atomic enum progress progress;
	struct ticket ticket; /* of the signer's thread while it is under way */
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

/* The next that waits, under way now; NULL when the signer has to end. */
static struct ticket_ahead *take_next(struct ticket_signer *signer)
{
	struct ticket_ahead *ahead;

	while (STAILQ_EMPTY(&signer->waiting) && !signer->is_stopping)
		(void)pthread_cond_wait(&signer->work, &signer->lock);
	ahead = STAILQ_FIRST(&signer->waiting);
	if (!ahead)
		return NULL;
	STAILQ_REMOVE_HEAD(&signer->waiting, next);
	signer->n_waiting--;
	ahead->progress = PROGRESS_UNDER_WAY;
	return ahead;
}

static void *signer_main(void *userdata)
{
	struct ticket_signer *signer = userdata;
	struct ticket_ahead *ahead;

	(void)pthread_mutex_lock(&signer->lock);
	while ((ahead = take_next(signer))) {
		(void)pthread_mutex_unlock(&signer->lock);
		ticket_sign(signer->issuer, &ahead->ticket);
		(void)pthread_mutex_lock(&signer->lock);
		ahead->progress = PROGRESS_DONE;
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

/* Nobody else looks at it afterwards. What waits is taken back, so that at most one signature is waited for.
 * Returns whether it is signed. */
static bool settle(struct ticket_ahead *ahead)
{
	struct ticket_signer *signer = ahead->signer;
	bool is_signed;

	if (ahead->progress == PROGRESS_DONE)
		return true;
	(void)pthread_mutex_lock(&signer->lock);
	if (ahead->progress == PROGRESS_WAITING) { /* the first ones are asked for first: found at once */
		STAILQ_REMOVE(&signer->waiting, ahead, ticket_ahead, next);
		signer->n_waiting--;
		ahead->progress = PROGRESS_TAKEN_BACK;
	}
	signer->is_awaited = ahead->progress == PROGRESS_UNDER_WAY;
	while (ahead->progress == PROGRESS_UNDER_WAY)
		(void)pthread_cond_wait(&signer->done, &signer->lock);
	signer->is_awaited = false;
	is_signed = ahead->progress == PROGRESS_DONE;
	(void)pthread_mutex_unlock(&signer->lock);
	return is_signed;
}

void ticket_ahead_free(struct ticket_ahead *ahead)
{
	if (!ahead)
		return;
	(void)settle(ahead);
	free(ahead);
}

bool ticket_ahead_take(struct ticket_ahead *ahead, uint64_t generation, struct ticket *ret)
{
	if (!ahead || ahead->ticket.generation != generation || !settle(ahead))
		return false;
	*ret = ahead->ticket;
	return true;
}

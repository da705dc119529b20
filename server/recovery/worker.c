/* SPDX-License-Identifier: Apache-2.0 */
#include "recovery/worker.h"

#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

struct worker {
	worker_work_fn *work;
	worker_done_fn *done;
	void *userdata;
	pthread_t thread;
	int fd;			 /* eventfd: the work is done */
	sd_event_source *source; /* owned */
	struct error error;	 /* the thread's until it is done; STATUS_OK: no error */
};

static void *run(void *userdata)
{
	static const uint64_t one = 1;
	struct worker *worker = userdata;

	if (worker->work(worker->userdata, &worker->error) == STATUS_OK)
		worker->error = (struct error){.status = STATUS_OK};
	(void)fd_write_all(worker->fd, &one, sizeof(one)); /* of a counter of 0: cannot be full */
	return NULL;
}

static void release(struct worker *worker)
{
	(void)sd_event_source_disable_unref(worker->source);
	close_fdp(&worker->fd);
	free(worker);
}

void worker_free(struct worker *worker)
{
	if (!worker)
		return;
	(void)pthread_join(worker->thread, NULL);
	release(worker);
}

static int on_done(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct worker *worker = userdata;
	worker_done_fn *done = worker->done;
	void *context = worker->userdata;
	struct error error;

	(void)pthread_join(worker->thread, NULL);
	error = worker->error;
	release(worker);
	done(error.status == STATUS_OK ? NULL : &error, context);
	return 0;
}

/* Signals are the event loop's. */
static int start_thread(struct worker *worker)
{
	sigset_t all;
	sigset_t before;
	int r;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&worker->thread, NULL, run, worker);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -r;
}

enum status worker_start(sd_event *event, worker_work_fn *work, worker_done_fn *done, void *userdata,
			 struct worker **ret, struct error *err)
{
	struct worker *worker = malloc(sizeof(*worker));
	int r;

	if (!worker)
		return error_no_memory(err, "a worker");
	*worker = (struct worker){.work = work, .done = done, .userdata = userdata};
	worker->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = worker->fd < 0 ? -errno
			   : sd_event_add_io(event, &worker->source, worker->fd, EPOLLIN, on_done, worker);
	if (r >= 0)
		r = start_thread(worker);
	if (r < 0) {
		release(worker);
		return error_set(err, status_from_errno(r), r, "start a thread");
	}
	*ret = worker;
	return STATUS_OK;
}

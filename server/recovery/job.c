/* SPDX-License-Identifier: Apache-2.0 */
#include "recovery/job.h"

#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

struct job {
	job_work_fn *work;
	job_done_fn *done;
	void *userdata;
	pthread_t thread;
	int fd;			 /* eventfd: the work is done */
	sd_event_source *source; /* owned */
	struct error error;	 /* the thread's until it is done; STATUS_OK: none */
};

static void *run(void *userdata)
{
	static const uint64_t one = 1;
	struct job *job = userdata;

	if (job->work(job->userdata, &job->error) == STATUS_OK)
		job->error = (struct error){.status = STATUS_OK};
	(void)fd_write_all(job->fd, &one, sizeof(one)); /* of a counter of 0: cannot be full */
	return NULL;
}

static void release(struct job *job)
{
	(void)sd_event_source_disable_unref(job->source);
	close_fdp(&job->fd);
	free(job);
}

void job_free(struct job *job)
{
	if (!job)
		return;
	(void)pthread_join(job->thread, NULL);
	release(job);
}

static int on_done(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct job *job = userdata;
	job_done_fn *done = job->done;
	void *context = job->userdata;
	struct error error;

	(void)source;
	(void)fd;
	(void)revents;
	(void)pthread_join(job->thread, NULL);
	error = job->error;
	release(job);
	done(error.status == STATUS_OK ? NULL : &error, context);
	return 0;
}

/* Signals are the event loop's. */
static int start_thread(struct job *job)
{
	sigset_t all;
	sigset_t before;
	int r;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&job->thread, NULL, run, job);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -r;
}

enum status job_start(sd_event *event, job_work_fn *work, job_done_fn *done, void *userdata, struct job **ret,
		      struct error *err)
{
	struct job *job = malloc(sizeof(*job));
	int r;

	if (!job)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "out of memory");
	*job = (struct job){.work = work, .done = done, .userdata = userdata};
	job->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = job->fd < 0 ? -errno : sd_event_add_io(event, &job->source, job->fd, EPOLLIN, on_done, job);
	if (r >= 0)
		r = start_thread(job);
	if (r < 0) {
		release(job);
		return error_set(err, status_from_errno(r), r, "start a thread");
	}
	*ret = job;
	return STATUS_OK;
}

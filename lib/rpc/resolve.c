/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/resolve.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

/* What the thread and the loop share; the last of both frees it. */
struct question {
	atomic_int refs;
	int done_fd; /* eventfd, written once by the thread */
	char host[NI_MAXHOST];
	char port[8];
	int result; /* of getaddrinfo */
	struct addrinfo *addresses;
};

struct resolve {
	struct question *question;
	sd_event_source *io;
	resolve_done_fn *done;
	void *userdata;
};

static void question_unref(struct question *q)
{
	if (atomic_fetch_sub(&q->refs, 1) > 1)
		return;
	if (q->addresses)
		freeaddrinfo(q->addresses);
	close_fdp(&q->done_fd);
	free(q);
}

DEFINE_CLEANUP(struct question, question_unref)

static void *answer(void *userdata)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				       .ai_flags = AI_NUMERICSERV | AI_ADDRCONFIG};
	struct question *q = userdata;

	q->result = getaddrinfo(q->host, q->port, &hints, &q->addresses);
	(void)eventfd_write(q->done_fd, 1); /* cannot fail: the counter is 0 and the descriptor ours */
	question_unref(q);
	return NULL;
}

static struct question *question_new(const char *host, uint16_t port)
{
	cleanup(question_unrefp) struct question *q = malloc(sizeof(*q));

	if (!q)
		return NULL;
	*q = (struct question){.refs = 1, .done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
	if (q->done_fd < 0 || str_copy(q->host, sizeof(q->host), host) < 0)
		return NULL;
	(void)str_format(q->port, sizeof(q->port), "%u", port);
	return TAKE_PTR(q);
}

/* All signals stay with the loop's thread. */
static int start_thread(struct question *q)
{
	pthread_attr_t attr;
	sigset_t all;
	sigset_t before;
	pthread_t thread;
	int r;

	(void)sigfillset(&all);
	r = pthread_attr_init(&attr);
	if (r != 0)
		return -r;
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	atomic_fetch_add(&q->refs, 1);
	r = pthread_create(&thread, &attr, answer, q);
	if (r != 0)
		atomic_fetch_sub(&q->refs, 1);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	(void)pthread_attr_destroy(&attr);
	return -r;
}

static int on_answer(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct resolve *resolve = userdata;
	struct question *q = resolve->question;
	struct addrinfo *addresses = TAKE_PTR(q->addresses);
	resolve_done_fn *done = resolve->done;
	void *done_userdata = resolve->userdata;
	struct error err;

	(void)source;
	(void)fd;
	(void)events;
	if (!addresses)
		(void)error_set(&err, STATUS_UNAVAILABLE, 0, "the name %s cannot be resolved: %s", q->host,
				gai_strerror(q->result));
	resolve_cancel(resolve);
	done(addresses, addresses ? NULL : &err, done_userdata);
	return 0;
}

enum status resolve_start(sd_event *event, const char *host, uint16_t port, resolve_done_fn *done,
			  void *userdata, struct resolve **ret, struct error *err)
{
	cleanup(question_unrefp) struct question *q = question_new(host, port);
	cleanup_free struct resolve *resolve = malloc(sizeof(*resolve));
	int r;

	if (!q || !resolve)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "resolve the name %s", host);
	*resolve = (struct resolve){.done = done, .userdata = userdata};
	r = sd_event_add_io(event, &resolve->io, q->done_fd, EPOLLIN, on_answer, resolve);
	if (r >= 0)
		r = start_thread(q);
	if (r < 0) {
		(void)sd_event_source_disable_unref(resolve->io);
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, r, "resolve the name %s", host);
	}
	resolve->question = TAKE_PTR(q);
	*ret = TAKE_PTR(resolve);
	return STATUS_OK;
}

void resolve_cancel(struct resolve *resolve)
{
	if (!resolve)
		return;
	(void)sd_event_source_disable_unref(resolve->io);
	question_unref(resolve->question);
	free(resolve);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/dial.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/str.h"
#include "rpc/thread.h"
#include "rpc/timer.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-event.h>

/* Name resolution without blocking the event loop: getaddrinfo(3) in a thread of its own. */

/* @addresses owned by the callee, freeaddrinfo(); NULL without an address, then @err has the cause. The
 * resolve is gone afterwards. */
typedef void resolve_done_fn(struct addrinfo *addresses, const struct error *err, void *userdata);

/* Shared by the thread and the loop; the last of both frees it. */
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

static int start_thread(struct question *q)
{
	pthread_t thread;
	int r;

	atomic_fetch_add(&q->refs, 1);
	r = thread_start(0, answer, q, &thread);
	if (r < 0)
		atomic_fetch_sub(&q->refs, 1);
	else
		(void)pthread_detach(thread);
	return r;
}

/* done never runs. NULL is allowed. */
static void resolve_cancel(struct resolve *resolve)
{
	if (!resolve)
		return;
	(void)sd_event_source_disable_unref(resolve->io);
	question_unref(resolve->question);
	free(resolve);
}

static int on_answer(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct resolve *resolve = userdata;
	struct question *q = resolve->question;
	struct addrinfo *addresses = TAKE_PTR(q->addresses);
	resolve_done_fn *done = resolve->done;
	void *done_userdata = resolve->userdata;
	struct error err;

	if (!addresses)
		(void)error_set(&err, STATUS_UNAVAILABLE, 0, "the name %s cannot be resolved: %s", q->host,
				gai_strerror(q->result));
	resolve_cancel(resolve);
	done(addresses, addresses ? NULL : &err, done_userdata);
	return 0;
}

/* @host at most NI_MAXHOST - 1 bytes */
static enum status resolve_start(sd_event *event, const char *host, uint16_t port, resolve_done_fn *done,
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

/* Five seconds. */
enum { FULL_MAX = 200, FULL_PAUSE_US = 25000 };

struct dial {
	sd_event *event;
	sd_event_source *io;   /* of the connection being made */
	sd_event_source *soon; /* the end, known already */
	struct resolve *resolve;
	struct addrinfo *addresses;
	const struct addrinfo *at;   /* of addresses, being tried */
	const struct addrinfo *next; /* NULL when all were tried */
	int fd;
	bool failed;
	struct sockaddr_un path; /* of a unix socket */
	bool is_own;		 /* and of no link */
	unsigned int n_full;	 /* attempts at it while its queue was full */
	struct error err;	 /* of the attempts that failed, each with its address if there are several */
	dial_done_fn *done;
	void *userdata;
};

void dial_cancel(struct dial *dial)
{
	if (!dial)
		return;
	(void)sd_event_source_disable_unref(dial->io);
	(void)sd_event_source_disable_unref(dial->soon);
	resolve_cancel(dial->resolve);
	if (dial->addresses)
		freeaddrinfo(dial->addresses);
	close_fdp(&dial->fd);
	free(dial);
}

DEFINE_CLEANUP(struct dial, dial_cancel)

static void finish(struct dial *dial, const struct error *err)
{
	struct error copy = {0};
	dial_done_fn *done = dial->done;
	void *userdata = dial->userdata;
	int fd = err ? -EBADF : TAKE_FD(dial->fd);

	if (err)
		copy = *err;
	dial_cancel(dial);
	done(fd, err ? &copy : NULL, userdata);
}

static int on_soon(sd_event_source *source, void *userdata)
{
	struct dial *dial = userdata;

	finish(dial, dial->failed ? &dial->err : NULL);
	return 0;
}

static enum status finish_soon(struct dial *dial, struct error *err)
{
	int r = sd_event_add_defer(dial->event, &dial->soon, on_soon, dial);

	return r < 0 ? error_set(err, STATUS_RESOURCE_EXHAUSTED, r, "make a connection") : STATUS_OK;
}

static struct dial *dial_new(sd_event *event, dial_done_fn *done, void *userdata, struct error *err)
{
	struct dial *dial = malloc(sizeof(*dial));

	if (dial)
		*dial = (struct dial){.event = event, .fd = -EBADF, .done = done, .userdata = userdata};
	else
		(void)error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "make a connection");
	return dial;
}

static void unix_error(int sys_errno, struct error *err)
{
	switch (sys_errno) {
	case ENOENT:
		(void)error_set(err, STATUS_UNAVAILABLE, sys_errno,
				"there is no socket, is its service running?");
		break;
	case ECONNREFUSED:
		(void)error_set(err, STATUS_UNAVAILABLE, sys_errno,
				"no program listens on the socket, is its service running?");
		break;
	case EACCES:
		(void)error_set(err, STATUS_PERMISSION_DENIED, sys_errno,
				"the socket is not open to this user");
		break;
	case EAGAIN:
		(void)error_set(err, STATUS_UNAVAILABLE, sys_errno,
				"the server does not take connections fast enough");
		break;
	default:
		(void)error_set(err, STATUS_UNAVAILABLE, sys_errno, "connect");
		break;
	}
}

static enum status connect_unix(struct dial *dial, struct error *err);

static int on_again(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct dial *dial = userdata;
	struct error err;

	dial->soon = sd_event_source_disable_unref(dial->soon);
	if (connect_unix(dial, &err) != STATUS_OK)
		finish(dial, &err);
	return 0;
}

/* connect() follows a link that is made after every look at the path. So it gets the descriptor of the path's
 * own inode, which no later change of the path moves, and refuses it if that is a link. */
int dial_own(int fd, const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	cleanup_close int own = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	if (own < 0)
		return errno;
	(void)str_format(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d", own);
	return connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ? errno : 0;
}

static int connect_path(const struct dial *dial)
{
	if (dial->is_own)
		return dial_own(dial->fd, dial->path.sun_path);
	return connect(dial->fd, (const struct sockaddr *)&dial->path, sizeof(dial->path)) < 0 ? errno : 0;
}

/* A queue that others have filled has room again in a moment: connect() does not wait for it. */
static enum status connect_unix(struct dial *dial, struct error *err)
{
	int r = connect_path(dial);

	if (r == EAGAIN && dial->n_full++ < FULL_MAX &&
	    timer_arm(dial->event, &dial->soon, FULL_PAUSE_US, on_again, dial) >= 0)
		return STATUS_OK;
	if (r != 0) {
		dial->failed = true;
		unix_error(r, &dial->err);
	}
	return finish_soon(dial, err);
}

enum status dial_unix(sd_event *event, const char *path, bool is_own, dial_done_fn *done, void *userdata,
		      struct dial **ret, struct error *err)
{
	cleanup(dial_cancelp) struct dial *dial = dial_new(event, done, userdata, err);
	enum status status;

	if (!dial)
		return err ? err->status : STATUS_RESOURCE_EXHAUSTED;
	dial->path.sun_family = AF_UNIX;
	dial->is_own = is_own;
	if (str_copy(dial->path.sun_path, sizeof(dial->path.sun_path), path) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "the socket path %s is longer than %zu bytes", path,
				 sizeof(dial->path.sun_path) - 1);
	dial->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (dial->fd < 0)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, errno, "make a socket");
	status = connect_unix(dial, err);
	if (status == STATUS_OK)
		*ret = TAKE_PTR(dial);
	return status;
}

/* The attempt in flight failed with @r: append that to the causes of the addresses before. */
static void add_failure(struct dial *dial, int r)
{
	char host[NI_MAXHOST] = "an address";
	const char *before = dial->err.msg;

	if (!dial->addresses->ai_next) {
		(void)error_set(&dial->err, STATUS_UNAVAILABLE, r, "connect");
		return;
	}
	(void)getnameinfo(dial->at->ai_addr, dial->at->ai_addrlen, host, sizeof(host), NULL, 0,
			  NI_NUMERICHOST);
	(void)error_set(&dial->err, STATUS_UNAVAILABLE, r, "%s%sconnect to %s", before,
			before[0] != '\0' ? "; " : "", host);
}

static int attempt(struct dial *dial);

static int on_connected(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct dial *dial = userdata;
	socklen_t len = sizeof(int);
	int error = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		error = errno;
	if (error == 0) {
		finish(dial, NULL);
		return 0;
	}
	add_failure(dial, error);
	if (attempt(dial) < 0)
		finish(dial, &dial->err);
	return 0;
}

/* Start connecting to one address; closes the socket of the attempt before. */
static int connect_to(struct dial *dial, const struct addrinfo *address)
{
	const int on = 1;
	int r;

	dial->io = sd_event_source_disable_unref(dial->io);
	close_fdp(&dial->fd);
	dial->fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (dial->fd < 0)
		return -errno;
	(void)setsockopt(dial->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* only makes it faster */
	if (connect(dial->fd, address->ai_addr, address->ai_addrlen) < 0 && errno != EINPROGRESS)
		return -errno;
	r = sd_event_add_io(dial->event, &dial->io, dial->fd, EPOLLOUT, on_connected, dial);
	return r < 0 ? r : 0;
}

/* Try the next usable address; -ENOENT after the last one, then dial->err has the cause of each failure. */
static int attempt(struct dial *dial)
{
	while (dial->next) {
		int r;

		dial->at = dial->next;
		dial->next = dial->at->ai_next;
		r = connect_to(dial, dial->at);
		if (r == 0)
			return 0;
		add_failure(dial, r);
	}
	return -ENOENT;
}

bool dial_skip(struct dial *dial)
{
	if (!dial->next)
		return false;
	add_failure(dial, ETIMEDOUT);
	return attempt(dial) == 0;
}

const char *dial_failures(const struct dial *dial)
{
	return dial->err.msg;
}

static void on_resolved(struct addrinfo *addresses, const struct error *err, void *userdata)
{
	struct dial *dial = userdata;

	dial->resolve = NULL;
	if (!addresses) {
		finish(dial, err);
		return;
	}
	dial->addresses = addresses;
	dial->next = addresses;
	if (attempt(dial) < 0)
		finish(dial, &dial->err);
}

enum status dial_tcp(sd_event *event, const char *host, uint16_t port, dial_done_fn *done, void *userdata,
		     struct dial **ret, struct error *err)
{
	const struct addrinfo hints = {
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
		.ai_socktype = SOCK_STREAM,
	};
	cleanup(dial_cancelp) struct dial *dial = dial_new(event, done, userdata, err);
	enum status status = STATUS_OK;
	char service[8];

	if (!dial)
		return err ? err->status : STATUS_RESOURCE_EXHAUSTED;
	(void)str_format(service, sizeof(service), "%u", port);
	if (getaddrinfo(host, service, &hints, &dial->addresses) != 0) {
		status = resolve_start(event, host, port, on_resolved, dial, &dial->resolve, err);
	} else {
		dial->next = dial->addresses;
		if (attempt(dial) < 0) {
			dial->failed = true;
			status = finish_soon(dial, err);
		}
	}
	if (status == STATUS_OK)
		*ret = TAKE_PTR(dial);
	return status;
}

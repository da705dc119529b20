/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy.h"

#include "unit.h"

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { LINKS_MAX = 64, SLOW_US = 30000, BUFFER_SIZE = 1 << 16, HELD_MAX = 1 << 20 };

struct link {
	int client; /* -1: free, or gone while its requests are held */
	int server; /* -1: free */
	bool drops_answers, drops_requests, holds;
	uint8_t *held; /* owned */
	size_t n_held;
};

struct proxy {
	char upstream[108], path[108];
	int listener, wake[2];
	pthread_t thread;
	pthread_mutex_t lock; /* for all below */
	struct link links[LINKS_MAX];
	bool refuses, is_slow, is_ending;
};

static struct sockaddr_un address_of(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	(void)str_copy(address.sun_path, sizeof(address.sun_path), path);
	return address;
}

static void end_client(struct link *link)
{
	close_fdp(&link->client);
	link->client = -1;
}

static void end_link(struct link *link)
{
	end_client(link);
	close_fdp(&link->server);
	free(link->held);
	*link = (struct link){.client = -1, .server = -1};
}

static void accept_one(struct proxy *proxy)
{
	struct sockaddr_un address = address_of(proxy->upstream);
	int client = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC);
	int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	for (size_t i = 0; i < LINKS_MAX && !proxy->refuses; i++) {
		if (proxy->links[i].server >= 0)
			continue;
		if (connect(server, (struct sockaddr *)&address, sizeof(address)) < 0)
			break;
		proxy->links[i] = (struct link){.client = client, .server = server};
		return;
	}
	(void)close(client);
	(void)close(server);
}

static bool send_all(int to, const uint8_t *bytes, size_t n)
{
	for (size_t at = 0; at < n;) {
		ssize_t sent = send(to, bytes + at, n - at, MSG_NOSIGNAL);

		if (sent < 0)
			return false;
		at += (size_t)sent;
	}
	return true;
}

static bool hold(struct link *link, const uint8_t *bytes, size_t n)
{
	uint8_t *more = n > HELD_MAX - link->n_held ? NULL : realloc(link->held, link->n_held + n);

	if (!more)
		return false;
	memcpy(more + link->n_held, bytes, n);
	link->held = more;
	link->n_held += n;
	return true;
}

static _Thread_local uint8_t buffer[BUFFER_SIZE]; /* each proxy has a thread */

/* These return false at the end of whom they read from. */
static bool pass_requests(struct link *link)
{
	ssize_t n = link->client < 0 ? 0 : recv(link->client, buffer, sizeof(buffer), MSG_DONTWAIT);

	if (link->client < 0)
		return true;
	if (n <= 0)
		return n < 0 && errno == EAGAIN;
	if (link->holds)
		return hold(link, buffer, (size_t)n);
	return link->drops_requests || send_all(link->server, buffer, (size_t)n);
}

static bool pass_answers(const struct proxy *proxy, struct link *link)
{
	ssize_t n = recv(link->server, buffer, sizeof(buffer), MSG_DONTWAIT);

	if (n <= 0)
		return n < 0 && errno == EAGAIN;
	if (link->drops_answers || link->client < 0)
		return true;
	if (proxy->is_slow)
		(void)usleep(SLOW_US);
	return send_all(link->client, buffer, (size_t)n);
}

static void serve(struct proxy *proxy, struct link *link)
{
	if (!pass_requests(link)) {
		end_client(link);
		if (!link->holds)
			end_link(link);
	}
	if (link->server >= 0 && !pass_answers(proxy, link))
		end_link(link);
}

static void release(struct link *link)
{
	link->holds = false;
	if (link->n_held > 0)
		(void)send_all(link->server, link->held, link->n_held);
	link->n_held = 0;
}

static void wait_for_any(struct proxy *proxy)
{
	struct pollfd fds[2 + 2 * LINKS_MAX] = {{.fd = proxy->listener, .events = POLLIN},
						{.fd = proxy->wake[0], .events = POLLIN}};

	for (size_t i = 0; i < LINKS_MAX; i++) {
		fds[2 + 2 * i] = (struct pollfd){.fd = proxy->links[i].client, .events = POLLIN};
		fds[3 + 2 * i] = (struct pollfd){.fd = proxy->links[i].server, .events = POLLIN};
	}
	(void)pthread_mutex_unlock(&proxy->lock);
	(void)poll(fds, ARRAY_SIZE(fds), -1);
	(void)pthread_mutex_lock(&proxy->lock);
	if (fds[0].revents & POLLIN)
		accept_one(proxy);
	if (fds[1].revents & POLLIN)
		(void)!read(proxy->wake[0], &(char){0}, 1);
}

static void *run(void *userdata)
{
	struct proxy *proxy = userdata;

	(void)pthread_mutex_lock(&proxy->lock);
	while (!proxy->is_ending) {
		wait_for_any(proxy);
		for (size_t i = 0; i < LINKS_MAX; i++)
			if (proxy->links[i].server >= 0)
				serve(proxy, &proxy->links[i]);
	}
	(void)pthread_mutex_unlock(&proxy->lock);
	return NULL;
}

struct proxy *proxy_new(const char *path, const char *upstream)
{
	struct proxy *proxy = NON_NULL(calloc(1, sizeof(*proxy)));
	struct sockaddr_un address = address_of(path);

	(void)str_copy(proxy->upstream, sizeof(proxy->upstream), upstream);
	(void)str_copy(proxy->path, sizeof(proxy->path), path);
	for (size_t i = 0; i < LINKS_MAX; i++)
		proxy->links[i].client = proxy->links[i].server = -1;
	(void)pthread_mutex_init(&proxy->lock, NULL);
	assert_int_equal(pipe(proxy->wake), 0);
	proxy->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(proxy->listener, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(proxy->listener, 16), 0);
	assert_int_equal(pthread_create(&proxy->thread, NULL, run, proxy), 0);
	return proxy;
}

static void change(struct proxy *proxy, enum proxy_fault fault)
{
	for (size_t i = 0; i < LINKS_MAX; i++) {
		struct link *link = &proxy->links[i];

		link->drops_answers = link->drops_answers || fault == PROXY_DROP_ANSWERS;
		link->drops_requests = link->drops_requests || fault == PROXY_DROP_REQUESTS;
		link->holds = link->holds || (fault == PROXY_HOLD_REQUESTS && link->client >= 0);
		if (fault == PROXY_RELEASE && link->holds)
			release(link);
		if ((fault == PROXY_CUT && !link->holds) || fault == PROXY_REFUSE)
			end_link(link);
	}
	if (fault == PROXY_REFUSE || fault == PROXY_ACCEPT)
		proxy->refuses = fault == PROXY_REFUSE;
	if (fault == PROXY_SLOW || fault == PROXY_FAST)
		proxy->is_slow = fault == PROXY_SLOW;
}

void proxy_do(struct proxy *proxy, enum proxy_fault fault)
{
	(void)pthread_mutex_lock(&proxy->lock);
	change(proxy, fault);
	(void)pthread_mutex_unlock(&proxy->lock);
	(void)!write(proxy->wake[1], "", 1);
}

void proxy_free(struct proxy *proxy)
{
	(void)pthread_mutex_lock(&proxy->lock);
	proxy->is_ending = true;
	(void)pthread_mutex_unlock(&proxy->lock);
	(void)!write(proxy->wake[1], "", 1);
	(void)pthread_join(proxy->thread, NULL);
	for (size_t i = 0; i < LINKS_MAX; i++)
		end_link(&proxy->links[i]);
	(void)close(proxy->listener);
	(void)close(proxy->wake[0]);
	(void)close(proxy->wake[1]);
	(void)unlink(proxy->path);
	(void)pthread_mutex_destroy(&proxy->lock);
	free(proxy);
}

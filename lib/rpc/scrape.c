/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/scrape.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "rpc/address.h"
#include "rpc/listener.h"
#include "rpc/timer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	SOCKET_MODE = 0660,
	CLIENTS_MAX = 8,
	REQUEST_MAX = 8192,
	TEXT_MAX = 1 << 20,
	CLIENT_MAX_US = 10 * 1000 * 1000, /* from the first byte to the last */
};

struct client {
	LIST_ENTRY(client) link;
	struct scrape *scrape;
	int fd;
	sd_event_source *io, *timer;
	char request[REQUEST_MAX];
	size_t n;
	struct strbuf answer;
	size_t sent;
};

struct scrape {
	sd_event *event; /* borrowed */
	struct listener *listener;
	scrape_fn *print;
	void *userdata;
	LIST_HEAD(, client) clients;
	size_t n_clients;
};

static void client_free(struct client *client)
{
	LIST_REMOVE(client, link);
	client->scrape->n_clients--;
	sd_event_source_disable_unref(client->io);
	sd_event_source_disable_unref(client->timer);
	strbuf_release(&client->answer);
	(void)close(client->fd);
	free(client);
}

static void put_answer(struct strbuf *to, const char *status, const char *type, const char *text, size_t n)
{
	strbuf_printf(to,
		      "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
		      status, type, n);
	strbuf_put(to, text, n);
}

/* Is the first line of the request "GET PATH HTTP/1.x"? What follows a '?' is ignored. */
static bool asks_for(const char *request, const char *path)
{
	size_t n = strlen(path);

	return str_starts_with(request, "GET ") && strncmp(request + 4, path, n) == 0 &&
	       (request[4 + n] == ' ' || request[4 + n] == '?') &&
	       memmem(request, strcspn(request, "\r\n"), " HTTP/1.", strlen(" HTTP/1.")) != NULL;
}

static void answer(struct client *client)
{
	static const char text[] = "this has only GET /metrics\n";
	cleanup_strbuf struct strbuf metrics = STRBUF_INIT(TEXT_MAX);

	client->answer = (struct strbuf)STRBUF_INIT(2UL * TEXT_MAX);
	if (!asks_for(client->request, "/metrics")) {
		put_answer(&client->answer, "404 Not Found", "text/plain", text, strlen(text));
		return;
	}
	client->scrape->print(&metrics, client->scrape->userdata);
	if (metrics.error != 0)
		put_answer(&client->answer, "500 Internal Server Error", "text/plain", "", 0);
	else
		put_answer(&client->answer, "200 OK", "text/plain; version=0.0.4; charset=utf-8",
			   metrics.data ? metrics.data : "", metrics.len);
}

/* Returns false when the client must be closed. */
static bool read_request(struct client *client)
{
	ssize_t n = recv(client->fd, client->request + client->n, REQUEST_MAX - 1 - client->n, 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n <= 0)
		return false;
	client->n += (size_t)n;
	client->request[client->n] = '\0';
	if (strstr(client->request, "\r\n\r\n")) {
		answer(client);
		return client->answer.error == 0 && sd_event_source_set_io_events(client->io, EPOLLOUT) >= 0;
	}
	return client->n < REQUEST_MAX - 1;
}

/* Returns false when all of it is sent, or cannot be. */
static bool send_answer(struct client *client)
{
	ssize_t n = send(client->fd, client->answer.data + client->sent, client->answer.len - client->sent,
			 MSG_NOSIGNAL);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	client->sent += (size_t)n;
	return client->sent < client->answer.len;
}

static int on_io(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct client *client = userdata;

	if (!(client->answer.data ? send_answer(client) : read_request(client)))
		client_free(client);
	return 0;
}

static int on_time(sd_event_source *source, uint64_t usec, void *userdata)
{
	client_free(userdata);
	return 0;
}

/* The newest gets the place of the oldest: clients that ask for nothing keep no other out. */
static void make_room(struct scrape *scrape)
{
	struct client *client, *oldest = NULL;

	if (scrape->n_clients < CLIENTS_MAX)
		return;
	LIST_FOREACH (client, &scrape->clients, link)
		oldest = client;
	client_free(oldest);
}

static void on_accept(int fd, const struct rpc_peer *peer, void *userdata)
{
	struct scrape *scrape = userdata;
	struct client *client;

	make_room(scrape);
	client = calloc(1, sizeof(*client));
	if (!client) {
		(void)close(fd);
		return;
	}
	client->scrape = scrape;
	client->fd = fd;
	LIST_INSERT_HEAD(&scrape->clients, client, link);
	scrape->n_clients++;
	if (sd_event_add_io(scrape->event, &client->io, fd, EPOLLIN, on_io, client) < 0 ||
	    timer_arm(scrape->event, &client->timer, CLIENT_MAX_US, on_time, client) < 0)
		client_free(client);
}

bool scrape_address_is_valid(const char *address)
{
	struct rpc_address parsed;

	return address[0] == '/' || rpc_address_parse(address, &parsed) == 0;
}

enum status scrape_listen(sd_event *event, const char *address, scrape_fn *print, void *userdata,
			  struct scrape **ret, struct error *err)
{
	struct scrape *scrape = calloc(1, sizeof(*scrape));
	struct rpc_address parsed;
	uint16_t port;
	enum status status;

	if (!scrape)
		return error_no_memory(err, "metrics");
	*scrape = (struct scrape){.event = event, .print = print, .userdata = userdata};
	if (address[0] == '/')
		status = listener_new_unix(event, address, SOCKET_MODE, on_accept, scrape, &scrape->listener,
					   err);
	else if (rpc_address_parse(address, &parsed) == 0)
		status = listener_new_tcp(event, parsed.host, parsed.port, on_accept, scrape,
					  &scrape->listener, &port, err);
	else
		status = error_set(
			err, STATUS_INVALID_ARGUMENT, 0,
			"metrics '%s' is no address: HOST:PORT, [V6ADDRESS]:PORT or the path of a socket",
			address);
	if (status != STATUS_OK) {
		free(scrape);
		return status;
	}
	*ret = scrape;
	return STATUS_OK;
}

void scrape_free(struct scrape *scrape)
{
	if (!scrape)
		return;
	listener_free(scrape->listener);
	while (!LIST_EMPTY(&scrape->clients))
		client_free(LIST_FIRST(&scrape->clients));
	free(scrape);
}

void scrape_head(struct strbuf *to, const char *name, const char *type, const char *help)
{
	strbuf_printf(to, "# HELP holdfast_%s %s\n# TYPE holdfast_%s %s\n", name, help, name, type);
}

void scrape_one(struct strbuf *to, const char *name, const char *type, const char *help, uint64_t value)
{
	scrape_head(to, name, type, help);
	strbuf_printf(to, "holdfast_%s %" PRIu64 "\n", name, value);
}

void scrape_labelled(struct strbuf *to, const char *name, const char *label, const char *value, uint64_t n)
{
	strbuf_printf(to, "holdfast_%s{%s=\"", name, label);
	for (; *value != '\0'; value++) {
		if (*value == '"' || *value == '\\')
			strbuf_put(to, "\\", 1);
		strbuf_put(to, *value == '\n' ? "?" : value, 1);
	}
	strbuf_printf(to, "\"} %" PRIu64 "\n", n);
}

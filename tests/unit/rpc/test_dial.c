/* SPDX-License-Identifier: Apache-2.0 */
#include "../unit_clock.h"
#include "base/clock.h"
#include "rpc/dial.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdatomic.h>
#include <sys/socket.h>

/* The name service: "several.test" has the addresses below, nothing else has any. */
static struct {
	struct sockaddr_in addresses[3];
	struct addrinfo infos[3];
	size_t n;
	atomic_int n_asked;
} names;

WRAPPED(int, getaddrinfo, const char *host, const char *service, const struct addrinfo *hints,
	struct addrinfo **ret)
{
	if (hints->ai_flags & AI_NUMERICHOST)
		return EAI_NONAME;
	atomic_fetch_add(&names.n_asked, 1);
	if (!str_eq(host, "several.test"))
		return EAI_NONAME;
	*ret = &names.infos[0];
	return 0;
}

WRAPPED(void, freeaddrinfo, struct addrinfo *info)
{
}

static void add_address(const char *text, uint16_t port)
{
	struct sockaddr_in *address = &names.addresses[names.n];
	struct addrinfo *info = &names.infos[names.n];

	*address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
	assert_int_equal(inet_pton(AF_INET, text, &address->sin_addr), 1);
	*info = (struct addrinfo){.ai_family = AF_INET,
				  .ai_socktype = SOCK_STREAM,
				  .ai_addr = (struct sockaddr *)address,
				  .ai_addrlen = sizeof(*address)};
	if (names.n > 0)
		names.infos[names.n - 1].ai_next = info;
	names.n++;
}

struct outcome {
	bool done;
	int fd;
	struct error err;
};

static void on_done(int fd, const struct error *err, void *userdata)
{
	struct outcome *outcome = userdata;

	assert_false(outcome->done);
	outcome->done = true;
	outcome->fd = fd;
	if (err)
		outcome->err = *err;
}

static void run(sd_event *event, const bool *done)
{
	uint64_t until_us = clock_monotonic_us() + 20 * USEC_PER_SEC;

	while (!*done) {
		assert_true(clock_monotonic_us() < until_us);
		assert_true(sd_event_run(event, USEC_PER_SEC) >= 0);
	}
}

static uint16_t listen_somewhere(int *ret_fd)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(address);

	*ret_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(*ret_fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(*ret_fd, 4), 0);
	assert_int_equal(getsockname(*ret_fd, (struct sockaddr *)&address, &len), 0);
	return ntohs(address.sin_port);
}

static int setup(void **state)
{
	sd_event *event = NULL;

	memset(&names, 0, sizeof(names));
	assert_true(sd_event_new(&event) >= 0);
	*state = event;
	return 0;
}

static int teardown(void **state)
{
	(void)sd_event_unref(*state);
	return 0;
}

TEST_FIXTURE(the_first_address_that_answers_is_taken, setup, teardown)
{
	struct outcome outcome = {.fd = -1};
	struct dial *dial = NULL;
	struct sockaddr_in peer = {.sin_family = AF_UNSPEC};
	socklen_t len = sizeof(peer);
	struct error err;
	uint16_t port;
	int fd = -1;

	port = listen_somewhere(&fd);
	add_address("127.0.0.2", port); /* bound to .1, so nobody is there */
	add_address("127.0.0.3", port);
	add_address("127.0.0.1", port);
	assert_int_equal(dial_tcp(*state, "several.test", port, on_done, &outcome, &dial, &err), STATUS_OK);
	assert_false(outcome.done);
	run(*state, &outcome.done);
	assert_true(outcome.fd >= 0);
	assert_int_equal(getpeername(outcome.fd, (struct sockaddr *)&peer, &len), 0);
	assert_int_equal(peer.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
	(void)close(outcome.fd);
	(void)close(fd);
}

TEST_FIXTURE(if_no_address_answers_the_error_names_each_cause, setup, teardown)
{
	struct outcome outcome = {.fd = -1};
	struct dial *dial = NULL;
	struct error err;
	uint16_t port;
	int fd = -1;

	port = listen_somewhere(&fd);
	(void)close(fd);
	add_address("127.0.0.2", port);
	add_address("127.0.0.3", port);
	add_address("127.0.0.1", port);
	names.infos[1].ai_family = AF_UNSPEC; /* no socket can be made for it */
	assert_int_equal(dial_tcp(*state, "several.test", port, on_done, &outcome, &dial, &err), STATUS_OK);
	run(*state, &outcome.done);
	assert_true(outcome.fd < 0);
	assert_int_equal(outcome.err.status, STATUS_UNAVAILABLE);
	assert_int_equal(outcome.err.sys_errno, ECONNREFUSED);
	assert_string_equal(outcome.err.msg,
			    "connect to 127.0.0.2: Connection refused; connect to 127.0.0.3: Address family "
			    "not supported by protocol; connect to 127.0.0.1: Connection refused");
}

TEST_FIXTURE(the_error_of_an_only_address_does_not_repeat_it, setup, teardown)
{
	struct outcome outcome = {.fd = -1};
	struct dial *dial = NULL;
	struct error err;
	uint16_t port;
	int fd = -1;

	port = listen_somewhere(&fd);
	(void)close(fd);
	add_address("127.0.0.1", port);
	assert_int_equal(dial_tcp(*state, "several.test", port, on_done, &outcome, &dial, &err), STATUS_OK);
	run(*state, &outcome.done);
	assert_true(outcome.fd < 0);
	assert_string_equal(outcome.err.msg, "connect: Connection refused");
}

TEST_FIXTURE(a_name_without_addresses_is_reported, setup, teardown)
{
	struct outcome outcome = {.fd = -1};
	struct dial *dial = NULL;
	struct error err;

	assert_int_equal(dial_tcp(*state, "none.test", 1, on_done, &outcome, &dial, &err), STATUS_OK);
	run(*state, &outcome.done);
	assert_true(outcome.fd < 0);
	assert_non_null(strstr(outcome.err.msg, "none.test"));
}

TEST_FIXTURE(a_dial_may_be_cancelled_at_any_time, setup, teardown)
{
	struct outcome outcome = {.fd = -1};
	struct dial *dial = NULL;
	struct error err;
	uint16_t port;
	int fd = -1;

	port = listen_somewhere(&fd);
	add_address("127.0.0.2", port);
	add_address("127.0.0.1", port);
	for (int turns = 0; turns < 4; turns++) {
		outcome = (struct outcome){.fd = -1};
		assert_ok(dial_tcp(*state, "several.test", port, on_done, &outcome, &dial, &err));
		for (int i = 0; i < turns && !outcome.done; i++)
			assert_true(sd_event_run(*state, USEC_PER_SEC) >= 0);
		if (outcome.done)
			(void)close(outcome.fd);
		else
			dial_cancel(dial);
		while (sd_event_run(*state, 0) > 0)
			;
	}
	/* the threads' own time: they must not touch what is gone */
	WAIT_UNTIL(atomic_load(&names.n_asked) >= 4);
	(void)close(fd);
}

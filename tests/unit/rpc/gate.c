/* SPDX-License-Identifier: Apache-2.0 */
#include "gate.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

static void close_pair(struct gate_pair *pair)
{
	for (int side = 0; side < 2; side++) {
		pair->io[side] = sd_event_source_disable_unref(pair->io[side]);
		if (pair->fds[side] >= 0)
			(void)close(pair->fds[side]);
		pair->fds[side] = -EBADF;
	}
}

static int on_bytes(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct gate_pair *pair = userdata;
	const struct gate *gate = pair->gate;
	bool up = fd == pair->fds[0];
	char bytes[16384];
	size_t max = gate->piece && gate->piece < sizeof(bytes) ? gate->piece : sizeof(bytes);
	ssize_t n;

	if (up && gate->cut_up_after && max > gate->cut_up_after - pair->up)
		max = gate->cut_up_after - pair->up;
	n = recv(fd, bytes, max, MSG_DONTWAIT);
	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n <= 0) {
		close_pair(pair);
		return 0;
	}
	if (gate->shut)
		return 0;
	/* blocking, but never more than a socket buffer is on its way in these tests */
	if (send(pair->fds[up ? 1 : 0], bytes, (size_t)n, MSG_NOSIGNAL) != n) {
		close_pair(pair);
		return 0;
	}
	if (up)
		pair->up += (size_t)n;
	if (up && gate->cut_up_after && pair->up >= gate->cut_up_after)
		close_pair(pair);
	return 0;
}

static int connect_to_server(const struct world *world)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(str_copy(address.sun_path, sizeof(address.sun_path), world->socket), 0);
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	(void)close(fd);
	return -EBADF;
}

static int on_client(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct gate *gate = userdata;
	struct gate_pair *pair = &gate->pairs[gate->n_pairs++ % GATE_PAIRS];

	if (gate->n_pairs > GATE_PAIRS)
		close_pair(pair);
	*pair = (struct gate_pair){.gate = gate, .fds = {accept4(fd, NULL, NULL, SOCK_CLOEXEC), -EBADF}};
	assert_true(pair->fds[0] >= 0);
	pair->fds[1] = connect_to_server(gate->world);
	if (pair->fds[1] < 0) {
		close_pair(pair);
		return 0;
	}
	for (int side = 0; side < 2; side++)
		assert_true(sd_event_add_io(gate->world->event, &pair->io[side], pair->fds[side], EPOLLIN,
					    on_bytes, pair) >= 0);
	return 0;
}

void gate_open(struct gate *gate, struct world *world)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	*gate = (struct gate){.world = world, .listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
	(void)str_copy(gate->path, sizeof(gate->path), world_path(world, "gate"));
	(void)str_copy(address.sun_path, sizeof(address.sun_path), gate->path);
	assert_int_equal(bind(gate->listen_fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(gate->listen_fd, GATE_PAIRS), 0);
	assert_true(sd_event_add_io(world->event, &gate->listen_io, gate->listen_fd, EPOLLIN, on_client,
				    gate) >= 0);
}

void gate_close(struct gate *gate)
{
	for (size_t i = 0; i < gate->n_pairs && i < GATE_PAIRS; i++)
		close_pair(&gate->pairs[i]);
	(void)sd_event_source_disable_unref(gate->listen_io);
	(void)close(gate->listen_fd);
}

struct rpc_client *gate_client(struct gate *gate)
{
	const struct rpc_endpoint endpoint = {.unix_path = gate->path};
	struct rpc_client *client = NULL;
	struct error err;

	assert_int_equal(rpc_client_new(gate->world->event, &endpoint, &client, &err), STATUS_OK);
	return client;
}

void gate_run(struct world *world,
	      void (*body)(struct world *world, struct gate *gate, struct rpc_client *client))
{
	cleanup(gate_close) struct gate gate;

	gate_open(&gate, world);
	body(world, &gate, gate_client(&gate));
}

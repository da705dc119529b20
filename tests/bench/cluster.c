/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster.h"

#include "bench.h"
#include "daemon.h"
#include "dev.h"

#include "base/clock.h"
#include "base/str.h"
#include "log/log.h"
#include "recovery/migrate.h"
#include "store/mark.h"

#include <fcntl.h>
#include <holdfast/v1/operator.pb-c.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	PORT = 8500, /* of the first one */
	NODES_PER_PROCESS =
		250, /* more would wait for their event loop, which asks for all descriptors at each event */
	PAUSE_MS = 20, /* between two tries */
	WAIT_S = 300,
	MEET_S = 20, /* until the members of etcd have met */
};

#define TIMEOUT_US (30 * USEC_PER_SEC)

/* --- a network --- */

static void run_ip(const char *arguments)
{
	char command[128];

	(void)str_format(command, sizeof(command), "ip %s", arguments);
	if (system(command) != 0) /* NOLINT(cert-env33-c): of constants and numbers */
		die(command, "failed");
}

static void make_network(const struct cluster *c)
{
	if (unshare(CLONE_NEWNET) < 0)
		die("network", "cannot be made; run as root");
	run_ip("link set lo up");
	for (uint32_t i = 0; i <= (c->nodes - 1) / NODES_PER_ADDRESS; i++) {
		char arguments[64];

		(void)str_format(arguments, sizeof(arguments), "address add 127.0.1.%" PRIu32 "/32 dev lo",
				 1 + i);
		run_ip(arguments);
	}
}

/* --- etcd --- */

/* It makes a socket named HOST:PORT where it runs. */
static void start_etcd(const struct cluster *c)
{
	char folder[PATH_MAX], cluster[256] = "";
	size_t n = 0;

	(void)str_format(folder, sizeof(folder), "%s/etcd", c->dir);
	if (mkdir(folder, 0700) < 0)
		die(folder, "cannot be made");
	for (int i = 0; i < CLUSTER_SERVERS; i++)
		n += (size_t)str_format(cluster + n, sizeof(cluster) - n, "%sm%d=unix://p%d:1",
					i > 0 ? "," : "", i, i);
	for (int i = 0; i < CLUSTER_SERVERS; i++) {
		char name[8], data[8], client[24], peer[24];

		(void)str_format(name, sizeof(name), "m%d", i);
		(void)str_format(data, sizeof(data), "d%d", i);
		(void)str_format(client, sizeof(client), "unix://c%d:1", i);
		(void)str_format(peer, sizeof(peer), "unix://p%d:1", i);
		if (fork() != 0)
			continue;
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (chdir(folder) < 0 || !freopen(name, "w", stderr))
			_exit(1);
		(void)execlp("etcd", "etcd", "--name", name, "--data-dir", data, "--listen-client-urls",
			     client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
			     "--initial-advertise-peer-urls", peer, "--initial-cluster", cluster, NULL);
		_exit(127);
	}
}

static void name_etcd(struct cluster *c)
{
	struct lead_settings *etcd = &c->config.etcd;

	for (int i = 0; i < CLUSTER_SERVERS; i++)
		(void)str_format(etcd->endpoints[i], sizeof(etcd->endpoints[i]), "unix:%s/etcd/c%d:1", c->dir,
				 i);
	etcd->lease_us = c->lease_s * USEC_PER_SEC;
	(void)str_copy(etcd->name, sizeof(etcd->name), "bench");
	lead_settings_complete(etcd, c->config.cluster);
}

void cluster_prepare(struct cluster *c)
{
	struct dev_options options = {.dir = c->dir, .cluster = "bench"};
	struct error err;

	make_network(c);
	must("prepare", dev_prepare(&options, &c->config, &err), &err);
	c->config.heartbeat_us = 2 * USEC_PER_SEC; /* a session that has lasted begins with short delays */
	if (sd_event_new(&c->event) < 0)
		die("event loop", "cannot be made");
}

uint64_t cluster_migrate(struct cluster *c)
{
	struct etcd_copy_result copied;
	struct error err;

	start_etcd(c);
	name_etcd(c);
	for (int i = 0; migrate_to_etcd(&c->config, &copied, &err) != STATUS_OK; i++) {
		if (i == MEET_S)
			die("migrate", err.msg);
		(void)sleep(1);
	}
	return copied.n;
}

/* --- servers --- */

static _Noreturn void run_server(const struct config *config)
{
	struct server *server;
	struct error err;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	log_init(config->etcd.name, getenv("BENCH_LOG") ? LOG_INFO : LOG_ERR);
	must("start", server_new(config, &server, &err), &err);
	if (server_run(server, &err) == STATUS_OK)
		server_free(server); /* revokes the lease */
	_exit(0);
}

void cluster_start_server(struct cluster *c, int i)
{
	(void)fflush(NULL);
	c->servers[i].pid = fork();
	if (c->servers[i].pid == 0)
		run_server(&c->servers[i].config);
}

void cluster_etcd_socket(const struct cluster *c, int i, char *path)
{
	(void)str_format(path, PATH_MAX, "%s/etcd/c%d:1", c->dir, i);
}

/* As the server that the store is moved from has one: without a mark it would begin an epoch. */
static void make_mark(const char *data_dir)
{
	struct mark_file *file;
	char path[PATH_MAX];
	struct error err;

	(void)str_format(path, sizeof(path), "%s/holdfast.mark", data_dir);
	must(path, mark_open(path, &(struct mark){.revision = 0}, &file, &err), &err);
	mark_close(file);
}

void cluster_start_servers(struct cluster *c)
{
	size_t n = 0;

	for (int i = 0; i < CLUSTER_SERVERS; i++) {
		struct config *config = &c->servers[i].config;

		*config = c->config;
		(void)str_format(config->etcd.name, sizeof(config->etcd.name), "s%d", i);
		(void)str_format(config->data_dir, sizeof(config->data_dir), "%s/s%d", c->dir, i);
		config->address_file[0] = '\0';
		(void)str_copy(config->host, sizeof(config->host), "0.0.0.0");
		config->port = PORT + (uint32_t)i;
		(void)str_format(config->etcd.advertise, sizeof(config->etcd.advertise), "127.0.0.1:%" PRIu32,
				 config->port);
		config->mark_file[0] = '\0';
		if (mkdir(config->data_dir, 0700) < 0)
			die(config->data_dir, "cannot be made");
		make_mark(config->data_dir);
		cluster_start_server(c, i);
		(void)str_copy(c->servers[i].address, sizeof(c->servers[i].address), config->etcd.advertise);
		n += (size_t)str_format(c->addresses + n, sizeof(c->addresses) - n, "%s%s", i > 0 ? "," : "",
					config->etcd.advertise);
	}
}

/* --- calls --- */

uint64_t cluster_insist(struct rpc_client *client, const ProtobufCServiceDescriptor *service,
			const char *method, const ProtobufCMessage *request, ProtobufCMessage **ret)
{
	uint64_t begin = clock_monotonic_us();
	struct error err;

	for (;;) {
		ProtobufCMessage *response = NULL;
		enum status status =
			rpc_client_call_sync(client, service, method, request, TIMEOUT_US, &response, &err);

		if (status == STATUS_OK) {
			*ret = response;
			return clock_monotonic_us();
		}
		if (status != STATUS_UNAVAILABLE && status != STATUS_UNKNOWN &&
		    status != STATUS_DEADLINE_EXCEEDED)
			die(method, err.msg);
		if (seconds_since(begin) > WAIT_S)
			die(method, err.msg);
		rpc_client_move_on(client);
		(void)usleep(PAUSE_MS * 1000);
	}
}

int cluster_leader(struct rpc_client *client)
{
	Holdfast__V1__ListMembersRequest request = HOLDFAST__V1__LIST_MEMBERS_REQUEST__INIT;
	const Holdfast__V1__ListMembersResponse *response;
	ProtobufCMessage *message;
	int found = -1;

	(void)cluster_insist(client, &holdfast__v1__operator__descriptor, "ListMembers", &request.base,
			     &message);
	response = (const void *)message;
	for (size_t i = 0; i < response->n_servers; i++)
		if (response->servers[i]->leads)
			found = response->servers[i]->name[1] - '0';
	protobuf_c_message_free_unpacked(message, NULL);
	if (found < 0)
		die("members", "none leads");
	return found;
}

/* --- sessions --- */

static void map_nodes(struct cluster *c)
{
	int fd;

	(void)str_format(c->map_path, sizeof(c->map_path), "%s/map", c->dir);
	fd = open(c->map_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(*c->map)) < 0)
		die(c->map_path, "cannot be made");
	c->map = mmap(NULL, sizeof(*c->map), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (c->map == MAP_FAILED)
		die(c->map_path, "cannot be mapped");
	c->map->n_nodes = c->nodes;
	c->map->n_allocs = c->allocs;
	(void)close(fd);
}

static void run_nodes(const struct cluster *c, uint32_t first, uint32_t n, const char *addresses)
{
	char program[PATH_MAX], tls[PATH_MAX], numbers[2][16];

	(void)str_format(program, sizeof(program), "%.*s/bench_nodes",
			 (int)(strrchr(c->program, '/') - c->program), c->program);
	(void)str_format(tls, sizeof(tls), "%s/tls", c->dir);
	(void)str_format(numbers[0], sizeof(numbers[0]), "%" PRIu32, first);
	(void)str_format(numbers[1], sizeof(numbers[1]), "%" PRIu32, n);
	if (fork() != 0)
		return;
	(void)execl(program, program, tls, c->config.cluster, numbers[0], numbers[1], c->map_path, addresses,
		    NULL);
	_exit(127);
}

void cluster_start_nodes(struct cluster *c, uint32_t first, uint32_t n, const char *addresses)
{
	if (!c->map)
		map_nodes(c);
	for (uint32_t end = first + n; first < end; first += NODES_PER_PROCESS)
		run_nodes(c, first, end - first < NODES_PER_PROCESS ? end - first : NODES_PER_PROCESS,
			  addresses);
}

double cluster_wait_sessions(const struct cluster *c, uint32_t n)
{
	uint64_t begin = clock_monotonic_us();

	while (atomic_load(&c->map->n_up) < n) {
		if (seconds_since(begin) > WAIT_S)
			die("sessions", "not all nodes are connected");
		(void)usleep(1000);
	}
	return seconds_since(begin);
}

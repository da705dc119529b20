/* SPDX-License-Identifier: Apache-2.0 */
/* How long nobody is answered, granted and connected when the server that leads is lost: three servers on
 * three members of etcd, volumes with a claim and an allocation each, nodes with sessions.
 *
 *   bench_takeover FOLDER [VOLUMES NODES LEASE_S ROUNDS]
 *
 * As root, in a network of its own. FOLDER is empty and on the disk to measure. In each round the leader is
 * killed (kill -9), then the next one ended with SIGTERM. */

#include "dev.h"
#include "fill.h"
#include "nodes_map.h"
#include "server.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/str.h"
#include "log/log.h"
#include "recovery/migrate.h"
#include "rpc/client.h"

#include <fcntl.h>
#include <holdfast/v1/operator.pb-c.h>
#include <holdfast/v1/volumes.pb-c.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	SERVERS = 3,
	PORT = 8500, /* of the first one */
	SPARE = 64,  /* volumes with an allocation and without a claim */
	VOLUMES = 100000,
	NODES = 1000,
	NODES_PER_PROCESS = 2500,
	LEASE_S = 10,
	ROUNDS = 3,
	PAUSE_MS = 20, /* between two tries */
	WAIT_S = 300,
};

#define TIMEOUT_US (30 * USEC_PER_SEC)

struct bench {
	struct config config; /* of all servers */
	const char *dir, *program;
	uint32_t volumes, nodes, lease_s, rounds;
	sd_event *event;
	struct {
		struct config config;
		pid_t pid;
	} servers[SERVERS];
	char addresses[SERVERS * 32];
	struct nodes_map *map;
	char map_path[PATH_MAX];
	uint32_t n_spent; /* of the spare ones */
};

static _Noreturn void die(const char *what, const char *why)
{
	(void)fprintf(stderr, "bench_takeover: %s: %s\n", what, why);
	exit(1);
}

static void must(const char *what, enum status st, const struct error *err)
{
	if (st != STATUS_OK)
		die(what, err->msg);
}

static void *checked(void *p)
{
	if (!p)
		die("memory", "there is none left");
	return p;
}

static double seconds_since(uint64_t begin_us)
{
	return (double)(clock_monotonic_us() - begin_us) / (double)USEC_PER_SEC;
}

/* --- a network --- */

static void run_ip(const char *arguments)
{
	char command[128];

	(void)str_format(command, sizeof(command), "ip %s", arguments);
	if (system(command) != 0) /* NOLINT(cert-env33-c): of constants and numbers */
		die(command, "failed");
}

static void make_network(const struct bench *b)
{
	if (unshare(CLONE_NEWNET) < 0)
		die("network", "cannot be made; run as root");
	run_ip("link set lo up");
	for (uint32_t i = 0; i <= (b->nodes - 1) / NODES_PER_ADDRESS; i++) {
		char arguments[64];

		(void)str_format(arguments, sizeof(arguments), "address add 127.0.1.%" PRIu32 "/32 dev lo",
				 1 + i);
		run_ip(arguments);
	}
}

/* --- etcd --- */

/* It makes a socket named HOST:PORT where it runs. */
static void start_etcd(const struct bench *b)
{
	char folder[PATH_MAX], cluster[256] = "";
	size_t n = 0;

	(void)str_format(folder, sizeof(folder), "%s/etcd", b->dir);
	if (mkdir(folder, 0700) < 0)
		die(folder, "cannot be made");
	for (int i = 0; i < SERVERS; i++)
		n += (size_t)str_format(cluster + n, sizeof(cluster) - n, "%sm%d=unix://p%d:1",
					i > 0 ? "," : "", i, i);
	for (int i = 0; i < SERVERS; i++) {
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

static void name_etcd(struct bench *b)
{
	struct lead_settings *etcd = &b->config.etcd;

	for (int i = 0; i < SERVERS; i++)
		(void)str_format(etcd->endpoints[i], sizeof(etcd->endpoints[i]), "unix:%s/etcd/c%d:1", b->dir,
				 i);
	etcd->lease_us = b->lease_s * USEC_PER_SEC;
	(void)str_copy(etcd->name, sizeof(etcd->name), "bench");
	lead_settings_complete(etcd, b->config.cluster);
}

/* --- a store --- */

static void fill(struct bench *b)
{
	struct fill_settings settings = {.event = b->event, .nodes = b->nodes};
	struct etcd_copy_result copied;
	char path[PATH_MAX];
	struct error err;

	(void)str_format(path, sizeof(path), "%s/" SERVER_STORE, b->config.data_dir);
	settings.path = path;
	settings.n = b->volumes + SPARE;
	fill_store(&settings, FILL_VOLUMES);
	fill_store(&settings, FILL_ALLOCATIONS);
	settings.n = b->volumes;
	fill_store(&settings, FILL_CLAIMS);
	start_etcd(b);
	name_etcd(b);
	for (int i = 0;; i++) {
		enum status st = migrate_to_etcd(&b->config, &copied, &err);

		if (st == STATUS_OK)
			break;
		if (i == 20)
			die("migrate", err.msg);
		(void)sleep(1); /* its members have not met yet */
	}
	(void)printf("\"records\": %" PRIu64 ", ", copied.n);
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
		server_free(server); /* gives the lease back */
	_exit(0);
}

static void start_server(struct bench *b, int i)
{
	(void)fflush(NULL);
	b->servers[i].pid = fork();
	if (b->servers[i].pid == 0)
		run_server(&b->servers[i].config);
}

static void start_servers(struct bench *b)
{
	size_t n = 0;

	for (int i = 0; i < SERVERS; i++) {
		struct config *config = &b->servers[i].config;

		*config = b->config;
		(void)str_format(config->etcd.name, sizeof(config->etcd.name), "s%d", i);
		(void)str_format(config->data_dir, sizeof(config->data_dir), "%s/s%d", b->dir, i);
		config->address_file[0] = '\0';
		(void)str_copy(config->host, sizeof(config->host), "0.0.0.0");
		config->port = PORT + (uint32_t)i;
		(void)str_format(config->etcd.advertise, sizeof(config->etcd.advertise), "127.0.0.1:%" PRIu32,
				 config->port);
		config->mark_file[0] = '\0';
		if (mkdir(config->data_dir, 0700) < 0)
			die(config->data_dir, "cannot be made");
		start_server(b, i);
		n += (size_t)str_format(b->addresses + n, sizeof(b->addresses) - n, "%s%s", i > 0 ? "," : "",
					config->etcd.advertise);
	}
}

/* --- calls --- */

static struct rpc_client *connect_as(const struct bench *b, const char *cert)
{
	char path[3][PATH_MAX];
	const struct rpc_tls_files files = {.ca = path[0], .cert = path[1], .key = path[2]};
	struct rpc_address servers[RPC_SERVERS_MAX];
	struct rpc_endpoint endpoint = {.servers = servers};
	struct rpc_client *client;
	struct rpc_tls *tls; /* lives as long as the program */
	struct error err;

	(void)str_format(path[0], PATH_MAX, "%s/tls/ca.pem", b->dir);
	(void)str_format(path[1], PATH_MAX, "%s/tls/%s.pem", b->dir, cert);
	(void)str_format(path[2], PATH_MAX, "%s/tls/%s.key", b->dir, cert);
	must("load a certificate", rpc_tls_new(&files, &tls, &err), &err);
	endpoint.n_servers = (size_t)rpc_addresses_parse(b->addresses, servers);
	endpoint.tls = tls;
	must("make a client", rpc_client_new(b->event, &endpoint, &client, &err), &err);
	return client;
}

/* Until it is answered. Returns when. */
static uint64_t insist(const struct bench *b, struct rpc_client *client,
		       const ProtobufCServiceDescriptor *service, const char *method,
		       const ProtobufCMessage *request, ProtobufCMessage **ret)
{
	uint64_t begin = clock_monotonic_us();
	struct error err;

	(void)b;
	for (;;) {
		ProtobufCMessage *response = NULL;
		enum status st =
			rpc_client_call_sync(client, service, method, request, TIMEOUT_US, &response, &err);

		if (st == STATUS_OK) {
			*ret = response;
			return clock_monotonic_us();
		}
		if (st != STATUS_UNAVAILABLE && st != STATUS_UNKNOWN && st != STATUS_DEADLINE_EXCEEDED)
			die(method, err.msg);
		if (seconds_since(begin) > WAIT_S)
			die(method, err.msg);
		rpc_client_move_on(client);
		(void)usleep(PAUSE_MS * 1000);
	}
}

static int find_leader(const struct bench *b, struct rpc_client *client)
{
	Holdfast__V1__ListMembersRequest request = HOLDFAST__V1__LIST_MEMBERS_REQUEST__INIT;
	const Holdfast__V1__ListMembersResponse *response;
	ProtobufCMessage *message;
	int found = -1;

	(void)insist(b, client, &holdfast__v1__operator__descriptor, "ListMembers", &request.base, &message);
	response = (const void *)message;
	for (size_t i = 0; i < response->n_servers; i++)
		if (response->servers[i]->leads)
			found = response->servers[i]->name[1] - '0';
	protobuf_c_message_free_unpacked(message, NULL);
	if (found < 0)
		die("members", "none leads");
	return found;
}

static uint64_t first_answer(const struct bench *b)
{
	Holdfast__V1__GetVolumeRequest request = HOLDFAST__V1__GET_VOLUME_REQUEST__INIT;
	struct rpc_client *client = connect_as(b, "operator");
	ProtobufCMessage *message;
	uint64_t at;
	char id[32];

	fill_volume_id(0, id);
	request.id = id;
	at = insist(b, client, &holdfast__v1__volumes__descriptor, "Get", &request.base, &message);
	protobuf_c_message_free_unpacked(message, NULL);
	rpc_client_free(client);
	return at;
}

/* A claim of a volume that nobody has. */
static uint64_t first_grant(struct bench *b)
{
	Holdfast__V1__ClaimVolumeRequest request = HOLDFAST__V1__CLAIM_VOLUME_REQUEST__INIT;
	char volume[32], alloc[37], node[32], cert[48], name[] = "data", namespace[] = "default";
	uint32_t i = b->volumes + b->n_spent++;
	struct rpc_client *client;
	ProtobufCMessage *message;
	uint64_t at;

	if (b->n_spent > SPARE)
		die("grant", "no volume is left");
	fill_volume_id(i, volume);
	fill_alloc_id(i, alloc);
	fill_node_id(i % b->nodes, node);
	(void)str_format(cert, sizeof(cert), "bench-%s", node);
	request.volume_id = volume;
	request.namespace_ = namespace;
	request.allocation_id = alloc;
	request.volume_name = name;
	client = connect_as(b, cert);
	at = insist(b, client, &holdfast__v1__volumes__descriptor, "Claim", &request.base, &message);
	protobuf_c_message_free_unpacked(message, NULL);
	rpc_client_free(client);
	return at;
}

/* --- sessions --- */

static void start_nodes(struct bench *b)
{
	int fd;

	(void)str_format(b->map_path, sizeof(b->map_path), "%s/map", b->dir);
	fd = open(b->map_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(*b->map)) < 0)
		die(b->map_path, "cannot be made");
	b->map = mmap(NULL, sizeof(*b->map), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (b->map == MAP_FAILED)
		die(b->map_path, "cannot be mapped");
	(void)close(fd);
	for (uint32_t first = 0; first < b->nodes; first += NODES_PER_PROCESS) {
		uint32_t n = b->nodes - first < NODES_PER_PROCESS ? b->nodes - first : NODES_PER_PROCESS;
		char program[PATH_MAX], tls[PATH_MAX], numbers[2][16];

		(void)str_format(program, sizeof(program), "%.*s/bench_nodes",
				 (int)(strrchr(b->program, '/') - b->program), b->program);
		(void)str_format(tls, sizeof(tls), "%s/tls", b->dir);
		(void)str_format(numbers[0], sizeof(numbers[0]), "%" PRIu32, first);
		(void)str_format(numbers[1], sizeof(numbers[1]), "%" PRIu32, n);
		if (fork() != 0)
			continue;
		(void)execl(program, program, tls, b->config.cluster, numbers[0], numbers[1], b->map_path,
			    b->addresses, NULL);
		_exit(127);
	}
}

static double wait_for_sessions(const struct bench *b)
{
	uint64_t begin = clock_monotonic_us();

	while (atomic_load(&b->map->n_up) < b->nodes) {
		if (seconds_since(begin) > WAIT_S)
			die("sessions", "not all nodes are connected");
		(void)usleep(1000);
	}
	return seconds_since(begin);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;

	return (x > y) - (x < y);
}

/* How long sessions were gone that were lost after @begin_us. */
static void print_gaps(const struct bench *b, uint64_t begin_us)
{
	double *gaps = checked(calloc(b->nodes, sizeof(*gaps)));
	uint32_t n = 0;

	for (uint32_t i = 0; i < b->nodes; i++) {
		uint64_t down = atomic_load(&b->map->down_us[i]);

		if (down >= begin_us)
			gaps[n++] = (double)(atomic_load(&b->map->up_us[i]) - down) / (double)USEC_PER_SEC;
	}
	qsort(gaps, n, sizeof(*gaps), compare);
	(void)printf("\"sessions_lost\": %" PRIu32
		     ", \"session_gap_p50_s\": %.2f, \"session_gap_max_s\": %.2f}",
		     n, n > 0 ? gaps[n / 2] : 0, n > 0 ? gaps[n - 1] : 0);
	free(gaps);
}

/* --- all of it --- */

static void lose_leader(struct bench *b, struct rpc_client *client, int number)
{
	int leader = find_leader(b, client);
	uint64_t begin;
	double answered, granted;

	(void)wait_for_sessions(b);
	begin = clock_monotonic_us();
	(void)kill(b->servers[leader].pid, number);
	answered = (double)(first_answer(b) - begin) / (double)USEC_PER_SEC;
	granted = (double)(first_grant(b) - begin) / (double)USEC_PER_SEC;
	(void)waitpid(b->servers[leader].pid, NULL, 0);
	(void)wait_for_sessions(b);
	(void)printf("{\"signal\": \"%s\", \"first_answer_s\": %.2f, \"first_grant_s\": %.2f, "
		     "\"all_sessions_s\": %.2f, ",
		     number == SIGKILL ? "KILL" : "TERM", answered, granted, seconds_since(begin));
	print_gaps(b, begin);
	(void)fflush(stdout);
	start_server(b, leader);
	(void)sleep(5); /* it follows */
}

int main(int argc, char **argv)
{
	struct bench b = {
		.volumes = VOLUMES, .nodes = NODES, .lease_s = LEASE_S, .rounds = ROUNDS, .program = argv[0]};
	struct dev_options options = {.dir = argc > 1 ? argv[1] : NULL, .cluster = "bench"};
	struct rpc_client *client;
	uint64_t begin;
	struct error err;

	if ((argc != 2 && argc != 6) || (argc == 6 && (parse_u32(argv[2], 1, 1000000, &b.volumes) < 0 ||
						       parse_u32(argv[3], 1, NODES_MAP_MAX, &b.nodes) < 0 ||
						       parse_u32(argv[4], 1, 600, &b.lease_s) < 0 ||
						       parse_u32(argv[5], 1, SPARE / 2, &b.rounds) < 0))) {
		(void)fputs("usage: bench_takeover FOLDER [VOLUMES NODES LEASE_S ROUNDS]\n", stderr);
		return 2;
	}
	log_init("bench-takeover", LOG_ERR);
	make_network(&b);
	b.dir = argv[1];
	must("prepare", dev_prepare(&options, &b.config, &err), &err);
	b.config.heartbeat_us = 2 * USEC_PER_SEC; /* a session that has lasted begins with short delays */
	if (sd_event_new(&b.event) < 0)
		die("event loop", "cannot be made");
	(void)printf("{\"volumes\": %" PRIu32 ", \"nodes\": %" PRIu32 ", \"lease_s\": %" PRIu32 ", ",
		     b.volumes, b.nodes, b.lease_s);
	fill(&b);
	start_servers(&b);
	client = connect_as(&b, "operator");
	begin = clock_monotonic_us();
	start_nodes(&b);
	(void)wait_for_sessions(&b);
	(void)printf("\"sessions_begin_s\": %.2f, \"losses\": [", seconds_since(begin));
	for (uint32_t i = 0; i < 2 * b.rounds; i++) {
		if (i > 0)
			(void)printf(", ");
		lose_leader(&b, client, i % 2 == 0 ? SIGKILL : SIGTERM);
	}
	(void)printf("]}\n");
	return 0;
}

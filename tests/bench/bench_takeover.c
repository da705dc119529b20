/* SPDX-License-Identifier: Apache-2.0 */
/* How long nobody is answered, granted and connected when the server that leads is lost: three servers on
 * three members of etcd, volumes with a claim and an allocation each, nodes with sessions.
 *
 *   bench_takeover FOLDER [VOLUMES NODES LEASE_S ROUNDS]
 *
 * As root, in a network of its own. FOLDER is empty and on the disk to measure. In each round the leader is
 * killed (kill -9), then the next one ended with SIGTERM. */

#include "bench.h"
#include "cluster.h"
#include "cpu.h"
#include "fill.h"
#include "server.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/str.h"
#include "log/log.h"

#include <holdfast/v1/volumes.pb-c.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	SPARE = 64, /* volumes with an allocation and without a claim */
	VOLUMES = 100000,
	NODES = 1000,
	LEASE_S = 10,
	ROUNDS = 3,
};

struct bench {
	struct cluster cluster;
	uint32_t volumes, rounds;
	uint32_t n_spent; /* of the spare ones */
};

static void fill(struct bench *b)
{
	struct fill_settings settings = {.event = b->cluster.event, .nodes = b->cluster.nodes};
	char path[PATH_MAX];

	(void)str_format(path, sizeof(path), "%s/" SERVER_STORE, b->cluster.config.data_dir);
	settings.path = path;
	settings.n = b->volumes + SPARE;
	fill_store(&settings, FILL_VOLUMES);
	fill_store(&settings, FILL_ALLOCATIONS);
	settings.n = b->volumes;
	fill_store(&settings, FILL_CLAIMS);
	(void)printf("\"records\": %" PRIu64 ", ", cluster_migrate(&b->cluster));
}

/* --- calls --- */

static uint64_t first_answer(const struct bench *b)
{
	Holdfast__V1__GetVolumeRequest request = HOLDFAST__V1__GET_VOLUME_REQUEST__INIT;
	struct rpc_client *client =
		connect_as(b->cluster.event, b->cluster.dir, "operator", b->cluster.addresses);
	ProtobufCMessage *message;
	uint64_t at;
	char id[32];

	fill_volume_id(0, id);
	request.id = id;
	at = cluster_insist(client, &holdfast__v1__volumes__descriptor, "Get", &request.base, &message);
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
	fill_node_id(i % b->cluster.nodes, node);
	(void)str_format(cert, sizeof(cert), "bench-%s", node);
	request.volume_id = volume;
	request.namespace_ = namespace;
	request.allocation_id = alloc;
	request.volume_name = name;
	client = connect_as(b->cluster.event, b->cluster.dir, cert, b->cluster.addresses);
	at = cluster_insist(client, &holdfast__v1__volumes__descriptor, "Claim", &request.base, &message);
	protobuf_c_message_free_unpacked(message, NULL);
	rpc_client_free(client);
	return at;
}

/* --- sessions --- */

/* How long sessions were gone that were lost after @begin_us. */
static void print_gaps(const struct bench *b, uint64_t begin_us)
{
	double *gaps = checked(calloc(b->cluster.nodes, sizeof(*gaps)));
	uint32_t n = 0;

	for (uint32_t i = 0; i < b->cluster.nodes; i++) {
		uint64_t down = atomic_load(&b->cluster.map->down_us[i]);

		if (down >= begin_us)
			gaps[n++] = (double)(atomic_load(&b->cluster.map->up_us[i]) - down) /
				    (double)USEC_PER_SEC;
	}
	(void)printf("\"sessions_lost\": %" PRIu32
		     ", \"session_gap_p50_s\": %.2f, \"session_gap_max_s\": %.2f}",
		     n, n > 0 ? quantile(gaps, n, 0.5) : 0, n > 0 ? quantile(gaps, n, 1) : 0);
	free(gaps);
}

/* --- whose the processors were --- */

enum whose { OLD_LEADER, OTHER_SERVERS, ETCDS, AGENTS, WHOSE_N };

struct spent {
	double s[WHOSE_N];
};

static enum whose whose_is(const struct bench *b, pid_t pid, int leader)
{
	cleanup_free char *name = NULL;
	char path[64];

	for (int i = 0; i < CLUSTER_SERVERS; i++)
		if (b->cluster.servers[i].pid == pid)
			return i == leader ? OLD_LEADER : OTHER_SERVERS;
	(void)str_format(path, sizeof(path), "/proc/%d/comm", (int)pid);
	return file_read(path, 64, &name, NULL) == 0 && str_starts_with(name, "etcd") ? ETCDS : AGENTS;
}

/* So far, by the children of this process. */
static struct spent look_at_processors(const struct bench *b, int leader)
{
	cleanup_free char *children = NULL;
	struct spent spent = {{0}};
	char path[64];

	(void)str_format(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	if (file_read(path, 4096, &children, NULL) < 0)
		die(path, "cannot be read");
	for (char *rest = children, *word = strsep(&rest, " "); word; word = strsep(&rest, " ")) {
		uint32_t pid;
		struct cpu used;

		if (parse_u32(word, 1, INT32_MAX, &pid) < 0)
			continue;
		used = cpu_used((pid_t)pid);
		spent.s[whose_is(b, (pid_t)pid, leader)] += (used.main_us + used.others_us) / USEC_PER_SEC;
	}
	return spent;
}

static void print_spent(const char *until, const struct spent *begin, const struct spent *end)
{
	(void)printf("\"cpu_s_until_%s\": {\"old_leader\": %.2f, \"other_servers\": %.2f, \"etcd\": %.2f, "
		     "\"nodes\": %.2f}, ",
		     until, end->s[OLD_LEADER] - begin->s[OLD_LEADER],
		     end->s[OTHER_SERVERS] - begin->s[OTHER_SERVERS], end->s[ETCDS] - begin->s[ETCDS],
		     end->s[AGENTS] - begin->s[AGENTS]);
}

/* --- all of it --- */

static void lose_leader(struct bench *b, struct rpc_client *client, int number)
{
	struct cluster *cluster = &b->cluster;
	int leader = cluster_leader(client);
	struct spent before, at_grant, at_end;
	uint64_t begin;
	double answered, granted;

	(void)cluster_wait_sessions(cluster, cluster->nodes);
	before = look_at_processors(b, leader);
	begin = clock_monotonic_us();
	(void)kill(cluster->servers[leader].pid, number);
	answered = (double)(first_answer(b) - begin) / (double)USEC_PER_SEC;
	granted = (double)(first_grant(b) - begin) / (double)USEC_PER_SEC;
	at_grant = look_at_processors(b, leader);
	(void)waitpid(cluster->servers[leader].pid, NULL, 0);
	(void)cluster_wait_sessions(cluster, cluster->nodes);
	at_end = look_at_processors(b, leader);
	at_end.s[OLD_LEADER] = at_grant.s[OLD_LEADER]; /* it has ended */
	(void)printf("{\"signal\": \"%s\", \"first_answer_s\": %.2f, \"first_grant_s\": %.2f, "
		     "\"all_sessions_s\": %.2f, ",
		     number == SIGKILL ? "KILL" : "TERM", answered, granted, seconds_since(begin));
	print_spent("grant", &before, &at_grant);
	print_spent("sessions", &before, &at_end);
	print_gaps(b, begin);
	(void)fflush(stdout);
	cluster_start_server(cluster, leader);
	(void)sleep(cluster->lease_s + 5); /* it follows, and has a copy of the store */
}

int main(int argc, char **argv)
{
	struct bench b = {
		.volumes = VOLUMES,
		.rounds = ROUNDS,
		.cluster = {.dir = argv[1], .program = argv[0], .nodes = NODES, .lease_s = LEASE_S},
	};
	struct cluster *cluster = &b.cluster;
	struct rpc_client *client;
	uint64_t begin;

	if ((argc != 2 && argc != 6) ||
	    (argc == 6 && (parse_u32(argv[2], 1, 1000000, &b.volumes) < 0 ||
			   parse_u32(argv[3], 1, NODES_MAP_MAX, &cluster->nodes) < 0 ||
			   parse_u32(argv[4], 1, 600, &cluster->lease_s) < 0 ||
			   parse_u32(argv[5], 1, SPARE / 2, &b.rounds) < 0))) {
		(void)fputs("usage: bench_takeover FOLDER [VOLUMES NODES LEASE_S ROUNDS]\n", stderr);
		return 2;
	}
	log_init("bench-takeover", LOG_ERR);
	cluster->allocs = b.volumes; /* those with a claim */
	cluster_prepare(cluster);
	(void)printf("{\"volumes\": %" PRIu32 ", \"nodes\": %" PRIu32 ", \"lease_s\": %" PRIu32 ", ",
		     b.volumes, cluster->nodes, cluster->lease_s);
	fill(&b);
	cluster_start_servers(cluster);
	client = connect_as(cluster->event, cluster->dir, "operator", cluster->addresses);
	begin = clock_monotonic_us();
	cluster_start_nodes(cluster, 0, cluster->nodes, cluster->addresses);
	(void)cluster_wait_sessions(cluster, cluster->nodes);
	(void)printf("\"sessions_begin_s\": %.2f, \"losses\": [", seconds_since(begin));
	for (uint32_t i = 0; i < 2 * b.rounds; i++) {
		if (i > 0)
			(void)printf(", ");
		lose_leader(&b, client, i % 2 == 0 ? SIGKILL : SIGTERM);
	}
	(void)printf("]}\n");
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Three servers on three members of etcd: claims per second with 64 outstanding, asked of the server that
 * leads and of one that follows, against transactions of the same etcd, one for each; and what a session
 * costs a server that follows.
 *
 *   bench_servers FOLDER
 *
 * As root, in a network of its own. FOLDER is empty and on the disk to measure. Claims are made over TLS,
 * transactions in the clear over a unix socket. Rounds are interleaved, and the medians of the ratios count.
 */

#include "bench.h"
#include "cluster.h"
#include "etcd.h"
#include "fill.h"
#include "server.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "log/log.h"

#include <holdfast/v1/volumes.pb-c.h>
#include <stdio.h>
#include <unistd.h>

enum {
	ROUNDS = 5,
	CLAIMS = 3000, /* per round and way */
	WIDTH = 64,
	SESSIONS = 1000,
	LEASE_S = 10,
	VALUE_SIZE = 300, /* about what a claim's record has */
	SETTLE_S = 2,
};

#define TIMEOUT_US (30 * USEC_PER_SEC)

enum way { BY_LEADER, BY_FOLLOWER, BY_ETCD, WAY_N };

struct bench {
	struct cluster cluster;
	struct rpc_client *clients[BY_ETCD];
	struct etcd *etcd;
	uint32_t next; /* volume to be claimed next */
	int outstanding;
};

static void fill(struct bench *b)
{
	/* all allocations are of one node */
	struct fill_settings settings = {
		.event = b->cluster.event, .nodes = 1, .n = ROUNDS * BY_ETCD * CLAIMS + 1};
	char path[PATH_MAX];

	(void)str_format(path, sizeof(path), "%s/" SERVER_STORE, b->cluster.config.data_dir);
	settings.path = path;
	fill_store(&settings, FILL_VOLUMES);
	fill_store(&settings, FILL_ALLOCATIONS);
	settings.n = 0;
	fill_store(&settings, FILL_CLAIMS); /* the node */
	(void)cluster_migrate(&b->cluster);
}

static void turn(const struct bench *b)
{
	if (sd_event_run(b->cluster.event, UINT64_MAX) < 0)
		die("event loop", "failed");
}

static void on_done(enum status status, const ProtobufCMessage *response, const struct error *err,
		    void *userdata)
{
	struct bench *b = userdata;

	if (status != STATUS_OK)
		die("claim", err->msg);
	b->outstanding--;
}

static void claim(struct bench *b, struct rpc_client *client)
{
	Holdfast__V1__ClaimVolumeRequest request = HOLDFAST__V1__CLAIM_VOLUME_REQUEST__INIT;
	char volume[32], alloc[37], name[] = "data", namespace[] = "default";
	struct error err;

	fill_volume_id(b->next, volume);
	fill_alloc_id(b->next++, alloc);
	request.volume_id = volume;
	request.namespace_ = namespace;
	request.allocation_id = alloc;
	request.volume_name = name;
	must("claim",
	     rpc_client_call(client, &holdfast__v1__volumes__descriptor, "Claim", &request.base, TIMEOUT_US,
			     on_done, b, NULL, &err),
	     &err);
	b->outstanding++;
}

static double claims(struct bench *b, struct rpc_client *client)
{
	uint64_t begin = clock_monotonic_us();

	for (int i = 0; i < CLAIMS; i++) {
		while (b->outstanding >= WIDTH)
			turn(b);
		claim(b, client);
	}
	while (b->outstanding > 0)
		turn(b);
	return CLAIMS / seconds_since(begin);
}

/* Until its node's session was reported, nothing is granted. */
static void first_claim(struct bench *b)
{
	Holdfast__V1__ClaimVolumeRequest request = HOLDFAST__V1__CLAIM_VOLUME_REQUEST__INIT;
	char volume[32], alloc[37], name[] = "data", namespace[] = "default";
	ProtobufCMessage *message;

	fill_volume_id(b->next, volume);
	fill_alloc_id(b->next++, alloc);
	request.volume_id = volume;
	request.namespace_ = namespace;
	request.allocation_id = alloc;
	request.volume_name = name;
	(void)cluster_insist(b->clients[BY_LEADER], &holdfast__v1__volumes__descriptor, "Claim",
			     &request.base, &message);
	protobuf_c_message_free_unpacked(message, NULL);
}

static void connect_all(struct bench *b, int leader, int follower)
{
	const struct cluster *cluster = &b->cluster;
	char cert[48], node[32], path[PATH_MAX];

	fill_node_id(0, node);
	(void)str_format(cert, sizeof(cert), "bench-%s", node);
	b->clients[BY_LEADER] =
		connect_as(cluster->event, cluster->dir, cert, cluster->servers[leader].address);
	b->clients[BY_FOLLOWER] =
		connect_as(cluster->event, cluster->dir, cert, cluster->servers[follower].address);
	cluster_etcd_socket(cluster, 0, path);
	b->etcd = etcd_connect(cluster->event, path);
}

static void measure_claims(struct bench *b)
{
	static const struct {
		const char *name;
		enum way way, to;
	} ratios[] = {{"leader_to_etcd", BY_LEADER, BY_ETCD}, {"follower_to_leader", BY_FOLLOWER, BY_LEADER}};
	static const char *const names[WAY_N] = {"leader_per_s", "follower_per_s", "etcd_per_s"};
	double rates[WAY_N][ROUNDS];

	for (int r = 0; r < ROUNDS; r++) {
		for (int way = 0; way < BY_ETCD; way++)
			rates[way][r] = claims(b, b->clients[way]);
		rates[BY_ETCD][r] = etcd_transactions(b->etcd, CLAIMS, WIDTH, VALUE_SIZE);
	}
	for (size_t i = 0; i < ARRAY_SIZE(ratios); i++) {
		double ratio[ROUNDS];

		for (int r = 0; r < ROUNDS; r++)
			ratio[r] = rates[ratios[i].way][r] / rates[ratios[i].to][r];
		(void)printf("\"%s\": %.2f, ", ratios[i].name, quantile(ratio, ROUNDS, 0.5));
	}
	for (int way = 0; way < WAY_N; way++)
		(void)printf("\"%s\": %.0f, ", names[way], quantile(rates[way], ROUNDS, 0.5));
}

/* Private memory of a follower that has them all: its own part, and what it passes on. */
static void measure_sessions(struct bench *b, int follower)
{
	const struct cluster_server *server = &b->cluster.servers[follower];
	double before;

	cluster_start_nodes(&b->cluster, 1, 1, server->address);
	(void)cluster_wait_sessions(&b->cluster, 2);
	(void)sleep(SETTLE_S);
	before = private_bytes(server->pid);
	cluster_start_nodes(&b->cluster, 2, SESSIONS, server->address);
	(void)cluster_wait_sessions(&b->cluster, 2 + SESSIONS);
	(void)sleep(SETTLE_S);
	(void)printf("\"sessions\": %d, \"follower_bytes_per_session\": %.0f}\n", SESSIONS,
		     (private_bytes(server->pid) - before) / SESSIONS);
}

int main(int argc, char **argv)
{
	struct bench b = {
		.cluster = {.dir = argv[1], .program = argv[0], .nodes = SESSIONS + 2, .lease_s = LEASE_S}};
	struct cluster *cluster = &b.cluster;
	int leader;

	if (argc != 2) {
		(void)fputs("usage: bench_servers FOLDER\n", stderr);
		return 2;
	}
	log_init("bench-servers", LOG_ERR);
	cluster_prepare(cluster);
	fill(&b);
	cluster_start_servers(cluster);
	leader = cluster_leader(connect_as(cluster->event, cluster->dir, "operator", cluster->addresses));
	cluster_start_nodes(cluster, 0, 1, cluster->servers[leader].address);
	(void)cluster_wait_sessions(cluster, 1);
	connect_all(&b, leader, (leader + 1) % CLUSTER_SERVERS);
	first_claim(&b);
	(void)printf("{");
	measure_claims(&b);
	measure_sessions(&b, (leader + 1) % CLUSTER_SERVERS);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Three servers on three members of etcd, for benchmarks, as root in a network of its own: children of the
 * program, which end with it. */

#include "config.h"
#include "nodes_map.h"

#include "rpc/client.h"

#include <limits.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

enum { CLUSTER_SERVERS = 3 };

struct cluster_server {
	struct config config;
	char address[32];
	pid_t pid;
};

struct cluster {
	const char *dir;     /* empty, and on the disk to measure */
	const char *program; /* this one's: bench_nodes is beside it */
	uint32_t nodes, lease_s;
	uint32_t allocs; /* that nodes say they run, of those that were filled */
	sd_event *event;
	struct config config; /* of all servers */
	struct cluster_server servers[CLUSTER_SERVERS];
	char addresses[CLUSTER_SERVERS * 32]; /* as in HOLDFAST_ADDR */
	struct nodes_map *map;		      /* NULL: no nodes yet */
	char map_path[PATH_MAX];
};

/** Network, certificates, and configuration of a server with sqlite in @cluster->config, whose database may
 * be filled now. @cluster has dir, program, nodes, lease_s and allocs. */
void cluster_prepare(struct cluster *cluster);

/** Move what was filled to etcd. Returns how many records. */
uint64_t cluster_migrate(struct cluster *cluster);

/** Over a unix socket, in the clear. @path PATH_MAX bytes */
void cluster_etcd_socket(const struct cluster *cluster, int i, char *path);

void cluster_start_servers(struct cluster *cluster);
void cluster_start_server(struct cluster *cluster, int i);

/** Sessions of nodes @first and on, at @addresses. */
void cluster_start_nodes(struct cluster *cluster, uint32_t first, uint32_t n, const char *addresses);

/** Until so many nodes have a session. Returns for how long. */
double cluster_wait_sessions(const struct cluster *cluster, uint32_t n);

/** Which server leads. */
int cluster_leader(struct rpc_client *client);

/** Call until it is answered, by whichever server. Returns when, monotonic.
 * @ret owned by the caller */
uint64_t cluster_insist(struct rpc_client *client, const ProtobufCServiceDescriptor *service,
			const char *method, const ProtobufCMessage *request, ProtobufCMessage **ret);

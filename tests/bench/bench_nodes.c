/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of nodes as agents have them, without what agents mount: one connection and one certificate each,
 * opened again with the agent's delays.
 *
 *   bench_nodes TLS_FOLDER CLUSTER FIRST N MAP SERVERS
 *
 * TLS_FOLDER has a CA with its key, and gets a certificate for each node. MAP is a file of nodes_map.h.
 * SERVERS is a list as in HOLDFAST_ADDR, of which the ports count. Ends when its parent does. */

#include "fill.h"
#include "nodes_map.h"

#include "base/clock.h"
#include "base/parse.h"
#include "base/str.h"
#include "log/log.h"
#include "rpc/client.h"
#include "rpc/pki.h"
#include "session/session.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#define CONNECT_TIMEOUT_US (10 * USEC_PER_SEC) /* the agent's default */

struct node {
	uint32_t i;
	char id[32];
	struct rpc_client *client;
	struct session *session;
	bool is_up;
};

struct shared {
	sd_event *event;
	const char *tls, *cluster;
	struct nodes_map *map;
	struct rpc_address servers[RPC_SERVERS_MAX];
	size_t n_servers;
};

static struct shared shared;

static _Noreturn void die(const char *what, const char *why)
{
	(void)fprintf(stderr, "bench_nodes: %s: %s\n", what, why);
	exit(1);
}

static void must(const char *what, enum status status, const struct error *err)
{
	if (status != STATUS_OK)
		die(what, err->msg);
}

/* --- what an agent does --- */

/* They all run. */
static void say_allocs(const struct node *node, Holdfast__V1__SessionHello *hello)
{
	const struct nodes_map *map = shared.map;

	hello->allocs = calloc(map->n_allocs / map->n_nodes + 1, sizeof(*hello->allocs));
	if (!hello->allocs)
		die(node->id, "out of memory");
	for (uint32_t i = node->i; i < map->n_allocs; i += map->n_nodes) {
		Holdfast__V1__AllocStatus *status = malloc(sizeof(*status));
		char id[37];

		if (!status)
			die(node->id, "out of memory");
		holdfast__v1__alloc_status__init(status);
		fill_alloc_id(i, id);
		status->alloc_id = strdup(id);
		status->client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING;
		hello->allocs[hello->n_allocs++] = status;
	}
}

static Holdfast__V1__SessionHello *make_hello(bool *ret_is_short, void *userdata)
{
	Holdfast__V1__SessionHello *hello = malloc(sizeof(*hello));
	Holdfast__V1__Fingerprint *fingerprint = malloc(sizeof(*fingerprint));
	Holdfast__V1__NodePlugin *plugin = malloc(sizeof(*plugin));
	const struct node *node = userdata;

	if (!hello || !fingerprint || !plugin)
		die(node->id, "out of memory");
	holdfast__v1__session_hello__init(hello);
	holdfast__v1__fingerprint__init(fingerprint);
	holdfast__v1__node_plugin__init(plugin);
	hello->node_id = strdup(node->id);
	hello->boot_id = strdup(FILL_BOOT);
	plugin->plugin_id = strdup("native");
	plugin->profile = strdup("scratch");
	plugin->class_ = HOLDFAST__V1__SOURCE_CLASS__TMPFS;
	plugin->healthy = true;
	fingerprint->plugins = calloc(1, sizeof(Holdfast__V1__NodePlugin *));
	if (!fingerprint->plugins)
		die(node->id, "out of memory");
	fingerprint->plugins[0] = plugin;
	fingerprint->n_plugins = 1;
	hello->fingerprint = fingerprint;
	say_allocs(node, hello);
	hello->adoption_complete = false; /* what it does not name stays as it is */
	*ret_is_short = false;
	return hello;
}

static void on_up(bool sends_statuses, void *userdata)
{
	struct node *node = userdata;

	node->is_up = true;
	atomic_store(&shared.map->up_us[node->i], clock_monotonic_us());
	(void)atomic_fetch_add(&shared.map->n_up, 1);
}

static void on_down(const struct error *err, void *userdata)
{
	struct node *node = userdata;

	if (!node->is_up)
		return;
	node->is_up = false;
	atomic_store(&shared.map->down_us[node->i], clock_monotonic_us());
	(void)atomic_fetch_sub(&shared.map->n_up, 1);
}

static void on_mark(const Holdfast__V1__Mark *mark, void *userdata)
{
}

static void on_run(const struct alloc *alloc, void *userdata)
{
}

static void on_id(const char *namespace, const char *alloc_id, void *userdata)
{
}

static void on_ack(const char *claim_id, bool is_released, void *userdata)
{
}

static void on_release(const struct claim *claim, const char *wire_volume, const struct ticket *ticket,
		       void *userdata)
{
}

static void on_report_wanted(uint64_t epoch, bool is_reverted, void *userdata)
{
}

static void on_call(const Holdfast__V1__PluginCall *call, void *userdata)
{
}

static void on_task_stream(const Holdfast__V1__OpenTaskStream *wanted, void *userdata)
{
}

static const struct session_handlers handlers = {
	.make_hello = make_hello,
	.on_mark = on_mark,
	.on_up = on_up,
	.on_down = on_down,
	.on_run = on_run,
	.on_stop = on_id,
	.on_ack = on_ack,
	.on_release = on_release,
	.on_forget = on_id,
	.on_report_wanted = on_report_wanted,
	.on_call = on_call,
	.on_task_stream = on_task_stream,
};

/* --- nodes --- */

static struct rpc_tls *load_tls(const struct node *node)
{
	char path[4][PATH_MAX], uri[128];
	const struct pki_cert_request request = {.uri = uri, .common_name = node->id, .days = 1};
	const struct rpc_tls_files files = {.ca = path[1], .cert = path[3], .key = path[2]};
	struct rpc_tls *tls; /* lives as long as the program */
	struct error err;
	enum status status;

	(void)str_format(uri, sizeof(uri), "holdfast://%s/node/%s", shared.cluster, node->id);
	(void)str_format(path[0], PATH_MAX, "%s/ca.key", shared.tls);
	(void)str_format(path[1], PATH_MAX, "%s/ca.pem", shared.tls);
	(void)str_format(path[2], PATH_MAX, "%s/bench-%s.key", shared.tls, node->id);
	(void)str_format(path[3], PATH_MAX, "%s/bench-%s.pem", shared.tls, node->id);
	status = pki_issue(path[0], path[1], &request, path[2], path[3], &err);
	if (status != STATUS_ALREADY_EXISTS)
		must("certificate", status, &err);
	must("certificate", rpc_tls_new(&files, &tls, &err), &err);
	return tls;
}

static void start(struct node *node, uint32_t i)
{
	static const struct session_options base = {.boot_id = FILL_BOOT,
						    .connect_timeout_us = CONNECT_TIMEOUT_US};
	struct session_options options = base;
	struct rpc_address servers[RPC_SERVERS_MAX];
	struct rpc_endpoint endpoint = {.servers = servers, .n_servers = shared.n_servers};
	struct error err;

	node->i = i;
	fill_node_id(i, node->id);
	options.cluster = shared.cluster;
	/* what is at the address of this machine comes from there as well */
	for (size_t k = 0; k < shared.n_servers; k++) {
		servers[k].port = shared.servers[k].port;
		(void)str_format(servers[k].host, sizeof(servers[k].host), "127.0.1.%" PRIu32,
				 1 + i / NODES_PER_ADDRESS);
	}
	endpoint.tls = load_tls(node);
	must("client", rpc_client_new(shared.event, &endpoint, &node->client, &err), &err);
	for (uint32_t k = 0; k < i % shared.n_servers; k++)
		rpc_client_move_on(node->client); /* as agents whose lists begin with different servers */
	must("session",
	     session_new(shared.event, node->client, &options, &handlers, node, &node->session, &err), &err);
	session_restart(node->session);
}

static struct nodes_map *map_file(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	void *map = fd < 0 ? MAP_FAILED
			   : mmap(NULL, sizeof(struct nodes_map), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		die(path, "cannot be mapped");
	return map;
}

int main(int argc, char **argv)
{
	struct rlimit files;
	uint32_t first, n;
	struct node *nodes;
	ssize_t n_servers;

	if (argc != 7 || parse_u32(argv[3], 0, NODES_MAP_MAX, &first) < 0 ||
	    parse_u32(argv[4], 1, NODES_MAP_MAX - first, &n) < 0 ||
	    (n_servers = rpc_addresses_parse(argv[6], shared.servers)) < 0) {
		(void)fputs("usage: bench_nodes TLS_FOLDER CLUSTER FIRST N MAP SERVERS\n", stderr);
		return 2;
	}
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
	log_init("bench-nodes", LOG_ERR);
	shared.tls = argv[1];
	shared.cluster = argv[2];
	shared.map = map_file(argv[5]);
	shared.n_servers = (size_t)n_servers;
	nodes = calloc(n, sizeof(*nodes));
	if (!nodes || sd_event_new(&shared.event) < 0)
		die("start", "out of memory");
	for (uint32_t i = 0; i < n; i++) {
		start(&nodes[i], first + i);
		while (sd_event_run(shared.event, 0) > 0)
			; /* what is due, between two certificates */
	}
	(void)sd_event_loop(shared.event);
	return 1;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Claims per second of a running claim server, over TLS, as a node makes them, with 1, 10 and 64 outstanding,
 * against durable single-row commits of plain sqlite and against transactions of an etcd, over TLS as well
 * and, with 64, in the clear over a unix socket, on the same disk. Rounds are interleaved; ratios are what
 * counts. Beside them it tells the time of processors that one operation takes: of the server's event loop,
 * of its other threads, and of this client.
 *
 *   bench_claims DEV_DIR NODE FOLDER SERVER_PID
 *
 * DEV_DIR is the folder of a server started with --dev, which has a certificate for NODE; the sqlite file of
 * the comparison is made in FOLDER, which must be empty, and so is the etcd's data. */

#include "cpu.h"
#include "etcd.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/str.h"
#include "model/alloc.h"
#include "rpc/client.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/nodes.pb-c.h>
#include <holdfast/v1/volumes.pb-c.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum {
	ROUNDS = 5,
	CLAIMS_1 = 200,	  /* per round, one after the other */
	CLAIMS_10 = 1000, /* per round, 10 at a time */
	CLAIMS_64 = 2000, /* per round, 64 at a time */
	COMMITS = 300,	  /* per round */
	VALUE_SIZE = 300, /* about what a claim's record has */
	OBJECTS = ROUNDS * (CLAIMS_1 + CLAIMS_10 + CLAIMS_64),
	VOLUMES = ALLOC_VOLUMES_MAX, /* of an allocation: a node takes NODE_ALLOCS_MAX of them */
};

#define TIMEOUT_US (30 * USEC_PER_SEC)

struct bench {
	sd_event *event;
	struct rpc_client *operator;
	struct rpc_client *node;
	struct rpc_stream *session;
	pid_t server;
	bool welcomed;
	uint64_t spoken_us; /* monotonic: when it last gave a sign of life */
	char node_id[64];
	int outstanding; /* calls in flight */
};

static _Noreturn void die(const char *what, const char *why)
{
	(void)fprintf(stderr, "bench_claims: %s: %s\n", what, why);
	exit(1);
}

static void must(const char *what, enum status status, const struct error *err)
{
	if (status != STATUS_OK)
		die(what, err->msg);
}

static struct rpc_client *connect_as(struct bench *b, const char *dir, const char *cert)
{
	char path[3][PATH_MAX];
	const struct rpc_tls_files files = {.ca = path[0], .cert = path[1], .key = path[2]};
	struct rpc_endpoint endpoint = {.host = "127.0.0.1"};
	cleanup_free char *address = NULL;
	struct rpc_client *client;
	struct rpc_tls *tls; /* lives as long as the program */
	struct error err;
	uint32_t port;

	(void)str_format(path[0], PATH_MAX, "%s/address", dir);
	if (file_read(path[0], 100, &address, NULL) < 0)
		die(path[0], "cannot be read");
	address[strcspn(address, "\n")] = '\0';
	if (!strrchr(address, ':') || parse_u32(strrchr(address, ':') + 1, 1, 65535, &port) < 0)
		die(path[0], "holds no HOST:PORT");
	endpoint.port = (uint16_t)port;
	(void)str_format(path[0], PATH_MAX, "%s/tls/ca.pem", dir);
	(void)str_format(path[1], PATH_MAX, "%s/tls/%s.pem", dir, cert);
	(void)str_format(path[2], PATH_MAX, "%s/tls/%s.key", dir, cert);
	must("load a certificate", rpc_tls_new(&files, &tls, &err), &err);
	endpoint.tls = tls;
	must("make a client", rpc_client_new(b->event, &endpoint, &client, &err), &err);
	return client;
}

static void give_sign_of_life(struct bench *b)
{
	Holdfast__V1__SessionUp up = HOLDFAST__V1__SESSION_UP__INIT;
	Holdfast__V1__Heartbeat heartbeat = HOLDFAST__V1__HEARTBEAT__INIT;
	uint64_t now_us = clock_monotonic_us();
	struct error err;

	if (!b->welcomed || now_us - b->spoken_us < USEC_PER_SEC)
		return;
	b->spoken_us = now_us;
	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_HEARTBEAT;
	up.heartbeat = &heartbeat;
	must("send a heartbeat", rpc_stream_send(b->session, &up.base, &err), &err);
}

static void turn(struct bench *b)
{
	give_sign_of_life(b);
	if (sd_event_run(b->event, UINT64_MAX) < 0)
		die("event loop", "failed");
}

/* A server that has just begun grants nothing before its nodes have said what they hold: nothing. */
static void send_report(struct bench *b, uint64_t epoch)
{
	Holdfast__V1__SessionUp up = HOLDFAST__V1__SESSION_UP__INIT;
	Holdfast__V1__NodeReport report = HOLDFAST__V1__NODE_REPORT__INIT;
	struct error err;

	report.epoch = epoch;
	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_REPORT;
	up.report = &report;
	must("report", rpc_stream_send(b->session, &up.base, &err), &err);
}

/* The work that comes down is not done: only claims are measured. */
static void on_message(struct rpc_stream *stream, const ProtobufCMessage *message, void *userdata)
{
	const Holdfast__V1__SessionDown *down = (const Holdfast__V1__SessionDown *)message;
	struct bench *b = userdata;

	if (down->message_case == HOLDFAST__V1__SESSION_DOWN__MESSAGE_WELCOME)
		b->welcomed = true;
	else if (down->message_case == HOLDFAST__V1__SESSION_DOWN__MESSAGE_REPORT)
		send_report(b, down->report->epoch);
}

static void on_closed(struct rpc_stream *stream, enum status status, const struct error *err, void *userdata)
{
	die("session", err ? err->msg : "closed");
}

static const struct rpc_stream_events events = {.on_message = on_message, .on_closed = on_closed};

static void open_session(struct bench *b)
{
	Holdfast__V1__SessionUp up = HOLDFAST__V1__SESSION_UP__INIT;
	Holdfast__V1__SessionHello hello = HOLDFAST__V1__SESSION_HELLO__INIT;
	Holdfast__V1__Fingerprint fingerprint = HOLDFAST__V1__FINGERPRINT__INIT;
	Holdfast__V1__NodePlugin plugin = HOLDFAST__V1__NODE_PLUGIN__INIT;
	Holdfast__V1__NodePlugin *plugins[] = {&plugin};
	char boot_id[] = "b0010000-0000-4000-8000-000000000001";
	char native[] = "native";
	char profile[] = "scratch";
	struct error err;

	plugin.plugin_id = native;
	plugin.profile = profile;
	plugin.healthy = true;
	hello.node_id = b->node_id;
	hello.boot_id = boot_id;
	fingerprint.plugins = plugins;
	fingerprint.n_plugins = 1;
	hello.fingerprint = &fingerprint;
	hello.adoption_complete = true;
	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_HELLO;
	up.hello = &hello;
	must("open a session",
	     rpc_stream_open(b->node, &holdfast__v1__nodes__descriptor, "Session", TIMEOUT_US, &events, b,
			     &b->session, &err),
	     &err);
	must("say hello", rpc_stream_send(b->session, &up.base, &err), &err);
	while (!b->welcomed)
		turn(b);
}

static void on_done(enum status status, const ProtobufCMessage *response, const struct error *err,
		    void *userdata)
{
	struct bench *b = userdata;

	if (status != STATUS_OK)
		die("call", err->msg);
	b->outstanding--;
}

static void register_volume(struct bench *b, int n)
{
	Holdfast__V1__RegisterVolumeRequest request = HOLDFAST__V1__REGISTER_VOLUME_REQUEST__INIT;
	Holdfast__V1__Volume volume = HOLDFAST__V1__VOLUME__INIT;
	Holdfast__V1__Source source = HOLDFAST__V1__SOURCE__INIT;
	Holdfast__V1__Capability capability = HOLDFAST__V1__CAPABILITY__INIT;
	Holdfast__V1__Capability *capabilities[] = {&capability};
	char id[32];
	char profile[] = "scratch";
	struct error err;

	(void)str_format(id, sizeof(id), "bench-%d", n);
	capability.access_mode = HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_WRITER;
	capability.attachment_mode = HOLDFAST__V1__ATTACHMENT_MODE__FILE_SYSTEM;
	source.class_ = HOLDFAST__V1__SOURCE_CLASS__TMPFS;
	source.size_bytes = 1 << 20;
	source.inodes = 100;
	volume.id = id;
	volume.type = HOLDFAST__V1__VOLUME_TYPE__NATIVE;
	volume.profile = profile;
	volume.source = &source;
	volume.requested_capabilities = capabilities;
	volume.n_requested_capabilities = 1;
	request.volume = &volume;
	must("register",
	     rpc_client_call(b->operator, & holdfast__v1__volumes__descriptor, "Register", &request.base,
			     TIMEOUT_US, on_done, b, NULL, &err),
	     &err);
	b->outstanding++;
}

/* Of volume @n, and its name in it. */
static void alloc_id(int n, char id[static 37], char name[static 16])
{
	(void)str_format(id, 37, "%08d-0000-7000-837a-8eec1ce19687", n / VOLUMES);
	(void)str_format(name, 16, "data-%d", n % VOLUMES);
}

static void run_alloc(struct bench *b, int n)
{
	Holdfast__V1__RunAllocationRequest request = HOLDFAST__V1__RUN_ALLOCATION_REQUEST__INIT;
	Holdfast__V1__Allocation alloc = HOLDFAST__V1__ALLOCATION__INIT;
	Holdfast__V1__VolumeRequest volumes[VOLUMES];
	Holdfast__V1__VolumeRequest *list[VOLUMES];
	char id[37];
	char source[VOLUMES][32];
	char name[VOLUMES][16];
	struct error err;

	for (int i = 0; i < VOLUMES; i++) {
		alloc_id(n * VOLUMES + i, id, name[i]);
		(void)str_format(source[i], sizeof(source[i]), "bench-%d", n * VOLUMES + i);
		holdfast__v1__volume_request__init(&volumes[i]);
		volumes[i].name = name[i];
		volumes[i].source = source[i];
		volumes[i].access_mode = HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_WRITER;
		list[i] = &volumes[i];
	}
	alloc.id = id;
	alloc.name = name[0];
	alloc.node_id = b->node_id;
	alloc.volumes = list;
	alloc.n_volumes = VOLUMES;
	request.allocation = &alloc;
	must("run",
	     rpc_client_call(b->operator, & holdfast__v1__allocations__descriptor, "Run", &request.base,
			     TIMEOUT_US, on_done, b, NULL, &err),
	     &err);
	b->outstanding++;
}

static void claim(struct bench *b, int n)
{
	Holdfast__V1__ClaimVolumeRequest request = HOLDFAST__V1__CLAIM_VOLUME_REQUEST__INIT;
	char id[37];
	char source[32];
	char name[16];
	struct error err;

	alloc_id(n, id, name);
	(void)str_format(source, sizeof(source), "bench-%d", n);
	request.volume_id = source;
	request.allocation_id = id;
	request.volume_name = name;
	must("claim",
	     rpc_client_call(b->node, &holdfast__v1__volumes__descriptor, "Claim", &request.base, TIMEOUT_US,
			     on_done, b, NULL, &err),
	     &err);
	b->outstanding++;
}

/* Call @start for @n objects, at most @width at a time; returns the calls per second. */
static double many(struct bench *b, void (*start)(struct bench *, int), int from, int n, int width)
{
	uint64_t begin = clock_monotonic_us();

	for (int i = 0; i < n; i++) {
		while (b->outstanding >= width)
			turn(b);
		start(b, from + i);
	}
	while (b->outstanding > 0)
		turn(b);
	return (double)n * (double)USEC_PER_SEC / (double)(clock_monotonic_us() - begin);
}

static void sql(sqlite3 *db, const char *text)
{
	if (sqlite3_exec(db, text, NULL, NULL, NULL) != SQLITE_OK)
		die(text, sqlite3_errmsg(db));
}

/* Durable commits of one row, one after the other. */
static double plain_sqlite(sqlite3 *db)
{
	char value[VALUE_SIZE];
	sqlite3_stmt *put;
	uint64_t begin;

	memset(value, 'x', sizeof(value));
	if (sqlite3_prepare_v2(db, "insert or replace into t values(?1, ?2)", -1, &put, NULL) != SQLITE_OK)
		die("prepare", sqlite3_errmsg(db));
	begin = clock_monotonic_us();
	for (int i = 0; i < COMMITS; i++) {
		sql(db, "begin immediate");
		(void)sqlite3_bind_int(put, 1, i);
		(void)sqlite3_bind_blob(put, 2, value, sizeof(value), SQLITE_STATIC);
		if (sqlite3_step(put) != SQLITE_DONE)
			die("insert", sqlite3_errmsg(db));
		(void)sqlite3_reset(put);
		sql(db, "commit");
	}
	begin = clock_monotonic_us() - begin;
	(void)sqlite3_finalize(put);
	return (double)COMMITS * (double)USEC_PER_SEC / (double)begin;
}

static sqlite3 *open_sqlite(const char *path)
{
	sqlite3 *db;

	if (sqlite3_open(path, &db) != SQLITE_OK)
		die(path, sqlite3_errmsg(db));
	sql(db, "pragma journal_mode=wal; pragma synchronous=full; pragma locking_mode=exclusive;"
		"pragma wal_autocheckpoint=4000; create table t(k integer primary key, v blob)");
	return db;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values)
{
	qsort(values, ROUNDS, sizeof(*values), compare);
	return values[ROUNDS / 2];
}

enum way {
	PLAIN,
	CLAIMS_AT_1,
	CLAIMS_AT_10,
	CLAIMS_AT_64,
	ETCD_AT_1,
	ETCD_AT_10,
	ETCD_AT_64,
	ETCD_CLEAR_AT_64,
	WAY_N
};

/* What is compared with. */
struct others {
	sqlite3 *db;
	struct etcd *etcd, *etcd_clear; /* NULL: there is none on this machine */
};

static const struct {
	const char *name;
	int n, width;
} ways[WAY_N] = {
	[PLAIN] = {"sqlite_commits_per_s", COMMITS, 1},
	[CLAIMS_AT_1] = {"claims_per_s_1", CLAIMS_1, 1},
	[CLAIMS_AT_10] = {"claims_per_s_10", CLAIMS_10, 10},
	[CLAIMS_AT_64] = {"claims_per_s_64", CLAIMS_64, 64},
	[ETCD_AT_1] = {"etcd_per_s_1", CLAIMS_1, 1},
	[ETCD_AT_10] = {"etcd_per_s_10", CLAIMS_10, 10},
	[ETCD_AT_64] = {"etcd_per_s_64", CLAIMS_64, 64},
	[ETCD_CLEAR_AT_64] = {"etcd_clear_per_s_64", CLAIMS_64, 64},
};

static const struct {
	const char *name;
	enum way way, to;
} ratios[] = {
	{"ratio_1", CLAIMS_AT_1, PLAIN},
	{"ratio_10", CLAIMS_AT_10, PLAIN},
	{"ratio_64", CLAIMS_AT_64, PLAIN},
	{"ratio_etcd_1", CLAIMS_AT_1, ETCD_AT_1},
	{"ratio_etcd_10", CLAIMS_AT_10, ETCD_AT_10},
	{"ratio_etcd_64", CLAIMS_AT_64, ETCD_AT_64},
	{"ratio_etcd_clear_64", CLAIMS_AT_64, ETCD_CLEAR_AT_64},
};

static struct etcd *etcd_of(const struct others *others, enum way way)
{
	return way == ETCD_CLEAR_AT_64 ? others->etcd_clear : others->etcd;
}

static double run_way(struct bench *b, const struct others *others, enum way way, int *next)
{
	struct etcd *etcd = etcd_of(others, way);
	int from = *next;

	switch (way) {
	case PLAIN:
		return plain_sqlite(others->db);
	case CLAIMS_AT_1:
	case CLAIMS_AT_10:
	case CLAIMS_AT_64:
		*next += ways[way].n;
		return many(b, claim, from, ways[way].n, ways[way].width);
	case ETCD_AT_1:
	case ETCD_AT_10:
	case ETCD_AT_64:
	case ETCD_CLEAR_AT_64:
		return etcd ? etcd_transactions(etcd, ways[way].n, ways[way].width, VALUE_SIZE) : 0;
	case WAY_N:
		break;
	}
	return 0;
}

/* CPU time of one operation: of the server that was asked, and here. */
struct cost {
	double loop_us;	  /* of its first thread; of etcd all of it */
	double others_us; /* of its other threads */
	double client_us;
};

/* The process that does the work of @way; 0: this one. */
static pid_t process_of(const struct bench *b, const struct others *others, enum way way)
{
	const struct etcd *etcd = etcd_of(others, way);

	if (way >= ETCD_AT_1)
		return etcd ? etcd_pid(etcd) : 0;
	return way == PLAIN ? 0 : b->server;
}

static double run_and_cost(struct bench *b, const struct others *others, enum way way, int *next,
			   struct cost *ret)
{
	pid_t pid = process_of(b, others, way);
	struct cpu theirs = cpu_used(pid);
	struct cpu ours = cpu_used(getpid());
	double rate = run_way(b, others, way, next);
	struct cpu theirs_after = cpu_used(pid);

	ret->loop_us = (theirs_after.main_us - theirs.main_us) / ways[way].n;
	ret->others_us = (theirs_after.others_us - theirs.others_us) / ways[way].n;
	ret->client_us = (cpu_used(getpid()).main_us - ours.main_us) / ways[way].n;
	return rate;
}

static double total(const struct cost *cost)
{
	return cost->loop_us + cost->others_us + cost->client_us;
}

/* How many claims there are for the processor time of one transaction of etcd, clients included. */
static void print_cost_ratio(struct cost (*costs)[ROUNDS], const char *name, enum way claims, enum way etcd)
{
	double ratio[ROUNDS];

	for (int r = 0; r < ROUNDS; r++)
		ratio[r] = total(&costs[etcd][r]) / total(&costs[claims][r]);
	(void)printf(", \"%s\": %.3f", name, median(ratio));
}

static void print_costs(struct cost (*costs)[ROUNDS])
{
	for (int way = 0; way < WAY_N; way++) {
		double loop[ROUNDS];
		double others[ROUNDS];
		double client[ROUNDS];

		for (int r = 0; r < ROUNDS; r++) {
			loop[r] = costs[way][r].loop_us;
			others[r] = costs[way][r].others_us;
			client[r] = costs[way][r].client_us;
		}
		(void)printf(", \"cpu_us_%s\": {\"loop\": %.1f, \"others\": %.1f, \"client\": %.1f}",
			     ways[way].name, median(loop), median(others), median(client));
	}
}

static void measure(struct bench *b, const struct others *others)
{
	double rates[WAY_N][ROUNDS];
	struct cost costs[WAY_N][ROUNDS];
	const char *separator = "{";
	int next = 0;

	for (int r = 0; r < ROUNDS; r++)
		for (int way = 0; way < WAY_N; way++)
			rates[way][r] = run_and_cost(b, others, (enum way)way, &next, &costs[way][r]);
	for (size_t i = 0; i < ARRAY_SIZE(ratios); i++) {
		double ratio[ROUNDS];

		if (rates[ratios[i].to][0] <= 0)
			continue; /* no etcd here */
		for (int r = 0; r < ROUNDS; r++)
			ratio[r] = rates[ratios[i].way][r] / rates[ratios[i].to][r];
		(void)printf("%s\"%s\": %.3f", separator, ratios[i].name, median(ratio));
		separator = ", ";
	}
	for (int way = 0; way < WAY_N; way++)
		(void)printf("%s\"%s\": %.0f", separator, ways[way].name, median(rates[way]));
	print_costs(costs);
	if (others->etcd) {
		print_cost_ratio(costs, "ratio_cpu_etcd_1", CLAIMS_AT_1, ETCD_AT_1);
		print_cost_ratio(costs, "ratio_cpu_etcd_10", CLAIMS_AT_10, ETCD_AT_10);
		print_cost_ratio(costs, "ratio_cpu_etcd_64", CLAIMS_AT_64, ETCD_AT_64);
	}
	(void)printf("}\n");
}

int main(int argc, char **argv)
{
	struct bench b = {0};
	char cert[80];
	char path[PATH_MAX];
	struct others others;
	uint32_t pid;

	if (argc != 5 || str_copy(b.node_id, sizeof(b.node_id), argv[2]) < 0 ||
	    parse_u32(argv[4], 1, INT_MAX, &pid) < 0) {
		(void)fputs("usage: bench_claims DEV_DIR NODE FOLDER SERVER_PID\n", stderr);
		return 2;
	}
	b.server = (pid_t)pid;
	if (sd_event_new(&b.event) < 0)
		die("event loop", "cannot be made");
	(void)str_format(cert, sizeof(cert), "node-%s", b.node_id);
	(void)str_format(path, sizeof(path), "%s/bench.db", argv[3]);
	b.operator= connect_as(&b, argv[1], "operator");
	b.node = connect_as(&b, argv[1], cert);
	open_session(&b);
	(void)many(&b, register_volume, 0, OBJECTS, 64);
	(void)many(&b, run_alloc, 0, OBJECTS / VOLUMES, 64);
	others.db = open_sqlite(path);
	(void)str_format(path, sizeof(path), "%s/tls", argv[1]);
	others.etcd = etcd_start(b.event, argv[3], path, cert);
	(void)str_format(path, sizeof(path), "%s/clear", argv[3]);
	if (mkdir(path, 0700) < 0)
		die(path, "cannot be made");
	others.etcd_clear = etcd_start(b.event, path, NULL, NULL);
	(void)str_format(path, sizeof(path), "%s/bench.db", argv[3]);
	measure(&b, &others);
	etcd_stop(others.etcd);
	etcd_stop(others.etcd_clear);
	(void)sqlite3_close(others.db);
	(void)unlink(path);
	rpc_stream_cancel(b.session);
	rpc_client_free(b.node);
	rpc_client_free(b.operator);
	return 0;
}

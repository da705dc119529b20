/* SPDX-License-Identifier: Apache-2.0 */
/* A claim server with much in it: how long it takes to start, what a volume and a session cost in memory, how
 * long a get and a list take, also by the command line, and how long it is from the end of allocations to
 * free claims.
 *
 *   bench_server FOLDER PROGRAM [VOLUMES NODES]
 *
 * FOLDER is empty and on the disk to measure, PROGRAM is the command line. Volumes have a claim and an
 * allocation each; the server is a child of its own, and is spoken to over TLS. */

#include "bench.h"
#include "cpu.h"
#include "daemon.h"
#include "dev.h"
#include "fill.h"
#include "server.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/str.h"
#include "log/log.h"
#include "rpc/client.h"
#include "rpc/pki.h"

#include <fcntl.h>
#include <holdfast/v1/nodes.pb-c.h>
#include <holdfast/v1/types.pb-c.h>
#include <holdfast/v1/volumes.pb-c.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	VOLUMES = 100000,
	NODES = 10000,
	STARTS = 5,
	GETS = 5000,
	LISTS = 200,
	COMMANDS = 3,
	SESSIONS = 500,
	RELEASED = 1000,
	SETTLE_S = 3,
};

#define TIMEOUT_US (60 * USEC_PER_SEC)

struct bench {
	struct config config;
	const char *dir;
	const char *program; /* the command line */
	uint32_t volumes, nodes;
	sd_event *event;
	pid_t pid; /* the server */
	char address[100];
	int outstanding;
};

static void turn(struct bench *b)
{
	if (sd_event_run(b->event, UINT64_MAX) < 0)
		die("event loop", "failed");
}

static void fill(struct bench *b, enum fill_content content)
{
	struct fill_settings settings = {.event = b->event, .n = b->volumes, .nodes = b->nodes};
	char path[PATH_MAX];

	(void)str_format(path, sizeof(path), "%s/" SERVER_STORE, b->config.data_dir);
	settings.path = path;
	fill_store(&settings, content);
}

/* --- the server --- */

static _Noreturn void run_server(const struct config *config, int ready_fd)
{
	struct server *server;
	struct error err;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	log_init("bench-server", LOG_ERR);
	must("start", server_new(config, &server, &err), &err);
	if (write(ready_fd, "r", 1) != 1)
		_exit(1);
	(void)close(ready_fd);
	(void)server_run(server, &err);
	_exit(0); /* freeing everything is not measured */
}

static void read_address(struct bench *b)
{
	cleanup_free char *address = NULL;

	if (file_read(b->config.address_file, sizeof(b->address) - 1, &address, NULL) < 0)
		die(b->config.address_file, "cannot be read");
	address[strcspn(address, "\n")] = '\0';
	(void)str_copy(b->address, sizeof(b->address), address);
}

/* How long it took until it listened. */
struct start {
	double seconds;
	double cpu_seconds; /* of all its threads; hardly depends on what else the machine does */
};

static struct start start_server(struct bench *b)
{
	uint64_t begin = clock_monotonic_us();
	struct cpu used;
	int ends[2];
	char byte;

	if (pipe(ends) < 0)
		die("pipe", "failed");
	(void)fflush(NULL);
	b->pid = fork();
	if (b->pid == 0) {
		(void)close(ends[0]);
		run_server(&b->config, ends[1]);
	}
	(void)close(ends[1]);
	if (read(ends[0], &byte, 1) != 1)
		die("server", "ended before it was ready");
	(void)close(ends[0]);
	begin = clock_monotonic_us() - begin;
	used = cpu_used(b->pid);
	read_address(b);
	(void)sd_event_run(b->event, 0); /* it reckons from its last turn, which was before all this */
	return (struct start){.seconds = (double)begin / (double)USEC_PER_SEC,
			      .cpu_seconds = (used.main_us + used.others_us) / (double)USEC_PER_SEC};
}

static void kill_server(struct bench *b)
{
	(void)kill(b->pid, SIGKILL);
	(void)waitpid(b->pid, NULL, 0);
}

static struct start start_often(struct bench *b)
{
	double seconds[STARTS];
	double cpu_seconds[STARTS];

	for (int i = 0; i < STARTS; i++) {
		struct start start = start_server(b);

		seconds[i] = start.seconds;
		cpu_seconds[i] = start.cpu_seconds;
		if (i + 1 < STARTS)
			kill_server(b);
	}
	return (struct start){.seconds = quantile(seconds, STARTS, 0.5),
			      .cpu_seconds = quantile(cpu_seconds, STARTS, 0.5)};
}

/* --- calls --- */

static double timed_call(struct rpc_client *client, const char *method, const ProtobufCMessage *request)
{
	ProtobufCMessage *response;
	struct error err;
	uint64_t begin = clock_monotonic_us();

	must(method,
	     rpc_client_call_sync(client, &holdfast__v1__volumes__descriptor, method, request, TIMEOUT_US,
				  &response, &err),
	     &err);
	begin = clock_monotonic_us() - begin;
	protobuf_c_message_free_unpacked(response, NULL);
	return (double)begin;
}

static void measure_get(struct bench *b, struct rpc_client *client)
{
	static double us[GETS];
	Holdfast__V1__GetVolumeRequest request = HOLDFAST__V1__GET_VOLUME_REQUEST__INIT;
	char id[32];

	request.id = id;
	for (uint32_t i = 0; i < GETS; i++) { /* scattered, as people ask */
		(void)str_format(id, sizeof(id), "volume-%06" PRIu32,
				 (uint32_t)((uint64_t)i * 7919 % b->volumes));
		us[i] = timed_call(client, "Get", &request.base);
	}
	(void)printf("\"get_p50_us\": %.0f, \"get_p99_us\": %.0f, ", quantile(us, GETS, 0.5),
		     quantile(us, GETS, 0.99));
}

static void measure_list(struct rpc_client *client, uint32_t per_page)
{
	static double us[LISTS];
	Holdfast__V1__ListVolumesRequest request = HOLDFAST__V1__LIST_VOLUMES_REQUEST__INIT;
	char prefix[32];

	/* so many have this prefix */
	(void)str_copy(prefix, sizeof(prefix), per_page == 100 ? "volume-0000" : "volume-000");
	request.prefix = prefix;
	request.per_page = per_page;
	for (uint32_t i = 0; i < LISTS; i++)
		us[i] = timed_call(client, "List", &request.base);
	(void)printf("\"list_%" PRIu32 "_p50_us\": %.0f, \"list_%" PRIu32 "_p99_us\": %.0f, ", per_page,
		     quantile(us, LISTS, 0.5), per_page, quantile(us, LISTS, 0.99));
}

/* Runs the command line, with its output thrown away. Returns seconds. @ret_bytes: its largest resident
 * memory */
static double timed_command(const struct bench *b, const char *option, double *ret_bytes)
{
	uint64_t begin = clock_monotonic_us();
	struct rusage used;
	int status;
	pid_t pid;

	(void)fflush(NULL);
	pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

		(void)dup2(null, STDOUT_FILENO);
		(void)execl(b->program, b->program, "--dev-dir", b->dir, "volume", "status", option,
			    (char *)NULL);
		_exit(127);
	}
	if (wait4(pid, &status, 0, &used) != pid || status != 0)
		die(b->program, "failed");
	*ret_bytes = (double)used.ru_maxrss * 1024;
	return seconds_since(begin);
}

static void measure_command(const struct bench *b, const char *name, const char *option)
{
	double seconds[COMMANDS], bytes[COMMANDS];

	for (int i = 0; i < COMMANDS; i++)
		seconds[i] = timed_command(b, option, &bytes[i]);
	(void)printf("\"%s_s\": %.2f, \"%s_bytes\": %.0f, ", name, quantile(seconds, COMMANDS, 0.5), name,
		     quantile(bytes, COMMANDS, 0.5));
}

/* --- sessions --- */

struct session_end {
	struct bench *b;
	struct rpc_client *client;
	struct rpc_stream *stream;
	char id[32];
	bool is_welcomed;
	int freed; /* claims of which the server has said that it has recorded their release */
};

static void send_up(struct session_end *s, const Holdfast__V1__SessionUp *up)
{
	struct error err;

	must("send", rpc_stream_send(s->stream, &up->base, &err), &err);
}

static void send_released(struct session_end *s, const Holdfast__V1__ReleaseClaim *release)
{
	Holdfast__V1__SessionUp up = HOLDFAST__V1__SESSION_UP__INIT;
	Holdfast__V1__ClaimReceipt receipt = HOLDFAST__V1__CLAIM_RECEIPT__INIT;
	char boot[] = FILL_BOOT;

	receipt.claim_id = release->claim->id;
	receipt.boot_id = boot;
	receipt.generation = release->claim->generation;
	receipt.what_case = HOLDFAST__V1__CLAIM_RECEIPT__WHAT_RELEASED;
	receipt.released = true;
	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_RECEIPT;
	up.receipt = &receipt;
	send_up(s, &up);
}

static void on_message(struct rpc_stream *stream, const ProtobufCMessage *message, void *userdata)
{
	const Holdfast__V1__SessionDown *down = (const Holdfast__V1__SessionDown *)message;
	struct session_end *s = userdata;

	switch (down->message_case) {
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE_WELCOME:
		s->is_welcomed = true;
		s->b->outstanding--;
		break;
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE_RELEASE:
		send_released(s, down->release);
		break;
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE_RECEIPT_ACK:
		s->freed++;
		break;
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE_RUN: /* nothing of it is done */
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE_STOP:
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE_FORGET:
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE_CALL:
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE_REPORT:
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE_MARK:
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE_STREAM:
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE__NOT_SET:
	case _HOLDFAST__V1__SESSION_DOWN__MESSAGE__CASE_IS_INT_SIZE:
		break;
	}
}

static void on_closed(struct rpc_stream *stream, enum status status, const struct error *err, void *userdata)
{
	die("session", err ? err->msg : "closed");
}

static const struct rpc_stream_events stream_events = {.on_message = on_message, .on_closed = on_closed};

static void make_certificate(struct bench *b, const char *node, char cert[static 64])
{
	char path[4][PATH_MAX];
	char uri[128];
	const struct pki_cert_request request = {.uri = uri, .common_name = node, .days = 1};
	struct error err;
	enum status status;

	(void)str_format(cert, 64, "bench-%s", node);
	(void)str_format(uri, sizeof(uri), "holdfast://%s/node/%s", b->config.cluster, node);
	(void)str_format(path[0], PATH_MAX, "%s/tls/ca.key", b->dir);
	(void)str_format(path[1], PATH_MAX, "%s/tls/ca.pem", b->dir);
	(void)str_format(path[2], PATH_MAX, "%s/tls/%s.key", b->dir, cert);
	(void)str_format(path[3], PATH_MAX, "%s/tls/%s.pem", b->dir, cert);
	status = pki_issue(path[0], path[1], &request, path[2], path[3], &err);
	if (status != STATUS_ALREADY_EXISTS)
		must("certificate", status, &err);
}

static void open_session(struct bench *b, struct session_end *s, uint32_t i)
{
	Holdfast__V1__SessionUp up = HOLDFAST__V1__SESSION_UP__INIT;
	Holdfast__V1__SessionHello hello = HOLDFAST__V1__SESSION_HELLO__INIT;
	Holdfast__V1__Fingerprint fingerprint = HOLDFAST__V1__FINGERPRINT__INIT;
	Holdfast__V1__NodePlugin plugin = HOLDFAST__V1__NODE_PLUGIN__INIT;
	Holdfast__V1__NodePlugin *plugins[] = {&plugin};
	char boot[] = FILL_BOOT;
	char native[] = "native";
	char profile[] = "scratch";
	char cert[64];
	struct error err;

	*s = (struct session_end){.b = b};
	fill_node_id(i, s->id);
	make_certificate(b, s->id, cert);
	s->client = connect_as(b->event, b->dir, cert, b->address);
	plugin.plugin_id = native;
	plugin.profile = profile;
	plugin.healthy = true;
	hello.node_id = s->id;
	hello.boot_id = boot;
	fingerprint.plugins = plugins;
	fingerprint.n_plugins = 1;
	hello.fingerprint = &fingerprint;
	hello.adoption_complete = false; /* what it does not name stays as it is */
	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_HELLO;
	up.hello = &hello;
	must("open a session",
	     rpc_stream_open(s->client, &holdfast__v1__nodes__descriptor, "Session", TIMEOUT_US,
			     &stream_events, s, &s->stream, &err),
	     &err);
	send_up(s, &up);
	b->outstanding++;
	while (!s->is_welcomed)
		turn(b);
}

static void measure_sessions(struct bench *b)
{
	static struct session_end sessions[SESSIONS];
	double before;

	open_session(b, &sessions[0], 0);
	before = private_bytes(b->pid);
	for (uint32_t i = 1; i < SESSIONS; i++)
		open_session(b, &sessions[i], i);
	(void)printf("\"bytes_per_session\": %.0f, ", (private_bytes(b->pid) - before) / (SESSIONS - 1));
	for (uint32_t i = 0; i < SESSIONS; i++) {
		rpc_stream_cancel(sessions[i].stream);
		rpc_client_free(sessions[i].client);
	}
}

/* --- from the end of allocations to free claims --- */

static void end_alloc(struct session_end *s, uint32_t i)
{
	Holdfast__V1__SessionUp up = HOLDFAST__V1__SESSION_UP__INIT;
	Holdfast__V1__AllocStatus alloc = HOLDFAST__V1__ALLOC_STATUS__INIT;
	char id[37];

	fill_alloc_id(i, id);
	alloc.alloc_id = id;
	alloc.client_status = HOLDFAST__V1__CLIENT_STATUS__COMPLETE;
	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_ALLOC;
	up.alloc = &alloc;
	send_up(s, &up);
}

static double release(struct session_end *s, uint32_t first, uint32_t n)
{
	uint64_t begin = clock_monotonic_us();
	int until = s->freed + (int)n;

	for (uint32_t i = 0; i < n; i++)
		end_alloc(s, (first + i) * s->b->nodes); /* all of node 0 */
	while (s->freed < until)
		turn(s->b);
	return (double)(clock_monotonic_us() - begin) / (double)USEC_PER_MSEC;
}

static void measure_release(struct bench *b)
{
	static struct session_end s;

	open_session(b, &s, 0);
	(void)sleep(SETTLE_S); /* the changes of the filling are being forgotten, in commits of their own */
	(void)sd_event_run(b->event, 0);
	(void)printf("\"free_1_ms\": %.2f, ", release(&s, 0, 1));
	(void)printf("\"free_1000_ms\": %.2f, ", release(&s, 1, RELEASED));
}

/* --- all of it --- */

static void measure_size(struct bench *b)
{
	static const struct {
		const char *name;
		enum fill_content content;
	} stages[] = {
		{"volume", FILL_VOLUMES},
		{"volume_and_claim", FILL_CLAIMS},
		{"volume_claim_and_allocation", FILL_ALLOCATIONS},
	};
	double empty;

	(void)start_server(b);
	empty = private_bytes(b->pid);
	kill_server(b);
	(void)printf("\"volumes\": %" PRIu32 ", \"nodes\": %" PRIu32 ", ", b->volumes, b->nodes);
	for (size_t i = 0; i < ARRAY_SIZE(stages); i++) {
		struct start start;

		fill(b, stages[i].content);
		start = start_often(b);
		(void)printf("\"start_%s_s\": %.3f, \"start_%s_cpu_s\": %.3f, ", stages[i].name,
			     start.seconds, stages[i].name, start.cpu_seconds);
		(void)printf("\"bytes_per_%s\": %.0f, ", stages[i].name,
			     (private_bytes(b->pid) - empty) / b->volumes);
		if (i + 1 < ARRAY_SIZE(stages))
			kill_server(b);
	}
}

int main(int argc, char **argv)
{
	struct bench b = {.volumes = VOLUMES, .nodes = NODES};
	struct dev_options options = {.dir = argc > 1 ? argv[1] : NULL, .cluster = "bench"};
	struct rpc_client *client;
	struct error err;

	if ((argc != 3 && argc != 5) ||
	    (argc == 5 && (parse_u32(argv[3], RELEASED + 1, 1000000, &b.volumes) < 0 ||
			   parse_u32(argv[4], 1, 100000, &b.nodes) < 0))) {
		(void)fputs("usage: bench_server FOLDER PROGRAM [VOLUMES NODES], at least 1001 VOLUMES\n",
			    stderr);
		return 2;
	}
	log_init("bench-server", LOG_ERR);
	b.dir = argv[1];
	b.program = argv[2];
	must("prepare", dev_prepare(&options, &b.config, &err), &err);
	b.config.heartbeat_us = 300 * USEC_PER_SEC; /* the nodes here give no sign of life */
	if (sd_event_new(&b.event) < 0)
		die("event loop", "cannot be made");
	(void)printf("{");
	measure_size(&b);
	client = connect_as(b.event, b.dir, "operator", b.address);
	measure_get(&b, client);
	measure_list(client, 100);
	measure_list(client, 1000);
	measure_command(&b, "table", NULL);
	measure_command(&b, "json", "--json");
	measure_sessions(&b);
	kill_server(&b);
	b.nodes = b.volumes / (RELEASED + 1); /* so that node 0 has enough of them */
	fill(&b, FILL_CLAIMS);
	fill(&b, FILL_ALLOCATIONS);
	(void)start_server(&b);
	measure_release(&b);
	(void)printf("\"end\": 0}\n");
	kill_server(&b);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Thousands of nodes' sessions over TLS, and what an operator's calls take beside them: in the steady state,
 * while strangers send headers that are dear to read, and after the server's process was stopped and
 * continued.
 *
 *   bench_sessions FOLDER [SESSIONS PAUSE_S]
 *
 * FOLDER is empty. The server is a child of its own, and so are the nodes; each has a certificate of its own.
 */

#include "daemon.h"
#include "dev.h"
#include "server.h"

#include "base/backoff.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/str.h"
#include "log/log.h"
#include "rpc/client.h"
#include "rpc/pki.h"

#include <arpa/inet.h>
#include <holdfast/v1/nodes.pb-c.h>
#include <inttypes.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	SESSIONS = 10000,
	PAUSE_S = 15,
	SHARDS = 4,	  /* processes for the nodes, as each of them takes two descriptors */
	OPENING_MAX = 16, /* sessions of a shard that are on their way at once */
	CALLS_PER_S = 100,
	QUIET_S = 5,
	STEADY_S = 20,
	AFTER_S = 40,
	OPEN_MAX_S = 600,
	RETRY_MS = 2000, /* on average; from half of it to half as much again */
	CALLS_MAX = 100 * CALLS_PER_S,
	ATTACKERS = 8,
	ATTACK_S = 20,
};

#define TIMEOUT_US (120 * USEC_PER_SEC)
#define BOOT "b0010000-0000-4000-8000-000000000001"

/* Written by the process of the nodes, read by the one that measures. */
struct shared {
	size_t n_open;
	size_t n_lost; /* sessions that ended, or could not be opened */
	uint32_t heartbeat_ms;
	size_t n_attacks;		       /* connections of attackers that the server has ended */
	uint64_t attack_us, attack_longest_us; /* how long those were up */
};

struct bench {
	struct config config;
	const char *dir;
	uint32_t sessions, pause_s;
	sd_event *event;
	pid_t server, nodes[SHARDS];
	uint32_t first, last; /* nodes of this shard: from the one to before the other */
	uint16_t port;
	struct shared *shared;
	struct rpc_tls *operator_tls;
};

static _Noreturn void die(const char *what, const char *why)
{
	(void)fprintf(stderr, "bench_sessions: %s: %s\n", what, why);
	exit(1);
}

static void must(const char *what, enum status status, const struct error *err)
{
	if (status != STATUS_OK)
		die(what, err->msg);
}

static struct rpc_tls *load(const struct bench *b, const char *cert)
{
	char path[3][PATH_MAX];
	const struct rpc_tls_files files = {.ca = path[0], .cert = path[1], .key = path[2]};
	struct rpc_tls *tls = NULL;
	struct error err;

	(void)str_format(path[0], PATH_MAX, "%s/tls/ca.pem", b->dir);
	(void)str_format(path[1], PATH_MAX, "%s/tls/%s.pem", b->dir, cert);
	(void)str_format(path[2], PATH_MAX, "%s/tls/%s.key", b->dir, cert);
	must("load a certificate", rpc_tls_new(&files, &tls, &err), &err);
	return tls;
}

static struct rpc_client *connect_with(struct bench *b, struct rpc_tls *tls)
{
	const struct rpc_endpoint endpoint = {.host = "127.0.0.1", .port = b->port, .tls = tls};
	struct rpc_client *client = NULL;
	struct error err;

	must("make a client", rpc_client_new(b->event, &endpoint, &client, &err), &err);
	return client;
}

/* --- the server --- */

static void raise_files(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		die("limit of open files", "is not known");
	files.rlim_cur = files.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &files) < 0)
		die("limit of open files", "cannot be raised");
}

static _Noreturn void run_server(const struct config *config, int ready_fd)
{
	struct server *server = NULL;
	struct error err;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	must("start", server_new(config, &server, &err), &err);
	if (write(ready_fd, "r", 1) != 1)
		_exit(1);
	(void)close(ready_fd);
	(void)server_run(server, &err);
	_exit(0);
}

static void start_server(struct bench *b)
{
	cleanup_free char *address = NULL;
	uint32_t port = 0;
	int ends[2];
	char byte;

	if (pipe(ends) < 0)
		die("pipe", "failed");
	b->server = fork();
	if (b->server == 0) {
		(void)close(ends[0]);
		run_server(&b->config, ends[1]);
	}
	(void)close(ends[1]);
	if (read(ends[0], &byte, 1) != 1)
		die("server", "ended before it was ready");
	(void)close(ends[0]);
	if (file_read(b->config.address_file, 100, &address, NULL) < 0)
		die(b->config.address_file, "cannot be read");
	address[strcspn(address, "\n")] = '\0';
	if (parse_u32(strrchr(address, ':') + 1, 1, 65535, &port) < 0)
		die(b->config.address_file, "holds no HOST:PORT");
	b->port = (uint16_t)port;
}

/* --- the nodes --- */

struct sim_node {
	struct bench *b;
	struct rpc_tls *tls;
	struct rpc_client *client;
	struct rpc_stream *stream; /* NULL: not connected */
	sd_event_source *timer;	   /* the next heartbeat or attempt */
	char id[32];
	bool is_welcomed;
	uint64_t heartbeat_us;
};

static struct sim_node *all;
static uint32_t n_begun; /* the first attempts go out a few at a time */
static uint32_t n_opening;

static void open_session(struct sim_node *node);

static void begin_more(struct bench *b)
{
	while (n_begun < b->last - b->first && n_opening < OPENING_MAX) {
		n_opening++;
		open_session(&all[n_begun++]);
	}
}

static int send_up(struct sim_node *node, const Holdfast__V1__SessionUp *up)
{
	struct error err;

	return rpc_stream_send(node->stream, &up->base, &err) == STATUS_OK ? 0 : -1;
}

static void arm(struct sim_node *node, uint64_t delay_us, sd_event_time_handler_t handler)
{
	node->timer = sd_event_source_disable_unref(node->timer);
	if (sd_event_add_time_relative(node->b->event, &node->timer, CLOCK_MONOTONIC, delay_us, 1000, handler,
				       node) < 0)
		die("timer", "cannot be armed");
}

static int on_heartbeat(sd_event_source *source, uint64_t usec, void *userdata)
{
	Holdfast__V1__SessionUp up = HOLDFAST__V1__SESSION_UP__INIT;
	Holdfast__V1__Heartbeat heartbeat = HOLDFAST__V1__HEARTBEAT__INIT;
	struct sim_node *node = userdata;
	char boot[] = BOOT;

	heartbeat.boot_id = boot;
	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_HEARTBEAT;
	up.heartbeat = &heartbeat;
	(void)send_up(node, &up); /* a lost session is told by its end */
	arm(node, node->heartbeat_us, on_heartbeat);
	return 0;
}

static void on_welcome(struct sim_node *node, const Holdfast__V1__SessionWelcome *welcome)
{
	struct bench *b = node->b;

	node->is_welcomed = true;
	node->heartbeat_us = welcome->heartbeat_ms * USEC_PER_MSEC;
	rpc_client_set_keepalive(node->client, node->heartbeat_us);
	b->shared->heartbeat_ms = welcome->heartbeat_ms;
	(void)__atomic_add_fetch(&b->shared->n_open, 1, __ATOMIC_RELAXED);
	arm(node, backoff_random() % node->heartbeat_us + 1, on_heartbeat);
	if (n_opening > 0)
		n_opening--;
	begin_more(b);
}

static void on_message(struct rpc_stream *stream, const ProtobufCMessage *message, void *userdata)
{
	const Holdfast__V1__SessionDown *down = (const Holdfast__V1__SessionDown *)message;

	if (down->message_case == HOLDFAST__V1__SESSION_DOWN__MESSAGE_WELCOME)
		on_welcome(userdata, down->welcome);
}

static int on_retry(sd_event_source *source, uint64_t usec, void *userdata)
{
	open_session(userdata);
	return 0;
}

static void retry(struct sim_node *node)
{
	(void)__atomic_add_fetch(&node->b->shared->n_lost, 1, __ATOMIC_RELAXED);
	node->stream = NULL;
	arm(node, (RETRY_MS / 2 + backoff_random() % RETRY_MS) * USEC_PER_MSEC, on_retry);
}

static void on_closed(struct rpc_stream *stream, enum status status, const struct error *err, void *userdata)
{
	struct sim_node *node = userdata;

	if (getenv("BENCH_VERBOSE") && err)
		(void)fprintf(stderr, "%s: %s\n", node->id, err->msg);
	if (node->is_welcomed)
		(void)__atomic_sub_fetch(&node->b->shared->n_open, 1, __ATOMIC_RELAXED);
	node->is_welcomed = false;
	retry(node);
}

static const struct rpc_stream_events stream_events = {.on_message = on_message, .on_closed = on_closed};

static void open_session(struct sim_node *node)
{
	Holdfast__V1__SessionUp up = HOLDFAST__V1__SESSION_UP__INIT;
	Holdfast__V1__SessionHello hello = HOLDFAST__V1__SESSION_HELLO__INIT;
	char boot[] = BOOT;
	struct error err;

	node->timer = sd_event_source_disable_unref(node->timer);
	if (rpc_stream_open(node->client, &holdfast__v1__nodes__descriptor, "Session", 10 * USEC_PER_SEC,
			    &stream_events, node, &node->stream, &err) != STATUS_OK) {
		retry(node);
		return;
	}
	hello.node_id = node->id;
	hello.boot_id = boot;
	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_HELLO;
	up.hello = &hello;
	(void)send_up(node, &up);
}

static void make_certificate(const struct bench *b, const char *node, char cert[static 64])
{
	char path[4][PATH_MAX];
	char uri[128];
	const struct pki_cert_request request = {.uri = uri, .common_name = node, .days = 1};
	struct error err;

	(void)str_format(cert, 64, "bench-%s", node);
	(void)str_format(uri, sizeof(uri), "holdfast://%s/node/%s", b->config.cluster, node);
	(void)str_format(path[0], PATH_MAX, "%s/tls/ca.key", b->dir);
	(void)str_format(path[1], PATH_MAX, "%s/tls/ca.pem", b->dir);
	(void)str_format(path[2], PATH_MAX, "%s/tls/%s.key", b->dir, cert);
	(void)str_format(path[3], PATH_MAX, "%s/tls/%s.pem", b->dir, cert);
	must("certificate", pki_issue(path[0], path[1], &request, path[2], path[3], &err), &err);
}

static _Noreturn void run_nodes(struct bench *b)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	all = calloc(b->last - b->first, sizeof(*all));
	if (!all || sd_event_new(&b->event) < 0)
		die("nodes", "out of memory");
	for (uint32_t i = 0; i < b->last - b->first; i++) {
		char cert[64];

		all[i].b = b;
		(void)str_format(all[i].id, sizeof(all[i].id), "node-%05" PRIu32, b->first + i);
		make_certificate(b, all[i].id, cert);
		all[i].tls = load(b, cert);
		all[i].client = connect_with(b, all[i].tls);
	}
	begin_more(b);
	_exit(sd_event_loop(b->event) < 0);
}

/* --- an operator's calls --- */

struct one_call {
	uint64_t due_us; /* when it was to be made: a call that had to wait for another is not flattered */
	struct calls *calls;
};

struct calls {
	struct rpc_client *client;
	struct one_call call[CALLS_MAX];
	double ms[CALLS_MAX];
	size_t n, n_done, n_failed;
	double first_ms; /* from the begin to the first answer */
	uint64_t begin_us;
};

static void on_done(enum status status, const ProtobufCMessage *response, const struct error *err,
		    void *userdata)
{
	const struct one_call *call = userdata;
	struct calls *calls = call->calls;
	uint64_t now = clock_monotonic_us();

	calls->n_failed += status != STATUS_OK && status != STATUS_NOT_FOUND;
	if (calls->n_done == 0)
		calls->first_ms = (double)(now - calls->begin_us) / (double)USEC_PER_MSEC;
	calls->ms[calls->n_done++] = (double)(now - call->due_us) / (double)USEC_PER_MSEC;
}

static void call_once(struct calls *calls, uint64_t due_us)
{
	Holdfast__V1__GetNodeRequest request = HOLDFAST__V1__GET_NODE_REQUEST__INIT;
	struct one_call *call = &calls->call[calls->n++];
	char id[] = "node-00000";
	struct rpc_pending *pending;
	struct error err;

	*call = (struct one_call){.due_us = due_us, .calls = calls};
	request.id = id;
	must("call",
	     rpc_client_call(calls->client, &holdfast__v1__nodes__descriptor, "Get", &request.base,
			     TIMEOUT_US, on_done, call, &pending, &err),
	     &err);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Calls at an even rate for @seconds, whether or not those before have been answered. */
static void measure(struct bench *b, const char *name, uint32_t seconds)
{
	static struct calls calls;
	const uint64_t every_us = USEC_PER_SEC / CALLS_PER_S;
	uint64_t due;

	/* sd-event's clock is that of its last turn: before this one, timers would be over when they are
	 * armed */
	(void)sd_event_run(b->event, 0);
	calls = (struct calls){.client = connect_with(b, b->operator_tls), .begin_us = clock_monotonic_us()};
	due = calls.begin_us;
	while (calls.n < seconds * CALLS_PER_S || calls.n_done < calls.n) {
		uint64_t now = clock_monotonic_us();

		for (; calls.n < seconds * CALLS_PER_S && due <= now; due += every_us)
			call_once(&calls, due);
		if (sd_event_run(b->event, due > now ? due - now : UINT64_MAX) < 0)
			die("event loop", "failed");
	}
	qsort(calls.ms, calls.n, sizeof(*calls.ms), compare);
	(void)printf("\"%s_p50_ms\": %.2f, \"%s_p99_ms\": %.2f, \"%s_max_ms\": %.2f, \"%s_first_ms\": %.2f, "
		     "\"%s_failed\": %zu, \"%s_open\": %zu, \"%s_lost\": %zu, ",
		     name, calls.ms[calls.n / 2], name, calls.ms[calls.n * 99 / 100], name,
		     calls.ms[calls.n - 1], name, calls.first_ms, name, calls.n_failed, name,
		     b->shared->n_open, name, b->shared->n_lost);
	(void)fflush(stdout);
	rpc_client_free(calls.client);
}

/* --- attackers --- */

enum { VALUE = 3900, REFERENCES = 8000, HPACK_FRAME = 9 + 3 + 6 + VALUE + REFERENCES };

/* A request whose header block names one large field over and over, with a byte each time; the first one of a
 * connection brings the field. Returns its size. */
static size_t reference_bomb(uint8_t frame[static HPACK_FRAME], uint32_t stream)
{
	static const uint8_t pseudo[] = {0x83, 0x86, 0x84}; /* POST, http, / */
	/* a new field to be indexed: the name x and a value of VALUE bytes */
	static const uint8_t literal[] = {
		0x40, 1, 'x', 0x7f, 0x80 | ((VALUE - 127) & 0x7f), (VALUE - 127) >> 7};
	size_t n = 9 + sizeof(pseudo);

	memcpy(frame + 9, pseudo, sizeof(pseudo));
	if (stream == 1) {
		memcpy(frame + n, literal, sizeof(literal));
		n += sizeof(literal);
		memset(frame + n, 'v', VALUE);
		n += VALUE;
	}
	memset(frame + n, 0x80 | 62, HPACK_FRAME - n);
	n = HPACK_FRAME;
	memcpy(frame, (uint8_t[]){0, (uint8_t)((n - 9) >> 8), (uint8_t)(n - 9), 1, 5}, 5);
	for (int i = 0; i < 4; i++)
		frame[5 + i] = (uint8_t)(stream >> (24 - 8 * i));
	return n;
}

static SSL *connect_stranger(const struct bench *b, SSL_CTX *ctx)
{
	const struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_port = htons(b->port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
	const int on = 1;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	SSL *ssl = SSL_new(ctx);

	if (fd < 0 || !ssl)
		die("attack", "no socket");
	while (connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0)
		(void)usleep(1000);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)SSL_set_fd(ssl, fd);
	return ssl;
}

/* One connection, until the server ends it. */
static void attack_once(const struct bench *b, SSL_CTX *ctx)
{
	static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
	static uint8_t frame[HPACK_FRAME];
	SSL *ssl = connect_stranger(b, ctx);
	uint64_t begin_us, up_us;

	if (SSL_connect(ssl) == 1 && SSL_write(ssl, preface, sizeof(preface) - 1) > 0) {
		begin_us = clock_monotonic_us();
		for (uint32_t stream = 1;; stream += 2)
			if (SSL_write(ssl, frame, (int)reference_bomb(frame, stream)) <= 0)
				break;
		up_us = clock_monotonic_us() - begin_us;
		(void)__atomic_add_fetch(&b->shared->attack_us, up_us, __ATOMIC_RELAXED);
		if (up_us > b->shared->attack_longest_us) /* a race of attackers costs a figure at most */
			b->shared->attack_longest_us = up_us;
		(void)__atomic_add_fetch(&b->shared->n_attacks, 1, __ATOMIC_RELAXED);
	}
	(void)close(SSL_get_fd(ssl));
	SSL_free(ssl);
}

static _Noreturn void run_attacker(const struct bench *b)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	static const unsigned char h2[] = "\x02h2";

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)signal(SIGPIPE, SIG_IGN);
	if (!ctx || SSL_CTX_set_alpn_protos(ctx, h2, sizeof(h2) - 1) != 0)
		die("attack", "no TLS");
	for (;;)
		attack_once(b, ctx);
}

static void measure_attack(struct bench *b)
{
	const struct shared *shared = b->shared;
	pid_t attackers[ATTACKERS];
	size_t n;

	for (int i = 0; i < ATTACKERS; i++) {
		attackers[i] = fork();
		if (attackers[i] == 0)
			run_attacker(b);
	}
	measure(b, "attack", ATTACK_S);
	for (int i = 0; i < ATTACKERS; i++) {
		(void)kill(attackers[i], SIGKILL);
		(void)waitpid(attackers[i], NULL, 0);
	}
	n = shared->n_attacks ? shared->n_attacks : 1;
	(void)printf("\"attackers\": %d, \"attack_ended\": %zu, \"attack_ended_ms\": %.1f, "
		     "\"attack_ended_longest_ms\": %.1f, ",
		     ATTACKERS, shared->n_attacks, (double)shared->attack_us / (double)n / 1e3,
		     (double)shared->attack_longest_us / 1e3);
	(void)fflush(stdout);
}

static void open_all(struct bench *b)
{
	uint64_t begin = clock_monotonic_us();

	for (uint32_t i = 0; i < SHARDS; i++) {
		b->first = (uint32_t)((uint64_t)b->sessions * i / SHARDS);
		b->last = (uint32_t)((uint64_t)b->sessions * (i + 1) / SHARDS);
		b->nodes[i] = fork();
		if (b->nodes[i] == 0)
			run_nodes(b);
	}
	measure(b, "opening", QUIET_S);
	while (b->shared->n_open < b->sessions) {
		(void)usleep(100000);
		if (clock_monotonic_us() - begin > OPEN_MAX_S * USEC_PER_SEC)
			die("sessions", "do not open");
	}
	(void)printf("\"open_s\": %.1f, \"heartbeat_ms\": %" PRIu32 ", ",
		     (double)(clock_monotonic_us() - begin) / (double)USEC_PER_SEC, b->shared->heartbeat_ms);
	(void)fflush(stdout);
}

int main(int argc, char **argv)
{
	struct bench b = {.sessions = SESSIONS, .pause_s = PAUSE_S};
	struct dev_options options = {.dir = argc > 1 ? argv[1] : NULL, .cluster = "bench"};
	struct error err;

	if ((argc != 2 && argc != 4) || (argc == 4 && (parse_u32(argv[2], 1, 16000, &b.sessions) < 0 ||
						       parse_u32(argv[3], 0, 600, &b.pause_s) < 0))) {
		(void)fputs("usage: bench_sessions FOLDER [SESSIONS PAUSE_S]\n", stderr);
		return 2;
	}
	log_init("bench-sessions", LOG_ERR);
	raise_files();
	b.dir = argv[1];
	b.shared = mmap(NULL, sizeof(*b.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (b.shared == MAP_FAILED)
		die("memory", "cannot be shared");
	must("prepare", dev_prepare(&options, &b.config, &err), &err);
	start_server(&b);
	b.operator_tls = load(&b, "operator");
	if (sd_event_new(&b.event) < 0)
		die("event loop", "cannot be made");
	(void)printf("{\"sessions\": %" PRIu32 ", \"pause_s\": %" PRIu32 ", ", b.sessions, b.pause_s);
	measure(&b, "quiet", QUIET_S);
	open_all(&b);
	measure(&b, "steady", STEADY_S);
	measure_attack(&b);
	(void)kill(b.server, SIGSTOP);
	(void)sleep(b.pause_s);
	(void)kill(b.server, SIGCONT);
	measure(&b, "after", AFTER_S);
	(void)printf("\"end\": 0}\n");
	for (int i = 0; i < SHARDS; i++) {
		(void)kill(b.nodes[i], SIGKILL);
		(void)waitpid(b.nodes[i], NULL, 0);
	}
	(void)kill(b.server, SIGKILL);
	(void)waitpid(b.server, NULL, 0);
	return 0;
}

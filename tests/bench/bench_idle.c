/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the server per idle connection: TLS with a certificate, and one open stream that has carried a
 * message of a few KiB each way. The clients live in another process. */

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "rpc/client.h"
#include "rpc/pki.h"
#include "rpc/server.h"

#include <holdfast/v1/nodes.pb-c.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SESSIONS = 500, TEXT = 8000 };

#define URI "holdfast://bench/node/n1"

/* What the server says of itself, through a pipe. */
struct sample {
	size_t heap;
	size_t resident;
	size_t connections;
	size_t streams;
};

struct bench {
	char dir[32];
	sd_event *event;
	struct rpc_server *server;
	size_t n_messages;
};

static void must(const char *what, enum status status, const struct error *err)
{
	if (status == STATUS_OK)
		return;
	(void)fprintf(stderr, "%s: %s\n", what, err->msg);
	exit(1);
}

static const char *in_dir(const struct bench *bench, const char *name)
{
	static char paths[4][64];
	static unsigned int next;
	char *path = paths[next++ % 4];

	(void)str_format(path, sizeof(paths[0]), "%s/%s", bench->dir, name);
	return path;
}

static size_t resident_bytes(void)
{
	unsigned long total = 0;
	unsigned long resident = 0;
	cleanup_fclose FILE *file = fopen("/proc/self/statm", "re");

	if (!file ||
	    fscanf(file, "%lu %lu", &total, &resident) != 2) // NOLINT(cert-err34-c): the kernel's own
		exit(1);
	return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static void on_gone(struct rpc_call *call, void *userdata)
{
}

static void answer(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	Holdfast__V1__SessionDown down;
	Holdfast__V1__SessionWelcome welcome;
	struct error err;
	char text[TEXT];

	holdfast__v1__session_down__init(&down);
	holdfast__v1__session_welcome__init(&welcome);
	memset(text, 's', sizeof(text));
	text[TEXT - 1] = '\0';
	welcome.server_version = text;
	down.message_case = HOLDFAST__V1__SESSION_DOWN__MESSAGE_WELCOME;
	down.welcome = &welcome;
	must("answer", rpc_call_send(call, &down.base, &err), &err);
}

static const struct rpc_stream_handlers handlers = {.on_message = answer, .on_closed = on_gone};
static const struct rpc_method methods[] = {{.name = "Session", .stream = &handlers}};
static const struct rpc_service services[] = {{&holdfast__v1__nodes__descriptor, methods, 1}};

static struct rpc_tls *load(const struct bench *bench, const char *cert, const char *key)
{
	const struct rpc_tls_files files = {
		.ca = in_dir(bench, "ca.crt"), .cert = in_dir(bench, cert), .key = in_dir(bench, key)};
	struct rpc_tls *tls = NULL;
	struct error err;

	must("load certificates", rpc_tls_new(&files, &tls, &err), &err);
	return tls;
}

/* Asked by one byte; without a word left the process ends. */
static int on_asked(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	const struct bench *bench = userdata;
	const struct rpc_server_stats stats = rpc_server_stats(bench->server);
	struct sample sample = {.connections = stats.connections, .streams = stats.streams};
	char byte;

	if (read(fd, &byte, 1) != 1)
		exit(0);
	sample.heap = mallinfo2().uordblks + mallinfo2().hblkhd;
	(void)malloc_trim(0);
	sample.resident = resident_bytes();
	if (write(fd, &sample, sizeof(sample)) != sizeof(sample))
		exit(1);
	return 0;
}

/* The server's process; says its port first. */
static _Noreturn void serve(struct bench *bench, int fd)
{
	const struct rpc_server_limits limits = {.per_identity = SESSIONS, .per_address = SESSIONS};
	struct error err;
	uint16_t port = 0;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (sd_event_new(&bench->event) < 0 ||
	    sd_event_add_io(bench->event, NULL, fd, EPOLLIN, on_asked, bench) < 0)
		exit(1);
	must("make a server", rpc_server_new(bench->event, services, 1, &limits, bench, &bench->server, &err),
	     &err);
	must("listen",
	     rpc_server_listen_tls(bench->server, "127.0.0.1", 0, load(bench, "server.crt", "server.key"),
				   &port, &err),
	     &err);
	if (write(fd, &port, sizeof(port)) != sizeof(port))
		exit(1);
	exit(sd_event_loop(bench->event) < 0);
}

static struct sample ask(int fd)
{
	struct sample sample = {.heap = 0};

	if (write(fd, "?", 1) != 1 || read(fd, &sample, sizeof(sample)) != sizeof(sample))
		exit(1);
	return sample;
}

static void on_message(struct rpc_stream *stream, const ProtobufCMessage *message, void *userdata)
{
	struct bench *bench = userdata;

	bench->n_messages++;
}

static void on_closed(struct rpc_stream *stream, enum status status, const struct error *err, void *userdata)
{
	must("session", status, err);
}

static const struct rpc_stream_events events = {.on_message = on_message, .on_closed = on_closed};

static void open_session(struct bench *bench, const struct rpc_endpoint *endpoint)
{
	Holdfast__V1__SessionHello hello;
	Holdfast__V1__SessionUp up;
	struct rpc_client *client = NULL; /* lives as long as the program */
	struct rpc_stream *stream = NULL;
	size_t before = bench->n_messages;
	struct error err;
	char text[TEXT];

	holdfast__v1__session_hello__init(&hello);
	holdfast__v1__session_up__init(&up);
	memset(text, 'c', sizeof(text));
	text[TEXT - 1] = '\0';
	hello.kernel = text;
	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_HELLO;
	up.hello = &hello;
	must("make a client", rpc_client_new(bench->event, endpoint, &client, &err), &err);
	must("open a session",
	     rpc_stream_open(client, &holdfast__v1__nodes__descriptor, "Session", 10 * USEC_PER_SEC, &events,
			     bench, &stream, &err),
	     &err);
	must("say hello", rpc_stream_send(stream, &up.base, &err), &err);
	while (bench->n_messages == before)
		if (sd_event_run(bench->event, UINT64_MAX) < 0)
			exit(1);
}

static void make_certs(struct bench *bench)
{
	static const char *const address[] = {"127.0.0.1"};
	struct pki_cert_request request = {
		.uri = "holdfast://bench/server/s1", .ip_addresses = address, .n_ip_addresses = 1, .days = 1};
	struct error err;

	must("make a CA", pki_make_ca(in_dir(bench, "ca.key"), in_dir(bench, "ca.crt"), "bench", &err), &err);
	request.common_name = "server";
	must("issue",
	     pki_issue(in_dir(bench, "ca.key"), in_dir(bench, "ca.crt"), &request,
		       in_dir(bench, "server.key"), in_dir(bench, "server.crt"), &err),
	     &err);
	request.uri = URI;
	request.common_name = "n1";
	must("issue",
	     pki_issue(in_dir(bench, "ca.key"), in_dir(bench, "ca.crt"), &request, in_dir(bench, "n1.key"),
		       in_dir(bench, "n1.crt"), &err),
	     &err);
}

static void remove_dir(const struct bench *bench)
{
	static const char *const names[] = {"ca.key",	  "ca.crt", "server.key",
					    "server.crt", "n1.key", "n1.crt"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		(void)unlink(in_dir(bench, names[i]));
	(void)rmdir(bench->dir);
}

static void measure(struct bench *bench, int fd)
{
	struct rpc_endpoint endpoint = {.host = "127.0.0.1"};
	struct sample warm;
	struct sample full;

	if (read(fd, &endpoint.port, sizeof(endpoint.port)) != sizeof(endpoint.port) ||
	    sd_event_new(&bench->event) < 0)
		exit(1);
	endpoint.tls = load(bench, "n1.crt", "n1.key");
	open_session(bench, &endpoint); /* what the first one costs alone is not counted */
	warm = ask(fd);
	for (int i = 1; i < SESSIONS; i++)
		open_session(bench, &endpoint);
	full = ask(fd);
	(void)printf("%d idle sessions, %zu connections, %zu streams\n", SESSIONS, full.connections,
		     full.streams);
	(void)printf("heap in use    %8zu bytes a session\n", (full.heap - warm.heap) / (SESSIONS - 1));
	(void)printf("resident       %8zu bytes a session\n",
		     (full.resident - warm.resident) / (SESSIONS - 1));
}

int main(void)
{
	struct bench bench = {.dir = "/tmp/holdfast-bench-XXXXXX"};
	const struct rlimit files = {.rlim_cur = 4096, .rlim_max = 4096};
	int fds[2];
	pid_t pid;

	if (!mkdtemp(bench.dir) || setrlimit(RLIMIT_NOFILE, &files) < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return 1;
	make_certs(&bench);
	pid = fork();
	if (pid == 0) {
		(void)close(fds[0]);
		serve(&bench, fds[1]);
	}
	(void)close(fds[1]);
	measure(&bench, fds[0]);
	(void)close(fds[0]);
	(void)waitpid(pid, NULL, 0);
	remove_dir(&bench);
	return 0;
}

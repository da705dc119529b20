/* SPDX-License-Identifier: Apache-2.0 */
/* Our side of the tests with gRPC peers of other makes.
 *
 * interop certs DIR            make a CA and certificates for both sides
 * interop serve DIR            serve DIR/c.sock, and TLS on a port that is printed, until SIGTERM; then say
 * how many calls of each method ended how interop call DIR PORT        check the server at DIR/js.sock and at
 * PORT with TLS */

#include "test_service.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/str.h"
#include "holdfast/v1/nodes.pb-c.h"
#include "holdfast/v1/volumes.pb-c.h"
#include "rpc/client.h"
#include "rpc/pki.h"
#include "rpc/server.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-event.h>

#define SERVER_URI "holdfast://interop/server/s1"
#define NODE_URI "holdfast://interop/node/n1"
#define MISSING_TEXT "volume \"missing\" is 100% away\nna\xc3\xafve"

enum { PATH_SIZE = 256, HUGE_BYTES = 3000000, SESSION_MESSAGES = 200, HELD_MAX = 16 };
static const uint64_t CALL_US = 10 * USEC_PER_SEC;

static const char *in_dir(const char *dir, const char *name)
{
	static char paths[8][PATH_SIZE];
	static size_t next;
	char *path = paths[next++ % ARRAY_SIZE(paths)];

	if (str_format(path, PATH_SIZE, "%s/%s", dir, name) < 0) {
		(void)fprintf(stderr, "interop: the folder's name is too long\n");
		exit(2);
	}
	return path;
}

static void check(enum status status, const struct error *err)
{
	if (status == STATUS_OK)
		return;
	(void)fprintf(stderr, "interop: %s\n", err->msg);
	exit(1);
}

/* ---- certificates ---- */

static void issue(const char *dir, const char *key, const char *cert, const char *uri)
{
	static const char *const names[] = {"localhost"};
	static const char *const addresses[] = {"127.0.0.1"};
	const struct pki_cert_request request = {
		.uri = uri,
		.common_name = "interop",
		.dns_names = names,
		.n_dns_names = ARRAY_SIZE(names),
		.ip_addresses = addresses,
		.n_ip_addresses = ARRAY_SIZE(addresses),
		.days = 1,
	};
	struct error err;

	check(pki_issue(in_dir(dir, "ca.key"), in_dir(dir, "ca.crt"), &request, in_dir(dir, key),
			in_dir(dir, cert), &err),
	      &err);
}

static int make_certs(const char *dir)
{
	struct error err;

	check(pki_make_ca(in_dir(dir, "ca.key"), in_dir(dir, "ca.crt"), "interop", &err), &err);
	issue(dir, "server.key", "server.crt", SERVER_URI);
	issue(dir, "node.key", "node.crt", NODE_URI);
	return 0;
}

static struct rpc_tls *load(const char *dir, const char *key, const char *cert)
{
	struct rpc_tls *tls = NULL;
	struct error err;

	check(rpc_tls_new(&(struct rpc_tls_files){.ca = in_dir(dir, "ca.crt"),
						  .cert = in_dir(dir, cert),
						  .key = in_dir(dir, key)},
			  &tls, &err),
	      &err);
	return tls;
}

/* ---- the server ---- */

/* Calls whose deadlines are tested; they are answered when nobody waits any more. */
struct held {
	struct rpc_call *calls[HELD_MAX];
	size_t n;
};

/* What the handlers see. */
struct site {
	struct rpc_server *server;
	struct held held;
};

/* The number of streams that are open: what a client has cancelled must not stay. */
static char *count_streams(const struct site *site)
{
	char text[32];

	(void)str_format(text, sizeof(text), "%zu", rpc_server_stats(site->server).streams);
	return strdup(text);
}

static void answer(struct rpc_call *call, const struct site *site, const char *id)
{
	Holdfast__V1__GetVolumeResponse response = HOLDFAST__V1__GET_VOLUME_RESPONSE__INIT;
	Holdfast__V1__Volume volume = HOLDFAST__V1__VOLUME__INIT;
	cleanup_free char *why = NULL;

	if (str_eq(id, "huge")) {
		why = calloc(1, HUGE_BYTES + 1);
		if (why)
			response.why = memset(why, 'w', HUGE_BYTES);
	} else if (str_eq(id, "whoami")) {
		why = strdup(rpc_call_peer(call)->uri);
		response.why = why;
	} else if (str_eq(id, "token") && rpc_call_token(call)) {
		why = strdup(rpc_call_token(call));
		response.why = why;
	} else if (str_eq(id, "streams")) {
		why = count_streams(site);
		response.why = why;
	}
	volume.id = (char *)(uintptr_t)(strlen(id) > 64 ? "long" : id);
	response.volume = &volume;
	rpc_call_reply(call, &response.base);
}

/* What comes with an error for programs: the request itself, as bytes of every kind. */
static void fail_with_details(struct rpc_call *call, const ProtobufCMessage *request)
{
	struct error err;

	(void)error_set(&err, STATUS_FAILED_PRECONDITION, 0, "see the details");
	rpc_call_fail_details(call, &err, request);
}

static void on_get(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	struct site *site = userdata;
	struct held *held = &site->held;
	const Holdfast__V1__GetVolumeRequest *request = (const Holdfast__V1__GetVolumeRequest *)message;
	struct error err;

	if (str_eq(request->id, "missing")) {
		(void)error_set(&err, STATUS_NOT_FOUND, 0, "%s", MISSING_TEXT);
		rpc_call_fail(call, &err);
	} else if (str_eq(request->id, "hold") && held->n < HELD_MAX) {
		held->calls[held->n++] = call;
	} else if (str_eq(request->namespace_, "details")) {
		fail_with_details(call, message);
	} else {
		answer(call, site, request->id);
	}
}

static void on_message(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	const Holdfast__V1__SessionUp *up = (const Holdfast__V1__SessionUp *)message;
	Holdfast__V1__SessionDown down = HOLDFAST__V1__SESSION_DOWN__INIT;
	Holdfast__V1__SessionWelcome welcome = HOLDFAST__V1__SESSION_WELCOME__INIT;
	struct error err;

	if (str_eq(up->heartbeat->boot_id, "finish")) {
		rpc_call_finish(call);
		return;
	}
	(void)error_set(&err, STATUS_ABORTED, 0, "as you wish");
	welcome.server_version = up->heartbeat->boot_id;
	down.message_case = HOLDFAST__V1__SESSION_DOWN__MESSAGE_WELCOME;
	down.welcome = &welcome;
	if (str_eq(up->heartbeat->boot_id, "fail") || rpc_call_send(call, &down.base, &err) != STATUS_OK)
		rpc_call_fail(call, &err);
}

static void on_closed(struct rpc_call *call, void *userdata)
{
}

static int on_term(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	return sd_event_exit(sd_event_source_get_event(source), 0);
}

static void print_count(const char *service, const char *method, enum status status, uint64_t n,
			void *userdata)
{
	(void)printf("count %s %s %s %" PRIu64 "\n", service, method, status_name(status), n);
}

static int serve(const char *dir)
{
	static const struct rpc_stream_handlers session = {.on_message = on_message, .on_closed = on_closed};
	static const struct rpc_method volumes[] = {{.name = "Get", .unary = on_get}};
	static const struct rpc_method nodes[] = {{.name = "Session", .stream = &session}};
	const struct rpc_service services[] = {
		{&holdfast__v1__volumes__descriptor, volumes, ARRAY_SIZE(volumes)},
		{&holdfast__v1__nodes__descriptor, nodes, ARRAY_SIZE(nodes)},
		test_service,
	};
	struct rpc_tls *tls = load(dir, "server.key", "server.crt");
	sd_event *event = NULL;
	struct site site = {.server = NULL};
	uint16_t port = 0;
	struct error err;
	sigset_t term;

	(void)sigemptyset(&term);
	(void)sigaddset(&term, SIGTERM);
	(void)sigprocmask(SIG_BLOCK, &term, NULL);
	if (sd_event_new(&event) < 0 || sd_event_add_signal(event, NULL, SIGTERM, on_term, NULL) < 0)
		return 1;
	check(rpc_server_new(event, services, ARRAY_SIZE(services), NULL, &site, &site.server, &err), &err);
	check(rpc_server_listen_unix(site.server, in_dir(dir, "c.sock"), 0600, &err), &err);
	check(rpc_server_listen_tls(site.server, "127.0.0.1", 0, tls, &port, &err), &err);
	(void)printf("ready %u\n", port);
	(void)fflush(stdout);
	(void)sd_event_loop(event);
	rpc_server_each_count(site.server, print_count, NULL);
	rpc_server_free(site.server);
	while (site.held.n > 0)
		answer(site.held.calls[--site.held.n], &site, "too late");
	rpc_tls_free(tls);
	(void)sd_event_unref(event);
	return 0;
}

/* ---- the client ---- */

struct peer {
	const char *name;
	sd_event *event;
	struct rpc_client *client;
	size_t n_failed;
};

static void report(struct peer *peer, const char *what, bool ok, const struct error *err)
{
	(void)printf("%s us to grpc-js, %s: %s%s%s\n", ok ? "ok     " : "FAILED ", peer->name, what,
		     ok ? "" : ": ", ok ? "" : err->msg);
	peer->n_failed += !ok;
}

static enum status get(struct peer *peer, const char *id, uint64_t timeout_us,
		       Holdfast__V1__GetVolumeResponse **ret, struct error *err)
{
	Holdfast__V1__GetVolumeRequest request = HOLDFAST__V1__GET_VOLUME_REQUEST__INIT;
	ProtobufCMessage *response = NULL;
	enum status status;

	*err = (struct error){.status = STATUS_OK};
	request.id = (char *)(uintptr_t)id;
	status = rpc_client_call_sync(peer->client, &holdfast__v1__volumes__descriptor, "Get", &request.base,
				      timeout_us, &response, err);
	*ret = (Holdfast__V1__GetVolumeResponse *)response;
	return status;
}

static void responsep(Holdfast__V1__GetVolumeResponse **response)
{
	if (*response)
		holdfast__v1__get_volume_response__free_unpacked(*response, NULL);
}

static void check_unary(struct peer *peer)
{
	cleanup(responsep) Holdfast__V1__GetVolumeResponse *db = NULL;
	cleanup(responsep) Holdfast__V1__GetVolumeResponse *huge = NULL;
	Holdfast__V1__GetVolumeResponse *none = NULL;
	struct error err;
	enum status status;

	status = get(peer, "db", CALL_US, &db, &err);
	report(peer, "a unary call", status == STATUS_OK && str_eq(db->volume->id, "db"), &err);
	status = get(peer, "huge", CALL_US, &huge, &err);
	report(peer, "an answer of 3 MB", status == STATUS_OK && strlen(huge->why) == HUGE_BYTES, &err);
	status = get(peer, "missing", CALL_US, &none, &err);
	report(peer, "an error with odd characters",
	       status == STATUS_NOT_FOUND && str_eq(err.msg, MISSING_TEXT), &err);
	status = get(peer, "hold", 100 * USEC_PER_MSEC, &none, &err);
	report(peer, "a deadline", status == STATUS_DEADLINE_EXCEEDED, &err);
}

static void check_unknown(struct peer *peer)
{
	Holdfast__V1__ListVolumesRequest request = HOLDFAST__V1__LIST_VOLUMES_REQUEST__INIT;
	ProtobufCMessage *none = NULL;
	struct error err = {.status = STATUS_OK};
	enum status status;

	status = rpc_client_call_sync(peer->client, &holdfast__v1__volumes__descriptor, "List", &request.base,
				      CALL_US, &none, &err);
	report(peer, "an unknown method", status == STATUS_UNIMPLEMENTED, &err);
}

struct session {
	bool opened;
	bool closed;
	enum status status;
	struct error err;
	size_t n;
	bool in_order;
};

static void on_session_open(struct rpc_stream *stream, void *userdata)
{
	struct session *session = userdata;

	session->opened = true;
}

static void on_session_message(struct rpc_stream *stream, const ProtobufCMessage *message, void *userdata)
{
	const Holdfast__V1__SessionDown *down = (const Holdfast__V1__SessionDown *)message;
	struct session *session = userdata;
	char expected[32];

	(void)str_format(expected, sizeof(expected), "m%zu", session->n++);
	session->in_order &= str_eq(down->welcome->server_version, expected);
}

static void on_session_closed(struct rpc_stream *stream, enum status status, const struct error *err,
			      void *userdata)
{
	struct session *session = userdata;

	session->closed = true;
	session->status = status;
	if (err)
		session->err = *err;
}

static void send_heartbeat(struct rpc_stream *stream, const char *text)
{
	Holdfast__V1__SessionUp up = HOLDFAST__V1__SESSION_UP__INIT;
	Holdfast__V1__Heartbeat heartbeat = HOLDFAST__V1__HEARTBEAT__INIT;
	struct error err;

	heartbeat.boot_id = (char *)(uintptr_t)text;
	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_HEARTBEAT;
	up.heartbeat = &heartbeat;
	check(rpc_stream_send(stream, &up.base, &err), &err);
}

static struct session run_session(struct peer *peer, size_t n, const char *last)
{
	static const struct rpc_stream_events events = {
		.on_open = on_session_open, .on_message = on_session_message, .on_closed = on_session_closed};
	struct session session = {.in_order = true};
	struct rpc_stream *stream = NULL;
	uint64_t until_us = clock_monotonic_us() + CALL_US;
	struct error err;

	check(rpc_stream_open(peer->client, &holdfast__v1__nodes__descriptor, "Session", CALL_US, &events,
			      &session, &stream, &err),
	      &err);
	for (size_t i = 0; i < n; i++) {
		char text[32];

		(void)str_format(text, sizeof(text), "m%zu", i);
		send_heartbeat(stream, text);
	}
	while (!session.closed && session.n < n && clock_monotonic_us() < until_us)
		(void)sd_event_run(peer->event, CALL_US);
	send_heartbeat(stream, last);
	while (!session.closed && clock_monotonic_us() < until_us)
		(void)sd_event_run(peer->event, CALL_US);
	if (!session.closed)
		rpc_stream_cancel(stream);
	return session;
}

static void check_streams(struct peer *peer)
{
	struct session good = run_session(peer, SESSION_MESSAGES, "finish");
	struct session bad = run_session(peer, 1, "fail");

	report(peer, "a stream that the server ends",
	       good.closed && good.status == STATUS_OK && good.opened && good.n == SESSION_MESSAGES &&
		       good.in_order,
	       &good.err);
	report(peer, "a stream that the server fails",
	       bad.closed && bad.status == STATUS_ABORTED && str_eq(bad.err.msg, "as you wish"), &bad.err);
}

static size_t check_peer(sd_event *event, const char *name, const struct rpc_endpoint *endpoint)
{
	struct peer peer = {.name = name, .event = event};
	struct error err;

	check(rpc_client_new(event, endpoint, &peer.client, &err), &err);
	check_unary(&peer);
	check_unknown(&peer);
	check_streams(&peer);
	rpc_client_free(peer.client);
	return peer.n_failed;
}

static int call(const char *dir, uint16_t port)
{
	struct rpc_tls *tls = load(dir, "node.key", "node.crt");
	const struct rpc_endpoint unix_endpoint = {.unix_path = in_dir(dir, "js.sock")};
	const struct rpc_endpoint tls_endpoint = {
		.host = "127.0.0.1", .port = port, .tls = tls, .server_uri = SERVER_URI};
	sd_event *event = NULL;
	size_t n_failed;

	if (sd_event_new(&event) < 0)
		return 1;
	n_failed = check_peer(event, "unix", &unix_endpoint) + check_peer(event, "TLS", &tls_endpoint);
	rpc_tls_free(tls);
	(void)sd_event_unref(event);
	return n_failed > 0;
}

int main(int argc, char **argv)
{
	uint32_t port = 0;

	if (argc == 3 && str_eq(argv[1], "certs"))
		return make_certs(argv[2]);
	if (argc == 3 && str_eq(argv[1], "serve"))
		return serve(argv[2]);
	if (argc == 4 && str_eq(argv[1], "call") && parse_u32(argv[3], 1, UINT16_MAX, &port) == 0)
		return call(argv[2], (uint16_t)port);
	(void)fprintf(stderr, "usage: interop certs DIR | serve DIR | call DIR PORT\n");
	return 2;
}

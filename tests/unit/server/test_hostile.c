/* SPDX-License-Identifier: Apache-2.0 */
/* What one message of the largest size costs, whatever is in it, by every method; and a node that talks
 * without end beside an operator who works. */

#include "callers.h"
#include "cluster.h"
#include "sample.h"
#include "unit.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "node/session.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/jobs.pb-c.h>
#include <holdfast/v1/nodes.pb-c.h>
#include <holdfast/v1/operator.pb-c.h>
#include <holdfast/v1/plugins.pb-c.h>
#include <holdfast/v1/volumes.pb-c.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	MESSAGE_BYTES = 1000000, /* just below the limit, with its frame */
	DEPTH = 8,
};

static const ProtobufCServiceDescriptor *const services_of[] = {
	&holdfast__v1__volumes__descriptor, &holdfast__v1__plugins__descriptor,
	&holdfast__v1__nodes__descriptor,   &holdfast__v1__allocations__descriptor,
	&holdfast__v1__jobs__descriptor,    &holdfast__v1__operator__descriptor,
};

/* --- what it costs --- */

static size_t peak_kib(void)
{
	cleanup_fclose FILE *f = NON_NULL(fopen("/proc/self/status", "re"));
	char line[256];
	size_t kib = 0;

	while (fgets(line, sizeof(line), f))
		if (str_starts_with(line, "VmHWM:"))
			kib = strtoul(line + strlen("VmHWM:"), NULL, 10);
	return kib;
}

static void reset_peak(void)
{
	cleanup_fclose FILE *f = NULL;

	(void)malloc_trim(0);
	f = fopen("/proc/self/clear_refs", "we");
	if (f)
		(void)fputs("5", f);
}

static uint64_t cpu_ms(void)
{
	struct rusage usage;

	(void)getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
	       (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
}

struct cost {
	struct sample sample; /* of the messages */
	uint64_t n_messages;
	size_t kib;
	uint64_t ms;
	char what[128];
};

static void note(struct cost *worst, size_t kib, uint64_t ms, const char *what)
{
	assert_msg(kib <= COST_KIB_MAX && ms <= COST_MS_MAX, "%s: %zu KiB, %lu ms", what, kib,
		   (unsigned long)ms);
	if (kib <= worst->kib)
		return;
	worst->kib = kib;
	worst->ms = ms;
	(void)str_copy(worst->what, sizeof(worst->what), what);
}

/* --- the messages --- */

struct bytes {
	uint8_t *data; /* owned, MESSAGE_BYTES + some */
	size_t n;
};

static void put_varint(struct bytes *out, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		out->data[out->n++] = (uint8_t)(value | 0x80);
	out->data[out->n++] = (uint8_t)value;
}

static unsigned int wire_type(const ProtobufCFieldDescriptor *field)
{
	switch ((int)field->type) {
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_BYTES:
	case PROTOBUF_C_TYPE_MESSAGE:
		return 2;
	default:
		return 0;
	}
}

enum fill {
	FILL_EMPTY,    /* the field again and again, of no length or 0 */
	FILL_LONG,     /* once, as long as fits */
	FILL_NOT_TEXT, /* the same, not UTF-8 */
	FILL_ONES,     /* numbers: the highest, again and again */
	FILL_N,
};

static void fill_field(struct bytes *out, const ProtobufCFieldDescriptor *field, enum fill fill, size_t room)
{
	size_t end = out->n + room;
	unsigned int type = wire_type(field);

	while (out->n + 16 < end) {
		put_varint(out, field->id << 3 | type);
		if (type == 2 && (fill == FILL_LONG || fill == FILL_NOT_TEXT)) {
			size_t n = end - out->n - 8;

			put_varint(out, n);
			memset(out->data + out->n, fill == FILL_LONG ? 'x' : 0xff, n);
			out->n += n;
			return;
		}
		put_varint(out, type == 0 && fill == FILL_ONES ? UINT64_MAX : 0);
	}
}

/* Lengths from the inside out, so that they are right. */
static void fix_lengths(struct bytes *out, const ProtobufCFieldDescriptor *const *path, size_t depth)
{
	for (size_t i = depth - 1; i > 0; i--) {
		struct bytes outer = {.data = malloc(out->n + 32)};

		assert_non_null(outer.data);
		put_varint(&outer, path[i - 1]->id << 3 | 2);
		put_varint(&outer, out->n);
		memcpy(outer.data + outer.n, out->data, out->n);
		outer.n += out->n;
		memcpy(out->data, outer.data, outer.n);
		out->n = outer.n;
		free(outer.data);
	}
}

static void call_with(struct fixture *f, const ProtobufCServiceDescriptor *service,
		      const ProtobufCMethodDescriptor *method, struct bytes *bytes, struct cost *worst,
		      const char *what)
{
	/* the client knows no field: what is sent are these bytes */
	ProtobufCMessage *request = NON_NULL(calloc(1, method->input->sizeof_message));
	uint64_t before_ms;
	size_t after, before;
	char name[128];

	method->input->message_init(request);
	request->n_unknown_fields = 1;
	request->unknown_fields = NON_NULL(calloc(1, sizeof(ProtobufCMessageUnknownField)));
	/* a field's tag is written before its bytes: the first one is cut off and given as such */
	request->unknown_fields[0].tag = bytes->data[0] >> 3;
	request->unknown_fields[0].wire_type = bytes->data[0] & 7;
	request->unknown_fields[0].data = bytes->data + 1;
	request->unknown_fields[0].len = bytes->n - 1;
	reset_peak();
	before = peak_kib();
	before_ms = cpu_ms();
	(void)call(&f->operator, service, method->name, request, NULL, NULL);
	(void)snprintf(name, sizeof(name), "%s.%s %s", service->short_name, method->name, what);
	after = peak_kib();
	/* memory freed in between makes it less than it was */
	note(worst, after > before ? after - before : 0, cpu_ms() - before_ms, name);
	free(request->unknown_fields);
	free(request);
}

static void attack_fields(struct fixture *f, const ProtobufCServiceDescriptor *service,
			  const ProtobufCMethodDescriptor *method, const ProtobufCMessageDescriptor *type,
			  const ProtobufCFieldDescriptor **path, size_t depth, struct bytes *bytes,
			  struct cost *worst)
{
	for (unsigned int i = 0; i < type->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &type->fields[i];

		path[depth] = field;
		if (depth == 0 ? field->id > 15 : field->id > 2000)
			continue;
		for (enum fill fill = 0; fill < FILL_N; fill++) {
			if (wire_type(field) == 2 ? fill == FILL_ONES
						  : fill == FILL_LONG || fill == FILL_NOT_TEXT)
				continue;
			if (field->type == PROTOBUF_C_TYPE_MESSAGE && fill != FILL_EMPTY)
				continue;
			if (!sample_has(&worst->sample, worst->n_messages++))
				continue;
			bytes->n = 0;
			fill_field(bytes, field, fill, MESSAGE_BYTES - 16 * DEPTH);
			fix_lengths(bytes, path, depth + 1);
			call_with(f, service, method, bytes, worst, field->name);
		}
		if (field->type == PROTOBUF_C_TYPE_MESSAGE && depth + 1 < 2)
			attack_fields(f, service, method, field->descriptor, path, depth + 1, bytes, worst);
	}
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup, teardown)

CASE(one_message_costs_bounded_memory_and_time)
{
	struct bytes bytes = {.data = malloc(MESSAGE_BYTES + 256)};
	const ProtobufCFieldDescriptor *path[DEPTH];
	struct cost worst = {.sample = sample_of_environment()};

	assert_non_null(bytes.data);
	take_volume(f);
	for (size_t i = 0; i < ARRAY_SIZE(services_of); i++)
		for (unsigned int k = 0; k < services_of[i]->n_methods; k++) {
			const ProtobufCMethodDescriptor *method = &services_of[i]->methods[k];

			if (str_eq(method->name, "Session") || str_eq(method->name, "Watch"))
				continue;
			attack_fields(f, services_of[i], method, method->input, path, 0, &bytes, &worst);
		}
	(void)fprintf(stderr, "worst: %s, %zu KiB, %lu ms\n", worst.what, worst.kib, (unsigned long)worst.ms);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	free(bytes.data);
}

/* --- a node that talks without end --- */

/* The latency is of processor time: nothing sleeps long enough for the clock to jump. */
enum { CALLS = 48, LATENCY_US_MAX = 2 * USEC_PER_SEC };

enum flood { RECEIPTS, STATUSES, FINGERPRINTS, HEARTBEATS, REPLIES, REPORTS, HELLOS, NO_READING, FLOODS };

static const char *const flood_names[FLOODS] = {
	[RECEIPTS] = "receipts",     [STATUSES] = "statuses",	 [FINGERPRINTS] = "fingerprints",
	[HEARTBEATS] = "heartbeats", [REPLIES] = "replies",	 [REPORTS] = "reports",
	[HELLOS] = "hellos",	     [NO_READING] = "no reading"};

/* In a process of its own, so that what is measured is the server; there nothing is asserted. */
struct flooder {
	struct rpc_stream *stream; /* NULL: closed */
};

static void on_flood_message(struct rpc_stream *stream, const ProtobufCMessage *message, void *userdata)
{
}

static void on_flood_closed(struct rpc_stream *stream, enum status status, const struct error *err,
			    void *userdata)
{
	((struct flooder *)userdata)->stream = NULL;
}

static bool send_up(struct flooder *flooder, const Holdfast__V1__SessionUp *up)
{
	return flooder->stream && rpc_stream_send(flooder->stream, &up->base, NULL) == STATUS_OK;
}

static bool send_hello(struct flooder *flooder, struct rpc_client *client)
{
	static const struct rpc_stream_events events = {.on_message = on_flood_message,
							.on_closed = on_flood_closed};
	Holdfast__V1__SessionHello hello = HOLDFAST__V1__SESSION_HELLO__INIT;
	Holdfast__V1__SessionUp up = HOLDFAST__V1__SESSION_UP__INIT;

	if (rpc_stream_open(client, &holdfast__v1__nodes__descriptor, "Session", TIMEOUT_US, &events, flooder,
			    &flooder->stream, NULL) != STATUS_OK)
		return false;
	hello.node_id = "n2";
	hello.boot_id = BOOT_1;
	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_HELLO;
	up.hello = &hello;
	return send_up(flooder, &up);
}

static bool say(struct flooder *flooder, enum flood kind, unsigned int i)
{
	Holdfast__V1__SessionUp up = HOLDFAST__V1__SESSION_UP__INIT;
	Holdfast__V1__ClaimReceipt receipt = HOLDFAST__V1__CLAIM_RECEIPT__INIT;
	Holdfast__V1__AllocStatus status = HOLDFAST__V1__ALLOC_STATUS__INIT;
	Holdfast__V1__Fingerprint fingerprint = HOLDFAST__V1__FINGERPRINT__INIT;
	Holdfast__V1__Heartbeat heartbeat = HOLDFAST__V1__HEARTBEAT__INIT;
	Holdfast__V1__PluginReply reply = HOLDFAST__V1__PLUGIN_REPLY__INIT;
	Holdfast__V1__NodeReport report = HOLDFAST__V1__NODE_REPORT__INIT;
	Holdfast__V1__NodePlugin plugin = HOLDFAST__V1__NODE_PLUGIN__INIT;
	Holdfast__V1__NodePlugin *plugins[] = {&plugin};

	receipt.claim_id = status.alloc_id = ALLOC_3;
	receipt.boot_id = heartbeat.boot_id = BOOT_1;
	receipt.what_case = HOLDFAST__V1__CLAIM_RECEIPT__WHAT_RELEASED;
	receipt.released = true;
	status.client_status = HOLDFAST__V1__CLIENT_STATUS__COMPLETE;
	plugin.plugin_id = "native";
	plugin.profile = "disk";
	plugin.healthy = i % 2 == 0;
	fingerprint.plugins = plugins;
	fingerprint.n_plugins = 1;
	reply.call_id = i;
	switch (kind) {
	case STATUSES:
		up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_ALLOC;
		up.alloc = &status;
		break;
	case FINGERPRINTS:
		up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_FINGERPRINT;
		up.fingerprint = &fingerprint;
		break;
	case HEARTBEATS:
		up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_HEARTBEAT;
		up.heartbeat = &heartbeat;
		break;
	case REPLIES:
		up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_REPLY;
		up.reply = &reply;
		break;
	case REPORTS:
		up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_REPORT;
		up.report = &report;
		break;
	case HELLOS: /* what begins each of its sessions is all */
		return false;
	case RECEIPTS:
	case NO_READING:
	case FLOODS:
		up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_RECEIPT;
		up.receipt = &receipt;
		break;
	}
	return send_up(flooder, &up);
}

/* As much as gets through, until it is killed. */
static _Noreturn void flood(struct fixture *f, enum flood kind)
{
	struct flooder flooder = {NULL};
	char ca[PATH_MAX], cert[PATH_MAX], key[PATH_MAX];
	const struct rpc_tls_files files = {.ca = ca, .cert = cert, .key = key};
	struct rpc_endpoint endpoint = {.host = "127.0.0.1", .port = f->port};
	struct rpc_client *client = NULL;
	struct rpc_tls *tls = NULL;
	sd_event *event = NULL;
	unsigned int i = 0;

	(void)str_format(ca, sizeof(ca), "%s/tls/ca.pem", f->dir);
	(void)str_format(cert, sizeof(cert), "%s/tls/node-n2.pem", f->dir);
	(void)str_format(key, sizeof(key), "%s/tls/node-n2.key", f->dir);
	if (sd_event_new(&event) < 0 || rpc_tls_new(&files, &tls, NULL) != STATUS_OK)
		_exit(1);
	endpoint.tls = tls;
	if (rpc_client_new(event, &endpoint, &client, NULL) != STATUS_OK)
		_exit(1);
	for (;;) {
		if (!flooder.stream)
			(void)send_hello(&flooder, client);
		for (int turn = 0; turn < 4 && kind == HELLOS; turn++)
			(void)sd_event_run(event, 1000);
		for (int burst = 0; burst < 64; burst++)
			if (!say(&flooder, kind, i++))
				break;
		if (kind == HELLOS && flooder.stream) {
			rpc_stream_cancel(flooder.stream);
			flooder.stream = NULL;
		}
		if (kind != NO_READING || i < 100)
			(void)sd_event_run(event, 0);
	}
}

static uint64_t time_of_a_call(struct fixture *f)
{
	Holdfast__V1__GetVolumeRequest request = V1(get_volume_request, .id = "db");
	uint64_t before = clock_monotonic_us();

	assert_ok(call(&f->operator, & holdfast__v1__volumes__descriptor, "Get", &request.base, NULL, NULL));
	return clock_monotonic_us() - before;
}

CASE(a_node_that_floods_the_server_does_not_keep_others_waiting)
{
	take_volume(f);
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", NULL), STATUS_FAILED_PRECONDITION);
	for (enum flood kind = 0; kind < FLOODS; kind++) {
		uint64_t worst = 0;
		int how = 0;
		pid_t pid = fork();

		assert_true(pid >= 0);
		if (pid == 0)
			flood(f, kind);
		for (int n = 0; n < CALLS; n++) {
			uint64_t took = time_of_a_call(f);

			worst = took > worst ? took : worst;
			if (n % 16 == 0) { /* and writes get through */
				Holdfast__V1__SetEligibilityRequest request =
					HOLDFAST__V1__SET_ELIGIBILITY_REQUEST__INIT;

				request.id = "n1";
				request.eligible = n % 32 == 0;
				assert_ok(call(&f->operator, & holdfast__v1__nodes__descriptor,
					       "SetEligibility", &request.base, NULL, NULL));
			}
			assert_true(state_node(&f->server->state, "n2") == NULL ||
				    state_node(&f->server->state, "n2")->n_pending <
					    SESSION_PENDING_MAX + CHANGE_OBJECTS_MAX);
		}
		(void)kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, &how, 0), pid);
		assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL); /* until then it continued */
		settle(f);
		(void)fprintf(stderr, "%s: the worst of %d calls %lu us\n", flood_names[kind], CALLS,
			      (unsigned long)worst);
		assert_true(worst < LATENCY_US_MAX);
		assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
		assert_true(node_is_connected(state_node(&f->server->state, "n1")));
	}
}

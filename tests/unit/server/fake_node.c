/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_node.h"

#include "unit.h"

#include "base/clock.h"
#include "model/message.h"
#include "model/node.h"

#include <inttypes.h>
#include <limits.h>

#define TIMEOUT_US (30 * USEC_PER_SEC) /* a bound for busy machines; nothing waits for it */

enum { HALF = 32, HALVES_MAX = 64 };

static char halves[HALVES_MAX][HALF + 1];
static size_t n_halves;

static void copy_id(char *dst, const char *src)
{
	assert_int_equal(str_copy(dst, UUID_TEXT_SIZE, src), 0);
}

static void send_up(struct fake_node *node, const Holdfast__V1__SessionUp *up)
{
	assert_non_null(node->stream);
	assert_int_equal(rpc_stream_send(node->stream, &up->base, NULL), STATUS_OK);
}

void fake_node_send_reply(struct fake_node *node, const Holdfast__V1__PluginReply *reply)
{
	Holdfast__V1__SessionUp up = V1(session_up, .message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_REPLY,
					.reply = (Holdfast__V1__PluginReply *)(uintptr_t)reply);

	send_up(node, &up);
}

static void take_call(struct fake_node *node, const Holdfast__V1__PluginCall *call)
{
	struct model_answer answer;

	assert_msg(node->plugin, "the node is asked for what it has not offered");
	node->calls++;
	assert_true(call->call_id > node->last_call_id);
	node->last_call_id = call->call_id;
	assert_string_equal(call->plugin_id, CSI_PLUGIN);
	model_plugin_call(node->plugin, call, &answer);
	for (unsigned int i = 0; i < answer.times && !answer.lose; i++)
		fake_node_send_reply(node, answer.reply);
	if (answer.times == 0) {
		assert_true(node->n_held < FAKE_HELD_MAX);
		node->held[node->n_held++] = answer.reply;
		return;
	}
	protobuf_c_message_free_unpacked(&answer.reply->base, NULL);
	if (answer.lose)
		fake_node_disconnect(node);
}

static void drop_held(struct fake_node *node)
{
	while (node->n_held > 0) {
		protobuf_c_message_free_unpacked(&node->held[--node->n_held]->base, NULL);
		model_plugin_done(node->plugin);
	}
}

void fake_node_answer(struct fake_node *node)
{
	for (size_t i = 0; i < node->n_held; i++)
		fake_node_send_reply(node, node->held[i]);
	drop_held(node);
}

Holdfast__V1__Mark *mark_copy(const Holdfast__V1__Mark *mark)
{
	uint8_t bytes[512];
	Holdfast__V1__Mark *copy;

	assert_true(holdfast__v1__mark__get_packed_size(mark) <= sizeof(bytes));
	copy = NON_NULL(holdfast__v1__mark__unpack(NULL, holdfast__v1__mark__pack(mark, bytes), bytes));
	return copy;
}

static void keep_mark(struct fake_node *node, const Holdfast__V1__Mark *mark)
{
	holdfast__v1__mark__free_unpacked(node->mark, NULL);
	assert_non_null(mark);
	node->mark = mark_copy(mark);
}

static void on_open(struct rpc_stream *stream, void *userdata)
{
	(void)userdata; /* welcome is what the test waits for */
}

static void on_message(struct rpc_stream *stream, const ProtobufCMessage *message, void *userdata)
{
	const Holdfast__V1__SessionDown *down = (const Holdfast__V1__SessionDown *)message;
	struct fake_node *node = userdata;

	/* welcome comes first, and once */
	assert_int_equal(node->welcomed, down->message_case != HOLDFAST__V1__SESSION_DOWN__MESSAGE_WELCOME);
	switch (down->message_case) {
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE_WELCOME:
		node->welcomed = true;
		node->heartbeat_ms = down->welcome->heartbeat_ms;
		node->welcome_clock_ms = down->welcome->clock_ms;
		keep_mark(node, down->welcome->mark);
		if (node->released) /* before a report, as an agent does */
			fake_node_send_released(node, node->released);
		break;
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE_MARK:
		node->marks++;
		keep_mark(node, down->mark);
		break;
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE_RUN:
		node->runs++;
		copy_id(node->last_run, down->run->alloc->id);
		break;
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE_STOP:
		node->stops++;
		copy_id(node->last_stop, down->stop->alloc_id);
		str_copy_text(node->last_stop_namespace, sizeof(node->last_stop_namespace),
			      down->stop->namespace_);
		break;
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE_RECEIPT_ACK:
		node->acks++;
		copy_id(node->last_ack, down->receipt_ack->claim_id);
		node->last_ack_released = down->receipt_ack->released;
		if (node->released && node->last_ack_released && str_eq(node->last_ack, node->released->id))
			node->released = NULL;
		break;
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE_RELEASE:
		node->releases++;
		copy_id(node->last_release, down->release->claim->id);
		str_copy_text(node->last_forced, sizeof(node->last_forced),
			      down->release->claim->plugin_waiver);
		node->last_release_was_freed = down->release->claim->was_freed;
		node->last_release_has_ticket = down->release->ticket.len == sizeof(struct ticket);
		if (node->last_release_has_ticket)
			memcpy(&node->last_release_ticket, down->release->ticket.data, sizeof(struct ticket));
		node->last_release_state = (enum claim_state)down->release->claim->state;
		break;
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE_FORGET:
		node->forgets++;
		str_copy_text(node->last_forget_namespace, sizeof(node->last_forget_namespace),
			      down->forget->namespace_);
		break;
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE_CALL:
		take_call(node, down->call);
		break;
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE_STREAM:
		node->streams_wanted++;
		if (node->stream_wanted)
			holdfast__v1__open_task_stream__free_unpacked(node->stream_wanted, NULL);
		node->stream_wanted =
			(void *)message_convert(down->stream->base.descriptor, &down->stream->base);
		break;
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE_REPORT:
		node->reports_wanted++;
		node->report_epoch = down->report->epoch;
		node->report_is_reverted = down->report->reverted;
		break;
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE__NOT_SET:
	case _HOLDFAST__V1__SESSION_DOWN__MESSAGE__CASE_IS_INT_SIZE:
		fail_msg("an empty message came down");
	}
}

static void on_closed(struct rpc_stream *stream, enum status status, const struct error *err, void *userdata)
{
	struct fake_node *node = userdata;

	node->closed = true;
	node->closed_status = status;
	(void)snprintf(node->closed_message, sizeof(node->closed_message), "%s", err ? err->msg : "");
	for (size_t i = 0; i < n_halves; i++)
		assert_null(strstr(node->closed_message, halves[i]));
	node->stream = NULL;
}

static const struct rpc_stream_events events = {
	.on_open = on_open, .on_message = on_message, .on_closed = on_closed};

void fake_node_init_at(struct fake_node *node, sd_event *event, const char *dir, const char *cert,
		       const struct rpc_address *servers, size_t n)
{
	char ca[PATH_MAX], pem[PATH_MAX], key[PATH_MAX];
	const struct rpc_tls_files files = {.ca = ca, .cert = pem, .key = key};
	struct rpc_endpoint endpoint = {.servers = servers, .n_servers = n};

	*node = (struct fake_node){.event = event};
	(void)str_format(ca, sizeof(ca), "%s/tls/ca.pem", dir);
	(void)str_format(pem, sizeof(pem), "%s/tls/%s.pem", dir, cert);
	(void)str_format(key, sizeof(key), "%s/tls/%s.key", dir, cert);
	assert_int_equal(rpc_tls_new(&files, &node->tls, NULL), STATUS_OK);
	endpoint.tls = node->tls;
	assert_int_equal(rpc_client_new(event, &endpoint, &node->client, NULL), STATUS_OK);
}

void fake_node_init(struct fake_node *node, sd_event *event, const char *dir, const char *cert, uint16_t port)
{
	const struct rpc_address server = {.host = "127.0.0.1", .port = port};

	fake_node_init_at(node, event, dir, cert, &server, 1);
}

void fake_node_release(struct fake_node *node)
{
	drop_held(node);
	holdfast__v1__mark__free_unpacked(node->mark, NULL);
	rpc_stream_cancel(node->stream);
	rpc_client_free(node->client);
	rpc_tls_free(node->tls);
	if (node->stream_wanted)
		holdfast__v1__open_task_stream__free_unpacked(node->stream_wanted, NULL);
	node->stream_wanted = NULL;
}

static void forget_what_came(struct fake_node *node)
{
	node->welcomed = node->closed = node->last_ack_released = false;
	node->runs = node->stops = node->releases = node->acks = node->forgets = 0;
	node->reports_wanted = node->marks = 0;
	node->last_run[0] = node->last_stop[0] = node->last_ack[0] = node->last_release[0] = '\0';
	node->closed_message[0] = '\0';
	node->calls = 0;
	node->last_call_id = 0;
	drop_held(node);
}

/* The node's whole fingerprint, with the memory of its parts. */
struct fingerprint {
	Holdfast__V1__NodePlugin native, csi;
	Holdfast__V1__ControllerHalf controller;
	Holdfast__V1__NodeHalf half;
	Holdfast__V1__FenceClient clients[10], *client_list[10];
	Holdfast__V1__NodePlugin *plugins[2];
	size_t n;
	char native_id[8], profile[8], csi_id[8], provider_node_id[NODE_ID_MAX + 16];
};

static void make_fingerprint(const struct fake_node *node, struct fingerprint *f)
{
	const struct fake_csi *csi = &node->csi;

	*f = (struct fingerprint)ROW(.native = HOLDFAST__V1__NODE_PLUGIN__INIT,
				     .csi = HOLDFAST__V1__NODE_PLUGIN__INIT,
				     .controller = HOLDFAST__V1__CONTROLLER_HALF__INIT,
				     .half = HOLDFAST__V1__NODE_HALF__INIT, .native_id = "native",
				     .profile = "disk", .csi_id = CSI_PLUGIN, .n = 1);
	f->native.plugin_id = f->native_id;
	f->native.profile = f->profile;
	f->native.healthy = true;
	f->plugins[0] = &f->native;
	f->plugins[1] = &f->csi;
	if (!csi->has_node && !csi->has_controller)
		return;
	f->n = 2;
	f->csi.plugin_id = f->csi_id;
	f->csi.healthy = !csi->node_sick;
	f->csi.controller_required = !csi->needs_no_controller;
	f->controller.healthy = !csi->controller_sick;
	f->controller.attach_detach = !csi->cannot_attach;
	f->controller.create_delete = csi->can_create_delete;
	f->controller.readonly_attach = true;
	if (csi->node_id)
		(void)snprintf(f->provider_node_id, sizeof(f->provider_node_id), "%s", csi->node_id);
	else
		(void)snprintf(f->provider_node_id, sizeof(f->provider_node_id), "i-%s", node->id);
	if (!csi->hides_node_id)
		f->half.provider_node_id = f->provider_node_id;
	f->half.expand = f->controller.expand = csi->can_expand;
	f->controller.network_fence = csi->can_fence;
	f->half.fence_clients = f->client_list;
	for (size_t i = 0; i < ARRAY_SIZE(f->clients) && csi->clients[i]; i++) {
		holdfast__v1__fence_client__init(&f->clients[i]);
		f->clients[i].cidr = TEXT(csi->clients[i]); /* only read */
		f->client_list[i] = &f->clients[i];
		f->half.n_fence_clients = i + 1;
	}
	f->csi.controller = csi->has_controller ? &f->controller : NULL;
	f->csi.node = csi->has_node ? &f->half : NULL;
}

/* The fingerprint in @made, which keeps what it points to. */
static Holdfast__V1__Fingerprint fingerprint_of(const struct fake_node *node, struct fingerprint *made)
{
	Holdfast__V1__Fingerprint pb = HOLDFAST__V1__FINGERPRINT__INIT;

	make_fingerprint(node, made);
	pb.plugins = node->plugins ? node->plugins : made->plugins;
	pb.n_plugins = node->plugins ? node->n_plugins : made->n;
	pb.drivers = node->drivers;
	pb.n_drivers = node->n_drivers;
	if (node->certificate_issuer)
		pb.certificate_issuer = (char *)(uintptr_t)node->certificate_issuer;
	return pb;
}

void fake_node_send_fingerprint(struct fake_node *node)
{
	struct fingerprint made;
	Holdfast__V1__Fingerprint fingerprint = fingerprint_of(node, &made);
	Holdfast__V1__SessionUp up =
		V1(session_up, .message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_FINGERPRINT,
		   .fingerprint = &fingerprint);

	fingerprint.ticket_keys = node->ticket_keys;
	send_up(node, &up);
}

void fake_node_open(struct fake_node *node, const char *id, const char *boot_id)
{
	forget_what_came(node);
	assert_int_equal(str_copy(node->id, sizeof(node->id), id), 0);
	copy_id(node->boot_id, boot_id);
	assert_ok(rpc_stream_open(node->client, &holdfast__v1__nodes__descriptor, "Session", TIMEOUT_US,
				  &events, node, &node->stream, NULL));
}

/* The name as a number. */
static void own_machine(const char *id, char ret[static NODE_MACHINE_MAX + 1])
{
	uint32_t number = 0;

	for (const char *at = id; *at != '\0'; at++)
		number = number * 31 + (uint8_t)*at;
	(void)str_format(ret, NODE_MACHINE_MAX + 1, "%032" PRIx32, number);
}

static void note_machine(const char *machine)
{
	for (; strlen(machine) >= HALF; machine += HALF + (machine[HALF] == '+')) {
		size_t i = 0;

		while (i < n_halves && strncmp(halves[i], machine, HALF) != 0)
			i++;
		assert_true(i < HALVES_MAX);
		(void)str_format(halves[i], HALF + 1, "%.*s", HALF, machine);
		n_halves += i == n_halves;
	}
}

void expect_no_machine(const ProtobufCMessage *answer)
{
	cleanup_free uint8_t *bytes = NULL;
	size_t n;

	if (n_halves == 0 || strstr(answer->descriptor->name, "Backup"))
		return;
	n = protobuf_c_message_get_packed_size(answer);
	bytes = malloc(n + 1);
	assert_non_null(bytes);
	(void)protobuf_c_message_pack(answer, bytes);
	for (size_t i = 0; i < n_halves; i++)
		assert_msg(!memmem(bytes, n, halves[i], HALF), "%s shows the machine %s",
			   answer->descriptor->name, halves[i]);
}

void fake_node_greet(struct fake_node *node, const char *id, const char *boot_id,
		     Holdfast__V1__AllocStatus **allocs, size_t n_allocs)
{
	Holdfast__V1__SessionUp up = HOLDFAST__V1__SESSION_UP__INIT;
	Holdfast__V1__SessionHello hello = HOLDFAST__V1__SESSION_HELLO__INIT;
	Holdfast__V1__Fingerprint fingerprint;
	struct fingerprint made;
	char version[256] = "", machine[NODE_MACHINE_MAX + 1] = "";
	Holdfast__V1__MountedClaim mounted = HOLDFAST__V1__MOUNTED_CLAIM__INIT;
	Holdfast__V1__MountedClaim *all_mounted[1] = {&mounted};
	char claim_id[UUID_TEXT_SIZE];

	fake_node_open(node, id, boot_id);
	fingerprint = fingerprint_of(node, &made);
	if (node->agent_version)
		assert_int_equal(str_copy(version, sizeof(version), node->agent_version), 0);
	hello.agent_version = version;
	if (&fake_nodes_have_machines)
		own_machine(id, machine);
	if (node->machine)
		assert_int_equal(str_copy(machine, sizeof(machine), node->machine), 0);
	hello.machine = machine;
	if (!node->shows ||
	    !str_eq(machine, node->shows->machine)) /* else it is a thief with the code of one */
		note_machine(machine);
	fingerprint.ticket_keys = node->ticket_keys;
	hello.clock_ms = clock_realtime_ms() + node->clock_ahead_ms;
	hello.node_id = node->id;
	hello.boot_id = node->boot_id;
	hello.fingerprint = &fingerprint;
	hello.attributes = node->attributes;
	hello.n_attributes = node->n_attributes;
	hello.allocs = allocs;
	hello.n_allocs = n_allocs;
	hello.adoption_complete = true;
	if (node->has) {
		copy_id(claim_id, node->has->id);
		mounted.claim_id = claim_id;
		mounted.generation = node->has->generation;
		hello.mounted = all_mounted;
		hello.n_mounted = 1;
	}
	hello.trail = node->trail;
	hello.mark = (Holdfast__V1__Mark *)(uintptr_t)node->shows; /* only read */
	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_HELLO;
	up.hello = &hello;
	send_up(node, &up);
}

void fake_node_connect(struct fake_node *node, const char *id, const char *boot_id,
		       Holdfast__V1__AllocStatus **allocs, size_t n_allocs)
{
	uint64_t limit = clock_monotonic_us() + TIMEOUT_US;

	fake_node_greet(node, id, boot_id, allocs, n_allocs);
	while (!node->welcomed && !node->closed) {
		int r;

		assert_true(clock_monotonic_us() < limit);
		r = sd_event_run(node->event, 10000);
		if (r == -ESTALE) /* the server has ended its loop, which is this one */
			return;
		assert_true(r >= 0);
	}
}

void fake_node_disconnect(struct fake_node *node)
{
	rpc_stream_cancel(node->stream);
	node->stream = NULL;
}

void fake_node_send_heartbeat(struct fake_node *node)
{
	Holdfast__V1__Heartbeat heartbeat = V1(heartbeat, .boot_id = node->boot_id);
	Holdfast__V1__SessionUp up =
		V1(session_up, .message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_HEARTBEAT,
		   .heartbeat = &heartbeat);

	send_up(node, &up);
}

void fake_node_send_report(struct fake_node *node, Holdfast__V1__NodeReport *report)
{
	Holdfast__V1__SessionUp up =
		V1(session_up, .message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_REPORT, .report = report);

	send_up(node, &up);
}

void fake_node_send(struct fake_node *node, const Holdfast__V1__SessionUp *up)
{
	send_up(node, up);
}

void fake_node_send_alloc(struct fake_node *node, const char *alloc_id, Holdfast__V1__ClientStatus status)
{
	Holdfast__V1__SessionUp up = HOLDFAST__V1__SESSION_UP__INIT;
	char id[UUID_TEXT_SIZE];
	Holdfast__V1__AllocStatus alloc = V1(alloc_status, .alloc_id = id, .client_status = status);

	copy_id(id, alloc_id);
	if (status == HOLDFAST__V1__CLIENT_STATUS__FAILED || status == HOLDFAST__V1__CLIENT_STATUS__PENDING)
		alloc.description = "it is broken";
	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_ALLOC;
	up.alloc = &alloc;
	send_up(node, &up);
}

static void send_receipt(struct fake_node *node, const struct claim *claim,
			 Holdfast__V1__ClaimReceipt *receipt)
{
	Holdfast__V1__SessionUp up =
		V1(session_up, .message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_RECEIPT, .receipt = receipt);
	struct claim copy = *claim;

	receipt->claim_id = copy.id;
	receipt->boot_id = copy.boot_id;
	receipt->generation = copy.generation;
	receipt->trail = node->trail;
	send_up(node, &up);
}

void fake_node_send_mounted(struct fake_node *node, const struct claim *claim)
{
	Holdfast__V1__ClaimReceipt receipt =
		V1(claim_receipt, .what_case = HOLDFAST__V1__CLAIM_RECEIPT__WHAT_MOUNTED, .mounted = true);

	send_receipt(node, claim, &receipt);
}

void fake_node_send_released(struct fake_node *node, const struct claim *claim)
{
	Holdfast__V1__ClaimReceipt receipt =
		V1(claim_receipt, .what_case = HOLDFAST__V1__CLAIM_RECEIPT__WHAT_RELEASED, .released = true);

	send_receipt(node, claim, &receipt);
}

void fake_node_send_without_plugin(struct fake_node *node, const struct claim *claim, const char *kernel)
{
	Holdfast__V1__ClaimReceipt receipt =
		V1(claim_receipt, .what_case = HOLDFAST__V1__CLAIM_RECEIPT__WHAT_RELEASED, .released = true,
		   .without_plugin = true, .kernel = TEXT(kernel));

	send_receipt(node, claim, &receipt);
}

void fake_node_send_not_released(struct fake_node *node, const struct claim *claim)
{
	Holdfast__V1__ClaimReceipt receipt =
		V1(claim_receipt, .what_case = HOLDFAST__V1__CLAIM_RECEIPT__WHAT_RELEASED, .released = false);

	send_receipt(node, claim, &receipt);
}

void fake_node_send_failed(struct fake_node *node, const struct claim *claim, enum status code,
			   const char *error)
{
	Holdfast__V1__ClaimReceipt receipt =
		V1(claim_receipt, .error = TEXT(error), .error_code = (uint32_t)code);

	send_receipt(node, claim, &receipt);
}

/* A request with the memory of its texts. */
struct claim_request {
	Holdfast__V1__ClaimVolumeRequest pb;
	char volume[VOLUME_ID_MAX + 1], alloc[UUID_TEXT_SIZE], name[8];
};

static void make_claim_request(struct claim_request *request, const char *volume, const char *alloc)
{
	*request = (struct claim_request){.pb = HOLDFAST__V1__CLAIM_VOLUME_REQUEST__INIT, .name = "data"};
	assert_int_equal(str_copy(request->volume, sizeof(request->volume), volume), 0);
	copy_id(request->alloc, alloc);
	request->pb.volume_id = request->volume;
	request->pb.allocation_id = request->alloc;
	request->pb.volume_name = request->name;
}

void asked_take(enum status status, const ProtobufCMessage *response, const struct error *err, void *userdata)
{
	struct asked *asked = userdata;

	asked->answers++;
	asked->status = status;
	(void)str_copy(asked->message, sizeof(asked->message), err ? err->msg : "");
}

void fake_node_start_claim(struct fake_node *node, const char *volume, const char *alloc, rpc_done_fn *done,
			   void *userdata)
{
	struct claim_request request;

	make_claim_request(&request, volume, alloc);
	assert_ok(rpc_client_call(node->client, &holdfast__v1__volumes__descriptor, "Claim", &request.pb.base,
				  TIMEOUT_US, done, userdata, NULL, NULL));
}

enum status fake_node_claim(struct fake_node *node, const char *volume, const char *alloc,
			    Holdfast__V1__ClaimVolumeResponse **ret, struct error *err)
{
	ProtobufCMessage *response = NULL;
	struct claim_request request;

	make_claim_request(&request, volume, alloc);
	TRY(rpc_client_call_sync(node->client, &holdfast__v1__volumes__descriptor, "Claim", &request.pb.base,
				 TIMEOUT_US, &response, err));
	if (ret)
		*ret = (Holdfast__V1__ClaimVolumeResponse *)response;
	else
		protobuf_c_message_free_unpacked(response, NULL);
	return STATUS_OK;
}

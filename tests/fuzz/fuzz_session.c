/* SPDX-License-Identifier: Apache-2.0 */
/* What a node with a valid certificate says on its session, against a server's core: the state machine of
 * sessions with its store, without a connection.
 *
 * The input is pieces of two length bytes and that many bytes, each a SessionUp. Its first byte: 1: a hello
 * comes first, 2: the node is asked for a report. The calls of lib/rpc that sessions make are wrapped. */

#include "daemon.h"
#include "dev.h"
#include "server.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "log/log.h"
#include "node/reports.h"
#include "node/session.h"
#include "rpc/server.h"

#include <ftw.h>
#include <holdfast/v1/nodes.pb-c.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ALLOC_MINE "01890000-0000-7000-8000-000000000001"
#define ALLOC_OTHER "01890000-0000-7000-8000-000000000002"
#define CLAIM_MINE "01890000-0000-7000-8000-00000000c001"
#define CLAIM_OTHER "01890000-0000-7000-8000-00000000c002"
#define BOOT "b0010000-0000-4000-8000-000000000001"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The call behind the session. */
static struct {
	struct rpc_peer peer;
	void *data;
	bool has_failed;
} fake = {.peer = {.uri = "holdfast://c1/node/n1", .address = "127.0.0.1:1"}};

static struct server *server;

const struct rpc_peer *__wrap_rpc_call_peer(const struct rpc_call *call);
const struct rpc_peer *__wrap_rpc_call_vouching_peer(const struct rpc_call *call);
const char *__wrap_rpc_call_token(const struct rpc_call *call);
void __wrap_rpc_call_set_data(struct rpc_call *call, void *data);
void *__wrap_rpc_call_data(const struct rpc_call *call);
void __wrap_rpc_call_fail(struct rpc_call *call, const struct error *err);
enum status __wrap_rpc_call_send(struct rpc_call *call, const ProtobufCMessage *message, struct error *err);

const struct rpc_peer *__wrap_rpc_call_peer(const struct rpc_call *call)
{
	return &fake.peer;
}

const struct rpc_peer *__wrap_rpc_call_vouching_peer(const struct rpc_call *call)
{
	return NULL;
}

const char *__wrap_rpc_call_token(const struct rpc_call *call)
{
	return NULL;
}

void __wrap_rpc_call_set_data(struct rpc_call *call, void *data)
{
	fake.data = data;
}

void *__wrap_rpc_call_data(const struct rpc_call *call)
{
	return fake.data;
}

void __wrap_rpc_call_fail(struct rpc_call *call, const struct error *err)
{
	if (err->status == STATUS_OK || err->msg[0] == '\0')
		abort();
	fake.has_failed = true;
}

enum status __wrap_rpc_call_send(struct rpc_call *call, const ProtobufCMessage *message, struct error *err)
{
	return STATUS_OK;
}

static char dir[] = "/dev/shm/holdfast-fuzz-XXXXXX";

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void clean_up(void)
{
	(void)nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void must(bool is_true)
{
	if (!is_true)
		abort();
}

static void put_claim(const char *id, const char *alloc_id, const char *node_id)
{
	struct claim claim = {.mode = CLAIM_WRITE,
			      .access_mode = MULTI_NODE_MULTI_WRITER,
			      .generation = 1,
			      .state = CLAIM_TAKEN,
			      .sent_to_node = true,
			      .namespace = "default",
			      .volume_id = "db",
			      .plugin_id = "native",
			      .profile = "disk",
			      .boot_id = BOOT};

	(void)str_copy(claim.id, sizeof(claim.id), id);
	(void)str_copy(claim.allocation_id, sizeof(claim.allocation_id), alloc_id);
	(void)str_copy(claim.node_id, sizeof(claim.node_id), node_id);
	must(state_put_claim(&server->state, &claim, NULL) == STATUS_OK);
}

static void put_alloc(const char *id, const char *node_id)
{
	struct volume_request request = {
		.name = "data", .source = "db", .access_mode = MULTI_NODE_MULTI_WRITER};
	struct alloc alloc = {.namespace = "default",
			      .driver = "none",
			      .n_volumes = 1,
			      .volumes = &request,
			      .desired_status = DESIRED_RUN,
			      .client_status = CLIENT_RUNNING,
			      .create_index = 1};

	(void)str_copy(alloc.id, sizeof(alloc.id), id);
	(void)str_copy(alloc.node_id, sizeof(alloc.node_id), node_id);
	must(state_put_alloc(&server->state, &alloc, NULL) == STATUS_OK);
}

/* Both nodes' work, as it was before the input. */
static void put_state(void)
{
	static const struct volume volume = {.id = "db",
					     .namespace = "default",
					     .plugin_id = "native",
					     .profile = "disk",
					     .generation = 1};

	must(state_put_volume(&server->state, &volume, NULL) == STATUS_OK);
	put_alloc(ALLOC_MINE, "n1");
	put_alloc(ALLOC_OTHER, "n2");
	put_claim(CLAIM_MINE, ALLOC_MINE, "n1");
	put_claim(CLAIM_OTHER, ALLOC_OTHER, "n2");
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const char *const nodes[] = {"n1", "n2"};
	struct dev_options options = {.dir = dir, .cluster = "c1", .nodes = nodes, .n_nodes = 2};
	struct config config;

	log_init("fuzz", LOG_CRIT);
	must(mkdtemp(dir) != NULL && atexit(clean_up) == 0);
	must(dev_prepare(&options, &config, NULL) == STATUS_OK);
	config.heartbeat_us = 300 * USEC_PER_SEC; /* nodes say what the input has them say */
	must(server_new(&config, &server, NULL) == STATUS_OK);
	return 0;
}

static void send_hello(struct rpc_call *call)
{
	Holdfast__V1__SessionHello hello = HOLDFAST__V1__SESSION_HELLO__INIT;
	Holdfast__V1__SessionUp up = HOLDFAST__V1__SESSION_UP__INIT;
	char id[] = "n1";
	char boot[] = BOOT;

	hello.node_id = id;
	hello.boot_id = boot;
	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_HELLO;
	up.hello = &hello;
	sessions_stream.on_message(call, &up.base, server);
}

static void send_pieces(struct rpc_call *call, const uint8_t *data, size_t size)
{
	for (size_t at = 0; at + 2 <= size && !fake.has_failed;) {
		size_t n = (size_t)data[at] << 8 | data[at + 1];
		Holdfast__V1__SessionUp *up;

		at += 2;
		n = n > size - at ? size - at : n;
		up = holdfast__v1__session_up__unpack(NULL, n, data + at);
		at += n;
		if (up)
			sessions_stream.on_message(call, &up->base, server);
		if (up)
			holdfast__v1__session_up__free_unpacked(up, NULL);
	}
}

static void settle(void)
{
	while (kv_stats(server->kv).pending > 0)
		must(sd_event_run(server->event, 1000000) >= 0 && !server->failed);
	while (sd_event_run(server->event, 0) > 0)
		must(!server->failed);
}

/* Nothing that the node said is about another. */
static void check_others(const struct claim *claim, const struct alloc *alloc)
{
	const struct claim_entry *now = state_claim(&server->state, CLAIM_OTHER);
	const struct alloc_entry *work = state_alloc(&server->state, ALLOC_OTHER);

	must(now && memcmp(&now->claim, claim, sizeof(*claim)) == 0);
	must(work && memcmp(&work->alloc, alloc, sizeof(*alloc)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct claim claim;
	static struct alloc alloc;
	struct rpc_call *call = (struct rpc_call *)(void *)&fake; /* nobody looks into it */
	struct node_entry *node;

	if (size < 1)
		return 0;
	put_state();
	claim = state_claim(&server->state, CLAIM_OTHER)->claim;
	alloc = state_alloc(&server->state, ALLOC_OTHER)->alloc;
	fake.data = NULL;
	fake.has_failed = false;
	sessions_stream.on_open(call, server);
	must(fake.data != NULL);
	if (data[0] & 1)
		send_hello(call);
	if (data[0] & 2)
		((struct session *)fake.data)->report_epoch = 1;
	send_pieces(call, data + 1, size - 1);
	settle();
	sessions_stream.on_closed(call, server);
	fake.data = NULL;
	settle();
	check_others(&claim, &alloc);
	node = state_node(&server->state, "n1");
	must(!node || !node->session);
	/* the next input meets a node of the same boot again */
	if (node && node_is_registered(node)) {
		struct node fresh = {.id = "n1", .boot_id = BOOT};

		must(state_put_node(&server->state, &fresh, NULL) == STATUS_OK);
	}
	return 0;
}

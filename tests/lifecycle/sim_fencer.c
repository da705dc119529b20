/* SPDX-License-Identifier: Apache-2.0 */
/* A fencer with the power switch of every node. It answers late, twice, or without a proof; a node that it
 * proves off is off. */

#include "sim.h"

#include "base/str.h"
#include "model/fence_order.h"
#include "rpc/pki.h"

#include <holdfast/v1/fences.pb-c.h>
#include <limits.h>
#include <string.h>

enum { CALL_TIMEOUT_US = 20 * 1000 * 1000 };

typedef Holdfast__V1__FenceAnswer Answer;

static struct fencer {
	struct rpc_tls *tls;
	struct rpc_client *client;
	struct rpc_stream *stream; /* NULL: not connected */
	struct fence_order order;  /* the last one */
	bool has_order;
} fencer;

static void on_message(struct rpc_stream *stream, const ProtobufCMessage *message, void *userdata)
{
	const Holdfast__V1__FencerDown *down = (const void *)message;
	struct sim *sim = userdata;

	sim->activity++;
	if (down->message_case != HOLDFAST__V1__FENCER_DOWN__MESSAGE_ORDER)
		return;
	if (fence_order_read(down->order.data, down->order.len, &fencer.order, NULL) != STATUS_OK)
		sim_fail(sim, "an order for the fencer is not readable");
	fencer.has_order = true;
}

static void on_closed(struct rpc_stream *stream, enum status status, const struct error *err, void *userdata)
{
	fencer.stream = NULL;
}

static void say(struct sim *sim, const Holdfast__V1__FencerUp *up)
{
	if (fencer.stream && rpc_stream_send(fencer.stream, &up->base, NULL) == STATUS_OK)
		sim->activity++;
}

static void say_hello(struct sim *sim)
{
	Holdfast__V1__FencerUp up = HOLDFAST__V1__FENCER_UP__INIT;
	Holdfast__V1__FencerHello hello = HOLDFAST__V1__FENCER_HELLO__INIT;
	Holdfast__V1__FencerNode nodes[SIM_NODES], *list[SIM_NODES];
	static char agent[] = "fence_sim";

	for (int i = 0; i < SIM_NODES; i++) {
		holdfast__v1__fencer_node__init(&nodes[i]);
		nodes[i].id = sim->nodes[i].id;
		nodes[i].agent = agent;
		nodes[i].checked_ms = 1;
		list[i] = &nodes[i];
	}
	hello.nodes = list;
	hello.n_nodes = SIM_NODES;
	up.message_case = HOLDFAST__V1__FENCER_UP__MESSAGE_HELLO;
	up.hello = &hello;
	say(sim, &up);
}

static void load_certificate(struct sim *sim)
{
	const struct pki_cert_request request = {
		.uri = "holdfast://c1/fencer/f1", .common_name = "f1", .days = 1};
	char ca[PATH_MAX], ca_key[PATH_MAX], cert[PATH_MAX], key[PATH_MAX];
	const struct rpc_tls_files files = {.ca = ca, .cert = cert, .key = key};
	struct error err;

	(void)str_format(ca, sizeof(ca), "%s/tls/ca.pem", sim->dir);
	(void)str_format(ca_key, sizeof(ca_key), "%s/tls/ca.key", sim->dir);
	(void)str_format(cert, sizeof(cert), "%s/tls/fencer-f1.pem", sim->dir);
	(void)str_format(key, sizeof(key), "%s/tls/fencer-f1.key", sim->dir);
	if (pki_issue(ca_key, ca, &request, key, cert, &err) != STATUS_OK ||
	    rpc_tls_new(&files, &fencer.tls, &err) != STATUS_OK)
		sim_fail(sim, "the fencer's certificate: %s", err.msg);
}

void sim_fencer_disconnect(void)
{
	if (fencer.stream)
		rpc_stream_cancel(fencer.stream);
	fencer.stream = NULL;
	rpc_client_free(fencer.client);
	fencer.client = NULL;
}

void sim_fencer_connect(struct sim *sim)
{
	static const struct rpc_stream_events events = {.on_message = on_message, .on_closed = on_closed};
	struct rpc_endpoint endpoint = {.host = "127.0.0.1", .port = sim->port};
	struct error err;

	sim_fencer_disconnect(); /* the server may have another port now */
	if (!fencer.tls)
		load_certificate(sim);
	endpoint.tls = fencer.tls;
	if (rpc_client_new(sim->event, &endpoint, &fencer.client, &err) != STATUS_OK ||
	    rpc_stream_open(fencer.client, &holdfast__v1__fences__descriptor, "Session", CALL_TIMEOUT_US,
			    &events, sim, &fencer.stream, &err) != STATUS_OK)
		sim_fail(sim, "the fencer's session: %s", err.msg);
	say_hello(sim);
}

static struct sim_node *find_node(struct sim *sim, const char *id)
{
	for (int i = 0; i < SIM_NODES; i++)
		if (str_eq(sim->nodes[i].id, id))
			return &sim->nodes[i];
	sim_fail(sim, "an order to switch off %s, which is no node", id);
}

/* The switch knows no boots: whatever the node runs is over. */
static void switch_off(struct sim_node *node)
{
	if (node->client)
		sim_node_disconnect(node);
	node->powered = false;
}

/* One in six answers proves nothing, and one in six does not come now. */
void sim_fencer_act(struct sim *sim)
{
	Holdfast__V1__FencerUp up = HOLDFAST__V1__FENCER_UP__INIT;
	Answer answer = HOLDFAST__V1__FENCE_ANSWER__INIT;
	char agent[] = "fence_sim";
	uint64_t pick = sim_random(sim, 12);

	if (!fencer.has_order || !fencer.stream || pick < 2)
		return;
	answer.nonce = (ProtobufCBinaryData){sizeof(fencer.order.nonce), fencer.order.nonce};
	answer.agent = agent;
	answer.off = answer.status = HOLDFAST__V1__FENCE_OUTCOME__FENCE_OUTCOME_FAILED;
	answer.refused = pick == 2;
	answer.unsure = pick == 3;
	if (answer.refused || answer.unsure)
		answer.off = answer.status = HOLDFAST__V1__FENCE_OUTCOME__FENCE_OUTCOME_NONE;
	if (pick >= 5) {
		switch_off(find_node(sim, fencer.order.node));
		answer.off = HOLDFAST__V1__FENCE_OUTCOME__FENCE_OUTCOME_DONE;
		answer.status = HOLDFAST__V1__FENCE_OUTCOME__FENCE_OUTCOME_OFF;
		answer.off_ms = 1;
		answer.status_ms = 2;
		sim->counts[COUNT_FENCED]++;
	}
	fencer.has_order = pick == 11; /* and once more later, when the node may be back */
	up.message_case = HOLDFAST__V1__FENCER_UP__MESSAGE_ANSWER;
	up.answer = &answer;
	say(sim, &up);
}

void sim_fence(struct sim *sim, int node, const char *plugin_id)
{
	(void)sim_ask(sim, SIM_WAITS, "Fences.Fence", NULL, NULL,
		      "{'id': '%s', 'reason': 'the model wants it', 'alive': true, 'plugin_id': '%s'}",
		      sim->nodes[node].id, plugin_id);
}

void sim_fencer_free(void)
{
	sim_fencer_disconnect();
	rpc_tls_free(fencer.tls);
	fencer = (struct fencer){.tls = NULL};
}

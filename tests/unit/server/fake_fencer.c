/* SPDX-License-Identifier: Apache-2.0 */
/* A fencer's side of a session. */

#include "fake_fencer.h"

#include "unit.h"
#include "unit_loop.h"

#include "base/clock.h"
#include "model/fence_order.h"

static void on_message(struct rpc_stream *stream, const ProtobufCMessage *message, void *userdata)
{
	const Holdfast__V1__FencerDown *down = (const void *)message;
	struct fake_fencer *fencer = userdata;
	struct error err;

	if (down->message_case == HOLDFAST__V1__FENCER_DOWN__MESSAGE_WELCOME) {
		assert_string_equal(down->welcome->cluster, "c1");
		fencer->is_welcome = true;
		return;
	}
	assert_int_equal(down->message_case, HOLDFAST__V1__FENCER_DOWN__MESSAGE_ORDER);
	assert_true(fencer->n < ORDERS_MAX);
	if (fence_order_read(down->order.data, down->order.len, &fencer->orders[fencer->n], &err) !=
	    STATUS_OK)
		fail_msg("%s", err.msg);
	fencer->n++;
}

static void on_closed(struct rpc_stream *stream, enum status status, const struct error *err, void *userdata)
{
	struct fake_fencer *fencer = userdata;

	fencer->stream = NULL;
	fencer->closed_status = status;
}

static void say(struct fake_fencer *fencer, const Holdfast__V1__FencerUp *up)
{
	assert_non_null(fencer->stream);
	assert_int_equal(rpc_stream_send(fencer->stream, &up->base, NULL), STATUS_OK);
}

void fake_fencer_hello(struct fake_fencer *fencer, const char *error)
{
	Holdfast__V1__FencerUp up = HOLDFAST__V1__FENCER_UP__INIT;
	Holdfast__V1__FencerHello hello = HOLDFAST__V1__FENCER_HELLO__INIT;
	Holdfast__V1__FencerNode node =
		V1(fencer_node, .id = "n1", .agent = "fence_dummy", .checked_ms = 1, .error = TEXT(error));
	Holdfast__V1__FencerNode *nodes[] = {&node};

	if (fencer->keys)
		hello.ticket_keys = (ProtobufCBinaryData){4 * (fencer->n_keys > 0 ? fencer->n_keys : 1),
							  (uint8_t *)(uintptr_t)fencer->keys};
	hello.nodes = nodes;
	hello.n_nodes = 1;
	up.message_case = HOLDFAST__V1__FENCER_UP__MESSAGE_HELLO;
	up.hello = &hello;
	say(fencer, &up);
}

void fake_fencer_dial(struct fake_fencer *fencer)
{
	static const struct rpc_stream_events events = {.on_message = on_message, .on_closed = on_closed};

	fencer->is_welcome = false;
	assert_ok(rpc_stream_open(fencer->caller.client, FENCES, "Session", TIMEOUT_US, &events, fencer,
				  &fencer->stream, NULL));
}

void fake_fencer_connect(struct fake_fencer *fencer, const char *error)
{
	fake_fencer_dial(fencer);
	fake_fencer_hello(fencer, error);
	RUN_UNTIL(fencer->caller.event, fencer->is_welcome || !fencer->stream);
	assert_true(fencer->is_welcome);
}

void fake_fencer_answer(struct fake_fencer *fencer, const struct fence_order *order,
			const Holdfast__V1__FenceAnswer *like)
{
	Holdfast__V1__FenceAnswer answer = *like;
	Holdfast__V1__FencerUp up =
		V1(fencer_up, .message_case = HOLDFAST__V1__FENCER_UP__MESSAGE_ANSWER, .answer = &answer);

	answer.nonce = (ProtobufCBinaryData){sizeof(order->nonce), (uint8_t *)(uintptr_t)order->nonce};
	answer.agent = "fence_dummy";
	say(fencer, &up);
}

Holdfast__V1__FenceAnswer fake_fencer_proof(void)
{
	Holdfast__V1__FenceAnswer answer =
		V1(fence_answer, .off = HOLDFAST__V1__FENCE_OUTCOME__FENCE_OUTCOME_DONE,
		   .status = HOLDFAST__V1__FENCE_OUTCOME__FENCE_OUTCOME_OFF);

	answer.off_ms = answer.status_ms = clock_realtime_ms();
	return answer;
}

void fake_fencer_prove(struct fake_fencer *fencer, const struct fence_order *order)
{
	const Holdfast__V1__FenceAnswer answer = fake_fencer_proof();

	fake_fencer_answer(fencer, order, &answer);
}

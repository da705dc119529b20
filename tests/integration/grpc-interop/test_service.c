/* SPDX-License-Identifier: Apache-2.0 */
#include "test_service.h"

#include "interop.pb-c.h"

#include "base/cleanup.h"

#include <stdlib.h>

enum { PAYLOAD_MAX = 4 * 1024 * 1024 };

/* A payload of @size zeros; the caller frees @payload->body.data. */
static bool make_payload(int32_t size, Grpc__Testing__Payload *payload)
{
	if (size < 0 || size > PAYLOAD_MAX)
		return false;
	payload->body.len = (size_t)size;
	payload->body.data = calloc(1, (size_t)size + 1);
	return payload->body.data != NULL;
}

static void fail(struct rpc_call *call, enum status status, const char *message)
{
	struct error err;

	(void)error_set(&err, status, 0, "%s", message);
	rpc_call_fail(call, &err);
}

/* End the call as the client asks for; false when it does not ask. */
static bool fail_as_requested(struct rpc_call *call, const Grpc__Testing__EchoStatus *told)
{
	if (!told || told->code == 0)
		return false;
	fail(call, (enum status)told->code, told->message);
	return true;
}

static void on_empty(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	const Grpc__Testing__Empty empty = GRPC__TESTING__EMPTY__INIT;

	rpc_call_reply(call, &empty.base);
}

static void on_unary(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	const Grpc__Testing__SimpleRequest *request = (const Grpc__Testing__SimpleRequest *)message;
	Grpc__Testing__SimpleResponse response = GRPC__TESTING__SIMPLE_RESPONSE__INIT;
	Grpc__Testing__Payload payload = GRPC__TESTING__PAYLOAD__INIT;

	if (fail_as_requested(call, request->response_status))
		return;
	if (!make_payload(request->response_size, &payload)) {
		fail(call, STATUS_INVALID_ARGUMENT, "no answer of that size");
		return;
	}
	response.payload = &payload;
	rpc_call_reply(call, &response.base);
	free(payload.body.data);
}

static void on_closed(struct rpc_call *call, void *userdata)
{
}

/* ---- one request, many answers; and many of both ---- */

/* False: the call has been ended. */
static bool send_payload(struct rpc_call *call, int32_t size)
{
	Grpc__Testing__StreamingOutputCallResponse response =
		GRPC__TESTING__STREAMING_OUTPUT_CALL_RESPONSE__INIT;
	Grpc__Testing__Payload payload = GRPC__TESTING__PAYLOAD__INIT;
	struct error err;
	enum status status;

	if (!make_payload(size, &payload)) {
		fail(call, STATUS_INVALID_ARGUMENT, "no answer of that size");
		return false;
	}
	response.payload = &payload;
	status = rpc_call_send(call, &response.base, &err);
	free(payload.body.data);
	if (status != STATUS_OK)
		rpc_call_fail(call, &err);
	return status == STATUS_OK;
}

static void on_output_message(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	const Grpc__Testing__StreamingOutputCallRequest *request =
		(const Grpc__Testing__StreamingOutputCallRequest *)message;

	if (fail_as_requested(call, request->response_status))
		return;
	for (size_t i = 0; i < request->n_response_parameters; i++)
		if (!send_payload(call, request->response_parameters[i]->size))
			return;
}

/* ---- many requests, one answer: the call's data is the sum so far ---- */

static void on_input_message(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	const Grpc__Testing__StreamingInputCallRequest *request =
		(const Grpc__Testing__StreamingInputCallRequest *)message;
	uintptr_t sum = (uintptr_t)rpc_call_data(call);

	if (request->payload)
		sum += request->payload->body.len;
	rpc_call_set_data(call, (void *)sum);
}

static void on_input_end(struct rpc_call *call, void *userdata)
{
	Grpc__Testing__StreamingInputCallResponse response =
		GRPC__TESTING__STREAMING_INPUT_CALL_RESPONSE__INIT;
	struct error err;

	response.aggregated_payload_size = (int32_t)(uintptr_t)rpc_call_data(call);
	if (rpc_call_send(call, &response.base, &err) == STATUS_OK)
		rpc_call_finish(call);
	else
		rpc_call_fail(call, &err);
}

static const struct rpc_stream_handlers output = {
	.on_message = on_output_message,
	.on_closed = on_closed,
};
static const struct rpc_stream_handlers input = {
	.on_message = on_input_message,
	.on_closed = on_closed,
	.on_half_close = on_input_end,
};
static const struct rpc_method methods[] = {
	{.name = "EmptyCall", .unary = on_empty},	    {.name = "UnaryCall", .unary = on_unary},
	{.name = "StreamingOutputCall", .stream = &output}, {.name = "StreamingInputCall", .stream = &input},
	{.name = "FullDuplexCall", .stream = &output},
};
const struct rpc_service test_service = {&grpc__testing__test_service__descriptor, methods,
					 ARRAY_SIZE(methods)};

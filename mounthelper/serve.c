#include "serve.h"

#include "channel.h"
#include "ops.h"
#include "record.h"

#include "base/clock.h"
#include "base/str.h"

#include <string.h>
#include <unistd.h>

static bool send_hello(const struct helper *h)
{
	struct mh_hello hello = {.header = {.magic = MH_MAGIC,
					    .version = MH_VERSION,
					    .op = MH_OP_HELLO,
					    .length = sizeof(hello)},
				 .helper_pid = (uint32_t)h->own_pid,
				 .door = (uint8_t)h->door,
				 .container = h->agent->container,
				 .ticket_optional = h->agent->ticket_optional != 0};

	memcpy(hello.policy_digest, h->policy_digest, sizeof(hello.policy_digest));
	(void)str_copy(hello.cluster, sizeof(hello.cluster), h->agent->cluster);
	(void)str_copy(hello.node, sizeof(hello.node), h->agent->node);
	(void)str_copy(hello.publish_base, sizeof(hello.publish_base), h->agent->publish_base);
	return channel_send(&hello, sizeof(hello));
}

/* One request from arrival to answer. Returns REASON_NONE to go on. */
static enum reason serve_one(struct helper *h, uint64_t seq)
{
	union mh_request request;
	union mh_request received = {.bytes = {0}};
	union mh_answer answer;
	enum reason reason;
	size_t n = 0;

	reason = channel_receive(h, &received, sizeof(received), &n);
	if (reason == REASON_NONE)
		reason = wire_decode(&received, n, seq, &request);
	if (reason != REASON_NONE)
		return reason;
	if (request.header.op == MH_OP_ACK)
		return REASON_NONE;
	reason = ops_run(h, &request, &answer);
	if (!channel_send(&answer, answer.header.length) && reason == REASON_NONE)
		reason = REASON_SEND;
	return reason;
}

static enum exit_code code_of(enum reason reason)
{
	if (reason == REASON_CLOSED)
		return EXIT_CLOSED;
	if (reason == REASON_SEND)
		return EXIT_SEND;
	if (reason == REASON_REFUSALS)
		return EXIT_REFUSALS;
	return reason == REASON_POSTCONDITION ? EXIT_INTERNAL : EXIT_VIOLATION;
}

enum exit_code serve(struct helper *h)
{
	enum reason reason = send_hello(h) ? REASON_NONE : REASON_SEND;
	uint64_t seq = 0;
	enum exit_code code;

	while (reason == REASON_NONE)
		reason = serve_one(h, ++seq);
	code = code_of(reason);
	record_end(h, code == EXIT_VIOLATION, reason, seq);
	return code;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "ops.h"
#include "record.h"
#include "startup.h"

#include "base/clock.h"
#include "base/str.h"
#include "privileged/peer_socket.h"

#include <errno.h>
#include <string.h>

/* Wait for one datagram of the process that was there at the start. REASON_NONE and its length, REASON_CLOSED
 * at the end, or the violation. */
static enum reason receive(struct helper *h, void *buf, size_t size, size_t *ret_n)
{
	const struct ucred peer = {.uid = h->peer_uid, .pid = h->peer_pid};
	ssize_t n;

	for (;;) {
		uint64_t since_us = clock_monotonic_us();

		n = peer_socket_receive(HELPER_SOCKET_FD, &peer, buf, size);
		/* sooner than setup_waits() has it: the agent has made the socket, which it shares, not wait
		 */
		if (n != -EAGAIN || clock_monotonic_us() - since_us < USEC_PER_SEC / 2)
			break;
		chain_log_idle(&h->trail);
	}
	if (n > 0) {
		*ret_n = (size_t)n;
		return REASON_NONE;
	}
	if (n == -EMSGSIZE)
		return REASON_TRUNCATED;
	if (n == -EBADMSG)
		return REASON_CONTROL;
	return n == -EACCES ? REASON_CREDENTIALS : REASON_CLOSED;
}

static enum reason send_hello(struct helper *h)
{
	const struct agent_policy *agent = h->agent;
	struct mh_hello hello = {.header = mh_header_make(MH_OP_HELLO, sizeof(hello), 0),
				 .helper_pid = (uint32_t)h->own_pid,
				 .launch_mode = (uint8_t)h->launch_mode,
				 .container = agent->container,
				 .ticket_optional = agent->ticket_optional != 0,
				 .trail = (uint8_t)h->trail_fault,
				 .record = h->start_waits ? 0 : h->trail.end.rec};

	_Static_assert((int)MH_KEYS_MAX == (int)POLICY_KEY_MAX, "each key has its place");
	record_head(h, hello.record, hello.head);
	memcpy(hello.policy_digest, h->policy_digest, sizeof(hello.policy_digest));
	for (uint32_t i = 0; i < agent->keys.n; i++)
		memcpy(hello.ticket_keys[i], agent->keys.key[i], TICKET_KEY_ID_SIZE);
	(void)str_copy(hello.cluster, sizeof(hello.cluster), agent->cluster);
	(void)str_copy(hello.node, sizeof(hello.node), agent->node);
	(void)str_copy(hello.publish_base, sizeof(hello.publish_base), agent->publish_base);
	(void)str_copy(hello.stage_base, sizeof(hello.stage_base), agent->stage_base);
	return peer_socket_send(HELPER_SOCKET_FD, &hello, sizeof(hello)) < 0 ? REASON_SEND : REASON_NONE;
}

/* A replaced policy allows nothing: the agent repeats the request at another helper. */
static enum reason refuse_last(const struct mh_header *req, union mh_answer *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->reply.header = mh_header_make(
		req->op, req->op == MH_OP_LIST ? sizeof(ret->list) : sizeof(ret->reply), req->seq);
	ret->reply.status = MH_REPLACED;
	return REASON_POLICY_REPLACED;
}

/* One request from arrival to answer. Returns REASON_NONE to continue. */
static enum reason serve_one(struct helper *h, uint64_t seq)
{
	union mh_request received = {.bytes = {0}};
	union mh_request request;
	union mh_answer answer;
	size_t n = 0;
	enum reason reason = receive(h, &received, sizeof(received), &n);

	if (reason == REASON_NONE)
		reason = wire_decode(&received, n, seq, &request);
	if (reason != REASON_NONE || request.header.op == MH_OP_ACK)
		return reason;
	reason = setup_compare_policy(h) < 0 ? refuse_last(&request.header, &answer)
					     : ops_run(h, &request, &answer);
	if (peer_socket_send(HELPER_SOCKET_FD, &answer, answer.header.length) < 0 && reason == REASON_NONE)
		reason = REASON_SEND;
	record_pass_on(h);
	return reason;
}

static enum mh_exit exit_of(enum reason reason)
{
	if (reason == REASON_CLOSED || reason == REASON_POLICY_REPLACED)
		return MH_EXIT_CLOSED;
	if (reason == REASON_SEND)
		return MH_EXIT_SEND;
	if (reason == REASON_REFUSALS)
		return MH_EXIT_REFUSALS;
	return reason == REASON_POSTCONDITION ? MH_EXIT_INTERNAL : MH_EXIT_VIOLATION;
}

enum mh_exit serve(struct helper *h)
{
	enum reason reason = send_hello(h);
	uint64_t seq = 0;
	enum mh_exit code;

	while (reason == REASON_NONE)
		reason = serve_one(h, ++seq);
	code = exit_of(reason);
	record_end(h, code == MH_EXIT_VIOLATION, reason, seq);
	return code;
}

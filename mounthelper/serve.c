#include "ops.h"
#include "record.h"
#include "startup.h"

#include "base/str.h"
#include "base/sys.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

static enum reason check_control(const struct helper *h, struct msghdr *msg)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(msg);
	struct ucred sender;

	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS ||
	    c->cmsg_len != CMSG_LEN(sizeof(sender)) || CMSG_NXTHDR(msg, c))
		return REASON_CONTROL;
	memcpy(&sender, CMSG_DATA(c), sizeof(sender));
	return sender.uid == h->peer_uid && sender.pid == h->peer_pid ? REASON_NONE : REASON_CREDENTIALS;
}

/* Wait for one datagram of the process that was there at the start. REASON_NONE and its length, REASON_CLOSED
 * at the end, or the violation. */
static enum reason receive(struct helper *h, void *buf, size_t size, size_t *ret_n)
{
	/* room for exactly one set of credentials */
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct ucred))];
	} control;
	struct iovec iov = {.iov_base = buf, .iov_len = size};
	struct msghdr msg;
	ssize_t n;

	do {
		msg = (struct msghdr){.msg_iov = &iov,
				      .msg_iovlen = 1,
				      .msg_control = control.bytes,
				      .msg_controllen = sizeof(control.bytes)};
		n = sys_recvmsg(HELPER_SOCKET_FD, &msg, MSG_CMSG_CLOEXEC);
		if (n == -EAGAIN) /* only with trail_sync = batch, see main.c */
			trail_idle(&h->trail);
	} while (n == -EINTR || n == -EAGAIN);
	/* an empty datagram looks the same, and is as good a reason to go */
	if (n <= 0)
		return REASON_CLOSED;
	if ((msg.msg_flags & MSG_TRUNC) != 0)
		return REASON_TRUNCATED;
	if ((msg.msg_flags & MSG_CTRUNC) != 0)
		return REASON_CONTROL;
	*ret_n = (size_t)n;
	return check_control(h, &msg);
}

/* False when the agent does not take it at once. */
static bool give(const void *bytes, size_t n)
{
	ssize_t sent;

	do {
		sent = sys_sendto(HELPER_SOCKET_FD, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT, NULL, 0);
	} while (sent == -EINTR);
	return sent == (ssize_t)n;
}

static bool give_hello(const struct helper *h)
{
	const struct agent_policy *agent = h->agent;
	struct mh_hello hello = {.header = {.magic = MH_MAGIC,
					    .version = MH_VERSION,
					    .op = MH_OP_HELLO,
					    .length = sizeof(hello)},
				 .helper_pid = (uint32_t)h->own_pid,
				 .door = (uint8_t)h->door,
				 .container = agent->container,
				 .ticket_optional = agent->ticket_optional != 0};

	memcpy(hello.policy_digest, h->policy_digest, sizeof(hello.policy_digest));
	(void)str_copy(hello.cluster, sizeof(hello.cluster), agent->cluster);
	(void)str_copy(hello.node, sizeof(hello.node), agent->node);
	(void)str_copy(hello.publish_base, sizeof(hello.publish_base), agent->publish_base);
	(void)str_copy(hello.stage_base, sizeof(hello.stage_base), agent->stage_base);
	return give(&hello, sizeof(hello));
}

/* One request from arrival to answer. Returns REASON_NONE to go on. */
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
	reason = ops_run(h, &request, &answer);
	if (!give(&answer, answer.header.length) && reason == REASON_NONE)
		reason = REASON_SEND;
	return reason;
}

static enum mh_exit exit_of(enum reason reason)
{
	if (reason == REASON_CLOSED)
		return MH_EXIT_CLOSED;
	if (reason == REASON_SEND)
		return MH_EXIT_SEND;
	if (reason == REASON_REFUSALS)
		return MH_EXIT_REFUSALS;
	return reason == REASON_POSTCONDITION ? MH_EXIT_INTERNAL : MH_EXIT_VIOLATION;
}

enum mh_exit serve(struct helper *h)
{
	enum reason reason = give_hello(h) ? REASON_NONE : REASON_SEND;
	uint64_t seq = 0;
	enum mh_exit code;

	while (reason == REASON_NONE)
		reason = serve_one(h, ++seq);
	code = exit_of(reason);
	record_end(h, code == MH_EXIT_VIOLATION, reason, seq);
	return code;
}

#include "channel.h"

#include "base/sys.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

enum { SO_PASSRIGHTS_ = 83, SEND_BUFFER = 64 * 1024 };

enum status channel_open(struct helper *h, uint32_t ruid, struct error *err)
{
	const int on = 1;
	const int off = 0;
	const int send_buffer = SEND_BUFFER;
	struct ucred peer;
	socklen_t n = sizeof(peer);

	if (getsockopt(HELPER_SOCKET_FD, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0)
		return error_set(err, STATUS_INTERNAL, errno, "read the peer of descriptor 3");
	if (peer.uid != ruid)
		return error_set(err, STATUS_PERMISSION_DENIED, 0,
				 "started by uid %u, but the socket on descriptor 3 was made by uid %u", ruid,
				 peer.uid);
	if (setsockopt(HELPER_SOCKET_FD, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0 ||
	    setsockopt(HELPER_SOCKET_FD, SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof(send_buffer)) < 0)
		return error_set(err, STATUS_INTERNAL, errno, "set up descriptor 3");
	/* since 6.16; elsewhere descriptors are dropped on arrival, because there is no room for them */
	(void)setsockopt(HELPER_SOCKET_FD, SOL_SOCKET, SO_PASSRIGHTS_, &off, sizeof(off));
	h->peer_uid = peer.uid;
	h->peer_pid = peer.pid;
	return STATUS_OK;
}

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

enum reason channel_receive(const struct helper *h, void *buf, size_t size, size_t *ret_n)
{
	/* room for exactly one set of credentials */
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct ucred))];
	} control = {.bytes = {0}};
	struct iovec iov = {.iov_base = buf, .iov_len = size};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control.bytes)};
	ssize_t n;

	do {
		n = sys_recvmsg(HELPER_SOCKET_FD, &msg, MSG_CMSG_CLOEXEC);
	} while (n == -EINTR);
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

bool channel_send(const void *bytes, size_t n)
{
	ssize_t sent;

	do {
		sent = sys_sendto(HELPER_SOCKET_FD, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT, NULL, 0);
	} while (sent == -EINTR);
	return sent == (ssize_t)n;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "privileged/peer_socket.h"

#include "base/sys.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

enum { SO_PASSRIGHTS_ = 83 };

bool peer_socket_is_one(int fd)
{
	int type = 0;
	int domain = 0;
	socklen_t n = sizeof(int);

	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) == 0 && type == SOCK_SEQPACKET &&
	       getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) == 0 && domain == AF_UNIX;
}

int peer_socket_pin(int fd, int send_buffer, struct ucred *ret)
{
	const int on = 1;
	const int off = 0;
	struct ucred peer;
	socklen_t n = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof(send_buffer)) < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS_, &off, sizeof(off));
	*ret = peer;
	return 0;
}

static int check_control(struct msghdr *msg, const struct ucred *peer)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(msg);
	struct ucred sender;

	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS ||
	    c->cmsg_len != CMSG_LEN(sizeof(sender)) || CMSG_NXTHDR(msg, c))
		return -EBADMSG;
	memcpy(&sender, CMSG_DATA(c), sizeof(sender));
	return sender.uid == peer->uid && sender.pid == peer->pid ? 0 : -EACCES;
}

ssize_t peer_socket_receive(int fd, const struct ucred *peer, void *buf, size_t size)
{
	assert(size > 0);
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
	int r;

	do {
		n = sys_recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);
	} while (n == -EINTR);
	if (n <= 0)
		return n;
	if ((msg.msg_flags & MSG_TRUNC) != 0)
		return -EMSGSIZE;
	if ((msg.msg_flags & MSG_CTRUNC) != 0)
		return -EBADMSG;
	r = check_control(&msg, peer);
	return r < 0 ? r : n;
}

int peer_socket_send(int fd, const void *bytes, size_t n)
{
	ssize_t sent;

	assert(n > 0); /* an empty datagram looks like the end */
	do {
		sent = sys_sendto(fd, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT, NULL, 0);
	} while (sent == -EINTR);
	return sent < 0 ? (int)sent : 0; /* a datagram is sent whole */
}

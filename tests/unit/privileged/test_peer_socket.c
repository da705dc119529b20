/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "privileged/peer_socket.h"

#include <sys/time.h>
#include <sys/wait.h>

struct ends {
	int own, theirs;
	struct ucred peer;
};

static int setup(void **state)
{
	static struct ends ends;
	const struct timeval soon = {.tv_usec = 1000};
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	ends = (struct ends){.own = pair[0], .theirs = pair[1]};
	assert_int_equal(peer_socket_pin(ends.own, 4096, &ends.peer), 0);
	assert_int_equal(setsockopt(ends.own, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon)), 0);
	*state = &ends;
	return 0;
}

static int teardown(void **state)
{
	struct ends *ends = *state;

	close_fdp(&ends->own);
	close_fdp(&ends->theirs);
	return 0;
}

#define CASE(name) TEST_ON(name, struct ends, ends, setup, teardown)

CASE(it_is_distinguished_from_other_descriptors)
{
	cleanup_close int stream = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cleanup_close int udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_true(peer_socket_is_one(ends->own));
	assert_false(peer_socket_is_one(stream));
	assert_false(peer_socket_is_one(udp));
	assert_false(peer_socket_is_one(-1));
	assert_int_equal(peer_socket_pin(-1, 4096, &ends->peer), -EBADF);
}

CASE(the_peer_is_the_creator_of_the_pair)
{
	assert_int_equal(ends->peer.pid, getpid());
	assert_int_equal(ends->peer.uid, geteuid());
}

CASE(peer_messages_arrive_whole)
{
	char buf[8] = "";

	assert_int_equal(peer_socket_receive(ends->own, &ends->peer, buf, sizeof(buf)), -EAGAIN);
	assert_int_equal(peer_socket_send(ends->theirs, "12345678", 8), 0);
	assert_int_equal(peer_socket_receive(ends->own, &ends->peer, buf, sizeof(buf)), 8);
	assert_memory_equal(buf, "12345678", 8);
	assert_int_equal(peer_socket_send(ends->theirs, "123456789", 9), 0);
	assert_int_equal(peer_socket_receive(ends->own, &ends->peer, buf, sizeof(buf)), -EMSGSIZE);
	assert_int_equal(send(ends->theirs, "", 0, 0), 0);
	assert_int_equal(peer_socket_receive(ends->own, &ends->peer, buf, sizeof(buf)), 0);
	close_fdp(&ends->theirs);
	ends->theirs = -EBADF;
	assert_int_equal(peer_socket_receive(ends->own, &ends->peer, buf, sizeof(buf)), 0);
}

CASE(only_the_agent_can_send_requests)
{
	struct ucred other = ends->peer;
	char buf[8];
	pid_t pid = fork();

	if (pid == 0)
		_exit(send(ends->theirs, "x", 1, 0) != 1);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(peer_socket_receive(ends->own, &ends->peer, buf, sizeof(buf)), -EACCES);
	assert_int_equal(peer_socket_send(ends->theirs, "x", 1), 0);
	other.uid++;
	assert_int_equal(peer_socket_receive(ends->own, &other, buf, sizeof(buf)), -EACCES);
}

CASE(a_descriptor_never_arrives)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {.bytes = {0}};
	char byte = 'x';
	struct iovec iov = {.iov_base = &byte, .iov_len = 1};
	struct msghdr msg = ROW(.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes,
				.msg_controllen = sizeof(control.bytes));
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	const int fd = STDIN_FILENO, on = 1;
	int before = dup(STDIN_FILENO);
	int after;
	char buf[8];

	(void)close(before);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	/* since 6.16 it cannot even be sent, unless somebody who has this end too says otherwise */
	(void)setsockopt(ends->own, SOL_SOCKET, 83, &on, sizeof(on)); /* SO_PASSRIGHTS */
	assert_int_equal(sendmsg(ends->theirs, &msg, 0), 1);
	assert_int_equal(peer_socket_receive(ends->own, &ends->peer, buf, sizeof(buf)), -EBADMSG);
	after = dup(STDIN_FILENO);
	(void)close(after);
	assert_int_equal(after, before);
}

CASE(without_credentials_nothing_is_believed)
{
	const int off = 0;
	char buf[8];

	assert_int_equal(setsockopt(ends->own, SOL_SOCKET, SO_PASSCRED, &off, sizeof(off)), 0);
	assert_int_equal(peer_socket_send(ends->theirs, "x", 1), 0);
	assert_int_equal(peer_socket_receive(ends->own, &ends->peer, buf, sizeof(buf)), -EBADMSG);
}

CASE(sending_never_waits_and_never_kills)
{
	char bytes[512] = "";
	int r = 0, n = 0;

	for (; n < 10000 && r == 0; n++)
		r = peer_socket_send(ends->own, bytes, sizeof(bytes));
	assert_int_equal(r, -EAGAIN);
	assert_true(n > 1);
	close_fdp(&ends->theirs);
	ends->theirs = -EBADF;
	assert_true(peer_socket_send(ends->own, bytes, sizeof(bytes)) <
		    0); /* what it left unread counts as reset */
	assert_int_equal(peer_socket_send(ends->own, bytes, sizeof(bytes)), -EPIPE);
}

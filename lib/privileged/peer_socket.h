/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* An AF_UNIX SOCK_SEQPACKET connection whose peer is pinned: only the process that made the other end may
 * speak, and it can send nothing but bytes. Source: unix(7). */

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/** Is @fd such a socket? */
bool peer_socket_is_one(int fd);

/** Returns the creator of the other end in @ret; from now on each datagram has its sender's credentials. The
 * kernel is asked to refuse descriptors, which it can since 6.16.
 * @send_buffer bytes of answers that may be waiting
 * Returns 0 or a negative errno. */
int peer_socket_pin(int fd, int send_buffer, struct ucred *ret);

/** Waits for one datagram of @peer. Returns its length or
 *	0		the end, or an empty datagram, which looks the same
 *	-EMSGSIZE	it was longer than @size
 *	-EBADMSG	it carried something, or lacks its sender's credentials
 *	-EACCES		another process sent it
 *	-EAGAIN		nothing came within the socket's SO_RCVTIMEO
 * or another negative errno. A descriptor that was sent along does not arrive. If another process that
 * shares @fd has switched SO_PASSCRED off, it does, with -EBADMSG: the process should end then. */
ssize_t peer_socket_receive(int fd, const struct ucred *peer, void *buf, size_t size);

/** Sends @n bytes if the peer takes them at once; else -EAGAIN or another negative errno. */
int peer_socket_send(int fd, const void *bytes, size_t n);

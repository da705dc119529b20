#pragma once
/* The socket to the agent: who is at its other end, one datagram in, one out. */

#include "helper.h"
#include "wire.h"

#include "base/error.h"

/** Pin the peer of descriptor 3: it must be @ruid. Fills h->peer_uid and h->peer_pid. */
enum status channel_open(struct helper *h, uint32_t ruid, struct error *err);

/** Wait for one datagram.
 *
 * @ret_n its length
 * Returns REASON_NONE, REASON_CLOSED at the end, or the violation: truncated, carrying anything but the
 * sender's credentials, or sent by another process than the one that was there at the start. */
enum reason channel_receive(const struct helper *h, void *buf, size_t size, size_t *ret_n);

/** Send @n bytes; false when the agent does not take them at once. */
bool channel_send(const void *bytes, size_t n);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A listening socket, unix or TCP, that hands over what it accepts. */

#include "base/error.h"
#include "rpc/peer.h"

#include <stdint.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

struct listener;

/** A connection: @fd is non-blocking and the callee's; @peer has what the kernel knows of the other side. */
typedef void listener_accept_fn(int fd, const struct rpc_peer *peer, void *userdata);

enum status listener_new_unix(sd_event *event, const char *path, mode_t mode, listener_accept_fn *on_accept,
			      void *userdata, struct listener **ret, struct error *err);

/** @ret_port the port in use */
enum status listener_new_tcp(sd_event *event, const char *host, uint16_t port, listener_accept_fn *on_accept,
			     void *userdata, struct listener **ret, uint16_t *ret_port, struct error *err);

/** Closes; removes the socket file unless it was replaced. NULL is allowed. */
void listener_free(struct listener *listener);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* HTTP/2 on a transport. */

#include "rpc/h2.h"
#include "rpc/transport.h"

/** Move what @h2 has to send to @tr until that is full: the on_fill of both sides. */
enum status h2_fill(struct h2 *h2, struct transport *tr, struct error *err);

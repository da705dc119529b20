/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Users of this machine who are operators at the server's unix socket, without a certificate.
 *
 * Root's file names them (`listen { operators }`), and the kernel names the user who connects. The user ann
 * is the caller operator/ann: rights, audit and calls of a follower to its leader treat her as the holder of
 * that certificate. */

#include "base/error.h"
#include "model/node.h"
#include "rpc/peer.h"

#include <stddef.h>
#include <sys/types.h>

enum { LOCAL_OPERATORS_MAX = 16 };

struct local_operators {
	size_t n;
	struct {
		uid_t uid;
		char name[NODE_ID_MAX + 1];
	} list[LOCAL_OPERATORS_MAX];
};

/** Look up the uids of @names, which ends with an empty one unless it is full.
 * STATUS_FAILED_PRECONDITION for a user that this machine does not have, and for the one whose uid the kernel
 * shows instead of all that a user namespace does not have. */
enum status local_operators_find(const char names[static LOCAL_OPERATORS_MAX][NODE_ID_MAX + 1],
				 struct local_operators *ret, struct error *err);

/** The mode of the socket. If root is the only operator, the kernel refuses all others. */
mode_t local_operators_mode(const struct local_operators *operators);

/** Make @peer, who is at a unix socket, the operator of @cluster that its uid is.
 * STATUS_PERMISSION_DENIED for other users. */
enum status local_operators_name(const struct local_operators *operators, const char *cluster,
				 struct rpc_peer *peer, struct error *err);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Enrolment: an operator makes a token for the name of a node, or for an identity of another role, whose
 * holder gets a certificate for it, once and in time. The token is stored as a hash. Only callers with all
 * rights make one, so that no line gives more than its maker has. */

#include "rpc/server.h"

#include <stddef.h>

enum {
	ENROLLMENTS_MAX = 1024,
	ENROLLMENT_TTL_DEFAULT_S = 600,
	ENROLLMENT_TTL_MIN_S = 10,
	ENROLLMENT_TTL_MAX_S = 7 * 24 * 3600,
};

struct server;

/** How many unused lines end when the change of the CA that is under way is finished: all that were made
 * before it, or by a certificate of the former CA. Costs the number of lines. */
size_t enrollments_ending(struct server *server);

rpc_unary_fn enrollments_handle_create;
rpc_unary_fn enrollments_handle_enroll;

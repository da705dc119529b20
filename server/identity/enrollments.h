/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Enrolment: an operator makes a token for a node's name, and the node gets its first certificate for it,
 * once and in time. The token is stored as a hash. */

#include "rpc/server.h"

enum {
	ENROLLMENTS_MAX = 1024,
	ENROLLMENT_TTL_DEFAULT_S = 600,
	ENROLLMENT_TTL_MIN_S = 10,
	ENROLLMENT_TTL_MAX_S = 7 * 24 * 3600,
};

rpc_unary_fn enrollments_handle_create;
rpc_unary_fn enrollments_handle_enroll;

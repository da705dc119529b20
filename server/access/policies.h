/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Policies: what the tokens that name them may do. */

#include "rpc/server.h"

enum {
	POLICIES_MAX = 1000,
};

rpc_unary_fn policies_handle_put;
rpc_unary_fn policies_handle_list;
rpc_unary_fn policies_handle_delete;

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The Operator service's own methods: the server's status, the servers that share its store, and the
 * audit. */

#include "rpc/server.h"

rpc_unary_fn operator_handle_status;
rpc_unary_fn operator_handle_list_audit;
rpc_unary_fn operator_handle_list_members;
rpc_unary_fn operator_handle_step_down;

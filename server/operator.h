/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The Operator service's own methods: how the server is, which others share its store, and what was recorded.
 */

#include "rpc/server.h"

rpc_unary_fn operator_handle_status;
rpc_unary_fn operator_handle_list_audit;
rpc_unary_fn operator_handle_list_members;
rpc_unary_fn operator_handle_step_down;

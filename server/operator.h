/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The Operator service's own methods: how the server is, and what was recorded. */

#include "rpc/server.h"

rpc_unary_fn operator_handle_status;
rpc_unary_fn operator_handle_list_audit;

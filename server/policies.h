#pragma once
/* Policies: what the tokens that name them may do. */

#include "rpc/server.h"

enum {
	POLICIES_MAX = 1000,
	POLICIES_PAGE_MAX = 1000,
	POLICIES_PAGE_BYTES_MAX = 512 * 1024, /* below the largest message */
};

rpc_unary_fn policies_handle_put;
rpc_unary_fn policies_handle_list;
rpc_unary_fn policies_handle_delete;

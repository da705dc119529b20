/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Tokens of people and programs: made once, shown once, stored as a hash. */

#include "rpc/server.h"

#include <holdfast/v1/operator.pb-c.h>
#include <stdbool.h>
#include <stdint.h>

struct server;

enum {
	TOKENS_MAX = 4096,
	TOKEN_NAME_MAX = 64,
	TOKEN_LIFE_DEFAULT_DAYS = 90,
	TOKEN_SECRET_BYTES = 32, /* of randomness; "hf_" and twice as many hex digits are shown */
	TOKEN_SECRET_SIZE = 3 + 2 * TOKEN_SECRET_BYTES + 1,
};

/** Name of a token that is good and has the policy, or NULL. Walks the tokens, of which there are at most
 * TOKENS_MAX: for who deletes a policy. */
const Holdfast__V1__Token *tokens_with_policy(struct server *server, const char *policy);

enum { TOKENS_WARN_DAYS = 7, TOKENS_WARNING_SIZE = 512 };

/** Names the token that ends first, in less than a week and in the last quarter of its life. False: no token
 * does. Walks the tokens. */
bool tokens_warning(struct server *server, char ret[static TOKENS_WARNING_SIZE]);

rpc_unary_fn tokens_handle_bootstrap;
rpc_unary_fn tokens_handle_create;
rpc_unary_fn tokens_handle_list;
rpc_unary_fn tokens_handle_revoke;
rpc_unary_fn tokens_handle_who_am_i;

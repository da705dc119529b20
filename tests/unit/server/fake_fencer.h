/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A fencer's side of a session, under the test's control: keeps the orders that come. It has the switch of
 * node n1. */

#include "callers.h"

#include <fence_order.h>
#include <holdfast/v1/fences.pb-c.h>

#define FENCES &holdfast__v1__fences__descriptor

enum { ORDERS_MAX = 8 };

struct fake_fencer {
	struct caller_client caller;
	struct rpc_stream *stream; /* NULL: not connected */
	bool is_welcome;
	enum status closed_status;
	struct fence_order orders[ORDERS_MAX];
	size_t n;
	const char *keys; /* borrowed; of 4 bytes each, in its next hello; NULL: shows none */
	size_t n_keys;	  /* 0: one */
};

/** Open the stream without hello. */
void fake_fencer_dial(struct fake_fencer *fencer);

/** Say hello with @error as the outcome of the last look at the switch; empty: it succeeded. */
void fake_fencer_hello(struct fake_fencer *fencer, const char *error);

/** Both, and wait for welcome or for the end. */
void fake_fencer_connect(struct fake_fencer *fencer, const char *error);

/** Answer @order with the outcome in @like. */
void fake_fencer_answer(struct fake_fencer *fencer, const struct fence_order *order,
			const Holdfast__V1__FenceAnswer *like);

/** Off, and a later status off. */
Holdfast__V1__FenceAnswer fake_fencer_proof(void);
void fake_fencer_prove(struct fake_fencer *fencer, const struct fence_order *order);

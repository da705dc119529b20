/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Asking the server for a volume: Volumes.Claim, with the answer checked before anything trusts it. */

#include "alloc/step.h"
#include "base/error.h"
#include "rpc/client.h"

struct claim_call;

/** @grant borrowed, NULL on failure with the cause in @err. The call is freed afterwards. */
typedef void claim_done_fn(const struct claim_grant *grant, const struct error *err, void *userdata);

struct claim_request {
	const struct alloc *alloc; /* borrowed until done or cancelled */
	uint32_t volume;	   /* index of the volume request */
	const char *node_id;	   /* borrowed; the grant must be for this node ... */
	const char *boot_id;	   /* ... and for this boot */
	uint64_t timeout_us;
};

/** @ret for claim_call_cancel(), until @done ran */
enum status claim_call_start(struct rpc_client *client, const struct claim_request *request,
			     claim_done_fn *done, void *userdata, struct claim_call **ret, struct error *err);

/** Forget it: @done does not run; the server may have granted nevertheless. NULL is allowed. */
void claim_call_cancel(struct claim_call *call);

/** Is the failure of a claim one that passes by itself (no server, no answer, plugin not ready)? */
bool claim_error_is_passing(enum status status);

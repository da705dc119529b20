/* SPDX-License-Identifier: Apache-2.0 */
/* The action for a lost node: checks of a block, and the choice between that of a volume and of its holder.
 */

#include "model/node_loss.h"

#define WAIT HOLDFAST__V1__NODE_LOSS_ACTION__NODE_LOSS_ACTION_WAIT
#define POWER HOLDFAST__V1__NODE_LOSS_ACTION__NODE_LOSS_ACTION_POWER_FENCE
#define NETWORK HOLDFAST__V1__NODE_LOSS_ACTION__NODE_LOSS_ACTION_NETWORK_FENCE

enum status node_loss_check(const Holdfast__V1__OnNodeLoss *loss, bool is_native, struct error *err)
{
	if (!loss)
		return STATUS_OK;
	if (loss->do_ != WAIT && loss->do_ != POWER && loss->do_ != NETWORK)
		return error_invalid(err, "on_node_loss.do", "it is wait, power_fence or network_fence");
	if (loss->do_ == NETWORK && is_native)
		return error_invalid(err, "on_node_loss.do",
				     "network_fence is for volumes of a CSI plugin; power_fence is for all");
	if (loss->do_ != WAIT &&
	    (loss->after_ms < NODE_LOSS_AFTER_MIN_MS || loss->after_ms > NODE_LOSS_AFTER_MAX_MS))
		return error_invalid(err, "on_node_loss.after", "with a fence it is %ds to %dh",
				     NODE_LOSS_AFTER_MIN_MS / 1000, NODE_LOSS_AFTER_MAX_MS / 3600000);
	return STATUS_OK;
}

bool node_loss_fences(const Holdfast__V1__OnNodeLoss *loss)
{
	return loss && loss->do_ != WAIT;
}

const Holdfast__V1__OnNodeLoss *node_loss_choose(const Holdfast__V1__OnNodeLoss *volume,
						 const Holdfast__V1__OnNodeLoss *holder, bool is_native)
{
	const Holdfast__V1__OnNodeLoss *chosen =
		holder && !(is_native && holder->do_ == NETWORK) ? holder : volume;

	return node_loss_fences(chosen) ? chosen : NULL;
}

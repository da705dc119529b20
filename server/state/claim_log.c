/* SPDX-License-Identifier: Apache-2.0 */
#include "state/claim_log.h"

const struct log_ctx *claim_log(struct claim_log *log, const struct claim *claim, const char *op,
				enum log_event event, const struct error *err)
{
	volume_wire_name(claim->namespace, claim->volume_id, log->wire_volume);
	log->ctx = (struct log_ctx){
		.volume = claim->volume_id,
		.wire_volume = log->wire_volume,
		.alloc = claim->allocation_id,
		.node = claim->node_id,
		.claim = claim->id,
		.plugin = claim->plugin_id[0] != '\0' ? claim->plugin_id : NULL,
		.op = op,
		.evidence = claim->evidence != EVIDENCE_NONE ? evidence_name(claim->evidence) : NULL,
		.generation = claim->generation,
		.event = event,
		.err = err,
	};
	return &log->ctx;
}

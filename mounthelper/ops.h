/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The operations, one per file, and the frame around them: limits, admission, lock, intent record, action,
 * result record, reply. */

#include "admission.h"
#include "helper.h"
#include "outcome.h"
#include "wire.h"

/** Handlers run with the volume's lock held and the intent on record. They leave either nothing attached or
 * the requested mount, and the same request again succeeds. Source: CSI NodeStageVolume and friends. */
typedef struct outcome op_handler(struct helper *h, const union mh_request *request,
				  const struct admission *admission);
op_handler op_stage;
op_handler op_publish;
op_handler op_unpublish;
op_handler op_unstage;
void op_list(struct helper *h, const struct mh_list *req, struct mh_list_reply *reply);

/** Returns the bytes of a tmpfs @source that count against max_tmpfs_total: whole pages; 0 for other classes.
 */
uint64_t source_tmpfs_bytes(const struct mh_source *source);

/* The answer that the caller must send. */
union mh_answer {
	struct mh_header header;
	struct mh_reply reply;
	struct mh_list_reply list;
};

/** Run one decoded request to its answer.
 * Returns REASON_NONE to continue, or why the helper must end after sending. */
enum reason ops_run(struct helper *h, const union mh_request *req, union mh_answer *ret);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The fields that every log line about a claim has, so that one filter shows a volume's life. */

#include "log/log.h"
#include "model/claim.h"
#include "model/volume.h"

struct claim_log {
	struct log_ctx ctx;
	char wire_volume[WIRE_VOLUME_SIZE]; /* that ctx points to */
};

/** Fills @log with @claim, borrowed while it is used. Returns its context. */
const struct log_ctx *claim_log(struct claim_log *log, const struct claim *claim, const char *op,
				enum log_event event, const struct error *err);

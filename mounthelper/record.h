#pragma once
/* What goes on record: the helper's own life, and intent and result of each operation. All return 0 or a
 * negative errno of the trail. */

#include "admission.h"
#include "helper.h"
#include "outcome.h"
#include "wire.h"

/** Record START with what this process is and found, STOP, or VIOLATION with its reason. */
int record_start(struct helper *h, uint32_t instance, bool container, uint32_t staged, uint32_t published);
int record_end(struct helper *h, const char *event, enum reason reason, uint64_t seq);

int record_refusal(struct helper *h, const union mh_request *req, enum reason reason, uint64_t *ret_rec);
int record_intent(struct helper *h, const union mh_request *req, const struct admission *admission,
		  uint64_t *ret_rec);
int record_result(struct helper *h, const union mh_request *req, const struct admission *admission,
		  const struct outcome *outcome, bool degraded, uint64_t *ret_rec);

/** One record for the refusals that were only counted, when their window is over or the helper ends. */
void record_refusals_summary(struct helper *h, uint64_t now_us, bool at_end);

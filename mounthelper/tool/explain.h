/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Which lines of a policy allow or refuse a request. */

#include "policy.h"

enum { ANSWER_LINES = 12, ANSWER_TEXT_SIZE = 512 };

struct question {
	uint16_t op;		 /* MH_OP_STAGE, MH_OP_PUBLISH, MH_OP_UNPUBLISH, MH_OP_UNSTAGE */
	const char *profile;	 /* of STAGE and PUBLISH */
	struct mh_source source; /* of STAGE; class 0: the profile's, with the most that it allows */
	bool read_only;
	bool exec;
	bool detach;
	uint8_t slot;
	uint8_t propagation;
};

struct answer_line {
	unsigned int line; /* of the policy */
	char text[ANSWER_TEXT_SIZE];
};

struct answer {
	enum reason reason; /* REASON_NONE: allowed */
	bool needs_ticket;  /* of the claim server, in addition */
	uint32_t n_lines;
	struct answer_line lines[ANSWER_LINES]; /* refused: the last one has the cause */
};

/** Computes the helper's decision for @agent.
 *
 * @text the policy that @agent is of, which must have been accepted
 * Tickets and facts from the kernel are no part of the answer. */
void explain(const char *text, size_t n, const struct agent_policy *agent, const struct question *question,
	     struct answer *ret);

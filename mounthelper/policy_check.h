#pragma once
/* Consistency of what the policy's parser read. Both return NULL, or what is wrong. */

#include "policy.h"

/** Do class, file system, trust and options of @profile go together? */
const char *policy_check_profile(const struct profile *profile);

/** Is @agent complete, and separate from itself and from every agent already in @policy? */
const char *policy_check_agent(const struct policy *policy, const struct agent_policy *agent);

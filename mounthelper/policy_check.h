#pragma once
/* Consistency of what the policy's parser read: each returns NULL, or what is wrong. */

#include "policy.h"

/** Do class, file system, trust and options of @profile go together? */
const char *policy_check_profile(const struct profile *profile);

/** Is @agent consistent by itself, and are its uids apart from those of every agent already in @policy? */
const char *policy_check_agent(const struct policy *policy, const struct agent_policy *agent);

/** Is no tree, log, lock_dir or host volume of @policy below another, but for host volumes below each other?
 * @ret_line of the later block when not */
const char *policy_check_paths(const struct policy *policy, unsigned int *ret_line);

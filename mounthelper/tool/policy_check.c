/* SPDX-License-Identifier: Apache-2.0 */
#include "policy_parse.h"

#include "base/path.h"

const char *policy_check_agent(const struct policy *policy, const struct agent_policy *agent)
{
	if (agent->helper_uid == agent->uid)
		return "helper_uid must differ from the agent's uid";
	if (!agent->ticket_optional && agent->keys.n == 0)
		return "ticket = required needs a ticket_key";
	for (uint32_t i = 0; i < policy->n_agents; i++)
		if (agent->uid == policy->agents[i].helper_uid || policy->agents[i].uid == agent->helper_uid)
			return "an agent has the uid of another agent's helper";
	for (uint32_t i = 0; i < agent->n_profiles; i++)
		if (agent->profiles[i].max_size > agent->max_tmpfs_total)
			return "a profile's max_size is above max_tmpfs_total";
	return NULL;
}

/* The trees, logs and lock_dirs of all agents, then the host volumes; NULL for other profiles. */
static const char *nth_path(const struct policy *policy, uint32_t i, unsigned int *ret_line)
{
	const struct profile *profile;

	if (i < 4 * policy->n_agents) {
		const struct agent_policy *agent = &policy->agents[i / 4];

		*ret_line = agent->line;
		return (const char *const[]){agent->stage_base, agent->publish_base, agent->log,
					     agent->lock_dir}[i % 4];
	}
	profile = &policy->profiles[i - 4 * policy->n_agents];
	*ret_line = profile->line;
	return profile->class == MH_CLASS_BIND ? profile->path : NULL;
}

const char *policy_check_paths(const struct policy *policy, unsigned int *ret_line)
{
	const uint32_t n = 4 * policy->n_agents;
	unsigned int line[2];

	for (uint32_t i = 0; i < n; i++) {
		for (uint32_t j = i + 1; j < n + policy->n_profiles; j++) {
			const char *a = nth_path(policy, i, &line[0]);
			const char *b = nth_path(policy, j, &line[1]);

			if (!b || !(path_is_within(a, b) || path_is_within(b, a)))
				continue;
			*ret_line = line[0] > line[1] ? line[0] : line[1];
			return "a stage_base, publish_base, log, lock_dir or path of a hostvol contains "
			       "another";
		}
	}
	return NULL;
}

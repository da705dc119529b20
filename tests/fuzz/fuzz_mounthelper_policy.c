/* The helper's policy: root writes it, but a mistake must be told, never half-taken. */

#include "policy.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct policy policy;
	struct error err = {.msg = ""};
	unsigned int line;
	enum status st = policy_parse("fuzz", (const char *)data, size, &policy, &line, &err);

	if (st != STATUS_OK) {
		assert(st == STATUS_INVALID_ARGUMENT && strncmp(err.msg, "fuzz:", 5) == 0);
		return 0;
	}
	assert(policy.n_agents > 0 && policy.n_agents <= POLICY_AGENT_MAX &&
	       policy.n_profiles <= 2 * POLICY_PROFILE_MAX);
	for (uint32_t i = 0; i < policy.n_agents; i++) {
		const struct agent_policy *agent = &policy.agents[i];

		assert(agent->helper_uid != 0 && agent->helper_gid != 0 && agent->uid != agent->helper_uid);
		assert(agent->ticket_optional || agent->keys.n > 0);
		assert(agent->first_profile + agent->n_profiles <= policy.n_profiles);
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The helper's policy: root writes it, but a mistake must be told, never half-taken. */

#include "policy_parse.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_profile(const struct profile *profile, const struct agent_policy *agent)
{
	assert(profile->trust != TRUST_UNTRUSTED || (!profile->exec && !profile->shared));
	switch ((enum mh_class)profile->class) {
	case MH_CLASS_BLOCK:
		assert(profile->n_by_id > 0 && profile->n_by_id <= POLICY_RULE_MAX);
		assert(profile->trust != TRUST_UNSET && fs_types[profile->kind].class == MH_CLASS_BLOCK);
		return;
	case MH_CLASS_TMPFS:
		assert(profile->max_size > 0 && profile->max_size <= agent->max_tmpfs_total);
		assert(profile->kind == FS_TMPFS && profile->max_inodes > 0);
		return;
	case MH_CLASS_NFS4:
		assert(profile->n_servers > 0 && profile->n_servers <= POLICY_RULE_MAX);
		assert(profile->n_exports > 0 && profile->n_exports <= POLICY_RULE_MAX);
		assert(profile->kind == FS_NFS4 && profile->sec < NFS_SEC_N && profile->vers < NFS_VERS_N);
		return;
	case MH_CLASS_BIND:
		assert(profile->path[0] == '/' && profile->path[1] != '\0' && profile->kind == FS_ANY);
		return;
	case MH_CLASS_CSI:
		assert(profile->kind == FS_ANY && profile->options == 0);
		return;
	case MH_CLASS_N:
		break;
	}
	assert(false);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct policy policy;
	static struct policy_file file;
	struct error err = {.msg = ""};
	unsigned int line;
	enum status status = policy_parse("fuzz", (const char *)data, size, &policy, &line, &err);

	if (status != STATUS_OK) {
		assert(status == STATUS_INVALID_ARGUMENT && strncmp(err.msg, "fuzz:", 5) == 0);
		return 0;
	}
	assert(policy.n_agents > 0 && policy.n_agents <= POLICY_AGENT_MAX &&
	       policy.n_profiles <= 2 * POLICY_PROFILE_MAX);
	status = policy_compile("fuzz", (const char *)data, size, &file, &line, &err);
	assert(status == STATUS_OK && policy_file_check(&file, sizeof(file)));
	for (uint32_t i = 0; i < policy.n_agents; i++) {
		const struct agent_policy *agent = &policy.agents[i];

		assert(agent->helper_uid != 0 && agent->helper_gid != 0 && agent->uid != agent->helper_uid);
		assert(agent->ticket_optional || agent->keys.n > 0);
		assert(agent->profiles + agent->n_profiles <= policy.profiles + policy.n_profiles);
		for (uint32_t p = 0; p < agent->n_profiles; p++)
			check_profile(&agent->profiles[p], agent);
	}
	return 0;
}

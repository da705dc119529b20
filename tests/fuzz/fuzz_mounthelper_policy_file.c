/* SPDX-License-Identifier: Apache-2.0 */
/* The compiled policy with bytes of it changed: three bytes of input say where, one says to what. The digest
 * is left out, or nothing would be reached. What is accepted can be used. */

#include "policy_parse.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char text[] =
	"agent 995 { cluster = c; node = n; helper_uid = 994; helper_gid = 994; ticket = optional\n"
	"stage_base = /s; publish_base = /p; log = /l; lock_dir = /k\n"
	"profile b { class = block; fstype = ext4; trust = trusted; by_id = x; by_id = exact:y }\n"
	"profile t { class = tmpfs; max_size = 4KiB; selinux_context = u:r:t:s0 }\n"
	"profile n { class = nfs4; server = 10.0.0.0/8; server = fd00::/16; export = /e }\n"
	"profile c { class = csi }\n"
	"hostvol h { path = /d; owner_uid = 0 } }\n";

static void use(const struct agent_policy *agent)
{
	assert(agent->uid != 0 && agent->helper_uid != 0 && agent->uid != agent->helper_uid);
	assert(strlen(agent->log) < sizeof(agent->log) && agent->keys.n <= POLICY_KEY_MAX);
	for (uint32_t i = 0; i < agent->n_profiles; i++) {
		const struct profile *profile = &agent->profiles[i];
		struct mh_source source = {.class = (uint8_t)profile->class};

		assert(profile->class > 0 && profile->class < MH_CLASS_N && profile->kind <= FS_ANY);
		assert(profile->trust != TRUST_UNTRUSTED || (!profile->exec && !profile->shared));
		(void)profile_admit_source(profile, &source);
		assert(policy_profile(agent, profile->name));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct policy_file file, compiled;
	unsigned int line;

	if (compiled.magic == 0 &&
	    policy_compile("fuzz", text, sizeof(text) - 1, &compiled, &line, NULL) != STATUS_OK)
		abort();
	file = compiled;
	for (size_t i = 0; i + 4 <= size; i += 4) {
		size_t at = (size_t)data[i] << 16 | (size_t)data[i + 1] << 8 | data[i + 2];

		((uint8_t *)&file.policy)[at % sizeof(file.policy)] = data[i + 3];
	}
	if (!policy_check(&file.policy))
		return 0;
	for (uint32_t i = 0; i < file.policy.n_agents; i++)
		use(&file.policy.agents[i]);
	return 0;
}

#include "policy_check.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <string.h>

bool by_id_is_valid(const char *s)
{
	size_t n = strnlen(s, MH_BY_ID_SIZE);

	if (n == 0 || n > 128 || s[0] == '.')
		return false;
	for (size_t i = 0; i < n; i++) {
		bool alnum = (s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') ||
			     (s[i] >= '0' && s[i] <= '9');

		if (!alnum && !strchr(":._+-", s[i]))
			return false;
	}
	return true;
}

const struct agent_policy *policy_agent(const struct policy *policy, uint32_t uid)
{
	for (uint32_t i = 0; i < policy->n_agents; i++)
		if (policy->agents[i].uid == uid)
			return &policy->agents[i];
	return NULL;
}

const struct profile *policy_profile(const struct policy *policy, const struct agent_policy *agent,
				     const char *name)
{
	for (uint32_t i = 0; i < agent->n_profiles; i++)
		if (str_eq(policy->profiles[agent->first_profile + i].name, name))
			return &policy->profiles[agent->first_profile + i];
	return NULL;
}

static const char *check_options(const struct profile *profile)
{
	for (int i = 0; i < FS_OPTION_N; i++)
		if ((profile->options & UINT32_C(1) << i) != 0 &&
		    (fs_options[i].kinds & UINT32_C(1) << profile->kind) == 0)
			return "options has one that this fstype does not know";
	return NULL;
}

const char *policy_check_profile(const struct profile *profile)
{
	const struct fs_type *type = &fs_types[profile->kind];

	if (profile->class != type->class)
		return "class and fstype do not go together";
	if (type->class == MH_CLASS_BLOCK && profile->trust == TRUST_UNSET)
		return "a block profile needs trust = trusted or untrusted";
	if (type->class == MH_CLASS_BLOCK && profile->n_by_id == 0)
		return "a block profile needs at least one by_id";
	if (type->class != MH_CLASS_BLOCK && profile->n_by_id != 0)
		return "by_id belongs to block profiles";
	if (type->class == MH_CLASS_TMPFS && profile->max_size == 0)
		return "a tmpfs profile needs max_size";
	if (type->class != MH_CLASS_TMPFS && profile->max_size != 0)
		return "max_size belongs to tmpfs profiles";
	if (type->always_read_only && !profile->read_only)
		return "this fstype needs ro = yes";
	if (profile->trust == TRUST_UNTRUSTED && !type->fit_for_untrusted)
		return "trust = untrusted needs fstype = erofs or squashfs";
	if (profile->trust == TRUST_UNTRUSTED && (profile->exec || profile->shared))
		return "trust = untrusted forbids exec and shared";
	return check_options(profile);
}

static bool is_within(const char *path, const char *base)
{
	size_t n = strlen(base);

	return str_starts_with(path, base) && (path[n] == '\0' || path[n] == '/');
}

static bool overlap(const char *a, const char *b)
{
	return is_within(a, b) || is_within(b, a);
}

static const char *check_separate(const struct agent_policy *a, const struct agent_policy *b)
{
	const char *const paths_a[] = {a->stage_base, a->publish_base, a->log, a->lock_dir};
	const char *const paths_b[] = {b->stage_base, b->publish_base, b->log, b->lock_dir};

	for (size_t i = 0; i < ARRAY_SIZE(paths_a); i++)
		for (size_t j = 0; j < ARRAY_SIZE(paths_b); j++)
			if (overlap(paths_a[i], paths_b[j]))
				return "stage_base, publish_base, log and lock_dir overlap with another "
				       "agent's";
	if (a->uid == b->helper_uid || b->uid == a->helper_uid)
		return "an agent has the uid of another agent's helper";
	return NULL;
}

const char *policy_check_agent(const struct policy *policy, const struct agent_policy *agent)
{
	const char *const paths[] = {agent->stage_base, agent->publish_base, agent->log, agent->lock_dir};
	const char *complaint = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		for (size_t j = i + 1; j < ARRAY_SIZE(paths); j++)
			if (overlap(paths[i], paths[j]))
				return "stage_base, publish_base, log and lock_dir must not contain each "
				       "other";
	if (agent->helper_uid == agent->uid)
		return "helper_uid must differ from the agent's uid";
	if (!agent->ticket_optional && agent->keys.n == 0)
		return "ticket = required needs a ticket_key";
	for (uint32_t i = 0; i < policy->n_agents && !complaint; i++)
		complaint = check_separate(agent, &policy->agents[i]);
	return complaint;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "model/policy.h"

#include "base/cleanup.h"
#include "base/id.h"
#include "base/names.h"
#include "base/str.h"
#include "model/volume.h"

#include <stdbool.h>
#include <string.h>

#define DENY "deny"

static const char *const capability_names[CAPABILITY_N] = {
	[CAPABILITY_LIST_VOLUME] = "csi-list-volume",
	[CAPABILITY_READ_VOLUME] = "csi-read-volume",
	[CAPABILITY_MOUNT_VOLUME] = "csi-mount-volume",
	[CAPABILITY_WRITE_VOLUME] = "csi-write-volume",
	[CAPABILITY_REGISTER_PLUGIN] = "csi-register-plugin",
	[CAPABILITY_RUN_UNIT] = "alloc-run-unit",
	[CAPABILITY_ATTEST_VOLUME] = "csi-attest-volume",
	[CAPABILITY_ADOPT_VOLUME] = "csi-adopt-volume",
	[CAPABILITY_LIST_JOBS] = "list-jobs",
	[CAPABILITY_READ_JOB] = "read-job",
	[CAPABILITY_SUBMIT_JOB] = "submit-job",
	[CAPABILITY_ALLOC_EXEC] = "alloc-exec",
	[CAPABILITY_READ_LOGS] = "read-logs",
};

static const char *const level_names[POLICY_LEVEL_N] = {
	[POLICY_NONE] = "",	  [POLICY_LIST] = "list",   [POLICY_READ] = "read",
	[POLICY_WRITE] = "write", [POLICY_FENCE] = "fence",
};

#define COARSE_READ                                                                        \
	(CAPABILITY_BIT(CAPABILITY_LIST_VOLUME) | CAPABILITY_BIT(CAPABILITY_READ_VOLUME) | \
	 CAPABILITY_BIT(CAPABILITY_LIST_JOBS) | CAPABILITY_BIT(CAPABILITY_READ_JOB))
#define COARSE_WRITE                                                                                       \
	(COARSE_READ | CAPABILITY_BIT(CAPABILITY_MOUNT_VOLUME) | CAPABILITY_BIT(CAPABILITY_WRITE_VOLUME) | \
	 CAPABILITY_BIT(CAPABILITY_SUBMIT_JOB) | CAPABILITY_BIT(CAPABILITY_ALLOC_EXEC) |                   \
	 CAPABILITY_BIT(CAPABILITY_READ_LOGS))

/* --- is it one? --- */

static enum status invalid(struct error *err, const char *policy, const char *what, const char *value,
			   const char *wanted)
{
	return error_set(err, STATUS_INVALID_ARGUMENT, 0, "policy %.64s: %s: '%.64s' is not %s", policy, what,
			 value, wanted);
}

/* A namespace, or the beginning of one and "*". */
static bool is_pattern(const char *s)
{
	char name[NAMESPACE_MAX + 2];
	size_t n = strlen(s);

	if (n == 0 || n > NAMESPACE_MAX + 1)
		return false;
	(void)str_copy(name, sizeof(name), s);
	if (s[n - 1] != '*')
		return id_is_name(name, NAMESPACE_MAX);
	name[n - 1] = '\0';
	return n == 1 || id_is_name(name, NAMESPACE_MAX);
}

static enum status check_rule(const char *policy, const Holdfast__V1__NamespaceRule *rule, struct error *err)
{
	if (!is_pattern(rule->namespace_))
		return invalid(err, policy, "namespace", rule->namespace_,
			       "a namespace, or the beginning of one and *");
	if (rule->policy[0] != '\0' && !str_eq(rule->policy, "read") && !str_eq(rule->policy, "write") &&
	    !str_eq(rule->policy, DENY))
		return invalid(err, policy, "policy of a namespace", rule->policy, "read, write or deny");
	if (rule->n_capabilities > POLICY_CAPABILITIES_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "policy %.64s: namespace %.65s: more than %d capabilities", policy,
				 rule->namespace_, POLICY_CAPABILITIES_MAX);
	for (size_t i = 0; i < rule->n_capabilities; i++)
		if (!str_eq(rule->capabilities[i], DENY) &&
		    names_find(capability_names, CAPABILITY_N, rule->capabilities[i]) < 0)
			return invalid(
				err, policy, "capability", rule->capabilities[i],
				"csi-list-volume, csi-read-volume, csi-mount-volume, "
				"csi-write-volume, csi-register-plugin, alloc-run-unit, csi-attest-volume, "
				"csi-adopt-volume, list-jobs, read-job, submit-job, alloc-exec, read-logs or "
				"deny");
	return STATUS_OK;
}

enum status policy_validate(const Holdfast__V1__AccessPolicy *policy, struct error *err)
{
	enum status status = STATUS_OK;

	if (!id_is_name(policy->name, POLICY_NAME_MAX))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "name: '%.64s' is not a policy's name (A-Z a-z 0-9 _ and -, up to %d)",
				 policy->name, POLICY_NAME_MAX);
	if (strlen(policy->description) > POLICY_DESCRIPTION_MAX || !str_is_text(policy->description))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "policy %s: the description is not text of up to %d bytes", policy->name,
				 POLICY_DESCRIPTION_MAX);
	if (policy->n_namespaces > POLICY_RULES_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "policy %s: more than %d rules for namespaces", policy->name,
				 POLICY_RULES_MAX);
	for (size_t i = 0; i < policy->n_namespaces && status == STATUS_OK; i++)
		status = check_rule(policy->name, policy->namespaces[i], err);
	if (status != STATUS_OK)
		return status;
	if (policy->plugin[0] != '\0' && !str_eq(policy->plugin, "list") && !str_eq(policy->plugin, "read"))
		return invalid(err, policy->name, "plugin", policy->plugin, "list or read");
	if (policy->node[0] != '\0' && !str_eq(policy->node, "read") && !str_eq(policy->node, "write") &&
	    !str_eq(policy->node, "fence"))
		return invalid(err, policy->name, "node", policy->node, "read, write or fence");
	if (policy->operator_[0] != '\0' && !str_eq(policy->operator_, "read") &&
	    !str_eq(policy->operator_, "write"))
		return invalid(err, policy->name, "operator", policy->operator_, "read or write");
	if (policy->backup[0] != '\0' && !str_eq(policy->backup, "kit") && !str_eq(policy->backup, "copy"))
		return invalid(err, policy->name, "backup", policy->backup, "kit or copy");
	return STATUS_OK;
}

/* --- what it gives --- */

struct grant {
	uint32_t capabilities;
	bool denies;
};

static struct grant grant_of(const Holdfast__V1__NamespaceRule *rule)
{
	struct grant grant = {.denies = str_eq(rule->policy, DENY)};

	if (str_eq(rule->policy, "read"))
		grant.capabilities = COARSE_READ;
	else if (str_eq(rule->policy, "write"))
		grant.capabilities = COARSE_WRITE;
	for (size_t i = 0; i < rule->n_capabilities; i++) {
		int capability = names_find(capability_names, CAPABILITY_N, rule->capabilities[i]);

		if (capability >= 0)
			grant.capabilities |= CAPABILITY_BIT(capability);
		else
			grant.denies = true; /* the one other value, or one of a later version */
	}
	return grant;
}

/* How well the pattern fits: 0 not at all, more is better, the name itself is best. */
static size_t fit_of(const char *pattern, const char *namespace)
{
	size_t n = strlen(pattern);

	if (n > 0 && pattern[n - 1] == '*')
		return strncmp(pattern, namespace, n - 1) == 0 ? n : 0;
	return str_eq(pattern, namespace) ? SIZE_MAX : 0;
}

static uint32_t anywhere(const Holdfast__V1__AccessPolicy *const *policies, size_t n)
{
	uint32_t capabilities = 0;

	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; policies[i] && j < policies[i]->n_namespaces; j++) {
			struct grant grant = grant_of(policies[i]->namespaces[j]);

			capabilities |= grant.denies ? 0 : grant.capabilities;
		}
	return capabilities;
}

uint32_t policy_capabilities(const Holdfast__V1__AccessPolicy *const *policies, size_t n,
			     const char *namespace)
{
	struct grant sum = {0};
	size_t best = 0;

	if (!namespace)
		return anywhere(policies, n);
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; policies[i] && j < policies[i]->n_namespaces; j++) {
			const Holdfast__V1__NamespaceRule *rule = policies[i]->namespaces[j];
			size_t fit = fit_of(rule->namespace_, namespace);
			struct grant grant;

			if (fit == 0 || fit < best)
				continue;
			if (fit > best)
				sum = (struct grant){0};
			best = fit;
			grant = grant_of(rule);
			sum.capabilities |= grant.capabilities;
			sum.denies |= grant.denies;
		}
	return sum.denies ? 0 : sum.capabilities;
}

static enum policy_level level_of(const char *word)
{
	int level = names_find(level_names, POLICY_LEVEL_N, word);

	return level < 0 ? POLICY_NONE : (enum policy_level)level;
}

/* A copy can be read by who took it, a kit only by who has the key of its certificate. */
static enum policy_level backup_level_of(const char *word)
{
	if (str_eq(word, "copy"))
		return POLICY_WRITE;
	return str_eq(word, "kit") ? POLICY_READ : POLICY_NONE;
}

#define DEFINE_LEVEL(name, field, of)                                                             \
	enum policy_level name(const Holdfast__V1__AccessPolicy *const *policies, size_t n)       \
	{                                                                                         \
		enum policy_level highest = POLICY_NONE;                                          \
                                                                                                  \
		for (size_t i = 0; i < n; i++) {                                                  \
			enum policy_level level = policies[i] ? of(policies[i]->field) : highest; \
                                                                                                  \
			if (level > highest)                                                      \
				highest = level;                                                  \
		}                                                                                 \
		return highest;                                                                   \
	}

DEFINE_LEVEL(policy_plugin_level, plugin, level_of)
DEFINE_LEVEL(policy_node_level, node, level_of)
DEFINE_LEVEL(policy_operator_level, operator_, level_of)
DEFINE_LEVEL(policy_backup_level, backup, backup_level_of)

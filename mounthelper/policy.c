/* SPDX-License-Identifier: Apache-2.0 */
#include "policy.h"

#include "base/cleanup.h"
#include "base/id.h"
#include "base/path.h"
#include "base/str.h"

#include <assert.h>
#include <sodium.h>
#include <string.h>

const char *const nfs_sec_words[NFS_SEC_N] = {"sys", "krb5", "krb5i", "krb5p"};
const char *const nfs_vers_words[NFS_VERS_N] = {"4.2", "4.1"};

bool by_id_is_valid(const char *s)
{
	size_t n = strnlen(s, MH_BY_ID_SIZE);

	return n > 0 && n <= 128 && s[0] != '.' && str_is_made_of(s, ":._+-");
}

bool export_is_valid(const char *s)
{
	return strnlen(s, MH_EXPORT_SIZE) < MH_EXPORT_SIZE && path_is_normal(s) && str_is_made_of(s, "/._-");
}

bool policy_name_is_valid(const char *s)
{
	return id_is_name(s, TICKET_NODE_SIZE - 1);
}

bool policy_path_is_valid(const char *s)
{
	return path_is_normal(s) && s[1] != '\0';
}

bool policy_context_is_valid(const char *s)
{
	return str_is_made_of(s, "_:.,-") && s[0] >= 'a' && s[0] <= 'z';
}

/* One field of a struct, and what it may be. */
struct field {
	size_t at;
	size_t size;			    /* 1, 4 or 8: of a number; or of a text with its NUL */
	uint64_t min;			    /* of a number */
	uint64_t max;			    /* of a text: 1 if it may be empty */
	bool (*is_valid)(const char *text); /* of a text; NULL: a number */
};

#define SIZE_OF(type, field) sizeof(((const type *)NULL)->field)
#define NUMBER(type, field, low, high)                                       \
	{                                                                    \
		offsetof(type, field), SIZE_OF(type, field), low, high, NULL \
	}
#define TEXT(type, field, valid, may_be_empty)                                      \
	{                                                                           \
		offsetof(type, field), SIZE_OF(type, field), 0, may_be_empty, valid \
	}
#define UID_MAX (UINT32_MAX - 1)
#define LAST_LINE (POLICY_TEXT_MAX + 1)

#define A(field, low, high) NUMBER(struct agent_policy, field, low, high)
static const struct field agent_fields[] = {
	A(uid, 1, UID_MAX),
	A(line, 1, LAST_LINE),
	TEXT(struct agent_policy, cluster, policy_name_is_valid, 0),
	TEXT(struct agent_policy, node, policy_name_is_valid, 0),
	A(helper_uid, 1, UID_MAX),
	A(helper_gid, 1, UID_MAX),
	TEXT(struct agent_policy, stage_base, policy_path_is_valid, 0),
	TEXT(struct agent_policy, publish_base, policy_path_is_valid, 0),
	TEXT(struct agent_policy, log, policy_path_is_valid, 0),
	TEXT(struct agent_policy, lock_dir, policy_path_is_valid, 0),
	A(ticket_optional, 0, 1),
	A(keys.n, 0, POLICY_KEY_MAX),
	A(audit_optional, 0, 1),
	A(sync_batch, 0, 1),
	A(container, 0, 1),
	A(allow_detach, 0, 1),
	A(max_staged, 1, 4096),
	A(max_published, 1, 32768),
	A(max_per_alloc, 1, 32),
	A(max_tmpfs_total, 4096, UINT64_C(1) << 60),
	A(ops_per_second, 1, 8000),
	A(burst, 1, 10000),
	A(starts_per_minute, 1, 6000),
	A(nfs_timeout_s, 1, 600),
};

#define P(field, low, high) NUMBER(struct profile, field, low, high)
static const struct field profile_fields[] = {
	TEXT(struct profile, name, id_is_plugin, 0),
	P(line, 1, LAST_LINE),
	P(class, 1, MH_CLASS_N - 1),
	P(kind, 0, FS_ANY),
	P(trust, TRUST_UNSET, TRUST_UNTRUSTED),
	P(read_only, 0, 1),
	P(exec, 0, 1),
	P(shared, 0, 1),
	P(needs_mount, 0, 1),
	P(options, 0, (UINT64_C(1) << FS_OPTION_N) - 1),
	TEXT(struct profile, selinux_context, policy_context_is_valid, 1),
	P(n_by_id, 0, POLICY_RULE_MAX),
	P(max_size, 0, UINT64_C(1) << 50),
	P(max_inodes, 0, UINT64_C(1) << 31),
	P(n_servers, 0, POLICY_RULE_MAX),
	P(n_exports, 0, POLICY_RULE_MAX),
	P(sec, 0, NFS_SEC_N - 1),
	P(vers, 0, NFS_VERS_N - 1),
	TEXT(struct profile, path, policy_path_is_valid, 1),
	P(owner_uid, 0, UID_MAX),
};

static const struct field by_id_fields[] = {
	NUMBER(struct by_id_rule, exact, 0, 1),
	TEXT(struct by_id_rule, text, by_id_is_valid, 0),
};

static const struct field export_fields[] = {{0, MH_EXPORT_SIZE, 0, 0, export_is_valid}};

static bool field_is_valid(const char *object, const struct field *field)
{
	const char *at = object + field->at;
	uint64_t number = 0;

	if (field->is_valid)
		return memchr(at, '\0', field->size) &&
		       ((field->max != 0 && at[0] == '\0') || field->is_valid(at));
	memcpy(&number, at, field->size); /* little-endian, and of a bool any byte */
	return number >= field->min && number <= field->max;
}

static bool fields_are_valid(const void *object, const struct field *fields, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!field_is_valid(object, &fields[i]))
			return false;
	return true;
}

#define FIELDS_ARE_VALID(object, fields) fields_are_valid(object, fields, ARRAY_SIZE(fields))

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && sizeof(bool) == 1, "field_is_valid()");

static bool server_is_valid(const struct server_rule *rule)
{
	return (rule->family == 4 && rule->prefix_bits <= 32) ||
	       (rule->family == 6 && rule->prefix_bits <= 128);
}

static bool rules_are_valid(const struct profile *profile)
{
	for (uint32_t i = 0; i < profile->n_by_id; i++)
		if (!FIELDS_ARE_VALID(&profile->by_id[i], by_id_fields))
			return false;
	for (uint32_t i = 0; i < profile->n_servers; i++)
		if (!server_is_valid(&profile->server[i]))
			return false;
	for (uint32_t i = 0; i < profile->n_exports; i++)
		if (!FIELDS_ARE_VALID(profile->export[i], export_fields))
			return false;
	return true;
}

/* Checks that kind of file system and path fit the class; else fs_types[] would be read beyond its end. */
static bool profile_is_valid(const struct profile *profile)
{
	const bool has_type = profile->class != MH_CLASS_BIND && profile->class != MH_CLASS_CSI;

	return FIELDS_ARE_VALID(profile, profile_fields) && rules_are_valid(profile) &&
	       has_type == (profile->kind != FS_ANY) &&
	       (profile->class == MH_CLASS_BIND) == (profile->path[0] != '\0') &&
	       !policy_check_profile(profile);
}

bool policy_check(struct policy *policy)
{
	if (policy->n_agents == 0 || policy->n_agents > POLICY_AGENT_MAX ||
	    policy->n_profiles > ARRAY_SIZE(policy->profiles) || policy->n_hostvols > policy->n_profiles)
		return false;
	for (uint32_t i = 0; i < policy->n_profiles; i++)
		if (!profile_is_valid(&policy->profiles[i]))
			return false;
	for (uint32_t i = 0; i < policy->n_agents; i++) {
		struct agent_policy *agent = &policy->agents[i];

		if (!FIELDS_ARE_VALID(agent, agent_fields) || agent->profiles ||
		    agent->helper_uid == agent->uid || (!agent->ticket_optional && agent->keys.n == 0) ||
		    agent->first_profile > policy->n_profiles ||
		    agent->n_profiles > policy->n_profiles - agent->first_profile)
			return false;
		agent->profiles = &policy->profiles[agent->first_profile];
	}
	return true;
}

/* Bytes of a file up to its last profile; after them there are zeroes. */
static size_t used_size(const struct policy_file *file)
{
	const size_t most = ARRAY_SIZE(file->policy.profiles);
	const size_t n = file->policy.n_profiles < most ? file->policy.n_profiles : most;

	return offsetof(struct policy_file, policy.profiles) + n * sizeof(struct profile);
}

void policy_file_digest(const struct policy_file *file, uint8_t ret[static TICKET_DIGEST_SIZE])
{
	const size_t from = offsetof(struct policy_file, text_digest);

	(void)crypto_hash_sha256(ret, (const unsigned char *)file + from, used_size(file) - from);
}

bool policy_file_check(struct policy_file *file, size_t n)
{
	uint8_t digest[TICKET_DIGEST_SIZE];

	if (n != sizeof(*file) || file->magic != POLICY_MAGIC || file->version != POLICY_VERSION ||
	    file->size != sizeof(*file) || file->reserved != 0)
		return false;
	policy_file_digest(file, digest);
	return memcmp(digest, file->digest, sizeof(digest)) == 0 &&
	       bytes_are_zero((const char *)file + used_size(file), n - used_size(file)) &&
	       policy_check(&file->policy);
}

const struct agent_policy *policy_agent(const struct policy *policy, uint32_t uid)
{
	assert(policy->n_agents <= POLICY_AGENT_MAX);
	for (uint32_t i = 0; i < policy->n_agents; i++)
		if (policy->agents[i].uid == uid)
			return &policy->agents[i];
	return NULL;
}

const struct profile *policy_profile(const struct agent_policy *agent, const char *name)
{
	assert(agent->profiles || agent->n_profiles == 0);
	for (uint32_t i = 0; i < agent->n_profiles; i++)
		if (str_eq(agent->profiles[i].name, name))
			return &agent->profiles[i];
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
	const struct fs_type *type = profile->kind < FS_N ? &fs_types[profile->kind] : NULL;
	bool is_untrusted = profile->trust == TRUST_UNTRUSTED;

	if (type && profile->class != type->class)
		return "class and fstype do not go together";
	if (type && type->always_read_only && !profile->read_only)
		return "this fstype needs ro = yes";
	if (is_untrusted && type && profile->class != MH_CLASS_NFS4 && !type->fit_for_untrusted)
		return "trust = untrusted needs fstype = erofs or squashfs";
	if (is_untrusted && (profile->exec || profile->shared))
		return "trust = untrusted forbids exec and shared";
	return check_options(profile);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "policy_parse.h"

#include "block_keys.h"

#include "base/cleanup.h"
#include "base/id.h"
#include "base/parse.h"
#include "base/path.h"
#include "base/str.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>

/* The kind of a block: an agent's, or a profile of a class. A key names the blocks that may and that must
 * have it. */
enum {
	IN_AGENT = 0,
	IN_PROFILE = MH_CLASS_N, /* whose class is not known yet */
	AGENT = 1 << IN_AGENT,
	BLOCK = 1 << MH_CLASS_BLOCK,
	TMPFS = 1 << MH_CLASS_TMPFS,
	NFS4 = 1 << MH_CLASS_NFS4,
	BIND = 1 << MH_CLASS_BIND,
	CSI = 1 << MH_CLASS_CSI,
	PROFILE = 1 << IN_PROFILE,
	CLASSES = BLOCK | TMPFS | NFS4 | CSI, /* of a profile; a hostvol is of class bind */
	ANY = CLASSES | BIND,
};

/* The classes as they are written, which have no blanks. */
static const char *const class_words[] = {
	[IN_AGENT] = "not of a profile",
	[MH_CLASS_BLOCK] = "block",
	[MH_CLASS_TMPFS] = "tmpfs",
	[MH_CLASS_NFS4] = "nfs4",
	[MH_CLASS_BIND] = "host volume",
	[MH_CLASS_CSI] = "csi",
	[IN_PROFILE] = "its class must come first",
};
static const char *const trust_words[] = {[TRUST_TRUSTED] = "trusted", [TRUST_UNTRUSTED] = "untrusted"};
static const char *const must_words[] = {"required", "optional"};
static const char *const sync_words[] = {"always", "batch"};

int fs_option_find(const char *word, size_t n)
{
	for (int i = 0; i < FS_OPTION_N; i++)
		if (fs_options[i].word && strlen(fs_options[i].word) == n &&
		    memcmp(fs_options[i].word, word, n) == 0)
			return i;
	return -EINVAL;
}

/* Values that only this policy has. */

static bool set_by_id(void *field, const char *text, const struct block_key *key)
{
	static const char exact[] = "exact:";
	struct by_id_rule *rule = field;

	rule->exact = str_starts_with(text, exact);
	if (rule->exact)
		text += sizeof(exact) - 1;
	return by_id_is_valid(text) && str_copy(rule->text, sizeof(rule->text), text) == 0;
}

static bool set_uuid(void *field, const char *text, const struct block_key *key)
{
	struct by_id_rule *rule = field;

	rule->exact = true;
	return id_is_uuid(text) && str_copy(rule->text, sizeof(rule->text), text) == 0;
}

static bool set_server(void *field, const char *text, const struct block_key *key)
{
	struct server_rule *rule = field;

	return parse_network(text, &rule->family, rule->addr, &rule->prefix_bits) == 0;
}

static bool set_options(void *field, const char *text, const struct block_key *key)
{
	uint32_t *options = field;

	for (;;) {
		size_t n = strcspn(text, ",");
		int i = fs_option_find(text, n);

		if (i < 0 || (*options & UINT32_C(1) << i) != 0)
			return false;
		*options |= UINT32_C(1) << i;
		if (text[n] == '\0')
			return true;
		text += n + 1;
	}
}

static bool set_needs_mount(void *field, const char *text, const struct block_key *key)
{
	bool *needs_mount = field;

	*needs_mount = str_eq(text, "required");
	return *needs_mount || str_eq(text, "optional");
}

/* Keys */

#define A(field) offsetof(struct agent_policy, field)
#define P(field) offsetof(struct profile, field)
#define STRING(valid, bytes, what) block_set_string, (what), .is_valid = (valid), .size = (bytes)
#define NAME STRING(policy_name_is_valid, TICKET_NODE_SIZE, "a name of at most 63 letters, digits, - and _")
#define PATH                                       \
	STRING(policy_path_is_valid, MH_PATH_SIZE, \
	       "an absolute path below / without ., .., // and a trailing slash")
#define BOOL block_set_bool, "yes or no"
#define NUMBER(low, high, text) block_set_u32, #low " to " #high, (text), .min = (low), .max = (high)
#define UID NUMBER(1, 4294967294, NULL)
#define SIZE(high, text) \
	block_set_size, "a size from 4KiB on, as 64MiB", (text), .min = 4096, .max = UINT64_C(1) << (high)
#define WORDS(table, what) block_set_word, (what), .words = (table), .size = ARRAY_SIZE(table)

static const struct block_key keys[] = {
	{"cluster", AGENT, AGENT, A(cluster), NAME},
	{"node", AGENT, AGENT, A(node), NAME},
	{"helper_uid", AGENT, AGENT, A(helper_uid), UID},
	{"helper_gid", AGENT, AGENT, A(helper_gid), UID},
	{"stage_base", AGENT, AGENT, A(stage_base), PATH},
	{"publish_base", AGENT, AGENT, A(publish_base), PATH},
	{"log", AGENT, AGENT, A(log), PATH},
	{"lock_dir", AGENT, AGENT, A(lock_dir), PATH},
	{"ticket", AGENT, 0, A(ticket_optional), WORDS(must_words, "required or optional")},
	{"ticket_key", AGENT, 0, A(keys.key), block_set_hex, "64 hex digits", .size = TICKET_KEY_SIZE,
	 .times = POLICY_KEY_MAX, .count = A(keys.n)},
	{"audit", AGENT, 0, A(audit_optional), WORDS(must_words, "required or optional")},
	{"trail_sync", AGENT, 0, A(sync_batch), WORDS(sync_words, "always or batch")},
	{"container", AGENT, 0, A(container), BOOL},
	{"allow_detach", AGENT, 0, A(allow_detach), BOOL},
	{"max_staged", AGENT, 0, A(max_staged), NUMBER(1, 4096, "256")},
	{"max_published", AGENT, 0, A(max_published), NUMBER(1, 32768, "4096")},
	{"max_per_alloc", AGENT, 0, A(max_per_alloc), NUMBER(1, 32, "32")},
	{"max_tmpfs_total", AGENT, 0, A(max_tmpfs_total), SIZE(60, "1GiB")},
	{"ops_per_second", AGENT, 0, A(ops_per_second), NUMBER(1, 8000, "20")},
	{"burst", AGENT, 0, A(burst), NUMBER(1, 10000, "100")},
	{"starts_per_minute", AGENT, 0, A(starts_per_minute), NUMBER(1, 6000, "60")},
	{"nfs_timeout", AGENT, 0, A(nfs_timeout_s), NUMBER(1, 600, "30")},

	{"class", PROFILE | CLASSES, PROFILE, P(class), WORDS(class_words, "block, tmpfs, nfs4 or csi"),
	 .makes_kind = true},
	{"fstype", BLOCK, BLOCK, P(kind), WORDS(fs_names, "ext4, xfs, erofs or squashfs")},
	{"fstype", TMPFS, 0, P(kind), WORDS(fs_names, "tmpfs"), .initial = "tmpfs"},
	{"fstype", NFS4, 0, P(kind), WORDS(fs_names, "nfs4"), .initial = "nfs4"},
	{"trust", ANY, BLOCK, P(trust), WORDS(trust_words, "trusted or untrusted")},
	{"ro", ANY, 0, P(read_only), BOOL},
	{"exec", ANY, 0, P(exec), BOOL},
	{"shared", ANY, 0, P(shared), BOOL},
	{"options", BLOCK | TMPFS | NFS4, 0, P(options), set_options,
	 "of noatime, discard, nodelalloc, data-journal, nouuid, each once, with commas"},
	{"selinux_context", BLOCK | TMPFS | NFS4, 0, P(selinux_context),
	 STRING(policy_context_is_valid, POLICY_CONTEXT_SIZE, "USER:ROLE:TYPE or USER:ROLE:TYPE:RANGE")},
	{"by_id", BLOCK, BLOCK, P(by_id), set_by_id,
	 "at most 128 of A-Z a-z 0-9 : . _ + - not beginning with a dot, exact: before it for a whole name",
	 .size = sizeof(struct by_id_rule), .times = POLICY_RULE_MAX, .count = P(n_by_id)},
	{"max_size", TMPFS, TMPFS, P(max_size), SIZE(50, NULL)},
	{"max_inodes", TMPFS, 0, P(max_inodes), block_set_size, "1 to 2147483648", "65536", .min = 1,
	 .max = UINT64_C(1) << 31},
	{"server", NFS4, NFS4, P(server), set_server, "ADDRESS or ADDRESS/BITS without bits beyond BITS",
	 .size = sizeof(struct server_rule), .times = POLICY_RULE_MAX, .count = P(n_servers)},
	{"export", NFS4, NFS4, P(export),
	 STRING(export_is_valid, MH_EXPORT_SIZE, "an absolute path of A-Z a-z 0-9 . _ -"),
	 .times = POLICY_RULE_MAX, .count = P(n_exports)},
	{"sec", NFS4, 0, P(sec), WORDS(nfs_sec_words, "sys, krb5, krb5i or krb5p")},
	{"vers", NFS4, 0, P(vers), WORDS(nfs_vers_words, "4.1 or 4.2")},
	{"path", BIND, BIND, P(path), PATH},
	{"mount", BIND, 0, P(needs_mount), set_needs_mount, "required or optional"},
	{"uuid", BIND, 0, P(by_id), set_uuid, "the UUID of an ext4 or xfs, in small letters",
	 .size = sizeof(struct by_id_rule), .times = 1, .count = P(n_by_id)},
	{"owner_uid", BIND, BIND, P(owner_uid), NUMBER(0, 4294967294, NULL)},
};

_Static_assert(ARRAY_SIZE(keys) <= BLOCK_KEYS_MAX, "they fit block.seen");

static const struct block_table table = {.keys = keys, .n_keys = ARRAY_SIZE(keys), .kind_words = class_words};

static const char *begin_profile(struct block *block, void *userdata)
{
	struct policy *policy = userdata;
	struct agent_policy *agent = &policy->agents[policy->n_agents];
	struct profile *profile = &policy->profiles[policy->n_profiles];
	bool is_hostvol = block->kind == MH_CLASS_BIND;

	if (!id_is_plugin(block->name) || policy_profile(agent, block->name))
		return "must be a new name of a-z, 0-9 and -, with dots only inside the id of a plugin";
	if ((is_hostvol ? policy->n_hostvols : policy->n_profiles - policy->n_hostvols) == POLICY_PROFILE_MAX)
		return "more than 64 of its kind";
	*profile = (struct profile){.line = block->line, .class = MH_CLASS_BIND, .kind = FS_ANY};
	(void)str_copy(profile->name, sizeof(profile->name), block->name);
	block->object = profile;
	return NULL;
}

static const char *end_profile(const struct block *block, void *userdata)
{
	const struct profile *profile = block->object;
	struct policy *policy = userdata;

	policy->agents[policy->n_agents].n_profiles++;
	policy->n_profiles++;
	policy->n_hostvols += block->kind == MH_CLASS_BIND;
	if (profile->class != MH_CLASS_CSI && !id_is_label(profile->name))
		return "only the name of a profile of class csi, which is the id of a plugin, may have dots";
	if (profile->class == MH_CLASS_BIND && path_is_within(HOLDFAST_POLICY_PATH, profile->path))
		return "its path contains the mount helper's policy (" HOLDFAST_POLICY_PATH
		       "), and the helper refuses each STAGE of it: name another directory";
	return policy_check_profile(profile);
}

static const char *begin_agent(struct block *block, void *userdata)
{
	struct policy *policy = userdata;
	struct agent_policy *agent = &policy->agents[policy->n_agents];

	if (policy->n_agents == POLICY_AGENT_MAX)
		return "more than 16 agents";
	*agent = (struct agent_policy){.line = block->line,
				       .first_profile = policy->n_profiles,
				       .profiles = &policy->profiles[policy->n_profiles]};
	block->object = agent;
	if (parse_u32(block->name, 1, UINT32_MAX - 1, &agent->uid) < 0 || policy_agent(policy, agent->uid))
		return "must be a new uid from 1 to 4294967294";
	return NULL;
}

static const char *end_agent(const struct block *block, void *userdata)
{
	struct policy *policy = userdata;
	const char *complaint = policy_check_agent(policy, block->object);

	policy->n_agents++;
	return complaint;
}

static const struct block_form profile_forms[] = {
	{"profile", "NAME", IN_PROFILE, NULL, begin_profile, end_profile},
	{"hostvol", "NAME", MH_CLASS_BIND, NULL, begin_profile, end_profile},
	{.word = NULL},
};
static const struct block_form agent_forms[] = {
	{"agent", "UID", IN_AGENT, profile_forms, begin_agent, end_agent},
	{.word = NULL},
};

enum status policy_parse(const char *file, const char *text, size_t n, struct policy *ret,
			 unsigned int *ret_line, struct error *err)
{
	struct block_lexer lx = {.file = file, .p = text, .end = text + n, .line = 1, .err = err};
	const char *complaint = NULL;
	enum status status;

	memset(ret, 0, sizeof(*ret));
	status = n > POLICY_TEXT_MAX ? REFUSE(&lx, 1U, "more than %d bytes", POLICY_TEXT_MAX)
				     : block_read_text(&lx, &table, agent_forms, ret);
	if (status == STATUS_OK)
		complaint = ret->n_agents == 0 ? "no agent" : policy_check_paths(ret, &lx.line);
	if (complaint)
		status = REFUSE(&lx, lx.line, "%s", complaint);
	if (status != STATUS_OK)
		*ret_line = lx.error_line;
	return status;
}

void policy_file_seal(struct policy_file *file)
{
	for (uint32_t i = 0; i < POLICY_AGENT_MAX; i++)
		file->policy.agents[i].profiles = NULL;
	file->magic = POLICY_MAGIC;
	file->version = POLICY_VERSION;
	file->size = sizeof(*file);
	file->reserved = 0;
	policy_file_digest(file, file->digest);
}

enum status policy_compile(const char *file, const char *text, size_t n, struct policy_file *ret,
			   unsigned int *ret_line, struct error *err)
{
	memset(ret, 0, sizeof(*ret)); /* its padding, too */
	TRY(policy_parse(file, text, n, &ret->policy, ret_line, err));
	(void)crypto_hash_sha256(ret->text_digest, (const unsigned char *)text, n);
	policy_file_seal(ret);
	return STATUS_OK;
}

#include "policy.h"

#include "policy_check.h"

#include "base/block_lexer.h"
#include "base/cleanup.h"
#include "base/id.h"
#include "base/names.h"
#include "base/parse.h"
#include "base/path.h"
#include "base/str.h"

#include <string.h>

struct parser {
	struct block_lexer lexer;
	struct policy *policy;
};

static const char *const class_words[MH_CLASS_N] = {
	[MH_CLASS_BLOCK] = "block",
	[MH_CLASS_TMPFS] = "tmpfs",
};
static const char *const trust_words[] = {
	[TRUST_TRUSTED] = "trusted",
	[TRUST_UNTRUSTED] = "untrusted",
};
static const char *const ticket_words[] = {"required", "optional"};

/* Values. A setter returns NULL, or what the value must be. */

struct key;
typedef const char *set_fn(void *field, const char *text, const struct key *key);

enum { KEY_REQUIRED = 1 << 0, KEY_REPEATS = 1 << 1 };

struct key {
	const char *name;
	set_fn *set;
	size_t offset;
	unsigned int flags;
	uint64_t min; /* of a number */
	uint64_t max;
	const char *must; /* of a number or word: the sentence for people */
	const char *const *words;
	size_t n_words;
};

static const char *set_u32(void *field, const char *text, const struct key *key)
{
	return parse_u32(text, (uint32_t)key->min, (uint32_t)key->max, field) < 0 ? key->must : NULL;
}

static const char *set_u64(void *field, const char *text, const struct key *key)
{
	return parse_u64(text, key->min, key->max, field) < 0 ? key->must : NULL;
}

static const char *set_size(void *field, const char *text, const struct key *key)
{
	uint64_t size;

	if (parse_size(text, &size) < 0 || size < key->min || size > key->max)
		return key->must;
	memcpy(field, &size, sizeof(size));
	return NULL;
}

static const char *set_bool(void *field, const char *text, const struct key *key)
{
	(void)key;
	return parse_bool(text, field) < 0 ? "must be yes or no" : NULL;
}

static const char *set_name(void *field, const char *text, const struct key *key)
{
	if (!id_is_name(text, TICKET_NODE_SIZE - 1))
		return "must be a name of at most 63 letters, digits, - and _";
	(void)str_copy(field, TICKET_NODE_SIZE, text);
	(void)key;
	return NULL;
}

static const char *set_path(void *field, const char *text, const struct key *key)
{
	(void)key;
	if (!path_is_normal(text) || text[1] == '\0')
		return "must be an absolute path below / without ., .., // and a trailing slash";
	if (str_copy(field, MH_PATH_SIZE, text) < 0)
		return "must have at most 255 bytes";
	return NULL;
}

static const char *set_word(void *field, const char *text, const struct key *key)
{
	int i = names_find(key->words, key->n_words, text);
	uint32_t value = (uint32_t)i;

	if (i < 0)
		return key->must;
	memcpy(field, &value, sizeof(value));
	return NULL;
}

static const char *set_kind(void *field, const char *text, const struct key *key)
{
	int i = fs_kind_find(text);
	uint32_t value = (uint32_t)i;

	(void)key;
	if (i < 0)
		return "must be ext4, xfs, erofs, squashfs or tmpfs";
	memcpy(field, &value, sizeof(value));
	return NULL;
}

static const char *set_ticket_key(void *field, const char *text, const struct key *key)
{
	struct ticket_keys *keys = field;

	(void)key;
	if (keys->n == POLICY_KEY_MAX)
		return "may be given at most twice";
	if (hex_decode(keys->key[keys->n], TICKET_KEY_SIZE, text) < 0)
		return "must be 64 hex digits";
	keys->n++;
	return NULL;
}

static const char *set_by_id(void *field, const char *text, const struct key *key)
{
	static const char exact[] = "exact:";
	struct profile *profile = field;
	struct by_id_rule *rule = &profile->by_id[profile->n_by_id];

	(void)key;
	if (profile->n_by_id == POLICY_RULE_MAX)
		return "may be given at most 8 times";
	rule->exact = str_starts_with(text, exact);
	if (rule->exact)
		text += sizeof(exact) - 1;
	if (!by_id_is_valid(text))
		return "must be at most 128 of A-Z a-z 0-9 : . _ + - and not begin with a dot";
	(void)str_copy(rule->text, sizeof(rule->text), text);
	profile->n_by_id++;
	return NULL;
}

static const char *set_options(void *field, const char *text, const struct key *key)
{
	uint32_t *options = field;

	(void)key;
	for (;;) {
		size_t n = strcspn(text, ",");
		int i = fs_option_find(text, n);

		if (i < 0)
			return "must be of noatime, discard, nodelalloc, data-journal, nouuid";
		if ((*options & UINT32_C(1) << i) != 0)
			return "names an option twice";
		*options |= UINT32_C(1) << i;
		if (text[n] == '\0')
			return NULL;
		text += n + 1;
	}
}

/* Keys */

#define A(field) offsetof(struct agent_policy, field)
#define P(field) offsetof(struct profile, field)
#define UID_LIMITS .min = 1, .max = UINT32_MAX - 1, .must = "must be an id from 1 to 4294967294"

static const struct key agent_keys[] = {
	{"cluster", set_name, A(cluster), KEY_REQUIRED},
	{"node", set_name, A(node), KEY_REQUIRED},
	{"helper_uid", set_u32, A(helper_uid), KEY_REQUIRED, UID_LIMITS},
	{"helper_gid", set_u32, A(helper_gid), KEY_REQUIRED, UID_LIMITS},
	{"stage_base", set_path, A(stage_base), KEY_REQUIRED},
	{"publish_base", set_path, A(publish_base), KEY_REQUIRED},
	{"log", set_path, A(log), KEY_REQUIRED},
	{"lock_dir", set_path, A(lock_dir), KEY_REQUIRED},
	{"ticket", set_word, A(ticket_optional), 0, .must = "must be required or optional",
	 .words = ticket_words, .n_words = ARRAY_SIZE(ticket_words)},
	{"ticket_key", set_ticket_key, A(keys), KEY_REPEATS},
	{"container", set_bool, A(container), 0},
	{"allow_detach", set_bool, A(allow_detach), 0},
	{"max_staged", set_u32, A(max_staged), 0, .min = 1, .max = 4096, .must = "must be 1 to 4096"},
	{"max_published", set_u32, A(max_published), 0, .min = 1, .max = 32768, .must = "must be 1 to 32768"},
	{"max_per_alloc", set_u32, A(max_per_alloc), 0, .min = 1, .max = MH_SLOT_MAX + 1,
	 .must = "must be 1 to 32"},
	{"max_tmpfs_total", set_size, A(max_tmpfs_total), 0, .min = 4096, .max = UINT64_C(1) << 60,
	 .must = "must be a size from 4KiB on, as 64MiB"},
	{"ops_per_second", set_u32, A(ops_per_second), 0, .min = 1, .max = 1000, .must = "must be 1 to 1000"},
	{"starts_per_minute", set_u32, A(starts_per_minute), 0, .min = 1, .max = 6000,
	 .must = "must be 1 to 6000"},
	{"burst", set_u32, A(burst), 0, .min = 1, .max = 10000, .must = "must be 1 to 10000"},
};

static const struct key profile_keys[] = {
	{"class", set_word, P(class), KEY_REQUIRED,
	 .must = "must be block or tmpfs (nfs4, bind and csi are not supported by this version)",
	 .words = class_words, .n_words = ARRAY_SIZE(class_words)},
	{"fstype", set_kind, P(kind), KEY_REQUIRED},
	{"trust", set_word, P(trust), 0, .must = "must be trusted or untrusted", .words = trust_words,
	 .n_words = ARRAY_SIZE(trust_words)},
	{"ro", set_bool, P(read_only), 0},
	{"exec", set_bool, P(exec), 0},
	{"shared", set_bool, P(shared), 0},
	{"options", set_options, P(options), 0},
	{"by_id", set_by_id, 0, KEY_REPEATS},
	{"max_size", set_size, P(max_size), 0, .min = 4096, .max = UINT64_C(1) << 50,
	 .must = "must be a size from 4KiB on, as 64MiB"},
	{"max_inodes", set_u64, P(max_inodes), 0, .min = 1, .max = UINT64_C(1) << 31,
	 .must = "must be 1 to 2147483648"},
};

static int find_key(const struct key *keys, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(keys[i].name, name))
			return (int)i;
	return -1;
}

/* "KEY = VALUE" and its end; ps->lexer.word is KEY. A closing brace may stand for the end. */
static enum status parse_assignment(struct parser *ps, const struct key *keys, size_t n, void *object,
				    uint64_t *seen, const char *where)
{
	unsigned int line = ps->lexer.token_line;
	int i = find_key(keys, n, ps->lexer.word);
	const char *complaint;
	enum status st;

	if (i < 0)
		return REFUSE(&ps->lexer, line, "unknown key '%s' in %s", ps->lexer.word, where);
	if ((*seen & UINT64_C(1) << i) != 0 && (keys[i].flags & KEY_REPEATS) == 0)
		return REFUSE(&ps->lexer, line, "%s is given twice", keys[i].name);
	*seen |= UINT64_C(1) << i;
	st = lexer_expect(&ps->lexer, TOKEN_EQUALS, "= after the key");
	if (st == STATUS_OK)
		st = lexer_expect(&ps->lexer, TOKEN_WORD, "a value after =");
	if (st != STATUS_OK)
		return st;
	complaint = keys[i].set((char *)object + keys[i].offset, ps->lexer.word, &keys[i]);
	if (complaint)
		return REFUSE(&ps->lexer, line, "%s = %s: %s", keys[i].name, ps->lexer.word, complaint);
	st = lexer_next(&ps->lexer);
	if (st != STATUS_OK)
		return st;
	if (ps->lexer.token != TOKEN_END && ps->lexer.token != TOKEN_CLOSE)
		return REFUSE(&ps->lexer, line, "expected the end of the line or ; after the value of %s",
			      keys[i].name);
	return STATUS_OK;
}

static enum status check_required(struct parser *ps, const struct key *keys, size_t n, uint64_t seen,
				  unsigned int line, const char *where)
{
	for (size_t i = 0; i < n; i++)
		if ((keys[i].flags & KEY_REQUIRED) != 0 && (seen & UINT64_C(1) << i) == 0)
			return REFUSE(&ps->lexer, line, "%s has no %s", where, keys[i].name);
	return STATUS_OK;
}

/* After an assignment the closing brace may have been taken already. */
static enum status next_in_block(struct parser *ps, const char *where)
{
	enum status st = STATUS_OK;

	if (ps->lexer.token != TOKEN_CLOSE)
		st = lexer_next_statement(&ps->lexer);
	if (st != STATUS_OK)
		return st;
	if (ps->lexer.token != TOKEN_CLOSE && ps->lexer.token != TOKEN_WORD)
		return REFUSE(&ps->lexer, ps->lexer.token_line, "expected a key or } in %s", where);
	return STATUS_OK;
}

static enum status parse_profile(struct parser *ps, struct agent_policy *agent)
{
	struct profile profile = {.max_inodes = 65536, .line = ps->lexer.token_line};
	unsigned int line = ps->lexer.token_line;
	struct policy *policy = ps->policy;
	const char *complaint;
	uint64_t seen = 0;
	enum status st = lexer_expect(&ps->lexer, TOKEN_WORD, "a name after profile");

	if (st != STATUS_OK)
		return st;
	if (!id_is_label(ps->lexer.word))
		return REFUSE(&ps->lexer, line,
			      "profile %s: the name must be a-z, 0-9 and -, at most 63 of them",
			      ps->lexer.word);
	(void)str_copy(profile.name, sizeof(profile.name), ps->lexer.word);
	if (policy_profile(policy, agent, profile.name))
		return REFUSE(&ps->lexer, line, "profile %s is given twice", profile.name);
	if (policy->n_profiles == POLICY_PROFILE_MAX)
		return REFUSE(&ps->lexer, line, "more than %d profiles", POLICY_PROFILE_MAX);
	st = lexer_expect(&ps->lexer, TOKEN_OPEN, "{ after the profile's name");
	while (st == STATUS_OK) {
		st = next_in_block(ps, "the profile");
		if (st != STATUS_OK || ps->lexer.token == TOKEN_CLOSE)
			break;
		st = parse_assignment(ps, profile_keys, ARRAY_SIZE(profile_keys), &profile, &seen,
				      "the profile");
	}
	if (st == STATUS_OK)
		st = check_required(ps, profile_keys, ARRAY_SIZE(profile_keys), seen, line, "the profile");
	if (st != STATUS_OK)
		return st;
	complaint = policy_check_profile(&profile);
	if (complaint)
		return REFUSE(&ps->lexer, line, "profile %s: %s", profile.name, complaint);
	policy->profiles[policy->n_profiles++] = profile;
	agent->n_profiles++;
	return STATUS_OK;
}

static enum status parse_agent_block(struct parser *ps, struct agent_policy *agent, uint64_t *seen)
{
	enum status st = STATUS_OK;

	for (;;) {
		st = next_in_block(ps, "the agent's block");
		if (st != STATUS_OK || ps->lexer.token == TOKEN_CLOSE)
			return st;
		if (!str_eq(ps->lexer.word, "profile")) {
			st = parse_assignment(ps, agent_keys, ARRAY_SIZE(agent_keys), agent, seen,
					      "the agent's block");
		} else {
			st = parse_profile(ps, agent);
			if (st == STATUS_OK)
				st = lexer_next(&ps->lexer); /* past the profile's closing brace */
			if (st == STATUS_OK && ps->lexer.token != TOKEN_END && ps->lexer.token != TOKEN_CLOSE)
				return REFUSE(&ps->lexer, ps->lexer.token_line,
					      "expected the end of the line after }");
		}
		if (st != STATUS_OK)
			return st;
	}
}

static enum status parse_agent(struct parser *ps)
{
	struct policy *policy = ps->policy;
	struct agent_policy *agent = &policy->agents[policy->n_agents];
	unsigned int line = ps->lexer.token_line;
	const char *complaint;
	uint64_t seen = 0;
	enum status st;

	if (policy->n_agents == POLICY_AGENT_MAX)
		return REFUSE(&ps->lexer, line, "more than %d agents", POLICY_AGENT_MAX);
	*agent = (struct agent_policy){.line = line,
				       .max_staged = 256,
				       .max_published = 4096,
				       .max_per_alloc = MH_SLOT_MAX + 1,
				       .max_tmpfs_total = UINT64_C(1) << 30,
				       .ops_per_second = 20,
				       .burst = 100,
				       .starts_per_minute = 60,
				       .nfs_timeout_s = 30,
				       .first_profile = policy->n_profiles};
	st = lexer_expect(&ps->lexer, TOKEN_WORD, "a uid after agent");
	if (st != STATUS_OK)
		return st;
	if (parse_u32(ps->lexer.word, 1, UINT32_MAX - 1, &agent->uid) < 0)
		return REFUSE(&ps->lexer, line, "agent %s: must be a uid from 1 to 4294967294",
			      ps->lexer.word);
	if (policy_agent(policy, agent->uid))
		return REFUSE(&ps->lexer, line, "agent %u is given twice", agent->uid);
	st = lexer_expect(&ps->lexer, TOKEN_OPEN, "{ after the agent's uid");
	if (st == STATUS_OK)
		st = parse_agent_block(ps, agent, &seen);
	if (st == STATUS_OK)
		st = check_required(ps, agent_keys, ARRAY_SIZE(agent_keys), seen, line, "the agent's block");
	if (st != STATUS_OK)
		return st;
	complaint = policy_check_agent(policy, agent);
	if (complaint)
		return REFUSE(&ps->lexer, line, "agent %u: %s", agent->uid, complaint);
	policy->n_agents++;
	return STATUS_OK;
}

enum status policy_parse(const char *file, const char *text, size_t n, struct policy *ret,
			 unsigned int *ret_line, struct error *err)
{
	struct parser ps = {.lexer = {.file = file, .p = text, .end = text + n, .line = 1, .err = err},
			    .policy = ret};
	enum status st;

	*ret = (struct policy){0};
	if (n > POLICY_TEXT_MAX)
		return REFUSE(&ps.lexer, 1U, "more than %d bytes", POLICY_TEXT_MAX);
	st = lexer_check_alphabet(&ps.lexer);
	while (st == STATUS_OK) {
		st = lexer_next_statement(&ps.lexer);
		if (st != STATUS_OK || ps.lexer.token == TOKEN_EOF)
			break;
		if (ps.lexer.token != TOKEN_WORD || !str_eq(ps.lexer.word, "agent"))
			return REFUSE(&ps.lexer, ps.lexer.token_line, "expected: agent UID {");
		st = parse_agent(&ps);
	}
	if (st == STATUS_OK && ret->n_agents == 0)
		st = REFUSE(&ps.lexer, ps.lexer.line, "no agent");
	if (st != STATUS_OK)
		*ret_line = ps.lexer.token_line;
	return st;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "model/policy.h"

typedef Holdfast__V1__AccessPolicy Policy;
typedef Holdfast__V1__NamespaceRule Rule;

enum { WORDS = POLICY_CAPABILITIES_MAX + 1 };

/* Messages want text that they could change; nobody does. */
static char *text(const char *s)
{
	return TEXT(s);
}

static Rule rule(const char *namespace, const char *coarse)
{
	Rule r = V1(namespace_rule, .namespace_ = text(namespace), .policy = text(coarse));

	return r;
}

static Policy policy_of(Rule **rules, size_t n)
{
	Policy p = V1(access_policy, .name = text("p"), .namespaces = rules, .n_namespaces = n);

	return p;
}

static uint32_t capabilities(Rule **rules, size_t n, const char *namespace)
{
	const Policy p = policy_of(rules, n);
	const Policy *policies[] = {&p, NULL};

	return policy_capabilities(policies, ARRAY_SIZE(policies), namespace);
}

#define B(name) CAPABILITY_BIT(CAPABILITY_##name)
#define READ (B(LIST_VOLUME) | B(READ_VOLUME) | B(LIST_JOBS) | B(READ_JOB))
#define WRITE (READ | B(MOUNT_VOLUME) | B(WRITE_VOLUME) | B(SUBMIT_JOB) | B(ALLOC_EXEC) | B(READ_LOGS))

TEST(policy_keywords_grant_the_same_as_in_nomad)
{
	static const struct {
		const char *coarse, *fine;
		uint32_t expected;
	} cases[] = {
		{"read", NULL, READ},
		{"write", NULL, WRITE},
		{"deny", NULL, 0},
		{"", NULL, 0},
		{"", "csi-list-volume", B(LIST_VOLUME)},
		{"", "csi-read-volume", B(READ_VOLUME)},
		{"", "csi-mount-volume", B(MOUNT_VOLUME)},
		{"", "csi-write-volume", B(WRITE_VOLUME)},
		{"", "csi-register-plugin", B(REGISTER_PLUGIN)},
		{"", "alloc-run-unit", B(RUN_UNIT)},
		{"", "csi-adopt-volume", B(ADOPT_VOLUME)},
		{"", "list-jobs", B(LIST_JOBS)},
		{"", "read-job", B(READ_JOB)},
		{"", "submit-job", B(SUBMIT_JOB)},
		{"", "alloc-exec", B(ALLOC_EXEC)},
		{"", "read-logs", B(READ_LOGS)},
		{"", "deny", 0},
		{"write", "deny", 0},
		{"write", "csi-register-plugin", WRITE | B(REGISTER_PLUGIN)},
		{"write", "of-a-later-version", 0}, /* stored by a newer server */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		Rule r = rule("default", cases[i].coarse);
		Rule *rules[] = {&r};
		char *words[] = {text(cases[i].fine)};

		r.capabilities = words;
		r.n_capabilities = cases[i].fine ? 1 : 0;
		assert_int_equal(capabilities(rules, 1, "default"), cases[i].expected);
		assert_int_equal(capabilities(rules, 1, "default2"), 0);
		assert_int_equal(capabilities(rules, 1, "defaul"), 0);
		assert_int_equal(capabilities(rules, 1, NULL), cases[i].expected);
	}
}

TEST(the_pattern_that_fits_best_decides)
{
	static const struct {
		const char *namespace;
		uint32_t expected;
	} cases[] = {
		{"other", READ},	    /* * */
		{"team-a", WRITE},	    /* team-* */
		{"team-", WRITE},	    /* team-* */
		{"team", READ},		    /* * */
		{"team-secret", 0},	    /* the name itself denies */
		{"team-secrets", WRITE},    /* not that name */
		{"team-b-1", B(LIST_JOBS)}, /* team-b*, however little it gives */
	};
	Rule rules_[] = {rule("team-*", "write"), rule("*", "read"), rule("team-secret", "deny"),
			 rule("team-b*", "")};
	Rule *rules[] = {&rules_[0], &rules_[1], &rules_[2], &rules_[3]};
	Rule *backwards[] = {&rules_[3], &rules_[2], &rules_[1], &rules_[0]};
	char *words[] = {text("list-jobs")};

	rules_[3].capabilities = words;
	rules_[3].n_capabilities = 1;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(capabilities(rules, 4, cases[i].namespace), cases[i].expected);
		assert_int_equal(capabilities(backwards, 4, cases[i].namespace), cases[i].expected);
	}
}

TEST(policies_add_up_but_one_that_denies_wins)
{
	Rule a = rule("default", "read");
	Rule b = rule("default", "");
	Rule c = rule("default", "deny");
	Rule d = rule("*", "write");
	Rule *rules[] = {&a, &b, &c, &d};
	const Policy reader = policy_of(&rules[0], 1);
	const Policy submitter = policy_of(&rules[1], 1);
	const Policy denier = policy_of(&rules[2], 1);
	const Policy all = policy_of(&rules[3], 1);
	const Policy *policies[] = {&reader, &submitter, &denier};
	const Policy *with_all[] = {&all, &reader};
	char *words[] = {text("submit-job")};

	b.capabilities = words;
	b.n_capabilities = 1;
	assert_int_equal(policy_capabilities(policies, 2, "default"), READ | B(SUBMIT_JOB));
	assert_int_equal(policy_capabilities(policies, 3, "default"), 0);
	assert_int_equal(policy_capabilities(policies, 0, "default"), 0);
	assert_int_equal(policy_capabilities(policies, 3, NULL), READ | B(SUBMIT_JOB));
	assert_int_equal(policy_capabilities(with_all, 2, "default"), READ); /* across policies as well */
}

TEST(the_highest_level_counts)
{
	Policy a = policy_of(NULL, 0);
	Policy b = policy_of(NULL, 0);
	const Policy *policies[] = {&a, NULL, &b};

	assert_int_equal(policy_plugin_level(policies, 3), POLICY_NONE);
	a.plugin = text("list");
	b.plugin = text("read");
	a.node = text("write");
	b.node = text("read");
	b.operator_ = text("read");
	assert_int_equal(policy_plugin_level(policies, 1), POLICY_LIST);
	assert_int_equal(policy_plugin_level(policies, 3), POLICY_READ);
	assert_int_equal(policy_node_level(policies, 3), POLICY_WRITE);
	assert_int_equal(policy_operator_level(policies, 1), POLICY_NONE);
	assert_int_equal(policy_operator_level(policies, 3), POLICY_READ);
}

TEST(patterns_are_names_or_their_beginnings)
{
	static const struct {
		const char *pattern;
		enum status status;
	} cases[] = {
		{"default", STATUS_OK},
		{"*", STATUS_OK},
		{"a*", STATUS_OK},
		{"1234567890123456789012345678901234567890123456789012345678901234", STATUS_OK},
		{"1234567890123456789012345678901234567890123456789012345678901234*", STATUS_OK},
		{"12345678901234567890123456789012345678901234567890123456789012345",
		 STATUS_INVALID_ARGUMENT},
		{"12345678901234567890123456789012345678901234567890123456789012345*",
		 STATUS_INVALID_ARGUMENT},
		{"", STATUS_INVALID_ARGUMENT},
		{"**", STATUS_INVALID_ARGUMENT},
		{"*a", STATUS_INVALID_ARGUMENT},
		{"a*b", STATUS_INVALID_ARGUMENT},
		{"a/b", STATUS_INVALID_ARGUMENT},
		{"a b", STATUS_INVALID_ARGUMENT},
		{"\x1b[31m", STATUS_INVALID_ARGUMENT},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		Rule r = rule(cases[i].pattern, "read");
		Rule *rules[] = {&r};
		const Policy p = policy_of(rules, 1);

		assert_int_equal(policy_validate(&p, NULL), cases[i].status);
	}
}

TEST(unknown_words_are_refused)
{
	static const struct {
		size_t field;
		const char *good, *bad;
	} cases[] = {
		{offsetof(Policy, name), "a-policy", ""},
		{offsetof(Policy, name), "A1", "a/b"},
		{offsetof(Policy, description), "what it is for", "\x1b"},
		{offsetof(Policy, plugin), "list", "write"},
		{offsetof(Policy, plugin), "read", "deny"},
		{offsetof(Policy, node), "write", "list"},
		{offsetof(Policy, operator_), "read", "Read"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		Policy p = policy_of(NULL, 0);
		char **field = (char **)(void *)((char *)&p + cases[i].field);
		struct error err;

		*field = text(cases[i].good);
		assert_int_equal(policy_validate(&p, NULL), STATUS_OK);
		*field = text(cases[i].bad);
		assert_int_equal(policy_validate(&p, &err), STATUS_INVALID_ARGUMENT);
	}
}

TEST(words_of_a_rule_are_checked)
{
	Rule r = rule("default", "admin");
	Rule *rules[] = {&r};
	const Policy p = policy_of(rules, 1);
	char *words[] = {text("csi-read-volume"), text("csi-reads-volume")};
	struct error err;

	assert_int_equal(policy_validate(&p, NULL), STATUS_INVALID_ARGUMENT);
	r.policy = text("read");
	r.capabilities = words;
	r.n_capabilities = 1;
	assert_int_equal(policy_validate(&p, NULL), STATUS_OK);
	r.n_capabilities = 2;
	assert_error(policy_validate(&p, &err), STATUS_INVALID_ARGUMENT, err, "csi-reads-volume");
}

TEST(sizes_are_bounded)
{
	static char long_text[POLICY_DESCRIPTION_MAX + 2];
	Rule r = rule("default", "read");
	Rule *rules[POLICY_RULES_MAX + 1];
	char *words[WORDS];
	Policy p = policy_of(rules, POLICY_RULES_MAX);

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		rules[i] = &r;
	for (size_t i = 0; i < WORDS; i++)
		words[i] = text("list-jobs");
	assert_int_equal(policy_validate(&p, NULL), STATUS_OK);
	p.n_namespaces++;
	assert_int_equal(policy_validate(&p, NULL), STATUS_INVALID_ARGUMENT);
	p.n_namespaces = 1;
	r.capabilities = words;
	r.n_capabilities = WORDS - 1;
	assert_int_equal(policy_validate(&p, NULL), STATUS_OK);
	r.n_capabilities = WORDS;
	assert_int_equal(policy_validate(&p, NULL), STATUS_INVALID_ARGUMENT);
	r.n_capabilities = 0;
	memset(long_text, 'x', POLICY_DESCRIPTION_MAX);
	p.description = long_text;
	assert_int_equal(policy_validate(&p, NULL), STATUS_OK);
	long_text[POLICY_DESCRIPTION_MAX] = 'x';
	assert_int_equal(policy_validate(&p, NULL), STATUS_INVALID_ARGUMENT);
}

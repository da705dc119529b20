/* SPDX-License-Identifier: Apache-2.0 */
/* `holdfast policy init`: is what it prints a policy, and the one of this machine? */

#include "policy_parse.h"
#include "policy_text.h"
#include "unit.h"

#include "command/command.h"

#include <pwd.h>

#define KEY "8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c"
#define NAME_63 "a23456789-123456789-123456789-123456789-123456789-123456789-123"

/* The machine's accounts. */
static struct passwd accounts[] = {
	{.pw_name = (char[]){"holdfast"}, .pw_uid = 996, .pw_gid = 995},
	{.pw_name = (char[]){"holdfast-mount"}, .pw_uid = 994, .pw_gid = 993},
};
static size_t n_accounts;

WRAPPED(struct passwd *, getpwnam, const char *name)
{
	for (size_t i = 0; i < n_accounts; i++)
		if (strcmp(accounts[i].pw_name, name) == 0)
			return &accounts[i];
	return NULL;
}

static struct error run(const char *line)
{
	static char copy[512];
	struct error err = {.msg = ""};
	struct invocation inv;
	char *argv[32], *rest = copy;
	int argc = 0;

	assert_int_equal(str_copy(copy, sizeof(copy), line), 0);
	while ((argv[argc] = strsep(&rest, " ")) != NULL)
		argc++;
	if (command_parse(argc, argv, &inv, &err) == STATUS_OK)
		(void)command_run(&inv, &err);
	return err;
}

TEST(the_text_is_a_policy_for_the_accounts_of_the_machine)
{
	static struct policy policy;
	unsigned int line_of_mistake;
	char text[POLICY_TEXT_SIZE];

	for (int i = 0; i < 2; i++) {
		struct policy_words words =
			ROW(.cluster = "prod", .node = NAME_63, .ticket_key = KEY, .agent_uid = 996,
			    .helper_uid = UINT32_MAX - 1, .helper_gid = 993, .is_container = i == 1);
		struct error err = {.msg = ""};
		int n = policy_text(&words, text);
		const struct agent_policy *agent;

		assert_true(n > 0);
		assert_succeeds(policy_parse("text", text, (size_t)n, &policy, &line_of_mistake, &err), err);
		assert_int_equal(policy.n_agents, 1);
		agent = &policy.agents[0];
		assert_int_equal(agent->uid, 996);
		assert_int_equal(agent->helper_uid, UINT32_MAX - 1);
		assert_int_equal(agent->helper_gid, 993);
		assert_string_equal(agent->cluster, "prod");
		assert_string_equal(agent->node, NAME_63);
		assert_string_equal(agent->stage_base, "/run/holdfast-mount/stage");
		assert_int_equal(agent->container, i == 1);
	}
}

/* What is shown as a comment must work once the # is taken away. */
TEST(the_examples_in_it_are_right_as_well)
{
	static struct policy policy;
	unsigned int line_of_mistake;
	const struct policy_words words = ROW(.cluster = "prod", .node = "n", .ticket_key = KEY,
					      .agent_uid = 996, .helper_uid = 994, .helper_gid = 993);
	struct error err = {.msg = ""};
	char text[POLICY_TEXT_SIZE];
	bool is_example = false;

	assert_true(policy_text(&words, text) > 0);
	for (char *line = text; line; line = strchr(line + 1, '\n')) {
		bool is_end = strncmp(line, "\n\t# }", 5) == 0;

		if (strncmp(line, "\n\t# profile", 11) == 0 || strncmp(line, "\n\t# hostvol", 11) == 0)
			is_example = true;
		if (is_example)
			line[2] = ' ';
		if (is_end)
			is_example = false;
	}
	assert_succeeds(policy_parse("text", text, strlen(text), &policy, &line_of_mistake, &err), err);
	assert_int_equal(policy.n_profiles, 5);
}

TEST(missing_and_invalid_arguments_are_named)
{
	static const struct {
		const char *line;
		size_t n_accounts;
		enum status status;
		const char *word;
	} cases[] = {
		{"holdfast policy init", 2, STATUS_INVALID_ARGUMENT, "--cluster"},
		{"holdfast policy init --cluster c", 2, STATUS_INVALID_ARGUMENT, "--node"},
		{"holdfast policy init --cluster c --node n", 2, STATUS_INVALID_ARGUMENT, "operator status"},
		{"holdfast policy init --cluster c/d --node n --ticket-key " KEY, 2, STATUS_INVALID_ARGUMENT,
		 "c/d"},
		{"holdfast policy init --cluster c --node " NAME_63 "4 --ticket-key " KEY, 2,
		 STATUS_INVALID_ARGUMENT, "--node"},
		{"holdfast policy init --cluster c --node n --ticket-key " KEY "0", 2,
		 STATUS_INVALID_ARGUMENT, "64 hex"},
		{"holdfast policy init --cluster c --node n --ticket-key 8a88", 2, STATUS_INVALID_ARGUMENT,
		 "64 hex"},
		{"holdfast policy init --cluster c --node n --ticket-key " KEY, 0, STATUS_NOT_FOUND,
		 "holdfast-agent"},
		{"holdfast policy init --cluster c --node n --ticket-key " KEY, 1, STATUS_NOT_FOUND,
		 "holdfast-mounthelper"},
		{"holdfast policy init --cluster c --node " NAME_63 " --ticket-key " KEY, 2, STATUS_OK, ""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct error err;

		n_accounts = cases[i].n_accounts;
		err = run(cases[i].line);
		if (err.status != cases[i].status || !strstr(err.msg, cases[i].word))
			fail_msg("%s: %d %s", cases[i].line, (int)err.status, err.msg);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/* `holdfast policy` becomes another program: with which words? */

#include "unit.h"

#include "command/command.h"

static char executed[1024];
static int exec_errno;

WRAPPED(int, execv, const char *path, char *const argv[])
{
	int n = str_format(executed, sizeof(executed), "%s", strrchr(path, '/'));

	for (; *argv; argv++)
		n += str_format(executed + n, sizeof(executed) - (size_t)n, " %s", *argv);
	errno = exec_errno;
	return -1;
}

/* The error after a command line that could not become the program. */
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
	executed[0] = '\0';
	exec_errno = ENOENT;
	if (command_parse(argc, argv, &inv, &err) == STATUS_OK)
		assert_int_not_equal(command_run(&inv, &err), STATUS_OK);
	return err;
}

TEST(policy_arguments_are_passed_on)
{
	static const struct {
		const char *line;
		const char *words; /* after the options */
	} cases[] = {
		{"holdfast policy check", "/holdfast-policy holdfast-policy -- check " POLICY},
		{"holdfast policy apply", "/holdfast-policy holdfast-policy -- apply " POLICY},
		{"holdfast policy apply --json f", "/holdfast-policy holdfast-policy --json -- apply f"},
		{"holdfast policy check --json f", "/holdfast-policy holdfast-policy --json -- check f"},
		{"holdfast policy check -- --json", "/holdfast-policy holdfast-policy -- check --json"},
		{"holdfast policy explain unstage",
		 "/holdfast-policy holdfast-policy -- explain unstage " POLICY},
		{"holdfast policy explain --uid 995 stage f --profile db --by-id=x --read-only",
		 "/holdfast-policy holdfast-policy --uid=995 --profile=db --by-id=x --read-only -- explain "
		 "stage f"},
		{"holdfast policy explain publish --exec --propagation bidirectional --slot 3 --detach "
		 "--hostvol h",
		 "/holdfast-policy holdfast-policy --hostvol=h --exec --propagation=bidirectional --slot=3 "
		 "--detach -- explain publish " POLICY},
		{"holdfast policy explain stage --server 10.0.0.1 --export /e --tmpfs-size 1M --inodes 5",
		 "/holdfast-policy holdfast-policy --tmpfs-size=1M --inodes=5 --server=10.0.0.1 --export=/e "
		 "-- explain stage " POLICY},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct error err = run(cases[i].line);

		assert_string_equal(executed, cases[i].words);
		if (err.status != STATUS_NOT_FOUND || !strstr(err.msg, "/holdfast-policy"))
			fail_msg("%s: %s", cases[i].line, err.msg);
	}
}

TEST(invalid_policy_commands_are_not_passed_on)
{
	static const char *const lines[] = {
		"holdfast policy explain",	  "holdfast policy explain a b c",
		"holdfast policy check a b",	  "holdfast policy apply a b",
		"holdfast policy check --uid 5",  "holdfast policy explain stage --attest x",
		"holdfast volume status --uid 5",
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		assert_int_equal(run(lines[i]).status, STATUS_INVALID_ARGUMENT);
		assert_string_equal(executed, "");
	}
}

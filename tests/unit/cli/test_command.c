/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "command/command.h"

enum { WORDS_MAX = 16 };

/* Split @line at its blanks and parse it as a command line. */
static enum status parse(const char *line, struct invocation *inv, struct error *err)
{
	static char copy[256], *argv[WORDS_MAX + 1];
	char *rest = copy;
	int argc = 0;

	assert_true(str_format(copy, sizeof(copy), "holdfast%s%s", line[0] ? " " : "", line) > 0);
	while (argc < WORDS_MAX && (argv[argc] = strsep(&rest, " ")) != NULL)
		argc++;
	argv[argc] = NULL;
	return command_parse(argc, argv, inv, err);
}

static void good(const char *line, const char *path, struct invocation *inv)
{
	struct error err = {.msg = ""};

	assert_msg(parse(line, inv, &err) == STATUS_OK, "%s: %s", line, err.msg);
	assert_non_null(inv->command);
	assert_string_equal(inv->command->path, path);
}

TEST(an_empty_argument_is_refused_by_every_command)
{
	size_t n_taking = 0;

	for (size_t i = 0; i < command_count(); i++) {
		char line[256];
		size_t at = (size_t)str_format(line, sizeof(line), "%s", command_at(i)->path);
		struct error err = {.msg = ""};
		struct invocation inv;

		if (command_at(i)->max_args == 0)
			continue;
		n_taking++;
		for (int k = 1; k < command_at(i)->min_args; k++)
			at += (size_t)str_format(line + at, sizeof(line) - at, " x");
		(void)str_format(line + at, sizeof(line) - at, " "); /* the last argument */
		if (parse(line, &inv, &err) != STATUS_INVALID_ARGUMENT || !strstr(err.msg, "is empty"))
			fail_msg("'%s': %s", line, err.msg);
	}
	assert_true(n_taking > 20);
}

TEST(a_command_takes_its_words_and_leaves_the_arguments)
{
	struct invocation inv;

	good("volume register -", "volume register", &inv);
	assert_int_equal(inv.n_args, 1);
	assert_string_equal(inv.args[0], "-");
	good("volume snapshot list", "volume snapshot list", &inv);
	assert_int_equal(inv.n_args, 0);
	good("volume detach db n1", "volume detach", &inv);
	assert_int_equal(inv.n_args, 2);
	assert_string_equal(inv.args[1], "n1");
	good("version", "version", &inv);
	good("audit show a b c d", "audit show", &inv);
	assert_int_equal(inv.n_args, 4);
}

TEST(options_may_stand_anywhere)
{
	static const char *const lines[] = {
		"--address h:1 volume status --why --json db",
		"volume --address=h:1 status db --why --json",
		"volume status --json --why --address h:1 db",
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		struct invocation inv;

		good(lines[i], "volume status", &inv);
		assert_string_equal(inv.options[OPT_ADDRESS], "h:1");
		assert_string_equal(inv.options[OPT_WHY], "");
		assert_string_equal(inv.options[OPT_JSON], "");
		assert_null(inv.options[OPT_CA]);
		assert_int_equal(inv.n_args, 1);
		assert_string_equal(inv.args[0], "db");
	}
}

TEST(the_version_is_an_option_too)
{
	struct invocation inv;

	good("--version", "version", &inv);
	good("-V --json", "version", &inv);
	good("version", "version", &inv);
}

/* Commands as users of Nomad, kubectl and systemctl type them: what runs, or a part of the hint. */
static const struct {
	const char *line, *path, *hint;
} first_tries[] = {
	{"volume ls", "volume status", NULL},
	{"volume list", "volume status", NULL},
	{"volumes", "volume status", NULL},
	{"get volumes", "volume status", NULL},
	{"get volume db", "volume status", NULL},
	{"describe volume db", "volume status", NULL},
	{"volume show db", "volume status", NULL},
	{"volume inspect db", "volume status", NULL},
	{"volume rm db", "volume deregister", NULL},
	{"volume resize db 2GiB", "volume expand", NULL},
	{"volume snapshot ls", "volume snapshot list", NULL},
	{"snapshot list", "volume snapshot list", NULL},
	{"node ls", "node status", NULL},
	{"node list", "node status", NULL},
	{"nodes", "node status", NULL},
	{"get nodes", "node status", NULL},
	{"describe node n1", "node status", NULL},
	{"node-status", "node status", NULL},
	{"drain n1", "node drain", NULL},
	{"get plugins", "plugin status", NULL},
	{"get jobs", "job status", NULL},
	{"jobs", "job status", NULL},
	{"job list", "job status", NULL},
	{"job inspect web", "job status", NULL},
	{"run web.hcl", "job run", NULL},
	{"plan web.hcl", "job plan", NULL},
	{"job apply web.hcl", "job run", NULL},
	{"alloc ls", "alloc status", NULL},
	{"allocations", "alloc status", NULL},
	{"logs 0192", "alloc logs", NULL},
	{"exec 0192 -- sh", "alloc exec", NULL},
	{"stop 0192", "alloc stop", NULL},
	{"list-units", "alloc status", NULL},
	{"status", "operator status", NULL},
	{"server members", "operator members", NULL},
	{"system gc", "operator gc", NULL},
	{"monitor", "operator watch", NULL},
	{"acl token list", "operator token list", NULL},
	{"operator snapshot save x", "operator backup", NULL},
	{"apply cluster", "apply", NULL},
	{"apply -f cluster", "apply", NULL},
	{"logs -f 0192", "alloc logs", NULL},
	{"--address h:1 -o json apply -f cluster", "apply", NULL},
	{"wait node n1 --for condition=Ready", "node wait", NULL},
	{"cordon n1", NULL, "node eligibility ID --disable"},
	{"delete volume db", NULL, "volume delete ID"},
	{"node rm n1", NULL, "node purge ID"},
	{"restart web", NULL, "job restart ID"},
	{"mount db", NULL, "volume hold ID"},
};

TEST(commands_of_other_programs_run_the_one_of_holdfast_or_hint_at_it)
{
	size_t n_done = 0;

	for (size_t i = 0; i < ARRAY_SIZE(first_tries); i++) {
		struct invocation inv;
		struct error err = {.msg = ""};

		if (first_tries[i].path) {
			good(first_tries[i].line, first_tries[i].path, &inv);
			n_done++;
			continue;
		}
		assert_int_equal(parse(first_tries[i].line, &inv, &err), STATUS_INVALID_ARGUMENT);
		assert_msg(strstr(err.msg, first_tries[i].hint), "'%s': %s", first_tries[i].line, err.msg);
	}
	assert_true(n_done >= 34);
}

TEST(help_before_a_command_is_its_help)
{
	struct invocation inv;

	good("help volume register", "volume register", &inv);
	assert_non_null(inv.options[OPT_HELP]);
	good("help volume ls", "volume status", &inv);
}

TEST(words_after_two_dashes_are_arguments)
{
	struct invocation inv;

	good("volume status -- --why", "volume status", &inv);
	assert_string_equal(inv.args[0], "--why");
	assert_null(inv.options[OPT_WHY]);
}

TEST(mistyped_commands_get_a_suggestion)
{
	static const struct {
		const char *line, *error;
	} cases[] = {
		{"", "no command is given"},
		{"volume", "what should 'volume' do?"},
		{"volume snapshot", "what should 'volume snapshot' do?"},
		{"operator cert nod x",
		 "unknown command 'operator cert nod', did you mean 'operator cert node'?"},
		{"bogus", "unknown command 'bogus'"},
		{"versoin", "unknown command 'versoin', did you mean 'version'?"},
		{"volume regster x", "unknown command 'volume regster', did you mean 'volume register'?"},
		{"volme status", "unknown command 'volme status', did you mean 'volume status'?"},
		{"volume status a b", "volume status: unexpected argument 'b'"},
		{"volume register", "volume register needs more arguments: FILE|-"},
		{"volume detach db", "volume detach needs more arguments: ID NODE"},
		{"node status --version", "node status has no option --version"},
		{"node status --why", "node status has no option --why"},
		{"volume status --wyh", "unknown option --wyh, did you mean --why?"},
		{"volume status --zzzz=1", "unknown option --zzzz"},
		{"volume status -x", "unknown option -x"},
		{"volume status -verbose", "unknown option -verbose, options have two dashes: --verbose"},
		{"job stop web -purge=true", "unknown option -purge, options have two dashes: --purge"},
		{"volume status --json=1", "option --json takes no argument"},
		{"volume status --address", "option --address needs its HOST:PORT"},
		{"volume status --address a --address b", "option --address is given twice"},
		{"--why", "no command is given"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct invocation inv;
		struct error err = {.msg = ""};

		assert_msg(parse(cases[i].line, &inv, &err) == STATUS_INVALID_ARGUMENT, "'%s' passed",
			   cases[i].line);
		assert_string_equal(err.msg, cases[i].error);
	}
}

TEST(help_is_given_for_everything_groups_and_commands)
{
	struct invocation inv;
	struct error err = {.msg = ""};

	assert_int_equal(parse("--help", &inv, &err), STATUS_OK);
	assert_null(inv.command);
	assert_string_equal(inv.group, "");
	assert_int_equal(parse("volume -h", &inv, &err), STATUS_OK);
	assert_null(inv.command);
	assert_string_equal(inv.group, "volume");
	assert_int_equal(parse("operator cert --help", &inv, &err), STATUS_OK);
	assert_null(inv.command);
	assert_string_equal(inv.group, "operator cert");
	assert_int_equal(parse("operator cert nod --help", &inv, &err), STATUS_INVALID_ARGUMENT);
	good("volume register --help", "volume register", &inv); /* though FILE is missing */
	assert_int_equal(parse("bogus --help", &inv, &err), STATUS_INVALID_ARGUMENT);
}

TEST(a_repeated_option_keeps_every_value_in_order)
{
	struct invocation inv;
	size_t at = 0;

	good("volume snapshot create db s --parameter a=1 --parameter b=2", "volume snapshot create", &inv);
	assert_string_equal(option_next(&inv, OPT_PARAMETER, &at), "a=1");
	assert_string_equal(option_next(&inv, OPT_PARAMETER, &at), "b=2");
	assert_null(option_next(&inv, OPT_PARAMETER, &at));
}

TEST(more_values_than_there_is_room_for_are_refused)
{
	static char line[64 + (OPTION_REPEATS_MAX + 1) * 16], *argv[8 + OPTION_REPEATS_MAX];
	struct invocation inv;
	struct error err;
	char *rest = line;
	int argc = 0;

	(void)str_copy(line, sizeof(line), "holdfast volume snapshot create db s");
	for (int i = 0; i <= OPTION_REPEATS_MAX; i++) {
		size_t n = strlen(line);

		assert_true(str_format(line + n, sizeof(line) - n, " --parameter=a=1") > 0);
	}
	while ((argv[argc] = strsep(&rest, " ")) != NULL)
		argc++;
	assert_int_equal(argc, 6 + OPTION_REPEATS_MAX + 1);
	assert_int_equal(command_parse(argc - 1, argv, &inv, &err), STATUS_OK);
	assert_int_equal(inv.n_repeated, OPTION_REPEATS_MAX);
	assert_int_equal(command_parse(argc, argv, &inv, &err), STATUS_INVALID_ARGUMENT);
	assert_non_null(strstr(err.msg, "more than 64 times"));
}

static void assert_no_command_has_both(int one, int other)
{
	option_set both = OPTION_BIT(one) | OPTION_BIT(other);

	assert_true((common_options & both) == 0);
	for (size_t i = 0; i < command_count(); i++)
		assert_true((command_at(i)->options & both) != both);
}

/* By the command that the first words name; a command without it is told so. */
TEST(an_option_is_the_one_that_its_command_has)
{
	struct invocation inv;
	struct error err;

	assert_int_equal(parse("audit verify --server FILE", &inv, &err), STATUS_OK);
	assert_non_null(inv.options[OPT_HEADS]);
	assert_null(inv.options[OPT_SERVER]);
	assert_int_equal(inv.n_args, 1);
	assert_int_equal(parse("policy explain stage --server 192.0.2.1", &inv, &err), STATUS_OK);
	assert_string_equal(inv.options[OPT_SERVER], "192.0.2.1");
	assert_null(inv.options[OPT_HEADS]);
	assert_int_equal(parse("node status --server", &inv, &err), STATUS_INVALID_ARGUMENT);
}

TEST(a_list_is_also_found_as_ls_and_status)
{
	static const char *const words[] = {"ls", "status"};
	char line[COMMAND_GROUP_SIZE];
	struct invocation inv;
	size_t n_lists = 0;

	for (size_t i = 0; i < command_count(); i++) {
		const char *path = command_at(i)->path, *last = strrchr(path, ' ');

		if (!last || !str_eq(last, " list"))
			continue;
		n_lists++;
		for (size_t k = 0; k < ARRAY_SIZE(words); k++) {
			(void)str_format(line, sizeof(line), "%.*s %s", (int)(last - path), path, words[k]);
			good(line, path, &inv);
		}
	}
	assert_int_equal(n_lists, 4);
	good("token status", "operator token list", &inv);
	good("tokens", "operator token list", &inv);
}

TEST(the_table_is_sound)
{
	for (size_t i = 0; i < command_count(); i++) {
		const struct command *command = command_at(i);

		assert_true(command->min_args <= command->max_args);
		assert_true(!command->run == !!command->call.method);
		assert_int_equal(command->options & common_options, 0);
		assert_true(command->help[strlen(command->help) - 1] != '.');
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(command->path, command_at(k)->path);
	}
	for (int id = 0; id < OPTION_N; id++) {
		assert_non_null(command_options[id].name);
		assert_non_null(command_options[id].help);
		for (int k = 0; k < id; k++)
			if (strcmp(command_options[id].name, command_options[k].name) == 0)
				assert_no_command_has_both(id, k);
	}
}

TEST(an_option_fills_a_field_but_does_not_contradict_the_file)
{
	struct invocation inv = {.options = {[OPT_NODE] = "n1"}};
	struct error err = {.msg = ""};
	cleanup_free char *field = strdup("");

	assert_int_equal(option_apply(&inv, OPT_ID, &field, &err), STATUS_OK);
	assert_string_equal(field, "");
	assert_int_equal(option_apply(&inv, OPT_NODE, &field, &err), STATUS_OK);
	assert_string_equal(field, "n1");
	assert_int_equal(option_apply(&inv, OPT_NODE, &field, &err), STATUS_OK);
	assert_false(inv.is_usage_error);
	inv.options[OPT_NODE] = "n2";
	assert_int_equal(option_apply(&inv, OPT_NODE, &field, &err), STATUS_INVALID_ARGUMENT);
	assert_true(inv.is_usage_error);
	assert_string_equal(err.msg, "--node n2 contradicts the file, which has 'n1'");
	assert_string_equal(field, "n1");
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "completion.h"
#include "completion_parts.h"
#include "unit.h"

#include "base/fd.h"
#include "command/command.h"

#include <glob.h>

static char *printed(void (*print)(FILE *out))
{
	char *text = NULL;
	size_t n = 0;
	FILE *out = NON_NULL(open_memstream(&text, &n));

	print(out);
	(void)fclose(out);
	if (!text)
		abort();
	return text;
}

TEST(the_script_offers_words_options_and_nothing_twice)
{
	static const char *const lines[] = {
		("\t\"\") words=\" volume plugin node alloc job apply agent audit policy operator enroll "
		 "driver context version completion\" ;;\n"),
		("\t\"volume\") words=\" register create status deregister delete detach expand hold link "
		 "unlink docker-plugin events wait init external snapshot\" ;;\n"),
		"\t\"volume snapshot\") words=\" create delete list\" ;;\n",
		"\t\"audit\") words=\" show verify\" ;;\n",
	};
	cleanup_free char *script = printed(completion_bash);

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		const char *at = strstr(script, lines[i]);

		if (!at) {
			fail_msg("%s is not in\n%s", lines[i], script);
			break;
		}
		assert_null(strstr(at + 1, lines[i]));
	}
	assert_non_null(strstr(script, "--address|--ca|"));
	assert_non_null(
		strstr(script, "\tvolume|node|plugin|alloc|job|context)\n")); /* ids that the server knows */
	assert_null(strstr(script, "--json|"));
}

TEST(the_script_quotes_ids_of_the_server)
{
	cleanup_free char *script = printed(completion_bash);
	const char *words = strstr(script, "(compgen -W \"$words\" ");
	const char *ids = strstr(script, " holdfast completion ids ");

	assert_non_null(strstr(script, "COMPREPLY+=(\"$(printf %q \"$part\")\")\n"));
	assert_true(words && ids && words < ids);
	assert_null(strstr(words + 2, "compgen -W"));
	assert_null(strstr(script, "words+="));
}

/* With every other option that has a name of @set: two commands may each have their own. */
static option_set with_namesakes(option_set set)
{
	option_set all = set;

	for (int id = 0; id < OPTION_N; id++)
		for (int other = 0; other < OPTION_N; other++)
			if ((set & OPTION_BIT(id)) &&
			    str_eq(command_options[id].name, command_options[other].name))
				all |= OPTION_BIT(other);
	return all;
}

/* Does the list of options at @words, " --help --json", up to its closing '"', name exactly @options? */
static bool names_exactly(const char *words, option_set options)
{
	option_set found = 0;
	const char *end = NON_NULL(strchr(words, '"'));

	for (int id = 0; id < OPTION_N; id++) {
		char want[96];
		const char *at;
		size_t n;

		(void)str_format(want, sizeof(want), " --%s", command_options[id].name);
		n = strlen(want);
		for (at = words; (at = strstr(at, want)) != NULL && at < end; at += n)
			if (at[n] == ' ' || at[n] == '"')
				found |= OPTION_BIT(id);
	}
	return found == with_namesakes(options);
}

TEST(the_script_knows_options_and_arguments_of_every_command)
{
	cleanup_free char *script = printed(completion_bash);
	size_t n = 0;

	for (size_t i = 0; i < command_count(); i++) {
		char want[128];
		const char *line, *words;

		(void)str_format(want, sizeof(want), "\t\"%s\"*) path=\"%s\" kinds=(", command_at(i)->path,
				 command_at(i)->path);
		line = strstr(script, want);
		assert_msg(line, "the script lacks %s", command_at(i)->path);
		words = line ? strstr(line, "options=\"") : NULL;
		assert_msg(words && names_exactly(words + strlen("options=\""),
						  common_options | command_at(i)->options),
			   "the options of %s are others in the script", command_at(i)->path);
	}
	for (const char *at = script; (at = strstr(at, " path=\"")); at++)
		n++;
	assert_int_equal(n, command_count());
	assert_non_null(strstr(script, "path=\"node attest\" kinds=(node volume)"));
	assert_non_null(strstr(script, "path=\"audit show\" kinds=(file file)"));
	assert_non_null(strstr(script, "\t--node) kind='node' ;;"));
}

/* Shorter paths must not catch the lines of longer ones. */
TEST(the_script_looks_for_longer_commands_first)
{
	cleanup_free char *script = printed(completion_bash);

	for (size_t i = 0; i < command_count(); i++)
		for (size_t k = 0; k < command_count(); k++) {
			char longer[96], shorter[96];

			if (i == k || !str_starts_with(command_at(i)->path, command_at(k)->path))
				continue;
			(void)str_format(longer, sizeof(longer), "\t\"%s\"*)", command_at(i)->path);
			(void)str_format(shorter, sizeof(shorter), "\t\"%s\"*)", command_at(k)->path);
			assert_true(strstr(script, longer) < strstr(script, shorter));
		}
}

static void expect_in(const char *script, const char *line)
{
	assert_msg(strstr(script, line), "the script lacks %s", line);
}

TEST(the_scripts_of_zsh_and_fish_have_every_command_and_option)
{
	char *zsh = printed(completion_zsh), *fish = printed(completion_fish);
	char want[256];

	for (size_t i = 0; i < command_count(); i++) {
		const char *path = command_at(i)->path, *blank = strrchr(path, ' ');

		(void)str_format(want, sizeof(want), "\t(\"%s\"|\"%s \"*) command=1 ", path, path);
		expect_in(zsh, want);
		(void)str_format(want, sizeof(want), "-n '__holdfast_is %.*s' -a %s -d ",
				 blank ? (int)(blank - path) : 0, path, blank ? blank + 1 : path);
		expect_in(fish, want);
		for (int id = 0; id < OPTION_N; id++) {
			if (!(command_at(i)->options & OPTION_BIT(id)))
				continue;
			(void)str_format(want, sizeof(want), "-n '__holdfast_in \"%s\"' -l %s ", path,
					 command_options[id].name);
			expect_in(fish, want);
		}
	}
	for (int id = 0; id < OPTION_N; id++) {
		(void)str_format(want, sizeof(want), " '--%s:", command_options[id].name);
		expect_in(zsh, want);
	}
	free(zsh);
	free(fish);
}

/* What the pages say, gathered line by line. */
struct manual {
	bool has_command[128];
	option_set general; /* of the section OPTIONS in holdfast.1 */
	char *text;	    /* of all pages */
	size_t n;
};

static int option_named(const char *name, size_t n)
{
	for (int id = 0; id < OPTION_N; id++)
		if (strlen(command_options[id].name) == n && strncmp(command_options[id].name, name, n) == 0)
			return id;
	return -1;
}

/* The options in bold on a line: all of them must exist. */
static option_set options_on(const char *line, size_t length)
{
	option_set set = 0;

	for (const char *at = line; at < line + length; at++) {
		size_t n;
		int id;

		if (strncmp(at, "*--", 3) != 0)
			continue;
		n = strcspn(at + 3, "*\n");
		if (n == 0)
			continue; /* the end of options */
		id = option_named(at + 3, n);
		if (id < 0)
			fail_msg("the manual has an option that is none: %.*s", (int)length, line);
		else
			set |= OPTION_BIT(id);
		at += 3 + n;
	}
	return set;
}

static void take_command(struct manual *manual, const char *line, size_t length)
{
	size_t n = strcspn(line + 1, "*\n");

	for (size_t i = 0; i < command_count(); i++) {
		if (strlen(command_at(i)->path) != n || strncmp(command_at(i)->path, line + 1, n) != 0)
			continue;
		assert_msg(!manual->has_command[i], "the manual has %s twice", command_at(i)->path);
		manual->has_command[i] = true;
		assert_msg(with_namesakes(options_on(line, length)) == with_namesakes(command_at(i)->options),
			   "the manual has other options for %s than the program", command_at(i)->path);
		return;
	}
	fail_msg("the manual has a command that is none: %.*s", (int)length, line);
}

static void take_page(struct manual *manual, const char *page)
{
	const char *section = "";

	for (const char *line = page; *line != '\0';) {
		size_t length = strcspn(line, "\n");

		if (str_starts_with(line, "# "))
			section = line;
		else if (str_starts_with(section, "# COMMANDS\n") && line[0] == '*')
			take_command(manual, line, length);
		else if (str_starts_with(section, "# OPTIONS\n") && line[0] == '*')
			manual->general |= options_on(line, length);
		else
			(void)options_on(line, length);
		line += length + (line[length] == '\n');
	}
}

static void read_manuals(struct manual *manual)
{
	FILE *all = NON_NULL(open_memstream(&manual->text, &manual->n));
	glob_t found = {.gl_pathc = 0};

	assert_int_equal(glob(MANUALS "/holdfast*.1.scd", 0, NULL, &found), 0);
	assert_true(found.gl_pathc >= 6);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		cleanup_free char *page = NULL;

		assert_int_equal(file_read(found.gl_pathv[i], 1 << 20, &page, NULL), 0);
		if (!page)
			continue;
		take_page(manual, page);
		(void)fputs(page, all);
	}
	globfree(&found);
	(void)fclose(all);
}

TEST(the_manual_has_the_commands_and_options_of_the_program_and_no_others)
{
	static const char *const variables[] = {
		"HOLDFAST_ADDR",
		"HOLDFAST_CACERT",
		"HOLDFAST_CLIENT_CERT",
		"HOLDFAST_CLIENT_KEY",
		"HOLDFAST_SERVER_URI",
		"HOLDFAST_DEV_DIR",
		"HOLDFAST_AGENT_SOCKET",
		"HOLDFAST_TOKEN_FILE",
		"HOLDFAST_CONTEXT",
		"CREDENTIALS_DIRECTORY",
		"NO_COLOR",
	};
	struct manual manual = {.text = NULL};

	assert_true(command_count() <= ARRAY_SIZE(manual.has_command));
	read_manuals(&manual);
	for (size_t i = 0; i < command_count(); i++)
		assert_msg(manual.has_command[i], "the manual lacks %s", command_at(i)->path);
	for (int id = 0; id < OPTION_N; id++)
		if ((common_options & ~manual.general) & OPTION_BIT(id))
			fail_msg("the manual lacks --%s among the options", command_options[id].name);
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++)
		assert_msg(strstr(manual.text, variables[i]), "the manual lacks %s", variables[i]);
	free(manual.text);
}

TEST(every_command_shows_an_example_that_is_one)
{
	for (size_t i = 0; i < command_count(); i++) {
		char line[256];
		char *words[32] = {NULL};
		char *rest = line;
		struct invocation inv;
		struct error err = {.msg = ""};
		int argc = 0;
		bool quoted = false;

		if (!command_at(i)->example) {
			fail_msg("%s has no example", command_at(i)->path);
			continue;
		}
		assert_true(str_format(line, sizeof(line), "holdfast %s %s", command_at(i)->path,
				       command_at(i)->example) > 0);
		for (char *p = line; *p; p++) { /* a text in quotes is one word */
			quoted ^= *p == '\'';
			if (quoted && *p == ' ')
				*p = '+';
		}
		while (argc < 31 && (words[argc] = strsep(&rest, " ")) != NULL)
			argc += words[argc][0] != '\0';
		words[argc] = NULL;
		assert_msg(command_parse(argc, words, &inv, &err) == STATUS_OK, "the example of %s: %s",
			   command_at(i)->path, err.msg);
		assert_string_equal(inv.command->path, command_at(i)->path);
	}
}

TEST(the_skeleton_of_the_manual_has_every_command_and_option)
{
	cleanup_free char *page = printed(completion_man);

	assert_non_null(strstr(page, "*volume register* _FILE|-_\n\tRegister a volume from its file.\n"));
	assert_non_null(strstr(page, "*-h*, *--help*\n\tshow this text.\n"));
}

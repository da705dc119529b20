#include "command.h"
#include "completion.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

#include <stdlib.h>
#include <string.h>

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

static char *printed(void (*print)(FILE *out))
{
	char *text = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&text, &n);

	assert_non_null(out);
	print(out);
	(void)fclose(out);
	if (!text)
		abort();
	return text;
}

static void the_script_offers_words_options_and_nothing_twice(void **state)
{
	static const char *const lines[] = {
		"\t\"\") words=\" volume plugin node alloc agent audit policy operator version completion\" "
		";;\n",
		"\t\"volume\") words=\" register create status deregister delete detach expand init "
		"snapshot\" ;;\n",
		"\t\"volume snapshot\") words=\" create delete list\" ;;\n",
		"\t\"audit\") words=\" show verify\" ;;\n",
	};
	char *script = printed(completion_bash);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		const char *at = strstr(script, lines[i]);

		if (!at) {
			fail_msg("%s is not in\n%s", lines[i], script);
			break;
		}
		assert_null(strstr(at + 1, lines[i]));
	}
	assert_non_null(strstr(script, "\t\t\"volume status\"*) words=\" --help --json"));
	assert_non_null(strstr(script, " --why\" ;;\n"));
	assert_non_null(strstr(script, "--address|--ca|"));
	assert_null(strstr(script, "--json|"));
	free(script);
}

/* The page is written by hand; the table says what must be on it. */
static void the_manual_names_every_command_option_and_variable(void **state)
{
	static const char *const variables[] = {
		"HOLDFAST_ADDR",       "HOLDFAST_CACERT",  "HOLDFAST_CLIENT_CERT",  "HOLDFAST_CLIENT_KEY",
		"HOLDFAST_SERVER_URI", "HOLDFAST_DEV_DIR", "HOLDFAST_AGENT_SOCKET", "NO_COLOR",
	};
	char *page = NULL;
	char want[96];

	(void)state;
	assert_int_equal(file_read(MANUAL, 1 << 20, &page, NULL), 0);
	if (!page)
		return;
	for (size_t i = 0; i < n_commands; i++) {
		(void)str_format(want, sizeof(want), "*%s*", commands[i].path);
		if (!strstr(page, want))
			fail_msg("the manual lacks %s", want);
	}
	for (int id = 0; id < OPTION_N; id++) {
		(void)str_format(want, sizeof(want), "*--%s*", command_options[id].name);
		if (!strstr(page, want))
			fail_msg("the manual lacks %s", want);
	}
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++)
		if (!strstr(page, variables[i]))
			fail_msg("the manual lacks %s", variables[i]);
	free(page);
}

static void the_skeleton_of_the_manual_has_every_command_and_option(void **state)
{
	char *page = printed(completion_man);

	(void)state;
	assert_non_null(strstr(page, "*volume register* _FILE|-_\n\tRegister a volume from its file.\n"));
	assert_non_null(strstr(page,
			       "*volume create* _FILE|-_\n\tCreate a volume at its provider and register it. "
			       "Not built yet.\n"));
	assert_non_null(strstr(page, "*-h*, *--help*\n\tshow this text.\n"));
	free(page);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_script_offers_words_options_and_nothing_twice),
		cmocka_unit_test(the_manual_names_every_command_option_and_variable),
		cmocka_unit_test(the_skeleton_of_the_manual_has_every_command_and_option),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

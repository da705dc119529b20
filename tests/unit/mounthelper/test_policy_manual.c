/* SPDX-License-Identifier: Apache-2.0 */
/* mounthelper.policy(5) against the parser: every key is explained, every example is accepted. */

#include "fixture.h"

#include "base/fd.h"

#define AGENT                                                                                  \
	"agent 5 { cluster = c; node = n; helper_uid = 6; helper_gid = 6; ticket = optional\n" \
	"stage_base = /s; publish_base = /p; log = /l; lock_dir = /k\n%s\n}\n"

enum { TEXT_MAX = 1 << 20 };

static void read_text(const char *path, char **ret)
{
	*ret = NULL;
	assert_msg(file_read(path, TEXT_MAX, ret, NULL) >= 0, "%s cannot be read", path);
}

/* The rows of the parser's table begin with a tab, a brace and the name. */
TEST(every_key_is_in_the_manual)
{
	char *source, *manual, *rest;
	unsigned int n = 0;

	read_text(POLICY_SOURCE, &source);
	read_text(POLICY_MANUAL, &manual);
	rest = NON_NULL(strstr(source, "keys[] = {"));
	*strstr(rest, "\n};") = '\0';
	while ((rest = strstr(rest, "\n\t{\"")) != NULL) {
		char wanted[64];

		rest += strlen("\n\t{\"");
		assert_true(str_format(wanted, sizeof(wanted), "\n*%.*s*", (int)strcspn(rest, "\""), rest) >
			    0);
		if (!strstr(manual, wanted) && !strstr(manual, (wanted[0] = ' ', wanted)))
			fail_msg("the manual does not explain%s", wanted);
		n++;
	}
	assert_true(n > 30);
	free(source);
	free(manual);
}

static void accept(const char *text)
{
	static struct policy policy;
	struct error err = {.msg = ""};
	unsigned int line;

	assert_msg(policy_parse("example", text, strlen(text), &policy, &line, &err) == STATUS_OK, "%s\n%s",
		   err.msg, text);
}

TEST(every_example_is_accepted)
{
	static char whole[4096];
	char *manual, *rest;
	unsigned int n = 0;

	read_text(POLICY_MANUAL, &manual);
	rest = manual;
	while ((rest = strstr(rest, "\n```\n")) != NULL) {
		char *example = rest + strlen("\n```\n");

		rest = NON_NULL(strstr(example, "\n```\n"));
		*rest++ = '\0';
		rest += strlen("```");
		if (strstr(example, "UID")) /* the skeleton */
			continue;
		n++;
		if (!str_starts_with(example, "agent "))
			assert_true(str_format(whole, sizeof(whole), AGENT, example) > 0);
		accept(str_starts_with(example, "agent ") ? example : whole);
	}
	assert_true(n >= 6);
	free(manual);
}

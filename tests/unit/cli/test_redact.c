/* SPDX-License-Identifier: Apache-2.0 */
/* Planted secrets of every kind: none is left, and what is no secret stays. */

#include "unit.h"

#include "operator/redact.h"

#include <stdlib.h>
#include <string.h>

/* Each contains PLANTED or is a form of its own. */
static const struct {
	const char *text;
	const char *redacted;
} cases[] = {
	{"{\"secrets\": {\"userID\": \"admin\", \"userKey\": \"PLANTED\"}, \"id\": \"db\"}",
	 "{\"secrets\": [redacted], \"id\": \"db\"}"},
	{"secrets {\n  any = \"PLANTED\"\n}\nid = \"db\"\n", "secrets [redacted]\nid = \"db\"\n"},
	{"token = \"hf_0123456789abcdef.PLANTED\"", "token = \"[redacted]\""},
	{"log: token hf_0123456789abcdefPLANTED refused", "log: token [redacted] refused"},
	{"Authorization: Bearer PLANTED", "Authorization: Bearer [redacted]"},
	{"mount -o vers=3.0,username=ann,password=PLANTED,ro",
	 "mount -o vers=3.0,username=ann,password=[redacted],ro"},
	{"\"mount_flags\": [\"credentials=PLANTED\", \"ro\"], \"x\": 1",
	 "\"mount_flags\": [redacted], \"x\": 1"},
	{"-----BEGIN PRIVATE KEY-----\nPLANTED\n-----END PRIVATE KEY-----\nend", "[redacted]\nend"},
	{"-----BEGIN CERTIFICATE-----\nabc\n", "-----BEGIN CERTIFICATE-----\nabc\n"},
	{"\"env\": {\"PGUSER\": \"PLANTED\"}", "\"env\": [redacted]"},
	{"environment = \"x\"", "environment = \"x\""},
	{"\"secret\": \"a\\\"PLANTED\", \"b\": 2", "\"secret\": \"[redacted]\", \"b\": 2"},
	{"DB_PASSWORD='PLANTED with blanks' next", "DB_PASSWORD=[redacted] next"},
	{"token_file = \"/etc/holdfast/token\"", "token_file = \"/etc/holdfast/token\""},
	{"the token of ann expired", "the token of ann expired"},
};

TEST(planted_secrets_of_every_kind_are_removed_and_the_rest_stays)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *text = redact(cases[i].text, strlen(cases[i].text));

		assert_non_null(text);
		assert_string_equal(text, cases[i].redacted);
		if (!strstr(cases[i].redacted, "PLANTED"))
			assert_null(strstr(text, "PLANTED"));
		free(text);
	}
}

TEST(text_that_is_cut_anywhere_is_read_to_its_end)
{
	static const char text[] =
		"\"secrets\": {\"a\": \"b\\\"c\", \"d\": [1, {\"e\": '\x80'}]} -----BEGIN PRIVATE KEY-----";

	for (size_t n = 0; n < sizeof(text); n++)
		free(redact(text, n));
}

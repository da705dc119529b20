/* SPDX-License-Identifier: Apache-2.0 */
/* logfmt lines and escaping: nothing in a value can end it. */

#include "unit.h"

#include "log/log.h"

#define HEAD "ts=2024-02-29T12:34:56.789Z level=notice ident=holdfast-agent msg="

WRAPPED(int64_t, clock_realtime_ms, void)
{
	return INT64_C(1709210096789);
}

static const struct error not_found = {.status = STATUS_NOT_FOUND, .sys_errno = 2, .msg = "no such volume"};
static const struct error aborted = {.status = STATUS_ABORTED, .msg = "again"};

/* clang-format off */
#define EVERYTHING \
	{.volume = "v", .wire_volume = "w", .alloc = "a", .node = "n", .claim = "c", .plugin = "p", \
	 .unit = "u", .op = "publish", .peer = "uid:7", .evidence = "receipt", .generation = 7, \
	 .event = LOG_EVENT_CLAIM_REFUSED, .err = &not_found}
/* clang-format on */

TEST(a_line_has_the_fields_that_are_set)
{
	static const struct {
		struct log_ctx ctx;
		const char *expected;
	} cases[] = {
		{{0}, "done"},
		{{.volume = "db"}, "done volume=db"},
		{{.alloc = "a1", .node = "n1"}, "done alloc=a1 node=n1"},
		{EVERYTHING,
		 "done volume=v wire_volume=w alloc=a node=n claim=c plugin=p unit=u op=publish peer=uid:7 "
		 "evidence=receipt event=claim-refused result=failed generation=7 status=NOT_FOUND errno=2"},
		{{.event = LOG_EVENT_NODE_DOWN}, "done event=node-down"},
		{{.event = LOG_EVENT_N}, "done"},
		{{.generation = UINT64_MAX}, "done generation=18446744073709551615"},
		{{.err = &aborted}, "done status=ABORTED"},
		{{.volume = ""}, "done volume=\"\""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char line[512], expected[512];
		size_t n =
			log_format(line, sizeof(line), "holdfast-agent", LOG_NOTICE, &cases[i].ctx, "done");

		(void)str_format(expected, sizeof(expected), HEAD "%s", cases[i].expected);
		assert_string_equal(line, expected);
		assert_int_equal(n, strlen(expected));
	}
}

TEST(a_line_needs_no_context)
{
	char line[512];

	(void)log_format(line, sizeof(line), "holdfast-agent", LOG_NOTICE, NULL, "two words");
	assert_string_equal(line, HEAD "\"two words\"");
}

TEST(values_are_quoted_and_escaped_where_needed)
{
	static const struct {
		const char *value, *expected;
	} cases[] = {
		{"a-b_c.d/e:f@g+h,i0", "a-b_c.d/e:f@g+h,i0"},
		{"", "\"\""},
		{"a b", "\"a b\""},
		{"a=b", "\"a=b\""},
		{"say \"hi\"", "\"say \\\"hi\\\"\""},
		{"back\\slash", "\"back\\\\slash\""},
		{"x\nlevel=err", "\"x\\nlevel=err\""},
		{"tab\tcr\r", "\"tab\\tcr\\r\""},
		{"\x01\x1f\x7f", "\"\\x01\\x1f\\x7f\""},
		{"\x1b[31m", "\"\\x1b[31m\""},
		{"gr\xc3\xbc\xc3\x9f", "\"gr\xc3\xbc\xc3\x9f\""},
		ROW("\xc2\x9b"
		    "c1",
		    "\"\\xc2\\x9bc1\""), /* CSI in one character */
		{"\xc2\xa0", "\"\xc2\xa0\""},
		{"bad\xff\xc3", "\"bad\\xff\\xc3\""},
		{"\xed\xa0\x80", "\"\\xed\\xa0\\x80\""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct log_ctx ctx = {.volume = cases[i].value};
		char line[512];

		(void)log_format(line, sizeof(line), "i", LOG_INFO, &ctx, "m");
		assert_string_equal(strstr(line, "volume=") + 7, cases[i].expected);
	}
}

TEST(no_byte_in_a_value_starts_another_field_or_line)
{
	for (int c = 1; c < 256; c++) {
		const char value[] = {(char)c, '"', ' ', 'x', '=', 'y', '\0'};
		char line[512];
		bool is_inside = false;

		(void)log_format(line, sizeof(line), "i", LOG_INFO, &(struct log_ctx){.volume = value}, "m");
		for (const char *p = strstr(line, "volume=") + 7; *p != '\0'; p++) {
			assert_true((unsigned char)*p >= 0x20 && *p != 0x7f);
			if (*p == '\\')
				p++;
			else if (*p == '"')
				is_inside = !is_inside;
			else if (*p == ' ' || *p == '=')
				assert_true(is_inside);
		}
		assert_false(is_inside);
	}
}

TEST(levels_have_their_names)
{
	static const char *const names[] = {"emerg",   "alert",	 "crit", "err",
					    "warning", "notice", "info", "debug"};
	char expected[64], line[512];

	for (int i = 0; i < 8; i++) {
		(void)log_format(line, sizeof(line), "i", i, NULL, "m");
		(void)str_format(expected, sizeof(expected), " level=%s ", names[i]);
		assert_non_null(strstr(line, expected));
	}
	(void)log_format(line, sizeof(line), "i", 8, NULL, "m");
	assert_non_null(strstr(line, " level=err "));
}

TEST(a_line_is_cut_at_the_end_wherever_that_is)
{
	const struct log_ctx ctx = ROW(.volume = "v\n", .alloc = "a", .claim = "gr\xc3\xbc\xc3\x9f",
				       .generation = 7, .event = LOG_EVENT_CLAIM_GRANTED, .err = &not_found);
	char whole[512];
	size_t len = log_format(whole, sizeof(whole), "i", LOG_INFO, &ctx, "hello world");

	for (size_t size = 0; size <= len + 1; size++) {
		char line[512];
		size_t n;

		memset(line, 'X', sizeof(line));
		n = log_format(line, size, "i", LOG_INFO, &ctx, "hello world");
		assert_int_equal(line[size], 'X'); /* nothing beyond */
		if (size == 0) {
			assert_int_equal(n, 0);
			continue;
		}
		assert_int_equal(n, strlen(line));
		assert_true(n < size);
		assert_memory_equal(line, whole, n); /* a beginning of the whole line */
	}
	assert_int_equal(log_format(whole, len + 1, "i", LOG_INFO, &ctx, "hello world"), len);
	assert_true(log_format(whole, len, "i", LOG_INFO, &ctx, "hello world") < len);
}

TEST(an_escape_is_whole_or_not_there)
{
	char text[16];

	assert_int_equal(log_escape(text, 6,
				    "a\x01"
				    "b"),
			 5);
	assert_string_equal(text, "a\\x01");
	assert_int_equal(log_escape(text, 5,
				    "a\x01"
				    "b"),
			 1);
	assert_string_equal(text, "a");
	assert_int_equal(log_escape(text, 2, "\xc3\xbc"), 0);
	assert_int_equal(log_escape(text, 3, "\xc3\xbc"), 2);
	assert_int_equal(log_escape(text, 1, "a"), 0);
	assert_int_equal(log_escape(text, 0, "a"), 0);
	assert_int_equal(log_escape(text, sizeof(text), "a \"b\""), 5); /* quotes are for logfmt only */
	assert_string_equal(text, "a \"b\"");
}

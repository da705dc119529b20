/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/fd.h"
#include "base/strbuf.h"
#include "conf/conf.h"
#include "conf/hcl.h"

#include <malloc.h>

static struct conf *parse(const char *text)
{
	struct conf *conf = NULL;
	struct error err = {0};

	assert_succeeds(conf_parse(text, "t.hcl", &conf, &err), err);
	return conf;
}

static void expect_tree(const char *text, const char *want)
{
	cleanup(conf_freep) struct conf *conf = parse(text);
	cleanup_free char *got = json_dumps(conf_root(conf), JSON_COMPACT);

	assert_string_equal(got, want);
}

static void expect_error(const char *text, const char *want)
{
	struct conf *conf = NULL;
	struct error err = {0};
	enum status status = conf_parse(text, "t.hcl", &conf, &err);

	assert_msg(status == STATUS_INVALID_ARGUMENT, "%s: %s", text, status_name(status));
	assert_null(conf);
	assert_string_equal(err.msg, want);
}

TEST(a_volume_file_and_its_json_form_give_the_same_tree)
{
	struct conf *hcl = NULL, *json = NULL;
	struct error err = {0};

	assert_succeeds(conf_load(GOLDEN_DIR "/volume.hcl", &hcl, &err), err);
	assert_succeeds(conf_load(GOLDEN_DIR "/volume.json", &json, &err), err);
	assert_true(json_equal(conf_root(hcl), conf_root(json)));
	conf_free(hcl);
	conf_free(json);
}

TEST(every_form_of_the_subset_is_read)
{
	static const struct {
		const char *text, *tree;
	} cases[] = {
		{"", "{}"},
		{"\n \t\r\n# c\n// c\n/* c\n c */", "{}"},
		{"a = 1", "{\"a\":1}"},
		{"a: \"x\"\nb=2 # c", "{\"a\":\"x\",\"b\":2}"},
		{"\"quoted key\" = true", "{\"quoted key\":true}"},
		{"a-b.c_d = false", "{\"a-b.c_d\":false}"},
		{"a = null\r\n", "{\"a\":null}"},
		{"a = -0.5", "{\"a\":-0.5}"},
		{"a = 9223372036854775807", "{\"a\":9223372036854775807}"},
		{"a = -9223372036854775808", "{\"a\":-9223372036854775808}"},
		{"a = 1e+2", "{\"a\":100.0}"},
		{"a = []", "{\"a\":[]}"},
		{"a = [\n1,\n# c\n[2], ]", "{\"a\":[1,[2]]}"},
		{"a = {}", "{\"a\":{}}"},
		{"a = { b = 1, c: 2\n d = 3 }", "{\"a\":{\"b\":1,\"c\":2,\"d\":3}}"},
		{"b {}\nc { }", "{\"b\":{},\"c\":{}}"},
		{"b { a = 1 }\nb { a = 2 }\nb {}", "{\"b\":[{\"a\":1},{\"a\":2},{}]}"},
		{"b \"x\" { a = 1 }\nb y {}", "{\"b\":{\"x\":{\"a\":1},\"y\":{}}}"},
		{"a = \"\\n\\t\\r\\\"\\\\\\u0041\\u00e9\\u20aC\"",
		 "{\"a\":\"\\n\\t\\r\\\"\\\\A\xc3\xa9\xe2\x82\xac\"}"},
		{"a = \"$${b} %%{c} $$ $ % 5%\"", "{\"a\":\"${b} %{c} $$ $ % 5%\"}"},
		{"a = <<X\n  1\n 2\nX\nb = 1", "{\"a\":\"  1\\n 2\\n\",\"b\":1}"},
		{"a = <<-X\n\t1\n\n\t\t2\n\tX", "{\"a\":\"1\\n\\n\\t2\\n\"}"},
		{"a = <<-X\n  X1\n XX\n X", "{\"a\":\" X1\\nXX\\n\"}"},
		{"a = <<X\r\none\r\nX\r\n", "{\"a\":\"one\\n\"}"},
		{"a = <<X\nX\n", "{\"a\":\"\"}"},
		{"a = <<X\n\"$${y}\"\nX", "{\"a\":\"\\\"${y}\\\"\\n\"}"},
		{"{ \"a\": [1, {\"b\": \"\\\"}\"}, 1e2] }", "{\"a\":[1,{\"b\":\"\\\"}\"},100.0]}"},
		{" \n{}", "{}"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		expect_tree(cases[i].text, cases[i].tree);
}

TEST(every_mistake_is_reported_with_its_line)
{
	static const struct {
		const char *text, *error;
	} cases[] = {
		{"a = 1\na = 2", "t.hcl:2: 'a' is given twice, first in line 1"},
		{"\na {}\na = 2", "t.hcl:3: 'a' is given twice, first in line 2"},
		{"a = {}\na {}", "t.hcl:2: 'a' is given twice in different forms, first in line 1"},
		{"a {}\na \"x\" {}", "t.hcl:2: 'a' is given twice in different forms, first in line 1"},
		{"a \"x\" {}\na {}", "t.hcl:2: 'a' is given twice in different forms, first in line 1"},
		{"a \"x\" {}\n\na \"x\" {}", "t.hcl:3: 'x' is the label of two blocks, first in line 1"},
		{"a", "t.hcl:1: '=' or '{' expected, found the end of the file"},
		{"a\nb = 1", "t.hcl:1: '=' or '{' expected, found the end of the line"},
		{"a \"x\" \"y\" {}", "t.hcl:1: '{' expected, found a string"},
		{"a =", "t.hcl:1: a value expected, found the end of the file"},
		{"a =\n", "t.hcl:1: a value expected, found the end of the line"},
		{"a = }", "t.hcl:1: a value expected, found '}'"},
		{"= 1", "t.hcl:1: a name expected, found '='"},
		{"5 = 1", "t.hcl:1: a name expected, found '5'"},
		{"a = 1 b = 2", "t.hcl:1: the end of the line expected, found 'b'"},
		{"a = 1, b = 2", "t.hcl:1: the end of the line expected, found ','"},
		{"a {} b {}", "t.hcl:1: the end of the line expected, found 'b'"},
		{"a = {b = 1,, c = 2}", "t.hcl:1: a name expected, found ','"},
		{"a {\nb = 1\n", "t.hcl:1: the '{' has no closing '}'"},
		{"\na = {\n", "t.hcl:2: the '{' has no closing '}'"},
		{"}", "t.hcl:1: a name expected, found '}'"},
		{"a = [1\n2]", "t.hcl:2: ',' or ']' expected, found '2'"},
		{"a = [,]", "t.hcl:1: a value expected, found ','"},
		{"\na = [\n1,\n", "t.hcl:2: the list has no closing ']'"},
		{"\na = [\n1\n", "t.hcl:2: the list has no closing ']'"},
		{"a = [}", "t.hcl:1: a value expected, found '}'"},
		/* texts that may be secrets are not shown */
		{"secrets = s3cret",
		 "t.hcl:1: '[redacted]' must be quoted, only true, false and null are not"},
		{"secrets {\na = 5ecret\n}",
		 "t.hcl:2: '[redacted]' is not a number, quote values with a unit"},
		{"a { secrets { b = { c = s3.cret } } }", "t.hcl:1: '[redacted]' is part of an expression, "
							  "and they are not evaluated: write the value"},
		{"secrets {\na = \"x\" s3cret\n}",
		 "t.hcl:2: the end of the line expected, found text without quotes"},
		{"mount_flags = [s3cret]",
		 "t.hcl:1: '[redacted]' must be quoted, only true, false and null are not"},
		{"secrets {\na = x\n}\nb = yes",
		 "t.hcl:2: '[redacted]' must be quoted, only true, false and null are not\n"
		 "t.hcl:4: 'yes' must be quoted, only true, false and null are not"},
		{"a = yes", "t.hcl:1: 'yes' must be quoted, only true, false and null are not"},
		{"a = 10GiB", "t.hcl:1: '10GiB' is not a number, quote values with a unit"},
		{"a = 010", "t.hcl:1: '010' is not a number, quote values with a unit"},
		{"a = -", "t.hcl:1: '-' is not a number, quote values with a unit"},
		{"a = 1.2.3", "t.hcl:1: '1.2.3' is not a number, quote values with a unit"},
		{"a = 9223372036854775808",
		 "t.hcl:1: '9223372036854775808' is not a number, quote values with a unit"},
		{"a = \"x", "t.hcl:1: the string has no end"},
		{"a = \"x\nb = 1", "t.hcl:1: the string has no end"},
		{"a = var.x",
		 "t.hcl:1: 'var.x' is part of an expression, and they are not evaluated: write the value"},
		{"a = max(1, 2)",
		 "t.hcl:1: 'max' is part of an expression, and they are not evaluated: write the value"},
		{"a = \"x\001\"", "t.hcl:1: the string holds the control character 0x01"},
		{"\n\na = \"\\x\"",
		 "t.hcl:3: unknown escape in a string, there are \\n \\t \\r \\\" \\\\ and \\uXXXX"},
		{"a = \"\\ud800\"",
		 "t.hcl:1: unknown escape in a string, there are \\n \\t \\r \\\" \\\\ and \\uXXXX"},
		{"a = \"\\u0000\"",
		 "t.hcl:1: unknown escape in a string, there are \\n \\t \\r \\\" \\\\ and \\uXXXX"},
		{"a = \"\\u12\"",
		 "t.hcl:1: unknown escape in a string, there are \\n \\t \\r \\\" \\\\ and \\uXXXX"},
		{"a = \"\\",
		 "t.hcl:1: unknown escape in a string, there are \\n \\t \\r \\\" \\\\ and \\uXXXX"},
		{"a = \"${b}\"",
		 "t.hcl:1: expressions are not supported, write $${ for the characters ${ (and %%{ for %{)"},
		{"a = \"%{b}\"",
		 "t.hcl:1: expressions are not supported, write $${ for the characters ${ (and %%{ for %{)"},
		{"a = <<X\n1\n${b}\nX",
		 "t.hcl:3: expressions are not supported, write $${ for the characters ${ (and %%{ for %{)"},
		{"\na = <<X\n1\nXX\n", "t.hcl:2: the heredoc has no closing X"},
		{"a = <<X\n1", "t.hcl:1: the heredoc has no closing X"},
		{"a = <<X", "t.hcl:1: a heredoc begins with <<WORD (or <<-WORD) at the end of a line"},
		{"a = << X\nX", "t.hcl:1: a heredoc begins with <<WORD (or <<-WORD) at the end of a line"},
		{"a = <<\nX", "t.hcl:1: a heredoc begins with <<WORD (or <<-WORD) at the end of a line"},
		{"a = <<X y\nX", "t.hcl:1: a heredoc begins with <<WORD (or <<-WORD) at the end of a line"},
		{"a = 1\n/* x\n", "t.hcl:2: the comment has no end"},
		{"a = 1\n/*/\n", "t.hcl:2: the comment has no end"},
		{"/* \n */ a = ;", "t.hcl:2: unexpected character ';'"},
		{"a = /", "t.hcl:1: unexpected character '/'"},
		{"a = <x", "t.hcl:1: unexpected character '<'"},
		{"a = \001", "t.hcl:1: unexpected byte 0x01"},
		{"a = 1\nb = \xc3\xa9", "t.hcl:2: unexpected byte 0xc3"},
		{"a = 1\nb = \"\xff\"", "t.hcl:2: the text is not UTF-8"},
		{"a = <<X\n1\n2\nX\nb", "t.hcl:5: '=' or '{' expected, found the end of the file"},
		{"a = [\n\n\n]\nb", "t.hcl:5: '=' or '{' expected, found the end of the file"},
		{"{\n\"a\": 1,\n\"a\": 2}", "t.hcl:3: duplicate object key"},
		{"{\n\"a\": 1,\n}", "t.hcl:3: string or '}' expected"},
		{"{} x", "t.hcl:1: end of file expected"},
		{"{\"password\" \"hunter2\"}", "t.hcl:1: ':' expected"},
		{"{", "t.hcl:1: string or '}' expected near end of file"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		expect_error(cases[i].text, cases[i].error);
}

TEST(all_mistakes_of_a_text_are_reported_at_once)
{
	static const struct {
		const char *text, *error;
	} cases[] = {
		{"a = yes\nb = 1\nc = 10GiB",
		 "t.hcl:1: 'yes' must be quoted, only true, false and null are not\n"
		 "t.hcl:3: '10GiB' is not a number, quote values with a unit"},
		{"b \"x\" \"y\" {\nc = 1\n}\na = no",
		 "t.hcl:1: '{' expected, found a string\n"
		 "t.hcl:4: 'no' must be quoted, only true, false and null are not"},
		{"b {\na = yes\nc {\nd = no\n}\n}\ne = ]",
		 "t.hcl:2: 'yes' must be quoted, only true, false and null are not\n"
		 "t.hcl:4: 'no' must be quoted, only true, false and null are not\n"
		 "t.hcl:7: a value expected, found ']'"},
		{"b { ;\na = yes\n}\nb = no",
		 "t.hcl:1: unexpected character ';'\n"
		 "t.hcl:4: 'no' must be quoted, only true, false and null are not"},
		{"a = [\n1,\nx,\n2\n]\nb = y",
		 "t.hcl:3: 'x' must be quoted, only true, false and null are not\n"
		 "t.hcl:6: 'y' must be quoted, only true, false and null are not"},
		{"a = \"\\q\" }\nb = <<X\n${c}\n\nX\nd = x",
		 "t.hcl:1: unknown escape in a string, there are \\n \\t \\r \\\" \\\\ and \\uXXXX\n"
		 "t.hcl:3: expressions are not supported, write $${ for the characters ${ (and %%{ for %{)\n"
		 "t.hcl:6: 'x' must be quoted, only true, false and null are not"},
		{"a = x\nb {\n", "t.hcl:1: 'x' must be quoted, only true, false and null are not\n"
				 "t.hcl:2: the '{' has no closing '}'"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		expect_error(cases[i].text, cases[i].error);
}

static void expect_whole(const char *text, enum conf_templates templates, const char *tree,
			 const char *mistakes)
{
	cleanup(conf_freep) struct conf *conf = NULL;
	struct error err = {.msg = ""};
	cleanup_free char *got = NULL;

	assert_int_equal(conf_parse_whole(text, "t.hcl", templates, &conf, &err), STATUS_OK);
	got = json_dumps(conf_root(conf), JSON_COMPACT);
	assert_string_equal(got, tree);
	assert_int_equal(conf_mistakes(conf, &err), mistakes[0] ? STATUS_INVALID_ARGUMENT : STATUS_OK);
	assert_string_equal(err.msg, mistakes);
}

TEST(a_text_with_mistakes_gives_all_the_rest)
{
	expect_whole("a = 1\nb = x\nc { d = y\n e = 2 }", CONF_NO_TEMPLATES, "{\"a\":1,\"c\":{\"e\":2}}",
		     "t.hcl:2: 'x' must be quoted, only true, false and null are not\n"
		     "t.hcl:3: 'y' must be quoted, only true, false and null are not");
	expect_whole("a = 1\nb {", CONF_NO_TEMPLATES, "{}", "t.hcl:2: the '{' has no closing '}'");
}

TEST(a_mistake_in_a_list_leaves_the_level_of_the_next_line)
{
	static const char mistake[] = "x = [y\n]\n";
	cleanup_strbuf struct strbuf text = STRBUF_INIT(4096);
	cleanup(conf_freep) struct conf *conf = NULL;
	struct error err;

	for (int i = 0; i < CONF_DEPTH_MAX + 1; i++)
		strbuf_puts(&text, mistake);
	strbuf_puts(&text, "a = [1]");
	assert_int_equal(conf_parse_whole(text.data, "t.hcl", CONF_NO_TEMPLATES, &conf, &err), STATUS_OK);
	assert_non_null(json_object_get(conf_root(conf), "a"));
}

TEST(references_are_kept_as_they_are_written)
{
	static const char refused[] =
		"t.hcl:1: only references are replaced, as in ${node.unique.name}; write the "
		"value of another expression, and $${ for the characters ${";

	expect_whole("a = \"x-${NOMAD_ALLOC_ID}/${node.unique.name}\"\nb = \"$${c} %%{d}\"", CONF_REFERENCES,
		     "{\"a\":\"x-${NOMAD_ALLOC_ID}/${node.unique.name}\",\"b\":\"$${c} %%{d}\"}", "");
	expect_whole("a = <<X\n${attr.kernel.name}\nX", CONF_REFERENCES, "{\"a\":\"${attr.kernel.name}\\n\"}",
		     "");
	expect_whole("a = \"${f(x)}\"", CONF_REFERENCES, "{}", refused);
	expect_whole("a = \"%{if x}\"", CONF_REFERENCES, "{}", refused);
	expect_whole("a = \"${x\"", CONF_REFERENCES, "{}", refused);
}

TEST(expressions_are_kept_as_texts)
{
	static const struct {
		const char *text, *tree;
	} cases[] = {
		{"a = var.x # c", "{\"a\":\"${var.x}\"}"},
		{"a = var.x // c\nb = 1", "{\"a\":\"${var.x}\",\"b\":1}"},
		{"a = [var.x, \"y\", 1]", "{\"a\":[\"${var.x}\",\"y\",1]}"},
		{"a = 2 * 1024\nb = \"x\" == local.y ? 1 : 2",
		 "{\"a\":\"${2 * 1024}\",\"b\":\"${\\\"x\\\" == local.y ? 1 : 2}\"}"},
		{"a = concat([1,\n2],\n[\"}\"])\nb = 1",
		 "{\"a\":\"${concat([1,\\n2],\\n[\\\"}\\\"])}\",\"b\":1}"},
		{"a = [for x in var.y : x]\nb = { c = !d }",
		 "{\"a\":\"${[for x in var.y : x]}\",\"b\":{\"c\":\"${!d}\"}}"},
		{"a = \"${lookup(var.m, \"k\")}-%{ if x }\"",
		 "{\"a\":\"${lookup(var.m, \\\"k\\\")}-%{ if x }\"}"},
		{"a = (1)\nb = true", "{\"a\":\"${(1)}\",\"b\":true}"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		expect_whole(cases[i].text, CONF_EXPRESSIONS, cases[i].tree, "");
	expect_whole("a = \"${x\"\nb = concat(1,\n2)\nc = ]", CONF_EXPRESSIONS,
		     "{\"b\":\"${concat(1,\\n2)}\"}",
		     "t.hcl:1: the expression has no end in its line\nt.hcl:4: a value expected, found ']'");
	/* a backslash hides no end of a line, behind which the heredoc ends */
	expect_whole("a = <<EOT\n${\"\\\nEOT\r\\\n\"}x", CONF_EXPRESSIONS, "{}",
		     "t.hcl:2: the expression has no end in its line\nt.hcl:4: the string has no end");
}

static char *repeat(const char *open, const char *middle, const char *close, int n)
{
	struct strbuf text = STRBUF_INIT(4096);

	for (int i = 0; i < n; i++)
		strbuf_puts(&text, open);
	strbuf_puts(&text, middle);
	for (int i = 0; i < n; i++)
		strbuf_puts(&text, close);
	return strbuf_take(&text);
}

TEST(nesting_ends_at_the_limit_in_every_form)
{
	static const struct {
		const char *start, *open, *middle, *close, *end;
		int above; /* levels that start has */
	} forms[] = {
		{"", "a {\n", "b = 1", "\n}\n", "", 0},	    {"a = ", "[", "1", "]", "", 0},
		{"a = ", "{ b = ", "1", " }", "", 0},	    {"{\"a\": ", "[", "1", "]", "}", 0},
		{"{\"a\": ", "{\"b\": ", "1", "}", "}", 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		for (int depth = CONF_DEPTH_MAX; depth <= CONF_DEPTH_MAX + 1; depth++) {
			cleanup_free char *body =
				repeat(forms[i].open, forms[i].middle, forms[i].close, depth);
			cleanup(conf_freep) struct conf *conf = NULL;
			struct error err = {0};
			char text[4096];
			enum status status;

			(void)str_format(text, sizeof(text), "%s%s%s", forms[i].start, body, forms[i].end);
			status = conf_parse(text, "t.hcl", &conf, &err);
			if (depth == CONF_DEPTH_MAX && status != STATUS_OK)
				fail_msg("form %zu: %s", i, err.msg);
			if (depth > CONF_DEPTH_MAX) {
				assert_int_equal(status, STATUS_INVALID_ARGUMENT);
				assert_non_null(strstr(err.msg, ": nested deeper than 32 levels"));
			}
		}
	}
}

TEST(siblings_do_not_count_as_levels)
{
	static const struct {
		const char *start, *each, *end;
	} forms[] = {
		{"a = [", "[], {}, ", "]"},
		{"", "b { }\n", ""},
		{"{\"a\": [0", ", [], {}", "]}"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		cleanup_free char *body = repeat(forms[i].each, "", "", 2 * CONF_DEPTH_MAX);
		char text[4096];

		(void)str_format(text, sizeof(text), "%s%s%s", forms[i].start, body, forms[i].end);
		conf_free(parse(text));
	}
}

TEST(a_file_may_be_as_long_as_the_limit_and_no_longer)
{
	cleanup_free char *text = malloc(CONF_SIZE_MAX + 2);
	char path[] = "/tmp/conf-XXXXXX";
	struct conf *conf = NULL;
	struct error err = {0};
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	memset(text, ' ', CONF_SIZE_MAX + 1);
	text[CONF_SIZE_MAX] = '\0';
	conf_free(parse(text));
	assert_int_equal(fd_write_all(fd, text, CONF_SIZE_MAX), 0);
	assert_int_equal(conf_load(path, &conf, &err), STATUS_OK);
	conf_free(conf);
	conf = NULL;
	text[CONF_SIZE_MAX] = ' ';
	text[CONF_SIZE_MAX + 1] = '\0';
	expect_error(text, "t.hcl: longer than 1048576 bytes");
	assert_int_equal(fd_write_all(fd, text, 1), 0);
	assert_int_equal(conf_load(path, &conf, &err), STATUS_INVALID_ARGUMENT);
	assert_true(str_starts_with(err.msg, path));
	assert_null(conf);
	assert_int_equal(unlink(path), 0);
	(void)close(fd);
}

TEST(a_path_without_a_file_is_refused)
{
	char path[] = "/tmp/conf-XXXXXX";
	struct conf *conf = NULL;
	struct error err = {0};
	char want[64];
	int fd = mkstemp(path);

	assert_int_equal(conf_load("/nonexistent/x.hcl", &conf, &err), STATUS_NOT_FOUND);
	assert_string_equal(err.msg, "read /nonexistent/x.hcl: No such file or directory");
	assert_int_equal(conf_load("/tmp", &conf, &err), STATUS_INVALID_ARGUMENT);
	assert_string_equal(err.msg, "read /tmp: Is a directory");
	assert_int_equal(conf_load("/dev/null", &conf, &err), STATUS_INVALID_ARGUMENT);
	assert_string_equal(err.msg, "/dev/null: not a regular file");
	assert_int_equal(fd_write_all(fd, "a = 1\nb\0= 2", 11), 0);
	assert_int_equal(conf_load(path, &conf, &err), STATUS_INVALID_ARGUMENT);
	(void)str_format(want, sizeof(want), "%s:2: the file holds a NUL byte", path);
	assert_string_equal(err.msg, want);
	assert_null(conf);
	assert_int_equal(unlink(path), 0);
	(void)close(fd);
}

TEST(standard_input_is_read_and_named)
{
	int saved = dup(STDIN_FILENO);
	struct conf *conf = NULL;
	struct error err = {0};
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(fd_write_all(ends[1], "a =", 3), 0);
	(void)close(ends[1]);
	assert_true(dup2(ends[0], STDIN_FILENO) == STDIN_FILENO);
	assert_int_equal(conf_load("-", &conf, &err), STATUS_INVALID_ARGUMENT);
	assert_string_equal(err.msg, "standard input:1: a value expected, found the end of the file");
	assert_true(dup2(saved, STDIN_FILENO) == STDIN_FILENO);
	(void)close(ends[0]);
	(void)close(saved);
}

static void expect_place(const struct conf *conf, const json_t *object, const char *key, const char *want)
{
	struct error err = {0};

	assert_int_equal(conf_error(conf, object, key, &err, "%s", "x"), STATUS_INVALID_ARGUMENT);
	assert_string_equal(err.msg, want);
}

/* The same members on the same lines in both forms. */
TEST(members_know_their_lines_in_both_forms)
{
	static const char *const texts[] = {
		"a = 1\nb {\n c = [\n 1,\n 2]\n d = { e = 1 }\n}\nf = \"x\"\n",
		"{\"a\": 1,\n\"b\": {\n \"c\": [\n 1,\n 2],\n \"d\": {\"e\": \"}\\\\\\\"\"}\n}\n,\"f\": "
		"\"x\"}\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		cleanup(conf_freep) struct conf *conf = parse(texts[i]);
		json_t *root = conf_root(conf);
		json_t *b = json_object_get(root, "b");
		cleanup(json_decrefp) json_t *other = json_object();

		expect_place(conf, root, "a", "t.hcl:1: x");
		expect_place(conf, root, "b", "t.hcl:2: x");
		expect_place(conf, b, "c", "t.hcl:3: x");
		expect_place(conf, b, "d", "t.hcl:6: x");
		expect_place(conf, json_object_get(b, "d"), "e", "t.hcl:6: x");
		expect_place(conf, root, "f", "t.hcl:8: x");
		expect_place(conf, b, "missing", "t.hcl:2: x");
		expect_place(conf, b, NULL, "t.hcl:2: x");
		expect_place(conf, other, "a", "t.hcl: x");
	}
}

TEST(a_list_of_blocks_knows_the_lines_of_each)
{
	cleanup(conf_freep) struct conf *conf =
		parse("b { a = 1 }\n\nb { a = 2 }\nl \"x\" {\n  a = 3 }\nl \"y\" { a = 4 }");
	json_t *root = conf_root(conf);
	json_t *list = json_object_get(root, "b");
	json_t *labelled = json_object_get(root, "l");

	expect_place(conf, json_array_get(list, 0), "a", "t.hcl:1: x");
	expect_place(conf, json_array_get(list, 1), "a", "t.hcl:3: x");
	expect_place(conf, json_array_get(list, 1), NULL, "t.hcl:3: x");
	expect_place(conf, json_object_get(labelled, "x"), "a", "t.hcl:5: x");
	expect_place(conf, labelled, "y", "t.hcl:6: x");
}

/* Of what was read when it failed nothing stays. */
TEST(a_document_that_is_refused_leaves_no_memory_behind)
{
	struct mallinfo2 before = {0};

	for (int i = 0; i < 20; i++) {
		struct conf *conf = NULL;
		struct error err;

		if (i == 10)
			before = mallinfo2();
		assert_int_equal(
			conf_parse("a = 1 word_that_is_longer_than_a_line_of_its_own", "t.hcl", &conf, &err),
			STATUS_INVALID_ARGUMENT);
		assert_int_equal(
			conf_parse("a word_that_is_longer_than_a_line_of_its_own", "t.hcl", &conf, &err),
			STATUS_INVALID_ARGUMENT);
	}
	assert_int_equal(mallinfo2().uordblks, before.uordblks);
}

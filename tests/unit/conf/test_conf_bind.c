/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "conf/conf.h"

struct settings {
	char name[8], dir[32];
	bool enabled;
	uint32_t port;
	uint64_t count, size, timeout_us;
	char blocks[64]; /* labels and values, in the order they came */
};

static enum status take_block(const struct conf *conf, const char *label, json_t *body, void *target,
			      struct error *err)
{
	struct settings *settings = target;
	uint32_t weight = 0;
	const struct conf_field fields[] = {
		{.key = "weight", .type = CONF_U32, .offset = 0, .required = true},
	};
	size_t n = strlen(settings->blocks);

	TRY(conf_bind(conf, body, fields, ARRAY_SIZE(fields), &weight, err));
	(void)str_format(settings->blocks + n, sizeof(settings->blocks) - n, "%s=%u ", label ? label : "-",
			 weight);
	return STATUS_OK;
}

#define MEMBER(name) .offset = offsetof(struct settings, name)

static const struct conf_field fields[] = {
	{.key = "name", .type = CONF_STRING, MEMBER(name), .size = sizeof(((struct settings *)0)->name)},
	{.key = "data_dir", .type = CONF_PATH, MEMBER(dir), .size = sizeof(((struct settings *)0)->dir)},
	{.key = "enabled", .type = CONF_BOOL, MEMBER(enabled)},
	{.key = "port", .type = CONF_U32, MEMBER(port), .min = 1, .max = 65535},
	{.key = "count", .type = CONF_U64, MEMBER(count), .min = 2},
	{.key = "size", .type = CONF_SIZE, MEMBER(size), .min = 1024, .max = 4096},
	{.key = "timeout", .type = CONF_DURATION, MEMBER(timeout_us), .min = 1000, .max = 60000000},
	{.key = "peer", .type = CONF_BLOCKS, .block = take_block},
};

static enum status bind(const char *text, struct settings *settings, struct error *err)
{
	cleanup(conf_freep) struct conf *conf = NULL;
	enum status status;

	assert_succeeds(conf_parse(text, "t.hcl", &conf, err), *err);
	status = conf_bind(conf, conf_root(conf), fields, ARRAY_SIZE(fields), settings, err);
	return status;
}

TEST(good_values_are_filled_in_and_absent_ones_keep_their_defaults)
{
	struct settings settings = {.name = "keep", .port = 7, .count = 9};
	struct error err = {0};

	assert_succeeds(bind("data_dir = \"/var/lib/x\"\nenabled = true\nsize = \"4KiB\"\ntimeout = "
			     "\"1m\"\nname = null\n"
			     "peer \"b\" { weight = 1 }\npeer \"a\" { weight = 4294967295 }",
			     &settings, &err),
			err);
	assert_string_equal(settings.name, "keep");
	assert_string_equal(settings.dir, "/var/lib/x");
	assert_true(settings.enabled);
	assert_int_equal(settings.port, 7);
	assert_int_equal(settings.count, 9);
	assert_int_equal(settings.size, 4096);
	assert_int_equal(settings.timeout_us, 60000000);
	assert_string_equal(settings.blocks, "b=1 a=4294967295 ");
}

TEST(the_ends_of_every_range_are_inside)
{
	static const char *const texts[] = {
		"name = \"1234567\"",	       "port = 1",	   "port = 65535", "count = 2",
		"count = 9223372036854775807", "size = 1024",	   "size = 4096",  "timeout = \"1ms\"",
		"timeout = \"60s\"",	       "data_dir = \"/\"", "name = \"\"",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct settings settings = {.port = 7};
		struct error err = {0};

		assert_succeeds(bind(texts[i], &settings, &err), err);
	}
}

TEST(a_number_fills_its_member_and_no_other)
{
	struct settings settings = {.port = 7};
	struct {
		uint32_t number, behind;
	} narrow = {.behind = 7};
	const struct conf_field field = {.key = "number", .type = CONF_U32, .offset = 0};
	cleanup(conf_freep) struct conf *conf = NULL;
	struct error err = {0};

	assert_int_equal(bind("count = 9223372036854775807", &settings, &err), STATUS_OK);
	assert_true(settings.count == INT64_MAX);
	assert_int_equal(conf_parse("number = 4294967295", "t.hcl", &conf, &err), STATUS_OK);
	assert_int_equal(conf_bind(conf, conf_root(conf), &field, 1, &narrow, &err), STATUS_OK);
	assert_int_equal(narrow.number, UINT32_MAX);
	assert_int_equal(narrow.behind, 7);
}

TEST(wrong_values_are_reported_with_file_and_line)
{
	static const struct {
		const char *text, *error;
	} cases[] = {
		{"\nporrt = 5", "t.hcl:2: unknown key 'porrt', did you mean 'port'?"},
		{"zzz = 5", "t.hcl:1: unknown key 'zzz'"},
		{"name = 5", "t.hcl:1: 'name' must be a string"},
		{"name = \"12345678\"", "t.hcl:1: 'name' may have 7 bytes at most"},
		{"data_dir = 5", "t.hcl:1: 'data_dir' must be a string"},
		{"data_dir = \"a/b\"",
		 "t.hcl:1: 'data_dir' must be an absolute path without '.', '..' and doubled slashes"},
		{"data_dir = \"/a/../b\"",
		 "t.hcl:1: 'data_dir' must be an absolute path without '.', '..' and doubled slashes"},
		{"enabled = 1", "t.hcl:1: 'enabled' must be true or false"},
		{"enabled = \"yes\"", "t.hcl:1: 'enabled' must be true or false"},
		{"port = 0", "t.hcl:1: 'port' must be 1 to 65535"},
		{"port = 65536", "t.hcl:1: 'port' must be 1 to 65535"},
		{"port = -1", "t.hcl:1: 'port' must be 1 to 65535"},
		{"port = \"5\"", "t.hcl:1: 'port' must be a whole number"},
		{"port = 5.0", "t.hcl:1: 'port' must be a whole number"},
		{"count = 1", "t.hcl:1: 'count' must be 2 to 9223372036854775807"},
		{"size = 1023", "t.hcl:1: 'size' must be 1024 to 4096 bytes"},
		{"size = \"5KiB\"", "t.hcl:1: 'size' must be 1024 to 4096 bytes"},
		{"size = \"5 apples\"",
		 "t.hcl:1: 'size' must be a size, a number of bytes or as in \"10GiB\""},
		{"size = -5", "t.hcl:1: 'size' must be a size, a number of bytes or as in \"10GiB\""},
		{"size = true", "t.hcl:1: 'size' must be a size, a number of bytes or as in \"10GiB\""},
		{"timeout = \"61s\"", "t.hcl:1: 'timeout' must be 1ms to 1m00s"},
		{"timeout = \"999us\"", "t.hcl:1: 'timeout' must be 1ms to 1m00s"},
		{"timeout = 5", "t.hcl:1: 'timeout' must be a duration with its unit, as in \"90s\""},
		{"timeout = \"5\"", "t.hcl:1: 'timeout' must be a duration with its unit, as in \"90s\""},
		{"peer = 5", "t.hcl:1: 'peer' must be a block"},
		{"peer = [{}, 5]", "t.hcl:1: 'weight' is missing"},
		{"{\"peer\": {}}", "t.hcl:1: 'weight' is missing"},
		{"peer = [5]", "t.hcl:1: 'peer' must be a block"},
		{"peer \"x\" {\n}", "t.hcl:1: 'weight' is missing"},
		{"port = 5\npeer \"x\" {\nwieght = 1\n}",
		 "t.hcl:3: unknown key 'wieght', did you mean 'weight'?"},
		{"peer \"x\" {\nweight = 4294967296\n}", "t.hcl:2: 'weight' must be 0 to 4294967295"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct settings settings = {.port = 7};
		struct error err = {0};

		assert_int_equal(bind(cases[i].text, &settings, &err), STATUS_INVALID_ARGUMENT);
		assert_string_equal(err.msg, cases[i].error);
	}
}

TEST(blocks_come_in_every_form)
{
	static const struct {
		const char *text, *blocks;
	} cases[] = {
		{"peer { weight = 1 }", "-=1 "},
		{"peer { weight = 1 }\npeer { weight = 2 }", "-=1 -=2 "},
		{"peer = { weight = 1 }", "-=1 "},
		{"peer = { x = { weight = 1 } }", "x=1 "},
		{"peer x { weight = 1 }", "x=1 "},
		{"{\"peer\": {\"x\": {\"weight\": 1}, \"y\": {\"weight\": 2}}}", "x=1 y=2 "},
		{"{\"peer\": {\"weight\": 3}}", "-=3 "},
		{"{\"peer\": [{\"weight\": 3}, {\"weight\": 4}]}", "-=3 -=4 "},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct settings settings = {.port = 7};
		struct error err = {0};

		assert_succeeds(bind(cases[i].text, &settings, &err), err);
		assert_string_equal(settings.blocks, cases[i].blocks);
	}
}

TEST(a_failed_block_ends_the_binding)
{
	struct settings settings = {.port = 7};
	struct error err = {0};

	assert_int_equal(bind("peer \"a\" { }\npeer \"b\" { weight = 1 }", &settings, &err),
			 STATUS_INVALID_ARGUMENT);
	assert_string_equal(err.msg, "t.hcl:1: 'weight' is missing");
	assert_string_equal(settings.blocks, "");
}

/* Settings about nodes and operators' words. */

#include "config.h"
#include "unit.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/strbuf.h"

#include <string.h>

static enum status load(const char *text, struct config *config, struct error *err)
{
	char dir[] = "/tmp/holdfast-config-XXXXXX";
	char path[64];
	enum status st;

	assert_non_null(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/server.hcl", dir);
	assert_int_equal(file_write_atomic(path, 0600, text, strlen(text)), 0);
	config_init(config);
	st = config_load(path, config, err);
	assert_int_equal(remove(path), 0);
	assert_int_equal(remove(dir), 0);
	return st;
}

static void a_node_is_down_after_a_time_within_bounds(void **state)
{
	static const struct {
		const char *text;
		uint64_t wanted_s; /* 0: refused */
	} cases[] = {
		{"cluster = \"c\"\n", 300},
		{"cluster = \"c\"\nnode_down_after = \"10s\"\n", 10},
		{"cluster = \"c\"\nnode_down_after = \"168h\"\n", 7 * 24 * 3600},
		{"cluster = \"c\"\nnode_down_after = \"9s\"\n", 0},
		{"cluster = \"c\"\nnode_down_after = \"169h\"\n", 0},
		{"cluster = \"c\"\nnode_down_after = true\n", 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct config config;
		struct error err;

		assert_int_equal(load(cases[i].text, &config, &err),
				 cases[i].wanted_s == 0 ? STATUS_INVALID_ARGUMENT : STATUS_OK);
		if (cases[i].wanted_s != 0)
			assert_true(config.node_down_after_us == cases[i].wanted_s * USEC_PER_SEC);
	}
}

static enum status load_forbidden(int n, struct config *config, struct error *err)
{
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(4096);

	strbuf_puts(&sb, "cluster = \"c\"\nattest_forbidden_plugins = [");
	for (int i = 0; i < n; i++)
		strbuf_printf(&sb, "%s\"p%d\"", i > 0 ? ", " : "", i);
	strbuf_puts(&sb, "]\n");
	return load(sb.data, config, err);
}

static void plugins_without_operators_words_are_a_bounded_list_of_names(void **state)
{
	static const char *const refused[] = {
		"cluster = \"c\"\nattest_forbidden_plugins = \"ebs\"\n",
		"cluster = \"c\"\nattest_forbidden_plugins = [ 1 ]\n",
		"cluster = \"c\"\nattest_forbidden_plugins = [ \"a/b\" ]\n",
		"cluster = \"c\"\nattest_forbidden_plugins = [ \"\" ]\n",
	};
	struct config config;
	struct error err;

	(void)state;
	assert_int_equal(load_forbidden(0, &config, &err), STATUS_OK);
	assert_int_equal(config.n_attest_forbidden, 0);
	assert_int_equal(load_forbidden(2, &config, &err), STATUS_OK);
	assert_int_equal(config.n_attest_forbidden, 2);
	assert_string_equal(config.attest_forbidden[0], "p0");
	assert_string_equal(config.attest_forbidden[1], "p1");
	assert_int_equal(load_forbidden(CONFIG_FORBIDDEN_MAX, &config, &err), STATUS_OK);
	assert_int_equal(load_forbidden(CONFIG_FORBIDDEN_MAX + 1, &config, &err), STATUS_INVALID_ARGUMENT);
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		assert_int_equal(load(refused[i], &config, &err), STATUS_INVALID_ARGUMENT);
		assert_non_null(strstr(err.msg, "attest_forbidden_plugins"));
		assert_non_null(strstr(err.msg, "server.hcl:2"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_node_is_down_after_a_time_within_bounds),
		cmocka_unit_test(plugins_without_operators_words_are_a_bounded_list_of_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Settings about nodes and operators' words. */

#include "config.h"
#include "dev.h"
#include "unit.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/strbuf.h"

static enum status load(const char *text, struct config *config, struct error *err)
{
	char dir[] = "/tmp/holdfast-config-XXXXXX", path[64];
	enum status status;

	assert_non_null(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/server.hcl", dir);
	assert_int_equal(file_write_atomic(path, 0600, text, strlen(text)), 0);
	config_init(config);
	status = config_load(path, config, err);
	assert_int_equal(remove(path), 0);
	assert_int_equal(remove(dir), 0);
	return status;
}

TEST(a_node_is_down_after_a_time_within_bounds)
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

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct config config;
		struct error err;

		assert_int_equal(load(cases[i].text, &config, &err),
				 cases[i].wanted_s == 0 ? STATUS_INVALID_ARGUMENT : STATUS_OK);
		if (cases[i].wanted_s != 0)
			assert_true(config.node_down_after_us == cases[i].wanted_s * USEC_PER_SEC);
	}
}

TEST(a_second_mark_is_a_path_and_absent_by_default)
{
	struct config config;

	assert_int_equal(load("cluster = \"c\"\n", &config, NULL), STATUS_OK);
	assert_string_equal(config.mark_file, "");
	assert_ok(load("cluster = \"c\"\nmark_file = \"/srv/m/server.mark\"\n", &config, NULL));
	assert_string_equal(config.mark_file, "/srv/m/server.mark");
	assert_int_equal(load("cluster = \"c\"\nmark_file = \"server.mark\"\n", &config, NULL),
			 STATUS_INVALID_ARGUMENT);
}

TEST(a_data_dir_whose_files_have_too_long_paths_is_refused_with_its_line)
{
	enum { LONGEST = PATH_MAX - NAME_MAX - 1 };
	char text[PATH_MAX + 64], dir[PATH_MAX] = "";
	struct config config;
	struct error err;

	for (size_t i = 0; i < LONGEST; i++)
		dir[i] = i % 100 == 0 ? '/' : 'd';
	(void)snprintf(text, sizeof(text), "cluster = \"c\"\ndata_dir = \"%s\"\n", dir);
	assert_ok(load(text, &config, &err));
	assert_string_equal(config.data_dir, dir);
	(void)snprintf(text, sizeof(text), "cluster = \"c\"\ndata_dir = \"%sd\"\n", dir);
	assert_error(load(text, &config, &err), STATUS_INVALID_ARGUMENT, err,
		     "server.hcl:2: 'data_dir' may have 3840 bytes at most");
	dir[LONGEST] = 'd';
	assert_error(dev_prepare(&(struct dev_options){.dir = dir}, &config, &err), STATUS_INVALID_ARGUMENT,
		     err, "at most 3840 bytes");
}

TEST(the_reserve_for_a_full_disk_is_within_bounds)
{
	static const struct {
		const char *text;
		uint64_t wanted_mib; /* 0: refused */
	} cases[] = {
		{"cluster = \"c\"\n", 64},
		{"cluster = \"c\"\ndisk_reserve = \"16MiB\"\n", 16},
		{"cluster = \"c\"\ndisk_reserve = \"1GiB\"\n", 1024},
		{"cluster = \"c\"\ndisk_reserve = 16777215\n", 0},
		{"cluster = \"c\"\ndisk_reserve = 1073741825\n", 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct config config;
		enum status status = load(cases[i].text, &config, NULL);

		assert_int_equal(status, cases[i].wanted_mib == 0 ? STATUS_INVALID_ARGUMENT : STATUS_OK);
		if (cases[i].wanted_mib != 0)
			assert_true(config.disk_reserve == cases[i].wanted_mib << 20);
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

TEST(plugins_without_operators_words_are_a_bounded_list_of_names)
{
	static const char *const refused[] = {
		"cluster = \"c\"\nattest_forbidden_plugins = \"ebs\"\n",
		"cluster = \"c\"\nattest_forbidden_plugins = [ 1 ]\n",
		"cluster = \"c\"\nattest_forbidden_plugins = [ \"a/b\" ]\n",
		"cluster = \"c\"\nattest_forbidden_plugins = [ \"\" ]\n",
	};
	struct config config;
	struct error err;

	assert_int_equal(load_forbidden(0, &config, &err), STATUS_OK);
	assert_string_equal(config.attest_forbidden[0], "");
	assert_int_equal(load_forbidden(2, &config, &err), STATUS_OK);
	assert_string_equal(config.attest_forbidden[0], "p0");
	assert_string_equal(config.attest_forbidden[1], "p1");
	assert_string_equal(config.attest_forbidden[2], "");
	assert_int_equal(load_forbidden(CONFIG_FORBIDDEN_MAX, &config, &err), STATUS_OK);
	assert_int_equal(load_forbidden(CONFIG_FORBIDDEN_MAX + 1, &config, &err), STATUS_INVALID_ARGUMENT);
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		assert_error(load(refused[i], &config, &err), STATUS_INVALID_ARGUMENT, err,
			     "attest_forbidden_plugins");
		assert_non_null(strstr(err.msg, "server.hcl:2"));
	}
}

static enum status load_controller(int n, struct config *config, struct error *err)
{
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(4096);

	strbuf_puts(&sb, "cluster = \"c\"\ncontroller \"ebs\" {\n  nodes = [");
	for (int i = 0; i < n; i++)
		strbuf_printf(&sb, "%s\"n%d\"", i > 0 ? ", " : "", i);
	strbuf_puts(&sb, "]\n}\n");
	return load(sb.data, config, err);
}

static enum status load_controllers(int n, struct config *config, struct error *err)
{
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(4096);

	strbuf_puts(&sb, "cluster = \"c\"\n");
	for (int i = 0; i < n; i++)
		strbuf_printf(&sb, "controller \"p%d\" {\n  nodes = []\n}\n", i);
	return load(sb.data, config, err);
}

TEST(the_nodes_of_a_controller_are_bounded_lists_of_names)
{
	static const char *const refused[] = {
		"cluster = \"c\"\ncontroller \"ebs\" { nodes = \"n1\" }\n",
		"cluster = \"c\"\ncontroller \"ebs\" { nodes = [ 1 ] }\n",
		"cluster = \"c\"\ncontroller \"ebs\" { nodes = [ \"a/b\" ] }\n",
		"cluster = \"c\"\ncontroller \"ebs\" { node = [ \"a\" ] }\n",
		"cluster = \"c\"\ncontroller \"ebs\" { }\n",
		"cluster = \"c\"\ncontroller \"native\" { nodes = [ \"a\" ] }\n",
		"cluster = \"c\"\ncontroller \"a/b\" { nodes = [ \"a\" ] }\n",
		"cluster = \"c\"\ncontroller { nodes = [ \"a\" ] }\n",
	};
	struct config config;
	struct error err;

	assert_int_equal(load_controller(CONTROLLER_NODES_MAX, &config, &err), STATUS_OK);
	assert_int_equal(load_controller(CONTROLLER_NODES_MAX + 1, &config, &err), STATUS_INVALID_ARGUMENT);
	assert_int_equal(load_controllers(CONTROLLER_LISTS_MAX, &config, &err), STATUS_OK);
	assert_int_equal(load_controllers(CONTROLLER_LISTS_MAX + 1, &config, &err), STATUS_INVALID_ARGUMENT);
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		assert_int_equal(load(refused[i], &config, &err), STATUS_INVALID_ARGUMENT);
		assert_true(strstr(err.msg, "controller") || strstr(err.msg, "nodes"));
		assert_non_null(strstr(err.msg, "server.hcl:"));
	}
}

TEST(the_nodes_of_a_fencer_are_ids_or_begins_of_ids)
{
	static const char *const refused[] = {
		"cluster = \"c\"\nfencer \"f1\" { nodes = \"n1\" }\n",
		"cluster = \"c\"\nfencer \"f1\" { nodes = [ 1 ] }\n",
		"cluster = \"c\"\nfencer \"f1\" { nodes = [ \"a*b\" ] }\n",
		"cluster = \"c\"\nfencer \"f1\" { nodes = [ \"a**\" ] }\n",
		"cluster = \"c\"\nfencer \"f1\" { nodes = [ \"\" ] }\n",
		"cluster = \"c\"\nfencer \"f1\" { node = [ \"a\" ] }\n",
		"cluster = \"c\"\nfencer \"f1\" { }\n",
		"cluster = \"c\"\nfencer \"f/1\" { nodes = [] }\n",
		"cluster = \"c\"\nfencer { nodes = [] }\n",
		"cluster = \"c\"\nfencer \"f1\" { nodes = [] }\nfencer \"f1\" { nodes = [ \"*\" ] }\n",
	};
	struct config config;
	struct error err;
	const struct fence_bindings *bindings = &config.fence_bindings;

	assert_int_equal(load("cluster = \"c\"\n", &config, &err), STATUS_OK);
	assert_true(fence_bindings_allow(bindings, "f1", "n1"));
	assert_ok(load("cluster = \"c\"\nfencer \"f1\" { nodes = [ \"n1\", \"rack-*\" ] }\n"
		       "fencer \"f2\" { nodes = [] }\nfencer \"f3\" { nodes = [ \"*\" ] }\n",
		       &config, &err));
	assert_true(fence_bindings_allow(bindings, "f1", "n1"));
	assert_false(fence_bindings_allow(bindings, "f1", "n11"));
	assert_true(fence_bindings_allow(bindings, "f1", "rack-7"));
	assert_false(fence_bindings_allow(bindings, "f1", "rack"));
	assert_false(fence_bindings_allow(bindings, "f2", "n1"));
	assert_true(fence_bindings_allow(bindings, "f3", "n1"));
	assert_false(fence_bindings_allow(bindings, "f4", "n1")); /* it has no block */
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		if (load(refused[i], &config, &err) != STATUS_INVALID_ARGUMENT)
			fail_msg("accepted: %s", refused[i]);
		assert_non_null(strstr(err.msg, "server.hcl:"));
	}
}

TEST(only_listed_nodes_have_a_controller_of_a_plugin_that_is_listed)
{
	struct config config;
	struct error err;

	assert_int_equal(load("cluster = \"c\"\n", &config, &err), STATUS_OK);
	assert_true(controller_nodes_allow(&config.controller_nodes, "ebs", "n1"));
	assert_int_equal(load_controller(2, &config, &err), STATUS_OK);
	assert_true(controller_nodes_allow(&config.controller_nodes, "ebs", "n1"));
	assert_false(controller_nodes_allow(&config.controller_nodes, "ebs", "n2"));
	assert_true(controller_nodes_allow(&config.controller_nodes, "nfs", "n2"));
	assert_ok(load("cluster = \"c\"\ncontroller \"*\" {\n  nodes = [\"n9\"]\n}\n"
		       "controller \"ebs\" {\n  nodes = []\n}\n",
		       &config, &err));
	assert_true(controller_nodes_allow(&config.controller_nodes, "nfs", "n9"));
	assert_false(controller_nodes_allow(&config.controller_nodes, "nfs", "n2"));
	assert_false(controller_nodes_allow(&config.controller_nodes, "ebs", "n9"));
}

TEST(parameters_are_listed_by_plugin)
{
	static const char *const refused[] = {
		"plugin { parameters = [] }\n", "plugin \"a b\" { parameters = [] }\n",
		"plugin \"nfs\" { fs_type = \"f2fs\" }\n", "plugin \"nfs\" { other = 1 }\n",
		"plugin \"nfs\" { parameters = [ 1 ] }\n"};
	struct message_text_entry type = {.key = (char *)(uintptr_t) "type"};
	struct message_text_entry *map[] = {&type};
	char text[256];
	struct config config;
	struct error err;

	assert_ok(load("cluster = \"c\"\n", &config, &err));
	assert_string_equal(parameters_find_unlisted(&config.parameters, "nfs", PARAMETERS_OF_CALLS, map, 1),
			    "type");
	assert_null(parameters_find_unlisted(&config.parameters, "nfs", PARAMETERS_OF_CALLS, NULL, 0));
	assert_ok(
		load("cluster = \"c\"\nplugin \"*\" { parameters = [\"type\"] }\n"
		     "plugin \"nfs\" { secrets = [\"type\"] }\nplugin \"ebs\" { parameters = [\"a\", \"*\"]\n"
		     "fs_type = \"xfs\" }\n",
		     &config, &err));
	assert_string_equal(parameters_fs_type(&config.parameters, "ebs"), "xfs");
	assert_string_equal(parameters_fs_type(&config.parameters, "nfs"), "");
	assert_null(parameters_find_unlisted(&config.parameters, "other", PARAMETERS_OF_CALLS, map, 1));
	assert_null(parameters_find_unlisted(&config.parameters, "ebs", PARAMETERS_OF_CALLS, map, 1));
	assert_non_null(parameters_find_unlisted(&config.parameters, "nfs", PARAMETERS_OF_CALLS, map, 1));
	assert_null(parameters_find_unlisted(&config.parameters, "nfs", PARAMETERS_SECRETS, map, 1));
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		(void)str_format(text, sizeof(text), "cluster = \"c\"\n%s", refused[i]);
		assert_error(load(text, &config, &err), STATUS_INVALID_ARGUMENT, err, "server.hcl:2");
	}
}

TEST(addresses_are_checked_with_their_line)
{
	static const struct {
		const char *text, *says; /* NULL: it is one */
	} cases[] = {
		{"listen {\n host = \"10.0.0.5\"\n}\n", NULL},
		{"listen {\n host = \"::\"\n operators = [\"ann\", \"root\"]\n}\n", NULL},
		{"listen {\n host = \"claims.example\"\n}\n",
		 "server.hcl:3: host: 'claims.example' is no IPv4 or IPv6 address"},
		{"listen {\n port = 5\n host = \"10.0.0.300\"\n}\n",
		 "server.hcl:4: host: '10.0.0.300' is no"},
		{"listen {\n host = \"fe80::1%nothing0\"\n}\n",
		 "server.hcl:3: host: 'fe80::1%nothing0' is no"},
		{"listen {\n host = \"[::1]\"\n}\n", "server.hcl:3: host: '[::1]' is no"},
		{"listen {\n host = \"\"\n}\n", "server.hcl:3: host"},
		{"listen {\n operators = [\"an n\"]\n}\n", "server.hcl:3: operators: 'an n' is no name"},
		{"store \"etcd\" {\n name = \"s\"\n endpoints = [\"https://h:1\", \"https://[::1]:2\"]\n}\n",
		 NULL},
		{"store \"etcd\" {\n name = \"s\"\n endpoints = [\"https://h:1\", \"http://h:1\"]\n}\n",
		 "server.hcl:4: endpoints: 'http://h:1' is no https://HOST:PORT or unix:/PATH"},
		{"store \"etcd\" {\n name = \"s\"\n endpoints = [\"https://h\"]\n}\n",
		 "endpoints: 'https://h' is no"},
		{"store \"etcd\" {\n name = \"s\"\n endpoints = [\"unix:run/e\"]\n}\n",
		 "endpoints: 'unix:run/e' is"},
		{"store \"etcd\" {\n name = \"s\"\n endpoints = [\"unix:/e\"]\n advertise = \"h\"\n}\n",
		 "server.hcl:5: advertise: 'h' is not an address"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char text[512];
		struct config config;
		struct error err;

		(void)snprintf(text, sizeof(text), "cluster = \"c\"\n%s", cases[i].text);
		if (!cases[i].says)
			assert_ok(load(text, &config, &err));
		else
			assert_error(load(text, &config, &err), STATUS_INVALID_ARGUMENT, err, cases[i].says);
	}
}

#define ON_ETCD "cluster = \"c\"\nstore \"etcd\" {\nendpoints = [\"unix:/run/e\"]\nname = \"s1\"\n"

TEST(a_store_in_etcd_has_endpoints_and_a_name)
{
	static const char *const wrong[] = {
		"cluster = \"c\"\nstore \"etcd\" {\nname = \"s1\"\n}\n",
		"cluster = \"c\"\nstore \"etcd\" {\nname = \"s1\"\nendpoints = []\n}\n",
		"cluster = \"c\"\nstore \"etcd\" {\nendpoints = [\"unix:/run/e\"]\n}\n",
		"cluster = \"c\"\nstore \"etcd\" {\nname = \"s 1\"\nendpoints = [\"unix:/run/e\"]\n}\n",
		"cluster = \"c\"\nstore \"sqlite\" {\n}\n",
		ON_ETCD "lease = \"1s\"\n}\n",
		ON_ETCD "lease = \"2500ms\"\n}\n",
		ON_ETCD "certificate = \"etcd.pem\"\n}\n",
	};
	struct config config;

	assert_int_equal(load("cluster = \"c\"\n", &config, NULL), STATUS_OK);
	assert_false(config_is_on_etcd(&config));
	assert_int_equal(load(ON_ETCD "}\n", &config, NULL), STATUS_OK);
	assert_true(config_is_on_etcd(&config));
	assert_string_equal(config.etcd.prefix, "/holdfast/c");
	assert_string_equal(config.etcd.key, "/etc/holdfast/tls/etcd.key");
	assert_int_equal(config.etcd.lease_us, 5 * USEC_PER_SEC);
	assert_ok(load(ON_ETCD "prefix = \"/p\"\nlease = \"3s\"\nadvertise = \"h:1\"\n}\n", &config, NULL));
	assert_string_equal(config.etcd.prefix, "/p");
	assert_string_equal(config.etcd.advertise, "h:1");
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_int_equal(load(wrong[i], &config, NULL), STATUS_INVALID_ARGUMENT);
}

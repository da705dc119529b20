/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "temp_dir.h"
#include "unit.h"

#include "base/clock.h"
#include "base/fd.h"

#include <sys/stat.h>
#include <syslog.h>

#define SERVER "server {\n host = \"10.0.0.1\"\n server_uri = \"holdfast://prod/server/s1\"\n}\n"
#define GOOD "cluster = \"prod\"\nnode_id = \"n1\"\n" SERVER

struct fixture {
	char dir[TEMP_DIR_SIZE], path[TEMP_PATH_SIZE];
	struct config config;
	struct error err;
};

UNIT_SETUP(setup, struct fixture, f)
{
	temp_dir_make(f->dir);
	(void)temp_dir_path(f->path, f->dir, "agent.hcl");
}

UNIT_TEARDOWN(teardown, struct fixture, f)
{
	temp_dir_remove(f->dir);
}

static enum status load(struct fixture *f, const char *text)
{
	assert_int_equal(file_write_atomic(f->path, 0600, text, strlen(text)), 0);
	f->err = (struct error){0};
	return config_load(f->path, &f->config, &f->err);
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup, teardown)

CASE(omitted_fields_get_defaults)
{
	assert_int_equal(load(f, GOOD), STATUS_OK);
	assert_string_equal(f->config.data_dir, "/var/lib/holdfast/agent");
	assert_string_equal(f->config.socket, "/run/holdfast/agent.sock");
	assert_int_equal(f->config.server.port, 4656);
	assert_int_equal(f->config.log_level, LOG_INFO);
	assert_int_equal(f->config.helper.request_timeout_us, 60 * USEC_PER_SEC);
	assert_int_equal(f->config.helper.start_timeout_us, 5 * USEC_PER_SEC);
	assert_non_null(strstr(f->config.helper.path, "/holdfast-mounthelper"));
	assert_string_equal(f->config.helper.socket, "");
	assert_int_equal(f->config.helper.instances, 2);
	assert_string_equal(f->config.task.systemd_units[0], ""); /* none may be started */
	assert_string_equal(f->config.path, f->path);
}

CASE(metadata_of_the_node_are_named_as_constraints_name_them)
{
	assert_int_equal(load(f, GOOD "meta {\n rack = \"r1\"\n zone = \"eu 1\"\n}\n"), STATUS_OK);
	assert_int_equal(f->config.n_meta, 2);
	assert_string_equal(f->config.meta[0].name, "meta.rack");
	assert_string_equal(f->config.meta[0].value, "r1");
	assert_string_equal(f->config.meta[1].value, "eu 1");
}

CASE(everything_can_be_set)
{
	assert_ok(load(f, "cluster = \"c\"\nnode_id = \"n\"\ndata_dir = \"/d\"\nsocket = \"/s\"\n"
			  "log_level = \"debug\"\nclaim_timeout = \"7s\"\nconnect_timeout = \"8s\"\n"
			  "server {\n host = \"h\"\n port = 1\n server_uri = \"holdfast://c/server/x\"\n}\n"
			  "tls {\n ca = \"/ca\"\n cert = \"/cert\"\n key = \"/key\"\n}\n"
			  "helper {\n path = \"/h\"\n start_timeout = \"2s\"\n request_timeout = \"3s\"\n"
			  " socket = \"/r/h.sock\"\n instances = 4\n}\n"));
	assert_string_equal(f->config.data_dir, "/d");
	assert_string_equal(f->config.socket, "/s");
	assert_int_equal(f->config.log_level, LOG_DEBUG);
	assert_int_equal(f->config.claim_timeout_us, 7 * USEC_PER_SEC);
	assert_int_equal(f->config.connect_timeout_us, 8 * USEC_PER_SEC);
	assert_string_equal(f->config.server.host, "h");
	assert_int_equal(f->config.server.port, 1);
	assert_string_equal(f->config.tls.ca, "/ca");
	assert_string_equal(f->config.tls.cert, "/cert");
	assert_string_equal(f->config.tls.key, "/key");
	assert_string_equal(f->config.helper.path, "/h");
	assert_string_equal(f->config.helper.socket, "/r/h.sock");
	assert_int_equal(f->config.helper.instances, 4);
	assert_int_equal(f->config.helper.start_timeout_us, 2 * USEC_PER_SEC);
	assert_int_equal(f->config.helper.request_timeout_us, 3 * USEC_PER_SEC);
}

CASE(servers_may_be_a_list)
{
	assert_ok(load(f, "cluster = \"prod\"\nnode_id = \"n1\"\nservers = [\"a:1\", \"[::1]:2\"]\n"));
	assert_string_equal(f->config.servers[0], "a:1");
	assert_string_equal(f->config.servers[1], "[::1]:2");
	assert_string_equal(f->config.servers[2], "");
	assert_string_equal(f->config.server.server_uri, "holdfast://prod/server/"); /* any of them */
}

CASE(a_fence_service_has_parameters_and_credentials)
{
	const struct fence_args *args = &f->config.fences[1];

	assert_ok(load(f,
		       GOOD "fence \"a.b\" {\n}\nfence \"san\" {\n parameters {\n  clusterID = \"one\"\n }\n"
			    " secrets {\n  userKey = \"san.key\"\n }\n}\n"));
	assert_int_equal(f->config.n_fences, 2);
	assert_string_equal(args->plugin_id, "san");
	assert_int_equal(args->n, 2);
	assert_string_equal(args->rows[0].name, "clusterID");
	assert_string_equal(args->rows[0].value, "one");
	assert_false(args->rows[0].is_secret);
	assert_string_equal(args->rows[1].value, "san.key");
	assert_true(args->rows[1].is_secret);
}

CASE(units_are_a_list_of_full_names)
{
	char text[16384];
	size_t n;

	assert_ok(load(f, GOOD "task {\n systemd_units = [\"a.service\", \"b@c.service\"]\n}\n"));
	assert_string_equal(f->config.task.systemd_units[0], "a.service");
	assert_string_equal(f->config.task.systemd_units[1], "b@c.service");
	assert_string_equal(f->config.task.systemd_units[2], "");
	for (unsigned int count = TASK_UNITS_MAX; count <= TASK_UNITS_MAX + 1; count++) {
		n = (size_t)snprintf(text, sizeof(text), GOOD "task {\n systemd_units = [");
		for (unsigned int i = 0; i < count; i++)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "\"u%u.service\",", i);
		(void)snprintf(text + n, sizeof(text) - n, "]\n}\n");
		assert_int_equal(load(f, text),
				 count == TASK_UNITS_MAX ? STATUS_OK : STATUS_INVALID_ARGUMENT);
	}
	assert_non_null(strstr(f->err.msg, "agent.hcl:8: "));
	assert_non_null(strstr(f->err.msg, "64 entries"));
}

CASE(mistakes_are_errors_with_their_line)
{
	static const struct {
		const char *text, *where, *what;
	} cases[] = {
		{"cluster = \"prod\"\nnodeid = \"n1\"\n" SERVER, "agent.hcl:2: ", "nodeid"},
		{"cluster = \"prod\"\n" SERVER, "agent.hcl", "node_id"},
		{"node_id = \"n1\"\n" SERVER, "agent.hcl", "cluster"},
		{"cluster = \"prod\"\nnode_id = \"n1\"\n", "agent.hcl", "server"},
		{"cluster = \"prod\"\nnode_id = \"n.1\"\n" SERVER, "agent.hcl:2: ", "n.1"},
		{"cluster = \"a b\"\nnode_id = \"n1\"\n" SERVER, "agent.hcl:1: ", "a b"},
		{GOOD "data_dir = \"var\"\n", "agent.hcl:7: ", "data_dir"},
		{GOOD "socket = 5\n", "agent.hcl:7: ", "socket"},
		{GOOD "log_level = \"loud\"\n", "agent.hcl:7: ", "loud"},
		{GOOD "claim_timeout = \"99ms\"\n", "agent.hcl:7: ", "claim_timeout"},
		{GOOD "claim_timeout = \"3601s\"\n", "agent.hcl:7: ", "claim_timeout"},
		{GOOD "helper {\n path = \"x\"\n}\n", "agent.hcl:8: ", "path"},
		{GOOD "helper {\n arguments = \"x\"\n}\n", "agent.hcl:8: ", "arguments"},
		{GOOD "helper {\n instances = 0\n}\n", "agent.hcl:8: ", "instances"},
		{GOOD "helper {\n instances = 5\n}\n", "agent.hcl:8: ", "instances"},
		{GOOD "helper {\n socket = \"run/x\"\n}\n", "agent.hcl:8: ", "socket"},
		{GOOD "task {\n systemd_units = \"a.service\"\n}\n", "agent.hcl:8: ", "list of strings"},
		{GOOD "task {\n systemd_units = [1]\n}\n", "agent.hcl:8: ", "list of strings"},
		{GOOD "task {\n systemd_units = [\"\"]\n}\n", "agent.hcl:8: ", "that are not empty"},
		{GOOD "task {\n systemd_units = [\"*.service\"]\n}\n", "agent.hcl:8: ", "*.service"},
		{GOOD "task {\n systemd_units = [\"a\"]\n}\n", "agent.hcl:8: ", "'a'"},
		{GOOD "task {\n units = [\"a.service\"]\n}\n", "agent.hcl:8: ", "units"},
		{GOOD "tls {\n cipher = \"x\"\n}\n", "agent.hcl:8: ", "cipher"},
		ROW("cluster = \"prod\"\nnode_id = \"n1\"\nserver {\n host = \"h\"\n port = 65536\n "
		    "server_uri = \"holdfast://prod/server/s\"\n}\n",
		    "agent.hcl:5: ", "port"),
		{"cluster = \"prod\"\nnode_id = \"n1\"\nserver {\n host = \"h\"\n}\n", "agent.hcl",
		 "server_uri"},
		ROW("cluster = \"prod\"\nnode_id = \"n1\"\nserver {\n host = \"h\"\n server_uri = "
		    "\"holdfast://prod/node/n2\"\n}\n",
		    "agent.hcl:5: ", "holdfast://prod/server/"),
		ROW("cluster = \"prod\"\nnode_id = \"n1\"\nserver {\n host = \"\"\n server_uri = "
		    "\"holdfast://prod/server/s\"\n}\n",
		    "agent.hcl:4: ", "host"),
		{"cluster = \"prod\"\nnode_id = \"n1\"\n", "agent.hcl", "no server is named"},
		{"cluster = \"prod\"\nnode_id = \"n1\"\nservers = []\n", "agent.hcl", "no server is named"},
		{"cluster = \"prod\"\nnode_id = \"n1\"\nservers = [\"a:1\", \"b\"]\n",
		 "agent.hcl:3: ", "'b'"},
		{GOOD "servers = [\"a:1\"]\n", "agent.hcl:7: ", "not both"},
		{GOOD "metrics = \"4657\"\n", "agent.hcl:7: ", "neither HOST:PORT nor the path"},
		{GOOD "meta {\n rack = 1\n}\n", "agent.hcl:8: ", "'rack'"},
		{GOOD "meta {\n rack = \"/etc\"\n}\n", "agent.hcl:8: ", "'rack'"},
		{GOOD "meta {\n \"a b\" = \"c\"\n}\n", "agent.hcl:8: ", "a name is 1 to 58"},
		{GOOD "meta \"a\" {\n}\n", "agent.hcl:7: ", "without a name"},
		{GOOD "fence {\n}\n", "agent.hcl:7: ", "the id of a plugin is needed"},
		{GOOD "fence \"A\" {\n}\n", "agent.hcl:7: ", "the id of a plugin is needed"},
		{GOOD "fence \"a\" {\n}\nfence \"a\" {\n}\n", "agent.hcl:9: ", "label of two blocks"},
		{GOOD "fence \"a\" {\n secrets {\n  k = \"a/b\"\n }\n}\n",
		 "agent.hcl:9: ", "name of a credential"},
		{GOOD "fence \"a\" {\n secrets {\n  k = \"..\"\n }\n}\n",
		 "agent.hcl:9: ", "name of a credential"},
		{GOOD "fence \"a\" {\n parameters {\n  k = 1\n }\n}\n", "agent.hcl:9: ", "a value is a text"},
		{GOOD "x = [1,\n", "agent.hcl", ""},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		assert_int_equal(load(f, cases[i].text), STATUS_INVALID_ARGUMENT);
		if (!strstr(f->err.msg, cases[i].where) || !strstr(f->err.msg, cases[i].what))
			fail_msg("case %zu: %s", i, f->err.msg);
	}
}

CASE(limits_themselves_are_accepted)
{
	assert_int_equal(load(f, GOOD "claim_timeout = \"100ms\"\nconnect_timeout = \"1h\"\n"), STATUS_OK);
}

CASE(drop_ins_replace_values)
{
	char folder[TEMP_PATH_SIZE], path[TEMP_PATH_SIZE];

	assert_int_equal(mkdir(temp_dir_path(folder, f->dir, "agent.d"), 0700), 0);
	(void)temp_dir_path(path, f->dir, "agent.d/10-x.hcl");
	assert_int_equal(file_write_atomic(path, 0600, "log_level = \"error\"\n", 20), 0);
	assert_int_equal(load(f, GOOD "log_level = \"debug\"\n"), STATUS_OK);
	assert_int_equal(f->config.log_level, LOG_ERR);
	assert_int_equal(unlink(path), 0);
}

CASE(a_missing_file_is_named)
{
	assert_int_not_equal(config_load(f->path, &f->config, &f->err), STATUS_OK);
	assert_non_null(strstr(f->err.msg, f->path));
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/fd.h"
#include "command/settings.h"

static const char *const variables[] = {
	"HOLDFAST_ADDR",	 "HOLDFAST_CACERT",	"HOLDFAST_CLIENT_CERT",
	"HOLDFAST_CLIENT_KEY",	 "HOLDFAST_SERVER_URI", "HOLDFAST_DEV_DIR",
	"HOLDFAST_AGENT_SOCKET", "HOLDFAST_TOKEN_FILE", "CREDENTIALS_DIRECTORY"};

static int clear_environment(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++)
		assert_int_equal(unsetenv(variables[i]), 0);
	return 0;
}

TEST_FIXTURE(options_win_over_the_environment, clear_environment, NULL)
{
	struct invocation inv = {.options = {[OPT_ADDRESS] = "a:1", [OPT_CA] = "/ca"}};
	struct server_settings settings;
	struct error err = {.msg = ""};

	assert_int_equal(setenv("HOLDFAST_ADDR", "b:2", 1), 0);
	assert_int_equal(setenv("HOLDFAST_CLIENT_CERT", "/c", 1), 0);
	assert_int_equal(setenv("HOLDFAST_CLIENT_KEY", "/k", 1), 0);
	assert_int_equal(setenv("HOLDFAST_SERVER_URI", "holdfast://c/server/s", 1), 0);
	assert_int_equal(server_settings_resolve(&inv, &settings, &err), STATUS_OK);
	assert_string_equal(settings.servers[0].host, "a");
	assert_int_equal(settings.servers[0].port, 1);
	assert_string_equal(settings.ca, "/ca");
	assert_string_equal(settings.cert, "/c");
	assert_string_equal(settings.key, "/k");
	assert_string_equal(settings.server_uri, "holdfast://c/server/s");
	inv.options[OPT_ADDRESS] = NULL;
	assert_int_equal(server_settings_resolve(&inv, &settings, &err), STATUS_OK);
	assert_string_equal(settings.servers[0].host, "b");
	assert_int_equal(settings.n_servers, 1);
	assert_int_equal(setenv("HOLDFAST_ADDR", "b:2,c:3, [::1]:4", 1), 0);
	assert_int_equal(server_settings_resolve(&inv, &settings, &err), STATUS_OK);
	assert_int_equal(settings.n_servers, 3);
	assert_string_equal(settings.servers[2].host, "::1");
}

TEST_FIXTURE(missing_settings_are_usage_errors, clear_environment, NULL)
{
	static const struct {
		const char *address, *ca, *cert, *key, *error;
	} cases[] = {
		ROW(NULL, "/ca", NULL, NULL,
		    "no server is named: give --address HOST:PORT, set HOLDFAST_ADDR, or holdfast context "
		    "use NAME "
		    "(for a server started with --dev: --dev-dir DIR or HOLDFAST_DEV_DIR)"),
		ROW("", "/ca", NULL, NULL,
		    "no server is named: give --address HOST:PORT, set HOLDFAST_ADDR, or holdfast context "
		    "use NAME "
		    "(for a server started with --dev: --dev-dir DIR or HOLDFAST_DEV_DIR)"),
		ROW("x", "/ca", NULL, NULL,
		    "'x' is not an address: HOST:PORT, [V6ADDRESS]:PORT, up to 16 of them with commas "
		    "between, or the path of a server's socket"),
		{"a:1", NULL, NULL, NULL, "no certificates to trust: give --ca FILE or set HOLDFAST_CACERT"},
		{"a:1", "/ca", "/c", NULL, "--cert and --key go together"},
		{"a:1", "/ca", NULL, "/k", "--cert and --key go together"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct invocation inv = {.options =
						 ROW([OPT_ADDRESS] = cases[i].address, [OPT_CA] = cases[i].ca,
						     [OPT_CERT] = cases[i].cert, [OPT_KEY] = cases[i].key)};
		struct server_settings settings;
		struct error err = {.msg = ""};

		assert_int_equal(server_settings_resolve(&inv, &settings, &err), STATUS_INVALID_ARGUMENT);
		assert_true(inv.is_usage_error);
		assert_string_equal(err.msg, cases[i].error);
	}
}

TEST_FIXTURE(a_client_may_have_no_identity, clear_environment, NULL)
{
	struct invocation inv = {.options = {[OPT_ADDRESS] = "a:1", [OPT_CA] = "/ca"}};
	struct server_settings settings;

	assert_int_equal(server_settings_resolve(&inv, &settings, NULL), STATUS_OK);
	assert_string_equal(settings.cert, "");
	assert_string_equal(settings.key, "");
	assert_null(settings.server_uri);
}

TEST_FIXTURE(the_dev_folder_answers_everything_and_options_still_win, clear_environment, NULL)
{
	struct invocation inv = {.command = NULL};
	struct server_settings settings;
	struct error err = {.msg = ""};
	char dir[] = "/tmp/cli-XXXXXX", path[64], want[64];

	assert_non_null(mkdtemp(dir));
	inv.options[OPT_DEV_DIR] = dir;
	assert_int_equal(server_settings_resolve(&inv, &settings, &err), STATUS_NOT_FOUND);
	assert_false(inv.is_usage_error);
	assert_true(str_format(path, sizeof(path), "%s/address", dir) > 0);
	assert_int_equal(file_write_atomic(path, 0600, "127.0.0.1:5000\n", 15), 0);
	assert_int_equal(server_settings_resolve(&inv, &settings, &err), STATUS_OK);
	assert_int_equal(settings.servers[0].port, 5000);
	assert_true(str_format(want, sizeof(want), "%s/tls/ca.pem", dir) > 0);
	assert_string_equal(settings.ca, want);
	assert_true(str_format(want, sizeof(want), "%s/tls/operator.pem", dir) > 0);
	assert_string_equal(settings.cert, want);
	assert_true(str_format(want, sizeof(want), "%s/tls/operator.key", dir) > 0);
	assert_string_equal(settings.key, want);
	inv.options[OPT_ADDRESS] = "other:7";
	inv.options[OPT_CA] = "/other";
	assert_int_equal(server_settings_resolve(&inv, &settings, &err), STATUS_OK);
	assert_string_equal(settings.servers[0].host, "other");
	assert_string_equal(settings.ca, "/other");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(dir), 0);
}

static void expect_socket(const struct invocation *inv, const char *settings, const char *expected)
{
	char path[PATH_MAX];

	assert_ok(agent_socket_path(inv, settings, path, &(struct error){0}));
	assert_string_equal(path, expected);
}

TEST_FIXTURE(the_agents_socket_is_that_of_its_settings, clear_environment, NULL)
{
	struct invocation inv = {.command = NULL};
	char dir[] = "/tmp/holdfast-settings-XXXXXX", file[64], path[PATH_MAX];
	struct error err;

	assert_non_null(mkdtemp(dir));
	assert_true(str_format(file, sizeof(file), "%s/agent.hcl", dir) > 0);
	expect_socket(&inv, file, "/run/holdfast/agent.sock");
	for (int i = 0; i < 2; i++) {
		const char *text = i ? "socket = \"/s\"\n" : "node_id = \"n\"\n";

		assert_int_equal(file_write_atomic(file, 0600, text, strlen(text)), 0);
		expect_socket(&inv, file, i ? "/s" : "/run/holdfast/agent.sock");
	}
	assert_int_equal(file_write_atomic(file, 0600, "socket =", 8), 0);
	assert_int_equal(agent_socket_path(&inv, file, path, &err),
			 access("/run/holdfast/agent.sock", F_OK) < 0 ? STATUS_INVALID_ARGUMENT : STATUS_OK);
	assert_int_equal(setenv("HOLDFAST_AGENT_SOCKET", "/e", 1), 0);
	expect_socket(&inv, file, "/e");
	inv.options[OPT_SOCKET] = "/o";
	expect_socket(&inv, file, "/o");
	assert_int_equal(unlink(file), 0);
	assert_int_equal(rmdir(dir), 0);
}

/* A folder of credentials with one file for each of @names. */
static void give_credentials(char folder[], const char *const *names)
{
	char path[PATH_MAX];

	assert_non_null(mkdtemp(folder));
	for (; *names; names++) {
		assert_true(str_format(path, sizeof(path), "%s/%s", folder, *names) > 0);
		assert_int_equal(file_write_atomic(path, 0400, *names, strlen(*names)), 0);
	}
	assert_int_equal(setenv("CREDENTIALS_DIRECTORY", folder, 1), 0);
}

static void take_credentials(const char *folder, const char *const *names)
{
	char path[PATH_MAX];

	for (; *names; names++) {
		assert_true(str_format(path, sizeof(path), "%s/%s", folder, *names) > 0);
		assert_int_equal(unlink(path), 0);
	}
	assert_int_equal(rmdir(folder), 0);
	assert_int_equal(unsetenv("CREDENTIALS_DIRECTORY"), 0);
}

TEST_FIXTURE(the_token_is_a_credential_and_one_of_its_own_comes_first, clear_environment, NULL)
{
	static const struct {
		const char *names[3], *token;
	} cases[] = {
		{{NULL}, ""},
		{{"holdfast.token", NULL}, "holdfast.token"},
		{{"holdfast.token.db", "holdfast.token", NULL}, "holdfast.token.db"},
		{{"holdfast.token.db", NULL}, "holdfast.token.db"},
		{{"holdfast.token.other", NULL}, ""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char folder[] = "/tmp/cli-credentials-XXXXXX", path[PATH_MAX];
		struct invocation inv = {.options = {[OPT_ADDRESS] = "h:1", [OPT_CA] = "/ca"}};
		struct server_settings settings;
		struct error err = {.msg = ""};

		give_credentials(folder, cases[i].names);
		settings_prefer_credential(&inv, "holdfast.token.db", path);
		assert_succeeds(server_settings_resolve(&inv, &settings, &err), err);
		assert_string_equal(settings.token, cases[i].token);
		inv.options[OPT_TOKEN_FILE] = "/nowhere/token";
		settings_prefer_credential(&inv, "holdfast.token.db", path);
		assert_string_equal(inv.options[OPT_TOKEN_FILE], "/nowhere/token");
		take_credentials(folder, cases[i].names);
	}
}

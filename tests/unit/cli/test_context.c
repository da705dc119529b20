/* SPDX-License-Identifier: Apache-2.0 */
/* `holdfast context`, and who wins: options, a named context, variables, the current context. */

#include "temp_dir.h"
#include "unit.h"

#include "base/fd.h"
#include "command/contexts.h"
#include "command/settings.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const variables[] = {"HOLDFAST_ADDR",	"HOLDFAST_CACERT",     "HOLDFAST_CLIENT_CERT",
					"HOLDFAST_CLIENT_KEY",	"HOLDFAST_SERVER_URI", "HOLDFAST_DEV_DIR",
					"HOLDFAST_TOKEN_FILE",	"HOLDFAST_CONTEXT",    "XDG_CONFIG_HOME",
					"HOLDFAST_AGENT_SOCKET"};
static char home[TEMP_DIR_SIZE], file[PATH_MAX];

/* Splits @line at its blanks; @ret_inv borrows from it. */
static void parse(const char *line, struct invocation *ret_inv)
{
	static char copy[1024];
	static char *argv[32]; /* the invocation borrows it */
	char *rest = copy;
	struct error err = {.msg = ""};
	int argc = 0;

	(void)str_format(copy, sizeof(copy), "holdfast %s", line);
	while (argc < 31 && (argv[argc] = strsep(&rest, " ")) != NULL)
		argc++;
	argv[argc] = NULL;
	assert_msg(command_parse(argc, argv, ret_inv, &err) == STATUS_OK, "%s: %s", line, err.msg);
}

static void expect(const char *line, enum status status, const char *text)
{
	struct invocation inv;
	struct error err = {.msg = ""};

	parse(line, &inv);
	if (command_run(&inv, &err) != status || !strstr(err.msg, text))
		fail_msg("%s: %s: %s", line, status_name(err.status), err.msg);
	json_decref(inv.context);
}

/* A command of this line would reach @address with the CA @ca and the token file @token, or NULL. */
static void expect_server(const char *line, const char *address, const char *ca, const char *token)
{
	struct invocation inv;
	struct error err = {.msg = ""};
	const char *value;

	parse(line, &inv);
	assert_msg(context_apply(&inv, &err) == STATUS_OK, "%s: %s", line, err.msg);
	value = setting_value(&inv, OPT_ADDRESS);
	assert_string_equal(value ? value : "", address);
	value = setting_value(&inv, OPT_CA);
	assert_string_equal(value ? value : "", ca);
	value = setting_value(&inv, OPT_TOKEN_FILE);
	assert_string_equal(value ? value : "", token);
	json_decref(inv.context);
}

static int begin(void **state)
{
	temp_dir_make(home);
	return 0;
}

static int end(void **state)
{
	static const char *const folders[] = {".config/holdfast", ".config"};

	(void)unlink(file);
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		(void)rmdir(folders[i]); /* of home, where setup() went */
	temp_dir_remove(home);
	return 0;
}

static int setup(void **state)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(variables); i++)
		assert_int_equal(unsetenv(variables[i]), 0);
	(void)str_format(path, sizeof(path), "%s/ca.pem", home);
	assert_int_equal(file_write_atomic(path, 0600, "x", 1), 0);
	assert_int_equal(setenv("HOME", home, 1), 0);
	assert_int_equal(chdir(home), 0);
	(void)str_format(file, sizeof(file), "%s/.config/holdfast/contexts.json", home);
	(void)unlink(file);
	expect("context set prod --address p:1 --ca ca.pem --token-file ca.pem --namespace team", STATUS_OK,
	       "");
	expect("context set lab --address l:1", STATUS_OK, "");
	return 0;
}

static char *in_home(const char *name)
{
	static char path[PATH_MAX];

	(void)str_format(path, sizeof(path), "%s/%s", home, name);
	return path;
}

TEST_FIXTURE(the_current_context_is_used_if_nothing_names_a_server, setup, NULL)
{
	struct invocation inv;
	struct error err;

	expect_server("volume status", "", "", "");
	expect("context use prod", STATUS_OK, "");
	expect_server("volume status", "p:1", in_home("ca.pem"), in_home("ca.pem"));
	parse("volume status", &inv);
	assert_int_equal(context_apply(&inv, &err), STATUS_OK);
	assert_string_equal(inv.options[OPT_NAMESPACE], "team");
	json_decref(inv.context);
	expect_server("volume status --token-file /t", "p:1", in_home("ca.pem"), "/t");
	assert_int_equal(setenv("HOLDFAST_TOKEN_FILE", "/v", 1), 0);
	expect_server("volume status", "p:1", in_home("ca.pem"), "/v");
	expect_server("volume status --address o:1", "o:1", "", "/v");
	assert_int_equal(setenv("HOLDFAST_ADDR", "e:1", 1), 0);
	expect_server("volume status", "e:1", "", "/v");
	assert_int_equal(unsetenv("HOLDFAST_ADDR"), 0);
	assert_int_equal(setenv("HOLDFAST_DEV_DIR", "/dev-dir", 1), 0);
	expect_server("volume status", "", "", "/v");
	assert_int_equal(unsetenv("HOLDFAST_DEV_DIR"), 0);
	expect("context unset", STATUS_OK, "");
	expect_server("volume status", "", "", "/v");
}

TEST_FIXTURE(a_named_context_replaces_variables_about_another_server, setup, NULL)
{
	assert_int_equal(setenv("HOLDFAST_ADDR", "e:1", 1), 0);
	assert_int_equal(setenv("HOLDFAST_CACERT", "/e-ca", 1), 0);
	assert_int_equal(setenv("HOLDFAST_TOKEN_FILE", "/e-token", 1), 0);
	assert_int_equal(setenv("HOLDFAST_DEV_DIR", "/e-dev", 1), 0);
	expect_server("volume status --context prod", "p:1", in_home("ca.pem"), in_home("ca.pem"));
	expect_server("volume status --context lab", "l:1", "", ""); /* no token of another server */
	expect_server("volume status --context prod --address o:1", "o:1", in_home("ca.pem"),
		      in_home("ca.pem"));
	assert_int_equal(setenv("HOLDFAST_CONTEXT", "lab", 1), 0);
	expect_server("volume status", "l:1", "", "");
	expect_server("volume status --context prod", "p:1", in_home("ca.pem"), in_home("ca.pem"));
	expect("volume status --context nowhere", STATUS_NOT_FOUND,
	       "there is no context 'nowhere', only prod, lab");
}

TEST_FIXTURE(a_change_of_a_context_keeps_its_other_values, setup, NULL)
{
	expect("context set prod --address q:2", STATUS_OK, "");
	expect_server("volume status --context prod", "q:2", in_home("ca.pem"), in_home("ca.pem"));
	expect("context set prod --token-file=", STATUS_OK, "");
	expect_server("volume status --context prod", "q:2", in_home("ca.pem"), "");
	expect("context use prod", STATUS_OK, "");
	expect("context set lab --namespace x", STATUS_OK, ""); /* nothing of the current one goes into it */
	expect_server("volume status --context lab", "l:1", "", "");
	expect("context delete prod", STATUS_OK, "");
	expect_server("volume status", "", "", "");
	expect("context show prod", STATUS_NOT_FOUND, "there is no context 'prod', only lab");
	expect("context show", STATUS_NOT_FOUND, "no context is in use");
	expect("context show lab", STATUS_OK, "");
	expect("context list", STATUS_OK, "");
}

TEST_FIXTURE(a_context_without_server_or_with_missing_files_is_refused, setup, NULL)
{
	expect("context set new --namespace x", STATUS_INVALID_ARGUMENT, "context new names no server");
	expect("context set new --address n:1 --ca nothing.pem", STATUS_NOT_FOUND,
	       "cannot find nothing.pem of --ca");
	expect("context set ../x --address n:1", STATUS_INVALID_ARGUMENT, "'../x' is not a name");
	expect("context use new", STATUS_NOT_FOUND, "there is no context 'new', only prod, lab");
}

TEST_FIXTURE(the_file_holds_paths_and_belongs_to_its_user, setup, NULL)
{
	cleanup_free char *text = NULL;
	struct stat st;

	assert_int_equal(stat(file, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(file_read(file, 4096, &text, NULL), 0);
	assert_non_null(text);
	assert_non_null(strstr(text, "ca.pem\""));
	assert_int_equal(chmod(file, 0620), 0);
	expect("context list", STATUS_PERMISSION_DENIED, "another user owns or may change them");
	expect("volume status", STATUS_PERMISSION_DENIED, "another user owns or may change them");
	expect("version", STATUS_OK, "");
	assert_int_equal(chmod(file, 0600), 0);
}

TEST_FIXTURE(a_malformed_file_of_contexts_is_refused, setup, NULL)
{
	static const char *const texts[] = {
		"",
		"[]",
		"{\"current\": \"\"}",
		"{\"current\": 1, \"contexts\": {}}",
		"{\"current\": \"\", \"contexts\": {\"a\": {\"token\": \"secret\"}}}",
		"{\"current\": \"\", \"contexts\": {\"a\": {\"address\": 7}}}",
		"{\"current\": \"\", \"contexts\": {\"a\": \"b\"}}"};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		assert_int_equal(file_write_atomic(file, 0600, texts[i], strlen(texts[i])), 0);
		expect("context list", STATUS_INVALID_ARGUMENT, "holds no contexts");
	}
	assert_int_equal(unlink(file), 0);
	expect("context list", STATUS_OK, "");
	assert_int_equal(unsetenv("HOME"), 0);
	expect("context list", STATUS_FAILED_PRECONDITION, "neither HOME nor XDG_CONFIG_HOME is set");
	expect_server("volume status --address o:1", "o:1", "", "");
	expect_server("volume status", "", "", "");
}

TEST_GROUP(begin, end)

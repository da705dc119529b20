/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of holdfast-fencer: its file, its orders on the disk, and fence agents as child processes. */

#include "folder.h"
#include "unit.h"
#include "unit_loop.h"

#include "base/fd.h"
#include "fencer/agent.h"
#include "fencer/settings.h"
#include "fencer/used.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

int __wrap_path_open_trusted_file(int root_fd, const char *path, uid_t owner, int flags, mode_t mode);

/* Programs of the test are not root's. */
int __wrap_path_open_trusted_file(int root_fd, const char *path, uid_t owner, int flags, mode_t mode)
{
	int fd = open(path, flags | O_CLOEXEC, mode);

	return fd < 0 ? -errno : fd;
}

pid_t __wrap_waitpid(pid_t pid, int *status, int options);
pid_t __real_waitpid(pid_t pid, int *status, int options);

/* A process that waits for a device does not die when it is killed. */
static bool dies_late;

pid_t __wrap_waitpid(pid_t pid, int *status, int options)
{
	if (!dies_late)
		return __real_waitpid(pid, status, options);
	assert_int_equal(options & WNOHANG, WNOHANG);
	return 0;
}

#define KEY "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define TOP                                 \
	"name = \"f1\"\ncluster = \"c1\"\n" \
	"servers = [\"s1:4656\", \"s2:4656\"]\nticket_keys = [\"" KEY "\"]\n"
#define NODE(more) TOP "node \"n1\" {\n  agent = \"fence_test\"\n" more "}\n"

/* --- the file --- */

TEST(a_file_names_servers_keys_and_the_switch_of_each_node)
{
	cleanup(fencer_settings_release) struct fencer_settings settings;
	const struct fencer_node *node;
	struct error err;

	assert_succeeds(
		fencer_settings_parse(NODE("  timeout = \"5s\"\n  options {\n    ip = \"192.0.2.7\"\n  }\n"
					   "  secrets {\n    password = \"n1.bmc\"\n  }\n"),
				      "fencer.hcl", &settings, &err),
		err);
	assert_int_equal(settings.n_servers, 2);
	assert_string_equal(settings.servers[1].host, "s2");
	assert_int_equal(settings.n_keys, 1);
	assert_int_equal(settings.keys[0][1], 0x11);
	assert_int_equal(settings.n_nodes, 1);
	node = NON_NULL(fencer_settings_node(&settings, "n1"));
	assert_null(fencer_settings_node(&settings, "n2"));
	assert_string_equal(node->agent, "fence_test");
	assert_int_equal(node->timeout_us, 5 * USEC_PER_SEC);
	assert_int_equal(node->n_options, 2);
	assert_false(node->options[0].is_secret);
	assert_true(node->options[1].is_secret);
	assert_string_equal(node->options[1].value, "n1.bmc");
}

TEST(a_file_that_names_anything_else_is_refused_by_line)
{
	static const struct {
		const char *text, *part;
	} wrong[] = {
		{TOP, "no node is named"},
		{NODE("  options {\n    action = \"on\"\n  }\n"), "sets the action itself"},
		{NODE("  options {\n    method = \"cycle\"\n  }\n"), "sets the action itself"},
		{NODE("  secrets {\n    method = \"onoff\"\n  }\n"), "sets the action itself"},
		{NODE("  options {\n    missing_as_off = \"1\"\n  }\n"), "does not exist"},
		{NODE("  secrets {\n    missing_as_off = \"x\"\n  }\n"), "does not exist"},
		{NODE("  options {\n    ip = \"a\\nb\"\n  }\n"), "one line"},
		{NODE("  options {\n    \"ip=x\" = \"a\"\n  }\n"), "option's name"},
		{NODE("  options {\n    ip = \"a\"\n  }\n  secrets {\n    ip = \"b\"\n  }\n"), "given twice"},
		{NODE("  secrets {\n    password = \"../shadow\"\n  }\n"), "one line"},
		{NODE("  color = \"red\"\n"), "color"},
		{TOP "node \"n1\" { agent = \"../bin/sh\" }\n", "no name of a fence agent"},
		{TOP "node \"n1\" { agent = \"reboot\" }\n", "no name of a fence agent"},
		{TOP "node \"n1\" { agent = \"fence_sbd\" }\n", "writes a record"},
		{TOP "node { agent = \"fence_test\" }\n", "a name is"},
		{"name = \"f1\"\ncluster = \"c1\"\nservers = [\"s1:4656\"]\n"
		 "ticket_keys = [\"00\"]\nnode \"n1\" { agent = \"fence_x\" }\n",
		 "no key of 64"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct fencer_settings settings;
		struct error err;

		assert_msg(fencer_settings_parse(wrong[i].text, "fencer.hcl", &settings, &err) ==
				   STATUS_INVALID_ARGUMENT,
			   "%zu: accepted", i);
		assert_msg(strstr(err.msg, wrong[i].part), "%zu: %s", i, err.msg);
	}
}

/* --- orders on the disk --- */

static struct fence_order order_of(uint8_t nonce, uint64_t not_after_ms)
{
	return (struct fence_order){.nonce = {nonce}, .not_after_ms = not_after_ms};
}

TEST(an_order_is_used_once_also_after_a_restart)
{
	Holdfast__V1__FenceAnswer answer = HOLDFAST__V1__FENCE_ANSWER__INIT, *kept = NULL;
	const struct fence_order order = order_of(1, 5000), other = order_of(2, 5000);
	char dir[FOLDER_SIZE];
	struct used *used = NULL;
	enum used_state found;

	folder_make(dir);
	assert_int_equal(used_open(dir, &used, NULL), STATUS_OK);
	assert_int_equal(used_look(used, &order, &found, &kept, NULL), STATUS_OK);
	assert_int_equal(found, USED_NEW);
	assert_int_equal(used_begin(used, &order, 1000, NULL), STATUS_OK);
	assert_int_equal(used_begin(used, &order, 1000, NULL), STATUS_ALREADY_EXISTS);
	used_free(used); /* the fencer was interrupted */
	assert_int_equal(used_open(dir, &used, NULL), STATUS_OK);
	assert_int_equal(used_look(used, &order, &found, &kept, NULL), STATUS_OK);
	assert_int_equal(found, USED_BEGUN);
	answer.off = HOLDFAST__V1__FENCE_OUTCOME__FENCE_OUTCOME_DONE;
	assert_int_equal(used_finish(used, &order, &answer, NULL), STATUS_OK);
	assert_int_equal(used_look(used, &order, &found, &kept, NULL), STATUS_OK);
	assert_int_equal(found, USED_DONE);
	assert_int_equal(kept->off, HOLDFAST__V1__FENCE_OUTCOME__FENCE_OUTCOME_DONE);
	holdfast__v1__fence_answer__free_unpacked(kept, NULL);
	assert_int_equal(used_look(used, &other, &found, &kept, NULL), STATUS_OK);
	assert_int_equal(found, USED_NEW);
	used_free(used);
	folder_remove(dir);
}

TEST(an_order_that_was_forgotten_counts_as_expired)
{
	enum { DAY_MS = 24 * 3600 * 1000 };
	const struct fence_order first = order_of(1, 5000), second = order_of(2, 3 * (uint64_t)DAY_MS);
	char dir[FOLDER_SIZE];
	struct used *used = NULL;
	enum used_state found;

	folder_make(dir);
	assert_int_equal(used_open(dir, &used, NULL), STATUS_OK);
	assert_int_equal(used_begin(used, &first, 1000, NULL), STATUS_OK);
	assert_int_equal(used_floor_ms(used), 0);
	assert_int_equal(used_begin(used, &second, 2 * (int64_t)DAY_MS, NULL), STATUS_OK);
	assert_int_equal(used_floor_ms(used), 5000);
	assert_int_equal(used_look(used, &first, &found, NULL, NULL), STATUS_OK);
	assert_int_equal(found, USED_NEW); /* and fence_order_check_end() refuses it by the floor */
	used_free(used);
	assert_int_equal(used_open(dir, &used, NULL), STATUS_OK);
	assert_int_equal(used_floor_ms(used), 5000);
	used_free(used);
	folder_remove(dir);
}

/* --- agents --- */

struct ran {
	char dir[FOLDER_SIZE];
	sd_event *event;
	struct fencer_node node;
	bool is_done;
	struct agent_result result;
	char output[1024]; /* with blanks for ends of lines */
};

UNIT_SETUP(setup_ran, struct ran, ran)
{
	sigset_t set;

	folder_make(ran->dir);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	assert_int_equal(sigprocmask(SIG_BLOCK, &set, NULL), 0);
	assert_true(sd_event_new(&ran->event) >= 0);
	ran->node = (struct fencer_node){.id = "n1", .agent = "fence_test", .timeout_us = 20 * USEC_PER_SEC};
}

UNIT_TEARDOWN(teardown_ran, struct ran, ran)
{
	(void)unsetenv("CREDENTIALS_DIRECTORY");
	folder_remove(ran->dir);
	(void)sd_event_unref(ran->event);
}

static void add_option(struct ran *ran, const char *name, const char *value, bool is_secret)
{
	struct fencer_option *option = &ran->node.options[ran->node.n_options++];

	(void)str_copy(option->name, sizeof(option->name), name);
	(void)str_copy(option->value, sizeof(option->value), value);
	option->is_secret = is_secret;
}

static void write_file(const struct ran *ran, const char *name, const char *text, mode_t mode)
{
	char path[FOLDER_SIZE + 64];

	(void)str_format(path, sizeof(path), "%s/%s", ran->dir, name);
	assert_int_equal(file_write_atomic(path, mode, text, strlen(text)), 0);
}

static void on_done(const struct agent_result *result, void *userdata)
{
	struct ran *ran = userdata;

	ran->is_done = true;
	ran->result = *result;
	str_copy_text(ran->output, sizeof(ran->output), result->output);
}

static void run_agent(struct ran *ran, enum agent_action action, const char *script)
{
	struct agent_run *run = NULL;
	struct error err;

	write_file(ran, "fence_test", script, 0700);
	ran->is_done = false;
	assert_succeeds(agent_start(ran->event, ran->dir, &ran->node, action, on_done, ran, &run, &err), err);
	RUN_UNTIL(ran->event, ran->is_done);
}

#define RAN_TEST(name) TEST_ON(name, struct ran, ran, setup_ran, teardown_ran)

RAN_TEST(an_agent_gets_its_options_as_lines_and_nothing_else)
{
	add_option(ran, "ip", "192.0.2.7", false);
	add_option(ran, "plug", "a b", false);
	run_agent(ran, AGENT_OFF, "#!/bin/sh\n/bin/cat\n/usr/bin/env\necho args:$#\nls /proc/self/fd\npwd\n");
	assert_int_equal(ran->result.outcome, FENCE_OUTCOME_DONE);
	assert_non_null(strstr(ran->output, "ip=192.0.2.7 plug=a b action=off "));
	assert_non_null(strstr(ran->output, "args:0 0 1 2 3 / ")); /* 3 is of ls itself */
	assert_null(strstr(ran->output, "PATH="));
	assert_null(strstr(ran->output, "HOME="));
}

RAN_TEST(exit_codes_are_those_of_the_fence_agent_api)
{
	run_agent(ran, AGENT_STATUS, "#!/bin/sh\nexit 0\n");
	assert_int_equal(ran->result.outcome, FENCE_OUTCOME_IS_ON);
	run_agent(ran, AGENT_STATUS, "#!/bin/sh\nexit 2\n");
	assert_int_equal(ran->result.outcome, FENCE_OUTCOME_IS_OFF);
	run_agent(ran, AGENT_OFF, "#!/bin/sh\nexit 2\n");
	assert_int_equal(ran->result.outcome, FENCE_OUTCOME_FAILED);
	run_agent(ran, AGENT_MONITOR, "#!/bin/sh\nkill -9 $$\n");
	assert_int_equal(ran->result.outcome, FENCE_OUTCOME_FAILED);
	assert_non_null(strstr(ran->result.error, "signal 9"));
	run_agent(ran, AGENT_STATUS, "#!/bin/sh\necho first\necho 'no route to host'\nexit 1\n");
	assert_int_equal(ran->result.outcome, FENCE_OUTCOME_FAILED);
	assert_string_equal(ran->result.error, "status failed with exit code 1: no route to host");
}

/* A process that is dead has none, whether it was reaped or not. */
static bool has_command_line(int pid)
{
	char path[64], *text = NULL;
	size_t n = 0;

	(void)str_format(path, sizeof(path), "/proc/%d/cmdline", pid);
	if (file_read(path, 4096, &text, &n) < 0)
		return false;
	free(text);
	return n > 0;
}

RAN_TEST(an_agent_that_hangs_is_killed_with_all_that_it_has_started)
{
	char path[FOLDER_SIZE + 16], script[2 * FOLDER_SIZE + 128], *text = NULL;

	(void)str_format(path, sizeof(path), "%s/pid", ran->dir);
	(void)str_format(script, sizeof(script), "#!/bin/sh\nsleep 1000 &\necho $! >%s\nwait\nexit 2\n",
			 path);
	run_agent(ran, AGENT_STATUS, script);
	assert_int_equal(ran->result.outcome, FENCE_OUTCOME_FAILED);
	assert_non_null(strstr(ran->result.error, "did not end within 20s"));
	assert_int_equal(file_read(path, 32, &text, NULL), 0);
	WAIT_UNTIL(!has_command_line(atoi(text)));
	free(text);
}

RAN_TEST(an_agent_that_hangs_is_killed_also_outside_its_process_group)
{
	ran->node.timeout_us = USEC_PER_SEC;
	run_agent(ran, AGENT_STATUS,
		  "#!/usr/bin/perl\nsetpgrp(0, getpgrp(getppid)) or die;\nsleep 60;\nexit 2;\n");
	assert_int_equal(ran->result.outcome, FENCE_OUTCOME_FAILED);
	assert_string_equal(ran->result.error, "status did not end within 1s");
}

RAN_TEST(an_agent_that_prints_without_end_is_killed)
{
	run_agent(ran, AGENT_OFF,
		  "#!/bin/sh\nwhile :; do echo 0123456789012345678901234567890123456789; done\n");
	assert_int_equal(ran->result.outcome, FENCE_OUTCOME_FAILED);
	assert_non_null(strstr(ran->result.error, "more than 65536 bytes"));
}

RAN_TEST(a_secret_is_from_a_credential_and_in_no_message)
{
	assert_int_equal(setenv("CREDENTIALS_DIRECTORY", ran->dir, 1), 0);
	write_file(ran, "n1.bmc", "hunter2\n", 0400);
	add_option(ran, "password", "n1.bmc", true);
	run_agent(ran, AGENT_OFF, "#!/bin/sh\n/bin/cat\necho 'login with hunter2 failed' >&2\nexit 1\n");
	assert_non_null(strstr(ran->output, "password=******* action=off "));
	assert_string_equal(ran->result.error, "off failed with exit code 1: login with ******* failed");
	write_file(ran, "n1.bmc", "**\n", 0400);
	run_agent(ran, AGENT_OFF, "#!/bin/sh\n/bin/cat\nexit 1\n");
	assert_non_null(strstr(ran->output, "password=** action=off "));
}

RAN_TEST(secrets_that_overlap_are_hidden_as_a_whole)
{
	static const struct {
		const char *first, *second, *printed, *shown;
	} cases[] = {
		{"pass", "password1", "password1 pass", "********* ****"},
		{"password1", "pass", "password1 pass", "********* ****"},
		{"abc", "bcd", "abcd", "****"},
		{"abab", "x", "ababab", "******"},
	};
	char script[128];

	assert_int_equal(setenv("CREDENTIALS_DIRECTORY", ran->dir, 1), 0);
	add_option(ran, "password", "one", true);
	add_option(ran, "snmp_priv_passwd", "two", true);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		write_file(ran, "one", cases[i].first, 0400);
		write_file(ran, "two", cases[i].second, 0400);
		(void)str_format(script, sizeof(script), "#!/bin/sh\necho '%s'\n", cases[i].printed);
		run_agent(ran, AGENT_OFF, script);
		assert_non_null(strstr(ran->output, cases[i].shown));
	}
}

/* As links of fence_ipmilan, which behaves by its name. */
RAN_TEST(an_agent_may_be_a_link_and_is_run_by_its_name)
{
	char path[FOLDER_SIZE + 64], target[FOLDER_SIZE + 64];
	struct agent_run *run = NULL;
	struct error err;

	(void)str_format(path, sizeof(path), "%s/fence_link", ran->dir);
	(void)str_format(target, sizeof(target), "%s/fence_test", ran->dir);
	(void)str_copy(ran->node.agent, sizeof(ran->node.agent), "fence_link");
	for (int i = 0; i < 2; i++) {
		assert_int_equal(symlink(i == 0 ? "fence_test" : target, path), 0);
		run_agent(ran, AGENT_OFF, "#!/bin/sh\necho $0\n");
		assert_non_null(strstr(ran->output, "/fence_link"));
		assert_int_equal(unlink(path), 0);
	}
	assert_int_equal(symlink("fence_link", path), 0);
	assert_error(agent_start(ran->event, ran->dir, &ran->node, AGENT_OFF, on_done, ran, &run, &err),
		     STATUS_INTERNAL, err, "or a link to one");
}

RAN_TEST(an_agent_without_its_credential_or_its_program_is_not_run)
{
	struct agent_run *run = NULL;
	struct error err;

	assert_error(agent_start(ran->event, ran->dir, &ran->node, AGENT_OFF, on_done, ran, &run, &err),
		     STATUS_NOT_FOUND, err, "install the fence agent");
	write_file(ran, "fence_test", "#!/bin/sh\nexit 0\n", 0700);
	add_option(ran, "password", "n1.bmc", true);
	assert_error(agent_start(ran->event, ran->dir, &ran->node, AGENT_OFF, on_done, ran, &run, &err),
		     STATUS_NOT_FOUND, err, "credential n1.bmc");
	assert_null(run);
}

RAN_TEST(an_agent_that_dies_late_is_not_waited_for_and_reaped_later)
{
	struct agent_run *run = NULL;
	siginfo_t info = {.si_pid = 0};

	write_file(ran, "fence_test", "#!/bin/sh\nsleep 60\n", 0700);
	assert_ok(agent_start(ran->event, ran->dir, &ran->node, AGENT_OFF, on_done, ran, &run, NULL));
	dies_late = true;
	agent_cancel(run);
	dies_late = false;
	RUN_UNTIL(ran->event, waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD);
	assert_false(ran->is_done);
}

RAN_TEST(an_agent_that_is_cancelled_reports_nothing)
{
	struct agent_run *run = NULL;

	write_file(ran, "fence_test", "#!/bin/sh\nsleep 1000\n", 0700);
	assert_ok(agent_start(ran->event, ran->dir, &ran->node, AGENT_OFF, on_done, ran, &run, NULL));
	agent_cancel(run);
	run_idle(ran->event);
	assert_false(ran->is_done);
}

#define METADATA(more) \
	"<resource-agent><parameter name=\"ip\"><parameter name=\"plug\">" more "</resource-agent>"
#define ON(more) METADATA("<action name=\"on\"" more "/><action name=\"off\" automatic=\"1\"/>")

TEST(metadata_of_an_agent_that_cannot_switch_the_node_are_refused)
{
	static const struct {
		const char *text, *option, *part;
	} wrong[] = {
		{METADATA(""), "plugg", "no option 'plugg'"},
		{ON(""), "off", "no option 'off'"}, /* it is an action */
		{"usage: fence_test", "plug", "not that of a fence agent"},
		{ON(" automatic=\"1\""), "plug", "switches no power"},
		{ON(" on_target=\"1\" automatic=\"1\""), "plug", "switches no power"},
	};
	static const char *const right[] = {METADATA(""), ON(""), ON(" automatic=\"0\"")};
	struct fencer_node node = {.agent = "fence_test", .n_options = 2, .options = {{.name = "ip"}}};
	struct error err;

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		(void)str_copy(node.options[1].name, FENCER_OPTION_SIZE, wrong[i].option);
		assert_error(agent_check_metadata(wrong[i].text, &node, &err), STATUS_FAILED_PRECONDITION,
			     err, wrong[i].part);
	}
	node.n_options = 1;
	for (size_t i = 0; i < ARRAY_SIZE(right); i++)
		assert_succeeds(agent_check_metadata(right[i], &node, &err), err);
}

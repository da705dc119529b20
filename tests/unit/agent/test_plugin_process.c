/* SPDX-License-Identifier: Apache-2.0 */
#include "unit_clock.h"

#include "volume/plugin_process.h"

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define FOLDER "/run/nobody/stage/volume-of-this-test"

/* A process that stays, in a session of its own if it is to; until its arguments are to be seen. */
static pid_t start(const char *command, const char *argument, bool has_session)
{
	int ready[2], input[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe2(ready, 0), 0);
	assert_int_equal(pipe2(input, 0), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		char sh[] = "sh", flag[] = "-c", name[] = "mount";
		char *argv[] = {sh, flag, TEXT(command), name, TEXT(argument), NULL};

		if (has_session)
			(void)setsid();
		(void)dup2(ready[1], STDOUT_FILENO);
		(void)dup2(input[0], STDIN_FILENO);
		(void)execv("/bin/sh", argv);
		_exit(127);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	(void)close(ready[0]);
	(void)close(ready[1]);
	(void)close(input[0]); /* the other end stays: what it waits for never comes */
	return pid;
}

static void end(pid_t pid)
{
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

TEST(a_process_that_names_the_folder_is_found_with_any_parent)
{
	static const char *const arguments[] = {FOLDER, FOLDER "/rw-publish", "target=" FOLDER "/staging,x"};
	const struct plugin_process nobody = {0};
	uint64_t from = plugin_process_now();
	struct plugin_children children;

	for (size_t i = 0; i < ARRAY_SIZE(arguments); i++) {
		pid_t pid = start("echo; read never", arguments[i], true);

		plugin_process_children(&nobody, from - 1, UINT64_MAX, FOLDER, &children);
		assert_int_equal(children.n_naming, 1);
		assert_int_equal(children.n_session, 0);
		assert_int_equal(children.pid, pid);
		assert_string_equal(children.name, "sh");
		assert_non_null(memmem(children.arguments, children.n_arguments, FOLDER, strlen(FOLDER)));
		assert_int_equal(children.arguments[children.n_arguments - 1], '\0');
		/* another time, and another volume */
		plugin_process_children(&nobody, plugin_process_now() + 100, UINT64_MAX, FOLDER, &children);
		assert_int_equal(children.n_naming, 0);
		plugin_process_children(&nobody, from - 1, UINT64_MAX, FOLDER "2", &children);
		assert_int_equal(children.n_naming, 0);
		end(pid);
		plugin_process_children(&nobody, from - 1, UINT64_MAX, FOLDER, &children);
		assert_int_equal(children.n_naming, 0);
	}
}

TEST(of_the_plugins_session_are_others_but_itself)
{
	uint64_t from = plugin_process_now() - 1;
	pid_t pid = start("sleep 100 & echo; wait", "nothing", true), child;
	struct plugin_process plugin = plugin_process_find(pid);
	struct plugin_children children;

	assert_int_equal(plugin.pid, pid);
	assert_int_equal(plugin.session, pid);
	assert_true(plugin.since >= from);
	plugin_process_children(&plugin, from, UINT64_MAX, FOLDER, &children);
	assert_int_equal(children.n_naming, 0);
	assert_int_equal(children.n_session, 1); /* its sleep */
	assert_int_not_equal(children.pid, pid);
	child = children.pid;
	end(pid); /* alone */
	plugin_process_children(&plugin, from, UINT64_MAX, FOLDER, &children);
	assert_int_equal(children.n_session, 1);
	assert_int_equal(kill(child, SIGKILL), 0);
	WAIT_UNTIL((plugin_process_children(&plugin, from, UINT64_MAX, FOLDER, &children),
		    children.n_session == 0));
}

TEST(an_ended_process_is_not_alive)
{
	pid_t pid = start("echo; read never", "nothing", false);
	struct plugin_process plugin = plugin_process_find(pid), other = plugin;

	assert_true(plugin_process_is_alive(&plugin));
	other.since++; /* the pid is somebody else's by now */
	assert_false(plugin_process_is_alive(&other));
	assert_int_equal(kill(pid, SIGKILL), 0);
	WAIT_UNTIL(!plugin_process_is_alive(&plugin)); /* nobody has waited for it */
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_false(plugin_process_is_alive(&plugin));
	assert_int_equal(plugin_process_find(pid).pid, 0);
}

/* Exits with the line of the failed check; 0: none failed. */
static int look_through_a_proc_of_its_own(void)
{
	static const struct {
		const char *folder; /* made in addition to those of the rows before */
		bool is_partial;
	} rows[] = {
		{"/proc/empty", true}, /* as with hidepid=invisible: no service manager */
		{"/proc/1", false},    /* and processes that have ended: no stat */
		{"/proc/77", false},	 {"/proc/78", false},
		{"/proc/78/stat", true}, /* cannot be read (EISDIR), as with hidepid=noaccess or SELinux
					    (EACCES) */
	};
	const struct plugin_process nobody = {0};
	struct plugin_children children;

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", "/proc", "tmpfs", 0, NULL) < 0)
		return __LINE__;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (mkdir(rows[i].folder, 0700) < 0)
			return __LINE__;
		plugin_process_children(&nobody, 0, UINT64_MAX, FOLDER, &children);
		if (children.is_partial != rows[i].is_partial || children.n_naming != 0)
			return (int)i + 1;
	}
	if (plugin_process_is_alive(&(struct plugin_process){.pid = 77}) ||
	    !plugin_process_is_alive(&(struct plugin_process){.pid = 78}))
		return __LINE__;
	return 0;
}

TEST(a_proc_that_hides_processes_is_noticed)
{
	const struct plugin_process nobody = {0};
	struct plugin_children children;
	int status;
	pid_t pid;

	plugin_process_children(&nobody, 0, UINT64_MAX, FOLDER, &children);
	assert_false(children.is_partial);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(unshare(CLONE_NEWNS) < 0 ? UINT8_MAX : look_through_a_proc_of_its_own());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == UINT8_MAX) {
		print_message("skipped: a /proc of its own needs CAP_SYS_ADMIN\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

TEST(the_service_manager_is_no_plugin)
{
	assert_int_equal(plugin_process_find(1).pid, 0);
	assert_int_equal(plugin_process_find(0).pid, 0);
	assert_int_equal(plugin_process_find(getpid()).pid, getpid());
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "failing_folder.h"
#include "unit_clock.h"

#include "volume/plugin_process.h"

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define FOLDER "/run/no_plugin/stage/volume-of-this-test"

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
	const struct plugin_process no_plugin = {0};
	uint64_t from = plugin_process_now();
	struct plugin_children children;

	for (size_t i = 0; i < ARRAY_SIZE(arguments); i++) {
		pid_t pid = start("echo; read never", arguments[i], true);

		plugin_process_children(&no_plugin, from - 1, UINT64_MAX, FOLDER, &children);
		assert_int_equal(children.n_naming, 1);
		assert_int_equal(children.n_session, 0);
		assert_int_equal(children.pid, pid);
		assert_string_equal(children.name, "sh");
		assert_non_null(memmem(children.arguments, children.n_arguments, FOLDER, strlen(FOLDER)));
		assert_int_equal(children.arguments[children.n_arguments - 1], '\0');
		/* another time, and another volume */
		plugin_process_children(&no_plugin, plugin_process_now() + 100, UINT64_MAX, FOLDER,
					&children);
		assert_int_equal(children.n_naming, 0);
		plugin_process_children(&no_plugin, from - 1, UINT64_MAX, FOLDER "2", &children);
		assert_int_equal(children.n_naming, 0);
		end(pid);
		plugin_process_children(&no_plugin, from - 1, UINT64_MAX, FOLDER, &children);
		assert_int_equal(children.n_naming, 0);
	}
}

TEST(a_folder_behind_a_long_argument_is_found)
{
	static const size_t lengths[] = {PROCESS_ARGUMENTS_SIZE - 40, 5000, 100000};
	const struct plugin_process no_plugin = {0};
	uint64_t from = plugin_process_now();
	struct plugin_children children, other;

	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		char *argument = NON_NULL(malloc(lengths[i] + sizeof(FOLDER)));
		pid_t pid;

		memset(argument, 'j', lengths[i]);
		memcpy(argument + lengths[i], FOLDER, sizeof(FOLDER));
		pid = start("echo; read never", argument, true);
		free(argument);
		plugin_process_children(&no_plugin, from - 1, UINT64_MAX, FOLDER, &children);
		plugin_process_children(&no_plugin, from - 1, UINT64_MAX, FOLDER "2", &other);
		end(pid);
		assert_int_equal(children.n_naming, 1);
		/* it is no reason to wait for ever: see has_mounted() */
		assert_int_equal(children.n_arguments, sizeof(FOLDER));
		assert_string_equal(children.arguments, FOLDER);
		assert_int_equal(other.n_naming, 0);
	}
}

TEST(a_path_below_the_folder_that_is_too_long_is_marked_as_cut)
{
	static const size_t lengths[] = {PROCESS_ARGUMENTS_SIZE - sizeof(FOLDER) - 1,
					 PROCESS_ARGUMENTS_SIZE - sizeof(FOLDER), 5000};
	const struct plugin_process no_plugin = {0};
	uint64_t from = plugin_process_now();
	struct plugin_children children;

	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		char *argument = NON_NULL(malloc(lengths[i] + sizeof(FOLDER)));
		pid_t pid;

		memcpy(argument, FOLDER, sizeof(FOLDER));
		memset(argument + strlen(FOLDER), 'j', lengths[i]);
		argument[strlen(FOLDER) + lengths[i]] = '\0';
		pid = start("echo; read never", argument, true);
		free(argument);
		plugin_process_children(&no_plugin, from - 1, UINT64_MAX, FOLDER, &children);
		end(pid);
		assert_int_equal(children.n_naming, 1);
		assert_int_equal(children.n_arguments, PROCESS_ARGUMENTS_SIZE - (i == 0 ? 1 : 0));
	}
}

TEST(the_name_of_a_process_is_no_line_of_its_own)
{
	uint64_t from = plugin_process_now();
	pid_t pid = start("printf 'a\\n\\033; Next: rm' >/proc/$$/comm; echo; read never", FOLDER, true);
	const struct plugin_process no_plugin = {0};
	struct plugin_children children;

	plugin_process_children(&no_plugin, from - 1, UINT64_MAX, FOLDER, &children);
	end(pid);
	assert_int_equal(children.pid, pid);
	assert_string_equal(children.name, "a ?, next: rm");
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
	WAIT_UNTIL(!plugin_process_is_alive(&plugin)); /* no_plugin has waited for it */
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_false(plugin_process_is_alive(&plugin));
	assert_int_equal(plugin_process_find(pid).pid, 0);
}

/* Replaces /proc by an empty folder with this process alone, which the program's clock looks at. */
static bool take_proc(void)
{
	char self[64], kept[64];

	(void)snprintf(self, sizeof(self), "/proc/%d", (int)getpid());
	(void)snprintf(kept, sizeof(kept), "/tmp/%d", (int)getpid());
	return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("none", "/tmp", "tmpfs", 0, NULL) == 0 && mkdir(kept, 0700) == 0 &&
	       mount(self, kept, NULL, MS_BIND, NULL) == 0 &&
	       mount("/tmp", "/proc", NULL, MS_MOVE, NULL) == 0;
}

/* Runs it in a child. Returns the line of the failed check; 0: none failed. */
static int in_child(int (*run)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		(void)alarm(60); /* real time */
		_exit(unshare(CLONE_NEWNS) < 0 ? UINT8_MAX : run());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == UINT8_MAX) {
		print_message("skipped: a /proc of its own needs CAP_SYS_ADMIN\n");
		skip();
	}
	return WEXITSTATUS(status);
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
	const struct plugin_process no_plugin = {0};
	struct plugin_children children;

	if (!take_proc())
		return __LINE__;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (mkdir(rows[i].folder, 0700) < 0)
			return __LINE__;
		plugin_process_children(&no_plugin, 0, UINT64_MAX, FOLDER, &children);
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
	const struct plugin_process no_plugin = {0};
	struct plugin_children children;

	plugin_process_children(&no_plugin, 0, UINT64_MAX, FOLDER, &children);
	assert_false(children.is_partial);
	assert_int_equal(in_child(look_through_a_proc_of_its_own), 0);
}

TEST(a_proc_that_cannot_be_read_to_its_end_is_noticed)
{
	const struct plugin_process no_plugin = {0};
	struct plugin_children children;

	folder_error = ENOMEM;
	plugin_process_children(&no_plugin, 0, UINT64_MAX, FOLDER, &children);
	folder_error = 0;
	assert_true(children.is_partial);
}

enum { SILENT = 5000000, SILENT_N = PROCESS_LOOKS_MAX + 1 }; /* above every pid of the kernel */

/* A process that began at @since, and whose command line is a FIFO: who opens it waits, as the kernel lets
 * readers wait while a FUSE server does not answer the process. */
static bool add_silent(int since)
{
	char path[64];
	FILE *stat;

	(void)snprintf(path, sizeof(path), "/proc/%d", SILENT + since);
	if (mkdir(path, 0700) < 0)
		return false;
	(void)snprintf(path, sizeof(path), "/proc/%d/cmdline", SILENT + since);
	if (mkfifo(path, 0600) < 0)
		return false;
	(void)snprintf(path, sizeof(path), "/proc/%d/stat", SILENT + since);
	stat = fopen(path, "we");
	if (!stat)
		return false;
	(void)fprintf(stat, "%d (silent; Next: x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %d 0\n",
		      SILENT + since, since);
	return fclose(stat) == 0;
}

static uint64_t timed_look(uint64_t from, uint64_t to, struct plugin_children *ret)
{
	const struct plugin_process no_plugin = {0};
	uint64_t before = clock_monotonic_us();

	plugin_process_children(&no_plugin, from, to, FOLDER, ret);
	return (clock_monotonic_us() - before) / USEC_PER_MSEC;
}

static bool is_silent(const struct plugin_children *children, int since)
{
	return children->is_unfinished && children->pid == SILENT + since &&
	       str_starts_with(children->name, "silent") && !strstr(children->name, "; ") &&
	       !strstr(children->name, "Next: ") && children->n_naming == 0;
}

/* Answers the reader that waits, and from then on each. */
static bool answer(int since)
{
	char path[64];
	FILE *file;
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%d/cmdline", SILENT + since);
	fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC); /* fails without a reader */
	if (fd < 0 || unlink(path) < 0)
		return false;
	file = fopen(path, "we");
	if (!file || fputs(FOLDER, file) < 0 || fclose(file) != 0)
		return false;
	return close(fd) == 0;
}

static int look_at_silent_ones(void)
{
	struct plugin_children children;

	if (!take_proc() || mkdir("/proc/1", 0700) < 0)
		return __LINE__;
	for (int i = 1; i <= SILENT_N; i++)
		if (!add_silent(i))
			return __LINE__;
	for (int i = 1; i < SILENT_N; i++) {
		if (timed_look((uint64_t)i, (uint64_t)i, &children) < PROCESS_LOOK_MS ||
		    !is_silent(&children, i))
			return __LINE__;
		/* once is enough, for looks at others, too */
		if (timed_look((uint64_t)i, UINT64_MAX, &children) >= PROCESS_LOOK_MS ||
		    !is_silent(&children, i))
			return __LINE__;
		if (i == 1 && (timed_look(SILENT_N + 1, SILENT_N + 1, &children) >= PROCESS_LOOK_MS ||
			       children.is_unfinished || children.is_partial))
			return __LINE__;
	}
	/* all threads wait: one of their processes stands for the others */
	if (timed_look(SILENT_N, SILENT_N, &children) >= PROCESS_LOOK_MS || !children.is_unfinished)
		return __LINE__;
	if (!answer(1))
		return __LINE__;
	WAIT_UNTIL((timed_look(1, 1, &children), !children.is_unfinished));
	return children.n_naming == 1 && children.pid == SILENT + 1 ? 0 : __LINE__;
}

/* A command line of zeros; @size negative: one that cannot be read. */
static bool may_name(off_t size)
{
	const struct plugin_process no_plugin = {0};
	struct plugin_children children;
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/cmdline", SILENT + 1);
	(void)remove(path);
	if (size < 0 ? mkdir(path, 0700) < 0 : close(creat(path, 0600)) < 0 || truncate(path, size) < 0)
		return false;
	plugin_process_children(&no_plugin, 1, 1, FOLDER, &children);
	return children.n_naming == 1 && children.n_arguments == PROCESS_ARGUMENTS_SIZE;
}

static int look_at_one_that_may_name_it(void)
{
	enum { MOST = 8 << 20 };

	if (!take_proc() || mkdir("/proc/1", 0700) < 0 || !add_silent(1))
		return __LINE__;
	if (may_name(0) || may_name(5000) || may_name(MOST))
		return __LINE__;
	return may_name(MOST + 1) && may_name(-1) ? 0 : __LINE__;
}

TEST(a_command_line_that_cannot_be_read_whole_may_name_the_folder)
{
	assert_int_equal(in_child(look_at_one_that_may_name_it), 0);
}

TEST(a_process_that_hangs_its_readers_costs_one_wait_and_one_thread)
{
	assert_int_equal(in_child(look_at_silent_ones), 0);
}

TEST(the_service_manager_is_no_plugin)
{
	assert_int_equal(plugin_process_find(1).pid, 0);
	assert_int_equal(plugin_process_find(0).pid, 0);
	assert_int_equal(plugin_process_find(getpid()).pid, getpid());
}

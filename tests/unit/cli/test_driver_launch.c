/* SPDX-License-Identifier: Apache-2.0 */
/* What `holdfast driver launch` leaves of a driver that is a shell script: of its processes and its folder.
 */

#include "folder.h"
#include "unit.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "command/command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define NEXT "Next, to remove it: "

static bool is_impatient; /* no time passes until the driver is killed */

struct fixture {
	char folder[FOLDER_SIZE]; /* of the test */
	char own[128];		  /* of the driver */
	char output[4096];	  /* stderr */
	struct error err;
};

int __real_usleep(useconds_t us);
WRAPPED(int, usleep, useconds_t us)
{
	return is_impatient ? 0 : __real_usleep(us);
}

UNIT_SETUP(begin, struct fixture, f)
{
	folder_make(f->folder);
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0); /* the driver's children are ours, then */
}

UNIT_TEARDOWN(end, struct fixture, f)
{
	char *last = strrchr(f->own, '/');

	if (last) {
		*last = '\0';
		folder_remove(f->own);
	}
	folder_remove(f->folder);
}

static void read_line(const struct fixture *f, const char *name, char *ret, size_t size)
{
	cleanup_free char *text = NULL;
	char path[FOLDER_SIZE + 16];

	(void)snprintf(path, sizeof(path), "%s/%s", f->folder, name);
	assert_int_equal(file_read(path, size, &text, NULL), 0);
	text[strcspn(text, "\n")] = '\0';
	assert_true(str_copy(ret, size, text) >= 0);
}

/* Runs @script as a driver: its folder is $1, and that of the test $2. */
static void launch(struct fixture *f, const char *script)
{
	char path[FOLDER_SIZE + 16];
	char *argv[] = {
		TEXT("holdfast"), TEXT("driver"), TEXT("launch"),   TEXT("--template"), path, TEXT("--"),
		TEXT("sh"),	  path,		  TEXT("{folder}"), f->folder,		NULL};
	int saved = dup(STDERR_FILENO);
	int out = memfd_create("output", 0);
	struct invocation inv;

	(void)snprintf(path, sizeof(path), "%s/script", f->folder);
	assert_int_equal(file_write_atomic(path, 0600, script, strlen(script)), 0);
	assert_ok(command_parse((int)ARRAY_SIZE(argv) - 1, argv, &inv, &f->err));
	(void)fflush(stderr);
	assert_true(saved >= 0 && out >= 0 && dup2(out, STDERR_FILENO) >= 0);
	assert_true(command_run(&inv, &f->err) != STATUS_OK); /* it does not listen */
	(void)fflush(stderr);
	assert_true(dup2(saved, STDERR_FILENO) >= 0);
	assert_true(pread(out, f->output, sizeof(f->output) - 1, 0) >= 0);
	(void)close(out);
	(void)close(saved);
	read_line(f, "own", f->own, sizeof(f->own));
}

static bool is_there(const struct fixture *f, const char *below)
{
	char path[256];

	(void)snprintf(path, sizeof(path), "%s%s", f->own, below);
	return faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* The folder in which that of the driver is. */
static bool is_session_there(const struct fixture *f)
{
	char path[256];

	(void)snprintf(path, sizeof(path), "%.*s", (int)(strrchr(f->own, '/') - f->own), f->own);
	return access(path, F_OK) == 0;
}

#define CASE(name) TEST_ON(name, struct fixture, f, begin, end)

CASE(a_driver_without_files_leaves_no_folder)
{
	launch(f, "echo \"$1\" >\"$2/own\"; : >\"$1/driver.sock\"");
	assert_contains(f->err.msg, "ended before it listened");
	assert_false(is_session_there(f));
	assert_string_equal(f->output, "");
}

CASE(files_of_a_driver_are_kept_and_the_next_command_removes_them)
{
	launch(f, "echo \"$1\" >\"$2/own\"; mkdir \"$1/sub\"; : >\"$1/sub/file\"; ln -s \"$2\" \"$1/link\"; "
		  ": >\"$1/driver.sock\"");
	assert_true(is_there(f, "/sub/file"));
	assert_true(is_there(f, "/link"));
	assert_false(is_there(f, "/driver.sock"));
	assert_false(is_there(f, "/../settings.hcl"));
	assert_contains(f->output, f->own);
	assert_contains(f->output, NEXT);
	assert_int_equal(system(strstr(f->output, NEXT) + strlen(NEXT)), 0);
	assert_false(is_session_there(f));
	read_line(f, "own", f->own, sizeof(f->own)); /* the folder at which the link points is whole */
}

CASE(a_folder_at_the_place_of_the_socket_is_kept)
{
	launch(f, "echo \"$1\" >\"$2/own\"; mkdir \"$1/driver.sock\"; : >\"$1/driver.sock/file\"");
	assert_true(is_there(f, "/driver.sock/file"));
	assert_contains(f->output, NEXT);
}

CASE(children_of_a_driver_end_with_it)
{
	char pid[16];
	int state;

	launch(f, "echo \"$1\" >\"$2/own\"; trap '' TERM; sleep 3 & echo $! >\"$2/child\"");
	read_line(f, "child", pid, sizeof(pid));
	assert_true(waitpid((pid_t)strtol(pid, NULL, 10), &state, 0) > 0);
	assert_true(WIFSIGNALED(state));
	assert_false(is_session_there(f));
}

CASE(a_driver_has_no_terminal_and_does_not_read_the_calls)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY);
	int saved[] = {dup(STDIN_FILENO), dup(STDOUT_FILENO)};
	char said[64], name[64];
	int slave;

	assert_true(master >= 0 && unlockpt(master) == 0);
	assert_int_equal(ptsname_r(master, name, sizeof(name)), 0);
	slave = open(name, O_RDWR | O_NOCTTY);
	(void)fflush(stdout);
	assert_true(slave >= 0 && dup2(slave, STDIN_FILENO) >= 0 && dup2(slave, STDOUT_FILENO) >= 0);
	launch(f, "echo \"$1\" >\"$2/own\"; read -r pid name state parent group session rest </proc/$$/stat\n"
		  "{ read -r key position; read -r key flags; } </proc/$$/fdinfo/1\n"
		  "echo $((session == pid)) $((flags & 3)) $(readlink /proc/$$/fd/0) >\"$2/said\"");
	for (int i = 0; i < 2; i++) {
		assert_int_equal(dup2(saved[i], i), i);
		(void)close(saved[i]);
	}
	(void)close(slave);
	(void)close(master);
	read_line(f, "said", said, sizeof(said));
	assert_string_equal(said, "1 1 /dev/null"); /* 1: O_WRONLY */
}

/* The last one: the interrupt of this program stays. */
CASE(a_driver_cannot_leave_its_group_and_is_ended)
{
	is_impatient = true;
	launch(f, "echo \"$1\" >\"$2/own\"; exec python3 -c 'import os, signal, sys, time\n"
		  "try: os.setpgid(0, os.getpgid(os.getppid()))\n"
		  "except OSError: pass\n"
		  "os.kill(os.getppid(), signal.SIGINT)\n"
		  "time.sleep(3)\n"
		  "open(sys.argv[1] + \"/late\", \"w\")' \"$1\"");
	is_impatient = false;
	assert_false(is_there(f, "/late"));
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

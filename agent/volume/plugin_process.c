/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/plugin_process.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/folder.h"
#include "base/parse.h"
#include "base/str.h"
#include "rpc/thread.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define NSEC_PER_SEC UINT64_C(1000000000)

enum {
	STAT_SIZE = 1024,
	PROC_PATH_SIZE = 64,
	COMMAND_LINE_MAX = 8 << 20, /* the kernel allows 6 MiB. Source: bprm_stack_limits() */
	SERVICE_MANAGER = 1,
	STACK_SIZE = 128 * 1024,
};

uint64_t plugin_process_now(void)
{
	uint64_t hz = (uint64_t)sysconf(_SC_CLK_TCK);
	struct timespec now;

	(void)clock_gettime(CLOCK_BOOTTIME, &now); /* cannot fail */
	return (uint64_t)now.tv_sec * hz + (uint64_t)now.tv_nsec / (NSEC_PER_SEC / hz);
}

/* Returns how many bytes; 0: empty, or not readable (errno). A 0 follows them. */
static size_t read_file(pid_t pid, const char *file, char *dst, size_t size)
{
	char path[PROC_PATH_SIZE];
	cleanup_close int fd = -1;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, dst, size - 1);
	dst[n > 0 ? n : 0] = '\0';
	return n > 0 ? (size_t)n : 0;
}

struct stat_line {
	char name[PROCESS_NAME_SIZE];
	char state;
	pid_t session;
	uint64_t since;
};

/* The name, in parentheses, may have any of them in it. */
static bool read_stat(pid_t pid, struct stat_line *ret)
{
	char text[STAT_SIZE];
	const char *begin, *end;
	unsigned long long since;
	int session;

	*ret = (struct stat_line){0};
	errno = 0;
	if (read_file(pid, "stat", text, sizeof(text)) == 0)
		return false;
	begin = strchr(text, '(');
	end = strrchr(text, ')');
	if (!begin || !end || end < begin ||
	    /* NOLINTNEXTLINE(cert-err34-c): the kernel's own numbers */
	    sscanf(end + 1, " %c %*d %*d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
		   &ret->state, &session, &since) != 3)
		return false;
	(void)snprintf(ret->name, sizeof(ret->name), "%.*s", (int)(end - begin - 1), begin + 1);
	ret->session = session;
	ret->since = since;
	return true;
}

static bool has_ended(const struct stat_line *line)
{
	return line->state == 'Z' || line->state == 'X';
}

/* After read_stat(): does the process exist, but /proc does not show it? */
static bool is_hidden(void)
{
	return errno != ENOENT && errno != ESRCH;
}

struct plugin_process plugin_process_find(pid_t pid)
{
	struct stat_line line;

	if (pid <= SERVICE_MANAGER || !read_stat(pid, &line))
		return (struct plugin_process){0};
	return (struct plugin_process){.pid = pid, .session = line.session, .since = line.since};
}

bool plugin_process_is_alive(const struct plugin_process *process)
{
	struct stat_line line;

	if (process->pid == 0)
		return false;
	if (!read_stat(process->pid, &line))
		return is_hidden();
	return line.since == process->since && !has_ended(&line);
}

/* As fd_read_all(). */
static int read_command_line(pid_t pid, char **ret, size_t *ret_n)
{
	char path[PROC_PATH_SIZE];
	cleanup_close int fd = -EBADF;

	(void)snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd_read_all(fd, COMMAND_LINE_MAX, ret, ret_n);
}

/* Is @folder, or something below it, among the arguments, or in one of them? */
static bool names(const char *arguments, size_t n, const char *folder)
{
	return arguments && memmem(arguments, n, folder, strlen(folder)) != NULL;
}

/* Runs on a thread: a reader of a command line waits for the process' memory, and this for the server of a
 * file that it maps. A FUSE server need not answer. Source: mmap_lock in the kernel's
 * proc_pid_cmdline_read(). */
struct look {
	pthread_t thread;
	int done_fd;	/* eventfd, written once by the thread */
	atomic_int pid; /* that it reads now */
	struct plugin_process plugin;
	uint64_t from, to;
	struct plugin_children found;
	char folder[];
};

static struct look *unfinished[PROCESS_LOOKS_MAX]; /* the event loop's */

static bool is_of(const struct look *look, pid_t pid, const struct stat_line *line)
{
	return pid != look->plugin.pid && !has_ended(line) && line->since >= look->from &&
	       line->since <= look->to;
}

/* The process has chosen it. */
static void take_name(const struct stat_line *line, struct plugin_children *ret)
{
	str_copy_text(ret->name, sizeof(ret->name), line->name);
	str_make_one_reason(ret->name);
}

/* Keeps each text that begins with @folder, to its end. */
static void keep_named(struct plugin_children *ret, const char *arguments, size_t n, const char *folder)
{
	const char *at = arguments, *end = arguments + n;

	while ((at = memmem(at, (size_t)(end - at), folder, strlen(folder))) != NULL) {
		size_t size = strnlen(at, (size_t)(end - at)) + 1;

		if (size > sizeof(ret->arguments) - ret->n_arguments) {
			ret->n_arguments = sizeof(ret->arguments);
			return;
		}
		memcpy(ret->arguments + ret->n_arguments, at, size - 1);
		ret->arguments[ret->n_arguments + size - 1] = '\0';
		ret->n_arguments += size;
		at += size - 1;
	}
}

static void look_at(struct look *look, pid_t pid, const struct stat_line *line)
{
	const struct plugin_process *plugin = &look->plugin;
	struct plugin_children *ret = &look->found;
	cleanup_free char *arguments = NULL;
	size_t n = 0;
	int r = read_command_line(pid, &arguments, &n);
	bool is_naming = r < 0 ? r != -ENOENT && r != -ESRCH : names(arguments, n, look->folder);

	if (!is_naming && (plugin->session <= SERVICE_MANAGER || line->session != plugin->session))
		return;
	if (is_naming ? ret->n_naming++ == 0 : ret->n_session++ + ret->n_naming == 0) {
		ret->pid = pid;
		take_name(line, ret);
	}
	if (is_naming && ret->n_naming == 1 && r < 0)
		ret->n_arguments = sizeof(ret->arguments);
	else if (is_naming && ret->n_naming == 1)
		keep_named(ret, arguments, n, look->folder);
}

static void *look_run(void *userdata)
{
	struct look *look = userdata;
	cleanup_closedir DIR *proc = opendir("/proc");
	const struct dirent *entry;
	bool sees_manager = false; /* it never ends: a /proc without it hides processes of other accounts */
	struct stat_line line;
	int r = 0;

	while (proc && (r = folder_next(proc, &entry)) > 0) {
		uint64_t pid;

		if (parse_u64(entry->d_name, 1, INT32_MAX, &pid) != 0)
			continue;
		atomic_store(&look->pid, (pid_t)pid);
		sees_manager |= pid == SERVICE_MANAGER;
		if (!read_stat((pid_t)pid, &line))
			look->found.is_partial |= is_hidden();
		else if (is_of(look, (pid_t)pid, &line))
			look_at(look, (pid_t)pid, &line);
	}
	look->found.is_partial |= !sees_manager || r < 0;
	(void)eventfd_write(look->done_fd, 1); /* cannot fail: the counter is 0 and the descriptor ours */
	return NULL;
}

static bool look_ends(const struct look *look, int ms)
{
	struct pollfd done = {.fd = look->done_fd, .events = POLLIN};

	if (poll(&done, 1, ms) != 1)
		return false;
	(void)pthread_join(look->thread, NULL);
	return true;
}

static void look_free(struct look *look)
{
	close_fdp(&look->done_fd);
	free(look);
}

/* Returns where the look may stay if it does not finish. NULL: it would not, for a process that others wait
 * for, or that place is taken. */
static struct look **find_place(const struct look *look, pid_t *ret_pid)
{
	struct look **place = NULL;
	struct stat_line line;
	pid_t pid = 0;

	for (size_t i = 0; i < PROCESS_LOOKS_MAX; i++) {
		if (unfinished[i] && look_ends(unfinished[i], 0)) {
			look_free(unfinished[i]);
			unfinished[i] = NULL;
		}
		if (!unfinished[i]) {
			place = &unfinished[i];
			continue;
		}
		pid = atomic_load(&unfinished[i]->pid);
		if (read_stat(pid, &line) && is_of(look, pid, &line)) {
			*ret_pid = pid;
			return NULL;
		}
	}
	*ret_pid = place ? 0 : pid;
	return place;
}

void plugin_process_children(const struct plugin_process *plugin, uint64_t from, uint64_t to,
			     const char *folder, struct plugin_children *ret)
{
	struct look *look = calloc(1, sizeof(*look) + strlen(folder) + 1);
	struct look **place;
	struct stat_line line;

	*ret = (struct plugin_children){.is_unfinished = true};
	if (!look)
		return;
	look->plugin = *plugin;
	look->from = from;
	look->to = to;
	memcpy(look->folder, folder, strlen(folder));
	look->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	place = find_place(look, &ret->pid);
	if (place && look->done_fd >= 0 && thread_start(STACK_SIZE, look_run, look, &look->thread) == 0) {
		if (!look_ends(look, PROCESS_LOOK_MS)) {
			ret->pid = atomic_load(&look->pid);
			*place = TAKE_PTR(look);
		} else {
			*ret = look->found;
		}
	}
	if (look)
		look_free(look);
	if (ret->is_unfinished && read_stat(ret->pid, &line))
		take_name(&line, ret);
}

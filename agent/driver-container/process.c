/* SPDX-License-Identifier: Apache-2.0 */
/* Looks for the first process of a container in /proc. */
#include "process.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/mountinfo.h"
#include "base/parse.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FILE_MAX = 64 << 10 };

/* Is it the first process of a PID namespace below that of /proc? "NSpid:\t208\t1" */
static bool is_first(const char *folder)
{
	cleanup_free char *status = NULL;
	char path[PATH_MAX];
	const char *line;

	if (str_format(path, sizeof(path), "%s/status", folder) < 0 ||
	    file_read(path, FILE_MAX, &status, NULL) < 0)
		return false;
	line = strstr(status, "\nNSpid:\t");
	line = line ? strpbrk(line + strlen("\nNSpid:\t"), "\t\n") : NULL;
	while (line && line[0] == '\t' && !str_starts_with(line, "\t1\n"))
		line = strpbrk(line + 1, "\t\n");
	return line && line[0] == '\t';
}

static int visit(const struct mount_entry *entry, void *id)
{
	return strstr(entry->root, id) ? 1 : 0;
}

/* Does the cgroup or a mount of a thread have the id? False: also if it has ended, with @ret_is_there false.
 */
static bool thread_has_id(const char *folder, const char *id, bool *ret_is_there)
{
	cleanup_free struct mountinfo *mountinfo = malloc(sizeof(*mountinfo));
	cleanup_free char *cgroup = NULL;
	cleanup_close int fd = -EBADF;
	char path[PATH_MAX];

	if (mountinfo && str_format(path, sizeof(path), "%s/mountinfo", folder) >= 0)
		fd = open(path, O_RDONLY | O_CLOEXEC);
	*ret_is_there = fd >= 0;
	if (fd < 0)
		return false;
	if (str_format(path, sizeof(path), "%s/cgroup", folder) >= 0 &&
	    file_read(path, FILE_MAX, &cgroup, NULL) == 0 && strstr(cgroup, id))
		return true;
	mountinfo->fd = fd;
	return mountinfo_each(mountinfo, visit, (void *)(uintptr_t)id) == 1;
}

/* The first thread may end before the others: then another one shows the mounts. */
bool process_is_of(const char *proc, int64_t pid, const char *id)
{
	cleanup_closedir DIR *threads = NULL;
	char folder[PATH_MAX], path[PATH_MAX];
	const struct dirent *entry;
	bool is_there = false;
	bool has_id = false;

	if (str_format(folder, sizeof(folder), "%s/%lld", proc, (long long)pid) < 0 || !is_first(folder) ||
	    str_format(path, sizeof(path), "%s/task", folder) < 0)
		return false;
	threads = opendir(path);
	while (threads && !is_there && (entry = readdir(threads)))
		if (entry->d_name[0] != '.' &&
		    str_format(path, sizeof(path), "%s/task/%s", folder, entry->d_name) >= 0)
			has_id = thread_has_id(path, id, &is_there);
	return has_id;
}

enum status process_find(const char *proc, const char *id, int64_t *ret_pid, struct error *err)
{
	cleanup_closedir DIR *processes = opendir(proc);
	const struct dirent *entry;
	uint32_t pid;

	if (!processes)
		return error_set(err, status_from_errno(errno), errno, "cannot list the processes in %s",
				 proc);
	*ret_pid = 0;
	while (*ret_pid == 0 && (entry = readdir(processes)))
		if (parse_u32(entry->d_name, 1, INT32_MAX, &pid) == 0 && process_is_of(proc, pid, id))
			*ret_pid = pid;
	return STATUS_OK;
}

int process_open(int64_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);

	return fd < 0 ? -errno : fd;
}

bool process_has_ended(int fd)
{
	struct pollfd end = {.fd = fd, .events = POLLIN};

	return poll(&end, 1, 0) == 1;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Looks for the first process of a container in /proc. */
#include "process.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/folder.h"
#include "base/mountinfo.h"
#include "base/parse.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	STATUS_MAX = 1 << 20, /* with all groups that a process may have: 720 KB */
	CGROUP_MAX = 64 << 10,
	MAP_MAX = 64 << 10,
	ID_LEN = 64,
};

/* Reads a file of a process or thread. Returns 0, or a negative errno; -ESRCH: it has ended. */
static int read_of(const char *folder, const char *name, size_t max, char **ret)
{
	char path[PATH_MAX];
	int r = str_format(path, sizeof(path), "%s/%s", folder, name);

	if (r >= 0)
		r = file_read(path, max, ret, NULL);
	return r == -ENOENT ? -ESRCH : r;
}

/* Is it the first process of a PID namespace below that of /proc? "NSpid:\t208\t1". Returns 1, 0, or as
 * read_of(). */
static int is_first(const char *folder)
{
	cleanup_free char *status = NULL;
	const char *line;
	int r = read_of(folder, "status", STATUS_MAX, &status);

	if (r < 0)
		return r;
	line = strstr(status, "\nNSpid:\t");
	line = line ? strpbrk(line + strlen("\nNSpid:\t"), "\t\n") : NULL;
	while (line && line[0] == '\t' && !str_starts_with(line, "\t1\n"))
		line = strpbrk(line + 1, "\t\n");
	return line && line[0] == '\t';
}

/* Returns 0, or a negative errno; -ESRCH: the thread has ended. A first thread that has ended keeps its
 * folder. */
static int check_runs(const char *folder)
{
	cleanup_free char *status = NULL;
	int r = read_of(folder, "status", STATUS_MAX, &status);

	return r == 0 && strstr(status, "\nState:\tZ") ? -ESRCH : r;
}

static int visit(const struct mount_entry *entry, void *id)
{
	return strstr(entry->root, id) ? 1 : 0;
}

/* Returns 1, 0, or as read_of(); -EINVAL: the thread is ending and shows no mounts. */
static int has_mount_of(const char *folder, const char *id)
{
	cleanup_free struct mountinfo *mountinfo = malloc(sizeof(*mountinfo));
	cleanup_close int fd = -EBADF;
	char path[PATH_MAX];

	if (!mountinfo)
		return -ENOMEM;
	if (str_format(path, sizeof(path), "%s/mountinfo", folder) < 0)
		return -ENAMETOOLONG;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	mountinfo->fd = fd;
	return mountinfo_each(mountinfo, visit, (void *)(uintptr_t)id);
}

/* Does the cgroup name any container? */
static bool names_container(const char *cgroup)
{
	size_t n = 0;

	for (const char *p = cgroup; *p && n != ID_LEN; p += n + (n == 0)) /* each run of digits */
		n = strspn(p, "0123456789abcdef");
	return n == ID_LEN;
}

/* A user without privileges makes cgroups below user.slice only: an id further down is a name of its own. */
static bool has_cgroup_of(const char *cgroup, const char *id)
{
	const char *named = strstr(cgroup, id);
	const char *user = strstr(cgroup, "/user.slice/");

	return named && (!user || named < user);
}

/* Is the thread in the user namespace of the host's first process? A user without privileges is the first
 * process of a PID namespace, and makes mounts, in another one only. Returns 1, 0, or a negative errno. */
static int is_of_host(const char *proc, const char *folder)
{
	cleanup_free char *host = NULL;
	cleanup_free char *own = NULL;
	int r = read_of(proc, "1/uid_map", MAP_MAX, &host);

	if (r == 0)
		r = read_of(folder, "uid_map", MAP_MAX, &own);
	if (r == -ESRCH) /* it has ended, or the kernel has no user namespaces */
		return 1;
	return r < 0 ? r : str_eq(host, own);
}

/* Does the cgroup or a mount of a thread have the id? Returns 1, 0, or as read_of(). The first process of a
 * container shows no mounts while it waits for the end of the others, only its cgroup. */
static int thread_has_id(const char *proc, const char *folder, const char *id)
{
	cleanup_free char *cgroup = NULL;
	int r = check_runs(folder);
	int read_cgroup;

	if (r < 0)
		return r;
	read_cgroup = read_of(folder, "cgroup", CGROUP_MAX, &cgroup);
	if (read_cgroup == 0 && has_cgroup_of(cgroup, id))
		return 1;
	r = is_of_host(proc, folder);
	if (r <= 0 || read_cgroup < 0)
		return r <= 0 ? r : read_cgroup;
	r = has_mount_of(folder, id);
	return r == -EINVAL && names_container(cgroup) ? 0 : r;
}

/* Is it the container's first process? Returns 1, 0, or a negative errno: unknown. The first thread may end
 * before the others: then another one shows the mounts. */
static int match(const char *proc, int64_t pid, const char *id)
{
	cleanup_closedir DIR *threads = NULL;
	char folder[PATH_MAX], path[PATH_MAX];
	const struct dirent *entry;
	int r;

	if (str_format(folder, sizeof(folder), "%s/%lld", proc, (long long)pid) < 0 ||
	    str_format(path, sizeof(path), "%s/task", folder) < 0)
		return -ENAMETOOLONG;
	r = is_first(folder);
	if (r <= 0)
		return r == -ESRCH ? 0 : r;
	threads = opendir(path);
	if (!threads)
		return errno == ENOENT ? 0 : -errno;
	while ((r = folder_next(threads, &entry)) > 0)
		if (str_format(path, sizeof(path), "%s/task/%s", folder, entry->d_name) >= 0) {
			r = thread_has_id(proc, path, id);
			if (r != -ESRCH)
				return r;
		}
	return r; /* 0: all of them have ended */
}

bool process_is_of(const char *proc, int64_t pid, const char *id)
{
	return match(proc, pid, id) == 1;
}

/* The process is looked at last: before, the number may have been another one's. */
bool process_user(const char *proc, int64_t pid, const char *id, uint32_t *ret_uid, uint32_t *ret_gid)
{
	cleanup_free char *status = NULL;
	const char *uid, *gid;
	char folder[PATH_MAX];

	if (str_format(folder, sizeof(folder), "%s/%lld", proc, (long long)pid) < 0 ||
	    read_of(folder, "status", STATUS_MAX, &status) < 0 || !process_is_of(proc, pid, id))
		return false;
	uid = strstr(status, "\nUid:\t");
	gid = strstr(status, "\nGid:\t");
	if (!uid || !gid)
		return false;
	*ret_uid = (uint32_t)strtoul(uid + strlen("\nUid:\t"), NULL, 10);
	*ret_gid = (uint32_t)strtoul(gid + strlen("\nGid:\t"), NULL, 10);
	return true;
}

enum status process_find(const char *proc, const char *id, int64_t *ret_pid, struct error *err)
{
	cleanup_closedir DIR *processes = opendir(proc);
	const struct dirent *entry;
	bool sees_manager = false; /* it never ends: a folder without it hides processes of other accounts */
	uint32_t pid, unknown = 0;
	int r = processes ? 0 : -errno;
	int found, error = 0;

	while (processes && (r = folder_next(processes, &entry)) > 0) {
		if (parse_u32(entry->d_name, 1, INT32_MAX, &pid) < 0)
			continue;
		sees_manager |= pid == 1;
		found = match(proc, pid, id);
		if (found == 1) {
			*ret_pid = pid;
			return STATUS_OK;
		}
		unknown = found < 0 ? pid : unknown;
		error = found < 0 ? found : error;
	}
	if (r < 0)
		return error_set(err, STATUS_UNAVAILABLE, r, "cannot list the processes in %s", proc);
	if (error < 0)
		return error_set(err, STATUS_UNAVAILABLE, error,
				 "cannot decide whether process %" PRIu32 " is one of container %.12s",
				 unknown, id);
	if (!sees_manager)
		return error_set(
			err, STATUS_UNAVAILABLE, 0,
			"%s hides processes from the driver: remove hidepid= from %s, or ProtectProc= from "
			"its unit, and restart it",
			proc, proc);
	*ret_pid = 0;
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

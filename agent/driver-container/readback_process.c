/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the kernel's view of a container's first process, for readback.c to compare. */
#include "readback_process.h"

#include "process.h"

#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	STATUS_MAX = 1 << 20,
	CGROUP_MAX = 64 << 10,
	DEVICES_MAX = 64 << 10,
	MOUNTS_MAX = 16 << 20,
	PROC_PATH_SIZE = 64
};

#define CGROUP_ROOT "/sys/fs/cgroup"

static void proc_path(char ret[static PROC_PATH_SIZE], int64_t pid, const char *name)
{
	(void)snprintf(ret, PROC_PATH_SIZE, "/proc/%lld/%s", (long long)pid, name);
}

/* /proc/PID/ns is for who may trace the process; this file is another one in each network namespace. */
static uint64_t network_of(int64_t pid)
{
	char path[PROC_PATH_SIZE];
	struct stat st;

	proc_path(path, pid, "net/dev");
	return pid > 0 && stat(path, &st) == 0 ? (uint64_t)st.st_ino : 0;
}

/* A process in a user namespace of its own may show a mount table that it made. It never comes back from
 * there: to look after its mounts were read is enough. A task with CAP_SETUID, CAP_SETGID and CAP_SETFCAP can
 * give that namespace the maps of the host. */
static bool is_of_host_users(int64_t pid)
{
	static const char *const names[] = {"uid_map", "gid_map"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		cleanup_free char *own = NULL;
		cleanup_free char *map = NULL;
		char path[PROC_PATH_SIZE], own_path[PROC_PATH_SIZE];

		proc_path(path, pid, names[i]);
		(void)snprintf(own_path, sizeof(own_path), "/proc/self/%s", names[i]);
		if (file_read(path, CGROUP_MAX, &map, NULL) < 0 ||
		    file_read(own_path, CGROUP_MAX, &own, NULL) < 0 || strcmp(map, own) != 0)
			return false;
	}
	return true;
}

/* Compares the process with the request. An ending one loses mounts and capabilities before its entry. The
 * end of the container is recognized by its id later, so the process must show it now. */
static enum readback_verdict compare(struct readback *readback, const struct readback_process *process,
				     struct readback_fault *ret)
{
	struct readback_networks networks = {.task = network_of(process->pid),
					     .host = network_of(1),
					     .holder = network_of(process->holder_pid)};
	cleanup_free char *devices = NULL;
	cleanup_free char *status = NULL;
	cleanup_free char *cgroup = NULL;
	cleanup_free char *mounts = NULL;
	char path[PROC_PATH_SIZE];
	int r;

	proc_path(path, process->pid, "status");
	r = file_read(path, STATUS_MAX, &status, NULL);
	proc_path(path, process->pid, "cgroup");
	r = r < 0 ? r : file_read(path, CGROUP_MAX, &cgroup, NULL);
	proc_path(path, process->pid, "net/dev");
	(void)file_read(path, DEVICES_MAX, &devices, NULL);
	networks.devices = devices;
	proc_path(path, process->pid, "mountinfo");
	r = r < 0 ? r : file_read(path, MOUNTS_MAX, &mounts, NULL);
	if (r < 0 && r != -ENOENT && r != -ESRCH && r != -EINVAL) { /* as of one that has ended */
		*ret = (struct readback_fault){
			.field = "process", .ordered = "readable", .found = "not readable whole"};
		return READBACK_DIFFERS;
	}
	if (r < 0 || strstr(status, "\nState:\tZ") || mounts[0] == '\0')
		return READBACK_ENDED;
	if (!is_of_host_users(process->pid)) {
		*ret = (struct readback_fault){
			.field = "user_namespace", .ordered = "the host's", .found = "another one"};
		return READBACK_DIFFERS;
	}
	if (!readback_mounts(readback, path, process->mountinfo_path, ret) ||
	    !readback_rights(readback, status, &process->users, ret) ||
	    !readback_kernel(readback, path, "", ret) || !readback_network(readback, &networks, ret) ||
	    !readback_limits(readback, CGROUP_ROOT, cgroup, ret))
		return READBACK_DIFFERS;
	if (process_is_of(PROC, process->pid, process->id))
		return READBACK_SAME;
	*ret = (struct readback_fault){
		.field = "process", .ordered = "the container's first", .found = "another one"};
	return READBACK_DIFFERS;
}

/* Compares twice if needed: a difference in a process that has ended meanwhile proves nothing. */
enum readback_verdict readback_process(struct readback *readback, const struct readback_process *process,
				       struct readback_fault *ret)
{
	struct readback_fault again;
	enum readback_verdict verdict = compare(readback, process, ret);

	return verdict == READBACK_DIFFERS ? compare(readback, process, &again) : verdict;
}

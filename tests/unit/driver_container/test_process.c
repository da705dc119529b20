/* SPDX-License-Identifier: Apache-2.0 */
/* The first process of a container, found in a folder like /proc. */
#include "folder.h"
#include "process.h"
#include "unit.h"

#include "base/cleanup.h"
#include "base/strbuf.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define ID "2a0c6a3b38e687619b101611df10b0ea2ab3d0646a9f8f13bc328bf4c371d5c8"
#define OTHER "faf606f36587dde7a8ead1999b0a3eec89034f47ac1350574838ffcaf5a7c116"

#define MOUNT(id) "217 210 0:58 /vfs-containers/" id "/userdata/hostname /etc/hostname rw - tmpfs tmpfs rw\n"
/* The host sees this of each container. */
#define MOUNT_OF_HOST "134 110 0:65 / /vfs-containers/" ID "/userdata/shm rw - tmpfs shm rw\n"

#define HOST_MAP "         0          0 4294967295\n"
#define USER_MAP "         0       1000          1\n"
/* What a user who may make cgroups of its own has above them. */
#define USER_GROUP "/user.slice/user-1000.slice/user@1000.service/"

struct fixture {
	char proc[FOLDER_SIZE];
};

UNIT_TEARDOWN(end, struct fixture, f)
{
	folder_remove(f->proc);
}

static void put(const struct fixture *f, const char *folder, const char *name, const char *text)
{
	char path[256];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/%s", f->proc, folder);
	for (char *slash = strchr(path + strlen(f->proc) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		(void)mkdir(path, 0700);
		*slash = '/';
	}
	(void)mkdir(path, 0700);
	(void)snprintf(path, sizeof(path), "%s/%s/%s", f->proc, folder, name);
	file = NON_NULL(fopen(path, "w"));
	(void)fputs(text, file);
	(void)fclose(file);
}

UNIT_SETUP(begin, struct fixture, f)
{
	folder_make(f->proc);
	put(f, "1", "uid_map", HOST_MAP);
}

static void add(const struct fixture *f, const char *pid, const char *ids, const char *cgroup,
		const char *mounts)
{
	char folder[64], status[128];

	(void)snprintf(status, sizeof(status), "Name:\tsh\nNSpid:\t%s\nThreads:\t1\n", ids);
	put(f, pid, "status", status);
	(void)snprintf(folder, sizeof(folder), "%s/task/%s", pid, pid);
	put(f, folder, "status", "Name:\tsh\nState:\tS (sleeping)\n");
	put(f, folder, "uid_map", HOST_MAP);
	put(f, folder, "cgroup", cgroup);
	put(f, folder, "mountinfo", mounts);
}

static int64_t find(const struct fixture *f)
{
	int64_t pid = -1;
	struct error err;

	assert_succeeds(process_find(f->proc, ID, &pid, &err), err);
	return pid;
}

#define CASE(name) TEST_ON(name, struct fixture, f, begin, end)

CASE(a_process_is_found_by_its_mounts_or_by_its_cgroup)
{
	add(f, "1", "1", "0::/init.scope\n", MOUNT_OF_HOST);
	add(f, "207", "207", "0::/libpod-conmon-" ID ".scope\n", MOUNT_OF_HOST);
	add(f, "208", "208\t1", "0::/\n", MOUNT_OF_HOST MOUNT(OTHER));
	add(f, "209", "209\t7", "0::/docker/" ID "\n", MOUNT(ID)); /* a later process of it */
	assert_int_equal(find(f), 0);
	add(f, "210", "210\t1", "0::/\n", MOUNT(OTHER) MOUNT(ID));
	assert_int_equal(find(f), 210);
	assert_true(process_is_of(f->proc, 210, ID));
	assert_true(process_is_of(f->proc, 208, OTHER));
	assert_false(process_is_of(f->proc, 208, ID));
	add(f, "210", "210\t1", "0::/system.slice/docker-" ID ".scope\n", MOUNT(OTHER));
	assert_int_equal(find(f), 210);
	add(f, "210", "210\t3\t1", "0::/docker/" ID "\n", ""); /* two levels below */
	assert_int_equal(find(f), 210);
}

/* The kernel shows no mounts of the thread that has ended. */
CASE(a_process_is_found_though_its_first_thread_has_ended)
{
	add(f, "208", "208\t1", "0::/\n", MOUNT(ID));
	put(f, "208/task/208", "status", "Name:\tsh\nState:\tZ (zombie)\n");
	assert_int_equal(find(f), 0);
	put(f, "208/task/209", "status", "Name:\tsh\nState:\tS (sleeping)\n");
	put(f, "208/task/209", "uid_map", HOST_MAP);
	put(f, "208/task/209", "cgroup", "0::/\n");
	put(f, "208/task/209", "mountinfo", MOUNT(ID));
	assert_int_equal(find(f), 208);
}

static void expect_unknown(const struct fixture *f)
{
	int64_t pid;
	struct error err;

	assert_int_equal(process_find(f->proc, ID, &pid, &err), STATUS_UNAVAILABLE);
	assert_contains(err.msg, "process 208");
	assert_false(process_is_of(f->proc, 208, ID));
}

/* The status of a process with @n_groups groups with large numbers. */
static void put_groups(const struct fixture *f, size_t n_groups)
{
	cleanup_strbuf struct strbuf text = STRBUF_INIT(2 << 20);

	strbuf_puts(&text, "Name:\tsh\nGroups:\t");
	for (size_t i = 0; i < n_groups; i++)
		strbuf_printf(&text, "%zu ", 4000000000 + i);
	strbuf_puts(&text, "\nNSpid:\t208\t1\n");
	assert_int_equal(text.error, 0);
	put(f, "208", "status", text.data);
}

CASE(a_process_is_found_with_all_groups_that_the_kernel_allows)
{
	add(f, "208", "208\t1", "0::/\n", MOUNT(ID));
	put_groups(f, 65536);
	assert_int_equal(find(f), 208);
}

CASE(a_process_that_cannot_be_read_whole_is_unknown)
{
	add(f, "208", "208\t1", "0::/\n", MOUNT(OTHER) "torn");
	expect_unknown(f);
	add(f, "208", "208\t1", "0::/\n", MOUNT(OTHER));
	assert_int_equal(find(f), 0);
	put_groups(f, 100000);
	expect_unknown(f);
	add(f, "210", "210\t1", "0::/\n", MOUNT(ID)); /* one that is found is known */
	assert_int_equal(find(f), 210);
}

/* It would hold each claim of the container as long as it runs. */
CASE(a_process_of_a_user_does_not_pass_for_that_of_a_container)
{
	add(f, "208", "208\t1", "0::" USER_GROUP ID "\n", MOUNT(ID));
	put(f, "208/task/208", "uid_map", USER_MAP);
	assert_int_equal(find(f), 0);
	put(f, "208/task/208", "mountinfo", "torn"); /* nor is it unknown */
	assert_int_equal(find(f), 0);
	put(f, "208/task/208", "uid_map", "");
	assert_int_equal(find(f), 0);
	add(f, "208", "208\t1", "0::" USER_GROUP ID "\n", MOUNT(OTHER));
	assert_int_equal(find(f), 0);
}

CASE(a_cgroup_that_cannot_be_read_is_unknown_unless_a_user_made_it)
{
	char cgroup[70000] = "";

	memset(cgroup, 'x', sizeof(cgroup) - 1);
	add(f, "208", "208\t1", cgroup, MOUNT(ID));
	expect_unknown(f);
	put(f, "208/task/208", "uid_map", USER_MAP);
	assert_int_equal(find(f), 0);
}

/* The cgroup of another program in a container may have any name, and an engine may map all users. */
CASE(a_process_is_found_by_its_cgroup_in_any_user_namespace)
{
	add(f, "208", "208\t1", "0::/docker/" ID USER_GROUP "x\n", MOUNT(OTHER));
	put(f, "208/task/208", "uid_map", USER_MAP);
	assert_int_equal(find(f), 208);
}

/* It waits for the end of the container's other processes, and the kernel shows no mounts of it. */
CASE(a_process_that_is_ending_is_known_by_its_cgroup)
{
	char mounts[FOLDER_SIZE + 64], ended[64];
	pid_t pid = fork();
	siginfo_t info;

	if (pid == 0)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	add(f, "208", "208\t1", "0::/\n", "");
	(void)snprintf(mounts, sizeof(mounts), "%s/208/task/208/mountinfo", f->proc);
	(void)snprintf(ended, sizeof(ended), "/proc/%d/mountinfo", pid);
	assert_int_equal(unlink(mounts), 0);
	assert_int_equal(symlink(ended, mounts), 0);
	expect_unknown(f);
	put(f, "208/task/208", "cgroup", "0::/system.slice/docker-" OTHER ".scope\n");
	assert_int_equal(find(f), 0);
	put(f, "208/task/208", "cgroup", "0::/system.slice/docker-" ID ".scope\n");
	assert_int_equal(find(f), 208);
	put(f, "208/task/208", "status", "Name:\tsh\nState:\tZ (zombie)\n");
	assert_int_equal(find(f), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Ids of other programs of the container, and those that a program took for a time, do not count. */
CASE(the_user_of_a_container_is_the_real_one_of_its_first_process)
{
	uint32_t uid = 7, gid = 7;

	add(f, "208", "208\t1", "0::/\n", MOUNT(ID));
	assert_false(process_user(f->proc, 208, ID, &uid, &gid)); /* it shows no ids */
	put(f, "208", "status", "Name:\tsh\nUid:\t1000\t1\t2\t3\nNSpid:\t208\t1\n");
	assert_false(process_user(f->proc, 208, ID, &uid, &gid));
	put(f, "208", "status", "Name:\tsh\nGid:\t1001\t4\t5\t6\nNSpid:\t208\t1\n");
	assert_false(process_user(f->proc, 208, ID, &uid, &gid));
	put(f, "208", "status",
	    "Name:\tUid:\t0\nUid:\t1000\t1\t2\t3\nGid:\t4294967294\t4\t5\t6\nNSpid:\t208\t1\n");
	assert_false(process_user(f->proc, 208, OTHER, &uid, &gid));
	assert_false(process_user(f->proc, 209, ID, &uid, &gid));
	assert_false(process_user(f->proc, 0, ID, &uid, &gid));
	assert_int_equal(uid, 7);
	assert_int_equal(gid, 7);
	assert_true(process_user(f->proc, 208, ID, &uid, &gid));
	assert_int_equal(uid, 1000);
	assert_int_equal(gid, 4294967294);
	put(f, "208", "status", "Name:\tsh\nUid:\t1000\t1\t2\t3\nGid:\t1001\t4\t5\t6\nNSpid:\t208\t2\n");
	assert_false(process_user(f->proc, 208, ID, &uid, &gid));
}

CASE(a_folder_without_processes_is_no_evidence)
{
	int64_t pid;
	struct error err;

	assert_int_equal(process_find("/proc/self/nothing", ID, &pid, &err), STATUS_UNAVAILABLE);
}

/* As with hidepid=invisible. */
CASE(a_folder_that_hides_processes_is_no_evidence)
{
	char first[FOLDER_SIZE + 2], hidden[FOLDER_SIZE + 7];
	int64_t pid;
	struct error err;

	(void)snprintf(first, sizeof(first), "%s/1", f->proc);
	(void)snprintf(hidden, sizeof(hidden), "%s/hidden", f->proc);
	add(f, "208", "208\t1", "0::/docker/" OTHER "\n", MOUNT(OTHER));
	assert_int_equal(find(f), 0);
	assert_int_equal(rename(first, hidden), 0);
	assert_int_equal(process_find(f->proc, ID, &pid, &err), STATUS_UNAVAILABLE);
	assert_contains(err.msg, "hides processes");
	assert_int_equal(process_find(f->proc, OTHER, &pid, &err), STATUS_OK);
	assert_int_equal(pid, 208);
}

CASE(a_process_has_ended_when_the_kernel_reports_it)
{
	pid_t pid = fork();
	int fd;

	while (pid == 0)
		(void)pause();
	fd = process_open(pid);
	assert_true(fd >= 0);
	assert_false(process_has_ended(fd));
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_true(process_has_ended(fd));
	assert_int_equal(process_open(pid), -ESRCH);
	(void)close(fd);
}

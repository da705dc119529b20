/* SPDX-License-Identifier: Apache-2.0 */
#include "harness.h"

#include "agent.h"
#include "policy_parse.h"

#include "base/fd.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

enum { LOOP_MAJOR = 7, IMAGE_SIZE = 16 << 20, ATTEMPTS = 100 };

static int loop_fd = -1;
static int folder_fd = -1;
static unsigned int loop_minor;

#define MUST(expression)                                                                             \
	do {                                                                                         \
		if ((expression) < 0)                                                                \
			fail_msg("%s:%d: %s: %s", __FILE__, __LINE__, #expression, strerror(errno)); \
	} while (0)

int run_program(const char *const argv[])
{
	pid_t pid = fork();
	int status = -1;

	if (pid == 0) {
		(void)execv(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	MUST(waitpid(pid, &status, 0));
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void make_directory(const char *path, uid_t uid, mode_t mode)
{
	MUST(mkdir(path, 0700));
	MUST(chown(path, uid, uid));
	MUST(chmod(path, mode));
}

/* A loop device that goes away with its last user. Others on this machine take loop devices at the same time.
 */
static void take_loop(const char *image)
{
	struct loop_config config = {.info = {.lo_flags = LO_FLAGS_AUTOCLEAR}};
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	int fd = open(image, O_RDWR | O_CLOEXEC);

	MUST(control);
	MUST(fd);
	config.fd = (uint32_t)fd;
	for (int i = 0; i < ATTEMPTS && loop_fd < 0; i++) {
		int n = ioctl(control, LOOP_CTL_GET_FREE);
		char path[32];

		MUST(n);
		(void)str_format(path, sizeof(path), "/dev/loop%d", n);
		loop_minor = (unsigned int)n;
		loop_fd = open(path, O_RDWR | O_CLOEXEC);
		MUST(loop_fd);
		if (flock(loop_fd, LOCK_EX | LOCK_NB) == 0 && ioctl(loop_fd, LOOP_CONFIGURE, &config) == 0)
			break;
		(void)close(loop_fd);
		loop_fd = -1;
	}
	assert_true(loop_fd >= 0);
	(void)close(control);
	(void)close(fd);
}

static void make_disk(void)
{
	static const char image[] = TEST_PREFIX "/disk.img";
	static const char *const mkfs[] = {"/sbin/mkfs.ext4",	     "-q",  "-F", "-E",
					   "root_owner=64104:64104", image, NULL};
	int fd = open(image, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	MUST(fd);
	MUST(ftruncate(fd, IMAGE_SIZE));
	(void)close(fd);
	assert_int_equal(run_program(mkfs), 0);
	take_loop(image);
}

/* A /dev of our own, so that links are seen by nobody else and go with the namespace. */
static void make_dev(void)
{
	char loop[32];
	char link[32];

	MUST(mount("dev", "/dev", "tmpfs", MS_NOSUID, "mode=0755"));
	MUST(mknod("/dev/null", S_IFCHR | 0666, makedev(1, 3)));
	MUST(chmod("/dev/null", 0666));
	/* what libc puts on closed standard descriptors of a setuid program */
	MUST(mknod("/dev/full", S_IFCHR | 0666, makedev(1, 7)));
	(void)str_format(loop, sizeof(loop), "/dev/loop%u", loop_minor);
	MUST(mknod(loop, S_IFBLK | 0660, makedev(LOOP_MAJOR, loop_minor)));
	MUST(mkdir("/dev/disk", 0755));
	MUST(mkdir("/dev/disk/by-id", 0755));
	(void)str_format(link, sizeof(link), "../../loop%u", loop_minor);
	MUST(symlink(link, "/dev/disk/by-id/" BY_ID));
}

static void install_program(void)
{
	static const char program[] = TEST_PROGRAM;
	static const char target[] = TEST_PREFIX "/helper";
	static const char *const install[] = {"/usr/bin/install", "-m", "4755", program, target, NULL};

	assert_int_equal(run_program(install), 0);
}

/* Programs run side by side, each with its own mounts on the same folder. To remove the folder would detach
 * the mounts of every program, so a shared lock keeps it until the last one ends. Returns false if another
 * program removed the folder meanwhile. */
static bool take_folder(void)
{
	struct stat opened;
	struct stat named;

	if (mkdir(TEST_PREFIX, 0755) < 0)
		assert_int_equal(errno, EEXIST);
	folder_fd = open(TEST_PREFIX, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder_fd >= 0 && flock(folder_fd, LOCK_SH) == 0 && fstat(folder_fd, &opened) == 0 &&
	    stat(TEST_PREFIX, &named) == 0 && opened.st_ino == named.st_ino)
		return true;
	if (folder_fd >= 0)
		(void)close(folder_fd);
	return false;
}

static void release_folder(void)
{
	if (folder_fd >= 0 && flock(folder_fd, LOCK_EX | LOCK_NB) == 0)
		(void)rmdir(TEST_PREFIX);
	if (folder_fd >= 0)
		(void)close(folder_fd);
	folder_fd = -1;
}

int world_up(void **state)
{
	int fd;

	assert_int_equal(geteuid(), 0);
	assert_int_equal(getpid(), 1); /* started by unshare --pid, see CMakeLists.txt */
	(void)umask(022);
	while (!take_folder())
		;
	MUST(mount("holdfast-test", TEST_PREFIX, "tmpfs", 0, "mode=0755"));
	MUST(mount("run", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755"));
	make_directory(TEST_PREFIX "/etc", 0, 0755);
	make_directory(TEST_PREFIX "/log", 0, 0755);
	make_directory(TEST_PREFIX "/lock", 0, 0755);
	make_directory(TEST_PREFIX "/trees", 0, 0755);
	MUST(mount("trees", TEST_PREFIX "/trees", "tmpfs", 0, "mode=0755"));
	MUST(mount(NULL, TEST_PREFIX "/trees", NULL, MS_SHARED, NULL));
	make_directory(STAGE_BASE, HELPER_UID, 0700);
	make_directory(PUBLISH_BASE, HELPER_UID, 0711);
	fd = open(LOG_PATH, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	MUST(fd);
	(void)close(fd);
	install_program();
	make_disk();
	make_dev();
	world_policy("required", "");
	return 0;
}

int world_down(void **state)
{
	if (loop_fd >= 0)
		(void)close(loop_fd);
	(void)umount2(TEST_PREFIX "/trees", MNT_DETACH);
	(void)umount2(TEST_PREFIX, MNT_DETACH);
	release_folder();
	return 0;
}

void world_policy_text(const char *text)
{
	static struct policy_file file;
	struct error err = {.msg = ""};
	unsigned int line;

	if (policy_compile("text", text, strlen(text), &file, &line, &err) != STATUS_OK)
		fail_msg("%s", err.msg);
	MUST(file_write_atomic(POLICY_PATH, 0644, &file, sizeof(file)));
}

void world_policy(const char *ticket, const char *extra)
{
	char text[4096];

	assert_true(str_format(text, sizeof(text),
			       "agent %d {\n"
			       "\tcluster = demo\n\tnode = node-1\n"
			       "\thelper_uid = %d\n\thelper_gid = %d\n"
			       "\tstage_base = " STAGE_BASE "\n\tpublish_base = " PUBLISH_BASE "\n"
			       "\tlog = " LOG_PATH "\n\tlock_dir = " TEST_PREFIX "/lock\n"
			       "\tcontainer = yes\n\tticket = %s\n\tticket_key = %s\n\tops_per_second = "
			       "8000; burst = 10000\n"
			       "\tmax_tmpfs_total = 64MiB\n%s\n%s\n%s\n"
			       "\tprofile disk { class = block; fstype = ext4; trust = trusted; exec = yes\n"
			       "\t\tby_id = holdfast-test- }\n"
			       "\tprofile mem { class = tmpfs; fstype = tmpfs; max_size = 16MiB }\n"
			       "}\n",
			       AGENT_UID, HELPER_UID, HELPER_UID, ticket, ticket_key_hex(),
			       strstr(extra, "starts_per_minute") ? "" : "starts_per_minute = 6000",
			       strstr(extra, "audit =") ? "" : "audit = optional", /* it may be off here */
			       extra) > 0);
	world_policy_text(text);
}

unsigned int world_major(void)
{
	return LOOP_MAJOR;
}

unsigned int world_minor(void)
{
	return loop_minor;
}

char *world_log(void)
{
	char *text;

	assert_int_equal(file_read(LOG_PATH, 64 << 20, &text, NULL), 0);
	return text;
}

void assert_last_record(const char *text)
{
	char *log = world_log();
	size_t n = strlen(log);
	char *line;

	assert_true(n > 1 && log[n - 1] == '\n');
	log[n - 1] = '\0';
	line = strrchr(log, '\n');
	line = line ? line + 1 : log;
	if (!strstr(line, text))
		fail_msg("\"%s\" is not in: %s", text, line);
	free(log);
}

void status_value(pid_t pid, const char *key, char ret[static 256])
{
	char path[64];
	char pattern[64];
	char *text;
	char *at;
	size_t n;

	(void)str_format(path, sizeof(path), "/proc/%d/status", (int)pid);
	assert_int_equal(file_read(path, 1 << 16, &text, NULL), 0);
	(void)str_format(pattern, sizeof(pattern), "\n%s:", key);
	at = strstr(text, pattern);
	assert_non_null(at);
	at += strlen(pattern);
	at += strspn(at, "\t ");
	at[strcspn(at, "\n")] = '\0';
	n = strlen(at);
	while (n > 0 && at[n - 1] == ' ')
		at[--n] = '\0';
	assert_int_equal(str_copy(ret, 256, at), 0);
	free(text);
}

void assert_status(pid_t pid, const char *key, const char *value)
{
	char found[256];

	status_value(pid, key, found);
	if (!str_eq(found, value))
		fail_msg("%s is \"%s\", must be \"%s\"", key, found, value);
}

struct looking {
	const char *point;
	char line[4096]; /* copy of the strings found */
	struct mount_entry found;
	int below;
};

static const char *keep(struct looking *l, size_t *used, const char *s)
{
	char *at = l->line + *used;

	assert_int_equal(str_copy(at, sizeof(l->line) - *used, s), 0);
	*used += strlen(s) + 1;
	return at;
}

static int visit(const struct mount_entry *entry, void *userdata)
{
	struct looking *l = userdata;
	size_t used = 0;

	l->below += str_starts_with(entry->point, TEST_PREFIX "/trees/");
	if (!l->point || !str_eq(entry->point, l->point))
		return 0;
	l->found = *entry;
	l->found.root = keep(l, &used, entry->root);
	l->found.point = keep(l, &used, entry->point);
	l->found.options = keep(l, &used, entry->options);
	l->found.type = keep(l, &used, entry->type);
	l->found.source = keep(l, &used, entry->source);
	l->found.super_options = keep(l, &used, entry->super_options);
	return 1;
}

static struct looking *look(const char *point, bool *ret_found)
{
	static struct looking looking;
	static struct mountinfo table;
	int r;

	table.fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	looking = (struct looking){.point = point};
	r = mountinfo_each(&table, visit, &looking);
	assert_true(r >= 0);
	(void)close(table.fd);
	*ret_found = r == 1;
	return &looking;
}

bool find_mount(const char *point, struct mount_entry *ret)
{
	bool found;
	const struct looking *looking = look(point, &found);

	if (found)
		*ret = looking->found;
	return found;
}

int count_mounts(void)
{
	bool found;

	return look(NULL, &found)->below;
}

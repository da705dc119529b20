#include "view.h"

#include "base/cleanup.h"
#include "base/id.h"
#include "base/str.h"
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Inode numbers of the initial namespaces are part of the kernel's interface. Source: linux/proc_ns.h. */
static const ino_t initial_user_ns = 0xEFFFFFFDU;
static const ino_t initial_pid_ns = 0xEFFFFFFCU;

void view_release(struct view *view)
{
	close_fdp(&view->proc_fd);
	close_fdp(&view->home_ns_fd);
	close_fdp(&view->host_root_fd);
}

static int make_procfs(void)
{
	cleanup_close int fs_fd = sys_fsopen("proc", SYS_FSOPEN_CLOEXEC);
	int r;

	if (fs_fd < 0)
		return TAKE_FD(fs_fd);
	r = sys_fsconfig(fs_fd, SYS_FSCONFIG_CMD_CREATE, NULL, NULL, 0);
	if (r < 0)
		return r;
	return sys_fsmount(fs_fd, SYS_FSMOUNT_CLOEXEC,
			   SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV | SYS_MOUNT_ATTR_NOEXEC);
}

static bool is_namespace(int proc_fd, const char *link, ino_t inode)
{
	struct stat st;

	return fstatat(proc_fd, link, &st, 0) == 0 && st.st_ino == inode;
}

static enum status read_boot_id(struct view *view, struct error *err)
{
	cleanup_close int fd = openat(view->proc_fd, "sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	char text[TICKET_UUID_SIZE] = "";
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n != 37 || text[36] != '\n')
		return error_set(err, STATUS_INTERNAL, n < 0 ? errno : 0, "read the boot id");
	text[36] = '\0';
	if (!id_is_uuid(text))
		return error_set(err, STATUS_INTERNAL, 0, "the boot id is not a UUID");
	memcpy(view->boot_id, text, sizeof(text));
	return STATUS_OK;
}

static enum status enter(int ns_fd, const char *what, struct error *err)
{
	if (setns(ns_fd, CLONE_NEWNS) < 0 || chdir("/") < 0)
		return error_set(err, STATUS_PERMISSION_DENIED, errno,
				 "enter %s mount namespace (does the agent's unit allow CAP_SYS_ADMIN, "
				 "CAP_SYS_CHROOT and CAP_SYS_PTRACE in CapabilityBoundingSet=?)",
				 what);
	return STATUS_OK;
}

static int visit_root(const struct mount_entry *entry, void *userdata)
{
	if (!str_eq(entry->point, "/"))
		return 0;
	*(uint64_t *)userdata = entry->id;
	return 1;
}

/* Id of the mount that the process sees as its root; 0 when it sees none, as in a chroot. */
static uint64_t root_mount(const struct view *view, const char *table_path, struct mountinfo *table)
{
	cleanup_close int fd = openat(view->proc_fd, table_path, O_RDONLY | O_CLOEXEC);
	uint64_t id = 0;

	table->fd = fd;
	if (fd >= 0 && mountinfo_each(table, visit_root, &id) != 1)
		id = 0;
	table->fd = -EBADF;
	return id;
}

/* A mount is part of exactly one namespace, and its id stays its own as long as it lives: who has PID 1's
 * root mount as root is in PID 1's namespace, and in no chroot. Knowing this needs no privilege, so an agent
 * that runs without a mount namespace of its own needs neither CAP_SYS_PTRACE nor CAP_SYS_CHROOT in its unit.
 */
static bool shares_root(const struct view *view, struct mountinfo *table)
{
	uint64_t first = root_mount(view, "1/mountinfo", table);

	return first != 0 && first == root_mount(view, "self/mountinfo", table);
}

static enum status leave_home(struct view *view, struct error *err)
{
	cleanup_close int host_ns_fd = openat(view->proc_fd, "1/ns/mnt", O_RDONLY | O_CLOEXEC);

	if (host_ns_fd < 0)
		return error_set(
			err, STATUS_PERMISSION_DENIED, errno,
			"open the mount namespace of PID 1 (does the agent's unit allow CAP_SYS_PTRACE in "
			"CapabilityBoundingSet=?)");
	view->home_ns_fd = openat(view->proc_fd, "self/ns/mnt", O_RDONLY | O_CLOEXEC);
	if (view->home_ns_fd < 0)
		return error_set(err, STATUS_INTERNAL, errno, "open the caller's mount namespace");
	return enter(host_ns_fd, "PID 1's", err);
}

enum status view_enter_host(struct view *view, struct mountinfo *table, struct error *err)
{
	enum status status;

	view->proc_fd = make_procfs();
	if (view->proc_fd < 0)
		return error_set(err, STATUS_INTERNAL, view->proc_fd,
				 "make an own procfs (does the agent's unit allow CAP_SYS_ADMIN?)");
	view->initial = is_namespace(view->proc_fd, "self/ns/user", initial_user_ns) &&
			is_namespace(view->proc_fd, "self/ns/pid", initial_pid_ns);
	status = read_boot_id(view, err);
	if (status != STATUS_OK)
		return status;
	view->at_home = shares_root(view, table);
	if (!view->at_home)
		status = leave_home(view, err);
	if (status != STATUS_OK)
		return status;
	view->host_root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (view->host_root_fd < 0)
		return error_set(err, STATUS_INTERNAL, errno, "open /");
	return STATUS_OK;
}

enum status view_settle(struct view *view, bool container, struct error *err)
{
	if (container && view->at_home)
		return STATUS_OK;
	if (container)
		return enter(view->home_ns_fd, "the caller's", err);
	if (!view->initial)
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"not in the initial user and pid namespaces: set container = yes in the policy if "
			"this is meant");
	return STATUS_OK;
}

enum status view_open_mountinfo(const struct view *view, int *ret_fd, struct error *err)
{
	int fd = openat(view->proc_fd, "self/mountinfo", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return error_set(err, STATUS_INTERNAL, errno, "open the mount table");
	*ret_fd = fd;
	return STATUS_OK;
}

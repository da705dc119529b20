#include "startup.h"

#include "base/cleanup.h"
#include "base/id.h"
#include "base/str.h"
#include "base/sys.h"

#include <fcntl.h>
#include <sched.h>

/* Inode numbers of the initial namespaces are part of the kernel's interface. Source: linux/proc_ns.h. */
static const ino_t initial_user_ns = 0xEFFFFFFDU;
static const ino_t initial_pid_ns = 0xEFFFFFFCU;

static int make_procfs(void)
{
	cleanup_close int fs_fd = start_sys(sys_fsopen("proc", SYS_FSOPEN_CLOEXEC), START_PROCFS, "");

	start_sys(sys_fsconfig(fs_fd, SYS_FSCONFIG_CMD_CREATE, NULL, NULL, 0), START_PROCFS, "");
	return start_sys(sys_fsmount(fs_fd, SYS_FSMOUNT_CLOEXEC,
				     SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV | SYS_MOUNT_ATTR_NOEXEC),
			 START_PROCFS, "");
}

static int open_proc(int proc_fd, const char *name)
{
	return start_libc(openat(proc_fd, name, O_RDONLY | O_CLOEXEC), START_PROCFS, name);
}

static bool is_namespace(int proc_fd, const char *link, ino_t inode)
{
	struct stat st;

	return fstatat(proc_fd, link, &st, 0) == 0 && st.st_ino == inode;
}

static void read_boot_id(int proc_fd, char ret[static TICKET_UUID_SIZE])
{
	static const char name[] = "sys/kernel/random/boot_id";
	cleanup_close int fd = open_proc(proc_fd, name);
	char text[TICKET_UUID_SIZE] = "";
	ssize_t n = read(fd, text, sizeof(text) - 1);

	start_need(n == 37 && text[36] == '\n', START_PROCFS, 0, name);
	text[36] = '\0';
	start_need(id_is_uuid(text) && str_copy(ret, TICKET_UUID_SIZE, text) == 0, START_PROCFS, 0, name);
}

static void enter(int ns_fd)
{
	start_libc(setns(ns_fd, CLONE_NEWNS), START_NAMESPACE, "setns");
	start_libc(chdir("/"), START_NAMESPACE, "/");
}

static int open_root(void)
{
	return start_libc(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), START_NAMESPACE, "/");
}

/* Id of the mount that a process sees as its root; 0 when it sees none, as in a chroot. */
static uint64_t root_mount(struct mountinfo *table, int proc_fd, const char *name)
{
	struct mount_at root = {.id = 0};

	table->fd = open_proc(proc_fd, name);
	(void)mountinfo_at(table, "/", &root);
	close_fdp(&table->fd);
	return root.id;
}

struct view view_enter_host(struct helper *h)
{
	struct view view = {.proc_fd = make_procfs(), .home_ns_fd = -EBADF};
	uint64_t first = root_mount(&h->mountinfo, view.proc_fd, "1/mountinfo");

	view.is_initial = is_namespace(view.proc_fd, "self/ns/user", initial_user_ns) &&
			  is_namespace(view.proc_fd, "self/ns/pid", initial_pid_ns);
	read_boot_id(view.proc_fd, h->boot_id);
	/* A mount is part of exactly one namespace, and its id stays its own as long as it lives: who has PID
	 * 1's root mount as root is in PID 1's namespace, and in no chroot. Knowing this needs no privilege,
	 * so an agent without a mount namespace of its own needs neither CAP_SYS_PTRACE nor CAP_SYS_CHROOT.
	 */
	view.is_at_home = first != 0 && first == root_mount(&h->mountinfo, view.proc_fd, "self/mountinfo");
	if (!view.is_at_home && h->door == DOOR_SETUID) {
		cleanup_close int host_ns_fd = start_libc(
			openat(view.proc_fd, "1/ns/mnt", O_RDONLY | O_CLOEXEC), START_NAMESPACE, "1/ns/mnt");

		view.home_ns_fd = open_proc(view.proc_fd, "self/ns/mnt");
		enter(host_ns_fd);
	}
	view.root_fd = open_root();
	return view;
}

void view_settle(struct helper *h, const struct view *view)
{
	bool container = h->agent->container;

	if (container && view->home_ns_fd >= 0)
		enter(view->home_ns_fd);
	start_need(container || view->is_at_home || view->home_ns_fd >= 0, START_NAMESPACE, 0, "");
	start_need(container || view->is_initial, START_NOT_INITIAL, 0, "");
	h->root_fd = open_root();
	h->mountinfo.fd = open_proc(view->proc_fd, "self/mountinfo");
	close_fdp(&view->proc_fd);
	close_fdp(&view->home_ns_fd);
	close_fdp(&view->root_fd);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "startup.h"

#include "base/cleanup.h"
#include "privileged/procfs.h"

#include <fcntl.h>
#include <sched.h>

static int open_proc(int proc_fd, const char *name)
{
	return start_libc(openat(proc_fd, name, O_RDONLY | O_CLOEXEC), START_PROCFS, name);
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

/* Returns the id of the mount that a process sees as its root; 0 when that is not a mount, as in a chroot. */
static uint64_t root_mount(struct mountinfo *table, int proc_fd, const char *name)
{
	uint64_t id = 0;

	table->fd = open_proc(proc_fd, name);
	(void)mountinfo_at(table, "/", &id);
	close_fdp(&table->fd);
	return id;
}

/* A mount is part of exactly one namespace, and its id stays its own as long as it lives: who has PID 1's
 * root mount as root is in PID 1's namespace, and in no chroot. Knowing this needs no privilege, so an agent
 * without a mount namespace of its own needs neither CAP_SYS_PTRACE nor CAP_SYS_CHROOT in its unit. */
static bool shares_root(struct mountinfo *table, int proc_fd)
{
	uint64_t first = root_mount(table, proc_fd, "1/mountinfo");

	return first != 0 && first == root_mount(table, proc_fd, "self/mountinfo");
}

struct view view_enter_host(struct helper *h)
{
	struct view view = {.proc_fd = start_sys(procfs_make(), START_PROCFS, ""), .home_ns_fd = -EBADF};

	start_sys(procfs_boot_id(view.proc_fd, h->boot_id), START_PROCFS, "boot_id");
	view.is_at_home = shares_root(&h->mountinfo, view.proc_fd);
	if (!view.is_at_home && h->launch_mode == LAUNCH_SETUID) {
		cleanup_close int host_ns_fd = start_libc(
			openat(view.proc_fd, "1/ns/mnt", O_RDONLY | O_CLOEXEC), START_NAMESPACE, "1/ns/mnt");

		view.home_ns_fd = open_proc(view.proc_fd, "self/ns/mnt");
		enter(host_ns_fd);
	}
	view.root_fd = open_root();
	h->mountinfo.fd = open_proc(view.proc_fd, "self/mountinfo");
	return view;
}

void view_settle(struct helper *h, const struct view *view)
{
	assert(h->agent && view->proc_fd >= 0);

	bool container = h->agent->container;

	if (container && view->home_ns_fd >= 0)
		enter(view->home_ns_fd);
	start_need(container || view->is_at_home || view->home_ns_fd >= 0, START_NAMESPACE, 0, "");
	start_need(container || procfs_is_initial(view->proc_fd), START_NOT_INITIAL, 0, "");
	h->root_fd = open_root();
	close_fdp(&h->mountinfo.fd);
	h->mountinfo.fd = open_proc(view->proc_fd, "self/mountinfo");
	close_fdp(&view->proc_fd);
	close_fdp(&view->home_ns_fd);
}

#pragma once
/* The view of the machine: a procfs that nobody else can touch, PID 1's mount namespace for what belongs to
 * root (policy, log, locks), and the namespace in which the mounts are made. */

#include "helper.h"

#include "base/error.h"

struct view {
	int proc_fd;	  /* own instance of procfs, attached nowhere */
	bool at_home;	  /* the caller's mount namespace is PID 1's */
	int home_ns_fd;	  /* else the caller's */
	int host_root_fd; /* "/" of PID 1's mount namespace */
	bool initial;	  /* initial user and pid namespaces */
	char boot_id[TICKET_UUID_SIZE];
};

#define VIEW_INIT                                                               \
	{                                                                       \
		.proc_fd = -EBADF, .home_ns_fd = -EBADF, .host_root_fd = -EBADF \
	}

void view_release(struct view *view);

/** Make the own procfs and, unless this is there already, enter PID 1's mount namespace.
 * @table scratch space for reading mount tables */
enum status view_enter_host(struct view *view, struct mountinfo *table, struct error *err);

/** With @container go back to the caller's mount namespace; without, make sure that the namespaces are the
 * initial ones and stay. */
enum status view_settle(struct view *view, bool container, struct error *err);

/** Open /proc/self/mountinfo of the namespace settled in. */
enum status view_open_mountinfo(const struct view *view, int *ret_fd, struct error *err);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A small model of what the mount helper asks of the kernel: one directory tree, file systems, mounts,
 * descriptors, the helper's log. It stands behind the sys_* seam (--wrap) and asserts on every call what must
 * hold whatever the helper was asked: floor flags before a mount is visible, O_PATH opens, one-component
 * names, NOFOLLOW. */

#include "helper.h"
#include "unit.h"

#include <setjmp.h>

enum {
	FAKE_ROOT_FD = 1000,
	FAKE_STAGE_FD,
	FAKE_PUBLISH_FD,
	FAKE_DEV_FD,
	FAKE_SYSFS_FD,
	FAKE_SYSFS_BLOCK_FD,
	FAKE_PROCFS_FD,
	FAKE_MOUNTINFO_FD,
	FAKE_STATE_FD,
	FAKE_LOG_FD,
	FAKE_LOG_READ_FD,
	FAKE_AUDIT_FD,
	FAKE_POLICY_ROOT_FD,
	FAKE_DYNAMIC_FD = 1100,
};

/** Forget everything and build the tree of the fixture's policy: empty bases, one device with a by-id link.
 */
void fake_kernel_reset(void);

/** Connect @h to it. */
void fake_kernel_open(struct helper *h);

/* Faults. Calls are counted from 1 since fake_fault(). */
enum fake_fault {
	FAKE_NO_FAULT,
	FAKE_FAIL,	  /* the call does nothing and fails with the errno */
	FAKE_KILL_BEFORE, /* the process dies instead of the call: longjmp to fake_killed */
	FAKE_KILL_AFTER,  /* or right after it */
};
extern jmp_buf fake_killed;
void fake_fault(enum fake_fault fault, int at_call, int sys_errno);
/** The same, counting only the calls sys_@name. */
void fake_fault_in(enum fake_fault fault, const char *name, int at_call);
bool fake_fault_fired(void);
int fake_calls(void); /* since fake_fault() */

/** What the kernel does when a process is gone: descriptors, detached mounts and locks vanish. */
void fake_process_died(void);

/** Dynamic descriptors still open. */
int fake_open_descriptors(void);
bool fake_cwd_is_root(void);

/** Locks held on the state file. */
int fake_locks_held(void);

/** The trees as text: one line per directory below the bases and per attached mount. */
const char *fake_summary(void);

/** The log so far. */
const char *fake_log(void);

/** What the kernel's audit confirmed, one line per record; empty after
 * fake_sinks_reset(). */
const char *fake_audit(void);
void fake_sinks_reset(void);
int fake_audit_confirmed(void);		/* how many it was asked to confirm */
void fake_audit_answers(int sys_errno); /* instead of confirming */
void fake_audit_is_off(void);		/* confirms and forgets */
void fake_audit_is_mute(void);		/* takes records and sends no answer */
void fake_audit_takes_nothing(void);	/* send returns 0, as without the capability */

/** Bytes reserved beyond the log's end. */
uint64_t fake_log_ahead(void);

/** Options given to the last fsopen context: "key=value;" or "key;". */
const char *fake_options(void);

/** Seconds that the alarm is set to, 0 for none. */
unsigned int fake_timer(void);

/** Passes over the mount table since the world began. */
int fake_table_passes(void);

/** How far the clock moves whenever it is looked at; 1 s since the reset, so that no rate interferes. */
void fake_clock_step(uint64_t us);

/* Circumstances. */
void fake_kernel_before_6_8(bool old);	  /* no unique ids, statmount, listmount; outlives a reset */
void fake_no_create_excl(void);		  /* a kernel before 6.6 */
void fake_image_unsupported(void);	  /* the file system's code lacks what the image needs */
void fake_lock_held_elsewhere(bool held); /* F_OFD_SETLK fails */
void fake_places_of_plugins_taken(bool taken);
int64_t fake_place_of_plugin(void); /* taken since the last call; 0: no such one */
void fake_log_full(bool full);
void fake_log_deleted(bool deleted);
/** What the policy's file is from now on, or @r, a negative errno. */
void fake_policy(const struct statx *is, int r);
void fake_mount_device(const char *path);
/* Of the ext4 on the device. */
enum fake_journal { FAKE_JOURNAL_INSIDE, FAKE_JOURNAL_NONE, FAKE_JOURNAL_ELSEWHERE };
void fake_journal_is(enum fake_journal journal);
void fake_stop_writes(bool has_stopped, bool shows_options); /* to every file system, after an error */
void fake_superblock_elsewhere(bool alive);		     /* in a namespace that our table does not show */
void fake_make_directory(const char *path, uint32_t uid, uint16_t mode); /* "/srv/stage/x" */
void fake_mount_other(const char *path);	 /* another file system on top of the directory */
void fake_mount_inside(const char *path);	 /* another one on a directory within what is mounted there */
void fake_set_busy(const char *path, bool busy); /* open files on the mount there */
void fake_mark_expired(const char *path);	 /* MNT_EXPIRE, asked once */
void fake_set_shared(const char *path);
void fake_set_private(const char *path);
void fake_set_slave(const char *path); /* besides */
/** Of the mount there: " shared", " shared peer of PATH", " slave of PATH", "", and so on. */
const char *fake_propagation(const char *path);
void fake_set_link(const char *target);
void fake_set_device(uint32_t dev_major, uint32_t dev_minor, bool is_block);
void fake_mount_again(const char *path);   /* the same file system once more, on top */
void fake_race_mount(const char *path);	   /* fake_mount_other() as soon as the next mount is made */
void fake_race_stack(const char *path);	   /* fake_mount_again() as soon as the next one is attached */
void fake_race_device(uint32_t dev_major); /* the node's device is another one by the time it is opened */
void fake_lose_attributes(uint64_t attr);  /* of mounts as they are attached */
void fake_private_has_no_effect(void);	   /* of attached mounts */
void fake_log_short(bool cut);		   /* half a record fits */
void fake_set_flags(const char *path, uint64_t attr);
void fake_unmount(const char *path); /* by root's hand */
bool fake_is_mount(const char *path);
/* Mount @directory of what is mounted at @of at @path: another mount of the same device. */
void fake_mount_part(const char *path, const char *of, const char *directory);
void fake_mount_foreign(int n);
void fake_make_file(const char *path);
/* Bind the fixture's device at a file, of a /dev of this type. */
void fake_bind_device(const char *path, const char *type);
void fake_remove(const char *path);
uint64_t fake_flags(const char *path);	/* MOUNT_ATTR_* of the mount there */
uint64_t fake_inodes(const char *path); /* of the tmpfs there */

/* SPDX-License-Identifier: Apache-2.0 */
#include "attackers.h"

#include "base/mountinfo.h"
#include "base/sys.h"

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#define RO PUBLISH_BASE "/" RACE_ALLOC_RO "/7"
#define RW PUBLISH_BASE "/" RACE_ALLOC_RW "/7"

enum { PROCESSES = 16, BEHIND = 10 };

static struct witness *witness;

/* What is started. A byte through go lets it act once, a byte through done says that it has. */
static struct process {
	pid_t pid;
	bool is_observer;
	int go[2];
	int done[2];
} processes[PROCESSES];
static int n_processes;
static const struct process *own; /* of a process that acts in turns, else NULL */

static void accuse(const char *what, const char *detail)
{
	bool first = false;

	if (atomic_compare_exchange_strong(&witness->violated, &first, true))
		(void)snprintf(witness->text, sizeof(witness->text), "%s: %s", what, detail);
}

static void begin_turn(void)
{
	char byte;

	if (own && read(own->go[0], &byte, 1) != 1)
		_exit(1);
}

static void end_turn(void)
{
	if (own && write(own->done[1], "", 1) != 1)
		_exit(1);
}

/* Observers */

struct observation {
	const char *who;
	unsigned int outside; /* mounts that are not below the trees */
};

static void need_option(const struct observation *o, const struct mount_entry *entry, const char *option)
{
	char text[WITNESS_TEXT];

	if (mount_option_is_set(entry->options, option))
		return;
	(void)snprintf(text, sizeof(text), "%s has %s, not %s", entry->point, entry->options, option);
	accuse(o->who, text);
}

static int observe_mount(const struct mount_entry *entry, void *userdata)
{
	struct observation *o = userdata;
	bool published = str_starts_with(entry->point, PUBLISH_BASE "/");
	bool staged = str_starts_with(entry->point, STAGE_BASE "/");

	o->outside += !published && !staged;
	if (!published && !staged)
		return 0;
	need_option(o, entry, "nosuid");
	need_option(o, entry, "nodev");
	need_option(o, entry, "noexec");
	if (staged)
		need_option(o, entry, "nosymfollow");
	if (str_starts_with(entry->point, PUBLISH_BASE "/" RACE_ALLOC_RO))
		need_option(o, entry, "ro");
	if (published)
		atomic_fetch_add(&witness->published, 1);
	return 0;
}

static _Noreturn void observe(const char *who)
{
	static struct mountinfo table;
	unsigned int outside = 0;

	table.fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	for (unsigned long pass = 0;; pass++) {
		struct observation o = {.who = who};

		begin_turn();
		if (mountinfo_each(&table, observe_mount, &o) < 0)
			accuse(who, "the mount table cannot be read");
		if (pass > 0 && o.outside != outside)
			accuse(who, "a mount came or went outside of the trees");
		outside = o.outside;
		atomic_fetch_add(&witness->passes, 1);
		end_turn();
	}
}

static _Noreturn void observe_here(void)
{
	observe("observer in the helper's namespace");
}

static _Noreturn void observe_from_elsewhere(void)
{
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
		accuse("observer", "no mount namespace of its own");
	observe("observer in a namespace of its own");
}

/* Attackers */

static const char *const victims[] = {
	RO,
	RW,
	PUBLISH_BASE "/" RACE_ALLOC_RO,
	PUBLISH_BASE "/" RACE_ALLOC_RW,
	STAGE_BASE "/race-0",
	STAGE_BASE "/race-1",
	PUBLISH_BASE,
	STAGE_BASE,
	TEST_PREFIX "/trees",
	TEST_PREFIX "/log",
	LOG_PATH,
	TEST_PREFIX "/lock",
	TEST_PREFIX "/lock/state",
	TEST_PREFIX "/etc",
	POLICY_PATH,
	TEST_PREFIX "/helper",
	TEST_PREFIX "/disk.img",
	TEST_PREFIX,
	"/dev/disk/by-id",
	("/dev/disk/by-id/" BY_ID),
	"/dev/disk",
	"/dev",
};

/* Counts, and returns the result. */
static int tried(int r)
{
	atomic_fetch_add(&witness->attempts, 1);
	if (r >= 0)
		atomic_fetch_add(&witness->own_successes, 1);
	return r;
}

static void attack_names(const char *victim)
{
	char aside[256];

	(void)snprintf(aside, sizeof(aside), "%s.aside", victim);
	(void)tried(rename(victim, aside));
	(void)tried(rename("/tmp", victim));
	(void)tried(rmdir(victim));
	(void)tried(unlink(victim));
	(void)tried(symlink("/etc", victim));
	(void)tried(symlink("/etc", aside));
	(void)tried(mkdir(victim, 0777));
	(void)tried(link("/etc/hostname", aside));
	(void)tried(chmod(victim, 07777));
	(void)tried(chown(victim, AGENT_UID, AGENT_UID));
	(void)tried(truncate(victim, 0));
	(void)tried(mknod(aside, S_IFREG | 0666, 0));
	(void)tried(renameat2(AT_FDCWD, RO, AT_FDCWD, RW, 2 /* RENAME_EXCHANGE */));
}

/* A publish that is read-only can never be written to, by whatever name or namespace. */
static void attack_volume(void)
{
	int fd = tried(open(RO "/file", O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 04777));

	if (fd >= 0) {
		accuse("attacker", "a file could be made below a read-only publish");
		(void)close(fd);
	}
	if (tried(mkdir(RO "/folder", 0777)) == 0 || tried(symlink("/", RO "/link")) == 0)
		accuse("attacker", "a name could be made below a read-only publish");
	fd = tried(open(RW "/file", O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 04777));
	if (fd >= 0)
		(void)close(fd);
	(void)tried(mkdir(RW "/folder", 0777));
	(void)tried(symlink("../../../stage", RW "/link"));
	(void)tried(rename(RW "/folder", RW "/link"));
	(void)tried(mknod(RW "/node", S_IFBLK | 0666, makedev(7, 0)));
}

static void clear_flags(const char *path)
{
	const struct sys_mount_attr clear = {.attr_clr = SYS_MOUNT_ATTR_RDONLY | SYS_MOUNT_ATTR_NOSUID |
							 SYS_MOUNT_ATTR_NODEV | SYS_MOUNT_ATTR_NOEXEC};
	const struct sys_mount_attr shared = {.propagation = MS_SHARED};

	(void)tried(sys_mount_setattr(AT_FDCWD, path, 0, &clear));
	(void)tried(sys_mount_setattr(AT_FDCWD, path, 0, &shared));
	(void)tried(mount(NULL, path, NULL, MS_REMOUNT | MS_BIND, NULL));
	(void)tried(mount(NULL, path, NULL, MS_REMOUNT, NULL));
}

static void copy_away(const char *path)
{
	const struct sys_mount_attr clear = {.attr_clr = SYS_MOUNT_ATTR_RDONLY | SYS_MOUNT_ATTR_NOSUID |
							 SYS_MOUNT_ATTR_NODEV};
	int fd = tried(sys_open_tree(AT_FDCWD, path, SYS_OPEN_TREE_CLONE | O_CLOEXEC));

	if (fd < 0)
		return;
	(void)tried(sys_mount_setattr(fd, "", AT_EMPTY_PATH, &clear));
	(void)tried(sys_move_mount(fd, "", AT_FDCWD, RW, SYS_MOVE_MOUNT_F_EMPTY_PATH));
	(void)close(fd);
}

static void attack_mounts(const char *victim)
{
	(void)tried(mount("/etc", victim, NULL, MS_BIND, NULL));
	(void)tried(mount("tmpfs", victim, "tmpfs", 0, NULL));
	(void)tried(mount("/dev", victim, NULL, MS_BIND | MS_REC, NULL));
	clear_flags(victim);
	copy_away(victim);
	(void)tried(umount2(victim, MNT_DETACH));
	(void)tried(umount2(victim, MNT_DETACH));
}

static void attack_everything(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(victims); i++) {
		attack_volume();
		attack_names(victims[i]);
		attack_mounts(victims[i]);
	}
}

static void become_agent(void)
{
	if (setgroups(0, NULL) < 0 || setresgid(AGENT_UID, AGENT_UID, AGENT_UID) < 0 ||
	    setresuid(AGENT_UID, AGENT_UID, AGENT_UID) < 0)
		accuse("attacker", "cannot become the agent's uid");
}

static void own_namespaces(void)
{
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		accuse("attacker", "no user and mount namespaces of its own");
}

static _Noreturn void attack_for_ever(void (*act)(void))
{
	for (;;) {
		begin_turn();
		act();
		end_turn();
	}
}

static _Noreturn void attack_from_here(void)
{
	become_agent();
	attack_for_ever(attack_everything);
}

/* Older than every mount; what is mounted later comes along. */
static _Noreturn void attack_as_older_slave(void)
{
	become_agent();
	own_namespaces();
	attack_for_ever(attack_everything);
}

/* Older than every mount, and sees none of them: for it the mount points are plain directories. */
static _Noreturn void attack_as_older_private(void)
{
	become_agent();
	own_namespaces();
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		accuse("attacker", "its mounts do not become private");
	attack_for_ever(attack_everything);
}

static bool is_mounted(const char *path)
{
	struct statx st;

	return sys_statx(AT_FDCWD, path, AT_NO_AUTOMOUNT, STATX_TYPE, &st) == 0 &&
	       (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

/* Takes along what is mounted at this moment, and tries to free it of its flags. */
static _Noreturn void attack_once_as_newer(void)
{
	const int rounds = own ? 1 : 8; /* in turns nothing changes meanwhile */

	own_namespaces();
	atomic_fetch_add(&witness->newer, 1);
	if (is_mounted(RO) || is_mounted(RW))
		atomic_fetch_add(&witness->copies, 1);
	for (int i = 0; i < rounds; i++) {
		clear_flags(RO);
		copy_away(RO);
		clear_flags(RW);
		copy_away(RW);
		attack_volume();
		attack_names(RO);
	}
	_exit(0);
}

static void attack_with_a_newer(void)
{
	pid_t pid = fork();

	if (pid == 0)
		attack_once_as_newer();
	(void)waitpid(pid, NULL, 0);
}

static _Noreturn void attack_as_newer(void)
{
	become_agent();
	attack_for_ever(attack_with_a_newer);
}

static void start(void (*role)(void), bool in_turns)
{
	struct process *process = &processes[n_processes++];
	pid_t parent = getpid();

	process->is_observer = role == observe_here || role == observe_from_elsewhere;
	assert_int_equal(pipe2(process->go, O_CLOEXEC), 0);
	assert_int_equal(pipe2(process->done, O_CLOEXEC), 0);
	process->pid = fork();
	if (process->pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		own = in_turns ? process : NULL;
		if (!in_turns) /* or the helper would hardly get its turn on a small machine */
			(void)setpriority(PRIO_PROCESS, 0, BEHIND);
		role();
	}
}

struct witness *attackers_start(bool in_turns)
{
	static void (*const roles[])(void) = {
		observe_here,	       observe_from_elsewhere,	attack_from_here,
		attack_as_older_slave, attack_as_older_private, attack_as_newer};

	witness = mmap(NULL, sizeof(*witness), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(witness, MAP_FAILED);
	for (size_t i = 0; i < ARRAY_SIZE(roles); i++)
		start(roles[i], in_turns);
	return witness;
}

static void let_act(bool is_observer)
{
	char byte;

	for (int i = 0; i < n_processes; i++)
		if (processes[i].is_observer == is_observer && write(processes[i].go[1], "", 1) != 1)
			accuse("turn", "a process cannot be told");
	for (int i = 0; i < n_processes; i++)
		if (processes[i].is_observer == is_observer && read(processes[i].done[0], &byte, 1) != 1)
			accuse("turn", "a process does not answer");
}

void attackers_turn(void)
{
	let_act(true);
	let_act(false);
	let_act(true);
}

void attackers_stop(void)
{
	for (int i = 0; i < n_processes; i++)
		(void)kill(processes[i].pid, SIGKILL);
	for (int i = 0; i < n_processes; i++) {
		(void)waitpid(processes[i].pid, NULL, 0);
		(void)close(processes[i].go[0]);
		(void)close(processes[i].go[1]);
		(void)close(processes[i].done[0]);
		(void)close(processes[i].done[1]);
	}
	n_processes = 0;
}

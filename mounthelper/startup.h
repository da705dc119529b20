/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The start from exec to HELLO, in the order of main.c. A failure ends the process in place, with a code of
 * proto/mounthelper_words.h: nothing has been mounted yet, so there is nothing to undo. */

#include "helper.h"
#include "mounthelper_words.h"
#include "trees.h"

#include <linux/capability.h>

/* A helper that has not sent HELLO by then is killed, for any cause of the delay. */
enum { START_DEADLINE_S = 10 };

/** End: report the cause on the socket (struct mh_failure), if descriptor 3 is one, and on the caller's
 * standard error, and exit with the code of @word.
 *
 * @sys_errno positive, or 0
 * @number    the value of N in the sentence of @word, or 0
 * @detail    the path or name meant, or "" */
_Noreturn void start_fail(enum mh_start word, int sys_errno, uint32_t number, const char *detail);

/** Continues only if @ok. */
void start_need(bool ok, enum mh_start word, uint32_t number, const char *detail);

/** Continues only if a call of the C library did not return -1, or one of ours no negative errno. Returns @r.
 */
int start_libc(int r, enum mh_start word, const char *detail);
int start_sys(int r, enum mh_start word, const char *detail);

/* A. entry.c: shed what the caller left in this process, before anything is read or parsed. */

/* Facts from the kernel about the start of this process. */
struct entry_facts {
	int argc;
	bool has_argv0;
	bool at_secure;	 /* the exec raised privileges */
	bool is_capable; /* SANDBOX_CAPABILITIES but for audit's are permitted */
	uint32_t ruid;
	uint32_t euid;
};

/** Which launch mode was it? Pure. START_OK and @ret, or the cause of a refusal. */
enum mh_start entry_launch_mode(const struct entry_facts *facts, enum launch_mode *ret);

/** Environment, descriptors, process state, limits, and in launch mode setuid the uid shared with the caller:
 * afterwards it can neither signal nor trace this process. The deadline of the
 * start runs from here to filter_load(). Fills h->launch_mode and, in launch mode setuid, h->peer_uid. */
void entry_shed(int argc, char **argv, struct helper *h);

/* B. view.c: a procfs that no other process can touch, PID 1's mount namespace for what belongs to root
 * (policy, log, state), and the namespace in which the mounts are made. */

struct view {
	int proc_fd;	 /* own instance of procfs, attached nowhere */
	int home_ns_fd;	 /* the caller's mount namespace, or negative when it was not left */
	int root_fd;	 /* "/" where root's files are */
	bool is_at_home; /* the caller's mount namespace is PID 1's */
};

/** Makes the own procfs, reads h->boot_id, enters PID 1's mount namespace unless this is it, and opens
 * h->mountinfo there. Launch mode socket has no privilege to enter one, and does not need it: root made its
 * namespace. */
struct view view_enter_host(struct helper *h);

/** Settles in the namespace of the mounts: the caller's if the policy has container, else PID 1's, and then
 * only in the initial user and pid namespaces. Opens h->root_fd, and h->mountinfo again, there and closes
 * @view, but for its root_fd, below which the policy is. */
void view_settle(struct helper *h, const struct view *view);

/* setup.c: read root's policy and open what serving needs: nothing can be opened afterwards. */

/** Pins the peer of the socket in h->peer_uid and h->peer_pid; in launch mode setuid it must have the uid
 * that started this process. */
void setup_peer(struct helper *h);

/** Reads the compiled policy at @path below @root_fd into @ret, and finds the block of the agent h->peer_uid.
 */
void setup_policy(struct helper *h, int root_fd, const char *path, struct policy_file *ret);

/** Is the file that setup_policy() read still the policy, as helper_uid sees it? Returns 0; -ESTALE when root
 * has replaced or changed it since, or a negative errno. */
int setup_compare_policy(const struct helper *h);

/** Log, state file, an instance's place and the leave to start, below @root_fd; audit. Log and audit may be
 * missing: h->trail.fd or h->audit_fd is negative then. */
void setup_records(struct helper *h, int root_fd);

/** Trees, /dev and /sys, below h->root_fd. */
void setup_trees(struct helper *h);

/** Asks the kernel for every file system type of the policy: the only moment when a module may be loaded. */
void setup_types(struct helper *h);

/** Time: with trail_sync = batch, a second without a request. SIGALRM, which
 * operations on nfs4 arm, is left at its default, because a wait for a server ends for nothing less than
 * death. */
void setup_waits(struct helper *h);

/** Is @place, in a mount with the facts @mount, fit to be a tree of @helper_uid with @mode? START_OK, or why
 * not. Pure. */
enum mh_start setup_check_tree(const struct place *place, const struct mount_facts *mount,
			       uint32_t helper_uid, uint32_t mode);

/** Makes the folder of notes, and that of each profile of class csi, for containers of plugins, which start
 * before their volumes come. Called as helper_uid, which owns them. A failure is not reported: STAGE meets it
 * again. */
void setup_folders(const struct helper *h);

/* C. sandbox.c, filter.c: give up everything that serving does not need. */

/* All capabilities that serving needs, as bits; without the one for audit it does without audit. */
#define SANDBOX_AUDIT (UINT64_C(1) << CAP_AUDIT_WRITE)
#define SANDBOX_CAPABILITIES (UINT64_C(1) << CAP_SYS_ADMIN | SANDBOX_AUDIT)

/** Becomes the block's helper_uid and helper_gid with exactly SANDBOX_CAPABILITIES (without SANDBOX_AUDIT if
 * it is not there), an empty bounding set,
 * locked securebits and no_new_privs, and checks that the kernel confirms it.
 *
 * Launch mode socket begins with that uid. Without CAP_SETPCAP it cannot empty the bounding set or lock the
 * securebits; then nothing but SANDBOX_CAPABILITIES may be in the set. */
void sandbox_drop(enum launch_mode launch_mode, const struct agent_policy *agent);

/** Allows the system calls of the serving phase, with the arguments that they may have; everything else,
 * foreign architectures included, kills the process. docs/man/holdfast-mounthelper.8.scd shows the same
 * table.
 *
 * Closes HELPER_MESSAGE_FD, which nothing can be written to afterwards, and lifts the deadline of the
 * start. The memory of libseccomp is never freed: freeing would need system calls that are gone. */
void filter_load(const struct helper *h);

/** D. serve.c: send HELLO, serve one request after another until the agent closes or breaks the protocol, put
 * the end on record. Returns what to exit with. */
enum mh_exit serve(struct helper *h);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The closed vocabulary of the mount helper: every enum that appears in its trail, its replies and its end,
 * with its text there. Users expand the lists as they need them.
 *
 * docs/man/holdfast-mounthelper.8.scd explains each entry. */

#include <stdint.h>

/* Where an operation failed; goes into mh_reply.step by number. */
#define MH_STEPS(X)                  \
	X(STEP_NONE, "none")         \
	X(STEP_LOCK, "lock")         \
	X(STEP_TRAIL, "trail")       \
	X(STEP_STATE, "state")       \
	X(STEP_SOURCE, "source")     \
	X(STEP_DIRECTORY, "mkdir")   \
	X(STEP_OPEN, "open")         \
	X(STEP_TABLE, "mountinfo")   \
	X(STEP_FSOPEN, "fsopen")     \
	X(STEP_OPTION, "option")     \
	X(STEP_CREATE, "create")     \
	X(STEP_FSMOUNT, "fsmount")   \
	X(STEP_CLONE, "clone")       \
	X(STEP_RESTRICT, "restrict") \
	X(STEP_ATTACH, "attach")     \
	X(STEP_PRIVATE, "private")   \
	X(STEP_VERIFY, "verify")     \
	X(STEP_UNMOUNT, "unmount")   \
	X(STEP_REMOVE, "rmdir")

/* Why a request was refused, answered with a conflict or a limit, or ended the helper: enum, keyword of
 * the trail, sentence for people with the next step. The helper sends the reason and, as N, the line in
 * the policy where the deciding block begins; the agent makes the sentence of it. */
#define MH_REASONS(X)                                                                                        \
	X(REASON_NONE, "none", "")                                                                           \
	/* violations: the helper ends */                                                                    \
	X(REASON_TRUNCATED, "truncated",                                                                     \
	  "the agent broke the protocol: install agent and helper from the same release")                    \
	X(REASON_CONTROL, "control-data",                                                                    \
	  "the agent broke the protocol: install agent and helper from the same release")                    \
	X(REASON_CREDENTIALS, "credentials",                                                                 \
	  "the agent broke the protocol: install agent and helper from the same release")                    \
	X(REASON_SIZE, "size",                                                                               \
	  "the agent broke the protocol: install agent and helper from the same release")                    \
	X(REASON_MAGIC, "magic",                                                                             \
	  "the agent broke the protocol: install agent and helper from the same release")                    \
	X(REASON_VERSION, "version",                                                                         \
	  "the agent broke the protocol: install agent and helper from the same release")                    \
	X(REASON_UNKNOWN_OP, "unknown-op",                                                                   \
	  "the agent broke the protocol: install agent and helper from the same release")                    \
	X(REASON_RESERVED, "reserved",                                                                       \
	  "the agent broke the protocol: install agent and helper from the same release")                    \
	X(REASON_SEQUENCE, "sequence",                                                                       \
	  "the agent broke the protocol: install agent and helper from the same release")                    \
	X(REASON_ORDER, "order",                                                                             \
	  "the agent broke the protocol: install agent and helper from the same release")                    \
	X(REASON_FIELD, "field",                                                                             \
	  "the agent broke the protocol: install agent and helper from the same release")                    \
	/* refusals by policy */                                                                             \
	X(REASON_RATE, "rate-limit",                                                                         \
	  "more requests than ops_per_second and burst of the policy's agent block at line N allow; it "     \
	  "continues by itself")                                                                             \
	X(REASON_REFUSALS, "too-many-refusals", "too many requests were refused: see why in the trail")      \
	X(REASON_PROPAGATION, "propagation-not-allowed",                                                     \
	  "propagation needs shared = yes in the profile at line N of the policy, and bidirectional a "      \
	  "writer; or the stage is still private: stop its allocations")                                     \
	X(REASON_SERVER, "server-not-allowed",                                                               \
	  "no server line of the profile at line N of the policy holds the address of the NFS server: add "  \
	  "it there, or correct the volume")                                                                 \
	X(REASON_EXPORT, "export-not-allowed",                                                               \
	  "no export line of the profile at line N of the policy holds the volume's export: add it there, "  \
	  "or correct the volume")                                                                           \
	X(REASON_HOSTVOL, "hostvol-mismatch",                                                                \
	  "the volume is another directory of this host than the hostvol at line N of the policy: correct "  \
	  "the volume")                                                                                      \
	X(REASON_PROFILE_UNKNOWN, "profile-unknown",                                                         \
	  "the agent block at line N of the policy has no profile or hostvol of that name: add it there, "   \
	  "or correct the volume's profile")                                                                 \
	X(REASON_CLASS, "class-mismatch",                                                                    \
	  "the profile at line N of the policy is of another class than the volume: correct either")         \
	X(REASON_READ_ONLY, "profile-read-only",                                                             \
	  "the profile at line N of the policy has ro = yes, and the volume is wanted writable: ask for it " \
	  "read-only, or change the profile")                                                                \
	X(REASON_EXEC, "exec-not-allowed",                                                                   \
	  "the profile at line N of the policy has exec = no: leave exec out of the volume's mount, or "     \
	  "change the profile")                                                                              \
	X(REASON_DETACH, "detach-not-allowed",                                                               \
	  "the agent block at line N of the policy has no allow_detach = yes: end what uses the mount, or "  \
	  "allow it there")                                                                                  \
	X(REASON_BY_ID, "by-id-not-allowed",                                                                 \
	  "no by_id line of the profile at line N of the policy allows that device: add it there, or "       \
	  "correct the volume")                                                                              \
	X(REASON_TMPFS_SIZE, "size-not-allowed",                                                             \
	  "the size is 0 or above max_size of the profile at line N of the policy: ask for less, or raise "  \
	  "it there")                                                                                        \
	X(REASON_TMPFS_INODES, "inodes-not-allowed",                                                         \
	  "the number of inodes is 0 or above max_inodes of the profile at line N of the policy: ask for "   \
	  "less, or raise it there")                                                                         \
	X(REASON_TYPE_UNAVAILABLE, "type-unavailable",                                                       \
	  "this kernel has not got the file system type of the profile at line N of the policy: modprobe "   \
	  "it, then reload the agent with SIGHUP")                                                           \
	/* refusals by ticket */                                                                             \
	X(REASON_TICKET_MISSING, "ticket-missing",                                                           \
	  "the claim server gave no ticket, and the agent block at line N of the policy has ticket = "       \
	  "required: give the server its ticket key")                                                        \
	X(REASON_TICKET_FORMAT, "ticket-format",                                                             \
	  "the ticket is of another version: install server and helper from releases that go together")      \
	X(REASON_TICKET_SIGNATURE, "ticket-signature",                                                       \
	  "no ticket_key of the agent block at line N of the policy has signed the ticket: compare them "    \
	  "with the server's public key")                                                                    \
	X(REASON_TICKET_CLUSTER, "ticket-cluster",                                                           \
	  "the ticket is of another cluster than the agent block at line N of the policy: correct cluster "  \
	  "there")                                                                                           \
	X(REASON_TICKET_NODE, "ticket-node",                                                                 \
	  "the ticket is of another node than the agent block at line N of the policy: correct node there")  \
	X(REASON_TICKET_BOOT, "ticket-boot",                                                                 \
	  "the ticket is of an earlier boot of this node: the next attempt has one of this boot")            \
	X(REASON_TICKET_VOLUME, "ticket-volume",                                                             \
	  "the ticket is of another volume: no honest agent asks so; see the trail")                         \
	X(REASON_TICKET_ALLOC, "ticket-alloc",                                                               \
	  "the ticket is of another allocation: no honest agent asks so; see the trail")                     \
	X(REASON_TICKET_PROFILE, "ticket-profile",                                                           \
	  "the ticket is of another profile: was the volume's changed while it was claimed? stop its "       \
	  "allocations and start them again")                                                                \
	X(REASON_TICKET_SOURCE, "ticket-source",                                                             \
	  "the ticket is of another source, or another one is staged: was the volume changed while it was "  \
	  "claimed? stop its allocations and start them again")                                              \
	X(REASON_TICKET_READ_ONLY, "ticket-read-only",                                                       \
	  "the ticket is for reading only: claim the volume for writing")                                    \
	X(REASON_TICKET_PROPAGATION, "ticket-propagation",                                                   \
	  "the ticket does not permit that propagation: the volume's capabilities on the server do")         \
	X(REASON_TICKET_EXPIRED, "ticket-expired",                                                           \
	  "the ticket has expired: the next attempt has a new one; if that has too, set the clocks of node " \
	  "and server right")                                                                                \
	X(REASON_TICKET_GENERATION, "ticket-generation",                                                     \
	  "a newer ticket of the volume has been used in this boot: the next attempt has the newest")        \
	/* what the kernel or the state table showed */                                                      \
	X(REASON_SOURCE_UNKNOWN, "source-unknown",                                                           \
	  "the source of the mount is no longer known: the next STAGE finds it")                             \
	X(REASON_STAGED_PROFILE, "staged-profile",                                                           \
	  "the volume is staged by another profile: stop all its allocations on this node, then start them") \
	X(REASON_STAGED_READ_ONLY, "staged-read-only",                                                       \
	  "the volume is staged read-only and wanted writable: stop its readers on this node first")         \
	X(REASON_LINK, "by-id-link",                                                                         \
	  "the entry of /dev/disk/by-id is no link to one name in /dev: look with ls -l there")              \
	X(REASON_DEV_PATH, "dev-path",                                                                       \
	  "/dev/disk or /dev/disk/by-id is not a directory that only root can change: look with ls -ld, "    \
	  "and correct owner or mode")                                                                       \
	X(REASON_NOT_BLOCK, "not-a-block-device",                                                            \
	  "what the entry of /dev/disk/by-id leads to is no block device: look with ls -lL there")           \
	X(REASON_DEVICE_NUMBER, "device-number",                                                             \
	  "the entry of /dev/disk/by-id leads to another device than the agent saw: the next attempt looks " \
	  "again")                                                                                           \
	X(REASON_DEVICE_MOUNTED, "device-mounted",                                                           \
	  "the device is mounted already, in this namespace or another: find it with findmnt and lsns, and " \
	  "unmount it there")                                                                                \
	X(REASON_JOURNAL, "journal-elsewhere",                                                               \
	  "the ext4 on the device has its journal on another device, which is not allowed, or in a file: "   \
	  "unmounted, tune2fs -O ^has_journal and then tune2fs -j give it one inside")                       \
	X(REASON_HOST_PATH, "host-path",                                                                     \
	  "the path of the hostvol at line N of the policy has a link or another user's directory on its "   \
	  "way, has not its owner_uid, or is mounted read-only: look with namei -l")                         \
	X(REASON_PLUGIN_LEFT, "plugin-left-mount",                                                           \
	  "the CSI plugin had left it mounted, and that was taken away")                                     \
	X(REASON_PLUGIN_TARGET, "plugin-target",                                                             \
	  "the CSI plugin left its target there, which is not removed: look there")                          \
	X(REASON_FOREIGN_DIRECTORY, "foreign-directory",                                                     \
	  "a directory in the trees is not the helper's own: look with ls -la there, and move it away")      \
	X(REASON_OTHER_MOUNT, "other-mount",                                                                 \
	  "something else is mounted there, or with other flags: look with findmnt -R at the trees of the "  \
	  "policy, and unmount by hand the mounts that are not Holdfast's")                                  \
	X(REASON_SUBMOUNT, "submount",                                                                       \
	  "something is mounted below it: look with findmnt -R at the trees of the policy, and unmount by "  \
	  "hand the mounts that are not Holdfast's")                                                         \
	X(REASON_STACKED, "stacked",                                                                         \
	  "another mount is on top of it: look with findmnt -R at the trees of the policy, and unmount by "  \
	  "hand the mounts that are not Holdfast's")                                                         \
	X(REASON_PUBLISHED, "still-published",                                                               \
	  "it is still published for an allocation: stop that one first")                                    \
	X(REASON_IN_USE, "in-use",                                                                           \
	  "a process has files open or its working directory there: find it with fuser -m or lsof")          \
	X(REASON_LOCKED, "volume-locked",                                                                    \
	  "an instance works on the volume, or others have all places of its kind: an end is waited for")    \
	X(REASON_MAX_STAGED, "max-staged",                                                                   \
	  "max_staged of the agent block at line N of the policy is reached: stop allocations, or raise it " \
	  "there")                                                                                           \
	X(REASON_MAX_PUBLISHED, "max-published",                                                             \
	  "max_published of the agent block at line N of the policy is reached: stop allocations, or raise " \
	  "it there")                                                                                        \
	X(REASON_MAX_PER_ALLOC, "max-per-alloc",                                                             \
	  "the allocation has more volumes than max_per_alloc of the agent block at line N of the policy "   \
	  "allows: raise it there")                                                                          \
	X(REASON_MAX_TMPFS, "max-tmpfs-total",                                                               \
	  "max_tmpfs_total of the agent block at line N of the policy is reached: stop allocations, ask "    \
	  "for less, or raise it there")                                                                     \
	X(REASON_STATE_FULL, "state-full",                                                                   \
	  "the state table is full of volumes that are staged or have a ticket still: stop allocations, or " \
	  "wait until tickets expire")                                                                       \
	X(REASON_POSTCONDITION, "post-condition",                                                            \
	  "the mount that the kernel shows differs from the request, and was undone: look with findmnt, "    \
	  "and in the trail")                                                                                \
	/* how the helper ended */                                                                           \
	X(REASON_CLOSED, "closed", "")                                                                       \
	X(REASON_SEND, "reply-not-taken", "")                                                                \
	/* the agent knows them by number: later ones come last */                                           \
	X(REASON_KERNEL_OLD, "kernel-too-old",                                                               \
	  "before Linux 6.6 an erofs may open other disks than its own: make the image a squashfs, in the "  \
	  "profile at line N of the policy too, or boot a later kernel")                                     \
	X(REASON_ASSERTION, "assertion", "")                                                                 \
	X(REASON_NOT_MOUNTED, "not-mounted",                                                                 \
	  "the disk of the hostvol at line N of the policy is not mounted at its path (mount = required, "   \
	  "uuid): mount it there (findmnt, blkid), or change these keys if another folder is meant")         \
	X(REASON_WRITES_STOPPED, "writes-stopped",                                                           \
	  "the file system of the volume is read-only although it was mounted writable: an error of the "    \
	  "disk or the file system stopped writes, see dmesg; stop all its allocations on this node, and "   \
	  "repair it")                                                                                       \
	X(REASON_TICKET_SLOT, "ticket-slot",                                                                 \
	  "the ticket is for another slot: is the server of an earlier version? else see the trail")         \
	X(REASON_POLICY_REPLACED, "policy-replaced", "") /* how the helper ended */

/* Why a start ended before HELLO: enum, exit code, keyword on standard error, sentence for people. The
 * helper sends keyword, errno, detail and N; its parent makes the sentence of it. */
#define MH_STARTS(X)                                                                                         \
	X(START_OK, 0, "ok", "started")                                                                      \
	X(START_ARGUMENTS, 70, "arguments",                                                                  \
	  "it takes no arguments; the agent starts it with a socket on descriptor 3")                        \
	X(START_NOT_PRIVILEGED, 71, "not-privileged",                                                        \
	  "neither the setuid bit nor launch mode socket gave it privilege: no_new_privs is set, most "      \
	  "likely "                                                                                          \
	  "by RestrictNamespaces= or another sandboxing option in the agent's unit, or the file is not "     \
	  "root's with mode 4750, or it is on a nosuid mount; use launch mode socket or remove the option")  \
	X(START_BY_ROOT, 71, "started-by-root",                                                              \
	  "root started it; it serves an unprivileged agent only, named by its uid in the policy")           \
	X(START_SOCKET, 72, "socket", "descriptor 3 is not an AF_UNIX SOCK_SEQPACKET socket")                \
	X(START_DESCRIPTORS, 72, "descriptors", "its descriptors could not be put in order")                 \
	X(START_PEER, 72, "peer",                                                                            \
	  "the socket on descriptor 3 was made by uid N, not by the one that started it")                    \
	X(START_PROCESS, 73, "process", "the caller's process state could not be shed")                      \
	X(START_BECOME_ROOT, 73, "become-root",                                                              \
	  "it could not leave the caller's uid and groups; the agent's unit must allow CAP_SETUID and "      \
	  "CAP_SETGID in CapabilityBoundingSet=")                                                            \
	X(START_PROCFS, 74, "procfs",                                                                        \
	  "it could not make a procfs of its own; the agent's unit must allow CAP_SYS_ADMIN")                \
	X(START_NAMESPACE, 74, "namespace",                                                                  \
	  "it could not enter PID 1's mount namespace; the agent's unit must allow CAP_SYS_ADMIN, "          \
	  "CAP_SYS_CHROOT and CAP_SYS_PTRACE, and a unit of launch mode socket must have no mount "          \
	  "namespace "                                                                                       \
	  "of its own")                                                                                      \
	X(START_NOT_INITIAL, 74, "not-initial",                                                              \
	  "it is not in the initial user and pid namespaces; set container = yes in the policy if this is "  \
	  "meant")                                                                                           \
	X(START_LIMIT, 75, "limit",                                                                          \
	  "the hard limit named is N and cannot be raised without CAP_SYS_RESOURCE")                         \
	X(START_STATE, 76, "state",                                                                          \
	  "the state file below lock_dir must be a regular file of root or of the helper's uid that no "     \
	  "other user can write, below directories of root")                                                 \
	X(START_INSTANCES, 76, "instances", "N instances run already for this agent; end one")               \
	X(START_START_RATE, 76, "start-rate",                                                                \
	  "it was started more than the N times that starts_per_minute allows")                              \
	X(START_TREE, 77, "tree",                                                                            \
	  "a tree must be a directory below directories of root that no other user can write")               \
	X(START_TREE_OWNER, 77, "tree-owner",                                                                \
	  "a tree must belong to helper_uid N, the stage tree with mode 0700, the publish tree with mode "   \
	  "0711")                                                                                            \
	X(START_TREE_FS, 77, "tree-fs", "a tree must be on ext4, xfs, btrfs or tmpfs")                       \
	X(START_TREE_PRIVATE, 77, "tree-private",                                                            \
	  "the mount that holds a tree must be shared: mount --make-shared it")                              \
	X(START_DEV, 77, "dev", "/dev must be a devtmpfs of root, /sys sysfs and /proc proc")                \
	X(START_POLICY, 78, "policy",                                                                        \
	  "the policy as holdfast policy apply writes it must be a regular file of root that no other user " \
	  "can write, below directories of root that helper_uid can search; holdfast policy init prints a "  \
	  "text to begin with, and "                                                                         \
	  "holdfast policy apply compiles it")                                                               \
	X(START_POLICY_FORMAT, 78, "policy-format",                                                          \
	  "the compiled policy is of another release, or damaged; holdfast policy apply writes it again")    \
	X(START_POLICY_AGENT, 78, "policy-agent", "the policy has no block for agent uid N")                 \
	X(START_HELPER_UID, 78, "helper-uid",                                                                \
	  "the policy's helper_uid N is not the uid that the unit of launch mode socket runs it as: id -u "  \
	  "holdfast-mount, or the User= of a drop-in")                                                       \
	X(START_LOCKDOWN, 79, "lock-down",                                                                   \
	  "it could not give up its privileges; the agent's unit must allow CAP_SETPCAP, CAP_SYS_ADMIN and " \
	  "CAP_AUDIT_WRITE in CapabilityBoundingSet=")                                                       \
	X(START_ASSERTION, 73, "assertion",                                                                  \
	  "it found a mistake of its own at line N of that file: please report it")                          \
	X(START_CHROOT, 74, "chroot",                                                                        \
	  "it is in a chroot whose / is no mount, where it cannot compare host volumes with its own "        \
	  "places; remove RootDirectory= from its unit, or bind the directory to itself (mount --bind) "     \
	  "before the chroot")

/* Why a helper does not record its start and therefore only cleans up: enum, keyword, sentence for people. */
#define MH_TRAILS(X)                                                                                       \
	X(TRAIL_GOOD, "ok", "")                                                                            \
	X(TRAIL_LOG, "log",                                                                                \
	  "the log must be a regular file of root or of the helper's uid that no other user can write, "   \
	  "below directories of root, on a file system that can be written; then reload the agent with "   \
	  "SIGHUP")                                                                                        \
	X(TRAIL_LOG_END, "log-end",                                                                        \
	  "the log cannot be continued: make room where it is; or if its end is no record of the helper, " \
	  "move it away, create an empty one and reload the agent with SIGHUP")                            \
	X(TRAIL_AUDIT, "audit",                                                                            \
	  "the kernel's audit takes no records, and the policy has audit = required: switch it on with "   \
	  "auditctl -e 1, and let the unit have CAP_AUDIT_WRITE; where the kernel has no auditing, set "   \
	  "audit = optional in the policy")

#define MH_WORD_ENUM(name, word) name,
#define MH_REASON_ENUM(name, word, sentence) name,
#define MH_START_ENUM(name, code, word, sentence) name,
enum step { MH_STEPS(MH_WORD_ENUM) STEP_N };
enum reason { MH_REASONS(MH_REASON_ENUM) REASON_N };
enum mh_start { MH_STARTS(MH_START_ENUM) START_N };
enum mh_trail { MH_TRAILS(MH_REASON_ENUM) TRAIL_N };

/* Exit codes of a helper that served; those of one that did not are in MH_STARTS. */
enum mh_exit {
	MH_EXIT_CLOSED = 0,	/* the agent closed the socket */
	MH_EXIT_VIOLATION = 80, /* the agent broke the protocol */
	MH_EXIT_INTERNAL = 81,	/* a post-condition failed */
	MH_EXIT_REFUSALS = 82,	/* too many refused requests */
	MH_EXIT_SEND = 83,	/* the agent does not read its replies */
	MH_EXIT_ASSERTION = 84, /* an assertion failed */
};

#undef MH_WORD_ENUM
#undef MH_REASON_ENUM
#undef MH_START_ENUM

#pragma once
/* The closed vocabulary of the mount helper: every enum that appears in its trail, its replies and its end,
 * with the word it has there. Users expand the lists as they need them.
 *
 * docs/man/holdfast-mounthelper.8.scd explains each word. */

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

/* Why a request was refused, answered with a conflict or a limit, or ended the helper. */
#define MH_REASONS(X)                                      \
	X(REASON_NONE, "none")                             \
	/* violations: the helper ends */                  \
	X(REASON_TRUNCATED, "truncated")                   \
	X(REASON_CONTROL, "control-data")                  \
	X(REASON_CREDENTIALS, "credentials")               \
	X(REASON_SIZE, "size")                             \
	X(REASON_MAGIC, "magic")                           \
	X(REASON_VERSION, "version")                       \
	X(REASON_UNKNOWN_OP, "unknown-op")                 \
	X(REASON_RESERVED, "reserved")                     \
	X(REASON_SEQUENCE, "sequence")                     \
	X(REASON_ORDER, "order")                           \
	X(REASON_FIELD, "field")                           \
	/* refusals by policy */                           \
	X(REASON_RATE, "rate-limit")                       \
	X(REASON_REFUSALS, "too-many-refusals")            \
	X(REASON_PROPAGATION, "propagation-not-allowed")   \
	X(REASON_SERVER, "server-not-allowed")             \
	X(REASON_EXPORT, "export-not-allowed")             \
	X(REASON_HOSTVOL, "hostvol-mismatch")              \
	X(REASON_PROFILE_UNKNOWN, "profile-unknown")       \
	X(REASON_CLASS, "class-mismatch")                  \
	X(REASON_READ_ONLY, "profile-read-only")           \
	X(REASON_EXEC, "exec-not-allowed")                 \
	X(REASON_DETACH, "detach-not-allowed")             \
	X(REASON_BY_ID, "by-id-not-allowed")               \
	X(REASON_TMPFS_SIZE, "size-not-allowed")           \
	X(REASON_TMPFS_INODES, "inodes-not-allowed")       \
	X(REASON_TYPE_UNAVAILABLE, "type-unavailable")     \
	/* refusals by ticket */                           \
	X(REASON_TICKET_MISSING, "ticket-missing")         \
	X(REASON_TICKET_FORMAT, "ticket-format")           \
	X(REASON_TICKET_SIGNATURE, "ticket-signature")     \
	X(REASON_TICKET_CLUSTER, "ticket-cluster")         \
	X(REASON_TICKET_NODE, "ticket-node")               \
	X(REASON_TICKET_BOOT, "ticket-boot")               \
	X(REASON_TICKET_VOLUME, "ticket-volume")           \
	X(REASON_TICKET_ALLOC, "ticket-alloc")             \
	X(REASON_TICKET_PROFILE, "ticket-profile")         \
	X(REASON_TICKET_SOURCE, "ticket-source")           \
	X(REASON_TICKET_READ_ONLY, "ticket-read-only")     \
	X(REASON_TICKET_PROPAGATION, "ticket-propagation") \
	X(REASON_TICKET_EXPIRED, "ticket-expired")         \
	X(REASON_TICKET_GENERATION, "ticket-generation")   \
	/* what the kernel or the state table showed */    \
	X(REASON_SOURCE_UNKNOWN, "source-unknown")         \
	X(REASON_STAGED_PROFILE, "staged-profile")         \
	X(REASON_STAGED_READ_ONLY, "staged-read-only")     \
	X(REASON_LINK, "by-id-link")                       \
	X(REASON_NOT_BLOCK, "not-a-block-device")          \
	X(REASON_DEVICE_NUMBER, "device-number")           \
	X(REASON_DEVICE_MOUNTED, "device-mounted")         \
	X(REASON_HOST_PATH, "host-path")                   \
	X(REASON_PLUGIN_LEFT, "plugin-left-mount")         \
	X(REASON_PLUGIN_TARGET, "plugin-target")           \
	X(REASON_FOREIGN_DIRECTORY, "foreign-directory")   \
	X(REASON_OTHER_MOUNT, "other-mount")               \
	X(REASON_SUBMOUNT, "submount")                     \
	X(REASON_STACKED, "stacked")                       \
	X(REASON_PUBLISHED, "still-published")             \
	X(REASON_IN_USE, "in-use")                         \
	X(REASON_LOCKED, "volume-locked")                  \
	X(REASON_MAX_STAGED, "max-staged")                 \
	X(REASON_MAX_PUBLISHED, "max-published")           \
	X(REASON_MAX_PER_ALLOC, "max-per-alloc")           \
	X(REASON_MAX_TMPFS, "max-tmpfs-total")             \
	X(REASON_STATE_FULL, "state-full")                 \
	X(REASON_POSTCONDITION, "post-condition")          \
	/* how the helper ended */                         \
	X(REASON_CLOSED, "closed")                         \
	X(REASON_SEND, "reply-not-taken")

/* Why a start ended before HELLO: enum, exit code, word on standard error, sentence for people. The helper
 * says word, errno, detail and N; whoever started it makes the sentence of it. */
#define MH_STARTS(X)                                                                                         \
	X(START_OK, 0, "ok", "started")                                                                      \
	X(START_ARGUMENTS, 70, "arguments",                                                                  \
	  "it takes no arguments; the agent starts it with a socket on descriptor 3")                        \
	X(START_NOT_PRIVILEGED, 71, "not-privileged",                                                        \
	  "neither the setuid bit nor the socket door gave it privilege: no_new_privs is set, most likely "  \
	  "by RestrictNamespaces= or another sandboxing option in the agent's unit, or the file is not "     \
	  "root's with mode 4750, or it is on a nosuid mount; use the socket door or remove the option")     \
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
	  "CAP_SYS_CHROOT and CAP_SYS_PTRACE, and a unit of the socket door must have no mount namespace "   \
	  "of its own")                                                                                      \
	X(START_NOT_INITIAL, 74, "not-initial",                                                              \
	  "it is not in the initial user and pid namespaces; set container = yes in the policy if this is "  \
	  "meant")                                                                                           \
	X(START_LIMIT, 75, "limit",                                                                          \
	  "the hard limit named is N and cannot be raised without CAP_SYS_RESOURCE")                         \
	X(START_LOG, 76, "log",                                                                              \
	  "the log must be a regular file of root or of the helper's uid that nobody else can write, below " \
	  "directories of root")                                                                             \
	X(START_LOG_END, 76, "log-end",                                                                      \
	  "the log could not be continued; if its end is no record of the helper, move it away and create "  \
	  "an empty one")                                                                                    \
	X(START_STATE, 76, "state",                                                                          \
	  "the state file below lock_dir must be a regular file of root or of the helper's uid that nobody " \
	  "else can write, below directories of root")                                                       \
	X(START_INSTANCES, 76, "instances", "N instances run already for this agent; end one")               \
	X(START_START_RATE, 76, "start-rate",                                                                \
	  "it was started more than the N times that starts_per_minute allows")                              \
	X(START_AUDIT, 76, "audit",                                                                          \
	  "the kernel's audit takes no records, and the policy says audit = required")                       \
	X(START_TREE, 77, "tree",                                                                            \
	  "a tree must be a directory below directories of root that nobody else can write")                 \
	X(START_TREE_OWNER, 77, "tree-owner",                                                                \
	  "a tree must belong to helper_uid N, the stage tree with mode 0700, the publish tree with mode "   \
	  "0711")                                                                                            \
	X(START_TREE_FS, 77, "tree-fs", "a tree must be on ext4, xfs, btrfs or tmpfs")                       \
	X(START_TREE_PRIVATE, 77, "tree-private",                                                            \
	  "the mount that holds a tree must be shared: mount --make-shared it")                              \
	X(START_DEV, 77, "dev", "/dev must be a devtmpfs of root, /sys must be sysfs")                       \
	X(START_POLICY, 78, "policy",                                                                        \
	  "the policy must be a regular file of root that nobody else can write, below directories of "      \
	  "root; "                                                                                           \
	  "holdfast policy init prints one to begin with")                                                   \
	X(START_POLICY_TEXT, 78, "policy-text",                                                              \
	  "line N of the policy is wrong; holdfast policy check says why")                                   \
	X(START_POLICY_AGENT, 78, "policy-agent", "the policy has no block for agent uid N")                 \
	X(START_HELPER_UID, 78, "helper-uid",                                                                \
	  "the policy's helper_uid N is not the uid that the unit of the socket door runs it as: id -u "     \
	  "holdfast-mount, or the User= of a drop-in")                                                       \
	X(START_LOCKDOWN, 79, "lock-down",                                                                   \
	  "it could not give up its privileges; the agent's unit must allow CAP_SETPCAP, CAP_SYS_ADMIN and " \
	  "CAP_AUDIT_WRITE in CapabilityBoundingSet=")

#define MH_WORD_ENUM(name, word) name,
#define MH_START_ENUM(name, code, word, sentence) name,
enum step { MH_STEPS(MH_WORD_ENUM) STEP_N };
enum reason { MH_REASONS(MH_WORD_ENUM) REASON_N };
enum mh_start { MH_STARTS(MH_START_ENUM) START_N };

/* Exit codes of a helper that served; those of one that did not are in MH_STARTS. */
enum mh_exit {
	MH_EXIT_CLOSED = 0,	/* the agent closed the socket */
	MH_EXIT_VIOLATION = 80, /* the agent broke the protocol */
	MH_EXIT_INTERNAL = 81,	/* a post-condition failed */
	MH_EXIT_REFUSALS = 82,	/* too many refused requests */
	MH_EXIT_SEND = 83,	/* the agent does not read its replies */
};

#undef MH_WORD_ENUM
#undef MH_START_ENUM

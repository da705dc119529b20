#pragma once
/* The closed vocabulary of the trail: every enum that appears there, and its word.
 *
 * X-macros keep enum and word in one line; docs/man/holdfast-mounthelper.8.scd explains each reason. */

#include "mounthelper_wire.h"

#include <stdint.h>

/* Where an operation failed; goes into mh_reply.step by number. */
#define STEPS(X)                     \
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
#define REASONS(X)                                         \
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
	X(REASON_UNIMPLEMENTED, "unimplemented")           \
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

#define WORDS_ENUM(name, word) name,
enum step { STEPS(WORDS_ENUM) STEP_N };
enum reason { REASONS(WORDS_ENUM) REASON_N };
#undef WORDS_ENUM

/** Words of the trail; "invalid" for a value outside the enum. */
const char *step_word(enum step step);
const char *reason_word(enum reason reason);
const char *op_word(uint16_t op);
const char *status_word(enum mh_status status);
const char *propagation_word(uint8_t propagation);

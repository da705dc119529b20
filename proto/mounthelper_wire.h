/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Messages between the node agent and the mount helper.
 *
 * SOCK_SEQPACKET, one request in flight, one fixed-size little-endian struct per operation: no offsets, no
 * optional tails, no path, no option text, no descriptor in either direction. Strings are NUL-terminated and
 * zero to their end, booleans exactly 0 or 1, reserved bytes 0. A datagram that breaks any of this ends the
 * helper.
 *
 * Order: the helper sends HELLO (struct mh_hello) once it is locked down, or FAILURE (struct mh_failure) and
 * ends; the agent answers HELLO with MH_OP_ACK; then requests, each answered by one struct mh_reply
 * (MH_OP_LIST: struct mh_list_reply). All pages of a list are one pass over the mount table: a page is given
 * only right after the one before it, by the same helper. */

#include "ticket.h"

#include <stddef.h>
#include <stdint.h>

enum {
	MH_MAGIC = 0x484d4648, /* "HFMH" */
	MH_VERSION = 9,
	MH_MESSAGE_MAX = 1024,
	MH_LABEL_SIZE = 64,  /* id_is_label() and a NUL, of profiles id_is_plugin() */
	MH_UUID_SIZE = 40,   /* id_is_uuid() and zeroes */
	MH_BY_ID_SIZE = 132, /* up to 128 of [A-Za-z0-9:._+-], not beginning with a dot */
	MH_EXPORT_SIZE = 256,
	MH_PATH_SIZE = 256,
	MH_SLOT_MAX = 31,
	MH_LIST_MAX = 8,
	MH_KEYS_MAX = 2,
};

/* Below the stage base a native volume is VOLUME. A volume of class csi is .csi/PROFILE/VOLUME, in a folder
 * that the container of this plugin sees and no other: no label begins with a dot. In it are staging, the
 * plugin's staging target path, one per volume as CSI demands; and ro-publish and rw-publish, its target
 * paths: one per use, so that a writer can join readers. The helper makes all but the targets, which the
 * plugin makes. STAGE is about the target of its read_only, PUBLISH clones the one of its read_only. */
#define MH_CSI_FOLDER ".csi"
#define MH_CSI_STAGING "staging"
#define MH_CSI_PUBLISH_RO "ro-publish"
#define MH_CSI_PUBLISH_RW "rw-publish"

enum mh_op {
	MH_OP_HELLO = 1,
	MH_OP_ACK = 2,
	MH_OP_STAGE = 3,
	MH_OP_PUBLISH = 4,
	MH_OP_UNPUBLISH = 5,
	MH_OP_UNSTAGE = 6,
	MH_OP_LIST = 7,
	MH_OP_FAILURE = 8, /* from the helper, instead of HELLO */
	MH_OP_N,
};

/* Outcome of a request; mh_reply.reason has the cause. */
enum mh_status {
	MH_OK = 0,
	MH_ALREADY = 1,	    /* already as asked for, at most its propagation was repaired */
	MH_REFUSED = 2,	    /* refused by policy, ticket or validation */
	MH_NOT_FOUND = 3,   /* the volume is not staged */
	MH_BUSY = 4,	    /* in use: files, publishes; at STEP_NONE: another instance is at it */
	MH_CONFLICT = 5,    /* something else is mounted there, or the medium is mounted elsewhere */
	MH_LIMIT = 6,	    /* a limit of the policy is reached */
	MH_UNAVAILABLE = 7, /* no trail, no file system type */
	MH_KERNEL = 8,	    /* the kernel refused; see errno and step */
	MH_INTERNAL = 9,    /* a post-condition failed; the helper ends after this reply */
	MH_REPLACED =
		10, /* nothing was done: root has replaced the policy; the helper ends after this reply */
	MH_STATUS_N,
};

/* Bits of mh_reply.state, read from the kernel after the operation. */
enum {
	MH_STATE_STAGED = 1 << 0,
	MH_STATE_PUBLISHED = 1 << 1,
	MH_STATE_READ_ONLY = 1 << 2,
	MH_STATE_SB_ALIVE =
		1 << 3, /* after UNSTAGE: the superblock is still in use somewhere, keep the device */
	MH_STATE_EXEC = 1 << 4,
	MH_STATE_SHARED = 1 << 5, /* in a peer group: new mounts below reach its peers and come from them */
	MH_STATE_AVAILABLE = 1 << 6, /* of a profile: its file system type is known to the kernel */
	MH_STATE_SLAVE = 1 << 7,     /* new mounts below come from the master peer group */
	MH_STATE_PREPARED =
		1 << 8,		  /* its directory is there, which a csi plugin may have been in, no mount */
	MH_STATE_DEVICE = 1 << 9, /* in addition: a device of /dev is bound at the plugin's target */
	MH_STATE_UNCOUNTED =
		1 << 10, /* in a list of all: below a plugin's folder, and not in the state table */
};

enum mh_class {
	MH_CLASS_BLOCK = 1,
	MH_CLASS_TMPFS = 2,
	MH_CLASS_NFS4 = 3,
	MH_CLASS_BIND = 4,
	MH_CLASS_CSI = 5,
	MH_CLASS_N,
};

struct mh_header {
	uint32_t magic;
	uint16_t version;
	uint16_t op;
	uint32_t length; /* size of the whole message, equal to the datagram's and to sizeof for the operation
			  */
	uint32_t flags;	 /* 0 */
	uint64_t seq;	 /* the previous one plus 1; the first request (ACK) has 1 */
	uint64_t reserved;
};

/** The header of a message of @length bytes. */
static inline struct mh_header mh_header_make(uint16_t op, size_t length, uint64_t seq)
{
	return (struct mh_header){
		.magic = MH_MAGIC, .version = MH_VERSION, .op = op, .length = (uint32_t)length, .seq = seq};
}

/* The source to stage. The unused members of the union are zero. */
struct mh_source {
	uint8_t class; /* enum mh_class */
	uint8_t reserved[7];
	union {
		struct {
			char by_id[MH_BY_ID_SIZE]; /* entry of /dev/disk/by-id */
			uint32_t major;		   /* must equal the node's; zero in the ticket's digest */
			uint32_t minor;
		} block;
		struct {
			uint64_t size_bytes; /* 1 to the profile's max_size */
			uint64_t inodes;     /* 1 to 2^31 */
		} tmpfs;
		struct {
			uint8_t family; /* 4 or 6 */
			uint8_t reserved[7];
			uint8_t addr[16];
			char export[MH_EXPORT_SIZE];
		} nfs4;
		struct {
			char name[MH_LABEL_SIZE]; /* host volume of the policy; equal to the request's profile
						   */
		} bind;
		struct {
			uint8_t volume[TICKET_DIGEST_SIZE]; /* SHA-256 of the plugin's id of the volume and
							       its context, see volume_csi_to_wire(): only for
							       the ticket's digest */
		} csi;
		uint8_t bytes[280];
	} u;
};

struct mh_hello {
	struct mh_header header; /* op MH_OP_HELLO, seq 0 */
	uint8_t policy_digest[TICKET_DIGEST_SIZE];
	char cluster[TICKET_CLUSTER_SIZE];
	char node[TICKET_NODE_SIZE];
	char publish_base[MH_PATH_SIZE]; /* publishes appear at publish_base/ALLOC/SLOT */
	char stage_base[MH_PATH_SIZE];	 /* for the paths of a csi plugin */
	uint32_t helper_pid;
	uint8_t launch_mode;	 /* 1 setuid, 2 socket */
	uint8_t container;	 /* 1: stayed in the caller's mount namespace, by the policy */
	uint8_t ticket_optional; /* 1: without a claim server, tickets are not required */
	uint8_t ticket_keys[MH_KEYS_MAX][TICKET_KEY_ID_SIZE]; /* the policy's; zero: unused */
	uint8_t trail;	 /* enum mh_trail, mounthelper_words.h: good, or why it only cleans up */
	uint64_t record; /* id of the record of this start in the trail; 0: not recorded */
	uint8_t head[TICKET_DIGEST_SIZE]; /* and its SHA-256 */
};

/* Why the helper ends before it serves. */
struct mh_failure {
	struct mh_header header;   /* op MH_OP_FAILURE, seq 0 */
	uint16_t word;		   /* enum mh_start, mounthelper_words.h */
	uint16_t sys_errno;	   /* positive, or 0 */
	uint32_t number;	   /* N in the sentence of @word, or 0 */
	char detail[MH_PATH_SIZE]; /* the path or name meant, or empty */
};

struct mh_ack {
	struct mh_header header;
};

struct mh_stage {
	struct mh_header header;
	char volume[MH_LABEL_SIZE];
	char profile[MH_LABEL_SIZE];
	char alloc[MH_UUID_SIZE];
	uint8_t read_only;
	uint8_t reserved[7];
	struct mh_source source;
	struct ticket ticket; /* all zero: no ticket */
};

struct mh_publish {
	struct mh_header header;
	char volume[MH_LABEL_SIZE];
	char profile[MH_LABEL_SIZE];
	char alloc[MH_UUID_SIZE];
	uint8_t read_only;
	uint8_t slot; /* 0 to MH_SLOT_MAX: several volumes of one allocation */
	uint8_t exec;
	uint8_t propagation; /* enum ticket_propagation */
	uint8_t reserved[4];
	struct mh_source source; /* that is staged, so that a source that root has withdrawn is refused */
	struct ticket ticket;	 /* all zero: no ticket */
};

struct mh_unpublish {
	struct mh_header header;
	char volume[MH_LABEL_SIZE]; /* the volume expected there */
	char alloc[MH_UUID_SIZE];
	uint8_t slot;
	uint8_t detach; /* 1: lazily; needs the policy's allow_detach */
	uint8_t reserved[6];
};

struct mh_unstage {
	struct mh_header header;
	char volume[MH_LABEL_SIZE];
	char profile[MH_LABEL_SIZE]; /* of class csi: where the volume is; native: empty */
	uint8_t detach;
	uint8_t reserved[7];
};

enum mh_list_kind {
	MH_LIST_STAGED = 0,
	MH_LIST_PUBLISHED = 1,
	MH_LIST_PROFILES = 2, /* what the helper's policy offers: the node's fingerprint of native volumes */
};

struct mh_list {
	struct mh_header header;
	uint8_t kind; /* enum mh_list_kind */
	uint8_t reserved[3];
	uint32_t cursor;	     /* 0, then what the last reply gave; MH_CONFLICT: begin again, with 0 */
	char volume[MH_LABEL_SIZE];  /* only entries of this name; empty: all */
	char profile[MH_LABEL_SIZE]; /* with a volume: as in UNSTAGE; else empty */
};

struct mh_reply {
	struct mh_header header; /* op and seq of the request */
	uint16_t status;	 /* enum mh_status */
	uint16_t sys_errno;	 /* positive, or 0 */
	uint16_t step;		 /* where it failed: enum mh_step, mounthelper_words.h */
	uint16_t state;		 /* MH_STATE_* */
	uint32_t dev_major;	 /* of the mounted file system; MH_STATE_DEVICE: the device */
	uint32_t dev_minor;
	uint64_t record; /* id of the result record in the trail */
	uint16_t reason; /* enum reason, mounthelper_words.h */
	uint16_t reserved;
	uint32_t policy_line;		  /* where the block of the policy begins that the reason is about */
	uint8_t head[TICKET_DIGEST_SIZE]; /* SHA-256 of the result record; zeroes: no record */
};

struct mh_list_entry {
	char volume[MH_LABEL_SIZE]; /* staged: the volume; profiles: the profile; published: empty */
	char alloc[MH_UUID_SIZE];
	uint32_t dev_major;
	uint32_t dev_minor;
	uint16_t state;
	uint8_t slot;
	uint8_t class; /* profiles: enum mh_class */
	uint8_t reserved[4];
};

struct mh_list_reply {
	struct mh_header header;
	uint16_t status;
	uint16_t sys_errno;
	uint16_t count; /* entries used */
	uint16_t reserved;
	uint32_t cursor; /* for the next request; 0 when this was the last page */
	uint32_t reserved2;
	struct mh_list_entry entries[MH_LIST_MAX];
};

_Static_assert(sizeof(struct mh_header) == 32, "no padding");
_Static_assert(sizeof(struct mh_source) == 288, "no padding");
_Static_assert(sizeof(struct mh_hello) == 32 + 32 + 64 + 64 + 256 + 256 + 16 + 8 + 32, "no padding");
_Static_assert(sizeof(struct mh_failure) == 32 + 8 + 256, "no padding");
_Static_assert(sizeof(struct mh_stage) == 32 + 64 + 64 + 40 + 8 + 288 + 512, "no padding");
_Static_assert(sizeof(struct mh_publish) == sizeof(struct mh_stage), "no padding");
_Static_assert(sizeof(struct mh_unpublish) == 32 + 64 + 40 + 8, "no padding");
_Static_assert(sizeof(struct mh_unstage) == 32 + 64 + 64 + 8, "no padding");
_Static_assert(sizeof(struct mh_list) == 32 + 8 + 64 + 64, "no padding");
_Static_assert(sizeof(struct mh_reply) == 32 + 32 + 32, "no padding");
_Static_assert(sizeof(struct mh_list_entry) == 120, "no padding");
_Static_assert(sizeof(struct mh_list_reply) == 32 + 16 + 8 * 120, "no padding");
_Static_assert(sizeof(struct mh_stage) <= MH_MESSAGE_MAX, "every message fits the receive buffer");
_Static_assert(sizeof(struct mh_list_reply) <= MH_MESSAGE_MAX, "every message fits the receive buffer");

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The ticket: permission from the claim server for one node to mount for one allocation in one boot.
 *
 * A fixed-size little-endian struct. The claim server makes it, the agent carries it without being able to
 * change it, the mount helper verifies it. Every string is NUL-terminated and zero to its end, so that one
 * meaning has one byte form.
 *
 * One Ed25519 signature is for up to TICKET_BATCH_MAX tickets: they are the leaves of a Merkle tree hashed
 * as in RFC 9162, section 2.1 (SHA-256; 0x00 before a leaf, 0x01 before the two children of a node).
 * struct ticket_root is signed. A leaf is the body of a ticket: its bytes before `place`. A ticket has its
 * place in the tree and the sibling hashes on its way to the root, so that it is verified by itself. In a
 * batch of one the leaf is the root. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
	TICKET_MAGIC = 0x4b544648, /* "HFTK" */
	TICKET_VERSION = 1,
	TICKET_ROOT_MAGIC = 0x52544648, /* "HFTR" */
	TICKET_DEPTH_MAX = 3,		/* as far as mh_stage has room */
	TICKET_BATCH_MAX = 1 << TICKET_DEPTH_MAX,
	TICKET_CLUSTER_SIZE = 64,
	TICKET_NODE_SIZE = 64,
	TICKET_UUID_SIZE = 16, /* its bytes, id_uuid_bytes(): RFC 9562, section 4 */
	TICKET_LABEL_SIZE = 64,
	TICKET_DIGEST_SIZE = 32,
	TICKET_DIGEST_CSI = 0x80, /* in the first byte of a source's digest: see ticket_mark_digest() */
	TICKET_SIGNATURE_SIZE = 64,
	TICKET_KEY_SIZE = 32,
	TICKET_KEY_ID_SIZE = 4, /* the key's first bytes: it is public */
};

/* Most permissive propagation that a publish under this ticket may ask for. */
enum ticket_propagation {
	TICKET_PROPAGATION_PRIVATE = 0,
	TICKET_PROPAGATION_HOST_TO_TASK = 1,
	TICKET_PROPAGATION_BIDIRECTIONAL = 2,
	TICKET_PROPAGATION_N,
};

struct ticket {
	uint32_t magic;
	uint16_t version;
	uint16_t reserved; /* 0 */
	char cluster[TICKET_CLUSTER_SIZE];
	char node[TICKET_NODE_SIZE];
	uint8_t boot_id[TICKET_UUID_SIZE]; /* /proc/sys/kernel/random/boot_id of the node */
	char volume[TICKET_LABEL_SIZE];	   /* name of the volume on the wire to the helper, id_is_label() */
	uint8_t alloc[TICKET_UUID_SIZE];
	char profile[TICKET_LABEL_SIZE]; /* entry of the helper's policy; for csi volumes the plugin */
	uint8_t source_digest[TICKET_DIGEST_SIZE]; /* SHA-256 of struct mh_source with device numbers zeroed,
						      marked: names the storage */
	uint64_t generation;			   /* raised on each writer grant of the volume */
	uint64_t not_after_ms;			   /* CLOCK_REALTIME milliseconds */
	uint8_t read_only;			   /* 0 or 1; 1 forbids a writable publish */
	uint8_t propagation;			   /* enum ticket_propagation */
	uint8_t stage_read_only;		   /* 0 or 1; 1 forbids a writable stage */
	uint8_t slot;				   /* of each publish: where the allocation has the volume */
	uint8_t reserved2[3];			   /* 0 */
	/* 1 is the root of the tree; the children of place n are 2n on the left and 2n + 1 on the right.
	 * So it has depth and way at once, and its lowest bit is 1 for a leaf on the right. */
	uint8_t place;
	uint8_t signature[TICKET_SIGNATURE_SIZE]; /* of the tree's struct ticket_root */
	/* of the sibling, of its parent's sibling, and so on below the root; zero from there on */
	uint8_t path[TICKET_DEPTH_MAX][TICKET_DIGEST_SIZE];
};

/** Marks the digest of a source as that of a csi or a native volume. The server, which has only the digest
 * after a restore, must not take one for the other: only a csi volume is detached. */
static inline void ticket_mark_digest(uint8_t digest[static TICKET_DIGEST_SIZE], bool is_csi)
{
	digest[0] = (uint8_t)((digest[0] & ~TICKET_DIGEST_CSI) | (is_csi ? TICKET_DIGEST_CSI : 0));
}

enum { TICKET_BODY_SIZE = offsetof(struct ticket, place) };

/** Returns the version of the ticket in these bytes, for tickets of any length; 0: too short. */
static inline uint16_t ticket_version(const void *bytes, size_t n)
{
	uint16_t version = 0;

	if (n >= offsetof(struct ticket, version) + sizeof(version))
		memcpy(&version, (const char *)bytes + offsetof(struct ticket, version), sizeof(version));
	return version;
}

/** Are these bytes a ticket of this version? Another one may be as long, and mean something else. */
static inline bool ticket_is_current(const void *bytes, size_t n)
{
	return n == sizeof(struct ticket) && ticket_version(bytes, n) == TICKET_VERSION;
}

/* The signed struct: with its own magic, so that it is nothing else that the key might sign. */
struct ticket_root {
	uint32_t magic;
	uint16_t version;  /* of the tickets */
	uint16_t reserved; /* 0 */
	uint8_t hash[TICKET_DIGEST_SIZE];
};

/* The input of the hash. */
struct ticket_leaf {
	uint8_t prefix; /* 0 */
	uint8_t body[TICKET_BODY_SIZE];
};
struct ticket_node {
	uint8_t prefix; /* 1 */
	uint8_t child[2][TICKET_DIGEST_SIZE];
};

_Static_assert(sizeof(struct ticket) == 416 + sizeof(((struct ticket *)0)->path),
	       "the ticket has no padding");
_Static_assert(sizeof(struct ticket_root) == 40, "no padding");
_Static_assert(sizeof(struct ticket_leaf) == 352 && sizeof(struct ticket_node) == 65, "no padding");
_Static_assert(2 * TICKET_BATCH_MAX <= UINT8_MAX + 1, "a place fits its byte");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tickets and helper messages are little endian");

#pragma once
/* The ticket: what the claim server allows one node to mount for one allocation in one boot.
 *
 * A fixed-size little-endian struct signed with Ed25519. The claim server makes it, the agent carries it
 * without being able to change it, the mount helper verifies it. Every string is NUL-terminated and zero to
 * its end, so that one meaning has one byte form. The signature covers every byte before it. */

#include <stdint.h>

enum {
	TICKET_MAGIC = 0x4b544648, /* "HFTK" */
	TICKET_VERSION = 1,
	TICKET_CLUSTER_SIZE = 64,
	TICKET_NODE_SIZE = 64,
	TICKET_UUID_SIZE = 40,
	TICKET_LABEL_SIZE = 64,
	TICKET_DIGEST_SIZE = 32,
	TICKET_SIGNATURE_SIZE = 64,
	TICKET_KEY_SIZE = 32,
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
	char boot_id[TICKET_UUID_SIZE]; /* /proc/sys/kernel/random/boot_id of the node */
	char volume[TICKET_LABEL_SIZE]; /* name of the volume on the wire to the helper, id_is_label() */
	char alloc[TICKET_UUID_SIZE];
	char profile[TICKET_LABEL_SIZE]; /* entry of the helper's policy; for csi volumes the plugin */
	uint8_t source_digest[TICKET_DIGEST_SIZE]; /* SHA-256 of struct mh_source with device numbers zeroed
						    */
	uint64_t generation;			   /* raised on each writer grant of the volume */
	uint64_t not_after_ms;			   /* CLOCK_REALTIME milliseconds */
	uint8_t read_only;			   /* 0 or 1; 1 forbids a writable stage and publish */
	uint8_t propagation;			   /* enum ticket_propagation */
	uint8_t reserved2[6];			   /* 0 */
	uint8_t signature[TICKET_SIGNATURE_SIZE];
};

enum { TICKET_SIGNED_SIZE = sizeof(struct ticket) - TICKET_SIGNATURE_SIZE };

_Static_assert(sizeof(struct ticket) == 464, "the ticket has no padding");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tickets and helper messages are little endian");

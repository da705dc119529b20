/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The order: permission from the claim server for one driver of one node to start, enter or make something,
 * once, in one boot.
 *
 * A fixed-size little-endian struct. The claim server makes and signs it with the key that signs tickets, the
 * agent carries it without being able to change it, the driver verifies it. Every string is NUL-terminated
 * and zero to its end, so that one meaning has one byte form.
 *
 * It has only the digest of its subject: SHA-256 of the packed message that is sent with it (TaskConfig,
 * ExecCommand or NetworkConfig of holdfast.driver.v1), of these bytes as they are. The Ed25519 signature
 * is of the order's own bytes before `signature`, whose magic begins nothing else that the key signs. */

#include <stddef.h>
#include <stdint.h>

enum {
	ORDER_MAGIC = 0x524f4648, /* "HFOR" */
	ORDER_VERSION = 1,
	ORDER_CLUSTER_SIZE = 64,
	ORDER_NODE_SIZE = 64,
	ORDER_LABEL_SIZE = 64,
	ORDER_WHO_SIZE = 128,
	ORDER_UUID_SIZE = 16, /* its bytes, id_uuid_bytes(): RFC 9562, section 4 */
	ORDER_DIGEST_SIZE = 32,
	ORDER_NONCE_SIZE = 16,
	ORDER_SIGNATURE_SIZE = 64,
	ORDER_KEY_SIZE = 32,
	ORDER_VALID_MS = 10 * 60 * 1000, /* from when it is made to not_after_ms */
};

enum order_kind {
	ORDER_START = 1,   /* of a task: TaskConfig */
	ORDER_EXEC = 2,	   /* a command in it: ExecCommand */
	ORDER_NETWORK = 3, /* the allocation's: NetworkConfig */
	ORDER_KIND_N,
};

struct order {
	uint32_t magic;
	uint16_t version;
	uint8_t kind;	  /* enum order_kind */
	uint8_t reserved; /* 0 */
	char cluster[ORDER_CLUSTER_SIZE];
	char node[ORDER_NODE_SIZE];
	char driver[ORDER_LABEL_SIZE];	  /* that it is for: its name, not its socket */
	char task[ORDER_LABEL_SIZE];	  /* id_is_label(); empty of a network */
	char who[ORDER_WHO_SIZE];	  /* asked for it, for the record */
	uint8_t boot_id[ORDER_UUID_SIZE]; /* /proc/sys/kernel/random/boot_id of the node */
	uint8_t alloc[ORDER_UUID_SIZE];
	uint8_t digest[ORDER_DIGEST_SIZE]; /* of the ordered message */
	uint8_t nonce[ORDER_NONCE_SIZE];   /* chance; no two orders have the same */
	uint64_t not_after_ms;		   /* CLOCK_REALTIME milliseconds */
	uint8_t signature[ORDER_SIGNATURE_SIZE];
};

enum { ORDER_SIGNED_SIZE = offsetof(struct order, signature) };

_Static_assert(sizeof(struct order) == 544 && ORDER_SIGNED_SIZE == 480, "the order has no padding");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "orders are little endian");

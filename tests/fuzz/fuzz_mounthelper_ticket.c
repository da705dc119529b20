/* SPDX-License-Identifier: Apache-2.0 */
/* A ticket whose signature is good: the server's mistake, or a key that leaked. What is allowed must be what
 * the request expects, byte for byte. The signature itself is taken as good (--wrap), unless its first byte
 * is 0. */

#include "ticket_check.h"

#include "base/str.h"

#include <assert.h>
#include <string.h>

static struct ticket_root root; /* whose signature was looked at last */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int __wrap_crypto_sign_verify_detached(const unsigned char *sig, const unsigned char *m, unsigned long long n,
				       const unsigned char *pk);

int __wrap_crypto_sign_verify_detached(const unsigned char *sig, const unsigned char *m, unsigned long long n,
				       const unsigned char *pk)
{
	assert(n == sizeof(root));
	memcpy(&root, m, sizeof(root));
	return sig[0] == 0 ? -1 : 0;
}

static const struct ticket_keys keys = {.n = 2};
static const int64_t now_ms = INT64_C(1700000000000);

/* All zero: it is not even looked for. */
static struct ticket_root root_of(struct ticket ticket, const struct ticket *need)
{
	memset(&root, 0, sizeof(root));
	ticket.signature[0] = 0;
	assert(ticket_check(&ticket, need, &keys, now_ms) == REASON_TICKET_SIGNATURE);
	return root;
}

/* No other place and no other path leads to the same root. */
static void move_elsewhere(struct ticket ticket, const struct ticket *need, uint8_t how)
{
	const struct ticket_root found = root_of(ticket, need);
	struct ticket_root other;

	assert(found.magic == TICKET_ROOT_MAGIC);
	if (how % 2 == 0)
		ticket.place ^= (uint8_t)(how | 1);
	else
		((uint8_t *)ticket.path)[how / 2 % sizeof(ticket.path)] ^= how;
	other = root_of(ticket, need);
	assert(memcmp(&other, &found, sizeof(found)) != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ticket need = {.magic = TICKET_MAGIC,
			      .version = TICKET_VERSION,
			      .cluster = "demo",
			      .node = "node-1",
			      .boot_id = {0x0d, 0x3b, 0x9a, 0x4c, 0x11, 0x11, 0x42, 0x22, 0x83, 0x33, 0x44,
					  0x44, 0x55, 0x55, 0x66, 0x66},
			      .volume = "vol-1",
			      .alloc = {0xaa, 0xaa, 0xaa, 0xaa, 0x11, 0x11, 0x22, 0x22, 0x33, 0x33, 0x44,
					0x44, 0x44, 0x44, 0x44, 0x44},
			      .profile = "db",
			      .source_digest = {1, 2, 3}};
	struct ticket ticket;
	size_t depth = 0;

	if (size != sizeof(ticket) + 2)
		return 0;
	memcpy(&ticket, data, sizeof(ticket));
	need.read_only = (data[sizeof(ticket)] & 1) == 0;
	need.stage_read_only = (data[sizeof(ticket)] & 2) == 0;
	need.propagation = data[sizeof(ticket) + 1] % TICKET_PROPAGATION_N;
	if (ticket_check(&ticket, &need, &keys, now_ms) != REASON_NONE)
		return 0;
	assert(ticket.signature[0] != 0 && ticket.magic == TICKET_MAGIC && ticket.version == TICKET_VERSION);
	assert(strcmp(ticket.cluster, need.cluster) == 0 && strcmp(ticket.node, need.node) == 0);
	assert(memcmp(ticket.boot_id, need.boot_id, TICKET_UUID_SIZE) == 0);
	assert(memcmp(ticket.alloc, need.alloc, TICKET_UUID_SIZE) == 0);
	assert(strcmp(ticket.volume, need.volume) == 0 && strcmp(ticket.profile, need.profile) == 0);
	assert(memcmp(ticket.source_digest, need.source_digest, TICKET_DIGEST_SIZE) == 0);
	assert(ticket.not_after_ms >= (uint64_t)now_ms && (ticket.read_only == 0 || need.read_only == 1));
	assert(ticket.stage_read_only == 0 || need.stage_read_only == 1);
	assert(ticket.propagation < TICKET_PROPAGATION_N && ticket.propagation >= need.propagation);
	assert(ticket.place >= 1 && ticket.place < 2 * TICKET_BATCH_MAX);
	while (ticket.place >> depth > 1)
		depth++;
	for (; depth < TICKET_DEPTH_MAX; depth++)
		assert(bytes_are_zero(ticket.path[depth], TICKET_DIGEST_SIZE));
	ticket.signature[1] ^= 1; /* not the one that is known now: looked at again, and good again */
	assert(ticket_check(&ticket, &need, &keys, now_ms) == REASON_NONE);
	move_elsewhere(ticket, &need, data[sizeof(ticket)]);
	return 0;
}

/* A ticket whose signature is good: the server's mistake, or a key that leaked. What is allowed must be what
 * the request expects, byte for byte. The signature itself is taken as good (--wrap), unless its first byte
 * is 0. */

#include "ticket_check.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int __wrap_crypto_sign_verify_detached(const unsigned char *sig, const unsigned char *m, unsigned long long n,
				       const unsigned char *pk);

int __wrap_crypto_sign_verify_detached(const unsigned char *sig, const unsigned char *m, unsigned long long n,
				       const unsigned char *pk)
{
	(void)m;
	(void)pk;
	assert(n == TICKET_SIGNED_SIZE);
	return sig[0] == 0 ? -1 : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct ticket_keys keys = {.n = 2};
	static const int64_t now_ms = INT64_C(1700000000000);
	struct ticket need = {.magic = TICKET_MAGIC,
			      .version = TICKET_VERSION,
			      .cluster = "demo",
			      .node = "node-1",
			      .boot_id = "0d3b9a4c-1111-4222-8333-444455556666",
			      .volume = "vol-1",
			      .alloc = "aaaaaaaa-1111-2222-3333-444444444444",
			      .profile = "db",
			      .source_digest = {1, 2, 3}};
	struct ticket ticket;

	if (size != sizeof(ticket) + 2)
		return 0;
	memcpy(&ticket, data, sizeof(ticket));
	need.read_only = (data[sizeof(ticket)] & 1) == 0;
	need.propagation = data[sizeof(ticket) + 1] % TICKET_PROPAGATION_N;
	if (ticket_check(&ticket, &need, &keys, now_ms) != REASON_NONE)
		return 0;
	assert(ticket.signature[0] != 0 && ticket.magic == TICKET_MAGIC && ticket.version == TICKET_VERSION);
	assert(strcmp(ticket.cluster, need.cluster) == 0 && strcmp(ticket.node, need.node) == 0);
	assert(strcmp(ticket.boot_id, need.boot_id) == 0 && strcmp(ticket.volume, need.volume) == 0);
	assert(strcmp(ticket.alloc, need.alloc) == 0 && strcmp(ticket.profile, need.profile) == 0);
	assert(memcmp(ticket.source_digest, need.source_digest, TICKET_DIGEST_SIZE) == 0);
	assert(ticket.not_after_ms >= (uint64_t)now_ms && (ticket.read_only == 0 || need.read_only == 1));
	assert(ticket.propagation < TICKET_PROPAGATION_N && ticket.propagation >= need.propagation);
	ticket.signature[1] ^= 1; /* not the one that is known now: looked at again, and good again */
	assert(ticket_check(&ticket, &need, &keys, now_ms) == REASON_NONE);
	ticket.signature[0] = 0;
	assert(ticket_check(&ticket, &need, &keys, now_ms) == REASON_TICKET_SIGNATURE);
	return 0;
}

#include "ticket_check.h"

#include "wire.h"

#include "base/str.h"

#include <sodium.h>
#include <string.h>

_Static_assert(TICKET_SIGNATURE_SIZE == crypto_sign_BYTES, "Ed25519");
_Static_assert(TICKET_KEY_SIZE == crypto_sign_PUBLICKEYBYTES, "Ed25519");
_Static_assert(TICKET_DIGEST_SIZE == crypto_hash_sha256_BYTES, "SHA-256");

bool ticket_is_absent(const struct ticket *ticket)
{
	return wire_is_zero(ticket, sizeof(*ticket));
}

void ticket_source_digest(const struct mh_source *source, uint8_t ret[static TICKET_DIGEST_SIZE])
{
	struct mh_source plain = *source;

	if (plain.class == MH_CLASS_BLOCK) {
		plain.u.block.major = 0;
		plain.u.block.minor = 0;
	}
	(void)crypto_hash_sha256(ret, (const unsigned char *)&plain, sizeof(plain)); /* cannot fail */
}

static bool is_signed(const struct ticket *ticket, const struct ticket_keys *keys)
{
	for (uint32_t i = 0; i < keys->n; i++)
		if (crypto_sign_verify_detached(ticket->signature, (const unsigned char *)ticket,
						TICKET_SIGNED_SIZE, keys->key[i]) == 0)
			return true;
	return false;
}

static bool is_well_formed(const struct ticket *t)
{
	return t->magic == TICKET_MAGIC && t->version == TICKET_VERSION && t->reserved == 0 &&
	       wire_is_zero(t->reserved2, sizeof(t->reserved2)) && t->read_only <= 1 &&
	       t->propagation < TICKET_PROPAGATION_N && wire_is_string(t->cluster, sizeof(t->cluster)) &&
	       wire_is_string(t->node, sizeof(t->node)) && wire_is_string(t->boot_id, sizeof(t->boot_id)) &&
	       wire_is_string(t->volume, sizeof(t->volume)) && wire_is_string(t->alloc, sizeof(t->alloc)) &&
	       wire_is_string(t->profile, sizeof(t->profile));
}

enum reason ticket_check(const struct ticket *t, const struct ticket_expectation *want)
{
	if (ticket_is_absent(t))
		return REASON_TICKET_MISSING;
	if (!is_signed(t, want->keys))
		return REASON_TICKET_SIGNATURE;
	if (!is_well_formed(t))
		return REASON_TICKET_FORMAT;
	if (!str_eq(t->cluster, want->cluster))
		return REASON_TICKET_CLUSTER;
	if (!str_eq(t->node, want->node))
		return REASON_TICKET_NODE;
	if (!str_eq(t->boot_id, want->boot_id))
		return REASON_TICKET_BOOT;
	if (want->now_ms < 0 || (uint64_t)want->now_ms > t->not_after_ms)
		return REASON_TICKET_EXPIRED;
	if (!str_eq(t->volume, want->volume))
		return REASON_TICKET_VOLUME;
	if (!str_eq(t->alloc, want->alloc))
		return REASON_TICKET_ALLOC;
	if (!str_eq(t->profile, want->profile))
		return REASON_TICKET_PROFILE;
	if (want->source_digest && memcmp(t->source_digest, want->source_digest, TICKET_DIGEST_SIZE) != 0)
		return REASON_TICKET_SOURCE;
	if (t->read_only == 1 && want->writable)
		return REASON_TICKET_READ_ONLY;
	if (want->propagation > t->propagation)
		return REASON_TICKET_PROPAGATION;
	return REASON_NONE;
}

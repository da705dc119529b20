#include "ticket_check.h"

#include "base/str.h"

#include <sodium.h>
#include <string.h>

_Static_assert(TICKET_SIGNATURE_SIZE == crypto_sign_BYTES, "Ed25519");
_Static_assert(TICKET_KEY_SIZE == crypto_sign_PUBLICKEYBYTES, "Ed25519");
_Static_assert(TICKET_DIGEST_SIZE == crypto_hash_sha256_BYTES, "SHA-256");

/* A ticket comes with STAGE and with each PUBLISH: the last ones whose signature was good, whole, with the
 * key that it was good for. */
static struct {
	struct ticket ticket;
	uint8_t key[TICKET_KEY_SIZE];
} verified[TICKET_CACHE_SIZE];
static unsigned int n_verified;

bool ticket_is_absent(const struct ticket *ticket)
{
	return bytes_are_zero(ticket, sizeof(*ticket));
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

static bool is_verified(const struct ticket *ticket, const uint8_t *key)
{
	for (size_t i = 0; i < TICKET_CACHE_SIZE; i++)
		if (memcmp(&verified[i].ticket, ticket, sizeof(*ticket)) == 0 &&
		    memcmp(verified[i].key, key, TICKET_KEY_SIZE) == 0)
			return true;
	return false;
}

static bool verify(const struct ticket *ticket, const uint8_t *key)
{
	unsigned int slot = n_verified % TICKET_CACHE_SIZE;

	if (crypto_sign_verify_detached(ticket->signature, (const unsigned char *)ticket, TICKET_SIGNED_SIZE,
					key) != 0)
		return false;
	verified[slot].ticket = *ticket;
	memcpy(verified[slot].key, key, TICKET_KEY_SIZE);
	n_verified++;
	return true;
}

static bool is_signed(const struct ticket *ticket, const struct ticket_keys *keys)
{
	for (uint32_t i = 0; i < keys->n; i++)
		if (is_verified(ticket, keys->key[i]) || verify(ticket, keys->key[i]))
			return true;
	return false;
}

static bool is_well_formed(const struct ticket *t)
{
	return t->magic == TICKET_MAGIC && t->version == TICKET_VERSION && t->reserved == 0 &&
	       bytes_are_zero(t->reserved2, sizeof(t->reserved2)) && t->read_only <= 1 &&
	       t->propagation < TICKET_PROPAGATION_N && str_is_padded(t->cluster, sizeof(t->cluster)) &&
	       str_is_padded(t->node, sizeof(t->node)) && str_is_padded(t->boot_id, sizeof(t->boot_id)) &&
	       str_is_padded(t->volume, sizeof(t->volume)) && str_is_padded(t->alloc, sizeof(t->alloc)) &&
	       str_is_padded(t->profile, sizeof(t->profile));
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

/* SPDX-License-Identifier: Apache-2.0 */
#include "ticket_check.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <assert.h>
#include <sodium.h>
#include <stddef.h>
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

	assert(source->class > 0 && source->class < MH_CLASS_N);
	if (plain.class == MH_CLASS_BLOCK)
		plain.u.block.major = plain.u.block.minor = 0;
	(void)crypto_hash_sha256(ret, (const unsigned char *)&plain, sizeof(plain)); /* cannot fail */
	ticket_mark_digest(ret, source->class == MH_CLASS_CSI);
}

static bool is_verified(const struct ticket *ticket, const uint8_t *key)
{
	for (size_t i = 0; i < TICKET_CACHE_SIZE; i++)
		if (memcmp(&verified[i].ticket, ticket, sizeof(*ticket)) == 0 &&
		    memcmp(verified[i].key, key, TICKET_KEY_SIZE) == 0)
			return true;
	return false;
}

/* Computes the root of the tree in which @ticket claims to be a leaf. False: the claim has not the one valid
 * form. Nothing of this is trusted before the root's signature is verified. */
static bool find_root(const struct ticket *ticket, struct ticket_root *ret)
{
	struct ticket_leaf leaf = {.prefix = 0};
	struct ticket_node node = {.prefix = 1};
	size_t depth = 0;

	if (ticket->place < 1 || ticket->place >= 2 * TICKET_BATCH_MAX)
		return false;
	*ret = (struct ticket_root){.magic = TICKET_ROOT_MAGIC, .version = TICKET_VERSION};
	memcpy(leaf.body, ticket, sizeof(leaf.body));
	(void)crypto_hash_sha256(ret->hash, (const unsigned char *)&leaf, sizeof(leaf));
	for (unsigned int place = ticket->place; place > 1; place /= 2) {
		memcpy(node.child[place % 2], ret->hash, TICKET_DIGEST_SIZE);
		memcpy(node.child[1 - place % 2], ticket->path[depth++], TICKET_DIGEST_SIZE);
		(void)crypto_hash_sha256(ret->hash, (const unsigned char *)&node, sizeof(node));
	}
	return bytes_are_zero(ticket->path + depth, sizeof(ticket->path) - depth * TICKET_DIGEST_SIZE);
}

static bool verify(const struct ticket *ticket, const uint8_t *key)
{
	unsigned int slot = n_verified % TICKET_CACHE_SIZE;
	struct ticket_root root;

	if (!find_root(ticket, &root) ||
	    crypto_sign_verify_detached(ticket->signature, (const void *)&root, sizeof(root), key) != 0)
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

/* Fields that must equal those of the request, to the last byte: names have one form, with zeroes to their
 * end. */
#define EXACT(field, reason)                                                                  \
	{                                                                                     \
		offsetof(struct ticket, field), sizeof(((struct ticket *)0)->field), (reason) \
	}
static const struct {
	size_t at;
	size_t size;
	enum reason reason;
} exact[] = {
	EXACT(magic, REASON_TICKET_FORMAT),	    EXACT(version, REASON_TICKET_FORMAT),
	EXACT(reserved, REASON_TICKET_FORMAT),	    EXACT(reserved2, REASON_TICKET_FORMAT),
	EXACT(cluster, REASON_TICKET_CLUSTER),	    EXACT(node, REASON_TICKET_NODE),
	EXACT(boot_id, REASON_TICKET_BOOT),	    EXACT(volume, REASON_TICKET_VOLUME),
	EXACT(alloc, REASON_TICKET_ALLOC),	    EXACT(profile, REASON_TICKET_PROFILE),
	EXACT(source_digest, REASON_TICKET_SOURCE), EXACT(slot, REASON_TICKET_SLOT),
};

enum reason ticket_check(const struct ticket *t, const struct ticket *need, const struct ticket_keys *keys,
			 int64_t now_ms)
{
	assert(keys->n <= POLICY_KEY_MAX);
	if (ticket_is_absent(t))
		return REASON_TICKET_MISSING;
	if (!is_signed(t, keys))
		return REASON_TICKET_SIGNATURE;
	for (size_t i = 0; i < ARRAY_SIZE(exact); i++)
		if (memcmp((const char *)t + exact[i].at, (const char *)need + exact[i].at, exact[i].size) !=
		    0)
			return exact[i].reason;
	if (t->read_only > 1 || t->stage_read_only > 1 || t->propagation >= TICKET_PROPAGATION_N)
		return REASON_TICKET_FORMAT;
	if (now_ms < 0 || (uint64_t)now_ms > t->not_after_ms)
		return REASON_TICKET_EXPIRED;
	if (t->read_only > need->read_only || t->stage_read_only > need->stage_read_only)
		return REASON_TICKET_READ_ONLY;
	return t->propagation < need->propagation ? REASON_TICKET_PROPAGATION : REASON_NONE;
}

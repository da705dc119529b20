/* SPDX-License-Identifier: Apache-2.0 */
#include "state/token_index.h"

#include "base/str.h"

#include <holdfast/v1/operator.pb-c.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

struct token_index_entry {
	uint8_t hash[TOKEN_HASH_SIZE];
	char accessor[UUID_SIZE];
	RB_ENTRY(token_index_entry) by_hash;
};

/* The time of a look-up leaks only hashes, which do not help to find secrets. */
static int compare(const struct token_index_entry *a, const struct token_index_entry *b)
{
	return memcmp(a->hash, b->hash, sizeof(a->hash));
}

TREE_GENERATE(token_index_tree, token_index_entry, by_hash, compare)

void token_index_init(struct token_index *index)
{
	RB_INIT(&index->by_hash);
	index->n = 0;
}

void token_index_release(struct token_index *index)
{
	struct token_index_entry *entry;

	while ((entry = RB_MIN(token_index_tree, &index->by_hash))) {
		RB_REMOVE(token_index_tree, &index->by_hash, entry);
		free(entry);
	}
	index->n = 0;
}

static struct token_index_entry *token_index_slot(struct token_index *index, const uint8_t *hash)
{
	struct token_index_entry wanted;

	memcpy(wanted.hash, hash, sizeof(wanted.hash));
	return RB_FIND(token_index_tree, &index->by_hash, &wanted);
}

static bool add(struct token_index *index, const Holdfast__V1__StoredToken *stored)
{
	struct token_index_entry *entry = calloc(1, sizeof(*entry));

	if (!entry)
		return false;
	memcpy(entry->hash, stored->secret_sha256.data, sizeof(entry->hash));
	(void)str_copy(entry->accessor, sizeof(entry->accessor), stored->token->accessor);
	RB_INSERT(token_index_tree, &index->by_hash, entry);
	index->n++;
	return true;
}

bool token_index_note(struct token_index *index, const ProtobufCMessage *message, bool is_gone)
{
	const Holdfast__V1__StoredToken *stored = (const Holdfast__V1__StoredToken *)message;
	struct token_index_entry *entry;

	if (!stored->token || stored->secret_sha256.len != TOKEN_HASH_SIZE)
		return true; /* damaged: no secret matches it */
	entry = token_index_slot(index, stored->secret_sha256.data);
	if (!entry)
		return is_gone || add(index, stored);
	if (is_gone) {
		RB_REMOVE(token_index_tree, &index->by_hash, entry);
		index->n--;
		free(entry);
	}
	return true;
}

const char *token_index_find(struct token_index *index, const uint8_t hash[static TOKEN_HASH_SIZE])
{
	struct token_index_entry *entry = token_index_slot(index, hash);

	return entry && CRYPTO_memcmp(entry->hash, hash, sizeof(entry->hash)) == 0 ? entry->accessor : NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Finding a token by the hash of its secret, without a walk. Kept by records.c with the records it is of. */

#include "base/tree.h"
#include "base/uuid.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TOKEN_HASH_SIZE = 32 /* SHA-256 */ };

struct token_index_entry;
RB_HEAD(token_index_tree, token_index_entry);

struct token_index {
	struct token_index_tree by_hash;
	size_t n; /* tokens, expired ones too */
};

void token_index_init(struct token_index *index);
void token_index_release(struct token_index *index);

/** The record of a token was put, or (@is_gone) is about to be forgotten. False when memory is short. */
bool token_index_note(struct token_index *index, const ProtobufCMessage *message, bool is_gone);

/** Accessor of the token whose secret has this hash, or NULL; borrowed until the index changes. Compares the
 * whole hash in constant time at the end. */
const char *token_index_find(struct token_index *index, const uint8_t hash[static TOKEN_HASH_SIZE]);

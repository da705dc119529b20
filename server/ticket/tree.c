/* SPDX-License-Identifier: Apache-2.0 */
#include "ticket/tree.h"

#include "base/str.h"

#include <assert.h>
#include <openssl/evp.h>
#include <sodium.h>
#include <string.h>

/* OpenSSL's knows what the processor can do and takes a third of the time, but needs memory. */
static void digest(const EVP_MD *sha256, const void *bytes, size_t n, uint8_t *ret)
{
	if (EVP_Digest(bytes, n, ret, NULL, sha256, NULL) != 1)
		(void)crypto_hash_sha256(ret, bytes, n); /* cannot fail */
}

static void leaf_hash(const EVP_MD *sha256, const struct ticket *ticket, uint8_t *ret)
{
	struct ticket_leaf leaf = {.prefix = 0};

	memcpy(leaf.body, ticket, sizeof(leaf.body));
	digest(sha256, &leaf, sizeof(leaf), ret);
}

/* @ret may be one of the children. */
static void node_hash(const EVP_MD *sha256, const uint8_t *left, const uint8_t *right, uint8_t *ret)
{
	struct ticket_node node = {.prefix = 1};

	memcpy(node.child[0], left, TICKET_DIGEST_SIZE);
	memcpy(node.child[1], right, TICKET_DIGEST_SIZE);
	digest(sha256, &node, sizeof(node), ret);
}

static struct ticket_root root_of(const uint8_t *hash)
{
	struct ticket_root root = {.magic = TICKET_ROOT_MAGIC, .version = TICKET_VERSION};

	memcpy(root.hash, hash, sizeof(root.hash));
	return root;
}

/* The way up from a leaf, while the tree is built. */
struct way {
	unsigned int depth;
	unsigned int turns; /* bit k: on the right, k levels above the leaf */
};

static void add_level(struct ticket *ticket, struct way *way, bool is_right, const uint8_t *sibling)
{
	memcpy(ticket->path[way->depth], sibling, TICKET_DIGEST_SIZE);
	way->turns |= (unsigned int)is_right << way->depth;
	way->depth++;
}

/* From the leaves up: two neighbours become one node; the last one of an odd number stays what it is, for the
 * next level. That is the tree of RFC 9162. */
struct ticket_root ticket_tree_make(const EVP_MD *sha256, struct ticket *const *tickets, size_t n)
{
	uint8_t hash[TICKET_BATCH_MAX][TICKET_DIGEST_SIZE]; /* of the node whose first leaf has the index */
	struct way ways[TICKET_BATCH_MAX] = {{0}};

	assert(n > 0 && n <= TICKET_BATCH_MAX);
	for (size_t i = 0; i < n; i++) {
		memset(tickets[i]->path, 0, sizeof(tickets[i]->path));
		leaf_hash(sha256, tickets[i], hash[i]);
	}
	for (size_t width = 1; width < n; width *= 2) {
		for (size_t left = 0; left + width < n; left += 2 * width) {
			size_t right = left + width;

			for (size_t i = left; i < right + width && i < n; i++)
				add_level(tickets[i], &ways[i], i >= right, hash[i < right ? right : left]);
			node_hash(sha256, hash[left], hash[right], hash[left]);
		}
	}
	for (size_t i = 0; i < n; i++)
		tickets[i]->place = (uint8_t)(1U << ways[i].depth | ways[i].turns);
	return root_of(hash[0]);
}

bool ticket_tree_root(const EVP_MD *sha256, const struct ticket *ticket, struct ticket_root *ret)
{
	uint8_t hash[TICKET_DIGEST_SIZE];
	size_t depth = 0;

	if (ticket->place < 1 || ticket->place >= 2 * TICKET_BATCH_MAX)
		return false;
	leaf_hash(sha256, ticket, hash);
	for (unsigned int place = ticket->place; place > 1; place /= 2) {
		const uint8_t *sibling = ticket->path[depth++];
		bool is_right = place % 2 == 1;

		node_hash(sha256, is_right ? sibling : hash, is_right ? hash : sibling, hash);
	}
	*ret = root_of(hash);
	return bytes_are_zero(ticket->path + depth, sizeof(ticket->path) - depth * TICKET_DIGEST_SIZE);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/receipts.h"

#include "base/str.h"
#include "base/tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct node {
	RB_ENTRY(node) entry;
	struct receipt receipt;
};

RB_HEAD(receipt_tree, node);

struct receipts {
	struct receipt_tree tree;
	size_t n;
};

static int compare(const struct node *a, const struct node *b)
{
	int order = strcmp(a->receipt.claim_id, b->receipt.claim_id);

	return order ? order : (int)a->receipt.is_released - (int)b->receipt.is_released;
}

TREE_GENERATE(receipt_tree, node, entry, compare)

struct receipts *receipts_new(void)
{
	struct receipts *receipts = calloc(1, sizeof(*receipts));

	if (receipts)
		RB_INIT(&receipts->tree);
	return receipts;
}

void receipts_free(struct receipts *receipts)
{
	struct node *node, *next;

	if (!receipts)
		return;
	RB_FOREACH_SAFE (node, receipt_tree, &receipts->tree, next) {
		RB_REMOVE(receipt_tree, &receipts->tree, node);
		free(node);
	}
	free(receipts);
}

static struct node *receipt_find(const struct receipts *receipts, const char *claim_id, bool is_released)
{
	struct receipt_tree root = receipts->tree; /* a lookup changes nothing, the macro does not know */
	struct node key = {.receipt.is_released = is_released};

	if (str_copy(key.receipt.claim_id, sizeof(key.receipt.claim_id), claim_id) < 0)
		return NULL;
	return RB_FIND(receipt_tree, &root, &key);
}

enum status receipts_add(struct receipts *receipts, const struct receipt *receipt, struct error *err)
{
	struct node *node = receipt_find(receipts, receipt->claim_id, receipt->is_released);

	if (!node) {
		if (receipts->n >= RECEIPTS_MAX)
			return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
					 "%d receipts wait for the server already", RECEIPTS_MAX);
		node = calloc(1, sizeof(*node));
		if (!node)
			return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot note a receipt");
		node->receipt = *receipt;
		RB_INSERT(receipt_tree, &receipts->tree, node);
		receipts->n++;
		return STATUS_OK;
	}
	node->receipt = *receipt;
	return STATUS_OK;
}

bool receipts_remove(struct receipts *receipts, const char *claim_id, bool is_released)
{
	struct node *node = receipt_find(receipts, claim_id, is_released);

	if (!node)
		return false;
	RB_REMOVE(receipt_tree, &receipts->tree, node);
	receipts->n--;
	free(node);
	return true;
}

const struct receipt *receipts_find(const struct receipts *receipts, const char *claim_id, bool is_released)
{
	const struct node *node = receipt_find(receipts, claim_id, is_released);

	return node ? &node->receipt : NULL;
}

size_t receipts_count(const struct receipts *receipts)
{
	return receipts->n;
}

const struct receipt *receipts_next(const struct receipts *receipts, const struct receipt *previous)
{
	struct receipt_tree root = receipts->tree;
	struct node *node =
		previous ? receipt_find(receipts, previous->claim_id, previous->is_released) : NULL;

	node = previous ? RB_NEXT(receipt_tree, &root, node) : RB_MIN(receipt_tree, &root);
	return node ? &node->receipt : NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Holds the node's receipts for claims that the server has not acknowledged yet. Pure bookkeeping: the
 * journal makes them durable, the session sends them. */

#include "base/error.h"
#include "model/claim.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RECEIPTS_MAX = 65536 };

struct receipt {
	char claim_id[UUID_TEXT_SIZE];
	char boot_id[UUID_TEXT_SIZE];
	uint64_t generation;
	bool is_released;		   /* false: mounted */
	bool is_without_plugin;		   /* only the helper released it, as an operator wanted */
	char kernel[KERNEL_WORDS_MAX + 1]; /* the kernel's state at that time */
};

struct receipts;

/** NULL when memory is short. */
struct receipts *receipts_new(void);
void receipts_free(struct receipts *receipts);

/** Adds a receipt or replaces the claim's same one. STATUS_RESOURCE_EXHAUSTED above RECEIPTS_MAX. */
enum status receipts_add(struct receipts *receipts, const struct receipt *receipt, struct error *err);

/** Returns whether there was one. */
bool receipts_remove(struct receipts *receipts, const char *claim_id, bool is_released);

const struct receipt *receipts_find(const struct receipts *receipts, const char *claim_id, bool is_released);

size_t receipts_count(const struct receipts *receipts);

/** In the order of claims, mounted before released; NULL at the end. @previous NULL: the first. */
const struct receipt *receipts_next(const struct receipts *receipts, const struct receipt *previous);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The Merkle tree of a batch of tickets, as proto/ticket.h has it. Pure. */

#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <ticket.h>

/** Make @tickets, 1 to TICKET_BATCH_MAX of them whose bodies are complete, the leaves of a tree: sets their
 * place and path. Returns what is to be signed. */
struct ticket_root ticket_tree_make(const EVP_MD *sha256, struct ticket *const *tickets, size_t n);

/** The root of the tree in which @ticket is the leaf that it says it is. False when it does not say so in the
 * one form; @ret means nothing then. */
bool ticket_tree_root(const EVP_MD *sha256, const struct ticket *ticket, struct ticket_root *ret);

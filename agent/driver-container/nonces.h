/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Which orders were used in this boot, kept in a file that is only appended to.
 *
 * An order is begun before anything is done for it, and done when it must never do anything again. Those that
 * have expired may be forgotten: then every order that ends no later than the latest of them counts as used.
 * The end of a task never waits for a place: orders leave it some, and the oldest ends give way, for which
 * the orders that were made before them count as used. Without a place no order is begun. The file
 * has room for the ends of 8192 tasks, which a full disk and orders leave to them: an end is one line,
 * however many orders the task had. */

#include "base/error.h"

#include <order.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NONCES_MAX = 1 << 16 }; /* that have not expired */

enum nonce_use { NONCE_NEW, NONCE_BEGUN, NONCE_DONE };

struct nonces;

/** Opens or makes the list at @path; begins a new one if it is of another boot.
 * @ret owned by the caller, nonces_free(). STATUS_DATA_LOSS for a file that is no such list. */
enum status nonces_open(const char *path, const char *boot_id, struct nonces **ret, struct error *err);
void nonces_free(struct nonces *nonces);

enum nonce_use nonces_look(struct nonces *nonces, const struct order *order);

/** Is the end of the order's task known, by nonces_finish_task()? One that gave way is not. */
bool nonces_has_ended(struct nonces *nonces, const struct order *order);

/** Durable when it returns STATUS_OK. @now_ms to forget those that have expired when there are many. */
enum status nonces_begin(struct nonces *nonces, const struct order *order, int64_t now_ms, struct error *err);

/** Marks a nonce that was begun as finished, durably. Does nothing for an unknown one. */
enum status nonces_finish(struct nonces *nonces, const uint8_t nonce[static ORDER_NONCE_SIZE],
			  struct error *err);

/** nonces_finish() of all at once that were begun for @task of @alloc, a UUID; the network's for an empty
 * one. Orders of the task that are first shown later count as used too: a task of an allocation is started
 * once in a boot.
 * @now_ms to forget that when each such order has expired long since; in a full list, as the clock of the
 * server that the begun orders showed has it, and five minutes later. */
enum status nonces_finish_task(struct nonces *nonces, const char *alloc, const char *task, int64_t now_ms,
			       struct error *err);

/** How many entries were looked at, by all functions together. */
size_t nonces_n_compared(const struct nonces *nonces);

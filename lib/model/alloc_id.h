/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Ids of allocations. An id is a path on its node (PUBLISH/ID/SLOT) and a name in each engine, and may be
 * given again once the server has forgotten it. So each id ends in a mark of its namespace, and work of one
 * namespace does not get the path of another's. Pure but for alloc_id_new(). */

#include "base/uuid.h"

#include <stdbool.h>

enum { ALLOC_ID_MARK_SIZE = sizeof("8mmm-mmmmmmmmmmmm") };

/** Writes the last 17 characters of each id of @namespace ("": the default one): "8", and the first 15 hex
 * digits of the SHA-256 of its name. A tenant who may choose names (a rule with "*") finds one with a given
 * mark in 2^60 tries. */
void alloc_id_mark(const char *namespace, char ret[static ALLOC_ID_MARK_SIZE]);

/** Does @id, a UUID, end in the mark of @namespace? */
bool alloc_id_is_of(const char *id, const char *namespace);

/** Writes a new id of @namespace: a UUIDv8 that begins with the time in units of 16 seconds, so that lists
 * are in its order, and has 32 random bits: a second submission of one id counts as a repetition. A caller
 * who knows the ids of others makes a new one if it is taken. Returns 0 or a negative errno of getrandom(2).
 * Source: RFC 9562, section 5.8. */
int alloc_id_new(const char *namespace, char ret[static UUID_SIZE]);

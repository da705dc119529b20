/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What people see of a stored object who look into the database with the sqlite3 shell: its message as JSON
 * beside its value, and views with a column per thing of interest.
 *
 * Whoever may read the file sees the values anyway; but a text ends up in tickets and chats, so secrets,
 * hashes of secrets and what providers may have hidden in free maps are left out of it. */

#include "store/kv.h"

#include <protobuf-c/protobuf-c.h>

enum { TEXT_MAX = 64 << 10 };

/** JSON of @message, which is about to be stored under @key: owned by the caller. NULL: the object has none,
 * or it would be longer than TEXT_MAX, or memory is short. */
char *text_of(const char *key, const ProtobufCMessage *message);

/** text_of() what is stored under @key. */
char *text_of_stored(const char *key, const void *value, size_t len);

/** Make the views of the database. */
enum status text_define_views(struct kv *kv, struct error *err);

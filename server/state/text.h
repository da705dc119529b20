/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The text of a stored object for people who read the database with the sqlite3 shell: its message as JSON in
 * a second column, and views with a column per interesting field.
 *
 * Readers of the file see the values anyway, but texts end up in tickets and chats. So secrets, hashes of
 * secrets and free maps, in which providers may hide secrets, are left out. */

#include "store/kv.h"

#include <protobuf-c/protobuf-c.h>

enum { TEXT_MAX = 64 << 10 };

/** Returns JSON of @message, which is about to be stored under @key: owned by the caller. NULL: the object
 * has no text, or it would be longer than TEXT_MAX, or memory is short. */
char *text_of(const char *key, const ProtobufCMessage *message);

/** Same as text_of(), for the value stored under @key. */
char *text_of_stored(const char *key, const void *value, size_t len);

/** Makes the views of the database. */
enum status text_define_views(struct kv *kv, struct error *err);

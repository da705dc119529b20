/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A protobuf message that may hold secrets: a copy in memory that is wiped when it is freed, never written
 * anywhere. Shared by counting, as a record and the operations begun from it need it. */

#include "base/error.h"

#include <protobuf-c/protobuf-c.h>

struct secret_message;

/** A deep copy of @from. @ret owned by the caller, secret_message_unref() */
enum status secret_message_new(const ProtobufCMessage *from, struct secret_message **ret, struct error *err);

/** Returns @secret; NULL is allowed. */
struct secret_message *secret_message_ref(struct secret_message *secret);

/** The last one wipes it. NULL is allowed. */
void secret_message_unref(struct secret_message *secret);

/** Borrowed, of the type it was made from. */
const ProtobufCMessage *secret_message_get(const struct secret_message *secret);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What a call keeps of its request until it ends. */

#include <protobuf-c/protobuf-c.h>

/** A copy with the entries of every map in the order of their keys, so that equal requests are equal bytes.
 * Owned by the caller, csi_request_free(); NULL when memory is short. */
ProtobufCMessage *csi_request_copy(const ProtobufCMessage *request);

/** Free a copy; what was in it is wiped, secrets are among it. NULL is allowed. */
void csi_request_free(ProtobufCMessage *request);

/** What the request is about: "volume" and its id, of a volume or snapshot to be made its name. NULL: nothing
 * in particular. @ret_kind untouched then. */
const char *csi_request_subject(const ProtobufCMessage *request, const char **ret_kind);

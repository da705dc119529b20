/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The parts of its request that a call keeps until it ends. */

#include <protobuf-c/protobuf-c.h>

/** A copy with the entries of every map in the order of their keys, so that equal requests are equal bytes.
 * Owned by the caller, csi_request_free(); NULL when memory is short. */
ProtobufCMessage *csi_request_copy(const ProtobufCMessage *request);

/** Wipes and frees a copy, which may contain secrets. NULL is allowed. */
void csi_request_free(ProtobufCMessage *request);

/** Returns the id of the request's volume or snapshot, or the name of a new one, and sets *@ret_kind, e.g.
 * "volume". NULL: the request is about no object; @ret_kind untouched. */
const char *csi_request_subject(const ProtobufCMessage *request, const char **ret_kind);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Which fields of CSI's messages are never shown: those that csi.proto marks csi_secret, and mount flags, in
 * which passwords stand. */

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

bool csi_is_secret(const ProtobufCMessageDescriptor *message, const ProtobufCFieldDescriptor *field);

/** Copy @text into @ret of @size bytes, every secret of @request as [redacted]: plugins repeat the command
 * lines that fail. What does not fit is cut. */
void csi_redact(const ProtobufCMessage *request, const char *text, char *ret, size_t size);

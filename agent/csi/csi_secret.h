/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Finds the fields of CSI's messages that are never shown: those that csi.proto marks csi_secret, and mount
 * flags, which may contain passwords. */

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

bool csi_is_secret(const ProtobufCMessageDescriptor *message, const ProtobufCFieldDescriptor *field);

/** Copies @text into @ret of @size bytes, every secret of @request as [redacted]: plugins repeat the command
 * lines that fail. Cuts the text if it does not fit, and never reads much more of it than that, and where it
 * has repeated beginnings of secrets again and again: the cost is bounded. */
void csi_redact(const ProtobufCMessage *request, const char *text, char *ret, size_t size);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A CSI message as one line of text for a log: field=value, with every field marked csi_secret and all mount
 * flags as [redacted]. Pure. */

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>

/** Write at most @size - 1 bytes and a NUL; what does not fit is replaced by "..." at the end. */
void csi_text(const ProtobufCMessage *message, char *ret, size_t size);

/** @text of a plugin as one line of at most @size - 1 bytes: control characters and broken UTF-8 escaped, cut
 * with "..." between characters. @text NULL: "". */
void csi_text_line(const char *text, char *ret, size_t size);

/** The same, cut by str_copy_ends(). */
void csi_text_ends(const char *text, char *ret, size_t size);

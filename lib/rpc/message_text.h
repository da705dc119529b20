/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The strings of a message: are they text, and no trace of them. */

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

/** Is every string of @message, those of messages inside it included, UTF-8? Otherwise *@ret_field is the
 * name of the first field that is not. protobuf-c does not look; what got in here could not be shown as JSON.
 */
bool message_text_is_valid(const ProtobufCMessage *message, const char **ret_field);

/** Overwrite all strings and bytes of @message before it is freed; those of messages inside it included.
 * @message owned whole by the caller, as protobuf_c_message_unpack() makes it */
void message_text_wipe(ProtobufCMessage *message);

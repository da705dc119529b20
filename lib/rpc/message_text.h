#pragma once
/* Are the strings of a message text? protobuf-c does not look; what got in here could not be shown as JSON.
 */

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

/** Is every string of @message, those of messages inside it included, UTF-8? Otherwise *@ret_field is the
 * name of the first field that is not. */
bool message_text_is_valid(const ProtobufCMessage *message, const char **ret_field);

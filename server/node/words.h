/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The texts of nodes and fencers, which people read among those of the server. */

#include <protobuf-c/protobuf-c.h>

/** Makes each text of @message, which a node or fencer has sent, one reason, in place: str_make_one_reason().
 * Only what a plugin, driver or task gets as it is stays. */
void words_take(const ProtobufCMessage *message);

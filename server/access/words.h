/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The texts of nodes and fencers, which people read among those of the server. */

#include <protobuf-c/protobuf-c.h>

/** Makes each text of @message, which was unpacked from a node or fencer, one reason, in place:
 * str_make_one_reason(). Frees its fields that are not known here. Only what a plugin, driver or task gets as
 * it is stays. */
void words_take(const ProtobufCMessage *message);

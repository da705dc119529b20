/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Model values to protobuf messages and back, by tables of fields; the wire's enums have the model's numbers.
 */

#include "base/error.h"
#include "model/alloc.h"
#include "model/claim.h"
#include "model/node.h"
#include "model/volume.h"

#include <holdfast/v1/plugins.pb-c.h>
#include <holdfast/v1/types.pb-c.h>

/** @ret owned by the caller, protobuf_c_message_free_unpacked(); NULL when memory is short. */
Holdfast__V1__Volume *volume_to_pb(const struct volume *volume);
Holdfast__V1__Claim *claim_to_pb(const struct claim *claim);
Holdfast__V1__Allocation *alloc_to_pb(const struct alloc *alloc);
/** For nodes. */
Holdfast__V1__Allocation *alloc_to_pb_without_events(const struct alloc *alloc);
/** Without events and tasks, which may have hundreds of kilobytes. */
Holdfast__V1__Allocation *alloc_to_pb_short(const struct alloc *alloc);
Holdfast__V1__Node *node_to_pb(const struct node *node);
Holdfast__V1__AllocVolume *alloc_volume_to_pb(const struct alloc_volume *volume);
Holdfast__V1__NodePlugin *node_plugin_to_pb(const struct node_plugin *plugin);
Holdfast__V1__PluginInstance *plugin_instance_to_pb(const struct plugin_instance *instance);

/** The same for as long as the value stays as it is: its texts are the value's. @ret owned by the caller,
 * pb_free_borrowing(); NULL when memory is short. */
Holdfast__V1__Volume *volume_borrow_pb(const struct volume *volume);
Holdfast__V1__Claim *claim_borrow_pb(const struct claim *claim);
Holdfast__V1__Allocation *alloc_borrow_pb(const struct alloc *alloc);
Holdfast__V1__Node *node_borrow_pb(const struct node *node);
Holdfast__V1__PluginInstance *plugin_instance_borrow_pb(const struct plugin_instance *instance);

/** Free the message and those in it, not their texts. NULL is allowed. */
void pb_free_borrowing(ProtobufCMessage *message);

/** STATUS_INVALID_ARGUMENT names the field: text too long, a value outside its enum, too many entries. Absent
 * fields are zero. @ret untouched on failure; an allocation has lists of its own, see alloc_own(). */
enum status volume_from_pb(const Holdfast__V1__Volume *pb, struct volume *ret, struct error *err);
enum status claim_from_pb(const Holdfast__V1__Claim *pb, struct claim *ret, struct error *err);
enum status alloc_from_pb(const Holdfast__V1__Allocation *pb, struct alloc *ret, struct error *err);
enum status node_from_pb(const Holdfast__V1__Node *pb, struct node *ret, struct error *err);
enum status alloc_volume_from_pb(const Holdfast__V1__AllocVolume *pb, struct alloc_volume *ret,
				 struct error *err);
enum status node_plugin_from_pb(const Holdfast__V1__NodePlugin *pb, struct node_plugin *ret,
				struct error *err);
enum status plugin_instance_from_pb(const Holdfast__V1__PluginInstance *pb, struct plugin_instance *ret,
				    struct error *err);

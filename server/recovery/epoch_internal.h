/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Between epoch.c and epoch_past.c: claims that a node reports. */

#include "model/claim.h"
#include "recovery/epoch.h"

#include <protobuf-c/protobuf-c.h>

/** A claim of which the store knows nothing, that the node has let go of, by a receipt or because it is of an
 * earlier boot: its volume may still be attached at the provider. STATUS_OK when it is not proven, too: that
 * is on record. */
enum status epoch_take_past(struct session *session, struct claim *said, const ProtobufCBinaryData *ticket,
			    struct error *err);

/** The volume that @claim names, as far as that says, for one that was registered after the backup. */
void epoch_make_volume(struct server *server, const struct claim *claim, struct volume *ret);

/** What the server says about a claim that it learns of. */
void epoch_adopt(const struct claim *said, const struct volume *volume, struct claim *ret);

/** Store @claim; @entry NULL: with the volume. */
enum status epoch_store_claim(struct session *session, const struct volume_entry *entry,
			      const struct claim *claim, struct error *err);

/** Record that a claim is not adopted. */
void epoch_refuse_claim(struct session *session, const struct error *why);

/** STATUS_INVALID_ARGUMENT when the generation is beyond what can have been granted. */
enum status epoch_check_leap(struct server *server, const struct volume_entry *volume,
			     const struct claim *said, struct error *err);

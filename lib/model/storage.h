/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The identity of a volume's storage, by which two volumes of one storage are recognised in spite of
 * different ids and namespaces. Value type, no pointers; pure.
 *
 * CSI: the plugin, its id of the volume, and the volume context. A volume that the provider made, that has no
 * context, or that is known only from a node's report is identified by the provider's id: any other volume of
 * that id is the same storage. Volumes that were registered with different contexts are different: drivers
 * for network file systems take one id for any number of shares.
 * native: the entry of /dev/disk/by-id, server and export, or the host volume. A tmpfs has no identity: each
 * mount is another one. */

#include "model/message.h"
#include "model/volume.h"

#include <holdfast/v1/types.pb-c.h>
#include <stdbool.h>
#include <stdint.h>

enum { STORAGE_DIGEST_SIZE = 32 };

struct storage_id {
	bool is_known; /* false: nothing else can name it, or the provider has not yet */
	uint8_t provider[STORAGE_DIGEST_SIZE]; /* of what the provider, or the node, calls it */
	uint8_t context[STORAGE_DIGEST_SIZE];  /* all 0: everything that @provider names */
};

/** Hex of a digest of all entries of a context, in any order; "" of an empty one. */
void storage_context_digest(struct message_text_entry *const *context, size_t n,
			    char ret[static CONTEXT_DIGEST_SIZE]);

/** @detail the stored detail of @volume; may be NULL. */
void storage_identify(const struct volume *volume, const Holdfast__V1__VolumeDetail *detail,
		      struct storage_id *ret);

/** Everything that the provider of @plugin_id calls @external_id. */
void storage_identify_external(const char *plugin_id, const char *external_id, struct storage_id *ret);

/** Everything that the provider calls as it calls @id. */
struct storage_id storage_of_provider(const struct storage_id *id);

/** Can writing to one change the other? */
bool storage_is_same(const struct storage_id *a, const struct storage_id *b);

/** Equal in every byte, the same or not. */
bool storage_id_eq(const struct storage_id *a, const struct storage_id *b);

/** An order in which those of one provider's id are neighbours, and the ones without a context come first. */
int storage_compare(const struct storage_id *a, const struct storage_id *b);

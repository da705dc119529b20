/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Freed claims: history, and in the store alone. What they cost memory and start does not grow with them.
 *
 * In the transaction that frees a claim its record leaves "claim/", which is loaded, for the keys below:
 *
 *   freed/NAMESPACE/VOLUME/ID   the claim
 *   freed-id/ID                 whose it was (a Claim of namespace and volume)
 *   freed-boot/NODE/BOOT/ID     likewise
 *
 * so that it is found by its volume, by its id and by the boot that held it. Who needs one by its id recalls
 * it into the state, where it is as if it had never left; it leaves again with the next change that becomes
 * durable. In the state, too, is one whose freeing is not durable yet: readers look there first.
 *
 * A claim that its node says it has mounted still is live again; its keys go in that transaction. Those of a
 * volume that is deregistered are seen by nobody from then on, also when another one takes its name, and are
 * collected. A record that cannot be read is an error for who asks, never a claim that is not known. */

#include "state/freed_records.h"
#include "state/objects.h"
#include "state/state.h"

#include <holdfast/v1/types.pb-c.h>

struct change;
struct change_object;
struct server;

enum {
	CLAIM_HISTORY_MAX = 8, /* freed claims of a volume that are shown; that many more may be stored */
	FREED_SCAN_MAX = 250,  /* that are looked at in one turn of the event loop */
};

/** Stage that there are no records of @claim: for who makes it live again. change_put_claim() stages those of
 * one that is freed. */
void freed_stage_deletion(struct change *change, const struct claim *claim);

/** The claim with this id, live or freed; a freed one is recalled. @ret NULL: there is none. */
enum status freed_find(struct server *server, const char *id, struct claim_entry **ret, struct error *err);

/** Likewise, for who wants to know no more; false also when the store cannot be read. */
bool claim_is_known(struct server *server, const char *id);

/* Freed claims that the state does not have. */
struct freed_list {
	struct claim *claims; /* owned; of each volume the one that was freed last comes first */
	size_t n;
};
void freed_list_release(struct freed_list *list);

/** The CLAIM_HISTORY_MAX of the volume that were granted last. */
enum status freed_of_volume(struct server *server, const struct volume_entry *volume, struct freed_list *ret,
			    struct error *err);

/** Those among them, of each of its volumes, that were the allocation's. */
enum status freed_of_alloc(struct server *server, const struct alloc_entry *alloc, struct freed_list *ret,
			   struct error *err);

/** Was a freed claim of the node granted in this boot? */
enum status freed_was_in_boot(struct server *server, const char *node_id, const char *boot_id, bool *ret,
			      struct error *err);

/** Of the observers of changes: changes of claims are on their way; they are durable, and everybody was told.
 */
void freed_note_submitted(struct server *server, const struct change_object *objects, size_t n);
void freed_note_durable(struct server *server, const struct change_object *objects, size_t n);

/* A walk over all of them, in slices. */
struct freed_walk {
	char next[OBJECT_KEY_SIZE]; /* where the next slice begins; empty: at the beginning */
	int64_t before_ms;
	size_t n; /* found so far */
};

/** One slice: find what ended before @walk->before_ms and is not its volume's newest, and what has no volume
 * any more. @change NULL: they are counted; else their deletion is staged, while it has no more than @max
 * objects. @ret_done: it was the last one. */
enum status freed_collect(struct server *server, struct freed_walk *walk, struct change *change, size_t max,
			  bool *ret_done, struct error *err);

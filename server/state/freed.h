/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Freed claims: history that is kept only in the store, so memory and start time do not grow with it.
 *
 * The transaction that frees a claim moves its record from "claim/", which is loaded, to these keys:
 *
 *   freed/NAMESPACE/VOLUME/ID   the claim
 *   freed-id/ID                 its owner (a Claim of namespace and volume)
 *   freed-boot/NODE/BOOT/ID     likewise
 *
 * So it is found by its volume, by its id and by the boot that held it. freed_find() recalls a claim into the
 * state by its id; it leaves again with the next change that becomes durable. A claim whose freeing is not
 * durable yet is in the state, too: readers look there first.
 *
 * If a node reports a freed claim as mounted, the claim is live again; its keys go in that transaction.
 * The history of a deregistered volume is invisible, also when another volume takes its name, and is
 * collected. A record that cannot be read is an error for the caller, never an unknown claim. */

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

/** Stages the deletion of @claim's records, for a caller that makes it live again. change_put_claim()
 * stages those of a freed one. */
void freed_stage_deletion(struct change *change, const struct claim *claim);

/** Finds the claim with this id, live or freed; a freed one is recalled. @ret NULL: unknown id. */
enum status freed_find(struct server *server, const char *id, struct claim_entry **ret, struct error *err);

/* Freed claims that the state does not have. */
struct freed_list {
	struct claim *claims; /* owned; of each volume the one that was freed last comes first */
	size_t n;
};
void freed_list_release(struct freed_list *list);

/** The CLAIM_HISTORY_MAX of the volume that were granted last. A store in etcd is asked for a moment only:
 * STATUS_UNAVAILABLE when it does not answer, STATUS_RESOURCE_EXHAUSTED when callers ask too often. */
enum status freed_of_volume(struct server *server, const struct volume_entry *volume, struct freed_list *ret,
			    struct error *err);

/** Those among them, of each of its volumes, that were the allocation's. */
enum status freed_of_alloc(struct server *server, const struct alloc_entry *alloc, struct freed_list *ret,
			   struct error *err);

/* Ids of the freed claims of a node that are durable; all zero: not read yet. */
struct freed_ids {
	char (*ids)[UUID_TEXT_SIZE]; /* owned, in order */
	size_t n, size;
	bool is_read, is_short; /* is_short: of memory */
};
enum status freed_ids_read(struct server *server, const char *node_id, struct freed_ids *ret,
			   struct error *err);
bool freed_ids_have(const struct freed_ids *ids, const char *id);
void freed_ids_release(struct freed_ids *ids);

/** Was a freed claim of the node granted in this boot? */
enum status freed_was_in_boot(struct server *server, const char *node_id, const char *boot_id, bool *ret,
			      struct error *err);

/** Observers of changes: changes of claims were submitted; are durable, and the done function was called. */
void freed_note_submitted(struct server *server, const struct change_object *objects, size_t n);
void freed_note_durable(struct server *server, const struct change_object *objects, size_t n);

/* A walk over all of them, in slices. */
struct freed_walk {
	char next[OBJECT_KEY_SIZE]; /* where the next slice begins; empty: at the beginning */
	int64_t before_ms;
	size_t n; /* found so far */
};

/** Walks one slice. Finds claims that ended before @walk->before_ms, except the newest of each volume, and
 * claims whose volume is gone. If @change is NULL, they are only counted; else their deletion is staged
 * until @change has @max objects. @ret_done: it was the last slice. */
enum status freed_collect(struct server *server, struct freed_walk *walk, struct change *change, size_t max,
			  bool *ret_done, struct error *err);

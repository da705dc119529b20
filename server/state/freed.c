/* SPDX-License-Identifier: Apache-2.0 */
#include "state/freed.h"

#include "server.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/join.h"
#include "base/rates.h"
#include "base/str.h"
#include "model/pb.h"
#include "rpc/caller.h"
#include "rpc/server.h"
#include "state/change.h"
#include "state/keys.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { PRUNE_MAX = 24 }; /* claims in one change, with all of their keys */

_Static_assert((int)PRUNE_MAX *(int)FREED_KEYS <= (int)CHANGE_OBJECTS_MAX, "they are one change");

void freed_stage_deletion(struct change *change, const struct claim *claim)
{
	Holdfast__V1__Claim *message = claim_borrow_pb(claim);
	char keys[FREED_KEYS][OBJECT_KEY_SIZE];

	if (!message) {
		change->status = error_no_memory(&change->error, "a freed claim");
		return;
	}
	freed_keys(message, keys);
	for (size_t i = 0; i < FREED_KEYS; i++)
		change_delete_record(change, keys[i]);
	pb_free_borrowing(&message->base);
}

/* Was @claim of @volume itself, not of one that had its name before? A move or a restore numbers all records
 * again: no index shows it. */
static bool is_of(const struct claim *claim, const struct volume_entry *volume)
{
	return claim->volume_create_time_ms == volume->volume.create_time_ms;
}

/* --- one --- */

struct found {
	const struct volume_entry *volume; /* on_claim */
	struct state *state;		   /* on_reference */
	struct claim claim;
	bool is_there;
	enum status status;
	struct error *err;
};

static bool on_reference(const struct kv_item *item, void *userdata)
{
	struct found *found = userdata;

	found->status = freed_read(item, &found->claim, found->err);
	if (found->status == STATUS_OK)
		found->volume = state_volume(found->state, found->claim.namespace, found->claim.volume_id);
	return false;
}

static bool on_claim(const struct kv_item *item, void *userdata)
{
	struct found *found = userdata;

	found->status = freed_read(item, &found->claim, found->err);
	found->is_there = found->status == STATUS_OK && is_of(&found->claim, found->volume);
	return false;
}

static enum status read_key(struct server *server, const char *key, kv_each_fn *each, struct found *found)
{
	TRY(kv_range_from(server->kv, key, key, 1, each, found, found->err));
	return found->status;
}

static enum status read_stored(struct server *server, const char *id, struct found *found)
{
	char key[OBJECT_KEY_SIZE];
	enum status status;

	(void)str_join(key, sizeof(key), PREFIX_FREED_ID, id);
	status = read_key(server, key, on_reference, found);
	if (status != STATUS_OK || !found->volume)
		return status;
	(void)str_join(key, sizeof(key), PREFIX_FREED, found->volume->namespace, "/", found->volume->id, "/",
		       id);
	return read_key(server, key, on_claim, found);
}

enum status freed_find(struct server *server, const char *id, struct claim_entry **ret, struct error *err)
{
	struct found found = {.state = &server->state, .status = STATUS_OK, .err = err};
	enum status status = STATUS_OK;

	*ret = state_claim(&server->state, id);
	if (*ret || !id_is_uuid(id))
		return STATUS_OK;
	status = read_stored(server, id, &found);
	if (status != STATUS_OK || !found.is_there)
		return status;
	TRY(state_put_claim(&server->state, &found.claim, err));
	*ret = state_claim(&server->state, id);
	state_list_recalled(&server->state, *ret);
	return STATUS_OK;
}

/* --- the reads of callers ---
 *
 * While etcd is asked, the event loop does nothing else: each caller has a part of its time, and all have one
 * together. */

enum {
	CALLER_PART = 5,
	ALL_PART = 3,
	AHEAD_US = 1000000, /* so much of it at once */
	READ_US = 250000,   /* after so long, a read asks etcd nothing more */
};

struct reader {
	char name[CALLER_KEY_SIZE]; /* "": it does not pay */
	uint64_t start_us;
};

static enum status reader_begin(struct server *server, struct reader *reader, struct error *err)
{
	const struct rpc_call *call = server->lead ? server->reading : NULL;

	*reader = (struct reader){.start_us = clock_monotonic_us()};
	if (!call)
		return STATUS_OK;
	caller_key(rpc_call_peer(call), rpc_call_token(call), reader->name);
	if (rates_take(server->histories, reader->name, 1, CALLER_PART * AHEAD_US, reader->start_us) &&
	    rates_take(server->histories, "", 1, ALL_PART * AHEAD_US, reader->start_us))
		return STATUS_OK;
	return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
			 "history is read from etcd too often, or etcd is slow: one caller has 1/%d of the "
			 "server's time for it, all have 1/%d; ask again in a second",
			 CALLER_PART, ALL_PART);
}

static enum status reader_check(const struct server *server, const struct reader *reader, struct error *err)
{
	if (!server->lead || clock_monotonic_us() - reader->start_us < READ_US)
		return STATUS_OK;
	return error_set(err, STATUS_UNAVAILABLE, 0, "etcd does not answer in time");
}

static void reader_end(struct server *server, const struct reader *reader)
{
	uint64_t us = clock_monotonic_us() - reader->start_us;

	if (reader->name[0] == '\0')
		return;
	rates_add(server->histories, reader->name, CALLER_PART * us);
	rates_add(server->histories, "", ALL_PART * us);
}

/* --- those of a volume, an allocation, a boot --- */

struct listing {
	struct server *server;
	const struct volume_entry *volume;
	const struct alloc_entry *of; /* NULL: of all */
	struct claim
		*claims; /* a ring of CLAIM_HISTORY_MAX: keys are in the order in which they were granted */
	size_t n;
	enum status status;
	struct error *err;
};

static bool on_listed(const struct kv_item *item, void *userdata)
{
	struct listing *listing = userdata;
	struct claim claim;

	listing->status = freed_read(item, &claim, listing->err);
	if (listing->status != STATUS_OK)
		return false;
	if (is_of(&claim, listing->volume) && !state_claim(&listing->server->state, claim.id) &&
	    (!listing->of || state_alloc_of(&listing->server->state, &claim) == listing->of))
		listing->claims[listing->n++ % CLAIM_HISTORY_MAX] = claim;
	return true;
}

void freed_list_release(struct freed_list *list)
{
	free(list->claims);
	*list = (struct freed_list){NULL, 0};
}

/* Freed last comes first. */
static int compare(const void *a, const void *b)
{
	const struct claim *left = a;
	const struct claim *right = b;

	if (left->modify_index != right->modify_index)
		return left->modify_index > right->modify_index ? -1 : 1;
	return strcmp(right->id, left->id);
}

/* Adds those of one volume. */
static enum status list(struct server *server, const struct volume_entry *volume,
			const struct alloc_entry *of, struct freed_list *ret, struct error *err)
{
	cleanup_free struct claim *ring = calloc(CLAIM_HISTORY_MAX, sizeof(*ring));
	struct listing listing = {.server = server,
				  .volume = volume,
				  .of = of,
				  .claims = ring,
				  .status = STATUS_OK,
				  .err = err};
	char prefix[OBJECT_KEY_SIZE];
	struct claim *claims;
	enum status status;
	size_t n;

	if (!ring)
		return error_no_memory(err, "a freed claim");
	(void)str_join(prefix, sizeof(prefix), PREFIX_FREED, volume->namespace, "/", volume->id, "/");
	status = kv_range(server->kv, prefix, on_listed, &listing, err);
	if (status != STATUS_OK || listing.status != STATUS_OK)
		return status == STATUS_OK ? listing.status : status;
	n = listing.n < CLAIM_HISTORY_MAX ? listing.n : CLAIM_HISTORY_MAX;
	claims = reallocarray(ret->claims, ret->n + n + 1, sizeof(*claims));
	if (!claims)
		return error_no_memory(err, "a freed claim");
	ret->claims = claims;
	memcpy(claims + ret->n, ring, n * sizeof(*ring));
	qsort(claims + ret->n, n, sizeof(*claims), compare);
	ret->n += n;
	return STATUS_OK;
}

enum status freed_of_volume(struct server *server, const struct volume_entry *volume, struct freed_list *ret,
			    struct error *err)
{
	struct reader reader;
	enum status status;

	TRY(reader_begin(server, &reader, err));
	status = list(server, volume, NULL, ret, err);
	reader_end(server, &reader);
	if (status != STATUS_OK)
		freed_list_release(ret);
	return status;
}

enum status freed_of_alloc(struct server *server, const struct alloc_entry *alloc, struct freed_list *ret,
			   struct error *err)
{
	const struct alloc *of = &alloc->alloc;
	enum status status = STATUS_OK;
	struct reader reader;

	TRY(reader_begin(server, &reader, err));
	for (uint32_t i = 0; i < of->n_volumes && status == STATUS_OK; i++) {
		const struct volume_entry *volume =
			state_volume(&server->state, of->namespace, of->volumes[i].source);
		bool is_repeated = false;

		for (uint32_t k = 0; k < i; k++)
			is_repeated = is_repeated || str_eq(of->volumes[k].source, of->volumes[i].source);
		if (!volume || is_repeated)
			continue;
		status = reader_check(server, &reader, err);
		if (status == STATUS_OK)
			status = list(server, volume, alloc, ret, err);
	}
	reader_end(server, &reader);
	if (status != STATUS_OK)
		freed_list_release(ret);
	return status;
}

static bool note_id(const struct kv_item *item, void *userdata)
{
	struct freed_ids *ids = userdata;

	if (ids->n == ids->size) {
		size_t size = ids->size ? 2 * ids->size : 64;
		void *more = reallocarray(ids->ids, size, sizeof(*ids->ids));

		ids->is_short = !more;
		if (!more)
			return false;
		ids->ids = more;
		ids->size = size;
	}
	(void)str_copy(ids->ids[ids->n++], UUID_TEXT_SIZE, strrchr(item->key, '/') + 1);
	return true;
}

static int compare_ids(const void *a, const void *b)
{
	return strcmp(a, b);
}

enum status freed_ids_read(struct server *server, const char *node_id, struct freed_ids *ret,
			   struct error *err)
{
	char prefix[OBJECT_KEY_SIZE];

	ret->n = 0;
	(void)str_join(prefix, sizeof(prefix), PREFIX_FREED_BOOT, node_id, "/");
	TRY(kv_range(server->kv, prefix, note_id, ret, err));
	if (ret->is_short)
		return error_no_memory(err, "the freed claims of a node");
	if (ret->n > 0)
		qsort(ret->ids, ret->n, sizeof(*ret->ids), compare_ids);
	ret->is_read = true;
	return STATUS_OK;
}

bool freed_ids_have(const struct freed_ids *ids, const char *id)
{
	return ids->n > 0 && bsearch(id, ids->ids, ids->n, sizeof(*ids->ids), compare_ids);
}

void freed_ids_release(struct freed_ids *ids)
{
	free(ids->ids);
	*ids = (struct freed_ids){.ids = NULL};
}

static bool note_one(const struct kv_item *item, void *userdata)
{
	*(bool *)userdata = true;
	return false;
}

enum status freed_was_in_boot(struct server *server, const char *node_id, const char *boot_id, bool *ret,
			      struct error *err)
{
	char prefix[OBJECT_KEY_SIZE];

	*ret = false;
	(void)str_join(prefix, sizeof(prefix), PREFIX_FREED_BOOT, node_id, "/", boot_id, "/");
	return kv_range_from(server->kv, prefix, prefix, 1, note_one, ret, err);
}

/* --- leaving the state --- */

static struct claim_entry *entry_of(struct server *server, const struct change_object *object)
{
	if (object->kind != OBJECT_CLAIM || object->is_deletion)
		return NULL;
	return state_claim(&server->state, ((const struct claim *)object->value)->id);
}

void freed_note_submitted(struct server *server, const struct change_object *objects, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct claim_entry *entry = entry_of(server, &objects[i]);

		if (entry)
			entry->n_pending++;
	}
}

/* Does the state still need it? Changes in flight return to it. A recent order to continue without the
 * plugin must not be repeated at once. */
static bool is_in_use(const struct claim_entry *entry)
{
	const struct claim_work *work = &entry->work;

	return entry->n_pending > 0 || work->n_grants > 0 || work->is_asked ||
	       (work->without_plugin_us != 0 &&
		clock_monotonic_us() - work->without_plugin_us < RELEASE_RETRY_MIN_MS * USEC_PER_MSEC);
}

/* Raises the index of the volume or allocation that shows the freed claim. */
static void raise_index(uint64_t *index, uint64_t to)
{
	if (*index < to)
		*index = to;
}

static void leave(struct server *server, struct claim_entry *entry)
{
	struct alloc_entry *alloc = state_alloc_of(&server->state, &entry->claim);

	raise_index(&entry->volume->freed_index, entry->claim.modify_index);
	if (alloc)
		raise_index(&alloc->freed_index, entry->claim.modify_index);
	state_delete_claim(&server->state, entry);
}

static void leave_unless_used(struct server *server, struct claim_entry *entry)
{
	if (claim_is_live(&entry->claim))
		state_unlist_recalled(entry);
	else if (is_in_use(entry))
		state_list_recalled(&server->state, entry); /* it is looked at again */
	else
		leave(server, entry);
}

/* --- how many there are --- */

struct pruning {
	const struct volume_entry *volume;
	struct claim *claims; /* the oldest ones */
	size_t n, n_all;
};

static bool on_prunable(const struct kv_item *item, void *userdata)
{
	struct pruning *pruning = userdata;

	pruning->n_all++;
	if (pruning->n == PRUNE_MAX)
		return true;
	return freed_read(item, &pruning->claims[pruning->n++], NULL) == STATUS_OK;
}

/* Deletes the oldest claims beyond the kept history, in one batch. Garbage collection does the remainder. */
static void prune(struct server *server, struct volume_entry *volume)
{
	cleanup_free struct claim *claims = calloc(PRUNE_MAX, sizeof(*claims));
	struct pruning pruning = {.volume = volume, .claims = claims};
	cleanup(change_release) struct change change = CHANGE_INIT;
	char prefix[OBJECT_KEY_SIZE];

	volume->n_freed = 0;
	(void)str_join(prefix, sizeof(prefix), PREFIX_FREED, volume->namespace, "/", volume->id, "/");
	if (!claims || kv_range(server->kv, prefix, on_prunable, &pruning, NULL) != STATUS_OK)
		return;
	for (size_t i = 0; i < pruning.n && i + CLAIM_HISTORY_MAX < pruning.n_all; i++)
		if (!state_claim(&server->state, claims[i].id))
			freed_stage_deletion(&change, &claims[i]);
	if (change.n > 0)
		(void)change_commit(server, &change, NULL, NULL, NULL);
}

static void note_freed(struct server *server, const struct claim *claim)
{
	struct volume_entry *volume = state_volume(&server->state, claim->namespace, claim->volume_id);

	if (!claim_is_live(claim) && volume && ++volume->n_freed >= CLAIM_HISTORY_MAX)
		prune(server, volume);
}

void freed_note_durable(struct server *server, const struct change_object *objects, size_t n)
{
	struct claim_entry *next;
	struct claim_entry *entry;

	for (size_t i = 0; i < n; i++) {
		entry = entry_of(server, &objects[i]);
		if (!entry) /* deleted with its volume meanwhile */
			continue;
		entry->n_pending -= entry->n_pending > 0;
		note_freed(server, objects[i].value);
		leave_unless_used(server, entry);
	}
	for (entry = LIST_FIRST(&server->state.recalled); entry; entry = next) {
		next = LIST_NEXT(entry, of_recalled);
		leave_unless_used(server, entry);
	}
}

/* --- collection --- */

struct collecting {
	struct server *server;
	struct freed_walk *walk;
	struct change *change;
	size_t max;
	struct claim claim; /* the one before, which is decided on when the next one is known */
	bool has_claim;
	bool is_gone; /* its volume is */
	bool is_full;
	size_t n_rows;
	enum status status;
	struct error *err;
};

/* @is_newest of its volume. False: there is no room, and it is where the next slice begins. */
static bool collect_if_old(struct collecting *collecting, bool is_newest)
{
	const struct claim *claim = &collecting->claim;
	struct change *change = collecting->change;

	if (state_claim(&collecting->server->state,
			claim->id)) /* it has only just been freed, or is asked for */
		return true;
	if (!collecting->is_gone && (is_newest || claim->modify_time_ms >= collecting->walk->before_ms))
		return true;
	if (change && change->n + FREED_KEYS > collecting->max)
		return false;
	collecting->walk->n++;
	if (change)
		freed_stage_deletion(change, claim);
	return true;
}

static bool on_collected(const struct kv_item *item, void *userdata)
{
	struct collecting *collecting = userdata;
	const struct volume_entry *volume;
	struct claim claim;

	collecting->n_rows++;
	collecting->status = freed_read(item, &claim, collecting->err);
	if (collecting->status != STATUS_OK)
		return false;
	if (collecting->has_claim) {
		bool is_same = str_eq(claim.volume_id, collecting->claim.volume_id) &&
			       str_eq(claim.namespace, collecting->claim.namespace);

		collecting->is_full = !collect_if_old(collecting, !is_same);
		if (collecting->is_full)
			return false;
	}
	volume = state_volume(&collecting->server->state, claim.namespace, claim.volume_id);
	collecting->is_gone = !volume || !is_of(&claim, volume);
	collecting->claim = claim;
	collecting->has_claim = true;
	(void)str_copy(collecting->walk->next, sizeof(collecting->walk->next), item->key);
	return true;
}

enum status freed_collect(struct server *server, struct freed_walk *walk, struct change *change, size_t max,
			  bool *ret_done, struct error *err)
{
	struct collecting collecting = {.server = server,
					.walk = walk,
					.change = change,
					.max = max,
					.status = STATUS_OK,
					.err = err};
	char from[OBJECT_KEY_SIZE];

	(void)str_copy(from, sizeof(from), walk->next[0] != '\0' ? walk->next : PREFIX_FREED);
	TRY(kv_range_from(server->kv, PREFIX_FREED, from, FREED_SCAN_MAX, on_collected, &collecting, err));
	TRY(collecting.status);
	*ret_done = !collecting.is_full && collecting.n_rows < FREED_SCAN_MAX;
	if (*ret_done && collecting.has_claim)
		*ret_done = collect_if_old(&collecting, true);
	return STATUS_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "state/change.h"

#include "server.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "lead/lead.h"
#include "model/alloc_event.h"
#include "model/pb.h"
#include "rpc/pack.h"
#include "state/freed_records.h"
#include "state/keys.h"
#include "state/records.h"
#include "state/state.h"
#include "state/text.h"

#include <assert.h>
#include <holdfast/v1/types.pb-c.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

static void free_value(enum object_kind kind, void *value)
{
	const struct object_type *type = object_type(kind);

	if (value && type->release)
		type->release(value);
	free(value);
}

static void free_object(struct change_object *object)
{
	free_value(object->kind, object->value);
	free(object->packed);
	free(object->text);
	free(object->key);
}

static void free_objects(struct change_object *objects, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free_object(&objects[i]);
	free(objects);
}

void change_release(struct change *change)
{
	free_objects(change->objects, change->n);
	change->objects = NULL;
	change->n = change->size = 0;
	for (size_t i = 0; i < change->n_audit; i++)
		free(change->audit[i]);
	free(change->audit);
	change->audit = NULL;
	change->n_audit = 0;
}

static void *copy_value(enum object_kind kind, const void *value)
{
	const struct object_type *type = object_type(kind);
	void *copy = malloc(type->size);

	if (!copy)
		return NULL;
	memcpy(copy, value, type->size);
	if (!type->own || type->own(copy, value))
		return copy;
	free_value(kind, copy);
	return NULL;
}

enum {
	SLOTS = CHANGE_OBJECTS_MAX + CHANGE_AUDIT_MAX + 1, /* the last ones are for the audit */
	OBJECTS_FIRST = 8,
};

static bool make_room(struct change *change)
{
	size_t size = change->size ? 2 * change->size : OBJECTS_FIRST;
	struct change_object *objects;

	if (change->n < change->size)
		return true;
	objects = reallocarray(change->objects, size, sizeof(*objects));
	if (!objects)
		return false;
	change->objects = objects;
	change->size = size;
	return true;
}

/* Returns the staged object with this key, or adds one: a transaction has each key at most once. */
static struct change_object *object_for(struct change *change, const char *key)
{
	size_t max = change->is_sealing ? SLOTS : CHANGE_OBJECTS_MAX;
	struct change_object *object;
	char *copy;

	for (size_t i = 0; i < change->n; i++)
		if (str_eq(change->objects[i].key, key))
			return &change->objects[i];
	if (change->n >= max || !make_room(change))
		return NULL;
	copy = strdup(key);
	if (!copy)
		return NULL;
	object = &change->objects[change->n++];
	*object = (struct change_object){.key = copy};
	return object;
}

static void stage(struct change *change, enum object_kind kind, const void *value, bool is_deletion)
{
	char key[OBJECT_KEY_SIZE];
	struct change_object *object;
	void *copy;

	if (change->status != STATUS_OK)
		return;
	object_type(kind)->key(value, key);
	copy = copy_value(kind, value);
	object = copy ? object_for(change, key) : NULL;
	if (!object) {
		free_value(kind, copy);
		change->status = error_set(&change->error, STATUS_RESOURCE_EXHAUSTED, 0,
					   "out of memory, or more than %d objects would change at once",
					   CHANGE_OBJECTS_MAX);
		return;
	}
	free_value(object->kind, object->value);
	free(object->packed);
	free(object->text);
	object->packed = object->text = NULL;
	object->kind = kind;
	object->value = copy;
	object->is_deletion = is_deletion;
}

void change_put(struct change *change, enum object_kind kind, const void *value)
{
	stage(change, kind, value, false);
}

void change_delete(struct change *change, enum object_kind kind, const void *value)
{
	stage(change, kind, value, true);
}

void change_put_volume(struct change *change, const struct volume *volume)
{
	change_put(change, OBJECT_VOLUME, volume);
}

void change_delete_volume(struct change *change, const struct volume *volume)
{
	change_delete(change, OBJECT_VOLUME, volume);
}

void change_delete_claim(struct change *change, const struct claim *claim)
{
	change_delete(change, OBJECT_CLAIM, claim);
}

void change_put_alloc(struct change *change, const struct alloc *alloc)
{
	change_put(change, OBJECT_ALLOC, alloc);
}

void change_put_node(struct change *change, const struct node *node)
{
	change_put(change, OBJECT_NODE, node);
}

/* Wraps the message without a copy. Staging copies it, so nothing is written through these pointers. */
static struct record borrowed_record(const char *key, const ProtobufCMessage *message)
{
	return (struct record){.key = (char *)(uintptr_t)key,
			       .message = (ProtobufCMessage *)(uintptr_t)message};
}

void change_put_record(struct change *change, const char *key, const ProtobufCMessage *message)
{
	struct record record = borrowed_record(key, message);

	change_put(change, OBJECT_RECORD, &record);
}

/* Stages the history records of a freed claim in the transaction that frees it; see freed.h. */
static void stage_freed(struct change *change, const struct claim *claim)
{
	assert(!claim_is_live(claim));

	Holdfast__V1__Claim *message = claim_borrow_pb(claim);
	char keys[FREED_KEYS][OBJECT_KEY_SIZE];
	Holdfast__V1__Claim reference;

	if (!message) {
		change->status = error_no_memory(&change->error, "a freed claim");
		return;
	}
	message->modify_index = 0; /* the store's; but of the claim's beginning it has no other record */
	freed_keys(message, keys);
	reference = freed_reference(message);
	for (size_t i = 0; i < FREED_KEYS; i++)
		change_put_record(change, keys[i], i == 0 ? &message->base : &reference.base);
	pb_free_borrowing(&message->base);
}

void change_put_claim(struct change *change, const struct claim *claim)
{
	change_put(change, OBJECT_CLAIM, claim);
	if (!claim_is_live(claim))
		stage_freed(change, claim);
}

void change_put_packed(struct change *change, const char *key, void *bytes, size_t len, char *text)
{
	const struct record record = borrowed_record(key, NULL);
	struct change_object *object = NULL;

	stage(change, OBJECT_RECORD, &record, false);
	if (change->status == STATUS_OK)
		object = object_for(change, key);
	if (!object) {
		free(bytes);
		free(text);
		return;
	}
	object->packed = bytes; /* stage() left both empty */
	object->packed_len = len;
	object->text = text;
}

void change_delete_record(struct change *change, const char *key)
{
	struct record record = borrowed_record(key, NULL);

	change_delete(change, OBJECT_RECORD, &record);
}

void change_take_audit(struct change *change, struct Holdfast__V1__AuditRecord *record)
{
	if (!change->audit)
		change->audit = calloc(CHANGE_AUDIT_MAX, sizeof(struct Holdfast__V1__AuditRecord *));
	if (record && change->audit && change->n_audit < CHANGE_AUDIT_MAX) {
		change->audit[change->n_audit++] = record;
		return;
	}
	free(record);
	if (change->status == STATUS_OK)
		change->status = error_set(&change->error, STATUS_RESOURCE_EXHAUSTED, 0,
					   "out of memory, or more than %d things would be recorded at once",
					   CHANGE_AUDIT_MAX);
}

void change_put_floor(struct change *change, uint64_t generation_floor)
{
	Holdfast__V1__GenerationFloor floor = HOLDFAST__V1__GENERATION_FLOOR__INIT;

	floor.generation = generation_floor;
	change_put_record(change, KEY_GENERATION_FLOOR, &floor.base);
}

/* Is its key deleted, though memory and observers get the value? */
static bool is_stored_elsewhere(const struct change_object *object)
{
	return object->kind == OBJECT_CLAIM && !claim_is_live(object->value);
}

/* The op's value and text are owned by the caller. */
static enum status pack_object(struct change_object *object, struct kv_op *ret, struct error *err)
{
	ProtobufCMessage *message;
	uint8_t *bytes = NULL;

	*ret = (struct kv_op){.key = object->key};
	if (object->is_deletion)
		return STATUS_OK;
	if (object->packed && !is_stored_elsewhere(object)) {
		ret->value = TAKE_PTR(object->packed);
		ret->len = object->packed_len;
		ret->text = TAKE_PTR(object->text);
		return STATUS_OK;
	}
	message = object_type(object->kind)->to_message(object->value);
	if (message)
		bytes = pack_message(message, 0, &ret->len);
	if (bytes && !is_stored_elsewhere(object))
		ret->text = text_of(object->key, message);
	if (message)
		object_type(object->kind)->drop_message(message);
	if (is_stored_elsewhere(object)) {
		free(object->packed);
		object->packed = bytes;
		object->packed_len = ret->len;
		ret->len = 0;
	} else {
		ret->value = bytes;
	}
	return bytes ? STATUS_OK : error_no_memory(err, "a change");
}

static enum status apply_object(struct state *state, const struct change_object *object, struct error *err)
{
	const struct object_type *type = object_type(object->kind);

	if (!object->is_deletion)
		return type->put(state, object->value, err);
	type->forget(state, object->value);
	return STATUS_OK;
}

_Static_assert((int)SLOTS <= (int)KV_TXN_OPS_MAX, "a whole change is one transaction");

/* Gives the change's audit records their numbers in the chain. The event loop runs nothing else before
 * they are submitted. */
static enum status seal(struct server *server, struct change *change, struct error *err)
{
	if (change->n_audit == 0)
		return STATUS_OK;
	change->is_sealing = true;
	for (size_t i = 0; i < server->n_observers; i++)
		if (server->observers[i].seal)
			server->observers[i].seal(server, change);
	change->is_sealing = false;
	if (change->status != STATUS_OK && err)
		*err = change->error;
	return change->status;
}

/* As it was before seal(): the places are free again. */
static void unseal(struct change *change, size_t n)
{
	for (size_t i = n; i < change->n; i++)
		free_object(&change->objects[i]);
	change->n = n;
}

/* A change on its way to the disk. */
struct commit {
	struct server *server;
	struct change_object *objects; /* owned */
	size_t n;
	change_done_fn *done;
	void *userdata;
	struct peer_count *author; /* NULL: it is the server's own */
	bool is_of_person;
	size_t bytes; /* in the store's queue */
};

/* --- callers --- */

void change_begin_author(struct server *server, struct change_author *author)
{
	author->outer = server->authors.current;
	server->authors.current = author;
}

void change_end_author(struct server *server, const struct change_author *author)
{
	assert(server->authors.current == author);
	server->authors.current = author->outer;
}

static enum status count_commit(struct commit *commit, struct error *err)
{
	struct authors *authors = &commit->server->authors;
	bool is_full;

	if (!authors->current)
		return STATUS_OK;
	commit->author = peer_count_enter(&authors->waiting, authors->current->name, SIZE_MAX, &is_full);
	if (!commit->author)
		return error_no_memory(err, "a change");
	commit->is_of_person = authors->current->is_person;
	authors->n += commit->is_of_person;
	return STATUS_OK;
}

static void count_bytes(struct commit *commit, size_t bytes)
{
	if (!commit->author)
		return;
	commit->bytes = bytes;
	*peer_count_bytes(commit->author) += bytes;
	commit->server->authors.bytes += commit->is_of_person ? bytes : 0;
}

static void uncount(struct commit *commit)
{
	struct authors *authors = &commit->server->authors;

	if (!commit->author)
		return;
	*peer_count_bytes(commit->author) -= commit->bytes;
	peer_count_leave(&authors->waiting, commit->author);
	if (!commit->is_of_person)
		return;
	authors->n--;
	authors->bytes -= commit->bytes;
}

/* --- the end of a commit --- */

static void commit_free(struct commit *commit)
{
	uncount(commit);
	free_objects(commit->objects, commit->n);
	free(commit);
}
DEFINE_CLEANUP(struct commit, commit_free)

/* A volume or claim is durable, and with it all that was stored before it. */
static void note_generation(struct state *state, const struct change_object *object)
{
	const struct volume *volume = object->value;
	struct volume_entry *entry;
	uint64_t generation;

	if (object->kind == OBJECT_CLAIM) {
		const struct claim_entry *claim =
			state_claim(state, ((const struct claim *)object->value)->id);

		entry = claim->volume;
		generation = claim->claim.generation;
	} else {
		entry = state_volume(state, volume->namespace, volume->id);
		generation = volume->generation;
	}
	entry->durable_generation = MAX(entry->durable_generation, generation);
}

/* The object is durable as of @revision: later changes of it that are still in flight will raise the index
 * again. */
static void note_revision(struct state *state, const struct change_object *object, uint64_t revision)
{
	const struct object_type *type = object_type(object->kind);
	char *found = object->is_deletion ? NULL : type->find(state, object->value);
	uint64_t *create;
	uint64_t *modify;

	if (!found)
		return;
	create = (uint64_t *)(void *)(found + type->create_index);
	modify = (uint64_t *)(void *)(found + type->modify_index);
	if (*create == 0)
		*create = revision;
	*modify = revision;
	if (object->kind == OBJECT_CLAIM || object->kind == OBJECT_VOLUME)
		note_generation(state, object);
}

static void observe_durable(struct server *server, struct change_object *objects, size_t n, uint64_t revision)
{
	for (size_t i = 0; i < server->n_observers; i++)
		if (server->observers[i].durable)
			server->observers[i].durable(server, objects, n, revision);
}

static void observe_finished(struct server *server, const struct change_object *objects, size_t n)
{
	for (size_t i = 0; i < server->n_observers; i++)
		if (server->observers[i].finished)
			server->observers[i].finished(server, objects, n);
}

static void on_durable(uint64_t revision, const struct error *err, void *userdata)
{
	cleanup(commit_freep) struct commit *commit = userdata;

	if (err) {
		server_fail(commit->server, err);
		return;
	}
	for (size_t i = 0; i < commit->n; i++)
		note_revision(&commit->server->state, &commit->objects[i], revision);
	observe_durable(commit->server, commit->objects, commit->n, revision);
	if (commit->done)
		commit->done(commit->server, commit->userdata);
	observe_finished(commit->server, commit->objects, commit->n);
}

static void free_op(struct kv_op *op)
{
	free((void *)(uintptr_t)op->value);
	free((void *)(uintptr_t)op->text);
}

/* Returns the packed bytes to the object: the store has copied the value. */
static void keep_packed(struct change_object *object, struct kv_op *op)
{
	if (!op->value)
		return;
	object->packed = (void *)(uintptr_t)op->value;
	object->packed_len = op->len;
	op->value = NULL;
}

/* Drops the texts for people that do not fit into a transaction, so that a large change is not refused. */
static void bound_texts(struct kv_op *ops, size_t n)
{
	size_t left = KV_TEXT_MAX;

	for (size_t i = 0; i < n; i++) {
		size_t len = ops[i].text ? strlen(ops[i].text) + 1 : 0;

		if (len > left) {
			free((void *)(uintptr_t)ops[i].text);
			ops[i].text = NULL;
			len = 0;
		}
		left -= len;
	}
}

static enum status submit(struct server *server, const struct change *change, struct commit *commit,
			  struct error *err)
{
	static const struct kv_condition absent = {.key = "confirm"}; /* no record has this key */
	static const struct kv_txn confirmation = {.conditions = &absent, .n_conditions = 1};
	struct kv_op ops[SLOTS];
	enum status status = STATUS_OK;
	size_t n = 0;

	for (; n < change->n && status == STATUS_OK; n++)
		status = pack_object(&change->objects[n], &ops[n], err);
	bound_texts(ops, n);
	if (status == STATUS_OK && n > 0)
		status = kv_submit(server->kv, &(struct kv_txn){.ops = ops, .n_ops = n}, on_durable, commit,
				   err);
	else if (status == STATUS_OK && change->is_confirmed)
		status = kv_submit(server->kv, &confirmation, on_durable, commit, err);
	else if (status == STATUS_OK)
		status = kv_barrier(server->kv, on_durable, commit, err);
	for (size_t i = 0; i < n; i++) {
		if (status == STATUS_OK)
			keep_packed(&change->objects[i], &ops[i]);
		free_op(&ops[i]);
	}
	return status;
}

enum status change_check(const struct server *server, struct error *err)
{
	enum status status = lead_check(server->lead, err);

	if (status != STATUS_OK || !server->is_superseded)
		return status;
	return error_set(
		err, STATUS_UNAVAILABLE, 0,
		"another store takes the place of this one: nothing is taken or acknowledged until the "
		"server has started again, in a second or two; ask again then");
}

/* Adds the events that this change causes to its allocations, so that later readers see them. */
static enum status note_alloc_events(struct server *server, const struct change *change, struct error *err)
{
	int64_t now_ms = clock_realtime_ms();

	for (size_t i = 0; i < change->n; i++) {
		const struct change_object *object = &change->objects[i];
		struct alloc *alloc = object->value;
		const struct alloc_entry *known;

		if (object->kind != OBJECT_ALLOC || object->is_deletion || object->packed)
			continue;
		known = state_alloc(&server->state, alloc->id);
		if (!alloc_note_events(alloc, known ? &known->alloc : NULL, now_ms))
			return error_no_memory(err, "an event");
	}
	return STATUS_OK;
}

static void observe_submitted(struct server *server, const struct change_object *objects, size_t n)
{
	for (size_t i = 0; i < server->n_observers; i++)
		if (server->observers[i].submitted)
			server->observers[i].submitted(server, objects, n);
}

enum status change_commit(struct server *server, struct change *change, change_done_fn *done, void *userdata,
			  struct error *err)
{
	size_t n_staged = change->n;
	struct commit *commit;
	struct error apply_error;
	enum status status;
	size_t before;

	if (change->status != STATUS_OK) {
		if (err)
			*err = change->error;
		return change->status;
	}
	status = change_check(server, err);
	for (size_t i = 0; i < server->n_observers && status == STATUS_OK; i++)
		if (server->observers[i].check)
			status = server->observers[i].check(server, change, err);
	if (status == STATUS_OK)
		status = note_alloc_events(server, change, err);
	if (status != STATUS_OK)
		return status;
	commit = calloc(1, sizeof(*commit));
	if (!commit)
		return error_no_memory(err, "a change");
	*commit = (struct commit){.server = server, .done = done, .userdata = userdata};
	before = kv_pending_bytes(server->kv);
	status = count_commit(commit, err);
	if (status == STATUS_OK)
		status = seal(server, change, err);
	if (status == STATUS_OK)
		status = submit(server, change, commit, err);
	if (status != STATUS_OK) {
		unseal(change, n_staged);
		commit_free(commit);
		return status;
	}
	count_bytes(commit, kv_pending_bytes(server->kv) - before);
	commit->objects = change->objects; /* done functions never run inside kv_submit() */
	commit->n = change->n;
	change->objects = NULL;
	change->n = change->size = 0;
	change_release(change);
	for (size_t i = 0; i < commit->n; i++) {
		status = apply_object(&server->state, &commit->objects[i], &apply_error);
		if (status != STATUS_OK) /* memory must never be behind the submitted changes */
			server_fail(server, &apply_error);
	}
	observe_submitted(server, commit->objects, commit->n);
	return STATUS_OK;
}

enum status change_commit_taking(struct server *server, struct change *change, change_done_fn *done,
				 void *userdata, struct error *err)
{
	cleanup_free void *taken = userdata;

	if (!taken)
		return error_no_memory(err, "a change");
	TRY(change_commit(server, change, done, taken, err));
	(void)TAKE_PTR(taken);
	return STATUS_OK;
}

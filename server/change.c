#include "change.h"

#include "keys.h"
#include "server.h"
#include "state.h"
#include "watch.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "log/log.h"
#include "model/pb.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct packed {
	uint8_t *bytes;
	size_t len;
};

static void release_packed(struct packed *packed)
{
	free(packed->bytes);
}

static void release_objects(struct change_object *objects, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(objects[i].value);
}

void change_release(struct change *change)
{
	release_objects(change->objects, change->n);
	change->n = 0;
}

/* The object with this key that is already staged, or a new one: a key stands in a transaction once. */
static struct change_object *object_for(struct change *change, const char *key)
{
	for (size_t i = 0; i < change->n; i++)
		if (str_eq(change->objects[i].key, key))
			return &change->objects[i];
	if (change->n == CHANGE_OBJECTS_MAX)
		return NULL;
	change->objects[change->n] = (struct change_object){0};
	(void)str_copy(change->objects[change->n].key, CHANGE_KEY_SIZE, key);
	return &change->objects[change->n++];
}

/* Stage a copy of @value; the last word about a key counts. */
static void stage(struct change *change, enum change_kind kind, const char *key, const void *value,
		  size_t size)
{
	struct change_object *object;
	void *copy;

	if (change->status != STATUS_OK)
		return;
	copy = malloc(size);
	object = copy ? object_for(change, key) : NULL;
	if (!object) {
		free(copy);
		change->status = error_set(&change->error, STATUS_RESOURCE_EXHAUSTED, 0,
					   "out of memory, or more than %d objects would change at once",
					   CHANGE_OBJECTS_MAX);
		return;
	}
	memcpy(copy, value, size);
	free(object->value);
	object->kind = kind;
	object->value = copy;
}

static void stage_volume(struct change *change, enum change_kind kind, const struct volume *volume)
{
	char key[CHANGE_KEY_SIZE];

	(void)str_format(key, sizeof(key), PREFIX_VOLUME "%s/%s", volume->namespace, volume->id);
	stage(change, kind, key, volume, sizeof(*volume));
}

static void stage_claim(struct change *change, enum change_kind kind, const struct claim *claim)
{
	char key[CHANGE_KEY_SIZE];

	(void)str_format(key, sizeof(key), PREFIX_CLAIM "%s", claim->id);
	stage(change, kind, key, claim, sizeof(*claim));
}

void change_put_volume(struct change *change, const struct volume *volume)
{
	stage_volume(change, CHANGE_PUT_VOLUME, volume);
}

void change_delete_volume(struct change *change, const struct volume *volume)
{
	stage_volume(change, CHANGE_DELETE_VOLUME, volume);
}

void change_put_claim(struct change *change, const struct claim *claim)
{
	stage_claim(change, CHANGE_PUT_CLAIM, claim);
}

void change_delete_claim(struct change *change, const struct claim *claim)
{
	stage_claim(change, CHANGE_DELETE_CLAIM, claim);
}

void change_put_alloc(struct change *change, const struct alloc *alloc)
{
	char key[CHANGE_KEY_SIZE];

	(void)str_format(key, sizeof(key), PREFIX_ALLOC "%s", alloc->id);
	stage(change, CHANGE_PUT_ALLOC, key, alloc, sizeof(*alloc));
}

void change_put_node(struct change *change, const struct node *node)
{
	char key[CHANGE_KEY_SIZE];

	(void)str_format(key, sizeof(key), PREFIX_NODE "%s", node->id);
	stage(change, CHANGE_PUT_NODE, key, node, sizeof(*node));
}

void change_put_floor(struct change *change, uint64_t generation_floor)
{
	stage(change, CHANGE_PUT_FLOOR, KEY_GENERATION_FLOOR, &generation_floor, sizeof(generation_floor));
}

static bool is_deletion(enum change_kind kind)
{
	return kind == CHANGE_DELETE_VOLUME || kind == CHANGE_DELETE_CLAIM;
}

static ProtobufCMessage *floor_message(uint64_t generation_floor)
{
	Holdfast__V1__GenerationFloor *pb = malloc(sizeof(*pb));

	if (!pb)
		return NULL;
	holdfast__v1__generation_floor__init(pb);
	pb->generation = generation_floor;
	return &pb->base;
}

static ProtobufCMessage *object_message(const struct change_object *object)
{
	switch (object->kind) {
	case CHANGE_PUT_VOLUME: {
		struct volume stored = *(const struct volume *)object->value;

		stored.create_index = stored.modify_index = 0;
		return (ProtobufCMessage *)volume_to_pb(&stored);
	}
	case CHANGE_PUT_ALLOC: {
		cleanup_free struct alloc *stored = malloc(sizeof(*stored));

		if (!stored)
			return NULL;
		*stored = *(const struct alloc *)object->value;
		stored->create_index = stored->modify_index = 0;
		return (ProtobufCMessage *)alloc_to_pb(stored);
	}
	case CHANGE_PUT_CLAIM: {
		struct claim stored = *(const struct claim *)object->value;

		stored.create_index = stored.modify_index = 0;
		return (ProtobufCMessage *)claim_to_pb(&stored);
	}
	case CHANGE_PUT_NODE: {
		cleanup_free struct node *stored = malloc(sizeof(*stored));

		if (!stored)
			return NULL;
		*stored = *(const struct node *)object->value;
		stored->create_index = stored->modify_index = 0;
		return (ProtobufCMessage *)node_to_pb(stored);
	}
	case CHANGE_PUT_FLOOR:
		return floor_message(*(const uint64_t *)object->value);
	case CHANGE_DELETE_VOLUME:
	case CHANGE_DELETE_CLAIM:
	case CHANGE_KIND_N:
		break;
	}
	return NULL;
}

static enum status pack_object(const struct change_object *object, struct packed *packed, struct error *err)
{
	ProtobufCMessage *message;

	if (is_deletion(object->kind))
		return STATUS_OK;
	message = object_message(object);
	if (message) {
		packed->len = protobuf_c_message_get_packed_size(message);
		packed->bytes = malloc(packed->len + 1);
	}
	if (packed->bytes)
		(void)protobuf_c_message_pack(message, packed->bytes);
	if (message)
		protobuf_c_message_free_unpacked(message, NULL);
	return packed->bytes ? STATUS_OK : error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "out of memory");
}

static enum status apply_object(struct state *state, const struct change_object *object, struct error *err)
{
	switch (object->kind) {
	case CHANGE_PUT_VOLUME:
		return state_put_volume(state, object->value, err);
	case CHANGE_PUT_ALLOC:
		return state_put_alloc(state, object->value, err);
	case CHANGE_PUT_CLAIM:
		return state_put_claim(state, object->value, err);
	case CHANGE_PUT_NODE:
		return state_put_node(state, object->value, err);
	case CHANGE_PUT_FLOOR:
		state->generation_floor = *(const uint64_t *)object->value;
		return STATUS_OK;
	case CHANGE_DELETE_VOLUME: {
		const struct volume *volume = object->value;
		struct volume_entry *entry = state_volume(state, volume->namespace, volume->id);

		if (entry)
			state_delete_volume(state, entry);
		return STATUS_OK;
	}
	case CHANGE_DELETE_CLAIM: {
		const struct claim *claim = object->value;
		struct claim_entry *entry = state_claim(state, claim->id);

		if (entry)
			state_delete_claim(state, entry);
		return STATUS_OK;
	}
	case CHANGE_KIND_N:
		break;
	}
	return STATUS_OK;
}

/* A change on its way to the disk. */
struct commit {
	struct server *server;
	struct change_object *objects; /* owned */
	size_t n;
	change_done_fn *done;
	void *userdata;
};

static void commit_free(struct commit *commit)
{
	release_objects(commit->objects, commit->n);
	free(commit->objects);
	free(commit);
}
DEFINE_CLEANUP(struct commit, commit_free)

static void set_index(uint64_t revision, uint64_t *create_index, uint64_t *modify_index)
{
	if (*create_index == 0)
		*create_index = revision;
	*modify_index = revision;
}

/* The object is durable as of @revision: later changes of it that are still under way will raise the index
 * again. */
static void note_revision(struct state *state, const struct change_object *object, uint64_t revision)
{
	switch (object->kind) {
	case CHANGE_PUT_VOLUME: {
		const struct volume *v = object->value;
		struct volume_entry *e = state_volume(state, v->namespace, v->id);

		if (e)
			set_index(revision, &e->volume.create_index, &e->volume.modify_index);
		break;
	}
	case CHANGE_PUT_ALLOC: {
		struct alloc_entry *e = state_alloc(state, ((const struct alloc *)object->value)->id);

		if (e) {
			set_index(revision, &e->alloc.create_index, &e->alloc.modify_index);
			watch_wake(e);
		}
		break;
	}
	case CHANGE_PUT_CLAIM: {
		struct claim_entry *e = state_claim(state, ((const struct claim *)object->value)->id);

		if (e)
			set_index(revision, &e->claim.create_index, &e->claim.modify_index);
		break;
	}
	case CHANGE_PUT_NODE: {
		struct node_entry *e = state_node(state, ((const struct node *)object->value)->id);

		if (e)
			set_index(revision, &e->node.create_index, &e->node.modify_index);
		break;
	}
	case CHANGE_PUT_FLOOR:
	case CHANGE_DELETE_VOLUME:
	case CHANGE_DELETE_CLAIM:
	case CHANGE_KIND_N:
		break;
	}
}

static void compact(struct server *server, uint64_t revision)
{
	if (++server->n_commits < CHANGE_COMPACT_COMMITS)
		return;
	server->n_commits = 0;
	(void)kv_compact(server->kv, revision, NULL); /* only space is lost when it does not work */
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
	if (commit->n > 0)
		compact(commit->server, revision);
	if (commit->done)
		commit->done(commit->server, commit->userdata);
}

static struct commit *commit_new(struct server *server, const struct change *change, change_done_fn *done,
				 void *userdata)
{
	struct commit *commit = calloc(1, sizeof(*commit));
	struct change_object *objects = calloc(change->n + 1, sizeof(*objects));

	if (!commit || !objects) {
		free(commit);
		free(objects);
		return NULL;
	}
	*commit = (struct commit){.server = server, .objects = objects, .done = done, .userdata = userdata};
	return commit;
}

static enum status submit(struct server *server, struct change *change, struct commit *commit,
			  struct error *err)
{
	struct packed packed[CHANGE_OBJECTS_MAX] = {0};
	struct kv_op ops[CHANGE_OBJECTS_MAX];
	enum status st = STATUS_OK;

	for (size_t i = 0; i < change->n && st == STATUS_OK; i++) {
		st = pack_object(&change->objects[i], &packed[i], err);
		ops[i] = (struct kv_op){
			.key = change->objects[i].key, .value = packed[i].bytes, .len = packed[i].len};
	}
	if (st == STATUS_OK && change->n > 0)
		st = kv_submit(server->kv, &(struct kv_txn){.ops = ops, .n_ops = change->n}, on_durable,
			       commit, err);
	else if (st == STATUS_OK)
		st = kv_barrier(server->kv, on_durable, commit, err);
	for (size_t i = 0; i < change->n; i++)
		release_packed(&packed[i]);
	return st;
}

enum status change_commit(struct server *server, struct change *change, change_done_fn *done, void *userdata,
			  struct error *err)
{
	cleanup(commit_freep) struct commit *commit = NULL;
	struct commit *submitted;
	struct error apply_error;
	enum status st;

	if (change->status != STATUS_OK) {
		if (err)
			*err = change->error;
		return change->status;
	}
	commit = commit_new(server, change, done, userdata);
	if (!commit)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "out of memory");
	st = submit(server, change, commit, err);
	if (st != STATUS_OK)
		return st;
	submitted = TAKE_PTR(commit);
	memcpy(submitted->objects, change->objects, change->n * sizeof(change->objects[0]));
	submitted->n = change->n;
	change->n = 0; /* the values belong to the commit now */
	for (size_t i = 0; i < submitted->n; i++) {
		st = apply_object(&server->state, &submitted->objects[i], &apply_error);
		if (st != STATUS_OK) /* memory must never be behind what was submitted */
			server_fail(server, &apply_error);
	}
	return STATUS_OK;
}

enum status change_commit_taking(struct server *server, struct change *change, change_done_fn *done,
				 void *userdata, struct error *err)
{
	cleanup_free void *taken = userdata;
	enum status st;

	if (!taken)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "out of memory");
	st = change_commit(server, change, done, taken, err);
	if (st == STATUS_OK)
		(void)TAKE_PTR(taken);
	return st;
}

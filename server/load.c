#include "load.h"

#include "keys.h"
#include "server.h"
#include "state.h"

#include "base/cleanup.h"
#include "model/pb.h"

static enum status load_volume(struct state *state, const struct kv_item *item, struct error *err)
{
	Holdfast__V1__Volume *pb = holdfast__v1__volume__unpack(NULL, item->len, item->value);
	struct volume volume;
	enum status st = pb ? volume_from_pb(pb, &volume, err) : STATUS_DATA_LOSS;

	holdfast__v1__volume__free_unpacked(pb, NULL);
	if (st != STATUS_OK)
		return st;
	volume.create_index = item->create_revision;
	volume.modify_index = item->mod_revision;
	return state_put_volume(state, &volume, err);
}

static enum status load_node(struct state *state, const struct kv_item *item, struct error *err)
{
	Holdfast__V1__Node *pb = holdfast__v1__node__unpack(NULL, item->len, item->value);
	struct node node;
	enum status st = pb ? node_from_pb(pb, &node, err) : STATUS_DATA_LOSS;

	holdfast__v1__node__free_unpacked(pb, NULL);
	if (st != STATUS_OK)
		return st;
	node.create_index = item->create_revision;
	node.modify_index = item->mod_revision;
	return state_put_node(state, &node, err);
}

static enum status load_alloc(struct state *state, const struct kv_item *item, struct error *err)
{
	Holdfast__V1__Allocation *pb = holdfast__v1__allocation__unpack(NULL, item->len, item->value);
	struct alloc alloc;
	enum status st = pb ? alloc_from_pb(pb, &alloc, err) : STATUS_DATA_LOSS;

	holdfast__v1__allocation__free_unpacked(pb, NULL);
	if (st != STATUS_OK)
		return st;
	alloc.create_index = item->create_revision;
	alloc.modify_index = item->mod_revision;
	return state_put_alloc(state, &alloc, err);
}

static enum status load_claim(struct state *state, const struct kv_item *item, struct error *err)
{
	Holdfast__V1__Claim *pb = holdfast__v1__claim__unpack(NULL, item->len, item->value);
	struct claim claim;
	enum status st = pb ? claim_from_pb(pb, &claim, err) : STATUS_DATA_LOSS;

	holdfast__v1__claim__free_unpacked(pb, NULL);
	if (st != STATUS_OK)
		return st;
	claim.create_index = item->create_revision;
	claim.modify_index = item->mod_revision;
	return state_put_claim(state, &claim, err);
}

static enum status load_floor(struct state *state, const struct kv_item *item, struct error *err)
{
	Holdfast__V1__GenerationFloor *pb =
		holdfast__v1__generation_floor__unpack(NULL, item->len, item->value);

	(void)err;
	if (!pb)
		return STATUS_DATA_LOSS;
	state->generation_floor = pb->generation;
	holdfast__v1__generation_floor__free_unpacked(pb, NULL);
	return STATUS_OK;
}

struct load_step {
	const char *prefix;
	enum status (*load)(struct state *state, const struct kv_item *item, struct error *err);
};

/* Claims come last: they link to all the others. Their ids are time-ordered, so each volume's list ends up
 * newest first. */
static const struct load_step load_steps[] = {
	{KEY_GENERATION_FLOOR, load_floor}, {PREFIX_VOLUME, load_volume}, {PREFIX_NODE, load_node},
	{PREFIX_ALLOC, load_alloc},	    {PREFIX_CLAIM, load_claim},
};

struct load_context {
	struct state *state;
	const struct load_step *step;
	enum status status;
	struct error *err;
};

static bool load_item(const struct kv_item *item, void *userdata)
{
	struct load_context *context = userdata;
	struct error err = {.msg = "not a message of this version"};

	context->status = context->step->load(context->state, item, &err);
	if (context->status == STATUS_OK)
		return true;
	context->status = error_set(context->err, STATUS_DATA_LOSS, 0,
				    "the store's record %s cannot be read: %s", item->key, err.msg);
	return false;
}

enum status load_state(struct server *server, struct error *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(load_steps); i++) {
		struct load_context context = {.state = &server->state, .step = &load_steps[i], .err = err};
		enum status st = kv_range(server->kv, load_steps[i].prefix, load_item, &context, err);

		if (st == STATUS_OK)
			st = context.status;
		if (st != STATUS_OK)
			return st;
	}
	return STATUS_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "copied.h"

#include "load.h"
#include "server.h"
#include "unit.h"

#include "base/clock.h"
#include "base/strbuf.h"
#include "rpc/pack.h"
#include "state/change.h"
#include "state/records.h"
#include "state/state.h"

#include <inttypes.h>

enum { OBSERVERS_MAX = 24, TEXT_MAX = 64 << 20 };

#define STORED_MAX_US USEC_PER_SEC

struct copied {
	struct server *server;
	struct state state;
	const struct change_observer *former; /* the server's own */
	struct change_observer observers[OBSERVERS_MAX];
	bool is_broken; /* a test has stored what cannot be loaded */
};

static struct copied *current;

static void load(struct copied *copied)
{
	state_init(&copied->state);
	copied->is_broken = load_state(copied->server->kv, &copied->state, NULL) != STATUS_OK;
}

/* The record as etcd would tell of it. */
static struct kv_item item_of(struct state *copy, const struct change_object *object, uint64_t revision)
{
	const struct object_type *type = object_type(object->kind);
	struct kv_item item = {.key = object->key};
	uint64_t created = 0;
	const char *known;

	if (object->is_deletion || (object->kind == OBJECT_CLAIM && !claim_is_live(object->value)))
		return item;
	known = type->find(copy, object->value);
	item.value = object->packed;
	item.len = object->packed_len;
	if (known)
		memcpy(&created, known + type->create_index, sizeof(created));
	item.create_revision = created > 0 ? created : revision;
	item.mod_revision = revision;
	return item;
}

static void on_durable(struct server *server, struct change_object *objects, size_t n, uint64_t revision)
{
	for (size_t i = 0; i < n && !current->is_broken; i++) {
		struct kv_item item = item_of(&current->state, &objects[i], revision);

		if (load_record(&current->state, &item, NULL) == STATUS_OK)
			continue;
		state_release(&current->state);
		load(current);
		return;
	}
}

struct copied *copied_begin(struct server *server)
{
	struct copied *copied = NON_NULL(calloc(1, sizeof(*copied)));

	assert_true(server->n_observers < OBSERVERS_MAX);
	copied->server = server;
	load(copied);
	copied->observers[0].durable = on_durable; /* before others take what was packed */
	memcpy(copied->observers + 1, server->observers, server->n_observers * sizeof(*server->observers));
	copied->former = server->observers;
	server->observers = copied->observers;
	server->n_observers++;
	current = copied;
	return copied;
}

/* --- comparing --- */

static void add_object(struct strbuf *to, enum object_kind kind, const void *value)
{
	const struct object_type *type = object_type(kind);
	ProtobufCMessage *message = NON_NULL(type->to_message(value));
	char key[OBJECT_KEY_SIZE];
	uint64_t created, modified;
	cleanup_free uint8_t *bytes = NULL;
	size_t n;

	bytes = NON_NULL(pack_message(message, 0, &n));
	type->key(value, key);
	memcpy(&created, (const char *)value + type->create_index, sizeof(created));
	memcpy(&modified, (const char *)value + type->modify_index, sizeof(modified));
	strbuf_printf(to, "%s %" PRIu64 " %" PRIu64 " ", key, created, modified);
	for (size_t i = 0; i < n; i++)
		if (bytes[i] > ' ' && bytes[i] <= '~')
			strbuf_put(to, &bytes[i], 1);
		else
			strbuf_printf(to, "\\%02x", bytes[i]);
	strbuf_printf(to, "\n");
	type->drop_message(message);
}

static void add_volume(struct strbuf *to, struct volume_entry *entry)
{
	add_object(to, OBJECT_VOLUME, &entry->volume);
	strbuf_printf(to, "  generation %" PRIu64 ", live %zu, again %zu\n", entry->volume.generation,
		      entry->n_live, entry->n_was_freed);
}

static void add_node(struct strbuf *to, struct node_entry *entry)
{
	strbuf_printf(to, "node %s\n", entry->id);
	if (node_is_registered(entry)) /* else what names it is all there is */
		add_object(to, OBJECT_NODE, &entry->node);
	strbuf_printf(to, "  live %zu, allocations %zu, unreported %d\n", entry->n_live, entry->n_live_allocs,
		      entry->is_unreported);
}

static void add_alloc(struct strbuf *to, struct alloc_entry *entry)
{
	add_object(to, OBJECT_ALLOC, &entry->alloc);
	if (entry->job)
		strbuf_printf(to, "  of %zu, heritable %zu\n", entry->job->n_allocs, entry->job->n_heritable);
}

static void add_plugin(struct strbuf *to, struct plugin_entry *entry)
{
	struct instance_entry *instance = state_plugin_instance_from(entry, "");

	strbuf_printf(to, "plugin %s: runners %zu, volumes %zu\n", entry->id, entry->n_runners,
		      entry->n_volumes);
	for (; instance; instance = state_plugin_instance_next(instance))
		add_object(to, OBJECT_NODE_PLUGIN, &instance->instance);
}

static void add_counts(struct strbuf *to, const struct state *state)
{
	const struct alloc_entry *pending;
	size_t n_pending = 0;

	LIST_FOREACH (pending, &state->pending, of_pending) {
		assert_true(alloc_is_pending(&pending->alloc));
		n_pending++;
	}
	strbuf_printf(to, "pending allocations %zu\n", n_pending);
	strbuf_printf(to, "volumes %zu, allocations %zu, claims %zu, nodes %zu, unreported %zu\n",
		      state->n_volumes, state->n_allocs, state->n_claims, state->n_nodes,
		      state->n_unreported);
	strbuf_printf(to, "failing %zu, releasing %zu, node failing %zu, held twice %zu\n",
		      state->n_claims_failing, state->n_releasing, state->n_node_failing,
		      state->n_volumes_held_twice);
	strbuf_printf(to, "ineligible %zu, draining %zu, down %zu, clock off %zu, other key %zu\n",
		      state->n_nodes_ineligible, state->n_nodes_draining, state->n_nodes_down,
		      state->n_nodes_clock_off, state->n_nodes_other_key);
	for (int i = 0; i < CLAIM_STATE_N; i++)
		strbuf_printf(to, "claims %d: %zu\n", i, state->n_claims_by[i]);
	for (int i = 0; i < CLIENT_N; i++)
		strbuf_printf(to, "allocations %d: %zu\n", i, state->n_allocs_by[i]);
}

#define ADD_ALL(first, next, add)                                                 \
	do {                                                                      \
		for (__auto_type entry_ = (first); entry_; entry_ = next(entry_)) \
			add;                                                      \
	} while (0)

/* All of it, in the order of its trees. Owned by the caller. */
static char *describe(struct state *state)
{
	struct strbuf text = {.max = TEXT_MAX};

	ADD_ALL(records_from(&state->records, ""), records_next,
		add_object(&text, OBJECT_RECORD, &entry_->record));
	ADD_ALL(state_volume_from(state, "", ""), state_volume_next, add_volume(&text, entry_));
	ADD_ALL(state_node_from(state, ""), state_node_next, add_node(&text, entry_));
	ADD_ALL(state_plugin_from(state, ""), state_plugin_next, add_plugin(&text, entry_));
	ADD_ALL(state_alloc_from(state, ""), state_alloc_next, add_alloc(&text, entry_));
	ADD_ALL(state_claim_from(state, ""), state_claim_next,
		add_object(&text, OBJECT_CLAIM, &entry_->claim));
	add_counts(&text, state);
	return strbuf_take(&text);
}

static bool is_stored(struct server *server)
{
	const uint64_t end = clock_monotonic_us() + STORED_MAX_US;

	while (kv_stats(server->kv).pending > 0 && clock_monotonic_us() < end)
		if (sd_event_run(server->event, USEC_PER_MSEC) < 0)
			return false; /* it has ended */
	return kv_stats(server->kv).pending == 0;
}

static void expect_same(char *copy, char *loaded)
{
	char *at[2] = {copy, loaded};

	if (str_eq(copy, loaded))
		return;
	for (;;) {
		char *lines[2] = {strsep(&at[0], "\n"), strsep(&at[1], "\n")};

		assert_msg(lines[0] && lines[1] && str_eq(lines[0], lines[1]),
			   "the copy has\n%s\nand the store\n%s", lines[0] ? lines[0] : "less",
			   lines[1] ? lines[1] : "less");
	}
}

void copied_check(struct copied *copied)
{
	struct state loaded;

	state_init(&loaded);
	if (!copied->is_broken && is_stored(copied->server) &&
	    load_state(copied->server->kv, &loaded, NULL) == STATUS_OK) {
		char *texts[2] = {describe(&copied->state), describe(&loaded)};

		expect_same(texts[0], texts[1]);
		free(texts[0]);
		free(texts[1]);
	}
	copied->server->observers = copied->former;
	copied->server->n_observers--;
	state_release(&loaded);
	state_release(&copied->state);
	free(copied);
	current = NULL;
}

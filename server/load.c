/* SPDX-License-Identifier: Apache-2.0 */
#include "load.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "state/objects.h"
#include "state/records.h"
#include "state/state.h"
#include "store/kv.h"

#include <stdlib.h>
#include <string.h>

struct load {
	struct state *state;
	const struct object_type *type;
	void *value; /* of the type's size; used again and again */
	enum status status;
	struct error *err;
};

/* Whoever made the file, names of what is in it go to logs and commands, and are found again where they are.
 */
static enum status check_key(const struct object_type *type, const char *key, const void *value,
			     struct error *err)
{
	char own[OBJECT_KEY_SIZE];

	for (const char *p = key; *p != '\0'; p++)
		if (*p <= ' ' || *p > '~')
			return error_set(err, STATUS_DATA_LOSS, 0, "its name is no text");
	type->key(value, own);
	if (!str_eq(own, key))
		return error_set(err, STATUS_DATA_LOSS, 0, "it calls itself %s", own);
	return STATUS_OK;
}

static enum status load_object(const struct load *load, const struct kv_item *item, struct error *err)
{
	const struct object_type *type = load->type;
	enum status st;

	memset(load->value, 0, type->size);
	st = type->from_stored(item->key, item->value, item->len, load->value, err);
	if (st != STATUS_OK)
		return st;
	memcpy((char *)load->value + type->create_index, &item->create_revision, sizeof(uint64_t));
	memcpy((char *)load->value + type->modify_index, &item->mod_revision, sizeof(uint64_t));
	st = check_key(type, item->key, load->value, err);
	if (st == STATUS_OK)
		st = type->put(load->state, load->value, err);
	if (type->release)
		type->release(load->value);
	return st;
}

static bool on_item(const struct kv_item *item, void *userdata)
{
	struct load *load = userdata;
	char name[OBJECT_KEY_SIZE];
	struct error err;

	if (load_object(load, item, &err) == STATUS_OK)
		return true;
	str_copy_text(name, sizeof(name), item->key);
	load->status = error_set(load->err, STATUS_DATA_LOSS, 0,
				 "the store's record %s cannot be read: %s; keep a copy and restore a backup "
				 "(holdfast-server --restore FILE)",
				 name, err.msg);
	return false;
}

static enum status load_prefix(struct kv *kv, struct state *state, const struct object_type *type,
			       const char *prefix, struct error *err)
{
	cleanup_free void *value = malloc(type->size);
	struct load load = {.state = state, .type = type, .value = value, .err = err};
	enum status st;

	if (!value)
		return error_no_memory(err, "the objects");
	st = kv_range(kv, prefix, on_item, &load, err);
	return st == STATUS_OK ? load.status : st;
}

enum status load_state(struct kv *kv, struct state *state, struct error *err)
{
	enum status st = STATUS_OK;
	const char *prefix;

	for (size_t i = 0; (prefix = record_prefix(i)) && st == STATUS_OK; i++)
		st = load_prefix(kv, state, object_type(OBJECT_RECORD), prefix, err);
	for (int kind = OBJECT_RECORD + 1; kind < OBJECT_KIND_N && st == STATUS_OK; kind++)
		st = load_prefix(kv, state, object_type((enum object_kind)kind),
				 object_type((enum object_kind)kind)->prefix, err);
	return st;
}

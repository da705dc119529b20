/* SPDX-License-Identifier: Apache-2.0 */
#include "load.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "state/keys.h"
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

/* Checks the name in a key. Any program may have written the file, but the names go to logs and commands,
 * and look-ups use them. */
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

/* A volume that was deregistered and registered with another plugin in one transaction is one write. */
static bool is_of_another_plugin(const struct load *load)
{
	const struct volume *known = NULL;

	if (load->type == object_type(OBJECT_VOLUME))
		known = load->type->find(load->state, load->value);
	return known && !str_eq(known->plugin_id, ((const struct volume *)load->value)->plugin_id);
}

static enum status load_object(const struct load *load, const struct kv_item *item, struct error *err)
{
	const struct object_type *type = load->type;
	enum status status;

	memset(load->value, 0, type->size);
	TRY(type->from_stored(item->key, item->value, item->len, load->value, err));
	memcpy((char *)load->value + type->create_index, &item->create_revision, sizeof(uint64_t));
	memcpy((char *)load->value + type->modify_index, &item->mod_revision, sizeof(uint64_t));
	status = check_key(type, item->key, load->value, err);
	if (status == STATUS_OK && is_of_another_plugin(load))
		status = error_set(err, STATUS_ABORTED, 0, "another plugin has it");
	if (status == STATUS_OK)
		status = type->put(load->state, load->value, err);
	if (type->release)
		type->release(load->value);
	return status;
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

static const char *prefix_of_kind(size_t i)
{
	return i < OBJECT_KIND_N ? object_type((enum object_kind)i)->prefix : NULL;
}

static size_t count_record_prefixes(void)
{
	size_t n = 0;

	while (record_prefix(n))
		n++;
	return n;
}

const char *load_prefix(size_t i)
{
	size_t n = count_record_prefixes();

	return i < n ? record_prefix(i) : prefix_of_kind(OBJECT_RECORD + 1 + i - n);
}

/* NULL: it is not in memory. */
static const struct object_type *type_of(const char *key)
{
	if (record_is_stored_only(key))
		return NULL;
	if (record_descriptor(key))
		return object_type(OBJECT_RECORD);
	for (int kind = OBJECT_RECORD + 1; kind < OBJECT_KIND_N; kind++)
		if (str_starts_with(key, object_type((enum object_kind)kind)->prefix))
			return object_type((enum object_kind)kind);
	return NULL;
}

static enum status load_range(struct kv *kv, struct state *state, const char *prefix, struct error *err)
{
	const struct object_type *type = type_of(prefix);
	cleanup_free void *value = malloc(type->size);
	struct load load = {.state = state, .type = type, .value = value, .err = err};

	if (!value)
		return error_no_memory(err, "the objects");
	TRY(kv_range(kv, prefix, on_item, &load, err));
	return load.status;
}

enum status load_state(struct kv *kv, struct state *state, struct error *err)
{
	enum status status = STATUS_OK;
	const char *prefix;

	for (size_t i = 0; (prefix = load_prefix(i)) && status == STATUS_OK; i++)
		status = load_range(kv, state, prefix, err);
	return status;
}

/* --- record by record --- */

/* Are these records already in memory? The load of the others depended on them. */
static bool is_for_all(const char *key)
{
	return str_eq(key, KEY_EPOCH) || str_eq(key, KEY_SCHEMA);
}

enum status load_record(struct state *state, const struct kv_item *item, struct error *err)
{
	const struct object_type *type = type_of(item->key);
	cleanup_free void *value = type ? calloc(1, type->size) : NULL;
	struct load load = {.state = state, .type = type, .value = value, .err = err};

	if (!type)
		return STATUS_OK;
	if (!value)
		return error_no_memory(err, "a record");
	if (is_for_all(item->key) && !RB_EMPTY(&state->nodes))
		return error_set(err, STATUS_ABORTED, 0, "%s has changed", item->key);
	if (item->value)
		return load_object(&load, item, err);
	if (!type->from_key(item->key, value))
		return error_set(err, STATUS_DATA_LOSS, 0, "%s is the key of no %s", item->key, type->name);
	type->forget(state, value);
	if (type->release)
		type->release(value);
	return STATUS_OK;
}

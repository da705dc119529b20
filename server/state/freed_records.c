/* SPDX-License-Identifier: Apache-2.0 */
#include "state/freed_records.h"

#include "base/join.h"
#include "base/str.h"
#include "model/pb.h"
#include "state/keys.h"
#include "store/kv.h"

void freed_keys(const Holdfast__V1__Claim *claim, char ret[static FREED_KEYS][OBJECT_KEY_SIZE])
{
	(void)str_join(ret[0], OBJECT_KEY_SIZE, PREFIX_FREED, claim->namespace_, "/", claim->volume_id, "/",
		       claim->id);
	(void)str_join(ret[1], OBJECT_KEY_SIZE, PREFIX_FREED_ID, claim->id);
	(void)str_join(ret[2], OBJECT_KEY_SIZE, PREFIX_FREED_BOOT, claim->node_id, "/", claim->boot_id, "/",
		       claim->id);
}

Holdfast__V1__Claim freed_reference(const Holdfast__V1__Claim *claim)
{
	Holdfast__V1__Claim reference = HOLDFAST__V1__CLAIM__INIT;

	reference.namespace_ = claim->namespace_;
	reference.volume_id = claim->volume_id;
	return reference;
}

/* Is the record under its own key, and of a claim that is freed? */
static enum status check_record(const struct kv_item *item, const Holdfast__V1__Claim *claim,
				struct error *err)
{
	char keys[FREED_KEYS][OBJECT_KEY_SIZE];

	if (!str_starts_with(item->key, PREFIX_FREED)) /* it leads to one */
		return STATUS_OK;
	freed_keys(claim, keys);
	if (!str_eq(item->key, keys[0]))
		return error_set(err, STATUS_DATA_LOSS, 0, "it calls itself %.200s", keys[0]);
	if (claim->state != HOLDFAST__V1__CLAIM_STATE__FREED)
		return error_set(err, STATUS_DATA_LOSS, 0, "it is not freed");
	return STATUS_OK;
}

enum status freed_read(const struct kv_item *item, struct claim *ret, struct error *err)
{
	Holdfast__V1__Claim *message = holdfast__v1__claim__unpack(NULL, item->len, item->value);
	char key[OBJECT_KEY_SIZE];
	struct error why;
	enum status status;

	status = message ? check_record(item, message, &why)
			 : error_set(&why, STATUS_DATA_LOSS, 0, "not a message of this version");
	if (status == STATUS_OK)
		status = claim_from_pb(message, ret, &why);
	holdfast__v1__claim__free_unpacked(message, NULL);
	if (status != STATUS_OK) {
		str_copy_text(key, sizeof(key), item->key);
		return error_set(
			err, STATUS_DATA_LOSS, 0,
			"the store's record %.250s cannot be read: %.200s; keep a copy and restore a "
			"backup (holdfast-server --restore FILE)",
			key, why.msg);
	}
	if (ret->create_index == 0)
		ret->create_index = item->create_revision;
	if (ret->modify_index == 0)
		ret->modify_index = item->mod_revision;
	return STATUS_OK;
}

struct checked {
	struct claim claim;
	enum status status;
	struct error *err;
};

static bool on_checked(const struct kv_item *item, void *userdata)
{
	struct checked *checked = userdata;

	checked->status = freed_read(item, &checked->claim, checked->err);
	return checked->status == STATUS_OK;
}

enum status freed_check(struct kv *kv, struct error *err)
{
	static const char *const prefixes[FREED_KEYS] = {PREFIX_FREED, PREFIX_FREED_ID, PREFIX_FREED_BOOT};
	struct checked checked = {.status = STATUS_OK, .err = err};
	enum status status = STATUS_OK;

	for (size_t i = 0; i < FREED_KEYS && status == STATUS_OK; i++) {
		status = kv_range(kv, prefixes[i], on_checked, &checked, err);
		if (status == STATUS_OK)
			status = checked.status;
	}
	return status;
}

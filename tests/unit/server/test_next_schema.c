/* SPDX-License-Identifier: Apache-2.0 */
/* A store of this version under schema.c of a made-up version 2. */

#include "temp_dir.h"
#include "unit.h"

#include "state/keys.h"
#include "state/schema.h"

#include <holdfast/v1/types.pb-c.h>
#include <systemd/sd-event.h>

static enum status put_version_1(struct kv_rewrite *rewrite, void *userdata, struct error *err)
{
	char *former[] = {"former-store"};
	Holdfast__V1__Schema schema = V1(schema, .version = 1, .cluster = "c1", .store_id = "this-store",
					 .former_store_ids = former, .n_former_store_ids = 1);

	return schema_put(rewrite, KEY_SCHEMA, &schema.base, err);
}

static bool check_version_2(const struct kv_item *item, void *userdata)
{
	cleanup_pb Holdfast__V1__Schema *schema = holdfast__v1__schema__unpack(NULL, item->len, item->value);

	assert_non_null(schema);
	assert_int_equal(schema->version, 2);
	assert_string_equal(schema->cluster, "c1");
	assert_string_equal(schema->store_id, "this-store");
	assert_int_equal(schema->n_former_store_ids, 1);
	assert_string_equal(schema->former_store_ids[0], "former-store");
	*(bool *)userdata = true;
	return false;
}

TEST(version_2_raises_a_store_of_version_1_once_and_keeps_its_other_fields)
{
	char dir[TEMP_DIR_SIZE], path[TEMP_PATH_SIZE];
	bool is_checked = false;
	sd_event *event = NULL;
	struct kv *kv = NULL;
	uint64_t revision;

	assert_int_equal(SCHEMA_VERSION, 2);
	temp_dir_make(dir);
	assert_true(sd_event_new(&event) >= 0);
	assert_int_equal(kv_open_sqlite(event, temp_dir_path(path, dir, "store.db"), &kv, NULL), STATUS_OK);
	assert_int_equal(kv_rewrite(kv, put_version_1, NULL, NULL), STATUS_OK);
	assert_int_equal(schema_bring_up(kv, "c2", NULL), STATUS_FAILED_PRECONDITION);
	assert_int_equal(schema_bring_up(kv, "c1", NULL), STATUS_OK);
	assert_int_equal(kv_range(kv, KEY_SCHEMA, check_version_2, &is_checked, NULL), STATUS_OK);
	assert_true(is_checked);
	revision = kv_revision(kv);
	assert_int_equal(schema_bring_up(kv, "c1", NULL), STATUS_OK);
	assert_int_equal(kv_revision(kv), revision);
	kv_close(kv);
	(void)sd_event_unref(event);
	temp_dir_remove(dir);
}

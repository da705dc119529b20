/* SPDX-License-Identifier: Apache-2.0 */
/* Records one by one, as a copy of the store takes them in. That they leave what loading the store would
 * leave is checked behind every test with a server, see copied.h. */

#include "load.h"
#include "unit.h"

#include "model/pb.h"
#include "rpc/pack.h"
#include "state/keys.h"
#include "state/state.h"

#include <holdfast/v1/operator.pb-c.h>

static int setup(void **state)
{
	struct state *s = NON_NULL(calloc(1, sizeof(*s)));

	state_init(s);
	*state = s;
	return 0;
}

static int teardown(void **state)
{
	state_release(*state);
	free(*state);
	return 0;
}

static enum status load_message(struct state *s, const char *key, const ProtobufCMessage *message)
{
	struct kv_item item = {.key = key, .create_revision = 7, .mod_revision = 9};
	enum status status;

	item.value = NON_NULL(pack_message(message, 0, &item.len));
	status = load_record(s, &item, NULL);
	free((void *)(uintptr_t)item.value);
	return status;
}

static enum status delete_record(struct state *s, const char *key)
{
	return load_record(s, &(struct kv_item){.key = key}, NULL);
}

static enum status load_node(struct state *s, const char *id)
{
	char key[64];
	Holdfast__V1__Node node = V1(node, .id = TEXT(id), .boot_id = "b0010000-0000-4000-8000-000000000001",
				     .status = HOLDFAST__V1__NODE_STATUS__READY);

	(void)str_format(key, sizeof(key), PREFIX_NODE "%s", id);
	return load_message(s, key, &node.base);
}

static enum status load_volume(struct state *s, const char *plugin_id)
{
	static struct volume volume = {.id = "db", .namespace = "default", .external_id = "x"};
	Holdfast__V1__Volume *pb;
	enum status status;

	(void)str_copy(volume.plugin_id, sizeof(volume.plugin_id), plugin_id);
	volume.generation = 1;
	pb = NON_NULL(volume_borrow_pb(&volume));
	pb->create_index = pb->modify_index = 0;
	status = load_message(s, PREFIX_VOLUME "default/db", &pb->base);
	pb_free_borrowing(&pb->base);
	return status;
}

#define CASE(name) TEST_ON(name, struct state, s, setup, teardown)

CASE(records_that_only_the_store_has_are_not_loaded)
{
	Holdfast__V1__AuditRecord record = HOLDFAST__V1__AUDIT_RECORD__INIT;

	assert_int_equal(load_message(s, PREFIX_AUDIT "1", &record.base), STATUS_OK);
	assert_int_equal(delete_record(s, PREFIX_FREED "default/db/x"), STATUS_OK);
	assert_int_equal(delete_record(s, "of-another-version/1"), STATUS_OK);
	assert_null(records_from(&s->records, ""));
}

TEST_ON(a_node_comes_and_goes_with_its_indexes, struct state, s, setup, teardown)
{
	assert_int_equal(load_node(s, "n1"), STATUS_OK);
	assert_int_equal(state_node(s, "n1")->node.create_index, 7);
	assert_int_equal(state_node(s, "n1")->node.modify_index, 9);
	assert_int_equal(delete_record(s, PREFIX_NODE "n1"), STATUS_OK);
	assert_null(state_node(s, "n1"));
	assert_int_equal(delete_record(s, PREFIX_NODE "n1"), STATUS_OK); /* once more */
}

/* Whether a node has reported is counted when it is loaded, by the epoch there is then. */
CASE(an_epoch_that_begins_behind_nodes_asks_for_all_of_it)
{
	Holdfast__V1__Epoch epoch = V1(epoch, .number = 3);

	assert_int_equal(load_message(s, KEY_EPOCH, &epoch.base), STATUS_OK);
	assert_int_equal(load_node(s, "n1"), STATUS_OK);
	assert_int_equal(s->n_unreported, 1);
	epoch.number = 4;
	assert_int_equal(load_message(s, KEY_EPOCH, &epoch.base), STATUS_ABORTED);
	assert_int_equal(delete_record(s, KEY_EPOCH), STATUS_ABORTED);
}

TEST_ON(a_volume_of_another_plugin_asks_for_all_of_it, struct state, s, setup, teardown)
{
	assert_int_equal(load_volume(s, "ebs"), STATUS_OK);
	assert_int_equal(load_volume(s, "ebs"), STATUS_OK);
	assert_int_equal(load_volume(s, "nfs"), STATUS_ABORTED);
	assert_int_equal(delete_record(s, PREFIX_VOLUME "default/db"), STATUS_OK);
	assert_int_equal(load_volume(s, "nfs"), STATUS_OK);
}

CASE(a_delete_of_an_invalid_key_is_refused)
{
	static const char *const keys[] = {
		PREFIX_VOLUME "db",
		PREFIX_NODE_PLUGIN "n1/ebs",
		PREFIX_NODE_PLUGIN "n1",
		PREFIX_CLAIM "longer-than-any-id-of-a-claim-that-there-is-or-may-be",
		PREFIX_ALLOC "longer-than-any-id-of-an-allocation-that-there-is-or-may-be",
	};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		assert_int_equal(delete_record(s, keys[i]), STATUS_DATA_LOSS);
}

CASE(a_value_of_another_key_is_refused)
{
	Holdfast__V1__Node node = V1(node, .id = "n2");

	assert_int_equal(load_message(s, PREFIX_NODE "n1", &node.base), STATUS_DATA_LOSS);
}

static size_t find_prefix(const char *key)
{
	const char *prefix;
	size_t i = 0;

	while ((prefix = load_prefix(i)) && !str_eq(prefix, key))
		i++;
	assert_msg(prefix, "%s", key);
	return i;
}

/* A follower answers for a token that it knows; without the policies it would say that a right is missing. */
CASE(policies_are_copied_before_the_tokens_that_name_them)
{
	assert_true(find_prefix(PREFIX_POLICY) < find_prefix(PREFIX_TOKEN));
	assert_int_equal(find_prefix(PREFIX_TOKEN), 2); /* the first three are read without a pause */
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "json_message.h"

#include "base/strbuf.h"
#include "model/plain_options.h"
#include "model/volume_detail.h"

#define CSI_HEAD "{\"id\":\"db\",\"type\":\"CSI\",\"pluginId\":\"nfs\","
#define CAPABILITY                                                                                     \
	"\"requestedCapabilities\":[{\"accessMode\":\"SINGLE_NODE_WRITER\",\"attachmentMode\":\"FILE_" \
	"SYSTEM\"}]"
#define CSI CSI_HEAD CAPABILITY
#define NATIVE                                                                                              \
	"{\"id\":\"db\",\"type\":\"NATIVE\",\"profile\":\"disk\",\"source\":{\"class\":\"BLOCK\",\"byId\":" \
	"\"x\"}," CAPABILITY

static Holdfast__V1__Volume *read_volume(const char *json)
{
	return message_of(&holdfast__v1__volume__descriptor, json);
}

/* As a registration goes: split, inherit from @current when there is one, default, validate. */
static enum status read_parts(const char *json, const struct volume *current, struct volume_parts *ret,
			      struct error *err)
{
	Holdfast__V1__Volume *pb = read_volume(json);
	enum status status = volume_parts_from_pb(pb, ret, err);

	holdfast__v1__volume__free_unpacked(pb, NULL);
	if (status != STATUS_OK)
		return status;
	if (current)
		volume_parts_inherit(ret, current);
	volume_default(&ret->volume);
	status = volume_parts_validate(ret, err);
	if (status != STATUS_OK)
		volume_parts_release(ret);
	return status;
}

TEST(volume_errors_name_the_field)
{
	static const struct {
		const char *json;
		const char *field; /* NULL: valid */
	} cases[] = {
		{CSI "}", NULL},
		{NATIVE "}", NULL},
		{CSI ",\"profile\":\"disk\"}", "profile:"},
		{CSI ",\"source\":{\"class\":\"BLOCK\",\"byId\":\"x\"}}", "source:"},
		{CSI ",\"name\":\"a\\nb\"}", "name:"},
		{CSI ",\"externalId\":\"a\\u0007\"}", "external_id:"},
		{"{\"id\":\"db\",\"type\":\"CSI\"," CAPABILITY "}", "plugin_id:"},
		{"{\"id\":\"db\",\"type\":\"CSI\",\"pluginId\":\"native\"," CAPABILITY "}", "plugin_id:"},
		{"{\"id\":\"db\",\"type\":\"CSI\",\"pluginId\":\"a/b\"," CAPABILITY "}", "plugin_id:"},
		{CSI_HEAD "\"name\":\"x\"}", "capability:"},
		{CSI ",\"mountOptions\":{\"fsType\":\"ext4\",\"mountFlags\":[\"ro\"]}}", NULL},
		{CSI ",\"mountOptions\":{\"fsType\":\"ext 4\"}}", "mount_options.fs_type:"},
		{CSI ",\"mountOptions\":{\"mountFlags\":[\"\"]}}", "mount_options.mount_flags[0]"},
		ROW(CSI_HEAD
		    "\"requestedCapabilities\":[{\"accessMode\":\"SINGLE_NODE_WRITER\",\"attachmentMode\":"
		    "\"BLOCK_DEVICE\"}],\"mountOptions\":{\"fsType\":\"ext4\"}}",
		    "mount_options:"),
		{CSI ",\"parameters\":{\"\":\"x\"}}", "parameters:"},
		{CSI ",\"context\":{\"a\\n\":\"x\"}}", "context:"},
		{CSI ",\"secrets\":{\"\":\"x\"}}", "secrets:"},
		ROW(CSI ",\"secrets\":{\"password\":\"a=b==\\nc\"}}",
		    NULL), /* "=" and line breaks are as good as others */
		{CSI ",\"topologies\":[{}]}", "topologies[0].segments:"},
		{CSI ",\"topologyRequest\":{\"required\":[{\"segments\":{\"zone\":\"a\"}},{}]}}",
		 "topology_request.required[1].segments:"},
		{CSI ",\"topologyRequest\":{\"preferred\":[{\"segments\":{\"\":\"a\"}}]}}",
		 "topology_request.preferred[0].segments:"},
		{CSI ",\"cloneId\":\"a\"}", NULL},
		{CSI ",\"cloneId\":\"a\",\"snapshotId\":\"b\"}", "clone_id:"},
		{CSI ",\"snapshotId\":\"b\\n\"}", "snapshot_id:"},
		{CSI ",\"capacityMin\":\"10\",\"capacityMax\":\"10\"}", NULL},
		{CSI ",\"capacityMin\":\"11\",\"capacityMax\":\"10\"}", "capacity_max:"},
		{CSI ",\"capacityMin\":\"11\"}", NULL},
		{CSI ",\"capacityMin\":\"9223372036854775807\"}", NULL},
		{CSI ",\"capacityMin\":\"9223372036854775808\"}", "capacity_min:"},
		{CSI ",\"capacityMax\":\"9223372036854775808\"}", "capacity_max:"},
		{NATIVE ",\"description\":\"orders\"}", NULL},
		{NATIVE ",\"warn_at\":100}", NULL},
		{NATIVE ",\"warn_at\":101}", "warn_at:"},
		{NATIVE ",\"description\":\"a\\n\"}", "description:"},
		{CSI ",\"description\":\"a\\n\"}", "description:"},
		{NATIVE ",\"onNodeLoss\":{}}", NULL},
		{NATIVE ",\"onNodeLoss\":{\"afterMs\":\"30000\",\"do\":\"NODE_LOSS_ACTION_POWER_FENCE\"}}",
		 NULL},
		{CSI ",\"onNodeLoss\":{\"do\":\"NODE_LOSS_ACTION_POWER_FENCE\"}}", "on_node_loss.after:"},
		{CSI ",\"onNodeLoss\":{\"afterMs\":\"30000\",\"do\":\"NODE_LOSS_ACTION_NETWORK_FENCE\"}}",
		 NULL},
		{CSI ",\"onNodeLoss\":{\"do\":\"NODE_LOSS_ACTION_NETWORK_FENCE\"}}", "on_node_loss.after:"},
		{NATIVE ",\"onNodeLoss\":{\"afterMs\":\"30000\",\"do\":\"NODE_LOSS_ACTION_NETWORK_FENCE\"}}",
		 "on_node_loss.do:"},
		{CSI ",\"onNodeLoss\":{\"afterMs\":\"4999\",\"do\":\"NODE_LOSS_ACTION_POWER_FENCE\"}}",
		 "on_node_loss.after:"},
		{CSI ",\"snapshots\":{\"everyMs\":\"60000\",\"keep\":256}}", NULL},
		{CSI ",\"snapshots\":{\"everyMs\":\"59999\",\"keep\":1}}", "snapshots.every:"},
		{CSI ",\"snapshots\":{\"everyMs\":\"2678400001\",\"keep\":1}}", "snapshots.every:"},
		{CSI ",\"snapshots\":{\"everyMs\":\"60000\"}}", "snapshots.keep:"},
		{CSI ",\"snapshots\":{\"everyMs\":\"60000\",\"keep\":257}}", "snapshots.keep:"},
		{NATIVE ",\"snapshots\":{\"everyMs\":\"60000\",\"keep\":1}}", "snapshots:"},
		{NATIVE ",\"mountOptions\":{}}", "mount_options:"},
		{NATIVE ",\"parameters\":{\"a\":\"b\"}}", "parameters:"},
		{NATIVE ",\"context\":{\"a\":\"b\"}}", "context:"},
		{NATIVE ",\"secrets\":{\"a\":\"b\"}}", "secrets:"},
		{NATIVE ",\"topologyRequest\":{}}", "topology_request:"},
		{NATIVE ",\"topologies\":[{\"segments\":{\"a\":\"b\"}}]}", "topologies:"},
		{NATIVE ",\"capacityMin\":\"1\"}", "capacity_min:"},
		{NATIVE ",\"capacityMax\":\"1\"}", "capacity_max:"},
		{NATIVE ",\"cloneId\":\"a\"}", "clone_id:"},
		{NATIVE ",\"snapshotId\":\"a\"}", "snapshot_id:"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct volume_parts parts = VOLUME_PARTS_INIT;
		struct error err = {0};
		enum status status = read_parts(cases[i].json, NULL, &parts, &err);

		if (status != (cases[i].field ? STATUS_INVALID_ARGUMENT : STATUS_OK) ||
		    (cases[i].field && !str_starts_with(err.msg, cases[i].field)))
			fail_msg("%s: %d %s", cases[i].json, (int)status, err.msg);
		if (status == STATUS_OK)
			volume_parts_release(&parts);
	}
}

/* CSI with @field holding @n times @item; "%zu" in it is its number. */
static enum status with_many(const char *before, const char *item, size_t n, const char *behind)
{
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(1 << 20);
	struct volume_parts parts;

	strbuf_printf(&sb, CSI ",%s", before);
	for (size_t i = 0; i < n; i++) {
		const char *mark = strchr(item, '#');

		strbuf_puts(&sb, i > 0 ? "," : "");
		if (mark)
			strbuf_printf(&sb, "%.*s%zu%s", (int)(mark - item), item, i, mark + 1);
		else
			strbuf_puts(&sb, item);
	}
	strbuf_printf(&sb, "%s}", behind);
	assert_int_equal(sb.error, 0);
	TRY(read_parts(sb.data, NULL, &parts, NULL));
	volume_parts_release(&parts);
	return STATUS_OK;
}

/* CSI with one text of @n bytes. */
static enum status with_long(const char *before, size_t n, const char *behind)
{
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(1 << 20);
	struct volume_parts parts;

	strbuf_printf(&sb, CSI ",%s", before);
	for (size_t i = 0; i < n; i++)
		strbuf_puts(&sb, "x");
	strbuf_printf(&sb, "%s}", behind);
	TRY(read_parts(sb.data, NULL, &parts, NULL));
	volume_parts_release(&parts);
	return STATUS_OK;
}

TEST(every_limit_holds_at_its_value_and_not_one_above)
{
	static const struct {
		const char *before, *item, *behind;
		size_t max;
	} lists[] = {
		{"\"parameters\":{", "\"k#\":\"v\"", "}", VOLUME_MAP_ENTRIES_MAX},
		{"\"context\":{", "\"k#\":\"v\"", "}", VOLUME_MAP_ENTRIES_MAX},
		{"\"secrets\":{", "\"k#\":\"v\"", "}", VOLUME_MAP_ENTRIES_MAX},
		{"\"mountOptions\":{\"mountFlags\":[", "\"f\"", "]}", VOLUME_MOUNT_FLAGS_MAX},
		{"\"topologies\":[", "{\"segments\":{\"a\":\"b\"}}", "]", VOLUME_TOPOLOGIES_MAX},
		{"\"topologyRequest\":{\"required\":[", "{\"segments\":{\"a\":\"b\"}}", "]}",
		 VOLUME_TOPOLOGIES_MAX},
		{"\"topologyRequest\":{\"preferred\":[", "{\"segments\":{\"a\":\"b\"}}", "]}",
		 VOLUME_TOPOLOGIES_MAX},
		{"\"topologies\":[{\"segments\":{", "\"k#\":\"v\"", "}}]", 8},
	};
	static const struct {
		const char *before, *behind;
		size_t max;
	} texts[] = {
		{"\"externalId\":\"", "\"", EXTERNAL_ID_MAX},
		{"\"cloneId\":\"", "\"", EXTERNAL_ID_MAX},
		{"\"snapshotId\":\"", "\"", EXTERNAL_ID_MAX},
		{"\"mountOptions\":{\"fsType\":\"", "\"}", VOLUME_FS_TYPE_MAX},
		{"\"mountOptions\":{\"mountFlags\":[\"", "\"]}", VOLUME_MOUNT_FLAG_MAX},
		{"\"parameters\":{\"", "\":\"\"}", VOLUME_MAP_KEY_MAX},
		{"\"secrets\":{\"a\":\"", "\"}", VOLUME_MAP_BYTES_MAX - 1},
		{"\"topologies\":[{\"segments\":{\"", "\":\"\"}}]", 63},
		{"\"topologies\":[{\"segments\":{\"a\":\"", "\"}}]", 63},
	};

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		assert_ok(with_many(lists[i].before, lists[i].item, lists[i].max, lists[i].behind));
		assert_int_equal(with_many(lists[i].before, lists[i].item, lists[i].max + 1, lists[i].behind),
				 STATUS_INVALID_ARGUMENT);
	}
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		assert_int_equal(with_long(texts[i].before, texts[i].max, texts[i].behind), STATUS_OK);
		assert_int_equal(with_long(texts[i].before, texts[i].max + 1, texts[i].behind),
				 STATUS_INVALID_ARGUMENT);
	}
}

TEST(server_owned_fields_are_not_taken_from_callers)
{
	cleanup(volume_parts_release) struct volume_parts parts;

	assert_ok(read_parts(CSI ",\"capacity\":\"5\",\"phase\":\"VOLUME_DELETING\",\"phaseError\":\"x\","
				 "\"nodeCapacities\":[{\"nodeId\":\"n1\",\"bytes\":\"5\"}]}",
			     NULL, &parts, NULL));
	assert_int_equal(parts.detail->capacity, 0);
	assert_int_equal(parts.detail->phase, HOLDFAST__V1__VOLUME_PHASE__VOLUME_READY);
	assert_string_equal(parts.detail->phase_error, "");
	assert_int_equal(parts.detail->n_node_capacities, 0);
}

TEST(topologies_begin_as_the_required_ones)
{
	cleanup(volume_parts_release) struct volume_parts parts;

	assert_ok(read_parts(CSI ",\"topologyRequest\":{\"required\":[{\"segments\":{\"zone\":\"a\"}}]}}",
			     NULL, &parts, NULL));
	assert_int_equal(volume_parts_begin(&parts, NULL), STATUS_OK);
	assert_int_equal(parts.detail->n_topologies, 1);
	assert_string_equal(parts.detail->topologies[0]->segments[0]->value, "a");
	assert_int_equal(volume_parts_begin(&parts, NULL), STATUS_OK);
	assert_int_equal(parts.detail->n_topologies, 1);
}

#define STORED                                                                                             \
	CSI ",\"name\":\"the "                                                                             \
	    "db\",\"externalId\":\"ext\",\"mountOptions\":{\"fsType\":\"ext4\",\"mountFlags\":[\"pw=1\""   \
	    "]},\"parameters\":{\"tier\":\"gold\"},\"context\":{\"c\":\"1\"},\"secrets\":{\"user\":\"u\"," \
	    "\"pass\":\"p\"},"                                                                             \
	    "\"snapshotId\":\"s1\",\"topologyRequest\":{\"required\":[{\"segments\":{\"zone\":\"a\"}}]}"
#define SAME_TOPOLOGY ",\"topologyRequest\":{\"required\":[{\"segments\":{\"zone\":\"a\"}}]}"
#define GIVEN_SECRETS ",\"secrets\":{\"pass\":\"p\",\"user\":\"u\"}"
#define GIVEN_FLAGS ",\"mountOptions\":{\"fsType\":\"ext4\",\"mountFlags\":[\"pw=1\"]}"
#define SAME_SECRETS ",\"secrets\":{\"pass\":\"[redacted]\",\"user\":\"[redacted]\"}"

TEST(merging_follows_the_rules_of_each_field)
{
	enum { FREE, IN_USE };
	static const struct {
		const char *json;
		int in_use;
		enum status status;
		const char *field;
		bool changed;
	} cases[] = {
		{STORED "}", IN_USE, STATUS_OK, NULL, false},
		/* what may be left out stays */
		{CSI SAME_TOPOLOGY SAME_SECRETS "}", IN_USE, STATUS_OK, NULL, false},
		{CSI SAME_TOPOLOGY SAME_SECRETS ",\"name\":\"other\"}", FREE, STATUS_FAILED_PRECONDITION,
		 "name:", false},
		{CSI SAME_TOPOLOGY SAME_SECRETS ",\"externalId\":\"x\"}", FREE, STATUS_FAILED_PRECONDITION,
		 "external_id:", false},
		{CSI SAME_TOPOLOGY SAME_SECRETS ",\"cloneId\":\"x\"}", FREE, STATUS_FAILED_PRECONDITION,
		 "clone_id:", false},
		{CSI SAME_TOPOLOGY SAME_SECRETS ",\"snapshotId\":\"x\"}", FREE, STATUS_FAILED_PRECONDITION,
		 "snapshot_id:", false},
		{CSI SAME_TOPOLOGY SAME_SECRETS ",\"parameters\":{\"tier\":\"x\"}}", FREE,
		 STATUS_FAILED_PRECONDITION, "parameters:", false},
		{CSI SAME_TOPOLOGY SAME_SECRETS ",\"parameters\":{\"tier\":\"gold\"}}", FREE, STATUS_OK, NULL,
		 false},
		/* secrets that the caller does not give go to no other place */
		{CSI SAME_TOPOLOGY SAME_SECRETS GIVEN_FLAGS ",\"context\":{\"c\":\"2\"}}", FREE,
		 STATUS_INVALID_ARGUMENT, "context:", false},
		{CSI SAME_TOPOLOGY GIVEN_SECRETS ",\"context\":{\"c\":\"2\"}}", FREE, STATUS_INVALID_ARGUMENT,
		 "context:", false},
		ROW(CSI SAME_TOPOLOGY GIVEN_SECRETS
		    ",\"mountOptions\":{\"fsType\":\"ext4\",\"mountFlags\":[\"[redacted]\"]},"
		    "\"context\":{\"c\":\"2\"}}",
		    FREE, STATUS_INVALID_ARGUMENT, "context:", false),
		{CSI SAME_TOPOLOGY GIVEN_SECRETS GIVEN_FLAGS ",\"context\":{\"c\":\"2\"}}", FREE, STATUS_OK,
		 NULL, true},
		{CSI SAME_TOPOLOGY GIVEN_SECRETS ",\"mountOptions\":{},\"context\":{\"c\":\"2\"}}", FREE,
		 STATUS_OK, NULL, true},
		{CSI SAME_TOPOLOGY SAME_SECRETS ",\"context\":{\"c\":\"1\"}}", FREE, STATUS_OK, NULL, false},
		{CSI SAME_TOPOLOGY SAME_SECRETS ",\"context\":{\"c\":\"2\"}}", IN_USE,
		 STATUS_FAILED_PRECONDITION, "context:", false},
		{CSI SAME_TOPOLOGY SAME_SECRETS ",\"shares\":\"other\"}", 0, STATUS_FAILED_PRECONDITION,
		 "shares:", false},
		{CSI SAME_SECRETS "}", FREE, STATUS_FAILED_PRECONDITION, "topology_request:", false},
		{CSI SAME_TOPOLOGY SAME_SECRETS ",\"topologies\":[{\"segments\":{\"zone\":\"b\"}}]}", FREE,
		 STATUS_FAILED_PRECONDITION, "topologies:", false},
		ROW(CSI SAME_TOPOLOGY SAME_SECRETS
		    ",\"mountOptions\":{\"fsType\":\"xfs\",\"mountFlags\":[\"pw=1\"]}}",
		    FREE, STATUS_OK, NULL, true),
		/* stored secrets go with no other flags, which may name a server */
		ROW(CSI SAME_TOPOLOGY SAME_SECRETS
		    ",\"mountOptions\":{\"fsType\":\"ext4\",\"mountFlags\":[\"pw=1\",\"ip=192.0.2.1\"]}}",
		    FREE, STATUS_INVALID_ARGUMENT, "mount_options.mount_flags:", false),
		{CSI SAME_TOPOLOGY SAME_SECRETS ",\"mountOptions\":{\"fsType\":\"xfs\"}}", FREE,
		 STATUS_INVALID_ARGUMENT, "mount_options.mount_flags:", false},
		{CSI SAME_TOPOLOGY GIVEN_SECRETS ",\"mountOptions\":{\"fsType\":\"xfs\"}}", FREE, STATUS_OK,
		 NULL, true},
		{CSI SAME_TOPOLOGY SAME_SECRETS ",\"mountOptions\":{\"fsType\":\"xfs\"}}", IN_USE,
		 STATUS_FAILED_PRECONDITION, "mount_options:", false},
		ROW(CSI SAME_TOPOLOGY SAME_SECRETS
		    ",\"onNodeLoss\":{\"afterMs\":\"30000\",\"do\":\"NODE_LOSS_ACTION_POWER_FENCE\"}}",
		    IN_USE, STATUS_OK, NULL, true),
		ROW(CSI SAME_TOPOLOGY SAME_SECRETS ",\"snapshots\":{\"everyMs\":\"60000\",\"keep\":1}}",
		    IN_USE, STATUS_OK, NULL, true),
		/* what a read shows is what is stored */
		ROW(CSI SAME_TOPOLOGY SAME_SECRETS
		    ",\"mountOptions\":{\"fsType\":\"ext4\",\"mountFlags\":[\"[redacted]\"]}}",
		    IN_USE, STATUS_OK, NULL, false),
		ROW(CSI SAME_TOPOLOGY SAME_SECRETS
		    ",\"mountOptions\":{\"fsType\":\"xfs\",\"mountFlags\":[\"[redacted]\"]}}",
		    FREE, STATUS_INVALID_ARGUMENT, "mount_options.mount_flags:", false),
		{CSI SAME_TOPOLOGY "}", IN_USE, STATUS_OK, NULL, true}, /* secrets are always replaced */
		{CSI SAME_TOPOLOGY ",\"secrets\":{\"pass\":\"new\",\"user\":\"u\"}}", IN_USE, STATUS_OK, NULL,
		 true},
		/* a stored one goes with no address of the caller's */
		{CSI SAME_TOPOLOGY ",\"secrets\":{\"pass\":\"[redacted]\",\"user\":\"other\"}}", IN_USE,
		 STATUS_INVALID_ARGUMENT, "secrets:", false},
		{CSI SAME_TOPOLOGY ",\"secrets\":{\"pass\":\"[redacted]\",\"server\":\"mine\"}}", IN_USE,
		 STATUS_INVALID_ARGUMENT, "secrets:", false},
		{CSI SAME_TOPOLOGY ",\"secrets\":{\"other\":\"[redacted]\"}}", IN_USE,
		 STATUS_INVALID_ARGUMENT, "secrets:", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		static const struct capability in_use = {SINGLE_NODE_WRITER, ATTACHMENT_FILE_SYSTEM};
		cleanup(volume_parts_release) struct volume_parts current = VOLUME_PARTS_INIT;
		cleanup(volume_parts_release) struct volume_parts update = VOLUME_PARTS_INIT;
		struct error err = {0};
		bool changed = false;
		enum status st;

		assert_int_equal(read_parts(STORED "}", NULL, &current, NULL), STATUS_OK);
		assert_int_equal(volume_parts_begin(&current, NULL), STATUS_OK);
		if (read_parts(cases[i].json, &current.volume, &update, &err) != STATUS_OK)
			fail_msg("%s: %s", cases[i].json, err.msg);
		st = volume_parts_merge(&current, &update, &in_use, cases[i].in_use == IN_USE, &changed,
					&err);
		if (st != cases[i].status || changed != cases[i].changed ||
		    (cases[i].field && !str_starts_with(err.msg, cases[i].field)))
			fail_msg("%s: %d %d %s", cases[i].json, (int)st, changed, err.msg);
	}
}

TEST(a_context_is_replaced_whole_and_never_erased)
{
	cleanup(volume_parts_release) struct volume_parts current, update;
	bool changed;

	assert_int_equal(read_parts(STORED "}", NULL, &current, NULL), STATUS_OK);
	assert_int_equal(read_parts(STORED ",\"context\":{}}", &current.volume, &update, NULL), STATUS_OK);
	assert_int_equal(update.detail->n_context, 0);
	assert_int_equal(volume_parts_merge(&current, &update, NULL, 0, &changed, NULL), STATUS_OK);
	assert_int_equal(current.detail->n_context, 1);
	assert_string_equal(current.detail->context[0]->value, "1");
	volume_parts_release(&update);
	assert_ok(read_parts(
		CSI ",\"context\":{\"d\":\"2\"},\"secrets\":{\"user\":\"u\"}" GIVEN_FLAGS SAME_TOPOLOGY "}",
		&current.volume, &update, NULL));
	assert_int_equal(volume_parts_merge(&current, &update, NULL, 0, &changed, NULL), STATUS_OK);
	assert_int_equal(current.detail->n_context, 1);
	assert_string_equal(current.detail->context[0]->key, "d");
	assert_int_equal(current.secrets->n_secrets, 1); /* replaced: the one not named is gone */
	assert_string_equal(current.secrets->secrets[0]->value, "u");
}

TEST(fields_are_copied_and_compared_from_a_number_on)
{
	Holdfast__V1__Volume *from =
		read_volume("{\"id\":\"db\",\"snapshotId\":\"s\",\"phaseError\":\"no\"}");
	Holdfast__V1__Volume *to = read_volume("{\"id\":\"web\",\"phase\":\"VOLUME_EXPANDING\"}");
	Holdfast__V1__Volume *want =
		read_volume("{\"id\":\"web\",\"snapshotId\":\"s\",\"phaseError\":\"no\"}");
	Holdfast__V1__Volume *empty = read_volume("{}");

	assert_false(message_eq(&to->base, &want->base));
	assert_true(message_copy_from(&to->base, &from->base, 50)); /* snapshot_id and up */
	assert_true(message_eq(&to->base, &want->base));
	assert_false(message_eq(&to->base, NULL));
	assert_true(message_eq(&empty->base, NULL));
	assert_true(message_eq(NULL, NULL));
	holdfast__v1__volume__free_unpacked(from, NULL);
	holdfast__v1__volume__free_unpacked(to, NULL);
	holdfast__v1__volume__free_unpacked(want, NULL);
	holdfast__v1__volume__free_unpacked(empty, NULL);
}

TEST(plain_fields_are_those_of_the_last_registration)
{
	static const struct {
		const char *json;
		const char *description; /* afterwards */
		bool changed;
	} cases[] = {
		{NATIVE "}", "", false},
		{NATIVE ",\"description\":\"a\"}", "a", true},
		{NATIVE ",\"description\":\"a\"}", "a", false},
		{NATIVE ",\"description\":\"b\"}", "b", true},
		{NATIVE "}", "", true},
	};
	static const struct capability in_use = {SINGLE_NODE_WRITER, ATTACHMENT_FILE_SYSTEM};
	cleanup(volume_parts_release) struct volume_parts current;

	assert_int_equal(read_parts(NATIVE "}", NULL, &current, NULL), STATUS_OK);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		Holdfast__V1__Volume *view = read_volume("{\"id\":\"db\"}");
		cleanup(volume_parts_release) struct volume_parts update;
		bool changed;

		assert_int_equal(read_parts(cases[i].json, &current.volume, &update, NULL), STATUS_OK);
		assert_ok(volume_parts_merge(&current, &update, &in_use, 1, &changed, NULL));
		assert_int_equal(changed, cases[i].changed);
		assert_true(volume_show(view, current.detail, current.secrets));
		assert_string_equal(view->description, cases[i].description);
		assert_string_equal(view->id, "db"); /* not a plain field */
		holdfast__v1__volume__free_unpacked(view, NULL);
	}
}

TEST(sizes_grow_within_their_bounds)
{
	static const struct {
		uint64_t min, max;
		enum status status;
		bool changed;
	} cases[] = {
		{0, 0, STATUS_OK, false},
		{10, 20, STATUS_OK, false},
		{12, 0, STATUS_OK, true},
		{0, 30, STATUS_OK, true},
		{21, 0, STATUS_INVALID_ARGUMENT, false},
		{0, 9, STATUS_INVALID_ARGUMENT, false},
		{5, 14, STATUS_FAILED_PRECONDITION, false},
		{5, 15, STATUS_OK, true},
		{VOLUME_CAPACITY_MAX, VOLUME_CAPACITY_MAX, STATUS_OK, true},
		{VOLUME_CAPACITY_MAX + 1, 0, STATUS_INVALID_ARGUMENT, false},
		{0, VOLUME_CAPACITY_MAX + 1, STATUS_INVALID_ARGUMENT, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		Holdfast__V1__VolumeDetail detail =
			V1(volume_detail, .capacity_min = 10, .capacity_max = 20, .capacity = 15);
		bool changed = false;

		assert_int_equal(volume_detail_resize(&detail, cases[i].min, cases[i].max, &changed, NULL),
				 cases[i].status);
		assert_int_equal(changed, cases[i].changed);
		if (cases[i].status != STATUS_OK) {
			assert_int_equal(detail.capacity_min, 10);
			assert_int_equal(detail.capacity_max, 20);
		}
	}
}

static bool shows(const Holdfast__V1__Volume *view, const char *text)
{
	cleanup_free char *dump = NULL;
	json_t *json = NULL;

	assert_int_equal(pbjson_encode(&view->base, 0, &json, NULL), STATUS_OK);
	dump = json_dumps(json, JSON_COMPACT);
	json_decref(json);
	return strstr(dump, text) != NULL;
}

TEST(reads_show_neither_secrets_nor_mount_flags_and_erase_nothing)
{
	Holdfast__V1__Volume *view = read_volume("{\"id\":\"db\"}");
	struct volume_parts parts;

	assert_ok(read_parts(CSI ",\"secrets\":{\"pass\":\"KNOWN\",\"user\":\"KNOWN2\"},\"mountOptions\":{"
				 "\"fsType\":\"ext4\",\"mountFlags\":[\"ro\",\"pw=KNOWN\"]},"
				 "\"parameters\":{\"a\":\"b\"}}",
			     NULL, &parts, NULL));
	assert_true(volume_show(view, parts.detail, parts.secrets));
	assert_false(shows(view, "KNOWN"));
	assert_true(shows(view, "pass"));
	assert_true(shows(view, VOLUME_REDACTED));
	assert_int_equal(view->mount_options->n_mount_flags, 1);
	assert_string_equal(view->mount_options->fs_type, "ext4");
	assert_string_equal(view->parameters[0]->value, "b");
	assert_string_equal(parts.secrets->secrets[0]->value, "KNOWN");
	assert_string_equal(parts.detail->mount_options->mount_flags[1], "pw=KNOWN");
	assert_true(volume_show_to_node(view, parts.detail, parts.secrets)); /* over what is there */
	assert_true(shows(view, "pw=KNOWN"));
	assert_true(shows(view, "KNOWN2"));
	assert_int_equal(view->n_secrets, 2);
	volume_parts_release(&parts);
	holdfast__v1__volume__free_unpacked(view, NULL);
}

/* A secret that the caller does not give goes with nothing that the caller chooses. */
TEST(secrets_of_a_request_take_the_place_of_all_that_are_stored)
{
	static const struct {
		const char *given;
		enum status status;
		const char *value_of_b;
	} cases[] = {
		{"{}", STATUS_OK, "2"},
		{"{\"b\":\"3\",\"a\":\"1\",\"c\":\"4\"}", STATUS_OK, "3"},
		{"{\"b\":\"3\"}", STATUS_INVALID_ARGUMENT, "2"},
		{"{\"b\":\"2\"}", STATUS_INVALID_ARGUMENT,
		 "2"}, /* whether it is the stored one is not shown */
		{"{\"server\":\"mine\"}", STATUS_INVALID_ARGUMENT, "2"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		cleanup(volume_parts_release) struct volume_parts stored, request;
		char json[256];
		struct error err;

		(void)str_format(json, sizeof(json), CSI ",\"secrets\":%s}", cases[i].given);
		assert_ok(read_parts(CSI ",\"secrets\":{\"a\":\"1\",\"b\":\"2\"}}", NULL, &stored, NULL));
		assert_ok(read_parts(json, NULL, &request, NULL));
		assert_int_equal(volume_secrets_take(stored.secrets, VOLUME_MAP(request.secrets->secrets),
						     request.secrets->n_secrets, &err),
				 cases[i].status);
		assert_string_equal(stored.secrets->secrets[1]->value, cases[i].value_of_b);
	}
}

TEST(plain_plain_options_name_nothing)
{
	static const struct {
		const char *flag;
		bool is_plain;
	} cases[] = {
		{"noatime", true},
		{"noatime,nodiratime", true},
		{"vers=4.1", true},
		{"compress=zstd:3", true},
		{"dir_mode=0777", true},
		{"", false},
		{",noatime", false},
		{"noatime,", false},
		{"noatime,upperdir=/x", false},
		{"noatim", false},
		{"noatimes", false},
		{"NOATIME", false},
		{"data=/etc", false},
		{"data=a b", false},
		{"data=\"a\"", false},
		{"data=a\\", false},
		{"data=%2f", false},
		{"prefix", false},
		{"rw", false},
		{"suid", false},
		{"sec=sys", false},
		{"subvol=a", false},
		{"--noatime", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_msg(mount_flag_is_plain(cases[i].flag) == cases[i].is_plain, "%s", cases[i].flag);
	assert_true(fs_type_is_plain("") && fs_type_is_plain("ext4") && fs_type_is_plain("nfs4"));
	assert_false(fs_type_is_plain("overlay") || fs_type_is_plain("fuse.sh") || fs_type_is_plain("none"));
	assert_true(mount_options_are_plain(NULL));
}

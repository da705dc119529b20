/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include "base/id.h"

TEST(a_complete_registration_is_valid)
{
	struct volume v = a_volume();

	assert_int_equal(volume_validate(&v, NULL), STATUS_OK);
}

TEST(defaults_fill_omitted_fields)
{
	struct volume v = {.id = "db", .type = VOLUME_NATIVE};

	volume_default(&v);
	assert_string_equal(v.namespace, "default");
	assert_string_equal(v.name, "db");
	assert_string_equal(v.external_id, "db");
	assert_string_equal(v.plugin_id, "native");
}

TEST(a_host_volume_is_its_own_profile)
{
	struct volume v = a_volume();

	v.profile[0] = '\0';
	v.source = (struct source){.class = SOURCE_BIND, .host_volume = "data"};
	volume_default(&v);
	assert_string_equal(v.profile, "data");
	assert_int_equal(volume_validate(&v, NULL), STATUS_OK);
}

static void csi_type(struct volume *v)
{
	v->type = VOLUME_CSI;
}
static void foreign_plugin(struct volume *v)
{
	(void)str_copy(v->plugin_id, sizeof(v->plugin_id), "ebs");
}
static void csi_of(struct volume *v, const char *plugin_id)
{
	v->type = VOLUME_CSI;
	v->profile[0] = '\0';
	v->source = (struct source){.class = SOURCE_UNSPECIFIED};
	assert_int_equal(str_copy(v->plugin_id, sizeof(v->plugin_id), plugin_id), 0);
}
static void break_profile(struct volume *v)
{
	(void)str_copy(v->profile, sizeof(v->profile), "Disk");
}
static void slash_in_by_id(struct volume *v)
{
	(void)str_copy(v->source.by_id, sizeof(v->source.by_id), "../sda");
}

static void expect_mistake(const struct volume *v, const char *field)
{
	struct error err;

	assert_int_equal(volume_validate(v, &err), STATUS_INVALID_ARGUMENT);
	assert_true(str_starts_with(err.msg, field));
}

#define MISTAKE(field, ...)                \
	do {                               \
		v = a_volume();            \
		__VA_ARGS__;               \
		expect_mistake(&v, field); \
	} while (0)

TEST(volume_errors_name_the_field)
{
	struct volume v;

	MISTAKE("id:", (void)str_copy(v.id, sizeof(v.id), "a/b"));
	MISTAKE("id:", (void)str_copy(v.id, sizeof(v.id), ".."));
	MISTAKE("id:", v.id[0] = '\0');
	MISTAKE("namespace:", (void)str_copy(v.namespace, sizeof(v.namespace), "a.b"));
	MISTAKE("type:", v.type = VOLUME_TYPE_UNSPECIFIED);
	MISTAKE("plugin_id:", csi_type(&v));
	MISTAKE("plugin_id:", foreign_plugin(&v));
	MISTAKE("profile:", break_profile(&v));
	MISTAKE("source.class:", v.source.class = SOURCE_UNSPECIFIED);
	MISTAKE("source.by_id:", slash_in_by_id(&v));
	MISTAKE("source.by_id:", (void)str_copy(v.source.by_id, sizeof(v.source.by_id), ".x"));
	MISTAKE("source.size:", v.source = (struct source){.class = SOURCE_TMPFS, .inodes = 10});
	MISTAKE("source.inodes:", v.source = (struct source){.class = SOURCE_TMPFS, .size_bytes = 4096});
	MISTAKE("source.server:", v.source = (struct source){
					  .class = SOURCE_NFS4, .server = "nfs.example.org", .export = "/a"});
	MISTAKE("profile:", v.source = (struct source){.class = SOURCE_BIND, .host_volume = "data"});
	MISTAKE("capability:", v.n_capabilities = 0);
	MISTAKE("capability[0].access_mode", v.capabilities[0].access_mode = ACCESS_MODE_UNSPECIFIED);
	MISTAKE("capability[0].attachment_mode", v.capabilities[0].attachment_mode = ATTACHMENT_BLOCK_DEVICE);
}

TEST(an_equal_registration_changes_nothing)
{
	struct volume current = a_volume();
	struct volume update = a_volume();
	bool changed = true;

	assert_int_equal(volume_merge(&current, &update, update.capabilities, 1, &changed, NULL), STATUS_OK);
	assert_false(changed);
}

TEST(source_profile_and_ids_are_immutable)
{
	void (*const changes[])(struct volume *) = {slash_in_by_id, break_profile, foreign_plugin, csi_type};

	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		struct volume current = a_volume();
		struct volume update = a_volume();
		bool changed = false;

		changes[i](&update);
		assert_int_equal(volume_merge(&current, &update, NULL, 0, &changed, NULL),
				 STATUS_FAILED_PRECONDITION);
		assert_int_equal(volume_validate(&current, NULL), STATUS_OK);
	}
}

TEST(capabilities_are_replaced_unless_claims_stand_on_them)
{
	struct volume current = a_volume();
	struct volume update = a_volume();
	bool changed = false;

	update.capabilities[0].access_mode = MULTI_NODE_READER_ONLY;
	assert_int_equal(volume_merge(&current, &update, current.capabilities, 1, &changed, NULL),
			 STATUS_FAILED_PRECONDITION);
	assert_true(volume_has_capability(&current, SINGLE_NODE_WRITER, ATTACHMENT_FILE_SYSTEM));
	assert_int_equal(volume_merge(&current, &update, NULL, 0, &changed, NULL), STATUS_OK);
	assert_true(changed);
	assert_true(volume_has_capability(&current, MULTI_NODE_READER_ONLY, ATTACHMENT_FILE_SYSTEM));
}

TEST(an_id_is_a_name_and_of_a_member_of_a_job_has_its_index_behind)
{
	static const char *const good[] = {"db", "db[0]", "db[17]", "Z_9-x[3]"};
	static const char *const bad[] = {"",	 "db[",	   "db[]",   "db[01]", "db[1]x", "db[1][2]",
					  "[1]", "d/b[1]", "db[-1]", "db]",    "db[x]"};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		assert_true(volume_id_is_valid(good[i]));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(volume_id_is_valid(bad[i]));
}

TEST(wire_names_are_labels_and_differ_where_ids_or_namespaces_differ)
{
	static const char *const ids[] = {"db", "DB", "d_b", "d-b", "0", "Z_9-x", "db[3]", "db-3"};
	char seen[2 * ARRAY_SIZE(ids)][WIRE_VOLUME_SIZE], longest[VOLUME_ID_MAX + 1];
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		volume_wire_name("default", ids[i], seen[n++]);
		volume_wire_name("other", ids[i], seen[n++]);
	}
	for (size_t i = 0; i < n; i++) {
		assert_true(id_is_label(seen[i]));
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(seen[i], seen[k]);
	}
	memset(longest, 'x', VOLUME_ID_MAX);
	longest[VOLUME_ID_MAX] = '\0';
	volume_wire_name("default", longest, seen[0]);
	assert_true(id_is_label(seen[0]));
}

TEST(a_placeholder_is_filled_with_all_that_no_claim_says)
{
	const struct capability in_use = {SINGLE_NODE_WRITER, ATTACHMENT_FILE_SYSTEM};
	const struct volume update = a_volume();
	struct volume known = {
		.id = "db", .namespace = NAMESPACE_DEFAULT, .type = VOLUME_NATIVE, .generation = 9};
	struct volume volume;
	struct error err;
	bool changed;

	(void)str_copy(known.plugin_id, sizeof(known.plugin_id), PLUGIN_NATIVE);
	volume_source_hex(&update, known.external_id);
	assert_int_equal(strlen(known.external_id), VOLUME_SOURCE_HEX_SIZE - 1);
	assert_true(volume_is_placeholder(&known));
	assert_false(volume_is_placeholder(&update));
	volume = known;
	assert_int_equal(volume_merge(&volume, &update, &in_use, 1, &changed, &err), STATUS_OK);
	assert_true(changed);
	assert_int_equal(volume.generation, 9);
	assert_string_equal(volume.name, update.name);
	assert_string_equal(volume.external_id, update.external_id);
	assert_string_equal(volume.profile, update.profile);
	assert_int_equal(volume.source.class, update.source.class);
	assert_false(volume_is_placeholder(&volume));
	/* what a claim says stays */
	for (int field = 0; field < 4; field++) {
		static const char *const names[] = {"type", "plugin_id", "profile", "source"};

		volume = known;
		if (field == 0)
			volume.type = VOLUME_CSI;
		if (field == 1)
			(void)str_copy(volume.plugin_id, sizeof(volume.plugin_id), "ceph");
		if (field == 2)
			(void)str_copy(volume.profile, sizeof(volume.profile), "other");
		if (field == 3)
			(void)str_copy(volume.external_id, sizeof(volume.external_id), "other");
		assert_int_equal(volume_merge(&volume, &update, &in_use, 1, &changed, &err),
				 STATUS_FAILED_PRECONDITION);
		assert_true(str_starts_with(err.msg, names[field]));
		assert_true(volume_is_placeholder(&volume));
	}
}

TEST(the_plugin_of_a_csi_volume_is_a_name_with_or_without_dots)
{
	static const struct {
		const char *id;
		bool is_good;
	} cases[] = {
		{"ebs", true},
		{"a", true},
		{"0-9", true},
		{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", true}, /* 63 */
		{"", false},
		{"EBS", false},
		{"ebs_prod", false},
		{"ebs.csi.example", true},
		{".csi", false},
		{"ebs..csi", false},
		{"../ebs", false},
		{PLUGIN_NATIVE, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct volume v = a_volume();
		struct error err = {.msg = ""};

		csi_of(&v, cases[i].id);
		if (volume_validate(&v, &err) != (cases[i].is_good ? STATUS_OK : STATUS_INVALID_ARGUMENT))
			fail_msg("%s: %s", cases[i].id, err.msg);
		if (!cases[i].is_good)
			assert_non_null(strstr(err.msg, "plugin_id: "));
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "csi/csi_map.h"

#define CSI_MODE(name) CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__MODE__##name

static const struct {
	enum access_mode ours;
	Csi__V1__VolumeCapability__AccessMode__Mode csi;
} modes[] = {
	{ACCESS_MODE_UNSPECIFIED, CSI_MODE(UNKNOWN)},
	{SINGLE_NODE_WRITER, CSI_MODE(SINGLE_NODE_WRITER)},
	{SINGLE_NODE_READER_ONLY, CSI_MODE(SINGLE_NODE_READER_ONLY)},
	{MULTI_NODE_READER_ONLY, CSI_MODE(MULTI_NODE_READER_ONLY)},
	{MULTI_NODE_SINGLE_WRITER, CSI_MODE(MULTI_NODE_SINGLE_WRITER)},
	{MULTI_NODE_MULTI_WRITER, CSI_MODE(MULTI_NODE_MULTI_WRITER)},
	{SINGLE_NODE_SINGLE_WRITER, CSI_MODE(SINGLE_NODE_SINGLE_WRITER)},
	{SINGLE_NODE_MULTI_WRITER, CSI_MODE(SINGLE_NODE_MULTI_WRITER)},
};

TEST(modes_have_the_numbers_of_the_specification)
{
	assert_int_equal(ARRAY_SIZE(modes), ACCESS_MODE_N);
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		assert_int_equal(modes[i].csi, i);
		assert_int_equal(csi_access_mode(modes[i].ours), modes[i].csi);
	}
	assert_int_equal(csi_access_mode(ACCESS_MODE_N), CSI_MODE(UNKNOWN));
	assert_int_equal(csi_access_mode((enum access_mode) - 1), CSI_MODE(UNKNOWN));
}

/* A capability in one line: "mode/mount:fs[flag flag]", "mode/block", "mode/"; "-" has no mode. */
static const char *show(const Csi__V1__VolumeCapability *pb, char text[static 256])
{
	int n = snprintf(text, 256, "%d/", pb->access_mode ? (int)pb->access_mode->mode : -1);

	if (pb->access_type_case == CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_BLOCK)
		(void)snprintf(text + n, 256 - (size_t)n, "block");
	if (pb->access_type_case != CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_MOUNT)
		return text;
	n += snprintf(text + n, 256 - (size_t)n, "mount:%s", pb->mount->fs_type);
	for (size_t i = 0; i < pb->mount->n_mount_flags; i++)
		n += snprintf(text + n, 256 - (size_t)n, "[%s]", pb->mount->mount_flags[i]);
	return text;
}

TEST(a_capability_survives_the_wire_as_it_was_meant)
{
	char noatime[] = "noatime", discard[] = "discard";
	char *flags[] = {noatime, discard};
	Holdfast__V1__MountOptions options = HOLDFAST__V1__MOUNT_OPTIONS__INIT;
	const struct {
		enum attachment_mode attachment;
		bool has_options;
		const char *text;
	} cases[] = {
		{ATTACHMENT_FILE_SYSTEM, true, "1/mount:ext4[noatime][discard]"},
		{ATTACHMENT_FILE_SYSTEM, false, "1/mount:"},
		{ATTACHMENT_MODE_UNSPECIFIED, false, "1/mount:"},
		{ATTACHMENT_BLOCK_DEVICE, false, "1/block"},
		{ATTACHMENT_BLOCK_DEVICE, true, "1/block"},
	};

	options.fs_type = "ext4";
	options.mount_flags = flags;
	options.n_mount_flags = 2;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct csi_capability capability;
		cleanup_pb Csi__V1__VolumeCapability *back = NULL;
		uint8_t packed[256];
		char text[256];
		size_t n;

		csi_borrow_capability(SINGLE_NODE_WRITER, cases[i].attachment,
				      cases[i].has_options ? &options : NULL, &capability);
		n = csi__v1__volume_capability__pack(&capability.pb, packed);
		back = NON_NULL(csi__v1__volume_capability__unpack(NULL, n, packed));
		assert_string_equal(show(back, text), cases[i].text);
	}
}

/* What makes a capability; flags up to NULL. */
struct sketch {
	int mode;  /* -1: no message at all */
	char type; /* 'm' mount, 'b' block, 0 none */
	const char *fs, *flags[3];
};

struct drawing {
	struct csi_capability capability;
	char *flags[3];
};

static const Csi__V1__VolumeCapability *draw(const struct sketch *sketch, struct drawing *drawing)
{
	struct csi_capability *capability = &drawing->capability;

	csi_borrow_capability(ACCESS_MODE_UNSPECIFIED,
			      sketch->type == 'b' ? ATTACHMENT_BLOCK_DEVICE : ATTACHMENT_FILE_SYSTEM, NULL,
			      capability);
	if (sketch->mode < 0)
		capability->pb.access_mode = NULL;
	else
		capability->access_mode.mode = (Csi__V1__VolumeCapability__AccessMode__Mode)sketch->mode;
	if (sketch->type == 0)
		capability->pb.access_type_case = CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE__NOT_SET;
	if (sketch->fs)
		capability->mount.fs_type = TEXT(sketch->fs);
	capability->mount.mount_flags = drawing->flags;
	for (size_t i = 0; i < 3 && sketch->flags[i]; i++) {
		drawing->flags[i] = TEXT(sketch->flags[i]);
		capability->mount.n_mount_flags = i + 1;
	}
	return &capability->pb;
}

static const struct {
	struct sketch confirmed, wanted;
	bool is_confirmed;
} confirmations[] = {
	{{1, 'm', "ext4", {NULL}}, {1, 'm', "ext4", {NULL}}, true},
	{{2, 'm', "ext4", {NULL}}, {1, 'm', "ext4", {NULL}}, false},
	/* modes: unknown and absent say nothing, an unknown number is another one */
	{{0, 'm', "ext4", {NULL}}, {1, 'm', "ext4", {NULL}}, true},
	{{-1, 'm', "ext4", {NULL}}, {1, 'm', "ext4", {NULL}}, true},
	{{42, 'm', "ext4", {NULL}}, {1, 'm', "ext4", {NULL}}, false},
	{{1, 'm', "ext4", {NULL}}, {-1, 'm', "ext4", {NULL}}, false},
	/* types */
	{{1, 0, NULL, {NULL}}, {1, 'm', "ext4", {NULL}}, true},
	{{1, 0, NULL, {NULL}}, {1, 'b', NULL, {NULL}}, true},
	{{1, 'b', NULL, {NULL}}, {1, 'b', NULL, {NULL}}, true},
	{{1, 'b', NULL, {NULL}}, {1, 'm', "ext4", {NULL}}, false},
	{{1, 'm', NULL, {NULL}}, {1, 'b', NULL, {NULL}}, false},
	/* file systems */
	{{1, 'm', "xfs", {NULL}}, {1, 'm', "ext4", {NULL}}, false},
	{{1, 'm', "", {NULL}}, {1, 'm', "ext4", {NULL}}, true},
	{{1, 'm', "xfs", {NULL}}, {1, 'm', "", {NULL}}, true},
	/* flags: every wanted one, also when none is confirmed */
	{{1, 'm', "", {"a", "b", NULL}}, {1, 'm', "", {"b", "a", NULL}}, true},
	{{1, 'm', "", {"a", "b", NULL}}, {1, 'm', "", {"a", NULL}}, true},
	{{1, 'm', "", {"a", NULL}}, {1, 'm', "", {"a", "b", NULL}}, false},
	{{1, 'm', "", {"aa", NULL}}, {1, 'm', "", {"a", NULL}}, false},
	{{1, 'm', "", {NULL}}, {1, 'm', "", {"a", NULL}}, false},
	{{1, 'm', "", {"a", NULL}}, {1, 'm', "", {NULL}}, true},
};

TEST(capability_confirmation_follows_the_plugins_reply)
{
	for (size_t i = 0; i < ARRAY_SIZE(confirmations); i++) {
		struct drawing confirmed, wanted;

		if (csi_capability_confirms(draw(&confirmations[i].confirmed, &confirmed),
					    draw(&confirmations[i].wanted, &wanted)) !=
		    confirmations[i].is_confirmed)
			fail_msg("row %zu", i);
	}
}

/* An answer of 4 MiB has two million: their comparison would take the loop for seconds. */
TEST(a_capability_with_more_flags_than_are_compared_is_not_confirmed)
{
	char *flags[CSI_CONFIRMED_MAX + 1];
	struct drawing confirmed, wanted;
	Csi__V1__VolumeCapability *large;

	draw(&(struct sketch){1, 'm', "", {"a", NULL}}, &wanted);
	draw(&(struct sketch){1, 'm', "", {NULL}}, &confirmed);
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		flags[i] = TEXT("a");
	large = &confirmed.capability.pb;
	large->mount->mount_flags = flags;
	large->mount->n_mount_flags = CSI_CONFIRMED_MAX;
	assert_true(csi_capability_confirms(large, &wanted.capability.pb));
	large->mount->n_mount_flags++;
	assert_false(csi_capability_confirms(large, &wanted.capability.pb));
}

enum { MANY = TOPOLOGY_SEGMENTS_MAX + 1 };

struct segments {
	Csi__V1__Topology pb;
	Csi__V1__Topology__SegmentsEntry entries[MANY], *list[MANY];
};

static const Csi__V1__Topology *segments(struct segments *ret, const char *const (*pairs)[2], size_t n)
{
	csi__v1__topology__init(&ret->pb);
	ret->pb.segments = ret->list;
	ret->pb.n_segments = n;
	for (size_t i = 0; i < n; i++) {
		csi__v1__topology__segments_entry__init(&ret->entries[i]);
		ret->entries[i].key = TEXT(pairs[i][0]);
		ret->entries[i].value = TEXT(pairs[i][1]);
		ret->list[i] = &ret->entries[i];
	}
	return &ret->pb;
}

TEST(topology_is_the_same_in_whatever_order_its_segments_come)
{
	static const char *const one[][2] = {{"zone", "z1"}, {"rack", "r1"}, {"region", "e"}};
	static const char *const other[][2] = {
		{"region", "e"}, {"zone", "old"}, {"rack", "r1"}, {"zone", "z1"}};
	struct segments space;
	struct topology a, b;

	memset(&a, 0xaa, sizeof(a));
	memset(&b, 0x55, sizeof(b));
	assert_true(csi_topology_from(segments(&space, one, 3), &a));
	assert_true(csi_topology_from(segments(&space, other, 4), &b));
	assert_int_equal(a.n_segments, 3);
	assert_string_equal(a.segments[0].key, "rack");
	assert_string_equal(a.segments[1].key, "region");
	assert_string_equal(a.segments[2].key, "zone");
	assert_string_equal(a.segments[2].value, "z1");
	assert_memory_equal(&a, &b, sizeof(a));
	assert_true(csi_topology_from(NULL, &a));
	assert_int_equal(a.n_segments, 0);
}

TEST(topology_that_is_too_large_is_refused_and_changes_nothing)
{
	char fits[TOPOLOGY_TEXT_MAX + 1] = {0};
	char is_long[TOPOLOGY_TEXT_MAX + 2] = {0};
	char keys[MANY][8];
	const char *pairs[MANY][2];
	const struct {
		const char *key, *value;
		bool is_taken;
	} cases[] = {
		{fits, fits, true}, {is_long, "v", false}, {"k", is_long, false},
		{"", "v", false},   {"k", "", true},
	};
	struct segments space;
	struct topology topology;

	memset(fits, 'x', TOPOLOGY_TEXT_MAX);
	memset(is_long, 'x', TOPOLOGY_TEXT_MAX + 1);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *const pair[][2] = {{cases[i].key, cases[i].value}};

		topology.n_segments = 99;
		assert_int_equal(csi_topology_from(segments(&space, pair, 1), &topology), cases[i].is_taken);
		assert_int_equal(topology.n_segments, cases[i].is_taken ? 1 : 99);
	}
	for (size_t i = 0; i < MANY; i++) {
		(void)snprintf(keys[i], sizeof(keys[i]), "k%zu", i);
		pairs[i][0] = keys[i];
		pairs[i][1] = "v";
	}
	topology.n_segments = 99;
	assert_false(csi_topology_from(segments(&space, (const char *const(*)[2])pairs, MANY), &topology));
	assert_int_equal(topology.n_segments, 99);
	assert_true(csi_topology_from(segments(&space, (const char *const(*)[2])pairs, MANY - 1), &topology));
	assert_int_equal(topology.n_segments, TOPOLOGY_SEGMENTS_MAX);
}

TEST(of_the_finer_modes_only_the_single_node_ones_have_a_coarser_one)
{
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		bool is_finer = modes[i].ours == SINGLE_NODE_SINGLE_WRITER ||
				modes[i].ours == SINGLE_NODE_MULTI_WRITER;
		struct csi_capability capability;

		csi_borrow_capability(modes[i].ours, ATTACHMENT_FILE_SYSTEM, NULL, &capability);
		csi_capability_coarsen(&capability);
		assert_int_equal(capability.pb.access_mode->mode,
				 is_finer ? CSI_MODE(SINGLE_NODE_WRITER) : modes[i].csi);
	}
}

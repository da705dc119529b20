/* SPDX-License-Identifier: Apache-2.0 */
#include "admission.h"
#include "fixture.h"
#include "source.h"
#include "trees.h"

static struct policy policy;
static struct helper helper;
static struct admission admission;

static void use_policy(const char *extra)
{
	fixture_policy(extra, &policy);
	helper = (struct helper){.agent = policy_agent(&policy, FIXTURE_UID)};
	(void)str_copy(helper.boot_id, sizeof(helper.boot_id), FIXTURE_BOOT_ID);
	for (int i = 0; i < FS_N; i++)
		helper.type_available[i] = true;
}

static int setup(void **state)
{
	use_policy("");
	return 0;
}

static enum reason stage(struct mh_stage req)
{
	const union mh_request any = {.stage = req};

	return admit_request(&helper, &any, FIXTURE_NOW_MS, &admission);
}

static enum reason publish(struct mh_publish req)
{
	const union mh_request any = {.publish = req};

	return admit_request(&helper, &any, FIXTURE_NOW_MS, &admission);
}

/* Change the request, sign a ticket for exactly that, and see what policy says. */
#define STAGE(statement, reason)                        \
	do {                                            \
		req = good;                             \
		statement;                              \
		fixture_grant_stage(&req);              \
		assert_int_equal(stage(req), (reason)); \
	} while (0)

TEST_FIXTURE(stage_is_admitted_only_within_its_profile, setup, NULL)
{
	struct mh_stage good = fixture_stage();
	struct mh_stage req;

	STAGE((void)0, REASON_NONE);
	assert_string_equal(admission.profile->name, "db");
	assert_ptr_not_equal(admission.ticket, NULL);
	STAGE(req.read_only = 1, REASON_NONE);
	STAGE((void)str_copy(req.profile, MH_LABEL_SIZE, "other"), REASON_PROFILE_UNKNOWN);
	STAGE((void)str_copy(req.profile, MH_LABEL_SIZE, "mem"), REASON_CLASS);
	STAGE((void)str_copy(req.profile, MH_LABEL_SIZE, "ro"), REASON_READ_ONLY);
	STAGE(req.source.u.block.by_id[0] = 'H', REASON_BY_ID);
	for (unsigned int class = MH_CLASS_TMPFS; class < MH_CLASS_N; class ++)
		STAGE(req.source.class = (uint8_t) class, REASON_CLASS);
	helper.type_available[FS_EXT4] = false;
	STAGE((void)0, REASON_TYPE_UNAVAILABLE);
}

TEST_FIXTURE(tmpfs_has_its_limits, setup, NULL)
{
	struct mh_stage good = fixture_stage_tmpfs();
	struct mh_stage req;

	STAGE((void)0, REASON_NONE);
	STAGE(req.source.u.tmpfs.size_bytes = 0, REASON_TMPFS_SIZE);
	STAGE(req.source.u.tmpfs.size_bytes = 2 << 20, REASON_NONE);
	STAGE(req.source.u.tmpfs.size_bytes = (2 << 20) + 1, REASON_TMPFS_SIZE);
	STAGE(req.source.u.tmpfs.inodes = 0, REASON_TMPFS_INODES);
	STAGE(req.source.u.tmpfs.inodes = 1000, REASON_NONE);
	STAGE(req.source.u.tmpfs.inodes = 1001, REASON_TMPFS_INODES);
}

struct server {
	uint8_t family, addr[16], bits;
};

TEST(a_prefix_allows_servers_but_no_special_address)
{
	static const struct {
		struct server rule;
		struct server asked; /* without bits */
		bool allowed;
	} rows[] = {
		{{4, {10, 1, 2, 3}, 32}, {4, {10, 1, 2, 3}, 0}, true},
		{{4, {10, 1, 2, 3}, 32}, {4, {10, 1, 2, 2}, 0}, false},
		{{4, {10, 1, 2, 2}, 31}, {4, {10, 1, 2, 3}, 0}, true},
		{{4, {10, 1, 2, 0}, 31}, {4, {10, 1, 2, 3}, 0}, false},
		{{4, {10, 0, 0, 0}, 8}, {4, {10, 255, 255, 255}, 0}, true},
		{{4, {10, 0, 0, 0}, 8}, {4, {11, 0, 0, 0}, 0}, false},
		{{4, {10, 128, 0, 0}, 9}, {4, {10, 129, 0, 0}, 0}, true},
		{{4, {10, 128, 0, 0}, 9}, {4, {10, 127, 0, 0}, 0}, false},
		{{4, {0}, 0}, {4, {192, 0, 2, 1}, 0}, true},
		{{4, {0}, 0}, {4, {127, 0, 0, 1}, 0}, false},
		{{4, {0}, 0}, {4, {0}, 0}, false},
		{{4, {0}, 0}, {4, {224, 0, 0, 1}, 0}, false},
		{{4, {0}, 0}, {4, {239, 255, 255, 255}, 0}, false},
		{{4, {0}, 0}, {4, {255, 255, 255, 255}, 0}, false},
		{{4, {126, 0, 0, 0}, 7}, {4, {127, 0, 0, 1}, 0}, false},
		{{4, {127, 0, 0, 0}, 8}, {4, {127, 0, 0, 1}, 0}, true},
		{{4, {127, 0, 0, 1}, 32}, {4, {127, 0, 0, 1}, 0}, true},
		{{4, {224, 0, 0, 0}, 4}, {4, {224, 0, 0, 1}, 0}, false},
		{{4, {239, 0, 0, 0}, 8}, {4, {239, 0, 0, 1}, 0}, true},
		{{4, {0}, 8}, {4, {0}, 0}, true},
		{{6, {0}, 0}, {6, {0x20, 1, [15] = 1}, 0}, true},
		{{6, {0}, 0}, {6, {[15] = 1}, 0}, false},
		{{6, {0}, 0}, {6, {0}, 0}, false},
		{{6, {0}, 0}, {6, {0xff, 2, [15] = 1}, 0}, false},
		{{6, {0}, 0}, {6, {[10] = 0xff, 0xff, 127, 0, 0, 1}, 0}, false},
		{{6, {[15] = 1}, 128}, {6, {[15] = 1}, 0}, true},
		{{6, {0xff, 2}, 16}, {6, {0xff, 2, [15] = 1}, 0}, true},
		{{6, {0xfd, 1}, 16}, {6, {0xfd, 1, [15] = 9}, 0}, true},
		{{6, {0xfd, 1}, 16}, {6, {0xfd, 2, [15] = 9}, 0}, false},
		{{6, {10, 1, 2, 3}, 32}, {4, {10, 1, 2, 3}, 0}, false},
		{{4, {10, 1, 2, 3}, 32}, {6, {10, 1, 2, 3}, 0}, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct profile profile = {.n_servers = 2, .n_exports = 1, .export = {"/"}};
		struct mh_source source = {.class = MH_CLASS_NFS4,
					   .u.nfs4 = {.family = rows[i].asked.family, .export = "/a"}};

		profile.server[0] =
			(struct server_rule){.family = 4, .addr = {203, 0, 113, 1}, .prefix_bits = 32};
		profile.server[1].family = rows[i].rule.family;
		profile.server[1].prefix_bits = rows[i].rule.bits;
		memcpy(profile.server[1].addr, rows[i].rule.addr, 16);
		memcpy(source.u.nfs4.addr, rows[i].asked.addr, 16);
		if (profile_admit_source(&profile, &source) !=
		    (rows[i].allowed ? REASON_NONE : REASON_SERVER))
			fail_msg("row %zu", i);
	}
}

TEST(an_export_is_allowed_below_a_prefix_on_a_component_boundary)
{
	static const struct {
		const char *prefix, *export;
		bool allowed;
	} rows[] = {
		{"/srv", "/srv", true},	     {"/srv", "/srv/a", true}, {"/srv", "/srv2", false},
		{"/srv", "/sr", false},	     {"/srv", "/", false},     {"/srv", "/a/srv", false},
		{"/srv/a", "/srv/b", false}, {"/", "/", true},	       {"/", "/srv/a", true},
		{"/srv/a", "/srv", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct profile profile = {.n_servers = 1,
					  .server = {{.family = 4, .addr = {10}, .prefix_bits = 8}},
					  .n_exports = 2,
					  .export = {"/never"}};
		struct mh_source source = {.class = MH_CLASS_NFS4, .u.nfs4 = {.family = 4, .addr = {10, 1}}};

		(void)str_copy(profile.export[1], MH_EXPORT_SIZE, rows[i].prefix);
		(void)str_copy(source.u.nfs4.export, MH_EXPORT_SIZE, rows[i].export);
		if (profile_admit_source(&profile, &source) !=
		    (rows[i].allowed ? REASON_NONE : REASON_EXPORT))
			fail_msg("%s below %s", rows[i].export, rows[i].prefix);
		profile.n_exports = 0;
		assert_int_equal(profile_admit_source(&profile, &source), REASON_EXPORT);
	}
}

TEST_FIXTURE(publish_is_admitted_only_within_its_profile, setup, NULL)
{
	struct mh_publish req = fixture_publish();

	assert_int_equal(publish(req), REASON_NONE);
	req.exec = 1;
	assert_int_equal(publish(req), REASON_NONE);
	req.propagation = TICKET_PROPAGATION_HOST_TO_TASK;
	assert_int_equal(publish(req), REASON_PROPAGATION);
	req = fixture_publish_tmpfs();
	req.exec = 1;
	assert_int_equal(publish(req), REASON_EXEC);
	req = fixture_publish();
	req.source.u.block.by_id[0] = 'H';
	assert_int_equal(publish(req), REASON_BY_ID);
	req.source.class = MH_CLASS_TMPFS;
	assert_int_equal(publish(req), REASON_CLASS);
	req = fixture_publish();
	(void)str_copy(req.profile, MH_LABEL_SIZE, "ro");
	assert_int_equal(publish(req), REASON_READ_ONLY);
	(void)str_copy(req.profile, MH_LABEL_SIZE, "nothing");
	assert_int_equal(publish(req), REASON_PROFILE_UNKNOWN);
}

TEST_FIXTURE(a_ticket_is_required_unless_the_policy_says_otherwise, setup, NULL)
{
	struct mh_stage s = fixture_stage();
	struct mh_publish p = fixture_publish();

	memset(&s.ticket, 0, sizeof(s.ticket));
	memset(&p.ticket, 0, sizeof(p.ticket));
	assert_int_equal(stage(s), REASON_TICKET_MISSING);
	assert_int_equal(publish(p), REASON_TICKET_MISSING);
	use_policy("ticket = optional");
	assert_int_equal(stage(s), REASON_NONE);
	assert_null(admission.ticket);
	assert_int_equal(publish(p), REASON_NONE);
	/* one that is given must be good all the same */
	s.ticket.magic = TICKET_MAGIC;
	p.ticket.magic = TICKET_MAGIC;
	assert_int_equal(stage(s), REASON_TICKET_SIGNATURE);
	assert_int_equal(publish(p), REASON_TICKET_SIGNATURE);
}

TEST_FIXTURE(a_ticket_for_another_request_is_not_good_for_this_one, setup, NULL)
{
	struct mh_stage s = fixture_stage();
	struct mh_publish p = fixture_publish();

	s.volume[4] = '2';
	assert_int_equal(stage(s), REASON_TICKET_VOLUME);
	s = fixture_stage();
	s.source.u.block.by_id[14] = '2';
	assert_int_equal(stage(s), REASON_TICKET_SOURCE);
	s = fixture_stage();
	s.source.u.block.minor = 9; /* the node's own business */
	assert_int_equal(stage(s), REASON_NONE);
	s = fixture_stage();
	s.ticket.stage_read_only = 1;
	fixture_sign(&s.ticket, 0);
	assert_int_equal(stage(s), REASON_TICKET_READ_ONLY);
	s.read_only = 1;
	assert_int_equal(stage(s), REASON_NONE);
	/* a reader's, of a volume that others write on the node */
	s = fixture_stage();
	s.ticket.read_only = 1;
	fixture_sign(&s.ticket, 0);
	assert_int_equal(stage(s), REASON_NONE);
	p.alloc[0] = 'b';
	assert_int_equal(publish(p), REASON_TICKET_ALLOC);
	p = fixture_publish();
	p.ticket.stage_read_only = 1; /* which is about the stage alone */
	fixture_sign(&p.ticket, 0);
	assert_int_equal(publish(p), REASON_NONE);
	p.ticket.read_only = 1;
	fixture_sign(&p.ticket, 0);
	assert_int_equal(publish(p), REASON_TICKET_READ_ONLY);
	p.read_only = 1;
	assert_int_equal(publish(p), REASON_NONE);
	policy.profiles[0].shared = true; /* then the ticket decides */
	p = fixture_publish();
	p.propagation = TICKET_PROPAGATION_HOST_TO_TASK;
	p.ticket.propagation = TICKET_PROPAGATION_PRIVATE;
	fixture_sign(&p.ticket, 0);
	assert_int_equal(publish(p), REASON_TICKET_PROPAGATION);
	p.ticket.propagation = TICKET_PROPAGATION_HOST_TO_TASK;
	fixture_sign(&p.ticket, 0);
	assert_int_equal(publish(p), REASON_NONE);
	p.propagation = TICKET_PROPAGATION_BIDIRECTIONAL;
	assert_int_equal(publish(p), REASON_TICKET_PROPAGATION);
}

static enum reason detach(uint16_t op, uint8_t detach)
{
	union mh_request req = {.header.op = op};

	if (op == MH_OP_UNPUBLISH)
		req.unpublish.detach = detach;
	else
		req.unstage.detach = detach;
	return admit_request(&helper, &req, FIXTURE_NOW_MS, &admission);
}

TEST_FIXTURE(detaching_needs_the_policys_word, setup, NULL)
{
	static const uint16_t ops[] = {MH_OP_UNPUBLISH, MH_OP_UNSTAGE};

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		use_policy("");
		assert_int_equal(detach(ops[i], 0), REASON_NONE);
		assert_int_equal(detach(ops[i], 1), REASON_DETACH);
		use_policy("allow_detach = yes");
		assert_int_equal(detach(ops[i], 1), REASON_NONE);
	}
}

TEST_FIXTURE(only_our_own_names_are_found_in_the_table, setup, NULL)
{
	static const struct {
		const char *point;
		enum tree_kind kind;
	} rows[] = {
		{"/srv/stage/vol-1", TREE_STAGED},
		{"/srv/stage", TREE_NONE},
		{"/srv/stage/", TREE_NONE},
		{"/srv/stage/Vol", TREE_NONE},
		{"/srv/stage/vol/x", TREE_NONE},
		{"/srv/stagevol-1", TREE_NONE},
		{"/srv/stage2/vol-1", TREE_NONE},
		{"/x/srv/stage/vol-1", TREE_NONE},
		{"/srv/publish/" FIXTURE_ALLOC "/31", TREE_PUBLISHED},
		{"/srv/publish/" FIXTURE_ALLOC "/32", TREE_NONE},
		{"/srv/publish/" FIXTURE_ALLOC "/", TREE_NONE},
		{"/srv/publish/" FIXTURE_ALLOC, TREE_NONE},
		{"/srv/publish/" FIXTURE_ALLOC "/1/2", TREE_NONE},
		{"/srv/publish/" FIXTURE_ALLOC "0/1", TREE_NONE},
		{"/srv/publish/vol-1/1", TREE_NONE},
		{"/", TREE_NONE},
		{"", TREE_NONE},
	};
	struct tree_name name;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (tree_classify(helper.agent, rows[i].point, &name) != rows[i].kind)
			fail_msg("%s", rows[i].point);
	(void)tree_classify(helper.agent, rows[8].point, &name);
	assert_string_equal(name.alloc, FIXTURE_ALLOC);
	assert_int_equal(name.slot, 31);
	assert_string_equal(name.volume, "");
}

TEST(a_by_id_link_leads_to_one_name_in_dev)
{
	static const char *const bad[] = {"../..",    "../../",	    "../../a/b",    "../../..",
					  "../loop0", "",	    "../../../sda", "/dev/loop0",
					  "loop0",    "../../Loop", "../../a.b",    ".."};
	char name[DEVICE_NAME_SIZE], longest[6 + DEVICE_NAME_SIZE + 1] = "../../";

	assert_int_equal(by_id_target("../../loop0", name), 0);
	assert_string_equal(name, "loop0");
	assert_int_equal(by_id_target("../../dm-0", name), 0);
	assert_string_equal(name, "dm-0");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(by_id_target(bad[i], name), -EINVAL);
	memset(longest + 6, 'a', DEVICE_NAME_SIZE - 1);
	assert_int_equal(by_id_target(longest, name), 0);
	assert_int_equal(strlen(name), DEVICE_NAME_SIZE - 1);
	longest[6 + DEVICE_NAME_SIZE - 1] = 'a';
	assert_int_equal(by_id_target(longest, name), -EINVAL);
}

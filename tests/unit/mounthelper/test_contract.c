/* SPDX-License-Identifier: Apache-2.0 */
/* What the helper promises whoever reads docs/helper-review.md, where no other test is about it: what no
 * request and no policy can say, the limits as numbers, and what a changed policy changes. */

#include "workbench.h"

#include "base/sys.h"

/* What no request can say. */

/* Bytes of a request that are no text: numbers, addresses, the signed ticket. */
struct gap {
	size_t begin, end;
};

#define GAP(type, member)                                                                  \
	{                                                                                  \
		offsetof(struct type, member),                                             \
			offsetof(struct type, member) + sizeof(((struct type *)0)->member) \
	}

static const struct gap block_gaps[] = {
	GAP(mh_stage, source.u.block.major), GAP(mh_stage, source.u.block.minor), GAP(mh_stage, ticket), {0}};
static const struct gap tmpfs_gaps[] = {GAP(mh_stage, source.u.tmpfs), GAP(mh_stage, ticket), {0}};
static const struct gap nfs4_gaps[] = {GAP(mh_stage, source.u.nfs4.addr), GAP(mh_stage, ticket), {0}};
static const struct gap csi_gaps[] = {GAP(mh_stage, source.u.csi.volume), GAP(mh_stage, ticket), {0}};
static const struct gap stage_gaps[] = {GAP(mh_stage, ticket), {0}};
static const struct gap publish_gaps[] = {GAP(mh_publish, slot),
					  GAP(mh_publish, source.u.block.major),
					  GAP(mh_publish, source.u.block.minor),
					  GAP(mh_publish, ticket),
					  {0}};
static const struct gap unpublish_gaps[] = {GAP(mh_unpublish, slot), {0}};
static const struct gap list_gaps[] = {GAP(mh_list, cursor), {0}};
static const struct gap no_gaps[] = {{0}};

static union mh_request stage_from(struct mh_source source)
{
	union mh_request req = {.stage = fixture_stage()};

	req.stage.source = source;
	return req;
}

static bool is_in(const struct gap *gaps, size_t at)
{
	for (; gaps->end != 0; gaps++)
		if (at >= gaps->begin && at < gaps->end)
			return true;
	return false;
}

/* The export of an NFS server is the one path on the wire; it is a path of that server. */
static bool is_export(const union mh_request *req, size_t at)
{
	const size_t begin = offsetof(struct mh_stage, source.u.nfs4.export);

	return req->header.op == MH_OP_STAGE && req->stage.source.class == MH_CLASS_NFS4 && at >= begin &&
	       at < begin + MH_EXPORT_SIZE;
}

static void assert_takes_no(const union mh_request *good, const struct gap *gaps, const char *bytes)
{
	union mh_request ignored;

	assert_int_equal(wire_decode(good, good->header.length, 2, &ignored), REASON_NONE);
	for (size_t at = sizeof(good->header); at < good->header.length; at++) {
		if (is_in(gaps, at))
			continue;
		for (const char *c = bytes; *c != '\0'; c++) {
			union mh_request req = *good;

			if (*c == '/' && is_export(good, at))
				continue;
			req.bytes[at] = (uint8_t)*c;
			assert_msg(wire_decode(&req, req.header.length, 2, &ignored) != REASON_NONE,
				   "op %u takes '%c' at byte %zu", req.header.op, *c, at);
		}
	}
}

TEST_FIXTURE(no_field_of_a_request_takes_a_path_an_option_or_a_line, setup, teardown)
{
	/* a slash for a path; commas, equals signs, quotes and blanks for options, more fields or more lines
	 */
	static const char bytes[] = "/,=;'\"\\ \t\n%$&*?~^[]{}<>|()!#@`\x7f\xff";
	const struct {
		union mh_request req;
		const struct gap *gaps;
	} rows[] = {
		{stage_from(fixture_stage().source), block_gaps},
		{stage_from(fixture_stage_tmpfs().source), tmpfs_gaps},
		{stage_from((struct mh_source){.class = MH_CLASS_NFS4,
					       .u.nfs4 = {.family = 4, .addr = {10}, .export = "/a/b"}}),
		 nfs4_gaps},
		{stage_from((struct mh_source){.class = MH_CLASS_BIND, .u.bind = {.name = "models"}}),
		 stage_gaps},
		{stage_from((struct mh_source){.class = MH_CLASS_CSI}), csi_gaps},
		{{.publish = fixture_publish()}, publish_gaps},
		{{.unpublish = fixture_unpublish()}, unpublish_gaps},
		{{.unstage = fixture_unstage()}, no_gaps},
		{{.list = {.header = mh_header_make(MH_OP_LIST, sizeof(struct mh_list), 2)}}, list_gaps},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_takes_no(&rows[i].req, rows[i].gaps, bytes);
}

TEST_FIXTURE(every_publish_stands_two_names_below_its_base, setup, teardown)
{
	struct mh_publish p = fixture_publish();

	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	for (p.slot = 0; p.slot <= MH_SLOT_MAX; p.slot++) {
		char path[128];

		ASSERT_REPLY(publish(fixture_at_slot(p, p.slot)), MH_OK);
		(void)str_format(path, sizeof(path), "/srv/publish/" FIXTURE_ALLOC "/%u", p.slot);
		assert_true(fake_is_mount(path));
	}
}

/* What no policy can say. */

static struct policy parsed;

/* A block of a policy up to the word in question, and from there on. */
struct around {
	const char *before, *after;
};

static bool is_accepted(struct around block, const char *word)
{
	char extra[512];
	const char *text;
	unsigned int line;

	assert_true(str_format(extra, sizeof(extra), "%s%s%s", block.before, word, block.after) >= 0);
	text = fixture_policy_text(extra);
	return policy_parse("p", text, strlen(text), &parsed, &line, NULL) == STATUS_OK;
}

TEST_FIXTURE(no_file_system_outside_the_list_can_be_named_in_a_policy, setup, teardown)
{
	static const char *const refused[] = {
		"btrfs",     "ntfs",	 "ntfs3",  "hfs",      "hfsplus", "udf",     "overlay",
		"fuse",	     "fuseblk",	 "9p",	   "cifs",     "smb3",	  "ramfs",   "hugetlbfs",
		"proc",	     "sysfs",	 "cgroup", "cgroup2",  "debugfs", "tracefs", "securityfs",
		"configfs",  "bpf",	 "devpts", "devtmpfs", "mqueue",  "autofs",  "binfmt_misc",
		"ext2",	     "ext3",	 "vfat",   "iso9660",  "nfs",	  "ceph",    "f2fs",
		"selinuxfs", "efivarfs", "pstore", "virtiofs", "none",
	};
	static const struct around block = {"profile x { class = block; fstype = ",
					    "; trust = trusted; ro = yes; by_id = y }"};
	static const struct around tmpfs = {"profile x { class = tmpfs; fstype = ", "; max_size = 1MiB }"};
	static const struct around nfs4 = {"profile x { class = nfs4; fstype = ",
					   "; server = 10.0.0.1; export = /e }"};

	for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
		if (is_accepted(block, refused[i]) || is_accepted(tmpfs, refused[i]) ||
		    is_accepted(nfs4, refused[i]))
			fail_msg("%s is accepted", refused[i]);
	assert_true(is_accepted(block, "ext4"));
	assert_true(is_accepted(block, "xfs"));
	assert_true(is_accepted(block, "erofs"));
	assert_true(is_accepted(block, "squashfs"));
	assert_true(is_accepted(tmpfs, "tmpfs"));
	assert_true(is_accepted(nfs4, "nfs4"));
}

TEST_FIXTURE(no_option_that_names_a_file_a_device_or_a_user_can_be_chosen, setup, teardown)
{
	static const char *const refused[] = {
		"suid",	      "dev",	      "exec",	     "remount",
		"bind",	      "journal_path", "journal_dev", "logdev",
		"rtdev",      "usrjquota",    "grpjquota",   "quota",
		"fd",	      "lowerdir",     "upperdir",    "workdir",
		"uid",	      "gid",	      "mode",	     "errors",
		"noload",     "norecovery",   "context",     "source",
		"resuid",     "resgid",	      "dax",	     "test_dummy_encryption",
		"size",	      "device",	      "fsid",	     "user_id",
		"clientaddr", "mountaddr",    "loop",	     "noatime,fd",
		"",	      "discard=1",
	};
	static const struct around block = {
		"profile x { class = block; fstype = ext4; trust = trusted; by_id = y; options = ", " }"};

	for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
		assert_msg(!is_accepted(block, refused[i]), "%s is accepted", refused[i]);
	assert_true(is_accepted(block, "noatime"));
}

/* The table itself: what is not forced is in this list. A new row has to be added here, and thought about. */
TEST_FIXTURE(every_option_of_the_table_is_one_that_was_agreed_on, setup, teardown)
{
	static const char *const agreed[] = {
		"ro",	      "errors=remount-ro", "noload",	"norecovery",	"mode=1777",
		"hard",	      "softerr",	   "timeo=100", "retrans=2",	"discard",
		"nodelalloc", "data=journal",	   "nouuid",	"nosharecache",
	};
	char said[64];
	size_t n = 0;

	for (int i = 0; i < FS_OPTION_N; i++) {
		const struct fs_option *o = &fs_options[i];
		bool is_agreed = false;

		if (!o->key) {
			assert_string_equal(o->word, "noatime"); /* an attribute of the mount */
			continue;
		}
		(void)str_format(said, sizeof(said), "%s%s%s", o->key, o->value ? "=" : "",
				 o->value ? o->value : "");
		for (size_t j = 0; j < ARRAY_SIZE(agreed); j++)
			is_agreed = is_agreed || str_eq(agreed[j], said);
		assert_msg(is_agreed, "%s was not agreed on", said);
		n++;
	}
	assert_int_equal(n, ARRAY_SIZE(agreed));
}

TEST_FIXTURE(limits_are_those_of_the_review_guide, setup, teardown)
{
	const struct agent_policy *agent;

	assert_int_equal(MH_MESSAGE_MAX, 1024);
	assert_int_equal(MH_SLOT_MAX, 31);
	assert_int_equal(MH_LIST_MAX, 8);
	assert_int_equal(TICKET_BATCH_MAX, 8);
	assert_int_equal(HELPER_INSTANCES, 8);
	assert_int_equal(POLICY_TEXT_MAX, 64 * 1024);
	assert_int_equal(POLICY_AGENT_MAX, 16);
	assert_int_equal(POLICY_PROFILE_MAX, 64);
	assert_int_equal(CHAIN_LOG_LINE_MAX, 1024);
	assert_int_equal(CHAIN_LOG_AHEAD, 4 << 20);
	assert_int_equal(STATE_SLOTS, 4096);
	assert_int_equal(REFUSALS_RECORDED, 20);
	assert_int_equal(REFUSALS_TOLERATED + 1, 200);
	assert_int_equal(REFUSALS_PERIOD, 10);
	assert_true(is_accepted((struct around){"", ""}, ""));
	agent = policy_agent(&parsed, FIXTURE_UID);
	assert_int_equal(agent->max_staged, 256);
	assert_int_equal(agent->max_published, 4096);
	assert_int_equal(agent->max_per_alloc, 32);
	assert_int_equal(agent->ops_per_second, 20);
	assert_int_equal(agent->burst, 100);
	assert_int_equal(agent->starts_per_minute, 60);
	assert_int_equal(agent->nfs_timeout_s, 30);
	assert_false(agent->allow_detach);
	assert_false(agent->container);
	assert_false(agent->ticket_optional);
	assert_false(agent->audit_optional);
	assert_false(agent->sync_batch);
}

/* docs/architecture.md, Costs: who reads the whole mount table, and how often. */

static int passes;

/* @reply is @want and came after @n passes since the last one. */
static void costs(int n, struct mh_reply reply, enum mh_status want)
{
	ASSERT_REPLY(reply, want);
	assert_int_equal(fake_table_passes() - passes, n);
	passes = fake_table_passes();
}

static struct mh_reply list(uint8_t kind)
{
	union mh_request req = {
		.list = {.header = mh_header_make(MH_OP_LIST, sizeof(req.list), 2), .kind = kind}};
	union mh_answer answer;

	(void)ops_run(&helper, &req, &answer);
	return (struct mh_reply){.status = answer.list.status};
}

static struct mh_stage of_profile(const char *profile, struct mh_source source)
{
	struct mh_stage req = fixture_stage();

	(void)str_copy(req.profile, sizeof(req.profile), profile);
	req.source = source;
	memset(&req.ticket, 0, sizeof(req.ticket));
	return req;
}

TEST_FIXTURE(the_architecture_lists_all_full_table_reads, setup, teardown)
{
	static const char policy_of_costs[] =
		"ticket = optional; max_published = 1\n"
		"hostvol models { path = /data/a; owner_uid = 1000 }\n"
		"profile nas { class = nfs4; server = 10.0.0.1; export = /e }\n";
	const struct mh_stage bound = of_profile(
		"models", (struct mh_source){.class = MH_CLASS_BIND, .u.bind = {.name = "models"}});
	const struct mh_stage exported = of_profile(
		"nas", (struct mh_source){.class = MH_CLASS_NFS4,
					  .u.nfs4 = {.family = 4, .addr = {10, 0, 0, 1}, .export = "/e"}});
	struct mh_publish second = fixture_at_slot(fixture_publish(), 3);
	struct agent_policy of_many;

	new_world(policy_of_costs);
	passes = 0;
	costs(0, stage(fixture_stage()), MH_OK);
	costs(0, stage(fixture_stage()), MH_ALREADY);
	costs(1, publish(fixture_publish()), MH_OK); /* the first one with this state file */
	costs(0, publish(fixture_publish()), MH_ALREADY);
	costs(1, publish(second), MH_LIMIT);
	costs(1, unstage(fixture_unstage()), MH_BUSY);
	costs(1, list(MH_LIST_STAGED), MH_OK);
	costs(1, look("vol-1", "", 0), MH_OK);
	costs(1, list(MH_LIST_PUBLISHED), MH_OK);
	costs(0, list(MH_LIST_PROFILES), MH_OK);
	costs(0, unpublish(fixture_unpublish()), MH_OK);
	costs(0, unstage(fixture_unstage()), MH_OK);
	costs(1, unstage(fixture_unstage()), MH_ALREADY);
	helper.agent = memcpy(&of_many, helper.agent, sizeof(of_many));
	of_many.max_published = 100;
	costs(0, stage(fixture_stage()), MH_OK);
	/* a look leaves room for the other instances: 100 less 7 until the next one */
	helper.state->header.published = UINT32_MAX;
	for (int i = 0; i < 93; i++) {
		costs(i == 0, publish(fixture_publish()), MH_OK);
		costs(0, unpublish(fixture_unpublish()), MH_OK);
		fake_sinks_reset();
	}
	costs(1, publish(fixture_publish()), MH_OK);
	new_world(policy_of_costs);
	passes = 0;
	fake_make_directory("/data", 0, 0755);
	fake_make_directory("/data/a", 1000, 0755);
	costs(1, stage(bound), MH_OK);
	costs(1, stage(bound), MH_ALREADY);
	(void)str_copy(second.profile, sizeof(second.profile), "models");
	second.source = bound.source;
	memset(&second.ticket, 0, sizeof(second.ticket));
	helper.state->header.published = 0;
	costs(1, publish(second), MH_OK);
	new_world(policy_of_costs);
	passes = 0;
	costs(0, stage(exported), MH_OK);
	costs(1, stage(exported), MH_ALREADY);
	costs(1, unstage(fixture_unstage()), MH_OK);
}

/* docs/node.md, Changing the policy: what is mounted meanwhile. */

#define WITH_SPACE "ticket = optional\nprofile space { class = tmpfs; max_size = 1MiB; exec = yes }\n"
#define WITHOUT_SPACE "ticket = optional\n"

static struct mh_stage stage_space(void)
{
	struct mh_stage req = fixture_stage_tmpfs();

	(void)str_copy(req.profile, sizeof(req.profile), "space");
	memset(&req.ticket, 0, sizeof(req.ticket));
	return req;
}

static struct mh_publish publish_space(uint8_t slot, uint8_t exec)
{
	struct mh_publish req = fixture_publish_tmpfs();

	(void)str_copy(req.profile, sizeof(req.profile), "space");
	memset(&req.ticket, 0, sizeof(req.ticket));
	req.slot = slot;
	req.exec = exec;
	return req;
}

TEST_FIXTURE(a_volume_whose_profile_is_gone_can_only_be_taken_away, setup, teardown)
{
	new_world(WITH_SPACE);
	ASSERT_REPLY(stage(stage_space()), MH_OK);
	ASSERT_REPLY(publish(publish_space(2, 0)), MH_OK);
	start_helper(WITHOUT_SPACE);
	ASSERT_REPLY(stage(stage_space()), MH_REFUSED);
	ASSERT_REPLY(publish(publish_space(3, 0)), MH_REFUSED);
	ASSERT_RECORDED("reason=profile-unknown");
	ASSERT_REPLY(unpublish(unpublish_of("mem-1", 2)), MH_OK);
	ASSERT_REPLY(unstage(unstage_of("mem-1")), MH_OK);
}

TEST_FIXTURE(a_changed_profile_counts_from_the_next_mount_on, setup, teardown)
{
	struct mh_publish smaller = publish_space(4, 0);

	new_world(WITH_SPACE);
	ASSERT_REPLY(stage(stage_space()), MH_OK);
	ASSERT_REPLY(publish(publish_space(2, 1)), MH_OK);
	start_helper("ticket = optional\nprofile space { class = tmpfs; max_size = 1MiB }\n");
	ASSERT_REPLY(stage(stage_space()), MH_ALREADY);
	ASSERT_REPLY(publish(publish_space(3, 1)), MH_REFUSED);	 /* exec is not allowed any more */
	ASSERT_REPLY(publish(publish_space(2, 0)), MH_CONFLICT); /* but exists there */
	assert_int_equal(fake_flags(SLOT("2")) & SYS_MOUNT_ATTR_NOEXEC, 0);
	ASSERT_REPLY(publish(publish_space(3, 0)), MH_OK);
	start_helper("ticket = optional\nprofile space { class = tmpfs; max_size = 512KiB; exec = yes }\n");
	ASSERT_REPLY(publish(publish_space(4, 0)), MH_REFUSED); /* what is staged is larger */
	ASSERT_RECORDED("reason=size-not-allowed");
	smaller.source.u.tmpfs.size_bytes = 1 << 19;
	ASSERT_REPLY(publish(smaller), MH_REFUSED); /* and is not what the agent names */
	ASSERT_RECORDED("reason=ticket-source");
	start_helper("ticket = optional\nprofile space { class = tmpfs; max_size = 1MiB; shared = yes }\n");
	ASSERT_REPLY(stage(stage_space()), MH_CONFLICT); /* it is private, and shall be shared */
	ASSERT_REPLY(unpublish(unpublish_of("mem-1", 2)), MH_OK);
	ASSERT_REPLY(unpublish(unpublish_of("mem-1", 3)), MH_OK);
	ASSERT_REPLY(unstage(unstage_of("mem-1")), MH_OK);
	ASSERT_REPLY(stage(stage_space()), MH_OK);
}

/* What is not a directory. */

TEST_FIXTURE(a_non_directory_is_neither_mounted_on_nor_removed, setup, teardown)
{
	static const char alloc[] = "/srv/publish/" FIXTURE_ALLOC;

	fake_make_file(STAGED);
	ASSERT_REPLY(stage(fixture_stage()), MH_KERNEL);
	ASSERT_REPLY(unstage(fixture_unstage()), MH_BUSY);
	assert_non_null(strstr(fake_summary(), STAGED));
	new_world("");
	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	fake_make_file(alloc);
	ASSERT_REPLY(publish(fixture_publish()), MH_KERNEL);
	ASSERT_REPLY(unpublish(fixture_unpublish()), MH_KERNEL);
	assert_non_null(strstr(fake_summary(), alloc));
	fake_remove(alloc);
	fake_make_directory(alloc, FIXTURE_HELPER_UID, 0755);
	fake_make_file(PUBLISHED);
	ASSERT_REPLY(publish(fixture_publish()), MH_KERNEL);
	ASSERT_REPLY(unpublish(fixture_unpublish()), MH_KERNEL);
	assert_non_null(strstr(fake_summary(), PUBLISHED));
	assert_false(fake_is_mount(PUBLISHED));
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "record.h"
#include "workbench.h"

#include "base/sys.h"

#include <sodium.h>

static const uint64_t inert =
	SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV | SYS_MOUNT_ATTR_NOEXEC | SYS_MOUNT_ATTR_NOSYMFOLLOW;

TEST_FIXTURE(a_volume_lives_from_stage_to_unstage, setup, teardown)
{
	struct mh_reply reply;

	reply = stage(fixture_stage());
	ASSERT_REPLY(reply, MH_OK);
	assert_int_equal(reply.state, MH_STATE_STAGED);
	assert_int_equal(reply.dev_major, FIXTURE_MAJOR);
	assert_int_equal(reply.dev_minor, FIXTURE_MINOR);
	assert_int_equal(fake_flags(STAGED), inert | 0x10 /* noatime */);
	assert_string_equal(fake_options(), "source=/dev/loop3;errors=remount-ro;discard;");
	reply = publish(fixture_publish());
	ASSERT_REPLY(reply, MH_OK);
	assert_int_equal(reply.state, MH_STATE_PUBLISHED);
	assert_int_equal(fake_flags(PUBLISHED),
			 SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV | SYS_MOUNT_ATTR_NOEXEC | 0x10);
	assert_null(strstr(fake_summary(), "shared"));
	ASSERT_REPLY(unpublish(fixture_unpublish()), MH_OK);
	assert_int_equal(state_find(helper.state, "vol-1")->stage, STATE_STAGED);
	ASSERT_REPLY(unstage(fixture_unstage()), MH_OK);
	assert_int_equal(state_find(helper.state, "vol-1")->stage, STATE_UNSTAGED);
	assert_string_equal(fake_summary(), "dir /srv/publish\ndir /srv/stage\n");
	assert_true(fake_cwd_is_root());
}

/* Or a volume that may only be read stands where an engine has remembered the flags of a writable one. */
TEST_FIXTURE(a_ticket_is_good_at_the_slot_that_it_names, setup, teardown)
{
	struct mh_publish elsewhere = fixture_publish();
	struct mh_stage of_slot = fixture_stage();

	of_slot.ticket = elsewhere.ticket; /* one ticket is for both */
	ASSERT_REPLY(stage(of_slot), MH_OK);
	elsewhere.slot++;
	ASSERT_REPLY(publish(elsewhere), MH_REFUSED);
	ASSERT_RECORDED("reason=ticket-slot");
	ASSERT_REPLY(publish(fixture_publish()), MH_OK);
}

TEST_FIXTURE(every_request_may_be_repeated, setup, teardown)
{
	const struct mh_publish second = fixture_at_slot(fixture_publish(), 3);

	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	ASSERT_REPLY(stage(fixture_stage()), MH_ALREADY);
	ASSERT_REPLY(publish(fixture_publish()), MH_OK);
	ASSERT_REPLY(publish(fixture_publish()), MH_ALREADY);
	ASSERT_REPLY(stage(fixture_stage()), MH_ALREADY);
	ASSERT_REPLY(publish(second), MH_OK); /* with it the folder of the allocation stays */
	ASSERT_REPLY(unpublish(fixture_unpublish()), MH_OK);
	ASSERT_REPLY(unpublish(fixture_unpublish()), MH_ALREADY);
	ASSERT_REPLY(unpublish(unpublish_of("vol-1", second.slot)), MH_OK);
	ASSERT_REPLY(unpublish(fixture_unpublish()), MH_ALREADY);
	ASSERT_REPLY(unstage(fixture_unstage()), MH_OK);
	ASSERT_REPLY(unstage(fixture_unstage()), MH_ALREADY);
}

TEST_FIXTURE(a_tmpfs_has_size_and_inodes_and_is_distinguished_by_them, setup, teardown)
{
	struct mh_stage req = fixture_stage_tmpfs();

	ASSERT_REPLY(stage(req), MH_OK);
	assert_string_equal(fake_options(), "source=holdfast:mem-1;mode=1777;size=1048576;nr_inodes=100;");
	ASSERT_REPLY(stage(req), MH_ALREADY);
	req.source.u.tmpfs.inodes++;
	fixture_grant_stage(&req);
	ASSERT_REPLY(stage(req), MH_CONFLICT);
	ASSERT_REPLY(publish(fixture_publish_tmpfs()), MH_OK);
}

TEST_FIXTURE(nothing_is_published_for_writing_once_an_error_stopped_writes, setup, teardown)
{
	struct mh_publish p = fixture_publish();

	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	fake_stop_writes(true, true);
	ASSERT_REPLY(publish(p), MH_REFUSED);
	ASSERT_RECORDED("reason=writes-stopped");
	fake_stop_writes(true, false); /* a kernel without options has no such state */
	ASSERT_REPLY(publish(p), MH_OK);
	ASSERT_REPLY(unpublish(fixture_unpublish()), MH_OK);
	fake_stop_writes(true, true);
	p.read_only = 1;
	ASSERT_REPLY(publish(p), MH_OK);
	fake_stop_writes(false, true);
}

TEST_FIXTURE(read_only_reaches_the_superblock_and_every_mount, setup, teardown)
{
	struct mh_stage s = fixture_stage();
	struct mh_publish p = fixture_publish();
	struct mh_reply reply;

	s.read_only = 1;
	reply = stage(s);
	ASSERT_REPLY(reply, MH_OK);
	assert_int_equal(reply.state, MH_STATE_STAGED | MH_STATE_READ_ONLY);
	assert_string_equal(fake_options(), "source=/dev/loop3;ro;errors=remount-ro;noload;");
	ASSERT_REPLY(publish(p), MH_REFUSED);
	ASSERT_RECORDED("reason=staged-read-only");
	p.read_only = 1;
	p.exec = 1;
	reply = publish(p);
	ASSERT_REPLY(reply, MH_OK);
	assert_int_equal(reply.state, MH_STATE_PUBLISHED | MH_STATE_READ_ONLY | MH_STATE_EXEC);
	assert_int_equal(fake_flags(PUBLISHED),
			 SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV | SYS_MOUNT_ATTR_RDONLY | 0x10);
	p.exec = 0;
	ASSERT_REPLY(publish(p), MH_CONFLICT); /* flags of a live publish are never changed */
	s.read_only = 0;
	ASSERT_REPLY(stage(s), MH_CONFLICT);
}

TEST_FIXTURE(an_untrusted_image_stays_without_symlinks, setup, teardown)
{
	struct mh_stage s = fixture_stage();
	struct mh_publish p = fixture_publish();

	(void)str_copy(s.profile, MH_LABEL_SIZE, "image");
	(void)str_copy(p.profile, MH_LABEL_SIZE, "image");
	s.read_only = p.read_only = 1;
	fixture_grant_stage(&s);
	fixture_grant_publish(&p, &s.source);
	ASSERT_REPLY(stage(s), MH_OK);
	ASSERT_REPLY(publish(p), MH_OK);
	assert_int_equal(fake_flags(PUBLISHED), inert | SYS_MOUNT_ATTR_RDONLY);
}

TEST_FIXTURE(a_medium_in_use_elsewhere_is_a_conflict, setup, teardown)
{
	fake_mount_device("/mnt");
	ASSERT_REPLY(stage(fixture_stage()), MH_CONFLICT);
	ASSERT_RECORDED("reason=device-mounted");
	assert_false(fake_is_mount(STAGED));
	new_world("");
	fake_superblock_elsewhere(true); /* only the kernel's exclusive create sees it */
	ASSERT_REPLY(stage(fixture_stage()), MH_CONFLICT);
	ASSERT_RECORDED("step=create reason=device-mounted");
}

TEST_FIXTURE(an_older_kernel_creates_without_the_exclusive_command, setup, teardown)
{
	struct mh_stage image = fixture_stage();

	(void)str_copy(image.profile, MH_LABEL_SIZE, "image");
	image.read_only = 1;
	fixture_grant_stage(&image);
	fake_no_create_excl();
	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	new_world("");
	fake_no_create_excl();
	fake_mount_device("/mnt");
	ASSERT_REPLY(stage(fixture_stage()), MH_CONFLICT);
	ASSERT_RECORDED("step=create reason=device-mounted");
	ASSERT_REPLY(stage(image),
		     MH_CONFLICT); /* squashfs shows nothing in /sys/fs: seen in the table alone */
	ASSERT_RECORDED("step=create reason=device-mounted");
	new_world("");
	fake_no_create_excl();
	fake_superblock_elsewhere(true); /* seen in /sys/fs alone; the kernel would share it */
	ASSERT_REPLY(stage(fixture_stage()), MH_CONFLICT);
	ASSERT_RECORDED("step=create reason=device-mounted");
	assert_false(fake_is_mount(STAGED));
}

TEST_FIXTURE(an_image_that_the_kernel_does_not_support_is_not_called_mounted, setup, teardown)
{
	fake_image_unsupported();
	ASSERT_REPLY(stage(fixture_stage()), MH_KERNEL);
	ASSERT_RECORDED("errno=95 step=create");
	new_world("");
	fake_no_create_excl();
	fake_image_unsupported();
	ASSERT_REPLY(stage(fixture_stage()), MH_KERNEL);
	ASSERT_RECORDED("errno=95 step=create");
}

TEST_FIXTURE(an_ext4_whose_journal_is_elsewhere_is_refused, setup, teardown)
{
	struct mh_stage reading = fixture_stage();

	fake_journal_is(FAKE_JOURNAL_ELSEWHERE);
	ASSERT_REPLY(stage(fixture_stage()), MH_REFUSED);
	ASSERT_RECORDED("step=create reason=journal-elsewhere");
	assert_false(fake_is_mount(STAGED));
	assert_int_equal(helper.state->header.staged, 0);
	fake_journal_is(FAKE_JOURNAL_INSIDE);
	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	assert_null(strstr(fake_options(), "noload;"));
	new_world("");
	fake_journal_is(FAKE_JOURNAL_NONE);
	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	assert_non_null(strstr(fake_options(), "noload;")); /* whatever its device answers now */
	assert_null(strstr(fake_options(), "commit="));
	new_world("");
	fake_journal_is(FAKE_JOURNAL_ELSEWHERE); /* noload: the kernel opens none */
	reading.read_only = 1;
	fixture_grant_stage(&reading);
	ASSERT_REPLY(stage(reading), MH_OK);
	assert_null(strstr(fake_options(), "commit="));
}

TEST_FIXTURE(an_obstacle_is_a_conflict_and_stays, setup, teardown)
{
	fake_make_directory(STAGED, FIXTURE_HELPER_UID, 0755);
	fake_mount_other(STAGED);
	ASSERT_REPLY(stage(fixture_stage()), MH_CONFLICT);
	ASSERT_RECORDED("reason=other-mount");
	assert_true(fake_is_mount(STAGED));
	new_world("");
	fake_make_directory(STAGED, 1000, 0755);
	ASSERT_REPLY(stage(fixture_stage()), MH_CONFLICT);
	ASSERT_RECORDED("reason=foreign-directory");
	new_world("");
	fake_make_directory(STAGED, FIXTURE_HELPER_UID, 0775);
	ASSERT_REPLY(stage(fixture_stage()), MH_CONFLICT);
	new_world("");
	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	fake_make_directory("/srv/publish/" FIXTURE_ALLOC, 1000, 0755);
	fake_make_directory("/srv/publish/" FIXTURE_ALLOC "/.2", 1000, 0755);
	ASSERT_REPLY(publish(fixture_publish()), MH_CONFLICT);
	assert_non_null(strstr(fake_summary(), "/.2"));
	ASSERT_REPLY(unpublish(fixture_unpublish()), MH_CONFLICT);
	new_world("");
	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	fake_make_directory("/srv/publish/" FIXTURE_ALLOC, FIXTURE_HELPER_UID, 0755);
	fake_make_directory(PUBLISHED, 1000, 0755);
	ASSERT_REPLY(publish(fixture_publish()), MH_CONFLICT);
	ASSERT_RECORDED("reason=foreign-directory");
	assert_false(fake_is_mount(PUBLISHED));
}

TEST_FIXTURE(a_mount_that_appears_meanwhile_is_not_stacked_upon, setup, teardown)
{
	struct mh_publish p = fixture_publish();

	fake_race_mount(STAGED);
	ASSERT_REPLY(stage(fixture_stage()), MH_CONFLICT);
	ASSERT_RECORDED("step=attach reason=other-mount");
	new_world("");
	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	fake_race_mount(PUBLISHED);
	ASSERT_REPLY(publish(p), MH_CONFLICT);
	/* and one that was there before, with the very flags that are asked for */
	p.exec = 1;
	ASSERT_REPLY(publish(p), MH_CONFLICT);
	assert_true(fake_is_mount(PUBLISHED));
}

TEST_FIXTURE(the_kernels_result_must_match_the_request, setup, teardown)
{
	static const uint64_t floor[] = {SYS_MOUNT_ATTR_NOSUID, SYS_MOUNT_ATTR_NODEV, SYS_MOUNT_ATTR_NOEXEC,
					 SYS_MOUNT_ATTR_NOSYMFOLLOW};
	union mh_request req = {.stage = fixture_stage()};
	union mh_answer answer;

	fake_race_device(FIXTURE_MAJOR + 1);
	assert_int_equal(ops_run(&helper, &req, &answer), REASON_POSTCONDITION);
	assert_int_equal(answer.reply.status, MH_INTERNAL);
	assert_false(fake_is_mount(STAGED));
	new_world("");
	fake_private_has_no_effect();
	assert_int_equal(ops_run(&helper, &req, &answer), REASON_POSTCONDITION);
	ASSERT_RECORDED("status=internal errno=0 step=verify reason=post-condition res=failed");
	assert_int_equal(answer.reply.status, MH_INTERNAL);
	assert_false(fake_is_mount(STAGED)); /* what was attached is gone again */
	for (size_t i = 0; i < ARRAY_SIZE(floor); i++) {
		new_world("");
		fake_lose_attributes(floor[i]);
		assert_int_equal(ops_run(&helper, &req, &answer), REASON_POSTCONDITION);
		assert_false(fake_is_mount(STAGED));
	}
}

static int mounts_at(const char *path)
{
	char head[128];
	int n = 0;

	(void)str_format(head, sizeof(head), "mount %s ", path);
	for (const char *at = fake_summary(); (at = strstr(at, head)); at++)
		n++;
	return n;
}

/* Nothing but its id tells what covers our mount from it. We took no part in that, so we do not take it away
 * either, nor ours, which it keeps in place. */
static void expect_both_stay(const union mh_request *req, const char *path)
{
	union mh_answer answer;

	fake_race_stack(path);
	assert_int_equal(ops_run(&helper, req, &answer), REASON_POSTCONDITION);
	assert_int_equal(answer.reply.status, MH_INTERNAL);
	ASSERT_RECORDED("status=internal errno=0 step=verify reason=post-condition res=failed");
	assert_int_equal(mounts_at(path), 2);
}

TEST_FIXTURE(a_mount_covered_during_attach_is_an_error, setup, teardown)
{
	const union mh_request s = {.stage = fixture_stage()}, p = {.publish = fixture_publish()};

	for (int old = 0; old <= 1; old++) {
		fake_kernel_before_6_8(old == 1);
		new_world("");
		expect_both_stay(&s, STAGED);
		new_world("");
		ASSERT_REPLY(stage(fixture_stage()), MH_OK);
		expect_both_stay(&p, PUBLISHED);
	}
	fake_kernel_before_6_8(false);
}

TEST_FIXTURE(a_publish_never_relies_on_the_flags_of_the_stage, setup, teardown)
{
	struct mh_stage s = fixture_stage();
	struct mh_publish p = fixture_publish();

	ASSERT_REPLY(stage(s), MH_OK);
	fake_set_flags(STAGED, SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV);
	ASSERT_REPLY(publish(p), MH_OK);
	assert_int_equal(fake_flags(PUBLISHED),
			 SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV | SYS_MOUNT_ATTR_NOEXEC);
	new_world("");
	(void)str_copy(s.profile, MH_LABEL_SIZE, "image");
	(void)str_copy(p.profile, MH_LABEL_SIZE, "image");
	s.read_only = p.read_only = 1;
	fixture_grant_stage(&s);
	fixture_grant_publish(&p, &s.source);
	ASSERT_REPLY(stage(s), MH_OK);
	fake_set_flags(STAGED, 0);
	ASSERT_REPLY(publish(p), MH_OK);
	assert_int_equal(fake_flags(PUBLISHED), inert | SYS_MOUNT_ATTR_RDONLY);
}

TEST_FIXTURE(a_record_that_is_cut_counts_as_not_written, setup, teardown)
{
	fake_log_short(true);
	assert_int_equal(stage(fixture_stage()).status, MH_UNAVAILABLE);
	assert_false(fake_is_mount(STAGED));
	fake_log_short(false);
	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
}

TEST_FIXTURE(the_device_must_match_the_request, setup, teardown)
{
	fake_set_device(FIXTURE_MAJOR, FIXTURE_MINOR + 1, true);
	ASSERT_REPLY(stage(fixture_stage()), MH_REFUSED);
	ASSERT_RECORDED("reason=device-number");
	fake_set_device(FIXTURE_MAJOR, FIXTURE_MINOR, false);
	ASSERT_REPLY(stage(fixture_stage()), MH_REFUSED);
	ASSERT_RECORDED("reason=not-a-block-device");
	fake_set_link("../../../etc/shadow");
	ASSERT_REPLY(stage(fixture_stage()), MH_REFUSED);
	ASSERT_RECORDED("reason=by-id-link");
	fake_set_link("../../loop9");
	ASSERT_REPLY(stage(fixture_stage()), MH_KERNEL);
	ASSERT_RECORDED("errno=2 step=source");
}

TEST_FIXTURE(a_refusal_is_reported_by_numbers_alone_and_on_record, setup, teardown)
{
	struct mh_stage req = fixture_stage();
	struct mh_reply reply;

	req.ticket.signature[0] ^= 1;
	reply = stage(req);
	ASSERT_REPLY(reply, MH_REFUSED);
	assert_int_equal(reply.sys_errno, 0);
	assert_int_equal(reply.step, 0);
	assert_int_equal(reply.state, 0);
	assert_int_equal(reply.reason, REASON_TICKET_SIGNATURE);
	ASSERT_RECORDED("op=stage phase=refused seq=2 vol=vol-1 ");
	ASSERT_RECORDED("reason=ticket-signature res=failed");
	fake_set_device(FIXTURE_MAJOR, FIXTURE_MINOR + 1, true);
	reply = stage(fixture_stage());
	ASSERT_REPLY(reply, MH_REFUSED);
	assert_int_equal(reply.step, STEP_SOURCE);
	assert_int_equal(reply.reason, REASON_DEVICE_NUMBER);
	assert_int_equal(reply.dev_major, 0); /* not which it is */
}

TEST_FIXTURE(intent_and_result_are_on_record, setup, teardown)
{
	struct mh_reply reply;
	const char *log;
	char wanted[64];

	reply = stage(fixture_stage());
	log = fake_log();
	assert_contains(log, "op=stage phase=intent seq=2 vol=vol-1 alloc=" FIXTURE_ALLOC
			     " profile=db ro=0 src=" FIXTURE_BY_ID " dev=7:3 fstype=ext4 gen=7 peer_uid=995 "
			     "peer_pid=4711 door=setuid policy=sha256:0000000000000000 prev=");
	ASSERT_RECORDED("op=stage phase=result seq=2 vol=vol-1 ");
	ASSERT_RECORDED("status=ok errno=0 step=none reason=none res=success prev=");
	(void)str_format(wanted, sizeof(wanted), " rec=%u ", (unsigned int)reply.record);
	ASSERT_RECORDED(wanted);
	ASSERT_REPLY(unstage(fixture_unstage()), MH_OK);
	ASSERT_RECORDED("op=unstage phase=result seq=2 vol=vol-1 detach=0 dev=7:3 ");
}

/* Of the last whole line of the log. */
static void hash_last_record(uint8_t ret[static TICKET_DIGEST_SIZE])
{
	const char *log = fake_log();
	const char *end = strrchr(log, '\n');
	const char *start = memrchr(log, '\n', (size_t)(end - log));

	start = start ? start + 1 : log;
	(void)crypto_hash_sha256(ret, (const unsigned char *)start, (unsigned long long)(end - start));
}

TEST_FIXTURE(a_reply_has_the_hash_of_its_record, setup, teardown)
{
	struct mh_stage bad = fixture_stage();
	uint8_t want[TICKET_DIGEST_SIZE];
	struct mh_reply reply;

	reply = stage(fixture_stage());
	hash_last_record(want);
	assert_memory_equal(reply.head, want, sizeof(want));
	(void)str_copy(bad.profile, sizeof(bad.profile), "nonesuch");
	reply = stage(bad);
	assert_int_equal(reply.status, MH_REFUSED);
	hash_last_record(want);
	assert_memory_equal(reply.head, want, sizeof(want));
}

TEST_FIXTURE(a_reply_without_a_record_has_no_hash, setup, teardown)
{
	static const uint8_t none[TICKET_DIGEST_SIZE];
	struct mh_reply reply;

	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	fake_log_full(true);
	reply = unstage(fixture_unstage());
	assert_int_equal(reply.status, MH_OK);
	assert_memory_equal(reply.head, none, sizeof(none));
}

TEST_FIXTURE(without_a_trail_only_cleaning_up_continues, setup, teardown)
{
	struct mh_reply reply;

	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	ASSERT_REPLY(publish(fixture_publish()), MH_OK);
	fake_log_full(true);
	reply = stage(fixture_stage());
	assert_int_equal(reply.status, MH_UNAVAILABLE);
	assert_int_equal(reply.step, STEP_TRAIL);
	assert_int_equal(publish(fixture_publish()).status, MH_UNAVAILABLE);
	reply = unpublish(fixture_unpublish());
	assert_int_equal(reply.status, MH_OK);
	assert_int_equal(unstage(fixture_unstage()).status, MH_OK);
	fake_log_full(false);
	ASSERT_REPLY(unstage(fixture_unstage()), MH_ALREADY);
}

TEST_FIXTURE(a_log_that_was_deleted_is_no_trail, setup, teardown)
{
	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	fake_log_deleted(true); /* what is written now goes with this process */
	assert_int_equal(publish(fixture_publish()).status, MH_UNAVAILABLE);
	assert_false(fake_is_mount(PUBLISHED));
	assert_int_equal(unstage(fixture_unstage()).status, MH_OK);
	assert_null(strstr(fake_log(), "op=unstage"));
}

TEST_FIXTURE(an_intent_that_was_lost_shows_in_the_result, setup, teardown)
{
	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	/* 1 volume lock, 2 trail lock, 3 statx, 4 pread.., find the first write by failing each call until it
	 * shows */
	for (int call = 1; call < 12; call++) {
		struct mh_unstage req = fixture_unstage();

		fake_fault(FAKE_FAIL, call, EIO);
		(void)unstage(req);
		fake_fault(FAKE_NO_FAULT, 0, 0);
		if (strstr(fake_log(), "trail=degraded"))
			return;
		ASSERT_REPLY(stage(fixture_stage()), fake_is_mount(STAGED) ? MH_ALREADY : MH_OK);
	}
	fail_msg("no record says trail=degraded");
}

TEST_FIXTURE(staged_volumes_are_limited, setup, teardown)
{
	struct mh_stage s = fixture_stage_tmpfs();

	new_world("max_staged = 2");
	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	ASSERT_REPLY(stage(s), MH_OK);
	(void)str_copy(s.volume, MH_LABEL_SIZE, "mem-2");
	fixture_grant_stage(&s);
	ASSERT_REPLY(stage(s), MH_LIMIT);
	ASSERT_RECORDED("reason=max-staged");
}

TEST_FIXTURE(publishes_are_limited_in_all_and_per_allocation, setup, teardown)
{
	struct mh_publish p = fixture_publish();

	new_world("max_published = 3; max_per_alloc = 2");
	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	for (p.slot = 0; p.slot < 2; p.slot++)
		ASSERT_REPLY(publish(fixture_at_slot(p, p.slot)), MH_OK);
	ASSERT_REPLY(publish(p), MH_LIMIT);
	ASSERT_RECORDED("reason=max-per-alloc");
	p.alloc[0] = 'b';
	p.slot = 0;
	grant_publish(&p);
	ASSERT_REPLY(publish(p), MH_OK);
	p.alloc[0] = 'c';
	grant_publish(&p);
	ASSERT_REPLY(publish(p), MH_LIMIT);
	ASSERT_RECORDED("reason=max-published");
	assert_null(strstr(fake_summary(), "caaaaaaa")); /* no directory is left behind */
}

TEST_FIXTURE(all_tmpfs_together_have_a_limit, setup, teardown)
{
	struct mh_stage s = fixture_stage_tmpfs();

	s.source.u.tmpfs.size_bytes = 2 << 20; /* of 4 MiB */
	for (int i = 1; i <= 3; i++) {
		s.volume[4] = (char)('0' + i);
		fixture_grant_stage(&s);
		ASSERT_REPLY(stage(s), i < 3 ? MH_OK : MH_LIMIT);
	}
	ASSERT_RECORDED("reason=max-tmpfs-total");
	s.source.u.tmpfs.size_bytes = 1; /* a page all the same */
	fixture_grant_stage(&s);
	ASSERT_REPLY(stage(s), MH_LIMIT);
}

TEST_FIXTURE(publishing_needs_the_staged_volume, setup, teardown)
{
	ASSERT_REPLY(publish(fixture_publish()), MH_NOT_FOUND);
	fake_make_directory(STAGED, FIXTURE_HELPER_UID, 0755);
	ASSERT_REPLY(publish(fixture_publish()), MH_NOT_FOUND);
	assert_null(strstr(fake_summary(), FIXTURE_ALLOC));
}

TEST_FIXTURE(the_ticket_must_name_the_source_that_is_staged, setup, teardown)
{
	struct mh_publish p = fixture_publish();
	struct mh_stage other = fixture_stage();

	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	other.source.u.block.by_id[14] = '2';
	fixture_grant_publish(&p, &other.source);
	ASSERT_REPLY(publish(p), MH_REFUSED);
	ASSERT_RECORDED("reason=ticket-source");
	p = fixture_publish();
	(void)str_copy(p.profile, MH_LABEL_SIZE, "ro");
	p.read_only = 1;
	grant_publish(&p);
	ASSERT_REPLY(publish(p), MH_REFUSED);
	ASSERT_RECORDED("reason=staged-profile");
	/* somebody removed the state file: staging again is enough */
	memset(helper.state->slot, 0, sizeof(helper.state->slot));
	ASSERT_REPLY(publish(fixture_publish()), MH_REFUSED);
	ASSERT_RECORDED("reason=source-unknown");
	ASSERT_REPLY(stage(fixture_stage()), MH_ALREADY);
	ASSERT_REPLY(publish(fixture_publish()), MH_OK);
}

TEST_FIXTURE(without_a_ticket_the_profile_that_staged_must_be_known_too, setup, teardown)
{
	static const char extra[] =
		"ticket = optional\n"
		"profile app { class = block; fstype = squashfs; trust = trusted; ro = yes\n"
		"exec = yes; by_id = holdfast-demo- }";
	struct mh_stage s = fixture_stage();
	struct mh_publish p = fixture_publish();

	new_world(extra);
	(void)str_copy(s.profile, MH_LABEL_SIZE, "image");
	(void)str_copy(p.profile, MH_LABEL_SIZE, "app");
	s.read_only = p.read_only = p.exec = 1;
	memset(&s.ticket, 0, sizeof(s.ticket));
	memset(&p.ticket, 0, sizeof(p.ticket));
	ASSERT_REPLY(stage(s), MH_OK);
	ASSERT_REPLY(publish(p), MH_REFUSED);
	ASSERT_RECORDED("reason=staged-profile");
	/* as after a helper that was killed between attaching the volume and remembering its profile */
	memset(helper.state->slot, 0, sizeof(helper.state->slot));
	ASSERT_REPLY(publish(p), MH_REFUSED);
	ASSERT_RECORDED("reason=source-unknown");
	assert_false(fake_is_mount(PUBLISHED));
}

TEST_FIXTURE(an_older_generation_is_refused_for_stage_and_publish, setup, teardown)
{
	struct mh_stage s = fixture_stage();
	struct mh_publish p = fixture_publish();

	s.ticket.generation = 9;
	fixture_sign(&s.ticket, 0);
	ASSERT_REPLY(stage(s), MH_OK);
	ASSERT_REPLY(publish(p), MH_REFUSED);
	ASSERT_RECORDED("reason=ticket-generation");
	ASSERT_REPLY(stage(fixture_stage()), MH_REFUSED);
	p.ticket.generation = 9;
	fixture_sign(&p.ticket, 0);
	ASSERT_REPLY(publish(p), MH_OK);
	start_helper(""); /* another instance knows it, too */
	ASSERT_REPLY(publish(fixture_publish()), MH_REFUSED);
}

TEST_FIXTURE(a_submount_of_the_staged_volume_is_never_uncovered, setup, teardown)
{
	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	fake_mount_inside(STAGED);
	ASSERT_REPLY(publish(fixture_publish()), MH_CONFLICT);
	ASSERT_RECORDED("reason=submount");
	ASSERT_REPLY(unstage(fixture_unstage()), MH_BUSY);
	ASSERT_RECORDED("reason=submount");
	assert_true(fake_is_mount(STAGED));
}

/* The kernel would take them along. */
TEST_FIXTURE(a_lazy_unstage_takes_no_submount_along, setup, teardown)
{
	struct mh_unstage u = fixture_unstage();

	new_world("allow_detach = yes");
	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	fake_mount_inside(STAGED);
	u.detach = 1;
	ASSERT_REPLY(unstage(u), MH_BUSY);
	ASSERT_RECORDED("reason=submount");
	assert_true(fake_is_mount(STAGED));
}

TEST_FIXTURE(a_mount_stacked_on_a_staged_volume_is_reported, setup, teardown)
{
	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	fake_mount_again(STAGED); /* of the same type */
	ASSERT_REPLY(publish(fixture_publish()), MH_CONFLICT);
	ASSERT_RECORDED("op=publish");
	ASSERT_RECORDED("reason=stacked");
	ASSERT_REPLY(stage(fixture_stage()), MH_CONFLICT);
	ASSERT_RECORDED("op=stage");
	ASSERT_RECORDED("reason=stacked");
	fake_unmount(STAGED);
	fake_mount_other(STAGED);
	ASSERT_REPLY(publish(fixture_publish()), MH_CONFLICT);
	for (int i = 0; i < 2; i++) {
		ASSERT_REPLY(unstage(fixture_unstage()), MH_CONFLICT);
		ASSERT_RECORDED("reason=stacked");
	}
	fake_unmount(STAGED);
	assert_true(fake_is_mount(STAGED));
	ASSERT_REPLY(unstage(fixture_unstage()), MH_OK);
}

/* What root mounted in the trees is nobody's volume, with a slot in the state table and without. */
static void stay_off_what_root_mounted(void)
{
	fake_make_directory(STAGED, FIXTURE_HELPER_UID, 0755);
	fake_mount_other(STAGED);
	ASSERT_REPLY(unstage(fixture_unstage()), MH_CONFLICT);
	ASSERT_RECORDED("step=state reason=source-unknown");
	fake_unmount(STAGED);
	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	fake_make_directory("/srv/publish/" FIXTURE_ALLOC, FIXTURE_HELPER_UID, 0755);
	fake_make_directory(PUBLISHED, FIXTURE_HELPER_UID, 0755);
	fake_mount_other(PUBLISHED);
	ASSERT_REPLY(unpublish(fixture_unpublish()), MH_CONFLICT);
	ASSERT_RECORDED("reason=other-mount");
	ASSERT_REPLY(publish(fixture_publish()), MH_CONFLICT);
	ASSERT_REPLY(unpublish(fixture_unpublish()), MH_CONFLICT);
	assert_true(fake_is_mount(PUBLISHED));
	ASSERT_REPLY(unstage(fixture_unstage()), MH_OK);
	fake_make_directory(STAGED, FIXTURE_HELPER_UID, 0755);
	fake_mount_other(STAGED);
	ASSERT_REPLY(unstage(fixture_unstage()), MH_CONFLICT);
	assert_true(fake_is_mount(STAGED));
}

TEST_FIXTURE(mounts_of_root_in_the_trees_are_not_removed, setup, teardown)
{
	stay_off_what_root_mounted();
	fake_kernel_before_6_8(true);
	new_world("");
	stay_off_what_root_mounted();
	fake_kernel_before_6_8(false);
}

/* Only the helper and root can remove a mark. */
TEST_FIXTURE(a_mount_without_a_mark_is_a_publish_of_no_volume, setup, teardown)
{
	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	ASSERT_REPLY(publish(fixture_publish()), MH_OK);
	fake_remove("/srv/publish/" FIXTURE_ALLOC "/.2/vol-1");
	fake_remove("/srv/publish/" FIXTURE_ALLOC "/.2");
	ASSERT_REPLY(publish(fixture_publish()), MH_CONFLICT);
	ASSERT_RECORDED("reason=other-mount");
	ASSERT_REPLY(unpublish(fixture_unpublish()), MH_CONFLICT);
	assert_true(fake_is_mount(PUBLISHED));
}

TEST_FIXTURE(unpublish_touches_only_the_volume_it_names, setup, teardown)
{
	struct mh_unpublish u = fixture_unpublish();

	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	ASSERT_REPLY(stage(fixture_stage_tmpfs()), MH_OK);
	ASSERT_REPLY(publish(fixture_publish()), MH_OK);
	(void)str_copy(u.volume, MH_LABEL_SIZE, "mem-1");
	ASSERT_REPLY(unpublish(u), MH_CONFLICT);
	assert_true(fake_is_mount(PUBLISHED));
	ASSERT_REPLY(unpublish(fixture_unpublish()), MH_OK);
}

TEST_FIXTURE(unpublish_takes_no_wrong_name_for_a_staged_volume, setup, teardown)
{
	struct mh_unpublish u = fixture_unpublish();

	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	ASSERT_REPLY(publish(fixture_publish()), MH_OK);
	(void)str_copy(u.volume, MH_LABEL_SIZE, "nothing"); /* the trail would say so */
	ASSERT_REPLY(unpublish(u), MH_CONFLICT);
	ASSERT_RECORDED("reason=other-mount");
	assert_true(fake_is_mount(PUBLISHED));
	/* also when somebody unmounted the stage by hand */
	fake_unmount(STAGED);
	ASSERT_REPLY(unpublish(u), MH_CONFLICT);
	ASSERT_REPLY(unstage(fixture_unstage()), MH_BUSY);
	ASSERT_RECORDED("reason=still-published");
	ASSERT_REPLY(unpublish(fixture_unpublish()), MH_OK);
	assert_false(fake_is_mount(PUBLISHED));
	ASSERT_REPLY(unstage(fixture_unstage()), MH_OK);
}

TEST_FIXTURE(busy_is_reported_and_detaching_needs_permission, setup, teardown)
{
	struct mh_unpublish u = fixture_unpublish();

	new_world("allow_detach = yes");
	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	ASSERT_REPLY(publish(fixture_publish()), MH_OK);
	ASSERT_REPLY(unstage(fixture_unstage()), MH_BUSY);
	ASSERT_RECORDED("reason=still-published");
	fake_set_busy(PUBLISHED, true);
	ASSERT_REPLY(unpublish(u), MH_BUSY);
	ASSERT_RECORDED("reason=in-use");
	assert_true(fake_is_mount(PUBLISHED));
	u.detach = 1;
	start_helper("");
	ASSERT_REPLY(unpublish(u), MH_REFUSED);
	ASSERT_RECORDED("reason=detach-not-allowed");
	start_helper("allow_detach = yes");
	ASSERT_REPLY(unpublish(u), MH_OK);
	assert_false(fake_is_mount(PUBLISHED));
}

TEST_FIXTURE(a_second_mount_on_a_publish_is_reported, setup, teardown)
{
	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	ASSERT_REPLY(publish(fixture_publish()), MH_OK);
	for (int again = 0; again < 2; again++) {
		if (again)
			fake_mount_again(PUBLISHED);
		else
			fake_mount_other(PUBLISHED);
		ASSERT_REPLY(unpublish(fixture_unpublish()), MH_CONFLICT);
		ASSERT_RECORDED("reason=stacked");
		fake_unmount(PUBLISHED);
		assert_true(fake_is_mount(PUBLISHED));
	}
	ASSERT_REPLY(unpublish(fixture_unpublish()), MH_OK);
}

TEST_FIXTURE(unstage_reports_whether_the_superblock_lives_on, setup, teardown)
{
	struct mh_reply reply;

	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	fake_superblock_elsewhere(true);
	reply = unstage(fixture_unstage());
	ASSERT_REPLY(reply, MH_OK);
	assert_int_equal(reply.state, MH_STATE_SB_ALIVE);
	fake_superblock_elsewhere(false);
	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	assert_int_equal(unstage(fixture_unstage()).state, 0);
	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	fake_fault_in(FAKE_FAIL, "readlinkat", 1);
	assert_int_equal(unstage(fixture_unstage()).state, MH_STATE_SB_ALIVE); /* it is not known */
	assert_true(fake_fault_fired());
	fake_fault(FAKE_NO_FAULT, 0, 0);
}

TEST_FIXTURE(another_instance_on_the_same_volume_means_busy, setup, teardown)
{
	struct mh_reply reply;

	fake_lock_held_elsewhere(true);
	reply = stage(fixture_stage());
	ASSERT_REPLY(reply, MH_BUSY);
	assert_int_equal(reply.step, STEP_NONE); /* by which it is told from what is in use */
	ASSERT_RECORDED("phase=refused");
	ASSERT_RECORDED("reason=volume-locked");
	fake_lock_held_elsewhere(false);
	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
}

TEST_FIXTURE(a_disk_folder_that_others_can_change_is_not_the_kernels_fault, setup, teardown)
{
	struct mh_reply reply;

	fake_make_directory("/dev/disk", 0, 0777);
	reply = stage(fixture_stage());
	ASSERT_REPLY(reply, MH_REFUSED);
	assert_int_equal(reply.reason, REASON_DEV_PATH);
	ASSERT_RECORDED("step=source reason=dev-path");
}

/* By number, and of the policy the line where the block that decided begins. */
TEST_FIXTURE(a_refusal_gives_the_reason_and_which_block_of_the_policy, setup, teardown)
{
	struct mh_publish publish_req = fixture_publish();
	struct mh_stage req = fixture_stage();
	struct mh_reply reply;

	assert_int_not_equal(helper.agent->line, helper.agent->profiles[0].line);
	req.source.u.block.by_id[0] = 'X';
	reply = stage(req);
	ASSERT_REPLY(reply, MH_REFUSED);
	assert_int_equal(reply.reason, REASON_BY_ID);
	assert_int_equal(reply.policy_line, policy_profile(helper.agent, req.profile)->line);
	assert_int_not_equal(reply.record, 0);
	req = fixture_stage();
	req.ticket.signature[0] ^= 1;
	reply = stage(req);
	ASSERT_REPLY(reply, MH_REFUSED);
	assert_int_equal(reply.reason, REASON_TICKET_SIGNATURE);
	assert_int_equal(reply.policy_line, helper.agent->line);
	reply = publish(publish_req);
	ASSERT_REPLY(reply, MH_NOT_FOUND);
	assert_int_equal(reply.reason, REASON_NONE);
	assert_int_equal(reply.policy_line, 0);
}

TEST_FIXTURE(the_locks_of_a_request_are_released_and_the_place_is_kept, setup, teardown)
{
	assert_int_equal(lock_instance(FAKE_STATE_FD), 0);
	assert_int_equal(lock_volume(FAKE_STATE_FD, "v"), 0);
	assert_int_equal(lock_plugin(FAKE_STATE_FD, "p"), 0);
	assert_int_equal(lock_alloc(FAKE_STATE_FD, "a"), 0);
	assert_int_equal(lock_table(FAKE_STATE_FD), 0);
	assert_int_equal(fake_locks_held(), 6);
	lock_release(FAKE_STATE_FD);
	assert_int_equal(fake_locks_held(), 1);
}

TEST_FIXTURE(a_mount_left_shared_by_a_dead_instance_is_made_private, setup, teardown)
{
	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	fake_set_shared(STAGED);
	/* it was staged to the end: this is somebody's will */
	ASSERT_REPLY(stage(fixture_stage()), MH_CONFLICT);
	ASSERT_RECORDED("step=private reason=other-mount");
	assert_string_equal(fake_propagation(STAGED), " shared");
	helper.state->slot[state_find(helper.state, "vol-1") - helper.state->slot].stage = STATE_STAGING;
	ASSERT_REPLY(stage(fixture_stage()), MH_ALREADY);
	assert_null(strstr(fake_summary(), "shared"));
	ASSERT_REPLY(publish(fixture_publish()), MH_OK);
	fake_set_shared(PUBLISHED);
	ASSERT_REPLY(publish(fixture_publish()), MH_ALREADY);
	assert_null(strstr(fake_summary(), "shared"));
}

static int count_in_log(const char *text)
{
	int n = 0;

	for (const char *at = fake_log(); (at = strstr(at, text)); at++)
		n++;
	return n;
}

/* And of requests one that does not interfere. */
static void set_rates_of_refusals(void)
{
	state_set_rates(helper.state, helper.agent);
	rate_init(&helper.state->header.rate[RATE_OPS], 1000, 1000, 0);
}

TEST_FIXTURE(too_many_refusals_are_summed_up_and_end_the_helper, setup, teardown)
{
	union mh_request req = {.stage = fixture_stage()};
	union mh_answer answer;

	req.stage.ticket.signature[0] ^= 1;
	record_start(&helper, 0, 0);
	set_rates_of_refusals();
	fake_clock_step(1);
	for (int i = 1; i < 200; i++)
		assert_int_equal(ops_run(&helper, &req, &answer), REASON_NONE);
	assert_int_equal(count_in_log(" phase=refused "), 20);
	assert_int_equal(count_in_log(" op=refusals "), 0);
	assert_int_equal(ops_run(&helper, &req, &answer), REASON_REFUSALS);
	assert_int_equal(answer.reply.status, MH_REFUSED);
	/* and a new one begins with what is left */
	state_open(helper.state, FIXTURE_BOOT_ID);
	set_rates_of_refusals();
	assert_int_equal(ops_run(&helper, &req, &answer), REASON_REFUSALS);
	record_end(&helper, false, REASON_REFUSALS, 200);
	assert_int_equal(count_in_log(" op=refusals phase=event seq=0 count=181 "), 1);
}

/* Of all instances together; a flood costs neither a pass over the mount table nor a record. */
TEST_FIXTURE(lists_have_a_rate_of_their_own, setup, teardown)
{
	union mh_request req = {.list = {.header = mh_header_make(MH_OP_LIST, sizeof(req.list), 2)}};
	union mh_answer answer;
	int passes = fake_table_passes();

	set_rates_of_refusals();
	fake_clock_step(1);
	for (int i = 0; i < LISTS_AT_ONCE + 100; i++) {
		assert_int_equal(ops_run(&helper, &req, &answer), REASON_NONE);
		assert_int_equal(answer.list.status, i < LISTS_AT_ONCE ? MH_OK : MH_LIMIT);
	}
	assert_int_equal(fake_table_passes() - passes, LISTS_AT_ONCE);
	assert_string_equal(fake_log(), "");
	fake_clock_step(1000000);
	(void)ops_run(&helper, &req, &answer);
	fake_clock_step(1);
	for (int i = 0; i < 2 * LISTS_PER_SECOND; i++)
		(void)ops_run(&helper, &req, &answer);
	/* and one for the time that the first have taken */
	assert_in_range(fake_table_passes() - passes - LISTS_AT_ONCE, LISTS_PER_SECOND, LISTS_PER_SECOND + 1);
	/* changes are not held up by it */
	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
}

TEST_FIXTURE(a_volume_that_another_instance_works_on_never_ends_the_helper, setup, teardown)
{
	union mh_request req = {.stage = fixture_stage()};
	union mh_answer answer;

	record_start(&helper, 0, 0);
	set_rates_of_refusals();
	fake_clock_step(1);
	fake_lock_held_elsewhere(true);
	for (int i = 0; i < 300; i++) {
		assert_int_equal(ops_run(&helper, &req, &answer), REASON_NONE);
		assert_int_equal(answer.reply.status, MH_BUSY);
	}
	fake_lock_held_elsewhere(false);
}

TEST_FIXTURE(refusals_that_come_slowly_are_all_recorded, setup, teardown)
{
	union mh_request req = {.stage = fixture_stage()};
	union mh_answer answer;

	req.stage.ticket.signature[0] ^= 1;
	record_start(&helper, 0, 0);
	set_rates_of_refusals();
	for (int i = 0; i < 60; i++)
		assert_int_equal(ops_run(&helper, &req, &answer), REASON_NONE);
	assert_int_equal(count_in_log(" phase=refused "), 60);
	/* after a burst the next request brings the summary */
	fake_clock_step(1);
	for (int i = 0; i < 30; i++)
		(void)ops_run(&helper, &req, &answer);
	assert_int_equal(count_in_log(" op=refusals "), 0);
	fake_clock_step(10 * 1000000);
	(void)ops_run(&helper, &req, &answer);
	assert_int_equal(count_in_log(" op=refusals phase=event seq=0 count=10 "), 1);
	record_refusals_summary(&helper, 0, true);
	assert_int_equal(count_in_log(" op=refusals "), 1);
}

static struct mh_list_reply list(uint8_t kind, uint32_t cursor)
{
	union mh_request req = {.list = {.header = {.op = MH_OP_LIST, .length = sizeof(req.list), .seq = 3},
					 .kind = kind,
					 .cursor = cursor}};
	union mh_answer answer;

	assert_int_equal(ops_run(&helper, &req, &answer), REASON_NONE);
	assert_int_equal(answer.header.length, sizeof(answer.list));
	assert_int_equal(answer.list.status, MH_OK);
	return answer.list;
}

TEST_FIXTURE(state_is_read_from_the_kernel, setup, teardown)
{
	struct mh_publish p = fixture_publish();
	struct mh_reply reply;

	assert_int_equal(look("vol-1", "", 0).status, MH_NOT_FOUND);
	assert_int_equal(look("", FIXTURE_ALLOC, 2).status, MH_NOT_FOUND);
	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	p.read_only = 1;
	ASSERT_REPLY(publish(p), MH_OK);
	reply = look("vol-1", "", 0);
	assert_int_equal(reply.status, MH_OK);
	assert_int_equal(reply.state, MH_STATE_STAGED);
	assert_int_equal(reply.dev_minor, FIXTURE_MINOR);
	reply = look("", FIXTURE_ALLOC, 2);
	assert_int_equal(reply.state, MH_STATE_PUBLISHED | MH_STATE_READ_ONLY);
	fake_set_shared(PUBLISHED);
	assert_int_equal(look("", FIXTURE_ALLOC, 2).state,
			 MH_STATE_PUBLISHED | MH_STATE_READ_ONLY | MH_STATE_SHARED);
	assert_int_equal(look("", FIXTURE_ALLOC, 3).status, MH_NOT_FOUND);
}

TEST_FIXTURE(lists_come_in_pages_of_eight, setup, teardown)
{
	struct mh_publish p = fixture_publish();
	struct mh_list_reply page;
	uint32_t seen = 0;

	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	page = list(MH_LIST_PUBLISHED, 0);
	assert_int_equal(page.count, 0);
	assert_int_equal(page.cursor, 0);
	for (p.slot = 0; p.slot < 17; p.slot++)
		ASSERT_REPLY(publish(fixture_at_slot(p, p.slot)), MH_OK);
	page = list(MH_LIST_PUBLISHED, 0);
	assert_int_equal(page.count, 8);
	assert_int_equal(page.cursor, 8);
	page = list(MH_LIST_PUBLISHED, page.cursor);
	assert_int_equal(page.cursor, 16);
	for (uint16_t i = 0; i < page.count; i++)
		seen |= 1U << page.entries[i].slot;
	page = list(MH_LIST_PUBLISHED, page.cursor);
	assert_int_equal(page.count, 1);
	assert_int_equal(page.cursor, 0);
	assert_int_equal(seen, 0xff00);
	assert_string_equal(page.entries[0].alloc, FIXTURE_ALLOC);
	assert_string_equal(page.entries[0].volume, "");
	assert_int_equal(page.entries[0].slot, 16);
	assert_int_equal(page.entries[0].state, MH_STATE_PUBLISHED);
	page = list(MH_LIST_STAGED, 0);
	assert_int_equal(page.count, 1);
	assert_string_equal(page.entries[0].volume, "vol-1");
	assert_int_equal(page.entries[0].state, MH_STATE_STAGED);
	assert_int_equal(page.entries[0].dev_major, FIXTURE_MAJOR);
}

static uint16_t list_status(uint8_t kind, uint32_t cursor)
{
	union mh_request req = {.list = {.header = mh_header_make(MH_OP_LIST, sizeof(req.list), 3),
					 .kind = kind,
					 .cursor = cursor}};
	union mh_answer answer;

	assert_int_equal(ops_run(&helper, &req, &answer), REASON_NONE);
	return answer.list.status;
}

/* An index would skip the mount that moves up when an earlier one is unmounted. */
TEST_FIXTURE(a_list_is_one_pass_and_misses_no_mount, setup, teardown)
{
	struct mh_publish p = fixture_publish();
	struct mh_list_reply page;
	int passes;

	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	for (p.slot = 0; p.slot < 16; p.slot++)
		ASSERT_REPLY(publish(fixture_at_slot(p, p.slot)), MH_OK);
	passes = fake_table_passes();
	page = list(MH_LIST_PUBLISHED, 0);
	fake_unmount("/srv/publish/" FIXTURE_ALLOC "/0");
	for (uint8_t i = 0; i < 2; i++) {
		assert_int_equal(page.count, 8);
		for (uint8_t k = 0; k < 8; k++)
			assert_int_equal(page.entries[k].slot, 8 * i + k);
		page = list(MH_LIST_PUBLISHED, page.cursor);
	}
	assert_int_equal(page.count, 0);
	assert_int_equal(page.cursor, 0);
	assert_int_equal(fake_table_passes() - passes, 1);
}

/* Another request may have read the table, or another process has it. */
TEST_FIXTURE(a_page_comes_only_right_after_the_one_before_it, setup, teardown)
{
	struct mh_publish p = fixture_publish();

	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	for (p.slot = 0; p.slot < 10; p.slot++)
		ASSERT_REPLY(publish(fixture_at_slot(p, p.slot)), MH_OK);
	assert_int_equal(list_status(MH_LIST_PUBLISHED, 8), MH_CONFLICT);
	assert_int_equal(list(MH_LIST_PUBLISHED, 0).cursor, 8);
	assert_int_equal(list_status(MH_LIST_PUBLISHED, 9), MH_CONFLICT);
	assert_int_equal(list_status(MH_LIST_PUBLISHED, 8), MH_CONFLICT);
	assert_int_equal(list(MH_LIST_PUBLISHED, 0).cursor, 8);
	ASSERT_REPLY(publish(fixture_at_slot(p, p.slot)), MH_OK);
	assert_int_equal(list_status(MH_LIST_PUBLISHED, 8), MH_CONFLICT);
	assert_int_equal(list(MH_LIST_PUBLISHED, 0).cursor, 8);
	assert_int_equal(list(MH_LIST_PUBLISHED, 8).count, 3);
	assert_int_equal(list_status(MH_LIST_PUBLISHED, 16), MH_CONFLICT);
	assert_int_equal(list(MH_LIST_PUBLISHED, 0).cursor, 8);
	assert_int_equal(list_status(MH_LIST_STAGED, 8), MH_CONFLICT); /* of another kind */
	assert_int_equal(list_status(MH_LIST_PROFILES, 8), MH_CONFLICT);
}

TEST_FIXTURE(a_list_may_be_of_one_name, setup, teardown)
{
	struct mh_list req = {.header = mh_header_make(MH_OP_LIST, sizeof(req), 2), .volume = "vol-2"};
	union mh_answer answer;

	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	ASSERT_REPLY(stage(fixture_stage_tmpfs()), MH_OK);
	ASSERT_REPLY(publish(fixture_publish()), MH_OK);
	(void)ops_run(&helper, &(union mh_request){.list = req}, &answer);
	assert_int_equal(answer.list.count, 0);
	(void)str_copy(req.volume, sizeof(req.volume), "mem-1");
	(void)ops_run(&helper, &(union mh_request){.list = req}, &answer);
	assert_int_equal(answer.list.count, 1);
	assert_string_equal(answer.list.entries[0].volume, "mem-1");
	req.kind = MH_LIST_PUBLISHED; /* whose entries have no name */
	(void)ops_run(&helper, &(union mh_request){.list = req}, &answer);
	assert_int_equal(answer.list.count, 0);
	req.kind = MH_LIST_PROFILES;
	(void)str_copy(req.volume, sizeof(req.volume), "mem");
	(void)ops_run(&helper, &(union mh_request){.list = req}, &answer);
	assert_int_equal(answer.list.count, 1);
}

/* A plugin may have been in the directory; whoever cannot look does not say that there is none. */
TEST_FIXTURE(a_directory_without_a_mount_is_reported_of_one_volume_alone, setup, teardown)
{
	fake_make_directory("/srv/stage/vol-3", 0, 0755);
	assert_int_equal(look("vol-3", "", 0).status, MH_OK);
	assert_int_equal(look("vol-3", "", 0).state, MH_STATE_PREPARED);
	assert_int_equal(look("vol-4", "", 0).status, MH_NOT_FOUND);
	assert_int_equal(list(MH_LIST_STAGED, 0).count, 0);
	fake_fault_in(FAKE_FAIL, "statx", 1);
	assert_int_equal(look("vol-3", "", 0).status, MH_KERNEL);
	fake_fault(FAKE_NO_FAULT, 0, 0);
}

TEST_FIXTURE(the_profile_list_matches_the_policy, setup, teardown)
{
	struct mh_list_reply page;

	helper.type_available[FS_SQUASHFS] = false;
	page = list(MH_LIST_PROFILES, 0);
	assert_int_equal(page.count, 4);
	assert_string_equal(page.entries[0].volume, "db");
	assert_int_equal(page.entries[0].class, MH_CLASS_BLOCK);
	assert_int_equal(page.entries[0].state, MH_STATE_AVAILABLE | MH_STATE_EXEC);
	assert_int_equal(page.entries[1].state, MH_STATE_AVAILABLE | MH_STATE_READ_ONLY);
	assert_int_equal(page.entries[2].state, MH_STATE_READ_ONLY);
	assert_int_equal(page.entries[3].class, MH_CLASS_TMPFS);
	assert_string_equal(page.entries[3].volume, "mem");
}

TEST_FIXTURE(a_page_of_profiles_begins_where_the_one_before_it_ended, setup, teardown)
{
	struct agent_policy agent = *helper.agent;
	struct profile profiles[9];
	struct mh_list_reply page;

	for (size_t i = 0; i < ARRAY_SIZE(profiles); i++) {
		profiles[i] = helper.agent->profiles[0];
		(void)str_format(profiles[i].name, sizeof(profiles[i].name), "p%zu", i);
	}
	agent.profiles = profiles;
	agent.n_profiles = ARRAY_SIZE(profiles);
	helper.agent = &agent;
	page = list(MH_LIST_PROFILES, 0);
	assert_string_equal(page.entries[7].volume, "p7");
	page = list(MH_LIST_PROFILES, page.cursor);
	assert_int_equal(page.count, 1);
	assert_string_equal(page.entries[0].volume, "p8");
	assert_int_equal(page.cursor, 0);
}

TEST_FIXTURE(over_the_rate_nothing_is_done, setup, teardown)
{
	union mh_request req = {.stage = fixture_stage()};
	struct rate *rate = &helper.state->header.rate[RATE_OPS];
	union mh_answer answer;

	rate_init(rate, 1, 1, 0);
	assert_int_equal(ops_run(&helper, &req, &answer), REASON_NONE);
	assert_int_equal(answer.reply.status, MH_OK);
	assert_int_equal(ops_run(&helper, &req, &answer), REASON_NONE);
	*rate = (struct rate){.cost_us = 1, .most_us = 1, .paid_us = UINT64_MAX};
	assert_int_equal(ops_run(&helper, &req, &answer), REASON_NONE);
	assert_int_equal(answer.reply.status, MH_LIMIT);
	ASSERT_RECORDED("reason=rate-limit");
	rate->paid_us = UINT64_MAX;
	req.list = (struct mh_list){.header = {.op = MH_OP_LIST, .length = sizeof(req.list)}};
	assert_int_equal(ops_run(&helper, &req, &answer), REASON_NONE);
	/* an agent that starts reads hundreds of pages: looking is free */
	assert_int_equal(answer.list.status, MH_OK);
	assert_int_equal(answer.header.length, sizeof(answer.list));
	assert_int_equal(look("vol-1", "", 0).status, MH_OK);
}

TEST_FIXTURE(an_operation_without_a_row_is_refused, setup, teardown)
{
	static const uint16_t ops[] = {0, MH_OP_HELLO, MH_OP_ACK, MH_OP_FAILURE, MH_OP_N, UINT16_MAX};
	union mh_request req = {.stage = fixture_stage()};
	union mh_answer answer;

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		req.header.op = ops[i];
		assert_int_equal(ops_run(&helper, &req, &answer), REASON_NONE);
		assert_int_equal(answer.reply.status, MH_REFUSED);
		assert_int_equal(answer.reply.reason, REASON_UNKNOWN_OP);
	}
	assert_string_equal(fake_summary(), "dir /srv/publish\ndir /srv/stage\n");
}

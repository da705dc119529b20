/* SPDX-License-Identifier: Apache-2.0 */
#include "mounthelper_words.h"
#include "unit.h"

#include "helper/msg.h"

#define ALLOC "0190a5a0-0000-7000-8000-000000000001"

static const struct mh_source tmpfs = {.class = MH_CLASS_TMPFS, .u.tmpfs = {.size_bytes = 4096, .inodes = 8}};

static struct helper_mount mount_ok(void)
{
	return (struct helper_mount)ROW(.volume = "db-0123456789abcdef", .profile = "scratch", .alloc = ALLOC,
					.slot = MH_SLOT_MAX, .read_only = true,
					.propagation = PROPAGATION_HOST_TO_TASK, .source = &tmpfs);
}

TEST(requests_are_the_wire_structs)
{
	struct ticket ticket = {.magic = TICKET_MAGIC, .generation = 7};
	struct helper_mount mount = mount_ok();
	union helper_request request;
	struct error err;

	mount.ticket = &ticket;
	assert_int_equal(helper_request_stage(&mount, &request, &err), STATUS_OK);
	assert_int_equal(request.header.length, sizeof(struct mh_stage));
	assert_int_equal(request.header.op, MH_OP_STAGE);
	assert_string_equal(request.stage.volume, mount.volume);
	assert_string_equal(request.stage.profile, "scratch");
	assert_string_equal(request.stage.alloc, ALLOC);
	assert_int_equal(request.stage.read_only, 1);
	assert_memory_equal(&request.stage.source, &tmpfs, sizeof(tmpfs));
	assert_memory_equal(&request.stage.ticket, &ticket, sizeof(ticket));

	assert_int_equal(helper_request_publish(&mount, &request, &err), STATUS_OK);
	assert_int_equal(request.header.length, sizeof(struct mh_publish));
	assert_int_equal(request.publish.slot, MH_SLOT_MAX);
	assert_int_equal(request.publish.read_only, 1);
	assert_int_equal(request.publish.exec, 0);
	assert_int_equal(request.publish.propagation, TICKET_PROPAGATION_HOST_TO_TASK);
	assert_memory_equal(&request.publish.ticket, &ticket, sizeof(ticket));

	assert_int_equal(helper_request_unpublish("v", ALLOC, 3, &request, &err), STATUS_OK);
	assert_int_equal(request.header.length, sizeof(struct mh_unpublish));
	assert_int_equal(request.unpublish.slot, 3);
	assert_int_equal(request.unpublish.detach, 0);

	assert_int_equal(helper_request_unstage("v", "", &request, &err), STATUS_OK);
	assert_int_equal(request.header.length, sizeof(struct mh_unstage));
	assert_string_equal(request.unstage.volume, "v");
	assert_string_equal(request.unstage.profile, "");
	assert_int_equal(helper_request_unstage("v", "csi.plug", &request, &err), STATUS_OK);
	assert_string_equal(request.unstage.profile, "csi.plug");

	helper_request_list(MH_LIST_PUBLISHED, 5, &request);
	helper_request_seal(&request, 9);
	assert_int_equal(request.header.length, sizeof(struct mh_list));
	assert_int_equal(request.header.seq, 9);
	assert_int_equal(request.list.kind, MH_LIST_PUBLISHED);
	assert_int_equal(request.list.cursor, 5);
}

TEST(a_value_beyond_the_wire_format_is_refused)
{
	char label64[65];
	union helper_request request = {0};
	union helper_request untouched = request;
	struct helper_mount mount;
	struct error err;

	memset(label64, 'a', 64);
	label64[64] = '\0';
	mount = mount_ok();
	mount.volume = label64;
	assert_int_equal(helper_request_stage(&mount, &request, &err), STATUS_INVALID_ARGUMENT);
	mount.volume = label64 + 1;
	assert_int_equal(helper_request_stage(&mount, &untouched, &err), STATUS_OK);
	memset(&untouched, 0, sizeof(untouched));
	mount = mount_ok();
	mount.volume = "../x";
	assert_error(helper_request_publish(&mount, &request, &err), STATUS_INVALID_ARGUMENT, err, "'../x'");
	mount = mount_ok();
	mount.profile = "";
	assert_int_equal(helper_request_stage(&mount, &request, &err), STATUS_INVALID_ARGUMENT);
	assert_int_equal(helper_request_publish(&mount, &request, &err), STATUS_INVALID_ARGUMENT);
	mount = mount_ok();
	mount.alloc = "0190A5A0-0000-7000-8000-000000000001";
	assert_int_equal(helper_request_stage(&mount, &request, &err), STATUS_INVALID_ARGUMENT);
	assert_int_equal(helper_request_publish(&mount, &request, &err), STATUS_INVALID_ARGUMENT);
	mount = mount_ok();
	mount.slot = MH_SLOT_MAX + 1;
	assert_int_equal(helper_request_publish(&mount, &request, &err), STATUS_INVALID_ARGUMENT);
	mount = mount_ok();
	mount.propagation = PROPAGATION_N;
	assert_int_equal(helper_request_publish(&mount, &request, &err), STATUS_INVALID_ARGUMENT);
	assert_int_equal(helper_request_unpublish("V", ALLOC, 0, &request, &err), STATUS_INVALID_ARGUMENT);
	assert_int_equal(helper_request_unpublish("v", "", 0, &request, &err), STATUS_INVALID_ARGUMENT);
	assert_int_equal(helper_request_unpublish("v", ALLOC, MH_SLOT_MAX + 1, &request, &err),
			 STATUS_INVALID_ARGUMENT);
	assert_int_equal(helper_request_unstage(".", "", &request, &err), STATUS_INVALID_ARGUMENT);
	assert_int_equal(helper_request_look(".", "", &request, &err), STATUS_INVALID_ARGUMENT);
	assert_int_equal(helper_request_unstage("v", "../plug", &request, &err), STATUS_INVALID_ARGUMENT);
	assert_int_equal(helper_request_look("v", "../plug", &request, &err), STATUS_INVALID_ARGUMENT);
	assert_memory_equal(&request, &untouched, sizeof(request));
}

static struct mh_hello hello_ok(void)
{
	return (struct mh_hello){
		.header = ROW(.magic = MH_MAGIC, .version = MH_VERSION, .op = MH_OP_HELLO,
			      .length = sizeof(struct mh_hello)),
		.cluster = "prod",
		.node = "n1",
		.publish_base = "/run/holdfast/publish",
		.stage_base = "/run/holdfast/stage",
		.launch_mode = 1,
	};
}

TEST(hello_is_read)
{
	struct mh_hello hello = hello_ok();
	struct mh_hello got;
	struct error err;

	assert_int_equal(helper_hello_check(&hello, sizeof(hello), &got, &err), STATUS_OK);
	assert_memory_equal(&hello, &got, sizeof(got));
	hello.launch_mode = 2;
	assert_int_equal(helper_hello_check(&hello, sizeof(hello), &got, &err), STATUS_OK);
}

/* Every single byte of the message changed to every one of a few values: accepted only where it is content.
 */
TEST(no_change_of_framing_in_hello_is_accepted)
{
	struct mh_hello hello = hello_ok();
	struct mh_hello got;
	struct error err;

	for (size_t n = 0; n < sizeof(hello); n++)
		assert_int_equal(helper_hello_check(&hello, n, &got, &err), STATUS_DATA_LOSS);
	for (size_t i = 0; i < sizeof(hello); i++) {
		uint8_t bytes[sizeof(hello)];
		bool is_content = i >= offsetof(struct mh_hello, policy_digest) &&
				  i < offsetof(struct mh_hello, cluster);

		memcpy(bytes, &hello, sizeof(bytes));
		bytes[i] ^= 0x81;
		if ((i >= offsetof(struct mh_hello, helper_pid) &&
		     i < offsetof(struct mh_hello, launch_mode)) ||
		    (i >= offsetof(struct mh_hello, ticket_keys) && i < offsetof(struct mh_hello, trail)))
			is_content = true;
		if (i >= offsetof(struct mh_hello, record))
			is_content = true;
		/* inside of a text another character is content too; after its end it is not */
		if ((i >= offsetof(struct mh_hello, cluster) && i < offsetof(struct mh_hello, cluster) + 4) ||
		    (i >= offsetof(struct mh_hello, node) && i < offsetof(struct mh_hello, node) + 2) ||
		    (i > offsetof(struct mh_hello, publish_base) &&
		     i < offsetof(struct mh_hello, publish_base) + strlen(hello.publish_base)) ||
		    (i >= offsetof(struct mh_hello, stage_base) &&
		     i < offsetof(struct mh_hello, stage_base) + strlen(hello.stage_base)))
			is_content = true;
		/* a text may grow by the character after it */
		if (i == offsetof(struct mh_hello, cluster) + 4 || i == offsetof(struct mh_hello, node) + 2 ||
		    i == offsetof(struct mh_hello, publish_base) + strlen(hello.publish_base) ||
		    i == offsetof(struct mh_hello, stage_base) + strlen(hello.stage_base))
			is_content = true;
		assert_int_equal(helper_hello_check(bytes, sizeof(bytes), &got, &err) == STATUS_OK,
				 is_content);
	}
}

TEST(another_version_is_reported_apart_from_damage)
{
	struct mh_hello hello = hello_ok();
	struct mh_hello got;
	struct error err;

	hello.header.version = MH_VERSION + 1;
	assert_error(helper_hello_check(&hello, sizeof(hello), &got, &err), STATUS_UNIMPLEMENTED, err,
		     "same release");
}

TEST(no_change_of_framing_in_a_reply_is_accepted)
{
	union helper_request request;
	union helper_reply got;
	struct mh_reply reply;
	struct error err;

	assert_int_equal(helper_request_unstage("v", "", &request, &err), STATUS_OK);
	helper_request_seal(&request, 5);
	reply = (struct mh_reply){.header = request.header, .status = MH_BUSY, .sys_errno = 16};
	reply.header.length = sizeof(reply);
	assert_int_equal(helper_reply_check(&reply, sizeof(reply), &request, &got, &err), STATUS_OK);
	assert_int_equal(got.reply.status, MH_BUSY);
	for (size_t n = 0; n < sizeof(reply); n++)
		assert_int_equal(helper_reply_check(&reply, n, &request, &got, &err), STATUS_DATA_LOSS);
	for (size_t i = 0; i < sizeof(struct mh_header); i++) {
		struct mh_reply changed = reply;

		((uint8_t *)&changed)[i] ^= 0x81;
		assert_int_not_equal(helper_reply_check(&changed, sizeof(changed), &request, &got, &err),
				     STATUS_OK);
	}
	reply.status = MH_STATUS_N;
	assert_int_equal(helper_reply_check(&reply, sizeof(reply), &request, &got, &err), STATUS_DATA_LOSS);
}

static enum status check_list(enum mh_list_kind kind, uint32_t asked, const struct mh_list_reply *list)
{
	struct mh_list_reply reply = *list;
	union helper_request request;
	union helper_reply got;
	struct error err;

	helper_request_list(kind, asked, &request);
	helper_request_seal(&request, 2);
	reply.header = request.header;
	reply.header.length = sizeof(reply);
	return helper_reply_check(&reply, sizeof(reply), &request, &got, &err);
}

TEST(lists_are_checked_by_their_kind)
{
	const struct mh_list_entry staged = {.volume = "v"};
	const struct mh_list_entry published = {.alloc = ALLOC, .slot = 1};
	const struct mh_list_entry profile = {.volume = "p", .class = MH_CLASS_BIND};
	struct mh_list_reply list = {.count = 1, .entries = {staged}};

	assert_int_equal(check_list(MH_LIST_STAGED, 0, &list), STATUS_OK);
	assert_int_equal(check_list(MH_LIST_PUBLISHED, 0, &list), STATUS_DATA_LOSS);
	assert_int_equal(check_list(MH_LIST_PROFILES, 0, &list), STATUS_DATA_LOSS);
	list.entries[0] = published;
	assert_int_equal(check_list(MH_LIST_STAGED, 0, &list), STATUS_DATA_LOSS);
	assert_int_equal(check_list(MH_LIST_PUBLISHED, 0, &list), STATUS_OK);
	list.entries[0] = profile;
	assert_int_equal(check_list(MH_LIST_PROFILES, 0, &list), STATUS_OK);
	list.entries[0].class = MH_CLASS_N;
	assert_int_equal(check_list(MH_LIST_PROFILES, 0, &list), STATUS_DATA_LOSS);
	list.entries[0] = published;
	list.entries[0].slot = MH_SLOT_MAX + 1;
	assert_int_equal(check_list(MH_LIST_PUBLISHED, 0, &list), STATUS_DATA_LOSS);
	list.entries[0] = staged;
	memset(list.entries[0].volume, 'v', sizeof(list.entries[0].volume));
	assert_int_equal(check_list(MH_LIST_STAGED, 0, &list), STATUS_DATA_LOSS);
	list.entries[0] = staged;
	list.entries[0].volume[10] = 'x';
	assert_int_equal(check_list(MH_LIST_STAGED, 0, &list), STATUS_DATA_LOSS);
}

TEST(a_reply_is_an_event_of_the_journal)
{
	struct mh_reply reply = {.header.op = MH_OP_UNPUBLISH, .status = MH_ALREADY};

	assert_int_equal(helper_reply_event(&reply), LOG_EVENT_MOUNT_UNPUBLISHED);
	reply.status = MH_BUSY; /* another instance is at it, or what is below is in use */
	assert_int_equal(helper_reply_event(&reply), LOG_EVENT_MOUNT_REFUSED);
	reply.step = STEP_UNMOUNT;
	assert_int_equal(helper_reply_event(&reply), LOG_EVENT_MOUNT_FAILED);
	reply.header.op = MH_OP_LIST;
	assert_int_equal(helper_reply_event(&reply), LOG_EVENT_NONE);
	assert_string_equal(helper_reason_word(REASON_BY_ID), "by-id-not-allowed");
	assert_string_equal(helper_reason_word(REASON_N), "unknown");
	assert_null(helper_reason_word(REASON_NONE));
}

TEST(a_look_is_a_list_of_one_volume)
{
	struct mh_list_reply list = {.count = 2,
				     .entries = {{.volume = "v", .state = MH_STATE_PREPARED},
						 {.volume = "v", .dev_minor = 7, .state = MH_STATE_STAGED}}};
	union helper_request request;
	union helper_reply got;
	struct mh_reply said;
	struct error err;

	assert_int_equal(helper_request_look("v", "csi.plug", &request, &err), STATUS_OK);
	assert_string_equal(helper_request_volume(&request), "v");
	assert_string_equal(request.list.profile, "csi.plug");
	helper_request_seal(&request, 2);
	list.header = request.header;
	list.header.length = sizeof(list);
	assert_int_equal(helper_reply_check(&list, sizeof(list), &request, &got, &err), STATUS_OK);
	said = helper_reply_of_look(&got.list);
	assert_int_equal(said.status, MH_OK);
	assert_int_equal(said.state, MH_STATE_STAGED);
	assert_int_equal(said.dev_minor, 7);
	list.count = 0;
	assert_int_equal(helper_reply_of_look(&list).status, MH_NOT_FOUND);
	list.status = MH_KERNEL;
	assert_int_equal(helper_reply_of_look(&list).status, MH_KERNEL);
	assert_int_equal(helper_reply_of_look(&list).step, STEP_TABLE);
	list.count = 1;
	(void)str_copy(list.entries[0].volume, MH_LABEL_SIZE, "w"); /* asked of another one */
	assert_int_equal(helper_reply_check(&list, sizeof(list), &request, &got, &err), STATUS_DATA_LOSS);
}

TEST(a_list_must_end_and_stay_within_its_page)
{
	struct mh_list_reply list = {.count = MH_LIST_MAX};

	for (size_t i = 0; i < MH_LIST_MAX; i++)
		list.entries[i] = (struct mh_list_entry){.volume = "v"};
	assert_int_equal(check_list(MH_LIST_STAGED, 0, &list), STATUS_OK);
	list.count = MH_LIST_MAX + 1;
	assert_int_equal(check_list(MH_LIST_STAGED, 0, &list), STATUS_DATA_LOSS);
	list.count = 0;
	list.cursor = 8;
	assert_int_equal(check_list(MH_LIST_STAGED, 7, &list), STATUS_OK);
	assert_int_equal(check_list(MH_LIST_STAGED, 8, &list), STATUS_DATA_LOSS);
	assert_int_equal(check_list(MH_LIST_STAGED, 9, &list), STATUS_DATA_LOSS);
	list = (struct mh_list_reply){.status = MH_CONFLICT};
	assert_int_equal(check_list(MH_LIST_STAGED, 7, &list), STATUS_OK);
	assert_int_equal(check_list(MH_LIST_STAGED, 0, &list), STATUS_DATA_LOSS);
}

TEST(every_outcome_has_a_code_and_a_sentence)
{
	static const enum status expected[MH_STATUS_N] =
		ROW([MH_OK] = STATUS_OK, [MH_ALREADY] = STATUS_OK, [MH_REFUSED] = STATUS_PERMISSION_DENIED,
		    [MH_NOT_FOUND] = STATUS_NOT_FOUND, [MH_BUSY] = STATUS_FAILED_PRECONDITION,
		    [MH_CONFLICT] = STATUS_ALREADY_EXISTS, [MH_LIMIT] = STATUS_RESOURCE_EXHAUSTED,
		    [MH_UNAVAILABLE] = STATUS_UNAVAILABLE, [MH_KERNEL] = STATUS_INTERNAL,
		    [MH_INTERNAL] = STATUS_INTERNAL, [MH_REPLACED] = STATUS_UNAVAILABLE);

	for (unsigned int i = 0; i < MH_STATUS_N; i++) {
		struct mh_reply reply = {
			.header.op = MH_OP_STAGE, .status = (uint16_t)i, .step = 4, .record = 77};
		struct error err = {0};

		assert_int_equal(helper_reply_outcome(&reply, "volume db", &err), expected[i]);
		if (expected[i] == STATUS_OK)
			continue;
		assert_error(err.status, expected[i], err, "STAGE of volume db: ");
		assert_non_null(strstr(err.msg, "record 77 of its trail: holdfast audit show FILE"));
		reply.record = 0;
		(void)helper_reply_outcome(&reply, "volume db", &err);
		assert_null(strstr(err.msg, "record"));
		assert_non_null(strstr(err.msg, "(see more in its trail: holdfast audit show FILE)"));
		reply.record = 77;
	}
}

TEST(a_trail_without_room_and_a_file_system_that_the_kernel_lacks_are_two_things)
{
	struct mh_reply reply = {.header.op = MH_OP_STAGE, .status = MH_UNAVAILABLE, .step = STEP_TRAIL};
	struct error err;

	assert_true(helper_reply_is_without_trail(&reply));
	assert_error(helper_reply_outcome(&reply, "volume db", &err), STATUS_UNAVAILABLE, err,
		     "its trail cannot be written");
	assert_null(strstr(err.msg, "file system type"));
	reply.step = STEP_CREATE;
	assert_false(helper_reply_is_without_trail(&reply));
	assert_error(helper_reply_outcome(&reply, "volume db", &err), STATUS_UNAVAILABLE, err,
		     "the kernel lacks the file system type");
}

#define REASON_ROW(name, word, sentence) {word, sentence},
static const struct {
	const char *word, *sentence;
} reasons[REASON_N] = {MH_REASONS(REASON_ROW)};

/* Each that an answer may carry. Those that end the helper and say nothing more have none. */
TEST(every_reason_is_reported_with_a_sentence_and_the_policys_line)
{
	char beginning[128];

	for (unsigned int i = REASON_RATE; i < REASON_N; i++) {
		const struct mh_reply reply = ROW(.header.op = MH_OP_STAGE, .status = MH_REFUSED,
						  .reason = (uint16_t)i, .policy_line = 4711);
		bool has_line = strstr(reasons[i].sentence, "line N") != NULL;
		struct error err = {0};

		if (i == REASON_CLOSED || i == REASON_SEND || i == REASON_ASSERTION ||
		    i == REASON_POLICY_REPLACED)
			continue;
		assert_int_equal(helper_reply_outcome(&reply, "volume db", &err), STATUS_PERMISSION_DENIED);
		assert_false(helper_reply_is_locked(&reply));
		(void)str_format(beginning, sizeof(beginning),
				 "STAGE of volume db: mount helper: %s: ", reasons[i].word);
		if (!str_starts_with(err.msg, beginning) || strlen(reasons[i].sentence) < 20)
			fail_msg("%s", err.msg);
		assert_true((strstr(err.msg, "line 4711 ") != NULL) == has_line);
		assert_null(strstr(err.msg, " N "));
		assert_null(strstr(err.msg, "refused by its policy or for the ticket"));
		assert_non_null(strstr(err.msg, " (see more in its trail: holdfast audit show FILE)"));
		for (unsigned int k = REASON_RATE; k < i; k++)
			assert_string_not_equal(reasons[i].sentence, reasons[k].sentence);
	}
}

TEST(a_reason_that_does_not_exist_is_reported_as_its_status)
{
	const struct mh_reply reply = {.header.op = MH_OP_STAGE, .status = MH_LIMIT, .reason = REASON_N};
	struct error err = {0};

	assert_error(helper_reply_outcome(&reply, "volume db", &err), STATUS_RESOURCE_EXHAUSTED, err,
		     "mount helper: a limit of its policy is reached (see");
}

TEST(a_used_up_rate_is_distinguished_from_other_limits)
{
	const struct mh_reply reply = {
		.header.op = MH_OP_STAGE, .status = MH_LIMIT, .reason = REASON_RATE, .policy_line = 3};
	const struct mh_reply other = {.status = MH_LIMIT, .reason = REASON_MAX_STAGED};
	struct error err = {0};

	assert_true(helper_reply_is_over_rate(&reply));
	assert_false(helper_reply_is_over_rate(&other));
	assert_false(helper_reply_is_locked(&reply));
	assert_error(helper_reply_outcome(&reply, "volume db", &err), STATUS_RESOURCE_EXHAUSTED, err,
		     "rate-limit: more requests than ops_per_second and burst");
}

TEST(an_unusable_device_is_reported_by_step_and_errno)
{
	static const struct {
		enum step step;
		int sys_errno;
		const char *text;
	} rows[] = {{STEP_CREATE, EINVAL, "a blank device needs mkfs"},
		    {STEP_CREATE, EOPNOTSUPP, "or refuses it: journalctl -k"},
		    {STEP_CREATE, EUCLEAN, "repair it with fsck"},
		    {STEP_CREATE, EIO, "the kernel refused"},
		    {STEP_OPTION, EINVAL, "the kernel refused"},
		    {STEP_SOURCE, ENOENT, "no entry in /dev/disk/by-id"}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct mh_reply reply =
			ROW(.header.op = MH_OP_STAGE, .status = MH_KERNEL, .step = (uint16_t)rows[i].step,
			    .sys_errno = (uint16_t)rows[i].sys_errno);
		struct error err = {0};

		assert_error(helper_reply_outcome(&reply, "volume db", &err), STATUS_INTERNAL, err,
			     rows[i].text);
	}
}

TEST(leftovers_of_a_plugin_are_reported_by_errno)
{
	static const struct {
		int sys_errno;
		const char *word;
	} rows[] = {{ENOTDIR, "the device of a block attachment"},
		    {ENOTEMPTY, "left files"},
		    {0, "a process has files open"},
		    {EBUSY, "a process has files open"}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct mh_reply reply =
			ROW(.header.op = MH_OP_UNSTAGE, .status = MH_BUSY, .step = STEP_UNMOUNT,
			    .sys_errno = (uint16_t)rows[i].sys_errno);
		struct error err = {0};

		assert_error(helper_reply_outcome(&reply, "volume db", &err), STATUS_FAILED_PRECONDITION, err,
			     rows[i].word);
	}
}

/* BUSY at no step: the helper has not even begun. */
TEST(a_volume_that_another_instance_has_is_distinguished_from_one_in_use)
{
	for (int status = 0; status < MH_STATUS_N; status++) {
		for (int step = 0; step < STEP_N; step++) {
			const struct mh_reply reply = {
				.header.op = MH_OP_STAGE, .status = (uint16_t)status, .step = (uint16_t)step};
			bool is_locked = status == MH_BUSY && step == STEP_NONE;
			struct error err = {0};

			assert_int_equal(helper_reply_is_locked(&reply), is_locked);
			(void)helper_reply_outcome(&reply, "volume db", &err);
			assert_int_equal(err.status == STATUS_ABORTED, is_locked);
			assert_int_equal(strstr(err.msg, "another instance of the mount helper") != NULL,
					 is_locked);
		}
	}
}

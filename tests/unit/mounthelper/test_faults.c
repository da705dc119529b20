/* SPDX-License-Identifier: Apache-2.0 */
/* Every call of every operation fails with each errno, or is the last one before or after which the process
 * dies. Whatever happens: what exists there belongs to the beginning or the end, the trail is a chain with an
 * intent for every change, no count is too low, and the same request leads to the same end. */

#include "workbench.h"

#include <sodium.h>

struct operation {
	const char *name;
	const char *word; /* in the trail; NULL: leaves no record */
	void (*prepare)(void);
	enum mh_status (*perform)(void);
	bool is_special; /* not of the rows of the table of failures below */
};

static void nothing(void)
{
}

static enum mh_status stage_block(void)
{
	return stage(fixture_stage()).status;
}

static enum mh_status stage_tmpfs(void)
{
	return stage(fixture_stage_tmpfs()).status;
}

static enum mh_status stage_shared(void)
{
	return stage(stage_pair()).status;
}

static void staged(void)
{
	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
}

static void staged_shared(void)
{
	ASSERT_REPLY(stage(stage_pair()), MH_OK);
}

static enum mh_status publish_private(void)
{
	return publish(publish_pair(2, TICKET_PROPAGATION_PRIVATE)).status;
}

static enum mh_status publish_slave(void)
{
	return publish(publish_pair(2, TICKET_PROPAGATION_HOST_TO_TASK)).status;
}

static enum mh_status publish_peer(void)
{
	return publish(publish_pair(2, TICKET_PROPAGATION_BIDIRECTIONAL)).status;
}

static enum mh_status publish_block(void)
{
	return publish(fixture_publish()).status;
}

static void published(void)
{
	staged();
	ASSERT_REPLY(publish(fixture_publish()), MH_OK);
}

static void published_peer(void)
{
	staged_shared();
	assert_int_equal(publish_peer(), MH_OK);
}

static enum mh_status unpublish_block(void)
{
	return unpublish(fixture_unpublish()).status;
}

static enum mh_status unpublish_peer(void)
{
	return unpublish(unpublish_of("mem-1", 2)).status;
}

static enum mh_status unstage_it(void)
{
	return unstage(fixture_unstage()).status;
}

static enum mh_status unstage_plugins(void)
{
	return unstage(unstage_csi("vol-1")).status;
}

static void left_by_plugin(void)
{
	make_csi("vol-1");
	fake_mount_other(PLUGIN_STAGING);
	fake_mount_other(PLUGIN_PUBLISH);
}

static void published_by_plugin(void)
{
	left_by_plugin();
	ASSERT_REPLY(publish(publish_csi("vol-1", 2)), MH_OK);
	ASSERT_REPLY(unpublish(unpublish_of("vol-1", 2)), MH_OK);
}

static enum mh_status publish_plugins(void)
{
	return publish(publish_csi("vol-1", 2)).status;
}

#define OTHER_CLASSES                                                                 \
	SHARING "hostvol data { path = /data/vol; owner_uid = 1000 }\n"               \
		"hostvol pool { path = /data/vol; owner_uid = 1000; shared = yes }\n" \
		"profile filer { class = nfs4; server = 10.1.0.0/16; export = /srv }\n"

static struct mh_stage stage_of(const char *profile, enum mh_class class)
{
	struct mh_stage req = fixture_stage();

	(void)str_copy(req.profile, sizeof(req.profile), profile);
	req.source = (struct mh_source){.class = (uint8_t) class};
	memset(&req.ticket, 0, sizeof(req.ticket));
	return req;
}

static void host_directory(void)
{
	fake_make_directory("/data", 0, 0755);
	fake_make_directory("/data/vol", 1000, 0755);
}

static enum mh_status stage_host_volume(const char *name)
{
	struct mh_stage req = stage_of(name, MH_CLASS_BIND);

	(void)str_copy(req.source.u.bind.name, MH_LABEL_SIZE, name);
	return stage(req).status;
}

static enum mh_status stage_bind(void)
{
	return stage_host_volume("data");
}

static enum mh_status stage_bind_shared(void)
{
	return stage_host_volume("pool");
}

static enum mh_status stage_nfs4(void)
{
	struct mh_stage req = stage_of("filer", MH_CLASS_NFS4);

	req.source.u.nfs4.family = 4;
	memcpy(req.source.u.nfs4.addr, (uint8_t[4]){10, 1, 2, 3}, 4);
	(void)str_copy(req.source.u.nfs4.export, MH_EXPORT_SIZE, "/srv/a");
	return stage(req).status;
}

static enum mh_status stage_csi(void)
{
	return stage(stage_of("csi.plug", MH_CLASS_CSI)).status;
}

static void mounted_by_plugin(void)
{
	assert_int_equal(stage_csi(), MH_OK);
	fake_make_directory(PLUGIN_PUBLISH, 0, 0750);
	fake_mount_other(PLUGIN_PUBLISH);
}

/* What instances leave that die between attaching and setting the propagation. */
static void die_in(enum mh_status (*perform)(void))
{
	fake_fault_in(FAKE_KILL_AFTER, "move_mount", 1);
	if (setjmp(fake_killed) == 0)
		(void)perform();
	fake_process_died();
	start_helper(OTHER_CLASSES);
}

static void stage_left_shared(void)
{
	die_in(stage_block);
}

static void publish_left_shared(void)
{
	staged_shared();
	die_in(publish_slave);
}

static enum mh_status look_at_staged(void)
{
	return look("vol-1", "", 0).status;
}

static enum mh_status list_published(void)
{
	union mh_request req = {.list = {.header = {.op = MH_OP_LIST, .length = sizeof(req.list)},
					 .kind = MH_LIST_PUBLISHED}};
	union mh_answer answer;

	(void)ops_run(&helper, &req, &answer);
	assert_int_equal(answer.list.count, answer.list.status == MH_OK ? 1 : 0);
	return answer.list.status;
}

static const struct operation operations[] = {
	{"stage block", "stage", nothing, stage_block},
	{"stage tmpfs", "stage", nothing, stage_tmpfs},
	{"stage shared", "stage", nothing, stage_shared},
	{"publish", "publish", staged, publish_block},
	{"publish private", "publish", staged_shared, publish_private},
	{"publish host-to-task", "publish", staged_shared, publish_slave},
	{"publish bidirectional", "publish", staged_shared, publish_peer},
	{"publish csi", "publish", left_by_plugin, publish_plugins},
	{"unpublish", "unpublish", published, unpublish_block},
	{"unpublish bidirectional", "unpublish", published_peer, unpublish_peer},
	{"unstage", "unstage", staged, unstage_it},
	{"unstage csi leftovers", "unstage", left_by_plugin, unstage_plugins},
	{"unstage csi after publish", "unstage", published_by_plugin, unstage_plugins},
	{"stage bind", "stage", host_directory, stage_bind, true},
	{"stage bind shared", "stage", host_directory, stage_bind_shared, true},
	{"stage nfs4", "stage", nothing, stage_nfs4, true},
	{"prepare csi", "stage", nothing, stage_csi, true},
	{"stage csi", "stage", mounted_by_plugin, stage_csi, true},
	{"stage left shared", "stage", stage_left_shared, stage_block, true},
	{"publish left shared", "publish", publish_left_shared, publish_slave, true},
	{"list one", NULL, published, look_at_staged},
	{"list", NULL, published, list_published},
};

enum { SUMMARY = 8192 };

/* One run: what was there, and what shall be. */
struct experiment {
	const struct operation *op;
	char before[SUMMARY], end[SUMMARY];
	size_t log_before;
};

static void begin(struct experiment *e)
{
	new_world(OTHER_CLASSES);
	e->op->prepare();
	(void)str_copy(e->before, sizeof(e->before), fake_summary());
	e->log_before = strlen(fake_log());
	fake_fault(FAKE_NO_FAULT, 0, 0);
}

static bool is_done(enum mh_status status)
{
	return status == MH_OK || status == MH_ALREADY;
}

static void learn_end(struct experiment *e, const struct operation *op)
{
	e->op = op;
	begin(e);
	assert_msg(is_done(e->op->perform()), "%s: %s", op->name, last_record());
	(void)str_copy(e->end, sizeof(e->end), fake_summary());
	assert_true(fake_cwd_is_root());
}

static void cut_fields(char *line, int n)
{
	for (char *p = line; *p != '\0'; p++) {
		if (*p == ' ' && --n == 0) {
			*p = '\0';
			return;
		}
	}
}

/* Is the mount that @line names in @summary? Its propagation only counts when nobody died. */
static bool has_mount(const char *summary, const char *line, bool exact)
{
	char wanted[700];
	size_t n = strcspn(line, "\n");
	const char *at;

	assert_true(n < sizeof(wanted));
	memcpy(wanted, line, n);
	wanted[n] = '\0';
	if (!exact) /* "mount PATH SOURCE FLAGS" */
		cut_fields(wanted, 4);
	at = strstr(summary, wanted);
	return at && (!exact || at[n] == '\n');
}

/* Every mount of @a must be in @b or in @c. */
static void assert_mounts_are_in(const char *a, const char *b, const char *c, bool exact)
{
	for (const char *line = a; *line != '\0'; line += strcspn(line, "\n") + 1)
		if (str_starts_with(line, "mount ") && !has_mount(b, line, exact) &&
		    !has_mount(c, line, exact))
			fail_msg("neither before nor after: %.*s", (int)strcspn(line, "\n"), line);
}

/* What is in both summaries, as a summary. */
static const char *common(const struct experiment *e)
{
	static char text[SUMMARY];
	size_t used = 0;

	text[0] = '\0';
	for (const char *line = e->before; *line != '\0'; line += strcspn(line, "\n") + 1)
		if (has_mount(e->end, line, true))
			used += (size_t)str_format(text + used, sizeof(text) - used, "%.*s\n",
						   (int)strcspn(line, "\n"), line);
	return text;
}

static bool mounts_differ(const char *a, const char *b)
{
	for (const char *line = a; *line != '\0'; line += strcspn(line, "\n") + 1)
		if (str_starts_with(line, "mount ") && !has_mount(b, line, false))
			return true;
	return false;
}

static void assert_counts_are_high_enough(void)
{
	const struct state_table *table = helper.state;
	uint32_t staged_mounts = 0, published_mounts = 0;

	for (const char *at = fake_summary(); *at != '\0'; at += strcspn(at, "\n") + 1) {
		staged_mounts += str_starts_with(at, "mount /srv/stage/") && !strstr(at, "/staging ");
		published_mounts += str_starts_with(at, "mount /srv/publish/");
	}
	assert_true(table->header.staged >= staged_mounts);
	assert_true(table->header.published >= published_mounts);
}

static const char *end_of_line(const char *line)
{
	const char *end = strchr(line, '\n');

	assert_non_null(end); /* no torn record */
	return end;
}

/* Each record carries the digest of the one before it. */
static void assert_trail_is_chain(const char *log)
{
	char wanted[2 * crypto_hash_sha256_BYTES + 1];

	memset(wanted, '0', sizeof(wanted) - 1);
	wanted[sizeof(wanted) - 1] = '\0';
	for (const char *line = log; *line != '\0'; line = end_of_line(line) + 1) {
		size_t n = (size_t)(end_of_line(line) - line);
		uint8_t digest[crypto_hash_sha256_BYTES];

		if (n < sizeof(wanted) || memcmp(line + n - strlen(wanted), wanted, strlen(wanted)) != 0)
			fail_msg("the chain is broken at: %.*s", (int)n, line);
		(void)crypto_hash_sha256(digest, (const unsigned char *)line, n);
		hex_encode(wanted, digest, sizeof(digest));
	}
	assert_null(strstr(log, "head=mismatch"));
}

/* No change without an intent; only cleaning up continues without, and says so. */
static void assert_trail(const struct experiment *e, bool died)
{
	const char *added = fake_log() + e->log_before;
	char intent[64];

	assert_trail_is_chain(fake_log());
	if (!mounts_differ(e->before, fake_summary()) && !mounts_differ(fake_summary(), e->before))
		return;
	(void)str_format(intent, sizeof(intent), "op=%s phase=intent", e->op->word);
	if (!strstr(added, intent) && (died || !strstr(added, "trail=degraded")))
		fail_msg("a change without an intent: %s", added);
}

static void assert_consistent(const struct experiment *e, bool died)
{
	const char *now = fake_summary();

	assert_mounts_are_in(now, e->before, e->end, !died);
	assert_mounts_are_in(common(e), now, now, !died);
	assert_counts_are_high_enough();
	assert_trail(e, died);
	assert_int_equal(fake_open_descriptors(), 0);
	assert_int_equal(fake_locks_held(), 0);
}

/* After whatever happened, the same request again must lead to the same end. */
static void repeat(const struct experiment *e, int call)
{
	enum mh_status status;

	fake_fault(FAKE_NO_FAULT, 0, 0);
	status = e->op->perform();
	assert_msg(is_done(status), "%s, call %d, repeated: %s", e->op->name, call, last_record());
	assert_string_equal(fake_summary(), e->end);
	assert_counts_are_high_enough();
	assert_trail_is_chain(fake_log());
}

static void fail_each_call(const struct operation *op, int sys_errno)
{
	static struct experiment e;
	enum mh_status status;

	learn_end(&e, op);
	for (int call = 1;; call++) {
		begin(&e);
		fake_fault(FAKE_FAIL, call, sys_errno);
		status = op->perform();
		if (!fake_fault_fired())
			return;
		if (is_done(status))
			assert_string_equal(fake_summary(), e.end);
		assert_consistent(&e, false);
		repeat(&e, call);
	}
}

static void kill_at_each_call(const struct operation *op, enum fake_fault fault)
{
	static struct experiment e;

	learn_end(&e, op);
	for (volatile int call = 1;; call++) {
		begin(&e);
		fake_fault(fault, call, 0);
		if (setjmp(fake_killed) == 0) {
			(void)op->perform();
			if (!fake_fault_fired())
				return;
		}
		fake_process_died();
		start_helper(OTHER_CLASSES);
		assert_consistent(&e, true);
		repeat(&e, call);
	}
}

static void sweep(enum fake_fault fault)
{
	static const int errors[] = {EIO, ENOMEM, EPERM, EBUSY, EINVAL, EAGAIN, ENOSPC, EINTR};

	for (volatile int old = 0; old < 2; old++) {
		fake_kernel_before_6_8(old == 1);
		for (volatile size_t op = 0; op < ARRAY_SIZE(operations); op++) {
			if (fault != FAKE_FAIL)
				kill_at_each_call(&operations[op], fault);
			for (volatile size_t i = 0; i < ARRAY_SIZE(errors) && fault == FAKE_FAIL; i++)
				fail_each_call(&operations[op], errors[i]);
		}
	}
	fake_kernel_before_6_8(false);
}

TEST_FIXTURE(failing_any_call_leaves_nothing_half_done, setup, teardown)
{
	sweep(FAKE_FAIL);
}

TEST_FIXTURE(dying_before_any_call_is_repaired_by_the_same_request, setup, teardown)
{
	sweep(FAKE_KILL_BEFORE);
}

TEST_FIXTURE(dying_after_any_call_is_repaired_by_the_same_request, setup, teardown)
{
	sweep(FAKE_KILL_AFTER);
}

/* The rows of the table of failures: what exists after a death, and what the next request says. */

/* Perform @op and die right after the @nth call @name; the next helper has started. */
static void die_after(const struct operation *op, const char *name, int nth)
{
	new_world(OTHER_CLASSES);
	op->prepare();
	fake_fault_in(FAKE_KILL_AFTER, name, nth);
	if (setjmp(fake_killed) == 0)
		(void)op->perform();
	assert_true(fake_fault_fired());
	fake_process_died();
	start_helper(OTHER_CLASSES);
}

/* The operations that are recorded under @word. */
static const struct operation *next_of(const char *word, const struct operation *after)
{
	const struct operation *op = after ? after + 1 : operations;

	for (; op < operations + ARRAY_SIZE(operations); op++)
		if (op->word && (!word || str_eq(op->word, word)) && !op->is_special)
			return op;
	return NULL;
}

#define FOR_EACH(op, word) for (const struct operation *op = next_of(word, NULL); op; op = next_of(word, op))

static int last_rmdir(const struct operation *op)
{
	if (op->prepare == left_by_plugin || op->prepare == published_by_plugin)
		return 3 + (op->prepare == published_by_plugin); /* notes; publish, staging, the volume */
	return str_eq(op->word, "unpublish") ? 5 : 1; /* slot, mark and its folder, note, allocation */
}

TEST_FIXTURE(killed_after_the_intent_record_nothing_exists_and_the_missing_result_shows, setup, teardown)
{
	static struct experiment e;

	FOR_EACH(op, NULL)
	{
		char phase[64];

		learn_end(&e, op);
		die_after(op, "fdatasync", 1);
		(void)str_format(phase, sizeof(phase), "op=%s phase=intent", op->word);
		ASSERT_RECORDED(phase);
		assert_string_equal(fake_summary(), e.before);
		assert_int_equal(op->perform(), MH_OK);
		ASSERT_RECORDED("phase=result");
		assert_string_equal(fake_summary(), e.end);
	}
}

TEST_FIXTURE(killed_after_mkdir_an_empty_directory_is_reused_or_removed, setup, teardown)
{
	static const char *const words[] = {"stage", "publish"};
	static struct experiment e;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		FOR_EACH(op, words[i])
		{
			const char *volume = op->perform == stage_block || op->perform == publish_block ||
							     op->perform == publish_plugins
						     ? "vol-1"
						     : "mem-1";

			learn_end(&e, op);
			die_after(op, "mkdirat", 1);
			assert_false(mounts_differ(fake_summary(), e.before));
			assert_true(strlen(fake_summary()) > strlen(e.before));
			assert_int_equal(op->perform(), MH_OK);
			assert_string_equal(fake_summary(), e.end);
			die_after(op, "mkdirat", 1);
			if (i == 0)
				ASSERT_REPLY(unstage(unstage_of(volume)), MH_OK);
			else
				ASSERT_REPLY(unpublish(unpublish_of(volume, 2)), MH_ALREADY);
			assert_string_equal(fake_summary(), e.before);
		}
	}
}

TEST_FIXTURE(killed_after_the_detached_mount_was_made_nothing_exists, setup, teardown)
{
	static const char *const rows[][2] = {{"stage", "fsmount"}, {"publish", "open_tree"}};
	static struct experiment e;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		FOR_EACH(op, rows[i][0])
		{
			learn_end(&e, op);
			die_after(op, rows[i][1], 1);
			assert_false(mounts_differ(fake_summary(), e.before));
			assert_int_equal(op->perform(), MH_OK);
			assert_string_equal(fake_summary(), e.end);
		}
	}
}

TEST_FIXTURE(killed_after_move_mount_the_mount_is_shared_until_the_repeat_sets_it, setup, teardown)
{
	static const char *const words[] = {"stage", "publish"};
	static struct experiment e;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		FOR_EACH(op, words[i])
		{
			learn_end(&e, op);
			die_after(op, "move_mount", 1);
			assert_true(mounts_differ(fake_summary(), e.before));
			assert_non_null(strstr(fake_summary(), " shared"));
			assert_int_equal(op->perform(), MH_ALREADY);
			assert_string_equal(fake_summary(), e.end);
		}
	}
}

TEST_FIXTURE(killed_before_the_result_record_it_is_done_and_recorded_by_the_repeat, setup, teardown)
{
	static const char *const words[] = {"stage", "publish"};
	static struct experiment e;

	for (int i = 0; i < 2; i++) {
		FOR_EACH(op, words[i])
		{
			learn_end(&e, op);
			die_after(op, "mount_setattr",
				  1 + i); /* a publish sets the flags of its clone first */
			assert_string_equal(fake_summary(), e.end);
			assert_null(strstr(last_record(), "phase=result"));
			assert_int_equal(op->perform(), MH_ALREADY);
			ASSERT_RECORDED("phase=result");
			ASSERT_RECORDED("status=already");
			assert_string_equal(fake_summary(), e.end);
		}
	}
}

TEST_FIXTURE(killed_after_umount_an_empty_directory_is_removed_by_the_repeat, setup, teardown)
{
	static const char *const words[] = {"unpublish", "unstage"};
	static struct experiment e;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		FOR_EACH(op, words[i])
		{
			learn_end(&e, op);
			die_after(op, "umount2", 1);
			assert_true(mounts_differ(e.before, fake_summary()));
			assert_true(strlen(fake_summary()) > strlen(e.end));
			assert_int_equal(op->perform(), MH_OK);
			assert_string_equal(fake_summary(), e.end);
		}
	}
}

TEST_FIXTURE(killed_after_rmdir_it_is_done, setup, teardown)
{
	static const char *const words[] = {"unpublish", "unstage"};
	static struct experiment e;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		FOR_EACH(op, words[i])
		{
			learn_end(&e, op);
			die_after(op, "rmdirat", last_rmdir(op));
			assert_string_equal(fake_summary(), e.end);
			assert_int_equal(op->perform(), MH_ALREADY);
			assert_string_equal(fake_summary(), e.end);
		}
	}
}

/* Perform @request and die right after call @call. False when there was no such call. */
static bool die_at_call(const void *request, size_t n, int call)
{
	bool fired;

	fake_fault(FAKE_KILL_AFTER, call, 0);
	if (setjmp(fake_killed) == 0)
		(void)run(request, n);
	fired = fake_fault_fired();
	fake_fault(FAKE_NO_FAULT, 0, 0);
	if (fired) {
		fake_process_died();
		start_helper("");
	}
	return fired;
}

TEST_FIXTURE(no_death_lets_a_published_volume_be_unstaged, setup, teardown)
{
	const struct mh_publish p = fixture_publish();
	const struct mh_unpublish u = fixture_unpublish();
	volatile bool publish_died = true;

	for (volatile int first = 1; publish_died; first++) {
		volatile bool unpublish_died = true;

		for (volatile int second = 1; unpublish_died; second++) {
			bool is_published;

			new_world("");
			ASSERT_REPLY(stage(fixture_stage()), MH_OK);
			publish_died = die_at_call(&p, sizeof(p), first);
			unpublish_died = die_at_call(&u, sizeof(u), second);
			is_published = fake_is_mount(PUBLISHED);
			ASSERT_REPLY(unstage(fixture_unstage()), is_published ? MH_BUSY : MH_OK);
			if (!is_published)
				continue;
			ASSERT_REPLY(unstage(fixture_unstage()), MH_BUSY);
			ASSERT_REPLY(unpublish(u), MH_OK);
			ASSERT_REPLY(unstage(fixture_unstage()), MH_OK);
		}
	}
}

/* By root, or by a death: the mount table and the marks decide. */
TEST_FIXTURE(a_note_of_no_publish_keeps_no_volume, setup, teardown)
{
	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	ASSERT_REPLY(publish(fixture_publish()), MH_OK);
	fake_unmount(PUBLISHED);
	ASSERT_REPLY(unstage(fixture_unstage()), MH_OK);
	ASSERT_REPLY(unpublish(fixture_unpublish()), MH_OK);
	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	ASSERT_REPLY(unstage(fixture_unstage()), MH_OK);
}

TEST_FIXTURE(no_death_leaves_a_volume_with_the_memory_of_another_source, setup, teardown)
{
	const struct mh_stage wanted = fixture_stage_tmpfs();
	struct mh_stage other = fixture_stage_tmpfs();
	struct mh_unstage u = unstage_of("mem-1");
	volatile bool first_died = true;

	other.source.u.tmpfs.inodes++;
	fixture_grant_stage(&other);
	for (volatile int first = 1; first_died; first++) {
		volatile bool second_died = true;

		for (volatile int second = 1; second_died; second++) {
			new_world("");
			ASSERT_REPLY(stage(wanted), MH_OK);
			first_died = die_at_call(&u, sizeof(u), first);
			second_died = die_at_call(&other, sizeof(other), second);
			/* this ticket is for the first source */
			if (publish(fixture_publish_tmpfs()).status == MH_OK)
				assert_int_equal(fake_inodes(MEMORY), wanted.source.u.tmpfs.inodes);
		}
	}
}

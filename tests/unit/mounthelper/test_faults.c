#include "workbench.h"

#include "base/str.h"

#include <errno.h>
#include <string.h>

enum operation_name { STAGE_BLOCK, STAGE_TMPFS, PUBLISH, UNPUBLISH, UNSTAGE, OPERATIONS };

static void prepare(enum operation_name op)
{
	new_world("");
	if (op == PUBLISH || op == UNPUBLISH || op == UNSTAGE)
		ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	if (op == UNPUBLISH)
		ASSERT_REPLY(publish(fixture_publish()), MH_OK);
}

static struct mh_reply perform(enum operation_name op)
{
	switch (op) {
	case STAGE_BLOCK:
		return stage(fixture_stage());
	case STAGE_TMPFS:
		return stage(fixture_stage_tmpfs());
	case PUBLISH:
		return publish(fixture_publish());
	case UNPUBLISH:
		return unpublish(fixture_unpublish());
	case UNSTAGE:
	case OPERATIONS:
		break;
	}
	return unstage(fixture_unstage());
}

static void describe_end(enum operation_name op, char *ret, size_t size)
{
	prepare(op);
	ASSERT_REPLY(perform(op), MH_OK);
	(void)str_copy(ret, size, fake_summary());
}

static int count_mounts(const char *summary)
{
	int n = 0;

	for (const char *at = summary; (at = strstr(at, "mount ")); at++)
		n++;
	return n;
}

/* After whatever happened, the same request again must lead to the same end. */
static void repeat(enum operation_name op, const char *end, int call)
{
	struct mh_reply reply;

	fake_fault(FAKE_NO_FAULT, 0, 0);
	reply = perform(op);
	if (reply.status != MH_OK && reply.status != MH_ALREADY)
		fail_msg("operation %d, call %d: repeated: %s", (int)op, call, last_record());
	assert_string_equal(fake_summary(), end);
}

static void failing_any_call_leaves_nothing_half_done(void **state)
{
	static const int errors[] = {EIO, ENOMEM, EPERM, EBUSY, EINVAL};
	char end[4096];
	char before[4096];

	(void)state;
	for (int op = 0; op < OPERATIONS; op++) {
		describe_end((enum operation_name)op, end, sizeof(end));
		for (size_t e = 0; e < ARRAY_SIZE(errors); e++) {
			for (int call = 1;; call++) {
				struct mh_reply reply;
				bool done;

				prepare((enum operation_name)op);
				(void)str_copy(before, sizeof(before), fake_summary());
				fake_fault(FAKE_FAIL, call, errors[e]);
				reply = perform((enum operation_name)op);
				if (!fake_fault_fired())
					break;
				done = reply.status == MH_OK || reply.status == MH_ALREADY;
				if (done)
					assert_string_equal(fake_summary(), end);
				else if (op == STAGE_BLOCK || op == STAGE_TMPFS || op == PUBLISH)
					/* the trees may keep an empty directory, and a whole mount only when
					 * what failed came after it */
					assert_true(count_mounts(fake_summary()) == count_mounts(before) ||
						    reply.step == STEP_STATE || reply.step == STEP_LOCK);
				assert_null(strstr(fake_summary(), "shared"));
				repeat((enum operation_name)op, end, call);
			}
		}
	}
}

static void sweep_kill(enum fake_fault fault)
{
	char end[4096];

	for (volatile int op = 0; op < OPERATIONS; op++) {
		describe_end((enum operation_name)op, end, sizeof(end));
		for (volatile int call = 1;; call++) {
			prepare((enum operation_name)op);
			fake_fault(fault, call, 0);
			if (setjmp(fake_killed) == 0) {
				(void)perform((enum operation_name)op);
				if (!fake_fault_fired())
					break;
			}
			fake_process_died();
			start_helper("");
			repeat((enum operation_name)op, end, call);
			assert_true(fake_cwd_is_root());
		}
	}
}

static void dying_before_any_call_is_repaired_by_the_same_request(void **state)
{
	(void)state;
	sweep_kill(FAKE_KILL_BEFORE);
}

static void dying_after_any_call_is_repaired_by_the_same_request(void **state)
{
	(void)state;
	sweep_kill(FAKE_KILL_AFTER);
}

/* Perform @request and die right after call @call. False when there was no such call. */
static bool die_in(const void *request, size_t n, int call)
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

static void no_death_leaves_a_volume_with_the_memory_of_another_source(void **state)
{
	const struct mh_stage wanted = fixture_stage_tmpfs();
	struct mh_stage other = fixture_stage_tmpfs();
	struct mh_unstage u = fixture_unstage();
	volatile bool first_died = true;

	(void)state;
	(void)str_copy(u.volume, MH_LABEL_SIZE, "mem-1");
	other.source.u.tmpfs.inodes++;
	fixture_grant_stage(&other);
	for (volatile int first = 1; first_died; first++) {
		volatile bool second_died = true;

		for (volatile int second = 1; second_died; second++) {
			new_world("");
			ASSERT_REPLY(stage(wanted), MH_OK);
			first_died = die_in(&u, sizeof(u), first);
			second_died = die_in(&other, sizeof(other), second);
			/* this ticket is for the first source */
			if (publish(fixture_publish_tmpfs()).status == MH_OK)
				assert_int_equal(fake_inodes("/srv/stage/mem-1"),
						 wanted.source.u.tmpfs.inodes);
		}
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(failing_any_call_leaves_nothing_half_done),
		TEST(dying_before_any_call_is_repaired_by_the_same_request),
		TEST(dying_after_any_call_is_repaired_by_the_same_request),
		TEST(no_death_leaves_a_volume_with_the_memory_of_another_source),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "mounthelper_words.h"
#include "unit.h"

#include "helper/end.h"
#include "helper/msg.h"

#define WORD(name, code, word, sentence) [name] = (word),
#define CODE(name, code, word, sentence) [name] = (code),
static const char *const words[START_N] = {MH_STARTS(WORD)};
static const int codes[START_N] = {MH_STARTS(CODE)};

static const char *tell(uint16_t word, int sys_errno, uint32_t number, const char *detail)
{
	static struct error err;
	struct mh_failure failure = {.word = word, .sys_errno = (uint16_t)sys_errno, .number = number};

	(void)snprintf(failure.detail, sizeof(failure.detail), "%s", detail);
	helper_end_describe_failure(&failure, &err);
	assert_int_equal(err.status, STATUS_UNAVAILABLE);
	assert_int_equal(err.sys_errno, sys_errno);
	return err.msg;
}

static const char *explain_exit(int code, const char *line)
{
	static struct error err;

	helper_end_describe_exit(5, code, line, &err);
	assert_int_equal(err.status, STATUS_UNAVAILABLE);
	return err.msg;
}

TEST(every_word_is_reported_with_its_sentence)
{
	char expected[64];

	for (int i = 1; i < START_N; i++) {
		const char *msg = tell((uint16_t)i, 0, 0, "");

		(void)snprintf(expected, sizeof(expected), "the mount helper does not start: %s: ", words[i]);
		assert_memory_equal(msg, expected, strlen(expected));
		assert_true(strlen(msg) > strlen(expected) + 20);
	}
	assert_non_null(strstr(tell(START_NOT_PRIVILEGED, 0, 0, ""),
			       "no_new_privs is set, most likely by RestrictNamespaces="));
	assert_non_null(strstr(tell(START_NOT_PRIVILEGED, 0, 0, ""), "use launch mode socket"));
}

TEST(every_fault_of_the_trail_is_reported_with_its_sentence)
{
	assert_null(helper_end_trail_fault(TRAIL_GOOD));
	assert_null(helper_end_trail_fault(TRAIL_N));
	for (enum mh_trail i = TRAIL_GOOD + 1; i < TRAIL_N; i++)
		assert_true(strlen(strchr(helper_end_trail_fault(i), ':')) > 20);
}

TEST(the_number_and_the_detail_are_filled_in)
{
	assert_non_null(strstr(tell(START_LIMIT, EPERM, 1024, "nofile"),
			       "limit: nofile: the hard limit named is 1024 and cannot be raised without "
			       "CAP_SYS_RESOURCE"));
	assert_non_null(strstr(tell(START_INSTANCES, 0, UINT32_MAX, ""),
			       "instances: 4294967295 instances run already"));
	/* only where it stands alone */
	assert_non_null(strstr(tell(START_LOCKDOWN, 0, 7, ""), "CAP_SETPCAP, CAP_SYS_ADMIN"));
}

TEST(a_word_of_another_release_is_a_number)
{
	assert_non_null(strstr(tell(START_N, 0, 0, ""), "number"));
	assert_non_null(strstr(tell(UINT16_MAX, 0, 0, ""), "number 65535"));
	assert_non_null(strstr(tell(START_OK, 0, 0, ""), "number 0"));
}

TEST(an_exit_code_alone_is_explained)
{
	assert_string_equal(explain_exit(1, ""), "the mount helper (pid 5) ended with exit code 1");
	assert_string_equal(explain_exit(1, "line"), "the mount helper (pid 5) ended with exit code 1: line");
	assert_non_null(strstr(explain_exit(71, "not-privileged"),
			       "exit code 71: not-privileged: neither the setuid"));
	assert_non_null(strstr(explain_exit(76, ""), "one of: state, instances, start-rate"));
	for (int i = 1; i < START_N; i++)
		assert_non_null(strstr(explain_exit(codes[i], ""), ": "));
	for (int code = MH_EXIT_VIOLATION; code <= MH_EXIT_ASSERTION; code++)
		assert_non_null(strstr(explain_exit(code, ""), ": it "));
}

TEST(only_a_whole_failure_is_one)
{
	struct mh_failure failure = {.header = ROW(.magic = MH_MAGIC, .version = MH_VERSION,
						   .op = MH_OP_FAILURE, .length = sizeof(failure)),
				     .word = START_STATE,
				     .detail = "/var/log/x"};
	struct mh_failure got, broken = failure;

	assert_true(helper_failure_check(&failure, sizeof(failure), &got));
	assert_memory_equal(&got, &failure, sizeof(got));
	assert_false(helper_failure_check(&failure, sizeof(failure) - 1, &got));
	broken.header.op = MH_OP_HELLO;
	assert_false(helper_failure_check(&broken, sizeof(broken), &got));
	broken = failure;
	broken.detail[2] = '\n';
	assert_false(helper_failure_check(&broken, sizeof(broken), &got));
	broken = failure;
	broken.detail[sizeof(broken.detail) - 1] = 'x';
	assert_false(helper_failure_check(&broken, sizeof(broken), &got));
}

TEST(the_step_of_a_failed_operation_is_a_word)
{
	struct mh_reply reply = {
		.header.op = MH_OP_STAGE, .status = MH_KERNEL, .step = STEP_FSMOUNT, .record = 3};
	struct error err;

	(void)helper_reply_outcome(&reply, "volume db", &err);
	assert_non_null(strstr(err.msg, "step fsmount, record 3"));
	reply.step = STEP_N;
	(void)helper_reply_outcome(&reply, "volume db", &err);
	assert_non_null(strstr(err.msg, "step unknown, record 3"));
}

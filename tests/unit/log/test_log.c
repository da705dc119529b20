/* SPDX-License-Identifier: Apache-2.0 */
/* Where lines go, how many, and what an entry of the journal holds. */

#include "unit.h"

#include "base/fd.h"
#include "log/log.h"
#include "log/rate.h"

#include <sys/uio.h>

enum { CAPTURE_MAX = 1 << 20 };

/* --- models: the clocks and journald --- */

static struct {
	uint64_t now_us;
	int journal_result, n_entries;
	char entry[20000]; /* the last one, a field a line */
} fake;

WRAPPED(int64_t, clock_realtime_ms, void)
{
	return 0;
}

WRAPPED(uint64_t, clock_monotonic_us, void)
{
	return fake.now_us;
}

WRAPPED(int, sd_journal_sendv, const struct iovec *fields, int n)
{
	size_t used = 0;

	fake.n_entries++;
	for (int i = 0; i < n; i++) {
		int len = str_format(fake.entry + used, sizeof(fake.entry) - used, "%.*s\n",
				     (int)fields[i].iov_len, (const char *)fields[i].iov_base);

		assert_true(len > 0);
		used += (size_t)len;
	}
	return fake.journal_result;
}

/* --- fixture: standard error is a file --- */

struct capture {
	int saved_fd;
	FILE *file;
};

UNIT_SETUP(capture_setup, struct capture, c)
{
	c->saved_fd = dup(STDERR_FILENO);
	c->file = NON_NULL(tmpfile());
	assert_true(dup2(fileno(c->file), STDERR_FILENO) >= 0);
	/* beyond the window of whatever was logged before */
	fake.now_us += 2 * (uint64_t)LOG_RATE_WINDOW_US;
	fake.journal_result = 0;
	fake.n_entries = 0;
	fake.entry[0] = '\0';
	assert_int_equal(unsetenv("JOURNAL_STREAM"), 0);
	log_init("test", LOG_INFO);
}

UNIT_TEARDOWN(capture_teardown, struct capture, c)
{
	assert_true(dup2(c->saved_fd, STDERR_FILENO) >= 0);
	(void)close(c->saved_fd);
	(void)fclose(c->file);
}

/* What was written to standard error so far; free(). */
static char *captured(struct capture *c)
{
	char *text = NULL;

	assert_int_equal(lseek(fileno(c->file), 0, SEEK_SET), 0);
	assert_int_equal(fd_read_all(fileno(c->file), CAPTURE_MAX, &text, NULL), 0);
	return text;
}

static void pretend_journal(void)
{
	char stream[64];
	struct stat st;

	assert_int_equal(fstat(STDERR_FILENO, &st), 0);
	(void)str_format(stream, sizeof(stream), "%llu:%llu", (unsigned long long)st.st_dev,
			 (unsigned long long)st.st_ino);
	assert_int_equal(setenv("JOURNAL_STREAM", stream, 1), 0);
	log_init("test", LOG_INFO);
}

#define TS "ts=1970-01-01T00:00:00.000Z"

TEST_FIXTURE(a_line_goes_to_standard_error, capture_setup, capture_teardown)
{
	const struct error err = {.status = STATUS_NOT_FOUND, .sys_errno = ENOENT, .msg = "volume db: gone"};
	cleanup_free char *text = NULL;

	log_ctx(LOG_WARNING, &(struct log_ctx){.volume = "db", .err = &err}, "stage %d failed", 3);
	log_line(LOG_INFO, "plain");
	text = captured(*state);
	assert_string_equal(text,
			    TS " level=warning ident=test msg=\"stage 3 failed: volume db: gone\" volume=db "
			       "status=NOT_FOUND errno=2\n" TS " level=info ident=test msg=plain\n");
	assert_int_equal(fake.n_entries, 0);
}

/* Where journald knows the unit after the process has ended, and with its level. */
TEST_FIXTURE(the_last_line_goes_by_the_stream_of_the_unit, capture_setup, capture_teardown)
{
	const struct error err = {.status = STATUS_DATA_LOSS, .msg = "store x: damaged\nnext"};
	cleanup_free char *text = NULL;

	log_last("test", &err);
	pretend_journal();
	log_last("test", &err);
	text = captured(*state);
	assert_string_equal(text, "test: store x: damaged\\nnext\n<3>store x: damaged\\nnext\n");
	assert_int_equal(fake.n_entries, 0);
}

TEST_FIXTURE(a_line_that_names_no_node_is_about_ones_own, capture_setup, capture_teardown)
{
	cleanup_free char *text = NULL;

	log_set_node("worker-1");
	log_line(LOG_INFO, "mine");
	log_ctx(LOG_INFO, &(struct log_ctx){.node = "worker-2"}, "another's");
	log_set_node(NULL);
	log_line(LOG_INFO, "nobody's");
	text = captured(*state);
	assert_string_equal(text, TS " level=info ident=test msg=mine node=worker-1\n" TS
				     " level=info ident=test msg=\"another's\" node=worker-2\n" TS
				     " level=info ident=test msg=\"nobody's\"\n");
}

TEST_FIXTURE(lines_above_the_priority_are_dropped_uncounted, capture_setup, capture_teardown)
{
	cleanup_free char *text = NULL;

	for (int i = 0; i < 2 * LOG_RATE_LINES; i++)
		log_line(LOG_DEBUG, "noise");
	log_line(LOG_INFO, "signal");
	text = captured(*state);
	assert_string_equal(text, TS " level=info ident=test msg=signal\n");
}

static int count_lines(const char *text)
{
	int n = 0;

	for (; *text != '\0'; text++)
		n += *text == '\n';
	return n;
}

/* Line @i of a flood about many things. */
static void log_flood(int i)
{
	static const char *const plugins[] = {"a", "b", "c"};

	log_ctx(LOG_INFO, &(struct log_ctx){.plugin = plugins[i % 3]}, "line");
}

TEST_FIXTURE(at_most_200_lines_a_second_are_written_and_the_rest_is_counted, capture_setup, capture_teardown)
{
	cleanup_free char *before = NULL;
	cleanup_free char *after = NULL;
	const char *tail;

	for (int i = 0; i < LOG_RATE_LINES + 55; i++)
		log_flood(i);
	fake.now_us += LOG_RATE_WINDOW_US - 1;
	log_line(LOG_INFO, "too early");
	before = captured(*state);
	assert_int_equal(count_lines(before), LOG_RATE_LINES);
	fake.now_us += 1;
	log_line(LOG_INFO, "again");
	log_line(LOG_INFO, "and again");
	after = captured(*state);
	tail = after + strlen(before);
	assert_string_equal(
		tail, TS " level=warning ident=test msg=\"56 log lines dropped, more than 200 a second, or "
			 "100 about one thing\"\n" TS " level=info ident=test msg=again\n" TS
			 " level=info ident=test msg=\"and again\"\n");
}

TEST_FIXTURE(a_flood_about_one_thing_does_not_hide_the_others, capture_setup, capture_teardown)
{
	cleanup_free char *text = NULL;

	for (int i = 0; i < 1000; i++)
		log_ctx(LOG_WARNING, &(struct log_ctx){.plugin = "mad", .event = LOG_EVENT_PLUGIN_UNHEALTHY},
			"plugin is not healthy");
	log_ctx(LOG_ERR, &(struct log_ctx){.volume = "db", .event = LOG_EVENT_MOUNT_DIFFERS}, "not what");
	log_ctx(LOG_WARNING, &(struct log_ctx){.plugin = "sane", .event = LOG_EVENT_PLUGIN_UNHEALTHY}, "too");
	log_ctx(LOG_NOTICE, &(struct log_ctx){.plugin = "mad", .event = LOG_EVENT_PLUGIN_GONE}, "gone");
	text = captured(*state);
	assert_int_equal(count_lines(text), LOG_RATE_SHARE + 4); /* and the one that says so */
	assert_non_null(strstr(text, "msg=\"not what\" volume=db event=mount-differs result=failed\n"));
	assert_non_null(strstr(text, "msg=too plugin=sane "));
	assert_non_null(strstr(text, "msg=gone plugin=mad "));
}

TEST_FIXTURE(an_overlong_line_is_cut_but_stays_one_line, capture_setup, capture_teardown)
{
	static char word[20000];
	cleanup_free char *text = NULL;

	memset(word, 'x', sizeof(word) - 1);
	log_ctx(LOG_INFO, &(struct log_ctx){.volume = word}, "%s", word);
	text = captured(*state);
	assert_int_equal(count_lines(text), 1);
	assert_int_equal(text[strlen(text) - 1], '\n');
	assert_true(strlen(text) <= 8192);
}

TEST_FIXTURE(the_journal_gets_fields, capture_setup, capture_teardown)
{
	const struct error err = {.status = STATUS_ABORTED, .sys_errno = EBUSY, .msg = "busy"};
	const struct log_ctx ctx =
		ROW(.volume = "v", .wire_volume = "w", .alloc = "a", .node = "n", .claim = "c", .plugin = "p",
		    .driver = "d", .unit = "u", .op = "stage", .peer = "uid:1", .evidence = "receipt",
		    .relayed = "r", .relayed_reason = "none", .record = 9, .generation = 7,
		    .event = LOG_EVENT_CLAIM_REFUSED, .err = &err);
	char expected[1024];
	cleanup_free char *text = NULL;

	pretend_journal();
	log_ctx(LOG_ERR, &ctx, "stage");
	(void)str_format(expected, sizeof(expected), /* 5: that of the event */
			 "PRIORITY=5\nMESSAGE=stage: busy\nSYSLOG_IDENTIFIER=test\n"
			 "HOLDFAST_VOLUME=v\nHOLDFAST_WIRE_VOLUME=w\nHOLDFAST_ALLOC=a\nHOLDFAST_NODE=n\n"
			 "HOLDFAST_CLAIM=c\nHOLDFAST_PLUGIN=p\nHOLDFAST_DRIVER=d\nHOLDFAST_UNIT=u\nHOLDFAST_"
			 "OP=stage\nHOLDFAST_PEER=uid:1\n"
			 "HOLDFAST_EVIDENCE=receipt\nHOLDFAST_RELAYED=r\nHOLDFAST_REASON=none\n"
			 "HOLDFAST_EVENT=claim-refused\nMESSAGE_ID=%s\n"
			 "HOLDFAST_RESULT=failed\nHOLDFAST_GENERATION=7\nHOLDFAST_RECORD=9\nHOLDFAST_STATUS="
			 "ABORTED\nERRNO=16\n",
			 log_event_info(LOG_EVENT_CLAIM_REFUSED)->id);
	assert_string_equal(fake.entry, expected);
	text = captured(*state);
	assert_string_equal(text, "");
}

TEST_FIXTURE(a_value_cannot_forge_a_field_of_the_journal, capture_setup, capture_teardown)
{
	pretend_journal();
	log_ctx(LOG_INFO, &(struct log_ctx){.volume = "v\nHOLDFAST_NODE=other"}, "a\nb");
	assert_string_equal(fake.entry, "PRIORITY=6\nMESSAGE=a\\nb\nSYSLOG_IDENTIFIER=test\n"
					"HOLDFAST_VOLUME=v\\nHOLDFAST_NODE=other\n");
}

TEST_FIXTURE(fields_without_room_are_left_out, capture_setup, capture_teardown)
{
	static char word[9000];

	memset(word, 'x', sizeof(word) - 1);
	pretend_journal();
	log_ctx(LOG_INFO, &(struct log_ctx){.volume = word, .alloc = word, .node = word}, "m");
	assert_int_equal(fake.n_entries, 1);
	assert_int_equal(count_lines(fake.entry), 5); /* volume whole, alloc cut short, no node */
	assert_non_null(strstr(fake.entry, "MESSAGE=m\n"));
}

TEST_FIXTURE(a_journal_that_fails_is_replaced_by_standard_error, capture_setup, capture_teardown)
{
	cleanup_free char *text = NULL;

	pretend_journal();
	fake.journal_result = -ENOTCONN;
	log_line(LOG_INFO, "still told");
	text = captured(*state);
	assert_string_equal(text, TS " level=info ident=test msg=\"still told\"\n");
}

TEST(only_the_journals_own_stream_counts)
{
	static const struct {
		const char *stream;
		bool expected;
	} cases[] = {
		{"8:12345", true},
		{NULL, false},
		{"", false},
		{"8", false},
		{":", false},
		{"8:", false},
		{":12345", false},
		{"9:12345", false},
		{"8:12346", false},
		{"8:12345 ", false},
		{" 8:12345", false},
		{"8:12345:1", false},
		{"+8:12345", false},
		{"0x8:12345", false},
		{"8:18446744073709551616", false},
		{"00000000000000000000000000000000000008:12345", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(log_stream_is_journal(cases[i].stream, 8, 12345), cases[i].expected);
	assert_true(
		log_stream_is_journal("18446744073709551615:18446744073709551615", UINT64_MAX, UINT64_MAX));
}

/* Asking is free until it is refused, which counts as a line that was dropped. */
TEST(a_rate_query_predicts_dropped_lines)
{
	struct log_rate rate = {0};

	for (unsigned int i = 0; i < LOG_RATE_SHARE; i++) {
		assert_false(log_rate_refuse(&rate, 7, 5000000));
		assert_true(log_rate_admit(&rate, 7, 5000000));
	}
	assert_true(log_rate_refuse(&rate, 7, 5000000));
	assert_false(log_rate_refuse(&rate, 8, 5000000));
	assert_int_equal(log_rate_take_dropped(&rate), 1);
	assert_false(log_rate_refuse(&rate, 7, 6000000));
	assert_int_equal(log_rate_take_dropped(&rate), 0);
}

TEST(the_rate_is_counted_in_windows)
{
	struct log_rate rate = {0};

	for (unsigned int i = 0; i < LOG_RATE_LINES; i++)
		assert_true(log_rate_admit(&rate, i, 5000000));
	assert_false(log_rate_admit(&rate, 0, 5000000));
	assert_false(log_rate_admit(&rate, 1, 5999999));
	assert_int_equal(log_rate_take_dropped(&rate), 2);
	assert_int_equal(log_rate_take_dropped(&rate), 0);
	assert_true(log_rate_admit(&rate, 0, 6000000));
}

TEST(one_subject_has_its_share_of_each_window)
{
	struct log_rate rate = {0};

	for (int window = 1; window <= 2; window++) {
		uint64_t now_us = (uint64_t)window * LOG_RATE_WINDOW_US;

		for (int i = 0; i < LOG_RATE_SHARE; i++)
			assert_true(log_rate_admit(&rate, 7, now_us));
		assert_false(log_rate_admit(&rate, 7, now_us));
		assert_false(log_rate_admit(&rate, 7 + LOG_RATE_SUBJECTS, now_us)); /* shares with 7 */
		assert_true(log_rate_admit(&rate, 8, now_us));
		assert_int_equal(log_rate_take_dropped(&rate), 2);
	}
}

TEST(a_log_subject_is_the_event_and_the_first_name)
{
	const struct log_ctx about = {
		.event = LOG_EVENT_CLAIM_REFUSED, .node = "n1", .volume = "a", .peer = "p"};
	struct log_ctx other = about;

	other.volume = "b"; /* one node cannot have a share for each volume that it names */
	other.peer = "q";
	assert_int_equal(log_subject(&about), log_subject(&other));
	other.node = "n2";
	assert_int_not_equal(log_subject(&about), log_subject(&other));
	other.node = "n1";
	other.event = LOG_EVENT_CLAIM_GRANTED;
	assert_int_not_equal(log_subject(&about), log_subject(&other));
	assert_int_equal(log_subject(NULL), log_subject(&(struct log_ctx){.op = "x"}));
	assert_true(log_subject(&about) < LOG_RATE_SUBJECTS);
}

TEST_FIXTURE(a_dry_run_may_ignore_unwanted_lines, capture_setup, capture_teardown)
{
	assert_true(log_would_drop(LOG_DEBUG, NULL));
	assert_false(log_would_drop(LOG_INFO, NULL));
	for (int i = 0; i < LOG_RATE_SHARE; i++)
		log_line(LOG_INFO, "x");
	assert_true(log_would_drop(LOG_INFO, NULL));
}

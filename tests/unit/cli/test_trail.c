/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "audit/trail.h"
#include "base/parse.h"
#include "base/strbuf.h"

#include <openssl/evp.h>

enum { LINES = 6 };

/* A trail of @n good lines, written as the helper writes them. */
struct trail {
	char lines[LINES][256];
	int n;
	char prev[TRAIL_HASH_SIZE];
};

static void hash(const char *line, char ret[static TRAIL_HASH_SIZE])
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned int n = 0;

	assert_int_equal(EVP_Digest(line, strlen(line), digest, &n, EVP_sha256(), NULL), 1);
	hex_encode(ret, digest, n);
}

static void add(struct trail *trail, unsigned int rec, const char *middle)
{
	char *line = trail->lines[trail->n++];

	assert_true(str_format(line, sizeof(trail->lines[0]),
			       "ts=2025-01-31T12:00:0%u.000Z rec=%u cluster=c node=n1 %s prev=%s", rec % 10,
			       rec, middle, trail->prev) > 0);
	hash(line, trail->prev);
}

static struct trail good_trail(void)
{
	struct trail trail = {.n = 0};

	memset(trail.prev, '0', TRAIL_HASH_SIZE - 1);
	for (unsigned int i = 1; i <= LINES; i++)
		add(&trail, i, "op=stage phase=intent seq=7 vol=db");
	return trail;
}

static struct trail_check check_lines(char lines[][256], int n, bool rotated, const char *head)
{
	struct trail_check check = TRAIL_CHECK_INIT(rotated, head);

	for (int i = 0; i < n; i++)
		trail_check_line(&check, lines[i], strlen(lines[i]), true);
	trail_check_end(&check);
	return check;
}

static void expect_fault(const struct trail_check *check, enum trail_fault fault, uint64_t line)
{
	assert_string_equal(trail_fault_text(check->fault), trail_fault_text(fault));
	assert_int_equal(check->fault_line, line);
	assert_true(check->faults > 0);
}

TEST(a_good_trail_is_intact_and_has_the_head_of_its_last_line)
{
	struct trail trail = good_trail();
	struct trail_check check = check_lines(trail.lines, LINES, false, trail.prev);

	assert_int_equal(check.faults, 0);
	assert_int_equal(check.records, LINES);
	assert_int_equal(check.torn, 0);
	assert_string_equal(check.head, trail.prev);
}

TEST(an_empty_trail_is_intact_and_has_the_head_of_the_beginning)
{
	struct trail_check check = check_lines(NULL, 0, false, NULL);

	assert_int_equal(check.faults, 0);
	assert_int_equal(strspn(check.head, "0"), TRAIL_HASH_SIZE - 1);
	check = check_lines(NULL, 0, false, good_trail().prev);
	expect_fault(&check, TRAIL_HEAD, 0);
}

TEST(a_head_that_was_kept_is_found_in_a_trail_that_has_grown)
{
	struct trail trail = good_trail();

	for (int i = 0; i < LINES; i++) {
		struct trail_check check;
		char head[TRAIL_HASH_SIZE];

		hash(trail.lines[i], head);
		check = check_lines(trail.lines, LINES, false, head);
		assert_int_equal(check.faults, 0);
		check = check_lines(trail.lines, i, false, head);
		expect_fault(&check, TRAIL_HEAD, (uint64_t)i);
	}
}

/* Every edit of one byte of every line shows: in the line after it, or against the head for the last one. */
TEST(every_edit_of_a_byte_shows)
{
	const struct trail good = good_trail();

	for (int i = 0; i < LINES; i++) {
		for (size_t k = 0; k < strlen(good.lines[i]); k++) {
			struct trail trail = good;
			struct trail_check check;

			trail.lines[i][k] ^= 1;
			check = check_lines(trail.lines, LINES, false, good.prev);
			assert_msg(check.faults != 0, "byte %zu of line %d", k, i + 1);
			assert_msg(check.fault_line <= (uint64_t)i + 2,
				   "byte %zu of line %d shows in line %d", k, i + 1, (int)check.fault_line);
		}
	}
}

TEST(every_deleted_line_shows_and_the_last_one_by_the_head)
{
	for (int i = 0; i < LINES; i++) {
		struct trail trail = good_trail();
		struct trail_check check;

		memmove(trail.lines[i], trail.lines[i + 1], sizeof(trail.lines[0]) * (size_t)(LINES - 1 - i));
		check = check_lines(trail.lines, LINES - 1, false, trail.prev);
		if (i == 0)
			expect_fault(&check, TRAIL_START, 1);
		else if (i == LINES - 1)
			expect_fault(&check, TRAIL_HEAD, LINES - 1);
		else
			expect_fault(&check, TRAIL_CHANGED, (uint64_t)i + 1);
		check = check_lines(trail.lines, LINES - 1, false, NULL);
		assert_int_equal(check.faults == 0, i == LINES - 1); /* only the head tells of the end */
	}
}

TEST(two_swapped_lines_show)
{
	for (int i = 0; i + 1 < LINES; i++) {
		struct trail trail = good_trail();
		struct trail_check check;
		char other[256];

		memcpy(other, trail.lines[i], sizeof(other));
		memcpy(trail.lines[i], trail.lines[i + 1], sizeof(other));
		memcpy(trail.lines[i + 1], other, sizeof(other));
		check = check_lines(trail.lines, LINES, false, NULL);
		expect_fault(&check, i == 0 ? TRAIL_START : TRAIL_CHANGED, (uint64_t)i + 1);
	}
}

TEST(a_line_put_in_shows_in_itself_or_the_next_one)
{
	static const char *const extras[] = {
		("ts=2025-01-31T12:00:00.000Z rec=3 op=stage "
		 "prev=0000000000000000000000000000000000000000000000000000000000000000"),
		"garbage",
		"",
	};

	for (size_t i = 0; i < ARRAY_SIZE(extras); i++) {
		struct trail trail = good_trail();
		struct trail_check check = TRAIL_CHECK_INIT(false, trail.prev);

		for (int k = 0; k < LINES; k++) {
			trail_check_line(&check, trail.lines[k], strlen(trail.lines[k]), true);
			if (k == 1)
				trail_check_line(&check, extras[i], strlen(extras[i]), true);
		}
		trail_check_end(&check);
		expect_fault(&check, TRAIL_CHANGED, i == 0 ? 3 : 4);
	}
}

TEST(every_cut_of_the_last_line_shows)
{
	struct trail trail = good_trail();
	size_t length = strlen(trail.lines[LINES - 1]);

	for (size_t n = 1; n <= length; n++) {
		struct trail_check check = TRAIL_CHECK_INIT(false, NULL);
		char cut[256];

		for (int k = 0; k + 1 < LINES; k++)
			trail_check_line(&check, trail.lines[k], strlen(trail.lines[k]), true);
		(void)str_format(cut, sizeof(cut), "%.*s", (int)n, trail.lines[LINES - 1]);
		trail_check_line(&check, cut, n, false);
		trail_check_end(&check);
		assert_int_equal(check.faults > 0, 1);
		assert_int_equal(check.fault_line, LINES);
	}
}

/* As the helper repairs it: the torn line gets its newline, the next record its hash. */
TEST(a_line_torn_by_a_crash_is_reported_but_no_fault)
{
	struct trail whole = {.n = 0};
	size_t length;

	memset(whole.prev, '0', TRAIL_HASH_SIZE - 1);
	add(&whole, 1, "op=start phase=event seq=0");
	add(&whole, 2, "op=stage phase=intent seq=1");
	add(&whole, 3, "op=stage phase=result seq=1");
	length = strlen(whole.lines[2]);
	for (size_t cut = 1; cut <= length; cut++) {
		struct trail trail = whole;
		struct trail_check check;

		trail.lines[2][cut] = '\0';
		hash(trail.lines[2], trail.prev);
		add(&trail, cut == length ? 4 : 3, "op=start phase=event seq=0");
		check = check_lines(trail.lines, trail.n, false, trail.prev);
		assert_msg(!check.faults, "%s: line %d: %s", trail.lines[2], (int)check.fault_line,
			   trail_fault_text(check.fault));
		assert_int_equal(check.torn, cut < length);
		assert_int_equal(check.records, cut < length ? 3 : 4);
	}
}

TEST(a_torn_number_does_not_count)
{
	static const char torn[] = "ts=2025-01-31T12:00:03.000Z rec=2 cluster=c";
	struct trail trail = {.n = 0};
	struct trail_check check;

	memset(trail.prev, '0', TRAIL_HASH_SIZE - 1);
	add(&trail, 1, "op=start phase=event seq=0");
	(void)str_copy(trail.lines[trail.n++], sizeof(trail.lines[0]), torn);
	hash(torn, trail.prev);
	add(&trail, 3, "op=stage phase=intent seq=0");
	check = check_lines(trail.lines, trail.n, false, NULL);
	expect_fault(&check, TRAIL_GAP, 3);
}

static struct trail_check check_files(char first[][256], int n_first, char second[][256], int n_second,
				      const char *head)
{
	struct trail_check check = TRAIL_CHECK_INIT(false, head);

	for (int i = 0; i < n_first; i++)
		trail_check_line(&check, first[i], strlen(first[i]), true);
	trail_check_next_file(&check);
	for (int i = 0; i < n_second; i++)
		trail_check_line(&check, second[i], strlen(second[i]), true);
	trail_check_end(&check);
	return check;
}

TEST(a_chain_continues_in_the_next_file)
{
	for (int cut = 0; cut <= LINES; cut++) {
		struct trail trail = good_trail();
		struct trail_check check =
			check_files(trail.lines, cut, trail.lines + cut, LINES - cut, trail.prev);

		assert_msg(!check.faults, "cut after %d: file %zu line %d: %s", cut, check.fault_file,
			   (int)check.fault_line, trail_fault_text(check.fault));
		assert_int_equal(check.records, LINES);
	}
}

TEST(a_record_that_is_missing_between_two_files_shows)
{
	for (int cut = 1; cut + 1 < LINES; cut++) {
		struct trail trail = good_trail();
		struct trail_check check =
			check_files(trail.lines, cut, trail.lines + cut + 1, LINES - cut - 1, trail.prev);

		expect_fault(&check, TRAIL_JOINT, 1);
		assert_int_equal(check.fault_file, 1);
		check = check_files(trail.lines, LINES, trail.lines, LINES, trail.prev); /* twice the same */
		expect_fault(&check, TRAIL_JOINT, 1);
	}
}

/* A helper that had not been replaced yet wrote to the old file after the new one was begun. */
TEST(records_after_the_joint_must_mention_the_move)
{
	static const struct {
		const char *last;
		enum trail_fault fault;
	} cases[] = {
		{"op=stop phase=event head=moved", TRAIL_INTACT},
		{"op=stop phase=event head=other", TRAIL_JOINT},
		{"op=stop phase=event", TRAIL_JOINT},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct trail old = {.n = 0};
		struct trail young = {.n = 0};
		struct trail joined;
		struct trail_check check;

		memset(old.prev, '0', TRAIL_HASH_SIZE - 1);
		add(&old, 1, "op=start phase=event");
		add(&old, 2, "op=stage phase=intent");
		memcpy(young.prev, old.prev, sizeof(young.prev));
		add(&old, 3, cases[i].last);
		add(&old, 4, "op=stop phase=event head=moved");
		add(&young, 3, "op=start phase=event head=rotated");
		add(&young, 4, "op=stop phase=event");
		joined = old;
		memcpy(joined.lines[old.n], young.lines, sizeof(young.lines[0]) * (size_t)young.n);
		check = check_lines(joined.lines, LINES, false, young.prev); /* both in one file */
		assert_int_equal(check.fault, cases[i].fault == TRAIL_INTACT ? TRAIL_INTACT : TRAIL_CHANGED);
		check = check_files(old.lines, old.n, young.lines, young.n, young.prev);
		assert_int_equal(check.fault, cases[i].fault);
		assert_int_equal(check.fault_line, cases[i].fault == TRAIL_INTACT ? 0 : 1);
		trail_check_next_file(&check); /* one more, after a file without such records */
		add(&young, 5, "op=start phase=event head=rotated");
		trail_check_line(&check, young.lines[2], strlen(young.lines[2]), true);
		assert_int_equal(check.fault, cases[i].fault);
	}
}

/* Root spoils it; a death between newline and record leaves the same. */
TEST(a_last_line_that_is_no_record_is_a_fault)
{
	struct trail trail = good_trail();
	struct trail_check check;

	trail.lines[LINES - 1][40] = '\0';
	check = check_lines(trail.lines, LINES, false, NULL);
	expect_fault(&check, TRAIL_UNVOUCHED, LINES);
	assert_int_equal(check.faults, 1);
	check = check_files(trail.lines, LINES, NULL, 0, NULL); /* rotated since */
	expect_fault(&check, TRAIL_UNVOUCHED, 0);
}

TEST(a_spoiled_line_after_the_joint_is_a_fault_in_one_file_and_in_two)
{
	struct trail trail = {.n = 0};
	struct trail_check check;
	char joint[TRAIL_HASH_SIZE];

	memset(trail.prev, '0', TRAIL_HASH_SIZE - 1);
	add(&trail, 1, "op=start phase=event");
	memcpy(joint, trail.prev, sizeof(joint));
	add(&trail, 2, "op=stage phase=event head=moved");
	(void)str_copy(trail.lines[trail.n++], sizeof(trail.lines[0]), "ts=2025-01-31T12:00:00.000Z");
	memcpy(trail.prev, joint, sizeof(joint));
	add(&trail, 2, "op=start phase=event head=rotated");
	check = check_lines(trail.lines, trail.n, false, trail.prev);
	expect_fault(&check, TRAIL_UNVOUCHED, 4);
	check = check_files(trail.lines, 3, &trail.lines[3], 1, trail.prev);
	expect_fault(&check, TRAIL_UNVOUCHED, 3);
}

TEST(a_head_mismatch_in_a_start_is_a_fault)
{
	struct trail trail = {.n = 0};
	struct trail_check check;

	memset(trail.prev, '0', TRAIL_HASH_SIZE - 1);
	add(&trail, 1, "op=start phase=event head=rotated");
	add(&trail, 2, "op=start phase=event head=unknown");
	assert_int_equal(check_lines(trail.lines, trail.n, false, NULL).faults, 0);
	add(&trail, 3, "op=start phase=event head=mismatch");
	check = check_lines(trail.lines, trail.n, false, NULL);
	expect_fault(&check, TRAIL_MISMATCH, 3);
}

/* Feed an intent or a result; returns the seq of the intent that turned out to be unfinished, or 0. */
static int feed(struct trail_open *open, const char *phase, int seq)
{
	struct trail_record record;
	char line[128], copy[128];
	cleanup_free char *out = NULL;
	uint64_t n = 0;

	(void)str_format(line, sizeof(line), "ts=1 op=stage phase=%s seq=%d vol=v peer_pid=7 prev=0", phase,
			 seq);
	memcpy(copy, line, sizeof(copy));
	assert_true(trail_parse(copy, &record));
	assert_true(trail_open_add(open, line, &record, &out));
	if (out) {
		*strstr(out, " vol=") = '\0';
		assert_int_equal(parse_u64(strstr(out, "seq=") + strlen("seq="), 1, 1000, &n), 0);
	}
	return (int)n;
}

TEST(intents_wait_for_their_results_in_order)
{
	struct trail_open open = {.n = 0};
	char *line;

	for (int seq = 1; seq <= 4; seq++)
		assert_int_equal(feed(&open, "intent", seq), 0);
	assert_int_equal(feed(&open, "result", 2), 0);
	assert_int_equal(feed(&open, "result", 9), 0); /* of an intent in an older file */
	assert_int_equal(feed(&open, "refused", 3), 0);
	assert_int_equal(feed(&open, "event", 3), 0);
	assert_int_equal(feed(&open, "intent", 3), 3); /* the first one never ended */
	assert_int_equal(open.n, 3);
	for (int i = 0; i < 3; i++) {
		static const char *const want[] = {"seq=1 ", "seq=4 ", "seq=3 "};

		line = trail_open_take(&open);
		assert_non_null(strstr(line, want[i]));
		free(line);
	}
	assert_null(trail_open_take(&open));
}

TEST(the_oldest_intent_gives_way_at_the_limit)
{
	struct trail_open open = {.n = 0};

	for (int seq = 1; seq <= TRAIL_OPEN_MAX; seq++)
		assert_int_equal(feed(&open, "intent", seq), 0);
	assert_int_equal(feed(&open, "intent", TRAIL_OPEN_MAX + 1), 1);
	assert_int_equal(feed(&open, "intent", TRAIL_OPEN_MAX + 2), 2);
	assert_int_equal(open.n, TRAIL_OPEN_MAX);
	while (open.n > 0)
		free(trail_open_take(&open));
}

TEST(a_line_with_a_nul_byte_is_no_record)
{
	struct trail trail = good_trail();
	struct trail_check check = TRAIL_CHECK_INIT(false, NULL);
	size_t n = strlen(trail.lines[0]);

	trail.lines[0][n + 1] = 'x';
	trail_check_line(&check, trail.lines[0], n + 2, true);
	assert_int_equal(check.records, 0);
	assert_int_equal(check.torn, 1);
}

TEST(a_prev_that_is_no_hash_shows_even_in_a_rotated_file)
{
	static const char *const prevs[] = {
		"xyz",
		"0000000000000000000000000000000000000000000000000000000000000000f",
		"000000000000000000000000000000000000000000000000000000000000000F",
	};

	for (size_t i = 0; i < ARRAY_SIZE(prevs); i++) {
		struct trail_check check = TRAIL_CHECK_INIT(true, NULL);
		char line[128];

		(void)str_format(line, sizeof(line), "ts=1 rec=1 prev=%s", prevs[i]);
		trail_check_line(&check, line, strlen(line), true);
		expect_fault(&check, TRAIL_CHANGED, 1);
	}
}

TEST(two_torn_lines_in_a_row_are_a_fault)
{
	struct trail trail = good_trail();
	struct trail_check check = TRAIL_CHECK_INIT(false, NULL);

	trail_check_line(&check, trail.lines[0], strlen(trail.lines[0]), true);
	trail_check_line(&check, "ts=1", 4, true);
	trail_check_line(&check, "ts=2", 4, true);
	expect_fault(&check, TRAIL_UNVOUCHED, 3);
}

TEST(numbers_follow_each_other_but_may_begin_anew_with_a_start)
{
	static const struct {
		unsigned int rec;
		const char *middle;
		bool is_gap;
	} cases[] = {
		{3, "op=stage phase=intent", false}, {4, "op=stage phase=intent", true},
		{2, "op=stage phase=intent", true},  {1, "op=stage phase=intent", true},
		{1, "op=start phase=event", false},  {2, "op=start phase=event", true},
		{5, "op=start phase=event", true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct trail trail = {.n = 0};
		struct trail_check check;

		memset(trail.prev, '0', TRAIL_HASH_SIZE - 1);
		add(&trail, 1, "op=start phase=event");
		add(&trail, 2, "op=stage phase=intent");
		add(&trail, cases[i].rec, cases[i].middle);
		check = check_lines(trail.lines, 3, false, NULL);
		if (cases[i].is_gap)
			expect_fault(&check, TRAIL_GAP, 3);
		else
			assert_int_equal(check.faults, 0);
	}
}

TEST(a_rotated_file_may_begin_anywhere)
{
	struct trail trail = good_trail();
	struct trail_check check = check_lines(trail.lines + 2, LINES - 2, true, trail.prev);

	assert_int_equal(check.faults, 0);
	check = check_lines(trail.lines + 2, LINES - 2, false, trail.prev);
	expect_fault(&check, TRAIL_START, 1);
	assert_int_equal(check.faults, 1);
}

TEST(a_line_may_be_as_long_as_the_limit_and_no_longer)
{
	cleanup_free char *text = malloc(TRAIL_LINE_MAX + 3);
	char line[TRAIL_LINE_MAX + 1];
	FILE *file = NON_NULL(tmpfile());
	bool complete = false;
	size_t n = 0;

	memset(text, 'a', TRAIL_LINE_MAX + 1);
	assert_int_equal(fwrite(text, 1, TRAIL_LINE_MAX, file), TRAIL_LINE_MAX);
	assert_int_equal(fputc('\n', file), '\n');
	assert_int_equal(fwrite(text, 1, TRAIL_LINE_MAX + 1, file), TRAIL_LINE_MAX + 1);
	assert_true(fputs("\nlast", file) >= 0);
	rewind(file);
	assert_true(trail_read_line(file, line, &n, &complete));
	assert_int_equal(n, TRAIL_LINE_MAX);
	assert_int_equal(strlen(line), TRAIL_LINE_MAX);
	assert_true(trail_read_line(file, line, &n, &complete));
	assert_int_equal(n, TRAIL_LINE_MAX + 1);
	assert_true(complete);
	assert_true(trail_read_line(file, line, &n, &complete));
	assert_string_equal(line, "last");
	assert_false(complete);
	assert_false(trail_read_line(file, line, &n, &complete));
	(void)fclose(file);
}

TEST(a_line_that_is_too_long_is_a_fault)
{
	struct trail_check check = TRAIL_CHECK_INIT(false, NULL);
	cleanup_free char *line = calloc(1, TRAIL_LINE_MAX + 1);

	trail_check_line(&check, line, TRAIL_LINE_MAX, true);
	assert_int_equal(check.faults, 0);
	trail_check_line(&check, line, TRAIL_LINE_MAX + 1, true);
	expect_fault(&check, TRAIL_TOO_LONG, 2);
}

TEST(records_are_split_or_refused)
{
	static const struct {
		const char *line;
		bool is_good;
	} cases[] = {
		{"ts=1 rec=2 prev=ab", true},
		{"ts=1 vol= prev=ab", true},
		{"ts=1 src=a=b prev=ab", true},
		{"rec=2 prev=ab", false},
		{"ts=1 rec=2", false},
		{"ts=1 prev=a rec=2", false},
		{"ts=1  rec=2 prev=ab", false},
		{"ts=1 rec prev=ab", false},
		{"ts=1 rec=2 rec=3 prev=a", false},
		{"ts=1 vol= vol=x prev=a", false},
		{"ts=1 R=2 prev=ab", false},
		{"ts=1 =2 prev=ab", false},
		{"", false},
		{"ts=1 prev=ab ", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct trail_record record;
		char line[64];

		(void)str_copy(line, sizeof(line), cases[i].line);
		assert_msg(trail_parse(line, &record) == cases[i].is_good, "'%s'", cases[i].line);
	}
}

TEST(a_record_may_have_as_many_fields_as_the_limit)
{
	for (int extra = 0; extra <= 1; extra++) {
		struct strbuf line = STRBUF_INIT(4096);
		struct trail_record record;
		cleanup_free char *text = NULL;

		strbuf_puts(&line, "ts=1");
		for (int i = 0; i < TRAIL_FIELDS_MAX - 2 + extra; i++)
			strbuf_printf(&line, " %c%c=1", 'a' + i / 26, 'a' + i % 26);
		strbuf_puts(&line, " prev=1");
		text = strbuf_take(&line);
		assert_int_equal(trail_parse(text, &record), extra == 0);
	}
}

TEST(filters_pick_by_volume_allocation_result_and_time)
{
	static const struct {
		struct trail_filter filter;
		bool matches;
	} cases[] = {
		{{NULL, NULL, NULL, NULL}, true},
		{{.volume = "db"}, true},
		{{.volume = "d"}, false},
		{{.alloc = "0189"}, true},
		{{.alloc = "0189-full"}, true},
		{{.alloc = "full"}, false},
		{{.result = "failed"}, true},
		{{.result = "success"}, false},
		{{.since = "2025-01-31"}, true},
		{{.since = "2025-01-31T12:00:00.000Z"}, true},
		{{.since = "2025-01-31T12:00:00.001Z"}, false},
		{{.volume = "db", .result = "success"}, false},
		{{.operation = "stage"}, true},
		{{.operation = "unstage"}, false},
		{{.until = "2025-01-31"}, true}, /* that day too */
		{{.until = "2025-01-31T12:00:00.000Z"}, true},
		{{.until = "2025-01-31T11"}, false},
		{{.until = "2025-01-30"}, false},
		{{.until = "2026"}, true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char line[] =
			"ts=2025-01-31T12:00:00.000Z op=stage vol=db alloc=0189-full res=failed prev=ab";
		struct trail_record record;

		assert_true(trail_parse(line, &record));
		assert_msg(trail_matches(&record, &cases[i].filter) == cases[i].matches, "case %zu", i);
	}
}

TEST(a_record_is_an_object_of_strings_in_json)
{
	char line[] = "ts=1 rec=2 vol= prev=ab";
	struct trail_record record;
	cleanup(json_decrefp) json_t *json = NULL;
	cleanup_free char *text = NULL;

	assert_true(trail_parse(line, &record));
	json = trail_to_json(&record);
	text = json_dumps(json, JSON_COMPACT);
	assert_string_equal(text, "{\"ts\":\"1\",\"rec\":\"2\",\"vol\":\"\",\"prev\":\"ab\"}");
}

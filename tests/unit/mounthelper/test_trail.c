#include "trail.h"
#include "unit.h"

#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[64];
static struct trail trail;

static int setup(void **state)
{
	(void)state;
	(void)str_copy(path, sizeof(path), "/tmp/holdfast-trail-XXXXXX");
	(void)close(mkstemp(path));
	trail = (struct trail){.fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC),
			       .read_fd = open(path, O_RDONLY | O_CLOEXEC),
			       .cluster = "demo",
			       .node = "n1"};
	return trail.fd >= 0 && trail.read_fd >= 0 ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	(void)close(trail.fd);
	(void)close(trail.read_fd);
	return unlink(path);
}

static void put_raw(const char *text, size_t n)
{
	assert_int_equal(write(trail.fd, text, n), (ssize_t)n);
}

static uint64_t append(const char *op)
{
	struct record record = RECORD_INIT;
	uint64_t rec = 0;

	record_word(&record, "op", op);
	assert_int_equal(trail_append(&trail, &record, &rec), 0);
	return rec;
}

/* Not inlined: gcc 12 then takes the result for the address of the variable. */
static __attribute__((noinline)) char *whole_file(void)
{
	char *text = NULL;

	assert_int_equal(file_read(path, 1 << 20, &text, NULL), 0);
	return text;
}

/* Verify the chain as an auditor would. Returns the number of lines. */
static int check_chain(void)
{
	char prev[65] = "0000000000000000000000000000000000000000000000000000000000000000";
	char *text = whole_file();
	char *line = text;
	int lines = 0;

	while (*line != '\0') {
		char *end = strchr(line, '\n');
		uint8_t digest[crypto_hash_sha256_BYTES];
		const char *at;

		assert_non_null(end);
		*end = '\0';
		at = strstr(line, " prev=");
		/* a torn line may have lost its own, but is in the next one's */
		if (at && strlen(at) == strlen(" prev=") + TRAIL_DIGEST_HEX)
			assert_string_equal(at + strlen(" prev="), prev);
		(void)crypto_hash_sha256(digest, (unsigned char *)line, (unsigned long long)(end - line));
		hex_encode(prev, digest, sizeof(digest));
		line = end + 1;
		lines++;
	}
	free(text);
	return lines;
}

static void records_are_numbered_and_chained(void **state)
{
	char *text;

	(void)state;
	for (uint64_t i = 1; i <= 20; i++)
		assert_int_equal(append("stage"), i);
	assert_int_equal(check_chain(), 20);
	text = whole_file();
	assert_non_null(strstr(text, " rec=7 cluster=demo node=n1 op=stage prev="));
	assert_memory_equal(text, "ts=20", 5);
	free(text);
}

static void another_instance_goes_on_in_the_same_chain(void **state)
{
	struct trail other = trail;
	struct record record = RECORD_INIT;
	uint64_t rec;

	(void)state;
	other.fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	other.read_fd = open(path, O_RDONLY | O_CLOEXEC);
	record_word(&record, "op", "publish");
	for (uint64_t i = 0; i < 5; i++) {
		assert_int_equal(append("stage"), 2 * i + 1);
		assert_int_equal(trail_append(&other, &record, &rec), 0);
		assert_int_equal(rec, 2 * i + 2);
	}
	(void)close(other.fd);
	(void)close(other.read_fd);
	assert_int_equal(check_chain(), 10);
}

static void a_torn_line_stays_in_the_chain_wherever_it_was_cut(void **state)
{
	char *text;
	size_t first;
	size_t n;

	(void)state;
	for (int i = 0; i < 11; i++)
		(void)append("stage");
	text = whole_file();
	n = strlen(text);
	first = (size_t)(strstr(text, "rec=11 ") - text);
	while (text[first - 1] != '\n')
		first--;
	for (size_t cut = first + 1; cut < n; cut++) {
		uint64_t rec;

		assert_int_equal(ftruncate(trail.fd, 0), 0);
		put_raw(text, cut);
		rec = append("publish");
		/* the torn line's own number counts as soon as it is complete */
		assert_true(rec == 11 || rec == 12);
		assert_int_equal(rec == 12,
				 strstr(text + first, "rec=11 ") + strlen("rec=11 ") <= text + cut);
		assert_int_equal(check_chain(), 12);
		assert_int_equal(append("unstage"), rec + 1);
	}
	free(text);
}

static void a_trail_that_begins_with_a_torn_line_goes_on(void **state)
{
	(void)state;
	put_raw("ts=2026", 7);
	assert_int_equal(append("stage"), 1);
	assert_int_equal(check_chain(), 2);
}

static void a_file_that_is_no_trail_is_left_alone(void **state)
{
	static const char junk[] = "this is somebody's letter\n";
	char big[8192];
	struct record record = RECORD_INIT;
	uint64_t rec = 77;
	char *text;

	(void)state;
	put_raw(junk, sizeof(junk) - 1);
	assert_int_equal(trail_append(&trail, &record, &rec), -EBADMSG);
	memset(big, 'a', sizeof(big));
	put_raw(big, sizeof(big));
	assert_int_equal(trail_append(&trail, &record, &rec), -EBADMSG);
	assert_int_equal(rec, 77);
	text = whole_file();
	assert_int_equal(strlen(text), sizeof(junk) - 1 + sizeof(big));
	free(text);
}

static int read_end_of(const char *tail, bool whole)
{
	struct trail_end end;

	return trail_read_end(tail, strlen(tail), whole, &end) < 0 ? -1 : (int)end.rec;
}

static void only_a_complete_number_counts(void **state)
{
	(void)state;
	assert_int_equal(read_end_of("ts=1 rec=5 a=b\n", true), 6);
	assert_int_equal(read_end_of("ts=1 rec=5x a=b\n", true), -1);
	assert_int_equal(read_end_of("ts=1 rec= a=b\n", true), -1);
	assert_int_equal(read_end_of("ts=1 rec=0 a=b\n", true), -1);
	assert_int_equal(read_end_of("ts=1 rec=18446744073709551615 a=b\n", true), -1);
	assert_int_equal(read_end_of("ts=1 rec=5 a=b\nts=1 rec=6\n", true), 6);
	/* the beginning of the last line must be in sight, or its digest would be another one's */
	assert_int_equal(read_end_of("ts=1 rec=5 a=b\n", false), -1);
	assert_int_equal(read_end_of("a=b\nts=1 rec=5 a=b\n", false), 6);
	assert_int_equal(read_end_of("", true), 1);
	assert_int_equal(read_end_of("", false), -1);
	assert_int_equal(read_end_of("\n", true), -1);
}

static void values_outside_the_alphabet_cannot_forge_anything(void **state)
{
	struct record record = RECORD_INIT;

	(void)state;
	record_word(&record, "a", "x\nop=stage");
	record_word(&record, "b", "x y");
	record_word(&record, "c", "it's");
	record_word(&record, "d", "");
	record_word(&record, "e", "a=b");
	record_word(&record, "f", "Az09._:+/@,-");
	record_number(&record, "g", UINT64_MAX);
	record_hex(&record, "h", "\xab\x01", 2);
	assert_false(record.overflow);
	assert_string_equal(record.text,
			    " a=780A6F703D7374616765 b=782079 c=69742773 d= e=613D62 f=Az09._:+/@,- "
			    "g=18446744073709551615 h=ab01");
}

static void a_record_that_does_not_fit_is_not_cut_but_refused(void **state)
{
	struct record record = RECORD_INIT;
	char value[TRAIL_VALUE_MAX + 2];
	uint64_t rec;

	(void)state;
	memset(value, 'a', sizeof(value));
	value[TRAIL_VALUE_MAX] = '\0';
	record_word(&record, "a", value);
	assert_false(record.overflow);
	value[TRAIL_VALUE_MAX] = 'a';
	value[TRAIL_VALUE_MAX + 1] = '\0';
	record_word(&record, "b", value);
	assert_true(record.overflow);
	assert_int_equal(trail_append(&trail, &record, &rec), -EMSGSIZE);
	record = (struct record)RECORD_INIT;
	value[TRAIL_VALUE_MAX] = '\0';
	for (int i = 0; i < 6; i++)
		record_word(&record, "a", value);
	assert_false(record.overflow);
	assert_int_equal(trail_append(&trail, &record, &rec), -EMSGSIZE); /* with what is put around it */
	record_word(&record, "a", value);
	assert_true(record.overflow);
	assert_int_equal(check_chain(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(records_are_numbered_and_chained, setup, teardown),
		cmocka_unit_test_setup_teardown(another_instance_goes_on_in_the_same_chain, setup, teardown),
		cmocka_unit_test_setup_teardown(a_torn_line_stays_in_the_chain_wherever_it_was_cut, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_trail_that_begins_with_a_torn_line_goes_on, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_file_that_is_no_trail_is_left_alone, setup, teardown),
		cmocka_unit_test(only_a_complete_number_counts),
		cmocka_unit_test(values_outside_the_alphabet_cannot_forge_anything),
		cmocka_unit_test_setup_teardown(a_record_that_does_not_fit_is_not_cut_but_refused, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

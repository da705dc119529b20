/* SPDX-License-Identifier: Apache-2.0 */
#include "folder.h"
#include "last_output.h"
#include "unit.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define ALLOC "0190a6f2-0000-7000-8000-000000000001"

static const struct last_output_wish everything = {.has_stdout = true, .has_stderr = true};

static int setup(void **state)
{
	static char folder[FOLDER_SIZE];

	folder_make(folder);
	*state = folder;
	return 0;
}

static int teardown(void **state)
{
	pid_t pid = fork();
	int status = -1;

	if (pid == 0) {
		(void)execl("/bin/rm", "rm", "-rf", (const char *)*state, NULL);
		_exit(127);
	}
	return waitpid(pid, &status, 0) == pid && status == 0 ? 0 : -1;
}

/* A frame, in pieces of @cut bytes. */
static void put(struct last_output *output, unsigned int stream, const char *text, size_t n, size_t cut)
{
	uint8_t frame[LAST_OUTPUT_MAX * 2] = {(uint8_t)stream};
	uint32_t length = htonl((uint32_t)n);

	assert_in_range(n, 0, sizeof(frame) - FRAMES_HEAD);
	memcpy(frame + 4, &length, sizeof(length));
	memcpy(frame + FRAMES_HEAD, text, n);
	for (size_t at = 0; at < FRAMES_HEAD + n; at += cut)
		last_output_put(output, frame + at, FRAMES_HEAD + n - at < cut ? FRAMES_HEAD + n - at : cut);
}

static void put_text(struct last_output *output, unsigned int stream, const char *text)
{
	put(output, stream, text, strlen(text), 3);
}

/* Bytes of each stream, as who reads the frames has them. */
static enum status load(const char *folder, const char *namespace, const char *task,
			const struct last_output_wish *wish, char *out, char *err_out)
{
	cleanup_strbuf struct strbuf bytes = STRBUF_INIT(LAST_OUTPUT_MAX);
	enum status status = last_output_load(folder, namespace, ALLOC, task, wish, &bytes, NULL);
	struct frames frames = {.left = 0};
	size_t at = 0;

	out[0] = err_out[0] = '\0';
	assert_int_equal(bytes.error, 0);
	while (at < bytes.len) {
		const uint8_t *piece;
		unsigned int stream;
		size_t used, n;

		assert_ok(frames_next(&frames, (const uint8_t *)bytes.data + at, bytes.len - at, &used,
				      &stream, &piece, &n, NULL));
		(void)strncat(stream == FRAMES_STDERR ? err_out : out, (const char *)piece, n);
		at += used;
	}
	assert_int_equal(frames.left, 0);
	return status;
}

TEST_FIXTURE(output_of_a_task_is_found_by_stream_and_by_its_last_lines, setup, teardown)
{
	static const struct {
		struct last_output_wish wish;
		const char *out, *err;
	} rows[] = {
		{{true, true, 0}, "one\ntwo\nopen", "bad\nworse\n"},
		{{true, false, 0}, "one\ntwo\nopen", ""},
		{{false, true, 0}, "", "bad\nworse\n"},
		{{true, false, 2}, "two\nopen", ""},
		{{false, true, 1}, "", "worse\n"},
		{{true, true, 1}, "open", ""},
		{{true, true, 3}, "two\nopen", "worse\n"},
		{{true, true, 5}, "one\ntwo\nopen", "bad\nworse\n"},
		{{true, true, 500}, "one\ntwo\nopen", "bad\nworse\n"},
	};
	char out[LAST_OUTPUT_MAX], err[LAST_OUTPUT_MAX];
	struct last_output output;

	last_output_init(&output);
	put_text(&output, FRAMES_STDOUT, "one\n");
	put_text(&output, FRAMES_STDERR, "bad\nworse\n");
	put_text(&output, FRAMES_STDOUT, "two\nopen");
	assert_int_equal(last_output_save(*state, "prod", ALLOC, "web", &output, NULL), STATUS_OK);
	last_output_release(&output);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(load(*state, "prod", "web", &rows[i].wish, out, err), STATUS_OK);
		/* the lines of both streams count together, in their order */
		assert_string_equal(out, rows[i].out);
		assert_string_equal(err, rows[i].err);
	}
	assert_int_equal(load(*state, "prod", "other", &everything, out, err), STATUS_NOT_FOUND);
}

TEST_FIXTURE(output_is_read_by_its_own_namespace_only, setup, teardown)
{
	static const char *const others[] = {"", "pro", "prod2", "b", "*", "../prod"};
	char out[LAST_OUTPUT_MAX], err[LAST_OUTPUT_MAX];
	cleanup(last_output_release) struct last_output output;

	last_output_init(&output);
	put_text(&output, FRAMES_STDOUT, "secret\n");
	assert_int_equal(last_output_save(*state, "prod", ALLOC, "web", &output, NULL), STATUS_OK);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		assert_int_equal(load(*state, others[i], "web", &everything, out, err), STATUS_NOT_FOUND);
		assert_string_equal(out, "");
	}
	assert_int_equal(load(*state, "prod", "web", &everything, out, err), STATUS_OK);
	assert_string_equal(out, "secret\n");
}

TEST_FIXTURE(of_much_output_the_end_is_kept, setup, teardown)
{
	static char large[LAST_OUTPUT_MAX + 4096], out[2 * LAST_OUTPUT_MAX], err[LAST_OUTPUT_MAX];
	cleanup(last_output_release) struct last_output output;

	last_output_init(&output);
	for (int i = 0; i < 20000; i++) {
		char line[16];

		(void)snprintf(line, sizeof(line), "line %05d\n", i);
		put(&output, FRAMES_STDOUT, line, strlen(line), sizeof(line) + FRAMES_HEAD);
		assert_in_range(output.bytes.len, 1, LAST_OUTPUT_MAX);
	}
	assert_int_equal(last_output_save(*state, "prod", ALLOC, "web", &output, NULL), STATUS_OK);
	assert_int_equal(load(*state, "prod", "web", &everything, out, err), STATUS_OK);
	assert_in_range(strlen(out), LAST_OUTPUT_MAX / 3, LAST_OUTPUT_MAX);
	assert_string_equal(out + strlen(out) - 11, "line 19999\n");
	memset(large, 'x', sizeof(large) - 1);
	large[sizeof(large) - 2] = '!';
	put(&output, FRAMES_STDERR, large, sizeof(large) - 1, sizeof(large));
	assert_int_equal(last_output_save(*state, "prod", ALLOC, "web", &output, NULL), STATUS_OK);
	assert_int_equal(load(*state, "prod", "web", &everything, out, err), STATUS_OK);
	assert_in_range(strlen(err), LAST_OUTPUT_MAX / 2, LAST_OUTPUT_MAX);
	assert_int_equal(err[strlen(err) - 1], '!');
}

TEST_FIXTURE(an_invalid_frame_of_an_engine_ends_the_output, setup, teardown)
{
	char out[LAST_OUTPUT_MAX], err[LAST_OUTPUT_MAX], path[FOLDER_SIZE + 64];
	struct last_output output;
	FILE *file;

	last_output_init(&output);
	put_text(&output, FRAMES_STDOUT, "one\n");
	last_output_put(&output, (const uint8_t *)"HTTP/1.1 200", 12);
	put_text(&output, FRAMES_STDOUT, "two\n");
	assert_int_equal(last_output_save(*state, "prod", ALLOC, "web", &output, NULL), STATUS_OK);
	last_output_release(&output);
	assert_int_equal(load(*state, "prod", "web", &everything, out, err), STATUS_OK);
	assert_string_equal(out, "one\n");
	/* a file that was cut, or that is something else */
	(void)snprintf(path, sizeof(path), "%s/output/" ALLOC ".web.prod", (const char *)*state);
	file = NON_NULL(fopen(path, "we"));
	assert_int_equal(fwrite("\1\0\0\0\377\377\377\377abc\n", 1, 12, file), 12);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(load(*state, "prod", "web", &everything, out, err), STATUS_OK);
	assert_string_equal(out, "abc\n");
}

TEST_FIXTURE(the_oldest_give_way, setup, teardown)
{
	char out[LAST_OUTPUT_MAX], err[LAST_OUTPUT_MAX], name[16];
	struct timespec times[2] = {{0}, {0}};
	char path[FOLDER_SIZE + 64];
	struct last_output output;

	last_output_init(&output);
	put_text(&output, FRAMES_STDOUT, "x\n");
	for (int i = 0; i < LAST_OUTPUT_TASKS + 3; i++) {
		(void)snprintf(name, sizeof(name), "t%d", i);
		assert_int_equal(last_output_save(*state, "prod", ALLOC, name, &output, NULL), STATUS_OK);
		(void)snprintf(path, sizeof(path), "%s/output/" ALLOC ".%s.prod", (const char *)*state, name);
		times[0].tv_sec = times[1].tv_sec = 1000 + i;
		assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
	}
	last_output_release(&output);
	for (int i = 0; i < LAST_OUTPUT_TASKS + 3; i++) {
		(void)snprintf(name, sizeof(name), "t%d", i);
		assert_int_equal(load(*state, "prod", name, &everything, out, err),
				 i < 3 ? STATUS_NOT_FOUND : STATUS_OK);
	}
}

/* Saves @n outputs of tasks PREFIX0, PREFIX1, ..., each a second later than the one before. */
static void save_many(const char *folder, const char *namespace, const char *prefix, int n, time_t *now)
{
	cleanup(last_output_release) struct last_output output;
	char path[FOLDER_SIZE + 128], name[16];

	last_output_init(&output);
	put_text(&output, FRAMES_STDOUT, "x\n");
	for (int i = 0; i < n; i++) {
		const struct timespec times[2] = {{.tv_sec = ++*now}, {.tv_sec = *now}};

		(void)snprintf(name, sizeof(name), "%s%d", prefix, i);
		assert_ok(last_output_save(folder, namespace, ALLOC, name, &output, NULL));
		(void)snprintf(path, sizeof(path), "%s/output/" ALLOC ".%s.%s", folder, name, namespace);
		assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
	}
}

static int count_kept(const char *folder, const char *namespace, const char *prefix, int first, int n)
{
	char out[LAST_OUTPUT_MAX], err[LAST_OUTPUT_MAX], name[16];
	int kept = 0;

	for (int i = first; i < n; i++) {
		(void)snprintf(name, sizeof(name), "%s%d", prefix, i);
		kept += load(folder, namespace, name, &everything, out, err) == STATUS_OK;
	}
	return kept;
}

TEST_FIXTURE(a_namespace_of_many_short_tasks_removes_no_output_of_others, setup, teardown)
{
	enum { OTHERS = 100, FLOOD = 1000, KEPT = LAST_OUTPUT_TASKS - OTHERS };
	time_t now = 1000;

	save_many(*state, "quiet", "q", OTHERS, &now);
	save_many(*state, "loud", "l", FLOOD, &now);
	assert_int_equal(count_kept(*state, "quiet", "q", 0, OTHERS), OTHERS);
	assert_int_equal(count_kept(*state, "loud", "l", 0, FLOOD), KEPT);
	assert_int_equal(count_kept(*state, "loud", "l", FLOOD - KEPT, FLOOD), KEPT);
	save_many(*state, "small", "s", 10, &now);
	assert_int_equal(count_kept(*state, "quiet", "q", 0, OTHERS), OTHERS);
	assert_int_equal(count_kept(*state, "small", "s", 0, 10), 10);
}

/* The one that comes counts: of two equal ones it is not the other that loses. */
TEST_FIXTURE(namespaces_that_have_equally_many_each_lose_their_own, setup, teardown)
{
	enum { HALF = LAST_OUTPUT_TASKS / 2 };
	time_t now = 1000;

	save_many(*state, "first", "f", HALF, &now);
	save_many(*state, "second", "s", HALF + 20, &now);
	assert_int_equal(count_kept(*state, "first", "f", 0, HALF), HALF);
	assert_int_equal(count_kept(*state, "second", "s", 20, HALF + 20), HALF);
}

/* Whatever the order in which the folder lists them. */
TEST_FIXTURE(the_oldest_is_found_by_its_time, setup, teardown)
{
	char path[FOLDER_SIZE + 128];
	time_t now = 1000;

	save_many(*state, "team-a", "t", LAST_OUTPUT_TASKS, &now);
	for (int i = 0; i < LAST_OUTPUT_TASKS; i++) {
		const struct timespec times[2] = {{.tv_sec = 1000 + abs(i - 100)},
						  {.tv_sec = 1000 + abs(i - 100)}};

		(void)snprintf(path, sizeof(path), "%s/output/" ALLOC ".t%d.team-a", (const char *)*state, i);
		assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
	}
	save_many(*state, "team-a", "new", 1, &now);
	assert_int_equal(count_kept(*state, "team-a", "t", 100, 101), 0);
	assert_int_equal(count_kept(*state, "team-a", "t", 0, LAST_OUTPUT_TASKS), LAST_OUTPUT_TASKS - 1);
}

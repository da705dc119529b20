/* SPDX-License-Identifier: Apache-2.0 */
/* Text of tenants on a terminal: none of it is obeyed there. */

#include "run.h"
#include "temp_dir.h"
#include "unit.h"

#include "base/fd.h"
#include "base/str.h"
#include "base/utf8.h"

#include <jansson.h>
#include <pty.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define LOGS "alloc logs 01890000-0000-7000-8000-000000000001"

enum { STREAMS = 3, VOLUMES = 200, LINE_SIZE = 256 };

/* Runs the words of @line with a terminal for all of its streams, on which "n" is typed. @text gets what it
 * wrote. */
static enum status run_on_terminal(const char *line, char *text, size_t size)
{
	char copy[LINE_SIZE], *argv[16] = {NULL}, *rest = copy;
	int ends[2], argc = 0, how;
	struct invocation inv;
	struct termios raw;
	struct error err;
	size_t n = 0;
	ssize_t got;
	pid_t pid;

	(void)str_format(copy, sizeof(copy), "holdfast --address=h:1 --ca=/ca %s", line);
	while ((argv[argc] = strsep(&rest, " ")) != NULL)
		argc++;
	assert_int_equal(openpty(&ends[0], &ends[1], NULL, NULL, NULL), 0);
	assert_int_equal(tcgetattr(ends[1], &raw), 0);
	cfmakeraw(&raw);
	assert_int_equal(tcsetattr(ends[1], TCSANOW, &raw), 0);
	assert_int_equal(write(ends[0], "n\n", 2), 2);
	assert_ok(command_parse(argc, argv, &inv, &err));
	(void)fflush(stdout);
	pid = fork();
	if (pid == 0) {
		for (int i = 0; i < STREAMS; i++)
			if (dup2(ends[1], i) < 0)
				_exit(STATUS_INTERNAL);
		err.status = command_run(&inv, &err);
		(void)fflush(stdout);
		_exit((int)err.status);
	}
	(void)close(ends[1]);
	json_decref(inv.context);
	while (n < size - 1 && (got = read(ends[0], text + n, size - 1 - n)) > 0)
		n += (size_t)got;
	(void)close(ends[0]);
	text[n] = '\0';
	assert_int_equal(waitpid(pid, &how, 0), pid);
	return (enum status)WEXITSTATUS(how);
}

TEST_FIXTURE(a_terminal_obeys_nothing_that_a_task_wrote, run_setup, NULL)
{
	static const struct {
		const char *what, *events[FAKE_MAX], *wanted;
	} rows[] = {
		{"the two streams make a control sequence together",
		 {"{\"stream\": \"OUTPUT_STREAM_STDOUT\", \"value\": \"wg==\"}",
		  "{\"stream\": \"OUTPUT_STREAM_STDERR\", \"value\": \"mzMxbQ==\"}",
		  "{\"stream\": \"OUTPUT_STREAM_STDOUT\", \"value\": \"eA==\"}"},
		 "?31m?x"},
		{"a character comes in two messages",
		 {"{\"stream\": \"OUTPUT_STREAM_STDOUT\", \"value\": \"4oI=\"}",
		  "{\"stream\": \"OUTPUT_STREAM_STDOUT\", \"value\": \"rAo=\"}"},
		 "\xe2\x82\xac\n"},
		{"a line is overwritten",
		 {"{\"stream\": \"OUTPUT_STREAM_STDOUT\", \"value\": \"cm0NbHMN\"}",
		  "{\"stream\": \"OUTPUT_STREAM_STDERR\", \"value\": \"Yg0KYwk=\"}",
		  "{\"stream\": \"OUTPUT_STREAM_STDOUT\", \"value\": \"CmQN\"}"},
		 "rm\nlsb\r\nc\t\r\nd"},
		{"controls of one byte and of two",
		 {"{\"stream\": \"OUTPUT_STREAM_STDOUT\", \"value\": \"mzJKG10wO3gHfwA=\"}",
		  "{\"stream\": \"OUTPUT_STREAM_STDERR\", \"value\": \"wpsxbcOk\"}"},
		 "?2J?]0;x?????1m\xc3\xa4"},
		{"the direction of writing",
		 {"{\"stream\": \"OUTPUT_STREAM_STDOUT\", \"value\": \"4oCuYeKBpmLigI9j2Jxk4oCL\"}"},
		 "???a???b???c??d\xe2\x80\x8b"},
	};
	char text[256];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		memcpy(fake.events, rows[i].events, sizeof(fake.events));
		assert_int_equal(run_on_terminal(LOGS, text, sizeof(text)), STATUS_OK);
		assert_msg(str_eq(text, rows[i].wanted), "%s: '%s', not '%s'", rows[i].what, text,
			   rows[i].wanted);
	}
}

TEST_FIXTURE(a_file_gets_the_bytes_of_a_task_as_they_are, run_setup, NULL)
{
	static const char bytes[] = "\xc2\x1b[2J\x9b\r\xe2\x80\xae\x00\xff";

	fake.events[0] = "{\"stream\": \"OUTPUT_STREAM_STDOUT\", \"value\": \"whtbMkqbDeKArgD/\"}";
	expect_ok(LOGS);
	assert_memory_equal(ending.output, bytes, sizeof(bytes));
}

/* An exit code has eight bits: a shell would read others as success. */
TEST_FIXTURE(a_failure_that_a_node_reports_is_no_success_for_a_shell, run_setup, NULL)
{
	static const struct {
		const char *result;
		int code;
	} rows[] = {
		{"\"exit_code\": 3", 3},       {"\"exit_code\": 255", 255}, {"\"exit_code\": 256", 1},
		{"\"exit_code\": -256", 1},    {"\"signal\": 9", 137},	    {"\"signal\": 128", 1},
		{"\"signal\": 4294967168", 1},
	};
	char event[128];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		(void)str_format(event, sizeof(event), "{\"exited\": true, \"result\": {%s}}",
				 rows[i].result);
		fake.events[0] = event;
		expect_failure("alloc exec 01890000-0000-7000-8000-000000000001 web -- sh", STATUS_ABORTED,
			       "the command has ended with status ");
		assert_int_equal(ending.exit_code, rows[i].code);
	}
}

/* JSON and YAML have the same value, in characters that a terminal prints. */
TEST_FIXTURE(answers_escape_characters_that_a_terminal_obeys, run_setup, NULL)
{
	static const char *const lines[] = {"volume external ebs --json", "volume external ebs -o yaml",
					    "volume external ebs"};
	static const char wanted[] = "\\u001B[2J \\u007F \\u0085 \\u061C \\u200E \\u202E \\u2069 \xc3\xa4";
	cleanup(json_decrefp) json_t *first = NULL, *again = NULL;

	will_answer(0, "Plugins.List", "{\"plugins\": [{\"id\": \"ebs\"}]}");
	will_answer(1, "Volumes.ListExternal",
		    "{\"volumes\": [{\"external_id\": \"vol-1\", \"abnormal\": true, \"condition\": "
		    "\"\\u001b[2J \\u007f \\u0085 \\u061c \\u200e \\u202e \\u2069 \xc3\xa4\"}], "
		    "\"next_token\": \"\"}");
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		expect_ok(lines[i]);
		for (const char *p = ending.output; *p != '\0'; p += utf8_sequence(p))
			assert_true(*p == '\n' || str_printable(p) > 0);
		if (i < 2)
			expect_output(wanted);
		if (i == 0)
			first = json_loads(ending.output, 0, NULL);
	}
	again = json_loads(fake.answers[1].json, 0, NULL);
	assert_non_null(first);
	assert_string_equal(json_string_value(json_object_get(
				    json_array_get(json_object_get(first, "volumes"), 0), "condition")),
			    json_string_value(json_object_get(
				    json_array_get(json_object_get(again, "volumes"), 0), "condition")));
}

/* Volumes that no file describes, of the longest names: a question has room for all of them. */
TEST_FIXTURE(a_question_names_everything_that_is_going_to_be_deleted, run_setup, NULL)
{
	static char volumes[VOLUMES * LINE_SIZE], text[VOLUMES * LINE_SIZE];
	char folder[TEMP_DIR_SIZE], path[TEMP_PATH_SIZE], line[LINE_SIZE];
	size_t n = 0;

	temp_dir_make(folder);
	(void)temp_dir_path(path, folder, "db.volume.hcl");
	assert_int_equal(file_write_atomic(path, 0600, "id = \"db\"\ntype = \"native\"\n", 25), 0);
	for (int i = 0; i < VOLUMES; i++)
		n += (size_t)str_format(volumes + n, sizeof(volumes) - n,
					"%s{\"id\": \"v%0127d\", \"type\": \"CSI\"}",
					i == 0 ? "{\"volumes\": [" : ", ", i);
	(void)str_copy(volumes + n, sizeof(volumes) - n, "]}");
	will_refuse(0, "Volumes.Get", STATUS_NOT_FOUND);
	will_answer(1, "Jobs.List", "{}");
	will_answer(2, "Volumes.List", volumes);
	(void)str_format(line, sizeof(line), "apply %s --prune", folder);
	assert_int_equal(run_on_terminal(line, text, sizeof(text)), STATUS_CANCELLED);
	for (int i = 0; i < VOLUMES; i++) {
		(void)str_format(line, sizeof(line), "volume default/v%0127d\n", i);
		assert_non_null(strstr(text, line));
	}
	assert_non_null(strstr(text, "deregister the volumes? "));
	temp_dir_remove(folder);
}

TEST_GROUP(run_begin, run_end)

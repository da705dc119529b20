/* SPDX-License-Identifier: Apache-2.0 */
#include "run.h"

#include "unit.h"

#include "base/fd.h"

#include <fcntl.h>
#include <holdfast/v1/types.pb-c.h>
#include <jansson.h>
#include <sys/mman.h>

enum { WORDS_MAX = 24 };

struct ending ending;
char spec_path[] = "/tmp/cli-spec-XXXXXX";

void will_answer(size_t i, const char *method, const char *json)
{
	fake.answers[i] = (struct fake_answer){.method = method, .json = json};
}

void will_refuse(size_t i, const char *method, enum status status)
{
	fake.answers[i] = (struct fake_answer){.method = method, .status = status};
}

void run(const char *line)
{
	static char copy[1024];
	char *argv[WORDS_MAX + 1], *rest = copy;
	struct invocation inv;
	int saved = dup(STDOUT_FILENO);
	int out = memfd_create("output", 0);
	ssize_t n;
	int argc = 0;

	assert_true(saved >= 0 && out >= 0);
	assert_true(str_format(copy, sizeof(copy), "holdfast --ca=/ca %s%s",
			       strstr(line, "--address") ? "" : "--address=h:1 ", line) > 0);
	while (argc < WORDS_MAX && (argv[argc] = strsep(&rest, " ")) != NULL)
		argc++;
	argv[argc] = NULL;
	protobuf_c_message_free_unpacked(ending.details, NULL);
	ending = (struct ending){.status = STATUS_OK};
	assert_msg(command_parse(argc, argv, &inv, &ending.err) == STATUS_OK, "%s: %s", line, ending.err.msg);
	(void)fflush(stdout);
	assert_true(dup2(out, STDOUT_FILENO) >= 0);
	ending.status = command_run(&inv, &ending.err);
	ending.is_usage_error = inv.is_usage_error;
	ending.exit_code = inv.exit_code;
	ending.details = inv.details;
	json_decref(inv.context);
	(void)fflush(stdout);
	assert_true(dup2(saved, STDOUT_FILENO) >= 0);
	n = pread(out, ending.output, sizeof(ending.output) - 1, 0);
	assert_true(n >= 0);
	(void)close(out);
	(void)close(saved);
}

void expect_ok(const char *line)
{
	run(line);
	assert_msg(ending.status == STATUS_OK, "%s: %s", line, ending.err.msg);
}

void expect_failure(const char *line, enum status status, const char *text)
{
	run(line);
	assert_msg(ending.status == status && strstr(ending.err.msg, text), "%s: %s: %s, not %s: %s", line,
		   status_name(ending.status), ending.err.msg, status_name(status), text);
}

void expect_usage_error(const char *line, const char *text)
{
	fake.requests[0] = '\0';
	expect_failure(line, STATUS_INVALID_ARGUMENT, text);
	assert_true(ending.is_usage_error);
	assert_string_equal(fake.requests, "");
}

void expect_output(const char *text)
{
	assert_msg(strstr(ending.output, text), "'%s' is not in:\n%s", text, ending.output);
}

void expect_request(const char *text)
{
	assert_msg(strstr(fake.requests, text), "'%s' is not in:\n%s", text, fake.requests);
}

int run_setup(void **state)
{
	fake = (struct fake_server){
		.volume_ids = {"db", "db2", "web"},
		.node_ids = {"node-1", "node-2"},
		.alloc_ids = {"01890000-0000-7000-8000-000000000001", "02"},
		.steps = {{HOLDFAST__V1__CLIENT_STATUS__PENDING, ""}},
	};
	(void)unsetenv("HOLDFAST_TOKEN_FILE");
	(void)unsetenv("CREDENTIALS_DIRECTORY");
	return unsetenv("HOLDFAST_DEV_DIR");
}

void write_spec(const char *text)
{
	assert_int_equal(file_write_atomic(spec_path, 0600, text, strlen(text)), 0);
}

const char *with_spec(const char *fmt)
{
	static char line[256];
	size_t n = 0;

	for (; *fmt != '\0'; fmt++) {
		int more = *fmt == '@' ? str_format(line + n, sizeof(line) - n, "%s", spec_path)
				       : str_format(line + n, sizeof(line) - n, "%c", *fmt);

		assert_true(more > 0);
		n += (size_t)more;
	}
	return line;
}

int run_begin(void **state)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC); /* nobody answers a question */
	int fd = mkstemp(spec_path);

	if (fd < 0 || null < 0 || dup2(null, STDIN_FILENO) < 0)
		abort();
	(void)close(fd);
	(void)close(null);
	return 0;
}

int run_end(void **state)
{
	protobuf_c_message_free_unpacked(ending.details, NULL);
	ending.details = NULL;
	(void)unlink(spec_path);
	return 0;
}

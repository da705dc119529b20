/* SPDX-License-Identifier: Apache-2.0 */
/* The system calls of each operation, in the order of their first use, against the list in
 * golden-syscalls.txt: what a reviewer has agreed to. A list that changes fails; "--write FILE" writes a new
 * one.
 *
 * The kernel decides about clock_gettime (the vDSO mostly answers it), so that is left out. A name with a "?"
 * in the file may be missing: before Linux 6.8 the mount table answers instead of statmount and listmount. */
#include "volume.h"

#include "base/fd.h"

#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define TRACE TEST_PREFIX "/trace"
#define HOST TEST_PREFIX "/host"
#define TARGET PLUGIN_STAGED "/" MH_CSI_PUBLISH_RW

enum { TRACE_MAX = 1 << 22, SEEN_MAX = 64, NAME_MAX_ = 24, LINE_MAX_ = 1024 };

static struct agent agent;

static void stage_a_disk(void)
{
	expect_stage(&agent, stage_disk(), MH_OK);
}

static void stage_it_again(void)
{
	expect_stage(&agent, stage_disk(), MH_ALREADY);
}

static void publish_it(void)
{
	expect_publish(&agent, publish_disk(), MH_OK);
}

static void publish_it_again(void)
{
	expect_publish(&agent, publish_disk(), MH_ALREADY);
}

static void unstage_in_use(void)
{
	expect_unstage(&agent, unstage("vol-1"), MH_BUSY);
}

static void unpublish_it(void)
{
	expect_unpublish(&agent, unpublish("vol-1"), MH_OK);
}

static void unpublish_it_again(void)
{
	expect_unpublish(&agent, unpublish("vol-1"), MH_ALREADY);
}

static void unstage_it(void)
{
	expect_unstage(&agent, unstage("vol-1"), MH_OK);
}

static void unstage_it_again(void)
{
	expect_unstage(&agent, unstage("vol-1"), MH_ALREADY);
}

static void stage_a_tmpfs(void)
{
	expect_stage(&agent, stage_tmpfs(), MH_OK);
}

static void publish_the_tmpfs(void)
{
	expect_publish(&agent, publish_tmpfs(), MH_OK);
}

static void unpublish_the_tmpfs(void)
{
	expect_unpublish(&agent, unpublish("mem-1"), MH_OK);
}

static void unstage_the_tmpfs(void)
{
	expect_unstage(&agent, unstage("mem-1"), MH_OK);
}

static struct mh_source host_directory(void)
{
	struct mh_source source = {.class = MH_CLASS_BIND};

	(void)str_copy(source.u.bind.name, sizeof(source.u.bind.name), "data");
	return source;
}

static struct mh_source plugin(void)
{
	return (struct mh_source){.class = MH_CLASS_CSI};
}

static void stage_a_host_directory(void)
{
	expect_stage(&agent, stage_of("data", host_directory(), false), MH_OK);
}

static void publish_a_host_directory(void)
{
	expect_publish(&agent, publish_of("data", host_directory(), false), MH_OK);
}

static void prepare_for_a_plugin(void)
{
	expect_stage(&agent, stage_of("plugin", plugin(), false), MH_OK);
}

static void stage_a_plugins_mount(void)
{
	assert_int_equal(mkdir(TARGET, 0755), 0);
	assert_int_equal(mount("plugin", TARGET, "tmpfs", 0, "mode=0777"), 0);
	expect_stage(&agent, stage_of("plugin", plugin(), false), MH_OK);
}

static void publish_a_plugins_mount(void)
{
	expect_publish(&agent, publish_of("plugin", plugin(), false), MH_OK);
}

static void unstage_after_the_plugin(void)
{
	assert_int_equal(umount2(TARGET, 0), 0);
	assert_int_equal(rmdir(TARGET), 0);
	expect_unstage(&agent, unstage_plugins("vol-1"), MH_OK);
}

static void be_refused(void)
{
	struct mh_stage req = stage_disk();

	req.ticket.signature[0] ^= 1;
	expect_stage(&agent, req, MH_REFUSED);
}

static void ask_for_a_volume(void)
{
	struct mh_reply reply;

	assert_true(agent_look(&agent, "vol-1", "", &reply));
}

static void list(enum mh_list_kind kind)
{
	struct mh_list_reply reply;

	assert_true(agent_list(&agent, kind, &reply));
}

static void list_staged_volumes(void)
{
	list(MH_LIST_STAGED);
}

static void list_publishes(void)
{
	list(MH_LIST_PUBLISHED);
}

static void list_the_profiles(void)
{
	list(MH_LIST_PROFILES);
}

static void close_the_socket(void)
{
	assert_int_equal(agent_stop_code(&agent), 0);
}

#define OPERATION(name)     \
	{                   \
#name, name \
	}
static const struct {
	const char *name;
	void (*run)(void);
} operations[] = {
	OPERATION(stage_a_disk),
	OPERATION(stage_it_again),
	OPERATION(publish_it),
	OPERATION(publish_it_again),
	OPERATION(ask_for_a_volume),
	OPERATION(list_staged_volumes),
	OPERATION(list_publishes),
	OPERATION(list_the_profiles),
	OPERATION(unstage_in_use),
	OPERATION(unpublish_it),
	OPERATION(unpublish_it_again),
	OPERATION(unstage_it),
	OPERATION(unstage_it_again),
	OPERATION(stage_a_tmpfs),
	OPERATION(publish_the_tmpfs),
	OPERATION(unpublish_the_tmpfs),
	OPERATION(unstage_the_tmpfs),
	OPERATION(stage_a_host_directory),
	OPERATION(publish_a_host_directory),
	OPERATION(unpublish_it),
	OPERATION(unstage_it),
	OPERATION(prepare_for_a_plugin),
	OPERATION(stage_a_plugins_mount),
	OPERATION(publish_a_plugins_mount),
	OPERATION(unpublish_it),
	OPERATION(unstage_after_the_plugin),
	OPERATION(be_refused),
	OPERATION(close_the_socket),
};

static pid_t attach_strace(pid_t helper)
{
	char pid[16];
	char tracer[256] = "0";
	pid_t strace = fork();

	(void)str_format(pid, sizeof(pid), "%d", (int)helper);
	if (strace == 0) {
		(void)execl("/usr/bin/strace", "strace", "-qq", "-o", TRACE, "-p", pid, (char *)NULL);
		_exit(127);
	}
	for (int i = 0; i < 5000 && str_eq(tracer, "0"); i++) {
		(void)usleep(1000);
		status_value(helper, "TracerPid", tracer);
	}
	assert_string_not_equal(tracer, "0");
	return strace;
}

/* The line of one operation. */
struct seen {
	size_t n;
	char name[SEEN_MAX][NAME_MAX_];
};

/* What strace of Debian 12 has no names for. */
static const struct {
	const char *number;
	const char *name;
} newer[] = {{"syscall_0x1c9", "statmount"}, {"syscall_0x1ca", "listmount"}};

static void see(struct seen *seen, const char *line)
{
	char name[NAME_MAX_];
	size_t n = strcspn(line, "(");

	if (line[n] != '(')
		return; /* a signal or the end */
	assert_true(n < sizeof(name) && seen->n < SEEN_MAX);
	memcpy(name, line, n);
	name[n] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(newer); i++)
		if (str_eq(name, newer[i].number))
			(void)str_copy(name, sizeof(name), newer[i].name);
	for (size_t i = 0; i < seen->n; i++)
		if (str_eq(seen->name[i], name))
			return;
	if (!str_eq(name, "clock_gettime"))
		(void)str_copy(seen->name[seen->n++], NAME_MAX_, name);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

static size_t count_requests(const char *text)
{
	size_t n = str_starts_with(text, "recvmsg(");

	while ((text = strstr(text, "\nrecvmsg("))) {
		n++;
		text++;
	}
	return n;
}

static bool traces_requests(void)
{
	cleanup_free char *text = NULL;

	return file_read(TRACE, TRACE_MAX, &text, NULL) == 0 && count_requests(text) > 0;
}

/* Each operation begins with the recvmsg that brings it. What comes before the last ones was to warm up. */
static void read_trace(struct seen *seen)
{
	char *text;
	char *rest;
	char *line;
	size_t request = 0;
	size_t warm_up;

	assert_int_equal(file_read(TRACE, TRACE_MAX, &text, NULL), 0);
	assert_true(count_requests(text) >= ARRAY_SIZE(operations));
	warm_up = count_requests(text) - ARRAY_SIZE(operations);
	rest = text;
	while ((line = strsep(&rest, "\n"))) {
		request += str_starts_with(line, "recvmsg(");
		if (request > warm_up)
			see(&seen[request - warm_up - 1], line);
	}
	for (size_t i = 0; i < ARRAY_SIZE(operations); i++)
		qsort(seen[i].name, seen[i].n, NAME_MAX_, by_name);
	free(text);
}

static void run_all(struct seen *seen)
{
	pid_t strace;

	agent_up(&agent);
	strace = attach_strace(agent.helper);
	/* strace sees no call until it has stopped the helper once, and no beginning of a recvmsg that waits
	 */
	do
		ask_for_a_volume();
	while (!traces_requests());
	for (size_t i = 0; i < ARRAY_SIZE(operations); i++)
		operations[i].run();
	assert_int_equal(waitpid(strace, NULL, 0), strace);
	memset(seen, 0, ARRAY_SIZE(operations) * sizeof(*seen));
	read_trace(seen);
}

static void format_line(const char *name, const struct seen *seen, char line[static LINE_MAX_])
{
	int n = str_format(line, LINE_MAX_, "%s:", name);

	for (size_t i = 0; i < seen->n; i++)
		n += str_format(line + n, LINE_MAX_ - (size_t)n, " %s", seen->name[i]);
}

static bool is_seen(const struct seen *seen, const char *name, size_t n)
{
	for (size_t i = 0; i < seen->n; i++)
		if (strlen(seen->name[i]) == n && memcmp(seen->name[i], name, n) == 0)
			return true;
	return false;
}

/* Are the names of @seen those of @golden, but for optional ones? @golden is taken apart. */
static bool is_as_agreed(char *golden, const struct seen *seen)
{
	char *rest = golden;
	const char *word;
	size_t agreed = 0;

	while ((word = strsep(&rest, " "))) {
		size_t n = strcspn(word, "?");
		bool found = is_seen(seen, word, n);

		agreed += found;
		if (!found && word[n] != '?')
			return false;
	}
	return agreed == seen->n;
}

static void every_operation_makes_the_calls_that_were_agreed_on(void **state)
{
	static struct seen seen[ARRAY_SIZE(operations)];
	char *text;
	char *rest;
	char *line;
	size_t i = 0;

	run_all(seen);
	assert_int_equal(file_read(GOLDEN_PATH, TRACE_MAX, &text, NULL), 0);
	rest = text;
	while ((line = strsep(&rest, "\n"))) {
		char *names = strstr(line, ": ");
		char found[LINE_MAX_];

		if (*line == '#' || *line == '\0')
			continue;
		assert_true(i < ARRAY_SIZE(operations) && names);
		*names = '\0';
		assert_string_equal(line, operations[i].name);
		format_line(operations[i].name, &seen[i], found);
		if (!is_as_agreed(names + 2, &seen[i]))
			fail_msg("not as in " GOLDEN_PATH ": %s", found);
		i++;
	}
	assert_int_equal(i, ARRAY_SIZE(operations));
	free(text);
}

static const char *write_to;

static void write_what_is_seen(void **state)
{
	static struct seen seen[ARRAY_SIZE(operations)];
	FILE *file = fopen(write_to, "we");

	run_all(seen);
	assert_non_null(file);
	for (size_t i = 0; i < ARRAY_SIZE(operations); i++) {
		char line[LINE_MAX_];

		format_line(operations[i].name, &seen[i], line);
		(void)fprintf(file, "%s\n", line);
	}
	assert_int_equal(fclose(file), 0);
}

static int up(void **state)
{
	(void)world_up(state);
	assert_int_equal(mkdir(HOST, 0755), 0);
	assert_int_equal(mkdir(HOST "/data", 0755), 0);
	assert_int_equal(chown(HOST "/data", TASK_UID, TASK_UID), 0);
	world_policy("required", "\thostvol data { path = " HOST "/data; owner_uid = 64104; exec = yes }\n"
				 "\tprofile plugin { class = csi; exec = yes }\n");
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest compare[] = {
		cmocka_unit_test(every_operation_makes_the_calls_that_were_agreed_on),
	};
	const struct CMUnitTest write[] = {
		cmocka_unit_test(write_what_is_seen),
	};

	if (argc == 3 && str_eq(argv[1], "--write")) {
		write_to = argv[2];
		return cmocka_run_group_tests(write, up, world_down);
	}
	return cmocka_run_group_tests(compare, up, world_down);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Commands about the server itself, tokens and completion against a model of it. */

#include "run.h"
#include "temp_dir.h"
#include "unit.h"

#include "base/fd.h"
#include "enroll/enroll_call.h"

#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* SHA-256 of "hello", in base64 as JSON has bytes. */
#define HELLO_SHA "LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ="
#define TOKEN "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const char *backup_line(const char *options)
{
	static char line[256];

	(void)unlink(spec_path);
	(void)str_format(line, sizeof(line), "operator backup %s%s", spec_path, options);
	return line;
}

static void expect_file(const char *text)
{
	cleanup_free char *found = NULL;
	size_t n;

	assert_int_equal(file_read(spec_path, 1 << 20, &found, &n), 0);
	assert_string_equal(found, text);
}

TEST_FIXTURE(a_backup_is_fetched_in_parts_and_checked, run_setup, NULL)
{
	struct stat st;

	will_answer(0, "Operator.BeginBackup",
		    "{\"id\": \"b1\", \"size_bytes\": 5, \"index\": 12, \"sha256\": \"" HELLO_SHA "\"}");
	will_answer(1, "Operator.ReadBackup", "{\"data\": \"aGVs\"}");
	will_answer(2, "Operator.ReadBackup", "{\"data\": \"bG8=\"}");
	expect_ok(backup_line(""));
	expect_file("hello");
	expect_request(
		"Operator.ReadBackup {\"id\":\"b1\"}\nOperator.ReadBackup {\"id\":\"b1\",\"offset\":\"3\"}\n"
		"Operator.ReadBackup {\"id\":\"b1\",\"offset\":\"5\"}\n"); /* all has arrived */
	expect_output("holds the state of index 12, 5 bytes");
	expect_output("\nSHA-256 ");
	assert_int_equal(stat(spec_path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600); /* it holds secrets */
	expect_failure(with_spec("operator backup @"), STATUS_ALREADY_EXISTS, "is not overwritten");
}

static bool is_begun(void)
{
	char temporary[64];
	glob_t found = {.gl_pathc = 0};
	bool is_found;

	(void)str_format(temporary, sizeof(temporary), "%s.part-*", spec_path);
	is_found = glob(temporary, 0, NULL, &found) == 0;
	globfree(&found);
	return is_found;
}

/* In a folder that a group may write, a member can make the file that a run would open. */
TEST_FIXTURE(a_backup_is_not_written_into_a_file_that_exists, run_setup, NULL)
{
	char foreign[64];
	const char *line = backup_line("");
	cleanup_close int fd = -EBADF;
	struct stat st, kept;

	(void)str_format(foreign, sizeof(foreign), "%s.part", spec_path);
	fd = open(foreign, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	will_answer(0, "Operator.BeginBackup",
		    "{\"id\": \"b1\", \"size_bytes\": 5, \"sha256\": \"" HELLO_SHA "\"}");
	will_answer(1, "Operator.ReadBackup", "{\"data\": \"aGVsbG8=\"}");
	expect_ok(line);
	expect_file("hello");
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 0);
	assert_int_equal(stat(spec_path, &kept), 0);
	assert_true(kept.st_ino != st.st_ino);
	assert_int_equal(kept.st_nlink, 1);
	(void)unlink(foreign);
}

int __real_link(const char *from, const char *to);

static bool no_links; /* FAT has none */

WRAPPED(int, link, const char *from, const char *to)
{
	errno = EPERM;
	return no_links ? -1 : __real_link(from, to);
}

TEST_FIXTURE(a_backup_is_written_where_there_are_no_hard_links, run_setup, NULL)
{
	will_answer(0, "Operator.BeginBackup",
		    "{\"id\": \"b1\", \"size_bytes\": 5, \"sha256\": \"" HELLO_SHA "\"}");
	will_answer(1, "Operator.ReadBackup", "{\"data\": \"aGVsbG8=\"}");
	no_links = true;
	expect_ok(backup_line(""));
	no_links = false;
	expect_file("hello");
	assert_false(is_begun());
}

static void write_into_its_place(void)
{
	write_spec("mine");
}

TEST_FIXTURE(a_whole_backup_that_cannot_have_its_name_is_kept, run_setup, NULL)
{
	char *kept;

	will_answer(0, "Operator.BeginBackup",
		    "{\"id\": \"b1\", \"size_bytes\": 5, \"sha256\": \"" HELLO_SHA "\"}");
	will_answer(1, "Operator.ReadBackup", "{\"data\": \"aGVsbG8=\"}");
	fake.answers[1].before = write_into_its_place;
	for (int i = 0; i < 2; i++) {
		no_links = i == 1;
		memset(fake.given, 0, sizeof(fake.given));
		expect_failure(backup_line(""), STATUS_ALREADY_EXISTS, "the whole backup is in ");
		no_links = false;
		expect_file("mine");
		kept = strstr(ending.err.msg, spec_path);
		assert_non_null(kept);
		*strchr(kept, ':') = '\0';
		assert_int_equal(rename(kept, spec_path), 0);
		expect_file("hello");
	}
}

TEST_FIXTURE(a_backup_that_is_not_whole_is_not_kept, run_setup, NULL)
{
	static const struct {
		const char *first, *second;
	} parts[] = {
		{"{\"data\": \"aGVs\"}", "{\"data\": \"bGw=\"}"}, /* another byte */
		{"{\"data\": \"aGVs\"}", "{}"},			  /* too short */
		{"{\"data\": \"aGVs\"}", "{\"data\": \"bG9v\"}"}, /* too long */
	};

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		char temporary[64];
		glob_t found = {.gl_pathc = 0};

		memset(fake.given, 0, sizeof(fake.given));
		will_answer(0, "Operator.BeginBackup",
			    "{\"id\": \"b1\", \"size_bytes\": 5, \"sha256\": \"" HELLO_SHA "\"}");
		will_answer(1, "Operator.ReadBackup", parts[i].first);
		will_answer(2, "Operator.ReadBackup", parts[i].second);
		expect_failure(backup_line(""), STATUS_DATA_LOSS, "");
		(void)str_format(temporary, sizeof(temporary), "%s*", spec_path);
		assert_int_equal(glob(temporary, 0, NULL, &found), GLOB_NOMATCH);
	}
}

TEST_FIXTURE(a_backup_is_not_begun_again_behind_its_deadline, run_setup, NULL)
{
	will_refuse(0, "Operator.BeginBackup", STATUS_ABORTED); /* another one is being made */
	expect_failure(backup_line(" --timeout 400ms"), STATUS_ABORTED, "");
	assert_int_equal(fake.given[0], 1);
}

static void end_with_file(void)
{
	(void)raise(is_begun() ? SIGINT : SIGKILL);
}

TEST_FIXTURE(a_backup_that_a_signal_ends_leaves_no_file, run_setup, NULL)
{
	const char *line = backup_line("");
	int status;
	pid_t pid;

	will_refuse(0, "Operator.BeginBackup", STATUS_ABORTED);
	fake.answers[0].before = end_with_file;
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		run(line);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGINT);
	assert_false(is_begun());
}

TEST_FIXTURE(a_restore_sends_all_before_it_applies, run_setup, NULL)
{
	write_spec("hello");
	will_answer(0, "Operator.BeginRestore", "{\"id\": \"r1\"}");
	will_answer(1, "Operator.WriteRestore", "{\"size_bytes\": 5}");
	will_answer(2, "Operator.ApplyRestore", "{\"epoch\": 2, \"index\": 12, \"nodes_to_report\": 3}");
	expect_usage_error(with_spec("operator restore @ --yes"), "give a reason with --reason");
	expect_usage_error(with_spec("operator restore @ --reason lost"), "give --yes");
	expect_ok(with_spec("operator restore @ --reason lost --yes --other-cluster"));
	assert_string_equal(
		fake.requests,
		"Operator.BeginRestore {\"sha256\":\"" HELLO_SHA "\",\"size_bytes\":\"5\"}\n"
		"Operator.WriteRestore {\"data\":\"aGVsbG8=\",\"id\":\"r1\"}\n"
		"Operator.ApplyRestore {\"id\":\"r1\",\"other_cluster\":true,\"reason\":\"lost\"}\n");
	expect_output("epoch 2; 3 nodes have to report");
	write_spec("");
	expect_failure(with_spec("operator restore @ --reason lost --yes"), STATUS_INVALID_ARGUMENT,
		       "is empty");
	expect_failure("operator restore /nonexistent --reason lost --yes", STATUS_NOT_FOUND,
		       "open /nonexistent");
}

TEST_FIXTURE(an_enrolment_line_names_the_address_that_the_server_listens_on, run_setup, NULL)
{
	static const struct {
		const char *options, *listed, *servers; /* of the line */
	} rows[] = {
		{"--address /s", "192.0.2.1:7", "192.0.2.1:7"},
		{"--address /s", "127.0.0.1:7", "127.0.0.1:7"}, /* by its name it is not reached */
		{"--address /s", "0.0.0.0:7", "box:7"},
		{"--address 127.0.0.1:8", "claims:7", "claims:7"},
		{"--address 127.0.0.1:8", "127.0.0.1:7", "127.0.0.1:8"},
		{"--address claims:8", "192.0.2.1:7", "claims:8"},
	};
	char listed[128], end[128], line[128];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		(void)str_format(listed, sizeof(listed),
				 "{\"servers\": [{\"name\": \"box\", \"address\": \"%s\"}]}", rows[i].listed);
		(void)str_format(end, sizeof(end), "/%s\n", rows[i].servers);
		will_answer(0, "Operator.CreateEnrollment",
			    "{\"cluster\": \"prod\", \"node\": \"n1\", \"role\": \"node\", \"token\": "
			    "\"" TOKEN "\", \"ca_sha256\": \"" HELLO_SHA "\"}");
		will_answer(1, "Operator.ListMembers", listed);
		(void)str_format(line, sizeof(line), "operator node enroll n1 %s", rows[i].options);
		expect_ok(line);
		expect_output(end);
	}
}

TEST_FIXTURE(members_are_servers_and_etcds, run_setup, NULL)
{
	will_answer(0, "Operator.ListMembers",
		    "{\"index\": 7, \"servers\": [{\"name\": \"s1\", \"address\": \"a:1\", \"leads\": true, "
		    "\"version\": \"1.0\"}, {\"name\": \"s2\", \"address\": \"b:1\"}], \"etcd\": "
		    "[{\"endpoint\": \"https://a:2379\", \"reachable\": true, \"lag\": 3, \"alarms\": "
		    "\"NOSPACE\"}, {\"endpoint\": \"https://b:2379\", \"error\": \"refused\"}]}");
	expect_ok("operator members");
	expect_output("s1   a:1     leads   -     1.0");
	expect_output("s2   b:1     follows -     -");
	expect_output("\nindex 7\n");
	expect_output("NOSPACE");
	expect_output("unreachable");
	fake.answers[0].json = "{\"servers\": [{\"name\": \"h\", \"address\": \"a:1\", \"leads\": true}]}";
	expect_ok("operator members");
	assert_null(strstr(ending.output, "ETCD"));
	will_answer(0, "Operator.StepDown", "{}");
	expect_ok("operator step-down");
	expect_request("Operator.StepDown {}");
}

TEST_FIXTURE(gc_removes_finished_objects, run_setup, NULL)
{
	will_answer(0, "Operator.Gc", "{\"claims\": 4}");
	expect_ok("operator gc --older-than 7d --dry-run");
	expect_request("Operator.Gc {\"dry_run\":true,\"older_than_ms\":\"604800000\"}");
	assert_string_equal(ending.output, "would be removed: 0 allocations, 4 claims, 0 attestations, 0 "
					   "tokens, 0 audit records, 0 revocations\n");
	expect_ok("operator gc");
	expect_output("removed: ");
	expect_usage_error("operator gc --older-than soon", "is not a duration");
}

TEST_FIXTURE(events_are_printed_as_they_come, run_setup, NULL)
{
	fake.events[0] = "{\"index\": 3}"; /* where it begins */
	fake.events[1] =
		"{\"index\": 4, \"topic\": \"node\", \"key\": \"node-1\", \"node\": {\"status\": \"DOWN\"}}";
	fake.events[2] = "{\"index\": 5, \"topic\": \"volume\", \"key\": \"default/db\", \"deleted\": true}";
	fake.events[3] = "{\"index\": 6, \"topic\": \"volume\", \"key\": \"default/a\", \"volume\": "
			 "{\"generation\": 7}}";
	expect_ok("operator watch node volume --index 3");
	expect_request(
		"Operator.Watch {\"index\":\"3\",\"namespace\":\"*\",\"topics\":[\"node\",\"volume\"]}");
	assert_string_equal(ending.output, "4 node node-1: down\n5 volume default/db: is gone\n"
					   "6 volume default/a: changed, generation 7\n");
	expect_ok("operator watch --json");
	expect_output("{\"index\":\"3\"}\n{\"index\":\"4\",\"topic\":\"node\"");
	expect_output("}\n{\"index\":\"5\"");
	fake.stream_end = STATUS_UNAVAILABLE;
	expect_failure("operator watch", STATUS_UNAVAILABLE, "the server ends the stream");
	expect_output("5 volume");
	fake.stream_end = STATUS_CANCELLED; /* nothing comes and nothing ends */
	expect_ok("operator watch --timeout 20ms");
	expect_usage_error("operator watch jobs", "nothing is called 'jobs'");
	fake.events[1] =
		"{\"index\": 4, \"topic\": \"job\", \"key\": \"default/web\", \"job\": {\"version\": 3}}";
	fake.events[2] = "{\"index\": 5, \"topic\": \"job\", \"key\": \"default/web\", \"job\": "
			 "{\"version\": 3, \"update_status\": 2}}";
	fake.events[3] = "{\"index\": 6, \"topic\": \"job\", \"key\": \"default/web\", \"job\": "
			 "{\"version\": 3, \"stop\": true}}";
	fake.stream_end = STATUS_OK;
	expect_ok("operator watch job");
	assert_string_equal(ending.output, "4 job default/web: version 3, update in progress\n"
					   "5 job default/web: version 3, update failed\n"
					   "6 job default/web: version 3, stopped\n");
}

TEST_FIXTURE(a_watch_prints_that_a_node_is_lost_and_why, run_setup, NULL)
{
	fake.events[0] = "{\"index\": 3}";
	fake.events[1] = "{\"index\": 4, \"topic\": \"node\", \"key\": \"n1\", \"node\": {\"status\": "
			 "\"READY\", \"disconnected_ms\": 1000}}";
	fake.events[2] = "{\"index\": 5, \"topic\": \"node\", \"key\": \"n2\", \"node\": {\"status\": "
			 "\"READY\", \"disconnected_ms\": 1000, \"disconnect_reason\": \"it is silent\"}}";
	fake.events[3] = "{\"index\": 6, \"topic\": \"node\", \"key\": \"n1\", \"node\": {\"status\": "
			 "\"READY\"}}";
	expect_ok("operator watch node");
	assert_string_equal(ending.output,
			    "4 node n1: lost\n5 node n2: lost: it is silent\n6 node n1: ready\n");
}

TEST_FIXTURE(the_server_reports_how_it_is_in_a_new_epoch, run_setup, NULL)
{
	will_answer(0, "Operator.Status",
		    "{\"epoch\": 3, \"restored_at_ms\": 1000, \"epoch_reason\": \"the log was cut\", "
		    "\"nodes_to_report\": 2, \"acl_enabled\": true, \"certificate_expires_at_ms\": 86400000, "
		    "\"warnings\": [\"it expires\"]}");
	expect_ok("operator status");
	expect_output("epoch                3\n");
	expect_output("2 nodes are still to report\n");
	expect_output("epoch reason         the log was cut\n");
	assert_null(strstr(ending.output, "restored")); /* it was not */
	expect_output("tokens               are taken\n");
	expect_output("certificate expires  1970-01-02T00:00:00.000Z\n");
	expect_output("warning              it expires\n");
}

TEST_FIXTURE(a_token_comes_from_a_file_that_others_cannot_read, run_setup, NULL)
{
	write_spec("0192-secret\n");
	expect_ok(with_spec("operator status --token-file @"));
	assert_string_equal(fake.token, "0192-secret");
	assert_int_equal(setenv("HOLDFAST_TOKEN_FILE", spec_path, 1), 0);
	expect_ok("node status");
	assert_string_equal(fake.token, "0192-secret");
	assert_int_equal(chmod(spec_path, 0604), 0);
	expect_failure("node status", STATUS_PERMISSION_DENIED, "everybody may read");
	assert_null(strstr(ending.err.msg, "0192"));
	assert_int_equal(chmod(spec_path, 0600), 0);
	write_spec("\n0192-secret");
	expect_failure("node status", STATUS_INVALID_ARGUMENT, "holds no token in its first line");
	(void)unlink(spec_path);
	expect_failure("node status", STATUS_NOT_FOUND, "read the token in");
	assert_int_equal(unsetenv("HOLDFAST_TOKEN_FILE"), 0);
	assert_int_equal(setenv("CREDENTIALS_DIRECTORY", "/tmp", 1), 0);
	expect_ok("node status"); /* credentials of another kind */
	assert_string_equal(fake.token, "");
}

TEST_FIXTURE(ids_are_offered_to_the_shell, run_setup, NULL)
{
	expect_ok("completion ids volume d");
	assert_string_equal(ending.output, "db\ndb2\n");
	expect_request("\"per_page\":200");
	expect_ok("completion ids node");
	assert_string_equal(ending.output, "node-1\nnode-2\n");
	expect_ok("completion ids alloc 02");
	assert_string_equal(ending.output, "02\n");
	will_answer(0, "Jobs.List", "{\"jobs\": [{\"id\": \"web\"}]}");
	expect_ok("completion ids job w");
	assert_string_equal(ending.output, "web\n");
	assert_non_null(strstr(fake.requests, "Jobs.List {"));
	assert_non_null(strstr(fake.requests, "\"prefix\":\"w\""));
	expect_usage_error("completion ids task", "there are no ids of 'task'");
	expect_usage_error("completion bash x", "unexpected argument 'x'");
}

WRAPPED(enum status, enroll_call, sd_event *event, const struct enroll_line *line, const char *path,
	char **ret_key, Holdfast__V1__EnrollResponse **ret, struct error *err)
{
	*ret_key = NULL;
	*ret = holdfast__v1__enroll_response__unpack(NULL, 0, (const uint8_t *)"");
	return STATUS_OK;
}

TEST_FIXTURE(an_enrolment_prints_paths_as_a_shell_reads_them, run_setup, NULL)
{
	char folder[TEMP_DIR_SIZE], out[TEMP_PATH_SIZE], text[4 * TEMP_PATH_SIZE], path[TEMP_PATH_SIZE];

	temp_dir_make(folder);
	(void)temp_dir_path(out, folder, "a;'b");
	(void)str_format(
		text, sizeof(text),
		"enroll holdfast-enroll/1/prod/operator:ann/" TOKEN "/" TOKEN "/claims:4656 --out %s", out);
	expect_ok(text);
	(void)str_format(text, sizeof(text),
			 "\nexport HOLDFAST_CACERT='%s/a;'\\''b/ca.pem' HOLDFAST_CLIENT_CERT='%s/a;'\\''b/"
			 "operator-ann.pem' HOLDFAST_CLIENT_KEY='%s/a;'\\''b/operator-ann.key'\n",
			 folder, folder, folder);
	expect_output(text);
	assert_int_equal(unlink(temp_dir_path(path, out, "ca.pem")), 0);
	assert_int_equal(unlink(temp_dir_path(path, out, "operator-ann.pem")), 0);
	temp_dir_remove(folder);
}

TEST_GROUP(run_begin, run_end)

/* SPDX-License-Identifier: Apache-2.0 */
/* Volumes for the members of a job from one file, and what is done with them when no file describes them. */

#include "failing_folder.h"
#include "run.h"
#include "temp_dir.h"
#include "unit.h"

#include "base/fd.h"

#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[TEMP_DIR_SIZE];

static int setup(void **state)
{
	temp_dir_make(folder);
	return run_setup(state);
}

static int teardown(void **state)
{
	temp_dir_remove(folder);
	return 0;
}

static void write_file(const char *name, const char *text)
{
	char path[TEMP_PATH_SIZE];

	assert_int_equal(file_write_atomic(temp_dir_path(path, folder, name), 0600, text, strlen(text)), 0);
}

static const char *with_folder(const char *fmt)
{
	static char line[256];

	(void)str_format(line, sizeof(line), "%s %s", fmt, folder);
	return line;
}

TEST_FIXTURE(each_member_is_a_volume_of_its_own, run_setup, NULL)
{
	write_spec("id = \"db\"\ntype = \"native\"\nprofile = \"p\"\nmembers = 3\n");
	expect_ok(with_spec("volume register @"));
	assert_string_equal(fake.calls,
			    "Volumes.Register(db[0]) Volumes.Register(db[1]) Volumes.Register(db[2]) ");
	expect_output("volume db[0] is registered\n");
	expect_output("volume db[2] is registered\n");
	expect_request("\"profile\":\"p\"");
	write_spec("id = \"db\"\nmembers = 1\n");
	fake.calls[0] = '\0';
	expect_ok(with_spec("volume register @"));
	assert_string_equal(fake.calls, "Volumes.Register(db[0]) ");
}

TEST_FIXTURE(members_are_created_one_after_the_other_until_one_fails, run_setup, NULL)
{
	write_spec("id = \"db\"\ntype = \"csi\"\nplugin_id = \"ebs\"\nmembers = 3\n");
	will_answer(0, "Volumes.Create",
		    "{\"created\": true, \"volume\": {\"id\": \"db[0]\", \"schedulable\": true}}");
	will_refuse(1, "Volumes.Create", STATUS_UNAVAILABLE);
	expect_failure(with_spec("volume create @"), STATUS_UNAVAILABLE, "volume db[1]: the server refuses");
	assert_non_null(strstr(ending.err.msg, "again resumes it"));
	expect_output("volume db[0] is created\n");
	assert_int_equal(fake.given[1], 1);
}

TEST_FIXTURE(a_wrong_number_of_members_is_found_before_anything_is_asked, run_setup, NULL)
{
	write_spec("id = \"db\"\nmembers = 0\n");
	expect_failure(with_spec("volume register @"), STATUS_INVALID_ARGUMENT,
		       "'members' is a number from 1 to 1000");
	write_spec("id = \"db\"\nmembers = \"3\"\n");
	expect_failure(with_spec("volume register @"), STATUS_INVALID_ARGUMENT,
		       "'members' is a number from 1 to 1000");
	write_spec("id = \"db\"\nmembers = 2\nexternal_id = \"vol-1\"\n");
	expect_failure(with_spec("volume register @"), STATUS_INVALID_ARGUMENT,
		       "names one volume of the provider");
	assert_string_equal(fake.requests, "");
}

TEST_FIXTURE(apply_takes_all_members_before_the_jobs, setup, teardown)
{
	write_file("db.volume.hcl", "id = \"db\"\ntype = \"native\"\nmembers = 2\n");
	write_file("web.job.hcl", "job \"web\" {\n  group \"app\" {\n  }\n}\n");
	will_refuse(0, "Volumes.Get", STATUS_NOT_FOUND);
	will_refuse(1, "Jobs.Get", STATUS_NOT_FOUND);
	will_answer(2, "Jobs.Plan", "{}");
	will_answer(3, "Jobs.Run", "{}");
	expect_ok(with_folder("apply -f"));
	assert_string_equal(ending.output,
			    "volume default/db[0]: registered\nvolume default/db[1]: registered\n"
			    "job default/web: created\n");
	assert_string_equal(fake.calls, "Volumes.Register(db[0]) Volumes.Register(db[1]) ");
	expect_usage_error("apply", "give one folder");
}

/* A mount flag may be a password. */
TEST_FIXTURE(a_difference_shows_no_mount_flag, setup, teardown)
{
	write_file("db.volume.hcl", "id = \"db\"\ntype = \"csi\"\nmount_options {\n  mount_flags = "
				    "[\"password=hunter2\"]\n}\n");
	will_answer(0, "Volumes.Get",
		    "{\"volume\": {\"id\": \"db\", \"type\": \"CSI\", \"mount_options\": {}}}");
	expect_ok(with_folder("apply --diff"));
	expect_output("mount_options.mount_flags: nothing -> \"set\"");
	assert_null(strstr(ending.output, "hunter2"));
	will_answer(0, "Volumes.Get", "{\"volume\": {\"id\": \"db\", \"type\": \"CSI\"}}");
	expect_ok(with_folder("apply --diff"));
	expect_output("mount_options: nothing -> {\"fs_type\":\"\",\"mount_flags\":\"set\"}");
	assert_null(strstr(ending.output, "hunter2"));
	will_answer(0, "Volumes.Get",
		    "{\"volume\": {\"id\": \"db\", \"type\": \"CSI\", \"mount_options\": "
		    "{\"mount_flags\": [\"[redacted]\"]}}}");
	expect_ok(with_folder("apply --diff"));
	assert_null(strstr(ending.output, "mount_flags"));
	assert_null(strstr(ending.output, "hunter2"));
}

/* A key of the provider is no secret of the volume, whatever its name is. */
TEST_FIXTURE(a_difference_shows_keys_named_secrets_below_the_top, setup, teardown)
{
	write_file("db.volume.hcl",
		   "id = \"db\"\ncontext {\n  secrets = \"new\"\n  mount_flags = \"sync\"\n}\n"
		   "secrets {\n  password = \"hunter2\"\n}\n");
	will_answer(0, "Volumes.Get", "{\"volume\": {\"id\": \"db\", \"context\": {\"secrets\": \"old\"}}}");
	expect_ok(with_folder("apply --diff"));
	expect_output("context.secrets: \"old\" -> \"new\"");
	expect_output("context.mount_flags: nothing -> \"sync\"");
	assert_null(strstr(ending.output, "hunter2"));
}

TEST_FIXTURE(a_key_of_a_difference_adds_no_line, setup, teardown)
{
	write_file("db.volume.hcl", "id = \"db\"\ncontext {\n  \"a\\npolicy ops: unchanged\" = \"2\"\n  "
				    "\"k8s.io/b\" = \"3\"\n}\n");
	will_answer(0, "Volumes.Get", "{\"volume\": {\"id\": \"db\", \"context\": {\"a\": \"1\"}}}");
	expect_ok(with_folder("apply --diff"));
	expect_output("context.\"a\\npolicy ops: unchanged\": nothing -> \"2\"\n");
	expect_output("context.k8s.io/b: nothing -> \"3\"\n");
}

TEST_FIXTURE(a_difference_shows_a_long_key, setup, teardown)
{
	char key[601], text[700];

	memset(key, 'k', sizeof(key) - 1);
	key[sizeof(key) - 1] = '\0';
	(void)snprintf(text, sizeof(text), "id = \"db\"\ncontext {\n  %s = \"2\"\n}\n", key);
	write_file("db.volume.hcl", text);
	will_answer(0, "Volumes.Get", "{\"volume\": {\"id\": \"db\", \"context\": {\"a\": \"1\"}}}");
	expect_ok(with_folder("apply --diff"));
	expect_output(key);
}

/* The end of a denial gives rights. */
TEST_FIXTURE(a_difference_shows_fields_that_a_policy_file_lacks, setup, teardown)
{
	write_file("p.policy.hcl", "description = \"new\"\nnamespace \"a\" {\n  policy = \"write\"\n}\n");
	will_answer(0, "Operator.ListPolicies",
		    "{\"policies\": [{\"name\": \"p\", \"description\": \"old\", \"node\": \"read\", "
		    "\"namespaces\": "
		    "[{\"namespace\": \"a\", \"policy\": \"write\", \"capabilities\": [\"deny\"]}], "
		    "\"create_index\": \"4\"}]}");
	expect_ok(with_folder("apply --diff"));
	expect_output("description: \"old\" -> \"new\"");
	expect_output("namespaces[0].capabilities: [\"deny\"] -> []");
	expect_output("node: \"read\" -> \"\"");
	assert_null(strstr(ending.output, "index"));
}

TEST_FIXTURE(a_difference_shows_fields_that_a_job_file_lacks, setup, teardown)
{
	static const char known[] = "{\"job\": {\"id\": \"web\", \"namespace\": \"default\", \"type\": "
				    "\"JOB_TYPE_SERVICE\", \"version\": "
				    "\"4\", \"modify_index\": \"9\", \"restart_version\": \"3\", \"groups\": "
				    "[{\"name\": \"app\", \"count\": 2, "
				    "\"restart_version\": \"3\", \"update\": {\"max_parallel\": 2}, "
				    "\"allocation\": {\"volumes\": [{\"name\": "
				    "\"v\", \"source\": \"db\", \"read_only\": true}]}}]}}";

	write_file("web.job.hcl", "job \"web\" {\n  type = \"service\"\n  group \"app\" {\n    count = 3\n"
				  "    volume \"v\" {\n      source = \"db\"\n    }\n  }\n}\n");
	will_answer(0, "Jobs.Get", known);
	will_answer(1, "Jobs.Plan", "{}");
	expect_ok(with_folder("apply --diff"));
	expect_output("groups[0].count: 2 -> 3\n");
	expect_output("groups[0].update: {\"max_parallel\":2");
	expect_output("groups[0].allocation.volumes[0].read_only: true -> false\n");
	assert_null(strstr(ending.output, "version"));
	assert_null(strstr(ending.output, "index"));
}

/* A folder of a tenant must not change rights in the whole cluster. */
TEST_FIXTURE(apply_in_one_namespace_refuses_policies, setup, teardown)
{
	write_file("p.policy.hcl", "namespace \"*\" {\n  policy = \"write\"\n}\n");
	write_file("db.volume.hcl", "id = \"db\"\n");
	expect_usage_error(with_folder("apply --namespace a"),
			   "p.policy.hcl: policies belong to the cluster, not to namespace a");
	assert_string_equal(fake.requests, "");
}

TEST_FIXTURE(the_namespace_of_a_context_counts_as_the_option, setup, teardown)
{
	char path[TEMP_PATH_SIZE];

	assert_int_equal(mkdir(temp_dir_path(path, folder, "holdfast"), 0700), 0);
	write_file("holdfast/contexts.json",
		   "{\"current\": \"\", \"contexts\": {\"c\": {\"namespace\": \"a\"}}}");
	assert_int_equal(setenv("XDG_CONFIG_HOME", folder, 1), 0);
	write_file("p.policy.hcl", "namespace \"*\" {\n  policy = \"write\"\n}\n");
	expect_usage_error(with_folder("apply --context c"), "and with no context that has one");
	assert_int_equal(unlink(temp_dir_path(path, folder, "p.policy.hcl")), 0);
	write_file("web.job.hcl", "job \"web\" {\n  namespace = \"b\"\n  group \"g\" {\n  }\n}\n");
	expect_usage_error(with_folder("apply --context c"), "--namespace a contradicts the file");
	assert_int_equal(unlink(temp_dir_path(path, folder, "web.job.hcl")), 0);
	write_file("db.volume.hcl", "id = \"db\"\n");
	will_refuse(0, "Volumes.Get", STATUS_NOT_FOUND);
	expect_ok(with_folder("apply --context c"));
	assert_string_equal(ending.output, "volume a/db: registered\n");
	assert_int_equal(unsetenv("XDG_CONFIG_HOME"), 0);
	assert_int_equal(unlink(temp_dir_path(path, folder, "holdfast/contexts.json")), 0);
	assert_int_equal(rmdir(temp_dir_path(path, folder, "holdfast")), 0);
}

TEST_FIXTURE(apply_shows_whether_a_provider_makes_the_volume, setup, teardown)
{
	write_file("a.volume.hcl", "id = \"a\"\ntype = \"csi\"\nexternal_id = \"vol-1\"\n");
	write_file("b.volume.hcl", "id = \"b\"\ntype = \"csi\"\n");
	will_refuse(0, "Volumes.Get", STATUS_NOT_FOUND);
	will_answer(1, "Volumes.Create", "{}");
	expect_ok(with_folder("apply --dry-run"));
	assert_string_equal(ending.output,
			    "volume default/a: would be registered\nvolume default/b: would be created\n");
	expect_ok(with_folder("apply"));
	assert_string_equal(ending.output, "volume default/a: registered\nvolume default/b: created\n");
}

/* As the server merges a registration: it takes some away and keeps the rest. */
TEST_FIXTURE(a_difference_shows_fields_that_a_volume_file_lacks, setup, teardown)
{
	write_file("db.volume.hcl",
		   "id = \"db\"\ntype = \"native\"\nsource {\n  class = \"tmpfs\"\n  size = \"1MiB\"\n}\n"
		   "context {\n  zone = \"z1\"\n}\n"
		   "capability {\n  access_mode = \"single-node-writer\"\n}\n");
	will_answer(0, "Volumes.Get",
		    "{\"volume\": {\"id\": \"db\", \"name\": \"db\", \"type\": \"NATIVE\", \"description\": "
		    "\"old\", \"warn_at\": 80, \"capacity_min\": \"1000\", \"generation\": \"7\", "
		    "\"source\": {\"class\": \"TMPFS\", \"size_bytes\": \"1048576\", \"inodes\": \"1024\"}, "
		    "\"context\": {\"zone\": \"z1\", \"pool\": \"p\"}, "
		    "\"requested_capabilities\": [{\"access_mode\": \"SINGLE_NODE_WRITER\", "
		    "\"attachment_mode\": \"FILE_SYSTEM\"}], \"snapshots\": {\"keep\": 3}}}");
	expect_ok(with_folder("apply --diff"));
	expect_output("    description: \"old\" -> \"\"\n");
	expect_output("    warn_at: 80 -> 0\n");
	expect_output("    context.pool: \"p\" -> nothing\n");
	expect_output("    snapshots: {");
	expect_output("    requested_capabilities[0].attachment_mode: \"FILE_SYSTEM\" -> ");
	assert_null(strstr(ending.output, "capacity"));
	assert_null(strstr(ending.output, "generation"));
	assert_null(strstr(ending.output, "name"));
	assert_null(strstr(ending.output, "source"));
}

TEST_FIXTURE(apply_ignores_names_that_begin_with_a_dot, setup, teardown)
{
	write_file(".b.volume.hcl", "id = \"b\"\n");
	write_file("a.volume.hcl", "id = \"a\"\n");
	will_refuse(0, "Volumes.Get", STATUS_NOT_FOUND);
	expect_ok(with_folder("apply"));
	assert_string_equal(ending.output, "volume default/a: registered\n");
}

static void link_to(const char *to, const char *name)
{
	char path[TEMP_PATH_SIZE];

	assert_int_equal(symlink(to, temp_dir_path(path, folder, name)), 0);
}

/* A folder of somebody else, and a file of the caller beside it. */
TEST_FIXTURE(a_folder_reads_no_file_outside_of_it, setup, teardown)
{
	static const char secrets[] =
		"id = \"db\"\ntype = \"csi\"\nplugin_id = \"p\"\nsecrets_file = \"%s\"\n";
	char text[512], up[TEMP_PATH_SIZE];

	write_spec("password = \"hunter2\"\n");
	(void)str_format(up, sizeof(up), "..%s", strrchr(spec_path, '/'));
	link_to(spec_path, "linked");
	const char *const names[] = {spec_path, up, "linked"};
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		(void)str_format(text, sizeof(text), secrets, names[i]);
		write_file("db.volume.hcl", text);
		expect_failure(with_folder("apply"), STATUS_INVALID_ARGUMENT,
			       "db.volume.hcl:4: 'secrets_file': ");
		assert_non_null(strstr(ending.err.msg, spec_path));
		assert_non_null(strstr(ending.err.msg, "with --outside it is read"));
		(void)str_format(text, sizeof(text), "volume register %s/db.volume.hcl", folder);
		expect_failure(text, STATUS_INVALID_ARGUMENT, "outside of the folder");
		assert_null(strstr(fake.requests, "hunter2"));
	}
	will_refuse(0, "Volumes.Get", STATUS_NOT_FOUND);
	will_answer(1, "Volumes.Create", "{\"volume\": {\"id\": \"db\"}}");
	expect_ok(with_folder("apply --outside"));
	expect_request("hunter2");
	fake.requests[0] = '\0';
	write_file("own", "password = \"own\"\n");
	write_file("db.volume.hcl",
		   "id = \"db\"\ntype = \"csi\"\nplugin_id = \"p\"\nsecrets_file = \"linked2\"\n");
	link_to("own", "linked2");
	expect_ok(with_folder("apply"));
	expect_request("\"password\":\"own\"");
}

int __real_file_open(const char *path);
int __wrap_file_open(const char *path);

static bool is_exchanged; /* each file, as soon as it is open */

int __wrap_file_open(const char *path)
{
	static const char other[] = "exchanged = 1\n";
	int fd = __real_file_open(path);

	if (is_exchanged)
		assert_int_equal(file_write_atomic(path, 0600, other, strlen(other)), 0);
	return fd;
}

TEST_FIXTURE(a_file_that_is_exchanged_after_its_check_is_not_read, setup, teardown)
{
	write_file("p.policy.hcl", "node {\n  policy = \"read\"\n}\n");
	write_file("db.volume.hcl",
		   "id = \"db\"\ntype = \"csi\"\nplugin_id = \"p\"\nsecrets_file = \"own\"\n");
	write_file("own", "password = \"own\"\n");
	write_file("web.job.hcl", "job \"web\" {\n  group \"app\" {\n  }\n}\n");
	will_answer(0, "Operator.ListPolicies", "{}");
	will_refuse(1, "Volumes.Get", STATUS_NOT_FOUND);
	will_refuse(2, "Jobs.Get", STATUS_NOT_FOUND);
	will_answer(3, "Jobs.Plan", "{}");
	is_exchanged = true;
	expect_ok(with_folder("apply --dry-run"));
	is_exchanged = false;
	expect_failure(with_folder("apply"), STATUS_INVALID_ARGUMENT, "exchanged");
}

/* Opening a pipe must not wait for a writer. */
TEST_FIXTURE(a_pipe_in_a_folder_is_refused, setup, teardown)
{
	char path[TEMP_PATH_SIZE];

	assert_int_equal(mkfifo(temp_dir_path(path, folder, "db.volume.hcl"), 0600), 0);
	expect_failure(with_folder("apply"), STATUS_INVALID_ARGUMENT, "db.volume.hcl: not a regular file");
}

TEST_FIXTURE(a_file_that_is_not_there_is_named, run_setup, NULL)
{
	expect_failure("volume register /nonexistent/db.hcl", STATUS_NOT_FOUND, "/nonexistent/db.hcl");
}

TEST_FIXTURE(a_file_of_a_folder_that_is_a_link_out_of_it_is_refused, setup, teardown)
{
	write_spec("id = \"db\"\ntype = \"native\"\n");
	link_to(spec_path, "db.volume.hcl");
	expect_failure(with_folder("apply"), STATUS_INVALID_ARGUMENT, "db.volume.hcl leads to /tmp/");
	assert_string_equal(fake.requests, "");
	will_refuse(0, "Volumes.Get", STATUS_NOT_FOUND);
	expect_ok(with_folder("apply --outside"));
}

TEST_FIXTURE(a_file_whose_name_cannot_be_printed_is_refused, setup, teardown)
{
	static const char *const names[] = {"a\xff.volume.hcl", "a\nb.volume.hcl",
					    "a\xe2\x80\xae.volume.hcl"};
	char path[TEMP_PATH_SIZE];

	write_file("README\xff", "no object");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		write_file(names[i], "id = \"db\"\n");
		expect_failure(with_folder("apply --json"), STATUS_INVALID_ARGUMENT, "rename it");
		(void)unlink(temp_dir_path(path, folder, names[i]));
	}
}

/* The folder itself may have any name, and an error may be cut within a character. */
TEST_FIXTURE(no_object_is_missing_from_json, setup, teardown)
{
	cleanup(json_decrefp) json_t *all = NULL;
	char path[TEMP_PATH_SIZE], line[TEMP_PATH_SIZE + 64];

	assert_int_equal(mkdir(temp_dir_path(path, folder, "f\xff"), 0700), 0);
	write_file("f\xff/db.volume.hcl", "id = \"db\"\ntype = \"native\"\n");
	will_refuse(0, "Volumes.Get", STATUS_NOT_FOUND);
	(void)str_format(line, sizeof(line), "apply --json %s", path);
	expect_ok(line);
	all = json_loads(ending.output, 0, NULL);
	assert_int_equal(json_array_size(all), 1);
	assert_non_null(strstr(json_string_value(json_object_get(json_array_get(all, 0), "file")), "f?/db"));
	assert_int_equal(unlink(temp_dir_path(line, folder, "f\xff/db.volume.hcl")), 0);
	assert_int_equal(rmdir(path), 0);
}

TEST_FIXTURE(a_long_difference_is_a_difference, setup, teardown)
{
	enum { LENGTH = 70000 };
	char *text = NON_NULL(malloc(LENGTH + 64));
	int n = snprintf(text, LENGTH + 64, "id = \"db\"\nname = \"%0*d\"\n", LENGTH, 0);

	assert_true(n > LENGTH);
	write_file("db.volume.hcl", text);
	free(text);
	will_answer(0, "Volumes.Get", "{\"volume\": {\"id\": \"db\", \"name\": \"a\"}}");
	expect_ok(with_folder("apply --diff"));
	expect_output("volume default/db: would be changed");
	expect_output("name: \"a\" -> \"000");
}

TEST_FIXTURE(prune_deletes_data_only_if_the_volume_asks_for_it, setup, teardown)
{
	write_file("db.volume.hcl", "id = \"db\"\ntype = \"native\"\nmembers = 1\n");
	will_refuse(0, "Volumes.Get", STATUS_NOT_FOUND);
	will_answer(1, "Jobs.List", "{}");
	will_answer(2, "Volumes.List",
		    "{\"volumes\": [{\"id\": \"db[0]\"}, {\"id\": \"old\", \"type\": \"CSI\", \"reclaim\": "
		    "\"RECLAIM_DELETE\", \"createIndex\": 7}, {\"id\": \"tmp\", \"type\": \"NATIVE\", "
		    "\"reclaim\": \"RECLAIM_DELETE\", \"createIndex\": 8}, "
		    "{\"id\": \"db[1]\", \"type\": \"CSI\", \"createIndex\": 9}]}");
	will_answer(3, "Volumes.Delete", "{}");
	expect_ok(with_folder("apply --prune --yes"));
	assert_string_equal(ending.output, "volume default/db[0]: registered\nvolume default/old: deleted\n"
					   "volume default/tmp: deregistered\n"
					   "volume default/db[1]: deregistered\n");
	expect_request("Volumes.Delete {\"id\":\"old\",\"if_create_index\":\"7\",\"if_reclaimed\":true,"
		       "\"namespace\":\"default\"}\n");
	expect_request("Volumes.Deregister {\"id\":\"tmp\",\"if_create_index\":\"8\","
		       "\"namespace\":\"default\"}\n");
	assert_string_equal(fake.calls,
			    "Volumes.Register(db[0]) Volumes.Deregister(tmp) Volumes.Deregister(db[1]) ");
}

TEST_FIXTURE(prune_removes_no_volume_that_it_could_not_tell_from_a_later_one, setup, teardown)
{
	write_file("db.volume.hcl", "id = \"db\"\ntype = \"native\"\nmembers = 1\n");
	will_refuse(0, "Volumes.Get", STATUS_NOT_FOUND);
	will_answer(1, "Jobs.List", "{}");
	will_answer(2, "Volumes.List", "{\"volumes\": [{\"id\": \"new\", \"type\": \"CSI\"}]}");
	expect_failure(with_folder("apply --prune --yes"), STATUS_FAILED_PRECONDITION,
		       "1 of the objects failed");
	assert_string_equal(fake.calls, "Volumes.Register(db[0]) ");
}

/* What could not be read is described, and not to be deleted. */
TEST_FIXTURE(apply_changes_nothing_for_a_folder_that_cannot_be_read_to_its_end, setup, teardown)
{
	write_file("db.volume.hcl", "id = \"db\"\ntype = \"native\"\n");
	folder_error = EIO;
	expect_failure(with_folder("apply --prune --yes"), status_from_errno(EIO), "cannot read the folder");
	folder_error = 0;
	assert_string_equal(fake.requests, "");
}

TEST_GROUP(run_begin, run_end)

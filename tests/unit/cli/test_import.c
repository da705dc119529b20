/* SPDX-License-Identifier: Apache-2.0 */
/* `job import` of the files of FOLDER, in the form that people write. NAME.out is the output for
 * NAME.nomad.hcl, with a comment for each remark. */

#include "../unit.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "call/spec.h"
#include "job/job_spec.h"
#include "nomad/import.h"

#include <glob.h>
#include <stdlib.h>

enum { FILES = 20, TAKEN_MIN = 13 };

static const char *const words[] = {"taken", "changed", "dropped", "refused"};

static struct nomad_import import_text(const char *text, const char *variable, const char *value)
{
	struct nomad_import import = {.text = NULL};
	cleanup(json_decrefp) json_t *values = variable ? json_pack("{ss}", variable, value) : NULL;
	cleanup(conf_freep) struct conf *conf = NULL;
	struct error err = {.msg = ""};

	if (conf_parse_whole(text, "s.hcl", CONF_EXPRESSIONS, &conf, &err) != STATUS_OK ||
	    conf_mistakes(conf, &err) != STATUS_OK || nomad_import(conf, values, &import, &err) != STATUS_OK)
		fail_msg("%s", err.msg);
	return import;
}

/* The output and its remarks. */
static char *print(const struct nomad_import *import)
{
	struct strbuf out = STRBUF_INIT(1 << 20);

	strbuf_puts(&out, import->text);
	for (size_t i = 0; i < import->n_remarks; i++) {
		assert_null(strchr(import->remarks[i].text, '\n'));
		assert_true(import->remarks[i].line > 0);
		strbuf_printf(&out, "# %u: %s\n", import->remarks[i].line, import->remarks[i].text);
	}
	return strbuf_take(&out);
}

/* Reads a file as `job plan` does, and checks it as the server does before it looks at nodes. */
static enum status plan(const char *text, struct error *err)
{
	Holdfast__V1__Job *job = NULL;
	cleanup(conf_freep) struct conf *conf = NULL;
	enum status status = conf_parse_whole(text, "out.hcl", CONF_REFERENCES, &conf, err);

	if (status == STATUS_OK)
		status = spec_job(conf, &job, err);
	if (status == STATUS_OK)
		status = job_validate(job, err);
	if (job)
		protobuf_c_message_free_unpacked(&job->base, NULL);
	return status;
}

static char *read_file(const char *path)
{
	char *text = NULL;
	size_t n;

	assert_msg(file_read(path, CONF_SIZE_MAX, &text, &n) >= 0, "%s cannot be read", path);
	return text;
}

/* Returns whether all of the file became a job. */
static bool see_file(const char *path)
{
	cleanup_free char *text = read_file(path), *wanted = NULL, *got = NULL;
	struct nomad_import import = import_text(text, "tag", "5"); /* of the one file without default */
	char out[PATH_MAX];
	struct error err = {.msg = ""};
	bool is_whole = import.n_refused == 0;

	(void)snprintf(out, sizeof(out), "%.*s.out", (int)(strlen(path) - strlen(".nomad.hcl")), path);
	got = print(&import);
	if (getenv("HOLDFAST_WRITE_GOLDEN"))
		assert_int_equal(file_write_atomic(out, 0644, got, strlen(got)), 0);
	wanted = read_file(out);
	assert_msg(strcmp(got, wanted) == 0, "%s: is\n%s", out, got);
	if (is_whole && plan(import.text, &err) != STATUS_OK)
		fail_msg("%s: %s", path, err.msg);
	nomad_import_release(&import);
	return is_whole;
}

TEST(files_as_people_write_them_are_imported)
{
	size_t n_whole = 0;
	glob_t files;

	assert_int_equal(glob(FOLDER "/*.nomad.hcl", 0, NULL, &files), 0);
	assert_int_equal(files.gl_pathc, FILES);
	for (size_t i = 0; i < files.gl_pathc; i++)
		n_whole += see_file(files.gl_pathv[i]);
	globfree(&files);
	assert_true(n_whole >= TAKEN_MIN);
}

/* The text of a file before and behind a member of a block. */
static const struct {
	const char *before, *behind;
} frames[NOMAD_BLOCK_N] = {
	[NOMAD_FILE] = {"job \"a\" {}\n", ""},
	[NOMAD_JOB] = {"job \"a\" {\n", "}"},
	[NOMAD_GROUP] = {"job \"a\" { group \"a\" {\n", "} }"},
	[NOMAD_TASK] = {"job \"a\" { group \"a\" { task \"a\" {\n", "} } }"},
	[NOMAD_VOLUME] = {"job \"a\" { group \"a\" { volume \"a\" {\n", "} } }"},
	[NOMAD_VOLUME_MOUNT] = {"job \"a\" { group \"a\" { task \"a\" { volume_mount {\n", "} } } }"},
	[NOMAD_CSI_PLUGIN] = {"job \"a\" { group \"a\" { task \"a\" { csi_plugin {\n", "} } } }"},
	[NOMAD_NETWORK] = {"job \"a\" { group \"a\" { network {\n", "} } }"},
	[NOMAD_CONSTRAINT] = {"job \"a\" { group \"a\" { constraint {\n", "} } }"},
	[NOMAD_UPDATE] = {"job \"a\" { group \"a\" { update {\n", "} } }"},
	[NOMAD_RESCHEDULE] = {"job \"a\" { group \"a\" { reschedule {\n", "} } }"},
	[NOMAD_RESTART] = {"job \"a\" { group \"a\" { task \"a\" { restart {\n", "} } } }"},
	[NOMAD_RESOURCES] = {"job \"a\" { group \"a\" { task \"a\" { resources {\n", "} } } }"},
	[NOMAD_LOGS] = {"job \"a\" { group \"a\" { task \"a\" { logs {\n", "} } } }"},
	[NOMAD_CONFIG] = {"job \"a\" { group \"a\" { task \"a\" { driver = \"docker\", config {\n",
			  "} } } }"},
};

static bool has_remark(const struct nomad_import *import, unsigned int line, const char *text)
{
	for (size_t i = 0; i < import->n_remarks; i++)
		if (import->remarks[i].line == line && strcmp(import->remarks[i].text, text) == 0)
			return true;
	return false;
}

TEST(each_key_that_holdfast_lacks_has_one_remark_with_its_line)
{
	for (size_t i = 0; i < nomad_key_count(); i++) {
		const struct nomad_key *row = nomad_key_at(i);
		char member[128], text[512], wanted[512];
		cleanup(nomad_import_release) struct nomad_import import = {.text = NULL};

		if (row->fate != NOMAD_DROPPED && row->fate != NOMAD_REFUSED)
			continue;
		(void)snprintf(member, sizeof(member), "%s {\n}\n", row->key);
		if (row->block == NOMAD_NETWORK && strcmp(row->key, "port") == 0)
			continue; /* each port has a remark */
		(void)snprintf(text, sizeof(text), "%s%s%s", frames[row->block].before, member,
			       frames[row->block].behind);
		(void)snprintf(wanted, sizeof(wanted), "%s is %s: %s", row->key, words[row->fate], row->text);
		import = import_text(text, NULL, NULL);
		assert_msg(has_remark(&import, 2, wanted), "%s: no remark '%s'", text, wanted);
		assert_int_equal(import.n_refused, row->fate == NOMAD_REFUSED);
		if (strstr(import.text, row->key) && row->block != NOMAD_UPDATE)
			fail_msg("%s is still in %s", row->key, import.text);
	}
}

/* The same of a file that was not imported: the specification has a hint for each of them. */
TEST(each_key_that_holdfast_lacks_has_a_hint_with_its_line)
{
	for (size_t i = 0; i < nomad_key_count(); i++) {
		const struct nomad_key *row = nomad_key_at(i);
		bool is_of_both = strcmp(row->key, "network") == 0 || strcmp(row->key, "driver") == 0 ||
				  strcmp(row->key, "operator") == 0 || strcmp(row->key, "mode") == 0 ||
				  row->block == NOMAD_LOGS || row->block == NOMAD_CONFIG;
		char member[128], text[512], wanted[512];
		struct error err = {.msg = ""};

		if (!row->text || is_of_both)
			continue;
		(void)snprintf(member, sizeof(member), "%s {\n}\n", row->key);
		(void)snprintf(text, sizeof(text), "%s%s%s", frames[row->block].before, member,
			       frames[row->block].behind);
		(void)snprintf(wanted, sizeof(wanted), "out.hcl:2: '%s' of Nomad does not exist here: %s",
			       row->key, row->text);
		assert_int_equal(plan(text, &err), STATUS_INVALID_ARGUMENT);
		assert_msg(strstr(err.msg, wanted), "%s: %s", wanted, err.msg);
	}
}

/* Of each service of a group or a task, one or several: without health an update waits for no check. */
TEST(each_check_of_a_service_is_named)
{
	struct nomad_import import =
		import_text("job \"a\" {\n  group \"a\" {\n    service {\n      check {\n"
			    "      }\n    }\n    task \"a\" {\n      service {\n      }\n"
			    "      service {\n        check {\n        }\n      }\n"
			    "    }\n  }\n}\n",
			    NULL, NULL);
	static const char wanted[] =
		"check is dropped: write a command that checks it into health of the task";

	assert_true(has_remark(&import, 4, wanted));
	assert_true(has_remark(&import, 11, wanted));
	assert_null(strstr(import.text, "check"));
	nomad_import_release(&import);
}

#define DOCKER(name, config) "    task \"" name "\" {\n driver = \"docker\"\n config {\n" config "}\n}\n"
#define GROUP(inner) "job \"a\" {\n  group \"a\" {\n" inner "  }\n}\n"

static bool tells_of_bridge(const char *text)
{
	struct nomad_import import = import_text(text, NULL, NULL);
	bool is_told =
		has_remark(&import, 2,
			   "group \"a\" is changed: there is no bridge, a task without network has only "
			   "a loopback interface; write network { mode = \"host\" } for the network of the "
			   "node");

	nomad_import_release(&import);
	return is_told;
}

TEST(a_task_on_the_bridge_of_nomad_is_remarked)
{
	assert_true(tells_of_bridge(GROUP(DOCKER("a", "") DOCKER("b", ""))));
	assert_true(tells_of_bridge(GROUP(DOCKER("a", "network_mode = \"bridge\"\n"))));
	assert_true(tells_of_bridge(GROUP("network {\n}\n" DOCKER("a", ""))));
	assert_false(tells_of_bridge(GROUP(DOCKER("a", "network_mode = \"host\"\n"))));
	assert_false(tells_of_bridge(GROUP(DOCKER("a", "") "network {\n mode = \"bridge\"\n}\n")));
	assert_false(tells_of_bridge(GROUP("task \"a\" {\n driver = \"exec\"\n}\n")));
}

TEST(a_csi_plugin_is_told_its_socket_and_its_devices)
{
	struct nomad_import import = import_text(
		GROUP(DOCKER("a", "args = [\"--endpoint=${CSI_ENDPOINT}\"]\nvolumes = [\"/dev:/dev\"]\n")),
		NULL, NULL);

	assert_true(has_remark(&import, 6,
			       "args is refused: ${CSI_ENDPOINT} is not replaced here; write "
			       "unix:///csi/csi.sock, where /csi is the mount_dir of csi_plugin"));
	assert_true(has_remark(&import, 7,
			       "volumes is refused: /dev: omit it, a privileged CSI plugin has /dev; devices "
			       "are not assigned to other tasks"));
	assert_int_equal(import.n_refused, 2);
	nomad_import_release(&import);
}

TEST(an_unknown_key_is_refused)
{
	struct nomad_import import =
		import_text("job \"a\" {\n  colour = \"red\"\n}\nthing {\n}\n", NULL, NULL);

	assert_true(has_remark(&import, 2, "colour is refused: Nomad has no such key here"));
	assert_true(has_remark(&import, 4, "thing is refused: Nomad has no such block here"));
	assert_int_equal(import.n_refused, 2);
	nomad_import_release(&import);
}

/* Returns group a of the job that the importer writes for @text; json_decref(). */
static json_t *import_group(const char *text, size_t *ret_refused)
{
	struct nomad_import import = import_text(text, NULL, NULL);
	cleanup(conf_freep) struct conf *conf = NULL;
	struct error err = {.msg = ""};
	const json_t *job;

	if (conf_parse(import.text, "out.hcl", &conf, &err) != STATUS_OK)
		fail_msg("%s\n%s", err.msg, import.text);
	*ret_refused = import.n_refused;
	nomad_import_release(&import);
	job = json_object_get(json_object_get(conf_root(conf), "job"), "a");
	return json_deep_copy(json_object_get(json_object_get(job, "group"), "a"));
}

/* A quote in a name must not end it: what follows would be a block that the importer has not seen. */
TEST(names_with_quotes_write_no_blocks)
{
	static const char volume[] =
		"job \"a\" {\n group \"a\" {\n volume \"A\\\" {\\n }\\n volume \\\"B\" {\n"
		" source = \"v\"\n }\n }\n}\n";
	static const char env[] =
		"job \"a\" {\n group \"a\" {\n task \"a\" {\n driver = \"docker\"\n env {\n"
		" \"A\\\" = \\\"b\\\"\\n }\\n config {\\n cap_add = [\\\"CAP_SYS_ADMIN\\\"]\\n }\\n"
		" env {\\n \\\"B\" = \"x\"\n \"\" = \"x\"\n \"a b\" = 1\n \"a.b\" = \"y\"\n"
		" }\n }\n }\n}\n";
	size_t n_refused;
	cleanup(json_decrefp) json_t *with_volume = import_group(volume, &n_refused);
	cleanup(json_decrefp) json_t *with_env = import_group(env, &n_refused);
	const json_t *task = json_object_get(json_object_get(with_env, "task"), "a");

	assert_int_equal(json_object_size(json_object_get(with_volume, "volume")), 1);
	assert_null(json_object_get(task, "config"));
	assert_int_equal(json_object_size(json_object_get(task, "env")), 1);
	assert_int_equal(n_refused, 3);
}

TEST(a_variable_without_default_gets_its_value_from_the_command_line)
{
	static const char text[] = "variable \"n\" {\n  type = number\n}\nvariable \"s\" {\n}\n"
				   "job \"a\" {\n  group \"a\" {\n    count = var.n\n  }\n}\n";
	struct nomad_import import = import_text(text, NULL, NULL);

	assert_true(has_remark(&import, 8,
			       "count is refused: variable n has no default; give it with --var NAME=VALUE"));
	assert_int_equal(import.n_refused, 1);
	nomad_import_release(&import);
	import = import_text(text, "n", "3");
	assert_non_null(strstr(import.text, "count = 3\n"));
	assert_int_equal(import.n_refused, 0);
	nomad_import_release(&import);
}

static void expect_error(const char *text, const char *wanted)
{
	struct nomad_import import = {.text = NULL};
	cleanup(conf_freep) struct conf *conf = NULL;
	struct error err = {.msg = ""};

	assert_int_equal(conf_parse_whole(text, "s.hcl", CONF_EXPRESSIONS, &conf, &err), STATUS_OK);
	assert_int_equal(nomad_import(conf, NULL, &import, &err), STATUS_INVALID_ARGUMENT);
	assert_string_equal(err.msg, wanted);
}

TEST(a_file_without_a_job_is_refused)
{
	expect_error("", "s.hcl:1: the file has no block job \"ID\" { }, or more than one");
	expect_error("job \"a\" {}\njob \"b\" {}",
		     "s.hcl:1: the file has no block job \"ID\" { }, or more than one");
	expect_error("{\"Job\": {}}", "s.hcl:1: JSON of Nomad's API is not read; give the HCL file");
}

TEST(expressions_have_the_values_that_nomad_gives_them)
{
	static const struct {
		const char *expression;
		const char *value; /* NULL: refused */
	} cases[] = {
		{"var.s", "\"x\""},
		{"\"a-${var.s}-${local.l}\"", "\"a-x-x1\""},
		{"\"${ var.m.k }\"", "\"v\""},
		{"var.m[\"k\"]", "\"v\""},
		{"\"${\"text\"}\"", "\"text\""},
		{"\"$${var.s} %%{x}\"", "\"$${var.s} %%{x}\""},
		{"\"${NOMAD_ALLOC_ID}\"", "\"${NOMAD_ALLOC_ID}\""},
		{"\"p ${NOMAD_PORT_http}\"", "\"p 80\""},
		{"\"${NOMAD_HOST_PORT_fixed}\"", "\"443\""},
		{"[\"a\", var.s]", NULL},
		{"var.m", NULL},
		{"\"${NOMAD_PORT_dynamic}\"", NULL},
		{"\"${NOMAD_ADDR_http}\"", NULL},
		{"\"${NOMAD_TASK_DIR}/x\"", NULL},
		{"\"%{ if true }x%{ endif }\"", NULL},
		{"upper(var.s)", NULL},
		{"var.s == \"x\" ? 1 : 2", NULL},
		{"var.unknown", NULL},
		{"local.unknown", NULL},
		{"var.m.unknown", NULL},
		{"local.circle", NULL},
		{"\"a${var.m}\"", NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char text[1024], wanted[128];
		cleanup(nomad_import_release) struct nomad_import import = {.text = NULL};

		(void)snprintf(text, sizeof(text),
			       "variable \"s\" {\n default = \"x\"\n}\nvariable \"m\" {\n default = { k = "
			       "\"v\" }\n}\n"
			       "locals {\n l = \"${var.s}1\"\n circle = local.circle\n}\n"
			       "job \"a\" {\n group \"a\" {\n network {\n port \"http\" { to = 80 }\n"
			       " port \"fixed\" { static = 443 }\n port \"dynamic\" {}\n }\n"
			       " task \"a\" {\n env {\n K = %s\n }\n }\n }\n}\n",
			       cases[i].expression);
		(void)snprintf(wanted, sizeof(wanted), "        K = %s\n",
			       cases[i].value ? cases[i].value : "");
		import = import_text(text, NULL, NULL);
		if (cases[i].value ? !strstr(import.text, wanted) : import.n_refused == 0)
			fail_msg("%s: %s", cases[i].expression, print(&import));
	}
}

/* @head: variables and locals, @env: of the task. */
static void expect_refused(const char *head, const char *env, const char *why)
{
	struct strbuf text = STRBUF_INIT(1 << 20);
	cleanup(nomad_import_release) struct nomad_import import = {.text = NULL};
	cleanup_free char *all = NULL;

	strbuf_puts(&text, head);
	strbuf_puts(&text, "job \"a\" {\n group \"a\" {\n task \"a\" {\n env {\n");
	strbuf_puts(&text, env);
	strbuf_puts(&text, " }\n }\n }\n}\n");
	import = import_text(text.data, NULL, NULL);
	strbuf_release(&text);
	all = print(&import);
	assert_true(import.n_refused > 0);
	assert_contains(all, why);
}

TEST(a_variable_that_names_itself_is_refused)
{
	expect_refused("variable \"a\" {\n default = \"${var.a}\"\n}\n", " K = var.a\n",
		       "var.a names itself");
	expect_refused("variable \"a\" {\n default = [local.b]\n}\nlocals {\n b = { k = var.a }\n}\n",
		       " K = local.b.k\n", "names itself");
}

TEST(values_that_multiply_are_refused)
{
	cleanup_strbuf struct strbuf head = STRBUF_INIT(1 << 20);

	strbuf_puts(&head, "locals {\n l0 = \"\"\n");
	for (int level = 1; level <= 4; level++) {
		strbuf_printf(&head, " l%d = \"", level);
		for (int i = 0; i < 50; i++)
			strbuf_printf(&head, "${local.l%d}", level - 1);
		strbuf_puts(&head, "\"\n");
	}
	strbuf_puts(&head, "}\n");
	expect_refused(head.data, " K = local.l4\n", "too many expressions that name others");
}

/* Few values, of many bytes. */
TEST(texts_that_multiply_are_refused)
{
	static const struct {
		const char *before, *behind;
	} rows[] = {{"long = \"", "\""}, {"\"", "\" = 1"}, {"long = \"${\"", "\"}\""}};
	char many[100000];

	memset(many, 'x', sizeof(many));
	for (size_t row = 0; row < ARRAY_SIZE(rows); row++) {
		cleanup_strbuf struct strbuf head = STRBUF_INIT(1 << 20), env = STRBUF_INIT(1 << 20);

		strbuf_printf(&head, "locals {\n l = { k = \"v\", %s", rows[row].before);
		strbuf_put(&head, many, sizeof(many));
		strbuf_printf(&head, "%s }\n}\n", rows[row].behind);
		for (int i = 0; i < 50; i++)
			strbuf_printf(&env, " K%d = local.l.k\n", i);
		expect_refused(head.data, env.data, "too many expressions that name others");
	}
}

TEST(each_value_is_evaluated_and_has_the_type_of_its_key)
{
	static const struct {
		enum nomad_block block;
		const char *member;
		const char *x;	    /* variable */
		const char *wanted; /* of the output and its remarks */
	} rows[] = {
		{NOMAD_JOB, "type = var.x\ngroup \"a\" {\nreschedule {\n}\n}\n", "batch",
		 " delay = \"5s\"\n"},
		{NOMAD_JOB, "update = [1]\n", "", "update is refused: it must be one block"},
		{NOMAD_JOB, "namespace = null\n", "", "namespace is refused: it is not a text in quotes"},
		{NOMAD_GROUP, "count = \"3\"\n", "", " count = 3\n"},
		{NOMAD_GROUP, "count = \"all\"\n", "", "count is refused: it is not a number"},
		{NOMAD_GROUP, "count = 3000000000\n", "", "count is refused: it is not a number"},
		{NOMAD_GROUP, "network {\n}\nnetwork {\n}\n", "", "network is refused: it must be one block"},
		{NOMAD_GROUP, "restart {\n}\nrestart {\n}\n", "", "restart is refused: it must be one block"},
		{NOMAD_GROUP,
		 "network {\nport \"p\" {\nto = var.x\nstatic = 80\n}\n}\ntask \"a\" {\n"
		 "env {\nP = \"${NOMAD_PORT_p}\"\n}\n}\n",
		 "8080", " P = \"8080\"\n"},
		{NOMAD_GROUP,
		 "volume \"v\" {\n}\ntask \"a\" {\nvolume_mount {\nvolume = var.x\n"
		 "propagation_mode = \"host-to-task\"\n}\n}\n",
		 "v",
		 "\n    volume \"v\" {\n      access_mode = \"single-node-multi-writer\"\n"
		 "      propagation = \"host-to-task\"\n"},
		{NOMAD_NETWORK, "mode = var.x\n", "none", " mode = \"none\"\n"},
		{NOMAD_NETWORK, "mode = 5\n", "", "mode is refused: 5 does not exist; use host or isolated"},
		{NOMAD_NETWORK, "port = 5\n", "", "port is refused: it must be a block with a name"},
		{NOMAD_VOLUME, "read_only = var.x\n", "true",
		 " access_mode = \"multi-node-reader-only\"\n      read_only = true\n    }"},
		{NOMAD_VOLUME, "access_mode = var.x\nread_only = false\n", "multi-node-reader-only",
		 " access_mode = \"multi-node-reader-only\"\n      read_only = true\n    }"},
		{NOMAD_VOLUME, "per_alloc = \"true\"\n", "", " per_alloc = true\n"},
		{NOMAD_UPDATE, "max_parallel = var.x\n", "4", " max_parallel = 4\n"},
		{NOMAD_UPDATE, "max_parallel = \"0\"\n", "", "max_parallel is changed: 0 is 1"},
		{NOMAD_UPDATE, "max_parallel = []\n", "", "max_parallel is refused: it is not a number"},
		{NOMAD_RESTART, "delay = var.x\n", "0s", " delay = \"1ms\"\n"},
		{NOMAD_RESTART, "delay = 5\n", "", "delay is refused: it is no duration"},
		{NOMAD_RESTART, "attempts = var.x\n", "-1", " attempts = -1\n"},
		{NOMAD_TASK, "driver = var.x\nconfig {\nimage = \"i\"\n}\n", "docker", " image = \"i\"\n"},
		{NOMAD_TASK, "driver = \"docker\"\nconfig {\n}\nconfig {\n}\n", "",
		 "config is refused: it must be one block"},
		{NOMAD_TASK, "user = 1000\n", "", "user = \"1000\"\n"},
		{NOMAD_TASK, "user = 1000\n", "", "user is changed: it is a text in quotes"},
		{NOMAD_TASK, "resources = [5]\n", "", "resources is refused: it must be one block"},
		{NOMAD_TASK, "env {\nRATE = 0.1\n}\n", "", " RATE = \"0.1\"\n"},
		{NOMAD_TASK, "env {\nRATE = \"r=${var.x}\"\n}\n", "0.1", " RATE = \"r=0.1\"\n"},
		{NOMAD_TASK, "env {\nRATE = \"r=${1.0}\"\n}\n", "", " RATE = \"r=1\"\n"},
		{NOMAD_TASK, "env {\nRATE = 0.12345678901234567\n}\n", "",
		 "RATE is refused: it is not a text"},
		{NOMAD_TASK, "env {\nRATE = 0.00000001\n}\n", "", "RATE is refused: it is not a text"},
		{NOMAD_TASK, "env {\nZ = null\n}\n", "", "Z is refused: it is not a text in quotes"},
		{NOMAD_TASK, "env {\nZ = \"z${null}\"\n}\n", "", "Z is refused: a list, a map, null or"},
		{NOMAD_RESOURCES, "cores = var.x\n", "4", " cpu_millis = 4000\n"},
		{NOMAD_RESOURCES, "cores = \"2\"\n", "", " cpu_millis = 2000\n"},
		{NOMAD_RESOURCES, "cores = true\n", "", "cores is refused: it is not a number"},
		{NOMAD_RESOURCES, "cpu = var.x\n", "500", " cpu_shares = 500\n"},
		{NOMAD_RESOURCES, "memory = \"512\"\n", "", " memory = 512\n"},
		{NOMAD_RESOURCES, "memory = 1.5\n", "", "memory is refused: it is not a number"},
		{NOMAD_RESOURCES, "memory = 512\nmemory_max = 0\n", "", "{\n        memory = 512\n      }"},
		{NOMAD_RESOURCES, "memory = 512\nmemory_max = 0\n", "",
		 "memory_max is dropped: memory is the limit"},
		{NOMAD_RESOURCES, "memory = 512\nmemory_max = var.x\n", "1024",
		 "{\n        memory = 1024\n      }"},
		{NOMAD_LOGS, "enabled = var.x\n", "true", " disabled = false\n"},
		{NOMAD_LOGS, "enabled = var.x\n", "false", " disabled = true\n"},
		{NOMAD_LOGS, "enabled = var.x\n", "2", "enabled is refused: it is not true or false"},
		{NOMAD_LOGS, "disabled = var.x\n", "true", " disabled = true\n"},
		{NOMAD_CONFIG, "privileged = \"true\"\n", "", " privileged = true\n"},
		{NOMAD_CONFIG, "args = [1, var.x, true]\n", "y", " args = [\"1\", \"y\", \"true\"]\n"},
		{NOMAD_CONFIG, "args = [null]\n", "", "args is refused: it is not a list of texts"},
		{NOMAD_CONFIG, "args = { a = 1 }\n", "", "args is refused: it is not a list of texts"},
		{NOMAD_CONFIG, "command = 5\nargs = [6]\n", "", " args = [\"5\", \"6\"]\n"},
		{NOMAD_CONFIG, "command = [5]\n", "", "command is refused: it is not a text in quotes"},
		{NOMAD_CONFIG, "entrypoint = \"/x\"\n", "", " command = [\"/x\"]\n"},
		{NOMAD_CONFIG, "cap_add = [[]]\n", "", "cap_add is refused: it is not a list of texts"},
		{NOMAD_CONFIG, "volumes = [var.x]\n", "/a:/b:ro", " host_paths = { \"/a\" = \"/b\" }\n"},
		{NOMAD_CONFIG, "volumes = [\"/a:/b:ro\", \"/a:/c:ro\"]\n", "",
		 "volumes is refused: /a: host_paths has one target for it"},
		{NOMAD_CONFIG,
		 "mount {\ntype = \"bind\"\nsource = \"/a\"\ntarget = var.x\nreadonly = \"true\"\n}\n", "/b",
		 " host_paths = { \"/a\" = \"/b\" }\n"},
		{NOMAD_CONFIG,
		 "mount {\ntype = \"bind\"\nsource = \"/a\"\ntarget = \"/b\"\nreadonly = true\n"
		 "bind_options {\n}\n}\n",
		 "", "mount is refused"},
		{NOMAD_CONFIG, "volumes = [\"data:/var/lib/x\"]\n", "",
		 "volumes is refused: data: data written there is lost with the container; register a "
		 "volume, and write a volume block and volume_mount\n"},
		{NOMAD_CONFIG, "volumes = [\"data:/var/lib/x:ro\"]\n", "", "volumes is refused: data: data"},
		{NOMAD_CONFIG, "volumes = [\"local:/a\", \"./data:/b\", \"secrets:/c\"]\n", "",
		 "volumes is dropped: ./data is no path of the host"},
		{NOMAD_CONFIG, "mount {\ntype = \"volume\"\nsource = var.x\ntarget = \"/b\"\n}\n", "data",
		 "mount is refused: data: data written there is lost with the container"},
		{NOMAD_CONFIG, "mount {\ntarget = \"/b\"\n}\n", "",
		 "mount is refused: a volume without a name: data written there is lost"},
		{NOMAD_CONFIG, "mount {\ntype = \"tmpfs\"\ntarget = \"/b\"\n}\n", "",
		 "mount is refused: use a volume block; of class tmpfs it is in memory"},
		{NOMAD_CONFIG, "volumes = [\"/a:/b:ro,rprivate\"]\n", "",
		 " host_paths = { \"/a\" = \"/b\" }\n"},
		{NOMAD_CONFIG, "volumes = [\"/a:/b:Z,ro\"]\n", "", " host_paths = { \"/a\" = \"/b\" }\n"},
		{NOMAD_CONFIG, "volumes = [\"/a:/b:ro,z\"]\n", "",
		 "z is dropped: /a: on nodes with SELinux, give it the type container_file_t\n"},
		{NOMAD_CONFIG, "volumes = [\"/a:/b:ro,rslave\"]\n", "",
		 "volumes is refused: /a: host_paths has no option rslave; use a volume of class bind\n"},
		{NOMAD_CONFIG, "volumes = [\"/a:/b:rshared,ro\"]\n", "",
		 "volumes is refused: /a: host_paths has no option rshared"},
		{NOMAD_CONFIG, "volumes = [\"/a:/b:ro,U,z\"]\n", "",
		 "volumes is refused: /a: host_paths has no option U"},
		{NOMAD_CONFIG, "volumes = [\"/a:/b:root\"]\n", "",
		 "volumes is refused: /a: a read-only folder"},
		{NOMAD_CONFIG, "volumes = [\"/a:/b:z\"]\n", "", "volumes is refused: /a: a read-only folder"},
		{NOMAD_CONFIG, "runtime = \"runsc\"\n", "", "runtime is refused"},
		{NOMAD_CONFIG, "security_opt = [\"seccomp=p\"]\n", "", "security_opt is refused"},
		{NOMAD_CONSTRAINT, "attribute = \"${meta.rack}\"\nvalue = var.x\n", "r1",
		 " value = \"r1\"\n"},
		{NOMAD_CONSTRAINT, "attribute = \"${attr.cpu.numcores}\"\nvalue = 4\n", "",
		 " value = \"4\"\n"},
		{NOMAD_CONSTRAINT, "attribute = \"${meta.rack}\"\nvalue = []\n", "",
		 "{\n  group \"a\" {\n  }\n}\n# 3: value is refused: it is not a text in quotes"},
		{NOMAD_CONSTRAINT, "attribute = \"${meta.a}${meta.b}\"\n", "", "constraint is refused"},
		{NOMAD_CONSTRAINT, "distinct_hosts = var.x\n", "true", " operator = \"distinct_hosts\"\n"},
		{NOMAD_CONSTRAINT, "distinct_hosts = var.x\n", "false",
		 "{\n  group \"a\" {\n  }\n}\n# 1: constraint is dropped: distinct_hosts is false"},
		{NOMAD_CONSTRAINT, "operator = \"distinct_hosts\"\nvalue = \"false\"\n", "",
		 "{\n  group \"a\" {\n  }\n}\n# 1: constraint is dropped: distinct_hosts is false"},
		{NOMAD_CONSTRAINT, "operator = \"distinct_hosts\"\nvalue = \"true\"\n", "",
		 " operator = \"distinct_hosts\"\n    }\n  }\n}\n# 1: constraint is changed: distinct_hosts "
		 "is "
		 "an operator without value\n# 5: variable"},
		{NOMAD_CONSTRAINT, "operator = \"distinct_hosts\"\nvalue = true\n", "",
		 "  }\n}\n# 1: constraint is changed: distinct_hosts is an operator without value\n# 5: "
		 "variable"},
		{NOMAD_CONSTRAINT, "operator = \"distinct_hosts\"\n", "", " operator = \"distinct_hosts\"\n"},
		{NOMAD_CONSTRAINT, "operator = \"distinct_hosts\"\nvalue = \"all\"\n", "",
		 "{\n  group \"a\" {\n  }\n}\n# 3: value is refused: it is not true or false"},
		{NOMAD_CONSTRAINT, "colour = 1\n", "", "colour is refused: Nomad has no such key here"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char text[1024];
		cleanup(nomad_import_release) struct nomad_import import = {.text = NULL};
		cleanup_free char *all = NULL;

		(void)snprintf(text, sizeof(text), "%s%s%s\nvariable \"x\" {\n}\n",
			       frames[rows[i].block].before, rows[i].member, frames[rows[i].block].behind);
		import = import_text(text, "x", rows[i].x);
		all = print(&import);
		assert_msg(strstr(all, rows[i].wanted), "%s: no '%s' in\n%s", rows[i].member, rows[i].wanted,
			   all);
		assert_msg((import.n_refused > 0) == (strstr(rows[i].wanted, "is refused") != NULL), "%s",
			   all);
	}
}

/* In Nomad the mode of the task wins. */
TEST(a_task_has_the_network_of_nomad_or_is_refused)
{
	static const struct {
		const char *group, *task, *wanted;
	} rows[] = {
		{"", "none", " network = \"none\"\n"},
		{"", "host", " network = \"host\"\n"},
		{"mode = \"bridge\"", "none", "network of the group is of all its tasks, and is host"},
		{"port \"p\" {}", "none", "network of the group is of all its tasks, and is host"},
		{"mode = \"none\"", "host", "network of the group is of all its tasks, and is none"},
		{"mode = \"none\"", "bridge", "network of the group is of all its tasks, and is none"},
		{"mode = \"host\"", "host", "network_mode is dropped: network of the group is it"},
		{"mode = \"bridge\"", "bridge", "network_mode is dropped: network of the group is it"},
		{"mode = \"none\"", "${\"none\"}", "network_mode is dropped: network of the group is it"},
		{"", "container:db", "network_mode is refused: container:db does not exist"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		for (int is_behind = 0; is_behind < 2; is_behind++) {
			char network[64], task[256], text[1024];
			cleanup(nomad_import_release) struct nomad_import import = {.text = NULL};
			cleanup_free char *all = NULL;

			(void)snprintf(network, sizeof(network), "network {\n%s\n}\n", rows[i].group);
			(void)snprintf(task, sizeof(task), DOCKER("a", "network_mode = \"%s\"\n"),
				       rows[i].task);
			(void)snprintf(text, sizeof(text), GROUP("%s%s"), is_behind ? task : network,
				       is_behind ? network : task);
			import = import_text(text, NULL, NULL);
			all = print(&import);
			assert_contains(all, rows[i].wanted);
			assert_int_equal(import.n_refused, strstr(all, "network_mode is refused") != NULL);
		}
}

TEST(a_task_that_waits_for_another_is_refused)
{
	static const struct {
		const char *type, *lifecycle;
		bool is_refused;
	} rows[] = {
		{"service", "hook = \"prestart\"\nsidecar = true\n", false},
		{"service", "hook = \"poststart\"\nsidecar = true\n", false},
		{"batch", "hook = \"poststart\"\nsidecar = true\n", true},
		{"service", "hook = \"prestart\"\nsidecar = false\n", true},
		{"service", "hook = \"prestart\"\n", true},
		{"service", "hook = \"poststart\"\n", true},
		{"service", "hook = \"poststop\"\n", true},
		{"service", "hook = \"poststop\"\nsidecar = true\n", true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char text[512];
		struct nomad_import import;

		(void)snprintf(text, sizeof(text),
			       "job \"a\" {\ntype = \"%s\"\ngroup \"a\" {\ntask \"a\" {\nlifecycle "
			       "{\n%s}\n}\n}\n}\n",
			       rows[i].type, rows[i].lifecycle);
		import = import_text(text, NULL, NULL);
		assert_int_equal(import.n_refused, rows[i].is_refused);
		nomad_import_release(&import);
	}
}

/* Without it a sidecar keeps a batch job from its end. */
TEST(a_batch_job_whose_leader_ends_other_tasks_is_refused)
{
	static const char sidecar[] =
		"task \"b\" {\nlifecycle {\nhook = \"poststart\"\nsidecar = true\n}\n}\n";
	static const char before[] = "task \"b\" {\nlifecycle {\nhook = \"prestart\"\n}\n}\n";
	static const struct {
		const char *type, *leader, *other;
		bool is_refused;
	} rows[] = {
		{"batch", "true", "task \"b\" {\n}\n", true},
		{"batch", "\"true\"", sidecar, true},
		{"batch", "false", "task \"b\" {\n}\n", false},
		{"batch", "true", before, false},
		{"batch", "true", "", false},
		{"service", "true", "task \"b\" {\n}\n", false},
		{"system", "true", sidecar, false},
	};
	static const char refused[] = "leader is refused: a batch job ends when all its tasks have ended, "
				      "and no task is stopped for "
				      "the leader; let the others end by themselves";

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char text[512];
		cleanup(nomad_import_release) struct nomad_import import = {.text = NULL};

		(void)snprintf(
			text, sizeof(text),
			"job \"a\" {\ntype = \"%s\"\ngroup \"a\" {\ntask \"a\" {\nleader = %s\n}\n%s}\n}\n",
			rows[i].type, rows[i].leader, rows[i].other);
		import = import_text(text, NULL, NULL);
		assert_int_equal(has_remark(&import, 5, refused), rows[i].is_refused);
		assert_int_not_equal(
			has_remark(&import, 5,
				   "leader is dropped: an allocation ends when one task fails or "
				   "all ended"),
			rows[i].is_refused);
	}
}

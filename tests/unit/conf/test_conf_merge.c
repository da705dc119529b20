/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/fd.h"
#include "conf/conf.h"

#include <sys/stat.h>

struct tree {
	char main[64], dir[64];
	char names[CONF_DROPINS_MAX + 8][32]; /* files of dir, to be removed */
	int n;
};

static int setup(void **state)
{
	static struct tree tree;
	char folder[] = "/tmp/conf-XXXXXX";

	if (!mkdtemp(folder))
		return -1;
	tree.n = 0;
	(void)str_format(tree.main, sizeof(tree.main), "%s/agent.hcl", folder);
	(void)str_format(tree.dir, sizeof(tree.dir), "%s/agent.d", folder);
	*state = &tree;
	return mkdir(tree.dir, 0700);
}

static void dropin(struct tree *tree, const char *name, const char *text)
{
	char path[128];

	(void)str_format(path, sizeof(path), "%s/%s", tree->dir, name);
	assert_int_equal(file_write_atomic(path, 0600, text, strlen(text)), 0);
	(void)str_copy(tree->names[tree->n++], sizeof(tree->names[0]), name);
}

static int teardown(void **state)
{
	struct tree *tree = *state;
	char path[128];

	for (int i = 0; i < tree->n; i++) {
		(void)str_format(path, sizeof(path), "%s/%s", tree->dir, tree->names[i]);
		(void)unlink(path);
	}
	(void)unlink(tree->main);
	(void)rmdir(tree->dir);
	*strrchr(tree->main, '/') = '\0';
	return rmdir(tree->main);
}

static struct conf *load(const struct tree *tree)
{
	struct conf *conf = NULL;
	struct error err = {0};

	assert_succeeds(conf_load_merged(tree->main, tree->dir, &conf, &err), err);
	return conf;
}

static void expect_place(const struct conf *conf, const char *block, const char *key, const char *want)
{
	json_t *object = block ? json_object_get(conf_root(conf), block) : conf_root(conf);
	struct error err = {0};

	assert_int_equal(conf_error(conf, object, key, &err, "x"), STATUS_INVALID_ARGUMENT);
	assert_msg(strstr(err.msg, want), "'%s' is not in '%s'", want, err.msg);
}

#define CASE(name) TEST_ON(name, struct tree, tree, setup, teardown)

CASE(later_files_replace_values_and_merge_objects)
{
	static const char main_text[] =
		"a = 1\nb { x = 1\n y = [1, 2] }\nc = \"main\"\np \"one\" { k = 1 }\n";
	cleanup(conf_freep) struct conf *conf = NULL;
	cleanup_free char *got = NULL;

	assert_int_equal(file_write_atomic(tree->main, 0600, main_text, strlen(main_text)), 0);
	dropin(tree, "20-b.json", "{\n\"a\": 3,\n\"b\": {\"y\": [3]}}");
	dropin(tree, "10-a.hcl", "a = 2\nb {\n\n z = 9 }\nd = true\np \"one\" { k = 2 }\np \"two\" { }\n");
	dropin(tree, "30-ignored.conf", "not = read ]");
	dropin(tree, ".40-hidden.hcl", "not = read ]");
	conf = load(tree);
	got = json_dumps(conf_root(conf), JSON_COMPACT);
	assert_string_equal(
		got, "{\"a\":3,\"b\":{\"x\":1,\"y\":[3],\"z\":9},\"c\":\"main\",\"p\":{\"one\":{\"k\":2},"
		     "\"two\":{}},\"d\":true}");
	expect_place(conf, NULL, "a", "/agent.d/20-b.json:2: x");
	expect_place(conf, NULL, "c", "/agent.hcl:4: x");
	expect_place(conf, NULL, "d", "/agent.d/10-a.hcl:5: x");
	expect_place(conf, "b", "x", "/agent.hcl:2: x");
	expect_place(conf, "b", "y", "/agent.d/20-b.json:3: x");
	expect_place(conf, "b", "z", "/agent.d/10-a.hcl:4: x");
	expect_place(conf, "p", "two", "/agent.d/10-a.hcl:7: x");
}

CASE(a_replaced_object_gives_way_to_a_value_and_back)
{
	cleanup(conf_freep) struct conf *conf = NULL;
	cleanup_free char *got = NULL;

	assert_int_equal(file_write_atomic(tree->main, 0600, "a { b = 1 }\nc = 1\n", 18), 0);
	dropin(tree, "1.hcl", "a = 5\nc { d = 1 }");
	dropin(tree, "2.hcl", "c { e = 2 }");
	conf = load(tree);
	got = json_dumps(conf_root(conf), JSON_COMPACT);
	assert_string_equal(got, "{\"a\":5,\"c\":{\"d\":1,\"e\":2}}");
}

CASE(a_missing_folder_is_fine_and_a_missing_main_file_is_not)
{
	struct conf *conf = NULL;
	struct error err = {0};

	assert_int_equal(conf_load_merged(tree->main, tree->dir, &conf, &err), STATUS_NOT_FOUND);
	assert_null(conf);
	assert_int_equal(file_write_atomic(tree->main, 0600, "a = 1", 5), 0);
	assert_int_equal(conf_load_merged(tree->main, "/nonexistent/conf.d", &conf, &err), STATUS_OK);
	conf_free(conf);
	conf = NULL;
	assert_int_equal(conf_load_merged(tree->main, tree->main, &conf, &err), STATUS_INVALID_ARGUMENT);
	assert_null(conf);
}

CASE(a_mistake_in_a_drop_in_names_that_file)
{
	struct conf *conf = NULL;
	struct error err = {0};

	assert_int_equal(file_write_atomic(tree->main, 0600, "a = 1", 5), 0);
	dropin(tree, "1.hcl", "b = 1\n");
	dropin(tree, "2.hcl", "b = 1\nc = ]\n");
	assert_error(conf_load_merged(tree->main, tree->dir, &conf, &err), STATUS_INVALID_ARGUMENT, err,
		     "/agent.d/2.hcl:2: a value expected");
	assert_null(conf);
}

CASE(the_number_of_drop_ins_is_limited)
{
	struct conf *conf = NULL;
	struct error err = {0};

	assert_int_equal(file_write_atomic(tree->main, 0600, "a = 1", 5), 0);
	for (int i = 0; i < CONF_DROPINS_MAX; i++) {
		char name[32];

		(void)str_format(name, sizeof(name), "%03d.hcl", i);
		dropin(tree, name, "a = 2");
	}
	conf_free(load(tree));
	dropin(tree, "one-more.hcl", "a = 3");
	assert_error(conf_load_merged(tree->main, tree->dir, &conf, &err), STATUS_INVALID_ARGUMENT, err,
		     "more than 256 files");
	assert_null(conf);
}

TEST(the_drop_in_folder_is_named_after_the_file)
{
	char dir[PATH_MAX], path[PATH_MAX];
	struct error err;

	assert_int_equal(conf_dropin_dir("/etc/holdfast/agent.hcl", dir, &err), STATUS_OK);
	assert_string_equal(dir, "/etc/holdfast/agent.d");
	assert_int_equal(conf_dropin_dir("settings", dir, &err), STATUS_OK);
	assert_string_equal(dir, "settings.d");
	memset(path, 'a', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(conf_dropin_dir(path, dir, &err), STATUS_INVALID_ARGUMENT);
	path[sizeof(path) - 3] = '\0'; /* ".d" just fits */
	assert_int_equal(conf_dropin_dir(path, dir, &err), STATUS_OK);
}

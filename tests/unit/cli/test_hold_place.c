/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/fd.h"
#include "hold/place.h"
#include "hold/spec.h"

#define ID "01890000-0000-7000-8000-000000000001"

static char folder[] = "/tmp/hold-place-XXXXXX";
static char spec_path[64], agent_path[64];
static struct hold_place place;

static int make_folder(void **state)
{
	struct error err;

	if (!mkdtemp(folder))
		return -1;
	(void)str_format(spec_path, sizeof(spec_path), "%s/spec.hcl", folder);
	(void)str_format(agent_path, sizeof(agent_path), "%s/agent.hcl", folder);
	return hold_place_init(&place, folder, folder, &err) == STATUS_OK ? 0 : -1;
}

static int remove_folder(void **state)
{
	(void)unlink(place.note);
	(void)unlink(place.link);
	(void)unlink(spec_path);
	(void)unlink(agent_path);
	return rmdir(folder);
}

static void put(const char *path, const char *text)
{
	assert_int_equal(file_write_atomic(path, 0600, text, strlen(text)), 0);
}

TEST(a_note_is_read_as_it_was_written)
{
	struct hold_note note = {.alloc_id = ID}, got = {.is_ending = true};
	struct error err;

	assert_int_equal(hold_note_read(&place, &got, &err), STATUS_OK);
	assert_string_equal(got.alloc_id, "");
	for (int is_ending = 0; is_ending < 2; is_ending++) {
		note.is_ending = is_ending;
		assert_int_equal(hold_note_write(&place, &note, &err), STATUS_OK);
		assert_int_equal(hold_note_read(&place, &got, &err), STATUS_OK);
		assert_string_equal(got.alloc_id, ID);
		assert_int_equal(got.is_ending, is_ending);
	}
	assert_int_equal(hold_note_remove(&place, &err), STATUS_OK);
	assert_int_equal(hold_note_remove(&place, &err), STATUS_OK);
	assert_int_equal(access(place.note, F_OK), -1);
}

TEST(a_note_that_is_damaged_is_no_note)
{
	static const char *const damaged[] = {
		"",
		"\n",
		ID,
		ID " ",
		ID " \n",
		ID " ending",
		ID " ended\n",
		ID " ending \n",
		ID " ending\n\n",
		"01890000-0000-7000-8000-00000000000g\n",
		"01890000-0000-7000-8000-00000000001\n",
		ID "0\n",
		ID "\n" ID "\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(damaged); i++) {
		struct hold_note got = {.alloc_id = "untouched"};
		struct error err = {.msg = ""};

		put(place.note, damaged[i]);
		if (hold_note_read(&place, &got, &err) != STATUS_FAILED_PRECONDITION)
			fail_msg("'%s' is taken", damaged[i]);
		assert_string_equal(got.alloc_id, "untouched");
		assert_non_null(strstr(err.msg, "Next:"));
	}
	assert_int_equal(file_write_atomic(place.note, 0600, ID "\n\0\n", sizeof(ID) + 2), 0);
	assert_int_equal(hold_note_read(&place, &(struct hold_note){.alloc_id = ""}, NULL),
			 STATUS_FAILED_PRECONDITION);
	(void)unlink(place.note);
}

TEST(the_link_is_replaced_and_removed)
{
	char path[PATH_MAX] = "untouched";
	struct error err;

	assert_false(hold_link_read(&place, path));
	assert_string_equal(path, "untouched");
	assert_int_equal(hold_link_make(&place, "/a", &err), STATUS_OK);
	assert_int_equal(hold_link_make(&place, "/b/c", &err), STATUS_OK);
	assert_true(hold_link_read(&place, path));
	assert_string_equal(path, "/b/c");
	hold_link_remove(&place);
	hold_link_remove(&place);
	assert_false(hold_link_read(&place, path));
}

TEST(a_missing_or_unmounted_path_counts_as_gone)
{
	assert_false(hold_is_gone("/"));
	assert_false(hold_is_gone("/proc"));
	assert_true(hold_is_gone(folder));
	assert_true(hold_is_gone("/tmp/hold-place-nothing"));
	assert_int_equal(hold_link_make(&place, "/", NULL), STATUS_OK);
	assert_true(hold_is_gone(place.link)); /* what it leads to is none of it */
	assert_true(hold_is_gone("/etc/passwd"));
	assert_false(hold_is_gone("/dev/null/x")); /* cannot be looked at */
}

TEST(folders_with_long_names_are_refused)
{
	struct hold_place got;
	cleanup_free char *name = NON_NULL(calloc(1, PATH_MAX + 1));

	memset(name, '/', PATH_MAX - NAME_MAX - 11 - 1); /* "/allocation" and the NUL */
	assert_int_equal(hold_place_init(&got, name, "/r", NULL), STATUS_OK);
	name[strlen(name)] = '/';
	assert_int_equal(hold_place_init(&got, name, "/r", NULL), STATUS_INVALID_ARGUMENT);
}

#define VOLUME "volume \"data\" {\n source = \"db\"\n access_mode = \"single-node-writer\"\n}\n"

static enum status load(const char *spec, const char *agent, char ret_node[static 64], struct error *err)
{
	Holdfast__V1__Allocation *alloc = NULL;
	struct invocation inv = {.n_args = 0};
	enum status status;

	put(spec_path, spec);
	(void)unlink(agent_path);
	if (agent)
		put(agent_path, agent);
	status = hold_spec_load(&inv, spec_path, agent_path, &alloc, err);
	if (status == STATUS_OK) {
		assert_string_equal(alloc->id, "");
		assert_int_equal(alloc->n_volumes, 1);
		assert_int_equal(str_copy(ret_node, 64, alloc->node_id), 0);
		holdfast__v1__allocation__free_unpacked(alloc, NULL);
	}
	return status;
}

TEST(the_node_is_the_one_of_the_agents_settings)
{
	static const struct {
		const char *spec, *agent, *node;
	} cases[] = {
		{"name = \"a\"\n" VOLUME, "node_id = \"w1\"\ncluster = \"c\"\n", "w1"},
		{"name = \"a\"\nnode = \"w1\"\n" VOLUME, "node_id = \"w1\"\n", "w1"},
		{"name = \"a\"\nnode = \"w2\"\n" VOLUME, NULL, "w2"},
		{"name = \"a\"\ndriver = \"none\"\n" VOLUME, "node_id = \"w1\"\n", "w1"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char node[64];
		struct error err = {.msg = ""};

		if (load(cases[i].spec, cases[i].agent, node, &err) != STATUS_OK)
			fail_msg("%zu: %s", i, err.msg);
		assert_string_equal(node, cases[i].node);
	}
}

TEST(a_file_that_is_not_for_one_volume_of_this_node_is_refused_with_its_line)
{
	static const struct {
		const char *spec, *agent, *text;
	} cases[] = {
		{"name = \"a\"\nnode = \"w2\"\n" VOLUME, "node_id = \"w1\"\n",
		 "spec.hcl:2: the volume would be mounted on"},
		{"name = \"a\"\n" VOLUME, NULL, "which node is this?"},
		{"name = \"a\"\n" VOLUME, "node_id = 5\n", "agent.hcl:1: node_id names no node"},
		{"name = \"a\"\n" VOLUME, "cluster = \"c\"\n", "node_id names no node"},
		{"name = \"a\"\n" VOLUME, "node_id = \n", "agent.hcl:1: "},
		{"name = \"a\"\n", "node_id = \"w1\"\n", "here are 0"},
		{"name = \"a\"\n" VOLUME
		 "volume \"b\" {\n source = \"x\"\n access_mode = \"single-node-writer\"\n}\n",
		 "node_id = \"w1\"\n", "here are 2"},
		{"name = \"a\"\nid = \"" ID "\"\n" VOLUME, "node_id = \"w1\"\n", "spec.hcl:2: leave id out"},
		{"name = \"a\"\nnonsense = 1\n" VOLUME, "node_id = \"w1\"\n", "spec.hcl:2: "},
		{"name = \"a\"\n" VOLUME "csi_plugin {\n id = \"p\"\n type = \"node\"\n}\n",
		 "node_id = \"w1\"\n", "runs no plugin"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char node[64];
		struct error err = {.msg = ""};

		assert_msg(load(cases[i].spec, cases[i].agent, node, &err) == STATUS_INVALID_ARGUMENT &&
				   strstr(err.msg, cases[i].text),
			   "%zu: '%s' is not in '%s'", i, cases[i].text, err.msg);
	}
}

TEST_GROUP(make_folder, remove_folder)

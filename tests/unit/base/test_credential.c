/* SPDX-License-Identifier: Apache-2.0 */
#include "temp_dir.h"
#include "unit.h"

#include "base/credential.h"
#include "base/fd.h"

#include <limits.h>

static char dir[TEMP_DIR_SIZE];

static int setup(void **state)
{
	char path[TEMP_PATH_SIZE];

	temp_dir_make(dir);
	(void)temp_dir_path(path, dir, "node.key");
	return file_write_atomic(path, 0400, "x", 1) || setenv("CREDENTIALS_DIRECTORY", dir, 1);
}

static int teardown(void **state)
{
	temp_dir_remove(dir);
	return unsetenv("CREDENTIALS_DIRECTORY");
}

TEST_FIXTURE(a_credential_is_found_by_its_name, setup, teardown)
{
	char path[PATH_MAX] = "as it was", wanted[TEMP_PATH_SIZE];

	assert_int_equal(credential_path("other.key", path, sizeof(path)), -ENOENT);
	assert_string_equal(path, "as it was");
	assert_int_equal(credential_path("node.key", path, sizeof(path)), 0);
	assert_string_equal(path, temp_dir_path(wanted, dir, "node.key"));
	assert_int_equal(credential_path("node.key", path, strlen(wanted)), -ENAMETOOLONG);
	assert_int_equal(credential_path("node.key", path, strlen(wanted) + 1), 0);
}

TEST_FIXTURE(a_folder_with_a_relative_path_holds_no_credential, setup, teardown)
{
	char path[PATH_MAX];

	assert_int_equal(setenv("CREDENTIALS_DIRECTORY", ".", 1), 0);
	assert_int_equal(credential_path("node.key", path, sizeof(path)), -ENOENT);
	assert_int_equal(unsetenv("CREDENTIALS_DIRECTORY"), 0);
	assert_int_equal(credential_path("node.key", path, sizeof(path)), -ENOENT);
	assert_false(credential_is_one("/node.key"));
}

TEST_FIXTURE(the_settings_go_before_a_credential_and_that_before_the_fallback, setup, teardown)
{
	char path[PATH_MAX] = "/from/settings";

	assert_false(credential_choose("node.key", "/fallback", path, sizeof(path)));
	assert_string_equal(path, "/from/settings");
	assert_false(credential_is_one(path));
	path[0] = '\0';
	assert_false(credential_choose("node.key", "/fallback", path, sizeof(path)));
	assert_true(credential_is_one(path));
	path[0] = '\0';
	assert_true(credential_choose("other.key", "/fallback", path, sizeof(path)));
	assert_string_equal(path, "/fallback");
}

TEST_FIXTURE(a_secret_is_its_owners_or_roots_with_an_access_list, setup, teardown)
{
	static const struct {
		uid_t uid;
		gid_t gid;
		mode_t mode;
		bool is_private;
	} cases[] = {
		{1, 1, 0600, true},  {1, 1, 0400, true},  {0, 0, 0440, true},  {1, 1, 0440, false},
		{0, 1, 0440, false}, {1, 0, 0440, false}, {0, 0, 0444, false}, {0, 0, 0460, false},
		{0, 0, 0450, false}, {1, 1, 0610, false}, {1, 1, 0601, false},
	};
	char path[TEMP_PATH_SIZE];

	(void)temp_dir_path(path, dir, "node.key");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct stat st = {
			.st_uid = cases[i].uid, .st_gid = cases[i].gid, .st_mode = S_IFREG | cases[i].mode};

		assert_int_equal(credential_is_private(path, &st), cases[i].is_private);
		assert_int_equal(credential_is_private("/etc/node.key", &st),
				 (cases[i].mode & 077) == 0); /* no credential */
	}
}

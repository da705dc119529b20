/* SPDX-License-Identifier: Apache-2.0 */
#include "failing_folder.h"
#include "temp_dir.h"

#include "base/cleanup.h"
#include "base/folder.h"

#include <fcntl.h>

static void expect_read(const char *path, int last)
{
	cleanup_closedir DIR *folder = NON_NULL(opendir(path));
	const struct dirent *entry;
	int r, n = 0;

	errno = EBADF; /* of an earlier call */
	while ((r = folder_next(folder, &entry)) > 0) {
		assert_true(str_eq(entry->d_name, "a") || str_eq(entry->d_name, ".b"));
		errno = EBADF;
		n++;
	}
	assert_int_equal(r, last);
	assert_null(entry);
	assert_int_equal(n, 2);
}

TEST(a_failure_is_not_the_end_of_a_folder)
{
	char folder[TEMP_DIR_SIZE], path[TEMP_PATH_SIZE];

	temp_dir_make(folder);
	assert_int_equal(close(creat(temp_dir_path(path, folder, "a"), 0600)), 0);
	assert_int_equal(close(creat(temp_dir_path(path, folder, ".b"), 0600)), 0);
	expect_read(folder, 0);
	folder_error = EIO;
	expect_read(folder, -EIO);
	folder_error = 0;
	temp_dir_remove(folder);
}

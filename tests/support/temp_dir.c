/* SPDX-License-Identifier: Apache-2.0 */
#include "temp_dir.h"

#include "unit.h"

#include <dirent.h>
#include <fcntl.h>

void temp_dir_make(char dir[static TEMP_DIR_SIZE])
{
	assert_int_equal(str_copy(dir, TEMP_DIR_SIZE, "/tmp/holdfast-test-XXXXXX"), 0);
	assert_non_null(mkdtemp(dir));
}

void temp_dir_remove(const char *dir)
{
	DIR *entries = opendir(dir);
	const struct dirent *entry;

	assert_non_null(entries);
	while ((entry = readdir(entries))) {
		if (str_eq(entry->d_name, ".") || str_eq(entry->d_name, ".."))
			continue;
		if (unlinkat(dirfd(entries), entry->d_name, 0) < 0)
			assert_int_equal(unlinkat(dirfd(entries), entry->d_name, AT_REMOVEDIR), 0);
	}
	(void)closedir(entries);
	assert_int_equal(rmdir(dir), 0);
}

char *temp_dir_path(char path[static TEMP_PATH_SIZE], const char *dir, const char *name)
{
	assert_true(str_format(path, TEMP_PATH_SIZE, "%s/%s", dir, name) > 0);
	return path;
}

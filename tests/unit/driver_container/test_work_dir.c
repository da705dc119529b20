/* SPDX-License-Identifier: Apache-2.0 */
/* The folders that podman would make or give away before a start. */
#include "unit.h"
#include "work_dir.h"

#include "base/str.h"

#include <stdio.h>

/* The folders that are asked about, each with a blank behind it; "refused" */
static void look(const char *work_dir, const char *mount, char ret[static 1024])
{
	json_t *inspected = json_pack("{s:{s:s?}, s:[{s:s}]}", "Config", "WorkingDir", work_dir, "Mounts",
				      "Destination", mount);
	char path[WORK_DIR_SIZE], query[WORK_DIR_QUERY_SIZE];
	bool is_read = work_dir_read(inspected, path);
	size_t at = 0, n = 0;

	json_decref(inspected);
	(void)str_copy(ret, 1024, is_read ? "" : "refused");
	while (is_read && work_dir_next(path, &at, query))
		n += (size_t)snprintf(ret + n, 1024 - n, "%s ", query);
}

TEST(each_folder_on_the_way_is_asked_about)
{
	static const struct {
		const char *work_dir, *mount, *asked;
	} rows[] = {
		{NULL, "/v", ""},
		{"", "/v", ""},
		{"/", "/v", ""},
		{"/app", "/v", "%2Fapp "},
		{"/srv//a+b/./c@d/", "/v", "%2Fsrv %2Fsrv%2Fa%2Bb %2Fsrv%2Fa%2Bb%2Fc%40d "},
		{"/[w]/x", "/v", "refused"}, /* podman describes /w/x */
		{"/w?", "/v", "refused"},
		{"/w*", "/v", "refused"},
		{"/\\w", "/v", "refused"},
		{"/a b", "/v", "refused"},
		{"/proc/1", "/v", "refused"},
		{"/v", "/v", ""},
		{"/v/x", "/v", ""},
		{"/vx", "/v", "%2Fvx "},
		{"/v", "/v/x", "%2Fv "},
		{"/v", "/", "%2Fv "},
		{"/v", "", "%2Fv "},
		{"app", "/v", "refused"},
		{"/v/../etc", "/v", "refused"},
		{"/a/..", "/v", "refused"},
		{"/..a/...", "/v", "%2F..a %2F..a%2F... "},
		{"/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17", "/v", "refused"},
	};
	char asked[1024];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		look(rows[i].work_dir, rows[i].mount, asked);
		assert_string_equal(asked, rows[i].asked);
	}
}

TEST(a_path_that_is_too_long_is_refused)
{
	char path[WORK_DIR_SIZE + 1], longer[1 << 16] = "", asked[1024];

	memset(path, '/', sizeof(path));
	memset(path + 1, 'a', sizeof(path) - 1);
	path[WORK_DIR_SIZE - 1] = '\0';
	look(path, "/v", asked);
	assert_int_equal(strlen(asked), strlen("%2F ") + WORK_DIR_SIZE - 2);
	path[WORK_DIR_SIZE - 1] = 'a';
	path[WORK_DIR_SIZE] = '\0';
	look(path, "/v", asked);
	assert_string_equal(asked, "refused");
	memset(longer, 'a', sizeof(longer) - 1);
	longer[0] = '/';
	look(longer, "/v", asked);
	assert_string_equal(asked, "refused");
}

static bool is_folder(json_int_t mode)
{
	json_t *stat = json_pack("{s:I, s:b}", "mode", mode, "isDir", 1);
	bool is_folder = work_dir_is_folder(stat);

	json_decref(stat);
	return is_folder;
}

/* As podman 4.3 describes them: it calls a link to a folder one, too. */
TEST(a_link_is_no_folder)
{
	assert_true(is_folder(2147484141));
	assert_false(is_folder(134218239)); /* a link */
	assert_false(is_folder(420));	    /* a file */
	assert_false(work_dir_is_folder(NULL));
}

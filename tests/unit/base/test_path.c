/* SPDX-License-Identifier: Apache-2.0 */
/* Paths that only root can change. Run by root, the temporary folder is a trusted root; by others it is not.
 */

#include "temp_dir.h"
#include "unit.h"

#include "base/path.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

enum { NOBODY = 65534 };

TEST(normal_paths_are_absolute_and_plain)
{
	static const struct {
		const char *path;
		bool expected;
	} cases[] = {
		{"/", true},	  {"/a", true},	     {"/a/b", true},	 {"/...", true},   {"/.a", true},
		{"/a..", true},	  {"/..a/b", true},  {"", false},	 {"a", false},	   {"a/b", false},
		{"./a", false},	  {"//", false},     {"/a/", false},	 {"//a", false},   {"/a//b", false},
		{"/.", false},	  {"/..", false},    {"/a/.", false},	 {"/a/..", false}, {"/./a", false},
		{"/../a", false}, {"/a/./b", false}, {"/a/../b", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_msg(path_is_normal(cases[i].path) == cases[i].expected, "%s", cases[i].path);
}

TEST(normal_paths_and_their_components_have_limits)
{
	char path[PATH_MAX + 2];

	memset(path, 'a', sizeof(path));
	path[0] = '/';
	path[NAME_MAX + 1] = '\0';
	assert_true(path_is_normal(path));
	path[NAME_MAX + 1] = 'a';
	path[NAME_MAX + 2] = '\0';
	assert_false(path_is_normal(path));

	memset(path, 'a', sizeof(path));
	for (size_t i = 0; i < sizeof(path); i += 100)
		path[i] = '/';
	path[PATH_MAX] = '\0';
	assert_false(path_is_normal(path));
	path[PATH_MAX - 1] = '\0';
	assert_true(path_is_normal(path));
}

TEST(a_path_is_within_itself_and_its_parents)
{
	assert_true(path_is_within("/a/b", "/a/b"));
	assert_true(path_is_within("/a/b", "/a"));
	assert_true(path_is_within("/a/b", "/"));
	assert_true(path_is_within("/", "/"));
	assert_false(path_is_within("/a", "/a/b"));
	assert_false(path_is_within("/", "/a"));
	assert_false(path_is_within("/ab", "/a"));
	assert_false(path_is_within("/a", "/ab"));
}

struct fixture {
	char dir[TEMP_DIR_SIZE];
	int root_fd;
};

/* <dir> is the root: a/b/c are folders, "link" leads to a, "file" is a file. */
static int setup(void **state)
{
	static struct fixture f;

	temp_dir_make(f.dir);
	f.root_fd = open(f.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(f.root_fd >= 0);
	assert_int_equal(mkdirat(f.root_fd, "a", 0755), 0);
	assert_int_equal(mkdirat(f.root_fd, "a/b", 0755), 0);
	assert_int_equal(mkdirat(f.root_fd, "a/b/c", 0755), 0);
	assert_int_equal(symlinkat("a", f.root_fd, "link"), 0);
	close_fdp(&(int){openat(f.root_fd, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0644)});
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	(void)unlinkat(f->root_fd, "a/b/c", AT_REMOVEDIR);
	(void)unlinkat(f->root_fd, "a/b", AT_REMOVEDIR);
	close_fdp(&f->root_fd);
	temp_dir_remove(f->dir);
	return 0;
}

static int open_and_close(struct fixture *f, const char *path)
{
	cleanup_close int fd = path_open_trusted(f->root_fd, path);

	return fd < 0 ? fd : 0;
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup, teardown)

CASE(system_folders_are_trusted_for_everybody)
{
	cleanup_close int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_close int fd = path_open_trusted(root_fd, "/usr/share");
	struct stat opened, expected;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &opened), 0);
	assert_int_equal(stat("/usr/share", &expected), 0);
	assert_true(opened.st_ino == expected.st_ino && opened.st_dev == expected.st_dev);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_true(fcntl(fd, F_GETFL) & O_PATH);
}

CASE(below_a_folder_that_everybody_writes_nothing_is_trusted)
{
	cleanup_close int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_close int last = path_open_trusted(root_fd, "/tmp");

	assert_true(last >= 0); /* the last one is for the caller to check */
	assert_int_equal(path_open_trusted(root_fd, f->dir), -EPERM); /* the sticky bit does not help */
}

CASE(without_root_its_own_folders_are_not_trusted)
{
	if (geteuid() == 0) {
		assert_int_equal(fchown(f->root_fd, NOBODY, NOBODY), 0);
		assert_int_equal(open_and_close(f, "/"), 0);
	}
	assert_int_equal(open_and_close(f, "/a"), -EPERM);
}

/* What follows needs folders of uid 0. */
static void require_root(void)
{
	if (geteuid() != 0) {
		print_message("skipped: only root can make folders that are trusted\n");
		skip();
	}
}

CASE(a_walk_ends_at_the_folder_that_is_meant)
{
	struct stat expected, opened;

	require_root();
	for (const char *const *p = (const char *const[]){"/", "/a", "/a/b", "/a/b/c", NULL}; *p; p++) {
		cleanup_close int fd = path_open_trusted(f->root_fd, *p);

		assert_true(fd >= 0);
		assert_int_equal(fstat(fd, &opened), 0);
		assert_int_equal(fstatat(f->root_fd, (*p)[1] ? *p + 1 : ".", &expected, 0), 0);
		assert_int_equal(opened.st_ino, expected.st_ino);
	}
}

CASE(links_files_and_missing_folders_are_refused)
{
	require_root();
	assert_int_equal(open_and_close(f, "/link"), -ENOTDIR);
	assert_int_equal(open_and_close(f, "/link/b"), -ENOTDIR);
	assert_int_equal(open_and_close(f, "/file"), -ENOTDIR);
	assert_int_equal(open_and_close(f, "/a/none"), -ENOENT);
	assert_int_equal(open_and_close(f, "/a/../a"), -EINVAL);
	assert_int_equal(open_and_close(f, "a"), -EINVAL);
	assert_int_equal(path_open_trusted(-1, "/a"), -EBADF);
}

CASE(every_level_but_the_last_must_be_roots_alone)
{
	static const char *const levels[] = {".", "a", "a/b"};
	static const mode_t modes[] = {0775, 0757, 0777, 01777, 0720, 0702};

	require_root();
	for (size_t i = 0; i < ARRAY_SIZE(levels); i++) {
		for (size_t k = 0; k < ARRAY_SIZE(modes); k++) {
			assert_int_equal(fchmodat(f->root_fd, levels[i], modes[k], 0), 0);
			assert_int_equal(open_and_close(f, "/a/b/c"), -EPERM);
		}
		assert_int_equal(fchmodat(f->root_fd, levels[i], 0755, 0), 0);
		assert_int_equal(fchownat(f->root_fd, levels[i], NOBODY, 0, 0), 0);
		assert_int_equal(open_and_close(f, "/a/b/c"), -EPERM);
		assert_int_equal(fchownat(f->root_fd, levels[i], 0, NOBODY, 0), 0);
		assert_int_equal(open_and_close(f, "/a/b/c"),
				 0); /* a group that cannot write is none's business */
	}
	assert_int_equal(fchmodat(f->root_fd, "a/b/c", 0777, 0), 0);
	assert_int_equal(open_and_close(f, "/a/b/c"), 0);
}

CASE(the_parent_is_opened_and_the_last_name_returned)
{
	char name[NAME_MAX + 1];
	struct stat st, root;

	require_root();
	assert_int_equal(fstat(f->root_fd, &root), 0);
	for (const char *const *p = (const char *const[]){"/new", "/a/new", "/a/b/new", NULL}; *p; p++) {
		cleanup_close int fd = path_open_trusted_parent(f->root_fd, *p, name);

		assert_true(fd >= 0);
		assert_string_equal(name, "new");
		assert_int_equal(fstat(fd, &st), 0);
		assert_int_equal(st.st_ino == root.st_ino, strlen(*p) == 4);
	}
	assert_int_equal(path_open_trusted_parent(f->root_fd, "/", name), -EINVAL);
	assert_int_equal(path_open_trusted_parent(f->root_fd, "new", name), -EINVAL);
	assert_int_equal(path_open_trusted_parent(f->root_fd, "/none/new", name), -ENOENT);
	assert_int_equal(path_open_trusted_parent(f->root_fd, "/link/new", name), -ENOTDIR);
}

CASE(the_parent_itself_must_be_roots_alone)
{
	char name[NAME_MAX + 1] = "untouched";

	require_root();
	assert_int_equal(fchmodat(f->root_fd, "a/b", 0777, 0), 0);
	assert_int_equal(path_open_trusted_parent(f->root_fd, "/a/b/new", name), -EPERM);
	assert_string_equal(name, "untouched");
}

CASE(the_longest_name_fits)
{
	char path[NAME_MAX + 2], name[NAME_MAX + 1];
	int fd;

	require_root();
	memset(path, 'n', sizeof(path));
	path[0] = '/';
	path[NAME_MAX + 1] = '\0';
	fd = path_open_trusted_parent(f->root_fd, path, name);
	assert_true(fd >= 0);
	close_fdp(&fd);
	assert_string_equal(name, path + 1);
	assert_int_equal(mkdirat(f->root_fd, path + 1, 0755), 0);
	assert_int_equal(open_and_close(f, path), 0);
}

static int open_file(struct fixture *f, const char *path, uid_t owner)
{
	cleanup_close int fd = path_open_trusted_file(f->root_fd, path, owner, O_RDONLY, 0);

	return fd < 0 ? fd : 0;
}

CASE(a_trusted_file_is_regular_and_only_its_owner_writes_it)
{
	static const mode_t modes[] = {0664, 0646, 0620, 0602};

	require_root();
	assert_int_equal(open_file(f, "/file", 0), 0);
	assert_int_equal(open_file(f, "/nothing", 0), -ENOENT);
	assert_int_equal(open_file(f, "/a", 0), -EINVAL);
	assert_int_equal(open_file(f, "/link", 0), -ELOOP);
	assert_int_equal(open_file(f, "file", 0), -EINVAL);
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		assert_int_equal(fchmodat(f->root_fd, "file", modes[i], 0), 0);
		assert_int_equal(open_file(f, "/file", 0), -EPERM);
	}
	assert_int_equal(fchmodat(f->root_fd, "file", 0600, 0), 0);
	assert_int_equal(linkat(f->root_fd, "file", f->root_fd, "second", 0), 0);
	assert_int_equal(open_file(f, "/file", 0), -EPERM);
	assert_int_equal(unlinkat(f->root_fd, "second", 0), 0);
	assert_int_equal(fchownat(f->root_fd, "file", NOBODY, 0, 0), 0);
	assert_int_equal(open_file(f, "/file", 0), -EPERM);
	assert_int_equal(open_file(f, "/file", NOBODY - 1), -EPERM);
	assert_int_equal(open_file(f, "/file", NOBODY), 0);
	assert_int_equal(fchownat(f->root_fd, "file", 0, 0, 0), 0);
	assert_int_equal(open_file(f, "/file", NOBODY), 0);
	assert_int_equal(fchmodat(f->root_fd, "a", 0777, 0), 0);
	assert_int_equal(open_file(f, "/a/file", 0), -EPERM);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The link that services follow. The folders are real ones below a temporary root, whose owner counts as
 * root; the mount table is a text. */

#include "folder.h"
#include "temp_dir.h"
#include "unit.h"

#include "base/fd.h"
#include "base/sys.h"
#include "hold/link.h"

#include <fcntl.h>
#include <ftw.h>
#include <mounthelper_wire.h>
#include <sys/stat.h>

#define WIRE "db-0123456789abcdef"
#define ALLOC "01890000-0000-7000-8000-000000000001"
#define STAGED "/run/hf/stage/" WIRE
#define BOUND "/run/hf/stage/.csi/plug/" WIRE /* by a plugin */
#define PUBLISHED "/run/hf/publish/" ALLOC

enum { ROOT, HELPER, OTHER };

static char root[TEMP_DIR_SIZE];
static int root_fd = -1;
static struct mountinfo table = {.fd = -1};
static uid_t forced_uid; /* of every folder that is called as this one */
static ino_t forced_ino;

int __real_sys_statx(int dir_fd, const char *name, int flags, unsigned int mask, struct statx *ret);

/* The temporary folders belong to whoever runs this. */
WRAPPED(int, sys_statx, int dir_fd, const char *name, int flags, unsigned int mask, struct statx *ret)
{
	int r = __real_sys_statx(dir_fd, name, flags, mask | STATX_INO, ret);

	if (r < 0)
		return r;
	ret->stx_uid = ret->stx_ino == forced_ino ? forced_uid : ROOT;
	return r;
}

static void make(const char *path, mode_t mode)
{
	char full[TEMP_PATH_SIZE];

	assert_int_equal(mkdir(temp_dir_path(full, root, path), mode), 0);
	assert_int_equal(chmod(full, mode), 0);
}

static void set_mode(const char *path, mode_t mode)
{
	char full[TEMP_PATH_SIZE];

	assert_int_equal(chmod(temp_dir_path(full, root, path), mode), 0);
}

static void force_owner(const char *path, uid_t uid)
{
	char full[TEMP_PATH_SIZE];
	struct stat st;

	assert_int_equal(stat(temp_dir_path(full, root, path), &st), 0);
	forced_ino = st.st_ino;
	forced_uid = uid;
}

static int set_up(void **state)
{
	temp_dir_make(root);
	make("run", 0755);
	make("run/hf", 0755);
	make("run/hf/stage", 0700);
	make("run/hf/publish", 0711);
	make("run/other", 0755);
	make("run/links", 0755);
	root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	forced_ino = 0;
	return root_fd < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
	close_fdp(&root_fd);
	close_fdp(&table.fd);
	folder_remove(root);
	return 0;
}

static void set_table(const char *text)
{
	char path[TEMP_PATH_SIZE];

	close_fdp(&table.fd);
	temp_dir_path(path, root, "table");
	assert_int_equal(file_write_atomic(path, 0600, text, strlen(text)), 0);
	table.fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(table.fd >= 0);
}

static bool is_read_only;

static enum status check_target(const char *path, const char *target, const char *words)
{
	struct error err = {.msg = ""};
	const struct hold_link_view view = {
		.table = &table, .root_fd = root_fd, .publish_dir = "/run/hf/publish"};
	enum status status = hold_link_check(&view, path, WIRE, target, &is_read_only, &err);

	if (words && !strstr(err.msg, words))
		fail_msg("'%s' is not in '%s'", words, err.msg);
	return status;
}

static enum status check(const char *path, bool is_device, const char *words)
{
	return check_target(path, is_device ? MH_CSI_PUBLISH_RW : NULL, words);
}

#define LINE(device, shown, point) \
	"40 28 " device " " shown " " point " rw,nosuid shared:1 - ext4 /dev/sda rw\n"
#define HOST LINE("8:1", "/", "/")

TEST_FIXTURE(the_volume_itself_is_given, set_up, tear_down)
{
	static const char *const staged[] = {STAGED, BOUND "/ro-publish", BOUND "/rw-publish"};
	char text[1000];

	for (size_t i = 0; i < ARRAY_SIZE(staged); i++) {
		assert_true(str_format(text, sizeof(text), HOST "41 28 0:50 / %s rw - tmpfs t rw\n%s",
				       staged[i], LINE("0:50", "/", PUBLISHED "/0")) > 0);
		set_table(text);
		assert_int_equal(check(PUBLISHED "/0", false, NULL), STATUS_OK);
	}
	/* a directory of the host */
	set_table(HOST LINE("8:1", "/srv/data", STAGED) LINE("8:1", "/srv/data", PUBLISHED "/31"));
	assert_int_equal(check(PUBLISHED "/31", false, NULL), STATUS_OK);
}

TEST_FIXTURE(a_path_that_the_helper_does_not_make_is_not_given, set_up, tear_down)
{
	static const char *const paths[] = {
		"",
		"/",
		"/etc",
		"run/hf/publish/" ALLOC "/0",
		PUBLISHED,
		PUBLISHED "/32",
		PUBLISHED "/x",
		PUBLISHED "/0/",
		PUBLISHED "//0",
		PUBLISHED "/0/etc",
		PUBLISHED "/../" ALLOC "/0",
		"/run/hf/publish/../publish/" ALLOC "/0",
		"/run/hf/publish/01890000-0000-7000-8000-00000000000g/0",
		"/" ALLOC "/0",
		STAGED,
		STAGED "/rw-publish",
	};

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		char text[2000];

		/* even if it were mounted just there */
		assert_true(str_format(text, sizeof(text),
				       HOST LINE("0:50", "/", STAGED) "42 28 0:50 / %s rw - ext4 x rw\n",
				       paths[i][0] ? paths[i] : "/x") > 0);
		set_table(text);
		if (check(paths[i], false, "no path that the mount helper makes") !=
		    STATUS_FAILED_PRECONDITION)
			fail_msg("'%s' is given", paths[i]);
	}
}

TEST_FIXTURE(another_volume_is_not_given, set_up, tear_down)
{
	static const char *const tables[] = {
		/* of another name */
		HOST LINE("0:50", "/", "/run/hf/stage/db-0123456789abcdee") LINE("0:50", "/", PUBLISHED "/0"),
		HOST LINE("0:50", "/", STAGED "x") LINE("0:50", "/", PUBLISHED "/0"),
		HOST LINE("0:50", "/", BOUND "/staging") LINE("0:50", "/", PUBLISHED "/0"),
		/* where the helper makes no folder of a plugin */
		HOST LINE("0:50", "/", STAGED "/rw-publish") LINE("0:50", "/", PUBLISHED "/0"),
		HOST LINE("0:50", "/", "/run/hf/stage/csi/plug/" WIRE "/rw-publish")
			LINE("0:50", "/", PUBLISHED "/0"),
		HOST LINE("0:50", "/", "/run/hf/stage/.csi/" WIRE "/rw-publish")
			LINE("0:50", "/", PUBLISHED "/0"),
		HOST LINE("0:50", "/", "/run/hf/stage/.csi/.plug/" WIRE "/rw-publish")
			LINE("0:50", "/", PUBLISHED "/0"),
		/* another device, and another directory of the same */
		HOST LINE("0:51", "/", STAGED) LINE("0:50", "/", PUBLISHED "/0"),
		HOST LINE("1:50", "/", STAGED) LINE("0:50", "/", PUBLISHED "/0"),
		HOST LINE("8:1", "/srv/data", STAGED) LINE("8:1", "/srv", PUBLISHED "/0"),
		/* what lies above it is what a service would get */
		HOST LINE("0:50", "/", STAGED) LINE("0:50", "/", PUBLISHED "/0")
			LINE("0:60", "/", PUBLISHED "/0"),
		/* a folder of that name that is not the helper's */
		HOST LINE("0:50", "/", "/run/other/x/" WIRE) LINE("0:50", "/", PUBLISHED "/0"),
	};

	for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
		set_table(tables[i]);
		if (check(PUBLISHED "/0", false, "another volume is mounted there") !=
		    STATUS_FAILED_PRECONDITION)
			fail_msg("table %zu", i);
	}
}

TEST_FIXTURE(a_stage_tree_of_another_owner_is_not_believed, set_up, tear_down)
{
	set_table(HOST LINE("0:50", "/", STAGED) LINE("0:50", "/", PUBLISHED "/0"));
	force_owner("run/hf/stage", OTHER);
	assert_int_equal(check(PUBLISHED "/0", false, "another volume"), STATUS_FAILED_PRECONDITION);
	force_owner("run/hf/publish", OTHER);
	assert_int_equal(check(PUBLISHED "/0", false, "another volume"), STATUS_FAILED_PRECONDITION);
}

TEST_FIXTURE(nothing_is_given_that_is_not_mounted, set_up, tear_down)
{
	set_table(HOST LINE("0:50", "/", STAGED) LINE("0:50", "/", PUBLISHED "/1"));
	assert_int_equal(check(PUBLISHED "/0", false, "nothing is mounted there"),
			 STATUS_FAILED_PRECONDITION);
}

TEST_FIXTURE(a_tree_that_others_can_change_is_not_followed, set_up, tear_down)
{
	static const char *const folders[] = {"run", "run/hf", "run/hf/publish"};
	char from[TEMP_PATH_SIZE], to[TEMP_PATH_SIZE];

	set_table(HOST LINE("0:50", "/", STAGED) LINE("0:50", "/", PUBLISHED "/0"));
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		set_mode(folders[i], 0775);
		assert_int_equal(check(PUBLISHED "/0", false, "can write there"), STATUS_FAILED_PRECONDITION);
		set_mode(folders[i], 01757);
		assert_int_equal(check(PUBLISHED "/0", false, "can write there"), STATUS_FAILED_PRECONDITION);
		set_mode(folders[i], 0755);
	}
	force_owner("run/hf", HELPER);
	assert_int_equal(check(PUBLISHED "/0", false, "can write there"), STATUS_FAILED_PRECONDITION);
	forced_ino = 0;
	assert_int_equal(rename(temp_dir_path(from, root, "run/hf"), temp_dir_path(to, root, "run/moved")),
			 0);
	assert_int_equal(symlink("moved", from), 0);
	assert_int_equal(check(PUBLISHED "/0", false, "can write there"), STATUS_FAILED_PRECONDITION);
	assert_int_equal(unlink(from), 0);
}

TEST_FIXTURE(only_a_device_bound_by_the_plugin_is_accepted, set_up, tear_down)
{
	set_table(HOST LINE("0:5", "/loop0", BOUND "/rw-publish"));
	assert_int_equal(check(BOUND "/rw-publish", true, NULL), STATUS_OK);
	assert_int_equal(check_target(BOUND "/ro-publish", MH_CSI_PUBLISH_RO, "nothing is mounted there"),
			 STATUS_FAILED_PRECONDITION);
	assert_int_equal(check(BOUND, true, "no path that"), STATUS_FAILED_PRECONDITION);
	assert_int_equal(check(BOUND "/staging", true, "no path that"), STATUS_FAILED_PRECONDITION);
	assert_int_equal(check("/run/hf/stage/.csi/plug/other/rw-publish", true, "no path that"),
			 STATUS_FAILED_PRECONDITION);
	assert_int_equal(check(STAGED "/rw-publish", true, "no path that"), STATUS_FAILED_PRECONDITION);
	assert_int_equal(check("/dev/loop0", true, "no path that"), STATUS_FAILED_PRECONDITION);
	assert_int_equal(check(PUBLISHED "/0", true, "no path that"), STATUS_FAILED_PRECONDITION);
	force_owner("run/hf/stage", OTHER); /* a folder of a user, who has a file system of its own there */
	assert_int_equal(check(BOUND "/rw-publish", true, "can write there"), STATUS_FAILED_PRECONDITION);
	forced_ino = 0;
	set_mode("run/hf/stage", 0770);
	assert_int_equal(check(BOUND "/rw-publish", true, "can write there"), STATUS_FAILED_PRECONDITION);
}

/* The path is the node's word: it must not make a reader a writer. */
TEST_FIXTURE(a_reader_gets_no_device_that_was_bound_for_writers, set_up, tear_down)
{
	set_table(HOST LINE("0:5", "/loop0", BOUND "/rw-publish") LINE("0:5", "/loop0", BOUND "/ro-publish"));
	assert_int_equal(check_target(BOUND "/ro-publish", MH_CSI_PUBLISH_RO, NULL), STATUS_OK);
	assert_int_equal(check_target(BOUND "/rw-publish", MH_CSI_PUBLISH_RW, NULL), STATUS_OK);
	assert_int_equal(check_target(BOUND "/rw-publish", MH_CSI_PUBLISH_RO, "no path that"),
			 STATUS_FAILED_PRECONDITION);
	assert_int_equal(check_target(BOUND "/ro-publish", MH_CSI_PUBLISH_RW, "no path that"),
			 STATUS_FAILED_PRECONDITION);
}

TEST_FIXTURE(a_table_that_cannot_be_read_gives_nothing, set_up, tear_down)
{
	set_table(HOST LINE("0:50", "/", STAGED) LINE("0:50", "/", PUBLISHED "/0") "nonsense\n");
	assert_int_equal(check(PUBLISHED "/0", false, "read the mount table"), STATUS_FAILED_PRECONDITION);
}

TEST_FIXTURE(the_link_is_made_replaced_and_taken, set_up, tear_down)
{
	char folder[TEMP_PATH_SIZE], link[TEMP_PATH_SIZE], got[100];
	struct error err;
	struct stat st;

	temp_dir_path(folder, root, "run/links");
	assert_int_equal(hold_link_take(folder, "db", &err), STATUS_OK);
	assert_int_equal(hold_link_give(folder, "db", "/a", &err), STATUS_OK);
	/* left by one that was killed */
	assert_int_equal(symlink("/x", temp_dir_path(link, root, "run/links/db/mnt.new")), 0);
	assert_int_equal(hold_link_give(folder, "db", "/b/c", &err), STATUS_OK);
	assert_int_equal(readlink(temp_dir_path(link, root, "run/links/db/mnt"), got, sizeof(got)), 4);
	assert_memory_equal(got, "/b/c", 4);
	assert_int_equal(stat(temp_dir_path(link, root, "run/links/db"), &st), 0);
	assert_int_equal(st.st_mode & 07777U, 0755);
	assert_int_equal(hold_link_take(folder, "db", &err), STATUS_OK);
	assert_int_equal(hold_link_take(folder, "db", &err), STATUS_OK);
	assert_int_equal(access(link, F_OK), -1);
	assert_int_equal(hold_link_take("/nonexistent", "db", &err), STATUS_OK);
	assert_int_equal(hold_link_give("/nonexistent", "db", "/a", &err), STATUS_NOT_FOUND);
	assert_non_null(strstr(err.msg, "systemd-tmpfiles --create"));
}

TEST_FIXTURE(a_publish_tree_that_roots_setting_does_not_name_is_not_followed, set_up, tear_down)
{
	make("run/other/publish", 0711);
	set_table(HOST LINE("0:50", "/", STAGED) LINE("0:50", "/", "/run/other/publish/" ALLOC "/0"));
	assert_int_equal(
		check("/run/other/publish/" ALLOC "/0", false, "no path that the mount helper makes"),
		STATUS_FAILED_PRECONDITION);
}

TEST_FIXTURE(a_file_system_is_read_only_by_its_superblock_and_not_by_a_flag_of_a_mount, set_up, tear_down)
{
	static const struct {
		const char *flags, *super;
		bool is_read_only;
	} rows[] = {
		{"rw", "rw", false}, {"ro", "rw", false}, {"ro", "ro", true}, {"rw", "rw,errors=ro", false}};
	char text[1000];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_true(str_format(text, sizeof(text),
				       HOST
				       "41 28 0:50 / %s %s - ext4 t %s\n40 28 0:50 / %s/0 %s - ext4 t %s\n",
				       STAGED, rows[i].flags, rows[i].super, PUBLISHED, rows[i].flags,
				       rows[i].super) > 0);
		set_table(text);
		is_read_only = !rows[i].is_read_only;
		assert_int_equal(check(PUBLISHED "/0", false, NULL), STATUS_OK);
		assert_int_equal(is_read_only, rows[i].is_read_only);
	}
}

TEST(a_publish_path_is_made_of_roots_folder_and_an_id)
{
	char path[PATH_MAX];

	assert_true(hold_publish_path("/run/hf/publish", ALLOC, path));
	assert_string_equal(path, PUBLISHED "/0");
	assert_false(hold_publish_path("/run/hf/publish", "..", path));
	assert_false(hold_publish_path("/run/hf/publish", "", path));
	assert_false(hold_publish_path("/run/hf/publish", ALLOC "/../..", path));
}

TEST_FIXTURE(a_folder_of_others_is_refused, set_up, tear_down)
{
	char folder[TEMP_PATH_SIZE], link[TEMP_PATH_SIZE];
	struct error err;

	temp_dir_path(folder, root, "run/links");
	assert_int_equal(hold_link_give(folder, "db", "/a", &err), STATUS_OK);
	assert_int_equal(access(temp_dir_path(link, root, "run/links/db/mnt"), F_OK),
			 -1); /* leads to nowhere */
	assert_int_equal(unlink(link), 0);
	force_owner("run/links/db", OTHER);
	assert_int_not_equal(hold_link_give(folder, "db", "/a", &err), STATUS_OK);
	assert_non_null(strstr(err.msg, "remove that"));
	assert_int_equal(unlink(link), -1);
	assert_int_equal(symlink("held", temp_dir_path(link, root, "run/links/other")), 0);
	assert_int_not_equal(hold_link_give(folder, "other", "/a", &err), STATUS_OK);
	assert_int_equal(unlink(link), 0);
}

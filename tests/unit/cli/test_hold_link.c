/* SPDX-License-Identifier: Apache-2.0 */
/* The link that services follow. The folders are real ones below a temporary root, whose owner counts as
 * root; the mount table is a text. */

#include "folder.h"
#include "temp_dir.h"
#include "unit.h"

#include "base/fd.h"
#include "base/sys.h"
#include "hold/link.h"
#include "model/volume.h"

#include <fcntl.h>
#include <ftw.h>
#include <mounthelper_wire.h>
#include <sys/stat.h>

#define WIRE "db-0123456789abcdef"
#define ALLOC "01890000-0000-7000-8000-000000000001"
#define BOUND "/run/hf/stage/.csi/plug/" WIRE /* by a plugin */
#define PUBLISHED "/run/hf/publish/" ALLOC

enum { ROOT, HELPER, OTHER };

static char root[TEMP_DIR_SIZE];
static int root_fd = -1;
static struct mountinfo table = {.fd = -1};
static struct hold_link_view view = {
	.table = &table, .publish_dir = "/run/hf/publish", .stage_dir = "/run/hf/stage"};
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

/* As the helper marks a publish. */
static void mark(const char *slot, const char *wire)
{
	char path[TEMP_PATH_SIZE];

	assert_true(str_format(path, sizeof(path), "run/hf/publish/" ALLOC "/.%s", slot) > 0);
	make(path, 0755);
	assert_true(str_format(path, sizeof(path), "run/hf/publish/" ALLOC "/.%s/%s", slot, wire) > 0);
	make(path, 0755);
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
	make("run/hf/publish/" ALLOC, 0755);
	mark("0", WIRE);
	root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	view.root_fd = root_fd;
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

static void expect_words(const struct error *err, const char *words)
{
	if (words && !strstr(err->msg, words))
		fail_msg("'%s' is not in '%s'", words, err->msg);
}

static bool is_read_only;

static enum status check(const char *path, const char *words)
{
	struct error err = {.msg = ""};
	enum status status = hold_link_check(&view, path, WIRE, &is_read_only, &err);

	expect_words(&err, words);
	return status;
}

static char device[PATH_MAX];

static enum status check_device(const char *path, const char *use, const char *words)
{
	struct error err = {.msg = ""};
	enum status status = hold_device_check(&view, path, WIRE, use, device, &err);

	expect_words(&err, words);
	return status;
}

#define LINE(device, shown, point) \
	"40 28 " device " " shown " " point " rw,nosuid shared:1 - ext4 /dev/sda rw\n"
#define HOST LINE("8:1", "/", "/")

TEST_FIXTURE(the_volume_itself_is_given, set_up, tear_down)
{
	set_table(HOST LINE("0:50", "/", PUBLISHED "/0") LINE("8:1", "/srv/data", PUBLISHED "/31"));
	assert_int_equal(check(PUBLISHED "/0", NULL), STATUS_OK);
	mark("31", WIRE);
	assert_int_equal(check(PUBLISHED "/31", NULL), STATUS_OK);
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
		BOUND "/rw-publish",
	};

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		char text[2000];

		/* even if it were mounted just there */
		assert_true(str_format(text, sizeof(text), HOST "42 28 0:50 / %s rw - ext4 x rw\n",
				       paths[i][0] ? paths[i] : "/x") > 0);
		set_table(text);
		if (check(paths[i], "no path that the mount helper makes") != STATUS_FAILED_PRECONDITION)
			fail_msg("'%s' is given", paths[i]);
	}
}

/* What a plugin stages, and where, shows nothing: an agent has it mount any volume in its own folder. */
TEST_FIXTURE(another_volume_is_not_given, set_up, tear_down)
{
	char path[TEMP_PATH_SIZE];

	set_table(HOST LINE("0:50", "/", "/run/hf/stage/" WIRE) LINE("0:50", "/", BOUND "/rw-publish")
			  LINE("0:50", "/", PUBLISHED "/1") LINE("0:50", "/", PUBLISHED "/2"));
	assert_int_equal(check(PUBLISHED "/1", "another volume is mounted there"),
			 STATUS_FAILED_PRECONDITION);
	mark("1", "db-0123456789abcdee");
	assert_int_equal(check(PUBLISHED "/1", "another volume is mounted there"),
			 STATUS_FAILED_PRECONDITION);
	make("run/hf/publish/" ALLOC "/.2", 0755);
	temp_dir_path(path, root, "run/hf/publish/" ALLOC "/.2/" WIRE);
	assert_int_equal(symlink("../.0/" WIRE, path), 0);
	assert_int_equal(check(PUBLISHED "/2", "another volume is mounted there"),
			 STATUS_FAILED_PRECONDITION);
}

TEST_FIXTURE(nothing_is_given_that_is_not_mounted, set_up, tear_down)
{
	set_table(HOST LINE("0:50", "/", PUBLISHED "/1"));
	assert_int_equal(check(PUBLISHED "/0", "nothing is mounted there"), STATUS_FAILED_PRECONDITION);
}

TEST_FIXTURE(a_tree_that_others_can_change_is_not_followed, set_up, tear_down)
{
	static const char *const folders[] = {"run", "run/hf", "run/hf/publish"};
	char from[TEMP_PATH_SIZE], to[TEMP_PATH_SIZE];

	set_table(HOST LINE("0:50", "/", PUBLISHED "/0"));
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		set_mode(folders[i], 0775);
		assert_int_equal(check(PUBLISHED "/0", "can write there"), STATUS_FAILED_PRECONDITION);
		set_mode(folders[i], 01757);
		assert_int_equal(check(PUBLISHED "/0", "can write there"), STATUS_FAILED_PRECONDITION);
		set_mode(folders[i], 0755);
	}
	force_owner("run/hf", HELPER);
	assert_int_equal(check(PUBLISHED "/0", "can write there"), STATUS_FAILED_PRECONDITION);
	forced_ino = 0;
	assert_int_equal(rename(temp_dir_path(from, root, "run/hf"), temp_dir_path(to, root, "run/moved")),
			 0);
	assert_int_equal(symlink("moved", from), 0);
	assert_int_equal(check(PUBLISHED "/0", "can write there"), STATUS_FAILED_PRECONDITION);
	assert_int_equal(unlink(from), 0);
}

#define DEV(name, point) "44 28 0:5 " name " " point " rw - devtmpfs udev rw\n"

static void make_block_device(const char *name)
{
	char path[TEMP_PATH_SIZE];

	make("sys", 0755);
	make("sys/class", 0755);
	make("sys/class/block", 0755);
	assert_true(str_format(path, sizeof(path), "%s/sys/class/block/%s", root, name) > 0);
	assert_int_equal(symlink("../../devices", path), 0);
}

TEST_FIXTURE(a_device_is_linked_as_its_plugin_has_bound_it, set_up, tear_down)
{
	make_block_device("cciss!c0d0");
	set_table(HOST DEV("/loop0", BOUND "/ro-publish") DEV("/cciss/c0d0", BOUND "/ro-publish"));
	assert_int_equal(check_device(BOUND "/ro-publish", MH_CSI_PUBLISH_RO, NULL), STATUS_OK);
	assert_string_equal(device, "/dev/cciss/c0d0");
}

TEST_FIXTURE(only_a_device_bound_by_the_plugin_is_accepted, set_up, tear_down)
{
	static const char *const paths[] = {BOUND,
					    BOUND "/staging",
					    BOUND "/ro-publish",
					    "/run/hf/stage/.csi/plug/other/rw-publish",
					    "/run/hf/stage/.csi/.plug/" WIRE "/rw-publish",
					    "/run/hf/stage/csi/plug/" WIRE "/rw-publish",
					    "/run/hf/stage/.csi/" WIRE "/rw-publish",
					    "/run/other/.csi/plug/" WIRE "/rw-publish",
					    "/run/hf/stage/" WIRE "/rw-publish",
					    "/rw-publish",
					    "/dev/loop0",
					    PUBLISHED "/0"};

	make_block_device("loop0");
	set_table(HOST DEV("/loop0", BOUND "/rw-publish"));
	assert_int_equal(check_device(BOUND "/rw-publish", MH_CSI_PUBLISH_RW, NULL), STATUS_OK);
	assert_int_equal(check_device(BOUND "/ro-publish", MH_CSI_PUBLISH_RO, "nothing is mounted there"),
			 STATUS_FAILED_PRECONDITION);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		if (check_device(paths[i], MH_CSI_PUBLISH_RW, "no path that") != STATUS_FAILED_PRECONDITION)
			fail_msg("'%s' is given", paths[i]);
	set_mode("run/hf/stage", 0770);
	assert_int_equal(check_device(BOUND "/rw-publish", MH_CSI_PUBLISH_RW, "can write there"),
			 STATUS_FAILED_PRECONDITION);
}

/* An agent names any volume of the plugin, and any target in the plugin's folder. */
TEST_FIXTURE(only_block_devices_of_dev_are_given, set_up, tear_down)
{
	static const char *const tables[] = {
		LINE("8:17", "/", BOUND "/rw-publish"),	     /* a file system */
		LINE("8:17", "/loop0", BOUND "/rw-publish"), /* a node in it */
		DEV("/mem", BOUND "/rw-publish"),	     /* of characters */
		DEV("/", BOUND "/rw-publish"),		     /* all of them */
		DEV("/loop0//deleted", BOUND "/rw-publish"), /* whose name another one may have */
		DEV("/../loop0", BOUND "/rw-publish"),
		DEV("/loop0", BOUND "/rw-publish") LINE("8:17", "/", BOUND "/rw-publish"),
	};
	char text[1000];

	make_block_device("loop0");
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
		assert_true(str_format(text, sizeof(text), HOST "%s", tables[i]) > 0);
		set_table(text);
		if (check_device(BOUND "/rw-publish", MH_CSI_PUBLISH_RW, "no block device of /dev") !=
		    STATUS_FAILED_PRECONDITION)
			fail_msg("table %zu", i);
	}
}

/* What lies on its folders decides what the name leads to. */
TEST_FIXTURE(a_device_that_is_covered_is_not_given, set_up, tear_down)
{
	static const char *const folders[] = {BOUND, "/run/hf/stage/.csi/plug", "/run/hf/stage/.csi"};
	char text[1000];
	struct hold_device known = {.name = ""};

	make_block_device("loop0");
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		assert_true(str_format(text, sizeof(text),
				       HOST DEV("/loop0", BOUND "/rw-publish") LINE("8:17", "/", "%s"),
				       folders[i]) > 0);
		set_table(text);
		assert_int_equal(check_device(BOUND "/rw-publish", MH_CSI_PUBLISH_RW, "a mount covers it"),
				 STATUS_FAILED_PRECONDITION);
		assert_true(hold_device_is_other(&view, BOUND "/rw-publish", &known));
	}
	set_table(HOST LINE("8:17", "/", "/run/hf/stage") DEV("/loop0", BOUND "/rw-publish"));
	assert_int_equal(check_device(BOUND "/rw-publish", MH_CSI_PUBLISH_RW, NULL), STATUS_OK);
}

TEST_FIXTURE(a_device_is_gone_when_it_is_unmounted_or_another_one, set_up, tear_down)
{
	struct hold_device known = {.name = ""};

	set_table(HOST DEV("/loop0", BOUND "/rw-publish"));
	assert_false(hold_device_is_other(&view, BOUND "/rw-publish", &known));
	assert_string_equal(known.name, "/loop0");
	assert_false(hold_device_is_other(&view, BOUND "/rw-publish", &known));
	set_table(HOST DEV("/loop1", BOUND "/rw-publish"));
	assert_true(hold_device_is_other(&view, BOUND "/rw-publish", &known));
	set_table(HOST LINE("8:1", "/loop0", BOUND "/rw-publish"));
	assert_true(hold_device_is_other(&view, BOUND "/rw-publish", &known));
	set_table(HOST);
	assert_true(hold_device_is_other(&view, BOUND "/rw-publish", &known));
	set_table("nonsense\n"); /* not known */
	assert_false(hold_device_is_other(&view, BOUND "/rw-publish", &known));
	assert_true(hold_device_is_gone("/nothing", "/nothing/.csi/plug/" WIRE "/rw-publish", &known));
}

static void set_disk_number(const char *disk, const char *number)
{
	char path[TEMP_PATH_SIZE];

	assert_true(str_format(path, sizeof(path), "%s/sys/class/block/%s/diskseq", root, disk) > 0);
	assert_int_equal(file_write_atomic(path, 0600, number, strlen(number)), 0);
}

/* A loop device and its node keep their names, and a partition's number is its disk's. */
TEST_FIXTURE(another_disk_under_the_name_of_a_device_is_another_device, set_up, tear_down)
{
	struct hold_device known = {.name = "/loop0"}; /* from the link */
	char path[TEMP_PATH_SIZE];

	make_block_device("loop0");
	make("sys/devices", 0755);
	make("sys/devices/loop0p1", 0755);
	assert_int_equal(
		symlink("../../devices/loop0p1", temp_dir_path(path, root, "sys/class/block/loop0p1")), 0);
	set_disk_number("loop0", "7\n");
	set_table(HOST DEV("/loop0", BOUND "/rw-publish"));
	assert_false(hold_device_is_other(&view, BOUND "/rw-publish", &known));
	assert_int_equal(known.number, 7);
	set_disk_number("loop0", "nothing\n"); /* not known */
	assert_false(hold_device_is_other(&view, BOUND "/rw-publish", &known));
	set_disk_number("loop0", "8\n");
	assert_true(hold_device_is_other(&view, BOUND "/rw-publish", &known));
	known = (struct hold_device){.name = "/loop0p1", .number = 7};
	set_table(HOST DEV("/loop0p1", BOUND "/rw-publish"));
	assert_true(hold_device_is_other(&view, BOUND "/rw-publish", &known));
}

TEST_FIXTURE(the_device_of_a_link_is_read, set_up, tear_down)
{
	char links[TEMP_PATH_SIZE];
	struct hold_device found;
	struct error err;

	temp_dir_path(links, root, "run/links");
	hold_link_device(links, "db", &found);
	assert_string_equal(found.name, "");
	assert_int_equal(hold_link_give(links, "db", "/dev/mapper/x", &err), STATUS_OK);
	hold_link_device(links, "db", &found);
	assert_string_equal(found.name, "/mapper/x");
	assert_int_equal(hold_link_give(links, "db", "/run/hf", &err), STATUS_OK);
	hold_link_device(links, "db", &found);
	assert_string_equal(found.name, "");
	assert_int_equal(hold_link_take(links, "db", &err), STATUS_OK);
}

TEST_FIXTURE(a_table_that_cannot_be_read_gives_nothing, set_up, tear_down)
{
	set_table(HOST LINE("0:50", "/", PUBLISHED "/0") "nonsense\n");
	assert_int_equal(check(PUBLISHED "/0", "read the mount table"), STATUS_FAILED_PRECONDITION);
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
	set_table(HOST LINE("0:50", "/", "/run/other/publish/" ALLOC "/0"));
	assert_int_equal(check("/run/other/publish/" ALLOC "/0", "no path that the mount helper makes"),
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
		assert_true(str_format(text, sizeof(text), HOST "40 28 0:50 / %s/0 %s - ext4 t %s\n",
				       PUBLISHED, rows[i].flags, rows[i].super) > 0);
		set_table(text);
		is_read_only = !rows[i].is_read_only;
		assert_int_equal(check(PUBLISHED "/0", NULL), STATUS_OK);
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

TEST(a_devices_path_is_made_of_roots_folder_and_ids)
{
	Holdfast__V1__Allocation alloc = HOLDFAST__V1__ALLOCATION__INIT;
	Holdfast__V1__VolumeRequest request = HOLDFAST__V1__VOLUME_REQUEST__INIT;
	Holdfast__V1__VolumeRequest *requests[] = {&request};
	char wire[WIRE_VOLUME_SIZE], path[PATH_MAX], expected[PATH_MAX];

	alloc.volumes = requests;
	alloc.n_volumes = 1;
	request.source = (char *)(uintptr_t) "db";
	volume_wire_name("default", "db", wire);
	assert_true(hold_device_path("/run/hf/stage", "plug", &alloc, path));
	assert_true(str_format(expected, sizeof(expected), "/run/hf/stage/.csi/plug/%s/rw-publish", wire) >
		    0);
	assert_string_equal(path, expected);
	request.read_only = true;
	assert_true(hold_device_path("/run/hf/stage", "plug", &alloc, path));
	assert_non_null(strstr(path, "/ro-publish"));
	assert_false(hold_device_path("/run/hf/stage", "..", &alloc, path));
	assert_false(hold_device_path("/run/hf/stage", "", &alloc, path));
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

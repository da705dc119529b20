/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/sys.h"
#include "privileged/place.h"

#include <fcntl.h>
#include <sys/stat.h>

static char folder[] = "/tmp/holdfast-place-XXXXXX";
static int dir_fd;

static int set_up(void **state)
{
	dir_fd = mkdtemp(folder) ? open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	return dir_fd < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
	(void)unlinkat(dir_fd, "link", 0);
	(void)unlinkat(dir_fd, "a", AT_REMOVEDIR);
	(void)unlinkat(dir_fd, "b", AT_REMOVEDIR);
	(void)close(dir_fd);
	return rmdir(folder);
}

TEST(a_directory_is_pinned_and_described)
{
	cleanup_place struct place made = PLACE_INIT;
	cleanup_place struct place again = PLACE_INIT;
	cleanup_place struct place other = PLACE_INIT;
	struct place of_fd = PLACE_INIT;
	struct stat st;

	assert_int_equal(place_make(dir_fd, "a", &made), 0);
	assert_int_equal(place_make(dir_fd, "a", &again), 0);
	assert_int_equal(place_make(dir_fd, "b", &other), 0);
	assert_int_equal(fstatat(dir_fd, "a", &st, 0), 0);
	assert_int_equal(made.ino, st.st_ino);
	assert_int_equal(made.uid, geteuid());
	assert_int_equal(made.mode, st.st_mode);
	assert_false(made.is_mount_root);
	assert_true(place_is_same(&made, &again));
	assert_false(place_is_same(&made, &other));
	assert_int_equal(place_of_fd(made.fd, &of_fd), 0);
	assert_true(place_is_same(&made, &of_fd));
	assert_int_equal(of_fd.fd, -EBADF);
	place_release(&made);
	assert_int_equal(made.fd, -EBADF);
	assert_int_equal(made.ino, st.st_ino);
}

TEST(a_look_tells_the_same_without_a_descriptor)
{
	cleanup_place struct place made = PLACE_INIT;
	struct place seen = PLACE_INIT;

	assert_int_equal(place_make(dir_fd, "a", &made), 0);
	assert_int_equal(place_look(dir_fd, "a", &seen), 0);
	assert_int_equal(seen.fd, -EBADF);
	assert_true(place_is_same(&seen, &made) && seen.mount_id == made.mount_id);
	assert_true(seen.mode == made.mode && seen.uid == made.uid && !seen.is_mount_root);
	assert_int_equal(place_look(AT_FDCWD, "/proc", &seen), 0);
	assert_true(seen.is_mount_root);
}

TEST(only_directories_of_that_very_name_are_opened)
{
	struct place place = {.fd = -7};

	assert_int_equal(symlinkat("/", dir_fd, "link"), 0);
	assert_int_equal(place_open(dir_fd, "link", &place), -ENOTDIR);
	assert_int_equal(place_open(dir_fd, "missing", &place), -ENOENT);
	assert_int_equal(place_open(dir_fd, "link", &place), -ENOTDIR);
	assert_int_equal(place_make(dir_fd, "missing/below", &place), -ENOENT);
	assert_int_equal(place_look(dir_fd, "missing", &place), -ENOENT);
	assert_int_equal(place_look(dir_fd, "", &place), -ENOENT);
	assert_int_equal(place.fd, -7);
	assert_int_equal(place_look(dir_fd, "link", &place), -ENOTDIR); /* but what is there is known */
	assert_true(S_ISLNK(place.mode) && place.fd == -EBADF);
}

/* The id of a mount as the table knows it. */
static uint64_t id_in_table(int fd)
{
	char path[64], line[128];
	unsigned long long id = 0;
	FILE *f;

	(void)str_format(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = NON_NULL(fopen(path, "re"));
	while (fgets(line, sizeof(line), f))
		(void)sscanf(line, "mnt_id: %llu", &id); /* NOLINT(cert-err34-c) */
	(void)fclose(f);
	return id;
}

TEST(the_table_and_the_calls_for_one_mount_agree)
{
	static struct mountinfo table;
	cleanup_place struct place proc = PLACE_INIT;
	struct mount_facts facts = {.peer_group = 0};
	struct mount_facts by_table = {.peer_group = 0};
	struct place in_table;

	table.fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	assert_true(table.fd >= 0);
	assert_int_equal(place_open(AT_FDCWD, "/proc", &proc), 0);
	assert_true(proc.is_mount_root);
	in_table = proc;
	in_table.id_is_unique = false;
	in_table.mount_id = id_in_table(proc.fd);
	assert_int_equal(mount_facts(&table, &proc, &facts), 0);
	assert_int_equal(mount_facts(&table, &in_table, &by_table), 0);
	assert_true(facts.peer_group == by_table.peer_group && facts.master == by_table.master);
	assert_true(facts.attributes == by_table.attributes);
	assert_string_equal(facts.type, by_table.type);
	assert_string_equal(facts.type, "proc");
	assert_true(facts.root_is_whole == by_table.root_is_whole);
	assert_true(facts.parent > by_table.parent && by_table.parent > 0); /* ids of two kinds */
	for (int by = 0; by < 2; by++) {
		struct mount_facts flags = {.peer_group = 0};

		assert_int_equal(mount_flags(&table, by == 0 ? &proc : &in_table, &flags), 0);
		assert_true(flags.peer_group == facts.peer_group && flags.master == facts.master);
		assert_true(flags.attributes == facts.attributes);
	}
	assert_int_equal(mount_has_submounts(&table, &proc), mount_has_submounts(&table, &in_table));
	in_table.mount_id = UINT32_MAX;
	assert_int_equal(mount_facts(&table, &in_table, &by_table), -ENOENT);
	assert_int_equal(mount_has_submounts(&table, &in_table), 0);
	(void)close(table.fd);
}

TEST(attributes_are_compared_one_by_one)
{
	/* that owners are mapped restricts nothing, nor does noatime */
	static const uint64_t attributes[] = {SYS_MOUNT_ATTR_RDONLY, SYS_MOUNT_ATTR_NOSUID,
					      SYS_MOUNT_ATTR_NODEV, SYS_MOUNT_ATTR_NOEXEC,
					      SYS_MOUNT_ATTR_NOSYMFOLLOW};

	for (unsigned int has = 0; has < 1U << ARRAY_SIZE(attributes); has++) {
		for (unsigned int wanted = 0; wanted < 1U << ARRAY_SIZE(attributes); wanted++) {
			struct mount_facts facts = {.attributes = SYS_MOUNT_ATTR_IDMAP};
			uint64_t want = 0x10;

			for (size_t i = 0; i < ARRAY_SIZE(attributes); i++) {
				facts.attributes |= (has >> i & 1) != 0 ? attributes[i] : 0;
				want |= (wanted >> i & 1) != 0 ? attributes[i] : 0;
			}
			assert_int_equal(mount_shows(&facts, want), has == wanted);
		}
	}
}

TEST_GROUP(set_up, tear_down)

/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of sockets: what is found in it, what is passed over, and what happens when it goes. */

#include "failing_folder.h"
#include "yard.h"

#include "csi/csi_client.h"
#include "service/dir.h"

#include <fcntl.h>
#include <sys/stat.h>

static unsigned int instances(const struct yard *y)
{
	static struct plugin_instance_info list[PLUGINS_MAX * PLUGIN_INSTANCES_MAX];

	return (unsigned int)plugins_instances(y->plugins, list, ARRAY_SIZE(list));
}

static void touch(const struct yard *y, const char *id, const char *name)
{
	int fd = open(yard_path(y, id, name), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	(void)close(fd);
}

YARD_TEST(only_sockets_with_the_suffix_are_plugins)
{
	yard_start(y);
	yard_mkdir(y, "a");
	touch(y, "a", "file.sock");
	assert_int_equal(mkdir(yard_path(y, "a", "dir.sock"), 0700), 0);
	yard_bind(y, "a", "socket");
	yard_bind(y, "a", ".sock");
	yard_bind(y, "a", ".hidden.sock");
	yard_bind(y, "a", "real.sock");
	{
		char target[512];

		(void)str_copy(target, sizeof(target), yard_path(y, "a", "real.sock"));
		assert_int_equal(symlink(target, yard_path(y, "a", "link.sock")), 0);
	}
	YARD_UNTIL(y, instances(y) == 1);
	yard_idle(y, 60);
	assert_int_equal(instances(y), 1);
	assert_non_null(yard_instance(y, "a", "real.sock"));
}

YARD_TEST(folders_that_are_no_ids_are_passed_over)
{
	static const char *const names[] = {"native", "Upper", "a_b", "a..b", "-a"};
	char path[TEMP_PATH_SIZE];

	yard_start(y);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		yard_bind(y, names[i], "csi.sock");
	yard_bind(y, "a", "csi.sock");
	/* a folder elsewhere */
	assert_int_equal(symlink(yard_path(y, "a", "."), temp_dir_path(path, y->dir, "link")), 0);
	touch(y, ".", "file");
	YARD_UNTIL(y, instances(y) == 1);
	yard_idle(y, 60);
	assert_int_equal(instances(y), 1);
	assert_non_null(yard_entry(y, "a"));
}

TEST_ON(earlier_sockets_are_found_newest_first, struct yard, y, yard_setup, yard_teardown)
{
	static const struct timespec before[] = {{.tv_sec = 1},
						 {.tv_sec = 1}}; /* the file system's clock is coarse */
	struct fake_csi_plugin *newest;

	(void)yard_plugin(y, "a", "z-old.sock");
	assert_int_equal(utimensat(AT_FDCWD, yard_path(y, "a", "z-old.sock"), before, 0), 0);
	newest = yard_plugin(y, "a", "a-new.sock");
	newest->version = "2";
	yard_start(y);
	YARD_UNTIL(y, yard_is_healthy(y, "a") && instances(y) == 2 &&
			      str_eq(yard_instance(y, "a", "z-old.sock")->state, "healthy") &&
			      str_eq(yard_instance(y, "a", "a-new.sock")->state, "healthy"));
	YARD_UNTIL(y, str_eq(yard_entry(y, "a")->provider_version, "2"));
}

YARD_TEST(a_folder_that_is_not_there_yet_is_waited_for)
{
	assert_int_equal(rmdir(y->dir), 0);
	yard_start(y);
	yard_idle(y, 60);
	assert_int_equal(mkdir(y->dir, 0700), 0);
	(void)yard_plugin(y, "a", "csi.sock");
	YARD_UNTIL(y, yard_is_healthy(y, "a"));
}

TEST_ON(a_folder_that_is_replaced_is_watched_anew, struct yard, y, yard_setup, yard_teardown)
{
	yard_start(y);
	(void)yard_plugin(y, "a", "csi.sock");
	YARD_UNTIL(y, yard_is_healthy(y, "a"));
	/* the plugin's own folder */
	yard_rmdir(y, "a");
	yard_bind(y, "a", "csi.sock");
	YARD_UNTIL(y, instances(y) == 1 && str_eq(yard_instance(y, "a", "csi.sock")->state, "healthy"));
	yard_idle(y, 60);
	yard_unbind(y, "a", "csi.sock");
	YARD_UNTIL(y, instances(y) == 0);
	/* the folder of folders */
	yard_rmdir(y, "a");
	assert_int_equal(rmdir(y->dir), 0);
	yard_idle(y, 60);
	assert_int_equal(mkdir(y->dir, 0700), 0);
	yard_bind(y, "a", "csi.sock");
	YARD_UNTIL(y, yard_is_healthy(y, "a"));
}

YARD_TEST(plugins_stay_while_their_folder_cannot_be_read_to_its_end)
{
	yard_start(y);
	(void)yard_plugin(y, "a", "csi.sock");
	YARD_UNTIL(y, yard_is_healthy(y, "a"));
	folder_error = EIO;
	folder_is_at_once = true;
	touch(y, ".", "file"); /* has it read again */
	touch(y, "a", "file");
	yard_idle(y, 60);
	folder_error = 0;
	assert_int_equal(instances(y), 1);
}

YARD_TEST(removing_the_folder_ends_plugins_but_keeps_their_facts)
{
	yard_start(y);
	(void)yard_plugin(y, "a", "csi.sock");
	YARD_UNTIL(y, yard_is_healthy(y, "a"));
	yard_rmdir(y, "a");
	assert_int_equal(rmdir(y->dir), 0);
	YARD_UNTIL(y, !yard_is_healthy(y, "a"));
	assert_int_equal(instances(y), 0);
	assert_int_equal(mkdir(y->dir, 0700), 0);
	YARD_UNTIL(y, !yard_entry(y, "a"));
	assert_int_equal(y->drops, 1);
}

YARD_TEST(more_ids_than_there_is_room_for_are_passed_over)
{
	char id[16], first[16];

	yard_start(y);
	for (unsigned int i = 0; i < PLUGINS_MAX; i++) {
		(void)snprintf(id, sizeof(id), "p%u", i);
		yard_bind(y, id, "csi.sock");
	}
	YARD_UNTIL(y, instances(y) == PLUGINS_MAX);
	yard_bind(y, "more", "csi.sock");
	yard_idle(y, 80);
	assert_int_equal(instances(y), PLUGINS_MAX);
	assert_null(yard_entry(y, "more"));
	/* one goes, and there is room as soon as somebody looks */
	(void)snprintf(first, sizeof(first), "p%u", 0);
	yard_rmdir(y, first);
	YARD_UNTIL(y, !yard_entry(y, first));
	yard_bind(y, "more", "again.sock");
	YARD_UNTIL(y, yard_entry(y, "more"));
}

YARD_TEST(of_more_sockets_than_there_is_room_for_the_newest_are_taken)
{
	char name[32];

	for (unsigned int i = 0; i < PLUGIN_INSTANCES_MAX + 1; i++) {
		struct timespec times[2] = {{.tv_sec = 1000 + i}, {.tv_sec = 1000 + i}};

		(void)snprintf(name, sizeof(name), "%u.sock", i);
		yard_bind(y, "a", name);
		assert_int_equal(utimensat(AT_FDCWD, yard_path(y, "a", name), times, 0), 0);
	}
	yard_start(y);
	YARD_UNTIL(y, instances(y) == PLUGIN_INSTANCES_MAX);
	assert_null(yard_instance(y, "a", "0.sock"));
	assert_non_null(yard_instance(y, "a", "1.sock"));
	/* exactly as many as there is room for */
	yard_unbind(y, "a", "1.sock");
	YARD_UNTIL(y, yard_instance(y, "a", "0.sock"));
	assert_int_equal(instances(y), PLUGIN_INSTANCES_MAX);
}

YARD_TEST(names_have_their_limits)
{
	char name[128];
	size_t room = 107 - strlen(y->dir) - strlen("/a/");

	yard_start(y);
	if (room > SERVICE_SOCKET_NAME_SIZE - 1)
		room = SERVICE_SOCKET_NAME_SIZE - 1;
	memset(name, 'x', sizeof(name));
	(void)str_copy(name + room - 5, 6, ".sock");
	yard_bind(y, "a", name);
	YARD_UNTIL(y, yard_instance(y, "a", name));
	memset(name, 'x', sizeof(name));
	(void)str_copy(name + room + 1 - 5, 6, ".sock");
	yard_bind(y, "a", "short.sock");
	assert_int_equal(rename(yard_path(y, "a", "short.sock"), ({
					static char to[512];
					(void)str_copy(to, sizeof(to), yard_path(y, "a", name));
					to;
				})),
			 0);
	yard_idle(y, 60);
	assert_int_equal(instances(y), 1);
}

YARD_TEST(a_folder_full_of_files_costs_no_more_than_its_limit)
{
	char name[32];

	for (unsigned int i = 0; i < SERVICE_DIR_ENTRIES_MAX + 50; i++) {
		(void)snprintf(name, sizeof(name), "f%u", i);
		yard_mkdir(y, "a");
		touch(y, "a", name);
	}
	(void)yard_plugin(y, "b", "csi.sock");
	yard_start(y);
	YARD_UNTIL(y, yard_is_healthy(y, "b"));
}

/* Hidden files are passed over, and read all the same. */
YARD_TEST(hidden_files_count_against_the_limit)
{
	struct service_socket sockets[REGISTRY_MAX];
	struct scan_reported told = {.kind = &csi_kind};
	char name[32];
	size_t n = 0;

	yard_mkdir(y, "a");
	for (unsigned int i = 0; i < SERVICE_DIR_ENTRIES_MAX; i++) {
		(void)snprintf(name, sizeof(name), ".f%u", i);
		touch(y, "a", name);
	}
	assert_int_equal(scan_sockets(y->dir, "a", &told, sockets, &n), 0);
	assert_int_equal(told.hashes[SCAN_TOO_MANY], 0);
	touch(y, "a", ".more");
	assert_int_equal(scan_sockets(y->dir, "a", &told, sockets, &n), 0);
	assert_int_not_equal(told.hashes[SCAN_TOO_MANY], 0);
	assert_int_equal(n, 0);
}

/* More events than the kernel keeps: what was lost is looked for. */
YARD_TEST(lost_notifications_are_made_up_for)
{
	int64_t limit = 16384;
	FILE *file = fopen("/proc/sys/fs/inotify/max_queued_events", "re");
	char text[32] = "";

	if (file && fgets(text, sizeof(text), file))
		limit = strtol(text, NULL, 10);
	if (file)
		(void)fclose(file);
	if (limit > 100000)
		skip(); /* it would take minutes */
	yard_start(y);
	yard_mkdir(y, "a");
	yard_mkdir(y, "b");
	yard_idle(y, 60);
	for (int64_t i = 0; i < limit / 2 + 100; i++) {
		touch(y, "a", i % 2 ? "x" : "y");
		assert_int_equal(unlink(yard_path(y, "a", i % 2 ? "x" : "y")), 0);
	}
	/* of this one there is no word */
	(void)yard_plugin(y, "b", "csi.sock");
	(void)yard_plugin(y, "c", "csi.sock");
	YARD_UNTIL(y, yard_is_healthy(y, "b") && yard_is_healthy(y, "c"));
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "temp_dir.h"
#include "unit.h"

#include "base/fd.h"
#include "privileged/procfs.h"

#include <fcntl.h>
#include <sys/stat.h>

TEST(an_own_instance_is_this_machines)
{
	cleanup_close int fd = procfs_make();
	cleanup_close int known = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char own[UUID_SIZE], text[UUID_SIZE];

	assert_int_equal(procfs_boot_id(known, text), 0);
	if (geteuid() != 0) {
		assert_int_equal(fd, -EPERM);
		return;
	}
	assert_true(fd >= 0);
	assert_int_equal(procfs_boot_id(fd, own), 0);
	assert_string_equal(own, text);
	assert_int_equal(procfs_is_initial(fd), procfs_is_initial(known));
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

TEST(a_directory_that_is_no_procfs_is_refused)
{
	static const char *const bad[] = {"", "x", "0a1b2c3d-1111-2222-3333-44445555666\n",
					  "0a1b2c3d-1111-2222-3333-4444555566667",
					  "0a1b2c3d-1111-2222-3333-44445555666g\n"};
	static const char good[] = "0a1b2c3d-1111-2222-3333-444455556666\n";
	char dir[TEMP_DIR_SIZE], id[UUID_SIZE] = "untouched";
	int fd;

	temp_dir_make(dir);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_false(procfs_is_initial(fd));
	assert_int_equal(procfs_boot_id(fd, id), -ENOENT);
	assert_int_equal(mkdirat(fd, "sys", 0700), 0);
	assert_int_equal(mkdirat(fd, "sys/kernel", 0700), 0);
	assert_int_equal(mkdirat(fd, "sys/kernel/random", 0700), 0);
	for (size_t i = 0; i <= ARRAY_SIZE(bad); i++) {
		const char *text = i < ARRAY_SIZE(bad) ? bad[i] : good;
		int file = openat(fd, "sys/kernel/random/boot_id", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
				  0600);

		assert_int_equal(fd_write_all(file, text, strlen(text)), 0);
		(void)close(file);
		assert_int_equal(procfs_boot_id(fd, id), text == good ? 0 : -EBADMSG);
		assert_string_equal(id, text == good ? "0a1b2c3d-1111-2222-3333-444455556666" : "untouched");
	}
	assert_int_equal(unlinkat(fd, "sys/kernel/random/boot_id", 0), 0);
	assert_int_equal(unlinkat(fd, "sys/kernel/random", AT_REMOVEDIR), 0);
	assert_int_equal(unlinkat(fd, "sys/kernel", AT_REMOVEDIR), 0);
	assert_int_equal(unlinkat(fd, "sys", AT_REMOVEDIR), 0);
	(void)close(fd);
	temp_dir_remove(dir);
}

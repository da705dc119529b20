/* SPDX-License-Identifier: Apache-2.0 */
#include "volume.h"

#include "ticket_check.h"

#include "base/sys.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static void sign_for(struct ticket *ticket, const char *profile, const struct mh_source *source)
{
	(void)str_copy(ticket->profile, sizeof(ticket->profile), profile);
	ticket_source_digest(source, ticket->source_digest);
	sign_ticket(ticket);
}

struct mh_stage stage_of(const char *profile, struct mh_source source, bool read_only)
{
	struct mh_stage req = stage_disk();

	(void)str_copy(req.profile, sizeof(req.profile), profile);
	req.source = source;
	req.read_only = read_only;
	sign_for(&req.ticket, profile, &source);
	return req;
}

struct mh_publish publish_of(const char *profile, struct mh_source source, bool read_only)
{
	struct mh_publish req = publish_disk();

	(void)str_copy(req.profile, sizeof(req.profile), profile);
	req.source = source;
	req.read_only = read_only;
	sign_for(&req.ticket, profile, &source);
	return req;
}

struct mount_entry shown(const char *point)
{
	struct mount_entry entry = {.id = 0};

	if (!find_mount(point, &entry))
		fail_msg("nothing is mounted at %s", point);
	return entry;
}

void assert_words(const char *options, const char *present, const char *absent)
{
	char words[256];
	char *rest = words;
	char *word;

	(void)str_format(words, sizeof(words), "%s", present);
	while ((word = strsep(&rest, ",")))
		if (*word && !mount_option_is_set(options, word))
			fail_msg("%s is not among %s", word, options);
	(void)str_format(words, sizeof(words), "%s", absent);
	rest = words;
	while ((word = strsep(&rest, ",")))
		if (*word && mount_option_is_set(options, word))
			fail_msg("%s is among %s", word, options);
}

void assert_inert(const char *more)
{
	const struct mount_entry entry = shown(STAGED);

	assert_words(entry.options, "nosuid,nodev,noexec,nosymfollow", "");
	assert_words(entry.options, more, "");
	assert_int_equal(entry.peer_group, 0);
	assert_int_equal(entry.master, 0);
}

static void take_away_from(struct agent *agent, struct mh_unstage req)
{
	expect_unpublish(agent, unpublish("vol-1"), MH_OK);
	expect_unstage(agent, req, MH_OK);
	assert_int_equal(count_mounts(), 0);
}

void take_away(struct agent *agent)
{
	take_away_from(agent, unstage("vol-1"));
}

void take_away_plugins(struct agent *agent)
{
	take_away_from(agent, unstage_plugins("vol-1"));
}

/* A user namespace in which @map maps users and groups; its process has ended. */
static int make_user_namespace(const char *map)
{
	static const char *const files[] = {"uid_map", "gid_map"};
	char path[64];
	pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
	int ns, fd;

	assert_true(pid >= 0);
	if (pid == 0)
		for (;;)
			(void)pause();
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		(void)str_format(path, sizeof(path), "/proc/%d/%s", (int)pid, files[i]);
		fd = open(path, O_WRONLY | O_CLOEXEC);
		assert_true(fd >= 0 && write(fd, map, strlen(map)) > 0);
		(void)close(fd);
	}
	(void)str_format(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	ns = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(ns >= 0);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	return ns;
}

bool mount_idmapped(const char *source, const char *target, const char *map)
{
	const int ns = make_user_namespace(map);
	const struct sys_mount_attr attr = {.attr_set = SYS_MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)ns};
	int fd = sys_open_tree(AT_FDCWD, source, SYS_OPEN_TREE_CLONE | O_CLOEXEC);
	int r;

	assert_true(fd >= 0);
	r = sys_mount_setattr(fd, "", AT_EMPTY_PATH, &attr);
	if (r != -EINVAL) {
		assert_int_equal(r, 0);
		assert_int_equal(sys_move_mount(fd, "", AT_FDCWD, target, SYS_MOVE_MOUNT_F_EMPTY_PATH), 0);
	}
	(void)close(fd);
	(void)close(ns);
	return r == 0;
}

int task_writes(const char *path)
{
	pid_t pid = fork();
	int status = -1;

	if (pid == 0) {
		int fd = -1;

		if (setresgid(TASK_UID, TASK_UID, TASK_UID) == 0 &&
		    setresuid(TASK_UID, TASK_UID, TASK_UID) == 0)
			fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
		_exit(fd < 0 ? errno : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WEXITSTATUS(status);
}

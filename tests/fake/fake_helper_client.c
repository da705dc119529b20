/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_helper_client.h"

#include "unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

void fake_helper_init(struct fake_helper *fake)
{
	char path[96];
	int fd;

	(void)snprintf(fake->folder, sizeof(fake->folder), "/tmp/holdfast-agent-XXXXXX");
	assert_non_null(mkdtemp(fake->folder));
	(void)snprintf(fake->path, sizeof(fake->path), "%s/helper", fake->folder);
	assert_int_equal(symlink(FAKE_HELPER_PROGRAM, fake->path), 0);
	(void)snprintf(path, sizeof(path), "%s/" FAKE_STATE_NAME, fake->folder);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, sizeof(*fake->state)), 0);
	fake->state = mmap(NULL, sizeof(*fake->state), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(fake->state != MAP_FAILED);
	close(fd);
}

static void remove_folder(const char *folder)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		(void)unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		closedir(dir);
	(void)rmdir(folder);
}

/* Only what still is a child of this process: a pid that was reaped may be somebody else's by now. */
static void end_child(pid_t pid)
{
	siginfo_t info = {0};

	if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
		return;
	if (info.si_pid == 0)
		(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}

static void serve_connections(const struct fake_helper *fake, int listener)
{
	char *const argv[] = {(char *)(uintptr_t)fake->path, NULL};

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)signal(SIGCHLD, SIG_IGN);
	for (;;) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd >= 0 && fork() == 0) {
			(void)dup2(fd, 3);
			if (fd == 3)
				(void)fcntl(3, F_SETFD, 0);
			(void)execv(fake->path, argv);
			_exit(127);
		}
		if (fd >= 0)
			close(fd);
	}
}

void fake_helper_listen(struct fake_helper *fake)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_true(listener >= 0);
	(void)snprintf(fake->socket, sizeof(fake->socket), "%s/helper.sock", fake->folder);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", fake->socket);
	assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(listener, 8), 0);
	fake->listener = fork();
	assert_true(fake->listener >= 0);
	if (fake->listener == 0)
		serve_connections(fake, listener);
	close(listener);
}

void fake_helper_release(struct fake_helper *fake)
{
	/* its children go with it */
	if (fake->listener > 0)
		end_child(fake->listener);
	for (size_t i = 0; i < FAKE_PIDS_MAX; i++) {
		if (fake->state->pids[i] > 0)
			end_child(fake->state->pids[i]);
	}
	(void)munmap(fake->state, sizeof(*fake->state));
	remove_folder(fake->folder);
}

unsigned int fake_helper_count(const struct fake_helper *fake, enum mh_op op, enum mh_status status,
			       const char *volume, const char *alloc)
{
	unsigned int n = 0;

	for (uint32_t i = 0; i < fake->state->n_log && i < FAKE_LOG_MAX; i++) {
		const struct fake_log *log = &fake->state->log[i];

		if (log->op == op && log->status == status && (!volume || strcmp(log->volume, volume) == 0) &&
		    (!alloc || strcmp(log->alloc, alloc) == 0))
			n++;
	}
	return n;
}

const struct fake_mount *fake_helper_mount(const struct fake_helper *fake, const char *volume,
					   const char *alloc, unsigned int slot)
{
	for (size_t i = 0; i < FAKE_MOUNTS_MAX; i++) {
		const struct fake_mount *mount = &fake->state->mounts[i];

		if (!mount->is_used || strcmp(mount->alloc, alloc) != 0)
			continue;
		if (alloc[0] ? mount->slot == slot : strcmp(mount->volume, volume) == 0)
			return mount;
	}
	return NULL;
}

const struct fake_folder *fake_helper_folder(const struct fake_helper *fake, const char *volume)
{
	for (size_t i = 0; i < FAKE_FOLDERS_MAX; i++) {
		const struct fake_folder *folder = &fake->state->folders[i];

		if (folder->is_used && strcmp(folder->volume, volume) == 0)
			return folder;
	}
	return NULL;
}

/* NULL: there is no such folder, or no such place in it. */
static struct fake_place *place_at(const struct fake_helper *fake, const char *path)
{
	static const char base[] = FAKE_PLUGIN_BASE "/";
	static const char other[] = FAKE_STAGE_BASE "/" MH_CSI_FOLDER "/" FAKE_OTHER_PLUGIN "/";
	char volume[MH_LABEL_SIZE] = {0};
	struct fake_folder *folder;
	size_t n;

	if (strncmp(path, base, strlen(base)) != 0 && strncmp(path, other, strlen(base)) != 0)
		return NULL;
	path += strlen(base);
	n = strcspn(path, "/");
	assert_true(n < sizeof(volume));
	memcpy(volume, path, n);
	path += n;
	folder = (struct fake_folder *)(uintptr_t)fake_helper_folder(fake, volume); /* of the same map */
	if (!folder)
		return NULL;
	if (strcmp(path, "/" MH_CSI_STAGING) == 0)
		return &folder->staging;
	if (strcmp(path, "/" MH_CSI_PUBLISH_RW) == 0)
		return &folder->targets[0];
	return strcmp(path, "/" MH_CSI_PUBLISH_RO) == 0 ? &folder->targets[1] : NULL;
}

void fake_helper_plugin(struct fake_helper *fake, const char *path, const struct fake_place *place)
{
	struct fake_place *at = place_at(fake, path);

	/* what the helper has removed the plugin may not know yet */
	if (!at && !place)
		return;
	if (!at)
		fail_msg("a plugin mounts at %s, which was not made for it", path);
	*at = place ? *place : (struct fake_place){0};
}

const struct fake_place *fake_helper_place(const struct fake_helper *fake, const char *path)
{
	const struct fake_place *at = place_at(fake, path);

	return at && at->is_mounted ? at : NULL;
}

void fake_helper_put(struct fake_helper *fake, const char *volume, const char *alloc, unsigned int slot,
		     uint32_t minor)
{
	for (size_t i = 0; i < FAKE_MOUNTS_MAX; i++) {
		struct fake_mount *mount = &fake->state->mounts[i];

		if (mount->is_used)
			continue;
		memset(mount, 0, sizeof(*mount));
		(void)snprintf(mount->volume, sizeof(mount->volume), "%s", volume);
		(void)snprintf(mount->alloc, sizeof(mount->alloc), "%s", alloc);
		mount->slot = (uint8_t)slot;
		mount->minor = minor;
		mount->is_used = true;
		return;
	}
	fail_msg("the model is full");
}

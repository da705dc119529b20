/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/scan.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/str.h"
#include "log/log.h"
#include "model/volume.h"
#include "plugins/plugin_dir.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>

#define SUFFIX ".sock"

enum { SUN_PATH_SIZE = sizeof(((struct sockaddr_un *)0)->sun_path) };

static void closedirp(DIR **dir)
{
	if (*dir)
		(void)closedir(*dir);
}

bool scan_tell(struct scan_told *told, enum scan_fault fault, const char *name)
{
	uint64_t hash = str_hash(1, name);

	if (told->hashes[fault] == hash)
		return false;
	told->hashes[fault] = hash;
	return true;
}

static int open_folder(int at, const char *path, int flags, DIR **ret)
{
	cleanup_close int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);

	if (fd < 0)
		return -errno;
	*ret = fdopendir(fd);
	if (!*ret)
		return -errno;
	(void)TAKE_FD(fd);
	return 0;
}

/* The next name that does not begin with a dot; NULL: no more, or too many. Those that do count as well:
 * reading them takes as long. */
static const char *next_name(DIR *dir, size_t *n, bool *ret_too_many)
{
	const struct dirent *entry;

	while ((entry = readdir(dir))) {
		if (str_eq(entry->d_name, ".") || str_eq(entry->d_name, ".."))
			continue;
		if (++*n > PLUGIN_DIR_ENTRIES_MAX) {
			*ret_too_many = true;
			return NULL;
		}
		if (entry->d_name[0] != '.')
			return entry->d_name;
	}
	return NULL;
}

static void tell_too_many(struct scan_told *told, const char *plugin, const char *what, unsigned int max)
{
	if (scan_tell(told, SCAN_TOO_MANY, what))
		log_ctx(LOG_WARNING, &(struct log_ctx){.op = "plugins", .plugin = plugin},
			"more than %u %s, ignoring the others", max, what);
}

static bool is_folder(int dir_fd, const char *name)
{
	struct stat st;

	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

/* PLUGIN_NATIVE is the mount helper's. */
static bool is_plugin_id(const char *name)
{
	return id_is_label(name) && !str_eq(name, PLUGIN_NATIVE);
}

int scan_folders(const char *path, struct scan_told *told, void (*see)(const char *id, void *userdata),
		 void *userdata)
{
	cleanup(closedirp) DIR *dir = NULL;
	bool too_many = false;
	size_t n = 0, n_folders = 0;
	const char *name;
	int r;

	r = open_folder(AT_FDCWD, path, 0, &dir);
	if (r < 0)
		return r;
	assert(dir);
	while ((name = next_name(dir, &n, &too_many))) {
		if (!is_folder(dirfd(dir), name))
			continue;
		if (!is_plugin_id(name)) {
			if (scan_tell(told, SCAN_BAD_NAME, name))
				log_ctx(LOG_WARNING, &(struct log_ctx){.op = "plugins"},
					"'%.64s' in %s is no plugin id, ignoring it: an id is [a-z0-9-], 1 "
					"to 63 characters, and not '" PLUGIN_NATIVE "'",
					name, path);
			continue;
		}
		if (++n_folders > PLUGIN_DIR_FOLDERS_MAX)
			break;
		see(name, userdata);
	}
	if (n_folders > PLUGIN_DIR_FOLDERS_MAX)
		tell_too_many(told, NULL, "folders of plugins", PLUGIN_DIR_FOLDERS_MAX);
	if (too_many)
		tell_too_many(told, NULL, "entries in the folder of plugins", PLUGIN_DIR_ENTRIES_MAX);
	return 0;
}

static bool has_suffix(const char *name)
{
	size_t n = strlen(name), suffix = strlen(SUFFIX);

	return n > suffix && str_eq(name + n - suffix, SUFFIX);
}

static int64_t nanoseconds(const struct timespec *time)
{
	return time->tv_sec * (int64_t)(USEC_PER_SEC * 1000) + time->tv_nsec;
}

/* A socket, as it stands; false: it is none, or one that cannot be dialled. */
static bool read_socket(int dir_fd, const char *path, const char *id, const char *name,
			struct scan_told *told, struct plugin_socket *ret)
{
	struct stat st;

	if (!has_suffix(name) || fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISSOCK(st.st_mode))
		return false;
	if (strlen(path) + strlen(id) + strlen(name) + 2 >= SUN_PATH_SIZE || !str_is_text(name) ||
	    str_copy(ret->name, sizeof(ret->name), name) < 0) {
		if (scan_tell(told, SCAN_BAD_NAME, name))
			log_ctx(LOG_WARNING, &(struct log_ctx){.op = "plugins", .plugin = id},
				"the path of socket '%.255s' is above %d bytes or its name above %d, "
				"ignoring it",
				name, SUN_PATH_SIZE - 1, PLUGIN_SOCKET_NAME_SIZE - 1);
		return false;
	}
	ret->dev = st.st_dev;
	ret->ino = st.st_ino;
	ret->born_ns = nanoseconds(&st.st_mtim);
	ret->changed_ns = nanoseconds(&st.st_ctim);
	return true;
}

static bool is_older(const struct plugin_socket *a, const struct plugin_socket *b)
{
	return a->born_ns != b->born_ns ? a->born_ns < b->born_ns : strcmp(a->name, b->name) < 0;
}

/* Keep @list sorted; a full one loses its oldest. */
static void insert(struct plugin_socket list[static REGISTRY_MAX], size_t *n, const struct plugin_socket *one)
{
	size_t at = 0;

	while (at < *n && is_older(&list[at], one))
		at++;
	if (*n == REGISTRY_MAX) {
		if (at == 0)
			return;
		at--;
		memmove(&list[0], &list[1], at * sizeof(list[0]));
	} else {
		memmove(&list[at + 1], &list[at], (*n - at) * sizeof(list[0]));
		++*n;
	}
	list[at] = *one;
}

int scan_sockets(const char *path, const char *id, struct scan_told *told,
		 struct plugin_socket ret[static REGISTRY_MAX], size_t *ret_n)
{
	cleanup(closedirp) DIR *root = NULL;
	cleanup(closedirp) DIR *dir = NULL;
	struct plugin_socket one = {0};
	bool too_many = false;
	size_t n = 0, n_sockets = 0;
	const char *name;
	int r;

	r = open_folder(AT_FDCWD, path, 0, &root);
	if (r >= 0) {
		assert(root);
		r = open_folder(dirfd(root), id, O_NOFOLLOW, &dir);
	}
	if (r < 0) {
		if (r != -ENOENT && scan_tell(told, SCAN_UNREADABLE, id))
			log_ctx(LOG_WARNING, &(struct log_ctx){.op = "plugins", .plugin = id},
				"the plugin's folder cannot be read (%s): the agent needs r-x on it, see "
				"holdfast-agent(8)",
				strerror(-r));
		return r;
	}
	assert(dir);
	*ret_n = 0;
	while ((name = next_name(dir, &n, &too_many))) {
		if (!read_socket(dirfd(dir), path, id, name, told, &one))
			continue;
		n_sockets++;
		insert(ret, ret_n, &one);
	}
	if (n_sockets > REGISTRY_MAX)
		tell_too_many(told, id, "sockets of the plugin: the newest are used", REGISTRY_MAX);
	if (too_many)
		tell_too_many(told, id, "entries in the plugin's folder", PLUGIN_DIR_ENTRIES_MAX);
	return 0;
}

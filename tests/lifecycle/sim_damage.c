/* SPDX-License-Identifier: Apache-2.0 */
/* What happens to a server's state folder while it is not running: bits flip, the log is cut or removed,
 * files come back from an earlier day, or are gone. Keys and certificates stay. */

#include "sim.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FRACTION = 1 << 30, FILE_MAX = 64 << 20 };

#define STORE "holdfast.db"
#define WAL STORE "-wal"
#define MARK "holdfast.mark"
#define COPIES "copies"

/* All that a server writes there, but for a file whose size is all there is to it (holdfast.reserve). */
static const char *const state_files[] = {STORE, WAL, STORE "-shm", MARK, "epoch.pending", "restore.pending"};

const char *const sim_damage_names[DAMAGE_N] = {
	[DAMAGE_FLIP_DB] = "bit of the database flipped",
	[DAMAGE_FLIP_WAL] = "bit of the log flipped",
	[DAMAGE_CUT_WAL] = "log cut",
	[DAMAGE_NO_WAL] = "log removed",
	[DAMAGE_OLD_DB] = "older database",
	[DAMAGE_OLD_DB_NO_MARK] = "older database, no mark",
	[DAMAGE_OLD_FOLDER] = "older folder",
	[DAMAGE_NO_STORE] = "store lost",
	[DAMAGE_NO_FOLDER] = "folder lost",
};

enum sim_gap sim_damage_gap(enum sim_damage damage)
{
	static const enum sim_gap gaps[DAMAGE_N] = {
		[DAMAGE_OLD_DB_NO_MARK] = SIM_GAP_NO_MARK,
		[DAMAGE_OLD_FOLDER] = SIM_GAP_OLDER_STORE,
		[DAMAGE_NO_FOLDER] = SIM_GAP_EMPTY_STORE,
	};

	return gaps[damage];
}

static const char *path_of(const struct sim *sim, const char *folder, const char *name,
			   char ret[static PATH_MAX])
{
	(void)str_format(ret, PATH_MAX, "%s%s/%s", sim->dir, folder, name);
	return ret;
}

static void remove_file(const struct sim *sim, const char *name)
{
	char path[PATH_MAX];

	(void)unlink(path_of(sim, "", name, path)); /* most are not always there */
}

/* What is not at @from is not at @to either. */
static void copy_file(const struct sim *sim, const char *from, const char *to, const char *name)
{
	cleanup_free char *bytes = NULL;
	char source[PATH_MAX];
	char target[PATH_MAX];
	size_t n = 0;

	(void)path_of(sim, to, name, target);
	if (file_read(path_of(sim, from, name, source), FILE_MAX, &bytes, &n) < 0)
		(void)unlink(target);
	else if (file_write_atomic(target, 0600, bytes, n) < 0)
		sim_fail(sim, "%s cannot be written", target);
}

void sim_copy_folder(struct sim *sim)
{
	char path[PATH_MAX];
	int status;

	(void)mkdir(path_of(sim, "", COPIES, path), 0700);
	if (kill(sim->server_pid, SIGSTOP) < 0 || waitpid(sim->server_pid, &status, WUNTRACED) < 0)
		sim_fail(sim, "the server cannot be stopped for a copy");
	for (size_t i = 0; i < ARRAY_SIZE(state_files); i++)
		copy_file(sim, "", "/" COPIES, state_files[i]);
	(void)kill(sim->server_pid, SIGCONT);
	sim->has_folder_copy = true;
	sim->copy_epoch = sim->epoch;
}

static void put_back(struct sim *sim, const char *name)
{
	copy_file(sim, "/" COPIES, "", name);
}

static void flip_bit(struct sim *sim, const char *name)
{
	uint64_t where = sim_random(sim, FRACTION);
	int bit = (int)sim_random(sim, 8);
	cleanup_close int fd = -EBADF;
	char path[PATH_MAX];
	struct stat st;
	uint8_t byte;
	off_t at;

	fd = open(path_of(sim, "", name, path), O_RDWR | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size == 0)
		return;
	at = (off_t)(where * (uint64_t)st.st_size / FRACTION);
	if (pread(fd, &byte, 1, at) != 1)
		sim_fail(sim, "%s cannot be read", path);
	byte ^= (uint8_t)(1 << bit);
	if (pwrite(fd, &byte, 1, at) != 1)
		sim_fail(sim, "%s cannot be written", path);
}

static void cut(struct sim *sim, const char *name)
{
	uint64_t where = sim_random(sim, FRACTION);
	char path[PATH_MAX];
	struct stat st;

	if (stat(path_of(sim, "", name, path), &st) < 0)
		return;
	if (truncate(path, (off_t)(where * (uint64_t)st.st_size / FRACTION)) < 0)
		sim_fail(sim, "%s cannot be cut", path);
}

static void put_store_back(struct sim *sim)
{
	put_back(sim, STORE);
	put_back(sim, WAL);
	remove_file(sim, STORE "-shm");
}

void sim_damage(struct sim *sim, enum sim_damage damage)
{
	sim->damages[damage]++;
	switch (damage) {
	case DAMAGE_FLIP_DB:
		flip_bit(sim, STORE);
		break;
	case DAMAGE_FLIP_WAL:
		flip_bit(sim, WAL);
		break;
	case DAMAGE_CUT_WAL:
		cut(sim, WAL);
		break;
	case DAMAGE_NO_WAL:
		remove_file(sim, WAL);
		break;
	case DAMAGE_OLD_DB_NO_MARK:
		remove_file(sim, MARK);
		put_store_back(sim);
		break;
	case DAMAGE_OLD_DB:
		put_store_back(sim);
		break;
	case DAMAGE_OLD_FOLDER:
		for (size_t i = 0; i < ARRAY_SIZE(state_files); i++)
			put_back(sim, state_files[i]);
		break;
	case DAMAGE_NO_STORE:
		remove_file(sim, STORE);
		remove_file(sim, WAL);
		remove_file(sim, STORE "-shm");
		break;
	case DAMAGE_NO_FOLDER:
		for (size_t i = 0; i < ARRAY_SIZE(state_files); i++)
			remove_file(sim, state_files[i]);
		break;
	case DAMAGE_N:
		sim_fail(sim, "no damage");
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Folders of tests. */

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>

enum { FOLDER_SIZE = 64 };

/** Make an empty folder, in memory where there is room: what is asked of a server or an agent is seldom how
 * fast the disk is, and each of them waits for it dozens of times a second. The caller removes it; whoever
 * may kill the program sets HOLDFAST_TEST_FOLDER, where it is made then, and removes that. */
static inline void folder_make(char ret[static FOLDER_SIZE])
{
	static const unsigned long long enough = 1ULL << 30;
	struct statvfs memory;
	int is_roomy = statvfs("/dev/shm", &memory) == 0 &&
		       (unsigned long long)memory.f_bavail * memory.f_frsize >= enough;
	const char *folder = getenv("HOLDFAST_TEST_FOLDER"); // NOLINT(concurrency-mt-unsafe): nobody sets it

	(void)snprintf(ret, FOLDER_SIZE, "%s/holdfast-XXXXXX",
		       folder	  ? folder
		       : is_roomy ? "/dev/shm"
				  : "/tmp");
	if (!mkdtemp(ret))
		abort();
}

static inline int folder_remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

/** Remove @path with all that is in it. */
static inline void folder_remove(const char *path)
{
	(void)nftw(path, folder_remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

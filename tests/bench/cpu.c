/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/str.h"

#include <dirent.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { STAT_MAX = 256 };

static double run_time_us(pid_t pid, const char *thread)
{
	char path[PATH_MAX];
	cleanup_free char *text = NULL;
	uint64_t ns = 0;

	(void)str_format(path, sizeof(path), "/proc/%d/task/%s/schedstat", pid, thread);
	if (file_read(path, STAT_MAX, &text, NULL) < 0)
		return 0; /* it ended meanwhile */
	text[strcspn(text, " ")] = '\0';
	if (parse_u64(text, 0, UINT64_MAX, &ns) < 0)
		return 0;
	return (double)ns / 1000;
}

struct cpu cpu_used(pid_t pid)
{
	struct cpu used = {0};
	char path[PATH_MAX];
	char name[32];
	const struct dirent *entry;
	DIR *dir;

	(void)str_format(path, sizeof(path), "/proc/%d/task", pid);
	(void)str_format(name, sizeof(name), "%d", pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		if (str_eq(entry->d_name, name))
			used.main_us += run_time_us(pid, entry->d_name);
		else if (entry->d_name[0] != '.')
			used.others_us += run_time_us(pid, entry->d_name);
	}
	if (dir)
		(void)closedir(dir);
	return used;
}

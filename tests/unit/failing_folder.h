/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Folders that cannot be read to their end: a program includes this once, and wraps readdir. */

#include "unit.h"

#include <dirent.h>
#include <errno.h>

struct dirent *__real_readdir(DIR *folder);

static int folder_error;       /* of readdir() where the folder ends; 0: no error */
static bool folder_is_at_once; /* instead, of its first entry */

WRAPPED(struct dirent *, readdir, DIR *folder)
{
	int before = errno;
	struct dirent *entry = folder_error != 0 && folder_is_at_once ? NULL : __real_readdir(folder);

	errno = entry || folder_error == 0 ? before : folder_error;
	return entry;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/credential.h"

#include "base/str.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int credential_path(const char *name, char *ret, size_t size)
{
	const char *folder = getenv("CREDENTIALS_DIRECTORY");
	char path[PATH_MAX];

	if (!folder || folder[0] != '/')
		return -ENOENT;
	if (str_format(path, sizeof(path), "%s/%s", folder, name) < 0)
		return -ENAMETOOLONG;
	if (access(path, F_OK) < 0)
		return -ENOENT;
	return str_copy(ret, size, path);
}

bool credential_choose(const char *name, const char *fallback, char *path, size_t size)
{
	if (path[0] != '\0' || credential_path(name, path, size) == 0)
		return false;
	(void)str_copy(path, size, fallback);
	return true;
}

bool credential_is_one(const char *path)
{
	const char *folder = getenv("CREDENTIALS_DIRECTORY");
	size_t n = folder ? strlen(folder) : 0;

	return n > 0 && str_starts_with(path, folder) && path[n] == '/';
}

bool credential_is_private(const char *path, const struct stat *st)
{
	if ((st->st_mode & (S_IRWXG | S_IRWXO)) == 0)
		return true;
	/* the mask of an access list shows as the rights of the group, here root's own */
	return credential_is_one(path) && st->st_uid == 0 && st->st_gid == 0 &&
	       (st->st_mode & (S_IWGRP | S_IXGRP | S_IRWXO)) == 0;
}
